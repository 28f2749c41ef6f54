"""The example trainer, interrupted in every way: its losses are those of the uninterrupted run, bit for bit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import CREDENTIALS, S3Server
from world import EXAMPLE, World, ended, eventually

STEPS = 60


def start(world: World, attempt: int, restore: str, **extra: str) -> list[subprocess.Popen[str]]:
    """Two pods of two ranks."""
    world.begin(attempt, world_size=4, restore=restore)
    world.environ |= {
        "RTJ_PROCESSES_PER_POD": "2",
        "RTJ_PODS_PER_JOB": "2",
        "RTJ_CHECKPOINT_INTERVAL_SECONDS": "0.3",
        "TRAIN_STEPS": str(STEPS),
        "TRAIN_STEP_SECONDS": "0.03",
    }
    command = [sys.executable, "-m", "rtj.run", "--", sys.executable, EXAMPLE / "train.py"]
    return [world.start(command, pod, **extra) for pod in range(2)]


def newest(world: World) -> str:
    """What the controller would choose: all attempts here continue one another."""
    checkpoints = world.checkpoints()
    return checkpoints[-1] if checkpoints else ""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[int, set[str]]:
    world = World(tmp_path_factory.mktemp("uninterrupted"))
    try:
        assert [ended(pod).code for pod in start(world, 1, "", TRAIN_STEP_SECONDS="0")] == [0, 0]
        losses = world.losses()
    finally:
        world.stop()
    assert sorted(losses) == list(range(1, STEPS + 1))
    assert len({loss for step in losses.values() for loss in step}) == STEPS, "a loss that never changes proves nothing"
    return losses


def interrupt(world: World, pods: list[subprocess.Popen[str]], how: str, rng: random.Random) -> list[int]:
    if how == "notice":
        world.give_notice()
    elif how == "sigterm":
        rng.choice(pods).send_signal(signal.SIGTERM)
    else:
        victim = rng.choice(pods)
        for child in children(victim.pid):
            os.kill(child, signal.SIGKILL)
    return [ended(pod).code for pod in pods]


def children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@pytest.mark.parametrize("seed", [1, 2])
def test_however_it_is_interrupted_the_losses_are_the_same(
    any_world: World, uninterrupted: dict[int, set[str]], seed: int
) -> None:
    world, rng = any_world, random.Random(seed)
    attempt = 0
    for how in ["notice", rng.choice(["sigterm", "kill"]), "notice"]:
        attempt += 1
        restore = newest(world)
        begun = int(restore.split("-")[1]) if restore else 0
        pods = start(world, attempt, restore)
        world.wait_for_step(begun + rng.randint(1, 15))
        codes = interrupt(world, pods, how, rng)
        if how == "kill":
            assert all(code != 0 for code in codes), codes
            continue
        assert codes == [75, 75]
        result = world.record("result")
        assert (result["outcome"], result["lostSteps"]) == ("yielded", 0)
        assert int(newest(world).split("-")[1]) == result["step"]
    attempt += 1
    assert [ended(pod).code for pod in start(world, attempt, newest(world))] == [0, 0]
    assert world.record("result")["step"] == STEPS
    assert world.losses() == uninterrupted


def test_without_a_cluster_it_goes_on_by_itself(tmp_path: Path, uninterrupted: dict[int, set[str]]) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("RTJ_")}
    environ |= {"TRAIN_STEPS": str(STEPS), "TRAIN_STEP_SECONDS": "0.05", "TRAIN_STORE": str(tmp_path / "runs")}
    command = [sys.executable, "-m", "rtj.run", "--nproc", "4", "--", sys.executable, str(EXAMPLE / "train.py")]
    losses = tmp_path / "runs" / "local" / "numpy-example" / "local" / "extra"

    def begin() -> subprocess.Popen[str]:
        return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    for attempt in (1, 2):
        process = begin()
        eventually("it trains", (losses / str(attempt) / "losses.txt").exists)
        process.send_signal(signal.SIGTERM)
        result = ended(process)
        assert result.code == 75, result.output
    result = ended(begin())
    assert result.code == 0, result.output
    assert "attempt 3 of numpy-example (4 ranks) continues 000002-" in result.output
    found: dict[int, set[str]] = {}
    for path in losses.glob("*/losses.txt"):
        for line in path.read_text().splitlines():
            step, loss = line.split()
            found.setdefault(int(step), set()).add(loss)
    assert found == uninterrupted


class TestDamage:
    def test_a_damaged_checkpoint_is_quarantined_by_the_rank_that_proved_it(self, any_world: World) -> None:
        world = any_world
        pods = start(world, 1, "")
        eventually("a checkpoint is committed", world.manifests)
        world.give_notice()
        assert [ended(pod).code for pod in pods] == [75, 75]
        checkpoint = newest(world)
        manifest = world.manifests()[-1]
        key = manifest.prefix + "03/r3-0"
        data = bytearray(world.store.get(key))
        data[0] ^= 1
        world.store.put(key, data)

        pods = start(world, 2, checkpoint)
        results = [ended(pod) for pod in pods]
        assert [result.code for result in results] == [77, 77], results
        result = world.record("result")
        assert result["outcome"] == "restoreFailed"
        failure = result["restoreFailure"]
        assert (failure["checkpoint"], failure["cause"], failure["object"]) == (checkpoint, "checksumMismatch", key)
        assert (failure["rank"], failure["node"]) == (3, "node-a")
        (entry,) = world.store.list("quarantine/")
        assert entry.key == f"quarantine/{checkpoint}.json"

    def test_the_last_checkpoint_is_not_condemned(self, world: World) -> None:
        pods = start(world, 1, "", RTJ_CHECKPOINT_INTERVAL_SECONDS="3600")
        world.wait_for_step(3)
        world.give_notice()
        assert [ended(pod).code for pod in pods] == [75, 75]
        (manifest,) = world.manifests()
        world.store.delete(manifest.prefix + "00/r0-0")
        results = [ended(pod) for pod in start(world, 2, newest(world))]
        assert [result.code for result in results] == [77, 77], results
        assert world.record("result")["restoreFailure"]["cause"] == "missing"
        assert world.store.list("quarantine/") == []
        assert "no other that could be restored" in "".join(result.output for result in results)

    def test_a_missing_object_is_quarantined(self, world: World) -> None:
        pods = start(world, 1, "")
        eventually("a checkpoint is committed", world.manifests)
        world.give_notice()
        assert [ended(pod).code for pod in pods] == [75, 75]
        world.store.delete(world.manifests()[-1].prefix + "00/r0-0")
        assert [ended(pod).code for pod in start(world, 2, newest(world))] == [77, 77]
        assert world.record("result")["restoreFailure"]["cause"] == "missing"
        assert len(world.store.list("quarantine/")) == 1

    def test_changed_model_code_condemns_nothing(self, world: World) -> None:
        pods = start(world, 1, "")
        world.wait_for_step(3)
        world.give_notice()
        assert [ended(pod).code for pod in pods] == [75, 75]
        assert [ended(pod).code for pod in start(world, 2, newest(world), TRAIN_BATCH="16")] == [77, 77]
        assert world.record("result")["restoreFailure"]["cause"] == "incompatible"
        assert world.store.list("quarantine/") == []


class TestFaults:
    def test_a_crash_is_recorded_with_what_was_lost(self, world: World) -> None:
        pods = start(world, 1, "", FAULT_CRASH_AT_STEP="9", RTJ_CHECKPOINT_INTERVAL_SECONDS="3600")
        codes = [ended(pod).code for pod in pods]
        assert codes[0] == 1
        result = world.record("result")
        assert (result["outcome"], result["step"], result["lostSteps"]) == ("failed", 9, 9)

    def test_ignoring_the_yield_leaves_it_unacknowledged(self, world: World) -> None:
        pods = start(world, 1, "", FAULT_IGNORE_YIELD="1", TRAIN_STEPS="100000")
        world.wait_for_step(3)
        world.give_notice()
        for pod in pods:
            pod.send_signal(signal.SIGTERM)
        step = (world.progress() or {})["step"]
        world.wait_for_step(step + 40)
        assert (world.progress() or {})["yield"] is None
        assert all(pod.poll() is None for pod in pods)

    def test_exit_0_on_sigterm_is_no_completion(self, world: World) -> None:
        pods = start(world, 1, "", FAULT_EXIT_ZERO_ON_SIGTERM="1", RTJ_CHECKPOINT_INTERVAL_SECONDS="3600")
        world.wait_for_step(3)
        pods[0].send_signal(signal.SIGTERM)
        assert ended(pods[0]).code == 0
        assert all(entry.key != "attempts/1/result.json" for entry in world.store.list("attempts/"))
        assert world.manifests() == []


def test_a_store_that_is_away_for_a_while_loses_nothing(
    s3: S3Server, tmp_path: Path, uninterrupted: dict[int, set[str]]
) -> None:
    """The server stands still while periodic saves and a yield are due, and then goes on."""
    world = World(
        tmp_path,
        storage_uri=s3.uri("away"),
        environ={"RTJ_STORAGE_ENDPOINT": s3.endpoint, **CREDENTIALS},
    )
    try:
        pods = start(world, 1, "")
        world.wait_for_step(3)
        s3.process.send_signal(signal.SIGSTOP)
        try:
            world.give_notice()
            # Nothing can be seen from the store now; a rank that has heard writes it on its output.
            assert pods[0].stdout is not None
            for line in pods[0].stdout:
                if "yield asked" in line:
                    break
        finally:
            s3.process.send_signal(signal.SIGCONT)
        assert [ended(pod).code for pod in pods] == [75, 75]
        assert world.record("result")["lostSteps"] == 0
        assert [ended(pod).code for pod in start(world, 2, newest(world))] == [0, 0]
        assert world.losses() == uninterrupted
    finally:
        world.stop()
