"""Fitting outlines to each other: two outlines in, ranked candidate poses out. Geometry only.

Every placement gets a *support*, roughly the log-likelihood ratio between "these contours were
one" and "they touch by chance": close contact counts by its length, more where the contour's shape
tells the place and little where it is straight or round and would fit elsewhere as well; corners
that meet and lines that run on across the join count extra; overlap counts against.

Inside this module points are complex numbers x + iy in mm, and a motion carries z to
turn * z + shift with |turn| = 1; `pose_of` and `motion_of` lead to and from `Pose`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry import Polygon

from reassembly.outline.contour import resample
from reassembly.pose import Pose

__all__ = [
    "Fit",
    "FitSettings",
    "Measures",
    "Outline",
    "apart",
    "distinct",
    "fit_contours",
    "join",
    "measure",
    "motion_of",
    "moved",
    "outline_of",
    "pose_of",
    "refine",
]

Complex = NDArray[np.complex128]
Real = NDArray[np.float64]

FACING = -0.75
"""Cosine below which two outward normals face each other."""
CORNER_RAD = math.radians(25)
"""A contour that bends by more has a corner."""
SHARED_RAD, STRAIGHT_RAD = math.radians(15), math.radians(5)
"""How far sides may differ that lie on each other, and that continue each other."""
TELLING = 0.75
"""How far, in multiples of the noise, a contour must leave itself when slid along for its shape to
tell where it belongs."""
COARSE = 4
"""One in so many contour points serves to choose among many proposals."""


@dataclass(frozen=True)
class FitSettings:
    """What counts as a fit. The lengths suit pieces of 30 to 200 mm."""

    spacing_mm: float = 1.0
    """Distance between the points of a contour."""
    gap_mm: float = 2.5
    """Contours further apart than this do not touch."""
    noise_mm: float = 0.2
    """How exactly contours are known, wear included: distances below this are as good as none."""
    slide_mm: float = 5.0
    """Shape tells the place where a piece moved by this much would no longer fit."""
    shape_mm: float = 24.0
    """Length of contour whose shape is looked at."""
    window_mm: float = 12.0
    """Shortest stretch of contour that proposes a pose."""
    contact_weight: float = 0.3
    """Support of a mm of exact contact as such, whatever its shape."""
    corner_weight: float = 8.0
    """Support of a corner that meets a corner."""
    line_weight: float = 20.0
    """Support of a line (a border, an older break) that runs on straight across the join."""
    overlap_weight: float = 1.0
    """Support lost by a mm^2 of overlap."""
    proposals: int = 80
    """How many poses of a pair are looked at closely."""


@dataclass(frozen=True, eq=False)
class _Member:
    """One piece of an outline: a map of the distance to its contour, and the piece's motion."""

    signed: Real
    """(H, W), mm, negative inside, from -`margin_mm` to `margin_mm`."""
    slope: Complex
    """(H, W), unit vectors along which that distance grows."""
    origin: complex
    step_mm: float
    margin_mm: float
    centre: complex
    radius_mm: float
    turn: complex = 1.0
    shift: complex = 0.0

    def look_up(self, z: Complex) -> tuple[Real, Complex]:
        """Distance and slope at (N,) points of the piece's own frame."""
        local = (z - self.origin) / self.step_mm
        height, width = self.signed.shape
        x, y = np.clip(local.real, 0, width - 1.001), np.clip(local.imag, 0, height - 1.001)
        column, row = x.astype(np.intp), y.astype(np.intp)
        fx, fy = x - column, y - row
        at = row * width + column
        flat = self.signed.ravel()
        upper = flat[at] * (1 - fx) + flat[at + 1] * fx
        lower = flat[at + width] * (1 - fx) + flat[at + width + 1] * fx
        nearest = at + (fx > 0.5) + width * (fy > 0.5)
        return upper * (1 - fy) + lower * fy, self.slope.ravel()[nearest]


@dataclass(frozen=True, eq=False)
class Outline:
    """The contour of a piece, or of several that `join` put together."""

    points: Complex
    """(N,) mm, evenly spaced and in order around each piece."""
    normals: Complex
    """(N,) unit vectors that point outwards."""
    telling: Real
    """(N,) what the shape around each point adds to the support of a mm of contact there."""
    lengths_mm: Real
    """(N,) length of contour that each point stands for."""
    corners: Complex
    """(C,) mm, where the contour bends sharply."""
    sides: Complex
    """(C, 2) unit vectors along the contour, away from each corner: onwards and backwards."""
    members: tuple[_Member, ...]
    centre: complex
    radius_mm: float
    """Of a circle around `centre` that holds everything."""

    def distance(self, z: Complex) -> tuple[Real, Complex]:
        """How far points, an array of any shape, lie from the outline.

        Returns:
            Signed distance in mm, negative inside, infinite far away; and the unit vector
            along which it grows.
        """
        best = np.full(z.shape, np.inf)
        away = np.ones(z.shape, dtype=np.complex128)
        for member in self.members:
            local = (z - member.shift) * np.conj(member.turn)
            near = np.abs(local - member.centre) < member.radius_mm + member.margin_mm
            signed, slope = member.look_up(local[near])
            closer = signed < best[near]
            near[near] = closer
            best[near] = signed[closer]
            away[near] = slope[closer] * member.turn
        return best, away


@dataclass(frozen=True, eq=False)
class Measures:
    """How well each of K placements fits; all (K,)."""

    support: Real
    contact_mm: Real
    residual_mm: Real
    """Root mean square distance between the contours where they touch."""
    overlap_mm2: Real


@dataclass(frozen=True)
class Fit:
    """A candidate for how one outline lies beside another."""

    pose: Pose
    """Of the moving outline in the fixed one's frame."""
    support: float
    contact_mm: float
    residual_mm: float
    overlap_mm2: float


def pose_of(turn: complex, shift: complex) -> Pose:
    """A motion as a pose, whose angle counts counter-clockwise as seen, with y down."""
    return Pose(shift.real, shift.imag, -math.atan2(turn.imag, turn.real))


def motion_of(pose: Pose) -> tuple[complex, complex]:
    """A pose as (turn, shift)."""
    return complex(np.exp(-1j * pose.rotation_rad)), complex(pose.x_mm, pose.y_mm)


# From a polygon to an outline


def outline_of(polygon: Polygon, settings: FitSettings | None = None) -> Outline:
    """Samples the outer ring of a polygon given in mm. Holes take no part in any fit."""
    settings = settings or FitSettings()
    ring = np.asarray(shapely.geometry.polygon.orient(polygon).exterior.coords)
    perimeter = polygon.exterior.length
    spacing = min(settings.spacing_mm, perimeter / 48)
    points = _smooth(_complex(resample(ring, spacing)))
    corners, sides = _find_corners(points, spacing, settings)
    centre = complex(points.mean())
    radius = float(np.abs(points - centre).max())
    return Outline(
        points=points,
        normals=_normals(points),
        telling=_telling(points, spacing, settings),
        lengths_mm=np.full(len(points), perimeter / len(points)),
        corners=corners,
        sides=sides,
        members=(_map_distance(points, spacing, 3 * settings.gap_mm, centre, radius),),
        centre=centre,
        radius_mm=radius,
    )


def _complex(points: Real) -> Complex:
    return np.asarray(points[:, 0] + 1j * points[:, 1])


def _unit(z: Complex) -> Complex:
    return np.asarray(z / np.maximum(np.abs(z), 1e-12))


def _smooth(points: Complex) -> Complex:
    from scipy.ndimage import gaussian_filter1d

    x, y = (gaussian_filter1d(part, 1.0, mode="wrap") for part in (points.real, points.imag))
    return np.asarray(x + 1j * y)


def _normals(points: Complex) -> Complex:
    """Outward unit vectors of a closed contour that has its inside on the left."""
    return -1j * _unit(np.roll(points, -1) - np.roll(points, 1))


def _find_corners(
    points: Complex, spacing: float, settings: FitSettings, most: int = 12
) -> tuple[Complex, Complex]:
    """The sharpest bends of a contour, and the directions of its two sides there."""
    from scipy.ndimage import maximum_filter1d

    arm = max(2, round(min(settings.slide_mm / spacing, len(points) / 16)))
    far = max(arm + 1, round(min(3 * settings.slide_mm / spacing, len(points) / 6)))

    def side(reach: int) -> Complex:
        # The corner itself is rounded; its sides begin beyond that.
        begin = max(1, arm // 2) * (1 if reach > 0 else -1)
        return _unit(np.roll(points, -reach) - np.roll(points, -begin))

    bend = np.abs(np.angle(-side(arm) * np.conj(side(-arm))))
    sharpest = bend == maximum_filter1d(bend, 2 * arm + 1, mode="wrap")
    found = np.flatnonzero(sharpest & (bend > CORNER_RAD))
    found = found[np.argsort(-bend[found], kind="stable")][:most]
    return points[found], np.stack([side(far)[found], side(-far)[found]], axis=1)


def _telling(points: Complex, spacing: float, settings: FitSettings) -> Real:
    """How far each point would leave the contour if the stretch around it slid by `slide_mm` in
    the way that it resists least, on the log scale of support: 0 on lines and arcs."""
    length = max(3, round(min(settings.shape_mm / spacing, len(points) / 4)))
    middle, spread, stiffness = _stretches(points, length)
    weakest = np.linalg.eigh(stiffness)[1][:, :, 0]
    at = (np.arange(len(points)) + length // 2) % len(points)
    normals = _normals(points)[at]
    spin = (normals * np.conj(1j * (points[at] - middle))).real / np.sqrt(spread)
    rows = np.stack([normals.real, normals.imag, spin], axis=1)
    leaves = settings.slide_mm * (rows * weakest).sum(axis=1)
    telling = np.empty(len(points))
    # Noise bends a straight contour, too: hence the allowance.
    telling[at] = 0.5 * np.log1p((leaves / (TELLING * settings.noise_mm)) ** 2)
    return telling


def _stretches(z: Complex, length: int) -> tuple[Complex, Real, NDArray[np.float64]]:
    """For the stretch of `length` points that starts at each point of a closed contour: its
    middle, the mean square distance from it (mm^2), and (N, 3, 3) the mean square distance from
    the contour caused by moving the stretch by 1 mm in x, in y, or at its lever by a turn."""

    def mean(values: NDArray[Any]) -> NDArray[Any]:
        running = np.cumsum(np.concatenate([values[:1] * 0, values, values[:length]]), axis=0)
        return np.asarray((running[length : length + len(z)] - running[: len(z)]) / length)

    normals = _normals(z)
    middle = mean(z)
    spread = np.maximum(mean(np.abs(z) ** 2) - np.abs(middle) ** 2, 1e-12)
    rows = np.stack([normals.real, normals.imag, (normals * np.conj(1j * z)).real], axis=-1)
    about_origin = mean(rows[:, :, None] * rows[:, None, :])
    to_middle = np.zeros((len(z), 3, 3))
    to_middle[:, 0, 0] = to_middle[:, 1, 1] = 1
    to_middle[:, 2] = np.stack([middle.imag, -middle.real, np.ones(len(z))], axis=1)
    to_middle[:, 2] /= np.sqrt(spread)[:, None]
    return middle, spread, to_middle @ about_origin @ to_middle.transpose(0, 2, 1)


def _map_distance(
    points: Complex, step: float, margin: float, centre: complex, radius: float
) -> _Member:
    from scipy.spatial import cKDTree

    ring = np.column_stack([points.real, points.imag])
    low = ring.min(axis=0) - margin - step
    width, height = np.ceil((ring.max(axis=0) + margin + step - low) / step).astype(int) + 1
    x, y = np.meshgrid(low[0] + step * np.arange(width), low[1] + step * np.arange(height))
    grid = np.column_stack([x.ravel(), y.ravel()])
    tree = cKDTree(resample(ring, step / 6))
    distance = np.minimum(tree.query(grid, distance_upper_bound=margin)[0], margin)
    polygon = Polygon(ring)
    shapely.prepare(polygon)
    inside = shapely.contains_xy(polygon, grid[:, 0], grid[:, 1])
    signed = np.where(inside, -distance, distance).reshape(height, width)
    down, right = np.gradient(signed, step)
    slope = _unit(right + 1j * down)
    return _Member(signed, slope, complex(low[0], low[1]), step, margin, centre, radius)


def moved(outline: Outline, turn: complex, shift: complex) -> Outline:
    """The outline carried along by a motion."""
    return replace(
        outline,
        points=turn * outline.points + shift,
        normals=turn * outline.normals,
        corners=turn * outline.corners + shift,
        sides=turn * outline.sides,
        members=tuple(
            replace(m, turn=turn * m.turn, shift=turn * m.shift + shift) for m in outline.members
        ),
        centre=turn * outline.centre + shift,
    )


def join(one: Outline, other: Outline, settings: FitSettings) -> Outline:
    """Two outlines that lie in the same frame as one; points along their seam are left out."""
    free_one = ~_touching(*other.distance(one.points), one.normals, settings.gap_mm)
    free_other = ~_touching(*one.distance(other.points), other.normals, settings.gap_mm)
    members = one.members + other.members
    places = np.array([m.turn * m.centre + m.shift for m in members])
    reaches = np.array([m.radius_mm for m in members])
    centre = complex(places.mean())
    return Outline(
        points=np.concatenate([one.points[free_one], other.points[free_other]]),
        normals=np.concatenate([one.normals[free_one], other.normals[free_other]]),
        telling=np.concatenate([one.telling[free_one], other.telling[free_other]]),
        lengths_mm=np.concatenate([one.lengths_mm[free_one], other.lengths_mm[free_other]]),
        corners=np.concatenate([one.corners, other.corners]),
        sides=np.concatenate([one.sides, other.sides]),
        members=members,
        centre=centre,
        radius_mm=float((np.abs(places - centre) + reaches).max()),
    )


# How well a placement fits


def _touching(distance: Real, away: Complex, normals: Complex, gap_mm: float) -> NDArray[np.bool_]:
    return (np.abs(distance) < gap_mm) & ((away * np.conj(normals)).real < FACING)


def refine(
    fixed: Outline,
    moving: Outline,
    turns: Complex,
    shifts: Complex,
    settings: FitSettings,
    *,
    steps: int = 4,
    every: int = 1,
) -> tuple[Complex, Complex]:
    """Moves each of K placements so that the contours close up where they nearly touch.

    Damped Gauss-Newton steps on the distances of the touching points: a piece stays where it is
    in those ways that its contact says nothing about.
    """
    points, normals = moving.points[::every], moving.normals[::every]
    count, reach = len(turns), moving.radius_mm
    for _ in range(steps):
        z = turns[:, None] * points + shifts[:, None]
        centres = turns * moving.centre + shifts
        distance, away = fixed.distance(z)
        touch = _touching(distance, away, turns[:, None] * normals, settings.gap_mm)
        which = np.nonzero(touch)[0]
        gaps, away, arm = distance[touch], away[touch], (z - centres[:, None])[touch]
        ways = (away.real, away.imag, (away * np.conj(1j * arm)).real / reach)
        normal = np.empty((count, 3, 3))
        pull = np.empty((count, 3))
        for a in range(3):
            pull[:, a] = np.bincount(which, ways[a] * gaps, count)
            for b in range(a, 3):
                normal[:, a, b] = normal[:, b, a] = np.bincount(which, ways[a] * ways[b], count)
        normal += (1 + 0.01 * touch.sum(axis=1))[:, None, None] * np.eye(3)
        move = -np.linalg.solve(normal, pull[..., None])[..., 0]
        turns = turns * np.exp(1j * move[:, 2] / reach)
        shifts = centres + move[:, 0] + 1j * move[:, 1] - turns * moving.centre
    return _unit(turns), shifts


def measure(
    fixed: Outline,
    moving: Outline,
    turns: Complex,
    shifts: Complex,
    settings: FitSettings,
    *,
    every: int = 1,
) -> Measures:
    """Measures K placements of `moving` beside `fixed`."""
    z = turns[:, None] * moving.points[::every] + shifts[:, None]
    lengths = moving.lengths_mm[::every] * every
    distance, away = fixed.distance(z)
    touch = _touching(distance, away, turns[:, None] * moving.normals[::every], settings.gap_mm)
    gaps = np.where(touch, distance, 0)
    contact = touch @ lengths

    misfit = 0.5 * np.log1p((gaps / settings.noise_mm) ** 2)
    telling = moving.telling[::every] * _well_within(touch, lengths, settings.shape_mm)
    worth = np.maximum(settings.contact_weight + telling - misfit, -settings.contact_weight)

    overlap = np.maximum(-distance, 0) @ lengths
    theirs, _ = moving.distance((fixed.points[::every] - shifts[:, None]) / turns[:, None])
    overlap += np.maximum(-theirs, 0) @ fixed.lengths_mm[::every] * every
    # Each side saw the same overlap; along a good join noise alone makes slivers of it.
    overlap = np.maximum(overlap / 2 - contact * settings.noise_mm / 4, 0)

    corners, lines = _corners_met(fixed, moving, turns, shifts, settings)
    support = (
        (touch * worth) @ lengths
        + settings.corner_weight * corners
        + settings.line_weight * lines
        - settings.overlap_weight * overlap
    )
    count = np.maximum(touch.sum(axis=1), 1)
    return Measures(support, contact, np.sqrt((gaps**2).sum(axis=1) / count), overlap)


def _well_within(touch: NDArray[np.bool_], lengths: Real, shape_mm: float) -> NDArray[np.bool_]:
    """(K, N): where the whole stretch whose shape makes a point telling is in contact."""
    half = min(max(1, round(shape_mm / 2 / float(np.median(lengths)))), (touch.shape[1] - 1) // 2)
    around = np.concatenate([touch[:, -half:], touch, touch[:, :half]], axis=1)
    running = np.cumsum(np.pad(around, ((0, 0), (1, 0))), axis=1)
    width = 2 * half + 1
    return np.asarray(running[:, width:] - running[:, :-width] >= 0.9 * width)


def _corners_met(
    fixed: Outline, moving: Outline, turns: Complex, shifts: Complex, settings: FitSettings
) -> tuple[Real, Real]:
    """(K,) each: how many corners meet, and how many lines run on straight where they do."""
    if not len(fixed.corners) or not len(moving.corners):
        return np.zeros(len(turns)), np.zeros(len(turns))
    ours = turns[:, None] * moving.corners + shifts[:, None]
    meet = np.abs(ours[:, :, None] - fixed.corners) / (2 * settings.gap_mm)
    which, mine, its = np.nonzero(meet < 1)
    closeness = 1 - meet[which, mine, its] ** 2
    straight = np.zeros(len(which))
    for onwards, backwards in ((0, 1), (1, 0)):
        side, border = (turns[which] * moving.sides[mine, s] for s in (onwards, backwards))
        shared = np.abs(np.angle(side * np.conj(fixed.sides[its, backwards])))
        kink = np.abs(np.angle(-border * np.conj(fixed.sides[its, onwards])))
        runs_on = np.exp(-0.5 * (kink / STRAIGHT_RAD) ** 2) * (shared < SHARED_RAD)
        straight = np.maximum(straight, runs_on)
    corners, lines = np.zeros(ours.shape), np.zeros(ours.shape)
    np.maximum.at(corners, (which, mine), closeness)
    np.maximum.at(lines, (which, mine), closeness * straight)
    return corners.sum(axis=1), lines.sum(axis=1)


# From two outlines to candidates


def apart(
    moving: Outline,
    turns: Complex,
    shifts: Complex,
    turn: complex | Complex,
    shift: complex | Complex,
) -> Real:
    """Roughly how far, in mm, placements lie from another (or others, by broadcasting), turns
    included."""
    travelled = np.abs((turns - turn) * moving.centre + shifts - shift)
    return np.asarray(travelled + np.abs(turns - turn) * moving.radius_mm / 2)


def distinct(
    moving: Outline, turns: Complex, shifts: Complex, limit: int, apart_mm: float
) -> NDArray[np.intp]:
    """Indices of up to `limit` placements, the first of every few that are nearly the same."""
    kept: list[int] = []
    left = np.arange(len(turns))
    while len(left) and len(kept) < limit:
        kept.append(int(left[0]))
        first = turns[kept[-1]], shifts[kept[-1]]
        left = left[apart(moving, turns[left], shifts[left], *first) > apart_mm]
    return np.array(kept, dtype=np.intp)


def fit_contours(
    fixed: Outline, moving: Outline, settings: FitSettings | None = None, limit: int = 40
) -> list[Fit]:
    """Up to `limit` ways in which `moving` may lie beside `fixed`, best supported first.

    Both must be outlines of single pieces, made with the same settings.
    """
    settings = settings or FitSettings()
    proposed = []
    for turns, shifts in (_by_corners(fixed, moving), _by_stretches(fixed, moving, settings)):
        kept = distinct(moving, turns, shifts, 2 * settings.proposals, settings.gap_mm)
        proposed.append((turns[kept], shifts[kept]))
    turns, shifts = (np.concatenate(parts) for parts in zip(*proposed, strict=True))
    if not len(turns):
        return []
    turns, shifts = refine(fixed, moving, turns, shifts, settings, every=COARSE)
    rough = measure(fixed, moving, turns, shifts, settings, every=COARSE)
    order = np.argsort(-rough.support, kind="stable")
    kept = distinct(moving, turns[order], shifts[order], settings.proposals, settings.gap_mm)
    order = order[kept]
    turns, shifts = refine(fixed, moving, turns[order], shifts[order], settings, steps=3)
    found = measure(fixed, moving, turns, shifts, settings)
    order = np.argsort(-found.support, kind="stable")
    order = order[found.support[order] > 0]
    order = order[distinct(moving, turns[order], shifts[order], limit, settings.gap_mm)]
    return [
        Fit(
            pose_of(turns[k], shifts[k]),
            float(found.support[k]),
            float(found.contact_mm[k]),
            float(found.residual_mm[k]),
            float(found.overlap_mm2[k]),
        )
        for k in order
    ]


def _by_corners(fixed: Outline, moving: Outline) -> tuple[Complex, Complex]:
    """Placements that lay a corner on a corner and a side along a side."""
    turns, shifts = [], []
    for onwards, backwards in ((0, 1), (1, 0)):
        turn = fixed.sides[:, None, onwards] * np.conj(moving.sides[None, :, backwards])
        turns.append(turn.ravel())
        shifts.append((fixed.corners[:, None] - turn * moving.corners).ravel())
    return np.concatenate(turns), np.concatenate(shifts)


def _by_stretches(
    fixed: Outline, moving: Outline, settings: FitSettings, most: int = 1000
) -> tuple[Complex, Complex]:
    """Placements that lay a stretch of one contour onto a stretch of the other, best first.

    For stretches of several lengths at every pair of starting points, the least-squares motion
    and its residual follow from running sums along the diagonals of one product matrix.
    """
    step = min(2 * settings.spacing_mm, *(o.lengths_mm.sum() / 24 for o in (fixed, moving)))
    # The outlines' insides lie on the same side, so one is followed backwards.
    a = _resampled(fixed, step)
    b = _resampled(moving, step)[::-1]
    n, m = len(a), len(b)
    lengths = [min(max(4, round(settings.window_mm / step)), min(n, m) // 2)]
    while lengths[-1] * 1.6 <= min(n, m) / 2:
        lengths.append(math.ceil(lengths[-1] * 1.6))
    rows = np.arange(n + lengths[-1])
    partner = (rows[:n, None] + np.arange(m)) % m
    product = a[rows % n, None] * np.conj(b)[(rows[:, None] + np.arange(m)) % m]
    running = np.concatenate([np.zeros((1, m)), np.cumsum(product, axis=0)])
    noise = settings.noise_mm**2
    scores, turns, shifts = [], [], []
    for length in lengths:
        middle_a, spread_a, stiff_a = _stretches(a, length)
        middle_b, spread_b, stiff_b = _stretches(b, length)
        cross = (running[length : length + n] - running[:n]) / length
        cross -= middle_a[:, None] * np.conj(middle_b)[partner]
        residual = np.maximum(spread_a[:, None] + spread_b[partner] - 2 * np.abs(cross), 0)
        slid_a, slid_b = (
            settings.slide_mm**2 * np.maximum(np.linalg.eigvalsh(stiff)[:, 0], 0)
            for stiff in (stiff_a, stiff_b)
        )
        slid = np.minimum(slid_a[:, None], slid_b[partner])
        shape = 0.5 * np.log((slid + noise) / (residual + noise))
        score = np.where(residual < settings.gap_mm**2, settings.contact_weight + shape, 0)
        top = np.argpartition(-score, min(most, score.size) - 1, axis=None)[:most]
        top = top[score.ravel()[top] > 0]
        turn = _unit(cross.ravel()[top])
        place_a, place_b = middle_a[top // m], middle_b[partner.ravel()[top]]
        scores.append(score.ravel()[top] * length)
        turns.append(turn)
        shifts.append(fixed.centre + place_a - turn * (moving.centre + place_b))
    order = np.argsort(-np.concatenate(scores), kind="stable")[:most]
    return np.concatenate(turns)[order], np.concatenate(shifts)[order]


def _resampled(outline: Outline, step: float) -> Complex:
    """A single piece's contour at other distances, relative to its centre."""
    ring = np.column_stack([outline.points.real, outline.points.imag])
    return _complex(resample(ring, step)) - outline.centre
