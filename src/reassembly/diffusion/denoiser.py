"""The denoiser: noisy poses and keypoint features in, clean poses out.

Tokens are keypoints. Each layer attends within the piece and, in parallel, over all keypoints of
the puzzle. Beyond the paper, a layer may end with a *mating*: it says which keypoints of different
pieces meet, and moves every piece to where its keypoints meet best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from reassembly.config import DenoiserConfig
from reassembly.diffusion.attention import attend, time_embedding
from reassembly.diffusion.batch import Layout
from reassembly.diffusion.frames import turn, unit

__all__ = ["Denoised", "Denoiser", "Mating", "Tokens"]


@dataclass(frozen=True, eq=False)
class Tokens:
    """The keypoints of a batch, T in all; lengths in units of `Batch.scale_mm`."""

    features: Tensor
    """(T, width): everything that does not change while poses are denoised."""
    points: Tensor
    """(T, 2) in the piece's own frame."""
    normals: Tensor
    """(T, 2) outward, unit length, in the piece's own frame."""
    codes: tuple[Tensor, Tensor]
    """(T, C) each: what a keypoint shows, and what a keypoint that meets it would show."""
    fixed: Tensor
    """(P,) bool: pieces whose pose is given, the anchor among them."""
    layout: Layout

    def repeated(self, count: int) -> Tokens:
        """Those of one puzzle `count` times, one after the other."""
        one, other = self.codes
        each, pieces = tuple(self.layout.tokens_of_piece.tolist()), self.layout.pieces
        return Tokens(
            self.features.repeat(count, 1),
            self.points.repeat(count, 1),
            self.normals.repeat(count, 1),
            (one.repeat(count, 1), other.repeat(count, 1)),
            self.fixed.repeat(count),
            Layout.of(each * count, (pieces,) * count, self.points.device),
        )


@dataclass(frozen=True, eq=False)
class Denoised:
    """What the denoiser says."""

    vectors: Tensor
    """(T, 4): the clean pose vector of its piece, by each keypoint."""
    estimates: list[Tensor]
    """(P, 4) of each mating layer."""
    matches: list[list[Tensor]]
    """Of each mating layer and each group of puzzles, (puzzles, L, L + 1) log-probabilities of what
    each keypoint meets; the last stands for nothing."""


class Denoiser(nn.Module):
    """Predicts x0 of every keypoint's pose vector."""

    def __init__(self, config: DenoiserConfig) -> None:
        super().__init__()
        width = config.width
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.pose = nn.Linear(4, width)
        self.fixed = nn.Embedding(2, width)
        self.place = nn.Linear(4, width, bias=False) if config.world or config.mating else None
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.matings = nn.ModuleList(
            Mating(width) for _ in range(config.layers if config.mating else 0)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 4)
        self.keep = nn.Linear(width, 2) if config.mating else None
        if self.keep is not None:
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.keep.weight)
            nn.init.constant_(self.keep.bias, 3.0)

    def forward(self, tokens: Tokens, noisy: Tensor, t: Tensor) -> Denoised:
        """Denoises.

        Args:
            noisy: (T, 4) pose vectors at time t.
            t: (P,) time of each piece, from 0 to 1; 0 for fixed pieces.
        """
        layout, piece = tokens.layout, tokens.layout.piece_of_token
        h = tokens.features + self.pose(noisy) + self.fixed(tokens.fixed.long())[piece]
        h = h + self.time(time_embedding(t, h.shape[-1]))[piece]
        estimate = layout.piece_mean(noisy)
        if self.place is not None:
            h = h + self.place(_placed(tokens, estimate))
        estimates, matches = [], []
        for number, layer in enumerate(self.layers):
            h = layer(h, layout)
            if self.matings:
                h, estimate, match = self.matings[number](h, tokens, estimate, t)
                estimates.append(estimate)
                matches.append(match)
        h = self.norm(h)
        out = self.head(h).float()
        if self.keep is not None:
            keep = self.keep(h).float().sigmoid().repeat_interleave(2, -1)
            out = out + keep * estimate[piece]
        return Denoised(out, estimates, matches)


class Layer(nn.Module):
    """Attention within pieces and over the puzzle, in parallel, then a feed-forward network."""

    def __init__(self, config: DenoiserConfig) -> None:
        super().__init__()
        width = config.width
        self.heads, self.dropout = config.heads, config.dropout
        self.norm = nn.LayerNorm(width)
        self.intra = nn.Linear(width, 3 * width)
        self.inter = nn.Linear(width, 3 * width)
        self.intra_out = nn.Linear(width, width)
        self.inter_out = nn.Linear(width, width)
        self.feedforward = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, config.feedforward * width),
            nn.SiLU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.feedforward * width, width),
        )

    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        u, dropout = self.norm(h), self.dropout if self.training else 0.0
        within = attend(self.intra(u), layout.by_piece, self.heads, dropout=dropout)
        across = attend(self.inter(u), layout.by_puzzle, self.heads, dropout=dropout)
        h = h + self.intra_out(within) + self.inter_out(across)
        fed: Tensor = self.feedforward(h)
        return h + fed


class Mating(nn.Module):
    """Which keypoints meet across a break, and where that puts each piece.

    Two keypoints i and j of different pieces meet with probability P_ij, over all j and nothing.
    What keypoint i says is: my point should come to the mean of the points j that it meets, as
    these lie now, and my outward normal should oppose theirs. The pose of a piece is the weighted
    least-squares answer to what its keypoints say, held back by the pose it had.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.sides = nn.Linear(width, 2 * width)
        self.nothing = nn.Linear(width, 1)
        self.weight = nn.Linear(width, 2)
        self.hold = nn.Linear(width, 2)
        self.nearness = nn.Sequential(nn.Linear(width, 32), nn.SiLU(), (pull := nn.Linear(32, 1)))
        self.likeness = nn.Parameter(torch.tensor(0.75))
        self.spread = nn.Parameter(torch.tensor(math.log(0.05)))
        self.lever = nn.Parameter(torch.tensor(math.log(0.05)))
        self.say = nn.Sequential(nn.Linear(12, width), nn.SiLU(), nn.Linear(width, width))
        nn.init.constant_(self.nothing.bias, 8.0)
        nn.init.constant_(pull.bias, -3.0)

    def forward(
        self, h: Tensor, tokens: Tokens, estimate: Tensor, t: Tensor
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Returns the new features, the new pose of each piece (P, 4), and the matches."""
        layout, piece = tokens.layout, tokens.layout.piece_of_token
        width = h.shape[-1]
        u = self.norm(h)
        nothing, weight = self.nothing(u), self.weight(u)
        hold = layout.piece_mean(self.hold(u)).float()
        near = F.softplus(self.nearness(time_embedding(t, width)).float())
        sides = self.sides(u).float() / width**0.25
        with torch.autocast(h.device.type, enabled=False):
            likeness = self.likeness.exp()
            one, other = (
                torch.cat([side, likeness * code.float()], -1)
                for side, code in zip(sides.chunk(2, -1), tokens.codes, strict=True)
            )
            now = _placed(tokens, estimate)
            trust = weight[:, 0].float().sigmoid().masked_fill(tokens.fixed[piece], 1.0)
            wanted: Tensor | None = None
            matches = []
            for group in layout.by_puzzle:
                log_p = self._match(
                    group.take(one),
                    group.take(other),
                    group.take(nothing.float()),
                    group.take(piece),
                    group.take(now[:, :2]),
                    group.take(near[piece]),
                )
                matches.append(log_p)
                answer = self._ask(log_p, group.take(now), group.take(trust))
                wanted = group.put(wanted, answer, layout.count)
            assert wanted is not None
            w = wanted[:, 4] * (weight[:, 1].float() + 2.0).sigmoid()
            estimate = self._solve(tokens, estimate, wanted[:, :4], w, F.softplus(hold - 3.0))
            moved = _placed(tokens, estimate)
            said = torch.cat(
                [
                    wanted[:, :2] - moved[:, :2],
                    wanted[:, 2:4],
                    moved,
                    wanted[:, 4:],
                    w[:, None],
                    wanted[:, :2].norm(dim=-1, keepdim=True),
                ],
                -1,
            )
        spoken: Tensor = self.say(said.to(u.dtype))
        return h + spoken, estimate, matches

    def _match(
        self, one: Tensor, other: Tensor, nothing: Tensor, piece: Tensor, at: Tensor, near: Tensor
    ) -> Tensor:
        """(G, L, L + 1) log-probabilities; symmetric before they are normalised."""
        logits = one @ other.transpose(1, 2)
        logits = logits + logits.transpose(1, 2)
        apart = (at[:, :, None] - at[:, None]).square().sum(-1).add(1e-8).sqrt()
        pull = (near + near.transpose(1, 2)) / 2
        logits = logits - pull * (20.0 * apart).clamp_max(10.0)
        same = piece[:, :, None] == piece[:, None, :]
        logits = logits.masked_fill(same, -torch.inf)
        return torch.cat([logits, nothing], -1).log_softmax(-1)

    def _ask(self, log_p: Tensor, now: Tensor, trust: Tensor) -> Tensor:
        """(G, L, 6): the wanted point and normal of each keypoint, the weight, and the spread."""
        p = log_p[..., :-1].exp()
        mutual = p * p.transpose(1, 2) * trust[:, None, :]
        w = mutual.sum(-1, keepdim=True)
        values = torch.cat([now, now[..., :2].square().sum(-1, keepdim=True)], -1)
        mean = mutual @ values / w.clamp_min(1e-6)
        variance = (mean[..., 4:] - mean[..., :2].square().sum(-1, keepdim=True)).clamp_min(0.0)
        tolerance = (2 * self.spread).exp()
        w = w * tolerance / (tolerance + variance)
        return torch.cat([mean[..., :2], -mean[..., 2:4], w, (variance + 1e-6).sqrt()], -1)

    def _solve(
        self, tokens: Tokens, old: Tensor, wanted: Tensor, w: Tensor, hold: Tensor
    ) -> Tensor:
        """Weighted least squares over each piece's keypoints; fixed pieces stay. (P, 4)."""
        layout, lever = tokens.layout, (2 * self.lever).exp()
        piece, w = layout.piece_of_token, w[:, None]
        sums = layout.piece_sum(torch.cat([w, w * tokens.points, w * wanted[:, :2]], -1))
        total = sums[:, :1] + hold[:, :1]
        from_centre = sums[:, 1:3] / total
        to_centre = (sums[:, 3:] + hold[:, :1] * old[:, :2]) / total
        arm = tokens.points - from_centre[piece]
        reach = wanted[:, :2] - to_centre[piece]
        votes = w * (_quotient(reach, arm) + lever * _quotient(wanted[:, 2:], tokens.normals))
        rotation = layout.piece_sum(votes)
        held = hold[:, :1] * _quotient(old[:, :2] - to_centre, -from_centre)
        rotation = unit(rotation + held + lever * hold[:, 1:] * unit(old[:, 2:]))
        position = to_centre - turn(from_centre, rotation)
        solved = torch.cat([position, rotation], -1)
        return torch.where(tokens.fixed[:, None], old, solved)


def _quotient(target: Tensor, source: Tensor) -> Tensor:
    """(..., 2): length-weighted (cos, sin) of the rotation from `source` to `target`."""
    (x, y), (u, v) = source.unbind(-1), target.unbind(-1)
    return torch.stack([x * u + y * v, y * u - x * v], -1)


def _placed(tokens: Tokens, estimate: Tensor) -> Tensor:
    """(T, 4): points and outward normals where the pose vectors (P, 4) put them."""
    vectors = estimate[tokens.layout.piece_of_token]
    rotation = unit(vectors[:, 2:])
    return torch.cat(
        [turn(tokens.points, rotation) + vectors[:, :2], turn(tokens.normals, rotation)], -1
    )
