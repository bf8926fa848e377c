"""Several processes that train one network: what becomes of the others when one dies."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import Any

from pytorch_lightning.strategies import DDPStrategy
from pytorch_lightning.strategies.launchers import _SubprocessScriptLauncher

from reassembly.errors import InputError

__all__ = ["WatchedDDP", "lost_neighbour"]

LOOK_EVERY_S = 0.5
OWN_WORDS_S = 5.0
"""How long a process may take to notice by itself that another is gone, and to say so."""


def lost_neighbour(why: str) -> InputError:
    """What the processes that are left say."""
    return InputError(
        f"another process of this run died or is out of reach ({why})",
        "Repeat the command with --resume, on every machine; what was saved is kept",
    )


class WatchedDDP(DDPStrategy):
    """Lightning's, but for the end: a dead process is told, instead of killing the others without
    a word."""

    def _configure_launcher(self) -> None:
        assert self.cluster_environment is not None
        self._launcher = _Launcher(self.cluster_environment, self.num_processes, self.num_nodes)


class _Launcher(_SubprocessScriptLauncher):
    children: tuple[subprocess.Popen[Any], ...] = ()

    def _call_children_scripts(self) -> None:
        super()._call_children_scripts()
        self.children = tuple(self.procs)
        self.procs.clear()  # Lightning watches these, and would kill this process.
        threading.Thread(target=_watch, args=(self.children,), daemon=True).start()

    def kill(self, signum: Any) -> None:
        for child in self.children:
            child.send_signal(signum)


def _watch(children: tuple[subprocess.Popen[Any], ...]) -> None:
    """Ends this process when one of the others died and it does not notice: it may wait for an
    answer in a library's code for ever."""
    while not (ended := [code for child in children if (code := child.poll())]):
        time.sleep(LOOK_EVERY_S)
    time.sleep(OWN_WORDS_S)
    for child in children:
        child.kill()
    print(f"error: {lost_neighbour(f'it ended with {ended[0]}')}", file=sys.stderr, flush=True)
    os._exit(2)
