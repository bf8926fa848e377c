"""The solver by extrapolated paint on clean cuts, locks, other extrapolators and bare pieces."""

import math
from dataclasses import replace

import numpy as np
import pytest
import shapely

import reassembly as ra
from reassembly.errors import InputError
from reassembly.matching.extrapolate import nearest_paint
from reassembly.metrics import score
from reassembly.pose import Pose
from reassembly.puzzle import Puzzle
from reassembly.solvers import Cancelled
from reassembly.solvers.derech import Derech
from reassembly.synthetic.make import make_puzzle, recipe
from tests.puzzles import drawn_puzzle

PUZZLE = drawn_puzzle(pieces=3, seed=6, size_px=160)
BRIEF = {"beam": 1, "turn_deg": 10.0, "candidates": 12}


@pytest.fixture(scope="module")
def solved():
    """The assembly of `PUZZLE`, and the progress on the way to it."""
    steps = []
    return ra.solve(PUZZLE, "derech", progress=steps.append, **BRIEF), steps


def test_painted_clean_cuts_are_solved():
    """The promise is 0.8 on 50 puzzles of this kind; these are the first two of another seed."""
    wanted = recipe("pairingnet", size_px=384, pieces=(4, 4))
    puzzles = [make_puzzle(wanted, 5, index).puzzle for index in range(2)]
    q_pos = [score(p, ra.solve(p, "derech", band_mm=9.0, **BRIEF))["q_pos"] for p in puzzles]
    assert np.mean(q_pos) >= 0.8


def test_drawn_clean_cuts_are_put_exactly_where_they_belong(solved):
    got = score(PUZZLE, solved[0])
    assert got["correct"] == 1.0 and got["q_pos"] > 0.95
    assert got["rmse_rotation_deg"] < 1.0 and got["rmse_translation_mm"] < 1.0


def test_it_is_the_paint_that_tells_equal_shapes_apart():
    """Four quarters of a square, cut straight: only the picture knows which goes where."""
    rows, columns = np.mgrid[:160, :160]
    waves = [np.sin(columns / 17 + rows / 40), np.sin(rows / 23), np.cos((rows - columns) / 31)]
    picture = (128 + 100 * np.stack(waves, axis=-1)).astype(np.uint8)
    fragments, truth = [], {}
    for k, (top, left) in enumerate([(0, 0), (0, 80), (80, 0), (80, 80)]):
        part = np.pad(picture[top : top + 80, left : left + 80], ((4, 4), (4, 4), (0, 0)))
        mask = np.pad(np.ones((80, 80), bool), 4)
        fragments.append(ra.Fragment(f"quarter {k}", part, mask, 0.5))
        truth[f"quarter {k}"] = Pose((left + 40) * 0.5, (top + 40) * 0.5, 0.0)
    puzzle = Puzzle("quarters", tuple(fragments), truth)
    assert score(puzzle, ra.solve(puzzle, "derech", **BRIEF))["correct"] == 1.0


def test_the_same_seed_gives_the_same_assembly(solved):
    assert solved[0] == ra.solve(PUZZLE, "derech", seed=0, **BRIEF)


def test_locked_pieces_stay_and_steer():
    """One piece locked where it belongs, in a frame of the user's; the others join it."""
    frame = Pose(250.0, -40.0, 1.1)
    first, *others = PUZZLE.ids
    locked = {first: frame @ PUZZLE.truth[first]}
    answer = ra.solve(PUZZLE, "derech", locked=locked, **BRIEF)
    assert answer.islands[0][first] == locked[first] and answer.confidence[first] == 1.0
    for i in others:
        drift = (frame @ PUZZLE.truth[i]).inverse() @ answer.islands[0][i]
        assert math.hypot(drift.x_mm, drift.y_mm) < 5 and abs(drift.rotation_deg) < 5


def test_pieces_locked_far_apart_or_all_of_them_stay_all_the_same():
    apart = {PUZZLE.ids[0]: Pose(0, 0, 0), PUZZLE.ids[1]: Pose(90000, 0, 0.3)}
    answer = ra.solve(PUZZLE, "derech", locked=apart, **BRIEF)
    assert {i: answer.islands[0][i] for i in apart} == apart
    assert set(answer.poses) == set(PUZZLE.ids)
    assert ra.solve(PUZZLE, "derech", locked=PUZZLE.truth).poses == PUZZLE.truth


def test_every_piece_is_placed_with_a_confidence(solved):
    answer, _ = solved
    assert len(answer.islands) == 1 and not answer.unplaced
    assert set(answer.confidence) == set(PUZZLE.ids)
    assert all(0 <= value <= 1 for value in answer.confidence.values())


def test_unlike_paint_lowers_the_confidence(solved):
    """The same shapes, but each piece of a colour of its own."""
    rng = np.random.default_rng(0)
    strangers = tuple(
        replace(f, image=np.where(f.mask[..., None], rng.integers(0, 256, 3), 0).astype(np.uint8))
        for f in PUZZLE.fragments
    )
    own = solved[0].confidence
    other = ra.solve(replace(PUZZLE, fragments=strangers), "derech", **BRIEF).confidence
    assert np.mean(list(other.values())) < np.mean(list(own.values()))


def test_another_extrapolator_is_used():
    asked = []

    def inverted(image, width_px):
        """Paints the band in the opposite colours, so that nothing that belongs agrees."""
        asked.append((image.shape, image.dtype, width_px, (image[image[..., 3] == 0] == 0).all()))
        return 255 - nearest_paint(image, width_px)[..., :3]

    fooled = ra.solve(PUZZLE, "derech", extrapolate=inverted, **BRIEF)
    assert len(asked) > len(PUZZLE)
    assert all(s[2] == 4 and d == np.uint8 and w > 0 and clear for s, d, w, clear in asked)
    path = "reassembly.matching.extrapolate:nearest_paint"
    plain = ra.solve(PUZZLE, "derech", extrapolate=path, **BRIEF)
    assert np.mean(list(fooled.confidence.values())) < np.mean(list(plain.confidence.values()))


def test_an_extrapolator_of_the_wrong_shape_is_explained():
    with pytest.raises(InputError, match="same height and width"):
        ra.solve(PUZZLE, "derech", extrapolate=lambda image, width_px: image[:-1])


def test_an_extrapolator_that_fails_is_named():
    def broken(image, width_px):
        raise RuntimeError("out of paint")

    with pytest.raises(InputError, match=r"extrapolator failed \(RuntimeError: out of paint\)"):
        ra.solve(PUZZLE, "derech", extrapolate=broken, **BRIEF)


def test_bare_pieces_are_laid_side_by_side():
    """Without paint there is only touch: nothing may break, overlap or lie alone."""
    bare = tuple(replace(f, image=np.zeros_like(f.image)) for f in PUZZLE.fragments)
    puzzle = replace(PUZZLE, fragments=bare)
    answer = ra.solve(puzzle, "derech", **BRIEF)
    placed = [puzzle[i].placed(answer.poses[i]) for i in puzzle.ids]
    for k, polygon in enumerate(placed):
        rest = shapely.union_all(placed[:k] + placed[k + 1 :])
        assert polygon.intersection(rest).area < 0.05 * polygon.area
        assert polygon.exterior.intersection(rest.buffer(2.0)).length > 20


def test_a_single_piece_is_its_own_assembly():
    only = PUZZLE.fragments[0]
    answer = Derech().solve(Puzzle("one", (only,)))
    assert set(answer.poses) == {only.id} and answer.confidence == {only.id: 0.0}


def test_pieces_of_another_scale():
    factor = 0.02
    fragments = tuple(replace(f, mm_per_px=f.mm_per_px * factor) for f in PUZZLE.fragments)
    scaled = ra.solve(Puzzle("scaled", fragments), "derech", **BRIEF)
    a, b, *_ = PUZZLE.ids
    found = scaled.poses[a].inverse() @ scaled.poses[b]
    true = PUZZLE.truth[a].inverse() @ PUZZLE.truth[b]
    assert found.rotation_deg == pytest.approx(true.rotation_deg, abs=3)
    assert found.translation / factor == pytest.approx(true.translation, abs=3)


def test_progress_runs_to_the_end_and_cancel_passes_through(solved):
    _, steps = solved
    fractions = [step.fraction for step in steps]
    assert fractions == sorted(fractions) and fractions[0] >= 0 and fractions[-1] <= 1
    assert any(step.preview for step in steps)
    for limit in (0.0, 0.2, 0.6):

        def stop(step, limit=limit):
            if step.fraction >= limit:
                raise Cancelled

        with pytest.raises(Cancelled):
            ra.solve(PUZZLE, "derech", progress=stop, **BRIEF)


@pytest.mark.parametrize("wrong", [{"band_mm": 0.0}, {"turn_deg": -5}, {"beam": 2.5}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} is .*Give a .*number above 0"):
        Derech(**wrong)
