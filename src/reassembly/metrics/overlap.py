"""How much of a fragment lies where it belongs: by exact polygon, and by mask as a check on it.

Both take the fragment's error as a motion in its own frame, from where it belongs to where it was
put; no error is the identity.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import shapely
from numpy.typing import NDArray

from reassembly.puzzle import Fragment

__all__ = ["Overlap", "mask_overlap", "polygon_overlap"]

Overlap = Callable[[Fragment, NDArray[np.float64]], NDArray[np.float64]]
"""From a fragment and (k, 3, 3) motions to (k,) shares of its area."""

NO_ERROR_MM = 1e-7
"""Where no point of an outline has moved farther than this, nothing has moved."""


def polygon_overlap(fragment: Fragment, errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the fragment's area that is still covered after each motion, by exact polygon.

    Args:
        errors: (k, 3, 3), mm.

    Returns:
        (k,), from 0 to 1.
    """
    points = shapely.get_coordinates(fragment.polygon)
    moved = points @ errors[:, :2, :2].swapaxes(1, 2) + errors[:, None, :2, 2]
    still = np.abs(moved - points).max(axis=(1, 2)) < NO_ERROR_MM
    shares: NDArray[np.float64] = still.astype(np.float64)
    apart = (moved.min(axis=1) >= points.max(axis=0)) | (moved.max(axis=1) <= points.min(axis=0))
    (meets,) = np.nonzero(~still & ~apart.any(axis=1))
    if meets.size:
        copies = np.full(meets.size, fragment.polygon, dtype=object)
        copies = shapely.set_coordinates(copies, moved[meets].reshape(-1, 2))
        shares[meets] = shapely.area(shapely.intersection(copies, fragment.polygon))
        shares[meets] = np.minimum(shares[meets] / fragment.area_mm2, 1.0)
    return shares


def mask_overlap(fragment: Fragment, errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same as `polygon_overlap` by counting pixels: of the mask's pixels, the share whose
    centres fall on a pixel of the mask after the motion."""
    height, width = fragment.mask.shape
    rows, columns = np.nonzero(fragment.mask)
    centres = fragment.to_mm(np.column_stack([columns, rows]).astype(np.float64) + 0.5)
    shares = np.zeros(len(errors))
    for k, error in enumerate(errors):
        moved = centres @ error[:2, :2].T + error[:2, 2]
        column, row = np.floor(moved / fragment.mm_per_px + fragment.origin_px).astype(int).T
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        shares[k] = fragment.mask[row[inside], column[inside]].sum() / len(centres)
    return shares
