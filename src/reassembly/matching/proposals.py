"""Placements of pairs of pieces that are worth a closer look.

Worn pieces are laid together in all ways (`matching.correlate`), and matching points propose
besides. Where pieces are lightly worn, matching points propose nearly every true join, and the
long search is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from reassembly.config import ProposeConfig
from reassembly.matching.correlate import nearly_same, propose, smaller_first
from reassembly.matching.evidence import Matches
from reassembly.matching.matcher import Matcher, Seen
from reassembly.matching.motions import Motions
from reassembly.matching.rim import Rim

__all__ = ["proposals", "with_matched"]

Floats = NDArray[np.float64]


def proposals(
    rims: Mapping[str, Rim],
    matchers: Sequence[Matcher],
    seen: Sequence[Seen],
    pairs: Sequence[tuple[str, str]],
    *,
    light: bool,
    settings: ProposeConfig,
    device: str = "cpu",
) -> Iterator[tuple[str, str, Motions, Floats, list[Matches]]]:
    """Placements of pairs of pieces, and how points match.

    Args:
        seen: the pieces, by each of the matchers.
        light: whether the pieces are lightly worn.
        settings: of correlation.

    Yields:
        Of each pair that has any: as `correlate.propose` does, and what each matcher says.
    """
    for a, b, motions, scores in _laid(rims, pairs, light, settings, device):
        matches = [m.match(own, a, b) for m, own in zip(matchers, seen, strict=True)]
        motions, scores = with_matched(motions, scores, matches, settings)
        if len(motions):
            yield a, b, motions, scores, matches


def _laid(
    rims: Mapping[str, Rim],
    pairs: Sequence[tuple[str, str]],
    light: bool,
    settings: ProposeConfig,
    device: str,
) -> Iterator[tuple[str, str, Motions, Floats]]:
    if not light:
        yield from propose(rims, settings, pairs, device)
        return
    for larger, smaller in smaller_first(rims, pairs).items():
        for each in smaller:
            yield each, larger, np.zeros((0, 3)), np.zeros(0)


def with_matched(
    motions: Motions, scores: Floats, matches: Sequence[Matches], settings: ProposeConfig
) -> tuple[Motions, Floats]:
    """Placements of a pair, best first, and with them those that matching points propose, which
    have the score of the best one that is nearly the same, or none."""
    more = np.concatenate([np.zeros((0, 3)), *(own.motions for own in matches)])
    near = nearly_same(more[:, None], motions[None], settings)
    inherited = np.where(near, scores, 0.0).max(axis=1, initial=0.0)
    every, score = np.concatenate([motions, more]), np.concatenate([scores, inherited])
    order = np.argsort(-score, kind="stable")
    return every[order], score[order]
