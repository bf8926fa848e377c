"""Writing files and folders so that either all of it is there afterwards, or nothing."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

from reassembly.errors import InputError

__all__ = [
    "DISK_FULL",
    "atomic_write",
    "check_output_folder",
    "check_whole",
    "disk_error",
    "disk_told",
    "output_folder",
    "sweep",
]

TEMPORARY = ".reassembly-"
"""How the names of our temporary files and folders begin."""
MERGE = f"{TEMPORARY}merge"
"""A folder in one whose files are being replaced: it holds new ones that are not in their places
yet, old ones that were, and the names of those that go. Nobody reads files beside it."""
LITTER = {".ds_store", "thumbs.db", "desktop.ini"}
"""What file managers leave behind: a folder with nothing else counts as empty."""
DISK_FULL = {errno.ENOSPC, errno.EDQUOT} if hasattr(errno, "EDQUOT") else {errno.ENOSPC}
REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}


def atomic_write(path: str | PathLike[str], data: bytes | str) -> None:
    """Writes a file whole: whoever reads it, now or after a crash, sees the old or the new content.

    Text is written as UTF-8 without changing its line ends. The folder must exist.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    target = _resolved(path)
    if target.is_dir():
        raise InputError("this is a folder, not a file", "Name a file to write to", path)
    if target.exists() and not target.is_file():  # A pipe or device cannot be replaced.
        with _as_input_errors(path):
            target.write_bytes(content)
        return
    if not target.parent.is_dir():
        what = "is not a folder" if target.parent.exists() else "does not exist"
        raise InputError(f"the folder {target.parent} {what}", "Create it, or choose another", path)
    temporary = target.with_name(_temporary_name())
    with _as_input_errors(path):
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def check_output_folder(path: str | PathLike[str], force: bool = False) -> None:
    """Raises `InputError` if `output_folder` would: to be called before a long computation.

    Leaves nothing behind.
    """
    target = _resolved(path)
    for place in (target, *target.parents):
        with _as_input_errors(path):
            exists = os.path.lexists(place)
        if not exists:
            continue
        if not place.is_dir():
            what = "this is a file" if place == target else f"{place} is a file"
            raise InputError(f"{what}, and not a folder", "Choose another output folder", path)
        break
    if place == target and not force and _holds_something(target):
        raise InputError(
            "the output folder is not empty",
            "Choose another, or add --force to overwrite the files that would be written again",
            path,
        )
    probe = place / _temporary_name()
    with _as_input_errors(path):
        probe.mkdir()
        probe.rmdir()


@contextmanager
def output_folder(
    path: str | PathLike[str], *, force: bool = False, replaces: Iterable[str] = ()
) -> Iterator[Path]:
    """A folder to write into, which becomes `path` only if the block succeeds.

    Missing parents are created. A `path` that exists and holds something is refused without
    `force`. With `force`, files written under a name that exists replace the old ones, and
    everything else stays: no folder is ever emptied. If anything fails, what was there is there
    unchanged, and nothing new is. A process that is killed leaves the old files, or the new ones,
    or, between the two, what `check_whole` refuses and the next call completes.

    Args:
        replaces: name patterns, such as `piece_*.png`, of files in `path` that belong to an earlier
            output and go when it is replaced.

    Yields:
        An empty folder on the same disk as `path`.
    """
    check_output_folder(path, force)
    target = _resolved(path)
    made = _make_parents(target, path)
    with _as_input_errors(path):
        _complete(target)
    # Inside a folder that exists, since that may be the only place here that we may write to.
    room = (target if target.exists() else target.parent) / _temporary_name()
    staging = room / "new"
    try:
        with _as_input_errors(path):
            staging.mkdir(parents=True)
        with _as_input_errors(path, only_under=staging):
            yield staging
        with _as_input_errors(path):
            if target.exists():
                _merge(room, target, path, tuple(replaces))
            else:
                staging.replace(target)
        made = []
    finally:
        shutil.rmtree(room, ignore_errors=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()


def check_whole(path: str | PathLike[str], *, within: bool = False) -> None:
    """Raises `InputError` where a command was killed while it replaced this file or folder.

    Args:
        within: or anything in the folder.
    """
    target = _resolved(path)
    inner = (half.parent for half in target.rglob(MERGE)) if within else ()
    for place in (target, *target.parents, *inner):
        if (place / MERGE).exists():
            raise InputError(
                "a command was stopped while it replaced the files here, so old and new are mixed",
                "Repeat that command with --force",
                place,
            )


def sweep(folder: Path) -> None:
    """Removes what killed processes left half written in a folder and those in it.

    Nobody else may be writing there.
    """
    for half in sorted(folder.rglob(MERGE)):
        _complete(half.parent)
    for rest in sorted(folder.rglob(f"{TEMPORARY}*")):
        if rest.is_dir() and not rest.is_symlink():
            shutil.rmtree(rest, ignore_errors=True)
        else:
            with suppress(OSError):
                rest.unlink(missing_ok=True)


def disk_error(error: BaseException, path: str | PathLike[str] | None = None) -> InputError | None:
    """What a user is told of a full disk, or of a place that may not be written.

    Args:
        error: the system's, or SQLite's.
        path: the file or folder it is about, where the error does not know.

    Returns:
        None for any other error.
    """
    number, where = getattr(error, "errno", None), getattr(error, "filename", None) or path
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # What is above tells more than we ask.
    if number in DISK_FULL or code == sqlite3.SQLITE_FULL:
        remedy = "Make room, or choose another disk, then repeat the command"
        return InputError("the disk is full", remedy, where)
    if number in REFUSED or code == sqlite3.SQLITE_READONLY:
        why = "its disk may only be read" if number == errno.EROFS else "permission denied"
        return InputError(
            f"this cannot be written: {why}", "Choose a place where you may write", where
        )
    return None


@contextmanager
def disk_told(path: str | PathLike[str]) -> Iterator[None]:
    """Turns an error of the disk into an `InputError`, about `path` where it names no file."""
    try:
        yield
    except OSError as error:
        if (told := disk_error(error, path)) is None:
            raise
        raise told from error


def _temporary_name() -> str:
    return f"{TEMPORARY}{secrets.token_hex(4)}"


def _resolved(path: str | PathLike[str]) -> Path:
    """Absolute, with links followed, so that links stay links and their targets are written."""
    try:
        if "\0" in str(path):
            raise ValueError("it holds a zero character")
        return Path(path).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        what = f"this is no usable path: {error}"
        raise InputError(what, "Choose another", ascii(str(path))) from error


def _holds_something(folder: Path) -> bool:
    with _as_input_errors(folder):
        names = [entry.name for entry in folder.iterdir()]
    return any(n.lower() not in LITTER and not n.startswith(TEMPORARY) for n in names)


def _make_parents(target: Path, path: str | PathLike[str]) -> list[Path]:
    """Creates the folders above `target`; returns those that were missing, innermost first."""
    missing = [parent for parent in target.parents if not parent.exists()]
    with _as_input_errors(path):
        target.parent.mkdir(parents=True, exist_ok=True)
    return missing


def _merge(room: Path, target: Path, path: str | PathLike[str], replaces: tuple[str, ...]) -> None:
    """Moves every file of `room/new` to its place in `target`, or, failing that, none."""
    new = _files(room / "new")
    old = {p.relative_to(target) for pattern in replaces for p in target.glob(pattern)}
    gone = sorted(name for name in old.difference(new) if not (target / name).is_dir())
    for name in new:
        above = [target / parent for parent in name.parents if (target / parent).exists()]
        if (target / name).is_dir() or not all(place.is_dir() for place in above):
            raise InputError(
                f"{name.as_posix()} cannot be written, since a file or folder is in its place",
                "Choose another output folder",
                path,
            )
    (room / "gone.json").write_text(json.dumps([n.as_posix() for n in gone]), encoding="utf-8")
    merge = room.replace(target / MERGE)
    undo: list[tuple[Path, Path]] = []

    def move(source: Path, goal: Path) -> None:
        goal.parent.mkdir(parents=True, exist_ok=True)
        source.replace(goal)
        undo.append((goal, source))

    try:
        for name in (*new, *gone):
            if os.path.lexists(target / name):
                move(target / name, merge / "old" / name)
        for name in new:
            move(merge / "new" / name, target / name)
    except BaseException:
        for moved, back in reversed(undo):
            moved.replace(back)
        merge.replace(room)
        raise
    _remove_empty(target, gone)
    merge.replace(room)


def _complete(target: Path) -> None:
    """Ends what a process began that was killed while it moved files to their places."""
    merge = target / MERGE
    if not merge.exists():
        return
    gone = [Path(name) for name in json.loads((merge / "gone.json").read_text(encoding="utf-8"))]
    for name in gone:
        (target / name).unlink(missing_ok=True)
    for name in _files(merge / "new"):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (merge / "new" / name).replace(target / name)
    _remove_empty(target, gone)
    shutil.rmtree(merge.replace(target / _temporary_name()), ignore_errors=True)


def _files(folder: Path) -> list[Path]:
    """Of a folder and those in it, relative to it."""
    return sorted(p.relative_to(folder) for p in folder.rglob("*") if not p.is_dir())


def _remove_empty(target: Path, gone: Iterable[Path]) -> None:
    """Removes folders in `target` that held nothing but what is gone."""
    for folder in {name.parent for name in gone} - {Path()}:
        with suppress(OSError):
            (target / folder).rmdir()


@contextmanager
def _as_input_errors(path: str | PathLike[str], only_under: Path | None = None) -> Iterator[None]:
    """Turns a failure to write into an `InputError` about `path`.

    Args:
        only_under: let other failures pass that do not concern files in this folder.
    """
    try:
        yield
    except OSError as error:
        ours = only_under is None or str(error.filename or "").startswith(str(only_under))
        if not ours and error.errno not in DISK_FULL:
            raise
        if (told := disk_error(error)) is not None:  # Its own file is a temporary one.
            raise InputError(told.what, told.remedy, path) from error
        raise InputError(
            f"this cannot be written ({error.strerror or error})", "Choose another place", path
        ) from error
