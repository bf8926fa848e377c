"""The workbench's parts in one hand: folder, store, stream, jobs."""

from __future__ import annotations

from pathlib import Path

from reassembly.app.jobs import Jobs
from reassembly.app.store import Store
from reassembly.app.stream import Hub
from reassembly.app.tasks import Tasks
from reassembly.errors import InputError

__all__ = ["Workbench", "default_workspace"]


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
        self.hub = Hub()
        self.store = Store(self.folder, self.hub.publish)
        self.tasks = Tasks(self.store, self.folder)
        self.jobs = Jobs(self.store, self.hub, self.tasks.prepare, self.tasks.finish)
        self.demo_project: str | None = None

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


def default_workspace() -> Path:
    """Where a person's work is kept on this machine, by its system's habits."""
    import os
    import sys

    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return base / "reassembly" / "workspace"
