"""One rank's part of a save, and the commit."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rtj import keys
from rtj.deadline import Deadline
from rtj.errors import SaveError
from rtj.formats import Component, Document, Index, IndexRef, Layout, Manifest, StoredObject
from rtj.objects import LiveItem, ObjectPlan, digests, plan
from rtj.parallel import parallel
from rtj.stores import RetryingStore

log = logging.getLogger("rtj")

UPLOADS = 8
# Above this many ranks several share an index object, so that a manifest stays small.
MOST_INDEXES = 256


@dataclass
class Uploaded:
    """What a rank stored: what the commit needs to know of it."""

    rank: int
    objects: int
    bytes: int
    digests: dict[str, str]
    components: dict[str, Document]
    index: Document | None = None
    entries: list[Document] = field(default_factory=list)


class Buffers:
    """The buffers of the last snapshot, kept for the next: memory that is already mapped copies much faster."""

    def __init__(self) -> None:
        self._free: list[bytearray] = []
        self._lock = threading.Lock()

    def take(self, size: int) -> bytearray:
        """Return a buffer of exactly that size."""
        with self._lock:
            for position, buffer in enumerate(self._free):
                if len(buffer) == size:
                    return self._free.pop(position)
        return bytearray(size)

    def give(self, buffers: Sequence[bytearray]) -> None:
        """Give back what one snapshot used; what was kept before and not taken again is dropped."""
        with self._lock:
            self._free = list(buffers)


class RankSave:
    """The objects of one rank for one save.

    ``own`` are the items that this rank stores; ``replicas`` are those that rank 0 stores for all, of which the
    others only compute checksums. Call :meth:`capture` to go on training while :meth:`upload` runs; without it the
    items are copied when their turn comes, so nothing may change them meanwhile.
    """

    def __init__(
        self,
        store: RetryingStore,
        prefix: str,
        rank: int,
        world_size: int,
        own: Sequence[LiveItem],
        replicas: Sequence[LiveItem],
        components: Mapping[str, Component],
        buffers: Buffers,
        deadline: Deadline,
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._rank = rank
        self._world_size = world_size
        self._objects = plan(own, rank)
        self._replicas = plan(replicas, rank)
        self._components = components
        self._buffers = buffers
        self._captured: dict[int, bytearray] = {}
        self.deadline = deadline

    def capture(self) -> None:
        """Copy the state as it is now. This is the blocking part of an asynchronous save."""
        for part in (*self._objects, *self._replicas):
            buffer = self._buffers.take(part.bytes)
            part.fill(buffer)
            self._captured[id(part)] = buffer

    def upload(self) -> Uploaded:
        """Store the objects in parallel, then the index. Raises StoreError, or SaveError when cancelled."""
        stored = parallel(self._put, self._objects, UPLOADS, "upload")
        copies = [self._describe(part, "") for part in self._replicas]
        if self._captured:
            self._buffers.give(list(self._captured.values()))
            self._captured = {}
        result = Uploaded(
            rank=self._rank,
            objects=len(stored),
            bytes=sum(part.bytes for part in stored),
            digests=digests([*stored, *copies]),
            components={name: component.content() for name, component in self._components.items()},
        )
        if self._world_size > MOST_INDEXES:
            result.entries = [part.content() for part in stored]
        else:
            result.index = put_index(self._store, self._prefix, [self._rank], stored, self.deadline)
        return result

    def _put(self, part: ObjectPlan) -> StoredObject:
        if self.deadline.cancelled:
            raise SaveError(self.deadline.reason)
        buffer = self._bytes(part)
        described = part.describe(buffer, "")
        etag = self._store.put(self._prefix + part.key, buffer, self.deadline)
        return StoredObject(part.key, part.bytes, etag, described.items)

    def _describe(self, part: ObjectPlan, etag: str) -> StoredObject:
        return part.describe(self._bytes(part), etag)

    def _bytes(self, part: ObjectPlan) -> bytearray:
        captured = self._captured.get(id(part))
        if captured is not None:
            return captured
        buffer = bytearray(part.bytes)
        part.fill(buffer)
        return buffer


def put_index(
    store: RetryingStore, prefix: str, ranks: Sequence[int], objects: Sequence[StoredObject], deadline: Deadline
) -> Document:
    """Store an index object and return the manifest's entry for it."""
    data = Index(tuple(ranks), tuple(objects)).encode()
    key = keys.index_key(ranks[0])
    etag = store.put(prefix + key, data, deadline)
    return vars(IndexRef(key, len(data), etag, hashlib.sha256(data).hexdigest()))


@dataclass(frozen=True)
class Commit:
    """Everything of a manifest that does not come from the ranks' uploads."""

    run: Mapping[str, str]
    identity: Mapping[str, str]
    attempt: int
    step: int
    nonce: str
    layout: Layout
    world_size: int
    framework: str
    format: str
    saved_at: str
    yield_id: int | None


def commit(
    store: RetryingStore, what: Commit, parts: Sequence[Uploaded], deadline: Deadline
) -> tuple[keys.CheckpointID, Manifest]:
    """Write the manifest of a save whose ranks have all uploaded: this is what makes it a checkpoint.

    Raises SaveError if the ranks contradict one another, StoreError if the manifest cannot be written.
    """
    parts = sorted(parts, key=lambda part: part.rank)
    _agree(parts)
    prefix = keys.checkpoint_prefix(what.attempt, what.step, what.nonce)
    manifest = Manifest(
        run=what.run,
        identity=what.identity,
        attempt=what.attempt,
        step=what.step,
        nonce=what.nonce,
        saved_at=what.saved_at,
        world_size=what.world_size,
        layout=what.layout,
        components={
            name: Component(c["reshard"], c["complete"], c.get("placement")) for name, c in parts[0].components.items()
        },
        prefix=prefix,
        indexes=tuple(IndexRef(**index) for index in _indexes(store, prefix, parts, deadline)),
        objects=sum(part.objects for part in parts),
        bytes=sum(part.bytes for part in parts),
        framework=what.framework,
        format=what.format,
        yield_id=what.yield_id,
    )
    data = manifest.encode()
    checkpoint = keys.CheckpointID.of(what.attempt, what.step, what.nonce, data)
    # Tried again with the same bytes under the same name: an answer that was lost does no harm.
    store.put(checkpoint.manifest_key, data, deadline)
    return checkpoint, manifest


def _agree(parts: Sequence[Uploaded]) -> None:
    first = parts[0]
    for part in parts[1:]:
        if part.components != first.components:
            raise SaveError(
                f"rank {part.rank} has the components {sorted(part.components)} and rank {first.rank} has "
                f"{sorted(first.components)}, or they declare them differently; all ranks must declare the same"
            )
        for name, component in first.components.items():
            if component.get("placement") == "replicated" and part.digests.get(name) != first.digests.get(name):
                raise SaveError(
                    f"component {name} is replicated and differs between rank {first.rank} and rank {part.rank}: "
                    "the replicas have diverged, or it should be declared rtj.per_rank() or rtj.sharded()"
                )


def _indexes(store: RetryingStore, prefix: str, parts: Sequence[Uploaded], deadline: Deadline) -> list[Any]:
    if all(part.index is not None for part in parts):
        return [part.index for part in parts]
    size = -(-len(parts) // MOST_INDEXES)
    groups = [parts[i : i + size] for i in range(0, len(parts), size)]

    def write(group: Sequence[Uploaded]) -> Document:
        objects = [StoredObject.read(entry, f"rank {part.rank}") for part in group for entry in part.entries]
        return put_index(store, prefix, [part.rank for part in group], objects, deadline)

    return parallel(write, groups, UPLOADS, "index")
