"""A small pool that the tests of this folder share."""

import pytest
import torch

from reassembly.config import Config, config_from_dict
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
