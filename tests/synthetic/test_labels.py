"""Labels tell what lay across every point of every break."""

from __future__ import annotations

import numpy as np
import pytest

from reassembly.errors import InputError
from reassembly.pose import Pose
from reassembly.puzzle import Fragment
from reassembly.synthetic.labels import EDGE, LOST, Labels, make_labels, shared_edges, trace_breaks
from reassembly.synthetic.make import make_puzzle, recipe

MM = 0.5


WINDOWS = [np.s_[0:60, 0:140], np.s_[60:120, 0:140], np.s_[0:120, 140:200]]


def three_strips() -> np.ndarray:
    """120 x 200 pixels, 60 x 100 mm: two strips above each other, and a third beside both."""
    labels = np.zeros((120, 200), np.int16)
    labels[60:] = 1
    labels[:, 140:] = 2
    return labels


def strips_apart(gap_px: int, lost: int | None = None) -> Labels:
    """The strips as fragments, each having lost `gap_px` all around."""
    labels = three_strips()
    breaks = trace_breaks(labels, WINDOWS, MM)
    fragments, poses = [], []
    kept = [k for k in range(3) if k != lost]
    for k in kept:
        rows, columns = WINDOWS[k]
        mask = np.ones(
            (rows.stop - rows.start - 2 * gap_px, columns.stop - columns.start - 2 * gap_px)
        )
        fragments.append(Fragment(f"f{k}", np.zeros((*mask.shape, 3), np.uint8), mask > 0, MM))
        poses.append(
            Pose((columns.start + columns.stop) / 2 * MM, (rows.start + rows.stop) / 2 * MM)
        )
    return make_labels(fragments, kept, poses, poses, breaks, shared_edges(breaks))


def test_neighbours_share_the_length_of_their_edge():
    labels = strips_apart(0)
    assert set(labels.neighbours) == {(0, 1), (0, 2), (1, 2)}
    assert labels.neighbours[0, 1] == pytest.approx(70, abs=1.5)
    assert labels.neighbours[0, 2] == pytest.approx(30, abs=1.5)
    assert labels.neighbours[1, 2] == pytest.approx(30, abs=1.5)


def test_shared_edges_lie_on_the_cut():
    labels = three_strips()
    edges = shared_edges(trace_breaks(labels, WINDOWS, MM))
    longest = max((e for e in edges if e.pieces == (0, 1)), key=lambda e: e.length_mm)
    assert np.abs(longest.line[3:-3, 1] - 30).max() < 0.05
    assert np.linalg.norm(np.diff(longest.line, axis=0), axis=1) == pytest.approx(1, abs=0.05)
    beside = max((e for e in edges if e.pieces == (1, 2)), key=lambda e: e.length_mm)
    assert np.abs(beside.line[3:-3, 0] - 70).max() < 0.05


@pytest.mark.parametrize("gap_px", [0, 3, 6])
def test_every_point_knows_its_opposite_and_how_far_it_is(gap_px):
    labels = strips_apart(gap_px)
    points = labels.poses[0].apply(labels.outlines[0])
    low = points[:, 1] > 30 - gap_px * MM - 0.3
    middle = low & (points[:, 0] > 10) & (points[:, 0] < 60)
    assert (labels.across[0][middle] == 1).all()
    assert labels.gap_mm[0][middle] == pytest.approx(2 * gap_px * MM, abs=0.4)
    opposite = labels.poses[1].apply(labels.outlines[1][labels.partner[0][middle]])
    assert np.abs(opposite[:, 0] - points[middle, 0]).max() < 0.6
    top = points[:, 1] < gap_px * MM + 0.3
    assert (labels.across[0][top & (points[:, 0] > 8) & (points[:, 0] < 62)] == EDGE).all()
    nothing = labels.across[0] < 0
    assert np.isnan(labels.gap_mm[0][nothing]).all() and (labels.partner[0][nothing] == -1).all()


def test_gaps_are_those_of_the_solved_puzzle():
    labels = three_strips()
    breaks = trace_breaks(labels, WINDOWS, MM)
    image = np.zeros((60, 140, 3), np.uint8)
    fragments = [Fragment(f"f{k}", image, np.ones((60, 140), bool), MM) for k in range(2)]
    homes = [Pose(35.0, 15.0), Pose(35.0, 45.0)]
    moved = [homes[0], Pose(35.0, 49.0)]
    found = make_labels(fragments, [0, 1], homes, moved, breaks, shared_edges(breaks))
    facing = found.across[0] == 1
    assert np.median(found.gap_mm[0][facing]) == pytest.approx(4.0, abs=0.2)


def test_lost_pieces_are_told_from_the_edge_of_the_fresco():
    labels = strips_apart(0, lost=2)
    points = labels.poses[0].apply(labels.outlines[0])
    right = (points[:, 0] > 69.7) & (points[:, 1] > 3) & (points[:, 1] < 27)
    assert (labels.across[0][right] == LOST).all()
    assert set(labels.neighbours) == {(0, 1)}


def test_strays_touch_nothing():
    labels = three_strips()
    breaks = trace_breaks(labels, WINDOWS, MM)
    image = np.zeros((60, 140, 3), np.uint8)
    fragments = [Fragment(f"f{k}", image, np.ones((60, 140), bool), MM) for k in range(2)]
    homes = [Pose(35.0, 15.0), Pose(35.0, 45.0)]
    found = make_labels(fragments, [0, None], homes, [homes[0], None], breaks, shared_edges(breaks))
    assert found.strays.tolist() == [False, True]
    assert (found.across[1] == EDGE).all() and not (found.across[0] == 1).any()
    assert not found.neighbours


def test_labels_survive_the_file(tmp_path):
    made = make_puzzle(recipe("realistic", size_px=200, pieces=(5, 5)), 3, 1).labels
    file = tmp_path / "labels.npz"
    file.write_bytes(made.to_bytes())
    read = Labels.load(tmp_path)
    assert read.ids == made.ids and read.poses == made.poses
    assert read.to_bytes() == made.to_bytes()
    for name in ("outlines", "across", "partner", "gap_mm"):
        for a, b in zip(getattr(read, name), getattr(made, name), strict=True):
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f") and a.dtype == b.dtype
    assert read.neighbours.keys() == made.neighbours.keys()
    assert [e.pieces for e in read.edges] == [e.pieces for e in made.edges]
    file.write_bytes(b"no labels")
    with pytest.raises(InputError, match="no labels of a made puzzle"):
        Labels.load(file)


def test_partners_of_an_unworn_puzzle_touch():
    labels = make_puzzle(recipe("pairingnet", size_px=300, pieces=(6, 6)), 4, 0).labels
    gaps = np.concatenate(labels.gap_mm)
    spacing_mm = 1.0
    assert np.nanpercentile(gaps, 95) < spacing_mm
    assert np.isnan(gaps).mean() < 0.6
