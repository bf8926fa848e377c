from __future__ import annotations

import base64
import io
import math
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import shapely
from PIL import Image

from reassembly.io.render import cut_out, lay_out
from reassembly.io.svg import STROKE_MM, write_svg
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Fragment, Puzzle
from tests.assemblies import HOSTILE, SPACED, incomplete_assembly

SVG = "{http://www.w3.org/2000/svg}"
INKSCAPE = "{http://www.inkscape.org/namespaces/inkscape}"
XLINK = "{http://www.w3.org/1999/xlink}"


def drawn(assembly: Assembly, path: Path) -> ElementTree.Element:
    write_svg(assembly, lay_out(assembly), path)
    return ElementTree.parse(path).getroot()


def label(element: ElementTree.Element) -> str:
    return element.get(f"{INKSCAPE}label", "")


def layers(element: ElementTree.Element) -> dict[str, ElementTree.Element]:
    return {label(g): g for g in element.findall(f"{SVG}g[@{INKSCAPE}groupmode='layer']")}


def matrix(element: ElementTree.Element) -> np.ndarray:
    """The 3x3 matrix of a transform, as the SVG standard defines it."""
    total = np.eye(3)
    for name, values in re.findall(r"(\w+)\(([^)]*)\)", element.get("transform", "")):
        numbers = [float(v) for v in values.split()]
        step = np.eye(3)
        if name == "translate":
            step[:2, 2] = numbers
        else:
            assert name == "rotate"
            c, s = math.cos(math.radians(numbers[0])), math.sin(math.radians(numbers[0]))
            step[:2, :2] = [[c, -s], [s, c]]
        total = total @ step
    return total


def rings(path: ElementTree.Element) -> list[np.ndarray]:
    parts = path.get("d").removesuffix("Z").split(" Z ")
    return [
        np.array([[float(v) for v in p.split(",")] for p in part.strip(" M").split(" L")])
        for part in parts
    ]


@pytest.fixture(scope="module")
def assembly() -> Assembly:
    return incomplete_assembly()


@pytest.fixture(scope="module")
def root(assembly: Assembly, tmp_path_factory: pytest.TempPathFactory) -> ElementTree.Element:
    return drawn(assembly, tmp_path_factory.mktemp("svg") / "assembly.svg")


def test_layers_are_named_as_the_fragments(root, assembly) -> None:
    top = layers(root)
    assert list(top) == ["island 1", "island 2", "unplaced"]
    for group, ids in zip(top.values(), [*assembly.islands, assembly.unplaced], strict=True):
        assert list(layers(group)) == list(ids)
    assert {HOSTILE, SPACED} <= set(layers(top["island 1"]))
    assert root.find(f"{SVG}title").text == assembly.puzzle.id


def test_ids_are_valid_and_occur_once(root) -> None:
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids)) >= 21
    assert all(re.fullmatch(r"[A-Za-z_][\w.-]*", i, re.ASCII) for i in ids)


def test_one_unit_is_one_millimetre(root, assembly) -> None:
    x, y, width, height = (float(v) for v in root.get("viewBox").split())
    assert root.get("width") == f"{width:.6f}".rstrip("0").rstrip(".") + "mm"
    assert root.get("height") == f"{height:.6f}".rstrip("0").rstrip(".") + "mm"
    left, top, right, bottom = lay_out(assembly).bounds
    assert (x, y) == pytest.approx((left - STROKE_MM / 2, top - STROKE_MM / 2), abs=1e-5)
    assert width == pytest.approx(right - left + STROKE_MM, abs=1e-5)
    assert height > bottom - top


def test_outlines_are_where_the_poses_put_them(root, assembly) -> None:
    sheet = lay_out(assembly)
    for group, island in zip(list(layers(root).values())[:2], sheet.islands, strict=True):
        for layer, (fragment, pose) in zip(layers(group).values(), island, strict=True):
            total = matrix(group) @ matrix(layer)
            shape = [
                ring @ total[:2, :2].T + total[:2, 2] for ring in rings(layer.find(f".//{SVG}path"))
            ]
            got, wanted = shapely.Polygon(shape[0], shape[1:]), fragment.placed(pose)
            assert got.symmetric_difference(wanted).area < 1e-3 * wanted.area


def test_pictures_cover_their_outlines(root, assembly) -> None:
    for group in layers(root).values():
        for name, layer in layers(group).items():
            fragment = assembly.puzzle[name].cropped(margin_px=0)
            image = layer.find(f"{SVG}image")
            kind, data = image.get(f"{XLINK}href").split(",")
            assert kind == "data:image/png;base64"
            picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
            assert np.array_equal(picture, cut_out(fragment))
            x, y, w, h = (float(image.get(k)) for k in ("x", "y", "width", "height"))
            height, width = fragment.mask.shape
            assert (w, h) == pytest.approx((width * 0.5, height * 0.5))
            assert (x, y, x + w, y + h) == pytest.approx(fragment.polygon.bounds, abs=0.51)


def test_unplaced_pieces_lie_beneath_unturned_and_on_the_page(root, assembly) -> None:
    group = layers(root)["unplaced"]
    _, _, _, bottom = lay_out(assembly).bounds
    x, y, width, height = (float(v) for v in root.get("viewBox").split())
    for layer in layers(group).values():
        total = matrix(group) @ matrix(layer)
        assert total[:2, :2] == pytest.approx(np.eye(2))
        box = shapely.Polygon(rings(layer.find(f".//{SVG}path"))[0] + total[:2, 2]).bounds
        assert box[1] > bottom and box[0] >= x
        assert box[2] <= x + width and box[3] <= y + height


def test_holes_stay_holes(tmp_path: Path) -> None:
    mask = np.ones((40, 60), bool)
    mask[10:20, 20:40] = False
    ring = Fragment("ring", np.zeros((40, 60, 3), np.uint8), mask, 1.0)
    other = replace(ring, id="other")
    puzzle = Puzzle("p", (ring, other))
    root = drawn(
        Assembly.of(puzzle, {"ring": Pose(0, 0), "other": Pose(70, 0)}), tmp_path / "a.svg"
    )
    path = root.find(f".//{SVG}path")
    assert path.get("fill-rule") == "evenodd"
    outer, hole = rings(path)
    assert shapely.Polygon(outer, [hole]).area == pytest.approx(40 * 60 - 10 * 20, rel=0.01)


def test_nothing_placed_shows_the_unplaced(tmp_path: Path, assembly: Assembly) -> None:
    root = drawn(Assembly.of(assembly.puzzle), tmp_path / "a.svg")
    assert list(layers(root)) == ["unplaced"]
    assert len(layers(layers(root)["unplaced"])) == 9


def test_control_characters_do_not_break_the_file(tmp_path: Path, assembly: Assembly) -> None:
    odd = Puzzle(
        "p\x00\x1b",
        tuple(replace(f, id=f"a\x01\ufffe{k}") for k, f in enumerate(assembly.puzzle.fragments)),
    )
    root = drawn(Assembly.of(odd), tmp_path / "a.svg")
    assert "a\ufffd\ufffd0" in layers(layers(root)["unplaced"])


def test_names_that_look_alike_keep_their_layers(tmp_path: Path, assembly: Assembly) -> None:
    names = ["ä", "ö", "island-1", "unplaced", "7", "_7", "ä-outline", "-", " "]
    odd = Puzzle(
        "p", tuple(replace(f, id=i) for f, i in zip(assembly.puzzle.fragments, names, strict=True))
    )
    root = drawn(Assembly.of(odd, {i: Pose(0, 0) for i in names}), tmp_path / "a.svg")
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids))
    assert list(layers(layers(root)["island 1"])) == names
