"""How pieces fit beside others by their extrapolated paint and by touch: sampling, score, refining.

Motions are those of `matching.motions`, about the pieces' centroids.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.matching.motions import Motions, carried
from reassembly.outline.contour import resample
from reassembly.pose import rotation_matrix
from reassembly.puzzle import Fragment

__all__ = [
    "AWAY_MM",
    "BAND_CELLS",
    "Piece",
    "Sheet",
    "distinct",
    "piece_of",
    "refined",
    "sampled",
    "score",
    "sheet_of",
    "union",
]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Spectra = NDArray[np.complex64]
Size = tuple[int, int]
Name = TypeVar("Name", bound=Hashable)

BAND_CELLS = 8
"""Cells across the extrapolated band."""
COARSE = 4
"""Cells along one of the grid on which translations are sampled."""
SIZE_STEP = 16
"""In cells of that grid, by which its sizes differ."""
PEAKS, MOST_PEAKS = 6, 100
"""Translations kept of each sampled rotation and of all, by paint and touch, and as many by touch
alone."""
AWAY_MM = 1e3
"""Distance from the rim wherever it is not known since it is beyond the band."""

# The score is in mm of rim. Colours differ in units of the variance of all paint along the rims:
# squared, by 2 on average where unrelated paint meets.
AGREEING = 0.6
"""Where the squared difference is smaller, paint speaks for a match, elsewhere against it."""
WORST = 2.5
"""Larger squared differences count as this, so that one stain does not outweigh a long rim."""
TOUCH = 0.1
"""Rims at this distance, in widths of the band, touch half."""
COLLISION = 6.0
"""Weight of the overlap."""
SAMPLED_TOUCH, SAMPLED_COLLISION = 1.3, 4.0
"""The same two, against the agreement of paint, while sampling."""
NEAR_POINTS = 500
"""Points of a piece, those nearest to the sheet, that are looked at while refining."""
THINNED = 2
"""One in so many points is enough for a rough score."""


@dataclass(frozen=True, eq=False)
class Sheet:
    """A piece, or several that lie together, on a grid."""

    maps: Singles
    """(H, W, 4): colours, extrapolated in the band, and the signed distance from the rim, mm,
    negative within."""
    origin_mm: Floats
    """(2,): x and y of the middle of the first cell."""
    cell_mm: float

    @property
    def band_mm(self) -> float:
        return BAND_CELLS * self.cell_mm

    @property
    def inside(self) -> NDArray[np.bool_]:
        """(H, W)."""
        return np.asarray(self.maps[..., 3] < 0)

    @property
    def middle_mm(self) -> Floats:
        """(2,)."""
        height, width = self.maps.shape[:2]
        return self.origin_mm + np.array([width - 1, height - 1]) / 2 * self.cell_mm

    def at(self, points: Singles) -> Singles:
        """(K, P, 4) maps at (K, P, 2) points, mm."""
        x, y = ((points - self.origin_mm) / self.cell_mm).astype(np.float32).transpose(2, 0, 1)
        return self._looked_up(np.ascontiguousarray(x), np.ascontiguousarray(y), cv2.INTER_LINEAR)

    def under(self, points: Singles, motions: Motions, *, roughly: bool = False) -> Singles:
        """(..., P, 4) maps at (2, ..., P) points, mm, carried along by (..., 3) motions; roughly,
        of the nearest cells."""
        c, s = np.cos(motions[..., 0]), np.sin(motions[..., 0])
        shift_x, shift_y = np.moveaxis(motions[..., 1:] - self.origin_mm, -1, 0)
        terms = np.stack([c, s, shift_x, shift_y]) / self.cell_mm
        c, s, shift_x, shift_y = terms[..., None].astype(np.float32)
        x = c * points[0]
        x += s * points[1]
        x += shift_x
        y = c * points[1]
        y -= s * points[0]
        y += shift_y
        columns, rows = (part.reshape(-1, part.shape[-1]) for part in (x, y))
        how = cv2.INTER_NEAREST if roughly else cv2.INTER_LINEAR
        return self._looked_up(columns, rows, how).reshape(*x.shape, 4)

    def _looked_up(self, columns: Singles, rows: Singles, how: int) -> Singles:
        """(K, P, 4) maps at (K, P) columns and rows."""
        found = cv2.remap(
            self.maps,
            columns,
            rows,
            how,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=(0, 0, 0, AWAY_MM),
        )
        return np.asarray(found, np.float32)


@dataclass(frozen=True, eq=False)
class Piece:
    """A piece as it is moved beside a sheet: points that stand for it."""

    sheet: Sheet
    radius_mm: float
    """From its centroid to its farthest point."""
    points: Singles
    """(2, P), mm: along the rim, in the band on both sides of it, and further inside."""
    colours: Singles
    """(3, P)."""
    rim_mm: Singles
    """(P,): the length of rim that each point stands for."""
    band_mm2: Singles
    """(P,): the area along the rim, the less the further it is extrapolated."""
    inside_mm2: Singles
    """(P,): the area of the piece itself."""

    def only(self, chosen: Any) -> Piece:
        """The piece with some of its points: `chosen` indexes them, and gives them its shape."""
        return replace(
            self,
            points=np.stack([part[chosen] for part in self.points]),
            colours=np.stack([part[chosen] for part in self.colours]),
            rim_mm=self.rim_mm[chosen],
            band_mm2=self.band_mm2[chosen],
            inside_mm2=self.inside_mm2[chosen],
        )


def sheet_of(fragment: Fragment, band_mm: float) -> Sheet:
    """The fragment on the grid, about its centroid, colours from 0 to 1, with room for a band that
    is still empty."""
    cell_mm = band_mm / BAND_CELLS
    scale = fragment.mm_per_px / cell_mm
    blur = max(1, round(1 / scale))
    pad = math.ceil((band_mm + 2 * cell_mm) / fragment.mm_per_px) + blur
    mask = np.pad(fragment.mask, pad).astype(np.uint8)
    image = np.pad(fragment.image, ((pad, pad), (pad, pad), (0, 0))) * mask[..., None]
    within, without = (
        cv2.distanceTransform(part, cv2.DIST_L2, cv2.DIST_MASK_PRECISE) for part in (mask, 1 - mask)
    )
    distance = np.where(mask > 0, 0.5 - within, without - 0.5) * np.float32(fragment.mm_per_px)
    # Premultiplied, so that nothing from outside the fragment bleeds in.
    premultiplied = np.dstack([image, 255 * mask])
    size = tuple(math.ceil(length * scale) for length in mask.shape[::-1])
    resize = np.array([[scale, 0.0, 0.0], [0.0, scale, 0.0]])
    rgba = cv2.warpAffine(cv2.blur(premultiplied, (blur, blur)), resize, size).astype(np.float32)
    away = cv2.warpAffine(distance, resize, size, borderValue=AWAY_MM)
    colours = rgba[..., :3] / np.maximum(rgba[..., 3:], 1)
    origin_mm = fragment.to_mm(np.full((1, 2), 0.5 - pad))[0] - fragment.centroid_mm
    maps = np.dstack([np.minimum(colours, 1), away]).astype(np.float32)
    return Sheet(maps, origin_mm, cell_mm)


def piece_of(fragment: Fragment, sheet: Sheet) -> Piece:
    """The fragment's points; `sheet` is that of the fragment, with its band."""
    outline = fragment.polygon.exterior
    rim = resample(np.asarray(outline.coords)[:, :2] - fragment.centroid_mm, 1.5 * sheet.cell_mm)
    distance = sheet.maps[..., 3]
    fine, sparse = (np.zeros(distance.shape, bool) for _ in range(2))
    fine[::2, ::2] = sparse[::6, ::6] = True
    fine &= np.abs(distance) < sheet.band_mm
    sparse &= distance <= -sheet.band_mm
    cells = np.concatenate([np.argwhere(fine), np.argwhere(sparse)])[:, ::-1]
    depth = np.concatenate([distance[fine], distance[sparse]])
    paint = np.concatenate([sheet.maps[fine], sheet.maps[sparse]])[:, :3]
    covered = np.repeat([2**2, 6**2], [fine.sum(), sparse.sum()]) * sheet.cell_mm**2
    faith = np.clip(1 - depth / sheet.band_mm, 0, 1) * (np.abs(depth) < sheet.band_mm)
    none, nowhere = np.zeros(len(rim)), np.zeros(len(depth))
    return Piece(
        sheet,
        float(np.hypot(*rim.T).max()),
        np.concatenate([rim, cells * sheet.cell_mm + sheet.origin_mm]).T.astype(
            np.float32, order="C"
        ),
        np.concatenate([np.zeros((len(rim), 3)), paint]).T.astype(np.float32, order="C"),
        np.concatenate([none + outline.length / len(rim), nowhere]).astype(np.float32),
        np.concatenate([none, faith * covered]).astype(np.float32),
        np.concatenate([none, covered * (depth < 0)]).astype(np.float32),
    )


def union(pieces: list[Piece], motions: Motions) -> Sheet:
    """Pieces moved, on one sheet; its band is that of the nearest piece."""
    cell_mm, band_mm = pieces[0].sheet.cell_mm, pieces[0].sheet.band_mm
    rims = [
        carried(piece.points.T[piece.rim_mm > 0], motion[None])[0]
        for piece, motion in zip(pieces, motions, strict=True)
    ]
    margin_mm = band_mm + 2 * cell_mm
    low, high = (f(np.concatenate(rims), axis=0).astype(np.float64) for f in (np.min, np.max))
    low, high = low - margin_mm, high + margin_mm
    width, height = np.ceil((high - low) / cell_mm).astype(int).tolist()
    maps = np.zeros((height, width, 4), np.float32)
    maps[..., 3] = AWAY_MM
    for piece, motion in zip(pieces, motions, strict=True):
        turn = rotation_matrix(motion[0])
        offset = (turn @ piece.sheet.origin_mm + motion[1:] - low) / cell_mm
        moved = cv2.warpAffine(
            piece.sheet.maps,
            np.column_stack([turn, offset]),
            (width, height),
            flags=cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=(0, 0, 0, AWAY_MM),
        )
        closer = moved[..., 3] < maps[..., 3]
        maps[closer] = moved[closer]
    return Sheet(maps, low, cell_mm)


def score(
    sheet: Sheet, piece: Piece, motions: Motions, loose: float = 1.0, *, roughly: bool = False
) -> Singles:
    """(...): mm of rim that speak for each of (..., 3) motions of the piece beside the sheet.

    Rims that touch speak for it. So does paint that agrees, where the band of one lies on the
    other or on its band, the more the less far it was extrapolated; paint that does not agree
    speaks against, and so does overlap.

    Args:
        loose: how many times more forgiving touch is than usual.
        roughly: look at few points and, where touch is loose, at the nearest cells; good enough
            to choose the better of many motions.
    """
    if roughly:
        piece = piece.only(np.s_[..., ::THINNED])
    found = sheet.under(piece.points, motions, roughly=roughly and loose > 1)
    planes: list[Singles] = [
        np.asarray(plane, np.float32).reshape(found.shape[:-1])
        for plane in cv2.split(found.reshape(1, -1, 4))
    ]
    *paint, distance = planes
    touch = distance * np.float32(1 / (loose * TOUCH * sheet.band_mm))
    touch *= touch
    touch += 1
    np.divide(piece.rim_mm, touch, out=touch)
    differing = np.zeros_like(distance)
    for apart, own in zip(paint, piece.colours, strict=True):
        apart -= own
        apart *= apart
        differing += apart
    agreement = np.subtract(AGREEING, np.minimum(differing, WORST, out=differing), out=differing)
    faith = distance * np.float32(-1 / sheet.band_mm)
    faith += 1
    np.clip(faith, 0, 1, out=faith)
    # What is within both overlaps, and its paint proves nothing.
    faith[(distance < 0) & (piece.inside_mm2 > 0)] = 0
    agreement *= faith
    agreement *= piece.band_mm2
    distance *= np.float32(-1 / sheet.cell_mm)
    overlap = np.clip(distance, 0, 1, out=distance)
    overlap *= COLLISION * piece.inside_mm2
    agreement -= overlap
    agreement *= np.float32(1 / sheet.band_mm)
    touch += agreement
    return np.asarray(touch.sum(axis=-1), np.float32)


def refined(
    sheet: Sheet,
    piece: Piece,
    motions: Motions,
    rounds: int,
    loose: float = 1.0,
    *,
    roughly: bool = False,
) -> Motions:
    """(K, 3) motions improved by steps in x, y or turn, halved where none helps; roughly, as such
    scores tell."""
    distance = sheet.under(piece.points, motions, roughly=True)[..., 3]
    count = min(NEAR_POINTS, piece.points.shape[1] - 1)
    near = piece.only(np.argpartition(distance, count, axis=1)[:, None, :count])
    motions = motions[:, None].copy()
    best = score(sheet, near, motions, loose, roughly=roughly)
    steps = np.concatenate([np.eye(3), -np.eye(3)])
    steps[:, 0] *= 2 / piece.radius_mm
    length = np.full((len(motions), 1, 1), COARSE / 2 * sheet.cell_mm)
    for _ in range(rounds):
        tried = motions + steps * length
        scores = score(sheet, near, tried, loose, roughly=roughly)
        step = scores.argmax(axis=1, keepdims=True)
        reached = np.take_along_axis(scores, step, axis=1)
        better = reached > best
        moved = np.take_along_axis(tried, step[..., None], axis=1)
        motions = np.where(better[..., None], moved, motions)
        best = np.maximum(best, reached)
        length[~better] /= 2
    return motions[:, 0]


def distinct(
    piece: Piece, motions: Motions, scores: Singles, count: int, apart_mm: float
) -> NDArray[np.intp]:
    """Indices of the best few motions that move the piece to places so far apart, best first."""
    kept: list[int] = []
    for k in np.argsort(-scores, kind="stable").tolist():
        turn, shift = np.hsplit(motions[kept] - motions[k], [1])
        turned = 2 * np.abs(np.sin(turn[:, 0] / 2)) * 0.6 * piece.radius_mm
        if (np.hypot(*shift.T) + turned >= apart_mm).all():
            kept.append(k)
        if len(kept) == count:
            break
    return np.array(kept, dtype=np.intp)


def sampled(
    sheets: Mapping[Name, Sheet],
    pieces: Mapping[str, Piece],
    pairs: list[tuple[Name, str]],
    turns: Floats,
    tell: Callable[[float], None],
) -> dict[tuple[Name, str], Motions]:
    """Motions of pieces beside sheets that let them touch and their paint agree: the peaks of
    correlations over all translations, one turn after the other.

    Args:
        pairs: what is to be tried beside which sheet.
        turns: radians; each is tried together with its opposite, so that half a turn of them is
            enough.
        tell: called with the share that is done.
    """
    sizes = {(a, b): _room(sheets[a], pieces[b]) for a, b in pairs}
    fixed = dict.fromkeys((name, sizes[name, other]) for name, other in pairs)
    moving = dict.fromkeys((name, sizes[other, name]) for other, name in pairs)
    layers = {name: _weighted(*_layers(pieces[name].sheet)) for name, _ in moving}
    still = {}
    for name, size in fixed:
        sheet = sheets[name]
        still[name, size] = _spectra(_layers(sheet), sheet, -sheet.middle_mm, 0.0, size)
    found: dict[tuple[Name, str], list[_Peaks]] = {pair: [] for pair in pairs}
    for done, turn in enumerate(turns.tolist()):
        tell(done / len(turns))
        turned = {
            (name, size): _spectra(layers[name], pieces[name].sheet, np.zeros(2), turn, size)
            for name, size in moving
        }
        for pair, size in sizes.items():
            one, other = still[pair[0], size], turned[pair[1], size]
            # The spectrum of a piece turned by half a turn is the conjugate of its own.
            for angle, spectrum in ((turn, other.conj()), (turn + math.pi, other)):
                for kind, surface in enumerate(_surfaces(one, spectrum, size)):
                    found[pair].append(_Peaks(kind, angle, *_peaks(surface)))
    return {
        pair: np.concatenate(
            [
                _highest([p for p in peaks if p.kind == k], sheets[pair[0]], sizes[pair])
                for k in (0, 1)
            ]
        )
        for pair, peaks in found.items()
    }


class _Peaks(NamedTuple):
    """Those of one surface."""

    kind: int
    """0: by paint and touch, 1: by touch alone."""
    turn: float
    heights: Singles
    at: NDArray[np.intp]
    """Among all cells."""


def _room(sheet: Sheet, piece: Piece) -> Size:
    """Rows and columns of the coarse grid that the piece needs to go around the sheet. Few sizes,
    so that spectra serve several pairs, and even ones; see `_spectra`."""
    around = 2 * (piece.radius_mm / sheet.cell_mm + BAND_CELLS)
    cells = SIZE_STEP * COARSE
    height, width = (SIZE_STEP * math.ceil((n + around) / cells) for n in sheet.maps.shape[:2])
    return height, width


def _layers(sheet: Sheet) -> tuple[Singles, Singles]:
    """What is correlated, blurred to the coarse grid, (H, W, 4) and (H, W, 2): faith in the paint
    and its products with the colours; faith times their sum of squares, and the piece itself."""
    colours, distance = sheet.maps[..., :3], sheet.maps[..., 3:]
    faith = np.clip(1 - distance / sheet.band_mm, 0, 1)
    squares = (colours**2).sum(axis=2, keepdims=True)
    itself = np.clip(0.5 - distance / sheet.cell_mm, 0, 1)
    blur = (COARSE + 1, COARSE + 1)
    first = cv2.blur(np.dstack([faith, faith * colours]), blur)
    second = cv2.blur(np.dstack([faith * squares, itself]), blur)
    return np.asarray(first, np.float32), np.asarray(second, np.float32)


def _weighted(first: Singles, second: Singles) -> tuple[Singles, Singles]:
    """The same of the other sheet, such that few products make what is asked of both."""
    touch, squares, itself = first[..., :1], second[..., :1], second[..., 1:]
    against = np.dstack([SAMPLED_TOUCH * touch - squares, SAMPLED_COLLISION * itself])
    return np.dstack([touch, 2 * first[..., 1:]]), against


def _spectra(
    layers: tuple[Singles, Singles], sheet: Sheet, shift_mm: Floats, turn: float, size: Size
) -> Spectra:
    """(6, H, W // 2 + 1): of the layers of a sheet, shifted, turned and laid in the middle of a
    coarse grid of (H, W). Since these are even, a grid of half a turn more is the same mirrored
    about its middle, and has the conjugate spectra."""
    from scipy import fft

    matrix = rotation_matrix(turn) / COARSE
    height, width = size
    offset = matrix @ (sheet.origin_mm + shift_mm) / sheet.cell_mm + np.array([width, height]) // 2
    corners = np.array([[0, 0], [1, 0], [0, 1], [1, 1]]) * sheet.maps.shape[1::-1]
    rows = corners @ matrix[1] + offset[1]
    first, last = max(math.floor(rows.min()) - 1, 0), min(math.ceil(rows.max()) + 2, height)
    motion = np.column_stack([matrix, offset - [0, first]])
    # Only some rows are not empty: the others need not be transformed along the row.
    planes = [
        plane
        for part in layers
        for plane in cv2.split(cv2.warpAffine(part, motion, (width, last - first)))
    ]
    spectra = np.zeros((len(planes), height, width // 2 + 1), np.complex64)
    spectra[:, first:last] = fft.rfft(np.stack(planes), axis=2, workers=1)
    return np.asarray(fft.fft(spectra, axis=1, overwrite_x=True, workers=1))


def _surfaces(one: Spectra, other: Spectra, size: Size) -> Singles:
    """(2, H, W): how well one sheet fits beside the other, by shift: by paint and touch, and by
    touch alone. The other's spectra are conjugate, and of `_weighted` layers."""
    from scipy import fft

    both = np.empty((2, *one.shape[1:]), one.dtype)
    part = one[5] * other[5]
    np.multiply(one[0], other[4], out=both[0])
    np.multiply(one[0], other[0], out=both[1])
    both -= part
    both[0] -= np.multiply(one[4], other[0], out=part)
    for colour in (1, 2, 3):
        both[0] += np.multiply(one[colour], other[colour], out=part)
    return np.asarray(fft.irfft2(both, s=size, axes=(1, 2), workers=1))


def _peaks(surface: Singles) -> tuple[Singles, NDArray[np.intp]]:
    """Heights, (K,), of the highest peaks and where they are, (K,), among all cells."""
    crests = surface == cv2.dilate(surface, np.ones((3, 3), np.uint8))
    # Where nothing meets, rounding errors alone make peaks.
    crests &= surface > 1e-3 * surface.max()
    at = np.flatnonzero(crests)
    heights = surface.ravel()[at]
    if len(at) > PEAKS:
        top = np.argpartition(-heights, PEAKS)[:PEAKS]
        heights, at = heights[top], at[top]
    return heights, at


def _highest(peaks: list[_Peaks], sheet: Sheet, size: Size) -> Motions:
    """The motions beside the sheet of the highest of all peaks."""
    heights = np.concatenate([p.heights for p in peaks])
    turns = np.repeat([p.turn for p in peaks], [len(p.heights) for p in peaks])
    top = np.argsort(-heights, kind="stable")[:MOST_PEAKS]
    rows, columns = np.unravel_index(np.concatenate([p.at for p in peaks])[top], size)
    shifts, around = np.column_stack([columns, rows]), np.array(size[::-1])
    shifts = np.where(shifts < around // 2, shifts, shifts - around)
    return np.column_stack([turns[top], sheet.middle_mm + COARSE * sheet.cell_mm * shifts])
