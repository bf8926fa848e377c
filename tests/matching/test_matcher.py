"""Which contour points match, by the weights that come with the package."""

import math
from pathlib import Path

import numpy as np
import pytest

from reassembly.bench.frames import turn_fragments
from reassembly.io.readers import find_puzzles
from reassembly.matching.evidence import NAMES, evidence
from reassembly.matching.matcher import LIGHT, PROPOSED, is_light, load_matcher, load_matchers
from reassembly.matching.rim import motion_of, rims_of
from reassembly.training.prepare import made_puzzles
from tests.joining import neighbours, touching_motions
from tests.puzzles import drawn_puzzle


@pytest.fixture(scope="module")
def puzzle():
    return drawn_puzzle(4, seed=5, size_px=240, gap_px=1)


@pytest.fixture(scope="module")
def rims(puzzle):
    return rims_of(puzzle)


@pytest.fixture(scope="module")
def matcher():
    return load_matcher()


@pytest.fixture(scope="module")
def seen(puzzle, rims, matcher):
    return matcher.see(puzzle.fragments, rims)


def true_row(puzzle, rims, a, b):
    return motion_of(puzzle.truth[a].inverse() @ puzzle.truth[b], rims[a], rims[b])


def test_points_lie_on_the_outline_and_normals_point_outwards(puzzle, rims, seen):
    for i, k in seen.number.items():
        near, _ = rims[i].look_up(seen.points[k])
        assert np.abs(near).max() < 1.0
        outside, _ = rims[i].look_up(seen.points[k] + 2 * seen.normals[k])
        assert np.mean(outside > 0.5) > 0.95
        apart = np.linalg.norm(rims[i].points - seen.points[k][seen.of_rim[k]], axis=1)
        assert apart.max() < 3.0


def test_points_that_met_match_better_than_chance(puzzle, rims, matcher, seen):
    better = []
    for a, b in neighbours(puzzle):
        matches = matcher.match(seen, a, b)
        motion = true_row(puzzle, rims, a, b)
        c, s = math.cos(motion[0]), math.sin(motion[0])
        placed = matches.points @ np.array([[c, s], [-s, c]], np.float32).T + motion[1:]
        apart = np.linalg.norm(seen.points[seen.number[a]][:, None] - placed[None], axis=-1)
        met = apart < 2.5
        assert matches.likelier.shape == met.shape
        better.append(matches.likelier[met].mean() - matches.likelier[~met].mean())
    assert min(better) > 0 and np.mean(better) > 1


def test_true_joins_have_more_support_than_others(puzzle, rims, matcher, seen):
    places = []
    for a, b in neighbours(puzzle):
        motions = np.vstack([true_row(puzzle, rims, a, b), touching_motions(rims[a], rims[b], 30)])
        matches = matcher.match(seen, a, b)
        figures = evidence(rims[a], rims[b], motions, np.zeros(len(motions)), [matches, matches])
        places.append(np.expm1(figures[0, NAMES.index("log_support_rank_worn")]))
    assert np.median(places) <= 3


def test_matching_points_propose_true_joins(puzzle, rims, seen):
    """To be put together as closely as they go: their outlines are those of pieces hardly worn."""
    light = load_matcher(LIGHT)
    own = light.see(puzzle.fragments, rims)
    off = []
    for a, b in neighbours(puzzle):
        true = true_row(puzzle, rims, a, b)
        motions = light.match(own, a, b).motions
        assert 0 < len(motions) <= PROPOSED
        turned = np.degrees(np.abs((motions[:, 0] - true[0] + np.pi) % (2 * np.pi) - np.pi))
        shifted = np.hypot(*(motions[:, 1:] - true[1:]).T)
        off.append((np.maximum(turned, shifted)).min())
    assert np.median(off) < 3


def test_likely_neighbours_are_told_from_either_side(puzzle, matcher, seen):
    likely = matcher.likely(seen)
    assert likely.shape == (4, 4)
    off = ~np.eye(4, dtype=bool)
    assert (likely[off] >= 0).all() and (likely[off] <= 1 + 1e-6).all()
    assert likely[off] == pytest.approx(likely.T[off], abs=1e-5)


def test_many_pieces_are_encoded_as_few_are(puzzle, rims, matcher, seen, monkeypatch):
    monkeypatch.setattr("reassembly.matching.matcher.ENCODED_AT_ONCE", 3)
    again = matcher.see(puzzle.fragments, rims)
    assert np.array_equal(again.points, seen.points)
    for name in ("has", "lacks", "piece_has", "piece_lacks"):
        one, other = getattr(again.codes, name), getattr(seen.codes, name)
        assert (one - other).abs().max() < 1e-3


@pytest.mark.parametrize(
    ("preset", "light"), [("pairingnet", True), ("paper", True), ("realistic", False)]
)
def test_lightly_worn_pieces_are_told_from_worn_ones(preset, light):
    """Whichever way they were photographed."""
    matchers = load_matchers()
    puzzle, _ = made_puzzles(count=1, seed=40, pieces=(5, 6), preset=preset).load(0)
    for own in (puzzle, turn_fragments(puzzle, seed=1)[0]):
        rims = rims_of(own)
        seen = [matcher.see(own.fragments, rims) for matcher in matchers]
        assert is_light(matchers, seen) == light


@pytest.mark.slow
def test_real_pieces_are_taken_for_worn():
    folder = Path(__file__).parents[3] / "shared" / "data" / "repair"
    if not folder.is_dir():
        pytest.skip("the RePAIR puzzles are not beside the repository")
    matchers = load_matchers()
    light = []
    for source in find_puzzles(folder):
        puzzle = source.load()
        rims = rims_of(puzzle)
        seen = [matcher.see(puzzle.fragments, rims) for matcher in matchers]
        if is_light(matchers, seen):
            light.append(puzzle.id)
    assert light == []
