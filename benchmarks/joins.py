"""Prints what joins takes from image files to an assembly: time, memory, and what pruning loses.

python benchmarks/joins.py [--pieces 10 60 300] [--preset realistic] [--device cuda] [--again]

Each number of pieces is a made puzzle and a process of its own, whose imports count. In puzzles
that are too large for all pairs, only likely neighbours are compared: recall is the share of the
pairs that truly touch that are. With --again, the time of a second solve in the same process is
told, too, as of a workbench that is running: nothing is imported or read then.
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

SIDE_PX = 1024 / 3
"""Side of a square picture for each piece: as in 1024 px for nine."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pieces", type=int, nargs="*", default=[10, 60, 300])
    parser.add_argument("--preset", default="realistic")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--again", action="store_true", help="tell the time of a second solve, too")
    parser.add_argument(
        "--folder", type=Path, help="of one puzzle, which is solved in this process"
    )
    arguments = parser.parse_args()
    if arguments.folder:
        measure(arguments.folder, arguments.device, arguments.again)
        return
    from reassembly.synthetic.dataset import write_puzzle
    from reassembly.synthetic.make import make_puzzle, recipe

    for count in arguments.pieces:
        size = max(512, round(SIDE_PX * math.sqrt(count)))
        wanted = recipe(arguments.preset, pieces=(count, count), size_px=size)
        with tempfile.TemporaryDirectory() as folder:
            write_puzzle(make_puzzle(wanted, 0, 0), Path(folder) / "puzzle")
            command = [sys.executable, __file__, "--folder", f"{folder}/puzzle"]
            command += ["--device", arguments.device, *["--again"] * arguments.again]
            subprocess.run(command, check=True)


def measure(folder: Path, device: str, again: bool) -> None:
    begun = time.perf_counter()
    from reassembly.io.readers import load
    from reassembly.matching.joins import Join
    from reassembly.metrics import score
    from reassembly.metrics.neighbours import Outlines, shared_edges
    from reassembly.solvers.joins import Joins

    puzzle = load(folder)
    solver = Joins(device=device)
    told: list[float] = []

    def tell(joins: Sequence[Join]) -> None:
        if joins:
            told.append(time.perf_counter() - begun)

    answer = solver.solve(puzzle, tell=tell)
    seconds = time.perf_counter() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    every = len(list(combinations(puzzle.ids, 2)))
    compared = {frozenset(pair) for pair in solver.finder.pairs(solver.finder.look(puzzle))}
    touching = shared_edges(Outlines({f.id: f.polygon for f in puzzle.fragments}), puzzle.truth)
    recall = sum(frozenset(pair) in compared for pair in touching) / len(touching)
    print(
        f"{len(puzzle)} pieces on {device}: {seconds:.1f} s, the first join after {told[0]:.1f} s, "
        f"{memory:.0f} MiB; {len(compared)} of {every} pairs compared, with {recall:.3f} of the "
        f"{len(touching)} that touch; q_pos {score(puzzle, answer, 'strict')['q_pos']:.3f}",
        flush=True,
    )
    if again:
        begun = time.perf_counter()
        solver.solve(puzzle)
        print(f"again in the same process: {time.perf_counter() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
