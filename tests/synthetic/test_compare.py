"""Distances must be nothing for equal sets, and move for the right row by the right amount."""

from __future__ import annotations

import csv
import html
import json
import math
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from reassembly.errors import InputError
from reassembly.pose import Pose, to_repair
from reassembly.puzzle import Fragment, Puzzle
from reassembly.synthetic.compare import Comparison, compare, distances, measure, side_by_side
from reassembly.synthetic.measures import ROWS, Statistics, rows_at
from tests.puzzles import drawn_puzzle

COLOUR_ROWS = ("lightness", "redness", "yellowness")


@cache
def drawn(seed: int, gap_px: int = 0) -> Puzzle:
    return drawn_puzzle(5, seed, size_px=600, mm_per_px=0.25, gap_px=gap_px)


@cache
def drawn_statistics(seeds: range, gap_px: int = 0) -> Statistics:
    return measure([drawn(seed, gap_px) for seed in seeds])


def by_name(a: Statistics, b: Statistics) -> dict[str, Comparison]:
    return {row.name: row for row in distances(a, b)}


def square(
    angle_rad: float = 0.0, mm_per_px: float = 0.2, wave_mm: float = 0.0, side_mm: float = 80.0
) -> Fragment:
    """A striped square, turned, its edges wavy by so much at a wavelength of 5.5 mm."""
    reach_px = round(side_mm * 1.6 / mm_per_px / 2)
    y, x = (np.mgrid[-reach_px:reach_px, -reach_px:reach_px] + 0.5) * mm_per_px
    u = x * math.cos(angle_rad) + y * math.sin(angle_rad)
    v = -x * math.sin(angle_rad) + y * math.cos(angle_rad)
    wave = math.tau / 5.5
    mask = (np.abs(u) < side_mm / 2 + wave_mm * np.sin(v * wave)) & (
        np.abs(v) < side_mm / 2 + wave_mm * np.sin(u * wave)
    )
    stripe = 0.5 + 0.5 * np.tanh(np.sin(u * math.tau / 20) * 4)
    image = np.stack([90 + 100 * stripe, 80 + 60 * stripe, 70 + 40 * stripe], axis=-1)
    return Fragment("a", np.where(mask[..., None], image, 0).astype(np.uint8), mask, mm_per_px)


def alone(fragment: Fragment, name: str = "one") -> Puzzle:
    return Puzzle(name, (fragment,), {fragment.id: Pose(0, 0)})


def medians(puzzle: Puzzle) -> dict[str, float]:
    of = measure([puzzle])
    return {
        name: float(np.median(values[0])) for name, values in of.samples.items() if len(values[0])
    }


def test_a_set_is_at_no_distance_from_itself_and_no_row_is_empty() -> None:
    of = drawn_statistics(range(4))
    for row in distances(of, of):
        assert row.distance == pytest.approx(0, abs=1e-9), row.name
        assert row.samples_a > 0, row.name


def test_two_halves_of_one_kind_are_no_further_apart_than_chance_explains() -> None:
    rows = distances(drawn_statistics(range(4)), drawn_statistics(range(4, 8)))
    near = [row.distance < max(3 * row.chance, 0.1) for row in rows if row.distance and row.chance]
    assert len(near) > 15 and np.mean(near) > 0.85


def test_distance_of_a_shifted_row_is_the_shift_over_the_reference_range() -> None:
    ramp = tuple(np.linspace(k, 10 + k, 101) for k in (0.0, 0.0))
    a = Statistics(("p", "q"), 0.3, {"gap": ramp}, {"gap": (101, 101)})
    b = replace(a, samples={"gap": tuple(values + 4 for values in ramp)})
    (row,) = distances(a, b)
    assert row.distance == pytest.approx(4 / 8, rel=0.02)
    assert row.distance_low is not None and row.distance_high is not None
    assert row.distance_low <= row.distance + 1e-9 and row.distance <= row.distance_high + 1e-9
    assert (row.low_a, row.median_a, row.high_a) == pytest.approx((1, 5, 9), abs=0.1)


def test_thinned_puzzles_keep_their_weight() -> None:
    # One puzzle of 6000 zeros, of which 2 are kept, against one of 2000 ones.
    a = Statistics(("p", "q"), 0.3, {"gap": (np.zeros(2), np.ones(2))}, {"gap": (6000, 2000)})
    b = Statistics(("p",), 0.3, {"gap": (np.zeros(2),)}, {"gap": (2,)})
    (row,) = distances(a, b)
    assert row.distance == pytest.approx(0.25)


def test_erosion_moves_the_gap_by_its_width_and_leaves_the_paint() -> None:
    rows = by_name(drawn_statistics(range(4)), drawn_statistics(range(4), gap_px=3))
    gap = rows["gap"]
    # A 3x3 kernel takes 3 px from an upright break and 3 * sqrt(2) px from an oblique one.
    assert gap.median_a == pytest.approx(0, abs=0.1)
    assert 6 * 0.25 - 0.1 < gap.median_b - gap.median_a < 6 * 0.25 * math.sqrt(2) + 0.1
    assert gap.distance is not None and gap.distance > 1
    for name in COLOUR_ROWS:
        assert rows[name].distance < 0.1, name


def test_overlap_is_a_negative_gap() -> None:
    side = 80.0
    one, other = square(side_mm=side), replace(square(side_mm=side), id="b")
    for offset in (-1.5, 0.0, 2.5):
        truth = {"a": Pose(0, 0), "b": Pose(side + offset, 0)}
        found = medians(Puzzle("two", (one, other), truth))
        assert found["gap"] == pytest.approx(offset, abs=0.15)
        assert found["joined"] == pytest.approx(25, abs=3)


def test_unevenness_sees_a_gap_that_opens() -> None:
    one, other = square(), replace(square(), id="b")
    even = {"a": Pose(0, 0), "b": Pose(83, 0)}
    wedge = {"a": Pose(0, 0), "b": Pose(83, 0, math.radians(3))}
    assert medians(Puzzle("even", (one, other), even))["unevenness"] < 0.1
    # 3 degrees over 80 mm: 4.2 mm, whose standard deviation as a ramp is 4.2 / sqrt(12).
    opened = medians(Puzzle("wedge", (one, other), wedge))["unevenness"]
    assert opened == pytest.approx(80 * math.tan(math.radians(3)) / math.sqrt(12), rel=0.15)


def test_a_sawn_edge_raises_straightness_and_lowers_roughness() -> None:
    wavy, sawn = square(wave_mm=1.0), square(wave_mm=1.0)
    _, x = np.mgrid[: sawn.mask.shape[0], : sawn.mask.shape[1]]
    cut = sawn.mask & (x < sawn.mask.shape[1] * 0.6)
    sawn = replace(sawn, mask=cut)
    before, after = (measure([alone(f)]).samples for f in (wavy, sawn))
    assert after["straight"][0][0] > before["straight"][0][0] + 15
    assert after["run"][0][0] > 2 * before["run"][0][0]
    assert np.quantile(after["rough_4_8"][0], 0.1) < 0.3 * np.quantile(before["rough_4_8"][0], 0.1)


def test_roughness_is_found_in_its_own_octave_at_its_own_size() -> None:
    found = measure([alone(square(wave_mm=0.6))]).samples
    sizes = {low: np.median(found[f"rough_{low}_{2 * low}"][0]) for low in (1, 2, 4, 8)}
    assert sizes[4] == pytest.approx(0.6 / math.sqrt(2), rel=0.25)
    assert max(sizes[1], sizes[2], sizes[8]) < 0.5 * sizes[4]


def test_rounded_corners_lose_what_was_rounded_off() -> None:
    sharp = square()
    radius_mm = 5.0
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (51, 51))
    rounded = cv2.morphologyEx(sharp.mask.astype(np.uint8), cv2.MORPH_OPEN, kernel) > 0
    loss = {
        name: medians(alone(fragment))["corner"]
        for name, fragment in {"sharp": sharp, "rounded": replace(sharp, mask=rounded)}.items()
    }
    assert loss["sharp"] < 0.5
    assert loss["rounded"] == pytest.approx(radius_mm * (math.sqrt(2) - 1), abs=0.6)


@pytest.mark.parametrize("angle_deg", [17.0, 45.0, 118.0])
def test_turning_the_scan_changes_nothing(angle_deg: float) -> None:
    flat, turned = (
        measure([alone(square(math.radians(d), wave_mm=0.3))]) for d in (0.0, angle_deg)
    )
    assert_alike(flat, turned)


def test_a_finer_scan_changes_nothing() -> None:
    fine, coarse = (measure([alone(square(0.3, pixel, wave_mm=0.3))]) for pixel in (0.12, 0.25))
    assert_alike(fine, coarse)


def assert_alike(a: Statistics, b: Statistics) -> None:
    """No row further apart than a tenth of its range, or, where that is nothing, than so much."""
    least = {"mm": 0.15, "%": 6.0, "deg": 2.0, "L*": 0.5, "": 0.05}
    for row in distances(a, b):
        assert (row.samples_a == 0) == (row.samples_b == 0), row.name
        if row.distance is not None:
            close = abs(row.median_a - row.median_b) <= least[row.unit]
            assert row.distance < 0.1 or close, row


def test_a_darkened_rim_and_a_jump_of_colour_are_told() -> None:
    plain = square()
    grey = replace(plain, image=np.full_like(plain.image, 150))
    depth = cv2.distanceTransform(grey.mask.astype(np.uint8), cv2.DIST_L2, 5) * grey.mm_per_px
    dark = replace(grey, image=np.where(depth[..., None] < 3, 110, grey.image).astype(np.uint8))
    assert medians(alone(grey))["fade"] == pytest.approx(0, abs=0.1)
    assert medians(alone(dark))["fade"] < -8
    red = replace(grey, id="b", image=np.full_like(plain.image, (190, 120, 120)))
    pair = {"a": Pose(0, 0), "b": Pose(82, 0)}
    same = medians(Puzzle("same", (grey, replace(grey, id="b")), pair))["jump"]
    other = medians(Puzzle("other", (grey, red), pair))["jump"]
    assert same == pytest.approx(0, abs=0.1) and other > 20


def test_blur_takes_fine_detail_first() -> None:
    rng = np.random.default_rng(0)
    plain = square()
    noise = cv2.GaussianBlur(rng.normal(0, 1, plain.mask.shape), (0, 0), 1.5) * 150
    sharp = np.clip(150 + noise, 0, 255)
    soft = cv2.GaussianBlur(sharp, (0, 0), 4)
    images = [np.repeat(i[..., None], 3, axis=2).astype(np.uint8) for i in (sharp, soft)]
    before, after = (medians(alone(replace(plain, image=i))) for i in images)
    assert after["fine"] < 0.4 * before["fine"]
    assert after["coarse"] > 0.7 * before["coarse"]


def test_neither_the_order_of_puzzles_nor_of_pieces_matters() -> None:
    puzzles = [drawn(seed) for seed in range(3)]
    shuffled = [replace(p, fragments=p.fragments[::-1]) for p in puzzles[::-1]]
    forward, backward = measure(puzzles), measure(shuffled)
    assert forward.puzzles == backward.puzzles
    rows = zip(
        distances(forward, drawn_statistics(range(4))),
        distances(backward, drawn_statistics(range(4))),
        strict=True,
    )
    for one, other in rows:
        assert one.distance == pytest.approx(other.distance, abs=1e-9), one.name


def test_strays_are_left_out_and_puzzles_without_truth_have_no_joins() -> None:
    puzzle = drawn(0)
    stray = replace(square(), id="stray")
    with_stray = replace(puzzle, fragments=(*puzzle.fragments, stray), strays=frozenset(["stray"]))
    without, with_it = measure([puzzle]), measure([with_stray])
    for name, values in without.samples.items():
        np.testing.assert_array_equal(values[0], with_it.samples[name][0])
    unsolved = measure([replace(puzzle, truth=None)])
    assert sum(unsolved.counts["gap"]) == 0
    assert by_name(drawn_statistics(range(4)), unsolved)["gap"].distance is None


def test_coarse_scans_leave_fine_rows_out() -> None:
    names = {row.name for row in rows_at(0.5)}
    assert "rough_1_2" not in names and "fine" not in names and "rough_4_8" in names
    assert len(rows_at(0.35)) == len(ROWS)


def write_set(folder: Path, puzzles: list[Puzzle]) -> Path:
    """The puzzles in the RePAIR v2 layout."""
    for puzzle in puzzles:
        place = folder / puzzle.id
        place.mkdir(parents=True)
        records = []
        for fragment in puzzle.fragments:
            alpha = fragment.mask[..., None].astype(np.uint8) * 255
            picture = np.dstack([fragment.image[..., ::-1], alpha])
            cv2.imwrite(str(place / f"{fragment.id}.png"), picture)
            assert puzzle.truth is not None
            x, y, rot = to_repair(puzzle.truth[fragment.id], fragment.frame_px, fragment.mm_per_px)
            records.append(
                {"filename": f"{fragment.id}.png", "pixel_position": [x, y], "rotation": rot}
            )
        data = {"original_id": puzzle.id, "mm_per_px": puzzle.mm_per_px, "fragments": records}
        (place / "data.json").write_text(json.dumps(data), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("sets")
    tight = write_set(folder / "tight", [drawn(seed) for seed in range(2)])
    return tight, write_set(folder / "worn", [drawn(seed, 3) for seed in range(2)])


def test_compare_writes_tables_plots_and_a_report_that_agree(
    sets: tuple[Path, Path], tmp_path: Path
) -> None:
    seen: list[tuple[int, int, str]] = []
    result = compare(*sets, tmp_path / "out", progress=lambda *step: seen.append(step))
    out = tmp_path / "out"
    assert seen[-1][:2] == (4, 4)
    assert json.loads((out / "table.json").read_text(encoding="utf-8")) == result
    with (out / "table.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [float(r["distance"]) for r in rows] == [r["distance"] for r in result["rows"]]
    text = (out / "table.md").read_text(encoding="utf-8")
    page = html.unescape((out / "report.html").read_text(encoding="utf-8"))
    for row in result["rows"]:
        assert row["title"] in text and row["title"] in page
    for group in ("pieces", "breaks", "paint"):
        assert f"{group}.svg" in page and (out / f"{group}.svg").read_text().startswith("<?xml")
        picture = cv2.imread(str(out / f"{group}.png"))
        colours = {tuple(c) for c in picture.reshape(-1, 3)[:, ::-1].tolist()}
        assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)} <= colours
    gap = next(row for row in result["rows"] if row["name"] == "gap")
    assert 1.4 < gap["median_b"] - gap["median_a"] < 2.3


@pytest.mark.slow
def test_compare_again_gives_the_same_bytes(sets: tuple[Path, Path], tmp_path: Path) -> None:
    for name in ("one", "two"):
        compare(*sets, tmp_path / name, limit=1, seed=3)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_compare_takes_the_puzzles_it_is_told(sets: tuple[Path, Path], tmp_path: Path) -> None:
    result = compare(*sets, tmp_path / "out", only_a={"drawn-0"}, only_b={"drawn-0"})
    assert (result["a"]["puzzles"], result["b"]["puzzles"]) == (1, 1)
    assert result["a"]["pieces"] == 5
    sizes = next(row for row in result["rows"] if row["name"] == "size")
    assert sizes["distance"] < 0.1
    with pytest.raises(InputError, match="no puzzle drawn-9"):
        compare(*sets, tmp_path / "none", only_a={"drawn-9"})
    with pytest.raises(InputError, match="no puzzle was chosen"):
        compare(*sets, tmp_path / "none", only_b=())
    with pytest.raises(InputError, match="limit of 0"):
        compare(*sets, tmp_path / "none", limit=0)
    assert not (tmp_path / "none").exists()


def test_compare_keeps_a_folder_that_holds_something(
    sets: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "letter.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(InputError, match="not empty"):
        compare(*sets, tmp_path)
    compare(*sets, tmp_path, force=True, limit=1)
    assert (tmp_path / "letter.txt").read_text(encoding="utf-8") == "dear"
    assert (tmp_path / "report.html").is_file()


def test_side_by_side_sets_out_several_sets_against_one_reference() -> None:
    def result(puzzles: int, b: Statistics) -> dict[str, Any]:
        rows = [asdict(row) for row in distances(drawn_statistics(range(4)), b)]
        about = {"name": "real", "puzzles": puzzles, "pieces": 20}
        return {"a": about, "b": {**about, "name": "made"}, "rows": rows}

    one = result(4, drawn_statistics(range(4)))
    other = result(4, drawn_statistics(range(4), gap_px=3))
    table = side_by_side({"tight": one, "worn": other}).splitlines()
    assert len({line.count("|") for line in table}) == 1
    assert "distance of worn" in table[0]
    gap = next(line for line in table if line.startswith("| gap "))
    assert "**0.00**" in gap and f"**{other['rows'][5]['distance']:.2f}**" in gap
    with pytest.raises(ValueError, match="same reference"):
        side_by_side({"one": one, "other": result(3, drawn_statistics(range(4)))})
