"""What candidate joins say about any placement of two pieces, by which assemblies are judged.

A motion is a pair (turn in radians, shift in mm as a complex number x + iy), in the sense of
`matching.motions`: counter-clockwise as seen, y down, so that a turn by t multiplies x + iy by
exp(-it).
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reassembly.assembly.contact import Contacts
from reassembly.assembly.placements import (
    Flags,
    Floats,
    Motions,
    Numbers,
    Placements,
    Shifts,
    spans,
)
from reassembly.matching.rim import Rim
from reassembly.matching.strip import NEAR_MM
from reassembly.pose import SAME_DEG, SAME_MM

__all__ = [
    "LIGHT",
    "Candidate",
    "Motion",
    "Table",
    "TableSettings",
    "Touch",
    "composed",
    "inverse",
    "to_array",
]

Motion = tuple[float, complex]

NOTHING = -1
"""Instead of a piece's number."""
CELL = np.array([0.01, 0.5, 0.5])
"""Turn and shifts, radians and mm: placements of a pair that differ by less are told the same."""


def composed(outer: Motion, inner: Motion) -> Motion:
    """`inner` first."""
    return outer[0] + inner[0], outer[1] + cmath.exp(-1j * outer[0]) * inner[1]


def inverse(motion: Motion) -> Motion:
    """What undoes it."""
    return -motion[0], -cmath.exp(1j * motion[0]) * motion[1]


def to_array(motion: Motion) -> NDArray[np.float64]:
    """(3,), as in `matching.motions`."""
    return np.array([motion[0], motion[1].real, motion[1].imag])


@dataclass(frozen=True)
class Candidate:
    """A way to lay one piece beside another."""

    fixed: str
    moving: str
    motion: Motion
    """Of the moving piece into the fixed one's centred frame."""
    logit: float
    """That it is true."""
    corrected: Motion | None = None
    """Where the moving piece belongs if it is, as far as the verifier can tell."""


@dataclass(frozen=True)
class TableSettings:
    """How evidence of candidates becomes evidence of placements."""

    offset: float = 1.0
    """Of logits: candidates below it speak against a placement."""
    least: float = -1.5
    """What pieces count at least that touch as was proposed, however little the judge thinks of
    it."""
    unknown: float = -0.3
    """What pieces count that touch as nothing proposed. It says little: true neighbours that share
    a short edge often lie so."""
    touch_mm: float = 10.0
    """Contact of less length is none."""
    free_mm2: float = 1000.0
    """Overlap that costs nothing: worn pieces are proposed too close together, all along their
    rims, and some that lie where they belong do overlap. But no piece lies on another one."""
    overlap: float = 0.1
    """What every further mm^2 costs."""
    near_deg: float = 9.0
    near_mm: float = 8.0
    """A placement no further than this from a candidate is that candidate."""
    refused_deg: float = SAME_DEG + 1
    refused_mm: float = SAME_MM + 1
    """A placement no further than this from a rejected join is that join to a person, with some
    room, as poses are compared by and by."""
    accepted: float = 12.0
    rejected: float = -1e6
    """What a person's word counts: nothing makes up for a rejected join."""


LIGHT = TableSettings(free_mm2=15.0)
"""For lightly worn pieces, which lie where they are proposed."""


class Touch(NamedTuple):
    """Two pieces that touch."""

    one: str
    other: str
    evidence: float
    proposed: bool
    """Whether any candidate lays them so."""


@dataclass(eq=False)
class Table:
    """Evidence for any placement of any two pieces of a puzzle."""

    rims: Mapping[str, Rim]
    candidates: Sequence[Candidate]
    settings: TableSettings = field(default_factory=TableSettings)
    accepted: Sequence[Candidate] = ()
    rejected: Sequence[Candidate] = ()
    grown_from: int | None = None
    """How many candidates of a pair groups are joined by: the likeliest; None for all."""

    def __post_init__(self) -> None:
        self.number = {i: k for k, i in enumerate(self.rims)}
        """Of each piece, by which `Placements` name it."""
        self.contacts = Contacts(self.rims.values())
        self._told = [*self.accepted, *self.candidates]
        self._lies = self.placements(self._told)
        value = np.full(len(self._told), self.settings.accepted)
        value[len(self.accepted) :] = [c.logit for c in self.candidates]
        value[len(self.accepted) :] -= self.settings.offset
        pairs, first, pair = np.unique(
            self._pair(self._lies), return_index=True, return_inverse=True
        )
        # Pairs and the piece from which each one's candidates are seen, and how many these are; the
        # last one stands for all pairs of which nothing is told.
        self._pairs = np.append(pairs, len(self.rims) ** 2)
        self._fixed = np.append(self._lies.fixed[first], NOTHING)
        self._counts = np.append(np.bincount(pair, minlength=len(pairs)), 0)
        self._first = np.cumsum(self._counts) - self._counts
        by_pair = np.argsort(pair, kind="stable")
        self._says = self._lies[by_pair].seen_from(self._fixed[pair[by_pair]])
        self._value = value[by_pair]
        self._refused: dict[tuple[str, str], list[Motion]] = {}
        for candidate in self.rejected:
            names = candidate.fixed, candidate.moving
            self._refused.setdefault(names, []).append(candidate.motion)
        self.offered = self._likeliest()
        """Candidates that groups are joined by."""
        # What is known is kept by cells of placements, as far as pieces reach.
        reach = 2 * self.contacts.radius.max(initial=0.0) + NEAR_MM
        self._middle = np.ceil(np.array([math.pi, reach, reach]) / CELL).astype(np.intp) + 1
        self._cells = (len(self.rims), len(self.rims), *(2 * self._middle + 1))
        self._known: dict[int, float] = {}

    def placements(self, candidates: Sequence[Candidate]) -> Placements:
        """What candidates propose."""
        return Placements(
            np.array([self.number[c.fixed] for c in candidates], dtype=np.intp),
            np.array([self.number[c.moving] for c in candidates], dtype=np.intp),
            np.array([c.motion[0] for c in candidates], dtype=np.float64),
            np.array([c.motion[1] for c in candidates], dtype=np.complex128),
        )

    def _likeliest(self) -> list[Candidate]:
        by_pair: dict[tuple[str, str], list[Candidate]] = {}
        for candidate in sorted(self.candidates, key=lambda c: -c.logit):
            by_pair.setdefault((candidate.fixed, candidate.moving), []).append(candidate)
        return [c for own in by_pair.values() for c in own[: self.grown_from]]

    def at(self, one: str, other: str, motion: Motion) -> float:
        """Evidence for the other piece lying so in the first one's frame; 0 where they do not
        touch."""
        return float(self.evidence(self._placed(one, other, motion))[0])

    def proposed(self, one: str, other: str, motion: Motion) -> bool:
        """Whether any candidate lays the other piece so."""
        return bool(self._proposed(self._placed(one, other, motion))[0])

    def evidence(self, placements: Placements) -> Floats:
        """What `at` tells of K placements, (K,).

        Of placements in one cell, see `CELL`, the one that was asked about first stands for all."""
        value = np.zeros(len(placements))
        near = np.flatnonzero(
            self.contacts.near(placements.fixed, placements.moving, placements.shifts)
        )
        asked = self._as_told(placements[near])
        cells = self._cell_numbers(asked)
        fresh: dict[int, int] = {}
        for k, cell in enumerate(cells):
            if cell not in self._known:
                fresh.setdefault(cell, k)
        if fresh:
            found = self._evidence(asked[list(fresh.values())])
            self._known.update(zip(fresh, found.tolist(), strict=True))
        value[near] = [self._known[cell] for cell in cells]
        return value

    def touching(self, group: Mapping[str, Motion]) -> list[Touch]:
        """What is told of all pieces of a group that touch."""
        ids = list(group)
        pieces, turns, shifts = self._laid(group)
        one, other = np.triu_indices(len(ids), 1)
        inside = Placements.between(
            pieces[one], pieces[other], (turns[one], shifts[one]), (turns[other], shifts[other])
        )
        evidence = self.evidence(inside)
        touch = np.flatnonzero(evidence)
        proposed = self._proposed(inside[touch])
        return [
            Touch(ids[one[k]], ids[other[k]], float(evidence[k]), bool(so))
            for k, so in zip(touch, proposed, strict=True)
        ]

    def followed(self, group: Mapping[str, Motion]) -> list[Candidate]:
        """Candidates that pieces of a group lie by, accepted ones first."""
        pieces, turns, shifts = self._laid(group)
        place = np.full(len(self.rims), NOTHING)
        place[pieces] = np.arange(len(pieces))
        fixed, moving = place[self._lies.fixed], place[self._lies.moving]
        inside = np.flatnonzero((fixed != NOTHING) & (moving != NOTHING))
        fixed, moving = fixed[inside], moving[inside]
        lies = Placements.between(
            fixed, moving, (turns[fixed], shifts[fixed]), (turns[moving], shifts[moving])
        )
        same = self._same(lies.motions, self._lies[inside].motions)
        return [self._told[k] for k in inside[same]]

    def _laid(self, group: Mapping[str, Motion]) -> tuple[Numbers, Floats, Shifts]:
        """Numbers, turns and shifts of a group's pieces."""
        return (
            np.array([self.number[i] for i in group], dtype=np.intp),
            np.array([turn for turn, _ in group.values()], dtype=np.float64),
            np.array([shift for _, shift in group.values()], dtype=np.complex128),
        )

    def _placed(self, one: str, other: str, motion: Motion) -> Placements:
        return self.placements([Candidate(one, other, motion, 0.0)])

    def _pair(self, placements: Placements) -> Numbers:
        """One number for two pieces, whichever is fixed."""
        one, other = placements.fixed, placements.moving
        return np.minimum(one, other) * len(self.rims) + np.maximum(one, other)

    def _row(self, placements: Placements) -> Numbers:
        """Where in the list of pairs theirs are."""
        pair = self._pair(placements)
        row = np.searchsorted(self._pairs, pair)
        return np.where(self._pairs[row] == pair, row, len(self._pairs) - 1)

    def _as_told(self, placements: Placements) -> Placements:
        """Seen from the pieces that candidates are seen from."""
        fixed = self._fixed[self._row(placements)]
        return placements.seen_from(np.where(fixed == NOTHING, placements.fixed, fixed))

    def _cell_numbers(self, placements: Placements) -> list[int]:
        """One number for the pieces and about how they lie."""
        turns, shifts = _wrapped(placements.turns), placements.shifts
        cells = np.rint(np.array([turns, shifts.real, shifts.imag]).T / CELL).astype(np.intp)
        cells = (cells + self._middle).T
        found = np.ravel_multi_index((placements.fixed, placements.moving, *cells), self._cells)
        numbers: list[int] = found.tolist()
        return numbers

    def _evidence(self, placements: Placements) -> Floats:
        """Of placements as told."""
        settings = self.settings
        length, overlap = self.contacts.measured(placements)
        touch = np.flatnonzero(length >= settings.touch_mm)
        asked, said = self._said(placements[touch])
        best = np.full(len(touch), -np.inf)
        np.maximum.at(best, asked, np.maximum(said, settings.least))
        best[np.isneginf(best)] = settings.unknown
        value = np.zeros(len(placements))
        value[touch] = best
        value -= settings.overlap * np.maximum(0.0, overlap - settings.free_mm2)
        value[self._refuses(placements)] = settings.rejected
        return value

    def _said(self, placements: Placements) -> tuple[Numbers, Floats]:
        """What each candidate near a placement, as told, says of it, and before that which
        placement it is."""
        row = self._row(placements)
        asked, said = spans(self._first[row], self._counts[row])
        near = self._same(self._says[said].motions, placements[asked].motions)
        return asked[near], self._value[said[near]]

    def _proposed(self, placements: Placements) -> Flags:
        proposed = np.zeros(len(placements), dtype=np.bool_)
        asked, _ = self._said(self._as_told(placements))
        proposed[asked] = True
        return proposed

    def _same(self, one: Motions, other: Motions) -> Flags:
        """What `same` tells of many placements."""
        turned, off = np.abs(_wrapped(one[0] - other[0])), one[1] - other[1]
        near: Flags = turned < math.radians(self.settings.near_deg)
        near &= off.real**2 + off.imag**2 < self.settings.near_mm**2
        return near

    def same(self, one: Motion, other: Motion) -> bool:
        """Whether two placements count as one."""
        return _near(one, other, self.settings.near_deg, self.settings.near_mm)

    def _refuses(self, placements: Placements) -> Flags:
        """What `refuses` tells of many placements."""
        refused = np.zeros(len(placements), dtype=np.bool_)
        ids = list(self.rims)
        asked = np.isin(self._pair(placements), self._pair(self.placements(self.rejected)))
        for k in np.flatnonzero(asked):
            motion = float(placements.turns[k]), complex(placements.shifts[k])
            refused[k] = self.refuses(ids[placements.fixed[k]], ids[placements.moving[k]], motion)
        return refused

    def refuses(self, one: str, other: str, motion: Motion) -> bool:
        """Whether a person has rejected that the other piece lies so, seen from either."""
        deg, mm = self.settings.refused_deg, self.settings.refused_mm
        return any(
            _near(asked, refused, deg, mm) or _near(inverse(asked), inverse(refused), deg, mm)
            for pair, asked in (((one, other), motion), ((other, one), inverse(motion)))
            for refused in self._refused.get(pair, ())
        )


def _near(one: Motion, other: Motion, deg: float, mm: float) -> bool:
    turned = abs(math.remainder(one[0] - other[0], 2 * math.pi))
    return turned < math.radians(deg) and abs(one[1] - other[1]) < mm


def _wrapped(turns: Floats) -> Floats:
    """Turns, each within half a turn."""
    return turns - math.tau * np.rint(turns / math.tau)
