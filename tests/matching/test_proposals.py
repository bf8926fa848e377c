"""What placements are looked at, of worn pieces and of lightly worn ones."""

import numpy as np
import pytest

from reassembly.config import ProposeConfig
from reassembly.matching import proposals as module
from reassembly.matching.evidence import Matches
from reassembly.matching.matcher import load_matchers
from reassembly.matching.proposals import proposals, with_matched
from reassembly.matching.rim import rims_of
from tests.puzzles import drawn_puzzle

FEW = ProposeConfig(keep=30)


def test_placements_that_matching_points_propose_join_those_of_correlation():
    motions = np.array([[0.0, 10.0, 0.0], [1.0, 0.0, 10.0]])
    near, new = [0.02, 11.0, 1.0], [2.0, -10.0, 0.0]
    matches = Matches(*[np.zeros((1, 2))] * 2, 1.0, np.zeros(1, int), np.zeros((1, 1)), [near, new])
    every, scores = with_matched(motions, np.array([7.0, 5.0]), [matches], FEW)
    assert scores.tolist() == [7.0, 7.0, 5.0, 0.0]
    assert every.tolist() == [motions[0].tolist(), near, motions[1].tolist(), new]
    alone = with_matched(motions[:0], np.zeros(0), [matches], FEW)
    assert alone[0].tolist() == [near, new] and not alone[1].any()


@pytest.fixture(scope="module")
def looked():
    puzzle = drawn_puzzle(3, seed=5, size_px=200, gap_px=1)
    rims = rims_of(puzzle)
    matchers = load_matchers()
    seen = [matcher.see(puzzle.fragments, rims) for matcher in matchers]
    a, b, c = puzzle.ids
    return rims, matchers, seen, [(c, b), (a, b), (a, c)]


def test_worn_pieces_are_laid_together_in_all_ways_besides(looked):
    light, worn = (
        {(a, b): rest for a, b, *rest in proposals(*looked, light=light, settings=FEW)}
        for light in (True, False)
    )
    assert light and light.keys() <= worn.keys()
    for pair, (motions, scores, matches) in light.items():
        assert not scores.any()
        matched = np.concatenate([own.motions for own in matches])
        assert motions.tolist() == matched.tolist()
        more, scored, _ = worn[pair]
        assert len(more) == 30 + len(motions)
        assert {tuple(m) for m in motions} <= {tuple(m) for m in more}
        assert scored[0] > 0 and (np.diff(scored) <= 0).all()


def test_the_long_search_is_left_out_of_lightly_worn_puzzles(looked, monkeypatch):
    def searched(*_):
        raise AssertionError("pieces were laid together in all ways")

    monkeypatch.setattr(module, "propose", searched)
    assert list(proposals(*looked, light=True, settings=FEW))
    with pytest.raises(AssertionError):
        list(proposals(*looked, light=False, settings=FEW))


def test_the_smaller_piece_comes_first_whichever_way_pairs_are_asked(looked):
    rims, matchers, seen, pairs = looked
    for light in (True, False):
        asked, turned = (
            [
                (a, b)
                for a, b, *_ in proposals(rims, matchers, seen, each, light=light, settings=FEW)
            ]
            for each in (pairs, [pair[::-1] for pair in pairs[::-1]])
        )
        assert asked == turned
        assert all(rims[a].radius_mm <= rims[b].radius_mm for a, b in asked)
