"""Candidates for a piece as files: `candidates.csv` and `candidates.json`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from os import PathLike
from typing import Any

from reassembly.depot.search import Candidate
from reassembly.io.files import output_folder

__all__ = ["save_candidates"]

FILES = ("candidates.csv", "candidates.json")


def save_candidates(
    piece: str,
    candidates: Sequence[Candidate],
    out: str | PathLike[str],
    *,
    force: bool = False,
) -> None:
    """Writes both files; lengths are mm, angles degrees."""
    rows = [_row(rank, one) for rank, one in enumerate(candidates, 1)]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_row(0, candidates[0])) if candidates else ["rank"])
    writer.writeheader()
    writer.writerows(rows)
    document = {"piece": piece, "candidates": rows}
    with output_folder(out, force=force) as folder:
        (folder / FILES[0]).write_text(text.getvalue(), encoding="utf-8", newline="")
        (folder / FILES[1]).write_text(
            json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def _row(rank: int, one: Candidate) -> dict[str, Any]:
    return {
        "rank": rank,
        "id": one.id,
        "score": round(one.score, 4),
        "x_mm": round(one.pose.x_mm, 1),
        "y_mm": round(one.pose.y_mm, 1),
        "rotation_deg": round(one.pose.rotation_deg, 1),
        "contact_mm": round(one.contact_mm, 1),
        "at_x_mm": round(one.at_mm[0], 1),
        "at_y_mm": round(one.at_mm[1], 1),
        "other_at_x_mm": round(one.other_at_mm[0], 1),
        "other_at_y_mm": round(one.other_at_mm[1], 1),
        "picture": one.picture,
    }
