from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reassembly.metrics import score
from reassembly.metrics.neighbours import Outlines, shared_edges
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Fragment, Puzzle
from tests.metrics.pieces import assembled, block, four, two


def pairs(puzzle: Puzzle, poses=None) -> dict[tuple[str, str], np.ndarray]:
    outlines = Outlines({f.id: f.polygon for f in puzzle.fragments})
    return shared_edges(outlines, poses or puzzle.truth)


def test_neighbours_share_an_edge_and_not_just_a_corner():
    found = pairs(four())
    assert set(found) == {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")}


def test_the_middle_of_a_shared_edge_lies_between_the_pieces():
    assert pairs(four(gap=4.0))["a", "b"] == pytest.approx([82, 40], abs=0.7)


@pytest.mark.parametrize(("gap", "neighbours"), [(0.0, 1), (9.5, 1), (10.5, 0)])
def test_neighbours_are_within_10_mm(gap, neighbours):
    assert len(pairs(two(gap))) == neighbours


@pytest.mark.parametrize(("facing_mm", "neighbours"), [(24.0, 1), (20.0, 0)])
def test_neighbours_share_30_mm_of_either_outline(facing_mm, neighbours):
    """Side by side, 8 mm apart, b lies so low that only a part of it faces a. Beyond that part
    6 mm more of each edge are within 10 mm (a 6-8-10 triangle), and 2 mm around the corner."""
    puzzle = two(gap=8.0)
    poses = {**puzzle.truth, "b": Pose(118, 120 - facing_mm)}
    assert len(pairs(puzzle, poses)) == neighbours


def test_a_piece_inside_a_ring_is_its_neighbour():
    mask = np.ones((140, 140), bool)
    mask[40:100, 40:100] = False
    ring = Fragment("ring", np.zeros((140, 140, 3), np.uint8), mask, 1.0)
    puzzle = Puzzle("p", (ring, block("core", 50, 50)), {"ring": Pose(0, 0), "core": Pose(0, 0)})
    assert len(pairs(puzzle)) == 1
    assert score(puzzle, assembled(puzzle))["neighbour_f1"] == 1.0


def test_no_true_pair_leaves_the_puzzle_out():
    far = two(gap=100.0)
    for prediction in (assembled(far), assembled(far, b=Pose(-100, 0)), None):
        scores = score(far, prediction)
        for name in ("neighbour_recall", "neighbour_precision", "neighbour_f1"):
            assert scores[name] is None


def test_recall_does_not_ask_whether_the_prediction_touches():
    puzzle = two(gap=8.0)
    scores = score(puzzle, assembled(puzzle, b=Pose(9.0, 0.0)))
    assert scores["neighbour_recall"] == 1.0
    # No predicted pair: precision is empty, f1 is 0.
    assert scores["predicted_pairs"] == 0
    assert scores["neighbour_precision"] is None and scores["neighbour_f1"] == 0.0


@pytest.mark.parametrize(
    ("error", "right"),
    [
        (Pose(0, 9.9), True),
        (Pose(0, 10.1), False),
        (Pose.from_degrees(0, 0, 9.9), True),
        (Pose.from_degrees(0, 0, 10.1), False),
    ],
)
def test_a_pair_is_right_within_10_degrees_and_10_mm(error, right):
    scores = score(two(), assembled(two(), b=error))
    assert scores["neighbour_recall"] == scores["neighbour_precision"] == float(right)


def test_it_is_the_middle_of_the_shared_edge_that_counts_not_the_centroid():
    """b is 300 mm long: turned by 5 degrees about the shared edge its centroid moves 13 mm away
    and the pair is right; about its centroid the edge moves, and it is not."""
    truth = {"a": Pose(0, 0), "b": Pose(250, 0)}
    puzzle = Puzzle("p", (block("a", 200, 200), block("b", 300, 80)), truth)
    hinge = Pose(100, 0) @ Pose.from_degrees(0, 0, 5) @ Pose(100, 0).inverse()
    about_edge = Assembly.of(puzzle, {**puzzle.truth, "b": hinge @ puzzle.truth["b"]})
    scores = score(puzzle, about_edge)
    assert scores["rmse_translation_mm"] > 12 and scores["correct"] == 0.0
    assert scores["neighbour_f1"] == 1.0
    about_centroid = score(puzzle, assembled(puzzle, b=Pose.from_degrees(0, 0, 5)))
    assert about_centroid["correct"] == 1.0 and about_centroid["neighbour_recall"] == 0.0


def test_precision_counts_predicted_contacts():
    """d on the other side of b: bd is a contact at the wrong place, cd is lost."""
    scores = score(four(), assembled(four(), d=Pose(40, -60)))
    assert scores["neighbour_recall"] == 2 / 4
    assert scores["predicted_pairs"] == 3 and scores["neighbour_precision"] == pytest.approx(2 / 3)
    assert scores["neighbour_f1"] == pytest.approx(2 * 0.5 * (2 / 3) / (0.5 + 2 / 3))


def test_a_contact_of_no_true_neighbours_whose_relative_pose_is_right_is_right():
    """Pieces 10.5 mm apart are no neighbours; 2 mm nearer they touch, and are where they belong."""
    puzzle = two(gap=10.5)
    third = block("c", 80, 60, 3)
    puzzle = replace(
        puzzle, fragments=(*puzzle.fragments, third), truth={**puzzle.truth, "c": Pose(40, 110)}
    )
    assert set(pairs(puzzle)) == {("a", "c")}
    near = score(puzzle, assembled(puzzle, b=Pose(-2, 0)))
    assert near["predicted_pairs"] == 2 and near["neighbour_precision"] == 1.0
    off = score(puzzle, assembled(puzzle, b=Pose(-2, -30)))
    assert off["predicted_pairs"] == 2 and off["neighbour_precision"] == 0.5


def test_a_stack_has_contacts_and_none_is_right():
    puzzle = four()
    stack = Assembly.of(puzzle, {i: Pose(0, 0) for i in puzzle.ids})
    scores = score(puzzle, stack)
    assert scores["predicted_pairs"] == 6
    assert (
        scores["neighbour_precision"] == scores["neighbour_recall"] == scores["neighbour_f1"] == 0.0
    )
