"""How a rank tells rtj-run what became of it: one small file a rank, in a folder that rtj-run names.

The folder also goes the other way: rtj-run leaves :data:`SIGTERM_FILE` in it when it was told to end.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

SIGTERM_FILE = "sigterm.json"
RUNNING = "running"


@dataclass(frozen=True)
class RankOutcome:
    """A rank's last word: ``outcome`` is one of a result record, or ``running``."""

    rank: int
    pid: int
    outcome: str
    step: int
    message: str
    notice: bool


def record(run_dir: Path | None, outcome: RankOutcome) -> None:
    """Write a rank's outcome; nothing happens without rtj-run. Never raises: it is the last thing a rank does."""
    if run_dir is None:
        return
    path = run_dir / f"rank-{outcome.rank}.json"
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(json.dumps(vars(outcome)))
        part.replace(path)
    except OSError:
        return


def recorded(run_dir: Path) -> list[RankOutcome]:
    """Return what the ranks have said so far, by rank."""
    found = []
    for path in sorted(run_dir.glob("rank-*.json")):
        try:
            found.append(RankOutcome(**json.loads(path.read_text())))
        except (OSError, ValueError, TypeError):
            continue  # it was replaced just now, or its writer was killed
    return sorted(found, key=lambda outcome: outcome.rank)


def tell_sigterm(run_dir: Path, at: float) -> None:
    """Tell the ranks that SIGTERM came at this time of the monotonic clock, which processes share."""
    path = run_dir / SIGTERM_FILE
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps({"monotonic": at}))
    part.replace(path)


def sigterm_at(data: bytes) -> float | None:
    """Return when rtj-run received SIGTERM, on the monotonic clock."""
    try:
        return float(json.loads(data)["monotonic"])
    except (ValueError, KeyError, TypeError):
        return None
