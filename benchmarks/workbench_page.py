"""Prints what panning, zooming and dragging cost the page, by the browser's own trace.

python benchmarks/workbench_page.py [--pieces 300] [--size 2000] [--seconds 4]
"""

from __future__ import annotations

import argparse
import json
import math
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from reassembly.app.operations import Place
from reassembly.app.pictures import keep_cut_out
from reassembly.app.store import Store

DRAWN = 8
"""Pictures drawn; the other pieces have copies under names of their own."""
MM_PER_PX = 0.1
PROMISE_MS = 8.0
SCRIPTING = {
    "EvaluateScript",
    "EventDispatch",
    "FireAnimationFrame",
    "FunctionCall",
    "RunMicrotasks",
    "TimerFire",
    "V8.GC_MC_BACKGROUND_MARKING",
    "MajorGC",
    "MinorGC",
}
CATEGORIES = "devtools.timeline,v8.execute,disabled-by-default-devtools.timeline"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pieces", type=int, default=300)
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        project = fill(workspace, options.pieces, options.size)
        print(f"{options.pieces} pieces of {options.size} x {options.size} px, window 1440 x 900")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "reassembly.cli", "serve", "--no-browser"]
        command += ["--port", str(port), "--workspace", str(workspace)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url)
            measure(f"{url}/#/p/{project}", options.seconds)
        finally:
            server.terminate()
            server.wait()


def fill(workspace: Path, count: int, size_px: int) -> str:
    """A project whose pieces lie in rows. Returns its id."""
    images = workspace / "images"
    drawn = [draw(images, k, size_px) for k in range(min(DRAWN, count))]
    pictures, pieces = [], []
    for k in range(count):
        picture = dict(drawn[k % len(drawn)])
        if k >= len(drawn):
            sha256 = secrets.token_hex(32)
            shutil.copytree(images / picture["sha256"], images / sha256)
            picture["sha256"] = sha256
        pictures.append(picture)
        pieces.append(
            {
                "name": f"Piece {k + 1}",
                "filename": "",
                "mm_per_px": MM_PER_PX,
                "scale_origin": "option",
                "picture": picture["sha256"],
                "frame_width_px": size_px,
                "frame_height_px": size_px,
                "left_px": 0,
                "top_px": 0,
                "warnings": [],
            }
        )
    store = Store(workspace, lambda *_: None)
    project = store.add_project("Many pieces")
    ids = store.add_pieces(project, pieces, pictures)
    columns, step = math.ceil(math.sqrt(count * 1.5)), size_px * MM_PER_PX * 0.8
    store.edit(
        project,
        store.hypotheses(project)[0].id,
        [
            Place(piece=i, x_mm=k % columns * step, y_mm=k // columns * step, rotation_deg=k * 7.0)
            for k, i in enumerate(ids)
        ],
        author="benchmark",
        summary="laid out",
    )
    store.close()
    return project


def draw(images: Path, seed: int, size_px: int) -> dict[str, Any]:
    """A painted blob with a ragged rim."""
    rng = np.random.default_rng(seed)
    noise = rng.uniform(0, 255, (24, 24, 3)).astype(np.float32)
    rgb = cv2.resize(noise, (size_px, size_px), interpolation=cv2.INTER_CUBIC).clip(0, 255)
    rgb = (rgb + rng.normal(0, 4, rgb.shape)).clip(0, 255).astype(np.uint8)
    angles = np.linspace(0, math.tau, 400, endpoint=False)
    radius = 0.4 + sum(
        rng.normal(0, 0.05 / k) * np.sin(k * angles + rng.uniform(0, 6)) for k in range(2, 40)
    )
    rim = np.column_stack([np.cos(angles), np.sin(angles)]) * radius[:, None] * size_px
    mask = np.zeros((size_px, size_px), np.uint8)
    cv2.fillPoly(mask, [np.rint(rim + size_px / 2).astype(np.int32)], 1)
    return keep_cut_out(images, rgb, mask.astype(bool))


def wait_for(url: str) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{url}/api/projects", timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not answer")


def measure(address: str, seconds: float) -> None:
    from playwright.sync_api import sync_playwright

    path = next(p for n in ("chromium", "google-chrome", "chrome") if (p := shutil.which(n)))
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        start = time.perf_counter()
        page.goto(address)
        page.locator(".board canvas").first.wait_for()
        print(f"  board shown after {time.perf_counter() - start:.2f} s")
        page.get_by_role("button", name="Skip").click()
        settle(page)
        print(f"  every picture there after {time.perf_counter() - start:.2f} s")
        x, y = 700.0, 500.0

        def circle(k: int) -> None:
            page.mouse.move(x + 180 * math.sin(k / 12), y + 120 * math.cos(k / 12))

        def zoom(k: int) -> None:
            page.mouse.wheel(0, -60 if k // 30 % 2 == 0 else 60)

        page.mouse.move(x, y)
        page.mouse.down(button="middle")
        report(page, "pan, all in view", circle, seconds)
        page.mouse.up(button="middle")
        report(page, "zoom, all in view", zoom, seconds)
        settle(page)
        page.keyboard.press("f")
        settle(page)
        page.mouse.move(x, y)
        page.mouse.down()
        report(page, "drag a piece or a frame", circle, seconds)
        page.mouse.up()
        page.keyboard.press("Escape")
        for _ in range(14):
            page.mouse.wheel(0, -120)
        settle(page)
        page.mouse.down(button="middle")
        report(page, "pan, close up", circle, seconds)
        page.mouse.up(button="middle")
        browser.close()


def settle(page: Any) -> None:
    page.wait_for_timeout(400)
    while not page.evaluate("window.reassembly?.board?.ready"):
        page.wait_for_timeout(100)


def report(page: Any, name: str, act: Callable[[int], None], seconds: float) -> None:
    browser = page.context.browser
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        browser.start_tracing(page=page, path=path, categories=CATEGORIES.split(","))
        end, k = time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            act(k)
            page.wait_for_timeout(16)
            k += 1
        browser.stop_tracing()
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    wall, own = frame_times(events)
    print(f"  {name}: scripting a frame (promise: 8 ms), {len(wall)} frames")
    for clock, frames in (("by the clock", wall), ("processor time of the thread", own)):
        late = (frames > PROMISE_MS).mean()
        print(
            f"    {clock}: median {np.median(frames):.2f} ms, 95 % {np.percentile(frames, 95):.2f},"
            f" worst {frames.max():.2f}; {late:.1%} of frames over the promise"
        )


def frame_times(events: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds of scripting in each frame that ran an animation callback: by the clock, and
    by the processor time of the thread, in which other programs do not count."""
    drawn = [e for e in events if e["name"] == "FireAnimationFrame" and e["ph"] == "X"]
    thread = (drawn[0]["pid"], drawn[0]["tid"])
    starts = np.array(sorted(e["ts"] for e in drawn))
    starts = starts[np.r_[True, np.diff(starts) > 2000]]
    spans = sorted(
        (e["ts"], e["ts"] + e.get("dur", 0), e.get("tdur", math.nan))
        for e in events
        if e["name"] in SCRIPTING and e["ph"] == "X" and (e["pid"], e["tid"]) == thread
    )
    wall, own, end = np.zeros(len(starts)), np.zeros(len(starts)), 0.0
    for first, last, spent in spans:
        if first < end:  # Within another that is counted already.
            continue
        end = last
        # What runs before a callback, such as the pointer's event, belongs to the same frame.
        at = min(int(np.searchsorted(starts, first, side="left")), len(starts) - 1)
        wall[at] += (last - first) / 1000
        own[at] += spent / 1000
    return wall, own


if __name__ == "__main__":
    main()
