"""As torchrun: starts ranks, passes SIGTERM on, kills them after its own patience, and returns 1 if it had a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

patience = float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30")) if sys.argv[1] == "patient" else 0.5
count = int(os.environ["RTJ_PROCESSES_PER_POD"])
children = [
    subprocess.Popen(
        [sys.executable, *sys.argv[2:]],
        env=os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)},
        start_new_session=True,
    )
    for rank in range(count)
]
signalled = threading.Event()


def stop(*_: object) -> None:
    signalled.set()
    for child in children:
        child.terminate()
    threading.Timer(patience, kill).start()


def kill() -> None:
    for child in children:
        child.kill()


signal.signal(signal.SIGTERM, stop)
codes = [child.wait() for child in children]
os._exit(1 if signalled.is_set() or any(codes) else 0)
