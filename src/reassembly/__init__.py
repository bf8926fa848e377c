"""reassembly: images of broken, eroded fragments in, the pose of every fragment out.

import reassembly as ra

assembly = ra.solve(ra.load("fragments"), seed=0)
assembly.save("out")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reassembly._version import __version__

if TYPE_CHECKING:
    from reassembly.errors import InputError, InputWarning
    from reassembly.io import cut_out, find_puzzles, load
    from reassembly.matching.joins import Join, find_joins
    from reassembly.metrics import evaluate
    from reassembly.pose import Pose
    from reassembly.puzzle import Assembly, Fragment, Provenance, Puzzle
    from reassembly.solvers import available_solvers, get_solver, solve

_HOME = {
    "Assembly": "reassembly.puzzle",
    "Fragment": "reassembly.puzzle",
    "InputError": "reassembly.errors",
    "InputWarning": "reassembly.errors",
    "Join": "reassembly.matching.joins",
    "Pose": "reassembly.pose",
    "Provenance": "reassembly.puzzle",
    "Puzzle": "reassembly.puzzle",
    "available_solvers": "reassembly.solvers",
    "cut_out": "reassembly.io",
    "evaluate": "reassembly.metrics",
    "find_joins": "reassembly.matching.joins",
    "find_puzzles": "reassembly.io",
    "get_solver": "reassembly.solvers",
    "load": "reassembly.io",
    "solve": "reassembly.solvers",
}

__all__ = [
    "Assembly",
    "Fragment",
    "InputError",
    "InputWarning",
    "Join",
    "Pose",
    "Provenance",
    "Puzzle",
    "__version__",
    "available_solvers",
    "cut_out",
    "evaluate",
    "find_joins",
    "find_puzzles",
    "get_solver",
    "load",
    "solve",
]


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that `reassembly --help` is quick."""
    if name not in _HOME:
        raise AttributeError(f"module 'reassembly' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
