"""What the index knows of a fragment: codes of its outline's segments, and where they lie.

A code sums up shape and paint of the outline around a point, whichever way the fragment lay in its
picture, as PairingNet's network sees them. A piece has two of each: of what is there, and of what
should lie across the break. A break has two sides, so that what one piece lacks is near to what
its neighbour has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from reassembly.puzzle import Fragment

if TYPE_CHECKING:
    from reassembly.matching.matcher import Matcher

__all__ = [
    "SEGMENTS",
    "WIDTH",
    "Coded",
    "Wear",
    "as_floats",
    "code_fragments",
    "coder_digest",
]

SEGMENTS = 96
"""Along each outline, at even distances: every other point of those the network looks at."""
WIDTH = 64
"""Numbers in a code."""
STEPS = 254
"""Steps of a stored number in a unit: codes are of length one, and hardly a number exceeds 0.5."""

Wear = Literal["worn", "light"]
"""How worn pieces are: a network has learned from each kind, and is poor at the other."""
Bytes = NDArray[np.int8]
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Coded:
    """A fragment as the index holds it."""

    id: str
    filename: str
    mm_per_px: float
    area_mm2: float
    outline: bytes
    """Its polygon, mm, in the fragment's own frame, as well-known binary."""
    frames: Floats
    """(SEGMENTS, 3): x and y of the segments' middles, mm, in the fragment's own frame, and the
    direction of the outline there, radians, as atan2(dy, dx)."""
    has: Bytes
    """(SEGMENTS, WIDTH): codes of what is there, in steps."""
    lacks: Bytes
    """(SEGMENTS, WIDTH): codes of what should lie across."""
    piece_has: Bytes
    """(WIDTH,): of the whole piece."""
    piece_lacks: Bytes
    """(WIDTH,)."""


def code_fragments(fragments: Sequence[Fragment], wear: Wear) -> list[Coded]:
    """Codes fragments by the package's network for such wear, each for itself."""
    import shapely
    import torch

    from reassembly.training.views import contour

    if not fragments:
        return []
    matcher = _coder(wear)
    view = contour(fragments)
    with torch.no_grad():
        codes = matcher.network.codes(
            *(torch.from_numpy(view[name]) for name in ("contour", "contour_paint"))
        )
    every = view["contour"].shape[1] // SEGMENTS
    has, lacks = (_as_bytes(x.numpy()[:, ::every]) for x in (codes.has, codes.lacks))
    piece_has, piece_lacks = (_as_bytes(x.numpy()) for x in (codes.piece_has, codes.piece_lacks))
    coded = []
    for k, fragment in enumerate(fragments):
        points = view["contour"][k].astype(np.float64) + fragment.centroid_mm
        chord = np.roll(points, -1, axis=0) - np.roll(points, 1, axis=0)
        angle = np.arctan2(chord[:, 1], chord[:, 0])
        coded.append(
            Coded(
                id=fragment.id,
                filename=str(fragment.metadata.get("filename", "")),
                mm_per_px=fragment.mm_per_px,
                area_mm2=fragment.area_mm2,
                outline=shapely.to_wkb(fragment.polygon),
                frames=np.column_stack([points, angle])[::every].astype(np.float32),
                has=has[k],
                lacks=lacks[k],
                piece_has=piece_has[k],
                piece_lacks=piece_lacks[k],
            )
        )
    return coded


def as_floats(codes: Bytes) -> Floats:
    """Codes as numbers: of length one, but for rounding."""
    return codes.astype(np.float32) / np.float32(STEPS)


def coder_digest(wear: Wear) -> str:
    """Names the network: codes of different ones cannot be compared."""
    return _coder(wear).digest


def _as_bytes(codes: Floats) -> Bytes:
    return np.clip(np.rint(codes * STEPS), -127, 127).astype(np.int8)


@cache
def _coder(wear: Wear) -> Matcher:
    from reassembly.matching.matcher import LIGHT, WORN, load_matcher

    return load_matcher({"worn": WORN, "light": LIGHT}[wear])
