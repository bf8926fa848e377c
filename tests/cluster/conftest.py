"""A real Ray cluster of two nodes on this machine: two raylets, one processor each."""

import os

import psutil
import pytest

TINY = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}


@pytest.fixture
def ray_cluster(monkeypatch):
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_enable_metrics_collection"):
        monkeypatch.setenv(name, "0")
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


def kill_one(words: str, politely: bool = False) -> None:
    """Kills a process of the clusters of this test run, by a part of its command line."""
    ours = psutil.Process().children(recursive=True)
    found = [process for process in ours if words in " ".join(process.cmdline())]
    assert found, f"there is no {words}"
    found[0].terminate() if politely else found[0].kill()


@pytest.fixture
def kill_a_worker():
    """Kills one process that is at work."""
    return lambda: kill_one("_Hand.work")


RAYLET = "--raylet_socket_name="


@pytest.fixture(params=[("gcs_server", False), (RAYLET, False), (RAYLET, True)])
def kill_the_head(request):
    """Kills what holds a cluster together, or Ray on the machine of the head; or asks that one to
    end, as `ray stop` does."""
    return lambda: kill_one(*request.param)
