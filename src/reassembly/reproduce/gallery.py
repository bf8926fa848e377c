"""gallery.html: truth and prediction side by side for every puzzle and solver, worst first.

One file that holds everything and asks for nothing. Puzzles whose pictures may not be shown are
drawn as outlines.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from reassembly._version import __version__
from reassembly.bench import prediction_folder, read_records
from reassembly.io.assembly_json import load_assembly
from reassembly.io.files import atomic_write
from reassembly.io.markup import data_uri
from reassembly.io.readers import find_puzzles
from reassembly.io.render import render_placements
from reassembly.pose import Pose
from reassembly.puzzle import Fragment, Puzzle

__all__ = ["write_gallery"]

SHOWN = 100
"""Puzzles of a data set in the page, the worst ones."""
THUMBNAIL_PX = 110
SIMPLIFY_MM = 0.4
TEMPLATE = Path(__file__).parent / "templates" / "gallery.html"


def write_gallery(path: Path, bench: Path, state: Mapping[str, Any]) -> None:
    """Writes the page, unless the one that is there shows the same."""
    chosen = {data: _chosen(bench, data, entry) for data, entry in state.items()}
    template = TEMPLATE.read_text(encoding="utf-8")
    key = _hash(template, chosen, state)
    if path.is_file() and f'content="{key}"' in path.read_text(encoding="utf-8")[:2000]:
        return
    page: dict[str, Any] = {"puzzles": [], "answers": [], "notes": []}
    for data, entry in state.items():
        records = chosen[data]
        ids = list(dict.fromkeys(record["puzzle"] for record in records))
        total = len({r["puzzle"] for r in _records(bench, data, entry)})
        more = f", the worst of {total}" if total > len(ids) else ""
        page["notes"].append(f"{data}: {len(ids)} puzzles{more}")
        sources = {source.id: source for source in find_puzzles(entry["folder"])}
        for i in ids:
            puzzle = sources[i].load()
            page["puzzles"].append(_puzzle(puzzle, i, data, bool(entry["pictures"])))
            for record in records:
                if record["puzzle"] == i:
                    answer = _answer(bench, data, entry, record, puzzle)
                    page["answers"].append({"p": len(page["puzzles"]) - 1, **answer})
    # Nothing in the data may end the script element.
    content = json.dumps(page, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    atomic_write(path, template.replace("{{hash}}", key).replace("{{data}}", content))


def _records(bench: Path, data: str, entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        record
        for key in entry["rows"]
        if key != "truth"
        for record in read_records(bench, data, key)
        if record["seed"] < entry["seeds"]
        and "errors" in record
        and (entry["ids"] is None or record["puzzle"] in entry["ids"])
    ]


def _chosen(bench: Path, data: str, entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Records of the puzzles that came out worst."""
    records = _records(bench, data, entry)
    scores: dict[str, list[float]] = {}
    for record in records:
        scores.setdefault(record["puzzle"], []).append(record["scores"]["q_pos"] or 0.0)
    worst = sorted(scores, key=lambda i: (sum(scores[i]) / len(scores[i]), i))[:SHOWN]
    place = {i: k for k, i in enumerate(worst)}
    kept = [record for record in records if record["puzzle"] in place]
    return sorted(kept, key=lambda record: place[record["puzzle"]])


def _hash(template: str, chosen: Mapping[str, Sequence[Mapping[str, Any]]], state: Any) -> str:
    digest = hashlib.sha256(f"{__version__} {template}".encode())
    digest.update(json.dumps(state, sort_keys=True).encode())
    for data, records in chosen.items():
        for r in records:
            facts = [data, r["puzzle"], r["solver"], r["seed"], r["signature"], r["scores"]]
            digest.update(json.dumps(facts).encode())
    return digest.hexdigest()


def _puzzle(puzzle: Puzzle, name: str, data: str, pictures: bool) -> dict[str, Any]:
    assert puzzle.truth is not None
    pieces = []
    for fragment in puzzle.fragments:
        true = puzzle.truth.get(fragment.id)
        piece: dict[str, Any] = {
            "id": fragment.id,
            "d": _outline(fragment),
            "c": _rounded(fragment.centroid_mm),
            "r": round(_reach(fragment), 1),
            "t": None if true is None else _matrix(true),
        }
        if pictures:
            piece["img"], piece["box"] = _thumbnail(fragment)
        pieces.append(piece)
    placed = [puzzle[i].placed(pose).bounds for i, pose in puzzle.truth.items()]
    bounds = np.array(placed)
    box = [*bounds[:, :2].min(axis=0), *bounds[:, 2:].max(axis=0)]
    return {"id": name, "data": data, "pieces": pieces, "box": _rounded(box)}


def _answer(
    bench: Path, data: str, entry: Mapping[str, Any], record: Mapping[str, Any], puzzle: Puzzle
) -> dict[str, Any]:
    """A prediction in the frame of the truth: aligned by the anchor, as it is scored."""
    key, scores, errors = record["solver"], record["scores"], record["errors"]
    path = prediction_folder(bench, data, key, record["seed"]) / f"{record['puzzle']}.json"
    poses: list[Any] = [None] * len(puzzle)
    reason = record.get("error")
    if reason is None and path.is_file():
        islands = load_assembly(path, puzzle).islands
        by = next((i for i, e in errors.items() if e["state"] in ("anchor", "serving")), None)
        island = next((island for island in islands if by in island), {})
        if by is not None and island:
            assert puzzle.truth is not None
            motion = puzzle.truth[by] @ island[by].inverse()
            poses = [_matrix(motion @ island[i]) if i in island else None for i in puzzle.ids]
    trivial = key in ("true-centroids", "stack", "random", "ring")
    return {
        "s": entry["rows"].get(key, key),
        "trivial": trivial,
        "seed": record["seed"],
        "q": scores["q_pos"],
        "correct": scores["correct"],
        "deg": scores["rmse_rotation_deg"],
        "mm": scores["rmse_translation_mm"],
        "error": reason,
        "poses": poses,
        "pieces": [
            [
                errors[i]["state"],
                errors[i]["correct"],
                _rounded_or_none(errors[i]["rotation_deg"]),
                _rounded_or_none(errors[i]["distance_mm"]),
                _rounded_or_none(errors[i]["confidence"], 2),
            ]
            for i in puzzle.ids
        ],
    }


def _outline(fragment: Fragment) -> str:
    """The outline, simplified, as an SVG path in mm of the fragment's own frame."""
    rough = shapely.simplify(fragment.polygon, SIMPLIFY_MM)
    points = shapely.get_coordinates(rough.exterior)[:-1]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "Z"


def _reach(fragment: Fragment) -> float:
    """How far the outline is from the centroid at most, mm."""
    points = shapely.get_coordinates(fragment.polygon.exterior)
    return float(np.linalg.norm(points - fragment.centroid_mm, axis=1).max())


def _matrix(pose: Pose) -> list[float]:
    """As SVG's `matrix(a, b, c, d, e, f)`."""
    cos, sin = math.cos(pose.rotation_rad), math.sin(pose.rotation_rad)
    turn = [round(value, 5) for value in (cos, -sin, sin, cos)]
    return [*turn, round(pose.x_mm, 2), round(pose.y_mm, 2)]


def _thumbnail(fragment: Fragment) -> tuple[str, list[float]]:
    """The fragment's picture, and its box (x, y, width, height; mm) in its own frame."""
    from PIL import Image

    left, top, right, bottom = fragment.polygon.bounds
    scale = max(max(right - left, bottom - top) / THUMBNAIL_PX, fragment.mm_per_px)
    rgba = render_placements([(fragment, Pose(0, 0))], scale, (left, top, right, bottom))
    file = io.BytesIO()
    Image.fromarray(rgba).save(file, "WEBP", quality=70, method=4)
    height, width = rgba.shape[:2]
    return data_uri(file.getvalue(), "webp"), _rounded([left, top, width * scale, height * scale])


def _rounded(values: Any) -> list[float]:
    return [round(float(value), 2) for value in values]


def _rounded_or_none(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)
