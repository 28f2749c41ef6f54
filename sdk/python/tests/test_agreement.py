"""Several real processes agree when to save and when to leave."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from rtj.formats import Manifest
from world import World, ended, eventually

ENDLESS = "1000000"


def trace(step: int) -> int:
    return step * (step + 1) // 2


def test_a_notice_ends_all_ranks_at_one_step_with_one_checkpoint(any_world: World) -> None:
    world = any_world
    world.begin(1, world_size=3)
    ranks = world.start_ranks("lockstep.py", ENDLESS)
    world.wait_for_step(3)
    world.give_notice()
    ends = [ended(rank) for rank in ranks]

    assert [end.code for end in ends] == [0, 0, 0], ends
    (manifest,) = world.manifests()
    step = manifest.step
    for rank, end in enumerate(ends):
        assert f"rank {rank} left at {step}, trace {trace(step)}" in end.output
    assert (manifest.world_size, manifest.yield_id, manifest.attempt) == (3, 1, 1)
    result = world.record("result")
    assert (result["outcome"], result["step"], result["lostSteps"]) == ("yielded", step, 0)
    assert result["checkpoint"] == world.checkpoints()[0]
    progress = world.record("progress")
    assert progress["yield"]["agreedStep"] == step
    assert progress["activity"] == "leaving"


def test_ranks_with_steps_of_different_length_agree(world: World) -> None:
    world.begin(1, world_size=3)
    ranks = world.start_ranks("lockstep.py", ENDLESS, STEP_SECONDS="0.001,0.3,0.02")
    world.wait_for_step(2)
    world.give_notice()
    assert [ended(rank).code for rank in ranks] == [0, 0, 0]
    (manifest,) = world.manifests()
    assert world.record("result")["step"] == manifest.step


@pytest.mark.parametrize("hears", [0, 2])
def test_a_notice_that_reaches_one_rank_only_is_enough(world: World, hears: int) -> None:
    world.begin(1, world_size=3)
    folders = [world.rank_control_dir(rank) for rank in range(3)]
    ranks = [world.start_one("lockstep.py", rank, ENDLESS, RTJ_CONTROL_DIR=str(folders[rank])) for rank in range(3)]
    world.wait_for_step(2)
    world.give_notice(folder=folders[hears])
    assert [ended(rank).code for rank in ranks] == [0, 0, 0]
    assert world.record("result")["outcome"] == "yielded"


def test_sigterm_to_one_rank_yields_the_whole_job(world: World) -> None:
    world.begin(1, world_size=2)
    ranks = world.start_ranks("lockstep.py", ENDLESS)
    world.wait_for_step(2)
    ranks[1].send_signal(signal.SIGTERM)
    assert [ended(rank).code for rank in ranks] == [0, 0]
    result = world.record("result")
    assert (result["outcome"], result["lostSteps"]) == ("yielded", 0)
    assert "Terminated" in result["message"]


def test_two_notices_and_sigterm_make_one_yield(world: World) -> None:
    world.begin(1, world_size=2)
    ranks = world.start_ranks("lockstep.py", ENDLESS, STEP_SECONDS="0.5")
    world.wait_for_step(2)
    world.give_notice(seconds=60)
    eventually("acknowledged", lambda: (world.progress() or {}).get("yield"))
    world.give_notice(seconds=30, cause="Paused")
    ranks[0].send_signal(signal.SIGTERM)
    assert [ended(rank).code for rank in ranks] == [0, 0]
    assert len(world.manifests()) == 1
    assert "Preempted" in world.record("result")["message"]


def test_a_notice_for_another_attempt_is_ignored(world: World) -> None:
    world.begin(2, world_size=1)
    (rank,) = world.start_ranks("lockstep.py", "60", STEP_SECONDS="0.02")
    world.wait_for_step(1)
    world.give_notice(attempt=1)
    result = ended(rank)
    assert result.code == 0
    assert "ignored" not in result.output, "it is normal that one is there"
    assert world.record("result")["outcome"] == "finished"


def test_a_periodic_save_commits_while_training_goes_on(any_world: World) -> None:
    world = any_world
    world.environ["RTJ_CHECKPOINT_INTERVAL_SECONDS"] = "0.3"
    world.begin(1, world_size=2)
    ranks = world.start_ranks("lockstep.py", ENDLESS)
    eventually("two checkpoints", lambda: len(world.checkpoints()) >= 2)
    world.give_notice()
    assert [ended(rank).code for rank in ranks] == [0, 0]
    steps = [m.step for m in world.manifests()]
    assert steps == sorted(set(steps))
    assert [m.yield_id for m in world.manifests()] == [None] * (len(steps) - 1) + [1]


def test_job_save_on_one_rank_saves_on_all(world: World) -> None:
    world.begin(1, world_size=2)
    ranks = world.start_ranks("lockstep.py", "80", SAVE_AT="10", STEP_SECONDS="0.02")
    assert [ended(rank).code for rank in ranks] == [0, 0]
    steps = [m.step for m in world.manifests()]
    assert steps[-1] == 80
    assert 10 < steps[0] < 80


def test_a_yield_during_evaluation_is_answered_without_another_step(world: World) -> None:
    world.begin(1, world_size=2)
    ranks = world.start_ranks("lockstep.py", ENDLESS, EVALUATE_AT="5")
    eventually("evaluation", lambda: (p := world.progress()) and p["activity"] == "evaluating")
    world.give_notice()
    assert [ended(rank).code for rank in ranks] == [0, 0]
    (manifest,) = world.manifests()
    assert manifest.step == 5


def test_finish_saves_the_last_step_and_is_the_only_record_of_completion(any_world: World) -> None:
    world = any_world
    world.begin(1, world_size=2)
    ranks = world.start_ranks("lockstep.py", "7")
    assert [ended(rank).code for rank in ranks] == [0, 0]
    (manifest,) = world.manifests()
    assert manifest.step == 7
    result = world.record("result")
    assert (result["outcome"], result["step"], result["lostSteps"]) == ("finished", 7, 0)


def test_a_rank_that_died_before_the_yield_makes_it_not_serviced(world: World) -> None:
    world.begin(1, world_size=3)
    ranks = world.start_ranks("lockstep.py", ENDLESS, STALL_AT="5", STALLING="1")
    world.wait_for_step(4)
    ranks[1].kill()
    ranks[1].wait()
    world.give_notice()
    codes = [ended(ranks[0]).code, ended(ranks[2]).code]
    assert codes == [76, 76]
    result = world.record("result")
    assert result["outcome"] == "yieldNotServiced"
    assert "rank 1 is gone" in result["message"]
    assert result["checkpoint"] is None


def test_a_rank_that_dies_during_the_save_leaves_no_checkpoint(world: World) -> None:
    world.begin(1, world_size=2)
    ranks = world.start_ranks("lockstep.py", ENDLESS, KILL_IN_UPLOAD="1")
    world.wait_for_step(3)
    world.give_notice()
    assert ended(ranks[1]).code == -signal.SIGKILL
    assert ended(ranks[0]).code == 76
    assert world.manifests() == []
    assert world.record("result")["outcome"] == "yieldNotServiced"


def test_a_dead_rank_0_makes_the_others_leave_with_76(world: World) -> None:
    world.begin(1, world_size=2)
    ranks = world.start_ranks("lockstep.py", ENDLESS, STALL_AT="5", STALLING="1")
    world.wait_for_step(4)
    ranks[0].kill()
    ranks[0].wait()
    world.give_notice()
    assert ended(ranks[1]).code == 76


def test_a_rank_that_never_met_rank_0_leaves_with_76(world: World) -> None:
    world.begin(1, world_size=2)
    alone = world.start_one("lockstep.py", 1, ENDLESS)
    world.give_notice()
    result = ended(alone)
    assert result.code == 76
    assert "rank 0 is gone" in result.output


def test_an_exception_on_one_rank_is_recorded_and_ends_the_job(world: World) -> None:
    world.begin(1, world_size=2)
    ranks = world.start_ranks("lockstep.py", ENDLESS, RAISE_AT="5", RAISING="1,0")
    assert [ended(rank).code for rank in ranks] == [1, 1]
    result = world.record("result")
    assert (result["outcome"], result["step"]) == ("failed", 4)
    assert "a bug in the training code" in result["message"]


def test_a_zombie_of_an_older_attempt_cannot_join(world: World) -> None:
    world.begin(2, world_size=2)
    zombie = world.start_one("lockstep.py", 1, ENDLESS, RTJ_ATTEMPT="1")
    ranks = world.start_ranks("lockstep.py", "30")
    results = [ended(rank) for rank in ranks]
    assert [r.code for r in results] == [0, 0]
    assert "refused a connection: attempt is 1, here it is 2" in results[0].output
    assert zombie.poll() is None
    assert [m.attempt for m in world.manifests()] == [2]


class TestASaveInFlightWhenTheNoticeComes:
    """An upload takes four seconds. One save shows that; then another is in flight when the notice comes."""

    UPLOAD = 4

    def notice_in_second_save(self, world: World, seconds: float) -> tuple[int, list[Manifest]]:
        """Give so many seconds; returns the lost steps and the manifests after the first save's."""
        world.begin(1, world_size=2)
        ranks = world.start_ranks(
            "lockstep.py", ENDLESS, SAVE_AT="3,500", UPLOAD_SECONDS=str(self.UPLOAD), STEP_SECONDS="0.02"
        )
        assert ranks[0].stdout is not None
        begun = 0
        while begun < 2:
            begun += ranks[0].stdout.readline() == "uploading\n"
        assert len(world.checkpoints()) == 1
        world.give_notice(seconds=seconds)
        assert [ended(rank).code for rank in ranks] == [0, 0]
        result = world.record("result")
        assert result["outcome"] == "yielded"
        return result["lostSteps"], world.manifests()[1:]

    def test_time_for_both_makes_two_checkpoints(self, world: World) -> None:
        lost, manifests = self.notice_in_second_save(world, seconds=60)
        assert [m.yield_id for m in manifests] == [None, 1]
        assert lost == 0

    def test_time_for_one_drops_the_older(self, world: World) -> None:
        lost, manifests = self.notice_in_second_save(world, seconds=self.UPLOAD + 3)
        assert [m.yield_id for m in manifests] == [1]
        assert lost == 0

    def test_time_for_none_finishes_the_older_and_reports_the_lost_steps(self, world: World) -> None:
        lost, manifests = self.notice_in_second_save(world, seconds=self.UPLOAD - 1)
        (manifest,) = manifests
        assert manifest.yield_id is None
        assert lost == world.record("result")["step"] - manifest.step > 0


def test_the_yield_is_acknowledged_at_once(world: World) -> None:
    world.begin(1, world_size=2)
    ranks = world.start_ranks("lockstep.py", ENDLESS, STALL_AT="5", STALLING="1")
    world.wait_for_step(4)
    world.give_notice()
    progress = eventually("acknowledged", lambda: (p := world.progress()) and p["yield"] and p)
    assert progress["yield"]["id"] == 1
    assert progress["step"] == 4
    for rank in ranks:
        os.kill(rank.pid, signal.SIGKILL)


def test_ranks_all_leave_well_when_nothing_that_is_published_can_be_stored(world: World) -> None:
    program = """
import rtj, rtj.office
from rtj.stores.folder import FolderStore
put = FolderStore.put
def partly(self, key, data):
    if key.startswith("extra/"):
        raise rtj.StoreUnavailableError("no answer for " + key)
    return put(self, key, data)
FolderStore.put = partly
rtj.office.PUBLISH_SECONDS = 0.1
rtj.office.FINISH_SECONDS = rtj.office.RESULT_SECONDS = 1.0
job = rtj.start()
for n in range(3):
    job.publish("losses.txt", b"0.5")
    job.step(state={"model": {"w": 1}})
job.finish()
print("left well")
"""
    world.begin(1, world_size=2)
    ends = [ended(rank) for rank in [world.start([sys.executable, "-c", program], rank) for rank in range(2)]]
    assert [(end.code, "left well" in end.output) for end in ends] == [(0, True), (0, True)], ends
    assert world.record("result")["outcome"] == "finished"
