"""What docs/deploying.md tells administrators to do, done."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "deploying.md"


def test_a_backup_taken_while_the_server_runs_opens_as_a_workspace(tmp_path):
    parts = pytest.importorskip("reassembly.app.bench", reason="there is no workbench")
    from reassembly.app.demo import add_demo

    (snippet,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    names = {}
    exec(snippet, names)
    bench = parts.Workbench(tmp_path / "work space")
    try:
        project = add_demo(bench.store, bench.images)
        names["back_up"](bench.folder, tmp_path / "copy")
        bench.store.delete_project(project)
    finally:
        bench.close()
    restored = parts.Workbench(tmp_path / "copy")
    try:
        assert [one.id for one in restored.store.projects()] == [project]
        pictures = {row.picture for row in restored.store.piece_rows(project)}
        assert pictures and all(
            (restored.images / name / "full.png").is_file() for name in pictures
        )
    finally:
        restored.close()


def test_the_folders_that_are_named_are_those_that_are_used(monkeypatch):
    parts = pytest.importorskip("reassembly.app.bench", reason="there is no workbench")
    text = PAGE.read_text(encoding="utf-8")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("LOCALAPPDATA", str(Path.home() / "L"))
    shown = {"linux": "~/", "darwin": "~/", "win32": "%LOCALAPPDATA%\\"}
    for system, home in shown.items():
        monkeypatch.setattr("sys.platform", system)
        base = Path.home() / "L" if system == "win32" else Path.home()
        place = parts.default_workspace().relative_to(base).as_posix()
        place = place.replace("/", "\\") if system == "win32" else place
        assert f"`{home}{place}`" in text
