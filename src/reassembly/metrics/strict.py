"""The protocol `strict`: the default, and the only one for headlines.

One rigid motion puts the anchor, the fragment of the largest true area, onto its true pose; the
anchor is not scored, all others are. Where the anchor was left unplaced, the largest placed piece
serves in its stead and scores 0: it counts as placed, not as correct, and is left out of the two
RMSE columns, in which it would be a gift. Only what shares the anchor's island is placed for
q_pos, correct and RMSE. Strays are no part of any of this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reassembly.metrics.groups import largest_group
from reassembly.metrics.neighbours import shared_edges
from reassembly.metrics.overlap import Overlap, polygon_overlap
from reassembly.metrics.reference import Reference, check_prediction, matrix, reference_of
from reassembly.metrics.twins import untwined
from reassembly.pose import Pose, wrap_rad
from reassembly.puzzle import Assembly, Puzzle

__all__ = [
    "ANGLE_DEG",
    "DISTANCE_MM",
    "UNITS",
    "Measured",
    "compare",
    "fragment_errors",
    "score_strict",
]

Islands = tuple[Mapping[str, Pose], ...]

ANGLE_DEG = 10.0
"""How far the rotation of a correct fragment may be off."""
DISTANCE_MM = 10.0
"""How far the centroid of a correct fragment, or the middle of a shared edge, may be off."""
UNITS = (
    "shares from 0 to 1, the anchor not counted; rotation in degrees and translation in mm over "
    "the placed"
)
ROUNDING = 1e-9
"""Slack of degrees and mm, so that exactly at the limit is within it."""


@dataclass(frozen=True)
class Measured:
    """How far each piece is off where piece `a` lies as the truth has it; arrays over `ids`.

    Pieces of another island than `a`, and unplaced ones, overlap nothing and have NaN errors.
    """

    reference: Reference
    island: NDArray[np.intp]
    """(n,), the island of each piece, -1 where it is unplaced."""
    overlap: NDArray[np.float64]
    """(n, n) of [a, m]: share of m's area that lies where m belongs."""
    rotation_deg: NDArray[np.float64]
    """(n, n) of [a, m]: wrapped, signed."""
    distance_mm: NDArray[np.float64]
    """(n, n) of [a, m]: of the centroids."""

    def serving(self, anchor: int) -> int | None:
        """The piece that is put onto its true pose: the anchor, or where that is unplaced the
        largest placed piece; None where nothing is placed."""
        if self.island[anchor] >= 0:
            return anchor
        placed = np.flatnonzero(self.island >= 0).tolist()
        return self.reference.largest(placed) if placed else None

    def q_pos(self, anchor: int, *, with_anchor: bool = False) -> float | None:
        """Area-weighted share of the scored pieces' area that lies where it belongs."""
        areas = self.reference.areas
        scored = np.arange(len(areas)) != anchor
        served = self.serving(anchor)
        shares = np.zeros(len(areas)) if served is None else self.overlap[served].copy()
        if served is not None and served != anchor:
            shares[served] = 0.0
        if with_anchor:
            scored[:] = True
        if not scored.any():
            return None
        return float((areas * shares)[scored].sum() / areas[scored].sum())


def compare(
    puzzle: Puzzle, prediction: Assembly | None, overlap: Overlap = polygon_overlap
) -> tuple[Measured, Islands]:
    """Checks and measures a prediction; its islands come back with twins called as suits best.

    Args:
        prediction: None where the puzzle was not predicted; all its fragments are then unplaced.
        overlap: how areas are measured.
    """
    islands = untwined(puzzle, check_prediction(puzzle, prediction).islands, overlap)
    return measure(puzzle, islands, overlap), islands


def measure(puzzle: Puzzle, islands: Islands, overlap: Overlap = polygon_overlap) -> Measured:
    """Measures every piece against every choice of anchor."""
    reference = reference_of(puzzle)
    n = len(reference.ids)
    island = np.full(n, -1, dtype=np.intp)
    predicted = np.tile(np.eye(3), (n, 1, 1))
    turns = np.zeros(n)
    for number, poses in enumerate(islands):
        for i in set(poses) & set(reference.ids):
            k = reference.index[i]
            island[k], predicted[k] = number, matrix(poses[i])
            turns[k] = poses[i].rotation_rad - reference.truth[k].rotation_rad
    true = reference.matrices
    motions = true @ np.linalg.inv(predicted)
    errors = np.linalg.inv(true)[None] @ motions[:, None] @ predicted[None]
    together = (island[:, None] == island[None]) & (island >= 0)[:, None]
    shares = np.zeros((n, n))
    for m, i in enumerate(reference.ids):
        (anchors,) = np.nonzero(together[:, m])
        if anchors.size:
            shares[anchors, m] = overlap(puzzle[i], errors[anchors, m])
    rotation = np.degrees(turns[None] - turns[:, None])
    rotation = 180.0 - np.remainder(180.0 - rotation, 360.0)
    centroids = reference.centroids
    carried = np.einsum("amij,mj->ami", errors[..., :2, :2], centroids) + errors[..., :2, 2]
    return Measured(
        reference=reference,
        island=island,
        overlap=shares,
        rotation_deg=np.where(together, rotation, np.nan),
        distance_mm=np.where(together, np.linalg.norm(carried - centroids, axis=2), np.nan),
    )


def score_strict(
    puzzle: Puzzle, prediction: Assembly | None, *, overlap: Overlap = polygon_overlap
) -> dict[str, float | None]:
    """Every figure of the protocol for one puzzle.

    Args:
        prediction: None where the puzzle was not predicted; all its fragments are then unplaced.
        overlap: how areas are measured.
    """
    measured, islands = compare(puzzle, prediction, overlap)
    return {
        **_about_the_anchor(measured),
        "largest_correct_group": _largest_correct_group(measured.reference, islands),
        **_neighbours(puzzle, islands),
        **_strays(puzzle, islands),
    }


def fragment_errors(
    puzzle: Puzzle, prediction: Assembly | None
) -> dict[str, dict[str, str | float | bool | None]]:
    """What became of each fragment, aligned by the anchor.

    Returns:
        By id: `state` (`anchor`; `serving`, in the stead of an unplaced anchor; `placed`;
        `elsewhere`, in another island than the anchor; `unplaced`; `stray placed` or
        `stray refused`), and where they exist `overlap` (share of its area where it belongs),
        `rotation_deg` (signed, counter-clockwise as seen, where it is turned too far),
        `distance_mm` (of the centroids) and `correct`. Twins are called as suits best.
    """
    measured, islands = compare(puzzle, prediction)
    reference = measured.reference
    served = measured.serving(reference.anchor)
    joined = {i for island in islands if not set(island) <= puzzle.strays for i in island}
    nothing = {"overlap": None, "rotation_deg": None, "distance_mm": None, "correct": None}
    errors: dict[str, dict[str, str | float | bool | None]] = {}
    for i in puzzle.ids:
        k = reference.index.get(i)
        if k is None:
            errors[i] = {"state": f"stray {'placed' if i in joined else 'refused'}", **nothing}
        elif served is None or measured.island[k] < 0:
            errors[i] = {"state": "unplaced", **nothing}
        elif measured.island[k] != measured.island[served]:
            errors[i] = {"state": "elsewhere", **nothing}
        else:
            rotation, distance = measured.rotation_deg[served, k], measured.distance_mm[served, k]
            state = "placed"
            if k == served:
                state = "anchor" if k == reference.anchor else "serving"
            errors[i] = {
                "state": state,
                "overlap": float(measured.overlap[served, k]),
                "rotation_deg": float(rotation),
                "distance_mm": float(distance),
                "correct": state != "serving" and bool(_within(rotation, distance)),
            }
    return errors


def _about_the_anchor(measured: Measured) -> dict[str, float | None]:
    reference, anchor = measured.reference, measured.reference.anchor
    scored = np.arange(len(reference.ids)) != anchor
    served = measured.serving(anchor)
    placed = np.zeros(len(reference.ids), dtype=bool)
    measurable, correct = placed.copy(), placed.copy()
    rotation = distance = np.zeros(len(reference.ids))
    if served is not None:
        rotation, distance = measured.rotation_deg[served], measured.distance_mm[served]
        placed = scored & (measured.island == measured.island[served])
        measurable = placed & (np.arange(len(reference.ids)) != served)
        correct = measurable & _within(rotation, distance)
    each = [measured.q_pos(k) for k in range(len(reference.ids))]
    mean = None
    if scored.any():
        mean = float(np.average(np.array(each, dtype=np.float64), weights=reference.areas))
    return {
        "fragments": int(scored.sum()),
        "q_pos": measured.q_pos(anchor),
        "q_pos_mean": mean,
        "q_pos_with_anchor": measured.q_pos(anchor, with_anchor=True),
        "correct": _share(correct.sum(), scored.sum()),
        "correct_of_placed": _share(correct.sum(), placed.sum()),
        "placed": _share(placed.sum(), scored.sum()),
        "rmse_rotation_deg": _root_mean_square(rotation[measurable]),
        "rmse_translation_mm": _root_mean_square(distance[measurable]),
    }


def _within(
    rotation_deg: NDArray[np.float64], distance_mm: NDArray[np.float64]
) -> NDArray[np.bool_]:
    return (np.abs(rotation_deg) <= ANGLE_DEG + ROUNDING) & (distance_mm <= DISTANCE_MM + ROUNDING)


def _share(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None


def _root_mean_square(values: NDArray[np.float64]) -> float | None:
    return float(np.sqrt(np.mean(values**2))) if values.size else None


def _largest_correct_group(reference: Reference, islands: Islands) -> float:
    """By share of the area of all pieces; within one island, since only that is one motion."""
    largest = 0.0
    for island in islands:
        members = [k for k, i in enumerate(reference.ids) if i in island]
        poses = [island[reference.ids[k]] for k in members]
        truth = [reference.truth[k] for k in members]
        centroids = reference.centroids[members]
        weight = largest_group(
            np.array([p.apply(c[None])[0] for p, c in zip(poses, centroids, strict=True)]),
            np.array([t.apply(c[None])[0] for t, c in zip(truth, centroids, strict=True)]),
            np.array([t.rotation_rad - p.rotation_rad for t, p in zip(truth, poses, strict=True)]),
            reference.areas[members],
            angle_rad=math.radians(ANGLE_DEG),
            distance_mm=DISTANCE_MM,
        )
        largest = max(largest, weight)
    return float(largest / reference.areas.sum())


def _neighbours(puzzle: Puzzle, islands: Islands) -> dict[str, float | None]:
    """Recall over the true pairs, precision over the predicted contacts, in every island.

    A contact between pieces that are no true neighbours is right where the middle of the predicted
    shared edge, taken back by either piece, comes to the same place: the pair may fall just short
    of the rule in the truth. A contact with a stray is wrong; between strays it is not judged.
    """
    reference = reference_of(puzzle)
    true = dict(zip(reference.ids, reference.truth, strict=True))
    right = contacts = right_contacts = 0
    for island in islands:
        back = {i: true[i] @ pose.inverse() for i, pose in island.items() if i in true}
        forth = {i: motion.inverse() for i, motion in back.items()}
        right += sum(
            _agree(forth[a], forth[b], middle)
            for (a, b), middle in reference.edges.items()
            if a in forth and b in forth
        )
        for (a, b), middle in shared_edges(reference.outlines, island).items():
            strays = (a not in true) + (b not in true)
            contacts += strays < 2
            if strays == 0 and (a, b) in reference.edges:
                right_contacts += _agree(forth[a], forth[b], reference.edges[a, b])
            elif strays == 0:
                right_contacts += _agree(back[a], back[b], middle)
    pairs = len(reference.edges)
    recall = _share(right, pairs)
    precision = _share(right_contacts, contacts) if pairs else None
    both = (recall or 0.0) + (precision or 0.0)
    f1 = 2 * (recall or 0.0) * (precision or 0.0) / both if both else 0.0
    return {
        "neighbour_recall": recall,
        "neighbour_precision": precision,
        "neighbour_f1": f1 if pairs else None,
        "true_pairs": pairs,
        "predicted_pairs": contacts,
    }


def _agree(a: Pose, b: Pose, point: NDArray[np.float64]) -> bool:
    """Whether two motions turn alike, and carry a point to the same place."""
    turn = abs(math.degrees(wrap_rad(a.rotation_rad - b.rotation_rad)))
    gap = math.dist(a.apply(point[None])[0], b.apply(point[None])[0])
    return turn <= ANGLE_DEG + ROUNDING and gap <= DISTANCE_MM + ROUNDING


def _strays(puzzle: Puzzle, islands: Islands) -> dict[str, float | None]:
    """A stray is placed where it shares an island with a piece of the puzzle; alone or among
    strays it claims nothing about the puzzle, and is refused."""
    placed = sum(
        len(puzzle.strays & set(island)) for island in islands if not set(island) <= puzzle.strays
    )
    present = len(puzzle.strays & set(puzzle.ids))
    return {"strays_refused": present - placed, "strays_placed": placed}
