"""Where the focus goes, what a finger finds, and how words and figures stand on the page."""

from __future__ import annotations

import itertools
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from tests.browser.workbench import PAINTED, Hands

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

FOCUSED = "() => document.activeElement.id || document.activeElement.className"


def test_keys_lead_into_the_panels_and_back(hands: Hands) -> None:
    page = hands.page
    page.locator(".board").focus()
    for key, name in {"s": "solve", "i": "piece", "j": "joins", "b": "versions"}.items():
        page.keyboard.press(key)
        assert page.evaluate(FOCUSED) == f"tab-{name}"
    page.keyboard.press("a")
    assert page.evaluate(FOCUSED).startswith("board")
    # Also where the panels were put away, and on to the first control by one Tab.
    page.get_by_role("button", name="Panel", exact=True).click()
    assert page.locator(".side").count() == 0
    page.locator(".board").focus()
    page.keyboard.press("y")
    hands.until("() => document.activeElement.id === 'tab-history'")
    page.keyboard.press("Tab")
    author = page.get_by_label("Your name in the history")
    assert author.evaluate("(field) => field === document.activeElement")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("A leads back to the board").wait_for()


def test_the_export_keeps_the_focus_and_goes_with_its_project(hands: Hands) -> None:
    page = hands.page
    page.get_by_role("button", name="Export").click()
    dialog = page.get_by_role("dialog")
    button = dialog.get_by_role("button", name="Export", exact=True)
    button.focus()
    page.keyboard.press("Enter")
    ready = dialog.get_by_role("heading", name="Ready")
    dialog.locator(".button[aria-disabled]").wait_for()
    assert button.evaluate("(it) => it === document.activeElement")
    ready.wait_for(timeout=120_000)
    assert button.evaluate("(it) => it === document.activeElement")
    page.evaluate("() => { location.hash = '/' }")
    page.get_by_role("link", name=re.compile("Demo")).first.wait_for()
    assert dialog.count() == 0


def test_the_tour_ends_on_the_board(visitor: Hands) -> None:
    page = visitor.page
    page.get_by_role("link", name=re.compile("Demo")).click()
    page.get_by_role("dialog", name="Tour").wait_for()
    for _ in range(4):
        page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for(state="detached")
    visitor.until("() => document.activeElement.classList.contains('board')")


def test_a_finger_restores_out_of_the_history(hands: Hands, tablet: None) -> None:
    page = hands.page
    page.locator(".board").focus()
    before, revision = hands.placed(), hands.state()["revision"]
    page.keyboard.press("n")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    hands.wait_saved()
    hands.tab("History")
    events = page.locator(".history li")
    back = events.filter(has=page.locator(".figures", has_text=re.compile(f"^{revision + 1}$")))
    button = back.get_by_role("button", name="Restore")
    box = button.bounding_box()
    assert box is not None and box["height"] >= 24
    hands.fingers([(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)])
    page.get_by_text("Restored as it was").wait_for()
    hands.wait_saved()
    moved = [name for name, row in hands.placed().items() if row != before[name]]
    assert len(moved) == 1
    assert hands.placed()[moved[0]]["x_mm"] == pytest.approx(before[moved[0]]["x_mm"] + 1)


def test_the_import_of_one_piece_in_words_and_lines(visitor: Hands, tmp_path: Path) -> None:
    page = visitor.page
    folder = tmp_path / "one"
    folder.mkdir()
    picture = np.zeros((120, 120, 4), np.uint8)
    picture[20:100, 20:100] = (180, 120, 60, 255)
    Image.fromarray(picture).save(folder / "single.png")
    for k in range(12):
        (folder / f"about {k:02d}.txt").write_text("nothing to see")
    visitor.drop_files(folder)
    page.get_by_label("I know it").click()
    page.get_by_label("One pixel is").click()
    page.keyboard.type("0.2")
    page.keyboard.press("Tab")
    dialog = page.get_by_role("dialog")
    # What can be chosen stands at the top, one under the other, however long the list beside it.
    choices = dialog.locator(".scale-choice > label")
    boxes = [choices.nth(k).bounding_box() for k in range(choices.count())]
    for upper, lower in itertools.pairwise(boxes):
        assert upper is not None and lower is not None
        assert lower["y"] - upper["y"] - upper["height"] < 80
    # Where the list goes on there is a shade.
    files = dialog.locator(".file-list")
    assert files.evaluate("(list) => list.scrollHeight > list.clientHeight")
    assert "gradient" in files.evaluate("(list) => getComputedStyle(list).backgroundImage")
    dialog.get_by_role("button", name="Bring in", exact=True).click()
    page.get_by_text("1 piece brought in; it is in the tray.").wait_for()
    # The tour waits until nothing else is asked, and does not come in the middle of later work.
    page.get_by_role("dialog", name="Tour").wait_for()
    visitor.skip_tour()
    page.reload()
    page.locator(".board").wait_for()
    visitor.settle()
    assert page.get_by_role("dialog").count() == 0


def test_a_pressed_button_looks_so_under_the_pointer(hands: Hands) -> None:
    page = hands.page
    button = page.get_by_role("button", name="Outlines")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    look = "(it) => getComputedStyle(it).backgroundColor"
    assert button.evaluate("(it) => it.matches(':hover')")
    page.wait_for_timeout(500)  # Colours change by and by.
    under = button.evaluate(look)
    page.locator(".board").hover()
    page.wait_for_timeout(500)
    assert button.evaluate(look) == under


def test_a_branch_is_offered_a_name_of_its_own(hands: Hands) -> None:
    page = hands.page
    hands.switch_to(PAINTED)
    taken = page.get_by_label("Hypothesis", exact=True).locator("option").all_inner_texts()
    assert f"{PAINTED}, another way" in taken
    page.get_by_role("button", name="Branch this hypothesis").first.click()
    offered = page.get_by_label("Name of the new hypothesis").input_value()
    assert re.fullmatch(rf"{PAINTED}, another way \d+", offered) and offered not in taken
    page.get_by_label("Name of the new hypothesis").fill(PAINTED)
    page.keyboard.press("Enter")
    listed = page.get_by_label("Hypothesis", exact=True).locator("option", has_text=f"{PAINTED} 2")
    listed.wait_for(state="attached")


def test_plain_notices_come_two_at_most(hands: Hands) -> None:
    page = hands.page
    page.locator(".board").focus()
    for key in ("n", "ArrowRight", "l"):
        page.keyboard.press(key)
    hands.wait_saved()
    hands.tab("History")
    restore = page.locator(".history").get_by_role("button", name="Restore").last
    restore.wait_for()
    page.locator(".board").focus()
    for key in ("g", "ArrowRight"):
        page.keyboard.press(key)
    page.locator(".notice", has_text="A locked piece does not move").wait_for()
    restore.click()
    page.locator(".notice", has_text="Restored as it was").wait_for()
    told = page.locator(".notice").all_inner_texts()
    assert len(told) <= 2 and not any("A group needs" in text for text in told)


def test_who_has_no_token_reads_a_plain_page(chromium: Browser, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "reassembly.cli", "serve", "--no-browser", "--host", "0.0.0.0"]
    command += ["--port", str(port), "--workspace", str(tmp_path / "workspace")]
    process = subprocess.Popen(command)
    page = chromium.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    try:
        end = time.monotonic() + 60
        while True:
            with socket.socket() as door:
                if door.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.1)
        page.goto(f"http://127.0.0.1:{port}/")
        page.get_by_role("heading", name="This workbench asks for its token").wait_for()
        assert "sans" in page.locator("p").evaluate("(it) => getComputedStyle(it).fontFamily")
        assert not [text for text in refused if "Content Security" in text]
    finally:
        page.close()
        process.terminate()
        process.wait(timeout=20)


def test_locks_in_several_islands_are_told_before_a_solve(hands: Hands) -> None:
    page = hands.page
    hands.branch("Two islands")
    told = page.get_by_text("Locked pieces lie in several islands")
    page.locator(".board").focus()
    page.keyboard.press("n")
    page.keyboard.press("l")
    page.keyboard.press("n")
    page.keyboard.press("l")
    hands.wait_saved()
    hands.tab("Solve")
    page.get_by_text("around the 2 locked").wait_for()
    assert told.count() == 0
    hands.tab("Piece")
    page.locator(".panel label", has_text="Island").locator("select").select_option("2")
    hands.wait_saved()
    hands.tab("Solve")
    told.wait_for()
