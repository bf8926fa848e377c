"""Prints how many true joins are among the first proposals of their pair, and what proposing takes.

python benchmarks/proposals.py --data REPAIR

True joins are the pairs that are neighbours by the protocol `strict`. A proposal is right where its
relative rotation is within 10 degrees and the middle of the true shared edge within 8 mm. Proposals
are those of correlation, ranked; then the same and those of matching points besides.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from reassembly.io.readers import find_puzzles
from reassembly.matching.correlate import ProposeSettings, propose
from reassembly.matching.matcher import PROPOSED, load_matchers
from reassembly.matching.motions import matrices
from reassembly.matching.rim import motion_of, rims_of
from reassembly.metrics.neighbours import Outlines, shared_edges

FIRST = (1, 5, 20, 100, 200, 400, 1000)
DEGREES, MM = 10.0, 8.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--every", type=int, default=1, help="take one puzzle in so many")
    parser.add_argument("--set", action="append", default=[], help="of ProposeSettings: gap_mm=3")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    changes = {name: float(value) for name, value in (each.split("=") for each in arguments.set)}
    settings = ProposeSettings(keep=max(FIRST), **changes)
    matchers = load_matchers()
    ranks: list[float] = []
    matched: list[bool] = []
    spent = 0.0
    for source in sorted(find_puzzles(arguments.data), key=lambda s: s.id)[:: arguments.every]:
        puzzle = source.load()
        rims = rims_of(puzzle)
        outlines = Outlines({f.id: f.polygon for f in puzzle.fragments})
        truth = puzzle.truth
        assert truth is not None
        joins = shared_edges(outlines, truth)
        begun = time.perf_counter()
        found = list(propose(rims, settings, list(joins)))
        spent += time.perf_counter() - begun
        seen = [matcher.see(puzzle.fragments, rims) for matcher in matchers]
        for smaller, larger, motions, _ in found:
            middle = joins.get((smaller, larger), joins.get((larger, smaller)))
            one, other = truth[smaller], truth[larger]
            true = motion_of(one.inverse() @ other, rims[smaller], rims[larger])
            there = one.inverse().apply(middle[None])[0] - rims[smaller].centre_mm
            carried = matrices(np.array(true[:1]))[0].T @ (there - np.array(true[1:]))
            by_points = [
                matcher.match(own, smaller, larger).motions
                for matcher, own in zip(matchers, seen, strict=True)
            ]
            every = np.concatenate([motions, *by_points])
            off_mm = np.linalg.norm(matrices(every[:, 0]) @ carried + every[:, 1:] - there, axis=1)
            turned = np.abs((every[:, 0] - true[0] + np.pi) % (2 * np.pi) - np.pi)
            right = (np.degrees(turned) < DEGREES) & (off_mm < MM)
            ranked = right[: len(motions)]
            ranks.append(int(np.argmax(ranked)) if ranked.any() else np.inf)
            matched.append(bool(right[len(motions) :].any()))
    found = [np.array(ranks) < k for k in FIRST]
    shares = ", ".join(f"{k}: {np.mean(f):.3f}" for k, f in zip(FIRST, found, strict=True))
    print(f"{len(ranks)} true joins; share among the first so many proposals: {shares}")
    either = [np.mean(f | np.array(matched)) for f in found]
    shares = ", ".join(f"{k}: {share:.3f}" for k, share in zip(FIRST, either, strict=True))
    more = PROPOSED * len(matchers)
    print(f"with at most {more} of matching points besides, {np.mean(matched):.3f} alone: {shares}")
    print(f"{spent / max(len(ranks), 1):.2f} s a pair on one core")


if __name__ == "__main__":
    main()
