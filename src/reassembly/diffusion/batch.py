"""What the network is shown of some puzzles: their pieces one after the other, without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

__all__ = ["Batch", "Group", "Layout", "turn"]


@dataclass(frozen=True, eq=False)
class Batch:
    """P pieces in all, N candidate keypoints each, lengths in mm, y down.

    Each piece is in its own frame, moved so that its centroid is the origin.
    """

    pieces: tuple[int, ...]
    """Pieces of each puzzle."""
    points: Tensor
    """(P, N, 2) candidates in contour order."""
    edge_angle: Tensor
    """(P, N) direction of the tangent, radians, atan2(dy, dx)."""
    curvature: Tensor
    """(P, N), 1/mm, positive where convex."""
    windows: Tensor
    """(P, N, W, 2) the outline around each candidate, in its tangent frame."""
    area: Tensor
    """(P,), mm2."""
    local: Tensor | None = None
    """(P, N, F) texture around each candidate."""
    whole: Tensor | None = None
    """(P, F) texture of each piece."""
    pose: Tensor | None = None
    """(P, 3) true pose of each piece: x_mm and y_mm of its centroid, rotation_rad."""
    meets_piece: Tensor | None = None
    """(P, N) long: which piece of the puzzle lies across the break; -1 for none."""
    meets_point: Tensor | None = None
    """(P, N, 2) the point of that piece which met the candidate, in that piece's frame."""
    pictures: Tensor | None = None
    """(P, s, s, 4) uint8 RGBA: each piece, all on one scale, its centroid in the middle."""
    contour: Tensor | None = None
    """(P, M, 2) the whole outline in equal steps, in the order of the candidates."""
    contour_paint: Tensor | None = None
    """(P, M, ...) uint8: the paint around each point of the outline."""

    def to(self, device: torch.device | str) -> Batch:
        """The same on another device."""
        moved = {
            entry.name: value.to(device, non_blocking=True)
            for entry in fields(self)
            if isinstance(value := getattr(self, entry.name), Tensor)
        }
        return replace(self, **moved)  # type: ignore[arg-type]

    def repeated(self, count: int) -> Batch:
        """The same puzzles `count` times, one after the other."""
        columns = {
            entry.name: value.repeat(count, *[1] * (value.dim() - 1))
            for entry in fields(self)
            if isinstance(value := getattr(self, entry.name), Tensor)
        }
        return Batch(self.pieces * count, **columns)

    def turned(self, angle: Tensor) -> Batch:
        """The same puzzles with each piece turned in its own frame by (P,) radians.

        Textures stay as they are, so that those of patches in the input frame no longer fit.
        """
        rotation = torch.stack([angle.cos(), angle.sin()], -1)
        changed = {
            "points": turn(self.points, rotation[:, None]),
            "edge_angle": self.edge_angle - angle[:, None],
        }
        if self.contour is not None:
            changed["contour"] = turn(self.contour, rotation[:, None])
        if self.pictures is not None:
            changed["pictures"] = _turned_pictures(self.pictures, angle)
        if self.pose is not None:
            turns = self.pose[:, 2:] - angle[:, None]
            changed["pose"] = torch.cat([self.pose[:, :2], turns], -1)
        if self.meets_point is not None:
            changed["meets_point"] = turn(self.meets_point, rotation[self.across.clamp_min(0)])
        return replace(self, **changed)  # type: ignore[arg-type]

    @property
    def puzzle_of_piece(self) -> Tensor:
        """(P,) long."""
        return _owners(self.pieces, self.points.device)[0]

    @property
    def first_piece(self) -> Tensor:
        """(B,) long: where each puzzle's pieces begin."""
        return _owners(self.pieces, self.points.device)[1]

    @cached_property
    def across(self) -> Tensor:
        """(P, N) long: which of all P pieces lies across the break; -1 for none."""
        assert self.meets_piece is not None
        first = self.first_piece[self.puzzle_of_piece, None]
        return (self.meets_piece + first).masked_fill(self.meets_piece < 0, -1)

    @cached_property
    def scale_mm(self) -> Tensor:
        """(B,) square root of each puzzle's total area: the unit of translations."""
        total = torch.zeros(len(self.pieces), device=self.area.device, dtype=self.area.dtype)
        return total.index_add_(0, self.puzzle_of_piece, self.area).sqrt()

    @cached_property
    def anchor_piece(self) -> Tensor:
        """(B,) long: the largest piece of each puzzle."""
        if len(set(self.pieces)) == 1:
            return self.area.view(len(self.pieces), -1).argmax(1) + self.first_piece
        parts = torch.split(self.area.detach().cpu(), list(self.pieces))
        largest = torch.tensor([int(part.argmax()) for part in parts])
        return largest.to(self.area.device) + self.first_piece

    @cached_property
    def anchor(self) -> Tensor:
        """(P,) bool: whether a piece is the largest of its puzzle."""
        numbers = torch.arange(len(self.area), device=self.area.device)
        return numbers == self.anchor_piece[self.puzzle_of_piece]


def turn(points: Tensor, rotation: Tensor) -> Tensor:
    """Turns (..., 2) points by (..., 2) of (cos, sin), counter-clockwise as seen, y down."""
    x, y = points.unbind(-1)
    c, s = rotation.unbind(-1)
    return torch.stack([c * x + s * y, c * y - s * x], -1)


def _turned_pictures(pictures: Tensor, angle: Tensor) -> Tensor:
    """(P, s, s, 4) uint8 turned about their middle by (P,) radians, counter-clockwise as seen."""
    c, s, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    # Where each pixel comes from: the opposite turn.
    inverse = torch.stack([torch.stack([c, -s, zero], -1), torch.stack([s, c, zero], -1)], -2)
    images = pictures.movedim(-1, 1).to(angle.dtype)
    grid = F.affine_grid(inverse, list(images.shape), align_corners=False)
    moved = F.grid_sample(images, grid, align_corners=False)
    return moved.movedim(1, -1).round().clamp(0, 255).to(torch.uint8)


@lru_cache(maxsize=256)
def _owners(pieces: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Of each piece its puzzle, and of each puzzle its first piece."""
    counts = torch.tensor(pieces, device=device)
    numbers = torch.arange(len(pieces), device=device)
    owner = numbers.repeat_interleave(counts, output_size=sum(pieces))
    return owner, counts.cumsum(0) - counts


class Layout:
    """Which tokens belong to which piece and puzzle.

    Sequences of the same length are worked on together, so that attention needs no padding: one
    fused call for each distinct length, and a single one without any copy where all are equal.
    """

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, tokens: tuple[int, ...], pieces: tuple[int, ...], device: torch.device) -> Layout:
        """The layout of these numbers, made once."""
        return cls(tokens, pieces, device)

    def __init__(
        self, tokens: Sequence[int], pieces: tuple[int, ...], device: torch.device | str
    ) -> None:
        """Args:
        tokens: tokens of each piece.
        pieces: pieces of each puzzle.
        """
        of_puzzle, start = [], 0
        for count in pieces:
            of_puzzle.append(sum(tokens[start : start + count]))
            start += count
        self.count = sum(tokens)
        self.pieces = len(tokens)
        self.by_piece = _groups(tokens, device)
        self.by_puzzle = _groups(of_puzzle, device)
        each = torch.tensor(tokens, device=device)
        self.piece_of_token = torch.arange(len(tokens), device=device).repeat_interleave(
            each, output_size=self.count
        )
        self.tokens_of_piece = each

    def piece_mean(self, values: Tensor) -> Tensor:
        """(T, C) to the mean over each piece's tokens, (P, C)."""
        return self.piece_sum(values) / self.tokens_of_piece[:, None]

    def piece_sum(self, values: Tensor) -> Tensor:
        """(T, C) to the sum over each piece's tokens, (P, C)."""
        if len(self.by_piece) == 1:
            return values.view(self.pieces, -1, values.shape[-1]).sum(1)
        total = values.new_zeros(self.pieces, values.shape[-1])
        return total.index_add_(0, self.piece_of_token, values)


@dataclass(frozen=True, eq=False)
class Group:
    """Sequences of one length."""

    shape: tuple[int, int]
    """(sequences, length)."""
    index: Tensor | None
    """(sequences * length,) tokens; None for all of them in order."""

    def take(self, values: Tensor) -> Tensor:
        """(T, ...) to (sequences, length, ...)."""
        taken = values if self.index is None else values[self.index]
        return taken.view(*self.shape, *values.shape[1:])

    def put(self, into: Tensor | None, values: Tensor, count: int) -> Tensor:
        """(sequences, length, ...) back to its place among (T, ...)."""
        flat = values.reshape(-1, *values.shape[2:])
        if self.index is None:
            return flat
        if into is None:
            into = flat.new_zeros(count, *flat.shape[1:])
        return into.index_copy(0, self.index, flat)


def _groups(lengths: Sequence[int], device: torch.device | str) -> list[Group]:
    distinct = sorted(set(lengths))
    if len(distinct) == 1:
        return [Group((len(lengths), distinct[0]), None)]
    starts = torch.tensor([0, *lengths]).cumsum(0)[:-1]
    found = []
    for length in distinct:
        chosen = starts[[k for k, n in enumerate(lengths) if n == length]]
        index = (chosen[:, None] + torch.arange(length)).reshape(-1)
        found.append(Group((len(chosen), length), index.to(device)))
    return found
