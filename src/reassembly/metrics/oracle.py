"""Assemblies that use the truth: the rows of a table that no solver can give."""

from __future__ import annotations

import math

import numpy as np

from reassembly.metrics.reference import reference_of
from reassembly.pose import Pose, rotation_matrix
from reassembly.puzzle import Assembly, Provenance, Puzzle

__all__ = ["true_centroids_assembly", "truth_assembly"]


def truth_assembly(puzzle: Puzzle) -> Assembly:
    """Every piece where it belongs, every stray unplaced."""
    reference = reference_of(puzzle)
    poses = dict(zip(reference.ids, reference.truth, strict=True))
    return Assembly.of(puzzle, poses, provenance=Provenance("truth"))


def true_centroids_assembly(puzzle: Puzzle, seed: int = 0) -> Assembly:
    """Every piece's centroid where it belongs and the anchor as it belongs, but the rotation of
    every other piece at random; every stray unplaced. Shows how little q_pos sees of rotation."""
    reference = reference_of(puzzle)
    rng = np.random.default_rng([seed, 0xCE27])
    poses = {}
    for k, (i, true) in enumerate(zip(reference.ids, reference.truth, strict=True)):
        turn = rng.uniform(-math.pi, math.pi)
        own = reference.centroids[k]
        x, y = true.apply(own[None])[0] - rotation_matrix(turn) @ own
        poses[i] = true if k == reference.anchor else Pose(x, y, turn)
    return Assembly.of(puzzle, poses, provenance=Provenance("true-centroids", seed=seed))
