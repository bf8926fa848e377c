from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from reassembly.config import (
    Config,
    JoinsConfig,
    ModelConfig,
    ProposeConfig,
    config_from_dict,
    load_config,
)
from reassembly.errors import InputError

CONFIGS = Path(__file__).parents[1] / "configs"
BASELINES = ("diffassemble", "puzzlefusion", "pairingnet")


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_loads_and_comes_back(path, tmp_path):
    config = load_config(path)
    (tmp_path / "copy.yaml").write_text(yaml.safe_dump(_plain(config.to_dict())))
    assert load_config(tmp_path / "copy.yaml") == config


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _without_baselines(config):
    content = _plain(config.to_dict())
    return {key: value for key, value in content.items() if key not in BASELINES}


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_has_a_file_that_holds_its_whole_section(name):
    path = CONFIGS / f"{name}.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    config = load_config(path)
    assert config.system == name
    assert content[name] == _plain(config.to_dict())[name]
    assert not set(content) & ({"model", "texture", *BASELINES} - {name})


def test_default_yaml_is_complete_and_holds_the_defaults():
    content = yaml.safe_load((CONFIGS / "default.yaml").read_text(encoding="utf-8"))
    assert content == _without_baselines(Config())


def test_the_paper_has_none_of_our_additions():
    paper = load_config(CONFIGS / "paper.yaml")
    content = yaml.safe_load((CONFIGS / "paper.yaml").read_text(encoding="utf-8"))
    ours = {"verifier"}
    assert content == {k: v for k, v in _without_baselines(paper).items() if k not in ours}
    denoiser = paper.model.denoiser
    assert (denoiser.width, denoiser.layers, denoiser.heads, denoiser.dropout) == (256, 6, 4, 0.1)
    assert not (denoiser.world or denoiser.mating or paper.model.features.windows)
    assert (paper.loss.match, paper.loss.layers) == (0, 0)
    assert (paper.training.optimizer, paper.training.batch) == ("adafactor", 4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("modle: {}", "unknown key modle. The nearest is model"),
        (
            "model: {denoiser: {widht: 3}}",
            "unknown key model.denoiser.widht. The nearest is model.denoiser.width",
        ),
        ("training: {lr: 1}", "The nearest is training.learning_rate"),
        ("training: {wd: 1}", "The nearest is training.weight_decay"),
        ("training: {bs: 1}", "The nearest is training.batch"),
        ("training: {batch_size: 1}", "The nearest is training.batch"),
        ("training: {epochs: 1}", "The nearest is training.steps"),
        ("training: {learning_rat: 1}", "The nearest is training.learning_rate"),
        ("training: {zzz: 1}", "There are training.optimizer, training.learning_rate, "),
        ("lr: 1", "The nearest is training.learning_rate"),
        ("k: 1", "The nearest is model.keypoints.k"),
        ("model: {hidden: 8}", "The nearest is model.denoiser.width"),
        ("1: 2", "unknown key 1. There are system, model, "),
        ("model: 3", "model must hold keys and values"),
        ("model: {keypoints: {selector: best}}", "Choose one of fps, frozen, learnable"),
        ("model: {keypoints: {k: 2.5}}", "Give a whole number"),
        ("model: {keypoints: {k: true}}", "Give a whole number"),
        ("model: {features: {local: 1}}", "Give true or false"),
        ("training: {batch: -1}", "0 or more"),
        ("training: {learning_rate: fast}", "Give a number"),
        ("training: {learning_rate: .inf}", "0 or more"),
        ("data: {pieces: [1]}", "Give 2 numbers"),
        ("a: [", "no YAML"),
        ("model: {denoiser: {width: 32}}", "model.denoiser.width is 32. Give a multiple of 6"),
        ("model: {denoiser: {width: 0}}", "model.denoiser.width is 0. Give a multiple of 6"),
        ("pairingnet: {heads: 0}", "pairingnet.heads is 0. Give 1 or more"),
        ("verifier: {width: 12}", "verifier.width is 12. Give a multiple of 8"),
    ],
)
def test_mistakes_are_named(tmp_path, content, message):
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(InputError) as caught:
        load_config(tmp_path / "config.yaml")
    assert message in str(caught.value)
    assert "config.yaml" in str(caught.value)


def test_what_is_left_out_is_the_default(tmp_path):
    (tmp_path / "config.yaml").write_text("training:\n  learning_rate: 1e-4\n")
    config = load_config(tmp_path / "config.yaml")
    assert config.training.learning_rate == 1e-4
    assert config.model == ModelConfig()
    (tmp_path / "config.yaml").write_text("")
    assert load_config(tmp_path / "config.yaml") == Config()


def test_a_section_can_be_read_alone():
    section = Config().to_dict()["model"]
    assert config_from_dict(ModelConfig, section) == ModelConfig()


def test_weights_of_joins_tell_how_proposals_are_searched_for():
    """Those that tell nothing search as they did; a search that never ends is refused."""
    told = config_from_dict(JoinsConfig, {"width": 32, "dropout": 0.2})
    assert told.propose == ProposeConfig(keep=200)
    sharper = JoinsConfig(propose=ProposeConfig(keep=1000, overlap=0.0, turn_deg=4.0))
    assert config_from_dict(JoinsConfig, asdict(sharper)) == sharper
    for name in ("cell_mm", "turn_deg", "keep", "apart_mm"):
        with pytest.raises(InputError, match=f"propose.{name} is 0"):
            config_from_dict(JoinsConfig, {"propose": {name: 0}})


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.yaml"):
        load_config(tmp_path / "nowhere.yaml")
