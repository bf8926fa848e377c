"""All poses of a group of pieces together, moved a little so that rims lie evenly side by side.

What is minimised, by gradient descent on turns and shifts: how far each piece of rim that faces a
neighbour is from lying at the usual distance from it, overlap, and how far pieces stray from where
the search put them. Rims of large gaps count less and less, so that lost material does not pull.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reassembly.assembly.table import Motion, composed, inverse, to_array
from reassembly.matching.rim import CELL_MM, REACH_MM, Rim
from reassembly.matching.strip import FACING, NEAR_MM, beside

__all__ = ["RefineSettings", "refine"]


@dataclass(frozen=True)
class RefineSettings:
    """What poses are drawn to."""

    steps: int = 200
    rate: float = 0.05
    """Largest move of a step, in units of `far_mm`."""
    gap_mm: float = 1.5
    """Usual distance of rims that belong together."""
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
    pairs = _touching(rims, group)
    if not pairs or len(ids) < 2:
        return dict(group)
    fixed = held & set(ids) or {ids[0]}
    number = {i: k for k, i in enumerate(ids)}
    begin = torch.tensor(np.array([to_array(group[i]) for i in ids]))
    size = torch.tensor([rims[i].radius_mm for i in ids], dtype=torch.float64)
    unit = torch.stack([settings.far_mm / size, *[torch.full_like(size, settings.far_mm)] * 2], -1)
    free = torch.tensor([i not in fixed for i in ids])[:, None]
    move = torch.zeros_like(begin, requires_grad=True)
    maps = {i: torch.from_numpy(rims[i].signed).double()[None, None] for i in ids}
    optimiser = torch.optim.Adam([move], lr=settings.rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, settings.steps)
    for _ in range(settings.steps):
        motions = begin + move * unit * free
        cost = settings.stray * (move**2 * free).sum()
        for i, j, points, weight in pairs:
            places = _in_frame(motions[number[i]], motions[number[j]], points)
            distance = _distance(rims[i], maps[i], places)
            miss = distance - settings.gap_mm
            even = (miss**2 / (miss**2 + settings.bound_mm**2)) * weight
            within = (-distance).clamp_min(0) ** 2 / settings.bound_mm**2
            cost = cost + even.sum() + settings.overlap * (within * weight).sum()
        optimiser.zero_grad()
        cost.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
    moved = (begin + move * unit * free).detach().numpy()
    return {
        i: group[i] if i in fixed else (float(row[0]), complex(row[1], row[2]))
        for i, row in zip(ids, moved, strict=True)
    }


def _touching(
    rims: Mapping[str, Rim], group: Mapping[str, Motion]
) -> list[tuple[str, str, Tensor, Tensor]]:
    """Pairs that touch: a piece, another, the points (N, 2) of the other's rim that face it, in the
    other's frame, and what each counts, so that a pair counts by its length of contact."""
    found = []
    for i in group:
        for j in group:
            if i == j:
                continue
            motion = composed(inverse(group[i]), group[j])
            if abs(motion[1]) > rims[i].radius_mm + rims[j].radius_mm + NEAR_MM:
                continue
            _, signed, _, facing = beside(rims[i], rims[j], to_array(motion)[None])
            joined = (np.abs(signed[0]) < NEAR_MM) & (facing[0] < FACING)
            if joined.sum() < 8:
                continue
            points = torch.from_numpy(rims[j].points[joined]).double()
            weight = torch.full((len(points),), rims[j].step_mm / 20, dtype=torch.float64)
            found.append((i, j, points, weight))
    return found


def _in_frame(fixed: Tensor, moving: Tensor, points: Tensor) -> Tensor:
    """Points (N, 2) of the moving piece in the fixed one's centred frame."""
    world = points @ _matrix(moving[0]).mT + moving[1:]
    return (world - fixed[1:]) @ _matrix(fixed[0])


def _matrix(turn: Tensor) -> Tensor:
    """(2, 2), as `pose.rotation_matrix`."""
    c, s = turn.cos(), turn.sin()
    return torch.stack([torch.stack([c, s]), torch.stack([-s, c])])


def _distance(rim: Rim, signed: Tensor, places: Tensor) -> Tensor:
    """(N,): distances from a rim at places (N, 2), between cells of its map."""
    height, width = signed.shape[-2:]
    corner = torch.from_numpy(rim.corner).double()
    at = (places - corner) / CELL_MM
    grid = 2 * at / at.new_tensor([width - 1, height - 1]) - 1
    found = torch.nn.functional.grid_sample(
        signed - REACH_MM, grid[None, None], align_corners=True, padding_mode="zeros"
    )
    return found[0, 0, 0] + REACH_MM
