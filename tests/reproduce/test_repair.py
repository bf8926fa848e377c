"""RePAIR downloads: found, checked, laid out, or refused in one line."""

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import reassembly
from reassembly.errors import InputError, InputWarning
from reassembly.io.readers import PuzzleSource
from reassembly.reproduce.repair import (
    TEST_NUMBERS,
    check_files,
    completeness,
    fragment_count,
    lay_out,
    make_folds,
    read_repair,
)
from tests.puzzles import drawn_puzzle
from tests.test_cli import typed, write_puzzle

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "repair"


def write(folder, group, number, pieces=2):
    puzzle = drawn_puzzle(pieces=pieces, seed=number, size_px=100)
    named = replace(puzzle, id=f"RPobj_g{group}_o{number:04d}")
    return write_puzzle(folder / f"puzzle_{number + 1:07d}_RP_group_{group}", named)


@pytest.fixture(scope="module")
def download(tmp_path_factory):
    """As the release has it: one folder, no split; puzzle 2 is one of the test puzzles."""
    root = tmp_path_factory.mktemp("repair") / "SOLVED"
    for group, number, pieces in ((1, 0, 2), (2, 1, 3), (2, 2, 2), (5, 4, 2), (6, 5, 2)):
        write(root, group, number, pieces)
    return root


def test_a_download_without_a_split_is_told_apart_by_the_list(download, tmp_path):
    repair = read_repair(download)
    assert completeness(repair) == "5 of 121 puzzles, 11 of 957 fragments; no split"
    assert not repair.can_tune and not repair.official
    assert len(TEST_NUMBERS) == 24
    assert lay_out(repair, tmp_path / "out") == {"train": 4, "test": 1}
    laid = read_repair(tmp_path / "out")
    assert laid.measured == ("RPobj_g2_o0001",)
    assert laid.can_tune
    before = {s.id: s.load() for s in repair.sources}
    for source in laid.sources:
        assert source.load().truth == before[source.id].truth
    counts = lay_out(repair, tmp_path / "mine", test=["RPobj_g1_o0000", "RPobj_g5_o0004"])
    assert counts == {"train": 3, "test": 2}
    with pytest.warns(InputWarning, match="not in the download: nobody"):
        lay_out(repair, tmp_path / "other", test=["RPobj_g1_o0000", "nobody"])


def test_a_zip_is_laid_out_as_its_folder_is(download, tmp_path):
    archive = tmp_path / "2D_SOLVED.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(download.rglob("*")):
            file.write(path, f"SOLVED/{path.relative_to(download).as_posix()}")
    done = typed("data", "repair", archive, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "5 of 121 puzzles" in done.stdout and "train 4, test 1" in done.stdout
    assert "look right in 5 puzzles" in done.stdout
    here = {s.id: s.load().truth for s in reassembly.find_puzzles(download)}
    there = {s.id: s.load().truth for s in reassembly.find_puzzles(tmp_path / "out")}
    assert here == there


def test_partial_downloads_get_folds_that_keep_groups_together(download, tmp_path):
    part = tmp_path / "part"
    for name in ("puzzle_0000003_RP_group_2", "puzzle_0000001_RP_group_1"):
        shutil.copytree(download / name, part / name)
    assert lay_out(read_repair(part), tmp_path / "out") == {"puzzles": 2, "folds": 2}
    laid = read_repair(tmp_path / "out")
    assert laid.folds is not None and laid.split == "2 folds"
    assert sorted(i for fold in laid.fold_ids() for i in fold) == sorted(laid.measured)
    folds = make_folds({"RPobj_g7_o0001": 9, "RPobj_g7_o0002": 1, "RPobj_g8_o0003": 5, "x": 4}, 2)
    assert folds == [["RPobj_g7_o0001", "RPobj_g7_o0002"], ["RPobj_g8_o0003", "x"]]


def test_the_official_split_is_known_by_its_sizes(download):
    def of(train, test):
        sources = [
            PuzzleSource(f"RPobj_g{k}_o{k}", Path(str(k)), "repair-v2", split)
            for k, split in enumerate(["train"] * train + ["test"] * test)
        ]
        return replace(read_repair(download), sources=tuple(sources), measured=("x",) * test)

    assert of(97, 24).official and of(97, 24).split.startswith("the official split")
    assert not of(96, 24).official
    assert of(96, 24).split == "96 puzzles for training and 24 for tests"


def test_poses_that_put_pieces_upon_each_other_are_named(download, tmp_path):
    bad = tmp_path / "bad" / "puzzle_0000001_RP_group_1"
    shutil.copytree(download / bad.name, bad)
    about = json.loads((bad / "data.json").read_text())
    for entry in about["fragments"]:
        entry["pixel_position"] = [0, 0]
    (bad / "data.json").write_text(json.dumps(about))
    found = check_files(read_repair(tmp_path / "bad")).overlaps
    assert list(found) == ["RPobj_g1_o0000"] and found["RPobj_g1_o0000"] > 0.25


def cut_short(folder):
    picture = folder / "fragment_0.png"
    picture.write_bytes(picture.read_bytes()[:200])


def forget_a_rotation(folder):
    about = json.loads((folder / "data.json").read_text())
    about["fragments"][0]["rotation"] = None
    (folder / "data.json").write_text(json.dumps(about))


@pytest.mark.parametrize("zipped", [False, True])
def test_damage_is_named_file_by_file(download, tmp_path, zipped):
    place = tmp_path / "SOLVED"
    shutil.copytree(download, place)
    one, two, three, four, five = sorted(place.iterdir())
    cut_short(one)
    (two / "fragment_1.png").write_bytes(b"")
    (three / "fragment_1.png").unlink()
    forget_a_rotation(four)
    (five / "data.json").unlink()
    if zipped:
        place = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "SOLVED"))
    done = typed("data", "repair", place, "--out", tmp_path / "out")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "5 puzzles cannot be read as a whole" in done.stderr
    said = done.stderr.splitlines()
    for folder, what in (
        (one, "fragment_0.png"),
        (two, "fragment_1.png"),
        (three, "fragment_1.png"),
        (four, "rotation"),
        (five, "has pictures but no data.json"),
    ):
        assert sum(folder.name in line and what in line for line in said) == 1, folder
    assert not (tmp_path / "out").exists()


def test_what_is_not_repair_is_refused(download, tmp_path):
    write_puzzle(tmp_path / "mine" / "p", drawn_puzzle(pieces=2, seed=1, size_px=100))
    with pytest.raises(InputError, match=r"no puzzle of RePAIR, but 'drawn-1'.*--dataset"):
        read_repair(tmp_path / "mine")
    with pytest.raises(InputError, match="no such file"):
        read_repair(tmp_path / "nowhere")
    folds = tmp_path / "folds"
    shutil.copytree(download, folds)
    (folds / "folds.json").write_text(json.dumps({"folds": [["RPobj_g1_o0000"]]}))
    with pytest.raises(InputError, match="is in no fold"):
        read_repair(folds)
    broken = tmp_path / "broken"
    shutil.copytree(download, broken)
    (broken / "puzzle_0000001_RP_group_1" / "fragment_0.png").unlink()
    with pytest.raises(InputError, match=r"fragment_0.png is missing"):
        lay_out(read_repair(broken), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_tells_where_to_get_it(tmp_path):
    done = typed("data", "repair")
    assert done.returncode == 0
    assert "zenodo.org" in done.stdout
    done = typed("data", "repair", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


def test_the_given_part_of_repair():
    if not SHARED.is_dir():
        pytest.skip("RePAIR is not here")
    repair = read_repair(SHARED)
    assert completeness(repair) == "23 of 121 puzzles, 149 of 957 fragments; 4 folds"
    old = next(s for s in repair.sources if s.kind == "repair-v1")
    assert fragment_count(old) == len(old.load())
