"""A join laid out straight: both rims, the gap between them and the paint on either side, along the
break.

Every placement of two pieces becomes a small picture of one size, whatever its place and its bend:
along it runs the break, across it lie the paint of the one piece, from deep to the rim, and the
paint of the other, from the rim to deep. A line that runs on across the gap runs on in the strip.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reassembly.matching.motions import Motions, carried
from reassembly.matching.rim import DEPTHS_MM, Rim

__all__ = [
    "CHANNELS",
    "FACING",
    "GAP_UNIT_MM",
    "LENGTH",
    "NEAR_MM",
    "WIDTH",
    "beside",
    "fit",
    "strips",
]

Floats = NDArray[np.float32]

LENGTH = 64
"""Points along a strip, 1 mm apart: longer breaks show their middle."""
WIDTH = 2 * len(DEPTHS_MM)
CHANNELS = 6
"""Three of colour, then how far the rims are apart, how they face each other, and whether they are
near each other at all."""
NEAR_MM = 8.0
"""Rims further apart than this are not part of a join."""
FACING = -0.3
"""Largest cosine between outward normals that face each other."""
GAP_UNIT_MM = 4.0

ROUNDS = 6
REST_GAP_MM = 1.5
"""The gap that is aimed at: edge to edge, pieces of worn frescoes would move together."""
BOUND_MM = 4.0
"""Distances beyond this count less and less, so that losses of rim do not pull."""


def fit(fixed: Rim, moving: Rim, motions: Motions, rounds: int = ROUNDS) -> Motions:
    """The motions (K, 3), each moved a little so that the rims lie evenly beside each other.

    Least squares on the distances of the moving rim from the fixed one along the fixed one's
    normals, all placements at once.
    """
    motions = motions.astype(np.float64).copy()
    damping = np.diag([400.0, 1.0, 1.0])
    for _ in range(rounds):
        points, signed, nearest, facing = beside(fixed, moving, motions)
        arms = points - motions[:, None, 1:]
        miss = signed - REST_GAP_MM
        weight = (np.abs(signed) < NEAR_MM) * np.clip(-facing, 0, 1) / (1 + (miss / BOUND_MM) ** 2)
        normal = fixed.normals[nearest]
        # Turning counter-clockwise as seen, by a small angle, carries (x, y) to (x + y, y - x).
        swing = normal[..., 0] * arms[..., 1] - normal[..., 1] * arms[..., 0]
        slope = np.concatenate([swing[..., None], normal], axis=-1).astype(np.float64)
        left = np.einsum("kn,kni,knj->kij", weight, slope, slope) + damping
        right = np.einsum("kn,kni,kn->ki", weight, slope, miss)
        motions -= np.linalg.solve(left, right[..., None])[..., 0]
    return motions


def strips(fixed: Rim, moving: Rim, motions: Motions) -> tuple[Floats, Floats]:
    """The strips (K, `CHANNELS`, `WIDTH`, `LENGTH`) of placements, and figures (K, 5) of each:
    length of contact, mean gap, spread of the gap, overlap and length that lies on the other piece,
    all in mm or mm^2.
    """
    _, signed, nearest, facing = beside(fixed, moving, motions)
    joined = (np.abs(signed) < NEAR_MM) & (facing < FACING)
    strength = joined / (1 + (signed / BOUND_MM) ** 2)
    middle = _middle(strength)
    along = np.arange(LENGTH) - LENGTH // 2
    index = (middle[:, None] + along) % len(moving.points)
    take = np.arange(len(motions))[:, None]
    at, gap = nearest[take, index], signed[take, index]
    valid = (np.abs(gap) < NEAR_MM) & (facing[take, index] < 0)
    far = fixed.paint[at].transpose(0, 3, 2, 1)
    own = moving.paint[index].transpose(0, 3, 2, 1)
    colour = np.concatenate([far[:, :, ::-1], own], axis=2)
    lines = np.stack([gap / GAP_UNIT_MM, facing[take, index], valid.astype(np.float32)], axis=1)
    rows = np.broadcast_to(lines[:, :, None], (len(motions), 3, WIDTH, LENGTH))
    strip = np.concatenate([colour * valid[:, None, None], rows * valid[:, None, None]], axis=1)
    step = moving.step_mm
    length = joined.sum(axis=1)
    mean = (signed * joined).sum(axis=1) / np.maximum(length, 1)
    spread = np.sqrt((joined * (signed - mean[:, None]) ** 2).sum(axis=1) / np.maximum(length, 1))
    within = np.clip(-signed, 0, None)
    figures = np.stack(
        [length * step, mean, spread, within.sum(axis=1) * step, (within > 3).sum(axis=1) * step],
        axis=1,
    )
    return strip.astype(np.float32), figures.astype(np.float32)


def beside(
    fixed: Rim, moving: Rim, motions: Motions
) -> tuple[Floats, Floats, NDArray[np.int32], Floats]:
    """Of every point of the moved rim: where it is (K, N, 2), its distance (K, N) from the fixed
    rim, the nearest point there, and the cosine between the two outward normals."""
    points = carried(moving.points, motions)
    signed, nearest = fixed.look_up(points)
    normals = carried(moving.normals, motions * [1.0, 0.0, 0.0])
    facing = (normals * fixed.normals[nearest]).sum(axis=-1)
    return points, signed, nearest, facing


def _middle(strength: Floats) -> NDArray[np.int64]:
    """(K,): where along the closed rim the contact is centred."""
    count = strength.shape[1]
    angle = np.exp(2j * np.pi * np.arange(count) / count)
    centre = np.angle((strength * angle).sum(axis=1))
    middle: NDArray[np.int64] = np.round(centre / (2 * np.pi) * count).astype(np.int64) % count
    return middle
