"""Whole flows of the workbench: bring pieces in, solve, judge, repair, take the result away."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import pytest
from PIL import Image

from reassembly.puzzle import Puzzle
from tests.browser.workbench import (
    Box,
    Hands,
    Server,
    bring_in,
    choose_method,
    cut_outs,
    held_workers,
    meet,
    solve,
    wait_solved,
)
from tests.puzzles import drawn_puzzle

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.slow

QUICK = "greedy"
"""A solver for what does not depend on which."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "workspace").start()
    yield server
    server.stop()


@pytest.fixture
def hands(visitor: Hands) -> Hands:
    return visitor


@pytest.fixture
def drawn(hands: Hands, tmp_path: Path) -> Puzzle:
    """A drawn puzzle of five pieces, brought in by drag and drop of its folder."""
    puzzle = drawn_puzzle(5, seed=2)
    bring_in(hands, cut_outs(tmp_path / "find 12", puzzle), puzzle.mm_per_px)
    return puzzle


def test_a_folder_is_brought_in_by_drag_and_drop(hands: Hands, drawn: Puzzle) -> None:
    page = hands.page
    assert page.locator(".thumb-button").count() == len(drawn)
    assert "find 12" in page.locator(".project-name").inner_text()
    pieces = {piece["name"]: piece for piece in hands.pieces()}
    assert set(pieces) == set(drawn.ids)
    for fragment in drawn.fragments:
        piece = pieces[fragment.id]
        assert piece["mm_per_px"] == 0.5 and piece["scale_origin"] == "option"
        assert piece["area_mm2"] == pytest.approx(fragment.area_mm2, rel=0.02)
    page.get_by_label("Sort by").select_option("name")
    names = page.locator(".thumb-name").all_inner_texts()
    assert names == sorted(names)
    page.locator(".thumb-button").first.click()
    page.get_by_label("Inventory number").click()
    page.keyboard.type("FR-7")
    page.keyboard.press("Tab")
    page.get_by_label("Search pieces").click()
    page.keyboard.type("fr-7")
    assert page.locator(".thumb-button").count() == 1
    hands.wait_saved()
    assert [p["name"] for p in hands.pieces() if p["inventory"] == "FR-7"] == [names[0]]


def test_a_zip_and_files_are_brought_in_together(hands: Hands, tmp_path: Path) -> None:
    page = hands.page
    puzzle = drawn_puzzle(4, seed=6)
    folder = cut_outs(tmp_path / "some", puzzle)
    alone = (folder / f"{puzzle.ids[0]}.png").rename(tmp_path / "odd & ü; x='1'.png")
    archive = Path(shutil.make_archive(str(tmp_path / "rest"), "zip", folder))
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    hands.drop_files(archive, alone, broken)
    dialog = page.get_by_role("dialog")
    dialog.locator(".file-list .bad").wait_for()
    dialog.get_by_label("I know it").click()
    dialog.get_by_label("One pixel is").click()
    page.keyboard.type("0.5")
    page.keyboard.press("Tab")
    hands.confirm_import()
    page.locator(".thumb-button").nth(3).wait_for()
    names = {piece["name"] for piece in hands.pieces()}
    assert names == {"odd & ü; x='1'", *puzzle.ids[1:]}
    assert page.locator(".thumb-name", has_text="odd & ü; x='1'").count() == 1


def test_files_of_a_folder_come_in_natural_order(hands: Hands, tmp_path: Path) -> None:
    folder = tmp_path / "natural"
    cut_outs(folder, drawn_puzzle(3, seed=4))
    wanted = ["piece1", "piece2", "piece10"]
    for file, name in zip(sorted(folder.iterdir()), reversed(wanted), strict=True):
        file.rename(folder / f"{name}.png")
    hands.drop_files(folder)
    listed = hands.page.locator(".file-list strong")
    listed.nth(2).wait_for()
    assert listed.all_inner_texts() == [f"{name}.png" for name in wanted]
    hands.page.get_by_label("I know it").click()
    hands.page.get_by_label("One pixel is").click()
    hands.page.keyboard.type("0.5")
    hands.confirm_import()
    hands.page.locator(".thumb-button").nth(2).wait_for()
    assert [piece["name"] for piece in hands.pieces()] == wanted


def tray_photograph(path: Path) -> tuple[int, tuple[int, int], tuple[int, int]]:
    """Drawn pieces on a plain ground beside a ruler; how many, and the ruler's ends in pixels."""
    rng = np.random.default_rng(5)
    photo = np.full((1200, 1600, 3), (38, 44, 52), np.float64) + rng.normal(0, 1.5, (1200, 1600, 3))
    puzzle = drawn_puzzle(4, seed=3, size_px=560)
    for k, fragment in enumerate(puzzle.fragments):
        crop = fragment.cropped()
        height, width = crop.mask.shape
        top, left = 60 + (k // 2) * 520, 80 + (k % 2) * 760
        window = photo[top : top + height, left : left + width]
        window[crop.mask] = 60 + 0.72 * crop.image[crop.mask]
    start, end = (500, 1150), (1100, 1150)
    photo = np.clip(photo, 0, 255).astype(np.uint8)
    cv2.line(photo, start, end, (240, 240, 240), 3)
    Image.fromarray(photo).save(path)
    return len(puzzle), start, end


def test_a_tray_photograph_is_scaled_by_two_clicks(hands: Hands, tmp_path: Path) -> None:
    page = hands.page
    photo = tmp_path / "tray.png"
    count, start, end = tray_photograph(photo)
    hands.drop_files(photo)
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("pieces seen").wait_for()
    dialog.get_by_label("Two clicks on a ruler").click()
    picture = dialog.locator("svg[aria-label^=Photograph]")
    dialog.locator(".zoomable img").wait_for()
    box = picture.bounding_box()
    assert box is not None
    spots = [
        (box["x"] + x / 1600 * box["width"], box["y"] + y / 1200 * box["height"])
        for x, y in (start, end)
    ]
    # A stray click is taken back, and a double click is one end, not a length of nothing.
    page.mouse.click(box["x"] + 20, box["y"] + 20)
    page.keyboard.press("Escape")
    assert dialog.is_visible() and picture.locator("line").count() == 0
    page.mouse.dblclick(*spots[0])
    assert dialog.get_by_label("This length is").count() == 0
    page.mouse.click(*spots[1])
    dialog.get_by_label("This length is").click()
    page.keyboard.type("150")
    page.keyboard.press("Tab")
    hands.confirm_import()
    page.locator(".thumb-button").nth(count - 1).wait_for()
    pieces = hands.pieces()
    assert len(pieces) >= count
    for piece in pieces:
        assert piece["mm_per_px"] == pytest.approx(150 / 600, rel=0.01)
        assert piece["scale_origin"] == "ruler"


def test_a_wide_photograph_is_shown_as_it_is_and_lines_lie_where_they_were_clicked(
    hands: Hands, tmp_path: Path
) -> None:
    page = hands.page
    tray_photograph(tmp_path / "tray.png")
    Image.open(tmp_path / "tray.png").crop((0, 500, 1600, 1200)).save(tmp_path / "wide.png")
    hands.drop_files(tmp_path / "wide.png")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("seen").first.wait_for()
    dialog.get_by_label("Two clicks on a ruler").click()
    dialog.locator(".zoomable img").wait_for()
    for larger in (False, True):
        if larger:
            dialog.get_by_role("button", name="Larger").click()
        box = dialog.locator("svg[aria-label^=Photograph]").bounding_box()
        view = dialog.locator(".zoomable-view").bounding_box()
        assert box is not None and view is not None
        assert box["width"] / box["height"] == pytest.approx(1600 / 700, rel=0.01)
        fits = box["width"] <= view["width"] + 1 and box["height"] <= view["height"] + 1
        assert fits != larger
        # A ruler may end in any corner: nothing lies over the picture.
        corners = page.evaluate(
            """() => {
              const view = document.querySelector(".zoomable-view");
              view.scrollTo(1e6, 1e6);
              const [picture, seen] = [view.querySelector("svg"), view.getBoundingClientRect()]
              const box = picture.getBoundingClientRect();
              const right = Math.min(box.right, seen.left + view.clientWidth) - 3;
              const low = Math.min(box.bottom, seen.top + view.clientHeight) - 3;
              const left = Math.max(box.left, seen.left) + 3;
              return [[right, low], [left, low]].map(
                ([x, y]) => document.elementFromPoint(x, y).closest("svg") === picture);
            }"""
        )
        assert corners == [True, True]
    dialog.get_by_role("button", name="Smaller").click()
    box = dialog.locator("svg[aria-label^=Photograph]").bounding_box()
    assert box is not None
    ends = [(box["x"] + x * box["width"], box["y"] + 0.9 * box["height"]) for x in (0.3, 0.6)]
    for x, y in ends:
        page.mouse.click(x, y)
    marks = dialog.locator(".ruler-line circle")
    for k, (x, y) in enumerate(ends):
        mark = marks.nth(k).bounding_box()
        assert mark is not None
        assert mark["x"] + mark["width"] / 2 == pytest.approx(x, abs=2)
        assert mark["y"] + mark["height"] / 2 == pytest.approx(y, abs=2)
    # Two lengths have room between them, and above the buttons.
    for x, y in ends:
        page.mouse.click(x, y - 40)
    lengths = dialog.locator(".rulers .number-field")
    upper, lower = bounds(lengths.nth(0)), bounds(lengths.nth(1))
    assert lower[1] - upper[3] >= 8
    assert bounds(dialog.locator("footer"))[1] - lower[3] >= 8


def test_a_phone_photograph_is_brought_in(hands: Hands, tmp_path: Path) -> None:
    import pillow_heif

    page = hands.page
    tray_photograph(tmp_path / "tray.png")
    photo = tmp_path / "IMG_0417.HEIC"
    pillow_heif.from_pillow(Image.open(tmp_path / "tray.png")).save(photo)
    (tmp_path / "cut short.heic").write_bytes(photo.read_bytes()[:3000])
    hands.drop_files(photo, tmp_path / "cut short.heic")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("pieces seen").wait_for()
    assert "HEIC file is damaged" in dialog.locator(".file-list .bad").inner_text()
    # Two ends of a length by keys: the cross begins in the middle.
    dialog.get_by_label("Two clicks on a ruler").focus()
    page.keyboard.press("Space")
    dialog.locator("svg[aria-label^=Photograph]").focus()
    page.keyboard.press("Enter")
    for _ in range(4):
        page.keyboard.press("Control+ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.type("100")
    dialog.get_by_role("button", name="Bring in", exact=True).focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Tour").wait_for()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    page.locator(".thumb-button").nth(3).wait_for()
    # Four times five steps of a hundredth of 1600 px, called 100 mm.
    for piece in hands.pieces():
        assert piece["mm_per_px"] == pytest.approx(100 / (4 * 5 * 16), rel=0.01)


def test_solving_shows_its_attempts_and_can_be_cancelled(hands: Hands, drawn: Puzzle) -> None:
    page = hands.page
    hands.tab("Solve")
    page.get_by_role("button", name="Solve", exact=True).focus()
    page.keyboard.press("Enter")
    page.locator(".progress-card progress").wait_for()
    # By keys, the focus moves to the button that takes the place of the one pressed.
    hands.until("() => document.activeElement.textContent === 'Cancel'")
    page.keyboard.press("Enter")
    page.get_by_text("was cancelled").wait_for(timeout=5000)
    hands.until("() => document.activeElement.textContent === 'Solve'")
    assert hands.placed() == {}

    solve(hands)
    page.get_by_text("A solver’s attempt").wait_for(timeout=60_000)
    assert page.evaluate("window.reassembly.board.items.length") > 0
    wait_solved(hands)
    assert page.get_by_text("A solver’s attempt").count() == 0
    assert len(hands.placed()) >= 2
    page.get_by_text(re.compile("[Cc]onfidence")).first.wait_for()
    page.keyboard.press("Control+z")
    hands.wait_saved()
    assert hands.placed() == {}
    page.get_by_role("button", name="Use", exact=True).first.click()
    page.get_by_text(re.compile(r"Proposal \d is on the board")).wait_for()
    hands.wait_saved()
    assert len(hands.placed()) >= 2
    # Whoever looked elsewhere sees all of it.
    page.locator(".board").hover()
    for _ in range(12):
        page.mouse.wheel(0, -300)
    all_seen = "() => window.reassembly.board.isSeen(window.reassembly.board.items)"
    hands.until(f"() => !({all_seen})()")
    page.get_by_role("button", name="Use", exact=True).first.click()
    hands.until(all_seen)
    hands.wait_saved()

    # Another solve that is given up takes no proposal away.
    shown = page.locator(".proposal").count()
    solve(hands)
    page.locator(".progress-card").get_by_role("button", name="Cancel").click()
    page.get_by_text("was cancelled").wait_for()
    assert page.locator(".proposal").count() == shown > 0
    page.reload()
    hands.tab("Solve")
    page.get_by_text("was cancelled").wait_for()
    assert page.locator(".proposal").count() == shown


def test_hands_never_move_a_solvers_attempt(hands: Hands, drawn: Puzzle) -> None:
    page = hands.page
    thumbs = page.locator(".thumb-button")
    thumbs.first.focus()
    # All but one lie on the board, so that whatever the solver joins first, one of them is in it.
    # The first attempt stays for a while; the last one is gone before anybody can grab it.
    for left in (4, 3, 2, 1):
        page.keyboard.press("Enter")
        hands.until("(n) => document.querySelectorAll('.thumb-button').length === n", left)
    hands.wait_saved()
    lay = hands.placed()
    page.locator(".board").focus()
    page.keyboard.press("Escape")
    choose_method(hands, "joins")
    solve(hands)
    hands.until("() => document.querySelector('.preview-banner.attempt') !== null", limit_s=90)

    with held_workers(hands.server):
        # What it had said before it was held, even that it is done, is heard first.
        hands.settle()
        assert page.get_by_text("attempt, not yet placed").is_visible(), "the solver was too quick"

        # What is grabbed in the attempt stays, whether it lies on the board or in the tray.
        name = min(hands.boxes().keys() & lay.keys())
        x, y = hands.where(name)
        hands.drag((x, y), (x + 90, y + 60))
        page.locator(".notice", has_text="solver’s attempt").wait_for()
        page.keyboard.press("Control+ArrowRight")
        page.keyboard.press("q")
        page.get_by_role("button", name="Show my board").click()
        page.get_by_text("Your own board").wait_for()
        hands.wait_saved()
        assert poses(hands.placed()) == poses(lay)

        # On the own board hands move what truly lies there.
        hands.settle()
        hands.click(name)
        page.keyboard.press("Control+ArrowRight")
        hands.wait_saved()
        page.get_by_role("button", name="Show the attempt").click()
        page.get_by_text("attempt, not yet placed").wait_for()
        # A number, or a piece out of the tray, brings the own board back.
        page.keyboard.press("i")
        page.locator(".place").get_by_label("y", exact=True).click()
        page.keyboard.type("12.5")
        page.keyboard.press("Enter")
        page.get_by_text("Your own board").wait_for()
        hands.tab("Solve")
        page.locator(".progress-card").get_by_role("button", name="Cancel").click()
    page.get_by_text("was cancelled").wait_for(timeout=10_000)
    hands.wait_saved()
    x_mm, _, turned = poses(lay)[name]
    wanted = poses(lay) | {name: (pytest.approx(x_mm + 10), 12.5, turned)}
    assert poses(hands.placed()) == wanted


def test_the_banner_of_an_attempt_leaves_the_tools_free(hands: Hands, drawn: Puzzle) -> None:
    page = hands.page
    page.set_viewport_size({"width": 1024, "height": 768})
    choose_method(hands, "genetic")
    solve(hands)
    page.get_by_text("attempt, not yet placed").wait_for(timeout=60_000)
    with held_workers(hands.server):
        ends = []
        for words in ("Show my board", "Show the attempt"):
            button = page.get_by_role("button", name=words)
            banner = bounds(page.locator(".preview-banner"))
            for tools in ("Tools", "Show", "Zoom"):
                assert not meet(banner, bounds(page.get_by_role("toolbar", name=tools, exact=True)))
            area = bounds(page.locator(".board-area"))
            assert area[0] < banner[0] and banner[2] < area[2]
            left, top, right, bottom = bounds(button)
            assert bottom - top >= 24 and right - left >= 24
            ends.append(right)
            button.click()
        assert ends[0] == ends[1]
        page.locator(".progress-card").get_by_role("button", name="Cancel").click()


def bounds(thing: Locator) -> Box:
    found = thing.bounding_box()
    assert found is not None
    x, y = found["x"], found["y"]
    return x, y, x + found["width"], y + found["height"]


def solve_quickly(hands: Hands) -> None:
    choose_method(hands, QUICK)
    solve(hands)
    wait_solved(hands)
    hands.settle()


def poses(placed: dict[str, dict[str, Any]]) -> dict[str, tuple[float, float, float]]:
    return {name: (r["x_mm"], r["y_mm"], r["rotation_deg"]) for name, r in placed.items()}


def test_only_the_unplaced_are_solved(hands: Hands, drawn: Puzzle) -> None:
    page = hands.page
    solve_quickly(hands)
    name = sorted(hands.placed())[0]
    hands.click(name)
    page.keyboard.press("t")
    hands.wait_saved()
    before = hands.placed()
    hands.tab("Solve")
    page.get_by_label(re.compile("^Only the 1 unplaced")).click()
    solve(hands)
    page.locator(".progress-card").wait_for()
    page.locator(".progress-card").wait_for(state="detached", timeout=120_000)
    hands.wait_saved()
    after = hands.placed()
    for other, row in before.items():
        assert [after[other][k] for k in ("x_mm", "y_mm", "rotation_deg")] == [
            row[k] for k in ("x_mm", "y_mm", "rotation_deg")
        ]


def test_locked_pieces_stay_and_the_rest_is_solved_around_them(hands: Hands, drawn: Puzzle) -> None:
    page = hands.page
    solve_quickly(hands)
    first, second = sorted(hands.placed())[:2]
    hands.click(first)
    hands.click(second, adding=True)
    for key in ("Control+ArrowRight", "Shift+ArrowDown", "q", "l"):
        page.keyboard.press(key)
    hands.wait_saved()
    locked = {name: hands.placed()[name] for name in (first, second)}
    assert all(row["locked"] for row in locked.values())
    hands.tab("Solve")
    page.get_by_text("All, around the 2 locked").wait_for()
    choose_method(hands, "joins")
    before = hands.state()["revision"]
    solve(hands)
    page.locator(".progress-card").wait_for()
    page.locator(".progress-card").wait_for(state="detached", timeout=120_000)
    hands.wait_saved()
    assert hands.state()["revision"] > before
    for name, row in locked.items():
        now = hands.placed()[name]
        assert [now[k] for k in ("x_mm", "y_mm", "rotation_deg", "locked")] == [
            row[k] for k in ("x_mm", "y_mm", "rotation_deg", "locked")
        ]


def test_what_is_locked_while_a_solver_works_is_told(hands: Hands, drawn: Puzzle) -> None:
    page = hands.page
    solve_quickly(hands)
    name = min(hands.placed())
    choose_method(hands, "joins")
    # A double click asks once.
    page.get_by_role("button", name="Solve", exact=True).dblclick(delay=5)
    page.locator(".progress-card").wait_for()
    hands.click(name)
    page.locator(".board").focus()
    for key in ("Control+ArrowRight", "Control+ArrowDown", "l"):
        page.keyboard.press(key)
    page.locator(".progress-card").wait_for(state="detached", timeout=120_000)
    hands.wait_saved()
    assert hands.placed()[name]["locked"]
    page.get_by_text(f"{name} stays where you put it while the solver worked").wait_for()
    jobs = hands.server.get(f"/api/projects/{hands.project}")["jobs"]
    assert [job["kind"] for job in jobs].count("solve") == 2
    home = page.get_by_label("Hypothesis", exact=True).locator("option:checked").inner_text()
    for name in ("Proposal 1", "Proposal 1 2"):
        hands.tab("Solve")
        page.get_by_role("button", name="Keep as new").first.dblclick(delay=5)
        hands.until(
            "(name) => document.querySelector('[aria-label=Hypothesis]')"
            ".selectedOptions[0].textContent === name",
            name,
        )
        hands.settle()
        hands.switch_to(home)


def test_a_cut_out_is_repaired_split_merged_and_discarded(hands: Hands, drawn: Puzzle) -> None:
    page = hands.page
    name = drawn.ids[0]
    page.get_by_role("button", name=re.compile(f"^{name}\\.")).click()
    area = {p["name"]: p["area_mm2"] for p in hands.pieces()}[name]

    page.get_by_role("button", name="Repair the cut-out").click()
    dialog = page.get_by_role("dialog")
    canvas = dialog.locator("canvas")
    dialog.get_by_text("Fetching").wait_for(state="detached")
    dialog.get_by_role("button", name="Eraser").click()
    box = canvas.bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    hands.drag(middle, (middle[0], box["y"] + 2))
    dialog.get_by_role("button", name="Save").click()
    dialog.wait_for(state="detached")
    hands.wait_saved()
    smaller = {p["name"]: p["area_mm2"] for p in hands.pieces()}[name]
    assert 0.5 * area < smaller < 0.97 * area
    page.keyboard.press("Control+z")
    hands.wait_saved()
    assert {p["name"]: p["area_mm2"] for p in hands.pieces()}[name] == pytest.approx(area)

    page.get_by_role("button", name=re.compile(f"^{name}\\.")).press("Enter")
    hands.wait_saved()
    hands.tab("Piece")
    page.get_by_role("button", name="Repair the cut-out").click()
    dialog.get_by_text("Fetching").wait_for(state="detached")
    dialog.get_by_role("button", name="Cut", exact=True).click()
    box = canvas.bounding_box()
    assert box is not None
    x = box["x"] + box["width"] / 2
    hands.drag((x, box["y"] + 1), (x, box["y"] + box["height"] - 1), steps=20)
    dialog.get_by_role("button", name="Split along the line").click()
    dialog.wait_for(state="detached")
    hands.wait_saved()
    parts = hands.placed()
    assert len(parts) >= 2 and name not in parts
    assert len(hands.pieces()) == len(drawn) - 1 + len(parts)

    page.keyboard.press("Control+a")
    page.get_by_role("button", name="Merge into one piece").click()
    page.get_by_text("Merged into one piece").wait_for()
    hands.wait_saved()
    (merged,) = hands.placed()
    assert {p["name"]: p["area_mm2"] for p in hands.pieces()}[merged] == pytest.approx(
        area, rel=0.05
    )
    page.get_by_role("button", name="Discard").click()
    hands.wait_saved()
    assert len(hands.pieces()) == len(drawn) - 1
    page.locator(".discarded summary").click()
    page.get_by_role("button", name="Take back").last.click()
    hands.wait_saved()
    assert len(hands.pieces()) == len(drawn)


def downloads(hands: Hands) -> dict[str, bytes]:
    """Every exported file, by its name."""
    files: dict[str, bytes] = {}
    for link in hands.page.get_by_role("dialog").locator(".downloads a").all():
        with hands.page.expect_download() as download:
            link.click()
        files[download.value.suggested_filename] = Path(download.value.path()).read_bytes()
    return files


def test_exports_and_the_project_comes_back_unchanged(
    hands: Hands, drawn: Puzzle, tmp_path: Path
) -> None:
    page = hands.page
    for k, name in enumerate(drawn.ids[:3]):
        page.get_by_role("button", name=re.compile(f"^{name}\\.")).press("Enter")
        page.locator(".board").focus()
        for _ in range(k + 1):
            page.keyboard.press("Control+ArrowRight")
        page.keyboard.press("q")
    hands.wait_saved()
    page.get_by_role("button", name="Export").click()
    dialog = page.get_by_role("dialog")
    for format_ in ("Report", "Picture", "Drawing", "Poses", "Outlines", "Assembly", "Project"):
        dialog.get_by_role("checkbox", name=re.compile(f"^{format_}")).check()
    dialog.get_by_role("button", name="Export", exact=True).click()
    dialog.get_by_text("Ready").wait_for(timeout=60_000)
    files = downloads(hands)
    own = re.sub(r"\W+", "-", page.locator(".project-name").inner_text()).strip("-")
    assert own and all(name.startswith(f"{own}-") for name in files), files.keys()
    assert any(name.endswith("First-hypothesis-report.html") for name in files)
    page.keyboard.press("Escape")
    kinds = {name.rsplit(".", 1)[-1]: content for name, content in files.items()}
    assert set(kinds) >= {"csv", "json", "svg", "geojson", "png", "html"}
    rows = list(csv.DictReader(io.StringIO(kinds["csv"].decode())))
    assert len(rows) == 3
    assert len(json.loads(kinds["geojson"])["features"]) == 3
    assert ET.fromstring(kinds["svg"]).tag.endswith("svg")
    assert Image.open(io.BytesIO(kinds["png"])).size[0] > 100
    assert all(name in kinds["html"].decode() for name in drawn.ids)

    before, first = hands.placed(), hands.project
    saved = [c for n, c in files.items() if n.endswith(".json") and b'"hypotheses"' in c]
    assert len(saved) == 1
    again = tmp_path / "again.json"
    again.write_bytes(saved[0])
    hands.drop_files(again)
    hands.until("(first) => !location.hash.includes(first)", first)
    hands.until("() => window.reassembly.board.items.length === 3")
    after = hands.placed()
    assert set(after) == set(before)
    for name, row in before.items():
        assert after[name] == row
    page.get_by_role("button", name="Export").click()
    for format_ in ("Report", "Picture", "Poses"):
        dialog.get_by_role("checkbox", name=re.compile(f"^{format_}")).uncheck()
    dialog.get_by_role("button", name="Export", exact=True).click()
    dialog.get_by_text("Ready").wait_for(timeout=60_000)
    assert list(downloads(hands).values()) == saved
    # In the list, the copy is told from its original.
    page.goto(hands.server.url)
    page.locator(".project-list li").nth(1).wait_for()
    told = {a.get_attribute("href"): a.inner_text() for a in page.locator(".project-list a").all()}
    assert ["imported" in words for words in (told.pop(f"#/p/{first}"), *told.values())] == [
        False,
        True,
    ]


def test_the_first_page_is_ready_soon(hands: Hands, server: Server) -> None:
    page = hands.page
    start = time.monotonic()
    page.goto(server.url)
    page.get_by_role("heading", name="Projects").wait_for()
    assert time.monotonic() - start < 2.0
