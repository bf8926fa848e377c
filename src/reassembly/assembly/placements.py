"""Many motions and many placements of two pieces at once, as arrays.

A search asks about thousands of placements, hardly two of the same pieces: what is asked of each
is asked of all of them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Flags",
    "Floats",
    "Motions",
    "Numbers",
    "Placements",
    "Shifts",
    "composed_all",
    "inverse_all",
    "spans",
]

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]
Shifts = NDArray[np.complex128]
Motions = tuple[Floats, Shifts]
"""Turns and shifts, (K,), each a motion in the sense of `assembly.table`."""


def composed_all(outer: Motions, inner: Motions) -> Motions:
    """`assembly.table.composed` of each two."""
    return outer[0] + inner[0], outer[1] + np.exp(-1j * outer[0]) * inner[1]


def inverse_all(motions: Motions) -> Motions:
    """`assembly.table.inverse` of each."""
    return -motions[0], -np.exp(1j * motions[0]) * motions[1]


@dataclass(frozen=True, eq=False)
class Placements:
    """K placements of two pieces, which are named by numbers."""

    fixed: Numbers
    moving: Numbers
    turns: Floats
    shifts: Shifts
    """Of the moving pieces into the fixed ones' centred frames."""

    @classmethod
    def between(
        cls, fixed: Numbers, moving: Numbers, lies: Motions, moving_lies: Motions
    ) -> Placements:
        """Of pieces that lie so in a common frame."""
        return cls(fixed, moving, *composed_all(inverse_all(lies), moving_lies))

    def __len__(self) -> int:
        return len(self.fixed)

    def __getitem__(self, which: Any) -> Placements:
        return Placements(
            self.fixed[which], self.moving[which], self.turns[which], self.shifts[which]
        )

    @property
    def motions(self) -> Motions:
        return self.turns, self.shifts

    def seen_from(self, pieces: Numbers) -> Placements:
        """The same with these pieces as the fixed ones."""
        kept = pieces == self.fixed
        turns, shifts = inverse_all(self.motions)
        return Placements(
            pieces,
            np.where(kept, self.moving, self.fixed),
            np.where(kept, self.turns, turns),
            np.where(kept, self.shifts, shifts),
        )


def spans(first: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    """All numbers of K spans, given by first number and length, and before them which span each
    is of."""
    span = np.repeat(np.arange(len(counts)), counts)
    return span, np.arange(len(span)) + (first - np.cumsum(counts) + counts)[span]
