"""Bringing pieces in: what is found can be refused, and what is given up leaves nothing behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from tests.browser.workbench import Hands, Server, bring_in, cut_outs
from tests.puzzles import drawn_puzzle

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("import") / "workspace").start()
    yield server
    server.stop()


@pytest.fixture
def hands(visitor: Hands) -> Hands:
    return visitor


def tray_with_ruler(path: Path) -> int:
    """Three drawn pieces above a ruler, on a plain ground; how many pieces."""
    rng = np.random.default_rng(1)
    photo = np.full((760, 1300, 3), (60, 110, 70), np.uint8)
    fragments = drawn_puzzle(3, seed=2, size_px=400).fragments
    for k, fragment in enumerate(fragments):
        crop = fragment.cropped()
        height, width = crop.mask.shape
        photo[60 : 60 + height, 60 + 410 * k :][:, :width][crop.mask] = crop.image[crop.mask]
    cv2.rectangle(photo, (150, 650), (950, 710), (235, 230, 215), -1)
    noisy = np.clip(photo + rng.normal(0, 1.5, photo.shape), 0, 255).astype(np.uint8)
    Image.fromarray(noisy).save(path)
    return len(fragments)


def names(hands: Hands) -> list[str]:
    return [project["name"] for project in hands.server.get("/api/projects")]


def test_a_ruler_is_unticked_and_a_piece_can_be_refused(hands: Hands, tmp_path: Path) -> None:
    page = hands.page
    count = tray_with_ruler(tmp_path / "ruled.png")
    hands.drop_files(tmp_path / "ruled.png")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Found in ruled.png").wait_for()
    ticks = dialog.locator(".things").get_by_role("checkbox")
    assert ticks.count() == count + 1
    ruler = dialog.get_by_role("checkbox", name=re.compile("like a ruler"))
    assert not ruler.is_checked()
    assert dialog.locator(".things").get_by_text("like a ruler").is_visible()
    ticks.first.focus()
    page.keyboard.press("Space")
    dialog.get_by_label("I know it").click()
    dialog.get_by_label("One pixel is").click()
    page.keyboard.type("0.5")
    hands.confirm_import()
    page.locator(".thumb-button").first.wait_for()
    pieces = hands.pieces()
    assert len(pieces) == count - 1
    assert all(piece["width_px"] < 600 for piece in pieces)


def test_the_button_follows_what_is_typed(hands: Hands, tmp_path: Path) -> None:
    page = hands.page
    hands.drop_files(cut_outs(tmp_path / "typed", drawn_puzzle(2, seed=4)))
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("I know it").click()
    dialog.get_by_text("Say how large a pixel is").wait_for()
    button = dialog.get_by_role("button", name="Bring in", exact=True)
    assert button.is_disabled()
    field = dialog.get_by_label("One pixel is")
    field.click()
    page.keyboard.type("0.05")
    assert button.is_enabled() and field.input_value() == "0.05"
    page.keyboard.type("x")
    assert button.is_disabled()
    page.keyboard.press("Tab")
    dialog.get_by_text("“0.05x” is no number").wait_for()
    field.click()
    page.keyboard.type("0.5")
    assert button.is_enabled()
    page.keyboard.press("Escape")


def test_an_import_that_is_given_up_leaves_no_project(hands: Hands, tmp_path: Path) -> None:
    page = hands.page
    before = names(hands)
    folder = cut_outs(tmp_path / "given up", drawn_puzzle(2, seed=4))
    hands.drop_files(folder)
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("heading", name="Projects").wait_for()
    page.wait_for_timeout(500)
    assert names(hands) == before
    assert page.get_by_role("link", name="given up").count() == 0
    assert page.locator(".notice").count() == 0

    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    hands.drop_files(broken)
    dialog.get_by_text("Nothing is left to bring in").wait_for()
    # The window is closed in the middle, and the server ends without a word.
    page.goto("about:blank")
    assert names(hands) == before
    hands.server.kill()
    hands.server.start()
    page.goto(hands.server.url)
    page.get_by_role("heading", name="Projects").wait_for()
    assert names(hands) == before

    bring_in(hands, folder, 0.5)
    assert "given up" in names(hands)


def test_of_several_saved_projects_one_is_to_be_opened(hands: Hands, tmp_path: Path) -> None:
    before = names(hands)
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    hands.drop_files(tmp_path / "a.json", tmp_path / "b.json")
    hands.page.get_by_text("These are 2 saved projects. Open one at a time.").wait_for()
    assert hands.page.get_by_role("dialog").count() == 0 and names(hands) == before
    hands.drop_files(tmp_path / "b.json")
    hands.page.get_by_text("“b.json”: this is no project.").wait_for()
    assert hands.page.locator(".notice.bad").count() == 1
    hands.drop_files(cut_outs(tmp_path / "good", drawn_puzzle(2, seed=4)))
    hands.page.get_by_role("dialog", name="Bring in pieces").wait_for()
    assert hands.page.locator(".notice.bad").count() == 0
    hands.page.keyboard.press("Escape")
    hands.page.get_by_role("dialog").wait_for(state="detached")
    assert names(hands) == before


def test_a_double_click_brings_in_once(hands: Hands, tmp_path: Path) -> None:
    page = hands.page
    puzzle = drawn_puzzle(3, seed=4)
    hands.drop_files(cut_outs(tmp_path / "twice", puzzle))
    page.get_by_label("I know it").click()
    page.get_by_label("One pixel is").click()
    page.keyboard.type("0.5")
    page.keyboard.press("Tab")
    button = page.get_by_role("dialog").get_by_role("button", name="Bring in", exact=True)
    button.dblclick(delay=5)
    page.get_by_text("3 pieces brought in").wait_for()
    page.wait_for_timeout(1500)
    assert page.locator(".notice.bad").count() == 0
    jobs = hands.server.get(f"/api/projects/{hands.project}")["jobs"]
    assert [job["kind"] for job in jobs].count("import") == 1 and len(hands.pieces()) == 3


def test_the_example_can_always_be_opened(hands: Hands) -> None:
    page = hands.page
    for _ in range(2):
        page.goto(hands.server.url)
        page.get_by_role("button", name="Open the example").click()
        page.locator(".board").wait_for(timeout=60_000)
        if page.get_by_role("button", name="Skip").count():
            hands.skip_tour()
    assert sum(name.startswith("Demo") for name in names(hands)) == 1


def test_a_tray_without_a_scale_and_a_failed_import_are_told_in_the_dialog(
    hands: Hands, tmp_path: Path
) -> None:
    page = hands.page
    tray_with_ruler(tmp_path / "tray.png")
    hands.drop_files(tmp_path / "tray.png")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Found in").wait_for()
    button = dialog.get_by_role("button", name="Bring in", exact=True)
    dialog.get_by_label("From the files").click()
    dialog.get_by_text("tray.png tells no scale").wait_for()
    assert button.is_disabled()
    dialog.get_by_label("Two clicks on a ruler").click()
    dialog.locator(".zoomable img").wait_for()
    page.wait_for_timeout(300)
    box = dialog.locator("svg[aria-label^=Photograph]").bounding_box()
    assert box is not None
    for x in (0.5, 0.506):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + box["height"] / 2)
        page.mouse.down()
        # A hand is never quite still, and the click counts all the same.
        page.mouse.move(box["x"] + x * box["width"] + 1, box["y"] + box["height"] / 2)
        page.mouse.up()
    # Nobody is asked for a scale that nobody gave; what is typed goes into the field at once.
    dialog.get_by_text("Say how long the line is").wait_for()
    assert button.is_disabled()
    page.keyboard.type("100")
    button.click()
    notice = dialog.locator(".notice", has_text="too near")
    notice.wait_for()
    # Nothing lies over it, and the buttons are free to try again.
    over = "(e) => { const b = e.getBoundingClientRect(); return e.contains("
    over += "document.elementFromPoint(b.left + b.width / 2, b.top + b.height / 2)); }"
    assert notice.evaluate(over)
    assert button.is_enabled() and button.evaluate(over)
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="Projects").wait_for()


def test_pieces_with_a_caution_are_counted_until_it_is_dismissed(
    hands: Hands, tmp_path: Path
) -> None:
    page = hands.page
    count = tray_with_ruler(tmp_path / "tray.png")
    photo = np.array(Image.open(tmp_path / "tray.png"))
    photo[:, :450] = cv2.GaussianBlur(photo[:, :450], (0, 0), 7)
    Image.fromarray(photo).save(tmp_path / "out of focus.png")
    hands.drop_files(tmp_path / "out of focus.png")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("I know it").click()
    dialog.get_by_label("One pixel is").click()
    page.keyboard.type("0.5")
    hands.confirm_import()
    notice = page.locator(".notice", has_text=f"{count} pieces brought in")
    notice.wait_for()
    marked = sum(bool(piece["warnings"]) for piece in hands.pieces())
    assert marked == page.locator(".thumb-warning").count() == 1
    assert "1 of them is marked: see the triangle in the tray" in notice.inner_text()
    # A plain word would be gone by now.
    page.wait_for_timeout(6000)
    notice.get_by_role("button", name="Dismiss").click()
    notice.wait_for(state="detached")
