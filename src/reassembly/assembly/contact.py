"""Where rims touch, for many placements of many pairs of pieces at once.

The rims of all pieces are laid into common arrays, so that one look-up serves all placements, and
most of what is far from the other piece is ruled out before, by discs around pieces and arcs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reassembly.assembly.placements import Flags, Floats, Numbers, Placements, Shifts, spans
from reassembly.matching.rim import CELL_MM, Rim
from reassembly.matching.strip import FACING, NEAR_MM

__all__ = ["Beside", "Contacts"]

Singles = NDArray[np.float32]

FAR_MM = 1e6
"""Where points are put that a rim has not."""
ARC = 16
"""Points of a rim that are ruled out together."""
AT_ONCE = 512
"""Placements that are looked at together: few enough for a processor's cache."""


class Beside(NamedTuple):
    """Points of moved rims that lie near the fixed ones or within them, ordered by placement."""

    placement: Numbers
    point: Numbers
    signed: Singles
    """Distance from the fixed rim, mm, negative within."""
    joined: Flags
    """Whether the two rims face each other there, as parts of a join do."""


class Contacts:
    """The rims of pieces, numbered in the order in which they are given."""

    def __init__(self, rims: Iterable[Rim]) -> None:
        rims = list(rims)
        self.radius = np.array([rim.radius_mm for rim in rims])
        self.steps = np.array([rim.step_mm for rim in rims])
        self.arcs = np.array([-(-len(rim.points) // ARC) for rim in rims], dtype=np.intp)
        self.first_arc = np.cumsum(self.arcs) - self.arcs
        self.points = _arcs([rim.points for rim in rims], FAR_MM)
        self.normals = _arcs([rim.normals for rim in rims], 0.0)
        """(A, `ARC`), x + iy: rims in arcs, those of all pieces one behind the other."""
        self.middle, self.spread = _discs(self.points)
        self.cells = _flat([rim.signed for rim in rims])
        self.nearest = _flat([rim.nearest for rim in rims])
        """Maps of all pieces, likewise."""
        sizes = np.array([rim.signed.size for rim in rims], dtype=np.intp)
        self.first_cell = np.cumsum(sizes) - sizes
        self.width, self.height = (
            np.array([rim.signed.shape[axis] for rim in rims], dtype=np.intp) for axis in (1, 0)
        )
        self.corner = _complex(np.array([rim.corner for rim in rims]).reshape(-1, 2))

    def near(self, fixed: Numbers, moving: Numbers, shifts: Shifts) -> Flags:
        """Whether pieces are so near each other that they may touch; all arrays broadcast."""
        near: Flags = _square(shifts) <= (self.radius[fixed] + self.radius[moving] + NEAR_MM) ** 2
        return near

    def measured(self, placements: Placements) -> tuple[Floats, Floats]:
        """Length of contact (mm) and overlap (mm^2, by how deep the rim lies inside), (K,)."""
        count = len(placements)
        beside = self.beside(placements)
        length = np.bincount(beside.placement[beside.joined], minlength=count)
        within = np.bincount(beside.placement, np.maximum(-beside.signed, 0), minlength=count)
        step = self.steps[placements.moving]
        return length * step, within * step

    def beside(self, placements: Placements) -> Beside:
        """What `matching.strip.beside` tells, of the points for which it matters."""
        parts = [
            self._beside(placements[begin : begin + AT_ONCE], begin)
            for begin in range(0, max(1, len(placements)), AT_ONCE)
        ]
        return Beside(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _beside(self, placements: Placements, begin: int) -> Beside:
        fixed, moving = placements.fixed, placements.moving
        turn = np.exp(-1j * placements.turns)
        reach = self.radius[fixed] + NEAR_MM + CELL_MM
        row, arc = spans(self.first_arc[moving], self.arcs[moving])
        middle = turn[row] * self.middle[arc] + placements.shifts[row]
        near = _square(middle) <= (reach[row] + self.spread[arc]) ** 2
        row, arc = row[near], arc[near]

        turn, shift = turn.astype(np.complex64), placements.shifts.astype(np.complex64)
        places = self.points[arc] * turn[row, None] + shift[row, None]
        kept = np.flatnonzero(_square(places) <= np.square(reach, dtype=np.float32)[row, None])
        point = (arc[:, None] * ARC + np.arange(ARC)).ravel()[kept]
        row, there = np.repeat(row, ARC)[kept], np.repeat(fixed[row], ARC)[kept]
        at = (places.ravel()[kept] - self.corner[there]) / np.float32(CELL_MM)
        signed = self._signed(there, at)

        close = np.flatnonzero(signed < NEAR_MM)
        row, point, there, at = row[close], point[close], there[close], at[close]
        width = self.width[there]
        line = _clipped(np.rint(at.imag), self.height[there] - 1)
        column = _clipped(np.rint(at.real), width - 1)
        nearest = self.nearest[self.first_cell[there] + line * width + column]
        outward = self.normals.ravel()[self.first_arc[there] * ARC + nearest]
        own = self.normals.ravel()[point] * turn[row]
        facing = own.real * outward.real + own.imag * outward.imag
        signed = signed[close]
        joined = (signed > -NEAR_MM) & (facing < FACING)
        point -= self.first_arc[moving[row]] * ARC
        return Beside(row + begin, point, signed, joined)

    def points_of(self, pieces: Numbers, points: Numbers) -> NDArray[np.complex64]:
        """Points (N,) of the rims of pieces, in their frames, by numbers in these rims."""
        own: NDArray[np.complex64] = self.points.ravel()[self.first_arc[pieces] * ARC + points]
        return own

    def distance(self, pieces: Numbers, places: Shifts) -> tuple[Floats, Shifts]:
        """Distances (N,) from the rims of pieces at places in their frames, and how these grow
        along x and y, as the two parts of a complex number."""
        at = (places - self.corner[pieces]) / CELL_MM
        (one, two, three, four), x, y = self._cells_around(pieces, at.real, at.imag)
        above, below = one + (two - one) * x, three + (four - three) * x
        growth = np.empty_like(places)
        growth.real = ((two - one) * (1 - y) + (four - three) * y) * ((x > 0) & (x < 1))
        growth.imag = (below - above) * ((y > 0) & (y < 1))
        return above + (below - above) * y, growth / CELL_MM

    def _signed(self, pieces: Numbers, at: NDArray[np.complex64]) -> Singles:
        """The same distances, at places on the maps."""
        (one, two, three, four), x, y = self._cells_around(pieces, at.real, at.imag)
        above, below = one * (1 - x) + two * x, three * (1 - x) + four * x
        signed: Singles = above * (1 - y) + below * y
        return signed

    def _cells_around(
        self, pieces: Numbers, x: NDArray[Any], y: NDArray[Any]
    ) -> tuple[tuple[Singles, Singles, Singles, Singles], NDArray[Any], NDArray[Any]]:
        """What the maps of pieces have in the four cells around places on them, and where between
        these the places are, from 0 to 1."""
        width = self.width[pieces]
        column, line = _clipped(x, width - 2), _clipped(y, self.height[pieces] - 2)
        index = self.first_cell[pieces] + line * width + column
        under = index + width
        around = self.cells[index], self.cells[index + 1], self.cells[under], self.cells[under + 1]
        x, y = (np.clip(at - low.astype(at.dtype), 0, 1) for at, low in ((x, column), (y, line)))
        return around, x, y


def _clipped(values: NDArray[Any], most: Numbers) -> Numbers:
    """Whole parts of values, from 0 to some largest ones."""
    whole: Numbers = np.clip(values.astype(np.intp), 0, most)
    return whole


def _square(numbers: NDArray[Any]) -> NDArray[Any]:
    """Of absolute values."""
    square: NDArray[Any] = numbers.real**2 + numbers.imag**2
    return square


def _complex(points: NDArray[Any]) -> NDArray[np.complex64]:
    """Points (..., 2) as x + iy."""
    return (points[..., 0] + 1j * points[..., 1]).astype(np.complex64)


def _arcs(rows: Sequence[Singles], filling: float) -> NDArray[np.complex64]:
    """(A, `ARC`), the last arc of each row filled up."""
    parts = [np.zeros((0, 2), np.float32)]
    for row in rows:
        parts += [row, np.full((-len(row) % ARC, 2), filling, np.float32)]
    return _complex(np.concatenate(parts)).reshape(-1, ARC)


def _discs(arcs: NDArray[np.complex64]) -> tuple[Shifts, Floats]:
    """Middle and radius (A,) of discs that hold the points of arcs."""
    there = arcs.real < FAR_MM
    points = np.where(there, arcs, 0).astype(np.complex128)
    middle = points.sum(axis=1) / there.sum(axis=1)
    spread = (np.abs(points - middle[:, None]) * there).max(axis=1)
    return middle, spread + 1e-3


def _flat(maps: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([each.ravel() for each in maps]) if maps else np.zeros(0)
