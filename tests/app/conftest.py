"""One server process for all tests that only talk to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.app.live import Live


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    running = Live(tmp_path_factory.mktemp("workbench") / "workspace")
    yield running
    running.stop()
