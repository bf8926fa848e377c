"""Bad days: a full disk, a folder that cannot be written, no memory, a GPU that is gone.

Each ends with one line and exit code 2, and what was there before is there afterwards.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from reassembly import cli
from reassembly.io.files import TEMPORARY
from reassembly.io.readers import find_puzzles
from reassembly.synthetic.dataset import generate
from tests.app.disks import fill, fill_under, remount
from tests.app.live import Live, cut_outs, live

SOURCE = Path(__file__).resolve().parents[1] / "src"
LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes}, {bytes}))
import errno, os
from reassembly.io import files
files.DISK_FULL.add(errno.EFBIG)
from reassembly.cli import main
sys.argv = ["reassembly", *{arguments}]
main()
"""
"""A limit of the size of files is what a process may set itself; only its number differs from that
of a full disk."""


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults") / "made"
    generate(folder, count=2, seed=2, preset="paper", pieces=(3, 3), size_px=256, workers=1)
    return folder


def commands(made: Path, out: Path) -> dict[str, list[str]]:
    small = ["--pieces", "3", "--size", "256", "--workers", "1"]
    puzzle = made / "train" / "puzzle_00000"
    training = ["--stage", "pretrain", "--config", "tiny", "--steps", "2", "--device", "cpu"]
    return {
        "generate": ["generate", "--count", "2", *small, "--out", str(out)],
        "solve": ["solve", str(puzzle), "--solver", "ring", "--out", str(out)],
        "bench": ["bench", "--data", str(made), "--out", str(out)],
        "train": ["train", *training, "--data", str(made), "--workers", "1", "--out", str(out)],
        "serve": ["serve", "--no-browser", "--port", "0", "--workspace", str(out)],
        "index": ["index", str(made), "--out", str(out)],
    }


def told(capsys, arguments: list[str]) -> str:
    """The one line of an error, for which the command must have ended with 2."""
    before = sys.argv
    sys.argv = ["reassembly", *arguments]
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        sys.argv = before
    said = capsys.readouterr().err
    assert ended.value.code == 2, said
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in said and line.endswith(".")
    return line


@pytest.mark.parametrize("name", ["generate", "solve", "bench", "train", "serve", "index"])
def test_a_file_in_the_place_of_the_folder_stays(name, made, tmp_path, capsys):
    """A folder that nobody may write would not stop an administrator; this stops everybody."""
    file = tmp_path / "file"
    file.write_text("mine")
    for out in (file, file / "inner"):
        line = told(capsys, commands(made, out)[name])
        assert str(file) in line
    assert file.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.parametrize(
    ("name", "kilobytes"), [("generate", 20), ("solve", 3), ("bench", 1), ("train", 200)]
)
def test_a_disk_that_fills_up(name, kilobytes, made, tmp_path, monkeypatch):
    out = tmp_path / "out"
    arguments = commands(made, out)[name]
    code = LIMITED.format(bytes=kilobytes << 10, arguments=arguments)
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=_environment()
    )
    assert ended.returncode == 2, ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    # Processes that a command starts know nothing of the number that stands for a full disk here.
    assert "disk is full" in line or "File too large" in line
    left = [p for p in tmp_path.rglob("*") if p.is_file() and p.suffix in {".png", ".npz", ".html"}]
    assert not left
    again = [*arguments, "--resume"] if name in {"generate", "train"} else arguments
    give(again, monkeypatch)


KILLED = """
import os, signal, sys
from pathlib import Path
plain, moves = Path.replace, []
def replace(self, goal):
    moves.append(goal)
    if len(moves) == {move}:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(self, goal)
Path.replace = replace
from reassembly.cli import main
sys.argv = ["reassembly", *{arguments}]
main()
"""


def kill(arguments: list[str], move: int) -> None:
    """Runs a command that is killed before it moves a file to its place for the `move`-th time."""
    code = KILLED.format(arguments=arguments, move=move)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, env=_environment())
    assert ended.returncode == -9, ended.stderr


def give(arguments: list[str], monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["reassembly", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_half_of_a_new_result_among_an_old_one_is_never_read(made, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    solving = commands(made, out)["solve"]
    evaluating = ["evaluate", str(out), "--truth", str(made / "train" / "puzzle_00000")]
    give(solving, monkeypatch)
    kill([*solving, "--force"], move=1)  # Before anything of the old has gone.
    give(evaluating, monkeypatch)
    kill([*solving, "--force"], move=10)
    for reading in (evaluating, ["inspect", str(out)]):
        line = told(capsys, reading)
        assert str(out) in line and "--force" in line
    give([*solving, "--force"], monkeypatch)
    give(evaluating, monkeypatch)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
@pytest.mark.parametrize("move", [1, 2])
def test_a_data_set_that_is_being_replaced_stays_one(move, made, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    generating = commands(made, out)["generate"]
    give(generating, monkeypatch)
    before = {path: path.read_bytes() for path in out.rglob("*.png")}
    kill([*generating, "--seed", "7", "--force"], move=move)
    for source in find_puzzles(out):
        source.load(strict=True)
    assert {path: path.read_bytes() for path in out.glob("*/puzzle_*/*.png")}.items() <= (
        before.items()
    )
    assert "seed" in told(capsys, [*generating, "--seed", "7", "--resume"])
    give([*generating, "--resume"], monkeypatch)
    assert {path: path.read_bytes() for path in out.rglob("*.png")} == before


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("generate", "64k"),
        pytest.param("train", "60k", marks=pytest.mark.slow),
        ("train", "300k"),
        ("index", "100k"),
    ],
)
def test_a_disk_that_is_full(name, size, made, disk, capsys, monkeypatch):
    """Training is full at 60k while it prepares its puzzles, at 300k with its first checkpoint."""
    out = disk(size) / "out"
    arguments = commands(made, out)[name]
    line = told(capsys, arguments)
    assert str(out) in line and "the disk is full" in line and "Make room" in line
    assert ("--resume" in line) == (name != "index")
    assert not list(out.rglob(f"{TEMPORARY}*"))
    remount(out.parent, "size=8m")
    give([*arguments, *(["--resume"] if name in {"generate", "train"} else [])], monkeypatch)


@pytest.mark.parametrize("name", ["generate", "solve", "bench", "train", "index"])
def test_a_disk_that_may_not_be_written(name, made, disk, capsys):
    out = disk("8m") / "out"
    remount(out.parent, "ro")
    line = told(capsys, commands(made, out)[name])
    assert str(out) in line and "cannot be written" in line
    assert not out.exists()


@pytest.mark.parametrize("words", ["the disk is full", "may be written"])
def test_a_workspace_that_cannot_be_opened_opens_later(words, made, disk):
    place = disk("40k" if "full" in words else "4m")
    if "full" not in words:
        Live(place).stop()
        remount(place, "ro")
    command = [sys.executable, "-m", "reassembly.cli", *commands(made, place)["serve"]]
    ended = subprocess.run(command, capture_output=True, text=True, env=_environment())
    assert ended.returncode == 2
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert str(place) in line and words in line
    remount(place, "rw,size=4m")
    Live(place).stop()


def test_a_disk_that_fills_up_under_a_job_costs_no_result(disk):
    place = disk("8m")
    with live(place) as server:
        project, hypothesis = server.project()
        server.bring_in(project, cut_outs(4), mm_per_px=0.5)
        path = f"/projects/{project}/hypotheses/{hypothesis}"
        job = server.post(f"{path}/solve", {"solver": "greedy"})["job"]
        fill_under(server)
        until = time.monotonic() + 60
        while "make room" not in (found := server.get(f"/jobs/{job['id']}"))["stage"]:
            assert found["state"] in {"queued", "running"} and time.monotonic() < until, found
            time.sleep(0.1)
        assert server.get(path)["placed"] == 0
        (place / "filler").unlink()
        server.wait(job)
        assert server.get(path)["placed"] >= 3


def test_the_example_needs_room_and_says_so(disk):
    place = disk("8m")
    with live(place) as server:
        fill(place, leave_kb=60)
        refused = server.client.post("/api/demo", json={})
        assert refused.status_code == 503
        assert refused.json()["what"] == "the disk is full"
        assert "then try again" in refused.json()["remedy"]
        (place / "filler").unlink()
        assert server.get("/projects") == []
        project = server.post("/demo", {})
        assert [found["id"] for found in server.get("/projects")] == [project["id"]]
        assert len(server.get(f"/projects/{project['id']}/pieces")) > 2


def test_a_disk_that_fills_up_under_the_workbench_costs_no_edit(disk):
    place = disk("4m")
    server = Live(place)
    made = [server.client.post("/api/projects", json={"name": "Before"})]
    fill(place)
    while made[-1].status_code == 201:  # There is some room in what the database holds already.
        made.append(server.client.post("/api/projects", json={"name": f"{len(made)} {90 * 'x'}"}))
    refused = made.pop()
    assert refused.status_code == 503
    assert "full" in refused.json()["what"] and "Make room" in refused.json()["remedy"]
    (place / "filler").unlink()
    made.append(server.client.post("/api/projects", json={"name": "After"}))
    server.kill()
    again = Live(place)
    try:
        found = {project["id"] for project in again.client.get("/api/projects").json()}
        assert found == {answer.json()["id"] for answer in made}
    finally:
        again.stop()


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(SOURCE)}


FATES = {
    "disk": (OSError(errno.ENOSPC, "No space left on device", "x.ckpt"), "the disk is full"),
    "refused": (PermissionError(errno.EACCES, "Permission denied", "x"), "permission denied"),
    "memory": (MemoryError(), "not enough memory"),
    "torch memory": (
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory"
        ),
        "not enough memory",
    ),
    "gpu memory": (torch.OutOfMemoryError("CUDA out of memory. Tried"), "the GPU has not enough"),
    "gpu": (RuntimeError("CUDA error: unspecified launch failure\nmore"), "the GPU is gone"),
}


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("wrapped", [False, True])
def test_what_befalls_a_machine_is_told_in_one_line(
    fate, wrapped, made, tmp_path, capsys, monkeypatch
):
    error, words = FATES[fate]

    def fail(*_, **__):
        if wrapped:
            raise ValueError("a library's own words") from error
        raise error

    monkeypatch.setattr("reassembly.solvers.trivial.Ring.solve", fail)
    out = tmp_path / "out"
    assert words in told(capsys, commands(made, out)["solve"])
    assert not out.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", ["train", "solve"])
def test_a_gpu_that_is_not_there(name, made, tmp_path, capsys):
    arguments = commands(made, tmp_path / "out")[name]
    if name == "solve":
        arguments[arguments.index("ring")] = "reassemblenet"
    at = arguments.index("--device") if "--device" in arguments else None
    if at is not None:
        del arguments[at : at + 2]
    line = told(capsys, [*arguments, "--device", "cuda"])
    assert "GPU" in line and "--device cpu" in line
    assert not (tmp_path / "out").exists()


def test_our_own_mistakes_stay_our_own(made, tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise RuntimeError("a mistake")

    monkeypatch.setattr("reassembly.solvers.trivial.Ring.solve", fail)
    monkeypatch.setattr(sys, "argv", ["reassembly", *commands(made, tmp_path / "out")["solve"]])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert "our fault" in capsys.readouterr().err
    shutil.rmtree(tmp_path, ignore_errors=True)
