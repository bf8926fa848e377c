"""Farthest point sampling: few points that cover many evenly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

__all__ = ["farthest_order_batch", "farthest_points", "farthest_points_batch"]


def farthest_points(
    points: NDArray[np.float64],
    count: int,
    start: int | NDArray[np.intp] = 0,
    apart: float = 0.0,
) -> NDArray[np.intp]:
    """Takes, again and again, the point farthest from all those taken.

    Args:
        points: (N, 2), any unit, in contour order.
        count: how many to take in all, at most N.
        start: index of the first one, or indices of several that are taken already.
        apart: points nearer than this to one already taken are left alone, even if fewer than
            `count` come back; same unit as `points`.

    Returns:
        (count,) indices, ascending: contour order. Where several are equally far, the first
        along the contour is taken.
    """
    if not 0 < count <= len(points):
        raise ValueError(f"cannot choose {count} of {len(points)} points")
    first = np.atleast_1d(np.asarray(start, dtype=np.intp))[:count]
    x, y = points[:, 0].copy(), points[:, 1].copy()
    # Squared distance to the nearest point taken; below zero for those taken themselves, so
    # that points which coincide are still taken only once each.
    nearest = np.full(len(points), np.inf)
    for k in first:
        np.minimum(nearest, (x - x[k]) ** 2 + (y - y[k]) ** 2, out=nearest)
    nearest[first] = -1.0
    taken = [int(k) for k in first]
    while len(taken) < count:
        k = int(nearest.argmax())
        if nearest[k] < apart * apart:
            break
        np.minimum(nearest, (x - x[k]) ** 2 + (y - y[k]) ** 2, out=nearest)
        nearest[k] = -1.0
        taken.append(k)
    return np.sort(np.array(taken, dtype=np.intp))


def farthest_points_batch(points: torch.Tensor, count: int) -> torch.Tensor:
    """The same for many pieces at once, on whatever device the points are.

    Each piece's first point is the one farthest from the mean of its points, so that the choice
    depends neither on where its contour begins nor on how it lies.

    Args:
        points: (P, N, 2), any unit, in contour order.
        count: how many to take of each piece, at most N.

    Returns:
        (P, count) indices (int64), ascending in each row.
    """
    return farthest_order_batch(points, count).sort(dim=1).values


def farthest_order_batch(points: torch.Tensor, count: int) -> torch.Tensor:
    """`farthest_points_batch` in the order in which points are taken: the first n of a row are
    what would be taken if n were asked for."""
    import torch

    if not 0 < count <= points.shape[1]:
        raise ValueError(f"cannot choose {count} of {points.shape[1]} points")
    points = points.detach()
    rows = torch.arange(len(points), device=points.device)
    k = (points - points.mean(dim=1, keepdim=True)).square().sum(dim=-1).argmax(dim=1)
    nearest = torch.full(points.shape[:2], torch.inf, dtype=points.dtype, device=points.device)
    taken = [k]
    for _ in range(count - 1):
        distance = (points - points[rows, k][:, None]).square().sum(dim=-1)
        nearest = torch.minimum(nearest, distance)
        nearest = nearest.scatter(1, k[:, None], -1.0)
        k = nearest.argmax(dim=1)
        taken.append(k)
    return torch.stack(taken, dim=1)
