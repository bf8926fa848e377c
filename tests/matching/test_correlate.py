import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reassembly.config import ProposeConfig
from reassembly.errors import InputError
from reassembly.matching.correlate import (
    distinct,
    nearly_same,
    parse_proposing,
    propose,
)
from reassembly.matching.rim import motion_of, rims_of
from tests.puzzles import drawn_puzzle


def errors(puzzle, rims, smaller, larger, motions):
    """How far placements are from the truth: (K,) degrees and (K,) mm."""
    truth = motion_of(
        puzzle.truth[smaller].inverse() @ puzzle.truth[larger], rims[smaller], rims[larger]
    )
    turned = np.abs((motions[:, 0] - truth[0] + math.pi) % math.tau - math.pi)
    return np.degrees(turned), np.hypot(*(motions[:, 1:] - truth[1:]).T)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_worn_halves_are_found_first(seed):
    puzzle = drawn_puzzle(2, seed=seed, gap_px=2)
    rims = rims_of(puzzle)
    ((smaller, larger, motions, scores),) = propose(rims)
    assert rims[smaller].radius_mm <= rims[larger].radius_mm
    degrees, mm = errors(puzzle, rims, smaller, larger, motions)
    found = np.flatnonzero((degrees < 6) & (mm < 4))
    assert len(found) and found[0] < 3
    assert (np.diff(scores) <= 0).all()


def test_pieces_that_met_score_higher_than_pieces_that_did_not():
    puzzle = drawn_puzzle(6, seed=4, gap_px=1)
    rims = rims_of(puzzle)
    firsts, seconds = [], []
    for smaller, larger, motions, _ in propose(rims):
        degrees, mm = errors(puzzle, rims, smaller, larger, motions)
        right = (degrees < 8) & (mm < 6)
        (firsts if right.any() else seconds).append(int(np.argmax(right)))
    assert len(firsts) >= 5
    assert np.median(firsts) <= 5


def test_proposals_differ_from_each_other():
    rims = rims_of(drawn_puzzle(2, seed=3))
    settings = ProposeConfig(keep=100)
    ((_, _, motions, _),) = propose(rims, settings)
    assert len(motions) == 100
    turned = np.abs((motions[:, None, 0] - motions[None, :, 0] + math.pi) % math.tau - math.pi)
    shifted = np.linalg.norm(motions[:, None, 1:] - motions[None, :, 1:], axis=-1)
    same = (np.degrees(turned) < settings.apart_deg - 0.01) & (shifted < settings.apart_mm - 0.01)
    assert same.sum() == len(motions)


@given(st.integers(0, 200), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_what_is_nearly_the_same_as_a_better_one_is_left_out(count, seed):
    """As told one after the other, around the full turn, too."""
    rng = np.random.default_rng(seed)
    motions = rng.uniform([0, -12, -12], [math.tau, 12, 12], (count, 3))
    scores = rng.permutation(count).astype(float)
    apart = ProposeConfig(keep=30, apart_mm=6.0, apart_deg=25.0)
    kept: list[int] = []
    for k in np.argsort(-scores):
        if len(kept) < 30 and not any(nearly_same(motions[k], motions[n], apart) for n in kept):
            kept.append(int(k))
    assert distinct(motions, scores, apart).tolist() == kept


def test_what_is_to_be_otherwise_is_told_by_words():
    assert parse_proposing(["gap_mm=3", "overlap=0"]) == {"gap_mm": 3.0, "overlap": 0.0}
    with pytest.raises(InputError, match=r"no setting 'gap'\. There are cell_mm, turn_deg, gap_mm"):
        parse_proposing(["gap=3"])
    for word in ("turn_deg=0", "turn_deg=fine", "spread_mm=-1", "gap_mm=inf", "cell_mm"):
        with pytest.raises(InputError, match=r"cannot be '.*'\. Give a number above 0"):
            parse_proposing([word])


def test_how_much_is_looked_at_at_once_plays_no_part(monkeypatch):
    rims = rims_of(drawn_puzzle(3, seed=5))
    settings = ProposeConfig(keep=60, turn_deg=15)
    together = list(propose(rims, settings))
    monkeypatch.setattr("reassembly.matching.correlate.BESIDE_AT_ONCE", 1)
    monkeypatch.setattr("reassembly.matching.correlate.TURNED_CELLS", 5 * 150**2)
    for one, other in zip(together, propose(rims, settings), strict=True):
        assert one[:2] == other[:2]
        assert other[3] == pytest.approx(one[3], abs=1e-2)
        assert other[2][:20] == pytest.approx(one[2][:20])


def test_only_the_pairs_that_are_asked_for_are_compared():
    puzzle = drawn_puzzle(4, seed=5)
    rims = rims_of(puzzle)
    asked = [(puzzle.ids[3], puzzle.ids[0]), (puzzle.ids[1], puzzle.ids[2])]
    found = list(propose(rims, ProposeConfig(keep=5), asked))
    assert {frozenset(each[:2]) for each in found} == {frozenset(pair) for pair in asked}
    every = {frozenset(e[:2]): e for e in propose(rims, ProposeConfig(keep=5))}
    assert len(every) == 6
    for smaller, larger, motions, _ in found:
        whole = every[frozenset((smaller, larger))][2]
        best = np.abs(whole - motions[0]).max(axis=1).min()
        assert best < 1.6, "the grid may differ, the best placement does not"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_gpu_finds_the_same():
    rims = rims_of(drawn_puzzle(3, seed=6))
    settings = ProposeConfig(keep=10)
    for here, there in zip(
        propose(rims, settings), propose(rims, settings, device="cuda"), strict=True
    ):
        assert here[:2] == there[:2]
        assert there[3] == pytest.approx(here[3], rel=1e-3)
