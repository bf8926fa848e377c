from __future__ import annotations

import io
import math
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from reassembly.io.render import (
    bounded_scale,
    contact_rows,
    contact_sheet_png,
    in_rows,
    lay_out,
    placed_bounds,
    png_bytes,
    render_assembly,
    render_placements,
    round_length,
)
from reassembly.pose import Pose, to_repair
from reassembly.puzzle import Assembly, Fragment, Puzzle
from tests.assemblies import incomplete_assembly
from tests.puzzles import drawn_puzzle

ANGLES = [0.0, 90.0, 180.0, -90.0, 33.7, -121.3]


def lopsided() -> Fragment:
    """A piece with a hole and without symmetry, off the centre of its oblong scan, but near enough
    to stay inside however it is turned."""
    rng = np.random.default_rng(0)
    mask = np.zeros((80, 120), bool)
    mask[20:60, 40:80] = True
    mask[40:70, 70:85] = True
    mask[25:30, 50:60] = False
    image = rng.integers(40, 255, (8, 12, 3)).astype(np.uint8).repeat(10, axis=0).repeat(10, axis=1)
    return Fragment("lopsided", image, mask, 0.5)


def centroid(alpha: np.ndarray) -> np.ndarray:
    """(x, y) in continuous pixel coordinates, weighted by alpha."""
    weight = alpha.astype(float)
    y, x = np.mgrid[: alpha.shape[0], : alpha.shape[1]] + 0.5
    return np.array([(x * weight).sum(), (y * weight).sum()]) / weight.sum()


@pytest.mark.parametrize("degrees", ANGLES)
@pytest.mark.parametrize("mm_per_px", [0.25, 0.5, 0.8, 1.6])
def test_a_piece_is_where_its_pose_says(degrees: float, mm_per_px: float) -> None:
    fragment = lopsided()
    pose = Pose.from_degrees(41.3, 37.9, degrees)
    bounds = (3.1, -2.3, 100.0, 90.0)
    picture = render_placements([(fragment, pose)], mm_per_px, bounds)
    rows, columns = np.nonzero(fragment.mask)
    middle = fragment.to_mm(np.array([[columns.mean() + 0.5, rows.mean() + 0.5]]))
    wanted = (pose.apply(middle)[0] - bounds[:2]) / mm_per_px
    assert np.abs(centroid(picture[..., 3]) - wanted).max() < 0.05
    area_px = picture[..., 3].sum() / 255
    assert area_px == pytest.approx(fragment.mask.sum() * (0.5 / mm_per_px) ** 2, rel=0.01)


@pytest.mark.parametrize("degrees", ANGLES)
def test_the_picture_is_that_of_repair(degrees: float) -> None:
    """Turned by Pillow about the image centre, then pasted at (x, y), it looks the same."""
    fragment = lopsided()
    rgba = np.dstack([fragment.image, fragment.mask * np.uint8(255)])
    pose = Pose.from_degrees(35.0, 30.0, degrees)
    x, y, rot = to_repair(pose, fragment.frame_px, fragment.mm_per_px)
    assert x == int(x) and y == int(y)
    wanted = Image.new("RGBA", (180, 160), (128, 128, 128, 255))
    turned = Image.fromarray(rgba).rotate(rot, Image.Resampling.BILINEAR)
    wanted.paste(turned, (int(x), int(y)), turned)
    got = render_placements(
        [(fragment, pose)], 0.5, (0.0, 0.0, 90.0, 80.0), background=(128, 128, 128)
    )
    difference = np.abs(got.astype(int) - np.asarray(wanted).astype(int)).max(axis=2)
    assert got.shape == (160, 180, 4)
    # Blocks of different colours meet every ten pixels; only there and at the edge may blending
    # differ. A shift by half a pixel would give ten times as much.
    assert difference.mean() < 0.6
    assert np.median(difference[got[..., 0] != 128]) <= 1


def test_the_truth_gives_back_the_square_that_was_cut() -> None:
    puzzle = drawn_puzzle(pieces=6, seed=3, size_px=240)
    assembly = Assembly.of(puzzle, puzzle.truth)
    picture = render_placements(lay_out(assembly).placements, 0.5, (0.0, 0.0, 120.0, 120.0))
    assert picture.shape == (240, 240, 4)
    assert (picture[..., 3] > 250).mean() > 0.96
    again = drawn_puzzle(pieces=6, seed=3, size_px=240, turned=False)
    straight = render_placements(
        [(f, again.truth[f.id]) for f in again.fragments], 0.5, (0.0, 0.0, 120.0, 120.0)
    )
    both = (picture[..., 3] == 255) & (straight[..., 3] == 255)
    difference = np.abs(picture.astype(int) - straight.astype(int))[both]
    assert difference.mean() < 5


def test_cropping_changes_no_picture() -> None:
    fragment = lopsided()
    pose, bounds = Pose(30.0, 30.0, 0.7), (0.0, 0.0, 80.0, 80.0)
    whole = render_placements([(fragment, pose)], 0.5, bounds)
    cropped = render_placements([(fragment.cropped(), pose)], 0.5, bounds)
    assert np.array_equal(whole, cropped)


def test_edges_are_soft_and_not_darkened() -> None:
    white = Fragment("w", np.full((40, 40, 3), 255, np.uint8), np.ones((40, 40), bool), 1.0)
    picture = render_placements([(white, Pose(40, 40, 0.5))], 1.0, (0.0, 0.0, 80.0, 80.0))
    edge = (picture[..., 3] > 0) & (picture[..., 3] < 255)
    assert edge.sum() > 50
    assert picture[edge][:, :3].min() > 250
    grounded = render_placements(
        [(white, Pose(40, 40, 0.5))], 1.0, (0.0, 0.0, 80.0, 80.0), background=(0, 0, 0)
    )
    assert (grounded[..., 3] == 255).all()
    assert np.abs(grounded[..., 0].astype(int) - picture[..., 3]).max() <= 1


def test_later_pieces_lie_on_top_and_outside_is_cut_off() -> None:
    def plain(name: str, value: int) -> Fragment:
        return Fragment(name, np.full((20, 20, 3), value, np.uint8), np.ones((20, 20), bool), 1.0)

    placements = [
        (plain("a", 50), Pose(0, 0)),
        (plain("b", 200), Pose(5, 0)),
        (plain("c", 9), Pose(99, 99)),
    ]
    picture = render_placements(placements, 1.0, (0.0, 0.0, 12.0, 12.0))
    assert set(np.unique(picture[:9, :14, 0])) == {200}
    assert (picture[11, :, 3] == 0).all()


def test_shrinking_averages_instead_of_skipping() -> None:
    stripes = np.zeros((160, 160, 3), np.uint8)
    stripes[:, ::2] = 200
    fragment = Fragment("s", stripes, np.ones((160, 160), bool), 0.1)
    small = render_placements([(fragment, Pose(0, 0, 0.3))], 0.8, (-4.0, -4.0, 4.0, 4.0))
    assert np.ptp(small[..., :3].astype(int)) <= 6


def test_islands_lie_side_by_side_with_a_gap() -> None:
    puzzle = drawn_puzzle(pieces=6, seed=1)
    far = Pose(5000.0, -800.0, 1.0)
    first = {i: puzzle.truth[i] for i in puzzle.ids[:3]}
    second = {i: far @ puzzle.truth[i] for i in puzzle.ids[3:5]}
    assembly = Assembly.of(puzzle, first, second)
    sheet = lay_out(assembly)
    a, b = sheet.island_bounds
    assert b[0] > a[2] + 5 and b[1] == pytest.approx(a[1])
    assert {f.id: p for f, p in sheet.islands[0]} == first
    for fragment, pose in sheet.islands[1]:
        x, y = sheet.shifts_mm[1]
        own = second[fragment.id]
        assert (pose.x_mm, pose.y_mm, pose.rotation_rad) == (
            own.x_mm + x,
            own.y_mm + y,
            own.rotation_rad,
        )
    picture = render_assembly(assembly)
    left, _, right, _ = sheet.bounds
    assert picture.shape[1] == math.ceil((right - left) / 0.5 - 1e-6)
    gap = slice(math.ceil((a[2] - left) / 0.5) + 1, math.floor((b[0] - left) / 0.5) - 1)
    assert (picture[:, gap, 3] == 0).all()
    assert (picture[:, gap.stop + 4 :, 3] > 0).any()


def test_large_assemblies_are_drawn_coarser() -> None:
    puzzle = drawn_puzzle(pieces=3)
    assembly = Assembly.of(puzzle, puzzle.truth)
    bounds = lay_out(assembly).bounds
    small = render_assembly(assembly, max_pixels=5000)
    scale = bounded_scale(bounds, puzzle.mm_per_px, 5000)
    assert 4500 < small.shape[0] * small.shape[1] <= 5000
    assert small.shape[1] == pytest.approx((bounds[2] - bounds[0]) / scale, abs=1)
    assert bounded_scale(bounds, puzzle.mm_per_px) == puzzle.mm_per_px

    lost = dict(puzzle.truth) | {puzzle.ids[0]: Pose(1e8, 0.0)}
    picture = render_assembly(Assembly.of(puzzle, lost))
    assert max(picture.shape) <= 30_000


def test_nothing_placed_gives_an_empty_picture() -> None:
    picture = render_assembly(Assembly.of(drawn_puzzle(pieces=2)))
    assert picture.size > 0 and not picture.any()


def test_an_assembly_without_its_puzzle_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="without its puzzle"):
        lay_out(Assembly(({"a": Pose(0, 0)},)))


def test_rows_hold_every_piece_unturned_and_apart() -> None:
    puzzle = drawn_puzzle(pieces=7)
    placements = in_rows(puzzle.fragments, width_mm=150.0, gap_mm=5.0, below_mm=8.0)
    assert [f.id for f, _ in placements] == list(puzzle.ids)
    shapes = [f.placed(pose) for f, pose in placements]
    assert all(pose.rotation_rad == 0 for _, pose in placements)
    for k, shape in enumerate(shapes):
        assert all(shape.distance(other) >= 5.0 - 1e-9 for other in shapes[:k])
    left, top, right, _ = placed_bounds(placements)
    assert (left, top) == (pytest.approx(0), pytest.approx(0)) and right <= 150.0
    huge = replace(puzzle.fragments[0], mm_per_px=10.0)
    assert len(in_rows([huge, huge], width_mm=1.0, gap_mm=1.0)) == 2


def test_scales_may_differ_between_pieces() -> None:
    fine = lopsided()
    coarse = Fragment("coarse", fine.image[::2, ::2], fine.mask[::2, ::2], 1.0)
    puzzle = Puzzle("p", (fine, coarse))
    for fragment in puzzle.fragments:
        picture = render_placements([(fragment, Pose(35, 25, 0.4))], 0.5, (0.0, 0.0, 70.0, 50.0))
        if fragment is fine:
            wanted = centroid(picture[..., 3])
    assert np.abs(centroid(picture[..., 3]) - wanted).max() < 0.6


@pytest.mark.parametrize("count", [1, 9, 200, 1000])
@pytest.mark.parametrize("letter", [0.01, 0.024, 0.06])
def test_rows_of_any_number_of_pieces_fit_with_their_captions(count: int, letter: float) -> None:
    piece = lopsided()
    rows = contact_rows([piece] * count, letter)
    left, top, right, bottom = placed_bounds(rows.placements)
    assert len(rows.placements) == count and rows.letter_mm > 0
    assert bottom - top <= 2.6 * math.sqrt(count) * (
        piece.polygon.bounds[2] - piece.polygon.bounds[0]
    )
    assert right - left < math.inf


def test_a_contact_sheet_shows_every_piece_at_one_scale() -> None:
    puzzle = incomplete_assembly().puzzle
    data = contact_sheet_png(puzzle)
    assert data == contact_sheet_png(puzzle)
    sheet = Image.open(io.BytesIO(data))
    scale = 25.4 / sheet.info["dpi"][0]
    pixels = np.asarray(sheet)[..., :3].astype(int)
    coloured = (np.abs(pixels - (233, 231, 226)).max(axis=2) > 12).sum() * scale**2
    area = sum(f.area_mm2 for f in puzzle.fragments)
    assert area < coloured < 1.15 * area  # Letters and the bar are the rest.
    assert 1000 < sheet.width < 2500


@pytest.mark.parametrize(
    ("longest", "length"),
    [(7.3, 5), (5, 5), (99, 50), (100, 100), (0.31, 0.2), (1.9, 1), (2e4, 2e4)],
)
def test_round_lengths(longest: float, length: float) -> None:
    assert round_length(longest) == pytest.approx(length)


def test_png_files_hold_the_pixels_and_the_scale() -> None:
    rgba = np.random.default_rng(0).integers(0, 255, (7, 5, 4), dtype=np.uint8)
    picture = Image.open(io.BytesIO(png_bytes(rgba, 0.05)))
    assert np.array_equal(np.asarray(picture), rgba)
    assert picture.info["dpi"] == pytest.approx((508, 508))
    assert "dpi" not in Image.open(io.BytesIO(png_bytes(rgba))).info
