"""Edits: operations applied to a hypothesis and its project, as an event with its inverse."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from reassembly.app import database as db
from reassembly.app import rows
from reassembly.app.operations import (
    OPERATIONS,
    Describe,
    Discard,
    Judge,
    Operation,
    Place,
    Placement,
    ProjectOperation,
    ReplaceAll,
    Scale,
    SetPicture,
    SetReference,
    State,
    apply,
    describe_in_words,
)
from reassembly.app.rows import Missing, now
from reassembly.errors import InputError
from reassembly.pose import wrap_deg

__all__ = ["Message", "append", "edit_message", "state_at"]

Message = tuple[str, int | None, dict[str, Any]]
"""Of the stream: the event's name, its sequence number, its data."""
PROJECT_OPERATIONS = (Judge, Describe, Scale, Discard, SetPicture)

STILL = 0.01
"""Millimetres or degrees that nobody calls a change."""


def append(
    session: Session,
    row: db.HypothesisRow,
    operations: Sequence[Operation],
    author: str,
    client: str,
    kind: str,
    summary: str | None,
) -> db.EventRow:
    """Applies operations to a hypothesis and its project, as its next event."""
    project_id = row.project_id
    names: dict[str, str] = {row.id: row.name for row in session.execute(_names(project_id))}
    state = rows.state_of(row)
    before = dict(state.placements)
    done: list[Operation] = []
    inverse: list[Operation] = []
    for operation in operations:
        if isinstance(operation, PROJECT_OPERATIONS):
            done.append(operation)
            inverse.insert(0, _apply_to_project(session, project_id, operation, author))
        else:
            if isinstance(operation, ReplaceAll | SetReference) and operation.reference is not None:
                rows.find_picture(session, operation.reference.picture)
            complete, undoing = apply(state, operation, names)
            done.append(complete)
            inverse[:0] = undoing
    project = rows.find_project(session, project_id)
    project.sequence += 1
    at = now()
    project.changed_at = row.changed_at = at
    row.revision += 1
    state.revision = row.revision
    row.state = state.model_dump_json(exclude_defaults=True)
    if summary is None:
        moved = {o.piece: before.get(o.piece) for o in done if isinstance(o, Place)}
        placed = _word_for_placed(session, project_id, moved, state.placements)
        summary = describe_in_words(done, names, placed)
    event = db.EventRow(
        project_id=project_id,
        hypothesis_id=row.id,
        revision=row.revision,
        sequence=project.sequence,
        at=at,
        author=author,
        client=client,
        kind=kind,
        summary=summary,
        operations=_dump(done),
        inverse=_dump(inverse),
        undo_next=0,
        redo_next=0,
        undone=False,
    )
    session.add(event)
    return event


def _word_for_placed(
    session: Session,
    project_id: str,
    before: Mapping[str, Placement | None],
    after: Mapping[str, Placement],
) -> str:
    """Pieces were moved; turned, each in its place or all about their common middle; or both."""
    pairs = {i: (old, after[i]) for i, old in before.items() if old and old.placed and i in after}
    turns = [wrap_deg(new.rotation_deg - old.rotation_deg) for old, new in pairs.values()]
    if len(pairs) < len(before) or max(map(abs, turns), default=0.0) < STILL:
        return "moved"
    if any(abs(wrap_deg(turn - turns[0])) > STILL for turn in turns):
        return "moved and turned"
    shapes = rows.shapes_of(session, project_id)
    shifts = [
        new.pose().apply([shapes[i][0]]) - old.pose().apply([shapes[i][0]])
        for i, (old, new) in pairs.items()
    ]
    shift = np.average(np.concatenate(shifts), axis=0, weights=[shapes[i][1] for i in pairs])
    typed = all((old.x_mm, old.y_mm) == (new.x_mm, new.y_mm) for old, new in pairs.values())
    return "turned" if typed or np.hypot(*shift) < STILL else "moved and turned"


def _names(project_id: str) -> Any:
    return select(db.PieceRow.id, db.PieceRow.name).where(db.PieceRow.project_id == project_id)


def _dump(operations: list[Operation]) -> str:
    return OPERATIONS.dump_json(operations).decode()


def _apply_to_project(
    session: Session, project_id: str, operation: ProjectOperation, author: str
) -> ProjectOperation:
    """Changes a piece or a verdict; returns what undoes it."""
    if isinstance(operation, Judge):
        return _judge(session, project_id, operation, author)
    try:
        row = rows.find_piece(session, project_id, operation.piece)
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
    new, old = (
        rows.find_picture(session, operation.picture),
        rows.find_picture(session, row.picture),
    )
    if (new.width_px, new.height_px) != (old.width_px, old.height_px):
        raise InputError("this is no cut-out of the same photograph", "Repair the piece's mask")
    row.picture = new.sha256
    return operation.model_copy(update={"picture": old.sha256})


def _judge(session: Session, project_id: str, operation: Judge, author: str) -> Judge:
    if operation.first == operation.second:
        raise InputError("a piece cannot join itself", "Name two pieces")
    centroids = rows.centroids_of(session, project_id)
    if not {operation.first, operation.second} <= centroids.keys():
        raise InputError("there is no such piece in this project", "Reload the page")
    same = next(
        (
            row
            for row in session.scalars(
                select(db.JudgementRow).where(db.JudgementRow.project_id == project_id)
            )
            if rows.same_join(row, operation.first, operation.second, operation.pose, centroids)
        ),
        None,
    )
    undo = operation.model_copy(update={"verdict": None})
    if same is not None:
        undo = Judge.model_validate(
            {
                "first": same.first,
                "second": same.second,
                "pose": rows.planar_of(same),
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


def state_at(session: Session, row: db.HypothesisRow, revision: int) -> State:
    """The state at an earlier revision, by undoing what came after."""
    if not 0 <= revision <= row.revision:
        raise Missing("revision")
    state = rows.state_of(row)
    names = set(session.scalars(rows.piece_ids(row.project_id)))
    later = rows.events_of(row.project_id, row.id).where(db.EventRow.revision > revision)
    for event in session.scalars(later.order_by(db.EventRow.revision.desc())):
        for operation in OPERATIONS.validate_json(event.inverse):
            if not isinstance(operation, PROJECT_OPERATIONS):
                apply(state, operation, names)
    state.revision = revision
    return state


def edit_message(row: db.HypothesisRow, event: db.EventRow) -> Message:
    """What windows are told of an event."""
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
