"""How pieces meet: candidate joins, overlaps and gaps, and how two hypotheses differ."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

import numpy as np
import shapely
from fastapi import APIRouter, Path, Query, Request, Response
from numpy.typing import NDArray
from shapely.geometry import Polygon

from reassembly.app import database as db
from reassembly.app import schema
from reassembly.app.bench import Workbench
from reassembly.app.operations import Id, Placement
from reassembly.app.puzzles import fragment_of, payload_of
from reassembly.app.routes import ERRORS, FOREVER, HypothesisId, PieceId, ProjectId, bench
from reassembly.pose import Pose, wrap_deg
from reassembly.puzzle import Fragment

__all__ = ["compare", "fit_of", "gap_profile", "router", "strip"]

router = APIRouter(prefix="/api", responses=ERRORS)
JoinId = Annotated[Id, Path(alias="join")]
WIDEST_GAP_MM = 10.0
LEAST_OVERLAP_MM2 = 0.5
SAME_MM, SAME_DEG = 0.5, 0.5
"""Two hypotheses that differ by less agree about a piece."""
STEP_MM = 0.5
DEPTH_MM = 12.0
NEAR_MM = 8.0
"""Rims further apart are no joint."""
MARGIN = 0.06
Points = NDArray[np.float64]


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


def fit_of(placements: dict[str, Placement], pieces: list[schema.Piece]) -> schema.Fit:
    """Overlaps and gaps, by the outlines that the screen shows; mm on the canvas."""
    shapes: dict[str, Polygon] = {}
    for piece in pieces:
        placement = placements.get(piece.id)
        if placement is not None and placement.placed and not piece.discarded:
            rings = [placement.pose().apply(ring) for ring in piece.outline_mm]
            shapes[piece.id] = shapely.make_valid(Polygon(rings[0], rings[1:]))
    ids = list(shapes)
    outlines = np.array([shapes[i] for i in ids], dtype=object)
    if len(ids) < 2:
        return schema.Fit(overlaps=[], gaps=[])
    tree = shapely.STRtree(outlines)
    pairs = tree.query(outlines, predicate="dwithin", distance=WIDEST_GAP_MM)
    overlaps, gaps = [], []
    for a, b in pairs.T:
        first, second = ids[a], ids[b]
        if a >= b or placements[first].island != placements[second].island:
            continue
        common = shapely.intersection(outlines[a], outlines[b])
        if common.area > LEAST_OVERLAP_MM2:
            parts = [p for p in shapely.get_parts(common) if isinstance(p, Polygon)]
            outer = [_pairs(np.asarray(part.exterior.coords)) for part in parts]
            overlaps.append(
                schema.Overlap(
                    first=first, second=second, area_mm2=float(common.area), rings_mm=outer
                )
            )
        else:
            ends = shapely.shortest_line(outlines[a], outlines[b])
            here, there = _pairs(np.asarray(ends.coords))
            gaps.append(
                schema.Gap(
                    first=first,
                    second=second,
                    gap_mm=float(ends.length),
                    at_mm=(here, there),
                )
            )
    return schema.Fit(overlaps=overlaps, gaps=gaps)


def _pairs(points: Points) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in points.round(3)]


@router.get("/projects/{project}/compare")
def get_comparison(
    request: Request, project: ProjectId, first: Id, second: Id
) -> schema.Comparison:
    """How two hypotheses differ."""
    store = bench(request).store
    gone = {piece.id for piece in store.piece_rows(project) if piece.discarded}
    states = [store.state(project, h).placements for h in (first, second)]
    shown = [{i: p for i, p in s.items() if p.placed and i not in gone} for s in states]
    return compare(*shown)


def compare(first: dict[str, Placement], second: dict[str, Placement]) -> schema.Comparison:
    """Differences after the second is laid over the first so that most pieces agree."""
    common = sorted(set(first) & set(second))
    motions = {i: first[i].pose() @ second[i].pose().inverse() for i in common}
    anchor, motion = None, Pose(0.0, 0.0)
    if common:
        agreed = {
            k: sum(_agree(first[i].pose(), motions[k] @ second[i].pose()) for i in common)
            for k in common
        }
        # The surest is to move nothing, where that agrees as well.
        still = sum(_agree(first[i].pose(), second[i].pose()) for i in common)
        best = max(common, key=lambda k: agreed[k])
        if agreed[best] > still:
            anchor, motion = best, motions[best]
    differences = []
    for i in sorted(set(first) | set(second)):
        if i not in second:
            differences.append(schema.Difference(piece=i, change="only_first"))
        elif i not in first:
            differences.append(schema.Difference(piece=i, change="only_second"))
        else:
            here, there = first[i].pose(), motion @ second[i].pose()
            differences.append(
                schema.Difference(
                    piece=i,
                    change="same" if _agree(here, there) else "moved",
                    distance_mm=float(np.hypot(here.x_mm - there.x_mm, here.y_mm - there.y_mm)),
                    rotation_deg=wrap_deg(there.rotation_deg - here.rotation_deg),
                )
            )
    return schema.Comparison(pieces=differences, aligned_on=anchor)


def _agree(one: Pose, other: Pose) -> bool:
    apart = np.hypot(one.x_mm - other.x_mm, one.y_mm - other.y_mm)
    turned = abs(wrap_deg(one.rotation_deg - other.rotation_deg))
    return bool(apart <= SAME_MM and turned <= SAME_DEG)


# Candidate joins


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


def _joint(first: Fragment, second: Fragment, pose: Pose) -> tuple[Points, Points, Points]:
    """Points along the first piece's rim where the second lies near, in order.

    Returns:
        Points (N, 2), mm in the first one's frame; outward normals (N, 2); and the gap (N,),
        below 0 where the pieces overlap.
    """
    from reassembly.outline.contour import resample

    other = second.placed(pose)
    shapely.prepare(other)
    ring = resample(np.asarray(first.polygon.exterior.coords), STEP_MM)
    x, y = ring[:, 0], ring[:, 1]
    if np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y) < 0:
        ring = ring[::-1]
    spots = shapely.points(ring)
    gap = shapely.distance(spots, other)
    inside = shapely.contains(other, spots)
    gap[inside] = -shapely.distance(spots[inside], other.boundary)
    near = np.abs(gap) <= NEAR_MM
    if not near.any():
        return ring[:0], ring[:0], gap[:0]
    # Begin after the longest stretch that is not near, so that the joint is in one run.
    start = _after_longest_gap(near)
    order = (start + np.arange(len(ring))) % len(ring)
    last = int(np.flatnonzero(near[order])[-1])
    order = order[: last + 1]
    reach = max(1, round(1.5 / STEP_MM))
    tangent = np.roll(ring, -reach, axis=0) - np.roll(ring, reach, axis=0)
    tangent /= np.maximum(np.linalg.norm(tangent, axis=1, keepdims=True), 1e-9)
    normal = np.column_stack([tangent[:, 1], -tangent[:, 0]])
    return ring[order], normal[order], gap[order]


def _after_longest_gap(near: NDArray[np.bool_]) -> int:
    if near.all():
        return 0
    twice = np.concatenate([near, near])
    best, best_end, run = 0, 0, 0
    for index, value in enumerate(twice):
        run = 0 if value else run + 1
        if run > best:
            best, best_end = run, index
    return (best_end + 1) % len(near)


def gap_profile(first: Fragment, second: Fragment, pose: Pose) -> tuple[Points, Points]:
    """(N,) mm along the joint, and (N,) mm of gap, below 0 where the pieces overlap."""
    _, _, gap = _joint(first, second, pose)
    return np.arange(len(gap), dtype=np.float64) * STEP_MM, gap


def strip(first: Fragment, second: Fragment, pose: Pose) -> NDArray[np.uint8]:
    """The paint on both sides of a joint, (H, W, 4): across it the way from deep in the second
    piece, through the gap, deep into the first; transparent where neither is."""
    import cv2

    points, normals, _ = _joint(first, second, pose)
    scale = min(first.mm_per_px, second.mm_per_px, 0.25)
    rows = np.arange(round(2 * DEPTH_MM / scale))
    across = DEPTH_MM - (rows + 0.5) * scale
    columns = max(1, round(len(points) * STEP_MM / scale))
    picture = np.zeros((len(rows), columns, 4), np.uint8)
    if not len(points):
        return picture
    at = np.linspace(0, len(points) - 1, columns)
    steps = np.arange(len(points))
    centre = np.column_stack([np.interp(at, steps, points[:, k]) for k in (0, 1)])
    # Smoothed, lest rays cross over every roughness of the rim.
    smooth = cv2.GaussianBlur(normals.astype(np.float32), (1, 0), sigmaX=1e-3, sigmaY=4.0)
    smooth = smooth / np.maximum(np.linalg.norm(smooth, axis=1, keepdims=True), 1e-9)
    outward = np.column_stack([np.interp(at, steps, smooth[:, k]) for k in (0, 1)])
    spots = centre[None] + across[:, None, None] * outward[None]
    flat = spots.reshape(-1, 2)
    for fragment, seen in ((second, pose.inverse().apply(flat)), (first, flat)):
        pixels = seen / fragment.mm_per_px + fragment.origin_px - 0.5
        maps = [pixels[:, k].reshape(picture.shape[:2]).astype(np.float32) for k in (0, 1)]
        colour: Any = cv2.remap(fragment.image, maps[0], maps[1], cv2.INTER_LINEAR)
        inside: Any = cv2.remap(fragment.mask.astype(np.uint8), maps[0], maps[1], cv2.INTER_NEAREST)
        picture[inside > 0, :3] = colour[inside > 0]
        picture[inside > 0, 3] = 255
    return picture
