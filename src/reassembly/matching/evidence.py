"""What speaks for a placement of two pieces: figures of shape, paint and matching points.

Every placement gets one row of `NAMES`. None of them depends on how the pieces lie in their
pictures. Lengths are in mm, colours in units of the puzzle's own spread (see `matching.rim`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reassembly.matching.motions import Motions, carried, inverse
from reassembly.matching.rim import Rim
from reassembly.matching.strip import FACING, NEAR_MM, Strips, beside, strips

__all__ = ["NAMES", "Contact", "Matches", "contacts", "evidence"]

Floats = NDArray[np.float32]

PROPOSAL = ("score", "log_rank", "behind_best", "score_by_perimeter")
SHAPE = (
    "contact",
    "share_of_smaller",
    "share_of_larger",
    "gap",
    "gap_spread",
    "log_overlap",
    "log_deep",
    "log_area_smaller",
    "log_area_larger",
)
PAINT = (
    "colours_agree",
    "colours_differ",
    "follows",
    "covaries",
    "varies_here",
    "varies_there",
    "follows_shifted",
    "edges_follow",
)
DEPTHS = {"rim": slice(0, 3), "deep": slice(2, 6)}
"""Of `rim.DEPTHS_MM`."""
STRIP = ("strip_gap", "strip_gap_spread", "strip_share")
MATCHES = ("support", "support_by_contact", "support_behind_best", "log_support_rank")
MATCHERS = ("worn", "light")
"""Whose matches are told; see `matching.matcher`."""
MARKS = ("marks_meet", "marks_alone", "marks_behind_best", "log_marks_rank")
NAMES = (
    *PROPOSAL,
    *SHAPE,
    *(f"{name}_{depth}" for depth in DEPTHS for name in PAINT),
    *STRIP,
    *(f"{name}_{matcher}" for matcher in MATCHERS for name in MATCHES),
    *MARKS,
)
SHIFTS_MM = (-4, -2, 2, 4)
LEAST_LOG, MOST_LOG = -1.0, 4.0
"""Of how much likelier than by chance two points belong together: no point decides alone."""
SOFT_MM = 4.0
MARK_ASIDE_MM, MARK_GAP_MM, MARK_GAP_SPREAD_MM = 3.0, 3.0, 5.0
"""Strokes go on in each other if they miss by so much at most to the side; and the gap between
their ends."""


@dataclass(frozen=True, eq=False)
class Matches:
    """How contour points of two pieces match, as a matcher sees it."""

    points: Floats
    """(N, 2): the moving piece's, in its centred frame."""
    normals: Floats
    """(N, 2), outwards."""
    step_mm: float
    of_rim: NDArray[np.int64]
    """(R,): of each point of the fixed piece's rim, the nearest contour point."""
    likelier: Floats
    """(M, N): logarithm of how much likelier than by chance the M points of the fixed piece and the
    N of the moving one belong together."""
    motions: Motions
    """(K, 3): placements by which matching points touch, best first."""


@dataclass(frozen=True, eq=False)
class Contact:
    """Where placements touch, in the fixed piece's centred frame."""

    middle: Floats
    """(K, 2), mm."""
    across: Floats
    """(K, 2), of length one: from the fixed piece to the moving one."""


def evidence(
    fixed: Rim,
    moving: Rim,
    motions: Motions,
    scores: NDArray[np.float64],
    matches: Sequence[Matches] = (),
) -> Floats:
    """(K, `len(NAMES)`): what speaks for each of K proposals of a pair, best score first.

    Args:
        matches: of each of `MATCHERS`; nothing is told without.
    """
    strip, figures = strips(fixed, moving, motions)
    lengths = [rim.step_mm * len(rim.points) for rim in (fixed, moving)]
    contact, gap, spread, overlap, deep = figures.T
    ones = np.ones(len(motions))
    each: Sequence[Matches | None] = matches or [None] * len(MATCHERS)
    columns = [
        scores,
        np.log1p(np.arange(len(motions))),
        scores - scores.max(initial=0.0),
        scores / np.sqrt(lengths[0]),
        contact,
        contact / lengths[0],
        contact / lengths[1],
        gap,
        spread,
        np.log1p(overlap),
        np.log1p(deep),
        ones * np.log(fixed.area_mm2),
        ones * np.log(moving.area_mm2),
        *_of_strips(fixed, moving, strip),
        *(column for own in each for column in _of_matches(fixed, motions, contact, own)),
        *_of_marks(fixed, moving, motions),
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def _of_strips(fixed: Rim, moving: Rim, strip: Strips) -> Sequence[NDArray[np.floating]]:
    """How paint goes on across the break, at two depths, and how even the gap is."""
    there = strip.there.astype(np.float32)
    count = np.maximum(there.sum(axis=1), 1)
    both = there[:, 1:] * there[:, :-1]
    columns: list[NDArray[np.floating]] = []
    for depths in DEPTHS.values():
        here, beyond = (
            rim.paint[:, depths].mean(axis=1).T.take(at, axis=1)
            for rim, at in ((fixed, strip.fixed), (moving, strip.moving))
        )  # (3, K, LENGTH) each.
        means = [(c * there).sum(axis=2) / count for c in (here, beyond)]
        a, b = (
            (c - mean[..., None]) * there for c, mean in zip((here, beyond), means, strict=True)
        )
        power_a, power_b = _product(a, a), _product(b, b)
        scale = np.sqrt(power_a * power_b + 1e-3 * count)
        shifted = [_product(a, np.roll(b, d, axis=2)) / scale for d in SHIFTS_MM]
        edge_a, edge_b = (np.diff(c, axis=2) * both for c in (here, beyond))
        edges = np.sqrt(_product(edge_a, edge_a) * _product(edge_b, edge_b) + 1e-3 * count)
        together = _product(a, b)
        columns += [
            (means[0] * means[1]).sum(axis=0),
            np.linalg.norm(means[0] - means[1], axis=0),
            together / scale,
            together / count,
            np.sqrt(power_a / count),
            np.sqrt(power_b / count),
            np.max(shifted, axis=0),
            _product(edge_a, edge_b) / edges,
        ]
    mean = (strip.gap * there).sum(axis=1) / count
    spread = np.sqrt(((strip.gap - mean[:, None]) ** 2 * there).sum(axis=1) / count)
    return [*columns, mean, spread, there.mean(axis=1)]


def _product(one: Floats, other: Floats) -> Floats:
    """(K,): inner products of colours (3, K, L)."""
    return np.asarray(np.einsum("ckl,ckl->k", one, other))


def _of_matches(
    fixed: Rim, motions: Motions, contact: Floats, matches: Matches | None
) -> Sequence[NDArray[np.floating]]:
    """How far points that touch also match; nothing without a matcher."""
    if matches is None:
        return [np.zeros(len(motions))] * len(MATCHES)
    _, signed, nearest, facing = beside(fixed, matches, motions)
    weight = (np.abs(signed) < NEAR_MM) * np.clip(-facing, 0, 1) / (1 + (signed / SOFT_MM) ** 2)
    own = np.arange(len(matches.points))
    likelier = matches.likelier.take(matches.of_rim.take(nearest) * len(own) + own)
    support = (weight * likelier.clip(LEAST_LOG, MOST_LOG)).sum(axis=1) * matches.step_mm
    rank = np.argsort(np.argsort(-support, kind="stable"), kind="stable")
    return [
        support,
        support / np.maximum(contact, 10.0),
        support - support.max(initial=-np.inf),
        np.log1p(rank),
    ]


def _of_marks(fixed: Rim, moving: Rim, motions: Motions) -> Sequence[NDArray[np.floating]]:
    """How many strokes that were drawn across joins go on in each other, and how many that end at
    the other piece do not."""
    count = len(motions)
    there, here = len(fixed.marks), len(moving.marks)
    ends = carried(moving.marks[:, :2], motions)
    goes_on = np.zeros((count, there, here), np.float32)
    if there and here:
        points = carried(moving.marks[:, 2:], motions * [1.0, 0.0, 0.0])
        off = ends[:, None] - fixed.marks[None, :, None, :2]
        way = fixed.marks[None, :, None, 2:]
        along = (off * way).sum(axis=-1)
        aside = off[..., 0] * way[..., 1] - off[..., 1] * way[..., 0]
        against = np.clip(-(points[:, None] * way).sum(axis=-1), 0, 1)
        beyond = (along - MARK_GAP_MM) / MARK_GAP_SPREAD_MM
        goes_on = np.exp(-((aside / MARK_ASIDE_MM) ** 2) - beyond**2) * against**4
    answered = [goes_on.max(axis=axis, initial=0.0) for axis in (2, 1)]
    back = carried(fixed.marks[:, :2], inverse(motions))
    near = [_beside(rim, points) for rim, points in ((moving, back), (fixed, ends))]
    meet = sum(each.sum(axis=1) for each in answered) / 2
    alone = sum((n * (1 - each)).sum(axis=1) for n, each in zip(near, answered, strict=True))
    rank = np.argsort(np.argsort(-meet, kind="stable"), kind="stable")
    return [meet, alone, meet - meet.max(initial=0.0), np.where(meet > 0, np.log1p(rank), 0.0)]


def _beside(rim: Rim, points: Floats) -> NDArray[np.bool_]:
    """(K, P): which of points (K, P, 2) lie beside a rim."""
    if points.size == 0:
        return np.zeros(points.shape[:2], bool)
    return np.abs(rim.look_up(points)[0]) < NEAR_MM


def contacts(fixed: Rim, moving: Rim, motions: Motions) -> Contact:
    """Where each of K placements touches, and which way its break runs."""
    points, signed, nearest, facing = beside(fixed, moving, motions)
    joined = (np.abs(signed) < NEAR_MM) & (facing < FACING)
    weight = (joined + 1e-6) / (1 + (signed / SOFT_MM) ** 2)
    weight = weight / weight.sum(axis=1, keepdims=True)
    own = (weight[:, None] @ points)[:, 0]
    there, across = (
        np.stack([(weight * each[:, k].take(nearest)).sum(axis=1) for k in (0, 1)], axis=1)
        for each in (fixed.points, fixed.normals)
    )
    middle = (own + there) / 2
    length = np.linalg.norm(across, axis=1, keepdims=True)
    across = np.where(length > 1e-3, across / np.maximum(length, 1e-3), [1.0, 0.0])
    return Contact(middle.astype(np.float32), across.astype(np.float32))
