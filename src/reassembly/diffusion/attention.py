"""What networks over poses are built of: attention within sequences, and the time of the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from reassembly.diffusion.batch import Group

__all__ = ["attend", "time_embedding"]


def attend(
    qkv: Tensor,
    groups: Sequence[Group],
    heads: int,
    masks: Sequence[Tensor | None] | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Self-attention within each sequence of tokens.

    Args:
        qkv: (T, 3 width): queries, keys and values.
        groups: of sequences, which hold every token once.
        masks: for each group, which tokens of a sequence see which, (sequences, 1, length, length)
            bool; None where all see all.

    Returns:
        (T, width).
    """
    result: Tensor | None = None
    for group, mask in zip(groups, masks or [None] * len(groups), strict=True):
        q, k, v = (
            group.take(part).view(*group.shape, heads, -1).transpose(1, 2)
            for part in qkv.chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
        result = group.put(result, mixed.transpose(1, 2).flatten(-2), len(qkv))
    assert result is not None
    return result


def time_embedding(t: Tensor, width: int) -> Tensor:
    """(P,) times from 0 to 1 to (P, width) sines and cosines."""
    half = width // 2
    rates = torch.exp(torch.arange(half, device=t.device) * (-math.log(1e4) / half))
    phase = 1000.0 * t[:, None] * rates
    return torch.cat([phase.sin(), phase.cos()], -1)
