"""Tasks in, results out as they complete: in processes of this machine, or of a Ray cluster.

Local processes end when the process that started them does, even by kill -9. Wherever a process
dies, the tasks it had in hand are done again; one that dies with its process every time is told as
`Died`, and the others go on.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import connection, get_context
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import psutil

from reassembly._version import __version__
from reassembly.errors import InputError, InputWarning

__all__ = [
    "Cluster",
    "Died",
    "check_cluster",
    "cluster",
    "one_thread",
    "run_each",
    "wait_until_seen",
    "worker_pool",
]

T = TypeVar("T")
R = TypeVar("R")

IN_FLIGHT = 3
"""Tasks handed to each local worker ahead of time."""
ATTEMPTS = 3
"""How often a task may lose its process on a cluster, where machines come and go."""
LOOK_EVERY_S = 2.0
KNOCK_S = 10.0
"""How long the head of a cluster may take to answer."""
GONE_AFTER_S = 15.0
"""How long it may be silent before we give it up; Ray itself ends the process after 60 s, without
a word to it."""
SETTLE_S = 1.0
"""How long to ask nothing of Ray after a death: where it was Ray on this machine that ended, it
would end this process, too, without a word."""
SAY_AFTER_S = 60.0
"""How long a cluster may have no room for us before we say so."""
SEEN_WITHIN_S = 60.0
"""How long a network file system may hide from one machine what another has written."""


@dataclass(frozen=True)
class Died:
    """In the place of a result: the task's process died, or was ended."""

    late: bool = False
    """Whether it was ended because it took too long."""


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster that this process is connected to."""

    address: str
    home: Path
    """The folder in which the command was given: relative paths mean the same everywhere."""
    token: Path
    """A file in the shared folder, by which a machine shows that it sees it."""
    head: str
    """HOST:PORT at which its head answers as long as it is there."""
    node: psutil.Process | None = None
    """Ray's own process on this machine, through which all is asked; None where it is not seen."""


class _HeadLostError(InputError):
    """The head of the cluster does not answer, or Ray on this machine has ended; nothing may be
    asked of Ray any more."""


def run_each(
    function: Callable[[T], R],
    tasks: Iterable[T],
    *,
    workers: int | None,
    machines: Cluster | None = None,
    prepare: Callable[[], object] | None = None,
    patience_s: float | None = None,
    gpu: bool = False,
) -> Iterator[tuple[T, R | Died]]:
    """Calls `function` with every task, in new processes; yields (task, result) as they complete.

    An exception of the function ends it all and is raised here.

    Args:
        function: of a module, since processes import it; or a `partial` of one.
        workers: processes at a time. 0 is none besides this one, in the order of the tasks. On a
            cluster, None is as many as it has room for.
        machines: of `cluster`; None for this machine alone.
        prepare: called once in each new process, before any work.
        patience_s: how long a process may be silent before it is ended.
        gpu: every process needs one, which a cluster has to know.
    """
    if machines is not None:
        yield from _on_cluster(function, tasks, machines, workers, prepare, patience_s, gpu)
    elif workers == 0:
        for task in tasks:
            yield task, function(task)
    else:
        yield from _on_this_machine(
            function, tasks, workers or os.cpu_count() or 1, prepare, patience_s
        )


def one_thread() -> None:
    """Makes this process compute on one thread: sums are then the same on every machine of a kind,
    and processes side by side do not wait for each other. To be given as `prepare`."""
    import cv2
    import torch

    torch.set_num_threads(1)
    cv2.setNumThreads(1)


def worker_pool(workers: int, prepare: Callable[[], object] | None = None) -> ProcessPoolExecutor:
    """A pool of spawned processes.

    Args:
        prepare: called once in each process, before any work.
    """
    return _Pool(workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(prepare,))


class _Pool(ProcessPoolExecutor):
    """Its processes hear Ctrl-C only once they can end without a word: it is for the process that
    started them to speak."""

    def submit(self, *call: Any, **named: Any) -> Future[Any]:
        before = _mask("SIG_BLOCK", {signal.SIGINT})  # A process has the mask of who starts it.
        try:
            return super().submit(*call, **named)
        finally:
            _mask("SIG_SETMASK", before)


def _mask(how: str, signals: Any) -> Any:
    """Windows has no masks."""
    mask = getattr(signal, "pthread_sigmask", None)
    return mask and mask(getattr(signal, how), signals)


def check_cluster(address: str | None) -> None:
    """Raises `InputError` if `cluster` surely would: to be called before anything is written."""
    if address is None:
        return
    _ray()
    try:
        _knock(address)  # Ray itself would try for minutes.
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error


def _knock(address: str) -> None:
    """Raises an error if nobody answers there, and the address says where."""
    if address == "auto":
        address = _last_started()
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_S).close()


def _last_started() -> str:
    """Where Ray takes the cluster `auto` to be: it may be long gone."""
    home = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    noted = Path(home) / "ray" / "ray_current_cluster"
    with suppress(OSError):
        return os.environ.get("RAY_ADDRESS") or noted.read_text(encoding="utf-8").strip()
    return ""


@contextmanager
def cluster(address: str | None, shared: str | PathLike[str]) -> Iterator[Cluster | None]:
    """Connects to the Ray cluster at `address`; gives None for None.

    Args:
        address: `auto`, `HOST:PORT` of the head, or `ray://HOST:PORT`.
        shared: an existing folder that every machine must see under the same path, where results
            go.
    """
    if address is None:
        yield None
        return
    ray = _ray()
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, address)
    token = Path(shared).resolve() / f".reassembly-{secrets.token_hex(4)}"
    outside = address.startswith("ray://")
    head = address if outside else ray.get_runtime_context().gcs_address
    try:
        token.touch()
        yield Cluster(address, Path.cwd(), token, head, None if outside else _node(ray))
    except _HeadLostError:
        ours = False
        raise
    finally:
        with suppress(OSError):
            token.unlink(missing_ok=True)
        if ours:
            ray.shutdown()


def wait_until_seen(path: Path, patience_s: float = SEEN_WITHIN_S) -> bool:
    """Whether a file that another machine has written shows here before long."""
    until = time.monotonic() + patience_s
    while not path.exists():
        if time.monotonic() > until:
            return False
        with suppress(OSError):
            os.listdir(path.parent)  # noqa: PTH208 (makes the file system look again)
        time.sleep(0.2)
    return True


def _begin(prepare: Callable[[], object] | None) -> None:
    signal.signal(signal.SIGINT, lambda *_: os._exit(1))
    _mask("SIG_UNBLOCK", {signal.SIGINT})
    warnings.showwarning = _plainly
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if prepare is not None:
        prepare()


def _plainly(message: Warning | str, *_: object, **__: object) -> None:
    """A warning as the commands print it."""
    print(f"warning: {message}", file=sys.stderr)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _on_this_machine(
    function: Callable[[T], R],
    tasks: Iterable[T],
    workers: int,
    prepare: Callable[[], object] | None,
    patience_s: float | None,
) -> Iterator[tuple[T, R | Died]]:
    """In spawned processes. Where one of several dies, nobody can say whose fault it was: what
    they had in hand is done again one by one."""
    waiting = deque(tasks)
    workers = min(workers, len(waiting))
    room = 1 if workers == 1 else IN_FLIGHT * workers
    while waiting:
        running: dict[Future[R], T] = {}
        late = broken = False
        with _own_pool(workers, prepare) as (pool, kill):
            try:
                while not broken and (waiting or running):
                    while waiting and len(running) < room:
                        running[pool.submit(function, waiting[0])] = waiting[0]
                        waiting.popleft()
                    if not wait(running, patience_s, FIRST_COMPLETED).done:
                        late = True
                        kill()
                        wait(running)
                    for future in [future for future in running if future.done()]:
                        if isinstance(future.exception(), BrokenProcessPool):
                            broken = True
                        else:
                            yield running.pop(future), future.result()
            except BrokenProcessPool:  # It broke between a look and a `submit`.
                broken = True
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            wait(running)
        for future in [f for f in running if not isinstance(f.exception(), BrokenProcessPool)]:
            yield running.pop(future), future.result()
        if workers == 1:
            yield from ((task, Died(late)) for task in running.values())
        else:
            yield from _on_this_machine(function, running.values(), 1, prepare, patience_s)


@contextmanager
def _own_pool(
    workers: int, prepare: Callable[[], object] | None
) -> Iterator[tuple[ProcessPoolExecutor, Callable[[], None]]]:
    """A pool, and what ends its processes at once."""
    others = set(multiprocessing.active_children())

    def kill() -> None:
        for process in set(multiprocessing.active_children()) - others:
            process.kill()

    with worker_pool(workers, prepare) as pool:
        yield pool, kill


def _ray() -> Any:
    try:
        return import_module("ray")
    except ImportError as error:
        raise InputError(
            "Ray, which --ray needs, is not installed",
            'Install it with: pip install "reassembly[ray]"',
        ) from error


def _node(ray: Any) -> psutil.Process | None:
    """Ray's own process that this one is attached to, by the socket that both know."""
    node = ray._private.worker.global_worker.node
    place = getattr(node, "raylet_socket_name", None)
    for process in psutil.process_iter(["cmdline"]) if place else ():
        if f"--raylet_socket_name={place}" in (process.info["cmdline"] or ()):
            return process
    return None


def _connect(ray: Any, address: str) -> None:
    check_cluster(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: Exception) -> InputError:
    first = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return InputError(
        f"there is no Ray cluster to be had at {address!r} ({first})",
        "Start one with `ray start --head` and name its HOST:PORT, or leave --ray out",
    )


def _versions() -> dict[str, str]:
    """Of what must be the same everywhere for results to be."""
    import cv2
    import numpy as np

    return {"reassembly": __version__, "numpy": np.__version__, "opencv": cv2.__version__}


@dataclass(frozen=True)
class _Raised:
    """An exception of the function, on its way here as it was."""

    error: Exception


class _Hand:
    """A process of the cluster, as an actor: one task at a time."""

    def __init__(
        self, function: Callable[[Any], Any], prepare: Callable[[], object] | None
    ) -> None:
        self.function, self.prepare = function, prepare

    def begin(self, home: Path, token: Path, versions: dict[str, str]) -> _Raised | None:
        """Makes this process like a local one, or tells why it cannot be."""
        machine = socket.gethostname()
        here = _versions()
        for name, version in versions.items():
            if here[name] != version:
                return _Raised(
                    InputError(
                        f"the machine {machine} has {name} {here[name]}, and this one {version}",
                        "Install the same versions on every machine of the cluster",
                    )
                )
        if not wait_until_seen(token):
            return _unseen(machine, token.parent, "Write into one that every machine sees")
        try:
            os.chdir(home)
        except OSError:
            return _unseen(machine, home, "Give the command in one that every machine sees")
        if self.prepare is not None:
            self.prepare()
        return None

    def work(self, task: Any) -> tuple[Any, list[str]]:
        """The result, and the warnings on the way to it."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", InputWarning)
            try:
                result = self.function(task)
            except Exception as error:
                result = _Raised(error)
        return result, [str(w.message) for w in caught if issubclass(w.category, InputWarning)]


def _unseen(machine: str, folder: Path, remedy: str) -> _Raised:
    return _Raised(InputError(f"the machine {machine} does not see this folder", remedy, folder))


@dataclass(frozen=True)
class _Task:
    given: Any
    deaths: int = 0


def _on_cluster(
    function: Callable[[T], R],
    tasks: Iterable[T],
    machines: Cluster,
    workers: int | None,
    prepare: Callable[[], object] | None,
    patience_s: float | None,
    gpu: bool,
) -> Iterator[tuple[T, R | Died]]:
    """In actors, each of which gets a task when it is free: so a death costs what is in hand, and
    it is known whose it was."""
    ray = _ray()
    actor = ray.remote(num_cpus=1, num_gpus=int(gpu), max_restarts=0)(_Hand)
    versions = _versions()
    waiting = deque(_Task(task) for task in tasks)
    starting: dict[Any, Any] = {}
    idle: list[Any] = []
    busy: dict[Any, tuple[Any, _Task, float]] = {}
    failures, alone_since = 0, time.monotonic()
    try:
        while waiting or busy:
            _check_there(machines)
            room = _answer(partial(_room, ray, workers, gpu), machines)
            wanted = min(room, len(waiting) + len(busy))
            for _ in range(wanted - len(starting) - len(idle) - len(busy)):
                # Not by `ray.put`: for an object whose machine ends, Ray ends this process.
                hand = _answer(partial(actor.remote, function, prepare), machines)
                starting[hand.begin.remote(machines.home, machines.token, versions)] = hand
            while idle and waiting:
                hand, task = idle.pop(), waiting.popleft()
                busy[hand.work.remote(task.given)] = hand, task, time.monotonic()
            if not waiting:  # Room for others, and for a task that has to be done again.
                for hand in [*idle, *starting.values()]:
                    ray.kill(hand)
                idle, starting = [], {}
            done, _ = ray.wait([*starting, *busy], timeout=LOOK_EVERY_S)
            for ref in done:
                hand = starting.pop(ref, None)
                if hand is not None:
                    try:
                        problem = ray.get(ref)
                    except ray.exceptions.RayError as error:
                        _check_there(machines, SETTLE_S)
                        ray.kill(hand)
                        failures += 1
                        if failures >= ATTEMPTS and not (idle or busy):
                            raise _no_start(machines, error) from error
                        continue
                    if problem is not None:
                        raise problem.error
                    failures = 0
                    idle.append(hand)
                    continue
                hand, task, _ = busy.pop(ref)
                try:
                    result, complaints = ray.get(ref)
                except ray.exceptions.RayTaskError:
                    raise
                except ray.exceptions.RayError:
                    _check_there(machines, SETTLE_S)
                    ray.kill(hand)
                    if task.deaths + 1 < ATTEMPTS:
                        waiting.appendleft(_Task(task.given, task.deaths + 1))
                    else:
                        yield task.given, Died()
                    continue
                idle.append(hand)
                for complaint in complaints:
                    _plainly(complaint)
                if isinstance(result, _Raised):
                    raise result.error
                yield task.given, result
            now = time.monotonic()
            for ref, (hand, task, since) in list(busy.items()):
                if patience_s is not None and now - since > patience_s:
                    ray.kill(hand)
                    del busy[ref]
                    yield task.given, Died(late=True)
            if busy or idle:
                alone_since = now
            elif now - alone_since > SAY_AFTER_S:
                alone_since = now
                warnings.warn(
                    f"the Ray cluster at {machines.address} has no room; waiting for it",
                    InputWarning,
                )
    except (ray.exceptions.RaySystemError, ConnectionError) as error:
        raise _head_gone(machines) from error
    except _HeadLostError:
        idle, starting, busy = [], {}, {}
        raise
    finally:
        for hand in [*idle, *starting.values(), *(hand for hand, _, _ in busy.values())]:
            with suppress(Exception):
                ray.kill(hand)


def _check_there(machines: Cluster, settle_s: float = 0.0) -> None:
    """Raises unless Ray runs on this machine, and the head of the cluster answers before long.

    Args:
        settle_s: how long to wait first, so that what is ending has ended.
    """
    time.sleep(settle_s)
    if machines.node is not None and not _lives(machines.node):
        raise _gone(f"Ray on this machine, of the cluster at {machines.address}, has ended")
    until = time.monotonic() + GONE_AFTER_S
    while True:
        try:
            _knock(machines.head)
            return
        except OSError as error:
            if time.monotonic() > until:
                raise _head_gone(machines) from error
        time.sleep(LOOK_EVERY_S)


def _answer(question: Callable[[], R], machines: Cluster) -> R:
    """What the head of the cluster answers; raises if it goes while it is asked, where Ray itself
    would wait until it ends this process."""
    answer: Future[R] = Future()

    def ask() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()  # A pool's would be waited for at the end.
    while not wait([answer], LOOK_EVERY_S).done:
        _check_there(machines)
    return answer.result()


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _head_gone(machines: Cluster) -> _HeadLostError:
    return _gone(f"the head of the Ray cluster at {machines.address} is gone")


def _gone(what: str) -> _HeadLostError:
    return _HeadLostError(
        what,
        "What is complete is kept: start the cluster again, or leave --ray out, and repeat the "
        "command to go on (generate with --resume)",
    )


def _room(ray: Any, workers: int | None, gpu: bool) -> int:
    """How many processes the cluster has room for, at most as many as are wanted."""
    there = ray.cluster_resources()
    if gpu and not there.get("GPU"):
        raise InputError("no machine of the cluster has a GPU", "Leave --device cuda out")
    room = max(1, int(there.get("GPU" if gpu else "CPU", 1)))
    return room if workers is None else min(room, workers)


def _no_start(machines: Cluster, error: Exception) -> InputError:
    last = (str(error).strip() or type(error).__name__).splitlines()[-1].rstrip(".")
    return InputError(
        f"no worker starts on the Ray cluster at {machines.address} ({last})",
        "Install the same version of reassembly on each of its machines",
    )
