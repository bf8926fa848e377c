"""A package with solvers, as another person would install it."""

from __future__ import annotations

from pathlib import Path

SOLVERS = """
import os
import time

from reassembly.pose import Pose
from reassembly.puzzle import Assembly
from reassembly.solvers.registry import SolverInfo


def info(name):
    return SolverInfo(name, "made for a test", "made for a test", f"odd:{name.title()}")


CRASHES, HANGS, HOARDS, FINE = info("crashes"), info("hangs"), info("hoards"), info("fine")
UNMADE = info("unmade")
BROKEN = 7


class Fine:
    def solve(self, puzzle, *, seed=0, locked=None, progress=None):
        return Assembly.of(puzzle, {i: Pose(0.0, 0.0, 0.0) for i in puzzle.ids})


class Crashes(Fine):
    def solve(self, puzzle, **options):
        os._exit(9)


class Hangs(Fine):
    def solve(self, puzzle, **options):
        time.sleep(600)


class Hoards(Fine):
    def solve(self, puzzle, **options):
        raise MemoryError("no room")
"""


def install(folder: Path, name: str, code: str, entries: str) -> Path:
    """Writes the package as pip would, so that a folder on the path is all it takes."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entries)
    return folder


def install_odd(folder: Path) -> Path:
    entries = "[reassembly.solvers]\ncrashes = odd:CRASHES\nhangs = odd:HANGS\nfine = odd:FINE\n"
    entries += (
        "hoards = odd:HOARDS\nunmade = odd:UNMADE\nbroken = odd:BROKEN\nabsent = nowhere:INFO\n"
    )
    return install(folder, "odd", SOLVERS, entries)
