"""One file a system, one `Solver` interface, one registry."""

from reassembly.solvers.base import Cancelled, Progress, ProgressCallback, Solver
from reassembly.solvers.registry import SolverInfo, available_solvers, get_solver
from reassembly.solvers.run import solve

__all__ = [
    "Cancelled",
    "Progress",
    "ProgressCallback",
    "Solver",
    "SolverInfo",
    "available_solvers",
    "get_solver",
    "solve",
]
