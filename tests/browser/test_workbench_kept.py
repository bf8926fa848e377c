"""What is typed, moved and undone goes to its own piece, and is there again whatever happens."""

from __future__ import annotations

import json
import math
import re
import shutil
import sqlite3
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.workbench import PAINTED, WIDE, Hands, Server, shows

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Route

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


def told(hands: Hands) -> dict[str, dict[str, Any]]:
    return {piece["name"]: piece for piece in hands.pieces()}


def field(hands: Hands, label: str) -> Locator:
    return hands.page.locator(".panel").get_by_label(label, exact=True)


def write(hands: Hands, label: str, text: str) -> None:
    field(hands, label).click()
    hands.page.keyboard.type(text)


def choose(hands: Hands, name: str) -> None:
    hands.click(name)
    hands.page.keyboard.press("i")
    hands.page.get_by_role("heading", name=name, exact=True).wait_for()


def leave(hands: Hands) -> str:
    """Goes elsewhere as with a closed window; answers the address."""
    address = hands.page.url
    hands.page.goto("about:blank")
    return address


def come_back(hands: Hands, address: str) -> None:
    hands.page.goto(address)
    hands.page.locator(".board").wait_for()
    hands.page.get_by_text("found again").wait_for()
    hands.settle()
    hands.wait_saved()


@pytest.mark.parametrize("label", ["Note", "Inventory number"])
def test_what_is_typed_goes_to_the_piece_it_was_typed_for(hands: Hands, label: str) -> None:
    page, key = hands.page, label.split()[0].lower()
    first, second, third = hands.well_inside(3)
    hands.click(third)
    page.keyboard.press("t")
    choose(hands, first)
    write(hands, label, "of the first")
    hands.click(second)
    page.get_by_role("heading", name=second, exact=True).wait_for()
    shows(field(hands, label), "")
    write(hands, label, "of the second")
    page.get_by_role("button", name=re.compile(f"^{third}\\.")).click()
    page.get_by_role("heading", name=third, exact=True).wait_for()
    shows(field(hands, label), "")
    write(hands, label, "of the third")
    # Back to the board, and to another piece, by keys.
    page.keyboard.press("Shift+Tab")
    page.locator(".board").focus()
    page.keyboard.press("n")
    hands.wait_saved()
    words = {name: piece[key] for name, piece in told(hands).items() if piece[key]}
    assert words == {first: "of the first", second: "of the second", third: "of the third"}
    choose(hands, first)
    shows(field(hands, label), "of the first")


def test_what_is_typed_survives_a_reload(hands: Hands) -> None:
    page = hands.page
    first, second = hands.well_inside(2)
    choose(hands, first)
    write(hands, "Note", "half a sentence")
    page.get_by_text("Typing…").wait_for()
    page.reload()
    hands.settle()
    hands.wait_saved()
    assert told(hands)[first]["note"] == "half a sentence"
    choose(hands, second)
    write(hands, "x", "12.5")
    page.reload()
    hands.settle()
    hands.wait_saved()
    assert hands.placed()[second]["x_mm"] == 12.5
    # By the address to the list of projects, still in the field.
    choose(hands, first)
    write(hands, "Inventory number", "A 7")
    address = page.url
    page.evaluate("() => { location.hash = '/' }")
    page.get_by_role("link", name=re.compile("Demo")).wait_for()
    page.goto(address)
    hands.settle()
    hands.wait_saved()
    assert told(hands)[first]["inventory"] == "A 7"


def test_what_is_typed_survives_the_server_and_the_window(hands: Hands, server: Server) -> None:
    (name,) = hands.well_inside(1)
    choose(hands, name)
    write(hands, "Note", "before the power cut")
    server.kill()
    address = leave(hands)
    server.start()
    come_back(hands, address)
    assert told(hands)[name]["note"] == "before the power cut"
    choose(hands, name)
    shows(field(hands, "Note"), "before the power cut")


def test_what_is_typed_survives_a_window_that_hangs(chromium: Browser, server: Server) -> None:
    context = chromium.new_context(viewport={"width": WIDE[0], "height": WIDE[1]})
    page = context.new_page()
    page.goto(server.url)
    hands = Hands(page, server, [])
    hands.open_project("Demo")
    hands.switch_to(PAINTED)
    (name,) = hands.well_inside(1)
    choose(hands, name)
    write(hands, "Note", "typed and never left")
    address = page.url
    # It never hears that it is left, nor answers another window.
    page.evaluate(
        "() => { setTimeout(() => { const end = Date.now() + 15e3; while (Date.now() < end); }) }"
    )
    page.wait_for_timeout(100)
    again = Hands(context.new_page(), server, [])
    come_back(again, address)
    assert told(again)[name]["note"] == "typed and never left"
    assert again.errors == []
    context.close()


def nudge(hands: Hands, name: str) -> None:
    hands.click(name)
    hands.page.keyboard.press("ArrowRight")
    hands.page.get_by_text("kept here").wait_for()


def nudge_and_note(hands: Hands, name: str, note: str) -> None:
    nudge(hands, name)
    choose(hands, name)
    write(hands, "Note", note)
    hands.page.keyboard.press("Tab")
    hands.page.get_by_text("2 changes kept here").wait_for()


def delete(server: Server, path: str) -> None:
    """As somebody else does, in another browser."""
    urllib.request.urlopen(urllib.request.Request(server.url + path, method="DELETE")).close()


def moved(hands: Hands, before: dict[str, dict[str, Any]]) -> dict[str, float]:
    """By how much pieces were moved to the right."""
    now = hands.placed()
    shifts = {name: round(now[name]["x_mm"] - row["x_mm"], 6) for name, row in before.items()}
    return {name: shift for name, shift in shifts.items() if shift}


def test_changes_of_two_windows_are_both_kept(chromium: Browser, server: Server) -> None:
    context = chromium.new_context(viewport={"width": WIDE[0], "height": WIDE[1]})
    windows = [Hands(context.new_page(), server, []) for _ in range(2)]
    for hands in windows:
        hands.page.goto(server.url)
        hands.page.get_by_role("link", name=re.compile("Demo")).click()
        if hands is windows[0]:
            hands.skip_tour()
        hands.page.locator(".board").wait_for()
        hands.settle()
    # The second one came to where the first was.
    windows[0].switch_to(PAINTED)
    windows[1].page.goto(windows[0].page.url)
    windows[1].settle()
    first, second = windows[0].well_inside(2)
    before = windows[0].placed()
    server.kill()
    nudge(windows[0], first)
    nudge(windows[1], second)
    address = windows[0].page.url
    for hands in windows:
        hands.page.close()
    server.start()
    again = Hands(context.new_page(), server, [])
    again.page.goto(address)
    again.page.get_by_text("2 unsaved changes found again").wait_for()
    again.wait_saved()
    assert moved(again, before) == {first: 1.0, second: 1.0}
    # One that lives keeps its own; another takes it up when it is gone.
    server.kill()
    nudge(again, first)
    other = Hands(context.new_page(), server, [])
    server.start()
    again.wait_saved()
    other.page.goto(address)
    other.settle()
    server.kill()
    nudge(again, second)
    again.page.close()
    # It looks every few seconds, and what it says then does not stay for long.
    other.page.get_by_text("1 unsaved change found again").wait_for()
    server.start()
    other.wait_saved()
    assert moved(other, before) == {first: 2.0, second: 2.0}
    assert all(hands.errors == [] for hands in (*windows, again, other))
    context.close()


def test_changes_to_a_hypothesis_that_is_not_opened_again_are_sent(
    hands: Hands, server: Server
) -> None:
    page, trunk = hands.page, hands.page.url
    hands.branch("Side")
    side, (first, second) = page.url, hands.well_inside(2)
    before = hands.placed()
    server.kill()
    nudge_and_note(hands, first, "from the side")
    page.goto("about:blank")
    server.start()
    page.goto(trunk)
    page.get_by_text("2 unsaved changes of “Side” found again").wait_for()
    hands.wait_saved()
    assert told(hands)[first]["note"] == "from the side"
    # By the list of projects to where one was last.
    page.goto(side)
    hands.settle()
    assert moved(hands, before) == {first: 1.0}
    server.kill()
    nudge(hands, second)
    page.goto("about:blank")
    server.start()
    page.goto(server.url)
    page.get_by_role("link", name=re.compile("Demo")).click()
    page.get_by_text("1 unsaved change found again").wait_for()
    hands.wait_saved()
    assert page.url == side and moved(hands, before) == {first: 1.0, second: 1.0}


def test_what_belongs_to_a_piece_survives_the_hypothesis_it_was_kept_for(
    hands: Hands, server: Server
) -> None:
    page, trunk = hands.page, hands.page.url
    hands.branch("Doomed")
    doomed, (name,) = hands.hypothesis, hands.well_inside(1)
    server.kill()
    nudge_and_note(hands, name, "outlives it")
    page.goto("about:blank")
    server.start()
    (project,) = re.findall("/p/([0-9a-f]+)", trunk)
    delete(server, f"/api/projects/{project}/hypotheses/{doomed}")
    page.goto(trunk)
    page.get_by_text("1 unsaved change went with a deleted hypothesis").wait_for()
    hands.wait_saved()
    assert told(hands)[name]["note"] == "outlives it"


def test_a_project_that_is_deleted_meanwhile_is_left(hands: Hands, server: Server) -> None:
    page, project = hands.page, hands.project
    (name,) = hands.well_inside(1)
    server.kill()
    nudge_and_note(hands, name, "in vain")
    elsewhere = Server(server.workspace).start()
    delete(elsewhere, f"/api/projects/{project}")
    elsewhere.stop()
    server.start()
    page.get_by_text("This project was deleted in another window. 2 unsaved changes").wait_for()
    page.wait_for_url(re.compile("#/$"))
    page.wait_for_timeout(2500)
    assert page.locator(".notice.bad").count() == 0
    assert page.get_by_text("2 unsaved changes went with it").count() == 1


def test_changes_wait_for_the_new_token(template: Path, tmp_path: Path, chromium: Browser) -> None:
    shutil.copytree(template, tmp_path / "workspace")
    server = Server(tmp_path / "workspace", host="0.0.0.0").start()
    try:
        context = chromium.new_context(viewport={"width": WIDE[0], "height": WIDE[1]})
        page = context.new_page()
        page.goto(f"{server.url}/?token={server.token}")
        hands = Hands(page, server, [])
        hands.open_project("Demo")
        hands.switch_to(PAINTED)
        before, (name,) = hands.placed(), hands.well_inside(1)
        server.kill()
        nudge_and_note(hands, name, "patient")
        server.start()
        page.get_by_text("asks for its new token").wait_for()
        page.get_by_text("2 changes kept here until then").wait_for()
        page.wait_for_timeout(2500)
        assert page.get_by_text("2 changes kept here until then").count() == 1
        assert moved(hands, before) == {}
        # In another window of the same browser.
        other = context.new_page()
        other.goto(f"{server.url}/?token={server.token}")
        other.get_by_role("link", name=re.compile("Demo")).wait_for()
        hands.wait_saved()
        assert moved(hands, before) == {name: 1.0} and told(hands)[name]["note"] == "patient"
        assert page.locator(".notice.bad").count() == 0 and hands.errors == []
        context.close()
    finally:
        server.stop()


def x_shown(hands: Hands, name: str) -> float:
    return float(
        hands.page.evaluate(
            "(name) => window.reassembly.board.items"
            ".find((item) => item.piece.name === name).placement.x_mm",
            name,
        )
    )


def test_an_undo_while_the_server_is_away(hands: Hands, server: Server) -> None:
    page = hands.page
    (name,) = hands.well_inside(1)
    choose(hands, name)
    page.keyboard.press("a")
    page.keyboard.press("ArrowRight")
    hands.wait_saved()
    start = hands.placed()[name]["x_mm"]
    server.kill()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    write(hands, "Note", "away")
    page.locator(".board").focus()
    page.get_by_text("3 changes kept here").wait_for()
    # What the server never heard of is taken back, and made again, at once.
    page.keyboard.press("Control+z")
    shows(field(hands, "Note"), "")
    page.keyboard.press("Control+z")
    page.get_by_text("1 change kept here").wait_for()
    assert x_shown(hands, name) == pytest.approx(start + 1)
    page.keyboard.press("Control+Shift+Z")
    assert x_shown(hands, name) == pytest.approx(start + 2)
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    assert x_shown(hands, name) == pytest.approx(start)
    # What it knows can only be undone there: that is said, and kept.
    page.keyboard.press("Control+z")
    page.get_by_text("the undo is kept").wait_for()
    page.get_by_text("1 change kept here").wait_for()
    address = leave(hands)
    server.start()
    come_back(hands, address)
    assert hands.placed()[name]["x_mm"] == pytest.approx(start - 1)
    assert told(hands)[name]["note"] == ""


def test_what_cannot_be_written_now_is_written_later(hands: Hands, server: Server) -> None:
    """As on a full disk: another program holds the database for longer than the server waits."""
    page = hands.page
    (name,) = hands.well_inside(1)
    choose(hands, name)
    holder = sqlite3.connect(server.workspace / "workspace.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    write(hands, "Note", "on a full disk")
    page.keyboard.press("Tab")
    told_so = page.get_by_text("cannot be written: make room on its disk. 1 change kept here")
    told_so.wait_for(timeout=60_000)
    shows(field(hands, "Note"), "on a full disk")
    holder.execute("ROLLBACK")
    holder.close()
    hands.wait_saved()
    assert told(hands)[name]["note"] == "on a full disk"


def test_undo_in_a_field_without_typing_is_that_of_the_workbench(hands: Hands) -> None:
    page = hands.page
    (name,) = hands.well_inside(1)
    choose(hands, name)
    write(hands, "Note", "seen in 1998")
    page.keyboard.press("Tab")
    hands.wait_saved()
    assert told(hands)[name]["note"] == "seen in 1998"
    for again in (False, True):
        page.keyboard.press("Control+Shift+Z" if again else "Control+z")
        hands.wait_saved()
        assert told(hands)[name]["note"] == ("seen in 1998" if again else "")
        shows(field(hands, "Note"), told(hands)[name]["note"])
    # What is being typed is undone by the field itself.
    write(hands, "Note", "not so")
    page.keyboard.press("Control+z")
    assert field(hands, "Note").input_value() not in ("not so", "")
    assert told(hands)[name]["note"] == "seen in 1998"


def test_an_undo_is_made_once_whenever_the_page_is_left(hands: Hands) -> None:
    page = hands.page
    (name,) = hands.well_inside(1)
    hands.click(name)
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    hands.wait_saved()
    start, revision = hands.placed()[name]["x_mm"], hands.state()["revision"]
    # The answer never comes, though the server has undone it; nor does the stream tell of it.
    page.route("**/stream?*", lambda route: route.abort())
    page.reload()
    hands.settle()
    page.route("**/undo", lambda route: (route.fetch(), route.abort())[1])
    with page.expect_event("requestfailed", lambda request: "/undo" in request.url):
        page.keyboard.press("Control+z")
    page.unroute_all()
    page.reload()
    hands.settle()
    hands.wait_saved()
    assert hands.state()["revision"] == revision + 1
    assert hands.placed()[name]["x_mm"] == pytest.approx(start - 1)


@pytest.mark.parametrize("taken_back", [False, True], ids=["kept", "taken back"])
def test_an_edit_whose_answer_is_lost_is_made_once(
    hands: Hands, server: Server, taken_back: bool
) -> None:
    page = hands.page
    # Nor does the stream tell of it.
    page.route("**/stream?*", lambda route: route.abort())
    page.reload()
    hands.settle()
    (name,) = hands.well_inside(1)
    hands.click(name)
    start, revision = hands.placed()[name]["x_mm"], hands.state()["revision"]

    def lose(route: Route) -> None:
        route.fetch()
        server.kill()
        route.abort()

    page.route("**/edits", lose, times=1)
    with page.expect_event("requestfailed", lambda request: "/edits" in request.url):
        page.keyboard.press("ArrowRight")
    page.get_by_text("1 change kept here").wait_for()
    if taken_back:
        page.keyboard.press("Control+z")
        assert x_shown(hands, name) == pytest.approx(start)
    address = leave(hands)
    page.unroute_all()
    server.start()
    come_back(hands, address)
    assert hands.state()["revision"] == revision + 1 + taken_back
    assert hands.placed()[name]["x_mm"] == pytest.approx(start + (not taken_back))


def test_one_lost_answer_does_not_mean_that_the_server_is_away(hands: Hands) -> None:
    page = hands.page
    (name,) = hands.well_inside(1)
    hands.click(name)
    page.route("**/edits", lambda route: (route.fetch(), route.abort())[1], times=1)
    with page.expect_event("requestfailed", lambda request: "/edits" in request.url):
        page.keyboard.press("ArrowRight")
    hands.wait_saved()
    assert page.get_by_text("The server is away").count() == 0


@pytest.mark.parametrize("by", ["list", "refusal"])
def test_what_happened_while_no_call_came_through_is_learnt(
    hands: Hands, chromium: Browser, server: Server, by: str
) -> None:
    """As when a network is lost for a moment, and the stream lives on."""
    page = hands.page
    hands.branch("Doomed")
    (name,) = hands.well_inside(1)
    doomed = hands.hypothesis
    choose(hands, name)
    if by == "refusal":
        page.route(re.compile("/hypotheses$"), lambda route: route.abort())
    page.context.set_offline(True)
    write(hands, "Note", "no line")
    page.locator(".board").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("2 changes kept here").wait_for()
    other = Hands.at(chromium, server)
    other.open_project("Demo")
    other.delete_hypothesis("Doomed")
    page.wait_for_timeout(1500)
    page.context.set_offline(False)
    page.get_by_text("“Doomed” was deleted in another window. 1 unsaved change").wait_for()
    hands.until("(doomed) => !location.hash.endsWith(doomed)", doomed)
    # While a call fails again and again, the page says that the server is away.
    page.unroute_all()
    hands.wait_saved()
    assert told(hands)[name]["note"] == "no line"
    assert page.locator(".notice.bad").count() == 0
    other.page.close()


def test_what_was_said_about_a_server_that_was_away_goes(hands: Hands, server: Server) -> None:
    page = hands.page
    server.kill()
    hands.tab("Solve")
    page.get_by_role("button", name="Solve", exact=True).click()
    trouble = page.get_by_text("server does not answer")
    trouble.wait_for()
    server.start()
    trouble.wait_for(state="detached")


def test_changes_that_an_earlier_version_kept_are_taken_up(hands: Hands) -> None:
    page = hands.page
    (name,) = hands.well_inside(1)
    piece = next(p["id"] for p in hands.pieces() if p["name"] == name)
    kept = [[{"op": "place", "piece": piece, "x_mm": 3.5, "y_mm": 4.5, "rotation_deg": 0}]]
    page.evaluate(
        "([key, text]) => localStorage.setItem(key, text)",
        [f"reassembly.unsent.{hands.project}.{hands.hypothesis}", json.dumps(kept)],
    )
    come_back(hands, leave(hands))
    assert hands.placed()[name]["x_mm"] == 3.5


def test_a_key_held_down_while_the_window_goes_away(hands: Hands) -> None:
    page = hands.page
    (name,) = hands.well_inside(1)
    before = hands.placed()[name]
    hands.click(name)
    page.keyboard.down("ArrowRight")
    page.evaluate("() => window.dispatchEvent(new Event('blur'))")
    hands.until("() => window.reassembly.board.live.size === 0")
    hands.wait_saved()
    assert hands.placed()[name]["x_mm"] == pytest.approx(before["x_mm"] + 1)
    page.keyboard.up("ArrowRight")
    page.keyboard.down("ArrowDown")
    page.reload()
    page.keyboard.up("ArrowDown")
    hands.settle()
    hands.wait_saved()
    after = hands.placed()[name]
    assert after["x_mm"] == pytest.approx(before["x_mm"] + 1)
    assert after["y_mm"] == pytest.approx(before["y_mm"] + 1)


def test_undone_repairs_leave_no_discarded_piece_chosen(
    hands: Hands, chromium: Browser, server: Server
) -> None:
    page = hands.page
    first, *others = hands.well_inside(3)
    second = min(others, key=lambda name: math.dist(hands.where(first), hands.where(name)))
    other = Hands.at(chromium, server)
    other.open_project("Demo")
    other.switch_to(PAINTED)
    choose(other, first)
    choose(hands, first)
    hands.click(second, adding=True)
    before = hands.placed()
    page.get_by_role("button", name="Merge into one piece").click()
    page.get_by_text("Merged into one piece").wait_for()
    hands.wait_saved()
    (merged,) = hands.placed().keys() - before.keys()
    # In another window the discarded piece is let go.
    other.page.get_by_text("Nothing is chosen").wait_for()
    assert "chosen" not in other.chosen()
    other.page.close()
    # What an undo or a redo brings back is chosen, and nothing else.
    page.keyboard.press("a")
    for keys, chosen in (("z", [first, second]), ("Shift+Z", [merged]), ("z", [first, second])):
        page.keyboard.press(f"Control+{keys}")
        page.locator(".status-bar", has_text=f"{len(chosen)} chosen").wait_for()
        hands.wait_saved()
        if len(chosen) == 1:
            page.get_by_role("heading", name=merged, exact=True).wait_for()
    assert page.get_by_role("button", name="Put on the board").count() == 0
    page.keyboard.press("ArrowRight")
    hands.wait_saved()
    after = hands.placed()
    assert {name for name in after if after[name] != before[name]} == {first, second}


@pytest.mark.parametrize("label", ["Note", "Inventory number"])
def test_escape_gives_the_old_text_back(hands: Hands, label: str) -> None:
    page = hands.page
    (name,) = hands.well_inside(1)
    choose(hands, name)
    write(hands, label, "kept")
    page.keyboard.press("Tab")
    hands.wait_saved()
    write(hands, label, "dropped")
    page.get_by_text("Typing…").wait_for()
    page.keyboard.press("Escape")
    shows(field(hands, label), "kept")
    assert not field(hands, label).evaluate("(it) => it === document.activeElement")
    hands.wait_saved()
    assert told(hands)[name][label.split()[0].lower()] == "kept"
    assert "1 chosen" in hands.chosen()


def test_an_empty_name_is_refused_in_words(hands: Hands) -> None:
    page = hands.page
    (name,) = hands.well_inside(1)
    choose(hands, name)
    field(hands, "Name").click()
    for key in ("Control+a", "Delete", "Tab"):
        page.keyboard.press(key)
    refused = page.get_by_role("alert").filter(has_text="needs a name")
    assert name in refused.inner_text()
    shows(field(hands, "Name"), name)
    assert name in told(hands)
