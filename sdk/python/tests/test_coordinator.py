"""The agreement without processes: what rank 0 decides from what it is told."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest

from rtj import records
from rtj.boundary import EVALUATING, FINISHING, RESTORING, TRAINING
from rtj.coordinator import CommitSave, Conclude, Coordinator, Effect, Message, Tell, in_flight_plan
from rtj.notice import Asked

GRACE = 30.0


@dataclass
class Ranks:
    """Ranks that answer at once: their steps and places are set by the test, and what they are told is kept."""

    steps: list[int]
    places: list[str] = field(default_factory=list)
    base_step: int = 0
    silent: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.places = self.places or [TRAINING] * len(self.steps)
        numbers = itertools.count(1)
        self.coordinator = Coordinator(len(self.steps), self.base_step, GRACE, lambda: f"{next(numbers):012x}")
        self.now = 100.0
        self.told: list[Message] = []
        self.commits: list[CommitSave] = []
        self.ending: Conclude | None = None

    def join(self, *ranks: int) -> None:
        for rank in ranks or range(len(self.steps)):
            self.do(self.coordinator.joined(rank, self.now))

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, CommitSave):
                self.commits.append(effect)
            elif isinstance(effect, Conclude):
                assert self.ending is None, "an attempt ends once"
                self.ending = effect
            else:
                self.told.append(effect.message)
                self.answer(effect)

    def answer(self, tell: Tell) -> None:
        if tell.message["type"] != "freeze":
            return
        for rank, (step, place) in enumerate(zip(self.steps, self.places, strict=True)):
            if rank not in self.silent:
                number = tell.message["round"]
                self.do(self.coordinator.frozen(rank, number, step, place, self.now))

    def ask(self, cause: str = "Preempted", seconds: float = 60.0, kill: float | None = None) -> None:
        asked = Asked(1, cause, self.now + seconds, None if kill is None else self.now + kill)
        self.do(self.coordinator.heard(asked, self.now))

    def wish(self) -> None:
        self.do(self.coordinator.wish(self.now))

    def acts(self) -> list[Message]:
        return [m["act"] for m in self.told if m["type"] == "decide" and m["act"] is not None]

    def upload(self, nonce: str, *ranks: int) -> None:
        for rank in ranks or range(len(self.steps)):
            self.do(self.coordinator.uploaded(rank, nonce, {"rank": rank}, self.now))

    def commit(self, seconds: float = 5.0) -> None:
        save = self.commits.pop(0).save
        self.do(self.coordinator.committed(save.nonce, f"checkpoint-{save.step}", seconds, self.now))

    def save(self, seconds: float = 5.0) -> None:
        """One whole periodic save that took that long."""
        self.wish()
        nonce = self.acts()[-1]["nonce"]
        self.upload(nonce)
        self.commit(seconds)
        self.steps = [max(self.steps) + 1] * len(self.steps)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.do(self.coordinator.tick(self.now))


def test_all_act_at_the_largest_step_plus_one() -> None:
    ranks = Ranks([4, 7, 5])
    ranks.join()
    ranks.ask()
    (act,) = ranks.acts()
    assert (act["kind"], act["step"]) == ("yield", 8)


def test_nothing_is_decided_before_all_have_joined() -> None:
    ranks = Ranks([4, 4])
    ranks.join(0)
    ranks.ask()
    assert ranks.acts() == []
    ranks.join(1)
    assert [act["step"] for act in ranks.acts()] == [5]


def test_a_rank_that_joins_late_is_told_of_the_yield() -> None:
    ranks = Ranks([0, 0])
    ranks.join(0)
    ranks.ask()
    before = len(ranks.told)
    ranks.join(1)
    assert ranks.told[before]["type"] == "yield"


def test_the_manifest_is_written_when_the_last_rank_has_uploaded() -> None:
    ranks = Ranks([3, 3, 3])
    ranks.join()
    ranks.wish()
    nonce = ranks.acts()[0]["nonce"]
    ranks.upload(nonce, 2, 0)
    assert ranks.commits == []
    ranks.upload(nonce, 1)
    assert [(c.save.nonce, c.save.step) for c in ranks.commits] == [(nonce, 4)]


def test_a_yield_ends_with_the_commit_and_not_before() -> None:
    ranks = Ranks([3, 3])
    ranks.join()
    ranks.ask("Preempted")
    ranks.upload(ranks.acts()[0]["nonce"])
    assert ranks.ending is None
    ranks.commit(seconds=3.2)
    assert ranks.ending == Conclude(records.YIELDED, "yielded at step 4 after Preempted; committed in 3.2 s")


def test_wishes_are_joined_while_a_save_is_in_flight() -> None:
    ranks = Ranks([3, 3])
    ranks.join()
    ranks.wish()
    ranks.wish()
    assert len(ranks.acts()) == 1
    ranks.steps = [9, 9]
    ranks.upload(ranks.acts()[0]["nonce"])
    ranks.commit()
    assert [act["step"] for act in ranks.acts()] == [4, 10]


def test_ranks_that_all_ask_for_the_same_save_get_one() -> None:
    ranks = Ranks([3, 3])
    ranks.join()
    ranks.do(ranks.coordinator.wish(ranks.now, step=3))
    ranks.do(ranks.coordinator.wish(ranks.now, step=3))
    nonce = ranks.acts()[0]["nonce"]
    ranks.steps = [9, 9]
    ranks.do(ranks.coordinator.wish(ranks.now, step=4))
    ranks.upload(nonce)
    ranks.commit()
    assert [act["step"] for act in ranks.acts()] == [4]


def test_a_yield_that_meets_a_save_due_at_the_same_step_makes_one_checkpoint() -> None:
    ranks = Ranks([3, 3])
    ranks.join()
    ranks.wish()
    ranks.ask()
    save, yielding = ranks.acts()
    assert (save["step"], yielding["step"]) == (4, 4)
    assert save["nonce"] == yielding["nonce"]
    ranks.upload(save["nonce"])
    ranks.commit()
    assert ranks.ending is not None
    assert ranks.ending.outcome == records.YIELDED


def test_two_notices_are_one_yield() -> None:
    ranks = Ranks([3])
    ranks.join()
    ranks.ask("Preempted", 60)
    ranks.ask("Paused", 20)
    assert len(ranks.acts()) == 1
    assert ranks.coordinator.asked == Asked(1, "Preempted", ranks.now + 20)


class TestPlaces:
    def test_ranks_that_all_evaluate_at_one_step_act_there(self) -> None:
        ranks = Ranks([5, 5], [EVALUATING, EVALUATING])
        ranks.join()
        ranks.ask()
        assert [act["step"] for act in ranks.acts()] == [5]

    def test_one_that_still_trains_makes_it_the_next_step(self) -> None:
        ranks = Ranks([5, 5], [EVALUATING, TRAINING])
        ranks.join()
        ranks.ask()
        assert [act["step"] for act in ranks.acts()] == [6]

    def test_ranks_that_all_restore_leave_with_nothing_to_save(self) -> None:
        ranks = Ranks([900, 900], [RESTORING, RESTORING], base_step=900)
        ranks.join()
        ranks.ask()
        (act,) = ranks.acts()
        assert (act["step"], act["nonce"], act["after"]) == (900, None, None)
        ranks.do(ranks.coordinator.left(0))
        assert ranks.ending is None, "rank 1 may still be needed by others"
        ranks.do(ranks.coordinator.left(1))
        assert ranks.ending is not None
        assert ranks.ending.outcome == records.YIELDED

    def test_a_yield_while_a_rank_finishes_waits_for_finish(self) -> None:
        ranks = Ranks([9, 10], [TRAINING, FINISHING])
        ranks.join()
        ranks.ask()
        assert ranks.acts() == []
        ranks.do(ranks.coordinator.finishing(1, 10, ranks.now))
        ranks.do(ranks.coordinator.finishing(0, 10, ranks.now))
        (act,) = ranks.acts()
        assert (act["kind"], act["step"], act["final"]) == ("save", 10, True)
        ranks.upload(act["nonce"])
        ranks.commit()
        assert ranks.ending == Conclude(records.FINISHED, "finished at step 10")


class TestASaveInFlight:
    def begin(self, took: float, left: float, elapsed: float) -> Ranks:
        """A save takes ``took`` seconds; another has been in flight for ``elapsed`` when ``left`` remain."""
        ranks = Ranks([3, 3])
        ranks.join()
        ranks.save(took)
        ranks.wish()
        ranks.steps = [8, 8]
        ranks.now += elapsed
        ranks.ask(seconds=left)
        return ranks

    def test_both_fit_so_it_is_finished_and_followed(self) -> None:
        ranks = self.begin(took=10, left=60, elapsed=2)
        flying, act = ranks.acts()[-2:]
        assert (act["after"], act["drop"]) == (flying["nonce"], None)
        ranks.upload(flying["nonce"])
        ranks.commit()
        assert ranks.ending is None
        ranks.upload(act["nonce"])
        ranks.commit()
        assert ranks.ending is not None
        assert ranks.coordinator.committed_step == act["step"] == 9

    def test_only_a_new_one_fits_so_it_is_dropped(self) -> None:
        ranks = self.begin(took=10, left=12, elapsed=2)
        flying, act = ranks.acts()[-2:]
        assert (act["after"], act["drop"]) == (None, flying["nonce"])
        ranks.upload(flying["nonce"])
        assert ranks.commits == [], "what was dropped is never committed"
        ranks.upload(act["nonce"])
        ranks.commit()
        assert ranks.coordinator.committed_step == 9

    def test_no_new_one_fits_so_it_is_finished_and_steps_are_lost(self) -> None:
        ranks = self.begin(took=10, left=5, elapsed=6)
        flying, act = ranks.acts()[-2:]
        assert (act["nonce"], act["after"], act["drop"]) == (None, flying["nonce"], None)
        ranks.do(ranks.coordinator.left(0))
        ranks.do(ranks.coordinator.left(1))
        assert ranks.ending is None
        ranks.upload(flying["nonce"])
        ranks.commit()
        assert ranks.ending is not None
        assert ranks.ending.outcome == records.YIELDED
        assert ranks.coordinator.committed_step == flying["step"] < act["step"]

    def test_one_whose_manifest_is_being_written_is_not_dropped(self) -> None:
        ranks = Ranks([3])
        ranks.join()
        ranks.save(10)
        ranks.wish()
        flying = ranks.acts()[-1]
        ranks.upload(flying["nonce"])
        ranks.steps = [8]
        ranks.ask(seconds=12)
        assert ranks.acts()[-1]["drop"] is None

    @pytest.mark.parametrize(
        ("left", "estimate", "elapsed", "plan"),
        [
            (20, 10, 0, "finish"),
            (19, 10, 0, "drop"),
            (10, 10, 0, "drop"),
            (10, 10, 10, "finish"),
            (9, 10, 9, "only"),
            (9, None, 100, "finish"),
        ],
    )
    def test_the_plan(self, left: float, estimate: float | None, elapsed: float, plan: str) -> None:
        assert in_flight_plan(left, estimate, elapsed) == plan


class TestNotServiced:
    def unserviced(self, ranks: Ranks, says: str) -> None:
        assert ranks.ending is not None
        assert ranks.ending.outcome == records.NOT_SERVICED
        assert says in ranks.ending.message

    def test_no_answer_within_ten_seconds(self) -> None:
        ranks = Ranks([3, 3, 3], silent={1})
        ranks.join()
        ranks.ask()
        ranks.wait(9.9)
        assert ranks.ending is None
        ranks.wait(0.2)
        self.unserviced(ranks, "no answer from rank 1 within 10 s")

    def test_a_rank_that_never_joined(self) -> None:
        ranks = Ranks([3, 3])
        ranks.join(0)
        ranks.ask()
        ranks.wait(10.1)
        self.unserviced(ranks, "rank 1 never joined")

    def test_a_rank_that_goes_during_the_yield(self) -> None:
        ranks = Ranks([3, 3])
        ranks.join()
        ranks.ask()
        ranks.do(ranks.coordinator.gone(1, "its connection broke", ranks.now))
        self.unserviced(ranks, "rank 1 is gone: its connection broke")

    def test_a_yield_after_a_rank_went(self) -> None:
        ranks = Ranks([3, 3])
        ranks.join()
        ranks.do(ranks.coordinator.gone(1, "killed", ranks.now))
        assert ranks.ending is None
        ranks.ask()
        self.unserviced(ranks, "rank 1 is gone: killed")

    def test_an_upload_that_fails(self) -> None:
        ranks = Ranks([3, 3])
        ranks.join()
        ranks.ask()
        ranks.do(ranks.coordinator.save_failed(1, ranks.acts()[0]["nonce"], "the bucket is gone", ranks.now))
        self.unserviced(ranks, "rank 1: the bucket is gone")

    def test_a_notice_that_passes_waits_for_the_pods_own_grace(self) -> None:
        ranks = Ranks([3, 3])
        ranks.join()
        ranks.ask(seconds=5)
        ranks.wait(5 + GRACE - 2.5)
        assert ranks.ending is None
        ranks.wait(1.0)
        self.unserviced(ranks, "no checkpoint was committed in the time that there was")

    def test_the_record_of_the_result_is_waited_for_until_the_pods_are_about_to_be_killed(self) -> None:
        ranks = Ranks([5])
        ranks.join()
        assert ranks.coordinator.overdue(ranks.now) is None, "nothing is concluded"
        ranks.do(ranks.coordinator.restore_failed(0, "wrong bytes", {}, ranks.now))
        assert ranks.coordinator.overdue(ranks.now + 1e6) is None, "nobody is about to kill it"
        ranks.ask(seconds=20.0, kill=30.0)
        assert ranks.coordinator.overdue(ranks.now + 30.0) is None
        assert ranks.coordinator.overdue(ranks.now + 31.0) is ranks.ending

    def test_after_sigterm_its_grace_is_all_there_is(self) -> None:
        ranks = Ranks([3, 3])
        ranks.join()
        ranks.ask(seconds=60, kill=8)
        ranks.wait(8.1)
        self.unserviced(ranks, "no checkpoint was committed")


class TestTrainingGoesOn:
    def test_when_a_periodic_save_fails(self) -> None:
        ranks = Ranks([3, 3])
        ranks.join()
        ranks.wish()
        nonce = ranks.acts()[0]["nonce"]
        ranks.do(ranks.coordinator.save_failed(1, nonce, "503", ranks.now))
        assert ranks.told[-1] == {"type": "aborted", "nonce": nonce, "why": "rank 1: 503"}
        ranks.upload(nonce)
        assert ranks.commits == []
        ranks.steps = [20, 20]
        ranks.wish()
        assert ranks.acts()[-1]["step"] == 21

    def test_when_ranks_do_not_answer_about_a_periodic_save(self) -> None:
        ranks = Ranks([3, 3], silent={1})
        ranks.join()
        ranks.wish()
        ranks.wait(10.1)
        assert ranks.ending is None
        assert {"type": "decide", "act": None} in ranks.told

    def test_but_not_for_ever_without_a_rank(self) -> None:
        ranks = Ranks([3, 3])
        ranks.join()
        ranks.do(ranks.coordinator.gone(1, "killed", ranks.now))
        ranks.wait(10.1)
        assert ranks.ending is not None
        assert ranks.ending.outcome == records.FAILED


class TestFinish:
    def test_nothing_is_saved_twice(self) -> None:
        ranks = Ranks([3])
        ranks.join()
        ranks.save()
        assert ranks.steps == [4]
        ranks.do(ranks.coordinator.finishing(0, 4, ranks.now))
        assert ranks.ending == Conclude(records.FINISHED, "finished at step 4")

    def test_a_save_in_flight_at_the_last_step_is_waited_for(self) -> None:
        ranks = Ranks([3])
        ranks.join()
        ranks.wish()
        ranks.do(ranks.coordinator.finishing(0, 4, ranks.now))
        assert len(ranks.acts()) == 1
        ranks.upload(ranks.acts()[0]["nonce"])
        ranks.commit()
        assert ranks.ending is not None
        assert ranks.ending.outcome == records.FINISHED

    def test_ranks_that_finish_at_different_steps_fail(self) -> None:
        ranks = Ranks([3, 3])
        ranks.join()
        ranks.do(ranks.coordinator.finishing(0, 10, ranks.now))
        ranks.do(ranks.coordinator.finishing(1, 11, ranks.now))
        assert ranks.ending == Conclude(records.FAILED, "the ranks finish at different steps: 10, 11")

    def test_a_last_save_that_fails_is_no_completion(self) -> None:
        ranks = Ranks([3])
        ranks.join()
        ranks.do(ranks.coordinator.finishing(0, 3, ranks.now))
        ranks.do(ranks.coordinator.save_failed(0, ranks.acts()[0]["nonce"], "disk full", ranks.now))
        assert ranks.ending is not None
        assert ranks.ending.outcome == records.FAILED
        assert "disk full" in ranks.ending.message


def test_a_failed_restore_on_any_rank_ends_all() -> None:
    ranks = Ranks([900, 900], [RESTORING, RESTORING], base_step=900)
    ranks.join()
    failure = {"cause": "checksumMismatch"}
    ranks.do(ranks.coordinator.restore_failed(1, "damaged", failure, ranks.now))
    assert ranks.ending == Conclude(records.RESTORE_FAILED, "damaged", failure)
