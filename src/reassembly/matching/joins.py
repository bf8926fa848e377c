"""Finding joins: every pair's placements proposed, screened, looked at and judged.

The tool a conservator wants even where no whole assembly comes out: a ranked list of which two
pieces join, how they lie, how far they gape and overlap, and how likely it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from reassembly.errors import InputError, InputWarning
from reassembly.matching.context import Placed, context
from reassembly.matching.crops import Pictures, crops_of_pair, pictures_of
from reassembly.matching.evidence import Matches, contacts, evidence
from reassembly.matching.matcher import Matcher, Seen, is_light, load_matchers
from reassembly.matching.motions import Motions, brought_back, matrices
from reassembly.matching.partners import likely_neighbours
from reassembly.matching.proposals import proposals
from reassembly.matching.rim import Rim, motion_of, pose_of, rims_of
from reassembly.matching.strip import strips
from reassembly.matching.verifier import JoinJudge, JoinNetwork
from reassembly.pose import Pose, same_place
from reassembly.puzzle import Puzzle
from reassembly.workers import Cluster, Died, check_cluster, cluster, one_thread, run_each

if TYPE_CHECKING:
    from reassembly.solvers.base import ProgressCallback

__all__ = [
    "FinderSettings",
    "Given",
    "Join",
    "JoinFinder",
    "Judged",
    "find_joins",
    "load_finder",
    "shared_out",
    "unrefused",
]

Floats = NDArray[np.float64]
CERTAIN = 12.0
"""The logit of joins that a person vouches for."""
PER_PAIR = 3
"""Ways to join two pieces that are told at most, unless asked otherwise."""


@dataclass(frozen=True)
class Join:
    """Two pieces, how they lie to each other, and what speaks for it."""

    first: str
    second: str
    pose: Pose
    """Carries the second piece into the first one's own frame."""
    probability: float
    """That the two pieces join so; of several ways to join them, those told together sum to at most
    1."""
    gap_mm: float
    """Mean distance of the two rims where they touch."""
    overlap_mm2: float
    contact_mm: float
    """Length of rim that lies near the other piece's."""

    def turned(self) -> Join:
        """The same join told from the other piece."""
        return replace(self, first=self.second, second=self.first, pose=self.pose.inverse())


Tell = Callable[[Sequence[Join]], None]
"""Called with joins as soon as they are found."""


@dataclass(frozen=True)
class FinderSettings:
    """How much is looked at."""

    keep: int | None = None
    """Proposals of a pair of worn pieces by correlation, to which matching points add some; None
    for as many as the judges have learned from."""
    shown: int = 100
    """Of them, those that the verifier sees."""
    partners: int = 24
    """In large puzzles: with how many likely neighbours each piece is compared."""
    all_below: int = 40
    """Puzzles of fewer pieces have all pairs compared."""


@dataclass(frozen=True, eq=False)
class Judged:
    """The placements of one pair, best first."""

    fixed: str
    moving: str
    motions: Motions
    """(K, 3): of the moving piece into the fixed one's centred frame."""
    corrected: Motions
    """(K, 3): the same; of worn pieces, moved to where the verifier thinks that they belong."""
    middle: NDArray[np.float32]
    """(K, 2): of the contact, in the fixed piece's centred frame."""
    logits: Floats
    """(K,)."""
    probability: Floats
    """(K,)."""

    def __len__(self) -> int:
        return len(self.logits)

    def taken(self, rows: NDArray[np.intp]) -> Judged:
        """These placements, by number, in this order."""
        told = {entry.name: getattr(self, entry.name)[rows] for entry in fields(self)[2:]}
        return replace(self, **told)


class JoinFinder:
    """Proposes, screens, verifies and judges."""

    def __init__(
        self,
        network: JoinNetwork,
        matchers: Sequence[Matcher],
        settings: FinderSettings | None = None,
        device: str = "cpu",
    ) -> None:
        """Args:
        matchers: see `matching.matcher.load_matchers`.
        """
        self.network = network.to(device).eval()
        self.matchers, self.device = matchers, device
        self.settings = settings or FinderSettings()
        self.propose = network.config.propose
        if self.settings.keep is not None:
            self.propose = replace(self.propose, keep=self.settings.keep)

    def look(self, puzzle: Puzzle) -> Looked:
        """What is known about the pieces alone."""
        rims = rims_of(puzzle)
        seen = [matcher.see(puzzle.fragments, rims) for matcher in self.matchers]
        pictures = pictures_of(puzzle.fragments).to(self.device)
        return Looked(puzzle, rims, seen, pictures, is_light(self.matchers, seen))

    def pairs(
        self, looked: Looked, progress: Callable[[float], None] | None = None
    ) -> list[tuple[str, str]]:
        """Pairs that are compared: all, or in a large puzzle likely neighbours.

        Args:
            progress: called with the share of them that was looked at.
        """
        ids = looked.puzzle.ids
        if len(ids) < self.settings.all_below:
            return list(combinations(ids, 2))
        own = -1 if looked.light else 0
        return likely_neighbours(
            self.matchers[own], looked.seen[own], ids, self.settings.partners, progress
        )

    def judged(self, looked: Looked, pairs: Sequence[tuple[str, str]]) -> Iterator[Judged]:
        """The best placements of each pair."""
        for proposed in proposals(
            looked.rims,
            self.matchers,
            looked.seen,
            pairs,
            light=looked.light,
            settings=self.propose,
            device=self.device,
        ):
            yield self._judge(looked, *proposed)

    @torch.no_grad()
    def _judge(
        self,
        looked: Looked,
        a: str,
        b: str,
        motions: Motions,
        scores: Floats,
        matches: Sequence[Matches],
    ) -> Judged:
        rims, network = looked.rims, self.network
        judge = network.judge(looked.light)
        figures = torch.from_numpy(evidence(rims[a], rims[b], motions, scores, matches))
        figures = figures.to(self.device)
        screened = network.screen(figures, torch.zeros(len(figures), device=self.device))
        best = screened.argsort(descending=True, stable=True)[: self.settings.shown].cpu()
        motions, figures = motions[best.numpy()], figures[best.to(self.device)]
        contact = contacts(rims[a], rims[b], motions)
        number = looked.puzzle.ids.index
        told = (motions.astype(np.float32), contact.middle, contact.across)
        tensors = [torch.from_numpy(x).to(self.device) for x in told]
        seen, off = network.verifier(crops_of_pair(looked.pictures, number(a), number(b), *tensors))
        logits = judge(figures, seen)
        moved = motions
        if not looked.light:  # The verifier knows how much worn pieces have lost.
            moved = corrected(motions, off.double().cpu().numpy(), contact.middle, contact.across)
        return _ranked(Judged(a, b, motions, moved, contact.middle, *_said(judge, logits)))

    @torch.no_grad()
    def weighed(
        self,
        looked: Looked,
        judged: Sequence[Judged],
        certain: Sequence[Judged] = (),
        progress: Callable[[float], None] | None = None,
    ) -> list[Judged]:
        """The placements of all pairs of a puzzle, judged anew by what they say of each other;
        those of lightly worn pieces as they are.

        Args:
            certain: placements of further pairs, which hold.
            progress: called with the share that is done.
        """
        if looked.light or not judged:
            return list(judged)
        number = {i: k for k, i in enumerate(looked.puzzle.ids)}
        told = [*judged, *certain]
        counts = [len(each) for each in told]
        before = np.concatenate([each.logits for each in told])
        figures = context(
            Placed(
                np.repeat([number[each.fixed] for each in told], counts),
                np.repeat([number[each.moving] for each in told], counts),
                np.concatenate([each.motions for each in told]),
                np.concatenate([each.corrected for each in told]),
                np.concatenate([each.middle for each in told]),
                before,
            ),
            progress,
        )
        judge = self.network.context
        heard = (torch.from_numpy(x).float().to(self.device) for x in (figures, before))
        ends = np.cumsum(counts)[:-1]
        said = (np.split(x, ends) for x in _said(judge, judge(*heard)))
        return [
            _ranked(replace(each, logits=logits, probability=probability))
            for each, logits, probability in zip(judged, *said, strict=False)
        ]

    def certain(self, looked: Looked, a: str, b: str, motion: Floats) -> Judged:
        """A placement of a pair that holds.

        Args:
            motion: (3,), of the second piece into the first one's centred frame.
        """
        one = motion[None]
        middle = contacts(looked.rims[a], looked.rims[b], one).middle
        return Judged(a, b, one, one, middle, np.full(1, CERTAIN), np.ones(1))


def _said(judge: JoinJudge, logits: torch.Tensor) -> tuple[Floats, Floats]:
    """Logits (K,) and probabilities (K,)."""
    one, other = (x.double().cpu().numpy() for x in (logits, judge.probability(logits)))
    return one, other


def _ranked(judged: Judged) -> Judged:
    return judged.taken(np.argsort(-judged.logits, kind="stable"))


@dataclass(frozen=True, eq=False)
class Looked:
    """A puzzle as the finder sees it before it compares pieces."""

    puzzle: Puzzle
    rims: Mapping[str, Rim]
    seen: Sequence[Seen]
    """By each of the matchers."""
    pictures: Pictures
    light: bool
    """Whether the pieces are lightly worn."""


Compare = Callable[[Looked, Sequence[tuple[str, str]]], Iterable[Judged]]
"""Judges pairs of a puzzle that was looked at."""


@dataclass(frozen=True)
class Given:
    """What a process needs to see a puzzle as another does."""

    path: Path
    mm_per_px: float | None = None
    weights: str | None = None
    device: str = "cpu"


@contextmanager
def shared_out(
    given: Given,
    out: str | PathLike[str],
    *,
    workers: int | None = None,
    ray: str | None = None,
) -> Iterator[Compare | None]:
    """Judges pairs in several processes, each of which reads the puzzle for itself.

    Args:
        given: the puzzle that `find_joins` is asked about.
        out: the folder to be written to: every machine of a cluster must see it.
        workers: processes at a time; None is this one alone, or what the cluster has room for.
        ray: address of a Ray cluster.

    Yields:
        What to give to `find_joins`; None where it is to work in this process.
    """
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers cannot work", "Give --workers 1 or more")
    if workers is None and ray is None:
        yield None
        return
    check_cluster(ray)
    folder = Path(out)
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with cluster(ray, folder) as machines:
            yield partial(_judged_elsewhere, given, workers, machines)
    finally:
        if made:
            with suppress(OSError):  # Results are in it.
                folder.rmdir()


def _judged_elsewhere(
    given: Given,
    workers: int | None,
    machines: Cluster | None,
    looked: Looked,
    pairs: Sequence[tuple[str, str]],
) -> Iterator[Judged]:
    # Pairs of the same larger piece stay together, since `propose` compares them in one go.
    groups: dict[str, list[tuple[str, str]]] = {}
    for pair in pairs:
        larger = max(pair, key=lambda i: (looked.rims[i].radius_mm, i))
        groups.setdefault(larger, []).append(pair)
    tasks = sorted((tuple(group) for group in groups.values()), key=len, reverse=True)
    for task, outcome in run_each(
        partial(_judge_group, given),
        tasks,
        workers=workers,
        machines=machines,
        prepare=one_thread,
        gpu=given.device == "cuda",
    ):
        if isinstance(outcome, Died):
            some = ", ".join(f"{a} and {b}" for a, b in task[:3]) + ", ..." * (len(task) > 3)
            warnings.warn(
                f"the process that compared {some} died, and their joins are missing", InputWarning
            )
        else:
            yield from outcome


def _judge_group(given: Given, pairs: Sequence[tuple[str, str]]) -> list[Judged]:
    finder, looked = _seen_here(given)
    return list(finder.judged(looked, pairs))


@lru_cache(maxsize=1)
def _seen_here(given: Given) -> tuple[JoinFinder, Looked]:
    from reassembly.io.readers import load

    with warnings.catch_warnings():  # Who asks has read the same files, and warned.
        warnings.simplefilter("ignore", InputWarning)
        puzzle = load(given.path, mm_per_px=given.mm_per_px)
    finder = load_finder(given.weights, device=given.device)
    return finder, finder.look(puzzle)


def corrected(
    motions: Motions, correction: Floats, middle: NDArray[np.float32], across: NDArray[np.float32]
) -> Motions:
    """The motions (K, 3) after a turn about the middle of the break and a shift along and across,
    which undoes `training.joins.offsets`."""
    turned = motions[:, 0] + correction[:, 0]
    own = brought_back(middle, motions)
    along = np.column_stack([across[:, 1], -across[:, 0]])
    target = middle + correction[:, 1:2] * along + correction[:, 2:] * across
    shift = target - (matrices(turned) @ own[..., None])[..., 0]
    return np.column_stack([turned, shift])


def load_finder(
    weights: str | None = None,
    matcher: str | None = None,
    settings: FinderSettings | None = None,
    device: str = "cpu",
) -> JoinFinder:
    """The finder with its weights: names, safetensors files or runs; the package's own for None."""
    from reassembly.config import JoinsConfig
    from reassembly.weights import load_network

    network, _ = load_network("joins", JoinNetwork, JoinsConfig, weights)
    return JoinFinder(network, load_matchers(matcher, device), settings, device)


def find_joins(
    puzzle: Puzzle,
    *,
    seed: int = 0,
    accepted: Sequence[Join] = (),
    rejected: Sequence[Join] = (),
    per_pair: int = PER_PAIR,
    piece: str | None = None,
    progress: ProgressCallback | None = None,
    tell: Tell | None = None,
    finder: JoinFinder | None = None,
    compare: Compare | None = None,
) -> list[Join]:
    """The likeliest joins of a puzzle, best first.

    Args:
        seed: plays no part: what is found does not depend on chance.
        accepted: joins that a person vouches for: they come first, with probability 1, and no other
            way to join the same two pieces is told.
        rejected: joins that never come back.
        per_pair: ways to join two pieces that are told at most.
        piece: only joins of this one; they are judged without what others say of them.
        progress: called every so often; may raise `Cancelled`.
        tell: called with the joins of each pair as soon as they are found, as likely as they are by
            themselves.
        finder: with other weights or settings than the package's own.
        compare: judges pairs elsewhere, such as that of `shared_out`.
    """
    from reassembly.solvers.base import report

    if len(puzzle) < 2:
        raise InputError(
            f"puzzle {puzzle.id} has too few fragments to join", "Add the other fragments"
        )
    _check_pieces(puzzle, accepted, rejected, piece)
    finder = finder or load_finder()
    report(progress, 0.0, "outlines")
    looked = finder.look(puzzle)
    certain = {frozenset((join.first, join.second)) for join in accepted}

    def paired(share: float) -> None:
        report(progress, 0.05 * share, "likely neighbours")

    pairs = [
        pair
        for pair in finder.pairs(looked, paired)
        if frozenset(pair) not in certain and (piece is None or piece in pair)
    ]
    found = [
        replace(join, probability=1.0)
        for join in accepted
        if piece is None or piece in (join.first, join.second)
    ]
    judged: list[Judged] = []
    for number, each in enumerate((compare or finder.judged)(looked, pairs)):
        report(progress, 0.05 + 0.9 * number / len(pairs), "comparing pieces")
        own = unrefused(looked.rims, each, rejected)
        judged.append(own)
        if tell is not None:
            tell(joins_of(looked.rims, own, per_pair))
    if piece is None:

        def weighed(share: float) -> None:
            report(progress, 0.95 + 0.05 * share, "weighing joins")

        rims = looked.rims
        holding = [
            finder.certain(looked, a, b, motion_of(pose, rims[a], rims[b]))
            for a, b, pose in ((join.first, join.second, join.pose) for join in accepted)
        ]
        judged = finder.weighed(looked, judged, holding, weighed)
    found += [join for each in judged for join in joins_of(looked.rims, each, per_pair)]
    report(progress, 1.0, "weighing joins")
    return sorted(found, key=lambda join: (-join.probability, join.first, join.second))


def _check_pieces(
    puzzle: Puzzle, accepted: Sequence[Join], rejected: Sequence[Join], piece: str | None
) -> None:
    """Raises `InputError` for the first piece that the puzzle does not have."""
    named = [i for join in (*accepted, *rejected) for i in (join.first, join.second)]
    for i in [*named, *([] if piece is None else [piece])]:
        if i not in puzzle.ids:
            raise InputError(
                f"puzzle {puzzle.id} has no fragment {i!r}",
                f"Its fragments are {', '.join(puzzle.ids)}",
            )


def joins_of(rims: Mapping[str, Rim], judged: Judged, limit: int | None = None) -> list[Join]:
    """Placements of a pair as joins, where the verifier thinks that the pieces belong, best first:
    of those that are the same to a person the best.

    At most one of them is true: the first keeps its probability, which is the calibrated one, and
    each further one has at most what those before it leave.
    """
    a, b = judged.fixed, judged.moving
    found: list[Join] = []
    rest = 1.0
    for motion, likely in zip(judged.corrected, judged.probability.tolist(), strict=True):
        pose = pose_of(motion, rims[a], rims[b])
        if any(same_place(pose, join.pose, rims[b].centre_mm) for join in found):
            continue
        _, figures = strips(rims[a], rims[b], motion[None])
        contact, gap, _, overlap, _ = figures[0].tolist()
        probability = min(likely, rest)
        rest -= probability
        found.append(Join(a, b, pose, probability, gap, overlap, contact))
        if limit is not None and len(found) >= limit:
            break
    return found


def unrefused(rims: Mapping[str, Rim], judged: Judged, rejected: Sequence[Join]) -> Judged:
    """The placements of a pair that a person would not call one of the rejected joins, neither as
    they were proposed nor as they were corrected."""
    a, b = judged.fixed, judged.moving
    refused = [j if j.first == a else j.turned() for j in rejected if {j.first, j.second} == {a, b}]
    if not refused:
        return judged
    kept = []
    for k, both in enumerate(zip(judged.motions, judged.corrected, strict=True)):
        poses = [pose_of(each, rims[a], rims[b]) for each in both]
        if not any(same_place(p, j.pose, rims[b].centre_mm) for p in poses for j in refused):
            kept.append(k)
    return judged.taken(np.array(kept, dtype=np.intp))
