"""The networks that judge joins: shapes, bounds, calibration, and weights that come back."""

from dataclasses import asdict

import pytest
import torch

from reassembly.config import JoinsConfig, VerifierConfig
from reassembly.matching.crops import CHANNELS, HEIGHT_PX, WIDTH_PX
from reassembly.matching.evidence import NAMES
from reassembly.matching.verifier import JoinJudge, JoinNetwork, JoinVerifier
from reassembly.weights import load_network, save_weights
from tests.joining import untrained


def some_crops(count):
    generator = torch.Generator().manual_seed(3)
    return torch.rand(count, CHANNELS, HEIGHT_PX, WIDTH_PX, generator=generator) - 0.5


@torch.no_grad()
def test_each_join_is_judged_alone():
    verifier = untrained().verifier
    crops = some_crops(5)
    logits, corrections = verifier(crops)
    assert logits.shape == (5,) and corrections.shape == (5, 3)
    again, moved = verifier(crops[[3]])
    assert again == pytest.approx(logits[[3]], abs=1e-5)
    assert moved[0] == pytest.approx(corrections[3], abs=1e-5)
    assert len(set(logits.tolist())) == 5


def test_every_weight_learns():
    verifier = JoinVerifier(VerifierConfig(width=8)).train()
    logits, corrections = verifier(some_crops(3))
    (logits.sum() + corrections.square().sum()).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in verifier.parameters())


@torch.no_grad()
def test_the_judge_takes_figures_in_units_of_their_spread_and_no_outlier_decides():
    judge = JoinJudge().eval()
    evidence, seen = torch.randn(4, len(NAMES)), torch.randn(4)
    plain = judge(evidence, seen)
    judge.mean += 3.0
    judge.spread *= 2.0
    assert judge(evidence * 2 + 3, seen * 2 + 3) == pytest.approx(plain, abs=1e-4)
    wild = evidence.clone()
    wild[0, 5] = 1e9
    wilder = wild.clone()
    wilder[0, 5] = 1e12
    assert judge(wild, seen)[0] == judge(wilder, seen)[0]


@torch.no_grad()
def test_a_mean_of_judges_gives_the_mean_of_their_logits():
    judges = [JoinJudge(5).eval() for _ in range(3)]
    for judge in judges:
        judge.mean += 0.5
        judge.spread *= 1.5
    evidence, seen = torch.randn(6, len(NAMES)), torch.randn(6)
    said = torch.stack([judge(evidence, seen) for judge in judges])
    assert said.std(0).min() > 0
    assert JoinJudge.mean_of(judges)(evidence, seen) == pytest.approx(said.mean(0), abs=1e-5)


@torch.no_grad()
def test_probabilities_follow_the_calibration():
    judge = untrained().worn
    logits = torch.tensor([-2.0, 0.0, 3.0])
    assert judge.probability(logits) == pytest.approx(logits.sigmoid())
    judge.scale.copy_(torch.tensor([0.5, -1.0]))
    assert judge.probability(logits) == pytest.approx((0.5 * logits - 1).sigmoid())


@torch.no_grad()
def test_weights_come_back_with_calibration_and_units(tmp_path):
    network = untrained()
    network.worn.scale.copy_(torch.tensor([0.75, -0.5]))
    network.light.mean += 2.0
    path = tmp_path / "joins.safetensors"
    save_weights(path, network.state_dict(), "joins", asdict(network.config), half=False)
    back, _ = load_network("joins", JoinNetwork, JoinsConfig, str(path))
    assert back.config == network.config and not back.training
    for name, tensor in network.state_dict().items():
        assert torch.equal(back.state_dict()[name], tensor), name
