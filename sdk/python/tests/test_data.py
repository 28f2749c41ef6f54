"""The data position: every sample once an epoch, whatever the interruptions and the number of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from rtj import ConfigurationError, Sampler


def batches(sampler: Sampler, epochs: int, begin: int = 0) -> list[list[int]]:
    found = []
    for epoch in range(begin, epochs):
        sampler.begin(epoch)
        found += [batch.tolist() for batch in sampler]
    return found


def test_every_sample_comes_once_an_epoch_in_another_order() -> None:
    sampler = Sampler(64, 8, seed=3)
    first, second = np.concatenate(batches(sampler, 1)), np.concatenate(batches(sampler, 2, begin=1))
    assert sorted(first) == sorted(second) == list(range(64))
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize("taken", [0, 1, 2, 5, 7, 8, 9, 15, 16])
def test_a_restored_position_gives_the_rest_and_nothing_else(taken: int) -> None:
    whole = batches(Sampler(64, 8, seed=3), 2)
    interrupted = Sampler(64, 8, seed=3)
    seen: list[list[int]] = []
    for epoch in range(2):
        interrupted.begin(epoch)
        for batch in interrupted:
            if len(seen) == taken:
                break
            seen.append(batch.tolist())
            position = interrupted.state_dict()
        if len(seen) == taken:
            break
    if not seen:
        position = Sampler(64, 8, seed=3).state_dict()
    resumed = Sampler(64, 8, seed=99)
    resumed.load_state_dict(position)
    assert whole[:taken] == seen
    assert whole[taken:] == batches(resumed, 2, begin=resumed.epoch)


def test_another_number_of_ranks_sees_the_same_batches() -> None:
    def global_batches(world_size: int) -> list[list[int]]:
        samplers = [Sampler(60, 12, seed=1, rank=rank, world_size=world_size) for rank in range(world_size)]
        parts = [batches(sampler, 2) for sampler in samplers]
        return [[i for part in parts for i in part[n]] for n in range(len(parts[0]))]

    assert global_batches(1) == global_batches(3) == global_batches(5)


def test_a_last_incomplete_batch_is_dropped() -> None:
    assert [len(batch) for batch in batches(Sampler(10, 4), 1)] == [4, 4]


def test_a_position_of_other_data_is_refused() -> None:
    position = Sampler(64, 8).state_dict()
    with pytest.raises(ValueError, match="of 64 samples in batches of 8, the sampler has 65 in batches of 8"):
        Sampler(65, 8).load_state_dict(position)


@pytest.mark.parametrize(("length", "batch", "ranks"), [(4, 5, 1), (4, 0, 1), (8, 2, 3)])
def test_sizes_that_do_not_work_are_refused(length: int, batch: int, ranks: int) -> None:
    with pytest.raises(ConfigurationError, match="global_batch is"):
        Sampler(length, batch, world_size=ranks)
