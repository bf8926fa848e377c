"""One puzzle from a seed: its poses put the picture together again, and its scale is RePAIR's."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import pytest
import shapely

from reassembly.errors import InputError
from reassembly.io.render import render_placements
from reassembly.synthetic.make import PRESETS, Preset, draw_pieces, make_puzzle, recipe, stream
from reassembly.synthetic.wear import PRISTINE, WearSettings


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> list[Path]:
    """Pictures that cost nothing, for tests that look at shapes."""
    rng = np.random.default_rng(0)
    files = [tmp_path_factory.mktemp("pictures") / f"{k}.png" for k in range(2)]
    for file in files:
        cv2.imwrite(str(file), rng.integers(0, 255, (256, 256, 3), np.uint8))
    return files


def placed(made):
    return [made.puzzle[i].placed(pose) for i, pose in made.puzzle.truth.items()]


def diameters_mm(made) -> list[float]:
    return [2 * math.sqrt(f.mask.sum() / math.pi) * f.mm_per_px for f in made.puzzle.fragments]


@pytest.mark.parametrize("index", range(3))
def test_true_poses_put_the_picture_together_again(index):
    wanted = recipe("pairingnet", size_px=512)
    made = make_puzzle(wanted, 1, index)
    height, width = made.picture.shape[:2]
    whole = height * width * wanted.mm_per_px**2
    polygons = placed(made)
    union = shapely.union_all(polygons)
    assert union.area == pytest.approx(whole, rel=0.005)
    assert sum(p.area for p in polygons) - union.area < 0.005 * whole
    bounds = (0.0, 0.0, width * wanted.mm_per_px, height * wanted.mm_per_px)
    placements = [(made.puzzle[i], pose) for i, pose in made.puzzle.truth.items()]
    drawn = render_placements(placements, wanted.mm_per_px, bounds)[:height, :width]
    seen = drawn[..., 3] == 255
    assert seen.mean() > 0.97
    picture = made.picture[seen].ravel().astype(float)
    assert np.corrcoef(drawn[..., :3][seen].ravel(), picture)[0, 1] > 0.97


@pytest.mark.parametrize("preset", list(PRESETS))
def test_the_median_piece_is_as_large_as_repairs(preset, plain):
    wanted = recipe(preset, size_px=320, images=plain)
    sizes = [d for index in range(40) for d in diameters_mm(make_puzzle(wanted, 5, index))]
    assert np.median(sizes) == pytest.approx(79, rel=0.1)


def test_the_scale_follows_the_number_of_pieces():
    few, many = recipe("pairingnet", pieces=(4, 4)), recipe("pairingnet", pieces=(16, 16))
    assert many.mm_per_px == pytest.approx(2 * few.mm_per_px, rel=1e-4)
    fine = recipe("pairingnet", pieces=(4, 4), size_px=2048)
    assert fine.mm_per_px == pytest.approx(few.mm_per_px / 2, rel=1e-4)


def test_nine_pieces_on_average():
    rng = np.random.default_rng(0)
    counts = [draw_pieces(None, rng) for _ in range(20000)]
    assert np.mean(counts) == pytest.approx(45834 / 5000, abs=0.1)
    assert min(counts) == 4 and max(counts) == 18


@pytest.mark.parametrize("preset", list(PRESETS))
@pytest.mark.parametrize("pieces", [(2, 2), (4, 6), (25, 25)])
def test_a_wish_for_pieces_is_met(preset, pieces, plain):
    wanted = recipe(preset, size_px=256, pieces=pieces, images=plain)
    for index in range(4):
        assert pieces[0] <= len(make_puzzle(wanted, 2, index).puzzle) <= pieces[1]


def same(a, b) -> bool:
    return (
        a.puzzle.ids == b.puzzle.ids
        and a.puzzle.truth == b.puzzle.truth
        and all(np.array_equal(a.puzzle[i].image, b.puzzle[i].image) for i in a.puzzle.ids)
        and a.labels.to_bytes() == b.labels.to_bytes()
    )


def test_a_puzzle_depends_on_seed_and_index_alone():
    wanted = recipe("realistic", size_px=200, pieces=(4, 6))
    first = make_puzzle(wanted, 8, 3)
    make_puzzle(wanted, 1, 1)
    assert same(first, make_puzzle(wanted, 8, 3))
    assert not same(first, make_puzzle(wanted, 8, 4))
    assert not same(first, make_puzzle(wanted, 9, 3))


def test_workers_and_ranks_share_the_stream_without_overlap():
    wanted = recipe("pairingnet", size_px=128, pieces=(2, 3))
    found = []
    for rank in range(2):
        for worker in range(3):
            mine = stream(4, wanted, worker=worker, workers=3, rank=rank, ranks=2)
            found += [made.puzzle.metadata["index"] for made in islice(mine, 2)]
    assert sorted(found) == list(range(12))
    later = next(stream(4, wanted, worker=1, workers=3, rank=1, ranks=2, start=1))
    assert later.puzzle.metadata["index"] == 10
    assert same(later, make_puzzle(wanted, 4, 10))
    with pytest.raises(ValueError, match="no worker 3 of 3"):
        next(stream(4, wanted, worker=3, workers=3))


def test_the_stream_needs_no_torch():
    code = (
        "import sys; from reassembly.synthetic.make import stream; "
        "next(stream(0, 'pairingnet', size_px=128, pieces=(2, 2))); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_papers_disturbance_is_part_of_the_true_pose():
    """Eroded by a few pixels, disturbed by as much: pieces neither fill the picture nor keep
    apart."""
    wanted = recipe("paper", size_px=400, pieces=(8, 8))
    made = make_puzzle(wanted, 6, 0)
    polygons = placed(made)
    covered = shapely.union_all(polygons).area / (400 * wanted.mm_per_px) ** 2
    assert 0.9 < covered < 0.995
    still = replace(wanted.preset, wear=replace(wanted.preset.wear, turn_deg=0, shift_mm=0))
    calm = make_puzzle(replace(wanted, preset=still), 6, 0)
    apart = [(made.puzzle.truth[i].inverse() @ calm.puzzle.truth[i]) for i in made.puzzle.ids]
    assert max(abs(p.rotation_deg) for p in apart) <= 3.0
    assert any(abs(p.rotation_deg) > 0.3 for p in apart)
    assert any(abs(p.rotation_deg) < 1e-9 and abs(p.x_mm) > 1e-3 for p in apart)


def test_a_preset_chooses_the_style_of_its_walls_and_veils_them():
    wear = WearSettings(veil=(0.5, 0.5), veil_colour=(0, 0, 0))
    bare, veiled = (
        make_puzzle(
            recipe(Preset("own", wear=w, styles={"linear": 1.0}), size_px=160, pieces=(2, 2)), 5, 0
        ).picture
        for w in (PRISTINE, wear)
    )
    assert np.abs(veiled - 0.5 * bare).max() <= 0.5 + 1e-9
    other = Preset("own", styles={"first": 1.0})
    assert not np.array_equal(
        bare, make_puzzle(recipe(other, size_px=160, pieces=(2, 2)), 5, 0).picture
    )


def test_a_recipe_may_ask_for_one_style():
    wish = {"size_px": 160, "pieces": (2, 2)}
    asked = make_puzzle(recipe("realistic", style="lattice", **wish), 5, 0)
    own = replace(PRESETS["realistic"], styles={"lattice": 1.0})
    assert same(asked, make_puzzle(recipe(own, **wish), 5, 0))
    usual = make_puzzle(recipe("realistic", **wish), 5, 0)
    assert not np.array_equal(asked.picture, usual.picture)
    assert recipe("realistic", style=None) == recipe("realistic")


def test_a_style_that_cannot_be_painted_is_refused(plain):
    with pytest.raises(InputError, match=r"no style 'gothic'. Choose from first.*lattice"):
        recipe(style="gothic")
    with pytest.raises(InputError, match=r"for walls that are painted.*Leave out"):
        recipe(style="lattice", images=plain)


def test_strays_have_no_pose_and_lost_pieces_leave_the_rest_connected():
    preset = PRESETS["realistic"]
    wear = replace(preset.wear, strays=(0.0, 1.0), missing=(0.4, 0.5))
    wanted = recipe(replace(preset, wear=wear), size_px=256, pieces=(7, 7))
    for index in range(4):
        made = make_puzzle(wanted, 3, index)
        assert len(made.puzzle) == 7 and len(made.puzzle.strays) == 1
        assert set(made.puzzle.truth) == set(made.puzzle.ids) - made.puzzle.strays
        assert made.labels.strays.sum() == 1
        assert any((across == -2).any() for across in made.labels.across)
        reached, front = set(), {int(np.flatnonzero(~made.labels.strays)[0])}
        while front:
            reached |= front
            front = {j for p in made.labels.neighbours for j in p if set(p) & front} - reached
        assert len(reached) == 6


def test_names_do_not_tell_who_is_beside_whom(plain):
    wanted = recipe("pairingnet", size_px=160, pieces=(8, 8), images=plain)
    together, consecutive = [], []
    for index in range(40):
        pairs = make_puzzle(wanted, 7, index).labels.neighbours
        for i in range(8):
            for j in range(i + 1, 8):
                together.append((i, j) in pairs)
                if j == i + 1:
                    consecutive.append((i, j) in pairs)
    assert np.mean(consecutive) == pytest.approx(np.mean(together), abs=0.1)


def test_real_gaps_are_millimetres_wide():
    wanted = recipe("realistic", size_px=512, pieces=(8, 10))
    gaps = np.concatenate([g for k in range(4) for g in make_puzzle(wanted, 9, k).labels.gap_mm])
    low, middle, high = np.nanpercentile(gaps, [10, 50, 90])
    assert 0.5 < low < middle < high < 12
    assert 2 < middle < 6


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"preset": "marble"}, "no preset 'marble'. Choose from pairingnet"),
        ({"pieces": (1, 4)}, "1 to 4 pieces cannot be made"),
        ({"pieces": (6, 4)}, "6 to 4 pieces"),
        ({"size_px": 20}, "pictures of 20 px cannot be made"),
        ({"size_px": 10**6}, "Choose a size from"),
    ],
)
def test_impossible_wishes_are_refused(wish, message):
    with pytest.raises(InputError, match=message):
        recipe(**wish)


def test_more_pieces_than_fit_and_seeds_below_zero_are_refused():
    with pytest.raises(InputError, match=r"300 pieces do not fit.*at most 7"):
        recipe("pairingnet", size_px=128, pieces=(4, 300))
    with pytest.raises(InputError, match="seed -1"):
        make_puzzle(recipe("pairingnet"), -1, 0)
