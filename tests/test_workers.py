"""Workers must not outlive a killed parent: they would write into a folder that is resumed. And a
killed worker must not end the run."""

import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

from reassembly.errors import InputError
from reassembly.workers import Died, _Hand, _versions, check_cluster, run_each
from tests.cluster.jobs import misbehave

PROGRAM = """
import os, time
from reassembly.workers import worker_pool

if __name__ == "__main__":
    with worker_pool(2) as pool:
        print(*{pool.submit(os.getpid).result() for _ in range(20)}, flush=True)
        list(pool.map(time.sleep, [60, 60]))
"""


QUIET = """
import time
from reassembly.workers import run_each

if __name__ == "__main__":
    print("begun", flush=True)
    try:
        for _ in run_each(time.sleep, [60.0] * 4, workers=2):
            pass
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="kill -9 is POSIX")
def test_workers_end_with_a_killed_parent(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert workers and all(psutil.pid_exists(pid) for pid in workers)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(alive, workers))


@pytest.mark.skipif(os.name == "nt", reason="a process group is POSIX")
@pytest.mark.parametrize("after_s", [0.0, 0.4, 1.0])
def test_workers_say_nothing_at_ctrl_c(tmp_path, after_s):
    """A terminal sends it to all of them: only the process that was started by hand may speak."""
    script = tmp_path / "program.py"
    script.write_text(QUIET)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "begun\n"
    time.sleep(after_s)
    os.killpg(process.pid, signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert (out, error) == ("interrupted\n", "")


def test_a_cluster_that_is_long_gone_is_told_at_once(tmp_path, monkeypatch):
    """Ray itself would knock for minutes."""
    pytest.importorskip("ray")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        gone = free.getsockname()[1]
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{gone}")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(InputError, match="auto"):
        check_cluster("auto")


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_killed_worker_costs_what_it_had_in_hand(tmp_path):
    """One dies once, one always: the first is done again, the second told, the others unharmed."""
    tasks = [f"task {k}" for k in range(8)]
    tasks[1], tasks[4] = f"die once:{tmp_path / 'died'}", "die"
    outcomes = dict(run_each(misbehave, tasks, workers=2))
    assert outcomes.keys() == set(tasks)
    assert outcomes["die"] == Died()
    assert all(outcomes[task] == task.upper() for task in tasks if task != "die")


def test_one_that_hangs_is_ended(tmp_path):
    outcomes = list(run_each(misbehave, ["a", "hang", "b"], workers=1, patience_s=10.0))
    assert outcomes == [("a", "A"), ("hang", Died(late=True)), ("b", "B")]


def test_an_exception_is_raised_as_it_was():
    for workers in (0, 2):
        with pytest.raises(InputError, match=r"bad\.png: it is torn\. Mend it"):
            list(run_each(misbehave, ["refuse", "a"], workers=workers))


def test_a_machine_that_would_give_other_results_is_named(tmp_path):
    """What a worker of a cluster looks at before its first task."""
    token = tmp_path / "token"
    token.touch()
    hand, home = _Hand(misbehave, None), tmp_path / "mounted elsewhere"
    problem = hand.begin(tmp_path, token, _versions() | {"numpy": "1.0"})
    assert socket.gethostname() in str(problem.error) and "numpy" in str(problem.error)
    problem = hand.begin(home, token, _versions())
    assert str(problem.error).startswith(f"{home}: the machine {socket.gethostname()} does not see")
