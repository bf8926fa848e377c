"""Rectangular pieces with areas and poses that can be checked by hand, 1 mm a pixel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Fragment, Puzzle


def block(name: str, width: int, height: int, colour: int = 0, margin: int = 3) -> Fragment:
    """A rectangle in the middle of its scan; its colour tells it from its twins."""
    mask = np.pad(np.ones((height, width), bool), margin)
    image = np.where(mask[..., None], [colour % 256, colour // 256, 90], 0).astype(np.uint8)
    return Fragment(name, image, mask, 1.0)


def moved(poses: Mapping[str, Pose], **errors: Pose) -> dict[str, Pose]:
    """The same poses, some pieces moved in the common frame, turned about their own middles."""
    return {
        i: Pose(
            pose.x_mm + errors[i].x_mm,
            pose.y_mm + errors[i].y_mm,
            pose.rotation_rad + errors[i].rotation_rad,
        )
        if i in errors
        else pose
        for i, pose in poses.items()
    }


def turn(degrees: float) -> Pose:
    return Pose.from_degrees(0.0, 0.0, degrees)


def four(gap: float = 0.0, **more: object) -> Puzzle:
    """Four blocks that make a square of 120 mm:

        a a b       a: 80 x 80, the anchor
        a a b       b: 40 x 80
        c c d       c: 80 x 40      d: 40 x 40

    Neighbours are ab, ac, bd and cd; corner to corner (ad, bc) is not enough.
    """
    fragments = (
        block("a", 80, 80, 1),
        block("b", 40, 80, 2),
        block("c", 80, 40, 3),
        block("d", 40, 40, 4),
    )
    truth = {
        "a": Pose(40, 40),
        "b": Pose(100 + gap, 40),
        "c": Pose(40, 100 + gap),
        "d": Pose(100 + gap, 100 + gap),
    }
    return Puzzle("four", fragments, truth, **more)  # type: ignore[arg-type]


def two(gap: float = 0.0) -> Puzzle:
    """A block `a` of 80 x 80 mm, the anchor, and to its right a block `b` of 60 x 80 mm."""
    truth = {"a": Pose(40, 40), "b": Pose(110 + gap, 40)}
    return Puzzle("two", (block("a", 80, 80, 1), block("b", 60, 80, 2)), truth)


def assembled(puzzle: Puzzle, **errors: Pose) -> Assembly:
    """The truth in one island, but for some errors."""
    assert puzzle.truth is not None
    return Assembly.of(puzzle, moved(puzzle.truth, **errors))
