"""Assemblies from drawn candidates: true joins among many false ones."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest

from reassembly.assembly.search import SearchSettings, search
from reassembly.assembly.table import Candidate, Table, TableSettings, composed, inverse
from reassembly.matching.rim import rims_of
from tests.joining import candidates, misplaced, neighbours, true_motion
from tests.puzzles import drawn_puzzle

SETTINGS = TableSettings()
TRUSTING = SearchSettings(tries=3, least=-math.inf)
WARY = SearchSettings(tries=2, least=0.5)


@pytest.fixture(scope="module")
def puzzle():
    return drawn_puzzle(6, seed=3, size_px=260, gap_px=1)


@pytest.fixture(scope="module")
def rims(puzzle):
    return rims_of(puzzle)


@pytest.fixture(scope="module")
def told(puzzle, rims):
    """Twenty false candidates a pair: the likeliest of them beat many a true one."""
    return candidates(puzzle, rims, false=20, gap=4.0, seed=0)


def right(puzzle, rims, group):
    return all(turn < 6 and mm < 5 for turn, mm in misplaced(puzzle, rims, group).values())


def test_true_joins_win_over_false_ones_that_do_not_agree(puzzle, rims, told):
    table = Table(rims, told, SETTINGS)
    best = search(table, TRUSTING)[0]
    assert [len(group) for group in best.groups] == [6]
    assert right(puzzle, rims, best.groups[0])
    # Not because they are likelier: the weakest that was needed is behind many false ones.
    true = [c for c in told if table.same(c.motion, true_motion(puzzle, rims, c.fixed, c.moving))]
    weakest = min(c.logit for c in true if (c.fixed, c.moving) in neighbours(puzzle))
    assert sum(c.logit > weakest for c in told) - len(true) > 10


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_found_is_worth_no_less_than_the_truth(puzzle, rims, seed):
    """However misleading candidates are."""
    table = Table(rims, candidates(puzzle, rims, false=20, gap=3.0, seed=seed), SETTINGS)
    truth = sum(
        table.at(a, b, true_motion(puzzle, rims, a, b)) for a, b in combinations(puzzle.ids, 2)
    )
    assert search(table, TRUSTING)[0].value >= truth - 0.1


def test_the_same_seed_finds_the_same_and_the_best_comes_first(rims, told):
    table = Table(rims, told, SETTINGS)
    doubtful = SearchSettings(tries=5, doubt=3.0, least=-math.inf)
    first, again = (search(table, doubtful, seed=4) for _ in range(2))
    assert [f.value for f in first] == [f.value for f in again]
    assert [f.groups for f in first] == [f.groups for f in again]
    assert all(a.value >= b.value for a, b in pairwise(first))


def test_the_value_is_what_the_table_says_of_all_that_touches(rims, told):
    table = Table(rims, told, SETTINGS)
    best = search(table, TRUSTING)[0]
    total = 0.0
    for group in best.groups:
        ids = sorted(group)
        for k, i in enumerate(ids):
            total += sum(
                table.at(i, j, composed(inverse(group[i]), group[j])) for j in ids[k + 1 :]
            )
    assert best.value == pytest.approx(total, abs=0.1)


def test_no_two_assemblies_are_alike(rims, told):
    doubtful = SearchSettings(tries=6, doubt=4.0, rounds=1, least=-math.inf)
    found = search(Table(rims, told, SETTINGS), doubtful)
    sure = search(Table(rims, told, SETTINGS), SearchSettings(tries=6, doubt=0.0))
    assert len(found) > 1 == len(sure)


def test_groups_that_nothing_trustworthy_joins_stay_islands(puzzle, rims):
    """Of two halves of the puzzle only the joins within each are told."""
    halves = [set(puzzle.ids[:3]), set(puzzle.ids[3:])]
    whole = candidates(puzzle, rims, false=0, gap=0.0, seed=2)
    sure = [
        Candidate(c.fixed, c.moving, c.motion, 5.0)
        for c in whole
        if any({c.fixed, c.moving} <= half for half in halves)
    ]
    doubtful = [
        Candidate(c.fixed, c.moving, c.motion, -4.0)
        for c in candidates(puzzle, rims, false=6, gap=0.0, seed=3)
        if not any({c.fixed, c.moving} <= half for half in halves)
    ]
    best = search(Table(rims, [*sure, *doubtful], SETTINGS), WARY)[0]
    for group in best.groups:
        assert any(set(group) <= half for half in halves)
        assert right(puzzle, rims, group)
    assert max(len(group) for group in best.groups) == 3


def test_no_candidates_leave_every_piece_alone(puzzle, rims):
    (found,) = search(Table(rims, [], SETTINGS), TRUSTING)
    assert sorted(map(len, found.groups)) == [1] * 6
    assert found.value == 0.0


def test_given_groups_stay_as_they_are(puzzle, rims, told):
    """Even where they are wrong, and whatever is joined to them."""
    a, b = puzzle.ids[:2]
    given = {a: (0.3, 5 + 7j), b: (1.3, 90 - 20j)}
    for found in search(Table(rims, told, SETTINGS), TRUSTING, held=[given]):
        group = next(g for g in found.groups if a in g)
        assert b in group
        kept = composed(inverse(group[a]), group[b])
        wanted = composed(inverse(given[a]), given[b])
        assert abs(math.remainder(kept[0] - wanted[0], math.tau)) < 1e-9
        assert abs(kept[1] - wanted[1]) < 1e-9


def test_rejected_joins_are_not_made_and_accepted_ones_are(puzzle, rims, told):
    best = search(Table(rims, told, SETTINGS), TRUSTING)[0]
    group = best.groups[0]
    join = best.joins[0]
    a, b = join.fixed, join.moving
    was = composed(inverse(group[a]), group[b])
    # Told from the other piece.
    refused = Candidate(b, a, inverse(was), 0.0)
    table = Table(rims, told, SETTINGS, rejected=[refused])
    for found in search(table, TRUSTING):
        for group in found.groups:
            if a in group and b in group:
                now = composed(inverse(group[a]), group[b])
                assert not table.same(now, was)
    wanted = Candidate(a, b, true_motion(puzzle, rims, a, b), 0.0)
    rest = [c for c in told if {c.fixed, c.moving} != {a, b}]
    found = search(Table(rims, rest, SETTINGS, accepted=[wanted]), TRUSTING)[0]
    (group,) = (g for g in found.groups if a in g)
    assert table.same(composed(inverse(group[a]), group[b]), wanted.motion)


def test_progress_tells_the_best_so_far(rims, told):
    steps = []
    found = search(
        Table(rims, told, SETTINGS),
        TRUSTING,
        progress=lambda done, best: steps.append((done, best)),
    )
    assert [done for done, _ in steps] == pytest.approx([1 / 3, 2 / 3, 1])
    assert np.all(np.diff([best.value for _, best in steps]) >= 0)
    assert steps[-1][1].value == found[0].value
