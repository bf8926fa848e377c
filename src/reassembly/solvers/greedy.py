"""Greedy geometric matching: pieces grow together in the order of how well their contours fit.

Every piece starts as a group of its own. The best supported join of two groups that do not
collide is made, the joint group is fitted anew to all others by all its contours at once, and so
on until nothing fits. Sure joins thus come first; a straight edge, which fits any other, is
decided last, when long contours and many corners can tell. A few assemblies are followed side by
side, and the best supported as a whole is the answer.

It looks at outlines only, so that it serves clean cuts and narrow gaps, not worn edges.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from statistics import median

import numpy as np
from numpy.typing import NDArray
from shapely import affinity

from reassembly.errors import InputError
from reassembly.matching.contour_fit import (
    FitSettings,
    Outline,
    apart,
    distinct,
    fit_contours,
    join,
    measure,
    motion_of,
    moved,
    outline_of,
    pose_of,
    refine,
)
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Puzzle
from reassembly.solvers.base import ProgressCallback, report

__all__ = ["Greedy"]

Motion = tuple[complex, complex]
"""Turn and shift, as in `matching.contour_fit`."""
Placements = tuple[NDArray[np.complex128], NDArray[np.complex128], NDArray[np.float64]]
"""Turns, shifts and supports of K placements, each (K,)."""

USUAL_DIAMETERS_MM = (30.0, 200.0)
"""Where the median piece is smaller or larger, all lengths are scaled in proportion."""
NOISE_PX = 1.0
MAX_OVERLAP = 0.02
"""Of the smaller group's area. What is more is a collision."""
VOTERS = 300
"""How many placements of a pair of groups are compared with each other."""
CERTAIN = 40.0
"""Support at which a join without a rival is trusted by 1 - 1/e."""
ISLAND = 0.5
"""Pieces apart from the main island form another only if all their joins are trusted so far."""
FITTING = 0.8
"""Share of the progress that comparing all pairs makes up."""


@dataclass(frozen=True, eq=False)
class _Group:
    """Pieces that lie together, in one frame."""

    outline: Outline
    motions: Mapping[str, Motion]
    trust: Mapping[str, float]
    """Per piece, from 0 to 1: how sure its place relative to the group's first piece is."""
    area: float
    locked: bool = False


@dataclass(frozen=True, eq=False)
class _Join:
    """A way to put two groups together."""

    fixed: _Group
    moving: _Group
    motion: Motion
    support: float
    rival: float
    """Support of the best other way to put these two together."""
    settings: FitSettings

    @property
    def trust(self) -> float:
        """From 0 to 1, by how well the contours fit, in itself and against the rival."""
        enough = 1 - math.exp(-self.support / CERTAIN)
        return enough * self.support**2 / (self.support**2 + self.rival**2)

    @cached_property
    def result(self) -> _Group:
        """Both groups as one, in the frame of the fixed one."""
        turn, shift = self.motion
        motions = {i: (turn * t, turn * s + shift) for i, (t, s) in self.moving.motions.items()}
        trust = {i: min(t, self.trust) for i, t in self.moving.trust.items()}
        outline = join(self.fixed.outline, moved(self.moving.outline, turn, shift), self.settings)
        return _Group(
            outline,
            {**self.fixed.motions, **motions},
            {**self.fixed.trust, **trust},
            self.fixed.area + self.moving.area,
            self.fixed.locked,
        )


@dataclass(frozen=True, eq=False)
class _State:
    """An assembly on its way."""

    groups: tuple[_Group, ...]
    support: float = 0.0


class Greedy:
    """Puts pieces together by the shape of their contours alone.

    Confidence tells how well and how long a piece's contour fits, compared with the other ways to
    put it to its neighbours, at the weakest join between it and the island's largest piece. It is
    not calibrated. Pieces that fit nowhere stay unplaced. The seed plays no part.

    Args:
        gap_mm: contours further apart than this do not touch. More forgives more wear, and finds
            more false joins.
        noise_mm: how exactly contours are known; at least a pixel.
        min_support: the weakest join that is made. 10 is 35 mm of straight contact, or a corner
            and a little contact, or a few mm of a wavy break.
        candidates: how many placements of each pair of pieces are kept.
        tries: how many placements of each pair of groups are tried.
        beam: how many assemblies are followed side by side.
    """

    def __init__(
        self,
        *,
        gap_mm: float = 2.5,
        noise_mm: float = 0.2,
        min_support: float = 10.0,
        candidates: int = 40,
        tries: int = 12,
        beam: int = 4,
    ) -> None:
        settings = {"gap_mm": gap_mm, "noise_mm": noise_mm, "min_support": min_support}
        counts = {"candidates": candidates, "tries": tries, "beam": beam}
        for name, value in (settings | counts).items():
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"{name} is {value}", "Give a number above 0")
        self.gap_mm, self.noise_mm, self.min_support = gap_mm, noise_mm, min_support
        self.candidates, self.tries, self.beam = candidates, tries, beam

    def solve(
        self,
        puzzle: Puzzle,
        *,
        seed: int = 0,
        locked: Mapping[str, Pose] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Assembly:
        """See `solvers.base.Solver`. The first island is that of the locked pieces or, without
        any, the one of the largest area."""
        return _Run(self, puzzle, dict(locked or {}), progress).assembly()


class _Run:
    """What one puzzle needs while it is being solved. Lengths are in units of `unit_mm`."""

    def __init__(
        self,
        solver: Greedy,
        puzzle: Puzzle,
        locked: Mapping[str, Pose],
        progress: ProgressCallback | None,
    ) -> None:
        self.solver, self.puzzle, self.locked, self.progress = solver, puzzle, locked, progress
        pieces = sorted(puzzle.fragments, key=lambda piece: -piece.area_mm2)
        diameter_mm = median(2 * math.sqrt(piece.area_mm2 / math.pi) for piece in pieces)
        self.unit_mm = diameter_mm / float(np.clip(diameter_mm, *USUAL_DIAMETERS_MM))
        pixel = max(piece.mm_per_px for piece in pieces) / self.unit_mm
        self.settings = FitSettings(
            gap_mm=solver.gap_mm, noise_mm=max(solver.noise_mm, NOISE_PX * pixel)
        )
        self.areas = {piece.id: piece.area_mm2 / self.unit_mm**2 for piece in pieces}
        self.outlines = {}
        for piece in pieces:
            report(progress, 0.0, "tracing contours")
            polygon = affinity.scale(
                piece.polygon, 1 / self.unit_mm, 1 / self.unit_mm, origin=(0, 0)
            )
            self.outlines[piece.id] = outline_of(polygon, self.settings)
        self.fits: dict[tuple[str, str], Placements] = {}
        self.joins: dict[tuple[_Group, _Group], list[_Join]] = {}

    def assembly(self) -> Assembly:
        self._compare()
        groups = [self._alone(i) for i in self.outlines if i not in self.locked]
        if self.locked:
            groups.insert(0, self._locked_group())
        answer = self._assembled(self._grown(_State(tuple(groups))))
        report(self.progress, 1.0, "joining pieces", answer)
        return answer

    def _compare(self) -> None:
        """Finds the candidate placements of every pair of pieces."""
        pairs = list(combinations(self.outlines, 2))
        for done, (a, b) in enumerate(pairs):
            report(self.progress, FITTING * done / len(pairs), "comparing contours")
            if a in self.locked and b in self.locked:
                continue
            found = fit_contours(
                self.outlines[a], self.outlines[b], self.settings, self.solver.candidates
            )
            most = MAX_OVERLAP * min(self.areas[a], self.areas[b])
            found = [fit for fit in found if fit.overlap_mm2 <= most]
            motions = np.array([motion_of(fit.pose) for fit in found]).reshape(-1, 2)
            supports = np.array([fit.support for fit in found])
            turns, shifts = motions[:, 0], motions[:, 1]
            self.fits[a, b] = turns, shifts, supports
            self.fits[b, a] = np.conj(turns), -shifts * np.conj(turns), supports

    def _alone(self, piece: str) -> _Group:
        return _Group(self.outlines[piece], {piece: (1, 0)}, {piece: 1.0}, self.areas[piece])

    def _locked_group(self) -> _Group:
        motions, outline = {}, None
        for i, pose in self.locked.items():
            turn, shift = motion_of(pose)
            motions[i] = turn, shift / self.unit_mm
            placed = moved(self.outlines[i], *motions[i])
            outline = placed if outline is None else join(outline, placed, self.settings)
        assert outline is not None
        area = sum(self.areas[i] for i in motions)
        return _Group(outline, motions, dict.fromkeys(motions, 1.0), area, locked=True)

    def _grown(self, start: _State) -> _State:
        """Joins groups until no join is left, following the best few assemblies."""
        beam, finished = [start], []
        for made in range(len(start.groups)):
            options: list[tuple[float, _State, _Join]] = []
            for state in beam:
                done = FITTING + (1 - FITTING) * made / len(start.groups)
                report(self.progress, done, "joining pieces", self._assembled(beam[0]))
                best = self._best_joins(state)
                if not best:
                    finished.append(state)
                options += [(state.support + option.support, state, option) for option in best]
            options.sort(key=lambda option: -option[0])
            beam = self._unlike(self._after(*option) for option in options)
            if not beam:
                break
            alive = {group for state in beam for group in state.groups}
            self.joins = {k: v for k, v in self.joins.items() if k[0] in alive and k[1] in alive}
        return max(finished, key=lambda state: state.support)

    def _best_joins(self, state: _State) -> list[_Join]:
        joins = (
            option for a, b in combinations(state.groups, 2) for option in self._joins_of(a, b)
        )
        return heapq.nlargest(2 * self.solver.beam, joins, key=lambda option: option.support)

    def _after(self, support: float, state: _State, option: _Join) -> _State:
        rest = (g for g in state.groups if g is not option.fixed and g is not option.moving)
        return _State((*rest, option.result), support)

    def _unlike(self, states: Iterable[_State]) -> list[_State]:
        """The first few states that differ; the same joins made in another order are the same."""
        kept: list[_State] = []
        for state in states:
            if not any(self._same(state, other) for other in kept):
                kept.append(state)
            if len(kept) == self.solver.beam:
                break
        return kept

    def _same(self, one: _State, other: _State) -> bool:
        twins = {frozenset(group.motions): group for group in other.groups}
        for group in one.groups:
            twin = twins.get(frozenset(group.motions))
            if twin is None:
                return False
            if twin is not group:
                (turns, shifts), (their_turns, their_shifts) = _relative(group), _relative(twin)
                if (np.abs(turns - their_turns) > 0.1).any():
                    return False
                if (np.abs(shifts - their_shifts) > self.settings.slide_mm).any():
                    return False
        return True

    def _joins_of(self, a: _Group, b: _Group) -> list[_Join]:
        """Ways to put two groups together, best first; the locked or larger one stays put."""
        if (a, b) not in self.joins:
            stays = (a.locked, a.area) >= (b.locked, b.area)
            fixed, moving = (a, b) if stays else (b, a)
            self.joins[a, b] = self._find_joins(fixed, moving)
        return self.joins[a, b]

    def _find_joins(self, fixed: _Group, moving: _Group) -> list[_Join]:
        turns, shifts, supports = self._proposals(fixed, moving)
        if len(fixed.motions) + len(moving.motions) > 2:
            outlines = fixed.outline, moving.outline
            turns, shifts = refine(*outlines, turns, shifts, self.settings)
            found = measure(*outlines, turns, shifts, self.settings)
            collides = found.overlap_mm2 > MAX_OVERLAP * min(fixed.area, moving.area)
            supports = np.where(collides, 0, found.support)
        good = np.argsort(-supports, kind="stable")
        good = good[supports[good] >= self.solver.min_support]
        kept = distinct(
            moving.outline, turns[good], shifts[good], self.solver.tries, self.settings.slide_mm
        )
        good = good[kept]
        best = [*supports[good[:2]].tolist(), 0.0]
        return [
            _Join(
                fixed,
                moving,
                (complex(turns[k]), complex(shifts[k])),
                float(supports[k]),
                best[1] if rank == 0 else best[0],
                self.settings,
            )
            for rank, k in enumerate(good)
        ]

    def _proposals(self, fixed: _Group, moving: _Group) -> Placements:
        """How the fits of their pieces would place a group beside another, most agreed first."""
        parts, owners = [], []
        for owner, (p, q) in enumerate(product(fixed.motions, moving.motions)):
            (turn_p, shift_p), (turn_q, shift_q) = fixed.motions[p], moving.motions[q]
            turns, shifts, supports = self.fits[p, q]
            whole = turn_p * turns * np.conj(turn_q)
            parts.append((whole, turn_p * shifts + shift_p - whole * shift_q, supports))
            owners.append(np.full(len(turns), owner))
        turns, shifts, supports = (np.concatenate(part) for part in zip(*parts, strict=True))
        if len(parts) == 1:
            return turns, shifts, supports
        top = np.argsort(-supports, kind="stable")[:VOTERS]
        turns, shifts, supports = turns[top], shifts[top], supports[top]
        owned = np.concatenate(owners)[top]
        distance = apart(moving.outline, turns[:, None], shifts[:, None], turns, shifts)
        agree = (distance < self.settings.slide_mm) & (owned[:, None] != owned)
        votes = supports + agree @ supports
        order = np.argsort(-votes, kind="stable")
        kept = distinct(
            moving.outline, turns[order], shifts[order], self.solver.tries, self.settings.gap_mm
        )
        order = order[kept]
        return turns[order], shifts[order], votes[order]

    def _assembled(self, state: _State) -> Assembly:
        """The state as an assembly: the main group, and further ones that can be trusted."""
        main, *others = sorted(state.groups, key=lambda group: (not group.locked, -group.area))
        trusted = [g for g in others if len(g.motions) > 1 and min(g.trust.values()) >= ISLAND]
        confidence: dict[str, float] = {}
        islands = []
        for group in (main, *trusted):
            islands.append({i: self._pose(i, *motion) for i, motion in group.motions.items()})
            confidence |= group.trust
            if not group.locked:
                first, *rest = group.trust
                confidence[first] = max((group.trust[i] for i in rest), default=0.0)
        return Assembly.of(self.puzzle, *islands, confidence=confidence)

    def _pose(self, piece: str, turn: complex, shift: complex) -> Pose:
        return self.locked.get(piece) or pose_of(turn, shift * self.unit_mm)


def _relative(group: _Group) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Turns and shifts of a group's pieces, by id, as seen from the first of them."""
    motions = np.array([group.motions[i] for i in sorted(group.motions)])
    turns, shifts = motions[:, 0], motions[:, 1]
    return turns * np.conj(turns[0]), (shifts - shifts[0]) * np.conj(turns[0])
