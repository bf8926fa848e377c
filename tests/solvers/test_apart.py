"""Baselines stand alone: one that leant on another's matcher or network would measure that."""

import ast
from pathlib import Path

import pytest

import reassembly

HOME = Path(reassembly.__file__).parent
SHELF = HOME / "weights/__init__.py"
BASELINES = ("derech", "diffassemble", "genetic", "greedy", "pairingnet", "puzzlefusion")
OWN = {
    "derech": ("matching/paint_fit.py", "matching/extrapolate.py"),
    "greedy": ("matching/contour_fit.py",),
    "pairingnet": ("solvers/pairing_poses.py",),
}
"""Matchers that belong to one of them."""
OTHERS = {
    "joins": "solvers/joins.py",
    "reassemblenet": "solvers/reassemblenet.py",
    "matcher of joins": "matching/matcher.py",
    "verifier of joins": "matching/verifier.py",
    "network of reassemblenet": "diffusion/reassemblenet.py",
    "denoiser of reassemblenet": "diffusion/denoiser.py",
}


def place(module):
    """The file of a module of ours, if it is one."""
    path = HOME.joinpath(*module.split(".")[1:])
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if module.split(".")[0] == "reassembly" and file.is_file():
            return file
    return None


def imported(nodes):
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (place(f"{node.module}.{n.name}") for n in node.names)
            yield place(node.module)
        elif isinstance(node, ast.Import):
            yield from (place(n.name) for n in node.names)


def imports(file):
    """Of a file, within functions too; but the shelf of all weights hands out only what is asked
    for."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return set(imported(tree.body if file == SHELF else ast.walk(tree))) - {None}


def needed(file):
    """What a solver imports, and what that imports."""
    found, new = set(), {file}
    while new:
        found |= new
        new = set().union(*map(imports, new)) - found
    return found


@pytest.mark.parametrize("solver", BASELINES)
def test_a_baseline_needs_no_other_solvers_matcher_or_network(solver):
    own = needed(HOME / f"solvers/{solver}.py")
    strange = {HOME / f"solvers/{name}.py" for name in BASELINES if name != solver}
    strange |= {HOME / path for path in OTHERS.values()}
    strange |= {HOME / path for name, paths in OWN.items() if name != solver for path in paths}
    assert all(path.is_file() for path in strange)
    assert {str(path) for path in own & strange} == set()


def test_what_is_looked_for_is_found():
    assert HOME / "matching/matcher.py" in needed(HOME / "solvers/joins.py")
