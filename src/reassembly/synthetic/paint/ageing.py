"""Two thousand years: thinning colour, flaked paint, losses, stains, craquelure, dirt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cv2
import numpy as np

from reassembly.synthetic.paint.canvas import Canvas, Colour, Floats
from reassembly.synthetic.paint.palettes import GREY, OCHRE, darker, mix
from reassembly.synthetic.paint.plaster import (
    Image,
    Sheet,
    clouds,
    coloured,
    grain,
    plaster,
    trowel_marks,
    weighed,
)

__all__ = ["Wear", "age", "craquelure"]


FRAY_MM = 0.2
"""How far the edges of a brush stroke stray on the grain of the plaster."""

NET_CELLS = 48


@dataclass(frozen=True)
class Wear:
    """How much a wall has suffered; each from 0 (nothing) to 1 (a ruin)."""

    fading: float
    flaking: float
    losses: float
    stains: float
    cracks: float

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Wear:
        """A wall as they are found: most a little worn, a few badly."""
        general = rng.beta(1.6, 2.4)
        parts = np.clip(general * rng.uniform(0.4, 1.5, 5), 0.05, 1)
        if rng.random() < 0.45:
            parts[2] = 0.0
        fading, flaking, losses, stains, cracks = parts.tolist()
        return cls(fading, flaking, losses, stains, cracks)


def age(
    painted: Image, ground: Image, sheet: Sheet, lime: Colour, wear: Wear, rng: np.random.Generator
) -> None:
    """Age a fresh painting in place.

    Args:
        painted: (H, W, 3), the finished picture; changed.
        ground: (H, W, 3), the same without what was painted on top of the dry fields, which
            flakes off first.
        lime: the colour of the plaster.
    """
    fine = grain(rng, sheet)
    turned, flipped = (np.asarray(cv2.flip(fine, how), np.uint8) for how in (-1, 0))
    _fray(painted, fine, sheet)
    patches = clouds(rng, sheet, 45.0, 4)
    mixed = weighed(patches, 0.55, fine, 0.6)
    _blend(painted, ground, _threshold(mixed, 1.0 - 0.42 * wear.flaking, 0.05))
    hairs = clouds(rng, sheet, 3.0, 1, stretch=float(rng.choice([0.1, 8.0])))
    density = weighed(hairs, 0.035, patches[::-1], 0.14)
    _times(painted, density)

    worn = weighed(clouds(rng, sheet, 80.0, 5), 0.62, turned, 0.5)
    thin = 0.07 + 0.3 * wear.fading
    lost = _threshold(worn, 0.98 - 0.42 * wear.fading, 0.22, floor=thin)
    _blend(painted, plaster(rng, sheet, lime, flipped), lost)

    relief = weighed(trowel_marks(rng, sheet), 0.06, turned, 0.1)
    if wear.losses:
        _lose(painted, relief, sheet, lime, wear.losses, flipped, rng)
    _stain(painted, sheet, wear.stains, rng)
    marks = Canvas(relief, 1 / sheet.mm_per_px)
    craquelure(marks, sheet, wear.cracks, rng)
    _pits(marks, sheet, wear, rng)
    _times(painted, relief)


def _fray(picture: Image, fine: Image, sheet: Sheet) -> None:
    """Roughen the outlines of all that is painted, by moving grains of it a little."""
    step = round(FRAY_MM / sheet.mm_per_px)
    if step < 1 or min(picture.shape[:2]) <= step:
        return
    fresh = picture.copy()
    for table, source, target in (
        (np.arange(256) > 150, np.s_[step:, step:], np.s_[:-step, :-step]),
        (np.arange(256) < 106, np.s_[:-step, step:], np.s_[step:, :-step]),
    ):
        mask = cv2.LUT(fine, table.astype(np.uint8))
        cv2.copyTo(fresh[source], mask[target], picture[target])


def craquelure(canvas: Canvas, sheet: Sheet, amount: float, rng: np.random.Generator) -> None:
    """Draw a few long cracks and some nets of fine ones on a relief map."""
    short = min(sheet.width_mm, sheet.height_mm)
    for _ in range(int(rng.poisson(2.2 * amount))):
        _crack(canvas, sheet, rng.uniform(0.3, 1.1) * short, 0.35, rng)
    for _ in range(min(int(rng.poisson(0.6 + 4 * amount)), 7)):
        reach = rng.uniform(0.07, 0.22) * short
        _net(canvas, rng.random(2) * (sheet.width_mm, sheet.height_mm), reach, rng)


def _net(canvas: Canvas, centre: Floats, reach: float, rng: np.random.Generator) -> None:
    """A net of fine cracks with gaps and crooked sides, thinning out from its centre."""
    spacing = max(rng.uniform(0.05, 0.1) * reach, 1.2)
    turn = rng.uniform(0, math.tau)
    away = _net_sides() - rng.uniform(0.35, 0.65, 2) * NET_CELLS
    distance = np.linalg.norm(away[:, 0], axis=1) * spacing / reach
    sides = away[rng.random(len(away)) < 1.3 * np.exp(-2 * distance**2)]
    cos, sin = math.cos(turn), math.sin(turn)
    _dark_line(canvas, centre + spacing * sides @ np.array([(cos, sin), (-sin, cos)]), 0.09)


@lru_cache(maxsize=1)
def _net_sides() -> Floats:
    """(K, 5, 2): the crooked sides of a large net of cells, whose size is about 1."""
    points = np.random.default_rng(0).uniform(0, NET_CELLS, (NET_CELLS**2, 2))
    net = cv2.Subdiv2D((-1, -1, NET_CELLS + 2, NET_CELLS + 2))
    net.insert(points.tolist())
    cells = [np.asarray(cell, float) for cell in net.getVoronoiFacetList([])[0]]
    starts = np.concatenate(cells)
    stops = np.concatenate([np.roll(cell, -1, axis=0) for cell in cells])
    once = (starts < stops)[:, 0] & (np.abs(stops - starts).max(axis=1) < 2)
    u = np.linspace(0, 1, 5)[:, None]
    sides = starts[once, None] * (1 - u) + stops[once, None] * u
    crooked: Floats = sides + 0.12 * np.sin(sides[..., ::-1] * 9.0 + (0.0, 1.7))
    return crooked


def _crack(
    canvas: Canvas, sheet: Sheet, length: float, width: float, rng: np.random.Generator
) -> None:
    """A crack that wanders, branches and closes up."""
    stride = 1.6
    steps = max(8, int(length / stride))
    start = rng.uniform(0, math.tau)
    heading = start + np.cumsum(rng.normal(0, 0.12, steps)) + rng.normal(0, 0.55, steps)
    path = np.cumsum(stride * np.stack([np.cos(heading), np.sin(heading)], -1), axis=0)
    path += rng.random(2) * (sheet.width_mm, sheet.height_mm) - path[steps // 2]
    third = steps // 3
    for part, share in (
        (path[: third + 1], 0.6),
        (path[third : 2 * third + 1], 1.0),
        (path[2 * third :], 0.4),
    ):
        _dark_line(canvas, part, share * width)
    for root in rng.integers(0, steps, 4):
        tail = int(rng.integers(4, max(5, steps // 4)))
        side = heading[root] + rng.choice([-1, 1]) * rng.uniform(0.5, 1.1)
        bend = side + np.cumsum(rng.normal(0, 0.15, tail)) + rng.normal(0, 0.5, tail)
        branch = np.cumsum(stride * np.stack([np.cos(bend), np.sin(bend)], -1), axis=0)
        _dark_line(canvas, path[root] + branch, 0.3 * width)


def _dark_line(canvas: Canvas, path: Any, width_mm: float) -> None:
    """A line thinner than a pixel is drawn paler instead."""
    strength = min(1.0, width_mm * canvas.px_per_mm)
    level = round(128 - 70 * strength)
    canvas.line(np.asarray(path, float), width_mm, (level, level, level))


def _pits(canvas: Canvas, sheet: Sheet, wear: Wear, rng: np.random.Generator) -> None:
    """Crumbled sand grains, specks of dirt, scratches."""
    area = sheet.width_mm * sheet.height_mm
    count = int(np.clip(area / 400 * (0.3 + wear.stains), 12, 900))
    at = rng.random((count, 2)) * (sheet.width_mm, sheet.height_mm)
    radii = 0.08 + rng.exponential(0.12, count)
    for level in (92, 106, 140):
        some = rng.random(count) < 0.4
        canvas.dots(at[some], radii[some], (level, level, level))
    for _ in range(int(rng.poisson(7 * wear.cracks))):
        a = rng.random(2) * (sheet.width_mm, sheet.height_mm)
        b = a + rng.normal(0, 14, 2)
        level = int(rng.choice([108, 150]))
        canvas.line(np.linspace(a, b, 5), 0.2, (level, level, level))


def _lose(
    picture: Image,
    relief: Image,
    sheet: Sheet,
    lime: Colour,
    amount: float,
    fine: Image,
    rng: np.random.Generator,
) -> None:
    """Patches where the painted skin has come off down to the coarse mortar, changed in place."""
    field = weighed(clouds(rng, sheet, 38.0, 5), 0.85, fine, 0.25)
    gone = _threshold(field, 0.97 - 0.17 * amount, 0.02)
    mortar = mix(mix(lime, GREY, 0.35), OCHRE, 0.12)
    rough = weighed(fine, 0.9, clouds(rng, sheet, 12.0, 3), 0.4)
    coarse = coloured(rough, (darker(mortar, 0.5), mortar, mix(mortar, lime, 0.6)))
    _blend(picture, coarse, gone)
    step = max(1, round(0.5 / sheet.mm_per_px))
    rim = cv2.addWeighted(gone[step:, step:], 0.22, gone[:-step, :-step], -0.22, 0)
    below = relief[step:, step:]
    cv2.subtract(below, rim, dst=below)


def _stain(picture: Image, sheet: Sheet, amount: float, rng: np.random.Generator) -> None:
    """Brown damp, grey soot or a green tinge, in soft patches; now and then running down."""
    tint = ((214, 190, 150), (196, 190, 182), (206, 206, 168))[int(rng.integers(3))]
    runs = 0.18 if rng.random() < 0.25 else 1.0
    patches = clouds(rng, sheet, 75.0 if runs == 1 else 110.0, 4, stretch=runs)
    clear = (255, 255, 255)
    deep = mix(clear, tint, 0.15 + 0.75 * amount)
    glass = coloured(patches, (deep, mix(deep, clear, 0.6), clear, clear))
    cv2.multiply(picture, glass, dst=picture, scale=1 / 255)


def _threshold(values: Image, above: float, soft: float, floor: float = 0.0) -> Image:
    """A mask, 0 to 255: how far a map lies above a level (a share of its range), softly."""
    level = (np.arange(256) / 255 - above) / soft + 0.5
    step = np.clip(level, 0, 1)
    table = floor + (1 - floor) * step * step * (3 - 2 * step)
    return np.asarray(cv2.LUT(values, np.rint(255 * table).astype(np.uint8)), np.uint8)


def _blend(picture: Image, other: Image, mask: Image) -> None:
    """Put the other picture over the picture where the mask is 255, half where it is 128."""
    share = cv2.cvtColor(mask, cv2.COLOR_GRAY2RGB)
    laid = cv2.multiply(other, share, scale=1 / 255)
    cv2.bitwise_not(share, dst=share)
    cv2.multiply(picture, share, dst=picture, scale=1 / 255)
    cv2.add(picture, laid, dst=picture)


def _times(picture: Image, shade: Image) -> None:
    """Make the picture lighter or darker by a map that is neutral at 128."""
    cv2.multiply(picture, cv2.cvtColor(shade, cv2.COLOR_GRAY2RGB), dst=picture, scale=1 / 128)
