"""Cutting a picture into pieces that partition it, after PairingNet's procedure.

A cut runs between two points of the circle around a piece, over up to three knots, in straight or
wavy segments. In the frame of its chord it is the graph of a function, so that it divides the
plane in two; a piece is divided by filling one of the two sides. Every pixel therefore belongs to
exactly one piece, whatever the cut looks like.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.errors import InputError
from reassembly.synthetic.arrays import Bytes, Points
from reassembly.synthetic.noise import rough_line

__all__ = ["Cut", "CutSettings", "broken_rim", "check_fit", "cut", "most_pieces"]

OUTSIDE = -1
"""What a pixel is labelled that belongs to no piece."""
SMALLEST_SIDE_PX, SMALLEST_AREA_PX = 16, 400
"""No piece is smaller: it could not be worn, turned and still be told from dirt."""
SHRINK = 0.85
"""By how much the size rules are relaxed once they have made all tries fail."""
SINES = 19
STEP_PX = 2
"""Distance of the points that describe a cut."""
TRIAL_PX = 128
"""Side, roughly, of the copy of the picture on which cuts are tried."""
SUBPIXEL_BITS = 4


@dataclass(frozen=True)
class CutSettings:
    """Where cuts run and which are refused. Lengths in mm; the paper's pixels are in brackets."""

    min_chord: float = 0.9
    """Shortest distance of a cut's ends, as a share of the diameter of the circle around the
    piece."""
    knots: tuple[float, ...] = (1 / 8, 1 / 8, 1 / 4, 1 / 2)
    """Probability of 0, 1, 2 and 3 knots between the ends of a cut."""
    knot_offset: float = 1 / 20
    """How far a knot may lie off the chord, as a share of the diameter."""
    wavy: float = 1 / 2
    """Probability that a segment between knots is wavy rather than straight."""
    wave_bias: float = 1 / 150
    """Mean amplitude of the first of the 19 sines of a wavy segment, as a share of the diameter."""
    wave_amplitude: float = 1 / 60
    """Standard deviation of that amplitude."""
    roughness_mm: float = 0.0
    """Root mean square of the fine roughness that both sides of a break share."""
    roughness_longest_mm: float = 15.0
    """Longest wavelength of the fine roughness."""
    roughness_exponent: float = 1.0
    """How fast its amplitude falls towards short wavelengths."""
    min_side_mm: float = 33.0
    """A piece's bounding rectangle (turned to be smallest) has no shorter side [150 px]."""
    min_area_mm2: float = 33.0**2
    """[150 x 150 px]"""
    max_aspect: float = 4.0
    """Longer over shorter side of that rectangle, at most."""
    min_fill: float = 0.3
    """Share of that rectangle which a piece fills, at least."""
    min_end_distance_mm: float = 22.0
    """Distance of a cut's ends from the picture's corners and other cuts' ends, at least
    [100 px]."""
    choice_power: float = 1.0
    """The piece to be cut next is drawn in proportion to its area to this power: less than 1
    gives more uneven sizes."""
    tries: int = 35
    """How many cuts may be refused in a row before the size rules are relaxed."""
    rim_mm: tuple[float, float] = (0.0, 0.0)
    """How far the outer break lies inside the picture, at least and at most; at (0, 0) the
    pieces reach the picture's border."""


@dataclass(frozen=True, eq=False)
class _Piece:
    mask: Bytes
    """(h, w), 1 inside."""
    corner: tuple[int, int]
    """(x, y) of the mask's top-left pixel in the picture."""
    outline: NDArray[Any]
    """(N, 1, 2) pixels of the mask along its outer border, int32, as OpenCV gives them."""
    area_px: int

    @cached_property
    def circle(self) -> tuple[Sequence[float], float]:
        """Centre, in pixels of the mask, and radius of the smallest circle around the piece."""
        return cv2.minEnclosingCircle(self.outline)


@dataclass(frozen=True, eq=False)
class _Course:
    """How a cut runs: where it lies off its chord."""

    chord: Points
    """(2, 2), its ends."""
    along: NDArray[np.float64]
    """(N,), pixels from the first end."""
    across: NDArray[np.float64]
    """(N,), pixels off the chord."""

    @property
    def points(self) -> Points:
        """(N, 2)"""
        direction = (self.chord[1] - self.chord[0]) / self.along[-1]
        normal = np.array([-direction[1], direction[0]])
        return np.asarray(
            self.chord[0] + self.along[:, None] * direction + self.across[:, None] * normal
        )


class Cut(NamedTuple):
    """A picture in pieces."""

    labels: NDArray[np.int16]
    """(H, W): -1 outside, 0 to n - 1 inside, each 4-connected."""
    windows: list[tuple[slice, slice]]
    """Rows and columns of the smallest window that holds each piece."""


def cut(
    domain: NDArray[np.bool_],
    pieces: int,
    rng: np.random.Generator,
    settings: CutSettings,
    mm_per_px: float,
) -> Cut:
    """Divides a region into exactly `pieces` connected pieces.

    The rules on sizes and ends are relaxed, all by the same factor, as far as that number needs.

    Args:
        domain: (H, W), true where the picture is; of several parts, the largest is cut.
        pieces: at least 1.

    Raises:
        InputError: more pieces than fit.
    """
    whole = _whole(domain.astype(np.uint8))
    px = 1 / mm_per_px
    # Most cuts are refused: they are tried on a small copy, and made on the picture if that works.
    shrunk = max(1, int(math.sqrt(whole.area_px) / TRIAL_PX))
    parts, ends = [whole], _corners(domain)
    small = [_shrunk(whole, shrunk)]
    relax = min(1.0, 0.55 * math.sqrt(whole.area_px / pieces) / (settings.min_side_mm * px))
    refused = 0
    while len(parts) < pieces:
        chosen = _drawn(np.array([part.area_px for part in parts]) ** settings.choice_power, rng)
        course = _course(_chord(parts[chosen], rng, settings), rng, settings, STEP_PX * shrunk)
        curve = course.points / shrunk
        met = _met(small[chosen], curve) * shrunk
        tried = made = None
        if _well_apart(met, ends, relax * settings.min_end_distance_mm * px):
            tried = _halves(small[chosen], curve)
        if tried and all(_allowed(half, settings, px / shrunk, relax, shrunk) for half in tried):
            made = _halves(parts[chosen], _refined(course, rng, settings, px).points)
        if tried and made and all(_allowed(half, settings, px, relax) for half in made):
            parts[chosen : chosen + 1], small[chosen : chosen + 1] = made, tried
            ends = np.vstack([ends, met])
            refused = 0
            continue
        refused += 1
        if refused >= settings.tries:
            relax, refused = relax * SHRINK, 0
            if relax * settings.min_side_mm * px < SMALLEST_SIDE_PX / 2:
                raise _too_many(pieces, len(parts))
    return _labelled(domain.shape, parts)


def most_pieces(area_px: float) -> int:
    """How many pieces a region of that area can be counted on to be cut into."""
    return max(int(area_px / (3 * SMALLEST_SIDE_PX) ** 2), 1)


def check_fit(pieces: int, area_px: float) -> None:
    """Raises `InputError` for more pieces than fit into that area."""
    if pieces > (most := most_pieces(area_px)):
        raise _too_many(pieces, most)


def broken_rim(
    shape: tuple[int, int], rng: np.random.Generator, settings: CutSettings, mm_per_px: float
) -> NDArray[np.bool_]:
    """(H, W), true inside the outer break: one cut along each side of the picture."""
    height, width = shape
    domain = np.ones(shape, np.uint8)
    if settings.rim_mm[1] <= 0:
        return domain.view(np.bool_)
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], float)
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        inward = np.array([start[1] - end[1], end[0] - start[0]]) / np.linalg.norm(end - start)
        depths = rng.uniform(*settings.rim_mm, 2)[:, None] / mm_per_px
        ends = np.stack([start, end]) + depths * inward
        course = _course(ends, rng, settings, max(shape) / TRIAL_PX)
        curve = _refined(course, rng, settings, 1 / mm_per_px).points
        _fill_side(domain, curve, 0, right=False)
    return _largest_part(domain).view(np.bool_)


def _drawn(weights: NDArray[np.float64], rng: np.random.Generator) -> int:
    """An index in proportion to its weight."""
    sums = np.cumsum(weights)
    return int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))


def _halves(piece: _Piece, curve: Points) -> tuple[_Piece, _Piece] | None:
    """The two sides of a piece, if a cut through it leaves two."""
    first = cv2.bitwise_and(_side(curve - piece.corner, piece.mask.shape), piece.mask)
    second = cv2.bitwise_xor(piece.mask, first)
    borders = _outlines(first), _outlines(second)
    if not all(borders):
        return None
    if len(borders[0]) > 1 or len(borders[1]) > 1:
        # A cut may leave and enter the piece again: what it severs beyond the two halves goes to
        # the other half, on which it borders.
        second = _largest_part(piece.mask ^ _largest_part(first))
        first = piece.mask ^ second
        borders = _outlines(first), _outlines(second)
        if len(borders[0]) > 1:
            return None
    return (
        _as_piece(first, piece.corner, borders[0][0]),
        _as_piece(second, piece.corner, borders[1][0]),
    )


def _chord(piece: _Piece, rng: np.random.Generator, settings: CutSettings) -> Points:
    """(2, 2) points of the picture on the circle around a piece."""
    centre, radius = piece.circle
    narrowest = math.asin(settings.min_chord)
    first = rng.uniform(0, math.tau)
    second = first + 2 * rng.uniform(narrowest, math.pi - narrowest)
    angles = np.array([first, second])
    around = radius * np.column_stack([np.cos(angles), np.sin(angles)])
    return np.asarray(np.add(centre, piece.corner) + 0.5 + around)


def _course(
    chord: Points, rng: np.random.Generator, settings: CutSettings, step_px: float
) -> _Course:
    """A random cut between the two ends of a chord, as yet without fine roughness."""
    width = float(np.linalg.norm(chord[1] - chord[0]))
    along = np.linspace(0, width, max(int(width / step_px) + 1, 8))
    knots = _drawn(np.array(settings.knots), rng)
    spacing = width / 16
    room = 4 / 6 * width - max(knots - 1, 0) * spacing
    at = width / 6 + np.sort(rng.uniform(0, room, knots)) + np.arange(knots) * spacing
    at = np.concatenate([[0], at, [width]])
    offset = rng.uniform(-1, 1, at.size) * settings.knot_offset * width
    offset[[0, -1]] = 0
    across = np.interp(along, at, offset)
    return _Course(chord, along, across + _waves(along, at, rng, settings))


def _refined(
    course: _Course, rng: np.random.Generator, settings: CutSettings, px: float
) -> _Course:
    """The same cut with points close enough for the picture, and with fine roughness."""
    width = course.along[-1]
    along = np.linspace(0, width, max(int(width / STEP_PX) + 1, 8))
    across = np.interp(along, course.along, course.across)
    if settings.roughness_mm > 0:
        longest = settings.roughness_longest_mm * px / STEP_PX
        profile = rough_line(rng, along.size, longest, settings.roughness_exponent)
        across += settings.roughness_mm * px * profile
    return _Course(course.chord, along, across)


def _waves(
    along: NDArray[np.float64],
    at: NDArray[np.float64],
    rng: np.random.Generator,
    settings: CutSettings,
) -> NDArray[np.float64]:
    """(N,) sums of sines along the segments between the knots `at`, 0 at every knot."""
    count, width = len(at) - 1, at[-1]
    order = np.arange(1, SINES + 1)
    amplitude = rng.normal(settings.wave_bias, settings.wave_amplitude, (count, SINES))
    amplitude *= width / order * (rng.random(count) < settings.wavy)[:, None]
    pitch = math.tau / width / np.maximum(rng.normal(1.5, 0.3, count), 0.5)
    phase = rng.uniform(-1, 1, (count, SINES))

    def height(place: NDArray[np.float64], k: NDArray[np.int64]) -> NDArray[np.float64]:
        angle = (pitch[k] * place)[:, None] * order + phase[k]
        return np.asarray(np.einsum("ij,ij->i", np.sin(angle), amplitude[k]))

    every = np.arange(count)
    length = np.diff(at)
    first, last = height(np.zeros(count), every), height(length, every)
    k = np.clip(np.searchsorted(at, along, side="right") - 1, 0, count - 1)
    place = along - at[k]
    return height(place, k) - first[k] - (last - first)[k] * place / length[k]


def _side(curve: Points, shape: tuple[int, ...]) -> Bytes:
    """(H, W), 1 on that side of a curve which is to the right as one walks along it (y down)."""
    side = np.zeros(shape, np.uint8)
    return _fill_side(side, curve, 1, right=True)


def _fill_side(mask: Bytes, curve: Points, value: int, *, right: bool) -> Bytes:
    """Fills, in place, all that lies to one side of a curve."""
    direction = curve[-1] - curve[0]
    direction *= 2 * sum(mask.shape) / np.linalg.norm(direction)
    outward = np.array([-direction[1], direction[0]]) * (1 if right else -1)
    start, end = curve[0] - direction, curve[-1] + direction
    ring = np.vstack([start, curve, end, end + outward, start + outward])
    fixed = np.round((ring - 0.5) * 2**SUBPIXEL_BITS).astype(np.int32)
    cv2.fillPoly(mask, [fixed], value, shift=SUBPIXEL_BITS)
    return mask


def _met(piece: _Piece, curve: Points) -> Points:
    """(2, 2) first and last point of a curve that lie in a piece; (0, 2) if there are no two."""
    columns, rows = np.floor(curve - piece.corner).astype(int).T
    height, width = piece.mask.shape
    within = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    inside = np.flatnonzero(within)[piece.mask[rows[within], columns[within]] > 0]
    return curve[inside[[0, -1]]] if inside.size > 1 else curve[:0]


def _well_apart(met: Points, ends: Points, distance_px: float) -> bool:
    """Whether a cut meets the border of a piece, far enough from where others do."""
    if not len(met):
        return False
    away = ends[:, None] - met
    nearest = min(math.dist(*met) ** 2, float((away * away).sum(axis=-1).min(initial=np.inf)))
    return nearest >= distance_px**2


def _allowed(
    piece: _Piece, settings: CutSettings, px: float, relax: float, shrunk: int = 1
) -> bool:
    """Whether a piece is large and compact enough.

    Args:
        px: pixels of the piece's mask a mm.
        shrunk: by how much that mask is coarser than the picture.
    """
    least_area = max(relax**2 * settings.min_area_mm2 * px**2, SMALLEST_AREA_PX / shrunk**2)
    if piece.area_px < least_area:
        return False
    least_side = max(relax * settings.min_side_mm * px, SMALLEST_SIDE_PX / shrunk)
    width, height = cv2.minAreaRect(piece.outline)[1]
    short, long = min(width, height) + 1, max(width, height) + 1
    return bool(
        short >= least_side
        and long <= settings.max_aspect * short
        and piece.area_px >= settings.min_fill * short * long
    )


def _outlines(mask: Bytes) -> list[NDArray[Any]]:
    """The outer border of every part of a mask; parts that touch at a corner are one."""
    return list(cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0])


def _largest_part(mask: Bytes) -> Bytes:
    outlines = _outlines(mask)
    if len(outlines) < 2:
        return mask
    largest = max(outlines, key=cv2.contourArea)
    filled = cv2.drawContours(np.zeros_like(mask), [largest], -1, 1, cv2.FILLED)
    return np.asarray(filled & mask)


def _as_piece(mask: Bytes, corner: tuple[int, int], outline: NDArray[Any]) -> _Piece:
    x, y, width, height = cv2.boundingRect(outline)
    window = mask[y : y + height, x : x + width].copy()
    area = cv2.countNonZero(window)
    return _Piece(
        window, (corner[0] + x, corner[1] + y), outline - np.array([x, y], np.int32), area
    )


def _whole(mask: Bytes) -> _Piece:
    """The largest part of a mask as one piece."""
    part = _largest_part(mask)
    return _as_piece(part, (0, 0), _outlines(part)[0])


def _shrunk(piece: _Piece, factor: int) -> _Piece:
    """A piece at the origin of the picture, on a raster coarser by a whole factor."""
    x, y = piece.corner
    full = cv2.copyMakeBorder(piece.mask, y, 0, x, 0, cv2.BORDER_CONSTANT, value=0)
    return _whole(np.ascontiguousarray(full[::factor, ::factor]))


def _labelled(shape: tuple[int, ...], parts: list[_Piece]) -> Cut:
    labels = np.full(shape, OUTSIDE, np.int16)
    windows = []
    for k, part in enumerate(parts):
        (x, y), (height, width) = part.corner, part.mask.shape
        windows.append(np.s_[y : y + height, x : x + width])
        np.copyto(labels[windows[k]], np.int16(k), where=part.mask.view(np.bool_))
    changed = [_give_away_corners(labels, k, parts[k]) for k in _touching_at_corners(labels)]
    if any(changed):
        windows = [_window(labels == k) for k in range(len(parts))]
    return Cut(labels, windows)


def _window(mask: NDArray[np.bool_]) -> tuple[slice, slice]:
    x, y, width, height = cv2.boundingRect(mask.view(np.uint8))
    return np.s_[y : y + height, x : x + width]


def _touching_at_corners(labels: NDArray[np.int16]) -> list[int]:
    """Pieces of which two pixels somewhere meet at a corner without a third between them."""
    a, b, c, d = labels[:-1, :-1], labels[:-1, 1:], labels[1:, :-1], labels[1:, 1:]
    found: set[int] = set()
    for p, q, r, s in ((a, d, b, c), (b, c, a, d)):
        at = (p == q) & (p != r) & (p != s)
        if at.any():
            found |= set(p[at].tolist())
    return sorted(found - {OUTSIDE})


def _give_away_corners(labels: NDArray[np.int16], k: int, part: _Piece) -> bool:
    """Gives what hangs on to piece `k` by no more than a corner to the piece beside it.

    Returns whether there was any.
    """
    x, y = part.corner
    count, bits, stats, _ = cv2.connectedComponentsWithStats(
        part.mask, connectivity=4, ltype=cv2.CV_16U
    )
    if count <= 2:
        return False
    own = 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())
    for bit in range(1, count):
        if bit == own:
            continue
        rows, columns = np.nonzero(bits == bit)
        steps = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])
        beside = np.stack([rows + y, columns + x], axis=-1)[:, None] + steps
        beside = np.clip(beside, 0, np.array(labels.shape) - 1)
        found = labels[beside[..., 0], beside[..., 1]]
        others = found[(found != k) & (found != OUTSIDE)]
        given = int(np.bincount(others).argmax()) if others.size else OUTSIDE
        labels[rows + y, columns + x] = given
    return True


def _corners(domain: NDArray[np.bool_]) -> Points:
    """(4, 2) corners of the picture; none if the region does not fill it."""
    height, width = domain.shape
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], float)
    return corners if domain.all() else corners[:0]


def _too_many(pieces: int, most: int) -> InputError:
    return InputError(
        f"{pieces} pieces do not fit into a picture of this size",
        f"Ask for at most {most}, or for larger pictures",
    )
