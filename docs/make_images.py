"""Makes the pictures of the README and the docs, all painted by this project.

python docs/make_images.py
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import cv2
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from reassembly.demo import make_demo, upright
from reassembly.io.render import (
    fair_width,
    in_rows,
    placed_bounds,
    render_assembly,
    render_placements,
)
from reassembly.metrics.oracle import truth_assembly
from reassembly.pose import Pose, wrap_rad
from reassembly.puzzle import Fragment
from reassembly.solvers import solve
from reassembly.synthetic.make import PRESETS, make_puzzle, recipe

IMAGES = Path(__file__).parent / "images"
GROUND = (240, 238, 233)
QUALITY = 32
DEMO_SEED = 3
"""That of `reassembly demo`."""
ASSEMBLED_SEED, FRAMES, WIDTH_PX, GAP_MM = 6, 20, 440, 12.0
LAG = 2.0
"""How many times as long as one piece moves the last one waits."""


def main() -> None:
    """Writes every picture."""
    with tempfile.TemporaryDirectory() as folder:
        make_demo(Path(folder) / "demo", seed=DEMO_SEED)
        overview = cv2.imread(str(Path(folder) / "demo" / "overview.png"))
    quality = [cv2.IMWRITE_WEBP_QUALITY, QUALITY]
    (IMAGES / "demo.webp").write_bytes(cv2.imencode(".webp", overview, quality)[1].tobytes())
    (IMAGES / "assembling.webp").write_bytes(assembling())
    presets()


def assembling() -> bytes:
    """Pieces as they were found go one after the other to where a solver puts them."""
    made = make_puzzle(recipe("paper", pieces=(12, 12)), ASSEMBLED_SEED, 0)
    answer = upright(solve(made.puzzle, "pairingnet", seed=0))
    (solved,) = answer.islands  # All of them hang together, or it would be no example.
    fragments = sorted(made.puzzle.fragments, key=lambda f: solved[f.id].apply(f.centroid_mm)[0])
    goals = [(fragment, solved[fragment.id]) for fragment in fragments]
    left, top, _, bottom = placed_bounds(goals)
    found = in_rows(fragments, fair_width(fragments), GAP_MM)
    _, above, width, below = placed_bounds(found)
    away = (left - width - 3 * GAP_MM, (top + bottom - above - below) / 2)
    starts = [(f, Pose(p.x_mm + away[0], p.y_mm + away[1], p.rotation_rad)) for f, p in found]
    bounds = placed_bounds([*starts, *goals])
    bounds = (bounds[0] - GAP_MM, bounds[1] - GAP_MM, bounds[2] + GAP_MM, bounds[3] + GAP_MM)
    scale = (bounds[2] - bounds[0]) / WIDTH_PX
    frames = []
    for number in range(FRAMES):
        times = number / (FRAMES - 1) * (1 + LAG) - LAG * np.arange(len(goals)) / (len(goals) - 1)
        placements = [
            (fragment, between(fragment, start, goal, float(np.clip(time, 0, 1))))
            for (fragment, start), (_, goal), time in zip(starts, goals, times, strict=True)
        ]
        drawn = render_placements(placements, scale, bounds, background=GROUND)
        frames.append(Image.fromarray(drawn[..., :3]))
    content = io.BytesIO()
    frames[0].save(
        content,
        "WEBP",
        save_all=True,
        append_images=frames[1:],
        duration=[1200, *[150] * (FRAMES - 2), 3000],
        loop=0,
        quality=45,
        method=6,
    )
    return content.getvalue()


def between(fragment: Fragment, start: Pose, goal: Pose, time: float) -> Pose:
    """On the way, at a time from 0 to 1: soft at both ends, turning about the piece's middle."""
    share = time * time * (3 - 2 * time)
    turn = start.rotation_rad + share * wrap_rad(goal.rotation_rad - start.rotation_rad)
    middle = fragment.centroid_mm
    at = (1 - share) * start.apply(middle) + share * goal.apply(middle)
    own = Pose(0.0, 0.0, turn).apply(middle)
    return Pose(float(at[0] - own[0]), float(at[1] - own[1]), turn)


def presets() -> None:
    """Each preset: two puzzles as they belong together, and one join close up."""
    figure = Figure(figsize=(12, 12.4), layout="constrained", facecolor="white")
    panels = figure.subplots(len(PRESETS), 3)
    for row, name in zip(panels, PRESETS, strict=True):
        for panel, seed in zip(row, (8, 3), strict=False):
            made = make_puzzle(recipe(name, pieces=(9, 9)), seed, 0)
            solved = render_assembly(truth_assembly(made.puzzle), background=GROUND)
            panel.imshow(solved)
            panel.set_title(f"{name}, seed {seed}", fontsize=10)
        row[2].imshow(close_up(solved))
        row[2].set_title("close up", fontsize=10)
        for panel in row:
            panel.set_axis_off()
    figure.savefig(IMAGES / "presets.webp", dpi=56, pil_kwargs={"quality": QUALITY, "method": 6})


def close_up(picture: np.ndarray) -> np.ndarray:
    height, width = picture.shape[:2]
    return picture[height // 3 : 2 * height // 3, width // 3 : 2 * width // 3]


if __name__ == "__main__":
    main()
