"""Every document is read and written as the examples that the controller is tested against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rtj import formats, records
from rtj.errors import FormatError
from rtj.formats import Index, Layout, Manifest
from rtj.keys import CheckpointID

EXAMPLES = Path(__file__).parents[3] / "testdata" / "formats"


def example(name: str) -> tuple[bytes, dict[str, Any]]:
    data = (EXAMPLES / name).read_bytes()
    return data, json.loads(data)


def test_manifest() -> None:
    data, document = example("manifest.json")
    manifest = Manifest.decode(data, "manifest.json")
    assert json.loads(manifest.encode()) == document
    assert (manifest.attempt, manifest.step, manifest.world_size, manifest.yield_id) == (3, 1200, 2, 3)
    assert manifest.layout == Layout(dp=2, global_batch=64)
    assert manifest.components["rng"].reshard == "none"
    assert manifest.indexes[1].key == "01/r1-index.json"


def test_index() -> None:
    data, document = example("index.json")
    index = Index.decode(data, "index.json")
    assert json.loads(index.encode()) == document
    weights, state = index.objects[0].items
    assert (weights.dtype, weights.shape, weights.offset, weights.bytes) == ("<f8", (10, 10), 0, 800)
    assert (state.dtype, state.shape, state.block) == (None, None, None)


def test_start() -> None:
    data, document = example("start.json")
    start = records.Start.decode(data, "start.json")
    assert json.loads(start.encode()) == document
    assert start.restore == records.RestorePoint("000002-000000000900-0a1b2c3d4e5f-1122334455667788", 2, 900)


def test_progress() -> None:
    _, document = example("progress.json")
    progress = records.Progress(
        attempt=3,
        activity="saving",
        step=1200,
        total_steps=5000,
        steps_per_second=2.5,
        first_step_at="2026-03-01T09:40:09Z",
        restore_seconds=4.2,
        last_save=records.LastSave("000003-000000001100-9e8d7c6b5a40-8877665544332211", 1100, 3.1, 2048),
        yielding=records.YieldState(3, "2026-03-01T10:00:01Z", 1200),
        updated_at="2026-03-01T10:00:02Z",
    )
    assert json.loads(progress.encode()) == document


def test_result() -> None:
    _, document = example("result.json")
    result = records.Result(
        attempt=3,
        outcome=records.YIELDED,
        step=1200,
        checkpoint="000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55",
        lost_steps=0,
        message="yielded at step 1200 after Preempted; committed in 3.2 s",
        ended_at="2026-03-01T10:00:06Z",
    )
    assert json.loads(result.encode()) == document


def test_result_of_a_failed_restore() -> None:
    _, document = example("result-restore-failed.json")
    checkpoint = "000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55"
    result = records.Result(
        attempt=4,
        outcome=records.RESTORE_FAILED,
        step=0,
        checkpoint=None,
        lost_steps=0,
        message=document["message"],
        ended_at="2026-03-01T10:20:06Z",
        restore_failure=records.RestoreFailure(
            checkpoint, "checksumMismatch", "checkpoints/3/1200-5f0c9a1be2d4/01/r1-0", 1, "node-b"
        ),
    )
    assert json.loads(result.encode()) == document


def test_quarantine() -> None:
    _, document = example("quarantine.json")
    record = records.Quarantine(
        checkpoint="000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55",
        cause="checksumMismatch",
        object="checkpoints/3/1200-5f0c9a1be2d4/01/r1-0",
        rank=1,
        node="node-b",
        message="CRC of model/weights is 00000000, the index says e8b7be43; read twice",
        recorded_at="2026-03-01T10:20:06Z",
    )
    assert json.loads(record.encode()) == document


def test_control() -> None:
    data, _ = example("control.json")
    asked = formats.decode_control(data, attempt=3)
    assert asked is not None
    assert (asked.id, asked.cause, asked.duration, asked.history) == (3, "Preempted", 300.0, ("Paused",))
    assert formats.timestamp(asked.issued_at) == "2026-03-01T10:00:00Z"


def test_notice() -> None:
    data, _ = example("notice.json")
    asked = formats.decode_notice(data, attempt=3)
    assert asked is not None
    assert (asked.id, asked.cause, asked.duration, asked.counter) == (3, "Preempted", 300.0, 1)


def test_an_empty_notice_means_none() -> None:
    assert formats.decode_notice(b"", attempt=3) is None
    assert formats.decode_notice(b"\n", attempt=3) is None


def test_a_control_document_may_ask_for_nothing() -> None:
    assert formats.decode_control(b'{"schemaVersion":"1.0","kind":"Control","attempt":3,"yield":null}', 3) is None


def test_unknown_fields_do_no_harm() -> None:
    data, document = example("manifest.json")
    document["later"] = {"field": 1}
    document["layout"]["later"] = 7
    document["components"]["model"]["later"] = True
    document["schemaVersion"] = "1.7"
    assert Manifest.decode(json.dumps(document).encode(), "m").step == Manifest.decode(data, "m").step


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schemaVersion": "2.0"}, "schemaVersion is '2.0'"),
        ({"schemaVersion": None}, "schemaVersion is None"),
        ({"kind": "CheckpointIndex"}, "kind is 'CheckpointIndex', want 'CheckpointManifest'"),
        ({"step": "12"}, "step is '12', want int"),
        ({"step": True}, "step is True, want int"),
        ({"indexes": [{"key": "a"}]}, "'bytes'"),
        ({"components": {"model": {}}}, "'reshard'"),
    ],
)
def test_a_manifest_that_is_not_one_says_what_is_wrong(change: dict[str, Any], says: str) -> None:
    _, document = example("manifest.json")
    with pytest.raises(FormatError, match=f"x.json: .*{says}"):
        Manifest.decode(json.dumps(document | change).encode(), "x.json")


def test_a_manifest_cut_at_any_byte_is_refused() -> None:
    data, _ = example("manifest.json")
    for length in range(len(data.rstrip())):
        with pytest.raises(FormatError):
            Manifest.decode(data[:length], "m")


def test_a_manifest_above_its_limit_is_refused_when_written() -> None:
    data, document = example("manifest.json")
    document["identity"] = {"notes": "x" * formats.MANIFEST_LIMIT}
    with pytest.raises(FormatError, match="shorten identity"):
        Manifest.decode(json.dumps(document).encode(), "m").encode()
    assert len(data) < formats.MANIFEST_LIMIT


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T00:00:10.5Z", 10.5),
        ("1970-01-01T01:00:10.25+01:00", 10.25),
        ("1970-01-01T00:00:10.123456789Z", 10.123456789),
    ],
)
def test_times_are_read_as_go_writes_them(text: str, at: float) -> None:
    assert formats.seconds(text, "t") == pytest.approx(at, abs=1e-9)


@pytest.mark.parametrize(
    ("at", "text"),
    [(10.0, "1970-01-01T00:00:10Z"), (10.25, "1970-01-01T00:00:10.250Z")],
)
def test_times_are_written_to_the_millisecond(at: float, text: str) -> None:
    assert formats.timestamp(at) == text


@pytest.mark.parametrize("text", ["", "yesterday", "2026-03-01", "2026-03-01T10:00:00"])
def test_a_time_without_zone_or_sense_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="is not an RFC 3339 time"):
        formats.seconds(text, "issuedAt")


def test_a_checkpoint_id_names_attempt_step_and_content() -> None:
    text = "000003-000000001200-5f0c9a1be2d4-9b1de02f6c7a8e55"
    id = CheckpointID.parse(text)
    assert (id.attempt, id.step, id.nonce, id.digest) == (3, 1200, "5f0c9a1be2d4", "9b1de02f6c7a8e55")
    assert str(id) == text
    # SHA-256 of the empty string begins with e3b0c44298fc1c14.
    assert str(CheckpointID.of(3, 1200, "5f0c9a1be2d4", b"")).endswith("-e3b0c44298fc1c14")


def test_checkpoint_ids_sort_by_attempt_then_step() -> None:
    ids = [CheckpointID(10, 5, "0" * 12, "f" * 16), CheckpointID(9, 700, "f" * 12, "0" * 16)]
    assert sorted(ids) == sorted(ids, key=str) == ids[::-1]


@pytest.mark.parametrize(
    "text", ["", "latest", "3-1200-5f0c9a1be2d4-9b1de02f6c7a8e55", "000003-000000001200-5F0C9A1BE2D4-9b1de02f6c7a8e55"]
)
def test_other_names_are_no_checkpoint_ids(text: str) -> None:
    with pytest.raises(FormatError, match="is not a checkpoint id"):
        CheckpointID.parse(text)


def test_messages_are_one_bounded_line() -> None:
    assert records.one_line("a\n  b\tc") == "a b c"
    assert len(records.one_line("x" * 5000)) == 1024
