"""Small disks that fill up: what only an administrator may make."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.app.live import Live


def mount(place: Path, size: str) -> bool:
    """Makes a disk of a size such as `300k`; returns whether that may be done here."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
    can = sys.platform.startswith("linux") and shutil.which("mount") is not None
    return can and subprocess.run(command, capture_output=True).returncode == 0


def remount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)


def unmount(place: Path) -> None:
    if os.path.ismount(place):
        subprocess.run(["umount", str(place)], check=True)


def fill(place: Path, leave_kb: int = 0) -> None:
    with suppress(OSError), (place / "filler").open("ab", buffering=0) as file:
        while file.write(bytes(1024)):
            pass
    os.truncate(place / "filler", (place / "filler").stat().st_size - 1024 * leave_kb)


def fill_under(server: Live) -> None:
    """Until the database cannot be written either: it has some room in what it holds."""
    fill(server.workspace)
    while server.client.post("/api/projects", json={"name": 90 * "x"}).status_code == 201:
        pass


def make_room(place: Path) -> None:
    (place / "filler").unlink()
