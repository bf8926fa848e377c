"""Poses as the denoiser sees them: four numbers in the frame of the anchor.

A pose vector is (x, y, cos, sin): where the piece's centroid lies, in units of the square root of
the puzzle's total area, and its rotation, counter-clockwise as seen, both relative to the anchor.
"""

from __future__ import annotations

import torch
from torch import Tensor

from reassembly.diffusion.batch import Batch, turn

__all__ = ["place", "to_frame", "true_vectors", "turn", "unit"]


def place(points: Tensor, vectors: Tensor) -> Tensor:
    """(..., 2) points where pose vectors (..., 4) put them; rotations are made unit first."""
    return turn(points, unit(vectors[..., 2:])) + vectors[..., :2]


def unit(rotation: Tensor) -> Tensor:
    """(..., 2) scaled to length one."""
    length: Tensor = rotation.norm(dim=-1, keepdim=True)
    return rotation / length.clamp_min(1e-6)


def to_frame(pose: Tensor, origin: Tensor, scale: Tensor) -> Tensor:
    """Pose vectors of `pose` (P, 3: x_mm, y_mm, rotation_rad) relative to `origin` (P, 3).

    Args:
        scale: (P,) mm.

    Returns:
        (P, 4).
    """
    back = torch.stack([origin[:, 2].cos(), -origin[:, 2].sin()], -1)
    position = turn(pose[:, :2] - origin[:, :2], back) / scale[:, None]
    angle = pose[:, 2] - origin[:, 2]
    return torch.cat([position, angle.cos()[:, None], angle.sin()[:, None]], -1)


def true_vectors(batch: Batch) -> Tensor:
    """(P, 4): the true poses in the frame of each puzzle's anchor."""
    assert batch.pose is not None
    of_puzzle = batch.puzzle_of_piece
    origin = batch.pose[batch.anchor_piece[of_puzzle]]
    return to_frame(batch.pose, origin, batch.scale_mm[of_puzzle]).to(batch.points.dtype)
