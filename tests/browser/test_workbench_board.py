"""The board as a person works on it: moving, turning, choosing, undoing, and nothing lost."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import pytest

from tests.browser.workbench import PAINTED, Hands, Server, shows

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow


@pytest.fixture
def server(own_server: Server) -> Server:
    return own_server


@pytest.fixture
def hands(visitor: Hands) -> Hands:
    """At the demo as it was painted, every piece on the board."""
    visitor.open_project("Demo")
    visitor.switch_to(PAINTED)
    return visitor


def test_dragging_moves_a_piece_by_what_the_pointer_moved(hands: Hands) -> None:
    (name,) = hands.well_inside(1)
    before = hands.placed()[name]
    x, y = hands.where(name)
    hands.drag((x, y), (x + 60, y - 40))
    hands.wait_saved()
    after = hands.placed()[name]
    scale = hands.scale()
    assert after["x_mm"] - before["x_mm"] == pytest.approx(60 / scale, abs=0.01)
    assert after["y_mm"] - before["y_mm"] == pytest.approx(-40 / scale, abs=0.01)
    assert after["rotation_deg"] == before["rotation_deg"]


def test_the_handle_turns_about_the_middle_and_shift_snaps(hands: Hands) -> None:
    (name,) = hands.well_inside(1)
    hands.click(name)
    before, middle = hands.placed()[name], hands.where(name)
    hx, hy = hands.handle()
    reach = math.dist((hx, hy), middle)
    start = math.atan2(-(hy - middle[1]), hx - middle[0])
    end = start + math.radians(40)
    goal = (middle[0] + reach * math.cos(end), middle[1] - reach * math.sin(end))
    hands.drag((hx, hy), goal)
    hands.wait_saved()
    after = hands.placed()[name]
    assert (after["rotation_deg"] - before["rotation_deg"]) % 360 == pytest.approx(40, abs=0.2)
    assert math.dist(hands.where(name), middle) < 0.5

    hx, hy = hands.handle()
    hands.page.keyboard.down("Shift")
    hands.drag((hx, hy), (hx + 55, hy + 20))
    hands.page.keyboard.up("Shift")
    hands.wait_saved()
    turned = hands.placed()[name]["rotation_deg"]
    assert turned / 15 == pytest.approx(round(turned / 15), abs=1e-6)


def test_keys_and_numbers_move_and_turn_exactly(hands: Hands) -> None:
    (name,) = hands.well_inside(1)
    hands.click(name)
    page, before = hands.page, hands.placed()[name]
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowDown", "Control+ArrowUp", "q", "Shift+Q"):
        page.keyboard.press(key)
    hands.wait_saved()
    after = hands.placed()[name]
    assert after["rotation_deg"] - before["rotation_deg"] == pytest.approx(1.1, abs=1e-3)
    page.keyboard.press("i")
    for label, text in (("x", "12.5"), ("y", "-3,25"), ("Angle", "33")):
        fields = page.locator(".place .number-field")
        field = fields.filter(has_text=re.compile(f"^{label}")).locator("input")
        field.click()
        page.keyboard.type(text)
        page.keyboard.press("Enter")
    hands.wait_saved()
    row = hands.placed()[name]
    assert (row["x_mm"], row["y_mm"], row["rotation_deg"]) == (12.5, -3.25, 33)


def test_several_are_chosen_grouped_and_move_together(hands: Hands) -> None:
    first, second, third = hands.well_inside(3)
    hands.click(first)
    hands.click(second, adding=True)
    assert "2 chosen" in hands.chosen()
    hands.page.keyboard.press("g")
    hands.page.keyboard.press("Escape")
    assert "chosen" not in hands.chosen()
    before = hands.placed()
    x, y = hands.where(second)
    hands.drag((x, y), (x + 30, y + 10))
    hands.wait_saved()
    after = hands.placed()
    moved = {name for name in after if after[name]["x_mm"] != before[name]["x_mm"]}
    assert moved == {first, second} and third not in moved
    assert after[first]["group"] == after[second]["group"] is not None
    steps = {round(after[n]["x_mm"] - before[n]["x_mm"], 3) for n in (first, second)}
    assert len(steps) == 1


def test_frame_and_lasso_choose(hands: Hands) -> None:
    page = hands.page
    box = page.locator(".board").bounding_box()
    assert box is not None
    hands.drag(
        (box["x"] + 90, box["y"] + box["height"] - 20), (box["x"] + box["width"] - 5, box["y"] + 85)
    )
    assert "12 chosen" in hands.chosen()
    page.keyboard.press("Escape")
    (name,) = hands.well_inside(1)
    page.keyboard.press("w")
    x, y = hands.where(name)
    page.mouse.move(x - 12, y - 12)
    page.mouse.down()
    for dx, dy in ((12, -12), (12, 12), (-12, 12)):
        page.mouse.move(x + dx, y + dy, steps=4)
    page.mouse.up()
    assert "1 chosen" in hands.chosen()


def test_twenty_steps_are_undone_and_redone(hands: Hands) -> None:
    (name,) = hands.well_inside(1)
    hands.click(name)
    start = hands.placed()
    for step in range(20):
        hands.page.keyboard.press(("ArrowRight", "ArrowDown", "q", "e")[step % 4])
    hands.wait_saved()
    end = hands.placed()
    assert end != start
    for _ in range(20):
        hands.page.keyboard.press("Control+z")
    hands.wait_saved()
    assert hands.placed() == start
    for _ in range(20):
        hands.page.keyboard.press("Control+Shift+Z")
    hands.wait_saved()
    assert hands.placed() == end


def test_a_locked_piece_stays(hands: Hands) -> None:
    (name,) = hands.well_inside(1)
    hands.click(name)
    hands.page.keyboard.press("l")
    hands.wait_saved()
    before = hands.placed()[name]
    assert before["locked"]
    x, y = hands.where(name)
    hands.drag((x, y), (x + 50, y))
    hands.page.keyboard.press("ArrowLeft")
    hands.page.keyboard.press("Delete")
    hands.wait_saved()
    assert hands.placed()[name] == before
    hands.page.get_by_text("A locked piece does not move.").wait_for()


def test_a_branch_leaves_the_trunk_alone(hands: Hands) -> None:
    page = hands.page
    (name,) = hands.well_inside(1)
    trunk = hands.placed()
    hands.branch("Upside down")
    hands.click(name)
    page.keyboard.press("ArrowRight")
    hands.wait_saved()
    assert hands.placed()[name] != trunk[name]
    hands.switch_to(PAINTED)
    assert hands.placed() == trunk
    hands.tab("Versions")
    page.get_by_role("button", name="Compare").last.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("1 differs.").wait_for()
    dialog.get_by_text("within 0.5 mm, turned by at most 0.5°").wait_for()
    assert dialog.locator("tbody th").inner_text() == name


def test_history_tells_who_and_restores(hands: Hands) -> None:
    page = hands.page
    hands.tab("History")
    page.get_by_label("Your name in the history").click()
    page.keyboard.type("Ada")
    page.keyboard.press("Tab")
    (name,) = hands.well_inside(1)
    start, revision = hands.placed(), hands.state()["revision"]
    hands.click(name)
    for _ in range(3):
        page.keyboard.press("ArrowUp")
    hands.wait_saved()
    events = page.locator(".history li")
    events.filter(has_text="Ada").nth(2).wait_for()
    back = events.filter(has=page.locator(".figures", has_text=re.compile(f"^{revision}$")))
    back.hover()
    back.get_by_role("button", name="Restore").click()
    page.get_by_text("Restored as it was").wait_for()
    hands.wait_saved()
    assert hands.placed() == start


def test_the_tray_gives_and_takes(hands: Hands) -> None:
    page = hands.page
    first, second = hands.well_inside(2)
    hands.click(first)
    page.keyboard.press("t")
    hands.wait_saved()
    assert first not in hands.placed()
    page.get_by_label("Search pieces").click()
    page.keyboard.type(first)
    thumb = page.get_by_role("button", name=re.compile(f"^{first}\\."))
    box = thumb.bounding_box()
    assert box is not None
    hands.drag((box["x"] + 30, box["y"] + 30), (700, 500))
    hands.wait_saved()
    hands.settle()
    assert math.dist(hands.where(first), (700, 500)) < 3
    del second


def test_rulers_guides_and_order(hands: Hands) -> None:
    page = hands.page
    box = page.locator(".board").bounding_box()
    assert box is not None
    hands.drag((box["x"] + 400, box["y"] + 8), (box["x"] + 400, box["y"] + 300))
    hands.wait_saved()
    (guide,) = hands.state()["guides"]
    assert guide["axis"] == "y"
    hands.drag((box["x"] + 110, box["y"] + 300), (box["x"] + 110, box["y"] + 5))
    hands.wait_saved()
    assert hands.state()["guides"] == []
    first, _ = hands.well_inside(2)
    hands.click(first)
    page.keyboard.press("PageUp")
    hands.wait_saved()
    heights = {name: row["z"] for name, row in hands.placed().items()}
    assert max(heights, key=lambda name: heights[name]) == first


def test_keyboard_alone_is_enough(hands: Hands) -> None:
    """From the first page to a moved, turned, locked piece and back to the tray, no pointer."""
    page = hands.page
    page.keyboard.press("Escape")
    page.get_by_role("button", name="All projects").focus()
    page.keyboard.press("Enter")
    page.get_by_role("link", name=re.compile("Demo")).wait_for()
    for _ in range(20):
        page.keyboard.press("Tab")
        if "Demo" in page.evaluate("document.activeElement.textContent"):
            break
    page.keyboard.press("Enter")
    page.locator(".board").wait_for()
    hands.settle()
    # It opens where one was last; the first hypothesis has everything in the tray.
    page.get_by_label("Hypothesis", exact=True).focus()
    page.keyboard.press("Home")
    page.locator(".thumb-button").first.wait_for()
    hands.settle()
    for _ in range(40):
        page.keyboard.press("Tab")
        focus = page.evaluate(
            "() => { const e = document.activeElement, s = getComputedStyle(e);"
            " return [e.className, s.outlineStyle, parseFloat(s.outlineWidth)] }"
        )
        assert focus[1] != "none" and focus[2] >= 1, focus
        if "thumb-button" in focus[0]:
            break
    page.keyboard.press("ArrowRight")
    name = page.evaluate("document.activeElement.getAttribute('aria-label')").split(".")[0]
    page.keyboard.press("Enter")
    hands.wait_saved()
    assert set(hands.placed()) == {name}
    before = hands.placed()[name]
    for _ in range(60):
        page.keyboard.press("Tab")
        if "board" in page.evaluate("document.activeElement.className").split():
            break
    for key in ("n", "ArrowLeft", "e", "l"):
        page.keyboard.press(key)
    hands.wait_saved()
    after = hands.placed()[name]
    assert after["locked"]
    assert after["rotation_deg"] - before["rotation_deg"] == pytest.approx(-1, abs=1e-3)
    page.keyboard.press("l")
    page.keyboard.press("Delete")
    hands.wait_saved()
    assert hands.placed() == {}
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Help and keys").wait_for()
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0


def test_two_windows_stay_in_step(hands: Hands, chromium: Browser, server: Server) -> None:
    other = Hands.at(chromium, server)
    other.open_project("Demo")
    other.switch_to(PAINTED)
    (name,) = hands.well_inside(1)
    before = other.where(name)
    x, y = hands.where(name)
    hands.drag((x, y), (x + 40, y + 40))
    hands.wait_saved()
    other.until(
        "([name, x]) => { const { items } = window.reassembly.board;"
        " const item = items.find((item) => item.piece.name === name);"
        " return Math.abs(item.placement.x_mm - x) < 1e-6 }",
        [name, hands.placed()[name]["x_mm"]],
        limit_s=3,
    )
    assert math.dist(other.where(name), (before[0] + 40, before[1] + 40)) < 1
    other.page.locator(".board").focus()
    other.page.keyboard.press("Control+z")
    other.wait_saved()
    hands.page.wait_for_timeout(500)
    assert math.dist(hands.where(name), (x, y)) < 1
    other.page.close()
    assert other.errors == []


def test_a_hypothesis_deleted_in_another_window_is_left(
    hands: Hands, chromium: Browser, server: Server
) -> None:
    page = hands.page
    trunk = hands.placed()
    hands.branch("Doomed")
    doomed = hands.hypothesis
    # What is being typed about a piece is about the piece, not about the hypothesis.
    (noted,) = hands.well_inside(1)
    hands.click(noted)
    page.keyboard.press("i")
    page.locator(".panel").get_by_label("Note", exact=True).click()
    page.keyboard.type("with straw")
    other = Hands.at(chromium, server)
    other.open_project("Demo")
    other.delete_hypothesis("Doomed")
    page.get_by_text("“Doomed” was deleted in another window.").wait_for()
    # Whoever deletes is not told.
    assert other.page.get_by_text("was deleted in another window").count() == 0
    hands.until("(doomed) => !location.hash.endsWith(doomed)", doomed)
    hands.settle()
    shows(page.get_by_label("Hypothesis", exact=True), hands.hypothesis)
    hands.wait_saved()
    assert {p["name"]: p["note"] for p in hands.pieces()}[noted] == "with straw"
    shows(page.locator(".panel").get_by_label("Note", exact=True), "with straw")
    hands.switch_to(PAINTED)
    (name,) = hands.well_inside(1)
    hands.click(name)
    page.keyboard.press("ArrowRight")
    hands.wait_saved()
    assert hands.placed()[name]["x_mm"] == pytest.approx(trunk[name]["x_mm"] + 1)
    assert page.get_by_text("no such hypothesis").count() == 0
    other.page.close()
    assert other.errors == []


def test_a_drag_ends_with_its_hypothesis(hands: Hands, chromium: Browser, server: Server) -> None:
    hands.branch("Doomed")
    doomed = hands.hypothesis
    (name,) = hands.well_inside(1)
    other = Hands.at(chromium, server)
    other.open_project("Demo")
    x, y = hands.where(name)
    hands.page.mouse.move(x, y)
    hands.page.mouse.down()
    hands.page.mouse.move(x + 60, y, steps=4)
    other.delete_hypothesis("Doomed")
    hands.until("(doomed) => !location.hash.endsWith(doomed)", doomed)
    hands.settle()
    revision = hands.state()["revision"]
    hands.page.mouse.move(x + 90, y, steps=4)
    hands.page.mouse.up()
    hands.page.wait_for_timeout(500)
    hands.wait_saved()
    assert hands.state()["revision"] == revision
    other.page.close()


def test_an_undo_while_a_piece_is_dragged_gives_the_drag_up(hands: Hands) -> None:
    (name,) = hands.well_inside(1)
    hands.click(name)
    hands.page.keyboard.press("ArrowRight")
    hands.wait_saved()
    before, revision = hands.placed()[name], hands.state()["revision"]
    x, y = hands.where(name)
    hands.page.mouse.move(x, y)
    hands.page.mouse.down()
    hands.page.mouse.move(x + 60, y, steps=4)
    hands.page.keyboard.press("Control+z")
    hands.page.mouse.move(x + 80, y)
    hands.page.mouse.up()
    hands.page.wait_for_timeout(300)
    hands.wait_saved()
    assert hands.placed()[name] == before and hands.state()["revision"] == revision
    assert math.dist(hands.where(name), (x, y)) < 1


def test_the_list_of_versions_tells_how_far_each_went(hands: Hands) -> None:
    trunk = hands.page.get_by_label("Hypothesis", exact=True).locator("option:checked").inner_text()
    hands.branch("Three steps")
    (name,) = hands.well_inside(1)
    hands.click(name)
    for _ in range(3):
        hands.page.keyboard.press("ArrowRight")
        hands.wait_saved()
    hands.switch_to(trunk)
    hands.tab("Versions")
    row = hands.page.locator(".version", has=hands.page.get_by_text("Three steps", exact=True))
    row.get_by_text("step 3").wait_for()


def test_nothing_is_lost_when_the_server_dies(hands: Hands, server: Server) -> None:
    """Killed with an edit on its way: the page keeps it, sends it again, and a reload shows it."""
    (name,) = hands.well_inside(1)
    hands.click(name)
    hands.page.keyboard.press("ArrowRight")
    hands.wait_saved()
    saved = hands.placed()[name]
    server.kill()
    hands.page.keyboard.press("ArrowRight")
    hands.page.keyboard.press("ArrowDown")
    hands.page.get_by_text("2 changes kept here").wait_for()
    server.start()
    hands.wait_saved()
    row = hands.placed()[name]
    assert row["x_mm"] == pytest.approx(saved["x_mm"] + 1)
    assert row["y_mm"] == pytest.approx(saved["y_mm"] + 1)

    server.kill()
    hands.page.keyboard.press("ArrowLeft")
    hands.page.get_by_text("1 change kept here").wait_for()
    address = hands.page.url
    hands.page.goto("about:blank")
    server.start()
    hands.page.goto(address)
    hands.page.locator(".board").wait_for()
    hands.page.get_by_text("found again").wait_for()
    hands.wait_saved()
    assert hands.placed()[name]["x_mm"] == pytest.approx(saved["x_mm"])
    hands.settle()
    assert len(hands.placed()) == 12
