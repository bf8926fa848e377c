"""A join laid out straight: which points of the two rims lie beside each other along the break, and
how far they gape.

Every placement of two pieces becomes a strip of one length, whatever its place and its bend. The
paint of both pieces is told by the rims' points: a line that runs on across the gap is found at the
same place of the strip on either side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reassembly.matching.motions import Motions, carried
from reassembly.matching.rim import Rim

__all__ = ["FACING", "LENGTH", "NEAR_MM", "Outline", "Strips", "beside", "strips"]

Floats = NDArray[np.float32]

LENGTH = 64
"""Points along a strip, 1 mm apart: longer breaks show their middle."""
NEAR_MM = 8.0
"""Rims further apart than this are not part of a join."""
FACING = -0.3
"""Largest cosine between outward normals that face each other."""
DEEP_MM = 3.0
"""What lies further within the other piece lies on it."""

BOUND_MM = 4.0
"""Distances beyond this count less and less, so that losses of rim do not pull."""


class Outline(Protocol):
    """Points along a closed contour."""

    @property
    def points(self) -> Floats:
        """(N, 2), mm."""

    @property
    def normals(self) -> Floats:
        """(N, 2), of length one, outwards."""


@dataclass(frozen=True, eq=False)
class Strips:
    """Breaks of K placements, laid out straight."""

    fixed: NDArray[np.int32]
    """(K, `LENGTH`): points of the fixed rim."""
    moving: NDArray[np.int64]
    """(K, `LENGTH`): those of the moving one beside them."""
    gap: Floats
    """(K, `LENGTH`): how far they are apart, mm; less than nothing where the pieces overlap."""
    there: NDArray[np.bool_]
    """(K, `LENGTH`): whether the rims are near each other at all."""


def strips(fixed: Rim, moving: Rim, motions: Motions) -> tuple[Strips, Floats]:
    """The strips of K placements, and figures (K, 5) of each: length of contact, mean gap, spread
    of the gap, overlap and length that lies on the other piece, all in mm or mm^2.
    """
    _, signed, nearest, facing = beside(fixed, moving, motions)
    joined = ((np.abs(signed) < NEAR_MM) & (facing < FACING)).astype(np.float32)
    middle = _middle(joined / (1 + (signed / BOUND_MM) ** 2))
    along = np.arange(LENGTH) - LENGTH // 2
    index = (middle[:, None] + along) % len(moving.points)
    take = np.arange(len(motions))[:, None]
    gap = signed[take, index]
    there = (np.abs(gap) < NEAR_MM) & (facing[take, index] < 0)
    strip = Strips(nearest[take, index], index, gap, there)
    step = moving.step_mm
    length = joined.sum(axis=1)
    mean = (signed * joined).sum(axis=1) / np.maximum(length, 1)
    spread = np.sqrt((joined * (signed - mean[:, None]) ** 2).sum(axis=1) / np.maximum(length, 1))
    overlap = np.maximum(-signed, 0).sum(axis=1)
    deep = np.count_nonzero(signed < -DEEP_MM, axis=1)
    figures = np.stack([length * step, mean, spread, overlap * step, deep * step], axis=1)
    return strip, figures.astype(np.float32)


def beside(
    fixed: Rim, moving: Outline, motions: Motions
) -> tuple[Floats, Floats, NDArray[np.int32], Floats]:
    """Of every point of the moved contour: where it is (K, N, 2), its distance (K, N) from the
    fixed rim, the nearest point there, and the cosine between the two outward normals."""
    points = carried(moving.points, motions)
    signed, nearest = fixed.look_up(points)
    normals = carried(moving.normals, motions * [1.0, 0.0, 0.0])
    # NumPy gathers and sums single numbers many times as fast as pairs of them.
    x, y = (normals[..., k] * fixed.normals[:, k].take(nearest) for k in (0, 1))
    return points, signed, nearest, x + y


def _middle(strength: Floats) -> NDArray[np.int64]:
    """(K,): where along the closed rim the contact is centred."""
    count = strength.shape[1]
    angle = 2 * np.pi * np.arange(count) / count
    x, y = (strength @ np.column_stack([np.cos(angle), np.sin(angle)])).T
    centre = np.arctan2(y, x)
    middle: NDArray[np.int64] = np.round(centre / (2 * np.pi) * count).astype(np.int64) % count
    return middle
