from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reassembly.metrics.overlap import mask_overlap, polygon_overlap
from reassembly.metrics.reference import matrix
from reassembly.pose import Pose
from reassembly.puzzle import Fragment
from tests.metrics.pieces import block
from tests.puzzles import drawn_puzzle

PIECE = max(drawn_puzzle(4, seed=1, size_px=240).fragments, key=lambda f: f.area_mm2)


def errors(*poses: Pose) -> np.ndarray:
    return np.array([matrix(pose) for pose in poses])


@pytest.mark.parametrize("overlap", [polygon_overlap, mask_overlap])
def test_known_shares(overlap):
    piece = block("a", 100, 40)
    poses = [Pose(0, 0), Pose(25, 0), Pose(0, -30), Pose(100.5, 0), Pose(0, 0, math.pi / 2)]
    expected = [1.0, 0.75, 0.25, 0.0, 0.4]
    assert overlap(piece, errors(*poses)) == pytest.approx(expected, abs=0.01)


@settings(max_examples=30, deadline=None)
@given(x=st.floats(-60, 60), y=st.floats(-60, 60), angle=st.floats(-3.2, 3.2))
def test_mask_and_polygon_agree_within_rasterisation_error(x, y, angle):
    error = errors(Pose(x, y, angle))
    rim_px = PIECE.polygon.length / PIECE.mm_per_px
    tolerance = 0.5 * rim_px / PIECE.mask.sum()  # half a pixel all along the outline
    assert abs(polygon_overlap(PIECE, error)[0] - mask_overlap(PIECE, error)[0]) < tolerance


def test_a_hole_is_not_covered():
    mask = np.ones((100, 100), bool)
    mask[30:70, 30:70] = False
    ring = Fragment("ring", np.zeros((100, 100, 3), np.uint8), mask, 1.0)
    # Shifted by 40 mm, 60 x 100 are shared but for the 30 x 40 that each of the holes takes away.
    expected = (60 * 100 - 2 * 30 * 40) / (100 * 100 - 40 * 40)
    for overlap in (polygon_overlap, mask_overlap):
        assert overlap(ring, errors(Pose(40, 0)))[0] == pytest.approx(expected, abs=0.01)
