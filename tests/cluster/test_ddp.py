"""Training in two processes, over gloo: on one machine, and as two machines would."""

import csv
import os
import socket
import subprocess
import sys
import time

import psutil
import pytest
import torch
from safetensors.torch import load_file

from reassembly.config import FeatureConfig
from reassembly.training import run
from reassembly.training.prepare import made_puzzles, prepare
from reassembly.training.textures import keep_patches

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

SHARED = ("--set", "training.accumulate=2")
STEADY = ("--set", "training.decay=false")
NOISY = ("--set", "model.denoiser.dropout=0.2", "--set", "training.validate_every=3")
SPEED = "steps_a_second"


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pools") / "pool"
    made = made_puzzles(count=20, seed=5, preset="paper", pieces=(3, 4), size_px=256)
    patches, encoder = keep_patches(FeatureConfig())
    prepare(folder, made, patches=patches, encoder=encoder, workers=1)
    return folder


def start(pool, out, *more, stage="pretrain", steps=6, launcher=()):
    wishes = ["--stage", stage, "--config", "tiny", "--steps", str(steps), "--data", str(pool)]
    wishes += ["--out", str(out), "--device", "cpu", *SHARED, *more]
    return subprocess.Popen(
        [sys.executable, *launcher, *("-m", "reassembly.cli", "train"), *wishes],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def alone(pool, out, *more, stage="pretrain"):
    """One process, this one, on one thread as the others are."""
    changes = [word for word in (*SHARED, *more) if word != "--set"]
    run.train(
        out, stage, config="tiny", changes=changes, data=pool, device="cpu", steps=6, workers=1
    )


def ended(*processes):
    """What they printed, once all have ended well."""
    told = [process.communicate(timeout=300)[0] for process in processes]
    assert all(process.returncode == 0 for process in processes), told
    return told


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def check_equal(one, other):
    """The network itself, its averages and the optimiser's state, in single precision."""
    one, other = (
        torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
        for folder in (one, other)
    )
    assert one["global_step"] == other["global_step"]
    counts = [name for name in one["state_dict"] if name.endswith("num_batches_tracked")]
    for name in counts:  # Of what a process has seen; no figure is computed from them.
        del one["state_dict"][name], other["state_dict"][name]
    for key in ("state_dict", "optimizer_states", "callbacks"):
        torch.testing.assert_close(one[key], other[key], rtol=1e-5, atol=1e-7)


def curve(folder):
    """Figures by step, but for the speed."""
    with (folder / "metrics.csv").open(newline="") as file:
        return [
            {name: float(value) for name, value in row.items() if value and name != SPEED}
            for row in csv.DictReader(file)
        ]


@pytest.fixture(scope="module")
def by_two(pool, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "two"
    ended(start(pool, out, *NOISY, "--devices", "2"))
    return out


def test_two_processes_learn_what_one_does(pool, by_two, tmp_path):
    alone(pool, tmp_path / "one", *NOISY)
    check_equal(tmp_path / "one", by_two)
    one, two = curve(tmp_path / "one"), curve(by_two)
    assert {"loss", "val_loss", "gradient"} <= one[-1].keys()
    assert [row["step"] for row in one] == [3, 6]
    assert all(a == pytest.approx(b, rel=1e-5) for a, b in zip(one, two, strict=True))


def test_running_figures_of_a_network_are_those_of_one_process_too(pool, tmp_path):
    alone(pool, tmp_path / "one", stage="texture")
    (said,) = ended(start(pool, tmp_path / "two", "--devices", "2", stage="texture"))
    assert said.count("Weights: ") == 1
    check_equal(tmp_path / "one", tmp_path / "two")


def test_a_run_of_two_processes_is_resumed_by_one(pool, tmp_path):
    alone(pool, tmp_path / "whole", *STEADY)
    ended(start(pool, tmp_path / "parts", *STEADY, *("--devices", "2"), steps=3))
    run.train(tmp_path / "parts", resume=True, steps=6, device="cpu")
    check_equal(tmp_path / "whole", tmp_path / "parts")


def other_process(process):
    found = [p for p in psutil.Process(process.pid).children() if "--devices" in p.cmdline()]
    return found[0] if found else None


def test_a_process_that_is_killed_at_its_start_is_told(pool, tmp_path):
    process = start(pool, tmp_path / "run", "--devices", "2", steps=100_000)
    while process.poll() is None and other_process(process) is None:
        time.sleep(0.1)
    other_process(process).kill()
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 2 and "Traceback" not in said, said
    assert "another process of this run died" in said and "--resume" in said


def test_a_process_that_is_killed_is_told_and_the_run_resumes(pool, tmp_path):
    out = tmp_path / "run"
    process = start(pool, out, "--devices", "2", steps=100_000)
    while process.poll() is None and not (out / "metrics.csv").is_file():
        time.sleep(0.1)
    other_process(process).kill()
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 2 and "Traceback" not in said, said
    assert "another process of this run died" in said and "--resume" in said
    assert "third_party" not in said and "GLHF" not in said, said
    assert run.train(out, resume=True, steps=6, device="cpu").steps == 6
    assert load_file(out / "weights.safetensors")


def test_what_cannot_be_shared_out_is_told(pool, tmp_path):
    process = start(pool, tmp_path / "run", "--devices", "3")
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "training.accumulate=3" in said
    assert not (tmp_path / "run").exists()


def test_two_machines_train_the_weights_that_two_processes_of_one_do(pool, by_two, tmp_path):
    """Which puzzles and which noise a batch sees follows from the seed and its number: so the
    weights are the same to the bit, wherever the two processes run."""
    port = free_port()
    ended(
        *(
            start(
                pool,
                tmp_path / "nodes",
                *(*NOISY, "--devices", "1", "--nodes", "2"),
                launcher=[
                    *("-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"),
                    *("--node-rank", str(rank), "--master-addr", "127.0.0.1"),
                    *("--master-port", str(port)),
                ],
            )
            for rank in range(2)
        )
    )
    one, two = (load_file(f / "weights.safetensors") for f in (by_two, tmp_path / "nodes"))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
