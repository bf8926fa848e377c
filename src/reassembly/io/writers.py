"""An assembly in every format that people need, all or nothing.

What the files mean is described in docs/formats.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import Any

import shapely
from shapely.geometry import mapping
from shapely.geometry.polygon import orient

from reassembly.errors import InputError
from reassembly.io.assembly_json import FILE_NAME, assembly_to_json, load_assembly
from reassembly.io.files import output_folder
from reassembly.io.poses_csv import poses_csv
from reassembly.io.render import Sheet, bounded_scale, lay_out, png_bytes, render_placements
from reassembly.io.report import report_html
from reassembly.io.svg import write_svg
from reassembly.puzzle import Assembly

__all__ = [
    "FORMATS",
    "assembly_to_json",
    "load_assembly",
    "outlines_geojson",
    "save_assembly",
    "utf8",
]

FORMATS = {
    "csv": "poses.csv",
    "json": FILE_NAME,
    "svg": "assembly.svg",
    "geojson": "outlines.geojson",
    "png": "assembly.png",
    "html": "report.html",
}
"""The file of each format. Islands after the first have a `poses-island-2.csv` and so on."""
MORE_ISLANDS = "poses-island-{}.csv"
OURS = (*FORMATS.values(), MORE_ISLANDS.format("*"))
"""Patterns of all names that an assembly's files may have."""
COORDINATE_DECIMALS = 6


def save_assembly(
    assembly: Assembly,
    folder: str | PathLike[str],
    *,
    force: bool = False,
    formats: Iterable[str] | None = None,
) -> Path:
    """Writes an assembly into a folder, all or nothing; the same assembly gives the same bytes.

    Args:
        assembly: with its puzzle.
        force: replace an earlier assembly in the folder. Files that are not ours stay.
        formats: names from `FORMATS`; all by default.

    Returns:
        The folder.
    """
    wanted = _wanted(formats)
    if assembly.puzzle is None:
        raise InputError(
            "this assembly has no fragments with it, only their poses",
            "Load it together with its puzzle: Assembly.load(path, puzzle)",
        )
    puzzle = assembly.puzzle
    # Made in any case: whatever cannot be written shows here, before there is a folder.
    document = utf8(assembly_to_json(assembly))
    sheet = lay_out(assembly)
    scale = bounded_scale(sheet.bounds, puzzle.mm_per_px)

    def write(name: str) -> None:
        target = out / FORMATS[name]
        if name == "csv":
            for number, island in enumerate(assembly.islands or ({},), start=1):
                table = target if number == 1 else out / MORE_ISLANDS.format(number)
                table.write_bytes(utf8(poses_csv(island, puzzle)))
        elif name == "json":
            target.write_bytes(document)
        elif name == "svg":
            write_svg(assembly, sheet, target)
        elif name == "geojson":
            target.write_bytes(utf8(outlines_geojson(assembly, sheet, scale)))
        elif name == "png":
            picture = render_placements(sheet.placements, scale, sheet.bounds)
            target.write_bytes(png_bytes(picture, scale))
        elif name == "html":
            target.write_bytes(utf8(report_html(assembly, sheet)))

    # Most of the time goes into compressing pictures, which leaves other threads free to run.
    with output_folder(folder, force=force, replaces=OURS) as out, ThreadPoolExecutor() as pool:
        list(pool.map(write, wanted))
    return Path(folder)


def outlines_geojson(assembly: Assembly, sheet: Sheet, mm_per_px: float) -> str:
    """The outlines of all placed fragments as a GeoJSON feature collection.

    Args:
        sheet: `lay_out(assembly)`; coordinates are mm in its frame, y down.
        mm_per_px: of the drawing that goes with it. With `origin_mm`, a point (x, y) is the
            drawing's pixel ((x - origin_mm[0]) / mm_per_px, (y - origin_mm[1]) / mm_per_px).
    """
    features: list[dict[str, Any]] = []
    for number, (own, drawn) in enumerate(
        zip(assembly.islands, sheet.islands, strict=True), start=1
    ):
        for fragment, pose in drawn:
            outline = shapely.set_precision(
                fragment.placed(pose), 10**-COORDINATE_DECIMALS, mode="pointwise"
            )
            features.append(
                {
                    "type": "Feature",
                    "geometry": mapping(orient(outline)),
                    "properties": {
                        "name": fragment.id,
                        "id": fragment.id,
                        "filename": fragment.metadata.get("filename"),
                        "island": number,
                        "x_mm": own[fragment.id].x_mm,
                        "y_mm": own[fragment.id].y_mm,
                        "rotation_deg": pose.rotation_deg,
                        "confidence": assembly.confidence.get(fragment.id),
                        "area_mm2": fragment.area_mm2,
                        "shift_mm": sheet.shifts_mm[number - 1],
                        "mm_per_px": mm_per_px,
                    },
                }
            )
    content = {
        "type": "FeatureCollection",
        "mm_per_px": mm_per_px,
        "origin_mm": sheet.bounds[:2],
        "features": features,
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"


def _wanted(formats: Iterable[str] | None) -> list[str]:
    asked = set(FORMATS if formats is None else [formats] if isinstance(formats, str) else formats)
    if unknown := sorted(asked - FORMATS.keys()):
        raise InputError(
            f"there is no format {', '.join(unknown)}", f"Choose from {', '.join(FORMATS)}"
        )
    return [name for name in FORMATS if name in asked]


def utf8(text: str) -> bytes:
    """The text of a file; a name that is no Unicode is the user's to mend."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        around = text[max(error.start - 20, 0) : error.end + 20]
        raise InputError(
            f"a name is not valid Unicode, here: {around!a}", "Rename the file"
        ) from error
