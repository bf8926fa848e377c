"""Evidence for placements: what candidates say, what a person says, and what overlap costs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reassembly.assembly.table import (
    Candidate,
    Table,
    TableSettings,
    composed,
    inverse,
    to_array,
)
from reassembly.matching import motions
from reassembly.matching.rim import rims_of
from reassembly.pose import Pose
from tests.joining import touching_motions, true_motion
from tests.puzzles import drawn_puzzle

SETTINGS = TableSettings(offset=1.0, least=-1.5, unknown=-0.3, accepted=12.0, rejected=-12.0)
ONE, OTHER = "fragment_0", "fragment_1"
MOTION = st.tuples(
    st.floats(-math.pi, math.pi), st.builds(complex, st.floats(-90, 90), st.floats(-90, 90))
)


@pytest.fixture(scope="module")
def puzzle():
    return drawn_puzzle(2, seed=1, size_px=200, gap_px=1)


@pytest.fixture(scope="module")
def rims(puzzle):
    return rims_of(puzzle)


@pytest.fixture(scope="module")
def truth(puzzle, rims):
    return true_motion(puzzle, rims, ONE, OTHER)


def pose_of(motion):
    return Pose(motion[1].real, motion[1].imag, motion[0])


def same(motion, pose):
    turned = math.remainder(motion[0] - pose.rotation_rad, math.tau)
    return abs(turned) < 1e-9 and abs(motion[1] - complex(pose.x_mm, pose.y_mm)) < 1e-9


@given(MOTION, MOTION)
def test_motions_are_those_of_poses_and_of_arrays(outer, inner):
    both = composed(outer, inner)
    assert same(both, pose_of(outer) @ pose_of(inner))
    assert same(inverse(outer), pose_of(outer).inverse())
    assert to_array(both) == pytest.approx(
        motions.composed(to_array(outer), to_array(inner)[None])[0]
    )
    assert to_array(inverse(outer)) == pytest.approx(motions.inverse(to_array(outer)[None])[0])
    assert same(composed(outer, inverse(outer)), Pose(0, 0))


def test_a_candidate_speaks_for_placements_near_it_and_for_no_others(rims, truth):
    table = Table(rims, [Candidate(ONE, OTHER, truth, 3.0)], SETTINGS)
    assert table.at(ONE, OTHER, truth) == pytest.approx(2.0)
    assert table.at(OTHER, ONE, inverse(truth)) == pytest.approx(2.0)
    near = truth[0] + math.radians(1) + math.tau, truth[1] * 1.02
    assert table.at(ONE, OTHER, near) == pytest.approx(2.0)
    assert table.proposed(ONE, OTHER, near) and table.proposed(OTHER, ONE, inverse(near))
    elsewhere = 0
    for turn, x, y in touching_motions(rims[ONE], rims[OTHER], 20):
        placed = turn, complex(x, y)
        if not table.same(placed, truth):
            elsewhere += table.at(ONE, OTHER, placed) <= SETTINGS.unknown
            assert not table.proposed(ONE, OTHER, placed)
    assert elsewhere >= 15
    for apart in (truth[1] * 1.6, truth[1] * 20):
        assert table.at(ONE, OTHER, (truth[0], apart)) == 0.0


def test_a_candidate_that_is_thought_little_of_costs_no_more_than_so_much(rims, truth):
    table = Table(rims, [Candidate(ONE, OTHER, truth, -30.0)], SETTINGS)
    assert table.at(ONE, OTHER, truth) == pytest.approx(SETTINGS.least)


def test_the_best_of_several_near_candidates_counts(rims, truth):
    beside = truth[0], truth[1] + 2
    told = [Candidate(ONE, OTHER, truth, 0.0), Candidate(ONE, OTHER, beside, 4.0)]
    assert Table(rims, told, SETTINGS).at(ONE, OTHER, truth) == pytest.approx(3.0)


def test_many_placements_are_told_what_each_alone_is(rims, truth):
    told = [Candidate(OTHER, ONE, inverse(truth), 3.0), Candidate(ONE, OTHER, (1.0, 60j), 2.0)]
    refused = Candidate(ONE, OTHER, (truth[0] + 2, truth[1]), 0.0)
    asked = [
        Candidate(ONE, OTHER, (turn, share * complex(x, y)), 0.0)
        for turn, x, y in [*touching_motions(rims[ONE], rims[OTHER], 20), to_array(truth)]
        for share in (0.4, 1.0, 1.3, 3.0)
    ]
    asked += [*told, refused, *asked[:5]]
    many, one = (Table(rims, told, SETTINGS, rejected=[refused]) for _ in range(2))
    evidence = many.evidence(many.placements(asked))
    assert evidence.tolist() == [one.at(c.fixed, c.moving, c.motion) for c in asked]
    assert {0.0, 2.0, SETTINGS.rejected} <= set(evidence.tolist())


def test_the_pieces_of_a_group_that_touch_are_told(rims, truth):
    table = Table(rims, [Candidate(ONE, OTHER, truth, 3.0)], SETTINGS)
    lies = (0.7, 30 - 90j)
    group = {OTHER: composed(lies, truth), ONE: lies}
    assert table.touching(group) == [(OTHER, ONE, pytest.approx(2.0), True)]
    (touch,) = table.touching({ONE: lies, OTHER: composed(lies, (truth[0] + 2, truth[1]))})
    assert not touch.proposed
    assert table.touching({ONE: lies, OTHER: (0.0, 500 + 0j)}) == []
    assert table.touching({ONE: lies}) == table.touching({}) == []


def test_overlap_costs_what_is_not_free(rims, truth):
    inwards = truth[1] * 0.5
    deep = Table(rims, [Candidate(ONE, OTHER, (truth[0], inwards), 3.0)], SETTINGS)
    assert deep.at(ONE, OTHER, (truth[0], inwards)) < -10
    free = replace(SETTINGS, free_mm2=1e6)
    assert Table(rims, deep.candidates, free).at(ONE, OTHER, (truth[0], inwards)) >= -1.5


@pytest.mark.parametrize("turned", [False, True])
def test_a_persons_word_counts_more_than_any_candidate(rims, truth, turned):
    believed = Candidate(ONE, OTHER, truth, 8.0)
    word = Candidate(ONE, OTHER, truth, 0.0)
    if turned:
        word = Candidate(OTHER, ONE, inverse(truth), 0.0)
    rejected = Table(rims, [believed], SETTINGS, rejected=[word])
    accepted = Table(rims, [replace(believed, logit=-8.0)], SETTINGS, accepted=[word])
    for one, other, motion in ((ONE, OTHER, truth), (OTHER, ONE, inverse(truth))):
        assert rejected.at(one, other, motion) == SETTINGS.rejected
        assert accepted.at(one, other, motion) == pytest.approx(SETTINGS.accepted)
    assert rejected.at(ONE, OTHER, (truth[0], truth[1] * 1.6)) == 0.0


def test_groups_are_offered_the_likeliest_of_each_pair(rims, truth):
    logits = np.random.default_rng(0).permutation(10).astype(float)
    told = [Candidate(ONE, OTHER, (truth[0] + k, truth[1]), logits[k]) for k in range(10)]
    offered = Table(rims, told, grown_from=3).offered
    assert [c.logit for c in offered] == [9.0, 8.0, 7.0]
    assert len(Table(rims, told).offered) == 10
