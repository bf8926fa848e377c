"""Square cut-outs of a fragment's picture: around keypoints, or the whole of it."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.puzzle import Fragment

__all__ = ["cut_patches", "whole_piece"]


def cut_patches(
    fragment: Fragment,
    points_mm: NDArray[np.float64],
    angles_rad: NDArray[np.float64] | None = None,
    size_px: int = 32,
    mm_per_px: float = 0.2714,
) -> NDArray[np.uint8]:
    """The picture around points of a fragment.

    Args:
        points_mm: (N, 2), in the fragment's own frame: the centres of the patches.
        angles_rad: (N,) directions (atan2(dy, dx), y down) of the patches' x axes. With edge
            angles, x runs along the outline and y (down in the patch) into the piece. None
            leaves the patches in the frame of the picture.
        size_px: side of a patch.
        mm_per_px: scale of a patch, however fine the scan is.

    Returns:
        (N, size_px, size_px, 4): RGB, and how much of the pixel the fragment covers (0 to 255).
        RGB is that of the covered part, and 0 where nothing is covered.
    """
    if len(points_mm) == 0:
        return np.zeros((0, size_px, size_px, 4), np.uint8)
    crop = fragment.cropped(0)
    picture, scale = _scaled(crop, mm_per_px)
    centres = (np.asarray(points_mm, np.float64) / crop.mm_per_px + crop.origin_px) * scale
    steps = (np.arange(size_px) + 0.5 - size_px / 2) * (mm_per_px / crop.mm_per_px)
    x, y = (axis.ravel() for axis in np.meshgrid(steps, steps))
    angles = np.zeros(len(centres)) if angles_rad is None else np.asarray(angles_rad, np.float64)
    c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
    # cv2 puts pixel centres at whole numbers, ours are at halves. Rounded, so that the same
    # pixels give the same patches wherever the origin lies.
    u = (centres[:, :1] + (c * x - s * y) * scale[0] - 0.5).round(4).astype(np.float32)
    v = (centres[:, 1:] + (s * x + c * y) * scale[1] - 0.5).round(4).astype(np.float32)
    cut = cv2.remap(picture, u, v, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT)
    return _to_bytes(np.asarray(cut, np.float32)).reshape(-1, size_px, size_px, 4)


def whole_piece(fragment: Fragment, size_px: int = 64) -> NDArray[np.uint8]:
    """The whole fragment, as it lies in its picture, as large as a square can hold it.

    Returns:
        (size_px, size_px, 4): RGB and cover, as of `cut_patches`.
    """
    crop = _covered(fragment.cropped(0))
    sides = np.array(crop.shape[1::-1])
    fitted = np.maximum(1, np.rint(sides * (size_px / sides.max()))).astype(int)
    way = cv2.INTER_AREA if sides.max() > size_px else cv2.INTER_LINEAR
    left, top = (size_px - fitted) // 2
    square = np.zeros((size_px, size_px, 4), np.float32)
    square[top : top + fitted[1], left : left + fitted[0]] = cv2.resize(
        crop, fitted.tolist(), interpolation=way
    )
    return _to_bytes(square)


def _scaled(crop: Fragment, mm_per_px: float) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """The covered picture, no finer than `mm_per_px`: a pixel of it then stands for all pixels
    of the scan that fall into it, not for one of them.

    Returns:
        (h, w, 4), and its (2,) pixels along x and y per pixel of the scan.
    """
    picture = _covered(crop)
    shrink = mm_per_px / crop.mm_per_px
    if shrink <= 1.0:
        return picture, np.ones(2)
    size = np.array(picture.shape[1::-1])
    small = np.maximum(1, np.rint(size / shrink)).astype(int)
    area = cv2.resize(picture, small.tolist(), interpolation=cv2.INTER_AREA)
    return np.asarray(area, np.float32), small / size


def _covered(crop: Fragment) -> NDArray[np.float32]:
    """(H, W, 4): RGB times cover, and cover, from 0 to 255. So multiplied, colours from outside
    the mask cannot seep in where pixels are averaged."""
    mask = crop.mask.astype(np.uint8)
    return np.dstack([crop.image * mask[..., None], mask * np.uint8(255)]).astype(np.float32)


def _to_bytes(picture: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Undoes the multiplication of `_covered`."""
    cover = picture[..., 3:]
    colour = picture[..., :3] * (255.0 / np.maximum(cover, 0.5)) * (cover >= 0.5)
    both = np.concatenate([colour, cover], axis=-1)
    return np.asarray(np.rint(np.clip(both, 0, 255)), np.uint8)
