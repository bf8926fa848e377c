from __future__ import annotations

import csv
import html
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from reassembly.app.exports import _add_joins
from reassembly.app.tasks import saved_name
from reassembly.io.writers import load_assembly
from reassembly.pose import to_repair
from reassembly.puzzle import Assembly
from tests.app.live import Live, cut_outs
from tests.puzzles import drawn_puzzle

EVERYTHING = ["csv", "json", "assembly", "svg", "geojson", "png", "html", "zip"]
HOSTILE = '<script>alert("x")</script>&amp;'


class Case:
    """Four pieces: two placed in one island, one in another, one in the tray."""

    def __init__(self, server: Live) -> None:
        self.server = server
        self.project, self.hypothesis = server.project("Wall & <Tray>")
        server.bring_in(self.project, cut_outs(4), mm_per_px=0.5)
        pieces = server.get(f"/projects/{self.project}/pieces")
        self.ids = [piece["id"] for piece in pieces]
        a, b, c, d = self.ids
        self.base = f"/projects/{self.project}/hypotheses/{self.hypothesis}"
        server.edit(
            self.project,
            self.hypothesis,
            {"op": "place", "piece": a, "x_mm": 40.0, "y_mm": 30.0, "rotation_deg": 25.0},
            {"op": "place", "piece": b, "x_mm": 150.0, "y_mm": 35.5, "rotation_deg": -170.0},
            {"op": "place", "piece": c, "x_mm": 400.0, "y_mm": 0.0, "island": 2},
            {"op": "lock", "piece": a, "locked": True},
            {"op": "describe", "piece": a, "name": HOSTILE, "inventory": "MN 1", "note": HOSTILE},
            {"op": "describe", "piece": d, "name": HOSTILE},
            {"op": "guide", "id": "g", "axis": "x", "position_mm": 3.25},
        )

    def export(self, *formats: str) -> dict[str, bytes]:
        job = self.server.post(f"{self.base}/exports", {"formats": formats})["job"]
        files = self.server.wait(job)["result"]["files"]
        found = {}
        for file in files:
            answer = self.server.client.get(file["url"])
            assert answer.status_code == 200 and len(answer.content) == file["bytes"]
            assert "attachment" in answer.headers["content-disposition"]
            found[file["name"]] = answer.content
        return found


@pytest.fixture(scope="module")
def case(server: Live) -> Case:
    return Case(server)


@pytest.fixture(scope="module")
def files(case: Case) -> dict[str, bytes]:
    return case.export(*EVERYTHING)


def test_every_format_is_there_and_in_the_archive(files: dict[str, bytes]) -> None:
    names = {"poses.csv", "poses-island-2.csv", "project.json", "assembly.json", "assembly.svg"}
    names |= {"outlines.geojson", "assembly.png", "report.html"}
    assert files.keys() == names | {"reassembly.zip"}
    with zipfile.ZipFile(io.BytesIO(files["reassembly.zip"])) as archive:
        assert set(archive.namelist()) == names
        assert archive.read("poses.csv") == files["poses.csv"]


def test_poses_are_those_of_the_canvas(files: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "assembly.json").write_bytes(files["assembly.json"])
    assembly = load_assembly(tmp_path)
    assert [len(island) for island in assembly.islands] == [2, 1]
    assert len(assembly.unplaced) == 1
    pose = assembly.poses[HOSTILE]
    assert (pose.x_mm, pose.y_mm, pose.rotation_deg) == pytest.approx((40.0, 30.0, 25.0))
    rows = list(csv.DictReader(io.StringIO(files["poses.csv"].decode())))
    # RePAIR's form: of the file's own frame, in pixels.
    frame = tuple(reversed(drawn_puzzle(4).fragments[0].mask.shape))
    x, y, turn = to_repair(pose, frame, 0.5)  # type: ignore[arg-type]
    row = next(row for row in rows if row["rpf"].startswith("fragment_0"))
    found = [float(row[key]) for key in ("x", "y", "rot")]
    assert found == pytest.approx([x, y, turn], abs=0.01)


def test_names_cannot_break_out_of_drawings_and_reports(files: dict[str, bytes]) -> None:
    for name in ("assembly.svg", "report.html"):
        text = files[name].decode()
        assert "<script>alert" not in text, name
        assert "&lt;script&gt;" in text, name
    layers = ElementTree.fromstring(files["assembly.svg"])
    labels = [value for e in layers.iter() for key, value in e.attrib.items() if "label" in key]
    assert HOSTILE in labels
    assert "MN 1" in files["report.html"].decode()


def test_the_picture_shows_what_is_placed(files: dict[str, bytes]) -> None:
    picture = Image.open(io.BytesIO(files["assembly.png"]))
    opaque = np.asarray(picture)[..., 3] > 0
    area = sum(f.area_mm2 for f in drawn_puzzle(4).fragments[:3])
    assert opaque.sum() * 0.25 == pytest.approx(area, rel=0.05)


def test_a_project_comes_back_unchanged_with_its_history(
    case: Case, files: dict[str, bytes]
) -> None:
    server = case.server
    answer = server.client.post(
        "/api/projects/import", files={"file": ("p.json", files["project.json"])}
    )
    assert answer.status_code == 202
    project = server.wait(answer.json()["job"])["result"]["project"]
    assert project != case.project
    old, new = (server.get(f"/projects/{p}") for p in (case.project, project))
    for key in ("name", "note", "pieces", "hypotheses", "judgements"):
        assert old[key] == new[key], key
    listed = {p["id"]: p["imported_at"] for p in server.get("/projects")}
    assert listed[case.project] is None and listed[project] > old["changed_at"]
    base = f"/projects/{project}/hypotheses/{case.hypothesis}"
    assert server.get(base)["state"] == server.get(case.base)["state"]
    assert server.get(f"{base}/history") == server.get(f"{case.base}/history")
    again = server.wait(server.post(f"{base}/exports", {"formats": ["json"]})["job"])
    data = server.client.get(again["result"]["files"][0]["url"]).content
    assert data == files["project.json"]
    # And it goes on where it was.
    server.post(f"{base}/undo", {})
    assert server.get(base)["placed"] == 0


def _changed(document: bytes, change: Any) -> bytes:
    content = json.loads(document)
    change(content)
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.update(version=2),
        lambda d: d.update(format="other"),
        lambda d: d.pop("hypotheses"),
        lambda d: d["pieces"][0].update(id="../../x"),
        lambda d: d["pieces"][0].update(picture="0" * 64),
        lambda d: d["pieces"].append(d["pieces"][0]),
        lambda d: d["hypotheses"][0]["state"]["placements"].update({"f" * 12: {"placed": True}}),
        lambda d: d["hypotheses"][0]["events"].pop(0),
        lambda d: d["hypotheses"][0].update(undo_top=99),
        lambda d: d["hypotheses"][0]["events"][0]["inverse"].append({"op": "rm -rf"}),
        lambda d: d["pictures"].update(dict.fromkeys(d["pictures"], "AAAA")),
        lambda d: d["pictures"].clear(),
        lambda d: d.update(name=""),
        lambda d: d["pieces"][0].update(mm_per_px=1e999),
        lambda d: d["pieces"][0].update(id="first"),
    ],
)
def test_a_damaged_project_is_refused_whole(
    case: Case, files: dict[str, bytes], damage: Any
) -> None:
    server = case.server
    before = {project["id"] for project in server.get("/projects")}
    data = _changed(files["project.json"], damage)
    answer = server.client.post("/api/projects/import", files={"file": ("p.json", data)})
    job = server.wait(answer.json()["job"], "failed")
    assert job["error"]["what"] and job["error"]["remedy"]
    assert "fault" not in job["error"]["remedy"] and "^" not in job["error"]["what"]
    assert {project["id"] for project in server.get("/projects")} == before


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[]", b"{}", b"[" * 100_000, b"\x89PNG"])
def test_what_is_no_project_is_refused(server: Live, data: bytes) -> None:
    answer = server.client.post("/api/projects/import", files={"file": ("p.json", data)})
    if answer.status_code == 202:
        job = server.wait(answer.json()["job"], "failed")
        assert "fault" not in job["error"]["remedy"]
    else:
        assert answer.status_code == 422


def test_files_are_saved_under_the_names_of_project_and_hypothesis(case: Case) -> None:
    path = f"{case.base}/exports"
    done = case.server.wait(case.server.post(path, {"formats": ["html", "json"]})["job"])
    names = {file["name"]: file["save_as"] for file in done["result"]["files"]}
    assert names == {
        "project.json": "Wall-Tray-project.json",
        "report.html": "Wall-Tray-First-hypothesis-report.html",
    }
    for file in done["result"]["files"]:
        told = case.server.client.get(file["url"]).headers["content-disposition"]
        assert told == f'attachment; filename="{file["save_as"]}"'


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("../../etc/passwd", "etc-passwd-report.html"),
        ('a"; rm -rf\r\n\x00', "a-rm-rf-report.html"),
        ("Οικία 3", "Οικία-3-report.html"),
        ("  ", "report.html"),
        ("x" * 500, f"{'x' * 40}-report.html"),
    ],
)
def test_saved_names_lead_nowhere(name: str, saved: str) -> None:
    assert saved_name(name, "report.html") == saved


def test_a_report_names_the_solvers_of_its_own_hypothesis(server: Live) -> None:
    project, solved = server.project("Made")
    server.bring_in(project, cut_outs(3), mm_per_px=0.5)
    base = f"/projects/{project}/hypotheses"
    server.wait(server.post(f"{base}/{solved}/solve", {"solver": "greedy"})["job"])
    branch = server.post(base, {"name": "Branch", "from": solved})["id"]
    own = server.post(base, {"name": "Own"})["id"]
    piece = server.get(f"/projects/{project}/pieces")[0]["id"]
    server.edit(project, own, {"op": "place", "piece": piece, "x_mm": 1.0, "y_mm": 1.0})
    made = {}
    for hypothesis in (solved, branch, own):
        job = server.post(f"{base}/{hypothesis}/exports", {"formats": ["html"]})["job"]
        (file,) = server.wait(job)["result"]["files"]
        text = server.client.get(file["url"]).text
        assert "Seed" not in text
        made[hypothesis] = re.findall("<dt>Placed</dt><dd>(.*)</dd>", text)
    helped = ["in the workbench, by hand and by proposals of greedy"]
    assert made == {solved: helped, branch: helped, own: ["by hand"]}


def test_an_export_of_nothing_says_so(server: Live) -> None:
    project, hypothesis = server.project()
    path = f"/projects/{project}/hypotheses/{hypothesis}/exports"
    job = server.wait(server.post(path, {"formats": ["png"]})["job"], "failed")
    assert "no piece" in job["error"]["what"]
    assert server.wait(server.post(path, {"formats": ["json"]})["job"])["result"]["files"]
    job = server.wait(server.post(path, {"formats": ["zip"]})["job"], "failed")
    assert "nothing to put into the archive" in job["error"]["what"]


def test_the_report_lists_joins_that_pieces_lie_by_and_judged_ones(tmp_path: Path) -> None:
    puzzle = drawn_puzzle(4)
    assert puzzle.truth is not None
    a, b, c, d = puzzle.ids
    assembly = Assembly.of(puzzle, {i: puzzle.truth[i] for i in (a, b, c)})

    def join(first: str, second: str, off_mm: float, verdict: str | None) -> dict[str, Any]:
        pose = puzzle.truth[first].inverse() @ puzzle.truth[second]  # type: ignore[index]
        x, y, turn = pose.x_mm + off_mm, pose.y_mm, pose.rotation_deg
        figures = {"probability": 0.998, "gap_mm": 1.0, "overlap_mm2": 0.0, "contact_mm": 30.0}
        where = {"x_mm": x, "y_mm": y, "rotation_deg": turn}
        return {"first": first, "second": second, "pose": where, "verdict": verdict, **figures}

    joins = [join(a, b, 2.0, None), join(b, c, 60.0, None), join(a, c, 60.0, "rejected")]
    joins += [join(c, d, 0.0, None), join(b, c, 9.0, None)]
    empty = dict.fromkeys(("inventory", "provenance", "note"), "")
    pieces = [{"id": i, "name": i, "file": i, **empty} for i in puzzle.ids]
    report = tmp_path / "report.html"
    report.write_text("<main></main>", encoding="utf-8")
    _add_joins(report, {"pieces": pieces, "joins": joins}, assembly)
    text = html.unescape(report.read_text(encoding="utf-8"))
    assert f"{a} and {b}" in text and f"{a} and {c}" in text
    assert f"{b} and {c}" not in text and f"{c} and {d}" not in text
    assert text.count("> 0.99") == 2


def test_a_hypothesis_that_was_changed_by_hand_is_given_no_confidence(server: Live) -> None:
    """A mean over the pieces that still have one would praise the whole."""
    project, hypothesis = server.project("Confidence")
    server.bring_in(project, cut_outs(3), mm_per_px=0.5)
    a, b, _ = (piece["id"] for piece in server.get(f"/projects/{project}/pieces"))
    there = {"op": "place", "x_mm": 0.0, "y_mm": 0.0, "rotation_deg": 0.0}

    def told() -> float | None:
        (one,) = server.get(f"/projects/{project}/hypotheses")
        confidence: float | None = one["confidence"]
        return confidence

    for piece, sure in ((a, 0.9), (b, 0.7)):
        server.edit(project, hypothesis, {**there, "piece": piece, "confidence": sure})
    assert told() == pytest.approx(0.8)
    server.edit(project, hypothesis, {**there, "piece": b, "x_mm": 90.0})
    assert told() is None
