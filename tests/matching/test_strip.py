import math

import numpy as np
import pytest

from reassembly.matching.rim import DEPTHS_MM, motion_of, rims_of
from reassembly.matching.strip import CHANNELS, LENGTH, WIDTH, fit, strips
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
    (strip, _), figures = strips(one, other, np.array([motion, elsewhere]))
    assert strip.shape == (CHANNELS, WIDTH, LENGTH)
    contact, gap, spread, overlap, _ = figures[0]
    assert contact > 60
    assert 1.9 < gap < 2.9  # Two pixels of half a mm are lost on either side, in x and in y.
    assert spread < 0.6 and overlap < 1
    valid = strip[5, 0] > 0
    assert valid.mean() > 0.9
    near, across = strip[:3, WIDTH // 2 - 1, valid], strip[:3, WIDTH // 2, valid]
    step = np.linalg.norm(near - across, axis=0).mean()
    shuffled = np.random.default_rng(0).permutation(across, axis=1)
    assert step < 0.7 * np.linalg.norm(near - shuffled, axis=0).mean()
    assert figures[1, 3] > 50 or figures[1, 0] < 0.7 * contact


def test_the_middle_of_a_strip_is_the_rim(halves):
    """Across it, paint goes from the one piece's deepest to the other's."""
    one, other, motion = halves
    ((strip,), _) = strips(one, other, motion[None])
    depths = len(DEPTHS_MM)
    valid = strip[5, 0] > 0
    own = strip[:3, depths:, valid]
    assert any(
        np.allclose(own[:, :, 0], other.paint[k].T, atol=1e-5) for k in range(len(other.paint))
    )


def test_fitting_brings_a_disturbed_join_back(halves):
    one, other, motion = halves
    rng = np.random.default_rng(0)
    disturbed = motion + rng.uniform(-1, 1, (40, 3)) * [math.radians(4), 1.5, 1.5]
    fitted = fit(one, other, disturbed)
    turned = np.degrees(np.abs(fitted[:, 0] - motion[0]))
    before = np.degrees(np.abs(disturbed[:, 0] - motion[0]))
    assert np.median(turned) < 0.5 * np.median(before)
    shifted = np.hypot(*(fitted - motion)[:, 1:].T)
    assert np.median(shifted) < 1.5  # The gap becomes 1.5 mm.
    assert np.std(fitted[:, 1:], axis=0).max() < 0.2, "from wherever it was disturbed to"


def test_a_placement_far_away_is_no_join(halves):
    one, other, _ = halves
    strip, figures = strips(one, other, np.array([[0.3, 400.0, 0.0]]))
    assert not strip.any() and figures[0, 0] == 0
    far = np.array([[0.3, 400.0, 0.0]])
    assert fit(one, other, far) == pytest.approx(far)
