"""PairingNet: contour points that match say which pieces join and how, after Zhou et al. (2024).

A graph network over the points of each outline sees its shape and its paint; a linear transformer
sums a piece up in a code that finds its likely neighbours; the two kinds of features, weighed
against each other point by point, give each pair of pieces a matrix of how well points match.
Poses come from the matrix, and pieces are joined from the surest pair on.

Two outlines run against each other where they meet. Each piece is therefore encoded twice by one
network: as it is, and as its neighbour would run along it. Points belong together where what one
piece has looks like what the other one lacks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import combinations

import numpy as np
import shapely
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from reassembly.config import LossConfig, PairingNetConfig
from reassembly.diffusion.batch import Batch, turn
from reassembly.errors import InputError
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Puzzle
from reassembly.solvers.base import ProgressCallback, report
from reassembly.solvers.pairing_poses import (
    Group,
    Joiner,
    Line,
    Motion,
    line_of,
    motion_of,
    pose_of,
)
from reassembly.solvers.settings import Device, check_counts, check_device_here
from reassembly.training.views import PAINT_PX, contour
from reassembly.weights import load_network

__all__ = ["Codes", "PairingNet", "Pairingnet", "true_matches"]

Floats = NDArray[np.float64]

WINDOW_MM = (-18.0, -14.0, -11.0, -8.0, -6.0, -4.0, -2.0, 2.0, 4.0, 6.0, 8.0, 11.0, 14.0, 18.0)
"""Where along the outline a point sees its shape."""
WINDOW_SCALE_MM = 4.0
TANGENT_MM = 3.0
"""Tangents are chords that reach so far to either side."""
TYPICAL_STEP_MM = 2.0
EDGES = (-2, -1, 0, 1, 2)
SPACINGS_MM = (2.0, 4.0, 8.0)
"""Edges of the graph, in these lengths; layer after layer takes the next one."""
POOLED = 4
"""Neighbouring points that the linear transformer sees as one."""
PAIRS = 1.25
"""Pairs of pieces whose points are matched in a training step, for each piece."""
ADJACENT_POINTS = 3
"""So many candidate keypoints that meet the other piece make two pieces adjacent."""
PREFERENCE = 0.5
"""How much likelier adjacent pairs are chosen, on the scale of a uniform random number."""
MET_MM, ALONE_MM = 4.5, 6.0
"""Points across a break lie closer together than the one; further than the other, none does. Worn
breaks gape by up to 4 mm or so; across more than that may lie a sliver of a third piece."""
FOCUS = 1.0
"""Exponent of the focal loss."""
SURE = 0.5
"""Matches above it are counted in validation."""


class _Ring(nn.Module):
    """A residual graph convolution over the points of closed outlines."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gather = nn.Linear(len(EDGES) * width, width)
        self.out = nn.Linear(width, width)

    def forward(self, features: Tensor, neighbours: Tensor) -> Tensor:
        """(P, M, C), and (P * M * len(EDGES),) rows of (P * M, C), to (P, M, C)."""
        flat = self.norm(features).flatten(0, 1).index_select(0, neighbours)
        around = flat.view(*features.shape[:2], -1)
        moved: Tensor = self.out(F.relu(self.gather(around)))
        return features + moved


class _LinearAttention(nn.Module):
    """A transformer layer whose attention costs as much as its sequence is long."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm_out = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )

    def forward(self, features: Tensor) -> Tensor:
        """(P, M, C) to the same."""
        pieces, points, _ = features.shape
        parts = self.qkv(self.norm(features)).view(pieces, points, 3, self.heads, -1)
        query, key, value = parts.unbind(2)
        query, key = F.elu(query) + 1, F.elu(key) + 1
        memory = torch.einsum("pmhc,pmhd->phcd", key, value) / points
        total = torch.einsum("pmhc,phc->pmh", query, key.mean(1))
        seen = torch.einsum("pmhc,phcd->pmhd", query, memory) / (total[..., None] + 1e-4)
        features = features + self.out(seen.flatten(2))
        fed: Tensor = self.feed(self.norm_out(features))
        return features + fed


@dataclass(frozen=True, eq=False)
class Codes:
    """What the network makes of P pieces with M contour points each; all codes of length one."""

    has: Tensor
    """(P, M, C) of the points as they are."""
    lacks: Tensor
    """(P, M, C) of the same points as seen from across."""
    piece_has: Tensor
    """(P, C) of whole pieces."""
    piece_lacks: Tensor
    """(P, C)."""


class PairingNet(nn.Module):
    """Codes of contour points for pair matching, and of pieces for pair searching."""

    graphable = True
    window: Tensor

    def __init__(self, config: PairingNetConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        if width < 1 or config.heads < 1 or width % config.heads:
            raise InputError(
                f"pairingnet.width is {width} with {config.heads} heads",
                "Give a width that the number of heads divides",
            )
        self.shape_in = nn.Linear(2 * len(WINDOW_MM) + 1, width)
        self.paint_in = nn.Sequential(
            nn.Linear(PAINT_PX * PAINT_PX * 4, width), nn.ReLU(), nn.Linear(width, width)
        )
        self.shape_rings = nn.ModuleList(_Ring(width) for _ in range(config.layers))
        self.paint_rings = nn.ModuleList(_Ring(width) for _ in range(config.layers))
        self.shape_norm, self.paint_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.gate = nn.Sequential(
            nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width), nn.Sigmoid()
        )
        self.point_out = nn.Linear(width, width)
        self.pool = nn.ModuleList(
            _LinearAttention(width, config.heads) for _ in range(config.pool_layers)
        )
        self.piece_out = nn.Linear(width, width)
        self.sharpness = nn.Parameter(torch.tensor([math.log(12.0), math.log(8.0)]))
        """Logarithms of the scales of similarities, of points and of pieces."""
        self.register_buffer("window", torch.tensor(WINDOW_MM), persistent=False)
        self.nothing = nn.Parameter(torch.tensor(6.0))
        """Logit of a point that matches none."""

    def codes(self, outlines: Tensor, paint: Tensor) -> Codes:
        """Encodes pieces, (P, M, 2) mm and (P, M, s, s, 4) uint8, both ways round."""
        # Backwards, the columns of a patch, which run along the outline, change places too.
        both = torch.cat([outlines, outlines.flip(1)])
        colours = torch.cat([paint, paint.flip(1, 3)])
        points, pieces = self._encode(both, colours)
        has, lacks = points.chunk(2)
        return Codes(has, lacks.flip(1), *pieces.chunk(2))

    def _encode(self, outlines: Tensor, paint: Tensor) -> tuple[Tensor, Tensor]:
        count, points, _ = outlines.shape
        step = (outlines.roll(-1, 1) - outlines).norm(dim=-1).mean(1).clamp_min(1e-3)
        shape = self.shape_in(_seen_shape(outlines, step, self.window))
        colour = self.paint_in(_seen_paint(paint))
        first = torch.arange(count, device=step.device)[:, None, None] * points
        place = torch.arange(points, device=step.device)[:, None]
        edges = torch.arange(EDGES[0], EDGES[-1] + 1, device=step.device)
        neighbours = []
        for spacing in SPACINGS_MM[: self.config.layers]:
            hops = (edges * (spacing / step[:, None])).round().long()
            neighbours.append((first + (place + hops[:, None]) % points).flatten())
        for number, (one, other) in enumerate(zip(self.shape_rings, self.paint_rings, strict=True)):
            rows = neighbours[number % len(neighbours)]
            shape, colour = one(shape, rows), other(colour, rows)
        shape, colour = self.shape_norm(shape), self.paint_norm(colour)
        weight = self.gate(torch.cat([shape, colour], -1))
        fused = weight * shape + (1 - weight) * colour
        pooled = fused.unflatten(1, (-1, POOLED)).mean(2)
        for layer in self.pool:
            pooled = layer(pooled)
        return _unit(self.point_out(fused)), _unit(self.piece_out(pooled.mean(1)))

    def matches(self, codes: Codes, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """How points of pieces `one` (Q,) match those of pieces `other` (Q,).

        Returns:
            Logarithms of the probabilities that each point of `one` belongs to each point of
            `other`, (Q, M, M + 1), the last standing for none; and the other way round.
        """
        similar = torch.einsum("qmc,qnc->qmn", codes.has[one], codes.lacks[other])
        similar = similar + torch.einsum("qmc,qnc->qmn", codes.lacks[one], codes.has[other])
        logits = similar.float() * (self.sharpness[0].exp() / 2)
        none = self.nothing.expand(*logits.shape[:2], 1)
        forth = torch.cat([logits, none], -1).log_softmax(-1)
        return forth, torch.cat([logits.mT, none], -1).log_softmax(-1)

    def similarity(self, codes: Codes) -> Tensor:
        """(P, P) from -1 to 1: how likely pieces are neighbours."""
        one = codes.piece_has @ codes.piece_lacks.mT
        return ((one + one.mT) / 2).float()

    # Training

    def draw(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Times, which play no part, and which pairs are matched: (P, largest number of pieces)."""
        chances = torch.rand(len(batch.area), max(batch.pieces), generator=generator)
        return torch.zeros(len(batch.pieces)), chances

    def loss_at(
        self,
        batch: Batch,
        weights: LossConfig,
        t: Tensor,
        noise: Tensor,
        given: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """See `diffusion.network.PoseNetwork`; no poses are given to this network."""
        assert batch.contour is not None and batch.contour_paint is not None
        codes = self.codes(batch.contour, batch.contour_paint)
        adjacent = _adjacent(batch)
        one, other, counts = _pairs(batch, adjacent, noise)
        match = self._match_loss(batch, codes, one, other, counts)
        search = _search_loss(
            self.similarity(codes) * self.sharpness[1].exp(), _adjacent_in_all(batch, adjacent)
        )
        loss = weights.match * match + self.config.search * search
        return {"loss": loss, "match": match, "search": search}

    def _match_loss(
        self, batch: Batch, codes: Codes, one: Tensor, other: Tensor, counts: Tensor
    ) -> Tensor:
        truth = true_matches(batch, one, other)
        loss = torch.zeros((), device=counts.device)
        for chances, (right, met, alone) in zip(
            self.matches(codes, one, other), truth, strict=True
        ):
            hit = chances[..., :-1].masked_fill(~right, -1e4).logsumexp(-1)
            miss = chances[..., -1]
            for value, rows in ((hit, met), (miss, alone)):
                share = rows * counts[:, None]
                focal = -((1 - value.exp()).clamp_min(0) ** FOCUS) * value
                loss = loss + (focal * share).sum() / share.sum().clamp_min(1)
        return loss / 2

    @torch.no_grad()
    def figures(self, batch: Batch) -> dict[str, float]:
        """What is right on these puzzles.

        Returns:
            `found`, the share of true matches whose likeliest point is a right one; `precision`,
            the share of right ones among matches likelier than one half that are each other's
            best; `searched`, the share of pieces whose likeliest neighbour is one.
        """
        assert batch.contour is not None and batch.contour_paint is not None
        codes = self.codes(batch.contour, batch.contour_paint)
        adjacent = _adjacent(batch)
        one, other, counts = _pairs(batch, adjacent, adjacent.float())
        true = hits = sure = right_and_sure = 0.0
        for start in range(0, len(one), 64):
            part = slice(start, start + 64)
            forth, back_again = self.matches(codes, one[part], other[part])
            (right, met, _), _ = true_matches(batch, one[part], other[part])
            met = met & counts[part, None]
            best = forth[..., :-1].argmax(-1, keepdim=True)
            correct = right.gather(-1, best)[..., 0] & met
            returns = back_again[..., :-1].argmax(-1).gather(1, best[..., 0])
            mutual = returns == torch.arange(best.shape[1], device=best.device)
            likely = forth.gather(-1, best)[..., 0].exp() > SURE
            claimed = mutual & likely & counts[part, None]
            true, hits = true + float(met.sum()), hits + float(correct.sum())
            sure += float(claimed.sum())
            right_and_sure += float((claimed & correct).sum())
        among = self.similarity(codes).fill_diagonal_(-2.0)
        likeliest = among.argmax(1, keepdim=True)
        searched = _adjacent_in_all(batch, adjacent).gather(1, likeliest).float().mean()
        return {
            "found": hits / max(true, 1.0),
            "precision": right_and_sure / max(sure, 1.0),
            "searched": float(searched),
        }


def _unit(codes: Tensor) -> Tensor:
    return F.normalize(codes.float(), dim=-1, eps=1e-6)


def _along(outlines: Tensor, step: Tensor, offsets_mm: Tensor) -> Tensor:
    """(P, M, K, 2): the points of outlines (P, M, 2) so far along from each of their points."""
    count, points, _ = outlines.shape
    ahead = offsets_mm / step[:, None]
    whole = ahead.floor()
    place = torch.arange(points, device=step.device)[:, None]
    index = (place + whole.long()[:, None]) % points
    pieces = torch.arange(count, device=step.device)[:, None, None]
    here, there = outlines[pieces, index], outlines[pieces, (index + 1) % points]
    part = (ahead - whole)[:, None, :, None]
    return here + part * (there - here)


def _tangents(outlines: Tensor, step: Tensor) -> Tensor:
    """(P, M, 2), of length one."""
    ends = _along(outlines, step, TANGENT_MM * (2.0 * torch.arange(2, device=step.device) - 1))
    return F.normalize(ends[:, :, 1] - ends[:, :, 0], dim=-1, eps=1e-6)


def _seen_shape(outlines: Tensor, step: Tensor, offsets: Tensor) -> Tensor:
    """(P, M, 2 K + 1): the outline at (K,) mm along it from each point, in the point's tangent
    frame, and the step."""
    around = _along(outlines, step, offsets) - outlines[:, :, None]
    # Into the tangent frame: a turn by the tangent's own angle, counter-clockwise with y up.
    seen = turn(around, _tangents(outlines, step)[:, :, None])
    seen = seen - torch.stack([offsets, torch.zeros_like(offsets)], -1)
    size = (step / TYPICAL_STEP_MM).log()[:, None, None].expand(-1, outlines.shape[1], -1)
    return torch.cat([seen.flatten(2) / WINDOW_SCALE_MM, size], -1)


def _seen_paint(paint: Tensor) -> Tensor:
    """(P, M, s, s, 4) uint8 to (P, M, 4 s s): colours about grey, none where there is no paint."""
    values = paint.float() / 255
    cover = values[..., 3:]
    return torch.cat([(values[..., :3] - 0.5) * cover, cover - 0.5], -1).flatten(2)


def true_matches(
    batch: Batch, one: Tensor, other: Tensor
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Which contour points of pieces `one` (Q,) met which of pieces `other` (Q,).

    Two points meet where, in the true poses, each is about the nearest of its outline to the other,
    they lie close and their outlines run against each other.

    Returns:
        From `one` to `other`, and the other way round: the right points (Q, M, M), the points
        (Q, M) that meet one, and those that are far from all. The rest is in doubt.
    """
    assert batch.contour is not None and batch.pose is not None
    rotation = torch.stack([batch.pose[:, 2].cos(), batch.pose[:, 2].sin()], -1)
    placed = turn(batch.contour.float(), rotation[:, None]) + batch.pose[:, None, :2]
    step = (placed.roll(-1, 1) - placed).norm(dim=-1).mean(1).clamp_min(1e-3)
    tangents = _tangents(placed, step)
    a, b = placed[one], placed[other]
    x, y = (a[:, :, None, axis] - b[:, None, :, axis] for axis in (0, 1))
    apart = torch.hypot(x, y)
    forth = _one_way(apart, a, tangents[one], tangents[other], step[one], step[other])
    again = _one_way(apart.mT, b, tangents[other], tangents[one], step[other], step[one])
    return forth, again


def _one_way(
    apart: Tensor, points: Tensor, own: Tensor, theirs: Tensor, step: Tensor, their_step: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    least, nearest = apart.min(-1)
    returned = apart.min(1).indices.gather(1, nearest)
    astray = (points - _taken(points, returned)).norm(dim=-1)
    opposed = (own * _taken(theirs, nearest)).sum(-1) < -0.5
    met = (least < MET_MM) & opposed & (astray < 1.5 * step[:, None])
    right = apart < (least + 0.75 * their_step[:, None])[..., None]
    return right & met[..., None], met, least > ALONE_MM


def _taken(values: Tensor, index: Tensor) -> Tensor:
    """(Q, M, 2) at (Q, N), as (Q, N, 2)."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def _adjacent(batch: Batch) -> Tensor:
    """(P, largest number of pieces) bool: which pieces of its puzzle a piece borders on."""
    assert batch.meets_piece is not None
    numbers = torch.arange(max(batch.pieces), device=batch.meets_piece.device)
    met = (batch.meets_piece[:, None] == numbers[:, None]).sum(-1)
    return met >= ADJACENT_POINTS


def _adjacent_in_all(batch: Batch, adjacent: Tensor) -> Tensor:
    """(P, P) bool: the same, among the pieces of all puzzles."""
    owner = batch.puzzle_of_piece
    number = torch.arange(len(owner), device=owner.device) - batch.first_piece[owner]
    own = adjacent.index_select(1, number) & (owner[:, None] == owner)
    return own | own.mT


def _pairs(batch: Batch, adjacent: Tensor, chances: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of pieces of one puzzle each, adjacent ones preferred: (Q,) pieces, (Q,) others, and
    (Q,) bool whether there is such a pair."""
    owner = batch.puzzle_of_piece
    total, most = adjacent.shape
    piece = torch.arange(total, device=owner.device)[:, None]
    other = batch.first_piece[owner][:, None] + torch.arange(most, device=owner.device)
    within = other.clamp_max(total - 1)
    real = (other > piece) & (other < total) & (owner[within] == owner[:, None])
    score = torch.where(real, chances + PREFERENCE * adjacent, -1.0).flatten()
    chosen = score.topk(min(math.ceil(PAIRS * total), score.numel()))
    return chosen.indices // most, within.flatten()[chosen.indices], chosen.values >= 0


def _search_loss(logits: Tensor, adjacent: Tensor) -> Tensor:
    """Contrastive: each neighbour of a piece against all pieces that are none."""
    itself = torch.eye(len(logits), device=logits.device, dtype=torch.bool)
    strangers = logits.masked_fill(adjacent | itself, -1e4).logsumexp(1, keepdim=True)
    losses = F.softplus(strangers - logits) * adjacent
    return losses.sum() / adjacent.sum().clamp_min(1)


# From codes to an assembly

SIMPLIFY_MM = 0.3
ENCODED_AT_ONCE, MATCHED_AT_ONCE = 32, 16
"""Pieces and pairs."""
CONTOURS_END, MATCHING_END = 0.2, 0.7
"""Fractions of progress."""
ISLAND = 0.5
"""Pieces apart from the main island form another only if all their joins are trusted so far."""


class Pairingnet:
    """Matches contour points of likely neighbours and joins pieces from the surest pair on.

    The support of a join is the length of contour that matches where the pieces touch, by the
    network's own certainty, weighed by how likely the two pieces are neighbours. When groups of
    pieces are joined, all that touches supports the join. Confidence tells how long the matching
    contour is, compared with the other ways to put a piece to its neighbours, at the weakest join
    between it and the island's largest piece. It is not calibrated. The seed plays no part.

    Args:
        weights: a name, a safetensors file or the folder of a training run; those shipped when
            left out.
        partners: with how many likely neighbours each piece is matched.
        candidates: how many placements of each pair of pieces are kept.
        device: `cpu` or `cuda`.
    """

    def __init__(
        self,
        *,
        weights: str | None = None,
        partners: int = 12,
        candidates: int = 8,
        device: Device = "cpu",
    ) -> None:
        check_counts(partners=partners, candidates=candidates)
        check_device_here(device)
        network, self.weights_hash = load_network(
            "pairingnet", PairingNet, PairingNetConfig, weights
        )
        self.network = network.to(device)
        self.partners, self.candidates, self.device = partners, candidates, device
        self.parameters = sum(p.numel() for p in network.parameters())

    def solve(
        self,
        puzzle: Puzzle,
        *,
        seed: int = 0,
        locked: Mapping[str, Pose] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Assembly:
        """See `solvers.base.Solver`. The first island is that of the locked pieces or, without
        any, the one of the largest area."""
        locked = dict(locked or {})
        if len(locked) == len(puzzle):
            return Assembly.of(puzzle, locked, confidence=dict.fromkeys(locked, 1.0))
        with torch.no_grad():
            return _Run(self, puzzle, locked, progress).assembly()


class _Run:
    """What one puzzle needs while it is being solved. Pieces go by number, around centroids."""

    def __init__(
        self,
        solver: Pairingnet,
        puzzle: Puzzle,
        locked: Mapping[str, Pose],
        progress: ProgressCallback | None,
    ) -> None:
        self.solver, self.puzzle, self.locked, self.progress = solver, puzzle, locked, progress
        self.fragments = puzzle.fragments
        self.centres = [Pose(*fragment.centroid_mm) for fragment in self.fragments]

    def assembly(self) -> Assembly:
        codes, lines = self._codes()
        shapes = [
            shapely.transform(fragment.polygon.simplify(SIMPLIFY_MM), centre.inverse().apply)
            for fragment, centre in zip(self.fragments, self.centres, strict=True)
        ]
        joiner = Joiner(lines, shapes)
        self._compare(codes, joiner)
        lying = {
            k: motion_of(self.locked[fragment.id] @ centre)
            for k, (fragment, centre) in enumerate(zip(self.fragments, self.centres, strict=True))
            if fragment.id in self.locked
        }
        groups: list[Group] = []
        for groups in joiner.grow(lying):
            done = 1 - (1 - MATCHING_END) * (len(groups) - 1) / len(self.fragments)
            report(self.progress, done, "joining pieces", self._assembled(groups))
        answer = self._assembled(groups)
        report(self.progress, 1.0, "joining pieces", answer)
        return answer

    def _codes(self) -> tuple[Codes, list[Line]]:
        parts, lines = [], []
        for start in range(0, len(self.fragments), ENCODED_AT_ONCE):
            report(self.progress, CONTOURS_END * start / len(self.fragments), "contours")
            seen = contour(self.fragments[start : start + ENCODED_AT_ONCE])
            lines += [line_of(points.astype(np.float64)) for points in seen["contour"]]
            tensors = (torch.from_numpy(seen[n]) for n in ("contour", "contour_paint"))
            parts.append(self.solver.network.codes(*(x.to(self.solver.device) for x in tensors)))
        names = [entry.name for entry in fields(Codes)]
        return Codes(*(torch.cat([getattr(part, n) for part in parts]) for n in names)), lines

    def _compare(self, codes: Codes, joiner: Joiner) -> None:
        """Tells the joiner how every pair of likely neighbours matches."""
        network, device = self.solver.network, self.solver.device
        likely = (1 + network.similarity(codes).double().cpu().numpy()) / 2
        pairs = self._pairs(likely)
        for start in range(0, len(pairs), MATCHED_AT_ONCE):
            part = pairs[start : start + MATCHED_AT_ONCE]
            one, other = torch.tensor(part, device=device).T
            forth, again = network.matches(codes, one, other)
            sure = ((forth[..., :-1] + again[..., :-1].mT) / 2).exp().double().cpu().numpy()
            for number, (a, b) in enumerate(part):
                done = CONTOURS_END + (MATCHING_END - CONTOURS_END) * (start + number) / len(pairs)
                report(self.progress, done, "matching contours")
                joiner.add(a, b, sure[number], float(likely[a, b]), self.solver.candidates)

    def _pairs(self, likely: Floats) -> list[tuple[int, int]]:
        """Pairs of pieces of which one is among the likeliest neighbours of the other."""
        others = likely - 2 * np.eye(len(likely))
        rank = np.argsort(np.argsort(-others, axis=1, kind="stable"), axis=1)
        chosen = rank < self.solver.partners
        fixed = [fragment.id in self.locked for fragment in self.fragments]
        return [
            (a, b)
            for a, b in combinations(range(len(likely)), 2)
            if (chosen[a, b] or chosen[b, a]) and not (fixed[a] and fixed[b])
        ]

    def _assembled(self, groups: list[Group]) -> Assembly:
        """The groups as an assembly: the main one, and further ones that can be trusted."""
        main, *others = sorted(groups, key=lambda group: (not group.locked, -group.area))
        trusted = [g for g in others if len(g.motions) > 1 and min(g.trust.values()) >= ISLAND]
        confidence: dict[str, float] = {}
        islands = []
        for group in (main, *trusted):
            trust = dict(group.trust)
            if not group.locked:
                first, *rest = trust
                trust[first] = max((trust[k] for k in rest), default=0.0)
            confidence |= {self.fragments[k].id: value for k, value in trust.items()}
            poses = {self.fragments[k].id: self._pose(k, m) for k, m in group.motions.items()}
            islands.append(poses)
        return Assembly.of(self.puzzle, *islands, confidence=confidence)

    def _pose(self, piece: int, motion: Motion) -> Pose:
        locked = self.locked.get(self.fragments[piece].id)
        return locked or pose_of(motion) @ self.centres[piece].inverse()
