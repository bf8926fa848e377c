"""Crops of joins: the same however pieces lie in their pictures, and from either function."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reassembly.matching.crops import (
    CHANNELS,
    HEIGHT_PX,
    PIXEL_MM,
    WIDTH_PX,
    Pictures,
    crops,
    crops_of_pair,
    pictures_of,
)
from reassembly.matching.evidence import contacts
from reassembly.matching.joins import corrected
from reassembly.matching.rim import motion_of, rims_of
from reassembly.training.joins import offsets
from tests.joining import touching_motions
from tests.matching.test_evidence import told_again, turned_puzzle
from tests.puzzles import drawn_puzzle


@pytest.fixture(scope="module")
def puzzle():
    return drawn_puzzle(2, seed=1, size_px=240, gap_px=1)


@pytest.fixture(scope="module")
def rims(puzzle):
    return rims_of(puzzle)


@pytest.fixture(scope="module")
def motions(puzzle, rims):
    """The true placement and five others."""
    a, b = puzzle.ids
    true = motion_of(puzzle.truth[a].inverse() @ puzzle.truth[b], rims[a], rims[b])
    return np.vstack([true, touching_motions(rims[a], rims[b], 5)])


def shown(puzzle, rims, motions):
    a, b = puzzle.ids
    contact = contacts(rims[a], rims[b], motions)
    told = (motions.astype(np.float32), contact.middle, contact.across)
    return crops_of_pair(pictures_of(puzzle.fragments), 0, 1, *map(torch.from_numpy, told))


def test_how_pieces_lie_in_their_pictures_plays_no_part(puzzle, rims, motions):
    turned = turned_puzzle(puzzle)
    here = shown(puzzle, rims, motions)
    there = shown(turned, rims_of(turned), told_again(puzzle, motions))
    assert here.shape == (6, CHANNELS, HEIGHT_PX, WIDTH_PX)
    # Middles of breaks shift by a part of a pixel: at edges some pixels differ, on the whole none.
    assert (here - there).abs().mean() < 0.02
    assert (here[:, [3, 7]] - there[:, [3, 7]]).abs().mean() < 0.02
    others = shown(puzzle, rims, motions[[1, 0, 2, 3, 4, 5]])
    assert (here - others)[:2].abs().mean() > 0.06


def test_the_fixed_piece_is_below_the_moving_one_above_and_neither_covers_the_other(
    puzzle, rims, motions
):
    """Rows go from the fixed piece to the moving one."""
    crop = shown(puzzle, rims, motions[:1])[0]
    cover, other = crop[3], crop[7]
    rows = torch.arange(HEIGHT_PX).float()[:, None]
    middles = [float((c * rows).sum() / c.sum()) for c in (cover, other)]
    assert middles[0] < HEIGHT_PX / 2 < middles[1]
    assert float((cover * other).sum()) < 0.03 * float(cover.sum())
    assert float(crop[[3, 7]].min()) >= 0 and float(crop[[3, 7]].max()) <= 1.0001
    outside = cover < 1e-6
    assert not crop[:3, outside].any()


def test_a_crop_shows_lengths_in_mm(puzzle, rims, motions):
    """Moving a piece across by 7.5 mm moves its picture by ten pixels."""
    a, b = puzzle.ids
    contact = contacts(rims[a], rims[b], motions[:1])
    moved = motions[:1] + np.concatenate([[0], 7.5 * contact.across[0]])
    told = [(m.astype(np.float32), contact.middle, contact.across) for m in (motions[:1], moved)]
    pictures = pictures_of(puzzle.fragments)
    one, other = (crops_of_pair(pictures, 0, 1, *map(torch.from_numpy, t))[0] for t in told)
    assert torch.equal(one[:4], other[:4])
    shift = round(7.5 / PIXEL_MM)
    assert (one[4:, :-shift] - other[4:, shift:]).abs().max() < 1e-3


def test_both_functions_show_the_same(puzzle, rims, motions):
    a, b = puzzle.ids
    contact = contacts(rims[a], rims[b], motions)
    told = [
        torch.from_numpy(x) for x in (motions.astype(np.float32), contact.middle, contact.across)
    ]
    pictures = pictures_of(puzzle.fragments)
    # Of two puzzles' pictures, the second one's, so that numbers count on.
    both = Pictures.joined([pictures, pictures])
    number = torch.full((len(motions),), 2)
    assert (
        crops(both, number, number + 1, *told) - crops_of_pair(pictures, 0, 1, *told)
    ).abs().max() < 1e-4
    assert (
        crops_of_pair(both, 3, 2, *told) - crops_of_pair(pictures, 1, 0, *told)
    ).abs().max() < 1e-6


MOTION = st.tuples(st.floats(-3, 3), st.floats(-80, 80), st.floats(-80, 80))


@settings(max_examples=60)
@given(MOTION, MOTION, st.floats(-math.pi, math.pi), st.floats(-60, 60), st.floats(-60, 60))
def test_corrections_undo_offsets(lies, true, angle, x, y):
    motions, truth = np.array([lies]), np.array(true)
    middle = np.array([[x, y]], np.float32)
    across = np.array([[math.cos(angle), math.sin(angle)]], np.float32)
    away = offsets(motions, truth, middle, across)
    back = corrected(motions, away, middle, across)[0]
    assert abs(math.remainder(back[0] - truth[0], math.tau)) < 1e-6
    assert back[1:] == pytest.approx(truth[1:], abs=1e-3)
    still = corrected(motions, np.zeros((1, 3)), middle, across)[0]
    assert still == pytest.approx(motions[0], abs=1e-4)
