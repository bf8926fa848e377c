"""Training of the verifier of joins: proposals that are true against those that fit as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from reassembly.config import Config
from reassembly.errors import InputError
from reassembly.matching.crops import crops, crops_of_pair
from reassembly.matching.verifier import SHIFT_UNIT_MM, TURN_UNIT, JoinVerifier
from reassembly.training.joins import FALSE, TRUE, JoinPool
from reassembly.weights import load_module, load_weights

__all__ = ["VerifierStage", "nearer", "ranks", "seen_by"]

SAME_PAIR, ANYWHERE = 4, 3
"""False proposals shown for each true one: of the same two pieces, and of any."""
CORRECTION = 0.2
"""Weight of the loss of corrections."""
JITTER_DEG, JITTER_ALONG_MM, JITTER_ACROSS_MM = 5.0, 6.0, 1.5
"""Crops lie so far off the middle of the break."""
GAIN, SHADE, COLOUR = 0.12, 0.05, 0.02
"""How pieces photographed apart differ: brightness as a factor, as a summand, and of channels."""
FADED, CONTRAST, TINT = 0.7, 0.3, 0.06
"""How frescoes differ: share of the colour that fades at most, contrast as a factor, and of
channels as a summand."""
LOST_PX, LOST = 2, 0.3
"""Rims of pieces shrink further by up to so many pixels, each with this probability."""
JUDGED_PAIRS = 150
SHOWN_AT_ONCE = 1024


class VerifierStage:
    """Training of `matching.verifier.JoinVerifier`."""

    kind, things = "verifier", "true proposals"

    def __init__(self, config: Config, pool: JoinPool, validation: JoinPool | None) -> None:
        self.config, self.pool, self.validation = config, pool, validation
        label, pair = pool.tensors["label"], pool.tensors["pair"]
        self.true = (label == TRUE).nonzero()[:, 0]
        if not len(self.true):
            raise InputError("the pool has no true join", "Prepare more puzzles")
        self.false = (label == FALSE).nonzero()[:, 0]
        _, place, counts = torch.unique_consecutive(pair, return_inverse=True, return_counts=True)
        first = counts.cumsum(0) - counts
        self.first, self.count = first[place], counts[place]
        self.sizes = np.ones(len(self.true), np.int64)
        self.network = JoinVerifier(config.verifier)

    def begin(self, init: str | None) -> None:
        if init is None:
            return
        stored = load_weights(init, "verifier", "joins")
        if stored.kind == "joins":
            own = "verifier."
            tensors = {
                n.removeprefix(own): t for n, t in stored.tensors.items() if n.startswith(own)
            }
            stored = replace(stored, tensors=tensors)
        load_module(self.network, stored, asdict(self.config.verifier))

    @staticmethod
    def columns(config: Config) -> tuple[str, ...]:
        return ()

    def move(self, device: torch.device) -> None:
        self.device = device
        self.pool = self.pool.to(device)
        for name in ("true", "false", "first", "count"):
            setattr(self, name, getattr(self, name).to(device))
        if self.validation is not None:
            self.validation = self.validation.to(device)

    def losses(
        self, numbers: NDArray[np.int64], step: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        own = torch.Generator(self.device).manual_seed(
            int(torch.randint(2**31, (), generator=generator))
        )
        rows = self._rows(torch.from_numpy(numbers).to(self.device), own)
        label = self.pool.tensors["label"][rows]
        seen, correction = _shown(self.pool, rows, own)
        logits, told = self.network(seen)
        true = (label == TRUE).float()
        sure = (label <= TRUE).float()
        judged = F.binary_cross_entropy_with_logits(logits, true, reduction="none")
        judge = (judged * sure).sum() / sure.sum().clamp_min(1)
        units = told.new_tensor([TURN_UNIT, SHIFT_UNIT_MM, SHIFT_UNIT_MM])
        miss = F.smooth_l1_loss(told / units, correction / units, reduction="none").sum(dim=1)
        correct = (miss * true).sum() / true.sum().clamp_min(1)
        return {"loss": judge + CORRECTION * correct, "judge": judge, "correct": correct}

    def _rows(self, numbers: Tensor, generator: torch.Generator) -> Tensor:
        """Proposals of a step: true ones, others of their pairs, and false ones of any pair."""
        true = self.true[numbers]
        chance = torch.rand(len(true), SAME_PAIR, generator=generator, device=self.device)
        same = self.first[true, None] + (chance * self.count[true, None]).long()
        drawn = (len(true) * ANYWHERE,)
        some = torch.randint(len(self.false), drawn, generator=generator, device=self.device)
        return torch.cat([true, same.flatten(), self.false[some]])

    @torch.no_grad()
    def validate(self, step: int, folder: Path) -> dict[str, float]:
        """How true proposals rank among those of their pair, and of all pairs."""
        if self.validation is None:
            return {}
        pool = self.validation
        pairs = pool.tensors["pair"]
        touching = torch.unique(pairs[pool.tensors["label"] == TRUE])[:JUDGED_PAIRS]
        rows = torch.isin(pairs, touching).nonzero()[:, 0]
        logits, _ = seen_by(self.network, pool, rows)
        label = pool.tensors["label"][rows]
        place = ranks(logits, label, pairs[rows])
        scores = logits[label <= TRUE]
        true = (label == TRUE)[label <= TRUE]
        order = scores.argsort().argsort().float() + 1
        positives, negatives = int(true.sum()), int((~true).sum())
        area = (order[true].sum() - positives * (positives + 1) / 2) / max(positives * negatives, 1)
        found = {f"first_{n}": float((place < n).float().mean()) for n in (1, 5, 20)}
        return {**found, "auc": float(area)}

    def export(self) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        return self.network.state_dict(), asdict(self.config.verifier)


@torch.no_grad()
def seen_by(network: JoinVerifier, pool: JoinPool, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (K,) and corrections (K, 3) of proposals (K,), those of a pair one after the other."""
    logits, corrections = [], []
    if rows.is_cuda:
        parts = torch.split(rows, SHOWN_AT_ONCE)
    else:
        _, counts = torch.unique_consecutive(pool.tensors["pair"][rows], return_counts=True)
        parts = torch.split(rows, counts.tolist())
    for part in parts:
        fixed, moving, *place = (pool.tensors[n][part] for n in CROP)
        shown = (
            crops(pool.pictures, fixed, moving, *place)
            if rows.is_cuda
            else crops_of_pair(pool.pictures, int(fixed[0]), int(moving[0]), *place)
        )
        one, other = network(shown)
        logits.append(one)
        corrections.append(other)
    return torch.cat(logits), torch.cat(corrections)


CROP = ("fixed", "moving", "motion", "middle", "across")
"""What a crop is made of."""


def ranks(logits: Tensor, label: Tensor, pair: Tensor) -> Tensor:
    """Of each pair that has a true proposal: how many false ones its best true one is behind."""
    found = []
    for number in torch.unique(pair[label == TRUE]):
        own = pair == number
        best = logits[own & (label == TRUE)].max()
        found.append((logits[own & (label == FALSE)] > best).sum())
    return torch.stack(found) if found else torch.zeros(0)


def _shown(pool: JoinPool, rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Crops of proposals, a little off the middle, turned over, mirrored, worn, faded and lit at
    random, and the corrections that then hold. True ones are brought nearer to the truth by any
    share of the way: real joins are few."""
    fixed, moving, motion, middle, across = (pool.tensors[n][rows] for n in CROP)
    correction = pool.tensors["correction"][rows]
    count, device = len(rows), rows.device

    def drawn(*size: int) -> Tensor:
        return torch.rand(count, *size, generator=generator, device=device)

    share = drawn() * (pool.tensors["label"][rows] == TRUE)
    motion, correction = nearer(motion, middle, across, correction, share)
    along = torch.stack([across[:, 1], -across[:, 0]], dim=-1)
    offset = (2 * drawn(2) - 1) * torch.tensor([JITTER_ALONG_MM, JITTER_ACROSS_MM], device=device)
    tilt = (2 * drawn(1) - 1) * (torch.pi / 180 * JITTER_DEG)
    middle = middle + offset[:, :1] * along + offset[:, 1:] * across
    turned = tilt.cos() * across + tilt.sin() * along
    seen = crops(pool.pictures, fixed.long(), moving.long(), motion, middle, turned)
    correction = _about(correction, offset)
    turn, shift = correction[:, :1], correction[:, 1:]
    over, mirrored = drawn(1) < 0.5, drawn(1) < 0.5
    # Seen from the other piece, the first is to move; upside down, its shift is the same.
    swapped = torch.cat([seen[:, 4:], seen[:, :4]], dim=1).flip(2, 3)
    seen = torch.where(over[:, :, None, None], swapped, seen)
    turn = torch.where(over, -turn, turn)
    seen = torch.where(mirrored[:, :, None, None], seen.flip(3), seen)
    turn = torch.where(mirrored, -turn, turn)
    along_too = torch.where(mirrored, -shift[:, :1], shift[:, :1])
    seen = _lit(_faded(_shrunk(seen, drawn(2, LOST_PX)), drawn(5)), drawn(2, 5))
    return seen, torch.cat([turn, along_too, shift[:, 1:]], dim=1)


def nearer(
    motion: Tensor, middle: Tensor, across: Tensor, correction: Tensor, share: Tensor
) -> tuple[Tensor, Tensor]:
    """Motions (K, 3) brought nearer to the truth by shares (K,) of their corrections (K, 3), and
    the corrections that are left."""
    step = share[:, None] * correction
    along = torch.stack([across[:, 1], -across[:, 0]], dim=-1)
    place = middle + step[:, 1:2] * along + step[:, 2:] * across
    # What lies at the middle of the break goes to its new place, and the piece turns about it.
    turn, c, s = motion[:, 0] + step[:, 0], step[:, 0].cos(), step[:, 0].sin()
    x, y = (motion[:, 1:] - middle).unbind(-1)
    shift = place + torch.stack([c * x + s * y, c * y - s * x], dim=-1)
    return torch.cat([turn[:, None], shift], dim=1), _about(correction - step, -step[:, 1:])


def _about(correction: Tensor, offset: Tensor) -> Tensor:
    """The same corrections (K, 3) about another middle, (K, 2) mm along and across from theirs."""
    c, s = correction[:, 0].cos() - 1, correction[:, 0].sin()
    x, y = offset.unbind(-1)
    return correction + torch.stack([torch.zeros_like(c), c * x + s * y, c * y - s * x], dim=-1)


def _shrunk(seen: Tensor, chance: Tensor) -> Tensor:
    """Crops (K, 8, H, W) whose pieces have lost more of their rims, by numbers (K, 2, `LOST_PX`) up
    to 1."""
    count, _, height, width = seen.shape
    pieces = seen.view(count, 2, 4, height, width)
    cover = pieces[:, :, 3]
    left = cover
    for k in range(chance.shape[2]):
        smaller = -F.max_pool2d(-left, 3, 1, 1)
        left = torch.where((chance[:, :, k] < LOST)[..., None, None], smaller, left)
    share = left / cover.clamp_min(1e-3)
    return (pieces * share[:, :, None]).flatten(1, 2)


def _faded(seen: Tensor, chance: Tensor) -> Tensor:
    """Crops (K, 8, H, W) of frescoes that have faded differently, both pieces alike, by numbers (K,
    5) up to 1."""
    count, _, height, width = seen.shape
    pieces = seen.view(count, 2, 4, height, width)
    colours, cover = pieces[:, :, :3], pieces[:, :, 3:]
    even = (2 * chance - 1)[:, None, :, None, None]
    grey = colours.mean(dim=2, keepdim=True)
    left = 1 - FADED * chance[:, None, 4:, None, None] ** 2
    colours = (grey + left * (colours - grey)) * (1 + CONTRAST * even[:, :, :1])
    colours = colours + TINT * even[:, :, 1:4] * cover
    return torch.cat([colours, cover], dim=2).flatten(1, 2)


def _lit(seen: Tensor, chance: Tensor) -> Tensor:
    """Each piece of crops (K, 8, H, W) in a light of its own, by numbers (K, 2, 5) up to 1."""
    count, _, height, width = seen.shape
    pieces = seen.view(count, 2, 4, height, width)
    cover = pieces[:, :, 3:]
    even = (2 * chance - 1)[..., None, None]
    gain, shade = 1 + GAIN * even[:, :, :1], SHADE * even[:, :, 1:2] + COLOUR * even[:, :, 2:]
    colours = pieces[:, :, :3] * gain + shade * cover
    return torch.cat([colours, cover], dim=2).flatten(1, 2)
