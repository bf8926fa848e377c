"""Pieces of a project as a `Puzzle`, for solvers, drawings and files. Runs in a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from reassembly.app.database import PieceRow
from reassembly.app.operations import Planar
from reassembly.app.pictures import INSIDE, read_rgba
from reassembly.pose import Pose
from reassembly.puzzle import Fragment, Puzzle

__all__ = ["fragment_of", "payload_of", "pose_of", "puzzle_of", "unique_labels"]


def payload_of(row: PieceRow) -> dict[str, Any]:
    """What a worker needs to know of a piece."""
    return {
        "id": row.id,
        "name": row.name,
        "inventory": row.inventory,
        "note": row.note,
        "provenance": row.provenance,
        "filename": row.filename,
        "picture": row.picture,
        "mm_per_px": row.mm_per_px,
        "scale_origin": row.scale_origin,
        "frame_px": [row.frame_width_px, row.frame_height_px],
        "offset_px": [row.left_px, row.top_px],
        "warnings": list(row.warnings),
    }


def fragment_of(
    piece: Mapping[str, Any],
    images: Path,
    label: str | None = None,
    gain: Sequence[float] | None = None,
) -> Fragment:
    """A piece with its pixels.

    Args:
        piece: as `payload_of` gives it.
        label: the fragment's id; the piece's by default.
        gain: factors of red, green and blue.
    """
    rgba = read_rgba(images, piece["picture"])
    mask = rgba[..., 3] >= INSIDE
    rgb = np.asarray(cv2.bitwise_and(rgba[..., :3], rgba[..., :3], mask=mask.view(np.uint8)))
    if gain is not None:
        rgb = np.clip(rgb * np.asarray(gain), 0, 255).astype(np.uint8)
    fragment = Fragment(
        label or piece["id"],
        np.ascontiguousarray(rgb),
        mask,
        piece["mm_per_px"],
        tuple(piece["frame_px"]),
        tuple(piece["offset_px"]),
        metadata={
            "filename": piece["filename"] or f"{piece['name']}.png",
            "scale": piece["scale_origin"],
        },
    )
    return fragment.cropped()


def puzzle_of(name: str, pieces: Sequence[Mapping[str, Any]], images: Path) -> Puzzle:
    """Fragments under the pieces' ids."""
    return Puzzle(name, tuple(fragment_of(piece, images) for piece in pieces))


def pose_of(placement: Mapping[str, float]) -> Pose:
    """Where a placement puts its piece."""
    return Planar(
        x_mm=placement["x_mm"], y_mm=placement["y_mm"], rotation_deg=placement["rotation_deg"]
    ).pose()


def unique_labels(pieces: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """By id, the pieces' names, with a number behind those that several have."""
    taken: set[str] = set()
    labels = {}
    for piece in pieces:
        label, number = piece["name"], 1
        while label.casefold() in taken:
            number += 1
            label = f"{piece['name']} ({number})"
        taken.add(label.casefold())
        labels[piece["id"]] = label
    return labels
