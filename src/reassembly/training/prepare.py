"""Puzzles to pools: made or read, described once, written in shards that training draws from.

Puzzle number i of a seed is the same in every pool. Workers know nothing of torch: they make
puzzles and cut patches; what needs a network is done in the process that writes.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly._version import __version__
from reassembly.errors import InputError, InputWarning
from reassembly.io.files import atomic_write
from reassembly.io.readers import PuzzleSource, find_puzzles
from reassembly.keypoints.describe import Description, describe, meetings
from reassembly.puzzle import Puzzle
from reassembly.synthetic.labels import Labels
from reassembly.synthetic.make import Recipe, check_seed, make_puzzle, recipe
from reassembly.training.views import VIEWS
from reassembly.workers import worker_pool

__all__ = [
    "Encoder",
    "PatchSettings",
    "Prepared",
    "begin_pool",
    "made_puzzles",
    "prepare",
    "prepare_puzzle",
    "stored_puzzles",
]

PrepareProgress = Callable[[int, int, str], None]
"""(puzzles done, puzzles in all, pieces so far in words)"""

FORMAT = 1
"""Counts up whenever the same command gives another pool."""
SHARD_PUZZLES = 64
CHUNK = 8
"""Puzzles a worker makes before it answers."""
IN_FLIGHT = 3
"""Chunks handed to each worker ahead of time."""


@dataclass(frozen=True)
class PatchSettings:
    """How pictures of candidates and of pieces are cut."""

    frame: Literal["input", "tangent"] = "tangent"
    size_px: int = 32
    mm_per_px: float = 0.2714
    whole_px: int | None = 64
    """Side of the picture of a whole piece; None for none."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """One puzzle as a pool holds it, P pieces and N candidates each, textures still as pictures."""

    description: Description
    """With its truth."""
    patches: NDArray[np.uint8] | None = None
    """(P, N, s, s, 4) around the candidates."""
    wholes: NDArray[np.uint8] | None = None
    """(P, w, w, 4), whole pieces."""
    views: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """(P, ...) columns that other systems than ReassembleNet look at; see `training.views`."""


@dataclass(frozen=True)
class Encoder:
    """What becomes of patches before they are written."""

    columns: Callable[[Prepared], Mapping[str, NDArray[Any]]]
    """The columns that a puzzle's pictures give."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What determines them, as plain values."""


@dataclass(frozen=True)
class Made:
    """Puzzles that are made: number i of a seed."""

    recipe: Recipe
    seed: int
    count: int

    def about(self) -> dict[str, Any]:
        wanted = self.recipe
        return {
            "preset": asdict(wanted.preset),
            "pieces": wanted.pieces,
            "size_px": wanted.size_px,
            "images": None if wanted.pictures is None else f"sha256:{wanted.pictures.digest}",
            "seed": self.seed,
            "opencv": cv2.__version__,
            "numpy": np.__version__,
        }

    def only(self, numbers: Sequence[int]) -> Made:
        """What a worker needs to know for these puzzles."""
        return self

    def load(self, number: int) -> tuple[Puzzle, Labels | None]:
        made = make_puzzle(self.recipe, self.seed, number)
        return made.puzzle, made.labels


@dataclass(frozen=True)
class Stored:
    """Puzzles that are read from files."""

    sources: Mapping[int, PuzzleSource]
    count: int

    def about(self) -> dict[str, Any]:
        return {"puzzles": [source.id for source in self.sources.values()]}

    def only(self, numbers: Sequence[int]) -> Stored:
        """What a worker needs to know for these puzzles."""
        return replace(self, sources={number: self.sources[number] for number in numbers})

    def load(self, number: int) -> tuple[Puzzle, Labels | None]:
        source = self.sources[number]
        beside = source.path / "labels.npz"
        return source.load(), Labels.load(beside) if beside.is_file() else None


def made_puzzles(
    *,
    count: int,
    seed: int = 0,
    preset: str = "paper",
    pieces: tuple[int, int] | None = None,
    size_px: int = 1024,
    images: str | PathLike[str] | None = None,
    image_ids: Collection[str] | None = None,
    style: str | None = None,
) -> Made:
    """Puzzles to be made; arguments as of `synthetic.make.recipe`."""
    if count < 1:
        raise InputError(f"{count} puzzles cannot be prepared", "Ask for a count of 1 or more")
    check_seed(seed)
    wanted = recipe(
        preset, pieces=pieces, size_px=size_px, images=images, image_ids=image_ids, style=style
    )
    return Made(wanted, seed, count)


def stored_puzzles(
    folder: str | PathLike[str],
    *,
    split: str | None = None,
    ids: Collection[str] | None = None,
) -> Stored:
    """The puzzles in a folder: RePAIR's, or those of `reassembly generate`.

    Args:
        split: only this split, such as `train`.
        ids: only these puzzles.
    """
    found = [s for s in find_puzzles(folder) if split is None or s.split == split]
    if ids is not None:
        missing = sorted(set(ids) - {source.id for source in found})
        if missing:
            raise InputError(f"there is no puzzle {missing[0]}", "Check the list of ids", folder)
        found = [source for source in found if source.id in set(ids)]
    if not found:
        raise InputError(f"there is no puzzle of the split {split}", "Check --split", folder)
    return Stored(dict(enumerate(found)), len(found))


def prepare_puzzle(
    puzzle: Puzzle,
    labels: Labels | None = None,
    patches: PatchSettings | None = None,
    views: Collection[str] = (),
) -> Prepared | None:
    """Describes a puzzle for training, without its strays.

    Args:
        puzzle: with true poses.
        labels: of a made puzzle, in any order of its pieces.
        patches: also cut patches.
        views: names of `training.views.VIEWS`.

    Returns:
        None for a puzzle without two pieces that have a true pose.
    """
    truth = puzzle.truth or {}
    placed = tuple(f for f in puzzle.fragments if f.id in truth and f.id not in puzzle.strays)
    if len(placed) < 2:
        return None
    kept = replace(
        puzzle,
        fragments=placed,
        truth={f.id: truth[f.id] for f in placed},
        strays=frozenset(),
    )
    seen = describe(placed)
    own = None if labels is None else _labels_of(kept.ids, labels)
    description = replace(seen, truth=meetings(kept, seen, own))
    seen_as: dict[str, NDArray[Any]] = {}
    for view in views:
        seen_as |= VIEWS[view](placed)
    if patches is None:
        return Prepared(description, views=seen_as)
    from reassembly.texture.patches import cut_patches, whole_piece

    around = [
        cut_patches(
            fragment,
            seen.points[number].astype(np.float64) + fragment.centroid_mm,
            seen.edge_angle[number] if patches.frame == "tangent" else None,
            patches.size_px,
            patches.mm_per_px,
        )
        for number, fragment in enumerate(placed)
    ]
    wholes = (
        None
        if patches.whole_px is None
        else np.stack([whole_piece(fragment, patches.whole_px) for fragment in placed])
    )
    return Prepared(description, np.stack(around), wholes, seen_as)


def _labels_of(ids: Sequence[str], labels: Labels) -> Labels:
    """The labels of some pieces, in this order; what met another piece then meets a lost one."""
    old = [labels.ids.index(i) for i in ids]
    new_of_old = np.full(len(labels.ids), -2, np.int16)
    new_of_old[old] = np.arange(len(old))
    across = [labels.across[k] for k in old]
    return Labels(
        ids=tuple(ids),
        poses=tuple(labels.poses[k] for k in old),
        outlines=tuple(labels.outlines[k] for k in old),
        across=tuple(np.where(a >= 0, new_of_old[np.maximum(a, 0)], a) for a in across),
        partner=tuple(labels.partner[k] for k in old),
        gap_mm=tuple(labels.gap_mm[k] for k in old),
        edges=(),
    )


def prepare(
    out: str | PathLike[str],
    source: Made | Stored,
    *,
    patches: PatchSettings | None = None,
    encoder: Encoder | None = None,
    views: Collection[str] = (),
    workers: int | None = None,
    progress: PrepareProgress | None = None,
) -> dict[str, int]:
    """Writes a pool. Shards that are there from an earlier run of the same wish are kept.

    Args:
        out: the folder of the pool.
        source: see `made_puzzles` and `stored_puzzles`.
        patches: how textures are cut; none without.
        encoder: what becomes of them.
        views: what other systems than ReassembleNet look at: names of `training.views.VIEWS`.
        workers: processes; one a core by default, and none besides this one for 1.
        progress: called after every chunk.

    Returns:
        How many `puzzles` and `pieces` this run wrote, and how many puzzles were `kept`.
    """
    from reassembly.training.pool import Pool, shard_of, shard_path, write_shard

    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers cannot work", "Ask for 1 or more")
    folder = Path(out)
    about = {
        "format": FORMAT,
        "reassembly": __version__,
        "count": source.count,
        "source": source.about(),
        "texture": None
        if patches is None or encoder is None
        else {**asdict(patches), **encoder.about},
    }
    strange = sorted(set(views) - set(VIEWS))
    if strange:
        raise InputError(f"there is no view {strange[0]!r}", f"Choose from {', '.join(VIEWS)}")
    if views:
        about["views"] = sorted(set(views))
    begin_pool(folder, about)
    shards = [
        range(first, min(first + SHARD_PUZZLES, source.count))
        for first in range(0, source.count, SHARD_PUZZLES)
    ]
    there = [shard_path(folder, k).is_file() for k in range(len(shards))]
    todo = [k for k, done in enumerate(there) if not done]
    kept = done = sum(len(shards[k]) for k, is_there in enumerate(there) if is_there)
    puzzles = pieces = 0
    if progress is not None:
        progress(done, source.count, "")
    chunks = [
        (k, list(shards[k][first : first + CHUNK]))
        for k in todo
        for first in range(0, len(shards[k]), CHUNK)
    ]
    columns: list[tuple[Description, Mapping[str, NDArray[Any]]]] = []
    count = min(workers or os.cpu_count() or 1, len(chunks))
    for (k, numbers), prepared in _work(
        folder, source, patches, tuple(sorted(set(views))), chunks, count
    ):
        for puzzle in prepared:
            texture = encoder.columns(puzzle) if encoder is not None else {}
            columns.append((puzzle.description, {**texture, **puzzle.views}))
            pieces += len(puzzle.description.area)
        done += len(numbers)
        if numbers[-1] == shards[k][-1]:
            if columns:
                write_shard(folder, k, shard_of(columns))
            puzzles += len(columns)
            columns = []
        if progress is not None:
            progress(done, source.count, f"{pieces} pieces")
    if not (puzzles or kept):
        raise InputError(
            "no puzzle has two pieces with true poses", "Prepare puzzles that have them", folder
        )
    if puzzles + kept < source.count:
        _warn_of_missing(source.count, len(Pool.load(folder, keep=["area"])), folder)
    return {"puzzles": puzzles, "pieces": pieces, "kept": kept}


def _warn_of_missing(asked: int, there: int, folder: Path) -> None:
    if there < asked:
        warnings.warn(
            f"{folder}: {asked - there} of {asked} puzzles were left out, since they have no two "
            "pieces with true poses",
            InputWarning,
        )


def begin_pool(folder: Path, about: Mapping[str, Any]) -> None:
    """Makes the folder ready, or says why these puzzles cannot go there."""
    file = folder / "pool.json"
    about = json.loads(json.dumps(about))
    if file.is_file():
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None
        if not isinstance(found, dict):
            raise InputError("this cannot be read", "Remove the pool and prepare it again", file)
        differing = sorted(k for k in found.keys() | about.keys() if found.get(k) != about.get(k))
        if differing:
            raise InputError(
                f"the pool there was made with another {', '.join(differing)}",
                "Repeat that command to complete it, or choose another folder",
                file,
            )
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strange = next(folder.iterdir(), None)
    except OSError as error:
        raise InputError(
            f"this folder cannot be made ({error.strerror or error})", "Choose another", folder
        ) from None
    if strange is not None:
        raise InputError("the folder holds something else than a pool", "Choose another", folder)
    atomic_write(file, json.dumps(about, indent=1) + "\n")


def _work(
    folder: Path,
    source: Made | Stored,
    patches: PatchSettings | None,
    views: tuple[str, ...],
    chunks: Sequence[tuple[int, list[int]]],
    workers: int,
) -> Iterator[tuple[tuple[int, list[int]], list[Prepared]]]:
    """Prepares chunks of puzzles; yields them in order."""
    if workers <= 1:
        threads = cv2.getNumThreads()
        cv2.setNumThreads(1)
        try:
            for chunk in chunks:
                yield chunk, _prepare_chunk(source, chunk[1], patches, views)
        finally:
            cv2.setNumThreads(threads)
        return
    pool = worker_pool(workers, partial(cv2.setNumThreads, 1))
    waiting: deque[tuple[tuple[int, list[int]], Future[list[Prepared]]]] = deque()
    left = iter(chunks)
    try:
        while True:
            for fresh in islice(left, IN_FLIGHT * workers - len(waiting)):
                given = source.only(fresh[1]), fresh[1], patches, views
                task = pool.submit(_prepare_chunk, *given)
                waiting.append((fresh, task))
            if not waiting:
                return
            chunk, task = waiting.popleft()
            yield chunk, task.result()
    except BrokenProcessPool:
        raise InputError(
            "a worker process was killed, probably for lack of memory",
            "Repeat the command to carry on, with fewer --workers",
            folder,
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _prepare_chunk(
    source: Made | Stored,
    numbers: Iterable[int],
    patches: PatchSettings | None,
    views: tuple[str, ...],
) -> list[Prepared]:
    prepared = (prepare_puzzle(*source.load(number), patches, views) for number in numbers)
    return [puzzle for puzzle in prepared if puzzle is not None]
