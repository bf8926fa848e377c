"""Pieces from files that were sent: cut-outs, photographs, trays, zips. Runs in a worker."""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.app.pictures import keep_cut_out, keep_photograph, level_webp
from reassembly.app.worker import Task
from reassembly.errors import InputError, InputWarning
from reassembly.io.images import MAX_PIXELS, Picture, is_image_name, read_image
from reassembly.io.readers import REPAIR_MM_PER_PX, SEVERAL_PARTS, PuzzleSource, find_puzzles
from reassembly.io.segment import Piece, segment_many
from reassembly.puzzle import Fragment, Puzzle

__all__ = ["import_reference", "import_upload", "inspect_upload", "piece_id", "safe_relative_path"]

CHUNK = 12
"""Pictures read at a time, so that memory does not grow with their number."""
MOST_REASONS = 3
"""Files of which it is told why they could not be read, where none could."""
LOOKED_AT = 24
"""Pictures that are looked at before the import; of more, only the headers."""
PREVIEW_PX, CUT_OUT_PREVIEW_PX = 2048, 512
"""Longest sides; rulers are clicked on photographs only."""
LARGEST_REFERENCE_PX = 8000
SURROUNDINGS = 0.06
"""How much of a photograph is kept around a piece, of the piece's size."""
MIN_SURROUNDINGS_PX = 16
SEVERAL_SHARE = 0.1
"""A second piece at least this large, of the largest, makes a photograph a tray."""
PERSPECTIVE = 0.02
"""Rulers that disagree by more tell of a photograph taken at an angle."""
MIN_PIECE_PX = 100.0
SEVERAL_WORDS = (
    "this picture shows several separate parts, and only the largest is taken; if they are several "
    "pieces, bring it in as a tray"
)
UNTOLD_SCALES = {
    "assumed": f"is unknown. {REPAIR_MM_PER_PX} mm a pixel is assumed, as RePAIR's scans have it: "
    "lengths are a guess until you set the scale",
    "repair": f"is told by no file. {REPAIR_MM_PER_PX} mm a pixel is taken, which the RePAIR "
    "project's scans have, since the files are laid out as theirs: set the scale if they are not",
}
COMMAND_LINE = "--mm-per-px"
"""In words that are for the command line only."""
RULER_SHARE, RULER_ASPECT = 0.7, 3.5
"""Of a clicked line that lies on the ruler; and how much longer than wide that is."""
STRIP_ASPECT = 8.0
"""Whatever is so much longer than wide is hardly a piece."""
BAR_ASPECT, BAR_FILL = 3.0, 0.9
"""Nor is what is so long, and fills so much of a rectangle."""
RULER_LIKE = "long and straight, like a ruler"
MOST_THINGS = 500
"""In one photograph that are listed before the import."""
MOST_PARTS, LONGEST_PART, LONGEST_PATH = 4, 80, 120
"""Folders of a sent file that are kept, bytes of each, letters of all: Windows allows no more than
260 for a whole path."""
RESERVED = {"con", "prn", "aux", "nul"} | {f"{p}{n}" for p in ("com", "lpt") for n in range(1, 10)}


def safe_relative_path(name: str) -> Path | None:
    """A sent file's name as a path that any system can hold and that leads nowhere else.

    None for what is better left alone: hidden files, and names of nothing.
    """
    parts = [part for part in re.split(r"[\\/]+", name) if part not in ("", ".", "..")]
    if not parts or any(part.startswith(".") or part == "__MACOSX" for part in parts):
        return None
    clean: list[str] = []
    for part in reversed(parts[-MOST_PARTS:]):
        kept = re.sub(r"[\x00-\x1f\x7f<>:\"|?*]", "_", part).strip(" .")
        kept = kept.encode("utf-8", "replace").decode()
        stem, dot, suffix = kept.rpartition(".")
        if len(kept.encode()) > LONGEST_PART:
            kept = f"{(stem or kept)[:20]}{dot}{suffix[:10]}" if dot else kept[:20]
        if not kept or kept.split(".")[0].lower() in RESERVED:
            kept = f"_{kept}"
        if clean and sum(map(len, clean)) + len(kept) > LONGEST_PATH:
            break
        clean.insert(0, kept)
    return Path(*clean)


def piece_id(job_id: str, number: int) -> str:
    """The same for the same job, so that one that is done twice brings its pieces in once."""
    return hashlib.sha256(f"{job_id}:{number}".encode()).hexdigest()[:12]


# Looking


def inspect_upload(task: Task) -> dict[str, Any]:
    """What each sent file is. Payload: `folder`, `files` (each `index`, `name`, `path`)."""
    files = task.payload["files"]
    folder = Path(task.payload["folder"])
    pictures = [f for f in files if is_image_name(f["name"])]
    closely = {f["index"] for f in pictures[:LOOKED_AT]}
    seen = []
    for number, entry in enumerate(files):
        task.report(number / max(len(files), 1), f"looking at {entry['name']}")
        path = folder / "files" / entry["path"]
        about = {"index": entry["index"], "name": entry["name"], "bytes": path.stat().st_size}
        preview = folder / f"{entry['index']}.webp"
        try:
            seen.append({**about, **_look(path, entry["index"] in closely, preview)})
        except InputError as error:
            seen.append({**about, "kind": "other", "error": f"{error.what}. {error.remedy}."})
    return {"files": seen}


def _look(path: Path, closely: bool, preview: Path) -> dict[str, Any]:
    if is_image_name(path.name):
        return _look_at_picture(path, preview) if closely else _look_at_header(path)
    if path.suffix.lower() == ".zip" or zipfile.is_zipfile(path):
        find_puzzles(path)
        return {"kind": "zip"}
    if path.suffix.lower() == ".json":
        head = path.read_bytes()[:4000]
        if b'"reassembly-project"' in head:
            return {"kind": "project"}
        return {"kind": "puzzle" if path.name == "data.json" else "sidecar"}
    return {
        "kind": "other",
        "error": "This is no picture and no zip of pictures. It will be left out.",
    }


def _look_at_picture(path: Path, preview: Path) -> dict[str, Any]:
    picture = read_image(path)
    height, width = picture.rgb.shape[:2]
    cut = _is_cut_out(picture)
    things = [] if cut else _things(picture, path)
    several = _several(things)
    small = _shrunk(picture.rgb, CUT_OUT_PREVIEW_PX if cut else PREVIEW_PX)
    alpha = np.full(small.shape[:2], 255, np.uint8)
    if cut and picture.alpha is not None:
        size = (small.shape[1], small.shape[0])
        alpha = np.asarray(cv2.resize(picture.alpha, size, interpolation=cv2.INTER_AREA), np.uint8)
    preview.write_bytes(level_webp(np.dstack([small, alpha])))
    return {
        "kind": "cutout" if cut else "photograph",
        "width_px": width,
        "height_px": height,
        "dpi": picture.dpi,
        "mm_per_px": None if picture.dpi is None else 25.4 / picture.dpi,
        "several": several,
        "tray": several is not None and (several > 1 or _largest(things)["doubt"] is not None),
        "things": things[:MOST_THINGS],
        "preview": preview.name,
    }


def _is_cut_out(picture: Picture) -> bool:
    return picture.alpha is not None and bool((picture.alpha < 128).any())


def _things(picture: Picture, path: Path) -> list[dict[str, Any]]:
    """What lies in a photograph, in reading order: pieces, and perhaps a ruler."""
    try:
        return [_thing(piece) for piece in segment_many(picture.rgb, MIN_PIECE_PX, path)]
    except InputError:
        return []


def _thing(piece: Piece) -> dict[str, Any]:
    height, width = piece.mask.shape
    depth = cv2.distanceTransform(np.pad(piece.mask, 1).astype(np.uint8), cv2.DIST_L2, 3)
    y, x = np.unravel_index(int(np.argmax(depth)), depth.shape)
    return {
        "x_px": float(piece.left + x - 1),
        "y_px": float(piece.top + y - 1),
        "left_px": piece.left,
        "top_px": piece.top,
        "width_px": width,
        "height_px": height,
        "area_px": piece.area_px,
        "doubt": RULER_LIKE if _looks_like_ruler(piece) else None,
    }


def _largest(things: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return max(things, key=lambda thing: thing["area_px"])


def _several(things: Sequence[dict[str, Any]]) -> int | None:
    """How many pieces a photograph seems to show; None if that cannot be told."""
    areas = [thing["area_px"] for thing in things if thing["doubt"] is None]
    return sum(area >= SEVERAL_SHARE * max(areas) for area in areas) if areas else None


def _look_at_header(path: Path) -> dict[str, Any]:
    from PIL import Image

    if path.suffix.lower() in {".heic", ".heif"}:
        try:
            import pillow_heif
        except ImportError as error:
            raise InputError(
                "HEIC pictures cannot be read here, since pillow-heif is missing",
                "Install it (pip install pillow-heif), or export the photographs as JPEG",
                path,
            ) from error
        pillow_heif.register_heif_opener()
    formats = ["PNG", "JPEG", "TIFF", "WEBP", "HEIF"]
    try:
        with Image.open(
            path, formats=[f for f in formats if f in Image.OPEN or Image.init()]
        ) as im:
            width, height = im.size
            cut = "A" in im.getbands() or "transparency" in im.info
    # What a decoder raises on broken data is not limited to any set of types.
    except Exception as error:
        raise InputError("this picture cannot be read", "Copy or export it again", path) from error
    if width * height > MAX_PIXELS:
        raise InputError("this picture is too large", "Scale it down", path)
    kind = "cutout" if cut else "photograph"
    return {"kind": kind, "width_px": width, "height_px": height}


def _shrunk(rgb: NDArray[np.uint8], longest: int) -> NDArray[np.uint8]:
    height, width = rgb.shape[:2]
    factor = longest / max(height, width)
    if factor >= 1:
        return rgb
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8)


# Bringing in


@dataclass(frozen=True)
class _Found:
    """A piece that is to be kept."""

    fragment: Fragment
    name: str
    scale: str
    photograph: Callable[[], Picture] | None = None
    """Reads the whole scan, if what is around the piece is to be kept."""
    doubts: Sequence[str] = ()
    provenance: str = ""


@dataclass
class _Harvest:
    """What an import has kept so far."""

    images: Path
    job_id: str
    provenance: str
    doubt_of_rulers: str | None = None
    """About every piece whose scale they gave."""
    pieces: list[dict[str, Any]] = field(default_factory=list)
    pictures: list[dict[str, Any]] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)
    """Of pictures without a piece: which and why, and what to do."""

    def keep(self, found: Sequence[_Found]) -> None:
        """Stores pieces, several at a time: most of the work is compressing pictures."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for each, kept in zip(found, pool.map(self._store, found), strict=True):
                shown, picture, doubts = kept
                self.pictures.append(picture)
                self.pieces.append(self._columns(each, shown, picture["sha256"], doubts))

    def _store(self, found: _Found) -> tuple[Fragment, dict[str, Any], list[str]]:
        shown, doubts = found.fragment, list(found.doubts)
        if found.photograph is not None:
            picture = found.photograph()
            shown = _with_surroundings(shown, picture.rgb)
            if not _is_cut_out(picture):
                doubts += _tilt_warnings(picture.rgb, found.fragment)
        return shown, keep_cut_out(self.images, shown.image, shown.mask), doubts

    def _columns(
        self, found: _Found, shown: Fragment, sha256: str, doubts: list[str]
    ) -> dict[str, Any]:
        if self.doubt_of_rulers is not None and found.scale == "ruler":
            doubts = [*doubts, self.doubt_of_rulers]
        return {
            "id": piece_id(self.job_id, len(self.pieces)),
            "name": _title(found.name),
            "filename": _title(str(found.fragment.metadata.get("filename", found.name))),
            "provenance": self.provenance or found.provenance,
            "mm_per_px": shown.mm_per_px,
            "scale_origin": found.scale,
            "picture": sha256,
            "frame_width_px": shown.frame_px[0],
            "frame_height_px": shown.frame_px[1],
            "left_px": shown.offset_px[0],
            "top_px": shown.offset_px[1],
            "warnings": doubts,
        }


def _title(name: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f\u2028\u2029]", " ", name).strip()[:200] or "piece"


def _with_surroundings(fragment: Fragment, photograph: NDArray[np.uint8]) -> Fragment:
    """The same piece in a larger window of its scan."""
    height, width = fragment.mask.shape
    margin = max(MIN_SURROUNDINGS_PX, round(SURROUNDINGS * max(height, width)))
    left, top = fragment.offset_px
    x, y = max(left - margin, 0), max(top - margin, 0)
    window = photograph[y : top + height + margin, x : left + width + margin]
    mask = np.zeros(window.shape[:2], bool)
    mask[top - y : top - y + height, left - x : left - x + width] = fragment.mask
    return Fragment(fragment.id, window.copy(), mask, fragment.mm_per_px, fragment.frame_px, (x, y))


def import_upload(task: Task) -> dict[str, Any]:
    """Makes pieces of sent files.

    Payload: `folder`, `files`, `images`, `job`, and the settings of an `ImportRequest`.
    """
    payload = task.payload
    root = Path(payload["folder"]) / "files"
    harvest = _Harvest(Path(payload["images"]), payload["job"], payload["provenance"])
    mm_per_px = payload["mm_per_px"]
    origin = "option"
    if mm_per_px is None and payload["rulers"]:
        mm_per_px, harvest.doubt_of_rulers = _scale_by_rulers(payload["rulers"])
        origin = "ruler"
    wanted = _wanted(payload)
    pictures = [entry for entry in wanted if is_image_name(entry["name"])]
    zips = [entry for entry in wanted if entry["kind"] == "zip"]
    puzzles = [entry for entry in wanted if entry["kind"] == "puzzle"]
    trays = [
        entry
        for entry in pictures
        if payload["mode"] == "tray" or (payload["mode"] == "auto" and entry.get("tray"))
    ]
    if not pictures and not zips and not puzzles:
        if any(entry["kind"] == "project" for entry in wanted):
            what, remedy = "this is a whole project", "Open it from the list of projects"
            raise InputError(what, remedy)
        raise InputError("there is no picture among these files", "Choose pictures, or a zip")
    steps = len(pictures) + len(zips) + len(puzzles)
    done = 0
    if puzzles:
        for source in find_puzzles(root):
            _take(_loaded(source, root, mm_per_px), harvest, origin, mm_per_px is not None)
        pictures = trays = []
    for entry in zips:
        task.report(done / steps, f"reading {entry['name']}")
        for source in find_puzzles(root / entry["path"]):
            _take(_loaded(source, root, mm_per_px), harvest, origin, mm_per_px is not None)
        done += 1
    for entry in trays:
        task.report(done / steps, f"cutting pieces out of {entry['name']}")
        drawn = [
            ruler
            for ruler in payload["rulers"]
            if ruler["file"] == entry["index"] or (ruler["file"] is None and len(trays) == 1)
        ]
        refused = payload["refused"]
        if refused is not None:
            refused = [spot for spot in refused if spot["file"] == entry["index"]]
        least = payload["min_area_mm2"]
        path, name = root / entry["path"], entry["name"]
        _cut_tray(path, name, harvest, mm_per_px, origin, least, drawn, refused)
        done += 1
    single = [entry for entry in pictures if entry not in trays]
    for chunk in _chunks(single):
        names = ", ".join(entry["name"] for entry in chunk[:2])
        task.report(done / steps, f"reading {names}" + ", ..." * (len(chunk) > 2))
        _take_chunk(root, chunk, harvest, mm_per_px, origin)
        done += len(chunk)
    if not harvest.pieces:
        raise _nothing_read(harvest.unread)
    _tell_of_scales([piece["scale_origin"] for piece in harvest.pieces])
    task.report(1.0, "done")
    return {"pieces": harvest.pieces, "pictures": harvest.pictures}


def _nothing_read(unread: Sequence[tuple[str, str]]) -> InputError:
    every = list(dict.fromkeys(why for why, _ in unread))
    reasons = every[:MOST_REASONS]
    if (more := len(every) - len(reasons)) > 0:
        reasons.append(f"and {more} more")
    remedies = {remedy for _, remedy in unread}
    remedy = remedies.pop() if len(remedies) == 1 else "Replace these files, or choose others"
    return InputError(f"no piece could be read: {'; '.join(reasons)}", remedy)


def _tell_of_scales(origins: Sequence[str]) -> None:
    """Warns of scales that nobody gave and no file tells, and says where they come from."""
    for origin, words in UNTOLD_SCALES.items():
        if count := origins.count(origin):
            pieces = f"{count} piece{'s' * (count != 1)}"
            warnings.warn(f"The scale of {pieces} {words}", InputWarning)


def _wanted(payload: dict[str, Any]) -> list[dict[str, Any]]:
    chosen = payload["chosen"]
    known = {entry["index"] for entry in payload["files"]}
    if chosen is not None and not set(chosen) <= known:
        raise InputError("a file was chosen that was not sent", "Choose again")
    return [
        entry
        for entry in payload["files"]
        if not entry.get("error") and (chosen is None or entry["index"] in chosen)
    ]


def _scale_by_rulers(rulers: list[dict[str, float]]) -> tuple[float, str | None]:
    """mm per pixel; and a word of warning, which is also given, where rulers disagree."""
    scales = []
    for ruler in rulers:
        length_px = math.hypot(ruler["x2_px"] - ruler["x1_px"], ruler["y2_px"] - ruler["y1_px"])
        if length_px < 10:
            raise InputError(
                "the two points of the ruler are too near", "Click points further apart"
            )
        scales.append(ruler["length_mm"] / length_px)
    spread = max(scales) / min(scales) - 1
    doubt = None
    if spread > PERSPECTIVE:
        doubt = (
            f"the rulers disagree by {spread:.1%}: the photograph was probably taken at an angle, "
            "so sizes differ across it; photograph straight from above"
        )
        warnings.warn(doubt[0].upper() + doubt[1:], InputWarning)
    mm_per_px = float(np.mean(scales))
    if not 1e-4 <= mm_per_px <= 100.0:
        raise InputError(f"{mm_per_px:g} mm a pixel is no scale", "Check the ruler's length")
    return mm_per_px, doubt


def _loaded(source: PuzzleSource, root: Path, mm_per_px: float | None) -> Puzzle:
    """A puzzle; its warnings name files as they were sent."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        puzzle = source.load(mm_per_px=mm_per_px)
    for warning in caught:
        text = str(warning.message).removeprefix(str(root)).lstrip("\\/")
        if COMMAND_LINE not in text:  # Of an unknown scale there will be a word at the end.
            warnings.warn(text.replace(SEVERAL_PARTS, SEVERAL_WORDS), InputWarning)
    return puzzle


def _take(puzzle: Puzzle, harvest: _Harvest, origin: str, told: bool) -> None:
    def scale(fragment: Fragment) -> str:
        return origin if told else str(fragment.metadata.get("scale", "assumed"))

    fragments = sorted(puzzle.fragments, key=_natural)
    harvest.keep([_Found(f, f.id, scale(f), provenance=puzzle.id) for f in fragments])


def _natural(fragment: Fragment) -> list[tuple[int, str]]:
    """Orders fragments as people do: piece 2 before piece 10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", fragment.id.casefold())
    return [(int(p[:18]), p) if p[0] in "0123456789" else (-1, p) for p in parts]


def _chunks(entries: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Few at a time, from one folder, under different names."""
    rest = sorted(entries, key=lambda entry: (str(Path(entry["path"]).parent), entry["index"]))
    while rest:
        folder = Path(rest[0]["path"]).parent
        chunk: list[dict[str, Any]] = []
        stems: set[str] = set()
        for entry in rest:
            path = Path(entry["path"])
            new = path.parent == folder and path.stem.casefold() not in stems
            if new and len(chunk) < CHUNK:
                chunk.append(entry)
                stems.add(path.stem.casefold())
        yield chunk
        rest = [entry for entry in rest if entry not in chunk]


def _take_chunk(
    root: Path,
    chunk: list[dict[str, Any]],
    harvest: _Harvest,
    mm_per_px: float | None,
    origin: str,
) -> None:
    """Reads some pictures of one folder, with what lies beside them about their scale."""
    source_folder = (root / chunk[0]["path"]).parent
    with tempfile.TemporaryDirectory(prefix="reassembly-") as name:
        folder = Path(name) / "pictures"
        folder.mkdir()
        sidecars = [source_folder / "scale.json"]
        for entry in chunk:
            path = root / entry["path"]
            shutil.copyfile(path, folder / path.name)
            sidecars.append(path.with_name(f"{path.name}.json"))
        for sidecar in sidecars:
            if sidecar.is_file():
                shutil.copyfile(sidecar, folder / sidecar.name)
        fragments, doubts, unread = _load(folder, mm_per_px)
        harvest.unread += unread
        found = []
        for fragment in sorted(fragments, key=_natural):
            filename = str(fragment.metadata["filename"])
            scale = str(fragment.metadata["scale"]) if mm_per_px is None else origin
            photograph = partial(read_image, folder / filename)
            about = doubts.get(filename, [])
            found.append(_Found(fragment, fragment.id, scale, photograph, about))
        harvest.keep(found)


def _load(
    folder: Path, mm_per_px: float | None
) -> tuple[Sequence[Fragment], dict[str, list[str]], list[tuple[str, str]]]:
    """The fragments of a folder; by file, what is doubtful about it; and where there is no fragment
    at all, why, and what to do. What is not read is also warned of."""
    names = {path.name for path in folder.iterdir()}
    fragments: Sequence[Fragment] = ()
    unread: list[tuple[str, str]] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        try:
            source = PuzzleSource("import", folder, "fragments")
            fragments = source.load(mm_per_px=mm_per_px).fragments
        except InputError as error:
            # All of these are unreadable; others may not be.
            where = "" if error.path is None else f"{Path(error.path).name}: "
            unread.append((f"{where}{error.what}", error.remedy))
    doubts: dict[str, list[str]] = {}
    for what, remedy in unread:
        warnings.warn(f"{what}. {remedy}.", InputWarning)
    read = {str(f.metadata["filename"]) for f in fragments}
    for warning in caught:
        text = str(warning.message).removeprefix(str(folder)).lstrip("\\/")
        about = next((n for n in names if text.startswith(f"{n}: ")), None)
        if about is None:
            continue  # The unknown scale, of which there will be a word at the end.
        if about in read:
            doubt = text[len(about) + 2 :].replace(SEVERAL_PARTS, SEVERAL_WORDS)
            doubts.setdefault(about, []).append(doubt)
        else:
            warnings.warn(text, InputWarning)
            if not fragments:
                what, _, remedy = text[len(about) :].removesuffix(".").partition(". ")
                unread.append((f"{about}{what}", remedy))
    return fragments, doubts, unread


def _cut_tray(
    path: Path,
    shown_name: str,
    harvest: _Harvest,
    mm_per_px: float | None,
    origin: str,
    min_area_mm2: float,
    rulers: Sequence[dict[str, float]],
    refused: Sequence[dict[str, float]] | None,
) -> None:
    """Every piece of a photograph of many, but not the ruler that lies among them.

    Args:
        rulers: lines that were clicked to set the scale.
        refused: points of things that are no pieces; None: whatever looks like a ruler.
    """
    picture = read_image(path)
    if mm_per_px is None:
        if picture.dpi is None:
            raise InputError(
                "the photograph's scale is unknown",
                "Click two points of a ruler in it, or give mm per pixel",
                shown_name,
            )
        mm_per_px, origin = 25.4 / picture.dpi, "dpi"
    smallest = max(min_area_mm2 / mm_per_px**2, MIN_PIECE_PX)
    found = segment_many(picture.rgb, smallest, shown_name)
    scales = [piece for piece in found if any(_is_ruler(piece, ruler) for ruler in rulers)]
    found = [piece for piece in found if not any(piece is scale for scale in scales)]
    if scales:
        warnings.warn(f"{shown_name}: the ruler that you clicked on was left out", InputWarning)
    if refused is None:
        kept = [piece for piece in found if not _looks_like_ruler(piece)]
        if len(kept) < len(found):
            warnings.warn(f"{shown_name}: what is {RULER_LIKE}, was left out", InputWarning)
    else:
        kept = [piece for piece in found if not any(_covers(piece, spot) for spot in refused)]
    found = kept
    if not found:
        raise InputError(
            "there is no piece left", "Photograph pieces too, or tick them", shown_name
        )
    stem = Path(shown_name).stem
    tilt = _tilt_warnings(picture.rgb)
    for doubt in tilt:
        warnings.warn(f"{shown_name}: {doubt}", InputWarning)
    pieces = []
    tray_px = (picture.rgb.shape[1], picture.rgb.shape[0])
    for number, piece in enumerate(found, start=1):
        height, width = piece.mask.shape
        name = f"{stem}-{number:03d}"
        seen = picture.rgb[piece.top : piece.top + height, piece.left : piece.left + width]
        tight = Fragment(name, seen, piece.mask, mm_per_px, tray_px, (piece.left, piece.top))
        shown = _with_surroundings(tight, picture.rgb)
        # A frame of its own: where the piece lay in the tray is nobody's business.
        about = {"filename": f"{name}.png"}
        alone = Fragment(name, shown.image, shown.mask, mm_per_px, metadata=about)
        origin_words = f"from the photograph {shown_name}"
        doubts = [*piece.doubts(), *tilt]
        pieces.append(_Found(alone, name, origin, None, doubts, origin_words))
    harvest.keep(pieces)


def _is_ruler(piece: Piece, ruler: dict[str, float]) -> bool:
    """Whether a clicked line runs along this thing, and it is long and narrow."""
    steps = np.linspace(0, 1, 101)
    x = ruler["x1_px"] + steps * (ruler["x2_px"] - ruler["x1_px"]) - piece.left
    y = ruler["y1_px"] + steps * (ruler["y2_px"] - ruler["y1_px"]) - piece.top
    height, width = piece.mask.shape
    within = (x >= 0) & (y >= 0) & (x < width) & (y < height)
    columns, rows = x[within].astype(int), y[within].astype(int)
    if piece.mask[rows, columns].sum() < RULER_SHARE * len(steps):
        return False
    long, short = _sides(piece)
    return long >= RULER_ASPECT * short


def _looks_like_ruler(piece: Piece) -> bool:
    long, short = _sides(piece)
    filled = piece.area_px / (long * short)
    return long >= STRIP_ASPECT * short or (long >= BAR_ASPECT * short and filled >= BAR_FILL)


def _sides(piece: Piece) -> tuple[float, float]:
    """The longer and the shorter side of the least rectangle around a piece, pixels."""
    points = np.column_stack(np.nonzero(piece.mask)[::-1]).astype(np.float32)
    _, sides, _ = cv2.minAreaRect(points)
    # Between the middles of its outermost pixels it is one pixel less.
    return max(sides) + 1.0, min(sides) + 1.0


def _covers(piece: Piece, spot: dict[str, float]) -> bool:
    x, y = int(spot["x_px"]) - piece.left, int(spot["y_px"]) - piece.top
    height, width = piece.mask.shape
    return 0 <= x < width and 0 <= y < height and bool(piece.mask[y, x])


LOOK_PX = 1000
MIN_LINE = 0.35
"""Of the picture's shorter side: shorter lines may be a piece's own."""
EDGE = 0.2
"""How near the picture's border, of its side, an edge of the sheet must run."""
MAX_TILT_DEG = 1.5
CLOSE_PX = 8
"""An edge so near to a piece is its own."""


def _tilt_warnings(rgb: NDArray[np.uint8], piece: Fragment | None = None) -> list[str]:
    """A word of warning where long straight edges, of paper or tray, run together.

    Opposite edges of a rectangle seen straight from above are parallel; seen at an angle, they
    are not.

    Args:
        piece: what was found in the photograph, whose own edges say nothing.
    """
    small = _shrunk(rgb, LOOK_PX)
    grey = cv2.GaussianBlur(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), (0, 0), 1.5)
    height, width = grey.shape
    edges = cv2.Canny(grey, 20, 60)
    if piece is not None:
        edges[_around(piece, (height, width))] = 0
    least = MIN_LINE * min(height, width)
    lines: Any = cv2.HoughLinesP(edges, 1, math.radians(0.25), 60, None, least, 12)
    if lines is None:
        return []
    ends = np.asarray(lines, float).reshape(-1, 4)
    angle = np.degrees(np.arctan2(ends[:, 3] - ends[:, 1], ends[:, 2] - ends[:, 0])) % 180
    length = np.hypot(ends[:, 2] - ends[:, 0], ends[:, 3] - ends[:, 1])
    worst = 0.0
    for upright in (False, True):
        off = (angle - 90) if upright else (angle + 90) % 180 - 90
        place = (ends[:, 0] + ends[:, 2]) / 2 if upright else (ends[:, 1] + ends[:, 3]) / 2
        extent = width if upright else height
        alike = np.abs(off) < 25
        low, high = alike & (place < EDGE * extent), alike & (place > (1 - EDGE) * extent)
        if low.any() and high.any():
            ways = [float(np.average(off[side], weights=length[side])) for side in (low, high)]
            worst = max(worst, abs(ways[0] - ways[1]))
    if worst < MAX_TILT_DEG:
        return []
    doubt = (
        f"edges that should be parallel run together by {worst:.1f} degrees, so the photograph was "
        "probably taken at an angle; photograph straight from above"
    )
    return [doubt]


def _around(piece: Fragment, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """(h, w): a piece and what is close to it, in a reduction of its photograph."""
    height, width = piece.mask.shape
    left, top = piece.offset_px
    whole = np.zeros(piece.frame_px[::-1], np.uint8)
    whole[top : top + height, left : left + width] = piece.mask
    small = cv2.resize(whole, shape[::-1], interpolation=cv2.INTER_AREA)
    return cv2.dilate(small, np.ones((2 * CLOSE_PX + 1, 2 * CLOSE_PX + 1))) > 0


def import_reference(task: Task) -> dict[str, Any]:
    """A picture to lie under the pieces. Payload: `path`, `images`."""
    picture = read_image(task.payload["path"], task.payload["name"])
    task.report(0.5, "making copies")
    width = picture.rgb.shape[1]
    columns = keep_photograph(
        Path(task.payload["images"]), _shrunk(picture.rgb, LARGEST_REFERENCE_PX)
    )
    factor = width / columns["width_px"]
    return {
        "picture_row": columns,
        "picture": columns["sha256"],
        "width_px": columns["width_px"],
        "height_px": columns["height_px"],
        "mm_per_px": None if picture.dpi is None else 25.4 / picture.dpi * factor,
    }
