"""Training runs behind the rows: what each is called, the commands that make it, where its weights
are.

A recipe's weights are looked for under its name: `NAME.safetensors`, or a folder `NAME` of
`reassembly train`. What comes with the package counts where it is what the recipe would make.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reassembly.config import ModelConfig
from reassembly.errors import InputError
from reassembly.io.files import atomic_write
from reassembly.reproduce.paper import FEATURES, SELECTORS, TUNED

__all__ = [
    "MINUTES",
    "NOT_CONVERGED",
    "POOL_PUZZLES",
    "RECIPES",
    "Found",
    "Recipe",
    "Training",
    "find_weights",
    "mismatch",
    "recipe_named",
]

MINUTES = 3.1
"""Of training, for every run alike."""
POOL_PUZZLES, POOL_SEED = 6144, 100
"""Made puzzles to train on; those that are measured on have another seed."""
RUN_FILE, FINISHED, CURVE = "weights.safetensors", "finished.json", "metrics.csv"
NOT_CONVERGED = ", not converged"
STILL_FALLING = 0.01
BASELINES = ("diffassemble", "pairingnet", "puzzlefusion")
GPU = ("training.precision=bf16-mixed",)
PRETRAINING = (
    "training.warmup=300",
    "training.validate_every=1000",
    "training.steps=1000000",
    "data.validation=96",
)
REASSEMBLENET = ("training.batch=64", "training.given=0")
TELLING = (
    ("keypoints", "selector"),
    ("keypoints", "k"),
    ("features", "geometry"),
    ("features", "windows"),
    ("features", "whole"),
    ("features", "local"),
)
"""What rows of ReassembleNet differ in: sections and keys of the model."""
TUNING = (
    "training.learning_rate=0.0002",
    "training.warmup=10",
    "training.batch=4",
    "training.validate_every=200",
    "training.steps=1000000",
    "data.validation=1",
)


@dataclass(frozen=True)
class Recipe:
    """One training run."""

    name: str
    system: str
    """The solver that uses the weights."""
    config: str
    """Of `reassembly train --config`."""
    model: tuple[str, ...] = ()
    """Changes of the configuration that determine the network."""
    preset: str = "paper"
    """Of the made puzzles to train on."""
    base: str | None = None
    """The recipe whose weights are fine-tuned; None for one that starts from nothing."""
    fold: int | None = None
    """The fold, from 1, that fine-tuning does not see; None for the official split."""
    same_as: str | None = None
    """A recipe that makes the very same weights."""
    shipped: str | None = None
    """Weights of the package that are these."""


def _recipes() -> list[Recipe]:
    def net(name: str, selector: str, *changes: str, **more: Any) -> Recipe:
        model = (f"model.keypoints.selector={selector}", *changes)
        return Recipe(name, "reassemblenet", "default", model, **more)

    found = [net(name, name, shipped=f"reassemblenet-{name}") for name in SELECTORS]
    found += [Recipe(name, name, name, shipped=name) for name in BASELINES]
    for selector in ("fps", "frozen"):
        for features in FEATURES:
            geometry = str(features == "geometry").lower()
            found.append(
                net(
                    f"{selector}-{features}",
                    selector,
                    f"model.features.geometry={geometry}",
                    f"model.features.windows={geometry}",
                    f"model.features.whole={str(features == 'global').lower()}",
                    f"model.features.local={str(features == 'local').lower()}",
                )
            )
    for k in (3, 5, 10, 15, 20, 25, 50, 100):
        same = "learnable" if k == 20 else None
        found.append(net(f"keypoints-{k}", "learnable", f"model.keypoints.k={k}", same_as=same))
    for preset in ("pairingnet", "paper", "realistic"):
        same = "fps" if preset == "paper" else None
        found.append(net(f"data-{preset}", "fps", preset=preset, same_as=same))
    return found


RECIPES = {recipe.name: recipe for recipe in _recipes()}
"""Those that train on made puzzles; each has one that fine-tunes it, `tuned-NAME`, or for each fold
`tuned-NAME-1`."""


def recipe_named(name: str, fold: int | None = None) -> Recipe:
    """A recipe by name.

    Args:
        name: of `RECIPES`, or `tuned-` and one of those.
        fold: for fine-tuning: the fold that it must not see; None for the official split.
    """
    if not name.startswith(TUNED):
        return RECIPES[name]
    base = RECIPES[name.removeprefix(TUNED)]
    ending = "" if fold is None else f"-{fold}"
    same = None if base.same_as is None else f"{TUNED}{base.same_as}{ending}"
    return Recipe(
        name + ending,
        base.system,
        base.config,
        base.model,
        base.preset,
        base=base.name,
        fold=fold,
        same_as=same,
    )


@dataclass(frozen=True)
class Found:
    """Weights of a recipe."""

    path: str
    """A file, or a name of the package's own."""
    length: str
    """How long they were trained, and where, as far as is known."""
    name: str
    """The recipe that they are of: the one asked for, or one that is the same."""


def find_weights(recipe: Recipe, folders: Iterable[Path]) -> Found | None:
    """The weights of a recipe: from the first of the folders that has them, or the package's."""
    folders = list(folders)
    for name in (recipe.name, recipe.same_as):
        for folder in folders if name else ():
            run = folder / str(name)
            if (file := folder / f"{name}.safetensors").is_file():
                return Found(str(file), _told_beside(folder / f"{name}.json"), str(name))
            if (run / RUN_FILE).is_file():
                return Found(str(run / RUN_FILE), _told_by_run(run), str(name))
    same = RECIPES.get(recipe.same_as or "", recipe)
    if same.shipped is not None:
        from reassembly.weights import list_weights

        for weights in list_weights():
            if weights.name == same.shipped and weights.present:
                length = _told_by_card(weights.path.with_suffix(".md"))
                return Found(weights.name, length, same.name)
    return None


def mismatch(recipe: Recipe, path: str) -> str | None:
    """What about weights is not as the recipe has it, such as `keypoints.k is 20, not 3`.

    What they learned from, and for how long, cannot be seen in them.

    Raises:
        InputError: where they cannot be read, or are of another system.
    """
    import yaml

    from reassembly.weights import load_weights

    stored = load_weights(path, recipe.system).config
    if recipe.system != "reassemblenet":
        return None
    model = asdict(ModelConfig())
    wanted = {(section, key): model[section][key] for section, key in TELLING}
    for change in recipe.model:
        name, _, text = change.partition("=")
        _, section, key = name.split(".")
        wanted[section, key] = yaml.safe_load(text)
    for (section, key), value in wanted.items():
        if (found := stored["model"][section].get(key)) != value:
            return f"{section}.{key} is {found}, not {value}"
    return None


def _told_beside(file: Path) -> str:
    """`{"minutes": 3.1, "device": "one NVIDIA H200", "converged": false}`, as `Training` and others
    write it."""
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        device = str(about.get("device") or "an unnamed machine")
        return _length(float(about["minutes"]), device, about.get("converged"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "length not stated"


def _told_by_run(run: Path) -> str:
    from reassembly.config import load_config

    try:
        minutes = load_config(run / "config.yaml").training.minutes
    except (InputError, OSError):
        return "length not stated"
    if minutes <= 0:
        return "length not stated"
    return _length(minutes, _device(run), _converged(run))


def _told_by_card(card: Path) -> str:
    """A model card says `in 3.1 minutes on one NVIDIA H200`."""
    try:
        text = " ".join(card.read_text(encoding="utf-8").split())
    except OSError:
        return "length not stated"
    said = re.search(r"in ([\d.]+) minutes on ([^,.;()]+)", text)
    if said is None:
        return "see its model card"
    return _length(float(said[1]), said[2], False if "**not converged**" in text else None)


def _length(minutes: float, device: str, converged: bool | None) -> str:
    return f"{minutes:g} min on {device}" + (NOT_CONVERGED if converged is False else "")


def _converged(run: Path) -> bool | None:
    """Whether the validation loss fell by less than a hundredth in the last quarter of the steps;
    None where the learning curve does not tell."""
    try:
        with (run / CURVE).open(encoding="utf-8", newline="") as file:
            known = [
                (int(row["step"]), float(row["val_loss"]))
                for row in csv.DictReader(file)
                if row.get("val_loss")
            ]
    except (OSError, ValueError, KeyError):
        return None
    before = [loss for step, loss in known if step <= 0.75 * known[-1][0]]
    return known[-1][1] > (1 - STILL_FALLING) * min(before) if before else None


@dataclass(frozen=True)
class Training:
    """Makes weights by the recipes' own commands, as a user would type them."""

    out: Path
    """Pools go to `pools/`, runs to `runs/`, weights to `weights/`."""
    repair: Path | None = None
    folds: Path | None = None
    """A file of folds; None where fine-tuning takes the split `train`."""
    fold_count: int = 0
    device: str = "cpu"
    minutes: float = MINUTES
    puzzles: int = POOL_PUZZLES

    def commands(self, recipe: Recipe, init: str | None = None) -> list[list[str]]:
        """What makes the weights, `reassembly` left out.

        Args:
            init: weights to fine-tune, whose network it then is; by default those that this
                makes.
        """
        pool, run = self._pool(recipe), self.run_folder(recipe)
        where = ["--device", self.device]
        prepare = ["prepare", "--out", str(pool)]
        views = ["--encoder", "texture", "--view", "pictures", "--view", "contour", *where]
        train = ["train", "--config", recipe.config]
        if recipe.base is None:
            prepare += ["--preset", recipe.preset, "--count", str(self.puzzles)]
            prepare += ["--seed", str(POOL_SEED)]
            changes = [*PRETRAINING, *(REASSEMBLENET if recipe.system == "reassemblenet" else ())]
            train += ["--stage", "pretrain"]
        else:
            prepare += ["--data", str(self.repair)]
            if self.folds is None:
                prepare += ["--split", "train"]
            else:
                folds = range(1, self.fold_count + 1)
                others = ",".join(str(k) for k in folds if k != recipe.fold)
                prepare += ["--ids", f"{self.folds}#{others}"]
            changes = list(TUNING)
            train += ["--stage", "finetune", "--init"]
            train += [init or str(self.out / "weights" / f"{recipe.base}.safetensors")]
        if self.device == "cuda":
            changes += GPU
        changes += [f"training.minutes={self.minutes:g}"]
        model = recipe.model if init is None else _network(recipe.system, init)
        for change in (*model, *changes):
            train += ["--set", change]
        return [prepare + views, [*train, "--data", str(pool), "--out", str(run), *where]]

    def run_folder(self, recipe: Recipe) -> Path:
        return self.out / "runs" / recipe.name

    def start(self, recipe: Recipe, init: str | None, say: Callable[[str], None]) -> Found:
        """Trains, or carries on where an earlier call was cut short.

        Raises:
            InputError: where a command fails; what it printed tells why.
        """
        run, target = self.run_folder(recipe), self.out / "weights" / f"{recipe.name}.safetensors"
        prepare, train = self.commands(recipe, init)
        if not (run / FINISHED).is_file():
            self._call(prepare, say)
            if (run / "run.json").is_file():
                train = ["train", "--out", str(run), "--resume", "--device", self.device]
            self._call(train, say)
            about = {
                "recipe": recipe.name,
                "minutes": self.minutes,
                "device": _device(run),
                "converged": _converged(run),
            }
            atomic_write(run / FINISHED, json.dumps(about) + "\n")
        target.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(target.with_suffix(".json"), (run / FINISHED).read_bytes())
        atomic_write(target, (run / RUN_FILE).read_bytes())
        found = find_weights(recipe, [target.parent])
        assert found is not None
        return found

    def _pool(self, recipe: Recipe) -> Path:
        if recipe.base is None:
            return self.out / "pools" / recipe.preset
        return self.out / "pools" / ("repair" if recipe.fold is None else f"fold-{recipe.fold}")

    @staticmethod
    def _call(arguments: Sequence[str], say: Callable[[str], None]) -> None:
        say(f"reassembly {shlex.join(arguments)}")
        done = subprocess.run([sys.executable, "-m", "reassembly.cli", *arguments], check=False)
        if done.returncode == 130:
            raise KeyboardInterrupt
        if done.returncode:
            raise InputError(
                f"`reassembly {arguments[0]}` ended with {done.returncode}",
                "What it printed says why; the same command carries on",
            )


def _network(system: str, weights: str) -> tuple[str, ...]:
    """Changes of a configuration that make the network of these weights."""
    from reassembly.weights import load_weights

    stored = load_weights(weights, system).config

    def flat(prefix: str, values: Mapping[str, Any]) -> Iterator[str]:
        for key, value in values.items():
            if isinstance(value, Mapping):
                yield from flat(f"{prefix}.{key}", value)
            else:
                yield f"{prefix}.{key}={str(value).lower() if isinstance(value, bool) else value}"

    if system == "reassemblenet":
        return tuple(flat("model", stored["model"]))
    return tuple(flat(system, stored))


def _device(run: Path) -> str:
    try:
        about = json.loads((run / "run.json").read_text(encoding="utf-8"))
        return about["history"][-1]["versions"]["gpu"] or "a CPU"
    except (OSError, ValueError, LookupError, TypeError):
        return "an unnamed machine"
