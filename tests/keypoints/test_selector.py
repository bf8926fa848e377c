import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn import TransformerConv

from reassembly.keypoints.selector import (
    CompleteGraphConv,
    KeypointSelector,
    complexity_counts,
    selector_inputs,
    spaced_order,
    top_k,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def star(count, spikes, depth, seed=0):
    """Outline around the origin, mm, clockwise as seen, with so many spikes so deep."""
    angle = torch.arange(count) / count * math.tau
    phase = np.random.default_rng(seed).uniform(0, math.tau)
    radius = 30 * (1 + depth * torch.cos(spikes * angle + phase))
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1)


def candidates(pieces=3, count=100, seed=0):
    """Points, curvature and edge angle of lively outlines."""
    rng = np.random.default_rng(seed)
    points = torch.stack([star(count, int(rng.integers(2, 9)), 0.2, i) for i in range(pieces)])
    points = points + torch.from_numpy(rng.normal(scale=0.3, size=points.shape)).float()
    ahead = points.roll(-1, 1) - points.roll(1, 1)
    curvature = torch.from_numpy(rng.normal(scale=0.1, size=(pieces, count))).float()
    return points, curvature, torch.atan2(ahead[..., 1], ahead[..., 0])


def test_the_dense_convolution_is_pygs_on_the_complete_graph():
    torch.manual_seed(0)
    theirs = TransformerConv(32, 16, heads=4, concat=True)
    ours = CompleteGraphConv(32, 16, heads=4)
    ours.load_state_dict(theirs.state_dict())
    nodes = torch.randn(3, 20, 32, requires_grad=True)
    same = nodes.detach().clone().requires_grad_()
    each = torch.arange(20)
    edges = torch.cat([torch.cartesian_prod(each, each).T + 20 * piece for piece in range(3)], 1)

    expected = theirs(nodes.flatten(0, 1), edges).unflatten(0, (3, 20))
    found = ours(same)
    weights = torch.randn_like(expected)
    (expected * weights).sum().backward()
    (found * weights).sum().backward()

    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(same.grad, nodes.grad, atol=1e-5, rtol=1e-5)
    theirs_by_name = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(
            parameter.grad, theirs_by_name[name].grad, atol=1e-5, rtol=1e-5, msg=name
        )


def test_untrained_heads_look_around_each_candidate():
    torch.manual_seed(6)
    selector = KeypointSelector()
    inputs = selector_inputs(*candidates())
    conv = selector.convs[0]
    nodes = torch.relu(selector.projection(inputs))
    query, key = (
        layer(nodes).unflatten(-1, (8, -1)).transpose(1, 2)
        for layer in (conv.lin_query, conv.lin_key)
    )
    attention = (query @ key.mT / math.sqrt(32)).softmax(dim=-1)
    distance = torch.cdist(inputs[..., :2], inputs[..., :2])[:, None]
    reach = (attention * distance).sum(dim=-1).mean(dim=(0, 2))
    assert (reach[1:] > reach[:-1]).all()
    assert reach[0] < 0.1
    assert 0.3 < reach[-1] < 0.6


def test_where_the_contour_begins_does_not_matter():
    torch.manual_seed(3)
    selector = KeypointSelector().eval()
    points, curvature, angle = candidates(pieces=4)
    shift = 37
    _, plain = selector.embed(selector_inputs(points, curvature, angle))
    _, rolled = selector.embed(
        selector_inputs(points.roll(shift, 1), curvature.roll(shift, 1), angle.roll(shift, 1))
    )
    torch.testing.assert_close(rolled, plain.roll(shift, 1), atol=1e-5, rtol=1e-5)
    expected = ((top_k(plain, 20) + shift) % 100).sort(1).values
    torch.testing.assert_close(top_k(rolled, 20), expected)


def test_where_a_piece_lies_and_how_large_it_is_does_not_matter():
    points, curvature, angle = candidates()
    plain = selector_inputs(points, curvature, angle)
    other = selector_inputs(
        2.5 * points + torch.tensor([300.0, -70.0]), curvature / 2.5, angle + 2 * math.tau
    )
    torch.testing.assert_close(other, plain, atol=1e-4, rtol=1e-4)
    assert plain.abs().max() < 4
    assert plain[..., 2:].abs().max() <= 1


def test_inputs_are_measured_from_the_centroid_of_the_area():
    # Many points on one side draw their mean there, but not the centroid.
    square = torch.tensor([[0.0, 0], [1, 0], [2, 0], [3, 0], [4, 0], [4, 4], [0, 4]]) + 50
    inputs = selector_inputs(square[None], torch.full((1, 7), 2.5), torch.zeros(1, 7))
    expected = (square - 52) / 4
    torch.testing.assert_close(inputs[0, :, :2], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(inputs[0, :, 2], torch.full((7,), math.tanh(1.0)))


@pytest.mark.parametrize("where", [torch.zeros(1, 10, 2), torch.arange(20.0).view(1, 10, 2)])
def test_points_without_area_give_finite_inputs(where):
    inputs = selector_inputs(where, torch.zeros(1, 10), torch.zeros(1, 10))
    assert inputs.isfinite().all()


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=12).flatmap(
        lambda scores: st.tuples(st.just(scores), st.integers(1, len(scores)))
    )
)
def test_top_k_takes_the_highest_and_of_equal_ones_the_first(case):
    scores, k = case
    expected = sorted(sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:k])
    assert top_k(torch.tensor([scores]).float(), k)[0].tolist() == expected


@pytest.mark.parametrize("k", [0, 11])
def test_more_keypoints_than_candidates_are_refused(k):
    with pytest.raises(ValueError, match=f"{k} of 10"):
        top_k(torch.zeros(1, 10), k)


def test_plain_outlines_need_few_keypoints_and_jagged_ones_many():
    side = torch.linspace(0, 1, 26)[:-1]
    zero, one = torch.zeros(25), torch.ones(25)
    square = torch.cat(
        [
            torch.stack([side, zero], 1),
            torch.stack([one, side], 1),
            torch.stack([1 - side, one], 1),
            torch.stack([zero, 1 - side], 1),
        ]
    )
    outlines = [square, star(100, 1, 0.0), star(100, 6, 0.15), star(100, 18, 0.15)]
    counts = complexity_counts(torch.stack(outlines), 3, 60, 0.02).tolist()
    assert counts[0] == 4
    assert 6 <= counts[1] <= 12
    assert counts == sorted(counts)
    assert counts[3] >= 36


def test_counts_fall_with_tolerance_and_rise_with_jaggedness():
    points, *_ = candidates(pieces=6)
    tolerances = [0.0, 0.005, 0.01, 0.02, 0.05, 0.2, 1.0]
    counts = torch.stack([complexity_counts(points, 5, 90, t) for t in tolerances])
    assert (counts[1:] <= counts[:-1]).all()
    assert counts[0].tolist() == [90] * 6
    assert counts[-1].tolist() == [5] * 6

    depths = torch.stack([star(100, 12, depth) for depth in (0.0, 0.02, 0.05, 0.1, 0.2)])
    by_depth = complexity_counts(depths, 3, 100, 0.02)
    assert (by_depth[1:] >= by_depth[:-1]).all()
    assert by_depth[-1] > by_depth[0]


def length(polygon):
    return float(np.linalg.norm(np.roll(polygon, -1, axis=0) - polygon, axis=1).sum())


def test_counts_are_those_of_removing_the_cheapest_vertex_again_and_again():
    points, *_ = candidates(pieces=4, count=40, seed=5)
    expected = []
    for polygon in points.double().numpy():
        whole = length(polygon)
        while True:
            fewer = max((np.delete(polygon, i, axis=0) for i in range(len(polygon))), key=length)
            if length(fewer) < 0.96 * whole:
                break
            polygon = fewer
        expected.append(len(polygon))
    assert complexity_counts(points.double(), 3, 40, 0.04).tolist() == expected


def test_counts_forget_place_size_and_turn():
    points, *_ = candidates(pieces=5)
    counts = complexity_counts(points, 3, 100, 0.03)
    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    moved = (points * 4 + 1000) @ turn
    assert (complexity_counts(moved.double(), 3, 100, 0.03) - counts).abs().max() <= 1
    # One piece at a time, or many at once.
    single = torch.cat([complexity_counts(piece[None], 3, 100, 0.03) for piece in points])
    torch.testing.assert_close(single, counts)


@pytest.mark.parametrize(("low", "high"), [(2, 10), (10, 9), (10, 101)])
def test_impossible_counts_are_refused(low, high):
    with pytest.raises(ValueError, match="of 100 candidates"):
        complexity_counts(torch.rand(1, 100, 2), low, high)


def test_near_candidates_stand_back_and_good_ones_come_first():
    rng = np.random.default_rng(3)
    angle = np.sort(rng.uniform(0, 2 * np.pi, (4, 60)), axis=1)
    points = 50 * torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], -1))
    scores = torch.from_numpy(rng.normal(size=(4, 60)))
    plain = spaced_order(scores, points, 12, 0.0)
    assert torch.equal(plain.sort(1).values, top_k(scores, 12))
    spaced = spaced_order(scores, points, 12, 15.0)
    assert torch.equal(spaced[:, 0], scores.argmax(1))
    assert torch.equal(spaced[:, :5], spaced_order(scores, points, 5, 15.0))

    def nearest(order):
        chosen = points.take_along_dim(order[..., None], dim=1)
        return (torch.cdist(chosen, chosen) + 1e9 * torch.eye(12)).min(-1).values.mean()

    assert nearest(spaced) > 1.25 * nearest(plain)
    assert scores.gather(1, spaced).mean() > scores.mean() + 0.3
    # Where all are worth the same, only distance counts; where all coincide, each is taken once.
    assert nearest(spaced_order(torch.zeros(4, 60), points, 12, 1e6)) > nearest(spaced)
    heap = spaced_order(scores, torch.zeros_like(points), 60, 15.0)
    assert torch.equal(heap.sort(1).values, torch.arange(60).expand(4, -1))
