"""Rows of figures as JSON, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reassembly.io.files import atomic_write

__all__ = ["HEADLINE", "ON_SCREEN", "cell", "failures_of", "markdown", "named", "write_tables"]

HEADLINE: dict[str, str] = {
    "q_pos": "q_pos",
    "q_pos_with_anchor": "with anchor",
    "q_pos_mean": "q_pos_mean",
    "correct": "correct",
    "correct_of_placed": "of placed",
    "placed": "placed",
    "largest_correct_group": "largest group",
    "rmse_rotation_deg": "rotation (deg)",
    "rmse_translation_mm": "translation (mm)",
    "neighbour_f1": "neighbour F1",
    "seconds_per_puzzle": "s / puzzle",
}
"""The columns that a written table shows, with their headings; CSV and JSON hold all of them."""

NO_COLUMNS = ("scores", "signature", "protocols", "errors")
"""Of a record: nested, or of no interest."""

ON_SCREEN: dict[str, str] = {
    "q_pos": "q_pos",
    "q_pos_mean": "q_mean",
    "correct": "correct",
    "placed": "placed",
    "rmse_rotation_deg": "deg",
    "rmse_translation_mm": "mm",
    "neighbour_f1": "F1",
    "seconds_per_puzzle": "s",
}
"""The columns that fit into a terminal."""


def cell(key: str, value: float | None) -> str:
    """A figure as a table shows it; a figure that does not exist is a dash."""
    if value is None:
        return "–"
    return (
        f"{value:.1f}" if key.startswith("rmse") or key == "seconds_per_puzzle" else f"{value:.3f}"
    )


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table a data set, each figure with its 95 % interval over puzzles."""
    text = []
    for data in dict.fromkeys(row["data"] for row in rows):
        of_data = [row for row in rows if row["data"] == data]
        first = max(of_data, key=lambda row: row["puzzles"])
        text += [
            f"## {data}",
            "",
            f"{first['puzzles']} puzzles, {first['fragments']} fragments, seeds: {first['seeds']}; "
            f"protocol `{first['protocol']}`; means over puzzles with 95 % bootstrap intervals.",
            "",
            "| solver | " + " | ".join(HEADLINE.values()) + " |",
            "| --- |" + " ---: |" * len(HEADLINE),
        ]
        for row in of_data:
            cells = [_with_interval(row, key) for key in HEADLINE]
            text.append(f"| {named(row, of_data)} | " + " | ".join(cells) + " |")
        text.append("")
        failed = [f"- {row['solver']}: {row['failures']}" for row in of_data if row.get("failures")]
        if failed:
            text += ["A puzzle that a solver failed on counts as unplaced:", "", *failed, ""]
    return "\n".join(text)


def failures_of(records: Iterable[Mapping[str, Any]]) -> str | None:
    """Why a solver failed, and how often, in one line; None where it did not."""
    errors = (record["error"] for record in records if record.get("error") is not None)
    reasons = Counter(" ".join(str(error).split()).rstrip(":") for error in errors)
    told = (f"{_often(n)}: {why}" for why, n in reasons.most_common())
    return "; ".join(told) or None


def named(row: Mapping[str, Any], beside: Iterable[Mapping[str, Any]]) -> str:
    """The name of a row, on how many puzzles it was measured, where others have more, and how
    often it failed."""
    most = max((other.get("puzzles", 0) for other in beside), default=0)
    own = row.get("puzzles", most)
    name: str = row["solver"] if own == most else f"{row['solver']}, on {own} of {most}"
    return f"{name}, failed {_often(row['failed'])}" if row.get("failed") else name


def _often(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _with_interval(row: Mapping[str, Any], key: str) -> str:
    interval = row.get(f"{key}_ci")
    if row.get(key) is None or interval is None:
        return cell(key, row.get(key))
    return f"{cell(key, row[key])} [{cell(key, interval[0])}, {cell(key, interval[1])}]"


def write_tables(
    rows: Sequence[Mapping[str, Any]],
    records: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]],
    out: Path,
) -> None:
    """Writes `results.{json,csv,md}` and `puzzles.csv`, the rows they are means of."""
    puzzles = [
        {key: value for key, value in record.items() if key not in NO_COLUMNS}
        | dict(record["scores"])
        for of in records.values()
        for record in of
    ]
    atomic_write(out / "puzzles.csv", _csv(puzzles))
    atomic_write(out / "results.csv", _csv(rows))
    atomic_write(out / "results.md", markdown(rows))
    atomic_write(out / "results.json", json.dumps({"rows": rows}, indent=2, allow_nan=False) + "\n")


def _csv(rows: Iterable[Mapping[str, Any]]) -> str:
    rows = list(rows)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
