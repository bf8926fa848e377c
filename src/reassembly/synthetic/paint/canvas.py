"""A wall to draw on in millimetres, and the places on it: boxes, spots, runs and rings.

All coordinates are wall coordinates in mm, x right and y down, so that one drawing gives the same
picture at any resolution. Shapes are arrays (N, 2), or (K, N, 2) for K shapes of one kind, which
is much faster than K calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Box",
    "Canvas",
    "Colour",
    "Floats",
    "Place",
    "Ring",
    "Run",
    "Spot",
    "arc",
    "reach",
    "spline",
]

Colour = tuple[int, int, int]
"""Red, green, blue, 0 to 255."""

Floats = NDArray[np.float64]

SUBPIXEL_BITS = 4
STEP_MM = 4.0
"""Straight lines are drawn in steps of this length, so that they follow the unsteady hand."""

HAND_MM = 0.22
"""How far a line strays from where it should be."""


@dataclass(frozen=True)
class Box:
    """An upright rectangle in mm."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def centre(self) -> tuple[float, float]:
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2

    def inset(self, dx: float, dy: float | None = None) -> Box:
        """The box with `dx` taken off left and right and `dy` (default `dx`) off top and bottom."""
        dy = dx if dy is None else dy
        return Box(self.x0 + dx, self.y0 + dy, self.x1 - dx, self.y1 - dy)

    def corners(self) -> Floats:
        """(4, 2), clockwise from the top left."""
        return np.array(
            [(self.x0, self.y0), (self.x1, self.y0), (self.x1, self.y1), (self.x0, self.y1)]
        )

    def at(self, u: Floats | float, v: Floats | float) -> Floats:
        """(..., 2) for fractions of the width and height."""
        return np.stack(
            np.broadcast_arrays(
                self.x0 + np.asarray(u) * self.width, self.y0 + np.asarray(v) * self.height
            ),
            axis=-1,
        )


@dataclass(frozen=True)
class Spot:
    """A place for a figure: where its centre is, how large it is (mm), how it is turned."""

    x: float
    y: float
    size: float
    angle: float = 0.0
    """Clockwise on the wall, in radians."""
    mirrored: bool = False

    def place(self, points: Any) -> Floats:
        """Figure coordinates, (..., 2) in units of the size around the centre, on the wall."""
        local = np.asarray(points, float) * (self.size * (-1 if self.mirrored else 1), self.size)
        cos, sin = math.cos(self.angle), math.sin(self.angle)
        turned: Floats = local @ np.array([(cos, sin), (-sin, cos)]) + (self.x, self.y)
        return turned


@dataclass(frozen=True)
class Run:
    """A straight band in mm. The side of negative `t` lies to the left of its direction."""

    x0: float
    y0: float
    x1: float
    y1: float
    width: float

    @property
    def length(self) -> float:
        return math.hypot(self.x1 - self.x0, self.y1 - self.y0)

    def place(self, s: Any, t: Any) -> Floats:
        """(..., 2) on the wall for `s` mm along the band and `t` of its width across (+-0.5)."""
        length = max(self.length, 1e-9)
        along = np.array([self.x1 - self.x0, self.y1 - self.y0]) / length
        across = np.array([-along[1], along[0]]) * self.width
        s, t = np.broadcast_arrays(s, t)
        placed: Floats = (self.x0, self.y0) + s[..., None] * along + t[..., None] * across
        return placed

    def cells(self, aspect: float) -> tuple[int, float]:
        """How many repeats about `aspect` widths long fill the band, and their length in mm."""
        count = max(1, round(self.length / (aspect * self.width)))
        return count, self.length / count


@dataclass(frozen=True)
class Ring:
    """A circular band in mm, run clockwise from the right. Negative `t` lies outside."""

    x: float
    y: float
    radius: float
    width: float

    @property
    def length(self) -> float:
        return math.tau * self.radius

    def place(self, s: Any, t: Any) -> Floats:
        """(..., 2) on the wall for `s` mm along the ring and `t` of its width across (+-0.5)."""
        s, t = np.broadcast_arrays(s, t)
        angle, radius = s / self.radius, self.radius - t * self.width
        return np.stack([self.x + radius * np.cos(angle), self.y + radius * np.sin(angle)], -1)

    def cells(self, aspect: float) -> tuple[int, float]:
        """How many repeats about `aspect` widths long fill the ring, and their length in mm."""
        count = max(3, round(self.length / (aspect * self.width)))
        return count, self.length / count


Place = Box | Spot | Run | Ring


def reach(place: Place) -> Box:
    """A box that holds whatever is drawn in a place, ribbons and leaves that hang out included."""
    if isinstance(place, Box):
        return place.inset(-0.4 * min(place.width, place.height) - 2)
    if isinstance(place, Spot):
        half = place.size
        return Box(place.x - half, place.y - half, place.x + half, place.y + half)
    if isinstance(place, Ring):
        half = place.radius + place.width
        return Box(place.x - half, place.y - half, place.x + half, place.y + half)
    (left, right), (top, bottom) = sorted((place.x0, place.x1)), sorted((place.y0, place.y1))
    return Box(left, top, right, bottom).inset(-2 * place.width)


def spline(points: Any, closed: bool = False, steps: int = 6) -> Floats:
    """A smooth (Catmull-Rom) curve through (..., N, 2) points, `steps` points for each span."""
    knots = np.asarray(points, float)
    if closed:
        padded = np.concatenate([knots[..., -1:, :], knots, knots[..., :2, :]], axis=-2)
    else:
        padded = np.concatenate([knots[..., :1, :], knots, knots[..., -1:, :]], axis=-2)
    a, b, c, d = (padded[..., k : padded.shape[-2] - 3 + k, None, :] for k in range(4))
    u = np.linspace(0, 1, steps, endpoint=False)[:, None]
    curve = 0.5 * (
        2 * b + (c - a) * u + (2 * a - 5 * b + 4 * c - d) * u**2 + (3 * b - a - 3 * c + d) * u**3
    )
    curve = curve.reshape(*curve.shape[:-3], -1, 2)
    return curve if closed else np.concatenate([curve, knots[..., -1:, :]], axis=-2)


def arc(
    x: float, y: float, radius: float, start: float = 0.0, stop: float = math.tau, points: int = 48
) -> Floats:
    """(points, 2) on a circle, angles in radians clockwise from the right."""
    angle = np.linspace(start, stop, points)
    return np.stack([x + radius * np.cos(angle), y + radius * np.sin(angle)], -1)


@dataclass(frozen=True)
class Canvas:
    """A picture under the brush.

    Args:
        pixels: (H, W, 3) uint8 RGB, or (H, W) for a map; drawn on in place.
        px_per_mm: the resolution.
        origin_mm: wall coordinates of the top-left corner of the picture.
    """

    pixels: NDArray[np.uint8]
    px_per_mm: float
    origin_mm: tuple[float, float] = (0.0, 0.0)
    _hand: Floats = field(default_factory=lambda: _unsteady_hand(0), repr=False)

    @classmethod
    def of(
        cls,
        pixels: NDArray[np.uint8],
        px_per_mm: float,
        hand_seed: int,
        origin_mm: tuple[float, float] = (0, 0),
    ) -> Canvas:
        """A canvas whose lines tremble in a way that `hand_seed` decides."""
        return cls(pixels, px_per_mm, origin_mm, _unsteady_hand(hand_seed))

    def to_px(self, points: Floats) -> NDArray[np.int32]:
        """Fixed-point pixel coordinates, (..., 2), for cv2's drawing functions."""
        phases = points @ self._hand[:2] + self._hand[2]
        strayed = points + np.sin(phases) @ self._hand[3:].T
        px = (strayed - self.origin_mm) * self.px_per_mm - 0.5
        fixed: NDArray[np.int32] = np.rint(px * (1 << SUBPIXEL_BITS)).astype(np.int32)
        return fixed

    def thickness(self, width_mm: float) -> int:
        """A line width in whole pixels, at least 1."""
        return max(1, round(width_mm * self.px_per_mm))

    def fill(self, shapes: Floats, colour: Colour) -> None:
        """Fill one polygon (N, 2) or several (K, N, 2), later ones on top."""
        for shape in self._visible(shapes):
            cv2.fillPoly(self.pixels, [shape], colour, cv2.LINE_AA, SUBPIXEL_BITS)

    def line(self, paths: Floats, width_mm: float, colour: Colour, closed: bool = False) -> None:
        """Draw one path (N, 2) or several (K, N, 2) with an even brush."""
        visible = self._visible(paths, margin_mm=width_mm)
        if len(visible):
            width = self.thickness(width_mm)
            cv2.polylines(
                self.pixels, list(visible), closed, colour, width, cv2.LINE_AA, SUBPIXEL_BITS
            )

    def brush(self, paths: Floats, widths_mm: Any, colour: Colour) -> None:
        """Draw one path (N, 2) or several (K, N, 2) with a brush pressed unevenly.

        Args:
            widths_mm: broadcast to (N,): the width at each point.
        """
        ahead = np.gradient(paths, axis=-2)
        across = np.stack([-ahead[..., 1], ahead[..., 0]], -1)
        across /= np.linalg.norm(across, axis=-1, keepdims=True) + 1e-9
        half = np.broadcast_to(np.asarray(widths_mm, float) / 2, paths.shape[:-1])[..., None]
        left, right = paths + across * half, paths - across * half
        self.fill(np.concatenate([left, right[..., ::-1, :]], axis=-2), colour)

    def straight(
        self, a: Sequence[float], b: Sequence[float], width_mm: float, colour: Colour
    ) -> None:
        """A straight line from a to b (x, y in mm), as a hand draws it along a ruler."""
        steps = max(2, math.ceil(math.dist(a, b) / STEP_MM) + 1)
        path = np.linspace(a, b, steps)
        swell = 1 + 0.07 * np.sin(path @ (0.13, 0.17)) + 0.05 * np.sin(path @ (-0.31, 0.29))
        if width_mm * self.px_per_mm < 2:
            self.line(path, width_mm, colour)
        else:
            self.brush(path, width_mm * swell, colour)

    def outline(self, box: Box, width_mm: float, colour: Colour) -> None:
        """Four straight lines around a box."""
        corners = box.corners()
        half = width_mm / 2
        for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            over = (b - a) / (math.dist(a, b) + 1e-9) * half
            self.straight(tuple(a - over), tuple(b + over), width_mm, colour)

    def dots(self, centres: Floats, radius_mm: Any, colour: Colour) -> None:
        """Discs of one or several radii around (K, 2) centres."""
        centres = np.atleast_2d(centres)
        radii = np.broadcast_to(np.asarray(radius_mm, float), len(centres)) * self.px_per_mm
        fixed = np.rint(np.maximum(radii, 0.5) * (1 << SUBPIXEL_BITS)).astype(int)
        for (x, y), radius in zip(self.to_px(centres).tolist(), fixed.tolist(), strict=True):
            cv2.circle(self.pixels, (x, y), radius, colour, -1, cv2.LINE_AA, SUBPIXEL_BITS)

    def rectangle(self, box: Box, colour: Colour) -> None:
        """An even field."""
        part = self.window(box).pixels
        if part.size:
            cv2.rectangle(part, (0, 0), part.shape[1::-1], colour, cv2.FILLED)

    def wash(self, box: Box, ramp: Sequence[Colour], down: bool = True) -> None:
        """A field that passes through the colours of `ramp`, downwards or to the right."""
        rows, columns = self._slices(box)
        part = self.pixels[rows, columns]
        size = part.shape[0 if down else 1]
        begin, extent = (box.y0, box.height) if down else (box.x0, box.width)
        first = rows.start if down else columns.start
        wall = (np.arange(first, first + size) + 0.5) / self.px_per_mm + self.origin_mm[int(down)]
        at = (wall - begin) / max(extent, 1e-9) * (len(ramp) - 1)
        stops = np.arange(len(ramp))
        shades = np.stack([np.interp(at, stops, [c[k] for c in ramp]) for k in range(3)], -1)
        shades = np.rint(shades).astype(np.uint8)
        part[:] = shades[:, None] if down else shades[None]

    def shows(self, place: Place) -> bool:
        """Whether something drawn in this place could be seen."""
        return bool(self.window(reach(place)).pixels.size)

    def window(self, box: Box) -> Canvas:
        """The same wall, but nothing drawn shows outside the box."""
        rows, columns = self._slices(box)
        origin = (
            self.origin_mm[0] + columns.start / self.px_per_mm,
            self.origin_mm[1] + rows.start / self.px_per_mm,
        )
        return Canvas(self.pixels[rows, columns], self.px_per_mm, origin, self._hand)

    def _slices(self, box: Box) -> tuple[slice, slice]:
        height, width = self.pixels.shape[:2]
        x0, y0, x1, y1 = (
            round((value - origin) * self.px_per_mm)
            for value, origin in zip(
                (box.x0, box.y0, box.x1, box.y1), self.origin_mm * 2, strict=True
            )
        )
        left, top = min(max(x0, 0), width), min(max(y0, 0), height)
        return slice(top, max(top, min(y1, height))), slice(left, max(left, min(x1, width)))

    def _visible(self, shapes: Floats, margin_mm: float = 0.0) -> NDArray[np.int32]:
        """(K, N, 2) in fixed point, those that touch the picture."""
        fixed = np.atleast_3d(self.to_px(shapes)) if shapes.ndim == 3 else self.to_px(shapes)[None]
        if self.pixels.size == 0 or fixed.size == 0:
            return fixed[:0]
        margin = (margin_mm * self.px_per_mm + 1) * (1 << SUBPIXEL_BITS)
        height, width = self.pixels.shape[:2]
        limit = np.array([width, height]) * (1 << SUBPIXEL_BITS) + margin
        inside = (fixed.max(axis=1) > -margin) & (fixed.min(axis=1) < limit)
        visible: NDArray[np.int32] = fixed[inside.all(axis=1)]
        return visible


def _unsteady_hand(seed: int) -> Floats:
    """(5, 3): wave numbers along x and y, phases, and amplitudes in x and y, in mm."""
    rng = np.random.default_rng([seed, 0x4A])
    length_mm = np.array([23.0, 61.0, 160.0])
    direction = rng.uniform(0, math.tau, 3)
    waves = math.tau / length_mm * np.stack([np.cos(direction), np.sin(direction)])
    amplitude = HAND_MM * np.sqrt(length_mm / 60) * rng.normal(0, 0.8, (2, 3))
    return np.vstack([waves, rng.uniform(0, math.tau, (1, 3)), amplitude])
