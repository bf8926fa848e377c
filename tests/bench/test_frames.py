"""Turning scans whose frames would betray the answer."""

import math

import numpy as np
import pytest
import shapely

from reassembly.bench.frames import betrays_orientation, turn_back, turn_fragment, turn_fragments
from reassembly.pose import Pose
from reassembly.puzzle import Assembly
from tests.puzzles import drawn_puzzle


@pytest.fixture(scope="module")
def upright():
    return drawn_puzzle(pieces=4, seed=5, turned=False)


def test_frames_that_are_all_alike_are_noticed(upright):
    assert betrays_orientation(upright)
    assert not betrays_orientation(drawn_puzzle(pieces=4, seed=5))


@pytest.mark.parametrize("angle_deg", [0, 37, 90, -135])
def test_a_turned_scan_shows_the_turned_piece(upright, angle_deg):
    fragment = upright.fragments[1]
    angle = math.radians(angle_deg)
    turned = turn_fragment(fragment, angle)
    wanted = shapely.transform(fragment.polygon, Pose(0, 0, angle).apply)
    assert turned.polygon.symmetric_difference(wanted).area < 0.03 * wanted.area
    centre = turned.centroid_mm - Pose(0, 0, angle).apply([fragment.centroid_mm])[0]
    assert np.hypot(*centre) < 0.1
    inside = fragment.image[fragment.mask].mean(axis=0)
    np.testing.assert_allclose(turned.image[turned.mask].mean(axis=0), inside, atol=3)


def test_an_answer_for_turned_scans_holds_for_the_real_ones(upright):
    turned, angles = turn_fragments(upright, seed=3)
    assert turned.truth is None
    true_of_turned = {i: upright.truth[i] @ Pose(0, 0, -angles[i]) for i in upright.ids}
    back = turn_back(Assembly.of(turned, true_of_turned), angles, upright)
    for i, pose in back.poses.items():
        drift = upright.truth[i].inverse() @ pose
        assert math.hypot(drift.x_mm, drift.y_mm) < 1e-9
        assert abs(drift.rotation_rad) < 1e-9


def test_the_angles_follow_the_seed(upright):
    first, again, other = (turn_fragments(upright, seed=s)[1] for s in (1, 1, 2))
    assert first == again != other
    assert np.std(list(first.values())) > 0.3
