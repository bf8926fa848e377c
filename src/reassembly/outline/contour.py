"""A mask's outline as a polygon, and an outline as evenly spaced points."""

from __future__ import annotations

from itertools import pairwise

import contourpy
import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry import Polygon

__all__ = ["mask_polygon", "resample"]

SIMPLIFY_PX = 0.45
"""How far, in pixels, the polygon may deviate from the traced staircase of pixels. From half a
pixel on, the corners of straight edges would be cut and areas come out too small."""


def mask_polygon(mask: NDArray[np.bool_]) -> Polygon:
    """The outline of the largest connected part of a mask, with its holes.

    Args:
        mask: (H, W), true where the fragment is.

    Returns:
        A valid polygon in continuous pixel coordinates (x right, y down; see `pose`). The
        boundary runs midway between inside and outside pixels, so that its area is that of the
        mask within rasterisation error.
    """
    if not mask.any():
        raise ValueError("an empty mask has no outline")
    padded = np.pad(mask, 1).astype(np.float32)
    traced = contourpy.contour_generator(
        z=padded, name="serial", fill_type=contourpy.FillType.OuterOffset
    ).filled(0.5, 2.0)
    polygons = []
    for points, offsets in zip(*traced, strict=True):
        assert points is not None and offsets is not None
        rings = [points[a:b] - 0.5 for a, b in pairwise(offsets)]
        polygons.append(Polygon(rings[0], rings[1:]))
    largest = max(polygons, key=lambda polygon: polygon.area)
    simple = shapely.simplify(largest, SIMPLIFY_PX, preserve_topology=True)
    if simple.is_valid and isinstance(simple, Polygon):
        return simple
    repaired = shapely.make_valid(largest)
    parts = [part for part in shapely.get_parts(repaired) if isinstance(part, Polygon)]
    return max(parts, key=lambda polygon: polygon.area)


def resample(ring: NDArray[np.float64], spacing: float) -> NDArray[np.float64]:
    """Points at even arc length along a closed ring.

    Args:
        ring: (N, 2), closed or open (the last point may repeat the first), any unit.
        spacing: the wanted distance between points, same unit; the nearest distance that
            divides the perimeter is used.

    Returns:
        (M, 2), not closed, starting at the ring's first point, at least 3 points.
    """
    closed = ring if np.array_equal(ring[0], ring[-1]) else np.vstack([ring, ring[:1]])
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
    count = max(3, round(along[-1] / spacing))
    wanted = np.arange(count) * (along[-1] / count)
    return np.column_stack([np.interp(wanted, along, closed[:, axis]) for axis in (0, 1)])
