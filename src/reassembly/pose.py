"""Pose: where a fragment lies. The one place that knows the conventions.

- Lengths are millimetres. x points right, y points **down**, as in an image.
- Angles are radians inside and degrees at the edges (files, screen, command line).
  A positive angle turns **counter-clockwise as seen**.
- A fragment's own frame has its origin at the **centre of its image frame** (the whole scan,
  before any cropping). A pose turns the fragment about that origin, then carries the origin
  to (x_mm, y_mm).
- Pixel coordinates are continuous: the pixel in column c and row r covers
  [c, c+1] x [r, r+1], so that the centre of a W x H image is (W/2, H/2).

RePAIR's convention (`from_repair`, `to_repair`): turn the W x H image counter-clockwise as seen
by `rot` degrees about its centre, keep its size, then put its top-left corner at pixel (x, y).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Pose",
    "from_repair",
    "rotation_matrix",
    "same_place",
    "to_repair",
    "wrap_deg",
    "wrap_rad",
]

SAME_MM, SAME_DEG = 12.0, 12.0
"""What differs by less in both is the same place to a person who judges it."""


def wrap_rad(angle: float) -> float:
    """The same angle (radians) in (-pi, pi]."""
    return _wrap(angle, math.tau)


def wrap_deg(angle: float) -> float:
    """The same angle (degrees) in (-180, 180]."""
    return _wrap(angle, 360.0)


def _wrap(angle: float, turn: float) -> float:
    wrapped = math.remainder(angle, turn)
    return turn / 2 if wrapped == -turn / 2 else wrapped


def rotation_matrix(angle: float) -> NDArray[np.float64]:
    """2x2 matrix that turns column vectors (x right, y down) by `angle` radians,
    counter-clockwise as seen."""
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, s], [-s, c]])


@dataclass(frozen=True, slots=True)
class Pose:
    """A rigid motion of the plane, from a fragment's own frame to its island's frame.

    >>> Pose(10.0, 0.0, math.pi / 2).apply([[1.0, 0.0]]).round(6).tolist()
    [[10.0, -1.0]]
    """

    x_mm: float
    y_mm: float
    rotation_rad: float = 0.0

    def __post_init__(self) -> None:
        for name in ("x_mm", "y_mm", "rotation_rad"):
            value = float(getattr(self, name))
            if not math.isfinite(value):
                raise ValueError(f"a pose must be finite, but {name} is {value}")
            object.__setattr__(self, name, value)

    @classmethod
    def from_degrees(cls, x_mm: float, y_mm: float, rotation_deg: float) -> Pose:
        return cls(x_mm, y_mm, math.radians(rotation_deg))

    @property
    def rotation_deg(self) -> float:
        """The rotation in degrees, in (-180, 180]."""
        return wrap_deg(math.degrees(self.rotation_rad))

    @property
    def translation(self) -> NDArray[np.float64]:
        """(2,) array, mm."""
        return np.array([self.x_mm, self.y_mm])

    def apply(self, points: ArrayLike) -> NDArray[np.float64]:
        """Carries (N, 2) points in mm along. Returns (N, 2)."""
        points = np.asarray(points, dtype=np.float64)
        return points @ rotation_matrix(self.rotation_rad).T + self.translation

    def __matmul__(self, inner: Pose) -> Pose:
        """The motion that does `inner` first, then `self`."""
        x, y = self.apply([[inner.x_mm, inner.y_mm]])[0]
        return Pose(x, y, wrap_rad(self.rotation_rad + inner.rotation_rad))

    def inverse(self) -> Pose:
        x, y = -rotation_matrix(-self.rotation_rad) @ self.translation
        return Pose(x, y, wrap_rad(-self.rotation_rad))


def from_repair(
    x: float, y: float, rot: float, frame_px: tuple[int, int], mm_per_px: float
) -> Pose:
    """Pose of a W x H image (`frame_px`) turned by `rot` degrees about its centre, with its
    top-left corner put at pixel (x, y)."""
    width, height = frame_px
    return Pose.from_degrees((x + width / 2) * mm_per_px, (y + height / 2) * mm_per_px, rot)


def to_repair(
    pose: Pose, frame_px: tuple[int, int], mm_per_px: float
) -> tuple[float, float, float]:
    """(x, y, rot) in RePAIR's convention: pixels, pixels, degrees. Undoes `from_repair`."""
    width, height = frame_px
    return pose.x_mm / mm_per_px - width / 2, pose.y_mm / mm_per_px - height / 2, pose.rotation_deg


def same_place(
    one: Pose, other: Pose, centroid_mm: ArrayLike, mm: float = SAME_MM, deg: float = SAME_DEG
) -> bool:
    """Whether a piece lies nearly alike by both, so that a person would call it the same join.

    Args:
        centroid_mm: (2,), in the piece's own frame, whose origin may lie far from the piece.
        mm: the piece's centroid must lie nearer than this by both.
        deg: and the piece must be turned by less than this from one to the other.
    """
    first, second = (pose.apply(np.atleast_2d(centroid_mm))[0] for pose in (one, other))
    turn = abs(wrap_deg(one.rotation_deg - other.rotation_deg))
    return bool(np.hypot(*(first - second)) < mm and turn < deg)
