import math

import numpy as np
import pytest
import torch

from reassembly.outline.keypoints import find_keypoints
from reassembly.pose import Pose
from reassembly.texture.encoder import TextureEncoder, colours_and_cover
from reassembly.texture.pretraining import (
    PatchContrast,
    contrast_patches,
    info_nce,
    opposite_keypoints,
    photometric,
)
from reassembly.texture.resnet import ResNet18
from tests.puzzles import drawn_puzzle

pytestmark = pytest.mark.usefixtures("one_thread")


def puzzle_with_keypoints(seed: int, count: int = 40):
    puzzle = drawn_puzzle(4, seed=seed)
    keypoints = [find_keypoints(fragment, count) for fragment in puzzle.fragments]
    poses = [puzzle.truth[i] for i in puzzle.ids]
    return puzzle, keypoints, poses


@pytest.fixture(scope="module")
def batch():
    """Of three drawn puzzles 20 pairs each that meet across a break: (M, 32, 32, 4) patches,
    one puzzle's in the turned input frame, and (M,) partners."""
    rng = np.random.default_rng(0)
    patches, partners = [], []
    for seed in range(3):
        puzzle, keypoints, poses = puzzle_with_keypoints(seed)
        partner = opposite_keypoints(keypoints, poses)
        first = np.flatnonzero((partner[partner] == np.arange(len(partner))) & (partner >= 0))
        first = rng.permutation(first[first < partner[first]])[:20]
        cut = contrast_patches(
            puzzle.fragments, keypoints, tangent=seed != 1, rng=rng, mm_per_px=0.5
        )
        patches += [cut[first], cut[partner[first]]]
        pairs = np.arange(20) + 40 * seed
        partners += [pairs + 20, pairs]
    return torch.from_numpy(np.concatenate(patches)), torch.from_numpy(np.concatenate(partners))


def small(seed: int = 0) -> PatchContrast:
    torch.manual_seed(seed)
    return PatchContrast(TextureEncoder(ResNet18(16), input_px=32), dim=32)


def test_opposite_keypoints_meet_when_the_puzzle_is_put_together():
    _, keypoints, poses = puzzle_with_keypoints(4)
    partner = opposite_keypoints(keypoints, poses, reach_mm=6.0)
    points = np.concatenate([p.apply(k.points) for p, k in zip(poses, keypoints, strict=True)])
    piece = np.arange(len(points)) // 40
    met = partner >= 0
    assert 0.3 < met.mean() < 0.95
    assert np.linalg.norm(points[met] - points[partner[met]], axis=1).max() <= 6.0
    assert (piece[met] != piece[partner[met]]).all()
    rim = (points < 1).any(axis=1) | (points > 149).any(axis=1)
    inner = ((points > 6) & (points < 144)).all(axis=1)
    assert met[rim].mean() < 0.2 < 0.9 < met[inner].mean()


def test_partners_do_not_depend_on_the_common_frame():
    _, keypoints, poses = puzzle_with_keypoints(5)
    moved = [Pose(300, -40, 1.2) @ pose for pose in poses]
    np.testing.assert_array_equal(
        opposite_keypoints(keypoints, poses), opposite_keypoints(keypoints, moved)
    )


def test_tangent_patches_ignore_the_seed_and_turned_ones_follow_it():
    puzzle, keypoints, _ = puzzle_with_keypoints(6, count=10)

    def cut(tangent: bool, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return contrast_patches(puzzle.fragments, keypoints, tangent=tangent, rng=rng)

    assert cut(True, 0).shape == (40, 32, 32, 4)
    assert np.array_equal(cut(True, 0), cut(True, 1))
    assert np.array_equal(cut(False, 3), cut(False, 3))
    assert not np.array_equal(cut(False, 0), cut(False, 1))


def test_light_differs_from_patch_to_patch_and_stays_moderate(batch):
    rgb, cover = colours_and_cover(batch[0][:1].repeat(64, 1, 1, 1))
    lit = photometric(rgb, cover, torch.Generator().manual_seed(0))
    assert lit.min() >= 0 and lit.max() <= 1
    inside = cover.expand_as(lit) > 0.99
    difference = (lit - rgb).abs()
    assert 0.02 < difference[inside].mean() < 0.15
    means = torch.stack([patch[m].mean() for patch, m in zip(lit, inside, strict=True)])
    assert means.std() > 0.02
    again = photometric(rgb, cover, torch.Generator().manual_seed(0))
    assert torch.equal(lit, again)
    unchanged = photometric(rgb, cover, strength=0.0)
    torch.testing.assert_close(unchanged[inside], rgb[inside])


def test_the_blur_mixes_nothing_in_from_outside():
    patch = np.full((16, 8, 8, 4), 255, np.uint8)
    patch[..., :3] = 120
    patch[:, :4] = 0
    rgb, cover = colours_and_cover(torch.from_numpy(patch))
    lit = photometric(rgb, cover, torch.Generator().manual_seed(1))
    rows = lit[:, :, 4:].mean(dim=(0, 1, 3))
    assert float(rows[0]) == pytest.approx(float(rows[3]), abs=0.02)


def test_contrast_of_perfect_and_of_blind_embeddings():
    pairs = torch.eye(8).repeat_interleave(2, dim=0)
    partner = torch.arange(16) ^ 1
    perfect = info_nce(pairs, partner, 0.05)
    assert perfect["loss"] < 1e-4 and perfect["top1"] == 1 and perfect["pairs"] == 16
    blind = info_nce(torch.ones(16, 1), partner, 0.05)
    assert blind["loss"] == pytest.approx(math.log(15))


def test_keypoints_without_partner_are_negatives_only():
    embedding = torch.nn.functional.normalize(torch.randn(10, 4), dim=1).requires_grad_()
    partner = torch.full((10,), -1)
    none = info_nce(embedding, partner, 0.1)
    assert none["loss"] == 0 and none["pairs"] == 0
    none["loss"].backward()
    partner[2], partner[5] = 5, 2
    some = info_nce(embedding, partner, 0.1)
    assert some["pairs"] == 2
    some["loss"].backward()
    assert embedding.grad[8].abs().sum() > 0


def test_keypoints_that_share_a_partner_are_not_set_against_each_other():
    embedding = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    partner = torch.tensor([2, 2, 0, -1])
    result = info_nce(embedding, partner, 0.01)
    # Towards the shared partner each faces one rival, from it none but for the pair (2, 0),
    # which is asked in both directions on its own.
    assert torch.isfinite(result["loss"])
    assert result["loss"] < math.log(2) + 1e-3


def test_training_finds_partners(batch):
    patches, partner = batch
    model = small()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        before = model.eval().loss(patches, partner)
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(25):
        loss = model.loss(patches, partner, generator)["loss"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    after = model.loss(patches, partner, generator)
    blind = math.log(len(patches) - 1)
    assert after["loss"] < blind - 2
    assert after["top1"] > 0.4
    assert after["top1"] > before["top1"]


def test_the_same_seed_gives_the_same_loss(batch):
    patches, partner = batch[0][:40], batch[1][:40]

    def loss(seed: int) -> torch.Tensor:
        return small().train().loss(patches, partner, torch.Generator().manual_seed(seed))["loss"]

    assert loss(1) == loss(1) != loss(2)
