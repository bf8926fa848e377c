"""Joins as files, for people's judgement and for other programs: `joins.csv` and `joins.json`.

Both tell the same and both are read back, whole or with lines taken out, as the joins that a person
accepts or rejects. docs/formats.md describes them.
"""

from __future__ import annotations

import csv
import io
import json
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from reassembly.errors import InputError
from reassembly.io.files import check_whole
from reassembly.pose import Pose
from reassembly.puzzle import Puzzle

if TYPE_CHECKING:
    from reassembly.matching.joins import Join

__all__ = ["COLUMNS", "FORMAT", "VERSION", "joins_csv", "joins_json", "read_joins"]

COLUMNS = (
    "first",
    "second",
    "x_mm",
    "y_mm",
    "rotation_deg",
    "probability",
    "gap_mm",
    "overlap_mm2",
    "contact_mm",
)
NEEDED = COLUMNS[:5]
"""What a join cannot be read without; the rest may be left out by who writes one by hand."""
FORMAT = "reassembly-joins"
VERSION = 1
DECIMALS = 9
LARGEST = 1e9
"""Of any number: beyond it something went wrong."""
SHOWN = 8
"""How many names an error message lists."""


def joins_csv(joins: Iterable[Join]) -> str:
    """A table, one line a join."""
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for join in joins:
        first, second, *figures = _row(join).values()
        table.writerow([first, second, *(repr(round(v, DECIMALS) + 0.0) for v in figures)])
    return text.getvalue()


def joins_json(joins: Iterable[Join], puzzle: Puzzle) -> str:
    """The same as JSON."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "puzzle": puzzle.id,
        "joins": [_row(join) for join in joins],
    }
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _row(join: Join) -> dict[str, Any]:
    pose = join.pose
    values = (
        join.first,
        join.second,
        pose.x_mm,
        pose.y_mm,
        pose.rotation_deg,
        join.probability,
        join.gap_mm,
        join.overlap_mm2,
        join.contact_mm,
    )
    return dict(zip(COLUMNS, values, strict=True))


def read_joins(path: str | PathLike[str], puzzle: Puzzle) -> list[Join]:
    """Joins of a `joins.json` or `joins.csv`, or of a folder that holds the former.

    Reads what a spreadsheet makes of the table: a byte order mark, Windows line ends, other or more
    columns, semicolons with decimal commas. Only the names and the place of a join are needed.
    """
    from reassembly.matching.joins import Join

    file = Path(path)
    file = file / "joins.json" if file.is_dir() else file
    text = _text(file)
    rows = _json_rows(text, file) if text.lstrip()[:1] in "{[" else _csv_rows(text, file)
    names = {_plain(i): i for i in puzzle.ids} | {i: i for i in puzzle.ids}
    joins = []
    for where, row, comma in rows:
        first, second = (
            _piece(row.get(key), key, where, names, puzzle, file) for key in NEEDED[:2]
        )
        if first == second:
            _fail(f"{where} joins {first} to itself", "Name two fragments", file)
        figures = {
            key: _number(row.get(key), key, where, file, comma, needed=key in NEEDED)
            for key in COLUMNS[2:]
        }
        x, y, turn = (figures.pop(key) for key in NEEDED[2:])
        joins.append(Join(first, second, Pose.from_degrees(x, y, turn), **figures))
    return joins


Rows = Sequence[tuple[str, Mapping[str, Any], bool]]
"""Where in the file, the values by column, and whether a comma may be a decimal point."""


def _text(path: Path) -> str:
    check_whole(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        _fail("there is no such file", "Check the path", path)
    except OSError as error:
        why = error.strerror or str(error)
        _fail(f"this cannot be read ({why})", "Name a joins.json or joins.csv", path)
    except UnicodeDecodeError:
        _fail("this is no UTF-8 text", "Name a joins.json or joins.csv", path)
    if not text.strip():
        _fail("the file is empty", f"It should begin with {','.join(COLUMNS)}", path)
    return text


def _json_rows(text: str, path: Path) -> Rows:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        _fail(f"this is no JSON (line {error.lineno}: {error.msg})", "Restore the file", path)
    except (ValueError, RecursionError):
        _fail("this is no JSON", "Name a joins.json", path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        _fail("this is JSON, but holds no joins", f'Name a file with "format": "{FORMAT}"', path)
    version = content.get("version")
    if type(version) is not int or version < 1:
        _fail(f"version is {version!r}", f"It should be {VERSION}", path)
    if version > VERSION:
        _fail(
            f"this is version {version} of the format, and this program knows {VERSION}",
            "Update reassembly (pip install --upgrade reassembly)",
            path,
        )
    rows = content.get("joins")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        _fail("joins is no list of objects", "Restore the file", path)
    return [(f"joins[{k}]", row, False) for k, row in enumerate(rows)]


def _csv_rows(text: str, path: Path) -> Rows:
    delimiter = max(",;\t", key=text.lstrip().splitlines()[0].count)
    table = csv.reader(io.StringIO(text.lstrip(), newline=""), delimiter=delimiter)
    rows: list[tuple[str, Mapping[str, Any], bool]] = []
    columns: list[str] = []
    try:
        for fields in table:
            if not any(field.strip() for field in fields):
                continue
            if columns:
                row = {key: f for key, f in zip(columns, fields, strict=False) if f.strip()}
                rows.append((f"line {table.line_num}", row, delimiter != ","))
                continue
            columns = [field.strip().lower() for field in fields]
            missing = [name for name in NEEDED if name not in columns]
            if missing:
                plural = "s" * (len(missing) > 1)
                expected = f"The first line should be {','.join(COLUMNS)}"
                _fail(f"column{plural} {', '.join(missing)} missing", expected, path)
    except csv.Error as error:
        _fail(f"line {table.line_num} is no line of a table ({error})", "Save it as CSV", path)
    return rows


def _piece(
    value: Any, key: str, where: str, names: Mapping[str, str], puzzle: Puzzle, path: Path
) -> str:
    if not isinstance(value, str) or not value.strip():
        _fail(f"{where}: {key} names no fragment", "Fill it in, or delete the join", path)
    found = names.get(value) or names.get(_plain(value))
    if found is None:
        some = ", ".join(puzzle.ids[:SHOWN]) + ", ..." * (len(puzzle) > SHOWN)
        _fail(
            f"{where}: puzzle {puzzle.id} has no fragment {_plain(value)!r}",
            f"Its fragments are {some}",
            path,
        )
    return found


def _number(value: Any, key: str, where: str, path: Path, comma: bool, needed: bool) -> float:
    if value is None and not needed:
        return 0.0
    if value is None:
        _fail(f"{where}: {key} is missing", "Fill it in, or delete the join", path)
    text = str(value).replace(",", ".") if comma else str(value)
    try:
        number = math.nan if isinstance(value, bool) or "_" in text else float(text)
    except ValueError:
        number = math.nan
    if not abs(number) <= LARGEST:
        shown = str(value).strip()[:40]
        _fail(f"{where}: {key} is {shown!r}, which is no usable number", "Correct it", path)
    return number


def _plain(name: str) -> str:
    """As people mean it: macOS takes letters and accents apart, spreadsheets add spaces."""
    return unicodedata.normalize("NFC", name).strip()


def _fail(what: str, remedy: str, path: Path) -> NoReturn:
    raise InputError(what, remedy, path) from None
