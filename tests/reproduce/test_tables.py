"""Tables as people and programs read them."""

import csv
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reassembly.reproduce.tables import Column, Table, by_puzzle, summary, write_table

COLUMNS = (Column("label", "system"), Column("q_pos", "q_pos", 2), Column("note", "note"))
ROWS = [
    {"label": "a | b_1 & 50 %", "group": "first", "q_pos": 0.5, "q_pos_ci": [0.25, 0.75]},
    {"label": "c", "group": "second", "q_pos": None, "q_pos_ci": None, "skipped": "no weights"},
]


@pytest.fixture
def written(tmp_path):
    table = Table("t", "A title", "Table 1", "About.", COLUMNS, ROWS, ("A note.",))
    write_table(table, tmp_path)
    return tmp_path


def test_markdown_shows_intervals_groups_and_why_a_row_is_empty(written):
    text = (written / "t.md").read_text(encoding="utf-8")
    assert r"| a \| b_1 & 50 % | 0.50 [0.25, 0.75] | – |" in text
    assert "| **first** |" in text and "| c | – | – |" in text
    assert "In the paper: Table 1." in text and "A note." in text
    assert "- c (second): no weights" in text


def test_csv_holds_six_digits_and_json_all(tmp_path):
    rows = [{"label": "a", "seconds": 1234.56789012, "memory_mb": 1 / 3, "fragments": 12345678}]
    write_table(Table("t", "A title", "Table 1", "About.", COLUMNS, rows), tmp_path)
    (read,) = csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text(encoding="utf-8")))
    told = {"label": "a", "seconds": "1234.57", "memory_mb": "0.333333", "fragments": "12345678"}
    assert read == told
    assert json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["rows"] == rows


def test_csv_and_json_hold_every_value(written):
    rows = list(csv.DictReader(io.StringIO((written / "t.csv").read_text(encoding="utf-8"))))
    assert [row["q_pos_low"] for row in rows] == ["0.25", ""]
    assert rows[1]["skipped"] == "no weights"
    assert json.loads((written / "t.json").read_text(encoding="utf-8"))["rows"] == ROWS


def test_latex_escapes_what_latex_would_take_amiss(written):
    text = (written / "t.tex").read_text(encoding="utf-8")
    assert r"a | b\_1 \& 50 \% & 0.50 [0.25, 0.75] & -- \\" in text
    lines = [line for line in text.splitlines() if line.endswith(r"\\") and "multicol" not in line]
    assert {line.replace(r"\&", "").count("&") for line in lines} == {2}


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=4),
        min_size=1,
        max_size=6,
    )
)
def test_a_mean_is_that_of_puzzles_and_lies_in_its_interval(values):
    mean, interval = summary(values)
    known = [[v for v in of if v is not None] for of in values.values()]
    each = [np.mean(of) for of in known if of]
    if not each:
        assert (mean, interval) == (None, None)
        return
    assert mean == pytest.approx(np.mean(each))
    everything = [v for of in known for v in of]
    assert min(everything) - 1e-9 <= interval[0] <= interval[1] <= max(everything) + 1e-9
    assert summary(dict(reversed(values.items())))[1] == interval, "the order must not matter"


def test_seeds_that_differ_widen_the_interval():
    puzzles = [f"p{k}" for k in range(20)]
    calm = summary({p: [0.5, 0.5, 0.5] for p in puzzles})[1]
    wild = summary({p: [0.0, 0.5, 1.0] for p in puzzles})[1]
    assert calm == [0.5, 0.5]
    assert 0.05 < wild[1] - wild[0] < 0.6


def test_values_are_found_where_records_keep_them():
    records = [
        {"puzzle": "a", "scores": {"q_pos": 1.0}},
        {"puzzle": "a", "scores": {"q_pos": None}},
        {"puzzle": "b"},
    ]
    assert by_puzzle(records, "scores", "q_pos") == {"a": [1.0, None], "b": [None]}
