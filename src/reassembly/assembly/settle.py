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

from reassembly.assembly.table import Candidate, Motion, Table, to_array
from reassembly.matching.motions import matrices

__all__ = ["SettleSettings", "followed", "settle"]

Floats = NDArray[np.float64]

DONE_MM = 1e-6
"""Smaller moves are not worth another round."""


@dataclass(frozen=True)
class SettleSettings:
    """What counts how much."""

    arm_mm: float = 30.0
    """A turn counts as the way that a point so far from the middle goes."""
    stray: float = 0.03
    """How much staying where the search put a piece counts, against a join that is certain."""
    rounds: int = 30
    """How often all misses are taken for linear ones, at most."""


def followed(table: Table, group: Mapping[str, Motion]) -> list[Candidate]:
    """Of every two pieces of a group that lie as a candidate has it, the likeliest such one."""
    best: dict[tuple[str, str], Candidate] = {}
    for candidate in table.followed(group):
        pair = candidate.fixed, candidate.moving
        if pair not in best or best[pair].logit < candidate.logit:
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
    from scipy.sparse import coo_array, eye_array, kron
    from scipy.sparse.linalg import spsolve

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
    root = np.sqrt(np.asarray(weights, dtype=float))

    numbers = np.arange(len(joins))
    ends = np.concatenate([root, -root]), (np.tile(numbers, 2), np.append(one, other))
    level = kron(coo_array(ends, shape=(len(joins), len(ids))), eye_array(3))
    swing = np.concatenate([3 * numbers + 1, 3 * numbers + 2]), np.tile(3 * one, 2)
    columns = np.flatnonzero(np.repeat(free, 3))
    moves = np.zeros(3 * len(ids))
    for _ in range(settings.rounds):
        now = begin + moves.reshape(-1, 3) / unit
        arms = (matrices(now[one, 0]) @ wanted[:, 1:, None])[..., 0]
        turn = now[one, 0] + wanted[:, 0] - now[other, 0]
        turn = np.remainder(turn + np.pi, 2 * np.pi) - np.pi
        shift = now[one, 1:] + arms - now[other, 1:]
        misses = root[:, None] * np.column_stack([turn * settings.arm_mm, shift])
        # How far a join's two pieces are apart depends on the turn of the first one, too.
        arms *= root[:, None] / settings.arm_mm
        swung = coo_array((np.append(arms[:, 1], -arms[:, 0]), swing), shape=level.shape)
        slopes = (level + swung).tocsc()[:, columns]
        right = slopes.T @ misses.ravel() + settings.stray**2 * moves[columns]
        step = spsolve(slopes.T @ slopes + settings.stray**2 * eye_array(len(columns)), right)
        moves[columns] -= step
        if np.abs(step).max() < DONE_MM:
            break
    found = begin + moves.reshape(-1, 3) / unit
    return {
        i: group[i] if i in fixed else (float(row[0]), complex(row[1], row[2]))
        for i, row in zip(ids, found, strict=True)
    }
