from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reassembly.training.sampler import Batches, Steps

sizes = st.lists(st.integers(2, 6), min_size=1, max_size=60)


@given(sizes, st.integers(1, 9), st.integers(0, 3), st.integers(0, 5))
def test_every_puzzle_comes_once_an_epoch(sizes, batch, seed, epoch):
    batches = Batches(sizes, batch, seed)
    drawn = batches.epoch(epoch)
    assert len(drawn) == batches.per_epoch
    assert sorted(np.concatenate(drawn).tolist()) == list(range(len(sizes)))
    assert all(1 <= len(numbers) <= batch for numbers in drawn)


@given(sizes, st.integers(1, 9))
def test_puzzles_of_one_size_go_together(sizes, batch):
    """Only leftovers are mixed, and they are no more than they must be."""
    drawn = Batches(sizes, batch, 0).epoch(0)
    mixed = [numbers for numbers in drawn if len({sizes[n] for n in numbers}) > 1]
    left = sum(sizes.count(size) % batch for size in set(sizes))
    assert sum(map(len, mixed)) <= left
    assert sum(len(numbers) < batch for numbers in drawn) <= 1


@given(sizes, st.integers(1, 9))
def test_even_batches_are_full_and_of_one_size(sizes, batch):
    batches = Batches(sizes, batch, 0, even=True)
    drawn = batches.epoch(0)
    assert len(drawn) == batches.per_epoch
    assert all(len(numbers) == batch for numbers in drawn)
    assert all(len({sizes[n] for n in numbers}) == 1 for numbers in drawn)
    assert set(np.concatenate(drawn).tolist()) == set(range(len(sizes)))


@given(sizes, st.integers(1, 4), st.integers(1, 3), st.integers(1, 2))
def test_processes_share_out_the_batches_of_a_step(sizes, batch, ranks, each):
    batches = Batches(sizes, batch, 7, shares=ranks * each)
    shares = [islice(Steps(batches, 3, rank, ranks), 4 * each) for rank in range(ranks)]
    seen = {(step, share): numbers.tolist() for rank in shares for step, share, numbers in rank}
    alone = islice(Steps(batches, 3), 4 * ranks * each)
    assert seen == {(step, share): numbers.tolist() for step, share, numbers in alone}
    assert len(seen) == 4 * ranks * each


def test_a_run_can_start_at_any_step():
    batches = Batches([3] * 10 + [4] * 7, 4, seed=1)
    whole = [numbers.tolist() for _, _, numbers in islice(Steps(batches, 0), 20)]
    late = Steps(Batches([3] * 10 + [4] * 7, 4, seed=1), 13)
    for (step, _, numbers), expected in zip(late, range(13, 20), strict=False):
        assert step == expected
        assert numbers.tolist() == whole[expected]


def test_epochs_and_seeds_differ():
    batches = Batches([3] * 40, 4, seed=1)
    orders = {
        tuple(np.concatenate(Batches([3] * 40, 4, seed).epoch(epoch)))
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len(orders) == 4
    assert batches.per_epoch == 10


@pytest.mark.parametrize(("sizes", "batch", "shares"), [([], 2, 1), ([2], 0, 1), ([2], 1, 0)])
def test_impossible_wishes_are_refused(sizes, batch, shares):
    with pytest.raises(ValueError):
        Batches(sizes, batch, 0, shares)


def test_a_step_is_shared_out_evenly_or_not_at_all():
    with pytest.raises(ValueError):
        Steps(Batches([2], 1, 0, shares=3), 0, rank=0, ranks=2)
