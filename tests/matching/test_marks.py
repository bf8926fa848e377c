"""Strokes across joins: found where they are drawn, painted out, and evidence where they go on."""

import cv2
import numpy as np
import pytest

from reassembly.matching.evidence import NAMES, evidence
from reassembly.matching.marks import ink_of, marks_of, without_marks
from reassembly.matching.rim import rims_of
from reassembly.puzzle import Fragment, Puzzle

MM_PER_PX, SIDE_PX = 0.2, 400
AT_MM = (30.0, 36.0)
"""Where strokes cross the break, from the top."""
INK = (60, 58, 55)


def wall(strokes=AT_MM, colour=INK, width_mm=1.0):
    """A light wall of two halves, left and right, with strokes across the break between them."""
    rng = np.random.default_rng(0)
    image = np.full((SIDE_PX, 2 * SIDE_PX, 3), (205, 200, 190), np.float32)
    image += rng.normal(0, 4, image.shape)
    image = image.clip(0, 255).astype(np.uint8)
    for at in strokes:
        y = round(at / MM_PER_PX)
        ends = (SIDE_PX - 40, y - 4), (SIDE_PX + 40, y + 4)
        cv2.line(image, *ends, colour, round(width_mm / MM_PER_PX))
    return image


def halves(**more):
    image = wall(**more)
    pieces = []
    for k, part in enumerate((image[:, :SIDE_PX], image[:, SIDE_PX:])):
        picture = np.zeros((SIDE_PX + 20, SIDE_PX + 20, 3), np.uint8)
        picture[10:-10, 10:-10] = part
        mask = np.zeros(picture.shape[:2], bool)
        mask[10:-10, 10:-10] = True
        pieces.append(Fragment(f"half {k}", picture, mask, MM_PER_PX))
    return pieces


def test_strokes_are_found_where_they_end_and_point_outwards():
    left, right = halves()
    for piece, outwards in ((left, 1), (right, -1)):
        marks = marks_of(piece)
        marks = marks[marks[:, 1].argsort()]
        wanted = [at - SIDE_PX * MM_PER_PX / 2 for at in AT_MM]
        assert marks[:, 1] == pytest.approx(wanted, abs=0.6)
        assert marks[:, 0] == pytest.approx(outwards * SIDE_PX * MM_PER_PX / 2, abs=1.0)
        assert (marks[:, 2] * outwards > 0.98).all()


@pytest.mark.parametrize(
    "more",
    [
        {"strokes": ()},
        {"colour": (170, 60, 50)},
        {"width_mm": 7.0},
        {"colour": (190, 186, 178)},
    ],
)
def test_plaster_colours_bands_and_shades_are_no_ink(more):
    for piece in halves(**more):
        assert len(marks_of(piece)) == 0 and not ink_of(piece).any()
        assert without_marks(piece) is piece


def test_marks_turn_with_the_picture():
    piece, _ = halves()
    turned = Fragment(
        "turned", np.rot90(piece.image).copy(), np.rot90(piece.mask).copy(), MM_PER_PX
    )
    for one, other in zip(
        sorted(marks_of(piece).tolist()), sorted(marks_of(turned).tolist()), strict=True
    ):
        x, y, u, v = one
        # A quarter counter-clockwise as seen, y down.
        assert other == pytest.approx([y, -x, v, -u], abs=0.4)


def test_marks_are_painted_out_and_nothing_else_is_touched():
    (plain, _), (piece, _) = halves(strokes=()), halves()
    clean = without_marks(piece)
    ink = ink_of(piece)
    assert len(marks_of(clean)) == 0
    assert (clean.image[~ink] == piece.image[~ink]).all() and (clean.mask == piece.mask).all()
    off = np.abs(clean.image[ink].astype(int) - plain.image[ink].astype(int))
    assert off.mean() < 8 and 0.003 < ink.mean() < 0.03


def test_strokes_that_go_on_speak_for_a_placement():
    puzzle = Puzzle("wall", tuple(halves()))
    rims = rims_of(puzzle)
    side = SIDE_PX * MM_PER_PX + 2.0
    motions = np.array([[0.0, side, 0.0], [0.0, side, 14.0], [np.pi, side, 0.0]])
    figures = evidence(*rims.values(), motions, np.ones(3))
    meet, alone, behind = (
        figures[:, NAMES.index(name)] for name in ("marks_meet", "marks_alone", "marks_behind_best")
    )
    assert meet[0] > 1.7 and alone[0] < 0.6 and behind[0] == 0
    assert (meet[1:] < 0.3).all() and (alone[1:] > 1.5).all() and (behind[1:] < -1.2).all()
    bare = rims_of(Puzzle("bare", tuple(halves(strokes=()))))
    nothing = evidence(*bare.values(), motions, np.ones(3))[:, -4:]
    assert (nothing == 0).all()
