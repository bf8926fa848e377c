"""Baselines that learn one puzzle by heart, for their tests."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import torch

from reassembly.config import DiffAssembleConfig, LossConfig, PuzzleFusionConfig
from reassembly.diffusion.batch import Batch
from reassembly.keypoints.describe import describe, meetings
from reassembly.pose import wrap_deg
from reassembly.puzzle import Assembly, Puzzle
from reassembly.solvers.diffassemble import DiffAssembleNet
from reassembly.solvers.puzzlefusion import PuzzleFusionNet
from reassembly.training.pool import Pool, shard_of
from reassembly.training.views import pictures
from reassembly.weights import save_weights
from tests.puzzles import drawn_puzzle

PUZZLE = drawn_puzzle(4, seed=5, gap_px=1)
LARGEST = max(PUZZLE.fragments, key=lambda fragment: fragment.area_mm2).id
TINY = {
    "diffassemble": (
        DiffAssembleNet,
        DiffAssembleConfig(width=32, layers=2, heads=4, train_steps=100),
    ),
    "puzzlefusion": (
        PuzzleFusionNet,
        PuzzleFusionConfig(width=32, layers=2, heads=4, train_steps=100),
    ),
}
"""By system: its network, and a section that makes a small one."""


def batch_of(*puzzles: Puzzle) -> Batch:
    """Puzzles as training sees them, with pictures."""
    columns = []
    for puzzle in puzzles:
        seen = describe(puzzle.fragments)
        columns.append((seen, {**meetings(puzzle, seen), **pictures(puzzle.fragments)}))
    shard = shard_of(columns)
    counts = shard.pop("pieces").tolist()
    return Pool(shard, counts).batch(range(len(counts)))


def untrained(system: str):
    """A small network of that system, from a fixed seed."""
    network, section = TINY[system]
    torch.manual_seed(1)
    return network(section)


def saved(path, system: str, network) -> str:
    save_weights(path, network, system, asdict(network.config), half=False)
    return str(path)


def taught(system: str, steps: int, copies: int):
    """A small network that has learnt `PUZZLE`, as its scans lie, whichever pieces are given."""
    network = untrained(system)
    batch = batch_of(PUZZLE).repeated(copies)
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(network.parameters())
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, steps, pct_start=0.1)
    for _ in range(steps):
        t, noise = network.draw(batch, generator)
        given = torch.rand(len(batch.area), generator=generator) < 0.2
        optimizer.zero_grad()
        network.loss_at(batch, LossConfig(), t, noise, given)["loss"].backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        rate.step()
    return network


def errors(answer: Assembly, puzzle: Puzzle = PUZZLE) -> np.ndarray:
    """(P - 1, 2): mm and degrees by which each piece but the largest is off, seen from that."""
    largest = max(puzzle.fragments, key=lambda fragment: fragment.area_mm2).id
    frame = puzzle.truth[largest] @ answer.poses[largest].inverse()
    off = []
    for fragment in puzzle.fragments:
        if fragment.id == largest:
            continue
        got, wanted = frame @ answer.poses[fragment.id], puzzle.truth[fragment.id]
        centre = fragment.centroid_mm[None]
        apart = float(np.linalg.norm(got.apply(centre) - wanted.apply(centre)))
        turned = abs(wrap_deg(math.degrees(got.rotation_rad - wanted.rotation_rad)))
        off.append((apart, turned))
    return np.array(off)
