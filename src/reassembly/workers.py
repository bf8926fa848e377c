"""Worker processes that end when the process that started them does, even by kill -9."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import connection, get_context

__all__ = ["worker_pool"]


def worker_pool(workers: int, prepare: Callable[[], None] | None = None) -> ProcessPoolExecutor:
    """A pool of spawned processes.

    Args:
        prepare: called once in each process, before any work.
    """
    return ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(prepare,)
    )


def _begin(prepare: Callable[[], None] | None) -> None:
    warnings.showwarning = _plainly
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if prepare is not None:
        prepare()


def _plainly(message: Warning | str, *_: object, **__: object) -> None:
    """A warning as the commands print it."""
    print(f"warning: {message}", file=sys.stderr)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
