import numpy as np
import pytest

from reassembly.matching.motions import matrices
from reassembly.matching.rim import motion_of, rims_of
from reassembly.matching.strip import LENGTH, NEAR_MM, beside, strips
from tests.puzzles import drawn_puzzle


@pytest.fixture(scope="module")
def halves():
    """Two worn halves, and the motion that brings the second to the first."""
    puzzle = drawn_puzzle(2, seed=2, gap_px=2)
    rims = rims_of(puzzle)
    a, b = puzzle.ids
    motion = motion_of(puzzle.truth[a].inverse() @ puzzle.truth[b], rims[a], rims[b])
    return rims[a], rims[b], np.array(motion)


def test_a_true_join_shows_an_even_gap_and_paint_that_runs_on(halves):
    one, other, motion = halves
    elsewhere = motion + np.array([0.0, 30.0, -20.0])
    strip, figures = strips(one, other, np.array([motion, elsewhere]))
    assert strip.fixed.shape == strip.moving.shape == strip.gap.shape == (2, LENGTH)
    contact, gap, spread, overlap, _ = figures[0]
    assert contact > 60
    assert 1.9 < gap < 2.9  # Two pixels of half a mm are lost on either side, in x and in y.
    assert spread < 0.6 and overlap < 1
    there = strip.there[0]
    assert there.mean() > 0.9
    near, across = one.paint[strip.fixed[0, there], 0], other.paint[strip.moving[0, there], 0]
    step = np.linalg.norm(near - across, axis=1).mean()
    shuffled = np.random.default_rng(0).permutation(across)
    assert step < 0.7 * np.linalg.norm(near - shuffled, axis=1).mean()
    assert figures[1, 3] > 50 or figures[1, 0] < 0.7 * contact


def test_a_strip_runs_along_the_moving_rim_and_tells_what_lies_beside_it(halves):
    one, other, motion = halves
    strip, _ = strips(one, other, motion[None])
    (moving,), (fixed,), (gap,), (there,) = strip.moving, strip.fixed, strip.gap, strip.there
    assert (np.diff(moving) % len(other.points) == 1).all()
    placed = other.points @ matrices(motion[:1])[0].T + motion[1:]
    apart = np.linalg.norm(placed[moving] - one.points[fixed], axis=1)
    assert np.abs(apart - np.abs(gap))[there].max() < 1.0
    assert np.abs(gap[there]).max() < NEAR_MM


def test_what_lies_beside_is_told_of_each_placement_alone(halves):
    """Many placements at once are told as each of them is, in the plain words of the formula."""
    one, other, motion = halves
    rng = np.random.default_rng(1)
    motions = motion + rng.uniform(-1, 1, (12, 3)) * [3.0, 30.0, 30.0]
    points, signed, nearest, facing = beside(one, other, motions)
    for k, (turn, *shift) in enumerate(motions):
        turned = matrices(np.array([turn]))[0].T
        placed = other.points @ turned + shift
        assert points[k] == pytest.approx(placed, abs=1e-4)
        told, there = one.look_up(placed.astype(np.float32))
        assert signed[k] == pytest.approx(told, abs=0.05)
        assert np.mean(nearest[k] == there) > 0.98
        cosine = ((other.normals @ turned) * one.normals[nearest[k]]).sum(axis=1)
        assert facing[k] == pytest.approx(cosine, abs=1e-5)


def test_a_placement_far_away_is_no_join(halves):
    one, other, _ = halves
    strip, figures = strips(one, other, np.array([[0.3, 400.0, 0.0]]))
    assert not strip.there.any() and figures[0, 0] == 0
