"""A piece's rim as joins see it: where its contour runs, what is painted beside it, how far any
point around is from it.

All in the piece's centred frame: mm, x right, y down, the origin at the piece's centroid. Motions
(see `matching.motions`) carry one piece's centred frame into another's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.matching import motions
from reassembly.matching.marks import marks_of
from reassembly.matching.motions import Motions
from reassembly.outline.contour import resample
from reassembly.pose import Pose
from reassembly.puzzle import Fragment, Puzzle

__all__ = ["DEPTHS_MM", "Rim", "motion_of", "normals_of", "pose_of", "rims_of"]

Floats = NDArray[np.float32]

SPACING_MM = 1.0
"""Between points of the rim."""
TANGENT_MM = 2.0
"""Half the chord that tells a point's direction: fine roughness does not turn it."""
DEPTHS_MM = (0.75, 1.75, 2.75, 3.75, 5.0, 6.5, 8.0, 10.0)
"""Where paint is looked at, inwards from the rim."""
BLUR_MM = 0.35
"""Paint is seen through a blur of this width, which holds noise of the scan down."""
REACH_MM = 14.0
"""How far out the map of distances goes."""
CELL_MM = 0.5
"""Of that map."""


@dataclass(frozen=True, eq=False)
class Rim:
    """The outer contour of a piece, with the paint beside it."""

    points: Floats
    """(N, 2), mm, at even arc length, clockwise as seen."""
    normals: Floats
    """(N, 2), of length one, outwards."""
    step_mm: float
    paint: Floats
    """(N, D, 3): colour at each of `DEPTHS_MM` inwards, in units of the puzzle's own spread."""
    signed: Floats
    """(H, W): distance from the rim, mm, negative within, on cells of `CELL_MM`."""
    nearest: NDArray[np.int32]
    """(H, W): the nearest point of the rim, where that is no further than `REACH_MM`."""
    corner: Floats
    """(2,): middle of the first cell."""
    centre_mm: NDArray[np.float64]
    """(2,): the origin, in the fragment's own frame."""
    marks: Floats
    """(M, 4): see `matching.marks.marks_of`."""
    radius_mm: float
    area_mm2: float

    def look_up(self, points: Floats) -> tuple[Floats, NDArray[np.int32]]:
        """Distances from the rim (...) and nearest points of the rim (...), at points (..., 2).

        Beyond the map a distance is `REACH_MM`."""
        shape = points.shape[:-1]
        x, y = (
            ((points[..., k] - self.corner[k]) / CELL_MM).astype(np.float32).reshape(-1, shape[-1])
            for k in (0, 1)
        )
        signed = cv2.remap(
            self.signed,
            x,
            y,
            cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=REACH_MM,
        )
        # OpenCV does not take whole numbers of this size: they pass as numbers that look alike.
        cells = self.nearest.view(np.float32)
        nearest = cv2.remap(cells, x, y, cv2.INTER_NEAREST, borderMode=cv2.BORDER_REPLICATE)
        told = np.asarray(signed, np.float32), np.asarray(nearest, np.float32).view(np.int32)
        return told[0].reshape(shape), told[1].reshape(shape)


def rims_of(puzzle: Puzzle) -> dict[str, Rim]:
    """The rims of all fragments, with colours in units of their common spread."""
    raw = {fragment.id: _colours(fragment) for fragment in puzzle.fragments}
    mean, whitening = _spread([paint for *_, paint in raw.values()])
    return {
        fragment.id: _rim(fragment, *raw[fragment.id], mean, whitening)
        for fragment in puzzle.fragments
    }


def pose_of(motion: Motions, fixed: Rim, moving: Rim) -> Pose:
    """A motion (3,) of the moving piece as a pose in the fixed fragment's own frame."""
    return Pose(*fixed.centre_mm) @ motions.pose_of(np.asarray(motion), moving.centre_mm)


def motion_of(pose: Pose, fixed: Rim, moving: Rim) -> Motions:
    """The same the other way round."""
    return motions.motion_of(Pose(*-fixed.centre_mm) @ pose, moving.centre_mm)


def normals_of(points: NDArray[Any], step_mm: float) -> NDArray[Any]:
    """(N, 2), of length one, outwards, of a closed contour that runs clockwise as seen."""
    reach = max(1, round(TANGENT_MM / step_mm))
    chord = np.roll(points, -reach, axis=0) - np.roll(points, reach, axis=0)
    chord /= np.maximum(np.linalg.norm(chord, axis=1, keepdims=True), 1e-9)
    return np.column_stack([chord[:, 1], -chord[:, 0]])


def _colours(fragment: Fragment) -> tuple[Floats, Floats, float, Floats]:
    """Points, normals, step and CIELAB paint (N, D, 3) of a fragment's rim."""
    ring = np.asarray(fragment.polygon.exterior.coords)[:-1] - fragment.centroid_mm
    following = np.roll(ring, -1, axis=0)
    if (ring[:, 0] * following[:, 1] - following[:, 0] * ring[:, 1]).sum() < 0:
        ring = ring[::-1]
    points = resample(ring, SPACING_MM)
    step = float(fragment.polygon.exterior.length / len(points))
    normals = normals_of(points, step)

    shrink = max(1, int(BLUR_MM / fragment.mm_per_px))
    height, width = fragment.mask.shape
    size = (-(-width // shrink), -(-height // shrink))
    scale = np.array([size[0] / width, size[1] / height])
    lab = cv2.cvtColor(fragment.image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    mask = fragment.mask.astype(np.float32)
    blur = BLUR_MM / (fragment.mm_per_px * shrink)
    inside = cv2.GaussianBlur(cv2.resize(mask, size, interpolation=cv2.INTER_AREA), (0, 0), blur)
    small = cv2.resize(lab * mask[..., None], size, interpolation=cv2.INTER_AREA)
    small = cv2.GaussianBlur(small, (0, 0), blur) / np.maximum(inside, 1e-3)[..., None]
    wanted = points[:, None] - normals[:, None] * np.array(DEPTHS_MM)[:, None]
    place = (wanted + fragment.centroid_mm) / fragment.mm_per_px + np.array(fragment.origin_px)
    x, y = np.moveaxis(place * scale - 0.5, -1, 0).astype(np.float32)
    paint = cv2.remap(small, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return points.astype(np.float32), normals.astype(np.float32), step, paint.astype(np.float32)


def _spread(paints: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Mean (3,) and whitening matrix (3, 3) of the colours of a puzzle."""
    colours = np.concatenate([paint.reshape(-1, 3) for paint in paints])
    mean = colours.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov((colours - mean).T))
    noise = 4.0  # CIELAB units squared: what differs by less is the same paint.
    return mean, (vectors / np.sqrt(values + noise)).astype(np.float32)


def _rim(
    fragment: Fragment,
    points: Floats,
    normals: Floats,
    step: float,
    paint: Floats,
    mean: Floats,
    whitening: Floats,
) -> Rim:
    colours = (paint - mean) @ whitening
    low = points.min(axis=0) - REACH_MM
    size = np.ceil((points.max(axis=0) + REACH_MM - low) / CELL_MM).astype(int) + 1
    ring = np.asarray(fragment.polygon.exterior.coords) - fragment.centroid_mm
    inside = np.zeros((size[1], size[0]), np.uint8)
    cv2.fillPoly(inside, [np.round((ring - low) / CELL_MM * 16).astype(np.int32)], 1, shift=4)
    signed, nearest = _distances(inside, points, low)
    return Rim(
        points=points,
        normals=normals,
        step_mm=step,
        paint=colours.astype(np.float32),
        signed=signed,
        nearest=nearest,
        corner=low.astype(np.float32),
        centre_mm=fragment.centroid_mm,
        marks=marks_of(fragment),
        radius_mm=float(np.linalg.norm(points, axis=1).max()),
        area_mm2=fragment.area_mm2,
    )


def _distances(
    inside: NDArray[np.uint8], points: Floats, low: NDArray[np.float64]
) -> tuple[Floats, NDArray[np.int32]]:
    """Signed distance from the rim of every cell, and the nearest point of those within reach."""
    from scipy.spatial import cKDTree

    away = np.ones_like(inside)
    column, row = np.rint((points - low) / CELL_MM).astype(np.intp).T
    away[row, column] = 0
    # Cells of points tell which cells are within reach, and the points themselves how far they are.
    within = cv2.distanceTransform(away, cv2.DIST_L2, cv2.DIST_MASK_PRECISE) * CELL_MM
    rows, columns = np.nonzero(within < REACH_MM + CELL_MM)
    cells = np.column_stack([columns, rows]) * CELL_MM + low
    apart = np.full(inside.shape, REACH_MM, np.float32)
    nearest = np.zeros(inside.shape, np.int32)
    found, nearest[rows, columns] = cKDTree(points).query(cells)
    apart[rows, columns] = np.minimum(found, REACH_MM)
    return np.where(inside > 0, -apart, apart), nearest
