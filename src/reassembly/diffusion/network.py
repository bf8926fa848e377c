"""What training and solving ask of a network that finds poses by diffusion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from reassembly.config import LossConfig
from reassembly.diffusion.batch import Batch

__all__ = ["PoseNetwork"]


class PoseNetwork(Protocol):
    """Also a `torch.nn.Module`. Pose vectors are those of `diffusion.frames`."""

    @property
    def graphable(self) -> bool:
        """Whether a training step is the same chain of kernels for all batches of one shape."""

    def draw(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """All that is random in one training step, as two tensors on the generator's device: times
        (B,), one for each puzzle, and noise."""

    def loss_at(
        self,
        batch: Batch,
        weights: LossConfig,
        t: Tensor,
        noise: Tensor,
        given: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """`loss` of one training step, and its parts.

        Args:
            t, noise: what `draw` returned, on the batch's device.
            given: (P,) bool, pieces whose poses are given besides those of the anchors.
        """

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
        """(P, 4) pose vectors out of noise, with unit rotations.

        Args:
            given: (P, 4) pose vectors of the fixed pieces; others are ignored.
            fixed: (P,) bool; the anchors when left out.
            steps: of denoising.
            eta: 0 for DDIM, which is deterministic; 1 for ancestral steps.
            step_done: called after every step with its number and the present x0 (P, 4).
        """
