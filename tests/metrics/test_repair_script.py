from __future__ import annotations

import math
from dataclasses import replace

import pytest

from reassembly.metrics import score
from reassembly.pose import Pose, from_repair
from reassembly.puzzle import Assembly, Fragment, Puzzle
from tests.metrics.pieces import assembled, block, four, turn, two


def as_scanned(fragment: Fragment) -> Fragment:
    return replace(fragment, mm_per_px=0.1357)


def test_the_truth_has_no_error():
    scores = score(four(), assembled(four()), "repair-script")
    assert scores["q_pos"] == 1.0 and scores["placed"] == 1.0
    assert scores["rmse_rotation_deg"] == scores["rmse_translation_mm"] == 0.0


def test_the_anchor_is_not_counted():
    prediction = assembled(four(), b=Pose(20, 0))
    assert score(four(), prediction, "repair-script")["q_pos"] == score(four(), prediction)["q_pos"]
    assert score(four(), prediction, "repair-script")["fragments"] == 3


def test_a_table_worked_by_hand():
    """Poses as in a RePAIR table: pixels of the scan's corner, degrees."""
    fragments = tuple(as_scanned(block(i, w, 80, w)) for i, w in (("a", 90), ("b", 60), ("c", 50)))
    true = {"a": (10, 20, 350), "b": (200, 30, 10), "c": (10, 300, 90)}
    found = {"a": (0, 0, 340), "b": (193, 34, 355), "c": (0, 280, 80)}

    def poses(table):
        return {f.id: from_repair(*table[f.id], f.frame_px, 0.1357) for f in fragments}

    puzzle = Puzzle("p", fragments, poses(true))
    scores = score(puzzle, Assembly.of(puzzle, poses(found)), "repair-script")
    # Shifted by (10, 20) and turned by 10: b is at (203, 54, 5), c at (10, 300, 90).
    mean_px = (math.hypot(3, 24) + 0) / 2
    assert scores["rmse_translation_mm"] == pytest.approx(mean_px / 7.369 / math.sqrt(2))
    assert scores["rmse_rotation_deg"] == pytest.approx((5 + 0) / 2 / math.sqrt(2))


def test_angles_are_not_wrapped():
    puzzle = replace(two(), truth={"a": Pose(40, 40), "b": Pose.from_degrees(110, 40, 1)})
    prediction = assembled(puzzle, b=turn(-2))
    scores = score(puzzle, prediction, "repair-script")
    assert scores["rmse_rotation_deg"] == pytest.approx(358 / math.sqrt(2))


def test_offsets_are_not_turned_with_the_anchor():
    """A turn of the whole is no error for strict, and one here."""
    motion = Pose.from_degrees(0, 0, 90)
    carried = Assembly.of(two(), {i: motion @ pose for i, pose in two().truth.items()})
    assert score(two(), carried)["rmse_translation_mm"] == pytest.approx(0.0, abs=1e-9)
    scores = score(two(), carried, "repair-script")
    assert scores["rmse_rotation_deg"] == pytest.approx(0.0, abs=1e-9)
    assert scores["rmse_translation_mm"] == pytest.approx(70 * math.sqrt(2) / 7.369 / math.sqrt(2))


def test_unplaced_pieces_count_in_no_rmse():
    poses = {i: four().truth[i] for i in "ab"} | {"b": Pose.from_degrees(100, 40, 20)}
    scores = score(four(), Assembly.of(four(), poses), "repair-script")
    assert scores["placed"] == pytest.approx(1 / 3)
    assert scores["rmse_rotation_deg"] == pytest.approx(20 / math.sqrt(2))
    nothing = score(four(), None, "repair-script")
    assert nothing["q_pos"] == 0.0 and nothing["rmse_translation_mm"] is None
