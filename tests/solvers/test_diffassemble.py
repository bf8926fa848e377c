from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import reassembly as ra
from reassembly.puzzle import Puzzle
from reassembly.solvers.diffassemble import PictureEncoder, expander
from tests.puzzles import drawn_puzzle
from tests.solvers.learning import PUZZLE, batch_of, errors, saved, taught, untrained

NEAR_MM, NEAR_DEG = 10.0, 15.0


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    network = taught("diffassemble", steps=90, copies=6)
    return saved(tmp_path_factory.mktemp("weights") / "w.safetensors", "diffassemble", network)


def test_a_puzzle_that_was_learnt_is_solved(learnt):
    for seed in (0, 1):
        answer = ra.solve(PUZZLE, "diffassemble", weights=learnt, seed=seed)
        assert (errors(answer) < [NEAR_MM, NEAR_DEG]).all()
        assert min(answer.confidence.values()) > 0.6


def test_the_order_of_pieces_does_not_matter(learnt):
    backwards = Puzzle("backwards", PUZZLE.fragments[::-1], PUZZLE.truth)
    answer = ra.solve(backwards, "diffassemble", weights=learnt)
    assert (errors(answer) < [NEAR_MM, NEAR_DEG]).all()


def test_paint_matters(learnt):
    grey = replace(
        PUZZLE,
        fragments=tuple(replace(f, image=np.full_like(f.image, 128)) for f in PUZZLE.fragments),
    )
    coloured, plain = (
        ra.solve(p, "diffassemble", weights=learnt, samples=1) for p in (PUZZLE, grey)
    )
    assert coloured.poses != plain.poses


def test_a_turned_picture_is_another():
    torch.manual_seed(0)
    encoder = PictureEncoder(16)
    shown = batch_of(PUZZLE).pictures
    with torch.no_grad():
        upright, turned = encoder(shown), encoder(shown.rot90(1, (1, 2)))
    assert upright.shape == (4, 16)
    assert (upright - turned).norm(dim=-1).min() > 0.01


# The graph


@pytest.mark.parametrize(("pieces", "rings"), [(9, 1), (12, 2), (40, 3)])
def test_expanders_are_regular_connected_and_random(pieces, rings):
    generator = torch.Generator().manual_seed(0)
    keys = torch.randn(5, pieces, rings, generator=generator)
    edges = expander(keys)
    assert torch.equal(edges, edges.transpose(1, 2))
    assert edges.diagonal(dim1=1, dim2=2).all()
    degree = edges.sum(-1) - 1
    assert (degree <= 2 * rings).all() and (degree >= 2).all()
    assert degree.float().mean() > 1.6 * rings
    reached = torch.linalg.matrix_power(edges.double(), pieces)
    assert (reached > 0).all()
    assert all(not torch.equal(edges[0], other) for other in edges[1:])


def test_three_rings_bring_every_piece_within_four_steps():
    """What makes an expander of them: four layers carry news from each of 44 pieces to all."""
    keys = torch.randn(20, 44, 3, generator=torch.Generator().manual_seed(1))
    reached = torch.linalg.matrix_power(expander(keys).double(), 4)
    assert (reached > 0).all()


def test_small_puzzles_have_all_edges_and_large_ones_few():
    network = untrained("diffassemble")
    batch = batch_of(PUZZLE, drawn_puzzle(12, seed=1))
    keys = torch.randn(16, network.rings, generator=torch.Generator().manual_seed(0))
    (small, all_edges), (large, some) = network.graph(batch, keys)
    assert small.shape == (1, 4) and all_edges is None
    assert large.shape == (1, 12) and some.shape == (1, 1, 12, 12)
    assert some.sum() < 12 * (network.config.degree + 1) + 1
