"""Where things are in the store, below ``<storage.uri>/<namespace>/<name>/<run id>/``."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

from rtj.errors import FormatError

MANIFESTS = "manifests/"
QUARANTINE = "quarantine/"

_ID = re.compile(r"(\d{6})-(\d{12})-([0-9a-f]{12})-([0-9a-f]{16})")


def new_nonce() -> str:
    """Return the random part of a save's keys: 12 hex digits, so that keys are never reused."""
    return secrets.token_hex(6)


@dataclass(frozen=True, order=True)
class CheckpointID:
    """A manifest's file name without ``.json``. Sorts by attempt, then step."""

    attempt: int
    step: int
    nonce: str
    digest: str

    @classmethod
    def of(cls, attempt: int, step: int, nonce: str, manifest: bytes) -> CheckpointID:
        """Return the id of a manifest with these bytes."""
        return cls(attempt, step, nonce, hashlib.sha256(manifest).hexdigest()[:16])

    @classmethod
    def parse(cls, text: str) -> CheckpointID:
        """Read an id. Raises FormatError."""
        found = _ID.fullmatch(text)
        if found is None:
            raise FormatError(f"{text!r} is not a checkpoint id: want <attempt:6>-<step:12>-<nonce:12>-<hash:16>")
        attempt, step, nonce, digest = found.groups()
        return cls(int(attempt), int(step), nonce, digest)

    def __str__(self) -> str:
        return f"{self.attempt:06d}-{self.step:012d}-{self.nonce}-{self.digest}"

    @property
    def manifest_key(self) -> str:
        """The key of the manifest."""
        return f"{MANIFESTS}{self}.json"

    @property
    def quarantine_key(self) -> str:
        """The key of the record that would put this checkpoint in quarantine."""
        return f"{QUARANTINE}{self}.json"


def checkpoint_prefix(attempt: int, step: int, nonce: str) -> str:
    """Return the prefix of a save's data and index objects, with a slash at the end."""
    return f"checkpoints/{attempt}/{step}-{nonce}/"


def data_key(rank: int, number: int) -> str:
    """Return a data object's key, relative to the save's prefix."""
    return f"{rank % 256:02x}/r{rank}-{number}"


def index_key(rank: int) -> str:
    """Return the key of the index object of a rank (of a rank group: its first), relative to the prefix."""
    return f"{rank % 256:02x}/r{rank}-index.json"


def start_key(attempt: int) -> str:
    """Return the key of an attempt's start record."""
    return f"attempts/{attempt}/start.json"


def progress_key(attempt: int) -> str:
    """Return the key of an attempt's progress record."""
    return f"attempts/{attempt}/progress.json"


def result_key(attempt: int) -> str:
    """Return the key of an attempt's result record."""
    return f"attempts/{attempt}/result.json"


def extra_key(attempt: int, name: str) -> str:
    """Return the key of an object that the program itself publishes; RTJ never reads it."""
    return f"extra/{attempt}/{name}"
