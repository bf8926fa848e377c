"""How good an assembly is: one figure a question, by a protocol that says how it was taken.

`strict` is the default and the only one for headlines; `paper` and `repair-script` exist to stand
beside figures in print. See docs/metrics.md for what each figure means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from reassembly.errors import InputError
from reassembly.metrics import paper, repair_script, strict
from reassembly.metrics.strict import fragment_errors
from reassembly.metrics.summary import summarise
from reassembly.puzzle import Assembly, Puzzle

__all__ = ["PROTOCOLS", "evaluate", "fragment_errors", "score", "summarise"]

Scorer = Callable[[Puzzle, Assembly | None], dict[str, float | None]]

PROTOCOLS: dict[str, tuple[Scorer, str]] = {
    "strict": (strict.score_strict, strict.UNITS),
    "paper": (paper.score_paper, paper.UNITS),
    "repair-script": (repair_script.score_repair_script, repair_script.UNITS),
}
"""How each protocol measures one puzzle, and a line on its figures."""


def score(
    puzzle: Puzzle, prediction: Assembly | None, protocol: str = "strict"
) -> dict[str, float | None]:
    """Measures one prediction.

    Args:
        puzzle: with its true poses, and strays where it has any.
        prediction: has every fragment of the puzzle in an island or as unplaced. None stands
            for a puzzle that was not predicted: everything is unplaced.
        protocol: a name from `PROTOCOLS`.

    Returns:
        Figures by name. One that does not exist for this puzzle is None: never NaN, never 0.
    """
    scorer, _ = _protocol(protocol)
    return scorer(puzzle, prediction)


def evaluate(
    prediction: Assembly | str | PathLike[str],
    truth: Puzzle | Sequence[Puzzle] | str | PathLike[str],
    protocol: str = "strict",
) -> dict[str, Any]:
    """Measures predictions from memory or from disk.

    Args:
        prediction: an assembly; a `poses.csv`, an `assembly.json` or a RePAIR `.txt`; or a folder
            with `<puzzle>.csv`, `<puzzle>.json`, `<puzzle>.txt` or a folder `<puzzle>` that holds
            an `assembly.json` or a `poses.csv`. A puzzle that the folder does not have counts as
            unplaced, with a warning. A single file is matched to one of several puzzles by its
            name or, failing that, by the names of its fragments.
        truth: a puzzle with true poses, several, or a path that holds some.
        protocol: a name from `PROTOCOLS`.

    Returns:
        `protocol`, `puzzles` (a row each: `id` and the figures), `mean` (see `summarise`) and
        `units`, a line on what the figures are; ready for JSON.
    """
    from reassembly.metrics.predictions import paired

    scorer, units = _protocol(protocol)
    rows = [
        {"id": puzzle.id, **scorer(puzzle, assembly)}
        for puzzle, assembly in paired(prediction, truth)
    ]
    return {"protocol": protocol, "units": units, "puzzles": rows, "mean": summarise(rows)}


def _protocol(name: str) -> tuple[Scorer, str]:
    if name not in PROTOCOLS:
        choices = ", ".join(PROTOCOLS)
        raise InputError(f"there is no protocol {name!r}", f"Choose one of {choices}")
    return PROTOCOLS[name]
