"""What fuzzing has found, so that it stays mended."""

from __future__ import annotations

import json
import struct
import zipfile
from itertools import pairwise

import pytest
import torch
from safetensors.torch import save

from tests.fuzz.readers import OBJECT, cut_out, data_json, packed, puzzle, survives, zips


@pytest.mark.parametrize(
    "text",
    [
        "training: {steps: !!timestamp 9}",
        "training: {steps: 2001-99-99}",
        "training: {steps: !!int x}",
        f"training: {{learning_rate: {10**400}}}",
        "training: {steps: " + "9" * 5000 + "}",
        "training: " + "[" * 3000,
    ],
    ids=["date", "no date", "no number", "overflow", "digits", "depth"],
)
@pytest.mark.timeout(30)
def test_yaml_that_breaks_its_own_parser_or_never_ends(text, tmp_path):
    assert not survives("config", text.encode(), tmp_path)


@pytest.mark.timeout(30)
def test_a_value_that_a_configuration_repeats_without_end_is_not_printed_whole(tmp_path):
    """Nine references to nine references, and so on: a text of gigabytes out of a few lines."""
    lines = ["&a [x, x]", *(f"&{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise("abcdefghi"))]
    text = "training:\n  steps:\n" + "".join(f"    - {line}\n" for line in lines)
    assert not survives("config", text.encode(), tmp_path)


@pytest.mark.parametrize("depth", [900, 960, 985, 100_000])
@pytest.mark.parametrize("name", ["ids", "assembly", "joins", "data-json", "scale-json"])
def test_documents_deeper_than_python_can_go(name, depth, tmp_path):
    deep = "[" * depth + "]" * depth
    document = {"format": "reassembly-assembly", "version": 1, "puzzle": "p", "fragments": []}
    document["provenance"] = {"solver": "s", "version": "1", "seed": 0, "settings": {"a": "DEEP"}}
    survives(name, json.dumps(document).replace('"DEEP"', deep).encode(), tmp_path)


def test_settings_of_an_assembly_are_not_too_deep_to_be_checked(tmp_path):
    entries = [
        {
            "id": fragment.id,
            "frame_px": list(fragment.frame_px),
            "mm_per_px": fragment.mm_per_px,
            "island": None,
        }
        for fragment in puzzle().fragments
    ]
    document = {"format": "reassembly-assembly", "version": 1, "puzzle": "p", "fragments": entries}
    document["provenance"] = {"solver": "s", "version": "1", "seed": 0, "settings": {"a": "DEEP"}}
    for depth in (1, 850, 900, 940, 960, 5000):
        deep = "[" * depth + "]" * depth
        text = json.dumps(document).replace('"DEEP"', deep)
        (tmp_path / str(depth)).mkdir()
        assert survives("assembly", text.encode(), tmp_path / str(depth)) or depth > 1


def test_a_puzzle_in_a_zip_whose_paths_have_doubled_slashes_is_read(tmp_path):
    files = {f"{OBJECT}//{k}.png": cut_out(k) for k in range(2)}
    data = packed({**files, f"{OBJECT}//data.json": data_json()})
    assert survives("zip", data, tmp_path / "a")
    assert survives("repair", data, tmp_path / "b")


def test_a_file_without_a_name_in_a_zip_is_passed_over(tmp_path):
    whole = packed({"0.png": cut_out()}, zipfile.ZIP_STORED)
    end = whole.rindex(b"PK\5\6")
    directory = whole.index(b"PK\1\2")
    nameless = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 33, 0, 0, 0, *[0] * 5, 0, 0)
    central = whole[directory:end] + nameless
    last = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 2, 2, len(central), directory, 0)
    assert survives("zip", whole[:directory] + central + last, tmp_path)


def test_a_zip_packed_in_a_way_that_nobody_knows(tmp_path):
    whole = bytearray(zips()[2])
    for at in range(len(whole) - 12):
        if whole[at : at + 4] == b"PK\1\2":
            whole[at + 10] = 99
    for name in ("zip", "repair", "upload"):
        assert not survives(name, bytes(whole), tmp_path / name)


@pytest.mark.parametrize(
    "entry", [{}, {"filename": 3}, {"filename": "a\0.png"}, {"filename": "../0.png"}, 7, "x"]
)
def test_fragments_of_repair_without_a_usable_file(entry, tmp_path):
    document = json.loads(data_json())
    document["fragments"].append(entry)
    data = packed(
        {f"{OBJECT}/data.json": json.dumps(document).encode(), f"{OBJECT}/0.png": cut_out()}
    )
    assert not survives("repair", data, tmp_path)


def test_ids_that_no_file_system_can_hold_are_not_used(tmp_path):
    for k, odd in enumerate(("\ud800", "a\u2028b", "x" * 300, "\x00")):
        document = {**json.loads(data_json()), "original_id": odd}
        data = packed(
            {f"{OBJECT}/data.json": json.dumps(document).encode()}
            | {f"{OBJECT}/{n}.png": cut_out(n) for n in range(2)}
        )
        assert survives("repair", data, tmp_path / str(k))
        assert [p.name for p in (tmp_path / str(k) / "out").iterdir() if p.is_dir()] == [OBJECT]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "config",
    [
        {"width": 10**9, "input_px": 16},
        {"width": "x", "input_px": 16},
        {"width": -1, "input_px": 16},
        {"input_px": 16},
        [1],
        3,
    ],
    ids=str,
)
def test_weights_that_tell_of_networks_that_cannot_be(config, tmp_path):
    """Nobody's memory is filled by a file of a few bytes."""
    about = {"kind": "texture", "config": json.dumps(config)}
    assert not survives("weights", save({"conv1.weight": torch.zeros(1)}, about), tmp_path)


@pytest.mark.parametrize("shape", [(), (0,), (64,)])
def test_weights_of_others_whose_first_layer_is_none(shape, tmp_path):
    assert not survives("weights", save({"conv1.weight": torch.zeros(shape)}), tmp_path)
