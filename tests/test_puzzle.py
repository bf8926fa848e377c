"""Fragments, puzzles and assemblies keep their promises."""

import math
from dataclasses import replace

import numpy as np
import pytest

from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Fragment, Puzzle
from tests.puzzles import drawn_puzzle


@pytest.fixture(scope="module")
def puzzle():
    return drawn_puzzle(pieces=4, seed=3)


def test_cropping_changes_no_geometry():
    mask = np.zeros((90, 140), bool)
    mask[50:70, 20:100] = True
    fragment = Fragment("a", np.zeros((90, 140, 3), np.uint8), mask, 0.5)
    crop = fragment.cropped()
    assert crop.mask.size < mask.size / 2
    assert crop.cropped().offset_px == crop.offset_px
    assert crop.polygon.symmetric_difference(fragment.polygon).area < 1e-6
    assert fragment.polygon.bounds == pytest.approx((-25, 2.5, 15, 12.5))


def test_a_hole_is_no_part_of_the_fragment():
    mask = np.ones((40, 40), bool)
    mask[10:20, 10:20] = False
    fragment = Fragment("a", np.zeros((40, 40, 3), np.uint8), mask, 2.0)
    assert fragment.area_mm2 == pytest.approx(1500 * 4, rel=0.01)
    assert len(fragment.polygon.interiors) == 1


def test_polygon_area_agrees_with_the_mask(puzzle):
    for fragment in puzzle.fragments:
        assert fragment.area_mm2 == pytest.approx(fragment.mask.sum() * 0.25, rel=0.01)


def test_true_poses_put_the_square_together_again(puzzle):
    placed = [f.placed(puzzle.truth[f.id]) for f in puzzle.fragments]
    whole = placed[0].union(placed[1]).union(placed[2]).union(placed[3])
    assert whole.area == pytest.approx(150**2, rel=0.01)
    assert sum(p.area for p in placed) == pytest.approx(whole.area, rel=0.01)


def test_mask_and_image_must_fit():
    with pytest.raises(ValueError, match="fit its mask"):
        Fragment("a", np.zeros((5, 5, 3), np.uint8), np.ones((4, 5), bool), 1.0)
    with pytest.raises(ValueError, match="not empty"):
        Fragment("a", np.zeros((5, 5, 3), np.uint8), np.zeros((5, 5), bool), 1.0)


def test_ids_are_unique_and_truth_is_complete(puzzle):
    with pytest.raises(ValueError, match="several fragments are called fragment_0"):
        Puzzle("p", (puzzle.fragments[0], puzzle.fragments[0]))
    with pytest.raises(ValueError, match="without a true pose: \\['fragment_3'\\]"):
        replace(puzzle, truth={i: p for i, p in puzzle.truth.items() if i != "fragment_3"})
    strayed = replace(
        puzzle,
        truth={i: p for i, p in puzzle.truth.items() if i != "fragment_3"},
        strays=frozenset({"fragment_3"}),
    )
    assert "fragment_3" not in strayed.truth


def test_unplaced_is_what_no_island_holds(puzzle):
    assembly = Assembly.of(puzzle, {"fragment_1": Pose(0, 0)}, {"fragment_0": Pose(1, 1)})
    assert assembly.unplaced == ("fragment_2", "fragment_3")
    assert set(assembly.poses) == {"fragment_0", "fragment_1"}


def test_an_assembly_is_consistent(puzzle):
    with pytest.raises(ValueError, match="more than one place: fragment_1"):
        Assembly.of(puzzle, {"fragment_1": Pose(0, 0)}, {"fragment_1": Pose(1, 1)})
    with pytest.raises(ValueError, match="not placed"):
        Assembly.of(puzzle, {"fragment_1": Pose(0, 0)}, confidence={"fragment_0": 0.5})
    with pytest.raises(ValueError, match="between 0 and 1"):
        Assembly.of(puzzle, {"fragment_1": Pose(0, 0)}, confidence={"fragment_1": math.nan})
    with pytest.raises(ValueError, match="differ in these fragments"):
        Assembly(islands=({"other": Pose(0, 0)},), puzzle=puzzle)


def test_an_anonymous_fragment_is_the_same_piece_in_another_frame(puzzle):
    for fragment in puzzle.fragments:
        outlined = replace(fragment)
        assert outlined.polygon.area > 0
        for known in (fragment, outlined):
            stranger, shift = known.anonymous("x")
            assert (stranger.id, dict(stranger.metadata)) == ("x", {})
            fresh = replace(stranger)  # Outlined anew, from its pixels.
            assert fresh.polygon.symmetric_difference(stranger.polygon).area < 1e-6
            back = stranger.placed(shift)
            assert back.symmetric_difference(fragment.polygon).area < 1e-3
