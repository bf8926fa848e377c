from __future__ import annotations

from dataclasses import replace

import pytest

from reassembly.metrics import score
from reassembly.metrics.oracle import true_centroids_assembly, truth_assembly
from tests.metrics.pieces import block, four
from tests.puzzles import drawn_puzzle

PUZZLE = drawn_puzzle(6, seed=2, size_px=240)


def test_the_truth_is_the_truth_and_refuses_strays():
    puzzle = replace(
        four(), fragments=(*four().fragments, block("s", 30, 30)), strays=frozenset({"s"})
    )
    for assembly in (truth_assembly(puzzle), true_centroids_assembly(puzzle)):
        assert assembly.unplaced == ("s",)
    scores = score(puzzle, truth_assembly(puzzle))
    assert scores["q_pos"] == scores["correct"] == 1.0 and scores["strays_refused"] == 1


def test_true_centroids_have_the_anchor_right_and_other_rotations_at_random():
    draws = [score(PUZZLE, true_centroids_assembly(PUZZLE, seed)) for seed in range(12)]
    for scores in draws:
        assert scores["rmse_translation_mm"] == pytest.approx(0.0, abs=1e-9)
        assert scores["q_pos_with_anchor"] > scores["q_pos"]
    assert 70 < sum(s["rmse_rotation_deg"] for s in draws) / 12 < 135
    anchor = max(PUZZLE.fragments, key=lambda f: f.area_mm2).id
    assert true_centroids_assembly(PUZZLE, 3).poses[anchor] == PUZZLE.truth[anchor]
    assert true_centroids_assembly(PUZZLE, 3) == true_centroids_assembly(PUZZLE, 3)
    assert true_centroids_assembly(PUZZLE, 3).poses != true_centroids_assembly(PUZZLE, 4).poses
