"""Data sets: the same bytes whatever happens on the way, and puzzles whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

import reassembly
from reassembly.cli import app
from reassembly.errors import InputError
from reassembly.synthetic.dataset import generate, parse_pieces, split_of
from reassembly.synthetic.labels import Labels
from reassembly.synthetic.make import make_puzzle, recipe

SMALL = {"count": 6, "seed": 3, "preset": "realistic", "pieces": (3, 4), "size_px": 160}


def digest(folder: Path) -> dict[str, str]:
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "small"
    found = generate(folder, workers=1, **SMALL)
    assert found["puzzles"] == 6 and 18 <= found["pieces"] <= 24
    return folder


def test_a_data_set_loads_as_it_was_made(made):
    sources = reassembly.find_puzzles(made)
    assert [s.split for s in sources].count("test") == 1 and len(sources) == 6
    wanted = recipe("realistic", pieces=(3, 4), size_px=160)
    for source in sources:
        index = int(source.id.removeprefix("puzzle_"))
        assert source.split == split_of(index)
        loaded, fresh = source.load(), make_puzzle(wanted, 3, index).puzzle
        assert loaded.strays == fresh.strays and len(loaded) == len(fresh)
        assert loaded.mm_per_px == fresh.mm_per_px
        for name, fragment in zip(sorted(fresh.ids), sorted(loaded.ids), strict=True):
            assert np.array_equal(loaded[fragment].cropped(0).mask, fresh[name].mask)
            assert np.array_equal(loaded[fragment].cropped(0).image, fresh[name].image)
            if name not in fresh.strays:
                drift = fresh.truth[name].inverse() @ loaded.truth[fragment]
                assert np.hypot(drift.x_mm, drift.y_mm) < 1e-3 and abs(drift.rotation_deg) < 1e-4
        labels = Labels.load(source.path)
        assert labels.ids == fresh.ids


def test_the_manifest_tells_what_determines_the_content(made):
    manifest = json.loads((made / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["seed"] == 3 and manifest["count"] == 6 and manifest["pieces"] == [3, 4]
    assert manifest["preset"]["name"] == "realistic" and manifest["preset"]["wear"]["loss_mm"] > 0
    text = (made / "manifest.json").read_text(encoding="utf-8")
    assert str(made) not in text and "worker" not in text


def test_the_number_of_workers_changes_no_byte(made, tmp_path):
    calls = []
    generate(tmp_path / "two", workers=2, progress=lambda *step: calls.append(step), **SMALL)
    assert digest(tmp_path / "two") == digest(made)
    assert [c[0] for c in calls] == list(range(7)) and calls[-1][1] == 6
    assert "pieces" in calls[-1][2] and "a second" in calls[-1][2]


def test_a_run_cut_short_ends_with_the_same_bytes(made, tmp_path):
    folder = tmp_path / "resumed"
    shutil.copytree(made, folder)
    shutil.rmtree(folder / "train" / "puzzle_00002")
    shutil.rmtree(folder / "test" / "puzzle_00004")
    half = folder / "train" / ".reassembly-dead"
    half.mkdir()
    (half / "fragment_00.png").write_bytes(b"half a picture")
    kept = folder / "train" / "puzzle_00001" / "data.json"
    stamp = kept.stat().st_mtime_ns
    steps = []
    found = generate(
        folder, workers=1, resume=True, progress=lambda *s: steps.append(s[0]), **SMALL
    )
    assert digest(folder) == digest(made) and found["puzzles"] == 6
    assert steps == [4, 5, 6]
    assert kept.stat().st_mtime_ns == stamp


def test_resuming_another_data_set_is_refused(made):
    before = digest(made)
    with pytest.raises(InputError, match="begun with another count, seed"):
        generate(made, workers=1, resume=True, **{**SMALL, "seed": 4, "count": 7})
    assert digest(made) == before


def test_a_data_set_in_one_style_is_another_one(tmp_path):
    call = ["generate", "--out", str(tmp_path / "set"), "--count", "1", "--pieces", "2"]
    call += ["--size", "160", "--workers", "1"]
    first = CliRunner().invoke(app, [*call, "--style", "lattice"])
    assert first.exit_code == 0, first.output
    manifest = json.loads((tmp_path / "set" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["preset"]["styles"] == {"lattice": 1.0}
    again = CliRunner().invoke(app, [*call, "--style", "lattice", "--resume"])
    assert again.exit_code == 0, again.output
    for other in ([], ["--style", "linear"]):
        refused = CliRunner().invoke(app, [*call, *other, "--resume"])
        assert isinstance(refused.exception, InputError)
        assert "another preset" in str(refused.exception)


def test_an_existing_data_set_needs_resume_or_force(made, tmp_path):
    with pytest.raises(InputError, match="add --resume to complete it, or --force"):
        generate(made, workers=1, **SMALL)
    folder = tmp_path / "forced"
    shutil.copytree(made, folder)
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    generate(folder, workers=1, force=True, **{**SMALL, "count": 1})
    assert sorted(digest(folder)) == sorted(
        n for n in [*digest(made), "notes.txt"] if "/" not in n or "puzzle_00000" in n
    )
    with pytest.raises(InputError, match="both"):
        generate(folder, workers=1, force=True, resume=True, **SMALL)


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    for resume in (False, True):
        with pytest.raises(InputError, match=r"not empty|something else"):
            generate(tmp_path, workers=1, resume=resume, **SMALL)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_full_disk_leaves_no_broken_puzzle(made, tmp_path, monkeypatch):
    folder = tmp_path / "full"
    write, written = Path.write_bytes, [0]

    def until_full(self: Path, data: bytes) -> int:
        written[0] += len(data)
        if written[0] > 150_000:
            write(self, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", until_full)
    with pytest.raises(InputError, match=r"the disk is full.*--resume") as caught:
        generate(folder, workers=1, **SMALL)
    assert str(folder) in str(caught.value)
    monkeypatch.undo()
    whole = digest(made)
    assert 1 < len(digest(folder)) < len(whole)
    assert digest(folder).items() <= whole.items()
    for puzzle in reassembly.find_puzzles(folder):
        assert len(puzzle.load()) >= 3
    generate(folder, workers=1, resume=True, **SMALL)
    assert digest(folder) == whole


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"count": 0}, "0 puzzles cannot be made"),
        ({"workers": 0}, "0 workers"),
        ({"pieces": (200, 200)}, "do not fit"),
        ({"preset": "wood"}, "no preset"),
        ({"style": "gothic"}, "no style"),
        ({"seed": -1}, "seed -1"),
        ({"images": "nowhere"}, "no such file or folder"),
    ],
)
def test_impossible_wishes_are_refused_before_anything_is_written(wish, message, tmp_path):
    with pytest.raises(InputError, match=message):
        generate(tmp_path / "out", **{**SMALL, "workers": 1, **wish})
    assert not (tmp_path / "out").exists()


def test_four_of_five_puzzles_are_for_training():
    for count in (5, 10, 5000):
        assert [split_of(k) for k in range(count)].count("test") == count // 5


def test_numbers_of_pieces_are_read():
    assert parse_pieces(None) is None
    assert parse_pieces("4-18") == (4, 18) and parse_pieces(" 9 ") == (9, 9)
    for text in ("four", "4-", "-4", "4-6-8"):
        with pytest.raises(InputError, match="no number of pieces"):
            parse_pieces(text)


def test_damaged_puzzles_are_made_again(made, tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(made, folder)
    (folder / "train" / "puzzle_00000" / "fragment_00.png").unlink()
    (folder / "train" / "puzzle_00001" / "labels.npz").write_bytes(b"PK")
    cut = folder / "train" / "puzzle_00002" / "fragment_01.png"
    cut.write_bytes(cut.read_bytes()[:-20])
    (folder / "test" / "puzzle_00004" / "data.json").write_text("{")
    generate(folder, workers=1, resume=True, **SMALL)
    assert digest(folder) == digest(made)


def test_a_puzzle_tells_which_picture_it_was_cut_from(tmp_path):
    """So that a set can be split by pictures, not only by puzzles."""
    for name in ("a.png", "b.png"):
        noise = np.random.default_rng(len(name)).integers(0, 255, (200, 200, 3), np.uint8)
        cv2.imwrite(str(tmp_path / name), noise)
    wish = {**SMALL, "count": 3, "images": tmp_path, "image_ids": ["b.png"]}
    generate(tmp_path / "out", workers=1, **wish)
    for file in (tmp_path / "out").rglob("data.json"):
        assert json.loads(file.read_text())["picture"] == "b.png"
