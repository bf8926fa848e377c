import math
from dataclasses import replace

import cv2
import numpy as np
import pytest

from reassembly.outline.keypoints import find_keypoints
from reassembly.pose import rotation_matrix
from reassembly.puzzle import Fragment
from reassembly.texture.patches import cut_patches, whole_piece
from tests.puzzles import drawn_puzzle


def painted(mm_per_px: float = 0.25, side_px: int = 200) -> Fragment:
    """A grey square piece with a margin of 20 pixels, full of green."""
    image = np.full((side_px, side_px, 3), (0, 255, 0), np.uint8)
    mask = np.zeros((side_px, side_px), bool)
    mask[20:-20, 20:-20] = True
    image[mask] = 128
    return Fragment("piece", image, mask, mm_per_px)


def smooth(angle: float, mm_per_px: float = 0.25, side_px: int = 320) -> Fragment:
    """A blob with a smooth picture on it, drawn from formulas as it looks when turned."""
    y, x = (np.mgrid[:side_px, :side_px] + 0.5 - side_px / 2) * mm_per_px
    own = np.stack([x, y], axis=-1) @ rotation_matrix(angle)
    u, v = own[..., 0], own[..., 1]
    theta = np.arctan2(v, u)
    edge = 26 + 3 * np.sin(3 * theta + 1) + 2 * np.cos(5 * theta) + 2 * np.sin(theta)
    waves = [np.sin(u / 4 + 1), np.sin(v / 3 + u / 9), np.cos((u - v) / 5)]
    image = np.rint(128 + 100 * np.stack(waves, axis=-1)).astype(np.uint8)
    return Fragment("blob", image, np.hypot(u, v) < edge, mm_per_px)


def test_a_patch_centred_on_a_red_dot_is_red_in_its_middle_and_nowhere_else():
    fragment = painted()
    cv2.circle(fragment.image, (120, 70), 3, (255, 0, 0), -1)
    point = fragment.to_mm(np.array([[120.5, 70.5]]))
    for angles in (None, np.array([0.7]), np.array([-2.0])):
        patch = cut_patches(fragment, point, angles, 33, 0.25)[0]
        assert patch[16, 16, 0] > 250 and patch[16, 16, 1] < 5
        red = patch[..., 0].astype(int) - patch[..., 1] > 60
        rows, columns = np.nonzero(red)
        assert rows.mean() == pytest.approx(16, abs=0.3)
        assert columns.mean() == pytest.approx(16, abs=0.3)
        assert red.sum() == pytest.approx(math.pi * 3.5**2, rel=0.3)


def test_the_axes_of_patches():
    fragment = painted()
    fragment.image[90:110, 110:130] = (255, 0, 0)
    fragment.image[110:130, 90:110] = (0, 0, 255)
    centre = np.zeros((1, 2))

    def sides(angle: float | None) -> dict[str, str]:
        angles = None if angle is None else np.array([angle])
        patch = cut_patches(fragment, centre, angles, 33, 0.25)[0].astype(int)
        at = {"left": (16, 1), "right": (16, 31), "up": (1, 16), "down": (31, 16)}
        names = {0: "red", 2: "blue"}
        return {
            names[int(patch[at[side]][:3].argmax())]: side
            for side in at
            if np.ptp(patch[at[side]][:3]) > 100
        }

    assert sides(None) == {"red": "right", "blue": "down"}
    assert sides(0.0) == {"red": "right", "blue": "down"}
    # Along +y, the picture's "down", runs the patch's x axis.
    assert sides(math.pi / 2) == {"red": "up", "blue": "right"}


def test_in_the_tangent_frame_the_piece_lies_below_the_edge():
    fragment = smooth(0.4)
    keypoints = find_keypoints(fragment, 40)
    cover = cut_patches(fragment, keypoints.points, keypoints.edge_angle)[..., 3] / 255
    assert cover[:, -6:].mean() > 0.95
    assert cover[:, :6].mean() < 0.05
    assert np.abs(cover.mean(axis=(1, 2)) - 0.5).max() < 0.15


def test_the_cover_is_the_mask_and_no_colour_of_the_ground_shows():
    fragment = painted()
    corner = fragment.to_mm(np.array([[20.0, 20.0]]))
    for scale in (0.25, 0.6, 0.2, 0.1):
        for angles in (None, np.array([0.5])):
            patch = cut_patches(fragment, corner, angles, 32, scale)[0]
            assert patch[..., 3].mean() / 255 == pytest.approx(0.25, abs=0.02)
            assert (np.abs(patch[patch[..., 3] > 0][:, :3].astype(int) - 128) <= 1).all()
            assert (patch[patch[..., 3] == 0] == 0).all()
    away = cut_patches(fragment, np.array([[500.0, 0.0]]), None)
    assert not away.any()


def test_tangent_frame_patches_turn_with_the_piece_and_input_frame_patches_do_not():
    angle = math.radians(40)
    lying, turned = smooth(0.0), smooth(angle)
    keypoints = find_keypoints(lying, 30)
    points = keypoints.points @ rotation_matrix(angle).T
    tangent = cut_patches(lying, keypoints.points, keypoints.edge_angle).astype(int)
    tangent_turned = cut_patches(turned, points, keypoints.edge_angle - angle).astype(int)
    both = (tangent[..., 3] == 255) & (tangent_turned[..., 3] == 255)
    difference = np.abs(tangent - tangent_turned)[both][:, :3]
    assert both.mean() > 0.35
    assert difference.mean() < 1.5 and np.percentile(difference, 99) < 6
    plain = cut_patches(lying, keypoints.points).astype(int)
    plain_turned = cut_patches(turned, points).astype(int)
    both = (plain[..., 3] == 255) & (plain_turned[..., 3] == 255)
    assert np.abs(plain - plain_turned)[both][:, :3].mean() > 15


def test_a_much_finer_scan_is_averaged_not_sampled():
    rng = np.random.default_rng(0)
    noise = np.repeat(rng.integers(0, 2, (600, 600, 1)) * 255, 3, axis=2).astype(np.uint8)
    fragment = Fragment("noise", noise, np.ones((600, 600), bool), 0.027)
    patch = cut_patches(fragment, np.zeros((1, 2)), None, 32, 0.27)[0, ..., :3].astype(float)
    assert patch.mean() == pytest.approx(127.5, abs=4)
    assert patch.std() < 255 / 2 / 10 * 1.3


def test_patches_have_the_same_scale_whatever_the_scan():
    angles = np.array([0.0, 1.0, 2.0])
    points = np.array([[-20.0, 3.0], [5.0, 12.0], [0.0, -18.0]])
    coarse = cut_patches(smooth(0.0, 0.25, 320), points, angles).astype(int)
    fine = cut_patches(smooth(0.0, 0.05, 1600), points, angles).astype(int)
    both = (coarse[..., 3] == 255) & (fine[..., 3] == 255)
    assert both.mean() > 0.8
    assert np.abs(coarse - fine)[both].mean() < 2
    assert np.abs(coarse[..., 3] - fine[..., 3]).mean() < 5


def test_only_pixels_matter():
    fragment = drawn_puzzle(2, seed=5).fragments[0]
    keypoints = find_keypoints(fragment, 20)
    patches = cut_patches(fragment, keypoints.points, keypoints.edge_angle)
    stranger, motion = fragment.anonymous("piece-0000")
    told = replace(stranger, id="other", metadata={"rotation": 90})
    seen = find_keypoints(told, 20)
    np.testing.assert_allclose(motion.apply(seen.points), keypoints.points, atol=1e-9)
    again = cut_patches(told, seen.points, seen.edge_angle).astype(int)
    np.testing.assert_array_equal(again, patches)
    np.testing.assert_array_equal(whole_piece(told), whole_piece(fragment))
    moved = replace(fragment, frame_px=(1401, 703), offset_px=(33, 101))
    found = find_keypoints(moved, 20)
    np.testing.assert_array_equal(cut_patches(moved, found.points, found.edge_angle), patches)


def test_many_patches_at_once_are_those_cut_one_by_one():
    fragment = smooth(0.0)
    keypoints = find_keypoints(fragment, 50)
    together = cut_patches(fragment, keypoints.points, keypoints.edge_angle, size_px=24)
    assert together.shape == (50, 24, 24, 4) and together.dtype == np.uint8
    for k in (0, 17, 49):
        one = cut_patches(
            fragment, keypoints.points[k : k + 1], keypoints.edge_angle[k : k + 1], size_px=24
        )
        np.testing.assert_array_equal(one[0], together[k])
    assert cut_patches(fragment, np.zeros((0, 2)), np.zeros(0)).shape == (0, 32, 32, 4)


@pytest.mark.parametrize("shape", [(300, 120), (40, 90), (5, 3), (64, 64), (1, 1)])
def test_the_whole_piece_fills_a_square(shape):
    height, width = shape
    image = np.full((height + 30, width + 50, 3), 255, np.uint8)
    mask = np.zeros(image.shape[:2], bool)
    mask[10 : 10 + height, 20 : 20 + width] = True
    image[mask] = (200, 100, 50)
    piece = whole_piece(Fragment("piece", image, mask, 0.3), 64)
    cover = piece[..., 3] > 127
    assert piece.shape == (64, 64, 4)
    rows, columns = np.flatnonzero(cover.any(axis=1)), np.flatnonzero(cover.any(axis=0))
    assert max(len(rows), len(columns)) == 64
    assert len(columns) / len(rows) == pytest.approx(width / height, rel=0.1)
    assert (np.abs(piece[cover][:, :3].astype(int) - (200, 100, 50)) <= 1).all()
    assert abs(rows[0] - (63 - rows[-1])) <= 1 and abs(columns[0] - (63 - columns[-1])) <= 1
