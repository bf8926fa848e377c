from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import shapely
from PIL import Image
from shapely.geometry import shape

from reassembly.errors import InputError
from reassembly.io import render, writers
from reassembly.io.poses_csv import read_poses_csv
from reassembly.io.render import bounded_scale, lay_out, render_assembly
from reassembly.io.writers import FORMATS, load_assembly, outlines_geojson, save_assembly
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Fragment, Provenance, Puzzle
from tests.assemblies import HOSTILE, incomplete_assembly
from tests.puzzles import drawn_puzzle


@pytest.fixture(scope="module")
def assembly() -> Assembly:
    return incomplete_assembly()


@pytest.fixture(scope="module")
def saved(assembly: Assembly, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return assembly.save(tmp_path_factory.mktemp("saved") / "out")


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def test_every_format_is_there(saved: Path) -> None:
    assert set(files(saved)) == {*FORMATS.values(), "poses-island-2.csv"}


def test_the_same_assembly_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    again = incomplete_assembly().save(tmp_path / "again")
    assert files(again) == files(saved)


def test_each_island_has_a_table_of_its_own(saved: Path, assembly: Assembly) -> None:
    for name, island in zip(("poses.csv", "poses-island-2.csv"), assembly.islands, strict=True):
        got = read_poses_csv(saved / name, assembly.puzzle)
        assert got.keys() == island.keys()
        for i, pose in got.items():
            assert pose.translation == pytest.approx(island[i].translation, abs=1e-7)
            assert pose.rotation_rad == pytest.approx(island[i].rotation_rad, abs=1e-9)
    rows = list(csv.reader(io.StringIO((saved / "poses.csv").read_text(encoding="utf-8"))))
    assert rows[0] == ["rpf", "x", "y", "rot"] and rows[1][0] == f"{HOSTILE}.png"


def test_the_folder_loads_back_equal(saved: Path, assembly: Assembly) -> None:
    assert load_assembly(saved, assembly.puzzle) == assembly


def test_the_picture_is_full_scale_and_prints_true_to_scale(
    saved: Path, assembly: Assembly
) -> None:
    picture = Image.open(saved / "assembly.png")
    left, top, right, bottom = lay_out(assembly).bounds
    width_mm, height_mm = (
        side / dpi * 25.4 for side, dpi in zip(picture.size, picture.info["dpi"], strict=True)
    )
    assert width_mm == pytest.approx(right - left, abs=0.6)
    assert height_mm == pytest.approx(bottom - top, abs=0.6)
    assert picture.mode == "RGBA"
    assert np.array_equal(np.asarray(picture), render_assembly(assembly))


def test_a_picture_above_the_limit_says_its_scale(
    tmp_path: Path, assembly: Assembly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render.bounded_scale, "__defaults__", (20_000,))
    save_assembly(assembly, tmp_path / "out", formats=["png", "geojson"])
    picture = Image.open(tmp_path / "out" / "assembly.png")
    scale = bounded_scale(lay_out(assembly).bounds, assembly.puzzle.mm_per_px)
    assert scale > 0.6
    assert 25.4 / picture.info["dpi"][0] == pytest.approx(scale, rel=1e-3)
    content = json.loads((tmp_path / "out" / "outlines.geojson").read_text(encoding="utf-8"))
    assert content["mm_per_px"] == scale


def test_outlines_are_valid_and_where_the_poses_put_them(saved: Path, assembly: Assembly) -> None:
    content = json.loads((saved / "outlines.geojson").read_text(encoding="utf-8"))
    assert content["type"] == "FeatureCollection"
    placed = assembly.poses
    assert [f["properties"]["id"] for f in content["features"]] == list(placed)
    for feature in content["features"]:
        properties, geometry = feature["properties"], shape(feature["geometry"])
        fragment = assembly.puzzle[properties["id"]]
        own = fragment.placed(placed[fragment.id])
        moved = shapely.transform(own, lambda xy, p=properties: xy + p["shift_mm"])
        assert geometry.is_valid and geometry.exterior.is_ccw
        assert geometry.symmetric_difference(moved).area < 1e-4
        assert feature["geometry"]["coordinates"][0][0] == feature["geometry"]["coordinates"][0][-1]
        assert properties["area_mm2"] == pytest.approx(geometry.area, abs=1e-3)
        assert properties["confidence"] == assembly.confidence.get(fragment.id)
        assert properties["x_mm"] == placed[fragment.id].x_mm
        assert properties["rotation_deg"] == pytest.approx(placed[fragment.id].rotation_deg)
        assert properties["filename"] == f"{fragment.id}.png"
    assert {f["properties"]["island"] for f in content["features"]} == {1, 2}
    assert content["features"][0]["properties"]["shift_mm"] == [0, 0]


def test_outlines_lie_on_the_picture(saved: Path) -> None:
    """With the origin and scale in the file, outlines and assembly.png fit, as QuPath needs it."""
    content = json.loads((saved / "outlines.geojson").read_text(encoding="utf-8"))
    alpha = np.asarray(Image.open(saved / "assembly.png"))[..., 3]
    inside = np.zeros_like(alpha, bool)
    y, x = np.mgrid[: alpha.shape[0], : alpha.shape[1]] + 0.5
    for feature in content["features"]:
        polygon = shapely.transform(
            shape(feature["geometry"]),
            lambda xy: (xy - content["origin_mm"]) / content["mm_per_px"],
        )
        inside |= shapely.contains_xy(polygon, x, y)
    assert (inside == (alpha > 127)).mean() > 0.995


def test_holes_are_inner_rings() -> None:
    mask = np.ones((30, 30), bool)
    mask[10:20, 10:20] = False
    fragment = Fragment("f", np.zeros((30, 30, 3), np.uint8), mask, 1.0)
    assembly = Assembly.of(Puzzle("p", (fragment,)), {"f": Pose(0, 0, 0.3)})
    (feature,) = json.loads(outlines_geojson(assembly, lay_out(assembly), 1.0))["features"]
    polygon = shape(feature["geometry"])
    assert len(polygon.interiors) == 1 and not polygon.interiors[0].is_ccw
    assert polygon.area == pytest.approx(800, rel=0.02)


def test_only_the_formats_asked_for(tmp_path: Path, assembly: Assembly) -> None:
    assembly.save(tmp_path / "a", formats=["csv"])
    assert set(files(tmp_path / "a")) == {"poses.csv", "poses-island-2.csv"}
    assembly.save(tmp_path / "b", formats="json")
    assert set(files(tmp_path / "b")) == {"assembly.json"}
    with pytest.raises(InputError, match=r"no format pdf\. Choose from csv, json, svg"):
        assembly.save(tmp_path / "c", formats=["pdf", "csv"])
    assert not (tmp_path / "c").exists()


def test_a_filled_folder_needs_force_and_keeps_what_is_not_ours(
    tmp_path: Path, assembly: Assembly
) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="not empty"):
        assembly.save(tmp_path)
    assembly.save(tmp_path, force=True)
    assert "poses-island-2.csv" in files(tmp_path)
    whole = Assembly.of(assembly.puzzle, assembly.puzzle.truth)
    whole.save(tmp_path, force=True, formats=["csv", "json"])
    assert set(files(tmp_path)) == {"notes.txt", "poses.csv", "assembly.json"}
    assert load_assembly(tmp_path) == whole


def test_a_failure_leaves_what_was_there(
    tmp_path: Path, assembly: Assembly, monkeypatch: pytest.MonkeyPatch
) -> None:
    assembly.save(tmp_path / "out", formats=["csv", "json"])
    before = files(tmp_path / "out")

    def broken(*_: object) -> str:
        raise RuntimeError("out of ink")

    monkeypatch.setattr(writers, "report_html", broken)
    for target in ("out", "new"):
        with pytest.raises(RuntimeError, match="out of ink"):
            Assembly.of(assembly.puzzle).save(tmp_path / target, force=True)
    assert files(tmp_path / "out") == before
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: replace(a, puzzle=None), "no fragments with it"),
        (
            lambda a: replace(a, provenance=Provenance("s", settings={"x": {1}})),
            "settings.x is a set",
        ),
        (lambda a: replace(a, provenance=Provenance("\udcff")), "not valid Unicode"),
    ],
)
def test_what_cannot_be_saved_is_refused_before_anything_is_written(
    tmp_path: Path, assembly: Assembly, change, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        change(assembly).save(tmp_path / "out", formats=["png"])
    assert not any(tmp_path.iterdir())


def test_nothing_placed_can_be_saved(tmp_path: Path, assembly: Assembly) -> None:
    nothing = Assembly.of(assembly.puzzle)
    nothing.save(tmp_path / "out")
    assert load_assembly(tmp_path / "out") == nothing
    assert read_poses_csv(tmp_path / "out" / "poses.csv", assembly.puzzle) == {}
    assert Image.open(tmp_path / "out" / "assembly.png").size == (2, 2)


def test_a_solved_puzzle_can_be_locked_and_saved_again(tmp_path: Path) -> None:
    puzzle = drawn_puzzle(pieces=3, size_px=120)
    Assembly.of(puzzle, puzzle.truth).save(tmp_path / "a")
    locked = read_poses_csv(tmp_path / "a" / "poses.csv", puzzle)
    Assembly.of(puzzle, locked).save(tmp_path / "b")
    assert (tmp_path / "a" / "poses.csv").read_bytes() == (
        tmp_path / "b" / "poses.csv"
    ).read_bytes()
