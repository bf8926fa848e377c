"""RePAIR: where to get it, whether a download is whole, and how to lay it out.

Two releases exist, with different layouts (docs/formats.md); both are read. Puzzles are told apart
by folders `train` and `test` above them, or, where there is no test split, by a file `folds.json`.
"""

from __future__ import annotations

import json
import re
import shutil
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any

from reassembly.bench import REPAIR_NAMES
from reassembly.errors import InputError, InputWarning
from reassembly.io.files import output_folder
from reassembly.io.ids import read_ids
from reassembly.io.images import is_image_name
from reassembly.io.poses_csv import read_pose_rows
from reassembly.io.readers import PuzzleSource, find_puzzles
from reassembly.reproduce.paper import REPAIR_FRAGMENTS, REPAIR_PUZZLES, REPAIR_SPLIT

__all__ = [
    "SOURCES",
    "Checked",
    "Repair",
    "check_files",
    "completeness",
    "fragment_count",
    "lay_out",
    "make_folds",
    "read_repair",
]

SOURCES = {
    "release 2 (2D_SOLVED.zip; the one to take)": "https://zenodo.org/records/15800029",
    "release 1 (2D_Fragments.zip)": "https://zenodo.org/records/13993089",
}
FOLDS = "folds.json"
FOLD_COUNT = 4
GROUP = re.compile(r"(?:_g|_RP_group_)(\d+)", re.IGNORECASE)
TEST_NUMBERS = frozenset(
    {
        2, 20, 23, 29, 30, 32, 40, 43, 45, 47, 60, 67,
        73, 81, 82, 89, 91, 94, 95, 96, 111, 113, 115, 120,
    }
)  # fmt: skip
"""`puzzle_0000002_RP_group_2` and so on: the 24 test puzzles of release 2, as the tools of its
users list them. The release itself has no such list."""
OVERLAP = 0.25
"""Share of a puzzle's area: true poses under which more lies on top of each other look wrong."""

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Repair:
    """A whole or partial RePAIR."""

    path: Path
    sources: tuple[PuzzleSource, ...]
    """All its puzzles."""
    measured: tuple[str, ...]
    """Ids of those to measure on: the test split, or all."""
    folds: Path | None
    """Where all are measured on, and weights are fine-tuned without the fold in question."""

    @property
    def official(self) -> bool:
        """Whether it is split into training and test puzzles as the paper's is, 97:24."""
        return Counter(s.split for s in self.sources) == Counter(REPAIR_SPLIT)

    @property
    def split(self) -> str:
        """In words."""
        if self.official:
            return "the official split, 97 puzzles for training and 24 for tests"
        if len(self.measured) < len(self.sources) and self.folds is None:
            train = len(self.sources) - len(self.measured)
            return f"{train} puzzles for training and {len(self.measured)} for tests"
        return "no split" if self.folds is None else f"{len(self.fold_ids())} folds"

    @property
    def can_tune(self) -> bool:
        """Whether some puzzles can be learned from and others be measured on."""
        return self.folds is not None or len(self.measured) < len(self.sources)

    def fold_ids(self) -> list[frozenset[str]]:
        """Ids of the puzzles of each fold, those that are here."""
        assert self.folds is not None
        here = {source.id for source in self.sources}
        count = len(json.loads(self.folds.read_text(encoding="utf-8"))["folds"])
        return [frozenset(read_ids(f"{self.folds}#{k + 1}")) & here for k in range(count)]


def read_repair(path: str | PathLike[str]) -> Repair:
    """Finds the puzzles of a download and how they are to be divided.

    Raises:
        InputError: where these are no puzzles of RePAIR.
    """
    root = Path(path)
    sources = tuple(find_puzzles(root))
    theirs = tuple(s for s in sources if REPAIR_NAMES.search(f"{s.id} {s.path.name} {s.inside}"))
    if not theirs:
        raise InputError(
            f"this holds no puzzle of RePAIR, but {sources[0].id!r}"
            + (f" and {len(sources) - 1} more" if len(sources) > 1 else ""),
            "Run `reassembly data repair` to learn where to get it; give puzzles of your own as "
            "--dataset",
            path,
        )
    if missing := [s.id for s in theirs if s.kind == "fragments"]:
        raise InputError(
            f"{missing[0]} has pictures but no true poses",
            "Give the folder that holds its data.json, or 2D_Ground_Truth",
            path,
        )
    test = tuple(s.id for s in theirs if s.split == "test")
    train = [s for s in theirs if s.split == "train"]
    folds = root / FOLDS if root.is_dir() and (root / FOLDS).is_file() else None
    if test and train:
        return Repair(root, theirs, test, None)
    if folds is not None:
        repair = Repair(root, theirs, tuple(s.id for s in theirs), folds)
        listed = [i for fold in repair.fold_ids() for i in fold]
        if unlisted := sorted(set(repair.measured) - set(listed)):
            raise InputError(
                f"{unlisted[0]} is in no fold", "List every puzzle in one of the folds", folds
            )
        return repair
    return Repair(root, theirs, tuple(s.id for s in theirs), None)


def fragment_count(source: PuzzleSource) -> int:
    """How many fragments a puzzle has, without reading a picture."""
    return len(_document(source)["fragments"])


def _document(source: PuzzleSource) -> dict[str, Any]:
    """Its data.json; of release 1, as it would be."""
    if source.kind == "repair-v1":
        entries = [
            {"filename": row.rpf, "pixel_position": [row.x, row.y], "rotation": row.rot}
            for row in read_pose_rows(source.path)
        ]
        return {"original_id": source.id, "fragments": entries}
    try:
        found = json.loads(_read(source, "data.json").decode("utf-8-sig"))
        entries = [dict(entry) for entry in found["fragments"]]
        if not all(isinstance(entry["filename"], str) for entry in entries):
            raise TypeError
        return {**found, "original_id": source.id, "fragments": entries}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            "its data.json does not list fragments", "Download it again", source.path
        ) from error


def _read(source: PuzzleSource, name: str) -> bytes:
    if Path(name).name != name or "\0" in name:
        raise InputError(f"{name!a} is no plain file name", "Download it again", source.path)
    try:
        if source.path.is_file() and source.kind == "repair-v2":
            return source.read_zipped(name)
        return (_picture_folder(source) / name).read_bytes()
    except (OSError, InputError) as error:
        raise InputError(
            f"{name} is missing or damaged", "Download it again", source.path
        ) from error


def _picture_folder(source: PuzzleSource) -> Path:
    if source.kind != "repair-v1":
        return source.path
    return source.path.parents[1] / "2D_Images" / "assembled_objects" / source.path.stem


@dataclass(frozen=True)
class Checked:
    """What is wrong with a download."""

    unread: dict[str, int]
    """Puzzles of which fragments cannot be read, and how many."""
    overlaps: dict[str, float]
    """Puzzles whose true poses look wrong, with the share of their area that lies on other
    pieces."""
    nameless: tuple[str, ...]
    """Folders of pictures beside the puzzles that have no poses."""


def check_files(repair: Repair, progress: Progress | None = None) -> Checked:
    """Reads every picture, which takes a while; each that cannot be read is a warning."""
    import shapely

    unread, overlaps = {}, {}
    for done, source in enumerate(repair.sources, start=1):
        try:
            puzzle, wanted = source.load(), fragment_count(source)
        except InputError as error:
            warnings.warn(str(error), InputWarning)
            puzzle, wanted = None, 1
        here = len(puzzle) if puzzle else 0
        if here < wanted:
            unread[source.id] = wanted - here
        if puzzle and puzzle.truth:
            pieces = [shapely.buffer(puzzle[i].placed(pose), 0) for i, pose in puzzle.truth.items()]
            share = 1.0 - shapely.union_all(pieces).area / sum(piece.area for piece in pieces)
            if share > OVERLAP:
                overlaps[source.id] = float(share)
        if progress is not None:
            progress(done, len(repair.sources), source.id)
    return Checked(unread, overlaps, tuple(_nameless(repair)))


def _nameless(repair: Repair) -> list[str]:
    """Folders of pictures that lie where a puzzle's do, and belong to none."""
    if repair.path.is_file():
        if not zipfile.is_zipfile(repair.path):
            return []
        with zipfile.ZipFile(repair.path) as archive:
            names = [name for name in archive.namelist() if is_image_name(name)]
        known = {source.inside for source in repair.sources}
    else:
        here = (path for path in repair.path.rglob("*") if is_image_name(path.name))
        names = [path.as_posix() for path in here]
        known = {_picture_folder(source).as_posix() for source in repair.sources}
    beside = {str(PurePosixPath(folder).parent) for folder in known}
    folders = {str(PurePosixPath(name).parent) for name in names} - known
    return sorted(f for f in folders if str(PurePosixPath(f).parent) in beside)


def make_folds(sizes: dict[str, int], count: int = FOLD_COUNT) -> list[list[str]]:
    """Divides puzzles into folds of about as many fragments each; those of one group, which may
    be of one wall, stay together.

    Args:
        sizes: fragments of each puzzle, by its id.
    """
    groups: dict[str, list[str]] = {}
    for i in sorted(sizes):
        found = GROUP.search(i)
        groups.setdefault(found[1] if found else i, []).append(i)
    folds: list[list[str]] = [[] for _ in range(min(count, len(groups)))]
    for group in sorted(groups.values(), key=lambda g: (-sum(sizes[i] for i in g), g)):
        smallest = min(folds, key=lambda fold: sum(sizes[i] for i in fold))
        smallest += group
    return [sorted(fold) for fold in folds]


def lay_out(
    repair: Repair,
    out: str | PathLike[str],
    *,
    test: Collection[str] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, int]:
    """Copies a download into `train/` and `test/`, a folder a puzzle, as `--data` wants it.

    Which puzzles are for tests is, in this order: `test`; the folders `train` and `test` of the
    download; for names of release 2, the list of 24. Where none applies, or the download is only a
    part of RePAIR that has no test puzzle, all puzzles lie side by side, with folds in
    `folds.json`.

    Args:
        test: ids, or names of folders, of the test puzzles.
        force: write into a folder that is not empty.

    Returns:
        How many puzzles there are by split; `folds` where there are folds.
    """
    splits = _splits(repair, test)
    divided = set(splits.values()) == {"train", "test"}
    counts: Counter[str] = Counter()
    with output_folder(out, force=force) as place:
        for done, source in enumerate(repair.sources, start=1):
            split = splits[source.id] if divided else ""
            counts[split or "puzzles"] += 1
            folder = place / split / source.id.replace("/", "_")
            folder.mkdir(parents=True)
            document = _document(source)
            for entry in document["fragments"]:
                _copy(source, str(entry["filename"]), folder)
            text = json.dumps(document, indent=1) + "\n"
            (folder / "data.json").write_text(text, encoding="utf-8", newline="\n")
            if progress is not None:
                progress(done, len(repair.sources), source.id)
        if not divided:
            sizes = {source.id: fragment_count(source) for source in repair.sources}
            folds = make_folds(sizes)
            counts["folds"] = len(folds)
            text = json.dumps({"folds": folds}, indent=1) + "\n"
            (place / FOLDS).write_text(text, encoding="utf-8", newline="\n")
    return dict(counts)


def _copy(source: PuzzleSource, name: str, folder: Path) -> None:
    if source.path.is_file() and source.kind == "repair-v2":
        (folder / name).write_bytes(_read(source, name))
        return
    picture = _picture_folder(source) / name
    if Path(name).name != name or not picture.is_file():
        raise InputError(f"{name} is missing", "Download it again", source.path)
    shutil.copyfile(picture, folder / name)


def _splits(repair: Repair, test: Collection[str] | None) -> dict[str, str]:
    names = {source.id: _folder_name(source) for source in repair.sources}
    if test is not None:
        wanted = set(test)
        if unknown := sorted(wanted - set(names) - set(names.values())):
            warnings.warn(
                f"{len(unknown)} test puzzles are not in the download: {_some(unknown)}",
                InputWarning,
            )
        chosen = {i for i, folder in names.items() if wanted & {i, folder}}
    elif all(source.split in REPAIR_SPLIT for source in repair.sources):
        return {source.id: str(source.split) for source in repair.sources}
    else:
        chosen = {i for i, folder in names.items() if _number(folder) in TEST_NUMBERS}
    return {i: "test" if i in chosen else "train" for i in names}


def _folder_name(source: PuzzleSource) -> str:
    return Path(source.inside).name if source.inside else source.path.stem


def _number(folder: str) -> int | None:
    found = re.fullmatch(r"puzzle_0*(\d+)_RP_group_\d+", folder, re.IGNORECASE)
    return int(found[1]) if found else None


def _some(names: Iterable[str], shown: int = 5) -> str:
    names = list(names)
    return ", ".join(names[:shown]) + ", ..." * (len(names) > shown)


def completeness(repair: Repair) -> str:
    """One line on how much of RePAIR this is."""
    fragments = sum(fragment_count(source) for source in repair.sources)
    return (
        f"{len(repair.sources)} of {REPAIR_PUZZLES} puzzles, {fragments} of {REPAIR_FRAGMENTS} "
        f"fragments; {repair.split}"
    )
