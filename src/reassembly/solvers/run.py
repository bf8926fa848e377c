"""Running a solver so that it sees pixels and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from reassembly._version import __version__
from reassembly.errors import InputError
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Provenance, Puzzle
from reassembly.solvers.base import Progress, ProgressCallback, Solver
from reassembly.solvers.registry import get_solver

__all__ = ["blind", "solve"]

DEFAULT_SOLVER = "greedy"


def blind(puzzle: Puzzle, seed: int) -> tuple[Puzzle, dict[str, str], dict[str, Pose]]:
    """The puzzle as a solver may see it: opaque ids, shuffled, no metadata, no truth.

    Returns:
        The blinded puzzle, and by opaque id the real one and the motion from the blinded
        fragment's frame to the real one's.
    """
    order = np.random.default_rng([seed, 0x5EED]).permutation(len(puzzle))
    names = {f"piece-{k:04d}": puzzle.fragments[index].id for k, index in enumerate(order)}
    strangers = {opaque: puzzle[real].anonymous(opaque) for opaque, real in names.items()}
    blinded = Puzzle("puzzle", tuple(fragment for fragment, _ in strangers.values()))
    return blinded, names, {opaque: shift for opaque, (_, shift) in strangers.items()}


def solve(
    puzzle: Puzzle,
    solver: str | Solver = DEFAULT_SOLVER,
    *,
    seed: int = 0,
    locked: Mapping[str, Pose] | None = None,
    progress: ProgressCallback | None = None,
    **settings: Any,
) -> Assembly:
    """Reassembles a puzzle.

    Args:
        puzzle: at least two fragments, as `reassembly.load` gives them.
        solver: a name from `available_solvers`, or any object with a `solve` method.
        seed: the same seed gives the same assembly on the same machine.
        locked: poses of fragments that must stay where they are. They steer the answer, and
            the first island of the answer is in their frame.
        progress: called every so often with a `Progress`; raise `Cancelled` in it to stop.
        settings: passed on to the solver of that name.

    Returns:
        The assembly, with the puzzle's own ids.
    """
    if len(puzzle) < 2:
        raise InputError(
            f"puzzle {puzzle.id} has {len(puzzle)} fragment{'s' * (len(puzzle) != 1)}, "
            "and a puzzle needs two",
            "Add the other fragments",
        )
    locked = dict(locked or {})
    if unknown := sorted(set(locked) - set(puzzle.ids)):
        raise InputError(
            f"locked fragments that puzzle {puzzle.id} does not have: {', '.join(unknown)}",
            f"Its fragments are {', '.join(puzzle.ids)}",
        )
    name = solver if isinstance(solver, str) else type(solver).__name__
    if isinstance(solver, str):
        solver = get_solver(solver, **settings)
    blinded, names, shift = blind(puzzle, seed)

    def reveal(answer: Assembly) -> Assembly:
        """Back to the user's names and frames."""
        framed = replace(
            answer,
            islands=tuple(
                {i: pose @ shift[i].inverse() for i, pose in island.items()}
                for island in answer.islands
            ),
        )
        named = framed.renamed(names, puzzle)
        exact = tuple({i: locked.get(i, p) for i, p in island.items()} for island in named.islands)
        provenance = Provenance(name, __version__, seed, dict(settings))
        return replace(named, islands=exact, provenance=provenance)

    def relay(step: Progress) -> None:
        if progress is not None:
            preview = None if step.preview is None else reveal(step.preview)
            progress(replace(step, preview=preview))

    opaque_locks = {o: locked[real] @ shift[o] for o, real in names.items() if real in locked}
    answer = solver.solve(blinded, seed=seed, locked=opaque_locks, progress=relay)
    _check_locks(answer, opaque_locks, name)
    revealed = reveal(answer)
    return revealed if locked else _from_corner(revealed)


def _check_locks(answer: Assembly, locked: Mapping[str, Pose], name: str) -> None:
    """A solver that moves a locked piece is broken; a pose lost in rounding is not."""
    main = answer.islands[0] if answer.islands else {}
    for i, wanted in locked.items():
        got = main.get(i)
        if got is None:
            raise RuntimeError(f"solver {name} left a locked fragment out of its first island")
        drift = wanted.inverse() @ got
        if math.hypot(drift.x_mm, drift.y_mm) > 1e-6 or abs(drift.rotation_rad) > 1e-9:
            raise RuntimeError(f"solver {name} moved a locked fragment")


def _from_corner(assembly: Assembly) -> Assembly:
    """The same assembly with each island's bounding box starting at (0, 0)."""
    puzzle = assembly.puzzle
    assert puzzle is not None
    islands = []
    for island in assembly.islands:
        boxes = np.array([puzzle[i].placed(pose).bounds for i, pose in island.items()])
        to_corner = Pose(-boxes[:, 0].min(), -boxes[:, 1].min())
        islands.append({i: to_corner @ pose for i, pose in island.items()})
    return replace(assembly, islands=tuple(islands))
