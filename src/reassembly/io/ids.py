"""Lists of puzzle ids, as people keep them for splits and folds."""

from __future__ import annotations

import json
from pathlib import Path

from reassembly.errors import InputError

__all__ = ["read_ids"]


def read_ids(where: str) -> list[str]:
    """Puzzle ids from a file.

    Args:
        where: a path to a text file with one id a line, to a JSON list of ids, or to a JSON
            object with `folds`, a list of such lists, followed by `#` and the numbers of the
            folds that are meant, from 1: `folds.json#1,2`.
    """
    name, _, numbers = where.partition("#")
    path = Path(name)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("this list of puzzles cannot be read", "Check the path", path) from error
    if path.suffix.lower() != ".json":
        return [line.strip() for line in text.splitlines() if line.strip()]
    try:
        content = json.loads(text)
        if not numbers:
            ids = content
        else:
            ids = [i for number in numbers.split(",") for i in _fold(content["folds"], number)]
        if not (isinstance(ids, list) and ids and all(isinstance(i, str) for i in ids)):
            raise TypeError
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise InputError(
            f"this holds no list of puzzles{f' under the folds {numbers}' if numbers else ''}",
            'Give a JSON list of ids, or {"folds": [[...], ...]} and name folds: folds.json#1,2',
            path,
        ) from error
    return ids


def _fold(folds: list[list[str]], number: str) -> list[str]:
    k = int(number)
    if k < 1:
        raise IndexError
    return folds[k - 1]
