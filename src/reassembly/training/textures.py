"""What becomes of a puzzle's pictures in a pool: features of an encoder, or the patches."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save

from reassembly.config import FeatureConfig
from reassembly.errors import InputError
from reassembly.io.files import atomic_write
from reassembly.texture.encoder import TextureEncoder
from reassembly.training.pool import SHARD, pool_folders
from reassembly.training.prepare import (
    Encoder,
    PatchSettings,
    Prepared,
    PrepareProgress,
    begin_pool,
)
from reassembly.weights import Weights, load_texture_encoder, load_weights

__all__ = ["check_textures", "encode_pool", "keep_patches", "texture_columns"]


def keep_patches(features: FeatureConfig) -> tuple[PatchSettings, Encoder]:
    """The pictures themselves, for training an encoder; see `encode_pool`."""

    def columns(puzzle: Prepared) -> dict[str, NDArray[np.uint8]]:
        assert puzzle.patches is not None and puzzle.wholes is not None
        return {"patches": puzzle.patches, "wholes": puzzle.wholes}

    cut = PatchSettings(features.patch_frame, features.patch_px, features.patch_mm_per_px)
    return cut, Encoder(columns, {"patches": True})


def texture_columns(
    weights: str, features: FeatureConfig, device: str = "cpu", batch: int = 1024
) -> tuple[PatchSettings, Encoder]:
    """Features of the patches (`local`) and of the whole pieces (`whole`).

    Args:
        weights: of the encoder, by name or path.
        batch: patches that go through the encoder at once.
    """
    encoder, loaded = _encoder(weights, device)

    def encoded(pictures: NDArray[np.uint8]) -> NDArray[np.float16]:
        return encoder.encode(pictures, batch).half().cpu().numpy()

    def columns(puzzle: Prepared) -> dict[str, NDArray[np.float16]]:
        assert puzzle.patches is not None and puzzle.wholes is not None
        pieces, candidates = puzzle.patches.shape[:2]
        local = encoded(puzzle.patches.reshape(-1, *puzzle.patches.shape[2:]))
        return {
            "local": local.reshape(pieces, candidates, -1),
            "whole": encoded(puzzle.wholes),
        }

    cut = PatchSettings(
        features.patch_frame,
        features.patch_px,
        features.patch_mm_per_px,
        whole_px=encoder.input_px,
    )
    return cut, Encoder(columns, {"encoder": loaded.sha256})


def encode_pool(
    source: str | PathLike[str],
    out: str | PathLike[str],
    weights: str,
    device: str = "cpu",
    batch: int = 4096,
    progress: PrepareProgress | None = None,
) -> int:
    """Writes a pool with features of an encoder in place of the pictures that `source` kept.

    Shards that are there already stay. Returns how many shards were written.
    """
    encoder, loaded = _encoder(weights, device)
    folder = Path(out)
    paths = sorted(Path(source).glob(SHARD))
    if not paths:
        raise InputError("holds no prepared puzzles", "Prepare some first", source)
    begin_pool(folder, {"source": _about(Path(source)), "encoder": loaded.sha256})
    written = 0
    for number, path in enumerate(paths):
        if not (folder / path.name).is_file():
            shard = load_file(path)
            if "patches" not in shard:
                raise InputError("holds no patches", "Prepare it with --keep-patches", path)
            patches, wholes = shard.pop("patches"), shard.pop("wholes")
            local = encoder.encode(patches.flatten(0, 1), batch).half().cpu()
            shard["local"] = local.view(*patches.shape[:2], -1)
            shard["whole"] = encoder.encode(wholes, batch).half().cpu()
            atomic_write(folder / path.name, save(shard))
            written += 1
        if progress is not None:
            progress(number + 1, len(paths), "shards")
    return written


def check_textures(pool: str | PathLike[str], features: FeatureConfig) -> None:
    """Raises `InputError` where a pool says that its textures are another encoder's, or those of
    patches that were cut in another way."""
    for folder in pool_folders(pool):
        about = _about(folder)
        if not isinstance(about, dict):
            continue
        source = about.get("source")
        texture = about.get("texture") or (isinstance(source, dict) and source.get("texture")) or {}
        sha256 = about.get("encoder") or texture.get("encoder")
        if sha256 is not None and sha256 != load_weights(features.encoder, "texture").sha256:
            raise InputError(
                f"its textures were not made by the encoder {features.encoder!r} of "
                "model.features.encoder",
                "Prepare a pool with that encoder, or name the pool's own in the configuration",
                folder,
            )
        wanted = PatchSettings(features.patch_frame, features.patch_px, features.patch_mm_per_px)
        names = {"frame": "patch_frame", "size_px": "patch_px", "mm_per_px": "patch_mm_per_px"}
        for name, key in names.items() if features.local else ():
            if (made := texture.get(name, getattr(wanted, name))) != getattr(wanted, name):
                frame, scale = features.patch_frame, features.patch_mm_per_px
                raise InputError(
                    f"its patches were cut otherwise: model.features.{key} is "
                    f"{getattr(wanted, name)}, and the pool's {made}",
                    f"Prepare a pool with --patch-frame {frame} --patch-mm-per-px {scale}, or "
                    f"train with --set model.features.{key}={made}",
                    folder,
                )


def _encoder(weights: str, device: str) -> tuple[TextureEncoder, Weights]:
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("there is no CUDA GPU here", "Use --device cpu")
    encoder, loaded = load_texture_encoder(weights)
    return encoder.to(device), loaded


def _about(pool: Path) -> Any:
    """What a pool was made of; its name where it does not say."""
    try:
        return json.loads((pool / "pool.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return pool.name
