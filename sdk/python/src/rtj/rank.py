"""One rank: joins notice, boundary, saves and the conversation with the others. The public face is rtj.job."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from rtj import exitcodes, keys, outcome, publishing, records
from rtj.boundary import RESTORING, TRAINING, Act, Boundary, Ending
from rtj.coordinator import RECORD_SECONDS, Coordinator
from rtj.deadline import Deadline
from rtj.environment import Environment
from rtj.errors import AgreementError, RestoreError, StoreError, Yielded, YieldNotServiced
from rtj.follower import Follower
from rtj.formats import timestamp
from rtj.leader import PROTOCOL, TICK_SECONDS, Leader
from rtj.lineage import Selection
from rtj.notice import Asked, Listener
from rtj.office import RESULT_SECONDS, Facts, Office
from rtj.placement import Placement
from rtj.saver import Saver
from rtj.session import Message
from rtj.stores import RetryingStore

log = logging.getLogger("rtj")

EXIT_CODES = {
    records.NOT_SERVICED: exitcodes.NOT_SERVICED,
    records.RESTORE_FAILED: exitcodes.RESTORE_FAILED,
    records.FAILED: exitcodes.FAILED,
}
WELCOME_SECONDS = 60.0
# How long a main thread may take to notice a bad ending before the process is ended without it, and how long its
# finally blocks may take after it noticed.
NOTICE_ENDING_SECONDS = 2.0
LEAVE_SECONDS = 15.0
TELL_SECONDS = 3.0
# How long a rank that could not restore waits to be told that this is recorded.
RESTORE_FAILED_SECONDS = RESULT_SECONDS + TELL_SECONDS
# Past the time of a yield another rank than 0 waits this much longer: rank 0 says first how it ended, if it can,
# and looks at the clock once a tick.
OVERDUE_SECONDS = RECORD_SECONDS + 2 * TICK_SECONDS
# Rank 0 is gone while nobody asked for anything: the launcher usually ends this process first, with the true cause.
ORPHAN_SECONDS = 10.0


class Rank:
    """Everything of a rank that runs beside the main thread. ``state`` is the newest that step() was given."""

    def __init__(self, env: Environment, store: RetryingStore, declared: Mapping[str, Placement]) -> None:
        self.env = env
        self.store = store
        self.attempt = env.attempt
        self.restore: records.RestorePoint | None = None
        self.boundary: Boundary
        self.saver: Saver
        self.asked: Asked | None = None
        self.state: Any = None
        self.total_steps: int | None = None
        self.loss: Any = None
        self.first_step_at: float | None = None
        self.restore_seconds: float | None = None
        self.saving = False
        self.declared = declared
        self._committed: tuple[str, int] | None = None
        self._acknowledged_at = ""
        self._agreed_step: int | None = None
        self._samples: list[tuple[float, int]] = []
        self._leader: Leader | None = None
        self._follower: Follower | None = None
        self._office: Office | None = None
        self._listener: Listener | None = None
        self._noticed_ending = threading.Event()
        self._closed = False
        self._pid = os.getpid()
        self._crash = ""
        self._lock = threading.Lock()

    def join(self, select: Callable[[], Selection], facts: Callable[[Rank], Facts]) -> None:
        """Meet the other ranks. Without a controller, rank 0 selects what to continue and tells the others."""
        env = self.env
        hello: Message = {
            "protocol": PROTOCOL,
            "run": env.run,
            "attempt": env.attempt,
            "worldSize": env.world_size,
            "rank": env.rank,
        }
        if env.managed:
            self._continue(env.attempt, records.RestorePoint.of(env.restore) if env.restore else None)
        if env.rank == 0:
            if not env.managed:
                selection = select()
                self._continue(selection.attempt, selection.restore)
            self._lead(hello, facts)
        else:
            self._follow(hello)
        self._listener = Listener(env.control_dir, env.run_dir, self.attempt, env.termination_grace, self._heard)
        self._listener.start()
        self._watch_exit()
        self._record(outcome.RUNNING, "")

    def _continue(self, attempt: int, restore: records.RestorePoint | None) -> None:
        self.attempt, self.restore = attempt, restore
        step = 0 if restore is None else restore.step
        self.boundary = Boundary(step, TRAINING if restore is None else RESTORING)
        self.saver = Saver(self.store, attempt, self.env.rank, self.env.world_size, self.declared, self.send)

    def _lead(self, hello: Message, facts: Callable[[Rank], Facts]) -> None:
        env = self.env
        self._office = Office(
            self.store, facts(self), env.checkpoint_interval, self.progress, self.describe, lambda: self.boundary.step
        )
        coordinator = Coordinator(env.world_size, self.boundary.step, env.termination_grace, keys.new_nonce)
        welcome = {
            **hello,
            "type": "welcome",
            "chosenAttempt": self.attempt,
            "restore": None if self.restore is None else vars(self.restore),
        }
        self._leader = Leader(coordinator, self._office, self.receive, hello, welcome)
        self._office.start(self._leader)
        if env.world_size > 1:
            self._leader.listen(env.pod_ip or "127.0.0.1", env.agreement_port)
        self._leader.start()

    def _follow(self, hello: Message) -> None:
        env = self.env
        self._follower = Follower(
            (env.leader_address, env.agreement_port),
            hello,
            deliver=self.receive,
            lost=self._leader_lost,
            yielding=lambda: self.asked is not None,
            tick=self._follower_tick,
        )
        self._follower.start()
        if not env.managed:
            if not self._follower.wait_welcome(WELCOME_SECONDS):
                self._follower.close()
                raise AgreementError(
                    f"rank {env.rank} found no rank 0 at {env.leader_address}:{env.agreement_port} within "
                    f"{WELCOME_SECONDS:.0f} s; check RTJ_LEADER_ADDRESS and RTJ_AGREEMENT_PORT"
                )
            welcome = self._follower.welcome
            restore = welcome["restore"]
            self._continue(int(welcome["chosenAttempt"]), None if restore is None else records.RestorePoint(**restore))

    @property
    def closed(self) -> bool:
        """Whether this rank is done."""
        return self._closed

    # Messages.

    def send(self, message: Message) -> None:
        """Send a message to the coordinator. Any thread."""
        if self._leader is not None:
            self._leader.take(0, message)
        elif self._follower is not None:
            self._follower.send(message)

    def receive(self, message: Message) -> None:
        """Take a message of the coordinator, on the side thread."""
        kind = message["type"]
        if kind == "freeze":
            step, place = self.boundary.freeze()
            self.send({"type": "frozen", "round": message["round"], "step": step, "place": place})
        elif kind == "decide":
            act = None if message["act"] is None else Act.read(message["act"])
            if act is not None and act.drop is not None:
                self.saver.drop(act.drop, "a yield has no time for it")
            if act is not None and act.kind == "yield":
                self._agreed_step = act.step
                self.poke()
            self.boundary.decide(act)
        elif kind == "committed":
            self._committed = (message["checkpoint"], message["step"])
        elif kind == "aborted":
            if message["nonce"] is not None:
                self.saver.drop(message["nonce"], message["why"])
                self.boundary.withdraw(message["nonce"])
            if self.env.rank == 0:
                log.warning("a save was given up: %s; training goes on", message["why"])
        elif kind == "yield":
            self._merge(Asked.read(message, time.monotonic()))
        elif kind == "gone":
            log.error("rank %d is gone: %s", message["rank"], message["why"])
        elif kind == "leaderGone":
            self._leader_lost(message["why"])
        elif kind == "end":
            self.end(Ending(message["outcome"], message["message"], message["checkpoint"]))

    def _heard(self, asked: Asked) -> None:
        """Take a yield that this rank heard of itself, on the listener's thread."""
        if self._merge(asked):
            self.send(asked.message("heard", time.monotonic()))

    def _merge(self, asked: Asked) -> bool:
        with self._lock:
            before = self.asked
            self.asked = asked if before is None else before.merged(asked)
            if self.asked == before:
                return False
            if before is None:
                self._acknowledged_at = timestamp(time.time())
        if before is None:
            self._record(outcome.RUNNING, "a yield was asked")
            log.info("yield asked (%s): %.1f s left to commit", asked.cause, asked.left(time.monotonic()))
        self.poke()
        return True

    def poke(self) -> None:
        """Have progress written now, where this is rank 0."""
        if self._office is not None:
            self._office.poke()

    def know_batch(self, samples: int) -> None:
        """Note the global batch for manifests."""
        if self._office is not None:
            self._office.know_batch(samples)

    def publish(self, name: str, data: bytes) -> None:
        """Store an object of the program; rank 0 only, but what cannot be stored is an error on every rank."""
        publishing.check(name, data)
        if self._office is not None:
            self._office.publish(name, data)

    # Endings.

    def end(self, ending: Ending) -> None:
        """Make the ending known to the main thread; a bad one ends the process also if that cannot hear."""
        if self.boundary.ending is not None:
            return
        self._record(ending.outcome, ending.message)
        self.boundary.end(ending)
        code = EXIT_CODES.get(ending.outcome)
        if code is not None:
            log.error("%s", ending.message)
            threading.Thread(target=self._leave_hard, args=(code,), name="rtj-leave", daemon=True).start()

    def raise_ending(self) -> None:
        """Leave, on the main thread, after an ending other than finished."""
        ending = self.boundary.ending
        assert ending is not None
        self._noticed_ending.set()
        self.close()
        if ending.outcome == records.YIELDED:
            log.info("%s", ending.message)
            raise Yielded(ending.message)
        if ending.outcome == records.NOT_SERVICED:
            raise YieldNotServiced(ending.message)
        if ending.outcome == records.RESTORE_FAILED:
            raise RestoreError(ending.message, cause="other")
        raise AgreementError(ending.message)

    def restore_failed(self, err: RestoreError) -> None:
        """Record that this rank could not restore, and wait until that is known. The caller raises."""
        point = self.restore.checkpoint if self.restore is not None else ""
        failure = records.RestoreFailure(point, err.cause, err.object, self.env.rank, self.env.node_name)
        self._record(records.RESTORE_FAILED, str(err))
        self._noticed_ending.set()
        self.send({"type": "restoreFailed", "why": str(err), "failure": vars(failure)})
        until = Deadline(RESTORE_FAILED_SECONDS)
        while self.boundary.ending is None and not until.over:
            self.boundary.wait(0.1)
        if self.boundary.ending is None:
            self.boundary.end(Ending(records.RESTORE_FAILED, str(err)))
        self.close()

    def close(self) -> None:
        """End all threads; the messages that are under way arrive first."""
        if self._closed:
            return
        self._closed = True
        self._noticed_ending.set()
        if self._listener is not None:
            self._listener.stop()
            if self.boundary.ending is not None and self.boundary.ending.outcome == records.FINISHED:
                self._listener.release()
        if self._office is not None:
            self._office.close()
        if self._leader is not None:
            if self.boundary.ending is not None:
                self._leader.wait_told(TELL_SECONDS)
            self._leader.close()
        if self._follower is not None:
            if self.boundary.ending is None:
                self._follower.flush(TELL_SECONDS)
            self._follower.close()

    def _leave_hard(self, code: int) -> None:
        # The main thread may sit in a collective for ever.
        left = self._noticed_ending.wait(NOTICE_ENDING_SECONDS)
        time.sleep(LEAVE_SECONDS if left else 0.0)
        log.error("rank %d leaves with exit code %d: its main thread does not end", self.env.rank, code)
        if self._leader is not None:
            self._leader.wait_told(TELL_SECONDS)
        for handler in (*log.handlers, *logging.getLogger().handlers):
            handler.flush()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def _leader_lost(self, why: str) -> None:
        """Rank 0 is gone: without it nothing can be committed."""
        if self.boundary.ending is not None:
            return
        message = f"rank 0 is gone: {why}"
        until = Deadline(ORPHAN_SECONDS)
        while self.asked is None and not until.over and not self._closed:
            until.wait(0.1)
        if self.asked is not None:
            self.end(Ending(records.NOT_SERVICED, f"yield after {self.asked.cause} not serviced: {message}"))
        elif not self._closed:
            self.end(Ending(records.FAILED, message))

    def _follower_tick(self) -> None:
        asked = self.asked
        if asked is not None and time.monotonic() > asked.give_up_at(self.env.termination_grace) + OVERDUE_SECONDS:
            self.end(Ending(records.NOT_SERVICED, f"yield after {asked.cause} not serviced: the time is over"))

    def _watch_exit(self) -> None:
        before = sys.excepthook

        def hook(kind: type[BaseException], err: BaseException, trace: TracebackType | None) -> None:
            self._crash = f"{kind.__name__}: {err}"
            before(kind, err, trace)

        sys.excepthook = hook
        atexit.register(self._at_exit)

    def _at_exit(self) -> None:
        if self._closed or os.getpid() != self._pid:
            return
        step = self.boundary.step
        why = self._crash or "the program ended without job.finish()"
        result = records.FAILED
        if self.boundary.ending is None:
            if self.asked is not None:
                result = records.NOT_SERVICED
                why = f"yield after {self.asked.cause} not serviced: {why}"
            self._record(result, why)
            log.warning("rank %d ended at step %d: %s", self.env.rank, step, why)
            if self._leader is not None:
                self._leader.say_goodbye({"type": "leaderGone", "why": why})
            else:
                self.send({"type": "bye", "why": why})
            if self._office is not None:
                try:
                    self._office.write_result(result, why, None, RESULT_SECONDS)
                except StoreError as err:
                    log.error("the result record could not be written: %s", err)
        self.close()

    def _record(self, result: str, message: str) -> None:
        if result == outcome.RUNNING and self.boundary.ending is not None:
            return  # the last word is spoken
        outcome.record(
            self.env.run_dir,
            outcome.RankOutcome(
                self.env.rank, os.getpid(), result, self.boundary.step, message, self.asked is not None
            ),
        )

    # Reports, on rank 0.

    def progress(self) -> records.Progress:
        """Return what progress.json says now."""
        step, asked = self.boundary.step, self.asked
        return records.Progress(
            attempt=self.attempt,
            activity=self._activity(),
            step=step,
            total_steps=self.total_steps,
            steps_per_second=self._rate(step),
            first_step_at=None if self.first_step_at is None else timestamp(self.first_step_at),
            restore_seconds=self.restore_seconds,
            last_save=None if self._office is None else self._office.last_save,
            yielding=None if asked is None else records.YieldState(asked.id, self._acknowledged_at, self._agreed_step),
            updated_at=timestamp(time.time()),
        )

    def describe(self) -> str:
        """Return a line on the progress for the log."""
        rate, loss = self._rate(self.boundary.step), self.loss
        parts = [f"step {self.boundary.step}" + (f"/{self.total_steps}" if self.total_steps else "")]
        if rate:
            parts.append(f"{rate:.3g} steps/s")
        try:
            if loss is not None:
                parts.append(f"loss {float(loss):.6g}")
        except (TypeError, ValueError):
            pass
        return ", ".join(parts)

    def began(self) -> None:
        """Note the first new step."""
        self.first_step_at = time.time()
        self._samples.append((time.monotonic(), self.boundary.step))
        self.poke()

    def _activity(self) -> str:
        if self.boundary.ending is not None:
            return "leaving"
        if self.saving:
            return "saving"
        return "training" if self.boundary.place == "finishing" else self.boundary.place

    def _rate(self, step: int) -> float | None:
        if not self._samples:
            return None
        now = time.monotonic()
        if now - self._samples[-1][0] >= 1.0:
            self._samples.append((now, step))
            del self._samples[:-15]
        since, first = self._samples[0]
        if step <= first or now <= since:
            return None
        return round((step - first) / (now - since), 4)
