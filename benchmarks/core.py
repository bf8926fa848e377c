"""Prints how long `--help` takes, and reading and outlining ten fragments of 2000 x 2000 px.

python benchmarks/core.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
import psutil

import reassembly


def main() -> None:
    print(f"reassembly --help: {help_seconds():.2f} s (promise: 0.5 s)")
    with tempfile.TemporaryDirectory() as folder:
        for count in (10, 20):
            write_fragments(Path(folder) / str(count), count)
        reading(Path(folder) / "10")
        for count in (10, 20):
            reading(Path(folder) / str(count), show=True)


def help_seconds() -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        command = [sys.executable, "-m", "reassembly.cli", "--help"]
        subprocess.run(command, capture_output=True, check=True)
        times.append(time.perf_counter() - start)
    return min(times)


def write_fragments(folder: Path, count: int) -> None:
    """Blobs of noise, as hard to decode as a photograph."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    angle = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    for k in range(count):
        waves = [
            rng.normal(0, 60 / n) * np.cos(n * angle + rng.uniform(0, 6)) for n in range(2, 40)
        ]
        radius = 600 + sum(waves)
        ring = 1000 + np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
        mask = cv2.fillPoly(np.zeros((2000, 2000), np.uint8), [ring.astype(np.int32)], 1) > 0
        colour = cv2.GaussianBlur(rng.integers(0, 255, (2000, 2000, 3), np.uint8), (0, 0), 1.5)
        rgba = np.dstack([colour, mask * np.uint8(255)])
        rgba[~mask] = 0
        (folder / f"{k}.png").write_bytes(cv2.imencode(".png", rgba)[1].tobytes())


def reading(folder: Path, show: bool = False) -> None:
    process = psutil.Process()
    before, cpu = process.memory_info().rss, sum(process.cpu_times()[:2])
    start = time.perf_counter()
    puzzle = reassembly.load(folder, mm_per_px=0.1357)
    vertices = sum(len(f.polygon.exterior.coords) for f in puzzle.fragments)
    seconds = time.perf_counter() - start
    if show:
        held = sum(f.image.nbytes + f.mask.nbytes for f in puzzle.fragments) / 2**20
        grown = (process.memory_info().rss - before) / 2**20
        busy = (sum(process.cpu_times()[:2]) - cpu) / seconds
        print(
            f"{len(puzzle)} fragments of 2000 x 2000 px read and outlined ({vertices} vertices): "
            f"{seconds:.2f} s, {busy:.1f} cores busy; they hold {held:.0f} MB, "
            f"the process grew by {grown:.0f} MB"
        )


if __name__ == "__main__":
    main()
