"""From items to data objects and back: which bytes of which item lie where, and their checksums.

Knows nothing of NumPy or torch: an item is a name, a size, and a way to copy a range of its bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rtj import keys
from rtj.formats import Item, StoredObject

# docs/formats.md: a checksum covers at most 8 MiB, so that a part of an item can be read and verified alone.
BLOCK_BYTES = 8 << 20
# Large enough that requests do not matter, small enough that some run in parallel and that one is one PUT.
OBJECT_BYTES = 32 << 20
# Items begin where a vector register likes it.
ALIGNMENT = 64


@dataclass(frozen=True)
class LiveItem:
    """A value of the running program. ``copy(destination, start)`` copies its bytes from ``start``."""

    component: str
    name: str
    bytes: int
    copy: Callable[[memoryview, int], None]
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    encoding: str | None = None


@dataclass(frozen=True)
class Piece:
    """An item, or one block of it, and its place in the object."""

    item: LiveItem
    start: int
    bytes: int
    offset: int
    block: int | None


@dataclass
class ObjectPlan:
    """One data object to be written."""

    key: str
    bytes: int = 0
    pieces: list[Piece] = field(default_factory=list)

    def fill(self, buffer: bytearray) -> None:
        """Copy the items' bytes, as they are now, into a buffer of ``bytes`` bytes."""
        view = memoryview(buffer)
        for piece in self.pieces:
            piece.item.copy(view[piece.offset : piece.offset + piece.bytes], piece.start)

    def describe(self, buffer: bytearray, etag: str) -> StoredObject:
        """Return the index entry of the object with these bytes."""
        view = memoryview(buffer)
        return StoredObject(
            key=self.key,
            bytes=self.bytes,
            etag=etag,
            items=tuple(
                Item(
                    component=piece.item.component,
                    name=piece.item.name,
                    offset=piece.offset,
                    bytes=piece.bytes,
                    crc=checksum(view[piece.offset : piece.offset + piece.bytes]),
                    dtype=piece.item.dtype,
                    shape=piece.item.shape,
                    block=piece.block,
                    encoding=piece.item.encoding,
                )
                for piece in self.pieces
            ),
        )


def plan(items: Iterable[LiveItem], rank: int) -> list[ObjectPlan]:
    """Lay items out in objects of at most 32 MiB, in the order given."""
    objects: list[ObjectPlan] = []
    for item in items:
        single = item.bytes <= BLOCK_BYTES
        for number, start in enumerate(range(0, max(1, item.bytes), BLOCK_BYTES)):
            length = min(BLOCK_BYTES, item.bytes - start)
            if not objects or objects[-1].bytes + length > OBJECT_BYTES:
                objects.append(ObjectPlan(keys.data_key(rank, len(objects))))
            target = objects[-1]
            offset = -(-target.bytes // ALIGNMENT) * ALIGNMENT
            target.pieces.append(Piece(item, start, length, offset, None if single else number))
            target.bytes = offset + length
    return objects


def checksum(data: bytes | bytearray | memoryview) -> str:
    """Return the checksum as it is written: the IEEE CRC-32, as zlib computes it."""
    return f"crc32:{zlib.crc32(data):08x}"


def digests(objects: Iterable[StoredObject]) -> dict[str, str]:
    """Return one checksum for each component, over names and checksums of all its items in order."""
    state: dict[str, int] = {}
    for stored in objects:
        for item in stored.items:
            line = f"{item.name}\0{item.block}\0{item.dtype}\0{item.shape}\0{item.crc}\n"
            state[item.component] = zlib.crc32(line.encode(), state.get(item.component, 0))
    return {component: f"crc32:{value:08x}" for component, value in state.items()}
