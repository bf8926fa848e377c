"""The process that does the heavy work: it reads no database, and ends with its parent."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from reassembly.errors import InputError, InputWarning, causes
from reassembly.io.files import DISK_FULL, disk_error
from reassembly.solvers.base import Cancelled

__all__ = ["KINDS", "UNWRITTEN", "Task", "work"]

KINDS = {
    "inspect": "reassembly.app.imports:inspect_upload",
    "import": "reassembly.app.imports:import_upload",
    "reference": "reassembly.app.imports:import_reference",
    "repair": "reassembly.app.repair:repair",
    "solve": "reassembly.app.solving:solve_pieces",
    "joins": "reassembly.app.solving:search_joins",
    "export": "reassembly.app.exports:export",
    "open": "reassembly.app.document:open_document",
}
"""The function of each kind of job: called with a `Task`, it returns what JSON can hold."""
REPORT_EVERY_S = 0.15
UNWRITTEN = "Make room on the disk of the workspace, see that it can be written, then try again"
PATIENCE = getattr(psutil, "BELOW_NORMAL_PRIORITY_CLASS", 10)
"""Windows has names for it, other systems numbers."""


class Task:
    """A job as its function sees it."""

    def __init__(self, payload: dict[str, Any], send: Callable[[Any], None]) -> None:
        self.payload = payload
        self.cancelled = threading.Event()
        self._send = send
        self._last = 0.0
        self._unshown: Any = None

    def report(self, fraction: float, stage: str, preview: Any = None) -> None:
        """Says how far the job has come; raises `Cancelled` where nobody wants it any more.

        Args:
            preview: called for poses to show, where a report is due; where none is, with the next
                one, unless a newer one comes first.
        """
        if self.cancelled.is_set():
            raise Cancelled
        if preview is not None:
            self._unshown = preview
        at = time.monotonic()
        if at - self._last >= REPORT_EVERY_S or fraction >= 1.0:
            self._last, preview, self._unshown = at, self._unshown, None
            shown = preview() if callable(preview) else preview
            self._send(("progress", min(max(float(fraction), 0.0), 1.0), stage, shown))


def work(connection: Connection, patient: bool = False) -> None:
    """Does one task after the other, until the other end is closed.

    Args:
        patient: give way to other processes, so that the page stays quick.
    """
    # Ctrl-C is for the server, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if patient:
        with suppress(psutil.Error, OSError):
            psutil.Process().nice(PATIENCE)
    tasks: queue.Queue[Task] = queue.Queue()
    sending = threading.Lock()
    current: list[Task] = []

    def send(message: Any) -> None:
        with sending:
            connection.send(message)

    def listen() -> None:
        """Cancelling must get through while a task runs; and so must the parent's end."""
        while True:
            try:
                message = connection.recv()
            except (EOFError, OSError):
                os._exit(1)
            if message[0] == "task":
                task = Task(message[1], send)
                current[:] = [task]
                tasks.put(task)
            elif message[0] == "cancel" and current:
                current[0].cancelled.set()

    threading.Thread(target=listen, daemon=True).start()
    while True:
        task = tasks.get()
        send(_outcome(task))


def _outcome(task: Task) -> tuple[Any, ...]:
    """What is sent when a task is over: `done`, `cancelled`, `failed`, or `full` for the disk."""
    module, name = KINDS[task.payload["kind"]].split(":")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", InputWarning)
            function = getattr(import_module(module), name)
            result = function(task)
            doubts = [str(w.message) for w in caught if issubclass(w.category, InputWarning)]
        if task.cancelled.is_set():
            return ("cancelled",)
        return "done", {"warnings": list(dict.fromkeys(doubts)), **result}
    except Cancelled:
        return ("cancelled",)
    except MemoryError:
        return "failed", "there is not enough memory for this", "Close other programs, or take less"
    except Exception as error:
        return _failure(error)


def _failure(error: Exception) -> tuple[str, ...]:
    # First what the disk itself said: what our writers made of it is for the command line, and
    # names temporary files.
    for cause in causes(error):
        if getattr(cause, "errno", None) in DISK_FULL:
            return ("full",)
        if (told := disk_error(cause)) is not None:
            return "failed", told.what, UNWRITTEN
    if isinstance(error, InputError):
        # Its path lies within the workspace, and means nothing to a person but by its end.
        name = "" if error.path is None else f"{Path(error.path).name}: "
        return "failed", f"{name}{error.what}", error.remedy
    if os.environ.get("REASSEMBLY_DEBUG"):
        import traceback

        traceback.print_exception(error)
    what = f"this failed inside the program ({type(error).__name__}: {str(error)[:300]})"
    return "failed", what, "This is our fault: please report it"
