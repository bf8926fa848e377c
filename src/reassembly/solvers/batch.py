"""Solves every puzzle of a folder into a folder of its own, and carries on after a kill.

OUT/<puzzle>/       what `reassembly solve` writes of that puzzle
OUT/puzzles.csv     one row a puzzle: pieces, how many were placed, in how many islands, error
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from os import PathLike
from pathlib import Path
from typing import Any

from reassembly._defaults import DEFAULT_SOLVER
from reassembly._version import __version__
from reassembly.errors import InputError
from reassembly.io.assembly_json import FILE_NAME, load_assembly
from reassembly.io.files import atomic_write, check_output_folder
from reassembly.io.readers import PuzzleSource, find_puzzles
from reassembly.puzzle import Assembly, Provenance
from reassembly.solvers.base import Solver
from reassembly.solvers.registry import get_solver
from reassembly.solvers.run import solve
from reassembly.workers import Died, check_cluster, cluster, one_thread, run_each

__all__ = ["Row", "puzzles_of", "solve_each"]

TABLE = "puzzles.csv"

BatchProgress = Callable[[int, int, str], None]
"""Called with (done, total, what)."""


@dataclass(frozen=True)
class Row:
    """What became of a puzzle."""

    puzzle: str
    pieces: int | None = None
    placed: int | None = None
    islands: int | None = None
    error: str | None = None
    """Why there is no assembly of it."""


@dataclass(frozen=True)
class _Wish:
    out: Path
    solver: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    mm_per_px: float | None = None
    strict: bool = False
    force: bool = False

    @property
    def provenance(self) -> Provenance:
        return Provenance(self.solver, __version__, self.seed, dict(self.settings))


def solve_each(
    path: str | PathLike[str],
    out: str | PathLike[str],
    solver: str = DEFAULT_SOLVER,
    *,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    mm_per_px: float | None = None,
    strict: bool = False,
    workers: int | None = None,
    ray: str | None = None,
    force: bool = False,
    progress: BatchProgress | None = None,
) -> list[Row]:
    """Solves every puzzle of `puzzles_of(path)` into `out/<id>`.

    Puzzles that an earlier call with the same solver, seed and settings has solved are not solved
    again. One that cannot be read or solved, or ends its process, is a row with an error, and is
    tried again by the next call.

    Args:
        out: a new folder, or that of an earlier call.
        settings: what the solver is told.
        mm_per_px: as of `reassembly.load`.
        workers: processes at a time: 1 by default, or what the cluster has room for.
        ray: address of a Ray cluster whose machines all see `path` and `out`, to solve there.
        force: solve all of them again, and replace what is in their folders.

    Returns:
        A row a puzzle, as `puzzles.csv` has them.
    """
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers cannot work", "Give --workers 1 or more")
    check_cluster(ray)
    told = dict(settings or {})
    get_solver(solver, **told)  # Its complaints come before anything is read.
    wish = _Wish(Path(out), solver, seed, told, mm_per_px, strict, force)
    sources = puzzles_of(path)
    check_output_folder(wish.out, force=True)
    wish.out.mkdir(parents=True, exist_ok=True)
    rows = {s.id: row for s in sources if (row := _earlier(wish, s.id)) is not None}
    todo = [source for source in sources if source.id not in rows]
    with cluster(ray, wish.out) as machines:
        count = workers or (1 if ray is None else None)
        for source, outcome in run_each(
            partial(_solve_one, wish),
            todo,
            workers=count,
            machines=machines,
            prepare=None if count == 1 else one_thread,
            gpu=told.get("device") == "cuda",
        ):
            died = Row(source.id, error="the solver's process died")
            rows[source.id] = died if isinstance(outcome, Died) else outcome
            if progress is not None:
                progress(len(rows), len(sources), source.id)
    found = [rows[source.id] for source in sources]
    atomic_write(wish.out / TABLE, _table(found))
    return found


def puzzles_of(path: str | PathLike[str]) -> list[PuzzleSource]:
    """The puzzles of a data set; or, where no file tells puzzles apart, each folder and each zip
    directly in `path`."""
    root = Path(path)
    try:
        found = find_puzzles(root)
    except InputError:
        found = []
        if not root.is_dir():
            raise
    if found and (len(found) > 1 or found[0].kind != "fragments" or found[0].path == root):
        return found
    places = sorted(
        place
        for place in root.iterdir()
        if not place.name.startswith(".") and (place.is_dir() or place.suffix.lower() == ".zip")
    )
    if not places:
        return find_puzzles(root)
    return [
        replace(source, id="/".join(dict.fromkeys((place.stem, source.id))))
        for place in places
        for source in find_puzzles(place)
    ]


def _earlier(wish: _Wish, puzzle: str) -> Row | None:
    """What an earlier call of this wish made of the puzzle."""
    place = wish.out / puzzle
    if wish.force or not (place / FILE_NAME).is_file():
        return None
    assembly = load_assembly(place)
    if (by := assembly.provenance) != wish.provenance:
        settings = "".join(f" {key}={value}" for key, value in by.settings.items())
        raise InputError(
            f"this was solved otherwise before: {by.solver}{settings}, seed {by.seed}, "
            f"version {by.version}",
            "Choose another output folder, or add --force to solve all again",
            place,
        )
    return _row(puzzle, assembly)


@cache
def _solver(name: str, settings: tuple[tuple[str, Any], ...]) -> Solver:
    """One for all puzzles of the process: learned ones read their weights from disk."""
    return get_solver(name, **dict(settings))


def _solve_one(wish: _Wish, source: PuzzleSource) -> Row:
    if not wish.force and (there := _earlier(wish, source.id)) is not None:
        return there  # Its process died after it was written.
    try:
        puzzle = source.load(mm_per_px=wish.mm_per_px, strict=wish.strict)
        solver = _solver(wish.solver, tuple(wish.settings.items()))
        answer = solve(puzzle, solver, seed=wish.seed)
    except InputError as problem:
        return Row(source.id, error=str(problem))
    except Exception as problem:
        return Row(source.id, error=f"{type(problem).__name__}: {problem}")
    assembly = replace(answer, provenance=wish.provenance)
    assembly.save(wish.out / source.id, force=wish.force)
    return _row(source.id, assembly)


def _row(puzzle: str, assembly: Assembly) -> Row:
    placed = len(assembly.poses)
    return Row(puzzle, placed + len(assembly.unplaced), placed, len(assembly.islands))


def _table(rows: list[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row.__dataclass_fields__)
    writer.writerows([r.puzzle, r.pieces, r.placed, r.islands, r.error] for r in rows)
    return text.getvalue()
