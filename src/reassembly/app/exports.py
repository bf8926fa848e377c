"""A hypothesis as files that other programs and people read. Runs in a worker."""

from __future__ import annotations

import html
import zipfile
from pathlib import Path
from typing import Any

from reassembly.app.document import PROJECT_FILE, written
from reassembly.app.puzzles import fragment_of, pose_of, unique_labels
from reassembly.app.worker import Task
from reassembly.io.files import output_folder
from reassembly.io.markup import fixed, share, xml_text
from reassembly.io.report import BY_HAND, CALIBRATION
from reassembly.pose import same_place
from reassembly.puzzle import Assembly, Provenance, Puzzle

__all__ = ["export"]

ARCHIVE = "reassembly.zip"
WRITERS = {"csv": "csv", "assembly": "json", "svg": "svg", "geojson": "geojson"}
WRITERS |= {"png": "png", "html": "html"}
"""Formats of the workbench, and what `Assembly.save` calls them."""
LIES_MM, LIES_DEG = 5.0, 5.0
"""Pieces lie by a join that they are nearer to than this, in both: refining moves them a little."""
JOIN_COLUMNS = ("pieces", "probability", "gap, mm", "overlap, mm²", "contact, mm", "verdict")


def export(task: Task) -> dict[str, Any]:
    """Writes files.

    Payload: `folder` (must not exist), `formats`, `images`, `name`, `pieces`, `placements`,
    `document`, `joins`, `solvers` (whose answers were laid out), `version`.
    """
    payload = task.payload
    formats = set(payload["formats"])
    images = Path(payload["images"])
    wanted = [WRITERS[name] for name in WRITERS if name in formats]
    with output_folder(payload["folder"]) as folder:
        if wanted:
            task.report(0.05, "reading pictures")
            assembly = _assembly(payload, images)
            task.report(0.3, "writing the assembly")
            assembly.save(folder, force=True, formats=wanted)
            if "html" in wanted:
                _add_joins(folder / "report.html", payload, assembly)
        if "json" in formats:
            task.report(0.8, "writing the project")
            with (folder / PROJECT_FILE).open("wb") as file:
                for part in written(payload["document"], images):
                    file.write(part)
        if "zip" in formats:
            _pack(folder)
        task.report(0.99, "done")
        files = sorted(folder.iterdir())
        return {"files": [{"name": f.name, "bytes": f.stat().st_size} for f in files]}


def _assembly(payload: dict[str, Any], images: Path) -> Assembly:
    placements = payload["placements"]
    labels = unique_labels(payload["pieces"])
    fragments = tuple(
        fragment_of(piece, images, labels[piece["id"]], placements.get(piece["id"], {}).get("gain"))
        for piece in payload["pieces"]
    )
    puzzle = Puzzle(payload["name"], fragments, metadata={"scale": _scales(payload["pieces"])})
    islands: dict[int, dict[str, Any]] = {}
    sure = {}
    # The topmost is drawn last.
    for i, placement in sorted(placements.items(), key=lambda item: item[1]["z"]):
        if i in labels and placement["placed"]:
            islands.setdefault(placement["island"], {})[labels[i]] = pose_of(placement)
            if placement["confidence"] is not None:
                sure[labels[i]] = placement["confidence"]
    heard = {"solvers": payload["solvers"]} if payload["solvers"] else {}
    return Assembly.of(
        puzzle,
        *(islands[number] for number in sorted(islands)),
        confidence=sure,
        provenance=Provenance(BY_HAND, payload["version"], settings=heard),
    )


def _scales(pieces: list[dict[str, Any]]) -> str:
    origins = {piece["scale_origin"] for piece in pieces}
    return "assumed" if "assumed" in origins else ", ".join(sorted(origins))


def _add_joins(report: Path, payload: dict[str, Any], assembly: Assembly) -> None:
    """Joins that pieces lie by or that have verdicts, and what is noted of the pieces, before the
    report's end."""
    labels = unique_labels(payload["pieces"])

    def safe(text: str) -> str:
        return html.escape(xml_text(text))

    def shown(join: dict[str, Any]) -> bool:
        first, second = (labels.get(join[end]) for end in ("first", "second"))
        if first is None or second is None:
            return False
        return bool(join["verdict"]) or _lie_by(assembly, first, second, join)

    sections = []
    rows = [
        (
            f"{labels[join['first']]} and {labels[join['second']]}",
            share(join["probability"]),
            fixed(join["gap_mm"]),
            fixed(join["overlap_mm2"]),
            f"{join['contact_mm']:.0f}",
            join["verdict"] or "",
        )
        for join in payload["joins"]
        if shown(join)
    ]
    if rows:
        note = (
            "Those by which pieces lie here, and those that people judged. Verdicts are people's; "
            f"the probability is the program's, {CALIBRATION}. Where a gap is below 0, the pieces "
            "overlap."
        )
        sections.append(_table("Joins", JOIN_COLUMNS, rows, note, safe))
    noted = [
        (labels[p["id"]], p["inventory"], p["provenance"], p["note"])
        for p in payload["pieces"]
        if p["inventory"] or p["provenance"] or p["note"]
    ]
    if noted:
        columns = ("piece", "inventory", "provenance", "note")
        sections.append(_table("About the pieces", columns, noted, "", safe))
    if sections:
        text = report.read_text(encoding="utf-8")
        before, end, after = text.rpartition("</main>")
        report.write_bytes(f"{before}{''.join(sections)}{end}{after}".encode())


def _lie_by(assembly: Assembly, first: str, second: str, join: dict[str, Any]) -> bool:
    """Whether two pieces lie as a join has it."""
    assert assembly.puzzle is not None
    island = next((poses for poses in assembly.islands if first in poses), {})
    if second not in island:
        return False
    lies = island[first].inverse() @ island[second]
    there, centroid = pose_of(join["pose"]), assembly.puzzle[second].centroid_mm
    return same_place(lies, there, centroid, LIES_MM, LIES_DEG)


def _table(title: str, columns: Any, rows: Any, note: str, safe: Any) -> str:
    head = "".join(f"<th scope='col'>{safe(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{safe(cell)}</td>" for cell in row) + "</tr>\n" for row in rows
    )
    said = f"<p class='note'>{safe(note)}</p>" if note else ""
    return (
        f"<section><h2>{safe(title)}</h2>{said}<table><thead><tr>{head}</tr></thead>"
        f"<tbody>\n{body}</tbody></table></section>\n"
    )


def _pack(folder: Path) -> None:
    files = sorted(folder.iterdir())
    with zipfile.ZipFile(folder / ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.name)
