from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reassembly.metrics.groups import largest_group
from reassembly.pose import rotation_matrix

TEN = math.radians(10)


def group(predicted, true, turns, weights) -> float:
    return largest_group(
        np.asarray(predicted, float),
        np.asarray(true, float),
        np.asarray(turns, float),
        np.asarray(weights, float),
        angle_rad=TEN,
        distance_mm=10.0,
    )


def feasible(predicted, true, turns, members, slack_mm: float) -> bool:
    """Whether some sampled turn brings all members within reach of one shift."""
    p, c = predicted[members], true[members]
    for angle in np.arange(0, math.tau, math.radians(0.25)):
        off = np.abs(np.remainder(turns[members] - angle + math.pi, math.tau) - math.pi)
        if (off > TEN + math.radians(0.13) * (slack_mm > 0)).any():
            continue
        d = c - p @ rotation_matrix(angle).T
        ends = [
            (d[i] + d[j]) / 2 for i, j in itertools.combinations_with_replacement(range(len(d)), 2)
        ]
        ends += [
            centre
            for t in itertools.combinations(range(len(d)), 3)
            if (centre := middle(d[list(t)])) is not None
        ]
        if any(np.linalg.norm(d - e, axis=1).max() <= 10 + slack_mm for e in ends):
            return True
    return False


def middle(triangle) -> np.ndarray | None:
    """The centre of the circle through three points."""
    a, b, c = triangle
    m = 2 * np.array([b - a, c - a])
    if abs(np.linalg.det(m)) < 1e-9:
        return None
    return a + np.linalg.solve(m, [((b - a) ** 2).sum(), ((c - a) ** 2).sum()])


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_finds_what_trying_every_set_finds(seed):
    rng = np.random.default_rng(seed)
    predicted = rng.normal(0, 50, (5, 2))
    angle, weights = rng.uniform(0, 6), rng.uniform(1, 3, 5)
    true = predicted @ rotation_matrix(angle).T + rng.normal(0, 9, (5, 2)) + [30, -500]
    turns = angle + rng.normal(0, TEN * 0.8, 5)

    def best(slack_mm: float) -> float:
        sets = [list(s) for k in range(1, 6) for s in itertools.combinations(range(5), k)]
        sets.sort(key=lambda s: -weights[s].sum())
        return next(weights[s].sum() for s in sets if feasible(predicted, true, turns, s, slack_mm))

    found = group(predicted, true, turns, weights)
    assert best(0.0) <= found + 1e-9
    assert found <= best(0.6) + 1e-9


def test_a_motion_between_two_fragments_may_suit_both():
    """Neither is within 10 mm of the other's motion; halfway both are."""
    predicted = [[0, 0], [100, 0]]
    assert group(predicted, [[0, 0], [119, 0]], [0, 0], [1, 2]) == 3
    assert group(predicted, [[0, 0], [121, 0]], [0, 0], [1, 2]) == 2
    assert group(predicted, predicted, [0, math.radians(19.9)], [1, 2]) == 3
    assert group(predicted, predicted, [0, math.radians(20.2)], [1, 2]) == 2


def test_exactly_at_the_limit_is_within_it():
    assert group([[0, 0], [0, 0]], [[0, 0], [20, 0]], [0, 2 * TEN], [1, 1]) == 2


def test_angles_wrap():
    assert group([[0, 0], [9, 0]], [[0, 0], [9, 0]], [math.pi - 0.01, -math.pi + 0.01], [1, 1]) == 2


def test_a_mirror_image_is_no_rigid_motion():
    points = np.array([[0, 0], [100, 0], [0, 200], [150, 170]])
    assert group(points * [-1, 1], points, np.zeros(4), np.ones(4)) < 3


def test_nothing_placed_is_no_group():
    assert group(np.zeros((0, 2)), np.zeros((0, 2)), [], []) == 0.0


def test_pieces_flung_far_away_do_not_hide_the_others():
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 300, (12, 2))
    predicted = points.copy()
    predicted[:4] += [[1e8, 0], [0, 1e8], [-1e8, 5], [9, -1e8]]
    assert group(predicted, points, np.zeros(12), np.ones(12)) == 8
