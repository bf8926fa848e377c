"""assembly.svg: a drawing at true scale for Inkscape and Illustrator, one named layer a fragment.

User units are millimetres in the frame of the first island (see `render.lay_out`). An island's
layer is moved to where the island is drawn, a fragment's layer is transformed by its pose, and the
fragment's picture and outline are in its own frame.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from reassembly.io.markup import data_uri, decimal, template, xml_text
from reassembly.io.render import (
    Placement,
    Sheet,
    cut_out,
    fair_width,
    in_rows,
    placed_bounds,
    png_bytes,
)
from reassembly.puzzle import Assembly, Fragment

__all__ = ["write_svg"]

STROKE_MM = 0.2
UNPLACED_GAP = 0.05
"""Around unplaced fragments, as a share of the drawing's longer side."""


@dataclass(frozen=True)
class _Piece:
    """What the template says of a fragment."""

    label: str
    key: str
    transform: str
    box: tuple[str, ...]
    """x, y, width and height of its picture, mm."""
    picture: str
    path: str


@dataclass(frozen=True)
class _Group:
    """A layer that holds the layers of fragments."""

    label: str
    key: str
    transform: str
    pieces: Iterator[_Piece]


def write_svg(assembly: Assembly, sheet: Sheet, path: str | PathLike[str]) -> None:
    """Writes the drawing. Unplaced fragments have a layer of their own beneath the islands.

    Args:
        sheet: `lay_out(assembly)`.
    """
    puzzle = assembly.puzzle
    if puzzle is None:
        raise ValueError("an assembly without its puzzle cannot be drawn")
    keys = _Keys()
    groups = [
        _Group(
            f"island {number}",
            keys.new(f"island-{number}"),
            _translate(*shift),
            _pieces([(puzzle[i], pose) for i, pose in island.items()], keys),
        )
        for number, (island, shift) in enumerate(
            zip(assembly.islands, sheet.shifts_mm, strict=True), start=1
        )
    ]
    left, top, right, bottom = sheet.bounds
    if assembly.unplaced:
        rest = [puzzle[i] for i in assembly.unplaced]
        gap = UNPLACED_GAP * max(right - left, bottom - top)
        y = bottom + gap if sheet.islands else top
        rows = in_rows(rest, max(right - left, fair_width(rest)), gap)
        groups.append(
            _Group("unplaced", keys.new("unplaced"), _translate(left, y), _pieces(rows, keys))
        )
        _, _, width, height = placed_bounds(rows)
        right, bottom = max(right, left + width), y + height

    pad = STROKE_MM / 2
    page = left - pad, top - pad, right - left + 2 * pad, bottom - top + 2 * pad
    stream = template("assembly.svg.j2").stream(
        title=xml_text(puzzle.id), page=_numbers(page), stroke_mm=STROKE_MM, groups=groups
    )
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(stream)


def _pieces(placements: Iterable[Placement], keys: _Keys) -> Iterator[_Piece]:
    """One at a time, since pictures are large."""
    for fragment, pose in placements:
        crop = fragment.cropped(margin_px=0)
        height, width = crop.mask.shape
        first, last = crop.to_mm(np.array([[0.0, 0.0], [width, height]]))
        turn = decimal(-pose.rotation_deg, 9)
        yield _Piece(
            label=xml_text(fragment.id),
            key=keys.new(fragment.id),
            transform=f"{_translate(pose.x_mm, pose.y_mm)} rotate({turn})",
            box=_numbers((*first, *(last - first))),
            picture=data_uri(png_bytes(cut_out(crop)), "png"),
            path=_path(fragment),
        )


def _path(fragment: Fragment) -> str:
    """The outline and its holes, mm, in the fragment's own frame."""
    polygon = fragment.polygon
    rings = [np.asarray(ring.coords)[:-1] for ring in (polygon.exterior, *polygon.interiors)]
    return " ".join(
        "M" + " L".join(f"{decimal(x, 4)},{decimal(y, 4)}" for x, y in ring) + " Z"
        for ring in rings
    )


def _translate(x_mm: float, y_mm: float) -> str:
    return f"translate({' '.join(_numbers((x_mm, y_mm)))})"


def _numbers(values: Iterable[float]) -> tuple[str, ...]:
    """Lengths, mm, as SVG readers like them."""
    return tuple(decimal(value, 6) for value in values)


class _Keys:
    """Hands out ids that XML allows and that occur once."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def new(self, name: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
        plain = plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}"
        key, count = plain, 1
        while {key, f"{key}-outline"} & self.used:
            count += 1
            key = f"{plain}-{count}"
        self.used |= {key, f"{key}-outline"}
        return key
