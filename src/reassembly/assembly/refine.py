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
from numpy.typing import NDArray

from reassembly.assembly.contact import Contacts
from reassembly.assembly.placements import Floats, Numbers, Placements
from reassembly.assembly.table import Motion, to_array
from reassembly.matching.rim import Rim

__all__ = ["RefineSettings", "refine"]

LEAST_POINTS = 8
"""Of a rim that face another piece: with fewer, the two do not touch."""
UNIT_MM = 20.0
"""Contact of this length counts one."""
BETAS = 0.9, 0.999
"""How much of what is known of slopes and of their squares is kept from step to step."""


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
    touching = _touching([rims[i] for i in ids], list(group.values()), settings.gap_mm)
    if touching is None:
        return dict(group)
    fixed = held & set(ids) or {ids[0]}
    begin = np.array([to_array(group[i]) for i in ids])
    turn = np.array([settings.far_mm / rims[i].radius_mm for i in ids])
    unit = np.stack([turn, *[np.full_like(turn, settings.far_mm)] * 2], axis=-1)
    unit[[i in fixed for i in ids]] = 0.0  # These do not move.
    move, mean, square = (np.zeros_like(begin) for _ in range(3))
    for done in range(settings.steps):
        slope = touching.slope(begin + move * unit, settings) * unit
        slope += 2 * settings.stray * move
        # A step of Adam.
        rate = settings.rate * (1 + math.cos(math.pi * done / settings.steps)) / 2
        mean += (1 - BETAS[0]) * (slope - mean)
        square += (1 - BETAS[1]) * (slope**2 - square)
        size = np.sqrt(square / (1 - BETAS[1] ** (done + 1))) + 1e-8
        move -= rate * mean / (1 - BETAS[0] ** (done + 1)) / size
    moved = begin + move * unit
    return {
        i: group[i] if i in fixed else (float(row[0]), complex(row[1], row[2]))
        for i, row in zip(ids, moved, strict=True)
    }


@dataclass(frozen=True, eq=False)
class _Touching:
    """Points of rims that face another piece: N of K pairs, in which either piece is once the
    moving one; those of a pair one behind the other."""

    contacts: Contacts
    fixed: Numbers
    """(K,): pieces that are faced."""
    moving: Numbers
    """(K,): pieces that the points are on."""
    counts: Numbers
    """(K,): how many points there are."""
    points: NDArray[np.complex128]
    """(N,): x + iy in the frames of the moving pieces."""
    weight: Floats
    """(N,): what each counts, so that a pair counts by its length of contact."""
    gap_mm: Floats
    """(N,): how far each should be away."""

    def slope(self, motions: Floats, settings: RefineSettings) -> Floats:
        """(P, 3): how what rims cost grows with the turns and shifts (P, 3) of pieces."""
        turns, shifts = motions[:, 0], motions[:, 1] + 1j * motions[:, 2]
        lies = Placements.between(
            self.fixed,
            self.moving,
            (turns[self.fixed], shifts[self.fixed]),
            (turns[self.moving], shifts[self.moving]),
        )
        arms = np.repeat(np.exp(-1j * lies.turns), self.counts) * self.points
        places = arms + np.repeat(lies.shifts, self.counts)
        distance, outward = self.contacts.distance(np.repeat(self.fixed, self.counts), places)
        bound = settings.bound_mm**2
        miss = distance - self.gap_mm
        growth = 2 * miss * bound / (miss**2 + bound) ** 2
        growth -= 2 * settings.overlap / bound * np.maximum(-distance, 0)
        pull = self.weight * growth * outward
        # A turn by t multiplies by exp(-it); what is complex here stands for its two parts.
        starts = np.cumsum(self.counts) - self.counts
        swing = np.add.reduceat(_dot(pull, -1j * arms), starts)
        push = np.add.reduceat(pull, starts)
        back = np.exp(-1j * turns[self.fixed]) * push
        slope = np.zeros_like(motions)
        np.add.at(slope, self.moving, np.stack([swing, back.real, back.imag], axis=-1))
        lever = -swing + _dot(push, 1j * lies.shifts)
        np.add.at(slope, self.fixed, np.stack([lever, -back.real, -back.imag], axis=-1))
        return slope


def _touching(
    rims: Sequence[Rim], motions: Sequence[Motion], gap_mm: float | None
) -> _Touching | None:
    """What faces what; None where nothing does."""
    contacts = Contacts(rims)
    turns = np.array([turn for turn, _ in motions])
    shifts = np.array([shift for _, shift in motions])
    numbers = np.arange(len(rims))
    near = contacts.near(numbers, numbers[:, None], shifts[:, None] - shifts)
    fixed, moving = np.nonzero(near & (numbers != numbers[:, None]))
    lies = Placements.between(
        fixed, moving, (turns[fixed], shifts[fixed]), (turns[moving], shifts[moving])
    )
    beside = contacts.beside(lies)
    joined = np.bincount(beside.placement[beside.joined], minlength=len(lies))
    kept = np.flatnonzero(joined >= LEAST_POINTS)
    if not len(kept):
        return None
    chosen = beside.joined & np.isin(beside.placement, kept)
    counts, fixed, moving = joined[kept], fixed[kept], moving[kept]
    signed = np.split(beside.signed[chosen], np.cumsum(counts)[:-1])
    usual = [max(0.0, float(np.median(own))) if gap_mm is None else gap_mm for own in signed]
    return _Touching(
        contacts,
        fixed,
        moving,
        counts,
        contacts.points_of(np.repeat(moving, counts), beside.point[chosen]).astype(np.complex128),
        np.repeat(contacts.steps[moving] / UNIT_MM, counts),
        np.repeat(usual, counts),
    )


def _dot(one: NDArray[np.complex128], other: NDArray[np.complex128]) -> Floats:
    """Inner products of vectors x + iy."""
    product: Floats = one.real * other.real + one.imag * other.imag
    return product
