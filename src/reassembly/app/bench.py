"""The workbench's parts in one hand: folder, store, stream, jobs."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import threading
import time
from pathlib import Path

from sqlalchemy.exc import OperationalError

from reassembly.app.database import unopened
from reassembly.app.jobs import Jobs
from reassembly.app.store import Store
from reassembly.app.stream import Hub
from reassembly.app.tasks import Tasks
from reassembly.errors import InputError
from reassembly.io.files import disk_error

__all__ = ["Workbench", "default_workspace"]

LOCK_NAME = "workspace.lock"
KEPT_DAYS = 7
"""Uploads and exports are kept so long."""
JUST_NOW_S = 600.0
"""A picture so new may belong to a job that is not done."""


class Workbench:
    """An open workspace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        try:
            for place in (self.folder, self.images, self.uploads, self.exports):
                place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            what = f"this folder cannot be used ({error.strerror or error})"
            raise InputError(what, "Choose another with --workspace", folder) from error
        self._hold = _held(self.folder)
        self._painting = threading.Lock()
        self._sweep()
        self.hub = Hub()
        self.store = Store(self.folder, self.hub.publish)
        self.tasks = Tasks(self.store, self.folder)
        tasks = self.tasks
        self.jobs = Jobs(self.store, self.hub, tasks.prepare, tasks.finish, tasks.show, tasks.clean)
        try:
            self.store.forget_drafts()
            self._forget_pictures()
            self.jobs.queue_again()
        except OperationalError as error:
            raise unopened(error.orig or error, self.folder) from error

    @property
    def images(self) -> Path:
        return self.folder / "images"

    @property
    def uploads(self) -> Path:
        return self.folder / "uploads"

    @property
    def exports(self) -> Path:
        return self.folder / "exports"

    def close(self) -> None:
        self.hub.close()
        self.jobs.stop()
        self.store.close()
        self._hold.close()

    def delete_project(self, project_id: str) -> None:
        """Removes a project, its jobs, and the pictures that were only its own."""
        self.jobs.cancel_all(project_id)
        self.store.delete_project(project_id)
        self._forget_pictures()

    def delete_hypothesis(self, project_id: str, hypothesis_id: str) -> None:
        """Removes a hypothesis and ends its jobs; where it must stay, they go on."""
        self.store.delete_hypothesis(project_id, hypothesis_id)
        self.jobs.cancel_all(project_id, hypothesis_id)

    def demo(self) -> str:
        """The id of the project with the painted puzzle, which is made if it is missing."""
        from reassembly.app.demo import add_demo

        with self._painting:
            return add_demo(self.store, self.images)

    def _forget_pictures(self) -> None:
        oldest = time.time() - JUST_NOW_S

        def old(sha256: str) -> bool:
            folder = self.images / sha256
            return not folder.is_dir() or folder.stat().st_mtime < oldest

        for sha256 in self.store.forget_pictures(old):
            shutil.rmtree(self.images / sha256, ignore_errors=True)

    def _sweep(self) -> None:
        """Removes uploads that nobody imported, and exports that were surely fetched."""
        oldest = time.time() - KEPT_DAYS * 24 * 3600
        for place in (*self.uploads.iterdir(), *self.exports.iterdir()):
            if place.is_dir() and place.stat().st_mtime < oldest:
                shutil.rmtree(place, ignore_errors=True)
        for half in self.images.glob(".new-*"):
            shutil.rmtree(half, ignore_errors=True)


def _held(folder: Path) -> sqlite3.Connection:
    """Keeps a second server out of a workspace, as long as this process lives.

    An exclusive transaction on an empty database is a lock on every system, and ends with us.
    """
    hold = sqlite3.connect(folder / LOCK_NAME, timeout=0.5, isolation_level=None)
    hold.execute("PRAGMA locking_mode=EXCLUSIVE")
    try:
        hold.execute("BEGIN EXCLUSIVE")
    except sqlite3.DatabaseError as error:
        hold.close()
        raise disk_error(error, folder) or InputError(
            "this workspace is open in another server",
            "Use that one, stop it, or choose another with --workspace",
            folder,
        ) from error
    return hold


def default_workspace() -> Path:
    """Where a person's work is kept on this machine, by its system's habits."""
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return base / "reassembly" / "workspace"
