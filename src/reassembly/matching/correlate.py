"""Proposing joins: every way to lay one piece beside another, by correlation over turns and shifts.

A placement's score, in mm of rim, is linear in fields of the two pieces, so that all shifts are
compared at once by a Fourier transform:

- contact: rim near the other's rim whose outward normals face each other; where they point the same
  way, one piece lies on the other, and that counts against it;
- paint: contact counts more where the colours beside it agree, less where they differ;
- overlap of the pieces' insides counts against it. It is not forbidden, as worn pieces that lie
  where they belong do overlap.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import combinations

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from reassembly.config import FREE, ProposeConfig
from reassembly.errors import InputError
from reassembly.matching.motions import Motions, matrices
from reassembly.matching.rim import Rim

__all__ = [
    "distinct",
    "nearly_same",
    "parse_proposing",
    "propose",
    "smaller_first",
]


def parse_proposing(words: Sequence[str]) -> dict[str, float]:
    """What is to be otherwise in `ProposeConfig`, by words such as `gap_mm=3`.

    Raises:
        InputError: where a word names none of them, or gives no number.
    """
    names = [entry.name for entry in fields(ProposeConfig) if entry.name != "keep"]
    found = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in names:
            raise InputError(f"proposing has no setting {name!r}", f"There are {', '.join(names)}")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = math.nan
        if not (0 < found[name] < math.inf or (found[name] == 0 and name in FREE)):
            raise InputError(
                f"{name} cannot be {value!r}", f"Give a number above 0, such as {name}=1.5"
            )
    return found


COLOUR_DEPTHS = slice(1, 5)
"""Of `rim.DEPTHS_MM`: paint at the very rim is worn, and deep paint belongs to something else."""
MOST_COLOUR = 2.0
"""Colours further from the mean count as this far."""
SMOOTH_MM = 1.5
"""Directions beside a rim are those of the rim seen through a blur of this width."""
TURNS_AT_ONCE = 24
BESIDE_AT_ONCE = 16
"""Pieces that another one is laid beside in one go."""
TURNED_CELLS, BESIDE_CELLS = 4_000_000, 50_000_000
"""Large pieces are turned in fewer ways and laid beside fewer at once: maps have so many cells."""
PEAKS = 30
"""Shifts looked at of one turn."""
LEAST_MM = 3.0
"""Placements of lower scores are none."""


def propose(
    rims: Mapping[str, Rim],
    settings: ProposeConfig | None = None,
    pairs: Sequence[tuple[str, str]] | None = None,
    device: str = "cpu",
) -> Iterator[tuple[str, str, Motions, NDArray[np.float64]]]:
    """Ranked placements of pairs of pieces.

    Args:
        pairs: all, unless given.

    Yields:
        For each pair the smaller piece, the larger piece, motions (K, 3) that carry the larger one
        into the smaller one's centred frame, best first, and their scores (K,) in mm of rim.
    """
    settings = settings or ProposeConfig()
    wanted = list(combinations(rims, 2)) if pairs is None else pairs
    for larger, partners in smaller_first(rims, wanted).items():
        # They come by size, so that small ones are compared on small maps.
        size = _size([rims[i] for i in partners], rims[larger], settings)
        at_once = max(1, min(BESIDE_AT_ONCE, BESIDE_CELLS // size**2))
        for first in range(0, len(partners), at_once):
            some = partners[first : first + at_once]
            found = _beside([rims[i] for i in some], rims[larger], settings, torch.device(device))
            for smaller, (motions, scores) in zip(some, found, strict=True):
                yield smaller, larger, motions, scores


def smaller_first(
    rims: Mapping[str, Rim], pairs: Sequence[tuple[str, str]]
) -> dict[str, list[str]]:
    """Pairs by their larger piece: the smaller ones of each, both in the order of their size."""
    order = sorted(rims, key=lambda i: (rims[i].radius_mm, i))
    place = {i: k for k, i in enumerate(order)}
    partners: dict[str, list[str]] = {}
    by_size = [sorted(pair, key=place.__getitem__, reverse=True) for pair in pairs]
    for larger, smaller in sorted(by_size, key=lambda pair: [place[i] for i in pair]):
        partners.setdefault(larger, []).append(smaller)
    return partners


def nearly_same(one: Motions, other: Motions, settings: ProposeConfig) -> NDArray[np.bool_]:
    """Which motions (..., 3) are nearly the same."""
    turned = np.abs((one[..., 0] - other[..., 0] + np.pi) % (2 * np.pi) - np.pi)
    shifted = np.hypot(one[..., 1] - other[..., 1], one[..., 2] - other[..., 2])
    near: NDArray[np.bool_] = turned <= np.radians(settings.apart_deg)
    return near & (shifted <= settings.apart_mm)


def _beside(
    fixed: Sequence[Rim], moving: Rim, settings: ProposeConfig, device: torch.device
) -> list[tuple[Motions, NDArray[np.float64]]]:
    """Placements of one piece beside each of several that are no larger."""
    size = _size(fixed, moving, settings)
    shown = [torch.fft.rfft2(_fixed_fields(rim, size, settings).to(device)) for rim in fixed]
    turns = np.radians(np.arange(0.0, 360.0, settings.turn_deg))
    peaks: list[list[Tensor]] = [[] for _ in fixed]
    at_once = max(1, min(TURNS_AT_ONCE, TURNED_CELLS // size**2))
    for first in range(0, len(turns), at_once):
        some = turns[first : first + at_once]
        turned = torch.fft.rfft2(_moving_fields(moving, some, size, settings, device)).conj()
        for found, fixed_fields in zip(peaks, shown, strict=True):
            both = turned[:, 0] * fixed_fields[0]
            for one, other in zip(turned.unbind(1)[1:], fixed_fields[1:], strict=True):
                both.addcmul_(one, other)
            score = torch.fft.irfft2(both, s=(size, size))
            found.append(_peaks(score, first, settings))
    results = []
    for found in peaks:
        rows = torch.cat(found).cpu().numpy().astype(np.float64)
        rows = rows[rows[:, 0] > LEAST_MM]
        motions = np.column_stack(
            [
                turns[rows[:, 1].astype(int)],
                (rows[:, 2:] - size // 2) * settings.cell_mm,
            ]
        )
        kept = distinct(motions, rows[:, 0], settings)
        results.append((motions[kept], rows[kept, 0]))
    return results


def _size(fixed: Sequence[Rim], moving: Rim, settings: ProposeConfig) -> int:
    """Cells along a side of the maps on which a piece is laid beside others."""
    from scipy.fft import next_fast_len

    reach = max(rim.radius_mm for rim in fixed) + moving.radius_mm + settings.gap_mm
    cells = int(2 * (reach + settings.spread_mm) / settings.cell_mm) + 2
    size: int = next_fast_len(cells, real=True)
    return size


def _fixed_fields(rim: Rim, size: int, settings: ProposeConfig) -> Tensor:
    """(9, size, size): what placements are scored by, the piece's centre in the middle cell."""
    cells = (np.arange(size) - size // 2) * settings.cell_mm
    grid = np.stack(np.meshgrid(cells, cells), axis=-1).astype(np.float32)
    signed, nearest = rim.look_up(grid)
    beyond = (signed - settings.gap_mm) / settings.spread_mm
    band = np.exp(-0.5 * beyond**2)
    band[np.abs(beyond) > 3] = 0
    smooth = cv2.GaussianBlur(signed, (0, 0), SMOOTH_MM / settings.cell_mm)
    slope = np.stack(np.gradient(smooth)[::-1], axis=-1)
    slope /= np.maximum(np.linalg.norm(slope, axis=-1, keepdims=True), 1e-6)
    facing = -slope * band[..., None]
    colours = _colours(rim)[nearest] * settings.paint
    inside = np.clip(-signed / settings.rim_mm, 0, 1)
    fields = [inside * -settings.overlap]
    for axis in (0, 1):
        fields.append(facing[..., axis])
        fields.extend(facing[..., axis] * colours[..., k] for k in range(3))
    return torch.from_numpy(np.stack(fields).astype(np.float32))


def _moving_fields(
    rim: Rim,
    turns: NDArray[np.float64],
    size: int,
    settings: ProposeConfig,
    device: torch.device,
) -> Tensor:
    """(T, 9, size, size): likewise of the piece turned by (T,) radians, its centre in cell 0."""
    turned = torch.from_numpy(matrices(turns)).float().to(device)
    points, normals = (
        torch.from_numpy(each).to(device) @ turned.mT for each in (rim.points, rim.normals)
    )
    colours = torch.from_numpy(_colours(rim)).to(device)
    ones = torch.ones(len(colours), 1, device=device)
    told = torch.cat([ones, colours], dim=1) * rim.step_mm
    values = (normals[..., :, None] * told[None, :, None, :]).flatten(2)
    fields = torch.zeros(len(turns), 9, size, size, device=device)
    _splat(fields[:, 1:], points / settings.cell_mm, values)
    inner, weights = (torch.from_numpy(each).to(device) for each in _inside(rim, settings))
    inner = inner @ turned.mT
    weights = weights.expand(len(turns), -1)[..., None]
    _splat(fields[:, :1], inner / settings.cell_mm, weights)
    return fields


def _inside(rim: Rim, settings: ProposeConfig) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Points (M, 2) that stand for the piece's inside, and the mm^2 each stands for (M,)."""
    step = 2 * settings.cell_mm
    low, high = rim.points.min(axis=0), rim.points.max(axis=0)
    x, y = (np.arange(low[k], high[k], step, dtype=np.float32) for k in (0, 1))
    grid = np.stack(np.meshgrid(x, y), axis=-1)
    signed, _ = rim.look_up(grid)
    within = signed < 0
    weights = np.clip(-signed[within] / settings.rim_mm, 0, 1) * step**2
    return grid[within], weights.astype(np.float32)


def _colours(rim: Rim) -> NDArray[np.float32]:
    """(N, 3): colour beside each point of the rim, no stain further out than `MOST_COLOUR`."""
    colours = rim.paint[:, COLOUR_DEPTHS].mean(axis=1)
    length = np.linalg.norm(colours, axis=1, keepdims=True)
    limited: NDArray[np.float32] = colours / np.maximum(1, length / MOST_COLOUR)
    return limited


def _splat(fields: Tensor, at: Tensor, values: Tensor) -> None:
    """Adds (T, M, C) values at (T, M, 2) places, in cells, to (T, C, S, S) fields that wrap."""
    turns, channels, size, _ = fields.shape
    low = at.floor()
    part = at - low
    flat = torch.zeros(turns, size * size, channels, device=fields.device)
    for dx in (0, 1):
        for dy in (0, 1):
            x, y = ((low[..., k] + d).long() % size for k, d in ((0, dx), (1, dy)))
            share = (part[..., 0] - (1 - dx)).abs() * (part[..., 1] - (1 - dy)).abs()
            index = (y * size + x)[..., None].expand(-1, -1, channels)
            flat.scatter_add_(1, index, values * share[..., None])
    fields += flat.mT.reshape(turns, channels, size, size)


def _peaks(score: Tensor, first: int, settings: ProposeConfig) -> Tensor:
    """(M, 4): score, number of the turn, x and y in cells, of the best shifts of each turn."""
    turns, size, _ = score.shape
    reach = max(1, round(settings.apart_mm / 2 / settings.cell_mm))
    highest = F.pad(score[:, None], (reach,) * 4, mode="circular")[:, 0]
    for axis in (2, 1):  # A window of 2 reach + 1 cells, by shifts: torch's pooling is much slower.
        shifted = (highest.narrow(axis, d, size) for d in range(2 * reach + 1))
        highest = functools.reduce(torch.maximum, shifted)
    masked = torch.where(score >= highest, score, 0.0).flatten(1)
    value, index = masked.topk(min(PEAKS, masked.shape[1]), dim=1)
    number = torch.arange(first, first + turns, device=score.device)[:, None].expand_as(index)
    return torch.stack([value, number, index % size, index // size], dim=-1).flatten(0, 1)


def distinct(
    motions: Motions, scores: NDArray[np.float64], settings: ProposeConfig
) -> NDArray[np.intp]:
    """Which are the best of those that are nearly the same: numbers, best first, at most `keep`."""
    from scipy.spatial import cKDTree

    order = np.argsort(-scores, kind="stable")
    motions = motions[order]
    # A tree finds the few that may be nearly the same; turns go around.
    mm = settings.apart_mm / np.radians(settings.apart_deg)
    round_mm = 2 * np.pi * mm
    around = np.column_stack([np.mod(motions[:, 0] * mm, round_mm), motions[:, 1:]])
    low = around[:, 1:].min(axis=0, initial=0.0)
    around[:, 1:] -= low
    tree = cKDTree(around, boxsize=np.array([round_mm, 0.0, 0.0]))
    pairs = tree.query_pairs(1.001 * settings.apart_mm, p=np.inf, output_type="ndarray")
    pairs = pairs[nearly_same(motions[pairs[:, 0]], motions[pairs[:, 1]], settings)]
    worse: list[list[int]] = [[] for _ in order]
    for one, other in pairs.tolist():  # The first is the better one.
        worse[one].append(other)
    left = [True] * len(order)
    kept: list[int] = []
    for k, others in enumerate(worse):
        if left[k]:
            kept.append(k)
            if len(kept) == settings.keep:
                break
            for other in others:
                left[other] = False
    chosen: NDArray[np.intp] = order[kept]
    return chosen
