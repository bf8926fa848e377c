"""Assemblies from candidate joins: groups of pieces are joined where all that then touches speaks
for it, several times over with doubts of its own, and every piece is tried elsewhere afterwards.

The value of an assembly is the sum of what the table says about all pairs of its pieces that
touch: joins that agree around a loop support each other, and one that contradicts the others does
not pay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from reassembly.assembly.table import Candidate, Motion, Table, composed, inverse

__all__ = ["Found", "SearchSettings", "search", "value_of"]

SearchProgress = Callable[[float, "Found"], None]
"""(share done, the best assembly so far)"""


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
        doubts: np.ndarray,
        held: Sequence[Mapping[str, Motion]],
    ) -> None:
        self.table, self.settings = table, settings
        self.held = {i for group in held if len(group) > 1 for i in group}
        self.members: dict[int, dict[str, Motion]] = {}
        self.group: dict[str, int] = {}
        given = {i for group in held for i in group}
        rest: list[Mapping[str, Motion]] = [{i: (0.0, 0j)} for i in table.rims if i not in given]
        for number, group in enumerate([*held, *rest]):
            self.members[number] = dict(group)
            self.group |= dict.fromkeys(group, number)
        scored = [
            (c.logit + d, k) for k, (c, d) in enumerate(zip(table.offered, doubts, strict=True))
        ]
        self.order = [table.offered[k] for _, k in sorted(scored, key=lambda s: (-s[0], s[1]))]
        self.order = [*table.accepted, *self.order]
        self.doubts = {id(table.offered[k]): float(d) for k, d in enumerate(doubts)}
        self.joins: list[Candidate] = []
        self._cache: dict[tuple[int, int, int, int, int], tuple[float, Motion]] = {}

    def grow(self) -> None:
        """Joins groups, the best supported join first, until none is supported."""
        while len(self.members) > 1:
            best: tuple[float, Motion, Candidate] | None = None
            looked = 0
            for number, candidate in enumerate(self.order):
                one, other = self.group[candidate.fixed], self.group[candidate.moving]
                if one == other:
                    continue
                sizes = len(self.members[one]), len(self.members[other])
                key = (number, one, other, *sizes)
                if key not in self._cache:
                    carry = composed(
                        composed(self.members[one][candidate.fixed], candidate.motion),
                        inverse(self.members[other][candidate.moving]),
                    )
                    value = self._between(self.members[one], self.members[other], carry)
                    value += self.doubts.get(id(candidate), 0.0)
                    self._cache[key] = value, carry
                value, carry = self._cache[key]
                if best is None or value > best[0]:
                    best = value, carry, candidate
                looked += 1
                if looked >= self.settings.looked_at:
                    break
            if best is None or best[0] < self.settings.least:
                return
            _, carry, candidate = best
            self._join(candidate, carry)

    def _join(self, candidate: Candidate, carry: Motion) -> None:
        one, other = self.group[candidate.fixed], self.group[candidate.moving]
        for i, motion in self.members.pop(other).items():
            self.members[one][i] = composed(carry, motion)
            self.group[i] = one
        self.joins.append(candidate)

    def _between(
        self, fixed: Mapping[str, Motion], moving: Mapping[str, Motion], carry: Motion
    ) -> float:
        """What speaks for all that touches when one group is carried to the other."""
        total = 0.0
        placed = {j: composed(carry, motion) for j, motion in moving.items()}
        for i, own in fixed.items():
            back = inverse(own)
            for j, there in placed.items():
                total += self.table.at(i, j, composed(back, there))
        return total

    def improve(self) -> bool:
        """Takes out one piece after the other and puts it where most speaks for it."""
        changed = False
        for piece in sorted(self.group):
            if piece in self.held:
                continue
            own = self.group[piece]
            if len(self.members[own]) < 2:
                continue
            before = self.members[own].pop(piece)
            alone = {piece: (0.0, 0j)}
            best = self._between(self.members[own], alone, before), own, before
            for candidate in self.order[: 4 * self.settings.looked_at]:
                if piece not in (candidate.fixed, candidate.moving):
                    continue
                other = candidate.moving if piece == candidate.fixed else candidate.fixed
                if other == piece or other not in self.group:
                    continue
                group = self.group[other]
                motion = (
                    candidate.motion if piece == candidate.moving else inverse(candidate.motion)
                )
                there = composed(self.members[group][other], motion)
                value = self._between(self.members[group], alone, there)
                if value > best[0] + 1e-9:
                    best = value, group, there
            value, group, there = best
            if value < self.settings.least and len(self.members[own]):
                fresh = max(self.members) + 1
                self.members[fresh] = {piece: (0.0, 0j)}
                self.group[piece] = fresh
                changed = True
            else:
                self.members[group][piece] = there
                changed = changed or group != own or there != before
                self.group[piece] = group
        return changed

    def found(self) -> Found:
        groups = tuple(self.members.values())
        return Found(groups, value_of(self.table, groups), tuple(self.joins))


def value_of(table: Table, groups: Iterable[Mapping[str, Motion]]) -> float:
    """What speaks for an assembly: the evidence of all that touches in its groups."""
    return sum(
        table.at(i, j, composed(inverse(group[i]), group[j]))
        for group in groups
        for i, j in combinations(group, 2)
    )


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
