"""A short soak; benchmarks/soak.py does a long one."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "soak.py"


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("target", "kills"), [("generate", 3), ("bench", 2), ("serve", 3), ("index", 2)]
)
def test_what_is_killed_carries_on(target, kills, tmp_path):
    soak = runpy.run_path(str(SCRIPT))
    (tally,) = soak["soak"](tmp_path, kills, 1, [target])
    assert tally.kills == kills
    assert not tally.faults
    assert tally.rounds


def test_every_command_has_its_share_of_kills():
    script = runpy.run_path(str(SCRIPT))
    tallies = [script["Tally"](name, kills=3, faults=["x"]) for name in script["TARGETS"]]
    text = script["report"](tallies, 100, 7, 60.0)
    assert {"generate", "train", "bench", "index", "serve"} == {*script["TARGETS"]}
    assert f"{3 * len(tallies)} of 100 kills" in text
    assert f"| in all | {3 * len(tallies)} |" in text
    assert text.count(": x\n") == len(tallies)
