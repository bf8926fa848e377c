"""A puzzle as arrays: candidate keypoints of every piece, their geometry, and what they meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reassembly.outline.contour import resample
from reassembly.outline.keypoints import find_keypoints
from reassembly.pose import Pose
from reassembly.puzzle import Fragment, Puzzle
from reassembly.synthetic.labels import Labels

__all__ = ["CANDIDATES", "Description", "centred_pose", "describe", "meetings"]

CANDIDATES = 100
"""Candidate keypoints of a piece, as in the paper."""
TOUCH_MM = 6.0
"""Two pieces in their true poses meet where their outlines are no farther apart than this; the
visible gaps of real fragments are 1 to 6 mm."""


@dataclass(frozen=True, eq=False)
class Description:
    """P pieces of one puzzle, N candidates each, lengths in mm.

    Each piece is in its own frame, moved so that its centroid is the origin. What the arrays hold
    is said in `reassembly.diffusion.batch.Batch`.
    """

    points: NDArray[np.float32]
    edge_angle: NDArray[np.float32]
    curvature: NDArray[np.float32]
    windows: NDArray[np.float16]
    area: NDArray[np.float32]
    truth: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """`pose`, `meets_piece`, `meets_point`, where the truth is known."""


def describe(fragments: Sequence[Fragment]) -> Description:
    """What can be seen of some fragments."""
    found = [find_keypoints(fragment, CANDIDATES) for fragment in fragments]
    centres = [fragment.centroid_mm for fragment in fragments]
    return Description(
        np.stack([k.points - c for k, c in zip(found, centres, strict=True)]).astype(np.float32),
        np.stack([k.edge_angle for k in found]).astype(np.float32),
        np.stack([k.curvature for k in found]).astype(np.float32),
        np.stack([k.windows for k in found]).astype(np.float16),
        np.array([fragment.area_mm2 for fragment in fragments], np.float32),
    )


def centred_pose(fragment: Fragment, pose: Pose) -> tuple[float, float, float]:
    """x_mm and y_mm of the fragment's centroid, and its rotation in radians, under a pose."""
    x, y = pose.apply(fragment.centroid_mm[None])[0]
    return float(x), float(y), pose.rotation_rad


def meetings(
    puzzle: Puzzle, description: Description, labels: Labels | None = None
) -> dict[str, NDArray[Any]]:
    """The truth about every piece and candidate, for training.

    Args:
        puzzle: with true poses of all its fragments.
        description: of `puzzle.fragments`.
        labels: of a made puzzle; without them, pieces meet where their outlines come near each
            other in their true poses.

    Returns:
        `pose` (P, 3), `meets_piece` (P, N) and `meets_point` (P, N, 2).
    """
    assert puzzle.truth is not None
    fragments = puzzle.fragments
    poses = np.array([centred_pose(f, puzzle.truth[f.id]) for f in fragments])
    if labels is None:
        piece, point = _touching(fragments, description, puzzle.truth)
    else:
        piece, point = _labelled(fragments, description, labels)
    return {"pose": poses, "meets_piece": piece, "meets_point": point}


def _labelled(
    fragments: Sequence[Fragment], description: Description, labels: Labels
) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """By the labels of the outline point nearest to each candidate."""
    from scipy.spatial import KDTree

    piece = np.full(description.points.shape[:2], -1, np.int16)
    point = np.zeros(description.points.shape, np.float32)
    for number, fragment in enumerate(fragments):
        candidates = description.points[number] + fragment.centroid_mm
        nearest = KDTree(labels.outlines[number]).query(candidates)[1]
        across, partner = labels.across[number][nearest], labels.partner[number][nearest]
        for other in np.unique(across[(across >= 0) & (partner >= 0)]):
            here = (across == other) & (partner >= 0)
            piece[number, here] = other
            there = labels.outlines[other][partner[here]]
            point[number, here] = there - fragments[other].centroid_mm
    return piece, point


def _touching(
    fragments: Sequence[Fragment], description: Description, truth: Mapping[str, Pose]
) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """By the nearest outline of another piece, in the true poses."""
    from scipy.spatial import KDTree

    outlines = [resample(np.asarray(f.polygon.exterior.coords), 1.0) for f in fragments]
    placed = [truth[f.id].apply(o) for f, o in zip(fragments, outlines, strict=True)]
    owner = np.repeat(np.arange(len(fragments)), [len(o) for o in outlines])
    piece = np.full(description.points.shape[:2], -1, np.int16)
    point = np.zeros(description.points.shape, np.float32)
    for number, fragment in enumerate(fragments):
        others = owner != number
        candidates = truth[fragment.id].apply(description.points[number] + fragment.centroid_mm)
        apart, nearest = KDTree(np.concatenate(placed)[others]).query(candidates)
        here = np.asarray(apart) <= TOUCH_MM
        index = np.flatnonzero(others)[np.asarray(nearest)[here]]
        piece[number, here] = owner[index]
        centres = np.stack([f.centroid_mm for f in fragments])[owner[index]]
        point[number, here] = np.concatenate(outlines)[index] - centres
    return piece, point
