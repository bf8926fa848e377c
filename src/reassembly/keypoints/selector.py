"""The learnable selector: which of a piece's candidate keypoints are worth keeping.

The candidates of a piece are the nodes of a complete graph. Their coordinates and geometry are
projected, refined by two graph-transformer convolutions (Shi et al. 2020) and scored against a
learnable vector p. The k best are kept (Gao and Ji 2019); `ReassembleNet.choose` gates their
features by their scores.

P pieces of N candidates each are processed at once; coordinates are x right, y down, in the order
of the contour, whose shoelace area is positive.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

__all__ = [
    "CompleteGraphConv",
    "KeypointSelector",
    "area_and_perimeter",
    "complexity_counts",
    "selector_inputs",
    "spaced_order",
    "top_k",
]

CURVATURE_SCALE = 10.0
"""Curvature times the square root of the area at which the squashed curvature is tanh(1). A disc
has 1.8, the corners of a worn fragment about ten times as much."""
RAMP_DIRECTIONS, RAMP_OFFSETS = 6, (0.0, 0.2, 0.45, 0.75)
"""Of the untrained projection; offsets in square roots of the piece's area, as its inputs."""
WINDOWS = (0.08, 0.5)
"""Width of the narrowest and the widest head of the untrained first convolution, in square roots
of the piece's area: 100 candidates lie about 0.04 apart."""
LEAST_WORTH = 0.02
"""Of a candidate's score, against nearly 1 for the best, so that also the worst can be chosen."""
FLATTEST = 1e-4
"""Least area, in squares of the perimeter, by which a piece is measured (a disc has 0.08), so
that candidates on one line give finite numbers."""


def area_and_perimeter(points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Signed area and perimeter of closed polygons.

    Args:
        points: (..., N, 2), any unit, not closed.

    Returns:
        (...) shoelace areas, positive for polygons that run clockwise as seen, and (...)
        perimeters.
    """
    # Far from the origin, the shoelace sum would lose digits.
    points = points - points.mean(dim=-2, keepdim=True)
    after = points.roll(-1, dims=-2)
    cross = points[..., 0] * after[..., 1] - points[..., 1] * after[..., 0]
    return cross.sum(dim=-1) / 2, (after - points).norm(dim=-1).sum(dim=-1)


def selector_inputs(
    points: torch.Tensor, curvature: torch.Tensor, edge_angle: torch.Tensor
) -> torch.Tensor:
    """What the selector sees: the same for a piece of any size, wherever it lies.

    Args:
        points: (P, N, 2), mm, in the order of the contour.
        curvature: (P, N), 1/mm, positive where the outline is convex.
        edge_angle: (P, N), radians, of the tangent along the contour.

    Returns:
        (P, N, 4): x and y from the piece's centroid over the square root of its area, the
        curvature times that root, squashed to (-1, 1), and the edge angle over pi in (-1, 1].
    """
    area, perimeter = area_and_perimeter(points)
    area = torch.maximum(area, FLATTEST * perimeter.square()).clamp_min(
        torch.finfo(points.dtype).tiny
    )
    points = points - points.mean(dim=1, keepdim=True)
    after = points.roll(-1, dims=1)
    cross = points[..., 0] * after[..., 1] - points[..., 1] * after[..., 0]
    centroid = ((points + after) * cross[..., None]).sum(dim=1) / (6 * area[:, None])
    root = area.sqrt()[:, None]
    turns = edge_angle / math.pi
    return torch.cat(
        [
            (points - centroid[:, None]) / root[..., None],
            torch.tanh(curvature * root / CURVATURE_SCALE)[..., None],
            (turns - 2 * torch.ceil((turns - 1) / 2))[..., None],
        ],
        dim=-1,
    )


class CompleteGraphConv(nn.Module):
    """`torch_geometric.nn.TransformerConv` on complete graphs with self-loops, computed densely.

    The parameters bear that layer's names, so that its state dict can be loaded. Edge by edge, a
    piece of 100 candidates would need 10 000 messages of 256 numbers.
    """

    def __init__(self, in_channels: int, out_channels: int, heads: int) -> None:
        """`out_channels` are those of one head; the heads are concatenated."""
        super().__init__()
        self.heads = heads
        self.lin_key = nn.Linear(in_channels, heads * out_channels)
        self.lin_query = nn.Linear(in_channels, heads * out_channels)
        self.lin_value = nn.Linear(in_channels, heads * out_channels)
        self.lin_skip = nn.Linear(in_channels, heads * out_channels)

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        """(P, N, in_channels) to (P, N, heads * out_channels)."""
        query, key, value = (
            layer(nodes).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.lin_query, self.lin_key, self.lin_value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value)
        skipped: torch.Tensor = self.lin_skip(nodes)
        return mixed.transpose(1, 2).flatten(2) + skipped


class KeypointSelector(nn.Module):
    """Scores every candidate of a piece.

    Args:
        channels: width of the projection.
        hidden: width of the convolutions, over all heads.
        heads: of each convolution; must divide `hidden`.
        layers: number of convolutions.

    >>> features, scores = KeypointSelector().embed(torch.zeros(3, 100, 4))
    >>> tuple(features.shape), tuple(scores.shape)
    ((3, 100, 256), (3, 100))
    """

    def __init__(
        self, channels: int = 32, hidden: int = 256, heads: int = 8, layers: int = 2
    ) -> None:
        super().__init__()
        if hidden % heads:
            raise ValueError(f"{hidden} channels cannot be shared out among {heads} heads")
        self.projection = nn.Linear(4, channels)
        widths = [channels] + [hidden] * layers
        self.convs = nn.ModuleList(
            CompleteGraphConv(width, hidden // heads, heads) for width in widths[:-1]
        )
        self.p = nn.Parameter(torch.empty(widths[-1]))
        bound = 1 / math.sqrt(widths[-1])
        nn.init.uniform_(self.p, -bound, bound)
        _look_around(self.projection, self.convs[0])

    def embed(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Features D (P, N, hidden) and scores y = D p / ||p|| (P, N) of candidates (P, N, 4), see
        `selector_inputs`."""
        nodes: torch.Tensor = self.projection(inputs)
        for conv in self.convs:
            nodes = conv(F.relu(nodes))
        return nodes, nodes @ self.p / self.p.norm().clamp_min(1e-6)


def _look_around(projection: nn.Linear, conv: nn.Module) -> None:
    """Starts the heads of the first convolution as windows around each candidate, from a few
    neighbours to half the piece.

    A candidate's worth depends on the candidates around it, and gradients alone are slow to find
    out who is near. With q.k = (x_i.x_j - |x_j|^2 / 2) / width^2, the softmax over j is a
    Gaussian of the distance. The projection therefore starts with ramps relu(u.x - offset) in six
    directions u: those without offset add up to x, all together to |x|^2. Selectors too narrow
    for that keep their random start; one without numbers, of torch's device `meta`, has none.
    """
    assert isinstance(conv, CompleteGraphConv)
    ramps = len(RAMP_OFFSETS) * RAMP_DIRECTIONS
    size = conv.lin_key.out_features // conv.heads
    if projection.out_features < ramps + 2 or size < 3 or projection.weight.is_meta:
        return
    angle = torch.arange(RAMP_DIRECTIONS) * (math.tau / RAMP_DIRECTIONS)
    direction = torch.stack([angle.cos(), angle.sin()], dim=1)
    offset = torch.tensor(RAMP_OFFSETS)
    # Trapezoids under the second derivative of t^2 / 2, the last one open.
    step = torch.diff(offset, append=offset[-1:] + (offset[-1] - offset[-2]))
    share = (step + torch.cat([step.new_zeros(1), step[:-1]])) / 2
    place = torch.zeros(2, projection.out_features)
    place[:, : ramps : len(offset)] = direction.T / (RAMP_DIRECTIONS / 4)
    square = torch.zeros(projection.out_features)
    square[:ramps] = share.repeat(RAMP_DIRECTIONS) / (RAMP_DIRECTIONS / 8)
    with torch.no_grad():
        projection.weight[:ramps] = 0
        projection.weight[:ramps, :2] = direction.repeat_interleave(len(offset), dim=0)
        projection.bias[:ramps] = -offset.repeat(RAMP_DIRECTIONS)
        for layer in (conv.lin_query, conv.lin_key):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        for head in range(conv.heads):
            narrow, wide = WINDOWS
            width = narrow * (wide / narrow) ** (head / max(1, conv.heads - 1))
            scale = size**0.25 / width
            row = head * size
            conv.lin_query.weight[row : row + 2] = scale * place
            conv.lin_key.weight[row : row + 2] = scale * place
            conv.lin_query.bias[row + 2] = scale
            conv.lin_key.weight[row + 2] = -scale * square / 2


def top_k(scores: torch.Tensor, k: int) -> torch.Tensor:
    """(P, k) indices of the `k` highest of (P, N) scores, ascending; of equal ones, the first."""
    if not 1 <= k <= scores.shape[1]:
        raise ValueError(f"cannot choose {k} of {scores.shape[1]} candidates")
    best = torch.sort(scores, dim=1, descending=True, stable=True).indices[:, :k]
    return best.sort(dim=1).values


def spaced_order(
    scores: torch.Tensor, points: torch.Tensor, k: int, spacing: float
) -> torch.Tensor:
    """The `k` best candidates of each piece, best first, of which the near ones stand back.

    A score is worth (1 + tanh) / 2. Of the candidates, the one is taken again and again whose worth
    times distance to the nearest one taken is largest; beyond `spacing`, distance is worth no more.

    Args:
        scores: (P, N).
        points: (P, N, 2).
        k: from 1 to N.
        spacing: in the unit of the points; 0 for the k highest scores, wherever they lie.

    Returns:
        (P, k) indices; the first n of a row are what would be taken if n were asked for.
    """
    if not 1 <= k <= scores.shape[1]:
        raise ValueError(f"cannot choose {k} of {scores.shape[1]} candidates")
    scores, points = scores.detach(), points.detach()
    if spacing == 0:
        return torch.sort(scores, dim=1, descending=True, stable=True).indices[:, :k]
    rows = torch.arange(len(points), device=points.device)
    worth = ((1 + torch.tanh(scores.float())) / 2).clamp_min(LEAST_WORTH)
    nearest = torch.full_like(worth, spacing)
    taken: list[torch.Tensor] = []
    for _ in range(k):
        value = worth * nearest
        if taken:
            value = value.scatter(1, torch.stack(taken, dim=1), -1.0)
        taken.append(value.argmax(dim=1))
        distance = (points - points[rows, taken[-1]][:, None]).norm(dim=-1)
        nearest = torch.minimum(nearest, distance)
    return torch.stack(taken, dim=1)


def complexity_counts(
    points: torch.Tensor, low: int = 10, high: int = 40, tolerance: float = 0.02
) -> torch.Tensor:
    """How many keypoints each piece needs: few for a plain outline, many for a jagged one.

    Vertices are taken away one by one, always the one that costs the least perimeter; as many are
    needed as are left when more than `tolerance` of the perimeter would be lost. The answer does
    not depend on the piece's size and place; it falls or stays as `tolerance` rises.

    Args:
        points: (P, N, 2), in the order of the contour.
        low: fewest keypoints, at least 3.
        high: most keypoints, from `low` to N.
        tolerance: share of the perimeter that may be lost, from 0 to 1.

    Returns:
        (P,), long, from `low` to `high`.
    """
    pieces, candidates, _ = points.shape
    if not 3 <= low <= high <= candidates:
        raise ValueError(f"cannot choose {low} to {high} of {candidates} candidates")
    _, perimeter = area_and_perimeter(points)
    rows = torch.arange(pieces, device=points.device)
    order = torch.arange(candidates, device=points.device).repeat(pieces, 1)
    before, after = order.roll(1, dims=1), order.roll(-1, dims=1)
    here, ahead = points, points.roll(-1, dims=1)
    length = (ahead - here).norm(dim=-1)
    cost = length + length.roll(1, dims=1) - (ahead - points.roll(1, dims=1)).norm(dim=-1)
    lost = torch.zeros_like(perimeter)
    needed = torch.full_like(rows, candidates)
    for left in range(candidates - 1, low - 1, -1):
        gone = cost.argmin(dim=1)
        lost = lost + cost[rows, gone]
        needed = torch.where(lost <= tolerance * perimeter, left, needed)
        previous, following = before[rows, gone], after[rows, gone]
        after[rows, previous], before[rows, following] = following, previous
        cost[rows, gone] = math.inf
        for changed in (previous, following):
            a, b, c = (
                points[rows, i] for i in (before[rows, changed], changed, after[rows, changed])
            )
            cost[rows, changed] = (
                (b - a).norm(dim=-1) + (c - b).norm(dim=-1) - (c - a).norm(dim=-1)
            ).clamp_min(0)
    return needed.clamp(low, high)
