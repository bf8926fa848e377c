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


@pytest.fixture
def kill_a_worker():
    """Kills one process, at work, of the clusters of this test run."""

    def kill() -> None:
        ours = psutil.Process().children(recursive=True)
        hands = [p for p in ours if "_Hand.work" in " ".join(p.cmdline())]
        assert hands, "nobody is at work"
        hands[0].kill()

    return kill
