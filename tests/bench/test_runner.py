"""The benchmark as others rely on it: rows, intervals, kept predictions, resuming."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import pytest

import reassembly
from reassembly.bench import BenchRow, bench, prediction_folder, read_records
from reassembly.errors import InputError, InputWarning
from tests.puzzles import drawn_puzzle
from tests.test_cli import run, typed, write_puzzle

FIGURES = [
    "q_pos", "q_pos_mean", "q_pos_with_anchor", "correct", "correct_of_placed", "placed",
    "largest_correct_group", "rmse_rotation_deg", "rmse_translation_mm", "neighbour_precision",
    "neighbour_recall", "neighbour_f1", "seconds_per_puzzle",
]  # fmt: skip
FACTS = [
    "solver", "data", "protocol", "puzzles", "fragments", "peak_memory_mb", "parameters",
    "weights_hash", "version",
]  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for k, split in enumerate(["train", "test", "test"]):
        write_puzzle(folder / split / f"any name {k}", drawn_puzzle(pieces=3, seed=k, size_px=160))
    return folder


@pytest.fixture(scope="module")
def result(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("bench") / "out"
    done = run("bench", "--data", data, "--solver", "greedy", "--seeds", 2, "--out", out)
    assert done.returncode == 0, done.stderr
    return out


def rows_of(out):
    return {row["solver"]: row for row in json.loads((out / "results.json").read_text())["rows"]}


def test_rows_hold_what_others_rely_on(result, data):
    rows = rows_of(result)
    assert set(rows) == {"greedy", "stack", "random", "ring", "truth", "true-centroids"}
    for row in rows.values():
        for key in FIGURES + FACTS:
            assert key in row, key
        for key in FIGURES:
            interval = row[f"{key}_ci"]
            if row[key] is not None:
                assert interval[0] - 1e-9 <= row[key] <= interval[1] + 1e-9, key
        assert (row["puzzles"], row["fragments"], row["protocol"]) == (3, 9, "strict")
    assert rows["truth"]["q_pos"] == pytest.approx(1.0)
    assert rows["truth"]["rmse_translation_mm"] == pytest.approx(0.0, abs=1e-9)
    assert rows["greedy"]["q_pos"] > 0.9
    assert rows["stack"]["q_pos"] < 0.5
    assert rows["greedy"]["peak_memory_mb"] > 20


def test_kept_predictions_score_the_same(result, data, tmp_path):
    """Anyone can measure them again, and gets the table's figures."""
    (folder,) = result.glob("predictions/*/greedy")
    means = []
    for seed in (0, 1):
        target = tmp_path / "scores.json"
        done = typed("evaluate", folder / f"seed-{seed}", "--truth", data, "--json", target)
        assert done.returncode == 0, done.stderr
        means.append(json.loads(target.read_text())["mean"])
    row = rows_of(result)["greedy"]
    for key in ("q_pos", "correct", "rmse_rotation_deg", "neighbour_f1"):
        assert sum(m[key] for m in means) / 2 == pytest.approx(row[key], abs=1e-6), key


def test_puzzles_of_the_same_name_can_be_scored_again(tmp_path):
    """They are told apart by their folders, in the kept predictions, too."""
    for split, seed in (("train", 1), ("test", 2)):
        puzzle = replace(drawn_puzzle(pieces=2, seed=seed, size_px=120), id="same")
        write_puzzle(tmp_path / "data" / split / "p", puzzle)
    bench([tmp_path / "data"], [], tmp_path / "out")
    (folder,) = (tmp_path / "out").glob("predictions/*/truth/seed-0")
    scores = reassembly.evaluate(folder, tmp_path / "data")
    assert sorted(row["id"] for row in scores["puzzles"]) == ["test/p", "train/p"]
    assert scores["mean"]["q_pos"] == pytest.approx(1.0)


def test_a_split_is_a_part_and_must_exist(data, tmp_path):
    bench([data], [], tmp_path / "out", split="test")
    assert rows_of(tmp_path / "out")["ring"]["puzzles"] == 2
    with pytest.raises(InputError, match="test, train"):
        bench([data], [], tmp_path / "no", split="validation")


def test_two_data_sets_give_two_rows_a_solver(data, tmp_path):
    rows = bench([data / "train", data / "test"], ["ring"], tmp_path / "out")
    assert [(r["data"], r["puzzles"]) for r in rows if r["solver"] == "ring"] == [
        ((data / "train").as_posix(), 1),
        ((data / "test").as_posix(), 2),
    ]


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is POSIX")
def test_carries_on_after_a_kill(data, result, tmp_path):
    out = tmp_path / "out"
    arguments = ["bench", "--data", data, "--solver", "greedy", "--seeds", "2", "--out", out]
    command = [sys.executable, "-m", "reassembly.cli", *map(str, arguments)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while not list(out.glob("records/*/*/*/**/*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = {p: p.stat().st_mtime_ns for p in out.glob("records/*/*/*/**/*.json")}
    assert kept and not (out / "results.json").exists()
    assert run(*arguments).returncode == 0
    assert all(p.stat().st_mtime_ns == written for p, written in kept.items()), "was run again"
    for name, row in rows_of(out).items():
        for key in ("q_pos", "correct", "neighbour_recall"):
            assert row[key] == rows_of(result)[name][key], (name, key)


def test_another_run_in_the_same_folder_adds_rows(data, tmp_path):
    bench([data / "train"], ["ring"], tmp_path / "out")
    before = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    after = bench([data / "test"], ["ring"], tmp_path / "out")
    assert all(row in after for row in before)
    assert len(after) == 2 * len(before)


def test_a_row_of_fewer_puzzles_says_so(data, tmp_path):
    done = typed(
        "bench", "--data", data, "--split", "test", "--solver", "greedy", "--out", tmp_path
    )
    assert done.returncode == 0 and "on 2" not in done.stdout
    done = typed("bench", "--data", data, "--out", tmp_path)
    assert "greedy, on 2 of 3" in " ".join(done.stdout.split())
    text = (tmp_path / "results.md").read_text()
    assert "\n3 puzzles, 9 fragments" in text
    assert text.count("| greedy, on 2 of 3 |") == 1 and "| ring |" in text


def test_changed_puzzles_are_measured_again(data, tmp_path):
    folder = tmp_path / "data"
    puzzle = drawn_puzzle(pieces=3, seed=1, size_px=160)
    write_puzzle(folder / "p", puzzle)
    bench([folder], [], tmp_path / "out")
    before = rows_of(tmp_path / "out")["true-centroids"]["rmse_rotation_deg"]
    write_puzzle(folder / "p", drawn_puzzle(pieces=3, seed=9, size_px=160))
    bench([folder], [], tmp_path / "out")
    assert rows_of(tmp_path / "out")["true-centroids"]["fragments"] == 3
    records = list((tmp_path / "out").glob("records/*/truth/*/**/*.json"))
    assert any("drawn-9" in r.name for r in records)
    assert before is not None


def test_frames_that_betray_the_orientation_are_turned(tmp_path):
    """Pieces cut from a picture and stored upright: a solver that never turns anything must not
    profit."""
    upright = drawn_puzzle(pieces=4, seed=7, size_px=160, turned=False)
    write_puzzle(tmp_path / "data" / "p", upright)
    loaded = reassembly.load(tmp_path / "data" / "p")
    assert {round(p.rotation_deg) for p in loaded.truth.values()} == {0}
    bench([tmp_path / "data"], ["greedy"], tmp_path / "out")
    rows = rows_of(tmp_path / "out")
    assert rows["greedy"]["correct"] == 1.0
    assert rows["ring"]["rmse_rotation_deg"] > 20


def test_bad_requests(data, tmp_path):
    with pytest.raises(InputError, match="there is no solver 'magic'"):
        bench([data], ["magic"], tmp_path / "o")
    with pytest.raises(InputError, match="seeds"):
        bench([data], ["ring"], tmp_path / "o", seeds=0)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(InputError, match="holds no earlier bench"):
        bench([data], ["ring"], tmp_path / "mine")
    with pytest.raises(InputError, match="nowhere"):
        bench([tmp_path / "nowhere"], ["ring"], tmp_path / "o")


FALLS = """
import os

from reassembly.puzzle import Assembly
from reassembly.pose import Pose
from reassembly.solvers.registry import SolverInfo

INFO = SolverInfo("falls", "dies on one puzzle", "made for a test", "falls:Falls")


class Falls:
    def solve(self, puzzle, *, seed=0, locked=None, progress=None):
        if len(puzzle) == 4:
            os._exit(9)
        return Assembly.of(puzzle, {i: Pose(0.0, 0.0, 0.0) for i in puzzle.ids})
"""


def test_processes_side_by_side_give_the_same_and_a_crash_costs_one_puzzle(tmp_path):
    data, package = tmp_path / "data", tmp_path / "package"
    for k, pieces in enumerate((2, 4, 3)):
        write_puzzle(data / f"puzzle {k}", drawn_puzzle(pieces=pieces, seed=k, size_px=120))
    about = package / "falls-1.0.dist-info"
    about.mkdir(parents=True)
    (package / "falls.py").write_text(FALLS)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: falls\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[reassembly.solvers]\nfalls = falls:INFO\n")
    rows = []
    for workers in (1, 2):
        out = tmp_path / f"out{workers}"
        solvers = ("--solver", "falls", "--solver", "greedy", "--workers", workers)
        done = run("bench", "--data", data, *solvers, "--out", out, env={"PYTHONPATH": package})
        assert done.returncode == 0, done.stderr
        rows.append(rows_of(out))
    for name, row in rows[0].items():
        assert row["failed"] == (1 if name == "falls" else 0)
        for key in ("q_pos", "correct", "placed", "failed", "puzzles"):
            assert row[key] == rows[1][name][key], (name, key)
    assert "falls, failed once" in " ".join(done.stdout.split())
    told = (out / "results.md").read_text(encoding="utf-8")
    assert "| falls, failed once |" in told
    assert "\n- falls: once: the solver's process died\n" in told
    with pytest.raises(InputError, match="0 workers"):
        bench([data], [], tmp_path / "no", workers=0)


def test_rows_of_their_own_names_and_puzzles(data, tmp_path):
    """As weights of several folds are measured: each on its own puzzles, together one row."""
    out = tmp_path / "out"
    ids = [source.id for source in reassembly.find_puzzles(data)]
    rows = [
        BenchRow("mine", "greedy", {"beam": 1}, frozenset(ids[:1])),
        BenchRow("mine", "greedy", {"beam": 2}, frozenset(ids[1:2])),
    ]
    found = bench({"drawn": data}, rows, out, ids=ids[:2], detail=True)
    by_name = {row["solver"]: row for row in found}
    assert by_name["mine"]["puzzles"] == by_name["ring"]["puzzles"] == 2
    assert {row["data"] for row in found} == {"drawn"}
    told = [
        json.loads(file.read_text())["provenance"]["settings"]["beam"]
        for file in sorted(prediction_folder(out, "drawn", "mine", 0).rglob("*.json"))
    ]
    assert sorted(told) == [1, 2]
    for record in read_records(out, "drawn", "mine"):
        puzzle = next(s for s in reassembly.find_puzzles(data) if s.id == record["puzzle"]).load()
        path = prediction_folder(out, "drawn", "mine", 0) / f"{puzzle.id}.json"
        paper = reassembly.evaluate(path, puzzle, protocol="paper")["puzzles"][0]
        assert record["protocols"]["paper"]["q_pos"] == pytest.approx(paper["q_pos"])
        assert set(record["errors"]) == set(puzzle.ids)
        right = [e["correct"] for e in record["errors"].values() if e["state"] == "placed"]
        assert sum(right) / len(right) == pytest.approx(record["scores"]["correct"])
    changed = bench({"drawn": data}, [BenchRow("mine", "genetic", {"generations": 3})], out)
    assert {r["solver"]: r["puzzles"] for r in changed}["mine"] == 3
    settings = [
        json.loads(file.read_text())["provenance"]["solver"]
        for file in prediction_folder(out, "drawn", "mine", 0).rglob("*.json")
    ]
    assert set(settings) == {"genetic"}, "another solver under an old name was not run"


def test_what_takes_too_long_is_unplaced_and_tried_again_with_more_time(data, tmp_path):
    ids = [reassembly.find_puzzles(data)[0].id]
    rows = bench([data], ["greedy"], tmp_path / "out", ids=ids, limit_s=0.0)
    greedy = next(row for row in rows if row["solver"] == "greedy")
    assert (greedy["failed"], greedy["placed"]) == (1, 0.0)
    rows = bench([data], ["greedy"], tmp_path / "out", ids=ids, limit_s=60.0)
    greedy = next(row for row in rows if row["solver"] == "greedy")
    assert (greedy["failed"], greedy["placed"]) == (0, 1.0)
    with pytest.raises(InputError, match="no puzzle 'nobody'"):
        bench([data], [], tmp_path / "out", ids=["nobody"])


@pytest.mark.slow
def test_weights_that_have_learned_from_these_puzzles_are_told(tmp_path):
    puzzle = drawn_puzzle(pieces=2, seed=0, size_px=120)
    write_puzzle(tmp_path / "real" / "RPobj_g9_o0009", puzzle)
    write_puzzle(tmp_path / "made" / "puzzle_00009", puzzle)
    with pytest.warns(InputWarning, match="joins have learned from puzzles of RePAIR"):
        bench([tmp_path / "real"], ["joins"], tmp_path / "one")
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        bench([tmp_path / "made"], ["joins"], tmp_path / "other")
