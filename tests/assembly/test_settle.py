"""Joins that disagree a little are weighed against each other, and corrections are followed."""

import cmath
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import least_squares

from reassembly.assembly.settle import SettleSettings, followed, settle
from reassembly.assembly.table import Candidate, Table, composed, inverse, to_array
from reassembly.matching.rim import rims_of
from tests.puzzles import drawn_puzzle


def lying(count=4, seed=0):
    rng = np.random.default_rng(seed)
    return {
        f"p{k}": (float(rng.uniform(-3, 3)), complex(*rng.normal(0, 60, 2))) for k in range(count)
    }


def joined(group, one, other, logit=2.0, off=(0.0, 0j), corrected=True):
    """The true placement of two pieces, proposed a little off."""
    true = composed(inverse(group[one]), group[other])
    proposed = true[0] + off[0], true[1] + off[1]
    return Candidate(one, other, proposed, logit, true if corrected else None)


def away(one, other, first="p0"):
    """How far pieces lie from where they should, relative to the first: radians and mm."""
    miss = []
    for i in one:
        a, b = (composed(inverse(g[first]), g[i]) for g in (one, other))
        miss.append((abs(cmath.phase(cmath.exp(1j * (a[0] - b[0])))), abs(a[1] - b[1])))
    return np.array(miss).max(axis=0)


def chain(truth, **off):
    ids = list(truth)
    return [joined(truth, a, b, **off) for a, b in pairwise(ids)]


def carried_by(joins, truth):
    """Poses as proposals, uncorrected, have them."""
    group = {"p0": truth["p0"]}
    for join in joins:
        group[join.moving] = composed(group[join.fixed], join.motion)
    return group


def test_corrections_are_followed():
    truth = lying()
    joins = chain(truth, off=(0.06, 3 + 2j))
    before = carried_by(joins, truth)
    after = settle(before, joins, [1.0] * len(joins))
    assert away(before, truth)[1] > 5
    turn, mm = away(after, truth)
    assert turn < 0.01 and mm < 0.8
    assert after["p0"] == before["p0"]


def test_a_loop_shares_what_its_joins_miss():
    truth = lying(3)
    joins = [
        joined(truth, "p0", "p1", corrected=False),
        joined(truth, "p1", "p2", corrected=False),
        joined(truth, "p0", "p2", off=(0.0, 6 + 0j), corrected=False),
    ]
    after = settle(truth, joins, [1.0, 1.0, 1.0])
    miss = [abs(composed(inverse(after[c.fixed]), after[c.moving])[1] - c.motion[1]) for c in joins]
    assert max(miss) < 4.5
    assert max(miss) < 3 * min(miss) + 1


def test_what_is_found_is_no_worse_than_what_scipy_finds():
    """Of a loop whose joins disagree by much, misses as told in `settle` are least."""
    truth = lying(5, seed=2)
    ids = list(truth)
    rng = np.random.default_rng(4)
    joins = [
        joined(
            truth, a, b, off=(rng.normal(0, 0.1), complex(*rng.normal(0, 4, 2))), corrected=False
        )
        for a, b in (*pairwise(ids), (ids[0], ids[-1]), (ids[1], ids[3]))
    ]
    weights = rng.uniform(0.2, 1.0, len(joins))
    settings = SettleSettings()

    def misses(moves):
        moves = moves.reshape(-1, 3)
        group = {
            i: (truth[i][0] + t / settings.arm_mm, truth[i][1] + complex(x, y))
            for i, (t, x, y) in zip(ids, [np.zeros(3), *moves], strict=True)
        }
        off = [settings.stray * moves.ravel()]
        for join, weight in zip(joins, weights, strict=True):
            turn, shift = composed(group[join.fixed], join.motion)
            turn, shift = turn - group[join.moving][0], shift - group[join.moving][1]
            turn = cmath.phase(cmath.exp(1j * turn)) * settings.arm_mm
            off.append(np.sqrt(weight) * np.array([turn, shift.real, shift.imag]))
        return np.concatenate(off)

    after = settle(truth, joins, weights)
    found = [to_array(after[i]) - to_array(truth[i]) for i in ids[1:]]
    found = (np.array(found) * [settings.arm_mm, 1, 1]).ravel()
    best = least_squares(misses, np.zeros(12)).x
    assert (misses(found) ** 2).sum() <= (misses(best) ** 2).sum() + 1e-9
    assert found == pytest.approx(best, abs=0.01)


def test_likelier_joins_count_more():
    truth = lying(2)
    one = joined(truth, "p0", "p1", corrected=False)
    other = joined(truth, "p0", "p1", off=(0.0, 4 + 0j), corrected=False)
    place = settle(truth, [one, other], [0.9, 0.1])["p1"][1]
    assert abs(place - truth["p1"][1]) == pytest.approx(0.4, abs=0.05)


def test_held_pieces_stay():
    truth = lying()
    joins = chain(truth, off=(0.05, 2 + 0j))
    before = carried_by(joins, truth)
    held = frozenset({"p1", "p2"})
    after = settle(before, joins, [1.0] * len(joins), held)
    assert all(after[i] == before[i] for i in held)
    assert after["p0"] != before["p0"] and after["p3"] != before["p3"]
    assert settle(before, joins, [1.0] * 3, frozenset(before)) == before
    assert settle(before, [], []) == before


def test_the_frame_does_not_matter():
    truth = lying(seed=3)
    joins = chain(truth, off=(0.04, -2 + 1j))
    before = carried_by(joins, truth)
    carry = (2.0, 300 - 40j)
    one = {i: composed(carry, m) for i, m in settle(before, joins, [0.8] * 3).items()}
    other = settle({i: composed(carry, m) for i, m in before.items()}, joins, [0.8] * 3)
    turn, mm = away(one, other)
    assert turn < 1e-3 and mm < 0.05


def test_joins_that_pieces_lie_by_are_followed():
    puzzle = drawn_puzzle(3, seed=6, size_px=200, gap_px=1)
    rims = rims_of(puzzle)
    a, b, c = puzzle.ids
    group = {a: (0.0, 0j), b: (0.5, 50 + 0j), c: (-0.4, 0 + 60j)}
    near = Candidate(a, b, (0.52, 51 + 0j), 1.0)
    likelier = Candidate(a, b, (0.45, 49 + 1j), 2.0)
    elsewhere = Candidate(a, c, (2.0, 0 - 60j), 9.0)
    turned = Candidate(c, b, composed(inverse(group[c]), group[b]), -1.0)
    table = Table(rims, [near, likelier, elsewhere, turned])
    assert followed(table, group) == [likelier, turned]
    assert followed(table, {a: group[a], c: group[c]}) == []
