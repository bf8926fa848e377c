"""The demo: paints a fresco, breaks it, wears it, solves it, and shows what came out."""

from __future__ import annotations

import time
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reassembly.io.files import check_output_folder, output_folder
from reassembly.io.render import contact_sheet_png, png_bytes, render_assembly
from reassembly.io.writers import OURS
from reassembly.metrics import score
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Puzzle
from reassembly.solvers import ProgressCallback, available_solvers, solve
from reassembly.solvers.base import report
from reassembly.synthetic.dataset import write_puzzle
from reassembly.synthetic.make import make_puzzle, recipe

__all__ = ["make_demo", "upright"]

DEMO_SOLVER = "reassemblenet"
"""The best one on lightly worn, made frescoes."""


def make_demo(
    out: str | PathLike[str],
    *,
    pieces: int = 9,
    preset: str = "paper",
    seed: int = 0,
    solver: str = DEMO_SOLVER,
    force: bool = False,
    progress: ProgressCallback | None = None,
) -> list[dict[str, Any]]:
    """Makes a puzzle, solves it, and writes everything into a folder.

    The folder then holds the fresco (`fresco.png`), its pieces as a puzzle with true poses
    (`puzzle/`), the assembly in every format, and all at a glance (`overview.png`).

    Args:
        pieces: how many the fresco is broken into.
        preset: how they are worn; see `reassembly.synthetic.make.PRESETS`.
        solver: its name.

    Returns:
        Strict figures, a row a solver: that solver's first, then the trivial ones.
    """
    check_output_folder(out, force)
    report(progress, 0.0, "painting and breaking")
    made = make_puzzle(recipe(preset, pieces=(pieces, pieces)), seed, 0)
    puzzle = made.puzzle
    start = time.perf_counter()
    assembly = solve(puzzle, solver, seed=seed, progress=progress)
    rows = [_row(solver, puzzle, assembly, time.perf_counter() - start)]
    for info in available_solvers().values():
        if info.trivial:
            start = time.perf_counter()
            answer = solve(puzzle, info.name, seed=seed)
            rows.append(_row(info.name, puzzle, answer, time.perf_counter() - start))
    with output_folder(out, force=force, replaces=[*OURS, "puzzle/fragment_*.png"]) as folder:
        write_puzzle(made, folder / "puzzle")
        opaque = np.full((*made.picture.shape[:2], 1), 255, np.uint8)
        (folder / "fresco.png").write_bytes(png_bytes(np.dstack([made.picture, opaque])))
        (folder / "overview.png").write_bytes(_overview(made.picture, assembly, rows[0]))
        assembly.save(folder, force=True)
    return rows


def _row(name: str, puzzle: Puzzle, answer: Assembly, seconds: float) -> dict[str, Any]:
    return {"solver": name, **score(puzzle, answer), "seconds_per_puzzle": seconds}


def upright(assembly: Assembly) -> Assembly:
    """The assembly turned as a whole so that its largest piece lies as the truth has it."""
    puzzle = assembly.puzzle
    assert puzzle is not None and puzzle.truth is not None
    islands = []
    for island in assembly.islands:
        known = [i for i in island if i in puzzle.truth]
        motion = Pose(0.0, 0.0)
        if known:
            anchor = max(known, key=lambda i: puzzle[i].area_mm2)
            motion = puzzle.truth[anchor] @ island[anchor].inverse()
        islands.append({i: motion @ pose for i, pose in island.items()})
    return replace(assembly, islands=tuple(islands))


def _overview(picture: NDArray[np.uint8], assembly: Assembly, row: dict[str, Any]) -> bytes:
    """Three pictures side by side: as painted, as found, as solved."""
    import io

    import cv2
    from matplotlib.figure import Figure

    puzzle = assembly.puzzle
    assert puzzle is not None
    sheet = cv2.imdecode(np.frombuffer(contact_sheet_png(puzzle), np.uint8), cv2.IMREAD_COLOR_RGB)
    solved = render_assembly(upright(assembly), puzzle.mm_per_px, background=(255, 255, 255))
    placed = len(assembly.poses)
    right = round((row["correct"] or 0.0) * row["fragments"])
    verdict = f"{placed} placed, {right} of {row['fragments']} right relative to the largest"
    titles = {
        "As painted": picture,
        f"As found: {len(puzzle)} pieces": sheet,
        f"As solved: {verdict}": solved,
    }
    figure = Figure(figsize=(13.5, 4.8), layout="constrained")
    for panel, (title, shown) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        panel.imshow(shown)
        panel.set_title(title, fontsize=10)
        panel.set_axis_off()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()
