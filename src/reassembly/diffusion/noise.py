"""The noise process, on diffusers' DDIM scheduler: cosine schedule, the network predicts x0."""

from __future__ import annotations

import sys

import torch
from torch import Tensor

__all__ = ["DDIMScheduler", "add_noise", "make_scheduler", "timesteps"]

COMPILER = "torch._dynamo"
# diffusers imports torch's compiler for a decorator that does nothing for us, and does without
# where it is not to be had. To import it takes as long as to denoise nine pieces. So it is not to
# be had while diffusers is imported; whoever wants it later gets it.
_hidden = COMPILER not in sys.modules
if _hidden:
    sys.modules[COMPILER] = None  # type: ignore[assignment]
try:
    from diffusers import DDIMScheduler
finally:
    if _hidden:
        del sys.modules[COMPILER]


def make_scheduler(train_steps: int) -> DDIMScheduler:
    """DDIM as the paper has it.

    The library's defaults would clip x0 to [-1, 1], which poses exceed, and begin sampling below
    the last step, where the network expects less noise than there is.
    """
    return DDIMScheduler(
        num_train_timesteps=train_steps,
        beta_schedule="squaredcos_cap_v2",
        prediction_type="sample",
        clip_sample=False,
        timestep_spacing="trailing",
        set_alpha_to_one=True,
    )


def timesteps(scheduler: DDIMScheduler, steps: int) -> list[int]:
    """Sets the scheduler up for that many steps and returns them, the noisiest first."""
    scheduler.set_timesteps(steps)
    return [int(t) for t in scheduler.timesteps]


def add_noise(scheduler: DDIMScheduler, clean: Tensor, noise: Tensor, t: Tensor) -> Tensor:
    """q(x_t | x_0) of the paper's forward process.

    Args:
        clean: (N, 4) pose vectors; noise: (N, 4), standard normal; t: (N,) long.
    """
    noisy: Tensor = scheduler.add_noise(clean, noise, t)
    return noisy.to(torch.float32)
