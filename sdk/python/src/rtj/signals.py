"""Hearing SIGTERM also while the main thread sits in a collective.

A Python signal handler runs only when the main thread executes Python again. The interpreter's wakeup fd is
written by the C handler at once, and a thread can wait for it. The Python handler does nothing but remember the
signal and call the handler that was there before; no I/O.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from types import FrameType

log = logging.getLogger("rtj")

_installed: list[SigtermEar] = []


class SigtermEar:
    """Install with :meth:`install` on the main thread; wait for :meth:`fileno`, then ask :meth:`heard`."""

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        self._flag = False
        self._before: object = signal.SIG_DFL
        self._fd_before = -1

    def fileno(self) -> int:
        """The descriptor that becomes readable at a signal."""
        return self._read.fileno()

    def install(self) -> bool:
        """Begin to listen. Returns False where that is impossible: not on the main thread."""
        if threading.current_thread() is not threading.main_thread():
            log.warning("rtj.start() is not on the main thread: SIGTERM will not be heard, only notices by file")
            return False
        self._before = signal.signal(signal.SIGTERM, self._handle)
        self._fd_before = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        if not _installed:
            os.register_at_fork(after_in_child=_forget_in_child)
        _installed.append(self)
        return True

    def heard(self) -> bool:
        """Whether SIGTERM came since it was asked last. Passes the wakeup bytes on to an earlier owner of the fd."""
        try:
            data = self._read.recv(4096)
        except OSError:
            data = b""
        if data and self._fd_before >= 0:
            try:
                os.write(self._fd_before, data)
            except OSError:
                self._fd_before = -1
        # The flag is for the case that somebody took the wakeup fd away after us.
        found = self._flag or signal.SIGTERM in data
        self._flag = False
        return found

    def remove(self) -> None:
        """Put back what was there before, unless somebody else has taken over meanwhile."""
        if self not in _installed:
            return
        _installed.remove(self)
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, self._before)  # type: ignore[arg-type]
        current = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(self._fd_before if current == self._write.fileno() else current)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._flag = True
        if callable(self._before):
            self._before(number, frame)

    def _forget(self) -> None:
        # A forked data loader worker is no rank: a signal to it must not look like one to its parent, and
        # terminate() must end it.
        if signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, self._before)  # type: ignore[arg-type]
        signal.set_wakeup_fd(-1)


def _forget_in_child() -> None:
    for ear in reversed(_installed):
        try:
            ear._forget()
        except ValueError:
            continue
    _installed.clear()
