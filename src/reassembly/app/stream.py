"""Messages to every open window, so that all of them show the same."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

from reassembly.app.store import Message

__all__ = ["Hub", "as_text"]

MOST_WAITING = 1000
"""Messages for a window that does not read; then it is cut off, and catches up on its own."""
BEAT_S = 15.0


class Hub:
    """Hands messages to the windows of a project. `publish` may be called from any thread."""

    def __init__(self) -> None:
        self._queues: dict[str, set[asyncio.Queue[Message | None]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self.closed = False

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def close(self) -> None:
        """Ends every stream."""
        with self._lock:
            self.closed = True
            waiting = [queue for queues in self._queues.values() for queue in queues]
        for queue in waiting:
            self._put(queue, None)

    def publish(self, project_id: str, message: Message) -> None:
        with self._lock:
            waiting = list(self._queues.get(project_id, ()))
        for queue in waiting:
            self._put(queue, message)

    def _put(self, queue: asyncio.Queue[Message | None], message: Message | None) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_offer, queue, message)

    def join(self, project_id: str) -> asyncio.Queue[Message | None]:
        queue: asyncio.Queue[Message | None] = asyncio.Queue(MOST_WAITING)
        with self._lock:
            self._queues.setdefault(project_id, set()).add(queue)
        return queue

    def leave(self, project_id: str, queue: asyncio.Queue[Message | None]) -> None:
        with self._lock:
            self._queues.get(project_id, set()).discard(queue)

    async def messages(
        self, project_id: str, queue: asyncio.Queue[Message | None], seen: int
    ) -> AsyncIterator[str]:
        """Messages as text, from `seen` on, until the window or the server closes."""
        try:
            while not self.closed:
                try:
                    message = await asyncio.wait_for(queue.get(), BEAT_S)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if message is None:
                    return
                name, sequence, _ = message
                if sequence is not None and sequence <= seen:
                    continue
                seen = max(seen, sequence or 0)
                yield as_text(message)
                if name == "gone":
                    return
        finally:
            self.leave(project_id, queue)


def _offer(queue: asyncio.Queue[Message | None], message: Message | None) -> None:
    if queue.full():
        while not queue.empty():
            queue.get_nowait()
        message = None
    queue.put_nowait(message)


def as_text(message: Message) -> str:
    """In the format of server-sent events."""
    name, sequence, data = message
    head = f"event: {name}\n" + ("" if sequence is None else f"id: {sequence}\n")
    text: Any = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"{head}data: {text}\n\n"
