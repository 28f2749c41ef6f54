"""What was saved comes back bit for bit, or not at all and with the reason."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtj
from conftest import S3Server
from rtj import keys, tree
from rtj.checkpoint import Checkpoint, Wanted
from rtj.errors import DamagedCheckpointError, RestoreError, SaveError, StateMismatchError, UnsupportedValueError
from rtj.formats import Layout
from rtj.placement import Placement, placements
from rtj.restoring import restore
from rtj.stores import RetryingStore, open_store
from saved import save


@pytest.fixture
def store(tmp_path: Path) -> RetryingStore:
    return open_store(str(tmp_path), "run")


def bring_back(
    store: RetryingStore,
    id: str,
    state: dict[str, Any],
    declared: dict[str, Placement] | None = None,
    *,
    rank: int = 0,
    world_size: int = 1,
    layout: Layout | None = None,
) -> int:
    checkpoint = Checkpoint.open(store, id)
    where = placements(declared or {}, state)
    return restore(checkpoint, state, where, rank, world_size, layout or Layout(dp=world_size))


def everything(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "model": {
            "w": rng.normal(size=(3, 5)),
            "half": rng.normal(size=7).astype(np.float16),
            "complex": rng.normal(size=2) + 1j,
            "mask": rng.random(9) > 0.5,
            "big endian": np.arange(seed, seed + 4, dtype=">i4"),
            "scalar array": np.array(seed, dtype=np.int8),
            "empty": np.zeros((0, 3)),
            "names": np.array(["a", f"b{seed}"], dtype="<U4"),
            "dates": np.array(["2026-01-01"], dtype="M8[D]") + np.timedelta64(seed, "D"),
            "fortran": np.asfortranarray(rng.normal(size=(4, 3))),
            "strided": rng.normal(size=(6, 6))[::2, 1::2],
            "layers": [{"w": rng.normal(size=2)}, {"w": rng.normal(size=2)}],
            "with/slash~tilde": np.array([seed]),
        },
        "optimizer": {"t": seed, "rate": 0.1 * seed, "name": f"adam {seed}", "none": None, "steps": [1, seed, [2]]},
        "rng": {"np": np.random.default_rng(seed), "old": np.random.RandomState(seed), "py": random.Random(seed)},
        "data": {"blob": b"\0\xff" * seed, "pair": (seed, "x"), "scalar": np.float32(seed) / 3},
    }


def same(a: Any, b: Any) -> bool:
    return {c: leaves_of(c, a[c]) for c in a} == {c: leaves_of(c, b[c]) for c in b}


def leaves_of(component: str, value: Any) -> dict[str, Any]:
    found = {}
    for name, leaf in tree.leaves(component, value).items():
        item = tree.item(component, name, leaf)
        data = bytearray(item.bytes)
        item.copy(memoryview(data), 0)
        found[name] = (bytes(data), item.dtype, item.shape)
    return found


def test_every_kind_of_value_comes_back_bit_for_bit(store: RetryingStore) -> None:
    saved, fresh = everything(3), everything(5)
    assert not same(saved, fresh)
    bring_back(store, save(store, [saved]), fresh)
    assert same(saved, fresh)
    assert isinstance(fresh["data"]["pair"], tuple)
    assert isinstance(fresh["data"]["scalar"], np.float32)
    for name in ("np", "old", "py"):
        assert fresh["rng"][name].random() == saved["rng"][name].random()


def test_arrays_are_read_into_their_own_memory(store: RetryingStore) -> None:
    weights = np.zeros(3)
    strided = np.zeros(8)[::2]
    id = save(store, [{"model": {"w": np.arange(3.0), "s": np.arange(4.0)}}])
    bring_back(store, id, {"model": {"w": weights, "s": strided}})
    assert weights.tolist() == [0.0, 1.0, 2.0]
    assert strided.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_an_item_above_a_block_is_cut_and_joined(store: RetryingStore) -> None:
    large = np.random.default_rng(1).random((3 << 20) + 5)  # 24 MiB and 40 bytes: 4 blocks
    id = save(store, [{"model": {"small": np.ones(3), "large": large}}])
    items = Checkpoint.open(store, id).items([0])
    assert [block.block for _, block in items[0, "model", "large"].blocks] == [0, 1, 2, 3]
    assert items[0, "model", "small"].blocks[0][1].block is None
    fresh = {"model": {"small": np.zeros(3), "large": np.zeros_like(large)}}
    bring_back(store, id, fresh)
    assert np.array_equal(fresh["model"]["large"], large)


def test_a_part_of_an_item_reads_only_its_blocks(store: RetryingStore) -> None:
    large = np.arange(4 << 20, dtype=np.int64)  # 4 blocks
    checkpoint = Checkpoint.open(store, save(store, [{"model": {"large": large}}]))
    part = bytearray(16)
    item = checkpoint.items([0])[0, "model", "large"]
    assert checkpoint.read([Wanted(item, (8 << 20) - 8, memoryview(part))]) == 16 << 20
    assert np.frombuffer(part, np.int64).tolist() == [(1 << 20) - 1, 1 << 20]


def test_replicated_is_written_once_and_per_rank_by_each(store: RetryingStore) -> None:
    states = [{"model": {"w": np.ones(2)}, "rng": {"own": np.array([rank])}} for rank in range(3)]
    id = save(store, states)
    items = Checkpoint.open(store, id).items(range(3))
    assert sorted(items) == [(0, "model", "w"), (0, "rng", "own"), (1, "rng", "own"), (2, "rng", "own")]
    fresh = {"model": {"w": np.zeros(2)}, "rng": {"own": np.array([-1])}}
    bring_back(store, id, fresh, rank=2, world_size=3)
    assert fresh["rng"]["own"].tolist() == [2]


def test_replicas_that_differ_are_not_committed(store: RetryingStore) -> None:
    states = [{"model": {"w": np.full(2, 1.0 + rank)}} for rank in range(2)]
    with pytest.raises(SaveError, match="component model is replicated and differs between rank 0 and rank 1"):
        save(store, states)
    assert store.list(keys.MANIFESTS) == []


@pytest.mark.parametrize("now", [1, 3, 4, 5, 7])
def test_sharded_is_read_at_another_number_of_ranks(store: RetryingStore, now: int) -> None:
    whole = np.arange(46, dtype=np.float64).reshape(23, 2)
    declared = {"model": rtj.sharded()}
    states = [{"model": {"w": part, "scale": 2.0}} for part in np.array_split(whole, 4)]
    id = save(store, states, declared)
    shards = [{"model": {"w": np.zeros_like(part), "scale": 0.0}} for part in np.array_split(whole, now)]
    for rank, shard in enumerate(shards):
        bring_back(store, id, shard, declared, rank=rank, world_size=now)
        assert shard["model"]["scale"] == 2.0
    assert np.array_equal(np.concatenate([shard["model"]["w"] for shard in shards]), whole)


def test_replicated_is_read_at_another_number_of_ranks(store: RetryingStore) -> None:
    id = save(store, [{"model": {"w": np.arange(3.0)}} for _ in range(2)])
    fresh = {"model": {"w": np.zeros(3)}}
    bring_back(store, id, fresh, rank=4, world_size=5)
    assert fresh["model"]["w"].tolist() == [0.0, 1.0, 2.0]


def test_per_rank_is_refused_at_another_number_of_ranks(store: RetryingStore) -> None:
    id = save(store, [{"rng": {"own": np.array([rank])}} for rank in range(2)])
    with pytest.raises(
        StateMismatchError, match="saved by 2 ranks and there are 3, and component rng has reshard none"
    ):
        bring_back(store, id, {"rng": {"own": np.array([0])}}, world_size=3)


def test_dp_only_is_refused_when_tensor_parallelism_changes(store: RetryingStore) -> None:
    declared = {"model": rtj.sharded()}
    id = save(store, [{"model": {"w": np.ones(2)}} for _ in range(2)], declared, layout=Layout(dp=1, tp=2))
    with pytest.raises(StateMismatchError, match="another data-parallel size only"):
        bring_back(store, id, {"model": {"w": np.ones(1)}}, declared, world_size=4, layout=Layout(dp=4))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda s: s["model"].update(w=np.zeros(4)), r"<f8\[3\], the program has <f8\[4\]"),
        (lambda s: s["model"].update(w=np.zeros(3, np.float32)), r"<f8\[3\], the program has <f4\[3\]"),
        (lambda s: s["model"].update(w=1.0), "the program has a value that is no array"),
        (lambda s: s["model"].update(new=np.zeros(1)), "the state has new and the checkpoint has not"),
        (lambda s: s["model"].pop("w"), "the checkpoint has w and the state has not"),
        (lambda s: s.pop("optimizer"), "the checkpoint has a component optimizer, the state has none"),
        (lambda s: s.update(scheduler={"t": 1}), "the state has scheduler, the checkpoint only model, optimizer"),
    ],
)
def test_a_state_that_does_not_match_says_where(store: RetryingStore, change: Any, says: str) -> None:
    id = save(store, [{"model": {"w": np.zeros(3)}, "optimizer": {"t": 1}}])
    state: dict[str, Any] = {"model": {"w": np.zeros(3)}, "optimizer": {"t": 0}}
    change(state)
    with pytest.raises(StateMismatchError, match=says) as raised:
        bring_back(store, id, state)
    assert raised.value.cause == "incompatible"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.array([object()]), "dtype object"),
        (np.zeros(1, dtype=[("a", "f4")]), "cannot be stored"),
        (np.ma.masked_array([1.0], [True]), "MaskedArray"),
        ({1: np.zeros(1)}, "the key 1 is int, want str"),
        ({"f": open}, "builtin_function_or_method cannot be stored"),
        ({1.5}, "set cannot be stored"),
    ],
)
def test_a_value_that_cannot_be_stored_is_named(value: Any, says: str) -> None:
    with pytest.raises(UnsupportedValueError, match=says) as raised:
        leaves_of("model", {"here": value})
    assert "model/here" in str(raised.value)


def test_omitted_is_named_in_the_manifest_and_refused_when_not_declared(store: RetryingStore) -> None:
    declared = {"optimizer": rtj.omitted()}
    id = save(store, [{"model": {"w": np.ones(1)}, "optimizer": {"t": 5}}], declared)
    assert Checkpoint.open(store, id).manifest.components["optimizer"].complete is False
    fresh: dict[str, Any] = {"model": {"w": np.zeros(1)}, "optimizer": {"t": 0}}
    with pytest.raises(StateMismatchError, match="component optimizer was left out of the checkpoint on purpose"):
        bring_back(store, id, fresh)
    bring_back(store, id, fresh, declared)
    assert fresh == {"model": {"w": np.ones(1)}, "optimizer": {"t": 0}}


def test_generators_are_restored_after_objects_that_draw_when_positioned(store: RetryingStore) -> None:
    class Loader:
        def __init__(self, rng: np.random.Generator) -> None:
            self.rng = rng

        def state_dict(self) -> dict[str, int]:
            return {"position": 4}

        def load_state_dict(self, state: dict[str, int]) -> None:
            self.rng.random(100)

    def build(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        return {"rng": rng, "data": Loader(rng)}

    saved, fresh = build(1), build(2)
    bring_back(store, save(store, [saved]), fresh)
    assert fresh["rng"].random() == saved["rng"].random()


class TestDamage:
    """Proven by two reads, or by a listing; and never on doubt."""

    @pytest.fixture(params=["folder", "s3"])
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> RetryingStore:
        if request.param == "folder":
            return open_store(str(tmp_path), "run")
        server: S3Server = request.getfixturevalue("s3")
        return open_store(server.uri(f"damage-{abs(hash(tmp_path))}"), "run", endpoint=server.endpoint)

    @pytest.fixture
    def checkpoint(self, store: RetryingStore) -> Checkpoint:
        return Checkpoint.open(store, save(store, [{"model": {"w": np.arange(300.0)}, "rng": {"own": b"abc"}}]))

    def fresh(self) -> dict[str, Any]:
        return {"model": {"w": np.zeros(300)}, "rng": {"own": b""}}

    def test_a_changed_byte_is_named_by_item(self, store: RetryingStore, checkpoint: Checkpoint) -> None:
        key = checkpoint.manifest.prefix + "00/r0-0"
        data = bytearray(store.get(key))
        data[8] ^= 1
        store.put(key, data)
        state = self.fresh()
        with pytest.raises(
            DamagedCheckpointError, match=r"00/r0-0: CRC of model/w is \w+, the index says \w+; read twice"
        ) as raised:
            bring_back(store, str(checkpoint.id), state)
        assert (raised.value.cause, raised.value.object) == ("checksumMismatch", key)
        assert not state["model"]["w"].any(), "nothing of a damaged block is used"

    def test_a_short_object_is_damaged(self, store: RetryingStore, checkpoint: Checkpoint) -> None:
        key = checkpoint.manifest.prefix + "00/r0-0"
        store.put(key, store.get(key)[:100])
        with pytest.raises(DamagedCheckpointError) as raised:
            bring_back(store, str(checkpoint.id), self.fresh())
        assert raised.value.cause == "checksumMismatch"

    def test_a_missing_object_is_confirmed_by_listing(self, store: RetryingStore, checkpoint: Checkpoint) -> None:
        key = checkpoint.manifest.prefix + "00/r0-0"
        store.delete(key)
        with pytest.raises(DamagedCheckpointError, match="a listing confirms it") as raised:
            bring_back(store, str(checkpoint.id), self.fresh())
        assert (raised.value.cause, raised.value.object) == ("missing", key)

    def test_a_changed_index_is_damaged(self, store: RetryingStore, checkpoint: Checkpoint) -> None:
        key = checkpoint.manifest.prefix + "00/r0-index.json"
        store.put(key, store.get(key).replace(b"model", b"modle"))
        with pytest.raises(DamagedCheckpointError, match="SHA-256") as raised:
            bring_back(store, str(checkpoint.id), self.fresh())
        assert raised.value.object == key

    def test_a_manifest_under_a_name_that_is_not_its_own_is_damaged(
        self, store: RetryingStore, checkpoint: Checkpoint
    ) -> None:
        store.put(checkpoint.id.manifest_key, store.get(checkpoint.id.manifest_key) + b" ")
        with pytest.raises(DamagedCheckpointError, match="its name says"):
            Checkpoint.open(store, str(checkpoint.id))

    def test_bytes_that_are_right_at_the_second_read_are_used(
        self, store: RetryingStore, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reads: list[str] = []
        get_range = RetryingStore.get_range

        def wrong_once(self: RetryingStore, key: str, start: int, length: int) -> bytes:
            reads.append(key)
            data = get_range(self, key, start, length)
            return data if len(reads) > 1 else bytes(len(data))

        monkeypatch.setattr(RetryingStore, "get_range", wrong_once)
        state = self.fresh()
        bring_back(store, str(checkpoint.id), state)
        assert state["model"]["w"].tolist() == list(range(300))

    def test_a_store_that_does_not_answer_condemns_nothing(
        self, store: RetryingStore, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def unavailable(*_: Any) -> bytes:
            raise rtj.StoreUnavailableError("503 SlowDown")

        monkeypatch.setattr(RetryingStore, "get_range", unavailable)
        with pytest.raises(RestoreError) as raised:
            bring_back(store, str(checkpoint.id), self.fresh())
        assert not isinstance(raised.value, DamagedCheckpointError)
        assert raised.value.cause == "storeError"


def test_more_than_256_ranks_share_index_objects(store: RetryingStore) -> None:
    states = [{"rng": {"own": np.array([rank])}} for rank in range(300)]
    id = save(store, states)
    manifest = Checkpoint.open(store, id).manifest
    assert len(manifest.indexes) == 150
    assert manifest.objects == 300
    for rank in (0, 1, 255, 256, 299):
        fresh = {"rng": {"own": np.array([-1])}}
        bring_back(store, id, fresh, rank=rank, world_size=300)
        assert fresh["rng"]["own"].tolist() == [rank]
