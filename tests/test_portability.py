"""The package keeps to what Windows, macOS and Linux have in common."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

import reassembly
from tests.puzzles import drawn_puzzle

PACKAGE = Path(reassembly.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

OWN_MODULES = {"crypt", "fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios"}
OWN_MODULES |= {"msvcrt", "winreg", "winsound"}
OWN_NAMES = {
    "os": {"fork", "forkpty", "getpgid", "getuid", "geteuid", "getgid", "kill", "killpg", "mkfifo"}
    | {"setsid", "statvfs", "sync", "uname", "wait", "waitpid", "WNOHANG", "chown", "nice"},
    "signal": {"SIGKILL", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGQUIT"}
    | {"alarm", "pause", "setitimer", "pthread_sigmask", "sigwait"},
    "time": {"tzset"},
    "socket": {"AF_UNIX"},
}
FIXED_PLACE = re.compile(r"(/(tmp|dev|usr|home|etc|var|opt|proc|mnt|root)(/|$)|~[/\\]|[A-Za-z]:\\)")
TEXT_READERS = {"open", "read_text", "write_text"}


def guards(tree: ast.Module) -> dict[ast.AST, list[ast.AST]]:
    """Of every node the `if` and `try` statements and functions that it is in."""
    above: dict[ast.AST, list[ast.AST]] = {tree: []}
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            own = [node] if isinstance(node, ast.If | ast.Try | ast.FunctionDef) else []
            above[child] = above[node] + own
    return above


def is_guarded(nodes: list[ast.AST]) -> bool:
    """Whether a system is asked for first, or the lack of a module is met."""
    for node in nodes:
        if isinstance(node, ast.Try) and any(
            handler.type is not None and "Error" in ast.unparse(handler.type)
            for handler in node.handlers
        ):
            return True
        if isinstance(node, ast.If | ast.FunctionDef):
            text = ast.unparse(node)
            if re.search(r"sys\.platform|os\.name|hasattr\(", text):
                return True
    return False


def of_one_system(tree: ast.Module) -> list[str]:
    above = guards(tree)
    found = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
            bad = OWN_NAMES.get(node.module or "", set())
            found += [f"{node.lineno}: {a.name}" for a in node.names if a.name in bad]
        elif isinstance(node, ast.Attribute):
            bad = OWN_NAMES.get(ast.unparse(node.value), set())
            if node.attr in bad and not is_guarded(above[node]):
                found.append(f"{node.lineno}: {ast.unparse(node)}")
        only = OWN_MODULES & {name.partition(".")[0] for name in names}
        if only and not is_guarded(above[node]):
            found.append(f"{node.lineno}: {', '.join(sorted(only))}")
    return found


def forked(tree: ast.Module) -> list[str]:
    """Pools and processes of another context than spawn's; that of no name forks on Linux."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        arguments = [ast.unparse(argument) for argument in node.args]
        if name.endswith("get_context") and arguments != ["'spawn'"]:
            found.append(f"{node.lineno}: {ast.unparse(node)}")
        keywords = {keyword.arg for keyword in node.keywords}
        if name.endswith("ProcessPoolExecutor") and "mp_context" not in keywords:
            found.append(f"{node.lineno}: {name} without mp_context")
        if name.startswith(("multiprocessing.Process", "multiprocessing.Pool", "mp.Pool")):
            found.append(f"{node.lineno}: {name}")
    return found


def fixed_places(tree: ast.Module) -> list[str]:
    above = guards(tree)
    return [
        f"{node.lineno}: {node.value!r}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and FIXED_PLACE.match(node.value)
        and not is_guarded(above[node])
    ]


def without_encoding(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if isinstance(node.func, ast.Attribute):
            name = node.func.attr
        keywords = {keyword.arg for keyword in node.keywords}
        if name not in TEXT_READERS or "encoding" in keywords or None in keywords:
            continue
        owner = ast.unparse(node.func).rpartition(".")[0]
        if owner.endswith(("Image", "_archive", "webbrowser", "hub")):  # Not files of text.
            continue
        modes = [*node.args, *(k.value for k in node.keywords if k.arg == "mode")]
        if any(isinstance(m, ast.Constant) and "b" in str(m.value)[:4] for m in modes):
            continue
        found.append(f"{node.lineno}: {ast.unparse(node)[:60]}")
    return found


@pytest.mark.parametrize("check", [of_one_system, forked, fixed_places, without_encoding])
def test_source_relies_on_no_single_system(check):
    found = {}
    for path in FILES:
        lines = check(ast.parse(path.read_text(encoding="utf-8")))
        if lines:
            found[path.relative_to(PACKAGE).as_posix()] = lines
    assert found == {}


@pytest.mark.parametrize(
    ("check", "source"),
    [
        (of_one_system, "import fcntl"),
        (of_one_system, "from fcntl import flock"),
        (of_one_system, "import os\nos.fork()"),
        (of_one_system, "from signal import SIGKILL"),
        (forked, "import multiprocessing as m\nm.get_context('fork')"),
        (forked, "ProcessPoolExecutor(2)"),
        (fixed_places, "x = '/tmp/x'"),
        (fixed_places, "x = Path('~/x')"),
        (without_encoding, "open('x')"),
        (without_encoding, "open('x', 'w')"),
        (without_encoding, "path.read_text()"),
        (without_encoding, "path.write_text(text)"),
    ],
)
def test_the_checks_find_what_they_look_for(check, source):
    assert check(ast.parse(source)), source


@pytest.mark.parametrize(
    ("check", "source"),
    [
        (of_one_system, "try:\n    import fcntl\nexcept ImportError:\n    fcntl = None"),
        (of_one_system, "if sys.platform != 'win32':\n    import resource"),
        (forked, "ProcessPoolExecutor(2, mp_context=get_context('spawn'))"),
        (fixed_places, "x = '/api/projects'"),
        (without_encoding, "open('x', 'rb')"),
        (without_encoding, "path.open(mode='xb')"),
        (without_encoding, "path.read_text(encoding='utf-8')"),
    ],
)
def test_the_checks_let_pass_what_is_right(check, source):
    assert check(ast.parse(source)) == []


def command(*arguments, cwd, env=None):
    return subprocess.run(
        [sys.executable, "-m", "reassembly.cli", *map(str, arguments)],
        capture_output=True,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        timeout=120,
    )


def test_a_puzzle_is_solved_in_a_folder_of_any_name_and_told_in_any_code_page(tmp_path):
    """As of a user called Jürgen, whose console knows neither Greek nor Chinese."""
    home = tmp_path / "Jürgen's Fresken (Pompeji) 断片 #1 100%"
    pieces = home / "meine Stücke"
    pieces.mkdir(parents=True)
    for k, fragment in enumerate(drawn_puzzle(3, size_px=120).fragments):
        rgba = np.dstack([fragment.image[..., ::-1], fragment.mask * np.uint8(255)])
        (pieces / f"κομμάτι {k}.png").write_bytes(cv2.imencode(".png", rgba)[1].tobytes())
    (pieces / "κομμάτι 9.png").write_bytes(b"no picture")
    console = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "PYTHONWARNDEFAULTENCODING": "1"}

    options = ["--solver", "greedy", "--mm-per-px", 0.5]
    done = command("solve", pieces.name, "--out", "Ergebnis über", *options, cwd=home, env=console)

    said = done.stderr.decode("cp1252")
    assert done.returncode == 0, said
    assert "9.png: this file is text, not a picture" in said
    assert "EncodingWarning" not in said
    out = home / "Ergebnis über"
    rows = (out / "poses.csv").read_text(encoding="utf-8").splitlines()
    assert [row.partition(",")[0] for row in rows[1:]] == [f"κομμάτι {k}.png" for k in range(3)]
    assert "κομμάτι 1" in (out / "report.html").read_text(encoding="utf-8")

    shown = command("inspect", pieces, "--sheet", home / "Übersicht.png", cwd=tmp_path, env=console)
    assert shown.returncode == 0, shown.stderr
    assert cv2.imdecode(np.fromfile(home / "Übersicht.png", np.uint8), 1) is not None
