"""What baselines share that find poses by diffusion: the noise, the way back out of it, and the run
from fragments to an assembly.

Each piece may carry several copies of its pose vector (`diffusion.frames`), each with noise of its
own: tensors are (P, V, 4), with V = 1 where a piece has one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from diffusers import DDIMScheduler
from numpy.typing import NDArray
from torch import Tensor

from reassembly.config import LossConfig
from reassembly.diffusion.batch import Batch
from reassembly.diffusion.frames import to_frame, unit
from reassembly.diffusion.noise import add_noise, timesteps
from reassembly.errors import InputError
from reassembly.keypoints.describe import centred_pose
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Fragment, Puzzle
from reassembly.solvers.base import ProgressCallback, report
from reassembly.solvers.reassemblenet import agreements, poses_of
from reassembly.solvers.settings import Device, check_counts, check_device_here

__all__ = [
    "DiffusionSolver",
    "check_heads",
    "noisy_poses",
    "pose_losses",
    "repeated",
    "sampled",
]

Floats = NDArray[np.float64]

PREVIEWS = 10
SEEN, DENOISED = 0.25, 0.98
"""Fractions of progress at the ends of two stages."""


# Noise and the way back


def noisy_poses(
    scheduler: DDIMScheduler, clean: Tensor, noise: Tensor, t: Tensor, fixed: Tensor
) -> Tensor:
    """The forward process; fixed pieces carry no noise.

    Args:
        clean: (P, 4) pose vectors.
        noise: (P, V, 4), standard normal.
        t: (P,) long.
        fixed: (P,) bool.

    Returns:
        (P, V, 4).
    """
    spread = clean[:, None].expand_as(noise)
    noisy = add_noise(scheduler, spread, noise, t)
    return torch.where(fixed[:, None, None], spread, noisy)


def pose_losses(
    predicted: Tensor, clean: Tensor, fixed: Tensor, weights: LossConfig
) -> dict[str, Tensor]:
    """Mean squares of translation and rotation over the pieces that are not fixed, and `loss`,
    their weighted sum.

    Args:
        predicted: (P, V, 4) pose vectors; clean: (P, 4); fixed: (P,) bool.
    """
    free = ~fixed
    error = (predicted - clean[:, None]).square().mean(1)
    error = (error * free[:, None]).sum(0) / free.sum().clamp_min(1)
    translation, rotation = error[:2].sum(), error[2:].sum()
    total = weights.translation * translation + weights.rotation * rotation
    return {"loss": total, "translation": translation, "rotation": rotation}


@torch.no_grad()
def sampled(
    scheduler: DDIMScheduler,
    predict: Callable[[Tensor, Tensor], Tensor],
    fresh: Callable[[], Tensor],
    given: Tensor,
    fixed: Tensor,
    steps: int,
    eta: float = 0.0,
    step_done: Callable[[int, Tensor], None] | None = None,
) -> Tensor:
    """The reverse process; fixed pieces stay where they are in every step.

    Args:
        predict: noisy pose vectors (P, V, 4) and times (P,) long to x0 (P, V, 4).
        fresh: gives noise (P, V, 4).
        given, fixed, steps, eta, step_done: see `diffusion.network.PoseNetwork.sample_poses`.

    Returns:
        (P, 4), with unit rotations: the mean over each piece's copies.
    """
    stays, lying = fixed[:, None, None], given[:, None]
    x = torch.where(stays, lying, fresh())
    clean = given
    for number, t in enumerate(timesteps(scheduler, steps)):
        x0 = predict(x, torch.full((len(x),), t, device=x.device))
        noise = fresh() if eta > 0 else None
        x = scheduler.step(x0, t, x, eta=eta, variance_noise=noise).prev_sample
        x = torch.where(stays, lying, x)
        clean = torch.where(fixed[:, None], given, x0.mean(1))
        clean = torch.cat([clean[:, :2], unit(clean[:, 2:])], -1)
        if step_done is not None:
            step_done(number, clean)
    return clean


def check_heads(system: str, width: int, heads: int) -> None:
    """Raises `InputError` unless the heads of attention share the width evenly."""
    if heads < 1 or width < 2 or width % heads or width % 2:
        raise InputError(
            f"{system}.width is {width} and {system}.heads {heads}",
            "Give an even width that is a multiple of heads",
        )


# From fragments to an assembly


@dataclass(frozen=True, eq=False)
class _Frame:
    """Where a puzzle is denoised: in the frame of its largest piece, or of the largest locked."""

    scale_mm: float
    """Square root of the total area: the unit of translations."""
    origin: tuple[float, float, float]
    """x_mm and y_mm of that piece's centroid, and its rotation in radians."""
    fixed: NDArray[np.bool_]
    """(P,): pieces that stay."""
    given: Tensor
    """(P, 4) pose vectors of the pieces that stay; the origin for all others."""


def _frame_of(fragments: Sequence[Fragment], locked: Mapping[str, Pose]) -> _Frame:
    area = np.array([fragment.area_mm2 for fragment in fragments])
    lies = np.array([fragment.id in locked or not locked for fragment in fragments])
    anchor = int(np.where(lies, area, 0.0).argmax())
    fixed = lies if locked else np.arange(len(area)) == anchor
    lying = [
        centred_pose(fragment, locked[fragment.id]) if fragment.id in locked else None
        for fragment in fragments
    ]
    origin = lying[anchor] or (0.0, 0.0, 0.0)
    scale_mm = math.sqrt(area.sum())
    given = to_frame(
        torch.tensor([origin if pose is None else pose for pose in lying], dtype=torch.float64),
        torch.tensor([origin] * len(lying), dtype=torch.float64),
        torch.full((len(lying),), scale_mm, dtype=torch.float64),
    )
    return _Frame(scale_mm, origin, fixed, given.float())


class DiffusionSolver(ABC):
    """A network that denoises poses, as a solver.

    Every piece is placed, in one island. The first sample is the answer, with no search added; the
    confidence of a piece is the share of the other samples that agree with it, which is within 10
    degrees and a fifth of the piece's diameter. The piece that all others are placed by has the
    mean of theirs. One sample knows no confidence.
    """

    def __init__(
        self, network: Any, sha256: str, *, steps: int, samples: int, device: Device
    ) -> None:
        """Args:
        network: a `diffusion.network.PoseNetwork` whose `config` has `train_steps`.
        sha256: of its weights.
        """
        check_counts(steps=steps, samples=samples)
        check_device_here(device)
        longest = network.config.train_steps
        if steps > longest:
            raise InputError(f"steps is {steps}", f"These weights take at most {longest} steps")
        self.model = network.to(device)
        self.steps, self.samples, self.device = steps, samples, device
        self.weights_hash = sha256
        self.parameters = sum(p.numel() for p in network.parameters())

    @abstractmethod
    def look(self, fragment: Fragment) -> dict[str, NDArray[Any]]:
        """Columns of a `Batch`, with one row: what the network sees of a piece."""

    @abstractmethod
    def at_once(self, pieces: int) -> int:
        """How many samples of a puzzle are drawn together."""

    def solve(
        self,
        puzzle: Puzzle,
        *,
        seed: int = 0,
        locked: Mapping[str, Pose] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Assembly:
        """See `solvers.base.Solver`."""
        locked = dict(locked or {})
        if len(locked) == len(puzzle):
            return Assembly.of(puzzle, locked, confidence=dict.fromkeys(locked, 1.0))
        fragments = puzzle.fragments
        frame = _frame_of(fragments, locked)
        at_once = min(self.at_once(len(fragments)), self.samples)

        def assembled(vectors: Floats, confidence: Mapping[str, float] | None = None) -> Assembly:
            poses = poses_of(vectors, fragments, frame.scale_mm, frame.origin)
            return Assembly.of(puzzle, {**poses, **locked}, confidence=confidence)

        seen = []
        for number, fragment in enumerate(fragments):
            report(progress, SEEN * number / len(fragments), "looking")
            seen.append(self.look(fragment))
        columns = {
            name: torch.from_numpy(np.concatenate([part[name] for part in seen]))
            for name in seen[0]
        }
        batch = Batch((len(fragments),), **columns).to(self.device)

        generator = torch.Generator().manual_seed(seed)
        every = max(1, self.steps // PREVIEWS)
        found: list[Floats] = []
        report(progress, SEEN, "denoising")
        # Not inference_mode: layouts are cached, and could not be used for training any more.
        with torch.no_grad():
            while len(found) < self.samples:
                count, before = min(at_once, self.samples - len(found)), len(found)

                def step_done(
                    number: int, clean: Tensor, count: int = count, before: int = before
                ) -> None:
                    done = (before + count * (number + 1) / self.steps) / self.samples
                    shown = progress is not None and before == 0 and (number + 1) % every == 0
                    preview = assembled(_numbers(clean[: len(fragments)])) if shown else None
                    report(progress, SEEN + (DENOISED - SEEN) * done, "denoising", preview)

                clean = self.model.sample_poses(
                    repeated(batch, count),
                    frame.given.to(self.device).repeat(count, 1),
                    torch.from_numpy(frame.fixed).to(self.device).repeat(count),
                    self.steps,
                    generator,
                    step_done=step_done,
                )
                found += list(_numbers(clean).reshape(count, len(fragments), 4))
        if self.samples == 1:
            return assembled(found[0])
        area = np.array([fragment.area_mm2 for fragment in fragments])
        agree = agreements(np.stack(found), frame.scale_mm, 2 * np.sqrt(area / math.pi))
        trust = agree[0].mean(axis=0)
        trust[frame.fixed] = 1.0 if locked else trust[~frame.fixed].mean()
        confidence = {f.id: float(share) for f, share in zip(fragments, trust, strict=True)}
        return assembled(found[0], confidence)


def repeated(batch: Batch, count: int) -> Batch:
    """The same puzzles `count` times, one after the other."""
    if count == 1:
        return batch
    columns = {
        name: value.repeat(count, *[1] * (value.dim() - 1))
        for name, value in vars(batch).items()
        if isinstance(value, Tensor)
    }
    return Batch(batch.pieces * count, **columns)


def _numbers(vectors: Tensor) -> Floats:
    return vectors.double().cpu().numpy()
