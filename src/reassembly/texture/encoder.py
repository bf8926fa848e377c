"""From patches to features: normalisation, size, trunk."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

__all__ = ["TextureEncoder", "colours_and_cover", "normalise", "standardise"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def colours_and_cover(patches: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(N, s, s, 4) uint8 as (N, 3, s, s) RGB and (N, 1, s, s) cover, both float from 0 to 1."""
    planes = patches.permute(0, 3, 1, 2).float() / 255.0
    return planes[:, :3], planes[:, 3:]


def standardise(rgb: torch.Tensor, cover: torch.Tensor) -> torch.Tensor:
    """ImageNet's normalisation; what the fragment does not cover becomes 0, the mean colour.

    Args:
        rgb: (N, 3, s, s) from 0 to 1.
        cover: (N, 1, s, s) from 0 to 1.

    Returns:
        (N, 3, s, s).
    """
    mean = rgb.new_tensor(IMAGENET_MEAN).view(3, 1, 1)
    std = rgb.new_tensor(IMAGENET_STD).view(3, 1, 1)
    return (rgb - mean) / std * cover


def normalise(patches: torch.Tensor) -> torch.Tensor:
    """(N, s, s, 4) uint8 patches as (N, 3, s, s) normalised images, 0 outside the fragment."""
    return standardise(*colours_and_cover(patches))


class TextureEncoder(nn.Module):
    """A trunk and the size at which it sees patches.

    Args:
        trunk: from (N, 3, H, W) normalised images to (N, D) features, with D as its `dim`. Its
            weights are made single precision.
        input_px: side to which patches are resized; 224 in the paper.
    """

    def __init__(self, trunk: nn.Module, input_px: int = 64) -> None:
        super().__init__()
        self.trunk = trunk.float()
        self.input_px = input_px

    @property
    def dim(self) -> int:
        """Length of the features."""
        return int(self.trunk.dim)  # type: ignore[arg-type]

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        """(N, s, s, 4) uint8 patches to (N, dim) features, with gradients."""
        return self.features(normalise(patches))

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, s, s) normalised images of any size to (N, dim) features, with gradients."""
        side = (self.input_px, self.input_px)
        if images.shape[-2:] != side:
            images = functional.interpolate(
                images, side, mode="bilinear", align_corners=False, antialias=True
            )
        features: torch.Tensor = self.trunk(images)
        return features

    def encode(self, patches: torch.Tensor | NDArray[np.uint8], batch: int = 512) -> torch.Tensor:
        """Features as they are used: without gradients, and each independent of the others.

        Args:
            patches: (N, s, s, 4) uint8, on any device.
            batch: how many go through the trunk at once; bounds the memory, changes no feature.

        Returns:
            (N, dim) float32, on the encoder's device.
        """
        device = next(self.parameters()).device
        whole: Any = torch.as_tensor(patches)
        training = self.training
        self.eval()
        try:
            with torch.no_grad():
                parts = [self(part.to(device)).float() for part in whole.split(batch)]
        finally:
            self.train(training)
        return torch.cat(parts) if len(whole) else torch.zeros(0, self.dim, device=device)
