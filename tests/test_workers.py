"""Workers must not outlive a killed parent: they would write into a folder that is resumed."""

import os
import subprocess
import sys
import time

import psutil
import pytest

PROGRAM = """
import os, time
from reassembly.workers import worker_pool

if __name__ == "__main__":
    with worker_pool(2) as pool:
        print(*{pool.submit(os.getpid).result() for _ in range(20)}, flush=True)
        list(pool.map(time.sleep, [60, 60]))
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


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
