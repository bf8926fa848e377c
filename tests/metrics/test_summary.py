from __future__ import annotations

import json
import math

import numpy as np
import pytest

from reassembly.metrics import score, summarise
from tests.metrics.pieces import assembled, four, two


def rows(values, **more) -> list[dict]:
    return [{"id": f"p{k}", "fragments": 4, "q_pos": v, **more} for k, v in enumerate(values)]


def test_the_mean_is_over_puzzles_and_the_second_column_over_fragments():
    summary = summarise(
        [
            {"id": "small", "fragments": 1, "q_pos": 1.0, "correct": 1.0},
            {"id": "large", "fragments": 9, "q_pos": 0.0, "correct": 0.5},
        ]
    )
    assert (summary["puzzles"], summary["fragments_scored"]) == (2, 10)
    assert summary["q_pos"] == 0.5 and summary["q_pos_over_fragments"] == pytest.approx(0.1)
    assert summary["correct"] == 0.75
    assert summary["correct_over_fragments"] == pytest.approx((1 + 4.5) / 10)


def test_over_fragments_each_figure_is_weighted_by_what_is_behind_it():
    one = {
        "id": "a",
        "fragments": 10,
        "placed": 1.0,
        "correct_of_placed": 0.0,
        "rmse_rotation_deg": 30.0,
        "neighbour_recall": 0.0,
        "true_pairs": 30,
        "neighbour_precision": 0.0,
        "predicted_pairs": 4,
    }
    two = {
        "id": "b",
        "fragments": 10,
        "placed": 0.5,
        "correct_of_placed": 1.0,
        "rmse_rotation_deg": 90.0,
        "neighbour_recall": 1.0,
        "true_pairs": 10,
        "neighbour_precision": 1.0,
        "predicted_pairs": 12,
    }
    summary = summarise([one, two])
    assert summary["correct_of_placed_over_fragments"] == pytest.approx(5 / 15)
    assert summary["rmse_rotation_deg"] == 60.0
    pooled = math.sqrt((10 * 30**2 + 5 * 90**2) / 15)
    assert summary["rmse_rotation_deg_over_fragments"] == pytest.approx(pooled)
    assert summary["neighbour_recall_over_fragments"] == pytest.approx(10 / 40)
    assert summary["neighbour_precision_over_fragments"] == pytest.approx(12 / 16)


def test_seeds_of_a_puzzle_count_as_one_puzzle():
    summary = summarise(
        [
            {"id": "a", "seed": 0, "fragments": 3, "q_pos": 0.0},
            {"id": "a", "seed": 1, "fragments": 3, "q_pos": 0.2},
            {"id": "a", "seed": 2, "fragments": 3, "q_pos": 0.4},
            {"id": "b", "seed": 0, "fragments": 3, "q_pos": 0.8},
        ]
    )
    assert summary["q_pos"] == pytest.approx(0.5)
    assert summary["puzzles"] == 2 and summary["fragments_scored"] == 6
    assert summary["q_pos_ci"] == pytest.approx([0.2, 0.8])  # two puzzles, not four rows


def test_a_figure_that_does_not_exist_is_left_out_and_counted():
    summary = summarise(rows([0.2, None, 0.6], neighbour_f1=None))
    assert summary["q_pos"] == pytest.approx(0.4) and summary["q_pos_left_out"] == 1
    assert summary["neighbour_f1"] is None and summary["neighbour_f1_ci"] is None
    assert summary["neighbour_f1_over_fragments"] is None and summary["neighbour_f1_left_out"] == 3
    assert "q_pos_left_out" not in summarise(rows([0.2, 0.6]))
    some = summarise([{"id": "a", "q_pos": None}, {"id": "a", "q_pos": 0.5}])
    assert some["q_pos"] == 0.5 and "q_pos_left_out" not in some


def test_the_interval_is_that_of_a_mean():
    values = np.random.default_rng(1).normal(0.5, 0.1, 400)
    low, high = summarise(rows(values.tolist()), draws=4000)["q_pos_ci"]
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert low == pytest.approx(values.mean() - half, abs=half / 10)
    assert high == pytest.approx(values.mean() + half, abs=half / 10)


def test_one_puzzle_gives_an_interval_without_width():
    assert summarise(rows([0.3]))["q_pos_ci"] == [0.3, 0.3]


def test_the_summary_depends_on_the_seed_but_not_on_the_order_of_rows():
    table = rows(np.random.default_rng(0).random(12).tolist())
    assert summarise(table) == summarise(table[::-1]) == summarise(table, seed=0)
    assert summarise(table)["q_pos_ci"] != summarise(table, seed=1)["q_pos_ci"]


def test_other_figures_get_a_mean_and_an_interval_too():
    summary = summarise([{"id": "a", "seconds": 1.0}, {"id": "b", "seconds": 3.0}])
    assert summary["seconds"] == 2.0 and summary["seconds_ci"] == [1.0, 3.0]


def test_counts_are_summed_and_scores_go_into_json():
    table = [{"id": p.id, **score(p, assembled(p))} for p in (two(), four())]
    summary = summarise([*table, {"id": "missing", **score(two(gap=100), None)}])
    assert summary["true_pairs"] == 5 and summary["fragments_scored"] == 5
    assert summary["strays_placed"] == 0
    assert summary["neighbour_recall_left_out"] == 1
    json.dumps(summary, allow_nan=False)


def test_nothing_to_summarise():
    assert summarise([]) == {"puzzles": 0}
