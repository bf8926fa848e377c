"""Motions of pieces about their centroids, many at once.

Motions are (K, 3) arrays: turns in radians, counter-clockwise as seen, and shifts x and y in mm, as
in a `Pose`; but every piece's frame has its origin at the piece's centroid, so that a turn moves it
no more than it must.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reassembly.pose import Pose, rotation_matrix

__all__ = [
    "Motions",
    "brought_back",
    "carried",
    "composed",
    "inverse",
    "matrices",
    "motion_of",
    "pose_of",
]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Motions = Floats


def composed(outer: Floats, inner: Motions) -> Motions:
    """(K, 3): `inner` first, then the one motion `outer`, (3,)."""
    shifts = inner[:, 1:] @ rotation_matrix(outer[0]).T + outer[1:]
    return np.column_stack([inner[:, 0] + outer[0], shifts])


def inverse(motions: Motions) -> Motions:
    """(K, 3)."""
    back = matrices(-motions[:, 0])
    return np.column_stack([-motions[:, 0], -(back @ motions[:, 1:, None])[..., 0]])


def motion_of(pose: Pose, centroid_mm: Floats) -> Floats:
    """(3,): the motion about the centroid of a fragment that has that pose."""
    return np.concatenate([[pose.rotation_rad], pose.apply(centroid_mm[None])[0]])


def pose_of(motion: Floats, centroid_mm: Floats) -> Pose:
    """Undoes `motion_of`."""
    turn, x, y = motion.tolist()
    return Pose(x, y, turn) @ Pose(-centroid_mm[0], -centroid_mm[1])


def matrices(turns: Floats) -> Floats:
    """(K, 2, 2), of `pose.rotation_matrix`."""
    c, s = np.cos(turns), np.sin(turns)
    return np.stack([np.stack([c, s], -1), np.stack([-s, c], -1)], -2)


def brought_back(points: Floats | Singles, motions: Motions) -> Floats:
    """(K, 2): points (K, 2) as they were before each its own of K motions."""
    return np.asarray((matrices(-motions[:, 0]) @ (points - motions[:, 1:])[..., None])[..., 0])


def carried(points: Singles, motions: Motions) -> Singles:
    """(K, P, 2): (P, 2) or (K, P, 2) points carried along by K motions."""
    turned = points @ matrices(motions[:, 0]).transpose(0, 2, 1).astype(np.float32)
    return np.asarray(turned + motions[:, None, 1:].astype(np.float32))
