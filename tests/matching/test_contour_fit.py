"""Fitting two outlines: the true join among the first, measured in mm."""

import math

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely import affinity
from shapely.geometry import Point, box

from reassembly.matching.contour_fit import (
    FitSettings,
    fit_contours,
    motion_of,
    outline_of,
    pose_of,
)
from reassembly.pose import Pose
from tests.puzzles import drawn_puzzle


@given(st.floats(-500, 500), st.floats(-500, 500), st.floats(-3.1, 3.1))
def test_motions_are_poses(x, y, angle):
    pose = Pose(x, y, angle)
    turn, shift = motion_of(pose)
    point = complex(3, -7)
    moved = turn * point + shift
    np.testing.assert_allclose(pose.apply([[3, -7]])[0], [moved.real, moved.imag], atol=1e-9)
    back = pose_of(turn, shift)
    assert math.hypot(back.x_mm - x, back.y_mm - y) < 1e-9
    assert abs(back.rotation_rad - angle) < 1e-9


def halves(seed):
    """A square cut in two by a wavy line; the second half turned and carried away."""
    puzzle = drawn_puzzle(pieces=2, seed=seed)
    return puzzle, *puzzle.fragments


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 200))
def test_a_wavy_break_is_found_where_it_was(seed):
    puzzle, fixed, moving = halves(seed)
    first = fit_contours(outline_of(fixed.polygon), outline_of(moving.polygon))[0]
    wanted = puzzle.truth[fixed.id].inverse() @ puzzle.truth[moving.id]
    drift = wanted.inverse() @ first.pose
    centre = moving.centroid_mm
    assert abs(drift.rotation_deg) < 3
    assert np.hypot(*(drift.apply(centre[None])[0] - centre)) < 3
    shared = fixed.placed(puzzle.truth[fixed.id]).buffer(1)
    edge = shapely.intersection(moving.placed(puzzle.truth[moving.id]).exterior, shared).length
    assert first.contact_mm == pytest.approx(edge, rel=0.25)
    assert first.residual_mm < 1
    placed = carried_along(moving.polygon, first.pose)
    assert placed.intersection(fixed.polygon).area < 0.01 * moving.area_mm2


def carried_along(polygon, pose):
    return shapely.transform(polygon, pose.apply)


def test_frames_do_not_matter():
    """Turning and moving either outline turns and moves the answer, and no more."""
    _, fixed, moving = halves(5)
    first = fit_contours(outline_of(fixed.polygon), outline_of(moving.polygon))[0]
    carried = Pose(40, -25, 2.0)
    other = fit_contours(
        outline_of(carried_along(fixed.polygon, carried)), outline_of(moving.polygon)
    )[0]
    drift = (carried @ first.pose).inverse() @ other.pose
    assert abs(drift.rotation_deg) < 1
    assert math.hypot(drift.x_mm, drift.y_mm) < 1.5
    assert other.support == pytest.approx(first.support, rel=0.15)


def test_a_wavy_break_supports_more_than_a_straight_edge():
    """Straight edges fit each other anywhere, so that they tell little."""
    _, fixed, moving = halves(5)
    wavy = fit_contours(outline_of(fixed.polygon), outline_of(moving.polygon))[0]
    straight = fit_contours(outline_of(box(0, 0, 150, 75)), outline_of(box(0, 0, 150, 60)))
    assert wavy.support > 1.5 * max(fit.support for fit in straight)


def test_exact_fits_count_less_the_less_exactly_contours_are_known():
    _, fixed, moving = halves(5)
    supports = []
    for noise_mm in (0.1, 0.4, 1.6):
        known = FitSettings(noise_mm=noise_mm)
        outlines = (outline_of(piece.polygon, known) for piece in (fixed, moving))
        supports.append(fit_contours(*outlines, known)[0].support)
    assert supports == sorted(supports, reverse=True)
    assert supports[0] > 2 * supports[2]


def test_fits_are_ranked_and_distinct():
    _, fixed, moving = halves(3)
    found = fit_contours(outline_of(fixed.polygon), outline_of(moving.polygon), limit=10)
    supports = [fit.support for fit in found]
    assert supports == sorted(supports, reverse=True) and 1 < len(found) <= 10
    centre = moving.centroid_mm[None]
    places = [(*fit.pose.apply(centre)[0], fit.pose.rotation_deg) for fit in found]
    assert len({tuple(np.round(place, 1)) for place in places}) == len(found)


def test_round_and_tiny_pieces_are_no_trouble():
    disc = outline_of(Point(0, 0).buffer(30, 64))
    speck = outline_of(affinity.scale(box(0, 0, 1, 1), 2, 3))
    for a, b in ((disc, disc), (disc, speck), (speck, speck)):
        for fit in fit_contours(a, b):
            assert np.isfinite([fit.pose.x_mm, fit.pose.y_mm, fit.support, fit.contact_mm]).all()
