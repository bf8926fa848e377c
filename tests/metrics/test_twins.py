from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reassembly.metrics import score
from reassembly.metrics.twins import twins
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Puzzle
from tests.metrics.pieces import assembled, block


def row(*kinds: str) -> Puzzle:
    """Blocks in a row, 60 mm apart: `A` 70 x 70, `t` 50 x 30 in one colour, `u` in another. Every
    scan has its own margin, so that the frames of twins differ."""
    make = {
        "A": lambda i, k: block(i, 70, 70, 1, margin=k),
        "t": lambda i, k: block(i, 50, 30, 2, margin=k),
        "u": lambda i, k: block(i, 50, 30, 3, margin=k),
    }
    fragments = [make[kind](f"{k}{kind}", k) for k, kind in enumerate(kinds)]
    return Puzzle("row", tuple(fragments), {f.id: Pose(60 * k, 0) for k, f in enumerate(fragments)})


def swapped(puzzle: Puzzle, a: str, b: str) -> dict[str, Pose]:
    return {**puzzle.truth, a: puzzle.truth[b], b: puzzle.truth[a]}


def test_twins_are_the_same_pixel_for_pixel_wherever_they_lie_in_their_frames():
    puzzle = row("A", "t", "t", "u", "t")
    assert twins(puzzle) == [["1t", "2t", "4t"]]
    stray = replace(puzzle, strays=frozenset({"2t"}))
    assert twins(stray) == [["1t", "4t"]]


def test_of_twins_the_best_equivalent_counts():
    puzzle = row("A", "t", "t", "t")
    order = {"1t": "2t", "2t": "3t", "3t": "1t"}
    poses = {i: puzzle.truth[order.get(i, i)] for i in puzzle.ids}
    scores = score(puzzle, Assembly.of(puzzle, poses))
    for name in ("q_pos", "q_pos_mean", "correct", "largest_correct_group", "neighbour_f1"):
        assert scores[name] == pytest.approx(1.0), name


def test_lookalikes_of_another_colour_are_no_twins():
    puzzle = row("A", "t", "u")
    assert score(puzzle, Assembly.of(puzzle, swapped(puzzle, "1t", "2u")))["correct"] == 0.0


def test_a_twin_may_serve_as_the_anchor():
    puzzle = row("A", "A", "t")
    scores = score(puzzle, Assembly.of(puzzle, swapped(puzzle, "0A", "1A")))
    assert scores["q_pos"] == scores["correct"] == 1.0
    one = {"1A": puzzle.truth["0A"], "2t": puzzle.truth["2t"]}
    scores = score(puzzle, Assembly.of(puzzle, one))
    assert scores["correct"] == 0.5 and scores["correct_of_placed"] == 1.0


def test_of_two_twins_it_does_not_matter_which_is_left_out():
    puzzle = row("A", "t", "t")
    kept = {"0A": puzzle.truth["0A"], "1t": puzzle.truth["2t"]}
    scores = score(puzzle, Assembly.of(puzzle, kept))
    assert scores["correct"] == 0.5 and scores["correct_of_placed"] == 1.0


def test_twins_in_the_wrong_place_stay_wrong():
    puzzle = row("A", "t", "t")
    scores = score(puzzle, assembled(puzzle, **{"1t": Pose(0, 80)}))
    assert scores["correct"] == 0.5
    rng = np.random.default_rng(0)
    lost = {i: Pose(*rng.uniform(1000, 9000, 2)) for i in puzzle.ids}
    assert score(puzzle, Assembly.of(puzzle, lost))["q_pos"] == 0.0
