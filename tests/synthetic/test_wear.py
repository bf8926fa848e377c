"""Wear takes off what its settings say, where they say it."""

from __future__ import annotations

import math
from dataclasses import replace

import cv2
import numpy as np
import pytest

from reassembly.pose import Pose
from reassembly.synthetic.wear import (
    PAPER,
    PRISTINE,
    REALISTIC,
    WearSettings,
    damage_paint,
    disturbance,
    loss_field,
    tick_marks,
    veil_paint,
    wear_piece,
)

EVEN = WearSettings(loss_mm=2.0)
"""A loss of 2 mm everywhere and nothing else."""


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def square(side: int = 240, margin: int = 12) -> np.ndarray:
    return np.pad(np.ones((side, side), np.uint8), margin)


def worn(mask, settings, seed=0, mm_per_px=0.25):
    shared = loss_field(mask.shape, rng(99), settings, mm_per_px)
    return wear_piece(mask, shared, rng(seed), settings, mm_per_px) > 0


def test_no_wear_leaves_the_piece_as_it_was():
    mask = cv2.circle(np.zeros((200, 200), np.uint8), (100, 100), 80, 1, -1)
    assert np.count_nonzero(worn(mask, PRISTINE) != mask.astype(bool)) < 0.002 * mask.sum()


@pytest.mark.parametrize("steps", [1, 3, 5])
def test_the_papers_erosion_is_that_of_a_3x3_square(steps):
    mask = cv2.circle(np.zeros((200, 200), np.uint8), (90, 100), 70, 1, -1)
    settings = replace(PAPER, erosion_steps=(steps, steps))
    left = worn(mask, settings, mm_per_px=0.24)
    chessboard = cv2.distanceTransform(mask, cv2.DIST_C, 3)
    assert np.count_nonzero(left != (chessboard > steps)) < 0.005 * mask.sum()


def test_the_papers_erosion_varies_from_piece_to_piece():
    areas = {int(worn(square(), PAPER, seed, 0.24).sum()) for seed in range(30)}
    assert len(areas) == 5


def test_lengths_are_millimetres_whatever_the_scale():
    for mm_per_px in (0.125, 0.25, 0.5):
        side = round(60 / mm_per_px)
        left = worn(square(side), EVEN, mm_per_px=mm_per_px)
        assert math.sqrt(left.sum()) * mm_per_px == pytest.approx(60 - 2 * 2.0, abs=0.8)


def test_loss_is_uneven_and_shared_in_part_by_the_two_sides_of_a_break():
    settings = WearSettings(loss_mm=2.0, loss_spread=0.6, loss_wavelength_mm=40, loss_shared=0.6)
    above = np.zeros((300, 900), np.uint8)
    above[10:150, 10:-10] = 1
    below = np.zeros_like(above)
    below[150:290, 10:-10] = 1
    pairs = []
    for seed in range(6):
        shared = loss_field(above.shape, rng(seed), settings, 0.25)
        drawn = rng(100 + seed)
        upper = wear_piece(above, shared, drawn, settings, 0.25) > 0
        lower = wear_piece(below, shared, drawn, settings, 0.25) > 0
        lost_above = 150 - (np.flatnonzero(upper.any(axis=1))[0] + upper.sum(axis=0)[60:-60])
        pairs.append([lost_above, lower[:290].argmax(axis=0)[60:-60] - 150])
    depths = np.concatenate(pairs, axis=1) * 0.25
    assert np.median(depths[1]) == pytest.approx(2.0, abs=0.5)
    assert np.std(np.log(depths[1])) > 0.3
    assert 0.25 < np.corrcoef(depths)[0, 1] < 0.9


def test_rounding_takes_corners_and_nothing_else():
    left = worn(square(), replace(EVEN, loss_mm=1e-6, rounding_mm=(8.0, 8.0)))
    radius = 8 / 0.25
    assert left.sum() == pytest.approx(240**2 - (4 - math.pi) * radius**2, rel=0.004)
    assert left[12 + 120, 12:252].all()


def test_chips_break_corners_off_within_their_depth():
    settings = replace(EVEN, loss_mm=1e-6, chip_probability=1.0, chip_mm=(5.0, 5.0))
    left = worn(square(), settings)
    corners = [left[13, 13], left[13, -14], left[-14, 13], left[-14, -14]]
    assert not any(corners)
    assert left[12 + 60 : -12 - 60].all(axis=0)[12:-12].all()


def test_a_sawn_edge_is_straight():
    columns = np.arange(300)
    mask = np.zeros((260, 340), np.uint8)
    for x, top in zip(columns + 20, 40 + 6 * np.sin(columns / 9), strict=True):
        mask[round(top) : 240, x] = 1
    settings = replace(EVEN, loss_mm=1e-6, sawn_probability=1.0, sawn_mm=(3.0, 3.0))
    straight = 0
    for seed in range(12):
        left = worn(mask, settings, seed)
        tops = left.argmax(axis=0)[60:-60]
        fit = np.polyfit(np.arange(tops.size), tops, 1)
        straight += np.abs(tops - np.polyval(fit, np.arange(tops.size))).max() < 1.5
    # The wavy edge is one of four sides, each sawn in proportion to its length.
    assert 1 <= straight <= 9


def test_no_wear_bores_holes():
    harsh = replace(EVEN, loss_mm=4.0, loss_spread=1.5, loss_wavelength_mm=12, loss_most_mm=30)
    for seed in range(5):
        left = worn(square(), harsh, seed)
        outer = cv2.findContours(left.view(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)[1]
        assert (outer[0, :, 3] < 0).all()


@pytest.mark.parametrize("settings", [PAPER, REALISTIC, replace(EVEN, loss_mm=50, loss_most_mm=99)])
def test_a_tiny_piece_survives(settings):
    for seed in range(10):
        left = worn(square(16), settings, seed, mm_per_px=0.25)
        assert left.sum() >= 0.4 * 16**2


def test_the_papers_disturbance_is_a_turn_or_a_shift():
    centre = Pose(100.0, 50.0)
    motions = [disturbance(centre, rng(seed), PAPER) for seed in range(200)]
    turned = [m for m in motions if m.rotation_rad != 0]
    assert 60 < len(turned) < 140
    assert max(abs(m.rotation_deg) for m in turned) == pytest.approx(3, abs=0.2)
    for motion in motions:
        moved = motion.apply([[100.0, 50.0]])[0] - [100, 50]
        if motion.rotation_rad:
            assert np.allclose(moved, 0)
        else:
            assert 0 < np.abs(moved).max() <= PAPER.shift_mm
    still = disturbance(centre, rng(), PRISTINE)
    assert np.allclose(still.apply([[7.0, 3.0]]), [[7, 3]])


def test_a_veil_draws_all_colours_towards_its_own_by_the_share_it_hides():
    picture = rng(1).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    assert veil_paint(picture, rng(), PRISTINE) is picture
    settings = WearSettings(veil=(0.6, 0.6), veil_colour=(150, 160, 170))
    expected = 0.4 * picture + 0.6 * np.array([150, 160, 170])
    assert np.abs(veil_paint(picture, rng(), settings) - expected).max() <= 0.5 + 1e-9


def test_flakes_show_plaster_at_the_rim_only():
    settings = WearSettings(flake_share=0.3, flake_mm=3.0)
    solid = cv2.distanceTransform(square(), cv2.DIST_L2, 5)
    red = np.full((*solid.shape, 3), (160, 30, 20), np.uint8)
    image = damage_paint(red, solid, rng(3), settings, 0.25)
    changed = np.abs(image.astype(int) - red).max(axis=2) > 60
    rim = (solid > 0) & (solid < 4)
    assert 0.1 < changed[rim].mean() < 0.6
    assert not changed[solid > 20 / 0.25].any()
    plaster = image[changed & rim].mean(axis=0)
    assert np.allclose(plaster, settings.flake_colour, atol=25)


def test_dirt_fades_inwards():
    settings = WearSettings(stain_mm=3.0, stain_strength=0.5)
    solid = cv2.distanceTransform(square(), cv2.DIST_L2, 5)
    white = np.full((*solid.shape, 3), 240, np.uint8)
    image = damage_paint(white, solid, rng(4), settings, 0.25).mean(axis=2)
    depths = [image[(solid > a) & (solid < b)].mean() for a, b in ((0, 4), (10, 14), (60, 100))]
    assert depths[0] < depths[1] - 5 < depths[2] - 10
    assert depths[2] > 236


def test_ticks_cross_the_joins():
    settings = replace(PRISTINE, ticks_probability=1.0, ticks_share=1.0)
    edge = np.column_stack([np.full(80, 40.0), np.arange(10.0, 90.0)])
    ink = tick_marks((400, 400), [edge], rng(5), settings, 0.25)
    assert ink is not None
    columns = np.nonzero(ink > 100)[1]
    assert (columns < 160).any() and (columns > 160).any()
    assert np.abs(columns - 160).max() * 0.25 < settings.tick_length_mm[1]
    assert 0.3 < (columns < 160).mean() < 0.7
    assert tick_marks((400, 400), [edge], rng(5), PRISTINE, 0.25) is None
