"""Procedural Roman wall painting: any number of frescoes, none of them copied from anywhere.

    picture = paint(1024, seed=7)                      # 205 x 205 mm of some wall
    picture = paint(2000, 1200, seed=7, style="third")

What is painted is decided in mm by `plan`, so that a wall looks the same at any resolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reassembly.errors import InputError
from reassembly.synthetic.paint import architecture, figures, ornaments
from reassembly.synthetic.paint.ageing import Wear, age
from reassembly.synthetic.paint.canvas import Box, Canvas, Colour
from reassembly.synthetic.paint.layouts import LAYOUTS, Element, Wall
from reassembly.synthetic.paint.palettes import CREAM, GREY, LIME, SCHEMES, mix, vary
from reassembly.synthetic.paint.plaster import Sheet

__all__ = ["ELEMENTS", "STYLES", "Plan", "paint", "plan"]

STYLES: dict[str, float] = {
    "first": 0.08,
    "second": 0.11,
    "third": 0.18,
    "fourth": 0.18,
    "ceiling": 0.24,
    "linear": 0.21,
    "lattice": 0.0,
}
"""The four Pompeian styles, ceilings, plain white walls and pale walls with a lattice, and
how often each is painted: a lattice only where it is asked for."""

DEFAULT_MM_PER_PX = 0.2
LEAST_MM = 120.0
"""Ornaments have their natural size; on a picture smaller than this they shrink with it."""

LEAST_PX = 16

ELEMENTS: dict[str, Callable[..., None]] = {
    name: getattr(module, name)
    for module in (ornaments, figures, architecture)
    for name in module.__all__
    if name != "leaves"
}
"""Every ornament, figure and building part by name: `draw(canvas, place, colours, rng)`."""


@dataclass(frozen=True)
class Plan:
    """What a picture shows, in mm."""

    style: str
    elements: tuple[Element, ...]
    origin_mm: tuple[float, float]
    """Where on the planned wall the picture's top-left corner lies."""
    lime: Colour
    """The colour of the bare plaster."""
    wear: Wear

    @property
    def names(self) -> frozenset[str]:
        """Which kinds of elements occur."""
        return frozenset(element.name for element in self.elements)


def plan(width_mm: float, height_mm: float, *, seed: int, style: str | None = None) -> Plan:
    """Decide what to paint, from the first colour field to the last crack.

    Args:
        width_mm: width of the picture; sides under `LEAST_MM` make ornaments crowd.
        height_mm: its height.
        seed: 0 or more.
        style: one of `STYLES`; chosen by the seed when None.
    """
    rng = np.random.default_rng([seed, 1])
    chosen = str(rng.choice(list(STYLES), p=list(STYLES.values())))
    if style is not None and style not in STYLES:
        raise InputError(f"there is no style {style!r}", f"Choose one of {', '.join(STYLES)}")
    style = style or chosen
    part = rng.uniform(1.15, 1.8) if rng.random() < 0.55 else 1.0
    x, y = rng.random(2) * (part - 1) * (width_mm, height_mm)
    schemes = SCHEMES[style]
    wall = Wall(
        box=Box(0.0, 0.0, part * width_mm, part * height_mm),
        scale=1.2 * float(np.clip(min(width_mm, height_mm) / 200, 0.5, 8.0) ** 0.6),
        scheme=schemes[int(rng.integers(len(schemes)))],
        rng=rng,
    )
    LAYOUTS[style](wall)
    lime = vary(mix(LIME, (CREAM, GREY)[int(rng.integers(2))], 0.3 * rng.random()), rng, 5)
    return Plan(style, tuple(wall.elements), (float(x), float(y)), lime, Wear.draw(rng))


def paint(
    width_px: int,
    height_px: int | None = None,
    *,
    seed: int,
    mm_per_px: float = DEFAULT_MM_PER_PX,
    style: str | None = None,
) -> NDArray[np.uint8]:
    """Paint a fresco and let it grow old.

    The same arguments give the same bytes on the same machine. The same seed at half `mm_per_px`
    and twice the pixels gives the same wall at twice the resolution.

    Args:
        width_px: width, at least 16.
        height_px: height, at least 16; as the width when None.
        seed: 0 or more.
        mm_per_px: the scale; bands are some 3 to 30 mm wide, borders 10 to 80 mm. When a side is
            under 120 mm, a coarser scale is used, so that a thumbnail shows a wall as well.
        style: one of `STYLES`; chosen by the seed when None.

    Returns:
        (height_px, width_px, 3), RGB, uint8.
    """
    height_px = width_px if height_px is None else height_px
    if min(width_px, height_px) < LEAST_PX:
        raise InputError(
            f"a picture of {width_px} x {height_px} px is too small to paint",
            f"Ask for at least {LEAST_PX} px a side",
        )
    if seed < 0:
        raise InputError(f"the seed is {seed}", "Give a whole number, 0 or more")
    if not (math.isfinite(mm_per_px) and mm_per_px > 0):
        raise InputError(f"mm_per_px is {mm_per_px}", "Give the length of a pixel in mm, above 0")
    scale = max(mm_per_px, LEAST_MM / min(width_px, height_px))
    sheet = Sheet(width_px, height_px, scale)
    scene = plan(sheet.width_mm, sheet.height_mm, seed=seed, style=style)

    ground = np.empty((height_px, width_px, 3), np.uint8)
    _draw(Canvas.of(ground, 1 / scale, seed, scene.origin_mm), scene, seed, over=False)
    painted = ground.copy()
    _draw(Canvas.of(painted, 1 / scale, seed, scene.origin_mm), scene, seed, over=True)
    rng = np.random.default_rng([seed, 2])
    age(painted, ground, sheet, scene.lime, scene.wear, rng)
    return painted


def _draw(canvas: Canvas, scene: Plan, seed: int, *, over: bool) -> None:
    """Paint the elements of one layer, each with dice of its own."""
    for index, element in enumerate(scene.elements):
        if element.over == over and canvas.shows(element.place):
            rng = np.random.default_rng([seed, 3, index])
            ELEMENTS[element.name](canvas, element.place, element.colours, rng)
