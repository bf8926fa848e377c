"""The solver from fragments to poses, on a small network that has learnt one puzzle by heart."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest
import shapely
import torch

import reassembly as ra
from reassembly.config import (
    DenoiserConfig,
    DiffusionConfig,
    FeatureConfig,
    KeypointConfig,
    LossConfig,
    ModelConfig,
)
from reassembly.diffusion.batch import Batch
from reassembly.diffusion.reassemblenet import ReassembleNet
from reassembly.errors import InputError
from reassembly.keypoints.describe import describe, meetings
from reassembly.metrics import score
from reassembly.pose import Pose, wrap_deg
from reassembly.puzzle import Assembly, Fragment, Puzzle
from reassembly.solvers import Cancelled
from reassembly.solvers.diffusing import Run
from reassembly.solvers.reassemblenet import SHIPPED, Reassemblenet, contact_and_overlap
from reassembly.solvers.registry import available_solvers, parse_settings
from reassembly.synthetic.make import make_puzzle, recipe
from reassembly.texture.resnet import ResNet18
from reassembly.weights import ENCODER, list_weights, save_weights
from tests.puzzles import drawn_puzzle
from tests.test_cli import run, typed, write_cutouts, write_puzzle

PUZZLE = drawn_puzzle(3, seed=5, gap_px=1)
PLAIN = FeatureConfig(local=False, whole=False)
STEPS = 400
WEIGHTS = LossConfig(translation=3.0, rotation=3.0)
NEAR_MM, NEAR_DEG = 6.0, 6.0
"""How exactly a network that learnt for half a minute knows the puzzle, which is 150 mm wide."""
NOT_SHIPPED = [s for s, name in SHIPPED.items() if name not in {f.name for f in list_weights()}]
"""Selectors."""
LARGEST = max(PUZZLE.fragments, key=lambda fragment: fragment.area_mm2).id


pytestmark = pytest.mark.usefixtures("one_thread")


def config_of(selector="fps", features=PLAIN, **more) -> ModelConfig:
    return ModelConfig(
        KeypointConfig(selector, 16), features, DenoiserConfig(width=48, layers=2, heads=4), **more
    )


def saved(path, network: ReassembleNet, texture_dim: int = 256):
    about = {"model": asdict(network.config), "texture_dim": texture_dim, "window_points": 36}
    save_weights(path, network, "reassemblenet", about, half=False)
    return str(path)


def untrained(path, config: ModelConfig, texture_dim: int = 256):
    torch.manual_seed(1)
    return saved(path, ReassembleNet(config, texture_dim), texture_dim)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """Weights that know `PUZZLE`, whichever quarter turn its scans have and whichever piece is
    given."""
    seen = describe(PUZZLE.fragments)
    truth = {name: torch.from_numpy(v) for name, v in meetings(PUZZLE, seen).items()}
    pieces, copies = len(PUZZLE), 4
    columns = {
        name: torch.from_numpy(getattr(seen, name))
        for name in ("points", "edge_angle", "curvature", "windows", "area")
    }
    columns["pose"] = truth["pose"].float()
    columns["meets_piece"] = truth["meets_piece"].long()
    columns["meets_point"] = truth["meets_point"].float()
    columns = {name: torch.cat([value] * copies) for name, value in columns.items()}
    torch.manual_seed(0)
    network = ReassembleNet(config_of())
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(network.parameters())
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, STEPS, pct_start=0.1)
    for _ in range(STEPS):
        turns = torch.randint(4, (pieces * copies,), generator=generator) * (math.pi / 2)
        batch = Batch((pieces,) * copies, **columns).turned(turns)
        given = torch.randint(pieces, (copies, 1), generator=generator)
        vars(batch)["anchor"] = (torch.arange(pieces) == given).flatten()
        optimizer.zero_grad()
        network.loss(batch, WEIGHTS, generator)["loss"].backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        rate.step()
    return saved(tmp_path_factory.mktemp("weights") / "learnt.safetensors", network)


def solved(weights, puzzle=PUZZLE, solver="reassemblenet", **more) -> Assembly:
    return ra.solve(puzzle, solver, **{"selector": "fps", "weights": weights, **more})


def errors(assembly: Assembly, puzzle: Puzzle = PUZZLE, given: str = LARGEST):
    """(mm, degrees) by which the other pieces are off, relative to the one that was given."""
    off = []
    for i in set(puzzle.ids) - {given}:
        found = assembly.poses[given].inverse() @ assembly.poses[i]
        true = puzzle.truth[given].inverse() @ puzzle.truth[i]
        centre = puzzle[i].centroid_mm[None]
        off.append(
            (
                float(np.linalg.norm(found.apply(centre) - true.apply(centre))),
                abs(wrap_deg(found.rotation_deg - true.rotation_deg)),
            )
        )
    return np.array(off)


def turned(fragment: Fragment, quarters: int) -> Fragment:
    """The same piece, its scan turned by quarters, counter-clockwise as seen."""
    return replace(
        fragment,
        image=np.ascontiguousarray(np.rot90(fragment.image, quarters)),
        mask=np.ascontiguousarray(np.rot90(fragment.mask, quarters)),
        frame_px=(0, 0),
    )


# The way through


def test_a_puzzle_that_was_learnt_is_solved(learnt):
    for seed in (0, 1):
        off = errors(solved(learnt, seed=seed))
        assert (off < [NEAR_MM, NEAR_DEG]).all()


def test_turning_a_scan_by_a_quarter_turns_its_pose_back(learnt):
    for quarters in (1, 2, 3):
        other = next(i for i in PUZZLE.ids if i != LARGEST)
        fragments = tuple(turned(f, quarters) if f.id == other else f for f in PUZZLE.fragments)
        back = Pose(0, 0, -quarters * math.pi / 2)
        truth = {i: p @ back if i == other else p for i, p in PUZZLE.truth.items()}
        puzzle = Puzzle("turned", fragments, truth)
        off = errors(solved(learnt, puzzle), puzzle)
        assert (off < [NEAR_MM, NEAR_DEG]).all()


def test_every_piece_may_be_locked_and_the_others_follow(learnt):
    frame = Pose(700, -300, 2.0)
    for i in PUZZLE.ids:
        locked = {i: frame @ PUZZLE.truth[i]}
        answer = solved(learnt, locked=locked)
        assert answer.poses[i] == locked[i]
        assert set(answer.poses) == set(PUZZLE.ids) and len(answer.islands) == 1
        off = errors(answer, given=i)
        assert (off < [NEAR_MM, NEAR_DEG]).all()


def test_locks_that_are_wrong_stay_as_they_are(learnt):
    one, other, free = PUZZLE.ids
    locked = {one: Pose(0, 0, 0.3), other: Pose(900, 40, -2.0)}
    answer = solved(learnt, locked=locked)
    assert {i: answer.poses[i] for i in locked} == locked and free in answer.poses
    assert solved(learnt, locked=PUZZLE.truth).poses == PUZZLE.truth


def test_an_answer_in_the_frame_of_its_lock_is_the_answer_without_it(learnt):
    """The largest piece is given anyway: to lock it only says where."""
    free = solved(learnt, seed=4)
    frame = Pose(-20, 90, -1.0)
    bound = solved(learnt, seed=4, locked={LARGEST: frame})
    move = frame @ free.poses[LARGEST].inverse()
    for i in PUZZLE.ids:
        points = PUZZLE[i].centroid_mm + np.array([[0.0, 0.0], [50.0, 0.0]])
        assert np.allclose(
            bound.poses[i].apply(points), (move @ free.poses[i]).apply(points), atol=1e-3
        )


def test_the_seed_decides(tmp_path):
    weights = untrained(tmp_path / "w.safetensors", config_of())

    def poses(**more):
        return solved(weights, steps=3, **more).poses

    plain, ancestral = poses(seed=2, ancestral=False), poses(seed=2)
    assert plain == poses(seed=2, ancestral=False) and ancestral == poses(seed=2)
    assert ancestral != poses(seed=3) and plain != ancestral


def test_steps_without_noise_at_the_end(learnt):
    """They look again at where the pieces lie, and do not throw them about."""
    told = []
    rough, fine = (errors(solved(learnt, steps=4, polish=n, seed=0)) for n in (0, 3))
    assert (rough != fine).any()
    assert fine.max() < rough.max() + 5.0
    solved(learnt, steps=4, polish=3, seed=0, progress=lambda p: told.append(p.fraction))
    assert told == sorted(told) and max(told) <= 1
    assert solved(learnt, polish=3, seed=1).poses == solved(learnt, polish=3, seed=1).poses
    for wrong in (-1, 1.5, True):
        with pytest.raises(InputError, match="polish"):
            solved(learnt, polish=wrong)


def test_numbers_of_keypoints_may_follow_the_outline(learnt):
    """Weights trained with ten keypoints a piece also serve with five to twenty."""
    plain, adaptive = (solved(learnt, adaptive=choice, seed=4) for choice in (False, True))
    assert plain.poses == solved(learnt, seed=4).poses != adaptive.poses
    assert set(adaptive.poses) == set(PUZZLE.ids)
    with pytest.raises(InputError, match="adaptive is 'yes'"):
        solved(learnt, adaptive="yes")


# Several samples


def test_samples_that_agree_give_confidence(learnt):
    answer = solved(learnt, solver="reassemblenet-8", steps=10)
    assert set(answer.confidence) == set(PUZZLE.ids)
    assert min(answer.confidence.values()) > 0.8
    off = errors(answer)
    assert (off < [NEAR_MM, NEAR_DEG]).all()
    assert solved(learnt, steps=10).confidence == {}


def test_samples_that_differ_give_little(tmp_path):
    weights = untrained(tmp_path / "w.safetensors", config_of())
    puzzle = drawn_puzzle(6, seed=1)
    answer = solved(weights, puzzle, samples=6, steps=1, seed=3)
    assert set(answer.confidence) == set(puzzle.ids)
    assert all(0.0 <= value <= 1.0 for value in answer.confidence.values())
    largest = max(puzzle.fragments, key=lambda fragment: fragment.area_mm2).id
    others = [value for i, value in answer.confidence.items() if i != largest]
    assert answer.confidence[largest] == pytest.approx(np.mean(others))
    locked = solved(weights, puzzle, samples=3, steps=1, locked={puzzle.ids[0]: Pose(0, 0, 0)})
    assert locked.confidence[puzzle.ids[0]] == 1.0


def test_contact_and_overlap_of_squares():
    square = shapely.box(0, 0, 100, 100)

    def beside(x):
        return contact_and_overlap([square, shapely.box(x, 0, x + 100, 100)])

    contact, overlap = beside(102)
    assert contact == pytest.approx(0.25, abs=0.02) and overlap == 0.0
    assert beside(200) == (0.0, 0.0)
    contact, overlap = beside(50)
    assert overlap == pytest.approx(0.25) and contact == pytest.approx(0.28, abs=0.03)
    assert beside(0) == (pytest.approx(1.0), pytest.approx(0.5))


# Texture, other puzzles


@pytest.fixture(scope="module")
def textured(tmp_path_factory):
    """Untrained weights of a network that sees texture, and of its encoder."""
    folder = tmp_path_factory.mktemp("textured")
    torch.manual_seed(0)
    trunk = ResNet18(8)
    encoder = folder / "encoder.safetensors"
    save_weights(encoder, trunk, "texture", {"width": 8, "input_px": 32})
    features = FeatureConfig(encoder=str(encoder))
    return untrained(folder / "net.safetensors", config_of("learnable", features), trunk.dim)


def test_texture_matters(textured):
    grey = replace(
        PUZZLE,
        fragments=tuple(replace(f, image=np.full_like(f.image, 128)) for f in PUZZLE.fragments),
    )
    coloured = ra.solve(PUZZLE, "reassemblenet", weights=textured)
    assert coloured.poses == ra.solve(PUZZLE, "reassemblenet", weights=textured).poses
    assert coloured.poses != ra.solve(grey, "reassemblenet", weights=textured).poses


def test_features_are_those_that_training_prepares(textured):
    """Texture at the chosen keypoints alone is that of a pool, cut at all candidates."""
    from reassembly.training.prepare import prepare_puzzle
    from reassembly.training.textures import texture_columns

    solver = Reassemblenet(weights=textured)
    with torch.no_grad():
        own = solver.tokens(Run.of(PUZZLE, {}, "cpu"))
        features = solver.model.config.features
        cut, encoder = texture_columns(features.encoder, features)
        prepared = prepare_puzzle(PUZZLE, patches=cut)
        texture = {n: torch.from_numpy(v) for n, v in encoder.columns(prepared).items()}
        seen = {
            name: torch.from_numpy(getattr(prepared.description, name))
            for name in ("points", "edge_angle", "curvature", "windows", "area")
        }
        batch = Batch((len(PUZZLE),), **seen, **texture)
        pool = solver.model.describe(batch, solver.model.choose(batch))
    assert torch.allclose(own.features, pool.features, atol=1e-3)
    assert torch.equal(own.fixed, pool.fixed)


def test_two_pieces_and_a_round_one(tmp_path, textured):
    y, x = np.mgrid[-40:41, -40:41]
    mask = np.hypot(x, y) <= 37
    disc = Fragment("disc", np.full((*mask.shape, 3), 90, np.uint8), mask, 0.5)
    puzzle = Puzzle("two", (PUZZLE.fragments[0], disc))
    answer = ra.solve(puzzle, "reassemblenet", weights=textured, samples=2)
    assert set(answer.poses) == set(puzzle.ids)


# Progress


@pytest.mark.parametrize("samples", [1, 3])
def test_progress_rises(textured, monkeypatch, samples):
    """Also where memory allows for one sample at a time."""
    monkeypatch.setattr("reassembly.solvers.reassemblenet.MATCHES_AT_ONCE", 1)
    steps = []
    ra.solve(PUZZLE, "reassemblenet", weights=textured, samples=samples, progress=steps.append)
    fractions = [step.fraction for step in steps]
    assert fractions == sorted(fractions) and fractions[0] >= 0.0 and 0.9 < fractions[-1] <= 1.0


def test_previews_are_whole_and_a_cancel_is_obeyed(textured):
    steps = []
    ra.solve(PUZZLE, "reassemblenet", weights=textured, progress=steps.append)
    assert list(dict.fromkeys(step.stage for step in steps)) == ["outlines", "texture", "denoising"]
    previews = [step.preview for step in steps if step.preview is not None]
    assert len(previews) >= 5 and all(set(p.poses) == set(PUZZLE.ids) for p in previews)

    for stage in ("outlines", "texture", "denoising"):

        def cancel(step, stage=stage):
            if step.stage == stage:
                raise Cancelled

        with pytest.raises(Cancelled):
            ra.solve(PUZZLE, "reassemblenet", weights=textured, progress=cancel)


# What the user may get wrong


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"selector": "best"}, "fps, frozen, learnable"),
        ({"steps": 0}, "steps is 0"),
        ({"steps": 41}, "at most 40"),
        ({"samples": "many"}, "samples is 'many'"),
        ({"selector": "frozen"}, "--selector fps"),
        ({"device": "tpu"}, "cpu, cuda"),
        ({"temperature": 1}, "It takes selector, steps"),
    ],
)
def test_settings_that_cannot_be(tmp_path, wrong, said):
    short = config_of(diffusion=DiffusionConfig(train_steps=40))
    weights = untrained(tmp_path / "w.safetensors", short)
    with pytest.raises(InputError, match=said):
        solved(weights, **wrong)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_no_gpu(tmp_path):
    with pytest.raises(InputError, match="--device cpu"):
        solved(untrained(tmp_path / "w.safetensors", config_of()), device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_gpu_gives_the_same_answer(learnt):
    here, there = solved(learnt, seed=1), solved(learnt, seed=1, device="cuda")
    for i in PUZZLE.ids:
        points = np.array([[0.0, 0.0], [50.0, 0.0]])
        assert np.allclose(here.poses[i].apply(points), there.poses[i].apply(points), atol=0.5)


def test_missing_weights_say_how_to_get_them():
    for selector in NOT_SHIPPED:
        with pytest.raises(InputError, match=f"reassembly train .*selector={selector}.*--weights"):
            ra.solve(PUZZLE, "reassemblenet", selector=selector)


def test_an_encoder_of_another_width(tmp_path):
    encoder = tmp_path / "encoder.safetensors"
    save_weights(encoder, ResNet18(8), "texture", {"width": 8, "input_px": 32})
    config = config_of("learnable", FeatureConfig(encoder=str(encoder)))
    weights = untrained(tmp_path / "w.safetensors", config, texture_dim=32)
    with pytest.raises(InputError, match="32 texture features"):
        ra.solve(PUZZLE, "reassemblenet", weights=weights)


def test_an_encoder_that_the_weights_did_not_learn_with(tmp_path):
    encoder = tmp_path / "encoder.safetensors"
    save_weights(encoder, ResNet18(8), "texture", {"width": 8, "input_px": 32})
    model = asdict(config_of("fps", FeatureConfig(encoder=str(encoder))))
    about = {"model": model, "texture_dim": 64, "window_points": 36, ENCODER: "another"}
    network = ReassembleNet(config_of("fps", FeatureConfig(encoder=str(encoder))), 64)
    save_weights(tmp_path / "w.safetensors", network, "reassemblenet", about)
    with pytest.raises(InputError, match="textures of another encoder"):
        ra.solve(PUZZLE, "reassemblenet", weights=str(tmp_path / "w.safetensors"))


def test_settings_of_other_solvers():
    with pytest.raises(InputError, match=r"greedy has no setting 'steps'.*gap_mm"):
        ra.solve(PUZZLE, "greedy", steps=3)
    with pytest.raises(InputError, match="It takes none"):
        ra.solve(PUZZLE, "stack", steps=3)


def test_settings_are_read_by_solver():
    texts = ["greedy.beam=8", "greedy.gap_mm=2.5", "reassemblenet.weights=a.b=c", "genetic.x=true"]
    assert parse_settings(texts) == {
        "greedy": {"beam": 8, "gap_mm": 2.5},
        "reassemblenet": {"weights": "a.b=c"},
        "genetic": {"x": True},
    }
    for bad in ("steps=3", "greedy.beam", "greedy.=1", "magic.beam=1"):
        with pytest.raises(InputError):
            parse_settings([bad])


# The commands


@pytest.mark.slow
def test_solve_and_bench_from_the_command_line(tmp_path, learnt):
    folder = write_puzzle(tmp_path / "data" / "puzzle", PUZZLE)
    weights = tmp_path / "weights.safetensors"
    shutil.copy(learnt, weights)
    out = tmp_path / "out"
    options = [
        "--solver",
        "reassemblenet",
        "--selector",
        "fps",
        "--steps",
        10,
        "--weights",
        weights,
    ]
    done = run("solve", folder, "--out", out, *options)
    assert done.returncode == 0, done.stderr
    document = json.loads((out / "assembly.json").read_text(encoding="utf-8"))
    assert document["provenance"]["settings"]["steps"] == 10
    assert (errors(Assembly.load(out, ra.load(folder))) < [NEAR_MM, NEAR_DEG]).all()

    settings = [f"reassemblenet.{s}" for s in ("selector=fps", "steps=10", f"weights={weights}")]
    told = [part for setting in settings for part in ("--setting", setting)]
    table = tmp_path / "bench"

    def row():
        done = run("bench", "--data", folder, "--out", table, "--solver", "reassemblenet", *told)
        assert done.returncode == 0, done.stderr
        rows = json.loads((table / "results.json").read_text(encoding="utf-8"))["rows"]
        (own,) = (row for row in rows if row["solver"].startswith("reassemblenet"))
        return own

    first = row()
    assert "selector=fps steps=10" in first["solver"]
    assert first["correct"] == 1.0 and first["weights_hash"] and first["parameters"] > 1000
    untrained(weights, config_of())
    second = row()
    assert second["weights_hash"] != first["weights_hash"] and second["correct"] < 1.0


@pytest.mark.slow
def test_commands_refuse_before_they_read(tmp_path):
    folder = write_cutouts(tmp_path / "in", PUZZLE)
    out = tmp_path / "out"
    for options, said in (
        (["--solver", "greedy", "--steps", 5], "gap_mm"),
        *(
            (["--solver", "reassemblenet", "--selector", selector], "reassembly train")
            for selector in NOT_SHIPPED[:1]
        ),
        (["--solver", "reassemblenet", "--weights", tmp_path / "no.safetensors"], "no.safetensors"),
    ):
        done = typed("solve", folder, "--out", out, *options)
        assert done.returncode == 2 and said in done.stderr, done.stderr
        assert "Traceback" not in done.stderr and not out.exists()


def test_the_list_tells_whether_weights_are_there():
    info = available_solvers()["reassemblenet-8"]
    assert info.settings == {"samples": 8}
    assert set(info.missing_weights()) <= set(info.weights)
    listed = typed("solvers").stdout
    lines = [line for line in listed.splitlines() if "missing" in line]
    absent = [name for name, each in available_solvers().items() if each.missing_weights()]
    assert len(lines) == len(absent)
    assert all(any(name in line for line in lines) for name in absent)


def test_the_shipped_weights_solve():
    puzzles = [make_puzzle(recipe("paper", pieces=(4, 4)), 77, k).puzzle for k in range(3)]
    answers = [ra.solve(puzzle, "reassemblenet") for puzzle in puzzles]
    found = [score(*each)["q_pos"] for each in zip(puzzles, answers, strict=True)]
    assert np.mean(found) > 0.7, "an ill-placed one may be bad luck, not three"
    by_chance = [score(puzzle, ra.solve(puzzle, "ring"))["q_pos"] for puzzle in puzzles]
    assert np.mean(by_chance) < 0.3
    assert answers[0].poses == ra.solve(puzzles[0], "reassemblenet").poses
