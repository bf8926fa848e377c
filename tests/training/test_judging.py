"""The judge learns what evidence is worth, and its probabilities are what they say."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from reassembly.config import JoinsConfig, ProposeConfig, VerifierConfig
from reassembly.errors import InputError
from reassembly.matching.evidence import NAMES
from reassembly.matching.joins import FinderSettings, load_finder
from reassembly.matching.verifier import JoinNetwork, JoinVerifier
from reassembly.training.joins import DOUBTFUL, FALSE, TRUE, JoinPool
from reassembly.training.judging import (
    JudgeSettings,
    best_of_pairs,
    calibrated,
    contexts,
    fit_judge,
    fit_network,
    join_pools,
    train_judge,
)
from reassembly.training.run import train
from reassembly.training.verifying import ranks
from reassembly.weights import load_network, save_weights
from tests.joining import saved

QUICK = JudgeSettings(steps=120, true=32, false=96)


def drawn_pool(pairs=80, per_pair=10, seed=0, informative=0):
    """Proposals whose evidence is noise but for one figure, higher by 2 where they are true."""
    generator = torch.Generator().manual_seed(seed)
    count = pairs * per_pair
    label = torch.full((count,), FALSE, dtype=torch.uint8)
    label[::per_pair] = TRUE
    evidence = torch.randn(count, len(NAMES), generator=generator)
    evidence[:, informative] += 2.0 * (label == TRUE)
    pair = torch.arange(pairs).repeat_interleave(per_pair).int()
    tensors = {"label": label, "evidence": evidence, "pair": pair, "puzzle": pair // 4}
    return JoinPool(tensors, None)


def test_the_judge_finds_the_evidence_that_counts():
    judge = fit_judge([drawn_pool(pairs=160)], [None], QUICK)
    fresh = drawn_pool(seed=1)
    with torch.no_grad():
        logits = judge(fresh.tensors["evidence"], torch.zeros(len(fresh)))
    label, pair = fresh.tensors["label"], fresh.tensors["pair"]
    assert ranks(logits, label, pair).float().mean() < 1.5
    by_chance = ranks(fresh.tensors["evidence"][:, 1], label, pair).float().mean()
    assert by_chance > 3


def test_the_judge_listens_to_the_verifier():
    pool, fresh = drawn_pool(informative=3), drawn_pool(seed=1, informative=3)
    words = [4.0 * (p.tensors["label"] == TRUE) + torch.randn(len(p)) for p in (pool, fresh)]
    judge = fit_judge([pool], [words[0]], QUICK)
    with torch.no_grad():
        logits = judge(fresh.tensors["evidence"], words[1])
    found = ranks(logits, fresh.tensors["label"], fresh.tensors["pair"])
    assert (found == 0).float().mean() > 0.8


def test_pools_count_alike_however_large():
    """A small pool that says the opposite is not outvoted."""
    large, small = drawn_pool(pairs=600), drawn_pool(pairs=60, seed=2)
    small.tensors["evidence"][:, 0] *= -1
    fresh = drawn_pool(seed=1)
    evidence, true = fresh.tensors["evidence"], fresh.tensors["label"] == TRUE
    apart = []
    for pools in ([large], [large, small]):
        judge = fit_judge(pools, [None] * len(pools), QUICK)
        with torch.no_grad():
            logits = judge(evidence, torch.zeros(len(fresh)))
        apart.append(float(logits[true].mean() - logits[~true].mean()))
    assert apart[0] > 1 and abs(apart[1]) < 0.5 * apart[0]


def test_the_same_seed_fits_the_same_judge():
    pool = drawn_pool(pairs=20)
    short = JudgeSettings(steps=5, true=8, false=8)
    one, other = (fit_judge([pool], [None], short).state_dict() for _ in range(2))
    assert all(torch.equal(one[n], other[n]) for n in one)


@pytest.mark.parametrize(("factor", "summand"), [(1.0, 0.0), (0.4, -1.2), (2.5, 0.7)])
def test_calibration_recovers_known_probabilities(factor, summand):
    generator = torch.Generator().manual_seed(4)
    logits = 2 * torch.randn(20_000, generator=generator)
    chance = (factor * logits + summand).sigmoid()
    true = torch.rand(len(logits), generator=generator) < chance
    found = calibrated(logits, true)
    assert found == pytest.approx((factor, summand), abs=0.12)
    # Of those given one half, half are true, and so on.
    told = (found[0] * logits + found[1]).sigmoid()
    for level in (0.1, 0.3, 0.5, 0.7, 0.9):
        near = (told - level).abs() < 0.05
        if near.sum() > 300:
            share, given = true[near].float().mean(), told[near].mean()
            assert float(share) == pytest.approx(float(given), abs=0.05)


def test_of_each_pair_the_likeliest_counts_and_doubtful_ones_do_not():
    label = torch.tensor([FALSE, TRUE, DOUBTFUL, FALSE, TRUE, DOUBTFUL], dtype=torch.uint8)
    pair = torch.tensor([4, 4, 4, 7, 7, 9])
    logits = torch.tensor([1.0, 2.0, 9.0, 3.0, 0.5, 8.0])
    best, true = best_of_pairs(JoinPool({"label": label, "pair": pair}, None), logits)
    assert best.tolist() == [2.0, 3.0]
    assert true.tolist() == [True, False]


def test_the_whole_network_is_fitted_written_and_found_again(
    join_folder, join_pool, small_crops, tmp_path
):
    torch.manual_seed(0)
    verifier = JoinVerifier(VerifierConfig(width=8)).eval()
    start = tmp_path / "verifier.safetensors"
    save_weights(start, verifier.state_dict(), "verifier", {"width": 8, "dropout": 0.2}, half=False)
    steps = []
    weights = train_judge(
        tmp_path, join_folder, str(start), QUICK, lambda *step: steps.append(step[:2])
    )
    assert steps == [(k, 12) for k in range(1, 13)]
    finder = load_finder(str(weights))
    network = finder.network
    evidence, label = (join_pool.tensors[n] for n in ("evidence", "label"))
    with torch.no_grad():
        logits = network.screen(evidence, torch.zeros(len(join_pool)))
        assert logits[label == TRUE].mean() > logits[label == FALSE].mean() + 1
    assert float(network.worn.scale[0]) > 0
    assert finder.propose == network.config.propose == ProposeConfig(keep=24)
    for name, tensor in network.worn.state_dict().items():
        assert torch.equal(network.light.state_dict()[name], tensor), name


def test_a_second_judge_learns_from_lightly_worn_pieces_alone(
    join_folder, join_pool, small_crops, tmp_path
):
    """It tells their true joins; whatever else was there stays as it was."""
    start = saved(tmp_path / "joins.safetensors")
    before, _ = load_network("joins", JoinNetwork, JoinsConfig, str(start))
    run = tmp_path / "run"
    weights = train(
        run, "light-judge", data=join_folder, init=start, steps=120, device="cpu"
    ).weights
    after, _ = load_network("joins", JoinNetwork, JoinsConfig, str(weights))
    for name, tensor in before.state_dict().items():
        if not name.startswith("light."):
            assert torch.equal(after.state_dict()[name], tensor.half().float()), name
    evidence, label = (join_pool.tensors[n] for n in ("evidence", "label"))
    with torch.no_grad():
        apart = [
            (logits[label == TRUE].mean() - logits[label == FALSE].mean()).item()
            for judge in (before.light, after.light)
            for logits in [judge(evidence, torch.zeros(len(join_pool)))]
        ]
    assert apart[1] > 1 > abs(apart[0])
    with pytest.raises(InputError, match="weights of `joins`"):
        train(tmp_path / "other", "light-judge", data=join_folder, device="cpu")


def test_the_last_judge_learns_what_placements_say_of_each_other(
    join_folder, join_pool, small_crops, tmp_path
):
    """It tells true joins better than the one that it hears; whatever else was there stays."""
    torch.manual_seed(0)
    start = tmp_path / "verifier.safetensors"
    network = JoinVerifier(VerifierConfig(width=8))
    save_weights(start, network.state_dict(), "verifier", {"width": 8, "dropout": 0.2})
    judged = train_judge(tmp_path, join_folder, str(start), QUICK)
    before, _ = load_network("joins", JoinNetwork, JoinsConfig, str(judged))
    run = tmp_path / "run"
    weights = train(
        run, "context-judge", data=join_folder, init=judged, steps=120, device="cpu"
    ).weights
    after, _ = load_network("joins", JoinNetwork, JoinsConfig, str(weights))
    assert not torch.equal(before.context.straight.weight, after.context.straight.weight)
    for name, tensor in before.state_dict().items():
        if not name.startswith("context."):
            assert torch.equal(after.state_dict()[name], tensor), name
    evidence, label = (join_pool.tensors[n] for n in ("evidence", "label"))
    with torch.no_grad():
        logits = after.worn(evidence, torch.zeros(len(join_pool)))
        told = contexts(join_pool, logits, torch.zeros(len(join_pool), 3))
        said = after.context(told, logits)
    losses = []
    for judge, own in ((after.worn, logits), (after.context, said)):
        likely = judge.probability(own)[label != DOUBTFUL]
        wanted = (label[label != DOUBTFUL] == TRUE).float()
        losses.append(float(torch.nn.functional.binary_cross_entropy(likely, wanted)))
    assert losses[1] < losses[0]


def test_a_network_searches_as_for_what_it_has_learned_from(join_folder, small_crops, tmp_path):
    """Pools that were searched for otherwise are refused, by name; how many are kept may differ."""
    torch.manual_seed(0)
    start = tmp_path / "verifier.safetensors"
    network = JoinVerifier(VerifierConfig(width=8))
    save_weights(start, network.state_dict(), "verifier", {"width": 8, "dropout": 0.2})
    both = tmp_path / "both"
    for name, keep in (("one", 24), ("two", 31)):
        shutil.copytree(join_folder, both / name)
        changed_pool(both / name, keep=keep, propose={"overlap": 0.4, "turn_deg": 4.0})
    settings = replace(QUICK, steps=3)
    out = tmp_path / "out"
    out.mkdir()
    weights = train_judge(out, both, str(start), settings)
    finder = load_finder(str(weights))
    assert finder.propose == ProposeConfig(keep=31, overlap=0.4, turn_deg=4.0)
    assert load_finder(str(weights), settings=FinderSettings(keep=7)).propose.keep == 7
    with pytest.raises(InputError, match="otherwise than the network does"):
        train_judge(out, join_folder, str(weights), settings, only="context")
    train_judge(out, join_folder, str(weights), settings, only="light")
    changed_pool(both / "two", propose={"overlap": 0.3})
    with pytest.raises(InputError, match=r"two: .* otherwise than those of .*one"):
        train_judge(out, both, str(start), settings)
    changed_pool(both / "two", propose={"overlap": -1.0})
    with pytest.raises(InputError, match="overlap is -1"):
        train_judge(out, both, str(start), settings)
    (both / "two" / "pool.json").write_text("{}")
    with pytest.raises(InputError, match="does not tell how"):
        train_judge(out, both, str(start), settings)


def changed_pool(folder, **joins):
    """A pool that tells other settings of its joins."""
    file = folder / "pool.json"
    told = json.loads(file.read_text())
    told["joins"].update(joins)
    file.write_text(json.dumps(told))


def test_as_many_steps_are_taken_as_are_asked_for(join_folder, small_crops, tmp_path):
    torch.manual_seed(0)
    start = tmp_path / "verifier.safetensors"
    network = JoinVerifier(VerifierConfig(width=8))
    save_weights(start, network.state_dict(), "verifier", {"width": 8, "dropout": 0.2})
    outcome = train(tmp_path / "run", "judge", data=join_folder, init=start, steps=3, device="cpu")
    assert outcome.steps == outcome.planned == 3


def test_pools_of_subfolders_are_found(join_folder, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(join_folder, tmp_path / name)
    (tmp_path / "else").mkdir()
    assert len(join_pools(tmp_path)) == 2
    assert len(join_pools(join_folder)) == 1
    for folder in (tmp_path / "else", tmp_path / "nowhere"):
        with pytest.raises(InputError, match="holds no joins"):
            join_pools(folder)


def test_too_few_joins_are_said(join_pool, small_crops):
    alone = join_pool.part(lambda puzzle: puzzle == 0)
    verifier = JoinVerifier(VerifierConfig(width=8)).eval()
    with pytest.raises(InputError, match="too few joins"):
        fit_network([alone], verifier, QUICK)
    # But a pool that lacks true ones beside one that has them does no harm.
    none = drawn_pool(pairs=5, seed=3)
    none.tensors["label"][:] = FALSE
    fit_judge([drawn_pool(pairs=20), none], [None, None], JudgeSettings(steps=2))
