"""PairingNet from outlines to poses, on a small network that has seen a dozen other puzzles."""

from __future__ import annotations

import math
from dataclasses import asdict, fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

import reassembly as ra
from reassembly.config import LossConfig, PairingNetConfig
from reassembly.diffusion.batch import Batch
from reassembly.errors import InputError
from reassembly.metrics.strict import score_strict
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Puzzle
from reassembly.solvers import Cancelled
from reassembly.solvers.pairing_poses import (
    OPPOSED,
    TOUCH_MM,
    Motion,
    Motions,
    apart_mm,
    back,
    contact,
    fitted,
    line_of,
    motion_of,
    pose_of,
    propose,
    then,
)
from reassembly.solvers.pairingnet import PairingNet, _search_loss, true_matches
from reassembly.synthetic.make import make_puzzle, recipe
from reassembly.training.pool import Pool, shard_of
from reassembly.training.prepare import made_puzzles, prepare, prepare_puzzle
from reassembly.training.run import train
from reassembly.weights import save_weights
from tests.puzzles import drawn_puzzle

TINY = PairingNetConfig(width=16, layers=2, pool_layers=1, heads=2)
STEPS = 50
PUZZLES = (drawn_puzzle(5, seed=0), drawn_puzzle(5, seed=1))
"""Not among those that are learnt."""
PUZZLE = PUZZLES[0]


pytestmark = pytest.mark.usefixtures("one_thread")


def pool_of(*puzzles: Puzzle) -> Pool:
    prepared = [prepare_puzzle(puzzle, views=["contour"]) for puzzle in puzzles]
    shard = shard_of([(each.description, each.views) for each in prepared if each is not None])
    pieces = shard.pop("pieces").tolist()
    return Pool(shard, pieces)


def saved(path, network: PairingNet) -> str:
    save_weights(path, network, "pairingnet", asdict(network.config), half=False)
    return str(path)


@pytest.fixture(scope="module")
def network() -> PairingNet:
    """Trained for seconds."""
    pool = pool_of(*(drawn_puzzle(4, seed=100 + k) for k in range(12)))
    torch.manual_seed(0)
    network = PairingNet(TINY)
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(network.parameters())
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, STEPS, pct_start=0.1)
    for _ in range(STEPS):
        batch = pool.batch(torch.randint(len(pool), (2,), generator=generator).numpy())
        batch = batch.turned(torch.rand(len(batch.area), generator=generator) * math.tau)
        optimizer.zero_grad()
        drawn = network.draw(batch, generator)
        network.loss_at(batch, LossConfig(), *drawn)["loss"].backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        rate.step()
    return network.eval()


@pytest.fixture(scope="module")
def learnt(network, tmp_path_factory) -> str:
    return saved(tmp_path_factory.mktemp("weights") / "learnt.safetensors", network)


@pytest.fixture(scope="module")
def batch() -> Batch:
    return pool_of(*PUZZLES).batch([0, 1])


def solved(weights, puzzle=PUZZLE, **more) -> Assembly:
    return ra.solve(puzzle, "pairingnet", weights=weights, **more)


def q_pos(puzzle: Puzzle, assembly: Assembly) -> float:
    value = score_strict(puzzle, assembly)["q_pos"]
    assert value is not None
    return value


# Motions


MOTIONS = st.tuples(st.floats(-300, 300), st.floats(-300, 300), st.floats(-3, 3))


@settings(max_examples=50)
@given(MOTIONS, MOTIONS)
def test_motions_are_poses(one, other):
    one, other = Pose(*one), Pose(*other)
    points = np.array([[0.0, 0.0], [70.0, -20.0]])
    both = pose_of(then(motion_of(one), motion_of(other)))
    assert np.allclose(both.apply(points), (one @ other).apply(points), atol=1e-6)
    still = pose_of(then(motion_of(one), back(motion_of(one))))
    assert np.allclose(still.apply(points), points, atol=1e-6)


def test_matches_along_a_break_give_the_pose(batch):
    """Also where a tenth of the points match at random, and surer than the true ones."""
    (pairs, others), truth = bordering(batch), None
    (right, met, _), _ = true_matches(batch, pairs, others)
    rng = np.random.default_rng(0)
    lines = [line_of(points.double().numpy()) for points in batch.contour]
    poses = [motion_of(Pose(*map(float, pose))) for pose in batch.pose]
    for pair in range(len(pairs)):
        if met[pair].sum() < 25:
            continue
        a, b = int(pairs[pair]), int(others[pair])
        match = right[pair].double().numpy() * 0.5
        stray = rng.integers(0, len(match), (2, len(match) // 10))
        match[stray[0], stray[1]] = 0.7
        motion, support_mm = propose(match, lines[a], lines[b], 4)[0]
        truth = then(back(poses[a]), poses[b])
        assert apart_mm(lines[b], motion, truth) < 2.0
        assert support_mm > 0.25 * float(met[pair].sum()) * lines[a].step_mm
    assert truth is not None


def test_what_touches_is_pulled_together(batch):
    pairs, others = bordering(batch)
    (right, met, _), _ = true_matches(batch, pairs, others)
    pair = int(met.sum(1).argmax())
    one, other = (
        line_of(Pose(*map(float, batch.pose[piece])).apply(batch.contour[piece].double().numpy()))
        for piece in (int(pairs[pair]), int(others[pair]))
    )
    match = right[pair].double().numpy()
    push = motion_of(Pose(1.2, -0.8, 0.01))
    (turn,), (shift,) = fitted(contact(match, one, other, several(push)))
    pulled = then((turn, shift), push)
    assert apart_mm(other, pulled, (1.0, 0.0)) < 0.5 * apart_mm(other, push, (1.0, 0.0))


def several(*motions: Motion) -> Motions:
    turns, shifts = zip(*motions, strict=True)
    return np.array(turns, complex), np.array(shifts, complex)


@given(st.floats(-6, 6), st.floats(-6, 6), st.floats(-math.pi, math.pi), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_what_touches_is_all_that_is_near_and_runs_against_it(x, y, turn, seed):
    """As told point by point, and whichever other motions are asked about besides."""
    angle = np.arange(40) * (2 * math.pi / 40)
    one, other = (
        line_of(np.column_stack([r * np.cos(angle), 14 * np.sin(angle)])) for r in (18.0, 11.0)
    )
    match = np.random.default_rng(seed).random((40, 40))
    motion = motion_of(Pose(25 + x, y, turn))
    away = motion_of(Pose(500.0, 0.0, 0.0))
    found = contact(match, one, other, several(away, motion, motion_of(Pose(20.0, 3.0, 1.0))))
    weight = fixed = moving = product = support = 0.0
    for a, along, row in zip(one.points, one.tangents, match, strict=True):
        own = 0.0
        for b, runs, sure in zip(other.points, other.tangents, row, strict=True):
            there = motion[0] * b + motion[1]
            against = (motion[0] * runs * along.conjugate()).real
            if abs(a - there) < TOUCH_MM and against < OPPOSED:
                own += sure
                fixed += sure * a
                moving += sure * there
                product += sure * a * there.conjugate()
        weight += own
        support += min(own, 1.0) * one.step_mm
    sums = (found.weight, found.fixed, found.moving, found.product, found.support_mm)
    assert [each[1] for each in sums] == pytest.approx([weight, fixed, moving, product, support])
    assert not any(each[0] for each in sums)
    assert [each[0] for each in fitted(found)] == [1.0, 0.0]  # What touches nothing stays.


# The network


def bordering(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs of pieces of one puzzle that share a break."""
    found = set()
    for piece, row in enumerate(batch.meets_piece):
        first = int(batch.first_piece[batch.puzzle_of_piece[piece]])
        for other in row.unique():
            if other >= 0 and (row == other).sum() >= 3 and piece < first + int(other):
                found.add((piece, first + int(other)))
    one, other = zip(*sorted(found), strict=True)
    return torch.tensor(one), torch.tensor(other)


def test_true_matches_lie_on_each_other_and_run_backwards(batch):
    pairs, others = bordering(batch)
    (right, met, alone), (back_right, _, _) = true_matches(batch, pairs, others)
    assert not (met & alone).any() and torch.equal(right.any(-1), met)
    assert float((right & back_right.mT).sum()) > 0.8 * float(right.sum())
    placed = torch.stack(
        [
            torch.from_numpy(Pose(*map(float, pose)).apply(points.double().numpy()))
            for pose, points in zip(batch.pose, batch.contour, strict=True)
        ]
    )
    for pair in range(len(pairs)):
        row, column = right[pair].nonzero().T
        apart = (placed[pairs[pair]][row] - placed[others[pair]][column]).norm(dim=-1)
        assert apart.max() < 6.5
        partner, count = right[pair].double().argmax(-1), right.shape[1]
        ahead = (partner.roll(-1) - partner)[met[pair] & met[pair].roll(-1)]
        assert ((ahead + count // 2) % count - count // 2 <= 1).float().mean() > 0.9


def test_pieces_that_are_no_neighbours_match_nowhere(batch):
    away = replace(batch, pose=batch.pose + torch.tensor([500.0, 0, 0]) * torch.arange(10)[:, None])
    (right, met, alone), _ = true_matches(away, torch.tensor([0, 1]), torch.tensor([2, 4]))
    assert not right.any() and not met.any() and alone.all()


def test_codes_do_not_depend_on_how_a_piece_lies_or_where_its_outline_begins(network, batch):
    with torch.no_grad():
        plain = network.codes(batch.contour, batch.contour_paint)
        turned = batch.turned(torch.linspace(0, 6, len(batch.area)))
        other = network.codes(turned.contour, turned.contour_paint)
        later = network.codes(batch.contour.roll(8, 1), batch.contour_paint.roll(8, 1))
    assert torch.allclose(plain.has, other.has, atol=1e-3)
    assert torch.allclose(plain.piece_lacks, other.piece_lacks, atol=1e-3)
    assert torch.allclose(plain.has.roll(8, 1), later.has, atol=1e-3)
    assert torch.allclose(plain.lacks.roll(8, 1), later.lacks, atol=1e-3)
    assert torch.allclose(plain.piece_has, later.piece_has, atol=1e-3)


def test_shape_and_paint_both_count(network, batch):
    with torch.no_grad():
        plain = network.codes(batch.contour, batch.contour_paint)
        grey = network.codes(batch.contour, torch.full_like(batch.contour_paint, 128))
        round_one = torch.linspace(0, math.tau, batch.contour.shape[1] + 1)[:-1]
        circle = 40 * torch.stack([round_one.cos(), round_one.sin()], -1)
        plain_shape = network.codes(circle.expand_as(batch.contour), batch.contour_paint)
    for other in (grey, plain_shape):
        assert float((plain.has * other.has).sum(-1).mean()) < 0.98


def test_the_same_draw_gives_the_same_loss_bit_for_bit(network):
    """Also with puzzles of different sizes in one batch."""
    batch = pool_of(drawn_puzzle(3, seed=7), PUZZLE).batch([0, 1])
    drawn = network.draw(batch, torch.Generator().manual_seed(3))
    one, other = (network.loss_at(batch, LossConfig(), *drawn) for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)
    again = network.draw(batch, torch.Generator().manual_seed(4))
    assert network.loss_at(batch, LossConfig(), *again)["match"] != one["match"]


def test_a_step_is_the_same_chain_of_kernels_for_all_batches_of_one_shape(batch):
    """Tensors without values cannot decide anything, which is what recording a graph asks for."""
    network = PairingNet(TINY)
    drawn = (*network.draw(batch, torch.Generator().manual_seed(0)), torch.rand(len(batch.area)))
    with FakeTensorMode(allow_non_fake_inputs=True) as without_values:
        t, noise, turns = (without_values.from_tensor(value) for value in drawn)
        columns = {
            entry.name: without_values.from_tensor(value)
            for entry in fields(batch)
            if isinstance(value := getattr(batch, entry.name), torch.Tensor)
        }
        shown = replace(batch, **columns).turned(turns)
        loss = network.loss_at(shown, LossConfig(), t, noise)["loss"]
    assert loss.shape == ()


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
def test_half_precision_will_do(network, batch):
    drawn = network.draw(batch, torch.Generator().manual_seed(3))
    with torch.no_grad():
        exact = network.loss_at(batch, LossConfig(), *drawn)["loss"]
        with torch.autocast("cpu", torch.bfloat16):
            rough = network.loss_at(batch, LossConfig(), *drawn)["loss"]
    assert float(rough) == pytest.approx(float(exact), rel=0.1)


def test_search_wants_neighbours_alike_and_strangers_unlike():
    """A piece is no stranger to itself, and one without neighbours asks for nothing."""
    adjacent = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=torch.bool)
    logits = torch.zeros(3, 3, requires_grad=True)
    loss = _search_loss(logits, adjacent)
    loss.backward()
    assert (logits.grad[adjacent] < 0).all()
    assert logits.grad[0, 2] > 0 and logits.grad[1, 2] > 0
    assert (logits.grad.diagonal() == 0).all() and (logits.grad[2] == 0).all()


def test_losses_fall_with_training(network, batch):
    torch.manual_seed(2)
    fresh = PairingNet(TINY)
    drawn = network.draw(batch, torch.Generator().manual_seed(5))
    with torch.no_grad():
        before, after = (n.loss_at(batch, LossConfig(), *drawn) for n in (fresh, network))
    assert after["match"] < 0.3 * before["match"]
    assert network.figures(batch)["found"] > 0.7 > fresh.figures(batch)["found"]
    assert network.figures(batch)["precision"] > 0.8


def test_training_by_the_command(tmp_path):
    """A run on made puzzles, whose weights the solver takes."""
    made = made_puzzles(count=4, seed=5, pieces=(3, 4), size_px=256, preset="pairingnet")
    prepare(tmp_path / "pool", made, views=("contour",), workers=1)
    changes = ["pairingnet.width=16", "pairingnet.layers=2", "training.batch=2"]
    changes += ["training.validate_every=2"]
    run = tmp_path / "run"
    outcome = train(
        run,
        "pretrain",
        config="pairingnet",
        changes=changes,
        data=tmp_path / "pool",
        validation=tmp_path / "pool",
        device="cpu",
        steps=2,
    )
    assert outcome.steps == 2
    columns = (run / "metrics.csv").read_text(encoding="utf-8").splitlines()[0]
    assert {"val_found", "val_precision", "val_searched"} <= set(columns.split(","))
    answer = solved(str(run))
    assert answer.poses


# The solver


@pytest.mark.parametrize("number", [0, 1])
def test_a_puzzle_never_seen_is_solved(learnt, number):
    answer = solved(learnt, PUZZLES[number])
    assert not answer.unplaced and q_pos(PUZZLES[number], answer) > 0.9
    assert set(answer.confidence) == set(PUZZLES[number].ids)
    assert min(answer.confidence.values()) > 0.5


def test_without_what_it_learnt_it_solves_nothing(network, tmp_path):
    blank = PairingNet(TINY)
    for parameter in blank.parameters():
        torch.nn.init.zeros_(parameter)
    weights = saved(tmp_path / "zero.safetensors", blank)
    for puzzle in PUZZLES:
        answer = solved(weights, puzzle)
        assert q_pos(puzzle, answer) < 0.3
        assert max(answer.confidence.values()) < 0.5


def test_the_answer_is_always_the_same(learnt):
    assert solved(learnt, seed=2).poses == solved(learnt, seed=2).poses


def test_locked_pieces_stay_and_the_others_follow(learnt):
    frame = Pose(700, -300, 2.0)
    one, other = PUZZLE.ids[1:3]
    locked = {i: frame @ PUZZLE.truth[i] for i in (one, other)}
    answer = solved(learnt, locked=locked)
    assert {i: answer.poses[i] for i in locked} == locked
    assert answer.confidence[one] == answer.confidence[other] == 1.0
    for i in PUZZLE.ids:
        centre = PUZZLE[i].centroid_mm[None]
        true = (frame @ PUZZLE.truth[i]).apply(centre)
        assert np.linalg.norm(answer.poses[i].apply(centre) - true) < 3.0


def test_wrong_locks_stay_too(learnt):
    locked = {PUZZLE.ids[0]: Pose(0, 0, 0.3), PUZZLE.ids[1]: Pose(900, 40, -2.0)}
    answer = solved(learnt, locked=locked)
    assert {i: answer.poses[i] for i in locked} == locked
    assert solved(learnt, locked=PUZZLE.truth).poses == PUZZLE.truth


def test_progress_rises_and_previews_grow(learnt):
    steps = []
    answer = solved(learnt, progress=steps.append)
    fractions = [step.fraction for step in steps]
    assert fractions == sorted(fractions) and fractions[0] == 0.0 and fractions[-1] == 1.0
    stages = list(dict.fromkeys(step.stage for step in steps))
    assert stages == ["contours", "matching contours", "joining pieces"]
    sizes = [len(step.preview.poses) for step in steps if step.preview is not None]
    assert sizes == sorted(sizes) and sizes[-1] == len(PUZZLE)
    assert set(answer.poses) == set(PUZZLE.ids)


@pytest.mark.parametrize("stage", ["contours", "matching contours", "joining pieces"])
def test_a_cancel_is_obeyed(learnt, stage):
    def cancel(step):
        if step.stage == stage:
            raise Cancelled

    with pytest.raises(Cancelled):
        solved(learnt, progress=cancel)


def test_few_partners_are_matched_where_so_told(learnt):
    """Pair searching leaves pairs out; the puzzle still hangs together."""
    seen = []
    solved(learnt, partners=1, progress=lambda step: seen.append(step.stage))
    assert seen.count("matching contours") <= len(PUZZLE)


def test_a_stranger_is_not_trusted(learnt):
    stray = drawn_puzzle(4, seed=55, size_px=200).fragments[0]
    puzzle = Puzzle("mixed", (*PUZZLE.fragments, replace(stray, id="stray")))
    answer = solved(learnt, puzzle)
    own = [answer.confidence[i] for i in PUZZLE.ids]
    assert answer.confidence.get("stray", 0.0) < min(own)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"partners": 0}, "partners is 0"),
        ({"candidates": "many"}, "candidates is 'many'"),
        ({"device": "tpu"}, "cpu, cuda"),
        ({"steps": 3}, "It takes weights, partners"),
    ],
)
def test_settings_that_cannot_be(learnt, wrong, said):
    with pytest.raises(InputError, match=said):
        solved(learnt, **wrong)


def test_heads_must_divide_the_width():
    with pytest.raises(InputError, match="width is 16 with 3 heads"):
        PairingNet(replace(TINY, heads=3))


def test_weights_of_another_kind(tmp_path):
    path = tmp_path / "other.safetensors"
    save_weights(path, PairingNet(TINY), "puzzlefusion", asdict(TINY))
    with pytest.raises(InputError, match="of the kind puzzlefusion"):
        solved(str(path))


def test_shipped_weights_solve_clean_cuts():
    wanted = recipe("pairingnet", pieces=(4, 6), size_px=512)
    scores = []
    for number in range(4):
        puzzle = make_puzzle(wanted, 1234, number).puzzle
        scores.append(q_pos(puzzle, ra.solve(puzzle, "pairingnet")))
    assert np.mean(scores) >= 0.8
