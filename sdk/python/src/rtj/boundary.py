"""Where the main thread meets the agreement: the step counter and the one value that a step reads.

The main thread adds one to ``step``, then reads ``due``. The side thread writes ``due``, then reads ``step``.
Python orders these, so either the main thread sees that it must stop, or the side thread sees the new step. In both
cases the step on which the ranks agree, the maximum plus one, is one that this rank has not passed.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import Any

from rtj.errors import AgreementError

NEVER = sys.maxsize
ALWAYS = -1

# What the main thread is doing, as far as it matters to where the ranks can act.
RESTORING = "restoring"
TRAINING = "training"
EVALUATING = "evaluating"
FINISHING = "finishing"


@dataclass(frozen=True)
class Act:
    """What all ranks do at a step. ``kind`` is save or yield; a yield without nonce saves nothing.

    ``after`` is an earlier save that is to be finished first, ``drop`` one that is to be given up.
    """

    kind: str
    step: int
    nonce: str | None = None
    after: str | None = None
    drop: str | None = None
    final: bool = False

    @classmethod
    def read(cls, message: dict[str, Any]) -> Act:
        """Read it from a message."""
        return cls(**message)


@dataclass(frozen=True)
class Ending:
    """How the attempt ended, for every rank."""

    outcome: str
    message: str
    checkpoint: str | None = None


class Boundary:
    """``step`` counts the optimizer steps applied; the main thread looks closer once ``step`` reaches ``due``."""

    def __init__(self, step: int, place: str) -> None:
        self.step = step
        self.due = ALWAYS  # so that the first step is looked at
        self.place = place
        self.ending: Ending | None = None
        self._frozen = False
        self._acts: list[Act] = []
        self._changed = threading.Condition()

    # The side thread.

    def freeze(self) -> tuple[int, str]:
        """Hold the main thread at its next boundary, and return the step and place it cannot have passed by more."""
        with self._changed:
            self._frozen = True
            self.due = ALWAYS
            return self.step, self.place

    def decide(self, act: Act | None) -> None:
        """Let the main thread go on, until the step of the act."""
        with self._changed:
            if act is not None:
                # A later save has become pointless by a yield, and one at the same step is the same save.
                self._acts = [a for a in self._acts if a.step < act.step] + [act]
            self._frozen = False
            self._rearm()
            self._changed.notify_all()

    def withdraw(self, nonce: str) -> None:
        """Forget a save that is not begun."""
        with self._changed:
            self._acts = [a for a in self._acts if a.nonce != nonce or a.kind == "yield"]
            self._rearm()

    def end(self, ending: Ending) -> None:
        """Tell the main thread that the attempt is over."""
        with self._changed:
            if self.ending is None:
                self.ending = ending
            self._frozen = False
            self.due = ALWAYS
            self._changed.notify_all()

    # The main thread.

    def take(self) -> Act | None:
        """Return what is to be done at this step, or None; waits while the ranks agree.

        When the attempt has ended meanwhile it returns None too: look at ``ending``.
        """
        with self._changed:
            while self._frozen and self.ending is None:
                self._changed.wait(1.0)
            if self.ending is not None:
                return None
            act = next((a for a in self._acts if a.step <= self.step), None)
            if act is not None:
                self._acts.remove(act)
                if act.step < self.step:
                    raise AgreementError(
                        f"the ranks act at step {act.step} and this one is at {self.step}: "
                        "job.step() must be called once for each optimizer step, on every rank"
                    )
            self._rearm()
            return act

    def wait(self, seconds: float) -> None:
        """Wait for the attempt's end or a new act, at most that long."""
        with self._changed:
            if self.ending is None and not any(a.step <= self.step for a in self._acts):
                self._changed.wait(seconds)

    def _rearm(self) -> None:
        if self.ending is not None or self._frozen:
            self.due = ALWAYS
        else:
            self.due = min((act.step for act in self._acts), default=NEVER)
