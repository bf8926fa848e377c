"""What many placements are told at once is what `matching.strip.beside` tells of each alone."""

import numpy as np
import pytest

from reassembly.assembly.contact import AT_ONCE, Contacts
from reassembly.assembly.placements import Placements
from reassembly.matching.rim import rims_of
from reassembly.matching.strip import FACING, NEAR_MM, beside
from tests.joining import touching_motions
from tests.puzzles import drawn_puzzle


@pytest.fixture(scope="module")
def rims():
    return list(rims_of(drawn_puzzle(4, seed=2, size_px=240, gap_px=1)).values())


@pytest.fixture(scope="module")
def contacts(rims):
    return Contacts(rims)


@pytest.fixture(scope="module")
def placements(rims):
    """Of all pairs, both ways round: rim to rim, deep within each other, about to lose touch and
    far apart; more than are looked at together."""
    rows = []
    for fixed, one in enumerate(rims):
        for moving, other in enumerate(rims):
            if fixed != moving:
                for turn, x, y in touching_motions(one, other, 12, seed=fixed + 7 * moving):
                    for share in (1.0, 0.3, 1.1, 1.2, 2.0):
                        rows.append((fixed, moving, turn, share * complex(x, y)))
    fixed, moving, turns, shifts = zip(*rows, strict=True)
    assert len(rows) > AT_ONCE
    return Placements(np.array(fixed), np.array(moving), np.array(turns), np.array(shifts))


@pytest.fixture(scope="module")
def alone(rims, placements):
    """Distances and facing of all points, one placement after the other."""
    told = []
    for fixed, moving, turn, shift in zip(
        placements.fixed, placements.moving, placements.turns, placements.shifts, strict=True
    ):
        motion = np.array([[turn, shift.real, shift.imag]])
        _, signed, _, facing = beside(rims[fixed], rims[moving], motion)
        told.append((signed[0], facing[0]))
    return told


def test_length_and_overlap_are_those_of_single_placements(rims, contacts, placements, alone):
    steps = np.array([rims[k].step_mm for k in placements.moving])
    joined = [((np.abs(s) < NEAR_MM) & (f < FACING)).sum() for s, f in alone]
    within = [np.maximum(-s, 0).sum() for s, _ in alone]
    length, overlap = contacts.measured(placements)
    # A point that is just about near may be so for one of the two only.
    assert np.abs(length - joined * steps).max() < 1.5
    assert (np.abs(length - joined * steps) > 0.1).mean() < 0.01
    assert overlap == pytest.approx(within * steps, rel=1e-4, abs=0.01)
    assert (length == 0).any() and (length > 30).any() and (overlap > 100).any()


def test_points_are_the_rims_own(rims, contacts, placements, alone):
    told = contacts.beside(placements)
    assert (np.diff(told.placement) >= 0).all()
    signed = np.array([alone[k][0][n] for k, n in zip(told.placement, told.point, strict=True)])
    assert told.signed == pytest.approx(signed, abs=1e-3)
    own = contacts.points_of(placements.moving[told.placement], told.point)
    wanted = [
        complex(*rims[placements.moving[k]].points[n])
        for k, n in zip(told.placement, told.point, strict=True)
    ]
    assert own == pytest.approx(np.array(wanted))


def test_pieces_that_are_not_near_do_not_touch(contacts, placements, alone):
    near = contacts.near(placements.fixed, placements.moving, placements.shifts)
    assert near.any() and not near.all()
    for k in np.flatnonzero(~near):
        assert alone[k][0].min() >= NEAR_MM - 0.1


def test_distances_grow_as_they_are_told_to(contacts, rims):
    """Against differences, at places within cells of a map."""
    rng = np.random.default_rng(0)
    pieces = rng.integers(len(rims), size=300)
    corner = contacts.corner[pieces].astype(np.complex128)
    cells = rng.integers(5, 60, (2, 300)) + rng.uniform(0.1, 0.9, (2, 300))
    places = corner + 0.5 * (cells[0] + 1j * cells[1])
    distance, growth = contacts.distance(pieces, places)
    told = [
        rims[k].look_up(np.array([[z.real, z.imag]], np.float32))[0][0]
        for k, z in zip(pieces, places, strict=True)
    ]
    assert distance == pytest.approx(np.array(told), abs=1e-3)
    for step, part in ((1e-4, growth.real), (1e-4j, growth.imag)):
        further, before = (contacts.distance(pieces, places + s)[0] for s in (step, -step))
        assert part == pytest.approx((further - before) / 2e-4, abs=1e-5)


def test_placements_are_seen_from_either_piece(placements):
    turned = placements.seen_from(placements.moving)
    assert (turned.fixed == placements.moving).all() and (turned.moving == placements.fixed).all()
    back = turned.seen_from(placements.fixed)
    assert back.turns == pytest.approx(placements.turns)
    assert back.shifts == pytest.approx(placements.shifts)
