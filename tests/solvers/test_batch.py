"""Solving a whole folder: a folder a puzzle, the rest after a kill, one bad puzzle costs itself."""

import csv
import shutil

import pytest

import reassembly
from reassembly.errors import InputError
from reassembly.solvers.batch import puzzles_of, solve_each
from tests.puzzles import drawn_puzzle
from tests.test_cli import typed, write_cutouts, write_puzzle


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for k in range(2):
        puzzle = drawn_puzzle(pieces=3, seed=k, size_px=160)
        write_puzzle(folder / "test" / f"p{k}", puzzle)
    return folder


def test_each_puzzle_is_solved_as_it_would_be_alone_and_only_once(data, tmp_path):
    out, alone = tmp_path / "out", tmp_path / "alone"
    first = typed("solve", data, "--each", "--out", out, "--solver", "ring", "--seed", 4)
    assert first.returncode == 0, first.stderr
    assert "2 of 2 puzzles solved, 6 of 6 pieces placed" in first.stdout
    one, other = (source.id for source in puzzles_of(data))
    typed("solve", data / "test" / "p0", "--out", alone, "--solver", "ring", "--seed", 4)
    names = sorted(path.name for path in alone.iterdir())
    assert sorted(path.name for path in (out / one).iterdir()) == names
    for name in ("assembly.json", "poses.csv", "assembly.png"):
        assert (out / one / name).read_bytes() == (alone / name).read_bytes(), name

    kept = (out / one / "assembly.json").stat().st_mtime_ns
    shutil.rmtree(out / other)
    steps = []
    rows = solve_each(data, out, "ring", seed=4, progress=lambda *step: steps.append(step))
    assert [row.placed for row in rows] == [3, 3] and steps == [(2, 2, other)]
    assert (out / one / "assembly.json").stat().st_mtime_ns == kept
    with pytest.raises(InputError, match=r"solved otherwise before: ring, seed 4, .*--force"):
        solve_each(data, out, "stack", seed=4)
    solve_each(data, out, "stack", seed=4, force=True)
    assert reassembly.Assembly.load(out / one).provenance.solver == "stack"


def test_a_bad_puzzle_is_a_row_and_is_tried_again(tmp_path):
    data, out = tmp_path / "trays", tmp_path / "out"
    write_cutouts(data / "good", drawn_puzzle(pieces=3, seed=1, size_px=160))
    write_cutouts(data / "lonely", drawn_puzzle(pieces=2, seed=2, size_px=160))
    spare = max((data / "lonely").iterdir())
    shutil.move(spare, tmp_path / spare.name)
    done = typed("solve", data, "--each", "--out", out, "--solver", "ring", "--mm-per-px", 0.5)
    assert done.returncode == 0, done.stderr
    assert "warning: lonely: puzzle lonely has 1 fragment" in done.stderr
    with (out / "puzzles.csv").open(encoding="utf-8") as file:
        good, lonely = csv.DictReader(file)
    assert (good["puzzle"], good["placed"], good["error"]) == ("good", "3", "")
    assert lonely["puzzle"] == "lonely" and "needs two" in lonely["error"]
    assert not (out / "lonely").exists()
    shutil.move(tmp_path / spare.name, spare)
    rows = solve_each(data, out, "ring", mm_per_px=0.5)
    assert [(row.puzzle, row.placed, row.error) for row in rows] == [
        ("good", 3, None),
        ("lonely", 2, None),
    ]


def test_wishes_that_cannot_be(data, tmp_path):
    poses = tmp_path / "poses.csv"
    poses.write_text("rpf,x,y,rot\n")
    for more, said in [
        (("--each", "--locked", poses), "cannot be locked"),
        (("--workers", 2), "Add --each"),
        (("--each", "--solver", "nobody"), "nobody"),
    ]:
        done = typed("solve", data, "--out", tmp_path / "out", *more)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    with pytest.raises(InputError, match="0 workers"):
        solve_each(data, tmp_path / "out", workers=0)
