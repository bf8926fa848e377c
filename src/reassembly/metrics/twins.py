"""Twins: identical pieces, as made puzzles may hold. Which of them lies where is all the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np

from reassembly.metrics.overlap import Overlap
from reassembly.metrics.reference import matrix, reference_of
from reassembly.pose import Pose
from reassembly.puzzle import Fragment, Puzzle

__all__ = ["twins", "untwined"]

Islands = tuple[Mapping[str, Pose], ...]

OWN_NAME = 1e-6
"""Share of its area by which a piece prefers its own name: breaks ties, outweighs nothing."""

_KNOWN: WeakKeyDictionary[Puzzle, list[list[str]]] = WeakKeyDictionary()


def twins(puzzle: Puzzle) -> list[list[str]]:
    """Groups of pieces whose masks, colours and scales are the same pixel for pixel, wherever they
    lie in their frames. Strays are nobody's twins."""
    if puzzle not in _KNOWN:
        alike: defaultdict[tuple[float, int], list[str]] = defaultdict(list)
        for i in sorted(set(puzzle.ids) - puzzle.strays):
            alike[puzzle[i].mm_per_px, int(puzzle[i].mask.sum())].append(i)
        _KNOWN[puzzle] = [
            group
            for ids in alike.values()
            if len(ids) > 1
            for group in _identical({i: puzzle[i].cropped(0) for i in ids})
        ]
    return _KNOWN[puzzle]


def _identical(crops: Mapping[str, Fragment]) -> list[list[str]]:
    groups: list[list[str]] = []
    for i, crop in crops.items():
        for group in groups:
            other = crops[group[0]]
            if np.array_equal(crop.mask, other.mask) and np.array_equal(
                crop.image[crop.mask], other.image[other.mask]
            ):
                group.append(i)
                break
        else:
            groups.append([i])
    return [group for group in groups if len(group) > 1]


def untwined(puzzle: Puzzle, islands: Islands, overlap: Overlap) -> Islands:
    """The same prediction with twins called as suits it best.

    Each twin of the anchor in turn serves as the anchor, and the other twins are named so that
    the most area lies where it belongs; the best of all that counts.
    """
    groups = twins(puzzle)
    reference = reference_of(puzzle)
    placed = [i for i in reference.ids if any(i in island for island in islands)]
    if not groups or not placed:
        return islands
    group_of = {i: group for group in groups for i in group}
    anchor = reference.ids[reference.anchor]
    candidates = [i for i in group_of.get(anchor, [anchor]) if i in placed]
    if not candidates:
        anchor = reference.ids[reference.largest([reference.index[i] for i in placed])]
        candidates = [i for i in group_of.get(anchor, [anchor]) if i in placed]
    candidates.sort(key=lambda i: (i != anchor, i))
    options = [_names(puzzle, islands, anchor, candidate, overlap) for candidate in candidates]
    names, _ = max(options, key=lambda option: option[1])
    return tuple(
        {names.get(i, i): _seen_as(puzzle, pose, i, names.get(i, i)) for i, pose in island.items()}
        for island in islands
    )


def _names(
    puzzle: Puzzle, islands: Islands, anchor: str, candidate: str, overlap: Overlap
) -> tuple[dict[str, str], float]:
    """The best names (old to new) where `candidate` is called `anchor`, and the area (mm²) that
    then lies where it belongs."""
    from scipy.optimize import linear_sum_assignment

    assert puzzle.truth is not None
    island = next(island for island in islands if candidate in island)
    motion = puzzle.truth[anchor] @ _seen_as(puzzle, island[candidate], candidate, anchor).inverse()
    names, total = {candidate: anchor}, 0.0
    for group in twins(puzzle):
        old = [i for i in group if i != candidate]
        new = [i for i in group if i != anchor]
        gains = np.zeros((len(old), len(new)))
        for row, i in enumerate(old):
            for column, j in enumerate(new):
                if i in island:
                    error = puzzle.truth[j].inverse() @ motion @ _seen_as(puzzle, island[i], i, j)
                    gains[row, column] = overlap(puzzle[j], matrix(error)[None])[0]
                gains[row, column] += OWN_NAME * (i == j)
        rows, columns = linear_sum_assignment(gains, maximize=True)
        names |= {old[row]: new[column] for row, column in zip(rows, columns, strict=True)}
        total += float(gains[rows, columns].sum()) * puzzle[group[0]].area_mm2
    return names, total


def _seen_as(puzzle: Puzzle, pose: Pose, old: str, new: str) -> Pose:
    """The pose of `old`, in whose place its twin `new` lies: their frames differ by a shift."""
    x, y = puzzle[old].centroid_mm - puzzle[new].centroid_mm
    return pose @ Pose(x, y)
