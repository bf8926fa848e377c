"""Marks that people drew across joins: short dark strokes that end at a piece's rim.

Archaeologists record a join by two or three strokes of ink across it before they take the pieces
apart. Where two pieces of a placement both carry strokes that go on in each other, it is likely
true. Lines of dark paint that run over the rim count likewise.

In the piece's centred frame, see `matching.rim`.
"""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.puzzle import Fragment

__all__ = ["ink_of", "marks_of", "without_marks"]

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

PIXEL_MM = 0.25
"""Strokes are looked for on this scale."""
WIDEST_MM = 3.0
"""What is wider is no stroke."""
NEAR_MM = 16.0
"""How far inside a stroke may reach."""
DARKER = 24
"""Than what is around it, of 255."""
DARK, GREY = 150, 38
"""Brightness of ink at most, and how far its channels may differ."""
LEAST_MM2, SHORTEST_MM, LONGEST_MM = 1.2, 3.5, 25.0
THIN_MM = 2.2
"""Area by length at most."""
END_MM = 6.0
"""How far from the rim a stroke may end: rims are worn."""
SPREAD_MM = 0.6
"""Ink is painted out with so much around it."""


def marks_of(fragment: Fragment) -> Floats:
    """(M, 4): where each stroke ends at the rim, mm, and which way it points there, outwards."""
    crop = fragment.cropped()
    numbers, depth, scale = _strokes(crop)
    found = []
    for k in range(1, int(numbers.max(initial=0)) + 1):
        rows, columns = np.nonzero(numbers == k)
        pixels = np.column_stack([columns, rows]).astype(np.float64)
        middle = pixels.mean(axis=0)
        direction = np.linalg.svd(pixels - middle, full_matrices=False)[2][0]
        along = (pixels - middle) @ direction
        inside = [depth[rows[i], columns[i]] for i in (along.argmin(), along.argmax())]
        if inside[0] < inside[1]:
            direction, along = -direction, -along
        end = ((middle + along.max() * direction) + 0.5) / scale - crop.origin_px
        found.append([*(end * crop.mm_per_px - crop.centroid_mm), *direction])
    return np.array(found, np.float32).reshape(-1, 4)


def ink_of(fragment: Fragment) -> NDArray[np.bool_]:
    """(H, W), true where the fragment's picture shows such strokes."""
    crop = fragment.cropped(margin_px=0)
    height, width = crop.mask.shape
    numbers = _strokes(crop)[0]
    spread = 2 * round(SPREAD_MM / PIXEL_MM) + 1
    ink = cv2.dilate((numbers > 0).astype(np.uint8), np.ones((spread, spread), np.uint8))
    whole = np.zeros(fragment.mask.shape, bool)
    left, top = (crop.offset_px[k] - fragment.offset_px[k] for k in (0, 1))
    found = cv2.resize(ink, (width, height), interpolation=cv2.INTER_NEAREST) > 0
    whole[top : top + height, left : left + width] = found
    return whole & fragment.mask


def without_marks(fragment: Fragment) -> Fragment:
    """The fragment with such strokes painted out, from what is around them."""
    ink = ink_of(fragment)
    if not ink.any():
        return fragment
    # What lies outside the piece must not flow in: it is painted over first.
    hidden = (ink | ~fragment.mask).astype(np.uint8)
    painted = cv2.inpaint(fragment.image, hidden, 3, cv2.INPAINT_TELEA)
    return replace(fragment, image=np.where(ink[..., None], painted, fragment.image))


def _strokes(crop: Fragment) -> tuple[NDArray[np.int32], Floats, float]:
    """Numbers of strokes, from 1, (H, W) on a scale of its own; depth inside the rim, mm, there;
    and that scale as a share of the picture's."""
    scale = min(1.0, crop.mm_per_px / PIXEL_MM)
    step = crop.mm_per_px / scale
    image, mask = _reduced(crop, scale)
    planes = np.stack(cv2.split(image))  # NumPy compares whole planes many times as fast.
    value = planes.max(axis=0)
    grey = value - planes.min(axis=0) < GREY
    framed = cv2.copyMakeBorder(mask, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    depth = np.asarray(cv2.distanceTransform(framed, cv2.DIST_L2, 5), np.float32)[1:-1, 1:-1]
    depth = depth * np.float32(step)
    value = _beyond_the_rim(value, mask)
    wide = 2 * round(WIDEST_MM / step / 2) + 1
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (wide, wide))
    darker = cv2.morphologyEx(value, cv2.MORPH_BLACKHAT, kernel) > DARKER
    ink = darker & grey & (value < DARK) & (depth > 0) & (depth < NEAR_MM)
    joined = cv2.morphologyEx(ink.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    count, numbers, figures, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    kept = np.zeros(count, np.int32)
    for k in range(1, count):
        left, top, width, height, pixels = figures[k].tolist()
        own = numbers[top : top + height, left : left + width] == k
        area, length = pixels * step**2, float(np.hypot(width, height)) * step
        ends = depth[top : top + height, left : left + width][own].min() <= END_MM
        thin = area / length <= THIN_MM
        if area >= LEAST_MM2 and SHORTEST_MM <= length <= LONGEST_MM and ends and thin:
            kept[k] = kept.max() + 1
    return kept[numbers], depth, scale


def _reduced(crop: Fragment, scale: float) -> tuple[Bytes, Bytes]:
    """Picture and cover on a smaller scale; what is outside the piece does not darken its rim."""
    height, width = crop.mask.shape
    size = max(2, round(width * scale)), max(2, round(height * scale))
    cover = crop.mask.astype(np.float32)
    share = cv2.resize(cover, size, interpolation=cv2.INTER_AREA)
    colours = cv2.resize(crop.image * cover[..., None], size, interpolation=cv2.INTER_AREA)
    colours = colours / np.maximum(share, 1e-3)[..., None]
    return colours.round().clip(0, 255).astype(np.uint8), (share > 0.5).astype(np.uint8)


def _beyond_the_rim(value: Bytes, mask: Bytes) -> Bytes:
    """The piece's brightness, and beyond its rim that of the rim's surroundings: the dark of a
    broken edge is no stroke."""
    inner = cv2.erode(mask, np.ones((5, 5), np.uint8)).astype(np.float32)
    blurred = [cv2.blur(x.astype(np.float32), (25, 25)) for x in (value * inner, inner)]
    around = blurred[0] / np.maximum(blurred[1], 1e-3)
    far = blurred[1] < 1e-3
    around[far] = 255.0
    return np.where(inner > 0, value, around.round()).clip(0, 255).astype(np.uint8)
