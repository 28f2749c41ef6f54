"""Reading a checkpoint: every byte is verified before it is used."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rtj import keys
from rtj.errors import DamagedCheckpointError, FormatError, NotFoundError, RestoreError, StoreError
from rtj.formats import Index, IndexRef, Item, Manifest, StoredObject
from rtj.objects import ALIGNMENT, checksum
from rtj.parallel import parallel
from rtj.stores import RetryingStore

log = logging.getLogger("rtj")

DOWNLOADS = 8


@dataclass
class Stored:
    """An item of the checkpoint: its blocks in order, each with the key of its object."""

    component: str
    name: str
    rank: int
    dtype: str | None
    shape: tuple[int, ...] | None
    encoding: str | None
    blocks: list[tuple[str, Item]] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """The item's size."""
        return sum(block.bytes for _, block in self.blocks)


@dataclass(frozen=True)
class Wanted:
    """A range of an item's bytes, and where it goes. ``start`` and the target's length are bytes of the item."""

    item: Stored
    start: int
    target: memoryview


class Checkpoint:
    """A checkpoint whose manifest and index objects have been read and verified."""

    def __init__(self, store: RetryingStore, id: keys.CheckpointID, manifest: Manifest) -> None:
        self._store = store
        self.id = id
        self.manifest = manifest

    @classmethod
    def open(cls, store: RetryingStore, text: str) -> Checkpoint:
        """Read the manifest. Raises RestoreError."""
        try:
            id = keys.CheckpointID.parse(text)
        except FormatError as err:
            raise RestoreError(f"restore: {err}", cause="incompatible") from err

        def genuine(data: bytes) -> str | None:
            found = hashlib.sha256(data).hexdigest()[:16]
            return None if found == id.digest else f"SHA-256 begins with {found}, its name says {id.digest}"

        data = _verified(store, id.manifest_key, genuine)
        try:
            manifest = Manifest.decode(data, id.manifest_key)
        except FormatError as err:
            raise RestoreError(f"restore: {err}", cause="incompatible") from err
        return cls(store, id, manifest)

    def items(self, ranks: Iterable[int]) -> dict[tuple[int, str, str], Stored]:
        """Return the items of these ranks, by rank, component and name. Raises RestoreError."""
        wanted = set(ranks)
        # An index object is named after the first of its ranks, and the next one's first rank ends it.
        firsts = [_rank_of(ref.key) for ref in self.manifest.indexes] + [self.manifest.world_size]
        refs = [
            ref
            for position, ref in enumerate(self.manifest.indexes)
            if any(firsts[position] <= rank < firsts[position + 1] for rank in wanted)
        ]
        found: dict[tuple[int, str, str], Stored] = {}
        for index in parallel(self._index, refs, DOWNLOADS, "index"):
            for stored in index.objects:
                rank = _rank_of(stored.key)
                if rank not in wanted:
                    continue
                for block in stored.items:
                    at = (rank, block.component, block.name)
                    entry = found.setdefault(
                        at,
                        Stored(block.component, block.name, rank, block.dtype, block.shape, block.encoding),
                    )
                    entry.blocks.append((stored.key, block))
        for entry in found.values():
            entry.blocks.sort(key=lambda pair: pair[1].block or 0)
        return found

    def objects(self) -> list[StoredObject]:
        """Return the data objects of all ranks. Raises RestoreError."""
        return [o for index in parallel(self._index, self.manifest.indexes, DOWNLOADS, "index") for o in index.objects]

    def read(self, wanted: Iterable[Wanted]) -> int:
        """Read ranges into their targets, in parallel, only what is needed. Returns the bytes read.

        Whole blocks are read, because checksums are of whole blocks. Raises RestoreError.
        """
        jobs: dict[tuple[str, int], tuple[Item, list[tuple[Wanted, int]]]] = {}
        for want in wanted:
            position = 0
            for key, block in want.item.blocks:
                end = position + block.bytes
                if position < want.start + len(want.target) and end > want.start:
                    jobs.setdefault((key, block.offset), (block, []))[1].append((want, position))
                position = end
        by_object: dict[str, list[tuple[Item, list[tuple[Wanted, int]]]]] = {}
        for (key, _), job in sorted(jobs.items(), key=lambda entry: entry[0]):
            by_object.setdefault(key, []).append(job)
        return sum(parallel(self._read_object, list(by_object.items()), DOWNLOADS, "download"))

    def _index(self, ref: IndexRef) -> Index:
        key = self.manifest.prefix + ref.key

        def genuine(data: bytes) -> str | None:
            found = hashlib.sha256(data).hexdigest()
            return None if found == ref.sha256 else f"SHA-256 is {found}, the manifest says {ref.sha256}"

        try:
            return Index.decode(_verified(self._store, key, genuine), key)
        except FormatError as err:
            raise RestoreError(f"restore: {err}", cause="incompatible") from err

    def _read_object(self, work: tuple[str, list[tuple[Item, list[tuple[Wanted, int]]]]]) -> int:
        relative, jobs = work
        key = self.manifest.prefix + relative
        total = 0
        for run in _adjacent(jobs):
            start = run[0][0].offset
            length = run[-1][0].offset + run[-1][0].bytes - start

            def wrong(
                data: bytes, run: list[tuple[Item, list[tuple[Wanted, int]]]] = run, start: int = start
            ) -> str | None:
                for block, _ in run:
                    piece = memoryview(data)[block.offset - start : block.offset - start + block.bytes]
                    found = checksum(piece)
                    if len(piece) != block.bytes or found != block.crc:
                        return (
                            f"CRC of {block.component}/{block.name} is {found.removeprefix('crc32:')}, "
                            f"the index says {block.crc.removeprefix('crc32:')}"
                        )
                return None

            data = memoryview(_verified(self._store, key, wrong, (start, length)))
            for block, targets in run:
                piece = data[block.offset - start : block.offset - start + block.bytes]
                for want, position in targets:
                    low = max(want.start, position)
                    high = min(want.start + len(want.target), position + block.bytes)
                    want.target[low - want.start : high - want.start] = piece[low - position : high - position]
            total += length
        return total


def _adjacent(
    jobs: list[tuple[Item, list[tuple[Wanted, int]]]],
) -> list[list[tuple[Item, list[tuple[Wanted, int]]]]]:
    """Join blocks that lie side by side (but for the padding between items) into one request each."""
    runs: list[list[tuple[Item, list[tuple[Wanted, int]]]]] = []
    for job in jobs:
        if runs and job[0].offset - (runs[-1][-1][0].offset + runs[-1][-1][0].bytes) < ALIGNMENT:
            runs[-1].append(job)
        else:
            runs.append([job])
    return runs


def _verified(
    store: RetryingStore,
    key: str,
    wrong: Callable[[bytes], str | None],
    part: tuple[int, int] | None = None,
) -> bytes:
    """Read an object, or (start, length) of it, and check it; wrong bytes are read once more before they are believed.

    Raises DamagedCheckpointError for what is proven, RestoreError with cause storeError for what is not.
    """
    complaint: str | None = None
    for _ in range(2):
        try:
            data = store.get(key) if part is None else store.get_range(key, *part)
        except NotFoundError as err:
            if _absent(store, key):
                raise DamagedCheckpointError(
                    f"restore: {key} is missing; a listing confirms it", cause="missing", object=key
                ) from err
            raise RestoreError(f"restore: {err}, though a listing shows it", cause="storeError", object=key) from err
        except StoreError as err:
            raise RestoreError(f"restore: {err}", cause="storeError", object=key) from err
        complaint = wrong(data)
        if complaint is None:
            return data
        log.warning("restore: %s: %s", key, complaint)
    raise DamagedCheckpointError(f"restore: {key}: {complaint}; read twice", cause="checksumMismatch", object=key)


def _absent(store: RetryingStore, key: str) -> bool:
    folder = key.rpartition("/")[0] + "/"
    try:
        return all(entry.key != key for entry in store.list(folder))
    except StoreError as err:
        raise RestoreError(
            f"restore: {key} was not found, and listing failed: {err}", cause="storeError", object=key
        ) from err


def _rank_of(key: str) -> int:
    return int(key.rpartition("/")[2].partition("-")[0].removeprefix("r"))
