from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reassembly.app.pictures import keep_cut_out, picture_file, read_rgba, view_png
from reassembly.errors import InputError


def _disc(side: int) -> tuple[np.ndarray, np.ndarray]:
    y, x = np.mgrid[:side, :side]
    mask = np.hypot(x - side / 2, y - side / 2) < 0.4 * side
    rgb = np.where(mask[..., None], (200, 30, 30), (0, 255, 0)).astype(np.uint8)
    return rgb, mask


def test_a_picture_comes_back_with_what_is_around_its_piece(tmp_path: Path) -> None:
    rgb, mask = _disc(300)
    kept = keep_cut_out(tmp_path, rgb, mask)
    rgba = read_rgba(tmp_path, kept["sha256"])
    assert np.array_equal(rgba[..., :3], rgb)
    assert np.array_equal(rgba[..., 3] > 0, mask)
    photo = np.asarray(Image.open(io.BytesIO(view_png(tmp_path, kept["sha256"], "photo"))))
    assert (photo[..., 3] == 255).all() and np.array_equal(photo[..., :3], rgb)
    shown = np.asarray(Image.open(io.BytesIO(view_png(tmp_path, kept["sha256"], "mask"))))
    assert np.array_equal(shown > 127, mask)
    assert kept["area_px"] == pytest.approx(mask.sum(), rel=0.01)
    assert kept["colour"] == [200, 30, 30]


def test_smaller_copies_do_not_bleed_the_ground_into_the_piece(tmp_path: Path) -> None:
    rgb, mask = _disc(1100)
    kept = keep_cut_out(tmp_path, rgb, mask)
    assert kept["levels"] == [256, 512, 1024]
    for level in kept["levels"]:
        file = picture_file(tmp_path, kept["sha256"], f"{level}.webp")
        copy = np.asarray(Image.open(file).convert("RGBA")).astype(int)
        assert max(copy.shape[:2]) == level
        seen = copy[copy[..., 3] > 128]
        assert np.abs(seen[:, :3] - (200, 30, 30)).max() < 60
        assert len(seen) == pytest.approx(mask.mean() * copy.shape[0] * copy.shape[1], rel=0.02)


def test_an_outline_for_the_screen_has_few_points_and_the_same_area(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:800, :800] - 400.0
    angle = np.arctan2(y, x)
    wave = sum(rng.normal(0, 6) * np.sin(k * angle + rng.uniform(0, 6)) for k in range(1, 60))
    mask = np.hypot(x, y) < 300 + wave
    kept = keep_cut_out(tmp_path, np.zeros((800, 800, 3), np.uint8), mask)
    ring = np.array(kept["outline_px"][0])
    assert len(ring) <= 240
    area = abs(np.sum(ring[:, 0] * np.roll(ring[:, 1], -1) - np.roll(ring[:, 0], -1) * ring[:, 1]))
    assert area / 2 == pytest.approx(mask.sum(), rel=0.02)


def test_the_same_picture_is_stored_once_and_nothing_half_is_left(tmp_path: Path) -> None:
    rgb, mask = _disc(300)
    assert keep_cut_out(tmp_path, rgb, mask) == keep_cut_out(tmp_path, rgb, mask)
    assert len(list(tmp_path.iterdir())) == 1


def test_nothing_is_no_piece(tmp_path: Path) -> None:
    rgb, mask = _disc(300)
    with pytest.raises(InputError, match="nothing is left"):
        keep_cut_out(tmp_path, rgb, np.zeros_like(mask))
