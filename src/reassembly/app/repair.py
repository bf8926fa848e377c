"""Mending a cut-out by hand: another mask, parts for a whole, a whole for parts. In a worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.app.imports import piece_id
from reassembly.app.pictures import INSIDE, keep_cut_out, read_rgba
from reassembly.app.puzzles import pose_of
from reassembly.app.worker import Task
from reassembly.errors import InputError
from reassembly.io.images import read_image
from reassembly.pose import Pose

__all__ = ["repair"]

MIN_PART_PX = 100
"""Anything smaller is a speck."""
MARGIN_PX = 24
CLOSE_PX = 3
"""Pieces that are merged may lie this far apart."""
NECK = 0.6
"""A part's core is where the piece is at least this thick, of its thickest place."""
MAX_MERGED_PX = 60_000_000
Mask = NDArray[np.bool_]


def repair(task: Task) -> dict[str, Any]:
    """Payload: `how` (mask, split, merge), `job`, `images`, `piece` or `pieces`, and more.

    Returns:
        Either a new `picture` for the piece, or new `pieces` in the place of old ones; and
        `pictures`, columns of `PictureRow`.
    """
    images = Path(task.payload["images"])
    how = task.payload["how"]
    if how == "merge":
        return _merge(task, images)
    piece = task.payload["piece"]
    rgba = read_rgba(images, piece["picture"])
    if how == "mask":
        mask = _sent_mask(task.payload["path"], rgba.shape[:2])
        parts = _parts(mask)
        if not task.payload["split"] or len(parts) == 1:
            return _one(images, rgba, parts)
    else:
        parts = _cut(rgba[..., 3] >= INSIDE, task.payload["line_px"])
    return _several(task, images, rgba, parts)


def _sent_mask(path: str, shape: tuple[int, ...]) -> Mask:
    picture = read_image(Path(path), "the mask")
    if picture.rgb.shape[:2] != shape:
        height, width = shape
        raise InputError(
            "the mask is not as large as the piece's picture", f"Send {width} x {height} pixels"
        )
    inside: Mask = picture.rgb.max(axis=2) > 127
    if picture.alpha is not None:
        inside &= picture.alpha > 127
    return inside


def _parts(mask: Mask) -> list[Mask]:
    """Connected parts, the largest first, without specks."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(
        mask.astype(np.uint8), connectivity=4
    )
    areas = {k: int(stats[k, cv2.CC_STAT_AREA]) for k in range(1, count)}
    kept = sorted((k for k in areas if areas[k] >= MIN_PART_PX), key=lambda k: -areas[k])
    if not kept:
        raise InputError("nothing is left of this piece", "Leave some of it, or discard it")
    return [np.asarray(labels == k) for k in kept]


def _one(images: Path, rgba: NDArray[np.uint8], parts: list[Mask]) -> dict[str, Any]:
    columns = keep_cut_out(images, rgba[..., :3], parts[0])
    doubts = []
    if len(parts) > 1:
        doubts.append(f"Only the largest of {len(parts)} parts is kept. Split keeps them all.")
    return {"picture": columns["sha256"], "pictures": [columns], "warnings": doubts}


def _cut(mask: Mask, line_px: list[list[float]] | None) -> list[Mask]:
    """The parts that a drawn line divides a piece into; without one, its lobes."""
    if line_px is None:
        parts = _parts(mask)
        return parts if len(parts) > 1 else _lobes(mask)
    line = np.zeros(mask.shape, np.uint8)
    points = np.rint(np.array(line_px) - 0.5).astype(np.int32)
    cv2.polylines(line, [points.reshape(-1, 1, 2)], isClosed=False, color=1, thickness=2)
    parts = _parts(mask & (line == 0))
    if len(parts) < 2:
        raise InputError(
            "this line does not cut the piece apart", "Draw it from one side right to the other"
        )
    return _shared_out(mask, parts)


def _lobes(mask: Mask) -> list[Mask]:
    """Pieces that touch at a neck, told apart by how thick they are."""
    depth: Any = cv2.distanceTransform(
        np.pad(mask, 1).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE
    )
    depth = depth[1:-1, 1:-1]
    for share in (NECK, 0.75, 0.45, 0.3):
        cores = [part & mask for part in _cores(depth > share * depth.max())]
        if len(cores) > 1:
            return _shared_out(mask, cores)
    raise InputError("this looks like one piece", "Draw a line where it is to be cut")


def _cores(mask: Mask) -> list[Mask]:
    count, labels, stats, _ = cv2.connectedComponentsWithStats(
        mask.astype(np.uint8), connectivity=4
    )
    return [np.asarray(labels == k) for k in range(1, count) if stats[k, cv2.CC_STAT_AREA] >= 20]


def _shared_out(mask: Mask, parts: list[Mask]) -> list[Mask]:
    """Every pixel of `mask` to the nearest part; each part in one."""
    distance = np.stack(
        [
            cv2.distanceTransform((~part).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
            for part in parts
        ]
    )
    nearest = distance.argmin(axis=0)
    return [_parts(mask & (nearest == k))[0] for k in range(len(parts))]


def _several(
    task: Task, images: Path, rgba: NDArray[np.uint8], parts: list[Mask]
) -> dict[str, Any]:
    """A piece for each part, in the frame of the old one, so that its pose is theirs too."""
    old = task.payload["piece"]
    pieces, pictures = [], []
    for number, part in enumerate(parts):
        rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
        top, left = max(int(rows[0]) - MARGIN_PX, 0), max(int(columns[0]) - MARGIN_PX, 0)
        window = np.s_[top : rows[-1] + 1 + MARGIN_PX, left : columns[-1] + 1 + MARGIN_PX]
        picture = keep_cut_out(images, rgba[..., :3][window], part[window])
        pictures.append(picture)
        letter = chr(ord("a") + number) if number < 26 else str(number + 1)
        pieces.append(
            {
                **_inherited(old, f"{old['name'][:190]} {letter}"),
                "id": piece_id(task.payload["job"], number),
                "picture": picture["sha256"],
                "left_px": old["offset_px"][0] + left,
                "top_px": old["offset_px"][1] + top,
            }
        )
    return {"pieces": pieces, "pictures": pictures}


def _inherited(old: dict[str, Any], name: str) -> dict[str, Any]:
    return {
        "name": name,
        "inventory": old["inventory"],
        "note": old["note"],
        "provenance": old["provenance"],
        "filename": f"{name}.png",
        "mm_per_px": old["mm_per_px"],
        "scale_origin": old["scale_origin"],
        "frame_width_px": old["frame_px"][0],
        "frame_height_px": old["frame_px"][1],
        "warnings": old["warnings"],
    }


def _merge(task: Task, images: Path) -> dict[str, Any]:
    """One piece of several, as they lie, in the frame of the first."""
    pieces = task.payload["pieces"]
    first = pieces[0]
    scale = first["mm_per_px"]
    to_first = pose_of(first["placement"]).inverse()
    drawn = []
    corners = []
    for piece in pieces:
        rgba = read_rgba(images, piece["picture"])
        matrix = _to_frame(piece, to_first @ pose_of(piece["placement"]), scale)
        height, width = rgba.shape[:2]
        box = np.array([[0, 0], [width, 0], [0, height], [width, height]], float)
        corners.append(box @ matrix[:, :2].T + matrix[:, 2])
        drawn.append((rgba, matrix))
    low = np.floor(np.min(np.vstack(corners), axis=0)).astype(int)
    width, height = (np.ceil(np.max(np.vstack(corners), axis=0)).astype(int) - low).tolist()
    if width * height > MAX_MERGED_PX:
        raise InputError("the merged piece would be too large", "Merge pieces that touch")
    rgb, mask = _drawn_together(drawn, low, (width, height))
    part = _parts(mask)
    if len(part) > 1:
        disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * CLOSE_PX + 1, 2 * CLOSE_PX + 1))
        closed: Any = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_CLOSE, disc)
        part = _parts(closed > 0)
    if len(part) > 1:
        raise InputError("these pieces do not touch", "Move them together first")
    picture = keep_cut_out(images, rgb, part[0])
    names = " + ".join(piece["name"] for piece in pieces)
    merged = {
        **_inherited(first, names[:200]),
        "warnings": list(dict.fromkeys(doubt for piece in pieces for doubt in piece["warnings"])),
        "id": piece_id(task.payload["job"], 0),
        "picture": picture["sha256"],
        "left_px": int(low[0]),
        "top_px": int(low[1]),
    }
    return {"pieces": [merged], "pictures": [picture]}


def _to_frame(piece: dict[str, Any], pose: Pose, mm_per_px: float) -> NDArray[np.float64]:
    """(2, 3): from a piece's picture to pixels of the first piece's scan.

    Args:
        pose: from the piece's frame to the first one's.
    """
    origin = np.array(piece["frame_px"]) / 2 - piece["offset_px"]
    zero, right, down = pose.apply(
        (np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]) - origin) * piece["mm_per_px"]
    )
    centre = np.array(piece["first_frame_px"]) / 2
    columns = np.column_stack([right - zero, down - zero, zero]) / mm_per_px
    columns[:, 2] += centre
    return columns


def _drawn_together(
    drawn: list[tuple[NDArray[np.uint8], NDArray[np.float64]]],
    low: NDArray[np.int64],
    size: tuple[int, int],
) -> tuple[NDArray[np.uint8], Mask]:
    """Pictures over each other, the first on top; where no piece is, what a photograph shows."""
    width, height = size
    rgb = np.zeros((height, width, 3), np.uint8)
    mask = np.zeros((height, width), bool)
    known = np.zeros((height, width), bool)
    for rgba, matrix in drawn:
        # OpenCV takes pixel centres for integers; ours lie at halves.
        shift = matrix.copy()
        shift[:, 2] += matrix[:, :2] @ [0.5, 0.5] - 0.5 - low
        warped: Any = cv2.warpAffine(rgba[..., :3], shift, size, flags=cv2.INTER_LINEAR)
        alpha: Any = cv2.warpAffine(rgba[..., 3], shift, size, flags=cv2.INTER_LINEAR)
        there: Any = cv2.warpAffine(
            np.full(rgba.shape[:2], 255, np.uint8), shift, size, flags=cv2.INTER_NEAREST
        )
        inside = alpha >= INSIDE
        new = (inside & ~mask) | ((there > 0) & ~known & ~mask)
        rgb[new] = warped[new]
        mask |= inside
        known |= there > 0
    return rgb, mask
