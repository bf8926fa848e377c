"""What solvers by diffusion share, and what the two baselines among them promise alike, from
training to the answer."""

from __future__ import annotations

import math
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

import reassembly as ra
from reassembly.config import Config, LossConfig, TrainingConfig
from reassembly.diffusion.frames import to_frame, true_vectors
from reassembly.diffusion.noise import make_scheduler
from reassembly.errors import InputError
from reassembly.keypoints.describe import centred_pose
from reassembly.pose import Pose
from reassembly.solvers import Cancelled
from reassembly.solvers.diffusing import (
    agreements,
    noisy_poses,
    pose_losses,
    poses_of,
    sampled,
)
from reassembly.training.prepare import made_puzzles, prepare
from reassembly.training.run import named_config, train
from tests.puzzles import drawn_puzzle
from tests.solvers.learning import PUZZLE, TINY, batch_of, errors, saved, untrained

SYSTEMS = tuple(TINY)
NEAR_MM, NEAR_DEG = 20.0, 15.0


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", params=SYSTEMS)
def system(request):
    return request.param


@pytest.fixture(scope="module")
def weights(system, tmp_path_factory):
    """Of a small network that knows nothing, but whose answers differ with all it is told."""
    network = untrained(system)
    return saved(tmp_path_factory.mktemp("weights") / "w.safetensors", system, network)


def solved(system, weights, puzzle=PUZZLE, **more):
    return ra.solve(puzzle, system, weights=weights, **{"steps": 4, "samples": 2, **more})


# From pose vectors to poses and back


@settings(max_examples=50)
@given(
    st.tuples(st.floats(-500, 500), st.floats(-500, 500), st.floats(-4, 4)),
    st.tuples(st.floats(-500, 500), st.floats(-500, 500), st.floats(-4, 4)),
    st.floats(10, 1000),
)
def test_pose_vectors_go_back_to_the_poses_they_came_from(pose, origin, scale_mm):
    fragment = PUZZLE.fragments[0]
    wanted = Pose(*pose)
    centred, frame = (
        torch.tensor([p], dtype=torch.float64) for p in (centred_pose(fragment, wanted), origin)
    )
    vectors = to_frame(centred, frame, torch.tensor([scale_mm], dtype=torch.float64)).numpy()
    got = poses_of(vectors, [fragment], scale_mm, origin)[fragment.id]
    points = np.array([[0.0, 0.0], [100.0, 0.0]])
    assert np.allclose(got.apply(points), wanted.apply(points), atol=1e-6)


def test_the_anchor_lies_at_the_origin():
    fragment = PUZZLE.fragments[0]
    pose = poses_of(np.array([[0.0, 0.0, 1.0, 0.0]]), [fragment], 50.0)[fragment.id]
    assert np.allclose(pose.apply(fragment.centroid_mm[None]), 0.0) and pose.rotation_rad == 0.0


def test_agreement_is_of_rotation_and_position():
    turn = np.radians([0.0, 8.0, 30.0, 0.0])
    x = np.array([0.0, 0.0, 0.0, 0.5])
    vectors = np.stack([x, 0 * x, np.cos(turn), np.sin(turn)], -1)[:, None]
    agree = agreements(vectors, scale_mm=100.0, diameter_mm=np.array([60.0]))
    assert agree.shape == (4, 3, 1)
    assert agree[0, :, 0].tolist() == [True, False, False]
    assert agree[2:].sum() == 0


# The noise and the way back


def test_a_network_that_knows_the_answer_arrives_at_it():
    scheduler = make_scheduler(100)
    generator = torch.Generator().manual_seed(0)
    angle = torch.rand(6, generator=generator) * 6
    clean = torch.stack([angle - 3, 2 - angle, angle.cos(), angle.sin()], -1)
    fixed = torch.arange(6) == 2
    noise = torch.randn(6, 5, 4, generator=generator)
    noisy = noisy_poses(scheduler, clean, noise, torch.full((6,), 99), fixed)
    assert torch.equal(noisy[2], clean[2].expand(5, 4))
    assert torch.allclose(noisy[~fixed], noise[~fixed], atol=0.1)

    for eta in (0.0, 1.0):
        inputs = []

        def predict(x, t, inputs=inputs):
            inputs.append(x)
            return clean[:, None].expand_as(x)

        found = sampled(
            scheduler,
            predict,
            lambda: torch.randn(6, 5, 4, generator=generator),
            clean,
            fixed,
            8,
            eta,
        )
        assert torch.allclose(found, clean, atol=1e-5)
        assert len(inputs) == 8
        assert all(torch.equal(x[2], clean[2].expand(5, 4)) for x in inputs)
        assert not torch.allclose(inputs[-1][0], clean[0], atol=1e-3)


def test_fixed_pieces_cost_nothing():
    clean = torch.zeros(3, 4)
    predicted = torch.tensor([[3.0, 0, 0, 0], [0.5, 0, 0, 0], [0, 0, 0, 2.0]])[:, None]
    fixed = torch.tensor([True, False, False])
    losses = pose_losses(predicted, clean, fixed, LossConfig(translation=2.0, rotation=0.5))
    assert losses["translation"] == pytest.approx(0.125)
    assert losses["rotation"] == pytest.approx(2.0)
    assert losses["loss"] == pytest.approx(1.25)


# The networks in training


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
def test_a_loss_repeats_bit_for_bit_and_says_the_same_in_half_precision(system):
    network = untrained(system)
    batch = batch_of(PUZZLE, drawn_puzzle(4, seed=1))
    t, noise = network.draw(batch, torch.Generator().manual_seed(3))
    given = torch.arange(8) == 3

    def loss():
        return network.loss_at(batch, LossConfig(), t, noise, given)

    one, other = loss(), loss()
    assert one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)
    with torch.autocast("cpu", torch.bfloat16):
        half = loss()
    assert half["loss"].dtype == torch.float32
    assert half["loss"].item() == pytest.approx(one["loss"].item(), rel=0.05)
    one["loss"].backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


def test_a_training_step_never_waits_for_a_number(system):
    """As recording it on a GPU demands: on tensors without content, nothing can hang on content."""
    network = untrained(system)
    batch = batch_of(drawn_puzzle(10, seed=1), drawn_puzzle(10, seed=4))
    t, noise = network.draw(batch, torch.Generator().manual_seed(3))
    empty, turns, given = batch.to("meta"), torch.zeros(20), torch.zeros(20, dtype=torch.bool)
    t, noise, turns, given = (value.to("meta") for value in (t, noise, turns, given))
    network.to("meta").loss_at(empty.turned(turns), LossConfig(), t, noise, given)[
        "loss"
    ].backward()


def test_puzzles_do_not_see_each_other(system):
    """A batch of puzzles of several sizes gives each what it gets alone."""
    network = untrained(system)
    puzzles = [PUZZLE, drawn_puzzle(10, seed=1), drawn_puzzle(3, seed=2), drawn_puzzle(10, seed=4)]
    whole = batch_of(*puzzles)
    t, noise = network.draw(whole, torch.Generator().manual_seed(3))
    together = _x0(network, whole, t, noise)
    first = 0
    for number, puzzle in enumerate(puzzles):
        rows = slice(first, first + len(puzzle))
        first = rows.stop
        alone = _x0(network, batch_of(puzzle), t[number : number + 1], noise[rows])
        assert torch.allclose(together[rows], alone, atol=1e-4)


def _x0(network, batch, t, noise):
    """(P, ...) what the network predicts in a step of training."""
    seen = []
    handle = network.head.register_forward_hook(lambda module, given, out: seen.append(out))
    with torch.no_grad():
        network.loss_at(batch, LossConfig(), t, noise)
    handle.remove()
    return seen[0].reshape(len(batch.area), -1)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pools") / "small"
    source = made_puzzles(count=4, seed=5, pieces=(3, 3), size_px=256)
    prepare(folder, source, views=("pictures",), workers=1)
    return folder


def test_training_resumes_where_it_was_interrupted(tmp_path, pool, system):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    section = replace(TINY[system][1], width=16, layers=1)
    training = TrainingConfig(batch=2, steps=4, warmup=1, validate_every=4)
    config = Config(system=system, training=training, **{system: section})

    def stop(done, *_):
        if done == 2:
            signal.raise_signal(signal.SIGTERM)

    # No stage need be named: there is but one.
    train(whole, config=config, data=pool, validation=pool, device="cpu")
    first = train(
        parts, "pretrain", config=config, data=pool, validation=pool, device="cpu", progress=stop
    )
    assert (first.steps, first.stopped) == (2, "interrupted")
    assert train(parts, resume=True, device="cpu").steps == 4
    one, other = (load_file(folder / "weights.safetensors") for folder in (whole, parts))
    assert one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)
    answer = solved(system, str(whole))
    assert set(answer.poses) == set(PUZZLE.ids)


def test_the_shipped_configuration_makes_weights_of_about_a_megabyte(system):
    from reassembly.config import load_config

    config = load_config(named_config(system))
    network = TINY[system][0](getattr(config, system))
    assert 200_000 < sum(p.numel() for p in network.parameters()) < 520_000
    assert network.graphable


# The solvers


def test_zeroed_weights_know_nothing(tmp_path, system):
    """Whatever is right must come from what was learnt."""
    network = untrained(system)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    weights = saved(tmp_path / "zero.safetensors", system, network)
    right = []
    for seed in range(4):
        puzzle = drawn_puzzle(5, seed=seed)
        off = errors(solved(system, weights, puzzle, seed=seed), puzzle)
        right += (off < [NEAR_MM, NEAR_DEG]).all(axis=1).tolist()
    assert np.mean(right) <= 0.15


def test_locks_stay_through_denoising(system, weights):
    one, other, *free = PUZZLE.ids
    locked = {one: Pose(0, 0, 0.3), other: Pose(900, 40, -2.0)}
    steps = []
    answer = solved(system, weights, locked=locked, progress=steps.append)
    previews = [step.preview for step in steps if step.preview is not None]
    assert len(previews) == 4
    for each in (answer, *previews):
        assert {i: each.poses[i] for i in locked} == locked
        assert set(each.poses) == set(PUZZLE.ids) and len(each.islands) == 1
    assert {answer.confidence[i] for i in locked} == {1.0}
    moved = {**locked, other: Pose(900, 140, -2.0)}
    assert solved(system, weights, locked=moved).poses[free[0]] != answer.poses[free[0]]
    assert solved(system, weights, locked=PUZZLE.truth).poses == PUZZLE.truth


def test_an_answer_in_the_frame_of_its_lock_is_the_answer_without_it(system, weights):
    """The largest piece is given anyway: to lock it only says where."""
    largest = max(PUZZLE.fragments, key=lambda fragment: fragment.area_mm2).id
    free, frame = solved(system, weights, seed=4), Pose(-20, 90, -1.0)
    bound = solved(system, weights, seed=4, locked={largest: frame})
    move = frame @ free.poses[largest].inverse()
    for i in PUZZLE.ids:
        points = PUZZLE[i].centroid_mm + np.array([[0.0, 0.0], [50.0, 0.0]])
        there = (move @ free.poses[i]).apply(points)
        assert np.allclose(bound.poses[i].apply(points), there, atol=1e-3)


def test_the_seed_decides(system, weights):
    one, same, other = (solved(system, weights, seed=seed) for seed in (2, 2, 3))
    assert one.poses == same.poses and one.confidence == same.confidence
    assert one.poses != other.poses


def test_confidence_needs_several_samples(system, weights):
    assert solved(system, weights, samples=1).confidence == {}
    locked = {PUZZLE.ids[0]: Pose(10, 20, 1.0)}
    assert solved(system, weights, samples=1, locked=locked).confidence == {PUZZLE.ids[0]: 1.0}
    answer = solved(system, weights, samples=5)
    assert set(answer.confidence) == set(PUZZLE.ids)
    assert all(0.0 <= value <= 1.0 for value in answer.confidence.values())
    largest = max(PUZZLE.fragments, key=lambda fragment: fragment.area_mm2).id
    others = [value for i, value in answer.confidence.items() if i != largest]
    assert answer.confidence[largest] == pytest.approx(np.mean(others))


def test_progress_rises_and_a_cancel_is_obeyed(system, weights):
    steps = []
    solved(system, weights, samples=3, progress=steps.append)
    fractions = [step.fraction for step in steps]
    assert fractions == sorted(fractions) and fractions[0] >= 0.0 and 0.9 < fractions[-1] <= 1.0
    assert list(dict.fromkeys(step.stage for step in steps)) == ["looking", "denoising"]
    for stage in ("looking", "denoising"):

        def cancel(step, stage=stage):
            if step.stage == stage:
                raise Cancelled

        with pytest.raises(Cancelled):
            solved(system, weights, progress=cancel)


def test_weights_of_another_system_are_refused(tmp_path, system):
    other = next(name for name in SYSTEMS if name != system)
    weights = saved(tmp_path / "w.safetensors", other, untrained(other))
    with pytest.raises(InputError, match=f"kind {other}, but {system} is wanted"):
        solved(system, weights)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"steps": 101}, "at most 100"),
        ({"samples": "many"}, "samples is 'many'"),
        ({"device": "tpu"}, "cpu, cuda"),
        ({"temperature": 1}, "It takes steps, samples"),
    ],
)
def test_settings_that_cannot_be(system, weights, wrong, said):
    with pytest.raises(InputError, match=said):
        solved(system, weights, **wrong)


def test_a_width_that_heads_cannot_share(system):
    network, section = TINY[system]
    with pytest.raises(InputError, match=f"{system}.heads"):
        network(replace(section, heads=5))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_no_gpu(system, weights):
    with pytest.raises(InputError, match="--device cpu"):
        solved(system, weights, device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_gpu_gives_the_same_answer(system, weights):
    here, there = (solved(system, weights, device=device) for device in ("cpu", "cuda"))
    for i in PUZZLE.ids:
        points = np.array([[0.0, 0.0], [50.0, 0.0]])
        assert np.allclose(here.poses[i].apply(points), there.poses[i].apply(points), atol=0.5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_training_steps_are_recorded_on_a_gpu(system):
    from reassembly.training.graphs import GraphedLosses

    network = untrained(system).cuda()
    graphs = GraphedLosses(network, LossConfig())
    batch = batch_of(drawn_puzzle(10, seed=1), drawn_puzzle(10, seed=4)).to("cuda")
    turns = torch.linspace(0, math.tau, 20, device="cuda")
    given = torch.arange(20, device="cuda") % 7 == 0
    for seed in range(3):
        t, noise = network.draw(batch, torch.Generator().manual_seed(seed))
        t, noise = t.cuda(), noise.cuda()
        recorded = graphs(batch, t, noise, turns, given)
        plain = network.loss_at(batch.turned(turns), LossConfig(), t, noise, given)
        assert float(recorded["loss"]) == pytest.approx(float(plain["loss"]), rel=1e-3)


def test_validation_poses_keep_the_anchor(system):
    network, batch = untrained(system), batch_of(PUZZLE, drawn_puzzle(3, seed=1))
    true = true_vectors(batch)
    for eta in (0.0, 1.0):
        generator = torch.Generator().manual_seed(0)
        found = network.sample_poses(batch, true, None, 3, generator, eta)
        assert torch.allclose(found[batch.anchor], true[batch.anchor], atol=1e-6)
        assert torch.allclose(found[:, 2:].norm(dim=-1), torch.ones(7), atol=1e-5)
