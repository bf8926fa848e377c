"""Compositions: what is painted where on a wall or ceiling, style by style.

A layout is pure data, in mm: a list of `Element`s in the order of painting. It knows nothing of
pixels, so that a wall looks the same at any resolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from reassembly.synthetic.paint.canvas import Box, Colour, Place, Ring, Run, Spot
from reassembly.synthetic.paint.palettes import (
    BLACK,
    BLUE,
    BROWN,
    BURNT,
    CREAM,
    GOLD,
    GREEN,
    GREY,
    HAEMATITE,
    IVORY,
    LIME,
    OCHRE,
    OLIVE,
    RED_OCHRE,
    ROSE,
    SAGE,
    SKY,
    Scheme,
    darker,
    legible,
    lighter,
    mix,
    vary,
)

__all__ = ["LAYOUTS", "Element", "Wall"]

Rng = np.random.Generator

LACE = ("arches", "lozenges", "hearts", "circles", "palmettes")
BORDERS = ("meander", "wave", "guilloche", "tendril", "laurel", "egg_and_dart", *LACE)
BEASTS = ("bird", "bird", "flying_bird", "swan", "peacock", "dolphin", "leopard", "deer", "fish")
THINGS = ("vase", "fruit", "mask", "rosette", "star_flower")
FLOWERS = ("rosette", "star_flower")


@dataclass(frozen=True)
class Element:
    """One thing to paint."""

    name: str
    """Of the function that paints it."""
    place: Place
    colours: tuple[Colour, ...]
    over: bool
    """Whether it was painted on the dry field, so that it flakes off before the field does."""


@dataclass
class Wall:
    """A wall being laid out.

    Args:
        box: the whole wall in mm, of which the picture may show only a part.
        scale: 1 for a picture some 200 mm wide, more for a larger one: sizes that follow the
            picture are multiplied by it.
    """

    box: Box
    scale: float
    scheme: Scheme
    rng: Rng
    elements: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.flower, self.lace = self.pick(FLOWERS), self.pick(LACE)

    def add(self, name: str, place: Place, *colours: Colour, over: bool = True) -> None:
        """Paint one thing on top of what is there."""
        self.elements.append(Element(name, place, colours, over))

    def fill(self, box: Box, colour: Colour) -> None:
        """A field of even colour, part of the wet plaster."""
        self.add("field", box, vary(colour, self.rng, 4), over=False)

    def mm(self, low: float, high: float) -> float:
        """A random length for a picture of this scale."""
        return float(self.rng.uniform(low, high)) * self.scale

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, names: Sequence[str]) -> str:
        return names[int(self.rng.integers(len(names)))]

    def frame(self, box: Box, width: float, name: str, *colours: Colour) -> None:
        """A band or border along the inside of a box, with its corners."""
        if name == "double_line":
            self.frame(box, 0.5 * width, "line", colours[0])
            self.frame(box.inset(0.8 * width), 0.2 * width, "line", colours[1])
            return
        half, reach = width / 2, 0.0 if name == "line" else width
        for side in (
            Run(box.x0 + reach, box.y0 + half, box.x1 - reach, box.y0 + half, width),
            Run(box.x1 - half, box.y0 + reach, box.x1 - half, box.y1 - reach, width),
            Run(box.x1 - reach, box.y1 - half, box.x0 + reach, box.y1 - half, width),
            Run(box.x0 + half, box.y1 - reach, box.x0 + half, box.y0 + reach, width),
        ):
            if side.length > width:
                self.add(name, side, *colours)
        if name != "line":
            for x, y in box.inset(half).corners().tolist():
                self.add(self.flower, Spot(x, y, 0.8 * width), colours[1], colours[0], colours[2])

    def strip(self, box: Box, name: str, colours: tuple[Colour, Colour, Colour]) -> None:
        """A horizontal border across the wall on a ground of its own."""
        ground, ink, accent = colours
        self.fill(box, ground)
        edge = max(0.07 * box.height, 0.9)
        y = box.centre[1]
        self.add(name, Run(box.x0, y, box.x1, y, 0.8 * box.height), ink, accent, lighter(ink, 0.35))
        for y in (box.y0 + edge / 2, box.y1 - edge / 2):
            self.add("line", Run(box.x0, y, box.x1, y, edge), ink)

    def columns(self, box: Box, low_mm: float, high_mm: float, gap: float = 0.0) -> list[Box]:
        """The box divided into a row of fields of about the given width, none very slender."""
        wanted = max(self.mm(low_mm, high_mm), 0.5 * box.height)
        count = max(1, math.floor(box.width / wanted + 0.3))
        width = (box.width - gap * (count - 1)) / count
        lefts = box.x0 + np.arange(count) * (width + gap)
        return [Box(float(x), box.y0, float(x) + width, box.y1) for x in lefts]

    def motif(
        self, x: float, y: float, room: float, names: Sequence[str] = BEASTS + THINGS
    ) -> None:
        """A small figure in the middle of a free place of the given diameter."""
        name = self.pick(names)
        size = float(np.clip(room * self.rng.uniform(0.62, 0.9), 8.0, 130.0))
        if name in FLOWERS:
            size *= 0.6
        first, second, third = self.scheme.motifs
        choice = ((first, second, third), (second, first, third), (third, first, second))
        colours = choice[int(self.rng.integers(3))]
        self.add(
            name, Spot(x, y, size, float(self.rng.normal(0, 0.04)), self.chance(0.5)), *colours
        )

    def medallion(self, x: float, y: float, size: float) -> None:
        """A round picture with something in it."""
        ground = (SKY, mix(BLUE, SKY, 0.4), LIME, HAEMATITE, OCHRE, BLACK)[
            int(self.rng.integers(6))
        ]
        frame = OCHRE if ground != OCHRE else RED_OCHRE
        self.add(
            "medallion", Spot(x, y, size), vary(ground, self.rng), frame, self.scheme.border[1]
        )
        inside = self.pick(("bust", "bust", "bird", "mask", "swan", "fruit"))
        cloth = (RED_OCHRE, GREEN, ROSE, IVORY, OCHRE)[int(self.rng.integers(5))]
        lift = -0.02 if inside == "bust" else 0.0
        share = 0.74 if inside == "bust" else 0.6
        self.add(
            inside,
            Spot(x, y + lift * size, share * size, 0.0, self.chance(0.5)),
            cloth,
            IVORY,
            OCHRE,
        )

    def picture(self, box: Box) -> None:
        """A framed panel picture: a landscape, a still life or a figure."""
        ground = (SKY, CREAM, SAGE, IVORY)[int(self.rng.integers(4))]
        self.add("pinax", box, ground, OCHRE if self.chance(0.5) else RED_OCHRE, BLACK)
        inside = box.inset(0.09 * min(box.width, box.height))
        if self.chance(0.55):
            self.add("landscape", inside, RED_OCHRE, BLUE, IVORY)
            return
        name = self.pick(("bird", "fruit", "vase", "fish", "floating_figure", "peacock"))
        size = 0.72 * min(inside.width, inside.height)
        shelf = Box(inside.x0, inside.y0 + 0.72 * inside.height, inside.x1, inside.y1)
        self.add("field", shelf, darker(mix(ground, BROWN, 0.3), 0.1))
        x, y = inside.centre
        self.add(
            name,
            Spot(x, y + 0.05 * inside.height, size, 0.0, self.chance(0.5)),
            RED_OCHRE,
            BLUE,
            OCHRE,
        )

    def scatter(self, box: Box, pitch: float, names: Sequence[str] = ("sprig",)) -> None:
        """Small plants or flowers strewn over a field, in a loose grid."""
        columns, rows = (max(1, round(extent / pitch)) for extent in (box.width, box.height))
        for row in range(rows):
            for column in range(columns):
                x = box.x0 + (column + 0.5 + 0.25 * (-1) ** row) * box.width / (columns + 0.25)
                y = box.y0 + (row + 0.5) * box.height / rows
                dx, dy = self.rng.normal(0, 0.06 * pitch, 2)
                first, second, third = self.scheme.motifs
                spot = Spot(x + dx, y + dy, 0.42 * pitch, float(self.rng.uniform(-0.5, 0.5)))
                self.add(
                    self.pick(names), spot, GREEN if self.chance(0.5) else first, second, third
                )

    def corners(self, box: Box, size: float, inwards: bool = True) -> None:
        """Scrolls in the four corners of a frame."""
        for k, (x, y) in enumerate(box.corners().tolist()):
            angle = math.pi / 4 + k * math.pi / 2 + (0 if inwards else math.pi)
            self.add("corner_tuft", Spot(x, y, size, angle), *self.scheme.motifs)

    def swag(self, box: Box) -> None:
        """A garland across the top of a field."""
        leaf = mix(mix(GREEN, OLIVE, self.rng.random()), self.scheme.motifs[2], 0.25)
        self.add("garland", box, leaf, self.scheme.motifs[0], self.scheme.motifs[1])

    def flank(self, box: Box) -> None:
        """A slender thing on either side of the middle of a broad field."""
        name = self.pick(("candelabrum", "candelabrum", "tendril", "sprig", "vase", "bird"))
        room = min(0.2 * box.width, 0.7 * box.height)
        for u in (0.12, 0.88):
            x, y = box.at(u, 0.5).tolist()
            half = min(0.5 * room, 11.0 * self.scale)
            if name == "candelabrum":
                stand = Box(
                    x - half, box.y0 + 0.06 * box.height, x + half, box.y1 - 0.06 * box.height
                )
                self.add(name, stand, *self.scheme.motifs)
            elif name == "tendril":
                run = Run(x, box.y1 - 0.1 * box.height, x, box.y0 + 0.1 * box.height, 1.5 * half)
                self.add(name, run, *self.scheme.motifs)
            else:
                self.add(name, Spot(x, y, room, 0.0, u > 0.5), *self.scheme.motifs)

    def dado(self, box: Box) -> None:
        """The foot of the wall: stone, plants or plain panels, closed above by lines."""
        colour, line = self.scheme.dado, self.scheme.line
        kind = int(self.rng.integers(4))
        if kind == 0:
            for part in self.columns(box, 60, 120):
                self.add("marble", part, colour, self.scheme.border[2], over=False)
        else:
            self.fill(box, colour)
        light = lighter(colour, 0.45)
        if kind == 1:
            self.add(
                "plants",
                Box(box.x0, box.y0 + 0.25 * box.height, box.x1, box.y1),
                mix(GREEN, OLIVE, 0.4),
                ROSE,
            )
        elif kind == 2:
            for part in self.columns(box, 70, 130):
                self.frame(part.inset(0.12 * box.height), max(0.05 * box.height, 1), "line", light)
                x, y = part.centre
                self.motif(x, y, 0.7 * box.height, (self.flower, "dolphin", "swan", "sprig"))
        elif kind == 3 and box.height > 14:
            self.add("scale_pattern", box.inset(0, 0.12 * box.height), light, self.scheme.border[1])
        width = float(np.clip(0.12 * box.height, 2.0, 12.0))
        band = Run(box.x0, box.y0 + width / 2, box.x1, box.y0 + width / 2, width)
        self.add("double_line", band, line, lighter(line, 0.5))


def linear(wall: Wall) -> None:
    """A white wall divided by red lines, with a small motif in each field."""
    box, scheme, rng = wall.box, wall.scheme, wall.rng
    wall.fill(box, scheme.field)
    main = box
    if wall.chance(0.6):
        main = Box(box.x0, box.y0, box.x1, box.y1 - wall.mm(26, 48))
        wall.dado(Box(box.x0, main.y1, box.x1, box.y1))
    if wall.chance(0.55):
        height = wall.mm(14, 24)
        strip = Box(main.x0, main.y0, main.x1, main.y0 + height)
        wall.strip(strip, wall.pick(BORDERS), scheme.border)
        main = replace(main, y0=strip.y1)
    band = wall.mm(4, 8)
    gap = wall.mm(5, 9)
    hem = wall.pick((wall.lace, "ribbon", "ribbon", "tendril")) if wall.chance(0.4) else ""
    twin, tufts, garlands = wall.chance(0.5), wall.chance(0.4), wall.chance(0.35)
    accent = scheme.motifs[int(rng.integers(2))]
    for part in wall.columns(main, 95, 190):
        wall.frame(part.inset(-0.12 * band), band, "line", scheme.line)
        inner = part.inset(band + gap)
        short = min(inner.width, inner.height)
        if hem and short > 45 * wall.scale:
            width = min(wall.mm(13, 19), 0.16 * short)
            wall.frame(inner, width, hem, *scheme.motifs)
            inner = inner.inset(1.15 * width)
        else:
            line = wall.mm(1.3, 2.6)
            wall.frame(inner, line, "line", accent)
            for x, y in inner.inset(line / 2).corners().tolist():
                wall.add("disc", Spot(x, y, 3.2 * line), scheme.line)
            if twin:
                inner = inner.inset(wall.mm(4, 6))
                wall.frame(inner, 0.6 * line, "line", scheme.line)
            if tufts:
                wall.corners(inner, min(0.2 * short, 30.0))
        _fill_field(wall, inner.inset(0.04 * short), garlands)


def _fill_field(wall: Wall, box: Box, garland: bool) -> None:
    """Something to look at in an otherwise empty field."""
    x, y = box.centre
    room = min(box.width, box.height)
    if garland:
        wall.swag(replace(box.inset(0.06 * box.width, 0), y1=box.y0 + 0.24 * room))
        y += 0.08 * box.height
    kind = wall.rng.random()
    if kind < 0.25:
        wall.scatter(box.inset(0.02 * room), max(0.27 * room, 16.0), ("sprig", wall.flower))
        return
    if kind < 0.45:
        wall.medallion(x, y, 0.56 * room)
    else:
        wall.motif(x, y, 0.72 * room)
    small = (wall.flower, "sprig", "flying_bird", "bird")
    if box.height > 1.6 * box.width:
        for side in (-1, 1):
            wall.motif(x, y + side * 0.36 * box.height, 0.5 * room, small)
    elif box.width > 1.6 * box.height:
        wall.flank(box)
    else:
        corner = wall.pick(small)
        for u, v in ((0.14, 0.16), (0.86, 0.16), (0.14, 0.86), (0.86, 0.86)):
            if v > 0.5 or not garland:
                px, py = box.at(u, v).tolist()
                wall.motif(px, py, 0.26 * room, (corner,))


def ceiling(wall: Wall) -> None:
    """A ceiling: squares and circles in a net, coffers, or rings around a centre."""
    wall.fill(wall.box, wall.scheme.field)
    kind = wall.rng.random()
    if kind < 0.42:
        _square_net(wall)
    elif kind < 0.62:
        _circle_net(wall)
    elif kind < 0.74:
        _lozenge_net(wall)
    elif kind < 0.86:
        _coffers(wall)
    else:
        _rings(wall)


def _grid(
    wall: Wall, low_mm: float, high_mm: float
) -> tuple[float, list[tuple[int, int, float, float]]]:
    """The pitch of a square net laid over the wall, and its cells: column, row and centre."""
    box = wall.box
    columns = max(1, round(box.width / wall.mm(low_mm, high_mm)))
    pitch = box.width / columns
    rows = max(1, math.ceil(box.height / pitch - 0.15))
    top = box.centre[1] - rows * pitch / 2
    cells = [
        (i, j, box.x0 + (i + 0.5) * pitch, top + (j + 0.5) * pitch)
        for j in range(rows)
        for i in range(columns)
    ]
    return pitch, cells


def _square_net(wall: Wall) -> None:
    """Squares with a circle in each; ribbons run between them and cross under rosettes."""
    scheme, rng = wall.scheme, wall.rng
    first, second, third = scheme.motifs
    pitch, cells = _grid(wall, 105, 160)
    half, line = 0.36 * pitch, float(np.clip(0.028 * pitch, 2.2, 6.0))
    lane = wall.pick(("ribbon", "ribbon", "ribbon", "tendril", "laurel", wall.lace))
    circles, dots, twin = wall.chance(0.7), wall.chance(0.7), wall.chance(0.3)
    for i, j, x, y in cells:
        square = Box(x - half, y - half, x + half, y + half)
        if (i + j) % 2 and scheme.second != scheme.field and twin:
            wall.fill(square, scheme.second)
        wall.frame(square, line, "line", scheme.line)
        if dots:
            for cx, cy in square.corners().tolist():
                wall.add("disc", Spot(cx, cy, 2.4 * line), scheme.line)
        radius = 0.8 * half
        if circles:
            wall.add("line", Ring(x, y, radius, 0.9 * line), third)
            for u, v in ((0.11, 0.11), (0.89, 0.11), (0.11, 0.89), (0.89, 0.89)):
                cx, cy = square.at(u, v).tolist()
                wall.add(wall.flower, Spot(cx, cy, 0.16 * pitch), second, first, scheme.field)
        elif wall.chance(0.5):
            wall.frame(square.inset(2.5 * line), 0.6 * line, "line", second)
        if (i + j) % 2 and wall.chance(0.3):
            wall.add(wall.flower, Spot(x, y, 0.9 * half), first, second, third)
        else:
            wall.motif(
                x, y, 1.7 * radius if circles else 1.7 * half, (*BEASTS, "vase", "fruit", "mask")
            )
    reach, width = 0.5 * pitch - 0.1 * pitch, 0.15 * pitch
    for i, j, x, y in cells:
        for run in (
            Run(x - reach, y - pitch / 2, x + reach, y - pitch / 2, width),
            Run(x - pitch / 2, y - reach, x - pitch / 2, y + reach, width),
        ):
            wall.add(lane, run, first, third if lane != "ribbon" else first, second)
        flower = second if (i + j + int(rng.integers(2))) % 2 else first
        wall.add(
            wall.flower,
            Spot(x - pitch / 2, y - pitch / 2, 0.19 * pitch),
            flower,
            first,
            scheme.field,
        )


def _circle_net(wall: Wall) -> None:
    """Touching circles, ringed with an ornament, and stars in the gaps between them."""
    scheme = wall.scheme
    first, second, third = scheme.motifs
    pitch, cells = _grid(wall, 90, 140)
    ring = wall.pick(("wave", "guilloche", "laurel", wall.lace, "line", "egg_and_dart", "meander"))
    fillings = wall.chance(0.5)
    width = 0.11 * pitch
    for i, j, x, y in cells:
        if fillings and (i + j) % 2:
            wall.add("disc", Spot(x, y, 0.92 * pitch), vary(scheme.second, wall.rng), over=False)
        wall.add("line", Ring(x, y, 0.47 * pitch, 0.02 * pitch), scheme.line)
        wall.add(ring, Ring(x, y, 0.47 * pitch - 0.8 * width, width), first, third, second)
        wall.add("line", Ring(x, y, 0.47 * pitch - 1.6 * width, 0.015 * pitch), scheme.line)
        if (i + j) % 2:
            wall.motif(x, y, 0.55 * pitch)
        elif wall.chance(0.5):
            wall.medallion(x, y, 0.46 * pitch)
        else:
            wall.add(wall.flower, Spot(x, y, 0.42 * pitch), second, first, third)
        corner = Spot(x - pitch / 2, y - pitch / 2, 0.26 * pitch, math.pi / 8)
        wall.add(wall.flower, corner, first if (i + j) % 3 else second, second, scheme.field)


def _lozenge_net(wall: Wall) -> None:
    """A net of slanting lines with flowers, like a hanging."""
    scheme = wall.scheme
    first, second, third = scheme.motifs
    pitch, cells = _grid(wall, 62, 95)
    width = float(np.clip(0.045 * pitch, 2.0, 7.0))
    beaded = wall.chance(0.5)
    for i, j, x, y in cells:
        corners = [(x, y - pitch / 2), (x + pitch / 2, y), (x, y + pitch / 2), (x - pitch / 2, y)]
        for a, b in zip(corners, corners[1:] + corners[:1], strict=True):
            if beaded:
                wall.add("bead_and_reel", Run(*a, *b, 1.5 * width), scheme.line, second)
            else:
                wall.add("double_line", Run(*a, *b, 1.4 * width), scheme.line, third)
        wall.add(wall.flower, Spot(*corners[0], 0.24 * pitch), second, first, third)
        wall.add(wall.flower, Spot(*corners[3], 0.24 * pitch), second, first, third)
        if (i + j) % 2:
            wall.motif(x, y, 0.62 * pitch)
        else:
            wall.add("sprig", Spot(x, y, 0.44 * pitch), third, first, second)
        wall.motif(
            x + pitch / 2,
            y + pitch / 2,
            0.56 * pitch,
            ("bird", "flying_bird", "sprig", "mask", wall.flower, "vase"),
        )


def _coffers(wall: Wall) -> None:
    """Painted coffers with rosettes, and borders on the beams between them."""
    scheme = wall.scheme
    first, second, third = scheme.motifs
    pitch, cells = _grid(wall, 70, 120)
    beam = wall.pick(("guilloche", "meander", "bead_and_reel", wall.lace))
    tones = (scheme.second, scheme.border[1], mix(scheme.field, OCHRE, 0.5))
    for i, j, x, y in cells:
        half = 0.39 * pitch
        outer = tones[0] if (i + j) % 2 else tones[2]
        middle = vary((BLUE, RED_OCHRE, HAEMATITE, IVORY)[int(wall.rng.integers(4))], wall.rng)
        wall.add(
            "coffer",
            Box(x - half, y - half, x + half, y + half),
            vary(outer, wall.rng),
            tones[1],
            middle,
            over=False,
        )
        light = lighter(middle, 0.6) if sum(middle) < 420 else first
        wall.add(
            wall.pick((wall.flower, wall.flower, "mask", "flying_bird")),
            Spot(x, y, 0.36 * pitch),
            light,
            second,
            third,
        )
        width = 0.14 * pitch
        for run in (
            Run(x - half, y - pitch / 2, x + half, y - pitch / 2, width),
            Run(x - pitch / 2, y - half, x - pitch / 2, y + half, width),
        ):
            wall.add(beam, run, first, lighter(second, 0.3), third)
        wall.add(
            wall.flower, Spot(x - pitch / 2, y - pitch / 2, 0.16 * pitch), third, first, second
        )


def _rings(wall: Wall) -> None:
    """Roundels: rings of ornament around a medallion, with figures in the corners."""
    box = wall.box
    edge = wall.mm(4, 8)
    wall.frame(box.inset(edge), wall.mm(3, 6), "line", wall.scheme.line)
    across, down = (
        max(1, round(a / b)) for a, b in ((box.width, box.height), (box.height, box.width))
    )
    u, v = np.meshgrid(np.linspace(0, 1, across + 1), np.linspace(0, 1, down + 1))
    corners = box.at(u, v)
    choice = ["meander", "wave", "guilloche", wall.lace, "laurel", "tendril", "egg_and_dart"]
    names = wall.rng.permutation(choice).tolist()
    for (x0, y0), (x1, y1) in zip(
        corners[:-1, :-1].reshape(-1, 2).tolist(),
        corners[1:, 1:].reshape(-1, 2).tolist(),
        strict=True,
    ):
        _roundel(wall, Box(x0, y0, x1, y1).inset(edge), names)


def _roundel(wall: Wall, box: Box, names: Sequence[str]) -> None:
    scheme = wall.scheme
    first, second, third = scheme.motifs
    x, y = box.centre
    outer = radius = 0.48 * min(box.width, box.height)
    for k, name in enumerate(names):
        width = outer * float(wall.rng.uniform(0.1, 0.16))
        if radius - 1.3 * width < 0.42 * outer:
            break
        if k % 2 and scheme.second != scheme.field:
            for size, ground in ((radius, scheme.second), (radius - 1.25 * width, scheme.field)):
                wall.add("disc", Spot(x, y, 2 * size), vary(ground, wall.rng, 4), over=False)
        wall.add("line", Ring(x, y, radius, 0.02 * outer), scheme.line)
        wall.add(name, Ring(x, y, radius - 0.65 * width, width), first, third, second)
        radius -= 1.3 * width
    wall.add("line", Ring(x, y, radius, 0.02 * outer), scheme.line)
    for k in range(8):
        angle = k * math.pi / 4
        px, py = x + 0.76 * radius * math.cos(angle), y + 0.76 * radius * math.sin(angle)
        name = "sprig" if k % 2 else wall.flower
        wall.add(name, Spot(px, py, 0.26 * radius, angle + math.pi / 2), third, second, first)
    wall.medallion(x, y, 1.05 * radius)
    for u, v in ((0.11, 0.11), (0.89, 0.11), (0.11, 0.89), (0.89, 0.89)):
        px, py = box.at(u, v).tolist()
        wall.motif(px, py, 0.42 * outer, ("peacock", "bird", "vase", "dolphin", "mask", "swan"))


def first(wall: Wall) -> None:
    """Courses of stucco blocks that imitate stone."""
    box, scheme = wall.box, wall.scheme
    stones = [
        scheme.field,
        scheme.second,
        mix(scheme.field, IVORY, 0.6),
        scheme.border[2],
        mix(GREY, CREAM, 0.6),
        HAEMATITE,
        SAGE,
    ]
    y = box.y1
    foot = wall.mm(24, 44)
    wall.add(
        "marble",
        Box(box.x0, y - foot, box.x1, y),
        scheme.dado,
        lighter(scheme.dado, 0.3),
        over=False,
    )
    y -= foot
    row = 0
    cornice_at = int(wall.rng.integers(1, 4))
    while y > box.y0:
        tall = row == 0
        height = wall.mm(56, 80) if tall else wall.mm(22, 42)
        width = wall.mm(50, 100) if tall else wall.mm(60, 110)
        if row == cornice_at:
            ledge = wall.mm(11, 18)
            wall.add(
                "cornice",
                Box(box.x0, y - ledge, box.x1, y),
                vary(lighter(scheme.field, 0.4), wall.rng),
                over=False,
            )
            y -= ledge
            if wall.chance(0.6):
                strip = wall.mm(13, 20)
                wall.strip(
                    Box(box.x0, y - strip, box.x1, y),
                    wall.pick(("meander", "egg_and_dart", "wave", "guilloche")),
                    scheme.border,
                )
                y -= strip
        plain = stones[int(wall.rng.integers(len(stones)))]
        x = box.x0 - width * (0.5 if row % 2 else 0.0)
        while x < box.x1:
            stone = stones[int(wall.rng.integers(len(stones)))] if wall.chance(0.75) else plain
            other = stones[int(wall.rng.integers(len(stones)))]
            wall.add(
                "block", Box(x, y - height, x + width, y), vary(stone, wall.rng), other, over=False
            )
            x += width
        y -= height
        row += 1


def second(wall: Wall) -> None:
    """Columns in front of a panelled wall, with cornices, swags and a glimpse of sky."""
    box, scheme, rng = wall.box, wall.scheme, wall.rng
    stone = vary(
        (CREAM, IVORY, mix(CREAM, ROSE, 0.4), mix(SAGE, IVORY, 0.5))[int(rng.integers(4))], rng
    )
    podium, ledge = wall.mm(30, 46), wall.mm(9, 14)
    upper = wall.mm(36, 58)
    main = Box(box.x0, box.y0 + upper, box.x1, box.y1 - podium)
    bays = wall.columns(main, 70, 130)
    sky = wall.chance(0.55)
    top = Box(box.x0, box.y0, box.x1, main.y0)
    if sky:
        wall.add(
            "landscape",
            Box(top.x0, top.y0, top.x1, top.y1 + 0.3 * upper),
            SKY,
            IVORY,
            ROSE,
            over=False,
        )
    else:
        wall.fill(top, scheme.second)
    split = main.y0 + (0.3 * upper if sky else 0.0)
    for k, bay in enumerate(bays):
        panel = replace(bay, y0=split)
        wall.fill(panel, scheme.field if k % 2 == 0 else scheme.second)
        slab = panel.inset(0.14 * bay.width, 0.1 * panel.height)
        wall.add(
            "block",
            slab,
            vary(scheme.border[0] if k % 2 else scheme.second, rng),
            scheme.border[1],
            over=False,
        )
        if wall.chance(0.5):
            x, y = slab.centre
            wall.motif(
                x,
                y,
                0.6 * min(slab.width, slab.height),
                ("mask", "vase", "bird", "peacock", "fruit", "bust"),
            )
        strip = Box(bay.x0, split, bay.x1, split + wall.mm(9, 14))
        wall.strip(
            strip,
            wall.pick(("meander", "tendril", "wave", "guilloche")) if k == 0 else _strip_name(wall),
            scheme.border,
        )
    if not sky:
        band = top.inset(0, 0.2 * upper)
        wall.strip(
            band, wall.pick(("meander", "tendril", "guilloche", "egg_and_dart")), scheme.border
        )
    wall.fill(Box(box.x0, main.y1, box.x1, box.y1), scheme.dado)
    for part in wall.columns(Box(box.x0, main.y1 + ledge, box.x1, box.y1), 60, 110):
        wall.add("block", part, vary(scheme.dado, rng), scheme.border[2], over=False)
    wall.add("cornice", Box(box.x0, main.y1, box.x1, main.y1 + ledge), stone, over=False)
    wall.add("cornice", Box(box.x0, box.y0, box.x1, box.y0 + 1.3 * ledge), stone, over=False)
    width = wall.mm(13, 20)
    edges = [bay.x0 for bay in bays] + [bays[-1].x1]
    for x in edges:
        shift = min(max(x, box.x0 + 0.3 * width), box.x1 - 0.3 * width)
        wall.add(
            "column",
            Box(shift - width / 2, box.y0 + 1.3 * ledge, shift + width / 2, main.y1),
            stone,
            OCHRE,
            over=False,
        )
    for a, b in pairwise(edges):
        hang = Box(
            a + 0.5 * width, split + 0.02 * main.height, b - 0.5 * width, split + 0.3 * (b - a)
        )
        if wall.chance(0.7):
            wall.add("garland", hang, mix(GREEN, OLIVE, rng.random()), RED_OCHRE, OCHRE)
            if wall.chance(0.5):
                wall.add(
                    "mask",
                    Spot((a + b) / 2, hang.y0 + 0.08 * (b - a), 0.2 * (b - a)),
                    ROSE,
                    OCHRE,
                    IVORY,
                )


def _strip_name(wall: Wall) -> str:
    """The border chosen for the first strip, so that all bays agree."""
    return next(
        e.name for e in wall.elements if e.name in ("meander", "tendril", "wave", "guilloche")
    )


def third(wall: Wall) -> None:
    """Large flat fields with candelabra between them and one delicate thing in each."""
    box, scheme, rng = wall.box, wall.scheme, wall.rng
    foot, frieze = wall.mm(26, 42), wall.mm(20, 36)
    predella = wall.mm(12, 20)
    dado = Box(box.x0, box.y1 - foot, box.x1, box.y1)
    wall.dado(dado)
    strip = Box(box.x0, dado.y0 - predella, box.x1, dado.y0)
    wall.strip(
        strip, wall.pick(("tendril", wall.lace, "meander", "wave", "guilloche")), scheme.border
    )
    main = Box(box.x0, box.y0 + frieze, box.x1, strip.y0)
    wall.fill(Box(box.x0, box.y0, box.x1, main.y0), scheme.second)
    _frieze(wall, Box(box.x0, box.y0, box.x1, main.y0))
    gap = wall.mm(18, 30)
    divider = wall.pick(("candelabrum", "candelabrum", "slender_column", "tendril", wall.lace))
    fields = wall.columns(main.inset(gap if wall.chance(0.6) else 0.0, 0.0), 100, 190, gap)
    wall.fill(main, scheme.second)
    framing, centre = int(rng.integers(3)), rng.random()
    for k, part in enumerate(fields):
        wall.fill(part, scheme.field)
        if part.x0 - gap >= main.x0:
            _divider(wall, Box(part.x0 - gap, main.y0, part.x0, main.y1), divider)
        if k == len(fields) - 1 and part.x1 + gap <= main.x1:
            _divider(wall, Box(part.x1, main.y0, part.x1 + gap, main.y1), divider)
        inner = part.inset(wall.mm(4, 7))
        thin = wall.mm(0.9, 1.8)
        wall.frame(inner, 2.6 * thin, "double_line", scheme.line, scheme.motifs[0])
        if framing == 0:
            inner = inner.inset(wall.mm(5, 8))
            wall.frame(inner, thin, "line", scheme.motifs[1])
            wall.corners(inner, min(0.14 * min(inner.width, inner.height), 24.0))
        elif framing == 1:
            width = min(wall.mm(9, 14), 0.12 * min(inner.width, inner.height))
            inner = inner.inset(wall.mm(4, 6))
            wall.frame(
                inner, width, wall.lace, scheme.motifs[0], scheme.motifs[1], scheme.motifs[2]
            )
            inner = inner.inset(width)
        _centre(wall, inner.inset(0.08 * min(inner.width, inner.height)), centre)


def _frieze(wall: Wall, box: Box) -> None:
    """The zone above the fields: a running ornament or a row of small pictures."""
    scheme = wall.scheme
    if wall.chance(0.5):
        for k, part in enumerate(wall.columns(box, 34, 60)):
            inner = part.inset(0.12 * box.height)
            wall.frame(
                inner,
                max(0.05 * box.height, 0.9),
                "line",
                scheme.line if sum(scheme.second) < 380 else RED_OCHRE,
            )
            x, y = inner.centre
            if k % 2 == 0:
                wall.motif(
                    x,
                    y,
                    0.8 * min(inner.width, inner.height),
                    ("bird", "swan", "mask", "dolphin", "vase"),
                )
            else:
                wall.add(
                    "sprig",
                    Spot(x, y, 0.6 * inner.height, math.pi / 2),
                    scheme.motifs[2],
                    scheme.motifs[0],
                    scheme.motifs[1],
                )
    else:
        wall.strip(box.inset(0, 0.16 * box.height), wall.pick(BORDERS), scheme.border)
    edge = max(0.1 * box.height, 1.6)
    wall.add(
        "line", Run(box.x0, box.y1 - edge / 2, box.x1, box.y1 - edge / 2, edge), scheme.border[1]
    )


def _divider(wall: Wall, box: Box, name: str) -> None:
    """What stands between two fields."""
    scheme = wall.scheme
    bright = scheme.motifs if sum(scheme.second) < 380 else (OCHRE, RED_OCHRE, GREEN)
    if name == "candelabrum":
        wall.add(name, box.inset(0.14 * box.width, 2.0), *bright)
    elif name == "slender_column":
        wall.add(name, box.inset(0.33 * box.width, 0.0), *bright)
    else:
        x = box.centre[0]
        wall.add(name, Run(x, box.y1 - 2, x, box.y0 + 2, 0.7 * box.width), *bright)
    for x in (box.x0, box.x1):
        wall.add("line", Run(x, box.y0, x, box.y1, max(0.05 * box.width, 0.9)), wall.scheme.line)


def _centre(wall: Wall, box: Box, kind: float) -> None:
    """The one thing in the middle of a field, and a thin garland over it."""
    x, y = box.centre
    room = min(box.width, box.height)
    if kind < 0.28:
        width = min(0.74 * box.width, 0.8 * box.height)
        height = width * wall.rng.uniform(0.7, 1.1)
        wall.picture(Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2))
    elif kind < 0.46:
        wall.medallion(x, y, 0.66 * room)
    elif kind < 0.68:
        wall.add(
            "floating_figure",
            Spot(x, y, min(0.95 * room, 240.0), 0.0, wall.chance(0.5)),
            *wall.scheme.motifs,
        )
    else:
        wall.motif(x, y, 0.85 * room)
    if box.height > 1.25 * box.width or wall.chance(0.4):
        wall.swag(replace(box, y1=box.y0 + 0.2 * room))
    if box.height > 1.6 * box.width:
        wall.motif(x, box.y1 - 0.2 * box.width, 0.4 * room, (wall.flower, "dolphin", "sprig"))
    elif box.width > 1.3 * box.height:
        wall.flank(box)


def fourth(wall: Wall) -> None:
    """Fields hemmed like hangings, and views of weightless pavilions between them."""
    box, scheme, rng = wall.box, wall.scheme, wall.rng
    foot = wall.mm(24, 40)
    upper = wall.mm(34, 60) if wall.chance(0.7) else 0.0
    dado = Box(box.x0, box.y1 - foot, box.x1, box.y1)
    main = Box(box.x0, box.y0 + upper, box.x1, dado.y0)
    view = IVORY if sum(scheme.field) < 520 else mix(SKY, IVORY, 0.5)
    wall.fill(main, view)
    gap = wall.mm(38, 56) if wall.chance(0.65) else 0.0
    hem = wall.mm(12, 18)
    fields = wall.columns(main, 95, 170, gap)
    centre = rng.random()
    for k, part in enumerate(fields):
        ground, other = (
            (scheme.field, scheme.second) if k % 2 == 0 else (scheme.second, scheme.field)
        )
        wall.fill(part, ground)
        ink = legible(ground, scheme.border[1], IVORY, RED_OCHRE)
        accent = legible(ground, scheme.border[2], GOLD, BURNT)
        wall.frame(part, wall.mm(3.5, 6), "line", legible(ground, scheme.dado, scheme.line, BURNT))
        inner = part.inset(wall.mm(6, 9))
        if min(inner.width, inner.height) > 55 * wall.scale:
            width = min(hem, 0.13 * min(inner.width, inner.height))
            wall.frame(inner, width, wall.lace, ink, accent, legible(ground, other, IVORY))
            inner = inner.inset(1.2 * width)
        else:
            wall.frame(inner, wall.mm(0.9, 1.6), "line", ink)
        _centre(
            wall,
            inner.inset(0.06 * min(inner.width, inner.height)),
            centre if k % 2 == 0 else 1 - centre,
        )
        if gap and k:
            _view(wall, Box(part.x0 - gap, main.y0, part.x0, main.y1))
    if upper:
        _upper_zone(wall, Box(box.x0, box.y0, box.x1, main.y0))
    wall.dado(dado)


def _view(wall: Wall, box: Box) -> None:
    """A glimpse of a fantastic building in a narrow field."""
    wall.add("pavilion", box.inset(0.1 * box.width, 0.05 * box.height), OCHRE, RED_OCHRE, GREEN)
    x, y = box.centre
    wall.motif(
        x,
        y + 0.12 * box.height,
        0.5 * box.width,
        ("floating_figure", "vase", "mask", "peacock", "bird"),
    )
    for edge in (box.x0, box.x1):
        wall.add("line", Run(edge, box.y0, edge, box.y1, max(0.05 * box.width, 1.2)), HAEMATITE)


def _upper_zone(wall: Wall, box: Box) -> None:
    """Above the fields: swags and pavilions on a light ground, closed by a border."""
    scheme = wall.scheme
    wall.fill(box, LIME if sum(scheme.field) < 560 else mix(scheme.second, LIME, 0.3))
    ledge = 0.26 * box.height
    wall.strip(
        Box(box.x0, box.y1 - ledge, box.x1, box.y1),
        wall.pick(("wave", "meander", "tendril", "guilloche", "bead_and_reel")),
        scheme.border,
    )
    for k, part in enumerate(wall.columns(replace(box, y1=box.y1 - ledge), 46, 80)):
        x, y = part.centre
        if k % 2 == 0:
            wall.swag(
                Box(part.x0, part.y0 + 0.1 * part.height, part.x1, part.y0 + 0.55 * part.height)
            )
            small = ("bird", "mask", wall.flower, "swan")
            wall.motif(x, y + 0.22 * part.height, 0.5 * part.height, small)
            continue
        half = 0.5 * min(0.8 * part.width, 0.85 * part.height)
        inner = Box(x - half, part.y0 + 0.12 * part.height, x + half, part.y1)
        wall.add("pavilion", inner, OCHRE, HAEMATITE, GREEN)
        for side in (-1, 1):
            room = 0.5 * part.width - half
            wall.motif(x + side * (half + room / 2), y + 0.1 * part.height, room, ("sprig", "vase"))


def lattice(wall: Wall) -> None:
    """A pale wall with very little on it: braids that cross at flowers, thin frames between."""
    box, scheme, rng = wall.box, wall.scheme, wall.rng
    wall.fill(box, scheme.field)
    size = float(np.clip(wall.scale / 1.6, 0.5, 1.4))
    brush = _Lattice.draw(wall, size)
    turn = brush.turn
    cos, sin = math.cos(turn), math.sin(turn)
    half = 0.5 * math.hypot(box.width, box.height)
    middle = np.array(box.centre)
    across, down = brush.pitch
    shift = rng.uniform(-0.5, 0.5, 2) * brush.pitch
    reach = 0.5 * math.hypot(across, down)

    def at(u: float, v: float) -> tuple[float, float]:
        x, y = middle + shift + (u * cos - v * sin, u * sin + v * cos)
        return float(x), float(y)

    def near(x: float, y: float) -> bool:
        return box.x0 - reach < x < box.x1 + reach and box.y0 - reach < y < box.y1 + reach

    if wall.chance(0.3):
        _wall_band(wall, size, turn)
    columns, rows = (math.ceil((half + pitch) / pitch) for pitch in brush.pitch)
    for j in range(-rows, rows + 1):
        for i in range(-columns, columns + 1):
            node, right, below = (
                at((i + k) * across, (j + m) * down) for k, m in ((0, 0), (1, 0), (0, 1))
            )
            for end, wanted in ((right, brush.ways != "down"), (below, brush.ways != "across")):
                if wanted and near((node[0] + end[0]) / 2, (node[1] + end[1]) / 2):
                    brush.lane(wall, node, end)
            if brush.node and near(*node):
                ink = brush.flower if wall.chance(0.85) else scheme.line
                brush.spot(wall, brush.node, *node, brush.node_size, ink)
    for j in range(-rows, rows + 1):
        for i in range(-columns, columns + 1):
            x, y = at((i + 0.5) * across, (j + 0.5) * down)
            if near(x, y):
                brush.cell(wall, x, y)


@dataclass
class _Lattice:
    """The manner of one lattice: the same all over a wall."""

    size: float
    """What lengths of real walls are multiplied by on this one."""
    pitch: tuple[float, float]
    """Width and height of a cell."""
    turn: float
    ways: str
    """Whether braids run `across`, `down`, or `both`."""
    lanes: tuple[str, ...]
    """A braid and what grows beside it."""
    width: float
    """Of a braid with its berries."""
    node: str
    """What lies on crossings; empty for nothing."""
    node_size: float
    flower: Colour
    ink: Colour
    leaf: Colour
    line: float
    margin: float
    """From the middle of a braid to the frame beside it."""
    dot: float
    frame: str
    """One of `FRAMES`; empty for none."""
    strokes: bool
    """Whether a short stroke grows out of every corner."""
    ring: float
    """Of a green ring in every cell, in half cells; 0 for none."""
    fillings: tuple[float, float, float, float]
    """How often a cell has stems, foliage, flowers, a figure."""

    @classmethod
    def draw(cls, wall: Wall, size: float) -> _Lattice:
        """Throw the dice for a wall."""
        rng, scheme = wall.rng, wall.scheme
        long = float(rng.uniform(140, 460)) * size
        strand = wall.pick(("braid", "braid", "braid", "twist", "twist", "plait", "ribbon", "line"))
        beside = wall.pick(("berries", "berries", "buds", ""))
        plain = strand in ("ribbon", "line")
        width = float(rng.uniform(20, 40) if strand != "line" else rng.uniform(2.5, 7)) * size
        lean = float(rng.random())
        turn = float(rng.normal(0, 0.02))
        if lean < 0.28:
            turn += math.pi / 4 * float(rng.uniform(0.7, 1.3))
        elif lean < 0.38:
            turn += float(rng.uniform(0, math.pi))
        wash = float(rng.uniform(0, 0.16))

        def washed(colour: Colour, amount: float = 1.0) -> Colour:
            return vary(mix(colour, scheme.field, amount * wash), rng)

        return cls(
            size=size,
            pitch=(long, long * float(rng.uniform(0.65, 1.25))),
            turn=turn,
            ways=wall.pick(("both", "both", "both", "both", "across", "down")),
            lanes=(strand,) if plain or not beside else (strand, beside),
            width=width,
            node=wall.pick(("blossom",) * 5 + (wall.flower, "")),
            node_size=float(rng.uniform(26, 58)) * size,
            flower=washed(scheme.motifs[1], 1.2),
            ink=washed(scheme.motifs[0]),
            leaf=washed(scheme.motifs[2], 1.3),
            line=float(rng.uniform(2.4, 5.5)) * size,
            margin=float(rng.uniform(0.6, 1.8)) * max(width, 22 * size),
            dot=float(rng.uniform(7, 16)) * size,
            frame=wall.pick(("box", "box", "box", "box", "twin", "cut", "diamond", "")),
            strokes=wall.chance(0.3),
            ring=float(rng.uniform(0.6, 1.1)) if wall.chance(0.3) else 0.0,
            fillings=(
                float(rng.uniform(0.1, 0.9)),
                float(rng.uniform(0.05, 0.55)),
                float(rng.uniform(0.1, 0.8)),
                float(rng.uniform(0, 0.5)),
            ),
        )

    def lane(self, wall: Wall, a: tuple[float, float], b: tuple[float, float]) -> None:
        """A braid from crossing to crossing."""
        gap = 0.32 * self.node_size if self.node else 0.0
        run = Run(*a, *b, self.width)
        (x0, y0), (x1, y1) = run.place(np.array([gap, run.length - gap]), 0.0).tolist()
        for name in self.lanes:
            lane = Run(x0, y0, x1, y1, self.width)
            wall.add(name, lane, self.ink, self.ink, self.ink)

    def spot(self, wall: Wall, name: str, x: float, y: float, size: float, colour: Colour) -> None:
        """A flower on the ground."""
        size *= float(wall.rng.uniform(0.85, 1.15))
        shade = mix(colour, GREY, 0.4)
        spot = Spot(x, y, size, float(wall.rng.uniform(0, math.tau)))
        wall.add(name, spot, colour, shade, lighter(wall.scheme.field, 0.3))

    def cell(self, wall: Wall, x: float, y: float) -> None:
        """A frame with round dots at its corners, and perhaps something in it."""
        rng = wall.rng
        wide, high = (0.5 * pitch - self.margin for pitch in self.pitch)
        if min(wide, high) < 9 * self.size:
            if wall.chance(0.4):
                self.spot(wall, "blossom", x, y, 0.6 * self.node_size, self.flower)
            return
        cos, sin = math.cos(self.turn), math.sin(self.turn)

        def at(u: float, v: float) -> tuple[float, float]:
            """A point for fractions of the half width and height."""
            return x + u * wide * cos - v * high * sin, y + u * wide * sin + v * high * cos

        if self.frame:
            self._framed(wall, [at(u, v) for u, v in FRAMES[self.frame]])
            inside = 1 - 5 * self.line / min(wide, high)
            if self.frame == "twin" and inside > 0.3:
                self._framed(
                    wall, [at(inside * u, inside * v) for u, v in FRAMES["box"]], 0.6, False
                )
        stems, leaves, flowers, figures = (wall.chance(share) for share in self.fillings)
        room = min(wide, high)
        if self.ring:
            wall.add("line", Ring(x, y, self.ring * room, 1.4 * self.line), self.leaf)
        if stems:
            name = wall.pick(("stem", "stem", "vine"))
            for _ in range(int(rng.integers(1, 4))):
                px, py = at(*rng.uniform(-0.6, 0.6, 2).tolist())
                length = float(rng.uniform(0.7, 1.6)) * room
                spot = Spot(px, py, length, float(rng.uniform(0, math.tau)))
                wall.add(name, spot, self.leaf, self.flower, self.ink)
        if leaves:
            px, py = at(*rng.uniform(-0.5, 0.5, 2).tolist())
            tones = (self.flower, self.leaf) if wall.chance(0.6) else (self.ink, self.ink)
            spot = Spot(px, py, float(np.clip(rng.uniform(0.5, 1.3) * room, 30, 190)))
            wall.add("foliage", spot, *tones, mix(self.leaf, wall.scheme.field, 0.3))
        if flowers:
            for _ in range(int(rng.integers(1, 4))):
                u, v = rng.uniform(-0.75, 0.75, 2).tolist()
                size = float(rng.uniform(0.6, 1.1)) * self.node_size
                self.spot(wall, "blossom", *at(u, v), min(size, 0.9 * room), self.flower)
        if figures and room > 32 * self.size:
            first, second, third = wall.scheme.motifs
            ground = wall.scheme.field
            tints = (OCHRE, first, second) if wall.chance(0.5) else (second, third, first)
            washed = [mix(tint, ground, 0.35) for tint in tints]
            name = wall.pick(WASHED)
            px, py = at(*rng.uniform(-0.3, 0.3, 2).tolist())
            if name == "garland":
                swag = Box(px - 0.7 * room, py - 0.3 * room, px + 0.7 * room, py + 0.2 * room)
                wall.add(name, swag, self.leaf, self.flower, self.ink)
            else:
                spot = Spot(
                    px,
                    py,
                    float(np.clip(rng.uniform(0.9, 1.7) * room, 20, 190)),
                    self.turn if abs(self.turn) < 0.2 else float(rng.normal(0, 0.2)),
                    wall.chance(0.5),
                )
                wall.add(name, spot, *washed)

    def _framed(
        self,
        wall: Wall,
        corners: Sequence[tuple[float, float]],
        share: float = 1.0,
        dots: bool = True,
    ) -> None:
        line = share * self.line
        for a, b in zip(corners, [*corners[1:], corners[0]], strict=True):
            wall.add("line", Run(*a, *b, line), self.ink)
        middle = np.mean(corners, axis=0)
        for corner in corners if dots else ():
            wall.add("blot", Spot(*corner, self.dot), self.ink, wall.scheme.line)
            if self.strokes:
                away = np.array(corner) - middle
                away *= 1.6 * self.dot / max(float(np.linalg.norm(away)), 1e-9)
                tip = np.array(corner) + away
                stroke = Run(*corner, float(tip[0]), float(tip[1]), 0.8 * line)
                wall.add("line", stroke, self.ink)


WASHED = ("bird", "flying_bird", "swan", "deer", "leopard", "dolphin", "floating_figure", "garland")
"""What is painted in the cells of a lattice, in thin colours."""

FRAMES: dict[str, tuple[tuple[float, float], ...]] = {
    "box": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "twin": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "diamond": ((0, -1), (1, 0), (0, 1), (-1, 0)),
    "cut": (
        (-0.6, -1),
        (0.6, -1),
        (1, -0.6),
        (1, 0.6),
        (0.6, 1),
        (-0.6, 1),
        (-1, 0.6),
        (-1, -0.6),
    ),
}
"""Corners of the frames in a lattice, in half widths and heights of a cell."""


def _wall_band(wall: Wall, size: float, turn: float) -> None:
    """A broad band or an ochre border along one side of a lattice, wherever it ends."""
    box, scheme, rng = wall.box, wall.scheme, wall.rng
    middle, half = np.array(box.centre), 0.6 * math.hypot(box.width, box.height)
    heading = turn + math.pi / 2 * int(rng.integers(4))
    along = np.array([math.cos(heading), math.sin(heading)])
    off = np.array([-along[1], along[0]])
    centre = middle + off * rng.uniform(0.1, 0.5) * min(box.width, box.height)
    (x0, y0), (x1, y1) = ((centre + end * half * along).tolist() for end in (-1, 1))
    width = float(rng.uniform(18, 60)) * size
    band = Run(x0, y0, x1, y1, width)
    if wall.chance(0.6):
        wall.add("ragged_band", band, scheme.dado, scheme.field)
        return
    ground, ink, accent = scheme.border
    wall.add("ragged_band", band, mix(ground, scheme.field, 0.2), scheme.field)
    wall.add(wall.pick(BORDERS), replace(band, width=0.72 * width), ink, accent, ink)
    thin = float(rng.uniform(1.8, 4)) * size
    for share in (-0.66, -0.5, 0.5, 0.66):
        dx, dy = (share * width * off).tolist()
        wall.add("line", Run(x0 + dx, y0 + dy, x1 + dx, y1 + dy, thin), ink)


LAYOUTS: dict[str, Callable[[Wall], None]] = {
    "first": first,
    "second": second,
    "third": third,
    "fourth": fourth,
    "ceiling": ceiling,
    "linear": linear,
    "lattice": lattice,
}
