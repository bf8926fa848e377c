import math

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from reassembly.matching.motions import matrices
from reassembly.matching.rim import DEPTHS_MM, REACH_MM, motion_of, pose_of, rims_of
from reassembly.pose import Pose, rotation_matrix
from tests.puzzles import drawn_puzzle


@pytest.fixture(scope="module")
def puzzle():
    return drawn_puzzle(4, seed=1)


@pytest.fixture(scope="module")
def rims(puzzle):
    return rims_of(puzzle)


def test_points_lie_on_the_outline_and_normals_point_outwards(puzzle, rims):
    for fragment in puzzle.fragments:
        rim = rims[fragment.id]
        there = shapely.points(rim.points.astype(float) + rim.centre_mm)
        assert shapely.distance(fragment.polygon.exterior, there).max() < 0.01
        outside = rim.points + 1.0 * rim.normals + rim.centre_mm
        assert np.mean(~shapely.contains_xy(fragment.polygon, *outside.T)) > 0.97
        assert rim.step_mm * len(rim.points) == pytest.approx(fragment.polygon.exterior.length)


def test_distances_are_those_from_the_outline(puzzle, rims):
    fragment = puzzle.fragments[0]
    rim = rims[fragment.id]
    rng = np.random.default_rng(0)
    anywhere = rng.uniform(-1.0, 1.0, (400, 2)) * (rim.radius_mm + REACH_MM)
    signed, nearest = rim.look_up(anywhere.astype(np.float32))
    there = anywhere + rim.centre_mm
    expected = shapely.distance(fragment.polygon.exterior, shapely.points(there))
    expected *= np.where(shapely.contains_xy(fragment.polygon, *there.T), -1, 1)
    near = np.abs(expected) < REACH_MM - 1
    assert near.sum() > 100
    assert np.abs(signed - expected)[near].max() < 0.6
    assert (signed[expected > REACH_MM + 1] == REACH_MM).all()
    apart = np.linalg.norm(rim.points[nearest] - anywhere, axis=1)
    assert np.abs(apart - np.abs(expected))[near].max() < 1.0


def test_paint_is_that_of_the_picture_beside_the_rim(puzzle, rims):
    """Where two pieces met, they are painted alike; elsewhere they are not."""
    a, b = puzzle.ids[:2]
    for a, b in [(x, y) for x in puzzle.ids for y in puzzle.ids if x < y]:
        motion = motion_of(puzzle.truth[a].inverse() @ puzzle.truth[b], rims[a], rims[b])
        moved = rims[b].points @ matrices(np.array(motion[:1]))[0].T + np.array(motion[1:])
        signed, nearest = rims[a].look_up(moved.astype(np.float32))
        met = np.abs(signed) < 0.7
        if met.sum() < 20:
            continue
        mine, other = rims[b].paint[met, 0], rims[a].paint[nearest[met], 0]
        alike = np.linalg.norm(mine - other, axis=1).mean()
        chance = np.linalg.norm(mine - np.random.default_rng(0).permutation(other), axis=1).mean()
        assert alike < 0.6 * chance
    assert rims[a].paint.shape == (len(rims[a].points), len(DEPTHS_MM), 3)


def test_colours_are_in_units_of_the_puzzles_spread(rims):
    colours = np.concatenate([rim.paint.reshape(-1, 3) for rim in rims.values()])
    assert np.abs(colours.mean(axis=0)).max() < 0.01
    assert colours.std(axis=0).max() < 1.01
    assert np.abs(np.corrcoef(colours.T)[~np.eye(3, dtype=bool)]).max() < 0.05


@settings(max_examples=50)
@given(st.floats(-3, 3), st.floats(-200, 200), st.floats(-200, 200))
def test_motions_and_poses_are_the_same(rims, turn, x, y):
    one, other = list(rims.values())[:2]
    pose = Pose(x, y, turn)
    motion = motion_of(pose, one, other)
    back = pose_of(motion, one, other)
    assert back.rotation_rad == pytest.approx(turn)
    assert back.translation == pytest.approx(pose.translation, abs=1e-6)
    assert matrices(np.array([turn]))[0] == pytest.approx(rotation_matrix(turn), abs=1e-6)
    assert math.hypot(*(pose.apply(other.centre_mm[None])[0] - one.centre_mm - motion[1:])) < 1e-6
