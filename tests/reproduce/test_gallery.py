"""The gallery: one file with everything in it, true to the predictions."""

import json
import re

import numpy as np
import pytest

from reassembly.bench import bench, read_records
from reassembly.pose import Pose
from reassembly.reproduce.gallery import write_gallery
from tests.puzzles import drawn_puzzle
from tests.test_cli import write_puzzle

HOSTILE = "</script><b onmouseover=alert(1)>"


@pytest.fixture(scope="module")
def bench_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    for seed, pieces in ((1, 3), (2, 4)):
        puzzle = drawn_puzzle(pieces=pieces, seed=seed, size_px=140)
        write_puzzle(folder / "data" / f"p{seed}", puzzle)
    bench({"drawn": folder / "data"}, ["greedy"], folder / "bench", detail=True)
    return folder


def state(folder, pictures=True):
    rows = {name: name for name in ("stack", "ring")} | {"greedy": f"greedy {HOSTILE}"}
    entry = {"folder": str(folder / "data"), "ids": None, "note": "", "seeds": 1}
    return {"drawn": {**entry, "pictures": pictures, "rows": rows}}


def content(path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script id="content" type="application/json">(.*?)</script>', text, re.S)
    return json.loads(found[1])


def test_predictions_lie_as_they_are_scored(bench_folder, tmp_path):
    page = tmp_path / "gallery.html"
    write_gallery(page, bench_folder / "bench", state(bench_folder))
    shown = content(page)
    assert len(shown["puzzles"]) == 2 and len(shown["answers"]) == 6
    for answer in shown["answers"]:
        puzzle = shown["puzzles"][answer["p"]]
        for piece, pose, (kind, right, deg, mm, _) in zip(
            puzzle["pieces"], answer["poses"], answer["pieces"], strict=True
        ):
            a, b, c, d, x, y = np.array(pose) - np.array([*piece["t"][:4], 0, 0])
            own = np.array(piece["c"])
            true = Pose(piece["t"][4], piece["t"][5], np.arctan2(piece["t"][2], piece["t"][0]))
            where = np.array([[pose[0], pose[2]], [pose[1], pose[3]]]) @ own + [x, y]
            assert np.linalg.norm(where - true.apply([own])[0]) == pytest.approx(mm, abs=0.15)
            turned = np.degrees(np.arctan2(pose[2], pose[0]) - true.rotation_rad)
            assert (turned - deg + 180) % 360 - 180 == pytest.approx(0, abs=0.1)
            if kind == "anchor":
                assert max(abs(v) for v in (a, b, c, d)) < 1e-4 and mm == 0
            assert right in (True, False)
    scores = {
        r["puzzle"]: r["scores"] for r in read_records(bench_folder / "bench", "drawn", "ring")
    }
    ours = [a for a in shown["answers"] if a["s"] == "ring"]
    assert [a["q"] for a in ours] == [scores[shown["puzzles"][a["p"]]["id"]]["q_pos"] for a in ours]


def test_pictures_only_where_they_may_be_shown(bench_folder, tmp_path):
    for pictures in (True, False):
        page = tmp_path / f"{pictures}.html"
        write_gallery(page, bench_folder / "bench", state(bench_folder, pictures))
        text = page.read_text(encoding="utf-8")
        assert ("data:image/webp" in text) == pictures
        assert all("img" in piece for p in content(page)["puzzles"] for piece in p["pieces"]) == (
            pictures
        )
        addresses = set(re.findall(r"https?://[^\s\"'<>]+", text))
        assert addresses == {"http://www.w3.org/2000/svg"}, "it asks for something"


def test_it_is_written_again_only_when_it_would_differ(bench_folder, tmp_path):
    page = tmp_path / "gallery.html"
    write_gallery(page, bench_folder / "bench", state(bench_folder))
    before = page.stat().st_mtime_ns
    write_gallery(page, bench_folder / "bench", state(bench_folder))
    assert page.stat().st_mtime_ns == before
    write_gallery(page, bench_folder / "bench", state(bench_folder, pictures=False))
    assert page.stat().st_mtime_ns != before


@pytest.mark.slow
def test_filters_in_a_browser(bench_folder, tmp_path, chromium):
    path = tmp_path / "gallery.html"
    write_gallery(path, bench_folder / "bench", state(bench_folder))
    page, said = chromium.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(path.as_uri())
    assert page.locator("article").count() == 2
    assert HOSTILE in page.locator("h2").first.inner_text()
    page.check("#trivial")
    assert page.locator("article").count() == 6
    shown = [
        float(t.split("q_pos ")[1].split()[0]) for t in page.locator("article p").all_inner_texts()
    ]
    assert shown == sorted(shown), "worst first"
    page.select_option("#solver", "ring")
    assert page.locator("article").count() == 2
    page.fill("#search", "drawn-2")
    assert page.locator("article").count() == 1
    assert page.locator("article svg").count() == 2
    assert page.locator("article svg image").count() == 8
    page.uncheck("#pictures")
    assert page.locator("article svg image").count() == 0
    page.select_option("#outcome", "right")
    assert page.locator("article").count() == 0
    assert said == []
    page.close()
