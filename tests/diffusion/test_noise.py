import subprocess
import sys

import torch

from reassembly.diffusion.noise import add_noise, make_scheduler, timesteps

LOADS = """
import sys
from reassembly.weights import load_reassemblenet, load_texture_encoder
load_reassemblenet("reassemblenet-learnable"), load_texture_encoder("texture")
assert "torch._dynamo" not in sys.modules, "it takes as long to import as a puzzle to solve"
import torch
assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)) == 2
"""


def test_sampling_begins_where_there_is_nothing_but_noise():
    scheduler = make_scheduler(600)
    for steps in (1, 4, 20, 50):
        times = timesteps(scheduler, steps)
        assert times[0] == 599 and len(times) == steps and times == sorted(times, reverse=True)
    clean = torch.full((1000, 4), 3.0)
    noise = torch.randn(1000, 4, generator=torch.Generator().manual_seed(0))
    last = add_noise(scheduler, clean, noise, torch.full((1000,), 599))
    assert torch.allclose(last, noise, atol=0.02)
    first = add_noise(scheduler, clean, noise, torch.zeros(1000, dtype=torch.long))
    assert (first - clean).abs().max() < 0.2


def test_a_perfect_denoiser_is_believed_even_far_from_the_origin():
    scheduler = make_scheduler(600)
    clean = torch.tensor([[4.0, -3.0, 0.6, -0.8]])
    x = torch.randn(1, 4, generator=torch.Generator().manual_seed(1))
    for t in timesteps(scheduler, 10):
        x = scheduler.step(clean, t, x, eta=0.0).prev_sample
    assert torch.allclose(x, clean, atol=1e-5)


def test_torchs_compiler_is_left_out_until_somebody_wants_it():
    done = subprocess.run([sys.executable, "-c", LOADS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
