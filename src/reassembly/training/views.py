"""What systems other than ReassembleNet look at: columns that a pool holds when asked to.

No torch here: worker processes compute these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reassembly.puzzle import Fragment
from reassembly.texture.patches import cut_patches

__all__ = ["PICTURE_MM_PER_PX", "PICTURE_PX", "VIEWS", "pictures"]

PICTURE_PX = 48
PICTURE_MM_PER_PX = 4.0
"""So that a square shows 192 mm: nearly every piece whole."""


def pictures(fragments: Sequence[Fragment]) -> dict[str, NDArray[Any]]:
    """`pictures`, (P, s, s, 4) uint8 RGBA, all on one scale, padded with nothing."""
    shown = [
        cut_patches(
            fragment,
            fragment.centroid_mm[None],
            size_px=PICTURE_PX,
            mm_per_px=PICTURE_MM_PER_PX,
        )
        for fragment in fragments
    ]
    return {"pictures": np.concatenate(shown)}


VIEWS: Mapping[str, Callable[[Sequence[Fragment]], dict[str, NDArray[Any]]]] = {
    "pictures": pictures,
}
"""By name, which is also the first column's: the columns, (P, ...) each, of a puzzle's pieces."""
