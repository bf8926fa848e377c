"""Prints time and memory of ReassembleNet: solving, training steps, many pieces, many steps.

python benchmarks/reassemblenet.py [--device cuda]

On the CPU, memory is that of the process; on a GPU, what was allocated there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import torch

from reassembly.config import Config, KeypointConfig, LossConfig
from reassembly.diffusion.batch import Batch
from reassembly.diffusion.frames import true_vectors
from reassembly.diffusion.reassemblenet import ReassembleNet
from reassembly.synthetic.dataset import write_puzzle
from reassembly.synthetic.make import make_puzzle, recipe
from reassembly.texture.encoder import TextureEncoder
from reassembly.texture.resnet import ResNet18
from reassembly.weights import load_reassemblenet

TEXTURE = 256
CANDIDATES, WINDOW = 100, 36


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--pieces", type=int, nargs="*", default=[9, 128])
    device = parser.parse_args().device
    pieces = parser.parse_args().pieces
    print(f"device {device}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    if device == "cpu":
        print(f"nine pieces, from image files to poses: {from_files():.1f} s (promise: 10 s)")
    network = load_reassemblenet("reassemblenet-learnable")[0].to(device).eval()
    for count in pieces:
        batch = random_batch([count], device)
        figure(f"solving {count} pieces, 20 steps", device, sample, network, batch, 20)
    nine = random_batch([9], device)
    fast = figure("DDIM, 20 steps, 9 pieces", device, sample, network, nine, 20)
    slow = figure("ancestral, 600 steps", device, sample, network, nine, 600, 1.0)
    print(f"  {slow / fast:.0f} times as long")
    for k in (20, 100):
        config = replace(Config().model, keypoints=KeypointConfig("learnable", k))
        net = ReassembleNet(config, TEXTURE, WINDOW).to(device)
        batch = random_batch([9] * 4, device)
        figure(f"training step, k = {k}, batch 4, cached features", device, step, net, batch)
        trunk = TextureEncoder(ResNet18(32), 64).to(device)
        if k == 20:
            figure(
                "training step, k = 20, batch 4, half-width trunk in it",
                device,
                step,
                net,
                batch,
                trunk,
            )


def from_files() -> float:
    """Seconds of `reassembly solve` on a made puzzle, all imports included."""
    with tempfile.TemporaryDirectory() as folder:
        made = make_puzzle(recipe("paper", pieces=(9, 9)), 0, 0)
        write_puzzle(made, Path(folder) / "puzzle")
        command = [sys.executable, "-m", "reassembly.cli", "solve", f"{folder}/puzzle"]
        start = time.perf_counter()
        subprocess.run(
            [*command, "--solver", "reassemblenet", "--out", f"{folder}/out"],
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - start


def random_batch(pieces: list[int], device: str) -> Batch:
    """Pieces of random shape and texture: they cost what real ones cost."""
    rng = np.random.default_rng(0)
    total = sum(pieces)
    angle = np.linspace(0, 2 * np.pi, CANDIDATES, endpoint=False)
    radius = 40 + 5 * rng.standard_normal((total, CANDIDATES))
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)
    columns = {
        "points": points,
        "edge_angle": np.broadcast_to(angle + np.pi / 2, (total, CANDIDATES)),
        "curvature": rng.standard_normal((total, CANDIDATES)) / 40,
        "windows": rng.standard_normal((total, CANDIDATES, WINDOW, 2)),
        "area": np.full(total, np.pi * 40**2) + rng.random(total),
        "local": rng.standard_normal((total, CANDIDATES, TEXTURE)),
        "whole": rng.standard_normal((total, TEXTURE)),
        "pose": rng.standard_normal((total, 3)) * 100,
        "meets_point": points,
    }
    tensors = {name: torch.tensor(value, dtype=torch.float32) for name, value in columns.items()}
    meets = torch.tensor(rng.integers(0, min(pieces), (total, CANDIDATES)))
    return Batch(tuple(pieces), **tensors, meets_piece=meets).to(device)


def sample(network: ReassembleNet, batch: Batch, steps: int, eta: float = 0.0) -> None:
    tokens = network.describe(batch, network.choose(batch))
    network.sample(tokens, true_vectors(batch), steps, torch.Generator().manual_seed(0), eta)


def step(network: ReassembleNet, batch: Batch, trunk: TextureEncoder | None = None) -> None:
    """Forward and backward; with a trunk, its features are computed and trained as well."""
    if trunk is not None:
        chosen = network.choose(batch)
        patches = torch.randint(0, 255, (len(chosen.piece), 32, 32, 4), dtype=torch.uint8)
        features = trunk(patches.to(batch.area.device))
        local = torch.zeros_like(batch.local).index_put((chosen.piece, chosen.candidate), features)
        batch = replace(batch, local=local)
    losses = network.loss(batch, LossConfig(), torch.Generator().manual_seed(0))
    losses["loss"].backward()
    network.zero_grad()


def figure(name: str, device: str, action: Callable[..., None], *given: object) -> float:
    """Prints seconds and memory of the second of two runs."""
    with torch.set_grad_enabled(name.startswith("training")):
        action(*given)
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        action(*given)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    memory = (
        torch.cuda.max_memory_allocated() / 2**20
        if device == "cuda"
        else psutil.Process().memory_info().rss / 2**20
    )
    print(f"{name}: {seconds:.2f} s, {memory:.0f} MiB", flush=True)
    return seconds


if __name__ == "__main__":
    main()
