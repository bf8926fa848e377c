"""The paper's tables: what is said to be published is what is printed."""

import re
from pathlib import Path

import pytest

from reassembly.reproduce.paper import PARTS, SCALABILITY
from reassembly.reproduce.recipes import RECIPES
from reassembly.solvers import available_solvers

PAPER = Path(__file__).resolve().parents[2].parent / "shared" / "paper" / "reassemblenet.tex"


@pytest.fixture(scope="module")
def printed():
    """Every line of the paper's source, plain numbers only, comments left out."""
    if not PAPER.is_file():
        pytest.skip("the paper's source is not here")
    lines = PAPER.read_text(encoding="utf-8").splitlines()
    return [
        [float(n) for n in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", line)]
        for line in lines
        if not line.lstrip().startswith("%")
    ]


def has(line, values):
    """Whether these numbers follow one another in a line."""
    k = len(values)
    return any(line[i : i + k] == values for i in range(len(line) - k + 1))


def test_published_figures_are_the_papers(printed):
    count = 0
    for part in PARTS.values():
        for row in part.rows:
            p = row.published
            if p is None or p.q_pos is None:
                continue
            wanted = [p.q_pos, p.rotation_deg, p.translation]
            if p.memory_mb is not None:
                wanted = [float(row.keypoints), p.memory_mb, *wanted]
            assert any(has(line, wanted) for line in printed), (part.name, row.label)
            count += 1
    assert count == 13 + 5 + 22 + 5 + 2
    for pieces, memory_gb in SCALABILITY.items():
        assert any(has(line, [float(pieces), memory_gb]) for line in printed)


def test_rows_name_solvers_and_recipes_that_exist():
    known = available_solvers()
    for part in PARTS.values():
        keys = [row.key for row in part.rows]
        assert len(keys) == len(set(keys)), part.name
        for row in part.rows:
            assert row.solver in known
            if row.recipe is not None:
                recipe = RECIPES[row.recipe.removeprefix("tuned-")]
                assert recipe.system == row.solver
                assert row.tuned == (row.recipe != recipe.name)


def test_every_recipe_serves_a_row():
    used = {row.recipe for part in PARTS.values() for row in part.rows if row.recipe}
    assert set(RECIPES) <= {name.removeprefix("tuned-") for name in used}
    assert set(RECIPES) <= used


def test_figures_are_printed_with_the_decimals_of_the_paper():
    rows = {row.key: row.published.text() for row in PARTS["semi-synthetic"].rows if row.published}
    assert rows["diffassemble"] == "0.309 / 122.92 / 73.79"
    assert rows["fps"] == "0.17 / 40.43 / 16.91"
    assert rows["puzzlefusion"] == "out of memory"
