"""The commands of the depot: what they print and write, and how they complain."""

import csv
import json
import sys

import pytest
from typer.testing import CliRunner

from reassembly.cli import app
from reassembly.errors import InputError
from tests.depot.conftest import MM_PER_PX


def here(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def explained(done, *said):
    assert isinstance(done.exception, InputError), done.output
    for text in said:
        assert text in str(done.exception)


@pytest.mark.slow
def test_an_index_is_made_and_asked(pictures, tmp_path):
    index, out = tmp_path / "index", tmp_path / "out"
    done = here("index", pictures, "--out", index, "--mm-per-px", MM_PER_PX)
    assert done.exit_code == 0 and "30 fragments" in done.output
    done = here("find-joins", "2_3", "--index", index, "--count", 12, "--out", out)
    assert done.exit_code == 0, done.output
    with (out / "candidates.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["rank"] for row in rows] == [str(k) for k in range(1, 13)]
    assert rows[0]["id"] in done.output
    explained(here("find-joins", "2_3", "--index", index, "--out", out), "not empty", "--force")


def test_objects_are_written(index, tmp_path):
    out = tmp_path / "objects"
    done = here("find-joins", "--all", "--index", index, "--out", out)
    assert done.exit_code == 0, done.output
    told = json.loads((out / "objects.json").read_text(encoding="utf-8"))
    assert f"{len(told['objects'])} likely object" in done.output and "solve" in done.output
    assert {p.name for p in out.iterdir() if p.is_dir()} == {o["name"] for o in told["objects"]}


def test_what_cannot_be_asked_is_explained(index, tmp_path, monkeypatch):
    explained(here("find-joins", "--index", index), "--all")
    explained(here("find-joins", "0_0", "--all", "--index", index), "--all")
    explained(here("find-joins", "--all", "--index", index), "--out DIR")
    explained(here("find-joins", "0_0", "--index", index, "--workers", 2), "Add --all")
    explained(here("find-joins", "0_0", "--index", tmp_path), "no index", "reassembly index")
    explained(here("index", tmp_path / "nowhere", "--out", tmp_path / "i"), "nowhere")
    assert not (tmp_path / "i").exists()
    monkeypatch.setitem(sys.modules, "faiss", None)
    explained(here("find-joins", "0_0", "--index", index), 'pip install "reassembly[depot]"')


def test_without_faiss_nothing_is_begun(pictures, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    explained(here("index", pictures, "--out", tmp_path / "i"), 'pip install "reassembly[depot]"')
    assert not (tmp_path / "i").exists()


@pytest.mark.parametrize("command", ["index", "find-joins"])
def test_help_tells_the_options(command):
    done = here(command, "--help")
    assert done.exit_code == 0 and "--ray" in done.output and "--workers" in done.output
