"""Assemblies from candidate joins: groups of pieces are joined where all that then touches speaks
for it, several times over with doubts of its own, and every piece is tried elsewhere afterwards.

The value of an assembly is the sum of what the table says about all pairs of its pieces that
touch: joins that agree around a loop support each other, and one that contradicts the others does
not pay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from reassembly.assembly.placements import (
    Flags,
    Floats,
    Motions,
    Numbers,
    Placements,
    Shifts,
    composed_all,
    inverse_all,
)
from reassembly.assembly.table import NOTHING, Candidate, Motion, Table, composed, inverse

__all__ = ["Found", "SearchSettings", "search", "value_of"]

SearchProgress = Callable[[float, "Found"], None]
"""(share done, the best assembly so far)"""

AT_ONCE = 1024
"""Pieces that are laid beside all others at once: few enough for little memory."""


@dataclass(frozen=True)
class SearchSettings:
    """How long is searched, and what is trusted."""

    tries: int = 6
    """Assemblies that are built; the first without doubts."""
    doubt: float = 0.7
    """Standard deviation of what is added to logits in the other ones."""
    looked_at: int = 120
    """Joins between groups that are compared before one is made."""
    least: float = -0.5
    """Groups are not joined where what touches speaks against it by more than this."""
    rounds: int = 2
    """How often every piece is tried elsewhere."""


@dataclass(frozen=True)
class Found:
    """An assembly: groups of pieces, each in a frame of its own, and what speaks for it."""

    groups: tuple[Mapping[str, Motion], ...]
    value: float
    joins: tuple[Candidate, ...] = field(default=())


def search(
    table: Table,
    settings: SearchSettings | None = None,
    *,
    seed: int = 0,
    held: Sequence[Mapping[str, Motion]] = (),
    progress: SearchProgress | None = None,
) -> list[Found]:
    """Assemblies of all pieces of a table, the most valuable first, no two alike.

    Args:
        held: groups that are given, such as locked pieces; none of their pieces moves against the
            others.
    """
    settings = settings or SearchSettings()
    generator = np.random.default_rng(seed)
    found: list[Found] = []
    doubts = np.zeros(len(table.offered))
    for number in range(settings.tries):
        if number:
            doubts = generator.normal(0.0, settings.doubt, len(table.offered))
        builder = _Builder(table, settings, doubts, held)
        builder.grow()
        for _ in range(settings.rounds):
            if not builder.improve():
                break
        found.append(builder.found())
        if progress is not None:
            progress((number + 1) / settings.tries, max(found, key=lambda f: f.value))
    found.sort(key=lambda f: -f.value)
    distinct: list[Found] = []
    for each in found:
        if not any(_alike(each, kept, table) for kept in distinct):
            distinct.append(each)
    return distinct


class _Builder:
    """One assembly in the making."""

    def __init__(
        self,
        table: Table,
        settings: SearchSettings,
        doubts: Floats,
        held: Sequence[Mapping[str, Motion]],
    ) -> None:
        self.table, self.settings = table, settings
        number, self.ids = table.number, list(table.rims)
        self.held = {number[i] for group in held if len(group) > 1 for i in group}
        given = {i for group in held for i in group}
        rest: list[Mapping[str, Motion]] = [{i: (0.0, 0j)} for i in self.ids if i not in given]
        self.members: dict[int, list[int]] = {}
        # Of every piece: its group, and how it lies there.
        self.group = np.zeros(len(self.ids), dtype=np.intp)
        self.turns = np.zeros(len(self.ids))
        self.shifts = np.zeros(len(self.ids), dtype=np.complex128)
        for k, group in enumerate([*held, *rest]):
            self.members[k] = [number[i] for i in group]
            self.group[self.members[k]] = k
            for i, (turn, shift) in group.items():
                self.turns[number[i]], self.shifts[number[i]] = turn, shift
        self.choices = [*table.accepted, *table.offered]
        self.lies = table.placements(self.choices)
        accepted = len(table.accepted)
        self.doubts = np.concatenate([np.zeros(accepted), doubts])
        logits = np.array([c.logit for c in table.offered])
        likeliest = accepted + np.argsort(-(logits + doubts), kind="stable")
        self.order = np.concatenate([np.arange(accepted), likeliest])
        """Numbers of choices, the first ones first."""
        self.joins: list[Candidate] = []
        self._cache: dict[tuple[int, ...], float] = {}

    def grow(self) -> None:
        """Joins groups, the best supported join first, until none is supported."""
        between = self.order
        while True:
            fixed, moving = self.lies.fixed[between], self.lies.moving[between]
            between = between[self.group[fixed] != self.group[moving]]
            looked = between[: self.settings.looked_at]
            values = self._values(looked)
            if not values or max(values) < self.settings.least:
                return
            self._join(int(looked[np.argmax(values)]))

    def _values(self, choices: Numbers) -> list[float]:
        """What speaks for joining groups by each of some choices."""
        one = self.group[self.lies.fixed[choices]].tolist()
        other = self.group[self.lies.moving[choices]].tolist()
        keys = [
            (choice, a, b, len(self.members[a]), len(self.members[b]))
            for choice, a, b in zip(choices.tolist(), one, other, strict=True)
        ]
        fresh = [k for k, key in enumerate(keys) if key not in self._cache]
        if fresh:
            # The smaller group is laid beside the larger one.
            lies = self.lies[choices[fresh]]
            sizes = np.array([keys[k][3:] for k in fresh])
            turned = sizes[:, 0] < sizes[:, 1]
            lies = lies.seen_from(np.where(turned, lies.moving, lies.fixed))
            moved = [self.members[group] for group in self.group[lies.moving].tolist()]
            trial = np.repeat(np.arange(len(fresh)), sizes.min(axis=1))
            pieces = np.array([piece for own in moved for piece in own])
            turns, shifts = self._carries(lies)
            there = composed_all((turns[trial], shifts[trial]), self._lie(pieces))
            onto = self.group[lies.fixed][trial]
            values = self._support(trial, onto, pieces, there, turned[trial])
            values += self.doubts[choices[fresh]]
            self._cache.update(zip((keys[k] for k in fresh), values.tolist(), strict=True))
        return [self._cache[key] for key in keys]

    def _carries(self, lies: Placements) -> Motions:
        """How groups of moving pieces are carried to those of fixed ones, to be placed so."""
        laid = composed_all(self._lie(lies.fixed), lies.motions)
        return composed_all(laid, inverse_all(self._lie(lies.moving)))

    def _lie(self, pieces: Numbers) -> Motions:
        return self.turns[pieces], self.shifts[pieces]

    def _join(self, choice: int) -> None:
        one, other = self.group[[self.lies.fixed[choice], self.lies.moving[choice]]].tolist()
        moved = np.array(self.members.pop(other))
        carry = self._carries(self.lies[[choice]])
        self.turns[moved], self.shifts[moved] = composed_all(carry, self._lie(moved))
        self.group[moved] = one
        self.members[one] += moved.tolist()
        self.joins.append(self.choices[choice])

    def _support(
        self, trial: Numbers, onto: Numbers, pieces: Numbers, there: Motions, turned: Flags
    ) -> Floats:
        """What speaks for each trial: for all that touches when pieces are laid into groups.

        Args:
            trial: of each piece that is laid, ascending.
            onto: the group into which it is laid.
            turned: whether the table is asked how the others lie beside it.
        """
        laid, beside = self._near(onto, pieces, there[1])
        own = pieces[laid]
        placements = Placements.between(
            beside, own, self._lie(beside), (there[0][laid], there[1][laid])
        )
        placements = placements.seen_from(np.where(turned[laid], own, beside))
        total = np.zeros(trial[-1] + 1)
        np.add.at(total, trial[laid], self.table.evidence(placements))
        return total

    def _near(self, onto: Numbers, pieces: Numbers, shifts: Shifts) -> tuple[Numbers, Numbers]:
        """Which of the pieces that are laid into groups may touch which ones there."""
        laid, beside = [], []
        everyone = np.arange(len(self.ids))
        for begin in range(0, len(pieces), AT_ONCE):
            some = slice(begin, begin + AT_ONCE)
            off = shifts[some, None] - self.shifts
            near = self.table.contacts.near(everyone, pieces[some, None], off)
            row, piece = np.nonzero(near & (self.group == onto[some, None]))
            laid.append(row + begin)
            beside.append(piece)
        return np.concatenate(laid), np.concatenate(beside)

    def improve(self) -> bool:
        """Takes out one piece after the other and puts it where most speaks for it."""
        changed = False
        lies = self.lies[self.order[: 4 * self.settings.looked_at]]
        for piece in sorted(range(len(self.ids)), key=self.ids.__getitem__):
            own = int(self.group[piece])
            if piece in self.held or len(self.members[own]) < 2:
                continue
            tried = lies[(lies.fixed == piece) != (lies.moving == piece)]
            tried = tried.seen_from(np.where(tried.moving == piece, tried.fixed, tried.moving))
            turns, shifts = composed_all(self._lie(tried.fixed), tried.motions)
            # The first trial leaves it where it is.
            turns = np.append(self.turns[piece], turns)
            shifts = np.append(self.shifts[piece], shifts)
            onto = np.append(own, self.group[tried.fixed])
            self.members[own].remove(piece)
            self.group[piece] = NOTHING
            trials = np.arange(len(onto))
            laid, turned = np.full(len(onto), piece), np.zeros(len(onto), dtype=np.bool_)
            values = self._support(trials, onto, laid, (turns, shifts), turned)
            best = 0
            for k, value in enumerate(values):
                if value > values[best] + 1e-9:
                    best = k
            if values[best] < self.settings.least:
                group, turn, shift = max(self.members) + 1, 0.0, 0j
                self.members[group] = []
            else:
                group, turn, shift = int(onto[best]), turns[best], shifts[best]
            changed = changed or best > 0 or group != own
            self.members[group].append(piece)
            self.group[piece], self.turns[piece], self.shifts[piece] = group, turn, shift
        return changed

    def found(self) -> Found:
        groups = tuple(
            {self.ids[k]: (float(self.turns[k]), complex(self.shifts[k])) for k in pieces}
            for pieces in self.members.values()
        )
        return Found(groups, value_of(self.table, groups), tuple(self.joins))


def value_of(table: Table, groups: Iterable[Mapping[str, Motion]]) -> float:
    """What speaks for an assembly: the evidence of all that touches in its groups."""
    return sum((touch.evidence for group in groups for touch in table.touching(group)), 0.0)


def _alike(one: Found, other: Found, table: Table) -> bool:
    """Whether two assemblies have the same groups with all pieces about where they were."""
    others = {frozenset(group): group for group in other.groups}
    for group in one.groups:
        twin = others.get(frozenset(group))
        if twin is None:
            return False
        first, *rest = sorted(group)
        for i in rest:
            a = composed(inverse(group[first]), group[i])
            b = composed(inverse(twin[first]), twin[i])
            if not table.same(a, b):
                return False
    return True
