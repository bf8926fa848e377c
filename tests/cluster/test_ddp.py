"""Training in two processes, over gloo: on one machine, and as two machines would."""

import os
import socket
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from reassembly.training.prepare import made_puzzles, prepare

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pools") / "pool"
    made = made_puzzles(count=12, seed=5, preset="paper", pieces=(3, 4), size_px=256)
    prepare(folder, made, workers=1)
    return folder


def start(pool, out, *more, launcher=()):
    arguments = ["train", "--stage", "pretrain", "--config", "tiny", "--steps", "6"]
    arguments += ["--data", str(pool), "--out", str(out), "--device", "cpu", *more]
    return subprocess.Popen(
        [sys.executable, *(launcher or ()), "-m", "reassembly.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def ended(*processes):
    for process in processes:
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_two_machines_train_the_weights_that_two_processes_of_one_do(pool, tmp_path):
    """Which puzzles and which noise a process sees follows from the seed, its rank and the step:
    so the weights are the same to the bit, wherever the two processes run."""
    ended(start(pool, tmp_path / "one", "--devices", "2"))
    port = free_port()
    ended(
        *(
            start(
                pool,
                tmp_path / "two",
                *("--devices", "1", "--nodes", "2"),
                launcher=[
                    *("-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"),
                    *("--node-rank", str(rank), "--master-addr", "127.0.0.1"),
                    *("--master-port", str(port)),
                ],
            )
            for rank in range(2)
        )
    )
    one, two = (load_file(tmp_path / name / "weights.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
