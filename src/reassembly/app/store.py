"""What the workbench knows, durable before any answer is given.

Every change is one transaction; a change of a hypothesis is also an event with its inverse, from
which undo, redo, history and old revisions follow.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from reassembly.app import database as db
from reassembly.app import schema
from reassembly.app.document import FORMAT, VERSION
from reassembly.app.operations import (
    OPERATIONS,
    Describe,
    Discard,
    Judge,
    Operation,
    Planar,
    ProjectOperation,
    ReplaceAll,
    Scale,
    SetPicture,
    State,
    apply,
    describe_in_words,
)
from reassembly.errors import InputError
from reassembly.pose import wrap_deg

__all__ = ["Conflict", "Message", "Missing", "Store", "new_id", "now"]

SAME_JOIN_MM, SAME_JOIN_DEG = 12.0, 12.0
"""Two verdicts on one pair this close are about the same join, as `matching.joins` has it too."""
LONGEST_REPLAY = 500
"""Messages that a window may have missed before it is told to read everything anew."""
MOST_TEXTS = 64
FIRST_HYPOTHESIS = "First hypothesis"
_HASH = re.compile(r"\b[0-9a-f]{64}\b")
_PROJECT_OPERATIONS = (Judge, Describe, Scale, Discard, SetPicture)

Message = tuple[str, int | None, dict[str, Any]]
"""Of the stream: the event's name, its sequence number, its data."""
Publish = Callable[[str, Message], None]


_PIECE_FIELDS = (
    "id",
    "name",
    "inventory",
    "note",
    "provenance",
    "filename",
    "discarded",
    "mm_per_px",
    "scale_origin",
    "picture",
    "warnings",
    "created_at",
)
_HYPOTHESIS_FIELDS = (
    "id",
    "name",
    "parent",
    "parent_revision",
    "undo_top",
    "redo_top",
    "created_at",
    "changed_at",
)
_EVENT_FIELDS = (
    "revision",
    "at",
    "author",
    "client",
    "kind",
    "summary",
    "undo_next",
    "redo_next",
    "undone",
)


class Missing(Exception):  # noqa: N818 (it becomes a 404)
    """There is no such thing."""

    def __init__(self, thing: str) -> None:
        super().__init__(f"there is no such {thing}")


class Conflict(Exception):  # noqa: N818 (it becomes a 409)
    """The thing is not in a state for this."""

    def __init__(self, what: str, remedy: str) -> None:
        self.what, self.remedy = what, remedy
        super().__init__(what)


def new_id() -> str:
    """Twelve random hexadecimal digits."""
    return secrets.token_hex(6)


def now() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Store:
    """The database of one workspace. Methods may be called from any thread."""

    def __init__(self, folder: Path, publish: Publish) -> None:
        path = folder / db.FILE_NAME
        db.migrate(path)
        self._readers = db.open_engine(path, writing=False)
        self._writer = db.open_engine(path, writing=True)
        self._lock = threading.Lock()
        self._publish = publish
        self._texts: dict[tuple[str, ...], tuple[int, str]] = {}

    def close(self) -> None:
        self._readers.dispose()
        self._writer.dispose()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        with Session(self._readers) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[_Change]:
        """A transaction; its messages go out once it is durable."""
        with self._lock:
            with Session(self._writer, expire_on_commit=False) as session:
                change = _Change(session)
                yield change
                session.commit()
            # Still under the lock, so that windows hear of changes in their order.
            for project_id, message in change.messages:
                self._publish(project_id, message)

    # Projects

    def projects(self) -> list[schema.ProjectSummary]:
        with self.reading() as session:
            pieces = _counts(session, db.PieceRow)
            hypotheses = _counts(session, db.HypothesisRow)
            rows = session.scalars(select(db.ProjectRow).order_by(db.ProjectRow.changed_at.desc()))
            return [
                schema.ProjectSummary(
                    id=row.id,
                    name=row.name,
                    created_at=row.created_at,
                    changed_at=row.changed_at,
                    pieces=pieces.get(row.id, 0),
                    hypotheses=hypotheses.get(row.id, 0),
                )
                for row in rows
            ]

    def add_project(self, name: str, note: str = "") -> str:
        at, project_id = now(), new_id()
        with self.writing() as change:
            change.session.add(
                db.ProjectRow(id=project_id, name=name, note=note, created_at=at, changed_at=at)
            )
            change.session.flush()
            change.session.add(_hypothesis_row(project_id, FIRST_HYPOTHESIS, 1, State(), at))
        return project_id

    def project(self, project_id: str) -> schema.Project:
        with self.reading() as session:
            row = _project(session, project_id)
            return schema.Project(
                id=row.id,
                name=row.name,
                note=row.note,
                created_at=row.created_at,
                changed_at=row.changed_at,
                sequence=row.sequence,
                pieces=_pieces(session, project_id),
                hypotheses=_summaries(session, project_id),
                judgements=_judgements(session, project_id),
                jobs=[],
            )

    def project_text(self, project_id: str) -> str:
        """A project without its jobs, as JSON; twenty windows that read it cost little more than
        one."""
        return self._cached(
            (project_id,),
            lambda: self.project(project_id).model_dump_json(exclude={"jobs"}),
        )

    def hypothesis_text(self, project_id: str, hypothesis_id: str) -> str:
        """A hypothesis as JSON."""
        return self._cached(
            (project_id, hypothesis_id),
            lambda: self.hypothesis(project_id, hypothesis_id).model_dump_json(),
        )

    def _cached(self, key: tuple[str, ...], make: Callable[[], str]) -> str:
        """Text that holds as long as its project does not change."""
        sequence = self.sequence(key[0])
        kept = self._texts.get(key)
        if kept is not None and kept[0] == sequence:
            return kept[1]
        # What is made may be newer than its number, never older: then it is made once more.
        text = make()
        if len(self._texts) >= MOST_TEXTS:
            self._texts.clear()
        self._texts[key] = (sequence, text)
        return text

    def sequence(self, project_id: str) -> int:
        with self.reading() as session:
            return _project(session, project_id).sequence

    def change_project(self, project_id: str, wanted: schema.ProjectChange) -> None:
        with self.writing() as change:
            row = change.touch(project_id, "project")
            row.name = row.name if wanted.name is None else wanted.name
            row.note = row.note if wanted.note is None else wanted.note

    def delete_project(self, project_id: str) -> None:
        with self.writing() as change:
            change.session.delete(_project(change.session, project_id))
            change.messages.append((project_id, ("gone", None, {})))

    # Pieces

    def pieces(self, project_id: str) -> list[schema.Piece]:
        with self.reading() as session:
            _project(session, project_id)
            return _pieces(session, project_id)

    def piece(self, project_id: str, piece_id: str) -> schema.Piece:
        with self.reading() as session:
            row = _piece(session, project_id, piece_id)
            return _piece_model(row, _facts(session, {row.picture})[row.picture])

    def piece_row(self, project_id: str, piece_id: str) -> db.PieceRow:
        with self.reading() as session:
            return _piece(session, project_id, piece_id)

    def piece_rows(self, project_id: str) -> list[db.PieceRow]:
        """In their order, the discarded ones too."""
        with self.reading() as session:
            _project(session, project_id)
            return list(session.scalars(_in_order(db.PieceRow, project_id)))

    def picture_known(self, sha256: str) -> bool:
        with self.reading() as session:
            return session.get(db.PictureRow, sha256) is not None

    def add_pictures(self, pictures: Sequence[dict[str, Any]]) -> None:
        with self.writing() as change:
            _add_pictures(change.session, pictures)

    def forget_pictures(self, old: Callable[[str], bool]) -> list[str]:
        """Drops pictures that no piece, state or event refers to any more.

        Args:
            old: whether a picture has been there long enough; one that a job is about to use
                has not.

        Returns:
            The hashes of those dropped, whose files may go.
        """
        with self.writing() as change:
            session = change.session
            used = set(session.scalars(select(db.PieceRow.picture)))
            for column in (db.HypothesisRow.state, db.EventRow.operations, db.EventRow.inverse):
                for text in session.scalars(select(column).where(column.contains('"picture"'))):
                    used.update(_HASH.findall(text))
            known = session.scalars(select(db.PictureRow.sha256)).all()
            gone = [sha256 for sha256 in known if sha256 not in used and old(sha256)]
            for start in range(0, len(gone), 500):
                part = gone[start : start + 500]
                session.execute(delete(db.PictureRow).where(db.PictureRow.sha256.in_(part)))
            return gone

    def add_pieces(
        self,
        project_id: str,
        pieces: Sequence[dict[str, Any]],
        pictures: Sequence[dict[str, Any]],
        client: str = "",
    ) -> list[str]:
        """New pieces, which no hypothesis has placed yet.

        Args:
            pieces: columns of `PieceRow`; `id` may be left out.
            pictures: columns of `PictureRow`.
        """
        with self.writing() as change:
            change.touch(project_id, "pieces", client)
            _add_pictures(change.session, pictures)
            return _add_pieces(change.session, project_id, pieces)

    # Hypotheses

    def hypotheses(self, project_id: str) -> list[schema.HypothesisSummary]:
        with self.reading() as session:
            _project(session, project_id)
            return _summaries(session, project_id)

    def hypothesis(self, project_id: str, hypothesis_id: str) -> schema.Hypothesis:
        with self.reading() as session:
            row = _hypothesis(session, project_id, hypothesis_id)
            state = _state(row)
            discarded = _discarded(session, project_id)
            summary = _summary(row, state, discarded)
            return schema.Hypothesis(**summary.model_dump(), state=state)

    def state(self, project_id: str, hypothesis_id: str) -> State:
        with self.reading() as session:
            return _state(_hypothesis(session, project_id, hypothesis_id))

    def add_hypothesis(self, project_id: str, wanted: schema.NewHypothesis) -> str:
        at = now()
        with self.writing() as change:
            change.touch(project_id, "hypotheses", wanted.client)
            state = State()
            revision = None
            if wanted.source is not None:
                row = _hypothesis(change.session, project_id, wanted.source)
                revision = row.revision if wanted.revision is None else wanted.revision
                state = _state_at(change.session, row, revision)
                state.revision = 0
            elif wanted.revision is not None:
                raise InputError("a revision of no hypothesis", "Say from which one")
            last = change.session.scalar(
                select(func.max(db.HypothesisRow.position)).where(
                    db.HypothesisRow.project_id == project_id
                )
            )
            new = _hypothesis_row(project_id, wanted.name, (last or 0) + 1, state, at)
            new.parent, new.parent_revision = wanted.source, revision
            change.session.add(new)
            return new.id

    def rename_hypothesis(self, project_id: str, hypothesis_id: str, name: str) -> None:
        with self.writing() as change:
            row = _hypothesis(change.session, project_id, hypothesis_id)
            change.touch(project_id, "hypotheses")
            row.name, row.changed_at = name, now()

    def delete_hypothesis(self, project_id: str, hypothesis_id: str) -> None:
        with self.writing() as change:
            row = _hypothesis(change.session, project_id, hypothesis_id)
            if _counts(change.session, db.HypothesisRow)[project_id] == 1:
                raise Conflict(
                    "this is the project's last hypothesis", "Make another one before deleting it"
                )
            change.touch(project_id, "hypotheses")
            change.session.delete(row)

    def state_at(self, project_id: str, hypothesis_id: str, revision: int) -> State:
        with self.reading() as session:
            return _state_at(session, _hypothesis(session, project_id, hypothesis_id), revision)

    def history(
        self, project_id: str, hypothesis_id: str, before: int | None, limit: int
    ) -> list[schema.Event]:
        with self.reading() as session:
            _hypothesis(session, project_id, hypothesis_id)
            query = _events(project_id, hypothesis_id).order_by(db.EventRow.revision.desc())
            if before is not None:
                query = query.where(db.EventRow.revision < before)
            return [_event_model(row) for row in session.scalars(query.limit(limit))]

    # Edits

    def edit(
        self,
        project_id: str,
        hypothesis_id: str,
        operations: Sequence[Operation],
        *,
        author: str = "",
        client: str = "",
        kind: str = "edit",
        summary: str | None = None,
        pieces: Sequence[dict[str, Any]] = (),
        pictures: Sequence[dict[str, Any]] = (),
    ) -> schema.EditResult:
        """Does all operations or none.

        Args:
            pieces, pictures: brought in first, in the same transaction.
        """
        with self.writing() as change:
            _add_pictures(change.session, pictures)
            if pieces:
                change.touch(project_id, "pieces")
                _add_pieces(change.session, project_id, pieces)
            row = _hypothesis(change.session, project_id, hypothesis_id)
            event = _append(change, row, operations, author, client, kind, summary)
            event.undo_next, row.undo_top, row.redo_top = row.undo_top, row.revision, 0
            return change.edited(row, event)

    def undo(self, project_id: str, hypothesis_id: str, who: schema.Who) -> schema.EditResult:
        with self.writing() as change:
            row = _hypothesis(change.session, project_id, hypothesis_id)
            if row.undo_top == 0:
                raise Conflict("there is nothing to undo", "Go on")
            target = change.session.get_one(db.EventRow, (project_id, hypothesis_id, row.undo_top))
            summary = f"undid: {target.summary}"
            operations = OPERATIONS.validate_json(target.inverse)
            event = _append(change, row, operations, who.author, who.client, "undo", summary)
            target.undone, target.redo_next = True, row.redo_top
            row.undo_top, row.redo_top = target.undo_next, target.revision
            return change.edited(row, event)

    def redo(self, project_id: str, hypothesis_id: str, who: schema.Who) -> schema.EditResult:
        with self.writing() as change:
            row = _hypothesis(change.session, project_id, hypothesis_id)
            if row.redo_top == 0:
                raise Conflict("there is nothing to redo", "Go on")
            target = change.session.get_one(db.EventRow, (project_id, hypothesis_id, row.redo_top))
            summary = f"redid: {target.summary}"
            operations = OPERATIONS.validate_json(target.operations)
            event = _append(change, row, operations, who.author, who.client, "redo", summary)
            target.undone = False
            row.undo_top, row.redo_top = target.revision, target.redo_next
            return change.edited(row, event)

    def restore(
        self, project_id: str, hypothesis_id: str, wanted: schema.Restore
    ) -> schema.EditResult:
        old = self.state_at(project_id, hypothesis_id, wanted.revision)
        return self.edit(
            project_id,
            hypothesis_id,
            [
                ReplaceAll(
                    placements=old.placements,
                    guides=old.guides,
                    reference=old.reference,
                    keep_reference=False,
                )
            ],
            author=wanted.author,
            client=wanted.client,
            kind="restore",
            summary=f"restored revision {wanted.revision}",
        )

    def judgements(self, project_id: str) -> list[schema.Judgement]:
        with self.reading() as session:
            _project(session, project_id)
            return _judgements(session, project_id)

    # Whole projects

    def document(self, project_id: str) -> dict[str, Any]:
        """A project as `document.Document`, without its pictures."""
        with self.reading() as session:
            row = _project(session, project_id)
            return {
                "format": FORMAT,
                "version": VERSION,
                "name": row.name,
                "note": row.note,
                "created_at": row.created_at,
                "changed_at": row.changed_at,
                "pieces": [
                    {
                        **{name: getattr(piece, name) for name in _PIECE_FIELDS},
                        "frame_px": [piece.frame_width_px, piece.frame_height_px],
                        "offset_px": [piece.left_px, piece.top_px],
                    }
                    for piece in session.scalars(_in_order(db.PieceRow, project_id))
                ],
                "hypotheses": [
                    {
                        **{name: getattr(hypothesis, name) for name in _HYPOTHESIS_FIELDS},
                        "state": _state(hypothesis).model_dump(mode="json"),
                        "events": [
                            {
                                **{name: getattr(event, name) for name in _EVENT_FIELDS},
                                "operations": json.loads(event.operations),
                                "inverse": json.loads(event.inverse),
                            }
                            for event in session.scalars(
                                _events(project_id, hypothesis.id).order_by(db.EventRow.revision)
                            )
                        ],
                    }
                    for hypothesis in session.scalars(_in_order(db.HypothesisRow, project_id))
                ],
                "judgements": [
                    verdict.model_dump(mode="json") for verdict in _judgements(session, project_id)
                ],
            }

    def add_document(
        self, project_id: str, document: dict[str, Any], pictures: Sequence[dict[str, Any]]
    ) -> None:
        """Brings a checked `document.Document` in, once.

        Args:
            project_id: a new one.
        """
        with self.writing() as change:
            session = change.session
            if session.get(db.ProjectRow, project_id) is not None:
                return
            _add_pictures(session, pictures)
            events = sum(len(hypothesis["events"]) for hypothesis in document["hypotheses"])
            about = {k: document[k] for k in ("name", "note", "created_at", "changed_at")}
            session.add(db.ProjectRow(id=project_id, sequence=events, **about))
            session.flush()
            _add_pieces(session, project_id, [_piece_columns(p) for p in document["pieces"]])
            sequence = 0
            for position, entry in enumerate(document["hypotheses"], start=1):
                state = State.model_validate(entry["state"])
                session.add(
                    db.HypothesisRow(
                        project_id=project_id,
                        position=position,
                        revision=state.revision,
                        state=state.model_dump_json(exclude_defaults=True),
                        **{name: entry[name] for name in _HYPOTHESIS_FIELDS},
                    )
                )
                session.flush()
                for event in entry["events"]:
                    sequence += 1
                    session.add(
                        db.EventRow(
                            project_id=project_id,
                            hypothesis_id=entry["id"],
                            sequence=sequence,
                            operations=json.dumps(event["operations"]),
                            inverse=json.dumps(event["inverse"]),
                            **{name: event[name] for name in _EVENT_FIELDS},
                        )
                    )
            for verdict in document["judgements"]:
                about = {k: verdict[k] for k in ("first", "second", "verdict", "author", "at")}
                session.add(db.JudgementRow(project_id=project_id, **about, **verdict["pose"]))

    # Uploads

    def add_upload(self, project_id: str, upload_id: str, job_id: str) -> None:
        with self.writing() as change:
            _project(change.session, project_id)
            change.session.add(
                db.UploadRow(
                    id=upload_id, project_id=project_id, job_id=job_id, files=[], created_at=now()
                )
            )

    def set_upload_files(self, upload_id: str, files: list[dict[str, Any]]) -> None:
        with self.writing() as change:
            row = change.session.get(db.UploadRow, upload_id)
            if row is None:
                raise Missing("upload")
            row.files = files

    def upload(self, project_id: str, upload_id: str) -> db.UploadRow:
        with self.reading() as session:
            row = session.get(db.UploadRow, upload_id)
            if row is None or row.project_id != project_id:
                raise Missing("upload")
            return row

    # Stream

    def missed(self, project_id: str, after: int) -> list[Message] | None:
        """The messages after a sequence number; None where they cannot be told one by one."""
        with self.reading() as session:
            current = _project(session, project_id).sequence
            if after == current:
                return []
            if not 0 <= current - after <= LONGEST_REPLAY:
                return None
            rows = session.scalars(
                select(db.EventRow)
                .where(db.EventRow.project_id == project_id, db.EventRow.sequence > after)
                .order_by(db.EventRow.sequence)
            ).all()
            if len(rows) != current - after:
                return None
            by_id = {
                row.id: row for row in session.scalars(_in_order(db.HypothesisRow, project_id))
            }
            return [_edit_message(by_id[row.hypothesis_id], row) for row in rows]

    # Joins

    def joins(self, project_id: str, piece_id: str | None = None) -> schema.JoinList:
        with self.reading() as session:
            _project(session, project_id)
            query = (
                select(db.JoinRow)
                .where(db.JoinRow.project_id == project_id)
                .order_by(db.JoinRow.rank)
            )
            if piece_id is not None:
                _piece(session, project_id, piece_id)
                query = query.where(
                    (db.JoinRow.first == piece_id) | (db.JoinRow.second == piece_id)
                )
            search = session.get(db.JoinSearchRow, project_id)
            verdicts = session.scalars(
                select(db.JudgementRow).where(db.JudgementRow.project_id == project_id)
            ).all()
            gone = _discarded(session, project_id)
            centroids = _centroids(session, project_id)
            return schema.JoinList(
                joins=[
                    _join_model(row, verdicts, centroids)
                    for row in session.scalars(query)
                    if row.first not in gone and row.second not in gone
                ],
                found_at=None if search is None else search.found_at,
                stale=search is not None and search.pieces != _fingerprint(session, project_id),
            )

    def join(self, project_id: str, join_id: str) -> db.JoinRow:
        with self.reading() as session:
            row = session.get(db.JoinRow, (project_id, join_id))
            if row is None:
                raise Missing("join")
            return row

    def fingerprint(self, project_id: str) -> str:
        """Of the pieces that are not discarded."""
        with self.reading() as session:
            return _fingerprint(session, project_id)

    def set_joins(self, project_id: str, joins: Sequence[dict[str, Any]], fingerprint: str) -> None:
        """Replaces what the last search found."""
        with self.writing() as change:
            change.touch(project_id, "joins")
            session = change.session
            session.execute(delete(db.JoinRow).where(db.JoinRow.project_id == project_id))
            known = set(session.scalars(_ids(project_id)))
            session.add_all(
                db.JoinRow(project_id=project_id, id=new_id(), rank=rank, **join)
                for rank, join in enumerate(joins, start=1)
                if join["first"] in known and join["second"] in known
            )
            session.merge(
                db.JoinSearchRow(project_id=project_id, found_at=now(), pieces=fingerprint)
            )


class _Change:
    """A transaction under way, and what is to be told once it is durable."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.messages: list[tuple[str, Message]] = []

    def touch(self, project_id: str, what: str, client: str | None = None) -> db.ProjectRow:
        """Notes that a part of a project changes."""
        row = _project(self.session, project_id)
        row.sequence += 1
        row.changed_at = now()
        message: Message = ("change", row.sequence, {"what": what, "client": client})
        self.messages.append((project_id, message))
        return row

    def edited(self, row: db.HypothesisRow, event: db.EventRow) -> schema.EditResult:
        self.session.flush()
        self.messages.append((row.project_id, _edit_message(row, event)))
        return schema.EditResult(
            revision=event.revision,
            kind=event.kind,
            operations=OPERATIONS.validate_json(event.operations),
            can_undo=row.undo_top > 0,
            can_redo=row.redo_top > 0,
            sequence=event.sequence,
        )


def _append(
    change: _Change,
    row: db.HypothesisRow,
    operations: Sequence[Operation],
    author: str,
    client: str,
    kind: str,
    summary: str | None,
) -> db.EventRow:
    """Applies operations to a hypothesis and its project, as its next event."""
    session, project_id = change.session, row.project_id
    names: dict[str, str] = {row.id: row.name for row in session.execute(_names(project_id))}
    state = _state(row)
    done: list[Operation] = []
    inverse: list[Operation] = []
    for operation in operations:
        if isinstance(operation, _PROJECT_OPERATIONS):
            undo = [_apply_to_project(session, project_id, operation, author)]
            done.append(operation)
            inverse[:0] = undo
        else:
            if (isinstance(operation, ReplaceAll) and operation.reference is not None) or (
                operation.op == "reference" and operation.reference is not None
            ):
                _picture(session, operation.reference.picture)
            complete, undoing = apply(state, operation, names)
            done.append(complete)
            inverse[:0] = undoing
    project = _project(session, project_id)
    project.sequence += 1
    at = now()
    project.changed_at = row.changed_at = at
    row.revision += 1
    state.revision = row.revision
    row.state = state.model_dump_json(exclude_defaults=True)
    event = db.EventRow(
        project_id=project_id,
        hypothesis_id=row.id,
        revision=row.revision,
        sequence=project.sequence,
        at=at,
        author=author,
        client=client,
        kind=kind,
        summary=describe_in_words(done, names) if summary is None else summary,
        operations=_dump(done),
        inverse=_dump(inverse),
        undo_next=0,
        redo_next=0,
        undone=False,
    )
    session.add(event)
    return event


def _dump(operations: list[Operation]) -> str:
    return OPERATIONS.dump_json(operations).decode()


def _apply_to_project(
    session: Session, project_id: str, operation: ProjectOperation, author: str
) -> ProjectOperation:
    """Changes a piece or a verdict; returns what undoes it."""
    if isinstance(operation, Judge):
        return _judge(session, project_id, operation, author)
    try:
        row = _piece(session, project_id, operation.piece)
    except Missing:
        what = f"there is no piece {operation.piece} in this project"
        raise InputError(what, "Reload the page") from None
    if isinstance(operation, Describe):
        fields = operation.model_dump(include={"name", "inventory", "note", "provenance"})
        before = {}
        for field, value in fields.items():
            if value is not None:
                before[field] = getattr(row, field)
                setattr(row, field, value)
        return Describe(piece=operation.piece, **before)
    if isinstance(operation, Scale):
        undo = Scale.model_validate(
            {"piece": row.id, "mm_per_px": row.mm_per_px, "origin": row.scale_origin}
        )
        row.mm_per_px, row.scale_origin = operation.mm_per_px, operation.origin
        return undo
    if isinstance(operation, Discard):
        was = operation.model_copy(update={"discarded": row.discarded})
        row.discarded = operation.discarded
        return was
    new, old = _picture(session, operation.picture), _picture(session, row.picture)
    if (new.width_px, new.height_px) != (old.width_px, old.height_px):
        raise InputError("this is no cut-out of the same photograph", "Repair the piece's mask")
    row.picture = new.sha256
    return operation.model_copy(update={"picture": old.sha256})


def _judge(session: Session, project_id: str, operation: Judge, author: str) -> Judge:
    if operation.first == operation.second:
        raise InputError("a piece cannot join itself", "Name two pieces")
    centroids = _centroids(session, project_id)
    if not {operation.first, operation.second} <= centroids.keys():
        raise InputError("there is no such piece in this project", "Reload the page")
    same = next(
        (
            row
            for row in session.scalars(
                select(db.JudgementRow).where(db.JudgementRow.project_id == project_id)
            )
            if _same_join(row, operation.first, operation.second, operation.pose, centroids)
        ),
        None,
    )
    undo = operation.model_copy(update={"verdict": None})
    if same is not None:
        undo = Judge.model_validate(
            {
                "first": same.first,
                "second": same.second,
                "pose": _planar(same),
                "verdict": same.verdict,
            }
        )
        session.delete(same)
    if operation.verdict is not None:
        session.add(
            db.JudgementRow(
                project_id=project_id,
                first=operation.first,
                second=operation.second,
                verdict=operation.verdict,
                author=author,
                at=now(),
                **operation.pose.model_dump(),
            )
        )
    session.flush()
    return undo


Centroids = Mapping[str, tuple[float, float]]
"""By piece, mm in its own frame."""


def _same_join(
    row: db.JudgementRow, first: str, second: str, pose: Planar, centroids: Centroids
) -> bool:
    """Whether a verdict is about this join: seen from the same piece, the other one's centroid
    lies in nearly the same place, turned nearly alike."""
    mine = Planar(x_mm=row.x_mm, y_mm=row.y_mm, rotation_deg=row.rotation_deg).pose()
    other = pose.pose()
    if (row.first, row.second) == (second, first):
        other = other.inverse()
    elif (row.first, row.second) != (first, second):
        return False
    ends = [each.apply([centroids[row.second]])[0] for each in (mine, other)]
    turn = abs(wrap_deg(mine.rotation_deg - other.rotation_deg))
    return float(np.hypot(*(ends[0] - ends[1]))) < SAME_JOIN_MM and turn < SAME_JOIN_DEG


def _centroids(session: Session, project_id: str) -> dict[str, tuple[float, float]]:
    rows = session.scalars(_in_order(db.PieceRow, project_id)).all()
    facts = _facts(session, {row.picture for row in rows})
    return {row.id: _centroid_mm(row, facts[row.picture]) for row in rows}


def _centroid_mm(row: db.PieceRow, picture: _Facts) -> tuple[float, float]:
    x, y = row.frame_width_px / 2 - row.left_px, row.frame_height_px / 2 - row.top_px
    scale = row.mm_per_px
    return (picture.centroid_px[0] - x) * scale, (picture.centroid_px[1] - y) * scale


def _planar(row: db.JudgementRow | db.JoinRow) -> Planar:
    return Planar(x_mm=row.x_mm, y_mm=row.y_mm, rotation_deg=row.rotation_deg)


def _join_model(
    row: db.JoinRow, verdicts: Sequence[db.JudgementRow], centroids: Centroids
) -> schema.JoinModel:
    pose = _planar(row)
    about = (row.first, row.second, pose, centroids)
    verdict = next((v.verdict for v in verdicts if _same_join(v, *about)), None)
    return schema.JoinModel.model_validate(
        {
            "id": row.id,
            "first": row.first,
            "second": row.second,
            "pose": pose,
            "probability": row.probability,
            "gap_mm": row.gap_mm,
            "overlap_mm2": row.overlap_mm2,
            "contact_mm": row.contact_mm,
            "verdict": verdict,
        }
    )


def _state(row: db.HypothesisRow) -> State:
    return State.model_validate_json(row.state)


def _state_at(session: Session, row: db.HypothesisRow, revision: int) -> State:
    """The state at an earlier revision, by undoing what came after."""
    if not 0 <= revision <= row.revision:
        raise Missing("revision")
    state = _state(row)
    names = set(session.scalars(_ids(row.project_id)))
    later = _events(row.project_id, row.id).where(db.EventRow.revision > revision)
    for event in session.scalars(later.order_by(db.EventRow.revision.desc())):
        for operation in OPERATIONS.validate_json(event.inverse):
            if not isinstance(operation, _PROJECT_OPERATIONS):
                apply(state, operation, names)
    state.revision = revision
    return state


def _edit_message(row: db.HypothesisRow, event: db.EventRow) -> Message:
    data = {
        "hypothesis": event.hypothesis_id,
        "revision": event.revision,
        "kind": event.kind,
        "author": event.author,
        "client": event.client,
        "operations": json.loads(event.operations),
        "summary": event.summary,
        "can_undo": row.undo_top > 0,
        "can_redo": row.redo_top > 0,
        "at": event.at,
    }
    return "edit", event.sequence, data


def _event_model(row: db.EventRow) -> schema.Event:
    return schema.Event(
        revision=row.revision,
        at=row.at,
        author=row.author,
        client=row.client,
        kind=row.kind,
        summary=row.summary,
        operations=OPERATIONS.validate_json(row.operations),
        undone=row.undone,
    )


def _hypothesis_row(
    project_id: str, name: str, position: int, state: State, at: str
) -> db.HypothesisRow:
    return db.HypothesisRow(
        project_id=project_id,
        id=new_id(),
        name=name,
        position=position,
        revision=0,
        undo_top=0,
        redo_top=0,
        state=state.model_dump_json(exclude_defaults=True),
        created_at=at,
        changed_at=at,
    )


def _project(session: Session, project_id: str) -> db.ProjectRow:
    row = session.get(db.ProjectRow, project_id)
    if row is None:
        raise Missing("project")
    return row


def _piece(session: Session, project_id: str, piece_id: str) -> db.PieceRow:
    row = session.get(db.PieceRow, (project_id, piece_id))
    if row is None:
        raise Missing("piece")
    return row


def _picture(session: Session, sha256: str) -> db.PictureRow:
    row = session.get(db.PictureRow, sha256)
    if row is None:
        raise InputError("there is no such picture in this workspace", "Bring it in first")
    return row


def _hypothesis(session: Session, project_id: str, hypothesis_id: str) -> db.HypothesisRow:
    row = session.get(db.HypothesisRow, (project_id, hypothesis_id))
    if row is None:
        raise Missing("hypothesis")
    return row


def _counts(session: Session, table: type[db.PieceRow] | type[db.HypothesisRow]) -> dict[str, int]:
    query = select(table.project_id, func.count()).group_by(table.project_id)
    return {row[0]: row[1] for row in session.execute(query)}


def _ids(project_id: str) -> Any:
    return select(db.PieceRow.id).where(db.PieceRow.project_id == project_id)


def _names(project_id: str) -> Any:
    return select(db.PieceRow.id, db.PieceRow.name).where(db.PieceRow.project_id == project_id)


def _in_order(table: Any, project_id: str) -> Any:
    return select(table).where(table.project_id == project_id).order_by(table.position)


def _events(project_id: str, hypothesis_id: str) -> Any:
    return select(db.EventRow).where(
        db.EventRow.project_id == project_id, db.EventRow.hypothesis_id == hypothesis_id
    )


def _discarded(session: Session, project_id: str) -> set[str]:
    return set(session.scalars(_ids(project_id).where(db.PieceRow.discarded)))


def _summaries(session: Session, project_id: str) -> list[schema.HypothesisSummary]:
    discarded = _discarded(session, project_id)
    rows = session.scalars(_in_order(db.HypothesisRow, project_id))
    return [_summary(row, _state(row), discarded) for row in rows]


def _summary(row: db.HypothesisRow, state: State, discarded: set[str]) -> schema.HypothesisSummary:
    shown = {i: p for i, p in state.placements.items() if p.placed and i not in discarded}
    sure = [p.confidence for p in shown.values() if p.confidence is not None]
    return schema.HypothesisSummary(
        id=row.id,
        name=row.name,
        revision=row.revision,
        parent=row.parent,
        parent_revision=row.parent_revision,
        created_at=row.created_at,
        changed_at=row.changed_at,
        can_undo=row.undo_top > 0,
        can_redo=row.redo_top > 0,
        placed=len(shown),
        confidence=float(np.mean(sure)) if sure else None,
    )


def _judgements(session: Session, project_id: str) -> list[schema.Judgement]:
    query = select(db.JudgementRow).where(db.JudgementRow.project_id == project_id)
    return [
        schema.Judgement.model_validate(
            {
                "first": row.first,
                "second": row.second,
                "pose": _planar(row),
                "verdict": row.verdict,
                "author": row.author,
                "at": row.at,
            }
        )
        for row in session.scalars(query.order_by(db.JudgementRow.id))
    ]


def _pieces(session: Session, project_id: str) -> list[schema.Piece]:
    rows = session.scalars(_in_order(db.PieceRow, project_id)).all()
    facts = _facts(session, {row.picture for row in rows})
    return [_piece_model(row, facts[row.picture]) for row in rows]


class _Facts(NamedTuple):
    """What is known of a picture, ready to be sent."""

    sha256: str
    width_px: int
    height_px: int
    levels: list[int]
    rings_px: tuple[NDArray[np.float64], ...]
    area_px: float
    centroid_px: tuple[float, float]
    colour: tuple[int, int, int]


_known_facts: dict[str, _Facts] = {}
"""Pictures never change, and outlines take long to read from the database."""
MOST_FACTS = 20_000


def _facts(session: Session, pictures: set[str]) -> dict[str, _Facts]:
    missing = sorted(pictures - _known_facts.keys())
    if missing and len(_known_facts) > MOST_FACTS:
        _known_facts.clear()
        missing = sorted(pictures)
    for start in range(0, len(missing), 500):
        part = missing[start : start + 500]
        for row in session.scalars(select(db.PictureRow).where(db.PictureRow.sha256.in_(part))):
            _known_facts[row.sha256] = _Facts(
                row.sha256,
                row.width_px,
                row.height_px,
                list(row.levels),
                tuple(np.array(ring, np.float64) for ring in row.outline_px),
                row.area_px,
                (row.centroid_px[0], row.centroid_px[1]),
                (row.colour[0], row.colour[1], row.colour[2]),
            )
    return {sha256: _known_facts[sha256] for sha256 in pictures}


def _piece_model(row: db.PieceRow, picture: _Facts) -> schema.Piece:
    x, y = row.frame_width_px / 2 - row.left_px, row.frame_height_px / 2 - row.top_px
    scale = row.mm_per_px
    # Made of columns that were checked on their way in, three hundred at a time.
    return schema.Piece.model_construct(
        id=row.id,
        name=row.name,
        inventory=row.inventory,
        note=row.note,
        provenance=row.provenance,
        filename=row.filename,
        discarded=row.discarded,
        mm_per_px=scale,
        scale_origin=row.scale_origin,
        picture=row.picture,
        width_px=picture.width_px,
        height_px=picture.height_px,
        origin_px=(x, y),
        levels=picture.levels,
        area_mm2=picture.area_px * scale**2,
        centroid_mm=_centroid_mm(row, picture),
        colour=picture.colour,
        outline_mm=_rings_mm(picture.sha256, x, y, scale),
        warnings=list(row.warnings),
        created_at=row.created_at,
    )


@lru_cache(maxsize=MOST_FACTS)
def _rings_mm(picture: str, x: float, y: float, mm_per_px: float) -> list[schema.Ring]:
    return [
        [(float(a), float(b)) for a, b in ((ring - (x, y)) * mm_per_px).round(3)]
        for ring in _known_facts[picture].rings_px
    ]


def _piece_columns(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: entry[name] for name in _PIECE_FIELDS},
        "frame_width_px": entry["frame_px"][0],
        "frame_height_px": entry["frame_px"][1],
        "left_px": entry["offset_px"][0],
        "top_px": entry["offset_px"][1],
    }


def _fingerprint(session: Session, project_id: str) -> str:
    rows = session.execute(
        select(db.PieceRow.id, db.PieceRow.picture, db.PieceRow.mm_per_px)
        .where(db.PieceRow.project_id == project_id, db.PieceRow.discarded.is_(False))
        .order_by(db.PieceRow.id)
    )
    return hashlib.sha256(repr([tuple(row) for row in rows]).encode()).hexdigest()


def _add_pictures(session: Session, pictures: Sequence[dict[str, Any]]) -> None:
    for picture in pictures:
        session.merge(db.PictureRow(**picture))
    session.flush()


def _add_pieces(session: Session, project_id: str, pieces: Sequence[dict[str, Any]]) -> list[str]:
    last = session.scalar(
        select(func.max(db.PieceRow.position)).where(db.PieceRow.project_id == project_id)
    )
    ids = []
    for number, piece in enumerate(pieces, start=1):
        columns = {"id": new_id(), "created_at": now(), **piece}
        ids.append(columns["id"])
        # A job that is done a second time, after a crash, brings nothing in twice.
        if session.get(db.PieceRow, (project_id, columns["id"])) is None:
            position = (last or 0) + number
            session.add(db.PieceRow(**columns, project_id=project_id, position=position))
    session.flush()
    return ids
