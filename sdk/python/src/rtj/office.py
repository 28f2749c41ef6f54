"""What rank 0 writes: manifests, and the records of the attempt. Nothing here holds up the agreement."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rtj import keys, records, saving
from rtj.coordinator import CommitSave, Conclude, Save
from rtj.deadline import Deadline
from rtj.errors import Error, SaveError, StoreError, StoreUnavailableError
from rtj.formats import Layout, timestamp
from rtj.publishing import Publications
from rtj.saver import FINAL_SECONDS, PERIODIC_SECONDS, part_of
from rtj.session import Message
from rtj.stores import RetryingStore

if TYPE_CHECKING:
    from rtj.leader import Leader

log = logging.getLogger("rtj")

PROGRESS_SECONDS = 2.0
START_SECONDS = 10.0
RESULT_SECONDS = 5.0
FINISH_SECONDS = 60.0
# How long a commit waits for what was published before it; shorter when a yield leaves no time.
PUBLISH_SECONDS = 30.0
PUBLISH_SECONDS_YIELDING = 2.0
# After a save was given up the next is tried this much later, or after the interval if that is shorter.
RETRY_SECONDS = 30.0
LOG_SECONDS = 30.0


@dataclass(frozen=True)
class Facts:
    """What a manifest and the records say of the attempt and never changes."""

    run: dict[str, str]
    identity: dict[str, str]
    attempt: int
    restore: records.RestorePoint | None
    world_size: int
    layout: Layout
    framework: str
    format: str


class Office:
    """Owns a thread that writes progress and what the program publishes; :meth:`close` ends it."""

    def __init__(
        self,
        store: RetryingStore,
        facts: Facts,
        interval: float,
        progress: Callable[[], records.Progress],
        describe: Callable[[], str],
        step: Callable[[], int],
    ) -> None:
        self._store = store
        self._facts = facts
        self._interval = interval
        self._progress = progress
        self._describe = describe
        self._step = step
        self._leader: Leader | None = None
        self._started = threading.Event()
        self._poked = threading.Event()
        self._closing = Deadline(None)
        self._published = Publications(store, facts.attempt)
        self._last_wish: float | None = None
        self._complained = False
        self._result_written = False
        self._concluding: threading.Thread | None = None
        self.last_save: records.LastSave | None = None
        self._thread = threading.Thread(target=self._run, name="rtj-records", daemon=True)

    def start(self, leader: Leader) -> None:
        """Write the start record and begin to report. Raises StoreError if the store refuses."""
        self._leader = leader
        try:
            self._write_start(Deadline(START_SECONDS))
        except StoreUnavailableError as err:
            log.warning("the start record is not written yet: %s", err)
        self._thread.start()

    def poke(self) -> None:
        """Have progress written now."""
        self._poked.set()

    def publish(self, name: str, data: bytes) -> None:
        """Have an object of the program written soon."""
        self._published.add(name, data)
        self._poked.set()

    def know_batch(self, samples: int) -> None:
        """Have manifests say the global batch, which is known only when the data is there."""
        if self._facts.layout.global_batch == 0:
            self._facts = replace(self._facts, layout=replace(self._facts.layout, global_batch=samples))

    def close(self) -> None:
        """Write what is left and end the threads. Tries nothing again after some seconds, and never raises."""
        self._closing.cancel("the job ends")
        self._poked.set()
        if self._thread.is_alive():
            self._thread.join(timeout=RESULT_SECONDS)
        if self._concluding is not None:
            self._concluding.join(timeout=RESULT_SECONDS)
        if not self._published.flush(Deadline(RESULT_SECONDS)):
            log.error("what the program published last could not be stored")

    # For the leader's thread: nothing here waits.

    def save_due(self, now: float) -> bool:
        """Whether a periodic save is due. The first is due an interval after training began."""
        if self._last_wish is None:
            if self._progress().first_step_at is not None:
                self._last_wish = now
            return False
        if now - self._last_wish < self._interval:
            return False
        self._last_wish = now
        return True

    def gave_up(self) -> None:
        """A save was given up: try again before the interval is over."""
        if self._last_wish is not None:
            self._last_wish += min(self._interval, RETRY_SECONDS) - self._interval

    def commit(self, effect: CommitSave) -> None:
        """Write the manifest of a save on a thread of its own."""
        threading.Thread(target=self._commit, args=(effect.save,), name="rtj-commit", daemon=True).start()

    def conclude(self, effect: Conclude) -> None:
        """Write the result record on a thread of its own, then tell the ranks."""
        self._concluding = threading.Thread(target=self._conclude, args=(effect,), name="rtj-result", daemon=True)
        self._concluding.start()

    def give_up_recording(self, effect: Conclude) -> None:
        """Tell the ranks although the result record is not written: the pods are about to be killed."""
        log.error("the result record is not written in the time that there was")
        self._tell(effect, "the time is over")

    def write_result(self, outcome: str, message: str, failure: Message | None, seconds: float) -> None:
        """Write the result record, once, within so many seconds. Raises StoreError."""
        if self._result_written:
            return
        restored = self._facts.restore
        step = self._step()
        durable = self.last_save.step if self.last_save is not None else (restored.step if restored else 0)
        result = records.Result(
            attempt=self._facts.attempt,
            outcome=outcome,
            step=step,
            checkpoint=None if self.last_save is None else self.last_save.checkpoint,
            lost_steps=max(0, step - durable),
            message=message,
            ended_at=timestamp(time.time()),
            restore_failure=None if failure is None else records.RestoreFailure.read(failure),
        )
        deadline = Deadline(seconds)
        self._published.flush(Deadline(seconds / 2))
        self._store.put(keys.result_key(self._facts.attempt), result.encode(), deadline)
        self._result_written = True

    def _commit(self, save: Save) -> None:
        assert self._leader is not None
        leader, facts = self._leader, self._facts
        begun = time.monotonic()
        deadline = Deadline(FINAL_SECONDS if save.final else PERIODIC_SECONDS)
        try:
            while not self._started.wait(0.1):
                if deadline.over:
                    raise SaveError("the start record of the attempt could not be written")
            # What was published before a step is in the store before that step's checkpoint is. But a checkpoint is
            # worth more than what is published, so it does not depend on it.
            hurry = leader.coordinator.asked is not None
            self._published.flush(Deadline(PUBLISH_SECONDS_YIELDING if hurry else PUBLISH_SECONDS))
            what = saving.Commit(
                run=facts.run,
                identity=facts.identity,
                attempt=facts.attempt,
                step=save.step,
                nonce=save.nonce,
                layout=facts.layout,
                world_size=facts.world_size,
                framework=facts.framework,
                format=facts.format,
                saved_at=timestamp(time.time()),
                yield_id=facts.attempt if save.yielding else None,
            )
            checkpoint, manifest = saving.commit(
                self._store, what, [part_of(part) for part in save.parts.values()], deadline
            )
        except Exception as err:
            why = str(err) if isinstance(err, Error) else f"{type(err).__name__}: {err}"
            leader.post(lambda now: leader.coordinator.commit_failed(save.nonce, why, now))
            return
        now = time.monotonic()
        seconds = now - save.begun
        self.last_save = records.LastSave(str(checkpoint), save.step, round(seconds, 3), manifest.bytes)
        log.info(
            "checkpoint %s committed: step %d, %d objects, %.1f MB, %.2f s (manifest %.2f s)",
            checkpoint,
            save.step,
            manifest.objects,
            manifest.bytes / 1e6,
            seconds,
            now - begun,
        )
        leader.post(lambda at: leader.coordinator.committed(save.nonce, str(checkpoint), seconds, at))
        self.poke()

    def _conclude(self, effect: Conclude) -> None:
        seconds = FINISH_SECONDS if effect.outcome == records.FINISHED else RESULT_SECONDS
        try:
            self.write_result(effect.outcome, effect.message, effect.failure, seconds)
        except StoreError as err:
            log.error("the result record could not be written: %s", err)
            self._tell(effect, str(err))
            return
        self._tell(effect, None)

    def _tell(self, effect: Conclude, unrecorded: str | None) -> None:
        assert self._leader is not None
        outcome, message = effect.outcome, effect.message
        if outcome == records.FINISHED and unrecorded is not None:
            outcome, message = records.FAILED, f"finished, but that could not be recorded: {unrecorded}"
        self._leader.end(
            {
                "type": "end",
                "outcome": outcome,
                "message": message,
                "checkpoint": None if self.last_save is None else self.last_save.checkpoint,
            }
        )

    def _run(self) -> None:
        logged = time.monotonic()
        while not self._closing.cancelled:
            self._poked.wait(PROGRESS_SECONDS)
            self._poked.clear()
            if self._closing.cancelled:
                break
            try:
                if not self._started.is_set():
                    self._write_start(self._closing)
                self._published.flush(Deadline(PROGRESS_SECONDS))
                self._write_progress()
                self._complained = False
            except StoreError as err:
                if not self._complained and not self._closing.cancelled:
                    self._complained = True
                    log.warning("progress is not reported: %s", err)
            if time.monotonic() - logged >= LOG_SECONDS:
                logged = time.monotonic()
                log.info("%s", self._describe())
        try:
            self._write_progress()
        except StoreError:
            pass

    def _write_start(self, deadline: Deadline) -> None:
        start = records.Start(
            attempt=self._facts.attempt,
            restore=self._facts.restore,
            world_size=self._facts.world_size,
            layout=self._facts.layout,
            started_at=timestamp(time.time()),
        )
        self._store.put(keys.start_key(self._facts.attempt), start.encode(), deadline)
        self._started.set()

    def _write_progress(self) -> None:
        data = self._progress().encode()
        self._store.put(keys.progress_key(self._facts.attempt), data, Deadline(PROGRESS_SECONDS))
