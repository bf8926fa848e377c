"""Training steps as CUDA graphs: the same arithmetic without the cost of launching it piecemeal.

A step of a small network is thousands of short kernels, and starting them takes several times as
long as running them. Batches of one shape repeat, so each shape is recorded once and replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn

from reassembly.config import LossConfig
from reassembly.diffusion.batch import Batch
from reassembly.diffusion.network import PoseNetwork

__all__ = ["GraphedLosses"]

MOST_GRAPHS = 40
"""Shapes that are recorded; batches of further shapes run as they are."""


class GraphedLosses:
    """Losses of a network, with a recorded graph for each shape of batch."""

    def __init__(self, network: PoseNetwork, weights: LossConfig) -> None:
        self.network, self.weights = network, weights
        self._recorded: dict[tuple[int, ...], Callable[..., tuple[Tensor, ...]]] = {}
        self._names: tuple[str, ...] = ()
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(
        self, batch: Batch, t: Tensor, noise: Tensor, turns: Tensor, given: Tensor
    ) -> dict[str, Tensor]:
        """The losses at times t, under noise, of pieces turned by so many radians (P,).

        Args:
            given: (P,) bool, see `ReassembleNet.loss_at`.
        """
        step = _Step(self.network, self.weights, batch)
        tensors = (t, noise, turns, given, *step.tensors(batch))
        even = len(set(batch.pieces)) == 1
        if batch.pieces not in self._recorded and (not even or len(self._recorded) >= MOST_GRAPHS):
            return step.losses(*tensors)
        # Recording forbids that autocast keeps casts of the weights from one call to the next.
        with torch.autocast(
            "cuda",
            torch.get_autocast_dtype("cuda"),
            torch.is_autocast_enabled("cuda"),
            cache_enabled=False,
        ):
            if batch.pieces not in self._recorded:
                self._names = tuple(step.losses(*tensors))
                sample = tuple(value.clone() for value in tensors)
                recorded: Any = torch.cuda.make_graphed_callables(
                    step, sample, allow_unused_input=True, pool=self._pool
                )
                self._recorded[batch.pieces] = recorded
            values = self._recorded[batch.pieces](*tensors)
        return dict(zip(self._names, values, strict=True))


class _Step(nn.Module):
    """The losses of batches of one shape, as a function of tensors alone."""

    def __init__(self, network: PoseNetwork, weights: LossConfig, batch: Batch) -> None:
        super().__init__()
        self.network, self.weights, self.pieces = network, weights, batch.pieces
        self.columns = [e.name for e in fields(batch) if isinstance(getattr(batch, e.name), Tensor)]

    def tensors(self, batch: Batch) -> list[Tensor]:
        return [getattr(batch, name) for name in self.columns]

    def losses(
        self, t: Tensor, noise: Tensor, turns: Tensor, given: Tensor, *values: Tensor
    ) -> dict[str, Tensor]:
        batch = Batch(self.pieces, **dict(zip(self.columns, values, strict=True)))
        return self.network.loss_at(batch.turned(turns), self.weights, t, noise, given)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        loss, *parts = self.losses(*tensors).values()
        return loss, *(part.detach() for part in parts)
