"""Finding joins: what a person says is kept, rejected ones stay away, and pairs are pruned."""

from dataclasses import replace

import numpy as np
import pytest

from reassembly.errors import InputError
from reassembly.matching.joins import (
    FinderSettings,
    Join,
    JoinFinder,
    Judged,
    find_joins,
    joins_of,
    unrefused,
)
from reassembly.matching.matcher import load_matchers
from reassembly.matching.partners import likely_neighbours
from reassembly.matching.rim import motion_of, pose_of, rims_of
from reassembly.metrics.neighbours import Outlines, shared_edges
from reassembly.pose import Pose, same_place
from reassembly.puzzle import Puzzle
from reassembly.solvers import Cancelled
from reassembly.synthetic.make import make_puzzle, recipe
from tests.joining import touching_motions, true_join, untrained
from tests.puzzles import drawn_puzzle


@pytest.fixture(scope="module")
def puzzle():
    return drawn_puzzle(3, seed=5, size_px=200, gap_px=1)


@pytest.fixture(scope="module")
def rims(puzzle):
    return rims_of(puzzle)


@pytest.fixture(scope="module")
def finder():
    return JoinFinder(untrained(), load_matchers(), FinderSettings(keep=12, shown=6))


@pytest.fixture(scope="module")
def found(puzzle, finder):
    return find_joins(puzzle, finder=finder, per_pair=4)


def test_joins_come_best_first_with_figures_in_mm(puzzle, found):
    sure = [join.probability for join in found]
    assert sure == sorted(sure, reverse=True) and sure[-1] >= 0 and sure[0] < 1
    pairs = [frozenset((j.first, j.second)) for j in found]
    assert len(set(pairs)) == 3 and max(map(pairs.count, pairs)) <= 4
    for pair in set(pairs):  # One way is true at most; nothing may be left for the last.
        best, *further = (chance for chance, own in zip(sure, pairs, strict=True) if own == pair)
        assert best > 0 and best + sum(further) <= 1 + 1e-12
    for join in found:
        one, other = puzzle[join.first].polygon, puzzle[join.second].placed(join.pose)
        assert one.distance(other) < 8
        overlap = one.intersection(other).area
        assert join.overlap_mm2 == pytest.approx(overlap, abs=25 + 0.7 * overlap)
        assert 0 <= join.contact_mm <= other.exterior.length
        assert abs(join.gap_mm) < 8


def test_the_same_joins_are_found_again(puzzle, finder, found):
    assert find_joins(puzzle, finder=finder, per_pair=4, seed=7) == found
    assert find_joins(puzzle, finder=finder, per_pair=1) == sorted(
        {frozenset((j.first, j.second)): j for j in reversed(found)}.values(),
        key=lambda join: (-join.probability, join.first, join.second),
    )


def test_accepted_joins_come_first_and_alone_of_their_pair(puzzle, finder, found):
    a, b = puzzle.ids[:2]
    join = true_join(puzzle, b, a)
    told = find_joins(puzzle, finder=finder, accepted=[join])
    assert told[0] == replace(join, probability=1.0)
    assert not [j for j in told[1:] if {j.first, j.second} == {a, b}]


def test_rejected_joins_do_not_come_back_from_either_piece(puzzle, rims, finder, found):
    best = found[0]
    pair = Puzzle("pair", (puzzle[best.first], puzzle[best.second]))
    best = find_joins(pair, finder=finder)[0]
    for refused in (best, best.turned()):
        again = find_joins(pair, finder=finder, rejected=[refused], per_pair=6)
        for join in again:
            if {join.first, join.second} == {best.first, best.second}:
                mine = join if join.first == best.first else join.turned()
                assert not same_place(mine.pose, best.pose, rims[best.second].centre_mm)
        assert any({j.first, j.second} == {best.first, best.second} for j in again)


def test_turning_a_join_twice_is_itself(puzzle):
    join = true_join(puzzle, *puzzle.ids[:2])
    back = join.turned().turned()
    assert (back.first, back.second) == (join.first, join.second)
    assert back.pose.translation == pytest.approx(join.pose.translation)
    assert back.pose.rotation_rad == pytest.approx(join.pose.rotation_rad)


def test_one_piece_alone_is_compared_with_the_others(puzzle, finder, found):
    piece = puzzle.ids[1]
    told = find_joins(puzzle, finder=finder, piece=piece, per_pair=4)
    assert told == [j for j in found if piece in (j.first, j.second)]


def test_joins_are_told_as_soon_as_they_are_found(puzzle, finder, found):
    told, steps = [], []
    find_joins(puzzle, finder=finder, per_pair=4, tell=told.append, progress=steps.append)
    assert len(told) == 3
    assert sorted(map(repr, (j for own in told for j in own))) == sorted(map(repr, found))
    fractions = [step.fraction for step in steps]
    assert fractions == sorted(fractions) and fractions[-1] == 1

    def stop(step):
        raise Cancelled

    with pytest.raises(Cancelled):
        find_joins(puzzle, finder=finder, progress=stop)


def test_large_puzzles_are_pruned_to_likely_neighbours(finder):
    """Every piece keeps its likeliest partner, and most pairs that touch are kept."""
    puzzle = make_puzzle(recipe("realistic", pieces=(12, 12), size_px=600), 5, 0).puzzle
    looked = finder.look(puzzle)
    every = finder.pairs(looked)
    assert len(every) == 66
    strict = JoinFinder(
        finder.network, finder.matchers, replace(finder.settings, all_below=2, partners=3)
    )
    shares: list[float] = []
    kept = strict.pairs(looked, shares.append)
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert len(kept) <= 12 * 3 and set(kept) < set(every)
    assert {i for pair in kept for i in pair} == set(puzzle.ids)
    truth = puzzle.truth
    touching = set(shared_edges(Outlines({f.id: f.polygon for f in puzzle.fragments}), truth))
    found = len(touching & {tuple(sorted(pair)) for pair in kept}) / len(touching)
    assert found > 1.3 * len(kept) / len(every)
    # Lightly worn pieces are asked about by the matcher that knows such.
    told = [
        likely_neighbours(matcher, seen, puzzle.ids, 3)
        for matcher, seen in zip(strict.matchers, looked.seen, strict=True)
    ]
    assert told[0] != told[1]
    assert [strict.pairs(replace(looked, light=light)) for light in (False, True)] == told


def test_placements_that_are_one_to_a_person_are_told_once(puzzle, rims):
    a, b = puzzle.ids[:2]
    (motion,) = touching_motions(rims[a], rims[b], 1)
    motions = motion + np.array([[0.0, 0.0, 0.0], [0.05, 2.0, 0.0], [1.0, 0.0, 0.0]])
    judged = Judged(a, b, motions, motions, motions[:, 1:], np.zeros(3), np.array([0.9, 0.8, 0.7]))
    assert [join.probability for join in joins_of(rims, judged)] == pytest.approx([0.9, 0.1])


def test_ways_to_join_a_pair_share_one_probability(puzzle, rims):
    a, b = puzzle.ids[:2]
    motions = touching_motions(rims[a], rims[b], 4)
    for own, told in (
        ([0.995, 0.84, 0.3, 0.2], [0.995, 0.005, 0.0, 0.0]),
        ([0.5, 0.3, 0.25, 0.1], [0.5, 0.3, 0.2, 0.0]),
        ([0.4, 0.2, 0.1, 0.05], [0.4, 0.2, 0.1, 0.05]),
    ):
        judged = Judged(a, b, motions, motions, motions[:, 1:], np.zeros(4), np.array(own))
        joins = joins_of(rims, judged)
        assert [join.probability for join in joins] == pytest.approx(told)
        assert sum(join.probability for join in joins) <= 1.0 + 1e-12
        # What was rejected is not true, and takes nothing away.
        second, *_ = joins_of(rims, unrefused(rims, judged, [joins[0]]))
        assert second.pose == joins[1].pose and second.probability == own[1]
        assert judged.probability.tolist() == own


def test_joins_are_told_where_the_pieces_belong(puzzle, rims):
    """And none comes back that was rejected, as it was proposed or as it was told."""
    a, b = puzzle.ids[:2]
    (motion,) = touching_motions(rims[a], rims[b], 1)
    moved = motion + np.array([0.3, 0.0, 9.0])
    judged = Judged(a, b, motion[None], moved[None], motion[None, 1:], np.zeros(1), np.array([0.9]))
    (told,) = joins_of(rims, judged)
    assert motion_of(told.pose, rims[a], rims[b]) == pytest.approx(moved)
    before = replace(told, pose=pose_of(motion, rims[a], rims[b]))
    for refused in (told, before, told.turned()):
        assert joins_of(rims, unrefused(rims, judged, [refused])) == []


def test_what_is_judged_is_told_as_poses(puzzle, rims):
    a, b = puzzle.ids[:2]
    motions = touching_motions(rims[a], rims[b], 5)
    chances = np.linspace(0.3, 0.1, 5)
    judged = Judged(a, b, motions, motions, motions[:, 1:], np.zeros(5), chances)
    joins = joins_of(rims, judged, limit=3)
    assert [j.probability for j in joins] == pytest.approx(chances[:3])
    for join, motion in zip(joins, motions, strict=False):
        assert motion_of(join.pose, rims[a], rims[b])[1:] == pytest.approx(motion[1:])
    refused = Join(b, a, joins[0].pose.inverse(), 0, 0, 0, 0)
    rest = joins_of(rims, unrefused(rims, judged, [refused]))
    assert all(not same_place(j.pose, joins[0].pose, rims[b].centre_mm) for j in rest)
    elsewhere = replace(refused, second="another")
    assert len(joins_of(rims, unrefused(rims, judged, [elsewhere]))) == 5


def test_the_same_join_is_known_by_where_the_piece_comes_to_lie(rims, puzzle):
    """Not by the shift of its frame, which a small turn about a far origin changes much."""
    a, b = puzzle.ids[:2]
    far = replace(rims[b], centre_mm=rims[b].centre_mm + 2000.0)
    motion = touching_motions(rims[a], far, 1)[0]
    one, other, third = (
        pose_of(motion + np.array([turn, 0, 0]), rims[a], far) for turn in (0, 0.1, 0.5)
    )
    assert np.hypot(*(one.translation - other.translation)) > 100
    assert same_place(one, other, far.centre_mm)
    assert not same_place(one, Pose(20.0, 0.0) @ one, far.centre_mm)
    assert not same_place(one, third, far.centre_mm)


def test_bad_requests_are_explained(puzzle, finder):
    with pytest.raises(InputError, match="too few"):
        find_joins(Puzzle("p", puzzle.fragments[:1]), finder=finder)
    with pytest.raises(InputError, match="no fragment 'nobody'"):
        find_joins(puzzle, finder=finder, piece="nobody")
    odd = Join(puzzle.ids[0], "nobody", Pose(0, 0), 0, 0, 0, 0)
    for judged in ({"accepted": [odd]}, {"rejected": [odd]}):
        with pytest.raises(InputError, match="no fragment 'nobody'"):
            find_joins(puzzle, finder=finder, **judged)
