"""What is left behind for people: the index, the recipes, and what was measured."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reassembly._version import __version__
from reassembly.bench.runner import ORACLES
from reassembly.io.files import atomic_write
from reassembly.reproduce.data import TEST_SEED
from reassembly.reproduce.paper import PARTS
from reassembly.reproduce.recipes import RECIPES, find_weights, recipe_named
from reassembly.reproduce.session import FULL, QUICK, Data, Session
from reassembly.solvers.registry import available_solvers

__all__ = ["TRIVIAL", "cheap_rows", "read_state", "recipes_page", "remember", "write_index"]

TRIVIAL = "trivial"
"""The group of rows that stand in every table."""


def cheap_rows() -> list[str]:
    """Names of the rows that `bench` adds to every table."""
    return [*ORACLES, *(info.name for info in available_solvers().values() if info.trivial)]


def remember(session: Session, data: Data, rows: Mapping[str, str]) -> None:
    """Notes what was measured, for pages that are made later."""
    file = session.out / "state.json"
    state = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    before = state.get(data.name, {})
    state[data.name] = {
        "folder": os.path.relpath(data.folder, session.out)
        if data.folder.is_relative_to(session.out)
        else str(data.folder.resolve()),
        "ids": data.ids,
        "note": data.note,
        "pictures": data.pictures,
        "seeds": session.seeds,
        "rows": {**before.get("rows", {}), **{key: key for key in cheap_rows()}, **rows},
    }
    atomic_write(file, json.dumps(state, indent=1) + "\n")


def read_state(session: Session) -> dict[str, Any]:
    """What was measured, by data set."""
    file = session.out / "state.json"
    if not file.is_file():
        return {}
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    for entry in found.values():
        entry["folder"] = str(session.out / entry["folder"])
    return found


def recipes_page(session: Session) -> str:
    """Every training run with its commands."""
    repair = session.repair
    shown = replace(
        session.trainer,
        out=Path("OUT"),
        repair=Path("REPAIR"),
        folds=Path("REPAIR/folds.json") if session.trainer.folds else None,
    )
    lines = [
        "# Training runs behind the rows",
        "",
        f"Each of {session.trainer.minutes:g} minutes, preparation not counted. `reassembly "
        "reproduce --train` makes those that are missing; made elsewhere, their weights are given "
        "by `--weights FOLDER`, as `FOLDER/NAME.safetensors` (and `FOLDER/NAME.json` with "
        '`{"minutes": 3.1, "device": "one NVIDIA H200"}`) or as the folder of the run, '
        "`FOLDER/NAME`.",
        "",
    ]
    folds: list[int | None] = [None]
    if repair is not None and repair.folds is not None:
        folds = list(range(1, session.trainer.fold_count + 1))
    for name, plain in RECIPES.items():
        recipes = [plain, *(recipe_named(f"tuned-{name}", fold) for fold in folds)]
        for recipe in recipes:
            found = find_weights(recipe, session.weights)
            state = "missing" if found is None else f"here, {found.length}"
            same = f"; the same as `{recipe.same_as}`" if recipe.same_as else ""
            lines += [f"## {recipe.name}", "", f"Weights: {state}{same}.", "", "```sh"]
            lines += [f"reassembly {shlex.join(c)}" for c in shown.commands(recipe)]
            lines += ["```", ""]
    return "\n".join(lines)


def write_index(session: Session, drawn: Sequence[str], quick: bool) -> Path:
    """The page that leads to all others: what was run, on what, and where it is."""
    lines = ["# The paper's evaluation, rebuilt", ""]
    if quick:
        lines += [
            "**A quick run**: few and small puzzles. It shows that everything works, not what "
            "anything is worth.",
            "",
        ]
    lines += [
        "Published figures stand in a column of their own and are no targets: [audit.md](audit.md) "
        "shows what they measure. Rows without figures say what is missing. Training runs and "
        "their commands: [recipes.md](recipes.md).",
        "",
        "| table | in the paper | rows with figures |",
        "| --- | --- | ---: |",
    ]
    for file in sorted(session.results.glob("*.json"), key=_order):
        table = json.loads(file.read_text(encoding="utf-8"))
        if "rows" not in table or "source" not in table:
            continue
        rows = [row for row in table["rows"] if row.get("group") != TRIVIAL]
        have = sum(not row.get("skipped") for row in rows)
        name = file.stem
        lines.append(
            f"| [{table['title']}]({name}.md) ([CSV]({name}.csv), [LaTeX]({name}.tex), "
            f"[JSON]({name}.json)) | {table['source'] or '–'} | {have} of {len(rows)} |"
        )
    lines += ["", *(f"![{Path(name).stem}]({name})\n" for name in drawn)]
    lines += ["## How", "", "```sh", _command(session, quick), "```", ""]
    lines += [f"- {text}" for text in _machine(session)]
    atomic_write(session.results / "index.md", "\n".join([*lines, ""]))
    return session.results / "index.md"


def _order(file: Path) -> tuple[int, str]:
    names = list(PARTS)
    found = [k for k, name in enumerate(names) if file.stem.startswith(name)]
    return (found[0] if found else len(names), file.stem)


def _command(session: Session, quick: bool) -> str:
    """The command, without this machine's paths."""
    words = ["reassembly reproduce --out OUT"]
    words += ["--data REPAIR"] if session.repair else []
    words += ["--quick"] if quick else []
    words += ["--weights WEIGHTS"] if len(session.weights) > 1 else []
    words += [f"--dataset {name}" for name in session.own]
    words += [f"--solver {name}" for name in sorted(session.solvers)]
    words += ["" if quick else f"--puzzles {session.extent.puzzles}"]
    if session.extent.sizes != (QUICK if quick else FULL).sizes:
        words += [f"--most-pieces {session.extent.sizes[-1]}"]
    words += [f"--seeds {session.seeds}", f"--workers {session.workers}"]
    words += [f"--device {session.device}"]
    return " ".join(word for word in words if word)


def _machine(session: Session) -> list[str]:
    import psutil

    texts = [
        f"reassembly {__version__}, Python {platform.python_version()}, {platform.system()} on "
        f"{platform.machine()}, {os.cpu_count()} cores, "
        f"{psutil.virtual_memory().total / 2**30:.0f} GB of memory"
    ]
    torch = sys.modules.get("torch")
    if torch is not None:
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
        texts.append(f"torch {torch.__version__}, {gpu}")
    texts.append(f"seeds 0 to {session.seeds - 1}; made test puzzles of seed {TEST_SEED}")
    texts.append("weights: the column `weights_sha256` of each table's CSV")
    return texts
