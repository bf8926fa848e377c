"""Joins for people: a page that shows each with its picture and figures, and the same as files.

`joins.html` holds everything it needs, runs no script and prints; `joins.csv` and `joins.json` are
what a person's judgement is read back from (see `io.joins_file`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from reassembly._version import __version__
from reassembly.io.files import output_folder
from reassembly.io.joins_file import joins_csv, joins_json
from reassembly.io.markup import data_uri, decimal, fixed, share, template, xml_text
from reassembly.io.render import placed_bounds, render_placements, round_length, webp_bytes
from reassembly.io.writers import utf8
from reassembly.pose import Pose
from reassembly.puzzle import Puzzle

if TYPE_CHECKING:
    from reassembly.matching.joins import Join

__all__ = ["FILES", "joins_html", "save_joins"]

FILES = ("joins.csv", "joins.json", "joins.html")
PICTURE_PX = 360
"""The longer side of a picture."""
LETTER = 0.05
"""The height of letters, as a share of a picture's longer side."""

DrawProgress = Callable[[int, int, str], None]
"""(done, total, what)"""


@dataclass(frozen=True)
class _Badge:
    """A piece's number where the piece lies, mm."""

    x: str
    y: str
    number: int
    name: str


@dataclass(frozen=True)
class _Shown:
    """A join in words and figures as shown; lengths of the picture in mm."""

    rank: int
    first: str
    second: str
    probability: str
    percent: str
    gap_mm: str
    overlap_mm2: str
    contact_mm: str
    rotation_deg: str
    source: str
    box: tuple[str, ...]
    """x, y, width, height."""
    badges: tuple[_Badge, ...]
    font: str
    radius: str
    bar: dict[str, str]


def save_joins(
    joins: Sequence[Join],
    puzzle: Puzzle,
    folder: str | PathLike[str],
    *,
    force: bool = False,
    progress: DrawProgress | None = None,
) -> Path:
    """Writes `FILES` into a folder, all or nothing; the same joins give the same bytes.

    Args:
        joins: best first.
        force: replace earlier joins in the folder. Files that are not ours stay.
    """
    content = {
        "joins.csv": utf8(joins_csv(joins)),
        "joins.json": utf8(joins_json(joins, puzzle)),
        "joins.html": utf8(joins_html(joins, puzzle, progress)),
    }
    with output_folder(folder, force=force, replaces=FILES) as out:
        for name, data in content.items():
            (out / name).write_bytes(data)
    return Path(folder)


def joins_html(joins: Sequence[Join], puzzle: Puzzle, progress: DrawProgress | None = None) -> str:
    """A page with a picture of each join, in the order given."""
    shown = []
    for rank, join in enumerate(joins, start=1):
        shown.append(_shown(rank, join, puzzle))
        if progress is not None:
            progress(rank, len(joins), "drawing")
    return template("joins.html.j2").render(
        version=__version__,
        title=xml_text(puzzle.id),
        joins=shown,
        pieces=len(puzzle),
        scale_known=puzzle.metadata.get("scale") != "assumed",
    )


def _shown(rank: int, join: Join, puzzle: Puzzle) -> _Shown:
    one, other = puzzle[join.first], puzzle[join.second]
    placements = [(one, Pose(0.0, 0.0)), (other, join.pose)]
    left, top, right, bottom = bounds = placed_bounds(placements)
    longer = max(right - left, bottom - top)
    scale = max(min(one.mm_per_px, other.mm_per_px), longer / PICTURE_PX)
    rgba = render_placements(placements, scale, bounds)
    number = {i: k for k, i in enumerate(puzzle.ids, start=1)}
    badges = []
    for fragment, pose in placements:
        outline = fragment.placed(pose)
        spot = outline.representative_point()
        name = xml_text(fragment.id)
        badges.append(_Badge(decimal(spot.x, 3), decimal(spot.y, 3), number[fragment.id], name))
    font = LETTER * longer
    bar = round_length(0.3 * longer)
    under = bottom + font
    return _Shown(
        rank=rank,
        first=xml_text(join.first),
        second=xml_text(join.second),
        probability=share(join.probability),
        percent=decimal(100 * min(1.0, max(0.0, join.probability)), 1),
        gap_mm=fixed(join.gap_mm),
        overlap_mm2=fixed(join.overlap_mm2),
        contact_mm=fixed(join.contact_mm),
        rotation_deg=fixed(join.pose.rotation_deg),
        source=data_uri(webp_bytes(rgba), "webp"),
        box=tuple(decimal(v, 3) for v in (left, top, rgba.shape[1] * scale, rgba.shape[0] * scale)),
        badges=tuple(badges),
        font=decimal(font, 3),
        radius=decimal(0.9 * font, 3),
        bar={
            "y": decimal(under, 3),
            "length": decimal(bar, 3),
            "height": decimal(0.3 * font, 3),
            "label": f"{bar:g} mm",
            "label_x": decimal(left + bar + 0.5 * font, 3),
            "label_y": decimal(under + 0.5 * font, 3),
            "view_height": decimal(under + 1.2 * font - top, 3),
        },
    )
