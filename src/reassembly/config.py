"""Every setting of the learned systems, typed, in one place; read from complete YAML files.

`configs/paper.yaml` is the paper's system, `configs/default.yaml` ours, `configs/tiny.yaml` one
that trains in seconds. A file may leave keys out: the defaults below fill them.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from reassembly.errors import InputError

__all__ = [
    "FREE",
    "NORMALISED",
    "Config",
    "DataConfig",
    "DenoiserConfig",
    "DiffAssembleConfig",
    "DiffusionConfig",
    "FeatureConfig",
    "JoinsConfig",
    "KeypointConfig",
    "LossConfig",
    "ModelConfig",
    "PairingNetConfig",
    "ProposeConfig",
    "PuzzleFusionConfig",
    "TextureConfig",
    "TrainingConfig",
    "VerifierConfig",
    "config_from_dict",
    "load_config",
]


@dataclass(frozen=True)
class KeypointConfig:
    """Which of a piece's 100 candidates the denoiser sees."""

    selector: Literal["fps", "frozen", "learnable"] = "learnable"
    """Farthest point sampling; the pre-trained selector; or the same, trained on."""
    k: int = 20
    """Keypoints a piece; with `adaptive`, from half to twice as many."""
    adaptive: bool = False
    """Beyond the paper: simple outlines get fewer keypoints, jagged ones more."""
    spacing_mm: float = 15.0
    """Beyond the paper: how far apart a learned selector chooses its keypoints, where it has the
    choice; 0 for the best scores, wherever they lie."""


@dataclass(frozen=True)
class FeatureConfig:
    """What the denoiser is told about a keypoint, besides its coordinates."""

    geometry: bool = True
    """Curvature and edge angle."""
    local: bool = True
    """Texture of the patch around it."""
    whole: bool = True
    """Texture of the whole piece: the paper's global feature."""
    windows: bool = True
    """Beyond the paper: the outline around it, seen in its tangent frame."""
    patch_frame: Literal["input", "tangent"] = "tangent"
    """`input` is the paper's; in the tangent frame, patches do not depend on how a piece lies."""
    patch_px: int = 32
    patch_mm_per_px: float = 0.2714
    encoder: str = "texture"
    """Weights of the texture encoder: a name, or a path to a safetensors file."""


@dataclass(frozen=True)
class DenoiserConfig:
    """The network that predicts poses from noisy poses."""

    width: int = 192
    layers: int = 6
    heads: int = 6
    feedforward: int = 2
    """Width of the feed-forward layers, in widths."""
    dropout: float = 0.0
    world: bool = True
    """Beyond the paper: keypoints are also shown where the noisy pose puts them."""
    mating: bool = True
    """Beyond the paper: each layer matches keypoints across pieces and moves pieces accordingly."""


@dataclass(frozen=True)
class DiffusionConfig:
    """The noise process."""

    train_steps: int = 600
    noise: Literal["piece", "keypoint"] = "piece"
    """Whether keypoints of one piece share their noise."""


@dataclass(frozen=True)
class LossConfig:
    """Weights of the losses."""

    translation: float = 1.0
    rotation: float = 1.0
    match: float = 1.0
    """Beyond the paper: which keypoints meet across a break. 0 without."""
    layers: float = 0.5
    """Beyond the paper: the pose that each mating layer arrives at."""
    shape: float = 100.0
    """Beyond the paper: the area and perimeter that a selector in training keeps. Without it, the
    loss `match` rewards keypoints that meet nothing. No other selector is concerned."""
    meet: float = 1.0
    """Beyond the paper: the share of all breaks, by length, that none of the pairs of keypoints
    holds together which a selector in training chooses."""


@dataclass(frozen=True)
class ModelConfig:
    """All that determines the network; stored with its weights."""

    keypoints: KeypointConfig = field(default_factory=KeypointConfig)
    features: FeatureConfig = field(default_factory=FeatureConfig)
    denoiser: DenoiserConfig = field(default_factory=DenoiserConfig)
    diffusion: DiffusionConfig = field(default_factory=DiffusionConfig)


@dataclass(frozen=True)
class TextureConfig:
    """The texture encoder and its own training."""

    width: int = 32
    """Channels of the first stage; 64 is ResNet18, 32 a quarter of its weights."""
    input_px: int = 64
    """Side to which patches are resized; 224 in the paper."""


@dataclass(frozen=True)
class DiffAssembleConfig:
    """The baseline `diffassemble`: all that determines its network; stored with its weights."""

    width: int = 96
    layers: int = 4
    heads: int = 4
    degree: int = 6
    """Edges of a piece in the sparse graph, an even number."""
    complete: int = 8
    """Puzzles of no more pieces than this have all edges."""
    train_steps: int = 600


@dataclass(frozen=True)
class PuzzleFusionConfig:
    """The baseline `puzzlefusion`: all that determines its network; stored with its weights."""

    width: int = 96
    layers: int = 4
    heads: int = 4
    train_steps: int = 600
    noise: Literal["vertex", "piece"] = "piece"
    """`vertex` is the publication's: each has its own. Here vertices of a piece share theirs: the
    mean over 100 vertices of their own leaves little noise, and little to learn."""


@dataclass(frozen=True)
class PairingNetConfig:
    """The baseline `pairingnet`: all that determines its network; stored with its weights."""

    width: int = 64
    layers: int = 4
    """Graph convolutions over contour points, of shape and of paint alike."""
    pool_layers: int = 2
    """Linear transformer layers that sum a piece up."""
    heads: int = 4
    search: float = 0.1
    """Weight of the loss of pair searching beside that of pair matching."""


@dataclass(frozen=True)
class VerifierConfig:
    """The network that judges joins: all that determines it; stored with its weights."""

    width: int = 32
    """Channels of the first stage; the last has four times as many."""
    dropout: float = 0.2


@dataclass(frozen=True)
class ProposeConfig:
    """How placements of two pieces are searched for: how finely, and what counts."""

    cell_mm: float = 1.5
    turn_deg: float = 5.0
    gap_mm: float = 1.5
    """Usual distance of two rims that belong together."""
    spread_mm: float = 2.0
    """By how much that varies."""
    paint: float = 0.3
    """Weight of agreeing paint against contact as such."""
    overlap: float = 0.2
    """mm of rim that a mm^2 of overlap costs."""
    rim_mm: float = 3.0
    """Overlap of what is nearer to the rim counts less."""
    keep: int = 400
    """Proposals of a pair."""
    apart_mm: float = 5.0
    apart_deg: float = 8.0
    """Proposals that differ by less in both are one."""


FREE = ("paint", "overlap")
"""What of it may be 0."""


@dataclass(frozen=True)
class JoinsConfig(VerifierConfig):
    """All that joins are found with; stored with its weights."""

    propose: ProposeConfig = field(default_factory=lambda: ProposeConfig(keep=200))
    """As for the proposals that its judges have learned from."""


@dataclass(frozen=True)
class DataConfig:
    """Made puzzles to train on, where no data are given."""

    preset: str = "paper"
    puzzles: int = 4000
    validation: int = 32
    seed: int = 0
    size_px: int = 1024
    pieces: tuple[int, int] | None = None
    """Fewest and most pieces; None for the preset's own numbers."""


@dataclass(frozen=True)
class TrainingConfig:
    """One training run."""

    optimizer: Literal["adafactor", "adamw"] = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup: int = 500
    """Steps in which the learning rate rises."""
    decay: bool = True
    """Whether the learning rate falls to zero along a cosine."""
    batch: int = 64
    """Puzzles a batch; pieces for the stage `selector`, patches' puzzles for `texture`."""
    accumulate: int = 1
    """Batches a step, whose gradients are averaged; several processes share them out."""
    steps: int = 20000
    minutes: float = 0.0
    """If above 0: the run ends after so many minutes of training, what was resumed counted
    together, or after `steps`, and the learning rate falls with whichever ends it sooner."""
    given: float = 0.25
    """Beyond the paper: the share of puzzles in which, besides the anchor's, poses of some other
    pieces are given, as they are where a user locks pieces."""
    ema: float = 0.999
    """Decay of the averaged weights, which are those that are saved; 0 for none."""
    clip: float = 1.0
    """Largest norm of the gradient."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    validate_every: int = 1000
    """Steps; a picture of validation assemblies is written each time."""
    seed: int = 0


@dataclass(frozen=True)
class Config:
    """A whole configuration file."""

    system: Literal["reassemblenet", "diffassemble", "puzzlefusion", "pairingnet"] = "reassemblenet"
    """What the stages `pretrain` and `finetune` train."""
    model: ModelConfig = field(default_factory=ModelConfig)
    texture: TextureConfig = field(default_factory=TextureConfig)
    diffassemble: DiffAssembleConfig = field(default_factory=DiffAssembleConfig)
    puzzlefusion: PuzzleFusionConfig = field(default_factory=PuzzleFusionConfig)
    pairingnet: PairingNetConfig = field(default_factory=PairingNetConfig)
    verifier: VerifierConfig = field(default_factory=VerifierConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    data: DataConfig = field(default_factory=DataConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in the file."""
        return asdict(self)


T = TypeVar("T")

NORMALISED = 8
"""Groups of channels of the verifier."""

ELSEWHERE = {
    "bs": "batch",
    "batch_size": "batch",
    "accumulate_grad_batches": "accumulate",
    "gradient_accumulation_steps": "accumulate",
    "epochs": "steps",
    "max_epochs": "steps",
    "max_steps": "steps",
    "iterations": "steps",
    "optim": "optimizer",
    "grad_clip": "clip",
    "hidden": "width",
    "dim": "width",
    "d_model": "width",
}
"""What keys are called in other programs, besides by their initials, such as lr."""
SHORT = reprlib.Repr()
"""References in YAML make texts without end out of a few lines."""
SHORT.maxlevel, SHORT.maxlist, SHORT.maxdict, SHORT.maxstring = 2, 4, 4, 80
LONGEST, MOST_BRACKETS = 1_000_000, 300
"""Of a file, in characters: the time that YAML takes grows with the square of its depth."""
LARGEST = 2.0**63
"""Of whole numbers: beyond it something went wrong."""
ALIKE = 0.6
"""From this likeness (difflib's, up to 1) on, a key counts as a slip of the pen."""


def load_config(path: str | PathLike[str]) -> Config:
    """Reads a YAML file.

    Raises:
        InputError: naming the key that is unknown or holds a wrong value, and the nearest key.
    """
    import yaml

    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        if len(text) > LONGEST or max(map(text.count, "[{")) > MOST_BRACKETS:
            raise InputError("is far too long for a configuration", "Give a YAML file", path)
        content = yaml.safe_load(text)
    except FileNotFoundError:
        raise InputError("there is no such configuration", "Check the path", path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", "Give a YAML file", path) from None
    except InputError:
        raise
    # Besides its own errors, those of dates, numbers and depths that do not exist.
    except Exception as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where else ""
        raise InputError(f"is no YAML{line}", "Mend it; configs/ has examples", path) from None
    return config_from_dict(Config, {} if content is None else content, path)


def config_from_dict(kind: type[T], content: Any, path: Path | None = None, prefix: str = "") -> T:
    """A configuration, or a section of one, from plain values; unknown keys are errors."""
    if not isinstance(content, Mapping):
        raise InputError(
            f"{prefix.rstrip('.') or 'the configuration'} must hold keys and values",
            "See configs/default.yaml",
            path,
        )
    hints = get_type_hints(kind)
    names = [entry.name for entry in fields(kind)]  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in content.items():
        if key not in names:
            key = str(key)[:80]
            near = _nearest(kind, key)
            remedy = f"The nearest is {prefix}{near}"
            if near is None:
                remedy = f"There are {', '.join(f'{prefix}{name}' for name in names)}"
            raise InputError(f"unknown key {prefix}{key}", remedy, path)
        if is_dataclass(hints[key]):
            values[key] = config_from_dict(
                hints[key],
                value,
                path,
                f"{prefix}{key}.",
            )
        else:
            values[key] = _checked(hints[key], value, f"{prefix}{key}", path)
    made = kind(**values)
    _check_width(made, prefix, path)
    _check_search(made, prefix, path)
    return made


def _check_width(section: Any, prefix: str, path: Path | None) -> None:
    """Widths are shared out to heads, or to what is normalised together."""
    width = getattr(section, "width", None)
    if width is None:
        return
    parts = NORMALISED if isinstance(section, VerifierConfig) else getattr(section, "heads", 1)
    if parts < 1:
        raise InputError(f"{prefix}heads is {parts}", "Give 1 or more", path)
    if width < 1 or width % parts:
        raise InputError(f"{prefix}width is {width}", f"Give a multiple of {parts}", path)


def _check_search(section: Any, prefix: str, path: Path | None) -> None:
    """A search without cells, turns or distances never ends."""
    if not isinstance(section, ProposeConfig):
        return
    for name, value in asdict(section).items():
        if value == 0 and name not in FREE:
            raise InputError(f"{prefix}{name} is {value}", "Give a number above 0", path)


def _nearest(kind: type[Any], key: str) -> str | None:
    """The key that is probably meant, in this section or in one inside of it, as `a.b`."""
    keys = _keys(kind)
    last = {name: name.rpartition(".")[2] for name in keys}
    initials = {name: "".join(word[0] for word in own.split("_")) for name, own in last.items()}
    tries = [name for name in keys if last[name] == key]
    tries += [name for name in keys if last[name] == ELSEWHERE.get(key)]
    tries += [name for name in keys if "_" in last[name] and initials[name] == key]
    here = [name for name in keys if "." not in name]
    tries += difflib.get_close_matches(key, here, 1, ALIKE)
    return tries[0] if tries else None


def _keys(kind: Any) -> list[str]:
    """All keys of a section, its own before those of sections inside of it."""
    hints = get_type_hints(kind)
    inside = [
        f"{name}.{key}" for name, hint in hints.items() if is_dataclass(hint) for key in _keys(hint)
    ]
    return [*hints, *inside]


def _checked(hint: Any, value: Any, name: str, path: Path | None) -> Any:
    """The value in its type, or an error that says what it should be."""
    origin, args = get_origin(hint), get_args(hint)
    shown = SHORT.repr(value)
    if origin in (Union, UnionType):
        if value is None:
            return None
        return _checked(next(a for a in args if a is not type(None)), value, name, path)
    if origin is Literal:
        if value in args:
            return value
        choices = ", ".join(map(str, args))
        raise InputError(f"{name} is {shown}", f"Choose one of {choices}", path)
    if origin is tuple:
        if isinstance(value, list | tuple) and len(value) == len(args):
            return tuple(_checked(a, v, name, path) for a, v in zip(args, value, strict=True))
        raise InputError(f"{name} is {shown}", f"Give {len(args)} numbers", path)
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        number = value if isinstance(value, int) and abs(value) > LARGEST else float(value)
    elif hint is float and isinstance(value, str):
        # YAML takes 1e-3, without a dot, for text.
        try:
            number = float(value)
        except ValueError:
            raise InputError(f"{name} is {shown}", "Give a number", path) from None
    elif isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        if hint is not int:
            return value
        number = value
    else:
        wanted = {float: "a number", int: "a whole number", bool: "true or false", str: "a text"}
        raise InputError(f"{name} is {shown}", f"Give {wanted[hint]}", path)
    if not 0 <= number < float("inf") or (isinstance(number, int) and number > LARGEST):
        raise InputError(f"{name} is {shown}", "Give a number of 0 or more", path)
    return number
