"""What one call of `reproduce` works with, and how much it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reassembly.errors import InputError
from reassembly.reproduce.paper import SIZES
from reassembly.reproduce.recipes import POOL_PUZZLES, Training
from reassembly.reproduce.repair import Repair

__all__ = ["FULL", "QUICK", "Data", "Extent", "Progress", "Session", "titled"]

Progress = Callable[[int, int, str], None]
"""Called with (done, total, what)."""


@dataclass(frozen=True)
class Extent:
    """How much is run."""

    puzzles: int
    pieces: tuple[int, int] | None
    """Of made puzzles; None for 4 to 18, nine on average."""
    size_px: int
    repair: int | None
    """How many of RePAIR's puzzles, the smallest first; None for all."""
    own: int | None
    """How many of each data set that the user adds; None for all."""
    pool: int
    """Made puzzles that are trained on."""
    sizes: tuple[int, ...]
    """Numbers of pieces whose cost is measured."""
    limit_s: float
    """For one puzzle."""
    cost_limit_s: float
    """The same, where cost is measured."""
    repeat: int


FULL = Extent(1000, None, 1024, None, None, POOL_PUZZLES, SIZES, 600.0, 600.0, 3)
QUICK = Extent(2, (4, 5), 384, 2, 2, 48, (2, 4, 8, 16), 40.0, 40.0, 1)


@dataclass(frozen=True)
class Data:
    """Puzzles to measure on."""

    name: str
    folder: Path
    ids: tuple[str, ...] | None
    note: str
    """In words, for the tables."""
    pictures: bool
    """Whether they may be shown."""
    fragments: int = 0
    """How many there should be, where that is known."""


@dataclass
class Session:
    """What one call works with."""

    out: Path
    extent: Extent
    repair: Repair | None
    own: Mapping[str, Path]
    trainer: Training
    weights: tuple[Path, ...]
    train: bool
    solvers: frozenset[str]
    """The only ones wanted; empty for all."""
    seeds: int
    workers: int
    device: str
    progress: Progress | None
    say: Callable[[str], None]
    created: dict[tuple[str, str], str | InputError | None] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        return self.out / "results"

    @property
    def bench(self) -> Path:
        return self.out / "bench"


def titled(progress: Progress | None, title: str) -> Progress | None:
    """The same, with a title before what is told."""
    if progress is None:
        return None

    def show(done: int, total: int, what: str) -> None:
        progress(done, total, f"{title} {what}")

    return show
