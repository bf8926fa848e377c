"""Our own solver: joins are proposed, verified and judged; assemblies are searched and refined.

Every pair of pieces is laid together in all ways that fit (`matching.correlate`); what fits is
looked at by networks (`matching.joins`); assemblies are built from joins that support each other
(`assembly.search`) and their poses moved until rims lie evenly (`assembly.refine`). What no join
that can be trusted holds is left out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reassembly.assembly.refine import refine
from reassembly.assembly.search import Found, SearchSettings, search, value_of
from reassembly.assembly.settle import followed, settle
from reassembly.assembly.table import (
    LIGHT,
    Candidate,
    Motion,
    Table,
    TableSettings,
    composed,
    inverse,
    to_array,
)
from reassembly.errors import InputError
from reassembly.matching import motions
from reassembly.matching.joins import (
    PER_PAIR,
    FinderSettings,
    Join,
    Judged,
    Looked,
    Tell,
    joins_of,
    load_finder,
    unrefused,
)
from reassembly.matching.rim import motion_of
from reassembly.matching.strip import strips
from reassembly.matching.verifier import JoinJudge
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Puzzle
from reassembly.solvers.base import ProgressCallback, report
from reassembly.solvers.settings import Device, check_counts, check_device_here

if TYPE_CHECKING:
    from reassembly.solvers.reassemblenet import Reassemblenet

__all__ = ["Joins"]

LOOKED, COMPARED, WEIGHED, SEARCHED = 0.05, 0.78, 0.8, 0.95
"""Fractions of progress."""
GROWN_FROM = 8
"""Placements of a pair that groups are joined by; further ones only support."""
PLACED = -1e5
"""Evidence by which every piece is placed: only rejected joins have less."""
SURE = 0.5
"""Pieces that are trusted so far are given to the partner."""
ISLAND = 0.5
"""Apart from the main one, islands are told only if their pieces are trusted so far."""
PREVIEW_S, PREVIEW_SHARE = 5.0, 0.1
"""While pieces are compared, what was found so far is shown this often, seconds, and in no larger
share of the time; for the first time as soon as two pieces are likely to join."""


class Joins:
    """Finds joins and builds assemblies of those that support each other.

    Confidence is the probability that a piece lies right beside the island's largest piece, or the
    locked ones. The seed decides which doubts are tried in the search.

    Args:
        weights: a name, a safetensors file or the folder of a training run; those shipped when
            left out.
        matcher: likewise, of the network that matches contour points of worn pieces.
        tries: assemblies that are built; the best is the answer, others are alternatives.
        trust: pieces and groups are left out whose joins are less probable than this; 0 places
            every piece.
        proposals: placements of a pair of pieces that are compared; as many as the weights have
            learned from when left out.
        refined: whether poses are refined together at the end.
        partner: whether ReassembleNet, too, proposes whole assemblies, around the pieces that joins
            hold for sure; the best supported one is the answer. Only where every piece is placed.
        device: `cpu` or `cuda`.
    """

    takes_judgements = tells_joins = True

    def __init__(
        self,
        *,
        weights: str | None = None,
        matcher: str | None = None,
        tries: int = 6,
        trust: float = 0.0,
        proposals: int | None = None,
        refined: bool = True,
        partner: bool = False,
        device: Device = "cpu",
    ) -> None:
        check_counts(tries=tries, proposals=1 if proposals is None else proposals)
        check_device_here(device)
        if not 0 <= trust < 1:
            raise InputError(f"trust is {trust!r}", "Give a probability below 1, or 0")
        self.finder = load_finder(weights, matcher, FinderSettings(keep=proposals), device)
        self.tries, self.trust, self.refined = tries, trust, refined
        if partner and trust > 0:
            raise InputError(
                f"trust is {trust!r}, and a partner places every piece",
                "Leave trust or partner out",
            )
        self.partner = _partner(device) if partner else None

    def solve(
        self,
        puzzle: Puzzle,
        *,
        seed: int = 0,
        locked: Mapping[str, Pose] | None = None,
        progress: ProgressCallback | None = None,
        accepted: Sequence[Join] = (),
        rejected: Sequence[Join] = (),
        tell: Tell | None = None,
    ) -> Assembly:
        """See `solvers.base.Solver`.

        Args:
            accepted: joins that hold.
            rejected: joins that must not be.
            tell: called with the joins of each pair, as `find_joins` has them, once all pairs were
                compared.
        """
        locked = dict(locked or {})
        if len(locked) == len(puzzle):
            return Assembly.of(puzzle, locked, confidence=dict.fromkeys(locked, 1.0))
        return _Run(self, puzzle, seed, locked, progress, accepted, rejected, tell).assembly()


class _Run:
    """What one puzzle needs while it is being solved."""

    def __init__(
        self,
        solver: Joins,
        puzzle: Puzzle,
        seed: int,
        locked: Mapping[str, Pose],
        progress: ProgressCallback | None,
        accepted: Sequence[Join],
        rejected: Sequence[Join],
        tell: Tell | None,
    ) -> None:
        self.solver, self.puzzle, self.seed = solver, puzzle, seed
        self.locked, self.progress, self.tell = locked, progress, tell
        report(progress, 0.0, "outlines")
        self.looked: Looked = solver.finder.look(puzzle)
        self.settings = LIGHT if self.looked.light else TableSettings()
        self._hear(solver.finder.network.judge(self.looked.light))
        self.rims = self.looked.rims
        self.areas = {i: puzzle[i].area_mm2 for i in puzzle.ids}
        self.accepted = [self._candidate(join, math.inf) for join in accepted]
        self.rejected = list(rejected)
        self.refused = [self._candidate(join, -math.inf) for join in rejected]

    def _hear(self, judge: JoinJudge) -> None:
        """From now on, logits are those of this judge."""
        factor, summand = judge.scale.tolist()
        # The table tells logits less its offset.
        self.factor = float(factor)
        self.summand = float(summand) + self.factor * self.settings.offset

    def assembly(self) -> Assembly:
        table = self._table(self._candidates())
        settings = SearchSettings(tries=self.solver.tries, least=self._least(self.solver.trust))

        def told(share: float, best: Found) -> None:
            done = WEIGHED + (SEARCHED - WEIGHED) * share
            islands = self._told(table, best)
            report(self.progress, done, "assembling", self._assembled(best.groups, islands))

        found = search(table, settings, seed=self.seed, held=self._held(), progress=told)
        if self.solver.partner is not None:
            found += self._drawn(self.solver.partner, table, found[0])
        answers = [(each, self._told(table, each)) for each in found]
        answers.sort(key=lambda answer: -self._told_value(table, *answer))
        ranked = [self._assembled(self._refined(table, each), islands) for each, islands in answers]
        answer = replace(ranked[0], alternatives=tuple(ranked[1:]))
        report(self.progress, 1.0, "assembling", answer)
        return answer

    def _drawn(self, partner: Reassemblenet, table: Table, best: Found) -> list[Found]:
        """What a diffusion network makes of the pieces that nothing holds for sure, if some are."""
        group = min(best.groups, key=self._minor)
        trusted = self._trusted(table, group)
        sure = {i: self._pose(i, m) for i, m in self._framed(group).items() if trusted[i] >= SURE}
        if not 2 <= len(sure) < len(self.puzzle):
            return []
        (poses,) = partner.solve(self.puzzle, seed=self.seed, locked=sure).islands
        lies = {
            i: _motion(motions.motion_of(pose, self.rims[i].centre_mm)) for i, pose in poses.items()
        }
        return [Found((lies,), value_of(table, [lies]), best.joins)]

    def _table(self, candidates: Sequence[Candidate]) -> Table:
        return Table(
            self.rims,
            candidates,
            self.settings,
            accepted=self.accepted,
            rejected=self.refused,
            grown_from=GROWN_FROM,
        )

    def _least(self, trust: float) -> float:
        """The evidence a join needs so that it is trusted."""
        if trust == 0:
            return PLACED
        odds = math.log(trust / (1 - trust))
        return (odds - self.summand) / self.factor

    def _candidate(self, join: Join, logit: float) -> Candidate:
        a, b = join.first, join.second
        motion = _motion(motion_of(join.pose, self.rims[a], self.rims[b]))
        return Candidate(a, b, motion, logit)

    def _candidates(self) -> list[Candidate]:
        finder = self.solver.finder
        certain = {frozenset((c.fixed, c.moving)) for c in self.accepted}

        def paired(share: float) -> None:
            report(self.progress, LOOKED * share, "likely neighbours")

        likely = finder.pairs(self.looked, paired)
        pairs = [
            pair
            for pair in likely
            if frozenset(pair) not in certain and not set(pair) <= set(self.locked)
        ]
        judged: list[Judged] = []
        shown, shown_next = False, time.monotonic() + PREVIEW_S
        enough = max(ISLAND, self.solver.trust)
        for number, each in enumerate(finder.judged(self.looked, pairs)):
            judged.append(unrefused(self.rims, each, self.rejected))
            preview, now = None, time.monotonic()
            sure = not shown and judged[-1].probability.max(initial=0.0) >= enough
            if self.progress is not None and (sure or now >= shown_next):
                preview, shown = self._so_far(judged), True
                end = time.monotonic()
                shown_next = end + max(PREVIEW_S, (end - now) / PREVIEW_SHARE)
            done = LOOKED + (COMPARED - LOOKED) * (number + 1) / len(pairs)
            report(self.progress, done, "comparing pieces", preview)

        def weighed(share: float) -> None:
            report(self.progress, COMPARED + (WEIGHED - COMPARED) * share, "weighing joins")

        judged = finder.weighed(self.looked, judged, self._holding(likely), weighed)
        self._hear(finder.network.last_judge(self.looked.light))
        if self.tell is not None:
            for each in judged:
                self.tell(joins_of(self.rims, each, PER_PAIR))
        return _as_candidates(judged)

    def _holding(self, pairs: Iterable[tuple[str, str]]) -> list[Judged]:
        """Placements that are given: those of joins that were accepted, and of locked pieces that
        touch.

        Args:
            pairs: likely neighbours.
        """
        finder = self.solver.finder
        given = {(c.fixed, c.moving): to_array(c.motion) for c in self.accepted}
        for a, b in pairs:
            if {a, b} <= self.locked.keys() and not {(a, b), (b, a)} & given.keys():
                motion = to_array(composed(inverse(self._lies(a)), self._lies(b)))
                _, figures = strips(self.rims[a], self.rims[b], motion[None])
                if figures[0, 0] >= self.settings.touch_mm:
                    given[a, b] = motion
        return [finder.certain(self.looked, a, b, motion) for (a, b), motion in given.items()]

    def _so_far(self, judged: Sequence[Judged]) -> Assembly:
        """What the joins that were found so far hold together, if they are likely."""
        table = self._table(_as_candidates(judged))
        settings = SearchSettings(tries=1, least=self._least(max(ISLAND, self.solver.trust)))
        best = search(table, settings, seed=self.seed, held=self._held())[0]
        return self._assembled(best.groups, self._told(table, best))

    def _held(self) -> list[dict[str, Motion]]:
        """Groups that are given: the locked pieces, and what accepted joins hold together."""
        groups: list[dict[str, Motion]] = []
        if self.locked:
            groups.append({i: self._lies(i) for i in self.locked})
        for join in self.accepted:
            one = next((g for g in groups if join.fixed in g), {join.fixed: (0.0, 0j)})
            other = next((g for g in groups if join.moving in g), {join.moving: (0.0, 0j)})
            if one is other:
                continue
            if self.locked and other is groups[0]:
                one, other, join = (
                    other,
                    one,
                    Candidate(join.moving, join.fixed, inverse(join.motion), join.logit),
                )
            carry = composed(composed(one[join.fixed], join.motion), inverse(other[join.moving]))
            groups = [g for g in groups if g is not one and g is not other]
            merged = {**one, **{i: composed(carry, m) for i, m in other.items()}}
            groups = [merged, *groups] if self.locked.keys() & merged.keys() else [*groups, merged]
        return groups

    def _lies(self, locked: str) -> Motion:
        return _motion(motions.motion_of(self.locked[locked], self.rims[locked].centre_mm))

    def _framed(self, group: Mapping[str, Motion]) -> Mapping[str, Motion]:
        """A group in the frame of the locked pieces, since the search may carry them to others."""
        first = next((i for i in group if i in self.locked), None)
        if first is None:
            return group
        carry = composed(self._lies(first), inverse(group[first]))
        return {i: composed(carry, motion) for i, motion in group.items()}

    def _refined(self, table: Table, found: Found) -> list[Mapping[str, Motion]]:
        """The groups with the poses that agree best with their joins and with their rims."""
        if not self.solver.refined:
            return list(found.groups)
        held = frozenset(self.locked) | {i for c in self.accepted for i in (c.fixed, c.moving)}
        refined: list[Mapping[str, Motion]] = []
        for group in found.groups:
            joins = followed(table, group)
            weights = [self._likely(c.logit - self.settings.offset) for c in joins]
            final: Mapping[str, Motion] = settle(group, joins, weights, held)
            final = refine(self.rims, final, held) if len(group) > 1 else group
            refined.append(group if self._refuses(table, final) else final)
        return refined

    def _refuses(self, table: Table, group: Mapping[str, Motion]) -> bool:
        """Whether a group holds a join that was rejected: others may have pulled it there."""
        return any(
            table.refuses(c.fixed, c.moving, composed(inverse(group[c.fixed]), group[c.moving]))
            for c in self.refused
            if c.fixed in group and c.moving in group
        )

    def _likely(self, evidence: float) -> float:
        """The probability that evidence of the table stands for."""
        odds = min(30.0, max(-30.0, self.factor * evidence + self.summand))
        return 1 / (1 + math.exp(-odds))

    def _assembled(
        self, groups: Iterable[Mapping[str, Motion]], told: Iterable[Mapping[str, float]]
    ) -> Assembly:
        """Islands, the main one first; pieces that nothing holds are unplaced.

        Args:
            groups: where pieces lie.
            told: see `_told`.
        """
        lies = {i: motion for group in groups for i, motion in group.items()}
        islands: list[dict[str, Pose]] = []
        confidence: dict[str, float] = {}
        for trusted in told:
            framed = self._framed({i: lies[i] for i in trusted})
            islands.append({i: self._pose(i, motion) for i, motion in framed.items()})
            confidence |= trusted
        return Assembly.of(self.puzzle, *islands, confidence=confidence)

    def _told_value(self, table: Table, found: Found, told: Iterable[Mapping[str, float]]) -> float:
        """What speaks for an assembly, as far as it is told."""
        lies = {i: motion for group in found.groups for i, motion in group.items()}
        return value_of(table, [{i: lies[i] for i in trusted} for trusted in told])

    def _told(self, table: Table, found: Found) -> list[dict[str, float]]:
        """How far the pieces of each island are trusted, the main one first."""
        parts = [part for group in found.groups for part in self._parts(table, group)]
        main, *others = sorted(parts, key=self._minor)
        return [main, *(o for o in others if len(o) > 1 and min(o.values()) >= ISLAND)]

    def _parts(self, table: Table, group: Mapping[str, Motion]) -> Iterator[dict[str, float]]:
        """A group without the pieces that are not trusted enough to be told with it, and what
        those hold among each other."""
        while group:
            trusted = self._trusted(table, group)
            first, *_ = trusted
            part = {i: t for i, t in trusted.items() if i == first or t >= self.solver.trust}
            yield part
            group = {i: motion for i, motion in group.items() if i not in part}

    def _minor(self, group: Iterable[str]) -> tuple[bool, bool, float]:
        """What groups are sorted by: that of locked pieces comes first, then the larger ones;
        pieces that lie alone come last."""
        pieces = set(group)
        area = sum(self.areas[i] for i in pieces)
        return not self.locked.keys() & pieces, len(pieces) < 2, -area

    def _trusted(self, table: Table, group: Mapping[str, Motion]) -> dict[str, float]:
        """How likely each piece of a group lies right beside its largest one or the locked ones:
        the least sure step of the surest way there."""
        ids = list(group)
        known = {i: 1.0 for i in ids if i in self.locked}
        held = bool(known)
        if not held:
            known = {max(ids, key=lambda i: self.areas[i]): 1.0}
        steps = np.zeros((len(ids), len(ids)))
        place = {i: k for k, i in enumerate(ids)}
        for touch in table.touching(group):
            if touch.proposed:
                k, n = place[touch.one], place[touch.other]
                steps[k, n] = steps[n, k] = self._likely(touch.evidence)
        reach = np.max([steps[place[i]] for i in known], axis=0)
        while len(known) < len(ids):
            nearest = max((i for i in ids if i not in known), key=lambda i: reach[place[i]])
            known[nearest] = float(reach[place[nearest]])
            reach = np.maximum(reach, np.minimum(known[nearest], steps[place[nearest]]))
        if not held:
            first, *others = known
            known[first] = max((known[i] for i in others), default=0.0)
        return {i: float(min(1.0, value)) for i, value in known.items()}

    def _pose(self, piece: str, motion: Motion) -> Pose:
        locked = self.locked.get(piece)
        return locked or motions.pose_of(to_array(motion), self.rims[piece].centre_mm)


def _partner(device: Device) -> Reassemblenet:
    from reassembly.solvers.reassemblenet import Reassemblenet

    return Reassemblenet(device=device)


def _as_candidates(judged: Iterable[Judged]) -> list[Candidate]:
    return [
        Candidate(each.fixed, each.moving, _motion(motion), logit, _motion(moved))
        for each in judged
        for motion, moved, logit in zip(
            each.motions, each.corrected, each.logits.tolist(), strict=True
        )
    ]


def _motion(row: NDArray[np.float64]) -> Motion:
    turn, x, y = row.tolist()
    return turn, complex(x, y)
