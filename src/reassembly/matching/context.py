"""What the other placements of a puzzle say of one: whether a likelier one claims the same stretch
of rim, and whether third pieces confirm it.

Two pieces alone often seem to join in several ways, and strangers seem to join; of what is false,
most contradicts what is likelier elsewhere. Every placement gets one row of `CONTEXT`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reassembly.matching.motions import Motions, brought_back, inverse

__all__ = ["CONTEXT", "Placed", "context"]

Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]

CONTEXT = ("rival_there", "rival_here", "ahead", "confirmed", "confirmations")
"""The likeliest placement of another piece on the same stretch of the fixed piece's rim, and of the
moving one's; how much likelier this one is than both; how likely the likeliest two placements that
lay both pieces to a third one as this one does, the less likely of them; and over all third pieces,
how far they do."""
HEARD = 20
"""Placements of a pair that speak for or against others: the likeliest."""
RIVAL_MM = 25.0
"""Placements whose contacts have their middles no further apart claim the same stretch."""
LOOP_MM, CHORD = 15.0, 2 * math.sin(math.radians(15.0) / 2)
"""A third piece confirms a placement if the way around it ends no further off: both together count,
as in an ellipsoid; turns as chords of the circle."""
TOLD = 16
"""Pairs after which progress is told."""
LEAST = -6.0
"""What is less likely says nothing."""


@dataclass(frozen=True, eq=False)
class Placed:
    """Placements of pairs of a puzzle, K in all."""

    fixed: Numbers
    """(K,): numbers of pieces."""
    moving: Numbers
    proposed: Motions
    """(K, 3): of the moving piece into the fixed one's centred frame."""
    corrected: Motions
    """(K, 3): the same, moved to where the verifier thinks that it belongs."""
    middle: Floats
    """(K, 2): of the contact of what was proposed, in the fixed piece's centred frame."""
    logits: Floats
    """(K,)."""


def context(placed: Placed, progress: Callable[[float], None] | None = None) -> NDArray[np.float32]:
    """(K, `len(CONTEXT)`).

    Args:
        progress: called with the share that is done.
    """
    pairs = _pairs(placed)
    heard = np.concatenate([rows[:HEARD] for rows in pairs.values()])
    rivals = _rivals(placed, heard)
    ahead = placed.logits - rivals.max(axis=1)
    loops = np.full((len(placed.logits), 2), (LEAST, 0.0))
    for rows, said in _loops(placed, pairs, progress):
        loops[rows, 0] = np.maximum(loops[rows, 0], said)
        loops[rows, 1] += np.logaddexp(0.0, said)
    return np.column_stack([rivals, ahead, loops]).astype(np.float32)


def _pairs(placed: Placed) -> Mapping[tuple[int, int], Numbers]:
    """Rows of each pair, the likeliest first."""
    order = np.argsort(-placed.logits, kind="stable")
    names = np.column_stack([placed.fixed, placed.moving])[order]
    pairs, pair = np.unique(names, axis=0, return_inverse=True)
    by_pair = np.argsort(pair.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(pair.ravel()))[:-1]
    rows = np.split(order[by_pair], ends)
    return {(int(a), int(b)): own for (a, b), own in zip(pairs, rows, strict=True)}


def _rivals(placed: Placed, heard: Numbers) -> Floats:
    """(K, 2): on the fixed piece's rim and on the moving one's."""
    count = len(placed.logits)
    # Every placement claims two stretches: first all of fixed pieces, then all of moving ones.
    piece = np.concatenate([placed.fixed, placed.moving])
    partner = np.concatenate([placed.moving, placed.fixed])
    middle = np.concatenate([placed.middle, brought_back(placed.middle, placed.proposed)])
    likely = np.tile(placed.logits, 2)
    claims = np.concatenate([heard, heard + count])
    best = np.full(2 * count, LEAST)
    for each in np.unique(piece):
        own, others = np.flatnonzero(piece == each), claims[piece[claims] == each]
        away = middle[own, None] - middle[others]
        claimed = (away**2).sum(axis=-1) < RIVAL_MM**2
        claimed &= partner[own, None] != partner[others]
        best[own] = np.where(claimed, likely[others], LEAST).max(axis=1, initial=LEAST)
    return best.reshape(2, count).T


def _loops(
    placed: Placed,
    pairs: Mapping[tuple[int, int], Numbers],
    progress: Callable[[float], None] | None,
) -> Iterator[tuple[Numbers, Floats]]:
    """For every pair and third piece: placements of the pair, and how likely those are that agree
    with each around the third piece."""
    legs: dict[int, dict[int, _Legs]] = {}
    for (a, b), rows in pairs.items():
        told = rows[:HEARD]
        told = told[placed.logits[told] > LEAST]
        if len(told):
            motions, logits = placed.corrected[told], placed.logits[told]
            legs.setdefault(a, {})[b] = _Legs.of(motions, logits)
            legs.setdefault(b, {})[a] = _Legs.of(inverse(motions), logits)
    for done, ((a, b), rows) in enumerate(pairs.items()):
        if progress is not None and done % TOLD == 0:
            progress(done / len(pairs))
        own = _Legs.of(placed.corrected[rows], placed.logits[rows])
        from_b, to_c = legs.get(b, {}), legs.get(a, {})
        for c in sorted(from_b.keys() & to_c.keys()):
            yield rows, _agreeing(own, from_b[c], to_c[c])


@dataclass(frozen=True, eq=False)
class _Legs:
    """Placements of one pair, turns as complex numbers of length one."""

    turns: NDArray[np.complex64]
    shifts: NDArray[np.complex64]
    logits: Floats

    @classmethod
    def of(cls, motions: Motions, logits: Floats) -> _Legs:
        shifts = motions[:, 1] + 1j * motions[:, 2]
        turns = np.exp(-1j * motions[:, 0])
        return cls(turns.astype(np.complex64), shifts.astype(np.complex64), logits)


def _agreeing(own: _Legs, onward: _Legs, straight: _Legs) -> Floats:
    """(K,): for each way from a first piece to a second one how likely the likeliest way onward to
    a third one is that ends where a way straight there does: the less likely of the two counts."""
    ends = (own.shifts[:, None] + own.turns[:, None] * onward.shifts).ravel()
    turned = (own.turns[:, None] * onward.turns).ravel()
    # Turns and shifts in units of how far they may differ, as points of four dimensions.
    around, there = (
        np.stack(
            [shifts.real / LOOP_MM, shifts.imag / LOOP_MM, turns.real / CHORD, turns.imag / CHORD]
        )
        for shifts, turns in ((ends, turned), (straight.shifts, straight.turns))
    )
    apart = (around**2).sum(axis=0)[:, None] + (there**2).sum(axis=0) - 2 * around.T @ there
    met = np.flatnonzero(apart < 1)
    way, last = np.divmod(met, len(straight.logits))
    first, middle = np.divmod(way, len(onward.logits))
    said = np.full(len(own.logits), LEAST)
    np.maximum.at(said, first, np.minimum(onward.logits[middle], straight.logits[last]))
    return said
