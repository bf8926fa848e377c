"""A whole project out of the database, and into it: see `document`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from reassembly.app import database as db
from reassembly.app import rows
from reassembly.app.document import FORMAT, VERSION
from reassembly.app.operations import State

__all__ = ["add_document", "document_of"]

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


def document_of(session: Session, project_id: str) -> dict[str, Any]:
    """A project as `document.Document`, without its pictures."""
    row = rows.find_project(session, project_id)
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
            for piece in session.scalars(rows.in_order(db.PieceRow, project_id))
        ],
        "hypotheses": [
            {
                **{name: getattr(hypothesis, name) for name in _HYPOTHESIS_FIELDS},
                "state": rows.state_of(hypothesis).model_dump(mode="json"),
                "events": [
                    {
                        **{name: getattr(event, name) for name in _EVENT_FIELDS},
                        "operations": json.loads(event.operations),
                        "inverse": json.loads(event.inverse),
                    }
                    for event in session.scalars(
                        rows.events_of(project_id, hypothesis.id).order_by(db.EventRow.revision)
                    )
                ],
            }
            for hypothesis in session.scalars(rows.in_order(db.HypothesisRow, project_id))
        ],
        "judgements": [
            verdict.model_dump(mode="json") for verdict in rows.judgements_of(session, project_id)
        ],
    }


def add_document(
    session: Session,
    project_id: str,
    document: dict[str, Any],
    pictures: Sequence[dict[str, Any]],
) -> None:
    """Brings a checked `document.Document` in, once.

    Args:
        project_id: a new one.
        pictures: columns of `PictureRow`.
    """
    if session.get(db.ProjectRow, project_id) is not None:
        return
    rows.add_pictures(session, pictures)
    events = sum(len(hypothesis["events"]) for hypothesis in document["hypotheses"])
    about = {k: document[k] for k in ("name", "note", "created_at", "changed_at")}
    session.add(db.ProjectRow(id=project_id, sequence=events, imported_at=rows.now(), **about))
    session.flush()
    rows.add_pieces(session, project_id, [_piece_columns(p) for p in document["pieces"]])
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


def _piece_columns(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: entry[name] for name in _PIECE_FIELDS},
        "frame_width_px": entry["frame_px"][0],
        "frame_height_px": entry["frame_px"][1],
        "left_px": entry["offset_px"][0],
        "top_px": entry["offset_px"][1],
    }
