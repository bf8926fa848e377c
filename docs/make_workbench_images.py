"""Makes the pictures of the workbench in the docs: the page in a browser, with painted puzzles.

python docs/make_workbench_images.py
"""

from __future__ import annotations

import io
import math
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from reassembly.synthetic.make import make_puzzle, recipe

IMAGES = Path(__file__).parent / "images"
PAINTED = "As it was painted"
QUALITY = 32


def main() -> None:
    """Writes every picture."""
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "workspace") as url:
        photograph = Path(folder) / "tray 7.jpg"
        lay_out(photograph)
        path = next(p for n in ("chromium", "google-chrome", "chrome") if (p := shutil.which(n)))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            board(browser, url)
            solving(browser, url)
            bringing_in(browser, url, photograph)
            browser.close()


@contextmanager
def served(workspace: Path):
    """A server with the demo in it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "reassembly.cli", "serve", "--demo", "--no-browser"]
    command += ["--port", str(port), "--workspace", str(workspace)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{url}/api/projects", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait()


def opened(browser: Browser, url: str, theme: str, project: str = "Demo") -> Page:
    page = browser.new_context(
        viewport={"width": 1440, "height": 900}, color_scheme=theme
    ).new_page()
    page.goto(url)
    page.get_by_role("link", name=re.compile(project)).click()
    page.get_by_role("button", name="Skip").click()
    page.wait_for_timeout(500)
    return page


def settle(page: Page) -> None:
    page.wait_for_timeout(300)
    while not page.evaluate("window.reassembly?.board?.ready"):
        page.wait_for_timeout(100)
    page.wait_for_timeout(900)


def save(page: Page, name: str) -> None:
    Image.open(io.BytesIO(page.screenshot())).save(IMAGES / name, quality=QUALITY, method=6)


def board(browser: Browser, url: str) -> None:
    """A piece pulled over its neighbour."""
    page = opened(browser, url, "dark")
    page.get_by_label("Hypothesis", exact=True).select_option(label=PAINTED)
    settle(page)
    page.mouse.move(560, 300)
    page.mouse.down()
    page.mouse.move(574, 312, steps=6)
    page.mouse.up()
    page.keyboard.press("i")
    page.mouse.move(1100, 800)
    settle(page)
    save(page, "workbench.webp")
    page.close()


def solving(browser: Browser, url: str) -> None:
    """A solver's attempt, caught while it takes shape."""
    page = opened(browser, url, "light")
    page.get_by_role("button", name="Solve", exact=True).click()
    page.get_by_text("A solver’s attempt").wait_for(timeout=600_000)
    while page.evaluate("window.reassembly.board.items.length") < 8:
        page.wait_for_timeout(20)
    page.wait_for_timeout(120)
    save(page, "workbench-solving.webp")
    page.close()


def bringing_in(browser: Browser, url: str, photograph: Path) -> None:
    """A tray photograph whose scale is set by two clicks."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(url)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose files").click()
    chooser.value.set_files(photograph)
    dialog = page.get_by_role("dialog", name="Bring in pieces")
    dialog.get_by_text("pieces seen").wait_for(timeout=60_000)
    dialog.get_by_label("Two clicks on a ruler").click()
    picture = dialog.locator("svg[aria-label^=Photograph]")
    page.wait_for_timeout(800)
    box = picture.bounding_box()
    assert box is not None
    for x in RULER_ENDS:
        page.mouse.click(box["x"] + x * box["width"], box["y"] + RULER_HEIGHT * box["height"])
    page.wait_for_timeout(300)
    save(page, "workbench-tray.webp")
    page.close()


SIZE = (2400, 1600)
RULER_ENDS = (0.3, 0.7)
RULER_HEIGHT = 0.95


def lay_out(path: Path) -> None:
    """Painted pieces on a dark tray beside a ruler, as a photograph."""
    width, height = SIZE
    rng = np.random.default_rng(0)
    made = make_puzzle(recipe("realistic", pieces=(8, 8)), 5, 0)
    photo = np.full((height, width, 3), (46, 52, 60), np.float64)
    photo += rng.normal(0, 1.5, photo.shape)
    for k, fragment in enumerate(made.puzzle.fragments):
        crop = fragment.cropped()
        factor = min(1.0, 540 / max(crop.mask.shape))
        image = cv2.resize(crop.image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
        mask = cv2.resize(crop.mask.astype(np.float32), image.shape[1::-1]) > 0.5
        top, left = 60 + (k // 4) * 700, 40 + (k % 4) * 590
        window = photo[top : top + mask.shape[0], left : left + mask.shape[1]]
        window[mask[: window.shape[0], : window.shape[1]]] = image[mask]
    y = round(RULER_HEIGHT * height)
    start, end = (round(x * width) for x in RULER_ENDS)
    shown = np.clip(photo, 0, 255).astype(np.uint8)
    cv2.rectangle(shown, (start - 20, y - 18), (end + 20, y + 30), (236, 234, 228), -1)
    for tick in range(21):
        x = round(start + (end - start) * tick / 20)
        reach = 26 if tick % 10 == 0 else 16
        cv2.line(shown, (x, y - 18), (x, y - 18 + reach), (40, 40, 40), 3)
    for tick in range(3):
        x = round(start + (end - start) * tick / 2)
        place = (x - 18 * math.ceil(len(str(tick * 100)) / 2), y + 28)
        cv2.putText(shown, str(tick * 100), place, cv2.FONT_HERSHEY_SIMPLEX, 0.6, (40, 40, 40), 2)
    Image.fromarray(shown).save(path, quality=92)


if __name__ == "__main__":
    main()
