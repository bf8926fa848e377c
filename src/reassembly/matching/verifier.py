"""The network that judges joins: two pieces in place, paint and gap together, to a logit.

`JoinVerifier` looks at crops (see `matching.crops`); `JoinJudge` weighs what it says against
explicit evidence (see `matching.evidence`). `JoinNetwork` is all that joins are found with.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from reassembly.config import NORMALISED, JoinsConfig, VerifierConfig
from reassembly.matching.context import CONTEXT
from reassembly.matching.crops import CHANNELS
from reassembly.matching.evidence import NAMES

__all__ = ["SHIFT_UNIT_MM", "TURN_UNIT", "JoinJudge", "JoinNetwork", "JoinVerifier"]

TURN_UNIT, SHIFT_UNIT_MM = 0.1, 3.0
"""Of corrections."""
BOUND = 4.0
"""Figures further from the mean, in standard deviations, count as this far."""


class _Block(nn.Module):
    """A residual block, of half the size where it has more channels."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        stride = 1 if inside == outside else 2
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.GroupNorm(NORMALISED, outside) for _ in range(2))
        self.past = nn.Conv2d(inside, outside, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        # In place wherever that is safe: the large pictures take long to write.
        inner = F.relu(self.norms[0](self.first(x)), inplace=True)
        added: Tensor = self.norms[1](self.second(inner)).add_(self.past(x))
        return F.relu(added, inplace=True)


class JoinVerifier(nn.Module):
    """A small residual network on crops of joins."""

    def __init__(self, config: VerifierConfig) -> None:
        super().__init__()
        self.config = config
        w = config.width
        self.stem = nn.Conv2d(CHANNELS, w, 5, 2, 2)
        widths = [w, w, 2 * w, 3 * w, 4 * w]
        self.blocks = nn.Sequential(*(_Block(a, b) for a, b in pairwise(widths)))
        self.drop = nn.Dropout(config.dropout)
        self.hidden = nn.Linear(2 * widths[-1], 2 * w)
        self.out = nn.Linear(2 * w, 4)

    def forward(self, crops: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (K,) and corrections (K, 3) of joins (K, C, H, W).

        A correction is what carries the moving piece from where it lies to where it belongs: a turn
        about the middle of the break, radians counter-clockwise as seen, and then a shift along and
        across it, mm.
        """
        # Convolutions on a processor are quicker with channels last.
        crops = crops.contiguous(memory_format=torch.channels_last)
        seen = self.blocks(F.relu(self.stem(crops), inplace=True))
        flat = torch.cat([seen.mean(dim=(2, 3)), seen.amax(dim=(2, 3))], dim=1)
        told = self.out(F.relu(self.hidden(self.drop(flat)))).float()
        units = told.new_tensor([TURN_UNIT, SHIFT_UNIT_MM, SHIFT_UNIT_MM])
        return told[:, 0], told[:, 1:] * units


HIDDEN, FITS = 24, 3
"""Hidden units of a judge that is fitted, and how many such a judge averages."""


class JoinJudge(nn.Module):
    """Explicit evidence and one logit, such as the verifier's, weighed together by a small
    network."""

    mean: Tensor
    spread: Tensor
    scale: Tensor
    """The factor and the summand that make logits log-odds (see `probability`)."""

    def __init__(
        self, hidden: int = HIDDEN * FITS, dropout: float = 0.3, *, heard: int = len(NAMES)
    ) -> None:
        """Args:
        heard: figures of evidence.
        """
        super().__init__()
        figures = heard + 1
        self.register_buffer("mean", torch.zeros(figures))
        self.register_buffer("spread", torch.ones(figures))
        self.register_buffer("scale", torch.tensor([1.0, 0.0]))
        self.straight = nn.Linear(figures, 1)
        self.bent = nn.Sequential(
            nn.Linear(figures, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 1)
        )

    def forward(self, evidence: Tensor, seen: Tensor) -> Tensor:
        """Logits (K,) from evidence (K, F) and logits (K,)."""
        figures = torch.cat([evidence, seen[:, None]], dim=1)
        figures = ((figures - self.mean) / self.spread).clamp(-BOUND, BOUND)
        told: Tensor = self.straight(figures) + self.bent(figures)
        return told[:, 0]

    @classmethod
    @torch.no_grad()
    def mean_of(cls, judges: Sequence[JoinJudge]) -> JoinJudge:
        """One judge that gives the mean of the logits of several, whose figures have the same mean
        and spread."""
        parts = [judge.state_dict() for judge in judges]
        whole = {name: torch.stack([own[name] for own in parts]).mean(0) for name in parts[0]}
        for name in ("bent.0.weight", "bent.0.bias"):
            whole[name] = torch.cat([own[name] for own in parts])
        told = torch.cat([own["bent.3.weight"] for own in parts], dim=1)
        whole["bent.3.weight"] = told / len(judges)
        mean = cls(told.shape[1], heard=len(whole["mean"]) - 1)
        mean.load_state_dict(whole)
        return mean.eval()

    def probability(self, logits: Tensor) -> Tensor:
        """Of being true, (K,): its logits, calibrated on puzzles it did not learn from."""
        return (self.scale[0] * logits + self.scale[1]).sigmoid()


class JoinNetwork(nn.Module):
    """What tells true joins: a screen that is fast, the verifier, and the judges of both.

    Breaks that are worn and breaks that still fit closely have judges of their own: what is telling
    of the one kind says little of the other. Once all pairs of a puzzle of worn pieces are judged,
    the last judge hears of each placement what the others say of it.
    """

    def __init__(self, config: JoinsConfig) -> None:
        super().__init__()
        self.config = config
        self.screen = JoinJudge()
        self.verifier = JoinVerifier(VerifierConfig(config.width, config.dropout))
        self.worn = JoinJudge()
        self.light = JoinJudge()
        self.context = JoinJudge(heard=len(CONTEXT))

    def judge(self, light: bool) -> JoinJudge:
        """Of puzzles whose pieces are lightly worn, or of others."""
        return self.light if light else self.worn

    def last_judge(self, light: bool) -> JoinJudge:
        """Whose word counts once all pairs of a puzzle were judged."""
        return self.light if light else self.context
