"""A running workbench for browser tests: a server as a process, and hands on its page."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

    from reassembly.puzzle import Puzzle

WIDE = (1440, 900)
PAINTED = "As it was painted"
"""The demo's hypothesis with every piece in its place."""
Spot = tuple[float, float]
"""On the screen, px."""
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@dataclass
class Server:
    """`reassembly serve` on a workspace; can be killed and started again at the same address."""

    workspace: Path
    demo: bool = False
    port: int = 0
    host: str = "127.0.0.1"
    """One that others reach makes the server ask for a token."""
    token: str = ""
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Server:
        if not self.port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
        command = [sys.executable, "-m", "reassembly.cli", "serve", "--no-browser"]
        command += ["--host", self.host, "--port", str(self.port)]
        command += ["--workspace", str(self.workspace), *["--demo"] * self.demo]
        said = None if self.host == "127.0.0.1" else subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=said, text=True)
        while self.process.stdout is not None:
            if found := re.search(r"[?]token=([\w-]+)", self.process.stdout.readline()):
                self.token = found[1]
                break
        self._await()
        return self

    def _await(self, limit_s: float = 60.0) -> None:
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            assert self.process is not None and self.process.poll() is None, "the server has ended"
            try:
                self.get("/api/projects")
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"the server did not answer within {limit_s} s")

    def kill(self) -> None:
        """As a power cut would: no time to tidy up."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.kill()

    def get(self, path: str) -> Any:
        request = urllib.request.Request(self.url + path)
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


@dataclass
class Hands:
    """A person at the page: looks at the screen and uses the pointer and the keyboard."""

    page: Page
    server: Server
    errors: list[str]

    @classmethod
    def at(
        cls,
        browser: Browser,
        server: Server,
        size: tuple[int, int] = WIDE,
        *,
        touch: bool = False,
    ) -> Hands:
        page = browser.new_page(viewport={"width": size[0], "height": size[1]}, has_touch=touch)
        page.set_default_timeout(20_000)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(server.url)
        page.locator("#page > *").first.wait_for()
        return cls(page, server, errors)

    # Looking

    @property
    def project(self) -> str:
        return re.findall(r"/p/([0-9a-f]+)", self.page.url)[0]

    @property
    def hypothesis(self) -> str:
        return re.findall(r"/h/([0-9a-f]+)", self.page.url)[0]

    def state(self) -> dict[str, Any]:
        """The open hypothesis as the database has it."""
        path = f"/api/projects/{self.project}/hypotheses/{self.hypothesis}"
        return self.server.get(path)["state"]

    def placed(self) -> dict[str, dict[str, Any]]:
        """Placements on the board by the pieces' names."""
        placements = self.state()["placements"]
        names = {piece["id"]: piece["name"] for piece in self.pieces()}
        return {names[i]: row for i, row in placements.items() if row["placed"] and i in names}

    def pieces(self) -> list[dict[str, Any]]:
        return [
            p for p in self.server.get(f"/api/projects/{self.project}/pieces") if not p["discarded"]
        ]

    def well_inside(self, count: int) -> list[str]:
        """Names of pieces whose middles lie well inside the board, the largest first."""
        good = []
        for piece in sorted(self.pieces(), key=lambda p: -p["area_mm2"]):
            x, y = self.where(piece["name"])
            if 350 < x < 1050 and 150 < y < 780:
                good.append(piece["name"])
        assert len(good) >= count
        return good[:count]

    def where(self, name: str) -> tuple[float, float]:
        """The middle of a piece on the screen: a spot that shows this piece and no other."""
        found = self.page.evaluate(
            """(name) => {
              const board = window.reassembly.board;
              const box = board.container.getBoundingClientRect();
              const item = board.items.find((i) => i.piece.name === name);
              const a = item.placement.rotation_deg * Math.PI / 180;
              const [x, y] = item.piece.centroid_mm;
              const { x_mm, y_mm, px_per_mm } = board.camera;
              const bx = item.placement.x_mm + Math.cos(a) * x + Math.sin(a) * y;
              const by = item.placement.y_mm - Math.sin(a) * x + Math.cos(a) * y;
              return [box.left + (bx - x_mm) * px_per_mm, box.top + (by - y_mm) * px_per_mm];
            }""",
            name,
        )
        return found[0], found[1]

    def boxes(self) -> dict[str, Box]:
        """Left, top, right and bottom, mm, of every piece that the board shows, by its name."""
        return {name: box for name, _, box in self._shown()}

    def islands(self) -> dict[int, list[Box]]:
        """The boxes of the pieces that the board shows, by island."""
        found: dict[int, list[Box]] = {}
        for _, island, box in self._shown():
            found.setdefault(island, []).append(box)
        return found

    def _shown(self) -> list[tuple[str, int, Box]]:
        """Name, island and box of all pieces at one moment, since attempts come and go."""
        return [
            (name, island, tuple(box))
            for name, island, box in self.page.evaluate(
                """() => window.reassembly.board.items.map((item) => {
                  const { left, top, right, bottom } = window.reassembly.board.boxOf([item]);
                  return [item.piece.name, item.placement.island, [left, top, right, bottom]];
                })"""
            )
        ]

    def scale(self) -> float:
        """Pixels of the screen in a millimetre of the board."""
        return float(self.page.evaluate("window.reassembly.board.camera.px_per_mm"))

    def handle(self) -> tuple[float, float]:
        """The rotation handle on the screen."""
        found = self.page.evaluate(
            """() => {
              const board = window.reassembly.board;
              const box = board.container.getBoundingClientRect();
              return [box.left + board.handleAt[0], box.top + board.handleAt[1]];
            }"""
        )
        return found[0], found[1]

    def chosen(self) -> str:
        return self.page.locator(".status-bar").inner_text()

    def wait_saved(self) -> None:
        """Until the page says that every change is safe."""
        self.page.locator(".saved", has_text=re.compile("^Saved$")).wait_for(timeout=60_000)

    def until(self, script: str, argument: Any = None, limit_s: float = 20.0) -> None:
        """Until a function of JavaScript holds; asked from outside, as the page forbids eval."""
        end = time.monotonic() + limit_s
        while not self.page.evaluate(script, argument):
            assert time.monotonic() < end, f"not within {limit_s} s: {script}"
            self.page.wait_for_timeout(50)

    # Acting

    def skip_tour(self) -> None:
        self.page.get_by_role("button", name="Skip").click()

    def confirm_import(self) -> None:
        """Presses the button of the dialog; a first visitor is then shown the tour."""
        view = self.page.evaluate("JSON.parse(localStorage.getItem('reassembly.view') ?? '{}')")
        dialog = self.page.get_by_role("dialog", name="Bring in pieces")
        dialog.get_by_role("button", name="Bring in", exact=True).click()
        dialog.wait_for(state="detached")
        if not view.get("toured"):
            self.skip_tour()

    def open_project(self, name: str) -> None:
        self.page.get_by_role("link", name=re.compile(name)).click()
        self.page.locator(".board").wait_for()
        self.skip_tour()
        self.page.wait_for_url(re.compile("/h/"))

    def switch_to(self, hypothesis: str) -> None:
        before = self.hypothesis
        self.page.get_by_label("Hypothesis", exact=True).select_option(label=hypothesis)
        self._arrive(before)

    def branch(self, name: str = "") -> None:
        """Branches the open hypothesis, and goes there. `name`: another than the one offered."""
        self.page.get_by_role("button", name="Branch this hypothesis").first.click()
        self.page.keyboard.type(name)
        before = self.hypothesis
        self.page.keyboard.press("Enter")
        self._arrive(before)

    def _arrive(self, before: str) -> None:
        """Until another hypothesis than `before` is shown."""
        self.until("(before) => !location.hash.endsWith(before)", before)
        # The address is first; what is shown comes from the server.
        shows(self.page.get_by_label("Hypothesis", exact=True), self.hypothesis)
        self.settle()

    def delete_hypothesis(self, name: str) -> None:
        self.tab("Versions")
        row = self.page.locator(".version", has=self.page.get_by_text(name, exact=True))
        row.get_by_role("button", name="Delete").click()
        self.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        row.wait_for(state="detached")

    def settle(self) -> None:
        """Until the board stands still with all its pictures."""
        self.until("() => window.reassembly?.board?.ready")
        self.page.wait_for_timeout(200)

    def click(self, name: str, *, adding: bool = False) -> None:
        x, y = self.where(name)
        if adding:
            self.page.keyboard.down("Shift")
        self.page.mouse.click(x, y)
        if adding:
            self.page.keyboard.up("Shift")

    def drag(self, start: tuple[float, float], end: tuple[float, float], steps: int = 8) -> None:
        self.page.mouse.move(*start)
        self.page.mouse.down()
        self.page.mouse.move(*end, steps=steps)
        self.page.mouse.up()

    def fingers(self, *steps: Sequence[Spot], rest_ms: float = 0) -> None:
        """Puts fingers down, moves them from step to step and lifts them.

        Args:
            steps: where each finger is, in the same order in every step.
            rest_ms: how long they rest before they move or lift.
        """
        session = self.page.context.new_cdp_session(self.page)

        def send(kind: str, spots: Sequence[Spot]) -> None:
            points = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(spots)]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        for count in range(1, len(steps[0]) + 1):
            send("touchStart", steps[0][:count])
        self.page.wait_for_timeout(rest_ms)
        for spots in steps[1:]:
            send("touchMove", spots)
            self.page.wait_for_timeout(16)
        send("touchEnd", [])
        session.detach()

    def tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name).click()

    def drop_files(self, *paths: Path) -> None:
        """Drags files or folders from a file manager onto the middle of the page."""
        size = self.page.viewport_size
        assert size is not None
        session = self.page.context.new_cdp_session(self.page)
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            session.send(
                "Input.dispatchDragEvent",
                {"type": kind, "x": size["width"] / 2, "y": size["height"] / 2, "data": data},
            )
        session.detach()


def shows(field: Locator, value: str) -> None:
    """Asserts that a field shows a value: within a moment, since pages are drawn after the fact."""
    from playwright.sync_api import expect

    expect(field).to_have_value(value)


def cut_outs(folder: Path, puzzle: Puzzle) -> Path:
    """The puzzle's pieces as RGBA files."""
    folder.mkdir(parents=True)
    for fragment in puzzle.fragments:
        alpha = np.where(fragment.mask, 255, 0).astype(np.uint8)
        Image.fromarray(np.dstack([fragment.image, alpha])).save(folder / f"{fragment.id}.png")
    return folder


def bring_in(hands: Hands, folder: Path, mm_per_px: float) -> None:
    """Drops a folder on the page and gives its scale as a number."""
    page = hands.page
    hands.drop_files(folder)
    page.get_by_label("I know it").click()
    page.get_by_label("One pixel is").click()
    page.keyboard.type(str(mm_per_px))
    page.keyboard.press("Tab")
    hands.confirm_import()
    page.locator(".thumb-button").first.wait_for()


def choose_method(hands: Hands, solver: str) -> None:
    hands.tab("Solve")
    method = hands.page.get_by_label("Method")
    if not method.is_visible():
        hands.page.locator("summary", has_text="Solver").click()
    method.select_option(solver)


def solve(hands: Hands) -> None:
    hands.tab("Solve")
    hands.page.get_by_role("button", name="Solve", exact=True).click()


def wait_solved(hands: Hands, limit_s: float = 120) -> None:
    hands.page.locator(".proposal").first.wait_for(timeout=limit_s * 1000)
    hands.wait_saved()


@contextmanager
def held_workers(server: Server) -> Iterator[None]:
    """Stops what solves, so that its attempt stays for as long as a test looks at it."""
    assert server.process is not None
    workers = psutil.Process(server.process.pid).children(recursive=True)
    for worker in workers:
        worker.suspend()
    try:
        yield
    finally:
        for worker in workers:
            # The server may have ended one by now.
            with suppress(psutil.NoSuchProcess):
                worker.resume()
