"""Fills an index from a folder of fragments, and carries on after a kill."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path

from reassembly.depot.coding import Coded, Wear, code_fragments, coder_digest
from reassembly.depot.search_file import check_faiss, write_search_file
from reassembly.depot.store import Read, Unit, open_depot
from reassembly.errors import InputError, InputWarning
from reassembly.io.files import check_output_folder, sweep
from reassembly.io.images import is_image_name
from reassembly.io.readers import PuzzleSource
from reassembly.puzzle import Fragment
from reassembly.solvers.batch import puzzles_of
from reassembly.workers import Died, check_cluster, cluster, one_thread, run_each

__all__ = ["Indexed", "code_picture", "index_folder"]

TOGETHER = 16
"""Pictures of a folder that are read in one go."""

IndexProgress = Callable[[int, int, str], None]
"""Called with (done, total, what)."""


@dataclass(frozen=True)
class Indexed:
    """What a call did."""

    fragments: int
    """In the index now."""
    added: int
    """Of them, those that were read by this call."""


@dataclass(frozen=True)
class _Work:
    """What a worker reads in one go: some pictures of a folder, or a puzzle."""

    source: PuzzleSource
    units: tuple[Unit, ...]
    prefix: str
    """What ids of fragments begin with."""
    names: tuple[str, ...] = ()
    """The pictures, one for each unit; none for a puzzle, which is one unit."""


@dataclass(frozen=True)
class _Wish:
    mm_per_px: float | None
    strict: bool
    wear: Wear


def index_folder(
    path: str | PathLike[str],
    out: str | PathLike[str],
    *,
    mm_per_px: float | None = None,
    strict: bool = False,
    wear: Wear | None = None,
    workers: int | None = None,
    ray: str | None = None,
    progress: IndexProgress | None = None,
) -> Indexed:
    """Adds every fragment of a folder to the index `out`, which is made where there is none.

    Ids are names of pictures without their endings; `puzzle/piece` where the folder holds several
    puzzles. Fragments that the index has are not read again, unless their files have changed, nor
    taken out when their files are gone.

    Args:
        path: a folder of pictures, or of puzzles, or of folders of pictures.
        mm_per_px: as of `reassembly.load`.
        strict: likewise.
        wear: of the pieces: `worn`, or `light` where they still fit closely; when left out, that of
            the index, or `worn` for a new one.
        workers: processes at a time: 1 by default, or what the cluster has room for.
        ray: address of a Ray cluster whose machines all see `path` and `out`, to read there.
    """
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers cannot work", "Give --workers 1 or more")
    check_faiss()
    check_cluster(ray)
    works = _works(Path(path), mm_per_px)
    check_output_folder(out, force=True)
    depot = open_depot(out, create=True)
    try:
        sweep(depot.folder)
        wish = _Wish(mm_per_px, strict, depot.settle_wear(wear))
        there = depot.units()
        todo = _todo(works, there)
        total = sum(len(work.units) for work in works)
        done = total - sum(len(work.units) for work in todo)
        added, failures = 0, []
        with cluster(ray, out) as machines:
            for work, outcome in run_each(
                partial(_read, wish),
                todo,
                workers=workers or (1 if ray is None else None),
                machines=machines,
                prepare=one_thread,
            ):
                done += len(work.units)
                if isinstance(outcome, Died):
                    failures.append(f"{work.source.path}: the process that read it died")
                elif isinstance(outcome, str):
                    failures.append(outcome)
                else:
                    digest, read = outcome
                    if depot.note("coder") is None:
                        depot.set_note("coder", digest)
                    depot.check_coder(digest)
                    depot.add(read)
                    added += sum(len(one.fragments) for one in read)
                if progress is not None:
                    progress(done, total, work.source.id)
        for failure in failures:
            warnings.warn(f"{failure} It is left out.", InputWarning)
        if not len(depot):
            raise InputError("no fragment could be read", "Mend what the warnings tell", path)
        write_search_file(depot, progress)
        return Indexed(len(depot), added)
    finally:
        depot.close()


def code_picture(
    path: str | PathLike[str], wear: Wear, mm_per_px: float | None = None
) -> tuple[str, Coded]:
    """Codes the fragment of one picture, in a process of its own: networks and FAISS bring along
    libraries that do not get on in one process everywhere.

    Returns:
        The digest of the network, and the codes.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError("there is no such picture", "Check the path", path)
    for _, outcome in run_each(
        partial(_read_picture, _Wish(mm_per_px, True, wear)), [file], workers=1, prepare=one_thread
    ):
        if not isinstance(outcome, Died):
            return outcome
    raise InputError("the process that read it died", "Scale the picture down", path)


def _read_picture(wish: _Wish, file: Path) -> tuple[str, Coded]:
    source = PuzzleSource(file.stem, file.parent, "fragments")
    if (file.parent / "data.json").is_file():
        source = replace(source, kind="repair-v2")
        pieces = source.load(mm_per_px=wish.mm_per_px).fragments
        own = [piece for piece in pieces if piece.metadata["filename"] == file.name]
        if not own:
            what = "the puzzle in its folder does not know this picture"
            raise InputError(what, "Add it to data.json, or move it elsewhere", file)
    else:
        own = _some_of(source, (file.name,), wish)
    return coder_digest(wish.wear), code_fragments(own, wish.wear)[0]


def _works(root: Path, mm_per_px: float | None) -> list[_Work]:
    """All there is to read in a folder."""
    sources = puzzles_of(root)
    works: list[_Work] = []
    for source in sources:
        alone = len(sources) == 1 and source.kind == "fragments"
        prefix = "" if alone else f"{source.id}/"
        if source.kind == "fragments" and source.path.is_dir():
            works += _works_of_folder(source, prefix, mm_per_px)
        else:
            works.append(_Work(source, (_unit_of_puzzle(source, mm_per_px),), prefix))
    return works


def _works_of_folder(source: PuzzleSource, prefix: str, mm_per_px: float | None) -> list[_Work]:
    folder = source.path.resolve()
    names = sorted(p.name for p in folder.iterdir() if p.is_file() and is_image_name(p.name))
    names = [name for name in names if not name.startswith(".")]
    units = [
        Unit(
            str(folder / name),
            _stamp(mm_per_px, [folder / name, folder / f"{name}.json", folder / "scale.json"]),
        )
        for name in names
    ]
    return [
        _Work(
            source,
            tuple(units[start : start + TOGETHER]),
            prefix,
            tuple(names[start : start + TOGETHER]),
        )
        for start in range(0, len(names), TOGETHER)
    ]


def _unit_of_puzzle(source: PuzzleSource, mm_per_px: float | None) -> Unit:
    files = [source.path]
    if source.path.is_dir():
        files = [
            file
            for file in sorted(source.path.iterdir())
            if is_image_name(file.name) or file.name in ("data.json", "scale.json")
        ]
    key = str(source.path.resolve())
    return Unit(f"{key}#{source.inside}" if source.inside else key, _stamp(mm_per_px, files))


def _stamp(mm_per_px: float | None, files: Sequence[Path]) -> str:
    """Changes with the names, sizes and times of files, and with the scale they are read at."""
    parts = [str(mm_per_px)]
    for file in files:
        if file.is_file():
            stat = file.stat()
            parts.append(f"{file.name} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _todo(works: Sequence[_Work], there: dict[str, str]) -> list[_Work]:
    """Without what the index has."""
    todo = []
    for work in works:
        new = [k for k, unit in enumerate(work.units) if there.get(unit.key) != unit.stamp]
        if new:
            names = tuple(work.names[k] for k in new) if work.names else ()
            todo.append(replace(work, units=tuple(work.units[k] for k in new), names=names))
    return todo


def _read(wish: _Wish, work: _Work) -> tuple[str, list[Read]] | str:
    """The digest of the network, and what was read; or why nothing could be."""
    try:
        if work.names:
            fragments = _some_of(work.source, work.names, wish)
        else:
            fragments = list(
                work.source.load(mm_per_px=wish.mm_per_px, strict=wish.strict).fragments
            )
    except InputError as problem:
        if wish.strict:
            raise
        return str(problem)
    coded = [
        replace(one, id=work.prefix + one.id) if work.prefix else one
        for one in code_fragments(fragments, wish.wear)
    ]
    place = work.source.path.resolve()
    if work.source.kind == "repair-v1":
        images = place.parents[1] / "2D_Images" / "assembled_objects"
        place = images / work.source.path.stem
    known = [(str(place if place.is_file() else place / one.filename), one) for one in coded]
    if not work.names:
        return coder_digest(wish.wear), [Read(work.units[0], known)]
    by_name = {one.filename: (picture, one) for picture, one in known}
    return coder_digest(wish.wear), [
        Read(unit, [by_name[name]])
        for unit, name in zip(work.units, work.names, strict=True)
        if name in by_name
    ]


def _some_of(source: PuzzleSource, names: Sequence[str], wish: _Wish) -> list[Fragment]:
    """Some pictures of a folder, since all of a depot do not fit into memory at once."""
    return list(source.load(mm_per_px=wish.mm_per_px, strict=wish.strict, only=names).fragments)
