from __future__ import annotations

import csv
import math
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reassembly.errors import InputError
from reassembly.io.poses_csv import poses_csv, poses_of_rows, read_pose_rows, read_poses_csv
from reassembly.pose import Pose
from reassembly.puzzle import Fragment, Puzzle
from tests.puzzles import drawn_puzzle

SHARED = Path(__file__).resolve().parents[2].parent / "shared"


def blank(
    name: str, width: int = 20, height: int = 10, mm_per_px: float = 0.5, **metadata: str
) -> Fragment:
    return Fragment(
        name,
        np.zeros((height, width, 3), np.uint8),
        np.ones((height, width), bool),
        mm_per_px,
        metadata=metadata,
    )


@pytest.fixture
def table(tmp_path: Path):
    """Writes a table and names it."""

    def write(content: str | bytes) -> Path:
        path = tmp_path / "poses.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


TWO = Puzzle("two", (blank("a", filename="a.png"), blank("b", filename="b.png")))


def assert_close(got: Pose, wanted: Pose, mm: float = 1e-6) -> None:
    corners = np.array([[-100.0, -100.0], [100.0, 100.0]])
    assert np.abs(got.apply(corners) - wanted.apply(corners)).max() < mm


poses = st.builds(
    Pose,
    st.floats(-1e5, 1e5),
    st.floats(-1e5, 1e5),
    st.floats(-20, 20),
)
texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8
)
names = texts.filter(str.strip)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(names, names, poses, st.sampled_from([0.02, 0.1357, 3.0]), st.integers(1, 9)),
        min_size=1,
        max_size=4,
        unique_by=lambda piece: piece[0],
    )
)
def test_poses_survive_the_table_under_any_names_and_scales(tmp_path_factory, pieces) -> None:
    fragments = [blank(i, w, 7, scale, filename=f) for i, f, _, scale, w in pieces]
    puzzle = Puzzle("p", tuple(fragments))
    wanted = {i: pose for i, _, pose, _, _ in pieces}
    path = tmp_path_factory.mktemp("csv") / "poses.csv"
    path.write_bytes(poses_csv(wanted, puzzle).encode())
    got = read_poses_csv(path, puzzle)
    assert got.keys() == wanted.keys()
    for i in wanted:
        assert_close(got[i], wanted[i])


def test_numbers_are_those_of_repair() -> None:
    puzzle = Puzzle("p", (blank("a", 2000, 1000, 0.1, filename="a b.png"),))
    text = poses_csv({"a": Pose(100 + 12.3, 50 - 4.5, math.radians(-77.25))}, puzzle)
    assert text == "rpf,x,y,rot\r\na b.png,123.0,-45.0,-77.25\r\n"


def test_pixels_are_the_finest_ones_where_scales_differ() -> None:
    # The coarse scan, resized to the fine pixel, is 40 x 20, so its corner lies 20 and 10 away.
    puzzle = Puzzle("p", (blank("fine", mm_per_px=0.5), blank("coarse", 20, 10, mm_per_px=1.0)))
    assert "coarse,-20.0,-10.0,0.0" in poses_csv({"coarse": Pose(0, 0)}, puzzle)


def test_only_given_poses_have_a_line() -> None:
    text = poses_csv({"b": Pose(0, 0)}, TWO)
    assert [row["rpf"] for row in csv.DictReader(text.splitlines())] == ["b.png"]
    assert poses_csv({}, TWO) == "rpf,x,y,rot\r\n"


def test_a_file_name_that_would_mislead_is_not_used(table) -> None:
    puzzle = Puzzle(
        "p",
        (blank("a", filename="b"), blank("b"), blank("c", filename="x"), blank("d", filename="x")),
    )
    wanted = {i: Pose(k, 0) for k, i in enumerate(puzzle.ids)}
    got = read_poses_csv(table(poses_csv(wanted, puzzle)), puzzle)
    assert {i: round(pose.x_mm, 6) for i, pose in got.items()} == {"a": 0, "b": 1, "c": 2, "d": 3}


@pytest.mark.parametrize(
    "content",
    [
        "rpf,x,y,rot\na.png,1.5,2,3\nb.png,4,5,6\n",
        "rpf,x,y,rot\r\na,1.5,2,3\r\nb,4,5,6",
        "\ufeff RPF , X ,Y, rot \n a.png , 1.5 , 2 , 3 \n\n b.JPG ,4,5,6\n , , , \n",
        'note,rot,y,x,rpf\n"said ""so"", yes",3,2,1.5,a\n,6,5,4,b\n',
        "rpf;x;y;rot\na.png;1,5;2,0;3\nb.png;4;5;6\n",
        "rpf\tx\ty\trot\na\t1.5\t2\t3\nb\t4\t5\t6\n".encode("utf-16"),
        "\n\nrpf,x,y,rot\nb,4e0,+5,6.\na,1.5,2,3\n",
    ],
    ids=["plain", "windows", "spaces", "columns", "semicolons", "utf-16", "order"],
)
def test_tables_as_people_save_them(table, content) -> None:
    got = read_poses_csv(table(content), TWO)
    assert_close(got["a"], Pose.from_degrees((1.5 + 10) * 0.5, (2 + 5) * 0.5, 3))
    assert_close(got["b"], Pose.from_degrees((4 + 10) * 0.5, (5 + 5) * 0.5, 6))


def test_accents_match_however_the_system_composes_them(table) -> None:
    puzzle = Puzzle("p", (blank(unicodedata.normalize("NFD", "pièce é")),))
    path = table(f"rpf,x,y,rot\n{unicodedata.normalize('NFC', 'pièce é')}.png,0,0,0\n")
    assert list(read_poses_csv(path, puzzle)) == list(puzzle.ids)


def test_a_dot_in_a_name_is_no_ending(table) -> None:
    puzzle = Puzzle("p", (blank("wall.1"), blank("floor")))
    with pytest.raises(InputError, match=r"line 2: puzzle p has no fragment 'wall\.7'"):
        read_poses_csv(table("rpf,x,y,rot\nwall.7,0,0,0\n"), puzzle)


def test_a_header_alone_places_nothing(table) -> None:
    assert read_poses_csv(table("rpf,x,y,rot\n"), TWO) == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"the file is empty\. It should begin with rpf,x,y,rot"),
        (" \n\r\n", "the file is empty"),
        ("rpf,x\na,1\n", r"columns y, rot missing\. The first line should be rpf,x,y,rot"),
        ("a.png,1,2,3\n", "columns rpf, x, y, rot missing"),
        ("rpf,x,y,rot,x\na,1,2,3,4\n", "several columns x"),
        (
            "rpf,x,y,rot\na,1,2,3\nc,1,2,3\n",
            r"line 3: puzzle two has no fragment 'c'\. Its fragments are a, b",
        ),
        ("rpf,x,y,rot\na,nan,2,3\n", "line 2: x is 'nan', which is no usable number"),
        ("rpf,x,y,rot\na,1,-Inf,3\n", "line 2: y is '-Inf'"),
        ("rpf,x,y,rot\na,1,2,1e999\n", "line 2: rot is '1e999'"),
        ("rpf,x,y,rot\na,1,2,\n", "line 2: rot is ''"),
        ("rpf,x,y,rot\na,1_0,2,3\n", "line 2: x is '1_0'"),
        ("rpf,x,y,rot\n\na,1,2,ten\n", "line 3: rot is 'ten'"),
        ("rpf,x,y,rot\na,1\n", "line 2 has only 2 values"),
        ("rpf,x,y,rot\n,1,2,3\n", "line 2 names no fragment"),
        ("rpf,x,y,rot\na,1,2,3\nb,1,2,3\na.png,1,2,3\n", "lines 2 and 4 both place fragment a"),
        (b"\x89PNG\r\n\x1a\n\0\0", "this is no UTF-8 text"),
        (b"rpf,x,y,rot\n\0\0,1,2,3\n", "this is no text"),
        ('rpf,x,y,rot\n"a,1,2,3\n', "line 2 has only 1 value"),
        (f'rpf,x,y,rot\n"{"a" * 200_000}",1,2,3\n', "line 2 is no line of a table"),
    ],
)
def test_mistakes_are_named_with_their_line(table, content, message) -> None:
    path = table(content)
    with pytest.raises(InputError, match=message) as caught:
        read_poses_csv(path, TWO)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_pose_rows(tmp_path / "none.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read_pose_rows(tmp_path)


def test_rows_take_scale_and_frames_from_the_puzzle_given(table) -> None:
    truth = drawn_puzzle()
    rows = read_pose_rows(table(poses_csv(truth.truth, truth)))
    for i, pose in poses_of_rows(rows, truth).items():
        assert_close(pose, truth.truth[i])


def test_reads_repair_v1() -> None:
    folder = SHARED / "data/repair/v1/2D_Fragments/2D_Ground_Truth"
    if not folder.is_dir():
        pytest.skip("the RePAIR v1 puzzles are not beside the project")
    rows = read_pose_rows(folder / "RPobj_g13_o0013.txt")
    assert len(rows) == 6
    assert (rows[0].x, rows[0].y, rows[0].rot) == (1199.0, 1926.0, -77.33486468879356)
