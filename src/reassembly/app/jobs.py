"""Jobs: work queued in the database, done in other processes, one of a kind at a time.

A job survives the server: what was running when it ended is queued again at the next start.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, TypeVar

from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError

from reassembly.app import database as db
from reassembly.app import schema
from reassembly.app.store import Conflict, Missing, Store, new_id, now
from reassembly.app.stream import Hub
from reassembly.app.worker import UNWRITTEN, work
from reassembly.errors import InputError
from reassembly.io.files import disk_error
from reassembly.solvers.base import Cancelled

__all__ = ["LANES", "Jobs"]

LANES = {
    "quick": ("inspect", "import", "reference", "repair", "export", "open"),
    "long": ("solve", "joins"),
}
"""What waits for what: nobody's import waits for a solver."""
MOST_QUEUED = 200
MOST_INTERRUPTED = 3
"""A job that was running when the server died this often probably killed it."""
NO_ROOM = "waiting: the workspace cannot be written; make room on its disk"
ROOM_BYTES = 1 << 20
"""So much more room on a disk that was full makes another try worth it."""
AGAIN_S = 60.0
"""After this one is made anyway: a quota, or another disk, is not seen from here."""
GRACE_S = 1.0
"""For a cancelled job to end by itself."""
SHOWN = 20
"""How many finished jobs a project lists."""
ACTIVE = ("queued", "running")

_T = TypeVar("_T")
LOG = logging.getLogger(__name__)

Prepare = Callable[[db.JobRow], dict[str, Any]]
Finish = Callable[[db.JobRow, dict[str, Any]], dict[str, Any]]
Show = Callable[[db.JobRow, dict[str, Any]], dict[str, Any]]


@dataclass
class _Live:
    """A running job, beyond what the database knows."""

    fraction: float = 0.0
    stage: str = "starting"
    started: float = field(default_factory=time.monotonic)
    cancelled: bool = False

    def seconds_left(self) -> float | None:
        if not 0.03 < self.fraction < 1.0 or self.stage == NO_ROOM:
            return None
        return round((time.monotonic() - self.started) * (1 / self.fraction - 1), 1)


class Jobs:
    """The queue and its workers.

    Args:
        prepare: by kind, what makes a job's payload when it starts.
        finish: by kind, what makes its result durable; returns what the job keeps.
        show: by kind, what windows are told of an attempt.
        clean: called once a job is over, for what it no longer needs.
    """

    def __init__(
        self,
        store: Store,
        hub: Hub,
        prepare: Mapping[str, Prepare],
        finish: Mapping[str, Finish],
        show: Mapping[str, Show],
        clean: Callable[[db.JobRow], None],
    ) -> None:
        self.store, self.hub = store, hub
        self._prepare, self._finish, self._show, self._clean = prepare, finish, show, clean
        self._live: dict[str, _Live] = {}
        self._wake = threading.Condition()
        self._stopping = False
        self._threads: list[threading.Thread] = []

    def queue_again(self) -> None:
        """Queues what a dead server left running."""
        with self.store.writing() as change:
            for row in change.session.scalars(
                select(db.JobRow).where(db.JobRow.state == "running")
            ):
                row.interrupted += 1
                row.state, row.fraction, row.stage = "queued", 0.0, "waiting again"
                if row.interrupted >= MOST_INTERRUPTED:
                    row.state, row.stage, row.finished_at = "failed", "", now()
                    row.error = {
                        "what": f"the server ended {row.interrupted} times during this job",
                        "remedy": "Try it with fewer pieces or another solver",
                    }

    def start(self) -> None:
        """Begins with what is queued."""
        for kinds in LANES.values():
            thread = threading.Thread(target=self._lane, args=(kinds,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Ends the workers; running jobs stay as they are in the database."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        for thread in self._threads:
            thread.join(timeout=5)

    def submit(
        self,
        kind: str,
        project_id: str | None,
        hypothesis_id: str | None,
        settings: dict[str, Any],
        job_id: str | None = None,
    ) -> schema.Job:
        """Queues a job.

        Args:
            job_id: for one that is known beforehand; a new one by default.
        """
        with self.store.writing() as change:
            waiting = select(func.count()).where(db.JobRow.state == "queued")
            if (change.session.scalar(waiting) or 0) >= MOST_QUEUED:
                raise Conflict("too many jobs are waiting", "Wait for some of them, or cancel them")
            row = db.JobRow(
                id=job_id or new_id(),
                project_id=project_id,
                hypothesis_id=hypothesis_id,
                kind=kind,
                settings=settings,
                created_at=now(),
                state="queued",
                fraction=0.0,
                stage="waiting",
                interrupted=0,
            )
            change.session.add(row)
            change.session.flush()
        self._tell(row)
        with self._wake:
            self._wake.notify_all()
        return self._model(row)

    def get(self, job_id: str) -> schema.Job:
        return self._model(self.row(job_id))

    def row(self, job_id: str) -> db.JobRow:
        with self.store.reading() as session:
            row = session.scalar(select(db.JobRow).where(db.JobRow.id == job_id))
            if row is None:
                raise Missing("job")
            return row

    def of_project(
        self, project_id: str, *, most: int = SHOWN, states: Collection[str] | None = None
    ) -> list[schema.Job]:
        """The newest first."""
        with self.store.reading() as session:
            query = select(db.JobRow).where(db.JobRow.project_id == project_id)
            if states is not None:
                query = query.where(db.JobRow.state.in_(states))
            rows = session.scalars(query.order_by(db.JobRow.number.desc()).limit(most)).all()
        return _only_last_proposals([self._model(row) for row in rows])

    def cancel(self, job_id: str) -> schema.Job:
        """A waiting job will not start; a running one ends within seconds."""
        with self.store.writing() as change:
            row = change.session.scalar(select(db.JobRow).where(db.JobRow.id == job_id))
            if row is None:
                raise Missing("job")
            if row.state == "queued":
                row.state, row.stage, row.finished_at = "cancelled", "", now()
        live = self._live.get(job_id)
        if live is not None:
            live.cancelled, live.stage = True, "cancelling"
        self._tell(row)
        return self._model(row)

    def cancel_all(self, project_id: str, hypothesis_id: str | None = None) -> None:
        """Those of a project, or of one of its hypotheses only."""
        for job in self.of_project(project_id, most=MOST_QUEUED, states=ACTIVE):
            if hypothesis_id in (None, job.hypothesis):
                self.cancel(job.id)

    # The lanes' threads

    def _lane(self, kinds: tuple[str, ...]) -> None:
        worker = _Worker(patient="solve" in kinds)
        try:
            while not self._stopping:
                try:
                    row = self._next(kinds)
                    if row is not None:
                        self._attempt(row, worker)
                        continue
                # Whatever happens, say a full disk: a lane that ends leaves its jobs waiting for
                # ever, and what cannot be noted now is noted when the server starts again.
                except Exception:
                    LOG.exception("jobs of the kinds %s stumbled", ", ".join(kinds))
                self._pause()
        finally:
            worker.end()

    def _attempt(self, row: db.JobRow, worker: _Worker) -> None:
        try:
            self._run(row, worker)
        except Exception as error:
            what, remedy = (
                f"this failed inside the server ({type(error).__name__}: {error})",
                "This is our fault: please report it",
            )
            if (told := disk_error(error)) is not None:
                what, remedy = told.what, UNWRITTEN
            self._end(row, "failed", error=(what, remedy))

    def _next(self, kinds: tuple[str, ...]) -> db.JobRow | None:
        with self.store.reading() as session:
            waiting = session.scalar(
                select(db.JobRow.number)
                .where(db.JobRow.state == "queued", db.JobRow.kind.in_(kinds))
                .order_by(db.JobRow.number)
                .limit(1)
            )
        if waiting is None:
            return None
        with self.store.writing() as change:
            row = change.session.get(db.JobRow, waiting)
            if row is None or row.state != "queued":
                return None
            row.state, row.started_at, row.stage = "running", now(), "starting"
            self._live[row.id] = _Live()
        self._tell(row)
        return row

    def _run(self, row: db.JobRow, worker: _Worker) -> None:
        try:
            payload = {**self._prepare[row.kind](row), "kind": row.kind}
        except (InputError, Conflict) as error:
            self._end(row, "failed", error=(error.what, error.remedy))
            return
        except Missing as error:
            self._end(row, "failed", error=(str(error), "It was deleted meanwhile"))
            return
        live = self._live[row.id]
        worker.give(payload)
        asked = None
        while True:
            if self._stopping:
                worker.end()
                return
            if live.cancelled:
                if asked is None:
                    asked = time.monotonic()
                    worker.cancel()
                elif time.monotonic() - asked > GRACE_S:
                    worker.end()
                    self._end(row, "cancelled")
                    return
            message = worker.hear(0.1)
            if message is None:
                continue
            if message[0] == "progress":
                _, live.fraction, live.stage, preview = message
                self._tell(row, self._attempted(row, preview))
            elif live.cancelled or message[0] == "cancelled":
                self._end(row, "cancelled")
                return
            elif message[0] == "done":
                self._complete(row, message[1])
                return
            elif message[0] == "full":
                if not self._waited_for_room(row, live):
                    self._end(row, "cancelled")
                    return
                worker.give(payload)
            else:
                self._end(row, "failed", error=(message[1], message[2]))
                return

    def _attempted(self, row: db.JobRow, preview: dict[str, Any] | None) -> Any:
        if preview is None or row.kind not in self._show:
            return preview
        try:
            return self._show[row.kind](row, preview)
        except Missing:  # It was deleted meanwhile.
            return None

    def _complete(self, row: db.JobRow, result: dict[str, Any]) -> None:
        def finish() -> dict[str, Any]:
            if (live := self._live.get(row.id)) is not None and live.cancelled:
                raise Cancelled
            return self._finish[row.kind](row, result)

        try:
            kept = self._patiently(row, finish)
        except Cancelled:
            self._end(row, "cancelled")
        except (InputError, Conflict) as error:
            self._end(row, "failed", error=(error.what, error.remedy))
        except Missing as error:
            self._end(row, "failed", error=(str(error), "It was deleted meanwhile"))
        else:
            self._end(row, "done", result=kept)

    def _patiently(self, row: db.JobRow, write: Callable[[], _T]) -> _T:
        """What `write` returns. While the workspace cannot be written, says so and waits: what a
        job has found must not be lost to a full disk."""
        while True:
            try:
                return write()
            except OperationalError:
                if self._stopping:
                    raise
                if (live := self._live.get(row.id)) is not None:
                    live.stage = f"cancelling, {NO_ROOM}" if live.cancelled else NO_ROOM
                self._tell(row)
                self._pause()

    def _waited_for_room(self, row: db.JobRow, live: _Live) -> bool:
        """Waits until a job that met a full disk may begin again; False if it is cancelled."""
        before, until = self._free_bytes(), time.monotonic() + AGAIN_S
        live.fraction, live.stage = 0.0, NO_ROOM
        self._tell(row)
        while not (self._stopping or live.cancelled) and time.monotonic() < until:
            self._pause()
            if self._free_bytes() >= before + ROOM_BYTES:
                break
        live.started = time.monotonic()
        return not live.cancelled

    def _free_bytes(self) -> int:
        return shutil.disk_usage(self.store.folder).free

    def _pause(self) -> None:
        with self._wake:
            self._wake.wait(timeout=1.0)

    def _end(
        self,
        row: db.JobRow,
        state: str,
        *,
        result: dict[str, Any] | None = None,
        error: tuple[str, str] | None = None,
    ) -> None:
        live = self._live.get(row.id, _Live(row.fraction))

        def write() -> db.JobRow | None:
            with self.store.writing() as change:
                # By its id: the number of one whose project was deleted is given to another.
                ended = change.session.scalar(select(db.JobRow).where(db.JobRow.id == row.id))
                if ended is None:
                    return None
                ended.state, ended.result, ended.finished_at = state, result, now()
                ended.fraction = 1.0 if state == "done" else live.fraction
                ended.stage = ""
                ended.error = None if error is None else {"what": error[0], "remedy": error[1]}
            return ended

        ended = self._patiently(row, write)
        self._live.pop(row.id, None)
        if ended is not None:
            self._clean(ended)
            self._tell(ended)

    def _tell(self, row: db.JobRow, preview: Any = None) -> None:
        if row.project_id is not None:
            data = self._model(row).model_dump(mode="json")
            self.hub.publish(row.project_id, ("job", None, {**data, "preview": preview}))

    def _model(self, row: db.JobRow) -> schema.Job:
        live = self._live.get(row.id) if row.state == "running" else None
        return schema.Job.model_validate(
            {
                "id": row.id,
                "project": row.project_id,
                "hypothesis": row.hypothesis_id,
                "kind": row.kind,
                "state": row.state,
                "fraction": row.fraction if live is None else live.fraction,
                "stage": row.stage if live is None else live.stage,
                "seconds_left": None if live is None else live.seconds_left(),
                "created_at": row.created_at,
                "started_at": row.started_at,
                "finished_at": row.finished_at,
                "interrupted": row.interrupted,
                "error": row.error,
                "settings": row.settings,
                "result": _shown(row.result),
            }
        )


def _shown(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """A result without what only the server needs."""
    if result is None or "proposals" not in result:
        return result
    kept = [{k: v for k, v in each.items() if k != "poses"} for each in result["proposals"]]
    return {**result, "proposals": kept}


def _only_last_proposals(jobs: list[schema.Job]) -> list[schema.Job]:
    """Of each hypothesis, the newest answer with its poses; older ones are asked for by job."""
    seen: set[str | None] = set()
    for job in jobs:
        if job.kind == "solve" and job.result is not None:
            if job.hypothesis in seen:
                job.result = {**job.result, "proposals": []}
            seen.add(job.hypothesis)
    return jobs


class _Worker:
    """A process, started when it is first needed, and again when it has died."""

    def __init__(self, patient: bool) -> None:
        self._patient = patient
        self._context = get_context("spawn")
        self._process: Any = None
        self._connection: Any = None

    def give(self, payload: dict[str, Any]) -> None:
        if self._process is None or not self._process.is_alive():
            self.end()
            self._connection, theirs = self._context.Pipe()
            self._process = self._context.Process(
                target=work, args=(theirs, self._patient), daemon=True
            )
            self._process.start()
            theirs.close()
        self._connection.send(("task", payload))

    def cancel(self) -> None:
        try:
            self._connection.send(("cancel",))
        except OSError:
            self.end()

    def hear(self, timeout_s: float) -> tuple[Any, ...] | None:
        """The next message; None if there is none yet."""
        try:
            if self._connection is not None and self._connection.poll(timeout_s):
                message: tuple[Any, ...] = self._connection.recv()
                return message
        except (EOFError, OSError):
            self.end()
        if self._process is None:
            return (
                "failed",
                "the process that did this ended, perhaps for want of memory",
                "Close other programs, or take fewer or smaller pictures",
            )
        return None

    def end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.join(timeout=2)
            if self._process.is_alive():
                self._process.kill()
                self._process.join(timeout=2)
            self._connection.close()
        self._process = self._connection = None
