"""Pictures from files and solved puzzles, brought to one size; what cannot be used is named."""

from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
import pytest

from reassembly.errors import InputError, InputWarning
from reassembly.io import find_puzzles
from reassembly.synthetic.dataset import write_puzzle
from reassembly.synthetic.make import make_puzzle, recipe
from reassembly.synthetic.pictures import draw_picture, find_pictures


def save(file: Path, width: int, height: int, seed: int = 0) -> Path:
    """A smooth coloured picture."""
    noise = np.random.default_rng(seed).uniform(0, 255, (6, 8, 3)).astype(np.float32)
    picture = cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
    cv2.imwrite(str(file), np.clip(picture, 0, 255).astype(np.uint8))
    return file


def drawn(pictures, seed=0, size_px=256, **more):
    return draw_picture(pictures, np.random.default_rng(seed), size_px, 0.3, **more)


def test_painted_pictures_have_the_size_asked_for():
    picture, chosen = drawn(None)
    assert picture.rgb.shape == (256, 256, 3) and picture.domain.all() and chosen is None
    assert picture.rgb.std() > 5


def test_pictures_of_any_shape_get_the_same_area(tmp_path):
    save(tmp_path / "wide.jpg", 900, 300)
    save(tmp_path / "tall.png", 310, 620)
    pictures = find_pictures(tmp_path, 256)
    assert len(pictures.sources) == 2
    for seed in range(6):
        picture, _ = drawn(pictures, seed)
        height, width = picture.domain.shape
        assert math.sqrt(height * width) == pytest.approx(256, rel=0.01)
        assert 1.5 < max(height, width) / min(height, width) < 4


def test_the_factor_of_resampling_is_random(tmp_path):
    pictures = find_pictures(save(tmp_path / "a.png", 512, 512), 256)
    assert len({drawn(pictures, seed)[0].rgb.shape for seed in range(5)}) == 5


def test_unusable_pictures_are_named_and_left_out(tmp_path):
    save(tmp_path / "good.png", 400, 400)
    save(tmp_path / "tiny.png", 40, 400)
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 nothing")
    (tmp_path / "notes.txt").write_text("no picture", encoding="utf-8")
    with pytest.warns(InputWarning) as caught:
        pictures = find_pictures(tmp_path, 256)
    assert [Path(str(s)).name for s in pictures.sources] == ["good.png"]
    messages = " ".join(str(w.message) for w in caught)
    assert "tiny.png: its shorter side has 40 px" in messages and "broken.jpg" in messages
    assert "notes.txt" not in messages


def test_only_the_pictures_that_were_named(tmp_path):
    for name in ("a.png", "b.png", "c.jpg"):
        save(tmp_path / name, 300, 300)
    pictures = find_pictures(tmp_path, 256, only=["a.png", "c"])
    assert [pictures.name(k) for k in range(2)] == ["a.png", "c.jpg"]
    with pytest.raises(InputError, match="there is no picture"):
        find_pictures(tmp_path, 256, only=["d"])
    for name in ("one", "two"):
        puzzle = make_puzzle(recipe("pairingnet", pieces=(2, 2), size_px=128), 0, 0)
        write_puzzle(puzzle, tmp_path / "puzzles" / name)
    ids = {s.id for s in find_puzzles(tmp_path / "puzzles")}
    chosen = find_pictures(tmp_path / "puzzles", 256, only=[min(ids)])
    assert [chosen.name(0)] == [min(ids)] and len(chosen.sources) == 1
    assert chosen.digest != find_pictures(tmp_path / "puzzles", 256).digest
    with pytest.raises(InputError, match="none of the puzzles that were named"):
        find_pictures(tmp_path / "puzzles", 256, only=["nobody"])


def test_nothing_usable_is_an_error(tmp_path):
    with pytest.raises(InputError, match="there is no picture"):
        find_pictures(tmp_path, 256)
    (tmp_path / "broken.png").write_bytes(b"")
    with pytest.warns(InputWarning), pytest.raises(InputError, match="there is no picture"):
        find_pictures(tmp_path, 256)
    with pytest.raises(InputError, match="no such file or folder"):
        find_pictures(tmp_path / "nowhere", 256)


def test_the_digest_follows_the_content_and_not_the_place(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        save(tmp_path / name / "a.png", 300, 300)
    one, two = (find_pictures(tmp_path / name, 256).digest for name in ("one", "two"))
    assert one == two
    save(tmp_path / "two" / "a.png", 300, 300, seed=1)
    assert find_pictures(tmp_path / "two", 256).digest != one


def test_transparent_parts_are_not_cut(tmp_path):
    rgba = np.full((300, 300, 4), 200, np.uint8)
    rgba[..., 3] = cv2.circle(np.zeros((300, 300), np.uint8), (150, 150), 120, 255, -1)
    cv2.imwrite(str(tmp_path / "round.png"), rgba)
    picture, _ = drawn(find_pictures(tmp_path, 256))
    assert picture.domain.sum() == pytest.approx(256**2, rel=0.02)
    assert not picture.domain[:4, :4].any()
    made = make_puzzle(recipe("pairingnet", images=tmp_path, size_px=256, pieces=(4, 4)), 0, 0)
    area = sum(f.mask.sum() for f in made.puzzle.fragments)
    assert area == pytest.approx(256**2, rel=0.02)


def test_a_stray_comes_from_another_picture(tmp_path):
    for k in range(3):
        save(tmp_path / f"{k}.png", 300, 300, seed=k)
    pictures = find_pictures(tmp_path, 256)
    assert {drawn(pictures, seed, other_than=1)[1] for seed in range(20)} == {0, 2}
    part, _ = drawn(pictures, 0, share=0.25)
    assert math.sqrt(part.domain.size) == pytest.approx(128, rel=0.02)
    only = find_pictures(tmp_path / "0.png", 256)
    assert drawn(only, 0, other_than=0)[1] is None


def test_solved_puzzles_are_rendered_and_cut_again(tmp_path):
    for index in range(2):
        made = make_puzzle(recipe("realistic", size_px=300, pieces=(4, 5)), 2, index)
        write_puzzle(made, tmp_path / "train" / made.puzzle.id)
    pictures = find_pictures(tmp_path, 256)
    assert len(pictures.sources) == 2
    picture, chosen = drawn(pictures, 1)
    assert picture.domain.sum() == pytest.approx(256**2, rel=0.02)
    closed = cv2.connectedComponents(picture.domain.astype(np.uint8))[0] - 1
    assert closed == 1
    assert picture.rgb[picture.domain].min(axis=1).mean() > 20
    again = make_puzzle(recipe("paper", images=tmp_path, size_px=256, pieces=(6, 6)), 0, 0)
    assert len(again.puzzle) == 6
    assert chosen in (0, 1)


def test_real_puzzles_can_be_cut():
    folder = Path(__file__).resolve().parents[2].parent / "shared/data/repair/2d_fixed/train"
    folder = folder / "RPobj_g86_o0107"
    if not folder.exists():
        pytest.skip("RePAIR's puzzles are not beside the checkout")
    made = make_puzzle(recipe("paper", images=folder, size_px=300, pieces=(5, 5)), 0, 0)
    assert len(made.puzzle) == 5
    assert made.picture.mean() > 60
