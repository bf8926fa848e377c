from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Fragment, Puzzle
from reassembly.solvers import solve
from reassembly.solvers.base import Cancelled
from reassembly.solvers.trivial import Random, Ring, Stack
from tests.puzzles import drawn_puzzle

SOLVERS = [Stack, Random, Ring]
PUZZLE = drawn_puzzle(7, seed=4, size_px=240)


def discs(*radii_px: float) -> Puzzle:
    """Round pieces, so that their equivalent circles are what one sees."""
    fragments = []
    for k, radius in enumerate(radii_px):
        y, x = np.mgrid[-radius - 3 : radius + 4, -radius - 3 : radius + 4]
        mask = np.hypot(x, y) <= radius
        fragments.append(Fragment(f"{k}", np.zeros((*mask.shape, 3), np.uint8), mask, 0.5))
    return Puzzle("discs", tuple(fragments))


def centroids(assembly: Assembly, puzzle: Puzzle) -> dict[str, np.ndarray]:
    return {i: p.apply(puzzle[i].centroid_mm[None])[0] for i, p in assembly.poses.items()}


def radius_mm(fragment: Fragment) -> float:
    return math.sqrt(fragment.area_mm2 / math.pi)


@pytest.mark.parametrize("solver", SOLVERS)
def test_everything_is_placed_in_one_island_and_the_seed_decides_where(solver):
    assembly = solver().solve(PUZZLE, seed=1)
    assert len(assembly.islands) == 1 and not assembly.unplaced
    assert assembly == solver().solve(PUZZLE, seed=1)
    assert assembly.poses != solver().solve(PUZZLE, seed=2).poses


@pytest.mark.parametrize("solver", SOLVERS)
def test_rotations_are_uniform(solver):
    turns = [
        p.rotation_rad
        for seed in range(60)
        for p in solver().solve(PUZZLE, seed=seed).poses.values()
    ]
    assert abs(np.exp(1j * np.array(turns)).mean()) < 0.12
    assert abs(np.exp(2j * np.array(turns)).mean()) < 0.12


@pytest.mark.parametrize("solver", SOLVERS)
def test_locked_pieces_stay_and_the_others_gather_around_them(solver):
    locked = {PUZZLE.ids[1]: Pose(5000, -300, 1.0), PUZZLE.ids[4]: Pose(5040, -310, -2.0)}
    assembly = solver().solve(PUZZLE, seed=3, locked=locked)
    assert {i: assembly.islands[0][i] for i in locked} == locked
    assert set(assembly.poses) == set(PUZZLE.ids)
    for place in centroids(assembly, PUZZLE).values():
        assert math.dist(place, (5000, -300)) < 250


@pytest.mark.parametrize("solver", SOLVERS)
def test_all_pieces_locked(solver):
    assert solver().solve(PUZZLE, locked=PUZZLE.truth).poses == PUZZLE.truth


@pytest.mark.parametrize("solver", SOLVERS)
def test_progress_is_told_and_may_stop_it(solver):
    steps = []
    assembly = solver().solve(PUZZLE, progress=steps.append)
    assert steps[-1].fraction == 1.0 and steps[-1].preview == assembly

    def stop(step):
        raise Cancelled

    with pytest.raises(Cancelled):
        solver().solve(PUZZLE, progress=stop)


def test_stack_puts_all_centroids_on_one_point():
    places = np.array(list(centroids(Stack().solve(PUZZLE), PUZZLE).values()))
    assert np.abs(places - places[0]).max() < 1e-9


def test_random_fills_a_disc_of_the_total_area():
    radius = math.sqrt(sum(f.area_mm2 for f in PUZZLE.fragments) / math.pi)
    places = np.array(
        [
            p
            for seed in range(80)
            for p in centroids(Random().solve(PUZZLE, seed=seed), PUZZLE).values()
        ]
    )
    distance = np.linalg.norm(places, axis=1)
    assert distance.max() <= radius
    # Uniform in area: half of them lie within 1/sqrt(2) of the radius.
    assert (distance < radius / math.sqrt(2)).mean() == pytest.approx(0.5, abs=0.07)
    assert np.abs(places.mean(axis=0)).max() < radius / 8


@pytest.mark.parametrize("seed", range(5))
def test_ring_pieces_touch_and_do_not_overlap(seed):
    puzzle = discs(40, 22, 30, 18, 26, 33, 12, 28, 20, 35, 15, 25)
    places = centroids(Ring().solve(puzzle, seed=seed), puzzle)
    gaps = {
        (a, b): math.dist(places[a], places[b]) - radius_mm(puzzle[a]) - radius_mm(puzzle[b])
        for a, b in itertools.combinations(puzzle.ids, 2)
    }
    assert min(gaps.values()) > -1e-6
    touching = [pair for pair, gap in gaps.items() if gap < 1e-6]
    first_ring = [b for a, b in touching if a == "0"]
    assert 3 <= len(first_ring) < len(puzzle) - 1  # the rest is in a second ring
    assert len(touching) >= len(puzzle) - 2


def test_ring_has_the_largest_piece_or_the_largest_locked_one_in_the_middle():
    puzzle = discs(20, 40, 25, 22)
    places = centroids(Ring().solve(puzzle), puzzle)
    assert places["1"] == pytest.approx([0, 0], abs=1e-9)
    for i in "023":
        assert np.hypot(*places[i]) == pytest.approx(radius_mm(puzzle["1"]) + radius_mm(puzzle[i]))
    locked = {"0": Pose(100, 0), "2": Pose(0, 0)}
    places = centroids(Ring().solve(puzzle, locked=locked), puzzle)
    for i in "13":
        expected = radius_mm(puzzle["2"]) + radius_mm(puzzle[i])
        assert np.hypot(*places[i]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["stack", "random", "ring"])
def test_they_are_solvers_like_any_other(name):
    locked = {PUZZLE.ids[2]: Pose(7, 8, 0.5)}
    assembly = solve(PUZZLE, name, seed=5, locked=locked)
    assert assembly.poses[PUZZLE.ids[2]] == locked[PUZZLE.ids[2]]
    assert set(assembly.poses) == set(PUZZLE.ids)
