"""Pictures to cut: painted by code, read from files, or rendered from solved RePAIR puzzles.

Whatever its origin, a picture is brought to the same area in pixels, so that a number of pieces
means the same size of pieces everywhere.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.errors import InputError, InputWarning
from reassembly.io.images import is_image_name, read_image
from reassembly.io.readers import PuzzleSource, find_puzzles
from reassembly.io.render import placed_bounds, render_placements
from reassembly.synthetic.arrays import Bytes, Floats

__all__ = ["Picture", "PictureSet", "draw_picture", "find_pictures"]

SMALLEST_SHARE = 0.25
"""Pictures whose shorter side is below this share of the wanted size would be enlarged to mush."""
KEPT_SHARE = (0.85, 1.0)
"""How much of each side of a file's picture is kept. The random crop makes the factor by which
it is resampled random too, so that no compression grid survives at a known period."""
GAP_MM = 12.0
"""Gaps in a rendered assembly up to this width are filled with paint from beside them."""
CACHED_PICTURES = 32


class Picture(NamedTuple):
    """Something to cut."""

    rgb: Bytes
    """(H, W, 3)"""
    domain: NDArray[np.bool_]
    """(H, W), true where there is paint to cut."""


@dataclass(frozen=True)
class PictureSet:
    """Pictures to be cut, in a fixed order."""

    sources: tuple[str | PuzzleSource, ...]
    """Files, or solved puzzles."""
    digest: str
    """SHA-256 over the content of all files."""

    def name(self, index: int) -> str:
        """What a picture is called: its file's name, or its puzzle's id."""
        source = self.sources[index]
        return Path(source).name if isinstance(source, str) else source.id


def find_pictures(
    images: str | PathLike[str] | Iterable[str | PathLike[str]],
    size_px: int,
    only: Collection[str] | None = None,
) -> PictureSet:
    """The usable pictures of a folder (searched in depth) or list, or the puzzles of a folder.

    Unreadable and tiny pictures are named in an `InputWarning` and left out.

    Args:
        images: a folder of pictures, a folder of solved RePAIR puzzles, one file, or several.
        size_px: the size that pictures will be brought to.
        only: the ids of the puzzles, or the names of the files, that may be used.

    Raises:
        InputError: nothing usable is left.
    """
    if isinstance(images, (str, PathLike)):
        folder = Path(images)
        if not folder.exists():
            raise InputError("there is no such file or folder", "Check the path", folder)
        if folder.is_dir() and (puzzles := _assemblies(folder, only)) is not None:
            return puzzles
        files = [folder] if folder.is_file() else sorted(_pictures_below(folder))
    else:
        folder, files = None, [Path(name) for name in images]
    usable, digest = [], hashlib.sha256()
    for file in files:
        if only is not None and not {file.name, file.stem} & set(only):
            continue
        try:
            shortest = min(read_image(file).rgb.shape[:2])
        except InputError as error:
            warnings.warn(f"left out: {error}", InputWarning, stacklevel=2)
            continue
        if shortest < SMALLEST_SHARE * size_px:
            warnings.warn(
                f"left out: {file}: its shorter side has {shortest} px, and "
                f"{math.ceil(SMALLEST_SHARE * size_px)} are needed for pictures of {size_px} px",
                InputWarning,
                stacklevel=2,
            )
            continue
        usable.append(str(file))
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    if not usable:
        raise InputError(
            "there is no picture here that can be cut",
            f"Give PNG, JPEG, TIFF or WebP files of at least {math.ceil(SMALLEST_SHARE * size_px)} "
            f"px, better {size_px} px, or a folder of RePAIR puzzles with poses",
            folder,
        )
    return PictureSet(tuple(usable), digest.hexdigest())


def draw_picture(
    pictures: PictureSet | None,
    rng: np.random.Generator,
    size_px: int,
    mm_per_px: float,
    share: float = 1.0,
    other_than: int | None = None,
    styles: Mapping[str, float] | None = None,
) -> tuple[Picture, int | None]:
    """A picture whose paint covers about `size_px` x `size_px` x `share` pixels.

    Args:
        pictures: where to take it from; None to have it painted.
        share: less than 1 for a part of that area, cut out of a picture of the same grain.
        other_than: the index of a picture that is not wanted.
        styles: how often each style of `painter.STYLES` is painted; as often as it says by
            default.

    Returns:
        The picture and its index in `pictures` (None for a painted one).
    """
    count = 0 if pictures is None else len(pictures.sources)
    choices = [k for k in range(count) if k != other_than]
    if pictures is None or not choices:
        from reassembly.synthetic.painter import paint

        side = round(size_px * math.sqrt(share))
        seed = int(rng.integers(2**31))
        style = None if styles is None else str(rng.choice(list(styles), p=list(styles.values())))
        rgb = paint(side, side, seed=seed, mm_per_px=mm_per_px, style=style)
        return Picture(rgb, np.ones(rgb.shape[:2], np.bool_)), None
    chosen = choices[int(rng.integers(len(choices)))]
    source = _open(pictures.sources[chosen], size_px)
    if isinstance(pictures.sources[chosen], str):
        source = _crop(source, rng.uniform(*KEPT_SHARE, 2), rng)
    area = float(np.count_nonzero(source.domain))
    grown = _resized(source, math.sqrt(size_px**2 / area))
    return (grown if share == 1 else _crop(grown, np.full(2, math.sqrt(share)), rng)), chosen


def _pictures_below(folder: Path) -> list[Path]:
    hidden = (p for p in folder.rglob("*") if p.is_file() and is_image_name(p.name))
    return [p for p in hidden if not any(part.startswith(".") for part in p.parts)]


@lru_cache(maxsize=CACHED_PICTURES)
def _open(source: str | PuzzleSource, size_px: int) -> Picture:
    """A picture, at no more than half again the size that is needed."""
    if not isinstance(source, str):
        return _rendered(source, size_px)
    picture = read_image(source)
    visible = None if picture.alpha is None else picture.alpha > 127
    if visible is None or not visible.any():
        opened = Picture(picture.rgb, np.ones(picture.rgb.shape[:2], np.bool_))
    else:
        opened = _filled(picture.rgb, visible)
    factor = 1.5 * size_px / math.sqrt(np.count_nonzero(opened.domain))
    return opened if factor >= 1 else _resized(opened, factor)


def _crop(picture: Picture, kept: NDArray[np.float64], rng: np.random.Generator) -> Picture:
    """A window that keeps the given share of the height and width, at a random place.

    Windows with little paint are avoided; without paint there is nothing to cut.
    """
    shape = np.array(picture.domain.shape)
    size = np.maximum(np.round(shape * kept).astype(int), 1)
    best, most = picture, -1
    for _ in range(8):
        top, left = (rng.random(2) * (shape - size + 1)).astype(int)
        window = np.s_[top : top + size[0], left : left + size[1]]
        covered = int(np.count_nonzero(picture.domain[window]))
        if covered > most:
            best, most = Picture(picture.rgb[window], picture.domain[window]), covered
        if covered >= 0.6 * size.prod():
            break
    return best


def _resized(picture: Picture, factor: float) -> Picture:
    height, width = (max(round(side * factor), 1) for side in picture.domain.shape)
    smaller = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    rgb = cv2.resize(picture.rgb, (width, height), interpolation=smaller)
    if picture.domain.all():
        return Picture(rgb, np.ones((height, width), np.bool_))
    soft = cv2.resize(picture.domain.astype(np.float32), (width, height))
    return Picture(rgb, soft > 0.5)


def _assemblies(folder: Path, only: Collection[str] | None) -> PictureSet | None:
    """The solved RePAIR puzzles of a folder; None where it holds none."""
    found = [s for s in find_puzzles(folder) if s.kind.startswith("repair")]
    if not found:
        return None
    found = [s for s in found if only is None or s.id in only]
    if not found:
        raise InputError("it holds none of the puzzles that were named", "Check the ids", folder)
    solved = []
    for source in found:
        if source.kind == "repair-v2" and not _has_poses(source):
            message = f"left out: {source.path}: this puzzle has no true poses"
            warnings.warn(message, InputWarning, stacklevel=3)
        else:
            solved.append(source)
    if not solved:
        raise InputError("no puzzle here has true poses", "Give solved puzzles", folder)
    digest = hashlib.sha256("\n".join(source.id for source in solved).encode())
    for file in sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return PictureSet(tuple(solved), digest.hexdigest())


def _has_poses(source: PuzzleSource) -> bool:
    try:
        data = json.loads((source.path / "data.json").read_text(encoding="utf-8"))
        return any("pixel_position" in fragment for fragment in data["fragments"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _rendered(source: PuzzleSource, size_px: int) -> Picture:
    """A solved puzzle as one picture, its gaps closed."""
    puzzle = source.load()
    if not puzzle.truth:
        what = "this puzzle has no true poses"
        raise InputError(what, "Only solved puzzles can be cut", source.path)
    placements = [(puzzle[i], pose) for i, pose in puzzle.truth.items()]
    area_mm2 = sum(fragment.area_mm2 for fragment, _ in placements)
    # A little finer than needed, since it is resampled once more.
    mm_per_px = math.sqrt(area_mm2) / size_px / 1.2
    rgba = render_placements(placements, mm_per_px, placed_bounds(placements))
    picture = _filled(rgba[..., :3], rgba[..., 3] > 127)
    radius = max(1, round(GAP_MM / 2 / mm_per_px))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    padded = np.pad(picture.domain.view(np.uint8), radius)
    closed = cv2.morphologyEx(padded, cv2.MORPH_CLOSE, disc)[radius:-radius, radius:-radius]
    return Picture(picture.rgb, np.ascontiguousarray(closed).view(np.bool_))


def _filled(rgb: Bytes, known: NDArray[np.bool_]) -> Picture:
    """The picture with unknown pixels taken from the nearest known ones, smoothly.

    Known colours are averaged over ever larger neighbourhoods; every unknown pixel takes the
    average over the smallest one that holds any.
    """
    levels: list[Floats] = [np.dstack([rgb * known[..., None], known]).astype(np.float32)]
    while min(levels[-1].shape[:2]) > 1:
        height, width = levels[-1].shape[:2]
        half = ((width + 1) // 2, (height + 1) // 2)
        levels.append(cv2.resize(levels[-1], half, interpolation=cv2.INTER_AREA))
    colour = levels[-1][..., :3] / np.maximum(levels[-1][..., 3:], 1e-6)
    for level in reversed(levels[:-1]):
        height, width = level.shape[:2]
        weight = np.minimum(level[..., 3:], 1)
        coarse = cv2.resize(colour, (width, height), interpolation=cv2.INTER_LINEAR)
        own = level[..., :3] / np.maximum(level[..., 3:], 1e-6)
        colour = weight * own + (1 - weight) * coarse.reshape(own.shape)
    filled = np.clip(np.rint(colour), 0, 255).astype(np.uint8)
    return Picture(np.where(known[..., None], rgb, filled), known)
