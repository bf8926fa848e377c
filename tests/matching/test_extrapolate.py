"""Paint that goes on beyond the rim."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reassembly.errors import InputError
from reassembly.matching.extrapolate import by_exemplars, extrapolator, nearest_paint, rings

WIDTH = 8


def disc(size: int = 140, radius: float = 50.0) -> np.ndarray:
    rows, columns = np.mgrid[:size, :size] - (size - 1) / 2
    return np.hypot(rows, columns) <= radius


def stripes(angle: float, size: int = 140, period: float = 14.0) -> np.ndarray:
    rows, columns = np.mgrid[:size, :size]
    wave = np.sin((columns * math.cos(angle) + rows * math.sin(angle)) * math.tau / period)
    return np.clip(128 + 90 * wave[..., None] * [1.0, 0.6, -0.8], 0, 255).astype(np.uint8)


def cut_out(picture: np.ndarray, known: np.ndarray) -> np.ndarray:
    return np.dstack([picture, np.full(known.shape, 255, np.uint8)]) * known[..., None]


def error(guess: np.ndarray, truth: np.ndarray, where: np.ndarray) -> float:
    """Root mean square difference of colours, 0 to 255."""
    return float(np.sqrt(np.mean((guess[where][:, :3].astype(float) - truth[where]) ** 2)))


@pytest.mark.parametrize("angle", [0.0, 0.4, 1.2, 2.5])
def test_stripes_go_on_beyond_the_rim(angle):
    known, truth = disc(), stripes(angle)
    band = rings(known, WIDTH) > 0
    cut = cut_out(truth, known)
    constant = np.broadcast_to(truth[known].mean(axis=0), truth.shape)
    ours = error(by_exemplars(cut, WIDTH), truth, band)
    assert ours < 0.5 * error(constant, truth, band)
    assert ours < 0.7 * error(nearest_paint(cut, WIDTH), truth, band)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 10))
def test_the_fragment_and_what_is_beyond_the_band_are_left_alone(seed, width):
    rng = np.random.default_rng(seed)
    known = disc(80, rng.uniform(5, 28))
    image = cut_out(rng.integers(0, 256, (80, 80, 3), dtype=np.uint8), known)
    distance = rings(known, width)
    for method in (nearest_paint, by_exemplars):
        grown = method(image, width)
        assert grown.dtype == np.uint8 and grown.shape == image.shape
        assert (grown[known] == image[known]).all()
        assert (grown[distance < 0] == 0).all()
        assert (grown[distance > 0, 3] == 255).all()


def test_rings_are_counted_by_distance():
    known = np.zeros((21, 21), bool)
    known[10, 10] = True
    found = rings(known, 5)
    assert found[10, 10] == 0 and found[10, 13] == 3 and found[13, 14] == 5
    assert found[10, 16] == -1 and found[14, 14] == -1


def test_uniform_paint_stays_uniform_and_little_paint_is_enough():
    for radius in (50.0, 1.0):
        known = disc(140, radius)
        image = cut_out(np.full((140, 140, 3), (200, 60, 20), np.uint8), known)
        grown = by_exemplars(image, WIDTH)
        assert (grown[rings(known, WIDTH) > 0] == (200, 60, 20, 255)).all()


def test_an_empty_picture_stays_empty():
    assert not by_exemplars(np.zeros((30, 30, 4), np.uint8), WIDTH).any()


def test_an_extrapolator_comes_by_its_import_path():
    path = "reassembly.matching.extrapolate:nearest_paint"
    assert extrapolator(path) is nearest_paint
    assert extrapolator(nearest_paint) is nearest_paint


def test_one_in_the_working_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_paint.py").write_text(
        "def paint(picture, width):\n    return picture[..., :3]\n"
    )
    picture = np.full((4, 5, 4), 7, np.uint8)
    assert extrapolator("own_paint:paint")(picture, 2).shape == (4, 5, 3)


@pytest.mark.parametrize("path", ["nonsense", "no.such.module:f", "math:no_such_name", "math:pi"])
def test_a_path_that_leads_nowhere_is_explained(path):
    with pytest.raises(InputError, match=r"package\.module:function"):
        extrapolator(path)
