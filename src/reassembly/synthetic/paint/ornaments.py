"""Bands, borders and hanging ornaments.

Borders run along a `Run` or `Ring`, in (s, t): s in mm along it, t across it from -0.5 to 0.5.
Every function draws one ornament: `name(canvas, place, colours, rng)`, with three or more colours,
the first of which is the drawing's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from reassembly.synthetic.paint.canvas import (
    Box,
    Canvas,
    Colour,
    Floats,
    Ring,
    Run,
    Spot,
    arc,
    spline,
)
from reassembly.synthetic.paint.palettes import darker, lighter, mix

__all__ = [
    "arches",
    "bead_and_reel",
    "berries",
    "blossom",
    "blot",
    "braid",
    "buds",
    "candelabrum",
    "circles",
    "corner_tuft",
    "disc",
    "double_line",
    "egg_and_dart",
    "foliage",
    "garland",
    "guilloche",
    "hearts",
    "laurel",
    "leaves",
    "line",
    "lozenges",
    "meander",
    "medallion",
    "palmettes",
    "plait",
    "ragged_band",
    "ribbon",
    "rosette",
    "scale_pattern",
    "sprig",
    "star_flower",
    "stem",
    "tendril",
    "twist",
    "vine",
    "wave",
]

Track = Run | Ring
Colours = Sequence[Colour]
Rng = np.random.Generator

BRAID = 1.35
"""The repeat of braids and of what grows beside them, in widths."""


def line(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A plain band, as wide as the track."""
    if isinstance(track, Run):
        canvas.straight((track.x0, track.y0), (track.x1, track.y1), track.width, colours[0])
    else:
        canvas.line(
            arc(track.x, track.y, track.radius, points=72)[:-1], track.width, colours[0], True
        )


def double_line(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A broad line and a thin one beside it."""
    broad, thin = _lane(track, -0.22, 0.5), _lane(track, 0.4, 0.18)
    line(canvas, broad, colours[:1], rng)
    line(canvas, thin, colours[1:2], rng)


def meander(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A Greek key, drawn with one continuous line."""
    key = np.array([(0, 0), (0, 3), (3, 3), (3, 1), (2, 1), (2, 2), (1, 2), (1, 0)]) / (4, 3)
    count, period = track.cells(1.2)
    s, t = _repeat(key, count, period)
    s, t = np.append(s, track.length), np.append(t, 0.0)
    _edges(canvas, track, colours[1], 0.07)
    canvas.line(_smooth_run(track, s, 0.36 - 0.72 * t), 0.1 * track.width, colours[0])


def wave(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A running dog: curling waves on a base line."""
    s = [0, 0.26, 0.42, 0.56, 0.82, 1.06, 1.1, 0.97, 0.83, 0.86]
    t = [0.4, 0.34, 0.08, -0.24, -0.4, -0.26, 0.02, 0.15, 0.06, -0.1]
    crest = spline(np.stack([s, t], -1), steps=4)
    count, period = track.cells(0.95)
    paths = _cells(track, crest, count, period)
    width = np.interp(np.linspace(0, 1, len(crest)), [0, 0.25, 0.6, 1], [0.3, 0.26, 0.15, 0.08])
    canvas.brush(paths, width * track.width, colours[0])
    line(canvas, _lane(track, 0.44, 0.14), colours, rng)
    line(canvas, _lane(track, -0.47, 0.06), colours[1:], rng)


def guilloche(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """Two or three interlaced strands around a row of eyes."""
    count, period = track.cells(1.1)
    count += count % 2 if isinstance(track, Ring) else 0
    period = track.length / count
    ink, light, eye = colours[0], colours[1], colours[2]
    u = np.linspace(0, count, 10 * count + 1)
    strands = [track.place(u * period, sign * 0.33 * np.cos(math.pi * u)) for sign in (-1, 1)]
    v = np.linspace(-0.34, 0.34, 7)
    crossings = np.arange(count // 2 + count % 2)[:, None] * 2 + 0.5 + v
    over = track.place(crossings * period, -0.33 * np.cos(math.pi * crossings))
    canvas.dots(track.place(np.arange(count + 1) * period, 0.0), 0.12 * track.width, eye)
    for path in (*strands, over):
        canvas.line(path, 0.27 * track.width, ink)
        canvas.line(path, 0.17 * track.width, light)
    _edges(canvas, track, ink, 0.05)


def ribbon(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A loosely twisted ribbon with buds on either side, as on white ceilings."""
    count, period = track.cells(1.5)
    u = np.linspace(0, 1, 13)
    offsets = np.arange(count)[:, None]
    press = 0.09 + 0.07 * np.sin(math.pi * u) ** 2
    for sign in (-1, 1):
        t = sign * 0.2 * np.sin(math.tau * (u - 0.03)) * (1 + 0.12 * rng.normal(0, 1, (count, 1)))
        canvas.brush(track.place((offsets + u) * period, t), press * track.width, colours[0])
    side = np.where(np.arange(2 * count) % 2, 0.36, -0.36)
    buds = (np.arange(2 * count) + 0.5) * period / 2 + rng.normal(0, 0.03 * period, 2 * count)
    canvas.dots(track.place(buds, side), 0.075 * track.width, colours[0])
    stalks = np.stack(
        [track.place(buds, side * 0.9), track.place(buds + 0.06 * period, side * 0.4)], 1
    )
    canvas.line(stalks, 0.035 * track.width, colours[0])


def braid(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A rope of single slanting strokes, each laid beside the last; room for berries is left."""
    count, period = track.cells(BRAID)
    u = np.linspace(0, 1, 15)
    shape = 0.21 * np.cos(math.pi * np.clip(1.3 * u - 0.15, 0, 1))
    press = 0.05 + 0.1 * np.sin(math.pi * u) ** 0.5
    starts = np.arange(-1, count)[:, None] + rng.normal(0, 0.05, (count + 1, 1))
    length = 1.9 + rng.normal(0, 0.07, (count + 1, 1))
    s = np.clip((starts + 0.1 + u * length) * period, 0, track.length)
    t = shape * (1 + rng.normal(0, 0.08, (count + 1, 1))) + rng.normal(0, 0.012, (count + 1, 1))
    canvas.brush(track.place(s, t), press * track.width, colours[0])


def twist(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """Two strands that cross again and again; room for berries is left."""
    _strands(canvas, track, colours, (0.0, math.pi), rng)


def plait(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """Three strands that cross again and again; room for berries is left."""
    _strands(canvas, track, colours, (0.0, math.tau / 3, 2 * math.tau / 3), rng)


def _strands(
    canvas: Canvas, track: Track, colours: Colours, phases: Sequence[float], rng: Rng
) -> None:
    count, period = track.cells(BRAID)
    u = np.linspace(0, count, 16 * count + 1)
    for phase in phases:
        swing = 0.22 * (1 + 0.06 * np.sin(0.9 * u + rng.uniform(0, math.tau)))
        turn = math.pi * u + phase
        press = 0.095 + 0.045 * np.cos(turn + 0.7) ** 2
        path = track.place(u * period, swing * np.cos(turn))
        canvas.brush(path, press * track.width, colours[0])


def berries(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """Pairs of round berries on either side of a braid."""
    count, period = track.cells(BRAID)
    s = (np.arange(count) + 0.5) * period
    for side in (-1, 1):
        at = s + rng.normal(0, 0.05 * period, count)
        centres = track.place(at, side * (0.4 + rng.normal(0, 0.02, count)))
        canvas.fill(_blots(centres, 0.11 * track.width, rng), colours[0])
        if rng.random() < 0.6:
            shade = darker(colours[0], 0.2)
            canvas.dots(centres + 0.025 * track.width, 0.05 * track.width, shade)


def buds(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """Heart-shaped leaves on short stalks, left and right of a braid in turn."""
    count, period = track.cells(BRAID)
    number = 2 * count
    s = (np.arange(number) + 0.5) * period / 2 + rng.normal(0, 0.03 * period, number)
    side = np.where(np.arange(number) % 2, 1.0, -1.0)
    lean = rng.normal(0.05, 0.04, number) * period
    foot, tip = track.place(s, 0.22 * side), track.place(s + lean, 0.34 * side)
    canvas.line(np.stack([foot, tip], 1), 0.035 * track.width, colours[0])
    angle = np.linspace(0, math.tau, 14, endpoint=False)
    along = (0.13 * np.cos(angle) - 0.05 * np.cos(2 * angle)) * track.width
    across = 0.075 * np.sin(angle)
    hearts = track.place((s + lean)[:, None] + 0.55 * along, side[:, None] * (0.41 + 0.9 * across))
    canvas.fill(hearts, colours[0])


def ragged_band(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A broad band laid on quickly: uneven edges, and paler where the brush ran dry."""
    steps = max(8, math.ceil(track.length / 1.5))
    s = np.linspace(0, track.length, steps)
    waves = math.tau / rng.uniform(4, 90, (2, 7)), rng.uniform(0, math.tau, (2, 7))
    edges = [
        sign * 0.5 + 0.012 * np.sin(s[:, None] * waves[0][k] + waves[1][k]).sum(axis=1)
        for k, sign in enumerate((-1, 1))
    ]
    outline = [track.place(s, edges[0]), track.place(s, edges[1])[::-1]]
    canvas.fill(np.vstack(outline), colours[0])
    for k in range(5):
        a, b = np.sort(rng.uniform(0, track.length, 2))
        part = np.linspace(a, b, max(4, math.ceil((b - a) / 4)))
        t = rng.uniform(-0.38, 0.38) + 0.02 * np.sin(part * waves[0][0, k])
        shade = mix(colours[0], colours[1], rng.uniform(0.08, 0.3))
        width = rng.uniform(0.03, 0.14) * np.sin(math.pi * np.linspace(0.03, 0.97, len(part)))
        canvas.brush(track.place(part, t), width * track.width, shade)


def tendril(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A winding stem with a curled shoot and leaves in every bend."""
    count, period = track.cells(1.25)
    stem_colour, leaf_colour, flower = colours[0], colours[1], colours[2]
    u = np.linspace(0, count, 12 * count + 1)
    canvas.line(
        track.place(u * period, 0.3 * np.cos(math.pi * u)), 0.055 * track.width, stem_colour
    )
    s = [0.5, 0.43, 0.2, -0.08, -0.25, -0.15, 0.05, 0.15, 0.05, -0.05]
    t = [0.0, -0.2, -0.34, -0.31, -0.1, 0.12, 0.12, -0.03, -0.15, -0.06]
    shoot = spline(np.stack([s, t], -1), steps=4)
    mirror = np.where(np.arange(count) % 2, -1.0, 1.0)
    paths = _cells(track, shoot, count, period, mirror)
    canvas.line(paths, 0.045 * track.width, stem_colour)
    canvas.dots(paths[:, -1], 0.08 * track.width, flower)
    roots = [(0.1, 0.28), (0.43, 0.06), (0.62, -0.1), (0.3, -0.3), (-0.24, -0.14), (0.85, -0.27)]
    tips = [(0.26, 0.46), (0.6, 0.26), (0.44, -0.34), (0.12, -0.48), (-0.42, -0.24), (1.0, -0.48)]
    for root, tip in zip(roots, tips, strict=True):
        both = _cells(track, np.array([root, tip]), count, period, mirror)
        canvas.fill(leaves(both[:, 0], both[:, 1], 0.4), leaf_colour)


def laurel(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A bound garland of overlapping leaves, run along a band."""
    count, period = track.cells(0.5)
    line(canvas, _lane(track, 0.0, 0.1), [darker(colours[0])], rng)
    base = np.arange(count) * period
    shades = (darker(colours[0], 0.25), colours[0], lighter(colours[0], 0.3))
    for tilt, colour in zip((-0.42, 0.42, 0.0), shades, strict=True):
        jitter = rng.normal(0, 0.05, (2, count))
        tips = track.place(base + period * (1.35 + jitter[0]), tilt + jitter[1])
        canvas.fill(leaves(track.place(base, tilt * 0.25), tips, 0.34), colour)
    berries = track.place(base[::3] + period, np.where(np.arange(len(base[::3])) % 2, 0.3, -0.3))
    canvas.dots(berries, 0.07 * track.width, colours[1])


def egg_and_dart(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A moulding of eggs between darts."""
    count, period = track.cells(0.8)
    ink, light = colours[0], colours[1]
    angle = np.linspace(0, math.pi, 13)
    for size, colour in ((1.0, ink), (0.8, light), (0.45, lighter(light, 0.4))):
        egg = np.stack([0.5 + 0.36 * size * np.cos(angle), -0.36 + 0.72 * size * np.sin(angle)], -1)
        canvas.fill(_cells(track, egg, count, period), colour)
    dart = np.array([(-0.06, -0.36), (0.06, -0.36), (0.0, 0.38)])
    canvas.fill(_cells(track, dart, count + 1, period), ink)
    _edges(canvas, track, ink, 0.07)


def bead_and_reel(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A string of long beads with pairs of discs between them."""
    count, period = track.cells(1.7)
    angle = np.linspace(0, math.tau, 14, endpoint=False)
    bead = np.stack([0.5 + 0.3 * np.cos(angle), 0.3 * np.sin(angle)], -1)
    shine = bead * (0.55, 0.35) + (0.2, -0.1)
    reels = np.array([[(x, -0.28), (x, 0.28)] for x in (-0.07, 0.07)])
    canvas.fill(_cells(track, bead, count, period), colours[0])
    canvas.fill(_cells(track, shine, count, period), lighter(colours[0], 0.45))
    for reel in reels:
        canvas.line(_cells(track, reel, count + 1, period), 0.13 * track.width, colours[0])


def arches(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A lacy border of arches with a bud in each."""
    count, period = track.cells(1.0)
    angle = np.linspace(math.pi, math.tau, 13)
    for radius, width in ((0.46, 0.07), (0.3, 0.04)):
        half = np.stack([0.5 + radius * np.cos(angle), 0.42 + 1.7 * radius * np.sin(angle)], -1)
        canvas.line(_cells(track, half, count, period), width * track.width, colours[0])
    for angle_deg in (-140, -90, -40):
        tip = (
            0.5 + 0.2 * math.cos(math.radians(angle_deg)),
            0.38 + 0.34 * math.sin(math.radians(angle_deg)),
        )
        both = _cells(track, np.array([(0.5, 0.38), tip]), count, period)
        canvas.fill(leaves(both[:, 0], both[:, 1], 0.45), colours[1])
    canvas.dots(track.place(np.arange(count + 1) * period, -0.3), 0.08 * track.width, colours[1])
    canvas.line(
        _cells(track, np.array([(0.0, -0.2), (0.0, 0.1)]), count + 1, period),
        0.04 * track.width,
        colours[0],
    )
    _edges(canvas, track, colours[0], 0.05)


def lozenges(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A lacy border of lozenges and dots."""
    count, period = track.cells(1.3)
    shape = np.array([(0.12, 0.0), (0.5, -0.4), (0.88, 0.0), (0.5, 0.4)])
    canvas.line(_cells(track, shape, count, period), 0.07 * track.width, colours[0], True)
    inner = (shape - (0.5, 0)) * 0.45 + (0.5, 0)
    canvas.fill(_cells(track, inner, count, period), colours[1])
    for t in (-0.3, 0.0, 0.3):
        canvas.dots(track.place(np.arange(count + 1) * period, t), 0.075 * track.width, colours[0])
    _edges(canvas, track, colours[0], 0.05)


def hearts(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A lacy border of hearts."""
    count, period = track.cells(0.95)
    half = spline(
        [(0.5, 0.4), (0.2, 0.05), (0.16, -0.25), (0.34, -0.36), (0.44, -0.2), (0.36, -0.1)], steps=4
    )
    for sign in (1, -1):
        side = (half - (0.5, 0)) * (sign, 1) + (0.5, 0)
        canvas.line(_cells(track, side, count, period), 0.07 * track.width, colours[0])
    both = _cells(track, np.array([(0.5, 0.3), (0.5, -0.28)]), count, period)
    canvas.fill(leaves(both[:, 0], both[:, 1], 0.3), colours[1])
    canvas.dots(track.place(np.arange(count + 1) * period, 0.26), 0.085 * track.width, colours[1])
    canvas.dots(track.place(np.arange(count + 1) * period, -0.02), 0.05 * track.width, colours[0])
    _edges(canvas, track, colours[0], 0.05)


def circles(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A lacy border of circles with a flower in each."""
    count, period = track.cells(1.05)
    angle = np.linspace(0, math.tau, 20, endpoint=False)
    aspect = track.width / period
    ring = np.stack([0.5 + 0.38 * aspect * np.cos(angle), 0.38 * np.sin(angle)], -1)
    canvas.line(_cells(track, ring, count, period), 0.07 * track.width, colours[0], True)
    for u, t in ((0.2, 0.0), (0.0, 0.2), (-0.2, 0.0), (0.0, -0.2)):
        petals = track.place((np.arange(count) + 0.5 + u * aspect) * period, t)
        canvas.dots(petals, 0.1 * track.width, colours[1])
    canvas.dots(track.place((np.arange(count) + 0.5) * period, 0.0), 0.07 * track.width, colours[0])
    for t in (-0.36, 0.36):
        canvas.dots(track.place(np.arange(count + 1) * period, t), 0.06 * track.width, colours[1])
    _edges(canvas, track, colours[0], 0.05)


def palmettes(canvas: Canvas, track: Track, colours: Colours, rng: Rng) -> None:
    """A lacy border of palmettes, up and down in turn."""
    count, period = track.cells(0.9)
    aspect = track.width / period
    mirror = np.where(np.arange(count) % 2, -1.0, 1.0)
    for degrees, reach in ((-158, 0.34), (-124, 0.5), (-90, 0.66), (-56, 0.5), (-22, 0.34)):
        angle = math.radians(degrees)
        tip = (0.5 + reach * math.cos(angle) * aspect, 0.32 + reach * math.sin(angle))
        both = _cells(track, np.array([(0.5, 0.32), tip]), count, period, mirror)
        canvas.fill(leaves(both[:, 0], both[:, 1], 0.26), colours[0])
    roots = track.place((np.arange(count) + 0.5) * period, 0.34 * mirror)
    canvas.dots(roots, 0.1 * track.width, colours[1])
    link = spline([(0.5, 0.36), (0.75, 0.3), (1.0, 0.0), (1.25, -0.3), (1.5, -0.36)], steps=4)
    canvas.line(_cells(track, link, count - 1, period, mirror[:-1]), 0.05 * track.width, colours[1])
    _edges(canvas, track, colours[0], 0.05)


def scale_pattern(canvas: Canvas, box: Box, colours: Colours, rng: Rng) -> None:
    """Overlapping scales over a whole box."""
    size = 9.0
    rows, columns = math.ceil(box.height / size * 1.8) + 1, math.ceil(box.width / size) + 2
    inside = canvas.window(box)
    half = arc(0, 0, size / 2, 0, math.pi, 10)
    for row in range(rows):
        centres = np.stack(
            [
                box.x0 + (np.arange(columns) - 0.5 * (row % 2)) * size,
                np.full(columns, box.y0 + row * size / 1.8),
            ],
            -1,
        )
        inside.line(centres[:, None] + half, 0.8, colours[0])
        inside.dots(centres + np.array([0, 0.22 * size]), 0.09 * size, colours[1])


def disc(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A plain disc; `size` is its diameter."""
    canvas.dots(spot.place([(0, 0)]), spot.size / 2, colours[0])


def blot(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A dab of the brush, roughly round; `size` is its diameter."""
    centre = spot.place([(0, 0)])
    canvas.fill(_blots(centre, spot.size / 2, rng), colours[0])
    if rng.random() < 0.5:
        inner = centre + rng.normal(0, 0.08, 2) * spot.size
        canvas.fill(_blots(inner, 0.28 * spot.size, rng), mix(colours[0], colours[-1], 0.25))


def blossom(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A flower of soft lobes around a bare round middle; colours are lobes, shade, ground."""
    petals, ring = _petals(rng, 6, 9)
    size, ink = spot.size, colours[0]
    radius = 0.43 * size / petals**0.6 * rng.uniform(0.85, 1.05)
    out = (0.47 - radius / size) * rng.normal(1, 0.05, (petals, 1))
    hole = rng.uniform(0.13, 0.19)
    canvas.dots(spot.place([(0, 0)]), (hole + 0.09) * size, ink)
    for k in range(petals):
        shade = mix(ink, colours[1], rng.uniform(0, 0.35))
        lobe = spot.place(out[k : k + 1] * ring[k])
        canvas.fill(_blots(lobe, radius * rng.uniform(0.85, 1.12), rng), shade)
    canvas.fill(_blots(spot.place([(0, 0)]), hole * size, rng), colours[2])


def stem(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A bare bent stem across the spot, thick at its foot; `size` is its length."""
    path = _bent(rng)
    width = np.linspace(1.0, rng.uniform(0.35, 0.9), len(path)) * rng.uniform(0.018, 0.05)
    canvas.brush(spot.place(path), width * spot.size, colours[0])


def vine(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A bent stem with a few long leaves and perhaps berries; `size` is its length."""
    path = _bent(rng)
    canvas.brush(spot.place(path), np.linspace(0.025, 0.01, len(path)) * spot.size, colours[0])
    roots = path[rng.integers(3, len(path) - 1, int(rng.integers(4, 10)))]
    angle = rng.uniform(-1.2, 1.2, len(roots)) + np.where(rng.random(len(roots)) < 0.5, 0, math.pi)
    length = rng.uniform(0.09, 0.2, (len(roots), 1))
    tips = roots + length * np.stack([np.cos(angle), np.sin(angle)], -1)
    shade = mix(colours[0], colours[1], 0.3 * rng.random())
    plump = rng.uniform(0.2, 0.45)
    canvas.fill(leaves(spot.place(roots), spot.place(tips), plump), shade)
    if rng.random() < 0.4:
        canvas.dots(spot.place(tips[::2]), 0.022 * spot.size, colours[2])


def foliage(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A loose bunch of broad leaves, washed in and run together; `size` is its width."""
    count = int(rng.integers(5, 11))
    spread, middle = rng.uniform(0.8, 2.6), rng.uniform(0, math.tau)
    angle = middle + np.linspace(-spread, spread, count) + rng.normal(0, 0.16, count)
    bend = rng.normal(0, 0.35, count)
    reach = rng.uniform(0.26, 0.48, count)
    for k in rng.permutation(count):
        ways = angle[k] + bend[k] * np.array([0.0, 0.5, 1.2])
        points = np.stack([np.cos(ways), np.sin(ways)], -1) * (
            reach[k] * np.array([0.08, 0.55, 1.0])[:, None]
        )
        path = spline(points, steps=8)
        press = np.sin(math.pi * np.linspace(0.12, 0.97, len(path))) ** 0.8
        shade = mix(colours[0], colours[1 + k % 2], rng.uniform(0, 0.75))
        canvas.brush(spot.place(path), rng.uniform(0.07, 0.16) * press * spot.size, shade)
        if rng.random() < 0.5:
            vein = spot.place(path[2:-2])
            canvas.line(vein, 0.012 * spot.size, darker(shade, 0.15))


def _bent(rng: Rng) -> Floats:
    """A bow or a double bend of length 1 around the origin."""
    bow = rng.uniform(0.06, 0.26) * (1 if rng.random() < 0.5 else -1)
    back = bow * (rng.uniform(0.7, 1.0) if rng.random() < 0.8 else rng.uniform(-0.8, 0))
    return spline([(-0.5, 0), (-0.18, bow), (0.18, back), (0.5, 0)], steps=8)


def _blots(centres: Floats, radius: float, rng: Rng) -> Floats:
    """(K, 16, 2): roughly round dabs."""
    angle = np.linspace(0, math.tau, 16, endpoint=False)
    phase = rng.uniform(0, math.tau, (2, len(centres), 1))
    ripple = 1 + 0.08 * np.sin(2 * angle + phase[0]) + 0.06 * np.sin(3 * angle + phase[1])
    around = np.stack([np.cos(angle), np.sin(angle)], -1)
    shapes: Floats = centres[:, None] + radius * ripple[..., None] * around
    return shapes


def rosette(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A flower with round petals, seen from above; `size` is its diameter."""
    petals, ring = _petals(rng, 6, 9)
    ring *= rng.normal(1, 0.06, (petals, 1))
    radius = 0.46 * spot.size / petals**0.62
    canvas.dots(spot.place(0.33 * ring), radius, colours[0])
    canvas.dots(spot.place(0.38 * ring), 0.55 * radius, lighter(colours[0], 0.16))
    canvas.dots(spot.place([(0, 0)]), 0.2 * spot.size, colours[0])
    canvas.dots(spot.place([(0, 0)]), 0.13 * spot.size, colours[2])


def star_flower(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A flower with pointed petals, seen from above; `size` is its diameter."""
    _, ring = _petals(rng, 7, 10)
    canvas.fill(leaves(spot.place(0.08 * ring), spot.place(0.5 * ring), 0.46), colours[0])
    veins = np.stack([spot.place(0.1 * ring), spot.place(0.4 * ring)], 1)
    canvas.line(veins, 0.025 * spot.size, darker(colours[0], 0.2))
    canvas.dots(spot.place([(0, 0)]), 0.14 * spot.size, darker(colours[0], 0.2))
    canvas.dots(spot.place([(0, 0)]), 0.1 * spot.size, colours[2])


def _petals(rng: Rng, least: int, most: int) -> tuple[int, Floats]:
    """How many petals, and the unit vectors they point along."""
    count = int(rng.integers(least, most))
    angles = rng.uniform(0, math.tau) + np.arange(count) * math.tau / count
    return count, np.stack([np.cos(angles), np.sin(angles)], -1)


def sprig(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A small plant or fallen flower; `size` is its height."""
    bend = rng.uniform(-0.25, 0.25)
    stem = spline([(0, 0.5), (bend * 0.4, 0.1), (bend, -0.4)], steps=6)
    canvas.line(spot.place(stem), 0.05 * spot.size, colours[0])
    roots = stem[2:11:2]
    side = np.where(np.arange(len(roots)) % 2, 1, -1)
    reach = rng.uniform(0.22, 0.36, len(roots))
    tips = roots + np.stack([side * reach, -0.8 * reach], -1)
    canvas.fill(leaves(spot.place(roots), spot.place(tips), 0.34), colours[0])
    around = rng.uniform(0, math.tau) + np.arange(5) * math.tau / 5
    petals = stem[-1] + 0.1 * np.stack([np.cos(around), np.sin(around)], -1)
    canvas.dots(spot.place(petals), 0.085 * spot.size, colours[1])
    canvas.dots(spot.place(stem[-1:]), 0.06 * spot.size, colours[2])


def corner_tuft(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """Scrolls that grow out of a corner of a frame; the spot is the corner, turned inwards."""
    for sign in (1, -1):
        turn = np.linspace(0, 1.25 * math.tau, 20)
        radius = 0.26 * np.exp(-0.22 * turn)
        curl = np.stack([0.7 - radius * np.cos(turn), sign * (0.26 - radius * np.sin(turn))], -1)
        stem = np.vstack([spline([(0.0, 0.0), (0.2, sign * 0.12)], steps=3), curl])
        canvas.line(spot.place(stem), 0.045 * spot.size, colours[0])
        canvas.dots(spot.place(stem[-1:]), 0.06 * spot.size, colours[1])
    ends = spot.place([(0.1, 0.0), (0.95, 0.0)])
    canvas.fill(leaves(ends[:1], ends[1:], 0.22), colours[1])
    canvas.dots(spot.place([(0, 0)]), 0.1 * spot.size, colours[0])


def medallion(canvas: Canvas, spot: Spot, colours: Colours, rng: Rng) -> None:
    """A round picture, still empty, in a moulded frame; colours are ground, frame, accent."""
    ground, frame, accent = colours[:3]
    centre, radius = spot.place([(0, 0)]), spot.size / 2
    for share, colour in (
        (1.0, darker(frame, 0.35)),
        (0.95, frame),
        (0.88, accent),
        (0.84, darker(frame, 0.2)),
        (0.8, ground),
    ):
        canvas.dots(centre, share * radius, colour)
    lit = arc(spot.x, spot.y, 0.915 * radius, math.pi * 0.9, math.pi * 1.6)
    canvas.line(lit, 0.05 * radius, lighter(frame, 0.45))


def garland(canvas: Canvas, box: Box, colours: Colours, rng: Rng) -> None:
    """A swag of leaves and fruit hung from the top corners of the box, with ribbons."""
    u = np.linspace(0, 1, 40)
    path = box.at(u, 0.82 * (1 - (2 * u - 1) ** 2))
    thickness = min(0.34 * box.height, 0.16 * box.width, 22.0)
    swell = thickness * (0.25 + 0.75 * np.sin(math.pi * u))
    canvas.brush(path, 0.75 * swell, darker(colours[0], 0.4))
    count = int(np.clip(3.2 * box.width / thickness, 14, 70))
    ahead = np.gradient(path, axis=0)
    ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
    for shade in (darker(colours[0], 0.2), colours[0], lighter(colours[0], 0.25)):
        at = rng.uniform(0.02, 0.98, count)
        index = (at * 39).astype(int)
        size = swell[index, None]
        across = np.stack([-ahead[index, 1], ahead[index, 0]], -1) * rng.uniform(
            -0.35, 0.35, (count, 1)
        )
        base = path[index] + across * size
        inwards = np.where(at < 0.5, 1, -1)[:, None]
        angle = rng.normal(0, 0.7, count)
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        heading = (
            ahead[index] * inwards * cos + np.stack([-ahead[index, 1], ahead[index, 0]], -1) * sin
        )
        canvas.fill(leaves(base, base + heading * (0.3 * thickness + 0.35 * size), 0.4), shade)
    for colour in colours[1:3]:
        index = rng.integers(4, 36, max(3, count // 7))
        offset = rng.uniform(-0.25, 0.25, (len(index), 2)) * swell[index, None]
        radius = rng.uniform(0.1, 0.17, len(index)) * thickness
        canvas.dots(path[index] + offset, radius, colour)
        canvas.dots(
            path[index] + offset - 0.3 * radius[:, None], 0.4 * radius, lighter(colour, 0.4)
        )
    for end, sway in ((path[0], -1), (path[-1], 1)):
        _ribbons(canvas, end, thickness, sway, colours[1], rng)


def _ribbons(canvas: Canvas, end: Floats, size: float, sway: int, colour: Colour, rng: Rng) -> None:
    for k in range(2):
        drop = rng.uniform(1.2, 2.0) * size
        lean = sway * (0.5 + 0.5 * k) * rng.uniform(0.2, 0.5) * size
        knots = [(0, 0), (lean, 0.3 * drop), (0.2 * lean, 0.65 * drop), (1.2 * lean, drop)]
        tail = end + spline(knots, steps=5)
        canvas.brush(tail, np.linspace(0.07, 0.2, len(tail)) * size, colour)
    loops = np.stack(
        [arc(0, 0, 0.2 * size, points=14) * (1, 0.6) + (x * 0.22 * size, 0) for x in (-1, 1)]
    )
    canvas.line(end + loops, 0.07 * size, colour)
    canvas.dots(end, 0.1 * size, colour)


def candelabrum(canvas: Canvas, box: Box, colours: Colours, rng: Rng) -> None:
    """A slender stand with leaves, discs and volutes, filling the height of the box."""
    ink, accent, third = colours[:3]
    shade, light = darker(ink, 0.35), lighter(ink, 0.35)
    x = box.centre[0]
    wide = min(box.width, 0.3 * box.height)
    shaft = max(0.1 * wide, 1.0)

    def turned(y: float, height: float, profile: Any, colour: Colour) -> None:
        """A part turned on a lathe: half-widths given from its top to its foot."""
        half = np.asarray(profile) * wide
        v = np.linspace(y, y + height, len(half))
        right = spline(np.stack([x + half, v], -1), steps=4)
        left = right * (-1, 1) + (2 * x, 0)
        canvas.fill(np.vstack([right, left[::-1]]), colour)
        shadow = np.vstack([right, (right * (0.35, 1) + (0.65 * x, 0))[::-1]])
        canvas.fill(shadow, darker(colour, 0.25))

    def pair(y: float, reach: float, rise: float, colour: Colour) -> None:
        for side in (-1, 1):
            knots = [(0, 0), (0.5 * side * reach, -0.1 * rise), (side * reach, -rise)]
            frond = np.array([x, y]) + spline(knots, steps=5)
            canvas.brush(frond, np.linspace(0.16, 0.03, len(frond)) * wide, colour)

    canvas.straight((x, box.y0), (x, box.y1), shaft, ink)
    canvas.straight((x + 0.3 * shaft, box.y0), (x + 0.3 * shaft, box.y1), 0.4 * shaft, shade)
    canvas.straight((x - 0.3 * shaft, box.y0), (x - 0.3 * shaft, box.y1), 0.25 * shaft, light)
    foot = 0.5 * wide
    for side in (-1, 0, 1):
        knots = [(0, -foot), (side * 0.2 * wide, -0.5 * foot), (side * 0.5 * wide, 0)]
        leg = np.array([x, box.y1]) + spline(knots, steps=4)
        canvas.brush(leg, np.linspace(0.16, 0.1, len(leg)) * wide, ink if side else shade)
    turned(box.y1 - 1.25 * foot, 0.3 * foot, (0.12, 0.3, 0.12), accent)
    y = box.y1 - 1.4 * foot
    step = 0.42 * wide
    while y > box.y0 + 1.6 * wide:
        y -= step * rng.uniform(0.5, 1.4)
        kind = int(rng.integers(7))
        if kind == 0:
            turned(y, 0.1 * wide, (0.3, 0.42, 0.3), ink)
        elif kind == 1:
            turned(y, 0.34 * wide, (0.36, 0.3, 0.1, 0.08), accent)
        elif kind == 2:
            pair(y, 0.5 * wide, 0.3 * wide, third)
            pair(y, 0.3 * wide, 0.4 * wide, lighter(third, 0.2))
        elif kind == 3:
            turned(y, 0.4 * wide, (0.08, 0.22, 0.14, 0.06), ink)
        elif kind == 4:
            _volutes(canvas, x, y, 0.34 * wide, 0.06 * wide, ink)
        elif kind == 5:
            ends = np.array([(x - 0.42 * wide, y), (x + 0.42 * wide, y)])
            canvas.straight(ends[0], ends[1], 0.06 * wide, accent)
            drops = ends + np.array([0, 0.26 * wide])
            canvas.line(np.stack([ends, drops], 1), 0.03 * wide, accent)
            canvas.dots(drops, 0.07 * wide, third)
        else:
            canvas.dots(np.array([(x, y)]), 0.15 * wide, accent)
            canvas.dots(
                np.array([(x - 0.04 * wide, y - 0.04 * wide)]), 0.06 * wide, lighter(accent, 0.5)
            )
    top = box.y0 + 0.85 * wide
    pair(top + 0.2 * wide, 0.42 * wide, 0.2 * wide, third)
    turned(top - 0.3 * wide, 0.4 * wide, (0.44, 0.4, 0.22, 0.06), ink)
    for lean in (-0.12, 0.0, 0.12):
        tongue = spline([(lean, -0.3), (lean + 0.08, -0.5), (lean - 0.02, -0.8)], steps=4)
        flame = np.array([x, top]) + tongue * wide
        canvas.brush(
            flame, np.linspace(0.14, 0.02, len(flame)) * wide, mix(accent, third, 0.5 + 2 * lean)
        )


def _volutes(canvas: Canvas, x: float, y: float, size: float, width: float, colour: Colour) -> None:
    turn = np.linspace(0, 1.3 * math.tau, 22)
    radius = 0.5 * size * np.exp(-0.2 * turn)
    for side in (-1, 1):
        curl = np.stack([side * (0.75 * size - radius * np.cos(turn)), -radius * np.sin(turn)], -1)
        canvas.line(np.array([x, y]) + np.vstack([[(0.0, 0.5 * size)], curl]), width, colour)


def leaves(bases: Floats, tips: Floats, plump: float) -> Floats:
    """Pointed ovals, (K, 12, 2), from (K, 2) bases to tips; `plump` is width over length."""
    u = np.linspace(0, 1, 7)
    half = 0.5 * plump * np.sin(math.pi * u**0.85)
    outline = np.vstack([np.stack([u, half], -1), np.stack([u, -half], -1)[-2:0:-1]])
    along = (tips - bases)[:, None]
    across = np.stack([-along[..., 1], along[..., 0]], -1)
    shapes: Floats = bases[:, None] + outline[:, :1] * along + outline[:, 1:] * across
    return shapes


def _lane(track: Track, t: float, share: float) -> Track:
    """A narrower track within a track: its middle at `t`, `share` of the width."""
    width = share * track.width
    if isinstance(track, Ring):
        return Ring(track.x, track.y, track.radius - t * track.width, width)
    (x0, y0), (x1, y1) = track.place(np.array([0.0, track.length]), t)
    return Run(float(x0), float(y0), float(x1), float(y1), width)


def _edges(canvas: Canvas, track: Track, colour: Colour, share: float) -> None:
    """Thin lines along both sides."""
    for t in (-0.5 + share / 2, 0.5 - share / 2):
        lane = _lane(track, t, share)
        if isinstance(lane, Run):
            canvas.straight((lane.x0, lane.y0), (lane.x1, lane.y1), lane.width, colour)
        else:
            canvas.line(arc(lane.x, lane.y, lane.radius, points=72)[:-1], lane.width, colour, True)


def _repeat(unit: Floats, count: int, period: float) -> tuple[Floats, Floats]:
    """One path through `count` copies of a unit (N, 2), u of a period along: s in mm, and t."""
    s = (np.arange(count)[:, None] + unit[:, 0]) * period
    return s.ravel(), np.tile(unit[:, 1], count)


def _cells(
    track: Track, unit: Floats, count: int, period: float, mirror: Floats | None = None
) -> Floats:
    """(count, N, 2) on the wall: a unit of (u, t), u of a period along, repeated along the track.

    Args:
        mirror: (count,), 1 or -1: which repeats are turned upside down.
    """
    s = (np.arange(count)[:, None] + unit[:, 0]) * period
    t = unit[:, 1] if mirror is None else mirror[:, None] * unit[:, 1]
    return track.place(s, t)


def _smooth_run(track: Track, s: Floats, t: Floats) -> Floats:
    """The path on the wall; on a ring, long steps are divided so that they bend with it."""
    if isinstance(track, Run):
        return track.place(s, t)
    fine = np.linspace(0, len(s) - 1, 3 * (len(s) - 1) + 1)
    index = np.arange(len(s))
    return track.place(np.interp(fine, index, s), np.interp(fine, index, t))
