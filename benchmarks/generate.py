"""Prints how many made puzzles a second come from the stream and onto the disk.

python benchmarks/generate.py [--preset realistic] [--count 24] [--size 1024]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import islice
from pathlib import Path

import cv2

from reassembly.synthetic.dataset import generate
from reassembly.synthetic.make import PRESETS, recipe, stream


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", choices=list(PRESETS), action="append")
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--size", type=int, default=1024)
    options = parser.parse_args()
    for preset in options.preset or list(PRESETS):
        print(f"{preset}, pictures of {options.size} px, painting included")
        streamed(preset, options.count, options.size)
        written(preset, options.count, options.size)


def streamed(preset: str, count: int, size_px: int) -> None:
    cv2.setNumThreads(1)
    puzzles = stream(0, recipe(preset, size_px=size_px))
    next(puzzles)
    start, cpu = time.perf_counter(), time.process_time()
    pieces = sum(len(made.puzzle) for made in islice(puzzles, count))
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(
        f"  stream, one core: {count / wall:.2f} puzzles a second (promise: 3), "
        f"{pieces / count:.1f} pieces each; by processor time {count / cpu:.2f}"
    )


def written(preset: str, count: int, size_px: int) -> None:
    speeds = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            speeds[workers] = speed(Path(folder) / "set", preset, count, size_px, workers)
    print(
        f"  to disk, one worker: {speeds[1]:.2f} puzzles a second (promise: 1.5); "
        f"two workers: {speeds[2] / speeds[1]:.2f} times that (promise: 1.8)"
    )


def speed(folder: Path, preset: str, count: int, size_px: int, workers: int) -> float:
    """Puzzles a second once all workers are busy: a process needs a second to start."""
    times: list[float] = []
    generate(
        folder,
        count=count + 2 * workers,
        preset=preset,
        size_px=size_px,
        workers=workers,
        progress=lambda *_: times.append(time.perf_counter()),
    )
    first, last = 2 * workers, len(times) - workers
    return (last - first) / (times[last] - times[first])


if __name__ == "__main__":
    main()
