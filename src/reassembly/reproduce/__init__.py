"""The paper's evaluation, rebuilt: its tables and figures with ours beside the published ones."""

from reassembly.reproduce.paper import PARTS
from reassembly.reproduce.run import reproduce

__all__ = ["PARTS", "reproduce"]
