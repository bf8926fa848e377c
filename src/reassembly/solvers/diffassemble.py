"""DiffAssemble, top to bottom: pictures of pieces, a sparse graph over them, poses out of noise.

After Scarpellini et al., "DiffAssemble: a unified graph-diffusion model for 2D and 3D reassembly"
(CVPR 2024), from its description. Pieces are the nodes of a graph whose edges are those of a random
expander, as of Exphormer. As ReassembleNet reports of this baseline, an irregular piece is shown
as a square, padded with nothing. What differs from the publication: there is no grid of cells, so
that poses are in the frame of the largest piece, and the small network that looks at pictures
is trained along with the rest instead of being taken over from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from reassembly.config import DiffAssembleConfig, LossConfig
from reassembly.diffusion.attention import attend, time_embedding
from reassembly.diffusion.batch import Batch, Group, Layout
from reassembly.diffusion.frames import true_vectors
from reassembly.diffusion.noise import make_scheduler
from reassembly.puzzle import Fragment
from reassembly.solvers.diffusing import (
    Columns,
    DiffusionSolver,
    Run,
    Sampler,
    check_heads,
    noisy_poses,
    pose_losses,
    sampled,
)
from reassembly.solvers.settings import Device
from reassembly.training.views import PICTURE_MM_PER_PX, PICTURE_PX, pictures
from reassembly.weights import load_network

__all__ = ["DiffAssembleNet", "Diffassemble", "expander"]

CHANNELS = (16, 32, 64, 64)
"""Of the convolutions that look at a picture; each halves its side."""
CELLS = PICTURE_PX // 2 ** len(CHANNELS)
"""A picture is summed up in so many cells along each side, so that it still tells how it lies."""
PIECES_AT_ONCE = 1024


class DiffAssembleNet(nn.Module):
    """Predicts x0 of every piece's pose vector. See `diffusion.network.PoseNetwork`."""

    graphable = True

    def __init__(self, config: DiffAssembleConfig) -> None:
        super().__init__()
        check_heads("diffassemble", config.width, config.heads)
        self.config, width = config, config.width
        self.scheduler = make_scheduler(config.train_steps)
        self.picture = PictureEncoder(width)
        self.size = nn.Linear(2, width)
        self.fixed = nn.Embedding(2, width)
        self.pose = nn.Linear(4, width)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.join = nn.Sequential(nn.SiLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(GraphLayer(width, config.heads) for _ in range(config.layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 4)

    @property
    def rings(self) -> int:
        """Random rings that the expander is made of; each gives a piece two edges."""
        return max(1, self.config.degree // 2)

    # The graph

    def graph(self, batch: Batch, keys: Tensor) -> list[tuple[Group, Tensor | None]]:
        """Groups of puzzles with equally many pieces, and the edges of each, (G, 1, n, n) bool;
        None where every piece sees every other.

        Args:
            keys: (P, rings) random numbers.
        """
        layout = Layout.of((1,) * len(batch.area), batch.pieces, batch.area.device)
        return [
            (
                group,
                None
                if group.shape[1] <= self.config.complete
                else expander(group.take(keys))[:, None],
            )
            for group in layout.by_puzzle
        ]

    # The nodes

    def describe(self, batch: Batch, fixed: Tensor) -> Tensor:
        """(P, width): what is known of the pieces whatever their poses."""
        assert batch.pictures is not None, "this network needs pictures"
        scale = batch.scale_mm[batch.puzzle_of_piece]
        # Pictures are in mm and translations are not: the first number tells one from the other.
        size = torch.stack([PICTURE_PX * PICTURE_MM_PER_PX / scale, batch.area.sqrt() / scale], -1)
        known: Tensor = self.picture(batch.pictures) + self.size(size) + self.fixed(fixed.long())
        return known

    def denoise(
        self,
        known: Tensor,
        graph: list[tuple[Group, Tensor | None]],
        noisy: Tensor,
        t: Tensor,
        fixed: Tensor,
    ) -> Tensor:
        """x0 (P, 4) of noisy pose vectors (P, 4) at times t (P,), in steps of the noise process."""
        relative = ((t + 1) / self.config.train_steps).masked_fill(fixed, 0.0)
        h = known + self.pose(noisy) + self.time(time_embedding(relative, known.shape[-1]))
        h = h + self.join(h)
        for layer in self.layers:
            h = layer(h, graph)
        predicted: Tensor = self.head(self.norm(h)).float()
        return predicted

    # Training

    def draw(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Times (B,), and standard normal numbers (P, 4 + rings): noise of the poses, and keys that
        decide the graph."""
        t = torch.randint(self.config.train_steps, (len(batch.pieces),), generator=generator)
        return t, torch.randn(len(batch.area), 4 + self.rings, generator=generator)

    def loss_at(
        self,
        batch: Batch,
        weights: LossConfig,
        t: Tensor,
        noise: Tensor,
        given: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Mean squares of translation and rotation."""
        fixed = batch.anchor if given is None else batch.anchor | given
        clean, t = true_vectors(batch), t[batch.puzzle_of_piece]
        noisy = noisy_poses(self.scheduler, clean, noise[:, None, :4], t, fixed)[:, 0]
        graph = self.graph(batch, noise[:, 4:])
        predicted = self.denoise(self.describe(batch, fixed), graph, noisy, t, fixed)
        return pose_losses(predicted[:, None], clean, fixed, weights)

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
        """(P, 4) pose vectors out of noise, on one graph throughout."""
        stays = batch.anchor if fixed is None else fixed

        def numbers(columns: int) -> Tensor:
            drawn = torch.randn(len(stays), columns, generator=generator, device=generator.device)
            return drawn.to(batch.area.device)

        graph, known = self.graph(batch, numbers(self.rings)), self.describe(batch, stays)
        return sampled(
            self.scheduler,
            lambda x, t: self.denoise(known, graph, x[:, 0], t, stays)[:, None],
            lambda: numbers(4)[:, None],
            given,
            stays,
            steps,
            eta,
            step_done,
        )


def expander(keys: Tensor) -> Tensor:
    """A random regular graph: rings through all pieces, each in the order of its own keys.

    A union of random rings is an expander with high probability: few edges, and short ways from
    every piece to every other.

    Args:
        keys: (G, n, rings) random numbers.

    Returns:
        (G, n, n) bool, symmetric, true on the diagonal; two edges a ring for each piece, less those
        that rings share.
    """
    pieces = keys.shape[1]
    place = (keys[:, :, None] > keys[:, None]).sum(2)
    ahead = (place[:, :, None] - place[:, None]) % pieces
    return ((ahead <= 1) | (ahead == pieces - 1)).any(-1) | torch.eye(
        pieces, dtype=torch.bool, device=keys.device
    )


class PictureEncoder(nn.Module):
    """(P, s, s, 4) uint8 pictures to (P, width), turned pictures to other numbers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        steps: list[nn.Module] = []
        for before, after in zip((4, *CHANNELS[:-1]), CHANNELS, strict=True):
            steps += [
                nn.Conv2d(before, after, 3, stride=2, padding=1),
                nn.GroupNorm(4, after),
                nn.SiLU(),
            ]
        self.convolutions = nn.Sequential(*steps)
        self.out = nn.Linear(CHANNELS[-1] * CELLS**2, width)

    def forward(self, shown: Tensor) -> Tensor:
        pixels = shown.movedim(-1, 1) / 255.0
        cover = pixels[:, 3:]
        pixels = torch.cat([(pixels[:, :3] - 0.5) * cover, cover], 1)
        summary: Tensor = self.out(self.convolutions(pixels).flatten(1))
        return summary


class GraphLayer(nn.Module):
    """Attention of each node to its neighbours and itself, then a feed-forward network.

    Attention is dense with a mask rather than along a list of edges, as of torch_geometric: sums
    along a list are scattered, in an order that a GPU does not repeat, while this is one fused
    kernel whose numbers come back bit for bit. Nodes are pieces, so that masks are small.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feedforward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)
        )

    def forward(self, h: Tensor, graph: list[tuple[Group, Tensor | None]]) -> Tensor:
        groups, edges = zip(*graph, strict=True)
        h = h + self.out(attend(self.qkv(self.norm(h)), groups, self.heads, edges))
        fed: Tensor = self.feedforward(h)
        return h + fed


class Diffassemble(DiffusionSolver):
    """Diffusion over the poses of pictures, after DiffAssemble (Scarpellini et al., 2024).

    Args:
        steps: of denoising.
        samples: how many answers are drawn; those after the first tell how sure it is.
        weights: a name, a safetensors file or the folder of a training run; those shipped when
            left out.
        device: `cpu` or `cuda`.
    """

    def __init__(
        self,
        *,
        steps: int = 20,
        samples: int = 4,
        weights: str | None = None,
        device: Device = "cpu",
    ) -> None:
        network, sha256 = load_network("diffassemble", DiffAssembleNet, DiffAssembleConfig, weights)
        super().__init__(network, sha256, steps=steps, samples=samples, device=device)

    def sampler(self, run: Run) -> Sampler:
        at_once = max(1, PIECES_AT_ONCE // len(run.fragments))
        return self.of_batch(run.see(_picture_of), at_once, run)


def _picture_of(fragment: Fragment) -> Columns:
    """A piece's picture and its area: no keypoints."""
    nothing = np.zeros((1, 0), np.float32)
    return {
        "points": np.zeros((1, 0, 2), np.float32),
        "edge_angle": nothing,
        "curvature": nothing,
        "windows": np.zeros((1, 0, 0, 2), np.float16),
        "area": np.array([fragment.area_mm2], np.float32),
        **pictures([fragment]),
    }
