"""Where checkpoints are kept: an S3-compatible bucket or a folder, behind one interface."""

from __future__ import annotations

from rtj.errors import ConfigurationError
from rtj.stores.interface import Bytes, Entry, Store
from rtj.stores.retrying import RetryingStore

__all__ = ["Bytes", "Entry", "RetryingStore", "Store", "open_store"]


def open_store(uri: str, below: str = "", *, endpoint: str = "", region: str = "") -> RetryingStore:
    """Open ``s3://bucket/prefix``, ``file:///folder`` or a plain folder name; keys are below ``below``.

    Nothing is read or written yet. Raises ConfigurationError for any other scheme.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        scheme, rest = "file", uri
    if scheme == "file":
        from rtj.stores.folder import FolderStore

        if not rest:
            raise ConfigurationError(f"the store {uri!r} names no folder")
        return RetryingStore(FolderStore(rest, below))
    if scheme == "s3":
        from rtj.stores.s3 import S3Store

        bucket, _, prefix = rest.partition("/")
        if not bucket:
            raise ConfigurationError(f"the store {uri!r} names no bucket: want s3://bucket/prefix")
        parts = [p for p in (prefix.strip("/"), below.strip("/")) if p]
        return RetryingStore(S3Store(bucket, "/".join(parts), endpoint=endpoint, region=region))
    raise ConfigurationError(f"the store {uri!r} has the scheme {scheme!r}: want s3://bucket/prefix or file:///folder")
