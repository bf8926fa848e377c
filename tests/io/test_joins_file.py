"""Joins go out as tables and JSON and come back as they were, or with a line that says why not."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reassembly.errors import InputError
from reassembly.io.joins_file import COLUMNS, joins_csv, joins_json, read_joins
from reassembly.matching.joins import Join
from reassembly.pose import Pose
from reassembly.puzzle import Puzzle
from tests.assemblies import HOSTILE, SPACED
from tests.puzzles import drawn_puzzle

NAMES = ("a", "b,c", HOSTILE, SPACED, "Gr\u00f6\u00dfe; 4", '"quoted"')
NUMBER = st.floats(-1e6, 1e6)
JOIN = st.builds(
    Join,
    st.just(NAMES[0]),
    st.sampled_from(NAMES[1:]),
    st.builds(Pose, NUMBER, NUMBER, st.floats(-math.pi, math.pi)),
    st.floats(0, 1),
    NUMBER,
    NUMBER,
    NUMBER,
)


@pytest.fixture(scope="module")
def puzzle():
    fragment = drawn_puzzle(2, size_px=80).fragments[0]
    return Puzzle("named", tuple(replace(fragment, id=name) for name in NAMES))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("joins")


def close(one, other, tolerance):
    assert (one.first, one.second) == (other.first, other.second)
    figures = [
        (j.pose.x_mm, j.pose.y_mm, j.probability, j.gap_mm, j.overlap_mm2, j.contact_mm)
        for j in (one, other)
    ]
    assert figures[0] == pytest.approx(figures[1], rel=0, abs=tolerance)
    turned = math.remainder(one.pose.rotation_rad - other.pose.rotation_rad, math.tau)
    assert abs(turned) < max(tolerance, 1e-12)


@given(st.lists(JOIN, max_size=4))
def test_json_comes_back_equal_and_csv_nearly(puzzle, folder, joins):
    for name, text, tolerance in (
        ("joins.json", joins_json(joins, puzzle), 0.0),
        ("joins.csv", joins_csv(joins), 1e-9),
    ):
        file = folder / name
        file.write_bytes(text.encode("utf-8"))
        back = read_joins(file, puzzle)
        assert len(back) == len(joins)
        for one, other in zip(joins, back, strict=True):
            close(one, other, tolerance)
    assert len(read_joins(folder, puzzle)) == len(joins)


def test_the_second_lies_in_the_frame_of_the_first(puzzle):
    join = Join("a", "b,c", Pose(1.5, -2.0, math.pi / 2), 0.9, 1.0, 2.0, 30.0)
    (row,) = json.loads(joins_json([join], puzzle))["joins"]
    assert list(row) == list(COLUMNS)
    assert row["rotation_deg"] == pytest.approx(90.0)
    assert (row["first"], row["second"], row["x_mm"], row["y_mm"]) == ("a", "b,c", 1.5, -2.0)


def test_what_a_spreadsheet_makes_of_a_table_is_read(puzzle, tmp_path):
    file = tmp_path / "kept.csv"
    lines = [
        "Notes;Second;first;X_mm;y_mm;rotation_deg;probability",
        "sure; Größe; 4 ;x",
        "",
    ]
    lines[1] = 'sure;"Gro\u0308ße; 4 ";a;1,5;-2;90;0,75'
    file.write_bytes(("\ufeff" + "\r\n".join(lines)).encode("utf-8"))
    (join,) = read_joins(file, puzzle)
    assert (join.first, join.second) == ("a", "Gr\u00f6\u00dfe; 4")
    assert (join.pose.x_mm, join.pose.y_mm) == (1.5, -2.0)
    assert (join.probability, join.gap_mm) == (0.75, 0.0)


HEAD = "first,second,x_mm,y_mm,rotation_deg\n"
GOOD = {"first": "a", "second": "b,c", "x_mm": 0, "y_mm": 0, "rotation_deg": 0}


def document(**changes):
    content = {"format": "reassembly-joins", "version": 1, "puzzle": "p", "joins": [GOOD]}
    return json.dumps(content | changes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("first,second,x_mm\na,b,1\n", "columns y_mm, rotation_deg missing"),
        (HEAD + "a,nobody,0,0,0\n", "line 2: puzzle named has no fragment 'nobody'"),
        (HEAD + "a,,0,0,0\n", "line 2: second names no fragment"),
        (HEAD + "a,a,0,0,0\n", "line 2 joins a to itself"),
        (HEAD + 'a,"b,c",0,north,0\n', "line 2: y_mm is 'north'"),
        (HEAD + 'a,"b,c",0,nan,0\n', "line 2: y_mm is 'nan'"),
        (HEAD + 'a,"b,c",0,1_0,0\n', "line 2: y_mm is '1_0'"),
        (HEAD + 'a,"b,c",0\n', "line 2: y_mm is missing"),
        ("{", "this is no JSON"),
        ("[1]", "holds no joins"),
        (document(format="reassembly-assembly"), "holds no joins"),
        (document(version=2), "version 2 of the format"),
        (document(version="1"), "version is '1'"),
        (document(joins=[1]), "joins is no list of objects"),
        (document(joins=[GOOD, GOOD | {"second": "zz"}]), r"joins\[1\]: .* has no fragment 'zz'"),
        (document(joins=[GOOD | {"x_mm": True}]), "x_mm is 'True'"),
        (document(joins=[GOOD | {"x_mm": 1e300}]), "no usable number"),
    ],
)
def test_what_is_wrong_is_said(puzzle, tmp_path, text, said):
    file = tmp_path / "judged"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said) as error:
        read_joins(file, puzzle)
    assert str(file) in str(error.value)


def test_files_that_are_none(puzzle, tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_joins(tmp_path / "nowhere.json", puzzle)
    with pytest.raises(InputError, match="no such file"):
        read_joins(tmp_path, puzzle)
    (tmp_path / "picture.csv").write_bytes(b"\x89PNG\xff\xfe\x00")
    with pytest.raises(InputError, match="no UTF-8"):
        read_joins(tmp_path / "picture.csv", puzzle)
