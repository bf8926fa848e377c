"""A small depot: the pieces of a few drawn frescoes, as pictures in one folder."""

import os

import cv2
import numpy as np
import pytest

from reassembly.depot.index import index_folder
from reassembly.puzzle import Fragment, Puzzle
from tests.puzzles import drawn_puzzle

MM_PER_PX = 0.5


def write_picture(fragment: Fragment, path) -> None:
    rgba = np.dstack([fragment.image[..., ::-1], fragment.mask * np.uint8(255)])
    cv2.imwrite(str(path), rgba)


@pytest.fixture(scope="session", autouse=True)
def faiss():
    try:
        import faiss
    except ImportError:
        reason = "FAISS is not installed: pip install 'reassembly[depot]'"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    faiss.omp_set_num_threads(1)
    return faiss


@pytest.fixture(scope="session")
def frescoes() -> list[Puzzle]:
    return [drawn_puzzle(6, seed=seed, size_px=360, gap_px=1) for seed in range(5)]


@pytest.fixture(scope="session")
def pictures(frescoes, tmp_path_factory):
    """Names are `<fresco>_<piece>.png`."""
    folder = tmp_path_factory.mktemp("depot") / "all pieces"
    folder.mkdir()
    for number, puzzle in enumerate(frescoes):
        for k, fragment in enumerate(puzzle.fragments):
            write_picture(fragment, folder / f"{number}_{k}.png")
    return folder


@pytest.fixture(scope="session")
def index(pictures, tmp_path_factory):
    out = tmp_path_factory.mktemp("index") / "index"
    done = index_folder(pictures, out, mm_per_px=MM_PER_PX, wear="light")
    assert (done.fragments, done.added) == (30, 30)
    return out
