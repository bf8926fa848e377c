"""A small pool that the tests of this folder share."""

import pytest
import torch

from reassembly.config import Config, config_from_dict
from reassembly.training.joins import JoinPool, JoinSettings, prepare_joins
from reassembly.training.prepare import made_puzzles, prepare


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def small_pool(tmp_path_factory):
    """Ten puzzles of 3 or 4 pieces, without texture."""
    folder = tmp_path_factory.mktemp("pools") / "small"
    prepare(folder, made_puzzles(count=10, seed=5, pieces=(3, 4), size_px=256), workers=1)
    return folder


@pytest.fixture
def small_config() -> Config:
    """A network that takes a step in milliseconds, with dropout, so that its seed matters."""
    return config_from_dict(
        Config,
        {
            "model": {
                "keypoints": {"selector": "fps", "k": 6},
                "features": {"local": False, "whole": False},
                "denoiser": {"width": 16, "layers": 1, "heads": 2, "dropout": 0.2},
            },
            "data": {"validation": 0},
            "training": {"batch": 4, "steps": 6, "warmup": 2, "validate_every": 4},
        },
    )


@pytest.fixture(scope="session")
def join_folder(tmp_path_factory):
    """Joins of five puzzles of three pieces, in two shards."""
    folder = tmp_path_factory.mktemp("pools") / "joins"
    source = made_puzzles(count=5, seed=5, preset="pairingnet", pieces=(3, 3), size_px=200)
    prepare_joins(folder, source, settings=JoinSettings(keep=24), workers=1)
    return folder


@pytest.fixture(scope="session")
def join_pool(join_folder):
    return JoinPool.load(join_folder)


@pytest.fixture
def small_crops(monkeypatch):
    """Crops of a quarter of the size, in which networks look a quarter of the time."""
    monkeypatch.setattr("reassembly.matching.crops.WIDTH_PX", 48)
    monkeypatch.setattr("reassembly.matching.crops.HEIGHT_PX", 32)
