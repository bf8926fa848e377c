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

import numpy as np
from numpy.typing import NDArray

from reassembly.matching.rim import Rim
from reassembly.matching.strip import FACING, NEAR_MM, beside
from reassembly.pose import SAME_DEG, SAME_MM

__all__ = ["Candidate", "Motion", "Table", "TableSettings", "composed", "inverse", "to_array"]

Motion = tuple[float, complex]


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
    free_mm2: float = 15.0
    """Overlap that costs nothing: worn pieces that lie where they belong do overlap."""
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
        self._near: dict[tuple[str, str], tuple[NDArray[np.float64], ...]] = {}
        by_pair: dict[tuple[str, str], list[tuple[float, float, float, float]]] = {}
        told = [(c, c.logit - self.settings.offset) for c in self.candidates]
        told += [(c, self.settings.accepted) for c in self.accepted]
        for candidate, value in told:
            fixed, moving, motion = candidate.fixed, candidate.moving, candidate.motion
            if (moving, fixed) in by_pair:
                fixed, moving, motion = moving, fixed, inverse(motion)
            rows = by_pair.setdefault((fixed, moving), [])
            rows.append((motion[0], motion[1].real, motion[1].imag, value))
        for pair, rows in by_pair.items():
            self._near[pair] = tuple(np.array(rows).T)
        self._refused: dict[tuple[str, str], list[Motion]] = {}
        for candidate in self.rejected:
            pair = candidate.fixed, candidate.moving
            self._refused.setdefault(pair, []).append(candidate.motion)
        self.offered = self._likeliest()
        """Candidates that groups are joined by."""
        self._known: dict[tuple[str, str, int, int, int], float] = {}

    def _likeliest(self) -> list[Candidate]:
        by_pair: dict[tuple[str, str], list[Candidate]] = {}
        for candidate in sorted(self.candidates, key=lambda c: -c.logit):
            by_pair.setdefault((candidate.fixed, candidate.moving), []).append(candidate)
        return [c for own in by_pair.values() for c in own[: self.grown_from]]

    def at(self, one: str, other: str, motion: Motion) -> float:
        """Evidence for the other piece lying so in the first one's frame; 0 where they do not
        touch."""
        if abs(motion[1]) > self.rims[one].radius_mm + self.rims[other].radius_mm + NEAR_MM:
            return 0.0
        if (one, other) not in self._near and (other, one) in self._near:
            one, other, motion = other, one, inverse(motion)
        turn = math.remainder(motion[0], 2 * math.pi)
        key = (
            one,
            other,
            round(turn * 100),
            round(motion[1].real * 2),
            round(motion[1].imag * 2),
        )
        if key not in self._known:
            self._known[key] = self._evidence(one, other, motion)
        return self._known[key]

    def _evidence(self, one: str, other: str, motion: Motion) -> float:
        settings = self.settings
        if self.refuses(one, other, motion):
            return settings.rejected
        contact, overlap = self._contact(one, other, motion)
        cost = settings.overlap * max(0.0, overlap - settings.free_mm2)
        if contact < settings.touch_mm:
            return -cost
        told = self._told(one, other, motion)
        if not len(told):
            return settings.unknown - cost
        return max(float(told.max()), settings.least) - cost

    def proposed(self, one: str, other: str, motion: Motion) -> bool:
        """Whether any candidate lays the other piece so."""
        if (one, other) not in self._near:
            one, other, motion = other, one, inverse(motion)
        return len(self._told(one, other, motion)) > 0

    def _told(self, one: str, other: str, motion: Motion) -> NDArray[np.float64]:
        """What each candidate near a placement says of it."""
        turn, x, y, value = self._near.get((one, other), (np.zeros(0),) * 4)
        turned = np.abs((turn - motion[0] + np.pi) % (2 * np.pi) - np.pi)
        shifted = np.hypot(x - motion[1].real, y - motion[1].imag)
        near = (turned < math.radians(self.settings.near_deg)) & (shifted < self.settings.near_mm)
        return value[near]

    def same(self, one: Motion, other: Motion) -> bool:
        """Whether two placements count as one."""
        return _near(one, other, self.settings.near_deg, self.settings.near_mm)

    def refuses(self, one: str, other: str, motion: Motion) -> bool:
        """Whether a person has rejected that the other piece lies so, seen from either."""
        deg, mm = self.settings.refused_deg, self.settings.refused_mm
        return any(
            _near(asked, refused, deg, mm) or _near(inverse(asked), inverse(refused), deg, mm)
            for pair, asked in (((one, other), motion), ((other, one), inverse(motion)))
            for refused in self._refused.get(pair, ())
        )

    def _contact(self, one: str, other: str, motion: Motion) -> tuple[float, float]:
        """Length of contact (mm) and overlap (mm^2, by how deep the rim lies inside)."""
        moving = self.rims[other]
        _, signed, _, facing = beside(self.rims[one], moving, to_array(motion)[None])
        joined = (np.abs(signed) < NEAR_MM) & (facing < FACING)
        within = np.clip(-signed, 0, None)
        return float(joined.sum() * moving.step_mm), float(within.sum() * moving.step_mm)


def _near(one: Motion, other: Motion, deg: float, mm: float) -> bool:
    turned = abs(math.remainder(one[0] - other[0], 2 * math.pi))
    return turned < math.radians(deg) and abs(one[1] - other[1]) < mm
