"""Whether probabilities mean what they say: of what was given 0.9, are nine in ten true?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bin", "reliability", "reliability_text", "wilson"]

BINS = 10
LEVELS = (0.9, 0.7, 0.5, 0.3, 0.1)
Z = 1.96


@dataclass(frozen=True)
class Bin:
    """What was given a probability in one range."""

    first: float
    last: float
    """The range."""
    count: int
    said: float
    """Mean of the probabilities."""
    true: float
    """Share that is true."""

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share that is true."""
        return wilson(self.true, self.count)


def reliability(
    said: NDArray[np.float64], true: NDArray[np.bool_]
) -> tuple[list[Bin], float | None]:
    """Bins of equal width, those with nothing in them left out, and the expected calibration error:
    the mean absolute difference of what was said and what was true, weighted by count; None where
    nothing was said.

    Args:
        said: (K,): probabilities.
        true: (K,): whether each was true.
    """
    number = np.minimum((said * BINS).astype(int), BINS - 1)
    bins = [
        Bin(
            k / BINS,
            (k + 1) / BINS,
            int(own.sum()),
            float(said[own].mean()),
            float(true[own].mean()),
        )
        for k in range(BINS)
        if (own := number == k).any()
    ]
    if not bins:
        return [], None
    return bins, sum(abs(b.said - b.true) * b.count for b in bins) / len(said)


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share of so many."""
    middle = (share + Z**2 / (2 * count)) / (1 + Z**2 / count)
    half = np.sqrt(share * (1 - share) / count + (Z / (2 * count)) ** 2) * Z / (1 + Z**2 / count)
    return float(middle - half), float(middle + half)


def reliability_text(
    name: str, said: NDArray[np.float64], true: NDArray[np.bool_], touching: int
) -> str:
    """Reliability, risk and coverage of joins in words, a line a range.

    Args:
        said, true: of the likeliest placement of every pair of pieces, see `reliability`.
        touching: how many pairs have a true placement at all.
    """
    bins, error = reliability(said, true)
    lines = [
        f"{name}: {len(said)} pairs, {touching} with a true placement, {true.sum()} found first"
    ]
    for b in bins:
        low, high = b.interval
        lines.append(
            f"  {b.first:.1f} to {b.last:.1f}: {b.count} joins, said {b.said:.3f}, "
            f"true {b.true:.3f} [{low:.3f}, {high:.3f}]"
        )
    if error is not None:
        lines.append(f"  expected calibration error {error:.3f}")
    for level in LEVELS:
        own = said >= level
        share = true[own].mean() if own.any() else float("nan")
        lines.append(
            f"  at least {level:.1f}: {own.sum()} joins, {share:.3f} of them true, "
            f"{true[own].sum() / max(touching, 1):.3f} of the pairs that touch"
        )
    return "\n".join(lines)
