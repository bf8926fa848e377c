"""Training runs: the commands are valid, weights are found by name, a run is made once."""

import json
import shutil
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from reassembly.config import Config, config_from_dict
from reassembly.errors import InputError
from reassembly.reproduce.recipes import (
    RECIPES,
    Recipe,
    Training,
    find_weights,
    mismatch,
    recipe_named,
)
from reassembly.solvers.pairingnet import PairingNet
from reassembly.weights import list_weights, save_weights

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def told(command):
    """What a command says, by option; `--set` as a dictionary."""
    options = {}
    for key, value in pairwise(command):
        if key == "--set":
            name, _, text = value.partition("=")
            options.setdefault("--set", {})[name] = text
        elif key.startswith("--"):
            options.setdefault(key, value)
    return options


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_commands_are_of_equal_length_and_change_keys_that_exist(device, tmp_path):
    training = Training(tmp_path, tmp_path / "r", tmp_path / "folds.json", 4, device, minutes=3.0)
    for name in RECIPES:
        for recipe in (recipe_named(name), recipe_named(f"tuned-{name}", 2)):
            prepare, train = training.commands(recipe)
            said = told(train)
            assert said["--set"]["training.minutes"] == "3"
            content = yaml.safe_load((CONFIGS / f"{said['--config']}.yaml").read_text())
            for key, value in said["--set"].items():
                section = content
                *above, last = key.split(".")
                for part in above:
                    section = section.setdefault(part, {})
                section[last] = yaml.safe_load(value)
            config = config_from_dict(Config, content)
            assert config.system == recipe.system
            assert config.training.minutes == 3.0
            assert (config.training.precision == "bf16-mixed") == (device == "cuda")
            assert told(prepare)["--out"] == said["--data"]
    assert "1,3,4" in " ".join(training.commands(recipe_named("tuned-fps", 2))[0])


def test_networks_of_the_ablation_differ_as_they_say():
    def features(name):
        return dict(change.split("=") for change in RECIPES[name].model)

    assert features("fps-none") | {"model.features.local": "true"} == features("fps-local")
    assert features("frozen-global")["model.features.whole"] == "true"
    assert features("keypoints-15")["model.keypoints.k"] == "15"
    assert {RECIPES[f"data-{p}"].preset for p in ("pairingnet", "paper", "realistic")} == {
        "pairingnet", "paper", "realistic",
    }  # fmt: skip
    assert recipe_named("tuned-data-paper", 3).same_as == "tuned-fps-3"


def test_weights_are_found_by_name_and_say_how_long_they_were_trained(tmp_path):
    source = next(w.path for w in list_weights() if w.name == "reassemblenet-learnable")
    shipped = find_weights(RECIPES["learnable"], [tmp_path])
    assert shipped.path == "reassemblenet-learnable"
    assert shipped.length == "9.4 min on one NVIDIA H200, not converged"
    same = find_weights(RECIPES["keypoints-20"], [tmp_path])
    assert (same.path, same.name) == ("reassemblenet-learnable", "learnable")
    assert find_weights(RECIPES["keypoints-3"], [tmp_path]) is None

    shutil.copy(source, tmp_path / "fps.safetensors")
    found = find_weights(RECIPES["fps"], [tmp_path])
    assert (found.path, found.length) == (str(tmp_path / "fps.safetensors"), "length not stated")
    (tmp_path / "fps.json").write_text('{"minutes": 4.5, "device": "two abacuses"}')
    assert find_weights(RECIPES["fps"], [tmp_path]).length == "4.5 min on two abacuses"

    run = tmp_path / "keypoints-3"
    run.mkdir()
    shutil.copy(source, run / "weights.safetensors")
    (run / "config.yaml").write_text("training: {minutes: 3.0}")
    (run / "run.json").write_text(json.dumps({"history": [{"versions": {"gpu": "NVIDIA X"}}]}))
    assert find_weights(RECIPES["keypoints-3"], [tmp_path]).length == "3 min on NVIDIA X"
    curve = "step,val_loss\n10,5\n20,{}\n30,{}\n40,{}\n"
    (run / "metrics.csv").write_text(curve.format(4, 3, 2.5))
    improving = find_weights(RECIPES["keypoints-3"], [tmp_path])
    assert improving.length == "3 min on NVIDIA X, not converged"
    (run / "metrics.csv").write_text(curve.format(3, 2, 1.99))
    assert find_weights(RECIPES["keypoints-3"], [tmp_path]).length == "3 min on NVIDIA X"


def test_fine_tuning_takes_the_network_of_the_weights(tmp_path):
    """Also where it is smaller than its configuration says."""
    training = Training(tmp_path, tmp_path, None, minutes=1.0)
    small = replace(Config().pairingnet, width=32)
    weights = tmp_path / "small.safetensors"
    save_weights(weights, PairingNet(small), "pairingnet", asdict(small))
    _, train = training.commands(recipe_named("tuned-pairingnet"), str(weights))
    assert told(train)["--set"]["pairingnet.width"] == "32"
    _, train = training.commands(recipe_named("tuned-learnable"), "reassemblenet-learnable")
    said = told(train)["--set"]
    assert said["model.features.local"] == "true" and said["model.keypoints.k"] == "20"
    assert told(train)["--init"] == "reassemblenet-learnable"


def test_weights_of_another_network_are_told_apart(tmp_path):
    shipped, own = "reassemblenet-learnable", RECIPES["learnable"]
    assert mismatch(own, shipped) is None
    assert mismatch(recipe_named("tuned-keypoints-20", 1), shipped) is None
    texture_alone = replace(own, model=(*own.model, "model.features.geometry=false"))
    assert mismatch(texture_alone, shipped) == "features.geometry is True, not False"
    assert mismatch(RECIPES["frozen"], shipped) == "keypoints.selector is learnable, not frozen"
    with pytest.raises(InputError):
        mismatch(RECIPES["diffassemble"], shipped)


@pytest.mark.slow
def test_a_run_is_made_by_the_commands_and_only_once(tmp_path):
    """A tiny one, on the CPU; where a command fails, that is said in one line."""
    said = []
    training = Training(tmp_path, puzzles=3, minutes=0.02)
    changes = ("data.pieces=[3, 3]",)
    recipe = Recipe("little", "reassemblenet", "tiny", changes)
    found = training.start(recipe, None, said.append)
    assert found.length == "0.02 min on a CPU"
    assert Path(found.path) == tmp_path / "weights" / "little.safetensors"
    assert [text.split()[1] for text in said] == ["prepare", "train"]
    before = (tmp_path / "runs" / "little" / "metrics.csv").read_text()
    training.start(recipe, None, said.append)
    assert len(said) == 2
    assert (tmp_path / "runs" / "little" / "metrics.csv").read_text() == before
    wrong = Recipe("wrong", "reassemblenet", "tiny", ("no.such=key",))
    with pytest.raises(InputError, match="`reassembly train` ended with 2"):
        training.start(wrong, None, said.append)
