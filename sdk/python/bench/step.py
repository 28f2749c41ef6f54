"""What job.step() costs when nothing is due, and what a save costs the training loop.

Prints one JSON object a line: name, input, median, p99, unit. Medians and percentiles are over single calls.
"""

from __future__ import annotations

import json
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import rtj

STEPS = 200_000
STATE_BYTES = 256 << 20
SAVES = 8


def report(name: str, input: str, values: list[float], unit: str) -> None:
    """Print one line."""
    values = sorted(values)
    line = {
        "name": name,
        "input": input,
        "median": round(statistics.median(values), 3),
        "p99": round(values[min(len(values) - 1, int(len(values) * 0.99))], 3),
        "unit": unit,
    }
    print(json.dumps(line), flush=True)


def timed(call: Callable[[], object], scale: float) -> float:
    """Return how long a call took, in seconds times scale."""
    begun = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - begun) * 1e-9 * scale


def main() -> None:
    """Run both."""
    logging.basicConfig(level=logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="rtj-bench-") as folder:
        job = rtj.start(store=folder, name="bench")
        arrays = {f"layer{n}": np.random.default_rng(n).random(STATE_BYTES // 8 // 16) for n in range(16)}
        state = job.restore({"model": arrays, "optimizer": {"t": 0}})
        job.step(state=state, loss=0.5)

        steps = [timed(lambda: job.step(state=state, loss=0.5), 1e6) for _ in range(STEPS)]
        report("job.step with nothing due", f"{STEPS} calls, 1 rank", steps, "us")

        # A save is taken at a step soon after it is asked for: the longest step until it is committed is that one.
        manifests = Path(folder) / "local" / "bench" / "local" / "manifests"
        blocked = []
        for number in range(1, SAVES + 1):
            job.save()
            longest = 0.0
            while not manifests.is_dir() or len(list(manifests.glob("*.json"))) < number:
                longest = max(longest, timed(lambda: job.step(state=state), 1e3))
                time.sleep(0.002)
            blocked.append(longest)
        report("first save, blocking part", f"{STATE_BYTES >> 20} MiB", blocked[:1], "ms")
        report("later saves, blocking part", f"{STATE_BYTES >> 20} MiB, {SAVES - 1} saves", blocked[1:], "ms")

        warm = np.empty(STATE_BYTES // 8)
        flat = np.concatenate(list(arrays.values()))
        np.copyto(warm, flat)
        copies = [timed(lambda: np.copyto(warm, flat), 1e3) for _ in range(SAVES)]
        report("copy into warm buffers", f"{STATE_BYTES >> 20} MiB", copies, "ms")
        job.finish()


if __name__ == "__main__":
    main()
