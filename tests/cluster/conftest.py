"""A real Ray cluster of two nodes on this machine: two raylets, one processor each."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest

TINY = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}


@pytest.fixture
def ray_cluster(monkeypatch):
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_enable_metrics_collection"):
        monkeypatch.setenv(name, "0")
    # Ray gives its workers way to all other programs: beside other tests they would hardly work.
    monkeypatch.setenv("RAY_worker_niceness", "0")
    try:
        from ray.cluster_utils import Cluster
    except ImportError:
        reason = "Ray is not installed: pip install 'reassembly[ray]'"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    cluster = Cluster(initialize_head=True, head_node_args=TINY)
    cluster.add_node(**TINY)
    yield cluster
    cluster.shutdown()


def found(words: str) -> list[psutil.Process]:
    """Processes of the clusters of this test run, by a part of their command line."""
    processes = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if words in " ".join(process.cmdline()):
                processes.append(process)
    return processes


def kill_one(words: str, politely: bool = False) -> None:
    """Kills one of them."""
    process, *_ = found(words)
    process.terminate() if politely else process.kill()


@pytest.fixture
def a_worker_dies():
    """A context within which the first process that is seen at work is killed, and must be."""

    @contextmanager
    def dying() -> Iterator[None]:
        over, killed = threading.Event(), threading.Event()

        def watch() -> None:
            while not over.is_set() and not killed.is_set():
                for process in found("_Hand.work")[:1]:
                    process.kill()
                    killed.set()
                over.wait(0.02)

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()
        assert killed.is_set(), "nobody was seen at work"

    return dying


RAYLET = "--raylet_socket_name="


@pytest.fixture(params=[("gcs_server", False), (RAYLET, False), (RAYLET, True)])
def kill_the_head(request):
    """Kills what holds a cluster together, or Ray on the machine of the head; or asks that one to
    end, as `ray stop` does."""
    return lambda: kill_one(*request.param)
