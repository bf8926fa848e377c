"""Makes the pictures of the README and the docs, all painted by this project.

python docs/make_images.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import cv2
import numpy as np
from matplotlib.figure import Figure

from reassembly.demo import make_demo
from reassembly.io.render import render_assembly
from reassembly.metrics.oracle import truth_assembly
from reassembly.synthetic.make import PRESETS, make_puzzle, recipe
from reassembly.synthetic.painter import paint

IMAGES = Path(__file__).parent / "images"
GROUND = (240, 238, 233)
DEMO_SEED = 3
"""That of `reassembly demo`."""


def main() -> None:
    """Writes every picture."""
    with tempfile.TemporaryDirectory() as folder:
        make_demo(Path(folder) / "demo", seed=DEMO_SEED)
        overview = cv2.imread(str(Path(folder) / "demo" / "overview.png"))
    save(overview, "demo.jpg")
    save(painted(), "painted.jpg")
    presets()


def save(bgr: np.ndarray, name: str) -> None:
    options = [cv2.IMWRITE_JPEG_QUALITY, 88] if name.endswith("jpg") else []
    (IMAGES / name).write_bytes(cv2.imencode(Path(name).suffix, bgr, options)[1].tobytes())


def painted() -> np.ndarray:
    """Twelve walls."""
    walls = [paint(800, seed=seed, mm_per_px=0.45) for seed in range(12)]
    small = [cv2.resize(wall, (300, 300), interpolation=cv2.INTER_AREA) for wall in walls]
    return np.vstack([np.hstack(small[k : k + 4]) for k in (0, 4, 8)])[..., ::-1]


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
    figure.savefig(IMAGES / "presets.jpg", dpi=80, pil_kwargs={"quality": 88})


def close_up(picture: np.ndarray) -> np.ndarray:
    height, width = picture.shape[:2]
    return picture[height // 3 : 2 * height // 3, width // 3 : 2 * width // 3]


if __name__ == "__main__":
    main()
