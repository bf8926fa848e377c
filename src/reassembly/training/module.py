"""The Lightning side of a run: one step, its optimiser, averaged weights, checkpoints, stopping.

All randomness of a batch comes from the seed, the number of its step, and its own in the step;
which process works on it plays no part.
"""

from __future__ import annotations

import io
import math
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from PIL import Image
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.plugins.io import TorchCheckpointIO
from torch import Tensor, nn
from torch.utils.data import DataLoader

from reassembly.config import TrainingConfig
from reassembly.errors import InputError
from reassembly.io.files import atomic_write
from reassembly.training.sampler import Batches, Numbers, Steps
from reassembly.training.stages import Stage

__all__ = ["Averaging", "Checkpoints", "Curve", "Stopping", "Training", "WholeCheckpoints"]

LOG_EVERY = 20
"""Steps between two looks at the losses: each look waits for the GPU."""
MOMENTUM = 0.1
"""Of running figures, as torch has it."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)

TrainProgress = Callable[[int, int, str], None]
"""(steps done, steps in all, loss and speed in words)"""


class Training(pl.LightningModule):
    """One stage in training.

    Args:
        checkpoint: that of the run which is resumed.
    """

    def __init__(
        self, stage: Stage, config: TrainingConfig, checkpoint: dict[str, Any] | None
    ) -> None:
        super().__init__()
        self.network = stage.network
        self.stage, self.config, self.checkpoint = stage, config, checkpoint
        self.start = 0 if checkpoint is None else int(checkpoint["global_step"])
        self.batches = Batches(stage.sizes, config.batch, config.seed, config.accumulate)
        self.sums: dict[str, Tensor] = {}
        self.bad_step: Tensor | None = None
        """(), on the device: the first step whose loss or gradient was not finite, or -1."""
        self.looked = 0
        self.spent_s: float = 0.0 if checkpoint is None else checkpoint.get("spent_s", 0.0)
        """Seconds of training at the last look, those before a resumption included."""
        self._begun = time.monotonic() - self.spent_s

    def train_dataloader(self) -> DataLoader[Any]:
        """Numbers of puzzles; the puzzles themselves are where the network is."""
        rank, ranks = self.trainer.global_rank, self.trainer.world_size
        # On a GPU, batches of few shapes are worth some repetition; see `graphs`.
        even = self.trainer.strategy.root_device.type == "cuda"
        config = self.config
        self.batches = Batches(self.stage.sizes, config.batch, config.seed, config.accumulate, even)
        steps = Steps(self.batches, self.start, rank, ranks)
        return DataLoader(steps, batch_size=None, collate_fn=_unchanged)

    def restore(self, averaging: Averaging) -> None:
        """Takes over weights and averages of the checkpoint, without training on."""
        assert self.checkpoint is not None
        self.load_state_dict(self.checkpoint["state_dict"])
        averaging.load_state_dict(self.checkpoint["callbacks"][averaging.state_key])

    def on_fit_start(self) -> None:
        self.stage.move(self.device)
        self.bad_step = torch.tensor(-1, device=self.device)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["spent_s"] = self.spent_s

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Lightning tells by the count of batches where steps end, but the run that is resumed may
        have shared them out to another number of processes."""
        seen = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
        own = self.config.accumulate // self.trainer.world_size
        for count in (seen["total"], seen["current"]):
            moved = self.start * own - count["ready"]
            count.update({name: value + moved for name, value in count.items()})

    @property
    def complete(self) -> bool:
        """Whether all of the planned steps, or all of the planned time, are behind."""
        step = self.start if self._trainer is None else self.global_step
        limit = 60 * self.config.minutes
        return step >= self.config.steps or 0 < limit <= self.spent_s

    def on_train_start(self) -> None:
        """What the configuration says holds, also where a checkpoint was taken up that has other
        rates."""
        self._begun = time.monotonic() - self.spent_s
        for entry in self.trainer.lr_scheduler_configs:
            schedule: Any = entry.scheduler
            schedule.base_lrs = [self.config.learning_rate for _ in schedule.base_lrs]
            groups = schedule.optimizer.param_groups
            groups[0]["weight_decay"] = self.config.weight_decay
            for group, rate in zip(groups, schedule.lr_lambdas, strict=True):
                group["initial_lr"] = self.config.learning_rate
                group["lr"] = self.config.learning_rate * rate(schedule.last_epoch)

    def training_step(self, batch: tuple[int, int, Numbers], _: int) -> Tensor:
        """Losses of one batch of a step; see `sampler.Steps` for what a batch is."""
        step, share, numbers = batch
        if step % LOG_EVERY == 0:  # All ranks go by the clock of one, and see it seldom.
            now = time.monotonic() - self._begun
            self.spent_s = float(self.trainer.strategy.broadcast(now))
        seed = _mixed(self.config.seed, share, step)
        torch.manual_seed(seed)
        if self.batches.shares > 1:
            _keep_statistics(self.network, share == 0)
        losses = self.stage.losses(numbers, step, torch.Generator().manual_seed(seed))
        self._mark(losses["loss"].detach(), step)
        own = self.config.accumulate // self.trainer.world_size
        for name, value in losses.items():
            self._add(name, value.detach() / own)
        loss: Tensor = losses["loss"]
        return loss

    def on_after_backward(self) -> None:
        """Gradients of recorded steps lie where the next batch overwrites them: those that more are
        added to get a place of their own."""
        if self.batches.shares > 1 and self.device.type == "cuda":
            for _, parameter in _trained(self):
                if parameter.grad is not None:
                    parameter.grad = parameter.grad.clone()

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clips, and notes the norm."""
        limit = self.config.clip or math.inf
        norm = nn.utils.clip_grad_norm_(self.parameters(), limit)
        if self.config.precision != "16-mixed":  # There, infinite gradients are skipped.
            self._mark(norm.detach(), self.global_step)
        self._add("gradient", norm.detach())

    def configure_optimizers(self) -> Any:
        """The optimiser, and its rate: a rise, then a cosine to zero at the run's end."""
        config = self.config
        trained = [p for p in self.network.parameters() if p.requires_grad]
        groups: list[dict[str, Any]] = [
            {"params": [p for p in trained if p.dim() >= 2]},
            {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
        ]
        optimiser: torch.optim.Optimizer
        if config.optimizer == "adafactor":
            optimiser = torch.optim.Adafactor(
                groups, lr=config.learning_rate, weight_decay=config.weight_decay
            )
        else:
            fused = trained[0].is_cuda and config.precision != "16-mixed"
            optimiser = torch.optim.AdamW(
                groups, lr=config.learning_rate, weight_decay=config.weight_decay, fused=fused
            )

        def rate(step: int) -> float:
            rise = min(1.0, (step + 1) / max(1, config.warmup))
            if not config.decay:
                return rise
            through = max(0, step - config.warmup) / max(1, config.steps - config.warmup)
            if config.minutes > 0:
                through = max(through, self.spent_s / (60 * config.minutes))
            return rise * (1 + math.cos(math.pi * min(through, 1.0))) / 2

        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
        return [optimiser], [{"scheduler": schedule, "interval": "step"}]

    def means(self) -> dict[str, float]:
        """Means of the losses of all processes since the last call."""
        steps = max(1, self.global_step - self.looked)
        self.looked = self.global_step
        reduce = self.trainer.strategy.reduce
        found = {
            name: float(reduce(total, reduce_op="mean")) / steps
            for name, total in self.sums.items()
        }
        self.sums = {}
        return found

    def check_health(self, checkpoint: Path) -> None:
        """Raises `InputError` if some step since the start went wrong."""
        step = -1 if self.bad_step is None else int(self.bad_step)
        if step < 0:
            return
        shares = range(self.batches.shares)
        numbers = [n for share in shares for n in self.batches.at(step, share).tolist()]
        shown = ", ".join(map(str, numbers[:12])) + (", ..." if len(numbers) > 12 else "")
        kept = f"{checkpoint} is from before" if checkpoint.is_file() else "nothing was saved yet"
        raise InputError(
            f"the loss is no longer a number at step {step + 1}, on the {self.stage.things} "
            f"{shown} of the pool; {kept}",
            "Resume with a lower training.learning_rate, or look at these data",
        )

    def _mark(self, value: Tensor, step: int) -> None:
        if self.bad_step is not None:
            fresh = (self.bad_step < 0) & ~value.isfinite()
            self.bad_step = torch.where(fresh, step, self.bad_step)

    def _add(self, name: str, value: Tensor) -> None:
        self.sums[name] = self.sums[name] + value if name in self.sums else value


def _unchanged(batch: Any) -> Any:
    """Keeps Lightning from moving the numbers to the GPU."""
    return batch


def _mixed(*numbers: int) -> int:
    """One seed out of several numbers, so that neighbouring ones share nothing."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def _keep_statistics(network: nn.Module, wanted: bool) -> None:
    """Whether layers that keep running figures of what they see shall do so. They keep those of the
    first batch of each step, since of several processes only the first one's are kept."""
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = MOMENTUM if wanted else 0.0


class AfterStep(pl.Callback, ABC):
    """Something that is done after every step, which may take several batches."""

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: tuple[int, int, Numbers],
        batch_idx: int,
    ) -> None:
        assert isinstance(pl_module, Training)
        if trainer.global_step > batch[0]:
            self.after_step(trainer, pl_module)

    @abstractmethod
    def after_step(self, trainer: pl.Trainer, module: Training) -> None:
        """What is done."""


class Averaging(AfterStep):
    """Exponential moving average of the trained parameters.

    Lightning's own copies the whole module, data on the GPU included. The decay rises to its
    value, so that early averages forget the random start.
    """

    def __init__(self, decay: float) -> None:
        self.decay, self.updates = decay, 0
        self.averages: dict[str, Tensor] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        for name, parameter in _trained(pl_module):
            kept = self.averages.get(name, parameter.detach().clone())
            self.averages[name] = kept.to(parameter.device)

    def after_step(self, trainer: pl.Trainer, module: Training) -> None:
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        current = [parameter.detach() for _, parameter in _trained(module)]
        torch._foreach_lerp_(list(self.averages.values()), current, 1 - decay)

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.updates, "averages": self.averages}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.updates = state_dict["updates"]
        self.averages = dict(state_dict["averages"])

    @contextmanager
    def applied(self, module: pl.LightningModule) -> Iterator[None]:
        """The module with averaged weights."""
        kept = {name: parameter.detach().clone() for name, parameter in _trained(module)}
        self._put(module, self.averages)
        try:
            yield
        finally:
            self._put(module, kept)

    @torch.no_grad()
    def _put(self, module: pl.LightningModule, values: dict[str, Tensor]) -> None:
        for name, parameter in _trained(module):
            if name in values:
                parameter.copy_(values[name])


def _trained(module: pl.LightningModule) -> list[tuple[str, nn.Parameter]]:
    return [(name, p) for name, p in module.named_parameters() if p.requires_grad]


class WholeCheckpoints(TorchCheckpointIO):
    """Writes checkpoints all or nothing, beside their place: Lightning's own way takes a detour
    through the system's folder for temporary files, which may be another disk, and full."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None
    ) -> None:
        content = io.BytesIO()
        torch.save(checkpoint, content)
        atomic_write(path, content.getvalue())


class Checkpoints(AfterStep):
    """`last.ckpt`, replaced every few minutes and at the end, never by a network gone wrong."""

    def __init__(self, path: Path, minutes: float) -> None:
        self.path, self.minutes = path, minutes
        self.saved = time.monotonic()

    def after_step(self, trainer: pl.Trainer, module: Training) -> None:
        due = time.monotonic() - self.saved > 60 * self.minutes
        ending = trainer.should_stop
        if _agreed(trainer, due) or ending:
            self.save(trainer, module)

    def save(self, trainer: pl.Trainer, module: Training) -> None:
        """Writes the checkpoint, all or nothing."""
        module.check_health(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        trainer.save_checkpoint(self.path)
        self.saved = time.monotonic()


class Curve(AfterStep):
    """Figures: losses every few steps, and those on the validation puzzles."""

    def __init__(
        self,
        stage: Stage,
        averaging: Averaging,
        checkpoint: Path,
        pictures: Path,
        progress: TrainProgress | None,
    ) -> None:
        self.stage, self.averaging, self.progress = stage, averaging, progress
        self.checkpoint, self.pictures = checkpoint, pictures
        self.text, self.since, self.at_step = "", time.monotonic(), 0
        self.latest: dict[str, float] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, Training)
        pl_module.looked = self.at_step = trainer.global_step
        self.since = time.monotonic()

    def after_step(self, trainer: pl.Trainer, module: Training) -> None:
        step, config = trainer.global_step, module.config
        if step % LOG_EVERY == 0 or module.complete:
            module.check_health(self.checkpoint)
            self._log(trainer, module)
        if config.validate_every and (step % config.validate_every == 0 or module.complete):
            self.validate(trainer, module)
        if self.progress is not None and trainer.is_global_zero:
            self.progress(step, config.steps, self.text)

    def _log(self, trainer: pl.Trainer, module: Training) -> None:
        figures = module.means()
        now, step = time.monotonic(), trainer.global_step
        speed = (step - self.at_step) / max(now - self.since, 1e-6)
        self.since, self.at_step = now, step
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        for logger in trainer.loggers:
            logger.log_metrics({**figures, "learning_rate": rate, "steps_a_second": speed}, step)
        self.text = f"loss {figures.get('loss', math.nan):.4g}, {speed:.1f} steps/s"

    def validate(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Judges the averaged weights."""
        if not trainer.is_global_zero:
            return
        step, training = trainer.global_step, module.training
        module.eval()
        with self.averaging.applied(module):
            self.latest = self.stage.validate(step, self.pictures)
        module.train(training)
        if self.latest:
            for logger in trainer.loggers:
                logger.log_metrics({f"val_{k}": v for k, v in self.latest.items()}, step)
        picture = self.pictures / f"step-{step:06d}.png"
        if picture.is_file():
            with Image.open(picture) as image:
                pixels = np.asarray(image.convert("RGB"))
            for logger in trainer.loggers:
                if isinstance(logger, TensorBoardLogger):
                    logger.experiment.add_image("assemblies", pixels, step, dataformats="HWC")


class Stopping(AfterStep):
    """Ends the run after the step in hand, on Ctrl-C, on SIGTERM, or when its time is over.

    A second signal ends it at once.
    """

    def __init__(self, minutes: float | None) -> None:
        self.minutes, self.begun = minutes, time.monotonic()
        self.reason: str | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # After Lightning has set its own handlers, which would end the run in the middle.
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                signal.signal(number, self._asked)

    def _asked(self, number: int, _: FrameType | None) -> None:
        self.reason = "interrupted"
        signal.signal(number, signal.default_int_handler)

    def after_step(self, trainer: pl.Trainer, module: Training) -> None:
        if module.complete:
            trainer.should_stop = True
            return
        if self.minutes is not None and time.monotonic() - self.begun > 60 * self.minutes:
            self.reason = self.reason or "out of time"
        if _agreed(trainer, self.reason is not None):
            self.reason = self.reason or "interrupted"
            trainer.should_stop = True

    @contextmanager
    def handlers_kept(self) -> Iterator[None]:
        """Puts the handlers of signals back that this callback, or Lightning, replaces."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        try:
            yield
        finally:
            if threading.current_thread() is threading.main_thread():
                for number, handler in before.items():
                    signal.signal(number, handler)


def _agreed(trainer: pl.Trainer, wish: bool) -> bool:
    """Whether any rank wishes it; several ranks are asked only now and then."""
    if trainer.world_size == 1:
        return wish
    if trainer.global_step % LOG_EVERY:
        return False
    return bool(trainer.strategy.reduce_boolean_decision(wish, all=False))
