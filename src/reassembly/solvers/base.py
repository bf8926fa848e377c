"""What every solver is: puzzle in, assembly out, with a seed, locks and progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Puzzle

__all__ = ["Cancelled", "Progress", "ProgressCallback", "Solver", "report"]


class Cancelled(Exception):  # noqa: N818 (it is no error)
    """Raised by a progress callback to stop a solver; it passes through to the caller."""


@dataclass(frozen=True)
class Progress:
    """How far a solver has come."""

    fraction: float
    """From 0 to 1."""
    stage: str
    """What is being done, in a few words."""
    preview: Assembly | None = None
    """The assembly as it stands."""


ProgressCallback = Callable[[Progress], None]


class Solver(Protocol):
    """A system that reassembles.

    A solver must not read anything but pixels, masks and scales: `reassembly.solve` hands it
    fragments under opaque ids, in an order shuffled by the seed, without metadata or truth.
    """

    def solve(
        self,
        puzzle: Puzzle,
        *,
        seed: int = 0,
        locked: Mapping[str, Pose] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Assembly:
        """Finds poses.

        Args:
            puzzle: at least two fragments.
            seed: the same seed gives the same assembly on the same machine.
            locked: poses, in one common frame, that must come back as they are, together in
                the first island.
            progress: called every so often; may raise `Cancelled`.
        """
        ...


def report(
    progress: ProgressCallback | None, fraction: float, stage: str, preview: Assembly | None = None
) -> None:
    """Calls `progress`, if there is one."""
    if progress is not None:
        progress(Progress(fraction, stage, preview))
