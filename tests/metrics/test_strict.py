from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from reassembly.errors import InputError
from reassembly.metrics import fragment_errors, score
from reassembly.metrics.overlap import mask_overlap
from reassembly.metrics.strict import score_strict
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Fragment, Puzzle
from tests.metrics.pieces import assembled, block, four, turn, two
from tests.puzzles import drawn_puzzle

SHARES = ("q_pos", "q_pos_mean", "q_pos_with_anchor", "correct", "placed", "largest_correct_group")
PIECES = four()
DRAWN = drawn_puzzle(5, seed=3, size_px=240, mm_per_px=0.5, gap_px=2)


def jumbled(puzzle: Puzzle, seed: int, shift_mm: float = 15.0, turn_rad: float = 0.3) -> Assembly:
    """The truth with an error on every piece."""
    rng = np.random.default_rng(seed)
    return Assembly.of(
        puzzle,
        {
            i: Pose(
                *(pose.translation + rng.normal(0, shift_mm, 2)),
                pose.rotation_rad + rng.normal(0, turn_rad),
            )
            for i, pose in puzzle.truth.items()
        },
    )


def same(a, b, tolerance: float = 1e-6) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert (a[name] is None) == (b[name] is None), name
        if a[name] is not None:
            assert a[name] == pytest.approx(b[name], abs=tolerance), name


# What must not change a score


@pytest.mark.parametrize("puzzle", [PIECES, DRAWN], ids=["four", "drawn"])
def test_the_truth_scores_one_and_no_error(puzzle):
    scores = score(puzzle, assembled(puzzle))
    for name in (*SHARES, "correct_of_placed", "neighbour_f1"):
        assert scores[name] == pytest.approx(1.0), name
    assert scores["rmse_rotation_deg"] == pytest.approx(0.0, abs=1e-9)
    assert scores["rmse_translation_mm"] == pytest.approx(0.0, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    x=st.floats(-1e4, 1e4),
    y=st.floats(-1e4, 1e4),
    angle=st.floats(-10, 10),
    seed=st.integers(0, 5),
)
def test_a_rigid_motion_of_the_whole_prediction_changes_nothing(x, y, angle, seed):
    prediction = jumbled(PIECES, seed)
    motion = Pose(x, y, angle)
    carried = {i: motion @ pose for i, pose in prediction.poses.items()}
    same(score(PIECES, prediction), score(PIECES, Assembly.of(PIECES, carried)))


def test_a_rigid_motion_of_each_island_changes_nothing():
    poses = PIECES.truth
    halves = [{i: poses[i] for i in "ab"}, {i: poses[i] for i in "cd"}]
    motion = Pose(300, -70, 2.0)
    apart = [halves[0], {i: motion @ pose for i, pose in halves[1].items()}]
    same(score(PIECES, Assembly.of(PIECES, *halves)), score(PIECES, Assembly.of(PIECES, *apart)))


def test_the_order_of_fragments_and_islands_changes_nothing():
    prediction = jumbled(DRAWN, 1)
    backwards = replace(DRAWN, fragments=DRAWN.fragments[::-1])
    reordered = Assembly.of(backwards, dict(reversed(prediction.poses.items())))
    same(score(DRAWN, prediction), score(backwards, reordered))


def test_the_order_of_outline_points_changes_nothing():
    def rolled(fragment: Fragment) -> Fragment:
        other = replace(fragment)
        ring = np.array(fragment.polygon.exterior.coords)[:-1]
        other.__dict__["polygon"] = shapely.Polygon(np.roll(ring, 7, axis=0)[::-1])
        return other

    rearranged = replace(DRAWN, fragments=tuple(rolled(f) for f in DRAWN.fragments))
    assert (
        rearranged.fragments[0].polygon.exterior.coords[0]
        != DRAWN.fragments[0].polygon.exterior.coords[0]
    )
    prediction = jumbled(DRAWN, 2)
    same(score(DRAWN, prediction), score(rearranged, Assembly.of(rearranged, prediction.poses)))


@pytest.mark.parametrize("change", ["padded", "cropped"])
def test_empty_padding_changes_nothing(change):
    def padded(fragment: Fragment) -> Fragment:
        return Fragment(
            fragment.id,
            np.pad(fragment.image, ((9, 9), (5, 5), (0, 0))),
            np.pad(fragment.mask, ((9, 9), (5, 5))),
            fragment.mm_per_px,
        )

    how = padded if change == "padded" else Fragment.cropped
    other = replace(DRAWN, fragments=tuple(how(f) for f in DRAWN.fragments))
    prediction = jumbled(DRAWN, 3)
    same(score(DRAWN, prediction), score(other, Assembly.of(other, prediction.poses)))


def test_mask_and_polygon_agree_within_rasterisation_error():
    for seed in range(4):
        prediction = jumbled(DRAWN, seed, shift_mm=8.0)
        by_polygon, by_mask = (
            score_strict(DRAWN, prediction),
            score_strict(DRAWN, prediction, overlap=mask_overlap),
        )
        assert 0.1 < by_polygon["q_pos"] < 0.95
        for name in ("q_pos", "q_pos_mean", "q_pos_with_anchor"):
            assert by_mask[name] == pytest.approx(by_polygon[name], abs=0.01)


# Angles and distances


def test_359_and_1_degree_are_2_degrees_apart():
    puzzle = two()
    turned = replace(puzzle, truth={**puzzle.truth, "b": Pose.from_degrees(110, 40, 359)})
    prediction = Assembly.of(turned, {**turned.truth, "b": Pose.from_degrees(110, 40, 1)})
    assert score(turned, prediction)["rmse_rotation_deg"] == pytest.approx(2.0)


def test_rmse_is_the_root_of_the_mean_square():
    prediction = assembled(PIECES, b=turn(3), c=Pose(6, 8), d=turn(-40))
    scores = score(PIECES, prediction)
    assert scores["rmse_rotation_deg"] == pytest.approx(math.sqrt((9 + 1600) / 3))
    assert scores["rmse_translation_mm"] == pytest.approx(math.sqrt(100 / 3))


def test_translation_is_that_of_centroids_not_of_scan_frames():
    """A piece at the edge of its scan, turned about its own centroid, has not moved."""
    mask = np.zeros((100, 200), bool)
    mask[10:60, 5:85] = True
    far_off = Fragment("b", np.zeros((100, 200, 3), np.uint8), mask, 1.0)
    puzzle = Puzzle("p", (block("a", 90, 90), far_off), {"a": Pose(0, 0), "b": Pose(150, 0)})
    centroid = far_off.centroid_mm
    true = puzzle.truth["b"].apply(centroid[None])[0]
    x, y = true - Pose.from_degrees(0, 0, 25).apply(centroid[None])[0]
    scores = score(puzzle, Assembly.of(puzzle, {"a": Pose(0, 0), "b": Pose.from_degrees(x, y, 25)}))
    assert scores["rmse_translation_mm"] == pytest.approx(0.0, abs=1e-9)
    assert scores["rmse_rotation_deg"] == pytest.approx(25.0)


@pytest.mark.parametrize(
    ("error", "right"),
    [
        (turn(10), 1.0),
        (turn(-10), 1.0),
        (turn(10.01), 0.0),
        (Pose(6, 8), 1.0),
        (Pose(6.01, 8), 0.0),
        (Pose.from_degrees(6, 8, 10), 1.0),
        (Pose.from_degrees(0, 0, 180), 0.0),
    ],
)
def test_correct_is_within_10_degrees_and_10_mm(error, right):
    assert score(two(), assembled(two(), b=error))["correct"] == right


def test_a_mirrored_assembly_is_not_right():
    """Left and right swapped, every piece turned as a mirror would show it."""
    mirrored = {
        i: Pose(-pose.x_mm, pose.y_mm, -pose.rotation_rad) for i, pose in DRAWN.truth.items()
    }
    scores = score(DRAWN, Assembly.of(DRAWN, mirrored))
    assert scores["q_pos"] < 0.6
    assert scores["correct"] < 0.5 and scores["neighbour_recall"] < 0.5
    assert scores["largest_correct_group"] < 0.8


# The anchor


def test_q_pos_is_the_share_of_area_that_lies_right_weighted_by_area():
    # b is off by half its width, d by its whole: 3200 / 2 + 3200 + 0 of 8000 mm².
    scores = score(PIECES, assembled(PIECES, b=Pose(20, 0), d=Pose(0, 40)))
    assert scores["q_pos"] == pytest.approx((1600 + 3200) / 8000, abs=2e-3)
    assert scores["q_pos_with_anchor"] == pytest.approx((6400 + 4800) / 14400, abs=2e-3)


def test_the_anchor_is_the_largest_fragment_and_is_not_scored():
    """Only the anchor is wrong, so that all others are."""
    scores = score(PIECES, assembled(PIECES, a=Pose(500, 0)))
    assert (scores["q_pos"], scores["correct"]) == (0.0, 0.0)
    assert scores["q_pos_with_anchor"] == pytest.approx(6400 / 14400, abs=1e-3)
    assert scores["rmse_translation_mm"] == pytest.approx(500.0)
    assert scores["fragments"] == 3


@pytest.mark.parametrize("order", [("x", "y"), ("y", "x")])
def test_of_equally_large_fragments_the_lowest_id_is_the_anchor(order):
    """x and y are equal in size but not alike; each lies at another place in its scan."""
    small = block("z", 20, 20)
    shapes = {"x": block("x", 60, 60, 1), "y": block("y", 60, 60, 2, margin=8)}
    truth = {"x": Pose(0, 0), "y": Pose(70, 0), "z": Pose(120, 0)}
    puzzle = Puzzle("p", (small, *(shapes[i] for i in order)), truth)
    scores = score(puzzle, assembled(puzzle, y=Pose(0, 300)))
    assert scores["q_pos"] == pytest.approx(400 / 4000, abs=1e-3)  # z is right about x, not about y


def test_where_the_anchor_is_unplaced_the_largest_placed_piece_serves_and_scores_0():
    poses = {i: PIECES.truth[i] for i in "bcd"}
    scores = score(PIECES, Assembly.of(PIECES, poses))
    # b and c are equally large, so b serves.
    assert scores["q_pos"] == pytest.approx((3200 + 1600) / 8000, abs=1e-3)
    assert scores["q_pos_with_anchor"] == pytest.approx(4800 / 14400, abs=1e-3)
    assert scores["correct"] == pytest.approx(2 / 3)
    assert scores["correct_of_placed"] == pytest.approx(2 / 3)
    assert scores["placed"] == 1.0
    wrong = score(PIECES, Assembly.of(PIECES, {**poses, "d": Pose(100, 130)}))
    assert wrong["rmse_translation_mm"] == pytest.approx(math.sqrt(900 / 2))  # over c and d


def test_a_serving_piece_alone_measures_nothing():
    scores = score(PIECES, Assembly.of(PIECES, {"d": Pose(0, 0)}))
    assert scores["q_pos"] == scores["q_pos_with_anchor"] == scores["correct"] == 0.0
    assert scores["placed"] == pytest.approx(1 / 3) and scores["correct_of_placed"] == 0.0
    assert scores["rmse_rotation_deg"] is None and scores["rmse_translation_mm"] is None


def test_q_pos_mean_takes_every_fragment_in_turn_as_the_anchor():
    prediction = jumbled(DRAWN, 5, shift_mm=6.0)
    truth, poses = DRAWN.truth, prediction.poses
    area = {f.id: f.area_mm2 for f in DRAWN.fragments}
    total = 0.0
    for anchor in DRAWN.ids:
        motion = truth[anchor] @ poses[anchor].inverse()
        others = [i for i in DRAWN.ids if i != anchor]
        covered = sum(
            DRAWN[i].placed(truth[i]).intersection(DRAWN[i].placed(motion @ poses[i])).area
            for i in others
        )
        total += area[anchor] * covered / sum(area[i] for i in others)
    assert score(DRAWN, prediction)["q_pos_mean"] == pytest.approx(total / sum(area.values()))


def test_one_bad_anchor_does_not_hide_a_good_assembly():
    scores = score(PIECES, assembled(PIECES, a=Pose(500, 0)))
    # About b, c or d everything but a is right.
    parts = [3200 * 4800 / 11200, 3200 * 4800 / 11200, 1600 * 6400 / 12800]
    assert scores["q_pos_mean"] == pytest.approx(sum(parts) / 14400, abs=1e-3)
    assert scores["largest_correct_group"] == pytest.approx(8000 / 14400, abs=1e-3)


def test_q_pos_mean_treats_an_unplaced_anchor_as_q_pos_does():
    scores = score(PIECES, Assembly.of(PIECES, {i: PIECES.truth[i] for i in "abc"}))
    # About a, b, c: all but d. About d: a serves and scores 0.
    parts = [6400 * 6400 / 8000, 3200 * 9600 / 11200, 3200 * 9600 / 11200, 1600 * 6400 / 12800]
    assert scores["q_pos_mean"] == pytest.approx(sum(parts) / 14400, abs=1e-3)


# Unplaced fragments


def test_unplaced_fragments_score_0_and_are_left_out_of_rmse():
    poses = {i: PIECES.truth[i] for i in "ab"} | {"c": Pose(40, 103)}
    scores = score(PIECES, Assembly.of(PIECES, poses))
    assert scores["q_pos"] == pytest.approx((3200 + 3200 * 37 / 40) / 8000, abs=1e-3)
    assert scores["correct"] == scores["placed"] == pytest.approx(2 / 3)
    assert scores["correct_of_placed"] == 1.0
    assert scores["rmse_translation_mm"] == pytest.approx(math.sqrt(9 / 2))
    assert scores["neighbour_recall"] == 2 / 4


@pytest.mark.parametrize("prediction", [None, Assembly(islands=(), unplaced=("a", "b", "c", "d"))])
def test_a_missing_puzzle_is_all_unplaced(prediction):
    scores = score(PIECES, prediction)
    for name in (*SHARES, "neighbour_recall", "neighbour_f1"):
        assert scores[name] == 0.0, name
    for name in (
        "correct_of_placed",
        "rmse_rotation_deg",
        "rmse_translation_mm",
        "neighbour_precision",
    ):
        assert scores[name] is None, name


def test_a_fragment_without_a_pose_is_an_error_and_not_a_zero():
    with pytest.raises(InputError, match=r"says nothing about .*: d"):
        score(PIECES, Assembly(islands=({i: PIECES.truth[i] for i in "abc"},)))
    with pytest.raises(InputError, match=r"does not have: e"):
        score(PIECES, Assembly(islands=({**PIECES.truth, "e": Pose(0, 0)},)))
    with pytest.raises(ValueError, match="finite"):
        Pose(math.nan, 0.0)


def test_a_puzzle_without_truth_is_an_error():
    with pytest.raises(InputError, match="no true poses"):
        score(replace(PIECES, truth=None), None)


def test_unknown_protocols_are_named():
    with pytest.raises(InputError, match="strict, paper, repair-script"):
        score(PIECES, None, "lenient")


def test_a_puzzle_of_one_fragment_has_nothing_to_score():
    lone = Puzzle("lone", (block("a", 50, 50),), {"a": Pose(1, 2)})
    scores = score(lone, assembled(lone))
    assert scores["fragments"] == 0 and scores["q_pos_with_anchor"] == 1.0
    for name in ("q_pos", "q_pos_mean", "correct", "placed", "correct_of_placed", "neighbour_f1"):
        assert scores[name] is None, name


# Islands


def test_only_the_anchors_island_is_placed():
    poses = PIECES.truth
    islands = [{i: poses[i] for i in "cd"}, {i: poses[i] for i in "ab"}]
    scores = score(PIECES, Assembly.of(PIECES, *islands))
    assert scores["q_pos"] == pytest.approx(3200 / 8000, abs=1e-3)
    assert scores["correct"] == scores["placed"] == pytest.approx(1 / 3)
    assert scores["correct_of_placed"] == 1.0


def test_neighbours_and_the_largest_group_look_inside_every_island():
    poses = PIECES.truth
    islands = [{"a": poses["a"], "b": Pose(300, 40)}, {i: poses[i] for i in "cd"}]
    scores = score(PIECES, Assembly.of(PIECES, *islands))
    assert scores["q_pos"] == 0.0
    assert (scores["neighbour_recall"], scores["neighbour_precision"]) == (1 / 4, 1.0)
    assert scores["largest_correct_group"] == pytest.approx(6400 / 14400, abs=1e-3)  # a alone
    whole = score(PIECES, Assembly.of(PIECES, {"a": poses["a"]}, {i: poses[i] for i in "bcd"}))
    assert whole["largest_correct_group"] == pytest.approx(8000 / 14400, abs=1e-3)


def test_pieces_of_two_islands_are_no_contact_even_where_their_poses_would_touch():
    poses = PIECES.truth
    scores = score(PIECES, Assembly.of(PIECES, *({i: poses[i]} for i in poses)))
    assert scores["predicted_pairs"] == 0 and scores["neighbour_recall"] == 0.0


# Strays


def with_stray() -> Puzzle:
    puzzle = four()
    stray = block("0-stray", 150, 150, 9)
    return replace(puzzle, fragments=(stray, *puzzle.fragments), strays=frozenset({stray.id}))


def test_a_stray_is_never_the_anchor_and_not_in_q_pos():
    puzzle = with_stray()
    for pose in (Pose(0, 0), Pose(900, 900, 1.0)):
        scores = score(puzzle, Assembly.of(puzzle, {**puzzle.truth, "0-stray": pose}))
        for name in SHARES:
            assert scores[name] == pytest.approx(1.0), name
        assert scores["fragments"] == 3
        assert (scores["strays_refused"], scores["strays_placed"]) == (0, 1)


def test_strays_that_claim_nothing_about_the_puzzle_are_refused():
    puzzle = with_stray()
    for islands in ([puzzle.truth], [puzzle.truth, {"0-stray": Pose(0, 0)}]):
        scores = score(puzzle, Assembly.of(puzzle, *islands))
        assert (scores["strays_refused"], scores["strays_placed"]) == (1, 0)
    joined = [{"a": puzzle.truth["a"]}, {"d": Pose(0, 0), "0-stray": Pose(500, 0)}]
    assert score(puzzle, Assembly.of(puzzle, *joined))["strays_placed"] == 1


def test_a_contact_with_a_stray_is_wrong():
    puzzle = with_stray()
    touching = Assembly.of(puzzle, {**puzzle.truth, "0-stray": Pose(195, 60)})
    scores = score(puzzle, touching)
    assert scores["predicted_pairs"] == 6 and scores["neighbour_precision"] == 4 / 6
    assert scores["neighbour_recall"] == 1.0


def test_a_stray_cannot_serve_as_the_anchor():
    puzzle = with_stray()
    poses = {i: puzzle.truth[i] for i in "bd"} | {"0-stray": Pose(500, 500)}
    assert score(puzzle, Assembly.of(puzzle, poses))["q_pos"] == pytest.approx(0.2, abs=1e-3)


# Fragment by fragment


def test_fragment_errors_tell_what_became_of_each():
    puzzle = with_stray()
    poses = {"a": puzzle.truth["a"], "b": Pose.from_degrees(100, 70, 5)}
    errors = fragment_errors(puzzle, Assembly.of(puzzle, poses, {"c": Pose(0, 0)}))
    assert {i: e["state"] for i, e in errors.items()} == {
        "0-stray": "stray refused",
        "a": "anchor",
        "b": "placed",
        "c": "elsewhere",
        "d": "unplaced",
    }
    assert errors["b"]["distance_mm"] == pytest.approx(30.0)
    assert errors["b"]["rotation_deg"] == pytest.approx(5.0)
    assert errors["b"]["correct"] is False and errors["a"]["correct"] is True
    assert 0.5 < errors["b"]["overlap"] < 0.7
    assert errors["c"]["overlap"] is None and errors["d"]["correct"] is None
    serving = fragment_errors(puzzle, Assembly.of(puzzle, {"d": Pose(0, 0)}))["d"]
    assert serving["state"] == "serving" and serving["correct"] is False
