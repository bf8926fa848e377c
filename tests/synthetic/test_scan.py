"""A photograph shows the piece, its pose puts it back, and nothing else gives its pose away."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest

from reassembly.puzzle import Fragment
from reassembly.synthetic.scan import PLAIN, STUDIO, ScanSettings, prepare, scan

MM = 0.25


def piece(colour: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """A grey, lopsided piece with three white dots, and its field."""
    mask = np.zeros((220, 260), np.uint8)
    cv2.fillPoly(mask, [np.array([[20, 30], [240, 15], [200, 150], [90, 205]])], 1)
    image = np.full((220, 260, 3), colour, np.uint8)
    for x, y in DOTS:
        cv2.circle(image, (x, y), 5, (255, 255, 255), -1)
    inside = cv2.distanceTransform(mask, cv2.DIST_L2, 5) - 0.5
    outside = cv2.distanceTransform(1 - mask, cv2.DIST_L2, 5) - 0.5
    return image, np.where(mask > 0, inside, -outside).astype(np.float32)


DOTS = [(60, 60), (190, 50), (110, 150)]
CORNER = (31, 17)


def dots_seen(fragment: Fragment) -> np.ndarray:
    """(3, 2) centres of the white dots, mm, in the fragment's own frame."""
    bright = np.clip(fragment.image.mean(axis=2) - 190, 0, None).astype(np.float32)
    _, parts, stats, _ = cv2.connectedComponentsWithStats((bright > 0).astype(np.uint8))
    kept = 1 + np.argsort(stats[1:, cv2.CC_STAT_AREA])[-3:]
    centres = []
    for part in kept:
        rows, columns = np.nonzero(parts == part)
        weight = bright[rows, columns]
        centres.append(
            [np.average(columns + 0.5, weights=weight), np.average(rows + 0.5, weights=weight)]
        )
    return fragment.to_mm(np.array(centres))


@pytest.mark.parametrize("seed", range(12))
def test_the_pose_puts_the_piece_back_to_a_fraction_of_a_pixel(seed):
    image, solid = piece()
    fragment, pose = scan(
        prepare(image), solid, CORNER, np.random.default_rng(seed), PLAIN, MM, "a"
    )
    placed = pose.apply(dots_seen(fragment)) / MM - CORNER - 0.5
    for dot in DOTS:
        assert np.linalg.norm(placed - dot, axis=1).min() < 0.15


def test_a_scale_error_leaves_the_piece_where_it_was():
    image, solid = piece()
    settings = ScanSettings(scale_error=0.05)
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        fragment, pose = scan(prepare(image), solid, CORNER, rng, settings, MM, "a")
        placed = pose.apply(dots_seen(fragment)) / MM - CORNER
        assert np.linalg.norm(placed.mean(axis=0) - np.mean(DOTS, axis=0)) < 8
        ratios.append(fragment.mask.sum() / np.count_nonzero(solid > 0))
    assert np.std(np.sqrt(ratios)) == pytest.approx(0.05, rel=0.6)


@pytest.mark.parametrize("settings", [PLAIN, STUDIO])
def test_the_image_is_a_tight_crop_of_one_part(settings):
    image, solid = piece()
    fragment, _ = scan(image, solid, CORNER, np.random.default_rng(1), settings, MM, "a")
    mask = fragment.mask
    assert mask.any(axis=0)[[0, -1]].all() and mask.any(axis=1)[[0, -1]].all()
    assert cv2.connectedComponents(mask.astype(np.uint8), connectivity=4)[0] == 2
    assert (fragment.image[~mask] == 0).all()
    assert mask.sum() == pytest.approx(np.count_nonzero(solid > 0), rel=0.02)


def test_angles_are_uniform():
    image, solid = piece()
    angles = [
        scan(image, solid, CORNER, np.random.default_rng(seed), PLAIN, MM, "a")[1].rotation_deg
        for seed in range(200)
    ]
    assert np.histogram(angles, bins=4, range=(-180, 180))[0].min() > 30


def test_turning_does_not_betray_the_angle_by_softness():
    """Interpolated noise is softer between pixels than on them; prefiltered noise hardly is."""
    noise = np.random.default_rng(0).normal(128, 30, (300, 300, 3))
    picture = prepare(np.clip(noise, 0, 255).astype(np.uint8))
    solid = np.pad(np.ones((280, 280), np.float32), 10, constant_values=-1)
    patchiness = []
    for seed in range(6):
        fragment, _ = scan(picture, solid, (0, 0), np.random.default_rng(seed), PLAIN, MM, "a")
        height, width = fragment.mask.shape
        window = np.s_[height // 2 - 80 : height // 2 + 80, width // 2 - 80 : width // 2 + 80]
        grey = fragment.image[window][..., 1].astype(np.float32)
        energy = cv2.GaussianBlur((grey - cv2.GaussianBlur(grey, (0, 0), 1.2)) ** 2, (0, 0), 3)
        patchiness.append((energy.mean(), energy.std() / energy.mean()))
    assert np.ptp([p[0] for p in patchiness]) < 0.1 * np.mean([p[0] for p in patchiness])
    assert np.ptp([p[1] for p in patchiness]) < 0.05


def test_light_colour_and_noise_differ_from_photograph_to_photograph():
    _, solid = piece()
    image = np.full((*solid.shape, 3), 120, np.uint8)
    settings = ScanSettings(white_balance=0.03, exposure=0.1, shading=0.1, noise=(3.0, 3.0))
    means, grains, slopes = [], [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        fragment, _ = scan(image, solid, CORNER, rng, settings, MM, "a")
        grey = fragment.mask
        means.append(fragment.image[grey].mean(axis=0))
        rows, columns = np.nonzero(grey)
        design = np.column_stack([np.ones(rows.size), rows, columns])
        values = fragment.image[grey][:, 0].astype(float)
        plane = np.linalg.lstsq(design, values, rcond=None)[0]
        slopes.append(np.hypot(plane[1] * grey.shape[0], plane[2] * grey.shape[1]) / values.mean())
        grains.append((values - design @ plane).std())
    assert np.std(np.log(means).mean(axis=1)) == pytest.approx(0.1, rel=0.4)
    assert np.std(np.log(means)[:, 0] - np.log(means)[:, 2]) == pytest.approx(
        0.03 * math.sqrt(2), rel=0.4
    )
    assert np.median(grains) == pytest.approx(3, rel=0.2)
    assert np.median(slopes) == pytest.approx(0.12, rel=0.5)


def test_a_coarse_mask_has_steps_of_the_given_size():
    image, solid = piece()
    settings = ScanSettings(mask_step_mm=(2.0, 2.0))
    fragment, _ = scan(image, solid, CORNER, np.random.default_rng(2), settings, MM, "a")
    turns = np.abs(np.diff(fragment.mask.astype(int), axis=1)).sum(axis=0)
    assert np.count_nonzero(turns) < 0.3 * turns.size
    assert fragment.mask.sum() == pytest.approx(np.count_nonzero(solid > 0), rel=0.03)
