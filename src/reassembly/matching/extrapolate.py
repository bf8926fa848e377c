"""Extrapolation: what a fragment's paint would look like a little beyond its rim.

Any function of the type `Extrapolate` serves; `by_exemplars` is ours. Another one, such as
out-painting by a diffusion model, is passed to a solver as a function or, from the command line,
by its import path `package.module:function` (see `extrapolator`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.errors import InputError

__all__ = ["Extrapolate", "by_exemplars", "extrapolator", "nearest_paint", "rings"]

Image = NDArray[np.uint8]
Floats = NDArray[np.float32]

Extrapolate = Callable[[Image, int], Image]
"""Called with a picture and a width in pixels, returns the picture with a painted band.

- The picture is (H, W, 4), RGBA of uint8: alpha is 255 on the fragment and 0 elsewhere, where the
  colours are 0. It leaves room for the band on all sides. It may show several parts.
- The band is every pixel outside the fragment whose distance from it is at most the width.
- What comes back is (H, W, 3) or (H, W, 4) of uint8. Its colours are used in the band alone: the
  fragment keeps its own, alpha and all beyond the band is ignored.
- The same input must give the same output: a method that draws random numbers seeds itself.
"""

BLOCK_PX = 2
"""The band is painted in squares of this side."""
PATCH_PX = 3
"""Patches reach so far beyond the square in their middle."""
MOST_SOURCES = 1000
NEAR_RIM_PX = 30
"""Patches to copy from are no deeper inside than this."""
FEWEST_SOURCES = 30
"""With fewer patches to copy from, the nearest paint is as good a guess."""
VOTES = 5
"""How many of the most similar patches paint a square together."""
NEARNESS = 0.02
"""What a pixel of distance between a patch and its source costs, in units of colour (0 to 255)
root mean square over the patch: the paint nearby is the likeliest to go on."""
BLUNT = 2.0
"""Differences between patches below this, in the same units, do not count."""


def extrapolator(choice: str | Extrapolate) -> Extrapolate:
    """The function itself, given as such or by its import path.

    Args:
        choice: a function of the type `Extrapolate`, or `package.module:function`, of what is
            installed or lies in the working folder.

    Raises:
        InputError: where the path leads to nothing that can be called.
    """
    if not isinstance(choice, str):
        return choice
    module, colon, name = choice.partition(":")
    remedy = "Write package.module:function, and see that Python finds the package"
    if not (module and colon and name):
        raise InputError(f"{choice!r} is no import path of a function", remedy)
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"the extrapolator {choice!r} cannot be imported ({error})", remedy) from (
            error
        )
    if not callable(function):
        raise InputError(f"the extrapolator {choice!r} is no function", remedy)
    found: Extrapolate = function
    return found


def rings(known: NDArray[np.bool_], width_px: int) -> NDArray[np.int32]:
    """(H, W): 0 on the fragment, k in its k-th ring of one pixel, -1 beyond the band."""
    distance = cv2.distanceTransform((~known).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    ring = np.ceil(distance - 1e-4).astype(np.int32)
    return np.where(ring <= width_px, ring, -1)


def nearest_paint(image: Image, width_px: int) -> Image:
    """The band in the colour of the nearest pixel of the fragment, an `Extrapolate`."""
    known = image[..., 3] > 0
    band = rings(known, width_px) > 0
    filled = image.copy()
    if known.any():
        _, labels = cv2.distanceTransformWithLabels(
            (~known).astype(np.uint8),
            cv2.DIST_L2,
            cv2.DIST_MASK_5,
            labelType=cv2.DIST_LABEL_PIXEL,
        )
        palette = np.zeros((labels.max() + 1, 3), np.uint8)
        palette[labels[known]] = image[known][:, :3]
        filled[band] = np.column_stack([palette[labels[band]], np.full(band.sum(), 255)])
    return filled


def by_exemplars(image: Image, width_px: int) -> Image:
    """The band painted outwards with what follows similar paint elsewhere on the fragment, an
    `Extrapolate`.

    Each small square of pixels looks at the paint around it that is there already, own or
    extrapolated, for the patches of the fragment that resemble it best, the nearer ones first, and
    takes the mean of their middles. Lines and patterns that cross the rim thus go on, and where
    nothing similar is found colours blur, which errs least.
    """
    ring = rings(image[..., 3] > 0, width_px)
    filled = nearest_paint(image, width_px)
    sources = _source_pixels(ring == 0)
    if len(sources) < FEWEST_SOURCES:
        return filled
    size = 2 * PATCH_PX + BLOCK_PX
    margins = 2 * ((PATCH_PX, PATCH_PX + BLOCK_PX),)
    paint = np.pad(image[..., :3].astype(np.float32), (*margins, (0, 0)))
    there = np.pad((ring == 0).astype(np.float32), margins)
    wanted = np.pad(ring > 0, margins)
    around = np.mgrid[:size, :size].reshape(2, -1, 1)
    middle = np.mgrid[:BLOCK_PX, :BLOCK_PX].reshape(2, -1, 1) + PATCH_PX
    exemplars = _patches(paint, around, sources)
    middles = _patches(paint, middle, sources)
    # The squared distance between patches, weighted, and between places: one matrix product.
    places = NEARNESS * sources.astype(np.float32)
    squares = (exemplars**2).reshape(len(sources), -1, 3).sum(axis=2)
    nearness = (places**2).sum(axis=1, keepdims=True)
    columns = np.hstack([squares, exemplars, places, nearness]).T
    for at in _blocks(ring):
        rows, cells = around[0] + at[:, 0], around[1] + at[:, 1]
        weight = there[rows, cells].T
        weight /= weight.sum(axis=1, keepdims=True)
        target = _patches(paint, around, at)
        weighted = target * np.repeat(weight, 3, axis=1)
        here = NEARNESS * at.astype(np.float32)
        own = (weighted * target).sum(axis=1) + (here**2).sum(axis=1)
        cost = np.hstack([weight, -2 * weighted, -2 * here, np.ones_like(here[:, :1])]) @ columns
        best = np.argpartition(cost, VOTES, axis=1)[:, :VOTES]
        cost = np.take_along_axis(cost, best, axis=1) + own[:, None]
        votes = 1 / (np.maximum(cost, 0) + BLUNT**2)
        votes /= votes.sum(axis=1, keepdims=True)
        colours = np.einsum("nv,nvc->nc", votes, middles[best]).reshape(len(at), -1, 3)
        rows, cells = (middle + at.T[:, None]).transpose(0, 2, 1)
        new = wanted[rows, cells]
        rows, cells = rows[new], cells[new]
        paint[rows, cells] = colours[new]
        there[rows, cells] = 1
        filled[rows - PATCH_PX, cells - PATCH_PX, :3] = np.rint(colours[new])
    return filled


def _blocks(ring: NDArray[np.int32]) -> Iterator[NDArray[np.intp]]:
    """(N, 2), row and column of the first pixel, of all blocks with some of the band in them, in
    turns from the rim outwards."""
    height, width = (-(-length // BLOCK_PX) for length in ring.shape)
    beyond = np.iinfo(np.int32).max
    padded = np.full((BLOCK_PX * height, BLOCK_PX * width), beyond, np.int32)
    padded[: ring.shape[0], : ring.shape[1]] = np.where(ring > 0, ring, beyond)
    first = padded.reshape(height, BLOCK_PX, width, BLOCK_PX).min(axis=(1, 3))
    rows, columns = np.nonzero(first < beyond)
    turn = (first[rows, columns] - 1) // BLOCK_PX
    blocks = BLOCK_PX * np.column_stack([rows, columns])
    return (blocks[turn == k] for k in np.unique(turn).tolist())


def _source_pixels(known: NDArray[np.bool_]) -> NDArray[np.intp]:
    """(N, 2), row and column of the first pixels of blocks in the middle of whole patches; if
    there are many, some of those near the rim."""
    inside = cv2.distanceTransform(np.pad(known, 1).astype(np.uint8), cv2.DIST_C, cv2.DIST_MASK_3)[
        1:-1, 1:-1
    ]
    pixels = np.argwhere((inside >= PATCH_PX + BLOCK_PX) & (inside <= NEAR_RIM_PX))
    return pixels[:: -(-len(pixels) // MOST_SOURCES) or 1]


def _patches(paint: Floats, around: NDArray[np.intp], corners: NDArray[np.intp]) -> Floats:
    """(N, K * 3): K colours around (N, 2) pixels of the picture before padding."""
    patches = paint[around[0] + corners[:, 0], around[1] + corners[:, 1]]
    return np.ascontiguousarray(patches.transpose(1, 0, 2)).reshape(len(corners), -1)
