"""Time and memory of one solver on one puzzle, in a process of its own that may die.

What goes wrong there, out of memory, out of time or a crash, is told in the result.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import psutil

from reassembly._version import __version__
from reassembly.io.files import atomic_write
from reassembly.workers import worker_pool

__all__ = ["measure", "puzzle_of"]

LOOK_EVERY_S = 0.05
MEMORY_SHARE = 0.85
"""Of the memory that is free when it starts: a process that takes more is ended before the
machine has to choose whom to end."""
LONGEST = 160
"""Letters of an error that are kept."""
SIDE_PX = 181
"""Side of a square picture, for each piece: as in 1024 px for 32 pieces."""
SMALLEST_PX, SEED = 512, 9000


def puzzle_of(pieces: int, folder: Path, index: int = 0) -> Path:
    """A made puzzle of so many pieces, made once."""
    from reassembly.synthetic.dataset import write_puzzle
    from reassembly.synthetic.make import make_puzzle, recipe

    place = folder / f"{pieces}-pieces-{index}"
    if not place.is_dir():
        size = max(SMALLEST_PX, round(SIDE_PX * math.sqrt(pieces)))
        wanted = recipe("paper", pieces=(pieces, pieces), size_px=size)
        write_puzzle(make_puzzle(wanted, SEED, index), place)
    return place


def measure(
    puzzle: Path,
    solver: str,
    settings: Mapping[str, Any],
    cell: Path,
    *,
    weights_hash: str | None = None,
    limit_s: float = 600.0,
    repeat: int = 1,
) -> dict[str, Any]:
    """Measures, or reads what was measured before.

    Args:
        puzzle: its folder.
        cell: the file that keeps the result.
        weights_hash: of the weights; a result for others does not count.
        limit_s: how long loading and solving may take, each time.
        repeat: how often it is solved; the fastest counts, since others only add noise.

    Returns:
        `seconds`, `ready_s` (imports and weights), `memory_mb` (the most that its process held,
        Python and all), `gpu_memory_mb`, or `error`, what went wrong in their stead.
    """
    told = {key: value for key, value in settings.items() if key != "weights"}
    wanted = [puzzle.name, solver, told, weights_hash, limit_s, repeat, __version__]
    signature = hashlib.sha256(json.dumps(wanted).encode()).hexdigest()
    if cell.is_file():
        found: dict[str, Any] = json.loads(cell.read_text(encoding="utf-8"))
        if found["signature"] == signature:
            return found
    result = _in_own_process(puzzle, solver, dict(settings), limit_s, repeat)
    result = {"solver": solver, "puzzle": puzzle.name, **result, "signature": signature}
    cell.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(cell, json.dumps(result, indent=1) + "\n")
    return result


def _in_own_process(
    puzzle: Path, solver: str, settings: dict[str, Any], limit_s: float, repeat: int
) -> dict[str, Any]:
    allowed = MEMORY_SHARE * psutil.virtual_memory().available
    with worker_pool(1) as pool:
        process = psutil.Process(pool.submit(os.getpid).result())
        start, peak, end = time.monotonic(), 0, ""
        running = pool.submit(_solve, puzzle, solver, settings, repeat)
        try:
            while not wait([running], timeout=LOOK_EVERY_S).done:
                peak = max(peak, _held(process))
                if time.monotonic() - start > limit_s * repeat:
                    end = f"longer than {limit_s:g} s"
                elif peak > allowed:
                    end = f"out of memory: more than {allowed / 2**30:.1f} GB"
                if end:
                    process.kill()
                    wait([running])
                    break
            result: dict[str, Any] = running.result()
        except BrokenProcessPool:
            return {"error": end or "the solver's process died", "memory_mb": peak / 2**20}
        except KeyboardInterrupt:
            process.kill()
            raise
    return result


def _held(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _solve(puzzle: Path, solver: str, settings: dict[str, Any], repeat: int) -> dict[str, Any]:
    from reassembly.bench.runner import peak_gpu_memory_mb, peak_memory_mb
    from reassembly.io.readers import load
    from reassembly.solvers import get_solver, solve

    fragments = load(puzzle)
    start = time.perf_counter()
    try:
        made = get_solver(solver, **settings)
        ready = time.perf_counter() - start
        seconds = []
        for seed in range(repeat):
            start = time.perf_counter()
            answer = solve(fragments, made, seed=seed)
            _wait_for_gpu()
            seconds.append(time.perf_counter() - start)
    except Exception as error:
        said = next(iter(str(error).splitlines()), "")[:LONGEST]
        return {"error": f"{type(error).__name__}: {said}", "memory_mb": peak_memory_mb()}
    return {
        "seconds": min(seconds),
        "ready_s": ready,
        "pieces": len(fragments),
        "placed": len(answer.poses),
        "memory_mb": peak_memory_mb(),
        "gpu_memory_mb": peak_gpu_memory_mb(),
    }


def _wait_for_gpu() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
