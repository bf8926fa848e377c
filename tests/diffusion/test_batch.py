import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reassembly.diffusion.batch import Layout
from reassembly.diffusion.frames import place, true_vectors
from tests.diffusion.made import batch_of

COUNTS = st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), min_size=1, max_size=4)


@given(COUNTS)
def test_every_token_comes_back_to_its_place(puzzles):
    tokens = [n for puzzle in puzzles for n in puzzle]
    layout = Layout(tokens, tuple(len(puzzle) for puzzle in puzzles), "cpu")
    values = torch.arange(layout.count, dtype=torch.float32)[:, None]
    for groups in (layout.by_piece, layout.by_puzzle):
        result = None
        for group in groups:
            result = group.put(result, group.take(values), layout.count)
        assert torch.equal(result, values)


@given(COUNTS)
def test_groups_are_whole_pieces_and_whole_puzzles(puzzles):
    tokens = [n for puzzle in puzzles for n in puzzle]
    layout = Layout(tokens, tuple(len(puzzle) for puzzle in puzzles), "cpu")
    piece = layout.piece_of_token[:, None]
    of_piece = torch.arange(len(puzzles)).repeat_interleave(torch.tensor([*map(len, puzzles)]))
    for groups, owner in ((layout.by_piece, piece), (layout.by_puzzle, of_piece[piece])):
        seen = [row.unique().tolist() for group in groups for row in group.take(owner)]
        assert sorted(seen) == [[k] for k in range(len(seen))]
    means = layout.piece_mean(piece.float())
    assert means[:, 0].tolist() == list(range(len(tokens)))


def test_the_largest_piece_is_the_anchor():
    for sizes in ((4, 4), (3, 5, 4)):
        batch = batch_of(*sizes)
        for part, anchor in zip(batch.area.split(sizes), batch.anchor.split(sizes), strict=True):
            assert anchor.sum() == 1 and part[anchor] == part.max()
        assert batch.anchor[batch.anchor_piece].all()


def test_what_lies_across_a_break_is_counted_over_all_puzzles():
    sizes = (3, 5, 4)
    batch = batch_of(*sizes)
    assert torch.equal(batch.across < 0, batch.meets_piece < 0)
    assert (batch.across < 0).any() and not (batch.across == torch.arange(12)[:, None]).any()
    first = 0
    for count, met in zip(sizes, batch.across.split(sizes), strict=True):
        own = met[met >= 0]
        assert own.min() == first and own.max() == first + count - 1
        alone = batch.meets_piece[first : first + count]
        assert torch.equal(own - first, alone[alone >= 0])
        first += count


def test_repeated_puzzles_are_the_same_puzzles_again():
    batch = batch_of(3, 5)
    assert batch.scale_mm.shape == (2,)
    thrice = batch.repeated(3)
    assert thrice.pieces == (3, 5) * 3 and thrice.local is None
    assert torch.equal(thrice.points, torch.cat([batch.points] * 3))
    assert torch.equal(thrice.scale_mm, torch.cat([batch.scale_mm] * 3))
    assert torch.equal(thrice.across[8:16], torch.where(batch.across < 0, -1, batch.across + 8))


@pytest.mark.parametrize("sizes", [(4, 4), (3, 5)])
def test_turned_pieces_still_meet_where_they_met(sizes):
    batch = batch_of(*sizes)
    turned = batch.turned(torch.linspace(-3.0, 3.0, sum(sizes)))
    gaps = []
    for each in (batch, turned):
        scale = each.scale_mm[each.puzzle_of_piece][:, None, None]
        vectors = true_vectors(each)
        here = place(each.points / scale, vectors[:, None])
        there = place(each.meets_point / scale, vectors[each.across])
        gaps.append(((here - there) * scale).norm(dim=-1)[each.meets_piece >= 0])
    assert torch.allclose(gaps[0], gaps[1], atol=0.02)
    # At 384 px the paper's wear of a few pixels is a few millimetres.
    assert gaps[0].median() < 4.0
    normals = [torch.stack([e.edge_angle.sin(), -e.edge_angle.cos()], -1) for e in (batch, turned)]
    world = [
        place(n, torch.cat([0 * v[:, :2], v[:, 2:]], -1)[:, None])
        for n, v in zip(normals, (true_vectors(batch), true_vectors(turned)), strict=True)
    ]
    anchors = batch.anchor_piece[batch.puzzle_of_piece]
    # Each puzzle's frame turns with its anchor; within it nothing changes.
    first = world[0] @ _rotation(true_vectors(batch), batch, turned, anchors)
    assert torch.allclose(first, world[1], atol=1e-4)


def _rotation(vectors, batch, turned, anchors):
    """(P, 2, 2): from the frame of the anchor as it was to that of the turned anchor."""
    angle = (batch.pose - turned.pose)[anchors, 2]
    c, s = angle.cos(), angle.sin()
    return torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2)
