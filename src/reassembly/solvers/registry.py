"""Solvers by name: ours, and those that other packages offer as entry points.

A package adds one by an entry point in the group `reassembly.solvers` that points to a
`SolverInfo`.
"""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from reassembly.errors import InputError, InputWarning
from reassembly.solvers.base import Solver

__all__ = [
    "SolverInfo",
    "available_solvers",
    "check_device",
    "get_solver",
    "no_solver",
    "parse_settings",
]


@dataclass(frozen=True)
class SolverInfo:
    """What `reassembly solvers` tells about a solver, and where it is."""

    name: str
    summary: str
    """One line."""
    citation: str
    target: str
    """`package.module:attribute`; the attribute is called with the settings."""
    devices: tuple[str, ...] = ("cpu",)
    """Where it can compute: `cpu`, `cuda`."""
    trivial: bool = False
    """Shows what a score is worth: in every table, for no other use."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What it is told unless asked otherwise."""
    weights: tuple[str, ...] = ()
    """Names of the trained weights that it uses unless asked otherwise."""
    seen: tuple[str, ...] = ()
    """Data sets that these have learned from, such as `RePAIR`: no figure there counts."""

    def create(self, **settings: Any) -> Solver:
        """The solver with these settings.

        Raises:
            InputError: for a setting that it does not have, naming those it has.
        """
        module, attribute = self.target.split(":")
        factory: Callable[..., Solver] = getattr(import_module(module), attribute)
        taken = inspect.signature(factory).parameters
        anything = any(p.kind is p.VAR_KEYWORD for p in taken.values())
        unknown = [] if anything else sorted(set(settings) - set(taken))
        if unknown:
            raise InputError(
                f"solver {self.name} has no setting {unknown[0]!r}",
                f"It takes {', '.join(taken)}" if taken else "It takes none",
            )
        return factory(**{**self.settings, **settings})

    def missing_weights(self) -> tuple[str, ...]:
        """Those of its weights that are not here."""
        from reassembly.weights import list_weights

        present = {file.name for file in list_weights() if file.present}
        return tuple(name for name in self.weights if name not in present)


BUILT_IN = (
    SolverInfo(
        "joins",
        "proposes, verifies and judges joins; builds what they support; leaves out the rest",
        "ours",
        "reassembly.solvers.joins:Joins",
        devices=("cpu", "cuda"),
        weights=("joins", "matcher"),
        seen=("RePAIR",),
    ),
    SolverInfo(
        "greedy",
        "joins the contours that fit best first, without collisions",
        "ours, unverified, in the place of the greedy geometric baseline of RePAIR "
        "(Tsesmelis et al., 2024)",
        "reassembly.solvers.greedy:Greedy",
    ),
    SolverInfo(
        "genetic",
        "arrangements evolve towards a small bounding rectangle without overlap",
        "our reimplementation of the genetic baseline of RePAIR (Tsesmelis et al., 2024); "
        "q_pos 0.06 on 20 of its training puzzles, in print 0.05 on its test puzzles",
        "reassembly.solvers.genetic:Genetic",
    ),
    SolverInfo(
        "derech",
        "extrapolates paint beyond the rims and joins where it agrees with the neighbour's",
        "our reimplementation, unverified, of Derech, Tal and Shimshoni, "
        "'Solving archaeological puzzles' (2021)",
        "reassembly.solvers.derech:Derech",
    ),
    SolverInfo(
        "reassemblenet",
        "keypoints of the outline, their shape and texture; poses by diffusion; one sample",
        "our reimplementation of ReassembleNet (Islam et al., 2025)",
        "reassembly.solvers.reassemblenet:Reassemblenet",
        devices=("cpu", "cuda"),
        weights=("reassemblenet-learnable", "texture"),
    ),
    SolverInfo(
        "reassemblenet-8",
        "the best of eight samples of reassemblenet, with confidence",
        "beyond the paper",
        "reassembly.solvers.reassemblenet:Reassemblenet",
        devices=("cpu", "cuda"),
        settings={"samples": 8},
        weights=("reassemblenet-learnable", "texture"),
    ),
    SolverInfo(
        "diffassemble",
        "pictures of pieces as nodes of a sparse graph; poses by diffusion",
        "our reimplementation of DiffAssemble (Scarpellini et al., 2024); unverified",
        "reassembly.solvers.diffassemble:Diffassemble",
        devices=("cpu", "cuda"),
        weights=("diffassemble",),
    ),
    SolverInfo(
        "puzzlefusion",
        "outlines as polygons, no paint; poses of their vertices by diffusion",
        "our reimplementation of PuzzleFusion (Hossieni et al., 2023); unverified",
        "reassembly.solvers.puzzlefusion:Puzzlefusion",
        devices=("cpu", "cuda"),
        weights=("puzzlefusion",),
    ),
    SolverInfo(
        "pairingnet",
        "learned matches of contour points, by shape and paint; the surest pairs are joined first",
        "our reimplementation of PairingNet (Zhou et al., 2024); unverified",
        "reassembly.solvers.pairingnet:Pairingnet",
        devices=("cpu", "cuda"),
        weights=("pairingnet",),
    ),
    SolverInfo(
        "stack",
        "all centroids on one point, random rotations",
        "a trivial row",
        "reassembly.solvers.trivial:Stack",
        trivial=True,
    ),
    SolverInfo(
        "random",
        "centroids uniform in a disc of the total area, random rotations",
        "a trivial row",
        "reassembly.solvers.trivial:Random",
        trivial=True,
    ),
    SolverInfo(
        "ring",
        "the largest piece in the middle, the others around it, touching, random rotations",
        "a trivial row",
        "reassembly.solvers.trivial:Ring",
        trivial=True,
    ),
)


def available_solvers() -> dict[str, SolverInfo]:
    """Every solver by name, ours first.

    One of another package that cannot be loaded is left out with a warning: it must not keep the
    others from working.
    """
    solvers = {info.name: info for info in BUILT_IN}
    for entry in sorted(entry_points(group="reassembly.solvers"), key=lambda e: e.name):
        if entry.name not in solvers and (info := _loaded(entry)) is not None:
            solvers[entry.name] = info
    return solvers


@cache
def _loaded(entry: EntryPoint) -> SolverInfo | None:
    """What an entry point offers, loaded once, so that a warning comes once."""
    try:
        info = entry.load()
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    else:
        if isinstance(info, SolverInfo):
            return replace(info, name=entry.name)
        problem = f"{entry.value} is a {type(info).__name__}, not a SolverInfo"
    where = entry.dist.name if entry.dist is not None else entry.value
    warnings.warn(
        f"the solver {entry.name!r} of the package {where} is left out ({problem}); "
        "mend or uninstall that package",
        InputWarning,
    )
    return None


def get_solver(name: str, **settings: Any) -> Solver:
    """The solver of that name."""
    return _info(name).create(**settings)


def no_solver(name: str) -> InputError:
    """What to tell a person who asks for a solver that there is not."""
    known = list(available_solvers())
    near = difflib.get_close_matches(name, known, n=1)
    meant = f"Did you mean {near[0]}? " if near else ""
    return InputError(f"there is no solver {name!r}", f"{meant}Choose one of {', '.join(known)}")


def check_device(name: str, device: str) -> None:
    """Raises `InputError` where the solver of that name cannot compute on `device`."""
    devices = _info(name).devices
    if device not in devices:
        raise InputError(
            f"solver {name} does not run on {device}",
            f"Give --device {devices[0]}, or leave it out",
        )


def parse_settings(texts: Iterable[str], own: str = "") -> dict[str, dict[str, Any]]:
    """`["greedy.beam=8"]` as `{"greedy": {"beam": 8}}`: by solver, as numbers where they are.

    Args:
        own: the solver of settings that name none.
    """
    settings: dict[str, dict[str, Any]] = {}
    for text in texts:
        target, equals, value = text.partition("=")
        if own and "." not in target:
            target = f"{own}.{target}"
        solver, dot, key = target.partition(".")
        if not (solver and dot and key and equals and value):
            raise InputError(
                f"{text!r} is no setting", "Write SOLVER.KEY=VALUE, as in greedy.beam=8"
            )
        settings.setdefault(_info(solver).name, {})[key] = _plain_value(value)
    return settings


def _plain_value(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _info(name: str) -> SolverInfo:
    solvers = available_solvers()
    if name not in solvers:
        raise no_solver(name)
    return solvers[name]
