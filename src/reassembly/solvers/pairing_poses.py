"""From matrices of how well outlines' points match to poses, for the solver `pairingnet`.

Points of the plane are complex numbers x + iy (y down). A motion is a pair (turn, shift) that
carries z to turn * z + shift. Outlines run the same way round, so that they run against each other
where they meet, and true matches lie along a diagonal of the matrix that falls the other way.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely import Polygon

from reassembly.pose import Pose

__all__ = [
    "Contact",
    "Group",
    "Joiner",
    "Line",
    "Motion",
    "apart_mm",
    "back",
    "contact",
    "fitted",
    "line_of",
    "motion_of",
    "pose_of",
    "propose",
    "then",
]

Floats = NDArray[np.float64]
Complex = NDArray[np.complex128]
Motion = tuple[complex, complex]
"""Turn (of length one) and shift (mm)."""

TOUCH_MM = 3.0
"""Points further apart do not touch. Worn breaks gape by less than this nearly everywhere, once
two pieces are put together as closely as they go."""
OPPOSED = -0.5
"""Largest cosine between the tangents of two points that touch."""
TANGENT_MM = 3.0
PARTNERS = 2
"""Matches of each point that are looked at, in either direction."""
MATCHES, HYPOTHESES = 300, 500
"""Largest numbers of matches, and of motions by two of them, that are compared."""
BASE_MM = (8.0, 90.0)
"""How far two points that determine a motion lie from each other."""
STRETCH_MM = 1.5
"""By how much their distances on the two outlines may differ."""
ROUNDS = 4
"""Of fitting a piece to another by all that touches."""
MAX_OVERLAP = 0.05
"""Of the smaller group's area. What is more is a collision."""
TRIES = 60
"""Joins that are looked at closely before each step, those of most support."""
FITS = 2
"""Rounds in which two groups are fitted to each other by all that touches."""
RIVAL_MM = 6.0
"""Joins that put a piece further apart than this contradict each other."""
CERTAIN_MM = 25.0
"""Support at which a join without a rival is trusted by 1 - 1/e."""


@dataclass(frozen=True, eq=False)
class Line:
    """An outline in equal steps."""

    points: Complex
    """(M,), mm."""
    tangents: Complex
    """(M,), of length one."""
    step_mm: float


@dataclass(frozen=True)
class Contact:
    """How well two lines match where they touch: sums over pairs of touching points."""

    weight: float = 0.0
    fixed: complex = 0.0
    """Of the first line's points."""
    moving: complex = 0.0
    """Of the second line's points."""
    product: complex = 0.0
    """Of the first's times the conjugate of the second's."""
    support_mm: float = 0.0
    """Length of the first line that matches, each point counted as far as it is sure."""

    def __add__(self, other: Contact) -> Contact:
        return Contact(
            self.weight + other.weight,
            self.fixed + other.fixed,
            self.moving + other.moving,
            self.product + other.product,
            self.support_mm + other.support_mm,
        )


def line_of(points_mm: Floats) -> Line:
    """The outline (M, 2) as a line."""
    points = points_mm[:, 0] + 1j * points_mm[:, 1]
    step_mm = float(np.abs(np.roll(points, -1) - points).mean())
    reach = max(1, round(TANGENT_MM / max(step_mm, 1e-6)))
    chord = np.roll(points, -reach) - np.roll(points, reach)
    return Line(points, chord / np.maximum(np.abs(chord), 1e-9), step_mm)


def propose(match: Floats, fixed: Line, moving: Line, count: int) -> list[tuple[Motion, float]]:
    """Motions that bring one line to another so that matching points touch.

    Args:
        match: (M, N) from 0 to 1: how surely points of the two lines belong together.
        count: at most so many motions, distinct.

    Returns:
        Motions of the second line and their supports (mm), best first.
    """
    row, column = _matches(match)
    turns, shifts = _by_two(match[row, column], row, column, fixed, moving)
    if not len(turns):
        return []
    there = turns[:, None] * moving.points[column] + shifts[:, None]
    along = (turns[:, None] * moving.tangents[column] * fixed.tangents[row].conj()).real
    inside = (np.abs(there - fixed.points[row]) < TOUCH_MM) & (along < OPPOSED)
    order = np.argsort(-(inside @ match[row, column]), kind="stable")
    found: list[tuple[Motion, float]] = []
    for motion in _distinct(zip(turns[order], shifts[order], strict=True), moving, count):
        refined, support_mm = _refined(match, fixed, moving, motion)
        if support_mm > 0 and all(apart_mm(moving, refined, m) > TOUCH_MM for m, _ in found):
            found.append((refined, support_mm))
    return sorted(found, key=lambda each: -each[1])


def contact(match: Floats, fixed: Line, moving: Line, motion: Motion = (1.0, 0.0)) -> Contact:
    """What touches where `motion` has put the second line; its points are summed as moved."""
    turn, shift = motion
    there = turn * moving.points + shift
    near_fixed = _near(fixed.points, there)
    near_moving = _near(there, fixed.points)
    if not (len(near_fixed) and len(near_moving)):
        return Contact()
    a, b = fixed.points[near_fixed], there[near_moving]
    # Few pairs are near each other: what else is told of them is told of those alone.
    away_x, away_y = (np.subtract.outer(*ends) for ends in ((a.real, b.real), (a.imag, b.imag)))
    one, other = np.nonzero(away_x**2 + away_y**2 < TOUCH_MM**2)
    along = turn * moving.tangents[near_moving[other]] * fixed.tangents[near_fixed[one]].conj()
    touch = along.real < OPPOSED
    one, other = one[touch], other[touch]
    weights = match[near_fixed[one], near_moving[other]]
    of_fixed = np.bincount(one, weights, minlength=len(a))
    return Contact(
        float(weights.sum()),
        complex(weights @ a[one]),
        complex(weights @ b[other]),
        complex(weights @ (a[one] * b[other].conj())),
        float(np.minimum(of_fixed, 1.0).sum() * fixed.step_mm),
    )


def fitted(touching: Contact) -> Motion:
    """The further motion of what moves that brings matching points closest, in least squares."""
    if touching.weight <= 0:
        return 1.0, 0.0
    mean_fixed, mean_moving = touching.fixed / touching.weight, touching.moving / touching.weight
    spread = touching.product - touching.weight * mean_fixed * mean_moving.conjugate()
    turn = spread / abs(spread) if abs(spread) > 1e-9 else 1.0 + 0.0j
    return turn, mean_fixed - turn * mean_moving


def then(second: Motion, first: Motion) -> Motion:
    """The motion that does `first`, then `second`."""
    return second[0] * first[0], second[0] * first[1] + second[1]


def back(motion: Motion) -> Motion:
    """The motion that undoes this one."""
    turn = complex(motion[0]).conjugate()
    return turn, -turn * motion[1]


def apart_mm(line: Line, one: Motion, other: Motion) -> float:
    """The largest distance between where two motions put a point of the line."""
    return float(np.abs((one[0] - other[0]) * line.points + (one[1] - other[1])).max())


def motion_of(pose: Pose) -> Motion:
    """A pose as a motion."""
    return cmath.exp(-1j * pose.rotation_rad), complex(pose.x_mm, pose.y_mm)


def pose_of(motion: Motion) -> Pose:
    """A motion as a pose."""
    turn, shift = complex(motion[0]), complex(motion[1])
    return Pose(shift.real, shift.imag, -cmath.phase(turn))


@dataclass(frozen=True, eq=False)
class Group:
    """Pieces, by number, that lie together in one frame."""

    motions: Mapping[int, Motion]
    trust: Mapping[int, float]
    """Per piece, from 0 to 1: how sure its place relative to the group's first piece is."""
    shapes: Mapping[int, Polygon]
    """The pieces where they lie."""
    area: float
    locked: bool = False


@dataclass(frozen=True)
class _Join:
    """A way to put a piece to another one."""

    fixed: int
    moving: int
    motion: Motion
    support: float


@dataclass(frozen=True, eq=False)
class _Merger:
    """A way to put a group to another one."""

    fixed: Group
    moving: Group
    motion: Motion
    support: float


class Joiner:
    """Pieces that grow together, from the best supported join on.

    Args:
        lines: of all pieces.
        shapes: of all pieces, in the frames of their lines.
    """

    def __init__(self, lines: Sequence[Line], shapes: Sequence[Polygon]) -> None:
        self.lines, self.shapes = lines, shapes
        self._reach_mm = [float(np.abs(line.points).max()) for line in lines]
        self._match: dict[tuple[int, int], Floats] = {}
        self._likely: dict[tuple[int, int], float] = {}
        self._joins: list[_Join] = []
        self._mergers: dict[tuple[Group, Group, _Join], _Merger | None] = {}

    def add(self, one: int, other: int, match: Floats, likely: float, count: int) -> None:
        """Notes how two pieces match.

        Args:
            match: (M, N), see `propose`.
            likely: from 0 to 1, the weight of what matches between these two.
            count: at most so many ways to put them together are tried.
        """
        self._match[one, other], self._match[other, one] = match, match.T
        self._likely[one, other] = self._likely[other, one] = likely
        self._joins += [
            _Join(one, other, motion, support * likely)
            for motion, support in propose(match, self.lines[one], self.lines[other], count)
        ]

    def grow(self, lying: Mapping[int, Motion]) -> Iterator[list[Group]]:
        """Joins groups until no join is left; all groups, before the first join and after each.

        Args:
            lying: pieces that are one group from the start, and stay put.
        """
        self._joins.sort(key=lambda join: -join.support)
        groups = [self._group({k: (1.0, 0.0)}) for k in range(len(self.lines)) if k not in lying]
        if lying:
            groups.insert(0, self._group(lying, locked=True))
        yield groups
        while len(groups) > 1:
            merger, rival = self._best(groups)
            if merger is None:
                return
            rest = [g for g in groups if g is not merger.fixed and g is not merger.moving]
            groups = [*rest, self._joint(merger, rival)]
            yield groups

    def _group(self, motions: Mapping[int, Motion], locked: bool = False) -> Group:
        shapes = {k: _moved(self.shapes[k], motion) for k, motion in motions.items()}
        area = sum(self.shapes[k].area for k in motions)
        return Group(motions, dict.fromkeys(motions, 1.0), shapes, area, locked)

    def _best(self, groups: Sequence[Group]) -> tuple[_Merger | None, float]:
        """The best supported way to put two groups together without a collision, and the support
        of the best one that contradicts it."""
        owner = {piece: group for group in groups for piece in group.motions}
        joins = (j for j in self._joins if owner[j.fixed] is not owner[j.moving])
        tried: dict[tuple[Group, Group, _Join], _Merger | None] = {}
        found: list[_Merger] = []
        for number, join in enumerate(joins):
            if number >= TRIES and found:
                break
            key = owner[join.fixed], owner[join.moving], join
            merger = self._mergers[key] if key in self._mergers else self._merger(*key)
            tried[key] = merger
            found += [] if merger is None else [merger]
        self._mergers = tried
        if not found:
            return None, 0.0
        best = max(found, key=lambda merger: merger.support)
        same = {best.fixed, best.moving}
        rivals = (m.support for m in found if {m.fixed, m.moving} == same and self._apart(m, best))
        return best, max(rivals, default=0.0)

    def _merger(self, one: Group, other: Group, join: _Join) -> _Merger | None:
        """What becomes of two groups by a join of their pieces; None for a collision. The locked
        or larger group stays put."""
        fixed, moving, bound, free, motion = one, other, join.fixed, join.moving, join.motion
        if (other.locked, other.area) > (one.locked, one.area):
            fixed, moving, bound, free, motion = other, one, join.moving, join.fixed, back(motion)
        motion = then(then(fixed.motions[bound], motion), back(moving.motions[free]))
        touching, support = self._touching(fixed, moving, motion)
        if len(fixed.motions) + len(moving.motions) > 2:
            for _ in range(FITS):
                motion = then(fitted(touching), motion)
                touching, support = self._touching(fixed, moving, motion)
        placed = [_moved(shape, motion) for shape in moving.shapes.values()]
        lying = np.array(list(fixed.shapes.values()), dtype=object)
        overlap = sum(float(shapely.area(shapely.intersection(lying, s)).sum()) for s in placed)
        if overlap > MAX_OVERLAP * min(fixed.area, moving.area):
            return None
        return _Merger(fixed, moving, motion, support)

    def _touching(self, fixed: Group, moving: Group, motion: Motion) -> tuple[Contact, float]:
        """All that touches where `motion` puts the moving group, and its support."""
        total, support = Contact(), 0.0
        for a, of_a in fixed.motions.items():
            line = _placed(self.lines[a], of_a)
            for b, of_b in moving.motions.items():
                there = then(motion, of_b)
                far_mm = self._reach_mm[a] + self._reach_mm[b] + TOUCH_MM
                if (a, b) in self._match and abs(there[1] - of_a[1]) < far_mm:
                    touching = contact(self._match[a, b], line, _placed(self.lines[b], there))
                    total = total + touching
                    support += self._likely[a, b] * touching.support_mm
        return total, support

    def _apart(self, one: _Merger, other: _Merger) -> bool:
        """Whether two mergers of the same groups put a piece to different places."""
        motion = one.motion if one.fixed is other.fixed else back(one.motion)
        return any(
            apart_mm(_placed(self.lines[k], own), motion, other.motion) > RIVAL_MM
            for k, own in other.moving.motions.items()
        )

    def _joint(self, merger: _Merger, rival: float) -> Group:
        """Both groups as one, in the frame of the fixed one."""
        fixed, moving, support = merger.fixed, merger.moving, merger.support
        enough = 1 - math.exp(-support / CERTAIN_MM)
        trust = enough * support**2 / max(support**2 + rival**2, 1e-12)
        motions = {k: then(merger.motion, own) for k, own in moving.motions.items()}
        return Group(
            {**fixed.motions, **motions},
            {**fixed.trust, **{k: min(own, trust) for k, own in moving.trust.items()}},
            {**fixed.shapes, **{k: _moved(self.shapes[k], m) for k, m in motions.items()}},
            fixed.area + moving.area,
            fixed.locked,
        )


def _moved(shape: Polygon, motion: Motion) -> Polygon:
    return shapely.transform(shape, pose_of(motion).apply)


def _placed(line: Line, motion: Motion) -> Line:
    return Line(motion[0] * line.points + motion[1], motion[0] * line.tangents, line.step_mm)


def _matches(match: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of the best matches, best first."""
    rows, columns = match.shape
    best = np.argpartition(-match, PARTNERS - 1, axis=1)[:, :PARTNERS]
    of_rows = (np.arange(rows)[:, None] * columns + best).ravel()
    best = np.argpartition(-match, PARTNERS - 1, axis=0)[:PARTNERS]
    of_columns = (best * columns + np.arange(columns)).ravel()
    flat = np.unique(np.concatenate([of_rows, of_columns]))
    flat = flat[np.argsort(-match.ravel()[flat], kind="stable")][:MATCHES]
    row, column = np.divmod(flat, columns)
    return row, column


def _by_two(
    weights: Floats,
    row: NDArray[np.intp],
    column: NDArray[np.intp],
    fixed: Line,
    moving: Line,
) -> tuple[Complex, Complex]:
    """Turns and shifts of the motions by two matches at a time, the surest."""
    first, second = np.triu_indices(len(row), 1)
    a, b = fixed.points[row], moving.points[column]
    reach, other = a[second] - a[first], b[second] - b[first]
    length = np.abs(reach)
    fits = (length > BASE_MM[0]) & (length < BASE_MM[1])
    fits &= np.abs(length - np.abs(other)) < STRETCH_MM
    first, second = first[fits], second[fits]
    turns = reach[fits] * other[fits].conj()
    turns /= np.maximum(np.abs(turns), 1e-9)
    opposed = np.ones(len(turns), bool)
    for end in (first, second):
        against = turns * moving.tangents[column[end]] * fixed.tangents[row[end]].conj()
        opposed &= against.real < OPPOSED
    first, second, turns = first[opposed], second[opposed], turns[opposed]
    top = np.argsort(-weights[first] * weights[second], kind="stable")[:HYPOTHESES]
    first, second, turns = first[top], second[top], turns[top]
    return turns, (a[first] + a[second] - turns * (b[first] + b[second])) / 2


def _distinct(
    motions: Iterable[tuple[complex, complex]], moving: Line, count: int
) -> Sequence[Motion]:
    kept: list[Motion] = []
    places = np.empty((count, len(moving.points)), np.complex128)
    for turn, shift in motions:
        place = turn * moving.points + shift
        away_mm = np.abs(places[: len(kept)] - place).max(axis=1)
        if not (away_mm <= 2 * TOUCH_MM).any():
            places[len(kept)] = place
            kept.append((complex(turn), complex(shift)))
        if len(kept) == count:
            break
    return kept


def _refined(match: Floats, fixed: Line, moving: Line, motion: Motion) -> tuple[Motion, float]:
    for _ in range(ROUNDS):
        motion = then(fitted(contact(match, fixed, moving, motion)), motion)
    return motion, contact(match, fixed, moving, motion).support_mm


def _near(points: Complex, others: Complex) -> NDArray[np.intp]:
    """Which points lie within reach of the others' bounding box."""
    low_x, high_x = others.real.min() - TOUCH_MM, others.real.max() + TOUCH_MM
    low_y, high_y = others.imag.min() - TOUCH_MM, others.imag.max() + TOUCH_MM
    x, y = points.real, points.imag
    return np.flatnonzero((x > low_x) & (x < high_x) & (y > low_y) & (y < high_y))
