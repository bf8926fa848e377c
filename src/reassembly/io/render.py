"""Drawing fragments where their poses put them.

A drawing has one frame, in mm, x right and y down: that of the assembly's first island. Further
islands, whose frames have nothing to do with it, are moved to its right (`lay_out`).
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.io.markup import xml_text
from reassembly.pose import Pose, rotation_matrix
from reassembly.puzzle import Assembly, Fragment, Puzzle

__all__ = [
    "MAX_PIXELS",
    "Bounds",
    "ContactRows",
    "Placement",
    "Sheet",
    "bounded_scale",
    "contact_rows",
    "contact_sheet_png",
    "cut_out",
    "fair_width",
    "in_rows",
    "lay_out",
    "placed_bounds",
    "png_bytes",
    "render_assembly",
    "render_placements",
    "round_length",
    "webp_bytes",
]

MAX_PIXELS = 80_000_000
"""Of one drawing, about 9000 x 9000: what common programs still open without complaint."""
MAX_SIDE_PX = 30_000
"""Of one drawing: OpenCV addresses no more, and a strip of pixels shows nothing anyway."""
CONTACT_SHEET_PX, LETTER_PX = 1600, 22
"""The width of a contact sheet and the height of its letters."""
CELL_LETTERS = 7
"""The least room for a piece on a contact sheet, in letter heights: some dozen letters."""
GREY = (233, 231, 226)
"""The ground of a contact sheet."""
PNG_HEAD = 33
"""Bytes of a PNG file's signature and first chunk, behind which its resolution is noted."""
ISLAND_GAP = 0.08
"""Distance between islands, as a share of the largest island's longer side."""

Bounds = tuple[float, float, float, float]
"""(left, top, right, bottom), mm."""
Placement = tuple[Fragment, Pose]
"""A fragment and where it lies in a drawing."""


@dataclass(frozen=True)
class Sheet:
    """How the islands of an assembly lie on one drawing."""

    islands: tuple[tuple[Placement, ...], ...]
    """Fragments with their poses in the drawing's frame."""
    shifts_mm: tuple[tuple[float, float], ...]
    """How far each island was moved from its own frame; (0, 0) for the first."""
    island_bounds: tuple[Bounds, ...]
    """Of each island in the drawing's frame."""

    @property
    def placements(self) -> tuple[Placement, ...]:
        return tuple(placement for island in self.islands for placement in island)

    @property
    def bounds(self) -> Bounds:
        """Of everything placed; a square of 1 mm if nothing is."""
        return _union(self.island_bounds) if self.island_bounds else (0.0, 0.0, 1.0, 1.0)


def lay_out(assembly: Assembly) -> Sheet:
    """The islands side by side: the first where it is, each further one to the right of the last,
    their upper edges in line."""
    puzzle = assembly.puzzle
    if puzzle is None:
        raise ValueError("an assembly without its puzzle cannot be drawn")
    own = [[(puzzle[i], pose) for i, pose in island.items()] for island in assembly.islands]
    boxes = [placed_bounds(island) for island in own]
    gap = ISLAND_GAP * max((max(b[2] - b[0], b[3] - b[1]) for b in boxes), default=0.0)
    islands, shifts = [], []
    bounds: list[Bounds] = []
    for island, (left, top, right, bottom) in zip(own, boxes, strict=True):
        x = bounds[-1][2] + gap - left if bounds else 0.0
        y = bounds[0][1] - top if bounds else 0.0
        islands.append(tuple((f, _moved(pose, x, y)) for f, pose in island))
        shifts.append((x, y))
        bounds.append((left + x, top + y, right + x, bottom + y))
    return Sheet(tuple(islands), tuple(shifts), tuple(bounds))


def in_rows(
    fragments: Sequence[Fragment],
    width_mm: float,
    gap_mm: float,
    *,
    below_mm: float = 0.0,
    cell_mm: float = 0.0,
) -> list[Placement]:
    """Fragments as they were scanned, in rows from (0, 0) on; those of a row stand on one line.

    Args:
        width_mm: of a row; a fragment wider than that has a row to itself.
        gap_mm: between fragments and between rows.
        below_mm: extra room under each row, for a caption.
        cell_mm: the least width that a fragment takes, for its caption.
    """
    boxes = [fragment.polygon.bounds for fragment in fragments]
    rows: list[list[tuple[Fragment, Bounds, float]]] = []
    x = math.inf
    for fragment, box in zip(fragments, boxes, strict=True):
        width = max(box[2] - box[0], cell_mm)
        if x + width > width_mm and x > 0:
            rows.append([])
            x = 0.0
        rows[-1].append((fragment, box, x))
        x += width + gap_mm
    placements: list[Placement] = []
    y = 0.0
    for row in rows:
        y += max(box[3] - box[1] for _, box, _ in row)
        placements += [(fragment, Pose(x - box[0], y - box[3])) for fragment, box, x in row]
        y += below_mm + gap_mm
    return placements


def fair_width(fragments: Sequence[Fragment]) -> float:
    """The width of rows (mm) in which the fragments fill about a square."""
    boxes = np.array([fragment.polygon.bounds for fragment in fragments])
    sides = boxes[:, 2:] - boxes[:, :2]
    return float(max(1.2 * math.sqrt(sides.prod(axis=1).sum()), sides[:, 0].max()))


WIDEST = 2.5
"""Rows are not made wider than so many times what the fragments need: letters shrink instead."""


@dataclass(frozen=True)
class ContactRows:
    """Fragments in rows, with room for a caption beneath each."""

    placements: list[Placement]
    letter_mm: float
    """The height of a caption's letters."""
    caption_mm: float
    """The room that a caption has where its fragment is no wider."""

    @property
    def bounds(self) -> Bounds:
        """Of the fragments and, to the right, of their captions."""
        boxes = [fragment.placed(pose).bounds for fragment, pose in self.placements]
        left, top, right, bottom = _union(boxes)
        return left, top, max(right, *(box[0] + self.caption_mm for box in boxes)), bottom


def contact_rows(fragments: Sequence[Fragment], letter: float) -> ContactRows:
    """Rows that are at least about as wide as they are high together.

    Args:
        letter: the height of letters, as a share of the rows' width; less where there are so many
            fragments that their captions alone would be too high.
    """
    fair = width = fair_width(fragments)
    while True:
        if width > WIDEST * fair:
            letter, width = 0.8 * letter, fair
        letter_mm = letter * width
        cell = min(CELL_LETTERS * letter_mm, width / 4)
        gap, below = 1.5 * letter_mm, 1.4 * letter_mm
        rows = in_rows(fragments, width, gap, below_mm=below, cell_mm=cell)
        last, pose = rows[-1]
        if pose.y_mm + last.polygon.bounds[3] <= width:  # The line that the last row stands on.
            return ContactRows(rows, letter_mm, cell + letter_mm)
        width *= 1.08


def placed_bounds(placements: Iterable[Placement]) -> Bounds:
    """The box around fragments (at least one) where they lie."""
    return _union(fragment.placed(pose).bounds for fragment, pose in placements)


def bounded_scale(bounds: Bounds, mm_per_px: float, max_pixels: int = MAX_PIXELS) -> float:
    """The mm per pixel at which `bounds` is drawn: as asked, or coarser where that would give more
    than `max_pixels` pixels or an overlong side."""
    scale = mm_per_px
    while True:
        width, height = _size_px(bounds, scale)
        excess = max(math.sqrt(width * height / max_pixels), max(width, height) / MAX_SIDE_PX)
        if excess <= 1:
            return scale
        scale *= max(excess, 1.0001)  # Whole pixels may leave the exact answer a little short.


def render_assembly(
    assembly: Assembly,
    mm_per_px: float | None = None,
    *,
    background: tuple[int, int, int] | None = None,
    max_pixels: int = MAX_PIXELS,
) -> NDArray[np.uint8]:
    """An assembly's drawing, islands side by side.

    Args:
        mm_per_px: of the drawing; its puzzle's by default. Made coarser where the drawing would
            have more than `max_pixels`: `bounded_scale(lay_out(assembly).bounds, ...)` tells.
        background: RGB, 0 to 255; transparent by default.

    Returns:
        (H, W, 4), RGBA. The top-left corner is that of `lay_out(assembly).bounds`.
    """
    sheet = lay_out(assembly)
    assert assembly.puzzle is not None
    scale = bounded_scale(sheet.bounds, mm_per_px or assembly.puzzle.mm_per_px, max_pixels)
    return render_placements(sheet.placements, scale, sheet.bounds, background=background)


def render_placements(
    placements: Iterable[Placement],
    mm_per_px: float,
    bounds: Bounds,
    *,
    background: tuple[int, int, int] | None = None,
) -> NDArray[np.uint8]:
    """Fragments drawn where their poses put them, later ones over earlier ones.

    Args:
        mm_per_px: of the drawing.
        bounds: what of the plane is drawn; its top-left corner is that of the first pixel.
        background: RGB, 0 to 255; transparent by default.

    Returns:
        (H, W, 4), RGBA, colours not multiplied by alpha.
    """
    width, height = _size_px(bounds, mm_per_px)
    canvas = np.zeros((height, width, 4), np.uint8)
    if background is not None:
        canvas[:] = (*background, 255)
    for fragment, pose in placements:
        _draw(canvas, fragment, pose, mm_per_px, bounds[:2])
    return canvas


def cut_out(fragment: Fragment) -> NDArray[np.uint8]:
    """The fragment's image as (H, W, 4), RGBA, transparent black outside its mask."""
    opaque = cv2.cvtColor(fragment.image, cv2.COLOR_RGB2RGBA)
    return np.asarray(cv2.copyTo(opaque, fragment.mask.view(np.uint8)), np.uint8)


def png_bytes(rgba: NDArray[np.uint8], mm_per_px: float | None = None) -> bytes:
    """An (H, W, 4) picture as a PNG file.

    Args:
        mm_per_px: noted in the file, so that it prints at true scale.
    """
    # Run lengths compress photographs as well as the default does, in a quarter of the time.
    options = [
        cv2.IMWRITE_PNG_COMPRESSION,
        1,
        cv2.IMWRITE_PNG_STRATEGY,
        cv2.IMWRITE_PNG_STRATEGY_RLE,
    ]
    _, encoded = cv2.imencode(".png", cv2.cvtColor(rgba, cv2.COLOR_RGBA2BGRA), options)
    data = encoded.tobytes()
    if mm_per_px is None:
        return data
    per_metre = round(1000 / mm_per_px)
    chunk = b"pHYs" + struct.pack(">IIB", per_metre, per_metre, 1)
    resolution = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return data[:PNG_HEAD] + resolution + data[PNG_HEAD:]


def webp_bytes(rgba: NDArray[np.uint8]) -> bytes:
    """An (H, W, 4) picture as a WebP file: small, for pages."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(rgba).save(file, "WEBP", quality=86, method=2)
    return file.getvalue()


def contact_sheet_png(puzzle: Puzzle) -> bytes:
    """All fragments as scanned, at one scale, with their ids and a scale bar, as a PNG file."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    rows = contact_rows(puzzle.fragments, LETTER_PX / CONTACT_SHEET_PX)
    letter = rows.letter_mm
    _, _, right, bottom = rows.bounds
    bounds = -2 * letter, -2 * letter, right + 2 * letter, bottom + 5.5 * letter
    scale = bounded_scale(bounds, letter / LETTER_PX)
    picture = Image.fromarray(render_placements(rows.placements, scale, bounds, background=GREY))
    draw = ImageDraw.Draw(picture)
    # Pillow's own font knows no Greek and no Cyrillic; this one comes with Matplotlib.
    font_file = Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    font = ImageFont.truetype(font_file, max(8, round(letter / scale)))

    def at(x_mm: float, y_mm: float) -> tuple[float, float]:
        return (x_mm - bounds[0]) / scale, (y_mm - bounds[1]) / scale

    for fragment, pose in rows.placements:
        box = fragment.placed(pose).bounds
        text = shown = " ".join(xml_text(fragment.id).split())
        room = max(box[2] - box[0] + letter, rows.caption_mm)
        while draw.textlength(shown, font) * scale > room and text:
            text = text[:-1]
            shown = f"{text}…"
        draw.text(at(box[0], box[3] + 0.3 * letter), shown, fill="black", font=font)
    length = round_length(0.3 * right)
    y = bottom + 3 * letter
    draw.rectangle([at(0, y), at(length, y + 0.4 * letter)], fill="black")
    guess = " (scale guessed)" if puzzle.metadata.get("scale") == "assumed" else ""
    label = at(length + 0.6 * letter, y + 0.2 * letter)
    draw.text(label, f"{length:g} mm{guess}", fill="black", font=font, anchor="lm")
    return png_bytes(np.asarray(picture), scale)


def round_length(longest_mm: float) -> float:
    """The longest of ..., 0.5, 1, 2, 5, 10, 20, ... that is not above `longest_mm`."""
    power = 10.0 ** math.floor(math.log10(longest_mm))
    return max(step * power for step in (0.5, 1, 2, 5) if step * power <= longest_mm * (1 + 1e-9))


def _size_px(bounds: Bounds, mm_per_px: float) -> tuple[int, int]:
    """(width, height) of a drawing; a sliver of a pixel, as rounding leaves it, is cut off."""
    left, top, right, bottom = bounds
    return (
        max(1, math.ceil((right - left) / mm_per_px - 1e-6)),
        max(1, math.ceil((bottom - top) / mm_per_px - 1e-6)),
    )


def _union(boxes: Iterable[Bounds]) -> Bounds:
    table = np.array(list(boxes), dtype=np.float64)
    (left, top), (right, bottom) = table[:, :2].min(axis=0), table[:, 2:].max(axis=0)
    return float(left), float(top), float(right), float(bottom)


def _moved(pose: Pose, x_mm: float, y_mm: float) -> Pose:
    return Pose(pose.x_mm + x_mm, pose.y_mm + y_mm, pose.rotation_rad)


def _draw(
    canvas: NDArray[np.uint8],
    fragment: Fragment,
    pose: Pose,
    mm_per_px: float,
    corner_mm: tuple[float, float],
) -> None:
    """Draws one fragment over `canvas`, whose first pixel begins at `corner_mm`."""
    fragment = fragment.cropped()
    piece, shrink = _shrunk(cut_out(fragment), fragment.mm_per_px / mm_per_px)
    turn = rotation_matrix(pose.rotation_rad) * shrink * (fragment.mm_per_px / mm_per_px)
    goal = (pose.translation - corner_mm) / mm_per_px - turn @ (fragment.origin_px / shrink)
    height, width = piece.shape[:2]
    corners = np.array([[0, 0], [width, 0], [0, height], [width, height]]) @ turn.T + goal
    first = np.maximum(np.floor(corners.min(axis=0)).astype(int) - 1, 0)
    last = np.minimum(np.ceil(corners.max(axis=0)).astype(int) + 1, canvas.shape[1::-1])
    if (last <= first).any():
        return

    # cv2 puts pixel centres at whole numbers, ours are at halves: hence the two shifts by 0.5.
    offset = goal - first + turn @ [0.5, 0.5] - 0.5
    window = tuple((last - first).tolist())
    drawn = cv2.warpAffine(piece, np.column_stack([turn, offset]), window, flags=cv2.INTER_LINEAR)
    _blend(canvas[first[1] : last[1], first[0] : last[0]], np.asarray(drawn, np.uint8))


def _shrunk(
    piece: NDArray[np.uint8], scale: float
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """The piece at about `scale` of its size, if that is below 1, by averaging: bilinear sampling
    alone would skip pixels. Also returns (2,), how many old pixels a new one spans in x and y."""
    old = np.array(piece.shape[1::-1])
    new = np.maximum(1, np.ceil(old * min(scale, 1.0))).astype(int)
    if (new == old).all():
        return piece, np.ones(2)
    smaller = cv2.resize(piece, tuple(new.tolist()), interpolation=cv2.INTER_AREA)
    return np.asarray(smaller, np.uint8), old / new


def _blend(ground: NDArray[np.uint8], drawn: NDArray[np.uint8]) -> None:
    """Lays `drawn` (colours multiplied by alpha) over `ground` (colours not), in place."""
    inside = drawn[..., 3] == 255
    # A pixel is four bytes: copied as one number, several times faster than byte by byte.
    np.copyto(ground.view(np.uint32)[..., 0], drawn.view(np.uint32)[..., 0], where=inside)
    edge = np.nonzero((drawn[..., 3] > 0) & ~inside)
    over, under = drawn[edge].astype(np.float32), ground[edge].astype(np.float32)
    through = under[:, 3] * (1 - over[:, 3] / 255)
    alpha = over[:, 3] + through
    colour = (over[:, :3] * 255 + under[:, :3] * through[:, None]) / alpha[:, None]
    ground[edge] = np.rint(np.column_stack([np.minimum(colour, 255), alpha])).astype(np.uint8)
