"""Which pairs of pieces are compared: in a large puzzle, those that are likely neighbours.

To compare two pieces takes long, and pairs grow with the square of the pieces. How well the points
of two contours match, wherever they may come to lie, is told in a small part of that time, and how
alike the matcher finds two whole pieces in none. Neither tells all neighbours: both count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from reassembly.matching.matcher import Matcher, Seen

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["likely_neighbours"]

Floats = NDArray[np.float64]

BEST = 30
"""Points of a contour that count: those that find a match best."""
AT_ONCE = 64
"""Pairs."""


def likely_neighbours(
    matcher: Matcher,
    seen: Seen,
    ids: Sequence[str],
    partners: int,
    progress: Callable[[float], None] | None = None,
) -> list[tuple[str, str]]:
    """Pairs of pieces of which one is among the likeliest partners of the other.

    Args:
        partners: how many these are of each piece.
        progress: called with the share that is done.
    """
    pairs = np.array(list(combinations(range(len(ids)), 2)))
    number = np.array([seen.number[i] for i in ids])
    alike = matcher.likely(seen)[tuple(number[pairs].T)]
    matched = np.empty(len(pairs))  # Arrays that stay between large ones that go scatter memory.
    for start in range(0, len(pairs), AT_ONCE):
        here = slice(start, start + AT_ONCE)
        some = torch.from_numpy(number[pairs[here]]).to(matcher.device)
        matched[here] = _matched(matcher, seen, some).cpu().numpy()
        if progress is not None:
            progress(min(1.0, (start + AT_ONCE) / len(pairs)))
    chance = np.full((len(ids), len(ids)), -np.inf)
    chance[tuple(pairs.T)] = _standard(matched) + _standard(alike)
    chance = np.maximum(chance, chance.T)
    rank = np.argsort(np.argsort(-chance, axis=1, kind="stable"), axis=1)
    one, other = pairs[(np.minimum(rank, rank.T) < partners)[tuple(pairs.T)]].T
    return [(ids[a], ids[b]) for a, b in zip(one, other, strict=True)]


@torch.no_grad()
def _matched(matcher: Matcher, seen: Seen, pairs: Tensor) -> Tensor:
    """(Q,): how surely the best points of pairs (Q, 2) of pieces find a match in the other."""
    forth, again = matcher.network.matches(seen.codes, *pairs.T)
    likelier = (forth[..., :-1] + again[..., :-1].mT) / 2
    best = [likelier.amax(axis).topk(min(BEST, likelier.shape[1])).values for axis in (1, 2)]
    return torch.stack(best).mean(dim=(0, 2))


def _standard(values: Floats) -> Floats:
    """In standard deviations from the mean."""
    standard: Floats = (values - values.mean()) / max(float(values.std()), 1e-9)
    return standard
