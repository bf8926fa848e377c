"""Solvers that learned: all that they know is in their weights."""

import numpy as np
import pytest
import torch

import reassembly as ra
from reassembly.metrics import score
from reassembly.solvers.registry import available_solvers
from reassembly.synthetic.make import make_puzzle, recipe
from reassembly.weights import load_weights, save_weights

LEARNED = {
    "diffassemble": "diffassemble",
    "pairingnet": "pairingnet",
    "puzzlefusion": "puzzlefusion",
    "reassemblenet": "reassemblenet-learnable",
}
FEW = {"diffassemble": {"steps": 6}, "puzzlefusion": {"steps": 6}}
AT_MOST = 0.04
"""By so much may a solver that knows nothing be luckier than the best trivial row."""


@pytest.fixture(scope="module")
def puzzles():
    """Clean cuts, of which every learned solver knows more than chance."""
    wanted = recipe("pairingnet", pieces=(5, 5), size_px=512)
    return [make_puzzle(wanted, seed=70, index=k).puzzle for k in range(12)]


def q_pos(puzzles, solver, **settings):
    answers = [ra.solve(p, solver, seed=k, **settings) for k, p in enumerate(puzzles)]
    found = [score(p, a, "strict")["q_pos"] for p, a in zip(puzzles, answers, strict=True)]
    return float(np.mean(found))


@pytest.fixture(scope="module")
def trivial(puzzles):
    rows = [i.name for i in available_solvers().values() if i.trivial and "tru" not in i.name]
    assert {"stack", "random", "ring"} <= set(rows)
    return max(q_pos(puzzles, name) for name in rows)


@pytest.mark.slow
@pytest.mark.parametrize("solver", LEARNED)
def test_with_zeroed_weights_a_solver_falls_to_the_trivial_rows(solver, puzzles, trivial, tmp_path):
    shipped = load_weights(LEARNED[solver], solver)
    zeroed = {name: torch.zeros_like(value) for name, value in shipped.tensors.items()}
    file = tmp_path / "zeroed.safetensors"
    save_weights(file, zeroed, shipped.kind, shipped.config)
    assert q_pos(puzzles, solver, weights=str(file), **FEW.get(solver, {})) <= trivial + AT_MOST


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "more"),
    [("pairingnet", 0.4), ("reassemblenet", 0.4), ("diffassemble", 0.1), ("puzzlefusion", 0.1)],
)
def test_what_was_learned_is_worth_more(solver, more, puzzles, trivial):
    assert q_pos(puzzles, solver, **FEW.get(solver, {})) > trivial + more
