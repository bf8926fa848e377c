"""The trivial rows on real puzzles, which every implementation of the metrics must reproduce."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reassembly.io import find_puzzles
from reassembly.metrics import score, summarise
from reassembly.metrics.oracle import true_centroids_assembly, truth_assembly
from reassembly.metrics.paper import score_paper
from reassembly.metrics.reference import reference_of
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Puzzle
from reassembly.solvers.trivial import Random, Ring, Stack

REPAIR = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "repair" / "2d_fixed"
DRAWS = 3
COLUMNS = (
    "q_pos", "q_pos_with_anchor", "q_pos_mean", "correct", "rmse_rotation_deg",
    "rmse_translation_mm",
)  # fmt: skip
ROWS = {
    "truth": (truth_assembly, (1.0, 1.0, 1.0, 1.0, 0.0, 0.0)),
    "stack": (Stack().solve, (0.005, 0.421, 0.028, 0.0, 101.0, 146.0)),
    "random": (Random().solve, (0.049, 0.445, 0.061, 0.0, 99.0, 182.0)),
    "ring": (Ring().solve, (0.075, 0.460, 0.074, 0.001, 98.0, 177.0)),
    "true-centroids": (true_centroids_assembly, (0.764, 0.865, 0.386, 0.060, 104.0, 0.0)),
}
# Three standard errors of a mean over three draws.
NOISE = {
    "truth": (1e-9, 1e-9, 1e-9, 1e-9, 1e-6, 1e-6),
    "stack": (0.004, 0.003, 0.004, 0.001, 11.0, 1.0),
    "random": (0.036, 0.018, 0.027, 0.005, 11.0, 17.0),
    "ring": (0.042, 0.022, 0.026, 0.005, 11.0, 15.0),
    "true-centroids": (0.018, 0.009, 0.035, 0.045, 12.0, 1e-6),
}


@pytest.fixture(scope="module")
def puzzles() -> list[Puzzle]:
    if not REPAIR.is_dir():
        pytest.skip("the RePAIR puzzles are not beside this checkout")
    loaded = [source.load() for source in find_puzzles(REPAIR / "train")]
    assert len(loaded) == 20 and sum(map(len, loaded)) == 134
    return loaded


@pytest.mark.parametrize("name", ROWS)
def test_the_trivial_rows_come_out_as_in_the_table(name, puzzles):
    solve, expected = ROWS[name]
    rows = [
        {
            "id": puzzle.id,
            **score(puzzle, solve(puzzle, seed=seed) if name != "truth" else solve(puzzle)),
        }
        for puzzle in puzzles
        for seed in range(1 if name == "truth" else DRAWS)
    ]
    mean = summarise(rows)
    for column, value, noise in zip(COLUMNS, expected, NOISE[name], strict=True):
        assert mean[column] == pytest.approx(value, abs=noise), column


def test_there_are_two_neighbours_a_piece(puzzles):
    pairs = sum(len(reference_of(puzzle).edges) for puzzle in puzzles)
    assert 2 * pairs / 134 == pytest.approx(2.0, abs=0.1)


def test_a_constant_answer_scores_in_the_papers_protocol_what_is_printed_for_it(puzzles):
    """0 degrees everywhere, and one position in units of the canvas for every piece."""

    def constant(puzzle: Puzzle) -> Assembly:
        scans = np.array([pose.translation for pose in puzzle.truth.values()])
        half = np.array(puzzle.fragments[0].frame_px) * puzzle.mm_per_px / 2
        low, high = scans.min(axis=0) - half, scans.max(axis=0) + half
        place = low + [0.54, 0.49] * (high - low)[::-1]
        poses = {f.id: Pose(*(place - f.centroid_mm)) for f in puzzle.fragments}
        return Assembly.of(puzzle, poses)

    def mean(pieces: int) -> dict:
        rows = [{"id": p.id, **score_paper(p, constant(p), padded_pieces=pieces)} for p in puzzles]
        return summarise(rows)

    padded, plain = mean(33), mean(0)
    assert padded["rmse_translation_mm"] == pytest.approx(10.7, abs=2.5)
    assert plain["rmse_translation_mm"] == pytest.approx(21.1, abs=2.5)
    assert padded["rmse_rotation_deg"] == pytest.approx(47, abs=5)
    # What docs/metrics.md says of these very puzzles.
    assert padded["rmse_translation_mm"] == pytest.approx(8.7, abs=0.05)
    assert plain["rmse_translation_mm"] == pytest.approx(18.8, abs=0.05)
    assert padded["rmse_rotation_deg"] == pytest.approx(43.9, abs=0.05)
    assert plain["rmse_rotation_deg"] == pytest.approx(95.5, abs=0.05)
