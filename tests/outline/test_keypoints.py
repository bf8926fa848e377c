import math
from dataclasses import replace

import cv2
import numpy as np
import pytest

from reassembly.outline.keypoints import WINDOW_OFFSETS_MM, Keypoints, find_keypoints
from reassembly.pose import Pose, rotation_matrix
from reassembly.puzzle import Fragment
from tests.puzzles import drawn_puzzle


def fragment_of(mask: np.ndarray, mm_per_px: float) -> Fragment:
    return Fragment("piece", np.zeros((*mask.shape, 3), np.uint8), mask, mm_per_px)


def drawn(polygon_mm: np.ndarray, mm_per_px: float, side_px: int) -> Fragment:
    """The polygon's mask, its origin at the centre of the image: pixels that are mostly inside."""
    bits = 10
    px = (4 * (polygon_mm / mm_per_px + side_px / 2) - 0.5) * 2**bits
    big = np.zeros((side_px * 4, side_px * 4), np.uint8)
    cv2.fillPoly(big, [np.rint(px).astype(np.int32)], 255, shift=bits)
    mask = cv2.resize(big, (side_px, side_px), interpolation=cv2.INTER_AREA)
    return fragment_of(mask > 127, mm_per_px)


def broken(angle: float = 0.0, radius_mm: float = 30.0) -> np.ndarray:
    """An irregular outline of 23 corners without any symmetry, turned counter-clockwise as seen."""
    t = np.linspace(0, 2 * np.pi, 23, endpoint=False)
    waves = [(1, 0.21, 0.3), (2, 0.13, 1.0), (3, 0.11, 2.0), (5, 0.07, 0.5), (9, 0.06, 4.0)]
    radius = radius_mm * (1 + sum(a * np.sin(k * t + p) for k, a, p in waves))
    return np.column_stack([radius * np.cos(t), radius * np.sin(t)]) @ rotation_matrix(angle).T


def disc(radius_mm: float, mm_per_px: float) -> Fragment:
    side = 2 * math.ceil(radius_mm / mm_per_px) + 8
    y, x = np.mgrid[:side, :side] + 0.5 - side / 2
    return fragment_of(np.hypot(x, y) * mm_per_px < radius_mm, mm_per_px)


def square(half_mm: float, mm_per_px: float) -> Fragment:
    n = round(2 * half_mm / mm_per_px)
    return fragment_of(np.pad(np.ones((n, n), bool), 10), mm_per_px)


def angle_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.abs((a - b + np.pi) % (2 * np.pi) - np.pi)


def nearest(points: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N,) index of the nearest of `others` to each point, and how far it is."""
    distance = np.linalg.norm(points[:, None] - others[None], axis=-1)
    return distance.argmin(axis=1), distance.min(axis=1)


def area(points: np.ndarray) -> float:
    x, y = points.T
    return float(x @ np.roll(y, -1) - np.roll(x, -1) @ y) / 2


def assert_same(one: Keypoints, other: Keypoints) -> None:
    np.testing.assert_allclose(one.points, other.points, atol=1e-9)
    np.testing.assert_array_equal(one.edge_angle, other.edge_angle)
    np.testing.assert_array_equal(one.curvature, other.curvature)
    np.testing.assert_array_equal(one.windows, other.windows)


@pytest.mark.parametrize("mm_per_px", [0.5, 0.25, 0.1])
def test_the_corners_of_a_square_are_keypoints(mm_per_px):
    keypoints = find_keypoints(square(40, mm_per_px))
    corners = np.array([[-40, -40], [40, -40], [40, 40], [-40, 40]])
    at, distance = nearest(corners, keypoints.points)
    assert distance.max() < 0.4
    assert (keypoints.curvature[at] > 0.1).all()


def test_corners_are_found_where_even_spacing_would_miss_them():
    zigzag = np.array([[-30, -20], [-3, -20], [0, -8], [3, -20], [30, -20], [30, 20], [-30, 20]])
    keypoints = find_keypoints(drawn(zigzag.astype(float), 0.2, 400), count=12)
    at, distance = nearest(zigzag, keypoints.points)
    assert distance.max() < 0.8
    assert keypoints.curvature[at[2]] < -0.1
    assert keypoints.curvature[at[[0, 4, 5, 6]]].min() > 0.1


@pytest.mark.parametrize("mm_per_px", [0.25, 0.1357, 0.06])
def test_a_disc_without_corners_is_covered_evenly(mm_per_px):
    radius = 25.0
    keypoints = find_keypoints(disc(radius, mm_per_px))
    assert len(keypoints) == 100
    gaps = np.linalg.norm(np.roll(keypoints.points, -1, axis=0) - keypoints.points, axis=1)
    even = 2 * math.pi * radius / 100
    assert gaps.min() > 0.6 * even and gaps.max() < 1.8 * even
    assert np.median(keypoints.curvature) == pytest.approx(1 / radius, rel=0.1)
    tangent = np.arctan2(keypoints.points[:, 0], -keypoints.points[:, 1])
    assert angle_between(keypoints.edge_angle, tangent).max() < 0.06


def test_the_edge_angles_of_a_known_polygon():
    triangle = np.array([[-30.0, -10.0], [25.0, -30.0], [10.0, 35.0]])
    assert area(triangle) > 0
    keypoints = find_keypoints(drawn(triangle, 0.2, 400))
    checked = 0
    for start, end in zip(triangle, np.roll(triangle, -1, axis=0), strict=True):
        along = (end - start) / np.linalg.norm(end - start)
        offset = keypoints.points - start
        position, across = offset @ along, offset @ [along[1], -along[0]]
        on = (np.abs(across) < 0.5) & (position > 4) & (position < np.dot(end - start, along) - 4)
        assert angle_between(keypoints.edge_angle[on], math.atan2(along[1], along[0])).max() < 0.05
        assert np.abs(keypoints.curvature[on]).max() < 0.03
        checked += on.sum()
    assert checked > 70


def test_windows_of_a_straight_edge_lie_on_the_x_axis_and_turn_inwards_at_its_end():
    keypoints = find_keypoints(square(60, 0.25))
    middle = np.abs(keypoints.points).min(axis=1) < 3
    assert middle.sum() >= 4
    windows = keypoints.windows[middle]
    assert np.abs(windows[..., 1]).max() < 0.2
    np.testing.assert_allclose(
        windows[..., 0], np.broadcast_to(WINDOW_OFFSETS_MM, windows.shape[:2]), atol=0.3
    )
    at, _ = nearest(np.array([[60.0, 40.0]]), keypoints.points)
    assert keypoints.windows[at[0], -1, 1] < -15


def test_points_run_clockwise_as_seen_on_the_outline():
    import shapely

    for fragment in drawn_puzzle(4, seed=3).fragments:
        keypoints = find_keypoints(fragment)
        assert area(keypoints.points) == pytest.approx(fragment.area_mm2, rel=0.05)
        on = shapely.distance(shapely.points(keypoints.points), fragment.polygon.exterior)
        assert on.max() < fragment.mm_per_px


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_quarter_turns_of_the_mask_turn_the_keypoints(quarters):
    fragment = drawn(broken(), 0.25, 400)
    turned = fragment_of(np.rot90(fragment.mask, quarters).copy(), 0.25)
    before, after = find_keypoints(fragment), find_keypoints(turned)
    angle = quarters * math.pi / 2
    at, distance = nearest(before.points @ rotation_matrix(angle).T, after.points)
    same = distance < 0.3
    assert same.mean() > 0.7
    at = at[same]
    assert angle_between(before.edge_angle[same] - angle, after.edge_angle[at]).max() < 0.1
    np.testing.assert_allclose(before.curvature[same], after.curvature[at], atol=0.05)
    np.testing.assert_allclose(before.windows[same], after.windows[at], atol=2.5)
    assert np.abs(before.windows[same] - after.windows[at]).mean() < 0.4


def test_a_fragment_turned_at_random_has_its_features_turned():
    rng = np.random.default_rng(7)
    before = find_keypoints(drawn(broken(), 0.15, 700))
    even = np.linalg.norm(np.roll(before.points, -1, axis=0) - before.points, axis=1).mean()
    for angle in rng.uniform(-math.pi, math.pi, 6):
        after = find_keypoints(drawn(broken(angle), 0.15, 700))
        at, distance = nearest(before.points @ rotation_matrix(angle).T, after.points)
        assert distance.max() < 1.5 * even
        same = distance < 0.3
        assert same.sum() >= 20
        at = at[same]
        assert angle_between(before.edge_angle[same] - angle, after.edge_angle[at]).max() < 0.1
        assert np.abs(before.curvature[same] - after.curvature[at]).max() < 0.1
        assert np.abs(before.windows[same] - after.windows[at]).mean() < 0.4
        assert np.mean(after.curvature) == pytest.approx(np.mean(before.curvature), abs=0.01)


def test_only_the_pixels_matter():
    for fragment in drawn_puzzle(3, seed=8, mm_per_px=0.3).fragments:
        keypoints = find_keypoints(fragment)
        rng = np.random.default_rng(0)
        noise = rng.integers(0, 255, fragment.image.shape, np.uint8)
        told = replace(fragment, id="z", metadata={"rotation": 30, "x": 5}, image=noise)
        assert_same(find_keypoints(told), keypoints)
        moved = replace(fragment, frame_px=(1801, 950), offset_px=(301, 77))
        shift = moved.to_mm(np.zeros((1, 2))) - fragment.to_mm(np.zeros((1, 2)))
        framed = find_keypoints(moved)
        assert_same(replace(framed, points=framed.points - shift), keypoints)
        stranger, motion = fragment.anonymous("piece-0001")
        seen = find_keypoints(stranger)
        assert_same(replace(seen, points=motion.apply(seen.points)), keypoints)
        assert isinstance(motion, Pose)


def test_a_finer_scan_of_the_same_piece_gives_similar_keypoints():
    coarse = find_keypoints(drawn(broken(), 0.25, 480))
    fine = find_keypoints(drawn(broken(), 0.05, 2400))
    even = np.linalg.norm(np.roll(fine.points, -1, axis=0) - fine.points, axis=1).mean()
    at, distance = nearest(fine.points, coarse.points)
    assert distance.max() < 1.5 * even
    near = distance < 0.4
    assert near.mean() > 0.3
    assert np.abs(fine.curvature[near] - coarse.curvature[at[near]]).mean() < 0.03


@pytest.mark.parametrize("side_px", [1, 2, 3, 20])
def test_tiny_pieces_have_all_their_keypoints_too(side_px):
    fragment = fragment_of(np.pad(np.ones((side_px, side_px), bool), 1), 0.05)
    keypoints = find_keypoints(fragment)
    assert len(np.unique(keypoints.points.round(9), axis=0)) == 100
    for values in (keypoints.edge_angle, keypoints.curvature, keypoints.windows):
        assert np.isfinite(values).all()
    assert np.abs(keypoints.windows).max() <= math.hypot(side_px, side_px) * 0.05 + 1e-6


def test_a_piece_that_fills_its_picture_is_like_one_with_a_margin():
    filled = fragment_of(np.ones((120, 80), bool), 0.3)
    with_margin = fragment_of(np.pad(np.ones((120, 80), bool), 30), 0.3)
    assert_same(find_keypoints(filled), find_keypoints(with_margin))
