"""The yield as a rank knows it, and the thread that listens for it."""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtj import outcome
from rtj.errors import FormatError
from rtj.formats import YieldRequest, decode_control, decode_notice
from rtj.signals import SigtermEar

log = logging.getLogger("rtj")

POLL_SECONDS = 0.1
SIGTERM_CAUSE = "Terminated"


def time_left(request: YieldRequest, now: float) -> float:
    """Return the seconds left of a request's budget at its receipt, by the rule of docs/formats.md.

    ``now`` is this host's clock, which may be wrong: what it says can only shorten the time, and the result is
    never negative.
    """
    return max(0.0, request.duration - max(0.0, now - request.issued_at))


def kill_margin(grace: float) -> float:
    """Return how long before the end of the pod's grace period a rank gives up, in seconds."""
    return min(2.0, 0.1 * grace)


@dataclass(frozen=True)
class Asked:
    """A yield. ``deadline`` is by when to commit, ``kill_at`` when SIGTERM's grace ends; both monotonic.

    Either may be None, not both. They only ever move earlier.
    """

    id: int
    cause: str
    deadline: float | None = None
    kill_at: float | None = None

    def merged(self, other: Asked) -> Asked:
        """Return both together: the first cause stays, the earlier times win."""
        return Asked(
            self.id, self.cause, _earlier(self.deadline, other.deadline), _earlier(self.kill_at, other.kill_at)
        )

    def left(self, now: float) -> float:
        """Return the seconds in which a commit should be reached.

        When a notice's deadline passes the pods get SIGTERM and their own grace period, so that one counts then.
        """
        times = [t for t in (self.deadline, self.kill_at) if t is not None and t > now]
        return min(times) - now if times else 0.0

    def give_up_at(self, grace: float) -> float:
        """Return when all hope is over. Without SIGTERM that is when the pods would be killed after the deadline."""
        if self.kill_at is not None:
            return self.kill_at
        return (self.deadline or 0.0) + grace - kill_margin(grace)

    def message(self, kind: str, now: float) -> dict[str, Any]:
        """Return it as a message to another rank: as seconds left, since monotonic clocks are a host's own."""
        return {
            "type": kind,
            "id": self.id,
            "cause": self.cause,
            "left": None if self.deadline is None else max(0.0, self.deadline - now),
            "killLeft": None if self.kill_at is None else max(0.0, self.kill_at - now),
        }

    @classmethod
    def read(cls, message: dict[str, Any], now: float) -> Asked:
        """Read it from such a message."""
        left, kill_left = message["left"], message["killLeft"]
        return cls(
            id=int(message["id"]),
            cause=str(message["cause"]),
            deadline=None if left is None else now + float(left),
            kill_at=None if kill_left is None else now + float(kill_left),
        )


def _earlier(a: float | None, b: float | None) -> float | None:
    return min(t for t in (a, b) if t is not None) if (a, b) != (None, None) else None


class Listener:
    """Polls the control document, the notice and rtj-run's word, and waits for SIGTERM.

    ``heard`` is called on the listener's thread, for each thing that is new.
    """

    def __init__(
        self, control_dir: Path, run_dir: Path | None, attempt: int, grace: float, heard: Callable[[Asked], None]
    ) -> None:
        self._attempt = attempt
        self._grace = grace
        self._heard = heard
        self._files = {
            control_dir / "control.json": self._control,
            control_dir / "notice.json": self._notice,
        }
        if run_dir is not None:
            self._files[run_dir / outcome.SIGTERM_FILE] = self._told_of_sigterm
        self._seen: dict[Path, tuple[int, int, int]] = {}
        self._ear = SigtermEar()
        self._stop_read, self._stop_write = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="rtj-notice", daemon=True)

    def start(self) -> None:
        """Begin to listen. Call it on the main thread, or SIGTERM is not heard."""
        self._ear.install()
        self._thread.start()

    def stop(self) -> None:
        """End the thread. SIGTERM stays harmless, so that the program can leave in its own way."""
        self._stop_write.close()
        self._thread.join(timeout=1.0)

    def release(self) -> None:
        """Give SIGTERM back to whoever had it before."""
        self._ear.remove()

    def _run(self) -> None:
        while True:
            self.poll()
            readable, _, _ = select.select([self._ear.fileno(), self._stop_read.fileno()], [], [], POLL_SECONDS)
            if self._stop_read.fileno() in readable:
                return
            if self._ear.heard():
                log.info("SIGTERM received")
                self.poll()  # if a notice is there too, it knows the cause
                self._sigterm(time.monotonic())

    def poll(self) -> None:
        """Look at the files once."""
        for path, use in self._files.items():
            try:
                # Kubernetes swaps the folder that a symbolic link names: another file, not another content.
                status = path.stat()
                stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
                if self._seen.get(path) == stamp:
                    continue
                data = path.read_bytes()
            except OSError:
                continue
            self._seen[path] = stamp
            try:
                use(data)
            except FormatError as err:
                log.warning("ignored: %s", err)

    def _control(self, data: bytes) -> None:
        self._request(decode_control(data, self._attempt))

    def _notice(self, data: bytes) -> None:
        self._request(decode_notice(data, self._attempt))

    def _request(self, request: YieldRequest | None) -> None:
        if request is None:
            return
        deadline = time.monotonic() + time_left(request, time.time())
        self._heard(Asked(request.id, request.cause, deadline=deadline))

    def _told_of_sigterm(self, data: bytes) -> None:
        at = outcome.sigterm_at(data)
        if at is not None:
            self._sigterm(at)

    def _sigterm(self, at: float) -> None:
        kill_at = at + self._grace - kill_margin(self._grace)
        self._heard(Asked(self._attempt, SIGTERM_CAUSE, kill_at=kill_at))
