"""The largest set of fragments that one rigid motion brings to where they belong.

Fragment m agrees with a motion that turns by θ and shifts by t where θ is within the allowed angle
of the turn that m needs, and where the motion carries m's predicted centroid to within the allowed
distance of its true one. For a given θ the second condition says that t lies in a disc around
c(θ) = true centroid - R(θ) predicted centroid, so the best t is where the discs lie deepest. Over θ
the search is by branch and bound: while θ stays within h of an interval's middle, c(θ) moves by no
more than h times the centroid's distance from the origin, so the depth of discs that much larger
bounds what the interval can hold.
"""

from __future__ import annotations

import heapq
import math

import numpy as np
from numpy.typing import NDArray

from reassembly.pose import rotation_matrix

__all__ = ["largest_group"]

RESOLUTION_MM = 0.1
"""The search stops where a finer angle would move no centroid by more than this,"""
RESOLUTION_RAD = 1e-4
"""or would be finer than this."""
ROUNDING = 1e-9
"""Slack of angles (radians) and distances (mm), so that exactly at the limit is within it."""


def largest_group(
    predicted: NDArray[np.float64],
    true: NDArray[np.float64],
    turns: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    angle_rad: float,
    distance_mm: float,
) -> float:
    """The largest total weight of fragments that agree under one rigid motion.

    Args:
        predicted: (k, 2) centroids in the prediction's frame, mm.
        true: (k, 2) centroids in the truth's frame, mm.
        turns: (k,) turn that takes each predicted rotation to the true one, radians.
        weights: (k,), above 0.
        angle_rad: how far a fragment's rotation may be off.
        distance_mm: how far its centroid may be off.
    """
    if len(weights) == 0:
        return 0.0
    levers = predicted - np.median(predicted, axis=0)
    arms = np.linalg.norm(levers, axis=1)

    def depth(angle: float, members: NDArray[np.intp], slack_rad: float) -> float:
        centres = true[members] - levers[members] @ rotation_matrix(angle).T
        radii = distance_mm + arms[members] * slack_rad + ROUNDING
        return _deepest(centres, radii, weights[members])

    best = float(weights.max())
    queue = []
    for low, high in _intervals(turns, angle_rad + ROUNDING):
        off = np.abs(np.remainder(turns - (low + high) / 2 + math.pi, math.tau) - math.pi)
        members = np.flatnonzero(off <= angle_rad + ROUNDING)
        queue.append((-float(weights[members].sum()), low, high, tuple(members.tolist())))
    heapq.heapify(queue)
    while queue and -queue[0][0] > best * (1 + ROUNDING):
        _, low, high, chosen = heapq.heappop(queue)
        members = np.array(chosen, dtype=np.intp)
        middle, half = (low + high) / 2, (high - low) / 2
        best = max(best, depth(middle, members, 0.0))
        bound = depth(middle, members, half)
        fine = half * arms[members].max() <= RESOLUTION_MM or half <= RESOLUTION_RAD
        if bound > best * (1 + ROUNDING) and not fine:
            heapq.heappush(queue, (-bound, low, middle, chosen))
            heapq.heappush(queue, (-bound, middle, high, chosen))
    return best


def _intervals(turns: NDArray[np.float64], angle_rad: float) -> list[tuple[float, float]]:
    """Intervals of angle that cover the circle, within each of which the same fragments have
    their rotation right (radians; the last may end beyond a full turn)."""
    ends = np.concatenate([turns - angle_rad, turns + angle_rad])
    ends = np.unique(np.remainder(ends, math.tau))
    return list(zip(ends, np.append(ends[1:], ends[0] + math.tau), strict=True))


def _deepest(
    centres: NDArray[np.float64], radii: NDArray[np.float64], weights: NDArray[np.float64]
) -> float:
    """The largest total weight of discs that share a point.

    That point may be sought among the centres and the points where two rims cross: what the
    deepest discs have in common is either a whole disc or has such a corner.
    """
    first, second = np.triu_indices(len(radii), 1)
    across = centres[second] - centres[first]
    apart = np.hypot(*across.T)
    a, b = radii[first], radii[second]
    crosses = (apart <= a + b) & (apart >= np.abs(a - b)) & (apart > 0)
    across, apart, a, b = across[crosses], apart[crosses], a[crosses], b[crosses]
    along = (apart**2 + a**2 - b**2) / (2 * apart)
    aside = np.sqrt(np.maximum(a**2 - along**2, 0.0))
    unit = across / apart[:, None]
    normal = np.column_stack([-unit[:, 1], unit[:, 0]])
    foot = centres[first[crosses]] + unit * along[:, None]
    sideways = normal * aside[:, None]
    points = np.concatenate([centres, foot + sideways, foot - sideways])
    gaps = np.linalg.norm(points[:, None] - centres[None], axis=2)
    return float(((gaps <= radii + ROUNDING) @ weights).max())
