from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import reassembly as ra
from reassembly.config import LossConfig, PuzzleFusionConfig
from reassembly.diffusion.batch import Batch
from reassembly.diffusion.frames import true_vectors
from reassembly.errors import InputError
from reassembly.puzzle import Puzzle
from reassembly.solvers.puzzlefusion import PuzzleFusionNet, bytes_of
from tests.puzzles import drawn_puzzle
from tests.solvers.learning import PUZZLE, batch_of, errors, saved, taught, untrained

NEAR_MM, NEAR_DEG = 10.0, 15.0


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    network = taught("puzzlefusion", steps=160, copies=2)
    return saved(tmp_path_factory.mktemp("weights") / "w.safetensors", "puzzlefusion", network)


def test_a_puzzle_that_was_learnt_is_solved(learnt):
    for seed in (0, 1):
        answer = ra.solve(PUZZLE, "puzzlefusion", weights=learnt, seed=seed)
        assert (errors(answer) < [NEAR_MM, NEAR_DEG]).all()
        assert min(answer.confidence.values()) > 0.6


def test_the_order_of_pieces_does_not_matter(learnt):
    backwards = Puzzle("backwards", PUZZLE.fragments[::-1], PUZZLE.truth)
    answer = ra.solve(backwards, "puzzlefusion", weights=learnt)
    assert (errors(answer) < [NEAR_MM, NEAR_DEG]).all()


def test_paint_does_not_matter_and_outlines_do(learnt):
    def poses(puzzle):
        return ra.solve(puzzle, "puzzlefusion", weights=learnt, samples=1, steps=4).poses

    grey = replace(
        PUZZLE,
        fragments=tuple(replace(f, image=np.full_like(f.image, 128)) for f in PUZZLE.fragments),
    )
    assert poses(grey) == poses(PUZZLE)
    worn = drawn_puzzle(4, seed=5, gap_px=3)
    assert poses(worn) != poses(PUZZLE)


def test_vertices_may_share_their_noise():
    shared, batch = untrained("puzzlefusion"), batch_of(PUZZLE)
    network = PuzzleFusionNet(replace(shared.config, noise="vertex"))
    network.load_state_dict(shared.state_dict())
    true = true_vectors(batch)

    def sample(network, eta):
        seen = []
        network.pose.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
        found = network.sample_poses(batch, true, None, 3, torch.Generator().manual_seed(0), eta)
        return found, seen

    for eta in (0.0, 1.0):
        found, seen = sample(shared, eta)
        assert all(torch.equal(x, x[:, :1].expand_as(x)) for x in seen)
        own, seen = sample(network, eta)
        assert all(x[~batch.anchor].std(1).min() > 0.01 for x in seen)
        assert not torch.allclose(found, own)
    t, noise = shared.draw(batch, torch.Generator().manual_seed(0))
    assert noise.shape == (4, 1, 4)
    assert shared.loss_at(batch, LossConfig(), t, noise)["loss"].isfinite()


# What training rewards


class Answering(PuzzleFusionNet):
    """Says what it is told to."""

    def denoise(self, known, layout, noisy, t, fixed):
        return self.answer[:, None].expand_as(noisy)


def match_of(batch: Batch, answer: torch.Tensor) -> dict[str, torch.Tensor]:
    network = Answering(PuzzleFusionConfig(width=8, layers=0, heads=1))
    network.answer = answer
    t, noise = network.draw(batch, torch.Generator().manual_seed(0))
    return network.loss_at(batch, LossConfig(), t, noise)


def test_the_truth_costs_nothing_but_the_gaps_and_pieces_apart_cost_more():
    batch = batch_of(PUZZLE, drawn_puzzle(3, seed=1))
    true = true_vectors(batch)
    right = match_of(batch, true)
    assert right["translation"] == right["rotation"] == 0.0
    gap_mm = float(right["match"].sqrt() * batch.scale_mm.mean())
    assert 0.0 < gap_mm < 6.0
    apart = true.clone()
    apart[:, :2] *= 1.5
    assert match_of(batch, apart)["match"] > 20 * right["match"]
    turned = true.clone()
    turned[:, 2:] = turned[:, 2:].flip(-1)
    assert match_of(batch, turned)["match"] > 20 * right["match"]


def test_matching_can_be_left_out():
    batch, network = batch_of(PUZZLE), untrained("puzzlefusion")
    t, noise = network.draw(batch, torch.Generator().manual_seed(0))
    losses = network.loss_at(batch, LossConfig(match=0.0), t, noise)
    assert set(losses) == {"loss", "translation", "rotation"}


# Memory


def test_memory_that_does_not_suffice_is_said_before_it_is_taken(learnt):
    with pytest.raises(InputError, match=r"out of memory: the 400 vertices of 4 pieces take .* GB"):
        ra.solve(PUZZLE, "puzzlefusion", weights=learnt, memory_gb=1e-5)
    enough = bytes_of(PuzzleFusionConfig(width=32), 4) / 1e9
    answer = ra.solve(PUZZLE, "puzzlefusion", weights=learnt, memory_gb=1.01 * enough, steps=1)
    assert set(answer.poses) == set(PUZZLE.ids)
    assert bytes_of(PuzzleFusionConfig(), 400) == 100 * bytes_of(PuzzleFusionConfig(), 4)


@pytest.mark.parametrize("wrong", [0, -1, "much", True, float("nan")])
def test_memory_must_be_a_number(learnt, wrong):
    with pytest.raises(InputError, match="memory_gb"):
        ra.solve(PUZZLE, "puzzlefusion", weights=learnt, memory_gb=wrong)
