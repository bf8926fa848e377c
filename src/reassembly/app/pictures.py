"""Pictures of pieces on disk, by the hash of their content, with smaller copies for the screen.

`full.png` keeps, under its transparency, what the photograph shows around the piece: the cut-out
tool needs it when an outline is to be drawn wider. Nothing else looks there.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import shapely
from numpy.typing import NDArray

from reassembly.errors import InputError
from reassembly.io.render import png_bytes
from reassembly.outline.contour import mask_polygon

__all__ = [
    "LEVELS",
    "keep_cut_out",
    "keep_photograph",
    "level_webp",
    "picture_columns",
    "picture_file",
    "read_rgba",
    "view_png",
    "write_picture",
]

LEVELS = (256, 512, 1024, 2048)
"""Longest sides of the copies, pixels."""
INSIDE = 128
WEBP_QUALITY = 88
OUTLINE_POINTS = 240
"""About how many points an outline for the screen may have."""
Rgba = NDArray[np.uint8]


def keep_cut_out(images: Path, rgb: NDArray[np.uint8], mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Stores a piece's picture.

    Args:
        images: the workspace's folder of pictures.
        rgb: (H, W, 3), with what is around the piece.
        mask: (H, W), one part.

    Returns:
        Columns of `PictureRow`.
    """
    if not mask.any():
        raise InputError("nothing is left of this piece", "Leave some of it, or discard it")
    return _keep(images, np.dstack([rgb, mask.astype(np.uint8) * 255]))


def keep_photograph(images: Path, rgb: NDArray[np.uint8]) -> dict[str, Any]:
    """Stores a picture that is no cut-out, (H, W, 3). Returns columns of `PictureRow`."""
    return _keep(images, np.dstack([rgb, np.full(rgb.shape[:2], 255, np.uint8)]))


def _keep(images: Path, rgba: Rgba) -> dict[str, Any]:
    data = png_bytes(np.ascontiguousarray(rgba))
    sha256 = hashlib.sha256(data).hexdigest()
    write_picture(images, sha256, data, rgba)
    return picture_columns(sha256, rgba)


def picture_columns(sha256: str, rgba: Rgba) -> dict[str, Any]:
    """What the database keeps of a picture."""
    height, width = rgba.shape[:2]
    mask = rgba[..., 3] >= INSIDE
    if not mask.any():
        raise InputError("this picture is fully transparent", "Choose another")
    outline = mask_polygon(mask)
    simple, tolerance = outline, 0.5
    while shapely.get_num_coordinates(simple) > OUTLINE_POINTS and tolerance < 32:
        simple = outline.simplify(tolerance, preserve_topology=True)
        tolerance *= 1.5
    rings = [simple.exterior, *simple.interiors]
    return {
        "sha256": sha256,
        "width_px": width,
        "height_px": height,
        "levels": _levels(rgba),
        "outline_px": [np.asarray(ring.coords)[:-1].round(2).tolist() for ring in rings],
        "area_px": float(outline.area),
        "centroid_px": [float(outline.centroid.x), float(outline.centroid.y)],
        "colour": [round(float(value)) for value in rgba[mask][:, :3].mean(axis=0)],
    }


def _levels(rgba: Rgba) -> list[int]:
    return [level for level in LEVELS if level < max(rgba.shape[:2])]


def write_picture(images: Path, sha256: str, data: bytes, rgba: Rgba) -> None:
    """Writes a PNG file and its smaller copies, all or nothing.

    Args:
        data: the file, whose hash is `sha256`.
        rgba: what it shows.
    """
    target = images / sha256
    if target.is_dir():
        os.utime(target)  # In use again: nobody may tidy it away now.
        return
    images.mkdir(parents=True, exist_ok=True)
    staging = images / f".new-{secrets.token_hex(6)}"
    staging.mkdir()
    try:
        _write(staging / "full.png", data)
        covered = _covered(rgba)
        for level in reversed(_levels(rgba)):
            covered = _smaller(covered, level)
            _write(staging / f"{level}.webp", level_webp(_uncovered(covered)))
        try:
            staging.replace(target)
        except OSError:
            if not target.is_dir():  # Another process may have been first.
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _covered(rgba: Rgba) -> Rgba:
    """Colours times their opacity, which is all or nothing: so reduced, none bleeds in from under
    the transparency."""
    opaque = (rgba[..., 3] >= INSIDE).view(np.uint8)
    return np.asarray(cv2.bitwise_and(rgba, rgba, mask=opaque), np.uint8)


def _smaller(covered: Rgba, longest: int) -> Rgba:
    height, width = covered.shape[:2]
    factor = longest / max(height, width)
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    return np.asarray(cv2.resize(covered, size, interpolation=cv2.INTER_AREA), np.uint8)


def _uncovered(covered: Rgba) -> Rgba:
    """Colours for themselves again."""
    alpha = covered[..., 3:]
    factor = 255 / np.maximum(alpha, 1, dtype=np.float32)
    colour = np.minimum(covered[..., :3] * factor, 255).astype(np.uint8)
    return np.dstack([colour, alpha])


def level_webp(rgba: Rgba) -> bytes:
    """(H, W, 4) as a small file."""
    from PIL import Image

    buffer = BytesIO()
    Image.fromarray(rgba).save(buffer, "WEBP", quality=WEBP_QUALITY, method=1)
    return buffer.getvalue()


def picture_file(images: Path, sha256: str, name: str) -> Path:
    """`full.png` or a copy; both names have been checked for their form."""
    return images / sha256 / name


def read_rgba(images: Path, sha256: str) -> Rgba:
    """(H, W, 4), with what is under the transparency."""
    path = picture_file(images, sha256, "full.png")
    try:
        data = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise InputError(
            "a picture is missing from the workspace", "Restore its folder `images`", path
        ) from error
    decoded: Any = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    if decoded is None or decoded.ndim != 3 or decoded.shape[2] != 4:
        raise InputError("a picture is damaged", "Restore it from a copy of the workspace", path)
    return np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGRA2RGBA), np.uint8)


def view_png(images: Path, sha256: str, view: Literal["photo", "mask"]) -> bytes:
    """The opaque photograph, or the mask in grey."""
    rgba = read_rgba(images, sha256)
    if view == "mask":
        _, data = cv2.imencode(".png", rgba[..., 3])
        return bytes(data)
    return png_bytes(np.dstack([rgba[..., :3], np.full_like(rgba[..., 3], 255)]))
