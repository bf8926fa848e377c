"""What pools hold for other systems: outlines in equal steps with their paint, pictures."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
import shapely

from reassembly.errors import InputError
from reassembly.puzzle import Fragment
from reassembly.training.pool import Pool
from reassembly.training.prepare import made_puzzles, prepare
from reassembly.training.views import CONTOUR_POINTS, PAINT_PX, contour, pictures
from tests.puzzles import drawn_puzzle

PUZZLE = drawn_puzzle(4, seed=2)
MOST_BYTES = 40_000
"""A piece, so that tens of thousands fit into a GPU's memory."""


@pytest.fixture(scope="module")
def seen():
    return contour(PUZZLE.fragments)


def test_outlines_go_in_equal_steps_along_the_polygon(seen):
    outlines = seen["contour"]
    assert outlines.shape == (4, CONTOUR_POINTS, 2)
    for fragment, outline in zip(PUZZLE.fragments, outlines, strict=True):
        ring = fragment.polygon.exterior
        points = outline.astype(float) + fragment.centroid_mm
        assert shapely.distance(shapely.points(points), ring).max() < 1e-3
        at = np.array([ring.project(point) for point in shapely.points(points)])
        steps = np.abs(np.diff(at))
        steps = np.minimum(steps, ring.length - steps)
        assert np.allclose(steps, ring.length / CONTOUR_POINTS, atol=1e-3)


def test_outlines_run_clockwise_as_seen(seen):
    x, y = np.moveaxis(seen["contour"].astype(float), -1, 0)
    area = (x * np.roll(y, -1, 1) - np.roll(x, -1, 1) * y).sum(1) / 2
    assert np.allclose(area, [f.area_mm2 for f in PUZZLE.fragments], rtol=0.01)


def test_squares_of_paint_reach_from_the_rim_into_the_piece(seen):
    cover = seen["contour_paint"][..., 3].mean(axis=(0, 1, 3))
    assert cover.shape == (PAINT_PX,)
    assert cover[0] < 100 and (cover[2:] > 200).all()


def test_paint_is_that_of_the_place():
    """On a disc that is red above and blue below, the rim is red above and blue below."""
    side = 200
    mask = np.zeros((side, side), np.uint8)
    cv2.circle(mask, (100, 100), 80, 1, -1)
    image = np.zeros((side, side, 3), np.uint8)
    image[:100, :, 0] = image[100:, :, 2] = 200
    disc = Fragment("disc", image, mask.astype(bool), 0.5)
    found = contour([disc])
    outline, middle = found["contour"][0], found["contour_paint"][0, :, PAINT_PX // 2]
    for above, channel in ((outline[:, 1] < -10, 0), (outline[:, 1] > 10, 2)):
        assert (middle[above][..., channel] > 150).all()
        assert (middle[above][..., 2 - channel] < 50).all()


def test_turning_a_scan_changes_no_paint(seen):
    """Squares lie along the outline, so that a quarter turn moves where they start and no more."""
    turned = tuple(
        replace(
            f,
            image=np.ascontiguousarray(np.rot90(f.image)),
            mask=np.ascontiguousarray(np.rot90(f.mask)),
            frame_px=(0, 0),
        )
        for f in PUZZLE.fragments
    )
    again = contour(turned)
    for piece in range(len(turned)):
        # Counter-clockwise as seen, y down: (x, y) goes to (y, -x).
        here = seen["contour"][piece] @ np.array([[0, -1], [1, 0]], np.float32)
        there = again["contour"][piece]
        apart = np.linalg.norm(here[:, None] - there[None], axis=-1)
        nearest = apart.argmin(1)
        assert apart.min(1).max() < 1.5
        colours = seen["contour_paint"][piece, :, 3:].astype(float)
        others = again["contour_paint"][piece, nearest, 3:].astype(float)
        assert np.abs(colours - others).mean() < 12


def test_a_piece_takes_few_bytes(seen):
    assert sum(column[0].nbytes for column in seen.values()) < MOST_BYTES


def test_a_pool_keeps_views(tmp_path):
    made = made_puzzles(count=2, seed=3, pieces=(3, 3), size_px=256)
    prepare(tmp_path / "pool", made, views=("contour", "pictures"), workers=1)
    pool = Pool.load(tmp_path / "pool")
    puzzle, _ = made.load(1)
    batch = pool.batch([1])
    assert batch.contour is not None and batch.contour_paint is not None
    expected = contour(puzzle.fragments)
    assert np.array_equal(batch.contour.numpy(), expected["contour"])
    assert np.array_equal(batch.contour_paint.numpy(), expected["contour_paint"])
    assert batch.pictures is not None
    assert np.array_equal(batch.pictures.numpy(), pictures(puzzle.fragments)["pictures"])


def test_an_unknown_view(tmp_path):
    made = made_puzzles(count=1, pieces=(3, 3), size_px=256)
    with pytest.raises(InputError, match="pictures, contour"):
        prepare(tmp_path / "pool", made, views=("contours",), workers=1)
