"""Puzzles from folders and zip files of any layout, found and told apart by what they hold."""

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
from reassembly.io.files import output_folder
from reassembly.io.images import Picture, is_image_name, read_image
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
    ) -> Puzzle:
        """Reads the pictures; arguments as of `reassembly.load`."""
        reading = _Reading(mm_per_px, strict, progress)
        if mm_per_px is not None:
            _check_scale(mm_per_px, None, "the scale")
        if self.kind == "repair-v1":
            return _load_v1(self, reading)
        files = _Zip(self.path, self.inside) if self.path.is_file() else _Folder(self.path)
        return (_load_v2 if self.kind == "repair-v2" else _load_plain)(self, files, reading)


@dataclass(frozen=True)
class _Reading:
    mm_per_px: float | None
    strict: bool
    progress: LoadProgress | None


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
    (`{"mm_per_px": 0.1}` or `{"mm_per_px": {"a.png": 0.1}}`) or `a.png.json`; the file's own
    resolution, unless it is a mere default (72 or 96 dpi) or a camera's; RePAIR's for RePAIR's
    layouts. Else 0.1357 mm is assumed, with a warning; `metadata["scale"]` of the puzzle says
    which it was.

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
    the puzzles' own, or their paths under `path` where several have the same.
    """
    root = Path(path)
    if not root.exists():
        raise InputError("there is no such file or folder", "Check the path", path)
    sources = _in_file(root) if root.is_file() else _in_folder(root)
    often = Counter(source.id for source in sources)
    unique = [
        replace(source, id=_relative_name(source, root)) if often[source.id] > 1 else source
        for source in sources
    ]
    return sorted(unique, key=lambda source: (str(source.path), source.inside))


def _in_file(path: Path) -> list[PuzzleSource]:
    if path.name == "data.json":
        return [_v2_source(path)]
    suffix = path.suffix.lower()
    if suffix == ".txt":
        return [PuzzleSource(path.stem, path, "repair-v1", _split(path))]
    if suffix == ".zip":
        names = _Zip(path).names()
        folders = sorted({str(PurePosixPath(n).parent) for n in names if n.endswith("data.json")})
        if not folders:
            return [PuzzleSource(path.stem, path, "fragments")]
        insides = ["" if folder == "." else folder for folder in folders]
        return [
            PuzzleSource(PurePosixPath(i).name or path.stem, path, "repair-v2", None, i)
            for i in insides
        ]
    if is_image_name(path.name):
        raise InputError(
            "this is one picture, and a puzzle is a folder of them",
            "Give the folder; a photograph of many pieces goes through `reassembly cutout` first",
            path,
        )
    raise InputError("this is no puzzle", "Give a folder or a zip of pictures", path)


def _in_folder(root: Path) -> list[PuzzleSource]:
    if (table := _v1_table_of(root)) is not None:
        return [PuzzleSource(table.stem, table, "repair-v1", _split(table))]
    sources = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here = Path(folder)
        if "data.json" in names:
            sources.append(_v2_source(here / "data.json"))
        if here.name == "2D_Ground_Truth":
            sources += [
                PuzzleSource(Path(name).stem, here / name, "repair-v1", _split(here))
                for name in sorted(names)
                if name.lower().endswith(".txt")
            ]
    return sources or [PuzzleSource(root.resolve().name, _picture_folder(root), "fragments")]


def _v2_source(file: Path) -> PuzzleSource:
    document = _json(file.read_bytes(), file)
    name = document.get("original_id") if isinstance(document, dict) else None
    known = name if isinstance(name, str) and name.strip() else file.resolve().parent.name
    return PuzzleSource(known, file.parent, "repair-v2", _split(file.parent))


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


def _picture_folder(root: Path) -> Path:
    """The folder itself, or the only one in it that holds pictures."""

    def pictures(folder: Path) -> bool:
        return any(is_image_name(p.name) for p in folder.iterdir() if p.is_file())

    if pictures(root):
        return root
    inner = [p for p in sorted(root.iterdir()) if p.is_dir() and not p.name.startswith(".")]
    holding = [p for p in inner if pictures(p)]
    if len(holding) == 1:
        return holding[0]
    if holding:
        names = ", ".join(p.name for p in holding[:3])
        raise InputError(
            f"there are pictures in several of its folders ({names}, ...)", "Name one of them", root
        )
    raise InputError(
        "there is no picture in this folder",
        "Give a folder of PNG, JPEG, TIFF, WebP or HEIC pictures, or of puzzles",
        root,
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
            return (self.path / name).read_bytes()
        except OSError as error:
            what = f"this file cannot be read ({error.strerror or error})"
            raise InputError(
                what, "Check the path and its permissions", self.label(name)
            ) from error


class _Zip:
    """The files of a zip, read in memory; nothing is unpacked to disk."""

    def __init__(self, path: Path, inside: str = "") -> None:
        self.path, self.inside = path, inside
        try:
            with zipfile.ZipFile(path) as archive:
                members = [m for m in archive.infolist() if not m.is_dir()]
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            what = "this zip file is damaged or none"
            raise InputError(what, "Pack it again", path) from error
        self._members = {name: m for m in members if (name := self._checked(m)) is not None}
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
                path,
            )

    def _checked(self, member: zipfile.ZipInfo) -> str | None:
        """The member's name, None if it is not for us; an error if it is not harmless."""
        name = member.filename.replace("\\", "/")
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts or re.match(r"[A-Za-z]:", name) or "\0" in name:
            what = f"it holds a file with a path that leads out of it: {member.filename!a}"
            raise InputError(what, "Pack the pictures again, without paths", self.path)
        if stat.S_ISLNK(member.external_attr >> 16):
            what = f"it holds a link: {member.filename!a}"
            raise InputError(what, "Pack the pictures themselves", self.path)
        if member.flag_bits & 1:
            raise InputError("it is encrypted", "Pack it without a password", self.path)
        if any(part.startswith(".") or part == "__MACOSX" for part in parts):
            return None
        return name

    def label(self, name: str) -> Path:
        return self.path / self.inside / name

    def names(self) -> list[str]:
        """Of the files under `inside`, relative to it; those of the only folder, if that is all."""
        prefix = f"{self.inside}/" if self.inside else ""
        return sorted(n[len(prefix) :] for n in self._members if n.startswith(prefix))

    def has(self, name: str) -> bool:
        return self._full(name) in self._members

    def read(self, name: str) -> bytes:
        member = self._members[self._full(name)]
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(member) as file:
                return file.read(member.file_size + 1)
        except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError) as error:
            what = "this file in the zip is damaged"
            raise InputError(what, "Pack it again", self.label(name)) from error

    def _full(self, name: str) -> str:
        return f"{self.inside}/{name}" if self.inside else name


_Files = _Folder | _Zip


def _json(data: bytes, path: Path) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError("this is no valid JSON", "Mend or replace it", path) from error


def _load_plain(source: PuzzleSource, files: _Files, reading: _Reading) -> Puzzle:
    names = [name for name in files.names() if is_image_name(name)]
    if not names:
        raise InputError(
            "there is no picture in it", "Give PNG, JPEG, TIFF, WebP or HEIC pictures", source.path
        )
    _check_ids(names, source.path)
    scales = _sidecar_scales(files)
    fragments = _read_all(
        names, files, reading, lambda name, dpi: _scale_of(name, dpi, scales, files, reading)
    )
    origins = {fragment.metadata["scale"] for fragment in fragments}
    if "assumed" in origins:
        warnings.warn(
            f"{source.path}: the scale is unknown, and 1 pixel is taken for {REPAIR_MM_PER_PX} mm, "
            "so that all lengths are a guess; give it with --mm-per-px X",
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
    else:
        mm_per_px, origin = REPAIR_MM_PER_PX, "repair"
    fragments = _read_all(list(entries), files, reading, lambda name, dpi: (mm_per_px, origin))
    truth, strays = {}, set()
    for fragment in fragments:
        entry = entries[fragment.metadata["filename"]]
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
            fragment = whole.cropped()
            _ = fragment.polygon  # Outlined here, where every core helps, and kept.
            return fragment, doubts
        except InputError as error:
            return error

    good: list[Fragment] = []
    bad: list[InputError] = []
    with ThreadPoolExecutor(min(len(names), os.cpu_count() or 1)) as pool:
        for number, (name, result) in enumerate(zip(names, pool.map(read, names), strict=True), 1):
            if isinstance(result, InputError):
                if reading.strict:
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise result
                bad.append(result)
            else:
                fragment, doubts = result
                good.append(fragment)
                for doubt in doubts:
                    warnings.warn(f"{files.label(name)}: {doubt}", InputWarning)
            if reading.progress is not None:
                reading.progress(number, len(names), name)
    if not good:
        raise bad[0]
    for error in bad:
        warnings.warn(f"{error} It is left out.", InputWarning)
    return good


def _mask(picture: Picture, label: Path) -> tuple[NDArray[np.bool_], list[str]]:
    height, width = picture.rgb.shape[:2]
    opaque = None if picture.alpha is None else picture.alpha >= INSIDE
    if opaque is None or opaque.all():
        piece = max(find_pieces(picture.rgb, label), key=lambda found: found.area_px)
        if piece.area_px < MIN_AREA_PX:
            raise _specks(label)
        mask = np.zeros((height, width), bool)
        rows, columns = piece.mask.shape
        mask[piece.top : piece.top + rows, piece.left : piece.left + columns] = piece.mask
        return mask, piece.doubts()
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
        doubts.append(
            "this picture shows several separate parts, and only the largest is taken; for several "
            "pieces in one picture, use `reassembly cutout`"
        )
    return np.asarray(labels == 1 + largest), doubts


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
    picture = read_image(photo)
    if mm_per_px is None and picture.dpi is not None:
        mm_per_px = 25.4 / picture.dpi
    if mm_per_px is None:
        raise InputError(
            "the photograph's scale is unknown",
            "Give --mm-per-px X: the length of something in mm, divided by its length in pixels",
            photo,
        )
    _check_scale(mm_per_px, None, "the scale")
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
