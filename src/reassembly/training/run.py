"""One training run, in a folder that tells everything about it, and that can be resumed.

RUN/config.yaml         the complete configuration
RUN/run.json            stage, data, and the history: command lines, times, versions
RUN/metrics.csv         the learning curve; RUN/tensorboard the same
RUN/pictures/           assemblies of validation puzzles
RUN/checkpoints/last.ckpt
RUN/weights.safetensors the averaged weights, half precision

Torch and Lightning take seconds to import, so functions do so that come after the first checks.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reassembly._version import __version__
from reassembly.config import Config, config_from_dict, load_config
from reassembly.errors import InputError, InputWarning
from reassembly.io.files import (
    DISK_FULL,
    TEMPORARY,
    atomic_write,
    check_output_folder,
    disk_told,
    sweep,
)
from reassembly.weights import (
    RUN_FILE,
    anywhere,
    check_weights,
    differences,
    load_weights,
    save_weights,
)

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

    from reassembly.training.joins import JoinPool
    from reassembly.training.module import Averaging, Training, TrainProgress
    from reassembly.training.pool import Pool

__all__ = ["STAGES", "Outcome", "named_config", "train"]

JUDGES = {"judge": None, "light-judge": "light", "context-judge": "context"}
"""Stages that fit all judges of joins or, by its name, only one."""
STAGES = ("selector", "texture", "pretrain", "finetune", "verifier", *JUDGES)
"""Names of what can be trained; see `stages`."""
CHECKPOINT_MINUTES = 5.0

VALIDATION_SEED_OFFSET = 1_000_003
"""Made validation puzzles come from the training seed plus this."""
HELD_OUT = 10
"""Without validation data, one in so many puzzles of the pool is kept back, at most."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    steps: int
    planned: int
    stopped: str | None
    """Why it ended early: `interrupted` or `out of time`."""
    weights: Path
    figures: Mapping[str, float]
    """Of the last validation."""
    told_elsewhere: bool = False
    """Whether another process of the run tells all this."""


def train(
    out: str | PathLike[str],
    stage: str | None = None,
    *,
    config: str | PathLike[str] | Config | None = None,
    changes: Sequence[str] = (),
    data: str | PathLike[str] | None = None,
    validation: str | PathLike[str] | None = None,
    init: str | PathLike[str] | None = None,
    resume: bool = False,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    devices: int = 1,
    nodes: int = 1,
    minutes: float | None = None,
    steps: int | None = None,
    workers: int | None = None,
    checkpoint_minutes: float = CHECKPOINT_MINUTES,
    progress: TrainProgress | None = None,
    preparing: Callable[[int, int, str], None] | None = None,
) -> Outcome:
    """Trains one stage.

    Args:
        out: the run's folder: new, empty, or with `resume` that of an earlier run. Pools that are
            prepared in it stay when the preparation is cut short.
        stage: one of `STAGES`; left out, `pretrain` for other systems than ours.
        config: a configuration, a YAML file, or the name of one that comes with the package.
        changes: of the configuration, such as `model.keypoints.selector=fps`.
        data: a pool of `reassembly prepare`, or a folder of puzzles; made puzzles without.
        validation: likewise; without, a part of the data is held back.
        init: weights to start from.
        resume: go on where the run in `out` ended, with its configuration and data; from its
            beginning where it ended before its first checkpoint.
        minutes: end after so long.
        steps: instead of the configuration's.
        workers: processes that prepare puzzles.
        checkpoint_minutes: time between two checkpoints.
        progress: called while training.
        preparing: called while puzzles are prepared.
    """
    folder = Path(out)
    checkpoint = folder / "checkpoints" / "last.ckpt"
    goes_on = resume and checkpoint.is_file()
    begun = _read_run(folder) if resume else {}
    if resume:
        stage = begun["stage"] if stage is None else stage
        if stage != begun["stage"]:
            raise InputError(
                f"this run trains the stage {begun['stage']}, not {stage}", "Leave --stage out", out
            )
        config = config or folder / "config.yaml"
        data, validation = data or begun["data"], validation or begun["validation"]
        init = None if goes_on else begun["init"]
    settings = _settings(config or "default", changes, steps, begun, folder)
    if stage is None and settings.system != Config().system:
        stage = "pretrain"  # Other systems than ours are trained in one go.
    if stage not in STAGES:
        what = "no stage was named" if stage is None else f"there is no stage {stage!r}"
        raise InputError(what, f"Give --stage one of {', '.join(STAGES)}")
    if stage == "finetune" and not resume and init is None:
        raise InputError("fine-tuning starts from trained weights", "Name them with --init")
    if resume:
        _check_same_model(settings, begun, folder)
    elif not _is_helper():
        _check_folder(folder)
    if settings.training.accumulate % (devices * nodes):
        raise InputError(
            f"{devices * nodes} processes cannot share out training.accumulate="
            f"{settings.training.accumulate} batches a step evenly",
            f"Add --set training.accumulate={devices * nodes}, which makes a step that much larger",
        )
    if nodes > 1 and data is None:
        raise InputError(
            "several machines cannot share puzzles that are made on the way",
            "Prepare a pool that all of them see, and give it as --data",
        )
    learn, judge = data, validation
    if goes_on:  # What was prepared for the run is complete, or it would have no checkpoint.
        learn, judge = (
            folder / name if (folder / name).is_dir() else source
            for name, source in (("pool", data), ("validation", validation))
        )
    for option, source in (("--data", learn), ("--validation", judge)):
        if source is not None and not Path(source).exists():
            what, remedy = "there is no such file or folder", f"Name its place with {option}"
            raise InputError(what, remedy, source)
    if stage in JUDGES:
        return _judge(folder, stage, learn, init, settings, steps, preparing)
    if init is not None:
        check_weights(init, settings.system if stage in ("pretrain", "finetune") else stage)
    accelerator = _accelerator(device)
    if stage == "finetune" and init is not None:
        load_weights(init, settings.system)

    import torch

    from reassembly.training.module import Training, WholeCheckpoints
    from reassembly.training.processes import WatchedDDP
    from reassembly.training.stages import stage_of

    _make(folder)
    about = _about(folder, stage, data, validation, init or begun.get("init"))
    about["history"] = [*begun.get("history", []), *about["history"]]
    with _told(folder, about, settings) as begins, disk_told(folder):
        pool, unseen = (
            _joins(settings, learn, judge)
            if stage == "verifier"
            else _pools(folder, stage, settings, learn, judge, workers, preparing)
        )
        torch.manual_seed(settings.training.seed)
        built = stage_of(stage, settings)(settings, pool, unseen)
        if not goes_on:
            built.begin(None if init is None else os.fspath(init))
        begins()
        return _fit(
            folder,
            Training(built, settings.training, _load_checkpoint(checkpoint) if goes_on else None),
            pl_options={
                "accelerator": accelerator,
                "devices": devices,
                "num_nodes": nodes,
                "strategy": WatchedDDP() if devices * nodes > 1 else "auto",
                "accumulate_grad_batches": settings.training.accumulate // (devices * nodes),
                "precision": settings.training.precision,
                "plugins": [WholeCheckpoints()],
            },
            minutes=minutes,
            checkpoint_minutes=checkpoint_minutes,
            progress=progress,
        )


def _judge(
    folder: Path,
    stage: str,
    data: str | PathLike[str] | None,
    init: str | PathLike[str] | None,
    settings: Config,
    steps: int | None,
    preparing: Callable[[int, int, str], None] | None,
) -> Outcome:
    """Fits a judge of joins: a matter of a minute, which needs no checkpoints.

    Args:
        steps: in the place of its own, which are not those of the other stages.
    """
    from reassembly.training.judging import JudgeSettings, train_judge

    if data is None:
        raise InputError(
            "the judge learns from joins", "Make some with `reassembly prepare --joins`"
        )
    only = JUDGES[stage]
    if init is None:
        needed = "a verifier" if only is None else "weights of `joins`"
        raise InputError(f"the judge needs {needed}", "Name its weights with --init")
    load_weights(init, *(["verifier", "joins"] if only is None else ["joins"]))
    _make(folder)
    about = _about(folder, stage, data, None, init)
    wanted = JudgeSettings(seed=settings.training.seed)
    if steps is not None:
        wanted = replace(wanted, steps=steps)
    with _told(folder, about, settings) as begins, disk_told(folder):
        begins()
        weights = train_judge(folder, data, os.fspath(init), wanted, preparing, only=only)
    return Outcome(wanted.steps, wanted.steps, None, weights, {})


@contextmanager
def _told(folder: Path, about: Mapping[str, Any], settings: Config) -> Iterator[Callable[[], None]]:
    """Writes what the run is about, from its first moment on, so that it can be resumed.

    Where a mistake ends it, what was told before is told again: settings that were wrong are not
    taken up by the next attempt. A full disk is no such mistake. Yields what is to be called when
    training begins: from then on, something is told in any case, and the history has this attempt.
    """
    if _is_helper():
        yield lambda: None
        return
    # In this order: where there is a run.json, there is all that resuming needs.
    wanted = {"config.yaml": _yaml(settings), "run.json": _json(about)}
    files = {folder / name: text for name, text in wanted.items()}
    before = {file: file.read_text(encoding="utf-8") for file in files if file.is_file()}
    for file, text in files.items():
        atomic_write(file, text)
    begun: list[bool] = []
    try:
        yield lambda: begun.append(True)
    except InputError as error:
        if getattr(error.__cause__, "errno", None) in DISK_FULL:  # No fault of the settings.
            remedy = "Make room, then carry on with --resume"
            raise InputError(error.what, remedy, error.path) from error.__cause__
        told = folder / "run.json"
        if begun and told in before:
            before[told] = _json({**json.loads(before[told]), "history": about["history"]})
        for file in reversed(files):
            if file in before:
                atomic_write(file, before[file])
            elif not begun:
                file.unlink(missing_ok=True)
        raise


def _fit(
    folder: Path,
    module: Training,
    *,
    pl_options: Mapping[str, Any],
    minutes: float | None,
    checkpoint_minutes: float,
    progress: TrainProgress | None,
) -> Outcome:
    import pytorch_lightning as pl
    import torch
    from pytorch_lightning.loggers import TensorBoardLogger

    from reassembly.training.metrics import MetricsFile
    from reassembly.training.module import Averaging, Checkpoints, Curve, Stopping

    checkpoint, weights = folder / "checkpoints" / "last.ckpt", folder / RUN_FILE
    planned = module.config.steps
    averaging, stopping = Averaging(module.config.ema), Stopping(minutes)
    if module.complete:
        module.restore(averaging)
        _export(module, averaging, weights)
        return Outcome(module.start, module.start, None, weights, {})
    curve = Curve(module.stage, averaging, checkpoint, folder / "pictures", progress)
    loggers: list[Logger] = [MetricsFile(folder / "metrics.csv", module.start)]
    if importlib.util.find_spec("tensorboard") is not None:
        loggers.append(TensorBoardLogger(folder, name="", version="tensorboard"))
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    if pl_options["accelerator"] == "gpu":
        torch.set_float32_matmul_precision("high")
    with warnings.catch_warnings(), stopping.handlers_kept():
        warnings.filterwarnings("ignore", module="pytorch_lightning|lightning_fabric")
        trainer = pl.Trainer(
            **pl_options,
            default_root_dir=folder,
            logger=loggers,
            callbacks=[
                averaging,
                curve,
                stopping,
                Checkpoints(checkpoint, checkpoint_minutes),
            ],
            max_steps=planned,
            max_epochs=-1,
            limit_val_batches=0,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        trainer.fit(
            module,
            ckpt_path=checkpoint if module.checkpoint is not None else None,
            weights_only=True,
        )
    if trainer.is_global_zero:
        _export(module, averaging, weights)
    done = trainer.global_step
    return Outcome(
        done,
        done if module.complete else planned,
        stopping.reason,
        weights,
        curve.latest,
        told_elsewhere=not trainer.is_global_zero,
    )


def _export(module: Training, averaging: Averaging, path: Path) -> None:
    with averaging.applied(module):
        tensors, config = module.stage.export()
        save_weights(path, tensors, module.stage.kind, config)


def named_config(name: str | PathLike[str]) -> Path:
    """The YAML file that is meant: a path, or the name of one that comes with the package."""
    path = Path(name)
    if path.suffix in {".yaml", ".yml"} or path.exists():
        return path
    package = Path(__file__).parents[1]
    places = [package / "configs", package.parents[1] / "configs"]
    for place in places:
        if (place / f"{path}.yaml").is_file():
            return place / f"{path}.yaml"
    known = sorted({file.stem for place in places for file in place.glob("*.yaml")})
    raise InputError(
        f"there is no configuration {str(name)!r}",
        f"Give a YAML file, or one of {', '.join(known)}",
    )


def _settings(
    config: str | PathLike[str] | Config,
    changes: Sequence[str],
    steps: int | None,
    begun: Mapping[str, Any],
    folder: Path,
) -> Config:
    """The configuration with the changes of the command line.

    Args:
        begun: what the run that is resumed tells about itself.
    """
    import yaml

    from reassembly.keypoints.describe import CANDIDATES

    settings = config if isinstance(config, Config) else load_config(named_config(config))
    content = settings.to_dict()
    wishes = [*changes, *([f"training.steps={steps}"] if steps is not None else [])]
    for wish in wishes:
        key, equals, text = wish.partition("=")
        if not equals:
            raise InputError(f"{wish!r} changes nothing", "Write --set key=value")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise InputError(f"{text!r} is no value", f"Write --set {key}=value") from None
        at = content
        *sections, name = key.strip().split(".")
        for section in sections:
            inner = at.get(section)
            at = inner if isinstance(inner, dict) else at.setdefault(section, {})
        at[name] = value
    settings = config_from_dict(Config, content)
    for name in ("batch", "accumulate", "steps"):
        if getattr(settings.training, name) < 1:
            raise InputError(f"training.{name} is 0", "Give 1 or more")
    if not 3 <= settings.model.keypoints.k <= CANDIDATES:
        raise InputError(
            f"model.keypoints.k is {settings.model.keypoints.k}",
            f"Give 3 to {CANDIDATES}: pieces have {CANDIDATES} candidates each",
        )
    return _with_encoder(settings, begun, folder)


def _with_encoder(settings: Config, begun: Mapping[str, Any], folder: Path) -> Config:
    """The same, its encoder named so that it is found from any working folder."""
    features = settings.model.features
    encoder = anywhere(_moved(features.encoder, begun.get("folder"), folder))
    model = replace(settings.model, features=replace(features, encoder=encoder))
    return replace(settings, model=model)


def _json(content: Any) -> str:
    return json.dumps(content, indent=1) + "\n"


def _yaml(settings: Config) -> str:
    import yaml

    return str(yaml.safe_dump(json.loads(json.dumps(settings.to_dict())), sort_keys=False))


def _pools(
    folder: Path,
    stage: str,
    settings: Config,
    data: str | PathLike[str] | None,
    validation: str | PathLike[str] | None,
    workers: int | None,
    preparing: Callable[[int, int, str], None] | None,
) -> tuple[Pool, Pool | None]:
    """What is learned from, and what is judged by."""
    from reassembly.training.pool import Pool
    from reassembly.training.stages import stage_of
    from reassembly.training.textures import check_textures

    wanted = settings.data
    if data is None:
        data = _prepared(folder / "pool", stage, settings, None, 0, workers, preparing)
        if validation is None and wanted.validation > 0:
            validation = _prepared(
                folder / "validation", stage, settings, None, VALIDATION_SEED_OFFSET, workers, None
            )
    columns = stage_of(stage, settings).columns(settings)
    data = _as_pool(folder / "pool", data, stage, settings, workers, preparing)
    if validation is not None:
        validation = _as_pool(folder / "validation", validation, stage, settings, workers, None)
    if {"local", "whole"} & set(columns):
        for each in (data, validation):
            if each is not None:
                check_textures(each, settings.model.features)
    pool = Pool.load(data, columns)
    if validation is not None:
        return pool, Pool.load(validation, columns)
    held = min(wanted.validation, len(pool) // HELD_OUT)
    if held == 0:
        if wanted.validation > 0 and settings.training.validate_every > 0 and not _is_helper():
            warnings.warn(
                f"{data}: {len(pool)} puzzles are too few to hold one in {HELD_OUT} back, so the "
                "run is not validated: name others with --validation",
                InputWarning,
            )
        return pool, None
    return pool.part(0, len(pool) - held), pool.part(len(pool) - held, len(pool))


def _joins(
    settings: Config,
    data: str | PathLike[str] | None,
    validation: str | PathLike[str] | None,
) -> tuple[JoinPool, JoinPool | None]:
    """Proposals to learn from, and others to be judged by."""
    from reassembly.training.joins import JoinPool, join_folders

    if data is None:
        raise InputError(
            "the verifier learns from joins", "Make some with `reassembly prepare --joins`"
        )
    pool = JoinPool.load(*join_folders(data))
    if validation is not None:
        return pool, JoinPool.load(*join_folders(validation))
    puzzles = int(pool.tensors["puzzle"].max()) + 1
    first = puzzles - min(settings.data.validation, puzzles // HELD_OUT)
    if first == puzzles:
        return pool, None
    return pool.part(lambda puzzle: puzzle < first), pool.part(lambda puzzle: puzzle >= first)


def _as_pool(
    place: Path,
    data: str | PathLike[str],
    stage: str,
    settings: Config,
    workers: int | None,
    preparing: Callable[[int, int, str], None] | None,
) -> Path:
    """The pool itself, a folder of pools, or the one that is prepared from a folder of puzzles."""
    from reassembly.training.pool import pool_folders

    path = Path(data)
    if (path / "pool.json").is_file() or pool_folders(path):
        return path
    return _prepared(place, stage, settings, path, 0, workers, preparing)


def _prepared(
    place: Path,
    stage: str,
    settings: Config,
    puzzles: Path | None,
    seed_offset: int,
    workers: int | None,
    preparing: Callable[[int, int, str], None] | None,
) -> Path:
    """A pool in the run's folder, with the textures that the configuration asks for."""
    from reassembly.training.prepare import made_puzzles, prepare, stored_puzzles
    from reassembly.training.stages import BASELINES
    from reassembly.training.textures import keep_patches, texture_columns

    wanted, features = settings.data, settings.model.features
    source = (
        stored_puzzles(puzzles)
        if puzzles is not None
        else made_puzzles(
            count=wanted.validation if seed_offset else wanted.puzzles,
            seed=wanted.seed + seed_offset,
            preset=wanted.preset,
            pieces=wanted.pieces,
            size_px=wanted.size_px,
        )
    )
    cut = encoder = None
    views: tuple[str, ...] = ()
    if stage == "texture":
        cut, encoder = keep_patches(features)
    elif stage != "selector" and settings.system in BASELINES:
        views = BASELINES[settings.system].views
    elif stage != "selector" and (features.local or features.whole):
        cut, encoder = texture_columns(features.encoder, features)
    prepare(
        place,
        source,
        patches=cut,
        encoder=encoder,
        views=views,
        workers=workers,
        progress=preparing,
    )
    return place


def _accelerator(device: str) -> str:
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("there is no CUDA GPU here", "Use --device cpu")
    gpu = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    return "gpu" if gpu else "cpu"


def _check_folder(folder: Path) -> None:
    """A new run needs an empty folder; what one left that was cut short early on may stay."""
    left = {"pool", "validation", "run.json", "config.yaml"}
    found = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    entries = {name for name in found if not name.startswith(TEMPORARY)}
    if "run.json" in entries and not entries <= left:
        raise InputError(
            "the folder holds a training run",
            "Add --resume to carry on with it, or choose another folder",
            folder,
        )
    if not entries <= left or not folder.is_dir():
        check_output_folder(folder)


def _make(folder: Path) -> None:
    """The run's folder, without what a killed process left half written in it."""
    folder.mkdir(parents=True, exist_ok=True)
    if not _is_helper():
        sweep(folder)


def _is_helper() -> bool:
    """Whether this process was started by that of rank 0, which has made the folder."""
    return int(os.environ.get("LOCAL_RANK") or 0) > 0 or int(os.environ.get("RANK") or 0) > 0


def _load_checkpoint(path: Path) -> dict[str, Any]:
    import torch

    try:
        found: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(
            "there is no checkpoint to resume from", "Start the run without --resume", path
        ) from None
    except Exception as error:
        what = f"this checkpoint cannot be read ({type(error).__name__})"
        raise InputError(what, "Start the run anew in another folder", path) from None
    return found


def _read_run(folder: Path) -> dict[str, Any]:
    """What a run tells about itself, with paths as of now; see `_about`."""
    file = folder / "run.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        before = found.get("folder")
        begun = {"stage": found["stage"], "folder": before}
        for name in ("data", "validation", "init"):
            begun[name] = None if found[name] is None else _moved(found[name], before, folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError("this is no training run", "Start one without --resume", folder) from None
    # Files of older versions know the last command alone.
    last = {key: found[key] for key in ("command", "versions") if key in found}
    begun["history"] = found.get("history", [last] if last else [])
    return begun


def _moved(path: str, before: str | None, folder: Path) -> str:
    """Where something lies that a run remembers.

    What is in the run's own folder moves with it. What is elsewhere stays, but if it is there no
    longer, it is looked for at its old place relative to the run: both may have moved together.

    Args:
        path: as the run remembers it; names stay what they are.
        before: the run's folder at that time, where it is known.
        folder: the run's folder.
    """
    if before is None or not Path(path).is_absolute():
        return path
    try:
        now = (folder / os.path.relpath(path, before)).resolve()
    except ValueError:  # Another drive.
        return path
    inside = Path(path).is_relative_to(before)
    return str(now) if inside or (now.exists() and not Path(path).exists()) else path


def _check_same_model(settings: Config, begun: Mapping[str, Any], folder: Path) -> None:
    file = folder / "config.yaml"
    earlier = _with_encoder(load_config(file), begun, folder).to_dict()
    now = settings.to_dict()
    try:
        check_weights(earlier["model"]["features"]["encoder"], "texture")
    except InputError:  # It may lie elsewhere now; by its checksum, the pool knows it.
        del earlier["model"]["features"]["encoder"]
    section = "model" if settings.system == "reassemblenet" else settings.system
    differing = differences({"system": earlier["system"]}, {"system": now["system"]})
    differing += differences(earlier[section], now[section], f"{section}.")
    if differing:
        raise InputError(f"the run was begun with {differing[0]}", "Resume it unchanged", file)


def _about(
    folder: Path,
    stage: str,
    data: str | PathLike[str] | None,
    validation: str | PathLike[str] | None,
    init: str | PathLike[str] | None,
) -> dict[str, Any]:
    """What the configuration does not tell; paths hold in any working folder."""
    import numpy as np
    import torch

    return {
        "stage": stage,
        "folder": str(folder.resolve()),
        "data": None if data is None else str(Path(data).resolve()),
        "validation": None if validation is None else str(Path(validation).resolve()),
        "init": None if init is None else anywhere(init),
        "history": [
            {
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "working_folder": str(Path.cwd()),
                "command": sys.argv,
                "versions": {
                    "reassembly": __version__,
                    "python": platform.python_version(),
                    "torch": torch.__version__,
                    "pytorch_lightning": version("pytorch_lightning"),
                    "numpy": np.__version__,
                    "cuda": torch.version.cuda,
                    "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
                },
            }
        ],
    }
