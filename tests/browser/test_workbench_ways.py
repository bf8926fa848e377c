"""The same work by fingers, and by keys where others draw with a pointer."""

from __future__ import annotations

import math
import re

import pytest

from tests.browser.workbench import Hands, Spot, meet, shows, solve

pytestmark = pytest.mark.slow


def middle_pieces(hands: Hands, count: int) -> list[str]:
    spots = {name: hands.where(name) for name in hands.placed()}
    return sorted(spots, key=lambda name: math.dist(spots[name], (730, 470)))[:count]


def straight(start: Spot, end: Spot, steps: int = 8) -> list[list[Spot]]:
    return [
        [(start[0] + (end[0] - start[0]) * k / steps, start[1] + (end[1] - start[1]) * k / steps)]
        for k in range(steps + 1)
    ]


def test_two_fingers_zoom_and_pan(hands: Hands, tablet: None) -> None:
    name, *_ = middle_pieces(hands, 1)
    scale, (x, y) = hands.scale(), hands.where(name)
    apart = [[(x - 40 - 8 * k, y + 5 * k), (x + 40 + 8 * k, y + 5 * k)] for k in range(11)]
    before = hands.placed()
    hands.fingers(*apart)
    hands.settle()
    assert hands.scale() == pytest.approx(3 * scale, rel=0.02)
    # What was between the fingers still is.
    assert math.dist(hands.where(name), (x, y + 50)) < 4
    assert hands.placed() == before


def test_a_finger_drags_a_piece_or_the_view(hands: Hands, tablet: None) -> None:
    name, *_ = middle_pieces(hands, 1)
    before, (x, y) = hands.placed(), hands.where(name)
    hands.fingers(*straight((x, y), (x + 60, y - 40)))
    hands.wait_saved()
    after = hands.placed()
    scale = hands.scale()
    assert after[name]["x_mm"] - before[name]["x_mm"] == pytest.approx(60 / scale, abs=0.2)
    assert after[name]["y_mm"] - before[name]["y_mm"] == pytest.approx(-40 / scale, abs=0.2)
    assert {n for n in after if after[n] != before[n]} == {name}
    assert "1 chosen" in hands.chosen()

    box = hands.page.locator(".board").bounding_box()
    assert box is not None
    empty = (box["x"] + 60, box["y"] + box["height"] - 120)
    at = hands.where(name)
    hands.fingers(*straight(empty, (empty[0] + 50, empty[1] - 30)))
    hands.settle()
    assert math.dist(hands.where(name), (at[0] + 50, at[1] - 30)) < 2
    assert hands.placed() == after and "1 chosen" in hands.chosen()
    hands.fingers([empty])
    assert "chosen" not in hands.chosen()


def test_a_resting_finger_adds_to_the_choice(hands: Hands, tablet: None) -> None:
    first, second, third = middle_pieces(hands, 3)
    hands.fingers([hands.where(first)])
    assert "1 chosen" in hands.chosen()
    hands.fingers([hands.where(second)], rest_ms=700)
    assert "2 chosen" in hands.chosen()
    hands.fingers([hands.where(third)])
    assert "1 chosen" in hands.chosen()


def test_a_finger_turns_by_the_handle_and_pulls_out_of_the_tray(hands: Hands, tablet: None) -> None:
    name, *_ = middle_pieces(hands, 1)
    hands.fingers([hands.where(name)])
    before, (mx, my) = hands.placed()[name], hands.where(name)
    hx, hy = hands.handle()
    reach, start = math.dist((hx, hy), (mx, my)), math.atan2(-(hy - my), hx - mx)
    # A finger is seldom right in the middle of a handle.
    turns = [start + math.radians(30 * k / 10) for k in range(11)]
    hands.fingers(*([(mx + reach * math.cos(a) + 8, my - reach * math.sin(a) + 8)] for a in turns))
    hands.wait_saved()
    turned = (hands.placed()[name]["rotation_deg"] - before["rotation_deg"]) % 360
    assert turned == pytest.approx(30, abs=4)

    hands.page.keyboard.press("t")
    hands.wait_saved()
    thumb = hands.page.get_by_role("button", name=re.compile(f"^{name}\\."))
    box = thumb.bounding_box()
    assert box is not None and name not in hands.placed()
    hands.fingers(*straight((box["x"] + 30, box["y"] + 30), (700, 420), 16))
    hands.wait_saved()
    hands.settle()
    assert math.dist(hands.where(name), (700, 420)) < 6


def press(hands: Hands, key: str, times: int) -> None:
    for _ in range(times):
        hands.page.keyboard.press(key)


def test_lengths_are_measured_by_keys(hands: Hands) -> None:
    page = hands.page
    page.locator(".board").focus()
    page.keyboard.press("m")
    page.get_by_text("Enter sets each end").wait_for()
    page.keyboard.press("Enter")
    press(hands, "ArrowRight", 12)
    press(hands, "Shift+ArrowRight", 3)
    page.keyboard.press("Enter")
    start, end = page.evaluate("window.reassembly.board.measured")
    length = (12 * 10 + 3) / hands.scale()
    assert end[0] - start[0] == pytest.approx(length) and end[1] == pytest.approx(start[1])
    told = page.locator("[aria-live]", has_text="measured").inner_text()
    number = re.fullmatch(r"([\d.]+) mm measured", told)
    assert number is not None and float(number[1]) == pytest.approx(length, abs=0.06)
    page.keyboard.press("Escape")
    assert page.evaluate("window.reassembly.board.measured") is None


def test_a_lasso_is_drawn_by_keys(hands: Hands) -> None:
    page = hands.page
    page.locator(".board").focus()
    page.keyboard.press("w")
    box = page.locator(".board").bounding_box()
    assert box is not None
    # The cross begins in the middle; a loop of 480 px around it.
    press(hands, "Control+ArrowLeft", 4)
    press(hands, "Control+ArrowUp", 4)
    page.keyboard.press("Enter")
    for key in ("Right", "Down", "Left", "Up"):
        press(hands, f"Control+Arrow{key}", 8)
        page.keyboard.press("Enter")
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    inside = {
        name
        for name in hands.placed()
        if max(abs(a - b) for a, b in zip(hands.where(name), middle, strict=True)) < 240
    }
    assert inside and f"{len(inside)} chosen" in hands.chosen()


def test_a_cut_out_is_erased_by_keys(hands: Hands) -> None:
    page = hands.page
    page.locator(".board").focus()
    page.keyboard.press("n")
    page.keyboard.press("i")
    name = page.locator(".piece-head h2").inner_text()
    area = {p["name"]: p["area_mm2"] for p in hands.pieces()}[name]
    page.get_by_role("button", name="Repair the cut-out").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Fetching").wait_for(state="detached")
    dialog.get_by_role("button", name="Eraser").focus()
    page.keyboard.press("Enter")
    dialog.locator("canvas").focus()
    press(hands, "]", 5)
    page.keyboard.press("Enter")
    dialog.get_by_text("The tool is down").wait_for()
    press(hands, "Control+ArrowDown", 6)
    page.keyboard.press("Enter")
    # Lifted, it erases nothing more.
    press(hands, "Control+ArrowLeft", 4)
    dialog.get_by_role("button", name="Save").focus()
    page.keyboard.press("Enter")
    dialog.wait_for(state="detached")
    hands.wait_saved()
    smaller = {p["name"]: p["area_mm2"] for p in hands.pieces()}[name]
    assert 0.6 * area < smaller < 0.99 * area


def test_a_cut_needs_its_line_and_strokes_are_not_dropped_unasked(hands: Hands) -> None:
    page = hands.page
    page.locator(".board").focus()
    page.keyboard.press("n")
    page.keyboard.press("i")
    before = hands.state()["revision"]
    page.get_by_role("button", name="Repair the cut-out").click()
    dialog = page.get_by_role("dialog", name=re.compile("Repair"))
    dialog.get_by_text("Fetching").wait_for(state="detached")
    dialog.get_by_role("button", name="Cut", exact=True).click()
    split = dialog.get_by_role("button", name="Split along the line")
    undo = dialog.get_by_role("button", name="Undo")
    hint = dialog.get_by_text("Draw a line first")
    box = dialog.locator("canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.click(x, y)
    assert split.is_disabled() and undo.is_disabled() and hint.is_visible()
    hands.drag((x, y), (x + 40, y))
    assert split.is_enabled() and hint.count() == 0
    undo.click()
    assert split.is_disabled() and undo.is_disabled()

    # A stroke stays until someone says that it may go, however often Esc is pressed.
    dialog.get_by_role("button", name="Eraser").click()
    hands.drag((x, y), (x + 40, y))
    question = page.get_by_role("dialog", name="Leave the repair?")
    for _ in range(3):
        page.keyboard.press("Escape")
        question.wait_for()
        page.keyboard.press("Escape")
        question.wait_for(state="detached")
        assert dialog.get_by_role("button", name="Save").is_enabled()
    dialog.get_by_role("button", name="Cancel").click()
    question.get_by_role("button", name="Drop it").click()
    dialog.wait_for(state="detached")
    # Where nothing was drawn, nothing is asked.
    page.get_by_role("button", name="Repair the cut-out").click()
    dialog.get_by_text("Fetching").wait_for(state="detached")
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert question.count() == 0 and hands.state()["revision"] == before


def test_a_cut_may_begin_beside_the_photograph(hands: Hands) -> None:
    page = hands.page
    page.locator(".board").focus()
    page.keyboard.press("n")
    page.keyboard.press("i")
    before = len(hands.pieces())
    page.get_by_role("button", name="Repair the cut-out").click()
    dialog = page.get_by_role("dialog", name=re.compile("Repair"))
    dialog.get_by_text("Fetching").wait_for(state="detached")
    dialog.get_by_role("button", name="Cut", exact=True).click()
    box = dialog.locator("canvas").bounding_box()
    room = dialog.locator(".zoomable-view").bounding_box()
    assert box is not None and room is not None and box["x"] - room["x"] > 20
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    split = dialog.get_by_role("button", name="Split along the line")
    hands.drag((x, y), (x + 10, y))
    split.click()
    trouble = page.get_by_text("This line does not cut the piece apart")
    trouble.wait_for()
    hands.drag((box["x"] - 15, y), (box["x"] + box["width"] + 15, y), steps=20)
    split.click()
    dialog.wait_for(state="detached")
    page.get_by_text("Split into its parts").wait_for()
    # What was wrong before is not wrong any more.
    assert trouble.count() == 0
    hands.wait_saved()
    assert len(hands.pieces()) > before
    page.keyboard.press("Control+z")
    hands.wait_saved()
    assert len(hands.pieces()) == before


def test_what_others_wrote_is_named(hands: Hands) -> None:
    page = hands.page
    page.locator(".board").focus()
    page.keyboard.press("?")
    with page.context.expect_page() as opened:
        page.get_by_role("dialog").get_by_role("link", name=re.compile("licences")).click()
    opened.value.wait_for_load_state()
    text = opened.value.locator("body").inner_text()
    opened.value.close()
    for package in ("konva", "react", "react-dom", "scheduler"):
        assert re.search(rf"^{package} \d+\.\d+", text, re.MULTILINE)
    assert text.count("Permission is hereby granted") >= 4


def test_enter_lays_pieces_of_the_tray_beside_what_lies_there(hands: Hands) -> None:
    page = hands.page
    page.locator(".board").focus()
    page.keyboard.press("Control+a")
    page.keyboard.press("t")
    page.keyboard.press("Escape")
    hands.wait_saved()
    thumbs = page.locator(".thumb-button")
    everyone = thumbs.count()
    thumbs.nth(1).focus()
    # The focus stays in the tray, so that one Enter after another empties it.
    for left in range(everyone - 1, everyone - 5, -1):
        page.keyboard.press("Enter")
        hands.until("(n) => document.querySelectorAll('.thumb-button').length === n", left)
    thumbs.nth(0).click()
    for k in (1, 2):
        thumbs.nth(k).click(modifiers=["Shift"])
    page.keyboard.press("Enter")
    hands.wait_saved()
    boxes = list(hands.boxes().values())
    assert len(boxes) == 7
    assert not any(meet(one, other) for k, one in enumerate(boxes) for other in boxes[:k])
    shown = page.evaluate(
        """() => { const { camera, width, height } = window.reassembly.board;
          const { x_mm, y_mm, px_per_mm } = camera;
          return [x_mm, y_mm, x_mm + width / px_per_mm, y_mm + height / px_per_mm]; }"""
    )
    for left, top, right, bottom in boxes:
        assert left >= shown[0] and top >= shown[1] and right <= shown[2] and bottom <= shown[3]


def test_a_wrong_number_is_told_beside_its_field(hands: Hands) -> None:
    page = hands.page
    (name,) = middle_pieces(hands, 1)
    hands.click(name)
    page.keyboard.press("i")
    before = hands.placed()[name]
    place = page.locator(".place")
    for text, words in (("abc", "“abc” is no number"), ("1e9", "from -1000000 to 1000000")):
        place.get_by_label("x", exact=True).click()
        page.keyboard.type(text)
        page.keyboard.press("Tab")
        told = place.get_by_role("alert")
        assert words in told.inner_text() and "stays" in told.inner_text()
    shows(place.get_by_label("x", exact=True), f"{before['x_mm']:.2f}".rstrip("0"))
    place.get_by_label("Angle", exact=True).click()
    page.keyboard.type("400")
    page.keyboard.press("Enter")
    hands.wait_saved()
    shows(place.get_by_label("Angle", exact=True), "40")
    after = hands.placed()[name]
    assert after["rotation_deg"] == pytest.approx(40.0)
    assert (after["x_mm"], after["y_mm"]) == (before["x_mm"], before["y_mm"])
    assert page.locator(".notice").count() == 0


def test_undo_and_redo_stop_at_the_ends_without_an_error(hands: Hands) -> None:
    page = hands.page
    refused: list[str] = []
    page.on("response", lambda answer: answer.ok or refused.append(answer.url))
    (name,) = middle_pieces(hands, 1)
    hands.click(name)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    hands.wait_saved()
    moved = hands.placed()[name]["x_mm"]
    for keys, times in (("Control+z", 6), ("Control+Shift+Z", 9), ("Control+y", 2)):
        for _ in range(times):
            page.keyboard.press(keys)
    hands.wait_saved()
    assert hands.placed()[name]["x_mm"] == pytest.approx(moved)
    assert refused == []


def test_numbers_move_the_piece_that_is_chosen_last(hands: Hands) -> None:
    page = hands.page
    page.keyboard.press("i")
    before = hands.placed()
    chosen = middle_pieces(hands, 3)
    for name in chosen:
        hands.click(name)
        page.get_by_role("heading", name=name, exact=True).wait_for()
        assert page.locator(".place").count() == 1
    page.locator(".place").get_by_label("x", exact=True).click()
    page.keyboard.type("12.5")
    page.keyboard.press("Enter")
    hands.wait_saved()
    after = hands.placed()
    assert after[chosen[2]]["x_mm"] == 12.5
    for name in chosen[:2]:
        assert after[name] == before[name]


FOCUSED = (
    "() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.tagName"
)


def test_the_demo_shows_an_attempt_in_the_first_minute(hands: Hands) -> None:
    page = hands.page
    solve(hands)
    page.get_by_text("A solver’s attempt").wait_for(timeout=60_000)
    page.get_by_text(re.compile(r"is trying, \d+ of 12 pieces so far")).wait_for()
    assert page.evaluate("window.reassembly.board.items.length") > 0
    page.locator(".progress-card").get_by_role("button", name="Cancel").click()
    page.get_by_text("was cancelled").wait_for(timeout=10_000)


def test_the_board_is_one_key_away(hands: Hands) -> None:
    page = hands.page
    on_board = "() => document.activeElement.classList.contains('board')"
    page.reload()
    hands.settle()
    page.keyboard.press("Tab")
    skip = page.get_by_role("button", name="Go to the board")
    assert page.evaluate("() => document.activeElement.textContent") == "Go to the board"
    hands.until("() => document.activeElement.getBoundingClientRect().top >= 0")
    page.keyboard.press("Enter")
    assert page.evaluate(on_board)
    # Who does not need it does not see it.
    hands.until("() => document.querySelector('.skip-link').getBoundingClientRect().bottom <= 0")
    assert skip.count() == 1
    page.get_by_role("button", name="Export").focus()
    page.keyboard.press("a")
    assert page.evaluate(on_board)
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("Go to the board").wait_for()


def test_a_dialog_gives_the_focus_back(hands: Hands) -> None:
    page = hands.page
    shown = page.get_by_role("heading", name="Help and keys")
    page.locator(".board").focus()
    page.keyboard.press("?")
    shown.wait_for()
    page.keyboard.press("Escape")
    shown.wait_for(state="detached")
    assert page.evaluate(FOCUSED).startswith("Board.")
    button = page.get_by_role("button", name=re.compile("^Help")).first
    button.focus()
    named = page.evaluate(FOCUSED)
    page.keyboard.press("Enter")
    shown.wait_for()
    assert page.evaluate(FOCUSED) != named
    page.keyboard.press("Escape")
    shown.wait_for(state="detached")
    assert page.evaluate(FOCUSED) == named
    # A name that Enter takes does not ask again by the same key.
    branch = page.get_by_role("button", name="Branch this hypothesis").first
    branch.focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for(state="detached")
    assert branch.evaluate("(it) => it === document.activeElement")


def test_a_notice_is_made_of_whole_sentences(visitor: Hands) -> None:
    page = visitor.page
    page.route(
        "**/api/projects/*",
        lambda route: route.fulfill(
            status=400, json={"what": "this file is no JSON", "remedy": "Choose another"}
        ),
    )
    page.get_by_role("link", name=re.compile("Demo")).click()
    told = page.locator(".notice").first.inner_text()
    assert "This file is no JSON. Choose another." in told
