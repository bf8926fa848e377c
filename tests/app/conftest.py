"""One server process for all tests that only talk to it; and disks that fill up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.app.disks import mount, unmount
from tests.app.live import Live


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    running = Live(tmp_path_factory.mktemp("workbench") / "workspace")
    yield running
    running.stop()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes a disk of its own, of a size such as `300k`."""
    place = tmp_path / "disk"
    place.mkdir()

    def make(size: str) -> Path:
        if not mount(place, size):
            pytest.skip("no disk can be made here")
        return place

    yield make
    unmount(place)
