"""What an attempt writes about itself: start, progress, result, quarantine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtj.formats import MESSAGE_LIMIT, Document, Layout, decode, encode, member
from rtj.keys import CheckpointID

FINISHED = "finished"
YIELDED = "yielded"
NOT_SERVICED = "yieldNotServiced"
RESTORE_FAILED = "restoreFailed"
FAILED = "failed"


@dataclass(frozen=True)
class RestorePoint:
    """The checkpoint that an attempt continues."""

    checkpoint: str
    attempt: int
    step: int

    @classmethod
    def of(cls, checkpoint: str) -> RestorePoint:
        """Return the restore point that a checkpoint id names. Raises FormatError."""
        id = CheckpointID.parse(checkpoint)
        return cls(checkpoint, id.attempt, id.step)


@dataclass(frozen=True)
class Start:
    """Links an attempt to the one it continues; written before the first save, kept for ever."""

    attempt: int
    restore: RestorePoint | None
    world_size: int
    layout: Layout
    started_at: str

    def encode(self) -> bytes:
        """Return the record's bytes."""
        restore = None if self.restore is None else vars(self.restore)
        return encode(
            "AttemptStart",
            {
                "attempt": self.attempt,
                "restore": restore,
                "worldSize": self.world_size,
                "layout": self.layout.content(),
                "startedAt": self.started_at,
            },
        )

    @classmethod
    def decode(cls, data: bytes, where: str) -> Start:
        """Read a start record. Raises FormatError."""
        document = decode(data, "AttemptStart", where)
        restore = document.get("restore")
        return cls(
            attempt=member(document, "attempt", int, where),
            restore=None
            if restore is None
            else RestorePoint(
                member(restore, "checkpoint", str, where),
                member(restore, "attempt", int, where),
                member(restore, "step", int, where),
            ),
            world_size=member(document, "worldSize", int, where),
            layout=Layout.read(member(document, "layout", dict, where)),
            started_at=member(document, "startedAt", str, where),
        )


@dataclass(frozen=True)
class LastSave:
    """The newest committed checkpoint of the attempt."""

    checkpoint: str
    step: int
    seconds: float
    bytes: int


@dataclass(frozen=True)
class YieldState:
    """How far a yield is: acknowledged when, and at which step the ranks act (None until they agreed)."""

    id: int
    acknowledged_at: str
    agreed_step: int | None


@dataclass(frozen=True)
class Progress:
    """What the attempt does now; overwritten every few seconds."""

    attempt: int
    activity: str
    step: int
    total_steps: int | None
    steps_per_second: float | None
    first_step_at: str | None
    restore_seconds: float | None
    last_save: LastSave | None
    yielding: YieldState | None
    updated_at: str

    def encode(self) -> bytes:
        """Return the record's bytes."""
        asked = self.yielding
        content: Document = {
            "attempt": self.attempt,
            "activity": self.activity,
            "step": self.step,
            "totalSteps": self.total_steps,
            "stepsPerSecond": self.steps_per_second,
            "firstStepAt": self.first_step_at,
            "restoreSeconds": self.restore_seconds,
            "lastSave": None if self.last_save is None else vars(self.last_save),
            "yield": None
            if asked is None
            else {
                "id": asked.id,
                "acknowledgedAt": asked.acknowledged_at,
                "agreedStep": asked.agreed_step,
            },
            "updatedAt": self.updated_at,
        }
        return encode("AttemptProgress", content)


@dataclass(frozen=True)
class RestoreFailure:
    """Why a restore failed, and where."""

    checkpoint: str
    cause: str
    object: str | None
    rank: int
    node: str

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> RestoreFailure:
        """Read it from a message or a record."""
        return cls(
            checkpoint=str(document["checkpoint"]),
            cause=str(document["cause"]),
            object=document.get("object"),
            rank=int(document["rank"]),
            node=str(document["node"]),
        )


@dataclass(frozen=True)
class Result:
    """How the attempt ended."""

    attempt: int
    outcome: str
    step: int
    checkpoint: str | None
    lost_steps: int
    message: str
    ended_at: str
    restore_failure: RestoreFailure | None = None

    def encode(self) -> bytes:
        """Return the record's bytes."""
        content: Document = {
            "attempt": self.attempt,
            "outcome": self.outcome,
            "step": self.step,
            "checkpoint": self.checkpoint,
            "lostSteps": self.lost_steps,
            "message": one_line(self.message),
        }
        if self.restore_failure is not None:
            content["restoreFailure"] = vars(self.restore_failure)
        content["endedAt"] = self.ended_at
        return encode("AttemptResult", content)


@dataclass(frozen=True)
class Quarantine:
    """Puts a checkpoint out of use; deleting the object lifts it."""

    checkpoint: str
    cause: str
    object: str
    rank: int
    node: str
    message: str
    recorded_at: str

    def encode(self) -> bytes:
        """Return the record's bytes."""
        return encode(
            "Quarantine",
            {
                "checkpoint": self.checkpoint,
                "cause": self.cause,
                "object": self.object,
                "rank": self.rank,
                "node": self.node,
                "message": one_line(self.message),
                "recordedAt": self.recorded_at,
            },
        )


def one_line(message: str) -> str:
    """Return a message as one line of at most 1,024 characters."""
    flat = " ".join(message.split())
    return flat if len(flat) <= MESSAGE_LIMIT else flat[: MESSAGE_LIMIT - 1] + "…"
