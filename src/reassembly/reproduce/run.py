"""Runs the parts, each carried on where it was, and writes what can be shown.

In the output folder:

- `results/`: tables, figures and the audit, without a picture or a path of this machine: to be
  kept or published
- `gallery.html`: truth and prediction side by side
- `bench/`: every prediction, its figures, time and memory (see `reassembly.bench.runner`)
- `measures/`: time and memory by the number of pieces
- `data/`: the made puzzles
- `weights/`, `runs/`, `pools/`: of the training runs that `--train` made
"""

from __future__ import annotations

import difflib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from reassembly._version import __version__
from reassembly.bench import BenchRow, bench, read_records
from reassembly.errors import InputError
from reassembly.io.files import DISK_FULL, atomic_write
from reassembly.io.readers import find_puzzles
from reassembly.reproduce import audit, figures, gallery
from reassembly.reproduce.data import own_data_sets
from reassembly.reproduce.measure import measure, puzzle_of
from reassembly.reproduce.paper import (
    PARTS,
    REPAIR,
    REPAIR_PUZZLES,
    SCALABILITY,
    SIZES,
    Part,
    Row,
)
from reassembly.reproduce.recipes import MINUTES, Found, Training, find_weights, recipe_named
from reassembly.reproduce.repair import Repair, completeness, fragment_count, read_repair
from reassembly.reproduce.tables import Column, Table, by_puzzle, summary, write_table
from reassembly.solvers.registry import SolverInfo, available_solvers
from reassembly.synthetic.dataset import generate

__all__ = ["PAGES", "reproduce"]

PAGES = ("audit", "gallery")
"""What is made of predictions that are there already."""
OWN = "own"
"""The part of data sets that the user, or another package, adds."""
TEST_SEED = 9000
"""Of the made puzzles that are measured on; training has others."""
TRIVIAL = "trivial"
BEYOND = "beyond the paper"
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

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Extent:
    """How much is run."""

    puzzles: int
    pieces: tuple[int, int] | None
    """Of made puzzles; None for 4 to 18, nine on average."""
    size_px: int
    repair: int | None
    """How many of RePAIR's puzzles, the smallest first; None for all."""
    sizes: tuple[int, ...]
    """Numbers of pieces whose cost is measured."""
    limit_s: float
    """For one puzzle."""
    repeat: int


FULL = Extent(1000, None, 1024, None, SIZES, 600.0, 3)
QUICK = Extent(2, (4, 5), 384, 2, (2, 4, 8, 16), 40.0, 1)


@dataclass(frozen=True)
class _Data:
    """Puzzles to measure on."""

    name: str
    folder: Path
    ids: tuple[str, ...] | None
    note: str
    """In words, for the tables."""
    pictures: bool
    """Whether they may be shown."""


@dataclass
class _Session:
    """What one call works with."""

    out: Path
    extent: Extent
    repair: Repair | None
    own: Mapping[str, Path]
    trainer: Training
    weights: tuple[Path, ...]
    train: bool
    seeds: int
    workers: int
    device: str
    progress: Progress | None
    say: Callable[[str], None]
    created: dict[tuple[str, str], str | InputError | None] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        return self.out / "results"

    @property
    def bench(self) -> Path:
        return self.out / "bench"


def reproduce(
    out: str | PathLike[str],
    *,
    data: str | PathLike[str] | None = None,
    quick: bool = False,
    only: Sequence[str] = (),
    weights: str | PathLike[str] | None = None,
    train: bool = False,
    datasets: Sequence[str | PathLike[str]] = (),
    puzzles: int | None = None,
    seeds: int = 1,
    workers: int = 1,
    device: str = "cpu",
    minutes: float = MINUTES,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Path:
    """Rebuilds the paper's tables and figures, published figures beside ours.

    Every part carries on where an earlier call was cut short; what depends on nothing that changed
    is not run again.

    Args:
        out: a new folder, or one of an earlier call.
        data: RePAIR, whole or a part of it.
        quick: few, small, made puzzles: shows that all works, not what anything is worth.
        only: names of `PARTS`, `own`, `audit` or `gallery`; all without.
        weights: a folder of trained weights under the names of recipes.
        train: make the weights that are missing, which takes long.
        datasets: further folders of puzzles with true poses, to be measured by the same tables.
        puzzles: how many made puzzles, in the place of 1000 or, with `quick`, 2.
        seeds: how many seeds, from 0.
        workers: puzzles solved side by side; time and memory are then a busy machine's.
        device: `cpu` or `cuda`.
        minutes: length of every training run.
        say: called with lines that people may want to read.

    Returns:
        The page that leads to all others.
    """
    names = _chosen(only)
    extent = QUICK if quick else FULL
    if puzzles is not None:
        if puzzles < 1:
            raise InputError(f"{puzzles} puzzles were asked for", "Give --puzzles 1 or more")
        extent = replace(extent, puzzles=puzzles)
    given = None if weights is None else Path(weights)
    if given is not None and not given.is_dir():
        raise InputError("there is no such folder", "Give --weights a folder of weights", given)
    repair = None if data is None else read_repair(data)
    own = own_data_sets(datasets)
    if OWN in only and not own:
        raise InputError("no data set was given", "Give --dataset a folder of puzzles")
    out = _folder(Path(out), quick)
    with _disk(out):
        session = _Session(
            out=out,
            extent=extent,
            repair=repair,
            own=own,
            trainer=_trainer(out, repair, device, minutes),
            weights=tuple(f for f in (given, out / "weights") if f is not None),
            train=train,
            seeds=seeds,
            workers=workers,
            device=device,
            progress=progress,
            say=say,
        )
        return _run(session, names, quick)


def _run(session: _Session, names: Sequence[str], quick: bool) -> Path:
    session.results.mkdir(parents=True, exist_ok=True)
    parts = [PARTS[name] for name in names if name in PARTS]
    if OWN in names:
        parts.append(_own_part(session.own))
    if session.train:
        _train(session, parts)
    for part in parts:
        if part.name == "scalability":
            _write(session, part, [_scalability(session, part)])
        elif part.name == "time":
            _write(session, part, [_time(session, part)])
        else:
            _write(session, part, list(_tables(session, part)))
    state = _state(session)
    session.say("drawing figures")
    drawn = figures.draw_all(session.results, session.bench, state)
    session.say("audit")
    audit.write_audit(session.results, session.bench, state)
    session.say("gallery")
    gallery.write_gallery(session.out / "gallery.html", session.bench, state)
    return _index(session, drawn, quick)


def _chosen(only: Sequence[str]) -> list[str]:
    known = [*PARTS, OWN, *PAGES]
    for name in only:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3, 0.3)
            hint = f"Did you mean {' or '.join(near)}? " if near else ""
            raise InputError(f"there is no part {name!r}", f"{hint}Choose from {', '.join(known)}")
    if only:
        return [name for name in known if name in only]
    return [name for name in known if name != OWN] + [OWN]


def _folder(out: Path, quick: bool) -> Path:
    """A new folder, or one of an earlier call of the same extent."""
    marker = out / "reproduce.json"
    if marker.is_file():
        try:
            before = bool(json.loads(marker.read_text(encoding="utf-8"))["quick"])
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError("this file is damaged", "Give --out a new folder", marker) from None
        if before != quick:
            kind = "a quick run" if before else "a full run"
            raise InputError(
                f"this folder holds {kind}",
                f"{'Add --quick' if before else 'Leave --quick out'}, or give --out a new folder",
                out,
            )
        return out
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(
            "this is not an empty folder, nor one of an earlier run", "Give --out a new folder", out
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"this folder cannot be written ({error.strerror})", "Give --out another folder", out
        ) from error
    atomic_write(marker, json.dumps({"format": "reassembly-reproduce", "quick": quick}) + "\n")
    return out


@contextmanager
def _disk(out: Path) -> Iterator[None]:
    """A full disk, or a folder that may not be written, is said in one line."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL:
            raise InputError(
                "the disk is full", "Make room; the same command carries on", out
            ) from error
        if isinstance(error, PermissionError):
            raise InputError(
                f"{error.filename or 'a file'} cannot be written: permission denied",
                "Choose a place where you may write",
                out,
            ) from error
        raise


# Data


def _data(session: _Session, name: str) -> _Data | None:
    """Puzzles by name, made if need be; None for RePAIR where it was not given."""
    extent = session.extent
    if name in session.own:
        found = find_puzzles(session.own[name])
        return _Data(name, session.own[name], None, f"{len(found)} puzzles.", True)
    if name == REPAIR:
        repair = session.repair
        if repair is None:
            return None
        ids = repair.measured
        if extent.repair is not None and len(ids) > extent.repair:
            sizes = {s.id: fragment_count(s) for s in repair.sources if s.id in ids}
            ids = tuple(sorted(ids, key=lambda i: (sizes[i], i))[: extent.repair])
        note = f"RePAIR: given are {completeness(repair)}. Measured on {len(ids)} of them."
        return _Data(name, repair.path, ids, note, False)
    folder = session.out / "data" / f"{name}-{extent.puzzles}"
    generate(
        folder,
        count=extent.puzzles,
        seed=TEST_SEED,
        preset=name,
        pieces=extent.pieces,
        size_px=extent.size_px,
        workers=session.workers,
        resume=True,
        progress=_titled(session.progress, f"making {name}"),
    )
    command = f"reassembly generate --preset {name} --count {extent.puzzles} --seed {TEST_SEED}"
    if extent.pieces:
        command += f" --pieces {extent.pieces[0]}-{extent.pieces[1]} --size {extent.size_px}"
    return _Data(name, folder, None, f"{extent.puzzles} made puzzles: `{command}`.", True)


def _own_part(own: Mapping[str, Path]) -> Part:
    return Part(
        OWN,
        "Data sets of your own",
        "not there",
        "All systems on data sets that were added.",
        tuple(own),
        tuple(r for r in PARTS["semi-synthetic"].rows for r in [replace(r, published=None)]),
        open=True,
    )


# Rows


def _rows_of(part: Part) -> list[Row]:
    """The part's rows and, in an open one, a row for every other solver that there is."""
    if not part.open:
        return list(part.rows)
    rows = part.rows or tuple(
        row
        for row in PARTS["repair"].rows
        if not row.tuned and row.recipe not in ("frozen", "learnable")
    )
    covered = {row.solver for row in rows}
    others = [
        Row(info.name, info.name, None, BEYOND)
        for info in available_solvers().values()
        if not info.trivial and info.name not in covered
    ]
    return [*rows, *others]


def _resolved(session: _Session, row: Row) -> tuple[list[BenchRow], str] | str:
    """How a row is measured, and how long its weights were trained; or why it cannot be."""
    info = available_solvers()[row.solver]
    if row.recipe is None:
        problem = _problem(session, info, None)
        return problem or ([BenchRow(row.key, row.solver, _settings(session, info, None))], "")
    folds: list[tuple[int | None, frozenset[str] | None]] = [(None, None)]
    if row.tuned:
        repair = session.repair
        if repair is None or not repair.can_tune:
            return "fine-tuning needs RePAIR with a training split or with folds"
        if repair.folds is not None:
            folds = [(k, ids) for k, ids in enumerate(repair.fold_ids(), start=1) if ids]
    found: list[tuple[Found, frozenset[str] | None]] = []
    for fold, ids in folds:
        recipe = recipe_named(row.recipe, fold)
        weights = find_weights(recipe, session.weights)
        if weights is None:
            return (
                f"needs a training run (`{recipe.name}` in recipes.md): add --train, or give a "
                f"folder with {recipe.name}.safetensors as --weights"
            )
        if problem := _problem(session, info, weights.path):
            return problem
        found.append((weights, ids))
    rows = [
        BenchRow(row.key, row.solver, _settings(session, info, weights.path), ids)
        for weights, ids in found
    ]
    lengths = list(dict.fromkeys(weights.length for weights, _ in found))
    return rows, ("each fold " if len(found) > 1 else "") + "; ".join(lengths)


def _settings(session: _Session, info: SolverInfo, weights: str | None) -> dict[str, Any]:
    settings: dict[str, Any] = {} if weights is None else {"weights": weights}
    if session.device != "cpu" and session.device in info.devices:
        settings["device"] = session.device
    return settings


def _problem(session: _Session, info: SolverInfo, weights: str | None) -> str | None:
    """Why a solver cannot be made, where it cannot."""
    if weights is None and not info.weights:
        return None
    answer = _weights_hash(session, info, weights)
    return f"{answer.what}: {answer.remedy}" if isinstance(answer, InputError) else None


def _weights_hash(
    session: _Session, info: SolverInfo, weights: str | None
) -> str | InputError | None:
    """What a solver's weights are, or what is wrong with them; looked at once."""
    key = (info.name, weights or "")
    if key not in session.created:
        try:
            made = info.create(**_settings(session, info, weights))
            session.created[key] = getattr(made, "weights_hash", None)
        except InputError as error:
            session.created[key] = error
    return session.created[key]


def _train(session: _Session, parts: Sequence[Part]) -> None:
    """Makes what weights the parts need and do not have, those to be fine-tuned first."""
    rows = {row.recipe: row for part in parts for row in part.rows if row.recipe is not None}
    for row in sorted(rows.values(), key=lambda row: row.tuned):
        assert row.recipe is not None
        folds: list[int | None] = [None]
        if row.tuned:
            if session.repair is None or not session.repair.can_tune:
                continue
            if session.repair.folds is not None:
                folds = list(range(1, session.trainer.fold_count + 1))
        for fold in folds:
            recipe = recipe_named(row.recipe, fold)
            if find_weights(recipe, session.weights) is None:
                base = None
                if recipe.base is not None:
                    base = find_weights(recipe_named(recipe.base), session.weights)
                    if base is None:
                        base = session.trainer.start(recipe_named(recipe.base), None, session.say)
                session.trainer.start(recipe, base.path if base else None, session.say)


def _trainer(out: Path, repair: Repair | None, device: str, minutes: float) -> Training:
    folds = None if repair is None else repair.folds
    return Training(
        out,
        repair=None if repair is None else repair.path,
        folds=folds,
        fold_count=0 if repair is None or folds is None else len(repair.fold_ids()),
        device=device,
        minutes=minutes,
    )


# Tables of figures


def _tables(session: _Session, part: Part) -> Iterator[Table]:
    """Measures a part on each of its data sets."""
    for name in part.data:
        data = _data(session, name)
        rows = [row for row in _rows_of(part) if name == REPAIR or not row.tuned]
        answers = {row: _resolved(session, row) for row in rows}
        lines: list[dict[str, Any]] = []
        if data is not None:
            benches = [b for answer in answers.values() if not isinstance(answer, str)
                       for b in answer[0]]  # fmt: skip
            bench(
                {name: data.folder},
                benches,
                session.bench,
                seeds=session.seeds,
                ids=data.ids,
                detail=True,
                limit_s=session.extent.limit_s,
                workers=session.workers,
                progress=_titled(session.progress, f"{part.name} on {name}:"),
            )
            _remember(session, data, {b.name: _label(part, b.name) for b in benches})
            lines = [_line(session, data, key, key, TRIVIAL) for key in _cheap()]
        for row, answer in answers.items():
            published = row.published
            known: dict[str, Any] = {"label": row.label, "group": row.group}
            if data is None:
                known["skipped"] = (
                    "RePAIR was not given: `reassembly data repair` tells where to get it, and "
                    "--data takes it"
                )
            elif isinstance(answer, str):
                known["skipped"] = answer
            else:
                known |= _line(session, data, row.key, row.label, row.group)
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
        yield Table(
            f"{part.name}-{name.lower()}" if len(part.data) > 1 or part.name == OWN else part.name,
            f"{part.title}: {name}" if len(part.data) > 1 else part.title,
            part.source,
            part.about,
            COLUMNS,
            lines,
            _notes(session, note, lines),
        )


def _notes(session: _Session, data: str, lines: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    notes = [
        f"{data} Seeds: {session.seeds}. Means over puzzles with 95 % bootstrap intervals over "
        "puzzles and seeds. Columns without a protocol are `strict`; those of `paper` stand here "
        "only to be read beside the published ones (audit.md). A puzzle that a solver failed on, "
        f"or took longer than {session.extent.limit_s:g} s for, counts as unplaced."
    ]
    lengths = {line["training"] for line in lines if line.get("training")}
    if len(lengths) > 1:
        notes.append(
            "**Weights of unequal training**, see the column: rows differ by that as well."
        )
    return tuple(notes)


def _label(part: Part, key: str) -> str:
    return next((row.label for row in part.rows if row.key == key), key)


def _cheap() -> list[str]:
    from reassembly.bench.runner import ORACLES

    return [*ORACLES, *(i.name for i in available_solvers().values() if i.trivial)]


def _line(session: _Session, data: _Data, key: str, label: str, group: str) -> dict[str, Any]:
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


# Tables of cost


def _cells(
    session: _Session, part: Part, sizes: Sequence[int], repeat: int
) -> Iterator[tuple[Row, int, dict[str, Any]]]:
    """Each solver on a puzzle of each size; larger ones are not tried where one was too large."""
    rows = _rows_of(part)
    total = len(rows) * len(sizes)
    for number, row in enumerate(rows):
        answer = _resolved(session, row)
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
            sha256 = _weights_hash(session, info, chosen.settings.get("weights"))
            found = measure(
                puzzle_of(pieces, session.out / "data" / "pieces"),
                chosen.solver,
                chosen.settings,
                session.out / "measures" / part.name / row.key / f"{pieces}.json",
                weights_hash=sha256 if isinstance(sha256, str) else None,
                limit_s=session.extent.limit_s,
                repeat=repeat,
            )
            if "error" in found:
                stopped = f"{pieces} pieces were too many: {found['error']}"
            yield row, pieces, found
    if session.progress is not None:
        session.progress(total, total, part.name)


def _scalability(session: _Session, part: Part) -> Table:
    lines = []
    for row, pieces, found in _cells(session, part, session.extent.sizes, 1):
        known = {"label": row.label, "group": row.label, "pieces": pieces, **_cost(found)}
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
        f"At most {session.extent.limit_s:g} s a puzzle. MB are those of the whole process, Python "
        f"and libraries included; device: {session.device}."
    )
    return _cost_table(part, columns, lines, note)


def _time(session: _Session, part: Part) -> Table:
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
    keys = ("seconds", "ready_s", "memory_mb", "gpu_memory_mb", "placed", "error", "skipped")
    return {key: found[key] for key in keys if found.get(key) is not None}


def _cost_table(
    part: Part, columns: tuple[Column, ...], lines: list[dict[str, Any]], note: str
) -> Table:
    return Table(part.name, part.title, part.source, part.about, columns, lines, (note,))


# What is left behind


def _write(session: _Session, part: Part, tables: Sequence[Table]) -> None:
    for table in tables:
        write_table(table, session.results)
    atomic_write(session.results / "recipes.md", _recipes_page(session))


def _remember(session: _Session, data: _Data, rows: Mapping[str, str]) -> None:
    """Notes what was measured, for pages that are made later."""
    file = session.out / "state.json"
    state = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    before = state.get(data.name, {})
    state[data.name] = {
        "folder": os.path.relpath(data.folder, session.out)
        if data.folder.is_relative_to(session.out)
        else str(data.folder.resolve()),
        "ids": data.ids,
        "note": data.note,
        "pictures": data.pictures,
        "seeds": session.seeds,
        "rows": {**before.get("rows", {}), **{key: key for key in _cheap()}, **rows},
    }
    atomic_write(file, json.dumps(state, indent=1) + "\n")


def _state(session: _Session) -> dict[str, Any]:
    """What was measured, by data set."""
    file = session.out / "state.json"
    if not file.is_file():
        return {}
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    for entry in found.values():
        entry["folder"] = str(session.out / entry["folder"])
    return found


def _recipes_page(session: _Session) -> str:
    """Every training run with its commands."""
    import shlex

    from reassembly.reproduce.recipes import RECIPES

    repair = session.repair
    shown = replace(
        session.trainer,
        out=Path("OUT"),
        repair=Path("REPAIR"),
        folds=Path("REPAIR/folds.json") if session.trainer.folds else None,
    )
    lines = [
        "# Training runs behind the rows",
        "",
        f"Each of {session.trainer.minutes:g} minutes, preparation not counted. `reassembly "
        "reproduce --train` makes those that are missing; made elsewhere, their weights are given "
        "by `--weights FOLDER`, as `FOLDER/NAME.safetensors` (and `FOLDER/NAME.json` with "
        '`{"minutes": 3.1, "device": "one NVIDIA H200"}`) or as the folder of the run, '
        "`FOLDER/NAME`.",
        "",
    ]
    folds: list[int | None] = [None]
    if repair is not None and repair.folds is not None:
        folds = list(range(1, session.trainer.fold_count + 1))
    for name, plain in RECIPES.items():
        recipes = [plain, *(recipe_named(f"tuned-{name}", fold) for fold in folds)]
        for recipe in recipes:
            found = find_weights(recipe, session.weights)
            state = "missing" if found is None else f"here, {found.length}"
            same = f"; the same as `{recipe.same_as}`" if recipe.same_as else ""
            lines += [f"## {recipe.name}", "", f"Weights: {state}{same}.", "", "```sh"]
            lines += [f"reassembly {shlex.join(c)}" for c in shown.commands(recipe)]
            lines += ["```", ""]
    return "\n".join(lines)


def _index(session: _Session, drawn: Sequence[str], quick: bool) -> Path:
    """The page that leads to all others: what was run, on what, and where it is."""
    lines = ["# The paper's evaluation, rebuilt", ""]
    if quick:
        lines += [
            "**A quick run**: few and small puzzles. It shows that everything works, not what "
            "anything is worth.",
            "",
        ]
    lines += [
        "Published figures stand in a column of their own and are no targets: [audit.md](audit.md) "
        "shows what they measure. Rows without figures say what is missing. Training runs and "
        "their commands: [recipes.md](recipes.md).",
        "",
        "| table | in the paper | rows with figures |",
        "| --- | --- | ---: |",
    ]
    for file in sorted(session.results.glob("*.json"), key=_order):
        table = json.loads(file.read_text(encoding="utf-8"))
        if "rows" not in table or "source" not in table:
            continue
        rows = [row for row in table["rows"] if row.get("group") != TRIVIAL]
        have = sum(not row.get("skipped") for row in rows)
        name = file.stem
        lines.append(
            f"| [{table['title']}]({name}.md) ([CSV]({name}.csv), [LaTeX]({name}.tex), "
            f"[JSON]({name}.json)) | {table['source']} | {have} of {len(rows)} |"
        )
    lines += ["", *(f"![{Path(name).stem}]({name})\n" for name in drawn)]
    lines += ["## How", "", "```sh", _command(session, quick), "```", ""]
    lines += [f"- {text}" for text in _machine(session)]
    atomic_write(session.results / "index.md", "\n".join([*lines, ""]))
    return session.results / "index.md"


def _order(file: Path) -> tuple[int, str]:
    names = list(PARTS)
    found = [k for k, name in enumerate(names) if file.stem.startswith(name)]
    return (found[0] if found else len(names), file.stem)


def _command(session: _Session, quick: bool) -> str:
    """The command, without this machine's paths."""
    words = ["reassembly reproduce --out OUT"]
    words += ["--data REPAIR"] if session.repair else []
    words += ["--quick"] if quick else []
    words += ["--weights WEIGHTS"] if len(session.weights) > 1 else []
    words += [f"--dataset {name}" for name in session.own]
    words += ["" if quick else f"--puzzles {session.extent.puzzles}"]
    words += [f"--seeds {session.seeds}", f"--workers {session.workers}"]
    words += [f"--device {session.device}"]
    return " ".join(word for word in words if word)


def _machine(session: _Session) -> list[str]:
    import psutil

    texts = [
        f"reassembly {__version__}, Python {platform.python_version()}, {platform.system()} on "
        f"{platform.machine()}, {os.cpu_count()} cores, "
        f"{psutil.virtual_memory().total / 2**30:.0f} GB of memory"
    ]
    torch = sys.modules.get("torch")
    if torch is not None:
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
        texts.append(f"torch {torch.__version__}, {gpu}")
    texts.append(f"seeds 0 to {session.seeds - 1}; made test puzzles of seed {TEST_SEED}")
    texts.append("weights: the column `weights_sha256` of each table's CSV")
    return texts


def _titled(progress: Progress | None, title: str) -> Progress | None:
    if progress is None:
        return None

    def show(done: int, total: int, what: str) -> None:
        progress(done, total, f"{title} {what}")

    return show
