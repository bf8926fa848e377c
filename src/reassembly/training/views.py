"""What systems other than ReassembleNet look at: columns that a pool holds when asked to.

No torch here: worker processes compute these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.polygon import orient

from reassembly.puzzle import Fragment
from reassembly.texture.patches import cut_patches

__all__ = [
    "CONTOUR_POINTS",
    "PAINT_MM_PER_PX",
    "PAINT_PX",
    "PICTURE_MM_PER_PX",
    "PICTURE_PX",
    "VIEWS",
    "contour",
    "pictures",
]

PICTURE_PX = 48
PICTURE_MM_PER_PX = 4.0
"""So that a square shows 192 mm: nearly every piece whole."""
CONTOUR_POINTS = 192
"""Of an outline, in equal steps: 1.8 mm for the median piece."""
PAINT_PX = 7
PAINT_MM_PER_PX = 1.0
PAINT_DEPTH_MM = 2.5
"""How far inside the outline the middle of a square of paint lies, so that it shows the outermost
6 mm of paint and a rim of what is not there."""
TANGENT_MM = 3.0
"""Tangents are chords that reach so far to either side."""


def pictures(fragments: Sequence[Fragment]) -> dict[str, NDArray[Any]]:
    """`pictures`, (P, s, s, 4) uint8 RGBA, all on one scale, padded with nothing."""
    shown = [
        cut_patches(
            fragment,
            fragment.centroid_mm[None],
            size_px=PICTURE_PX,
            mm_per_px=PICTURE_MM_PER_PX,
        )
        for fragment in fragments
    ]
    return {"pictures": np.concatenate(shown)}


def contour(fragments: Sequence[Fragment]) -> dict[str, NDArray[Any]]:
    """Outlines, and the paint along them.

    Returns:
        `contour`, (P, M, 2) float32: each piece's outline in M equal steps, mm, around its
        centroid, of positive shoelace area; `contour_paint`, (P, M, s, s, 4) uint8 RGBA: the paint
        at each point, x along the outline and y into the piece.
    """
    outlines, paint = [], []
    for fragment in fragments:
        ring = orient(fragment.polygon).exterior
        at = np.arange(CONTOUR_POINTS) * (ring.length / CONTOUR_POINTS)

        def along(mm: NDArray[np.float64], ring: shapely.LinearRing = ring) -> NDArray[np.float64]:
            return np.asarray(shapely.get_coordinates(ring.interpolate(mm % ring.length)))

        points, chord = along(at), along(at + TANGENT_MM) - along(at - TANGENT_MM)
        tangent = chord / np.maximum(np.linalg.norm(chord, axis=1, keepdims=True), 1e-9)
        inward = np.column_stack([-tangent[:, 1], tangent[:, 0]])
        squares = cut_patches(
            fragment,
            points + PAINT_DEPTH_MM * inward,
            np.arctan2(tangent[:, 1], tangent[:, 0]),
            PAINT_PX,
            PAINT_MM_PER_PX,
        )
        outlines.append((points - fragment.centroid_mm).astype(np.float32))
        paint.append(squares)
    return {"contour": np.stack(outlines), "contour_paint": np.stack(paint)}


VIEWS: Mapping[str, Callable[[Sequence[Fragment]], dict[str, NDArray[Any]]]] = {
    "pictures": pictures,
    "contour": contour,
}
"""By name, which is also the first column's: the columns, (P, ...) each, of a puzzle's pieces."""
