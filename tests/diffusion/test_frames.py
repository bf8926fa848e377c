import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from reassembly.diffusion.frames import place, to_frame, true_vectors
from reassembly.pose import Pose
from tests.diffusion.made import batch_of

NUMBER = st.floats(-500, 500)
ANGLE = st.floats(-math.pi, math.pi)


@given(NUMBER, NUMBER, ANGLE, NUMBER, NUMBER, ANGLE)
def test_vectors_are_poses_relative_to_the_anchor(x, y, a, u, v, b):
    pose, origin, scale = Pose(x, y, a), Pose(u, v, b), 250.0
    kind = torch.float64
    row = [torch.tensor([[p.x_mm, p.y_mm, p.rotation_rad]], dtype=kind) for p in (pose, origin)]
    vector = to_frame(*row, torch.tensor([scale], dtype=kind))
    points = torch.tensor([[10.0, 0.0], [0.0, 20.0], [-30.0, 5.0]], dtype=kind)
    ours = place(points / scale, vector) * scale
    wanted = (origin.inverse() @ pose).apply(points.numpy())
    assert torch.allclose(ours, torch.from_numpy(wanted), atol=1e-6)


def test_the_anchor_is_where_it_is():
    batch = batch_of(4, 5)
    anchors = true_vectors(batch)[batch.anchor]
    assert torch.allclose(anchors, torch.tensor([[0.0, 0.0, 1.0, 0.0]] * 2), atol=1e-6)
