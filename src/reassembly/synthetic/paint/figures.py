"""Birds, beasts, masks, busts, floating figures, vessels and landscapes.

Every function draws one figure: `name(canvas, spot, colours, rng)`. Figures are given in units of
the spot's size around its centre, x towards where they look and y down, and painted the Roman way:
a flat body colour, a shadow, a few quick lights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from reassembly.synthetic.paint.canvas import Box, Canvas, Colour, Floats, Spot, arc, spline
from reassembly.synthetic.paint.ornaments import leaves
from reassembly.synthetic.paint.palettes import (
    BLACK,
    BLUE,
    BROWN,
    BURNT,
    FLESH,
    GREEN,
    GREY,
    IVORY,
    OCHRE,
    OLIVE,
    RED_OCHRE,
    ROSE,
    SAGE,
    SKY,
    darker,
    lighter,
    mix,
    vary,
)

__all__ = [
    "bird",
    "bust",
    "deer",
    "dolphin",
    "fish",
    "floating_figure",
    "flying_bird",
    "fruit",
    "landscape",
    "leopard",
    "mask",
    "peacock",
    "swan",
    "vase",
]

Colours = Sequence[Colour]
Rng = np.random.Generator
Knots = str | Sequence[tuple[float, float]] | Floats
"""Points in units of the figure's size, or text such as "37,-27 29,-34" in hundredths of it."""


class _Brush:
    """Shorthand for painting in a spot's own coordinates."""

    def __init__(self, canvas: Canvas, spot: Spot) -> None:
        self.canvas, self.spot = canvas, spot

    def body(self, knots: Knots, colour: Colour, steps: int = 5) -> None:
        """A smooth closed shape."""
        curve = spline(_points(knots), closed=True, steps=steps)
        self.canvas.fill(self.spot.place(curve), colour)

    def shape(self, points: Knots, colour: Colour) -> None:
        """A closed shape with corners."""
        self.canvas.fill(self.spot.place(_points(points)), colour)

    def stroke(
        self, knots: Knots, start: float, stop: float, colour: Colour, steps: int = 5
    ) -> None:
        """A smooth stroke whose width goes from `start` to `stop`, in units of the size."""
        path = self.spot.place(spline(_points(knots), steps=steps))
        self.canvas.brush(path, np.linspace(start, stop, len(path)) * self.spot.size, colour)

    def line(self, knots: Knots, width: float, colour: Colour) -> None:
        """A thin line through the points."""
        self.canvas.line(self.spot.place(_points(knots)), width * self.spot.size, colour)

    def dots(self, centres: Any, radius: Any, colour: Colour) -> None:
        """Discs."""
        radii = np.asarray(radius, float) * self.spot.size
        self.canvas.dots(self.spot.place(np.atleast_2d(centres)), radii, colour)

    def eye(self, x: float, y: float, radius: float) -> None:
        """An eye with its light."""
        self.dots((x, y), radius, IVORY)
        self.dots((x + 0.15 * radius, y), 0.62 * radius, BLACK)


def _points(knots: Knots) -> Floats:
    return _parsed(knots) if isinstance(knots, str) else np.asarray(knots, float)


@lru_cache(maxsize=512)
def _parsed(text: str) -> Floats:
    return np.array([pair.split(",") for pair in text.split()], float) / 100


def bird(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A songbird or dove on its legs, perhaps pecking at cherries."""
    brush, coat = _Brush(canvas, spot), vary(colours[0], rng)
    shade, light, wing = darker(coat, 0.35), lighter(coat, 0.4), mix(coat, colours[1], 0.55)
    for foot in (-0.03, 0.07):
        brush.line([(foot, 0.12), (foot + 0.02, 0.34)], 0.022, darker(OCHRE, 0.3))
        brush.line(
            [(foot - 0.05, 0.35), (foot + 0.02, 0.335), (foot + 0.1, 0.35)],
            0.018,
            darker(OCHRE, 0.3),
        )
    for lift in (0.0, 0.05, 0.09):
        brush.stroke(
            [(-0.24, 0.06 + lift / 2), (-0.62, 0.19 + lift)], 0.1, 0.05, darker(wing, 0.15 + lift)
        )
    brush.body("37,-27 29,-34 19,-30 10,-18 -12,-7 -36,7 -28,15 -4,19 16,12 28,-3 36,-18", coat)
    brush.body("-30,12 -4,19 16,12 28,-3 10,7 -10,11", shade)
    brush.stroke("31,-12 24,0 12,6", 0.07, 0.02, light)
    brush.body("12,-13 -8,-9 -30,4 -50,13 -22,13 2,8", wing)
    for k in range(4):
        start = (0.02 - 0.08 * k, -0.03 + 0.035 * k)
        brush.stroke([start, (start[0] - 0.2, start[1] + 0.09)], 0.03, 0.008, darker(wing, 0.4))
    brush.stroke("10,-10 -10,-6 -30,5", 0.022, 0.01, lighter(wing, 0.4))
    brush.shape("36,-27.5 50,-20.5 36,-19", darker(OCHRE, 0.15))
    brush.eye(0.3, -0.25, 0.028)
    if rng.random() < 0.5:
        cherries = [(0.55, -0.13), (0.61, -0.06), (0.52, -0.04)]
        brush.line("47,-20 55,-13 61,-6", 0.015, GREEN)
        brush.dots(cherries, 0.04, RED_OCHRE)
    else:
        brush.line("-20,36 35,36", 0.025, colours[2])


def peacock(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A peacock with its train laid down."""
    brush = _Brush(canvas, spot)
    blue, green = vary(mix(BLUE, colours[0], 0.25), rng), vary(mix(GREEN, colours[1], 0.25), rng)
    for k, drop in enumerate(np.linspace(0.0, 0.22, 5)):
        brush.stroke(
            [(-0.02, 0.0), (-0.35, 0.08 + drop), (-0.8, 0.1 + 1.6 * drop)],
            0.12,
            0.1,
            vary(green, rng, 9),
        )
        ends = np.array([(-0.44 - 0.12 * j, 0.08 + 1.1 * drop + 0.05 * j) for j in range(k % 2, 4)])
        brush.dots(ends, 0.035, OCHRE)
        brush.dots(ends, 0.018, darker(BLUE, 0.3))
    for foot in (0.08, 0.16):
        brush.line([(foot, 0.1), (foot + 0.01, 0.36), (foot + 0.08, 0.37)], 0.02, BROWN)
    brush.body("30,-10 20,-12 2,-10 -16,2 0,14 20,14 32,4", blue)
    brush.stroke("24,4 30,-14 25,-30 32,-40", 0.2, 0.07, blue)
    brush.dots((0.33, -0.41), 0.05, blue)
    brush.shape("36,-44 45,-40 36,-38", OCHRE)
    for lean in (-0.05, 0.0, 0.05):
        brush.line([(0.32, -0.45), (0.3 + lean, -0.54)], 0.012, blue)
        brush.dots((0.3 + lean, -0.55), 0.014, lighter(blue))
    brush.body("16,-8 -2,-4 -22,8 0,10 16,5", mix(OCHRE, BROWN, 0.4))
    for k in range(4):
        brush.stroke(
            [(0.1 - 0.06 * k, -0.02), (-0.06 - 0.06 * k, 0.07)], 0.025, 0.01, darker(BROWN, 0.2)
        )
    brush.stroke("30,4 34,-12 29,-28", 0.03, 0.01, lighter(blue, 0.5))
    brush.eye(0.34, -0.42, 0.02)


def flying_bird(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A bird in flight with both wings spread."""
    brush, coat = _Brush(canvas, spot), vary(colours[0], rng)
    wing = mix(coat, colours[1], 0.4)
    for side, shade in ((-1, darker(wing, 0.25)), (1, wing)):
        root = np.array([0.02, -0.02 * side])
        for k in range(6):
            angle = math.radians(-118 + 14 * k) * side
            reach = 0.52 - 0.045 * k
            tip = root + reach * np.array([math.cos(angle), math.sin(angle)]) * (1, 0.95)
            root_k = root - (0.05 * k, 0)
            middle = (root_k + tip) / 2 + (0.06, 0)
            brush.stroke(
                np.stack([root_k, middle, tip]), 0.13, 0.05, mix(shade, darker(shade), k / 9)
            )
    brush.body("40,-6 30,-10 10,-9 -20,-3 -30,2 0,10 28,7 40,2", coat)
    brush.stroke("28,5 0,8 -25,3", 0.05, 0.02, lighter(coat, 0.35))
    for lean in (-0.09, 0.0, 0.09):
        brush.stroke([(-0.22, 0.0), (-0.52, lean + 0.02)], 0.06, 0.05, darker(coat, 0.2 + lean))
    brush.shape("39,-6 50,-1 39,2", darker(OCHRE, 0.2))
    brush.eye(0.33, -0.04, 0.022)


def swan(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A swan or duck, its neck in an S and a wing half raised."""
    brush, coat = _Brush(canvas, spot), vary(colours[0], rng)
    shade, light = darker(coat, 0.3), lighter(coat, 0.45)
    brush.stroke("-30,6 -56,-4", 0.16, 0.04, shade)
    brush.body("30,8 20,-4 -5,-6 -30,0 -42,8 -25,24 5,28 26,20", coat)
    brush.stroke("20,10 34,-4 22,-22 30,-40 36,-38", 0.2, 0.07, coat)
    brush.dots((0.36, -0.39), 0.055, coat)
    brush.shape("40,-42 53,-35 39,-35", mix(OCHRE, RED_OCHRE, 0.5))
    for k in range(5):
        tip = (-0.3 - 0.05 * k, -0.34 + 0.1 * k)
        brush.stroke(
            [(0.14 - 0.05 * k, 0.04 + 0.02 * k), (-0.12, -0.12 + 0.07 * k), tip],
            0.12,
            0.05,
            mix(light, shade, k / 6),
        )
    brush.stroke("24,20 0,25 -24,20", 0.06, 0.02, shade)
    brush.stroke("25,6 32,-6 21,-22", 0.03, 0.015, light)
    for foot in (-0.04, 0.06):
        brush.line(
            [(foot, 0.26), (foot + 0.02, 0.4), (foot + 0.1, 0.41)],
            0.025,
            mix(OCHRE, RED_OCHRE, 0.4),
        )
    brush.eye(0.37, -0.4, 0.018)


def dolphin(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A leaping dolphin with a curled tail."""
    brush, coat = _Brush(canvas, spot), vary(colours[0], rng)
    shade, light = darker(coat, 0.35), lighter(coat, 0.4)
    brush.stroke("-38,-28 -52,-42 -62,-34", 0.08, 0.02, colours[1])
    brush.stroke("-38,-28 -32,-46 -20,-48", 0.08, 0.02, colours[1])
    brush.stroke("-38,-30 -46,-8 -28,16 -2,18", 0.05, 0.2, coat)
    brush.body("50,17 36,2 14,-6 -10,4 -24,16 -10,28 16,28 36,25", coat)
    brush.shape("46,14 63,17 62,21 44,23.5", coat)
    brush.stroke("40,23.5 10,25 -20,20 -38,2", 0.06, 0.03, light)
    brush.stroke("30,2 10,-4 -10,5 -26,12", 0.03, 0.02, shade)
    brush.body("12,-4 -4,-16 -16,-14 -6,2", colours[1])
    brush.body("16,24 6,38 -4,36 4,24", colours[1])
    brush.line("62,19.5 46,19 40,16", 0.012, darker(shade))
    brush.eye(0.38, 0.1, 0.026)


def fish(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A fish as on a market still life."""
    brush, coat = _Brush(canvas, spot), vary(colours[0], rng)
    brush.body("-34,0 -55,-17 -50,0 -55,17", darker(coat, 0.25), steps=4)
    brush.body("2,-17 -14,-24 -20,-10", darker(coat, 0.2), steps=4)
    brush.body("50,1 30,-13 2,-18 -26,-8 -40,0 -26,9 2,17 30,12", coat)
    brush.body("45,5 30,12 2,17 -26,9 0,8 30,5", lighter(coat, 0.45))
    for k in range(5):
        brush.line(arc(0.16 - 0.1 * k, 0, 0.09, -1.0, 1.0, 7), 0.012, darker(coat, 0.3))
    brush.line(arc(0.38, 0.0, 0.12, 2.2, 4.1, 8), 0.016, darker(coat, 0.4))
    brush.stroke("12,5 0,12 -8,10", 0.05, 0.02, colours[1])
    brush.eye(0.37, -0.035, 0.026)


def _beast(brush: _Brush, coat: Colour) -> None:
    """The running body that leopard and deer share."""
    shade, light = darker(coat, 0.3), lighter(coat, 0.4)
    far = darker(coat, 0.22)
    brush.stroke("22,4 40,14 56,10 64,14", 0.11, 0.03, far)
    brush.stroke("-30,2 -42,16 -40,28 -50,36", 0.13, 0.035, far)
    brush.body("34,-10 20,-14 -8,-10 -30,-14 -42,-4 -36,10 -14,6 10,12 30,10", coat)
    brush.stroke("26,4 32,20 46,24 52,30", 0.13, 0.035, coat)
    brush.stroke("-32,0 -30,18 -20,24 -26,36", 0.17, 0.04, coat)
    brush.stroke("26,9 8,10.5 -14,5 -30,10", 0.05, 0.03, shade)
    brush.stroke("28,-10 6,-10 -20,-10 -36,-9", 0.03, 0.02, light)


def leopard(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A leaping leopard."""
    brush, coat = _Brush(canvas, spot), vary(mix(OCHRE, colours[0], 0.2), rng)
    brush.stroke("-38,-6 -56,-12 -60,-30 -72,-34", 0.05, 0.03, darker(coat, 0.15))
    _beast(brush, coat)
    brush.stroke("26,-4 42,-16", 0.2, 0.14, coat)
    brush.body("56,-12 50,-22 40,-25 36,-14 44,-6 54,-8", coat)
    brush.dots([(0.39, -0.24), (0.45, -0.25)], 0.03, darker(coat, 0.3))
    spots = np.stack([rng.uniform(-0.38, 0.36, 34), rng.uniform(-0.1, 0.08, 34)], -1)
    brush.dots(spots, rng.uniform(0.01, 0.021, 34), mix(BURNT, RED_OCHRE, 0.4))
    brush.eye(0.48, -0.17, 0.018)
    brush.dots((0.565, -0.12), 0.015, BLACK)


def deer(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A fleeing deer or goat."""
    brush, coat = _Brush(canvas, spot), vary(mix(BROWN, colours[0], 0.35), rng)
    brush.stroke("-40,-6 -48,-12", 0.06, 0.02, lighter(coat, 0.3))
    _beast(brush, coat)
    brush.stroke("28,-2 38,-20 44,-34", 0.19, 0.08, coat)
    brush.body("62,-30 52,-40 42,-41 40,-32 48,-28", coat)
    for lean in (0.0, 0.07):
        brush.stroke(
            [(0.44, -0.4), (0.38 + lean, -0.52), (0.42 + lean, -0.64)],
            0.028,
            0.012,
            darker(coat, 0.4),
        )
    brush.stroke("40,-39 31,-40", 0.05, 0.015, darker(coat, 0.2))
    brush.stroke("36,-4 44,-20 46,-30", 0.03, 0.02, lighter(coat, 0.4))
    brush.eye(0.48, -0.36, 0.016)


def mask(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A theatre mask, its mouth open."""
    brush, skin = _Brush(canvas, spot), vary(mix(FLESH, colours[0], 0.2), rng)
    hair, shade = vary(mix(BURNT, colours[1], 0.3), rng), darker(skin, 0.3)
    locks = np.linspace(-2.7, -0.44, 11)
    ring = np.stack([0.34 * np.cos(locks), 0.4 * np.sin(locks) + 0.02], -1)
    brush.dots(ring, 0.12, hair)
    brush.dots(np.array([(-0.36, 0.1), (0.36, 0.1), (-0.35, 0.24), (0.35, 0.24)]), 0.1, hair)
    face = [
        (0, -0.34),
        (0.22, -0.26),
        (0.29, 0.0),
        (0.22, 0.26),
        (0.0, 0.42),
        (-0.22, 0.26),
        (-0.29, 0.0),
        (-0.22, -0.26),
    ]
    brush.body(face, skin)
    brush.body("29,0 22,26 0,42 10,28 20,0 20,-24", shade)
    brush.dots(ring * (0.96, 1) + (0, 0.03), 0.05, lighter(hair, 0.25))
    for side in (-1, 1):
        brush.body(
            [
                (side * 0.05, -0.06),
                (side * 0.13, -0.12),
                (side * 0.21, -0.05),
                (side * 0.13, -0.02),
            ],
            IVORY,
        )
        brush.dots((side * 0.13, -0.06), 0.034, BLACK)
        brush.stroke(
            [(side * 0.03, -0.14), (side * 0.14, -0.2), (side * 0.24, -0.12)],
            0.045,
            0.02,
            darker(skin, 0.55),
        )
    brush.stroke("0,-12 2,6 5,10 -3,12", 0.03, 0.025, darker(skin, 0.4))
    brush.body("0,17 13,16 12,28 0,33 -12,28 -13,16", darker(BURNT, 0.5))
    brush.stroke("-14,15 0,17 14,15", 0.035, 0.035, mix(RED_OCHRE, skin, 0.3))
    brush.stroke("-16,-24 -22,0 -18,16", 0.04, 0.02, lighter(skin, 0.4))


def bust(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A head and shoulders turned a little aside, for medallions."""
    brush, skin = _Brush(canvas, spot), vary(FLESH, rng, 10)
    cloth, hair = vary(colours[0], rng), vary(mix(BURNT, BROWN, rng.random()), rng)
    brush.body("-42,50 -38,26 -12,16 14,16 38,27 42,50", cloth)
    for start, stop in (
        ((-0.2, 0.2), (-0.05, 0.5)),
        ((0.02, 0.22), (-0.3, 0.48)),
        ((0.2, 0.2), (0.1, 0.5)),
    ):
        brush.stroke(
            [start, ((start[0] + stop[0]) / 2 + 0.06, 0.36), stop], 0.05, 0.02, darker(cloth, 0.3)
        )
    brush.stroke("-30,26 -24,40 -26,50", 0.04, 0.03, lighter(cloth, 0.4))
    brush.stroke("0,2 -1,24", 0.18, 0.2, darker(skin, 0.2))
    hair_line = [
        (-0.22, 0.0),
        (-0.25, -0.2),
        (-0.12, -0.38),
        (0.08, -0.4),
        (0.22, -0.26),
        (0.22, 0.0),
    ]
    brush.body(hair_line, hair)
    brush.body("0,-30 15,-22 18,-6 13,8 3,15 -8,8 -14,-8 -12,-22", skin)
    brush.body("-12,-20 -14,-6 -8,8 3,15 -2,4 -6,-8", darker(skin, 0.28))
    for x in (-0.03, 0.11):
        brush.stroke(
            [(x - 0.045, -0.1), (x, -0.12), (x + 0.045, -0.1)], 0.025, 0.015, darker(hair, 0.3)
        )
        brush.dots((x, -0.07), 0.024, IVORY)
        brush.dots((x + 0.008, -0.07), 0.016, BLACK)
    brush.stroke("5,-8 7.5,1 4.5,2", 0.022, 0.018, darker(skin, 0.35))
    brush.stroke("0,7.5 5,7 9,7.2", 0.026, 0.02, mix(RED_OCHRE, skin, 0.35))
    brush.stroke("13,-16 15,-4 11,5", 0.03, 0.015, lighter(skin, 0.45))
    curls = np.linspace(-2.9, -0.2, 8)
    rim = np.stack([0.19 * np.cos(curls), -0.12 + 0.2 * np.sin(curls)], -1)
    brush.dots(rim, 0.05, hair)
    brush.dots(rim - (0.01, 0.015), 0.024, lighter(hair, 0.25))
    if rng.random() < 0.45:
        around = np.linspace(-2.8, -0.35, 7)
        base = np.stack([0.2 * np.cos(around), -0.14 + 0.22 * np.sin(around)], -1)
        wreath = spot.place(np.stack([base, base * 1.35 + (0.03, 0.02)], 1))
        canvas.fill(leaves(wreath[:, 0], wreath[:, 1], 0.5), vary(GREEN, rng))


def floating_figure(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A draped figure hovering in the middle of a field, with a veil behind it."""
    brush, skin = _Brush(canvas, spot), vary(FLESH, rng, 9)
    cloth, veil = vary(colours[0], rng), vary(colours[1], rng)
    brush.stroke("20,-12 30,-40 2,-52 -26,-34 -34,-2 -50,16", 0.03, 0.1, veil, 7)
    brush.stroke("27,-30 10,-49 -20,-37 -33,-6", 0.015, 0.025, darker(veil, 0.3), 7)
    brush.stroke("2,-20 16,-20 24,-14", 0.06, 0.035, skin)
    brush.stroke("-6,-20 -18,-10 -30,-6", 0.06, 0.035, darker(skin, 0.1))
    brush.stroke("-2,12 -10,34 -24,50", 0.12, 0.03, darker(skin, 0.15))
    brush.stroke("0,10 5,34 -2,52", 0.12, 0.03, skin)
    brush.body("5,-26 -9,-24 -10,-5 -18,12 -30,34 -12,38 0,34 13,36 10,10 6,-6 8,-20", cloth)
    for x, end in ((-0.07, -0.22), (-0.02, -0.1), (0.03, 0.04)):
        brush.stroke([(x, -0.08), (x - 0.03, 0.12), (end, 0.35)], 0.018, 0.035, darker(cloth, 0.35))
        brush.stroke(
            [(x + 0.03, -0.14), (x + 0.01, 0.1), (end + 0.06, 0.34)],
            0.012,
            0.025,
            lighter(cloth, 0.4),
        )
    brush.stroke("0,-28 1,-22", 0.06, 0.07, skin)
    brush.dots((0.02, -0.34), 0.075, vary(BURNT, rng))
    brush.body("6,-40 9,-34 5,-27 0,-30 0,-38", skin, steps=4)
    brush.dots((0.055, -0.35), 0.011, BLACK)
    attribute = int(rng.integers(3))
    if attribute == 0:
        brush.stroke("24,-14 26,0 20,14", 0.02, 0.02, OCHRE)
        brush.dots((0.26, -0.2), 0.05, OCHRE)
    elif attribute == 1:
        brush.body("20,-16 34,-16 30,-8 24,-8", OCHRE, steps=3)
        brush.dots([(0.24, -0.18), (0.28, -0.19), (0.31, -0.17)], 0.025, RED_OCHRE)
    else:
        brush.line("26,-44 18,30", 0.018, BROWN)
        brush.dots((0.265, -0.46), 0.04, GREEN)


def vase(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A two-handled vessel, of metal or glass."""
    brush, clay = _Brush(canvas, spot), vary(colours[0], rng)
    slender = rng.uniform(0.75, 1.2)
    profile = np.array(
        [
            (0.24, -0.46),
            (0.17, -0.38),
            (0.13, -0.24),
            (0.3, -0.04),
            (0.26, 0.18),
            (0.08, 0.34),
            (0.17, 0.46),
        ]
    ) * (slender, 1)
    right = spline(profile, steps=5)
    for side in (-1, 1):
        handle = [
            (side * 0.15 * slender, -0.34),
            (side * 0.44 * slender, -0.38),
            (side * 0.4 * slender, -0.12),
            (side * 0.27 * slender, -0.02),
        ]
        brush.stroke(handle, 0.045, 0.035, darker(clay, 0.2))
    brush.shape(np.vstack([right, (right * (-1, 1))[::-1]]), clay)
    brush.shape(np.vstack([right, (right * (0.3, 1))[::-1]]), darker(clay, 0.28))
    brush.stroke((right * (-0.6, 1))[6:26:4], 0.03, 0.02, lighter(clay, 0.5))
    brush.body(
        arc(0, -0.46, 0.23, points=12)[:-1] * (slender, 0.16) + (0, -0.386),
        darker(clay, 0.45),
        steps=2,
    )
    band = spline([(-0.27 * slender, -0.06), (0, -0.01), (0.27 * slender, -0.06)])
    brush.line(band, 0.03, colours[1])
    if rng.random() < 0.55:
        base = np.stack([rng.uniform(-0.12, 0.12, 9), np.full(9, -0.45)], -1)
        tips = base + np.stack([rng.uniform(-0.3, 0.3, 9), rng.uniform(-0.36, -0.16, 9)], -1)
        canvas.fill(leaves(spot.place(base), spot.place(tips), 0.3), vary(GREEN, rng))
        brush.dots(tips[::2], 0.045, colours[2])


def fruit(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A heap of figs, pomegranates and grapes, or a basket of them."""
    brush = _Brush(canvas, spot)
    kinds = (RED_OCHRE, OCHRE, mix(GREEN, OCHRE, 0.4), ROSE)
    centres = [(-0.24, 0.0), (0.22, 0.02), (0.0, -0.06), (-0.12, -0.2), (0.12, -0.2), (0.0, -0.33)]
    base = np.array([(-0.1, -0.05)] * 4)
    tips = np.array([(-0.5, -0.2), (-0.42, -0.34), (0.46, -0.26), (0.5, -0.08)])
    canvas.fill(leaves(spot.place(base), spot.place(tips), 0.34), vary(GREEN, rng))
    for centre in centres:
        colour = vary(kinds[int(rng.integers(4))], rng)
        x, y = centre
        brush.dots(centre, 0.14, darker(colour, 0.3))
        brush.dots((x - 0.015, y - 0.02), 0.12, colour)
        brush.dots((x - 0.05, y - 0.06), 0.04, lighter(colour, 0.5))
    grapes = np.stack([0.34 + rng.uniform(-0.1, 0.1, 12), 0.1 + rng.uniform(-0.12, 0.14, 12)], -1)
    brush.dots(grapes, 0.05, darker(colours[1], 0.35))
    brush.dots(grapes - 0.012, 0.022, lighter(colours[1], 0.2))
    basket = vary(mix(OCHRE, BROWN, 0.5), rng)
    brush.body("-42,8 0,12 42,8 30,42 0,46 -30,42", basket)
    for v in (0.18, 0.27, 0.36):
        half = 0.4 - 0.3 * (v - 0.08)
        brush.line(spline([(-half, v), (0, v + 0.04), (half, v)]), 0.02, darker(basket, 0.35))
    for u in np.linspace(-0.3, 0.3, 6):
        brush.line([(u * 1.2, 0.11), (u * 0.95, 0.44)], 0.015, darker(basket, 0.2))


def landscape(canvas: Canvas, box: Box, colours: Colours, rng: Rng) -> None:
    """A sacred landscape in quick strokes: water, rocks, a shrine, a tree, small people."""
    inside = canvas.window(box)
    sky, earth = mix(SKY, colours[0], 0.08), mix(SAGE, OCHRE, rng.uniform(0.1, 0.7))
    horizon = rng.uniform(0.42, 0.6)
    inside.wash(
        Box(box.x0, box.y0, box.x1, box.y0 + horizon * box.height), (sky, lighter(sky, 0.45))
    )
    inside.wash(
        Box(box.x0, box.y0 + horizon * box.height, box.x1, box.y1),
        (lighter(earth, 0.3), earth, darker(earth, 0.25)),
    )
    size = min(box.width, box.height)

    def stroke(points: Any, start: float, stop: float, colour: Colour) -> None:
        path = box.at(*np.asarray(points, float).T)
        path = spline(path, steps=4)
        inside.brush(path, np.linspace(start, stop, len(path)) * size, colour)

    u = np.linspace(-0.05, 1.05, 9)
    for lift, colour in ((0.16, mix(sky, BLUE, 0.25)), (0.08, mix(earth, GREY, 0.5))):
        ridge = horizon - lift * rng.uniform(0.2, 1.2, 9)
        hill = np.vstack([box.at(u, ridge), box.at(np.array([1.1, -0.1]), horizon + 0.01)])
        inside.fill(np.vstack([spline(hill[:9], steps=4), hill[9:]]), colour)
    water = horizon + rng.uniform(0.14, 0.3)
    for k in range(5):
        v = water + 0.03 * k + rng.uniform(-0.01, 0.01)
        a, b = sorted(rng.uniform(0, 1, 2))
        stroke(
            [(a, v), ((a + b) / 2, v + 0.008), (b, v)], 0.02, 0.012, mix(BLUE, SKY, rng.random())
        )
    shrine = rng.uniform(0.18, 0.4)
    _shrine(inside, box.at(shrine, horizon + 0.1), 0.34 * size, colours, rng)
    tree = rng.uniform(0.6, 0.85)
    foot = horizon + rng.uniform(0.16, 0.3)
    lean = rng.uniform(-0.1, 0.1)
    stroke(
        [(tree, foot), (tree + 0.3 * lean, foot - 0.22), (tree + lean, foot - 0.42)],
        0.045,
        0.02,
        darker(BROWN, 0.2),
    )
    crown = box.at(tree + lean, foot - 0.46) + rng.normal(0, 1, (26, 2)) * (
        0.11 * size,
        0.065 * size,
    )
    for part, shade in (
        (crown[:14], darker(OLIVE, 0.35)),
        (crown[14:20], OLIVE),
        (crown[20:], lighter(OLIVE, 0.3)),
    ):
        inside.dots(part, rng.uniform(0.03, 0.06, len(part)) * size, shade)
    for _ in range(int(rng.integers(2, 5))):
        at = box.at(rng.uniform(0.15, 0.9), horizon + rng.uniform(0.16, 0.36))
        tall = rng.uniform(0.1, 0.16) * size
        cloth = vary(colours[int(rng.integers(3))], rng, 12)
        inside.brush(
            at + np.array([(0, 0), (0.06 * tall, -0.7 * tall)]), np.array([0.36, 0.2]) * tall, cloth
        )
        inside.dots(at + np.array([0.06 * tall, -0.82 * tall]), 0.13 * tall, FLESH)
        inside.brush(
            at + np.array([(0, 0.02 * tall), (0.8 * tall, 0.1 * tall)]),
            np.array([0.1, 0.02]) * tall,
            darker(earth, 0.4),
        )


def _shrine(canvas: Canvas, foot: Floats, size: float, colours: Colours, rng: Rng) -> None:
    wall, roof = lighter(mix(IVORY, ROSE, rng.random()), 0.1), vary(RED_OCHRE, rng)
    x, y = foot
    canvas.rectangle(Box(x - 0.42 * size, y - 0.06 * size, x + 0.46 * size, y), darker(wall, 0.25))
    canvas.rectangle(
        Box(x - 0.36 * size, y - 0.6 * size, x + 0.36 * size, y - 0.06 * size), darker(wall, 0.45)
    )
    for at in (-0.34, -0.12, 0.12, 0.34):
        left = x + at * size
        canvas.rectangle(
            Box(left - 0.045 * size, y - 0.6 * size, left + 0.045 * size, y - 0.06 * size), wall
        )
    gable = np.array([(-0.46, -0.6), (0.0, -0.9), (0.46, -0.6)]) * size + foot
    canvas.fill(gable, roof)
    canvas.fill(gable * (1, 1) * 0.6 + 0.4 * np.array([x, y - 0.66 * size]), wall)
    canvas.line(gable, 0.05 * size, lighter(wall, 0.2), closed=True)
