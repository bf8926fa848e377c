"""Runs solvers on data sets, keeps every prediction, and carries on after a kill.

In the output folder:

- `predictions/<data>/<solver>/seed-<n>/<puzzle>.json`: assemblies; `reassembly evaluate` reads them
- `records/...`, in the same layout: each one's scores, seconds and memory
- `puzzles.csv`: one row a puzzle, solver and seed
- `results.json`, `results.csv`, `results.md`: one row a solver and data set
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import psutil

from reassembly._version import __version__
from reassembly.bench.frames import betrays_orientation, turn_back, turn_fragments
from reassembly.bench.tables import write_tables
from reassembly.errors import InputError
from reassembly.io.files import atomic_write
from reassembly.io.readers import PuzzleSource, find_puzzles
from reassembly.io.writers import assembly_to_json
from reassembly.metrics import score, summarise
from reassembly.metrics.oracle import true_centroids_assembly, truth_assembly
from reassembly.puzzle import Assembly, Provenance, Puzzle
from reassembly.solvers import Solver, available_solvers, get_solver, solve
from reassembly.workers import worker_pool

__all__ = ["bench"]

ORACLES: dict[str, Callable[[Puzzle, int], Assembly]] = {
    "truth": lambda puzzle, seed: truth_assembly(puzzle),
    "true-centroids": true_centroids_assembly,
}
"""Rows that use the truth, computed here: no solver sees it."""

BenchProgress = Callable[[int, int, str], None]
"""Called with (done, total, what)."""


@dataclass(frozen=True)
class _Task:
    """One puzzle for one process: some solvers, some seeds."""

    source: PuzzleSource
    data: str
    signature: str
    runs: tuple[tuple[str, int], ...]
    out: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the solver is told; its name in `runs` then tells it, too."""


def bench(
    data: Sequence[str | PathLike[str]],
    solvers: Sequence[str],
    out: str | PathLike[str],
    *,
    seeds: int = 1,
    split: str | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    workers: int = 1,
    progress: BenchProgress | None = None,
) -> list[dict[str, Any]]:
    """Measures solvers on data sets, strict protocol, trivial rows added.

    Args:
        data: puzzles or folders of puzzles with true poses; each gives one row a solver.
        solvers: names from `available_solvers`.
        out: a new folder, or one that an earlier run left: what it holds is not run again, and
            its rows of other solvers and data sets stay.
        seeds: how many seeds, from 0.
        split: only puzzles under a folder of this name (`train`, `test`).
        settings: what a solver is told, by its name; its rows then bear them in their name.
        workers: processes at a time. With more than one, seconds are those of a busy machine.

    Returns:
        The rows of `results.json`.
    """
    if seeds < 1:
        raise InputError(f"{seeds} seeds were asked for", "Give --seeds 1 or more")
    if workers < 1:
        raise InputError(f"{workers} workers cannot work", "Give --workers 1 or more")
    known = available_solvers()
    for name in solvers:
        if name not in known and name not in ORACLES:
            raise InputError(f"there is no solver {name!r}", f"Choose one of {', '.join(known)}")
    trivial = [name for name, info in known.items() if info.trivial]
    own = list(dict.fromkeys(n for n in solvers if n not in trivial and n not in ORACLES))
    cheap = list(ORACLES) + trivial
    told = {name: dict(given) for name, given in (settings or {}).items() if given}
    for name in told:
        if name not in own:
            raise InputError(f"{name} is given settings, but not run", f"Add --solver {name}")
    # Made here once, so that what is wrong with them is said before anything is run.
    hashes = {
        name: getattr(known[name].create(**told.get(name, {})), "weights_hash", None)
        for name in own
        if name in told or known[name].weights
    }
    row_names = {name: _row_name(name, told.get(name, {})) for name in own}
    out = _bench_folder(Path(out))

    sets = _data_sets(data, split)
    tasks = [
        _Task(
            source,
            label,
            _signature(source, weights),
            tuple((n, s) for n in names for s in range(seeds)),
            out,
            given,
        )
        for label, sources in sets.items()
        for names, given, weights in [
            (cheap, {}, None),
            *(([row_names[n]], told.get(n, {}), hashes.get(n)) for n in own),
        ]
        for source in sources
    ]
    pending = [p for task in tasks if (p := _unfinished(task)).runs]
    total = sum(len(task.runs) for task in tasks)
    done = total - sum(len(task.runs) for task in pending)
    for task in _run_all(pending, workers):
        done += len(task.runs)
        if progress is not None:
            progress(done, total, f"{task.runs[0][0]}: {task.source.id}")

    records = {
        (label, name): [
            _read(_record_path(out, label, name, seed, source.id))
            for source in sources
            for seed in range(seeds)
        ]
        for label, sources in sets.items()
        for name in [*cheap, *row_names.values()]
    }
    records = _earlier(out, records) | records
    rows = [_row(name, label, of) for (label, name), of in records.items()]
    write_tables(rows, records, out)
    return rows


def _earlier(
    out: Path, but: Collection[tuple[str, str]]
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """What earlier runs measured in this folder, of other solvers or data sets."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for file in sorted((out / "records").rglob("*.json")):
        record = _read(file)
        if (key := (record["data"], record["solver"])) not in but:
            found.setdefault(key, []).append(record)
    return found


def _row(name: str, label: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of `results.json`."""
    distinct = {record["puzzle"]: record["total_fragments"] for record in records}
    figures = [{"id": r["puzzle"], "seed": r["seed"], **r["scores"]} for r in records]
    costs = {
        key: [r[key] for r in records if r.get(key) is not None]
        for key in ("seconds", "peak_memory_mb", "parameters", "weights_hash")
    }
    return {
        "solver": name,
        "data": label,
        "protocol": "strict",
        "puzzles": len(distinct),
        "fragments": sum(distinct.values()),
        "seeds": len({record["seed"] for record in records}),
        "failed": sum(record.get("error") is not None for record in records),
        **summarise(figures),
        **summarise(
            [
                {"id": r["puzzle"], "seed": r["seed"], "seconds_per_puzzle": r.get("seconds")}
                for r in records
            ]
        ),
        "peak_memory_mb": max(costs["peak_memory_mb"], default=None),
        "parameters": max(costs["parameters"], default=None),
        "weights_hash": next(iter(costs["weights_hash"]), None),
        "version": __version__,
    }


def _bench_folder(out: Path) -> Path:
    """An empty folder, or one of an earlier bench."""
    marker = out / "bench.json"
    if out.is_dir() and any(out.iterdir()) and not marker.is_file():
        raise InputError(
            "this folder is not empty and holds no earlier bench",
            "Give --out a new folder, or that of the bench to carry on with",
            out,
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        atomic_write(marker, json.dumps({"format": "reassembly-bench", "version": 1}) + "\n")
    except OSError as error:
        raise InputError(
            f"this folder cannot be written ({error.strerror})", "Give --out another folder", out
        ) from error
    return out


def _data_sets(
    data: Sequence[str | PathLike[str]], split: str | None
) -> dict[str, list[PuzzleSource]]:
    if not data:
        raise InputError("no data were given", "Give --data a folder of puzzles with true poses")
    sets = {}
    for path in dict.fromkeys(Path(p).as_posix() for p in data):
        found = find_puzzles(path)
        chosen = [s for s in found if split is None or s.split == split]
        if not chosen:
            splits = sorted({s.split for s in found if s.split}) or ["none"]
            raise InputError(
                f"it holds no puzzle of the split {split!r}",
                f"Its splits are: {', '.join(splits)}; leave --split out to take every puzzle",
                path,
            )
        sets[path] = chosen
    return sets


def _signature(source: PuzzleSource, weights_hash: str | None) -> str:
    """Changes when the puzzle's files or the weights do, without reading its images."""
    path = source.path
    parts = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    digest = hashlib.sha256(f"{source.kind} {source.id}".encode())
    for part in parts:
        digest.update(f"{part.name} {part.stat().st_size}".encode())
        if part.suffix in (".json", ".txt", ".csv"):
            digest.update(part.read_bytes())
    if weights_hash is not None:
        digest.update(weights_hash.encode())
    return digest.hexdigest()


def _slug(label: str) -> str:
    """A folder name for a data set, unlike any other's."""
    tail = re.sub(r"[^A-Za-z0-9._-]+", "_", "_".join(Path(label).parts[-3:])).strip("._") or "data"
    return f"{tail}-{hashlib.sha256(label.encode()).hexdigest()[:6]}"


def _row_name(solver: str, settings: Mapping[str, Any]) -> str:
    """`greedy`, or `greedy gap_mm=3 beam=8`."""
    return " ".join([solver, *(f"{key}={value}" for key, value in settings.items())])


def _record_path(out: Path, label: str, solver: str, seed: int, puzzle_id: str) -> Path:
    plain = re.fullmatch(r"[A-Za-z0-9._-]+", solver)
    folder = solver if plain else _slug(solver)
    return out / "records" / _slug(label) / folder / f"seed-{seed}" / f"{puzzle_id}.json"


def _read(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def _unfinished(task: _Task) -> _Task:
    """The task without the runs whose records are there and still hold."""

    def holds(name: str, seed: int) -> bool:
        path = _record_path(task.out, task.data, name, seed, task.source.id)
        if not path.is_file():
            return False
        record = _read(path)
        return bool(record["signature"] == task.signature and record["version"] == __version__)

    left = tuple(run for run in task.runs if not holds(*run))
    return replace(task, runs=left)


def _run_all(tasks: list[_Task], workers: int) -> Iterator[_Task]:
    """Runs tasks in processes of their own, none for two solvers or data sets, so that time and
    memory are each solver's own and a crash costs one puzzle."""
    groups: dict[tuple[str, str], list[_Task]] = {}
    for task in tasks:
        groups.setdefault((task.data, task.runs[0][0]), []).append(task)
    for group in groups.values():
        waiting = list(group)
        if workers > 1:
            for task in _run_together(group, workers):
                waiting.remove(task)
                yield task
        while waiting:
            with worker_pool(1) as pool:
                try:
                    while waiting:
                        pool.submit(_run_task, waiting[0]).result()
                        yield waiting.pop(0)
                except BrokenProcessPool:
                    crashed = waiting.pop(0)
                    _record_crash(crashed)
                    yield crashed


def _run_together(tasks: list[_Task], workers: int) -> Iterator[_Task]:
    """Runs tasks side by side; ends early where a process dies, as nobody can say whose fault it
    was."""
    with worker_pool(min(workers, len(tasks))) as pool:
        running = {pool.submit(_run_task, task): task for task in tasks}
        try:
            for future in as_completed(running):
                future.result()
                yield running[future]
        except BrokenProcessPool:
            return
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@cache
def _solver(name: str, settings: tuple[tuple[str, Any], ...]) -> Solver:
    """One for all puzzles of the process: learned ones read their weights from disk."""
    return get_solver(name, **dict(settings))


def _run_task(task: _Task) -> None:
    """Solves one puzzle by every run of the task. A solver's own error is a row, not the end."""
    puzzle = task.source.load()
    if puzzle.truth is None:
        raise InputError(
            "it has no true poses to measure against",
            "Bench puzzles whose data.json gives pixel_position and rotation",
            task.source.path,
        )
    for name, seed in task.runs:
        plain = name.partition(" ")[0]
        solver = None if name in ORACLES else _solver(plain, tuple(task.settings.items()))
        start, answer, error = time.perf_counter(), None, None
        try:
            if solver is None:
                answer = ORACLES[name](puzzle, seed)
            elif betrays_orientation(puzzle):
                turned, angles = turn_fragments(puzzle, seed)
                start = time.perf_counter()
                answer = turn_back(solve(turned, solver, seed=seed), angles, puzzle)
            else:
                answer = solve(puzzle, solver, seed=seed)
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
        seconds = time.perf_counter() - start
        if answer is not None:
            answer = replace(
                answer, provenance=Provenance(plain, __version__, seed, dict(task.settings))
            )
        _keep(
            task,
            puzzle,
            name,
            seed,
            answer,
            error=error,
            seconds=seconds,
            peak_memory_mb=_peak_memory_mb(),
            parameters=getattr(solver, "parameters", 0),
            weights_hash=getattr(solver, "weights_hash", None),
        )


def _record_crash(task: _Task) -> None:
    """The runs that were not reached when the process died count as unplaced."""
    puzzle = task.source.load()
    for name, seed in _unfinished(task).runs:
        _keep(task, puzzle, name, seed, None, error="the solver's process died")


def _keep(
    task: _Task, puzzle: Puzzle, name: str, seed: int, answer: Assembly | None, **facts: Any
) -> None:
    """Writes the prediction, then its record: a record means that all is there."""
    record = {
        "data": task.data,
        "solver": name,
        "signature": task.signature,
        "version": __version__,
        "puzzle": task.source.id,
        "seed": seed,
        "total_fragments": len(puzzle),
        **facts,
        "scores": score(puzzle, answer),
    }
    path = _record_path(task.out, task.data, name, seed, task.source.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    if answer is not None:
        prediction = task.out / "predictions" / path.relative_to(task.out / "records")
        prediction.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(prediction, assembly_to_json(answer))
    atomic_write(path, json.dumps(record, indent=1) + "\n")


def _peak_memory_mb() -> float:
    """The most memory this process has held."""
    if sys.platform == "win32":
        return float(psutil.Process().memory_info().peak_wset / 2**20)
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
