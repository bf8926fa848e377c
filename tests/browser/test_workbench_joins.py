"""Candidate joins: looked at, tried on the board, judged, and honoured by the next solve."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from reassembly.app.store import Store
from reassembly.pose import SAME_DEG, SAME_MM, Pose, wrap_deg
from reassembly.solvers import available_solvers
from reassembly.synthetic.make import make_puzzle, recipe
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
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow


def pose_of(row: Any) -> Pose:
    return Pose.from_degrees(row["x_mm"], row["y_mm"], row["rotation_deg"])


def near(first: Pose, second: Pose, apart_mm: float = 3.0, turned_deg: float = 5.0) -> bool:
    apart = np.hypot(first.x_mm - second.x_mm, first.y_mm - second.y_mm)
    return bool(
        apart < apart_mm and abs(wrap_deg(first.rotation_deg - second.rotation_deg)) < turned_deg
    )


def holds(placements: dict[str, Any], judgement: dict[str, Any]) -> bool:
    """Whether two pieces lie as a judged join says."""
    rows = [placements.get(judgement[k]) for k in ("first", "second")]
    if not all(row and row["placed"] for row in rows) or rows[0]["island"] != rows[1]["island"]:
        return False
    return near(pose_of(rows[0]).inverse() @ pose_of(rows[1]), pose_of(judgement["pose"]))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "workspace").start()
    yield server
    server.stop()


@pytest.fixture
def hands(chromium: Browser, server: Server, tmp_path: Path) -> Iterator[Hands]:
    """At a drawn puzzle of five pieces, all in the tray."""
    hands = Hands.at(chromium, server)
    puzzle = drawn_puzzle(5, seed=2)
    bring_in(hands, cut_outs(tmp_path / "pieces", puzzle), puzzle.mm_per_px)
    yield hands
    hands.page.close()
    assert hands.errors == []


def list_true_joins(hands: Hands) -> int:
    """Puts a search's result into the workspace: how every piece lies to the first."""
    puzzle = drawn_puzzle(5, seed=2)
    assert puzzle.truth is not None
    ids = {piece["name"]: piece["id"] for piece in hands.pieces()}
    first, *others = puzzle.ids
    joins = []
    for rank, other in enumerate(others):
        lies = puzzle.truth[first].inverse() @ puzzle.truth[other]
        joins.append(
            {"first": ids[first], "second": ids[other], "x_mm": lies.x_mm, "y_mm": lies.y_mm}
            | {"rotation_deg": lies.rotation_deg, "probability": 0.9 - rank / 10}
            | {"gap_mm": 0.4, "overlap_mm2": 1.5, "contact_mm": 60.0}
        )
    list_joins(hands, joins)
    return len(joins)


def list_joins(hands: Hands, joins: list[dict[str, Any]]) -> None:
    store = Store(hands.server.workspace, lambda *_: None)
    store.set_joins(hands.project, joins, store.join_basis(hands.project)[0])
    store.close()


def test_joins_are_shown_tried_and_judged(hands: Hands) -> None:
    page = hands.page
    count = list_true_joins(hands)
    page.get_by_role("button", name="fragment_0.").press("Enter")
    hands.tab("Joins")
    cards = page.locator(".join")
    cards.nth(count - 1).wait_for()
    assert "90 %" in cards.first.inner_text() and "0.4 mm" in cards.first.inner_text()
    hands.until("() => document.querySelector('.join img').naturalWidth > 0")
    cards.first.get_by_role("button", name="Flicker").click()
    hands.until("() => document.querySelector('.join img').hidden", limit_s=3)
    hands.until("() => !document.querySelector('.join img').hidden", limit_s=3)
    cards.first.get_by_role("button", name="Why?").click()
    cards.first.locator(".profile").wait_for()
    hands.until("() => document.querySelector('.why img').naturalWidth > 0")

    cards.first.get_by_role("button", name="Put together").click()
    hands.wait_saved()
    rows = hands.placed()
    join = hands.server.get(f"/api/projects/{hands.project}/joins")["joins"][0]
    lies = pose_of(rows["fragment_0"]).inverse() @ pose_of(rows["fragment_1"])
    assert near(lies, pose_of(join["pose"]), 1e-6, 1e-6)

    cards.first.get_by_role("button", name="Accept").click()
    cards.nth(1).get_by_role("button", name="Reject").click()
    cards.nth(2).get_by_role("button", name="Unsure").click()
    hands.wait_saved()
    judgements = hands.server.get(f"/api/projects/{hands.project}")["judgements"]
    assert [j["verdict"] for j in judgements] == ["accepted", "rejected", "unsure"]
    page.locator(".board").focus()
    page.keyboard.press("Control+z")
    hands.wait_saved()
    assert len(hands.server.get(f"/api/projects/{hands.project}")["judgements"]) == 2
    assert (
        cards.nth(2).get_by_role("button", name="Unsure").get_attribute("aria-pressed") == "false"
    )


def test_figures_of_all_joins_stand_in_one_line(hands: Hands) -> None:
    page = hands.page
    list_true_joins(hands)
    page.get_by_role("button", name="fragment_0.").press("Enter")
    hands.tab("Joins")
    page.locator(".join-figures dl").first.wait_for()
    lefts = page.evaluate(
        """() => {
          const card = document.querySelector('.join-figures dl');
          return ['gap', 'overlapping'].map((word) => {
            card.querySelector('dt').textContent = word;
            return card.querySelector('dd').getBoundingClientRect().left;
          });
        }"""
    )
    assert lefts[0] == pytest.approx(lefts[1], abs=0.5)


def test_the_page_tells_joins_apart_as_python_does(hands: Hands) -> None:
    puzzle = drawn_puzzle(5, seed=2)
    ids = {piece["name"]: piece["id"] for piece in hands.pieces()}
    first, second, *_ = puzzle.ids
    # The second piece further and further away; of those that are one to a person the best is told.
    joins = [
        {"first": ids[first], "second": ids[second], "x_mm": x_mm, "y_mm": 0.0}
        | {"rotation_deg": 0.0, "probability": 0.9 - rank / 10}
        | {"gap_mm": 0.4, "overlap_mm2": 1.5, "contact_mm": 60.0}
        for rank, x_mm in enumerate((0.0, SAME_MM - 0.1, SAME_MM + 0.1, 2 * SAME_MM))
    ]
    joins.append({**joins[0], "rotation_deg": SAME_DEG - 0.1, "probability": 0.1})
    list_joins(hands, joins)
    hands.page.get_by_role("button", name=f"{first}.").press("Enter")
    hands.tab("Joins")
    cards = hands.page.locator(".join")
    cards.first.wait_for()
    assert [re.findall(r"\d+ %", card.inner_text()) for card in cards.all()] == [["90 %"], ["70 %"]]


def test_the_next_solve_honours_both_verdicts(hands: Hands) -> None:
    assert not available_solvers()["joins"].missing_weights()
    page = hands.page
    hands.tab("Joins")
    page.get_by_role("button", name="Look for joins").click()
    page.get_by_text("Joins are found").wait_for(timeout=300_000)
    cards = page.locator(".join")
    for thumb in page.locator(".thumb-button").all():
        thumb.click()
        page.wait_for_timeout(500)
        if cards.count() >= 2:
            break
    cards.first.get_by_role("button", name="Accept").click()
    cards.nth(1).get_by_role("button", name="Reject").click()
    hands.wait_saved()
    judgements = hands.server.get(f"/api/projects/{hands.project}")["judgements"]
    verdicts = {judgement["verdict"]: judgement for judgement in judgements}
    assert set(verdicts) == {"accepted", "rejected"}
    choose_method(hands, "greedy")
    page.get_by_text("will not be heard").wait_for()
    choose_method(hands, "joins")
    page.get_by_text("will be honoured").wait_for()
    solve(hands)
    wait_solved(hands, 300)
    placements = hands.state()["placements"]
    assert holds(placements, verdicts["accepted"])
    assert not holds(placements, verdicts["rejected"])
    # The rejected one is still listed, and the verdict can be taken back.
    hands.tab("Joins")
    card = page.locator(".join.rejected")
    card.wait_for()
    card.get_by_role("button", name="Reject").click()
    card.wait_for(state="detached")
    hands.wait_saved()
    left = hands.server.get(f"/api/projects/{hands.project}")["judgements"]
    assert left == [verdicts["accepted"]]


def test_after_a_whole_solve_joins_are_there_at_once(hands: Hands) -> None:
    page = hands.page
    choose_method(hands, "joins")
    solve(hands)
    wait_solved(hands, 300)
    page.locator(".board").focus()
    page.keyboard.press("n")
    hands.tab("Joins")
    page.locator(".join").first.wait_for(timeout=5000)
    assert page.get_by_role("button", name="Look").count() == 0
    # Once something was said that a search would hear, another one may be asked for.
    page.locator(".join").first.get_by_role("button", name="Reject").click()
    page.get_by_role("button", name="Look again").wait_for()
    hands.wait_saved()


def test_a_join_accepted_against_locks_is_told_at_once(hands: Hands) -> None:
    page = hands.page
    list_true_joins(hands)
    page.get_by_label("Sort by").select_option("name")
    for name in ("fragment_0", "fragment_1"):
        page.get_by_role("button", name=f"{name}.").press("Enter")
        page.locator(".board").focus()
        page.keyboard.press("l")
    page.keyboard.press("Shift+P")
    assert "2 chosen" in hands.chosen()
    page.keyboard.press("Escape")
    hands.tab("Joins")
    hands.click("fragment_1")
    card = page.locator(".join", has_text="fragment_0")
    card.get_by_role("button", name="Accept").click()
    card.get_by_text("Both pieces are locked otherwise").wait_for()
    hands.tab("Solve")
    page.get_by_text("locked otherwise than the join you accepted").wait_for()
    hands.click("fragment_1")
    page.keyboard.press("l")
    page.get_by_text("locked otherwise than the join you accepted").wait_for(state="detached")
    hands.wait_saved()


def around(boxes: list[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def lie_apart(hands: Hands) -> int:
    """How many islands the board shows; none lies on another."""
    frames = [around(boxes) for boxes in hands.islands().values()]
    assert not any(meet(one, other) for k, one in enumerate(frames) for other in frames[:k])
    return len(frames)


def test_islands_lie_apart_in_attempts_and_in_the_answer(
    chromium: Browser, server: Server, tmp_path: Path
) -> None:
    hands = Hands.at(chromium, server)
    folder = tmp_path / "two objects"
    folder.mkdir()
    for seed in (3, 5):
        painted = make_puzzle(recipe("paper", pieces=(3, 3)), seed, 0).puzzle
        for file in cut_outs(tmp_path / str(seed), painted).iterdir():
            dpi = 25.4 / painted.mm_per_px
            Image.open(file).save(folder / f"{seed}-{file.name}", dpi=(dpi, dpi))
    page = hands.page
    hands.drop_files(folder)
    hands.confirm_import()
    # Everything lies on the board already, where attempts will be shown.
    page.locator(".thumb-button").nth(5).wait_for()
    page.locator(".thumb-button").first.click()
    for thumb in page.locator(".thumb-button").all()[1:]:
        thumb.click(modifiers=["Shift"])
    page.keyboard.press("Enter")
    hands.wait_saved()
    assert len(hands.placed()) == 6
    choose_method(hands, "joins")
    solve(hands)
    page.get_by_text("A solver’s attempt").wait_for(timeout=120_000)
    most = 0
    while page.get_by_text("A solver’s attempt").is_visible():
        # Held while it is looked at, the solver is not done before both objects were seen.
        with held_workers(server):
            page.wait_for_timeout(100)
            most = max(most, lie_apart(hands))
        page.wait_for_timeout(50)
    wait_solved(hands)
    hands.settle()
    assert most >= 2 and lie_apart(hands) >= 2
    fit = hands.server.get(f"/api/projects/{hands.project}/hypotheses/{hands.hypothesis}/fit")
    island = {i: row["island"] for i, row in hands.state()["placements"].items()}
    assert all(island[o["first"]] == island[o["second"]] for o in fit["overlaps"])
    page.close()
