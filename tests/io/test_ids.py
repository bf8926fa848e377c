"""Lists of puzzle ids."""

import json

import pytest

from reassembly.errors import InputError
from reassembly.io.ids import read_ids


@pytest.fixture
def folds(tmp_path):
    path = tmp_path / "folds.json"
    path.write_text(json.dumps({"note": "x", "folds": [["a", "b"], ["c"], ["d"]]}))
    return path


def test_lines_lists_and_folds(tmp_path, folds):
    (tmp_path / "ids.txt").write_text("\ufeffa\n\n  b \r\nc\n", encoding="utf-8")
    (tmp_path / "ids.json").write_text('["a", "b"]')
    assert read_ids(str(tmp_path / "ids.txt")) == ["a", "b", "c"]
    assert read_ids(str(tmp_path / "ids.json")) == ["a", "b"]
    assert read_ids(f"{folds}#1,3") == ["a", "b", "d"]


@pytest.mark.parametrize("numbers", ["0", "4", "x", "1,", "-1"])
def test_folds_that_do_not_exist(folds, numbers):
    with pytest.raises(InputError, match=r"folds\.json: this holds no list of puzzles"):
        read_ids(f"{folds}#{numbers}")


def test_no_such_file(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.txt"):
        read_ids(str(tmp_path / "nowhere.txt"))
