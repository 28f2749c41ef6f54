"""What a store can do. One call is one try; :class:`rtj.stores.RetryingStore` tries again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Entry:
    """One line of a listing; the ETag without quotes."""

    key: str
    bytes: int
    etag: str


class Store(Protocol):
    """Objects by key. Errors are the subclasses of :class:`rtj.errors.StoreError`."""

    @property
    def where(self) -> str:
        """What to call the store in a message."""

    def put(self, key: str, data: Bytes) -> str:
        """Write an object, all of it or nothing, and return its ETag without quotes."""

    def get(self, key: str) -> bytes:
        """Return an object's bytes. Raises NotFoundError."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes from ``start``, fewer at the object's end. Raises NotFoundError."""

    def list(self, prefix: str) -> Iterator[Entry]:
        """Return the objects whose keys begin with ``prefix`` (a folder: it ends with a slash), by key."""

    def delete(self, key: str) -> None:
        """Remove an object; nothing happens if it is not there."""
