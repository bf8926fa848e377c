"""What the workbench knows, durable before any answer is given.

Every change is one transaction; a change of a hypothesis is also an event with its inverse, from
which undo, redo, history and old revisions follow.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from reassembly.app import database as db
from reassembly.app import edits, rows, schema, whole
from reassembly.app.edits import Message
from reassembly.app.operations import OPERATIONS, Operation, ReplaceAll, State
from reassembly.app.rows import Conflict, Missing, new_id, now
from reassembly.errors import InputError

__all__ = ["Conflict", "Message", "Missing", "Store", "new_id", "now"]

LONGEST_REPLAY = 500
"""Messages that a window may have missed before it is told to read everything anew."""
MOST_TEXTS = 64
FIRST_HYPOTHESIS = "First hypothesis"
_HASH = re.compile(r"\b[0-9a-f]{64}\b")
Publish = Callable[[str, Message], None]


class Store:
    """The database of one workspace. Methods may be called from any thread."""

    def __init__(self, folder: Path, publish: Publish) -> None:
        self.folder = folder
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
        """The last changed first; without those whose first import has brought nothing in."""
        with self.reading() as session:
            pieces = rows.count_by_project(session, db.PieceRow)
            discarded = rows.count_by_project(session, db.PieceRow, db.PieceRow.discarded)
            hypotheses = rows.count_by_project(session, db.HypothesisRow)
            newest = select(db.ProjectRow).order_by(db.ProjectRow.changed_at.desc())
            return [
                schema.ProjectSummary(
                    id=row.id,
                    name=row.name,
                    created_at=row.created_at,
                    changed_at=row.changed_at,
                    imported_at=row.imported_at,
                    pieces=pieces.get(row.id, 0) - discarded.get(row.id, 0),
                    hypotheses=hypotheses.get(row.id, 0),
                )
                for row in session.scalars(newest)
                if pieces.get(row.id, 0) or not row.draft
            ]

    def forget_drafts(self) -> None:
        """Deletes projects whose first import was given up."""
        active = select(db.JobRow.project_id).where(db.JobRow.state.in_(("queued", "running")))
        with self.writing() as change:
            pieces = rows.count_by_project(change.session, db.PieceRow)
            busy = set(change.session.scalars(active))
            drafts = change.session.scalars(select(db.ProjectRow).where(db.ProjectRow.draft))
            for row in drafts.all():
                if row.id not in pieces and row.id not in busy:
                    change.session.delete(row)

    def add_project(self, name: str, note: str = "", *, draft: bool = False) -> str:
        at, project_id = now(), new_id()
        with self.writing() as change:
            change.session.add(
                db.ProjectRow(
                    id=project_id,
                    name=name,
                    note=note,
                    created_at=at,
                    changed_at=at,
                    draft=draft,
                )
            )
            change.session.flush()
            change.session.add(rows.new_hypothesis(project_id, FIRST_HYPOTHESIS, 1, State(), at))
        return project_id

    def project(self, project_id: str) -> schema.Project:
        with self.reading() as session:
            row = rows.find_project(session, project_id)
            return schema.Project(
                id=row.id,
                name=row.name,
                note=row.note,
                created_at=row.created_at,
                changed_at=row.changed_at,
                sequence=row.sequence,
                pieces=rows.pieces_of(session, project_id),
                hypotheses=rows.summaries_of(session, project_id),
                judgements=rows.judgements_of(session, project_id),
                jobs=[],
            )

    def project_name(self, project_id: str) -> str:
        with self.reading() as session:
            return rows.find_project(session, project_id).name

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
            return rows.find_project(session, project_id).sequence

    def change_project(self, project_id: str, wanted: schema.ProjectChange) -> None:
        with self.writing() as change:
            row = change.touch(project_id, "project")
            row.name = row.name if wanted.name is None else wanted.name
            row.note = row.note if wanted.note is None else wanted.note

    def delete_project(self, project_id: str) -> None:
        with self.writing() as change:
            change.session.delete(rows.find_project(change.session, project_id))
            change.messages.append((project_id, ("gone", None, {})))

    # Pieces

    def pieces(self, project_id: str) -> list[schema.Piece]:
        with self.reading() as session:
            rows.find_project(session, project_id)
            return rows.pieces_of(session, project_id)

    def piece(self, project_id: str, piece_id: str) -> schema.Piece:
        with self.reading() as session:
            row = rows.find_piece(session, project_id, piece_id)
            return rows.piece_of(session, row)

    def piece_row(self, project_id: str, piece_id: str) -> db.PieceRow:
        with self.reading() as session:
            return rows.find_piece(session, project_id, piece_id)

    def piece_rows(self, project_id: str) -> list[db.PieceRow]:
        """In their order, the discarded ones too."""
        with self.reading() as session:
            rows.find_project(session, project_id)
            return list(session.scalars(rows.in_order(db.PieceRow, project_id)))

    def picture_known(self, sha256: str) -> bool:
        with self.reading() as session:
            return session.get(db.PictureRow, sha256) is not None

    def add_pictures(self, pictures: Sequence[dict[str, Any]]) -> None:
        with self.writing() as change:
            rows.add_pictures(change.session, pictures)

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
            rows.add_pictures(change.session, pictures)
            return rows.add_pieces(change.session, project_id, pieces)

    # Hypotheses

    def hypotheses(self, project_id: str) -> list[schema.HypothesisSummary]:
        with self.reading() as session:
            rows.find_project(session, project_id)
            return rows.summaries_of(session, project_id)

    def hypothesis(self, project_id: str, hypothesis_id: str) -> schema.Hypothesis:
        with self.reading() as session:
            row = rows.find_hypothesis(session, project_id, hypothesis_id)
            state = rows.state_of(row)
            discarded = rows.discarded_ids(session, project_id)
            summary = rows.summary_of(row, state, discarded)
            return schema.Hypothesis(**summary.model_dump(), state=state)

    def state(self, project_id: str, hypothesis_id: str) -> State:
        with self.reading() as session:
            return rows.state_of(rows.find_hypothesis(session, project_id, hypothesis_id))

    def add_hypothesis(self, project_id: str, wanted: schema.NewHypothesis) -> str:
        at = now()
        with self.writing() as change:
            change.touch(project_id, "hypotheses", wanted.client)
            state = State()
            revision = None
            if wanted.source is not None:
                row = rows.find_hypothesis(change.session, project_id, wanted.source)
                revision = row.revision if wanted.revision is None else wanted.revision
                state = edits.state_at(change.session, row, revision)
                state.revision = 0
            elif wanted.revision is not None:
                raise InputError("a revision of no hypothesis", "Say from which one")
            last = change.session.scalar(
                select(func.max(db.HypothesisRow.position)).where(
                    db.HypothesisRow.project_id == project_id
                )
            )
            new = rows.new_hypothesis(project_id, wanted.name, (last or 0) + 1, state, at)
            new.parent, new.parent_revision = wanted.source, revision
            change.session.add(new)
            return new.id

    def rename_hypothesis(self, project_id: str, hypothesis_id: str, name: str) -> None:
        with self.writing() as change:
            row = rows.find_hypothesis(change.session, project_id, hypothesis_id)
            change.touch(project_id, "hypotheses")
            row.name, row.changed_at = name, now()

    def delete_hypothesis(self, project_id: str, hypothesis_id: str) -> None:
        with self.writing() as change:
            row = rows.find_hypothesis(change.session, project_id, hypothesis_id)
            if rows.count_by_project(change.session, db.HypothesisRow)[project_id] == 1:
                raise Conflict(
                    "this is the project's last hypothesis", "Make another one before deleting it"
                )
            change.touch(project_id, "hypotheses")
            change.session.delete(row)

    def state_at(self, project_id: str, hypothesis_id: str, revision: int) -> State:
        with self.reading() as session:
            return edits.state_at(
                session, rows.find_hypothesis(session, project_id, hypothesis_id), revision
            )

    def history(
        self, project_id: str, hypothesis_id: str, before: int | None, limit: int
    ) -> list[schema.Event]:
        with self.reading() as session:
            rows.find_hypothesis(session, project_id, hypothesis_id)
            query = rows.events_of(project_id, hypothesis_id).order_by(db.EventRow.revision.desc())
            if before is not None:
                query = query.where(db.EventRow.revision < before)
            return [rows.event_of(row) for row in session.scalars(query.limit(limit))]

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
        token: str = "",
        pieces: Sequence[dict[str, Any]] = (),
        pictures: Sequence[dict[str, Any]] = (),
    ) -> schema.EditResult:
        """Does all operations or none.

        Args:
            token: of the sender's choice; where it was given before, nothing is done again.
            pieces, pictures: brought in first, in the same transaction.
        """
        with self.writing() as change:
            row = rows.find_hypothesis(change.session, project_id, hypothesis_id)
            if token:
                known = rows.event_by_token(change.session, project_id, hypothesis_id, token)
                if known is not None:
                    return _result(row, known)
            rows.add_pictures(change.session, pictures)
            if pieces:
                change.touch(project_id, "pieces")
                rows.add_pieces(change.session, project_id, pieces)
            event = edits.append(change.session, row, operations, author, client, kind, summary)
            event.undo_next, row.undo_top, row.redo_top = row.undo_top, row.revision, 0
            event.token = token
            return change.edited(row, event)

    def undo(self, project_id: str, hypothesis_id: str, who: schema.Who) -> schema.EditResult:
        with self.writing() as change:
            row = rows.find_hypothesis(change.session, project_id, hypothesis_id)
            if row.undo_top == 0:
                raise Conflict("there is nothing to undo", "Go on")
            target = change.session.get_one(db.EventRow, (project_id, hypothesis_id, row.undo_top))
            summary = f"undid: {target.summary}"
            operations = OPERATIONS.validate_json(target.inverse)
            event = edits.append(
                change.session, row, operations, who.author, who.client, "undo", summary
            )
            target.undone, target.redo_next = True, row.redo_top
            row.undo_top, row.redo_top = target.undo_next, target.revision
            return change.edited(row, event)

    def redo(self, project_id: str, hypothesis_id: str, who: schema.Who) -> schema.EditResult:
        with self.writing() as change:
            row = rows.find_hypothesis(change.session, project_id, hypothesis_id)
            if row.redo_top == 0:
                raise Conflict("there is nothing to redo", "Go on")
            target = change.session.get_one(db.EventRow, (project_id, hypothesis_id, row.redo_top))
            summary = f"redid: {target.summary}"
            operations = OPERATIONS.validate_json(target.operations)
            event = edits.append(
                change.session, row, operations, who.author, who.client, "redo", summary
            )
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
            rows.find_project(session, project_id)
            return rows.judgements_of(session, project_id)

    def solvers_heard(self, project_id: str, hypothesis_id: str) -> list[str]:
        """Whose answers were ever laid out in a hypothesis, or in those that it was branched
        from."""
        with self.reading() as session:
            row = rows.find_hypothesis(session, project_id, hypothesis_id)
            until: dict[str, int | None] = {row.id: row.revision}
            while row.parent is not None and row.parent not in until:
                until[row.parent] = row.parent_revision
                parent = session.get(db.HypothesisRow, (project_id, row.parent))
                if parent is None:  # It was deleted.
                    break
                row = parent
            found = [
                event.operations
                for each, last in until.items()
                for event in session.scalars(
                    rows.events_of(project_id, each).where(
                        db.EventRow.kind == "solve", db.EventRow.revision <= last
                    )
                )
            ]
            told = (OPERATIONS.validate_json(operations) for operations in found)
            return sorted(
                {
                    operation.solver
                    for operations in told
                    for operation in operations
                    if isinstance(operation, ReplaceAll) and operation.solver
                }
            )

    # Whole projects

    def document(self, project_id: str) -> dict[str, Any]:
        """A project as `document.Document`, without its pictures."""
        with self.reading() as session:
            return whole.document_of(session, project_id)

    def add_document(
        self, project_id: str, document: dict[str, Any], pictures: Sequence[dict[str, Any]]
    ) -> None:
        """Brings a checked `document.Document` in, once, under a new id."""
        with self.writing() as change:
            whole.add_document(change.session, project_id, document, pictures)

    # Uploads

    def add_upload(self, project_id: str, upload_id: str, job_id: str) -> None:
        with self.writing() as change:
            rows.find_project(change.session, project_id)
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
            current = rows.find_project(session, project_id).sequence
            if after == current:
                return []
            if not 0 <= current - after <= LONGEST_REPLAY:
                return None
            missed = session.scalars(
                select(db.EventRow)
                .where(db.EventRow.project_id == project_id, db.EventRow.sequence > after)
                .order_by(db.EventRow.sequence)
            ).all()
            if len(missed) != current - after:
                return None
            by_id = {
                row.id: row for row in session.scalars(rows.in_order(db.HypothesisRow, project_id))
            }
            return [edits.edit_message(by_id[row.hypothesis_id], row) for row in missed]

    # Joins

    def joins(self, project_id: str, piece_id: str | None = None) -> schema.JoinList:
        with self.reading() as session:
            rows.find_project(session, project_id)
            query = (
                select(db.JoinRow)
                .where(db.JoinRow.project_id == project_id)
                .order_by(db.JoinRow.rank)
            )
            if piece_id is not None:
                rows.find_piece(session, project_id, piece_id)
                query = query.where(
                    (db.JoinRow.first == piece_id) | (db.JoinRow.second == piece_id)
                )
            search = session.get(db.JoinSearchRow, project_id)
            verdicts = session.scalars(
                select(db.JudgementRow).where(db.JudgementRow.project_id == project_id)
            ).all()
            gone = rows.discarded_ids(session, project_id)
            centroids = rows.centroids_of(session, project_id)
            return schema.JoinList(
                joins=[
                    rows.join_of(row, verdicts, centroids)
                    for row in session.scalars(query)
                    if row.first not in gone and row.second not in gone
                ],
                found_at=None if search is None else search.found_at,
                stale=search is not None
                and search.pieces != rows.fingerprint_of(session, project_id),
                settled=search is not None
                and (search.pieces, search.verdicts) == rows.join_basis(session, project_id),
            )

    def join(self, project_id: str, join_id: str) -> db.JoinRow:
        with self.reading() as session:
            row = session.get(db.JoinRow, (project_id, join_id))
            if row is None:
                raise Missing("join")
            return row

    def join_basis(self, project_id: str) -> tuple[str, str]:
        """What a search for joins depends on: fingerprints of pieces and of verdicts."""
        with self.reading() as session:
            return rows.join_basis(session, project_id)

    def set_joins(
        self, project_id: str, joins: Sequence[dict[str, Any]], fingerprint: str, verdicts: str = ""
    ) -> None:
        """Replaces what the last search found.

        Args:
            fingerprint, verdicts: see `join_basis`, when the search began.
        """
        with self.writing() as change:
            change.touch(project_id, "joins")
            session = change.session
            session.execute(delete(db.JoinRow).where(db.JoinRow.project_id == project_id))
            known = set(session.scalars(rows.piece_ids(project_id)))
            session.add_all(
                db.JoinRow(project_id=project_id, id=new_id(), rank=rank, **join)
                for rank, join in enumerate(joins, start=1)
                if join["first"] in known and join["second"] in known
            )
            session.merge(
                db.JoinSearchRow(
                    project_id=project_id, found_at=now(), pieces=fingerprint, verdicts=verdicts
                )
            )


class _Change:
    """A transaction under way, and what is to be told once it is durable."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.messages: list[tuple[str, Message]] = []

    def touch(self, project_id: str, what: str, client: str | None = None) -> db.ProjectRow:
        """Notes that a part of a project changes."""
        row = rows.find_project(self.session, project_id)
        row.sequence += 1
        row.changed_at = now()
        message: Message = ("change", row.sequence, {"what": what, "client": client})
        self.messages.append((project_id, message))
        return row

    def edited(self, row: db.HypothesisRow, event: db.EventRow) -> schema.EditResult:
        self.session.flush()
        self.messages.append((row.project_id, edits.edit_message(row, event)))
        return _result(row, event)


def _result(row: db.HypothesisRow, event: db.EventRow) -> schema.EditResult:
    return schema.EditResult(
        revision=event.revision,
        kind=event.kind,
        operations=OPERATIONS.validate_json(event.operations),
        can_undo=row.undo_top > 0,
        can_redo=row.redo_top > 0,
        sequence=event.sequence,
    )
