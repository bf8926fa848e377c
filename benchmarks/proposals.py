"""Prints how many true joins are among the first proposals of their pair, and what proposing takes.

python benchmarks/proposals.py --data REPAIR
python benchmarks/proposals.py --data REPAIR --folds REPAIR/folds.json --real REAL --made MADE

True joins are the pairs that are neighbours by the protocol `strict`. A proposal is right where its
relative rotation is within 10 degrees and the middle of the true shared edge within 10 mm, as the
protocol has it of neighbours; and again within 8 mm. Proposals are those of correlation, ranked;
then the same and those of matching points besides. With folds: those of the pool REAL, ranked by
screens that have learned from the other folds and from made puzzles, as the verifier is shown them;
and the same thinned, so that of those that nearly agree only the best is left.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from reassembly.config import ProposeConfig
from reassembly.io.ids import read_ids
from reassembly.io.readers import find_puzzles
from reassembly.matching.correlate import distinct, parse_proposing, propose
from reassembly.matching.matcher import PROPOSED, load_matchers
from reassembly.matching.motions import Motions, matrices
from reassembly.matching.rim import Rim, motion_of, rims_of
from reassembly.metrics.neighbours import Outlines, shared_edges
from reassembly.metrics.strict import ANGLE_DEG, DISTANCE_MM
from reassembly.puzzle import Puzzle
from reassembly.training.joins import JoinPool
from reassembly.training.judging import JudgeSettings, fit_judge, screened_rows

FIRST = (1, 5, 20, 100, 200, 400, 1000)
NEAR_MM = (DISTANCE_MM, 8.0)
APART = ProposeConfig(keep=max(FIRST), apart_mm=8.0, apart_deg=10.0)
"""Proposals that differ by less are one, once a screen has ranked them."""


@dataclass
class Ranks:
    """Of true joins: how many proposals come before the first right one, for each of `NEAR_MM`."""

    found: dict[float, list[float]] = field(default_factory=lambda: {mm: [] for mm in NEAR_MM})

    def add(self, degrees: NDArray[np.float64], mm: NDArray[np.float64]) -> None:
        for near, ranks in self.found.items():
            right = (degrees < ANGLE_DEG) & (mm < near)
            ranks.append(float(np.argmax(right)) if right.any() else np.inf)

    def tell(self, what: str, besides: Ranks | None = None) -> None:
        for near, ranks in self.found.items():
            other = np.isfinite(besides.found[near]) if besides else np.zeros(len(ranks), bool)
            shares = ", ".join(f"{k}: {np.mean((np.array(ranks) < k) | other):.3f}" for k in FIRST)
            print(f"{what}, within {near:g} mm: {shares}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--every", type=int, default=1, help="take one puzzle in so many")
    parser.add_argument("--set", action="append", default=[], help="of ProposeConfig: gap_mm=3")
    parser.add_argument("--folds", type=Path)
    parser.add_argument("--real", type=Path, help="a pool of all pairs of the puzzles of the folds")
    parser.add_argument("--made", type=Path, action="append", default=[], help="repeatable")
    parser.add_argument("--steps", type=int, default=JudgeSettings.steps, help="of each screen")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.folds:
        if arguments.real is None:
            parser.error("--folds needs --real")
        settings = JudgeSettings(steps=arguments.steps)
        by_folds(arguments.data, arguments.folds, arguments.real, arguments.made, settings)
        return
    settings = ProposeConfig(keep=max(FIRST), **parse_proposing(arguments.set))
    matchers = load_matchers()
    ranked, matched = Ranks(), Ranks()
    spent, count = 0.0, 0
    for source in sorted(find_puzzles(arguments.data), key=lambda s: s.id)[:: arguments.every]:
        puzzle = source.load()
        rims = rims_of(puzzle)
        joins = true_joins(puzzle)
        count += len(joins)
        begun = time.perf_counter()
        found = list(propose(rims, settings, list(joins)))
        spent += time.perf_counter() - begun
        seen = [matcher.see(puzzle.fragments, rims) for matcher in matchers]
        for smaller, larger, motions, _ in found:
            by_points = [
                matcher.match(own, smaller, larger).motions
                for matcher, own in zip(matchers, seen, strict=True)
            ]
            for ranks, own in ((ranked, motions), (matched, np.concatenate(by_points))):
                ranks.add(*errors(puzzle, rims, joins, smaller, larger, own))
    print(f"{count} true joins; share among the first so many proposals of their pair")
    ranked.tell("by correlation")
    matched.tell(f"at most {PROPOSED * len(matchers)} of matching points alone")
    ranked.tell("by correlation, and those of matching points besides", matched)
    print(f"{spent / max(count, 1):.2f} s a pair on one core")


def by_folds(
    data: Path, folds: Path, folder: Path, made: Sequence[Path], settings: JudgeSettings
) -> None:
    ids = json.loads((folder / "pool.json").read_text())["source"]["puzzles"]
    sources = {source.id: source for source in find_puzzles(data)}
    real, *mades = (JoinPool.load(path) for path in (folder, *made))
    number = real.tensors["puzzle"].long()
    ranks, thinned, count = Ranks(), Ranks(), 0
    for fold in range(1, 1 + len(json.loads(folds.read_text())["folds"])):
        held = set(read_ids(f"{folds}#{fold}"))
        learnt = torch.tensor([i not in held for i in ids])[number]
        pools = [real.taken(learnt.nonzero()[:, 0]), *mades]
        screen = fit_judge(pools, [None] * len(pools), settings)
        for k in (k for k, i in enumerate(ids) if i in held):
            puzzle = sources[ids[k]].load()
            rims, joins = rims_of(puzzle), true_joins(puzzle)
            pool = real.taken((number == k).nonzero()[:, 0])
            pool = pool.taken(screened_rows(pool, screen, max(FIRST)))
            motions = pool.tensors["motion"].double().numpy()
            ends = torch.stack([pool.tensors[n] for n in ("fixed", "moving")], dim=1).numpy()
            names = np.array(puzzle.ids)[ends - ends.min()]
            for pair in joins:
                own = np.isin(names, pair).all(axis=1)
                fixed, moving = names[own][0] if own.any() else pair
                off = errors(puzzle, rims, joins, fixed, moving, motions[own])
                ranks.add(*off)
                kept = distinct(motions[own], -np.arange(own.sum(), dtype=float), APART)
                thinned.add(*(each[kept] for each in off))
            count += len(joins)
    print(f"{count} true joins; share among the first so many proposals of their pair")
    ranks.tell("by screens of other folds")
    near = f"{APART.apart_mm:g} mm and {APART.apart_deg:g} degrees"
    thinned.tell(f"the same, of those within {near} of each other the first alone")


def true_joins(puzzle: Puzzle) -> Mapping[tuple[str, str], NDArray[np.float64]]:
    """Pairs that touch, and the middle of the edge that they share."""
    assert puzzle.truth is not None
    outlines = Outlines({f.id: f.polygon for f in puzzle.fragments})
    return shared_edges(outlines, puzzle.truth)


def errors(
    puzzle: Puzzle,
    rims: Mapping[str, Rim],
    joins: Mapping[tuple[str, str], NDArray[np.float64]],
    fixed: str,
    moving: str,
    motions: Motions,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By how much placements of two neighbours are off, (K,) degrees and (K,) mm."""
    assert puzzle.truth is not None
    middle = joins[(fixed, moving) if (fixed, moving) in joins else (moving, fixed)]
    one, other = puzzle.truth[fixed], puzzle.truth[moving]
    true = motion_of(one.inverse() @ other, rims[fixed], rims[moving])
    there = one.inverse().apply(middle[None])[0] - rims[fixed].centre_mm
    carried = matrices(np.array(true[:1]))[0].T @ (there - np.array(true[1:]))
    off_mm = np.linalg.norm(matrices(motions[:, 0]) @ carried + motions[:, 1:] - there, axis=1)
    turned = np.abs((motions[:, 0] - true[0] + np.pi) % (2 * np.pi) - np.pi)
    return np.degrees(turned), off_mm


if __name__ == "__main__":
    main()
