"""The demo is the first thing a user sees."""

import cv2
import numpy as np
import pytest

import reassembly as ra
from reassembly.demo import make_demo
from reassembly.errors import InputError


def test_the_demo_tells_the_truth_about_what_it_wrote(tmp_path):
    rows = make_demo(tmp_path / "demo", pieces=4, seed=1)
    assert [row["solver"] for row in rows] == ["reassemblenet", "stack", "random", "ring"]
    again = ra.evaluate(tmp_path / "demo" / "assembly.json", tmp_path / "demo" / "puzzle")
    for key in ("q_pos", "correct", "placed"):
        assert again["mean"][key] == pytest.approx(rows[0][key], abs=0.01), key
    assert rows[0]["q_pos"] > 0.7 > max(row["q_pos"] for row in rows[1:])
    fresco = cv2.imread(str(tmp_path / "demo" / "fresco.png"))
    overview = cv2.imread(str(tmp_path / "demo" / "overview.png"))
    assert fresco.std() > 10 and overview.shape[1] > 1000
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000


@pytest.mark.slow
def test_the_demo_overwrites_only_when_told_to(tmp_path):
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(InputError, match="--force"):
        make_demo(tmp_path, pieces=2)
    make_demo(tmp_path, pieces=2, preset="pairingnet", force=True)
    make_demo(tmp_path, pieces=3, preset="pairingnet", force=True)
    assert (tmp_path / "note.txt").read_text() == "mine"
    puzzle = ra.load(tmp_path / "puzzle")
    assert len(puzzle) == 3
    assert np.isfinite([p.x_mm for p in puzzle.truth.values()]).all()
