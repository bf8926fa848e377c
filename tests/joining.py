"""Joins for tests: a network that nobody trained, and the true joins of drawn puzzles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from reassembly.assembly.table import Candidate, Motion, composed, inverse
from reassembly.config import JoinsConfig
from reassembly.matching.joins import Join
from reassembly.matching.rim import Rim, motion_of
from reassembly.matching.verifier import JoinNetwork
from reassembly.metrics.neighbours import Outlines, shared_edges
from reassembly.puzzle import Puzzle
from reassembly.weights import save_weights


@torch.no_grad()
def untrained(width: int = 8) -> JoinNetwork:
    """A small network, from a fixed seed, whose last judge passes on what it hears."""
    torch.manual_seed(0)
    network = JoinNetwork(JoinsConfig(width=width))
    for parameter in network.context.parameters():
        parameter.zero_()
    network.context.straight.weight[0, -1] = 1.0
    return network.eval()


def saved(path: Path) -> Path:
    """Weights of it."""
    network = untrained()
    save_weights(path, network.state_dict(), "joins", asdict(network.config), half=False)
    return path


def true_join(puzzle: Puzzle, first: str, second: str) -> Join:
    """How two pieces of a puzzle lie to each other in truth."""
    pose = puzzle.truth[first].inverse() @ puzzle.truth[second]
    return Join(first, second, pose, 0.5, 1.0, 2.0, 30.0)


def true_motion(puzzle: Puzzle, rims: Mapping[str, Rim], fixed: str, moving: str) -> Motion:
    """The same about centroids."""
    pose = puzzle.truth[fixed].inverse() @ puzzle.truth[moving]
    turn, x, y = motion_of(pose, rims[fixed], rims[moving]).tolist()
    return turn, complex(x, y)


def touching_motions(fixed: Rim, moving: Rim, count: int, seed: int = 0) -> np.ndarray:
    """(count, 3): the moving piece laid beside the fixed one anywhere, rim to rim."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(len(rim.points), size=count) for rim in (fixed, moving))
    rows = []
    for there, own in zip(a, b, strict=True):
        out, back = fixed.normals[there], -moving.normals[own]
        # Turning counter-clockwise as seen lowers angles that are measured with y down.
        turn = math.atan2(back[1], back[0]) - math.atan2(out[1], out[0])
        c, s = math.cos(turn), math.sin(turn)
        point = np.array([[c, s], [-s, c]]) @ moving.points[own]
        rows.append([turn, *(fixed.points[there] + 1.5 * out - point)])
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def neighbours(puzzle: Puzzle) -> set[tuple[str, str]]:
    """Pairs of pieces that met."""
    outlines = Outlines({i: puzzle[i].polygon for i in puzzle.truth})
    return set(shared_edges(outlines, puzzle.truth))


def candidates(
    puzzle: Puzzle, rims: Mapping[str, Rim], false: int, gap: float, seed: int = 0
) -> list[Candidate]:
    """True joins among `false` others of every pair, whose logits are lower by `gap` on average,
    with a standard deviation of 1."""
    rng = np.random.default_rng(seed)
    met = neighbours(puzzle)
    found = []
    for k, a in enumerate(puzzle.ids):
        for b in puzzle.ids[k + 1 :]:
            rows = touching_motions(rims[a], rims[b], false, seed=int(rng.integers(1 << 31)))
            found += [
                Candidate(a, b, (turn, complex(x, y)), float(rng.normal(2 - gap)))
                for turn, x, y in rows
            ]
            if (min(a, b), max(a, b)) in met:
                turn, shift = true_motion(puzzle, rims, a, b)
                off = turn + rng.normal(0, 0.01), shift + complex(*rng.normal(0, 0.4, 2))
                found.append(Candidate(a, b, off, float(rng.normal(2.0))))
    return found


def misplaced(
    puzzle: Puzzle, rims: Mapping[str, Rim], group: Mapping[str, Motion]
) -> dict[str, tuple[float, float]]:
    """Of every piece of a group but its largest: degrees and mm by which it is off, seen from the
    largest."""
    first = max(group, key=lambda i: rims[i].area_mm2)
    off = {}
    for i, motion in group.items():
        if i != first:
            got = composed(inverse(group[first]), motion)
            wanted = true_motion(puzzle, rims, first, i)
            turned = math.degrees(abs(math.remainder(got[0] - wanted[0], math.tau)))
            off[i] = turned, abs(got[1] - wanted[1])
    return off
