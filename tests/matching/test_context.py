"""Placements of a puzzle's pairs speak for and against each other, whoever tells them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reassembly.matching.context import CONTEXT, LEAST, RIVAL_MM, Placed, context
from reassembly.matching.motions import inverse, matrices
from reassembly.matching.rim import motion_of, rims_of
from tests.joining import neighbours
from tests.puzzles import drawn_puzzle

COLUMN = {name: k for k, name in enumerate(CONTEXT)}


def placed(rows):
    """From (fixed, moving, motion, middle, logit) each, the corrected motions being the proposed
    ones."""
    fixed, moving, motions, middle, logits = zip(*rows, strict=True)
    motions = np.array(motions, np.float64)
    ends = (np.array(each, np.intp) for each in (fixed, moving))
    return Placed(*ends, motions, motions, np.array(middle, np.float64), np.array(logits, float))


def drawn(seed, pieces=4, per_pair=5):
    """Placements anywhere, of all pairs."""
    rng = np.random.default_rng(seed)
    return placed(
        [
            (a, b, [rng.uniform(-3, 3), *rng.uniform(-40, 40, 2)], rng.uniform(-20, 20, 2), logit)
            for a in range(pieces)
            for b in range(a + 1, pieces)
            for logit in rng.normal(-2, 3, per_pair)
        ]
    )


@pytest.fixture(scope="module")
def truth():
    """A puzzle's true joins, told each as likely as no other."""
    puzzle = drawn_puzzle(5, seed=3)
    rims = rims_of(puzzle)
    number = {i: k for k, i in enumerate(puzzle.ids)}
    rows = []
    for k, (a, b) in enumerate(sorted(neighbours(puzzle))):
        pose = puzzle.truth[a].inverse() @ puzzle.truth[b]
        motion = motion_of(pose, rims[a], rims[b])
        rows.append((number[a], number[b], motion, motion[1:] / 2, 1.0 + 0.1 * k))
    return placed(rows)


def test_true_joins_confirm_each_other_around_third_pieces(truth):
    told = context(truth)
    pairs = {
        frozenset(pair): logit
        for *pair, logit in zip(truth.fixed, truth.moving, truth.logits, strict=True)
    }
    confirmed = 0
    for row, a, b in zip(told, truth.fixed, truth.moving, strict=True):
        ways = [
            min(pairs[frozenset((a, c))], pairs[frozenset((b, c))])
            for c in set(truth.fixed) | set(truth.moving)
            if {frozenset((a, c)), frozenset((b, c))} <= pairs.keys()
        ]
        assert row[COLUMN["confirmed"]] == pytest.approx(max(ways, default=LEAST))
        wanted = sum(np.logaddexp(0, way) for way in ways)
        assert row[COLUMN["confirmations"]] == pytest.approx(wanted, rel=1e-5)
        confirmed += bool(ways)
    assert confirmed >= 3


def test_a_placement_that_is_off_is_not_confirmed(truth):
    moved = truth.corrected.copy()
    moved[0, 1:] += 40.0
    off = Placed(truth.fixed, truth.moving, moved, moved, truth.middle, truth.logits)
    before, after = context(truth), context(off)
    assert before[0, COLUMN["confirmed"]] > 0
    assert after[0, COLUMN["confirmed"]] == LEAST


@pytest.mark.parametrize(("away", "claims"), [(0.9, True), (1.1, False)])
def test_the_likeliest_other_piece_on_the_same_rim_is_the_rival(away, claims):
    rows = [
        (0, 1, [0.3, 60.0, 5.0], [30.0, 0.0], 1.5),
        (0, 2, [1.0, 58.0, 0.0], [30.0, away * RIVAL_MM], 2.5),
        (0, 2, [1.2, 58.0, 0.0], [30.0, away * RIVAL_MM], 0.5),
        # Another placement of the same pair is no rival of the first.
        (0, 1, [0.4, 60.0, 5.0], [30.0, 0.0], 4.0),
    ]
    first, second, third, _ = context(placed(rows))
    expected = [2.5, 4.0, 4.0] if claims else [LEAST] * 3
    assert [row[COLUMN["rival_there"]] for row in (first, second, third)] == expected
    assert first[COLUMN["rival_here"]] == LEAST
    assert first[COLUMN["ahead"]] == 1.5 - expected[0]


def test_the_moving_pieces_rim_has_rivals_too():
    """Whichever piece of a pair is fixed: contacts are at one place of piece 2's rim."""
    turn = 0.7
    middle_on_2 = np.array([12.0, -7.0])
    shift = np.array([50.0, 20.0])
    on_0 = matrices(np.array([turn]))[0] @ middle_on_2 + shift
    rows = [(0, 2, [turn, *shift], on_0, 1.0), (2, 3, [0.1, 9.0, 9.0], middle_on_2, 2.0)]
    first, second = context(placed(rows))
    assert first[COLUMN["rival_here"]] == 2.0 and first[COLUMN["rival_there"]] == LEAST
    assert second[COLUMN["rival_there"]] == 1.0 and second[COLUMN["rival_here"]] == LEAST


@given(st.integers(0, 1000))
def test_it_does_not_matter_from_which_piece_a_placement_is_told(seed):
    one = drawn(seed)
    back = inverse(one.proposed)
    there = (matrices(back[:, 0]) @ one.middle[..., None])[..., 0] + back[:, 1:]
    other = Placed(one.moving, one.fixed, back, back, there, one.logits)
    told, turned = context(one), context(other)
    turned[:, [0, 1]] = turned[:, [1, 0]]
    np.testing.assert_allclose(turned, told, atol=1e-4)


@given(st.integers(0, 1000))
def test_nor_in_which_order_or_under_which_numbers(seed):
    one = drawn(seed)
    rng = np.random.default_rng(seed)
    order, names = rng.permutation(len(one.logits)), rng.permutation(4) + 5
    other = Placed(
        names[one.fixed[order]],
        names[one.moving[order]],
        *(each[order] for each in (one.proposed, one.corrected, one.middle, one.logits)),
    )
    np.testing.assert_allclose(context(other), context(one)[order], atol=1e-4)


def test_what_is_done_is_told():
    shares = []
    context(drawn(0, pieces=8, per_pair=2), shares.append)
    assert shares == sorted(shares) and len(shares) > 1 and shares[0] >= 0 and shares[-1] <= 1


def test_two_pieces_alone_have_neither_rivals_nor_loops():
    told = context(drawn(0, pieces=2))
    assert (told[:, [COLUMN[n] for n in ("rival_there", "rival_here", "confirmed")]] == LEAST).all()
    assert (told[:, COLUMN["confirmations"]] == 0).all()
