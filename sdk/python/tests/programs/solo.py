"""A single rank with an exact state, whose process can be killed at any write of the store.

KILL_WRITE is ``<number>:<when>``: the number of the write, from 0, and before, middle or after. ``middle`` leaves half
of the bytes under the name that a writer uses before it renames.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np

import rtj
from rtj.stores.folder import FolderStore

writes = 0


def kill_at_write(wanted: int, when: str) -> None:
    put = FolderStore.put

    def counted(self: FolderStore, key: str, data: bytes) -> str:
        global writes
        # Progress is written when time passes, so it is no boundary that can be counted.
        if key.endswith("progress.json"):
            return put(self, key, data)
        number, writes = writes, writes + 1
        if number != wanted:
            return put(self, key, data)
        if when == "middle":
            path = Path(self.where) / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name(f".{path.name}.half.part").write_bytes(bytes(data)[: len(data) // 2])
        elif when == "after":
            put(self, key, data)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("not reached")

    FolderStore.put = counted  # type: ignore[method-assign, assignment]


def main() -> None:
    total = int(sys.argv[1])
    if kill := os.environ.get("KILL_WRITE"):
        number, when = kill.split(":")
        kill_at_write(int(number), when)
    job = rtj.start(store=os.environ["STORE"], name="solo", total_steps=total)
    rng = np.random.default_rng(7)
    trace, sums, optimizer = np.zeros(3), np.zeros(2), {"t": 0}
    state = job.restore({"model": {"trace": trace, "sums": sums}, "optimizer": optimizer, "rng": rng})
    if optimizer["t"] != job.steps or trace[0] != job.steps * (job.steps + 1) / 2:
        raise AssertionError(f"restored {optimizer} and trace {trace} at step {job.steps}")
    print(f"began at {job.steps}", flush=True)
    while job.steps < total:
        step = job.steps + 1
        trace += step
        sums += rng.normal(size=2)
        optimizer["t"] = step
        job.step(state=state, loss=float(sums[0]))
    job.finish()
    print(f"finished at {job.steps}: {float(sums[0]).hex()}", flush=True)


if __name__ == "__main__":
    main()
