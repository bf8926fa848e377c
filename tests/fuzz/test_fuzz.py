"""Hostile files: a reader says in one line what is wrong, whatever it is given.

REASSEMBLY_FUZZ=20 tries twenty times as much, each time something else.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import strategies
from tests.fuzz.readers import READERS, survives

TIMES = int(os.environ.get("REASSEMBLY_FUZZ", "1"))
MOST_S = 20.0
"""However bad a file of a few kilobytes is, and however busy the machine."""


def tried(examples: int):
    return settings(
        max_examples=examples * TIMES,
        derandomize=TIMES == 1,
        database=None,
        deadline=MOST_S * 1000,
        suppress_health_check=list(HealthCheck),
    )


def expose(name: str, data: bytes) -> bool:
    """Reads the data in a folder of its own; nothing may come to lie beside it."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as parent:
        box = Path(parent) / "box" / "of" / "its-own"
        box.mkdir(parents=True)
        taken = survives(name, data, box)
        above = {p.relative_to(parent).as_posix() for p in Path(parent).glob("*")}
        above |= {p.name for p in (Path(parent) / "box").glob("*")}
        above |= {p.name for p in (Path(parent) / "box" / "of").glob("*")}
        assert above == {"box", "of", "its-own"}, above
        assert {p.name for p in box.iterdir()} <= {"in", "out", "images"}
    return taken


@pytest.mark.parametrize("name", READERS)
def test_what_is_fine_is_taken(name):
    """Otherwise nothing that is tried would come past the first check."""
    assert any(expose(name, seed) for seed in READERS[name].seeds())


@pytest.mark.parametrize("name", READERS)
def test_damaged_files(name):
    examples = {"upload": 12, "weights": 40, "repair": 25, "zip": 25}.get(name, 60)

    @tried(examples)
    @given(strategies.damaged(READERS[name].seeds()))
    def attack(data):
        expose(name, data)

    attack()


@pytest.mark.parametrize("name", ["data-json", "scale-json", "assembly", "ids", "joins"])
def test_documents_of_wrong_values(name):
    seeds = [seed for seed in READERS[name].seeds() if seed.startswith((b"{", b"["))]

    @tried(80)
    @given(strategies.documents(seeds))
    def attack(data):
        expose(name, data)

    attack()


@pytest.mark.parametrize("name", ["zip", "repair", "upload"])
def test_zips_of_odd_content(name):
    @tried(30)
    @given(strategies.archives())
    def attack(data):
        expose(name, data)

    attack()


@pytest.mark.parametrize("name", ["poses", "joins"])
def test_tables_of_anything(name):
    seeds = [seed for seed in READERS[name].seeds() if seed.isascii() and seed[:1] not in b"{["]

    @tried(80)
    @given(strategies.lines(seeds))
    def attack(data):
        expose(name, data)

    attack()


@tried(120)
@given(strategies.yaml_texts())
def test_configurations_of_anything(data):
    expose("config", data)


@pytest.mark.parametrize("name", READERS)
def test_noise(name):
    @tried(15)
    @given(st.binary(max_size=300))
    def attack(data):
        expose(name, data)

    attack()
