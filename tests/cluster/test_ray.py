"""On a cluster of two nodes: the same results as in one process, also where workers are killed."""

import csv
import hashlib
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from reassembly.bench import bench
from reassembly.depot.index import index_folder
from reassembly.depot.objects import find_objects
from reassembly.depot.store import open_depot
from reassembly.errors import InputError
from reassembly.io.readers import find_puzzles, load
from reassembly.matching.joins import Given, find_joins, load_finder, shared_out
from reassembly.solvers.batch import solve_each
from reassembly.synthetic.dataset import generate
from reassembly.workers import Died, cluster, run_each
from tests.cluster import jobs
from tests.cluster.conftest import kill_one
from tests.joining import saved

pytestmark = pytest.mark.slow

SMALL = {"count": 8, "seed": 3, "preset": "paper", "pieces": (3, 4), "size_px": 192}


def digest(folder: Path) -> dict[str, str]:
    """Of every file, hidden ones too."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def complete(folder: Path) -> bool:
    """Whether it holds a puzzle; folders may be renamed meanwhile, which `rglob` does not bear."""
    seen = os.walk(folder)
    return any("data.json" in files and not Path(at).name.startswith(".") for at, _, files in seen)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "one process"
    generate(folder, workers=1, **SMALL)
    return folder


def test_generate_writes_the_same_bytes_though_a_worker_and_a_node_die(
    ray_cluster, a_worker_dies, made, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # Relative paths mean the same on every machine.
    node = ray_cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    steps = []

    def disturb(done, total, _):
        steps.append((done, total))
        if done == 3:
            ray_cluster.remove_node(node, allow_graceful=False)

    with a_worker_dies():
        found = generate("cluster", ray=ray_cluster.address, progress=disturb, **SMALL)
    assert found["puzzles"] == 8 and steps == [(k, 8) for k in range(9)]
    assert digest(tmp_path / "cluster") == digest(made)


def test_a_head_that_dies_is_told_and_what_is_done_is_kept(
    ray_cluster, kill_the_head, made, tmp_path
):
    """As a command: Ray ends processes whose head is gone, and would end this one."""
    out = tmp_path / "cluster"
    words = [*("--count", "8", "--seed", "3", "--preset", "paper", "--pieces", "3-4")]
    words = ["generate", *words, "--size", "192", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "reassembly.cli", *words, "--ray", ray_cluster.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while process.poll() is None and not complete(out):
        time.sleep(0.1)
    kill_the_head()
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 2 and "Traceback" not in said, said
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert "of the Ray cluster" in line or "Ray on this machine" in line
    assert ray_cluster.address in line and "repeat the command" in line
    kept = {path: path.stat().st_mtime_ns for path in out.rglob("data.json")}
    assert 1 <= len(kept) < 8
    generate(out, workers=1, resume=True, **SMALL)
    assert digest(out) == digest(made)
    assert all(path.stat().st_mtime_ns == then for path, then in kept.items())


def test_a_head_that_dies_while_it_is_asked_is_told(ray_cluster, tmp_path):
    """In a process of its own, since Ray would end it after a minute, without a word of ours."""
    script = """
import sys, time
import ray
from reassembly import workers
with workers.cluster(sys.argv[1], sys.argv[2]) as machines:
    workers._check_there(machines)
    print("there", flush=True)
    sys.stdin.readline()
    begun = time.monotonic()
    try:
        workers._answer(ray.cluster_resources, machines)
    except workers.InputError as error:
        print(error, time.monotonic() - begun < 2 * workers.GONE_AFTER_S)
        raise
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script, ray_cluster.address, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "there\n"
    kill_one("gcs_server")
    said, _ = process.communicate("\n", timeout=120)
    assert f"head of the Ray cluster at {ray_cluster.address} is gone" in said, said
    assert "repeat the command" in said and said.endswith("True\n")


def test_bench_and_solve_find_the_same_as_one_process(ray_cluster, a_worker_dies, made, tmp_path):
    address = ray_cluster.address
    rows = []
    for name, ray in (("b1", None), ("b2", address)):
        with a_worker_dies() if ray else nullcontext():
            told = bench([made], ["greedy"], tmp_path / name, ray=ray)
        rows.append(
            {
                (row["solver"], row["data"]): {
                    key: value
                    for key, value in row.items()
                    if not key.startswith(("seconds", "peak"))
                }
                for row in told
            }
        )
    assert rows[0] == rows[1]
    assert digest(tmp_path / "b1" / "predictions") == digest(tmp_path / "b2" / "predictions")

    solve_each(made, tmp_path / "s1", "greedy")
    solve_each(made, tmp_path / "s2", "greedy", ray=address)
    assert digest(tmp_path / "s1") == digest(tmp_path / "s2")
    with (tmp_path / "s2" / "puzzles.csv").open(encoding="utf-8") as file:
        assert [row["error"] for row in csv.DictReader(file)] == [""] * 8


def test_what_goes_wrong_with_a_task_is_told(ray_cluster, tmp_path, capsys):
    with cluster(ray_cluster.address, tmp_path) as machines:
        outcomes = dict(
            run_each(
                jobs.misbehave,
                ["fine", "die", "warn", "hang", "also fine"],
                workers=None,
                machines=machines,
                patience_s=8.0,
            )
        )
        with pytest.raises(InputError, match=r"bad\.png: it is torn\. Mend it"):
            list(run_each(jobs.misbehave, ["refuse"], workers=None, machines=machines))
        with pytest.raises(InputError, match="no machine of the cluster has a GPU"):
            list(run_each(jobs.misbehave, ["fine"], workers=None, machines=machines, gpu=True))
    assert outcomes == {
        "fine": "FINE",
        "die": Died(),
        "warn": "WARN",
        "hang": Died(late=True),
        "also fine": "ALSO FINE",
    }
    assert "warning: a doubt" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_cluster_that_is_not_there_is_named(tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(InputError, match=r"no Ray cluster to be had at '127.0.0.1:1'.*ray start"):
        generate(tmp_path / "out", ray="127.0.0.1:1", **SMALL)
    assert not (tmp_path / "out").exists()


def test_without_ray_the_error_tells_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install \"reassembly\[ray\]\""):
        generate(tmp_path / "out", ray="auto", **SMALL)
    assert not (tmp_path / "out").exists()


def test_joins_are_the_same_as_of_one_process(
    ray_cluster, a_worker_dies, made, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    weights = str(saved(tmp_path / "joins.safetensors"))
    path = find_puzzles(made)[0].path
    puzzle, finder = load(path), load_finder(weights)
    told = []
    alone = find_joins(puzzle, finder=finder)
    given = Given(path, weights=weights)
    with a_worker_dies(), shared_out(given, "out", ray=ray_cluster.address) as compare:
        shared = find_joins(puzzle, finder=finder, compare=compare, tell=told.extend)
    assert shared == alone and sorted(told, key=str) == sorted(alone, key=str)
    assert not Path("out").exists()
    with shared_out(given, "out", workers=2) as compare:
        assert find_joins(puzzle, finder=finder, compare=compare) == alone
    torch.set_num_threads(before)


def test_an_index_is_the_same_as_of_one_process(ray_cluster, made, tmp_path):
    pytest.importorskip("faiss")
    found = []
    for name, ray in (("one", None), ("cluster", ray_cluster.address)):
        assert index_folder(made, tmp_path / name, ray=ray).added > 20
        depot = open_depot(tmp_path / name)
        found.append({row.id: row.check for row in depot.rows()})
        depot.close()
    assert found[0] == found[1]
    one, other = (find_objects(tmp_path / "one", ray=r) for r in (None, ray_cluster.address))
    assert one == other
