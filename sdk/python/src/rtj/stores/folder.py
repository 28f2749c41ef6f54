"""A folder as a store. A file's ETag is its hex MD5."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from rtj.errors import NotFoundError, StoreRefusedError, StoreUnavailableError
from rtj.stores.interface import Bytes, Entry

# What a full, read-only or forbidden disk says: no use to try again soon.
_PERMANENT = {
    errno.EEXIST,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.EFBIG,
}


class FolderStore:
    """Objects as files. A file appears under its name only when all its bytes are on the disk."""

    def __init__(self, folder: str, below: str = "") -> None:
        self._root = Path(folder).absolute() / below

    @property
    def where(self) -> str:
        """The folder."""
        return str(self._root)

    def put(self, key: str, data: Bytes) -> str:
        """Write a file beside its place and rename it into it."""
        path = self._root / key
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with part.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                part.rename(path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
            # The name must be on the disk too before anybody is told that the object is there.
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as err:
            raise _translated(err, "write", path) from err
        return hashlib.md5(data, usedforsecurity=False).hexdigest()

    def get(self, key: str) -> bytes:
        """Read a file."""
        path = self._root / key
        try:
            return path.read_bytes()
        except OSError as err:
            raise _translated(err, "read", path) from err

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part of a file."""
        path = self._root / key
        try:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(length)
        except OSError as err:
            raise _translated(err, "read", path) from err

    def list(self, prefix: str) -> Iterator[Entry]:
        """List the files below a folder. Reads each of them for its ETag."""
        try:
            yield from self._walk(self._root / prefix)
        except OSError as err:
            raise _translated(err, "list", self._root / prefix) from err

    def _walk(self, folder: Path) -> Iterator[Entry]:
        try:
            names = sorted(folder.iterdir())
        except FileNotFoundError:
            return
        for path in names:
            if path.name.startswith("."):
                continue
            if path.is_dir():
                yield from self._walk(path)
                continue
            digest = hashlib.md5(usedforsecurity=False)
            size = 0
            try:
                with path.open("rb") as file:
                    while piece := file.read(1 << 20):
                        digest.update(piece)
                        size += len(piece)
            except FileNotFoundError:
                continue
            yield Entry(path.relative_to(self._root).as_posix(), size, digest.hexdigest())

    def delete(self, key: str) -> None:
        """Remove a file."""
        path = self._root / key
        try:
            path.unlink(missing_ok=True)
        except OSError as err:
            raise _translated(err, "delete", path) from err


def _translated(err: OSError, verb: str, path: Path) -> Exception:
    message = f"cannot {verb} {path}: {err.strerror or err}"
    if isinstance(err, FileNotFoundError):
        return NotFoundError(message)
    if err.errno in _PERMANENT:
        return StoreRefusedError(message)
    return StoreUnavailableError(message)
