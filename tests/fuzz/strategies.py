"""Damaged and hostile files, for hypothesis."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.readers import OBJECT, cut_out, data_json, packed

LENGTHS = [b"\x00" * 4, b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x01\x00\x00"]
"""What numbers in a file are replaced by: nothing, and far too much."""
WORDS = [
    *("fragments", "filename", "pixel_position", "rotation", "stray", "mm_per_px", "original_id"),
    *("format", "version", "puzzle", "provenance", "solver", "seed", "settings", "id", "island"),
    *("frame_px", "x_mm", "y_mm", "rotation_deg", "rotation_rad", "confidence", "joins", "first"),
    *("second", "probability", "folds", "0.png", "model", "training", "steps", "keypoints", "k"),
]
VALUES = [
    *(None, True, 0, -1, 1e308, 10**400, float("nan"), float("inf"), "", "\0", "\ud800", "../x"),
    *("reassembly-assembly", "reassembly-joins", "fragment_0", "0.png", OBJECT, [], {}, [0, 0]),
]
ODD_YAML = [
    *("1", "-1", "1e400", ".nan", "2001-99-99", "0x", "1:99:99", "!!python/object:os.system x"),
    *("[1, 2]", "{a: 1}", "*a", "&a [*a]", "9" * 5000, "'", "[" * 3000, "~", "yes", "!!int x"),
    *("!!binary x", "!!timestamp 9", "? a", "<<: 1", "\t", "!!set {a}", "!!float 1_", "[[1]]"),
]
NAMES = [
    *("0.png", "a/0.png", "a//0.png", "./0.png", "../0.png", "a/../../0.png", "/tmp/0.png"),
    *("C:\\0.png", "..\\0.png", "data.json", "a/data.json", "a//data.json", "./data.json", "a/"),
    *("a\0.png", "\ud7ff.png", "scale.json", "sent.zip", f"{OBJECT}/data.json", f"{OBJECT}/0.png"),
    *("2D_Ground_Truth/RPobj_g1_o0001.txt", "a.png/b.png", ".hidden.png", "x" * 300 + ".png"),
]


@st.composite
def damaged(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A file that was fine, with a few bytes changed, lost, doubled or added."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.sampled_from(["flip", "cut", "lose", "double", "insert", "number"])):
            case "flip" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at:]
            case "lose":
                del data[at : at + draw(st.integers(1, 40))]
            case "double":
                data[at:at] = data[at : at + draw(st.integers(1, 200))]
            case "insert":
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
            case "number":
                data[at : at + 4] = draw(st.sampled_from(LENGTHS))
    return bytes(data)


def _changed(draw: st.DrawFn, value: Any) -> Any:
    """The same document with something in it replaced, left out or added."""
    if draw(st.integers(0, 3)) == 0 or not isinstance(value, dict | list) or not value:
        if draw(st.booleans()):
            return draw(st.sampled_from(VALUES))
        return {draw(st.sampled_from(WORDS)): draw(st.sampled_from(VALUES)), "again": value}
    if isinstance(value, dict):
        key = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 4)) == 0:
            return {name: inner for name, inner in value.items() if name != key}
        return {**value, key: _changed(draw, value[key])}
    at = draw(st.integers(0, len(value) - 1))
    if draw(st.integers(0, 4)) == 0:
        return value + value
    return [*value[:at], _changed(draw, value[at]), *value[at + 1 :]]


@st.composite
def documents(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """JSON of the right shape with wrong values, or of a shape beyond all measure."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        depth = draw(st.sampled_from([100, 900, 960, 990, 3000, 100_000]))
        key = draw(st.sampled_from(WORDS))
        return b'{"' + key.encode() + b'":' + b"[" * depth + b"]" * depth + b"}"
    if kind == 1:
        return b'{"version":' + b"9" * 5000 + b"}"
    document = json.loads(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 3))):
        document = _changed(draw, document)
    return json.dumps(document).encode()


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    """Zips of odd names and contents, some in each other, some damaged."""
    inner = st.sampled_from(
        [cut_out(), data_json(), b"", b"{}", b"\0" * 2_000_000, packed({"0.png": cut_out()})]
    )
    files = draw(
        st.dictionaries(st.sampled_from(NAMES), inner | documents([data_json()]), max_size=5)
    )
    data = packed(files)
    return draw(st.just(data) | damaged([data]))


@st.composite
def lines(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """Tables whose cells are anything."""
    cell = st.sampled_from(
        [
            "fragment_0",
            "fragment_0.png",
            "",
            "1e999",
            "nan",
            "-1",
            "1,5",
            '"',
            "\x1c",
            "9" * 400,
            "é",
        ]
    ) | st.text(max_size=6)
    header = draw(st.sampled_from(seeds)).split(b"\n")[0].decode("utf-8", "replace").strip()
    separator = draw(st.sampled_from([",", ";", "\t"]))
    count = header.count(",") + 1
    row = st.lists(cell, min_size=max(count - 1, 1), max_size=count + 1).map(separator.join)
    rows = draw(st.lists(row, max_size=4))
    text = "\n".join([header.replace(",", separator), *rows])
    return text.encode("utf-8", "surrogatepass")


@st.composite
def yaml_texts(draw: st.DrawFn) -> bytes:
    """Configurations, with what only YAML knows: dates, references, tags, numbers of base 60."""
    value = st.sampled_from(ODD_YAML)
    key = st.sampled_from(
        ["model", "training", "data", "system", "texture", "unknown", "<<", "? [a]"]
    )
    inner = st.sampled_from(
        ["steps", "batch", "keypoints", "size_px", "pieces", "precision", "width"]
    )
    text = ""
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            text += f"{draw(key)}: {draw(value)}\n"
        else:
            text += f"{draw(key)}:\n  {draw(inner)}: {draw(value)}\n"
    return text.encode()
