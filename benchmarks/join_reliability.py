"""Prints whether the probabilities of joins mean what they say, on puzzles they did not learn from.

reassembly prepare --joins --preset realistic --count 60 --seed 8000 --other-pairs 100 \\
    --per-pair 200 --out POOL
python benchmarks/join_reliability.py --pool POOL [--light LIGHT] [--plot FILE.svg]

Pools of lightly worn puzzles, which have a judge of their own, are given by `--light`.
Of every two pieces of a puzzle the likeliest placement counts. A row for each range of
probability: how many there are, what was said and what was true, with a 95 % interval; the expected
calibration error; and risk against coverage: of the joins that are at least so probable, the share
that is true, and the share of all pairs that touch which they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from reassembly.config import JoinsConfig
from reassembly.matching.joins import FinderSettings
from reassembly.matching.verifier import JoinNetwork
from reassembly.metrics.reliability import Bin, reliability, reliability_text
from reassembly.training.joins import TRUE, JoinPool
from reassembly.training.judging import best_of_pairs, contexts, screened_rows
from reassembly.training.verifying import seen_by
from reassembly.weights import load_network

Floats = NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, action="append", default=[], help="repeatable")
    parser.add_argument("--light", type=Path, action="append", default=[], help="repeatable")
    parser.add_argument("--weights", default="joins")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    network, _ = load_network("joins", JoinNetwork, JoinsConfig, arguments.weights)
    curves = {}
    for light, paths in ((False, arguments.pool), (True, arguments.light)):
        for path in paths:
            pool = JoinPool.load(path)
            said, true, touching = judged(pool, network.eval(), light, arguments.device)
            print(reliability_text(path.name, said, true, touching))
            curves[path.name] = reliability(said, true)[0]
    if arguments.plot:
        draw(curves, arguments.plot)


@torch.no_grad()
def judged(
    pool: JoinPool, network: JoinNetwork, light: bool, device: str
) -> tuple[Floats, NDArray[np.bool_], int]:
    """Of every pair the probability of its likeliest placement and whether it is true; and how many
    pairs have a true placement at all."""
    rows = screened_rows(pool, network.screen, FinderSettings.shown)
    seen, off = seen_by(network.verifier.to(device), pool.to(device), rows.to(device))
    shown = pool.taken(rows)
    logits = network.judge(light)(shown.tensors["evidence"], seen.cpu())
    judge = network.last_judge(light)
    if not light:
        logits = judge(contexts(shown, logits, off), logits)
    best, true = best_of_pairs(shown, logits)
    pairs = pool.tensors["pair"][pool.tensors["label"] == TRUE]
    return judge.probability(best).double().numpy(), true.numpy(), len(pairs.unique())


def draw(curves: dict[str, Sequence[Bin]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(4.2, 4.2), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for name, points in curves.items():
        mean, share, low, high = np.array([(b.said, b.true, *b.interval) for b in points]).T
        axes.errorbar(mean, share, [share - low, high - share], marker="o", capsize=2, label=name)
    axes.set(xlabel="probability that was given", ylabel="share that is true")
    axes.legend(frameon=False)
    figure.savefig(path)


if __name__ == "__main__":
    main()
