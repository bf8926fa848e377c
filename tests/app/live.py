"""A real server in a process of its own, and a client that talks to it as a page would."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2
import httpx
import numpy as np

from reassembly.puzzle import Fragment
from tests.puzzles import drawn_puzzle

SOURCE = Path(__file__).resolve().parents[2] / "src"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Live:
    """A server process on a workspace; `stop` asks it to end, `kill` does not ask."""

    def __init__(self, workspace: Path, *arguments: str, host: str = "127.0.0.1") -> None:
        self.workspace, self.port = workspace, free_port()
        self.url = f"http://{host}:{self.port}"
        environment = os.environ | {"PYTHONPATH": str(SOURCE), "REASSEMBLY_DEBUG": "1"}
        command = [sys.executable, "-m", "reassembly.cli", "serve", "--no-browser"]
        command += ["--workspace", str(workspace), "--port", str(self.port), "--host", host]
        self.log = workspace.parent / f"{workspace.name}-{self.port}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *arguments], stdout=log, stderr=subprocess.STDOUT, env=environment
            )
        self.client = httpx.Client(base_url=self.url, timeout=30.0)
        self._await()

    def _await(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                self.client.get("/api/projects")
                return
            except httpx.TransportError:
                time.sleep(0.05)
        self.kill()
        raise RuntimeError(self.log.read_text(encoding="utf-8"))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.client.close()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.client.close()

    # As a page would

    def get(self, path: str, **parameters: Any) -> Any:
        return self._answer(self.client.get(f"/api{path}", params=parameters))

    def post(self, path: str, body: Any = None, **more: Any) -> Any:
        return self._answer(self.client.post(f"/api{path}", json=body, **more))

    def _answer(self, response: httpx.Response) -> Any:
        assert response.status_code < 300, (response.status_code, response.text)
        return response.json()

    def project(self, name: str = "Test") -> tuple[str, str]:
        """A new project, and its hypothesis."""
        made = self.post("/projects", {"name": name})
        return made["id"], made["hypotheses"][0]["id"]

    def edit(self, project: str, hypothesis: str, *operations: dict[str, Any]) -> Any:
        body = {"operations": operations, "author": "Ada", "client": "w1"}
        return self.post(f"/projects/{project}/hypotheses/{hypothesis}/edits", body)

    def wait(self, job: dict[str, Any], state: str = "done", timeout_s: float = 60.0) -> Any:
        """Waits for a job to end."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            found = self.get(f"/jobs/{job['id']}")
            if found["state"] not in {"queued", "running"}:
                assert found["state"] == state, found
                return found
            time.sleep(0.05)
        raise AssertionError(f"job did not end: {found}")

    def send(self, project: str, files: dict[str, bytes]) -> Any:
        """Uploads files and waits until they have been looked at."""
        parts = [("files", (name, data)) for name, data in files.items()]
        response = self.client.post(f"/api/projects/{project}/uploads", files=parts)
        upload = self._answer(response)
        self.wait(upload["job"])
        return self.get(f"/projects/{project}/uploads/{upload['id']}")

    def bring_in(self, project: str, files: dict[str, bytes], **settings: Any) -> Any:
        """Imports files; returns the finished job."""
        upload = self.send(project, files)
        started = self.post(f"/projects/{project}/imports", {"upload": upload["id"], **settings})
        return self.wait(started["job"])


@contextmanager
def live(workspace: Path, *arguments: str) -> Iterator[Live]:
    server = Live(workspace, *arguments)
    try:
        yield server
    finally:
        server.stop()


class Listener:
    """A window's stream, read in a thread."""

    def __init__(self, server: Live, project: str, after: int | None = None) -> None:
        self.events: list[tuple[str, int | None, Any]] = []
        self._opened = threading.Event()
        path = f"{server.url}/api/projects/{project}/stream"
        self._url = path if after is None else f"{path}?after={after}"
        self._client = httpx.Client(timeout=None)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        assert self._opened.wait(10)

    def _read(self) -> None:
        name, number, data = "", None, ""
        try:
            with self._client.stream("GET", self._url) as response:
                for line in response.iter_lines():
                    key, _, value = line.partition(": ")
                    if key == "event":
                        name = value
                    elif key == "id":
                        number = int(value)
                    elif key == "data":
                        data = value
                    elif not line and name:
                        self.events.append((name, number, json.loads(data)))
                        name, number, data = "", None, ""
                        self._opened.set()
        except httpx.HTTPError:
            self._opened.set()

    def until(
        self, wanted: Callable[[tuple[str, int | None, Any]], bool], timeout_s: float = 10
    ) -> Any:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for event in self.events:
                if wanted(event):
                    return event
            time.sleep(0.01)
        raise AssertionError(f"not heard: {[e[0] for e in self.events]}")

    def close(self) -> None:
        self._client.close()


def png(fragment: Fragment) -> bytes:
    """A fragment as a cut-out."""
    rgba = np.dstack([fragment.image, fragment.mask.astype(np.uint8) * 255])
    _, data = cv2.imencode(".png", cv2.cvtColor(rgba, cv2.COLOR_RGBA2BGRA))
    return bytes(data)


def cut_outs(pieces: int = 4, seed: int = 0) -> dict[str, bytes]:
    """Pieces of a drawn puzzle as PNG files."""
    puzzle = drawn_puzzle(pieces, seed=seed)
    return {f"{fragment.id}.png": png(fragment) for fragment in puzzle.fragments}
