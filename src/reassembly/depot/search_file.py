"""The codes of all segments in one file, arranged so that near ones are found at once: FAISS."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reassembly.depot.coding import SEGMENTS, STEPS, WIDTH
from reassembly.depot.store import SEARCH_FILE, Depot, file_digest
from reassembly.errors import InputError
from reassembly.io.files import atomic_write

__all__ = [
    "SearchFile",
    "check_faiss",
    "open_search_file",
    "search_on_one_thread",
    "write_search_file",
]

EXACT_BELOW = 20_000
"""Segments up to which all are compared."""
PROBED = 24
"""Cells that are looked through for each segment."""
LEARNED_FROM = 64
"""Segments for each cell from which the middles of cells are learned."""


class SearchFile:
    """An open file."""

    def __init__(self, index: Any) -> None:
        self.index = index
        index.nprobe = min(PROBED, index.nlist)

    def nearest(
        self, codes: NDArray[np.int8], count: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
        """The likest segments of each of (Q, WIDTH) codes.

        Returns:
            Similarities (Q, count), 1 at most, falling; numbers of fragments (Q, count), -1 where
            there are no more; and of their segments (Q, count).
        """
        similar, found = self.index.search(codes.astype(np.float32), count)
        number = np.where(found < 0, -1, found // SEGMENTS)
        return similar / np.float32(STEPS**2), number, np.where(found < 0, 0, found % SEGMENTS)


def open_search_file(depot: Depot) -> SearchFile:
    """Opens the file, and checks that it is whole and of these fragments."""
    faiss = _faiss()
    path = depot.folder / SEARCH_FILE
    noted = depot.note("search")
    if not noted or not path.is_file():
        raise InputError(
            "this index is not complete", "Give the command `reassembly index` again", depot.folder
        )
    try:
        if file_digest(path) == noted:
            return SearchFile(faiss.read_index(str(path)))
    except (OSError, RuntimeError) as error:
        raise InputError("this file cannot be read", "Check its permissions", path) from error
    raise InputError(
        "this file is damaged", "Delete it, and give the command `reassembly index` again", path
    )


def write_search_file(depot: Depot, progress: Callable[[int, int, str], None] | None) -> None:
    """Makes the file from the database, unless it is there."""
    faiss = _faiss()
    path = depot.folder / SEARCH_FILE
    noted = depot.note("search")
    if noted and path.is_file() and file_digest(path) == noted:
        return
    count = len(depot)
    if progress is not None:
        progress(0, count, "arranging")
    codes = np.empty((count, SEGMENTS, WIDTH), np.int8)
    numbers = np.empty(count, np.int64)
    for k, row in enumerate(depot.rows()):
        codes[k], numbers[k] = depot.coded(row).has, row.number
    flat = codes.reshape(-1, WIDTH)
    cells = 1 if len(flat) < EXACT_BELOW else round(2 * math.sqrt(len(flat)))
    # The cells' own lists hold codes as they are: nothing is lost by rounding once more.
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatIP(WIDTH),
        WIDTH,
        cells,
        faiss.ScalarQuantizer.QT_8bit_direct_signed,
        faiss.METRIC_INNER_PRODUCT,
        False,
    )
    index.cp.spherical, index.cp.max_points_per_centroid = True, LEARNED_FROM
    index.cp.min_points_per_centroid, index.cp.niter = 1, 10
    learned = np.random.default_rng(0).permutation(len(flat))[: cells * LEARNED_FROM]
    index.train(flat[np.sort(learned)].astype(np.float32))
    ids = (numbers[:, None] * SEGMENTS + np.arange(SEGMENTS)).ravel()
    for start in range(0, len(flat), 100_000):
        some = slice(start, start + 100_000)
        index.add_with_ids(flat[some].astype(np.float32), ids[some])
    if progress is not None:
        progress(count, count, "arranging")
    data = faiss.serialize_index(index).tobytes()
    atomic_write(path, data)
    depot.set_note("search", hashlib.sha256(data).hexdigest())


def check_faiss() -> None:
    """Raises `InputError` where FAISS is missing: to be called before anything is written."""
    _faiss()


def search_on_one_thread() -> None:
    """Processes side by side then do not wait for each other."""
    _faiss().omp_set_num_threads(1)


def _faiss() -> Any:
    try:
        return import_module("faiss")
    except ImportError as error:
        raise InputError(
            "FAISS, which indexes need, is not installed",
            'Install it with: pip install "reassembly[depot]"',
        ) from error
