from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reassembly.errors import InputError, InputWarning
from reassembly.io.assembly_json import assembly_to_json, load_assembly
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Fragment, Provenance, Puzzle
from tests.assemblies import incomplete_assembly

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "assembly.schema.json"


@pytest.fixture(scope="module")
def assembly() -> Assembly:
    return incomplete_assembly(size_px=120, gap_px=0)


@pytest.fixture
def saved(tmp_path: Path, assembly: Assembly) -> Path:
    path = tmp_path / "assembly.json"
    path.write_text(assembly_to_json(assembly), encoding="utf-8")
    return path


@pytest.fixture
def changed(saved: Path) -> Callable[[Callable[[dict[str, Any]], object]], Path]:
    """The saved file after a change to its content."""

    def change(edit: Callable[[dict[str, Any]], object]) -> Path:
        content = json.loads(saved.read_text(encoding="utf-8"))
        edit(content)
        saved.write_text(json.dumps(content), encoding="utf-8")
        return saved

    return change


def test_it_loads_back_equal(saved: Path, assembly: Assembly) -> None:
    loaded = load_assembly(saved)
    assert loaded == assembly
    assert loaded.puzzle is None
    assert load_assembly(saved.parent) == assembly
    again = load_assembly(saved, assembly.puzzle)
    assert again == assembly and again.puzzle is assembly.puzzle
    assert assembly_to_json(again) == assembly_to_json(assembly)
    assert Assembly.load(saved) == assembly


coordinates = st.floats(-1e9, 1e9)
jsons = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), coordinates, coordinates, coordinates, st.none() | st.floats(0, 1)
        ),
        min_size=1,
        max_size=6,
    ),
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), jsons, max_size=3),
    st.none() | st.integers(-(2**70), 2**70),
)
def test_any_assembly_loads_back_equal(tmp_path_factory, pieces, given_settings, seed) -> None:
    dot = np.ones((1, 1), bool)
    ids = [f"piece {k}" for k in range(len(pieces))]
    puzzle = Puzzle("p", tuple(Fragment(i, np.zeros((1, 1, 3), np.uint8), dot, 0.1) for i in ids))
    islands: list[dict[str, Pose]] = [{}, {}, {}]
    confidence = {}
    for i, (island, x, y, turn, sure) in zip(ids, pieces, strict=True):
        if island:
            islands[island - 1][i] = Pose(x, y, turn)
            if sure is not None:
                confidence[i] = sure
    assembly = Assembly.of(
        puzzle,
        *islands,
        confidence=confidence,
        provenance=Provenance("s", "1", seed, given_settings),
    )
    path = tmp_path_factory.mktemp("json") / "assembly.json"
    path.write_bytes(assembly_to_json(assembly).encode())
    assert load_assembly(path, puzzle) == assembly


def test_numpy_numbers_are_written_as_numbers(tmp_path: Path, assembly: Assembly) -> None:
    i = next(iter(assembly.poses))
    odd = replace(
        assembly,
        confidence={i: np.float32(0.3)},
        provenance=Provenance("s", "1", np.int64(3)),
    )
    (tmp_path / "assembly.json").write_text(assembly_to_json(odd), encoding="utf-8")
    assert load_assembly(tmp_path) == odd


def test_the_documented_schema_is_what_is_written(assembly: Assembly) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    content = json.loads(assembly_to_json(assembly))
    kinds = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}

    def check(value: Any, rule: dict[str, Any], where: str) -> None:
        if "const" in rule:
            assert value == rule["const"], where
        if "type" in rule:
            kind = kinds.get(type(value), "null")
            assert kind in rule["type"] or (kind == "integer" and "number" in rule["type"]), where
        if isinstance(value, dict) and "properties" in rule:
            assert set(rule["required"]) == set(rule["properties"]) == set(value), where
            for key, inner in rule["properties"].items():
                check(value[key], inner, f"{where}.{key}")
        if isinstance(value, list) and "items" in rule:
            for inner in value:
                check(inner, rule["items"], f"{where}[]")

    check(content, schema, "assembly")
    assert {f["island"] for f in content["fragments"]} == {1, 2, None}


def test_text_is_readable_and_strict(assembly: Assembly) -> None:
    text = assembly_to_json(assembly)
    assert "Größe" in text and text.count("\n") > 50 and text.endswith("}\n")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((1, 2), "settings.x is a tuple"),
        (Path("a"), r"settings.x is a \w*Path"),
        (math.nan, "settings.x is nan"),
        ([0, {"deep": np.float64(1)}], r"settings.x\[1\].deep is a float64"),
        ({1: 2}, "settings.x has the key 1"),
    ],
)
def test_settings_that_json_cannot_hold_are_refused(assembly: Assembly, value, message) -> None:
    odd = replace(assembly, provenance=Provenance("s", settings={"x": value}))
    with pytest.raises(InputError, match=message):
        assembly_to_json(odd)


def test_poses_beyond_all_measure_are_refused(assembly: Assembly) -> None:
    i = next(iter(assembly.islands[0]))
    odd = replace(
        assembly, islands=({**assembly.islands[0], i: Pose(1e30, 0)}, assembly.islands[1])
    )
    with pytest.raises(InputError, match="beyond all measure"):
        assembly_to_json(odd)


def test_a_fragment_can_be_unplaced_by_hand(changed, assembly: Assembly) -> None:
    path = changed(lambda c: c["fragments"][0].update(island=None))
    i = next(iter(assembly.islands[0]))
    loaded = load_assembly(path)
    assert i in loaded.unplaced and i not in loaded.confidence


def at(*keys: Any) -> Callable[[Any], Callable[[dict[str, Any]], None]]:
    """Sets the value at a path of keys; `...` deletes it."""

    def to(value: Any) -> Callable[[dict[str, Any]], None]:
        def edit(content: dict[str, Any]) -> None:
            for key in keys[:-1]:
                content = content[key]
            if value is Ellipsis:
                del content[keys[-1]]
            else:
                content[keys[-1]] = value

        return edit

    return to


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (at("version")(2), r"version 2 of the format.*Update reassembly"),
        (at("version")("1"), "version is '1'"),
        (at("version")(True), "version is True"),
        (at("version")(...), "version is None"),
        (at("format")("other"), "this is JSON, but no assembly"),
        (at("puzzle")(...), "puzzle is missing"),
        (at("fragments")({}), "fragments is no list"),
        (at("fragments", 1)(3), r"fragments\[1\] is no object"),
        (at("fragments", 1, "id")(...), r"fragments\[1\]\.id is missing"),
        (at("fragments", 1, "id")(3), r"fragments\[1\]\.id is no text"),
        (at("fragments", 2, "x_mm")(...), r"fragments\[2\]\.x_mm is missing"),
        (at("fragments", 2, "y_mm")(math.nan), r"fragments\[2\]\.y_mm is nan"),
        (at("fragments", 2, "x_mm")(-math.inf), r"fragments\[2\]\.x_mm is -inf"),
        (at("fragments", 2, "x_mm")("1"), r"fragments\[2\]\.x_mm is 1"),
        (at("fragments", 2, "x_mm")(True), r"fragments\[2\]\.x_mm is True"),
        (at("fragments", 2, "x_mm")(10**400), r"fragments\[2\]\.x_mm is 1000"),
        (at("fragments", 0, "rotation_deg")(12.0), "Change both or neither"),
        (at("fragments", 0, "island")(0), r"fragments\[0\]\.island is 0"),
        (at("fragments", 0, "island")(1.5), r"fragments\[0\]\.island is 1.5"),
        (at("fragments", 0, "confidence")(1.5), r"confidence is 1.5.*from 0 to 1"),
        (at("fragments", 0, "frame_px")([3]), r"frame_px is \[3\]"),
        (at("fragments", 0, "mm_per_px")(0), r"mm_per_px is 0"),
        (lambda c: c["fragments"].append(c["fragments"][0]), "is there twice"),
        (at("provenance")(...), "provenance is missing"),
        (at("provenance")([]), "provenance is no object"),
        (at("provenance", "seed")(0.5), "provenance.seed is 0.5"),
        (at("provenance", "solver")(...), "provenance.solver is missing"),
        (at("provenance", "settings")(None), "provenance.settings is no object"),
        (at("provenance", "settings", "gap_mm")(math.nan), "provenance.settings.gap_mm is nan"),
    ],
)
def test_what_is_wrong_is_named(changed, edit, message) -> None:
    path = changed(edit)
    with pytest.raises(InputError, match=message) as caught:
        load_assembly(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "this is no JSON"),
        (b'{"format": ', "this is no JSON .line 1"),
        (b"\x89PNG\r\n", "this is no JSON in UTF-8"),
        (b"[" * 100_000, "this is no JSON"),
        (b"[]", "no assembly"),
        (b'{"type": "FeatureCollection"}', "no assembly"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        load_assembly(path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"assembly\.json: there is no such file"):
        load_assembly(tmp_path)


def test_turned_by_a_hair_is_still_the_same(changed, assembly: Assembly) -> None:
    degrees = next(iter(assembly.islands[0].values())).rotation_deg
    assert (
        load_assembly(changed(at("fragments", 0, "rotation_deg")(degrees + 360 + 9e-7))) == assembly
    )


def test_other_fragments_are_refused(saved: Path, assembly: Assembly) -> None:
    puzzle = assembly.puzzle
    fewer = Puzzle("fewer", puzzle.fragments[1:])
    with pytest.raises(InputError, match="puzzle fewer has no fragment"):
        load_assembly(saved, fewer)
    extra = replace(puzzle.fragments[0], id="extra")
    with pytest.raises(InputError, match="says nothing of extra"):
        load_assembly(saved, Puzzle("more", (*puzzle.fragments, extra)))


def test_another_scale_is_doubted(saved: Path, assembly: Assembly) -> None:
    first, *rest = assembly.puzzle.fragments
    rescanned = Puzzle("p", (replace(first, mm_per_px=0.25), *rest))
    with pytest.warns(InputWarning, match="another size or scale"):
        assert load_assembly(saved, rescanned) == assembly
