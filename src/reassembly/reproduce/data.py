"""Data sets that users or other packages add, to be measured by the same tables.

A package adds one by an entry point in the group `reassembly.datasets` that points to a function
without arguments which returns a folder of puzzles with true poses.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from os import PathLike
from pathlib import Path

from reassembly.errors import InputError, InputWarning
from reassembly.io.readers import find_puzzles
from reassembly.reproduce.paper import MADE, REPAIR

__all__ = ["own_data_sets"]


def own_data_sets(given: Sequence[str | PathLike[str]] = ()) -> dict[str, Path]:
    """Folders of puzzles by name: those given, called by their last folder, and those of packages.

    A package's that cannot be used is left out with a warning.

    Raises:
        InputError: where one that was given holds no puzzles with true poses, or two have a name.
    """
    found: dict[str, Path] = {}
    for path in map(Path, given):
        name = path.resolve().name
        if name in (*MADE, REPAIR, *found):
            raise InputError(
                f"there is a data set {name!r} already", "Give its folder another name", path
            )
        _check(path)
        found[name] = path
    for entry in sorted(entry_points(group="reassembly.datasets"), key=lambda e: e.name):
        if entry.name not in (*MADE, REPAIR, *found) and (folder := _loaded(entry)) is not None:
            found[entry.name] = folder
    return found


def _check(path: Path) -> None:
    if any(source.kind == "fragments" for source in find_puzzles(path)):
        raise InputError(
            "its puzzles have no true poses to measure against",
            "Give each a data.json with pixel_position and rotation (docs/formats.md)",
            path,
        )


def _loaded(entry: EntryPoint) -> Path | None:
    try:
        folder = Path(entry.load()())
        _check(folder)
    except Exception as error:
        warnings.warn(
            f"the data set {entry.name!r} ({entry.value}) is left out: {error}", InputWarning
        )
        return None
    return folder
