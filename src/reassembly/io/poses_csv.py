"""Poses as RePAIR writes them: a table `rpf,x,y,rot`, one line a fragment.

`rpf` is the name of the fragment's image file, `x` and `y` the pixel at which the top-left corner
of its scan comes to lie after it was turned by `rot` degrees about its centre, counter-clockwise as
seen. See `reassembly.pose` for the convention.

A table knows one size of pixel, the puzzle's (`Puzzle.mm_per_px`, the finest among the fragments).
A fragment that was scanned at another scale counts as if its scan had been resized to that pixel.
"""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from reassembly.errors import InputError
from reassembly.io.files import check_whole
from reassembly.pose import Pose, from_repair, to_repair
from reassembly.puzzle import Puzzle

__all__ = [
    "COLUMNS",
    "PoseRow",
    "poses_csv",
    "poses_of_rows",
    "read_pose_rows",
    "read_poses_csv",
]

COLUMNS = ("rpf", "x", "y", "rot")
DECIMALS = 9
"""Of pixels and degrees: far finer than 1e-6 mm, and free of noise such as 0.30000000000000004."""
LARGEST = 1e9
"""Pixels or degrees; beyond it a number is a slip of the pen."""
IMAGE_SUFFIX = re.compile(r"\.(png|jpe?g|tiff?|webp|hei[cf]|bmp)$", re.IGNORECASE)
SHOWN = 8
"""How many names an error message lists."""


@dataclass(frozen=True, slots=True)
class PoseRow:
    """One line of a table of poses, as it stands there."""

    rpf: str
    x: float
    """Pixels."""
    y: float
    """Pixels."""
    rot: float
    """Degrees, counter-clockwise as seen."""
    line: int
    """Number of the line in the file, from 1."""


def poses_csv(poses: Mapping[str, Pose], puzzle: Puzzle) -> str:
    """The table of `poses` (fragment id to pose), as text with a header and, like RePAIR's, with
    Windows line ends.

    Fragments are called by their `filename` metadata, or by their id where they have none or
    where the file name would be taken for another fragment.
    """
    known = _names(puzzle)
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(COLUMNS)
    for fragment_id, pose in poses.items():
        fragment = puzzle[fragment_id]
        filename = str(fragment.metadata.get("filename", fragment_id))
        name = filename if known.get(filename) == fragment_id else fragment_id
        x, y, rot = to_repair(pose, fragment.frame_px, fragment.mm_per_px)
        scale = fragment.mm_per_px / puzzle.mm_per_px
        table.writerow(
            [name, *(repr(round(v, DECIMALS) + 0.0) for v in (x * scale, y * scale, rot))]
        )
    return text.getvalue()


def read_poses_csv(path: str | PathLike[str], puzzle: Puzzle) -> dict[str, Pose]:
    """Poses by fragment id, from a table whose names are ids, file names or file names without
    their ending, in any order. Fragments of `puzzle` that the table does not name have no pose.

    Reads what `poses_csv` writes, the `.txt` files of RePAIR v1, and what a spreadsheet makes of
    either: a byte order mark, Windows line ends, spaces, other or more columns, semicolons with
    decimal commas.
    """
    return poses_of_rows(read_pose_rows(path), puzzle, path)


def read_pose_rows(path: str | PathLike[str]) -> list[PoseRow]:
    """The lines of a table of poses, in the file's order; needs no fragments."""
    text = _text(path)
    if not text.strip():
        raise InputError("the file is empty", f"It should begin with {','.join(COLUMNS)}", path)
    delimiter = max(",;\t", key=text.lstrip().splitlines()[0].count)
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[PoseRow] = []
    columns: dict[str, int] = {}
    try:
        for fields in table:
            if not any(field.strip() for field in fields):
                continue
            if not columns:
                columns = _columns(fields, path)
            else:
                rows.append(_row(fields, columns, table.line_num, path, comma=delimiter != ","))
    except csv.Error as error:
        what = f"line {table.line_num} is no line of a table ({error})"
        raise InputError(what, "Save it again as CSV", path) from error
    return rows


def poses_of_rows(
    rows: Iterable[PoseRow], puzzle: Puzzle, path: str | PathLike[str] | None = None
) -> dict[str, Pose]:
    """Poses by fragment id: with the frame sizes and the pixel size of `puzzle`.

    Args:
        path: the file to name in errors.
    """
    known = _names(puzzle)
    poses: dict[str, Pose] = {}
    lines: dict[str, int] = {}
    for row in rows:
        fragment_id = _find(row, known, puzzle, path)
        if fragment_id in poses:
            raise InputError(
                f"lines {lines[fragment_id]} and {row.line} both place fragment {fragment_id}",
                "Delete one of them",
                path,
            )
        fragment = puzzle[fragment_id]
        scale = puzzle.mm_per_px / fragment.mm_per_px
        poses[fragment_id] = from_repair(
            row.x * scale, row.y * scale, row.rot, fragment.frame_px, fragment.mm_per_px
        )
        lines[fragment_id] = row.line
    return poses


def _text(path: str | PathLike[str]) -> str:
    check_whole(path)
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise InputError("there is no such file", "Check the path", path) from error
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"this cannot be read ({why})", "Name a table of poses", path) from error
    utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        remedy = "Save the table as CSV with UTF-8 encoding"
        raise InputError("this is no UTF-8 text", remedy, path) from error
    if "\0" in text:
        raise InputError("this is no text", "Name a table of poses", path)
    return text


def _columns(fields: list[str], path: str | PathLike[str]) -> dict[str, int]:
    """The position of each of our columns."""
    names = [field.strip().lower() for field in fields]
    expected = f"The first line should be {','.join(COLUMNS)}"
    if missing := [name for name in COLUMNS if name not in names]:
        s = "s" * (len(missing) > 1)
        raise InputError(f"column{s} {', '.join(missing)} missing", expected, path)
    if twice := [name for name in COLUMNS if names.count(name) > 1]:
        raise InputError(f"there are several columns {', '.join(twice)}", expected, path)
    return {name: names.index(name) for name in COLUMNS}


def _row(
    fields: list[str], columns: dict[str, int], line: int, path: str | PathLike[str], comma: bool
) -> PoseRow:
    if len(fields) <= max(columns.values()):
        raise InputError(
            f"line {line} has only {len(fields)} value{'s' * (len(fields) != 1)}",
            f"Give {', '.join(COLUMNS)} on every line",
            path,
        )
    name = fields[columns["rpf"]]
    if not name.strip():
        raise InputError(f"line {line} names no fragment", "Fill in its rpf, or delete it", path)
    x, y, rot = (
        _number(fields[columns[column]], column, line, path, comma) for column in COLUMNS[1:]
    )
    return PoseRow(name, x, y, rot, line)


def _number(field: str, column: str, line: int, path: str | PathLike[str], comma: bool) -> float:
    """A usable number; `comma` says that a comma may stand for the decimal point."""
    try:
        value = float(field.replace(",", ".") if comma else field)
    except ValueError:
        value = math.nan
    if not abs(value) <= LARGEST or "_" in field:
        what = f"line {line}: {column} is {field.strip()!r}, which is no usable number"
        raise InputError(what, "Correct it, or delete the line to leave the piece unplaced", path)
    return value


def _plain(name: str) -> str:
    """A name as people mean it: macOS takes letters and accents apart, spreadsheets add spaces."""
    return unicodedata.normalize("NFC", name).strip()


def _stem(name: str) -> str:
    """Without an image file's ending; any other dot belongs to the name."""
    return IMAGE_SUFFIX.sub("", _plain(name))


def _names(puzzle: Puzzle) -> dict[str, str]:
    """Everything a fragment may be called, to its id.

    An exact id wins over a file name and that over a stem. What would fit several fragments
    equally well is not there.
    """
    ids = {fragment.id: fragment.id for fragment in puzzle.fragments}
    files = {
        f.id: str(f.metadata["filename"]) for f in puzzle.fragments if "filename" in f.metadata
    }
    known: dict[str, str] = {}
    for change in (str, _plain, _stem):
        for names in (ids, files):
            called = {i: change(name) for i, name in names.items()}
            counts = Counter(called.values())
            for i, name in called.items():
                if counts[name] == 1:
                    known.setdefault(name, i)
    return known


def _find(
    row: PoseRow, known: Mapping[str, str], puzzle: Puzzle, path: str | PathLike[str] | None
) -> str:
    for name in (row.rpf, _plain(row.rpf), _stem(row.rpf)):
        if name in known:
            return known[name]
    some = ", ".join(puzzle.ids[:SHOWN]) + ", ..." * (len(puzzle) > SHOWN)
    raise InputError(
        f"line {row.line}: puzzle {puzzle.id} has no fragment {_plain(row.rpf)!r}",
        f"Its fragments are {some}",
        path,
    )
