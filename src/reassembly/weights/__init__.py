"""The store of trained weights: safetensors files that load by name, with a checksum.

Files in this folder are listed in `index.json`, each with a model card of the same name. Nothing
is ever downloaded unless `download` is called, and nothing pickled is ever loaded.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from reassembly.errors import InputError
from reassembly.io.files import atomic_write

if TYPE_CHECKING:
    import torch

    from reassembly.diffusion.reassemblenet import ReassembleNet
    from reassembly.texture.encoder import TextureEncoder

__all__ = [
    "ENCODER",
    "WeightFile",
    "Weights",
    "add_weights",
    "anywhere",
    "cache_folder",
    "check_learned_with",
    "check_weights",
    "differences",
    "download",
    "how_to_restore",
    "list_weights",
    "load_module",
    "load_network",
    "load_reassemblenet",
    "load_texture_encoder",
    "load_weights",
    "save_weights",
]

HERE = Path(__file__).parent
INDEX = HERE / "index.json"
RUN_FILE = "weights.safetensors"
"""What a training run leaves in its folder."""
ENCODER = "encoder_sha256"
"""Of a configuration: the encoder whose textures the weights learned from."""
PICKLES = {".pt", ".pth", ".ckpt", ".bin", ".pkl"}
MAKERS = {
    "selector": "`reassembly train --stage selector` and give that run as --init",
    "texture": "`reassembly train --stage texture` and name that run as the encoder",
    "verifier": "`reassembly prepare --joins` and `reassembly train --stage verifier`",
    "joins": "`reassembly train --stage judge`",
    "reassemblenet": "`reassembly train --stage pretrain`",
    **{
        name: f"`reassembly train --stage pretrain --config {name}`"
        for name in ("diffassemble", "puzzlefusion", "pairingnet")
    },
}
"""How weights of a kind are trained."""
HUB_TIMEOUT_S = 5.0
"""How long the hub may take to answer."""

N = TypeVar("N", bound="torch.nn.Module")
DownloadProgress = Callable[[int, int, str], None]
"""(bytes done, bytes in all, what)"""


@dataclass(frozen=True)
class Download:
    """Weights that others publish."""

    url: str
    bytes: int
    sha256: str
    kind: str
    config: Mapping[str, Any]
    about: str


PUBLISHED = {
    "imagenet-resnet18": Download(
        "https://download.pytorch.org/models/resnet18-f37072fd.pth",
        46_830_571,
        "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec",
        "texture",
        {"width": 64, "input_px": 224},
        "ResNet18 trained on ImageNet by torchvision: the paper's texture encoder.",
    )
}


@dataclass(frozen=True, eq=False)
class Weights:
    """The content of a file of weights."""

    tensors: Mapping[str, torch.Tensor]
    config: Mapping[str, Any]
    """What the network was built from."""
    kind: str
    """`selector`, `texture`, `reassemblenet`, ..."""
    name: str
    """As it was asked for."""
    sha256: str
    """Of the file."""


@dataclass(frozen=True)
class WeightFile:
    """One entry of the store."""

    name: str
    path: Path
    kind: str
    bytes: int
    sha256: str
    about: str
    """First line of the model card."""
    present: bool

    @property
    def shipped(self) -> bool:
        """Whether it comes with the package; otherwise it is downloaded."""
        return self.path.parent == HERE


def anywhere(name_or_path: str | PathLike[str]) -> str:
    """The same weights, so that they are found from any working folder.

    A path becomes absolute; names, `hf:owner/name` among them, stay, and so does what is neither.
    """
    text = os.fspath(name_or_path)
    path = Path(text)
    return text if _is_name(text) or not path.exists() else str(path.resolve())


def check_weights(name_or_path: str | PathLike[str], *expect: str) -> None:
    """Raises `InputError` where there are no such weights, without reading them; arguments as of
    `load_weights`."""
    _find(os.fspath(name_or_path), expect[0])


def load_weights(name_or_path: str | PathLike[str], *expect: str) -> Weights:
    """Reads weights, and checks that they are what is wanted.

    Args:
        name_or_path: a name that `reassembly weights` lists; a safetensors file; the folder of a
            training run; or `hf:owner/name[@revision]`, which must have been downloaded before.
        expect: the kind of weights, or several that will do.

    Raises:
        InputError: where there are none, or they are damaged, or of another kind.
    """
    text = os.fspath(name_or_path)
    path, checksum = _find(text, expect[0])
    digest = _sha256(path)
    if checksum is not None and digest != checksum:
        raise InputError(
            f"the weights {text} are damaged: their checksum is {digest[:12]} instead of "
            f"{checksum[:12]}",
            how_to_restore()
            if path.parent == HERE
            else f"Remove the file and run `reassembly weights get {text}`",
            path,
        )
    tensors, about = _read(path)
    kind = about.get("kind") or ("texture" if "conv1.weight" in tensors else "unknown")
    if kind not in expect:
        wanted = " or ".join(expect)
        raise InputError(
            f"these weights are of the kind {kind}, but {wanted} is wanted",
            f"Give weights of the kind {wanted}; `reassembly weights` lists some",
            path,
        )
    try:
        config = json.loads(about.get("config", "{}"))
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise InputError("the weights' configuration is damaged", "Use others", path)
    if kind == "texture" and not config:
        # ResNet18 in torchvision's names, from elsewhere: 64 channels wide, it was trained at 224.
        width = tensors["conv1.weight"].shape[0] if tensors["conv1.weight"].ndim else 0
        config = {"width": width, "input_px": 224 if width == 64 else 64}
        tensors = {key: value for key, value in tensors.items() if not key.startswith("fc.")}
    return Weights(tensors, config, kind, text, digest)


def save_weights(
    path: str | PathLike[str],
    module_or_tensors: torch.nn.Module | Mapping[str, torch.Tensor],
    kind: str,
    config: Mapping[str, Any],
    half: bool = True,
) -> None:
    """Writes a safetensors file, all or nothing.

    Args:
        config: what the network is built from, as plain values.
        half: whether floating-point numbers are stored in half precision.
    """
    import torch
    from safetensors.torch import save

    tensors = (
        module_or_tensors.state_dict()
        if isinstance(module_or_tensors, torch.nn.Module)
        else module_or_tensors
    )
    stored = {
        name: value.detach()
        .to("cpu", torch.float16 if half and value.is_floating_point() else value.dtype)
        .contiguous()
        for name, value in tensors.items()
    }
    about = {"kind": kind, "config": json.dumps(config, sort_keys=True)}
    atomic_write(path, _ordered(save(stored, about)))


def load_module(
    module: torch.nn.Module,
    weights: Weights,
    config: Mapping[str, Any] | None = None,
    plan_only: bool = False,
) -> None:
    """Puts weights into a network, in the network's own precision.

    Args:
        config: what the network was built from, for a better answer where the two differ.
        plan_only: only look whether they fit.

    Raises:
        InputError: naming the first difference, with nothing changed.
    """
    own = module.state_dict()
    for key in [*own, *(key for key in weights.tensors if key not in own)]:
        here, there = own.get(key), weights.tensors.get(key)
        if here is not None and there is not None and here.shape == there.shape:
            continue
        if there is None and key.endswith("num_batches_tracked"):
            continue  # Counts that older files leave out and that evaluation does not need.
        shapes = [
            "has none" if tensor is None else f"has {'x'.join(map(str, tensor.shape)) or 'one'}"
            for tensor in (there, here)
        ]
        what = f"the weights {weights.name} do not fit: of {key}, the file {shapes[0]} and the "
        what += f"network {shapes[1]}"
        differing = differences(weights.config, config) if config is not None else []
        if differing:
            what += f"; they were trained with {', '.join(differing[:4])}"
        raise InputError(what, "Use the configuration they were trained with, or other weights")
    if not plan_only:
        module.load_state_dict({**own, **weights.tensors})


def load_reassemblenet(name_or_path: str | PathLike[str]) -> tuple[ReassembleNet, Weights]:
    """ReassembleNet as it was trained, on the CPU, ready to be used; and its weights."""
    from reassembly.config import ModelConfig, config_from_dict
    from reassembly.diffusion.reassemblenet import ReassembleNet

    weights = load_weights(name_or_path, "reassemblenet")
    try:
        model = config_from_dict(ModelConfig, weights.config["model"])
        sizes = {name: int(weights.config[name]) for name in ("texture_dim", "window_points")}
    except (KeyError, TypeError, InputError):
        raise InputError(
            f"the weights {weights.name} are of another version, or do not tell their network",
            "Train them again",
        ) from None
    network = _built(partial(ReassembleNet, model, **sizes), weights)
    return network.eval(), weights


def check_learned_with(weights: Weights, encoder: Weights) -> None:
    """Raises `InputError` where weights say that they learned from another encoder's textures."""
    learned_with = weights.config.get(ENCODER)
    if learned_with is not None and learned_with != encoder.sha256:
        raise InputError(
            f"the weights {weights.name} learned from textures of another encoder than "
            f"{encoder.name} is",
            "Use the encoder that they were trained with, or train them again",
        )


def load_texture_encoder(name_or_path: str | PathLike[str]) -> tuple[TextureEncoder, Weights]:
    """A texture encoder as it was trained, on the CPU, ready to be used; and its weights."""
    from reassembly.texture.encoder import TextureEncoder
    from reassembly.texture.resnet import ResNet18

    weights = load_weights(name_or_path, "texture")
    width, input_px = weights.config.get("width"), weights.config.get("input_px")
    if not (isinstance(width, int) and isinstance(input_px, int) and min(width, input_px) > 0):
        raise InputError(f"the weights {weights.name} do not tell their network", "Use others")
    trunk = _built(partial(ResNet18, width), weights)
    return TextureEncoder(trunk, input_px).eval(), weights


def load_network(
    system: str,
    network: Callable[[Any], N],
    section: type[Any],
    weights: str | None,
) -> tuple[N, str]:
    """A baseline's network as it was trained, on the CPU, and the checksum of its weights.

    Args:
        system: its name, also that of its weights and of their kind.
        network: builds it from its section of the configuration.
        section: the type of that section.
        weights: a name, a safetensors file or the folder of a run; those shipped when left out.
    """
    from reassembly.config import config_from_dict

    found = load_weights(system if weights is None else weights, system)
    try:
        config = config_from_dict(section, found.config)
    except InputError:
        raise InputError(
            f"the weights {found.name} are of another version", "Train them again"
        ) from None
    built = _built(partial(network, config), found)
    return built.eval(), found.sha256


def _built(network: Callable[[], N], weights: Weights) -> N:
    """The network with its weights.

    What a file tells about its network may be anything: one that is not of the size of its weights
    is not built.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    class NoStart(TorchFunctionMode):
        """Leaves starting values out: to draw them for a plan, torch imports its compiler."""

        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), named: Any = None
        ) -> Any:
            named = named or {}
            if getattr(function, "__name__", None) in {"normal_", "uniform_"}:
                return named.get("tensor", args[0] if args else None)
            return function(*args, **named)

    try:
        with torch.device("meta"), NoStart():
            plan = network()
    except Exception as error:
        what = f"the weights {weights.name} tell of a network that cannot be"
        raise InputError(what, "Use others") from error
    load_module(plan, weights, plan_only=True)
    built = network()
    load_module(built, weights)
    return built


def differences(
    stored: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = ""
) -> list[str]:
    """`denoiser.width 32 instead of 192`, for every value that differs."""
    found: list[str] = []
    for key in stored:
        if key not in wanted or stored[key] == wanted[key]:
            continue
        if isinstance(stored[key], Mapping) and isinstance(wanted[key], Mapping):
            found += differences(stored[key], wanted[key], f"{prefix}{key}.")
        else:
            found.append(f"{prefix}{key} {stored[key]} instead of {wanted[key]}")
    return found


def list_weights() -> list[WeightFile]:
    """Everything that has a name, shipped or published."""
    shipped = [
        WeightFile(
            name,
            HERE / entry["file"],
            entry["kind"],
            entry["bytes"],
            entry["sha256"],
            _card_title(HERE / Path(entry["file"]).with_suffix(".md")),
            (HERE / entry["file"]).is_file(),
        )
        for name, entry in sorted(_index().items())
    ]
    published = [
        WeightFile(name, path, d.kind, d.bytes, d.sha256, d.about, _is_cached(name))
        for name, d in PUBLISHED.items()
        for path in [_cached(name)]
    ]
    return shipped + published


def add_weights(source: str | PathLike[str], name: str, card: str | PathLike[str]) -> WeightFile:
    """Ships a file of weights with the package, for maintainers: file, model card and checksum.

    Args:
        source: a safetensors file that `save_weights` wrote, or the folder of a training run.
        name: under which it will load.
        card: a Markdown file whose first line says what these weights are.
    """
    if not name.replace("-", "").replace("_", "").isalnum() or name in PUBLISHED:
        raise InputError(f"{name!r} cannot be a name", "Use letters, digits and hyphens")
    path = Path(source)
    path = path / RUN_FILE if path.is_dir() else path
    _, about = _read(path)
    if "kind" not in about or "config" not in about:
        raise InputError("these weights do not say what they are", "Train them with ours", path)
    try:
        text = Path(card).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"this cannot be read: {error}", "Give a Markdown file", card) from None
    if not text.strip():
        raise InputError("this model card is empty", "Say what the weights are", card)
    content = path.read_bytes()
    target = HERE / f"{name}.safetensors"
    atomic_write(target, content)
    atomic_write(target.with_suffix(".md"), text)
    index = _index()
    index[name] = {
        "file": target.name,
        "kind": about["kind"],
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    atomic_write(INDEX, json.dumps(dict(sorted(index.items())), indent=1) + "\n")
    return next(file for file in list_weights() if file.name == name)


def download(
    name: str,
    progress: DownloadProgress | None = None,
    source: str | PathLike[str] | None = None,
) -> Path:
    """Fetches weights that others publish, once, into the cache; the only way to the network.

    Args:
        name: `imagenet-resnet18`, or `hf:owner/name[@revision]`.
        source: the published file, where it was fetched by other means: nothing is downloaded.

    Returns:
        The safetensors file.
    """
    if name.startswith("hf:") and source is None:
        return _from_hub(name, local_only=False)
    if name not in PUBLISHED and source is not None:
        raise InputError(
            f"--from is for {', '.join(PUBLISHED)}",
            "Give the path of other weights where a name is asked for",
        )
    if name not in PUBLISHED:
        known = ", ".join(PUBLISHED)
        raise InputError(f"{name} cannot be downloaded", f"Choose from {known}, hf:owner/name")
    target, wanted = _cached(name), PUBLISHED[name]
    if source is not None:
        _convert(wanted, _given(Path(source), wanted), target)
    elif not _is_whole(name):
        _convert(wanted, b"".join(_fetch(name, wanted, progress)), target)
    return target


def cache_folder() -> Path:
    """Where downloads are kept: `REASSEMBLY_CACHE`, or the system's place for such things."""
    own = os.environ.get("REASSEMBLY_CACHE")
    if own:
        return Path(own)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "reassembly"


def _is_name(text: str) -> bool:
    return text.startswith("hf:") or text in PUBLISHED or text in _index()


def _find(text: str, expect: str) -> tuple[Path, str | None]:
    """The file that is meant, and the checksum it should have, where that is known."""
    if text.startswith("hf:"):
        return _from_hub(text, local_only=True), None
    index = _index()
    if text in index:
        path = HERE / index[text]["file"]
        if not path.is_file():
            raise InputError(
                f"the weights {text} are missing from the installation",
                how_to_restore(),
                path,
            )
        return path, str(index[text]["sha256"])
    if text in PUBLISHED:
        if not _is_cached(text):
            raise InputError(
                f"the weights {text} have not been downloaded",
                f"Run `reassembly weights get {text}` first",
            )
        return _cached(text), _checksum_of(text)
    path = Path(text)
    if path.is_dir():
        path = path / RUN_FILE
    if path.suffix.lower() in PICKLES:
        raise InputError(
            "weights in this format are programs, which may do anything when loaded",
            "Give a .safetensors file",
            path,
        )
    if path.is_file():
        return path, None
    if path.suffix == ".safetensors" or len(path.parts) > 1:
        raise InputError("there are no such weights", "Check the path", path)
    of_kind = [f.name for f in list_weights() if f.kind == expect]
    maker = MAKERS.get(expect)
    advice = [f"Choose from {', '.join(of_kind)}"] if of_kind else []
    advice += [f"train some with {maker}"] if maker else []
    remedy = ", or ".join(advice) or "Give the path of a safetensors file"
    raise InputError(f"there are no weights called {text!r}", remedy[0].upper() + remedy[1:])


def _read(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            about = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"these weights cannot be read: {error}", "Give a whole .safetensors file", path
        ) from None
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise InputError(
                f"these weights are damaged: {name} holds what is no number",
                "Give others, or fetch or train them again",
                path,
            )
    return tensors, about


def _ordered(content: bytes) -> bytes:
    """A safetensors file with its header in order: the library writes metadata in any."""
    length = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + length]), sort_keys=True, separators=(",", ":"))
    text = header.encode("utf-8")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _index() -> dict[str, dict[str, Any]]:
    if not INDEX.is_file():
        return {}
    index: dict[str, dict[str, Any]] = json.loads(INDEX.read_text(encoding="utf-8"))
    return index


def _card_title(card: Path) -> str:
    if not card.is_file():
        return ""
    lines = (line.strip("# ").strip() for line in card.read_text(encoding="utf-8").splitlines())
    return next((line for line in lines if line), "")


def _cached(name: str) -> Path:
    return cache_folder() / f"{name}.safetensors"


def _recorded(path: Path) -> Path:
    """Where the checksum of a download is kept, written after it."""
    return path.with_suffix(".sha256")


def _is_cached(name: str) -> bool:
    path = _cached(name)
    return path.is_file() and _recorded(path).is_file()


def _is_whole(name: str) -> bool:
    return _is_cached(name) and _sha256(_cached(name)) == _checksum_of(name)


def _checksum_of(name: str) -> str:
    """Of a download, as it was when it was fetched."""
    return _recorded(_cached(name)).read_text(encoding="ascii", errors="replace").strip()


def how_to_restore(folder: str = "src/reassembly/weights") -> str:
    """What to do where a file that comes with the package is missing or damaged."""
    if (HERE.parents[2] / ".git").exists():
        return f"Restore it in your clone: git checkout -- {folder}"
    return "Install reassembly again: pip install --force-reinstall reassembly"


def _fetch(name: str, wanted: Download, progress: DownloadProgress | None) -> Iterator[bytes]:
    """The published file, in parts; an error at its end unless it is the right one."""
    from urllib.error import URLError
    from urllib.request import urlopen

    digest, done = hashlib.sha256(), 0
    try:
        with urlopen(wanted.url, timeout=60) as answer:
            while part := answer.read(1 << 20):
                digest.update(part)
                done += len(part)
                if progress is not None:
                    progress(done, wanted.bytes, name)
                if done > wanted.bytes:
                    break
                yield part
    except (URLError, OSError) as error:
        raise InputError(
            f"{wanted.url} cannot be reached ({error})",
            "Check the connection, then try again; or fetch it elsewhere, and run `reassembly "
            f"weights get {name} --from FILE`",
        ) from None
    if digest.hexdigest() != wanted.sha256:
        raise InputError(
            f"what {wanted.url} sent is not the file that was published", "Try again later"
        )


def _given(path: Path, wanted: Download) -> bytes:
    """The published file, fetched by other means."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"this cannot be read ({error})", "Check the path", path) from None
    if hashlib.sha256(content).hexdigest() != wanted.sha256:
        raise InputError(
            f"this is not the file that was published at {wanted.url}", "Fetch it again", path
        )
    return content


def _convert(wanted: Download, content: bytes, target: Path) -> None:
    """A checkpoint as safetensors, without its classifier."""
    import io

    import torch

    state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    trunk = {key: value for key, value in state.items() if not key.startswith("fc.")}
    target.parent.mkdir(parents=True, exist_ok=True)
    save_weights(target, trunk, wanted.kind, wanted.config, half=False)
    atomic_write(_recorded(target), _sha256(target) + "\n")


def _from_hub(text: str, local_only: bool) -> Path:
    """`weights.safetensors` of `hf:owner/name[@revision]`; what was fetched before needs no net."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    owner_name, _, revision = text.removeprefix("hf:").partition("@")
    try:
        with _quiet_hub():
            stored = local_only or not _hub_answers(owner_name, revision)
            path = hf_hub_download(
                owner_name, RUN_FILE, revision=revision or None, local_files_only=stored
            )
        return Path(path)
    except HFValidationError:
        raise InputError(f"{text} is no name on the hub", "Write hf:owner/name") from None
    except LocalEntryNotFoundError:
        what, remedy = f"{text} cannot be reached", "Check the connection, then try again"
        if local_only:
            what = f"{text} has not been downloaded"
            remedy = f"Run `reassembly weights get {text}` first"
        raise InputError(what, remedy) from None
    except Exception as error:  # What a lost connection raises differs by the hub's version.
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        remedy = "Check the connection and the disk, then try again"
        if isinstance(error, HfHubHTTPError):
            remedy = f"Check that it exists, is public and holds {RUN_FILE}"
        raise InputError(f"{text} cannot be fetched: {reason}", remedy) from None


def _hub_answers(owner_name: str, revision: str) -> bool:
    """Whether the hub can be reached: asked once, as `hf_hub_download` itself would go on asking
    for half a minute."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        get_hf_file_metadata(
            hf_hub_url(owner_name, RUN_FILE, revision=revision or None), timeout=HUB_TIMEOUT_S
        )
    except HFValidationError:
        raise
    except HfHubHTTPError:
        return True
    except Exception:  # What a missing network raises differs by the hub's version.
        return False
    return True


@contextmanager
def _quiet_hub() -> Iterator[None]:
    """Keeps the hub's library from logging what our errors say."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
