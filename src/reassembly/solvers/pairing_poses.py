"""From matrices of how well outlines' points match to poses, for the solver `pairingnet`.

Points of the plane are complex numbers x + iy (y down). A motion is a pair (turn, shift) that
carries z to turn * z + shift. Outlines run the same way round, so that they run against each other
where they meet, and true matches lie along a diagonal of the matrix that falls the other way.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import cv2
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
    "Motions",
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
Motions = tuple[Complex, Complex]
"""(K,) each: several of them."""
OneOrMany = TypeVar("OneOrMany", complex, Complex)
REST: Motions = (np.ones(1, complex), np.zeros(1, complex))

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


@dataclass(frozen=True, eq=False)
class Contact:
    """How well two lines match where they touch, by each of K motions: sums (K,) over pairs of
    touching points."""

    weight: Floats
    fixed: Complex
    """Of the first line's points."""
    moving: Complex
    """Of the second line's points."""
    product: Complex
    """Of the first's times the conjugate of the second's."""
    support_mm: Floats
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
    away = _carried((turns, shifts), moving.points[column])
    away -= fixed.points[row]
    along = _cosines(turns, moving.tangents[column].conj() * fixed.tangents[row])
    inside = (_squared(away) < TOUCH_MM**2) & (along < OPPOSED)
    order = np.argsort(-(inside @ match[row, column]), kind="stable")
    motions = turns[order], shifts[order]
    kept = _distinct(motions, moving, 2 * TOUCH_MM, count)
    motions = motions[0][kept], motions[1][kept]
    for _ in range(ROUNDS):
        motions = then(fitted(contact(match, fixed, moving, motions)), motions)
    support_mm = contact(match, fixed, moving, motions).support_mm
    some = support_mm > 0
    turns, shifts, support_mm = motions[0][some], motions[1][some], support_mm[some]
    kept = _distinct((turns, shifts), moving, TOUCH_MM, count)
    kept = kept[np.argsort(-support_mm[kept], kind="stable")]
    told = (each[kept].tolist() for each in (turns, shifts, support_mm))
    return [((turn, shift), support) for turn, shift, support in zip(*told, strict=True)]


def contact(match: Floats, fixed: Line, moving: Line, motions: Motions = REST) -> Contact:
    """What touches where each of K motions puts the second line; its points are summed as moved."""
    turns, _ = motions
    there = _carried(motions, moving.points)
    one, place = _near(fixed.points, there.ravel())
    number, other = np.divmod(place, len(moving.points))
    against = moving.tangents[other] * fixed.tangents[one].conj()
    touch = (turns[number] * against).real < OPPOSED
    one, other, number = one[touch], other[touch], number[touch]
    weights = match[one, other]
    a, b = fixed.points[one], there[number, other]
    count, length = len(turns), len(fixed.points)

    def total(values: Complex) -> Complex:
        x, y = (np.bincount(number, weights * part, count) for part in (values.real, values.imag))
        return x + 1j * y

    of_fixed = np.bincount(number * length + one, weights, count * length).reshape(count, length)
    return Contact(
        np.bincount(number, weights, count).astype(np.float64),
        total(a),
        total(b),
        total(a * b.conj()),
        np.minimum(of_fixed, 1.0).sum(axis=1) * fixed.step_mm,
    )


def fitted(touching: Contact) -> Motions:
    """The further motions of what moves that bring matching points closest, in least squares."""
    weight = np.where(touching.weight > 0, touching.weight, 1.0)
    mean_fixed, mean_moving = touching.fixed / weight, touching.moving / weight
    spread = touching.product - weight * mean_fixed * mean_moving.conj()
    length = np.abs(spread)
    turns = np.where(length > 1e-9, spread / np.maximum(length, 1e-9), 1.0)
    return turns, mean_fixed - turns * mean_moving


def then(
    second: tuple[OneOrMany, OneOrMany], first: tuple[OneOrMany, OneOrMany]
) -> tuple[OneOrMany, OneOrMany]:
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
                (turn,), (shift,) = fitted(touching)
                motion = then((turn, shift), motion)
                touching, support = self._touching(fixed, moving, motion)
        placed = [_moved(shape, motion) for shape in moving.shapes.values()]
        lying = np.array(list(fixed.shapes.values()), dtype=object)
        overlap = sum(float(shapely.area(shapely.intersection(lying, s)).sum()) for s in placed)
        if overlap > MAX_OVERLAP * min(fixed.area, moving.area):
            return None
        return _Merger(fixed, moving, motion, support)

    def _touching(self, fixed: Group, moving: Group, motion: Motion) -> tuple[Contact, float]:
        """All that touches where `motion` puts the moving group, and its support."""
        total, support = Contact(*np.zeros((5, 1))), 0.0
        for a, of_a in fixed.motions.items():
            line = _placed(self.lines[a], of_a)
            for b, of_b in moving.motions.items():
                there = then(motion, of_b)
                far_mm = self._reach_mm[a] + self._reach_mm[b] + TOUCH_MM
                if (a, b) in self._match and abs(there[1] - of_a[1]) < far_mm:
                    touching = contact(self._match[a, b], line, _placed(self.lines[b], there))
                    total = total + touching
                    support += self._likely[a, b] * touching.support_mm.item()
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
    least = [-np.partition(-m, PARTNERS - 1, axis=1)[:, PARTNERS - 1] for m in (match, match.T)]
    flat = np.flatnonzero((match >= least[0][:, None]) | (match >= least[1]))
    flat = flat[np.argsort(-match.ravel()[flat], kind="stable")][:MATCHES]
    row, column = np.divmod(flat, match.shape[1])
    return row, column


def _by_two(
    weights: Floats,
    row: NDArray[np.intp],
    column: NDArray[np.intp],
    fixed: Line,
    moving: Line,
) -> tuple[Complex, Complex]:
    """Turns and shifts of the motions by two matches at a time, the surest."""
    from scipy.spatial.distance import pdist

    a, b = fixed.points[row], moving.points[column]
    length, other = (pdist(np.column_stack([each.real, each.imag])) for each in (a, b))
    fits = (length > BASE_MM[0]) & (length < BASE_MM[1])
    fits &= np.abs(length - other) < STRETCH_MM
    first, second = (each[fits] for each in np.triu_indices(len(row), 1))
    turns = (a[second] - a[first]) * (b[second] - b[first]).conj()
    turns /= np.maximum(np.abs(turns), 1e-9)
    opposed = np.ones(len(turns), bool)
    for end in (first, second):
        against = turns * moving.tangents[column[end]] * fixed.tangents[row[end]].conj()
        opposed &= against.real < OPPOSED
    first, second, turns = first[opposed], second[opposed], turns[opposed]
    top = np.argsort(-weights[first] * weights[second], kind="stable")[:HYPOTHESES]
    first, second, turns = first[top], second[top], turns[top]
    return turns, (a[first] + a[second] - turns * (b[first] + b[second])) / 2


def _carried(motions: Motions, points: Complex) -> Complex:
    """(K, P): where each of K motions puts points (P,)."""
    turns, shifts = motions
    there = turns[:, None] * points
    there += shifts[:, None]
    return there


def _cosines(turns: Complex, others: Complex) -> Floats:
    """(K, P): of the angles between turns (K,) and (P,)."""
    one, other = (each[:, None].view(np.float64) for each in (turns, others))
    return np.asarray(one @ other.T)


def _squared(values: Complex) -> Floats:
    """Squared lengths: those take a part of the time that lengths take."""
    return values.real**2 + values.imag**2


def _distinct(motions: Motions, moving: Line, away_mm: float, count: int) -> NDArray[np.intp]:
    """Numbers of the first motions, at most so many, that put the line further apart than that."""
    turns, shifts = motions
    outline = np.column_stack([moving.points.real, moving.points.imag]).astype(np.float32)
    # No point of a line is carried further than the furthest of its convex hull.
    hull = moving.points[cv2.convexHull(outline, returnPoints=False)[:, 0]]
    left = np.arange(len(turns))
    kept: list[int] = []
    while len(kept) < count and len(left):
        k = int(left[0])
        kept.append(k)
        away = np.outer(hull, turns[left] - turns[k]) + (shifts[left] - shifts[k])
        left = left[_squared(away).max(axis=0) > away_mm**2]
    return np.array(kept, np.intp)


def _near(points: Complex, others: Complex) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs of points and others, by number, that are within reach of each other."""
    from scipy.spatial import cKDTree

    x, y = others.real, others.imag
    boxed = (x > points.real.min() - TOUCH_MM) & (x < points.real.max() + TOUCH_MM)
    boxed &= (y > points.imag.min() - TOUCH_MM) & (y < points.imag.max() + TOUCH_MM)
    inside = np.flatnonzero(boxed)
    one, other = (
        cKDTree(np.column_stack([each.real, each.imag]), balanced_tree=False)
        for each in (points, others[inside])
    )
    pairs = one.sparse_distance_matrix(other, TOUCH_MM, output_type="ndarray")
    pairs = pairs[pairs["v"] < TOUCH_MM]
    return pairs["i"], inside[pairs["j"]]
