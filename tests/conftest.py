"""How property-based tests run: no time limits, and the same examples in every CI run."""

import os

from hypothesis import settings

settings.register_profile("reassembly", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("reassembly")
