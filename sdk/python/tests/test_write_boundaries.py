"""A process that is killed at any write of a save leaves the previous checkpoint selected, and resumes exactly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rtj.formats import Layout
from rtj.lineage import Selection, select
from rtj.stores import open_store
from world import PROGRAMS

RUN = {"namespace": "local", "name": "solo", "runID": "local"}

# start.json, one data object, one index object, the manifest; then result.json.
WRITES_BEFORE_COMMIT = 3
COMMIT = 3


def run(store: Path, total: int, kill: str = "") -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("RTJ_")}
    return subprocess.run(
        [sys.executable, PROGRAMS / "solo.py", str(total)],
        env=environ | {"STORE": str(store), "KILL_WRITE": kill},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def selected(store: Path) -> Selection:
    return select(open_store(str(store), "local/solo/local"), RUN, {}, 1, Layout(dp=1))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> str:
    result = run(tmp_path_factory.mktemp("uninterrupted"), 9)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()[-1]


@pytest.mark.parametrize("when", ["before", "middle", "after"])
@pytest.mark.parametrize("write", [0, 1, 2, 3, 4])
def test_killed_at_a_write(tmp_path: Path, uninterrupted: str, write: int, when: str) -> None:
    first = run(tmp_path, 4)
    assert first.returncode == 0, first.stderr
    killed = run(tmp_path, 9, kill=f"{write}:{when}")
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    committed = write > COMMIT or (write == COMMIT and when == "after")
    selection = selected(tmp_path)
    assert selection.restore is not None
    assert (selection.restore.attempt, selection.restore.step) == ((2, 9) if committed else (1, 4))
    assert selection.passed_over == [], "what was not committed is not even a candidate"

    resumed = run(tmp_path, 9)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.splitlines() == [f"began at {9 if committed else 4}", uninterrupted]


@pytest.mark.parametrize("when", ["before", "middle", "after"])
def test_killed_at_the_very_first_save_it_starts_afresh(tmp_path: Path, uninterrupted: str, when: str) -> None:
    killed = run(tmp_path, 9, kill=f"{WRITES_BEFORE_COMMIT - 1}:{when}")
    assert killed.returncode == -signal.SIGKILL
    assert selected(tmp_path).candidates == 0
    assert run(tmp_path, 9).stdout.splitlines() == ["began at 0", uninterrupted]
