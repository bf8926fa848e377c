"""Solvers and the search for joins, on the pieces of a project. Runs in a worker."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reassembly.app.puzzles import pose_of, puzzle_of
from reassembly.app.worker import Task
from reassembly.errors import InputWarning
from reassembly.pose import Pose, same_place
from reassembly.puzzle import Assembly, Puzzle
from reassembly.solvers import solve
from reassembly.solvers.base import Progress

if TYPE_CHECKING:
    from reassembly.matching.joins import Join

__all__ = [
    "JUDGED_SOLVER",
    "contradicted",
    "distinct",
    "joins_some",
    "ranked",
    "search_joins",
    "solve_pieces",
    "spread_out",
]

JUDGED_SOLVER = "joins"
"""The one that takes verdicts on joins."""
ISLAND_GAP_MM = 25.0
SHEET_ASPECT = 1.5
"""Width over height of the screen that islands are laid out for."""
STEADY_DIGITS = 9
"""Decimals of a join's degrees: a join that is read and listed again stays the same."""


def solve_pieces(task: Task) -> dict[str, Any]:
    """Runs a solver.

    Payload: `name`, `pieces` (see `puzzles.payload_of`), `images`, `solver`, `seed`, `fixed` (by
    id, placements that stay), `whole` (whether every pair of pieces is compared), `basis` (of the
    joins, see `Store.join_basis`), `beside_mm` (the right edge of what else lies on the canvas,
    and its top), `accepted` and `rejected` joins, `apart` (the names of two pieces for each
    accepted join of which one takes no part), `trust` (what is less sure is left out).

    Returns:
        `proposals`, the best first: each `confidence` and, by id, where pieces lie; `asked`, the
        ids of pieces that were to be placed; `joins` as `search_joins` has them, where the solver
        has found all of them on its way.
    """
    payload = task.payload
    task.report(0.0, "reading pictures")
    puzzle = puzzle_of(payload["name"], payload["pieces"], Path(payload["images"]))
    fixed = {i: pose_of(placement) for i, placement in payload["fixed"].items()}
    beside = payload["beside_mm"]

    def show(step: Progress) -> None:
        preview = step.preview if step.preview and joins_some(step.preview, fixed) else None
        shown = None if preview is None else lambda: spread_out(preview, puzzle, fixed, beside)
        task.report(0.02 + 0.96 * step.fraction, step.stage, shown)

    told: dict[str, Any] = {}
    found: list[Join] = []
    verdicts = len(payload["accepted"]) + len(payload["rejected"])
    if payload["solver"] == JUDGED_SOLVER:
        told = {k: _joins(payload[k], puzzle) for k in ("accepted", "rejected")}
        told |= {"trust": payload["trust"], "tell": found.extend}
        _tell_of_unheard(payload, puzzle, fixed)
    elif verdicts:
        warnings.warn(
            f"The solver {payload['solver']} cannot be told of verdicts on joins, so your "
            f"{verdicts} did not count; the solver {JUDGED_SOLVER} honours them",
            InputWarning,
        )
    answer = solve(
        puzzle,
        payload["solver"],
        seed=payload["seed"],
        locked=fixed,
        progress=show,
        **told,
    )
    return {
        "proposals": [
            {
                "confidence": _overall(assembly),
                "poses": spread_out(assembly, puzzle, fixed, beside),
            }
            for assembly in ranked((answer, *answer.alternatives), puzzle, fixed)
        ],
        "asked": [i for i in puzzle.ids if i not in fixed],
        "joins": _listed([*told["accepted"], *told["rejected"], *found])
        if told and payload["whole"]
        else None,
        "basis": payload["basis"],
    }


def joins_some(answer: Assembly, fixed: Mapping[str, Pose]) -> bool:
    """Whether any two pieces lie together, not only those that are fixed."""
    return any(len(island) > 1 and not island.keys() <= fixed.keys() for island in answer.islands)


def ranked(
    answers: Sequence[Assembly], puzzle: Puzzle, fixed: Mapping[str, Pose]
) -> list[Assembly]:
    """In the solver's order, but what joins nothing comes last."""
    return sorted(distinct(answers, puzzle), key=lambda answer: not joins_some(answer, fixed))


def distinct(answers: Sequence[Assembly], puzzle: Puzzle) -> list[Assembly]:
    """Without answers that are the same to a person as one before them."""
    kept: list[Assembly] = []
    for answer in answers:
        if not any(_alike(answer, other, puzzle) for other in kept):
            kept.append(answer)
    return kept


def _alike(one: Assembly, other: Assembly, puzzle: Puzzle) -> bool:
    """Whether the same islands hold the same pieces, each nearly in the same place."""
    islands = {frozenset(island): island for island in other.islands}
    if {frozenset(island) for island in one.islands} != islands.keys():
        return False
    for island in one.islands:
        first, there = min(island), islands[frozenset(island)]
        to_here = island[first] @ there[first].inverse()
        if not all(
            same_place(pose, to_here @ there[i], puzzle[i].centroid_mm)
            for i, pose in island.items()
        ):
            return False
    return True


def contradicted(
    accepted: Sequence[Mapping[str, Any]],
    fixed: Mapping[str, Pose],
    centroids: Mapping[str, Sequence[float]],
) -> list[Mapping[str, Any]]:
    """Accepted joins that cannot hold: locked pieces, or joins accepted before, say otherwise.

    Args:
        accepted: each `first`, `second` and `pose`, in the order in which they are heard.
        fixed: poses that stay.
        centroids: in each piece's own frame, mm.
    """
    groups: list[dict[str, Pose]] = [dict(fixed)] if fixed else []
    against = []
    for join in accepted:
        first, second, pose = join["first"], join["second"], pose_of(join["pose"])
        one = next((g for g in groups if first in g), {first: Pose(0.0, 0.0)})
        other = next((g for g in groups if second in g), {second: Pose(0.0, 0.0)})
        if one is not other:
            carry = one[first] @ pose @ other[second].inverse()
            merged = {**one, **{i: carry @ lies for i, lies in other.items()}}
            groups = [merged, *(g for g in groups if g is not one and g is not other)]
        elif not same_place(one[first].inverse() @ one[second], pose, centroids[second]):
            against.append(join)
    return against


def _tell_of_unheard(payload: Mapping[str, Any], puzzle: Puzzle, fixed: Mapping[str, Pose]) -> None:
    """Warns of accepted joins that this solve cannot keep."""
    names = {p["id"]: p["inventory"] or p["name"] for p in payload["pieces"]}
    centroids = {f.id: (f.polygon.centroid.x, f.polygon.centroid.y) for f in puzzle.fragments}
    for join in contradicted(payload["accepted"], fixed, centroids):
        warnings.warn(
            f"The accepted join of {names[join['first']]} and {names[join['second']]} was not "
            "kept: locked pieces or other accepted joins say otherwise. Unlock one of the pieces, "
            "or take the verdict back",
            InputWarning,
        )
    for first, second in payload["apart"]:
        warnings.warn(
            f"The accepted join of {first} and {second} was not kept: one of them took no part "
            "in this solve. Put what is locked into one island, or unlock it",
            InputWarning,
        )


def search_joins(task: Task) -> dict[str, Any]:
    """Finds candidate joins. Payload: `name`, `pieces`, `images`, `seed`, `basis`, verdicts."""
    from reassembly.matching.joins import find_joins

    payload = task.payload
    task.report(0.0, "reading pictures")
    puzzle = puzzle_of(payload["name"], payload["pieces"], Path(payload["images"]))

    def show(step: Progress) -> None:
        task.report(0.02 + 0.96 * step.fraction, step.stage)

    rejected = _joins(payload["rejected"], puzzle)
    found = find_joins(
        puzzle,
        seed=payload["seed"],
        accepted=_joins(payload["accepted"], puzzle),
        rejected=rejected,
        progress=show,
    )
    return {"joins": _listed([*found, *rejected]), "basis": payload["basis"]}


def _listed(joins: Sequence[Join]) -> list[dict[str, Any]]:
    """Joins as columns of `JoinRow`, the most probable first; rejected ones are among them, so that
    the verdict can be taken back."""
    return [
        {
            "first": join.first,
            "second": join.second,
            "x_mm": join.pose.x_mm,
            "y_mm": join.pose.y_mm,
            "rotation_deg": round(join.pose.rotation_deg, STEADY_DIGITS),
            "probability": float(join.probability),
            "gap_mm": float(join.gap_mm),
            "overlap_mm2": float(join.overlap_mm2),
            "contact_mm": float(join.contact_mm),
        }
        for join in sorted(joins, key=lambda join: (-join.probability, join.first, join.second))
    ]


def _joins(judged: Sequence[Mapping[str, Any]], puzzle: Puzzle) -> list[Join]:
    """Verdicts as joins; those that no search has measured are measured here."""
    from reassembly.matching.joins import Join
    from reassembly.matching.rim import motion_of, rims_of
    from reassembly.matching.strip import strips

    new = {i for v in judged if "gap_mm" not in v for i in (v["first"], v["second"])}
    rims = rims_of(Puzzle(puzzle.id, tuple(puzzle[i] for i in sorted(new)))) if new else {}
    joins = []
    for v in judged:
        a, b, pose = v["first"], v["second"], pose_of(v["pose"])
        if "gap_mm" in v:
            gap, overlap, contact = v["gap_mm"], v["overlap_mm2"], v["contact_mm"]
        else:
            _, figures = strips(rims[a], rims[b], motion_of(pose, rims[a], rims[b])[None])
            contact, gap, _, overlap, _ = figures[0].tolist()
        joins.append(Join(a, b, pose, v["probability"], gap, overlap, contact))
    return joins


def _overall(assembly: Assembly) -> float | None:
    """The mean over placed pieces, where the solver has an opinion."""
    values = list(assembly.confidence.values())
    return float(np.mean(values)) if values else None


def spread_out(
    assembly: Assembly,
    puzzle: Puzzle,
    fixed: Mapping[str, Pose],
    beside: tuple[float, float] | None,
) -> dict[str, dict[str, Any]]:
    """By id, poses on the canvas: what is fixed where it is, other islands side by side.

    Args:
        beside: (right, top), mm: islands that nothing holds begin to the right of this.
    """
    found: dict[str, dict[str, Any]] = {}
    left, top = (0.0, 0.0) if beside is None else (beside[0] + ISLAND_GAP_MM, beside[1])
    boxes = [_box(island, puzzle) for island in assembly.islands]
    held = [any(i in fixed for i in island) for island in assembly.islands]
    for (low, high), stays in zip(boxes, held, strict=True):
        if stays:
            left, top = max(left, float(high[0]) + ISLAND_GAP_MM), float(low[1])
    free = [high - low for (low, high), stays in zip(boxes, held, strict=True) if not stays]
    corners = iter(_side_by_side(free))
    for number, island in enumerate(assembly.islands, start=1):
        shift = Pose(0.0, 0.0)
        if not held[number - 1]:
            (low, _), (x, y) = boxes[number - 1], next(corners)
            shift = Pose(left + x - low[0], top + y - low[1])
        for i, pose in island.items():
            moved = fixed[i] if i in fixed else shift @ pose
            found[i] = {
                "x_mm": moved.x_mm,
                "y_mm": moved.y_mm,
                "rotation_deg": moved.rotation_deg,
                "island": number,
                "confidence": assembly.confidence.get(i),
            }
    return found


def _box(island: Mapping[str, Pose], puzzle: Puzzle) -> tuple[NDArray[np.float64], ...]:
    """The least and the largest (x, y) of an island, mm."""
    bounds = np.array([puzzle[i].placed(pose).bounds for i, pose in island.items()])
    return bounds[:, :2].min(axis=0), bounds[:, 2:].max(axis=0)


def _side_by_side(sizes: Sequence[NDArray[np.float64]]) -> list[tuple[float, float]]:
    """Top left corners of boxes (width, height), mm: in rows, with room between all of them."""
    rooms = [(float(w) + ISLAND_GAP_MM, float(h) + ISLAND_GAP_MM) for w, h in sizes]
    widths = [sum(w for w, _ in rooms[:count]) for count in range(1, len(rooms) + 1)]
    layouts = [_in_rows(rooms, width) for width in widths]
    # The one that can be shown largest on a screen.
    best = min(layouts, key=lambda layout: max(layout[1], SHEET_ASPECT * layout[2]), default=None)
    return [] if best is None else best[0]


def _in_rows(
    rooms: Sequence[tuple[float, float]], most: float
) -> tuple[list[tuple[float, float]], float, float]:
    """Corners of boxes in rows no wider than `most`, then the width and height of all of them."""
    corners = []
    x = y = deepest = whole = 0.0
    for width, height in rooms:
        if x > 0 and x + width > most:
            x, y, deepest = 0.0, y + deepest, 0.0
        corners.append((x, y))
        x, deepest = x + width, max(deepest, height)
        whole = max(whole, x)
    return corners, whole, y + deepest
