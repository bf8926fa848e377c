"""How property-based tests run: no time limits, and the same examples in every CI run. And the
browser, the one thread and the small disks that tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers and what they start share the cores: more threads would only wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("reassembly", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("reassembly")

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]


def _path() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
    return next((found for name in names if (found := shutil.which(name))), None)


def _absent(reason: str) -> None:
    """Elsewhere a missing browser skips the test; where all must run, it fails it."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Short operations are no faster on two, and tests share the cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless browser that nothing but the test talks to."""
    path = _path()
    if path is None:
        _absent("no Chromium is installed")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _absent("playwright is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(Path(path)), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes a disk of its own, of a size such as `300k`: what only an administrator may do."""
    from tests.app.disks import mount, unmount

    place = tmp_path / "disk"
    place.mkdir()

    def make(size: str) -> Path:
        if not mount(place, size):
            pytest.skip("no disk can be made here")
        return place

    yield make
    unmount(place)
