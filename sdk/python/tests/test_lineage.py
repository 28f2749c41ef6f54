"""Which checkpoint is continued without a controller, and why not another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rtj import keys, records
from rtj.formats import Layout, Manifest
from rtj.lineage import Selection, another_fits, select
from rtj.records import RestorePoint
from rtj.stores import RetryingStore, open_store
from saved import save
from world import RUN


@pytest.fixture
def store(tmp_path: Path) -> RetryingStore:
    return open_store(str(tmp_path), "run")


def begin(store: RetryingStore, attempt: int, restore: str | None = None) -> None:
    point = None
    if restore is not None:
        id = keys.CheckpointID.parse(restore)
        point = RestorePoint(restore, id.attempt, id.step)
    start = records.Start(attempt, point, 1, Layout(), "2026-03-01T09:40:00Z")
    store.put(keys.start_key(attempt), start.encode())


def checkpoint(store: RetryingStore, attempt: int, step: int) -> str:
    return save(store, [{"model": {"w": np.full(2, step)}}], attempt=attempt, step=step)


def chosen(store: RetryingStore, **change: object) -> Selection:
    arguments = {"run": RUN, "identity": {}, "world_size": 1, "layout": Layout()} | change
    return select(store, **arguments)  # type: ignore[arg-type]


def restored(selection: Selection) -> str | None:
    return None if selection.restore is None else selection.restore.checkpoint


def test_an_empty_store_starts_attempt_1_afresh(store: RetryingStore) -> None:
    assert chosen(store) == Selection(attempt=1)


def test_the_newest_step_of_the_newest_attempt_is_continued(store: RetryingStore) -> None:
    begin(store, 1)
    first = checkpoint(store, 1, 900)
    begin(store, 2, first)
    newest = checkpoint(store, 2, 1000)
    selection = chosen(store)
    assert (selection.attempt, restored(selection)) == (3, newest)


def test_an_attempt_that_committed_nothing_hides_nothing(store: RetryingStore) -> None:
    begin(store, 1)
    newest = checkpoint(store, 1, 900)
    begin(store, 2, newest)
    begin(store, 3, newest)
    selection = chosen(store)
    assert (selection.attempt, restored(selection)) == (4, newest)


def test_a_zombie_that_commits_late_is_on_another_branch(store: RetryingStore) -> None:
    """Attempt 1 goes on after attempt 2 has begun from its step 900, and saves step 2000."""
    begin(store, 1)
    left = checkpoint(store, 1, 900)
    begin(store, 2, left)
    own = checkpoint(store, 2, 950)
    checkpoint(store, 1, 2000)
    assert restored(chosen(store)) == own
    store.put(keys.CheckpointID.parse(own).quarantine_key, b"{}")
    selection = chosen(store)
    assert restored(selection) == left, "not what the zombie wrote"
    assert "in quarantine; delete quarantine/" in selection.passed_over[0]


def test_times_do_not_matter(store: RetryingStore, tmp_path: Path) -> None:
    begin(store, 1)
    older = checkpoint(store, 1, 5)
    newer = checkpoint(store, 1, 6)
    (tmp_path / "run" / "manifests" / f"{older}.json").touch()
    assert restored(chosen(store)) == newer


def test_a_torn_save_is_no_candidate(store: RetryingStore) -> None:
    begin(store, 1)
    whole = checkpoint(store, 1, 200)
    torn = checkpoint(store, 1, 300)
    store.delete(keys.CheckpointID.parse(torn).manifest_key)
    selection = chosen(store)
    assert (restored(selection), selection.passed_over) == (whole, [])


@pytest.mark.parametrize("missing", ["00/r0-0", "00/r0-index.json"])
def test_one_with_a_missing_object_is_passed_over_with_its_name(store: RetryingStore, missing: str) -> None:
    begin(store, 1)
    whole = checkpoint(store, 1, 200)
    broken = checkpoint(store, 1, 300)
    manifest = Manifest.decode(store.get(keys.CheckpointID.parse(broken).manifest_key), broken)
    store.delete(manifest.prefix + missing)
    selection = chosen(store)
    assert restored(selection) == whole
    assert broken in selection.passed_over[0]
    assert f"{missing} is missing" in selection.passed_over[0]


def test_one_with_a_short_object_is_passed_over(store: RetryingStore) -> None:
    begin(store, 1)
    whole = checkpoint(store, 1, 200)
    broken = checkpoint(store, 1, 300)
    manifest = Manifest.decode(store.get(keys.CheckpointID.parse(broken).manifest_key), broken)
    store.put(manifest.prefix + "00/r0-0", b"short")
    selection = chosen(store)
    assert restored(selection) == whole
    assert "data object 00/r0-0 is not the one that was saved" in selection.passed_over[0]


def test_a_manifest_cut_short_is_passed_over(store: RetryingStore) -> None:
    begin(store, 1)
    whole = checkpoint(store, 1, 200)
    cut = keys.CheckpointID.parse(checkpoint(store, 1, 300))
    store.put(cut.manifest_key, store.get(cut.manifest_key)[:-40])
    selection = chosen(store)
    assert restored(selection) == whole
    assert "its name says" in selection.passed_over[0]


def test_a_manifest_of_a_future_version_is_passed_over(store: RetryingStore) -> None:
    begin(store, 1)
    whole = checkpoint(store, 1, 200)
    later = store.get(keys.CheckpointID.parse(checkpoint(store, 1, 300)).manifest_key).replace(b'"1.0"', b'"2.0"')
    store.put(keys.CheckpointID.of(1, 400, "0" * 12, later).manifest_key, later)
    selection = chosen(store)
    assert restored(selection) != whole
    assert "schemaVersion is '2.0'" in selection.passed_over[0]


def test_another_runs_and_another_identitys_are_passed_over(store: RetryingStore) -> None:
    begin(store, 1)
    checkpoint(store, 1, 200)
    selection = chosen(store, run=RUN | {"runID": "another"})
    assert (restored(selection), selection.candidates) == (None, 1)
    assert "belongs to another run" in selection.passed_over[0]
    selection = chosen(store, identity={"codeVersion": "v8"})
    assert "identity codeVersion is 'v8', the checkpoint declares none" in selection.passed_over[0]


def test_only_the_run_id_and_the_declared_identity_are_compared(store: RetryingStore) -> None:
    begin(store, 1)
    wide = {"codeVersion": "v7", "dataVersion": "d1"}
    made = save(store, [{"model": {"w": np.ones(2)}}], step=200, identity=wide)
    assert restored(chosen(store, run=RUN | {"name": "renamed"})) == made
    assert restored(chosen(store)) == made
    assert restored(chosen(store, identity={"codeVersion": "v7"})) == made
    selection = chosen(store, identity={"codeVersion": "v7", "dataVersion": "d2"})
    assert restored(selection) is None
    assert selection.passed_over == [f"{made}: identity dataVersion is 'd2', the checkpoint says 'd1'"]


def test_other_peoples_files_do_no_harm(store: RetryingStore) -> None:
    begin(store, 1)
    newest = checkpoint(store, 1, 200)
    for key in ("manifests/notes.txt", "manifests/000009-x.json", "attempts/latest/start.json", "attempts/x", "y"):
        store.put(key, b"hello")
    selection = chosen(store)
    assert (selection.attempt, restored(selection)) == (2, newest)


def test_whether_another_one_fits(store: RetryingStore) -> None:
    def another(id: str) -> bool:
        return another_fits(store, id, RUN, {}, 1, Layout())

    begin(store, 1)
    first = checkpoint(store, 1, 100)
    assert not another(first), "the only one"
    second = checkpoint(store, 1, 200)
    assert another(first)
    assert another(second)
    begin(store, 2, second)
    zombies = checkpoint(store, 1, 900)
    third = checkpoint(store, 2, 250)
    for id in (first, second):
        store.put(keys.CheckpointID.parse(id).quarantine_key, b"{}")
    assert not another(third), f"not those in quarantine, nor the zombie's {zombies}"
