"""Prints how long the workbench takes to answer: start, edits, and twenty readers during a solve.

python benchmarks/workbench.py
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from reassembly.app.operations import Place
from reassembly.app.pictures import keep_cut_out
from reassembly.app.store import Store

READERS, SECONDS, PAUSE_S = 20, 20.0, 0.2
"""Each reader asks, looks for a while, and asks again."""
PIECES = 300
SOLVER = "greedy"
"""With so many pieces, busy for long enough."""


def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        workspace = Path(name)
        big, pieces, hypothesis = fill(workspace)
        start = time.perf_counter()
        process, port = start_server(workspace)
        try:
            print(f"server ready: {time.perf_counter() - start:.2f} s, with {PIECES} pieces")
            show("edit, durable (promise: 50 ms)", edits(port, big, hypothesis, pieces))
            show("project with 300 pieces", times(port, [f"/api/projects/{big}"] * 30))
            job = solve(port, big, hypothesis)
            show(
                f"{READERS} readers while one solves (promise: 95 % under 200 ms)",
                read_together(port, big, hypothesis, workspace),
            )
            found = ask(port, "DELETE", f"/api/jobs/{job}")
            print(f"the solve was {found['state']} to the end, at {found['fraction']:.0%}")
        finally:
            process.terminate()
            process.wait()


def fill(workspace: Path) -> tuple[str, list[str], str]:
    """A project of many pieces, all placed."""
    store = Store(workspace, lambda *_: None)
    rng = np.random.default_rng(0)
    pieces, pictures = [], []
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    for number in range(PIECES):
        waves = (
            rng.normal(0, 12 / n) * np.cos(n * angle + rng.uniform(0, 6)) for n in range(2, 30)
        )
        radius = 130 + sum(waves)
        ring = 200 + np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
        mask = cv2.fillPoly(np.zeros((400, 400), np.uint8), [ring.astype(np.int32)], 1) > 0
        colour = rng.integers(0, 255, (20, 20, 3), np.uint8)
        picture = cv2.resize(colour, (400, 400), interpolation=cv2.INTER_CUBIC)
        pictures.append(keep_cut_out(workspace / "images", picture, mask))
        pieces.append(
            {
                "name": f"piece {number}",
                "mm_per_px": 0.2,
                "scale_origin": "option",
                "picture": pictures[-1]["sha256"],
                "frame_width_px": 400,
                "frame_height_px": 400,
                "left_px": 0,
                "top_px": 0,
                "warnings": [],
            }
        )
    project = store.add_project("Many")
    ids = store.add_pieces(project, pieces, pictures)
    hypothesis = store.hypotheses(project)[0].id
    places = [
        Place(piece=i, x_mm=80.0 * (k % 20), y_mm=80.0 * (k // 20)) for k, i in enumerate(ids)
    ]
    store.edit(project, hypothesis, places)
    store.close()
    return project, ids, hypothesis


def start_server(workspace: Path) -> tuple[subprocess.Popen[bytes], int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "reassembly.cli", "serve", "--no-browser"]
    process = subprocess.Popen(
        [*command, "--workspace", str(workspace), "--port", str(port)],
        stdout=subprocess.DEVNULL,
        env=os.environ,
    )
    while True:
        try:
            ask(port, "GET", "/api/projects")
            return process, port
        except OSError:
            if process.poll() is not None:
                raise SystemExit("the server did not start") from None
            time.sleep(0.02)


def ask(port: int, method: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    text = None if body is None else json.dumps(body)
    connection.request(method, path, text, {"content-type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def edits(port: int, project: str, hypothesis: str, pieces: list[str]) -> list[float]:
    path = f"/api/projects/{project}/hypotheses/{hypothesis}/edits"
    bodies = [
        {"operations": [{"op": "place", "piece": pieces[k % len(pieces)], "x_mm": float(k)}]}
        for k in range(100)
    ]
    return times(port, [path] * len(bodies), bodies)


def times(port: int, paths: list[str], bodies: list[Any] | None = None) -> list[float]:
    """Seconds that each request takes, over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    taken = []
    for number, path in enumerate(paths):
        body = None if bodies is None else json.dumps(bodies[number])
        start = time.perf_counter()
        method = "GET" if body is None else "POST"
        connection.request(method, path, body, {"content-type": "application/json"})
        response = connection.getresponse()
        response.read()
        taken.append(time.perf_counter() - start)
        assert response.status < 300, response.status
    connection.close()
    return taken


def solve(port: int, project: str, hypothesis: str) -> str:
    """Starts a solver on all pieces, and waits until it is at work."""
    path = f"/api/projects/{project}/hypotheses/{hypothesis}/solve"
    job = ask(port, "POST", path, {"solver": SOLVER, "apply": False})["job"]["id"]
    while ask(port, "GET", f"/api/jobs/{job}")["fraction"] < 0.02:
        time.sleep(0.1)
    return str(job)


def read_together(port: int, project: str, hypothesis: str, workspace: Path) -> list[float]:
    pictures = [f"/api/pictures/{p.name}/256.webp" for p in (workspace / "images").iterdir()]
    pictures = [
        p for p in pictures if (workspace / "images" / p.split("/")[3] / "256.webp").exists()
    ]
    often = [f"/api/projects/{project}/hypotheses/{hypothesis}", f"/api/projects/{project}"]
    taken: list[float] = []
    until = time.monotonic() + SECONDS

    def read(seed: int) -> None:
        choose = random.Random(seed)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while time.monotonic() < until:
            path = choose.choice(pictures) if choose.random() < 0.6 else choose.choice(often)
            start = time.perf_counter()
            connection.request("GET", path)
            connection.getresponse().read()
            taken.append(time.perf_counter() - start)
            time.sleep(choose.uniform(0, 2 * PAUSE_S))
        connection.close()

    readers = [threading.Thread(target=read, args=(k,)) for k in range(READERS)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return taken


def show(what: str, taken: list[float]) -> None:
    ms = sorted(1000 * seconds for seconds in taken)
    print(
        f"{what}: median {statistics.median(ms):.1f} ms, 95 % {ms[int(0.95 * len(ms))]:.1f} ms, "
        f"worst {ms[-1]:.1f} ms, of {len(ms)}"
    )


if __name__ == "__main__":
    main()
