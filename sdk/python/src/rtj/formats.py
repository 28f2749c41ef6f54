"""The JSON documents of docs/formats.md: reading, and writing in a stable form."""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from typing import Any, TypeVar

from rtj.errors import FormatError

SCHEMA_VERSION = "1.0"
MANIFEST_LIMIT = 64 * 1024
MESSAGE_LIMIT = 1024

Document = dict[str, Any]
_T = TypeVar("_T")


def encode(kind: str, content: Mapping[str, Any]) -> bytes:
    """Return a document's bytes: version and kind first, then the content in the order given."""
    document = {"schemaVersion": SCHEMA_VERSION, "kind": kind, **content}
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def decode(data: bytes, kind: str, where: str) -> Document:
    """Read a document of this kind. Raises FormatError that names ``where``."""
    try:
        document = json.loads(data)
    except ValueError as err:
        raise FormatError(f"{where}: not JSON: {err}") from err
    if not isinstance(document, dict):
        raise FormatError(f"{where}: want a JSON object, got {type(document).__name__}")
    version = document.get("schemaVersion")
    if not isinstance(version, str) or version.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise FormatError(f"{where}: schemaVersion is {version!r}, this version of rtj reads 1.x; upgrade rtj")
    if document.get("kind") != kind:
        raise FormatError(f"{where}: kind is {document.get('kind')!r}, want {kind!r}")
    return document


def timestamp(seconds: float) -> str:
    """Return seconds since the epoch as RFC 3339 in UTC, to the millisecond: short spans are measured with it."""
    return (
        datetime.fromtimestamp(seconds, timezone.utc)
        .isoformat(timespec="milliseconds")
        .replace(".000", "")
        .replace("+00:00", "Z")
    )


def seconds(text: str, where: str) -> float:
    """Read an RFC 3339 time as seconds since the epoch. Raises FormatError."""
    try:
        # Before 3.11 fromisoformat knows neither Z nor fractions of other than 3 or 6 digits.
        whole, _, rest = text.partition(".")
        fraction = rest.rstrip("Zz").partition("+")[0].partition("-")[0]
        zone = rest[len(fraction) :] if rest else ""
        moment = datetime.fromisoformat((whole + zone).replace("Z", "+00:00").replace("z", "+00:00"))
        if moment.tzinfo is None:
            raise ValueError("no time zone")
        return moment.timestamp() + (float(f"0.{fraction}") if fraction else 0.0)
    except ValueError as err:
        raise FormatError(f"{where}: {text!r} is not an RFC 3339 time: {err}") from err


def member(document: Mapping[str, Any], name: str, kind: type[_T], where: str) -> _T:
    """Return a required member of a document. Raises FormatError when it is absent or of another type."""
    value = document.get(name)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise FormatError(f"{where}: {name} is {value!r}, want {kind.__name__}")
    return value


@dataclass(frozen=True)
class Layout:
    """The parallel layout in ranks, and the batch in samples."""

    dp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    global_batch: int = 0
    accumulation: int = 1

    def content(self) -> Document:
        """Return it as it is written."""
        content = asdict(self)
        content["globalBatch"] = content.pop("global_batch")
        content["accumulation"] = content.pop("accumulation")
        return content

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Layout:
        """Read it; absent degrees are 1."""
        known = {f.name for f in fields(cls)}
        values = {("global_batch" if k == "globalBatch" else k): v for k, v in document.items()}
        return cls(**{k: int(v) for k, v in values.items() if k in known})

    @property
    def others(self) -> tuple[int, int, int, int]:
        """The degrees that must be equal where a component is resharded over dp only."""
        return (self.tp, self.pp, self.cp, self.ep)


@dataclass(frozen=True)
class Item:
    """One stored item, or one block of it. ``encoding`` is ``json`` or absent."""

    component: str
    name: str
    offset: int
    bytes: int
    crc: str
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    block: int | None = None
    encoding: str | None = None

    def content(self) -> Document:
        """Return it as it is written."""
        content = {k: v for k, v in asdict(self).items() if v is not None}
        if self.shape is not None:
            content["shape"] = list(self.shape)
        return content

    @classmethod
    def read(cls, document: Mapping[str, Any], where: str) -> Item:
        """Read it. Raises FormatError."""
        shape = document.get("shape")
        crc = member(document, "crc", str, where)
        if not crc.startswith("crc32:"):
            raise FormatError(f"{where}: crc is {crc!r}, want crc32: and 8 hex digits")
        return cls(
            component=member(document, "component", str, where),
            name=member(document, "name", str, where),
            offset=member(document, "offset", int, where),
            bytes=member(document, "bytes", int, where),
            crc=crc,
            dtype=document.get("dtype"),
            shape=None if shape is None else tuple(int(n) for n in shape),
            block=document.get("block"),
            encoding=document.get("encoding"),
        )


@dataclass(frozen=True)
class StoredObject:
    """One data object: key relative to the save's prefix, and what is in it."""

    key: str
    bytes: int
    etag: str
    items: tuple[Item, ...]

    def content(self) -> Document:
        """Return it as it is written."""
        return {
            "key": self.key,
            "bytes": self.bytes,
            "etag": self.etag,
            "items": [item.content() for item in self.items],
        }

    @classmethod
    def read(cls, document: Mapping[str, Any], where: str) -> StoredObject:
        """Read it. Raises FormatError."""
        return cls(
            key=member(document, "key", str, where),
            bytes=member(document, "bytes", int, where),
            etag=member(document, "etag", str, where),
            items=tuple(Item.read(item, where) for item in member(document, "items", list, where)),
        )


@dataclass(frozen=True)
class Index:
    """The objects of one rank, or of a group of ranks."""

    ranks: tuple[int, ...]
    objects: tuple[StoredObject, ...]

    def encode(self) -> builtins.bytes:
        """Return the bytes of the index object."""
        content = {"ranks": list(self.ranks), "objects": [o.content() for o in self.objects]}
        return encode("CheckpointIndex", content)

    @classmethod
    def decode(cls, data: builtins.bytes, where: str) -> Index:
        """Read an index object. Raises FormatError."""
        document = decode(data, "CheckpointIndex", where)
        return cls(
            ranks=tuple(member(document, "ranks", list, where)),
            objects=tuple(StoredObject.read(o, where) for o in member(document, "objects", list, where)),
        )


@dataclass(frozen=True)
class IndexRef:
    """An index object as the manifest names it."""

    key: str
    bytes: int
    etag: str
    sha256: str


@dataclass(frozen=True)
class Component:
    """What a manifest says of a component. ``placement`` is the SDK's own addition."""

    reshard: str
    complete: bool = True
    placement: str | None = None

    def content(self) -> Document:
        """Return it as it is written."""
        return {k: v for k, v in asdict(self).items() if v is not None}


@dataclass(frozen=True)
class Manifest:
    """A checkpoint's manifest: its PUT is the commit."""

    run: Mapping[str, str]
    identity: Mapping[str, str]
    attempt: int
    step: int
    nonce: str
    saved_at: str
    world_size: int
    layout: Layout
    components: Mapping[str, Component]
    prefix: str
    indexes: tuple[IndexRef, ...]
    objects: int
    bytes: int
    device_profile: str = ""
    framework: str = "numpy"
    format: str = "rtj-arrays/1"
    yield_id: int | None = None

    def encode(self) -> builtins.bytes:
        """Return the manifest's bytes. Raises FormatError above 64 KiB."""
        content: Document = {
            "run": dict(self.run),
            "identity": dict(self.identity),
            "attempt": self.attempt,
            "step": self.step,
            "nonce": self.nonce,
            "savedAt": self.saved_at,
            "worldSize": self.world_size,
            "layout": self.layout.content(),
            "components": {name: c.content() for name, c in self.components.items()},
            "prefix": self.prefix,
            "indexes": [asdict(ref) for ref in self.indexes],
            "objects": self.objects,
            "bytes": self.bytes,
            "deviceProfile": self.device_profile,
            "framework": self.framework,
            "format": self.format,
        }
        if self.yield_id is not None:
            content["yieldID"] = self.yield_id
        data = encode("CheckpointManifest", content)
        if len(data) > MANIFEST_LIMIT:
            raise FormatError(f"the manifest has {len(data)} bytes, more than {MANIFEST_LIMIT}: shorten identity")
        return data

    @classmethod
    def decode(cls, data: builtins.bytes, where: str) -> Manifest:
        """Read a manifest. Raises FormatError."""
        document = decode(data, "CheckpointManifest", where)
        try:
            components = {
                name: Component(c["reshard"], c["complete"], c.get("placement"))
                for name, c in member(document, "components", dict, where).items()
            }
            indexes = tuple(
                IndexRef(i["key"], i["bytes"], i["etag"], i["sha256"]) for i in member(document, "indexes", list, where)
            )
        except (KeyError, TypeError, AttributeError) as err:
            raise FormatError(f"{where}: {err!r} in components or indexes") from err
        return cls(
            run=member(document, "run", dict, where),
            identity=member(document, "identity", dict, where),
            attempt=member(document, "attempt", int, where),
            step=member(document, "step", int, where),
            nonce=member(document, "nonce", str, where),
            saved_at=member(document, "savedAt", str, where),
            world_size=member(document, "worldSize", int, where),
            layout=Layout.read(member(document, "layout", dict, where)),
            components=components,
            prefix=member(document, "prefix", str, where),
            indexes=indexes,
            objects=member(document, "objects", int, where),
            bytes=member(document, "bytes", int, where),
            device_profile=str(document.get("deviceProfile", "")),
            framework=str(document.get("framework", "")),
            format=str(document.get("format", "")),
            yield_id=document.get("yieldID"),
        )


@dataclass(frozen=True)
class YieldRequest:
    """What a control document or a notice asks for.

    ``duration`` is the budget in seconds counted from ``issued_at`` on the issuer's clock.
    """

    id: int
    cause: str
    issued_at: float
    duration: float
    counter: int = 0
    history: tuple[str, ...] = field(default=())


def decode_control(data: bytes, attempt: int) -> YieldRequest | None:
    """Read a control document; None when it asks this attempt for nothing. Raises FormatError."""
    document = decode(data, "Control", "control.json")
    if member(document, "attempt", int, "control.json") != attempt:
        return None  # that of the attempt before stays until this one is asked for something
    asked = document.get("yield")
    if asked is None:
        return None
    if not isinstance(asked, dict):
        raise FormatError("control.json: yield is not an object")
    issued = seconds(member(asked, "issuedAt", str, "control.json"), "control.json: issuedAt")
    deadline = seconds(member(asked, "deadline", str, "control.json"), "control.json: deadline")
    return YieldRequest(
        id=member(asked, "id", int, "control.json"),
        cause=member(asked, "cause", str, "control.json"),
        issued_at=issued,
        duration=max(0.0, deadline - issued),
        history=tuple(str(h.get("cause")) for h in asked.get("history", []) if isinstance(h, dict)),
    )


def decode_notice(data: bytes, attempt: int) -> YieldRequest | None:
    """Read a yield notice; None when the file is empty or for another attempt. Raises FormatError."""
    if not data.strip():
        return None
    document = decode(data, "Notice", "notice.json")
    if member(document, "attempt", int, "notice.json") != attempt:
        return None
    asked = member(document, "yield", dict, "notice.json")
    return YieldRequest(
        id=member(asked, "id", int, "notice.json"),
        cause=member(asked, "cause", str, "notice.json"),
        issued_at=seconds(member(asked, "issuedAt", str, "notice.json"), "notice.json: issuedAt"),
        duration=max(0.0, member(asked, "durationSeconds", float, "notice.json")),
        counter=member(document, "counter", int, "notice.json"),
    )
