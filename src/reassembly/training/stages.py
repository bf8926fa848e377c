"""What is trained, stage by stage: the network, its loss on some puzzles, and how it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from reassembly.config import Config
from reassembly.diffusion.batch import Batch
from reassembly.diffusion.reassemblenet import ReassembleNet
from reassembly.errors import InputError
from reassembly.keypoints.pretraining import (
    K_RANGE,
    TEMPERATURES,
    TYPICAL_K,
    Outlines,
    deformed,
    kept_area_and_perimeter,
    selector_loss,
)
from reassembly.keypoints.selector import KeypointSelector, top_k
from reassembly.texture.encoder import TextureEncoder
from reassembly.texture.pretraining import PatchContrast
from reassembly.texture.resnet import ResNet18
from reassembly.training.graphs import GraphedLosses
from reassembly.training.pool import COLUMNS, Pool
from reassembly.training.validation import (
    draw_assemblies,
    pose_errors,
    sampled_poses,
    validation_loss,
)
from reassembly.training.verifying import VerifierStage
from reassembly.weights import ENCODER, check_learned_with, load_module, load_weights

__all__ = [
    "BASELINES",
    "STAGES",
    "BaselineStage",
    "PoseStage",
    "PuzzleStage",
    "SelectorStage",
    "Stage",
    "TextureStage",
    "stage_of",
]

OUTLINE = ("points", "curvature", "edge_angle", "area")
MEETING = ("meets_piece", "meets_point")
PARTNER_MM = 6.0
"""How far the point that a candidate met may lie from the candidate that stands for it."""
MOST_PATCHES = 4096
"""Patches compared with each other in a step of the stage `texture`."""
VALIDATION_SEED = 1


class Stage(Protocol):
    """One of the things that can be trained."""

    kind: str
    """Of the weights it gives."""
    sizes: NDArray[np.int64]
    """One entry for each number that a step may be shown; steps see equal ones together."""
    things: str
    """What the numbers count."""

    def __init__(self, config: Config, pool: Any, validation: Any) -> None: ...

    @staticmethod
    def columns(config: Config) -> tuple[str, ...]:
        """What the stage needs of a pool."""

    @property
    def network(self) -> nn.Module:
        """What is trained, whole."""

    def begin(self, init: str | None) -> None:
        """Loads the weights that training starts from."""

    def move(self, device: torch.device) -> None:
        """Puts the data where the network is."""

    def losses(self, numbers: NDArray[np.int64], step: int, generator: torch.Generator) -> Any:
        """`loss` and its parts, of one step."""

    def validate(self, step: int, folder: Path) -> dict[str, float]:
        """Figures on the validation puzzles; pictures go into the folder."""

    def export(self) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        """The weights, and the configuration from which their network is built."""


class PuzzleStage:
    """Training of a network that finds the poses of a puzzle's pieces: what all systems share."""

    things = "puzzles"

    def __init__(
        self, config: Config, pool: Pool, validation: Pool | None, network: Any, about: Any
    ) -> None:
        """Args:
        network: a `diffusion.network.PoseNetwork`.
        about: the configuration from which it is built, as weights keep it.
        """
        self.config, self.pool, self.validation = config, pool, validation
        self.kind: str = config.system
        self.sizes = pool.pieces
        self.network, self.about = network, about
        self._batch: Batch | None = None
        self._graphs: GraphedLosses | None = None

    def move(self, device: torch.device) -> None:
        self.pool = _moved(self.pool, device)
        self.device = device
        if device.type == "cuda" and self.network.graphable:
            self._graphs = GraphedLosses(self.network, self.config.loss)
        if self.validation is not None:
            self._batch = self.validation.batch(range(len(self.validation))).to(device)

    def losses(
        self, numbers: NDArray[np.int64], step: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        batch = self.pool.batch(numbers)
        if batch.points.device != self.device:
            batch = batch.to(self.device)
        t, noise = self.network.draw(batch, generator)
        turns = self._turns(sum(batch.pieces), generator)
        given = _given(batch.pieces, self.config.training.given, generator)
        t, noise, turns, given = (
            value.to(self.device, non_blocking=True) for value in (t, noise, turns, given)
        )
        if self._graphs is not None:
            return self._graphs(batch, t, noise, turns, given)
        losses: dict[str, Tensor] = self.network.loss_at(
            batch.turned(turns), self.config.loss, t, noise, given
        )
        return losses

    def _turns(self, pieces: int, generator: torch.Generator) -> Tensor:
        """(P,) radians by which pieces are turned, as no piece's own frame means anything."""
        return torch.rand(pieces, generator=generator) * (2 * torch.pi)

    def validate(self, step: int, folder: Path) -> dict[str, float]:
        if self._batch is None:
            return {}
        figures = self._figures(self._batch, step, folder)
        losses = validation_loss(self.network, self._batch, self.config.loss, VALIDATION_SEED)
        return {**figures, **losses}

    def _figures(self, batch: Batch, step: int, folder: Path) -> dict[str, float]:
        """How far poses are off, and a picture of them."""
        vectors = sampled_poses(self.network, batch, VALIDATION_SEED)
        errors = pose_errors(batch, vectors)
        title = (
            f"step {step}: median {errors['rotation_deg']:.1f}°, {errors['position_mm']:.1f} mm, "
            f"{errors['close']:.0%} of pieces close"
        )
        draw_assemblies(batch, vectors, folder / f"step-{step:06d}.png", title)
        return errors

    def export(self) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        return self.network.state_dict(), self.about


class PoseStage(PuzzleStage):
    """Training of ReassembleNet; `finetune` differs by its data and starting point only."""

    network: ReassembleNet

    def __init__(self, config: Config, pool: Pool, validation: Pool | None) -> None:
        features = config.model.features
        for wanted, column in ((features.local, "local"), (features.whole, "whole")):
            for each in (pool, validation):
                if wanted and each is not None and column not in each.tensors:
                    raise InputError(
                        f"the pool holds no texture, but model.features.{column} is on",
                        "Prepare it with --encoder, or turn features.local and features.whole off",
                    )
        texture = pool.tensors.get("local", pool.tensors.get("whole"))
        built = {
            "texture_dim": 256 if texture is None else int(texture.shape[-1]),
            "window_points": int(pool.tensors["windows"].shape[2]),
        }
        network = ReassembleNet(config.model, **built)
        about = {"model": asdict(config.model), **built}
        super().__init__(config, pool, validation, network, about)
        self.encoder = None
        if features.local or features.whole:
            self.encoder = load_weights(features.encoder, "texture")

    def export(self) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        tensors, about = super().export()
        learned_with = {} if self.encoder is None else {ENCODER: self.encoder.sha256}
        return tensors, {**about, **learned_with}

    def begin(self, init: str | None) -> None:
        selector = self.network.selector
        weights = None if init is None else load_weights(init, "reassemblenet", "selector")
        if weights is not None and weights.kind == "reassemblenet":
            load_module(self.network, weights, self.about)
            if self.encoder is not None:
                check_learned_with(weights, self.encoder)
        elif selector is not None:
            load_module(selector, weights or load_weights("selector", "selector"))
        elif weights is not None:
            raise InputError(
                f"{init} holds a selector, but model.keypoints.selector is fps",
                "Leave --init out, or choose frozen or learnable",
            )

    @staticmethod
    def columns(config: Config) -> tuple[str, ...]:
        features = config.model.features
        unused = {"local": not features.local, "whole": not features.whole}
        return tuple(name for name in COLUMNS if not unused.get(name))

    def _turns(self, pieces: int, generator: torch.Generator) -> Tensor:
        if self.config.model.features.patch_frame == "input" and "local" in self.pool.tensors:
            return torch.zeros(pieces)  # Textures of the input frame were taken before.
        return super()._turns(pieces, generator)

    @torch.no_grad()
    def validate(self, step: int, folder: Path) -> dict[str, float]:
        """Also what a learned choice of keypoints keeps of the outlines."""
        figures, batch = super().validate(step, folder), self._batch
        if batch is None or self.network.selector is None or self.config.model.keypoints.adaptive:
            return figures
        chosen = self.network.choose(batch).candidate.view(len(batch.area), -1)
        area, perimeter = kept_area_and_perimeter(batch.points, chosen)
        kept = {"kept_area": float(area.mean()), "kept_perimeter": float(perimeter.mean())}
        return {**figures, **kept}


@dataclass(frozen=True)
class Baseline:
    """How a system that ReassembleNet is compared with is trained."""

    target: str
    """`package.module:class` of its network, which is called with its section of the
    configuration, and is a `diffusion.network.PoseNetwork`."""
    columns: tuple[str, ...]
    """What it looks at in a pool, besides what every system needs."""
    views: tuple[str, ...] = ()
    """Of these, what must be prepared for it; see `training.views`."""


BASELINES = {
    "diffassemble": Baseline(
        "reassembly.solvers.diffassemble:DiffAssembleNet", ("pictures",), ("pictures",)
    ),
    "puzzlefusion": Baseline("reassembly.solvers.puzzlefusion:PuzzleFusionNet", ()),
    "pairingnet": Baseline(
        "reassembly.solvers.pairingnet:PairingNet", ("contour", "contour_paint"), ("contour",)
    ),
}
"""By the name of the system, which is also that of its section and of its weights' kind."""
GEOMETRY = ("points", "edge_angle", "curvature", "windows", "area", "pose")


class BaselineStage(PuzzleStage):
    """Training of a system that ReassembleNet is compared with: same data, same loop."""

    def __init__(self, config: Config, pool: Pool, validation: Pool | None) -> None:
        wanted = BASELINES[config.system]
        for each in (pool, validation):
            missing = [c for c in wanted.columns if each is not None and c not in each.tensors]
            if missing:
                raise InputError(
                    f"the pool holds no {missing[0]}, which {config.system} looks at",
                    f"Prepare it with --view {wanted.views[0]}",
                )
        section = getattr(config, config.system)
        module, name = wanted.target.split(":")
        network = getattr(import_module(module), name)(section)
        super().__init__(config, pool, validation, network, asdict(section))

    def begin(self, init: str | None) -> None:
        if init is not None:
            load_module(self.network, load_weights(init, self.kind), self.about)

    @staticmethod
    def columns(config: Config) -> tuple[str, ...]:
        return (*GEOMETRY, *MEETING, *BASELINES[config.system].columns)

    def _figures(self, batch: Batch, step: int, folder: Path) -> dict[str, float]:
        """The network's own where it has other ones."""
        own = getattr(self.network, "figures", None)
        return super()._figures(batch, step, folder) if own is None else own(batch)


class SelectorStage:
    """Training of the keypoint selector on single pieces, turned and mirrored at random."""

    kind, things = "selector", "pieces"

    def __init__(self, config: Config, pool: Pool, validation: Pool | None) -> None:
        self.config = config
        self.pieces = _outlines(pool)
        self.unseen = None if validation is None else _outlines(validation)
        self.sizes = np.ones(len(self.pieces), np.int64)
        self.network = KeypointSelector()

    def begin(self, init: str | None) -> None:
        if init is not None:
            load_module(self.network, load_weights(init, "selector"))

    @staticmethod
    def columns(config: Config) -> tuple[str, ...]:
        return OUTLINE

    def move(self, device: torch.device) -> None:
        self.pieces = _outlines_on(self.pieces, device)
        if self.unseen is not None:
            self.unseen = _outlines_on(self.unseen, device)

    def losses(
        self, numbers: NDArray[np.int64], step: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        device = self.pieces.points.device
        matrices = _turns_and_mirrors(len(numbers), generator).to(device)
        k = int(torch.randint(K_RANGE[0], K_RANGE[1] + 1, (), generator=generator))
        first, last = TEMPERATURES
        through = step / max(1, self.config.training.steps // 2)
        temperature = first * (last / first) ** min(through, 1.0)
        drawn = deformed(self.pieces[torch.from_numpy(numbers).to(device)], matrices)
        losses = selector_loss(self.network, drawn.inputs, drawn.points, k, temperature)
        # Whatever the points, losses fall with about the square of k.
        return {**losses, "loss": losses["loss"] * (k / TYPICAL_K) ** 2}

    @torch.no_grad()
    def validate(self, step: int, folder: Path) -> dict[str, float]:
        if self.unseen is None:
            return {}
        k = self.config.model.keypoints.k
        _, scores = self.network.embed(self.unseen.inputs)
        area, perimeter = kept_area_and_perimeter(self.unseen.points, top_k(scores, k))
        return {"kept_area": float(area.mean()), "kept_perimeter": float(perimeter.mean())}

    def export(self) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        return self.network.state_dict(), {}


class TextureStage:
    """Training of the texture encoder: patches that met across a break are to look alike."""

    kind, things = "texture", "puzzles"

    def __init__(self, config: Config, pool: Pool, validation: Pool | None) -> None:
        if any("patches" not in each.tensors for each in (pool, validation) if each is not None):
            raise InputError(
                "the pool holds no patches", "Prepare one with `reassembly prepare --keep-patches`"
            )
        self.config, self.pool, self.validation = config, pool, validation
        self.sizes = np.ones(len(pool), np.int64)
        trunk = ResNet18(config.texture.width)
        self.network = PatchContrast(TextureEncoder(trunk, config.texture.input_px))

    def begin(self, init: str | None) -> None:
        if init is not None:
            trunk = self.network.encoder.trunk
            load_module(trunk, load_weights(init, "texture"), asdict(self.config.texture))

    @staticmethod
    def columns(config: Config) -> tuple[str, ...]:
        return (*OUTLINE, "windows", *MEETING, "patches")

    def move(self, device: torch.device) -> None:
        self.pool = _moved(self.pool, device)
        self.device = device

    def losses(
        self, numbers: NDArray[np.int64], step: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        patches, partner = _pairs(self.pool, numbers, generator)
        lights = torch.Generator(self.device).manual_seed(
            int(torch.randint(2**31, (), generator=generator))
        )
        return self.network.loss(patches.to(self.device), partner.to(self.device), lights)

    @torch.no_grad()
    def validate(self, step: int, folder: Path) -> dict[str, float]:
        if self.validation is None:
            return {}
        generator = torch.Generator().manual_seed(VALIDATION_SEED)
        numbers = np.arange(min(len(self.validation), self.config.training.batch))
        patches, partner = _pairs(self.validation, numbers, generator)
        losses = self.network.loss(patches.to(self.device), partner.to(self.device))
        return {name: float(value) for name, value in losses.items()}

    def export(self) -> tuple[Mapping[str, Tensor], dict[str, Any]]:
        return self.network.encoder.trunk.state_dict(), asdict(self.config.texture)


STAGES: dict[str, type[Stage]] = {
    "selector": SelectorStage,
    "texture": TextureStage,
    "pretrain": PoseStage,
    "finetune": PoseStage,
    "verifier": VerifierStage,
}
POSES = ("pretrain", "finetune")


def stage_of(name: str, config: Config) -> type[Stage]:
    """The stage of that name for the system that the configuration is about."""
    if name in POSES and config.system != "reassemblenet":
        return BaselineStage
    return STAGES[name]


def _moved(pool: Pool, device: torch.device) -> Pool:
    """The pool on the device, if that leaves enough memory to train."""
    if device.type == "cuda" and pool.nbytes > 0.6 * torch.cuda.mem_get_info(device)[0]:
        return pool
    return pool.to(device)


def _outlines(pool: Pool) -> Outlines:
    return Outlines(*(pool.tensors[name] for name in ("points", "curvature", "edge_angle")))


def _outlines_on(outlines: Outlines, device: torch.device) -> Outlines:
    parts = (outlines.points, outlines.curvature, outlines.edge_angle)
    return Outlines(*(part.to(device) for part in parts))


def _given(pieces: tuple[int, ...], share: float, generator: torch.Generator) -> Tensor:
    """(P,) bool: in this share of the puzzles, any number of pieces, drawn at random."""
    chance = torch.rand(len(pieces), generator=generator)
    chance[torch.rand(len(pieces), generator=generator) >= share] = 0.0
    return torch.rand(sum(pieces), generator=generator) < chance.repeat_interleave(
        torch.tensor(pieces)
    )


def _turns_and_mirrors(count: int, generator: torch.Generator) -> Tensor:
    """(count, 2, 2) matrices of random turns; every second one, about, also mirrors."""
    angle = torch.rand(count, generator=generator) * (2 * torch.pi)
    sign = torch.rand(count, generator=generator).sub(0.5).sign()
    c, s = angle.cos(), angle.sin()
    return torch.stack([torch.stack([c * sign, -s], -1), torch.stack([s * sign, c], -1)], -2)


def _pairs(
    pool: Pool, numbers: NDArray[np.int64], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Patches (M, s, s, 4) of some puzzles, and which of them met (M,), -1 for none.

    The partner of a candidate is the candidate nearest to the point it met. Where there are too
    many, some pairs are drawn.
    """
    batch = pool.batch(numbers)
    assert batch.meets_point is not None
    pieces, candidates = batch.across.shape
    other = batch.across.clamp_min(0)
    apart = (batch.points[other] - batch.meets_point[:, :, None]).norm(dim=-1)
    nearest, which = apart.min(dim=-1)
    met = (batch.across >= 0) & (nearest <= PARTNER_MM)
    partner = torch.where(met, other * candidates + which, -1).flatten()
    query = partner.ge(0).nonzero()[:, 0]
    drawn = torch.randperm(len(query), generator=generator)[: MOST_PATCHES // 2]
    query = query[drawn.to(query.device)]
    kept = torch.unique(torch.cat([query, partner[query]]))
    place = torch.full((pieces * candidates,), -1, device=kept.device)
    place[kept] = torch.arange(len(kept), device=kept.device)
    chosen = torch.full_like(place, -1)
    chosen[query] = place[partner[query]]
    rows = torch.from_numpy(
        np.concatenate([np.arange(pool.first[n], pool.first[n] + pool.pieces[n]) for n in numbers])
    ).to(kept.device)
    patches = pool.tensors["patches"][rows[kept // candidates], kept % candidates]
    return patches, chosen[kept]
