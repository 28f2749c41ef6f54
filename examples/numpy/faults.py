"""Ways to misbehave, chosen by the environment, for tests of what happens then. See README.md."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any


def before_start() -> None:
    """Become deaf to notices, or slow in saving, if asked to."""
    if _set("FAULT_IGNORE_YIELD") or _set("FAULT_EXIT_ZERO_ON_SIGTERM"):
        os.environ["RTJ_CONTROL_DIR"] = tempfile.gettempdir() + "/rtj-no-such-folder"
        os.environ.pop("RTJ_RUN_DIR", None)
    seconds = float(os.environ.get("FAULT_SLOW_SAVE_SECONDS", "0"))
    if seconds:
        _slow_down(seconds)


def after_start() -> None:
    """Take SIGTERM away from the SDK if asked to."""
    if _set("FAULT_IGNORE_YIELD"):
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if _set("FAULT_EXIT_ZERO_ON_SIGTERM"):
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))


def after_step(rank: int, attempt: int, step: int) -> None:
    """Crash or hang at a step, if asked to, on one rank, in one attempt or in all."""
    if rank != int(os.environ.get("FAULT_RANK", "0")):
        return
    only = os.environ.get("FAULT_ATTEMPT")
    if only and int(only) != attempt:
        return
    if step == int(os.environ.get("FAULT_HANG_AT_STEP", "-1")):
        print(f"fault: rank {rank} hangs at step {step}", flush=True)
        while True:
            time.sleep(1.0)
    if step != int(os.environ.get("FAULT_CRASH_AT_STEP", "-1")):
        return
    how = os.environ.get("FAULT_CRASH_HOW", "exit")
    print(f"fault: rank {rank} crashes at step {step} ({how})", flush=True)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raise":
        raise RuntimeError(f"fault at step {step}")
    sys.exit(1)


def pause(seconds: float) -> None:
    """Make a step take some time."""
    if seconds > 0:
        time.sleep(seconds)


def _set(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0", "false")


def _slow_down(seconds: float) -> None:
    """Make every upload of a checkpoint's data take that much longer."""
    from rtj.stores import RetryingStore

    put: Callable[..., str] = RetryingStore.put

    def slow(self: RetryingStore, key: str, *rest: Any, **named: Any) -> str:
        if key.startswith("checkpoints/"):
            time.sleep(seconds)
        return put(self, key, *rest, **named)

    RetryingStore.put = slow  # type: ignore[method-assign]
