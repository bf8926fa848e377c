"""The workspace's database: SQLite, its tables, and the steps from each version to the next."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, Engine, ForeignKey, ForeignKeyConstraint, create_engine, event
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from reassembly.errors import InputError
from reassembly.io.files import disk_error

__all__ = [
    "FILE_NAME",
    "MIGRATIONS",
    "Base",
    "EventRow",
    "HypothesisRow",
    "JobRow",
    "JoinRow",
    "JoinSearchRow",
    "JudgementRow",
    "PictureRow",
    "PieceRow",
    "ProjectRow",
    "UploadRow",
    "migrate",
    "open_engine",
    "unopened",
]

FILE_NAME = "workspace.sqlite"

MIGRATIONS: list[list[str]] = [
    [
        """CREATE TABLE projects (
            id TEXT PRIMARY KEY, name TEXT NOT NULL, note TEXT NOT NULL,
            created_at TEXT NOT NULL, changed_at TEXT NOT NULL, sequence INTEGER NOT NULL)""",
        """CREATE TABLE pictures (
            sha256 TEXT PRIMARY KEY, width_px INTEGER NOT NULL, height_px INTEGER NOT NULL,
            levels JSON NOT NULL, outline_px JSON NOT NULL, area_px FLOAT NOT NULL,
            centroid_px JSON NOT NULL, colour JSON NOT NULL)""",
        """CREATE TABLE pieces (
            project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
            id TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL,
            inventory TEXT NOT NULL, note TEXT NOT NULL, provenance TEXT NOT NULL,
            filename TEXT NOT NULL, discarded BOOLEAN NOT NULL, mm_per_px FLOAT NOT NULL,
            scale_origin TEXT NOT NULL, picture TEXT NOT NULL REFERENCES pictures (sha256),
            frame_width_px INTEGER NOT NULL, frame_height_px INTEGER NOT NULL,
            left_px INTEGER NOT NULL, top_px INTEGER NOT NULL, warnings JSON NOT NULL,
            created_at TEXT NOT NULL, PRIMARY KEY (project_id, id))""",
        """CREATE TABLE hypotheses (
            project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
            id TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL,
            revision INTEGER NOT NULL, parent TEXT, parent_revision INTEGER,
            state TEXT NOT NULL, undo_top INTEGER NOT NULL, redo_top INTEGER NOT NULL,
            created_at TEXT NOT NULL, changed_at TEXT NOT NULL, PRIMARY KEY (project_id, id))""",
        """CREATE TABLE events (
            project_id TEXT NOT NULL, hypothesis_id TEXT NOT NULL, revision INTEGER NOT NULL,
            sequence INTEGER NOT NULL, at TEXT NOT NULL, author TEXT NOT NULL,
            client TEXT NOT NULL, kind TEXT NOT NULL, summary TEXT NOT NULL,
            operations TEXT NOT NULL, inverse TEXT NOT NULL, undo_next INTEGER NOT NULL,
            redo_next INTEGER NOT NULL, undone BOOLEAN NOT NULL,
            PRIMARY KEY (project_id, hypothesis_id, revision),
            FOREIGN KEY (project_id, hypothesis_id)
                REFERENCES hypotheses (project_id, id) ON DELETE CASCADE)""",
        "CREATE INDEX events_by_sequence ON events (project_id, sequence)",
        """CREATE TABLE judgements (
            project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
            id INTEGER PRIMARY KEY, first TEXT NOT NULL, second TEXT NOT NULL,
            x_mm FLOAT NOT NULL, y_mm FLOAT NOT NULL, rotation_deg FLOAT NOT NULL,
            verdict TEXT NOT NULL, author TEXT NOT NULL, at TEXT NOT NULL)""",
        "CREATE INDEX judgements_by_project ON judgements (project_id)",
        """CREATE TABLE jobs (
            number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
            project_id TEXT REFERENCES projects (id) ON DELETE CASCADE, hypothesis_id TEXT,
            kind TEXT NOT NULL, state TEXT NOT NULL, fraction FLOAT NOT NULL, stage TEXT NOT NULL,
            settings JSON NOT NULL, result JSON, error JSON, created_at TEXT NOT NULL,
            started_at TEXT, finished_at TEXT, interrupted INTEGER NOT NULL)""",
        "CREATE INDEX jobs_by_project ON jobs (project_id, number)",
        """CREATE TABLE uploads (
            id TEXT PRIMARY KEY,
            project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
            job_id TEXT NOT NULL, files JSON NOT NULL, created_at TEXT NOT NULL)""",
    ],
    [
        """CREATE TABLE joins (
            project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
            id TEXT NOT NULL, rank INTEGER NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL,
            x_mm FLOAT NOT NULL, y_mm FLOAT NOT NULL, rotation_deg FLOAT NOT NULL,
            probability FLOAT NOT NULL, gap_mm FLOAT NOT NULL, overlap_mm2 FLOAT NOT NULL,
            contact_mm FLOAT NOT NULL, PRIMARY KEY (project_id, id))""",
        """CREATE TABLE join_searches (
            project_id TEXT PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
            found_at TEXT NOT NULL, pieces TEXT NOT NULL)""",
    ],
    ["ALTER TABLE projects ADD COLUMN draft BOOLEAN NOT NULL DEFAULT 0"],
    ["ALTER TABLE join_searches ADD COLUMN verdicts TEXT NOT NULL DEFAULT ''"],
    ["ALTER TABLE projects ADD COLUMN imported_at TEXT"],
    [
        "ALTER TABLE events ADD COLUMN token TEXT NOT NULL DEFAULT ''",
        "CREATE INDEX events_by_token ON events (project_id, hypothesis_id, token)",
    ],
]
"""What to do to reach version 1, 2, ... Once released, a step is never changed."""


class Base(DeclarativeBase):
    """The tables as they are after the last migration; a test compares the two."""


class ProjectRow(Base):
    """Pieces that may belong together, with all that is thought of them."""

    __tablename__ = "projects"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    note: Mapped[str] = mapped_column(default="")
    created_at: Mapped[str]
    changed_at: Mapped[str]
    sequence: Mapped[int] = mapped_column(default=0)
    """Grows with every change, and numbers the messages of the stream."""
    draft: Mapped[bool] = mapped_column(default=False)
    """Made for an import: nothing to anybody until its first pieces have come in."""
    imported_at: Mapped[str | None] = mapped_column(default=None)
    """When it came out of a project file, which tells it from its original."""


class PictureRow(Base):
    """What is known of a picture in `images/`, which never changes."""

    __tablename__ = "pictures"
    sha256: Mapped[str] = mapped_column(primary_key=True)
    width_px: Mapped[int]
    height_px: Mapped[int]
    levels: Mapped[list[int]] = mapped_column(JSON)
    outline_px: Mapped[list[Any]] = mapped_column(JSON)
    """Rings of (x, y), the outer one first."""
    area_px: Mapped[float]
    centroid_px: Mapped[list[float]] = mapped_column(JSON)
    colour: Mapped[list[int]] = mapped_column(JSON)


class PieceRow(Base):
    """A piece, as every hypothesis of its project sees it."""

    __tablename__ = "pieces"
    project_id: Mapped[str] = mapped_column(
        ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    name: Mapped[str]
    inventory: Mapped[str] = mapped_column(default="")
    note: Mapped[str] = mapped_column(default="")
    provenance: Mapped[str] = mapped_column(default="")
    filename: Mapped[str] = mapped_column(default="")
    discarded: Mapped[bool] = mapped_column(default=False)
    mm_per_px: Mapped[float]
    scale_origin: Mapped[str]
    picture: Mapped[str] = mapped_column(ForeignKey("pictures.sha256"))
    frame_width_px: Mapped[int]
    """Of the whole scan, whose centre is the piece's origin."""
    frame_height_px: Mapped[int]
    left_px: Mapped[int]
    """Where the picture begins in the scan."""
    top_px: Mapped[int]
    warnings: Mapped[list[str]] = mapped_column(JSON)
    created_at: Mapped[str]


class HypothesisRow(Base):
    """One opinion of where the pieces belong, as it stands now."""

    __tablename__ = "hypotheses"
    project_id: Mapped[str] = mapped_column(
        ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    name: Mapped[str]
    revision: Mapped[int] = mapped_column(default=0)
    parent: Mapped[str | None]
    parent_revision: Mapped[int | None]
    state: Mapped[str]
    """JSON of `operations.State`."""
    undo_top: Mapped[int] = mapped_column(default=0)
    """The revision that undo takes back next; 0 for none."""
    redo_top: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[str]
    changed_at: Mapped[str]


class EventRow(Base):
    """Something done to a hypothesis, with what undoes it. Never deleted on its own."""

    __tablename__ = "events"
    __table_args__ = (
        ForeignKeyConstraint(
            ["project_id", "hypothesis_id"],
            ["hypotheses.project_id", "hypotheses.id"],
            ondelete="CASCADE",
        ),
    )
    project_id: Mapped[str] = mapped_column(primary_key=True)
    hypothesis_id: Mapped[str] = mapped_column(primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True)
    sequence: Mapped[int]
    at: Mapped[str]
    author: Mapped[str]
    client: Mapped[str]
    kind: Mapped[str]
    summary: Mapped[str]
    operations: Mapped[str]
    inverse: Mapped[str]
    undo_next: Mapped[int] = mapped_column(default=0)
    """What undo takes back after this one."""
    redo_next: Mapped[int] = mapped_column(default=0)
    undone: Mapped[bool] = mapped_column(default=False)
    token: Mapped[str] = mapped_column(default="")
    """Given by who sent it, so that what is sent twice is done once; empty for none."""


class JudgementRow(Base):
    """A person's verdict on a join."""

    __tablename__ = "judgements"
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"))
    id: Mapped[int] = mapped_column(primary_key=True)
    first: Mapped[str]
    second: Mapped[str]
    x_mm: Mapped[float]
    y_mm: Mapped[float]
    rotation_deg: Mapped[float]
    verdict: Mapped[str]
    author: Mapped[str]
    at: Mapped[str]


class JobRow(Base):
    """Work for another process."""

    __tablename__ = "jobs"
    number: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    project_id: Mapped[str | None] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"))
    hypothesis_id: Mapped[str | None]
    kind: Mapped[str]
    state: Mapped[str] = mapped_column(default="queued")
    fraction: Mapped[float] = mapped_column(default=0.0)
    stage: Mapped[str] = mapped_column(default="waiting")
    settings: Mapped[dict[str, Any]] = mapped_column(JSON)
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    error: Mapped[dict[str, str] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[str]
    started_at: Mapped[str | None]
    finished_at: Mapped[str | None]
    interrupted: Mapped[int] = mapped_column(default=0)


class UploadRow(Base):
    """Files that were sent and wait for what is to become of them."""

    __tablename__ = "uploads"
    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"))
    job_id: Mapped[str]
    files: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    created_at: Mapped[str]


class JoinRow(Base):
    """A candidate join, as the last search found it."""

    __tablename__ = "joins"
    project_id: Mapped[str] = mapped_column(
        ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    rank: Mapped[int]
    first: Mapped[str]
    second: Mapped[str]
    x_mm: Mapped[float]
    y_mm: Mapped[float]
    rotation_deg: Mapped[float]
    probability: Mapped[float]
    gap_mm: Mapped[float]
    overlap_mm2: Mapped[float]
    contact_mm: Mapped[float]


class JoinSearchRow(Base):
    """When joins were last searched, and among which pieces."""

    __tablename__ = "join_searches"
    project_id: Mapped[str] = mapped_column(
        ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True
    )
    found_at: Mapped[str]
    pieces: Mapped[str]
    """A fingerprint of the pieces; another one makes the joins stale."""
    verdicts: Mapped[str] = mapped_column(default="")
    """A fingerprint of what was accepted and rejected: with the same, the same is found again."""


def migrate(path: Path) -> None:
    """Creates the database, or brings it to the newest version, all or nothing."""
    try:
        connection = sqlite3.connect(path, isolation_level=None, timeout=10.0)
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > len(MIGRATIONS):
                raise InputError(
                    f"this workspace is of version {version}, and this program knows "
                    f"{len(MIGRATIONS)}",
                    "Update reassembly (pip install --upgrade reassembly)",
                    path,
                )
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            if version == len(MIGRATIONS):
                return
            connection.execute("BEGIN IMMEDIATE")
            for step in MIGRATIONS[version:]:
                for statement in step:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
            connection.execute("COMMIT")
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        raise unopened(error, path) from error


def unopened(error: BaseException, path: Path) -> InputError:
    """What a user is told of a workspace that cannot be opened.

    Args:
        error: SQLite's.
    """
    remedy = "See that its disk has room and may be written, close other programs that use it, "
    return disk_error(error, path) or InputError(
        f"this workspace cannot be opened ({error})",
        remedy + "restore it from a copy, or choose another folder",
        path,
    )


def open_engine(path: Path, *, writing: bool) -> Engine:
    """An engine whose transactions begin as readers, or at once as the one writer."""
    engine = create_engine(
        f"sqlite:///{path.as_posix()}",
        pool_size=1 if writing else 8,
        max_overflow=0 if writing else 56,
        connect_args={"timeout": 30.0, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        # Transactions are begun below, since the driver's own habit begins them too late.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in ("foreign_keys=ON", "synchronous=FULL", "busy_timeout=30000"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine
