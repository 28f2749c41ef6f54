"""A rank that trains in lock-step with the others; the environment says what is special about it.

Its state says which steps were applied, so that a restored one can be checked exactly: ``trace`` is the sum of
the numbers of all steps.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

import rtj
from allreduce import AllReduce
from rtj.stores import RetryingStore

RANK = int(os.environ.get("RANK", os.environ["RTJ_POD_INDEX"]))


def of_rank(name: str, default: str = "0") -> float:
    """A number for this rank: ``0.1`` for all ranks, or one each, ``0.1,0.5``."""
    parts = os.environ.get(name, default).split(",")
    return float(parts[RANK % len(parts)])


def slow_uploads() -> None:
    """Hold every upload of data for UPLOAD_SECONDS, unless it is dropped; kill this rank in its first if asked to."""
    seconds = float(os.environ.get("UPLOAD_SECONDS", "0"))
    kill = os.environ.get("KILL_IN_UPLOAD") == str(RANK)
    put = RetryingStore.put

    def held(self: RetryingStore, key: str, data: bytes, deadline: object = None) -> str:
        if key.startswith("checkpoints/") and not key.endswith("index.json"):
            if kill:
                os.kill(os.getpid(), signal.SIGKILL)
            print("uploading", flush=True)
            begun = time.monotonic()
            while time.monotonic() < begun + seconds:
                if deadline.cancelled:  # type: ignore[attr-defined]
                    raise rtj.SaveError("dropped")
                time.sleep(0.01)
        return put(self, key, data, deadline)  # type: ignore[arg-type]

    RetryingStore.put = held  # type: ignore[method-assign, assignment]


def main() -> None:
    total = int(sys.argv[1])
    slow_uploads()
    job = rtj.start(total_steps=total)
    rng = np.random.default_rng([7, job.rank])
    trace, optimizer = np.zeros(3), {"t": 0}
    state = job.restore({"model": {"trace": trace}, "optimizer": optimizer, "rng": rng})
    ranks = AllReduce(
        job.rank, job.world_size, job.attempt, leader="127.0.0.1", port=int(os.environ["MASTER_PORT"]), own="127.0.0.1"
    )
    evaluate_at = int(os.environ.get("EVALUATE_AT", "-1"))
    try:
        while job.steps < total:
            step = job.steps + 1
            rng.normal()
            time.sleep(of_rank("STEP_SECONDS", "0.01"))
            ranks.sum(np.ones(1))
            trace += step
            optimizer["t"] = step
            if step == int(os.environ.get("RAISE_AT", "-1")) and of_rank("RAISING") > 0:
                raise RuntimeError("a bug in the training code")
            if step == int(os.environ.get("STALL_AT", "-1")) and of_rank("STALLING") > 0:
                print("stalled", flush=True)
                time.sleep(3600)
            job.step(state=state, loss=1.0 / step)
            if str(step) in os.environ.get("SAVE_AT", "").split(","):
                job.save()
            if step == evaluate_at:
                for _ in job.evaluating(range(100_000)):
                    time.sleep(0.01)
        job.finish()
    finally:
        print(f"rank {job.rank} left at {job.steps}, trace {trace[0]:.0f}", flush=True)
        ranks.close()


if __name__ == "__main__":
    main()
