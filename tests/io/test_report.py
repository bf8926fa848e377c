from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from shapely.geometry import Point

from reassembly.io.render import lay_out
from reassembly.io.report import CALIBRATION, report_html
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Fragment, Provenance, Puzzle
from tests.assemblies import HOSTILE, SPACED, incomplete_assembly
from tests.puzzles import drawn_puzzle


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        wanted = {k.rstrip("_"): v for k, v in attributes.items()}.items()
        return [a for t, a in self.elements if t == tag and wanted <= a.items()]


def report(assembly: Assembly) -> tuple[str, Page]:
    html = report_html(assembly, lay_out(assembly))
    return html, Page(html)


@pytest.fixture(scope="module")
def assembly() -> Assembly:
    return incomplete_assembly()


@pytest.fixture(scope="module")
def page(assembly: Assembly) -> Page:
    return report(assembly)[1]


def picture(source: str | None) -> Image.Image:
    kind, data = (source or "").split(",")
    assert kind == "data:image/webp;base64"
    return Image.open(io.BytesIO(base64.b64decode(data)))


def test_nothing_outside_the_file_is_asked_for(assembly: Assembly) -> None:
    html, page = report(assembly)
    addresses = [a[k] or "" for _, a in page.elements for k in ("src", "href", "action") if k in a]
    assert len(addresses) == 13 and all(a.startswith("data:image/webp;") for a in addresses)
    assert not re.search(r"https?:|@import|url\(", html)
    assert {"script", "link", "iframe", "object"}.isdisjoint(tag for tag, _ in page.elements)
    (policy,) = [a for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in (policy["content"] or "")


def test_names_are_text_and_never_markup(assembly: Assembly) -> None:
    html, page = report(assembly)
    assert HOSTILE not in html and "<script" not in html
    assert HOSTILE in page.text and SPACED in page.text
    assert assembly.puzzle.id in page.text
    assert 'note = "<b>é</b>"' in page.text


def test_every_placed_piece_has_a_row_and_every_other_a_thumbnail(page: Page, assembly) -> None:
    rows = [a["data-piece"] for a in page.all("tr") if "data-piece" in a]
    assert rows == [i for island in assembly.islands for i in assembly.puzzle.ids if i in island]
    rest = [a["data-piece"] for a in page.all("li") if "data-piece" in a]
    assert tuple(rest) == assembly.unplaced
    thumbnails = page.all("img")
    assert len(thumbnails) == 9
    for attributes in thumbnails:
        size = picture(attributes["src"]).size
        assert max(size) <= 160
        assert int(attributes["width"]) / int(attributes["height"]) == pytest.approx(
            size[0] / size[1], rel=0.1
        )


def test_figures_are_those_of_the_assembly(page: Page, assembly: Assembly) -> None:
    for i, pose in assembly.poses.items():
        figures = f"{pose.x_mm:.1f} {pose.y_mm:.1f} {pose.rotation_deg:.1f}"
        assert f"{figures} {assembly.puzzle[i].area_mm2 / 100:.1f}" in page.text, i
    for shown in ("0.97", "1.00", "0.00", "0.42", "> 0.99", "0.30"):
        assert shown in page.text
    assert page.text.count("not given") == 2
    widths = [a["style"] for a in page.all("span") if a.get("style")]
    assert widths[:4] == ["width: 97%", "width: 100%", "width: 0%", "width: 42%"]


def test_islands_say_that_they_claim_nothing(page: Page, assembly: Assembly) -> None:
    assert "8 of 9 pieces placed · 2 islands" in page.text
    assert "between islands nothing is known" in page.text
    assert "Island 1: 5 pieces" in page.text and "Island 2: 3 pieces" in page.text
    assert len(page.all("svg")) == 4
    whole = report(Assembly.of(assembly.puzzle, assembly.puzzle.truth))[1]
    assert "islands" not in whole.text and len(whole.all("svg")) == 2
    assert "gave no confidence" in whole.text
    assert "Unplaced" not in whole.text


def test_what_hands_have_placed_names_no_solver(assembly: Assembly) -> None:
    """Of a solver that nobody used there is no seed, no setting, no lack of confidence."""
    by_hand = replace(assembly, confidence={}, provenance=Provenance("workbench", "0.1.0"))
    text = report(by_hand)[1].text
    assert "Placed by hand Version 0.1.0 Scale" in text
    assert "olver" not in text and "Seed" not in text and "--mm-per-px" not in text
    assert "Pieces that were placed by hand have no confidence." in text
    helped = Provenance("workbench", "0.1.0", settings={"solvers": ["greedy", "joins"]})
    text = report(replace(assembly, provenance=helped))[1].text
    assert "Placed in the workbench, by hand and by proposals of greedy and joins Version" in text
    assert "Seed" not in text


def test_it_says_how_it_was_made(page: Page) -> None:
    assert "Solver greedy Version 0.1.0 Seed 7 Settings gap_mm = 1.5" in page.text
    assert "steps = [1, 2]" in page.text


def test_a_guessed_scale_is_said_wherever_a_length_is_read(page: Page, assembly: Assembly) -> None:
    assert "The scale is a guess." in page.text
    assert page.text.count("mm (scale guessed)") == 4
    assert "0.5 mm per pixel, a guess" in page.text
    known = replace(assembly.puzzle, metadata={"scale": "dpi"})
    sure = report(replace(assembly, puzzle=known))[1]
    assert "guess" not in sure.text
    assert "0.5 mm per pixel, from the resolution noted in the pictures" in sure.text


def test_scale_bars_are_as_long_as_they_say(page: Page) -> None:
    views = [[float(v) for v in (a["viewbox"] or "").split()] for a in page.all("svg")]
    halves = [float(a["width"] or 0) for a in page.all("rect", class_="dark")]
    labels = [float(x) for x in re.findall(r"([\d.]+) mm \(scale guessed\)", page.text)]
    assert len(halves) == 4
    for view, half, length in zip(views, halves, labels, strict=True):
        assert 2 * half == pytest.approx(length)
        assert 0.05 * view[2] < length < 0.35 * view[2]


def test_pictures_fill_their_place_in_millimetres(page: Page, assembly: Assembly) -> None:
    _, after, *_ = page.all("image")
    left, top, right, bottom = lay_out(assembly).bounds
    x, y, width, height = (float(after[k] or 0) for k in ("x", "y", "width", "height"))
    assert (x, y) == pytest.approx((left, top), abs=0.01)
    assert (width, height) == pytest.approx((right - left, bottom - top), abs=0.6)
    assert picture(after["href"]).width == pytest.approx(width / 0.5, abs=1)


def test_numbers_on_the_pieces_are_on_the_pieces(page: Page, assembly: Assembly) -> None:
    circles = page.all("circle")[:8]
    placements = lay_out(assembly).placements
    for attributes, (fragment, pose) in zip(circles, placements, strict=True):
        point = Point(float(attributes["cx"] or 0), float(attributes["cy"] or 0))
        assert fragment.placed(pose).contains(point)


def test_overlaps_are_named(assembly: Assembly) -> None:
    truth = assembly.puzzle.truth
    assert "Pieces overlap" not in report(Assembly.of(assembly.puzzle, truth))[1].text
    first, second = assembly.puzzle.ids[:2]
    # The scan's centre is near the piece's, so that two pieces at one pose cover each other.
    onto = dict(truth) | {first: replace(truth[second], rotation_rad=truth[first].rotation_rad)}
    text = report(Assembly.of(assembly.puzzle, onto))[1].text
    assert re.search(r"Pieces overlap\..*: 1 and 2 \(\d\d%\)", text)
    stacked = {i: Pose(0, 0) for i in assembly.puzzle.ids}
    assert "and 30 more pairs." in report(Assembly.of(assembly.puzzle, stacked))[1].text


def test_nothing_placed_is_said(assembly: Assembly) -> None:
    text = report(Assembly.of(assembly.puzzle))[1].text
    assert "0 of 9 pieces placed" in text and "No piece was placed." in text


def test_scales_that_differ_are_both_named() -> None:
    a, b = drawn_puzzle(pieces=2, size_px=100).fragments
    puzzle = Puzzle("p", (a, replace(b, mm_per_px=0.25)))
    text = report(Assembly.of(puzzle, {a.id: Pose(0, 0)}, provenance=Provenance("s")))[1].text
    assert "0.25 to 0.5 mm per pixel" in text
    assert "Seed none Settings the solver's defaults" in text


def test_fifty_noisy_pieces_stay_small() -> None:
    rng = np.random.default_rng(0)
    pieces = tuple(
        Fragment(
            f"RPf_{k:05d}_intact_mesh",
            rng.integers(0, 255, (300, 260, 3), dtype=np.uint8),
            np.ones((300, 260), bool),
            0.1,
        )
        for k in range(50)
    )
    poses = {f.id: Pose(30.0 * (k % 10), 35.0 * (k // 10)) for k, f in enumerate(pieces)}
    html, page = report(Assembly.of(Puzzle("p", pieces), poses))
    assert len(html) < 4_000_000
    assert max(picture(page.all("image")[1]["href"]).size) <= 1600


def test_what_is_said_of_calibration_is_what_was_measured() -> None:
    results = Path(__file__).parents[2] / "docs" / "results" / "joins.md"
    measured = results.read_text(encoding="utf-8").partition("## Do probabilities mean")[2]
    said = re.findall(r"0\.\d+", CALIBRATION)
    told = re.findall(
        r"calibration error is \**(0\.\d+)\**(?:[^.|]*?\s(0\.\d+)\son `paper`)?", measured
    )
    assert said == [figure for each in told for figure in each if figure]
