"""Puzzles prepared for training: described once, kept in shards, drawn in batches.

A pool is a folder of `shard-00000.safetensors`, ...: the pieces of some puzzles one after the
other, named as in `reassembly.diffusion.batch.Batch`, and `pieces`, how many each puzzle has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from reassembly.diffusion.batch import Batch
from reassembly.errors import InputError
from reassembly.io.files import atomic_write
from reassembly.keypoints.describe import Description

__all__ = ["Pool", "pool_folders", "shard_of", "shard_path", "write_shard"]

SHARD = "shard-*.safetensors"
KINDS = {
    "points": torch.float32,
    "edge_angle": torch.float32,
    "curvature": torch.float32,
    "windows": torch.float16,
    "area": torch.float32,
    "pose": torch.float32,
    "meets_piece": torch.int16,
    "meets_point": torch.float16,
    "local": torch.float16,
    "whole": torch.float16,
    "patches": torch.uint8,
    "wholes": torch.uint8,
    "pictures": torch.uint8,
    "contour": torch.float32,
    "contour_paint": torch.uint8,
}
COLUMNS = tuple(entry.name for entry in fields(Batch) if entry.name in KINDS)
"""What a batch can hold."""


class Pool:
    """Puzzles in memory, or on a GPU, from which batches are drawn by number."""

    def __init__(self, tensors: Mapping[str, Tensor], pieces: Sequence[int]) -> None:
        self.tensors = dict(tensors)
        self.pieces = np.asarray(pieces, np.int64)
        self.first = np.cumsum(self.pieces) - self.pieces

    @classmethod
    def load(
        cls, folder: str | PathLike[str], keep: Iterable[str] = COLUMNS, limit: int | None = None
    ) -> Pool:
        """Reads the shards of a folder, or of the pools in it.

        Args:
            keep: the tensors that are wanted; others are not read into memory.
            limit: at most so many puzzles, the first ones.
        """
        paths = [path for pool in pool_folders(folder) for path in sorted(pool.glob(SHARD))]
        if not paths:
            raise InputError(
                "holds no prepared puzzles", "Make some with `reassembly prepare`", Path(folder)
            )
        shards: list[dict[str, Tensor]] = []
        pieces: list[int] = []
        for path in paths:
            if limit is not None and len(pieces) >= limit:
                break
            try:
                shard = load_file(path)
            except (SafetensorError, OSError) as error:
                raise InputError(
                    f"is no shard of prepared puzzles: {error}", "Remove and prepare again", path
                ) from None
            pieces += shard.pop("pieces").tolist()
            shards.append({name: shard[name] for name in keep if name in shard})
        names = set.intersection(*(set(shard) for shard in shards))
        tensors = {name: torch.cat([shard[name] for shard in shards]) for name in sorted(names)}
        if limit is not None and limit < len(pieces):
            pieces = pieces[:limit]
            tensors = {name: value[: sum(pieces)] for name, value in tensors.items()}
        return cls(tensors, pieces)

    def __len__(self) -> int:
        return len(self.pieces)

    def to(self, device: torch.device | str) -> Pool:
        """The same on another device."""
        moved = {name: value.to(device) for name, value in self.tensors.items()}
        return Pool(moved, self.pieces.tolist())

    def batch(self, numbers: Sequence[int] | NDArray[np.int64]) -> Batch:
        """The puzzles of these numbers."""
        chosen = np.asarray(numbers, np.int64)
        pieces = self.pieces[chosen]
        rows = np.concatenate(
            [np.arange(a, a + n) for a, n in zip(self.first[chosen], pieces, strict=True)]
        )
        index = torch.from_numpy(rows).to(self.tensors["area"].device)
        drawn = {name: value[index] for name, value in self.tensors.items() if name in COLUMNS}
        for name in ("meets_point", "pose"):
            if name in drawn:
                drawn[name] = drawn[name].float()
        if "meets_piece" in drawn:
            drawn["meets_piece"] = drawn["meets_piece"].long()
        return Batch(tuple(int(n) for n in pieces), **drawn)

    @property
    def nbytes(self) -> int:
        """Memory that the tensors take."""
        return sum(value.nbytes for value in self.tensors.values())

    def part(self, first: int, last: int) -> Pool:
        """The puzzles from number `first` up to, and without, `last`."""
        rows = slice(int(self.pieces[:first].sum()), int(self.pieces[:last].sum()))
        tensors = {name: value[rows] for name, value in self.tensors.items()}
        return Pool(tensors, self.pieces[first:last].tolist())


def pool_folders(folder: str | PathLike[str], shard: str = SHARD) -> list[Path]:
    """The folder itself, if it is a pool, or those of its subfolders that are; none where none is.

    Args:
        shard: how its shards are named.
    """
    path = Path(folder)
    if any(path.glob(shard)):
        return [path]
    return sorted(sub for sub in path.iterdir() if any(sub.glob(shard))) if path.is_dir() else []


def shard_of(
    puzzles: Sequence[tuple[Description, Mapping[str, NDArray[Any]]]],
) -> dict[str, Tensor]:
    """The tensors of one shard: descriptions with their truth, and textures by name."""
    columns: dict[str, list[Tensor]] = {}
    for description, texture in puzzles:
        arrays = {
            **{name: getattr(description, name) for name in KINDS if hasattr(description, name)},
            **description.truth,
            **texture,
        }
        for name, array in arrays.items():
            column = torch.as_tensor(np.asarray(array)).to(KINDS[name])
            columns.setdefault(name, []).append(column)
    shard = {name: torch.cat(values).contiguous() for name, values in columns.items()}
    shard["pieces"] = torch.tensor([len(description.area) for description, _ in puzzles])
    return shard


def write_shard(folder: Path, number: int, tensors: Mapping[str, Tensor]) -> None:
    """Writes one shard, all or nothing."""
    atomic_write(shard_path(folder, number), save(dict(tensors)))


def shard_path(folder: Path, number: int) -> Path:
    """Where a shard lies."""
    return folder / f"shard-{number:05d}.safetensors"
