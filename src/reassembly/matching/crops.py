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
    grid, own = _grids(motions, middle, across)
    return torch.cat([_seen(pictures, fixed, grid), _seen(pictures, moving, own)], dim=1)


def crops_of_pair(
    pictures: Pictures, fixed: int, moving: int, motions: Tensor, middle: Tensor, across: Tensor
) -> Tensor:
    """The same where all joins are of one pair of pieces: a tenth of the time on a CPU."""
    grid, own = _grids(motions, middle, across)
    shown = [_seen_of_one(pictures, k, places) for k, places in ((fixed, grid), (moving, own))]
    return torch.cat(shown, dim=1)


def _grids(motions: Tensor, middle: Tensor, across: Tensor) -> tuple[Tensor, Tensor]:
    """(K, H, W, 2) both: where the pixels of crops are, mm, in the two pieces' centred frames."""
    x = (torch.arange(WIDTH_PX, device=middle.device) - (WIDTH_PX - 1) / 2) * PIXEL_MM
    y = (torch.arange(HEIGHT_PX, device=middle.device) - (HEIGHT_PX - 1) / 2) * PIXEL_MM
    along = torch.stack([across[:, 1], -across[:, 0]], dim=-1)
    # Rows go from the fixed piece to the moving one, columns along the break.
    grid = middle[:, None, None] + y[:, None, None] * across[:, None, None]
    grid = grid + x[:, None] * along[:, None, None]
    turn = motions[:, 0]
    c, s = turn.cos()[:, None, None], turn.sin()[:, None, None]
    back = grid - motions[:, None, None, 1:]
    # Undoes `pose.rotation_matrix`, [[c, s], [-s, c]].
    own = torch.stack(
        [c * back[..., 0] - s * back[..., 1], s * back[..., 0] + c * back[..., 1]], -1
    )
    return grid, own


def _seen_of_one(pictures: Pictures, piece: int, places_mm: Tensor) -> Tensor:
    """(K, 4, H, W): what is at places (K, H, W, 2) of one piece, colours times cover."""
    width, height = pictures.size[piece].tolist()
    first = int(pictures.first[piece])
    pixels = pictures.pixels[first : first + width * height].to(places_mm.dtype) / 255
    cover = pixels[:, 3:]
    image = torch.cat([(pixels[:, :3] - 0.5) * cover, cover], dim=1).mT.reshape(4, height, width)
    at = places_mm / PIXEL_MM + pictures.centre[piece]
    at = 2 * at / at.new_tensor([width - 1, height - 1]) - 1
    count, rows, columns, _ = at.shape
    found = F.grid_sample(image[None], at.view(1, count * rows, columns, 2), align_corners=True)
    return found.view(4, count, rows, columns).transpose(0, 1)


def _seen(pictures: Pictures, piece: Tensor, places_mm: Tensor) -> Tensor:
    """(K, 4, H, W): what is at places (K, H, W, 2) of pieces (K,), colours times cover."""
    at = places_mm / PIXEL_MM + pictures.centre[piece][:, None, None]
    low = at.floor()
    part = at - low
    low = low.long()
    first = pictures.first[piece][:, None, None]
    width, height = (pictures.size[piece][:, None, None, k] for k in (0, 1))
    nothing = len(pictures.pixels) - 1
    total: Tensor | None = None
    for dx in (0, 1):
        for dy in (0, 1):
            x, y = low[..., 0] + dx, low[..., 1] + dy
            inside = (x >= 0) & (y >= 0) & (x < width) & (y < height)
            index = torch.where(inside, first + y * width + x, nothing)
            pixel = pictures.pixels[index].to(part.dtype) / 255
            cover = pixel[..., 3:]
            value = torch.cat([(pixel[..., :3] - 0.5) * cover, cover], dim=-1)
            share = (part[..., 0] - (1 - dx)).abs() * (part[..., 1] - (1 - dy)).abs()
            value = value * share[..., None]
            total = value if total is None else total + value
    assert total is not None
    return total.permute(0, 3, 1, 2)
