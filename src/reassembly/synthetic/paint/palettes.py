"""Pigments as they look on an old wall, and which of them the painters of each style combined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reassembly.synthetic.paint.canvas import Colour

__all__ = ["SCHEMES", "Scheme", "darker", "legible", "lighter", "mix", "vary"]

LIME: Colour = (230, 225, 212)
CREAM: Colour = (223, 207, 172)
IVORY: Colour = (236, 226, 198)
OCHRE: Colour = (203, 150, 66)
GOLD: Colour = (221, 178, 98)
RED_OCHRE: Colour = (152, 62, 44)
CINNABAR: Colour = (172, 54, 38)
ROSE: Colour = (201, 136, 116)
HAEMATITE: Colour = (112, 56, 62)
BURNT: Colour = (98, 46, 36)
BLUE: Colour = (74, 112, 148)
SKY: Colour = (146, 172, 182)
GREEN: Colour = (98, 122, 92)
SAGE: Colour = (150, 163, 136)
OLIVE: Colour = (112, 112, 62)
BLACK: Colour = (42, 38, 38)
GREY: Colour = (132, 128, 122)
BROWN: Colour = (98, 68, 48)
PALE: Colour = (216, 214, 207)
FLESH: Colour = (206, 160, 126)
RUST: Colour = (178, 92, 66)
DOVE: Colour = (128, 152, 170)
MOSS: Colour = (128, 140, 112)


@dataclass(frozen=True)
class Scheme:
    """The colours of one wall."""

    field: Colour
    """Of the large fields."""
    second: Colour
    """Of the fields between or around them."""
    dado: Colour
    """Of the zone at the foot."""
    line: Colour
    """Of bands and lines on the field."""
    border: tuple[Colour, Colour, Colour]
    """Ground, drawing and accent of ornamental borders."""
    motifs: tuple[Colour, Colour, Colour]
    """Of small ornaments on the field."""


SCHEMES: dict[str, tuple[Scheme, ...]] = {
    "first": (
        Scheme(
            CREAM, RED_OCHRE, HAEMATITE, BURNT, (IVORY, HAEMATITE, OCHRE), (BURNT, OCHRE, GREEN)
        ),
        Scheme(OCHRE, GREEN, BLACK, BROWN, (LIME, GREEN, RED_OCHRE), (BROWN, HAEMATITE, GREEN)),
        Scheme(ROSE, SAGE, OCHRE, BURNT, (IVORY, BURNT, GREEN), (BURNT, GREEN, OCHRE)),
        Scheme(LIME, GREY, RED_OCHRE, BLACK, (CREAM, BLACK, RED_OCHRE), (BLACK, RED_OCHRE, BLUE)),
    ),
    "second": (
        Scheme(CINNABAR, HAEMATITE, OCHRE, IVORY, (BLACK, GOLD, IVORY), (GOLD, IVORY, SAGE)),
        Scheme(OCHRE, RED_OCHRE, HAEMATITE, BURNT, (HAEMATITE, GOLD, SKY), (BURNT, GREEN, IVORY)),
        Scheme(SAGE, ROSE, BURNT, BURNT, (IVORY, BURNT, BLUE), (BURNT, OCHRE, IVORY)),
        Scheme(IVORY, OCHRE, GREEN, RED_OCHRE, (RED_OCHRE, IVORY, GOLD), (RED_OCHRE, GREEN, BLUE)),
    ),
    "third": (
        Scheme(CINNABAR, BLACK, BLACK, IVORY, (BLACK, IVORY, SKY), (GOLD, IVORY, SAGE)),
        Scheme(BLACK, RED_OCHRE, HAEMATITE, CREAM, (HAEMATITE, GOLD, SAGE), (GOLD, SKY, ROSE)),
        Scheme(LIME, HAEMATITE, BLACK, RED_OCHRE, (BLACK, CREAM, ROSE), (GREEN, HAEMATITE, OCHRE)),
        Scheme(OCHRE, CINNABAR, BLACK, IVORY, (BLACK, GOLD, SKY), (BURNT, IVORY, GREEN)),
        Scheme(RED_OCHRE, OCHRE, HAEMATITE, GOLD, (IVORY, HAEMATITE, BLUE), (GOLD, SAGE, IVORY)),
        Scheme(SKY, CREAM, HAEMATITE, BURNT, (IVORY, BURNT, BLUE), (BURNT, IVORY, BLUE)),
    ),
    "fourth": (
        Scheme(OCHRE, CINNABAR, BLACK, IVORY, (OCHRE, BURNT, IVORY), (BURNT, IVORY, GREEN)),
        Scheme(CINNABAR, LIME, HAEMATITE, GOLD, (CINNABAR, GOLD, IVORY), (GOLD, IVORY, SKY)),
        Scheme(
            LIME, OCHRE, RED_OCHRE, RED_OCHRE, (CREAM, RED_OCHRE, OCHRE), (RED_OCHRE, BLUE, GREEN)
        ),
        Scheme(BLACK, CINNABAR, HAEMATITE, GOLD, (BLACK, GOLD, SAGE), (GOLD, ROSE, SKY)),
        Scheme(BLUE, OCHRE, BURNT, IVORY, (OCHRE, BURNT, IVORY), (GOLD, IVORY, ROSE)),
        Scheme(
            IVORY, RED_OCHRE, BLACK, HAEMATITE, (GOLD, RED_OCHRE, BURNT), (HAEMATITE, GREEN, OCHRE)
        ),
    ),
    "ceiling": (
        Scheme(LIME, CREAM, LIME, RED_OCHRE, (CREAM, RED_OCHRE, OCHRE), (RED_OCHRE, BLUE, GREEN)),
        Scheme(LIME, IVORY, LIME, HAEMATITE, (IVORY, HAEMATITE, GREEN), (HAEMATITE, GREEN, OCHRE)),
        Scheme(IVORY, ROSE, IVORY, RED_OCHRE, (GOLD, RED_OCHRE, BURNT), (RED_OCHRE, SKY, SAGE)),
        Scheme(CREAM, SKY, CREAM, BURNT, (SKY, BURNT, IVORY), (BURNT, BLUE, RED_OCHRE)),
        Scheme(RED_OCHRE, BURNT, RED_OCHRE, GOLD, (BURNT, GOLD, IVORY), (GOLD, IVORY, SKY)),
        Scheme(OCHRE, CREAM, OCHRE, BURNT, (CREAM, BURNT, GREEN), (BURNT, IVORY, GREEN)),
    ),
    "linear": (
        Scheme(
            LIME, LIME, RED_OCHRE, RED_OCHRE, (CREAM, RED_OCHRE, OCHRE), (RED_OCHRE, GREEN, OCHRE)
        ),
        Scheme(
            IVORY, LIME, HAEMATITE, RED_OCHRE, (GOLD, RED_OCHRE, BURNT), (GREEN, RED_OCHRE, BLUE)
        ),
        Scheme(LIME, IVORY, OCHRE, HAEMATITE, (OCHRE, HAEMATITE, IVORY), (HAEMATITE, SAGE, ROSE)),
        Scheme(LIME, LIME, BLACK, RED_OCHRE, (IVORY, BLACK, RED_OCHRE), (OLIVE, RED_OCHRE, OCHRE)),
        Scheme(CREAM, LIME, BURNT, GREEN, (IVORY, GREEN, RED_OCHRE), (RED_OCHRE, GREEN, BLUE)),
    ),
    "lattice": (
        Scheme(PALE, LIME, RED_OCHRE, RED_OCHRE, (CREAM, RED_OCHRE, OCHRE), (RUST, DOVE, SAGE)),
        Scheme(PALE, PALE, HAEMATITE, RUST, (GOLD, HAEMATITE, OCHRE), (RUST, DOVE, MOSS)),
        Scheme(PALE, LIME, BROWN, RUST, (GOLD, RED_OCHRE, BURNT), (RED_OCHRE, SKY, SAGE)),
        Scheme(LIME, PALE, RUST, RED_OCHRE, (OCHRE, HAEMATITE, IVORY), (RUST, HAEMATITE, MOSS)),
        Scheme(PALE, PALE, RED_OCHRE, RED_OCHRE, (CREAM, RUST, GOLD), (RUST, DOVE, OLIVE)),
        Scheme(PALE, LIME, HAEMATITE, RED_OCHRE, (GOLD, RUST, OCHRE), (RUST, SKY, MOSS)),
        Scheme(PALE, PALE, BURNT, BROWN, (CREAM, RUST, GOLD), (BROWN, DOVE, OLIVE)),
        Scheme(LIME, LIME, RUST, RUST, (GOLD, RUST, HAEMATITE), (RUST, DOVE, SAGE)),
        Scheme(LIME, PALE, HAEMATITE, HAEMATITE, (CREAM, RUST, OCHRE), (HAEMATITE, GREY, OLIVE)),
        Scheme(PALE, LIME, OCHRE, RUST, (OCHRE, RUST, GREEN), (OCHRE, DOVE, MOSS)),
    ),
}


def mix(a: Colour, b: Colour, share: float) -> Colour:
    """The colour `share` of the way from a to b."""
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


def lighter(colour: Colour, share: float = 0.3) -> Colour:
    """The colour with lime white mixed in."""
    return mix(colour, (246, 238, 220), share)


def darker(colour: Colour, share: float = 0.3) -> Colour:
    """The colour with black mixed in."""
    return mix(colour, (26, 22, 22), share)


def legible(ground: Colour, *inks: Colour) -> Colour:
    """The first of the inks that stands out from the ground, or the one that does so most."""
    distances = [sum(abs(x - y) for x, y in zip(ground, ink, strict=True)) for ink in inks]
    clear = (ink for ink, distance in zip(inks, distances, strict=True) if distance > 150)
    return next(clear, inks[distances.index(max(distances))])


def vary(colour: Colour, rng: np.random.Generator, amount: float = 7.0) -> Colour:
    """The colour as another batch of the same pigment would give it."""
    light, *tint = rng.normal(0, amount, 4)
    red, green, blue = (
        int(np.clip(channel + light + 0.4 * shift, 0, 255))
        for channel, shift in zip(colour, tint, strict=True)
    )
    return red, green, blue
