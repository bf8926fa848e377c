"""Photographing one piece on its own: turned at random, lit and focused a little differently.

What comes out is what a scanner gives: a picture that holds this piece alone, in a frame that
tells nothing about where it belongs, and, for those who made the puzzle, the pose that puts it
back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np

from reassembly.pose import Pose, rotation_matrix, wrap_rad
from reassembly.puzzle import Fragment
from reassembly.synthetic.arrays import Bytes, Floats, Points
from reassembly.synthetic.noise import white_noise

__all__ = ["PLAIN", "STUDIO", "ScanSettings", "prepare", "scan"]

PREFILTER_PX = 1.0
"""Blur before a picture is turned. Without it, interpolation would soften it in a pattern that
depends on the angle, and betray the angle."""


@dataclass(frozen=True)
class ScanSettings:
    """How photographs of pieces differ from each other."""

    white_balance: float = 0.0
    """Standard deviation of the logarithm of each colour channel's gain."""
    exposure: float = 0.0
    """Standard deviation of the logarithm of the gain common to all channels."""
    shading: float = 0.0
    """Standard deviation of the relative change of brightness from one side to the other."""
    blur_mm: tuple[float, float] = (0.0, 0.0)
    """Standard deviation of the blur, lowest and highest."""
    noise: tuple[float, float] = (0.0, 0.0)
    """Standard deviation of the noise, in levels of 255, lowest and highest."""
    scale_error: float = 0.0
    """Standard deviation of the relative error of the scale."""
    mask_step_mm: tuple[float, float] = (0.0, 0.0)
    """Coarseness, lowest and highest, of the raster in which the piece was told from its
    background; 0 for as fine as the picture."""


PLAIN = ScanSettings()
"""Every piece under the same light, with a perfect camera."""

STUDIO = ScanSettings(
    white_balance=0.008,
    exposure=0.03,
    shading=0.04,
    blur_mm=(0.0, 0.2),
    noise=(0.3, 1.0),
    scale_error=0.002,
    mask_step_mm=(0.2, 0.8),
)
"""Pieces photographed one by one, over months, by hand."""


def prepare(picture: Bytes) -> Bytes:
    """The (H, W, 3) picture without detail too fine to survive being turned."""
    return np.asarray(cv2.GaussianBlur(picture, (3, 3), PREFILTER_PX))


def scan(
    image: Bytes,
    solid: Floats,
    corner_px: tuple[int, int],
    rng: np.random.Generator,
    settings: ScanSettings,
    mm_per_px: float,
    name: str,
) -> tuple[Fragment, Pose]:
    """Photographs one piece.

    Args:
        image: (H, W, 3) window of the prepared picture.
        solid: (H, W) field, positive where the piece is; negative along the window's border.
        corner_px: (x, y) of the window's top-left pixel in the picture.
        name: the fragment's id.

    Returns:
        The fragment, cropped tightly to its mask, black outside it; and the pose that carries it
        to its place, in mm from the picture's top-left corner.
    """
    rotation = rng.uniform(-math.pi, math.pi)
    scale = math.exp(rng.normal(0, settings.scale_error)) if settings.scale_error else 1.0
    turn = scale * rotation_matrix(-rotation)
    outline = _outline(solid) @ turn.T
    # A random fraction of a pixel, since nothing aligns a piece with the sensor's grid.
    shift = 2 + rng.random(2) - outline.min(axis=0)
    size = np.ceil(outline.max(axis=0) + shift + 3).astype(int)
    # OpenCV puts pixel centres at whole numbers, ours are at halves: hence the shifts by 0.5.
    matrix = np.column_stack([turn, shift + turn @ [0.5, 0.5] - 0.5])
    turned = cv2.warpAffine(image, matrix, size)
    field = cv2.warpAffine(solid, matrix, size, borderValue=-1)
    mask = _silhouette(field, rng, settings, mm_per_px)
    left, top, width, height = cv2.boundingRect(mask)
    window = np.s_[top : top + height, left : left + width]
    inside = mask[window].view(np.bool_)
    photo = _photograph(turned[window], rng, settings, mm_per_px)
    photo = np.asarray(cv2.bitwise_and(photo, photo, mask=mask[window]), np.uint8)
    centre = np.linalg.solve(turn, np.array([left + width / 2, top + height / 2]) - shift)
    x, y = (centre + corner_px) * mm_per_px
    return Fragment(name, photo, inside.copy(), mm_per_px), Pose(x, y, wrap_rad(rotation))


def _silhouette(
    field: Floats,
    rng: np.random.Generator,
    settings: ScanSettings,
    mm_per_px: float,
) -> Bytes:
    """(H, W), 1 where the piece is seen: one 4-connected part, that of the field's maximum."""
    height, width = field.shape
    step = rng.uniform(*settings.mask_step_mm) / mm_per_px
    fine = (field > 0).view(np.uint8)
    if step > 1.5:
        coarse = cv2.resize(field, (round(width / step) or 1, round(height / step) or 1))
        blocks = (coarse > 0).view(np.uint8)
        seen = cv2.resize(blocks, (width, height), interpolation=cv2.INTER_NEAREST_EXACT)
    else:
        seen = fine
    deepest = cv2.minMaxLoc(field)[3]
    if not seen[deepest[1], deepest[0]]:  # Too small for blocks of that size.
        seen = fine
    cv2.floodFill(seen, None, deepest, 2, flags=4)
    return np.asarray(seen == 2).view(np.uint8)


def _photograph(
    image: Bytes,
    rng: np.random.Generator,
    settings: ScanSettings,
    mm_per_px: float,
) -> Bytes:
    """Blur, light, colour and noise of one photograph."""
    height, width = image.shape[:2]
    blur = rng.uniform(*settings.blur_mm) / mm_per_px
    gain = np.exp(rng.normal(0, settings.exposure) + rng.normal(0, settings.white_balance, 3))
    slope = rng.normal(0, settings.shading, 2)
    noise = rng.uniform(*settings.noise)
    if blur > 0.3:
        image = cv2.GaussianBlur(image, (2 * math.ceil(1.5 * blur) + 1,) * 2, blur)
    if settings.exposure == settings.white_balance == settings.shading == noise == 0:
        return image
    x = np.linspace(-0.5, 0.5, width, dtype=np.float32)
    y = np.linspace(-0.5, 0.5, height, dtype=np.float32)
    light = 1 + slope[0].astype(np.float32) * x[None] + slope[1].astype(np.float32) * y[:, None]
    light = cv2.merge([light * np.float32(channel) for channel in gain])
    lit = cv2.multiply(image, light, dtype=cv2.CV_32F)
    grain = white_noise(rng, (height, width))
    return np.asarray(cv2.addWeighted(lit, 1, grain, noise, 0, dtype=cv2.CV_8U))


def _outline(solid: Floats) -> Points:
    """(N, 2) corners, in continuous pixels, of all pixels on the border of a piece."""
    mask = (solid > 0).view(np.uint8)
    borders = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)[0]
    pixels = max(borders, key=cv2.contourArea)[:, 0].astype(float)
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    return np.asarray((pixels[:, None] + corners).reshape(-1, 2))
