"""Likely neighbours: what the puzzle's order and the other pieces must not change."""

import pytest

from reassembly.matching.matcher import load_matcher
from reassembly.matching.partners import likely_neighbours
from reassembly.matching.rim import rims_of
from reassembly.synthetic.make import make_puzzle, recipe


@pytest.fixture(scope="module")
def matcher():
    return load_matcher()


@pytest.fixture(scope="module")
def puzzle():
    return make_puzzle(recipe("realistic", pieces=(9, 9), size_px=512), 3, 0).puzzle


@pytest.fixture(scope="module")
def seen(matcher, puzzle):
    return matcher.see(puzzle.fragments, rims_of(puzzle))


def test_every_piece_has_so_many_partners(matcher, seen, puzzle):
    for count in (1, 3, 8):
        kept = likely_neighbours(matcher, seen, puzzle.ids, count)
        assert len(set(map(frozenset, kept))) == len(kept)
        of = {i: sum(i in pair for pair in kept) for i in puzzle.ids}
        assert min(of.values()) >= count and len(kept) <= 9 * count
    assert len(kept) == 36


def test_more_partners_keep_those_that_fewer_had(matcher, seen, puzzle):
    few, many = (set(likely_neighbours(matcher, seen, puzzle.ids, n)) for n in (2, 4))
    assert few < many


def test_the_order_of_pieces_plays_no_part(matcher, seen, puzzle, monkeypatch):
    straight = likely_neighbours(matcher, seen, puzzle.ids, 2)
    turned = likely_neighbours(matcher, seen, puzzle.ids[::-1], 2)
    assert set(map(frozenset, straight)) == set(map(frozenset, turned))
    monkeypatch.setattr("reassembly.matching.partners.AT_ONCE", 5)
    assert likely_neighbours(matcher, seen, puzzle.ids, 2) == straight
