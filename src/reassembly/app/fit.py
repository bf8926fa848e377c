"""How pieces meet: overlaps and gaps, the joint between two, and how two hypotheses differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry import LineString, Polygon

from reassembly.app import schema
from reassembly.app.operations import Placement
from reassembly.outline.contour import resample
from reassembly.pose import Pose, wrap_deg
from reassembly.puzzle import Fragment

__all__ = ["compare", "fit_of", "gap_profile", "strip"]

WIDEST_GAP_MM = 10.0
LEAST_OVERLAP_MM2 = 0.5
RIM_STEP_MM = 1.0
"""Between the points of a rim whose gaps are looked at."""
FACING = 0.6
"""Least cosine between a rim's outward normal and the way to the other piece."""
LEAST_FACING = 3
"""Points of rim that make a stretch."""
MOST_KEPT = 50_000
SAME_MM, SAME_DEG = 0.5, 0.5
"""Two hypotheses that differ by less agree about a piece."""
ELSEWHERE_MM = 12.0
"""A piece that lies further off says nothing of how to lay one hypothesis over another."""
ROUNDS = 20
STEP_MM = 0.5
DEPTH_MM = 12.0
NEAR_MM = 8.0
"""Rims further apart are no joint."""
Points = NDArray[np.float64]
_Key = tuple[Any, ...]
_Met = tuple[float, list[schema.Ring], LineString | None]
"""Of two placed pieces: mm2 in common, where, and a line across the gap between them."""


def fit_of(placements: dict[str, Placement], pieces: list[schema.Piece]) -> schema.Fit:
    """Overlaps and gaps, by the outlines that the screen shows; mm on the canvas.

    The gap of two pieces is the median along the stretch of rim where they face each other. Two
    that overlap in one place may gape in another.
    """
    shapes: dict[str, Polygon] = {}
    keys: dict[str, _Key] = {}
    for piece in pieces:
        placement = placements.get(piece.id)
        if placement is not None and placement.placed and not piece.discarded:
            rings = [placement.pose().apply(ring) for ring in piece.outline_mm]
            shapes[piece.id] = shapely.make_valid(Polygon(rings[0], rings[1:]))
            where = (placement.x_mm, placement.y_mm, placement.rotation_deg)
            keys[piece.id] = (piece.picture, piece.mm_per_px, piece.origin_px, *where)
    ids = list(shapes)
    if len(ids) < 2:
        return schema.Fit(overlaps=[], gaps=[])
    outlines = np.array([shapes[i] for i in ids], dtype=object)
    near = shapely.STRtree(outlines).query(outlines, predicate="dwithin", distance=WIDEST_GAP_MM)
    overlaps, gaps = [], []
    for a, b in near.T[near[0] < near[1]]:
        first, second = ids[a], ids[b]
        if placements[first].island != placements[second].island:
            continue
        area, rings_mm, line = _met(keys[first], keys[second], outlines[a], outlines[b])
        if rings_mm:
            overlaps.append(
                schema.Overlap(first=first, second=second, area_mm2=area, rings_mm=rings_mm)
            )
        if line is not None:
            here, there = _pairs(np.asarray(line.coords))
            gap = float(line.length)
            gaps.append(schema.Gap(first=first, second=second, gap_mm=gap, at_mm=(here, there)))
    return schema.Fit(overlaps=overlaps, gaps=gaps)


_kept: dict[tuple[_Key, _Key], _Met] = {}
"""What was measured: after an edit, only what moved is measured anew."""


def _met(first: _Key, second: _Key, one: Polygon, other: Polygon) -> _Met:
    known = _kept.get((first, second))
    if known is not None:
        return known
    common = shapely.intersection(one, other)
    rings = []
    if common.area > LEAST_OVERLAP_MM2:
        parts = [part for part in shapely.get_parts(common) if isinstance(part, Polygon)]
        rings = [_pairs(np.asarray(part.exterior.coords)) for part in parts]
    line = _median_gap(one, other)
    if line is None and not rings:
        line = shapely.shortest_line(one, other)
    if len(_kept) >= MOST_KEPT:
        _kept.clear()
    _kept[first, second] = float(common.area), rings, line
    return _kept[first, second]


def _median_gap(one: Polygon, other: Polygon) -> LineString | None:
    """The line across a gap of median width, where the rims face each other; None if nowhere."""
    if not isinstance(one, Polygon):
        return None
    ring = resample(np.asarray(one.exterior.coords), RIM_STEP_MM)
    left, top, right, bottom = other.bounds
    reach = WIDEST_GAP_MM
    close = (ring >= [left - reach, top - reach]).all(axis=1)
    close &= (ring <= [right + reach, bottom + reach]).all(axis=1)
    if not close.any():
        return None
    normals = _outward(ring)[close]
    lines = shapely.shortest_line(shapely.points(ring[close]), other)
    ends = shapely.get_coordinates(lines).reshape(-1, 2, 2)
    way = ends[:, 1] - ends[:, 0]
    gap = np.linalg.norm(way, axis=1)
    # A point within the other piece has no gap, and its way no direction.
    facing = (way * normals).sum(axis=1) > FACING * gap
    stretch = np.flatnonzero((gap > 1e-6) & (gap <= reach) & facing)
    if len(stretch) < LEAST_FACING:
        return None
    middle = stretch[np.argsort(gap[stretch])[len(stretch) // 2]]
    found: LineString = lines[middle]
    return found


def _outward(ring: Points) -> Points:
    """(N, 2) unit normals of an open ring that may run either way round."""
    x, y = ring[:, 0], ring[:, 1]
    clockwise = np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y) > 0
    tangent = np.roll(ring, -1, axis=0) - np.roll(ring, 1, axis=0)
    tangent /= np.maximum(np.linalg.norm(tangent, axis=1, keepdims=True), 1e-9)
    normal = np.column_stack([tangent[:, 1], -tangent[:, 0]])
    return normal if clockwise else -normal


def _pairs(points: Points) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in points.round(3)]


def compare(
    first: dict[str, Placement], second: dict[str, Placement], pieces: Iterable[schema.Piece]
) -> schema.Comparison:
    """Differences after the second is laid over the first: by the pieces that are locked in both,
    where there are some, else by all that both have placed."""
    known = {piece.id: piece for piece in pieces}
    common = sorted(set(first) & set(second))
    locked = [i for i in common if first[i].locked and second[i].locked]
    by = [_Twice.of(known[i], first[i].pose(), second[i].pose()) for i in locked or common]
    motion = _laid_over(by)
    laid_over: Literal["nothing", "locked", "all"] = "nothing"
    if motion != Pose(0.0, 0.0):
        laid_over = "locked" if locked else "all"
    differences = []
    for i in sorted(set(first) | set(second)):
        if i not in second:
            differences.append(schema.Difference(piece=i, change="only_first"))
        elif i not in first:
            differences.append(schema.Difference(piece=i, change="only_second"))
        else:
            poses = first[i].pose(), motion @ second[i].pose()
            here, there = (pose.apply([known[i].centroid_mm])[0] for pose in poses)
            apart = float(np.hypot(*(here - there)))
            turned = wrap_deg(poses[1].rotation_deg - poses[0].rotation_deg)
            same = apart <= SAME_MM and abs(turned) <= SAME_DEG
            differences.append(
                schema.Difference(
                    piece=i,
                    change="same" if same else "moved",
                    distance_mm=apart,
                    rotation_deg=turned,
                )
            )
    return schema.Comparison(
        pieces=differences, laid_over=laid_over, same_mm=SAME_MM, same_deg=SAME_DEG
    )


class _Twice(NamedTuple):
    """A piece as two hypotheses lay it."""

    motion: Pose
    """Lays the second over the first."""
    area_mm2: float
    here: Points
    """(4, 2) points about its middle that weigh its place and its turn as its whole area would."""
    there: Points

    @classmethod
    def of(cls, piece: schema.Piece, one: Pose, other: Pose) -> _Twice:
        arm = np.sqrt(piece.area_mm2 / (2 * np.pi))
        spots = piece.centroid_mm + arm * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
        motion = one @ other.inverse()
        return cls(motion, piece.area_mm2, one.apply(spots), other.apply(spots))


def _laid_over(pieces: Sequence[_Twice]) -> Pose:
    """The motion of the second hypothesis that brings the most area nearest to the first."""
    if not pieces:
        return Pose(0.0, 0.0)
    areas = np.array([piece.area_mm2 for piece in pieces])
    here = np.stack([piece.here for piece in pieces])
    there = np.stack([piece.there for piece in pieces])

    def apart(motion: Pose) -> Points:
        moved = motion.apply(there.reshape(-1, 2)).reshape(here.shape)
        off: Points = np.sqrt(((moved - here) ** 2).sum(axis=2).mean(axis=1))
        return off

    def cost(motion: Pose) -> float:
        return float(areas @ np.minimum(apart(motion), ELSEWHERE_MM))

    # To move nothing comes first: it is chosen where it is as good.
    motions = [Pose(0.0, 0.0), *(piece.motion for piece in pieces)]
    fitted = min(motions, key=cost)
    for _ in range(ROUNDS):
        off = apart(fitted)
        weights = areas / np.maximum(off, 1e-3) * (off < ELSEWHERE_MM)
        fitted = _rigid(there, here, weights)
    return min([*motions, fitted], key=cost)


def _rigid(source: Points, target: Points, weights: Points) -> Pose:
    """The motion that brings (N, K, 2) points nearest to others, by weighted least squares."""
    share = (weights / weights.sum())[:, None]
    start, end = ((share * points.mean(axis=1)).sum(axis=0) for points in (source, target))
    (x, y), (u, v) = np.moveaxis(source - start, 2, 0), np.moveaxis(target - end, 2, 0)
    along, across = (share * (x * u + y * v)).sum(), (share * (y * u - x * v)).sum()
    turn = Pose(0.0, 0.0, np.arctan2(across, along))
    shift = end - turn.apply([start])[0]
    return Pose(shift[0], shift[1], turn.rotation_rad)


def _joint(first: Fragment, second: Fragment, pose: Pose) -> tuple[Points, Points, Points]:
    """Points along the first piece's rim where the second lies near, in order.

    Returns:
        Points (N, 2), mm in the first one's frame; outward normals (N, 2); and the gap (N,),
        below 0 where the pieces overlap.
    """
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
