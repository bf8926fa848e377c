"""Keypoints on a fragment's outline: corners first, and what the outline does around them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
import shapely
from numpy.typing import NDArray

from reassembly.keypoints.fps import farthest_points
from reassembly.outline.contour import resample
from reassembly.puzzle import Fragment

__all__ = ["FIT_REACH_MM", "WINDOW_OFFSETS_MM", "Keypoints", "find_keypoints"]

_REACHES_MM = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 28, 32, 38, 44)

WINDOW_OFFSETS_MM = np.array([-s for s in reversed(_REACHES_MM)] + list(_REACHES_MM), np.float64)
"""(W,) mm along the outline, ascending: where a keypoint's window is sampled."""
WINDOW_OFFSETS_MM.setflags(write=False)

FIT_REACH_MM = 3.0
"""How far along the outline, to either side, the curve is fitted that gives edge angle and
curvature; less on outlines shorter than eight times this."""

CORNER_MM_PER_PX = 0.25
"""The scale at which corners are looked for, where the scan is not coarser."""

FIT_POINTS = 25

HARRIS_BLOCK, HARRIS_APERTURE, HARRIS_K = 2, 3, 0.04
HARRIS_THRESHOLD = 0.001
"""Of the strongest response."""
BLUR_PX = 0.5
"""Standard deviation, in pixels of the scan."""
ONE_CORNER_PX = 5.0
"""Responses nearer than this to each other are one corner, in pixels of `CORNER_MM_PER_PX`."""
MARGIN_PX = 6
"""Background around the mask, beyond the reach of gradient, block and dilation; same pixels."""


@dataclass(frozen=True, eq=False)
class Keypoints:
    """N points of one outline, in contour order: clockwise as seen, so that the area
    sum(x_i y_{i+1} - x_{i+1} y_i) / 2 is positive (y points down)."""

    points: NDArray[np.float64]
    """(N, 2) mm, in the fragment's own frame."""
    edge_angle: NDArray[np.float64]
    """(N,) rad in (-pi, pi]: atan2(dy, dx) of the tangent along the contour order."""
    curvature: NDArray[np.float64]
    """(N,) 1/mm, positive where the outline is convex."""
    windows: NDArray[np.float32]
    """(N, W, 2) mm: the outline at `WINDOW_OFFSETS_MM` from each keypoint, seen from it: x
    along its tangent, y along its outward normal."""

    def __len__(self) -> int:
        return len(self.points)


def find_keypoints(fragment: Fragment, count: int = 100) -> Keypoints:
    """The corners of a fragment's outline, thinned or topped up to `count` points.

    Harris corners of the mask are kept where they meet the outer contour, farthest first. Where
    they are too few, the contour points farthest from those chosen follow. Which pixel of the
    scan the fragment lies on, and how it is turned, does not matter beyond the pixel raster.

    Args:
        fragment: only its mask and its scale are looked at.
        count: how many keypoints to return, at least one.
    """
    outline_px, corner = _outline_px(fragment)
    perimeter_px = _perimeter(outline_px)
    shrink = max(1.0, CORNER_MM_PER_PX / fragment.mm_per_px)
    contour = _from_the_tip(resample(outline_px, min(shrink, perimeter_px / (4 * count))))
    corners = np.flatnonzero(_corner_strength(fragment.mask, contour, shrink) > HARRIS_THRESHOLD)
    apart = min(perimeter_px / count / 2, ONE_CORNER_PX * shrink)
    if len(corners):
        tip = int(_from_centre(contour)[corners].argmax())
        wanted = min(count, len(corners))
        corners = corners[farthest_points(contour[corners], wanted, tip, apart)]
    chosen = farthest_points(contour, count, corners if len(corners) else 0)

    along = chosen * np.float64(_perimeter(contour) / len(contour))
    points, angle, curvature, windows = _describe(contour, along, fragment.mm_per_px)
    return Keypoints(
        points=fragment.to_mm(points + corner),
        edge_angle=angle,
        curvature=curvature,
        windows=windows,
    )


def _outline_px(fragment: Fragment) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The outer contour in pixels from the top-left corner of the mask's bounding box, in
    contour order and not closed (N, 2), and that corner in pixels of the image (2,)."""
    ring = shapely.get_coordinates(fragment.cropped().polygon.exterior)[:-1]
    if _area(ring) < 0:
        ring = ring[::-1]
    mask = fragment.mask
    corner = np.array([mask.any(axis=0).argmax(), mask.any(axis=1).argmax()], dtype=np.float64)
    # Rounded, since the millionth of a pixel that depends on where the origin lies would
    # otherwise decide between points that are equally far.
    return (ring / fragment.mm_per_px + fragment.origin_px - corner).round(6), corner


def _corner_strength(
    mask: NDArray[np.bool_], points: NDArray[np.float64], shrink: float
) -> NDArray[np.float64]:
    """Dilated Harris response of the mask at points near its edge, as a share of the strongest.

    Args:
        mask: (H, W).
        points: (N, 2) pixels from the top-left corner of the mask's bounding box.
        shrink: how many pixels of the mask make one where corners are looked for.
    """
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    margin = math.ceil(MARGIN_PX * shrink)
    soft = np.pad(mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1], margin)
    size = np.array(soft.shape[::-1])
    small = np.maximum(1, np.rint(size / shrink)).astype(int)
    # Without the blur, every step of an oblique edge's pixel staircase is a corner and no pixel
    # of an upright edge is: the corners would tell how the piece lay on the scanner.
    picture = cv2.GaussianBlur(soft.astype(np.float32), (0, 0), BLUR_PX)
    if shrink > 1.0:
        picture = cv2.resize(picture, small.tolist(), interpolation=cv2.INTER_AREA)
    response = cv2.cornerHarris(picture, HARRIS_BLOCK, HARRIS_APERTURE, HARRIS_K)
    dilated = cv2.dilate(response, np.ones((3, 3), np.uint8))
    # A block of two pixels is centred on the corner they share, which is a whole number where
    # pixels have their centres at halves: the response needs no shift.
    at = ((points + margin) * (small / size)).astype(np.float32)[:, None]
    read = cv2.remap(dilated, at[..., 0], at[..., 1], cv2.INTER_LINEAR)[:, 0]
    return np.asarray(read / max(float(dilated.max()), 1e-12), np.float64)


def _describe(
    contour: NDArray[np.float64], along: NDArray[np.float64], mm_per_px: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float32]]:
    """Position (px), tangent angle, curvature (1/mm) and window (mm) at arc lengths `along`."""
    perimeter = _perimeter(contour)
    closed = np.vstack([contour, contour[:1]])
    knots = np.linspace(0.0, perimeter, len(closed))

    def at(offsets: NDArray[np.float64]) -> NDArray[np.float64]:
        where = (along[:, None] + offsets) % perimeter
        return np.stack([np.interp(where, knots, closed[:, axis]) for axis in (0, 1)], axis=-1)

    reach = min(FIT_REACH_MM / mm_per_px, perimeter / 8)
    offsets = np.linspace(-reach, reach, FIT_POINTS)
    fit = np.linalg.pinv(np.vander(offsets, 3, increasing=True))
    _, first, half_second = np.einsum("kf,nfc->knc", fit, at(offsets))
    speed = np.hypot(first[:, 0], first[:, 1])
    turn = 2 * (first[:, 0] * half_second[:, 1] - first[:, 1] * half_second[:, 0])
    curvature = turn / np.maximum(speed, 1e-6) ** 3 / mm_per_px

    points = at(np.zeros(1))[:, 0]
    angle = np.arctan2(first[:, 1], first[:, 0])
    c, s = np.cos(angle), np.sin(angle)
    to_frame = np.stack([np.stack([c, s], axis=-1), np.stack([s, -c], axis=-1)], axis=1)
    seen = (at(WINDOW_OFFSETS_MM / mm_per_px) - points[:, None]) * mm_per_px
    windows = np.einsum("nac,nwc->nwa", to_frame, seen).astype(np.float32)
    return points, angle, curvature, windows


def _from_the_tip(contour: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same closed contour, beginning where it is farthest from its centre."""
    return np.roll(contour, -int(_from_centre(contour).argmax()), axis=0)


def _from_centre(contour: NDArray[np.float64]) -> NDArray[np.float64]:
    offset = contour - contour.mean(axis=0)
    return np.asarray(np.hypot(offset[:, 0], offset[:, 1]).round(6))


def _perimeter(ring: NDArray[np.float64]) -> float:
    return float(np.hypot(*(np.roll(ring, -1, axis=0) - ring).T).sum())


def _area(ring: NDArray[np.float64]) -> float:
    x, y = ring.T
    return float(x @ np.roll(y, -1) - np.roll(x, -1) @ y) / 2
