"""What can be measured on a solved puzzle's pieces, breaks and paint, so that made and real
puzzles can be set side by side.

All lengths are mm. Scans are first brought to one resolution (`RESOLUTION_MM`): a fine scan
would otherwise look rougher and sharper than a coarse one of the same piece.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import contourpy
import cv2
import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry import Polygon
from shapely.geometry.polygon import orient

from reassembly.outline.contour import resample
from reassembly.puzzle import Fragment, Puzzle

__all__ = [
    "RESOLUTION_MM",
    "ROWS",
    "Row",
    "Statistics",
    "gather",
    "measure",
    "measure_puzzle",
    "rows_at",
]

Array = NDArray[np.float64]
Image = NDArray[Any]
"""Of float32; cv2 does not tell the type of what it returns."""

RESOLUTION_MM = 0.35
"""Pixel and standard deviation of the blur to which all scans are brought."""
REACH_MM = 10.0
"""Two outlines further apart than this are no join."""
SHORTEST_JOIN_MM = 15.0
STRAIGHT_MM, STRAIGHT_WITHIN_MM = 20.0, 0.5
"""A straight run is this long and stays this close to a straight line."""
RIM_MM = (0.5, 3.0)
"""Depths that count as the rim. The outermost half millimetre mixes with the background."""
SAMPLES_PER_PIECE, SAMPLES_PER_PUZZLE = 1000, 600
STEP_MM = 0.3
COARSE_STEP_MM = 1.0


@dataclass(frozen=True)
class Row:
    """One statistic: a distribution over pieces, outline points or pixels."""

    name: str
    group: str
    title: str
    unit: str
    about: str
    finest_mm: float = 1.5
    """The finest detail it depends on; coarser scans leave it out."""


ROWS: tuple[Row, ...] = (
    Row("pieces", "pieces", "pieces a puzzle", "", "pieces that belong to the puzzle"),
    Row("size", "pieces", "piece size", "mm", "diameter of the circle of equal area"),
    Row("solidity", "pieces", "solidity", "", "area over that of the convex hull"),
    Row("elongation", "pieces", "elongation", "", "long over short side of the tightest rectangle"),
    Row(
        "joined",
        "breaks",
        "outline that faces a neighbour",
        "%",
        f"share of a piece's outline with another piece across it within {REACH_MM:g} mm",
    ),
    Row(
        "gap", "breaks", "gap", "mm", "distance to the piece across the break; overlap is negative"
    ),
    Row("unevenness", "breaks", "unevenness of a gap", "mm", "standard deviation along one join"),
    *(
        Row(
            f"rough_{low}_{2 * low}",
            "breaks",
            f"roughness, {low} to {2 * low} mm",
            "mm",
            "rms deviation of the outline at these wavelengths, in stretches of 10 mm",
            finest_mm=low,
        )
        for low in (1, 2, 4, 8)
    ),
    Row(
        "straight",
        "breaks",
        "straight outline",
        "%",
        f"share of a piece's outline in runs of {STRAIGHT_MM:g} mm that stay within "
        f"{STRAIGHT_WITHIN_MM:g} mm of a line",
    ),
    Row("run", "breaks", "longest straight run", "", "over the piece's diameter"),
    Row("turning", "breaks", "turning", "deg", "change of direction between two 5-mm chords"),
    Row(
        "corner",
        "breaks",
        "corner loss",
        "mm",
        "from where the two sides of a corner would meet to the outline",
    ),
    Row("lightness", "paint", "rim lightness L*", "", "within 3 mm of the outline"),
    Row("redness", "paint", "rim redness a*", "", "within 3 mm of the outline"),
    Row("yellowness", "paint", "rim yellowness b*", "", "within 3 mm of the outline"),
    Row("fade", "paint", "rim minus interior, L*", "", "1 mm inside the outline minus 7 mm inside"),
    Row("grey", "paint", "rim minus interior, chroma", "", "1 mm inside the outline minus 7 mm"),
    Row("contrast", "paint", "contrast of the rim", "L*", "local standard deviation, 1.5 mm wide"),
    Row("lines", "paint", "lines at the rim", "%", "share of the rim steeper than 4 L* a mm"),
    Row(
        "coherence", "paint", "direction of the rim's paint", "", "structure tensor: 0 none, 1 all"
    ),
    Row(
        "jump", "paint", "colour jump across a join", "ΔE", "1.5 mm inside each of two facing rims"
    ),
    Row("fine", "paint", "fine detail", "L*", "local rms at about 1 mm", finest_mm=1.0),
    Row("coarse", "paint", "coarse detail", "L*", "local rms at about 5 mm"),
)


def rows_at(resolution_mm: float) -> tuple[Row, ...]:
    """The rows that scans of this resolution can tell."""
    return tuple(row for row in ROWS if row.finest_mm >= 2.5 * resolution_mm)


@dataclass(frozen=True)
class Statistics:
    """Samples of every row, kept apart by puzzle."""

    puzzles: tuple[str, ...]
    resolution_mm: float
    samples: Mapping[str, tuple[Array, ...]]
    """By row, one sorted array a puzzle, thinned to `SAMPLES_PER_PUZZLE` at even ranks."""
    counts: Mapping[str, tuple[int, ...]]
    """By row, how many samples each puzzle had before thinning."""


def measure(puzzles: Iterable[Puzzle], *, resolution_mm: float = RESOLUTION_MM) -> Statistics:
    """Statistics of a set of puzzles, in the order of their ids whatever order they come in.

    Stray pieces are left out; puzzles without true poses add nothing to the rows about joins.
    """
    found = {puzzle.id: measure_puzzle(puzzle, resolution_mm=resolution_mm) for puzzle in puzzles}
    return gather(found, resolution_mm)


def gather(found: Mapping[str, Mapping[str, Array]], resolution_mm: float) -> Statistics:
    """One `Statistics` from what `measure_puzzle` gave for each puzzle id."""
    ids = tuple(sorted(found))
    names = [row.name for row in rows_at(resolution_mm)]
    return Statistics(
        ids,
        resolution_mm,
        {name: tuple(_thinned(found[i][name]) for i in ids) for name in names},
        {name: tuple(len(found[i][name]) for i in ids) for name in names},
    )


def _thinned(values: Array) -> Array:
    ordered = np.sort(values)
    if len(ordered) <= SAMPLES_PER_PUZZLE:
        return ordered
    ranks = (np.arange(SAMPLES_PER_PUZZLE) + 0.5) * len(ordered) / SAMPLES_PER_PUZZLE
    return np.asarray(ordered[ranks.astype(int)])


def measure_puzzle(puzzle: Puzzle, *, resolution_mm: float = RESOLUTION_MM) -> dict[str, Array]:
    """All samples of one puzzle, by row name; a row may be empty."""
    belonging = [f for f in puzzle.fragments if f.id not in puzzle.strays]
    pieces = [_prepare(fragment, resolution_mm) for fragment in belonging]
    parts: dict[str, list[Array]] = {row.name: [] for row in ROWS}
    parts["pieces"].append(np.array([float(len(pieces))]))
    for piece in pieces:
        for name, values in {**_shape(piece), **_break(piece), **_paint(piece)}.items():
            parts[name].append(values)
    if puzzle.truth is not None and len(pieces) > 1:
        placed = [_placed(p, puzzle, f) for p, f in zip(pieces, belonging, strict=True)]
        for name, values in _joins(pieces, placed).items():
            parts[name].append(values)
    return {name: np.concatenate(values or [np.empty(0)]) for name, values in parts.items()}


# --- one piece at the common resolution ---------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Piece:
    """A fragment at the common resolution, lengths in mm, in its own frame."""

    pixel_mm: float
    polygon: Polygon
    outline: Array
    """(N, 2), every `STEP_MM`; the outward side lies to the right of the way in a y-up drawing."""
    normals: Array
    """(N, 2), unit, outward, of the outline smoothed over 3 mm."""
    lab: Image
    """(H, W, 3), CIE L*, a*, b*; outside the piece, the nearest paint."""
    depth: Image
    """(H, W), how far inside the piece each pixel lies."""
    rim_lab: Array
    """(N, 3), smoothed paint 1.5 mm inside each outline point."""
    fade: Array
    """(K, 2), lightness and chroma of the smoothed paint, 1 mm minus 7 mm inside."""


def _prepare(fragment: Fragment, resolution_mm: float) -> _Piece:
    fragment = fragment.cropped()
    scale = fragment.mm_per_px / resolution_mm
    # A pixel is itself a blur, of variance 1/12 of its square.
    blur_px = math.sqrt(max(1 / scale**2 - 1 / 12, 0.01))
    pad = math.ceil(4 * blur_px) + 2
    mask = np.pad(fragment.mask, pad).astype(np.float32)
    image = np.pad(fragment.image, ((pad, pad), (pad, pad), (0, 0))).astype(np.float32) / 255
    layers = cv2.GaussianBlur(np.dstack([image * mask[..., None], mask]), (0, 0), blur_px)
    height, width = (math.ceil(side * scale) for side in mask.shape)
    # cv2 puts pixel centres at whole numbers, ours are at halves.
    shift = 0.5 / scale - 0.5
    onto = np.array([[1 / scale, 0, shift], [0, 1 / scale, shift]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    layers = cv2.warpAffine(layers, onto, (width, height), flags=flags)
    soft = layers[..., 3]
    rgb = layers[..., :3] / np.maximum(soft, 1e-3)[..., None]
    lab = cv2.cvtColor(np.clip(rgb, 0, 1).astype(np.float32), cv2.COLOR_RGB2LAB)
    inside = (soft > 0.5).astype(np.uint8)
    depth = cv2.distanceTransform(inside, cv2.DIST_L2, cv2.DIST_MASK_PRECISE) * resolution_mm

    ring_px = _largest_ring(soft)
    ring = fragment.to_mm(ring_px / scale - pad)
    origin = fragment.to_mm(np.array([[-pad, -pad]], dtype=np.float64))[0]
    polygon = orient(Polygon(ring))
    outline = resample(np.asarray(polygon.exterior.coords), STEP_MM)
    normals = _normals(outline)

    smooth = _masked_blur(lab, inside, 1.0 / resolution_mm)

    def at(depth_mm: float) -> Array:
        return _look_up(smooth, (outline - depth_mm * normals - origin) / resolution_mm)

    deep = _look_up(depth, (outline - 7.0 * normals - origin) / resolution_mm)[:, 0] > 4.0
    rim, inner = at(1.0)[deep], at(7.0)[deep]
    fade = np.column_stack(
        [rim[:, 0] - inner[:, 0], np.hypot(*rim[:, 1:].T) - np.hypot(*inner[:, 1:].T)]
    )
    return _Piece(resolution_mm, polygon, outline, normals, lab, depth, at(1.5), fade)


def _largest_ring(soft: Image) -> Array:
    """(N, 2) outline of the soft mask's largest part at one half, continuous pixels (x, y)."""
    lines = contourpy.contour_generator(z=np.pad(soft, 1), name="serial").lines(0.5)
    areas = [abs(Polygon(line).area) if len(line) > 3 else 0.0 for line in lines]
    return np.asarray(lines[int(np.argmax(areas))], dtype=np.float64) - 0.5


def _normals(outline: Array) -> Array:
    reach = round(1.5 / STEP_MM)
    along = np.roll(outline, -reach, axis=0) - np.roll(outline, reach, axis=0)
    along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
    return np.column_stack([along[:, 1], -along[:, 0]])


def _look_up(values: Image, at_px: Array) -> Array:
    """(N, C) values at continuous pixels (N, 2), linear between pixel centres."""
    x, y = (at_px - 0.5).astype(np.float32).T
    found = cv2.remap(values, x[:, None], y[:, None], cv2.INTER_LINEAR, None, cv2.BORDER_REPLICATE)
    return np.asarray(found, dtype=np.float64).reshape(len(at_px), -1)


def _masked_blur(values: Image, inside: NDArray[np.uint8], sigma_px: float) -> Image:
    """Gaussian mean over the inside only."""
    weight = inside.astype(np.float32)
    total = cv2.GaussianBlur(weight, (0, 0), sigma_px)
    weighted = weight if values.ndim == 2 else weight[..., None]
    blurred = cv2.GaussianBlur(values * weighted, (0, 0), sigma_px)
    floor = np.maximum(total, 1e-3)
    return np.asarray(blurred / (floor if values.ndim == 2 else floor[..., None]), np.float32)


# --- rows ---------------------------------------------------------------------------------------


def _diameter(piece: _Piece) -> float:
    return 2 * math.sqrt(piece.polygon.area / math.pi)


def _shape(piece: _Piece) -> dict[str, Array]:
    (_, sides, _) = cv2.minAreaRect(piece.outline.astype(np.float32))
    return {
        "size": np.array([_diameter(piece)]),
        "solidity": np.array([piece.polygon.area / piece.polygon.convex_hull.area]),
        "elongation": np.array([max(sides) / max(min(sides), 1e-6)]),
    }


def _break(piece: _Piece) -> dict[str, Array]:
    found = _roughness(piece.outline)
    sparse = resample(np.asarray(piece.polygon.exterior.coords), COARSE_STEP_MM)
    straight, longest = _straightness(sparse)
    found["straight"] = np.array([100 * straight])
    found["run"] = np.array([longest / _diameter(piece)])
    found["turning"] = np.degrees(np.abs(_turning(sparse, 5)))
    found["corner"] = _corner_loss(sparse)
    return found


def _roughness(outline: Array) -> dict[str, Array]:
    """Local rms of the outline's deviation across its course, by octave of wavelength."""
    count = len(outline)
    perimeter = count * STEP_MM
    spectrum = np.fft.fft(outline[:, 0] + 1j * outline[:, 1])
    frequency = np.abs(np.fft.fftfreq(count, STEP_MM))
    octave = np.log2(np.maximum(frequency, 0.5 / perimeter))
    smooth = np.fft.ifft(spectrum * np.exp(-((frequency * 12.0) ** 2)))
    across = np.roll(smooth, -1) - np.roll(smooth, 1)
    across *= 1j / np.maximum(np.abs(across), 1e-9)
    window = max(1, min(count, round(10.0 / STEP_MM)))
    found = {}
    for low in (1, 2, 4, 8):
        centre = -math.log2(low * math.sqrt(2))
        band = np.cos(np.clip(octave - centre, -1, 1) * math.pi / 2) ** 2
        deviation = (np.fft.ifft(spectrum * band) * np.conj(across)).real
        power = np.concatenate([deviation, deviation[: window - 1]]) ** 2
        mean = np.convolve(power, np.full(window, 1 / window), mode="valid")
        found[f"rough_{low}_{2 * low}"] = np.sqrt(mean[:: max(1, window // 2)])
    return found


def _straightness(outline: Array) -> tuple[float, float]:
    """Share of the outline in straight runs, and the longest straight run in mm.

    Args:
        outline: (N, 2), every `COARSE_STEP_MM`.
    """
    count = len(outline)
    covered = np.zeros(count, bool)
    for start in np.flatnonzero(_straight_windows(outline, round(STRAIGHT_MM / COARSE_STEP_MM))):
        covered[np.arange(start, start + round(STRAIGHT_MM / COARSE_STEP_MM) + 1) % count] = True
    longest, length = 0, 4
    while length < count // 2 and _straight_windows(outline, length).any():
        longest, length = length, max(length + 1, round(length * 1.1))
    return float(covered.mean()), longest * COARSE_STEP_MM


def _straight_windows(outline: Array, length: int) -> NDArray[np.bool_]:
    """(N,), whether the `length` steps from each point on stay close to their chord."""
    count = len(outline)
    if length >= count:
        return np.zeros(count, bool)
    runs = outline[(np.arange(count)[:, None] + np.arange(length + 1)) % count]
    chord = runs[:, -1] - runs[:, 0]
    size = np.maximum(np.linalg.norm(chord, axis=1, keepdims=True), 1e-9)
    away = runs - runs[:, :1]
    off = (away[..., 0] * chord[:, None, 1] - away[..., 1] * chord[:, None, 0]) / size
    # A line through the middle of the run's deviations halves the largest one.
    close = np.ptp(off, axis=1) <= 2 * STRAIGHT_WITHIN_MM
    return np.asarray(close & (size[:, 0] > 0.9 * length * COARSE_STEP_MM))


def _turning(outline: Array, reach: int) -> Array:
    """(N,) change of direction (rad), positive at convex corners, between the chords of `reach`
    steps before and after each point."""
    before = outline - np.roll(outline, reach, axis=0)
    after = np.roll(outline, -reach, axis=0) - outline
    cross = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    return np.asarray(np.arctan2(cross, np.einsum("ij,ij->i", before, after)))


def _corner_loss(outline: Array) -> Array:
    """Per convex corner sharper than 45 degrees, the distance from where its sides, taken 3 to
    9 mm away, would meet to the outline."""
    from scipy.ndimage import maximum_filter1d

    turn = _turning(outline, 6)
    corners = np.flatnonzero(
        (turn == maximum_filter1d(turn, 13, mode="wrap")) & (turn > math.pi / 4)
    )
    if len(outline) < 40 or not len(corners):
        return np.empty(0)
    near, far = 3, 9
    at = [outline[(corners + step) % len(outline)] for step in (-far, -near, near, far)]
    before, after = at[1] - at[0], at[2] - at[3]
    cross = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    sizes = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    offset = at[2] - at[1]
    kept = np.abs(cross) > 0.5 * sizes
    ahead = (offset[:, 0] * after[:, 1] - offset[:, 1] * after[:, 0])[kept] / cross[kept]
    meet = at[1][kept] + ahead[:, None] * before[kept]
    ring = shapely.linearrings(outline)
    return np.asarray(shapely.distance(shapely.points(meet), ring), dtype=np.float64)


def _paint(piece: _Piece) -> dict[str, Array]:
    pixel = piece.pixel_mm
    lightness = np.ascontiguousarray(piece.lab[..., 0])
    inside = (piece.depth > 0).astype(np.uint8)
    rim = _spread(np.flatnonzero((piece.depth > RIM_MM[0]) & (piece.depth < RIM_MM[1])))
    every = _spread(np.flatnonzero(piece.depth > 1.0))

    spread = _masked_blur(lightness**2, inside, 1.5 / pixel)
    spread = spread - _masked_blur(lightness, inside, 1.5 / pixel) ** 2

    soft = _masked_blur(lightness, inside, 0.5 / pixel)
    # Beyond the rim the paint is carried on, so that the rim itself is no line.
    outside = inside == 0
    soft[outside] = _masked_blur(lightness, inside, 2.0 / pixel)[outside]
    dx = cv2.Scharr(soft, cv2.CV_32F, 1, 0) / (32 * pixel)
    dy = cv2.Scharr(soft, cv2.CV_32F, 0, 1) / (32 * pixel)
    deep = (piece.depth > 1.0).astype(np.uint8)
    steep = _spread(np.flatnonzero((piece.depth > 1.0) & (piece.depth < 4.0)))
    xx, yy, xy = (_masked_blur(t, deep, 1.5 / pixel) for t in (dx * dx, dy * dy, dx * dy))
    coherence = np.sqrt((xx - yy) ** 2 + 4 * xy**2) / np.maximum(xx + yy, 1e-6)
    slope = np.sqrt(dx**2 + dy**2)

    def detail(sigma_mm: float) -> Array:
        band = _masked_blur(lightness, inside, sigma_mm / pixel)
        band = band - _masked_blur(lightness, inside, 2 * sigma_mm / pixel)
        power = _masked_blur(band**2, inside, 3 * sigma_mm / pixel)
        return np.sqrt(np.maximum(_at(power, every), 0))

    return {
        "lightness": _at(lightness, rim),
        "redness": _at(piece.lab[..., 1], rim),
        "yellowness": _at(piece.lab[..., 2], rim),
        "fade": _even(piece.fade[:, 0]),
        "grey": _even(piece.fade[:, 1]),
        "contrast": np.sqrt(np.maximum(_at(spread, rim), 0)),
        "lines": np.array([100 * float((_at(slope, steep) > 4.0).mean())] if len(steep) else []),
        "coherence": _at(coherence, steep),
        "fine": detail(0.25),
        "coarse": detail(1.25),
    }


def _spread(indices: NDArray[np.intp]) -> NDArray[np.intp]:
    """At most `SAMPLES_PER_PIECE` of them, evenly."""
    if len(indices) <= SAMPLES_PER_PIECE:
        return indices
    return np.asarray(indices[np.linspace(0, len(indices) - 1, SAMPLES_PER_PIECE).astype(int)])


def _even(values: Array) -> Array:
    return values[_spread(np.arange(len(values)))]


def _at(values: Image, indices: NDArray[np.intp]) -> Array:
    return values.ravel()[indices].astype(np.float64)


# --- joins --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Placed:
    """A piece's outline and normals where it truly lies, mm."""

    outline: Array
    normals: Array
    polygon: Polygon


def _placed(piece: _Piece, puzzle: Puzzle, fragment: Fragment) -> _Placed:
    assert puzzle.truth is not None
    pose = puzzle.truth[fragment.id]
    outline = pose.apply(piece.outline)
    return _Placed(outline, pose.apply(piece.normals) - pose.translation, Polygon(outline))


def _joins(pieces: list[_Piece], placed: list[_Placed]) -> dict[str, Array]:
    from scipy.spatial import cKDTree

    everything = np.concatenate([p.outline for p in placed])
    normals = np.concatenate([p.normals for p in placed])
    paint = np.concatenate([p.rim_lab for p in pieces])
    sizes = np.array([len(p.outline) for p in placed])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    owner = np.repeat(np.arange(len(placed)), sizes)
    for piece in placed:
        shapely.prepare(piece.polygon)

    stride = max(1, round(COARSE_STEP_MM / STEP_MM))
    joined, gaps, jumps = [], [], []
    by_pair: dict[tuple[int, int], list[Array]] = {}
    for i, piece in enumerate(placed):
        others = np.flatnonzero(owner != i)
        points = piece.outline[::stride]
        _, nearest = cKDTree(everything[others]).query(points)
        across = others[nearest]
        partner = owner[across]
        gap = _distance_to_ring(points, everything, across, starts[partner], sizes[partner])
        for j in np.unique(partner):
            mine = np.flatnonzero(partner == j)
            within = shapely.contains_xy(placed[j].polygon, points[mine])
            gap[mine[within]] *= -1
        facing = np.einsum("ij,ij->i", piece.normals[::stride], normals[across]) < -0.5
        facing &= np.abs(gap) < REACH_MM
        joined.append(100 * facing.mean())
        gaps.append(gap[facing])
        mine = np.arange(starts[i], starts[i] + sizes[i])[::stride][facing]
        jumps.append(np.linalg.norm(paint[mine] - paint[across[facing]], axis=1))
        for j in np.unique(partner[facing]):
            pair = (min(i, int(j)), max(i, int(j)))
            by_pair.setdefault(pair, []).append(gap[facing & (partner == j)])
    # Both sides of a join are in, hence the factor of two.
    along = [np.concatenate(sides) for sides in by_pair.values()]
    long_enough = [g for g in along if len(g) * COARSE_STEP_MM >= 2 * SHORTEST_JOIN_MM]
    return {
        "joined": np.array(joined),
        "gap": np.concatenate(gaps),
        "unevenness": np.array([float(g.std()) for g in long_enough]),
        "jump": np.concatenate(jumps),
    }


def _distance_to_ring(
    points: Array,
    vertices: Array,
    nearest: NDArray[np.intp],
    start: NDArray[np.intp],
    size: NDArray[np.intp],
) -> Array:
    """(N,) distance from each point to the two segments that meet at its nearest vertex, whose
    ring holds `size` vertices from `start` on."""
    a = vertices[nearest]
    distances = []
    for step in (-1, 1):
        b = vertices[start + (nearest - start + step) % size]
        along = b - a
        share = np.einsum("ij,ij->i", points - a, along)
        share = np.clip(share / np.maximum(np.einsum("ij,ij->i", along, along), 1e-12), 0, 1)
        distances.append(np.linalg.norm(points - a - share[:, None] * along, axis=1))
    return np.asarray(np.minimum(*distances))
