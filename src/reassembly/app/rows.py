"""Rows of the database: found, added, and turned into what goes over the wire."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnExpressionArgument, func, select
from sqlalchemy.orm import Session

from reassembly.app import database as db
from reassembly.app import schema
from reassembly.app.operations import OPERATIONS, Planar, State
from reassembly.errors import InputError
from reassembly.pose import same_place

__all__ = [
    "Centroids",
    "Conflict",
    "Missing",
    "add_pictures",
    "add_pieces",
    "centroids_of",
    "count_by_project",
    "discarded_ids",
    "event_by_token",
    "event_of",
    "events_of",
    "find_hypothesis",
    "find_picture",
    "find_piece",
    "find_project",
    "fingerprint_of",
    "in_order",
    "join_basis",
    "join_of",
    "judgements_of",
    "new_hypothesis",
    "new_id",
    "now",
    "piece_ids",
    "piece_of",
    "pieces_of",
    "planar_of",
    "same_join",
    "state_of",
    "summaries_of",
    "summary_of",
]

MOST_FACTS = 20_000
Centroids = Mapping[str, tuple[float, float]]
"""By piece, mm in its own frame."""


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


def find_project(session: Session, project_id: str) -> db.ProjectRow:
    """The project, or `Missing`."""
    row = session.get(db.ProjectRow, project_id)
    if row is None:
        raise Missing("project")
    return row


def find_piece(session: Session, project_id: str, piece_id: str) -> db.PieceRow:
    """The piece, or `Missing`."""
    row = session.get(db.PieceRow, (project_id, piece_id))
    if row is None:
        raise Missing("piece")
    return row


def find_picture(session: Session, sha256: str) -> db.PictureRow:
    """The picture, or an error about the request that names it."""
    row = session.get(db.PictureRow, sha256)
    if row is None:
        raise InputError("there is no such picture in this workspace", "Bring it in first")
    return row


def find_hypothesis(session: Session, project_id: str, hypothesis_id: str) -> db.HypothesisRow:
    """The hypothesis, or `Missing`."""
    row = session.get(db.HypothesisRow, (project_id, hypothesis_id))
    if row is None:
        raise Missing("hypothesis")
    return row


def event_by_token(
    session: Session, project_id: str, hypothesis_id: str, token: str
) -> db.EventRow | None:
    """The event that was sent with a token, if it has arrived."""
    of_hypothesis = (db.EventRow.project_id == project_id) & (
        db.EventRow.hypothesis_id == hypothesis_id
    )
    return session.scalar(select(db.EventRow).where(of_hypothesis, db.EventRow.token == token))


def in_order(table: Any, project_id: str) -> Any:
    """A query for the rows of a project, in their order."""
    return select(table).where(table.project_id == project_id).order_by(table.position)


def piece_ids(project_id: str) -> Any:
    """A query for the ids of a project's pieces."""
    return select(db.PieceRow.id).where(db.PieceRow.project_id == project_id)


def events_of(project_id: str, hypothesis_id: str) -> Any:
    """A query for the events of a hypothesis."""
    return select(db.EventRow).where(
        db.EventRow.project_id == project_id, db.EventRow.hypothesis_id == hypothesis_id
    )


def count_by_project(
    session: Session,
    table: type[db.PieceRow] | type[db.HypothesisRow],
    *such: ColumnExpressionArgument[bool],
) -> dict[str, int]:
    """How many rows each project has, of those that meet all conditions."""
    query = select(table.project_id, func.count()).where(*such).group_by(table.project_id)
    return {row[0]: row[1] for row in session.execute(query)}


def discarded_ids(session: Session, project_id: str) -> set[str]:
    """Of pieces that are left out."""
    return set(session.scalars(piece_ids(project_id).where(db.PieceRow.discarded)))


def new_hypothesis(
    project_id: str, name: str, position: int, state: State, at: str
) -> db.HypothesisRow:
    """A hypothesis to be added, at revision 0."""
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


def add_pictures(session: Session, pictures: Sequence[dict[str, Any]]) -> None:
    """Adds pictures, given as columns; those known already stay."""
    for picture in pictures:
        session.merge(db.PictureRow(**picture))
    session.flush()


def add_pieces(session: Session, project_id: str, pieces: Sequence[dict[str, Any]]) -> list[str]:
    """Adds pieces, given as columns, behind the others. Returns their ids."""
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


def state_of(row: db.HypothesisRow) -> State:
    """What a hypothesis says now."""
    return State.model_validate_json(row.state)


def summaries_of(session: Session, project_id: str) -> list[schema.HypothesisSummary]:
    """Every hypothesis of a project."""
    discarded = discarded_ids(session, project_id)
    rows = session.scalars(in_order(db.HypothesisRow, project_id))
    return [summary_of(row, state_of(row), discarded) for row in rows]


def summary_of(
    row: db.HypothesisRow, state: State, discarded: set[str]
) -> schema.HypothesisSummary:
    """A hypothesis in the list of all."""
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
        # What a person moved has none: a mean over the others would praise the whole.
        confidence=float(np.mean(sure)) if sure and len(sure) == len(shown) else None,
    )


def event_of(row: db.EventRow) -> schema.Event:
    """An entry of the history."""
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


def pieces_of(session: Session, project_id: str) -> list[schema.Piece]:
    """Every piece of a project, the discarded ones too."""
    rows = session.scalars(in_order(db.PieceRow, project_id)).all()
    facts = _facts_of(session, {row.picture for row in rows})
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


def _facts_of(session: Session, pictures: set[str]) -> dict[str, _Facts]:
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


def piece_of(session: Session, row: db.PieceRow) -> schema.Piece:
    """A piece, in its own frame."""
    return _piece_model(row, _facts_of(session, {row.picture})[row.picture])


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


def centroids_of(session: Session, project_id: str) -> dict[str, tuple[float, float]]:
    """By piece, mm in its own frame."""
    return {i: centroid for i, (centroid, _) in shapes_of(session, project_id).items()}


def shapes_of(session: Session, project_id: str) -> dict[str, tuple[tuple[float, float], float]]:
    """By piece: its centroid, mm in its own frame, and its area, mm²."""
    rows = session.scalars(in_order(db.PieceRow, project_id)).all()
    facts = _facts_of(session, {row.picture for row in rows})
    return {
        row.id: (_centroid_mm(row, fact), fact.area_px * row.mm_per_px**2)
        for row in rows
        for fact in (facts[row.picture],)
    }


def _centroid_mm(row: db.PieceRow, picture: _Facts) -> tuple[float, float]:
    x, y = row.frame_width_px / 2 - row.left_px, row.frame_height_px / 2 - row.top_px
    scale = row.mm_per_px
    return (picture.centroid_px[0] - x) * scale, (picture.centroid_px[1] - y) * scale


def judgements_of(session: Session, project_id: str) -> list[schema.Judgement]:
    """Every verdict of a project, the oldest first."""
    query = select(db.JudgementRow).where(db.JudgementRow.project_id == project_id)
    return [
        schema.Judgement.model_validate(
            {
                "first": row.first,
                "second": row.second,
                "pose": planar_of(row),
                "verdict": row.verdict,
                "author": row.author,
                "at": row.at,
            }
        )
        for row in session.scalars(query.order_by(db.JudgementRow.id))
    ]


def planar_of(row: db.JudgementRow | db.JoinRow) -> Planar:
    """Where a join puts its second piece."""
    return Planar(x_mm=row.x_mm, y_mm=row.y_mm, rotation_deg=row.rotation_deg)


def same_join(
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
    return same_place(mine, other, centroids[row.second])


def join_of(
    row: db.JoinRow, verdicts: Sequence[db.JudgementRow], centroids: Centroids
) -> schema.JoinModel:
    """A candidate join with people's verdict on it."""
    pose = planar_of(row)
    about = (row.first, row.second, pose, centroids)
    verdict = next((v.verdict for v in verdicts if same_join(v, *about)), None)
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


def fingerprint_of(session: Session, project_id: str) -> str:
    """Of the pieces that are not discarded; another one if any of them changes."""
    rows = session.execute(
        select(db.PieceRow.id, db.PieceRow.picture, db.PieceRow.mm_per_px)
        .where(db.PieceRow.project_id == project_id, db.PieceRow.discarded.is_(False))
        .order_by(db.PieceRow.id)
    )
    return hashlib.sha256(repr([tuple(row) for row in rows]).encode()).hexdigest()


def join_basis(session: Session, project_id: str) -> tuple[str, str]:
    """Fingerprints of the pieces, and of the verdicts that a search for joins hears."""
    heard = sorted(
        (v.verdict, v.first, v.second, *v.pose.model_dump().values())
        for v in judgements_of(session, project_id)
        if v.verdict != "unsure"
    )
    return (
        fingerprint_of(session, project_id),
        hashlib.sha256(repr(heard).encode()).hexdigest(),
    )
