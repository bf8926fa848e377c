"""Pieces with extrapolated paint beside others: where the true place scores best and is found."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reassembly.matching.motions import composed, inverse, motion_of, pose_of
from reassembly.matching.paint_fit import (
    distinct,
    piece_of,
    refined,
    sampled,
    score,
    sheet_of,
    union,
)
from reassembly.pose import Pose
from tests.puzzles import drawn_puzzle

BAND_MM = 6.0
PUZZLE = drawn_puzzle(pieces=2, seed=3, size_px=200)
PIECES = {f.id: piece_of(f, sheet_of(f, BAND_MM)) for f in PUZZLE.fragments}
A, B = PUZZLE.ids

lengths = st.floats(-500, 500)
motions = st.tuples(st.floats(-3, 3), lengths, lengths).map(np.array)


def true_motion() -> np.ndarray:
    """Of the second piece beside the first, (3,)."""
    one, other = (motion_of(PUZZLE.truth[i], PUZZLE[i].centroid_mm) for i in (A, B))
    return composed(inverse(one[None])[0], other[None])[0]


def away(found: np.ndarray) -> np.ndarray:
    """(K,), mm: how far motions carry the second piece's points from where they belong, at most
    about."""
    true = true_motion()
    turned = 2 * np.abs(np.sin((found[:, 0] - true[0]) / 2)) * PIECES[B].radius_mm
    return np.hypot(*(found - true)[:, 1:].T) + turned


@given(motions, motions)
def test_motions_are_poses_about_the_centroid(one, other):
    centroid = PUZZLE.fragments[0].centroid_mm
    pose = pose_of(one, centroid)
    assert motion_of(pose, centroid) == pytest.approx(one, abs=1e-6)
    assert pose.apply(centroid[None])[0] == pytest.approx(one[1:], abs=1e-6)
    both = composed(one, other[None])
    expected = Pose(*one[1:], one[0]) @ Pose(*other[1:], other[0])
    assert both[0, 1:] == pytest.approx(expected.translation, abs=1e-6)
    assert composed(both[0], inverse(both))[0] == pytest.approx(np.zeros(3), abs=1e-6)


def test_the_sheet_knows_area_rim_and_paint():
    fragment = PUZZLE.fragments[0]
    sheet = sheet_of(fragment, BAND_MM)
    assert sheet.inside.sum() * sheet.cell_mm**2 == pytest.approx(fragment.area_mm2, rel=0.02)
    rim = np.asarray(fragment.polygon.exterior.coords)[:, :2] - fragment.centroid_mm
    assert np.abs(sheet.at(rim[None].astype(np.float32))[..., 3]).max() < 0.8
    own = fragment.image[fragment.mask].mean(axis=0) / 255
    assert sheet.maps[sheet.inside][:, :3].mean(axis=0) == pytest.approx(own, abs=0.02)


def test_the_true_place_beats_gap_overlap_and_slide():
    sheet, piece, true = PIECES[A].sheet, PIECES[B], true_motion()
    outward = true[1:] / np.linalg.norm(true[1:])
    aside = np.array([-outward[1], outward[0]])
    others = [
        true + np.array([0, *shift])
        for shift in (4 * outward, -4 * outward, 8 * aside, -8 * aside, 500 * outward)
    ]
    best, *rest = score(sheet, piece, np.array([true, *others]))
    assert best > 0 and best > 1.3 * max(rest)
    assert rest[-1] == pytest.approx(0, abs=1e-3)


def test_a_rough_score_prefers_the_same_places():
    rng = np.random.default_rng(1)
    spread = np.array([0.1, 6.0, 6.0])
    some = true_motion() + rng.normal(size=(60, 3)) * spread
    sheet, piece = PIECES[A].sheet, PIECES[B]
    for loose in (1.0, 3.0):
        full = score(sheet, piece, some, loose)
        rough = score(sheet, piece, some, loose, roughly=True)
        assert np.corrcoef(full, rough)[0, 1] > 0.95


def test_sampling_and_refining_find_the_true_place():
    told: list[float] = []
    sheets = {i: piece.sheet for i, piece in PIECES.items()}
    turns = np.radians(np.arange(0, 180, 5.0))
    both = sampled(sheets, PIECES, [(A, B), (B, A)], turns, told.append)
    found = both[A, B]
    assert told == sorted(told) and 0 <= told[0] <= told[-1] <= 1
    assert away(found).min() < 6
    # The turn of one beside the other is less than half a turn only one way round.
    assert away(inverse(both[B, A])).min() < 6
    near = found[[away(found).argmin()]]
    assert away(refined(sheets[A], PIECES[B], near, 12))[0] < 1.5


def test_a_union_is_where_its_pieces_are():
    true = np.array([np.zeros(3), true_motion()])
    far = true + np.array([0, 4000, -3000])
    whole = union([PIECES[A], PIECES[B]], far)
    area = sum(f.area_mm2 for f in PUZZLE.fragments)
    assert whole.inside.sum() * whole.cell_mm**2 == pytest.approx(area, rel=0.03)
    centres = far[:, None, 1:].astype(np.float32)
    assert (whole.at(centres)[..., 3] < 0).all()


def test_distinct_places_are_the_best_ones_and_apart():
    rng = np.random.default_rng(0)
    some = np.column_stack([np.zeros(60), rng.uniform(0, 20, (60, 2))])
    scores = rng.uniform(0, 1, 60).astype(np.float32)
    kept = distinct(PIECES[A], some, scores, 8, 5.0)
    assert kept[0] == scores.argmax() and (np.diff(scores[kept]) <= 0).all()
    gaps = np.linalg.norm(some[kept][:, None] - some[kept], axis=2)
    assert gaps[np.triu_indices(len(kept), 1)].min() >= 5.0
    turned = np.array([[0.0, 0, 0], [math.tau, 0, 0]])
    assert len(distinct(PIECES[A], turned, scores[:2], 2, 5.0)) == 1
