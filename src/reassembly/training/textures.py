"""What becomes of a puzzle's pictures in a pool: features of an encoder, or the patches."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from reassembly.config import FeatureConfig
from reassembly.errors import InputError
from reassembly.training.prepare import Encoder, PatchSettings, Prepared
from reassembly.weights import load_texture_encoder

__all__ = ["keep_patches", "texture_columns"]


def keep_patches(features: FeatureConfig) -> tuple[PatchSettings, Encoder]:
    """The patches themselves, for training an encoder."""

    def columns(puzzle: Prepared) -> dict[str, NDArray[np.uint8]]:
        assert puzzle.patches is not None
        return {"patches": puzzle.patches}

    cut = PatchSettings(
        features.patch_frame, features.patch_px, features.patch_mm_per_px, whole_px=None
    )
    return cut, Encoder(columns, {"patches": True})


def texture_columns(
    weights: str, features: FeatureConfig, device: str = "cpu", batch: int = 1024
) -> tuple[PatchSettings, Encoder]:
    """Features of the patches (`local`) and of the whole pieces (`whole`).

    Args:
        weights: of the encoder, by name or path.
        batch: patches that go through the encoder at once.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("there is no CUDA GPU here", "Use --device cpu")
    encoder, loaded = load_texture_encoder(weights)
    encoder = encoder.to(device)

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
