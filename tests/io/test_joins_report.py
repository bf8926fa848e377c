"""The page of joins: what it shows, that names cannot break it, and that it is all or nothing."""

import base64
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from reassembly.errors import InputError
from reassembly.io.joins_file import read_joins
from reassembly.io.joins_report import FILES, joins_html, save_joins
from reassembly.puzzle import Puzzle
from tests.assemblies import HOSTILE, SPACED
from tests.joining import true_join
from tests.puzzles import drawn_puzzle


@pytest.fixture(scope="module")
def puzzle():
    drawn = drawn_puzzle(4, seed=2, size_px=160)
    names = dict(zip(drawn.ids, (HOSTILE, SPACED, "c", "d"), strict=True))
    return Puzzle(
        "Casa & <b>12</b>",
        tuple(replace(f, id=names[f.id]) for f in drawn.fragments),
        {names[i]: pose for i, pose in drawn.truth.items()},
    )


@pytest.fixture(scope="module")
def joins(puzzle):
    pairs = [(HOSTILE, SPACED), ("c", "d"), ("d", HOSTILE)]
    sure = (0.9961, 0.42, 0.0004)
    return [
        replace(true_join(puzzle, *pair), probability=p)
        for pair, p in zip(pairs, sure, strict=True)
    ]


class Page(HTMLParser):
    """What a browser would see."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.data = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        if data.strip():
            self.text.append(data.strip())


def test_every_join_is_shown_best_first_with_its_figures(puzzle, joins):
    page = Page(joins_html(joins, puzzle))
    items = [a for tag, a in page.tags if tag == "li"]
    assert [(a["data-first"], a["data-second"]) for a in items] == [
        (join.first, join.second) for join in joins
    ]
    for text in ("> 0.99", "0.42", "< 0.01", "1.0 mm", "2.0 mm²", "30.0 mm"):
        assert text in page.text
    assert "calibrated" in " ".join(page.text)


def test_the_page_needs_nothing_and_runs_nothing(puzzle, joins):
    text = joins_html(joins, puzzle)
    page = Page(text)
    assert not [tag for tag, _ in page.tags if tag in ("script", "link", "iframe", "b")]
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("href", "src"):
            assert attributes.get(name, "data:").startswith("data:")
    assert "<script>alert" not in text
    assert text == joins_html(joins, puzzle)


def test_a_picture_shows_both_pieces_in_place(puzzle, joins):
    """As much of it is covered as the two pieces are large."""
    text = joins_html(joins[1:2], puzzle)
    data = re.search(r"data:image/webp;base64,([^\"]+)", text).group(1)
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"))
    one, other = puzzle["c"], puzzle["d"].placed(joins[1].pose)
    both = one.polygon.union(other)
    left, top, right, bottom = both.bounds
    share = both.area / ((right - left) * (bottom - top))
    assert (picture[..., 3] > 127).mean() == pytest.approx(share, abs=0.03)
    assert max(picture.shape) <= 361


def test_a_guessed_scale_is_said(puzzle, joins):
    assert "The scale is a guess" not in joins_html(joins, puzzle)
    guessed = replace(puzzle, metadata={"scale": "assumed"})
    assert "The scale is a guess" in joins_html(joins, guessed)


def test_no_joins_are_a_page_too(puzzle):
    assert "No two pieces" in joins_html([], puzzle)


def test_all_files_or_none(puzzle, joins, tmp_path):
    out = tmp_path / "new" / "joins"
    steps = []
    save_joins(joins, puzzle, out, progress=lambda *step: steps.append(step))
    assert steps[-1][:2] == (3, 3)
    assert sorted(p.name for p in out.iterdir()) == sorted(FILES)
    for name in FILES[:2]:
        back = read_joins(out / name, puzzle)
        assert [(j.first, j.second) for j in back] == [(j.first, j.second) for j in joins]
    with pytest.raises(InputError, match="not empty"):
        save_joins(joins, puzzle, out)
    (out / "mine.txt").write_text("kept")
    save_joins(joins[:1], puzzle, out, force=True)
    assert len(read_joins(out, puzzle)) == 1
    assert (out / "mine.txt").read_text() == "kept"
    broken = replace(joins[0], second="nobody")
    with pytest.raises(KeyError):
        save_joins([broken], puzzle, out, force=True)
    assert len(read_joins(out, puzzle)) == 1
