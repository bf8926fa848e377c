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

from reassembly.config import VerifierConfig
from reassembly.matching.joins import FinderSettings
from reassembly.matching.verifier import JoinNetwork
from reassembly.training.joins import TRUE, JoinPool
from reassembly.training.judging import best_of_pairs, screened_rows
from reassembly.training.verifying import seen_by
from reassembly.weights import load_network

BINS = np.linspace(0, 1, 11)
LEVELS = (0.9, 0.7, 0.5, 0.3, 0.1)
Z = 1.96

Floats = NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, action="append", default=[], help="repeatable")
    parser.add_argument("--light", type=Path, action="append", default=[], help="repeatable")
    parser.add_argument("--weights", default="joins")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    network, _ = load_network("joins", JoinNetwork, VerifierConfig, arguments.weights)
    curves = {}
    for light, paths in ((False, arguments.pool), (True, arguments.light)):
        for path in paths:
            pool = JoinPool.load(path)
            said, true, touching = judged(pool, network.eval(), light, arguments.device)
            curves[path.name] = tell(path.name, said, true, touching)
    if arguments.plot:
        draw(curves, arguments.plot)


@torch.no_grad()
def judged(
    pool: JoinPool, network: JoinNetwork, light: bool, device: str
) -> tuple[Floats, NDArray[np.bool_], int]:
    """Of every pair the probability of its likeliest placement and whether it is true; and how many
    pairs have a true placement at all."""
    rows = screened_rows(pool, network.screen, FinderSettings.shown)
    seen, _ = seen_by(network.verifier.to(device), pool.to(device), rows.to(device))
    shown = pool.taken(rows)
    judge = network.judge(light)
    best, true = best_of_pairs(shown, judge(shown.tensors["evidence"], seen.cpu()))
    pairs = pool.tensors["pair"][pool.tensors["label"] == TRUE]
    return judge.probability(best).double().numpy(), true.numpy(), len(pairs.unique())


def tell(name: str, said: Floats, true: NDArray[np.bool_], touching: int) -> list[Floats]:
    """Prints the figures of one pool; gives the points of its curve."""
    print(f"{name}: {len(said)} pairs, {touching} with a true placement, {true.sum()} found first")
    number = np.clip(np.digitize(said, BINS) - 1, 0, len(BINS) - 2)
    points, error = [], 0.0
    for k in range(len(BINS) - 1):
        own = number == k
        if not own.any():
            continue
        share, mean = float(true[own].mean()), float(said[own].mean())
        low, high = wilson(share, int(own.sum()))
        error += own.mean() * abs(share - mean)
        points.append(np.array([mean, share, low, high]))
        print(
            f"  {BINS[k]:.1f} to {BINS[k + 1]:.1f}: {own.sum()} joins, said {mean:.3f}, "
            f"true {share:.3f} [{low:.3f}, {high:.3f}]"
        )
    print(f"  expected calibration error {error:.3f}")
    for level in LEVELS:
        own = said >= level
        share = true[own].mean() if own.any() else float("nan")
        print(
            f"  at least {level:.1f}: {own.sum()} joins, {share:.3f} of them true, "
            f"{true[own].sum() / touching:.3f} of the pairs that touch"
        )
    return points


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share of so many."""
    middle = (share + Z**2 / (2 * count)) / (1 + Z**2 / count)
    half = np.sqrt(share * (1 - share) / count + (Z / (2 * count)) ** 2) * Z / (1 + Z**2 / count)
    return float(middle - half), float(middle + half)


def draw(curves: dict[str, Sequence[Floats]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(4.2, 4.2), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for name, points in curves.items():
        mean, share, low, high = np.array(points).T
        axes.errorbar(mean, share, [share - low, high - share], marker="o", capsize=2, label=name)
    axes.set(xlabel="probability that was given", ylabel="share that is true")
    axes.legend(frameon=False)
    figure.savefig(path)


if __name__ == "__main__":
    main()
