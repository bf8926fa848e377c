"""The whole of it, as a user runs it: with a plug-in from the tutorial, killed, and carried on."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import reassembly
from reassembly.bench import BenchRow, bench, read_records
from reassembly.errors import InputError, InputWarning
from reassembly.io.files import disk_told
from reassembly.reproduce import reproduce
from reassembly.weights import list_weights
from tests.puzzles import drawn_puzzle
from tests.reproduce.plugin import install, install_odd
from tests.test_cli import run, typed, write_puzzle

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "plugins.md"
DATA = """

def puzzles():
    return {folder!r}
"""


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.S)


def entries(toml):
    """Entry points as a wheel holds them."""
    found = re.findall(r'\[project\.entry-points\."(.+?)"\]\n(.+?) = "(.+?)"', toml)
    return "".join(f"[{group}]\n{name} = {target}\n" for group, name, target in found)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The tutorial's package with its solver and its data set, installed."""
    folder = tmp_path_factory.mktemp("plugin")
    data = folder / "frescoes"
    for seed in (1, 2):
        puzzle = drawn_puzzle(pieces=3, seed=seed, size_px=140)
        write_puzzle(data / f"p{seed}", puzzle)
    (code,), tomls = blocks("python"), blocks("toml")
    assert code.count("\n") <= 30
    code += DATA.format(folder=str(data))
    package = install(folder / "site", "heap", code, "".join(entries(t) for t in tomls))
    paths = [str(package), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}


ARGUMENTS = ("--quick", "--solver", "heap", "--only", "own", "--only", "semi-synthetic")


@pytest.fixture(scope="module")
def out(environment, tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduced") / "out"
    more = ("--only", "scalability", "--seeds", 2)
    done = run("reproduce", "--out", out, *ARGUMENTS, *more, env=environment)
    assert done.returncode == 0, done.stderr
    return out


def rows_of(out, table):
    content = json.loads((out / "results" / f"{table}.json").read_text(encoding="utf-8"))
    return {row["label"]: row for row in content["rows"]}


def test_a_plugin_of_the_tutorial_gets_the_same_tables(out):
    for table in ("semi-synthetic", "own-my-frescoes"):
        rows = rows_of(out, table)
        measured = {label for label, row in rows.items() if "skipped" not in row}
        assert measured == {"truth", "true-centroids", "stack", "random", "ring", "heap"}
        left_out = [row for row in rows.values() if "skipped" in row]
        assert {"greedy", "derech", "joins"} <= {row["solver"] for row in left_out}
        assert all("--solver names others" in row["skipped"] for row in left_out)
        assert rows["truth"]["q_pos"] == pytest.approx(1.0)
        heap = rows["heap"]
        assert heap["placed"] == 1.0 and heap["q_pos"] < 0.5 and heap["puzzles"] == 2
        assert heap["q_pos_ci"][0] <= heap["q_pos"] <= heap["q_pos_ci"][1]
        assert heap["paper_q_pos"] > heap["q_pos"], "the anchor counts there"
        for ending in ("md", "csv", "tex"):
            assert "heap" in (out / "results" / f"{table}.{ending}").read_text(encoding="utf-8")
    costs = json.loads((out / "results" / "scalability.json").read_text(encoding="utf-8"))["rows"]
    costs = [row for row in costs if "skipped" not in row]
    assert [row["pieces"] for row in costs] == [2, 4, 8, 16]
    assert all(row["seconds"] > 0 and row["memory_mb"] > 20 for row in costs)
    for name in ("memory", "time", "errors-paper"):
        assert (out / "results" / "figures" / f"{name}.svg").read_text().count("<path") > 3
        assert (out / "results" / "figures" / f"{name}.png").stat().st_size > 5000


def test_scalability_ends_where_it_is_told(environment, tmp_path):
    quick = ("reproduce", "--quick", "--only", "scalability", "--solver", "heap")
    out = tmp_path / "few"
    done = run(*quick, "--out", out, "--most-pieces", 5, env=environment)
    assert done.returncode == 0, done.stderr
    costs = json.loads((out / "results" / "scalability.json").read_text(encoding="utf-8"))["rows"]
    assert [row["pieces"] for row in costs if "skipped" not in row] == [2, 4]
    assert "--most-pieces 4" in (out / "results" / "index.md").read_text(encoding="utf-8")
    assert run(*quick, "--out", tmp_path / "no", "--most-pieces", 1).returncode == 2


def test_results_can_be_published(out):
    """No path of this machine in them, nor in the page that leads to them."""
    for file in (out / "results").rglob("*"):
        if file.suffix in (".md", ".csv", ".tex", ".json", ".svg"):
            text = file.read_text(encoding="utf-8")
            assert str(out.parent) not in text and str(Path.home()) not in text, file
    index = (out / "results" / "index.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", index):
        assert (out / "results" / target).is_file(), target


def test_the_audit_can_be_computed_again_from_the_predictions(out):
    rows = rows_of(out, "audit-paper")
    (folder,) = (out / "bench" / "predictions").glob("paper-*")
    (truth,) = (out / "data").glob("paper-*")
    for name in ("stack", "heap", "constant"):
        for protocol in ("strict", "paper", "repair-script"):
            seeds = sorted((folder / name).iterdir())
            assert len(seeds) == (1 if name == "constant" else 2)
            again = [reassembly.evaluate(s, truth, protocol=protocol)["mean"] for s in seeds]
            for figure in ("q_pos", "rmse_rotation_deg", "rmse_translation_mm"):
                mean = sum(a[figure] for a in again) / len(again)
                assert rows[name][f"{protocol}_{figure}"] == pytest.approx(mean), (name, protocol)
    assert rows["stack"]["paper_q_pos"] > 0.2 > rows["stack"]["strict_q_pos"]


def test_nothing_is_run_twice_and_other_weights_or_seeds_only_add(out, environment):
    records = {p: p.stat().st_mtime_ns for p in out.glob("bench/records/**/*.json")}
    cells = {p: p.stat().st_mtime_ns for p in out.glob("measures/scalability/**/*.json")}
    gallery = (out / "gallery.html").stat().st_mtime_ns
    done = run(
        "reproduce", "--out", out, *ARGUMENTS, "--only", "scalability", "--seeds", 2,
        env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(p.stat().st_mtime_ns == t for p, t in (records | cells).items())
    assert (out / "gallery.html").stat().st_mtime_ns == gallery


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is POSIX")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_carries_on_after_a_kill_or_an_interrupt(out, environment, tmp_path, how):
    there = tmp_path / "out"
    arguments = ["reproduce", "--out", str(there), *ARGUMENTS, "--seeds", "2"]
    command = [sys.executable, "-m", "reassembly.cli", *arguments]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, start_new_session=True, env={**os.environ, **environment}
    )
    deadline = time.monotonic() + 100
    while not list(there.glob("bench/records/*/*/*/*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, how)
    _, said = process.communicate()
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert b"Traceback" not in said and b"carries on" in said
    kept = {p: p.stat().st_mtime_ns for p in there.glob("bench/records/*/*/*/*.json")}
    assert kept and not (there / "results" / "index.md").exists()
    assert run(*arguments, env=environment).returncode == 0
    assert all(p.stat().st_mtime_ns == t for p, t in kept.items()), "was run again"
    for key in ("q_pos", "correct", "paper_q_pos"):
        assert (
            rows_of(there, "semi-synthetic")["heap"][key]
            == (rows_of(out, "semi-synthetic")["heap"][key])
        )


def test_rows_that_cannot_be_measured_say_why_and_keep_the_published_figure(tmp_path):
    page = reproduce(tmp_path / "out", quick=True, only=["repair"], solvers=["diffassemble"])
    rows = json.loads((page.parent / "repair.json").read_text(encoding="utf-8"))["rows"]
    assert all("RePAIR was not given" in row["skipped"] for row in rows)
    row = next(row for row in rows if row["label"] == "DiffAssemble")
    assert row["published"] == "0.10 / 131.36 / 283.55"
    assert "0 of 121 puzzles" in (page.parent / "repair.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--only", "keypoint"), "Did you mean keypoints"),
        (("--only", "zzz"), "Choose from repair"),
        (("--data", "nowhere"), "no such file"),
        (("--weights", "nowhere"), "no such folder"),
        (("--solver", "magic"), "there is no solver 'magic'"),
        (("--puzzles", "0"), "0 puzzles"),
        (("--dataset", "nowhere"), "no such file"),
        (("--only", "own"), "no data set was given"),
    ],
)
def test_mistakes_are_one_line(options, said, tmp_path):
    done = typed("reproduce", "--out", tmp_path / "out", "--quick", *options)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.strip().count("\n") == 0


def test_folders_of_others_and_full_disks_are_said(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(InputError, match="nor one of an earlier run"):
        reproduce(tmp_path / "mine")
    reproduce(tmp_path / "quick", quick=True, only=["audit"])
    with pytest.raises(InputError, match="holds a quick run"):
        reproduce(tmp_path / "quick", only=["audit"])
    with pytest.raises(InputError, match=f"{tmp_path}: the disk is full"), disk_told(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_solvers_that_fail_are_rows_and_not_the_end(tmp_path, monkeypatch, workers):
    monkeypatch.setattr("reassembly.bench.runner.GRACE_S", 2.0)
    monkeypatch.syspath_prepend(str(install_odd(tmp_path / "package")))
    write_puzzle(tmp_path / "mine" / "p", drawn_puzzle(pieces=2, seed=1, size_px=100))
    names = ["crashes", "unmade", "hangs", "fine"]
    rows = [BenchRow(name, name) for name in names]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        bench([tmp_path / "mine"], rows, tmp_path / "out", limit_s=2.0, workers=workers)
    records = {n: read_records(tmp_path / "out", str(tmp_path / "mine"), n) for n in names}
    errors = {name: found[0].get("error") for name, found in records.items()}
    assert errors["crashes"] == "the solver's process died"
    assert errors["unmade"].startswith("AttributeError")
    assert errors["hangs"] == "it took longer than 2 s"
    assert errors["fine"] is None


@pytest.mark.slow
def test_a_table_says_why_a_solver_failed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(install_odd(tmp_path / "package")))
    write_puzzle(tmp_path / "mine" / "p", drawn_puzzle(pieces=2, seed=1, size_px=100))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        page = reproduce(
            tmp_path / "out",
            quick=True,
            only=["own"],
            datasets=[tmp_path / "mine"],
            solvers=["crashes"],
        )
    text = (page.parent / "own-mine.md").read_text(encoding="utf-8")
    assert "- crashes: once: the solver's process died" in text


@pytest.mark.slow
def test_weights_that_are_not_what_they_are_called_fill_no_row(tmp_path):
    write_puzzle(tmp_path / "mine" / "p", drawn_puzzle(pieces=2, seed=1, size_px=100))
    shipped = next(w.path for w in list_weights() if w.name == "reassemblenet-learnable")
    (tmp_path / "weights").mkdir()
    for name in ("fps", "frozen"):
        shutil.copy(shipped, tmp_path / "weights" / f"{name}.safetensors")
    (tmp_path / "weights" / "frozen.safetensors").write_bytes(b"no weights at all")
    page = reproduce(
        tmp_path / "out",
        quick=True,
        only=["own"],
        datasets=[tmp_path / "mine"],
        weights=tmp_path / "weights",
        solvers=["reassemblenet"],
    )
    rows = json.loads((page.parent / "own-mine.json").read_text(encoding="utf-8"))["rows"]
    by_recipe = {row.get("recipe"): row for row in rows}
    assert "keypoints.selector is learnable, not fps" in by_recipe["fps"]["skipped"]
    assert "skipped" in by_recipe["frozen"] and by_recipe["frozen"].get("q_pos") is None
    assert by_recipe["learnable"]["q_pos"] is not None
    assert by_recipe["learnable"]["training"] == "9.4 min on one NVIDIA H200, not converged"
