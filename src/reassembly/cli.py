"""The commands: parse, call the public surface, print. Nothing is decided here.

Exit codes: 0 fine, 2 the user's input, 1 our fault, 130 interrupted.
"""

from __future__ import annotations

import atexit
import io
import os
import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import typer

from reassembly._defaults import DEFAULT_SOLVER
from reassembly._version import __version__
from reassembly.errors import InputError, InputWarning, causes

if TYPE_CHECKING:
    from reassembly.depot.search import Candidate
    from reassembly.matching.joins import Join
    from reassembly.puzzle import Assembly, Puzzle
    from reassembly.solvers import ProgressCallback
    from reassembly.solvers.batch import Row
    from reassembly.training.run import Outcome

__all__ = ["app", "main"]

JOINS_SHOWN = 10
"""How many joins are printed; the files hold all."""

app = typer.Typer(
    name="reassembly",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


weights_app = typer.Typer(help="List trained weights; fetch or add some.")
app.add_typer(weights_app, name="weights")
data_app = typer.Typer(help="Get data sets of others ready.", no_args_is_help=True)
app.add_typer(data_app, name="data")


class PatchFrame(StrEnum):
    """Which way patches are turned: as the piece was scanned, or along its outline."""

    input = "input"
    tangent = "tangent"


class TrainingStage(StrEnum):
    """What is trained."""

    selector = "selector"
    texture = "texture"
    pretrain = "pretrain"
    finetune = "finetune"
    verifier = "verifier"
    judge = "judge"
    light_judge = "light-judge"
    context_judge = "context-judge"


class TrainingDevice(StrEnum):
    """Where training computes; auto takes a GPU where there is one."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Device(StrEnum):
    """Where a solver computes."""

    cpu = "cpu"
    cuda = "cuda"


class Selector(StrEnum):
    """How a learned solver selects keypoints."""

    fps = "fps"
    frozen = "frozen"
    learnable = "learnable"


class Protocol(StrEnum):
    """How an assembly is measured."""

    strict = "strict"
    paper = "paper"
    repair_script = "repair-script"


class Preset(StrEnum):
    """How made frescoes are worn."""

    pairingnet = "pairingnet"
    paper = "paper"
    realistic = "realistic"


class Wear(StrEnum):
    """How worn the pieces of a depot are."""

    worn = "worn"
    light = "light"


Out = Annotated[Path, typer.Option("--out", help="Folder to write to.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Write into a folder that is not empty.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same result.")]
MmPerPx = Annotated[
    float | None,
    typer.Option("--mm-per-px", help="Scale of the pictures, if their files do not tell it."),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Stop at the first unreadable file instead of warning.")
]
Input = Annotated[Path, typer.Argument(help="Folder or zip of fragments.", show_default=False)]
SolvingWeights = Annotated[
    str | None,
    typer.Option(
        "--weights", help="Weights: a name, file or training run.", show_default="those shipped"
    ),
]
SolvingDevice = Annotated[Device, typer.Option("--device", help="Where to compute.")]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        help="Work on the Ray cluster at HOST:PORT, or auto; its machines see the same folders.",
        show_default="this machine",
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Puts broken frescoes back together: images of fragments in, the pose of each one out."""


@app.command()
def demo(
    out: Out = Path("demo"),
    pieces: Annotated[int, typer.Option(help="Roughly how many pieces.", min=2, max=60)] = 9,
    preset: Annotated[Preset, typer.Option(help="How the pieces are worn.")] = Preset.paper,
    seed: Annotated[
        int, typer.Option(min=0, help="Which fresco; the default is one that gets solved.")
    ] = 3,
    solver: Annotated[
        str, typer.Option(help="A name that `reassembly solvers` lists.")
    ] = "reassemblenet",
    force: Force = False,
) -> None:
    """Paint a fresco, break it, solve it, and write pictures and a report."""
    from reassembly.demo import make_demo

    with _progress_bar("demo") as progress:
        rows = make_demo(
            out,
            pieces=pieces,
            preset=preset.value,
            seed=seed,
            solver=solver,
            force=force,
            progress=progress,
        )
    _print_scores(rows)
    _say(f"Pictures and report: {out / 'report.html'}")


@app.command()
def serve(
    workspace: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Folder of the workbench's projects.",
            show_default="one in your home folder",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; all but this machine's ask for a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8765,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the page.")] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Have a painted puzzle ready.")] = False,
) -> None:
    """Reassemble in the browser: people decide, solvers propose."""
    from reassembly.app.server import serve as serve_workbench

    # As a path, nothing would be the current folder.
    if workspace is not None and not workspace.strip():
        raise InputError(
            "--workspace names no folder", "Name one, or leave it out for the one in your home"
        )
    serve_workbench(
        None if workspace is None else Path(workspace),
        host=host,
        port=port,
        browser=not no_browser,
        demo=demo,
        say=_say,
    )


@app.command()
def solve(
    path: Input,
    out: Out,
    solver: Annotated[
        str, typer.Option(help="A name that `reassembly solvers` lists.")
    ] = DEFAULT_SOLVER,
    seed: Seed = 0,
    locked: Annotated[
        Path | None,
        typer.Option(help="poses.csv of fragments that stay where they are.", show_default=False),
    ] = None,
    accept: Annotated[
        list[Path] | None,
        typer.Option(
            help="Joins that hold, a joins.csv or joins.json; repeatable.", show_default=False
        ),
    ] = None,
    reject: Annotated[
        list[Path] | None,
        typer.Option(
            help="Joins that must not be, a joins.csv or joins.json; repeatable.",
            show_default=False,
        ),
    ] = None,
    selector: Annotated[
        Selector | None,
        typer.Option(help="How reassemblenet selects keypoints.", show_default="the weights' way"),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            help="Denoising steps, of solvers by diffusion.",
            show_default="20 of reassemblenet",
            min=1,
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            help="Answers that solvers by diffusion draw, of which one is chosen.",
            show_default="1 of reassemblenet, 4 of others",
            min=1,
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            help="Tell the solver something else: --setting polish=8; repeatable.",
            show_default=False,
        ),
    ] = None,
    weights: SolvingWeights = None,
    device: SolvingDevice = Device.cpu,
    mm_per_px: MmPerPx = None,
    strict: Strict = False,
    force: Force = False,
    each: Annotated[
        bool,
        typer.Option(
            "--each", help="Solve every puzzle in the folder, into OUT/<puzzle>; carries on."
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(help="With --each: puzzles solved side by side.", show_default="1", min=1),
    ] = None,
    ray: RayAddress = None,
) -> None:
    """Find the pose of every fragment and write it in every format."""
    import reassembly
    from reassembly.io.files import check_output_folder
    from reassembly.io.joins_file import read_joins
    from reassembly.io.poses_csv import read_poses_csv
    from reassembly.solvers.registry import check_device, get_solver, parse_settings

    check_device(solver, device.value)
    for name in (more := parse_settings(setting or [], solver)):
        if name != solver:
            raise InputError(f"{name} is given settings, but {solver} solves", "Leave them out")
    wanted = {
        "selector": None if selector is None else selector.value,
        "steps": steps,
        "samples": samples,
        "weights": weights,
        "device": None if device is Device.cpu else device.value,
    }
    settings = {name: value for name, value in wanted.items() if value is not None}
    settings = {**more.get(solver, {}), **settings}
    if each:
        from reassembly.solvers.batch import solve_each

        if locked is not None:
            raise InputError("pieces of many puzzles cannot be locked", "Leave --each out", locked)
        with _counting_bar(solver) as count:
            rows = solve_each(
                path,
                out,
                solver,
                seed=seed,
                settings=settings,
                mm_per_px=mm_per_px,
                strict=strict,
                workers=workers,
                ray=ray,
                force=force,
                progress=count,
            )
        _tell_solved(rows, out)
        return
    if ray is not None or workers is not None:
        raise InputError("one puzzle is solved in one process", "Add --each to solve many")
    made = get_solver(solver, **settings)  # Its complaints come before pictures are read.
    check_output_folder(out, force)
    puzzle = _load(path, mm_per_px, strict)
    poses = read_poses_csv(locked, puzzle) if locked else None
    if locked and not poses:
        warnings.warn(f"{locked}: it holds no pose, so nothing is locked", InputWarning)
    accepted = [join for file in accept or () for join in read_joins(file, puzzle)]
    rejected = [join for file in reject or () for join in read_joins(file, puzzle)]
    with _progress_bar(f"{solver}, {len(puzzle)} pieces") as progress:
        answer = reassembly.solve(
            puzzle,
            made,
            seed=seed,
            locked=poses,
            progress=progress,
            accepted=accepted,
            rejected=rejected,
        )
    told = replace(answer.provenance, solver=solver, settings=settings)
    assembly = replace(answer, provenance=told)
    assembly.save(out, force=force)
    _say(_summary(assembly))
    _say(f"Written to {out}: look at {out / 'report.html'} first.")


@app.command()
def joins(
    path: Input,
    out: Out,
    per_pair: Annotated[
        int, typer.Option(help="Ways to join two pieces that are told at most.", min=1)
    ] = 3,
    limit: Annotated[int, typer.Option(help="Joins that are told at most.", min=1)] = 200,
    piece: Annotated[
        str | None, typer.Option(help="Only joins of this fragment.", show_default="of all")
    ] = None,
    weights: SolvingWeights = None,
    device: SolvingDevice = Device.cpu,
    mm_per_px: MmPerPx = None,
    strict: Strict = False,
    force: Force = False,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes that compare pieces side by side.", show_default="1", min=1),
    ] = None,
    ray: RayAddress = None,
) -> None:
    """List which pieces join and how, the likeliest first, with pictures and figures."""
    import reassembly
    from reassembly.io.files import check_output_folder
    from reassembly.io.joins_report import save_joins
    from reassembly.matching.joins import Given, load_finder, shared_out
    from reassembly.solvers.settings import check_device_here
    from reassembly.workers import check_cluster

    check_cluster(ray)
    check_device_here(device.value)
    finder = load_finder(weights, device=device.value)
    check_output_folder(out, force)
    puzzle = _load(path, mm_per_px, strict)
    given = Given(path, mm_per_px, weights, device.value)
    with (
        shared_out(given, out, workers=workers, ray=ray) as compare,
        _joins_bar(f"{len(puzzle)} pieces") as (progress, tell),
    ):
        found = reassembly.find_joins(
            puzzle,
            per_pair=per_pair,
            piece=piece,
            progress=progress,
            tell=tell,
            finder=finder,
            compare=compare,
        )
    found = found[:limit]
    with _counting_bar("pictures") as drawing:
        save_joins(found, puzzle, out, force=force, progress=drawing)
    _print_joins(found)
    _say(f"{_count(len(found), 'join')} written to {out}: look at {out / 'joins.html'} first.")


@app.command("index")
def index_fragments(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder of fragments, or of puzzles.", show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", help="The index: a new folder, or one to add to.", show_default=False
        ),
    ],
    mm_per_px: MmPerPx = None,
    strict: Strict = False,
    wear: Annotated[
        Wear | None,
        typer.Option(
            help="How worn the pieces are: light if breaks still fit closely.",
            show_default="worn, or that of the index",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes that read pictures side by side.", show_default="1", min=1),
    ] = None,
    ray: RayAddress = None,
) -> None:
    """Index a depot of fragments, for find-joins. Carries on after a kill."""
    from reassembly.depot.index import index_folder

    with _counting_bar("index") as progress:
        done = index_folder(
            path,
            out,
            mm_per_px=mm_per_px,
            strict=strict,
            wear=None if wear is None else wear.value,
            workers=workers,
            ray=ray,
            progress=progress,
        )
    _say(f"{_count(done.fragments, 'fragment')} in {out}, {done.added} of them added now.")


@app.command("find-joins")
def find_joins(
    index: Annotated[Path, typer.Option(help="What `reassembly index` made.", show_default=False)],
    fragment: Annotated[
        str | None,
        typer.Argument(help="A picture, or a fragment's id in the index.", show_default=False),
    ] = None,
    count: Annotated[int, typer.Option(help="Candidates that are told at most.", min=1)] = 50,
    every: Annotated[
        bool, typer.Option("--all", help="Part the whole depot into likely objects.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write to.", show_default=False)
    ] = None,
    mm_per_px: MmPerPx = None,
    force: Force = False,
    workers: Annotated[
        int | None,
        typer.Option(help="With --all: processes side by side.", show_default="1", min=1),
    ] = None,
    ray: RayAddress = None,
) -> None:
    """Find fragments of a depot that may join one piece; or part the depot into objects."""
    from reassembly.io.files import check_output_folder

    if every == (fragment is not None):
        raise InputError("one fragment is needed, or --all", "Name a fragment, or add --all")
    if out is not None:
        check_output_folder(out, force)
    if fragment is not None:
        from reassembly.depot.report import save_candidates
        from reassembly.depot.search import find_candidates

        if workers is not None or ray is not None:
            raise InputError(
                "one fragment is looked for in one process", "Add --all to ask for all"
            )
        with _spinner(f"searching {index}"):
            found = find_candidates(fragment, index, count=count, mm_per_px=mm_per_px)
        if out is not None:
            save_candidates(fragment, found, out, force=force)
        _print_candidates(found)
        if out is not None:
            _say(f"{_count(len(found), 'candidate')} written to {out / 'candidates.csv'}.")
        return
    from reassembly.depot.objects import find_objects, save_objects

    if out is None:
        raise InputError("--all writes a folder for each object", "Add --out DIR")
    with _counting_bar("depot") as progress:
        objects = find_objects(index, workers=workers, ray=ray, progress=progress)
        save_objects(objects, index, out, force=force, progress=progress)
    inside = sum(map(len, objects.groups))
    _say(
        f"{_count(len(objects.groups), 'likely object')} of {_count(inside, 'fragment')}; "
        f"{len(objects.alone)} belong nowhere."
    )
    where = shlex.quote(str(out))
    _say(f"Solve them with: reassembly solve {where} --each --solver joins --out solved")


@app.command()
def evaluate(
    prediction: Annotated[
        Path,
        typer.Argument(
            help="A poses.csv, an assembly.json, or a folder with <puzzle>.csv files.",
            show_default=False,
        ),
    ],
    truth: Annotated[Path, typer.Option(help="Puzzles with true poses.", show_default=False)],
    protocol: Annotated[Protocol, typer.Option(help="How to measure.")] = Protocol.strict,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the figures here.", show_default=False)
    ] = None,
) -> None:
    """Measure poses, from any program, against true ones."""
    import json

    from reassembly.io.files import atomic_write
    from reassembly.metrics import evaluate as measure

    with _spinner("measuring"):
        result = measure(prediction, truth, protocol=protocol.value)
        strict = (
            result if protocol is Protocol.strict else measure(prediction, truth, protocol="strict")
        )
    if json_file is not None:
        atomic_write(json_file, json.dumps(result, indent=2, allow_nan=False) + "\n")
    _print_evaluation(strict)
    if result is not strict:
        _print_evaluation(result)


@app.command()
def bench(
    data: Annotated[
        list[Path],
        typer.Option(help="A puzzle, or a folder of puzzles, with true poses; repeatable."),
    ],
    out: Out,
    solver: Annotated[
        list[str] | None,
        typer.Option(
            help="A solver's name; repeatable. Trivial rows are always added.",
            show_default="the trivial rows alone",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0.", min=1)] = 1,
    split: Annotated[
        str | None, typer.Option(help="Only this split, such as test.", show_default=False)
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            help="Tell a solver something: --setting reassemblenet.steps=50; repeatable.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        Device, typer.Option(help="Where solvers compute that can choose.")
    ] = Device.cpu,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Puzzles solved side by side; seconds then are a busy machine's.",
            show_default="1",
            min=1,
        ),
    ] = None,
    ray: RayAddress = None,
) -> None:
    """Measure solvers on data sets, trivial rows beside them. Carries on after a kill."""
    from reassembly.bench import bench as run
    from reassembly.solvers.registry import available_solvers, parse_settings

    settings = parse_settings(setting or [])
    if device is not Device.cpu:
        known = available_solvers()
        for name in solver or []:
            if name in known and device.value in known[name].devices:
                settings.setdefault(name, {}).setdefault("device", device.value)
    with _counting_bar("benchmark") as progress:
        rows = run(
            data,
            solver or [],
            out,
            seeds=seeds,
            split=split,
            settings=settings,
            workers=workers,
            ray=ray,
            progress=progress,
        )
    for name in dict.fromkeys(row["data"] for row in rows):
        _print_scores([row for row in rows if row["data"] == name], title=name)
    _say(f"Tables, rows a puzzle and every prediction: {out}")


@app.command()
def reproduce(
    out: Out,
    data: Annotated[
        Path | None,
        typer.Option(help="RePAIR, all of it or some; see `data repair`.", show_default=False),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few and small puzzles: does it all work?")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="A part: repair, semi-synthetic, features, keypoints, data-creation, "
            "scalability, time, own, audit, gallery; repeatable.",
            show_default="all",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="Folder of trained weights, named as recipes are.", show_default=False),
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Make the weights that are missing: takes long.")
    ] = False,
    dataset: Annotated[
        list[Path] | None,
        typer.Option(
            help="Puzzles of your own with true poses, for the same tables; repeatable.",
            show_default=False,
        ),
    ] = None,
    solver: Annotated[
        list[str] | None,
        typer.Option(help="Only rows of this solver; repeatable.", show_default="all"),
    ] = None,
    puzzles: Annotated[
        int | None,
        typer.Option(help="How many made puzzles.", show_default="1000, or 2 with --quick"),
    ] = None,
    most_pieces: Annotated[
        int | None,
        typer.Option(
            help="Largest puzzle of scalability.", show_default="1024, or 16 with --quick", min=2
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0.", min=1)] = 1,
    workers: Annotated[
        int,
        typer.Option(help="Puzzles solved side by side; seconds then are a busy machine's.", min=1),
    ] = 1,
    device: Annotated[
        Device, typer.Option(help="Where solvers compute that can choose.")
    ] = Device.cpu,
    minutes: Annotated[
        float, typer.Option(help="Length of every training run of --train.", min=0.01)
    ] = 3.1,
) -> None:
    """Rebuild the paper's tables and figures beside the published ones. Carries on after a kill."""
    from reassembly.reproduce import reproduce as run

    begun = time.monotonic()
    with _counting_bar("") as progress:
        page = run(
            out,
            data=data,
            quick=quick,
            only=only or (),
            weights=weights,
            train=train,
            datasets=dataset or (),
            solvers=solver or (),
            puzzles=puzzles,
            most_pieces=most_pieces,
            seeds=seeds,
            workers=workers,
            device=device.value,
            minutes=minutes,
            progress=progress,
            say=lambda text: typer.echo(text, err=True),
        )
    _print_reproduced(page)
    _say(
        f"Start with {page}; truth and prediction side by side: {out / 'gallery.html'}. "
        f"This call took {(time.monotonic() - begun) / 60:.1f} minutes."
    )


@data_app.command("repair")
def data_repair(
    path: Annotated[
        Path | None,
        typer.Argument(help="What was downloaded: a zip, or a folder.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Lay it out here, for --data.", show_default=False),
    ] = None,
    test_ids: Annotated[
        str | None,
        typer.Option(
            help="Which puzzles are for tests: ids.txt, or folds.json#1.",
            show_default="as the download, or the list for release 2, has it",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Tell where to get RePAIR, check a download, and lay it out."""
    from reassembly.io.ids import read_ids
    from reassembly.reproduce.repair import (
        SOURCES,
        check_files,
        completeness,
        lay_out,
        read_repair,
    )

    if path is None:
        _say("RePAIR is published by its authors (research data: do not pass its images on):")
        for name, address in SOURCES.items():
            _say(f"  {name}: {address}")
        _say("Download a zip, then check it and lay it out:")
        _say("  reassembly data repair 2D_SOLVED.zip --out repair")
        _say("  reassembly reproduce --data repair --out reproduced")
        return
    repair = read_repair(path)
    _say(f"{path}: {completeness(repair)}.")
    with _counting_bar("reading") as progress:
        checked = check_files(repair, progress)
    for name, share in checked.overlaps.items():
        warnings.warn(
            f"{name}: {share:.0%} of its area lies on other pieces where its true poses put "
            "it; they may be wrong",
            InputWarning,
        )
    for folder in checked.nameless:
        warnings.warn(f"{folder} has pictures but no data.json", InputWarning)
    if lost := [*checked.unread, *checked.nameless]:
        raise InputError(
            f"it is damaged: {_count(len(lost), 'puzzle')} cannot be read as a whole",
            "Download it again, or take out the puzzles that are named above",
            path,
        )
    good = len(repair.sources) - len(checked.overlaps)
    _say(f"Every picture can be read. True poses look right in {good} puzzles.")
    if out is not None:
        with _counting_bar("copying") as progress:
            counts = lay_out(
                repair,
                out,
                test=read_ids(test_ids) if test_ids else None,
                force=force,
                progress=progress,
            )
        _say(f"{out}: {', '.join(f'{name} {count}' for name, count in counts.items())}.")


@app.command()
def cutout(
    photo: Annotated[Path, typer.Argument(help="Photograph of many pieces.", show_default=False)],
    out: Out,
    mm_per_px: MmPerPx = None,
    force: Force = False,
) -> None:
    """Cut the pieces out of a photograph of a tray on a plain ground."""
    import reassembly

    with _spinner("cutting out"):
        puzzle = reassembly.cut_out(photo, out, mm_per_px=mm_per_px, force=force)
    _say(f"{_count(len(puzzle), 'piece')} cut out into {out}.")


@app.command()
def inspect(
    path: Input,
    sheet: Annotated[
        Path | None,
        typer.Option(help="Write a contact sheet (PNG) here.", show_default=False),
    ] = None,
    mm_per_px: MmPerPx = None,
    strict: Strict = False,
) -> None:
    """Tell what is in a folder: pieces, sizes in mm, warnings, a contact sheet."""
    from rich.table import Table

    import reassembly
    from reassembly.io.files import atomic_write

    if sheet is not None and sheet.suffix.lower() != ".png":
        raise InputError("a contact sheet is a PNG file", "Let its name end in .png", sheet)
    sources = reassembly.find_puzzles(path)
    if len(sources) > 1:
        table = Table("puzzle", "layout", "split", "path", title=f"{path}: {len(sources)} puzzles")
        for source in sources:
            table.add_row(source.id, source.kind, source.split or "–", str(source.path))
        _print(table)
        _say("Name one of them to see its pieces.")
        return
    puzzle = _load(path, mm_per_px, strict)
    table = Table(title=f"{puzzle.id}: {_count(len(puzzle), 'piece')}")
    table.add_column("piece")
    for column in ("width (mm)", "height (mm)", "area (cm²)", "mm per px", "picture (px)"):
        table.add_column(column, justify="right")
    for piece in sorted(puzzle.fragments, key=lambda f: -f.area_mm2):
        left, top, right, bottom = piece.polygon.bounds
        table.add_row(
            piece.id,
            f"{right - left:.1f}",
            f"{bottom - top:.1f}",
            f"{piece.area_mm2 / 100:.1f}",
            f"{piece.mm_per_px:.4f}",
            f"{piece.frame_px[0]} x {piece.frame_px[1]}",
        )
    _print(table)
    strays = f" Strays: {', '.join(sorted(puzzle.strays))}." if puzzle.strays else ""
    _say(
        f"Scale: {puzzle.metadata.get('scale', 'unknown')}. "
        f"True poses: {'yes' if puzzle.truth else 'no'}.{strays}"
    )
    if sheet is not None:
        from reassembly.io.render import contact_sheet_png

        atomic_write(sheet, contact_sheet_png(puzzle))
        _say(f"Contact sheet: {sheet}")


@app.command()
def solvers() -> None:
    """List the solvers."""
    from rich.table import Table

    from reassembly.solvers.registry import available_solvers

    table = Table("solver", "what it does", "after", "weights")
    for info in available_solvers().values():
        missing = info.missing_weights()
        weights = "missing" if missing else "present" if info.weights else "–"
        table.add_row(info.name, info.summary, info.citation, weights)
    _print(table)


@app.command()
def generate(
    out: Out,
    count: Annotated[int, typer.Option(help="How many puzzles.")] = 5000,
    seed: Seed = 0,
    preset: Annotated[Preset, typer.Option(help="How the pieces are worn.")] = Preset.realistic,
    pieces: Annotated[
        str | None,
        typer.Option(
            help="How many pieces a puzzle: MIN-MAX, or one number.", show_default="nine on average"
        ),
    ] = None,
    size: Annotated[int, typer.Option(help="Side of the picture in pixels.")] = 1024,
    images: Annotated[
        Path | None,
        typer.Option(
            help="Pictures, or RePAIR puzzles, to cut instead of painting.", show_default=False
        ),
    ] = None,
    image_ids: Annotated[
        str | None,
        typer.Option(help="Only these of IMAGES: ids.txt, or folds.json#1,2.", show_default=False),
    ] = None,
    style: Annotated[
        str | None,
        typer.Option(help="Paint all walls in this style.", show_default="a mixture of styles"),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes.", show_default="one a core", min=1)
    ] = None,
    ray: RayAddress = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Carry on with a run cut short.")
    ] = False,
    force: Force = False,
) -> None:
    """Make semi-synthetic puzzles with true poses and break labels."""
    from reassembly.io.ids import read_ids
    from reassembly.synthetic.dataset import generate as make
    from reassembly.synthetic.dataset import parse_pieces

    with _counting_bar("puzzles") as progress:
        made = make(
            out,
            count=count,
            seed=seed,
            preset=preset.value,
            pieces=parse_pieces(pieces),
            size_px=size,
            images=images,
            image_ids=read_ids(image_ids) if image_ids else None,
            style=style,
            workers=workers,
            ray=ray,
            resume=resume,
            force=force,
            progress=progress,
        )
    _say(f"{_count(made['puzzles'], 'puzzle')}, {_count(made['pieces'], 'piece')} in {out}.")


@app.command()
def compare(
    data_a: Annotated[
        Path, typer.Argument(help="The reference: real puzzles.", show_default=False)
    ],
    data_b: Annotated[Path, typer.Argument(help="The puzzles in question.", show_default=False)],
    out: Out,
    ids_a: Annotated[
        str | None,
        typer.Option(help="Only these of DATA_A: ids.txt, or folds.json#1,2.", show_default=False),
    ] = None,
    ids_b: Annotated[
        str | None, typer.Option(help="The same for DATA_B.", show_default=False)
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="At most so many puzzles of each.", show_default=False, min=1)
    ] = None,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Tell how far two sets of puzzles are apart: pieces, breaks and paint."""
    from rich.table import Table

    from reassembly.io.ids import read_ids
    from reassembly.synthetic.compare import compare as measure

    with _counting_bar("comparing") as progress:
        result = measure(
            data_a,
            data_b,
            out,
            force=force,
            only_a=read_ids(ids_a) if ids_a else None,
            only_b=read_ids(ids_b) if ids_b else None,
            limit=limit,
            seed=seed,
            progress=progress,
        )
    table = Table("statistic", "unit", caption="medians; distances in units of A's own spread")
    for column in ("A", "B", "distance", "by chance"):
        table.add_column(column, justify="right")
    for row in result["rows"]:
        figures = (row[key] for key in ("median_a", "median_b", "distance", "chance"))
        table.add_row(
            row["title"], row["unit"], *("–" if f is None else f"{f:.3g}" for f in figures)
        )
    _print(table)
    _say(f"Plots and tables: {out / 'report.html'}")


@app.command()
def prepare(
    out: Annotated[Path, typer.Option("--out", help="Folder of the pool.", show_default=False)],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Puzzles with true poses, or a pool with patches, instead of made puzzles.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Of DATA, only this split.", show_default=False)
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(help="Of DATA, only these: ids.txt, or folds.json#1,2.", show_default=False),
    ] = None,
    preset: Annotated[Preset, typer.Option(help="How made pieces are worn.")] = Preset.paper,
    count: Annotated[int, typer.Option(help="How many puzzles are made.")] = 4000,
    seed: Seed = 0,
    pieces: Annotated[
        str | None,
        typer.Option(
            help="How many pieces a puzzle: MIN-MAX, or one number.", show_default="nine on average"
        ),
    ] = None,
    size: Annotated[int, typer.Option(help="Side of the picture in pixels.")] = 1024,
    pictures: Annotated[
        Path | None,
        typer.Option(
            "--pictures",
            "--images",
            help="Pictures, or RePAIR puzzles, to cut instead of painting.",
            show_default=False,
        ),
    ] = None,
    picture_ids: Annotated[
        str | None,
        typer.Option(
            "--picture-ids",
            "--image-ids",
            help="Only these of PICTURES: ids.txt, or folds.json#1,2.",
            show_default=False,
        ),
    ] = None,
    style: Annotated[
        str | None,
        typer.Option(help="Paint all walls in this style.", show_default="a mixture of styles"),
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="Texture encoder: a name, a safetensors file, or none.")
    ] = "texture",
    patch_frame: Annotated[
        PatchFrame, typer.Option(help="Which way patches are turned.")
    ] = PatchFrame.tangent,
    patch_mm_per_px: Annotated[float, typer.Option(help="Scale of the patches.")] = 0.2714,
    keep_patches: Annotated[
        bool, typer.Option("--keep-patches", help="Store patches, to train an encoder with.")
    ] = False,
    view: Annotated[
        list[str] | None,
        typer.Option(help="Also what a baseline looks at: pictures, contour.", show_default=False),
    ] = None,
    joins: Annotated[
        bool, typer.Option("--joins", help="Proposals of joins instead, to train a verifier with.")
    ] = False,
    per_pair: Annotated[
        int, typer.Option(help="With --joins: proposals of a pair of pieces.", min=1)
    ] = 120,
    other_pairs: Annotated[
        float,
        typer.Option(
            help="With --joins: pairs that do not touch, for each that does; 100 for all.", min=0
        ),
    ] = 0.5,
    matcher: Annotated[
        str | None,
        typer.Option(
            help="With --joins: weights that match points of worn pieces.",
            show_default="matcher",
        ),
    ] = None,
    unmarked: Annotated[
        bool,
        typer.Option(
            "--unmarked", help="With --joins: strokes drawn on pieces are painted out first."
        ),
    ] = False,
    crops_only: Annotated[
        bool,
        typer.Option(
            "--crops-only",
            help="With --joins: only what the verifier learns from, which is quicker.",
        ),
    ] = False,
    proposing: Annotated[
        list[str] | None,
        typer.Option(
            help="With --joins: search otherwise for proposals, as in gap_mm=3; repeatable.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[Device, typer.Option(help="Where networks compute.")] = Device.cpu,
    workers: Annotated[
        int | None, typer.Option(help="Processes.", show_default="one a core", min=1)
    ] = None,
) -> None:
    """Describe puzzles once, for training. Carries on after a kill."""
    from reassembly.config import FeatureConfig
    from reassembly.io.ids import read_ids
    from reassembly.synthetic.dataset import parse_pieces
    from reassembly.training.prepare import made_puzzles, stored_puzzles
    from reassembly.training.prepare import prepare as run

    if data is not None and any(data.glob("shard-*.safetensors")):
        from reassembly.training.textures import encode_pool

        with _counting_bar("encoding") as progress:
            written = encode_pool(data, out, encoder, device.value, progress=progress)
        _say(f"{_count(written, 'shard')} written to {out}.")
        return
    if data is not None:
        source: Any = stored_puzzles(data, split=split, ids=read_ids(ids) if ids else None)
    else:
        source = made_puzzles(
            count=count,
            seed=seed,
            preset=preset.value,
            pieces=parse_pieces(pieces),
            size_px=size,
            images=pictures,
            image_ids=read_ids(picture_ids) if picture_ids else None,
            style=style,
        )
    if joins:
        from reassembly.matching.correlate import parse_proposing
        from reassembly.training.joins import JoinSettings, prepare_joins

        searched = parse_proposing(proposing or [])
        settings = JoinSettings(per_pair, other_pairs, matcher, unmarked, crops_only, searched)
        with _counting_bar("puzzles") as progress:
            found = prepare_joins(
                out,
                source,
                settings=settings,
                device=device.value,
                workers=workers,
                progress=progress,
            )
        there = f" {_count(found['kept'], 'puzzle')} were there already." if found["kept"] else ""
        _say(f"Joins of {_count(found['puzzles'], 'puzzle')} in {out}.{there}")
        return
    features = FeatureConfig(
        patch_frame=patch_frame.value,
        patch_mm_per_px=patch_mm_per_px,
    )
    patches = columns = None
    if keep_patches:
        from reassembly.training.textures import keep_patches as keeping

        patches, columns = keeping(features)
    elif encoder != "none":
        from reassembly.training.textures import texture_columns

        patches, columns = texture_columns(encoder, features, device.value)
    with _counting_bar("puzzles") as progress:
        made = run(
            out,
            source,
            patches=patches,
            encoder=columns,
            views=view or (),
            workers=workers,
            progress=progress,
        )
    kept = f" {_count(made['kept'], 'puzzle')} were there already." if made["kept"] else ""
    _say(f"{_count(made['puzzles'], 'puzzle')}, {_count(made['pieces'], 'piece')} in {out}.{kept}")


@app.command()
def train(
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of the run.", show_default="runs/CONFIG[-STAGE]"),
    ] = None,
    stage: Annotated[
        TrainingStage | None, typer.Option(help="What is trained.", show_default=False)
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            help="A YAML file, or default, paper, tiny, diffassemble, pairingnet, puzzlefusion.",
            show_default="default",
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a value: --set training.batch=8; repeatable."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="A pool of `reassembly prepare`, or puzzles.", show_default="made puzzles"
        ),
    ] = None,
    validation: Annotated[
        Path | None,
        typer.Option(help="Likewise, to be judged by.", show_default="a part of the data"),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(help="Weights to start from: a name, file or run.", show_default=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Carry on with the run in OUT.")] = False,
    device: Annotated[TrainingDevice, typer.Option(help="Where to compute.")] = TrainingDevice.auto,
    devices: Annotated[int, typer.Option(help="GPUs, or processes, a machine.", min=1)] = 1,
    nodes: Annotated[int, typer.Option(help="Machines.", min=1)] = 1,
    minutes: Annotated[
        float | None,
        typer.Option(help="End training after so long, to be resumed.", show_default=False),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Instead of training.steps.", show_default=False, min=1)
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes that make puzzles.", show_default="one a core", min=1),
    ] = None,
) -> None:
    """Train a network. Ctrl-C ends a run so that it can be resumed."""
    from reassembly.training.run import train as run

    if out is None:
        name = Path(config or "default").stem
        out = Path("runs") / (name if stage is None else f"{name}-{stage.value}")
    with _counting_bar("") as show:
        outcome = run(
            out,
            None if stage is None else stage.value,
            config=config,
            changes=changes or (),
            data=data,
            validation=validation,
            init=init,
            resume=resume,
            device=device.value,
            devices=devices,
            nodes=nodes,
            minutes=minutes,
            steps=steps,
            workers=workers,
            progress=lambda done, total, text: show(done, total, f"training {text}"),
            preparing=lambda done, total, text: show(done, total, f"preparing {text}"),
        )
    if not outcome.told_elsewhere:
        _tell_outcome(outcome, out)
    if outcome.stopped == "interrupted":
        raise typer.Exit(130)


def _tell_outcome(outcome: Outcome, out: Path) -> None:
    if outcome.figures:
        figures = (f"{name} {value:.4g}" for name, value in outcome.figures.items())
        _say(f"Validation: {', '.join(figures)}")
    if outcome.stopped:
        _say(
            f"{outcome.stopped.capitalize()} after {outcome.steps} of {outcome.planned} steps; "
            f"carry on with `reassembly train --out {out} --resume`."
        )
    curve = out / "metrics.csv"
    _say(f"Weights: {outcome.weights}" + f"; learning curve: {curve}" * curve.exists())


@app.command()
def doctor(
    folder: Annotated[
        Path, typer.Argument(help="Where you want to work.", show_default="here")
    ] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look whether all is in place here, and tell what to do. Exits with 2 if something is not."""
    from reassembly.doctor import State, diagnose

    with _spinner("looking"):
        found = diagnose(folder)
    fine = all(finding.state is not State.mend for finding in found)
    if as_json:
        import json
        from dataclasses import asdict

        rows = [asdict(finding) for finding in found]
        _say(json.dumps({"version": __version__, "fine": fine, "findings": rows}, indent=1))
    else:
        for finding in found:
            remedy = f". {finding.remedy}" if finding.remedy else ""
            _say(f"{finding.state:4}  {finding.about}: {finding.what}{remedy}.")
        _say("All is well." if fine else "Mend what is marked `mend`, then ask again.")
    if not fine:
        raise typer.Exit(2)


@weights_app.callback(invoke_without_command=True)
def weights(context: typer.Context) -> None:
    """List trained weights; fetch or add some."""
    if context.invoked_subcommand is not None:
        return
    from reassembly.weights import how_to_restore, list_weights

    again = how_to_restore()
    table = _narrow_table(None, None)
    table.add_column("name", no_wrap=True)
    for heading in ("kind", "MB", "sha256", "what it is"):
        table.add_column(heading, justify="right" if heading == "MB" else "left")
    for file in list_weights():
        about = file.about
        if not file.present and file.shipped:
            about = f"missing from the installation. {again}. {about}"
        elif not file.present:
            about = f"not downloaded. {about}"
        table.add_row(file.name, file.kind, f"{file.bytes / 1e6:.1f}", file.sha256[:8], about)
    _print(table)


@weights_app.command("get")
def weights_get(
    name: Annotated[
        str, typer.Argument(help="imagenet-resnet18, or hf:owner/name.", show_default=False)
    ],
    source: Annotated[
        Path | None,
        typer.Option("--from", help="The published file, fetched by other means.", dir_okay=False),
    ] = None,
) -> None:
    """Download weights that others publish."""
    from reassembly.weights import download

    with _counting_bar("download") as progress:
        path = download(name, progress, source)
    _say(f"{name}: {path}")


@weights_app.command("add")
def weights_add(
    source: Annotated[
        Path, typer.Argument(help="A training run, or a safetensors file.", show_default=False)
    ],
    name: Annotated[str, typer.Option(help="Under which it will load.", show_default=False)],
    card: Annotated[Path, typer.Option(help="Model card, Markdown.", show_default=False)],
) -> None:
    """Ship weights with the package, for maintainers."""
    from reassembly.weights import add_weights

    file = add_weights(source, name, card)
    _say(f"{file.name}: {file.kind}, {file.bytes / 1e6:.1f} MB, sha256 {file.sha256[:8]}")


def _load(path: Path, mm_per_px: float | None, strict: bool) -> Puzzle:
    import reassembly

    with _spinner(f"reading {path}"):
        return reassembly.load(path, mm_per_px=mm_per_px, strict=strict)


def _summary(assembly: Assembly) -> str:
    placed, unplaced = len(assembly.poses), len(assembly.unplaced)
    text = f"{placed} of {placed + unplaced} pieces placed"
    if len(assembly.islands) > 1:
        text += f", in {len(assembly.islands)} islands that claim nothing about each other"
    if unplaced:
        names = ", ".join(assembly.unplaced[:5]) + (", ..." if unplaced > 5 else "")
        text += f"; left out: {names}"
    return text + "."


def _tell_solved(rows: list[Row], out: Path) -> None:
    failed = [row for row in rows if row.error is not None]
    for row in failed:
        warnings.warn(f"{row.puzzle}: {row.error}", InputWarning)
    if len(failed) == len(rows):
        raise InputError("no puzzle was solved", "Mend what the warnings tell, and repeat", out)
    pieces, placed = sum(row.pieces or 0 for row in rows), sum(row.placed or 0 for row in rows)
    _say(
        f"{len(rows) - len(failed)} of {_count(len(rows), 'puzzle')} solved, {placed} of "
        f"{_count(pieces, 'piece')} placed."
    )
    _say(f"Written to {out}, a folder a puzzle; {out / 'puzzles.csv'} lists them.")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _console(stderr: bool = False) -> Any:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def _say(text: str) -> None:
    typer.echo(text)


def _print(table: Any) -> None:
    _console().print(table)


def _narrow_table(title: str | None, caption: str | None) -> Any:
    """A table whose figures and names fit into 80 columns."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(
        title=title, caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False
    )


def _print_scores(rows: list[dict[str, Any]], title: str | None = None) -> None:
    """One row a solver, strict figures."""
    from reassembly.bench.tables import ON_SCREEN, cell, named

    table = _narrow_table(title, "protocol strict; shares from 0 to 1, deg, mm, s a puzzle")
    table.add_column("solver", overflow="fold")
    for heading in ON_SCREEN.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(named(row, rows), *(cell(key, row.get(key)) for key in ON_SCREEN))
    _print(table)


def _print_joins(joins: Sequence[Join]) -> None:
    """The likeliest."""
    from rich.markup import escape

    from reassembly.io.markup import fixed, share

    table = _narrow_table(None, "how likely two pieces join just so, the likeliest first")
    for heading in ("piece", "piece"):
        table.add_column(heading, overflow="fold")
    for heading in ("probability", "gap mm", "overlap mm²", "contact mm"):
        table.add_column(heading, justify="right", no_wrap=True)
    for join in joins[:JOINS_SHOWN]:
        figures = (join.gap_mm, join.overlap_mm2, join.contact_mm)
        names = escape(join.first), escape(join.second)
        table.add_row(*names, share(join.probability), *map(fixed, figures))
    _print(table)


def _print_candidates(candidates: Sequence[Candidate]) -> None:
    """The best."""
    from rich.markup import escape

    from reassembly.io.markup import fixed

    table = _narrow_table(None, "fragments that may join, the likeliest first")
    table.add_column("fragment", overflow="fold")
    for heading in ("score", "turned deg", "match mm", "at x, y mm"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in candidates[:JOINS_SHOWN]:
        at = f"{one.at_mm[0]:.0f}, {one.at_mm[1]:.0f}"
        turned = f"{one.pose.rotation_deg:.0f}"
        table.add_row(escape(one.id), f"{one.score:.3f}", turned, fixed(one.contact_mm), at)
    _print(table)


def _print_reproduced(page: Path) -> None:
    """How many rows of each table have figures."""
    import json

    table = _narrow_table(None, None)
    for heading in ("table", "in the paper"):
        table.add_column(heading, overflow="fold")
    table.add_column("rows", justify="right", no_wrap=True)
    files = (file for file in page.parent.glob("*.json") if not file.name.startswith("audit-"))
    for file in sorted(files):
        content = json.loads(file.read_text(encoding="utf-8"))
        rows = [row for row in content["rows"] if row.get("group") != "trivial"]
        have = sum(not row.get("skipped") for row in rows)
        table.add_row(file.stem, content["source"], f"{have} of {len(rows)}")
    _print(table)


def _print_evaluation(result: dict[str, Any]) -> None:
    """One row a puzzle, the mean last."""
    from reassembly.bench.tables import ON_SCREEN, cell

    rows = [*result["puzzles"], {"id": "mean", **result["mean"]}]
    columns = {k: v for k, v in ON_SCREEN.items() if any(row.get(k) is not None for row in rows)}
    if result["protocol"] == Protocol.paper:
        columns["rmse_translation_mm"] = "canvas %"
    table = _narrow_table(f"protocol {result['protocol']}", result.get("units"))
    table.add_column("puzzle", no_wrap=True)
    for heading in columns.values():
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(str(row["id"]), *(cell(key, row.get(key)) for key in columns))
    _print(table)


@contextmanager
def _progress_bar(title: str) -> Iterator[ProgressCallback]:
    """A bar for a solver's `Progress`, with the time left."""
    with _bar(title) as (bar, at):
        yield lambda step: at(step.fraction, 1.0, f"{title}: {step.stage}")
        bar.update(bar.task_ids[0], completed=1.0)


@contextmanager
def _joins_bar(title: str) -> Iterator[tuple[ProgressCallback, Any]]:
    """A bar that also shows the likeliest joins, as soon as they are found."""
    from rich.markup import escape

    from reassembly.io.markup import share

    best = 0.0
    with _bar(title) as (bar, at):

        def tell(joins: Sequence[Join]) -> None:
            nonlocal best
            for join in joins:
                if join.probability > best:
                    best = join.probability
                    text = f"best so far: {join.first} and {join.second}, {share(best)}"
                    bar.console.print(escape(text), soft_wrap=True)

        yield lambda step: at(step.fraction, 1.0, f"{title}: {step.stage}"), tell
        bar.update(bar.task_ids[0], completed=1.0)


@contextmanager
def _counting_bar(title: str) -> Iterator[Any]:
    """A bar for (done, total, what)."""
    with _bar(title) as (_, at):
        yield lambda done, total, what="": at(done, total, f"{title} {what}".strip())


_asked_to_stop = threading.Event()


def _ask_to_stop(*_: object) -> None:
    _asked_to_stop.set()
    raise KeyboardInterrupt


def _stop_if_asked() -> None:
    """Python drops a KeyboardInterrupt that comes while it collects garbage: so ask again."""
    if _asked_to_stop.is_set():
        raise KeyboardInterrupt


LOGGED_S = 30.0
"""Where no bar can be seen, a line tells this often how far it is."""


@contextmanager
def _bar(title: str) -> Iterator[tuple[Any, Callable[[float, float, str], None]]]:
    """A progress bar that appears when it is first moved, not before an error; and what moves it
    to (done, of how much, what is told). Where no bar can be seen, lines tell how far it is."""
    from rich import progress

    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=_console(stderr=True),
    )
    task = bar.add_task(title, total=None)
    told = time.monotonic()

    def at(done: float, total: float, text: str) -> None:
        nonlocal told
        _stop_if_asked()
        bar.start()
        bar.update(task, completed=done, total=total, description=text)
        if not bar.console.is_terminal and time.monotonic() >= told + LOGGED_S:
            told = time.monotonic()
            typer.echo(f"{text}: {done / (total or 1):.0%}", err=True)

    try:
        yield bar, at
    finally:
        if bar.live.is_started:  # Stopping what was never shown prints an empty line.
            bar.stop()


@contextmanager
def _spinner(text: str) -> Iterator[None]:
    with _console(stderr=True).status(text):
        yield


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """An `InputWarning` is one line for the user; other warnings are not for them."""
    if issubclass(category, InputWarning):
        _console(stderr=True).print(
            f"warning: {message}", style="yellow", soft_wrap=True, markup=False
        )


def _interrupted() -> NoReturn:
    said = sys.argv[1:]
    remedy = ""
    if said and said[0] in ("generate", "train"):
        remedy = ": the same command carries on with --resume"
    elif said and (said[0] in ("bench", "index", "prepare", "reproduce") or "--each" in said):
        remedy = ": the same command carries on"
    typer.echo(f"interrupted{remedy}", err=True)
    _left_by_interrupt.set()
    sys.exit(130)


_left_by_interrupt = threading.Event()


def _keep_exit_code() -> None:
    """Python ends a process by the signal itself, whatever was handled, if the interrupt came while
    a library ran Python code from C. So leave before it does, when all else is cleaned up."""
    if _left_by_interrupt.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)


def _fate(error: BaseException) -> InputError | None:
    """What befell the machine, not the program: a full disk, a lack of memory, a lost GPU or
    neighbour."""
    from reassembly.io.files import disk_error

    for cause in causes(error):
        kind, text = type(cause).__name__, str(cause)
        if (told := disk_error(cause)) is not None:
            return told
        if kind == "OutOfMemoryError" or (kind == "RuntimeError" and "out of memory" in text):
            remedy = "Close other programs that use it, take less at a time, or use --device cpu"
            return InputError("the GPU has not enough memory", remedy)
        if isinstance(cause, MemoryError) or "can't allocate memory" in text:
            remedy = "Close other programs, or take less at a time, such as fewer --workers"
            return InputError("there is not enough memory", remedy)
        if kind.startswith("Dist") or (kind == "RuntimeError" and "gloo" in text):  # torch's.
            from reassembly.training.processes import lost_neighbour

            # Without the place in the library's code, and its advice.
            return lost_neighbour(text.splitlines()[0].rpartition("] ")[2].partition(". ")[0])
        if kind in {"RuntimeError", "AcceleratorError"} and ("CUDA" in text or "cuDNN" in text):
            remedy = "See what nvidia-smi says, then repeat the command, or use --device cpu"
            return InputError(f"the GPU is gone or failed ({text.splitlines()[0]})", remedy)
    return None


def main() -> None:
    """Runs the command and ends the process with the right exit code."""
    atexit.register(_keep_exit_code)  # The first to be registered is the last to be called.
    warnings.simplefilter("always", InputWarning)
    warnings.showwarning = _show_warning
    for stream in (sys.stdout, sys.stderr):
        # Windows writes to files and pipes in a code page that lacks most letters of names.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _ask_to_stop)
    try:
        app()
    except InputError as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        _interrupted()
    except SystemExit as end:
        if end.code == 130:
            _interrupted()
        raise
    except Exception as error:
        if os.environ.get("REASSEMBLY_DEBUG"):
            raise
        if (fate := _fate(error)) is not None:
            typer.secho(f"error: {fate}", fg="red", err=True)
            sys.exit(2)
        kind = type(error).__name__
        typer.secho(
            f"internal error: {kind}: {error}. This is our fault: please report it with what "
            "REASSEMBLY_DEBUG=1 shows.",
            fg="red",
            err=True,
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
