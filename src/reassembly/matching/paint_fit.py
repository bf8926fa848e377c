"""How pieces fit beside others by their extrapolated paint and by touch: sampling, score, refining.

Motions are those of `matching.motions`, about the pieces' centroids.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

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
Name = TypeVar("Name", bound=Hashable)

BAND_CELLS = 8
"""Cells across the extrapolated band."""
COARSE = 2
"""Cells along one of the grid on which translations are sampled."""
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
    def extent_mm(self) -> float:
        """The longer side."""
        return float(max(self.maps.shape[:2]) * self.cell_mm)

    @property
    def middle_mm(self) -> Floats:
        """(2,)."""
        height, width = self.maps.shape[:2]
        return self.origin_mm + np.array([width - 1, height - 1]) / 2 * self.cell_mm

    def at(self, points: Singles) -> Singles:
        """(K, P, 4) maps at (K, P, 2) points, mm."""
        index = (points - self.origin_mm.astype(np.float32)) / np.float32(self.cell_mm)
        found = cv2.remap(
            self.maps,
            index,
            None,  # type: ignore[call-overload]
            cv2.INTER_LINEAR,
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
    """(P, 2), mm: along the rim, in the band on both sides of it, and further inside."""
    colours: Singles
    """(P, 3)."""
    rim_mm: Singles
    """(P,): the length of rim that each point stands for."""
    band_mm2: Singles
    """(P,): the area along the rim, the less the further it is extrapolated."""
    inside_mm2: Singles
    """(P,): the area of the piece itself."""


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
        np.concatenate([rim, cells * sheet.cell_mm + sheet.origin_mm]).astype(np.float32),
        np.concatenate([np.zeros((len(rim), 3)), paint]).astype(np.float32),
        np.concatenate([none + outline.length / len(rim), nowhere]).astype(np.float32),
        np.concatenate([none, faith * covered]).astype(np.float32),
        np.concatenate([none, covered * (depth < 0)]).astype(np.float32),
    )


def union(pieces: list[Piece], motions: Motions) -> Sheet:
    """Pieces moved, on one sheet; its band is that of the nearest piece."""
    cell_mm, band_mm = pieces[0].sheet.cell_mm, pieces[0].sheet.band_mm
    rims = [
        carried(piece.points[piece.rim_mm > 0], motion[None])[0]
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
    sheet: Sheet,
    piece: Piece,
    motions: Motions,
    chosen: NDArray[np.intp] | None = None,
    loose: float = 1.0,
) -> Singles:
    """(K,): mm of rim that speak for each of K motions of the piece beside the sheet.

    Rims that touch speak for it. So does paint that agrees, where the band of one lies on the
    other or on its band, the more the less far it was extrapolated; paint that does not agree
    speaks against, and so does overlap.

    Args:
        chosen: (K, Q), for each motion the points to look at; all unless given.
        loose: how many times more forgiving touch is than usual.
    """
    some = slice(None) if chosen is None else chosen
    found = sheet.at(carried(piece.points[some], motions))
    distance = found[..., 3]
    touch = piece.rim_mm[some] / (1 + np.square(distance / (loose * TOUCH * sheet.band_mm)))
    inside = piece.inside_mm2[some]
    faith = np.clip(1 - distance / sheet.band_mm, 0, 1) * piece.band_mm2[some]
    faith *= (distance >= 0) | (inside == 0)
    colours = piece.colours[some]
    differing = np.square(found[..., 0] - colours[..., 0])
    differing += np.square(found[..., 1] - colours[..., 1])
    differing += np.square(found[..., 2] - colours[..., 2])
    agreement = faith * (AGREEING - np.minimum(differing, WORST))
    overlap = inside * np.clip(-distance / sheet.cell_mm, 0, 1)
    paint = (agreement - COLLISION * overlap).sum(axis=1) / sheet.band_mm
    return np.asarray(touch.sum(axis=1) + paint, np.float32)


def refined(
    sheet: Sheet, piece: Piece, motions: Motions, rounds: int, loose: float = 1.0
) -> Motions:
    """Motions improved by steps in x, y or turn, halved where none helps."""
    distance = sheet.at(carried(piece.points, motions))[..., 3]
    count = min(NEAR_POINTS, len(piece.points) - 1)
    near = np.argpartition(distance, count, axis=1)[:, :count]
    best = score(sheet, piece, motions, near, loose)
    motions = motions.copy()
    steps = np.concatenate([np.eye(3), -np.eye(3)])
    steps[:, 0] *= 2 / piece.radius_mm
    length = np.full(len(motions), COARSE * sheet.cell_mm)
    rows, repeated = np.arange(len(motions)), np.repeat(near, len(steps), axis=0)
    for _ in range(rounds):
        tried = motions[:, None] + steps * length[:, None, None]
        scores = score(sheet, piece, tried.reshape(-1, 3), repeated, loose)
        scores = scores.reshape(len(motions), len(steps))
        step = scores.argmax(axis=1)
        better = scores[rows, step] > best
        motions[better] = tried[rows, step][better]
        best = np.where(better, scores[rows, step], best)
        length[~better] /= 2
    return motions


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
    correlations over all translations, one turn, radians, after the other.

    Args:
        pairs: what is to be tried beside which sheet.
        tell: called with the share that is done.
    """
    from scipy import fft

    fixed = {name: sheets[name] for name, _ in pairs}
    moving = {name: pieces[name] for _, name in pairs}
    some = next(iter(fixed.values()))
    step_mm = COARSE * some.cell_mm
    reach_mm = max(piece.radius_mm for piece in moving.values()) + some.band_mm
    widest_mm = max(sheet.extent_mm for sheet in fixed.values())
    size = fft.next_fast_len(math.ceil((widest_mm + 2 * reach_mm) / step_mm), real=True)
    shifts = fft.fftfreq(size, 1 / size) * step_mm

    def spectra(
        layers: tuple[Singles, Singles], origin_mm: Floats, turn: float
    ) -> NDArray[np.complex64]:
        matrix = rotation_matrix(turn) / COARSE
        motion = np.column_stack([matrix, matrix @ origin_mm / some.cell_mm + size // 2])
        turned = [cv2.split(cv2.warpAffine(part, motion, (size, size))) for part in layers]
        stack = np.stack([plane for planes in turned for plane in planes])
        return np.asarray(fft.rfft2(stack, axes=(1, 2), workers=1))

    still = {
        name: spectra(_layers(sheet), sheet.origin_mm - sheet.middle_mm, 0.0)
        for name, sheet in fixed.items()
    }
    layers = {name: _layers(piece.sheet) for name, piece in moving.items()}
    found: dict[tuple[Name, str], list[Floats]] = {pair: [] for pair in pairs}
    for done, turn in enumerate(turns.tolist()):
        tell(done / len(turns))
        turned = {
            name: spectra(layers[name], piece.sheet.origin_mm, turn).conj()
            for name, piece in moving.items()
        }
        for pair in pairs:
            one, other = still[pair[0]], turned[pair[1]]
            near, collision = one[0] * other[0], SAMPLED_COLLISION * one[5] * other[5]
            differing = one[0] * other[4] + one[4] * other[0]
            differing -= 2 * (one[1:4] * other[1:4]).sum(axis=0)
            both = np.stack([SAMPLED_TOUCH * near - differing - collision, near - collision])
            surfaces = fft.irfft2(both, s=(size, size), axes=(1, 2), workers=1)
            for kind, surface in enumerate(surfaces):
                rows, columns = _peaks(surface)
                x_mm, y_mm = fixed[pair[0]].middle_mm[:, None] + [shifts[columns], shifts[rows]]
                same = np.full((2, len(rows)), [[kind], [turn]])
                found[pair].append(np.column_stack([surface[rows, columns], *same, x_mm, y_mm]))
    return {pair: _highest(np.concatenate(peaks)) for pair, peaks in found.items()}


def _highest(peaks: Floats) -> Motions:
    """Of (K, 5) peaks, with height, kind and motion, the motions of the highest of each kind."""
    peaks = peaks[np.argsort(-peaks[:, 0], kind="stable")]
    return np.concatenate([peaks[peaks[:, 1] == kind][:MOST_PEAKS, 2:] for kind in (0, 1)])


def _layers(sheet: Sheet) -> tuple[Singles, Singles]:
    """What is correlated, blurred to the coarse grid, (H, W, 4) and (H, W, 2): faith in the paint
    and its products with the colours; faith times their sum of squares, and the piece itself."""
    colours, distance = sheet.maps[..., :3], sheet.maps[..., 3:]
    faith = np.clip(1 - distance / sheet.band_mm, 0, 1)
    squares = (colours**2).sum(axis=2, keepdims=True)
    itself = np.clip(0.5 - distance / sheet.cell_mm, 0, 1)
    blur = (2 * COARSE - 1, 2 * COARSE - 1)
    first = cv2.blur(np.dstack([faith, faith * colours]), blur)
    second = cv2.blur(np.dstack([faith * squares, itself]), blur)
    return np.asarray(first, np.float32), np.asarray(second, np.float32)


def _peaks(surface: Singles) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of the highest peaks."""
    rows, columns = np.nonzero(surface == cv2.dilate(surface, np.ones((5, 5), np.uint8)))
    top = np.argsort(-surface[rows, columns], kind="stable")[:PEAKS]
    return rows[top], columns[top]
