"""Codes of fragments do not depend on how a piece lay in its picture, nor on its company."""

import math

import cv2
import numpy as np
import pytest
import shapely

from reassembly.depot.coding import SEGMENTS, WIDTH, as_floats, code_fragments
from reassembly.pose import Pose
from reassembly.puzzle import Fragment
from tests.puzzles import drawn_puzzle

pytestmark = pytest.mark.usefixtures("one_thread")


def turned(fragment: Fragment, degrees: float) -> Fragment:
    """The same piece scanned again, turned."""
    height, width = fragment.mask.shape
    side = int(np.hypot(height, width)) + 8
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1.0)
    matrix[:, 2] += (side - width) / 2, (side - height) / 2
    image = cv2.warpAffine(fragment.image, matrix, (side, side), flags=cv2.INTER_LINEAR)
    soft = cv2.warpAffine(fragment.mask.astype(np.float32), matrix, (side, side))
    return Fragment(fragment.id, image, soft > 0.5, fragment.mm_per_px)


@pytest.mark.parametrize("wear", ["worn", "light"])
@pytest.mark.parametrize("degrees", [35.0, 90.0, 200.0])
def test_codes_do_not_turn_with_the_piece(degrees, wear):
    puzzle = drawn_puzzle(4, seed=2, size_px=360)
    piece = puzzle.fragments[0]
    before, after = code_fragments([piece, turned(piece, degrees)], wear)
    likeness = as_floats(before.has) @ as_floats(after.has).T
    places = Pose(0.0, 0.0, math.radians(degrees)).apply(before.frames[:, :2])
    off_mm = np.linalg.norm(after.frames[likeness.argmax(axis=1), :2] - places, axis=1)
    assert np.mean(off_mm < 6.0) > 0.8  # Segments are some 4 mm apart.
    others = as_floats(code_fragments([puzzle.fragments[1]], wear)[0].has)
    strange = as_floats(before.has) @ others.T
    assert np.median(likeness.max(axis=1)) > np.median(strange.max(axis=1)) + 0.1
    assert as_floats(before.piece_has) @ as_floats(after.piece_has) > 0.95


def test_codes_are_of_length_one_and_do_not_depend_on_company():
    fragments = drawn_puzzle(3, seed=4, size_px=300).fragments
    together = code_fragments(fragments, "light")
    alone = [code_fragments([fragment], "light")[0] for fragment in fragments]
    for one, other, fragment in zip(together, alone, fragments, strict=True):
        assert one.has.shape == one.lacks.shape == (SEGMENTS, WIDTH)
        assert np.abs(np.linalg.norm(as_floats(one.has), axis=1) - 1).max() < 0.03
        assert np.abs(one.has.astype(int) - other.has).max() <= 1
        inside = fragment.polygon.boundary.buffer(1.0)
        assert shapely.contains_xy(inside, *one.frames[:, :2].T).all()
    assert code_fragments([], "light") == []
