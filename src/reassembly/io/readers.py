"""Puzzles from folders and zip files of any layout, found and told apart by what they hold.

Zip files come from anywhere: every entry is checked before the first is read, and nothing is ever
unpacked to disk.
"""

from __future__ import annotations

import json
import os
import re
import stat
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.errors import InputError, InputWarning
from reassembly.io.files import MERGE, check_output_folder, check_whole, output_folder
from reassembly.io.images import MAX_FILE_BYTES, Picture, is_image_name, read_image
from reassembly.io.poses_csv import read_pose_rows
from reassembly.io.segment import Piece, find_pieces, segment_many
from reassembly.pose import from_repair
from reassembly.puzzle import Fragment, Puzzle

__all__ = ["REPAIR_MM_PER_PX", "PuzzleSource", "cut_out", "find_puzzles", "load"]

REPAIR_MM_PER_PX = 0.1357
"""Scale of RePAIR's scans, which no file of theirs tells. Also assumed, with a warning, where
nothing is known."""
PLAUSIBLE_MM_PER_PX = (1e-4, 100.0)
INSIDE = 128
"""Alpha from which on a pixel belongs to the fragment."""
MIN_AREA_PX = 100
"""Anything smaller is a speck, not a fragment."""
SECOND_PART = 0.05
"""Share of a fragment's area from which on a second part is worth a warning."""
SEVERAL_PARTS = (
    "this picture shows several separate parts, and only the largest is taken; for several "
    "pieces in one picture, use `reassembly cutout`"
)
LIKELY_SHARE = 0.005
"""A piece that covers less of its photograph is probably none."""
SPLITS = ("train", "test", "val", "validation")
MAX_MEMBERS, MAX_ZIP_BYTES, MAX_RATIO, HARMLESS_BYTES = 20_000, 16 << 30, 100, 64 << 20
"""Of a zip: files, bytes unpacked, bytes unpacked for each one packed (pictures are packed
already), and how much may be unpacked at any ratio."""

LoadProgress = Callable[[int, int, str], None]
"""Called with (files read, files in all, name)."""


@dataclass(frozen=True)
class PuzzleSource:
    """Where a puzzle is; its pictures are read by `load`."""

    id: str
    path: Path
    """The puzzle's folder, its zip file, or the table of poses of a RePAIR v1 object."""
    kind: str
    """`repair-v2` (a data.json), `repair-v1` or `fragments`."""
    split: str | None = None
    """`train`, `test`, ... where a folder above the puzzle is called so."""
    inside: str = ""
    """Within a zip file: the folder."""

    def load(
        self,
        *,
        mm_per_px: float | None = None,
        strict: bool = False,
        progress: LoadProgress | None = None,
        only: Sequence[str] | None = None,
    ) -> Puzzle:
        """Reads the pictures; other arguments as of `reassembly.load`.

        Args:
            only: of the kind `fragments`, the names of the pictures to read, and no others.
        """
        reading = _Reading(mm_per_px, strict, progress, only)
        if mm_per_px is not None:
            _check_scale(mm_per_px, None, "the scale")
        if self.kind == "repair-v1":
            return _load_v1(self, reading)
        loader = _load_v2 if self.kind == "repair-v2" else _load_plain
        if not self.path.is_file():
            return loader(self, _Folder(self.path), reading)
        with _Zip(self.path, self.inside) as files:
            return loader(self, files, reading)

    def read_zipped(self, name: str) -> bytes:
        """One of the files of a puzzle that is in a zip."""
        with _Zip(self.path, self.inside) as files:
            if not files.has(name):
                raise InputError("this file is missing", "Pack it again", files.label(name))
            return files.read(name)


@dataclass(frozen=True)
class _Reading:
    mm_per_px: float | None
    strict: bool
    progress: LoadProgress | None
    only: Sequence[str] | None = None


def load(
    path: str | PathLike[str],
    *,
    mm_per_px: float | None = None,
    strict: bool = False,
    progress: LoadProgress | None = None,
) -> Puzzle:
    """Reads one puzzle: a folder or zip of cut-outs or of photographs on a plain ground, or a
    RePAIR puzzle of either release.

    The scale is, in this order: `mm_per_px`; that in `data.json`; a sidecar `scale.json`
    (`{"mm_per_px": 0.1}` or `{"mm_per_px": {"a.png": 0.1}}`) or `a.png.json`; RePAIR's for RePAIR's
    layouts; the file's own resolution, unless it is a mere default (72 or 96 dpi, or up to 1) or
    a camera's, which know no lengths on the object. Else 0.1357 mm is assumed, with a warning;
    `metadata["scale"]` of the puzzle says which it was: `option`, `data.json`, `sidecar`,
    `repair`, `dpi` or `assumed`.

    A picture with a transparent ground is a cut-out, any other a photograph, whose piece is found
    by the plain ground around it. Of several parts the largest counts.

    Args:
        path: what to read; see `find_puzzles` for a folder of several.
        mm_per_px: scale of the pictures, over what files say.
        strict: let one unreadable file be an error. Otherwise it is left out with a warning.
        progress: called after each picture.
    """
    sources = find_puzzles(path)
    if len(sources) > 1:
        some = ", ".join(source.id for source in sources[:3])
        raise InputError(
            f"this holds {len(sources)} puzzles ({some}, ...)",
            "Name the folder of one of them, or go through reassembly.find_puzzles(path)",
            path,
        )
    return sources[0].load(mm_per_px=mm_per_px, strict=strict, progress=progress)


def find_puzzles(path: str | PathLike[str]) -> list[PuzzleSource]:
    """Every puzzle at or under `path`, sorted, without reading a picture.

    Puzzles are found by their `data.json` under any folder name, or by RePAIR v1's
    `2D_Ground_Truth`; where there is neither, the folder or zip itself is one puzzle. Ids are
    the puzzles' own, or their paths under `path`, with slashes, where several have the same.
    """
    root = Path(path)
    if not root.exists():
        raise InputError("there is no such file or folder", "Check the path", path)
    check_whole(root)
    try:
        sources = _in_file(root) if root.is_file() else _in_folder(root)
    except OSError as error:
        what = f"this cannot be read ({error.strerror or error})"
        raise InputError(what, "Check its permissions", path) from error
    if len(sources) == 1:
        return sources
    # Without regard to case, since ids become file names.
    often = Counter(source.id.casefold() for source in sources)
    by_path = [replace(source, id=_relative_name(source, root)) for source in sources]
    named = [
        other if often[source.id.casefold()] > 1 else source
        for source, other in zip(sources, by_path, strict=True)
    ]
    if len({source.id.casefold() for source in named}) < len(named):
        named = by_path
    return sorted(named, key=lambda source: (str(source.path), source.inside))


def _in_file(path: Path) -> list[PuzzleSource]:
    if path.name == "data.json":
        return [_v2_source(_Folder(path.parent), path.parent)[0]]
    suffix = path.suffix.lower()
    if suffix == ".txt":
        return [PuzzleSource(path.stem, path, "repair-v1", _split(path))]
    if suffix == ".zip" or zipfile.is_zipfile(path):
        return _in_zip(path)
    if is_image_name(path.name):
        raise InputError(
            "this is one picture, and a puzzle is a folder of them",
            "Give the folder; a photograph of many pieces goes through `reassembly cutout` first",
            path,
        )
    raise InputError("this is no puzzle", "Give a folder or a zip of pictures", path)


def _in_zip(path: Path) -> list[PuzzleSource]:
    sources = []
    with _Zip(path) as files:
        names = files.names()
        for name in names:
            if PurePosixPath(name).name == "data.json":
                inside = name.removesuffix("data.json").rstrip("/")
                source, ours = _v2_source(files, path, inside)
                if ours or not inside:
                    sources.append((ours, source))
    if sources:
        return [source for ours, source in sources if ours] or [sources[0][1]]
    return [PuzzleSource(path.stem, path, "fragments", _split(path), _picture_folder(names, path))]


def _in_folder(root: Path) -> list[PuzzleSource]:
    if (table := _v1_table_of(root)) is not None:
        return [PuzzleSource(table.stem, table, "repair-v1", _split(table))]
    sources, pictures, seen = [], [], set()
    for folder, folders, names in os.walk(root, followlinks=True):
        here = Path(folder)
        if (real := os.path.realpath(folder)) in seen:  # A link that leads back up.
            folders.clear()
            continue
        seen.add(real)
        if MERGE in folders:
            check_whole(here)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        pictures += [
            (here / name).relative_to(root).as_posix()
            for name in names
            if is_image_name(name) and not name.startswith(".")
        ]
        if "data.json" in names:
            source, ours = _v2_source(_Folder(here), here)
            if ours or here == root:
                sources.append((ours, source))
        if here.name == "2D_Ground_Truth":
            sources += [
                (True, PuzzleSource(Path(name).stem, here / name, "repair-v1", _split(here)))
                for name in sorted(names)
                if name.lower().endswith(".txt")
            ]
    if sources:
        # Another program's data.json is passed over, unless it is all there is to complain about.
        return [source for ours, source in sources if ours] or [sources[0][1]]
    where = root / _picture_folder(pictures, root)
    return [PuzzleSource(root.resolve().name, where, "fragments", _split(root))]


def _v2_source(files: _Files, path: Path, inside: str = "") -> tuple[PuzzleSource, bool]:
    """The puzzle of a data.json, and whether it is one, and not another program's.

    A data.json that cannot be read passes for a puzzle, so that loading it tells why.
    """
    place = (path.with_suffix("") if path.is_file() else path.resolve()) / inside
    name = f"{inside}/data.json" if inside else "data.json"
    try:
        document = _json(files.read(name), files.label(name))
    except InputError:
        return PuzzleSource(place.name, path, "repair-v2", _split(place), inside), True
    ours = isinstance(document, dict) and "fragments" in document
    known = document.get("original_id") if ours else None
    # Ids become file names.
    usable = isinstance(known, str) and re.fullmatch(r"[^/\\:*?\"<>|]{1,100}", known)
    title = str(known).strip(". ") if usable and str(known).isprintable() else ""
    return PuzzleSource(title or place.name, path, "repair-v2", _split(place), inside), ours


def _split(path: Path) -> str | None:
    names = [parent.name for parent in path.resolve().parents]
    return next((name for name in names[:2] if name in SPLITS), None)


def _v1_table_of(folder: Path) -> Path | None:
    """The table of poses of a RePAIR v1 object, given the folder of its pictures."""
    full = folder.resolve()
    if len(full.parents) < 3 or full.parent.name != "assembled_objects":
        return None
    table = full.parents[2] / "2D_Ground_Truth" / f"{full.name}.txt"
    return table if table.is_file() else None


def _relative_name(source: PuzzleSource, root: Path) -> str:
    at = source.path.with_suffix("") if source.kind == "repair-v1" else source.path
    relative = at.relative_to(root).as_posix() if at != root else ""
    return "/".join(part for part in (relative, source.inside) if part) or source.id


def _picture_folder(names: Sequence[str], path: Path) -> str:
    """Where the pictures are, given all files: at the top, or in the only folder that has any."""
    folders = {str(PurePosixPath(name).parent) for name in names if is_image_name(name)}
    if "." in folders:
        if inner := sorted(folders - {"."}):
            warnings.warn(
                f"{path}: pictures in its folders ({', '.join(inner[:3])}) are left out, since "
                "there are others beside them; put all pieces of a puzzle into one folder",
                InputWarning,
            )
        return ""
    if len(folders) == 1:
        return folders.pop()
    if folders:
        some = ", ".join(sorted(folders)[:3])
        what = f"there are pictures in several of its folders ({some}, ...)"
        raise InputError(what, "Name one of them, or put all pictures into one", path)
    raise InputError(
        "there is no picture in it",
        "Give a folder or zip of PNG, JPEG, TIFF, WebP or HEIC pictures, or of puzzles",
        path,
    )


class _Folder:
    """The files directly in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def label(self, name: str) -> Path:
        return self.path / name

    def names(self) -> list[str]:
        return sorted(
            p.name for p in self.path.iterdir() if p.is_file() and not p.name.startswith(".")
        )

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def read(self, name: str) -> bytes:
        try:
            if (self.path / name).stat().st_size > MAX_FILE_BYTES:
                raise _too_large(self.label(name))
            return (self.path / name).read_bytes()
        except OSError as error:
            what = f"this file cannot be read ({error.strerror or error})"
            raise InputError(
                what, "Check the path and its permissions", self.label(name)
            ) from error


class _Zip:
    """The files of a zip, or of one folder in it, read in memory."""

    def __init__(self, path: Path, inside: str = "") -> None:
        self.path, self.inside = path, inside
        try:
            self._archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError, RuntimeError) as error:
            what = "this zip file is damaged or none"
            raise InputError(what, "Pack it again", path) from error
        try:
            self._members = self._checked_members(self._archive.infolist())
        except InputError:
            self._archive.close()
            raise

    def __enter__(self) -> _Zip:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def _checked_members(self, members: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
        packed = sum(m.compress_size for m in members)
        unpacked = sum(m.file_size for m in members)
        if (
            len(members) > MAX_MEMBERS
            or unpacked > MAX_ZIP_BYTES
            or (unpacked > HARMLESS_BYTES and unpacked > MAX_RATIO * packed)
        ):
            raise InputError(
                f"this zip file would unpack to {unpacked / 2**20:.0f} MB in {len(members)} files "
                "and looks like a trap",
                "Unpack it yourself if you trust it, and give the folder",
                self.path,
            )
        files: dict[str, zipfile.ZipInfo] = {}
        for member in members:
            name = self._checked(member)
            if name in files:
                raise InputError(f"it holds {name!a} twice", "Pack it again", self.path)
            if name is not None:
                files[name] = member
        return files

    def _checked(self, member: zipfile.ZipInfo) -> str | None:
        """The member's name, None if it is not for us; an error if it is not harmless."""
        name = member.filename.replace("\\", "/")
        parts = PurePosixPath(name).parts
        # Both, since `filename` ends where a zero character hides the rest.
        if (
            name.startswith("/")
            or ".." in parts
            or re.match(r"[A-Za-z]:", name)
            or ("\0" in member.orig_filename)
        ):
            what = f"it holds a file with a path that leads out of it: {member.orig_filename!a}"
            raise InputError(what, "Pack the pictures again, without paths", self.path)
        if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            what = f"it holds a link or another special file: {member.filename!a}"
            raise InputError(what, "Pack the pictures themselves", self.path)
        if member.flag_bits & 1:
            raise InputError("it is encrypted", "Pack it without a password", self.path)
        if not parts or member.is_dir():
            return None
        if any(part.startswith(".") or part == "__MACOSX" for part in parts):
            return None
        return "/".join(parts)

    def label(self, name: str) -> Path:
        return self.path / self.inside / name

    def names(self) -> list[str]:
        """Of the files under `inside`, relative to it."""
        prefix = f"{self.inside}/" if self.inside else ""
        return sorted(n[len(prefix) :] for n in self._members if n.startswith(prefix))

    def has(self, name: str) -> bool:
        return self._full(name) in self._members

    def read(self, name: str) -> bytes:
        member = self._members[self._full(name)]
        limit = min(member.file_size, MAX_FILE_BYTES)
        try:
            with self._archive.open(member) as file:
                # One byte more than announced tells an announcement that lies.
                data = file.read(limit + 1)
        # Each way of packing has its own errors.
        except Exception as error:
            what = "this file in the zip is damaged"
            raise InputError(what, "Pack it again", self.label(name)) from error
        if len(data) > limit:
            raise _too_large(self.label(name))
        return data

    def _full(self, name: str) -> str:
        return f"{self.inside}/{name}" if self.inside else name


_Files = _Folder | _Zip


def _too_large(path: Path) -> InputError:
    what = f"this file is larger than announced, or than {MAX_FILE_BYTES >> 30} GB"
    return InputError(what, "Scale the picture down", path)


def _json(data: bytes, path: Path) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError("this is no valid JSON", "Mend or replace it", path) from error


def _load_plain(source: PuzzleSource, files: _Files, reading: _Reading) -> Puzzle:
    there = files.names() if reading.only is None else reading.only
    names = [name for name in there if is_image_name(name) and "/" not in name]
    _check_ids(names, source.path)
    scales = _sidecar_scales(files)
    fragments = _read_all(
        names, files, reading, lambda name, dpi: _scale_of(name, dpi, scales, files, reading)
    )
    origins = {fragment.metadata["scale"] for fragment in fragments}
    if "assumed" in origins:
        guessed = [f.metadata["filename"] for f in fragments if f.metadata["scale"] == "assumed"]
        some = ", ".join(guessed[:3]) + ", ..." * (len(guessed) > 3)
        whose = "" if len(guessed) == len(fragments) else f" of {some}, unlike that of the others,"
        warnings.warn(
            f"{source.path}: the scale{whose} is unknown, and 1 pixel is taken for "
            f"{REPAIR_MM_PER_PX} mm, so that lengths are a guess; give it with --mm-per-px X",
            InputWarning,
        )
    scale = "assumed" if "assumed" in origins else ", ".join(sorted(origins))
    return Puzzle(source.id, tuple(fragments), metadata={"scale": scale})


def _load_v2(source: PuzzleSource, files: _Files, reading: _Reading) -> Puzzle:
    label = files.label("data.json")
    entries, stored = _v2_entries(_json(files.read("data.json"), label), label)
    _check_ids(list(entries), label)
    if reading.mm_per_px is not None:
        mm_per_px, origin = reading.mm_per_px, "option"
    elif stored is not None:
        mm_per_px, origin = stored, "data.json"
    elif isinstance(sidecar := _sidecar_scales(files), int | float):
        mm_per_px, origin = float(sidecar), "sidecar"
    else:
        mm_per_px, origin = REPAIR_MM_PER_PX, "repair"
    fragments = _read_all(list(entries), files, reading, lambda name, dpi: (mm_per_px, origin))
    by_id = {_id(name): entry for name, entry in entries.items()}
    truth, strays = {}, set()
    for fragment in fragments:
        entry = by_id[fragment.id]
        if entry.stray:
            strays.add(fragment.id)
        elif entry.place is not None:
            truth[fragment.id] = from_repair(*entry.place, fragment.frame_px, mm_per_px)
    placed = any(entry.place is not None for entry in entries.values())
    return Puzzle(
        source.id,
        tuple(fragments),
        truth if placed else None,
        frozenset(strays),
        {"scale": origin},
    )


class _Entry(NamedTuple):
    place: tuple[float, float, float] | None
    """x, y (pixels), rotation (degrees)."""
    stray: bool


def _v2_entries(document: Any, label: Path) -> tuple[dict[str, _Entry], float | None]:
    """By file name what data.json says, and its scale."""

    def wrong(what: str) -> InputError:
        return InputError(
            what,
            "A puzzle's data.json lists `fragments`, each with `filename`, `pixel_position` [x, y] "
            "and `rotation`; see docs/formats.md",
            label,
        )

    if not isinstance(document, dict) or not isinstance(document.get("fragments"), list):
        raise wrong("it has no list `fragments`")
    mm_per_px = document.get("mm_per_px")
    if mm_per_px is not None:
        _check_scale(mm_per_px, label, "`mm_per_px`")
    entries: dict[str, _Entry] = {}
    for number, item in enumerate(document["fragments"], start=1):
        where = f"fragment {number}"
        if not isinstance(item, dict) or not isinstance(item.get("filename"), str):
            raise wrong(f"{where} has no `filename`")
        name = item["filename"]
        plain = PurePosixPath(name.replace("\\", "/"))
        if not name.strip() or plain.is_absolute() or ".." in plain.parts or ":" in name:
            raise wrong(f"the `filename` of {where} leads out of the folder: {name!a}")
        if name in entries:
            raise wrong(f"{name} occurs twice")
        stray = item.get("stray", False)
        if not isinstance(stray, bool):
            raise wrong(f"`stray` of {name} is neither true nor false")
        position: Any = item.get("pixel_position")
        rotation: Any = item.get("rotation")
        place = None
        if position is not None or rotation is not None:
            if not isinstance(position, list) or len(position) != 2:
                raise wrong(f"`pixel_position` of {name} is no pair of numbers")
            if not all(map(_is_number, (*position, rotation))):
                raise wrong(f"`pixel_position` or `rotation` of {name} is no usable number")
            place = (float(position[0]), float(position[1]), float(rotation))
        entries[name] = _Entry(place, stray)
    if not entries:
        raise wrong("its list `fragments` is empty")
    lacking = [n for n, e in entries.items() if e.place is None and not e.stray]
    if lacking and any(e.place is not None for e in entries.values()):
        raise wrong(f"{lacking[0]} has no `pixel_position` and `rotation`, though others have")
    return entries, mm_per_px


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9


def _load_v1(source: PuzzleSource, reading: _Reading) -> Puzzle:
    rows = {row.rpf: row for row in read_pose_rows(source.path)}
    pictures = source.path.resolve().parents[1] / "2D_Images" / "assembled_objects"
    folder = pictures / source.path.stem
    if not folder.is_dir():
        raise InputError(
            f"the folder of its pictures, {folder}, is missing",
            "Keep RePAIR's folders 2D_Ground_Truth and 2D_Images side by side",
            source.path,
        )
    for name in rows:
        if PurePosixPath(name.replace("\\", "/")).name != name:
            what = f"it names a file outside the object's folder: {name!a}"
            raise InputError(what, "Mend the table", source.path)
    _check_ids(list(rows), source.path)
    mm_per_px = reading.mm_per_px or REPAIR_MM_PER_PX
    origin = "repair" if reading.mm_per_px is None else "option"
    files = _Folder(folder)
    fragments = _read_all(list(rows), files, reading, lambda name, dpi: (mm_per_px, origin))
    truth = {}
    for fragment in fragments:
        row = rows[fragment.metadata["filename"]]
        truth[fragment.id] = from_repair(row.x, row.y, row.rot, fragment.frame_px, mm_per_px)
    return Puzzle(source.id, tuple(fragments), truth, metadata={"scale": origin})


def _id(name: str) -> str:
    return PurePosixPath(name).stem


def _check_ids(names: Sequence[str], path: Path) -> None:
    by_id: dict[str, list[str]] = {}
    for name in names:
        by_id.setdefault(_id(name), []).append(name)
    for same in by_id.values():
        if len(same) > 1:
            raise InputError(
                f"several pictures have the same name: {', '.join(same[:3])}",
                "Rename or remove all but one: names without their endings are the pieces' ids",
                path,
            )


def _sidecar_scales(files: _Files) -> float | Mapping[str, float] | None:
    if not files.has("scale.json"):
        return None
    label = files.label("scale.json")
    document = _json(files.read("scale.json"), label)
    value = document.get("mm_per_px") if isinstance(document, dict) else None
    for scale in value.values() if isinstance(value, dict) else [value]:
        _check_scale(scale, label, "`mm_per_px`")
    return value


def _scale_of(
    name: str,
    dpi: float | None,
    scales: float | Mapping[str, float] | None,
    files: _Files,
    reading: _Reading,
) -> tuple[float, str]:
    """The scale of one picture, and who says so."""
    if reading.mm_per_px is not None:
        return reading.mm_per_px, "option"
    if files.has(f"{name}.json"):
        label = files.label(f"{name}.json")
        document = _json(files.read(f"{name}.json"), label)
        if isinstance(document, dict) and "mm_per_px" in document:
            _check_scale(document["mm_per_px"], label, "`mm_per_px`")
            return float(document["mm_per_px"]), "sidecar"
    found = scales.get(name) if isinstance(scales, Mapping) else scales
    if found is not None:
        return float(found), "sidecar"
    if dpi is not None:
        return 25.4 / dpi, "dpi"
    return REPAIR_MM_PER_PX, "assumed"


def _check_scale(value: Any, path: Path | None, what: str) -> None:
    low, high = PLAUSIBLE_MM_PER_PX
    if not _is_number(value) or not low <= value <= high:
        raise InputError(
            f"{what} is {value!r}", f"Give mm per pixel, a number from {low} to {high:g}", path
        )


_Scale = Callable[[str, float | None], tuple[float, str]]
"""From a file name and its dpi to mm per pixel, and who says so."""


def _read_all(
    names: Sequence[str], files: _Files, reading: _Reading, scale: _Scale
) -> list[Fragment]:
    """Reads and outlines pictures, several at a time. Bad ones are left out with a warning."""

    def read(name: str) -> tuple[Fragment, list[str]] | InputError:
        try:
            if not files.has(name):
                raise InputError("this picture is missing", "Put it back", files.label(name))
            picture = read_image(files.read(name), files.label(name))
            mask, doubts = _mask(picture, files.label(name))
            mm_per_px, origin = scale(name, picture.dpi)
            metadata = {"filename": PurePosixPath(name).name, "scale": origin}
            whole = Fragment(_id(name), picture.rgb, mask, mm_per_px, metadata=metadata)
            # Cropped at once: a scan holds several times what its fragment does.
            fragment = _without_ground(whole.cropped())
            _ = fragment.polygon  # Outlined here, where every core helps, and kept.
            return fragment, doubts
        except InputError as error:
            return error

    good: list[Fragment] = []
    bad: list[InputError] = []
    pool = ThreadPoolExecutor(max(1, min(len(names), os.cpu_count() or 1)))
    try:
        for number, (name, result) in enumerate(zip(names, pool.map(read, names), strict=True), 1):
            if isinstance(result, InputError):
                if reading.strict:
                    raise result
                bad.append(result)
            else:
                fragment, doubts = result
                good.append(fragment)
                for doubt in doubts:
                    warnings.warn(f"{files.label(name)}: {doubt}", InputWarning)
            if reading.progress is not None:
                reading.progress(number, len(names), name)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    if not good:
        for error in bad[1:]:
            warnings.warn(str(error), InputWarning)
        raise bad[0]
    for error in bad:
        warnings.warn(f"{error} It is left out.", InputWarning)
    return good


def _without_ground(fragment: Fragment) -> Fragment:
    """Black around the piece: what a scan hides under its transparency is no evidence."""
    shown: Any = cv2.bitwise_and(fragment.image, fragment.image, mask=fragment.mask.view(np.uint8))
    return replace(fragment, image=shown)


def _mask(picture: Picture, label: Path) -> tuple[NDArray[np.bool_], list[str]]:
    """(H, W), true on the piece, and what is doubtful about it, in words."""
    opaque = None if picture.alpha is None else picture.alpha >= INSIDE
    if opaque is None or opaque.all():
        return _mask_of_photograph(picture.rgb, label)
    if not opaque.any():
        what = "this picture is fully transparent"
        raise InputError(what, "Export the fragment with its colours", label)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(
        opaque.view(np.uint8), connectivity=4
    )
    areas = stats[1:, cv2.CC_STAT_AREA]
    largest = int(areas.argmax())
    if areas[largest] < MIN_AREA_PX:
        raise _specks(label)
    doubts = []
    if count > 2 and np.sort(areas)[-2] > SECOND_PART * areas[largest]:
        doubts.append(SEVERAL_PARTS)
    return np.asarray(labels == 1 + largest), doubts


def _mask_of_photograph(rgb: NDArray[np.uint8], label: Path) -> tuple[NDArray[np.bool_], list[str]]:
    pieces = sorted(find_pieces(rgb, label), key=lambda piece: piece.area_px)
    piece = pieces[-1]
    if piece.area_px < MIN_AREA_PX:
        raise _specks(label)
    doubts = piece.doubts()
    if len(pieces) > 1 and pieces[-2].area_px > SECOND_PART * piece.area_px:
        doubts.append(SEVERAL_PARTS)
    mask = np.zeros(rgb.shape[:2], bool)
    if piece.area_px < LIKELY_SHARE * mask.size:
        doubts.append("what was found in it is very small, and perhaps no piece at all")
    rows, columns = piece.mask.shape
    mask[piece.top : piece.top + rows, piece.left : piece.left + columns] = piece.mask
    return mask, doubts


def _specks(label: Path) -> InputError:
    return InputError(
        f"there are only specks in this picture, none of {MIN_AREA_PX} pixels",
        "Remove it, or export the fragment again",
        label,
    )


def cut_out(
    photo: str | PathLike[str],
    out: str | PathLike[str],
    *,
    mm_per_px: float | None = None,
    min_area_mm2: float = 25.0,
    force: bool = False,
) -> Puzzle:
    """Cuts the pieces out of a photograph of a tray on a plain ground.

    Writes `piece_001.png`, ... in reading order, with a transparent ground, and `scale.json`.

    Args:
        mm_per_px: scale of the photograph; may be left out where a scanner noted it in the file.
        min_area_mm2: smaller things are taken for crumbs.
        force: replace the cut-outs of an earlier call.

    Returns:
        The pieces, as `load(out)` gives them.
    """
    check_output_folder(out, force)
    if mm_per_px is not None:
        _check_scale(mm_per_px, None, "the scale")
    if Path(photo).resolve().parent == Path(out).resolve():
        what = "the photograph lies in the output folder, among its own cut-outs"
        raise InputError(what, "Choose another output folder", photo)
    picture = read_image(photo)
    if mm_per_px is None and picture.dpi is not None:
        mm_per_px = 25.4 / picture.dpi
    if mm_per_px is None:
        raise InputError(
            "the photograph's scale is unknown",
            "Give --mm-per-px X: the length of something in mm, divided by its length in pixels",
            photo,
        )
    smallest_px = max(min_area_mm2 / mm_per_px**2, MIN_AREA_PX)
    pieces = segment_many(picture.rgb, smallest_px, photo)
    with output_folder(out, force=force, replaces=["piece_*.png", "scale.json"]) as folder:
        for number, piece in enumerate(pieces, start=1):
            name = f"piece_{number:03d}.png"
            (folder / name).write_bytes(_png(picture.rgb, piece))
            for doubt in piece.doubts():
                warnings.warn(f"{name}: {doubt}", InputWarning)
        scale = json.dumps({"mm_per_px": mm_per_px})
        (folder / "scale.json").write_text(scale + "\n", encoding="utf-8")
    return load(out)


def _png(rgb: NDArray[np.uint8], piece: Piece) -> bytes:
    height, width = piece.mask.shape
    shown = rgb[piece.top : piece.top + height, piece.left : piece.left + width]
    rgba = np.dstack([shown, piece.mask * np.uint8(255)])
    rgba[~piece.mask] = 0
    _, data = cv2.imencode(".png", cv2.cvtColor(rgba, cv2.COLOR_RGBA2BGRA))
    return bytes(data)
