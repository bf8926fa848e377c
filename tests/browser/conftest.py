"""What tests of the workbench share: a server with the demo, and hands at a branch of their own.
Files that need others define fixtures of the same names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from tests.browser.workbench import PAINTED, Hands, Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _without_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _without_skip((yield))


def _without_skip(report: Report) -> Report:
    """Where all must run, a skip is a failure, whatever its reason."""
    skipped = report.skipped and not hasattr(report, "wasxfail")
    if skipped and os.environ.get("CI") == "true":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"with CI=true every browser test must run. {reason}"
    return report


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("demo") / "workspace", demo=True).start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the demo in it, to be copied."""
    workspace = tmp_path_factory.mktemp("workbench") / "template"
    Server(workspace, demo=True).start().stop()
    return workspace


@pytest.fixture
def own_server(template: Path, tmp_path: Path) -> Iterator[Server]:
    """With the demo, for one test alone, which may kill it."""
    workspace = tmp_path / "Werkstatt äö"
    shutil.copytree(template, workspace)
    server = Server(workspace).start()
    yield server
    server.stop()


@pytest.fixture
def visitor(request: pytest.FixtureRequest, chromium: Browser, server: Server) -> Iterator[Hands]:
    """At the first page; by touch where asked for."""
    hands = Hands.at(chromium, server, touch="tablet" in request.fixturenames)
    yield hands
    hands.page.close()
    assert hands.errors == []


@pytest.fixture
def hands(visitor: Hands) -> Hands:
    """At a branch of the demo of its own, every piece on the board."""
    hands = visitor
    hands.open_project("Demo")
    hands.switch_to(PAINTED)
    hands.branch()
    return hands


@pytest.fixture
def tablet() -> None:
    """A screen that feels fingers."""
