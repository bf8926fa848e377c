"""Poses of a group of pieces that agree best with all joins between them.

A search lays pieces as one join after the other has it; joins that close a loop then disagree by a
little, and every join is known better than it was proposed: the verifier tells how far it is off.
Here all of them are weighed against each other, by least squares over turns and shifts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reassembly.assembly.table import Candidate, Motion, Table, composed, inverse, to_array
from reassembly.matching.motions import matrices

__all__ = ["SettleSettings", "followed", "settle"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SettleSettings:
    """What counts how much."""

    arm_mm: float = 30.0
    """A turn counts as the way that a point so far from the middle goes."""
    stray: float = 0.03
    """How much staying where the search put a piece counts, against a join that is certain."""


def followed(table: Table, group: Mapping[str, Motion]) -> list[Candidate]:
    """Of every two pieces of a group that lie as a candidate has it, the likeliest such one."""
    best: dict[tuple[str, str], Candidate] = {}
    for candidate in (*table.accepted, *table.candidates):
        pair = candidate.fixed, candidate.moving
        if pair[0] not in group or pair[1] not in group:
            continue
        if pair in best and best[pair].logit >= candidate.logit:
            continue
        lies = composed(inverse(group[pair[0]]), group[pair[1]])
        if table.same(lies, candidate.motion):
            best[pair] = candidate
    return list(best.values())


def settle(
    group: Mapping[str, Motion],
    joins: Sequence[Candidate],
    weights: Sequence[float],
    held: frozenset[str] = frozenset(),
    settings: SettleSettings | None = None,
) -> dict[str, Motion]:
    """The poses of a group that agree best with its joins, as they were corrected; those of `held`
    pieces stay, and the first piece's if none is.

    Args:
        weights: of the joins, from 0 to 1.
    """
    from scipy.optimize import least_squares

    settings = settings or SettleSettings()
    ids = list(group)
    fixed = held & set(ids) or {ids[0]}
    free = np.array([i not in fixed for i in ids])
    if not joins or not free.any():
        return dict(group)
    number = {i: k for k, i in enumerate(ids)}
    one, other = np.array([[number[c.fixed], number[c.moving]] for c in joins]).T
    wanted = np.array([to_array(c.corrected or c.motion) for c in joins])
    begin = np.array([to_array(group[i]) for i in ids])
    unit = np.array([settings.arm_mm, 1.0, 1.0])
    root = np.sqrt(np.asarray(weights, dtype=float))[:, None]

    def motions(moves: Floats) -> Floats:
        now = begin.copy()
        now[free] += moves.reshape(-1, 3) / unit
        return now

    def misses(moves: Floats) -> Floats:
        now = motions(moves)
        turned = matrices(now[one, 0]) @ wanted[:, 1:, None]
        shift = now[one, 1:] + turned[..., 0] - now[other, 1:]
        turn = np.remainder(now[one, 0] + wanted[:, 0] - now[other, 0] + np.pi, 2 * np.pi) - np.pi
        off = np.column_stack([turn * settings.arm_mm, shift])
        return np.concatenate([(root * off).ravel(), settings.stray * moves])

    found = motions(least_squares(misses, np.zeros(3 * int(free.sum())), max_nfev=30).x)
    return {
        i: group[i] if i in fixed else (float(row[0]), complex(row[1], row[2]))
        for i, row in zip(ids, found, strict=True)
    }
