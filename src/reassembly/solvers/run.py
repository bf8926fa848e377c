"""Running a solver so that it sees pixels and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from reassembly._defaults import DEFAULT_SOLVER
from reassembly._version import __version__
from reassembly.errors import InputError
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Provenance, Puzzle
from reassembly.solvers.base import Progress, ProgressCallback, Solver
from reassembly.solvers.registry import get_solver

if TYPE_CHECKING:
    from reassembly.matching.joins import Join, Tell

__all__ = ["blind", "solve"]


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
    accepted: Sequence[Join] = (),
    rejected: Sequence[Join] = (),
    tell: Tell | None = None,
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
        accepted: joins that hold, such as `find_joins` tells; for solvers that take them.
        rejected: joins that must not be.
        tell: called with the joins of each pair that the solver compares, once all of them are
            judged; never by solvers that find none.
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
    judgements = _judgements(name, solver, accepted, rejected, names, shift)

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
        others = tuple(reveal(each) for each in answer.alternatives)
        return replace(named, islands=exact, provenance=provenance, alternatives=others)

    def relay(step: Progress) -> None:
        if progress is not None:
            preview = None if step.preview is None else reveal(step.preview)
            progress(replace(step, preview=preview))

    def overheard(joins: Sequence[Join]) -> None:
        assert tell is not None
        tell(
            [
                replace(
                    join,
                    first=names[join.first],
                    second=names[join.second],
                    pose=shift[join.first] @ join.pose @ shift[join.second].inverse(),
                )
                for join in joins
            ]
        )

    more: dict[str, Any] = dict(judgements)
    if tell is not None and getattr(solver, "tells_joins", False):
        more["tell"] = overheard
    opaque_locks = {o: locked[real] @ shift[o] for o, real in names.items() if real in locked}
    answer = solver.solve(blinded, seed=seed, locked=opaque_locks, progress=relay, **more)
    _check_locks(answer, opaque_locks, name)
    revealed = reveal(answer)
    return revealed if locked else _from_corner(revealed)


def _judgements(
    name: str,
    solver: Solver,
    accepted: Sequence[Join],
    rejected: Sequence[Join],
    names: Mapping[str, str],
    shift: Mapping[str, Pose],
) -> dict[str, list[Join]]:
    """What a person says about joins, as the solver may hear it: under opaque ids."""
    if not (accepted or rejected):
        return {}
    if not getattr(solver, "takes_judgements", False):
        raise InputError(
            f"solver {name} cannot be told which joins hold", "Use --solver joins, or lock pieces"
        )
    opaque = {real: o for o, real in names.items()}

    def told(join: Join) -> Join:
        for i in (join.first, join.second):
            if i not in opaque:
                raise InputError(
                    f"a judged join names {i}, which the puzzle does not have", "Leave it out"
                )
        one, other = opaque[join.first], opaque[join.second]
        pose = shift[one].inverse() @ join.pose @ shift[other]
        return replace(join, first=one, second=other, pose=pose)

    return {"accepted": [told(j) for j in accepted], "rejected": [told(j) for j in rejected]}


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
    others = tuple(_from_corner(each) for each in assembly.alternatives)
    return replace(assembly, islands=tuple(islands), alternatives=others)
