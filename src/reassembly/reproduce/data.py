"""Puzzles to measure on: RePAIR, made ones, and data sets that users or other packages add.

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
from reassembly.reproduce.repair import completeness, fragment_count
from reassembly.reproduce.session import Data, Session, titled
from reassembly.synthetic.dataset import generate

__all__ = ["data_named", "own_data_sets"]

TEST_SEED = 9000
"""Of the made puzzles that are measured on; training has others."""


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


def data_named(session: Session, name: str) -> Data | None:
    """Puzzles by name, made if need be; None for RePAIR where it was not given."""
    extent = session.extent
    if name in session.own:
        found = find_puzzles(session.own[name])
        ids = None if extent.own is None else tuple(source.id for source in found[: extent.own])
        count = len(found) if ids is None else len(ids)
        of = "" if count == len(found) else f" of {len(found)}"
        return Data(name, session.own[name], ids, f"{count}{of} puzzles.", True)
    if name == REPAIR:
        repair = session.repair
        if repair is None:
            return None
        ids = repair.measured
        if extent.repair is not None and len(ids) > extent.repair:
            sizes = {s.id: fragment_count(s) for s in repair.sources if s.id in ids}
            ids = tuple(sorted(ids, key=lambda i: (sizes[i], i))[: extent.repair])
        note = f"RePAIR: given are {completeness(repair)}. Measured on {len(ids)} of them."
        fragments = sum(fragment_count(s) for s in repair.sources if s.id in ids)
        return Data(name, repair.path, ids, note, False, fragments)
    folder = session.out / "data" / f"{name}-{extent.puzzles}"
    generate(
        folder,
        count=extent.puzzles,
        seed=TEST_SEED,
        preset=name,
        pieces=extent.pieces,
        size_px=extent.size_px,
        workers=session.workers,
        resume=True,
        progress=titled(session.progress, f"making {name}"),
    )
    command = f"reassembly generate --preset {name} --count {extent.puzzles} --seed {TEST_SEED}"
    if extent.pieces:
        command += f" --pieces {extent.pieces[0]}-{extent.pieces[1]} --size {extent.size_px}"
    return Data(name, folder, None, f"{extent.puzzles} made puzzles: `{command}`.", True)
