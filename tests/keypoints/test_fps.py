import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reassembly.keypoints.fps import (
    farthest_order_batch,
    farthest_points,
    farthest_points_batch,
)


def ring(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    angle = np.sort(rng.uniform(0, 2 * np.pi, count))
    return np.column_stack([np.cos(angle), np.sin(angle)]) * rng.uniform(5, 10, (count, 1))


def cover(points: np.ndarray, chosen: np.ndarray) -> float:
    """How far the worst-served point is from the nearest one chosen."""
    return np.linalg.norm(points[:, None] - points[chosen][None], axis=-1).min(axis=1).max()


def test_four_of_a_densely_sampled_square_are_its_corners():
    side = np.arange(10.0)
    square = np.concatenate(
        [
            np.column_stack([side, 0 * side]),
            np.column_stack([0 * side + 10, side]),
            np.column_stack([10 - side, 0 * side + 10]),
            np.column_stack([0 * side, 10 - side]),
        ]
    )
    assert farthest_points(square, 4).tolist() == [0, 10, 20, 30]
    assert farthest_points_batch(torch.tensor(square)[None], 4).tolist() == [[0, 10, 20, 30]]


@given(st.integers(5, 60), st.integers(0, 1000), st.data())
def test_chosen_points_are_distinct_sorted_and_spread(number, seed, data):
    points = ring(number, seed)
    count = data.draw(st.integers(1, number))
    start = data.draw(st.integers(0, number - 1))
    chosen = farthest_points(points, count, start)
    assert len(chosen) == count and (np.diff(chosen) > 0).all() and start in chosen
    if 1 < count < number:
        distance = np.linalg.norm(points[chosen][:, None] - points[chosen][None], axis=-1)
        closest = distance[~np.eye(count, dtype=bool)].min()
        assert closest >= cover(points, chosen) - 1e-9


def test_points_taken_already_stay_and_the_rest_fills_the_gaps():
    points = ring(80)
    taken = np.array([3, 4, 5])
    chosen = farthest_points(points, 20, taken)
    assert set(taken) <= set(chosen)
    assert cover(points, chosen) < cover(points, taken) / 2


def test_points_that_coincide_are_each_taken_once():
    points = np.zeros((6, 2))
    assert farthest_points(points, 6).tolist() == list(range(6))
    assert farthest_points_batch(torch.zeros(2, 6, 2), 6).tolist() == [list(range(6))] * 2


def test_points_too_near_to_one_taken_are_left():
    points = np.array([[0.0, 0.0], [0.4, 0.0], [5.0, 0.0], [5.3, 0.0], [9.0, 0.0]])
    assert farthest_points(points, 5, start=0, apart=1.0).tolist() in ([0, 2, 4], [0, 3, 4])


def test_batch_does_not_depend_on_where_the_contour_begins_or_on_other_pieces():
    pieces = [ring(50, seed) for seed in range(4)]
    together = farthest_points_batch(torch.tensor(np.stack(pieces)), 12)
    for points, chosen in zip(pieces, together, strict=True):
        rolled = np.roll(points, 17, axis=0)
        alone = farthest_points_batch(torch.tensor(rolled)[None], 12)[0]
        assert set(map(tuple, rolled[alone])) == set(map(tuple, points[chosen]))


def test_batch_agrees_with_the_single_piece():
    points = ring(100, 5)
    tip = int(np.linalg.norm(points - points.mean(axis=0), axis=1).argmax())
    batch = farthest_points_batch(torch.tensor(points)[None], 20)[0]
    assert batch.tolist() == farthest_points(points, 20, tip).tolist()


@pytest.mark.parametrize("count", [0, 11])
def test_an_impossible_count_is_refused(count):
    with pytest.raises(ValueError, match="of 10 points"):
        farthest_points(ring(10), count)
    with pytest.raises(ValueError, match="of 10 points"):
        farthest_points_batch(torch.tensor(ring(10))[None], count)


def test_fewer_points_are_the_first_of_more():
    points = torch.from_numpy(np.random.default_rng(4).normal(size=(5, 30, 2)))
    order = farthest_order_batch(points, 12)
    for count in (1, 5, 12):
        fewer = order[:, :count].sort(dim=1).values
        assert torch.equal(fewer, farthest_points_batch(points, count))
