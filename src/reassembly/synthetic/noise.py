"""Random fields for breaks and photographs, cheap enough to draw afresh for every piece.

A field is a window of a tile that is made once per process, taken at a random place and stretched
to the wanted wavelength. Tiles look the same in all directions, so that nothing in a field follows
the axes of the picture.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.synthetic.arrays import Floats

__all__ = ["rough_field", "rough_line", "smooth_field", "white_noise"]

TILE_PX = 1024
SMOOTH_WAVELENGTH_PX = 32
"""Wavelength, in pixels of the tile, around which the smooth tile is concentrated."""


def smooth_field(rng: np.random.Generator, shape: tuple[int, int], wavelength_px: float) -> Floats:
    """(H, W) field of mean 0 and variance 1 that rises and falls within about one wavelength."""
    return _sample(rng, _smooth_tile(), shape, SMOOTH_WAVELENGTH_PX / wavelength_px)


def rough_field(
    rng: np.random.Generator, shape: tuple[int, int], longest_px: float, exponent: float = 1.0
) -> Floats:
    """(H, W) self-affine field of mean 0 and variance 1.

    Args:
        longest_px: wavelength above which there is nothing.
        exponent: along a line, amplitude falls with wavelength to this power.
    """
    tile_longest_px = 2 ** int(math.log2(min(max(longest_px, 4), TILE_PX / 4)))
    tile = _rough_tile(tile_longest_px, exponent)
    return _sample(rng, tile, shape, tile_longest_px / longest_px)


def rough_line(
    rng: np.random.Generator, count: int, longest_px: float, exponent: float = 1.0
) -> NDArray[np.float64]:
    """(count,) self-affine profile of mean 0 and variance about 1, one value a pixel."""
    amplitudes = _amplitudes(np.fft.rfftfreq(2 * count), 1 / longest_px, exponent)
    real, imaginary = rng.normal(size=(2, count + 1))
    profile = np.fft.irfft((real + 1j * imaginary) * amplitudes, 2 * count)[:count]
    power = float((amplitudes**2).sum()) / count**2
    return np.asarray(profile / math.sqrt(max(power, 1e-30)))


def white_noise(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """(H, W, 3) of independent values of mean 0 and variance 1."""
    return _window(rng, _white_tile(), shape)


def _sample(rng: np.random.Generator, tile: Floats, shape: tuple[int, int], zoom: float) -> Floats:
    """A window of a tile, stretched to `shape`: `zoom` of its pixels a pixel."""
    height, width = (max(2, math.ceil(side * zoom)) for side in shape)
    window = _window(rng, tile, (height, width))
    return np.asarray(cv2.resize(window, shape[::-1]))


def _window(rng: np.random.Generator, tile: Floats, shape: tuple[int, int]) -> Floats:
    """A window at a random place of a tile; one larger than the tile repeats it."""
    starts = [int(rng.integers(max(TILE_PX - size, 0) + 1)) for size in shape]
    if max(shape) <= TILE_PX:
        return tile[starts[0] : starts[0] + shape[0], starts[1] : starts[1] + shape[1]]
    rows, columns = (
        np.arange(a, a + size) % TILE_PX for a, size in zip(starts, shape, strict=True)
    )
    return tile[rows[:, None], columns]


def _amplitudes(frequencies: NDArray[Any], lowest: float, exponent: float) -> NDArray[np.float64]:
    shape = np.where(frequencies > lowest, np.maximum(frequencies, lowest), np.inf)
    return np.asarray((shape / lowest) ** -exponent)


def _tile(amplitude: NDArray[np.float64], seed: int) -> Floats:
    """Periodic Gaussian field of variance 1 with the given amplitude at every frequency."""
    white = np.fft.rfft2(np.random.default_rng(seed).standard_normal((TILE_PX, TILE_PX)))
    field = np.fft.irfft2(white * amplitude, (TILE_PX, TILE_PX))
    return np.asarray(field / field.std(), dtype=np.float32)


def _radius() -> NDArray[np.float64]:
    """Frequency, in waves a pixel, of every entry of a tile's half spectrum."""
    return np.asarray(np.hypot(np.fft.fftfreq(TILE_PX)[:, None], np.fft.rfftfreq(TILE_PX)[None]))


@lru_cache(maxsize=1)
def _smooth_tile() -> Floats:
    # A band around the wavelength rather than everything above it: the mean over any large
    # window stays near 0, so that one piece is not worn twice as much as the next by chance.
    octaves = np.log2(np.maximum(_radius(), 1e-9) * SMOOTH_WAVELENGTH_PX)
    return _tile(np.exp(-0.5 * (octaves / 0.5) ** 2), seed=1)


@lru_cache(maxsize=8)
def _rough_tile(longest_px: int, exponent: float) -> Floats:
    # One half more than along a line, since a line through a plane sums over a whole direction.
    return _tile(_amplitudes(_radius(), 1 / longest_px, exponent + 0.5), seed=2)


@lru_cache(maxsize=1)
def _white_tile() -> Floats:
    return np.random.default_rng(3).standard_normal((TILE_PX, TILE_PX, 3), dtype=np.float32)
