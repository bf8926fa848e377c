import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from reassembly import cli
from reassembly.config import FeatureConfig, load_config
from reassembly.errors import InputError, InputWarning
from reassembly.io.files import TEMPORARY
from reassembly.keypoints.selector import KeypointSelector
from reassembly.texture.resnet import ResNet18
from reassembly.training import graphs, stages
from reassembly.training.prepare import made_puzzles, prepare
from reassembly.training.run import JUDGES, STAGES, named_config, train
from reassembly.training.sampler import Batches
from reassembly.training.textures import keep_patches
from reassembly.weights import (
    load_module,
    load_reassemblenet,
    load_texture_encoder,
    load_weights,
    save_weights,
)


def run(out, pool, config=None, **more):
    return train(out, "pretrain", config=config, data=pool, device="cpu", **more)


def stop_at(step):
    """A signal, as the system would send it, in the middle of a run."""

    def progress(done, *_):
        if done == step:
            signal.raise_signal(signal.SIGTERM)

    return progress


def checkpoint(folder):
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)


def same(a, b):
    """Whether two nested states are equal bit for bit."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("optimizer", ["adamw", "adafactor"])
def test_a_resumed_run_equals_one_that_was_never_interrupted(
    tmp_path, small_pool, small_config, optimizer
):
    config = replace(small_config, training=replace(small_config.training, optimizer=optimizer))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run(whole, small_pool, config).stopped is None
    handler = signal.getsignal(signal.SIGTERM)
    first = run(parts, small_pool, config, progress=stop_at(3))
    assert signal.getsignal(signal.SIGTERM) == handler
    assert (first.steps, first.planned, first.stopped) == (3, 6, "interrupted")
    before = load_file(parts / "weights.safetensors")
    second = train(parts, resume=True, device="cpu")
    assert (second.steps, second.stopped) == (6, None)
    one, other = checkpoint(whole), checkpoint(parts)
    for key in ("state_dict", "optimizer_states", "lr_schedulers", "callbacks", "global_step"):
        assert same(one[key], other[key]), key
    one, other = (load_file(folder / "weights.safetensors") for folder in (whole, parts))
    assert same(one, other)
    assert not same(one, before)


def test_seeds_matter_and_repeat(tmp_path, small_pool, small_config):
    def weights(name, seed):
        training = replace(small_config.training, seed=seed, steps=2)
        run(tmp_path / name, small_pool, replace(small_config, training=training))
        return load_file(tmp_path / name / "weights.safetensors")

    first = weights("a", 1)
    assert same(first, weights("b", 1))
    assert not same(first, weights("c", 2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_gradients_of_recorded_steps_add_up(tmp_path, small_pool, small_config, monkeypatch):
    """Recorded as CUDA graphs or not, the batches of a step are averaged."""

    def weights(name):
        out, changes = tmp_path / name, ["model.denoiser.dropout=0", "training.accumulate=3"]
        train(out, "pretrain", config=small_config, changes=changes, data=small_pool, device="cuda")
        return checkpoint(out)["state_dict"]

    recorded = weights("recorded")
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 0)
    torch.testing.assert_close(recorded, weights("plain"), rtol=1e-3, atol=1e-5)


def test_a_step_may_take_several_batches(tmp_path, small_pool, small_config):
    """Weights change, and are averaged, once a step, not once a batch."""
    out = tmp_path / "run"
    done = []
    run(
        out,
        small_pool,
        small_config,
        changes=["training.accumulate=5", "training.batch=2"],
        progress=lambda step, *_: done.append(step),
    )
    assert done == [1, 2, 3, 4, 5, 6]
    kept = checkpoint(out)
    assert kept["global_step"] == 6
    assert kept["callbacks"]["Averaging"]["updates"] == 6
    assert all(int(s["step"]) == 6 for s in kept["optimizer_states"][0]["state"].values())


def test_a_run_tells_everything_about_itself(tmp_path, small_pool, small_config):
    out = tmp_path / "run"
    done = []
    run(
        out,
        small_pool,
        small_config,
        validation=small_pool,
        changes=["training.learning_rate=5e-4", "model.keypoints.k=8"],
        steps=8,
        progress=lambda step, total, text: done.append((step, total)),
    )
    settings = load_config(out / "config.yaml")
    assert settings.training.learning_rate == 5e-4
    assert (settings.model.keypoints.k, settings.training.steps) == (8, 8)
    assert yaml.safe_load((out / "config.yaml").read_text()).keys() == settings.to_dict().keys()
    about = json.loads((out / "run.json").read_text())
    assert about["stage"] == "pretrain"
    assert about["history"][0]["versions"]["torch"] == torch.__version__
    with (out / "metrics.csv").open(newline="") as file:
        rows = {int(row["step"]): row for row in csv.DictReader(file)}
    assert set(rows) == {4, 8}
    assert 0 <= float(rows[4]["val_rotation_deg"]) <= 180
    assert float(rows[8]["val_position_mm"]) > 0 and float(rows[8]["loss"]) > 0
    assert {p.name for p in (out / "pictures").iterdir()} == {"step-000004.png", "step-000008.png"}
    assert done[-1] == (8, 8)
    network, weights = load_reassemblenet(out)
    assert network.config == settings.model
    assert all(value.dtype != torch.float32 for value in weights.tensors.values())


def test_training_lowers_the_loss(tmp_path, small_pool, small_config):
    training = replace(
        small_config.training, steps=60, learning_rate=3e-3, validate_every=0, batch=10
    )
    run(tmp_path / "run", small_pool, replace(small_config, training=training))
    with (tmp_path / "run" / "metrics.csv").open(newline="") as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    assert len(losses) == 3
    assert losses[2] < 0.9 * losses[0]


def test_resuming_a_complete_run_changes_nothing(tmp_path, small_pool, small_config):
    out = tmp_path / "run"
    run(out, small_pool, small_config)
    before = (out / "weights.safetensors").read_bytes()
    (out / "weights.safetensors").unlink()
    assert train(out, resume=True, device="cpu").steps == 6
    assert (out / "weights.safetensors").read_bytes() == before
    longer = train(out, resume=True, device="cpu", steps=8)
    assert longer.steps == 8
    assert (out / "weights.safetensors").read_bytes() != before


def test_a_run_of_so_many_minutes_ends_with_a_rate_near_zero(tmp_path, small_pool, small_config):
    """Its time goes on where it was resumed, and a run whose time is over is complete."""
    out = tmp_path / "run"
    training = replace(
        small_config.training, steps=10**6, minutes=0.1, warmup=1, validate_every=10**6
    )
    config = replace(small_config, training=training)
    first = run(out, small_pool, config, validation=small_pool, progress=stop_at(20))
    assert first.stopped == "interrupted" and first.planned == 10**6
    spent = checkpoint(out)["spent_s"]
    assert 0 < spent < 6
    begun = time.monotonic()
    ended = train(out, resume=True, device="cpu")
    assert ended.stopped is None and ended.steps == ended.planned > first.steps
    assert time.monotonic() - begun < 6 - spent + 15
    assert ended.figures, "validated at its end"
    assert checkpoint(out)["spent_s"] >= 6
    with (out / "metrics.csv").open(newline="") as file:
        rates = [float(row["learning_rate"]) for row in csv.DictReader(file) if row["loss"]]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.02 * rates[0]
    assert train(out, resume=True, device="cpu").steps == ended.steps


@pytest.mark.skipif(os.name == "nt", reason="Windows ends processes without a signal")
def test_a_killed_process_leaves_a_run_that_resumes(tmp_path, small_pool, small_config):
    out = tmp_path / "run"
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(json.loads(json.dumps(small_config.to_dict()))))
    command = [sys.executable, "-m", "reassembly.cli", "train", "--stage", "pretrain"]
    command += ["--config", str(file), "--data", str(small_pool), "--out", str(out)]
    command += ["--device", "cpu", "--steps", "100000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (out / "metrics.csv").is_file() and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.terminate()
    said, complaints = process.communicate(timeout=60)
    assert process.returncode == 130, complaints
    assert "--resume" in said
    reached = checkpoint(out)["global_step"]
    assert reached >= 20
    outcome = train(out, resume=True, device="cpu", minutes=0.0)
    assert outcome.steps == reached + 1
    assert outcome.stopped == "out of time"


def test_a_run_is_named_after_its_configuration(tmp_path, small_pool, small_config, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(small_config.to_dict()))))
    call = ["train", "--config", "small.yaml", "--stage", "pretrain", "--data", str(small_pool)]
    call += ["--device", "cpu", "--steps", "1"]
    done = CliRunner().invoke(cli.app, call)
    assert done.exit_code == 0, done.output
    assert Path("runs/small-pretrain/weights.safetensors").is_file()
    again = CliRunner().invoke(cli.app, call)
    assert isinstance(again.exception, InputError) and "--resume" in str(again.exception)


def test_a_loss_that_is_no_number_ends_the_run_and_spares_the_checkpoint(
    tmp_path, small_pool, small_config
):
    training = replace(small_config.training, batch=2, steps=20)
    config = replace(small_config, training=training)
    shard = load_file(small_pool / "shard-00000.safetensors")
    batches = Batches(shard["pieces"].tolist(), 2, training.seed)
    step = 4
    bad = int(batches.at(step)[0])
    assert all(bad not in batches.at(earlier) for earlier in range(step))
    first = int(shard["pieces"][:bad].sum())
    shard["points"][first] = torch.nan
    broken = tmp_path / "broken"
    broken.mkdir()
    save_file(shard, broken / "shard-00000.safetensors")
    with pytest.raises(InputError, match=rf"step {step + 1}, on the puzzles .*\b{bad}\b"):
        run(tmp_path / "run", broken, config, checkpoint_minutes=0.0)
    kept = checkpoint(tmp_path / "run")
    assert kept["global_step"] == step
    assert all(value.isfinite().all() for value in kept["state_dict"].values())
    assert not (tmp_path / "run" / "weights.safetensors").exists()


def test_rates_can_be_changed_on_the_way(tmp_path, small_pool, small_config):
    out = tmp_path / "run"
    run(out, small_pool, small_config, progress=stop_at(3))
    train(out, resume=True, device="cpu", changes=["training.learning_rate=0"])
    one, other = checkpoint(out)["optimizer_states"][0]["param_groups"]
    assert one["initial_lr"] == other["initial_lr"] == one["lr"] == 0
    run(tmp_path / "again", small_pool, small_config, progress=stop_at(3))
    stopped = checkpoint(tmp_path / "again")["state_dict"]
    assert same(stopped, checkpoint(out)["state_dict"]), "a rate of zero changes nothing"


def test_a_run_killed_while_it_writes_a_file_starts_or_resumes(
    tmp_path, small_pool, small_config, monkeypatch
):
    """Each time a file comes to its place, what lies there is what a kill would leave."""
    left, plain = [], Path.replace

    def replace_later(self, goal):
        left.append(shutil.copytree(tmp_path / "run", tmp_path / f"killed-{len(left)}"))
        return plain(self, goal)

    monkeypatch.setattr(Path, "replace", replace_later)
    run(tmp_path / "run", small_pool, small_config, steps=1)
    monkeypatch.setattr(Path, "replace", plain)
    assert len(left) > 2
    for folder in left:
        if (folder / "run.json").is_file():
            outcome = train(folder, resume=True, device="cpu")
        else:
            with pytest.raises(InputError, match="without --resume"):
                train(folder, resume=True, device="cpu")
            outcome = run(folder, small_pool, small_config, steps=1)
        assert outcome.steps == outcome.planned == 1
        assert not list(folder.rglob(f"{TEMPORARY}*"))


def test_a_run_without_a_checkpoint_is_resumed_from_its_beginning(
    tmp_path, small_pool, small_config
):
    out, whole = tmp_path / "run", tmp_path / "whole"
    with pytest.raises(InputError, match="step 1"):
        run(out, small_pool, small_config, changes=["loss.translation=1e38"])
    assert not (out / "checkpoints" / "last.ckpt").exists()
    train(out, resume=True, device="cpu", changes=["loss.translation=1"])
    run(whole, small_pool, small_config)
    one, other = (load_file(folder / "weights.safetensors") for folder in (whole, out))
    assert same(one, other)


def test_settings_that_fail_are_not_taken_up_by_the_next_attempt(
    tmp_path, small_pool, small_config
):
    out = tmp_path / "run"
    run(out, small_pool, small_config, progress=stop_at(3))
    with pytest.raises(InputError, match="step 4"):
        train(out, resume=True, device="cpu", changes=["loss.translation=1e38"])
    assert train(out, resume=True, device="cpu").steps == 6
    run(tmp_path / "whole", small_pool, small_config)
    assert same(checkpoint(tmp_path / "whole")["state_dict"], checkpoint(out)["state_dict"])


def test_a_run_is_resumed_from_any_working_folder(tmp_path, small_pool, small_config, monkeypatch):
    """Data, validation, first weights and encoder were named by paths from where it was begun."""
    begun, elsewhere = tmp_path / "begun", tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copytree(small_pool, begun / "data")
    monkeypatch.chdir(begun)
    train("S", "selector", config=small_config, data="data", device="cpu", steps=1)
    save_weights("T.safetensors", ResNet18(4), "texture", {"width": 4, "input_px": 16})
    changes = ["model.keypoints.selector=frozen", "model.features.encoder=T.safetensors"]
    with pytest.raises(InputError, match="step 1"):
        fails = [*changes, "loss.translation=1e38"]
        run("run", "data", small_config, validation="data", init="S", changes=fails)
    monkeypatch.chdir(elsewhere)
    mended = ["loss.translation=1"]
    train(begun / "run", resume=True, device="cpu", changes=mended, progress=stop_at(3))
    assert train("../begun/run", resume=True, device="cpu").steps == 6
    network, weights = load_reassemblenet(begun / "run")
    encoder, _ = load_texture_encoder(network.config.features.encoder)
    assert encoder.dim == 32
    chosen = {k: v for k, v in weights.tensors.items() if k.startswith("selector.")}
    trained = load_file(begun / "S" / "weights.safetensors")
    assert same({f"selector.{k}": v for k, v in trained.items()}, chosen)


@pytest.mark.parametrize("place", ["run/pool", "data"])
def test_a_run_that_moved_finds_what_moved_with_it(tmp_path, small_pool, small_config, place):
    before, after = tmp_path / "before", tmp_path / "after"
    shutil.copytree(small_pool, before / place)
    with pytest.raises(InputError, match="step 1"):
        run(before / "run", before / place, small_config, changes=["loss.translation=1e38"])
    before.rename(after)
    changes = ["loss.translation=1"]
    train(after / "run", resume=True, device="cpu", changes=changes, progress=stop_at(3))
    assert json.loads((after / "run" / "run.json").read_text())["data"] == str(after / place)
    if place == "data":
        (after / "data").rename(tmp_path / "far")
        with pytest.raises(InputError, match="--data"):
            train(after / "run", resume=True, device="cpu")
        train(after / "run", resume=True, data=tmp_path / "far", device="cpu", steps=4)
    assert train(after / "run", resume=True, device="cpu", steps=5).steps == 5


def test_a_pool_in_another_place_than_the_run_stays_where_it_is(tmp_path, small_pool, small_config):
    """Also where the run, after its move, has something else beside it under the same name."""
    (tmp_path / "before").mkdir()
    shutil.copytree(small_pool, tmp_path / "before" / "data")
    out = tmp_path / "before" / "run"
    run(out, tmp_path / "before" / "data", small_config, progress=stop_at(3))
    (tmp_path / "after" / "data").mkdir(parents=True)
    out.rename(tmp_path / "after" / "run")
    assert train(tmp_path / "after" / "run", resume=True, device="cpu").steps == 6


def test_names_of_weights_stay_names(tmp_path, small_pool, small_config, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("selector", "texture"):
        (tmp_path / name).mkdir()
    frozen = ["model.keypoints.selector=frozen"]
    for encoder in ("texture", "imagenet-resnet18", "hf:owner/name"):
        out = tmp_path / f"run-{encoder[:3]}"
        changes = [*frozen, f"model.features.encoder={encoder}"]
        run(out, small_pool, small_config, changes=changes, init="selector", steps=1)
        assert load_config(out / "config.yaml").model.features.encoder == encoder
        assert json.loads((out / "run.json").read_text())["init"] == "selector"


def test_an_encoder_that_moved_can_be_named_anew(tmp_path, small_pool, small_config):
    out = tmp_path / "run"
    for name in "AB":
        file = tmp_path / f"{name}.safetensors"
        save_weights(file, ResNet18(4), "texture", {"width": 4, "input_px": 16})

    def encoder(name):
        return [f"model.features.encoder={tmp_path / name}.safetensors"]

    run(out, small_pool, small_config, changes=encoder("A"), steps=1)
    with pytest.raises(InputError, match=r"encoder .*A\.safetensors instead of .*B"):
        train(out, resume=True, device="cpu", steps=2, changes=encoder("B"))
    (tmp_path / "A.safetensors").unlink()
    train(out, resume=True, device="cpu", steps=2, changes=encoder("B"))
    assert load_reassemblenet(out)[0].config.features.encoder == str(tmp_path / "B.safetensors")


def test_the_history_of_a_run_is_kept(tmp_path, small_pool, small_config, monkeypatch):
    def resumed(command, **more):
        monkeypatch.setattr(sys, "argv", command)
        return train(out, resume=True, device="cpu", **more)

    def told():
        return json.loads((out / "run.json").read_text())

    out = tmp_path / "run"
    monkeypatch.setattr(sys, "argv", ["first"])
    run(out, small_pool, small_config, progress=stop_at(2))
    resumed(["second"], progress=stop_at(3))
    with pytest.raises(InputError, match="unknown key"):
        resumed(["wrong"], changes=["training.lr=1"])
    with pytest.raises(InputError, match="step 4"):
        resumed(["diverged"], changes=["loss.translation=1e38"])
    history = told()["history"]
    assert [each["command"] for each in history] == [["first"], ["second"], ["diverged"]]
    begun = [datetime.fromisoformat(each["started"]) for each in history]
    assert begun == sorted(begun) and begun[0].utcoffset() is not None
    assert all(each["versions"]["torch"] == torch.__version__ for each in history)

    older = {key: told()[key] for key in ("stage", "data", "validation", "init")}
    older |= {"command": ["long ago"], "versions": {"torch": "1"}}
    (out / "run.json").write_text(json.dumps(older))
    resumed(["last"])
    assert [each["command"] for each in told()["history"]] == [["long ago"], ["last"]]
    assert told()["history"][0]["versions"] == {"torch": "1"}


def test_a_pool_too_small_to_hold_some_back_is_told(tmp_path, small_pool, small_config):
    shard = load_file(small_pool / "shard-00000.safetensors")
    rows = int(shard["pieces"][:9].sum())
    nine = {name: value[: 9 if name == "pieces" else rows] for name, value in shard.items()}
    small = tmp_path / "nine"
    small.mkdir()
    save_file(nine, small / "shard-00000.safetensors")
    wished = replace(small_config, data=replace(small_config.data, validation=8))
    with pytest.warns(InputWarning, match=r"nine: 9 puzzles .* not validated.* --validation"):
        outcome = run(tmp_path / "a", small, wished, steps=1)
    assert not outcome.figures
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        run(tmp_path / "b", small, small_config, steps=1)
        run(tmp_path / "c", small, wished, steps=1, changes=["training.validate_every=0"])
        assert run(tmp_path / "d", small, wished, steps=1, validation=small).figures
        assert run(tmp_path / "e", small_pool, wished, steps=1).figures


def test_tensorboard_shows_the_pictures(tmp_path, small_pool, small_config):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    out = tmp_path / "run"
    run(out, small_pool, small_config, validation=small_pool)
    found = events.EventAccumulator(str(out / "tensorboard")).Reload()
    shown = {each.step: each.encoded_image_string for each in found.Images("assemblies")}
    assert set(shown) == {4, 6}
    for step, encoded in shown.items():
        pixels = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
        assert np.array_equal(pixels, cv2.imread(str(out / "pictures" / f"step-{step:06d}.png")))


def test_a_rehearsal_of_the_texture_stage_is_quick(tmp_path):
    few = ["data.puzzles=4", "data.validation=2"]
    train(tmp_path / "run", "texture", config="tiny", changes=few, steps=4, workers=1, device="cpu")
    with (tmp_path / "run" / "metrics.csv").open(newline="") as file:
        row = list(csv.DictReader(file))[-1]
    assert float(row["pairs"]) > 200, "no less than a puzzle's worth of pairs"
    assert float(row["steps_a_second"]) > 0.3, "40 steps in about two minutes, on any machine"


def test_mistakes_are_told_before_torch_is_imported(tmp_path, small_pool):
    """Each of the program's answers would otherwise take seconds."""
    program = """
import sys
from reassembly.errors import InputError
from reassembly.training.run import train
out, pool = sys.argv[1:]
for wish in (
    {},
    {"stage": "everything"},
    {"config": "tinny"},
    {"changes": ["training.lr=1"]},
    {"data": "nowhere"},
    {"data": pool, "validation": "nowhere"},
    {"data": pool, "init": "nothing"},
    {"stage": "finetune", "data": pool},
    {"out": pool, "data": pool},
    {"resume": True},
):
    wish = {"out": out, "stage": "pretrain" if wish else None, "config": "tiny", **wish}
    try:
        train(**wish)
    except InputError as error:
        print(error)
    assert not {"torch", "pytorch_lightning"} & set(sys.modules), wish
"""
    command = [sys.executable, "-c", program, str(tmp_path / "run"), str(small_pool)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == 10
    assert not (tmp_path / "run").exists()


def test_the_names_of_the_stages_agree():
    assert set(STAGES) == {stage.value for stage in cli.TrainingStage}
    assert set(STAGES) == {*stages.STAGES, *JUDGES}  # Judges are fitted at one go.


def test_a_selector_is_trained_on_pieces(tmp_path, small_pool, small_config):
    out = tmp_path / "run"
    train(
        out, "selector", config=small_config, data=small_pool, validation=small_pool, device="cpu"
    )
    load_module(KeypointSelector(), load_weights(out, "selector"))
    with (out / "metrics.csv").open(newline="") as file:
        last = list(csv.DictReader(file))[-1]
    assert 0.5 < float(last["val_kept_perimeter"]) <= 1.0


def test_a_selector_of_ones_own_is_used(tmp_path, small_pool, small_config):
    first, second = tmp_path / "selector", tmp_path / "poses"
    train(first, "selector", config=small_config, data=small_pool, device="cpu", steps=1)
    frozen = ["model.keypoints.selector=frozen"]
    run(second, small_pool, small_config, changes=frozen, init=first, steps=2)
    trained = load_file(first / "weights.safetensors")
    used = load_file(second / "weights.safetensors")
    assert same(trained, {key: used[f"selector.{key}"] for key in trained})
    with pytest.raises(InputError, match="selector is fps"):
        run(tmp_path / "fps", small_pool, small_config, init=first)
    with pytest.raises(InputError, match="kind selector, but reassemblenet"):
        train(tmp_path / "fine", "finetune", config=small_config, data=small_pool, init=first)


def test_puzzles_are_prepared_where_no_pool_is_given(tmp_path, small_config):
    """And prepared again by none who resumes, nor by one who was cut short before the start."""
    wanted = {"puzzles": 3, "validation": 2, "size_px": 256, "pieces": (3, 3)}
    config = replace(small_config, data=replace(small_config.data, **wanted))
    out = tmp_path / "run"

    def kill(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(out, None, config, workers=1, preparing=kill)
    run(out, None, config, workers=1, steps=1)
    shards = {path: path.stat().st_mtime_ns for path in out.rglob("shard-*")}
    assert len(shards) == 2
    train(out, resume=True, steps=2, device="cpu")
    assert shards == {path: path.stat().st_mtime_ns for path in out.rglob("shard-*")}


def test_a_texture_encoder_is_trained_on_patches(tmp_path, small_pool, small_config):
    cut, keeping = keep_patches(FeatureConfig())
    source = made_puzzles(count=2, seed=2, pieces=(3, 3), size_px=256)
    prepare(tmp_path / "pool", source, patches=cut, encoder=keeping, workers=1)
    config = replace(small_config, texture=replace(small_config.texture, width=4, input_px=16))
    training = replace(config.training, batch=1, steps=2, validate_every=2)
    config = replace(config, training=training)
    pool = tmp_path / "pool"
    train(tmp_path / "run", "texture", config=config, data=pool, validation=pool, device="cpu")
    encoder, weights = load_texture_encoder(tmp_path / "run")
    assert (encoder.dim, encoder.input_px) == (32, 16)
    assert weights.kind == "texture"
    with pytest.raises(InputError, match="holds no patches"):
        train(tmp_path / "other", "texture", config=config, data=small_pool, device="cpu")


def test_fine_tuning_starts_from_the_weights_given(tmp_path, small_pool, small_config):
    run(tmp_path / "first", small_pool, small_config)
    still = replace(small_config.training, learning_rate=0.0, steps=1, ema=0.0)
    config = replace(small_config, training=still)
    first, second = tmp_path / "first", tmp_path / "second"
    train(second, "finetune", config=config, data=small_pool, init=first, device="cpu")
    assert same(*(load_file(folder / "weights.safetensors") for folder in (first, second)))
    with pytest.raises(InputError, match="width 16 instead of 32"):
        changes = ["model.denoiser.width=32"]
        run(tmp_path / "third", small_pool, config, init=first, changes=changes)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"stage": "finetune"}, "--init"),
        ({"stage": "everything"}, "no stage"),
        ({"changes": ["model.denoiser.widht=3"]}, "nearest is model.denoiser.width"),
        ({"changes": ["training.batch=0"]}, "training.batch"),
        ({"changes": ["training.batch"]}, "key=value"),
        ({"config": "tinny"}, "tiny"),
        ({"resume": True}, "no training run"),
        ({"changes": ["model.features.local=true"]}, "no texture"),
        ({"data": "nowhere"}, "nowhere"),
        ({"init": "nothing"}, "no weights called"),
    ],
)
def test_mistakes_are_told_and_leave_no_run(tmp_path, small_pool, small_config, wish, message):
    wish = {"stage": "pretrain", "config": small_config, "data": small_pool, **wish}
    with pytest.raises(InputError, match=message):
        train(tmp_path / "run", device="cpu", **wish)
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_folder_in_use_is_not_overwritten(tmp_path, small_pool, small_config):
    run(tmp_path / "run", small_pool, small_config, steps=1)
    with pytest.raises(InputError, match="holds a training run"):
        run(tmp_path / "run", small_pool, small_config, steps=1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        run(tmp_path / "other", small_pool, small_config, steps=1)
    with pytest.raises(InputError, match=r"denoiser\.width"):
        train(tmp_path / "run", resume=True, device="cpu", changes=["model.denoiser.width=32"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_an_input_error(tmp_path, small_pool, small_config):
    with pytest.raises(InputError, match="no CUDA GPU"):
        train(tmp_path / "run", "pretrain", config=small_config, data=small_pool, device="cuda")


def test_named_configurations_are_found():
    assert load_config(named_config("tiny")).model.denoiser.width == 32
