"""What is imported for the scheduler, and what is not."""

import subprocess
import sys

LOADS = """
import sys
from reassembly.weights import load_reassemblenet, load_texture_encoder
load_reassemblenet("reassemblenet-learnable"), load_texture_encoder("texture")
assert "torch._dynamo" not in sys.modules, "it takes as long to import as a puzzle to solve"
import torch
assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)) == 2
"""


def test_torchs_compiler_is_left_out_until_somebody_wants_it():
    done = subprocess.run([sys.executable, "-c", LOADS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
