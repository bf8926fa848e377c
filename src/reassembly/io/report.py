"""report.html: one file that shows an assembly to people, on screen and on paper.

Everything is inside the file; it asks for nothing from anywhere and runs no script. The same
assembly gives the same bytes, so it holds no date.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import shapely

from reassembly._version import __version__
from reassembly.io.markup import data_uri, decimal, fixed, share, template, xml_text
from reassembly.io.render import (
    Bounds,
    Placement,
    Sheet,
    contact_rows,
    render_placements,
    round_length,
    webp_bytes,
)
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Fragment, Puzzle

__all__ = ["BY_HAND", "CALIBRATED_SOLVERS", "CALIBRATION", "report_html"]

BY_HAND = "workbench"
"""What is named as the solver of an assembly that people laid out; its setting `solvers` names
those whose proposals they took over."""

CALIBRATED_SOLVERS = frozenset({"joins"})
"""Those whose confidence was fitted to how often they are right."""
CALIBRATION = (
    "calibrated on made puzzles and on 23 real ones of RePAIR. Measured on puzzles that it had not "
    "seen, the calibration error was 0.036 on real ones, 0.023 on badly worn made ones and 0.021 "
    "on lightly worn ones; for other material it is unproven"
)
"""Of their confidence; the figures are those of docs/results/joins.md."""

PICTURE_PX = 1600
"""The longer side of a picture."""
THUMBNAIL_PX = 160
"""The longer side of a thumbnail in the file: about twice what is shown, for print."""
TABLE_PX, UNPLACED_PX = 60, 110
"""The longer side of a thumbnail as shown."""
LETTER_PX = 13
"""The height of letters in a picture on screen."""
LETTER_WIDTH = 0.6
"""Of a letter on average, as a share of its height."""
HALF_PAGE_PX, PAGE_PX = (480, 620), (1000, 400)
"""(width, height) that a picture has on screen: beside another, and alone."""
OVERLAP = 0.05
"""From which share of the smaller piece on an overlap is worth a warning; outlines are never
exact."""
SHOWN = 6
"""How many overlaps a warning lists."""
SCALE_SOURCES = {
    "option": "as given",
    "given": "as given",
    "data.json": "from data.json",
    "sidecar": "from a file beside the pictures",
    "dpi": "from the resolution noted in the pictures",
    "ruler": "from a ruler in the photograph",
    "repair": "that of the RePAIR project's scans, since no file tells it",
    "edited": "set by hand",
    "made": "as painted",
}


@dataclass(frozen=True)
class _Piece:
    """What the report says of a fragment, in words and figures as shown."""

    number: int
    id: str
    filename: str
    """Empty where it says no more than the id."""
    thumbnail: str
    thumbnail_px: tuple[int, int]
    area_cm2: str
    x_mm: str = ""
    y_mm: str = ""
    rotation_deg: str = ""
    confidence: str | None = None
    confidence_percent: str = ""


@dataclass(frozen=True)
class _Label:
    """A fragment's number, or number and name, in a picture; mm."""

    x: str
    y: str
    number: int
    full: str
    text: str = ""


@dataclass(frozen=True)
class _Picture:
    """A drawing with its labels and scale bar; all lengths in mm of the drawing's frame."""

    alt: str
    source: str
    box: tuple[str, ...]
    """x, y, width, height of the picture itself."""
    view: tuple[str, ...]
    """The same of all that is shown."""
    font: str
    badge_font: str
    badge_radius: str
    bar: dict[str, str]
    captions: Sequence[_Label] = ()
    badges: Sequence[_Label] = ()


@dataclass(frozen=True)
class _Island:
    title: str
    pieces: list[_Piece]
    picture: _Picture | None = None


@dataclass(frozen=True)
class _Warning:
    what: str
    remedy: str


@dataclass(frozen=True)
class _Context:
    """What all parts of the report need."""

    puzzle: Puzzle
    numbers: dict[str, int] = field(init=False)
    """Of each fragment, from 1, in the puzzle's order: the key between pictures and tables."""
    scale_known: bool = field(init=False)

    def __post_init__(self) -> None:
        numbers = {i: k for k, i in enumerate(self.puzzle.ids, start=1)}
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "scale_known", self.puzzle.metadata.get("scale") != "assumed")


def report_html(assembly: Assembly, sheet: Sheet) -> str:
    """The report.

    Args:
        assembly: with its puzzle.
        sheet: `lay_out(assembly)`.
    """
    puzzle = assembly.puzzle
    if puzzle is None:
        raise ValueError("an assembly without its puzzle cannot be drawn")
    context = _Context(puzzle)
    thumbnails = {f.id: _thumbnail(f) for f in puzzle.fragments}
    several = len(sheet.islands) > 1
    placed = len(assembly.poses)
    islands = [
        _Island(
            f"Island {number}: {_pieces_of(len(island))}, {_size(bounds)}" if several else "Poses",
            [
                _piece(context, assembly, puzzle[i], island[i], thumbnails[i])
                for i in puzzle.ids
                if i in island
            ],
            _assembled(context, own, bounds, f"Island {number}", PAGE_PX) if several else None,
        )
        for number, (island, own, bounds) in enumerate(
            zip(assembly.islands, sheet.islands, sheet.island_bounds, strict=True), start=1
        )
    ]
    summary = [f"{placed} of {_pieces_of(len(puzzle))} placed"]
    if several:
        summary.append(f"{len(islands)} islands")
    elif islands:
        summary.append(_size(sheet.bounds))
    return template("report.html.j2").render(
        version=__version__,
        title=xml_text(puzzle.id),
        summary=summary,
        warnings=_warnings(context, sheet, bool(_placed_by(assembly))),
        before=_as_scanned(context),
        after=_assembled(context, sheet.placements, sheet.bounds, "The assembly", HALF_PAGE_PX)
        if placed
        else None,
        after_caption=f"{len(islands)} islands, side by side" if several else "as assembled",
        islands=islands,
        confidence_note=_confidence_note(assembly),
        unplaced=[
            _piece(context, assembly, puzzle[i], None, thumbnails[i])
            for i in puzzle.ids
            if i in assembly.unplaced
        ],
        made={
            "solver": xml_text(assembly.provenance.solver),
            "placed": xml_text(_placed_by(assembly)),
            "version": xml_text(assembly.provenance.version),
            "seed": assembly.provenance.seed,
            "settings": [
                (xml_text(name), xml_text(json.dumps(value, ensure_ascii=False)))
                for name, value in sorted(assembly.provenance.settings.items())
            ],
            "scale": _scale(context),
        },
    )


def _as_scanned(context: _Context) -> _Picture:
    """All pieces in rows, with numbers and names beneath."""
    rows = contact_rows(context.puzzle.fragments, LETTER_PX / HALF_PAGE_PX[0])
    font = rows.letter_mm
    captions = []
    for fragment, pose in rows.placements:
        left, _, right, bottom = fragment.placed(pose).bounds
        number = context.numbers[fragment.id]
        room = max(right - left + font, rows.caption_mm)
        letters = int(room / (LETTER_WIDTH * font)) - len(str(number)) - 1
        captions.append(
            _Label(
                decimal(left, 3),
                decimal(bottom + 1.2 * font, 3),
                number,
                xml_text(fragment.id),
                _shortened(xml_text(fragment.id), letters),
            )
        )
    alt = "The pieces as scanned"
    return _picture(context, rows.placements, rows.bounds, font, alt, below=1.6, captions=captions)


def _assembled(
    context: _Context,
    placements: Sequence[Placement],
    bounds: Bounds,
    alt: str,
    room_px: tuple[int, int],
) -> _Picture:
    """Pieces where they lie, with numbers on them, to be shown in a box of `room_px`."""
    left, top, right, bottom = bounds
    badges = []
    for fragment, pose in placements:
        outline = fragment.placed(pose)
        middle = outline.centroid
        spot = middle if outline.contains(middle) else outline.representative_point()
        x, y = decimal(spot.x, 3), decimal(spot.y, 3)
        badges.append(_Label(x, y, context.numbers[fragment.id], xml_text(fragment.id)))
    font = LETTER_PX * max((right - left) / room_px[0], (bottom - top) / room_px[1])
    return _picture(context, placements, bounds, font, alt, badges=badges)


def _picture(
    context: _Context,
    placements: Sequence[Placement],
    bounds: Bounds,
    font_mm: float,
    alt: str,
    below: float = 0.0,
    captions: Sequence[_Label] = (),
    badges: Sequence[_Label] = (),
) -> _Picture:
    """Draws, and adds the scale bar beneath.

    Args:
        below: room for captions under the drawing, in letter heights.
    """
    left, top, right, bottom = bounds
    longest = max(right - left, bottom - top)
    scale = max(context.puzzle.mm_per_px, longest / PICTURE_PX)
    rgba = render_placements(placements, scale, bounds)
    height_px, width_px = rgba.shape[:2]

    length = round_length(0.3 * (right - left))
    under = bottom + (below + 1.4) * font_mm
    bar = {
        "x": left,
        "middle": left + length / 2,
        "y": under,
        "half": length / 2,
        "height": 0.45 * font_mm,
        "stroke": 0.08 * font_mm,
        "label_x": left + length + 0.6 * font_mm,
        "label_y": under + 0.58 * font_mm,
    }
    width = max(right - left, length + 14 * font_mm)
    pad = 0.6 * font_mm
    return _Picture(
        alt=f"{alt}, {_pieces_of(len(placements))}",
        source=data_uri(webp_bytes(rgba), "webp"),
        box=_numbers(left, top, width_px * scale, height_px * scale),
        view=_numbers(left - pad, top - pad, width + 2 * pad, under + font_mm - top + 2 * pad),
        font=decimal(font_mm, 3),
        badge_font=decimal(0.85 * font_mm, 3),
        badge_radius=decimal(0.8 * font_mm, 3),
        bar={name: decimal(value, 3) for name, value in bar.items()}
        | {"label": f"{length:g} mm" + ("" if context.scale_known else " (scale guessed)")},
        captions=captions,
        badges=badges,
    )


def _thumbnail(fragment: Fragment) -> tuple[str, tuple[int, int]]:
    """The fragment as scanned, and its size in pixels."""
    left, top, right, bottom = fragment.polygon.bounds
    scale = max(max(right - left, bottom - top) / THUMBNAIL_PX, fragment.mm_per_px)
    rgba = render_placements([(fragment, Pose(0, 0))], scale, (left, top, right, bottom))
    return data_uri(webp_bytes(rgba), "webp"), (rgba.shape[1], rgba.shape[0])


def _piece(
    context: _Context,
    assembly: Assembly,
    fragment: Fragment,
    pose: Pose | None,
    thumbnail: tuple[str, tuple[int, int]],
) -> _Piece:
    source, (width, height) = thumbnail
    shown = (UNPLACED_PX if pose is None else TABLE_PX) / max(width, height)
    filename = str(fragment.metadata.get("filename", fragment.id))
    sure = assembly.confidence.get(fragment.id)
    figures = {}
    if pose is not None:
        figures = {
            "x_mm": fixed(pose.x_mm),
            "y_mm": fixed(pose.y_mm),
            "rotation_deg": fixed(pose.rotation_deg),
        }
    if sure is not None:
        figures |= {"confidence": share(sure), "confidence_percent": decimal(100 * sure, 1)}
    area = fragment.area_mm2 / 100
    return _Piece(
        number=context.numbers[fragment.id],
        id=xml_text(fragment.id),
        filename="" if filename.startswith(fragment.id) else xml_text(filename),
        thumbnail=source,
        thumbnail_px=(max(1, round(width * shown)), max(1, round(height * shown))),
        area_cm2=f"{area:.1f}" if area >= 1 else f"{area:.2g}",
        **figures,
    )


def _placed_by(assembly: Assembly) -> str:
    """How people laid the pieces out; empty where a solver did it alone."""
    if assembly.provenance.solver != BY_HAND:
        return ""
    heard = " and ".join(assembly.provenance.settings.get("solvers", []))
    return f"in the workbench, by hand and by proposals of {heard}" if heard else "by hand"


def _confidence_note(assembly: Assembly) -> str:
    """What the figures of confidence are worth."""
    if not assembly.confidence and _placed_by(assembly):
        return "Pieces that were placed by hand have no confidence."
    if not assembly.confidence:
        return "The solver gave no confidence: nothing here says how likely a pose is right."
    # An assembly laid out by hand may hold the answers of several solvers.
    solvers = set(assembly.provenance.settings.get("solvers", [assembly.provenance.solver]))
    means = "0.9 does not mean that nine in ten are right"
    if solvers <= CALIBRATED_SOLVERS:
        return (
            "Confidence runs from 0 to 1 and is the probability of the least sure join that holds "
            "a piece; joins that people accepted count as certain. It was "
            f"{CALIBRATION}. Take it as a hint of where to look first."
        )
    if solvers & CALIBRATED_SOLVERS:
        calibrated = ", ".join(sorted(solvers & CALIBRATED_SOLVERS))
        return (
            f"Confidence runs from 0 to 1 and comes from several solvers. That of {calibrated} was "
            f"{CALIBRATION}. That of the others is not calibrated, so {means}."
        )
    return (
        "Confidence runs from 0 to 1 and is the solver's own estimate; it is not calibrated, so "
        f"{means}."
    )


def _warnings(context: _Context, sheet: Sheet, by_hand: bool) -> list[_Warning]:
    found = []
    if not context.scale_known:
        remedy = "Set it in the workbench" if by_hand else "Solve again with it (--mm-per-px)"
        found.append(
            _Warning(
                "The scale is a guess.",
                "No scale was given, so every length and area here is in guessed millimetres. "
                f"{remedy}.",
            )
        )
    if overlaps := _overlaps(context, sheet):
        listed = "; ".join(f"{a} and {b} ({share:.0%})" for a, b, share in overlaps[:SHOWN])
        more = len(overlaps) - SHOWN
        found.append(
            _Warning(
                "Pieces overlap.",
                f"By number, with the share of the smaller piece: {listed}"
                + (f"; and {more} more pairs." if more > 0 else "."),
            )
        )
    return found


def _overlaps(context: _Context, sheet: Sheet) -> list[tuple[int, int, float]]:
    """(number, number, share of the smaller piece), the worst first."""
    found = []
    for island in sheet.islands:
        outlines = [shapely.simplify(f.placed(pose), 2 * f.mm_per_px) for f, pose in island]
        outlines = [outline if outline.is_valid else outline.buffer(0) for outline in outlines]
        first, second = shapely.STRtree(outlines).query(outlines, predicate="intersects")
        for a, b in zip(first.tolist(), second.tolist(), strict=True):
            if a < b:
                smaller = min(outlines[a].area, outlines[b].area)
                share = outlines[a].intersection(outlines[b]).area / smaller
                if share > OVERLAP:
                    pair = sorted(context.numbers[island[k][0].id] for k in (a, b))
                    found.append((pair[0], pair[1], share))
    return sorted(found, key=lambda pair: (-pair[2], pair[:2]))


def _scale(context: _Context) -> str:
    scales = [fragment.mm_per_px for fragment in context.puzzle.fragments]
    low, high = f"{min(scales):.4g}", f"{max(scales):.4g}"
    figure = f"{low} mm per pixel" if low == high else f"{low} to {high} mm per pixel"
    source = context.puzzle.metadata.get("scale")
    if source is None:
        return figure
    if not context.scale_known:
        return f"{figure}, a guess"
    told = [SCALE_SOURCES.get(each, each) for each in str(source).split(", ")]
    return f"{figure}, {xml_text('; '.join(told))}"


def _numbers(*values: float) -> tuple[str, ...]:
    return tuple(decimal(value, 3) for value in values)


def _size(bounds: Bounds) -> str:
    left, top, right, bottom = bounds
    return f"{right - left:.0f} × {bottom - top:.0f} mm"


def _pieces_of(count: int) -> str:
    return f"{count} piece{'s' * (count != 1)}"


def _shortened(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: max(letters - 1, 0)]}…"
