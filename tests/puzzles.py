"""Small puzzles for tests, drawn and cut by code, with exact true poses."""

from __future__ import annotations

import math

import cv2
import numpy as np

from reassembly.pose import Pose
from reassembly.puzzle import Fragment, Puzzle


def drawn_puzzle(
    pieces: int = 5,
    seed: int = 0,
    size_px: int = 300,
    mm_per_px: float = 0.5,
    gap_px: int = 0,
    turned: bool = True,
) -> Puzzle:
    """A coloured square cut into `pieces` by wavy lines, each piece in a frame of its own.

    Args:
        gap_px: how many pixels each piece loses all around.
        turned: whether each piece's scan is turned by a random angle.
    """
    rng = np.random.default_rng(seed)
    picture = _picture(rng, size_px)
    fragments, truth = [], {}
    for k, mask in enumerate(_cut(rng, size_px, pieces)):
        if gap_px:
            kernel = np.ones((3, 3), np.uint8)
            padded = cv2.erode(np.pad(mask, 1).astype(np.uint8), kernel, iterations=gap_px)
            mask = padded[1:-1, 1:-1].astype(bool)
        rotation = rng.uniform(-math.pi, math.pi) if turned else 0.0
        name = f"fragment_{k}"
        fragment, truth[name] = _scan(picture, mask, name, rotation, mm_per_px)
        fragments.append(fragment)
    return Puzzle(f"drawn-{seed}", tuple(fragments), truth)


def _picture(rng: np.random.Generator, size: int) -> np.ndarray:
    noise = rng.uniform(0, 255, (8, 8, 3)).astype(np.float32)
    smooth = cv2.resize(noise, (size, size), interpolation=cv2.INTER_CUBIC)
    fine = rng.normal(0, 6, (size, size, 3))
    picture = np.clip(smooth + fine, 0, 255).astype(np.uint8)
    for _ in range(4):
        a, b = rng.integers(0, size, (2, 2))
        cv2.line(
            picture, a.tolist(), b.tolist(), rng.integers(0, 255, 3).tolist(), max(2, size // 60)
        )
    return picture


def _cut(rng: np.random.Generator, size: int, pieces: int) -> list[np.ndarray]:
    """Masks that partition the square, the largest cut again until there are enough."""
    parts = [np.ones((size, size), bool)]
    y, x = np.mgrid[:size, :size] + 0.5
    while len(parts) < pieces:
        largest = max(range(len(parts)), key=lambda k: parts[k].sum())
        mask = parts[largest]
        angle = rng.uniform(0, math.pi)
        centre = np.array([x[mask].mean(), y[mask].mean()])
        along = (x - centre[0]) * math.cos(angle) + (y - centre[1]) * math.sin(angle)
        across = -(x - centre[0]) * math.sin(angle) + (y - centre[1]) * math.cos(angle)
        wave = sum(
            rng.normal(0, size / 40)
            / k
            * np.sin(along * k * math.tau / size * 1.5 + rng.uniform(0, 6))
            for k in range(1, 9)
        )
        sides = [mask & (across > wave), mask & (across <= wave)]
        connected = [
            cv2.connectedComponents(s.astype(np.uint8), connectivity=4)[0] == 2 for s in sides
        ]
        if all(connected) and min(s.sum() for s in sides) > mask.sum() / 5:
            parts[largest : largest + 1] = sides
    return parts


def _scan(
    picture: np.ndarray, mask: np.ndarray, name: str, rotation: float, mm_per_px: float
) -> tuple[Fragment, Pose]:
    """The piece as a scanner would see it, and the pose that puts it back."""
    rows, columns = np.nonzero(mask)
    centre = np.array([columns.mean() + 0.5, rows.mean() + 0.5])
    reach = np.hypot(columns + 0.5 - centre[0], rows + 0.5 - centre[1]).max()
    side = 2 * int(math.ceil(reach) + 3)
    # cv2 puts pixel centres at whole numbers, ours are at halves: hence the two shifts by 0.5.
    c, s = math.cos(rotation), math.sin(rotation)
    turn = np.array([[c, s], [-s, c]])
    to_scan = turn.T
    offset = side / 2 - to_scan @ centre + to_scan @ [0.5, 0.5] - 0.5
    matrix = np.column_stack([to_scan, offset])
    scan = cv2.warpAffine(
        picture, matrix, (side, side), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT
    )
    soft = cv2.warpAffine(mask.astype(np.float32), matrix, (side, side), flags=cv2.INTER_LINEAR)
    inside = soft > 0.5
    count, labels, stats, _ = cv2.connectedComponentsWithStats(
        inside.astype(np.uint8), connectivity=4
    )
    inside = labels == 1 + stats[1:, cv2.CC_STAT_AREA].argmax() if count > 2 else inside
    fragment = Fragment(
        name, np.where(inside[..., None], scan, 0).astype(np.uint8), inside, mm_per_px
    )
    return fragment, Pose(centre[0] * mm_per_px, centre[1] * mm_per_px, rotation)
