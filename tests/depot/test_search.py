"""True neighbours are found among strangers, about where they lie; the depot comes apart again."""

import json
import math
import re
from itertools import combinations

import numpy as np
import pytest
import shapely

import reassembly
from reassembly.depot.objects import Objects, find_objects, objects_of, save_objects
from reassembly.depot.report import save_candidates
from reassembly.depot.search import find_candidates, open_searcher
from reassembly.errors import InputError
from reassembly.metrics.neighbours import Outlines, shared_edges
from reassembly.solvers.batch import puzzles_of
from tests.depot.conftest import MM_PER_PX, write_picture


@pytest.fixture(scope="module")
def joins(frescoes):
    """By fragment of the index, its true neighbours."""
    found = {}
    for number, puzzle in enumerate(frescoes):
        outlines = Outlines({f.id: f.polygon for f in puzzle.fragments})
        for pair in shared_edges(outlines, puzzle.truth):
            a, b = (f"{number}_{i.removeprefix('fragment_')}" for i in pair)
            found.setdefault(a, set()).add(b)
            found.setdefault(b, set()).add(a)
    return found


@pytest.fixture(scope="module")
def told(index, joins):
    searcher = open_searcher(index)
    yield {i: searcher.candidates(searcher.depot.coded(searcher.depot.find(i))) for i in joins}
    searcher.depot.close()


def test_true_neighbours_come_before_strangers(joins, told):
    found = sum(len(joins[i] & {c.id for c in told[i][:5]}) for i in joins)
    total = sum(map(len, joins.values()))
    chance = 5 / 29
    assert found / total > 3 * chance
    assert all(i not in {c.id for c in told[i]} for i in joins)
    assert all(0 <= c.score <= 1 for row in told.values() for c in row)
    assert all(
        [c.score for c in row] == sorted((c.score for c in row), reverse=True)
        for row in told.values()
    )


def test_the_pose_that_most_segments_agree_on_is_about_right(frescoes, joins, told):
    right = []
    for i in joins:
        number, piece = i.split("_")
        puzzle = frescoes[int(number)]
        for candidate in told[i][:3]:
            if candidate.id in joins[i]:
                other = candidate.id.split("_")[1]
                true = (
                    puzzle.truth[f"fragment_{piece}"].inverse()
                    @ (puzzle.truth[f"fragment_{other}"])
                )
                at = np.array([candidate.other_at_mm])
                off = np.linalg.norm(candidate.pose.apply(at) - true.apply(at))
                turn = candidate.pose.rotation_rad - true.rotation_rad
                right.append(off < 15 and abs(math.remainder(turn, math.tau)) < math.radians(20))
                outline = puzzle[f"fragment_{piece}"].polygon
                assert outline.boundary.distance(shapely.Point(candidate.at_mm)) < 30
    assert len(right) > 20 and np.mean(right) > 0.7


@pytest.mark.slow
def test_a_picture_finds_what_its_id_finds(index, pictures, frescoes, told, tmp_path):
    ranked = [c.id for c in told["0_1"]]
    same = find_candidates(pictures / "0_1.png", index, mm_per_px=MM_PER_PX)
    assert [c.id for c in same] == ranked
    assert all(c.picture.endswith(f"{c.id}.png") for c in same)
    # A new scan of the piece, which the index does not know: its likest is itself or a neighbour.
    write_picture(frescoes[0].fragments[1], tmp_path / "0_1.png")
    other = find_candidates(tmp_path / "0_1.png", index, count=5, mm_per_px=MM_PER_PX)
    assert len(other) == 5
    assert {c.id for c in other} & set(ranked[:3])


def test_candidates_are_written(told, tmp_path):
    save_candidates("0_1", told["0_1"][:7], tmp_path / "out")
    document = json.loads((tmp_path / "out" / "candidates.json").read_text(encoding="utf-8"))
    assert [row["id"] for row in document["candidates"]] == [c.id for c in told["0_1"][:7]]
    lines = (tmp_path / "out" / "candidates.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 8 and lines[0].startswith("rank,id,score,")


def test_what_is_in_no_index_is_told(index, tmp_path):
    with pytest.raises(InputError, match=r"no fragment 'nobody'"):
        find_candidates("nobody", index)
    with pytest.raises(InputError, match="no such picture"):
        find_candidates(tmp_path / "nothing.png", index)
    (tmp_path / "torn.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"torn\.png"):
        find_candidates(tmp_path / "torn.png", index)


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [("0-1", "0_1"), ("box/0_1", "0_1"), ("0_1x", "mean 0_1?"), ("far from all", "an id such as")],
)
def test_ids_like_one_that_is_unknown_are_named(index, wanted, meant):
    with pytest.raises(InputError, match=re.escape(meant)):
        find_candidates(wanted, index)


def test_groups_hang_together_though_a_stray_link_joins_them():
    ids = [f"{group}{k}" for group in "abc" for k in range(6)] + ["z"]
    links = {(a, b): 0.9 for a in ids for b in ids if a < b and a[0] == b[0]} | {
        ("a0", "b0"): 0.9,
        ("b1", "c1"): 0.5,
        ("a1", "z"): 0.1,
    }
    found = objects_of(ids, links)
    assert found.groups == tuple(tuple(f"{g}{k}" for k in range(6)) for g in "abc")
    assert found.alone == ("z",)
    assert objects_of(["a", "b"], {}) == Objects((), ("a", "b"))


def test_a_depot_comes_apart_into_folders_that_solve_takes(index, tmp_path):
    objects = find_objects(index)
    ids = sorted([*objects.alone, *(i for group in objects.groups for i in group)])
    assert ids == sorted(open_searcher(index).ids)
    together = [pair for group in objects.groups for pair in combinations(group, 2)]
    right = sum(a[0] == b[0] for a, b in together)
    assert right / len(together) > 2 * (5 / 29)  # Twice what groups by chance have.
    assert right > 0.7 * 5 * 15
    save_objects(objects, index, tmp_path / "objects")
    sources = puzzles_of(tmp_path / "objects")
    assert len(sources) == len(objects.groups)
    loaded = reassembly.load(tmp_path / "objects" / "object_0001")
    assert sorted(loaded.ids) == sorted(objects.groups[0])
    assert loaded.mm_per_px == MM_PER_PX


def test_new_objects_do_not_mingle_with_old_ones(index, tmp_path):
    a, b, c, d, e = open_searcher(index).ids[:5]
    save_objects(Objects(((a, b), (c, d)), (e,)), index, tmp_path)
    (tmp_path / "object_0001" / "notes.txt").write_text("mine")
    save_objects(Objects(((b, e),), (a, c, d)), index, tmp_path, force=True)
    (source,) = puzzles_of(tmp_path)
    assert sorted(source.load().ids) == sorted([b, e])
    assert (tmp_path / "object_0001" / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "object_0002").exists()
