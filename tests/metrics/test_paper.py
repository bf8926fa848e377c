from __future__ import annotations

import math
from dataclasses import replace

import pytest

from reassembly.metrics import score
from reassembly.metrics.paper import score_paper
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Puzzle
from tests.metrics.pieces import assembled, block, four, turn, two


def test_the_truth_has_no_error():
    scores = score(four(), assembled(four()), "paper")
    assert scores["q_pos"] == 1.0
    assert scores["rmse_rotation_deg"] == scores["rmse_translation_mm"] == 0.0


def test_q_pos_counts_the_anchor():
    stack = Assembly.of(four(), {i: Pose(0, 0) for i in "abcd"})
    for prediction in (stack, assembled(four(), a=Pose(500, 0)), None):
        strict = score(four(), prediction)
        assert score(four(), prediction, "paper")["q_pos"] == strict["q_pos_with_anchor"]


def test_angles_are_not_wrapped():
    puzzle = replace(two(), truth={"a": Pose(40, 40), "b": Pose.from_degrees(110, 40, 179)})
    prediction = Assembly.of(puzzle, {"a": Pose(40, 40), "b": Pose.from_degrees(110, 40, -179)})
    plain = score_paper(puzzle, prediction, padded_pieces=0)
    assert plain["rmse_rotation_deg"] == pytest.approx(358 / math.sqrt(2))


def test_padding_counts_as_answered_rightly():
    prediction = assembled(four(), b=turn(30), c=Pose(5, -7))
    padded, plain = (
        score_paper(four(), prediction),
        score_paper(four(), prediction, padded_pieces=0),
    )
    for name in ("rmse_rotation_deg", "rmse_translation_mm"):
        assert padded[name] == pytest.approx(plain[name] * math.sqrt(4 / 33))


def test_a_puzzle_of_more_than_33_pieces_has_no_padding():
    fragments = tuple(block(f"{k:02d}", 20 + k, 20, k) for k in range(35))
    puzzle = Puzzle("many", fragments, {f.id: Pose(0, 30 * k) for k, f in enumerate(fragments)})
    prediction = assembled(puzzle, **{"03": turn(70)})
    assert score_paper(puzzle, prediction)["rmse_rotation_deg"] == pytest.approx(70 / math.sqrt(35))


def test_translation_is_in_hundredths_of_the_canvas_with_its_sides_swapped():
    """Scans of two() are 86 x 86 and 66 x 86 px: the canvas is 146 mm wide and 86 mm high."""
    for error, over in ((Pose(8.6, 0), 86), (Pose(0, 8.6), 146)):
        found = score_paper(two(), assembled(two(), b=error), padded_pieces=0)
        assert found["rmse_translation_mm"] == pytest.approx(100 * math.sqrt((8.6 / over) ** 2 / 4))


def test_nothing_is_aligned():
    motion = Pose.from_degrees(3, 4, 20)
    carried = Assembly.of(two(), {i: motion @ pose for i, pose in two().truth.items()})
    scores = score_paper(two(), carried, padded_pieces=0)
    assert scores["q_pos"] == pytest.approx(1.0)
    assert scores["rmse_rotation_deg"] == pytest.approx(20.0)
    assert scores["rmse_translation_mm"] > 1.0


def test_unplaced_pieces_count_neither_as_wrong_nor_as_padding():
    poses = {i: four().truth[i] for i in "abc"} | {"b": Pose.from_degrees(100, 40, 40)}
    scores = score_paper(four(), Assembly.of(four(), poses))
    assert scores["placed"] == 3 / 4
    assert scores["rmse_rotation_deg"] == pytest.approx(40 * math.sqrt(1 / 32))
    nothing = score_paper(four(), None)
    assert nothing["q_pos"] == nothing["placed"] == 0.0
    assert nothing["rmse_rotation_deg"] is None and nothing["rmse_translation_mm"] is None
