"""The folder of an index.

    INDEX/depot.sqlite     every fragment: where it came from, its outline, its codes
    INDEX/segments.faiss   the codes of all segments, arranged for searching

The database is what counts: fragments are added to it whole or not at all. The file beside it is
made from it, and a note in the database tells whether the two belong together.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, ForeignKey, create_engine, delete, event, func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, defer, mapped_column

from reassembly.depot.coding import SEGMENTS, WIDTH, Coded, Wear
from reassembly.errors import InputError
from reassembly.io.files import disk_error

__all__ = [
    "DATABASE",
    "SEARCH_FILE",
    "Depot",
    "FragmentRow",
    "Read",
    "Summary",
    "Unit",
    "file_digest",
    "open_depot",
]

DATABASE, SEARCH_FILE = "depot.sqlite", "segments.faiss"
FORMAT = 1
"""Counts up whenever the tables or the codes change."""
SIZES = {"frames": SEGMENTS * 12, "codes": 2 * SEGMENTS * WIDTH, "piece": 2 * WIDTH}
"""Bytes of a fragment's blobs."""


class Base(DeclarativeBase):
    """The tables."""


class NoteRow(Base):
    """What holds for the index as a whole."""

    __tablename__ = "notes"
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class UnitRow(Base):
    """A picture, or a puzzle, that was read in one go."""

    __tablename__ = "units"
    key: Mapped[str] = mapped_column(primary_key=True)
    stamp: Mapped[str]
    """Of its files when they were read."""


class FragmentRow(Base):
    """A fragment and its codes."""

    __tablename__ = "fragments"
    number: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    unit: Mapped[str] = mapped_column(ForeignKey("units.key"), index=True)
    picture: Mapped[str]
    """Path of the picture; of the zip file, where it is in one."""
    mm_per_px: Mapped[float]
    area_mm2: Mapped[float]
    outline: Mapped[bytes]
    frames: Mapped[bytes]
    codes: Mapped[bytes]
    """What the segments have, then what they lack."""
    piece: Mapped[bytes]
    check: Mapped[int]
    """CRC-32 of the blobs, in this order."""


@dataclass(frozen=True)
class Unit:
    """What is read in one go, as the index remembers it."""

    key: str
    stamp: str


@dataclass(frozen=True, eq=False)
class Read:
    """What became of a unit."""

    unit: Unit
    fragments: Sequence[tuple[str, Coded]]
    """Where each one's picture is, and its codes."""


@dataclass(frozen=True, eq=False)
class Summary:
    """All fragments, without the codes of their segments."""

    numbers: NDArray[np.int64]
    """(N,), rising."""
    ids: Sequence[str]
    frames: NDArray[np.float32]
    """(N, SEGMENTS, 3); see `Coded`."""
    piece_has: NDArray[np.int8]
    """(N, WIDTH)."""
    piece_lacks: NDArray[np.int8]
    """(N, WIDTH)."""
    area_mm2: NDArray[np.float64]
    """(N,)."""


def open_depot(path: str | PathLike[str], *, create: bool = False) -> Depot:
    """Opens an index, or begins one.

    Args:
        create: make the folder and an empty index where there is none.
    """
    folder = Path(path)
    file = folder / DATABASE
    if not file.is_file():
        if not create:
            raise InputError(
                "there is no index here", "Make one with: reassembly index DIR --out INDEX", path
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            what = f"this cannot be written ({error.strerror or error})"
            raise InputError(what, "Choose another place", path) from error
    depot = Depot(folder)
    with depot.errors():
        depot.begin(create)
    return depot


class Depot:
    """An open index. One process at a time writes into it; any number may read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._engine = _engine(folder / DATABASE)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turns what the database complains about into an `InputError`."""
        try:
            yield
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None)
            if isinstance(cause, sqlite3.Error) and (told := disk_error(cause, self.folder)):
                raise told from error
            raise _damaged(self.folder, str(cause or error).splitlines()[0]) from error

    def begin(self, create: bool) -> None:
        """Makes the tables where they are missing, and checks that this version can read them."""
        with self._engine.begin() as connection:
            if create:
                Base.metadata.create_all(connection)
        with Session(self._engine) as session:
            found = session.get(NoteRow, "format")
            if found is None and create:
                session.add(NoteRow(key="format", value=str(FORMAT)))
                session.commit()
            elif found is None or found.value != str(FORMAT):
                what = f"this index is of format {found.value if found else 'none'}, not {FORMAT}"
                raise InputError(what, "Make it anew, in another folder", self.folder)

    def note(self, key: str) -> str | None:
        with self.errors(), Session(self._engine) as session:
            row = session.get(NoteRow, key)
            return None if row is None else row.value

    def set_note(self, key: str, value: str) -> None:
        with self.errors(), Session(self._engine) as session:
            session.merge(NoteRow(key=key, value=value))
            session.commit()

    def wear(self) -> Wear | None:
        """Of the pieces that the index is made for; None before that is settled."""
        found = self.note("wear")
        if found is None:  # Earlier versions knew lightly worn pieces only.
            return "light" if self.note("coder") else None
        return "light" if found == "light" else "worn"

    def settle_wear(self, wanted: Wear | None) -> Wear:
        """The wear that the index is made for: if it is new, what is wanted, or `worn`."""
        known = self.wear()
        if known is None:
            known = wanted or "worn"
            self.set_note("wear", known)
        elif wanted not in (None, known):
            raise InputError(
                f"this index is made for pieces of the wear {known}, not {wanted}",
                "Leave --wear out, or make an index of its own, in another folder",
                self.folder,
            )
        return known

    def check_coder(self, digest: str) -> None:
        """Raises `InputError` unless the index was made with the network of this digest."""
        if self.note("coder") != digest:
            raise InputError(
                "this index was made with another version of the network",
                "Make it anew, in another folder",
                self.folder,
            )

    def units(self) -> dict[str, str]:
        """Stamps by key."""
        with self.errors(), Session(self._engine) as session:
            return {
                row.key: row.stamp for row in session.execute(select(UnitRow.key, UnitRow.stamp))
            }

    def __len__(self) -> int:
        with self.errors(), Session(self._engine) as session:
            return session.scalar(select(func.count()).select_from(FragmentRow)) or 0

    def add(self, read: Sequence[Read]) -> None:
        """Adds what was read, in place of what its units held before, all or none."""
        rows = [_row(one.unit, picture, coded) for one in read for picture, coded in one.fragments]
        with self.errors(), Session(self._engine) as session:
            keys = [one.unit.key for one in read]
            session.execute(delete(FragmentRow).where(FragmentRow.unit.in_(keys)))
            taken = session.execute(
                select(FragmentRow.id, FragmentRow.picture).where(
                    FragmentRow.id.in_([row.id for row in rows])
                )
            ).first()
            if taken is not None:
                raise InputError(
                    f"the index holds another fragment {taken[0]!r} already, of {taken[1]}",
                    "Rename one of them, or index a folder above both",
                    next(row.picture for row in rows if row.id == taken[0]),
                )
            for one in read:
                session.merge(UnitRow(key=one.unit.key, stamp=one.unit.stamp))
            session.flush()
            session.add_all(rows)
            session.merge(NoteRow(key="search", value=""))
            session.commit()

    def find(self, fragment_id: str) -> FragmentRow | None:
        with self.errors(), Session(self._engine) as session:
            row = session.scalar(select(FragmentRow).where(FragmentRow.id == fragment_id))
            if row is not None:
                session.expunge(row)
                self._check(row)
            return row

    def id_of(self, picture: Path) -> str | None:
        """The id of the fragment of a picture."""
        with self.errors(), Session(self._engine) as session:
            return session.scalar(select(FragmentRow.id).where(FragmentRow.picture == str(picture)))

    def coded(self, row: FragmentRow) -> Coded:
        """A row as what was coded."""
        has, lacks = _pair(row.codes, (SEGMENTS, WIDTH))
        piece_has, piece_lacks = _pair(row.piece, (WIDTH,))
        return Coded(
            id=row.id,
            filename=Path(row.picture).name,
            mm_per_px=row.mm_per_px,
            area_mm2=row.area_mm2,
            outline=row.outline,
            frames=_frames(row.frames),
            has=has,
            lacks=lacks,
            piece_has=piece_has,
            piece_lacks=piece_lacks,
        )

    def codes(self, numbers: Iterable[int]) -> dict[int, tuple[Any, Any]]:
        """By number, what the segments of fragments have and lack: (SEGMENTS, WIDTH) each."""
        wanted = [int(number) for number in numbers]
        found: dict[int, tuple[Any, Any]] = {}
        with self.errors(), Session(self._engine) as session:
            for start in range(0, len(wanted), 500):  # SQLite takes no endless list.
                some = select(FragmentRow.number, FragmentRow.codes).where(
                    FragmentRow.number.in_(wanted[start : start + 500])
                )
                for number, codes in session.execute(some):
                    if len(codes) != SIZES["codes"]:
                        raise _damaged(self.folder, f"the codes of fragment {number} are cut off")
                    found[number] = _pair(codes, (SEGMENTS, WIDTH))
        return found

    def rows(self) -> Iterator[FragmentRow]:
        """Every fragment in full, in the order of their numbers, each checked."""
        with self.errors(), Session(self._engine) as session:
            query = select(FragmentRow).order_by(FragmentRow.number)
            for row in session.scalars(query.execution_options(yield_per=500)):
                session.expunge(row)
                self._check(row)
                yield row

    def pictures(self) -> dict[str, str]:
        """By fragment id, where its picture is."""
        with self.errors(), Session(self._engine) as session:
            found = session.execute(select(FragmentRow.id, FragmentRow.picture))
            return {row.id: row.picture for row in found}

    def scales(self) -> dict[str, float]:
        """By fragment id, mm per pixel."""
        with self.errors(), Session(self._engine) as session:
            found = session.execute(select(FragmentRow.id, FragmentRow.mm_per_px))
            return {row.id: row.mm_per_px for row in found}

    def summary(self) -> Summary:
        """What is known of all fragments at once."""
        with self.errors(), Session(self._engine) as session:
            query = select(FragmentRow).options(
                defer(FragmentRow.codes), defer(FragmentRow.outline)
            )
            rows = session.scalars(query.order_by(FragmentRow.number)).all()
            for row in rows:
                if (len(row.frames), len(row.piece)) != (SIZES["frames"], SIZES["piece"]):
                    raise _damaged(self.folder, f"fragment {row.id} is cut off")
            pieces = np.frombuffer(b"".join(row.piece for row in rows), np.int8)
            pieces = pieces.reshape(len(rows), 2, WIDTH)
            return Summary(
                np.array([row.number for row in rows], np.int64),
                [row.id for row in rows],
                _frames(b"".join(row.frames for row in rows)).reshape(len(rows), SEGMENTS, 3),
                pieces[:, 0],
                pieces[:, 1],
                np.array([row.area_mm2 for row in rows]),
            )

    def _check(self, row: FragmentRow) -> None:
        sizes = {name: len(getattr(row, name)) for name in SIZES}
        if sizes != SIZES or row.check != _check(row):
            raise _damaged(self.folder, f"fragment {row.id} is not as it was written")


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(folder: Path, reason: str) -> InputError:
    return InputError(
        f"this index is damaged, locked or none ({reason})",
        "Close other programs that use it, or make it anew in another folder",
        folder,
    )


def _row(unit: Unit, picture: str, coded: Coded) -> FragmentRow:
    row = FragmentRow(
        id=coded.id,
        unit=unit.key,
        picture=picture,
        mm_per_px=coded.mm_per_px,
        area_mm2=coded.area_mm2,
        outline=coded.outline,
        frames=coded.frames.astype("<f4").tobytes(),
        codes=coded.has.tobytes() + coded.lacks.tobytes(),
        piece=coded.piece_has.tobytes() + coded.piece_lacks.tobytes(),
    )
    row.check = _check(row)
    return row


def _check(row: FragmentRow) -> int:
    return zlib.crc32(row.outline + row.frames + row.codes + row.piece)


def _frames(data: bytes) -> NDArray[np.float32]:
    return np.frombuffer(data, "<f4").astype(np.float32).reshape(-1, 3)


def _pair(data: bytes, shape: tuple[int, ...]) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    both = np.frombuffer(data, np.int8).reshape(2, *shape)
    return both[0], both[1]


def _engine(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path.as_posix()}", connect_args={"timeout": 30.0})

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    return engine
