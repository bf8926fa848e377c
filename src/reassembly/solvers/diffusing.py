"""What solvers share that find poses by diffusion: the run from fragments to an assembly, and, for
the baselines, the noise and the way back out of it.

There, each piece may carry several copies of its pose vector (`diffusion.frames`), each with noise
of its own: tensors are (P, V, 4), with V = 1 where a piece has one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reassembly.config import LossConfig
from reassembly.diffusion.batch import Batch
from reassembly.diffusion.frames import to_frame, unit
from reassembly.diffusion.noise import DDIMScheduler, add_noise, timesteps
from reassembly.errors import InputError
from reassembly.keypoints.describe import centred_pose, describe
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Fragment, Puzzle
from reassembly.solvers.base import ProgressCallback, report
from reassembly.solvers.settings import Device, check_counts, check_device_here

__all__ = [
    "DENOISED",
    "SEEN",
    "Columns",
    "DiffusionSolver",
    "Run",
    "Sampler",
    "StepDone",
    "agreements",
    "check_heads",
    "noisy_poses",
    "outline_of",
    "pose_losses",
    "poses_of",
    "sampled",
]

Floats = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]
StepDone = Callable[[int, Tensor], None]

PREVIEWS = 10
SEEN, DENOISED = 0.25, 0.98
"""Fractions of progress at the ends of two stages."""
CLOSE_DEG = 10.0
CLOSE_DIAMETERS = 0.2
"""Two samples agree about a piece within this rotation and this many of its diameters."""


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
    step_done: StepDone | None = None,
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
class Run:
    """A puzzle while it is being solved: P pieces in the frame of the largest of them, or of the
    largest that is locked."""

    puzzle: Puzzle
    locked: Mapping[str, Pose]
    progress: ProgressCallback | None
    scale_mm: float
    """Square root of the total area: the unit of translations."""
    origin: tuple[float, float, float]
    """x_mm and y_mm of the centroid of the piece whose frame it is, and its rotation in radians."""
    fixed: Tensor
    """(P,) bool: pieces that stay."""
    given: Tensor
    """(P, 4) pose vectors of the pieces that stay; the origin for all others."""

    @classmethod
    def of(
        cls,
        puzzle: Puzzle,
        locked: Mapping[str, Pose],
        device: Device,
        progress: ProgressCallback | None = None,
    ) -> Run:
        """The run of a puzzle, of whose pieces not all are locked."""
        fragments = puzzle.fragments
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
        stays = torch.from_numpy(fixed).to(device)
        return cls(puzzle, locked, progress, scale_mm, origin, stays, given.float().to(device))

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        return self.puzzle.fragments

    def report(self, fraction: float, stage: str, preview: Assembly | None = None) -> None:
        """Calls `progress`, if there is one."""
        report(self.progress, fraction, stage, preview)

    def see(self, look: Callable[[Fragment], Columns], stage: str = "looking") -> Batch:
        """All pieces, by a function that gives one row of the columns of a `Batch` for each."""
        seen = []
        for number, fragment in enumerate(self.fragments):
            self.report(SEEN * number / len(self.fragments), stage)
            seen.append(look(fragment))
        columns = {
            name: torch.from_numpy(np.concatenate([part[name] for part in seen]))
            for name in seen[0]
        }
        return Batch((len(self.fragments),), **columns).to(self.given.device)

    def poses(self, vectors: Floats) -> dict[str, Pose]:
        """Of (P, 4) pose vectors."""
        return poses_of(vectors, self.fragments, self.scale_mm, self.origin)

    def assembled(self, vectors: Floats, confidence: Mapping[str, float] | None = None) -> Assembly:
        """The assembly of (P, 4) pose vectors; locked pieces are where they were."""
        poses = {**self.poses(vectors), **self.locked}
        return Assembly.of(self.puzzle, poses, confidence=confidence)


@dataclass(frozen=True, eq=False)
class Sampler:
    """What answers are drawn from, once the pieces of a puzzle have been looked at."""

    draw: Callable[[int, torch.Generator, StepDone], Tensor]
    """So many samples, (S * P, 4) pose vectors, one sample after the other."""
    at_once: int
    """Most samples that are drawn together."""


class DiffusionSolver(ABC):
    """A network that denoises poses, as a solver.

    Every piece is placed, in one island. The first sample is the answer, with no search added,
    unless `best` chooses another. The confidence of a piece is the share of the other samples that
    agree with it, which is within 10 degrees and a fifth of the piece's diameter. The piece that
    all others are placed by has the mean of theirs. One sample knows no confidence, but that of
    locked pieces.
    """

    looked = SEEN
    """Fraction of progress at which denoising begins."""
    compares = False
    """Whether `best` chooses, so that previews of later samples are worth showing too."""
    polish = 0
    """Further steps when no noise is left."""

    def __init__(
        self, network: Any, sha256: str, *, steps: int, samples: int, device: Device
    ) -> None:
        """Args:
        network: a `diffusion.network.PoseNetwork` with its `scheduler`.
        sha256: of its weights.
        """
        check_counts(steps=steps, samples=samples)
        check_device_here(device)
        longest = network.scheduler.config.num_train_timesteps
        if steps > longest:
            raise InputError(f"steps is {steps}", f"These weights take at most {longest} steps")
        self.model = network.to(device)
        self.steps, self.samples, self.device = steps, samples, device
        self.weights_hash = sha256
        self.parameters = sum(p.numel() for p in network.parameters())

    @abstractmethod
    def sampler(self, run: Run) -> Sampler:
        """Looks at the pieces; answers are drawn from what comes back."""

    def of_batch(self, batch: Batch, at_once: int, run: Run) -> Sampler:
        """The sampler of a network that needs a batch and nothing else."""

        def draw(count: int, generator: torch.Generator, step_done: StepDone) -> Tensor:
            drawn: Tensor = self.model.sample_poses(
                batch.repeated(count),
                run.given.repeat(count, 1),
                run.fixed.repeat(count),
                self.steps,
                generator,
                step_done=step_done,
            )
            return drawn

        return Sampler(draw, at_once)

    def best(self, vectors: Floats, agree: NDArray[np.bool_], run: Run) -> int:
        """Which of several samples (S, P, 4) is the answer; `agree` as of `agreements`."""
        return 0

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
        run = Run.of(puzzle, locked, self.device, progress)
        # Not inference_mode: layouts are cached, and could not be used for training any more.
        with torch.no_grad():
            vectors = self._drawn(run, self.sampler(run), torch.Generator().manual_seed(seed))
        if self.samples == 1:
            return run.assembled(vectors[0], dict.fromkeys(locked, 1.0))
        area = np.array([fragment.area_mm2 for fragment in puzzle.fragments])
        agree = agreements(vectors, run.scale_mm, 2 * np.sqrt(area / math.pi))
        best, fixed = self.best(vectors, agree, run), run.fixed.cpu().numpy()
        trust = agree[best].mean(axis=0)
        trust[fixed] = 1.0 if locked else trust[~fixed].mean()
        confidence = {f.id: float(t) for f, t in zip(puzzle.fragments, trust, strict=True)}
        return run.assembled(vectors[best], confidence)

    def _drawn(self, run: Run, sampler: Sampler, generator: torch.Generator) -> Floats:
        """All samples, (S, P, 4) pose vectors."""
        pieces, every = len(run.fragments), max(1, self.steps // PREVIEWS)
        found: list[Floats] = []
        run.report(self.looked, "denoising")
        while len(found) < self.samples:
            count, before = min(sampler.at_once, self.samples - len(found)), len(found)

            def step_done(
                number: int, clean: Tensor, count: int = count, before: int = before
            ) -> None:
                done = (before + count * (number + 1) / (self.steps + self.polish)) / self.samples
                shown = run.progress is not None and (number + 1) % every == 0
                shown = shown and (self.compares or before == 0)
                preview = run.assembled(_numbers(clean[:pieces])) if shown else None
                run.report(self.looked + (DENOISED - self.looked) * done, "denoising", preview)

            clean = sampler.draw(count, generator, step_done)
            found += list(_numbers(clean).reshape(count, pieces, 4))
        return np.stack(found)


def outline_of(fragment: Fragment) -> Columns:
    """What a `Batch` holds of a piece's outline, with one row."""
    seen = describe([fragment])
    names = ("points", "edge_angle", "curvature", "windows", "area")
    return {name: np.asarray(getattr(seen, name)) for name in names}


def poses_of(
    vectors: Floats,
    fragments: Sequence[Fragment],
    scale_mm: float,
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> dict[str, Pose]:
    """Undoes `diffusion.frames.to_frame`: pose vectors back to poses of whole fragments.

    Args:
        vectors: (P, 4), as `diffusion.frames` says; rotations of any length.
        scale_mm: the unit of their translations.
        origin: x_mm and y_mm of the anchor's centroid, and its rotation in radians.
    """
    anchor = Pose(*origin)
    poses = {}
    for fragment, (x, y, cos, sin) in zip(fragments, vectors.tolist(), strict=True):
        centred = anchor @ Pose(x * scale_mm, y * scale_mm, math.atan2(sin, cos))
        poses[fragment.id] = centred @ Pose(*-fragment.centroid_mm)
    return poses


def agreements(vectors: Floats, scale_mm: float, diameter_mm: Floats) -> NDArray[np.bool_]:
    """Of each sample, which other samples agree with it about which piece.

    Args:
        vectors: (S, P, 4) pose vectors in one frame.
        diameter_mm: (P,) of the pieces.

    Returns:
        (S, S - 1, P).
    """
    shift_mm = np.linalg.norm(vectors[:, None, :, :2] - vectors[None, :, :, :2], axis=-1) * scale_mm
    turns = vectors[..., 2] + 1j * vectors[..., 3]
    turn_deg = np.degrees(np.abs(np.angle(turns[:, None] * turns[None].conj())))
    agree = (turn_deg < CLOSE_DEG) & (shift_mm < CLOSE_DIAMETERS * diameter_mm)
    count = len(vectors)
    others = ~np.eye(count, dtype=bool)
    return np.asarray(agree[others].reshape(count, count - 1, -1))


def _numbers(vectors: Tensor) -> Floats:
    return vectors.double().cpu().numpy()
