"""The verifier learns to tell true joins from those that fit as well."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from reassembly.config import Config, JoinsConfig, VerifierConfig
from reassembly.errors import InputError
from reassembly.matching.crops import crops
from reassembly.matching.joins import corrected
from reassembly.matching.verifier import JoinNetwork, JoinVerifier
from reassembly.training import verifying
from reassembly.training.joins import DOUBTFUL, FALSE, TRUE, JoinPool
from reassembly.training.verifying import CROP, VerifierStage, nearer, ranks, seen_by
from reassembly.weights import save_weights

TINY = replace(Config(), verifier=VerifierConfig(width=8, dropout=0.0))


@pytest.fixture(scope="module")
def easy_pool(join_pool):
    """Where false ones are seen at once, since the piece is nowhere near: learnt in few steps."""
    tensors = dict(join_pool.tensors)
    away = (tensors["label"] != TRUE)[:, None] * torch.tensor([[0.0, 300.0, 0.0]])
    tensors["motion"] = tensors["motion"] + away
    return JoinPool(tensors, join_pool.pictures)


def taught(pool, steps):
    torch.manual_seed(0)
    stage = VerifierStage(TINY, pool, pool)
    stage.move(torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    optimiser = torch.optim.AdamW(stage.network.parameters(), lr=4e-3)
    losses = []
    rng = np.random.default_rng(0)
    for step in range(steps):
        told = stage.losses(rng.integers(len(stage.true), size=3), step, generator)
        optimiser.zero_grad()
        told["loss"].backward()
        optimiser.step()
        losses.append(float(told["judge"].detach()))
    stage.network.eval()
    return stage, losses


def test_the_verifier_learns(easy_pool, tmp_path, small_crops, monkeypatch):
    monkeypatch.setattr("reassembly.training.verifying.JUDGED_PAIRS", 3)
    stage, losses = taught(easy_pool, 25)
    assert np.mean(losses[-6:]) < 0.6 * np.mean(losses[:3])
    torch.manual_seed(0)
    blank, _ = taught(easy_pool, 0)
    before, after = (s.validate(0, tmp_path) for s in (blank, stage))
    assert after["auc"] > max(0.9, before["auc"])
    assert after["first_1"] == 1.0
    assert set(after) == {"first_1", "first_5", "first_20", "auc"}


def test_a_step_shows_true_joins_and_others_of_their_pair(join_pool):
    stage = VerifierStage(TINY, join_pool, None)
    stage.move(torch.device("cpu"))
    rows = stage._rows(torch.arange(len(stage.true)), torch.Generator().manual_seed(0))
    label, pair = (join_pool.tensors[n] for n in ("label", "pair"))
    count = len(stage.true)
    assert (label[rows[:count]] == TRUE).all()
    same = rows[count : 5 * count].view(count, 4)
    assert (pair[same] == pair[rows[:count], None]).all()
    assert (label[rows[5 * count :]] == FALSE).all()
    assert stage.validate(0, None) == {}


def test_what_is_seen_is_what_the_crops_show(join_pool):
    network = JoinVerifier(TINY.verifier).eval()
    rows = torch.tensor([3, 40, 7])
    logits, corrections = seen_by(network, join_pool, rows)
    with torch.no_grad():
        shown = crops(join_pool.pictures, *(join_pool.tensors[n][rows] for n in CROP))
        again, moved = network(shown)
    assert (logits - again).abs().max() < 1e-5
    assert (corrections - moved).abs().max() < 1e-5


def test_ranks_count_the_false_ones_ahead():
    pair = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
    label = torch.tensor([FALSE, TRUE, DOUBTFUL, FALSE, TRUE, FALSE, FALSE, FALSE])
    logits = torch.tensor([3.0, 2.0, 9.0, 1.0, 0.0, -1.0, 5.0, 6.0])
    assert ranks(logits, label, pair).tolist() == [1, 0]
    assert len(ranks(logits, torch.full_like(label, FALSE), pair)) == 0


def test_crops_beside_the_middle_have_the_corrections_that_hold_there(join_pool, monkeypatch):
    """Applied at the middle that is shown, a correction leads to the same place."""
    rows = (join_pool.tensors["label"] == TRUE).nonzero()[:, 0]
    told = {}

    def kept(pictures, fixed, moving, motion, middle, across):
        told.update(motion=motion.double().numpy(), middle=middle.numpy(), across=across.numpy())
        return crops(pictures, fixed, moving, motion, middle, across)

    monkeypatch.setattr(verifying, "crops", kept)
    monkeypatch.setattr(verifying, "JITTER_DEG", 0.0)
    _, correction = verifying._shown(join_pool, rows, torch.Generator().manual_seed(1))
    own = {name: join_pool.tensors[name][rows].numpy() for name in (*CROP, "correction")}
    wanted = corrected(own["motion"], own["correction"], own["middle"], own["across"])
    found = corrected(told["motion"], correction.numpy(), told["middle"], told["across"])
    assert np.abs(told["middle"] - own["middle"]).max() > 2
    # Those drawn neither upside down nor mirrored can be compared as they are.
    drawn = torch.Generator().manual_seed(1)
    share, *chances = (torch.rand(len(rows), n, generator=drawn)[:, 0] for n in (1, 2, 1, 1, 1))
    plain = ((chances[2] >= 0.5) & (chances[3] >= 0.5)).numpy()
    assert 0 < plain.sum() < len(rows)
    assert found[plain] == pytest.approx(wanted[plain], abs=1e-3)
    turned = ((chances[2] < 0.5) ^ (chances[3] < 0.5)).numpy()
    signs = np.where(turned, -1, 1)
    left = (1 - share.numpy()) * own["correction"][:, 0]
    assert correction[:, 0].numpy() == pytest.approx(signs * left, abs=1e-6)


def test_a_pool_without_true_joins_teaches_nothing(join_pool):
    tensors = dict(join_pool.tensors)
    tensors["label"] = torch.full_like(tensors["label"], FALSE)
    with pytest.raises(InputError, match="no true join"):
        VerifierStage(TINY, JoinPool(tensors, join_pool.pictures), None)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_nearer_to_the_truth(join_pool, share):
    near = (join_pool.tensors["label"] != FALSE).nonzero()[:, 0]
    own = join_pool.taken(near).tensors
    motion, middle, across, correction = (
        own[n] for n in ("motion", "middle", "across", "correction")
    )
    moved, left = nearer(motion, middle, across, correction, torch.full((len(near),), share))
    place = (middle.numpy(), across.numpy())
    truth = corrected(motion.numpy(), correction.numpy(), *place)
    assert np.abs(corrected(moved.numpy(), left.numpy(), *place) - truth).max() < 1e-3
    turns = [np.abs(truth[:, 0] - m.numpy()[:, 0]) for m in (motion, moved)]
    assert np.allclose(turns[1], (1 - share) * turns[0], atol=1e-4)


def test_begins_with_the_verifier_of_joins(join_pool, tmp_path):
    torch.manual_seed(1)
    joins = JoinNetwork(JoinsConfig(**asdict(TINY.verifier)))
    save_weights(tmp_path / "j.safetensors", joins.state_dict(), "joins", asdict(joins.config))
    stage = VerifierStage(TINY, join_pool, None)
    stage.begin(str(tmp_path / "j.safetensors"))
    for name, tensor in stage.network.state_dict().items():
        assert torch.allclose(tensor, joins.verifier.state_dict()[name], atol=1e-3), name


def drawn_crops(count=3, height=8, width=12):
    """Crops whose colours count as much as their cover does."""
    cover = torch.zeros(count, 2, 1, height, width)
    cover[:, 0, :, height // 2 :], cover[:, 1, :, : height // 2] = 1.0, 1.0
    colours = torch.rand(count, 2, 3, height, width, generator=torch.Generator().manual_seed(0))
    return torch.cat([(colours - 0.5) * cover, cover], dim=2).flatten(1, 2)


def test_rims_shrink_by_whole_pixels_and_only_where_that_is_drawn():
    seen = drawn_crops()
    chance = torch.ones(3, 2, verifying.LOST_PX)
    assert torch.equal(verifying._shrunk(seen, chance), seen)
    chance[1, 0, 0] = chance[2] = 0.0
    left = verifying._shrunk(seen, chance)
    assert torch.equal(left[0], seen[0]) and torch.equal(left[1, 4:], seen[1, 4:])
    rows = [int(cover[:, 6].sum()) for cover in (left[1, 3], left[2, 3], left[2, 7])]
    assert rows == [3, 2, 2]
    assert torch.equal(left[2, :3], seen[2, :3] * left[2, 3])


def test_a_fresco_fades_as_a_whole_and_only_where_it_is():
    seen = drawn_crops()
    chance = torch.full((3, 5), 0.5)
    chance[:, 4] = 0.0
    assert torch.allclose(verifying._faded(seen, chance), seen)
    chance[1] = torch.tensor([0.9, 0.2, 0.7, 0.4, 1.0])
    faded = verifying._faded(seen, chance).view(3, 2, 4, 8, 12)
    assert torch.equal(faded[:, :, 3], seen.view(3, 2, 4, 8, 12)[:, :, 3])
    assert (faded[:, :, :3] * (faded[:, :, 3:] == 0) == 0).all()
    # Its colours lie nearer to each other, and both pieces have changed alike.
    spread = [
        x.view(3, 2, 4, 8, 12)[1, :, :3].std(dim=1).mean() for x in (seen, faded.flatten(1, 2))
    ]
    assert spread[1] < 0.6 * spread[0]
    twins = seen.clone()
    twins[:, 4:] = twins[:, :4]
    both = verifying._faded(twins, chance)
    assert torch.equal(both[:, :4], both[:, 4:])
