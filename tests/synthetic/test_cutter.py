"""The pieces partition the picture, whatever the cuts look like."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reassembly.errors import InputError
from reassembly.synthetic.cutter import CutSettings, broken_rim, cut

PAPER = CutSettings()
ROUGH = CutSettings(
    roughness_mm=1.5, min_side_mm=12, min_area_mm2=150, min_end_distance_mm=5, wave_amplitude=1 / 20
)


def cut_square(
    size: int, pieces: int, seed: int, how: CutSettings = PAPER, mm_per_px: float = 0.24
):
    domain = np.ones((size, size), bool)
    return cut(domain, pieces, np.random.default_rng(seed), how, mm_per_px).labels


def is_partition(labels: np.ndarray, domain: np.ndarray, pieces: int) -> bool:
    areas = np.bincount(labels[domain], minlength=pieces)
    connected = all(
        cv2.connectedComponents((labels == k).astype(np.uint8), connectivity=4)[0] == 2
        for k in range(pieces)
    )
    return bool(
        (labels[~domain] == -1).all()
        and len(areas) == pieces
        and areas.min() > 0
        and areas.sum() == domain.sum()
        and connected
    )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    pieces=st.integers(1, 14),
    width=st.integers(200, 420),
    height=st.integers(200, 420),
    rough=st.booleans(),
)
def test_pieces_partition_the_picture(seed, pieces, width, height, rough):
    domain = np.ones((height, width), bool)
    how = ROUGH if rough else PAPER
    labels = cut(domain, pieces, np.random.default_rng(seed), how, 240 / width).labels
    assert is_partition(labels, domain, pieces)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**9), pieces=st.integers(2, 9))
def test_pieces_partition_an_irregular_region(seed, pieces):
    rng = np.random.default_rng(seed)
    blobs = cv2.GaussianBlur(rng.normal(size=(300, 260)), (0, 0), 25)
    domain = (blobs > np.quantile(blobs, 0.3)).astype(np.uint8)
    _, parts, stats, _ = cv2.connectedComponentsWithStats(domain, connectivity=4)
    domain = parts == 1 + stats[1:, cv2.CC_STAT_AREA].argmax()
    labels = cut(domain, pieces, rng, PAPER, 1.0).labels
    assert is_partition(labels, domain, pieces)


def test_the_papers_limits_hold_at_the_default_scale():
    for seed in range(4):
        labels = cut_square(1024, 9, seed, mm_per_px=33 / 150)
        for k in range(9):
            mask = (labels == k).astype(np.uint8)
            points = np.argwhere(mask)[:, ::-1].astype(np.float32)
            sides = np.array(cv2.minAreaRect(points)[1]) + 1
            assert mask.sum() >= 150**2
            assert sides.min() >= 149
            assert sides.max() / sides.min() <= 4.05
            assert mask.sum() / sides.prod() >= 0.29


@pytest.mark.parametrize("pieces", [2, 5, 19, 40, 90])
def test_any_number_of_pieces_is_met(pieces):
    labels = cut_square(500, pieces, seed=1, mm_per_px=0.5)
    assert set(np.unique(labels)) == set(range(pieces))
    assert np.bincount(labels.ravel()).min() >= 400


def test_many_pieces_are_of_similar_size():
    areas = np.bincount(cut_square(600, 30, seed=2).ravel())
    assert areas.max() < 12 * areas.min()


def test_more_pieces_than_fit_are_refused():
    with pytest.raises(InputError, match=r"500 pieces do not fit.*at most \d+"):
        cut_square(128, 500, seed=0)


def test_seeds_decide():
    assert np.array_equal(cut_square(200, 6, seed=3), cut_square(200, 6, seed=3))
    assert not np.array_equal(cut_square(200, 6, seed=3), cut_square(200, 6, seed=4))


def test_cuts_run_in_all_directions():
    """The first cut divides the square along a random direction, not along its sides."""
    angles = []
    for seed in range(60):
        labels = cut_square(120, 2, seed, replace(PAPER, wavy=0, knots=(1.0,)), mm_per_px=1.0)
        beside = np.argwhere(cv2.dilate((labels == 0).astype(np.uint8), None) & (labels == 1))
        _, _, axes = np.linalg.svd(beside - beside.mean(axis=0), full_matrices=False)
        angles.append(np.arctan2(axes[0, 1], axes[0, 0]) % np.pi)
    counts = np.histogram(angles, bins=4, range=(0, np.pi))[0]
    assert counts.min() >= 6


def test_roughness_lengthens_the_breaks():
    def border(how):
        labels = cut_square(400, 5, seed=5, how=how, mm_per_px=0.5)
        return np.count_nonzero(np.diff(labels, axis=0)) + np.count_nonzero(np.diff(labels, axis=1))

    smooth = replace(PAPER, wavy=0)
    assert border(replace(smooth, roughness_mm=2.0, roughness_longest_mm=8)) > 1.15 * border(smooth)


def test_a_broken_rim_lies_inside_the_picture():
    how = replace(PAPER, rim_mm=(5.0, 20.0), wavy=0, knots=(1.0,))
    domain = broken_rim((300, 400), np.random.default_rng(0), how, 0.5)
    assert not domain[:8].any() and not domain[:, -8:].any()
    assert domain[45:-45, 45:-45].all()
    assert cv2.connectedComponents(domain.astype(np.uint8), connectivity=4)[0] == 2
    assert broken_rim((30, 40), np.random.default_rng(0), PAPER, 0.5).all()


def test_windows_hold_their_pieces_tightly():
    labels, windows = cut(np.ones((300, 280), bool), 7, np.random.default_rng(6), ROUGH, 0.8)
    for k, window in enumerate(windows):
        inside = labels[window] == k
        assert inside.sum() == (labels == k).sum()
        assert inside.any(axis=1)[[0, -1]].all() and inside.any(axis=0)[[0, -1]].all()
