"""Lime plaster as the painter finds it: mottled, trowelled, grainy; and the noise all this needs.

A map is uint8 (H, W), neutral at 128. Patterns have a size in mm and keep their place when the
resolution changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.synthetic.paint.canvas import Colour
from reassembly.synthetic.paint.palettes import darker, lighter

__all__ = ["Image", "Sheet", "clouds", "coloured", "grain", "plaster", "trowel_marks", "weighed"]

Image = NDArray[np.uint8]

GRAIN_MM = 0.2
GRAIN_TILE = 1024
TROWEL_MM = 1.0
SPREAD = 36.0
"""Standard deviation of a map, in grey levels."""


@dataclass(frozen=True)
class Sheet:
    """The size of a picture, in pixels and on the wall."""

    width_px: int
    height_px: int
    mm_per_px: float

    @property
    def width_mm(self) -> float:
        return self.width_px * self.mm_per_px

    @property
    def height_mm(self) -> float:
        return self.height_px * self.mm_per_px

    @property
    def size_px(self) -> tuple[int, int]:
        return self.width_px, self.height_px


def clouds(
    rng: np.random.Generator, sheet: Sheet, cell_mm: float, octaves: int = 3, stretch: float = 1.0
) -> Image:
    """A map of soft patches.

    Args:
        cell_mm: the size of the largest patches.
        octaves: how many times patches of half the size and half the strength are added.
        stretch: how much longer than high the patches are.
    """
    finest = cell_mm / 2 ** (octaves - 1)
    width, height = (
        max(2, min(pixels, math.ceil(4 * extent / size)))
        for pixels, extent, size in (
            (sheet.width_px, sheet.width_mm, finest * stretch),
            (sheet.height_px, sheet.height_mm, finest),
        )
    )
    total = np.zeros((height, width), np.float32)
    for octave in range(octaves):
        size = cell_mm / 2**octave
        columns = max(2, round(sheet.width_mm / (size * stretch)) + 1)
        rows = max(2, round(sheet.height_mm / size) + 1)
        knots = rng.standard_normal((rows, columns), np.float32)
        total += cv2.resize(knots, (width, height), interpolation=cv2.INTER_CUBIC) / 2**octave
    return _enlarged(_as_map(total, 0.75), sheet)


def grain(rng: np.random.Generator, sheet: Sheet) -> Image:
    """A map of fine grain: sand, brush hairs, crumbs, from a fifth of a mm to some mm."""
    level = max(0, math.floor(math.log2(sheet.mm_per_px / GRAIN_MM)))
    tile = _grain_tile(level)
    tile_mm = GRAIN_MM * 2**level
    height, width = (max(2, math.ceil(mm / tile_mm)) for mm in (sheet.height_mm, sheet.width_mm))
    top, left = (rng.random(2) * len(tile)).astype(int).tolist()
    copies = math.ceil((top + height) / len(tile)), math.ceil((left + width) / len(tile))
    repeated = np.asarray(cv2.repeat(tile, *copies), np.uint8)
    return _enlarged(repeated[top : top + height, left : left + width], sheet)


def trowel_marks(rng: np.random.Generator, sheet: Sheet) -> Image:
    """A map of the relief that the float leaves: long shallow strokes in one direction."""
    coarse = Sheet(
        max(8, round(sheet.width_mm / TROWEL_MM)),
        max(8, round(sheet.height_mm / TROWEL_MM)),
        TROWEL_MM,
    )
    strokes = clouds(rng, coarse, 7.0, octaves=2, stretch=9.0)
    angle_deg = float(rng.uniform(-30, 30))
    turn = cv2.getRotationMatrix2D((coarse.width_px / 2, coarse.height_px / 2), angle_deg, 1.0)
    turned = cv2.warpAffine(strokes, turn, coarse.size_px, borderMode=cv2.BORDER_REFLECT)
    strokes = np.asarray(turned, np.uint8)
    return _enlarged(weighed(strokes, 0.9, np.roll(strokes, 2, axis=0), -0.9), sheet)


def plaster(rng: np.random.Generator, sheet: Sheet, colour: Colour, fine: Image) -> Image:
    """(H, W, 3): bare lime plaster of the given colour, clouded, with the map `fine` as grain."""
    mottled = weighed(clouds(rng, sheet, 55.0, 4), 0.65, fine, 0.35)
    return coloured(mottled, (darker(colour, 0.3), colour, colour, lighter(colour, 0.45)))


def coloured(values: Image, ramp: Sequence[Colour]) -> Image:
    """(H, W, 3): a map's values looked up in a ramp of colours, evenly spread over 0 to 255."""
    at = np.linspace(0, 255, len(ramp))
    tables = [
        np.interp(np.arange(256), at, [colour[k] for colour in ramp]).astype(np.uint8)
        for k in range(3)
    ]
    return np.asarray(cv2.merge([cv2.LUT(values, table) for table in tables]), np.uint8)


def weighed(a: Image, share_a: float, b: Image, share_b: float) -> Image:
    """The weighted sum of two maps, again neutral at 128."""
    centre = 128 * (1 - share_a - share_b)
    return np.asarray(cv2.addWeighted(a, share_a, b, share_b, centre), np.uint8)


def _as_map(values: NDArray[np.float32], deviation: float) -> Image:
    scaled = np.clip(values * (SPREAD / deviation) + 128, 0, 255)
    return np.asarray(scaled, np.uint8)


def _enlarged(values: Image, sheet: Sheet) -> Image:
    shrinks = values.shape[0] > sheet.height_px
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(values, sheet.size_px, interpolation=how), np.uint8)


@lru_cache(maxsize=12)
def _grain_tile(level: int) -> Image:
    """A tile that repeats without seams, one pixel for GRAIN_MM times 2 to the `level`."""
    if level:
        size = max(8, GRAIN_TILE >> level)
        shrunk = cv2.resize(_grain_tile(0), (size, size), interpolation=cv2.INTER_AREA)
        return np.asarray(shrunk, np.uint8)
    white = np.random.default_rng(0).standard_normal((GRAIN_TILE, GRAIN_TILE))
    frequency = np.hypot(np.fft.fftfreq(GRAIN_TILE)[:, None], np.fft.rfftfreq(GRAIN_TILE)[None])
    spectrum = np.fft.rfft2(white) / np.maximum(frequency, 1 / 48) ** 0.8
    values = np.fft.irfft2(spectrum, s=white.shape)
    return _as_map((values / values.std()).astype(np.float32), 1.0)
