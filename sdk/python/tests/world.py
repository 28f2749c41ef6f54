"""What a cluster gives to ranks, made by hand: environment, control folder, store. For tests of real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rtj import formats
from rtj.formats import Manifest
from rtj.stores import open_store

PROGRAMS = Path(__file__).parent / "programs"
EXAMPLE = Path(__file__).parents[3] / "examples" / "numpy"
RUN = {"namespace": "team-a", "name": "llama", "runID": "6d1f1f0e-8a51-4a39-9d2c-3f3a1c1a0001"}

# Nothing that is waited for takes this long, however slow the machine; only a failing test gets here.
PATIENCE = 120.0


def free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def eventually(what: str, condition: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"never came true: {what}")


@dataclass
class Ended:
    code: int
    output: str


@dataclass
class World:
    """One run of a job. Attempts are started one after the other; ``stop`` ends whatever is left."""

    folder: Path
    storage_uri: str = ""
    environ: dict[str, str] = field(default_factory=dict)
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    attempt: int = 1
    world_size: int = 1

    def __post_init__(self) -> None:
        self.control_dir = self.folder / "control"
        self.control_dir.mkdir(parents=True, exist_ok=True)
        self.storage_uri = self.storage_uri or f"file://{self.folder}/store"
        self.counter = 0

    @property
    def store(self) -> Any:
        below = "/".join(RUN.values())
        return open_store(self.storage_uri, below, endpoint=self.environ.get("RTJ_STORAGE_ENDPOINT", ""))

    def begin(self, attempt: int, world_size: int, restore: str = "") -> None:
        """Set what all ranks of the next attempt are given."""
        agreement, master = free_ports(2)
        self.attempt, self.world_size = attempt, world_size
        shutil.rmtree(self.control_dir)
        self.control_dir.mkdir()
        self.counter = 0
        self.environ.update(
            RTJ_NAMESPACE=RUN["namespace"],
            RTJ_NAME=RUN["name"],
            RTJ_RUN_ID=RUN["runID"],
            RTJ_ATTEMPT=str(attempt),
            RTJ_STORAGE_URI=self.storage_uri,
            RTJ_RESTORE=restore,
            RTJ_WORLD_SIZE=str(world_size),
            RTJ_PROCESSES_PER_POD="1",
            RTJ_PODS_PER_JOB=str(world_size),
            RTJ_JOB_INDEX="0",
            RTJ_LEADER_ADDRESS="127.0.0.1",
            RTJ_AGREEMENT_PORT=str(agreement),
            RTJ_POD_IP="127.0.0.1",
            RTJ_NODE_NAME="node-a",
            RTJ_CONTROL_DIR=str(self.control_dir),
            MASTER_PORT=str(master),
            PYTHONPATH=":".join(
                [str(Path(__file__).parent), str(EXAMPLE), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            OPENBLAS_NUM_THREADS="1",
        )
        self.environ.setdefault("RTJ_YIELD_GRACE_SECONDS", "60")
        self.environ.setdefault("RTJ_TERMINATION_GRACE_SECONDS", "60")
        self.environ.setdefault("RTJ_CHECKPOINT_INTERVAL_SECONDS", "3600")

    def start(self, command: Sequence[object], rank: int = 0, **extra: str) -> subprocess.Popen[str]:
        """Start a pod's command; with RTJ_PROCESSES_PER_POD 1 that is a rank."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("RTJ_", "TRAIN_", "FAULT_"))}
        # What a killed process leaves in its temporary folder goes with the test's.
        environ |= self.environ | {"RTJ_POD_INDEX": str(rank), "TMPDIR": str(self.folder)} | extra
        process = subprocess.Popen(
            [str(part) for part in command],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def start_ranks(self, program: str, *arguments: str, **extra: str) -> list[subprocess.Popen[str]]:
        return [
            self.start([sys.executable, PROGRAMS / program, *arguments], rank, **extra)
            for rank in range(self.world_size)
        ]

    def start_one(self, program: str, rank: int, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        return self.start([sys.executable, PROGRAMS / program, *arguments], rank, **extra)

    def rank_control_dir(self, rank: int) -> Path:
        """A control folder of one rank's own, so that a notice can reach one rank only."""
        folder = self.folder / f"control-{self.attempt}-{rank}"
        folder.mkdir(exist_ok=True)
        return folder

    def give_notice(
        self, seconds: float = 60.0, cause: str = "Preempted", folder: Path | None = None, attempt: int | None = None
    ) -> None:
        """Write a notice as a kubelet does: a new folder, and ``..data`` swapped to it."""
        self.counter += 1
        number = self.attempt if attempt is None else attempt
        notice = {
            "schemaVersion": "1.0",
            "kind": "Notice",
            "attempt": number,
            "counter": self.counter,
            "yield": {
                "id": number,
                "cause": cause,
                "issuedAt": formats.timestamp(time.time()),
                "durationSeconds": seconds,
            },
        }
        swap(folder or self.control_dir, {"notice.json": json.dumps(notice)})

    def record(self, name: str) -> dict[str, Any]:
        """A record of the present attempt."""
        return dict(json.loads(self.store.get(f"attempts/{self.attempt}/{name}.json")))

    def progress(self) -> dict[str, Any] | None:
        try:
            return self.record("progress")
        except Exception:
            return None

    def wait_for_step(self, step: int) -> None:
        eventually(
            f"progress of attempt {self.attempt} shows step {step}",
            lambda: (p := self.progress()) is not None and p["step"] >= step,
        )

    def manifests(self) -> list[Manifest]:
        """All committed checkpoints, oldest first."""
        return [Manifest.decode(self.store.get(e.key), e.key) for e in self.store.list("manifests/")]

    def checkpoints(self) -> list[str]:
        """Their ids."""
        return [e.key.removeprefix("manifests/").removesuffix(".json") for e in self.store.list("manifests/")]

    def losses(self) -> dict[int, set[str]]:
        """What every attempt published as the loss of each step."""
        found: dict[int, set[str]] = {}
        for entry in self.store.list("extra/"):
            for line in self.store.get(entry.key).decode().splitlines():
                step, loss = line.split()
                found.setdefault(int(step), set()).add(loss)
        return found

    def stop(self) -> None:
        for process in self.processes:
            # The group, since what rtj-run has started outlives it where it is not PID 1.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            if process.stdout is not None and not process.stdout.closed:
                process.communicate(timeout=PATIENCE)


def ended(process: subprocess.Popen[str]) -> Ended:
    """Wait for a process; its output is shown if it takes for ever."""
    try:
        output, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        raise AssertionError(f"did not end:\n{output}") from None
    return Ended(process.returncode, output)


def swap(folder: Path, files: dict[str, str]) -> None:
    """Replace the content of a projected volume as a kubelet does."""
    data = folder / f"..{time.time_ns()}"
    data.mkdir()
    for name, text in files.items():
        (data / name).write_text(text)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    link = folder / "..data_tmp"
    link.symlink_to(data.name)
    link.rename(folder / "..data")
