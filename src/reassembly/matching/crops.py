"""Joins as a network sees them: both pieces in place around the middle of the break.

A crop lies along the break, whichever way the pieces lie in their pictures: the fixed piece below,
the moving one above, four channels each, colours and cover, so that paint, gap and overlap are seen
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from reassembly.puzzle import Fragment

__all__ = [
    "CHANNELS",
    "HEIGHT_PX",
    "PIXEL_MM",
    "WIDTH_PX",
    "Pictures",
    "crops",
    "crops_of_pair",
    "pictures_of",
]

PIXEL_MM = 0.75
WIDTH_PX, HEIGHT_PX = 96, 64
"""72 mm along the break and 48 mm across: more than most joins are long."""
CHANNELS = 8


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pieces on one scale, one behind the other, each around its centroid."""

    pixels: Tensor
    """(N, 4) uint8: rows of all pictures, colours and cover. The last one belongs to none."""
    first: Tensor
    """(P,) int64: the first pixel of each piece."""
    size: Tensor
    """(P, 2) int64: width and height."""
    centre: Tensor
    """(P, 2) float32: the piece's centroid, in pixels."""

    def to(self, device: torch.device | str) -> Pictures:
        return Pictures(*(x.to(device) for x in (self.pixels, self.first, self.size, self.centre)))

    @staticmethod
    def joined(parts: Sequence[Pictures]) -> Pictures:
        """The pieces of all, in order."""
        starts = np.cumsum([0, *(len(part.pixels) for part in parts[:-1])])
        first = [part.first + int(start) for part, start in zip(parts, starts, strict=True)]
        return Pictures(
            torch.cat([part.pixels for part in parts]),
            torch.cat(first),
            torch.cat([part.size for part in parts]),
            torch.cat([part.centre for part in parts]),
        )


def pictures_of(fragments: Sequence[Fragment]) -> Pictures:
    """The pieces at `PIXEL_MM`, in the order given."""
    rows, sizes, centres = [], [], []
    for fragment in fragments:
        picture, centre = _on_scale(fragment)
        sizes.append((picture.shape[1], picture.shape[0]))
        centres.append(centre)
        rows.append(picture.reshape(-1, 4))
    counts = [len(row) for row in rows]
    rows.append(np.zeros((1, 4), np.uint8))
    return Pictures(
        torch.from_numpy(np.concatenate(rows)),
        torch.tensor(np.cumsum([0, *counts[:-1]])),
        torch.tensor(sizes),
        torch.tensor(np.array(centres), dtype=torch.float32),
    )


def _on_scale(fragment: Fragment) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """(H, W, 4), and where the centroid is in it, (2,)."""
    crop = fragment.cropped(margin_px=0)
    height, width = crop.mask.shape
    size = tuple(max(2, round(n * fragment.mm_per_px / PIXEL_MM)) for n in (width, height))
    cover = crop.mask.astype(np.float32)
    colours = cv2.resize(crop.image * cover[..., None], size, interpolation=cv2.INTER_AREA)
    share = cv2.resize(cover, size, interpolation=cv2.INTER_AREA)
    colours = colours / np.maximum(share, 1e-3)[..., None]
    picture = np.dstack([colours, share * 255]).round().clip(0, 255).astype(np.uint8)
    place = crop.centroid_mm / crop.mm_per_px + np.array(crop.origin_px)
    return picture, place * np.array(size) / (width, height) - 0.5


def crops(
    pictures: Pictures,
    fixed: Tensor,
    moving: Tensor,
    motions: Tensor,
    middle: Tensor,
    across: Tensor,
) -> Tensor:
    """Crops (K, `CHANNELS`, `HEIGHT_PX`, `WIDTH_PX`), about zero, of K joins.

    Args:
        fixed: (K,) numbers of pieces.
        moving: likewise.
        motions: (K, 3): of the moving piece into the fixed one's centred frame.
        middle: (K, 2): see `matching.evidence.Contact`.
        across: likewise.
    """
    shown = [
        _seen(pictures, piece, _places(frame, pictures.centre[piece].T))
        for piece, frame in zip((fixed, moving), _frames(motions, middle, across), strict=True)
    ]
    return torch.cat(shown, dim=1)


def crops_of_pair(
    pictures: Pictures, fixed: int, moving: int, motions: Tensor, middle: Tensor, across: Tensor
) -> Tensor:
    """The same where all joins are of one pair of pieces: a small part of the time on a CPU."""
    shown = [
        _seen_of_one(pictures, piece, _places(frame, pictures.centre[piece][:, None]))
        for piece, frame in zip((fixed, moving), _frames(motions, middle, across), strict=True)
    ]
    return torch.cat(shown, dim=-1).permute(0, 3, 1, 2)


def _frames(motions: Tensor, middle: Tensor, across: Tensor) -> Tensor:
    """(2, 2, K, 3): of the fixed piece and the moving one, what carries places (x, y, 1) of crops,
    mm from their middles, to x and y in its centred frame."""
    # Rows go from the fixed piece to the moving one, columns along the break.
    along = torch.stack([across[:, 1], -across[:, 0]], dim=-1)
    fixed = torch.stack([along, across, middle]).movedim(-1, 0)
    x, y = torch.stack([along, across, middle - motions[:, 1:]]).movedim(-1, 0)
    c, s = motions[:, 0].cos(), motions[:, 0].sin()
    # Undoes `pose.rotation_matrix`, [[c, s], [-s, c]].
    moving = torch.stack([c * x - s * y, s * x + c * y])
    return torch.stack([fixed, moving]).mT


def _places(frame: Tensor, centre: Tensor) -> Tensor:
    """(2, K, H, W): x and y of the pixels of crops in the pictures of pieces.

    Args:
        frame: (2, K, 3), see `_frames`.
        centre: (2, K) or (2, 1), see `Pictures`.
    """
    x = torch.arange(WIDTH_PX, device=frame.device) - (WIDTH_PX - 1) / 2
    y = torch.arange(HEIGHT_PX, device=frame.device) - (HEIGHT_PX - 1) / 2
    x, y = (each.flatten() for each in torch.meshgrid(x, y, indexing="xy"))
    shift = frame[..., 2] / PIXEL_MM + centre
    carry = torch.cat([frame[..., :2], shift[..., None]], dim=-1)
    places = carry.flatten(0, 1) @ torch.stack([x, y, torch.ones_like(x)])
    return places.view(2, -1, HEIGHT_PX, WIDTH_PX)


def _seen_of_one(pictures: Pictures, piece: int, places: Tensor) -> Tensor:
    """(K, H, W, 4): what is at places (2, K, H, W) of one picture, colours times cover."""
    width, height = pictures.size[piece].tolist()
    first = int(pictures.first[piece])
    pixels = pictures.pixels[first : first + width * height].to(places.dtype) / 255
    cover = pixels[:, 3:]
    image = torch.cat([(pixels[:, :3] - 0.5) * cover, cover], dim=1).view(height, width, 4)
    _, count, rows, columns = places.shape
    at = places.view(2, count * rows, columns)
    if at.device.type == "cpu":  # OpenCV takes a fifth of the time that torch takes.
        x, y = (each.numpy() for each in at)
        found = torch.from_numpy(cv2.remap(image.numpy(), x, y, cv2.INTER_LINEAR))
    else:
        grid = 2 * at.movedim(0, -1) / at.new_tensor([width - 1, height - 1]) - 1
        shown = F.grid_sample(image.permute(2, 0, 1)[None], grid[None], align_corners=True)
        found = shown[0].movedim(0, -1)
    return found.reshape(count, rows, columns, 4)


def _seen(pictures: Pictures, piece: Tensor, places: Tensor) -> Tensor:
    """(K, 4, H, W): what is at places (2, K, H, W) of the pictures of pieces (K,), colours times
    cover."""
    low = places.floor()
    part = places - low
    low = low.long()
    first = pictures.first[piece][:, None, None]
    width, height = (pictures.size[piece][:, None, None, k] for k in (0, 1))
    nothing = len(pictures.pixels) - 1
    total: Tensor | None = None
    for dx in (0, 1):
        for dy in (0, 1):
            x, y = low[0] + dx, low[1] + dy
            inside = (x >= 0) & (y >= 0) & (x < width) & (y < height)
            index = torch.where(inside, first + y * width + x, nothing)
            pixel = pictures.pixels[index].to(part.dtype) / 255
            cover = pixel[..., 3:]
            value = torch.cat([(pixel[..., :3] - 0.5) * cover, cover], dim=-1)
            share = (part[0] - (1 - dx)).abs() * (part[1] - (1 - dy)).abs()
            value = value * share[..., None]
            total = value if total is None else total + value
    assert total is not None
    return total.permute(0, 3, 1, 2)
