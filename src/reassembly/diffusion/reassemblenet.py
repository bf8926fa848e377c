"""ReassembleNet, top to bottom: candidates, selection, features, noise, denoising, poses.

Numbers of equations and sections are those of the paper; docs/reassemblenet.md walks through them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from reassembly.config import LossConfig, ModelConfig
from reassembly.diffusion.batch import Batch, Layout
from reassembly.diffusion.denoiser import Denoised, Denoiser, Tokens
from reassembly.diffusion.frames import true_vectors, unit
from reassembly.diffusion.noise import DDIMScheduler, add_noise, make_scheduler, timesteps
from reassembly.keypoints.fps import farthest_order_batch
from reassembly.keypoints.pretraining import TEMPERATURES, keeping_logits, scores_loss
from reassembly.keypoints.selector import (
    KeypointSelector,
    complexity_counts,
    selector_inputs,
    spaced_order,
)

__all__ = ["Chosen", "ReassembleNet"]

WINDOW_UNIT_MM = 20.0
CODE = 96
"""Length of the codes by which outlines and textures are compared."""
CURVATURE_UNIT_MM = 5.0
MEET_MM = 5.0
"""How far apart two keypoints may lie, as a standard deviation, to count as meeting."""
MEET_FARTHEST_MM = 15.0
HOLD_MM = 12.0
"""How much of a break, to either side, a pair of keypoints holds together."""
OPPOSITION = 4.0
"""How exactly outlines run against each other where they meet, as a concentration: 30 degrees."""

LocalTexture = Callable[[Tensor, Tensor], Tensor]
"""Pieces (T,) and candidates (T,) to the texture around these candidates, (T, F)."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """The keypoints that were selected, T in all, piece by piece, in contour order."""

    piece: Tensor
    """(T,) long."""
    candidate: Tensor
    """(T,) long: which of the piece's N candidates."""
    gated: Tensor | None
    """(T, C): the selector's features times its gates; None for farthest point sampling."""
    scores: Tensor | None
    """(P, N): the selector's scores of all candidates."""
    layout: Layout


class ReassembleNet(nn.Module):
    """Learnable keypoints and diffusion over poses (Islam et al., ICCV 2025).

    Args:
        texture_dim: F, length of the encoder's features.
        window_points: W, points of an outline window.
    """

    def __init__(self, config: ModelConfig, texture_dim: int = 256, window_points: int = 36):
        super().__init__()
        self.config = config
        features, width = config.features, config.denoiser.width
        learned = config.keypoints.selector != "fps"
        self.selector = KeypointSelector() if learned else None
        if config.keypoints.selector == "frozen" and self.selector is not None:
            self.selector.requires_grad_(False)
        self.coordinates = nn.Linear(2, width)
        self.geometry = nn.Linear(2, width) if features.geometry else None
        self.windows = (
            nn.Sequential(nn.Linear(2 * window_points, width), nn.SiLU(), nn.Linear(width, width))
            if features.windows
            else None
        )
        self.shape_code = (
            nn.Sequential(
                nn.Linear(2 * window_points, 2 * width),
                nn.SiLU(),
                nn.Linear(2 * width, 2 * width),
                nn.SiLU(),
                nn.Linear(2 * width, CODE),
            )
            if features.windows and config.denoiser.mating
            else None
        )
        self.local = nn.Linear(texture_dim, width) if features.local else None
        self.paint_code = (
            nn.Linear(texture_dim, CODE) if features.local and config.denoiser.mating else None
        )
        self.whole = nn.Linear(texture_dim, width) if features.whole else None
        self.gated = nn.Linear(256, width) if learned else None
        self.denoiser = Denoiser(config.denoiser)
        self._scheduler: DDIMScheduler | None = None

    @property
    def graphable(self) -> bool:
        """Whether a training step is the same chain of kernels for all batches of one shape."""
        return not self.config.keypoints.adaptive and self.config.denoiser.dropout == 0

    # Section 3.2: which keypoints

    def choose(self, batch: Batch) -> Chosen:
        """Selects k of the N candidates of each piece, or a number that follows its outline."""
        pieces, candidates = batch.points.shape[:2]
        k = min(self.config.keypoints.k, candidates)
        counts = [k] * pieces
        if self.config.keypoints.adaptive:
            low, high = max(3, k // 2), min(2 * k, candidates)
            counts = complexity_counts(batch.points, low, high).tolist()
        layout = Layout.of(tuple(counts), batch.pieces, batch.points.device)
        nodes = scores = None
        if self.selector is None:
            order = farthest_order_batch(batch.points, max(counts))
        else:
            inputs = selector_inputs(batch.points, batch.curvature, batch.edge_angle)
            nodes, scores = self.selector.embed(inputs)
            spacing = self.config.keypoints.spacing_mm
            order = spaced_order(scores, batch.points, max(counts), spacing)
        numbers = torch.arange(max(counts), device=order.device)
        beyond = numbers >= layout.tokens_of_piece[:, None]
        ascending = order.masked_fill(beyond, candidates).sort(dim=1).values
        chosen = ascending[~beyond] if self.config.keypoints.adaptive else ascending.flatten()
        piece, gated = layout.piece_of_token, None
        if nodes is not None and scores is not None:
            gated = nodes[piece, chosen] * torch.tanh(scores[piece, chosen])[:, None]
        return Chosen(piece, chosen, gated, scores, layout)

    # Section 3.1: what is known of a keypoint

    def describe(
        self,
        batch: Batch,
        chosen: Chosen,
        fixed: Tensor | None = None,
        local: LocalTexture | None = None,
    ) -> Tokens:
        """Everything about the selected keypoints that does not change while poses do.

        Args:
            fixed: (P,) bool, pieces whose poses are given; the anchors when left out.
            local: gives the texture where the batch holds none.
        """
        piece, candidate = chosen.piece, chosen.candidate
        scale = batch.scale_mm[batch.puzzle_of_piece][piece]
        points = batch.points[piece, candidate] / scale[:, None]
        angle = batch.edge_angle[piece, candidate]
        normals = torch.stack([angle.sin(), -angle.cos()], -1)
        h = self.coordinates(points)
        if self.geometry is not None:
            curvature = (CURVATURE_UNIT_MM * batch.curvature[piece, candidate]).tanh()
            wrapped = torch.atan2(angle.sin(), angle.cos())
            h = h + self.geometry(torch.stack([curvature, wrapped / torch.pi], -1))
        codes: list[tuple[Tensor, Tensor]] = []
        if self.windows is not None:
            window = batch.windows[piece, candidate].to(h.dtype) / WINDOW_UNIT_MM
            h = h + self.windows(window.flatten(1))
            if self.shape_code is not None:
                # Across the break the same line runs the other way, and out is in.
                met = -window.flip(1)
                codes.append(
                    (
                        _code(self.shape_code, window.flatten(1)),
                        _code(self.shape_code, met.flatten(1)),
                    )
                )
        if self.local is not None:
            if batch.local is not None:
                texture = batch.local[piece, candidate]
            else:
                assert local is not None, "this model needs texture"
                texture = local(piece, candidate)
            h = h + self.local(texture.to(h.dtype))
            if self.paint_code is not None:
                code = _code(self.paint_code, texture.to(h.dtype))
                codes.append((code, code))
        if self.whole is not None:
            assert batch.whole is not None, "this model needs texture"
            h = h + self.whole(batch.whole.to(h.dtype))[piece]
        if self.gated is not None and chosen.gated is not None:
            h = h + self.gated(chosen.gated)
        fixed = batch.anchor if fixed is None else fixed
        shown, wanted = zip(*codes, strict=True) if codes else ((h[:, :0],), (h[:, :0],))
        both = torch.cat(shown, -1), torch.cat(wanted, -1)
        return Tokens(h, points, normals, both, fixed, chosen.layout)

    # Section 3.3: diffusion

    def draw(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Times and noise of one training step, on the generator's device: the CPU, so that a run
        repeats on any device.

        Returns:
            (B,) long, and standard normal numbers, (P, 4), or (P, N, 4) where each keypoint has
            its own.
        """
        steps = self.config.diffusion.train_steps
        t = torch.randint(steps, (len(batch.pieces),), generator=generator)
        pieces, candidates = batch.points.shape[:2]
        shape = (pieces, 4) if self._shared_noise else (pieces, candidates, 4)
        return t, torch.randn(shape, generator=generator)

    def noisy(self, clean: Tensor, tokens: Tokens, noise: Tensor, t: Tensor) -> Tensor:
        """The forward process: (P, 4) clean pose vectors to (T, 4) noisy ones at times t (P,).

        Fixed pieces carry no noise.
        """
        piece = tokens.layout.piece_of_token
        noisy = add_noise(self.scheduler, clean[piece], noise, t[piece])
        return torch.where(tokens.fixed[piece, None], clean[piece], noisy)

    @property
    def _shared_noise(self) -> bool:
        return self.config.diffusion.noise == "piece"

    def _noise(self, tokens: Tokens, generator: torch.Generator) -> Tensor:
        """(T, 4) to begin sampling from."""
        layout = tokens.layout
        shape = (layout.pieces if self._shared_noise else layout.count, 4)
        noise = torch.randn(shape, generator=generator, device=generator.device)
        noise = noise.to(tokens.points.device)
        return noise[layout.piece_of_token] if self._shared_noise else noise

    def denoise(self, tokens: Tokens, noisy: Tensor, t: Tensor) -> Denoised:
        """x0 as the network sees it at times t (P,), in steps of the noise process."""
        relative = (t + 1) / self.config.diffusion.train_steps
        relative = relative.masked_fill(tokens.fixed, 0.0)
        return self.denoiser(tokens, noisy, relative)  # type: ignore[no-any-return]

    def loss(
        self, batch: Batch, weights: LossConfig, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """The losses of one training step; `loss` is their weighted sum.

        Args:
            generator: gives times and noise; on the CPU, so that a run repeats on any device.
        """
        t, noise = self.draw(batch, generator)
        return self.loss_at(batch, weights, t.to(batch.area.device), noise.to(batch.area.device))

    def loss_at(
        self,
        batch: Batch,
        weights: LossConfig,
        t: Tensor,
        noise: Tensor,
        given: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """The losses of one training step at given times and noise, as `draw` returns them, on the
        batch's device; `loss` is their weighted sum.

        Args:
            given: (P,) bool, pieces whose poses are given besides those of the anchors.
        """
        chosen = self.choose(batch)
        fixed = batch.anchor if given is None else batch.anchor | given
        tokens = self.describe(batch, chosen, fixed)
        clean = true_vectors(batch)
        t = t[batch.puzzle_of_piece]
        noise = noise[chosen.piece] if self._shared_noise else noise[chosen.piece, chosen.candidate]
        denoised = self.denoise(tokens, self.noisy(clean, tokens, noise, t), t)
        piece = tokens.layout.piece_of_token
        free = ~tokens.fixed
        error = tokens.layout.piece_mean((denoised.vectors - clean[piece]).square())
        error = (error * free[:, None]).sum(0) / free.sum().clamp_min(1)
        losses = {"translation": error[:2].sum(), "rotation": error[2:].sum()}
        total = weights.translation * losses["translation"] + weights.rotation * losses["rotation"]
        if denoised.matches and weights.match > 0:
            targets = self._meetings(batch, chosen, tokens)
            by_layer = [_surprise(targets, layer) for layer in denoised.matches]
            losses["match"] = by_layer[-1]
            total = total + weights.match * torch.stack(by_layer).mean()
        if denoised.estimates and weights.layers > 0:
            offs = [_bounded(estimate, clean, free) for estimate in denoised.estimates]
            losses["layers"] = offs[-1]
            total = total + weights.layers * torch.stack(offs).mean()
        learnable = self.config.keypoints.selector == "learnable"
        if chosen.scores is not None and learnable and weights.shape > 0:
            k = self.config.keypoints.k
            kept = scores_loss(chosen.scores.float(), batch.points, k, TEMPERATURES[1])
            losses["shape"] = kept["loss"]
            total = total + weights.shape * losses["shape"]
        if chosen.scores is not None and learnable and weights.meet > 0:
            losses["meet"] = self._unmet(batch, chosen.scores.float())
            total = total + weights.meet * losses["meet"]
        return {"loss": total, **losses}

    def _unmet(self, batch: Batch, scores: Tensor) -> Tensor:
        """The expected share of all breaks, by length, that no kept keypoint holds together.

        One does if another is kept across from it, on the other side of the break and with the
        outline running the other way; it holds what is near it. Candidates are kept at random,
        see `keypoints.pretraining`.
        """
        assert batch.meets_point is not None and batch.pose is not None
        k = self.config.keypoints.k
        kept = keeping_logits(scores, k, TEMPERATURES[1]).sigmoid()
        broken, other = batch.across >= 0, batch.across.clamp_min(0)
        apart = (batch.points[other] - batch.meets_point[:, :, None]).norm(dim=-1)
        near = torch.exp(-0.5 * (apart / MEET_MM) ** 2) * broken[..., None]
        lies = batch.edge_angle - batch.pose[:, 2:]
        opposed = torch.exp(-OPPOSITION * (1 + torch.cos(lies[:, :, None] - lies[other])))
        met = 1 - torch.exp(-(near * opposed * kept[other]).sum(-1))
        along = (batch.points[:, :, None] - batch.points[:, None]).norm(dim=-1)
        number = torch.arange(along.shape[1], device=along.device)
        steps = along[:, number, number - 1]
        length = (steps + steps.roll(-1, dims=1)) * broken
        holds = torch.exp(-0.5 * (along / HOLD_MM) ** 2)
        holds = holds * (batch.across[:, :, None] == batch.across[:, None])
        held = 1 - torch.exp(-(holds * (kept * met)[:, None]).sum(-1))
        unheld: Tensor = 1 - (length * held).sum() / length.sum().clamp_min(1e-6)
        return unheld

    def _meetings(self, batch: Batch, chosen: Chosen, tokens: Tokens) -> list[Tensor]:
        """The true matches: for each group of puzzles (G, L, L + 1), rows that sum to one."""
        assert batch.meets_point is not None
        piece, candidate = chosen.piece, chosen.candidate
        partner = batch.across[piece, candidate]
        where = batch.meets_point[piece, candidate]
        points = batch.points[piece, candidate]
        targets = []
        for group in tokens.layout.by_puzzle:
            there = group.take(partner)[:, :, None] == group.take(piece)[:, None, :]
            apart = (group.take(where)[:, :, None] - group.take(points)[:, None]).norm(dim=-1)
            near = torch.exp(-0.5 * (apart / MEET_MM) ** 2)
            near = near * (there & (apart < MEET_FARTHEST_MM))
            total = near.sum(-1, keepdim=True)
            nothing = (total == 0).to(near.dtype)
            targets.append(torch.cat([near / total.clamp_min(1e-12), nothing], -1))
        return targets

    # Sampling

    @property
    def scheduler(self) -> DDIMScheduler:
        """The noise process."""
        if self._scheduler is None:
            self._scheduler = make_scheduler(self.config.diffusion.train_steps)
        return self._scheduler

    def sample_poses(
        self,
        batch: Batch,
        given: Tensor,
        fixed: Tensor | None,
        steps: int,
        generator: torch.Generator,
        eta: float = 0.0,
        step_done: Callable[[int, Tensor], None] | None = None,
    ) -> Tensor:
        """`sample` of a batch that holds its textures; `fixed` as of `describe`."""
        tokens = self.describe(batch, self.choose(batch), fixed)
        return self.sample(tokens, given, steps, generator, eta, step_done)

    @torch.no_grad()
    def sample(
        self,
        tokens: Tokens,
        given: Tensor,
        steps: int,
        generator: torch.Generator,
        eta: float = 0.0,
        step_done: Callable[[int, Tensor], None] | None = None,
        polish: int = 0,
    ) -> Tensor:
        """The reverse process: pose vectors out of noise.

        Args:
            given: (P, 4) pose vectors of the fixed pieces; others are ignored.
            eta: 0 for DDIM, which is deterministic; 1 for ancestral steps.
            polish: further steps when no noise is left: beyond the paper, few steps end where the
                network still expects noise, and it tells small errors only where there is none.
            step_done: called after every step with its number and the present x0 (P, 4).

        Returns:
            (P, 4), with unit rotations: the mean over each piece's keypoints.
        """
        layout, fixed = tokens.layout, tokens.fixed
        piece = layout.piece_of_token
        x = torch.where(fixed[piece, None], given[piece], self._noise(tokens, generator))
        clean = layout.piece_mean(x)
        for number, t in enumerate([*timesteps(self.scheduler, steps), *[0] * polish]):
            times = torch.full((layout.pieces,), t, device=x.device)
            x0 = self.denoise(tokens, x, times).vectors
            if self._shared_noise:
                x0 = layout.piece_mean(x0)[piece]
            fresh = self._noise(tokens, generator) if eta > 0 else None
            x = self.scheduler.step(x0, t, x, eta=eta, variance_noise=fresh).prev_sample
            x = torch.where(fixed[piece, None], given[piece], x)
            clean = torch.where(fixed[:, None], given, layout.piece_mean(x0))
            clean = torch.cat([clean[:, :2], unit(clean[:, 2:])], -1)
            if step_done is not None:
                step_done(number, clean)
        return clean


def _surprise(targets: list[Tensor], log_p: list[Tensor]) -> Tensor:
    """Cross entropy of the matches, the mean over all keypoints."""
    rows = sum(target.shape[0] * target.shape[1] for target in targets)
    parts = [
        (target * -found.clamp_min(-30.0)).sum()
        for target, found in zip(targets, log_p, strict=True)
    ]
    return torch.stack(parts).sum() / rows


def _code(network: nn.Module, inputs: Tensor) -> Tensor:
    """(T, CODE) of length one."""
    return F.normalize(network(inputs).float(), dim=-1)


def _bounded(estimate: Tensor, clean: Tensor, free: Tensor) -> Tensor:
    """How far poses are off, from 0 to 1 each: a piece that cannot be placed costs no more."""
    off = (estimate - clean).square()
    off = off[:, :2].sum(-1) / 0.1**2 + off[:, 2:].sum(-1) / 0.3**2
    return ((off / (1 + off)) * free).sum() / free.sum().clamp_min(1)
