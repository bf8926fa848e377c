"""How pieces meet, over HTTP: candidate joins with their pictures, overlaps, gaps, differences."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Path, Query, Request, Response

from reassembly.app import database as db
from reassembly.app import schema
from reassembly.app.bench import Workbench
from reassembly.app.fit import compare, fit_of, gap_profile, strip
from reassembly.app.operations import Id
from reassembly.app.puzzles import fragment_of, payload_of
from reassembly.app.routes import ERRORS, FOREVER, HypothesisId, PieceId, ProjectId, bench
from reassembly.pose import Pose
from reassembly.puzzle import Fragment

__all__ = ["router"]

router = APIRouter(prefix="/api", responses=ERRORS)
JoinId = Annotated[Id, Path(alias="join")]
MARGIN = 0.06
"""Around the picture of a join, of its size."""


@router.get("/projects/{project}/pieces/{piece}/keypoints")
def get_keypoints(request: Request, project: ProjectId, piece: PieceId) -> schema.Keypoints:
    """The corners that a learned solver looks at first."""
    from reassembly.outline.keypoints import find_keypoints

    open_bench = bench(request)
    row = open_bench.store.piece_row(project, piece)
    points = find_keypoints(_fragment(open_bench, row)).points
    return schema.Keypoints(keypoints_mm=points.round(3).tolist())


@router.get("/projects/{project}/hypotheses/{hypothesis}/fit")
def get_fit(request: Request, project: ProjectId, hypothesis: HypothesisId) -> schema.Fit:
    """Overlaps and gaps of placed pieces."""
    store = bench(request).store
    return fit_of(store.state(project, hypothesis).placements, store.pieces(project))


@router.get("/projects/{project}/compare")
def get_comparison(
    request: Request, project: ProjectId, first: Id, second: Id
) -> schema.Comparison:
    """How two hypotheses differ."""
    store = bench(request).store
    pieces = {piece.id: piece for piece in store.pieces(project) if not piece.discarded}
    one, other = (
        {i: p for i, p in store.state(project, h).placements.items() if p.placed and i in pieces}
        for h in (first, second)
    )
    return compare(one, other, pieces.values())


@router.get("/projects/{project}/joins")
def list_joins(
    request: Request, project: ProjectId, piece: Annotated[Id | None, Query()] = None
) -> schema.JoinList:
    """Candidate joins, best first; of one piece, if named."""
    return bench(request).store.joins(project, piece)


@router.get(
    "/projects/{project}/joins/{join}/picture.png",
    responses={200: {"content": {"image/png": {}}}},
    response_class=Response,
)
def get_join_picture(
    request: Request,
    project: ProjectId,
    join: JoinId,
    show: Literal["both", "first", "second"] = "both",
    size: Annotated[int, Query(ge=32, le=2048)] = 256,
) -> Response:
    """The two pieces joined, or one of them in the same view."""
    from reassembly.io.render import png_bytes, render_placements

    first, second, pose = _joined(bench(request), project, join)
    whole = [(first, Pose(0.0, 0.0)), (second, pose)]
    boxes = np.array([fragment.placed(at).bounds for fragment, at in whole])
    low, high = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
    side = float((high - low).max()) * (1 + 2 * MARGIN)
    x, y = ((low + high) / 2).tolist()
    bounds = (x - side / 2, y - side / 2, x + side / 2, y + side / 2)
    shown = {"both": whole, "first": whole[:1], "second": whole[1:]}[show]
    picture = render_placements(shown, side / size, bounds)
    return _png(png_bytes(picture))


@router.get(
    "/projects/{project}/joins/{join}/strip.png",
    responses={200: {"content": {"image/png": {}}}},
    response_class=Response,
)
def get_join_strip(request: Request, project: ProjectId, join: JoinId) -> Response:
    """The paint on both sides of the joint, laid straight: lines that continue run through."""
    from reassembly.io.render import png_bytes

    return _png(png_bytes(strip(*_joined(bench(request), project, join))))


@router.get("/projects/{project}/joins/{join}/profile")
def get_join_profile(request: Request, project: ProjectId, join: JoinId) -> schema.Profile:
    """The gap along the joint."""
    along, gap = gap_profile(*_joined(bench(request), project, join))
    return schema.Profile(gap_mm=np.column_stack([along, gap]).round(3).tolist())


def _png(data: bytes) -> Response:
    # A join found anew has another id.
    return Response(data, media_type="image/png", headers={"cache-control": FOREVER})


def _joined(open_bench: Workbench, project: str, join: str) -> tuple[Fragment, Fragment, Pose]:
    row = open_bench.store.join(project, join)
    pieces = [open_bench.store.piece_row(project, i) for i in (row.first, row.second)]
    first, second = (_fragment(open_bench, piece) for piece in pieces)
    return first, second, Pose.from_degrees(row.x_mm, row.y_mm, row.rotation_deg)


def _fragment(open_bench: Workbench, row: db.PieceRow) -> Fragment:
    piece = payload_of(row)
    sides = (*piece["frame_px"], *piece["offset_px"])
    return _cached_fragment(
        str(open_bench.images), piece["picture"], piece["mm_per_px"], row.id, sides
    )


@lru_cache(maxsize=32)
def _cached_fragment(
    images: str, picture: str, mm_per_px: float, label: str, sides: tuple[int, ...]
) -> Fragment:
    piece: dict[str, Any] = {
        "id": label,
        "name": label,
        "filename": "",
        "scale_origin": "",
        "picture": picture,
        "mm_per_px": mm_per_px,
        "frame_px": sides[:2],
        "offset_px": sides[2:],
    }
    return fragment_of(piece, FilePath(images))
