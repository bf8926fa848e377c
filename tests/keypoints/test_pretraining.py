import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from shapely.geometry import Polygon

import reassembly as ra
from reassembly.keypoints.fps import farthest_points_batch
from reassembly.keypoints.pretraining import (
    Outlines,
    deformed,
    expected_area_and_perimeter,
    keeping_logits,
    kept_area_and_perimeter,
    outlines_of,
    pretrain,
    selector_loss,
    shape_losses,
)
from reassembly.keypoints.selector import KeypointSelector, area_and_perimeter, top_k
from reassembly.synthetic.make import make_puzzle, recipe

ROOT = Path(__file__).resolve().parents[2]
REPAIR = ROOT.parent / "shared" / "data" / "repair"


pytestmark = pytest.mark.usefixtures("one_thread")


def made_outlines(seed, puzzles, presets=("paper", "realistic"), size_px=512):
    """Candidates of pieces cut from painted pictures."""
    wishes = [recipe(preset, size_px=size_px) for preset in presets]
    return outlines_of(
        fragment
        for wanted in wishes
        for index in range(puzzles)
        for fragment in make_puzzle(wanted, seed, index).puzzle.fragments
    )


@pytest.fixture(scope="module")
def held_out():
    return made_outlines(seed=901, puzzles=4)


def random_choice(outlines, k, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return top_k(torch.rand(outlines.points.shape[:2], generator=generator), k)


def mean_losses(outlines, indices):
    area, perimeter = shape_losses(*kept_area_and_perimeter(outlines.points, indices))
    return float(area.mean()), float(perimeter.mean())


def chosen_by(selector, outlines, k):
    with torch.no_grad():
        return top_k(selector.embed(outlines.inputs)[1], k)


def test_shares_are_those_of_the_polygon_of_the_chosen_points(held_out):
    indices = random_choice(held_out, 20)
    area, perimeter = kept_area_and_perimeter(held_out.points.double(), indices)
    for m in range(0, len(held_out), 9):
        points = held_out.points[m].double().numpy()
        whole, part = Polygon(points), Polygon(points[indices[m]])
        assert perimeter[m].item() == pytest.approx(part.length / whole.length, rel=1e-9)
        if whole.is_valid and part.is_valid:
            assert area[m].item() == pytest.approx(part.area / whole.area, rel=1e-9)


def test_all_points_keep_everything(held_out):
    area, perimeter = kept_area_and_perimeter(
        held_out.points, torch.arange(100).repeat(len(held_out), 1)
    )
    assert area.tolist() == pytest.approx([1.0] * len(held_out))
    assert perimeter.tolist() == pytest.approx([1.0] * len(held_out))


@pytest.mark.parametrize("sharpness", [1.0, 8.0])
def test_expectations_are_those_over_all_subsets(sharpness):
    rng = np.random.default_rng(4)
    points = torch.from_numpy(rng.normal(size=(2, 6, 2)) + 5)
    logits = torch.from_numpy(sharpness * rng.normal(size=(2, 6)))
    kept = torch.sigmoid(logits)
    area, perimeter = torch.zeros(2).double(), torch.zeros(2).double()
    for subset in itertools.product([False, True], repeat=6):
        mask = torch.tensor(subset)
        if not mask.any():
            continue
        chance = torch.where(mask, kept, 1 - kept).prod(dim=1)
        part = area_and_perimeter(points[:, mask])
        area, perimeter = area + chance * part[0], perimeter + chance * part[1]
    found = expected_area_and_perimeter(points, logits)
    torch.testing.assert_close(found[0], area)
    torch.testing.assert_close(found[1], perimeter)


def test_expectations_have_right_and_finite_gradients():
    rng = np.random.default_rng(6)
    points = torch.from_numpy(rng.normal(size=(2, 5, 2)))
    logits = torch.from_numpy(rng.normal(size=(2, 5))).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: torch.stack(expected_area_and_perimeter(points, x)), logits
    )
    certain = torch.tensor([[60.0, -60, 60, 60, -60]], requires_grad=True)
    area, perimeter = expected_area_and_perimeter(points[:1].float(), certain)
    (area + perimeter).sum().backward()
    assert certain.grad.isfinite().all()
    expected = area_and_perimeter(points[:1, [0, 2, 3]].float())
    torch.testing.assert_close(torch.cat([area, perimeter]), torch.cat(expected))


@pytest.mark.parametrize("k", [3, 20, 97])
@pytest.mark.parametrize("temperature", [1.0, 0.01])
def test_k_points_are_kept_on_average_whatever_the_scores(k, temperature):
    rng = np.random.default_rng(7)
    scores = torch.from_numpy(rng.normal(size=(4, 100)) * 3 + 10).requires_grad_()
    kept = torch.sigmoid(keeping_logits(scores, k, temperature))
    torch.testing.assert_close(kept.sum(dim=1), torch.full((4,), float(k)).double())
    # Nor does it change with them: raising all scores alike changes nothing.
    (gradient,) = torch.autograd.grad(kept[:, :10].sum(), scores)
    assert gradient.sum().abs() < 1e-6


def test_the_threshold_is_differentiated():
    scores = torch.from_numpy(np.random.default_rng(8).normal(size=(2, 7))).requires_grad_()
    assert torch.autograd.gradcheck(lambda y: keeping_logits(y, 3, 0.5), scores)


def test_cold_expectations_are_those_of_the_best(held_out):
    scores = torch.rand(held_out.points.shape[:2], generator=torch.Generator().manual_seed(3))
    expected = area_and_perimeter(
        held_out.points.take_along_dim(top_k(scores, 20)[..., None], dim=1)
    )
    found = expected_area_and_perimeter(held_out.points, keeping_logits(scores, 20, 1e-5))
    # A tie within the temperature may keep two candidates half.
    for a, b in zip(found, expected, strict=True):
        assert ((a - b).abs() < 1e-2 * b.abs()).float().mean() > 0.95


@pytest.mark.parametrize(
    "matrix",
    [[[0.6, -0.8], [0.8, 0.6]], [[-1.0, 0.0], [0.0, 1.0]], [[1.3, 0.4], [-0.2, 0.9]]],
    ids=["turned", "mirrored", "stretched"],
)
def test_deformed_outlines_are_outlines_of_deformed_pieces(matrix):
    step = torch.arange(100).double() / 100 * math.tau
    wave = torch.stack([40 * step.cos() + 5 * (2 * step).cos(), 25 * step.sin()], -1)
    speed = torch.stack([-40 * step.sin() - 10 * (2 * step).sin(), 25 * step.cos()], -1)
    bend = torch.stack([-40 * step.cos() - 20 * (2 * step).cos(), -25 * step.sin()], -1)

    def outline(points, first, second):
        cross = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
        curvature = cross / first.norm(dim=-1) ** 3
        return Outlines(points[None], curvature[None], torch.atan2(*first.T.flip(0))[None])

    matrix = torch.tensor(matrix).double()
    found = deformed(outline(wave, speed, bend), matrix[None])
    mirrored = torch.linalg.det(matrix) < 0
    turn = -1.0 if mirrored else 1.0
    expected = outline(wave @ matrix.T, turn * (speed @ matrix.T), bend @ matrix.T)
    order = torch.arange(99, -1, -1) if mirrored else torch.arange(100)
    torch.testing.assert_close(found.points, expected.points[:, order])
    torch.testing.assert_close(found.curvature, expected.curvature[:, order])
    torch.testing.assert_close(found.edge_angle, expected.edge_angle[:, order])
    assert area_and_perimeter(found.points)[0] > 0


def test_the_loss_is_the_sum_of_the_two_and_reaches_every_parameter(held_out):
    torch.manual_seed(0)
    selector = KeypointSelector()
    losses = selector_loss(selector, held_out.inputs, held_out.points, 20, 0.3)
    assert losses["loss"].item() == pytest.approx(
        losses["area"].item() + losses["perimeter"].item()
    )
    losses["loss"].backward()
    quiet = {name for name, p in selector.named_parameters() if not p.grad.abs().max() > 0}
    # What shifts all keys alike is forgotten by the softmax, what shifts all scores by the
    # threshold.
    assert quiet <= {
        "convs.0.lin_key.bias",
        "convs.1.lin_key.bias",
        "convs.1.lin_value.bias",
        "convs.1.lin_skip.bias",
    }


def test_the_same_seed_trains_the_same_selector(held_out):
    def trained(seed):
        torch.manual_seed(0)
        selector = KeypointSelector(channels=8, hidden=16, heads=2)
        pretrain(selector, held_out, steps=3, seed=seed, batch_size=4)
        return selector.p.detach()

    assert torch.equal(trained(1), trained(1))
    assert not torch.equal(trained(1), trained(2))


@pytest.mark.slow
def test_a_short_pretraining_beats_chance_and_farthest_points():
    # Half a minute teaches which corners matter, enough for 40 keypoints; with 20, where every
    # gap costs area, it takes the many minutes of the shipped selector.
    training = made_outlines(seed=900, puzzles=25, presets=("realistic",), size_px=1024)
    unseen = made_outlines(seed=901, puzzles=8, presets=("realistic",), size_px=1024)
    torch.manual_seed(0)
    selector = KeypointSelector(hidden=64)
    pretrain(selector, training, steps=250, seed=0, k_range=(40, 40))
    ours = mean_losses(unseen, chosen_by(selector, unseen, 40))
    chance = mean_losses(unseen, random_choice(unseen, 40))
    farthest = mean_losses(unseen, farthest_points_batch(unseen.points, 40))
    assert ours[0] < chance[0]
    assert ours[1] < chance[1]
    assert sum(ours) < sum(farthest)


@pytest.fixture(scope="module")
def real():
    """Candidates of every real fragment; the shipped selector was trained on none of them."""
    if not REPAIR.is_dir():
        pytest.skip("the real fragments of RePAIR are not beside the project")
    return outlines_of(
        fragment for source in ra.find_puzzles(REPAIR) for fragment in source.load().fragments
    )


@pytest.fixture(scope="module")
def shipped():
    selector = KeypointSelector()
    stored = load_file(ROOT / "src/reassembly/weights/selector.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.float16}
    selector.load_state_dict({name: value.float() for name, value in stored.items()})
    return selector.eval()


def test_the_shipped_selector_keeps_the_shape_of_real_pieces(real, shipped):
    chosen = chosen_by(shipped, real, 20)
    area, perimeter = kept_area_and_perimeter(real.points, chosen)
    assert area.mean() >= 0.98
    assert perimeter.mean() >= 0.94
    ours = mean_losses(real, chosen)
    chance = mean_losses(real, random_choice(real, 20))
    farthest = mean_losses(real, farthest_points_batch(real.points, 20))
    assert ours[0] < chance[0]
    assert ours[1] < chance[1]
    assert sum(ours) < sum(farthest)


@pytest.mark.parametrize("k", [10, 40])
def test_the_shipped_selector_serves_other_numbers_of_keypoints(real, shipped, k):
    ours = mean_losses(real, chosen_by(shipped, real, k))
    chance = mean_losses(real, random_choice(real, k))
    assert ours[0] < chance[0] / 2
    assert ours[1] < chance[1] / 2


def test_gates_of_the_shipped_selector_still_learn(real, shipped):
    with torch.no_grad():
        _, scores = shipped.embed(real.inputs)
    gates = torch.tanh(scores.gather(1, top_k(scores, 20)))
    slope = 1 - gates.square()
    assert slope.median() > 0.1
