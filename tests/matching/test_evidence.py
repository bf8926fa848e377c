"""Figures of placements: what they measure, and that it does not matter how pictures lie."""

import math
from dataclasses import replace

import cv2
import numpy as np
import pytest

from reassembly.matching.evidence import MATCHERS, MATCHES, NAMES, Matches, contacts, evidence
from reassembly.matching.rim import motion_of, rims_of
from reassembly.pose import Pose
from reassembly.puzzle import Fragment, Puzzle
from tests.joining import touching_motions
from tests.puzzles import drawn_puzzle


@pytest.fixture(scope="module")
def puzzle():
    return drawn_puzzle(2, seed=1, size_px=240, gap_px=1)


@pytest.fixture(scope="module")
def rims(puzzle):
    return rims_of(puzzle)


def quarter_turned(fragment: Fragment, quarters: int, pad: tuple[int, int]) -> Fragment:
    """The same piece, its picture turned counter-clockwise as seen and lying elsewhere in it."""
    around = ((pad[0], 3), (5, pad[1]))
    image = np.pad(np.rot90(fragment.image, quarters), (*around, (0, 0)))
    mask = np.pad(np.rot90(fragment.mask, quarters), around)
    return Fragment(fragment.id, image.copy(), mask.copy(), fragment.mm_per_px)


def turned_puzzle(puzzle: Puzzle) -> Puzzle:
    return Puzzle(
        "turned",
        tuple(
            quarter_turned(f, k, (11 * k, 7 * k)) for k, f in enumerate(puzzle.fragments, start=1)
        ),
    )


def told_again(puzzle, motions):
    """Motions of the same placements between turned pictures."""
    a, b = puzzle.fragments
    # A picture turned by q quarters shows the piece turned so: undo it, place it, turn the other.
    quarters = {a.id: 1, b.id: 2}
    rows = motions.copy()
    first = quarters[a.id] * math.pi / 2
    rows[:, 0] += first - quarters[b.id] * math.pi / 2
    c_, s_ = math.cos(first), math.sin(first)
    rows[:, 1:] = rows[:, 1:] @ np.array([[c_, s_], [-s_, c_]]).T
    return rows


def true_row(puzzle, rims):
    a, b = puzzle.ids
    return motion_of(puzzle.truth[a].inverse() @ puzzle.truth[b], rims[a], rims[b])


def column(figures, name):
    return figures[:, NAMES.index(name)]


def test_turning_pictures_changes_nothing(puzzle, rims):
    a, b = puzzle.ids
    turned = turned_puzzle(puzzle)
    others = rims_of(turned)
    motions = np.vstack([true_row(puzzle, rims), touching_motions(rims[a], rims[b], 6)])
    scores = np.linspace(30, 5, len(motions))
    here = evidence(rims[a], rims[b], motions, scores)
    there = evidence(others[a], others[b], told_again(puzzle, motions), scores)
    assert here.shape == (len(motions), len(NAMES))
    for name in NAMES:
        spread = max(1.0, float(np.abs(column(here, name)).max()))
        apart = np.abs(column(here, name) - column(there, name))
        assert apart[0] < 0.1 * spread and apart.mean() < 0.1 * spread, name


def test_true_joins_are_told_from_others(puzzle, rims):
    a, b = puzzle.ids
    motions = np.vstack([true_row(puzzle, rims), touching_motions(rims[a], rims[b], 40)])
    figures = evidence(rims[a], rims[b], motions, np.zeros(len(motions)))
    true, false = figures[0], figures[1:]
    for name, better in (("contact", 1), ("colours_differ_rim", -1), ("follows_rim", 1)):
        k = NAMES.index(name)
        assert np.mean(better * true[k] > better * false[:, k]) > 0.8, name
    assert true[NAMES.index("gap")] == pytest.approx(1.0, abs=0.7)
    assert np.isfinite(figures).all()


def test_what_is_told_is_in_mm(puzzle, rims):
    """The gap by its width, wherever the pieces are moved to along the gap's normal."""
    a, b = puzzle.ids
    motion = true_row(puzzle, rims)
    middle = contacts(rims[a], rims[b], motion[None])
    apart = motion + np.concatenate([[0], 2.0 * middle.across[0]])
    figures = evidence(rims[a], rims[b], np.stack([motion, apart]), np.zeros(2))
    gaps = column(figures, "gap")
    assert gaps[1] - gaps[0] == pytest.approx(2.0, abs=0.5)
    assert column(figures, "log_overlap")[1] <= column(figures, "log_overlap")[0]


def test_contacts_lie_between_the_pieces_and_point_across(puzzle, rims):
    a, b = puzzle.ids
    motion = true_row(puzzle, rims)
    found = contacts(rims[a], rims[b], motion[None])
    assert np.linalg.norm(found.across, axis=1) == pytest.approx(1.0, abs=1e-5)
    near, _ = rims[a].look_up(found.middle)
    assert abs(near[0]) < 12
    # From the fixed piece's centroid, which is the origin, to the moving one's.
    assert found.across[0] @ motion[1:] > 0
    # Seen from the other piece it is the same break, the other way round.
    back = motion_of((puzzle.truth[a].inverse() @ puzzle.truth[b]).inverse(), rims[b], rims[a])
    other = contacts(rims[b], rims[a], back[None])
    c, s = math.cos(motion[0]), math.sin(motion[0])
    turn = np.array([[c, s], [-s, c]])
    assert turn @ other.across[0] == pytest.approx(-found.across[0], abs=0.25)
    there = turn @ other.middle[0] + motion[1:]
    assert np.hypot(*(there - found.middle[0])) < 6


def test_matching_points_support_placements_that_bring_them_together(puzzle, rims):
    a, b = puzzle.ids
    motion = true_row(puzzle, rims)
    fixed, moving = rims[a], rims[b]
    c, s = math.cos(motion[0]), math.sin(motion[0])
    placed = moving.points @ np.array([[c, s], [-s, c]], np.float32).T + motion[1:]
    apart = np.linalg.norm(fixed.points[:, None] - placed[None], axis=-1)
    matches = Matches(
        moving.points,
        moving.normals,
        moving.step_mm,
        np.arange(len(fixed.points)),
        np.where(apart < 4, 5.0, -5.0).astype(np.float32),
        np.zeros((0, 3)),
    )
    nothing = replace(matches, likelier=np.zeros_like(matches.likelier))
    motions = np.vstack([touching_motions(fixed, moving, 10), motion])
    figures = evidence(fixed, moving, motions, np.zeros(len(motions)), [matches, nothing])
    support = column(figures, "support_worn")
    assert support.argmax() == len(motions) - 1
    assert column(figures, "log_support_rank_worn")[-1] == 0
    assert column(figures, "support_behind_best_worn").max() == 0
    assert not column(figures, "support_light").any()
    alone = evidence(fixed, moving, motions, np.zeros(len(motions)))
    assert not any(column(alone, f"{name}_{m}").any() for name in MATCHES for m in MATCHERS)


def test_pieces_apart_have_no_contact(puzzle, rims):
    a, b = puzzle.ids
    far = np.array([[0.0, 900.0, 0.0]])
    figures = evidence(rims[a], rims[b], far, np.ones(1))
    assert np.isfinite(figures).all() and column(figures, "contact")[0] == 0
    assert np.isfinite(contacts(rims[a], rims[b], far).across).all()


def test_light_on_the_whole_puzzle_plays_no_part(puzzle):
    """Colours are in units of the puzzle's own spread: a darker photograph is the same puzzle."""
    darker = replace(
        puzzle,
        fragments=tuple(
            replace(f, image=cv2.convertScaleAbs(f.image, alpha=0.8)) for f in puzzle.fragments
        ),
    )
    a, b = puzzle.ids
    rows = []
    for each in (puzzle, darker):
        rims = rims_of(each)
        motion = motion_of(
            Pose(0, 0) @ puzzle.truth[a].inverse() @ puzzle.truth[b], *[rims[i] for i in (a, b)]
        )
        rows.append(evidence(rims[a], rims[b], motion[None], np.ones(1)))
    follows = [column(row, "follows_rim")[0] for row in rows]
    assert follows[0] == pytest.approx(follows[1], abs=0.1)
