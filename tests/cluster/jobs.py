"""What workers are asked to do in tests: they import it by name."""

import os
import time
import warnings
from pathlib import Path

from reassembly.errors import InputError, InputWarning


def misbehave(how: str) -> str:
    if how == "die":
        os._exit(9)
    if how.startswith("die once:") and not (died := Path(how.partition(":")[2])).exists():
        died.touch()
        os._exit(9)
    if how == "hang":
        time.sleep(600)
    if how == "warn":
        warnings.warn("a doubt", InputWarning)
    if how == "refuse":
        raise InputError("it is torn", "Mend it", "bad.png")
    return how.upper()
