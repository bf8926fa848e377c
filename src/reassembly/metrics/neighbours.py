"""Who touches whom: neighbouring fragments, and the middle of the edge they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry import Polygon

from reassembly.pose import Pose

__all__ = ["REACH_MM", "SHARED_MM", "Outlines", "shared_edges"]

REACH_MM = 10.0
"""How near an outline must come to the other piece to count as shared with it."""
SHARED_MM = 30.0
"""How much of either outline must be that near."""
ARC_SEGMENTS = 16
"""Chords a quarter circle in the zone around a piece: its rim is right to 0.02 mm."""


@dataclass(frozen=True)
class Outlines:
    """Polygons (mm, each in its fragment's own frame) and the zones around them, by fragment id."""

    polygons: Mapping[str, Polygon]
    _zones: dict[str, Polygon] = field(default_factory=dict)

    def zone(self, fragment_id: str) -> Polygon:
        """All points within `REACH_MM` of the piece."""
        if fragment_id not in self._zones:
            polygon = self.polygons[fragment_id]
            self._zones[fragment_id] = polygon.buffer(REACH_MM, quad_segs=ARC_SEGMENTS)
        return self._zones[fragment_id]


def shared_edges(
    outlines: Outlines, poses: Mapping[str, Pose]
) -> dict[tuple[str, str], NDArray[np.float64]]:
    """The pairs of fragments that are neighbours where `poses` puts them.

    Two pieces are neighbours where at least `SHARED_MM` of either outline, holes included, lie
    within `REACH_MM` of the other piece (inside it counts as within). Their shared edge is what
    of both outlines lies that near, and its middle is the mean of all its points.

    Returns:
        For each pair (lower id first) the middle, (2,), mm, in the frame of the poses.
    """
    ids = sorted(poses)
    if len(ids) < 2:
        return {}
    pieces = np.array([shapely.transform(outlines.polygons[i], poses[i].apply) for i in ids])
    near = shapely.STRtree(pieces).query(pieces, predicate="dwithin", distance=REACH_MM)
    first, second = near[:, near[0] < near[1]]
    rims = shapely.boundary(pieces)
    zones = np.array([shapely.transform(outlines.zone(i), poses[i].apply) for i in ids])
    shared = np.array(
        [
            shapely.intersection(rims[first], zones[second]),
            shapely.intersection(rims[second], zones[first]),
        ]
    )
    lengths = shapely.length(shared)
    some = ~shapely.is_empty(shared)
    centres = np.zeros((*shared.shape, 2))
    centres[some] = shapely.get_coordinates(shapely.centroid(shared[some]))
    enough = lengths.max(axis=0) >= SHARED_MM
    middles = (lengths[..., None] * centres).sum(axis=0)[enough] / lengths.sum(axis=0)[enough, None]
    return {
        (ids[a], ids[b]): middle
        for a, b, middle in zip(first[enough], second[enough], middles, strict=True)
    }
