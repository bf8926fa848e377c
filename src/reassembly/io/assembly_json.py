"""assembly.json: an assembly as a documented, versioned file that loads back equal.

The schema is described in docs/formats.md and, for machines, in docs/assembly.schema.json.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

from reassembly.errors import InputError, InputWarning
from reassembly.io.files import check_whole
from reassembly.pose import Pose, wrap_deg
from reassembly.puzzle import Assembly, Provenance, Puzzle

__all__ = ["FILE_NAME", "FORMAT", "VERSION", "assembly_to_json", "load_assembly"]

FORMAT = "reassembly-assembly"
VERSION = 1
FILE_NAME = "assembly.json"
DEGREES_TOLERANCE = 1e-6
"""How far `rotation_deg`, which is for people, may be from `rotation_rad`, which is loaded."""
LARGEST = 1e9
"""Of any length (mm) and angle (radians): beyond it something went wrong."""
SHOWN = 8
"""How many names an error message lists."""


def assembly_to_json(assembly: Assembly) -> str:
    """The assembly, which must have its puzzle, as text."""
    puzzle = assembly.puzzle
    if puzzle is None:
        raise ValueError("an assembly without its puzzle cannot be saved")
    provenance = assembly.provenance
    _check_json(dict(provenance.settings), "settings")
    for i, pose in assembly.poses.items():
        if max(abs(pose.x_mm), abs(pose.y_mm), abs(pose.rotation_rad)) > LARGEST:
            raise InputError(f"fragment {i} lies beyond all measure, at {pose}", "Solve again")
    placed = [
        _entry(assembly, i, number, pose)
        for number, island in enumerate(assembly.islands, start=1)
        for i, pose in island.items()
    ]
    content = {
        "format": FORMAT,
        "version": VERSION,
        "puzzle": puzzle.id,
        "fragments": placed + [_entry(assembly, i, None, None) for i in assembly.unplaced],
        "provenance": {
            "solver": provenance.solver,
            "version": provenance.version,
            "seed": None if provenance.seed is None else int(provenance.seed),
            "settings": dict(provenance.settings),
        },
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def load_assembly(path: str | PathLike[str], puzzle: Puzzle | None = None) -> Assembly:
    """Reads an `assembly.json`, or the folder that holds one.

    Args:
        puzzle: the fragments, to draw or save the assembly again; it must have the same ids.
    """
    path = Path(path)
    path = path / FILE_NAME if path.is_dir() else path
    check_whole(path)
    reader = _Reader(path)
    content = reader.content()
    islands: dict[int, dict[str, Pose]] = {}
    unplaced: list[str] = []
    confidence: dict[str, float] = {}
    sizes: dict[str, tuple[tuple[int, int], float]] = {}
    for k, entry in enumerate(reader.list_of(content, "fragments")):
        where = f"fragments[{k}]"
        if not isinstance(entry, dict):
            reader.fail(f"{where} is no object", "Restore the file")
        i = reader.text(entry, "id", where)
        if i in sizes:
            reader.fail(f"{where}.id: {i!r} is there twice", "Delete one of the two")
        sizes[i] = reader.frame(entry, where), reader.number(entry, "mm_per_px", where, 1e-9)
        number = reader.island(entry, where)
        if number is None:
            unplaced.append(i)
            continue
        islands.setdefault(number, {})[i] = reader.pose(entry, where)
        if reader.value(entry, "confidence", where) is not None:
            confidence[i] = reader.number(entry, "confidence", where, lowest=0.0, highest=1.0)
    if puzzle is not None:
        _check_puzzle(sizes, puzzle, path)
    return Assembly(
        islands=tuple(islands[number] for number in sorted(islands)),
        unplaced=tuple(unplaced),
        confidence=confidence,
        provenance=reader.provenance(content),
        puzzle=puzzle,
    )


def _entry(assembly: Assembly, i: str, island: int | None, pose: Pose | None) -> dict[str, Any]:
    assert assembly.puzzle is not None
    fragment = assembly.puzzle[i]
    filename = fragment.metadata.get("filename")
    sure = assembly.confidence.get(i)
    return {
        "id": i,
        "filename": None if filename is None else str(filename),
        "frame_px": [int(side) for side in fragment.frame_px],
        "mm_per_px": float(fragment.mm_per_px),
        "island": island,
        "x_mm": None if pose is None else pose.x_mm,
        "y_mm": None if pose is None else pose.y_mm,
        "rotation_deg": None if pose is None else pose.rotation_deg,
        "rotation_rad": None if pose is None else pose.rotation_rad,
        "confidence": None if sure is None else float(sure),
    }


def _check_json(value: Any, name: str, path: Path | None = None) -> None:
    """Only what comes back from JSON as it went in: no tuples, no paths, no NumPy numbers."""
    kind = type(value)
    if kind is dict:
        for key, inner in value.items():
            if type(key) is not str:
                raise InputError(f"{name} has the key {key!r}", "Use texts as keys", path)
            _check_json(inner, f"{name}.{key}", path)
    elif kind is list:
        for k, inner in enumerate(value):
            _check_json(inner, f"{name}[{k}]", path)
    elif kind not in (str, int, float, bool, type(None)) or (
        kind is float and not math.isfinite(value)
    ):
        shown = repr(value) if kind is float else f"a {kind.__name__}"
        remedy = "Use numbers, texts, lists, dicts, True, False or None"
        raise InputError(f"{name} is {shown}, which JSON cannot hold", remedy, path)


def _check_puzzle(
    sizes: Mapping[str, tuple[tuple[int, int], float]], puzzle: Puzzle, path: Path
) -> None:
    missing = [i for i in puzzle.ids if i not in sizes]
    if unknown := [i for i in sizes if i not in puzzle.ids]:
        raise InputError(
            f"puzzle {puzzle.id} has no fragment {_some(unknown)}",
            "Load the fragments that this assembly was made of",
            path,
        )
    if missing:
        raise InputError(
            f"it says nothing of {_some(missing)} of puzzle {puzzle.id}",
            "Load the fragments that this assembly was made of",
            path,
        )
    if other := [
        f.id
        for f in puzzle.fragments
        if sizes[f.id][0] != f.frame_px or not math.isclose(sizes[f.id][1], f.mm_per_px)
    ]:
        warnings.warn(
            f"{path}: the pictures of {_some(other)} have another size or scale than when this "
            "assembly was made, so their poses may be wrong",
            InputWarning,
            stacklevel=3,
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + ", ..." * (len(names) > SHOWN)


class _Reader:
    """Looks values up in a file, and says which one is wrong."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fail(self, what: str, remedy: str) -> NoReturn:
        raise InputError(what, remedy, self.path) from None

    def content(self) -> dict[str, Any]:
        """The whole file, once it is known to be one of ours, of a version we can read."""
        try:
            text = self.path.read_bytes().decode("utf-8-sig")
            content = json.loads(text)
        except FileNotFoundError:
            self.fail("there is no such file", "Check the path")
        except OSError as error:
            self.fail(f"this cannot be read ({error.strerror or error})", "Check the path")
        except json.JSONDecodeError as error:
            self.fail(
                f"this is no JSON (line {error.lineno}: {error.msg})", "Correct or restore the file"
            )
        except (ValueError, RecursionError):
            self.fail("this is no JSON in UTF-8", "Name an assembly.json")
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            self.fail("this is JSON, but no assembly", f'Name a file with "format": "{FORMAT}"')
        version = content.get("version")
        if type(version) is not int or version < 1:
            self.fail(f"version is {version!r}", f"It should be {VERSION}")
        if version > VERSION:
            self.fail(
                f"this is version {version} of the format, and this program knows {VERSION}",
                "Update reassembly (pip install --upgrade reassembly)",
            )
        self.text(content, "puzzle")
        return content

    def value(self, holder: Mapping[str, Any], key: str, where: str = "") -> Any:
        if key not in holder:
            self.fail(f"{_at(where, key)} is missing", "Restore the file")
        return holder[key]

    def text(self, holder: Mapping[str, Any], key: str, where: str = "") -> str:
        value = self.value(holder, key, where)
        if not isinstance(value, str):
            self.fail(f"{_at(where, key)} is no text", "Correct it")
        return value

    def list_of(self, holder: Mapping[str, Any], key: str, where: str = "") -> list[Any]:
        value = self.value(holder, key, where)
        if not isinstance(value, list):
            self.fail(f"{_at(where, key)} is no list", "Correct it")
        return value

    def number(
        self,
        holder: Mapping[str, Any],
        key: str,
        where: str,
        lowest: float = -LARGEST,
        highest: float = LARGEST,
    ) -> float:
        value = self.value(holder, key, where)
        if type(value) not in (int, float) or not lowest <= value <= highest:
            self.fail(
                f"{_at(where, key)} is {str(value)[:40]}",
                f"It should be a number from {lowest:g} to {highest:g}",
            )
        return float(value)

    def frame(self, entry: Mapping[str, Any], where: str) -> tuple[int, int]:
        sides = self.list_of(entry, "frame_px", where)
        if len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides):
            self.fail(f"{_at(where, 'frame_px')} is {sides}", "It should be [width, height]")
        return sides[0], sides[1]

    def island(self, entry: Mapping[str, Any], where: str) -> int | None:
        number = self.value(entry, "island", where)
        if number is not None and (type(number) is not int or number < 1):
            shown = str(number)[:40]
            self.fail(f"{_at(where, 'island')} is {shown}", "It should be 1, 2, ... or null")
        return None if number is None else int(number)

    def pose(self, entry: Mapping[str, Any], where: str) -> Pose:
        x, y, turn = (self.number(entry, key, where) for key in ("x_mm", "y_mm", "rotation_rad"))
        pose = Pose(x, y, turn)
        degrees = self.number(entry, "rotation_deg", where)
        if not abs(wrap_deg(degrees - pose.rotation_deg)) <= DEGREES_TOLERANCE:
            self.fail(
                f"{where}: rotation_deg is {degrees:g}, but rotation_rad is "
                f"{pose.rotation_deg:g} degrees",
                "Change both or neither; rotation_rad is the one that counts",
            )
        return pose

    def provenance(self, content: Mapping[str, Any]) -> Provenance:
        found, where = self.value(content, "provenance"), "provenance"
        if not isinstance(found, dict):
            self.fail(f"{where} is no object", "Restore the file")
        seed = self.value(found, "seed", where)
        if seed is not None and type(seed) is not int:
            self.fail(f"{where}.seed is {str(seed)[:40]}", "It should be a whole number or null")
        settings = self.value(found, "settings", where)
        if not isinstance(settings, dict):
            self.fail(f"{where}.settings is no object", "Restore the file")
        try:
            _check_json(settings, f"{where}.settings", self.path)
        except RecursionError:
            self.fail(f"{where}.settings is too deep", "Restore the file")
        return Provenance(
            self.text(found, "solver", where), self.text(found, "version", where), seed, settings
        )


def _at(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
