"""All poses of a group of pieces together, moved a little so that rims lie evenly side by side.

What is minimised, by gradient descent on turns and shifts: how far each piece of rim that faces a
neighbour is from lying at the distance from it that the two have, overlap, and how far pieces stray
from where they were. Rims of large gaps count less and less, so that lost material does not pull.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

from reassembly.assembly.table import Motion, composed, inverse, to_array
from reassembly.matching.rim import CELL_MM, Rim
from reassembly.matching.strip import FACING, NEAR_MM, beside

__all__ = ["RefineSettings", "refine"]

LEAST_POINTS = 8
"""Of a rim that face another piece: with fewer, the two do not touch."""
UNIT_MM = 20.0
"""Contact of this length counts one."""


@dataclass(frozen=True)
class RefineSettings:
    """What poses are drawn to."""

    steps: int = 200
    rate: float = 0.05
    """Largest move of a step, in units of `far_mm`."""
    gap_mm: float | None = None
    """Distance of rims that belong together; None for the one that two pieces have beforehand, the
    median along their contact: it depends on how much material is lost."""
    bound_mm: float = 3.0
    """Distances that differ by more from it count less and less."""
    overlap: float = 2.0
    """How much more a rim counts that lies within the other piece."""
    stray: float = 0.05
    """How much straying counts, against rims."""
    far_mm: float = 4.0
    """Straying by so much, at a piece's rim, counts one."""


def refine(
    rims: Mapping[str, Rim],
    group: Mapping[str, Motion],
    held: frozenset[str] = frozenset(),
    settings: RefineSettings | None = None,
) -> dict[str, Motion]:
    """The poses of a group, refined; those of `held` pieces stay, and the first piece's if none is.

    Args:
        group: motions of pieces about their centroids, in one frame.
    """
    settings = settings or RefineSettings()
    ids = list(group)
    touching = _touching(rims, group, settings.gap_mm)
    if touching is None or len(ids) < 2:
        return dict(group)
    fixed = held & set(ids) or {ids[0]}
    begin = torch.tensor(np.array([to_array(group[i]) for i in ids]))
    size = torch.tensor([rims[i].radius_mm for i in ids], dtype=torch.float64)
    unit = torch.stack([settings.far_mm / size, *[torch.full_like(size, settings.far_mm)] * 2], -1)
    free = torch.tensor([i not in fixed for i in ids])[:, None]
    move = torch.zeros_like(begin, requires_grad=True)
    maps = _Maps.of([rims[i] for i in ids])
    # Of torch's optimisers only the step is taken: the classes import torch's compiler, which takes
    # longer than to refine ten pieces.
    mean, square, step = torch.zeros_like(begin), torch.zeros_like(begin), torch.tensor(0.0)
    for done in range(settings.steps):
        motions = begin + move * unit * free
        world = _carried(touching.points, motions[touching.moving])
        distance = maps.distance(touching.fixed, _carried_back(world, motions[touching.fixed]))
        miss = distance - touching.gap_mm
        even = miss**2 / (miss**2 + settings.bound_mm**2)
        within = settings.overlap * (-distance).clamp_min(0) ** 2 / settings.bound_mm**2
        cost = ((even + within) * touching.weight).sum()
        cost = cost + settings.stray * (move**2 * free).sum()
        (slope,) = torch.autograd.grad(cost, move)
        with torch.no_grad():
            adam(
                [move],
                [slope],
                [mean],
                [square],
                [],
                [step],
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=settings.rate * (1 + math.cos(math.pi * done / settings.steps)) / 2,
                weight_decay=0.0,
                eps=1e-8,
                maximize=False,
            )
    moved = (begin + move * unit * free).detach().numpy()
    return {
        i: group[i] if i in fixed else (float(row[0]), complex(row[1], row[2]))
        for i, row in zip(ids, moved, strict=True)
    }


@dataclass(frozen=True, eq=False)
class _Touching:
    """Points of rims that face another piece, N in all."""

    fixed: Tensor
    """(N,): numbers of the pieces that are faced."""
    moving: Tensor
    """(N,): numbers of the pieces that the points are on."""
    points: Tensor
    """(N, 2), in the frames of the latter."""
    weight: Tensor
    """(N,): what each counts, so that a pair counts by its length of contact."""
    gap_mm: Tensor
    """(N,): how far each should be away."""


def _touching(
    rims: Mapping[str, Rim], group: Mapping[str, Motion], gap_mm: float | None
) -> _Touching | None:
    """What faces what; None where nothing does."""
    fixed, moving, points, weights, gaps = [], [], [], [], []
    for number, i in enumerate(group):
        for other, j in enumerate(group):
            motion = composed(inverse(group[i]), group[j])
            if i == j or abs(motion[1]) > rims[i].radius_mm + rims[j].radius_mm + NEAR_MM:
                continue
            _, signed, _, facing = beside(rims[i], rims[j], to_array(motion)[None])
            joined = (np.abs(signed[0]) < NEAR_MM) & (facing[0] < FACING)
            if joined.sum() < LEAST_POINTS:
                continue
            own = rims[j].points[joined]
            points.append(own)
            fixed.append(np.full(len(own), number))
            moving.append(np.full(len(own), other))
            weights.append(np.full(len(own), rims[j].step_mm / UNIT_MM))
            usual = max(0.0, float(np.median(signed[0][joined]))) if gap_mm is None else gap_mm
            gaps.append(np.full(len(own), usual))
    if not points:
        return None
    return _Touching(
        torch.from_numpy(np.concatenate(fixed)),
        torch.from_numpy(np.concatenate(moving)),
        torch.from_numpy(np.concatenate(points)).double(),
        torch.from_numpy(np.concatenate(weights)),
        torch.from_numpy(np.concatenate(gaps)),
    )


def _carried(points: Tensor, motions: Tensor) -> Tensor:
    """Points (N, 2), each carried by its own motion (N, 3); see `pose.rotation_matrix`."""
    c, s = motions[:, 0].cos(), motions[:, 0].sin()
    x, y = points[:, 0], points[:, 1]
    return torch.stack([c * x + s * y, c * y - s * x], dim=-1) + motions[:, 1:]


def _carried_back(points: Tensor, motions: Tensor) -> Tensor:
    """Undoes `_carried`."""
    c, s = motions[:, 0].cos(), motions[:, 0].sin()
    x, y = (points - motions[:, 1:]).unbind(-1)
    return torch.stack([c * x - s * y, s * x + c * y], dim=-1)


@dataclass(frozen=True, eq=False)
class _Maps:
    """The maps of distances of all pieces, one behind the other."""

    cells: Tensor
    first: Tensor
    size: Tensor
    """(P, 2): width and height."""
    corner: Tensor

    @classmethod
    def of(cls, rims: Sequence[Rim]) -> _Maps:
        counts = [rim.signed.size for rim in rims]
        return cls(
            torch.from_numpy(np.concatenate([rim.signed.ravel() for rim in rims])).double(),
            torch.tensor(np.cumsum([0, *counts[:-1]])),
            torch.tensor([rim.signed.shape[::-1] for rim in rims]),
            torch.from_numpy(np.stack([rim.corner for rim in rims])).double(),
        )

    def distance(self, piece: Tensor, places: Tensor) -> Tensor:
        """(N,): distances from the rims of pieces (N,) at places (N, 2), between cells."""
        at = (places - self.corner[piece]) / CELL_MM
        size = self.size[piece]
        low = at.detach().floor().long()
        low = torch.minimum(low.clamp_min(0), size - 2)
        part = (at - low).clamp(0, 1)
        index = self.first[piece] + low[:, 1] * size[:, 0] + low[:, 0]
        x, y = part.unbind(-1)
        above = self.cells[index] * (1 - x) + self.cells[index + 1] * x
        below = self.cells[index + size[:, 0]] * (1 - x) + self.cells[index + size[:, 0] + 1] * x
        return above * (1 - y) + below * y
