"""Pre-training of the selector: keep the points that keep a piece's area and perimeter.

Choosing the k best scores has no gradient. In training, every candidate is therefore kept at
random, independently, with a probability that rises with its score and such that k are kept on
average; area and perimeter of the random polygon have expectations in closed form. As the
temperature falls, the probabilities become 0 or 1 and the expectations those of the k best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray

from reassembly.keypoints.selector import KeypointSelector, area_and_perimeter, selector_inputs
from reassembly.outline.keypoints import find_keypoints
from reassembly.puzzle import Fragment

__all__ = [
    "Outlines",
    "deformed",
    "expected_area_and_perimeter",
    "keeping_logits",
    "kept_area_and_perimeter",
    "outlines_of",
    "pretrain",
    "scores_loss",
    "selector_loss",
    "shape_losses",
]

BISECTIONS = 40
K_RANGE = (10, 40)
"""How many keypoints a step of pre-training may ask for: one selector serves them all."""
TEMPERATURES = (0.4, 0.12)
"""At the first step, and from the middle of the training on."""
STRETCH = 1.5
"""How much longer, at most, training makes a piece in one direction than across."""
TYPICAL_K = 20


@dataclass(frozen=True)
class Outlines:
    """Candidate keypoints of M pieces, N each, in the order of their contours."""

    points: torch.Tensor
    """(M, N, 2), mm."""
    curvature: torch.Tensor
    """(M, N), 1/mm."""
    edge_angle: torch.Tensor
    """(M, N), radians."""

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, which: torch.Tensor) -> Outlines:
        return Outlines(self.points[which], self.curvature[which], self.edge_angle[which])

    @property
    def inputs(self) -> torch.Tensor:
        """(M, N, 4), see `selector_inputs`."""
        return selector_inputs(self.points, self.curvature, self.edge_angle)


def outlines_of(fragments: Iterable[Fragment], count: int = 100) -> Outlines:
    """The `count` candidate keypoints of each fragment."""
    found = [find_keypoints(fragment, count) for fragment in fragments]
    points, curvature, edge_angle = (
        torch.from_numpy(np.stack([getattr(keypoints, name) for keypoints in found])).float()
        for name in ("points", "curvature", "edge_angle")
    )
    return Outlines(points, curvature, edge_angle)


def deformed(outlines: Outlines, matrix: torch.Tensor) -> Outlines:
    """The outlines of pieces that are turned, stretched or mirrored.

    Args:
        matrix: (M, 2, 2), one for each piece, applied to column vectors. Where it mirrors, the
            contour is walked backwards, so that its area stays positive.
    """
    determinant = torch.linalg.det(matrix)[:, None]
    mirrored = determinant < 0
    points = outlines.points @ matrix.mT
    tangent = torch.stack([outlines.edge_angle.cos(), outlines.edge_angle.sin()], dim=-1)
    tangent = tangent @ matrix.mT * determinant.sign()[..., None]
    curvature = outlines.curvature * determinant.abs() / tangent.norm(dim=-1) ** 3
    edge_angle = torch.atan2(tangent[..., 1], tangent[..., 0])
    return Outlines(
        torch.where(mirrored[..., None], points.flip(1), points),
        torch.where(mirrored, curvature.flip(1), curvature),
        torch.where(mirrored, edge_angle.flip(1), edge_angle),
    )


def _draw_matrices(count: int, rng: np.random.Generator) -> torch.Tensor:
    """(count, 2, 2): a stretch of up to `STRETCH`, mirrored or not, and a turn before and after."""
    before, after = rng.uniform(-math.pi, math.pi, (2, count))
    stretch = STRETCH ** rng.uniform(-0.5, 0.5, count)
    sides = np.zeros((count, 2, 2))
    sides[:, 0, 0] = stretch * rng.choice([-1.0, 1.0], count)
    sides[:, 1, 1] = 1 / stretch

    def turns(angle: NDArray[np.float64]) -> NDArray[np.float64]:
        c, s = np.cos(angle), np.sin(angle)
        return np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)

    return torch.from_numpy(turns(after) @ sides @ turns(before)).float()


def kept_area_and_perimeter(
    points: torch.Tensor, indices: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the chosen points alone keep of a piece.

    Args:
        points: (P, N, 2), in the order of the contour.
        indices: (P, k), ascending.

    Returns:
        (P,) area and (P,) perimeter of the polygon of the chosen points, as shares of those of
        the polygon of all points.
    """
    area, perimeter = area_and_perimeter(points)
    chosen = area_and_perimeter(points.take_along_dim(indices[..., None], dim=1))
    return chosen[0] / area, chosen[1] / perimeter


def shape_losses(
    area_share: torch.Tensor, perimeter_share: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The paper's two losses: squared relative losses of area and of perimeter."""
    return (1 - area_share).square(), (1 - perimeter_share).square()


def keeping_logits(scores: torch.Tensor, k: int, temperature: float) -> torch.Tensor:
    """(P, N) logits (y - c) / temperature of the probabilities with which candidates are kept.

    c is chosen for every piece so that the probabilities sum to `k`, also under changes of the
    scores: gradients pass through it.
    """
    scaled = scores / temperature
    with torch.no_grad():
        low, high = scaled.amin(dim=1) - 20, scaled.amax(dim=1) + 20
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            many = torch.sigmoid(scaled - middle[:, None]).sum(dim=1) > k
            low, high = torch.where(many, middle, low), torch.where(many, high, middle)
        threshold = (low + high) / 2
        kept = torch.sigmoid(scaled - threshold[:, None])
        slope = (kept * (1 - kept)).sum(dim=1).clamp_min(1e-6)
        weight = kept * (1 - kept) / slope[:, None]
    # The derivative of c, by the theorem on implicit functions, is `weight`.
    implicit = (weight * (scaled - scaled.detach())).sum(dim=1)
    return scaled - (threshold + implicit)[:, None]


def expected_area_and_perimeter(
    points: torch.Tensor, logits: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Expected signed area and perimeter of a polygon whose vertices are kept independently.

    An edge from i to j is there when both are kept and nothing between them is. Polygons of one
    or two vertices have no area; the perimeter of two counts both ways.

    Args:
        points: (P, N, 2), in the order of the contour.
        logits: (P, N), of the probability that a vertex is kept.

    Returns:
        (P,) areas and (P,) perimeters.
    """
    count = points.shape[1]
    start = torch.arange(count, device=points.device)
    ends = (start[:, None] + start[1:]) % count
    points = points - points.mean(dim=1, keepdim=True)
    kept, dropped = F.logsigmoid(logits), F.logsigmoid(-logits)
    # (P, N, N-1): of the vertices from i on up to, and without, each j.
    between = F.pad(dropped[:, ends].cumsum(dim=2)[..., :-1], (1, 0))
    edge = torch.exp(kept[..., None] + kept[:, ends] + between)
    here, there = points[:, :, None], points[:, ends]
    cross = here[..., 0] * there[..., 1] - here[..., 1] * there[..., 0]
    length = (there - here).norm(dim=-1)
    return (edge * cross).sum(dim=(1, 2)) / 2, (edge * length).sum(dim=(1, 2))


def selector_loss(
    selector: KeypointSelector,
    inputs: torch.Tensor,
    points: torch.Tensor,
    k: int,
    temperature: float,
) -> dict[str, torch.Tensor]:
    """The paper's pre-training loss, in expectation.

    Args:
        inputs: (P, N, 4), see `selector_inputs`.
        points: (P, N, 2), in the order of the contour.
        k: how many keypoints are kept on average.
        temperature: see `keeping_logits`.

    Returns:
        Means over the pieces: `area` and `perimeter`, and `loss`, their sum.
    """
    _, scores = selector.embed(inputs)
    return scores_loss(scores, points, k, temperature)


def scores_loss(
    scores: torch.Tensor, points: torch.Tensor, k: int, temperature: float
) -> dict[str, torch.Tensor]:
    """The same, from the scores (P, N) of the candidates."""
    whole_area, whole_perimeter = area_and_perimeter(points)
    area, perimeter = expected_area_and_perimeter(points, keeping_logits(scores, k, temperature))
    losses = shape_losses(area / whole_area, perimeter / whole_perimeter)
    means = {"area": losses[0].mean(), "perimeter": losses[1].mean()}
    return {**means, "loss": means["area"] + means["perimeter"]}


def pretrain(
    selector: KeypointSelector,
    outlines: Outlines,
    steps: int,
    seed: int,
    *,
    frequency: torch.Tensor | None = None,
    batch_size: int = 16,
    learning_rate: float = 2e-3,
    k_range: tuple[int, int] = K_RANGE,
    temperatures: tuple[float, float] = TEMPERATURES,
    progress: Callable[[int, dict[str, float]], None] | None = None,
) -> None:
    """Trains a selector in place, on pieces drawn, turned, stretched and mirrored at random.

    The learning rate rises over the first twentieth of the steps, then falls to 0 along a
    cosine; the temperature falls exponentially over the first half of the steps and then stays.
    Whatever the points, losses fall with about the square of k; they are multiplied by it, or
    else only the smallest k would be learned.

    Args:
        frequency: (M,), how often each outline is drawn; by default all alike.
        k_range: least and greatest number of keypoints that a step asks for.
        temperatures: at the first step, and from the middle of the training on.
        progress: called after every step with its number, from 1, and its losses.
    """
    rng = np.random.default_rng(seed)
    device = next(selector.parameters()).device
    optimiser = torch.optim.AdamW(selector.parameters(), lr=learning_rate, weight_decay=1e-4)
    warm_up = max(1, steps // 20)

    def rate(step: int) -> float:
        through = max(0, step - warm_up) / max(1, steps - warm_up)
        return min(1.0, (step + 1) / warm_up) * (1 + math.cos(math.pi * through)) / 2

    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
    chance = None if frequency is None else (frequency.double() / frequency.double().sum()).numpy()
    selector.train()
    for step in range(steps):
        drawn = torch.from_numpy(rng.choice(len(outlines), batch_size, p=chance))
        batch = deformed(outlines[drawn], _draw_matrices(batch_size, rng))
        k = int(rng.integers(k_range[0], k_range[1] + 1))
        first, last = temperatures
        temperature = max(last, first * (last / first) ** (2 * step / steps))
        inputs, points = batch.inputs.to(device), batch.points.to(device)
        losses = selector_loss(selector, inputs, points, k, temperature)
        optimiser.zero_grad()
        (losses["loss"] * (k / TYPICAL_K) ** 2).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(selector.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if progress is not None:
            progress(step + 1, {name: float(value.detach()) for name, value in losses.items()})
    selector.eval()
