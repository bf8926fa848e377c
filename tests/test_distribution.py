"""What is released: that wheel and sdist hold everything, and run where nothing else of ours is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from reassembly._version import __version__

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "reassembly"


def run(*command, cwd=ROOT):
    """Without PYTHONPATH, so that only what is installed is found."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=env, capture_output=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def empty_environment(home):
    """An environment without pip, which finds the libraries of this one, but nothing of ours: where
    its commands are, and what is installed into it."""
    venv.create(home, with_pip=False)
    scripts = home / ("Scripts" if os.name == "nt" else "bin")
    told = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = Path(run(scripts / "python", "-c", told, cwd=home).strip())
    places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (own / "libraries.pth").write_text("\n".join(sorted(places)) + "\n", encoding="utf-8")
    return scripts, own


def test_the_version_is_the_same_wherever_it_is_told():
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    assert cited.group(1) == __version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changes, re.M).group(1) == __version__
    tree = [*PACKAGE.rglob("*.py"), ROOT / "pyproject.toml"]
    others = [
        path.name
        for path in tree
        if path.name != "_version.py" and f'"{__version__}"' in path.read_text(encoding="utf-8")
    ]
    assert others == []


def test_a_bundle_is_the_command_when_it_is_given_something_to_do(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, str(ROOT / "tools" / "bundle.py"), "--version"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, encoding="utf-8")
    assert done.stdout.strip() == __version__


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel that is built from it, as installers without wheels do."""
    place = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-d", place]
    run(*build, "-t", "sdist")
    (sdist,) = place.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(place / "source", filter="data")
    (source,) = (place / "source").iterdir()
    run(*build, "-t", "wheel", cwd=source)
    (wheel,) = place.glob("*.whl")
    return sdist, wheel


@pytest.mark.slow
def test_the_wheel_holds_everything_that_the_package_reads(built):
    _, wheel = built
    assert wheel.name == f"reassembly-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    wanted = {path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*.*")}
    wanted |= {"reassembly" / path.relative_to(ROOT) for path in (ROOT / "configs").rglob("*.yaml")}
    missing = {path.as_posix() for path in wanted if "__pycache__" not in path.parts} - inside
    assert sorted(missing) == []
    for name in ("weights/index.json", "configs/default.yaml", "io/templates/report.html.j2"):
        assert f"reassembly/{name}" in inside
    if (PACKAGE / "app" / "static").is_dir():
        assert "reassembly/app/static/index.html" in inside
    index = json.loads((PACKAGE / "weights" / "index.json").read_text(encoding="utf-8"))
    for entry in index.values():
        assert sizes[f"reassembly/weights/{entry['file']}"] == entry["bytes"]
    foreign = [name for name in inside if not name.startswith(("reassembly/", "reassembly-"))]
    assert foreign == [] and not any("__pycache__" in name for name in inside)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout of the repository")
def test_what_is_tracked_stays_small_enough_to_travel():
    """25 MB, both of content and in blocks of 4 KiB, as a disk counts it."""
    tracked = [ROOT / name for name in run("git", "ls-files", "-z").split("\0") if name]
    sizes = [path.stat().st_size for path in tracked if path.is_file()]
    assert sum(sizes) < 25_000_000
    assert sum(-(-size // 4096) * 4 for size in sizes) <= 25 * 1024


@pytest.mark.slow
def test_the_sdist_holds_all_that_is_ours_and_nothing_private(built):
    sdist, _ = built
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "Makefile", "pyproject.toml", "docs/index.md", "tests/puzzles.py"} <= names
    assert {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "benchmarks").glob("*.py")
    } <= names
    if (ROOT / ".git").exists():
        tracked = run("git", "ls-files", "-z").split("\0")
        ours = {n for n in tracked if n and not n.startswith(".") and (ROOT / n).is_file()}
        assert sorted(ours - names) == []
    assert not any(part in name for name in names for part in (".venv", "node_modules", ".git/"))


@pytest.mark.slow
def test_the_wheel_runs_in_an_environment_of_its_own(built, tmp_path):
    """Nothing is downloaded: libraries are those of the environment that runs this test."""
    _, wheel = built
    scripts, own = empty_environment(tmp_path / "eigene Umgebung")
    python = scripts / ("python.exe" if os.name == "nt" else "python")
    install = ["--python", python, "install", "--no-deps", "--no-index", "--quiet", wheel]
    run(sys.executable, "-m", "pip", *install)

    where = run(python, "-c", "import reassembly; print(reassembly.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(own)
    command = scripts / "reassembly"
    assert run(command, "--version", cwd=tmp_path).strip() == __version__
    assert "solve" in run(command, "--help", cwd=tmp_path)
    weights = run(command, "weights", cwd=tmp_path)
    assert "texture" in weights and "missing" not in weights
    found = json.loads(run(command, "doctor", "--json", cwd=tmp_path))
    assert found["fine"]
    said = {row["about"]: row["state"] for row in found["findings"] if row["about"] != "weights"}
    assert said["packages"] == said["libraries"] == said["files"] == "fine"
    run(command, "demo", "--out", "Bild", "--pieces", "3", "--solver", "ring", cwd=tmp_path)
    assert (tmp_path / "Bild" / "report.html").is_file()
