"""Poses that are a little off come closer together, and what is held stays."""

import cmath

import numpy as np
import pytest

from reassembly.assembly.refine import RefineSettings, _touching, refine
from reassembly.assembly.table import composed, to_array
from reassembly.matching.rim import rims_of
from tests.joining import misplaced, true_motion
from tests.puzzles import drawn_puzzle

SETTINGS = RefineSettings(steps=100, gap_mm=1.0)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def puzzle():
    """Pieces that lost half a millimetre all around."""
    return drawn_puzzle(3, seed=6, size_px=240, gap_px=1)


@pytest.fixture(scope="module")
def rims(puzzle):
    return rims_of(puzzle)


def lying(puzzle, rims, frame=(0.4, 30 - 12j), seed=None):
    """True poses in some frame, each off by a little if there is a seed."""
    first = puzzle.ids[0]
    rng = np.random.default_rng(seed)
    group = {}
    for i in puzzle.ids:
        turn, shift = true_motion(puzzle, rims, first, i)
        if seed is not None:
            turn, shift = turn + rng.normal(0, 0.05), shift + complex(*rng.normal(0, 1.5, 2))
        group[i] = composed(frame, (turn, shift))
    return group


def mean_error(puzzle, rims, group):
    off = np.array(list(misplaced(puzzle, rims, group).values()))
    return off.mean(axis=0)


@pytest.mark.parametrize("seed", [0, 1])
def test_poses_come_closer_to_the_truth(puzzle, rims, seed):
    before = lying(puzzle, rims, seed=seed)
    after = refine(rims, before, settings=SETTINGS)
    (turn, mm), (turn_after, mm_after) = (mean_error(puzzle, rims, g) for g in (before, after))
    assert turn_after < 0.6 * turn
    assert mm_after < 0.6 * mm
    assert list(after) == list(before)


def test_true_poses_stay(puzzle, rims):
    turn, mm = mean_error(puzzle, rims, refine(rims, lying(puzzle, rims), settings=SETTINGS))
    assert turn < 1.0 and mm < 0.6


def test_held_pieces_do_not_move_and_others_come_to_them(puzzle, rims):
    held = frozenset(puzzle.ids[1:])
    before = lying(puzzle, rims)
    for i in set(puzzle.ids) - held:
        turn, shift = before[i]
        before[i] = turn + 0.04, shift + 1.5 * cmath.exp(1j)
    after = refine(rims, before, held, SETTINGS)
    for i in held:
        assert after[i] == before[i]
    for i in set(puzzle.ids) - held:
        assert after[i] != before[i]
    truth = lying(puzzle, rims)
    moved = set(puzzle.ids) - held
    assert sum(abs(after[i][1] - truth[i][1]) for i in moved) < 0.5 * sum(
        abs(before[i][1] - truth[i][1]) for i in moved
    )


def test_the_frame_does_not_matter(puzzle, rims):
    """Turning the whole group beforehand or afterwards is about the same."""
    carry = (2.5, -200 + 55j)
    before = lying(puzzle, rims, seed=1)
    one = {i: composed(carry, m) for i, m in refine(rims, before, settings=SETTINGS).items()}
    other = refine(rims, {i: composed(carry, m) for i, m in before.items()}, settings=SETTINGS)
    for i in puzzle.ids:
        assert abs(one[i][1] - other[i][1]) < 0.5
        assert one[i][0] == pytest.approx(other[i][0], abs=0.02)


def test_slopes_are_those_of_what_rims_cost(puzzle, rims):
    """Against differences of the cost."""
    group = lying(puzzle, rims, seed=3)
    touching = _touching([rims[i] for i in group], list(group.values()), None)
    motions = np.array([to_array(motion) for motion in group.values()])
    motions += np.random.default_rng(0).normal(0, 0.02, motions.shape)

    def cost(motions):
        turns, shifts = motions[:, 0], motions[:, 1] + 1j * motions[:, 2]
        moving, fixed = (np.repeat(k, touching.counts) for k in (touching.moving, touching.fixed))
        there = np.exp(-1j * turns[moving]) * touching.points + shifts[moving]
        there = np.exp(1j * turns[fixed]) * (there - shifts[fixed])
        distance, _ = touching.contacts.distance(fixed, there)
        miss = (distance - touching.gap_mm) ** 2
        within = SETTINGS.overlap * np.maximum(-distance, 0) ** 2 / SETTINGS.bound_mm**2
        return ((miss / (miss + SETTINGS.bound_mm**2) + within) * touching.weight).sum()

    slope = touching.slope(motions, SETTINGS)
    for place in np.ndindex(motions.shape):
        step = np.zeros_like(motions)
        step[place] = 1e-6
        wanted = (cost(motions + step) - cost(motions - step)) / 2e-6
        assert slope[place] == pytest.approx(wanted, rel=0.02, abs=0.02)


def test_pieces_that_touch_nothing_stay(puzzle, rims):
    a, b = puzzle.ids[:2]
    apart = {a: (0.1, 0j), b: (0.2, 1000 + 0j)}
    assert refine(rims, apart) == apart
    assert refine(rims, {a: (0.1, 3j)}) == {a: (0.1, 3j)}
