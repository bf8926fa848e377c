"""Finds the prediction for each puzzle, in memory or among files from anyone's code."""

from __future__ import annotations

import json
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path

from reassembly.errors import InputError, InputWarning
from reassembly.puzzle import Assembly, Puzzle

__all__ = ["paired"]

ASSEMBLY, TABLE, MORE_TABLES = "assembly.json", "poses.csv", "poses-island-*.csv"
"""What a saved assembly's folder holds."""
SHOWN = 8
"""How many names a message lists."""


@dataclass(frozen=True)
class _Source:
    """A puzzle that is loaded when its turn comes."""

    id: str
    load: Callable[[], Puzzle]


def paired(
    prediction: Assembly | str | PathLike[str],
    truth: Puzzle | Sequence[Puzzle] | str | PathLike[str],
) -> Iterator[tuple[Puzzle, Assembly | None]]:
    """Each puzzle with its prediction, loaded one by one; None where a folder has none for it."""
    sources = _sources(truth)
    if isinstance(prediction, Assembly):
        ids = {*prediction.poses, *prediction.unplaced}
        names = [prediction.puzzle.id] if prediction.puzzle else []
        yield _chosen(sources, names, lambda puzzle: ids == set(puzzle.ids)), prediction
        return
    path = Path(prediction)
    if not path.exists():
        raise InputError("there is no such file or folder", "Check the path", path)
    if not path.is_dir():
        yield _from_file(path, sources)
    elif saved := _saved(path):
        yield _from_file(saved, sources, whole_folder=True)
    else:
        yield from _from_folder(path, sources)


def _sources(truth: Puzzle | Sequence[Puzzle] | str | PathLike[str]) -> list[_Source]:
    if isinstance(truth, str | PathLike):
        from reassembly.io import find_puzzles

        sources = [_Source(found.id, found.load) for found in find_puzzles(truth)]
    else:
        puzzles = [truth] if isinstance(truth, Puzzle) else truth
        sources = [_Source(puzzle.id, partial(_itself, puzzle)) for puzzle in puzzles]
    if not sources:
        raise InputError("there is no puzzle to measure against", "Name puzzles with true poses")
    return sources


def _itself(puzzle: Puzzle) -> Puzzle:
    return puzzle


def _chosen(
    sources: list[_Source],
    names: list[str],
    fits: Callable[[Puzzle], bool],
    path: Path | None = None,
) -> Puzzle:
    """The puzzle that a single prediction is for: the only one, one of these names, or the only
    one that it fits."""
    if len(sources) == 1:
        return sources[0].load()
    for name in names:
        for source in sources:
            if _plain(source.id) == _plain(name):
                return source.load()
    fitting = [puzzle for source in sources if fits(puzzle := source.load())]
    if len(fitting) == 1:
        return fitting[0]
    problem = "fits several of the puzzles" if fitting else "belongs to none of the puzzles"
    ids = [puzzle.id for puzzle in fitting] or [source.id for source in sources]
    raise InputError(
        f"the prediction {problem}", f"Name its file after its puzzle: {_some(ids)}", path
    )


def _from_file(
    path: Path, sources: list[_Source], *, whole_folder: bool = False
) -> tuple[Puzzle, Assembly]:
    """The puzzle that a file is about, and what the file says.

    Args:
        whole_folder: read the tables of further islands beside a poses.csv, too.
    """
    names = [path.stem, path.absolute().parent.name]
    if path.suffix.lower() == ".json":
        from reassembly.io.assembly_json import load_assembly

        found = load_assembly(path)
        names.insert(0, json.loads(path.read_text(encoding="utf-8-sig"))["puzzle"])
        ids = {*found.poses, *found.unplaced}
        puzzle = _chosen(sources, names, lambda puzzle: ids == set(puzzle.ids), path)
    else:
        from reassembly.io.poses_csv import poses_of_rows, read_pose_rows

        rows = read_pose_rows(path)

        def fits(puzzle: Puzzle) -> bool:
            try:
                return bool(poses_of_rows(rows, puzzle))
            except InputError:
                return False

        puzzle = _chosen(sources, names, fits, path)
    return puzzle, _read(path, puzzle, whole_folder=whole_folder)


def _from_folder(folder: Path, sources: list[_Source]) -> Iterator[tuple[Puzzle, Assembly | None]]:
    from reassembly.io.files import check_whole

    check_whole(folder, within=True)
    # In depth, since puzzles of the same name are told apart by their folders: train/a, test/a.
    files = {_plain(p.relative_to(folder).as_posix()): p for p in sorted(folder.rglob("*"))}
    chosen: dict[str, Path] = {}
    for source in sources:
        # An id may be a path, where several puzzles have the same name.
        tried: list[Path | None] = [
            files.get(_plain(source.id) + ending, folder / f"{source.id}{ending}")
            for ending in (".json", ".csv", ".txt")
        ]
        tried.append(_saved(files.get(_plain(source.id), folder / source.id)))
        if found := [path for path in tried if path is not None and path.is_file()]:
            chosen[source.id] = found[0]
    missing = [source.id for source in sources if source.id not in chosen]
    if not chosen:
        raise InputError(
            "there is no prediction for any of the puzzles in this folder",
            f"Name its files after the puzzles, such as {missing[0]}.csv; the puzzles are "
            f"{_some(missing)}",
            folder,
        )
    if missing:
        warnings.warn(
            f"{folder}: there is no prediction for {_some(missing)}; everything in "
            f"{'it' if len(missing) == 1 else 'them'} counts as unplaced",
            InputWarning,
        )
    for source in sources:
        puzzle, path = source.load(), chosen.get(source.id)
        whole = path is not None and path.name == TABLE
        yield puzzle, None if path is None else _read(path, puzzle, whole_folder=whole)


def _saved(folder: Path) -> Path | None:
    """The file to read in the folder of a saved assembly. Of the two, assembly.json says more."""
    return next((folder / n for n in (ASSEMBLY, TABLE) if (folder / n).is_file()), None)


def _read(path: Path, puzzle: Puzzle, *, whole_folder: bool) -> Assembly:
    if path.suffix.lower() == ".json":
        from reassembly.io.assembly_json import load_assembly

        return load_assembly(path, puzzle)
    from reassembly.io.poses_csv import read_poses_csv

    tables = [path, *(sorted(path.parent.glob(MORE_TABLES)) if whole_folder else [])]
    islands = [read_poses_csv(table, puzzle) for table in tables]
    placed = [i for island in islands for i in island]
    if twice := sorted({i for i in placed if placed.count(i) > 1}):
        raise InputError(
            f"several tables place {_some(twice)}", "Delete it from all but one", path.parent
        )
    if absent := [i for i in puzzle.ids if i not in placed]:
        warnings.warn(
            f"{path}: there is no line for {_some(absent)}, which "
            f"{'counts' if len(absent) == 1 else 'count'} as unplaced",
            InputWarning,
        )
    return Assembly.of(puzzle, *islands)


def _plain(name: str) -> str:
    """The same name however a file system spells its accents."""
    return unicodedata.normalize("NFC", name)


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + ", ..." * (len(names) > SHOWN)
