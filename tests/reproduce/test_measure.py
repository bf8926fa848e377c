"""Time and memory in a process of its own: whatever happens there is a result."""

import pytest

from reassembly.errors import InputWarning
from reassembly.reproduce.measure import measure, puzzle_of
from reassembly.solvers import available_solvers
from reassembly.solvers.registry import _loaded
from tests.reproduce.plugin import install_odd


@pytest.fixture
def odd(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(install_odd(tmp_path / "package")))


@pytest.fixture(scope="module")
def puzzle(tmp_path_factory):
    return puzzle_of(2, tmp_path_factory.mktemp("pieces"))


def test_what_a_solver_costs_is_measured_once(puzzle, tmp_path, odd):
    cell = tmp_path / "cells" / "2.json"
    found = measure(puzzle, "fine", {}, cell)
    assert found["pieces"] == found["placed"] == 2
    assert 0 <= found["seconds"] < found["ready_s"] + 30
    assert 20 < found["memory_mb"] < 2000
    written = cell.stat().st_mtime_ns
    assert measure(puzzle, "fine", {}, cell) == found
    assert cell.stat().st_mtime_ns == written
    again = measure(puzzle, "fine", {}, cell, weights_hash="other weights")
    assert again["signature"] != found["signature"]


@pytest.mark.parametrize(
    ("solver", "limit_s", "error"),
    [
        ("crashes", 60.0, "the solver's process died"),
        ("hangs", 3.0, "longer than 3 s"),
        ("hoards", 60.0, "MemoryError: no room"),
    ],
)
def test_failures_are_results(puzzle, tmp_path, odd, solver, limit_s, error):
    found = measure(puzzle, solver, {}, tmp_path / "cell.json", limit_s=limit_s)
    assert found["error"] == error
    assert "seconds" not in found


def test_memory_is_bounded(puzzle, tmp_path, odd, monkeypatch):
    monkeypatch.setattr("reassembly.reproduce.measure.MEMORY_SHARE", 1e-6)
    found = measure(puzzle, "hangs", {}, tmp_path / "cell.json", limit_s=60.0)
    assert found["error"].startswith("out of memory")


def test_broken_packages_keep_nobody_from_working(odd):
    _loaded.cache_clear()  # Each is warned about once.
    with pytest.warns(InputWarning) as warned:
        solvers = available_solvers()
    assert {"greedy", "fine", "crashes"} <= set(solvers)
    assert not {"broken", "absent"} & set(solvers)
    texts = " ".join(str(w.message) for w in warned)
    assert "is a int, not a SolverInfo" in texts and "No module named 'nowhere'" in texts
