"""A limit in time that can also be cut short, on the monotonic clock."""

from __future__ import annotations

import threading
import time


class Deadline:
    """Until when something may be tried. ``seconds`` None means: without end, until cancelled."""

    def __init__(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds
        self._cancelled = threading.Event()
        self.reason = "the time is over"

    @property
    def left(self) -> float | None:
        """Seconds left, never negative; None when there is no end."""
        if self._cancelled.is_set():
            return 0.0
        return None if self._until is None else max(0.0, self._until - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether it has passed or was cancelled."""
        left = self.left
        return left is not None and left <= 0.0

    @property
    def cancelled(self) -> bool:
        """Whether somebody cut it short."""
        return self._cancelled.is_set()

    def cancel(self, reason: str) -> None:
        """End it now; whoever waits in :meth:`wait` returns at once."""
        self.reason = reason
        self._cancelled.set()

    def wait(self, seconds: float) -> None:
        """Sleep that long, or until the deadline, or until it is cancelled, whichever is first."""
        left = self.left
        self._cancelled.wait(seconds if left is None else min(seconds, left))
