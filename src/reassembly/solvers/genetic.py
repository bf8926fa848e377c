"""Genetic search: poses evolve until all pieces fill a small rectangle without overlapping.

The fitness knows nothing of paint or of how edges fit: it is the area of the smallest rectangle,
at any angle, around all pieces, plus a price on the area in which pieces overlap. The right
assembly of an unbroken rectangle has the best fitness there is, but so may wrong ones have, and a
fresco that lacks pieces or had another shape is not the best of its own arrangements. Meant as a
baseline.

Checked on 20 training puzzles of RePAIR with 3 seeds, measured as its script does: q_pos 0.06,
rotation 90 degrees, translation 133 mm, where Islam et al. (2025) print 0.05, 85.6 and 151.7 for
the original on the 24 test puzzles. That is near what chance scores (`random`: 0.04, 90, 115), so
that the check could not tell much. In every run the answer was fitter than the truth: it is the
fitness that fails there. On clean cuts it is the search, whose answer seldom is as fit as the
truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from shapely.geometry import Polygon

from reassembly.errors import InputError
from reassembly.outline.contour import resample
from reassembly.pose import Pose, wrap_rad
from reassembly.puzzle import Assembly, Fragment, Provenance, Puzzle
from reassembly.solvers.base import ProgressCallback, report

__all__ = ["Fitness", "Genetic", "Shapes"]

Complex = NDArray[np.complex128]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

OUTLINE_POINTS = 96
"""Per piece: about every 3 mm on pieces of the usual size."""
GRID = 192
"""Cells along each side of a piece's map of distances."""
OVERSAMPLE = 3
"""How much finer the map is drawn than kept; odd, so that cells have a middle."""
MARGIN = 1.15
"""How far that map reaches beyond the piece, as a share of its reach."""
DIRECTIONS = 720
"""Of the table of how far a piece reaches in each direction."""
COARSE = np.radians(np.arange(0.0, 90.0, 3.0))
FINE = np.radians(np.arange(-1.5, 1.6, 0.25))
"""Angles at which rectangles are tried: first these all around, then these about the best."""
MARCH_STEPS = 14
CONTACT = 0.004
"""Pieces count as touching from this distance on, in units of a piece's usual size."""


@dataclass(frozen=True, eq=False)
class Fitness:
    """How good P arrangements are; less is better."""

    rectangle_mm2: Floats
    """(P,), area of the smallest rectangle around all pieces."""
    overlap_mm2: Floats
    """(P,), area in which pieces overlap, summed over pairs."""
    angle: Floats
    """(P,), direction of the rectangle's first side, radians from x towards y."""


PREVIEW_EVERY = 20
"""Generations."""
WAYS = (0.2, 0.05, 0.05, 0.15, 0.25, 0.3)
"""Shares of the changes: nudged, swapped, laid parallel to the rectangle and pressed to the
others, pressed as they lie or nearly so, lined up along the rectangle, drifted."""


class Shapes:
    """Pieces made ready to measure many arrangements of them at once.

    An arrangement gives each piece's centroid as a complex number x + iy in mm, and its turn as
    the angle in radians by which it is turned from x towards y (clockwise as seen: minus the
    rotation of a `Pose`).
    """

    def __init__(self, fragments: Sequence[Fragment]) -> None:
        n = len(fragments)
        self.area = np.array([f.area_mm2 for f in fragments], np.float64)
        self.centroid = np.array([complex(*f.centroid_mm) for f in fragments])
        self.size_mm = math.sqrt(self.area.mean())
        self.outline = np.empty((n, OUTLINE_POINTS), np.complex64)
        self.reach = np.empty(n)
        self.spacing = np.empty(n, np.float32)
        self.distance = np.empty((n, GRID, GRID), np.float32)
        self.support = np.empty((n, DIRECTIONS + 1), np.float32)
        sides = [_sides(fragment.polygon) for fragment in fragments]
        most = max(len(angle) for angle, _ in sides)
        self.side_angle = np.zeros((n, most))
        self.side_chance = np.ones((n, most))
        for k, (angle, chance) in enumerate(sides):
            self.side_angle[k, : len(angle)], self.side_chance[k, : len(angle)] = angle, chance
        for k, fragment in enumerate(fragments):
            ring = _relative(fragment.polygon, self.centroid[k])
            if _signed_area(ring) < 0:
                ring = ring[::-1]
            length = float(np.abs(np.diff(ring)).sum())
            points = resample(np.column_stack([ring.real, ring.imag]), length / OUTLINE_POINTS)[
                :OUTLINE_POINTS
            ]
            self.outline[k] = points[:, 0] + 1j * points[:, 1]
            self.reach[k] = np.abs(ring).max()
            self.spacing[k] = length / OUTLINE_POINTS
            self.distance[k] = _distances(ring, MARGIN * self.reach[k])
            around = np.exp(1j * math.tau / DIRECTIONS * np.arange(DIRECTIONS + 1))
            self.support[k] = (ring[:, None] * around.conj()).real.max(axis=0)
        self._slope = np.diff(self.support, axis=1, append=self.support[:, 1:2])
        step = (np.roll(self.outline, -1, axis=1) - np.roll(self.outline, 1, axis=1)) / 2
        moment = (self.outline.conj() * step).imag
        one = np.ones_like(moment)
        parts = (moment, step.real, step.imag, self.outline.real, self.outline.imag, one)
        self._parts = np.stack(parts, axis=2).astype(np.float32)
        self._pairs = np.triu_indices(n, 1)

    def fitness(self, centres: Complex, turns: Floats) -> Fitness:
        """Measures P arrangements, (P, n) each. The areas are near, not exact: within about one
        hundredth of the pieces' area."""
        rectangle, angle = self._rectangle(centres, turns)
        return Fitness(rectangle, self._overlap(centres, turns), angle)

    def arrangement(self, poses: Sequence[Pose]) -> tuple[Complex, Floats]:
        """Centres and turns, (n,), of pieces that lie so."""
        turns = np.array([-pose.rotation_rad for pose in poses])
        origins = np.array([complex(pose.x_mm, pose.y_mm) for pose in poses])
        return origins + np.exp(1j * turns) * self.centroid, turns

    def poses(self, centres: Complex, turns: Floats) -> list[Pose]:
        """The poses of one arrangement, (n,)."""
        origins = centres - np.exp(1j * turns) * self.centroid
        return [
            Pose(o.real, o.imag, wrap_rad(-turn)) for o, turn in zip(origins, turns, strict=True)
        ]

    def push(
        self, centres: Complex, turns: Floats, piece: Indices, towards: Complex, along: Complex
    ) -> Complex:
        """Where the centres of pieces come to lie that are pushed until they touch.

        Args:
            centres: (M, n), of M arrangements, with `turns`.
            piece: (M,), which piece of each arrangement is pushed, from beyond all others.
            towards: (M,), the point that its centroid makes for.
            along: (M,), unit vectors, the directions in which it goes.
        """
        rows = np.arange(len(piece))
        rest = np.abs(centres - towards[:, None]) + self.reach
        rest[rows, piece] = 0.0
        left = rest.max(axis=1) + self.reach[piece]
        others = np.arange(centres.shape[1]) != piece[:, None]
        points = self.outline[piece, ::2] * np.exp(1j * turns[rows, piece])[:, None]
        for _ in range(MARCH_STEPS):
            place = towards - left * along
            apart = np.abs(place[:, None] - centres) - self.reach[piece][:, None] - self.reach
            apart[~others] = np.inf
            # A piece whose surrounding circle is farther off than another's cannot be hit first.
            near = others & (apart < np.maximum(apart.min(axis=1), 0.0)[:, None] + self.size_mm / 4)
            m, j = np.nonzero(near)
            z = (points[m] + (place[m] - centres[m, j])[:, None]) * np.exp(-1j * turns[m, j])[
                :, None
            ]
            free = np.maximum(self._lookup(j, z), np.abs(z) - self.reach[j][:, None]).min(axis=1)
            gap = np.full(near.shape, np.inf)
            gap[m, j] = free
            gap[others & ~near] = apart[others & ~near]
            left -= np.maximum(gap.min(axis=1) - CONTACT * self.size_mm, 0.0)
        return np.asarray(towards - np.maximum(left, 0.0) * along)

    def reaches(self, centres: Complex, turns: Floats, facing: Floats) -> Floats:
        """How far each piece reaches, (P, n), mm, in one direction, (P,), per arrangement."""
        where = (facing[:, None] - turns) * (DIRECTIONS / math.tau) % DIRECTIONS
        reach = self.support[np.arange(centres.shape[1]), where.astype(np.intp)]
        return np.asarray(reach + (centres * np.exp(-1j * facing)[:, None]).real)

    def _overlap(self, centres: Complex, turns: Floats) -> Floats:
        """Green's theorem: an area is the integral of x dy along its boundary, and the boundary
        of what two pieces share is what each has of its outline within the other."""
        first, second = self._pairs
        near = (
            np.abs(centres[:, first] - centres[:, second]) < self.reach[first] + self.reach[second]
        )
        row, pair = np.nonzero(near)
        i, j = first[pair], second[pair]
        turn = np.exp(1j * (turns[row, i] - turns[row, j])).astype(np.complex64)
        shift = (centres[row, i] - centres[row, j]) * np.exp(-1j * turns[row, j])
        shift = shift.astype(np.complex64)
        mine = self._within(i, j, turn, shift)
        theirs = self._within(j, i, turn.conj(), -turn.conj() * shift)
        # All in the frame of j. Lengths along the two parts close to a ring but for rounding,
        # which counts less the nearer the origin is: hence the middle of the parts.
        step = turn * (mine[:, 1] + 1j * mine[:, 2])
        middle = turn * (mine[:, 3] + 1j * mine[:, 4]) + shift * mine[:, 5]
        middle += theirs[:, 3] + 1j * theirs[:, 4]
        middle /= np.maximum(mine[:, 5] + theirs[:, 5], 1e-6)
        moment = mine[:, 0] + (shift.conj() * step).imag + theirs[:, 0]
        step += theirs[:, 1] + 1j * theirs[:, 2]
        area = (moment - (middle.conj() * step).imag) / 2
        summed = np.bincount(row, np.maximum(area, 0.0), minlength=len(centres))
        return np.asarray(summed, np.float64)

    def _within(
        self, i: Indices, j: Indices, turn: NDArray[np.complex64], shift: NDArray[np.complex64]
    ) -> NDArray[np.float32]:
        """Sums over the part of i's outline within j, (M, 6): see `_parts`."""
        z = self.outline[i] * turn[:, None] + shift[:, None]
        inside = np.clip(0.5 - self._lookup(j, z) / self.spacing[i][:, None], 0.0, 1.0)
        return np.asarray((inside[:, None, :] @ self._parts[i])[:, 0])

    def _lookup(self, j: Indices, z: NDArray[np.complexfloating]) -> NDArray[np.float32]:
        """Distances of points, (M, B), in the frames of pieces j, (M,), from their outlines;
        negative within."""
        cells = (GRID / (2 * MARGIN * self.reach[j])).astype(np.float32)[:, None]
        column = np.clip(z.real * cells + GRID / 2, 0, GRID - 1).astype(np.int32)
        row = np.clip(z.imag * cells + GRID / 2, 0, GRID - 1).astype(np.int32)
        flat = (j.astype(np.int32)[:, None] * GRID + row) * GRID + column
        return np.asarray(self.distance.ravel().take(flat))

    def _rectangle(self, centres: Complex, turns: Floats) -> tuple[Floats, Floats]:
        coarse = self._sizes(centres, turns, np.tile(COARSE, (len(centres), 1)))
        angles = COARSE[coarse.argmin(axis=1)][:, None] + FINE
        fine = self._sizes(centres, turns, angles)
        best = np.arange(len(centres)), fine.argmin(axis=1)
        return fine[best], angles[best]

    def _sizes(self, centres: Complex, turns: Floats, angles: Floats) -> Floats:
        """Areas, (P, K), of the rectangles around P arrangements at angles (P, K)."""
        quarters = angles[:, None, :] + math.pi / 2 * np.arange(4)[:, None]
        facing = quarters.reshape(len(angles), 1, -1)
        where = (facing - turns[:, :, None]) * (DIRECTIONS / math.tau) % DIRECTIONS
        below = where.astype(np.int32)
        after = (where - below).astype(np.float32)
        below += (np.arange(len(self.area), dtype=np.int32) * (DIRECTIONS + 1))[:, None]
        table, slope = self.support.ravel(), self._slope.ravel()
        reach = table.take(below) + slope.take(below) * after
        reach += centres.real[:, :, None] * np.cos(facing) + centres.imag[:, :, None] * np.sin(
            facing
        )
        right, down, left, up = reach.max(axis=1).reshape(quarters.shape).transpose(1, 0, 2)
        return np.asarray((right + left) * (down + up))


@dataclass(frozen=True, eq=False)
class _Population:
    """Arrangements in the frame of the anchor."""

    centres: Complex
    turns: Floats
    fitness: Fitness
    cost: Floats

    def __getitem__(self, rows: Indices) -> _Population:
        f = self.fitness
        chosen = Fitness(f.rectangle_mm2[rows], f.overlap_mm2[rows], f.angle[rows])
        return _Population(self.centres[rows], self.turns[rows], chosen, self.cost[rows])

    @classmethod
    def joined(cls, one: _Population, other: _Population) -> _Population:
        f, g = one.fitness, other.fitness
        return cls(
            np.concatenate([one.centres, other.centres]),
            np.concatenate([one.turns, other.turns]),
            Fitness(
                np.concatenate([f.rectangle_mm2, g.rectangle_mm2]),
                np.concatenate([f.overlap_mm2, g.overlap_mm2]),
                np.concatenate([f.angle, g.angle]),
            ),
            np.concatenate([one.cost, other.cost]),
        )


@dataclass(frozen=True)
class Genetic:
    """Evolves arrangements, from random ones, by crossing and changing them.

    The population consists of tribes that evolve apart. Parents are the winners of small
    tournaments within their tribe; of parents and children the best of each tribe stay, so that
    the best arrangement is never lost. A child may take over some pieces of a second parent, in
    whole poses, as they lie there around one piece that lies alike in both. Then it is changed:
    a piece, or several near each other, moved a little or much; two pieces swapped; a piece laid
    with a side along the rectangle, or pushed against the others until it touches; or pieces
    moved by a part of what two others of the tribe differ in, which becomes finer as it agrees.

    All pieces are placed, in one island. Locked pieces never move; without them the largest
    piece is the anchor.

    A piece's confidence tells how far the last population, all tribes, agrees with the answer
    about where the piece lies relative to the anchor: 1 where all agree, and no less than about
    one in the number of tribes, since a tribe soon agrees with itself. It is not calibrated.
    Locked pieces have 1; an anchor that is not locked is no surer than the surest of the others.
    """

    population: int = 128
    generations: int = 400
    tribes: int = 8
    tournament: int = 2
    """How many are drawn for each parent."""
    crossover: float = 0.25
    """Share of the children that have two parents."""
    overlap_weight: float = 4.0
    """Price of overlap, relative to the rectangle's area. At 1, moving a piece into another to
    make the rectangle smaller would often cost nothing."""

    def __post_init__(self) -> None:
        limits = {
            "population": (2, math.inf),
            "generations": (1, math.inf),
            "tribes": (1, math.inf),
            "tournament": (1, math.inf),
            "crossover": (0, 1),
            "overlap_weight": (0, math.inf),
        }
        for name, (least, most) in limits.items():
            if not least <= (value := getattr(self, name)) <= most:
                upper = "" if most == math.inf else f" and at most {most}"
                raise InputError(
                    f"solver genetic: {name} is {value}", f"Give at least {least}{upper}"
                )

    def solve(
        self,
        puzzle: Puzzle,
        *,
        seed: int = 0,
        locked: Mapping[str, Pose] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Assembly:
        locks = dict(locked or {})
        shapes = Shapes(puzzle.fragments)
        search = _Search.of(self, shapes, puzzle, locks, np.random.default_rng([seed, *b"genetic"]))

        def assembly(people: _Population, confidence: Mapping[str, float]) -> Assembly:
            best = int(people.cost.argmin())
            poses = shapes.poses(people.centres[best], people.turns[best])
            placed = {i: locks.get(i, p) for i, p in zip(puzzle.ids, poses, strict=True)}
            return Assembly.of(
                puzzle, placed, confidence=confidence, provenance=Provenance("genetic", seed=seed)
            )

        people = search.first()
        generations = self.generations if len(locks) < len(puzzle) else 0
        for generation in range(generations):
            preview = assembly(people, {}) if generation % PREVIEW_EVERY == 0 else None
            report(progress, generation / generations, "evolving", preview)
            people = search.next(people)
        sure = dict(zip(puzzle.ids, search.agreement(people).tolist(), strict=True))
        answer = assembly(people, sure)
        report(progress, 1.0, "evolving", answer)
        return answer


@dataclass(frozen=True, eq=False)
class _Search:
    """What stays the same from one generation to the next."""

    settings: Genetic
    shapes: Shapes
    fixed: NDArray[np.bool_]
    """(n,), which pieces are locked."""
    anchor: int
    """The piece that defines the frame where nothing is locked."""
    centres: Complex
    turns: Floats
    """(n,), where the locked pieces lie; meaningless for the others."""
    tribe: Indices
    """(P,), of each place in the population."""
    rng: np.random.Generator

    @classmethod
    def of(
        cls,
        settings: Genetic,
        shapes: Shapes,
        puzzle: Puzzle,
        locked: Mapping[str, Pose],
        rng: np.random.Generator,
    ) -> _Search:
        fixed = np.array([i in locked for i in puzzle.ids])
        centres, turns = shapes.arrangement([locked.get(i, Pose(0.0, 0.0)) for i in puzzle.ids])
        anchor = int(np.where(fixed | (not fixed.any()), shapes.area, 0.0).argmax())
        tribe = np.arange(settings.population) % min(settings.tribes, settings.population)
        return cls(settings, shapes, fixed, anchor, centres, turns, np.sort(tribe), rng)

    def first(self) -> _Population:
        """Pieces strewn over a disc of twice their area."""
        shape = (self.settings.population, len(self.fixed))
        radius = math.sqrt(2 * self.shapes.area.sum() / math.pi)
        middle = self.centres[self.anchor] if self.fixed.any() else 0.0
        centres = middle + radius * np.sqrt(self.rng.random(shape)) * self._unit(shape)
        turns = self.rng.uniform(-math.pi, math.pi, shape)
        centres = np.where(self.fixed, self.centres, centres)
        turns = np.where(self.fixed, self.turns, turns)
        return self._people(centres, turns)

    def next(self, people: _Population) -> _Population:
        """The best of each tribe, old and new."""
        one, other = self._parents(people), self._parents(people)
        centres, turns = people.centres[one], people.turns[one]
        self._cross(centres, turns, people[other])
        self._change(centres, turns, people.fitness.angle[one], people)
        children = self._people(centres, turns)
        cost = np.concatenate([people.cost, children.cost])
        tribe = np.tile(self.tribe, 2)
        ranked = np.lexsort((cost, tribe))
        stay = ranked[_rank_within(tribe[ranked]) < np.bincount(self.tribe)[tribe[ranked]]]
        return _Population.joined(people, children)[stay]

    def agreement(self, people: _Population) -> Floats:
        """Per piece, (n,), from 0 to 1: how closely the population shares the best one's pose."""
        best = int(people.cost.argmin())
        moved = np.abs(people.centres - people.centres[best])
        turned = np.abs(np.exp(1j * people.turns) - np.exp(1j * people.turns[best]))
        away = np.hypot(moved, turned * self.shapes.reach / 2) / (self.shapes.reach / 4)
        agreement = np.exp(-(away**2) / 2).mean(axis=0)
        if not self.fixed.any():
            agreement[self.anchor] = np.delete(agreement, self.anchor).max()
        return np.asarray(agreement)

    def _people(self, centres: Complex, turns: Floats) -> _Population:
        if not self.fixed.any():
            turn = turns[:, [self.anchor]]
            centres = (centres - centres[:, [self.anchor]]) * np.exp(-1j * turn)
            turns = turns - turn
        fitness = self.shapes.fitness(centres, turns)
        cost = fitness.rectangle_mm2 + self.settings.overlap_weight * fitness.overlap_mm2
        return _Population(centres, turns, fitness, cost)

    def _parents(self, people: _Population) -> Indices:
        """(P,), for each place the winner of a tournament within its tribe."""
        drawn = self._drawn(self.settings.tournament)
        return np.asarray(drawn[np.arange(len(drawn)), people.cost[drawn].argmin(axis=1)])

    def _drawn(self, count: int) -> Indices:
        """(P, count), for each place some of its tribe."""
        members = np.bincount(self.tribe)
        first = (np.cumsum(members) - members)[self.tribe]
        span = members[self.tribe][:, None]
        return np.asarray(first[:, None] + self.rng.integers(0, span, (len(span), count)))

    def _cross(self, centres: Complex, turns: Floats, other: _Population) -> None:
        """Gives some arrangements the other parent's pieces around one that both share."""
        count, n = centres.shape
        m = np.flatnonzero(self.rng.random(count) < self.settings.crossover)
        pivot = self.rng.integers(0, n, len(m))
        rows = np.arange(len(m))
        theirs, their_turns = other.centres[m], other.turns[m]
        turn = turns[m, pivot] - their_turns[rows, pivot]
        around = theirs - theirs[rows, pivot][:, None]
        moved = centres[m, pivot][:, None] + around * np.exp(1j * turn)[:, None]
        # Neighbours together: it is neighbourhoods that are worth inheriting.
        rank = np.abs(around).argsort(axis=1).argsort(axis=1)
        taken = (rank <= self.rng.integers(1, max(n - 1, 2), len(m))[:, None]) & ~self.fixed
        centres[m] = np.where(taken, moved, centres[m])
        turns[m] = np.where(taken, their_turns + turn[:, None], turns[m])

    def _change(self, centres: Complex, turns: Floats, angle: Floats, people: _Population) -> None:
        """Changes every arrangement in one of several ways, see `WAYS`."""
        way = self.rng.choice(len(WAYS), len(centres), p=WAYS)
        piece = self.rng.choice(np.flatnonzero(~self.fixed), len(centres))
        nudged, swapped, laid, pressed, lined, drifted = (
            np.flatnonzero(way == k) for k in range(len(WAYS))
        )
        self._nudge(centres, turns, piece, nudged)
        self._swap(centres, turns, piece, swapped)
        self._drift(centres, turns, drifted, people)
        turned = np.concatenate([laid, lined[self.rng.random(len(lined)) < 0.5]])
        turns[turned, piece[turned]] = self._laid(piece[turned], angle[turned])
        turns[pressed, piece[pressed]] += math.pi * self._spread(pressed) * self._normal(pressed)
        self._press(centres, turns, piece, np.concatenate([laid, pressed]))
        self._line(centres, turns, piece, lined, angle)

    def _nudge(self, centres: Complex, turns: Floats, piece: Indices, m: Indices) -> None:
        """Moves a piece, half the time with those near it, by little or much."""
        at = centres[m, piece[m]][:, None]
        near = self.rng.random(len(m)) * 2 * self.shapes.size_mm * (self.rng.random(len(m)) < 0.5)
        group = (np.abs(centres[m] - at) <= near[:, None]) & ~self.fixed
        scale = self._spread(m)
        shift = scale * self.shapes.size_mm * (self._normal(m) + 1j * self._normal(m))
        turn = (scale * self._normal(m))[:, None]
        moved = at + (centres[m] - at) * np.exp(1j * turn) + shift[:, None]
        centres[m] = np.where(group, moved, centres[m])
        turns[m] = np.where(group, turns[m] + turn, turns[m])

    def _drift(self, centres: Complex, turns: Floats, m: Indices, people: _Population) -> None:
        """Moves pieces by a part of what two others of the tribe differ in."""
        one, other = self._drawn(2)[m].T
        some = self.rng.random((len(m), len(self.fixed))) < self.rng.random((len(m), 1))
        weight = self.rng.uniform(0.2, 1.0, (len(m), 1)) * some
        centres[m] += weight * (people.centres[one] - people.centres[other])
        turn = people.turns[one] - people.turns[other]
        turns[m] += weight * (turn - math.tau * np.round(turn / math.tau))

    def _swap(self, centres: Complex, turns: Floats, piece: Indices, m: Indices) -> None:
        """Two pieces trade places, and half the time turn at random."""
        other = self.rng.choice(np.flatnonzero(~self.fixed), len(m))
        one = piece[m]
        centres[m, one], centres[m, other] = centres[m, other], centres[m, one]
        for which in (one, other):
            turn = self.rng.uniform(-math.pi, math.pi, len(m)) * (self.rng.random(len(m)) < 0.5)
            turns[m, which] += turn

    def _laid(self, piece: Indices, angle: Floats) -> Floats:
        """Turns that lay a side of each piece, the sooner the longer, along the rectangle."""
        drawn = self.rng.random(len(piece))[:, None]
        side = (self.shapes.side_chance[piece] < drawn).sum(axis=1)
        quarter = self.rng.integers(0, 4, len(piece)) * math.pi / 2
        return np.asarray(angle + quarter - self.shapes.side_angle[piece, side])

    def _press(self, centres: Complex, turns: Floats, piece: Indices, m: Indices) -> None:
        """Pushes a piece from outside against the others until it touches: from the side on which
        it lies, or from any."""
        k, goal = piece[m], self._other(piece[m])
        spread = self.rng.random(len(m)) * self.shapes.reach[goal] * self._unit((len(m),))
        here = centres[m, goal] - centres[m, k]
        anyhow = (self.rng.random(len(m)) < 0.5) | (np.abs(here) == 0.0)
        along = np.where(anyhow, self._unit((len(m),)), here)
        along /= np.abs(along)
        aim = centres[m, goal] + spread
        centres[m, k] = self.shapes.push(centres[m], turns[m], k, aim, along)

    def _line(
        self, centres: Complex, turns: Floats, piece: Indices, m: Indices, angle: Floats
    ) -> None:
        """Puts a piece flush with a side of the rectangle around the others, and pushes it along
        that side until it touches one of them."""
        k, rows = piece[m], np.arange(len(m))
        facing = angle[m] + self.rng.integers(0, 4, len(m)) * math.pi / 2
        outward = np.exp(1j * facing)
        along = outward * self.rng.choice([1j, -1j], len(m))
        reach = self.shapes.reaches(centres[m], turns[m], facing)
        own = reach[rows, k] - (centres[m, k] * outward.conj()).real
        reach[rows, k] = -np.inf
        goal = centres[m, self._other(k)]
        aim = outward * (reach.max(axis=1) - own) + along * (goal * along.conj()).real
        centres[m, k] = self.shapes.push(centres[m], turns[m], k, aim, along)

    def _other(self, piece: Indices) -> Indices:
        """Any other piece for each."""
        n = len(self.fixed)
        return np.asarray((piece + self.rng.integers(1, n, len(piece))) % n)

    def _spread(self, m: Indices) -> Floats:
        """Sizes of changes, from 0.003 to 1, all magnitudes alike."""
        return np.asarray(10.0 ** self.rng.uniform(-2.5, 0.0, len(m)))

    def _normal(self, m: Indices) -> Floats:
        return self.rng.normal(size=len(m))

    def _unit(self, shape: tuple[int, ...]) -> Complex:
        return np.asarray(np.exp(1j * self.rng.uniform(0.0, math.tau, shape)))


def _rank_within(groups: Indices) -> Indices:
    """Of each item of sorted groups, how many of its group come before it."""
    _, start = np.unique(groups, return_index=True)
    sizes = np.diff(np.append(start, len(groups)))
    return np.arange(len(groups)) - np.repeat(start, sizes)


def _relative(polygon: Polygon, centroid: complex) -> Complex:
    """The outer outline as a closed ring of complex numbers about the centroid."""
    points = np.asarray(polygon.exterior.coords)[:, :2]
    return np.asarray(points[:, 0] + 1j * points[:, 1] - centroid)


def _signed_area(ring: Complex) -> float:
    return float((ring[:-1].conj() * ring[1:]).imag.sum() / 2)


def _distances(ring: Complex, half_mm: float) -> NDArray[np.float32]:
    """Signed distances, mm, of the cells of a grid that spans from -half_mm to half_mm from the
    outline; negative within."""
    count = GRID * OVERSAMPLE
    cell = 2 * half_mm / count
    pixels = ring / cell + (count / 2 - 0.5) * (1 + 1j)
    shifted = np.round(np.column_stack([pixels.real, pixels.imag]) * 256).astype(np.int32)
    inside = np.zeros((count, count), np.uint8)
    cv2.fillPoly(inside, [shifted], 1, shift=8)
    within, without = (
        cv2.distanceTransform(part, cv2.DIST_L2, cv2.DIST_MASK_5) for part in (inside, 1 - inside)
    )
    # The outline runs through the outermost pixels that are filled: they have 1 in `within`.
    middle = np.s_[OVERSAMPLE // 2 :: OVERSAMPLE]
    signed = np.where(inside > 0, 1.0 - within, without)[middle, middle]
    return np.asarray(signed * cell, np.float32)


def _sides(polygon: Polygon) -> tuple[Floats, Floats]:
    """Directions, radians, of the sides of the convex hull, and the running sum up to each of
    their chances, which go by the square of the length."""
    hull = polygon.convex_hull.simplify(0.01 * math.sqrt(polygon.area)).exterior
    sides = np.diff(np.asarray(hull.coords)[:, :2], axis=0)
    chance = np.cumsum((sides**2).sum(axis=1))
    chance /= chance[-1]
    chance[-1] = 1.0
    return np.arctan2(sides[:, 1], sides[:, 0]), chance
