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
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from reassembly.errors import InputError
from reassembly.io.files import atomic_write, disk_told
from reassembly.reproduce import audit, figures, gallery
from reassembly.reproduce.data import own_data_sets
from reassembly.reproduce.pages import read_state, recipes_page, write_index
from reassembly.reproduce.paper import PARTS, SIZES
from reassembly.reproduce.parts import OWN, own_part, tables_of
from reassembly.reproduce.recipes import MINUTES, Training
from reassembly.reproduce.repair import Repair, read_repair
from reassembly.reproduce.rows import train_missing
from reassembly.reproduce.session import FULL, QUICK, Progress, Session
from reassembly.reproduce.tables import write_table
from reassembly.solvers.registry import available_solvers, no_solver

__all__ = ["PAGES", "reproduce"]

PAGES = ("audit", "gallery")
"""What is made of predictions that are there already."""


def reproduce(
    out: str | PathLike[str],
    *,
    data: str | PathLike[str] | None = None,
    quick: bool = False,
    only: Sequence[str] = (),
    weights: str | PathLike[str] | None = None,
    train: bool = False,
    datasets: Sequence[str | PathLike[str]] = (),
    solvers: Sequence[str] = (),
    puzzles: int | None = None,
    most_pieces: int | None = None,
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
        solvers: only rows of these, besides the trivial ones; all without.
        puzzles: how many made puzzles, in the place of 1000 or, with `quick`, 2.
        most_pieces: of the puzzles of `scalability`, in the place of 1024 or, with `quick`, 16.
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
    if most_pieces is not None:
        sizes = tuple(size for size in SIZES if size <= most_pieces)
        if not sizes:
            raise InputError(f"most_pieces is {most_pieces}", f"Give {SIZES[0]} or more")
        extent = replace(extent, sizes=sizes)
    given = None if weights is None else Path(weights)
    if given is not None and not given.is_dir():
        raise InputError("there is no such folder", "Give --weights a folder of weights", given)
    known = available_solvers()
    for name in solvers:
        if name not in known:
            raise no_solver(name)
    if device != "cpu":
        from reassembly.solvers.settings import check_device_here

        check_device_here(device)
    repair = None if data is None else read_repair(data)
    own = own_data_sets(datasets)
    if OWN in only and not own:
        raise InputError("no data set was given", "Give --dataset a folder of puzzles")
    out = _folder(Path(out), quick)
    with disk_told(out):
        session = Session(
            out=out,
            extent=extent,
            repair=repair,
            own=own,
            trainer=trainer_of(out, repair, device, minutes, extent.pool),
            weights=tuple(f for f in (given, out / "weights") if f is not None),
            train=train,
            solvers=frozenset(solvers),
            seeds=seeds,
            workers=workers,
            device=device,
            progress=progress,
            say=say,
        )
        return _run(session, names, quick)


def _run(session: Session, names: Sequence[str], quick: bool) -> Path:
    session.results.mkdir(parents=True, exist_ok=True)
    parts = [PARTS[name] for name in names if name in PARTS]
    if OWN in names:
        parts.append(own_part(session.own))
    if session.train:
        train_missing(session, parts)
    for part in parts:
        for table in tables_of(session, part):
            write_table(table, session.results)
    atomic_write(session.results / "recipes.md", recipes_page(session))
    state = read_state(session)
    session.say("drawing figures")
    drawn = figures.draw_all(session.results, session.bench, state)
    session.say("audit")
    audit.write_audit(session.results, session.bench, state)
    session.say("gallery")
    gallery.write_gallery(session.out / "gallery.html", session.bench, state)
    return write_index(session, drawn, quick)


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


def trainer_of(
    out: Path, repair: Repair | None, device: str, minutes: float, puzzles: int
) -> Training:
    folds = None if repair is None else repair.folds
    return Training(
        out,
        repair=None if repair is None else repair.path,
        folds=folds,
        fold_count=0 if repair is None or folds is None else len(repair.fold_ids()),
        device=device,
        minutes=minutes,
        puzzles=puzzles,
    )
