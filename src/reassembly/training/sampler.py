"""Which puzzles a step is shown: decided by the seed and the number of the step alone.

A run that is resumed at step n therefore goes on exactly as one that was never interrupted, and
several processes learn what one does: they only share out the batches of a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import IterableDataset

__all__ = ["Batches", "Steps"]

Numbers = NDArray[np.int64]


class Batches:
    """Batches without end, epoch after epoch; puzzles of the same size go together.

    Every number comes exactly once an epoch. What is left over of each size fills mixed batches,
    neighbouring sizes together.

    Args:
        sizes: of each puzzle, such as its pieces.
        batch: puzzles a batch.
        shares: batches a step.
        even: every batch holds one size; the last of each size is filled up with repetitions.
    """

    def __init__(
        self,
        sizes: Sequence[int] | Numbers,
        batch: int,
        seed: int,
        shares: int = 1,
        even: bool = False,
    ) -> None:
        if batch < 1 or shares < 1 or len(sizes) == 0:
            raise ValueError(f"no {shares} batches of {batch} from {len(sizes)}")
        self.sizes = np.asarray(sizes, np.int64)
        self.batch, self.seed, self.shares = batch, seed, shares
        self._epoch: tuple[int, list[Numbers]] | None = None
        counts = np.unique(self.sizes, return_counts=True)[1]
        self.even = even
        self.per_epoch = (
            int(-(-counts // batch).sum())
            if even
            else int((counts // batch).sum() - (-(counts % batch).sum() // batch))
        )

    def epoch(self, number: int) -> list[Numbers]:
        """The batches of one epoch."""
        if self._epoch is None or self._epoch[0] != number:
            self._epoch = number, self._drawn(number)
        return self._epoch[1]

    def at(self, step: int, share: int = 0) -> Numbers:
        """One of the batches of a step, both counted from 0."""
        epoch, place = divmod(step * self.shares + share, self.per_epoch)
        return self.epoch(epoch)[place]

    def _drawn(self, number: int) -> list[Numbers]:
        rng = np.random.default_rng([self.seed, number])
        batches: list[Numbers] = []
        rest: list[Numbers] = []
        for size in np.unique(self.sizes):
            drawn = rng.permutation(np.flatnonzero(self.sizes == size))
            if self.even:
                drawn = np.resize(drawn, -(-len(drawn) // self.batch) * self.batch)
            whole = len(drawn) - len(drawn) % self.batch
            batches += list(drawn[:whole].reshape(-1, self.batch))
            rest.append(drawn[whole:])
        left = np.concatenate(rest)  # Nothing, where batches are even.
        batches += [left[k : k + self.batch] for k in range(0, len(left), self.batch)]
        return [batches[k] for k in rng.permutation(len(batches))]


class Steps(IterableDataset[tuple[int, int, Numbers]]):
    """The steps of a run from `start` on: their numbers, those of the shares that fall to one
    process out of several, and those of their puzzles."""

    def __init__(self, batches: Batches, start: int, rank: int = 0, ranks: int = 1) -> None:
        if not 0 <= rank < ranks or batches.shares % ranks:
            raise ValueError(f"{batches.shares} batches a step for process {rank} of {ranks}")
        self.batches, self.start = batches, start
        self.own = range(rank, batches.shares, ranks)

    def __iter__(self) -> Iterator[tuple[int, int, Numbers]]:
        step = self.start
        while True:
            for share in self.own:
                yield step, share, self.batches.at(step, share)
            step += 1
