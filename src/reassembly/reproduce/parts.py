"""Runs a part, and puts what came out into tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reassembly.bench import BenchRow, bench, read_records
from reassembly.bench.tables import failures_of
from reassembly.reproduce.data import data_named
from reassembly.reproduce.measure import measure, puzzle_of
from reassembly.reproduce.pages import TRIVIAL, cheap_rows, remember
from reassembly.reproduce.paper import PARTS, REPAIR, REPAIR_PUZZLES, SCALABILITY, TUNED, Part, Row
from reassembly.reproduce.recipes import NOT_CONVERGED
from reassembly.reproduce.rows import EACH_FOLD, resolved, rows_of, weights_hash_of
from reassembly.reproduce.session import Data, Session, titled
from reassembly.reproduce.tables import Column, Table, by_puzzle, summary
from reassembly.solvers.registry import available_solvers

__all__ = ["OWN", "own_part", "tables_of", "trained_alike"]

OWN = "own"
"""The part of data sets that the user, or another package, adds."""
COLUMNS = (
    Column("label", "system"),
    Column("q_pos", "q_pos", 3),
    Column("correct", "correct", 3),
    Column("placed", "placed", 2, interval=False),
    Column("rmse_rotation_deg", "deg", 1),
    Column("rmse_translation_mm", "mm", 1),
    Column("neighbour_f1", "neighbour F1", 3, interval=False),
    Column("paper_q_pos", "`paper`: q_pos", 2, interval=False),
    Column("paper_rmse_rotation_deg", "`paper`: deg", 1, interval=False),
    Column("paper_rmse_translation_mm", "`paper`: 'mm'", 1, interval=False),
    Column("published", "published: q_pos / deg / 'mm'"),
    Column("training", "training"),
    Column("seconds", "s / puzzle", 1, interval=False),
    Column("memory_mb", "MB", 0),
    Column("failed", "failed", 0),
)
PUBLISHED_MEMORY = Column("published_memory_mb", "published: MB of training", 0)
STRICT = (
    *(column.key for column in COLUMNS[1:7]),
    "q_pos_mean",
    "q_pos_with_anchor",
    "correct_of_placed",
    "largest_correct_group",
    "neighbour_recall",
    "neighbour_precision",
)
PAPER = ("q_pos", "rmse_rotation_deg", "rmse_translation_mm")


def tables_of(session: Session, part: Part) -> Iterator[Table]:
    """Measures what is not measured yet, and gives the part's tables."""
    if part.name == "scalability":
        yield scalability_table(session, part)
    elif part.name == "time":
        yield time_table(session, part)
    else:
        yield from measured_tables(session, part)


def own_part(own: Mapping[str, Path]) -> Part:
    """A part like the paper's, for data sets that it does not know."""
    return Part(
        OWN,
        "Data sets of your own",
        "",
        "All systems on data sets that were added.",
        tuple(own),
        tuple(replace(row, published=None) for row in PARTS["semi-synthetic"].rows),
        open=True,
    )


def measured_tables(session: Session, part: Part) -> Iterator[Table]:
    """Measures a part on each of its data sets."""
    for name in part.data:
        data = data_named(session, name)
        rows = [row for row in rows_of(part) if name == REPAIR or not row.tuned]
        if not rows:
            continue
        answers = {row: _not_given(session, row, data) for row in rows}
        lines: list[dict[str, Any]] = []
        if data is not None:
            benches = [
                row
                for answer in answers.values()
                if not isinstance(answer, str)
                for row in answer[0]
            ]
            bench(
                {name: data.folder},
                benches,
                session.bench,
                seeds=session.seeds,
                ids=data.ids,
                detail=True,
                limit_s=session.extent.limit_s,
                workers=session.workers,
                progress=titled(session.progress, f"{part.name} on {name}:"),
            )
            remember(session, data, {row.name: _label(row.name) for row in benches})
            lines = [_line(session, data, key, key, TRIVIAL) for key in cheap_rows()]
        for row, answer in answers.items():
            published = row.published
            known: dict[str, Any] = {"label": row.label, "group": row.group}
            if isinstance(answer, str) or data is None:
                known["skipped"] = answer
            else:
                known |= _line(session, data, answer[0][0].name, row.label, row.group)
                known["training"] = answer[1]
            known |= {
                "recipe": row.recipe,
                "solver": row.solver,
                "keypoints": row.keypoints,
                "published": None if published is None else published.text(),
                "published_q_pos": published.q_pos if published else None,
                "published_rotation_deg": published.rotation_deg if published else None,
                "published_translation": published.translation if published else None,
                "published_memory_mb": published.memory_mb if published else None,
            }
            lines.append(known)
        note = f"RePAIR: 0 of {REPAIR_PUZZLES} puzzles were given." if data is None else data.note
        if data is not None and (lost := data.fragments - lines[0]["fragments"]) > 0:
            note += (
                f" **{lost} of their {data.fragments} fragments could not be read: these figures "
                "are of the others.**"
            )
        yield Table(
            f"{part.name}-{name.lower()}" if len(part.data) > 1 or part.name == OWN else part.name,
            f"{part.title}: {name}" if len(part.data) > 1 else part.title,
            part.source,
            part.about,
            COLUMNS if part.name != "keypoints" else (*COLUMNS, PUBLISHED_MEMORY),
            lines,
            _notes(session, note, lines),
        )


def _notes(session: Session, data: str, lines: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    notes = [
        f"{data} Seeds: {session.seeds}. Means over puzzles with 95 % bootstrap intervals over "
        "puzzles and seeds. Columns without a protocol are `strict`; those of `paper` stand here "
        "only to be read beside the published ones (audit.md). A puzzle that a solver failed on, "
        f"or took longer than {session.extent.limit_s:g} s for, counts as unplaced."
    ]
    if not trained_alike(lines):
        notes.append(
            "**Weights of unequal training**, see the column: rows differ by that as well."
        )
    return tuple(notes)


def trained_alike(lines: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the rows of each group are of weights that were trained equally long."""
    lengths: dict[str, set[str]] = {}
    for line in lines:
        if line.get("training"):
            length = line["training"].removeprefix(EACH_FOLD).removesuffix(NOT_CONVERGED)
            lengths.setdefault(line["group"], set()).add(length)
    return all(len(own) == 1 for own in lengths.values())


def _not_given(session: Session, row: Row, data: Data | None) -> tuple[list[BenchRow], str] | str:
    if data is None:
        return (
            "RePAIR was not given: `reassembly data repair` tells where to get it, and --data "
            "takes it"
        )
    if row.recipe is None and data.name in available_solvers()[row.solver].seen:
        return (
            f"its weights have learned from puzzles of {data.name}: no figure of theirs counts; "
            "benchmarks/join_folds.py measures it by folds"
        )
    return resolved(session, row)


def _label(key: str) -> str:
    """What a row is called outside its table, where those of all tables stand together."""
    plain = key.removeprefix(TUNED)
    for part in PARTS.values():
        for row in part.rows:
            if row.key == plain:
                label = f"data: {row.label}" if part.name == "data-creation" else row.label
                return label + (", fine-tuned" if plain != key else "")
    return key


def _line(session: Session, data: Data, key: str, label: str, group: str) -> dict[str, Any]:
    """The figures of one row."""
    records = _records(session.bench, data.name, key, data.ids, session.seeds)
    line: dict[str, Any] = {"label": label, "group": group}
    for name in STRICT:
        line[name], line[f"{name}_ci"] = summary(by_puzzle(records, "scores", name))
    for name in PAPER:
        figure = summary(by_puzzle(records, "protocols", "paper", name))
        line[f"paper_{name}"], line[f"paper_{name}_ci"] = figure
    line["seconds"], line["seconds_ci"] = summary(by_puzzle(records, "seconds"))
    for ours, name in (("memory_mb", "peak_memory_mb"), ("gpu_memory_mb", "peak_gpu_memory_mb")):
        line[ours] = max((r[name] for r in records if r.get(name)), default=None)
    line["failed"] = sum(record.get("error") is not None for record in records)
    line["failures"] = failures_of(records)
    line["puzzles"] = len({record["puzzle"] for record in records})
    line["fragments"] = sum(
        {record["puzzle"]: record["total_fragments"] for record in records}.values()
    )
    line["parameters"] = max((r.get("parameters") or 0 for r in records), default=0) or None
    line["weights_sha256"] = next(
        (r["weights_hash"] for r in records if r.get("weights_hash")), None
    )
    return line


def _records(
    folder: Path, data: str, key: str, ids: Sequence[str] | None, seeds: int
) -> list[dict[str, Any]]:
    return [
        record
        for record in read_records(folder, data, key)
        if record["seed"] < seeds and (ids is None or record["puzzle"] in ids)
    ]


def _cells(
    session: Session, part: Part, sizes: Sequence[int], repeat: int
) -> Iterator[tuple[Row, int, dict[str, Any]]]:
    """Each solver on a puzzle of each size; larger ones are not tried where one was too large."""
    rows = rows_of(part)
    total = len(rows) * len(sizes)
    for number, row in enumerate(rows):
        answer = resolved(session, row)
        stopped = ""
        for k, pieces in enumerate(sizes):
            if session.progress is not None:
                what = f"{part.name}: {row.key}, {pieces} pieces"
                session.progress(number * len(sizes) + k, total, what)
            if isinstance(answer, str):
                yield row, pieces, {"skipped": answer}
                break
            if stopped:
                yield row, pieces, {"skipped": stopped}
                continue
            chosen = answer[0][0]
            info = available_solvers()[row.solver]
            weights = chosen.settings.get("weights")
            known = weights_hash_of(session, info, weights) if weights or info.weights else None
            sha256 = known if isinstance(known, str) else None
            found = measure(
                puzzle_of(pieces, session.out / "data" / "pieces"),
                chosen.solver,
                chosen.settings,
                session.out / "measures" / part.name / row.key / f"{pieces}.json",
                weights_hash=sha256,
                limit_s=session.extent.cost_limit_s,
                repeat=repeat,
            )
            if "error" in found:
                stopped = f"not tried: failed on {pieces} pieces ({found['error']})"
            yield row, pieces, {**found, "weights_sha256": sha256}
    if session.progress is not None:
        session.progress(total, total, part.name)


def scalability_table(session: Session, part: Part) -> Table:
    lines = []
    for row, pieces, found in _cells(session, part, session.extent.sizes, 1):
        known = {"label": row.label, "pieces": pieces, **_cost(found)}
        if row.solver == "reassemblenet" and pieces in SCALABILITY:
            known["published_gb"] = SCALABILITY[pieces]
        lines.append(known)
    columns = (
        Column("label", "system"),
        Column("pieces", "pieces", 0),
        Column("seconds", "s", 2),
        Column("memory_mb", "MB", 0),
        Column("gpu_memory_mb", "MB on the GPU", 0),
        Column("published_gb", "published (GB on a GPU)", 2),
        Column("error", "failed"),
    )
    note = (
        f"At most {session.extent.cost_limit_s:g} s a puzzle. MB are those of the whole process, "
        f"Python and libraries included; device: {session.device}."
    )
    return _cost_table(part, columns, lines, note)


def time_table(session: Session, part: Part) -> Table:
    lines = [
        {"label": row.label, "group": row.group, "pieces": pieces, **_cost(found)}
        for row, pieces, found in _cells(session, part, (9,), session.extent.repeat)
    ]
    columns = (
        Column("label", "system"),
        Column("ready_s", "ready (s)", 1),
        Column("seconds", "solving (s)", 2),
        Column("memory_mb", "MB", 0),
        Column("gpu_memory_mb", "MB on the GPU", 0),
        Column("error", "failed"),
    )
    note = f"The fastest of {session.extent.repeat}; device: {session.device}."
    return _cost_table(part, columns, lines, note)


def _cost(found: Mapping[str, Any]) -> dict[str, Any]:
    keys = (
        "seconds",
        "ready_s",
        "memory_mb",
        "gpu_memory_mb",
        "placed",
        "weights_sha256",
        "error",
        "skipped",
    )
    return {key: found[key] for key in keys if found.get(key) is not None}


def _cost_table(
    part: Part, columns: tuple[Column, ...], lines: list[dict[str, Any]], note: str
) -> Table:
    return Table(part.name, part.title, part.source, part.about, columns, lines, (note,))
