"""Tracing and resampling outlines."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapely.geometry import Point

from reassembly.outline.contour import mask_polygon, resample


def disc(radius, centre, shape):
    rows, columns = np.mgrid[: shape[0], : shape[1]] + 0.5
    return np.hypot(columns - centre[0], rows - centre[1]) < radius


@given(st.floats(4, 60), st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))
def test_a_disc_is_traced_where_it_is(radius, dx, dy):
    polygon = mask_polygon(disc(radius, (80 + dx, 70 + dy), (140, 160)))
    assert polygon.is_valid
    assert polygon.hausdorff_distance(Point(80 + dx, 70 + dy).buffer(radius, 64)) < 1.1
    assert np.hypot(polygon.centroid.x - 80 - dx, polygon.centroid.y - 70 - dy) < 0.3


@given(st.integers(0, 2**32 - 1))
def test_ragged_masks_give_valid_polygons_of_their_area(seed):
    """Rough masks with diagonal contacts and holes, at the border of the picture too."""
    rng = np.random.default_rng(seed)
    mask = disc(22, (25, 25), (50, 50)) & (rng.random((50, 50)) > 0.03)
    polygon = mask_polygon(mask)
    assert polygon.is_valid
    assert polygon.area == pytest.approx(mask.sum(), rel=0.04)


def test_the_largest_part_is_taken_and_its_holes_are_kept():
    mask = disc(20, (30, 30), (100, 100)) | disc(5, (80, 80), (100, 100))
    mask &= ~disc(6, (30, 30), (100, 100))
    polygon = mask_polygon(mask)
    assert len(polygon.interiors) == 1
    assert polygon.bounds == pytest.approx((10, 10, 50, 50), abs=1)


def test_straight_edges_lie_on_pixel_borders():
    mask = np.zeros((20, 30), bool)
    mask[4:10, 5:25] = True
    assert mask_polygon(mask).bounds == (5, 4, 25, 10)
    assert mask_polygon(np.ones((3, 4), bool)).bounds == (0, 0, 4, 3)


@given(st.floats(0.3, 5.0))
def test_resampled_points_are_even_and_on_the_ring(spacing):
    ring = np.array([[0, 0], [20, 0], [20, 10], [0, 10], [0, 0]], float)
    points = resample(ring, spacing)
    steps = np.linalg.norm(np.diff(np.vstack([points, points[:1]]), axis=0), axis=1)
    assert steps.max() <= 60 / len(points) + 1e-9
    assert len(points) == round(60 / spacing)
    on_edge = (np.isin(points[:, 0], [0, 20])) | (np.isin(points[:, 1], [0, 10]))
    assert on_edge.all()


def test_an_open_ring_is_closed_first():
    square = np.array([[0, 0], [4, 0], [4, 4], [0, 4]], float)
    closed = np.vstack([square, square[:1]])
    np.testing.assert_array_equal(resample(square, 1.0), resample(closed, 1.0))
