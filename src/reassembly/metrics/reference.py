"""What a puzzle's truth says, prepared once and kept for measuring many predictions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from reassembly.errors import InputError
from reassembly.metrics.neighbours import Outlines, shared_edges
from reassembly.pose import Pose, rotation_matrix
from reassembly.puzzle import Assembly, Puzzle

__all__ = ["Reference", "check_prediction", "matrix", "reference_of"]

SAME_AREA = 1e-9
"""Relative difference below which two areas count as equal: the same mask somewhere else in its
frame has the same area but for rounding."""


def matrix(pose: Pose) -> NDArray[np.float64]:
    """(3, 3), the pose as a matrix for homogeneous column vectors (x, y, 1), mm."""
    result = np.eye(3)
    result[:2, :2] = rotation_matrix(pose.rotation_rad)
    result[:2, 2] = pose.translation
    return result


@dataclass(frozen=True, eq=False)
class Reference:
    """The pieces that belong to the puzzle (no strays), sorted by id, and where they belong."""

    ids: tuple[str, ...]
    truth: tuple[Pose, ...]
    areas: NDArray[np.float64]
    """(n,), mm²."""
    centroids: NDArray[np.float64]
    """(n, 2), mm, each in its fragment's own frame."""
    outlines: Outlines
    """Of every fragment, strays too."""

    @cached_property
    def index(self) -> dict[str, int]:
        return {i: k for k, i in enumerate(self.ids)}

    @cached_property
    def matrices(self) -> NDArray[np.float64]:
        """(n, 3, 3), the true poses."""
        return np.array([matrix(pose) for pose in self.truth])

    @cached_property
    def anchor(self) -> int:
        """Index of the fragment of the largest true area; of equal ones the lowest id."""
        return self.largest(range(len(self.ids)))

    @cached_property
    def edges(self) -> dict[tuple[str, str], NDArray[np.float64]]:
        """True neighbours, and the middle of the edge they share (mm, true frame)."""
        return shared_edges(self.outlines, dict(zip(self.ids, self.truth, strict=True)))

    def largest(self, indices: range | list[int]) -> int:
        """Of these pieces the largest; of equal ones the one with the lowest id."""
        areas = self.areas[list(indices)]
        return list(indices)[int(np.argmax(areas >= areas.max() * (1 - SAME_AREA)))]


_KNOWN: WeakKeyDictionary[Puzzle, Reference] = WeakKeyDictionary()


def reference_of(puzzle: Puzzle) -> Reference:
    """The puzzle's truth; an `InputError` where it has none."""
    if puzzle not in _KNOWN:
        if puzzle.truth is None:
            raise InputError(
                f"puzzle {puzzle.id} has no true poses to measure against",
                "Name puzzles whose data.json (or RePAIR ground truth) gives every fragment's pose",
            )
        ids = tuple(sorted(set(puzzle.ids) - puzzle.strays))
        if not ids:
            raise InputError(
                f"puzzle {puzzle.id} consists of strays only",
                "Name a puzzle that has fragments of its own",
            )
        _KNOWN[puzzle] = Reference(
            ids=ids,
            truth=tuple(puzzle.truth[i] for i in ids),
            areas=np.array([puzzle[i].area_mm2 for i in ids]),
            centroids=np.array([puzzle[i].centroid_mm for i in ids]),
            outlines=Outlines({fragment.id: fragment.polygon for fragment in puzzle.fragments}),
        )
    return _KNOWN[puzzle]


def check_prediction(puzzle: Puzzle, prediction: Assembly | None) -> Assembly:
    """The prediction, if it says of every fragment of the puzzle where it is or that it is
    unplaced; None stands for a puzzle that was not predicted at all."""
    if prediction is None:
        return Assembly(islands=(), unplaced=puzzle.ids)
    known = {*prediction.poses, *prediction.unplaced}
    if unknown := sorted(known - set(puzzle.ids)):
        raise InputError(
            f"the prediction has fragments that puzzle {puzzle.id} does not have: "
            f"{', '.join(unknown)}",
            f"Its fragments are {', '.join(puzzle.ids)}",
        )
    if missing := sorted(set(puzzle.ids) - known):
        raise InputError(
            f"the prediction says nothing about these fragments of puzzle {puzzle.id}: "
            f"{', '.join(missing)}",
            "Give each a pose, or list it as unplaced",
        )
    return prediction
