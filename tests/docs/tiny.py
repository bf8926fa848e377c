"""The commands of the documentation, run: as the pages have them, but small.

A page shows what a reader types. What is run in its place, to be quick and to need one machine
without a GPU, is told by the tables below, and nowhere else.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import typer

from reassembly import weights
from reassembly._version import __version__
from reassembly.cli import app
from reassembly.texture.resnet import ResNet18
from tests.docs.blocks import ROOT
from tests.test_distribution import empty_environment
from tests.test_weights import hub, published_trunk

LARGE = ("torch", "torch_geometric", "pytorch_lightning", "lightning_fabric", "diffusers", "scipy")
"""What a bundle is large and slow to make for."""
SMALL = "--pieces 3 --size 256 --workers 1"
MORE = {
    "generate": f"--count 1 {SMALL}",
    "prepare": f"--count 4 {SMALL}",
    "train": "--steps 2 --device cpu --workers 1 --set training.batch=2 "
    "--set training.validate_every=0 --set data.puzzles=4 --set data.pieces=[3,3] "
    "--set data.size_px=256",
    "reproduce": "--puzzles 1 --minutes 0.05 --most-pieces 2",
    "bench": "--seeds 1",
    "benchmarks/soak.py": "--kills 1 --only generate",
    "benchmarks/depot.py": "--queries 3 --sizes 3",
    "benchmarks/proposals.py": "--steps 10",
    "benchmarks/join_folds.py": "--steps 10 --tries 1 --shown 20",
    "benchmarks/join_steps.py": "--tries 1 --only context",
    "benchmarks/joins.py": "--pieces 3 --preset paper",
    "benchmarks/generate.py": "--preset paper --count 2 --size 256",
    "demo": "--pieces 4 --force",
    "pytest": "tests/test_pose.py",
    "mypy": "src/reassembly/pose.py",
    "pyinstaller": "--log-level ERROR " + " ".join(f"--exclude-module {name}" for name in LARGE),
    "serve": "--no-browser --workspace workspace",
    "ray": "--block --num-cpus 1 --object-store-memory 80000000 --include-dashboard false "
    "--disable-usage-stats",
}
"""What makes a command quick; of an option given twice, the last counts."""
UNLESS_GIVEN = {"reproduce": {"--only": "semi-synthetic", "--solver": "greedy"}}
"""Likewise, of options that may be given several times."""
BESIDE = {
    "--devices": "--config tiny",
    "--joins": "--count 2 --per-pair 20",
    "slow": "tests/synthetic/test_compare.py",
}
"""Likewise, of commands that have an option."""
VALUES = {
    "--device": "cpu",
    "--workers": "1",
    "--split": "train",
    "--devices": "2",
    "--nodes": "1",
    "--nnodes": "1",
    "--nproc-per-node": "2",
}
"""Values of options that are replaced where they are given."""
WORDS = {
    "data/test/puzzle_00004": "data/train/puzzle_00000",
    "training.accumulate=4": "training.accumulate=2",
    "training.accumulate=8": "training.accumulate=2",
    "training.precision=bf16-mixed": "training.precision=32-true",
    "data.validation=96": "data.validation=2",
    "data.validation=32": "data.validation=2",
    "learnable.safetensors": "reassemblenet-learnable",
    "reassemblenet.weights=R-frozen": "reassemblenet.weights=reassemblenet-learnable",
    "repair/2d_fixed": "repair/2d_fixed/train/RPobj_g0_o0000",
    "repair/2d_fixed/train": "repair/2d_fixed/train/RPobj_g0_o0000",
    "reassemblenet.steps=600": "reassemblenet.steps=6",
    "hf:owner/name": "hf:someone/thing",
    "tests/browser": "tests/test_pose.py",
    "tests/docs": "tests/test_pose.py",
    "PUZZLES": "puzzles",
}
"""Other words that are replaced."""
WITHIN = {"OUT/bench/predictions": "predictions", "OUT/data": "puzzles"}
"""Folders in the place of all that a run of `reproduce` leaves within others."""
LEFT_OUT = ("1", "2", "3", "4", "12", "13", "14", "23", "24", "34")
"""Sets of folds that verifiers did not see; the page shows how the one without 12 is trained."""
SHIPPED = weights.HERE
PATIENCE_S = 120.0


class Reader:
    """Does what pages say, in the working folder; ends what is still running when it leaves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.running: list[subprocess.Popen[bytes]] = []
        self.ports: dict[str, int] = {}
        self.open = ExitStack()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.running):
            family = psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            process.wait(PATIENCE_S)
            for left in psutil.wait_procs(family, 5)[1]:
                left.kill()
        self.open.close()

    def run(self, words: list[str]) -> None:
        """Runs a command, whosever it is."""
        program = Path(words[0]).name
        small = self.small(words)
        clear(name_of(words), small)
        if words[0] == "cd":
            self.enter(words[1])
        elif program == "make":
            for line in made_by(words[1]):
                self.run(line)
        elif program == "npm":
            self.build_page(words)
        elif program == "pyinstaller":
            self.finish(["-m", "PyInstaller", str(ROOT / small[1]), *small[2:]])
            assert ended_well(["dist/reassembly/reassembly", "--version"]).strip() == __version__
        elif program == "ray":
            self.start_ray(small)
        elif program == "torchrun":
            self.finish(["-m", "torch.distributed.run", *small[1:]])
        elif name_of(words).startswith("benchmarks/"):
            self.finish([str(ROOT / small[1]), *small[2:]])
        elif words == ["pip", "install", "."]:
            self.install()
        elif program == "pip":
            self.install_ours(words)
        elif words[1:3] == ["-m", "hatchling"]:
            self.finish([*words[1:], "-d", str(Path("dist").absolute())], ROOT)
        elif words[1:3] == ["-m", "venv"]:
            empty_environment(Path(self.place(words[3])).absolute())
        elif words[1:3] == ["-m", "pytest"]:
            self.finish(small[1:], ROOT)
        elif program in {"ruff", "mypy"}:
            self.finish(["-m", program, *small[1:]], ROOT)
        elif program == "mkdocs":
            site = str(Path("site").absolute())
            self.finish(["-m", program, *small[1:], "--site-dir", site], ROOT)
        elif program != "reassembly":
            raise AssertionError(f"nobody knows how to run {shlex.join(words)}")
        elif Path(words[0]).parent.name == "bin":
            subprocess.run(small, check=True, timeout=PATIENCE_S, env=alone())
        elif words[1] == "serve":
            self.serve(small)
        elif words[1:4] == ["weights", "get", "hf:owner/name"]:
            self.publish()
            self.finish(["-m", "reassembly.cli", *small[1:]])
        elif "--devices" in words or "hf:owner/name" in words:
            # The first starts itself again, which a test must not; the hub's address is read once.
            self.finish(["-m", "reassembly.cli", *small[1:]])
        else:
            if words[1:3] == ["weights", "add"]:
                self.store()
            if words[1:3] == ["weights", "get"]:
                trunk = published_trunk(ResNet18(4), Path("trunk.pth").absolute())
                self.monkeypatch.setitem(weights.PUBLISHED, words[3], trunk)
                self.monkeypatch.setenv("REASSEMBLY_CACHE", str(Path("cache").absolute()))
            command: Any = typer.main.get_command(app)
            code = command.main(small[1:], "reassembly", standalone_mode=False)
            assert code in (None, 0), f"{shlex.join(small)} ended with {code}"
        if "tuned/without-12" in words:
            for place in [Path(folder) for folder in ("tuned", "tuned-again", "tuned-unmarked")]:
                for name in [f"without-{folds}" for folds in LEFT_OUT]:
                    if not (place / name).exists():
                        shutil.copytree("tuned/without-12", place / name)

    def small(self, words: list[str]) -> list[str]:
        """The command that is run in the place of a page's."""
        name = name_of(words)
        found = [self.at(WORDS.get(word, word)) for word in words]
        for place, word in enumerate(found[:-1]):
            if word in VALUES:
                found[place + 1] = VALUES[word]
        for option, value in UNLESS_GIVEN.get(name, {}).items():
            found += [] if option in words else [option, value]
        found += shlex.split(MORE.get(name, ""))
        for option, more in BESIDE.items():
            found += shlex.split(more) if option in words else []
        return found

    def at(self, word: str) -> str:
        """Another machine's port, such as FIRST:6379, as a free one of this machine; what an
        earlier run left, as what there is."""
        for folder, ours in WITHIN.items():
            if word.startswith(folder):
                return ours
        host, _, port = word.rpartition(":")
        if not port.isdecimal() or not (host.isupper() and host.isalpha()):
            return word
        return f"127.0.0.1:{self.ports.setdefault(port, free_port())}"

    def finish(self, arguments: list[str], folder: Path | None = None) -> None:
        """Runs a program of Python's to its end."""
        ended_well([sys.executable, *arguments], folder)

    @staticmethod
    def place(word: str) -> str:
        """A folder of some machine, such as /somewhere/empty, as one of the working folder."""
        return word.removeprefix("/")

    def enter(self, folder: str) -> None:
        """Goes into a folder: of the page's making, or a copy of one of the repository's."""
        own, ours = Path(self.place(folder)), ROOT / folder
        if not own.is_dir():
            past = shutil.ignore_patterns("node_modules")
            shutil.copytree(ours, own, ignore=past)
        self.monkeypatch.chdir(own)

    def build_page(self, words: list[str]) -> None:
        """Builds the workbench's page in a copy of its source, beside a package that has none."""
        if (npm := shutil.which("npm")) is None:
            pytest.skip("Node.js is not here, which only those need who change the page")
        ended_well([npm, *words[1:]])
        if words[1:] == ["run", "build"]:
            built, shipped = (
                Path("../src/reassembly/app/static"),
                SHIPPED.parent / "app/static",
            )
            assert {path.name: path.read_bytes() for path in built.rglob("*.*")} == {
                path.name: path.read_bytes() for path in shipped.rglob("*.*")
            }

    def install_ours(self, words: list[str]) -> None:
        """Installs a wheel that the page built; or does all of it but to write, with the package as
        it is here in the place of the index's. Libraries are those of this test."""
        quiet = ["--no-deps", "--no-index", "--quiet"]
        for word in words[words.index("constraints.txt") + 1 if "-c" in words else 2 :]:
            if word.startswith("dist/"):
                (wheel,) = Path("dist").glob("*.whl")
                own = ["--python", str(Path(self.place(words[0])).with_name("python").absolute())]
                self.finish(["-m", "pip", *own, "install", *quiet, str(wheel)])
            else:
                ours = word.replace("reassembly", str(ROOT))
                dry = ["--dry-run", "--no-index", "--no-build-isolation"]
                said = ended_well([sys.executable, "-m", "pip", "install", *dry, ours])
                assert "does not provide the extra" not in said, said

    def install(self) -> None:
        """Installs the package that the page tells to write, for this test and what it starts."""
        own = Path("package").absolute()
        own.mkdir()
        for name in [path for path in Path().glob("*.*") if path.suffix in {".py", ".toml"}]:
            name.rename(own / name)
        offline = ("--no-deps", "--no-index", "--no-build-isolation", "--target", str(own / "site"))
        self.finish(["-m", "pip", "install", "--quiet", *offline, str(own)])
        places = [str(own / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))
        self.monkeypatch.syspath_prepend(own / "site")

    def publish(self) -> None:
        """Starts a hub on this machine, on which someone has put what ships with the package."""
        shipped = SHIPPED / "reassemblenet-learnable.safetensors"
        self.monkeypatch.setenv("HF_ENDPOINT", self.open.enter_context(hub(shipped.read_bytes())))
        self.monkeypatch.setenv("HF_HUB_CACHE", str(Path("hub").absolute()))
        self.monkeypatch.setenv("NO_PROXY", "*")
        self.monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)

    def store(self) -> None:
        """Lets weights be added to a copy of the package's, and a model card be there."""
        own = Path("own-weights").absolute()
        own.mkdir()
        shutil.copy(weights.INDEX, own)
        self.monkeypatch.setattr(weights, "HERE", own)
        self.monkeypatch.setattr(weights, "INDEX", own / weights.INDEX.name)
        Path("card.md").write_text("A line\n", encoding="utf-8")

    def start_ray(self, words: list[str]) -> None:
        if "--head" in words:
            place = words.index("--port") + 1
            words[place] = str(self.ports.setdefault(words[place], free_port()))
        port = int(words[place]) if "--head" in words else None
        ray = Path(sys.executable).parent / "ray"
        self.running.append(subprocess.Popen([str(ray), *words[1:]], env=alone()))
        until = time.monotonic() + PATIENCE_S
        while port is not None:
            try:
                socket.create_connection(("127.0.0.1", port), 1.0).close()
                break
            except OSError:
                assert time.monotonic() < until, "Ray does not start"
                time.sleep(0.2)

    def serve(self, words: list[str]) -> None:
        """Starts a server, asks it for its page, and stops it."""
        port = free_port()
        command = [sys.executable, "-m", "reassembly.cli", *words[1:], "--port", str(port)]
        with Path("serve.log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, env=alone())
        try:
            answer = answered(f"http://127.0.0.1:{port}/")
        finally:
            server.terminate()
            server.wait(30)
        said = Path("serve.log").read_text(encoding="utf-8")
        refused = answer.status_code in (401, 403) and "token" in said
        assert answer.status_code == 200 or refused, f"{answer.status_code}: {said}"


def name_of(words: list[str]) -> str:
    """The command of ours that is given, or the program."""
    program = Path(words[0]).name
    if words[1:2] == ["-m"]:
        return words[2]
    own = {"reassembly": words[1:], "torchrun": ["train"], "python": words[1:]}
    return own.get(program, [program])[0]


def made_by(target: str) -> list[list[str]]:
    """The commands of a target of the Makefile, with no environment to make first."""
    told = ended_well(["make", "--dry-run", "-C", str(ROOT), "STAMP=", "BIN=", target])
    lines = [shlex.split(line) for line in re.findall(r"^(?:\w+=\w+ )*(/.*)", told, re.M)]
    assert lines, told
    return [[Path(words[0]).name, *words[1:]] for words in lines]


def ended_well(command: list[str], folder: Path | None = None) -> str:
    """What a program says that runs to its end."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=600, env=alone()
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def clear(name: str, words: list[str]) -> None:
    """Removes what an earlier command of the page left where this one writes."""
    writes = {"solve", "joins", "train", "data", "generate", "prepare"}
    if "--out" in words and name in writes and "--resume" not in words:
        out = Path(words[words.index("--out") + 1])
        if out.is_dir():
            shutil.rmtree(out)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def answered(url: str) -> httpx.Response:
    """What a server says, once it says something."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return httpx.get(url, follow_redirects=True)
        except httpx.TransportError:
            assert time.monotonic() < until, f"nobody answers at {url}"
            time.sleep(0.2)


def alone() -> dict[str, str]:
    """The environment of processes, of which several share this machine."""
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_enable_metrics_collection": "0"}
    quiet["NO_MKDOCS_2_WARNING"] = "1"
    return {**os.environ, **quiet, "OMP_NUM_THREADS": "1"}
