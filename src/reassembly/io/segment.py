"""Masks from photographs: pieces lying on a plain ground of any colour.

The ground's colour is a smooth surface over the picture, fitted to what surrounds the pieces, so
that uneven light does no harm. A shadow scales the ground's light and keeps its hue; where that
leaves a doubt, the line between shadow and piece is drawn along the sharpest edge. Where all that
stands out from a table is a sheet, the sheet is the ground, and pieces are looked for on it.
"""

from __future__ import annotations

import math
from os import PathLike
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.errors import InputError

__all__ = ["Piece", "find_pieces", "reading_order", "segment_many", "segment_single"]

WORK_PIXELS = 550_000
"""A piece is found in a reduction to at most this many pixels, then outlined in the picture."""
TRAY_WORK_PIXELS = 4_000_000
"""The same where there are many pieces, and each is small."""
SMOOTH_PX = 1.2
"""Standard deviation of the blur against sensor noise, in reduced pixels."""
MIN_LIGHTNESS_STEP, MAX_LIGHTNESS_STEP = 5.0, 16.0
"""How far, in CIELAB L, a pixel must be from the ground; within these limits, 4 times its noise."""
MIN_CHROMA_STEP, MAX_CHROMA_STEP = 4.0, 12.0
"""The same for CIELAB a and b."""
MAX_GROUND_NOISE = 10.0
"""CIELAB. A rougher border is no plain ground."""
MIN_GROUND_SHARE = 0.5
"""Of the border that must show ground or shadow."""
MAX_PIECE_SHARE_OF_BORDER = 0.25
"""Pieces that cover more of the border are not pieces on a ground, but a picture full of detail."""
DEEPEST_SHADOW = 0.6
"""Of the ground's L + 16, a cube root of its light: a darker pixel is no shadow."""
SOFT_EDGE_PX = 8.0
"""A transition wider than this, in reduced pixels, is a shadow's edge and no piece's."""
MAX_SHADOW_SLOPE = 2.2
"""CIELAB L a reduced pixel: a steeper change is no shadow's."""
MIN_HOLE_SHARE = 0.001
"""Of the piece's area: smaller holes are filled."""
BLURRED_PX, BLURRED_SHARE = 6.0, 0.01
"""An outline softer than so many pixels, and than this share of the piece's size, is blurred."""
FAINT_SHARE = 0.15
"""Of the outline that may be hard to see before we say so."""
SHEET_SHARE, SHEET_FIT = 0.5, 0.97
"""What covers so much of the photograph, and shares so much with a quadrilateral, may be a sheet
that pieces lie on."""
SHEET_EDGE = 0.01
"""Of the sheet's size, along its edges, where nothing is looked for."""
MIN_ON_SHEET = 0.005
"""Of the sheet that pieces on it cover: less is dirt, on a piece with straight sides."""
MAX_SIDE_PX = 32_000
"""OpenCV warps nothing larger."""
TILE_PX = 256


OVER_THE_EDGE = "the piece touches the edge of its sheet, and part of it may be missing"
Image = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Lab = NDArray[np.float32]


class Piece(NamedTuple):
    """A piece found in a photograph."""

    left: int
    top: int
    """Where the mask's window begins in the photograph, pixels."""
    mask: Mask
    """(h, w) of the window: one connected part, holes allowed."""
    touches_border: bool
    """Part of the piece may lie outside the photograph."""
    edge_px: float
    """Width of the transition from ground to piece."""
    faint_share: float
    """Of the outline, where piece and ground hardly differ."""
    more_doubts: tuple[str, ...] = ()
    """In words."""

    @property
    def area_px(self) -> int:
        return int(self.mask.sum())

    def doubts(self) -> list[str]:
        """What may be wrong with it, in words."""
        found = []
        if self.touches_border:
            found.append("the piece touches the picture's border, and part of it may be missing")
        if self.edge_px > max(BLURRED_PX, BLURRED_SHARE * math.sqrt(self.area_px)):
            found.append(
                f"the picture looks blurred: the outline is {self.edge_px:.0f} pixels soft"
            )
        if self.faint_share > FAINT_SHARE:
            found.append(
                f"along {self.faint_share:.0%} of the outline the piece hardly stands out from "
                "its ground, and the outline may be wrong there"
            )
        return [*found, *self.more_doubts]


def segment_single(rgb: Image, path: str | PathLike[str] | None = None) -> Mask:
    """The mask, (H, W), of the largest piece in a photograph, (H, W, 3).

    Args:
        path: how error messages call the photograph.
    """
    piece = max(find_pieces(rgb, path), key=lambda piece: piece.area_px)
    mask = np.zeros(rgb.shape[:2], bool)
    height, width = piece.mask.shape
    mask[piece.top : piece.top + height, piece.left : piece.left + width] = piece.mask
    return mask


def segment_many(
    rgb: Image, min_area_px: float = 400.0, path: str | PathLike[str] | None = None
) -> list[Piece]:
    """Every piece of at least `min_area_px` in a photograph, (H, W, 3), in reading order."""
    found = find_pieces(rgb, path, min_area_px, TRAY_WORK_PIXELS)
    pieces = [piece for piece in found if piece.area_px >= min_area_px]
    if not pieces:
        raise _nothing_found(path)
    boxes = [(p.left, p.top, p.left + p.mask.shape[1], p.top + p.mask.shape[0]) for p in pieces]
    return [pieces[k] for k in reading_order(boxes)]


def reading_order(boxes: list[tuple[int, int, int, int]]) -> list[int]:
    """Indices of boxes (left, top, right, bottom), by rows from the top, each from the left.

    A box belongs to a row if it is beside at least half of the row's topmost box, or that one
    beside half of it.
    """
    rest = sorted(range(len(boxes)), key=lambda k: (boxes[k][1], boxes[k][0]))
    order: list[int] = []
    while rest:
        _, first_top, _, first_bottom = boxes[rest[0]]
        row = []
        for k in rest:
            _, top, _, bottom = boxes[k]
            beside = min(bottom, first_bottom) - max(top, first_top)
            if 2 * beside >= min(bottom - top, first_bottom - first_top):
                row.append(k)
        order += sorted(row, key=lambda k: boxes[k][0])
        rest = [k for k in rest if k not in row]
    return order


def find_pieces(
    rgb: Image,
    path: str | PathLike[str] | None = None,
    min_area_px: float = 100.0,
    work_pixels: int = WORK_PIXELS,
) -> list[Piece]:
    """Every piece of about `min_area_px` or more in a photograph, (H, W, 3), in no special order.

    If one of them is a sheet with pieces on it, these are meant. Raises `InputError` if there is no
    plain ground, or nothing on it.
    """
    pieces = _stand_out(rgb, np.ones(rgb.shape[:2], bool), path, min_area_px, work_pixels)
    sheet = max(pieces, key=lambda piece: piece.mask.size)
    if sheet.mask.size < SHEET_SHARE * rgb.shape[0] * rgb.shape[1]:
        return pieces
    outline, filled = _solid(sheet.mask)
    if filled.sum() < SHEET_SHARE * rgb.shape[0] * rgb.shape[1] or not _four_sided(outline, filled):
        return pieces
    found = _on_sheet(rgb, sheet, filled, min_area_px, work_pixels)
    if not found:
        return [_doubted(piece) if piece is sheet else piece for piece in pieces]
    return found + [piece for piece in pieces if not _lies_on(piece, sheet, filled)]


def _lies_on(piece: Piece, sheet: Piece, filled: Mask) -> bool:
    y, x = divmod(int(piece.mask.argmax()), piece.mask.shape[1])
    y, x = y + piece.top - sheet.top, x + piece.left - sheet.left
    height, width = filled.shape
    return 0 <= y < height and 0 <= x < width and bool(filled[y, x])


def _four_sided(outline: NDArray[np.int32], filled: Mask) -> bool:
    """Whether a solid mask is a quadrilateral."""
    hull: Any = cv2.convexHull(outline)
    perimeter = cv2.arcLength(hull, closed=True)
    corners: Any = hull
    for tolerance in np.geomspace(0.003, 0.06, 12):
        corners = cv2.approxPolyDP(hull, tolerance * perimeter, closed=True)
        if len(corners) <= 4:
            break
    if len(corners) != 4:
        return False
    quadrilateral = np.zeros(filled.shape, np.uint8)
    cv2.fillConvexPoly(quadrilateral, corners, 1)
    straight = quadrilateral > 0
    return bool((straight & filled).sum() >= SHEET_FIT * (straight | filled).sum())


def _solid(mask: Mask) -> tuple[NDArray[np.int32], Mask]:
    """The outer outline of a mask, (n, 1, 2), and the mask without its holes."""
    outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    outline: Any = max(outlines, key=len)
    filled = np.zeros(mask.shape, np.uint8)
    cv2.drawContours(filled, [outline], -1, 1, cv2.FILLED)
    return outline, filled > 0


def _doubted(sheet: Piece) -> Piece:
    doubt = (
        "this fills most of the photograph and has four straight sides: is it the sheet that "
        "pieces lie on?"
    )
    return sheet._replace(more_doubts=(doubt,))


def _on_sheet(
    rgb: Image, sheet: Piece, filled: Mask, min_area_px: float, work_pixels: int
) -> list[Piece]:
    """The pieces on a sheet; none if it is rather a piece itself."""
    height, width = sheet.mask.shape
    seen = rgb[sheet.top : sheet.top + height, sheet.left : sheet.left + width]
    edge = math.ceil(max(SHEET_EDGE * min(height, width), 2 * sheet.edge_px, 4.0))
    region = filled & ~_border(filled, edge)
    try:
        pieces = _stand_out(seen, region, None, min_area_px, work_pixels)
    except InputError:
        return []
    # Paint runs to the edge of a piece; pieces on a sheet lie within it.
    covered = sum(piece.area_px for piece in pieces)
    inside = sum(piece.area_px for piece in pieces if not piece.more_doubts)
    if covered < MIN_ON_SHEET * filled.sum() or inside < covered / 2:
        return []
    return [
        piece._replace(left=piece.left + sheet.left, top=piece.top + sheet.top) for piece in pieces
    ]


def _stand_out(
    rgb: Image,
    region: Mask,
    path: str | PathLike[str] | None,
    min_area_px: float,
    work_pixels: int,
) -> list[Piece]:
    """What stands out from the ground, within a region, (H, W), that the ground surrounds."""
    height, width = rgb.shape[:2]
    if max(height, width) > MAX_SIDE_PX:
        what = f"{width} x {height} pixels are too many to find a piece in"
        raise InputError(what, f"Scale the picture down to {MAX_SIDE_PX} pixels", path)
    factor = max(1.0, math.sqrt(height * width / work_pixels))
    size = (max(1, round(width / factor)), max(1, round(height / factor)))
    small = rgb if factor == 1 else cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
    if min(size) < 8:
        raise _no_ground(path)
    lab: Any = cv2.cvtColor(np.asarray(small, np.float32) / 255, cv2.COLOR_RGB2Lab)
    smooth: Any = cv2.GaussianBlur(lab, (0, 0), SMOOTH_PX)
    within = cv2.resize(region.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0
    ground, noise = _fit_ground(smooth, within, path)
    if not within.all():
        lab[~within] = ground[~within]
        smooth = cv2.GaussianBlur(lab, (0, 0), SMOOTH_PX)
    least = max(min_area_px / factor**2, 16.0)
    coarse = _divide(lab, smooth, within, ground, noise, least, path) & within
    rim = _border(within, 1)
    if coarse[rim].mean() > MAX_PIECE_SHARE_OF_BORDER:
        raise _no_ground(path)
    labels: Any
    count, labels, stats, _ = cv2.connectedComponentsWithStats(
        coarse.astype(np.uint8), connectivity=4
    )
    labels[~within] = count  # Neither ground nor piece.
    cut = set() if within.all() else set(np.unique(labels[_border(within, 2) & coarse]).tolist())
    pieces = []
    for label in range(1, count):
        if stats[label, cv2.CC_STAT_AREA] * factor**2 >= min_area_px / 2:
            piece = _outline(rgb, labels, label, stats[label], factor)
            if piece is not None:
                doubts = (OVER_THE_EDGE,) if label in cut else ()
                pieces.append(piece._replace(more_doubts=doubts))
    if not pieces:
        raise _nothing_found(path)
    return pieces


def _no_ground(path: str | PathLike[str] | None) -> InputError:
    return InputError(
        "there is no plain ground around the piece, and the picture is not transparent",
        "Cut the piece out, or photograph it whole on paper or cloth of one colour",
        path,
    )


def _nothing_found(path: str | PathLike[str] | None) -> InputError:
    return InputError(
        "no piece stands out from its ground",
        "Use a ground of another colour, or cut the piece out",
        path,
    )


def _fit_ground(
    lab: Lab, region: Mask, path: str | PathLike[str] | None
) -> tuple[Lab, tuple[float, float]]:
    """The ground's colour everywhere, (H, W, 3), and its noise in lightness and in chroma.

    Starts from the region's border and takes in, step by step, what joins it and looks alike.
    """
    height, width = lab.shape[:2]
    stride = max(1, round(math.sqrt(height * width / 15_000)))
    sample = lab[::stride, ::stride]
    y, x = np.mgrid[: sample.shape[0], : sample.shape[1]].astype(np.float32)
    basis = _basis(x * (2 * stride / width) - 1, y * (2 * stride / height) - 1)
    region = region[::stride, ::stride]
    border = _border(region, max(2, round(0.03 * min(sample.shape[:2]))))

    if border.sum() < 12:
        raise _no_ground(path)
    away = np.abs(sample - np.median(sample[border], axis=0))
    chosen = border & (away[..., 0] < 30) & (away[..., 1:].max(axis=2) < 15)
    if chosen.sum() < MIN_GROUND_SHARE * border.sum():
        raise _no_ground(path)
    terms = 3
    for step in range(6):
        model = basis[..., :terms] @ _robust_fit(basis[chosen][:, :terms], sample[chosen])
        residual = sample - model
        noise_l = _spread(residual[chosen][:, 0])
        noise_c = _spread(residual[chosen][:, 1:])
        if max(noise_l, noise_c) > MAX_GROUND_NOISE:
            raise _no_ground(path)
        alike = (np.abs(residual[..., 0]) < max(3.0, 3 * noise_l)) & (
            np.linalg.norm(residual[..., 1:], axis=2) < max(3.0, 3 * noise_c)
        )
        alike &= region
        if step < 2:
            chosen = border & alike
        else:
            chosen = _joined_to(alike, border)
            terms = 6
        if chosen.sum() < 12:
            raise _no_ground(path)

    dark = (model[..., 0] - sample[..., 0]) > 0
    shade = (sample[..., 0] + 16) / (model[..., 0] + 16)
    off = np.linalg.norm(sample[..., 1:] - np.minimum(shade, 1)[..., None] * model[..., 1:], axis=2)
    shadow = dark & (shade > DEEPEST_SHADOW) & (off < max(3.0, 3 * noise_c))
    if (alike | shadow)[border].mean() < MIN_GROUND_SHARE:
        raise _no_ground(path)

    # What the polynomial leaves over, from the ground nearby: light is smooth, but not quadratic.
    reach = 0.05 * max(sample.shape[:2])
    weight = cv2.GaussianBlur(chosen.astype(np.float32), (0, 0), reach)
    rest = cv2.GaussianBlur(
        np.where(chosen[..., None], residual, 0).astype(np.float32), (0, 0), reach
    )
    model = model + rest / (np.asarray(weight) + 0.05)[..., None]
    surface: Any = cv2.resize(
        model.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR
    )
    return surface, (noise_l, noise_c)


def _basis(x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=-1)


def _robust_fit(basis: NDArray[np.float32], values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Least squares with outliers weighed down, each channel alike. Returns (terms, 3)."""
    weight = np.ones(len(basis), np.float32)
    for _ in range(4):
        weighted = basis * weight[:, None]
        gram = weighted.T @ basis + 1e-3 * np.eye(basis.shape[1], dtype=np.float32)
        fit = np.linalg.solve(gram, weighted.T @ values)
        error = np.linalg.norm(values - basis @ fit, axis=1)
        scale = max(1.0, 2 * float(np.median(error)))
        weight = (1 / (1 + (error / scale) ** 2) ** 2).astype(np.float32)
    return fit.astype(np.float32)


def _spread(values: NDArray[np.float32]) -> float:
    """A standard deviation about zero that a few outliers do not move."""
    return 1.4826 * float(np.median(np.abs(values)))


def _joined_to(mask: Mask, seeds: Mask) -> Mask:
    """The connected parts of `mask` that meet `seeds`."""
    _, labels = cv2.connectedComponents(mask.astype(np.uint8), connectivity=4)
    met = np.zeros(labels.max() + 1, bool)
    met[labels[seeds & mask]] = True
    met[0] = False
    return np.asarray(met[labels])


def _divide(
    lab: Lab,
    smooth: Lab,
    region: Mask,
    ground: Lab,
    noise: tuple[float, float],
    min_area: float,
    path: str | PathLike[str] | None,
) -> Mask:
    """The pieces in the reduced picture."""
    step_l = float(np.clip(4 * noise[0], MIN_LIGHTNESS_STEP, MAX_LIGHTNESS_STEP))
    step_c = float(np.clip(4 * noise[1], MIN_CHROMA_STEP, MAX_CHROMA_STEP))
    lighter = smooth[..., 0] - ground[..., 0]
    shade = (smooth[..., 0] + 16) / (ground[..., 0] + 16)
    tint = smooth[..., 1:] - np.minimum(shade, 1)[..., None] * ground[..., 1:]
    off_hue = np.hypot(tint[..., 0], tint[..., 1])
    like_ground = (lighter / step_l) ** 2 + (off_hue / step_c) ** 2 < 1
    like_shadow = (lighter < 0) & (shade > DEEPEST_SHADOW) & (off_hue < step_c) & ~like_ground

    # Hue bleeds over edges, by the blur and by JPEG's coarser colour: the core is surer.
    off = _opened(~like_ground & ~like_shadow, 2)
    core = _eroded(off, 3)
    sure_piece = core | (off & ~_joined_to(off, core)) | _textured(lab, like_ground & region)
    sure_piece = _without_specks(sure_piece, min_area / 8)
    sure_piece |= _sharp_islands(smooth, lighter, ~like_ground, sure_piece, min_area)
    if not sure_piece.any():
        raise _nothing_found(path)

    rim = np.zeros(lab.shape[:2], bool)
    rim[:2], rim[-2:], rim[:, :2], rim[:, -2:] = True, True, True, True
    inner_ground = _eroded(like_ground, 1) & ~sure_piece
    outside = _joined_to(inner_ground, rim)
    outside |= _holes(inner_ground & ~outside, lighter, tint, noise, sure_piece)
    if float(np.median(np.hypot(ground[..., 1], ground[..., 2]))) > 3 * step_c:
        # Holes lie in shadow; but only a coloured ground is known again there.
        shaded = _eroded(like_shadow, 1) & ~sure_piece
        outside |= _holes(shaded, np.zeros_like(lighter), tint, noise, sure_piece)
    # From the ground, shadows are reached without a sharp step; what is not reached is piece.
    soft = like_shadow & (_slope(smooth[..., 0]) < max(MAX_SHADOW_SLOPE, 3 * noise[0]))
    reached = _joined_to(_eroded((like_ground | soft) & ~sure_piece, 1), outside)
    sure_piece |= _eroded(~like_ground & ~reached, 6)
    markers = np.zeros(lab.shape[:2], np.int32)
    markers[outside] = 1
    markers[sure_piece] = 2
    # A step in hue, corrected for shade, tells more than one in lightness, of which shadows have
    # their own.
    relief = np.dstack([1.5 * smooth[..., 0], 128 + 6 * tint])
    cv2.watershed(np.clip(relief, 0, 255).astype(np.uint8), markers)
    # Lines between regions are marked -1 and go to the pieces; so is the frame of the picture,
    # which goes with what is beside it.
    pieces = _opened(np.pad(markers[1:-1, 1:-1] != 1, 1, mode="edge"), 1)
    return _filled(_without_specks(pieces, min_area / 2), outside)


def _textured(lab: Lab, like_ground: Mask) -> Mask:
    """Where there is clearly more detail than on the ground: shadows add none."""
    fine = lab[..., 0] - cv2.GaussianBlur(lab[..., 0], (0, 0), 2.0)
    energy = np.asarray(cv2.blur(fine * fine, (7, 7)))
    usual = float(np.median(energy[like_ground])) if like_ground.any() else 0.0
    # Eroded by more than the reach of the filters, so that an edge alone leaves nothing.
    return _eroded(energy > 6 * usual + 0.5, 10)


def _sharp_islands(
    smooth: Lab, lighter: NDArray[np.float32], unlike: Mask, sure_piece: Mask, min_area: float
) -> Mask:
    """The cores of pieces that differ from the ground as a shadow would, but with sharp edges."""
    islands = unlike & ~_joined_to(unlike, sure_piece)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(
        islands.astype(np.uint8), connectivity=4
    )
    cores = np.zeros_like(sure_piece)
    if count == 1:
        return cores
    slope = _slope(smooth[..., 0])
    for label in range(1, count):
        if stats[label, cv2.CC_STAT_AREA] < min_area:
            continue
        left, top, width, height = stats[label, :4]
        window = np.s_[top : top + height, left : left + width]
        island = labels[window] == label
        step = float(np.percentile(np.abs(lighter[window][island]), 90))
        edge = _border(island, 3)
        steepest = float(np.median(cv2.dilate(slope[window], np.ones((5, 5)))[edge]))
        if steepest * SOFT_EDGE_PX > step:
            depth = np.asarray(
                cv2.distanceTransform(np.pad(island, 1).astype(np.uint8), cv2.DIST_L2, 3)
            )[1:-1, 1:-1]
            cores[window] |= depth > 0.6 * depth.max()
    return cores


def _holes(
    candidates: Mask,
    lighter: NDArray[np.float32],
    tint: NDArray[np.float32],
    noise: tuple[float, float],
    sure_piece: Mask,
) -> Mask:
    """Parts that show the very colour of the ground, and are not tiny.

    Args:
        lighter: (h, w), lightness above the ground's.
        tint: (h, w, 2), a and b beyond the ground's.
    """
    count, labels, stats, _ = cv2.connectedComponentsWithStats(
        candidates.astype(np.uint8), connectivity=4
    )
    area = np.maximum(stats[:, cv2.CC_STAT_AREA], 1)
    members = labels[candidates]
    mean_l, mean_a, mean_b = (
        np.bincount(members, channel[candidates], count) / area
        for channel in (lighter, tint[..., 0], tint[..., 1])
    )
    near = (np.abs(mean_l) < max(2.5, 2 * noise[0])) & (
        np.hypot(mean_a, mean_b) < max(2.0, 2 * noise[1])
    )
    keep = near & (area >= max(16.0, MIN_HOLE_SHARE * float(_largest(sure_piece).sum())))
    keep[0] = False
    return np.asarray(keep[labels])


def _filled(pieces: Mask, ground: Mask) -> Mask:
    """Without the holes that show no ground."""
    count, labels = cv2.connectedComponents((~pieces).astype(np.uint8), connectivity=4)
    shows_ground = np.zeros(count, bool)
    shows_ground[labels[ground]] = True
    for edge in (labels[0], labels[-1], labels[:, 0], labels[:, -1]):
        shows_ground[edge] = True
    return np.asarray(pieces | ~shows_ground[labels])


def _without_pinholes(mask: Mask) -> Mask:
    """With the holes filled that are too small to be any."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats((~mask).astype(np.uint8), connectivity=4)
    small = stats[:, cv2.CC_STAT_AREA] < MIN_HOLE_SHARE * mask.sum()
    for edge in (labels[0], labels[-1], labels[:, 0], labels[:, -1]):
        small[edge] = False
    small[0] = False
    return np.asarray(mask | small[labels])


def _outline(
    rgb: Image, labels: NDArray[np.int32], label: int, stats: NDArray[np.int32], factor: float
) -> Piece | None:
    """The piece `label` of the reduced picture, outlined in the picture itself."""
    height, width = rgb.shape[:2]
    small_height, small_width = labels.shape
    reach = math.ceil(2 * factor) + 2
    scale_x, scale_y = width / small_width, height / small_height
    margin = 4 * reach
    left = max(0, math.floor(stats[cv2.CC_STAT_LEFT] * scale_x) - margin)
    top = max(0, math.floor(stats[cv2.CC_STAT_TOP] * scale_y) - margin)
    right = stats[cv2.CC_STAT_LEFT] + stats[cv2.CC_STAT_WIDTH]
    bottom = stats[cv2.CC_STAT_TOP] + stats[cv2.CC_STAT_HEIGHT]
    right = min(width, math.ceil(right * scale_x) + margin)
    bottom = min(height, math.ceil(bottom * scale_y) + margin)
    # Pixel centres are at halves in both pictures; OpenCV counts them from whole numbers.
    to_small = np.array(
        [
            [1 / scale_x, 0, (left + 0.5) / scale_x - 0.5],
            [0, 1 / scale_y, (top + 0.5) / scale_y - 0.5],
        ]
    )

    def enlarged(mask: Mask) -> Mask:
        soft = cv2.warpAffine(
            mask.astype(np.float32),
            to_small,
            (right - left, bottom - top),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        return np.asarray(soft) > 0.5

    mask = enlarged(labels == label)
    others = enlarged((labels != label) & (labels > 0))
    mask, edge_px, faint_share = _sharpened(rgb[top:bottom, left:right], mask, others, reach)
    mask = _without_pinholes(_largest(_opened(mask, 1)))
    if not mask.any():
        return None
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    mask = mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    left, top = left + int(columns[0]), top + int(rows[0])
    near = math.ceil(factor)
    touches = (
        min(left, top) < near
        or left + mask.shape[1] > width - near
        or top + mask.shape[0] > height - near
    )
    return Piece(left, top, mask, touches, edge_px, faint_share)


def _sharpened(rgb: Image, mask: Mask, others: Mask, reach: int) -> tuple[Mask, float, float]:
    """A mask whose boundary runs where the colour is midway between those on either side.

    Args:
        rgb: (h, w, 3).
        mask: (h, w), right within about `reach` pixels.
        others: (h, w), other pieces, which are no ground.
        reach: pixels.

    Returns:
        The mask, the median width of the transition in pixels, and the share of the outline
        where there is hardly any.
    """
    sharp, margin = mask.copy(), 4 * reach
    inner, outer = _eroded(mask, reach), ~_dilated(mask | others, reach)
    band = ~inner & ~outer & ~others
    edge = mask & ~_eroded(mask, 1)
    slopes = [np.zeros(0, np.float32)]
    faint = 0
    # In tiles, so that a large picture needs no large scratch space.
    for top in range(0, mask.shape[0], TILE_PX):
        for left in range(0, mask.shape[1], TILE_PX):
            tile = np.s_[top : top + TILE_PX, left : left + TILE_PX]
            if not band[tile].any():
                continue
            y, x = max(0, top - margin), max(0, left - margin)
            wide = np.s_[y : top + TILE_PX + margin, x : left + TILE_PX + margin]
            core = np.s_[top - y : top - y + TILE_PX, left - x : left - x + TILE_PX]
            share = _share_of_piece(rgb[wide], inner[wide], outer[wide], 3 * reach)
            slopes.append(_steepest_nearby(share, reach)[core][edge[tile]])
            share = share[core]
            known = band[tile] & ~np.isnan(share)
            sharp[tile][known] = share[known] > 0.5
            faint += int((np.isnan(share) & edge[tile]).sum())
    slope = np.concatenate(slopes)
    slope = slope[slope > 0]
    edge_px = float(1 / np.median(slope)) if slope.size else 0.0
    return sharp, edge_px, faint / max(1, int(edge.sum()))


def _share_of_piece(rgb: Image, inner: Mask, outer: Mask, radius: int) -> NDArray[np.float32]:
    """How much of each pixel is piece: about 0 on the ground and 1 on the piece.

    Not a projection between two mean colours, which would fail on a piece of many colours: a
    pixel's distance from the ground nearby is compared with that of the piece nearby.

    Args:
        rgb: (h, w, 3).
        inner: (h, w), certainly piece.
        outer: (h, w), certainly ground.
        radius: what is nearby, pixels.

    Returns:
        (h, w); NaN where there is no ground or piece nearby, or hardly a difference.
    """
    colour: Any = cv2.GaussianBlur(rgb.astype(np.float32), (0, 0), 0.7)
    ground = _mean_nearby(colour, outer, radius)
    squared = ((colour - ground) ** 2).sum(axis=2)
    noise = _mean_nearby(squared, outer, radius)
    distance = np.sqrt(np.maximum(squared - noise, 0))
    contrast = _mean_nearby(distance, inner & np.isfinite(distance), radius)
    contrast[contrast < np.maximum(10.0, 2 * np.sqrt(noise))] = np.nan
    return np.asarray(distance / contrast, np.float32)


def _mean_nearby(values: NDArray[np.float32], where: Mask, radius: int) -> NDArray[np.float32]:
    """The mean of (h, w) or (h, w, c) values over the pixels of `where` within a square of that
    radius; NaN where it holds none."""
    size = (2 * radius + 1, 2 * radius + 1)
    weight = np.asarray(cv2.blur(where.astype(np.float32), size))
    weight[weight < 0.5 / (size[0] * size[1])] = np.nan
    chosen = where if values.ndim == 2 else where[..., None]
    total = np.asarray(cv2.blur(np.where(chosen, values, 0).astype(np.float32), size))
    return np.asarray(total / (weight if values.ndim == 2 else weight[..., None]), np.float32)


def _steepest_nearby(share: NDArray[np.float32], radius: int) -> NDArray[np.float32]:
    """The largest slope of `share`, a pixel, within a square of that radius."""
    size = 2 * radius + 1
    slope = _slope(np.nan_to_num(share))
    return np.asarray(cv2.dilate(slope, np.ones((size, size))), np.float32)


def _slope(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """How much (h, w) values change a pixel, in the steepest direction."""
    dx = cv2.Sobel(values, cv2.CV_32F, 1, 0, scale=1 / 8)
    dy = cv2.Sobel(values, cv2.CV_32F, 0, 1, scale=1 / 8)
    return np.asarray(np.hypot(dx, dy), np.float32)


def _kernel(radius: int) -> NDArray[np.uint8]:
    return np.asarray(
        cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1)), np.uint8
    )


def _eroded(mask: Mask, radius: int) -> Mask:
    return cv2.erode(mask.astype(np.uint8), _kernel(radius)).astype(bool)


def _dilated(mask: Mask, radius: int) -> Mask:
    return cv2.dilate(mask.astype(np.uint8), _kernel(radius)).astype(bool)


def _border(mask: Mask, width: int) -> Mask:
    """What of a mask is so near to its edge, or to the picture's."""
    depth: Any = cv2.distanceTransform(np.pad(mask, 1).astype(np.uint8), cv2.DIST_L2, 3)
    return np.asarray(mask & (depth[1:-1, 1:-1] <= width))


def _opened(mask: Mask, radius: int) -> Mask:
    return _dilated(_eroded(mask, radius), radius)


def _without_specks(mask: Mask, min_area: float) -> Mask:
    _, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
    keep = stats[:, cv2.CC_STAT_AREA] >= min_area
    keep[0] = False
    return np.asarray(keep[labels])


def _largest(mask: Mask) -> Mask:
    """The largest connected part."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(
        mask.astype(np.uint8), connectivity=4
    )
    return mask if count < 3 else labels == 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())
