"""Names for arrays that go in and out of OpenCV, whose type hints do not tell what they hold."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bytes", "Floats", "Points"]

Bytes: TypeAlias = NDArray[Any]
"""Of uint8."""
Floats: TypeAlias = NDArray[Any]
"""Of float32."""
Points: TypeAlias = NDArray[np.float64]
"""(N, 2), x and y."""
