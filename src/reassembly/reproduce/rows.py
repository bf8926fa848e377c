"""Which rows a part has, how each is measured, and why one cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reassembly.bench import BenchRow
from reassembly.errors import InputError
from reassembly.reproduce.paper import BEYOND, PARTS, TUNED, Part, Row
from reassembly.reproduce.recipes import (
    NOT_CONVERGED,
    RECIPES,
    Found,
    Recipe,
    find_weights,
    mismatch,
    recipe_named,
)
from reassembly.reproduce.session import Session
from reassembly.solvers.registry import SolverInfo, available_solvers

__all__ = ["EACH_FOLD", "resolved", "rows_of", "train_missing", "weights_hash_of"]

AS_PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "reassemblenet": {"steps": 20, "ancestral": False, "polish": 0}
}
"""How the paper samples, DDIM with sigma 0; as shipped, solvers sample as we found better."""
EACH_FOLD = "each fold "


def rows_of(part: Part) -> list[Row]:
    """The part's rows and, in an open one, a row for every other solver that there is."""
    if not part.open:
        return list(part.rows)
    rows = part.rows or tuple(
        row
        for row in PARTS["repair"].rows
        if not row.tuned and row.recipe not in ("frozen", "learnable")
    )
    covered = {row.solver for row in rows}
    others = [
        Row(info.name, info.name, None, BEYOND)
        for info in available_solvers().values()
        if not info.trivial and info.name not in covered
    ]
    return [*rows, *others]


def resolved(session: Session, row: Row) -> tuple[list[BenchRow], str] | str:
    """How a row is measured, and how long its weights were trained; or why it cannot be."""
    if not _wanted(session, row):
        return "left out: --solver names others"
    info = available_solvers()[row.solver]
    if row.recipe is None:
        problem = _problem(session, info, None)
        return problem or ([BenchRow(row.key, row.solver, _settings(session, info, None))], "")
    folds: list[tuple[int | None, frozenset[str] | None]] = [(None, None)]
    if row.tuned:
        repair = session.repair
        if repair is None or not repair.can_tune:
            return "fine-tuning needs RePAIR with a training split or with folds"
        if repair.folds is not None:
            folds = [(k, ids) for k, ids in enumerate(repair.fold_ids(), start=1) if ids]
    found: list[tuple[Found, frozenset[str] | None]] = []
    for fold, ids in folds:
        recipe = recipe_named(row.recipe, fold)
        weights = find_weights(recipe, session.weights)
        if weights is None:
            return (
                "needs a training run: add --train, or give weights of this name by --weights; "
                "commands in recipes.md"
            )
        if problem := _wrong(recipe, weights) or _problem(session, info, weights.path):
            return problem
        found.append((weights, ids))
    # Weights that serve several rows are measured once, under their own name.
    own = any(weights.name.startswith(row.recipe) for weights, _ in found)
    name = row.key if own else _same_key(row.recipe)
    rows = [
        BenchRow(name, row.solver, _settings(session, info, weights.path), ids)
        for weights, ids in found
    ]
    lengths = [weights.length for weights, _ in found]
    plain = dict.fromkeys(length.removesuffix(NOT_CONVERGED) for length in lengths)
    some = NOT_CONVERGED if any(length.endswith(NOT_CONVERGED) for length in lengths) else ""
    return rows, (EACH_FOLD if len(found) > 1 else "") + "; ".join(plain) + some


def _wanted(session: Session, row: Row) -> bool:
    return not session.solvers or row.solver in session.solvers


def _wrong(recipe: Recipe, weights: Found) -> str | None:
    """Weights under the name of a recipe must be of its network: no row shows anything else."""
    try:
        problem = mismatch(recipe, weights.path)
    except InputError as error:
        problem = f"{error.what}; {error.remedy}"
    return problem and f"the weights {weights.name} that were given are none of this row: {problem}"


def _same_key(recipe: str) -> str:
    prefix = TUNED if recipe.startswith(TUNED) else ""
    return prefix + (RECIPES[recipe.removeprefix(TUNED)].same_as or "")


def _settings(session: Session, info: SolverInfo, weights: str | None) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if weights is not None:
        settings = {"weights": weights, **AS_PUBLISHED.get(info.name, {})}
    if session.device != "cpu" and session.device in info.devices:
        settings["device"] = session.device
    return settings


def _problem(session: Session, info: SolverInfo, weights: str | None) -> str | None:
    """Why a solver cannot be made, where it cannot."""
    if weights is None and not info.weights:
        return None
    answer = weights_hash_of(session, info, weights)
    return f"{answer.what}: {answer.remedy}" if isinstance(answer, InputError) else None


def weights_hash_of(
    session: Session, info: SolverInfo, weights: str | None
) -> str | InputError | None:
    """What a solver's weights are, or what is wrong with them; looked at once."""
    key = (info.name, weights or "")
    if key not in session.created:
        try:
            made = info.create(**_settings(session, info, weights))
            session.created[key] = getattr(made, "weights_hash", None)
        except InputError as error:
            session.created[key] = error
        except Exception as error:
            what = f"it cannot be made ({type(error).__name__}: {error})"
            session.created[key] = InputError(what, "Mend or uninstall its package")
    return session.created[key]


def train_missing(session: Session, parts: Sequence[Part]) -> None:
    """Makes what weights the parts need and do not have, those to be fine-tuned first."""
    rows = {
        row.recipe: row
        for part in parts
        for row in rows_of(part)
        if row.recipe and _wanted(session, row)
    }
    for row in sorted(rows.values(), key=lambda row: row.tuned):
        assert row.recipe is not None
        folds: list[int | None] = [None]
        if row.tuned:
            if session.repair is None or not session.repair.can_tune:
                continue
            if session.repair.folds is not None:
                folds = list(range(1, session.trainer.fold_count + 1))
        for fold in folds:
            recipe = recipe_named(row.recipe, fold)
            if find_weights(recipe, session.weights) is None:
                base = None
                if recipe.base is not None:
                    base = find_weights(recipe_named(recipe.base), session.weights)
                    if base is None:
                        base = session.trainer.start(recipe_named(recipe.base), None, session.say)
                session.trainer.start(recipe, base.path if base else None, session.say)
