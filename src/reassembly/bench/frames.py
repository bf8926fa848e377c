"""Scan frames that tell nothing: where all true rotations are alike, every piece is turned."""

from __future__ import annotations

import math
from dataclasses import replace

import cv2
import numpy as np

from reassembly.pose import Pose, rotation_matrix, wrap_deg
from reassembly.puzzle import Assembly, Fragment, Puzzle

__all__ = ["betrays_orientation", "turn_back", "turn_fragment", "turn_fragments"]

ALIKE_DEG = 1.0


def betrays_orientation(puzzle: Puzzle) -> bool:
    """Whether answering with the scan's own rotation would be right for every piece."""
    if puzzle.truth is None:
        return False
    first, *others = [pose.rotation_deg for pose in puzzle.truth.values()]
    return all(abs(wrap_deg(other - first)) < ALIKE_DEG for other in others)


def turn_fragment(fragment: Fragment, angle_rad: float) -> Fragment:
    """The fragment as a scan of the piece turned counter-clockwise by `angle_rad` about the
    origin of its frame would show it."""
    height, width = fragment.mask.shape
    turn = rotation_matrix(angle_rad)
    corners = np.array([[0, 0], [width, 0], [0, height], [width, height]]) - fragment.origin_px
    reach = math.ceil(np.abs(corners @ turn.T).max()) + 2
    side = 2 * reach
    # OpenCV puts pixel centres at whole numbers, we put them at halves.
    origin = np.array(fragment.origin_px) - 0.5
    matrix = np.column_stack([turn, (reach - 0.5) - turn @ origin])
    image = cv2.warpAffine(
        fragment.image, matrix, (side, side), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT
    )
    soft = cv2.warpAffine(fragment.mask.astype(np.float32), matrix, (side, side))
    turned = replace(
        fragment,
        image=np.asarray(image, np.uint8),
        mask=_largest_part(soft > 0.5),
        frame_px=(side, side),
        offset_px=(0, 0),
    )
    return turned.cropped()


def _largest_part(mask: np.ndarray) -> np.ndarray:
    count, labels, stats, _ = cv2.connectedComponentsWithStats(
        mask.astype(np.uint8), connectivity=4
    )
    if count <= 2:
        return mask
    return np.asarray(labels == 1 + stats[1:, cv2.CC_STAT_AREA].argmax())


def turn_fragments(puzzle: Puzzle, seed: int) -> tuple[Puzzle, dict[str, float]]:
    """The puzzle with every scan turned by a random angle, and those angles in radians.

    The turned puzzle holds no truth.
    """
    rng = np.random.default_rng([seed, 0x7072])
    angles = {i: float(rng.uniform(-math.pi, math.pi)) for i in puzzle.ids}
    fragments = tuple(turn_fragment(f, angles[f.id]) for f in puzzle.fragments)
    return Puzzle(puzzle.id, fragments, strays=puzzle.strays), angles


def turn_back(assembly: Assembly, angles: dict[str, float], puzzle: Puzzle) -> Assembly:
    """An assembly of the turned fragments as one of the fragments as they were."""
    islands = tuple(
        {i: pose @ Pose(0.0, 0.0, angles[i]) for i, pose in island.items()}
        for island in assembly.islands
    )
    return replace(assembly, islands=islands, puzzle=puzzle)
