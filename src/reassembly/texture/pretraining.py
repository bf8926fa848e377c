"""Self-supervised training of the texture encoder: which patches meet across a break?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from reassembly.outline.keypoints import Keypoints
from reassembly.pose import Pose
from reassembly.puzzle import Fragment
from reassembly.texture.encoder import TextureEncoder, colours_and_cover, standardise
from reassembly.texture.patches import cut_patches

__all__ = ["PatchContrast", "contrast_patches", "info_nce", "opposite_keypoints", "photometric"]


def opposite_keypoints(
    keypoints: Sequence[Keypoints],
    poses: Sequence[Pose],
    reach_mm: float = 6.0,
    tolerance_rad: float = math.pi / 3,
) -> NDArray[np.int64]:
    """For each keypoint of a puzzle, the nearest one of another piece across the break.

    Args:
        keypoints: per piece.
        poses: per piece, in one common frame.
        reach_mm: how far apart two keypoints that meet may lie.
        tolerance_rad: by how much their edges may miss running against each other.

    Returns:
        (M,) indices into all M keypoints, piece after piece, or -1 where none meets it.
    """
    piece = np.repeat(np.arange(len(keypoints)), [len(k) for k in keypoints])
    points = np.concatenate(
        [pose.apply(k.points) for k, pose in zip(keypoints, poses, strict=True)]
    )
    # A pose turns counter-clockwise as seen, edge angles are measured clockwise (y down).
    angle = np.concatenate(
        [k.edge_angle - pose.rotation_rad for k, pose in zip(keypoints, poses, strict=True)]
    )
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    against = np.cos(angle[:, None] - angle[None]) < -math.cos(tolerance_rad)
    distance[(piece[:, None] == piece[None]) | ~against] = np.inf
    nearest = distance.argmin(axis=1)
    met = distance[np.arange(len(nearest)), nearest] <= reach_mm
    return np.where(met, nearest, -1)


def contrast_patches(
    fragments: Sequence[Fragment],
    keypoints: Sequence[Keypoints],
    *,
    tangent: bool,
    rng: np.random.Generator,
    size_px: int = 32,
    mm_per_px: float = 0.2714,
) -> NDArray[np.uint8]:
    """The patches of one puzzle, as one of the two variants will see them.

    An encoder that is to serve both is shown one half of the puzzles either way.

    Args:
        fragments, keypoints: per piece.
        tangent: patches in the keypoints' tangent frames; otherwise in the frame of the
            picture, turned at random, piece by piece.

    Returns:
        (M, size_px, size_px, 4), piece after piece.
    """
    cut = []
    for fragment, found in zip(fragments, keypoints, strict=True):
        turn = rng.uniform(-math.pi, math.pi)
        angles = found.edge_angle if tangent else np.full(len(found), turn)
        cut.append(cut_patches(fragment, found.points, angles, size_px, mm_per_px))
    return np.concatenate(cut)


def photometric(
    rgb: torch.Tensor,
    cover: torch.Tensor,
    generator: torch.Generator | None = None,
    strength: float = 1.0,
) -> torch.Tensor:
    """The same patches under other light: brightness, contrast, gain of each channel, a slight
    blur and noise, drawn for each patch on its own.

    Args:
        rgb: (N, 3, s, s) from 0 to 1.
        cover: (N, 1, s, s) from 0 to 1: the blur mixes in nothing from outside the fragment.
        generator: on the device of `rgb`.
        strength: 0 changes nothing.

    Returns:
        (N, 3, s, s) from 0 to 1.
    """

    def drawn(channels: int) -> torch.Tensor:
        shape = (len(rgb), channels, 1, 1)
        return 2 * torch.rand(shape, device=rgb.device, generator=generator) - 1

    kernel = rgb.new_tensor([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]) / 16
    with torch.autocast(rgb.device.type, enabled=False):
        spread = functional.conv2d(
            torch.cat([rgb * cover, cover], dim=1), kernel.expand(4, 1, 3, 3), padding=1, groups=4
        )
    blurred = spread[:, :3] / spread[:, 3:].clamp_min(1e-3)
    rgb = torch.lerp(rgb, blurred, drawn(1).clamp_min(0.0) * strength)

    mean = (rgb * cover).sum(dim=(1, 2, 3), keepdim=True) / (
        3 * cover.sum(dim=(1, 2, 3), keepdim=True).clamp_min(1.0)
    )
    contrast = torch.exp(0.2 * strength * drawn(1))
    gain = torch.exp(0.1 * strength * drawn(3))
    noise = torch.randn(rgb.shape, device=rgb.device, generator=generator)
    lit = ((rgb - mean) * contrast + mean + 0.1 * strength * drawn(1)) * gain
    return (lit + noise * (0.015 * strength * (1 + drawn(1)))).clamp(0.0, 1.0)


def info_nce(
    embedding: torch.Tensor, partner: torch.Tensor, temperature: float
) -> dict[str, torch.Tensor]:
    """How well each keypoint picks its partner out of all others, and is picked by it.

    Args:
        embedding: (M, D) of length 1.
        partner: (M,) index of the partner, or -1 for keypoints that serve as negatives only.

    Returns:
        loss: mean cross entropy in both directions; 0 where no keypoint has a partner.
        top1: share of keypoints, among those with one, whose most similar other is the partner.
        pairs: how many have one.
    """
    query = torch.nonzero(partner >= 0)[:, 0]
    if len(query) == 0:
        zero = embedding.sum() * 0.0
        return {"loss": zero, "top1": zero.detach(), "pairs": zero.detach()}
    target = partner[query]
    similarity = embedding @ embedding.T / temperature
    itself = torch.eye(len(embedding), dtype=torch.bool, device=embedding.device)
    similarity = similarity.masked_fill(itself, -torch.inf)
    # Several keypoints may share a partner: seen from it, the others are no negatives.
    shared = torch.zeros_like(itself)
    shared[target, query] = True
    backward = similarity[target].masked_fill(shared[target], -torch.inf)
    backward = backward.scatter(1, query[:, None], similarity[target, query][:, None])
    forward = similarity[query]
    loss = functional.cross_entropy(forward, target) + functional.cross_entropy(backward, query)
    return {
        "loss": loss / 2,
        "top1": (forward.argmax(dim=1) == target).float().mean(),
        "pairs": query.new_tensor(float(len(query)), dtype=torch.float32),
    }


class PatchContrast(nn.Module):
    """The encoder with the head that is thrown away after training.

    Args:
        encoder: what is trained.
        dim: length of the embeddings that are compared.
        temperature: of the softmax over all other keypoints.
    """

    def __init__(self, encoder: TextureEncoder, dim: int = 128, temperature: float = 0.1) -> None:
        super().__init__()
        self.encoder = encoder
        self.temperature = temperature
        self.head = nn.Sequential(
            nn.Linear(encoder.dim, encoder.dim), nn.ReLU(), nn.Linear(encoder.dim, dim)
        )

    def forward(
        self, patches: torch.Tensor, generator: torch.Generator | None = None
    ) -> torch.Tensor:
        """(M, s, s, 4) uint8 patches to (M, dim) embeddings of length 1; in training mode, each
        patch under a light of its own."""
        rgb, cover = colours_and_cover(patches)
        if self.training:
            rgb = photometric(rgb, cover, generator)
        features = self.encoder.features(standardise(rgb, cover))
        return functional.normalize(self.head(features), dim=1)

    def loss(
        self,
        patches: torch.Tensor,
        partner: torch.Tensor,
        generator: torch.Generator | None = None,
    ) -> dict[str, torch.Tensor]:
        """`info_nce` of a batch of puzzles.

        Args:
            patches: (M, s, s, 4) uint8, all keypoints of all puzzles of the batch.
            partner: (M,) index, within the batch, of the keypoint across the break, or -1.
            generator: of the photometric changes, on the device of the patches.
        """
        return info_nce(self(patches, generator), partner, self.temperature)
