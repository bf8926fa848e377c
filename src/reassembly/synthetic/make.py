"""One made puzzle from a seed: picture, cut, wear, photographs, labels; and an endless stream.

Puzzle number `index` of seed `seed` is the same wherever and whenever it is made: it depends on
these two numbers and the recipe alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.errors import InputError
from reassembly.pose import Pose
from reassembly.puzzle import Fragment, Puzzle
from reassembly.synthetic.arrays import Bytes
from reassembly.synthetic.cutter import (
    CutSettings,
    broken_rim,
    check_fit,
    cut,
    most_pieces,
)
from reassembly.synthetic.labels import Labels, make_labels, shared_edges, trace_breaks
from reassembly.synthetic.pictures import Picture, PictureSet, draw_picture, find_pictures
from reassembly.synthetic.scan import PLAIN, STUDIO, ScanSettings, prepare, scan
from reassembly.synthetic.wear import (
    PAPER,
    PRISTINE,
    REALISTIC,
    WearSettings,
    damage_paint,
    disturbance,
    loss_field,
    tick_marks,
    veil_paint,
    wear_piece,
)

__all__ = [
    "PRESETS",
    "MadePuzzle",
    "Preset",
    "Recipe",
    "check_seed",
    "draw_pieces",
    "make_puzzle",
    "recipe",
    "stream",
]

MEDIAN_DIAMETER_MM = 79.0
"""Median equivalent diameter of RePAIR's fragments, and of ours."""
PIECES_FEWEST, PIECES_SPAN, PIECES_BETA = 4, 14, (1.5, 2.562)
"""Without a wish, a puzzle has 4 to 18 pieces: 4 + Binomial(14, p), p from this beta distribution.
The mean is 9.17, that of the paper's 45834 pieces in 5000 puzzles."""
PIECES_MEAN = PIECES_FEWEST + PIECES_SPAN * PIECES_BETA[0] / sum(PIECES_BETA)
SIZES_PX = (128, 8192)
MARGIN_PX = 4
"""Of the window in which a piece is worn."""
INK = 37
"""Grey of the conservators' pencil."""
INK_COVER = 0.85
SHORTEST_HOLD_MM = 12.0
"""Two pieces hang together where they share an edge of at least this length."""
STRAY_SHARE = 0.25
"""Area of the picture from which a stray is cut, as a share of the puzzle's own."""


@dataclass(frozen=True)
class Preset:
    """A manner of breaking, wearing and photographing frescoes."""

    name: str
    cut: CutSettings = field(default_factory=CutSettings)
    wear: WearSettings = PRISTINE
    scan: ScanSettings = PLAIN
    styles: Mapping[str, float] | None = None
    """How often each style of wall is painted; None for the painter's own frequencies."""
    typical_diameter: float = 0.977
    """Median equivalent diameter of its pieces, over the side of a square of the picture's area
    divided by the mean number of pieces; measured. It sets the scale."""


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("pairingnet"),
        Preset("paper", wear=PAPER, typical_diameter=0.953),
        Preset(
            "realistic",
            cut=CutSettings(
                knot_offset=1 / 55,
                wavy=0.8,
                wave_bias=1 / 200,
                wave_amplitude=1 / 100,
                roughness_mm=0.46,
                roughness_longest_mm=24.0,
                min_side_mm=18.0,
                min_area_mm2=20.0**2,
                max_aspect=2.3,
                min_fill=0.5,
                min_end_distance_mm=12.0,
                rim_mm=(0.0, 14.0),
            ),
            wear=REALISTIC,
            scan=STUDIO,
            styles={"linear": 0.8, "ceiling": 0.1, "third": 0.05, "fourth": 0.05},
            typical_diameter=0.718,
        ),
    )
}


@dataclass(frozen=True)
class Recipe:
    """What determines a made puzzle, besides its seed and index. Made by `recipe`."""

    preset: Preset
    size_px: int
    """Side of a square of as many pixels as the picture has."""
    pieces: tuple[int, int] | None
    """Fewest and most pieces of a puzzle, strays included; None for 9.17 on average."""
    pictures: PictureSet | None = None
    """None for painted pictures."""

    @property
    def mm_per_px(self) -> float:
        """The scale at which pieces of this recipe have a median diameter of 79 mm.

        The same for all puzzles of a recipe: those with fewer pieces have larger ones.
        """
        mean = PIECES_MEAN if self.pieces is None else sum(self.pieces) / 2
        side_px = self.size_px / math.sqrt(mean)
        return round(MEDIAN_DIAMETER_MM / (float(self.preset.typical_diameter) * side_px), 6)


@dataclass(frozen=True, eq=False)
class MadePuzzle:
    """A puzzle with everything that is known about it."""

    puzzle: Puzzle
    """With true poses, in mm from the picture's top-left corner, and strays."""
    labels: Labels
    picture: Bytes
    """(H, W, 3), RGB: what was cut."""


def recipe(
    preset: str | Preset = "realistic",
    *,
    pieces: tuple[int, int] | None = None,
    size_px: int = 1024,
    images: str | PathLike[str] | Iterable[str | PathLike[str]] | None = None,
    image_ids: Collection[str] | None = None,
    style: str | None = None,
) -> Recipe:
    """Checks a wish and looks up its pictures.

    Args:
        preset: `pairingnet`, `paper`, `realistic`, or settings of one's own.
        pieces: fewest and most pieces of a puzzle.
        size_px: side of the square picture; pictures of another shape get the same area.
        images: see `pictures.find_pictures`; by default pictures are painted.
        image_ids: the only puzzles, or files, of `images` that may be used.
        style: one of `painter.STYLES`, in which all walls are painted; by default as often each
            as the preset says.
    """
    if isinstance(preset, str):
        if preset not in PRESETS:
            raise InputError(f"there is no preset {preset!r}", f"Choose from {', '.join(PRESETS)}")
        preset = PRESETS[preset]
    if style is not None:
        from reassembly.synthetic.painter import STYLES

        if style not in STYLES:
            raise InputError(f"there is no style {style!r}", f"Choose from {', '.join(STYLES)}")
        if images is not None:
            raise InputError(
                "a style is for walls that are painted, not for pictures",
                "Leave out the style, or the pictures",
            )
        preset = replace(preset, styles={style: 1.0})
    if not SIZES_PX[0] <= size_px <= SIZES_PX[1]:
        raise InputError(
            f"pictures of {size_px} px cannot be made",
            f"Choose a size from {SIZES_PX[0]} to {SIZES_PX[1]}",
        )
    if pieces is not None:
        if not 2 <= pieces[0] <= pieces[1]:
            raise InputError(
                f"{pieces[0]} to {pieces[1]} pieces cannot be made",
                "Ask for two or more, the smaller number first",
            )
        check_fit(pieces[1], size_px**2)
        pieces = (int(pieces[0]), int(pieces[1]))
    found = None if images is None else find_pictures(images, size_px, image_ids)
    return Recipe(preset, int(size_px), pieces, found)


def stream(
    seed: int,
    preset: str | Preset | Recipe = "realistic",
    *,
    pieces: tuple[int, int] | None = None,
    size_px: int = 1024,
    images: str | PathLike[str] | Iterable[str | PathLike[str]] | None = None,
    worker: int = 0,
    workers: int = 1,
    rank: int = 0,
    ranks: int = 1,
    start: int = 0,
) -> Iterator[MadePuzzle]:
    """Puzzles without end, made as they are asked for.

    Several loader workers on several ranks together draw every index exactly once: each takes
    its own residue.

    Args:
        preset: as for `recipe`, or a recipe, which then says all the rest.
        worker: which loader worker this is.
        workers: of how many on this rank.
        rank: which process of a distributed run this is.
        ranks: of how many.
        start: how many rounds to leave out, to carry on where an earlier stream ended.
    """
    if not (0 <= worker < workers and 0 <= rank < ranks and start >= 0):
        raise ValueError(f"there is no worker {worker} of {workers} on rank {rank} of {ranks}")
    wanted = (
        preset
        if isinstance(preset, Recipe)
        else recipe(preset, pieces=pieces, size_px=size_px, images=images)
    )
    index = rank * workers + worker + start * ranks * workers
    while True:
        yield make_puzzle(wanted, seed, index)
        index += ranks * workers


def make_puzzle(wanted: Recipe, seed: int, index: int) -> MadePuzzle:
    """Puzzle number `index` of `seed`."""
    check_seed(seed)
    rng = np.random.default_rng([seed, index])
    wear = wanted.preset.wear
    total = draw_pieces(wanted.pieces, rng)
    strays = min(int(rng.choice(len(wear.strays), p=wear.strays)), total - 2)
    missing = rng.uniform(*wear.missing)
    lost = round((total - strays) * missing / (1 - missing))
    # Pieces that nobody will see must not make those too small that were asked for.
    lost = min(lost, max(most_pieces(wanted.size_px**2) - total, 0))
    picture, chosen = _fresco(wanted, rng)
    pieces = _Workshop(wanted, picture, total - strays + lost, rng)
    sources: list[int | None] = list(pieces.without(lost, rng))
    made = [pieces.finish(k, rng) for k in sources if k is not None]
    for _ in range(strays):
        made.append(_stray(wanted, pieces.count, chosen, rng))
        sources.append(None)
    order = rng.permutation(len(made))
    digits = max(2, len(str(len(made) - 1)))
    named = [_named(made[k][0], f"fragment_{n:0{digits}d}") for n, k in enumerate(order)]
    homes = [made[k][1] for k in order]
    truths = [None if sources[k] is None else made[k][2] for k in order]
    labels = make_labels(
        named, [sources[k] for k in order], homes, truths, pieces.breaks, pieces.edges
    )
    about: dict[str, Any] = {"preset": wanted.preset.name, "seed": seed, "index": index}
    if wanted.pictures is not None and chosen is not None:
        about["picture"] = wanted.pictures.name(chosen)
    puzzle = Puzzle(
        puzzle_id(index),
        tuple(named),
        {f.id: pose for f, pose in zip(named, truths, strict=True) if pose is not None},
        frozenset(f.id for f, pose in zip(named, truths, strict=True) if pose is None),
        about,
    )
    return MadePuzzle(puzzle, labels, picture.rgb)


def check_seed(seed: int) -> None:
    """Raises `InputError` for a seed that no puzzle has."""
    if seed < 0:
        raise InputError(f"the seed {seed} is below 0", "Choose a seed of 0 or more")


def puzzle_id(index: int) -> str:
    """How puzzle number `index` is called."""
    return f"puzzle_{index:05d}"


class _Workshop:
    """A picture, cut into pieces, each of which can be worn and photographed."""

    def __init__(
        self, wanted: Recipe, picture: Picture, count: int, rng: np.random.Generator
    ) -> None:
        self.preset, self.mm_per_px, self.count = wanted.preset, wanted.mm_per_px, count
        cutting, wear = self.preset.cut, self.preset.wear
        shape = picture.domain.shape
        domain = picture.domain & broken_rim(shape, rng, cutting, self.mm_per_px)
        self.labels, self.windows = cut(domain, count, rng, cutting, self.mm_per_px)
        self.breaks = trace_breaks(self.labels, self.windows, self.mm_per_px)
        self.loss = loss_field(shape, rng, wear, self.mm_per_px)
        self.edges = shared_edges(self.breaks)
        joins = [edge.line for edge in self.edges]
        self.ink = tick_marks(shape, joins, rng, wear, self.mm_per_px)
        self.picture = prepare(picture.rgb)

    def without(self, lost: int, rng: np.random.Generator) -> list[int]:
        """The pieces that are left when `lost` are taken away so that the rest hangs together."""
        left = set(range(self.count))
        beside: dict[int, set[int]] = {k: set() for k in left}
        for edge in self.edges:
            if edge.length_mm >= SHORTEST_HOLD_MM:
                i, j = edge.pieces
                beside[i].add(j)
                beside[j].add(i)
        for k in rng.permutation(self.count):
            rest = left - {int(k)}
            if lost > 0 and _connected(rest, beside):
                left, lost = rest, lost - 1
        return sorted(left)

    def finish(self, k: int, rng: np.random.Generator) -> tuple[Fragment, Pose, Pose]:
        """Piece `k`, worn and photographed; where it lay; and where it lies in the solution."""
        wear, scale = self.preset.wear, self.mm_per_px
        rows, columns = self.windows[k]
        mask = np.pad((self.labels[rows, columns] == k).view(np.uint8), MARGIN_PX)
        loss = None if self.loss is None else _window(self.loss, rows, columns)
        solid = wear_piece(mask, loss, rng, wear, scale)
        image = damage_paint(_window(self.picture, rows, columns), solid, rng, wear, scale)
        if self.ink is not None:
            drawn = _window(self.ink, rows, columns) * np.float32(INK_COVER / 255)
            image = cv2.blendLinear(np.full(image.shape, INK, np.uint8), image, drawn, 1 - drawn)
        corner = (columns.start - MARGIN_PX, rows.start - MARGIN_PX)
        fragment, home = scan(image, solid, corner, rng, self.preset.scan, scale, f"piece {k}")
        truth = disturbance(home, rng, wear) @ home
        return fragment, home, truth


def _fresco(
    wanted: Recipe, rng: np.random.Generator, share: float = 1.0, other_than: int | None = None
) -> tuple[Picture, int | None]:
    """What is to be cut, as old as the preset wants it; see `draw_picture`."""
    preset, pictures = wanted.preset, wanted.pictures
    picture, chosen = draw_picture(
        pictures, rng, wanted.size_px, wanted.mm_per_px, share, other_than, preset.styles
    )
    if pictures and chosen is not None and not isinstance(pictures.sources[chosen], str):
        return picture, chosen  # Real fragments have faded already.
    return picture._replace(rgb=veil_paint(picture.rgb, rng, preset.wear)), chosen


def _stray(
    wanted: Recipe, count: int, other_than: int | None, rng: np.random.Generator
) -> tuple[Fragment, Pose, Pose]:
    """A piece of another fresco, about as large as the puzzle's own."""
    picture, _ = _fresco(wanted, rng, STRAY_SHARE, other_than)
    pieces = _Workshop(wanted, picture, max(2, round(STRAY_SHARE * count)), rng)
    return pieces.finish(int(rng.integers(pieces.count)), rng)


def draw_pieces(wish: tuple[int, int] | None, rng: np.random.Generator) -> int:
    """How many pieces a puzzle gets."""
    if wish is None:
        return PIECES_FEWEST + int(rng.binomial(PIECES_SPAN, rng.beta(*PIECES_BETA)))
    return int(rng.integers(wish[0], wish[1] + 1))


def _named(fragment: Fragment, name: str) -> Fragment:
    return replace(fragment, id=name, metadata={"filename": f"{name}.png"})


def _window(array: NDArray[Any], rows: slice, columns: slice) -> NDArray[Any]:
    """A window of a picture with its margin; beyond the picture, its border is repeated."""
    top, left = max(rows.start - MARGIN_PX, 0), max(columns.start - MARGIN_PX, 0)
    inner = array[top : rows.stop + MARGIN_PX, left : columns.stop + MARGIN_PX]
    before = top - rows.start + MARGIN_PX, left - columns.start + MARGIN_PX
    after = (
        rows.stop - rows.start + 2 * MARGIN_PX - inner.shape[0] - before[0],
        columns.stop - columns.start + 2 * MARGIN_PX - inner.shape[1] - before[1],
    )
    if not any(before + after):
        return inner
    return np.asarray(
        cv2.copyMakeBorder(
            inner, before[0], after[0], before[1], after[1], borderType=cv2.BORDER_REPLICATE
        )
    )


def _connected(pieces: set[int], beside: dict[int, set[int]]) -> bool:
    """Whether every piece can be reached from every other over neighbours."""
    reached: set[int] = set()
    front = {min(pieces)} if pieces else set()
    while front:
        reached |= front
        front = {j for k in front for j in beside[k]} & pieces - reached
    return reached == pieces
