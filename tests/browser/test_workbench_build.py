"""The page in the package is the one that the sources give."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FRONTEND = ROOT / "frontend"
BUILT = ROOT / "src" / "reassembly" / "app" / "static"
SINGLES = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"]


def test_the_built_page_is_as_new_as_its_source() -> None:
    if not FRONTEND.is_dir():
        pytest.skip("only a clone of the repository holds the page's sources")
    nested = [path for path in (FRONTEND / "src").rglob("*") if path.is_file()]
    paths = [*SINGLES, *(path.relative_to(FRONTEND).as_posix() for path in nested)]
    digest = hashlib.sha256()
    for path in sorted(paths):
        text = (FRONTEND / path).read_text(encoding="utf-8").replace("\r\n", "\n")
        digest.update(f"{path}\0{text}\0".encode())
    stored = (BUILT / "source.sha256").read_text(encoding="utf-8").strip()
    assert stored == digest.hexdigest(), "run `npm ci && npm run build` in frontend/"


def test_the_built_page_asks_nobody_else_for_anything() -> None:
    page = (BUILT / "index.html").read_text(encoding="utf-8")
    parts = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(parts) >= 3
    for part in parts:
        assert part.startswith("./") and (BUILT / part).is_file()
    assert "<script>" not in page and "style=" not in page
    styles = "".join(p.read_text(encoding="utf-8") for p in (BUILT / "assets").glob("*.css"))
    assert not re.search(r"url\(|@import|https?:", styles)
    assert sum(p.stat().st_size for p in BUILT.rglob("*") if p.is_file()) < 1_000_000


def test_licences_of_all_that_is_bundled_lie_beside_the_page() -> None:
    if not FRONTEND.is_dir():
        pytest.skip("only a clone of the repository holds the page's sources")
    lock = json.loads((FRONTEND / "package-lock.json").read_text(encoding="utf-8"))
    bundled = {
        path.rpartition("node_modules/")[2]: about["version"]
        for path, about in lock["packages"].items()
        if path and not any(about.get(k) for k in ("dev", "devOptional", "peer", "optional"))
    }
    assert {"konva", "react", "react-dom"} <= bundled.keys()
    notices = (BUILT / "third-party.txt").read_text(encoding="utf-8")
    for name, version in bundled.items():
        part = notices.split(f"\n{name} {version} (")[1]
        assert "Copyright" in part[:400]


def test_the_lockfile_names_no_registry() -> None:
    if not FRONTEND.is_dir():
        pytest.skip("only a clone of the repository holds the page's sources")
    lock = (FRONTEND / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock and '"integrity"' in lock
