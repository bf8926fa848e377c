"""Rows of figures with intervals, as Markdown, CSV, LaTeX and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reassembly.io.files import atomic_write

__all__ = ["Column", "Table", "by_puzzle", "markdown", "summary", "write_table"]

DRAWS = 2000
INTERVAL = (2.5, 97.5)
"""Percentiles."""
LATEX = str.maketrans(
    {
        "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
        "–": "--", "`": "",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column as people see it; CSV and JSON hold everything."""

    key: str
    heading: str
    digits: int | None = None
    """Decimals; None for text."""
    interval: bool = True
    """Whether its interval is shown."""


@dataclass(frozen=True)
class Table:
    """A table with what must be known to read it."""

    name: str
    """Of its files."""
    title: str
    source: str
    about: str
    columns: tuple[Column, ...]
    rows: Sequence[Mapping[str, Any]]
    """Values by the columns' keys; `KEY_ci` is an interval, `skipped` why there is no figure,
    `failures` why puzzles were not solved."""
    notes: tuple[str, ...] = ()


def summary(
    values: Mapping[str, Sequence[float | None]], seed: int = 0
) -> tuple[float | None, list[float] | None]:
    """The mean over puzzles, seeds of a puzzle averaged first, and its 95 % bootstrap interval.

    Args:
        values: for each puzzle one value a seed; None where it does not exist.

    Returns:
        Both None where nothing is known. Puzzles are drawn again, and within each its seeds.
    """
    known = {i: [v for v in of if v is not None] for i, of in sorted(values.items())}
    groups = [np.array(of, np.float64) for of in known.values() if of]
    if not groups:
        return None, None
    mean = float(np.mean([of.mean() for of in groups]))
    rng = np.random.default_rng(seed)
    drawn = np.stack(
        [of[rng.integers(0, len(of), (DRAWS, len(of)))].mean(axis=1) for of in groups], axis=1
    )
    # One seed drawn twice is no news: with a single one only the puzzles vary.
    picks = rng.integers(0, len(groups), (DRAWS, len(groups)))
    means = np.take_along_axis(drawn, picks, axis=1).mean(axis=1)
    low, high = np.percentile(means, INTERVAL)
    return mean, [float(low), float(high)]


def by_puzzle(records: Sequence[Mapping[str, Any]], *path: str) -> dict[str, list[float | None]]:
    """Values of records by puzzle: `by_puzzle(records, "scores", "q_pos")`."""
    found: defaultdict[str, list[float | None]] = defaultdict(list)
    for record in records:
        value: Any = record
        for key in path:
            value = None if value is None else value.get(key)
        found[record["puzzle"]].append(value)
    return dict(found)


def write_table(table: Table, folder: Path) -> None:
    """Writes `NAME.md`, `.csv`, `.tex` and `.json`."""
    atomic_write(folder / f"{table.name}.md", markdown(table, level=1))
    atomic_write(folder / f"{table.name}.csv", as_csv(table))
    atomic_write(folder / f"{table.name}.tex", latex(table))
    content = {
        "name": table.name,
        "title": table.title,
        "source": table.source,
        "about": table.about,
        "notes": table.notes,
        "rows": table.rows,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    atomic_write(folder / f"{table.name}.json", text + "\n")


def cell(row: Mapping[str, Any], column: Column) -> str:
    """A figure with its interval, or a dash."""
    value = row.get(column.key)
    if value is None or value == "":
        return "–"
    if column.digits is None:
        return str(value)
    text = f"{value:.{column.digits}f}"
    interval = row.get(f"{column.key}_ci")
    if interval is None or not column.interval:
        return text
    low, high = (f"{bound:.{column.digits}f}" for bound in interval)
    return f"{text} [{low}, {high}]"


def _groups(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(str(row.get("group") or ""), []).append(row)
    return found


def markdown(table: Table, level: int = 2) -> str:
    """The table under a heading, what it shows before it; notes, skipped rows and failures after
    it."""
    source = f" In the paper: {table.source}." if table.source else ""
    text = [f"{'#' * level} {table.title}", "", table.about + source, ""]
    if table.rows:
        text += [
            "| " + " | ".join(column.heading for column in table.columns) + " |",
            "|" + "".join(" --- |" if c.digits is None else " ---: |" for c in table.columns),
        ]
    for group, rows in _groups(table.rows).items():
        if group:
            text.append(f"| **{group}** |" + " |" * (len(table.columns) - 1))
        for row in rows:
            cells = (cell(row, column).replace("|", r"\|") for column in table.columns)
            text.append("| " + " | ".join(cells) + " |")
    text += ["", *(f"{note}\n" for note in table.notes)]
    if skipped := [row for row in table.rows if row.get("skipped")]:
        text += [f"{len(skipped)} rows without figures of ours:", ""]
        reasons: dict[str, list[str]] = {}
        for row in skipped:
            about = [row.get("group"), row.get("recipe") and f"`{row['recipe']}`"]
            more = ", ".join(str(a) for a in about if a and a != row["label"])
            name = f"{row['label']} ({more})" if more else str(row["label"])
            reasons.setdefault(str(row["skipped"]), []).append(name)
        text += [f"- {'; '.join(names)}: {reason}" for reason, names in reasons.items()]
        text.append("")
    if failed := [row for row in table.rows if row.get("failures")]:
        text += ["Why solvers failed:", ""]
        text += [f"- {row['label']}: {row['failures']}" for row in failed]
        text.append("")
    return "\n".join(text)


def latex(table: Table) -> str:
    """A `tabular` for the package booktabs."""
    sides = "".join("l" if column.digits is None else "r" for column in table.columns)
    lines = [
        f"% {table.title}",
        r"\begin{tabular}{" + sides + "}",
        r"\toprule",
        " & ".join(column.heading.translate(LATEX) for column in table.columns) + r" \\",
    ]
    for group, rows in _groups(table.rows).items():
        lines.append(r"\midrule")
        if group:
            count = len(table.columns)
            lines.append(rf"\multicolumn{{{count}}}{{l}}{{\emph{{{group.translate(LATEX)}}}}} \\")
        for row in rows:
            cells = (cell(row, column).translate(LATEX) for column in table.columns)
            lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def as_csv(table: Table) -> str:
    """One line a row, intervals as two columns, figures with six digits (`.json` has them all)."""
    flat = []
    for row in table.rows:
        line: dict[str, Any] = {}
        for key, value in row.items():
            if key.endswith("_ci"):
                low, high = value if value is not None else (None, None)
                line |= {f"{key[:-3]}_low": low, f"{key[:-3]}_high": high}
            else:
                line[key] = value
        flat.append({key: f"{x:.6g}" if isinstance(x, float) else x for key, x in line.items()})
    columns = list(dict.fromkeys(key for line in flat for key in line))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()
