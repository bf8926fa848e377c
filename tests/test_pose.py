"""The conventions: directions, composition, and RePAIR's way of placing a scan."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from reassembly.pose import Pose, from_repair, to_repair, wrap_deg, wrap_rad

lengths = st.floats(-1e4, 1e4)
angles = st.floats(-20, 20)
poses = st.builds(Pose, lengths, lengths, angles)
points = st.lists(st.tuples(lengths, lengths), min_size=1, max_size=5)


@given(poses, poses, points)
def test_product_does_the_right_hand_motion_first(outer, inner, p):
    np.testing.assert_allclose((outer @ inner).apply(p), outer.apply(inner.apply(p)), atol=1e-6)


@given(poses, points)
def test_inverse_undoes(pose, p):
    np.testing.assert_allclose(pose.inverse().apply(pose.apply(p)), p, atol=1e-6)


@given(poses, st.tuples(st.integers(1, 4000), st.integers(1, 4000)), st.floats(0.01, 2))
def test_repair_round_trip(pose, frame_px, mm_per_px):
    back = from_repair(*to_repair(pose, frame_px, mm_per_px), frame_px, mm_per_px)
    assert math.hypot(back.x_mm - pose.x_mm, back.y_mm - pose.y_mm) < 1e-6
    assert abs(wrap_rad(back.rotation_rad - pose.rotation_rad)) < 1e-9


def test_positive_rotation_is_counter_clockwise_as_seen():
    """y points down, so a quarter turn carries the right-hand direction to the top."""
    np.testing.assert_allclose(Pose(0, 0, math.pi / 2).apply([[1, 0]]), [[0, -1]], atol=1e-12)


@pytest.mark.parametrize("rot", [0, 30, 90, -118.9, 200])
def test_repair_pose_agrees_with_turning_and_pasting_the_picture(rot):
    """The reference is Pillow: rotate about the centre, keep the size, paste at (x, y)."""
    scan = np.zeros((100, 140), np.uint8)
    scan[20:26, 100:106] = 255
    canvas = Image.new("L", (400, 400))
    canvas.paste(Image.fromarray(scan).rotate(rot, resample=Image.Resampling.BICUBIC), (150, 170))
    seen = np.asarray(canvas).astype(float)
    rows, columns = np.mgrid[:400, :400] + 0.5
    centre = np.array([(columns * seen).sum(), (rows * seen).sum()]) / seen.sum()

    mm_per_px = 0.25
    mark_in_frame_mm = (np.array([103.0, 23.0]) - [70, 50]) * mm_per_px
    pose = from_repair(150, 170, rot, (140, 100), mm_per_px)
    np.testing.assert_allclose(pose.apply([mark_in_frame_mm])[0] / mm_per_px, centre, atol=0.05)


@pytest.mark.parametrize(
    ("angle", "wrapped"), [(359, -1), (180, 180), (-180, 180), (540, 180), (-1, -1)]
)
def test_angles_wrap_into_one_turn(angle, wrapped):
    assert wrap_deg(angle) == pytest.approx(wrapped)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_pose_is_finite(bad):
    with pytest.raises(ValueError, match="finite"):
        Pose(0, 0, bad)
