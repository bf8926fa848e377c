"""PuzzleFusion, top to bottom: vertices of outlines as tokens, poses out of noise.

After Hossieni et al., "PuzzleFusion: unleashing the power of diffusion models for spatial puzzle
solving" (NeurIPS 2023), from its description. A piece is the polygon of its candidate keypoints;
every vertex carries a copy of its piece's noisy pose, and says what that pose is. Texture is not
looked at. What differs from the publication: the network predicts x0 instead of the noise, which a
loss weighs differently and nothing else; poses are in the frame of the largest piece; and a piece's
vertices share their noise, unless `noise: vertex` gives each its own.

All vertices attend to all others. Fused attention never holds the weights of all pairs, so that
time grows with the square of the number of vertices, but memory only with the number.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import psutil
import torch
from torch import Tensor, nn

from reassembly.config import LossConfig, PuzzleFusionConfig
from reassembly.diffusion.attention import attend, time_embedding
from reassembly.diffusion.batch import Batch, Group, Layout, turn
from reassembly.diffusion.frames import true_vectors
from reassembly.diffusion.noise import make_scheduler
from reassembly.errors import InputError
from reassembly.keypoints.describe import CANDIDATES
from reassembly.solvers.diffusing import (
    DiffusionSolver,
    Run,
    Sampler,
    check_heads,
    noisy_poses,
    outline_of,
    pose_losses,
    sampled,
)
from reassembly.solvers.settings import Device
from reassembly.weights import load_network

__all__ = ["PuzzleFusionNet", "Puzzlefusion", "bytes_of", "free_bytes"]

HARMONICS = 16
"""Waves around an outline that tell which of its vertices one is."""
NUMBERS_A_WIDTH = 16
"""Numbers in memory at once for each vertex and each unit of width; 9 to 12 were measured."""


class PuzzleFusionNet(nn.Module):
    """Predicts x0 of its piece's pose vector by every vertex. See
    `diffusion.network.PoseNetwork`."""

    graphable = True

    def __init__(self, config: PuzzleFusionConfig) -> None:
        super().__init__()
        check_heads("puzzlefusion", config.width, config.heads)
        self.config, width = config, config.width
        self.scheduler = make_scheduler(config.train_steps)
        self.coordinates = nn.Linear(2, width)
        self.vertex = nn.Linear(2 * HARMONICS, width)
        self.piece = nn.Linear(width, width)
        self.fixed = nn.Embedding(2, width)
        self.pose = nn.Linear(4, width)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(VertexLayer(width, config.heads) for _ in range(config.layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 4)

    # The tokens

    def describe(self, batch: Batch, fixed: Tensor) -> Tensor:
        """(P, V, width): what is known of the vertices whatever their pieces' poses."""
        scale = batch.scale_mm[batch.puzzle_of_piece]
        h = self.coordinates(batch.points / scale[:, None, None])
        h = h + self.vertex(_harmonics(batch.points.shape[1], h.device))
        number = _by_size(batch).to(scale.dtype) / 1000
        of_piece = self.piece(time_embedding(number, h.shape[-1])) + self.fixed(fixed.long())
        known: Tensor = h + of_piece[:, None]
        return known

    def denoise(
        self, known: Tensor, layout: Layout, noisy: Tensor, t: Tensor, fixed: Tensor
    ) -> Tensor:
        """x0 (P, V, 4) of noisy pose vectors (P, V, 4) at times t (P,), in steps of the noise
        process."""
        relative = ((t + 1) / self.config.train_steps).masked_fill(fixed, 0.0)
        h = known + self.pose(noisy)
        h = h + self.time(time_embedding(relative, known.shape[-1]))[:, None]
        h = h.flatten(0, 1)
        for layer in self.layers:
            h = layer(h, layout)
        predicted: Tensor = self.head(self.norm(h)).float()
        return predicted.view_as(noisy)

    # Training

    def draw(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Times (B,), and standard normal numbers (P, V, 4), or (P, 1, 4) where vertices share
        them."""
        t = torch.randint(self.config.train_steps, (len(batch.pieces),), generator=generator)
        return t, self._noise(batch, generator)

    def _noise(self, batch: Batch, generator: torch.Generator) -> Tensor:
        pieces, vertices = batch.points.shape[:2]
        shape = (pieces, 1 if self._shared else vertices, 4)
        return torch.randn(shape, generator=generator, device=generator.device)

    @property
    def _shared(self) -> bool:
        return self.config.noise == "piece"

    def loss_at(
        self,
        batch: Batch,
        weights: LossConfig,
        t: Tensor,
        noise: Tensor,
        given: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Mean squares of translation and rotation over all vertices, and `match`: how far apart
        vertices come to lie that met."""
        fixed = batch.anchor if given is None else batch.anchor | given
        clean, t = true_vectors(batch), t[batch.puzzle_of_piece]
        noise = noise.expand(-1, batch.points.shape[1], -1)
        noisy = noisy_poses(self.scheduler, clean, noise, t, fixed)
        known = self.describe(batch, fixed)
        predicted = self.denoise(known, _layout(batch), noisy, t, fixed)
        losses = pose_losses(predicted, clean, fixed, weights)
        if weights.match > 0 and batch.meets_piece is not None:
            answer = torch.where(fixed[:, None, None], clean[:, None], predicted)
            losses["match"] = _apart(batch, answer)
            losses["loss"] = losses["loss"] + weights.match * losses["match"]
        return losses

    # Sampling

    @torch.no_grad()
    def sample_poses(
        self,
        batch: Batch,
        given: Tensor,
        fixed: Tensor | None,
        steps: int,
        generator: torch.Generator,
        eta: float = 0.0,
        step_done: Callable[[int, Tensor], None] | None = None,
    ) -> Tensor:
        """(P, 4) pose vectors out of noise: the means of what each piece's vertices say."""
        stays = batch.anchor if fixed is None else fixed
        known, layout = self.describe(batch, stays), _layout(batch)
        vertices, device = batch.points.shape[1], batch.points.device

        def predict(x: Tensor, t: Tensor) -> Tensor:
            x0 = self.denoise(known, layout, x, t, stays)
            return x0.mean(1, keepdim=True).expand_as(x0) if self._shared else x0

        def fresh() -> Tensor:
            return self._noise(batch, generator).to(device).expand(-1, vertices, -1)

        return sampled(self.scheduler, predict, fresh, given, stays, steps, eta, step_done)


class VertexLayer(nn.Module):
    """Attention within each piece, then over all vertices of the puzzle, then a feed-forward
    network."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.within, self.across = Attention(width, heads), Attention(width, heads)
        self.feedforward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)
        )

    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        h = h + self.within(h, layout.by_piece)
        h = h + self.across(h, layout.by_puzzle)
        fed: Tensor = self.feedforward(h)
        return h + fed


class Attention(nn.Module):
    """Self-attention within each sequence of tokens. (T, width) to (T, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, h: Tensor, groups: list[Group]) -> Tensor:
        answer: Tensor = self.out(attend(self.qkv(self.norm(h)), groups, self.heads))
        return answer


def _layout(batch: Batch) -> Layout:
    pieces, vertices = batch.points.shape[:2]
    return Layout.of((vertices,) * pieces, batch.pieces, batch.points.device)


def _harmonics(vertices: int, device: torch.device) -> Tensor:
    """(V, 2 * HARMONICS): which vertex of a closed outline one is."""
    turns = torch.arange(vertices, device=device)[:, None] / vertices
    phase = 2 * math.pi * turns * torch.arange(1, HARMONICS + 1, device=device)
    return torch.cat([phase.cos(), phase.sin()], -1)


def _by_size(batch: Batch) -> Tensor:
    """(P,) long: the number of a piece in its puzzle, the largest first, so that the order in which
    pieces are given does not matter."""
    owner = batch.puzzle_of_piece
    larger = (batch.area[None] > batch.area[:, None]) & (owner[None] == owner[:, None])
    return larger.sum(1)


def _apart(batch: Batch, answer: Tensor) -> Tensor:
    """The mean square of the distance between vertices and the points they met, in units of
    `Batch.scale_mm`.

    Args:
        answer: (P, V, 4) pose vectors; what was met lies where the mean of its piece's puts it.
    """
    assert batch.meets_point is not None
    met = batch.across >= 0
    scale = batch.scale_mm[batch.puzzle_of_piece][:, None, None]
    there = answer.mean(1)[batch.across.clamp_min(0)]
    # Rotations as they are predicted, of any length: to scale them would let gradients explode
    # where nothing is known and the prediction is near zero.
    one = turn(batch.points / scale, answer[..., 2:]) + answer[..., :2]
    other = turn(batch.meets_point / scale, there[..., 2:]) + there[..., :2]
    off = (one - other).square().sum(-1) * met
    return off.sum() / met.sum().clamp_min(1)


class Puzzlefusion(DiffusionSolver):
    """Diffusion over the vertices of outlines, after PuzzleFusion (Hossieni et al., 2023).

    Before it begins, it says so where a puzzle has more vertices than memory can hold.

    Args:
        steps: of denoising.
        samples: how many answers are drawn; those after the first tell how sure it is.
        weights: a name, a safetensors file or the folder of a training run; those shipped when
            left out.
        device: `cpu` or `cuda`.
        memory_gb: most memory that may be taken; what is free when left out.
    """

    def __init__(
        self,
        *,
        steps: int = 20,
        samples: int = 4,
        weights: str | None = None,
        device: Device = "cpu",
        memory_gb: float | None = None,
    ) -> None:
        number = isinstance(memory_gb, int | float) and not isinstance(memory_gb, bool)
        if memory_gb is not None and not (number and 0 < memory_gb < math.inf):
            raise InputError(f"memory_gb is {memory_gb!r}", "Give a number above 0")
        network, sha256 = load_network("puzzlefusion", PuzzleFusionNet, PuzzleFusionConfig, weights)
        super().__init__(network, sha256, steps=steps, samples=samples, device=device)
        self.memory_gb = memory_gb

    def sampler(self, run: Run) -> Sampler:
        """Of one sample at a time, so that answers do not hang on how much memory happens to be
        free."""
        self._check_memory(len(run.fragments))
        return self.of_batch(run.see(outline_of), 1, run)

    def _check_memory(self, pieces: int) -> None:
        needed, free = bytes_of(self.model.config, pieces), free_bytes(self.device)
        if self.memory_gb is not None:
            free = min(free, int(self.memory_gb * 1e9))
        if needed > free:
            raise InputError(
                f"puzzlefusion runs out of memory: the {pieces * CANDIDATES} vertices of {pieces} "
                f"pieces take about {needed / 1e9:.2g} GB, and {free / 1e9:.2g} GB are free",
                "Use a machine with more memory, or another solver",
            )


def bytes_of(config: PuzzleFusionConfig, pieces: int) -> int:
    """About how much memory one sample of a puzzle takes, rather more than less."""
    return 4 * NUMBERS_A_WIDTH * config.width * pieces * CANDIDATES


def free_bytes(device: Device) -> int:
    """Memory that can be taken on a device."""
    if device == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    return int(psutil.virtual_memory().available)
