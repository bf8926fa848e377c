"""The public surface, pinned: a name that leaves it breaks somebody's script."""

import subprocess
import sys

import reassembly

PUBLIC = [
    "Assembly",
    "Fragment",
    "InputError",
    "InputWarning",
    "Join",
    "Pose",
    "Provenance",
    "Puzzle",
    "__version__",
    "available_solvers",
    "cut_out",
    "evaluate",
    "find_joins",
    "find_puzzles",
    "get_solver",
    "load",
    "solve",
]


def test_public_names():
    assert reassembly.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(reassembly, name) is not None


def test_importing_the_package_imports_nothing_heavy():
    """`reassembly --help` answers at once because of this."""
    heavy = "{'numpy', 'cv2', 'scipy', 'shapely', 'matplotlib', 'torch', 'PIL'}"
    code = f"import sys, reassembly.cli; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
