"""Painted building: columns, cornices, marble slabs, stucco blocks, coffers, fantastic pavilions.

Every function draws one part: `name(canvas, box, colours, rng)`, lit from the upper left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from reassembly.synthetic.paint.canvas import Box, Canvas, Colour, arc, spline
from reassembly.synthetic.paint.ornaments import leaves
from reassembly.synthetic.paint.palettes import darker, lighter, mix, vary

__all__ = [
    "block",
    "coffer",
    "column",
    "cornice",
    "field",
    "marble",
    "pavilion",
    "pinax",
    "plants",
    "slender_column",
]

Colours = Sequence[Colour]
Rng = np.random.Generator


def field(canvas: Canvas, box: Box, colours: Colours, rng: Rng) -> None:
    """An even field of colour."""
    canvas.rectangle(box, colours[0])


def marble(canvas: Canvas, box: Box, colours: Colours, rng: Rng) -> None:
    """A slab of veined, clouded or speckled stone."""
    inside = canvas.window(box)
    base = vary(colours[0], rng)
    inside.rectangle(box, base)
    size = max(min(box.width, box.height), 1.0)
    area = box.width * box.height
    kind = int(rng.integers(4))
    if kind == 0:
        _veins(inside, box, base, size, rng)
    elif kind == 1:
        count = int(np.clip(area / 60, 10, 160))
        knots = np.linspace(0, math.tau, 7, endpoint=False)
        reach = rng.uniform(0.5, 1.2, (count, 7)) * rng.uniform(1.5, 6.0, (count, 1))
        stones = np.stack([reach * np.cos(knots), 0.8 * reach * np.sin(knots)], -1)
        stones += box.at(rng.random(count), rng.random(count))[:, None]
        for part, colour in zip(
            np.array_split(stones, 3),
            (darker(base, 0.22), lighter(base, 0.35), mix(base, colours[1], 0.45)),
            strict=True,
        ):
            inside.fill(part, colour)
    elif kind == 2:
        count = int(np.clip(area / 4, 30, 800))
        spots = box.at(rng.random(count), rng.random(count))
        radii = rng.uniform(0.15, 0.55, count)
        for k, colour in enumerate((darker(base, 0.4), lighter(base, 0.45), colours[1])):
            inside.dots(spots[k::3], radii[k::3], colour)
    else:
        slope = rng.uniform(-0.5, 0.5)
        u = np.linspace(-0.1, 1.1, 14)
        for v in np.arange(-0.4, 1.4, 6.0 / size * rng.uniform(0.8, 1.4)):
            wander = np.cumsum(rng.normal(0, 0.02, 14))
            path = box.at(u, v + slope * u + wander * 8.0 / size)
            shade = mix(
                base, colours[1] if rng.random() < 0.4 else darker(base), rng.uniform(0.2, 0.6)
            )
            inside.brush(
                spline(path, steps=3),
                rng.uniform(0.4, 2.2) * (1 + 0.5 * np.sin(np.arange(40))),
                shade,
            )


def _veins(canvas: Canvas, box: Box, base: Colour, size: float, rng: Rng) -> None:
    count = int(np.clip(box.width * box.height / 350, 3, 26))
    angle = rng.normal(rng.uniform(0, math.pi), 0.35, count)
    steps = np.arange(12)
    bend = np.cumsum(rng.normal(0, 0.3, (count, 12)), axis=1)
    stride = rng.uniform(0.05, 0.12, (count, 1)) * max(size, 20.0)
    heading = angle[:, None] + bend
    paths = np.cumsum(np.stack([np.cos(heading), np.sin(heading)], -1) * stride[..., None], axis=1)
    paths += box.at(rng.random(count), rng.random(count))[:, None] - paths[:, 5:6]
    press = np.sin(math.pi * (steps + 0.5) / 12)
    for k, path in enumerate(paths):
        shade = darker(base, rng.uniform(0.15, 0.4)) if k % 3 else lighter(base, 0.5)
        canvas.brush(path, rng.uniform(0.5, 2.0) * press, shade)


def block(canvas: Canvas, box: Box, colours: Colours, rng: Rng) -> None:
    """A stucco block with a drafted margin: stone inside, light and shade around it."""
    margin = min(max(0.055 * min(box.width, box.height), 1.2), 5.0)
    rim = lighter(colours[0], 0.22)
    canvas.rectangle(box, darker(rim, 0.55))
    canvas.rectangle(box.inset(0.3), rim)
    inner = box.inset(margin)
    marble(canvas, inner, colours, rng)
    thin = 0.28 * margin
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = inner.corners().tolist()
    for a, b in (((dx, dy), (ax, ay)), ((ax, ay), (bx, by))):
        canvas.straight(a, b, thin, darker(colours[0], 0.5))
    for a, b in (((bx, by), (cx, cy)), ((cx, cy), (dx, dy))):
        canvas.straight(a, b, thin, lighter(colours[0], 0.7))


def cornice(canvas: Canvas, box: Box, colours: Colours, rng: Rng) -> None:
    """A projecting moulding with dentils and the shadow beneath it."""
    base = colours[0]
    light, shade = lighter(base, 0.5), darker(base, 0.45)
    cuts = box.y0 + box.height * np.array([0, 0.1, 0.34, 0.42, 0.74, 0.82, 1.0])
    rows = [Box(box.x0, a, box.x1, b) for a, b in pairwise(cuts)]
    canvas.rectangle(rows[0], light)
    canvas.wash(rows[1], (lighter(base, 0.35), base, darker(base, 0.3)))
    canvas.rectangle(rows[2], shade)
    canvas.rectangle(rows[3], darker(base, 0.35))
    pitch = max(0.42 * box.height, 2.0)
    count = max(1, round(box.width / pitch))
    pitch = box.width / count
    left = box.x0 + (np.arange(count) + 0.18) * pitch
    for x in left:
        canvas.rectangle(Box(x, rows[3].y0, x + 0.62 * pitch, rows[3].y1), base)
        canvas.rectangle(Box(x, rows[3].y0, x + 0.16 * pitch, rows[3].y1), light)
    canvas.rectangle(rows[4], light)
    canvas.wash(rows[5], (darker(base, 0.6), darker(base, 0.25)))


def column(canvas: Canvas, box: Box, colours: Colours, rng: Rng) -> None:
    """A stout column with base, capital and perhaps flutes, rounded by light and shade."""
    stone = vary(colours[0], rng, 4)
    box = _slim(box, 0.45)
    width = box.width
    shaft = Box(
        box.x0 + 0.14 * width, box.y0 + 0.9 * width, box.x1 - 0.14 * width, box.y1 - 0.55 * width
    )
    shadow = Box(shaft.x1, shaft.y0, shaft.x1 + 0.28 * width, shaft.y1)
    _shadow(canvas, shadow)
    canvas.wash(
        shaft,
        (
            darker(stone, 0.25),
            lighter(stone, 0.25),
            lighter(stone, 0.45),
            stone,
            darker(stone, 0.3),
            darker(stone, 0.6),
        ),
        down=False,
    )
    if rng.random() < 0.6:
        angle = np.linspace(-1.2, 1.2, 8)
        for x in shaft.centre[0] + 0.5 * shaft.width * np.sin(angle):
            canvas.straight((x, shaft.y0), (x, shaft.y1), 0.035 * width, darker(stone, 0.42))
    else:
        for y in np.arange(shaft.y0 + 0.8 * width, shaft.y1, 2.4 * width):
            ring = Box(shaft.x0 - 0.02 * width, y, shaft.x1 + 0.02 * width, y + 0.22 * width)
            gilt = colours[1]
            canvas.wash(
                ring, (darker(gilt, 0.2), lighter(gilt, 0.5), gilt, darker(gilt, 0.5)), down=False
            )
    _mouldings(canvas, box, stone, width)
    _capital(canvas, Box(box.x0, box.y0, box.x1, box.y0 + 0.9 * width), stone, colours[1])


def _mouldings(canvas: Canvas, box: Box, stone: Colour, width: float) -> None:
    across = (darker(stone, 0.2), lighter(stone, 0.5), stone, darker(stone, 0.5))
    top = box.y1 - 0.55 * width
    for inset, y0, y1 in (
        (0.06, 0.0, 0.16),
        (0.12, 0.16, 0.24),
        (0.02, 0.24, 0.42),
        (0.0, 0.42, 0.55),
    ):
        row = Box(
            box.x0 + inset * width, top + y0 * width, box.x1 - inset * width, top + y1 * width
        )
        canvas.wash(row, across, down=False)
        canvas.straight((row.x0, row.y1), (row.x1, row.y1), 0.03 * width, darker(stone, 0.6))


def _capital(canvas: Canvas, box: Box, stone: Colour, gilt: Colour) -> None:
    """A Corinthian bell with two rows of leaves and corner volutes."""
    bell = np.array(
        [(0.16, 1.0), (0.18, 0.6), (0.02, 0.16), (0.98, 0.16), (0.82, 0.6), (0.84, 1.0)]
    )
    canvas.fill(box.at(*bell.T), darker(stone, 0.4))
    for v, lift, shade in ((0.95, 0.5, stone), (0.98, 0.34, lighter(stone, 0.3))):
        u = np.linspace(0.2, 0.8, 4 if lift > 0.4 else 3)
        spread = 0.5 + (u - 0.5) * 1.25
        canvas.fill(leaves(box.at(u, v), box.at(spread, v - lift), 0.42), shade)
    for side in (0, 1):
        curl = arc(0.14 if side else 0.86, 0.3, 0.09, -1.6, 3.6, 14)
        canvas.line(box.at(*curl.T), 0.05 * box.width, lighter(gilt, 0.1))
    abacus = Box(
        box.x0 - 0.03 * box.width, box.y0, box.x1 + 0.03 * box.width, box.y0 + 0.16 * box.height
    )
    canvas.wash(abacus, (lighter(stone, 0.5), stone, darker(stone, 0.4)))


def slender_column(canvas: Canvas, box: Box, colours: Colours, rng: Rng) -> None:
    """A reed-thin column of the later styles, with rings and calyces."""
    ink = colours[0]
    box = _slim(box, 0.25)
    x, width = box.centre[0], box.width
    shaft = Box(x - 0.22 * width, box.y0 + width, x + 0.22 * width, box.y1)
    canvas.wash(shaft, (darker(ink, 0.15), lighter(ink, 0.55), ink, darker(ink, 0.5)), down=False)
    for y in np.arange(box.y0 + 2.0 * width, box.y1 - width, max(3.2 * width, 14.0)):
        ring = np.array([(x - 0.4 * width, y), (x + 0.4 * width, y)])
        canvas.straight(ring[0], ring[1], 0.22 * width, colours[1])
        for side in (-1, 1):
            ends = np.array([(x, y + 1.3 * width), (x + side * 0.55 * width, y + 0.2 * width)])
            canvas.fill(leaves(ends[:1], ends[1:], 0.4), colours[2])
    for share, y0, y1 in ((0.7, 0.7, 1.0), (1.0, 0.4, 0.7), (1.25, 0.0, 0.4)):
        part = Box(
            x - share * width / 2, box.y0 + y0 * width, x + share * width / 2, box.y0 + y1 * width
        )
        canvas.wash(part, (lighter(ink, 0.4), darker(ink, 0.25)))
    canvas.rectangle(
        Box(x - 0.5 * width, box.y1 - 0.5 * width, x + 0.5 * width, box.y1), darker(ink, 0.2)
    )


def pavilion(canvas: Canvas, box: Box, colours: Colours, rng: Rng) -> None:
    """A weightless pavilion: thin columns, a coffered roof in perspective, a gable or an arch."""
    ink, accent, third = colours[:3]
    stroke = max(0.035 * min(box.width, box.height), 0.9)
    roof, floor = box.y0 + 0.28 * box.height, box.y1
    depth = 0.16 * box.width
    back = Box(box.x0 + depth, roof + 0.5 * depth, box.x1 - depth, floor - 0.1 * box.height)
    for y, lean in ((roof, 0.0), (roof + 0.1 * box.height, 0.0)):
        canvas.straight((box.x0, y), (box.x1, y), stroke, ink)
        canvas.straight(
            (box.x0, y),
            (back.x0, back.y0 + (y - roof) * 0.6 + lean),
            0.7 * stroke,
            darker(ink, 0.3),
        )
        canvas.straight(
            (box.x1, y),
            (back.x1, back.y0 + (y - roof) * 0.6 + lean),
            0.7 * stroke,
            darker(ink, 0.3),
        )
    canvas.straight((back.x0, back.y0), (back.x1, back.y0), 0.7 * stroke, darker(ink, 0.3))
    for x in (back.x0, back.x1):
        canvas.straight((x, back.y0), (x, back.y1), 0.8 * stroke, darker(ink, 0.35))
    for x in (box.x0 + stroke, box.x1 - stroke):
        slender_column(canvas, Box(x - 1.3 * stroke, roof, x + 1.3 * stroke, floor), colours, rng)
    if rng.random() < 0.5:
        apex = (box.centre[0], box.y0)
        for a in ((box.x0, roof), (box.x1, roof)):
            canvas.straight(a, apex, stroke, ink)
        inner = np.array(
            [
                (box.x0 + 5 * stroke, roof - stroke),
                (box.centre[0], box.y0 + 2.6 * stroke),
                (box.x1 - 5 * stroke, roof - stroke),
            ]
        )
        canvas.fill(inner, accent)
        canvas.dots(np.array([(box.centre[0], roof - 0.09 * box.height)]), 0.05 * box.height, third)
    else:
        radius = 0.5 * box.width
        height = roof - box.y0
        vault = arc(0, 0, 1.0, math.pi, math.tau, 30)
        for share, colour in ((1.0, ink), (0.86, accent)):
            path = vault * (share * radius, share * height) + (box.centre[0], roof)
            canvas.line(path, stroke, colour)
        ribs = np.linspace(math.pi * 1.08, math.pi * 1.92, 9)
        rays = np.stack([np.cos(ribs), np.sin(ribs)], -1)
        rays = rays[:, None] * np.array([[1.0], [0.86]]) * (radius, height)
        canvas.line(rays + np.array([box.centre[0], roof]), 0.5 * stroke, ink)
    knobs = np.array(
        [(box.x0, roof - 2 * stroke), (box.x1, roof - 2 * stroke), (box.centre[0], box.y0 - stroke)]
    )
    canvas.dots(knobs, 1.4 * stroke, accent)
    loop = back.at(np.linspace(0, 1, 14), 0.24 * np.sin(np.linspace(0, math.pi, 14)) ** 1.0)
    canvas.line(loop, 0.9 * stroke, third)


def pinax(canvas: Canvas, box: Box, colours: Colours, rng: Rng) -> None:
    """A panel picture's moulded frame and empty ground; colours are ground, frame, accent."""
    ground, frame, accent = colours[:3]
    width = max(0.05 * min(box.width, box.height), 1.2)
    canvas.rectangle(box, darker(frame, 0.5))
    canvas.rectangle(box.inset(0.25 * width), frame)
    canvas.rectangle(box.inset(width), accent)
    canvas.rectangle(box.inset(1.3 * width), darker(frame, 0.3))
    canvas.rectangle(box.inset(1.6 * width), ground)
    light = lighter(frame, 0.5)
    lit = box.inset(0.55 * width)
    canvas.straight((lit.x0, lit.y0), (lit.x1, lit.y0), 0.3 * width, light)
    canvas.straight((lit.x0, lit.y0), (lit.x0, lit.y1), 0.3 * width, light)


def coffer(canvas: Canvas, box: Box, colours: Colours, rng: Rng) -> None:
    """A sunken square of a ceiling, shaded as if lit from one side."""
    base = colours[0]
    steps = 3
    depth = 0.09 * min(box.width, box.height)
    for k in range(steps):
        ring = box.inset(k * depth)
        a, b, c, d = ring.corners()
        e, f, g, h = ring.inset(0.72 * depth).corners()
        tone = mix(base, colours[1], k / steps)
        canvas.rectangle(ring, lighter(tone, 0.25))
        for side, shade in (
            ((a, b, f, e), darker(tone, 0.42)),
            ((d, a, e, h), darker(tone, 0.26)),
            ((b, c, g, f), lighter(tone, 0.16)),
            ((c, d, h, g), lighter(tone, 0.36)),
        ):
            canvas.fill(np.array(side), shade)
    canvas.rectangle(box.inset(steps * depth), colours[2])


def plants(canvas: Canvas, box: Box, colours: Colours, rng: Rng) -> None:
    """Tufts of leaves along the foot of a dado."""
    pitch = max(0.8 * box.height, 14.0)
    for x in np.arange(box.x0 + pitch * rng.uniform(0.2, 0.7), box.x1, pitch * 1.15):
        count = int(rng.integers(6, 11))
        lean = np.linspace(-0.75, 0.75, count) + rng.normal(0, 0.08, count)
        tall = box.height * rng.uniform(0.5, 0.95, count) * np.cos(lean * 0.8)
        foot = np.stack([x + rng.normal(0, 0.04 * pitch, count), np.full(count, box.y1)], -1)
        tips = foot + np.stack([np.sin(lean) * tall, -tall], -1)
        middle = (foot + tips) / 2 + np.stack([-0.12 * lean * tall, -0.1 * tall], -1)
        blades = spline(np.stack([foot, middle, tips], 1), steps=4)
        press = np.array([0.05, 0.09, 0.11, 0.12, 0.11, 0.09, 0.06, 0.035, 0.01]) * box.height
        half = count // 2
        canvas.brush(blades[:half], press, darker(colours[0], 0.15))
        canvas.brush(blades[half:], press, lighter(colours[0], 0.15))
        if rng.random() < 0.6:
            canvas.dots(tips[::3], 0.07 * box.height, colours[1])


def _slim(box: Box, share: float) -> Box:
    """The middle of a box that is too broad: no wider than a share of its height."""
    return box.inset(max(0.0, (box.width - share * box.height) / 2), 0.0)


def _shadow(canvas: Canvas, box: Box) -> None:
    """Darken what is already painted in the box, less and less to the right."""
    part = canvas.window(box).pixels
    if part.size:
        fade = np.linspace(0.68, 1.0, part.shape[1])[:, None]
        part[:] = (part * fade).astype(np.uint8)
