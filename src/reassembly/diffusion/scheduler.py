"""diffusers' scheduler, without torch's compiler.

diffusers imports that compiler for a decorator that does nothing for us, and does without where it
is not to be had. To import it takes as long as to denoise nine pieces. So it is not to be had while
diffusers is imported; whoever wants it later gets it.
"""

from __future__ import annotations

import sys

__all__ = ["DDIMScheduler"]

COMPILER = "torch._dynamo"

_hidden = COMPILER not in sys.modules
if _hidden:
    sys.modules[COMPILER] = None  # type: ignore[assignment]
try:
    from diffusers import DDIMScheduler
finally:
    if _hidden:
        del sys.modules[COMPILER]
