"""How the ranks agree: rank 0's side, as a state machine without I/O, clock or randomness.

It is told what happened and when, and returns what to do. The protocol:

1. Something is wanted (a save that is due, a yield). All ranks are told to *freeze*: their side threads answer with
   the step counter at once, also while the main thread sits in a collective, and the main thread is held at its next
   boundary.
2. When all have answered, all are told to act at the maximum plus one, and go on. (Where every rank is parked at the
   same step, restoring or evaluating, they act at that step.)
3. Each rank reaches that step, stores its part, and says so. When all have, rank 0 writes the manifest.
4. After a yield or a finish rank 0 writes the result record, then tells all that it is over. No rank leaves before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rtj import records
from rtj.boundary import EVALUATING, FINISHING, RESTORING, Act
from rtj.notice import Asked

# Within this the ranks have agreed, or they never will.
AGREEMENT_SECONDS = 10.0
# Past the time of a yield its result record gets this much longer, of the margin that is kept before the kill.
RECORD_SECONDS = 0.25

Message = dict[str, Any]


@dataclass(frozen=True)
class Tell:
    """Send a message to these ranks, or to all."""

    message: Message
    ranks: tuple[int, ...] | None = None


@dataclass
class Save:
    """A save that all ranks were told of."""

    nonce: str
    step: int
    begun: float
    yielding: bool = False
    final: bool = False
    committing: bool = False
    parts: dict[int, Message] = field(default_factory=dict)


@dataclass(frozen=True)
class CommitSave:
    """Write the manifest of a save; then say ``committed`` or ``commit_failed``."""

    save: Save


@dataclass(frozen=True)
class Conclude:
    """Write the result record; then say ``concluded``."""

    outcome: str
    message: str
    failure: Message | None = None


Effect = Tell | CommitSave | Conclude


@dataclass
class _Round:
    number: int
    begun: float
    for_yield: bool
    answers: dict[int, tuple[int, str]] = field(default_factory=dict)


def in_flight_plan(left: float, estimate: float | None, elapsed: float) -> str:
    """Decide about a save in flight when a yield comes: ``finish`` it and save again, ``drop`` it, or ``only`` it.

    ``estimate`` is how long a save takes, in seconds, None when none was completed yet: then both are tried, since
    nothing says that they do not fit.
    """
    if estimate is None:
        return "finish"
    rest = max(0.0, estimate - elapsed)
    if rest + estimate <= left:
        return "finish"
    if estimate <= left:
        return "drop"
    return "only"


class Coordinator:
    """Rank 0's knowledge of the attempt. ``now`` is monotonic seconds; methods return effects in order."""

    def __init__(self, world_size: int, base_step: int, grace: float, new_nonce: Callable[[], str]) -> None:
        self.world_size = world_size
        self.asked: Asked | None = None
        self.agreed_step: int | None = None
        self.concluded_with: Conclude | None = None
        self.committed_step = base_step
        self._grace = grace
        self._new_nonce = new_nonce
        self._present: set[int] = set()
        self._gone: dict[int, str] = {}
        self._gone_since = 0.0
        self._asked_since = 0.0
        self._round: _Round | None = None
        self._rounds = 0
        self._wish = False
        self._saves: dict[str, Save] = {}
        self._yield_act: Act | None = None
        self._finishing: dict[int, int] = {}
        self._left: set[int] = set()
        self._estimate: float | None = None

    @property
    def saving(self) -> bool:
        """Whether a save was decided and is neither committed nor given up."""
        return bool(self._saves)

    def joined(self, rank: int, now: float) -> list[Effect]:
        """A rank is connected."""
        self._present.add(rank)
        told = [] if self.asked is None else [Tell(self.asked.message("yield", now), (rank,))]
        return [*told, *self._advance(now)]

    def gone(self, rank: int, why: str, now: float) -> list[Effect]:
        """A rank will not answer any more."""
        if self.concluded_with is not None or rank in self._gone:
            return []
        self._gone[rank] = why
        self._gone_since = now
        if self.asked is not None or self._finishing:
            return self._advance(now)
        others = tuple(r for r in range(self.world_size) if r not in self._gone)
        return [Tell({"type": "gone", "rank": rank, "why": why}, others)]

    def overdue(self, now: float) -> Conclude | None:
        """Return what was concluded, if the pods are about to be killed: the ranks wait for its record no longer."""
        if self.concluded_with is None or self.asked is None:
            return None
        return self.concluded_with if now >= self.asked.give_up_at(self._grace) + RECORD_SECONDS else None

    def heard(self, asked: Asked, now: float) -> list[Effect]:
        """A rank heard of a yield, or of a new time for it."""
        if self.asked is None:
            self.asked, self._asked_since = asked, now
        else:
            merged = self.asked.merged(asked)
            if merged == self.asked:
                return []
            self.asked = merged
        if self.concluded_with is not None:
            return []
        return [Tell(self.asked.message("yield", now)), *self._advance(now)]

    def wish(self, now: float, step: int | None = None) -> list[Effect]:
        """A save is due, or a rank asked for one of its state after ``step``, which others may have asked for too."""
        latest = max([self.committed_step, *(save.step for save in self._saves.values())])
        if step is not None and step <= latest:
            return []
        self._wish = True
        return self._advance(now)

    def frozen(self, rank: int, number: int, step: int, place: str, now: float) -> list[Effect]:
        """A rank answered a freeze."""
        if self._round is None or self._round.number != number:
            return []
        self._round.answers[rank] = (step, place)
        if len(self._round.answers) < self.world_size:
            return []
        return self._decide(now)

    def uploaded(self, rank: int, nonce: str, part: Message, now: float) -> list[Effect]:
        """A rank stored its part of a save."""
        save = self._saves.get(nonce)
        if save is None:
            return []
        save.parts[rank] = part
        if len(save.parts) < self.world_size or save.committing:
            return []
        save.committing = True
        return [CommitSave(save)]

    def save_failed(self, rank: int, nonce: str, why: str, now: float) -> list[Effect]:
        """A rank could not store its part."""
        return self._given_up(nonce, f"rank {rank}: {why}", now)

    def commit_failed(self, nonce: str, why: str, now: float) -> list[Effect]:
        """The manifest could not be written."""
        return self._given_up(nonce, why, now)

    def committed(self, nonce: str, checkpoint: str, seconds: float, now: float) -> list[Effect]:
        """The manifest is written."""
        save = self._saves.pop(nonce, None)
        if save is None:
            return []
        self.committed_step = max(self.committed_step, save.step)
        self._estimate = seconds
        effects: list[Effect] = [
            Tell({"type": "committed", "nonce": nonce, "checkpoint": checkpoint, "step": save.step})
        ]
        if save.final:
            return [*effects, self._conclude(records.FINISHED, f"finished at step {save.step}")]
        if save.yielding:
            return [*effects, self._conclude(records.YIELDED, self._yielded(seconds))]
        return [*effects, *self._all_left(), *self._advance(now)]

    def finishing(self, rank: int, step: int, now: float) -> list[Effect]:
        """A rank is in finish() at this step."""
        self._finishing[rank] = step
        return self._advance(now)

    def left(self, rank: int) -> list[Effect]:
        """A rank came to the step of a yield that has nothing to save."""
        self._left.add(rank)
        return self._all_left()

    def restore_failed(self, rank: int, message: str, failure: Message, now: float) -> list[Effect]:
        """A rank could not restore."""
        if self.concluded_with is not None:
            return []
        return [self._conclude(records.RESTORE_FAILED, message, failure)]

    def tick(self, now: float) -> list[Effect]:
        """Time has passed."""
        if self.concluded_with is not None:
            return []
        if self._round is not None and now - self._round.begun >= AGREEMENT_SECONDS:
            silent = sorted(set(range(self.world_size)) - set(self._round.answers))
            why = f"no answer from {_ranks(silent)} within {AGREEMENT_SECONDS:.0f} s"
            if self._round.for_yield:
                return [self._unserviced(why)]
            self._round, self._wish = None, False
            return [Tell({"type": "decide", "act": None}), Tell({"type": "aborted", "nonce": None, "why": why})]
        if self._gone and now - self._gone_since >= AGREEMENT_SECONDS:
            return [self._conclude(records.FAILED, self._gone_message())]
        if self.asked is not None and not self._finishing:
            absent = sorted(set(range(self.world_size)) - self._present)
            if absent and now - self._asked_since >= AGREEMENT_SECONDS:
                return [self._unserviced(f"{_ranks(absent)} never joined")]
        if self.asked is not None and now >= self.asked.give_up_at(self._grace):
            return [self._unserviced("no checkpoint was committed in the time that there was")]
        return self._advance(now)

    # What is to be done next, when nothing else is being done.

    def _advance(self, now: float) -> list[Effect]:
        if self.concluded_with is not None:
            return []
        if self._gone:
            if self.asked is not None:
                return [self._unserviced(self._gone_message())]
            if self._finishing:
                return [self._conclude(records.FAILED, self._gone_message())]
            return []
        if len(self._present) < self.world_size:
            return []
        if self._finishing:
            return self._finish(now) if len(self._finishing) == self.world_size else []
        if self._round is not None:
            return []
        if self.asked is not None and self._yield_act is None:
            return self._freeze(now, for_yield=True)
        if self._wish and not self._saves and self._yield_act is None:
            return self._freeze(now, for_yield=False)
        return []

    def _all_left(self) -> list[Effect]:
        """End a yield that has nothing of its own to save, once no rank waits for another in a collective."""
        act = self._yield_act
        if self.concluded_with is not None or act is None or act.nonce is not None or self._saves:
            return []
        if len(self._left) < self.world_size:
            return []
        return [self._conclude(records.YIELDED, self._yielded(None))]

    def _freeze(self, now: float, for_yield: bool) -> list[Effect]:
        self._rounds += 1
        self._round = _Round(self._rounds, now, for_yield)
        return [Tell({"type": "freeze", "round": self._rounds})]

    def _decide(self, now: float) -> list[Effect]:
        assert self._round is not None
        answers = list(self._round.answers.values())
        self._round = None
        top = max(step for step, _ in answers)
        parked = all(place in (RESTORING, EVALUATING) for _, place in answers)
        step = top if parked and min(s for s, _ in answers) == top else top + 1
        if any(place == FINISHING for _, place in answers):
            # They will not come to another step; finish() saves.
            self._wish = False
            return [Tell({"type": "decide", "act": None})]
        if self.asked is not None:
            return self._decide_yield(step, top, now)
        self._wish = False
        if step <= self.committed_step:
            return [Tell({"type": "decide", "act": None})]
        save = self._begin(step, now)
        return [self._act(Act("save", step, nonce=save.nonce))]

    def _decide_yield(self, step: int, top: int, now: float) -> list[Effect]:
        assert self.asked is not None
        self.agreed_step = step
        self._wish = False
        effects: list[Effect] = []
        for save in [s for s in self._saves.values() if s.step > step]:
            effects += self._withdraw(save, "a yield comes first")
        same = next((s for s in self._saves.values() if s.step == step and step > top), None)
        if same is not None:
            # Due at this very step and begun by nobody: one checkpoint, not two.
            same.yielding = True
            self._yield_act = Act("yield", step, nonce=same.nonce)
        elif step <= self.committed_step:
            self._yield_act = Act("yield", step)
        else:
            self._yield_act = self._yield_with_one_in_flight(step, now)
        return [*effects, self._act(self._yield_act)]

    def _yield_with_one_in_flight(self, step: int, now: float) -> Act:
        flying = next(iter(self._saves.values()), None)
        if flying is None:
            return Act("yield", step, nonce=self._begin(step, now, yielding=True).nonce)
        if flying.step == step:
            return Act("yield", step, after=flying.nonce)
        assert self.asked is not None
        plan = in_flight_plan(self.asked.left(now), self._estimate, now - flying.begun)
        if plan == "only":
            return Act("yield", step, after=flying.nonce)
        if plan == "drop" and not flying.committing:
            del self._saves[flying.nonce]
            return Act("yield", step, nonce=self._begin(step, now, yielding=True).nonce, drop=flying.nonce)
        return Act("yield", step, nonce=self._begin(step, now, yielding=True).nonce, after=flying.nonce)

    def _finish(self, now: float) -> list[Effect]:
        steps = sorted(set(self._finishing.values()))
        if len(steps) > 1:
            return [
                self._conclude(records.FAILED, f"the ranks finish at different steps: {', '.join(map(str, steps))}")
            ]
        step = steps[0]
        effects: list[Effect] = []
        if self._round is not None:
            self._round = None
            effects.append(Tell({"type": "decide", "act": None}))
        for save in list(self._saves.values()):
            if save.final:
                return effects
            if save.committing:
                return effects  # its commit, or its failure, comes back here
            if save.step == step:
                save.final = True
                return effects
            effects += self._withdraw(save, "the job finishes")
        if step <= self.committed_step:
            return [*effects, self._conclude(records.FINISHED, f"finished at step {step}")]
        save = self._begin(step, now)
        save.final = True
        return [*effects, self._act(Act("save", step, nonce=save.nonce, final=True))]

    def _given_up(self, nonce: str, why: str, now: float) -> list[Effect]:
        save = self._saves.get(nonce)
        if save is None:
            return []
        effects = self._withdraw(save, why)
        if save.final:
            return [*effects, self._conclude(records.FAILED, f"the last checkpoint could not be saved: {why}")]
        act = self._yield_act
        if save.yielding or (act is not None and act.nonce is None and act.after == nonce):
            return [*effects, self._unserviced(why)]
        return [*effects, *self._advance(now)]

    def _withdraw(self, save: Save, why: str) -> list[Effect]:
        del self._saves[save.nonce]
        return [Tell({"type": "aborted", "nonce": save.nonce, "why": why})]

    def _begin(self, step: int, now: float, yielding: bool = False) -> Save:
        save = Save(self._new_nonce(), step, now, yielding=yielding)
        self._saves[save.nonce] = save
        return save

    def _act(self, act: Act) -> Tell:
        return Tell({"type": "decide", "act": vars(act)})

    def _yielded(self, seconds: float | None) -> str:
        cause = self.asked.cause if self.asked is not None else "a request"
        took = "no save of its own" if seconds is None else f"committed in {seconds:.1f} s"
        return f"yielded at step {self.agreed_step} after {cause}; {took}"

    def _unserviced(self, why: str) -> Conclude:
        cause = self.asked.cause if self.asked is not None else "a request"
        return self._conclude(records.NOT_SERVICED, f"yield after {cause} not serviced: {why}")

    def _gone_message(self) -> str:
        return "; ".join(f"rank {rank} is gone: {why}" for rank, why in sorted(self._gone.items()))

    def _conclude(self, outcome: str, message: str, failure: Message | None = None) -> Conclude:
        self.concluded_with = Conclude(outcome, message, failure)
        return self.concluded_with


def _ranks(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
    return f"rank {shown}" if len(numbers) == 1 else f"ranks {shown}"
