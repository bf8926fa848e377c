"""The saved report and drawing as a browser shows them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from reassembly.io.render import lay_out, render_placements
from reassembly.puzzle import Assembly
from tests.assemblies import HOSTILE, incomplete_assembly

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def assembly() -> Assembly:
    return incomplete_assembly()


@pytest.fixture(scope="module")
def saved(assembly: Assembly, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return assembly.save(tmp_path_factory.mktemp("report") / "out äö")


class Visit:
    """A page with everything it asked for, said or tried."""

    def __init__(self, browser: Browser, path: Path, width: int, height: int) -> None:
        self.requests: list[str] = []
        self.said: list[str] = []
        self.page: Page = browser.new_page(viewport={"width": width, "height": height})
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.goto(path.as_uri())

    def _dialog(self, dialog) -> None:
        self.said.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture(params=[(1440, 900), (1024, 768), (420, 800)], ids=["wide", "laptop", "phone"])
def visit(request: pytest.FixtureRequest, chromium: Browser, saved: Path):
    visit = Visit(chromium, saved / "report.html", *request.param)
    yield visit
    visit.page.close()


def test_the_report_shows_everything_and_asks_for_nothing(visit: Visit, assembly) -> None:
    page = visit.page
    assert all(url.startswith(("file:", "data:")) for url in visit.requests)
    assert visit.said == []
    broken = page.evaluate(
        "async () => { const all = [...document.images];"
        " await Promise.all(all.map(i => i.decode()));"
        " return all.filter(i => !(i.naturalWidth > 0)).length }"
    )
    assert broken == 0 and page.locator("img").count() == 9
    assert page.locator("tbody tr").count() == len(assembly.poses)
    assert page.locator("script").count() == 0
    names = [name.strip() for name in page.locator("tbody th").all_inner_texts()]
    assert HOSTILE in names
    assert assembly.puzzle.id in page.locator("h1").inner_text()


def test_nothing_hangs_over_the_edge(visit: Visit) -> None:
    wide = visit.page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0


def test_pictures_are_painted(visit: Visit) -> None:
    for drawing in visit.page.locator("svg.drawing").all():
        pixels = np.asarray(Image.open(io.BytesIO(drawing.screenshot())).convert("RGB")).astype(int)
        colourful = np.ptp(pixels, axis=2) > 60
        assert colourful.mean() > 0.1


def test_it_prints_on_a_few_pages(chromium: Browser, saved: Path) -> None:
    visit = Visit(chromium, saved / "report.html", 1440, 900)
    pdf = visit.page.pdf(prefer_css_page_size=True)
    visit.page.emulate_media(media="print")
    visit.page.set_viewport_size({"width": 688, "height": 1017})  # A4 within its margins.
    wide = visit.page.evaluate("document.documentElement.scrollWidth - innerWidth")
    visit.page.close()
    assert wide <= 0
    assert 2 <= pdf.count(b"/Type /Page\n") <= 5


def test_the_drawing_is_painted_as_ours_is(chromium: Browser, saved: Path, assembly) -> None:
    """A browser's idea of assembly.svg agrees with assembly.png."""
    visit = Visit(chromium, saved / "assembly.svg", 1200, 1200)
    assert all(url.startswith(("file:", "data:")) for url in visit.requests)
    assert visit.said == []
    # At 96 dpi a CSS millimetre is 96 / 25.4 pixels; hiding outlines leaves the pictures.
    visit.page.evaluate(
        "document.querySelectorAll('path').forEach(p => p.setAttribute('stroke', 'none'))"
    )
    size = visit.page.evaluate(
        "(() => { const r = document.documentElement.getBoundingClientRect();"
        " return [r.width, r.height] })()"
    )
    visit.page.set_viewport_size({"width": int(size[0]) + 1, "height": int(size[1]) + 1})
    shown = Image.open(io.BytesIO(visit.page.screenshot())).convert("RGB")
    visit.page.close()
    left, top, right, bottom = lay_out(assembly).bounds
    pad = 0.1
    ours = render_placements(
        lay_out(assembly).placements,
        25.4 / 96,
        (left - pad, top - pad, right + pad, bottom + pad),
        background=(255, 255, 255),
    )[..., :3].astype(int)
    theirs = np.asarray(shown).astype(int)[: ours.shape[0], : ours.shape[1]]
    difference = np.abs(ours[: theirs.shape[0], : theirs.shape[1]] - theirs)
    assert difference.mean() < 1.5  # Two pixels aside would be 5.
    assert np.ptp(ours) > 200
