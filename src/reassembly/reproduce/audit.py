"""What each published metric really measures: trivial answers under all protocols, side by side.

Everything is computed from stored predictions, and the page says by which command anyone can
compute it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reassembly._version import __version__
from reassembly.bench import prediction_folder, read_records
from reassembly.io.assembly_json import assembly_to_json
from reassembly.io.files import atomic_write
from reassembly.io.readers import find_puzzles
from reassembly.metrics import PROTOCOLS, score
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Provenance, Puzzle
from reassembly.reproduce.paper import PARTS
from reassembly.reproduce.tables import Column, Table, by_puzzle, markdown, summary, write_table

__all__ = ["constant_assembly", "write_audit"]

CONSTANT = "constant"
PLACE = (0.54, 0.49)
"""Of the constant answer, in units of the canvas: the mean position of real pieces."""
FIGURES = ("q_pos", "rmse_rotation_deg", "rmse_translation_mm")
COLUMNS = (
    Column("label", "answer"),
    Column("strict_q_pos", "`strict`: q_pos", 3),
    Column("strict_correct", "correct", 3, interval=False),
    Column("strict_rmse_rotation_deg", "deg", 1, interval=False),
    Column("strict_rmse_translation_mm", "mm", 1, interval=False),
    Column("repair-script_q_pos", "`repair-script`: q_pos", 3),
    Column("repair-script_rmse_rotation_deg", "deg", 1, interval=False),
    Column("repair-script_rmse_translation_mm", "mm", 1, interval=False),
    Column("paper_q_pos", "`paper`: q_pos", 3),
    Column("paper_rmse_rotation_deg", "deg", 1, interval=False),
    Column("paper_rmse_translation_mm", "'mm'", 1, interval=False),
)
INTRODUCTION = Path(__file__).parent / "templates" / "audit.md"


def constant_assembly(puzzle: Puzzle) -> Assembly:
    """Every piece on one point of the true canvas, turned by 0 degrees: no more than a constant, in
    the units in which the paper's code predicts."""
    assert puzzle.truth is not None
    pieces = [puzzle[i] for i in puzzle.truth]
    centres = np.array([pose.translation for pose in puzzle.truth.values()])
    halves = np.array([np.array(piece.frame_px) * piece.mm_per_px / 2 for piece in pieces])
    low, high = (centres - halves).min(axis=0), (centres + halves).max(axis=0)
    # The paper's code divides x by the height of the canvas, and y by its width.
    place = low + PLACE * (high - low)[::-1]
    poses = {piece.id: Pose(*(place - piece.centroid_mm)) for piece in pieces}
    return Assembly.of(puzzle, poses, provenance=Provenance(CONSTANT))


def write_audit(results: Path, bench: Path, state: Mapping[str, Any]) -> None:
    """Writes `audit.md`, and for each data set `audit-DATA.csv`, `.tex`, `.json` and `.md`."""
    text = [INTRODUCTION.read_text(encoding="utf-8")]
    for data, entry in state.items():
        rows = [
            _row(label, _known(bench, data, key, entry)) for key, label in entry["rows"].items()
        ]
        rows.insert(len(_trivial(rows)), _row(CONSTANT, _constant(bench, data, entry)))
        table = Table(
            f"audit-{data.lower()}",
            f"{data}: the same answers under three protocols",
            _printed(),
            entry["note"],
            COLUMNS,
            rows,
        )
        write_table(table, results)
        text += [markdown(table), _again(bench, data, entry)]
    if not state:
        text.append("Nothing has been measured yet.\n")
    atomic_write(results / "audit.md", "\n".join(text))


def _trivial(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    names = ("truth", "true-centroids", "stack", "random", "ring")
    return [row for row in rows if row["label"] in names]


def _printed() -> str:
    """The range of all published figures of ReassembleNet on RePAIR."""
    printed = [
        row.published
        for row in PARTS["repair"].rows
        if row.solver == "reassemblenet" and row.published is not None
    ]
    ranges = []
    for name, key in (
        ("Q_pos", "q_pos"),
        ("rotation", "rotation_deg"),
        ("translation", "translation"),
    ):
        values = [value for p in printed if (value := getattr(p, key)) is not None]
        ranges.append(f"{name} {min(values):g} to {max(values):g}")
    return f"ReassembleNet on RePAIR has {', '.join(ranges)}"


def _known(bench: Path, data: str, key: str, entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"puzzle": record["puzzle"], "strict": record["scores"], **record["protocols"]}
        for record in read_records(bench, data, key)
        if record["seed"] < entry["seeds"]
        and (entry["ids"] is None or record["puzzle"] in entry["ids"])
        and "protocols" in record
    ]


def _constant(bench: Path, data: str, entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The constant answer, kept beside the other predictions; scored where the puzzle is new."""
    known = {r["puzzle"]: r["signature"] for r in read_records(bench, data, "truth")}
    folder = prediction_folder(bench, data, CONSTANT, 0)
    cache = bench.parent / "measures" / "audit" / f"{folder.parents[1].name}.json"
    before = json.loads(cache.read_text(encoding="utf-8")) if cache.is_file() else {}
    found: dict[str, dict[str, Any]] = {}
    for source in find_puzzles(entry["folder"]):
        if source.id not in known or (entry["ids"] is not None and source.id not in entry["ids"]):
            continue
        signature = f"{__version__} {known[source.id]}"
        found[source.id] = before.get(source.id, {})
        if found[source.id].get("signature") == signature:
            continue
        puzzle = source.load()
        answer = constant_assembly(puzzle)
        path = folder / f"{source.id}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, assembly_to_json(answer))
        scores = {protocol: score(puzzle, answer, protocol) for protocol in PROTOCOLS}
        found[source.id] = {"puzzle": source.id, "signature": signature, **scores}
    cache.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(cache, json.dumps(found) + "\n")
    return list(found.values())


def _row(label: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"label": label}
    for protocol in PROTOCOLS:
        for name in (*FIGURES, *(["correct"] if protocol == "strict" else [])):
            key = f"{protocol}_{name}"
            row[key], row[f"{key}_ci"] = summary(by_puzzle(records, protocol, name))
    return row


def _again(bench: Path, data: str, entry: Mapping[str, Any]) -> str:
    """How to compute a row again."""
    folder = prediction_folder(bench, data, "stack", 0).relative_to(bench.parent).as_posix()
    inside = Path(entry["folder"])
    truth = (
        f"OUT/{inside.relative_to(bench.parent).as_posix()}"
        if inside.is_relative_to(bench.parent)
        else "PUZZLES"
    )
    return (
        "Again, from the stored predictions, such as those of `stack`:\n\n```sh\n"
        f"reassembly evaluate OUT/{folder} --truth {truth} --protocol paper\n```\n"
    )
