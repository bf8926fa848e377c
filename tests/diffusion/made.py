"""Made puzzles as batches, for the tests of the model."""

from dataclasses import replace
from functools import cache

import torch

from reassembly.diffusion.batch import Batch
from reassembly.keypoints.describe import describe, meetings
from reassembly.synthetic.make import make_puzzle, recipe
from reassembly.training.pool import Pool, shard_of


@cache
def described(pieces: int, index: int = 0):
    made = make_puzzle(recipe("paper", size_px=384, pieces=(pieces, pieces)), 3, index)
    seen = describe(made.puzzle.fragments)
    return replace(seen, truth=meetings(made.puzzle, seen, made.labels))


def batch_of(*pieces: int, texture: int = 0) -> Batch:
    """One puzzle for each number of pieces, with random texture of that length."""
    generator = torch.Generator().manual_seed(0)
    columns = []
    for index, count in enumerate(pieces):
        seen = described(count, index)
        extra = (
            {
                "local": torch.randn(count, 100, texture, generator=generator).numpy(),
                "whole": torch.randn(count, texture, generator=generator).numpy(),
            }
            if texture
            else {}
        )
        columns.append((seen, extra))
    shard = shard_of(columns)
    counts = shard.pop("pieces").tolist()
    return Pool(shard, counts).batch(range(len(counts)))
