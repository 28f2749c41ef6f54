"""What a training program uses: :func:`start` and the :class:`Job` that it returns."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar

from rtj import environment, lineage, records, tree
from rtj.boundary import EVALUATING, FINISHING, TRAINING, Act
from rtj.checkpoint import Checkpoint
from rtj.data import Sampler
from rtj.deadline import Deadline
from rtj.errors import (
    ConfigurationError,
    DamagedCheckpointError,
    NoUsableCheckpointError,
    RestoreError,
    RestoreIgnoredError,
    StoreError,
)
from rtj.formats import Layout, timestamp
from rtj.office import Facts
from rtj.placement import Placement, placements
from rtj.rank import Rank
from rtj.restoring import FORMAT, out_of_memory, restore
from rtj.saver import FINAL_SECONDS
from rtj.stores import open_store

log = logging.getLogger("rtj")

_T = TypeVar("_T")
_active: Job | None = None


@dataclass(frozen=True)
class YieldNotice:
    """A yield was asked: why, and how many seconds are left to commit."""

    cause: str
    seconds_left: float


def start(
    *,
    store: str | os.PathLike[str] | None = None,
    name: str | None = None,
    components: Mapping[str, Placement] | None = None,
    total_steps: int | None = None,
    layout: Layout | None = None,
    on_none: Literal["fail", "fresh"] = "fail",
) -> Job:
    """Begin, or continue, a resumable training job; call it once, on every rank, on the main thread.

    On a cluster everything comes from the environment. Elsewhere ``store`` is a folder or ``s3://bucket/prefix``
    and ``name`` tells runs in it apart (the script's name by default); the newest complete checkpoint is continued.
    If there are checkpoints and none fits, ``on_none`` says whether to fail or to start afresh.

    ``components`` declares how parts of the state lie on the ranks: :func:`rtj.replicated`, :func:`rtj.per_rank`,
    :func:`rtj.sharded`, :func:`rtj.omitted`. Without it model, optimizer, scheduler and data are replicated, and of
    everything else each rank keeps its own. ``total_steps`` is for progress reports only.

    Raises ConfigurationError, StoreError, AgreementError, NoUsableCheckpointError.
    """
    global _active
    if _active is not None and not _active._rank.closed:
        raise ConfigurationError("rtj.start() was called before in this process: one job at a time in a process")
    _log_somewhere()
    env = environment.read(os.environ, store=store, name=name)
    opened = open_store(env.storage_uri, env.below, endpoint=env.storage_endpoint, region=env.storage_region)
    chosen = layout if layout is not None else Layout(dp=env.world_size)
    rank = Rank(env, opened, dict(components or {}))
    rank.total_steps = total_steps

    def select() -> lineage.Selection:
        selection = lineage.select(opened, env.run, env.identity, env.world_size, chosen)
        if env.restore:
            return lineage.Selection(selection.attempt, records.RestorePoint.of(env.restore))
        for reason in selection.passed_over:
            log.warning("passed over %s", reason)
        if selection.restore is None and selection.candidates and on_none == "fail":
            raise NoUsableCheckpointError(
                f"there are checkpoints in {opened.where} and none can be used: "
                f"{'; '.join(selection.passed_over)}; repair that, use another name, or rtj.start(on_none='fresh')"
            )
        return selection

    def facts(rank: Rank) -> Facts:
        return Facts(env.run, dict(env.identity), rank.attempt, rank.restore, env.world_size, chosen, "numpy", FORMAT)

    rank.join(select, facts)
    if env.rank == 0:
        continued = "from the beginning" if rank.restore is None else f"continues {rank.restore.checkpoint}"
        log.info(
            "attempt %d of %s (%d ranks) %s; store %s", rank.attempt, env.name, env.world_size, continued, opened.where
        )
    _active = Job(rank, chosen)
    return _active


class Job:
    """A running attempt, as one rank sees it. Made by :func:`rtj.start`; used by the main thread."""

    def __init__(self, rank: Rank, layout: Layout) -> None:
        self._rank = rank
        self._boundary = rank.boundary
        self._layout = layout
        self._restored = rank.restore is None
        self._sampler: Sampler | None = None

    @property
    def rank(self) -> int:
        """This process's rank."""
        return self._rank.env.rank

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self._rank.env.world_size

    @property
    def attempt(self) -> int:
        """The attempt's number, from 1."""
        return self._rank.attempt

    @property
    def steps(self) -> int:
        """The number of optimizer steps applied, over all attempts that this one continues."""
        return self._boundary.step

    @property
    def restored_from(self) -> str | None:
        """The id of the checkpoint that this attempt continues, or None."""
        return None if self._rank.restore is None else self._rank.restore.checkpoint

    def restore(self, state: _T) -> _T:
        """Bring a freshly built state to where the restored checkpoint was; unchanged when starting afresh.

        Arrays are read into their own memory and dicts and lists are changed in place, so names that the program
        holds elsewhere stay right; the state is also returned. Every byte is verified before it is used. Random
        generators come last.

        Raises RestoreError; the attempt is over then.
        """
        values = _components(state)
        self._rank.state = values
        if self._restored:
            return state
        point = self._rank.restore
        assert point is not None
        begun = time.perf_counter()
        env = self._rank.env
        try:
            checkpoint = Checkpoint.open(self._rank.store, point.checkpoint)
            where = placements(self._rank.declared, values)
            size = restore(checkpoint, values, where, env.rank, env.world_size, self._layout)
        except RestoreError as err:
            if isinstance(err, DamagedCheckpointError):
                self._quarantine(err)
            self._rank.restore_failed(err)
            raise
        except MemoryError as err:
            failure = out_of_memory(err)
            self._rank.restore_failed(failure)
            raise failure from err
        self._restored = True
        self._rank.restore_seconds = round(time.perf_counter() - begun, 3)
        log.info(
            "rank %d restored step %d: %.1f MB in %.2f s", env.rank, point.step, size / 1e6, self._rank.restore_seconds
        )
        self._move_on(TRAINING)
        return state

    def step(self, *, state: Any = None, loss: Any = None) -> None:
        """Say that one optimizer step was applied. Call it once after each, on every rank.

        Costs one comparison when nothing is due. Otherwise it copies the state for a save, or saves it and raises
        :class:`rtj.Yielded`. ``state`` is the dict of components to save from now on (that of restore() otherwise);
        it may change freely between two calls. ``loss`` is only reported, and not looked at here.
        """
        boundary = self._boundary
        boundary.step = step = boundary.step + 1
        if state is not None:
            self._rank.state = state
        self._rank.loss = loss
        if step >= boundary.due:
            self._look()

    def save(self) -> None:
        """Ask for a checkpoint at the next step on which all ranks can agree. Any rank may ask; nothing waits."""
        self._rank.send({"type": "wish", "step": self.steps})

    def should_yield(self) -> YieldNotice | None:
        """Return the notice if a yield was asked, with the seconds left; None otherwise.

        Only for programs that want to shorten something; step() leaves by itself.
        """
        asked = self._rank.asked
        return None if asked is None else YieldNotice(asked.cause, asked.left(time.monotonic()))

    def sampler(self, length: int, global_batch: int, *, seed: int = 0, shuffle: bool = True) -> Sampler:
        """Return a sampler for this rank, which :meth:`epochs` positions. Put it into the state."""
        self._sampler = Sampler(
            length, global_batch, seed=seed, rank=self.rank, world_size=self.world_size, shuffle=shuffle
        )
        self._rank.know_batch(global_batch)
        return self._sampler

    def epochs(self, total: int) -> Iterator[int]:
        """Yield the epochs that are left of ``total``, beginning with the one that was interrupted."""
        sampler = self._sampler
        if sampler is None:
            raise ConfigurationError(
                "job.epochs() needs the data position: make a job.sampler() and put it in the state"
            )
        for epoch in range(sampler.epoch, total):
            sampler.begin(epoch)
            yield epoch

    def evaluating(self, batches: Iterable[_T] = ()) -> Evaluating[_T]:
        """Mark an evaluation: ``with job.evaluating():``, or ``for batch in job.evaluating(batches):``.

        While all ranks evaluate at the same step a yield is answered at once: between two batches, or at the end of
        the block. The state must not change meanwhile.
        """
        return Evaluating(self, batches)

    def publish(self, name: str, data: bytes) -> None:
        """Store an object of the program's own as ``extra/<attempt>/<name>`` of the run, soon; rank 0 only.

        ``name`` is a relative path of at most 512 bytes, without ``..``. What was published before a step is in the
        store before that step's checkpoint is committed, unless the store will not take it: then the log says so,
        and the checkpoint is committed all the same.

        Raises ConfigurationError for a name that cannot be stored and for data that is not bytes.
        """
        self._rank.publish(name, data)

    def finish(self, state: Any = None) -> None:
        """Say that training is complete: the only record of completion. Call it on every rank, at the same step.

        Saves the last state if it is not saved, and returns when that and the completion are recorded. With the store
        unavailable the save is tried for an hour. Raises AgreementError when it cannot be made or recorded.
        """
        if state is not None:
            self._rank.state = state
        if not self._restored:
            self._ignored()
        boundary = self._boundary
        boundary.place = FINISHING
        self._rank.send({"type": "finishing", "step": boundary.step})
        while boundary.ending is None:
            act = boundary.take()
            if act is not None and act.nonce is not None:
                self._save_now(act)
            else:
                boundary.wait(0.5)
        if boundary.ending.outcome != records.FINISHED:
            self._rank.raise_ending()
        self._rank.close()
        log.info("rank %d: %s", self.rank, boundary.ending.message)

    # What step() does when something is due.

    def _look(self) -> None:
        if self._rank.first_step_at is None and self._boundary.place != EVALUATING:
            if not self._restored:
                self._ignored()
            # Now rather than at the first save, which may be an hour away.
            placements(self._rank.declared, _components(self._rank.state))
            for component, value in self._rank.state.items():
                tree.check(component, value)
            self._rank.began()
        act = self._boundary.take()
        if self._boundary.ending is not None:
            self._rank.raise_ending()
        if act is None:
            return
        if act.kind == "yield":
            self._leave(act)
        elif act.nonce is not None:
            self._rank.saver.background(act.step, act.nonce, _components(self._rank.state))

    def _leave(self, act: Act) -> None:
        rank = self._rank
        rank.saving = True
        rank.poke()
        if act.after is not None and act.nonce is not None:
            rank.saver.wait(self._last_moment())
        if act.nonce is None:
            rank.send({"type": "left"})
        else:
            self._save_now(act)
        while self._boundary.ending is None:
            self._boundary.wait(0.5)
        rank.raise_ending()

    def _save_now(self, act: Act) -> None:
        assert act.nonce is not None
        self._rank.saving = True
        self._rank.poke()
        self._rank.saver.foreground(act.step, act.nonce, _components(self._rank.state), self._last_moment())

    def _last_moment(self) -> Deadline:
        asked = self._rank.asked
        if asked is None:  # the last save, of finish()
            return Deadline(FINAL_SECONDS)
        return Deadline(max(0.0, asked.give_up_at(self._rank.env.termination_grace) - time.monotonic()))

    def _move_on(self, place: str) -> None:
        """Change the place; a decision that counted on the earlier one is carried out first."""
        self._boundary.place = place
        if self._boundary.step >= self._boundary.due and self._rank.first_step_at is not None:
            self._look()
        elif self._rank.first_step_at is None:
            act = self._boundary.take()
            if self._boundary.ending is not None:
                self._rank.raise_ending()
            if act is not None:
                self._leave(act)
            self._boundary.due = -1

    def _quarantine(self, err: DamagedCheckpointError) -> None:
        """Condemn the checkpoint, unless it is the last one that there is: a person decides about that."""
        point = self._rank.restore
        assert point is not None
        env = self._rank.env
        store = self._rank.store
        try:
            another = lineage.another_fits(store, point.checkpoint, env.run, env.identity, env.world_size, self._layout)
        except (StoreError, RestoreError) as failure:
            log.error(
                "%s is not put in quarantine: whether another could be restored is not known: %s",
                point.checkpoint,
                failure,
            )
            return
        if not another:
            log.error(
                "%s is damaged and not put in quarantine: there is no other that could be restored; to go on without "
                "it delete manifests/%s.json",
                point.checkpoint,
                point.checkpoint,
            )
            return
        record = records.Quarantine(
            point.checkpoint, err.cause, err.object or "", env.rank, env.node_name, str(err), timestamp(time.time())
        )
        try:
            store.put(f"quarantine/{point.checkpoint}.json", record.encode(), Deadline(10.0))
            log.error("%s is in quarantine: %s", point.checkpoint, err)
        except StoreError as failure:
            log.error("the quarantine of %s could not be recorded: %s", point.checkpoint, failure)

    def _ignored(self) -> None:
        point = self._rank.restore
        assert point is not None
        raise RestoreIgnoredError(
            f"ResumeIgnored: this attempt continues {point.checkpoint} (step {point.step}), and the program trains "
            "without having restored it: call state = job.restore(state) before the first job.step()"
        )


class Evaluating(Generic[_T]):
    """The context manager and iterator of :meth:`Job.evaluating`."""

    def __init__(self, job: Job, batches: Iterable[_T]) -> None:
        self._job = job
        self._batches = batches

    def __enter__(self) -> Evaluating[_T]:
        self._job._move_on(EVALUATING)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        if err is None:
            self._job._move_on(TRAINING)
        else:
            self._job._boundary.place = TRAINING

    def __iter__(self) -> Iterator[_T]:
        with self:
            for batch in self._batches:
                yield batch
                self._job._move_on(EVALUATING)


def _components(state: Any) -> dict[str, Any]:
    if isinstance(state, dict) and state and all(isinstance(name, str) for name in state):
        return state
    if state is None:
        raise ConfigurationError("nothing to save: give job.restore(state) or job.step(state=...) a dict of components")
    raise ConfigurationError(
        "the state must be a dict of components, such as {'model': ..., 'optimizer': ..., 'rng': ..., 'data': ...}; "
        f"got {type(state).__name__}"
    )


def _log_somewhere() -> None:
    """Show the messages on standard error where the program set up no logging at all."""
    if log.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s rtj: %(message)s", "%H:%M:%S"))
    log.addHandler(handler)
    level = os.environ.get("RTJ_LOG_LEVEL") or "INFO"
    try:
        log.setLevel(level.upper())
    except ValueError:
        log.setLevel("INFO")
        raise ConfigurationError(f"RTJ_LOG_LEVEL is {level!r}, want DEBUG, INFO, WARNING or ERROR") from None
