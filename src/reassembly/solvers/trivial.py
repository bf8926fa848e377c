"""Solvers that look at nothing but sizes: they show what a score is worth, for no other use.

Each puts the centroids by a rule and turns every piece at random about its own. Locked pieces stay
where they are, and the others follow the rule around them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from reassembly.pose import Pose, rotation_matrix
from reassembly.puzzle import Assembly, Fragment, Provenance, Puzzle
from reassembly.solvers.base import ProgressCallback, report

__all__ = ["Random", "Ring", "Stack"]


class _Trivial(ABC):
    """Centroids by a rule, rotations at random."""

    name: str

    @abstractmethod
    def centroids(
        self,
        free: Sequence[Fragment],
        fixed: Sequence[Fragment],
        places: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> NDArray[np.float64]:
        """Where the free pieces' centroids go, (n, 2), mm, given the fixed pieces and theirs,
        (k, 2), mm."""

    def solve(
        self,
        puzzle: Puzzle,
        *,
        seed: int = 0,
        locked: Mapping[str, Pose] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Assembly:
        rng = np.random.default_rng([seed, *self.name.encode()])
        poses = dict(locked or {})
        fixed = [puzzle[i] for i in poses]
        free = [fragment for fragment in puzzle.fragments if fragment.id not in poses]
        places = [poses[fragment.id].apply(fragment.centroid_mm[None])[0] for fragment in fixed]
        centroids = self.centroids(free, fixed, np.array(places).reshape(-1, 2), rng)
        for fragment, centroid in zip(free, centroids, strict=True):
            turn = rng.uniform(-math.pi, math.pi)
            x, y = centroid - rotation_matrix(turn) @ fragment.centroid_mm
            poses[fragment.id] = Pose(x, y, turn)
        assembly = Assembly.of(puzzle, poses, provenance=Provenance(self.name, seed=seed))
        report(progress, 1.0, "placing", assembly)
        return assembly


def _areas(fragments: Sequence[Fragment]) -> NDArray[np.float64]:
    return np.array([fragment.area_mm2 for fragment in fragments], dtype=np.float64)


def _angle_between(inner: float, a: float, b: float) -> float:
    """Angle, seen from the centre of a circle of radius `inner`, between two circles of radius a
    and b that touch it and each other (law of cosines)."""
    cosine = 1 - 2 * a * b / ((inner + a) * (inner + b))
    return math.acos(max(-1.0, cosine))


class Stack(_Trivial):
    """All centroids on one point: the largest locked piece's, if there is one."""

    name = "stack"

    def centroids(
        self,
        free: Sequence[Fragment],
        fixed: Sequence[Fragment],
        places: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> NDArray[np.float64]:
        point = places[_areas(fixed).argmax()] if fixed else np.zeros(2)
        return np.tile(point, (len(free), 1))


class Random(_Trivial):
    """Centroids uniform in a disc that has the area of all pieces together, around the locked
    pieces' common centroid, if there are any."""

    name = "random"

    def centroids(
        self,
        free: Sequence[Fragment],
        fixed: Sequence[Fragment],
        places: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> NDArray[np.float64]:
        centre = np.average(places, axis=0, weights=_areas(fixed)) if fixed else np.zeros(2)
        radius = math.sqrt((_areas(free).sum() + _areas(fixed).sum()) / math.pi)
        distance = radius * np.sqrt(rng.random(len(free)))
        angle = rng.uniform(0.0, math.tau, len(free))
        directions = np.column_stack([np.cos(angle), np.sin(angle)])
        return np.asarray(centre + distance[:, None] * directions, dtype=np.float64)


class Ring(_Trivial):
    """The largest piece in the middle, the others around it in random order.

    Pieces count as circles of their area. Each touches the circle in the middle and the one
    before it; when the ring is full, the next one begins around it. The largest locked piece, if
    there is one, is the middle.
    """

    name = "ring"

    def centroids(
        self,
        free: Sequence[Fragment],
        fixed: Sequence[Fragment],
        places: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> NDArray[np.float64]:
        radii = np.sqrt(_areas(free) / math.pi)
        centroids = np.zeros((len(free), 2))
        others = list(range(len(free)))
        if fixed:
            centre, inner = places[_areas(fixed).argmax()], math.sqrt(_areas(fixed).max() / math.pi)
        else:
            others.remove(int(radii.argmax()))
            centre, inner = np.zeros(2), float(radii.max())
        first = last = None
        outer, angle, turned = inner, 0.0, 0.0
        for k in rng.permutation(others):
            radius = float(radii[k])
            if last is not None and first is not None:
                step = _angle_between(inner, last, radius)
                turned += step
                if turned + _angle_between(inner, radius, first) > math.tau:
                    inner, last = outer, None
                angle += step
            if last is None:
                first, angle, turned = radius, rng.uniform(0.0, math.tau), 0.0
            last, outer = radius, max(outer, inner + 2 * radius)
            centroids[k] = centre + (inner + radius) * np.array([math.cos(angle), math.sin(angle)])
        return centroids
