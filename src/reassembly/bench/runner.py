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
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import psutil

from reassembly._version import __version__
from reassembly.bench.frames import betrays_orientation, turn_back, turn_fragments
from reassembly.bench.tables import failures_of, write_tables
from reassembly.errors import InputError, InputWarning
from reassembly.io.files import TEMPORARY, atomic_write, sweep
from reassembly.io.readers import PuzzleSource, find_puzzles
from reassembly.io.writers import assembly_to_json
from reassembly.metrics import PROTOCOLS, fragment_errors, score, summarise
from reassembly.metrics.oracle import true_centroids_assembly, truth_assembly
from reassembly.puzzle import Assembly, Provenance, Puzzle
from reassembly.solvers import Solver, available_solvers, get_solver, solve
from reassembly.solvers.base import Progress, ProgressCallback
from reassembly.solvers.registry import no_solver
from reassembly.workers import (
    Cluster,
    Died,
    check_cluster,
    cluster,
    one_thread,
    run_each,
    wait_until_seen,
)

__all__ = [
    "BenchRow",
    "bench",
    "peak_gpu_memory_mb",
    "peak_memory_mb",
    "prediction_folder",
    "read_records",
]

ORACLES: dict[str, Callable[[Puzzle, int], Assembly]] = {
    "truth": lambda puzzle, seed: truth_assembly(puzzle),
    "true-centroids": true_centroids_assembly,
}
"""Rows that use the truth, computed here: no solver sees it."""

TOO_LONG = "it took longer than"
GRACE_S = 60.0

BenchProgress = Callable[[int, int, str], None]
"""Called with (done, total, what)."""


REPAIR_NAMES = re.compile(r"RPobj_g\d+_o\d+|puzzle_\d+_RP_group_\d+", re.IGNORECASE)
"""How puzzles of RePAIR are called: in release 1 and in `original_id`, and as folders in 2."""


@dataclass(frozen=True)
class BenchRow:
    """A row under a name of its own: a solver, what it is told, and about which puzzles.

    Several of one name, for different puzzles, make one row together: that is how weights that
    were trained on the other folds are measured.
    """

    name: str
    solver: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    only: frozenset[str] | None = None
    """Ids of the puzzles; None for all."""


@dataclass(frozen=True)
class _Task:
    """One puzzle for one process: some solvers, some seeds."""

    source: PuzzleSource
    data: str
    signature: str
    runs: tuple[tuple[str, int], ...]
    """Names of rows, and seeds."""
    out: Path
    solver: str | None = None
    """Where it is not what the row is called."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the solver is told."""
    detail: bool = False
    limit_s: float | None = None


def bench(
    data: Sequence[str | PathLike[str]] | Mapping[str, str | PathLike[str]],
    solvers: Sequence[str | BenchRow],
    out: str | PathLike[str],
    *,
    seeds: int = 1,
    split: str | None = None,
    ids: Collection[str] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    detail: bool = False,
    limit_s: float | None = None,
    workers: int | None = None,
    ray: str | None = None,
    progress: BenchProgress | None = None,
) -> list[dict[str, Any]]:
    """Measures solvers on data sets, strict protocol, trivial rows added.

    Args:
        data: puzzles or folders of puzzles with true poses; each gives one row a solver, and is
            called as its path or, in a mapping, as its key.
        solvers: names from `available_solvers`, or rows under names of their own.
        out: a new folder, or one that an earlier run left: what it holds is not run again, and
            its rows of other solvers and data sets stay.
        seeds: how many seeds, from 0.
        split: only puzzles under a folder of this name (`train`, `test`).
        ids: only these puzzles.
        settings: what a solver is told, by its name; its rows then bear them in their name.
        detail: also keep, in each record, the figures of the other protocols (`protocols`) and
            what became of every fragment, with the solver's confidence (`errors`).
        limit_s: how long a solver may take for a puzzle; what takes longer counts as unplaced, with
            that as its error. One that reports no progress is ended later, with its process.
        workers: processes at a time: 1 by default, or what the cluster has room for. With more
            than one, seconds are those of a busy machine.
        ray: address of a Ray cluster whose machines all see `data` and `out`, to solve there.

    Returns:
        The rows of `results.json`.
    """
    if seeds < 1:
        raise InputError(f"{seeds} seeds were asked for", "Give --seeds 1 or more")
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers cannot work", "Give --workers 1 or more")
    check_cluster(ray)
    known = available_solvers()
    for name in {row.solver if isinstance(row, BenchRow) else row for row in solvers}:
        if name not in known and name not in ORACLES:
            raise no_solver(name)
    trivial = [name for name, info in known.items() if info.trivial]
    cheap = list(ORACLES) + trivial
    told = {name: dict(given) for name, given in (settings or {}).items() if given}
    rows = [
        row
        if isinstance(row, BenchRow)
        else BenchRow(_row_name(row, told.get(row, {})), row, told.get(row, {}))
        for k, row in enumerate(solvers)
        if row not in cheap and row not in solvers[:k]
    ]
    for name in told:
        if name not in solvers or name in cheap:
            raise InputError(f"{name} is given settings, but not run", f"Add --solver {name}")
    # Made here once, so that what is wrong with them is said before anything is run.
    hashes = [
        getattr(known[row.solver].create(**row.settings), "weights_hash", None)
        if row.settings or known[row.solver].weights
        else None
        for row in rows
    ]
    out = _bench_folder(Path(out))

    sets = _data_sets(data, split, ids)
    real = any(
        REPAIR_NAMES.search(f"{source.id} {source.path.name}")
        for own in sets.values()
        for source in own
    )
    for row in rows:
        if real and "RePAIR" in known[row.solver].seen and "weights" not in row.settings:
            warnings.warn(
                f"the weights of {row.solver} have learned from puzzles of RePAIR: where these are "
                "among them, its figures say nothing",
                InputWarning,
                stacklevel=2,
            )
    tasks = [
        _Task(
            source,
            label,
            _signature(source, weights, row),
            tuple((n, s) for n in names for s in range(seeds)),
            out,
            None if row is None else row.solver,
            {} if row is None else row.settings,
            detail,
            limit_s,
        )
        for label, sources in sets.items()
        for names, row, weights in [
            (cheap, None, None),
            *(([row.name], row, sha256) for row, sha256 in zip(rows, hashes, strict=True)),
        ]
        for source in sources
        if row is None or row.only is None or source.id in row.only
    ]
    pending = [p for task in tasks if (p := _unfinished(task)).runs]
    total = sum(len(task.runs) for task in tasks)
    done = total - sum(len(task.runs) for task in pending)
    with cluster(ray, out) as machines:
        for task in _run_all(pending, workers, machines):
            done += len(task.runs)
            if progress is not None:
                progress(done, total, f"{task.runs[0][0]}: {task.source.id}")

    records: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for task in tasks:
        for name, seed in task.runs:
            path = _record_path(out, task.data, name, seed, task.source.id)
            if ray is not None:
                wait_until_seen(path)
            records.setdefault((task.data, name), []).append(_read(path))
    records = _earlier(out, records) | records
    figures = [_row(name, label, of) for (label, name), of in records.items()]
    write_tables(figures, records, out)
    return figures


def read_records(out: Path, data: str, row: str) -> list[dict[str, Any]]:
    """What `bench` wrote into `out` about a row: a record a puzzle and seed, sorted."""
    folder = _record_path(out, data, row, 0, "x").parents[1]
    return [_read(file) for file in sorted(folder.rglob("*.json"))]


def prediction_folder(out: Path, data: str, row: str, seed: int) -> Path:
    """Where the predictions of a row are: what `reassembly evaluate` reads."""
    record = _record_path(out, data, row, seed, "x")
    return out / "predictions" / record.parent.relative_to(out / "records")


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
        for key in (
            "seconds",
            "peak_memory_mb",
            "peak_gpu_memory_mb",
            "parameters",
            "weights_hash",
        )
    }
    return {
        "solver": name,
        "data": label,
        "protocol": "strict",
        "puzzles": len(distinct),
        "fragments": sum(distinct.values()),
        "seeds": len({record["seed"] for record in records}),
        "failed": sum(record.get("error") is not None for record in records),
        "failures": failures_of(records),
        **summarise(figures),
        **summarise(
            [
                {"id": r["puzzle"], "seed": r["seed"], "seconds_per_puzzle": r.get("seconds")}
                for r in records
            ]
        ),
        "peak_memory_mb": max(costs["peak_memory_mb"], default=None),
        "peak_gpu_memory_mb": max(costs["peak_gpu_memory_mb"], default=None),
        "parameters": max(costs["parameters"], default=None),
        "weights_hash": next(iter(costs["weights_hash"]), None),
        "version": __version__,
    }


def _bench_folder(out: Path) -> Path:
    """An empty folder, or one of an earlier bench."""
    marker = out / "bench.json"
    others = [p for p in out.iterdir() if not p.name.startswith(TEMPORARY)] if out.is_dir() else []
    if others and not marker.is_file():
        raise InputError(
            "this folder is not empty and holds no earlier bench",
            "Give --out a new folder, or that of the bench to carry on with",
            out,
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        sweep(out)
        atomic_write(marker, json.dumps({"format": "reassembly-bench", "version": 1}) + "\n")
    except OSError as error:
        raise InputError(
            f"this folder cannot be written ({error.strerror})", "Give --out another folder", out
        ) from error
    return out


def _data_sets(
    data: Sequence[str | PathLike[str]] | Mapping[str, str | PathLike[str]],
    split: str | None,
    ids: Collection[str] | None,
) -> dict[str, list[PuzzleSource]]:
    if not data:
        raise InputError("no data were given", "Give --data a folder of puzzles with true poses")
    named = data if isinstance(data, Mapping) else {Path(p).as_posix(): p for p in data}
    sets = {}
    for label, path in named.items():
        found = find_puzzles(path)
        chosen = [s for s in found if split is None or s.split == split]
        if ids is not None and (unknown := set(ids) - {s.id for s in found}):
            raise InputError(
                f"it holds no puzzle {sorted(unknown)[0]!r}", "Check the list of puzzles", path
            )
        if not chosen:
            splits = sorted({s.split for s in found if s.split}) or ["none"]
            raise InputError(
                f"it holds no puzzle of the split {split!r}",
                f"Its splits are: {', '.join(splits)}; leave --split out to take every puzzle",
                path,
            )
        sets[label] = [s for s in chosen if ids is None or s.id in ids]
    return sets


def _signature(source: PuzzleSource, weights_hash: str | None, row: BenchRow | None) -> str:
    """Changes when the puzzle's files, the solver, its settings or its weights do, without reading
    images. Where weights lie does not matter, but what they are."""
    path = source.path
    parts = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    digest = hashlib.sha256(f"{source.kind} {source.id}".encode())
    for part in parts:
        digest.update(f"{part.name} {part.stat().st_size}".encode())
        if part.suffix in (".json", ".txt", ".csv"):
            digest.update(part.read_bytes())
    if weights_hash is not None:
        digest.update(weights_hash.encode())
    if row is not None and row.name != _row_name(row.solver, row.settings):
        told = {key: value for key, value in row.settings.items() if key != "weights"}
        digest.update(json.dumps([row.solver, told], sort_keys=True).encode())
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
        enough = "errors" in record or not task.detail
        current = record["signature"] == task.signature and record["version"] == __version__
        given_up = TOO_LONG in (record.get("error") or "") and record["limit_s"] != task.limit_s
        return bool(current and enough and not given_up)

    left = tuple(run for run in task.runs if not holds(*run))
    return replace(task, runs=left)


def _run_all(tasks: list[_Task], workers: int | None, machines: Cluster | None) -> Iterator[_Task]:
    """Runs tasks in processes of their own, none for two solvers or data sets, so that time and
    memory are each solver's own and a crash costs one puzzle."""
    groups: dict[tuple[str, str], list[_Task]] = {}
    for task in tasks:
        groups.setdefault((task.data, task.runs[0][0]), []).append(task)
    count = workers or (1 if machines is None else None)
    for group in groups.values():
        for task, outcome in run_each(
            _run_task,
            group,
            workers=count,
            machines=machines,
            prepare=None if count == 1 else one_thread,
            patience_s=_patience_s(group),
            gpu=group[0].settings.get("device") == "cuda",
        ):
            if isinstance(outcome, Died):
                _record_crash(task, outcome.late)
            yield task


def _patience_s(tasks: list[_Task]) -> float | None:
    """How long a process may be silent: a solver that reports no progress cannot be asked to stop,
    and reading, scoring and imports take their time, too."""
    limit_s = tasks[0].limit_s
    runs = max(len(task.runs) for task in tasks)
    return None if limit_s is None else runs * (2 * limit_s + GRACE_S)


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
        plain = task.solver or name
        solver: Solver | None = None
        start, answer, error = time.perf_counter(), None, None
        try:
            if name not in ORACLES:
                solver = _solver(plain, tuple(task.settings.items()))
            start = time.perf_counter()
            if solver is None:
                answer = ORACLES[name](puzzle, seed)
            elif betrays_orientation(puzzle):
                turned, angles = turn_fragments(puzzle, seed)
                start = time.perf_counter()
                watch = _watch(start, task.limit_s)
                found = solve(turned, solver, seed=seed, progress=watch)
                answer = turn_back(found, angles, puzzle)
            else:
                watch = _watch(start, task.limit_s)
                answer = solve(puzzle, solver, seed=seed, progress=watch)
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
            peak_memory_mb=peak_memory_mb(),
            peak_gpu_memory_mb=peak_gpu_memory_mb(),
            parameters=getattr(solver, "parameters", 0),
            weights_hash=getattr(solver, "weights_hash", None),
        )


def _watch(start: float, limit_s: float | None) -> ProgressCallback | None:
    """Ends a solver that takes longer than it may."""
    if limit_s is None:
        return None

    def check(_: Progress) -> None:
        if time.perf_counter() - start > limit_s:
            raise TimeoutError(f"{TOO_LONG} {limit_s:g} s")

    return check


def _record_crash(task: _Task, late: bool) -> None:
    """The runs that were not reached when the process died, or was ended, count as unplaced."""
    puzzle = task.source.load()
    error = f"{TOO_LONG} {task.limit_s:g} s" if late else "the solver's process died"
    for name, seed in _unfinished(task).runs:
        _keep(task, puzzle, name, seed, None, error=error)


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
        "limit_s": task.limit_s,
        **facts,
        "scores": score(puzzle, answer),
    }
    if task.detail:
        record["protocols"] = {
            protocol: score(puzzle, answer, protocol)
            for protocol in PROTOCOLS
            if protocol != "strict"
        }
        sure = {} if answer is None else answer.confidence
        record["errors"] = {
            i: {**found, "confidence": sure.get(i)}
            for i, found in fragment_errors(puzzle, answer).items()
        }
    path = _record_path(task.out, task.data, name, seed, task.source.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    if answer is not None:
        prediction = task.out / "predictions" / path.relative_to(task.out / "records")
        prediction.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(prediction, assembly_to_json(answer))
    atomic_write(path, json.dumps(record, indent=1) + "\n")


def peak_memory_mb() -> float:
    """The most memory this process has held."""
    if sys.platform == "win32":
        return float(psutil.Process().memory_info().peak_wset / 2**20)
    if sys.platform == "linux":
        # getrusage would also count what the process that started this one held.
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def peak_gpu_memory_mb() -> float | None:
    """The most memory that torch has held on the GPU, where this process used one."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return float(torch.cuda.max_memory_allocated() / 2**20)
