"""From a row a puzzle to one row: means over puzzles with intervals, and a second mean over
fragments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["summarise"]

COUNTS = {
    "fragments": "fragments_scored",
    "true_pairs": "true_pairs",
    "predicted_pairs": "predicted_pairs",
    "strays_refused": "strays_refused",
    "strays_placed": "strays_placed",
}
"""Summed over the puzzles, not averaged; with the name of the sum."""
NO_FIGURES = {"id", "seed", *COUNTS}
INTERVAL = (2.5, 97.5)
"""Percentiles."""

Row = Mapping[str, Any]
Column = NDArray[np.float64]


def summarise(rows: Iterable[Row], *, seed: int = 0, draws: int = 1000) -> dict[str, Any]:
    """One row for many puzzles.

    Args:
        rows: what `score` gives, each with the puzzle's `id`, and any other figures. Rows of the
            same puzzle (other seeds) are averaged first, so that a puzzle counts once and is
            resampled whole.
        seed: of the bootstrap. The order of the rows does not matter.
        draws: how often the puzzles are resampled.

    Returns:
        `puzzles` (how many), the sums of the counts (`fragments_scored`, `true_pairs`,
        `predicted_pairs`, `strays_refused`, `strays_placed`), and for each figure, such as q_pos:

        - `q_pos`: the mean over the puzzles that have it, None where none has;
        - `q_pos_ci`: [low, high], the 95 % bootstrap interval of that mean. One puzzle gives an
        interval without width, which says nothing;
        - `q_pos_over_fragments`: the mean over fragments: each puzzle is weighted by how many
        fragments are behind its figure, that is those scored, those placed for RMSE (pooled as
        squares) and `correct_of_placed`, or pairs for neighbours;
        - `q_pos_left_out`: how many puzzles do not have it, where there are any.
    """
    by_puzzle: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_puzzle[row["id"]].append(row)
    groups = [by_puzzle[i] for i in sorted(by_puzzle)]
    names = list(dict.fromkeys(name for group in groups for row in group for name in row))

    def column(name: str) -> Column:
        return np.array([_mean([row.get(name) for row in group]) for group in groups])

    summary: dict[str, Any] = {"puzzles": len(groups)}
    for name, total in COUNTS.items():
        if name in names:
            summary[total] = round(float(np.nansum(column(name))))
    for name in names:
        if name in NO_FIGURES:
            continue
        values = column(name)
        has = ~np.isnan(values)
        summary[name] = float(values[has].mean()) if has.any() else None
        summary[f"{name}_ci"] = _interval(values[has], seed, draws)
        if "fragments" in names:
            summary[f"{name}_over_fragments"] = _over_fragments(name, values, column)
        if not has.all():
            summary[f"{name}_left_out"] = int((~has).sum())
    return summary


def _mean(values: list[float | None]) -> float:
    """NaN where no value exists."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else np.nan


def _interval(values: Column, seed: int, draws: int) -> list[float] | None:
    if not values.size:
        return None
    picks = np.random.default_rng(seed).integers(0, values.size, (draws, values.size))
    low, high = np.percentile(values[picks].mean(axis=1), INTERVAL)
    return [float(low), float(high)]


def _over_fragments(name: str, values: Column, column: Callable[[str], Column]) -> float | None:
    scored = column("fragments")
    placed = scored * np.nan_to_num(column("placed"), nan=1.0)
    weights = {
        "correct_of_placed": placed,
        "rmse_rotation_deg": placed,
        "rmse_translation_mm": placed,
        "neighbour_precision": column("predicted_pairs"),
        "neighbour_recall": column("true_pairs"),
        "neighbour_f1": column("true_pairs"),
    }.get(name, scored)
    has = ~np.isnan(values) & (weights > 0)
    if not has.any():
        return None
    power = 2 if name.startswith("rmse_") else 1
    mean = np.average(values[has] ** power, weights=weights[has])
    return float(mean ** (1 / power))
