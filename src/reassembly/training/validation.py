"""How far a network's poses are off on puzzles it does not learn from, in figures and pictures."""

from __future__ import annotations

import importlib.util
import io
import math
import warnings
from pathlib import Path

import torch
from torch import Tensor

from reassembly.config import LossConfig
from reassembly.diffusion.batch import Batch
from reassembly.diffusion.frames import place, true_vectors
from reassembly.diffusion.network import PoseNetwork
from reassembly.errors import InputWarning
from reassembly.io.files import atomic_write

__all__ = ["draw_assemblies", "pose_errors", "sampled_poses"]

SAMPLE_STEPS = 10
CLOSE_DEG = 10.0
CLOSE_DIAMETERS = 0.2
SHOWN = 4
"""Puzzles in a picture."""


@torch.no_grad()
def sampled_poses(network: PoseNetwork, batch: Batch, seed: int) -> Tensor:
    """(P, 4) pose vectors that the network arrives at in a few DDIM steps."""
    generator = torch.Generator().manual_seed(seed)
    return network.sample_poses(batch, true_vectors(batch), None, SAMPLE_STEPS, generator)


def pose_errors(batch: Batch, vectors: Tensor) -> dict[str, float]:
    """What (P, 4) pose vectors are worth; anchors, whose poses are given, do not count.

    Returns:
        `rotation_deg` and `position_mm`, medians over pieces, and `close`, the share of pieces
        within 10 degrees and a fifth of their diameter.
    """
    true = true_vectors(batch)
    free = ~batch.anchor
    scale = batch.scale_mm[batch.puzzle_of_piece]
    position = (vectors[:, :2] - true[:, :2]).norm(dim=-1) * scale
    turned = torch.atan2(vectors[:, 3], vectors[:, 2]) - torch.atan2(true[:, 3], true[:, 2])
    rotation = torch.atan2(turned.sin(), turned.cos()).abs() * (180 / math.pi)
    diameter = 2 * (batch.area / math.pi).sqrt()
    close = (rotation < CLOSE_DEG) & (position < CLOSE_DIAMETERS * diameter)
    return {
        "rotation_deg": float(rotation[free].median()),
        "position_mm": float(position[free].median()),
        "close": float(close[free].float().mean()),
    }


@torch.no_grad()
def validation_loss(
    network: PoseNetwork, batch: Batch, weights: LossConfig, seed: int
) -> dict[str, float]:
    """The training loss on these puzzles, under noise that is always the same."""
    t, noise = network.draw(batch, torch.Generator().manual_seed(seed))
    losses = network.loss_at(batch, weights, t.to(batch.area.device), noise.to(batch.area.device))
    return {name: float(value) for name, value in losses.items()}


def draw_assemblies(batch: Batch, vectors: Tensor, path: Path, title: str) -> None:
    """A picture (PNG) of the first puzzles: true outlines beside predicted ones, in mm."""
    if importlib.util.find_spec("matplotlib") is None:
        warnings.warn("matplotlib is missing: no pictures are drawn", InputWarning)
        return
    from matplotlib.figure import Figure

    scale = batch.scale_mm[batch.puzzle_of_piece]
    first, count = 0, min(SHOWN, len(batch.pieces))
    figure = Figure(figsize=(7, 3.2 * count), layout="constrained")
    axes = figure.subplots(count, 2, squeeze=False)
    for number in range(count):
        rows = slice(first, first + batch.pieces[number])
        first = rows.stop
        for axis, poses, name in zip(
            axes[number], (true_vectors(batch), vectors), ("true", "predicted"), strict=True
        ):
            outlines = (
                place(batch.points[rows] / scale[rows, None, None], poses[rows, None])
                * scale[rows, None, None]
            )
            for piece, outline in enumerate(outlines.cpu().numpy()):
                axis.fill(
                    *outline.T, facecolor=f"C{piece % 10}", alpha=0.4, edgecolor="0.2", lw=0.8
                )
            axis.set_aspect("equal")
            axis.invert_yaxis()
            axis.set_title(f"puzzle {number}, {name}", fontsize=9)
            axis.set_xlabel("mm", fontsize=8)
            axis.tick_params(labelsize=7)
    figure.suptitle(title, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    figure.savefig(content, dpi=80)
    atomic_write(path, content.getvalue())
