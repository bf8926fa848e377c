import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reassembly.config import DenoiserConfig
from reassembly.diffusion.batch import Layout
from reassembly.diffusion.denoiser import Denoiser, Mating, Tokens
from reassembly.diffusion.frames import place, turn

SMALL = {"width": 32, "layers": 2, "heads": 2}


def tokens_of(counts, pieces, seed=0, width=32):
    """Random keypoints; the first piece of each puzzle is fixed."""
    generator = torch.Generator().manual_seed(seed)
    total = sum(counts)
    angle = torch.rand(total, generator=generator) * math.tau
    fixed = torch.zeros(len(counts), dtype=torch.bool)
    starts = torch.tensor([0, *pieces]).cumsum(0)[:-1]
    fixed[starts] = True
    code = torch.randn(total, 8, generator=generator)
    return Tokens(
        torch.randn(total, width, generator=generator),
        torch.randn(total, 2, generator=generator) * 0.2,
        torch.stack([angle.cos(), angle.sin()], -1),
        (code, code.flip(0)),
        fixed,
        Layout(counts, pieces, "cpu"),
    )


def part(tokens, rows, counts, pieces, fixed):
    codes = tuple(code[rows] for code in tokens.codes)
    layout = Layout(counts, pieces, "cpu")
    return Tokens(
        tokens.features[rows], tokens.points[rows], tokens.normals[rows], codes, fixed, layout
    )


def test_repeated_keypoints_are_puzzles_of_their_own():
    torch.manual_seed(0)
    net = Denoiser(DenoiserConfig(**SMALL)).eval()
    torch.nn.init.normal_(net.head.weight)
    tokens = tokens_of([4, 3, 5], (3,))
    noisy, t = torch.randn(12, 4), torch.rand(3)
    alone = net(tokens, noisy, t).vectors
    twice = net(tokens.repeated(2), noisy.repeat(2, 1), t.repeat(2)).vectors
    assert torch.allclose(twice, alone.repeat(2, 1), atol=1e-5)


@pytest.mark.parametrize("mating", [False, True])
def test_a_puzzle_is_denoised_alike_in_any_company(mating):
    torch.manual_seed(0)
    net = Denoiser(DenoiserConfig(**SMALL, mating=mating)).eval()
    torch.nn.init.normal_(net.head.weight)
    counts, pieces = [4, 4, 4, 3, 5, 4, 4, 4], (3, 2, 3)
    tokens = tokens_of(counts, pieces)
    noisy, t = torch.randn(sum(counts), 4), torch.rand(len(counts))
    together = net(tokens, noisy, t).vectors
    first, start = 0, 0
    for number in pieces:
        own = counts[first : first + number]
        rows = slice(start, start + sum(own))
        few = slice(first, first + number)
        alone = part(tokens, rows, own, (number,), tokens.fixed[few])
        assert torch.allclose(net(alone, noisy[rows], t[few]).vectors, together[rows], atol=1e-4)
        first, start = first + number, start + sum(own)


@pytest.mark.parametrize("mating", [False, True])
def test_the_order_of_pieces_does_not_matter(mating):
    torch.manual_seed(0)
    net = Denoiser(DenoiserConfig(**SMALL, mating=mating)).eval()
    torch.nn.init.normal_(net.head.weight)
    tokens = tokens_of([4] * 5, (5,))
    noisy, t = torch.randn(20, 4), torch.full((5,), 0.4)
    order = torch.tensor([3, 1, 4, 0, 2])
    rows = (order[:, None] * 4 + torch.arange(4)).flatten()
    mixed = part(tokens, rows, [4] * 5, (5,), tokens.fixed[order])
    ours, theirs = net(tokens, noisy, t).vectors, net(mixed, noisy[rows], t[order]).vectors
    assert torch.allclose(ours[rows], theirs, atol=1e-4)


@given(st.floats(-math.pi, math.pi), st.floats(-2, 2), st.floats(-2, 2), st.integers(0, 99))
def test_mating_finds_the_pose_that_its_keypoints_ask_for(angle, x, y, seed):
    tokens = tokens_of([6, 6], (2,), seed)
    vector = torch.tensor([x, y, math.cos(angle), math.sin(angle)])
    wanted = torch.cat(
        [place(tokens.points, vector), turn(tokens.normals, vector[2:].expand(12, 2))], -1
    )
    old = torch.randn(2, 4, generator=torch.Generator().manual_seed(seed))
    mating = Mating(32)
    with torch.no_grad():
        solved = mating._solve(tokens, old, wanted, torch.ones(12), torch.zeros(2, 2))
        held = mating._solve(tokens, old, wanted, torch.zeros(12), torch.ones(2, 2))
    assert torch.allclose(solved[1], vector, atol=1e-4)
    assert torch.equal(solved[0], old[0])  # fixed
    assert torch.allclose(held[1, :2], old[1, :2], atol=1e-5)
    unit = old[1, 2:] / old[1, 2:].norm()
    assert torch.allclose(held[1, 2:], unit, atol=1e-4)


def test_a_keypoint_never_meets_its_own_piece():
    torch.manual_seed(0)
    net = Denoiser(DenoiserConfig(**SMALL))
    tokens = tokens_of([4, 4, 4], (3,))
    for layer in net(tokens, torch.randn(12, 4), torch.rand(3)).matches:
        chance = layer[0][0].exp()
        assert torch.allclose(chance.sum(-1), torch.ones(12), atol=1e-5)
        own = torch.block_diag(*[torch.ones(4, 4)] * 3).bool()
        assert (chance[:, :-1][own] == 0).all() and (chance[:, :-1][~own] > 0).all()


def test_gradients_are_finite_where_all_pieces_lie_on_one_point():
    torch.manual_seed(0)
    net = Denoiser(DenoiserConfig(**SMALL))
    tokens = tokens_of([4, 4], (2,))
    flat = Tokens(
        tokens.features,
        0 * tokens.points,
        tokens.normals,
        tokens.codes,
        tokens.fixed,
        tokens.layout,
    )
    out = net(flat, torch.zeros(8, 4), torch.zeros(2))
    (out.vectors.sum() + out.matches[-1][0].clamp_min(-30).sum()).backward()
    assert all(p.grad.isfinite().all() for p in net.parameters() if p.grad is not None)
