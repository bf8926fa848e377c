"""Made puzzles on disk: `generate` writes a data set that `reassembly.load` reads.

    DIR/manifest.json           what determines the content, and nothing else
    DIR/train/puzzle_00000/     four of five puzzles
        data.json               RePAIR's v2 layout: file names and poses, `mm_per_px` added
        fragment_00.png         one piece, RGBA, cropped tightly
        labels.npz              what lay across the breaks; see `labels.Labels`
    DIR/test/puzzle_00004/      every fifth puzzle

Poses are RePAIR's: turn the image by `rotation` degrees about its centre, then put its top-left
corner at `pixel_position`. A stray has `"stray": true` instead of a pose.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from reassembly._version import __version__
from reassembly.errors import InputError
from reassembly.io.files import (
    TEMPORARY,
    atomic_write,
    check_output_folder,
    output_folder,
    sweep,
)
from reassembly.pose import to_repair
from reassembly.puzzle import Fragment, Puzzle
from reassembly.synthetic.make import (
    MadePuzzle,
    Recipe,
    check_seed,
    make_puzzle,
    puzzle_id,
    recipe,
)
from reassembly.workers import Died, check_cluster, cluster, run_each

__all__ = ["generate", "parse_pieces", "split_of", "write_puzzle"]

GenerateProgress = Callable[[int, int, str], None]
"""(puzzles done, puzzles in all, pieces so far and pieces a second in words)"""

FORMAT = 1
"""Counts up whenever the same seed gives other puzzles, or the layout changes."""
PNG = [cv2.IMWRITE_PNG_COMPRESSION, 1, cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE]
"""Photographs hardly shrink with more effort, and encoding is half the time of writing."""
SPLITS = ("train", "test")


def generate(
    out: str | PathLike[str],
    *,
    count: int,
    seed: int = 0,
    preset: str = "realistic",
    pieces: tuple[int, int] | None = None,
    size_px: int = 1024,
    images: str | PathLike[str] | Iterable[str | PathLike[str]] | None = None,
    image_ids: Collection[str] | None = None,
    style: str | None = None,
    workers: int | None = None,
    ray: str | None = None,
    resume: bool = False,
    force: bool = False,
    progress: GenerateProgress | None = None,
) -> dict[str, int]:
    """Writes a data set of made puzzles.

    The same arguments give the same bytes, whatever the number of workers and however often the
    run was cut short and resumed. A puzzle is in place whole or not at all.

    Args:
        out: the folder to write.
        count: how many puzzles.
        preset: see `make.recipe`, also for the next five.
        pieces: how many a puzzle.
        size_px: side of the picture.
        images: pictures to cut.
        image_ids: only these of them.
        style: in which all walls are painted.
        workers: processes; one a core by default, and none besides this one for 1.
        ray: address of a Ray cluster whose machines all see `out`, to work there instead.
        resume: keep the complete puzzles of an earlier run with the same arguments.
        force: replace a data set that is there.
        progress: called after every puzzle.

    Returns:
        How many `puzzles` and `pieces` the data set has.
    """
    if count < 1:
        raise InputError(f"{count} puzzles cannot be made", "Ask for a count of 1 or more")
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers cannot work", "Ask for 1 or more")
    check_seed(seed)
    check_cluster(ray)
    wanted = recipe(
        preset, pieces=pieces, size_px=size_px, images=images, image_ids=image_ids, style=style
    )
    folder = Path(out)
    _prepare(folder, _manifest(wanted, seed, count), resume, force)
    counts = {index: n for index in range(count) if (n := _pieces_in(folder, index)) is not None}
    todo = [index for index in range(count) if index not in counts]
    earlier, start = sum(counts.values()), time.monotonic()
    if progress is not None:
        progress(len(counts), count, f"{earlier} pieces")
    for index, made in _work(folder, wanted, seed, todo, workers, ray):
        counts[index] = made
        if progress is not None:
            total = sum(counts.values())
            speed = (total - earlier) / max(time.monotonic() - start, 1e-6)
            progress(len(counts), count, f"{total} pieces, {speed:.1f} a second")
    return {"puzzles": len(counts), "pieces": sum(counts.values())}


def write_puzzle(made: MadePuzzle, folder: str | PathLike[str]) -> None:
    """Writes one puzzle with its labels into a new folder, all or nothing."""
    with output_folder(folder) as place:
        for fragment in made.puzzle.fragments:
            (place / f"{fragment.id}.png").write_bytes(_png(fragment))
        (place / "labels.npz").write_bytes(made.labels.to_bytes())
        (place / "data.json").write_text(_data_json(made.puzzle), encoding="utf-8", newline="\n")


def split_of(index: int) -> str:
    """`test` for every fifth puzzle, `train` for the others."""
    return SPLITS[index % 5 == 4]


def parse_pieces(text: str | None) -> tuple[int, int] | None:
    """`4-6` as (4, 6), `9` as (9, 9), nothing as None."""
    if text is None:
        return None
    first, dash, last = (part.strip() for part in text.partition("-"))
    try:
        return int(first), int(last) if dash else int(first)
    except ValueError:
        raise InputError(
            f"{text!r} is no number of pieces", "Write it as MIN-MAX, such as 4-18"
        ) from None


def _data_json(puzzle: Puzzle) -> str:
    fragments: list[dict[str, Any]] = []
    for fragment in puzzle.fragments:
        entry: dict[str, Any] = {"filename": f"{fragment.id}.png"}
        if fragment.id in puzzle.strays:
            entry["stray"] = True
        else:
            assert puzzle.truth is not None
            pose = puzzle.truth[fragment.id]
            x, y, rotation = to_repair(pose, fragment.frame_px, fragment.mm_per_px)
            entry["pixel_position"] = [round(x, 4), round(y, 4)]
            entry["rotation"] = round(rotation, 5)
        fragments.append(entry)
    data: dict[str, Any] = {"original_id": puzzle.id, "mm_per_px": puzzle.mm_per_px}
    if "picture" in puzzle.metadata:
        data["picture"] = puzzle.metadata["picture"]
    data["fragments"] = fragments
    return json.dumps(data, indent=1) + "\n"


def _png(fragment: Fragment) -> bytes:
    blue_green_red = cv2.cvtColor(fragment.image, cv2.COLOR_RGB2BGR)
    alpha = fragment.mask.view(np.uint8) * np.uint8(255)
    encoded = cv2.imencode(".png", cv2.merge([*cv2.split(blue_green_red), alpha]), PNG)[1]
    return bytes(encoded)


def _manifest(wanted: Recipe, seed: int, count: int) -> dict[str, Any]:
    """What determines the content: no path, date or number of workers."""
    manifest = {
        "format": FORMAT,
        "reassembly": __version__,
        "opencv": cv2.__version__,
        "numpy": np.__version__,
        "seed": seed,
        "count": count,
        "preset": asdict(wanted.preset),
        "pieces": wanted.pieces,
        "size_px": wanted.size_px,
        "mm_per_px": wanted.mm_per_px,
        "images": None if wanted.pictures is None else f"sha256:{wanted.pictures.digest}",
    }
    plain: dict[str, Any] = json.loads(json.dumps(manifest))
    return plain


def _prepare(folder: Path, manifest: dict[str, Any], resume: bool, force: bool) -> None:
    """Makes the folder ready for this data set, or says why it cannot be."""
    if resume and force:
        raise InputError("both --resume and --force are given", "Choose one of them", folder)
    file = folder / "manifest.json"
    if resume and file.exists():
        _check_same(_read_manifest(file), manifest, file)
        sweep(folder)
        _make_splits(folder)
        return
    try:
        check_output_folder(folder, force)
    except InputError as error:
        if resume:
            what = "this folder holds something else than a data set"
            raise InputError(what, "Choose another output folder", folder) from error
        if file.exists():
            raise InputError(
                "there is a data set in the output folder",
                "Choose another folder, add --resume to complete it, or --force to replace it",
                folder,
            ) from error
        raise
    with _saying_resume(folder):
        if force:
            _remove(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # First of all, so that a run that is killed at once can be resumed, too.
        atomic_write(file, json.dumps(manifest, indent=1) + "\n")
        _make_splits(folder)


def _read_manifest(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    except (OSError, ValueError) as error:
        raise InputError(
            "this manifest cannot be read", "Add --force to start over", file
        ) from error
    raise InputError("this is no manifest of a data set", "Choose another output folder", file)


def _check_same(found: dict[str, Any], wanted: dict[str, Any], file: Path) -> None:
    differing = sorted(k for k in found.keys() | wanted.keys() if found.get(k) != wanted.get(k))
    if differing:
        raise InputError(
            f"the data set there was begun with another {', '.join(differing)}",
            "Repeat that command to resume it, or add --force to replace it",
            file,
        )


def _remove(folder: Path) -> None:
    """Removes the puzzles of an earlier data set; files that are none of ours stay.

    Each goes at once, and the manifest stays until another takes its place: whoever is killed here
    leaves whole puzzles that belong to it.
    """
    sweep(folder)
    for split in SPLITS:
        for puzzle in (folder / split).glob(puzzle_id(0).replace("0" * 5, "[0-9]*")):
            puzzle.replace(puzzle.with_name(f"{TEMPORARY}{puzzle.name}"))
    sweep(folder)


def _make_splits(folder: Path) -> None:
    for split in SPLITS:
        (folder / split).mkdir(exist_ok=True)


def _place(folder: Path, index: int) -> Path:
    return folder / split_of(index) / puzzle_id(index)


def _pieces_in(folder: Path, index: int) -> int | None:
    """How many pieces a puzzle has that is there, whole; a damaged one is removed. None if there
    is none."""
    place = _place(folder, index)
    if not place.exists():
        return None
    try:
        document = json.loads((place / "data.json").read_text(encoding="utf-8"))
        names = [fragment["filename"] for fragment in document["fragments"]]
        whole = zipfile.is_zipfile(place / "labels.npz") and all(
            _ends_like_png(place / name) for name in names
        )
    except (OSError, ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        shutil.rmtree(place)
        return None
    return len(names)


def _ends_like_png(file: Path) -> bool:
    with file.open("rb") as content:
        content.seek(-8, os.SEEK_END)
        return content.read(4) == b"IEND"


def _work(
    folder: Path, wanted: Recipe, seed: int, todo: list[int], workers: int | None, ray: str | None
) -> Iterator[tuple[int, int]]:
    """Makes and writes the puzzles; yields (index, pieces) of each as it is done."""
    local = min(workers or os.cpu_count() or 1, len(todo))
    here = ray is None and local <= 1
    make = partial(_make_and_write, folder, wanted, seed)
    with cluster(ray, folder) as machines, _single_threaded() if here else nullcontext():
        for index, made in run_each(
            make,
            todo,
            workers=workers if ray is not None else 0 if here else local,
            machines=machines,
            prepare=partial(cv2.setNumThreads, 1),
        ):
            if isinstance(made, Died):
                raise InputError(
                    "a worker process was killed, probably for lack of memory",
                    "Add --resume to carry on, with fewer --workers",
                    folder,
                )
            yield index, made
    sweep(folder)


def _make_and_write(folder: Path, wanted: Recipe, seed: int, index: int) -> int:
    """Returns how many pieces it has. It may be there: a worker can die with its work done."""
    if (there := _pieces_in(folder, index)) is not None:
        return there
    made = make_puzzle(wanted, seed, index)
    with _saying_resume(folder):
        write_puzzle(made, _place(folder, index))
    return len(made.puzzle)


@contextmanager
def _saying_resume(folder: Path) -> Iterator[None]:
    """Tells, wherever writing fails, that the rest can be made later."""
    try:
        yield
    except InputError as error:
        remedy = f"{error.remedy}, with --resume to carry on"
        raise InputError(error.what, remedy, folder) from error
    except OSError as error:
        what = f"this cannot be written ({error.strerror or error})"
        raise InputError(what, "Check the disk, then add --resume to carry on", folder) from error


@contextmanager
def _single_threaded() -> Iterator[None]:
    """OpenCV on one core: several are used better by several workers."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(threads)
