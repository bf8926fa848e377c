"""What the board shows and what lies on it besides pieces, in both themes and two window sizes."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from tests.browser.workbench import PAINTED, Box, Hands, Server, meet

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = pytest.mark.slow


def two_neighbours(hands: Hands) -> tuple[str, str]:
    """The two pieces whose middles are nearest each other."""
    spots = {name: hands.where(name) for name in hands.placed()}
    pairs = [(a, b) for a in spots for b in spots if a < b]
    return min(pairs, key=lambda pair: math.dist(spots[pair[0]], spots[pair[1]]))


def seen(hands: Hands, box: dict[str, float]) -> np.ndarray:
    """(H, W, 3) of the screen."""
    return np.asarray(
        Image.open(io.BytesIO(hands.page.screenshot(clip=box))).convert("RGB")
    ).astype(int)


def test_overlaps_are_hatched_and_gaps_are_told(hands: Hands) -> None:
    first, second = two_neighbours(hands)
    start, end = hands.where(first), hands.where(second)
    around = {"x": end[0] - 30, "y": end[1] - 30, "width": 60, "height": 60}
    hands.drag(start, end)
    hands.wait_saved()
    hands.page.keyboard.press("Escape")
    hands.page.mouse.move(400, 880)
    hands.page.wait_for_timeout(800)
    with_marks = seen(hands, around)
    hands.page.get_by_role("button", name="Overlaps").click()
    hands.page.wait_for_timeout(300)
    without = seen(hands, around)
    reddened = (with_marks[..., 0] - with_marks[..., 1]) - (without[..., 0] - without[..., 1])
    striped = (with_marks.min(axis=2) > without.min(axis=2) + 20).mean()
    assert (reddened > 40).mean() > 0.3 and striped > 0.05
    fit = hands.server.get(f"/api/projects/{hands.project}/hypotheses/{hands.hypothesis}/fit")
    assert fit["overlaps"] and fit["gaps"]


def test_no_overlap_is_told_between_islands(hands: Hands) -> None:
    page = hands.page
    first, second = two_neighbours(hands)
    start, end = hands.where(first), hands.where(second)
    around = {"x": end[0] - 30, "y": end[1] - 30, "width": 60, "height": 60}

    def marked() -> float:
        """How much of the screen the marks change, while a piece is held over another."""
        page.mouse.move(*start)
        page.mouse.down()
        page.mouse.move(*end, steps=6)
        page.wait_for_timeout(300)
        shots = []
        for _ in range(2):
            shots.append(seen(hands, around))
            page.keyboard.press("r")
            page.wait_for_timeout(300)
        page.mouse.move(*start, steps=6)
        page.mouse.up()
        hands.wait_saved()
        return float((np.abs(shots[0] - shots[1]).max(axis=2) > 30).mean())

    assert marked() > 0.3
    hands.click(first)
    page.keyboard.press("i")
    page.get_by_label("Island").select_option("2")
    hands.wait_saved()
    page.locator(".board").focus()
    assert marked() < 0.01


def test_zoom_fit_and_measure(hands: Hands) -> None:
    page = hands.page
    scale = hands.scale()
    (name, *_) = sorted(hands.placed())
    x, y = hands.where(name)
    page.mouse.move(x, y)
    for _ in range(4):
        page.mouse.wheel(0, -120)
    hands.settle()
    assert hands.scale() > 1.5 * scale
    assert math.dist(hands.where(name), (x, y)) < 2
    bar = page.locator(".scale-bar")
    length = float(bar.inner_text().removesuffix(" mm"))
    width = bar.locator("div").evaluate("(e) => e.getBoundingClientRect().width")
    assert width == pytest.approx(length * hands.scale(), abs=1)
    page.locator(".board").focus()
    page.keyboard.press("f")
    hands.settle()
    assert hands.scale() == pytest.approx(scale)
    page.keyboard.press("m")
    hands.drag((600, 400), (800, 400))
    told = page.evaluate("window.reassembly.board.measured")
    assert told[1][0] - told[0][0] == pytest.approx(200 / scale, rel=1e-6)
    said = page.locator("[aria-live]", has_text=" mm measured").inner_text()
    assert float(said.split()[0]) == pytest.approx(200 / scale, abs=0.06)
    # In another hypothesis it would measure nothing.
    hands.switch_to(PAINTED)
    assert page.evaluate("window.reassembly.board.measured") is None


def test_an_island_of_its_own_and_opacity(hands: Hands) -> None:
    page = hands.page
    first, second = two_neighbours(hands)
    hands.click(first)
    hands.click(second, adding=True)
    page.keyboard.press("i")
    page.get_by_label("Island").select_option("2")
    hands.wait_saved()
    placed = hands.placed()
    assert {name for name, row in placed.items() if row["island"] == 2} == {first, second}
    page.get_by_label("Opacity").focus()
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    hands.wait_saved()
    assert hands.placed()[first]["opacity"] == pytest.approx(0.8)
    assert hands.placed()[second]["opacity"] == pytest.approx(0.8)
    # The slider keeps the focus, and only the keys that set it.
    page.keyboard.press("Control+z")
    hands.wait_saved()
    assert hands.placed()[first]["opacity"] == pytest.approx(0.85)
    page.keyboard.press("Control+Shift+Z")
    hands.wait_saved()
    assert hands.placed()[first]["opacity"] == pytest.approx(0.8)


def test_undo_takes_back_what_a_slider_is_held_at(hands: Hands) -> None:
    page = hands.page
    (name,) = hands.well_inside(1)
    hands.click(name)
    page.keyboard.press("i")
    slider = page.get_by_label("Opacity")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    hands.wait_saved()
    # By a key that is still down, and by a pointer that is.
    page.keyboard.down("ArrowLeft")
    page.keyboard.press("Control+z")
    page.keyboard.up("ArrowLeft")
    hands.wait_saved()
    assert hands.placed()[name]["opacity"] == pytest.approx(0.95)
    box = slider.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    hands.until("() => document.querySelector('.slider input').value < 0.9")
    page.keyboard.press("Control+z")
    page.mouse.up()
    hands.wait_saved()
    assert hands.placed()[name]["opacity"] == pytest.approx(0.95)
    assert float(slider.input_value()) == pytest.approx(0.95)


def test_names_of_islands_never_run_into_each_other(hands: Hands) -> None:
    page = hands.page
    # In every frame that the board paints, which words it writes, and where.
    page.evaluate(
        """() => {
          window.written = [];
          const paint = CanvasRenderingContext2D.prototype.fillText;
          CanvasRenderingContext2D.prototype.fillText = function (words, x, y) {
            const at = document.timeline.currentTime;
            const wide = this.measureText(words).width;
            window.written.push([at, words, [x, y - 11, x + wide, y]]);
            return paint.call(this, words, x, y);
          };
        }"""
    )

    def names() -> dict[str, Box]:
        """Of islands, by letter, as the last frame has them."""
        frames = page.evaluate("window.written")
        last = [row for row in frames if row[0] == frames[-1][0]]
        found = {}
        for _, words, box in last:
            letter = re.fullmatch(r"(?:Island )?([A-Z])(?: · .*)?", words)
            assert letter is not None, words
            found[letter[1]] = tuple(box)
        return found

    first, second = two_neighbours(hands)
    others = sorted(hands.placed().keys() - {first, second})
    for island, name in enumerate([first, second, *others[:2]], start=2):
        hands.click(name)
        page.keyboard.press("i")
        page.get_by_label("Island").select_option(str(island))
    hands.wait_saved()
    page.keyboard.press("Escape")
    shown = []
    page.mouse.move(600, 450)
    for _ in range(12):
        page.mouse.wheel(0, 240)
        hands.settle()
        boxes = list(names().values())
        assert not any(meet(one, other) for k, one in enumerate(boxes) for other in boxes[:k])
        shown.append(set(names()))
    # Far away there is room for one, and that is the one with most pieces.
    assert len(shown[0]) > len(shown[-1]) >= 1 and "A" in set.intersection(*shown)


def test_colours_are_matched_to_the_first_chosen(hands: Hands) -> None:
    first, second = two_neighbours(hands)
    hands.click(first)
    hands.click(second, adding=True)
    hands.page.keyboard.press("i")
    hands.page.get_by_role("button", name="Match colours").click()
    hands.wait_saved()
    colours = {piece["name"]: piece["colour"] for piece in hands.pieces()}
    gain = hands.placed()[second]["gain"]
    matched = [value * factor for value, factor in zip(colours[second], gain, strict=True)]
    assert matched == pytest.approx(colours[first], abs=1)
    hands.settle()
    hands.page.get_by_role("button", name="Own colours").click()
    hands.wait_saved()
    assert hands.placed()[second]["gain"] is None


def test_a_reference_picture_lies_underneath(hands: Hands, tmp_path: Path) -> None:
    page = hands.page
    picture = tmp_path / "old photograph.png"
    Image.new("RGB", (640, 480), (20, 200, 40)).save(picture)
    page.keyboard.press("Escape")
    page.keyboard.press("i")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a picture").click()
    chooser.value.set_files(picture)
    page.get_by_role("button", name="Another picture").wait_for()
    hands.wait_saved()
    field = page.locator(".place .number-field").filter(has_text="Scale").locator("input")
    field.click()
    page.keyboard.type("0.5")
    page.keyboard.press("Enter")
    hands.wait_saved()
    reference = hands.state()["reference"]
    assert reference["mm_per_px"] == 0.5 and reference["opacity"] == 0.4
    hands.settle()
    left = page.evaluate(
        """(reference) => {
          const { board } = window.reassembly, box = board.container.getBoundingClientRect();
          const { x_mm, px_per_mm } = board.camera;
          return box.left + (reference.x_mm - 320 * 0.5 - x_mm) * px_per_mm;
        }""",
        reference,
    )
    spot = {"x": left + 8, "y": 420.0, "width": 4, "height": 4}
    r, g, b = seen(hands, spot).reshape(-1, 3).mean(axis=0)
    assert g > r + 20 and g > b + 20

    # It is still there when a solver has answered.
    hands.click(hands.well_inside(1)[0])
    page.keyboard.press("t")
    hands.tab("Solve")
    page.get_by_label(re.compile("Only the 1 unplaced")).check()
    page.get_by_text("Solver", exact=True).click()
    page.get_by_label("Method").select_option("greedy")
    page.get_by_role("button", name="Solve", exact=True).click()
    page.locator(".proposal").first.wait_for(timeout=60_000)
    hands.wait_saved()
    assert hands.state()["reference"] == reference
    assert page.evaluate("window.reassembly.board.scene.reference") == reference


def test_the_tour_is_walked_by_keyboard_and_comes_once(hands: Hands) -> None:
    page = hands.page
    page.locator(".board").focus()
    page.keyboard.press("?")
    page.get_by_role("button", name="Show the tour").click()
    tour = page.get_by_role("dialog", name="Tour")
    titles = []
    for _ in range(4):
        titles.append(tour.get_by_role("heading").inner_text())
        card = tour.locator(".tour-card").bounding_box()
        assert card is not None
        assert card["x"] >= 0 and card["x"] + card["width"] <= 1440
        assert card["y"] >= 0 and card["y"] + card["height"] <= 900
        page.keyboard.press("Enter")
        page.wait_for_timeout(150)
    assert len(set(titles)) == 4
    tour.wait_for(state="detached")
    page.reload()
    page.locator(".board canvas").first.wait_for()
    page.wait_for_timeout(500)
    assert page.get_by_role("dialog").count() == 0


def test_dark_and_light_keep_words_readable(hands: Hands) -> None:
    page = hands.page
    page.locator(".board").focus()
    ratios = []
    for _ in range(2):
        page.keyboard.press("d")
        page.wait_for_timeout(250)
        for selector in (".tray-empty", ".status-bar", ".tabs button", ".button.main"):
            ratios.append((selector, contrast(hands, selector)))
    assert min(ratio for _, ratio in ratios) >= 4.5, ratios


def contrast(hands: Hands, selector: str) -> float:
    """The WCAG contrast of an element's text against what is painted behind it."""
    colours = hands.page.locator(selector).first.evaluate(
        """(element) => {
          const parse = (text) => text.match(/[\\d.]+/g).map(Number);
          const ink = parse(getComputedStyle(element).color);
          for (let at = element; at; at = at.parentElement) {
            const ground = parse(getComputedStyle(at).backgroundColor);
            if (ground.length === 3 || ground[3] > 0) return [ink, ground];
          }
        }"""
    )

    def light(rgb: list[float]) -> float:
        linear = [
            c / 12.92 if (c := v / 255) <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
            for v in rgb[:3]
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted(light(colour) for colour in colours)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("size", [(1440, 900), (1024, 768)])
def test_nothing_hangs_over_the_edge(chromium: Browser, server: Server, size) -> None:
    hands = Hands.at(chromium, server, size)
    hands.open_project("Demo")
    page = hands.page
    for key in ("i", "j", "s", "b", "y"):
        page.keyboard.press(key)
        page.wait_for_timeout(150)
        wide = page.evaluate(
            "() => ['html', '.side .panel', '.tray', '.top-bar', '.status-bar']"
            ".map((s) => document.querySelector(s)).map((e) => e.scrollWidth - e.clientWidth)"
        )
        assert max(wide) <= 0, (key, wide)
    page.keyboard.press("?")
    assert page.get_by_role("dialog").bounding_box()["height"] < size[1]
    unnamed = page.evaluate(
        "() => [...document.querySelectorAll('button, input, select, textarea')]"
        ".filter((e) => !e.hidden && !(e.getAttribute('aria-label') || e.labels?.[0]?.textContent"
        " || e.textContent.trim())).map((e) => e.outerHTML)"
    )
    assert unnamed == []
    page.close()


def test_another_hypothesis_comes_into_view(hands: Hands) -> None:
    page = hands.page
    here = hands.page.get_by_label("Hypothesis", exact=True).input_value()
    page.locator(".board").focus()
    page.keyboard.press("Control+a")
    page.keyboard.press("i")  # Which leads to the panel, and A back.
    page.keyboard.press("a")
    page.keyboard.press("Control+a")
    for _ in range(90):
        page.keyboard.press("Control+ArrowRight")
    hands.wait_saved()
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    hands.settle()
    away = page.evaluate("window.reassembly.board.camera")
    hands.switch_to(PAINTED)
    box = page.locator(".board").bounding_box()
    assert box is not None
    for name in hands.placed():
        x, y = hands.where(name)
        assert box["x"] < x < box["x"] + box["width"] and box["y"] < y < box["y"] + box["height"]
    # What is in view already leaves the view as it is.
    shown = page.evaluate("window.reassembly.board.camera")
    hands.branch()
    assert page.evaluate("window.reassembly.board.camera") == shown
    page.get_by_label("Hypothesis", exact=True).select_option(here)
    hands.until("(camera) => window.reassembly.board.camera.x_mm > camera.x_mm + 100", shown)
    hands.settle()
    assert page.evaluate("window.reassembly.board.camera.x_mm") == pytest.approx(away["x_mm"])


@pytest.mark.parametrize("size", [(1440, 900), (1024, 768)])
def test_a_notice_leaves_scale_bar_and_buttons_free(
    chromium: Browser, server: Server, size: tuple[int, int]
) -> None:
    hands = Hands.at(chromium, server, size)
    hands.open_project("Demo")
    page = hands.page
    page.locator(".board").focus()
    page.keyboard.press("m")
    page.keyboard.press("g")
    page.locator(".notice").wait_for()
    notice = corners(page.locator(".notice"))
    for other in (".scale-bar", ".zoom", ".tool-hint", ".status-bar"):
        assert not meet(notice, corners(page.locator(other))), other
    page.close()


def corners(element: Locator) -> Box:
    box = element.bounding_box()
    assert box is not None
    return box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]
