"""What no real puzzle tells: what lay across every point of every break.

Labels are computed from the cut picture, before wear, and carried over to the worn outlines. They
are stored as `labels.npz` beside a puzzle's `data.json`; `Labels.to_bytes` names its arrays.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly.errors import InputError
from reassembly.outline.contour import resample
from reassembly.pose import Pose
from reassembly.puzzle import Fragment
from reassembly.synthetic.arrays import Bytes, Floats, Points

__all__ = [
    "EDGE",
    "LOST",
    "Break",
    "Labels",
    "SharedEdge",
    "make_labels",
    "shared_edges",
    "trace_breaks",
]

EDGE = -1
"""Across: nothing, since the fresco ends there (or the piece is a stray)."""
LOST = -2
"""Across: a piece that is not in the puzzle."""
SPACING_MM = 1.0
"""Distance of labelled outline points and of the points of shared edges."""
DECIMATE = 2
"""Of the pixels along an unworn outline, one in so many is looked at."""
SHORTEST_EDGE_MM = 3.0
"""Pieces that share less than this touch at a corner and are no neighbours."""


@dataclass(frozen=True, eq=False)
class Break:
    """The unworn outline of one piece."""

    points: Points
    """(N, 2) in order around the piece, mm, in the frame of the picture."""
    across: NDArray[np.int64]
    """(N,) which piece of the cut lies on the other side, -1 where the picture ends."""


@dataclass(frozen=True, eq=False)
class SharedEdge:
    """Where two pieces were one."""

    pieces: tuple[int, int]
    """Indices of the two pieces, the lower first."""
    line: Floats
    """(N, 2), mm, in the frame of the picture, about 1 mm apart."""

    @property
    def length_mm(self) -> float:
        return float(np.linalg.norm(np.diff(self.line, axis=0), axis=1).sum())


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of one puzzle. Pieces are counted in the order of the puzzle's fragments."""

    ids: tuple[str, ...]
    poses: tuple[Pose | None, ...]
    """True poses; None for strays. The frame is that of the picture."""
    outlines: tuple[Floats, ...]
    """Per piece (N, 2): its worn outline, mm, in the fragment's own frame, 1 mm apart."""
    across: tuple[NDArray[np.int16], ...]
    """Per piece (N,): the piece that lay across the break before the wear; -1 where the fresco
    ended, -2 where that piece is lost."""
    partner: tuple[NDArray[np.int32], ...]
    """Per piece (N,): which point of that piece's outline was opposite; -1 for none."""
    gap_mm: tuple[Floats, ...]
    """Per piece (N,): the distance to the other outline at that point, when both pieces lie in
    their true poses; never negative, even where they overlap there; NaN for none."""
    edges: tuple[SharedEdge, ...]
    """Shared edges, as they were before the wear; one pair may share several."""

    @property
    def strays(self) -> NDArray[np.bool_]:
        """(pieces,), true for pieces of another fresco."""
        return np.array([pose is None for pose in self.poses])

    @property
    def neighbours(self) -> dict[tuple[int, int], float]:
        """Length in mm of the edge that two pieces share, for all pairs that share one."""
        lengths: dict[tuple[int, int], float] = {}
        for edge in self.edges:
            lengths[edge.pieces] = lengths.get(edge.pieces, 0.0) + edge.length_mm
        return {pair: mm for pair, mm in sorted(lengths.items()) if mm >= SHORTEST_EDGE_MM}

    def to_bytes(self) -> bytes:
        """The labels as an uncompressed npz file.

        `ids` (P,); `poses` (P, 3) of x_mm, y_mm, rotation_rad, NaN for strays; `stray` (P,);
        `outline_start` (P + 1,): the points of piece p are rows outline_start[p] to
        outline_start[p + 1] of `outline` (N, 2), `across` (N,), `partner` (N,; counted within the
        other piece) and `gap_mm` (N,); `neighbours` (M, 2) with `shared_mm` (M,); `edge_start`
        (E + 1,) likewise for the rows of `edge` (K, 2), with `edge_pieces` (E, 2).
        """
        poses = [(p.x_mm, p.y_mm, p.rotation_rad) if p else (np.nan,) * 3 for p in self.poses]
        pairs = self.neighbours
        lines = [edge.line for edge in self.edges]
        arrays = {
            "ids": np.array(self.ids),
            "poses": np.array(poses, np.float64),
            "stray": self.strays,
            "outline_start": _starts(self.outlines),
            "outline": _joined(self.outlines, (0, 2), np.float32),
            "across": _joined(self.across, (0,), np.int16),
            "partner": _joined(self.partner, (0,), np.int32),
            "gap_mm": _joined(self.gap_mm, (0,), np.float32),
            "neighbours": np.array(list(pairs), np.int16).reshape(-1, 2),
            "shared_mm": np.array(list(pairs.values()), np.float32),
            "edge_start": _starts(lines),
            "edge": _joined(lines, (0, 2), np.float32),
            "edge_pieces": np.array([e.pieces for e in self.edges], np.int16).reshape(-1, 2),
        }
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        return buffer.getvalue()

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Labels:
        """Reads a `labels.npz`, or the one in a puzzle's folder."""
        file = Path(path) / "labels.npz" if Path(path).is_dir() else Path(path)
        try:
            with np.load(file, allow_pickle=False) as stored:
                a = {name: stored[name] for name in stored.files}
            starts, edge_starts = a["outline_start"][1:-1], a["edge_start"][1:-1]
            per_piece = {
                name: tuple(np.split(a[name], starts))
                for name in ("outline", "across", "partner", "gap_mm")
            }
            edges = np.split(a["edge"], edge_starts) if len(a["edge"]) else []
            return cls(
                ids=tuple(str(name) for name in a["ids"]),
                poses=tuple(None if np.isnan(p[0]) else Pose(*p) for p in a["poses"]),
                outlines=per_piece["outline"],
                across=per_piece["across"],
                partner=per_piece["partner"],
                gap_mm=per_piece["gap_mm"],
                edges=tuple(
                    SharedEdge((int(i), int(j)), line)
                    for (i, j), line in zip(a["edge_pieces"], edges, strict=True)
                ),
            )
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                "these are no labels of a made puzzle", "Generate the data set again", file
            ) from error


def trace_breaks(
    labels: NDArray[np.int16], windows: Sequence[tuple[slice, slice]], mm_per_px: float
) -> list[Break]:
    """The outline of every piece of a cut picture, before wear.

    Args:
        labels: (H, W) as `cutter.cut` gives them.
        windows: the rows and columns that hold each piece.
    """
    padded = np.pad(labels, 1, constant_values=EDGE)
    return [_trace(padded, k, window, mm_per_px) for k, window in enumerate(windows)]


def make_labels(
    fragments: Sequence[Fragment],
    sources: Sequence[int | None],
    homes: Sequence[Pose],
    truths: Sequence[Pose | None],
    breaks: Sequence[Break],
    edges: Sequence[SharedEdge],
) -> Labels:
    """Labels of one puzzle.

    Args:
        fragments: the worn and photographed pieces.
        sources: which piece of the cut each is; None for strays.
        homes: where each lay in the picture when it was cut.
        truths: where each lies in the solved puzzle; None for strays.
        breaks: of every piece of the cut, those that are lost included.
        edges: `shared_edges` of the breaks.
    """
    outlines = [_outline(fragment) for fragment in fragments]
    starts = _starts(outlines)
    owner = np.repeat(np.arange(len(outlines)), np.diff(starts))
    home = np.concatenate([pose.apply(line) for pose, line in zip(homes, outlines, strict=True)])
    solved = np.concatenate(
        [
            np.full_like(line, np.nan) if pose is None else pose.apply(line)
            for pose, line in zip(truths, outlines, strict=True)
        ]
    )
    index = {source: k for k, source in enumerate(sources) if source is not None}
    renamed = np.array([*(index.get(k, LOST) for k in range(len(breaks))), EDGE], np.int16)
    across = np.full(len(home), EDGE, np.int16)
    partner = np.full(len(home), -1, np.int32)
    gaps = np.full(len(home), np.nan, np.float32)
    if index:
        old = np.concatenate([breaks[source].points[::DECIMATE] for source in index])
        beyond = np.concatenate([breaks[source].across[::DECIMATE] for source in index])
        tags = [np.full(len(breaks[s].points[::DECIMATE]), k) for s, k in index.items()]
        own = np.flatnonzero(np.array([source is not None for source in sources])[owner])
        at = _nearest(old, np.concatenate(tags), home[own], owner[own])
        across[own] = renamed[beyond[at]]
        facing = across[own] >= 0
        mine, at = own[facing], at[facing]
        # Opposite is what is nearest to the old break, not to what is left of this piece.
        other = across[mine].astype(np.int64)
        found = _nearest(home, owner, old[at], other)
        partner[mine] = found - starts[other]
        gaps[mine] = _distance_to_rings(
            solved[mine], solved, found, starts[other], starts[other + 1]
        )
    cuts = starts[1:-1]
    return Labels(
        ids=tuple(fragment.id for fragment in fragments),
        poses=tuple(truths),
        outlines=tuple(outline.astype(np.float32) for outline in outlines),
        across=tuple(np.split(across, cuts)),
        partner=tuple(np.split(partner, cuts)),
        gap_mm=tuple(np.split(gaps, cuts)),
        edges=_renamed_edges(edges, renamed),
    )


def shared_edges(breaks: Sequence[Break]) -> tuple[SharedEdge, ...]:
    """Every stretch of break between two pieces."""
    edges = []
    for k, line in enumerate(breaks):
        # Each edge is traced from the piece that was cut first; from the other it would be the
        # same line backwards.
        wanted = np.where(line.across > k, line.across, EDGE)
        for start, end in _runs(wanted):
            points = np.take(line.points, np.arange(start, end), axis=0, mode="wrap")
            if len(points) > 1:
                other = int(wanted[start])
                edges.append(SharedEdge((k, other), _spaced(points)))
    return tuple(edges)


def _renamed_edges(
    edges: Sequence[SharedEdge], renamed: NDArray[np.int16]
) -> tuple[SharedEdge, ...]:
    """The edges between pieces that are left, under their new numbers, in order."""
    kept = []
    for edge in edges:
        first, second = sorted(int(renamed[k]) for k in edge.pieces)
        if first >= 0:
            kept.append(SharedEdge((first, second), edge.line))
    return tuple(sorted(kept, key=lambda edge: edge.pieces))


def _trace(
    padded: NDArray[np.int16], k: int, window: tuple[slice, slice], mm_per_px: float
) -> Break:
    top, left = window[0].start, window[1].start
    area = padded[top : window[0].stop + 2, left : window[1].stop + 2]
    ring, beside = _ring((area == k).view(np.uint8))
    corner = np.array([left - 1, top - 1])
    return Break((ring + corner) * mm_per_px, area[beside[:, 1], beside[:, 0]].astype(np.int64))


def _nearest(
    points: Points,
    tags: NDArray[np.int64],
    wanted: Points,
    wanted_tags: NDArray[np.int64],
) -> NDArray[np.int64]:
    """(M,) index of the point that is nearest to each wanted one among those of the same tag."""
    from scipy.spatial import cKDTree

    # A third coordinate keeps points of different tags further apart than any fresco is wide.
    far = 1e6
    tree = cKDTree(np.column_stack([points, far * tags]), balanced_tree=False, compact_nodes=False)
    return np.asarray(tree.query(np.column_stack([wanted, far * wanted_tags]))[1])


def _distance_to_rings(
    points: Points,
    vertices: Points,
    nearest: NDArray[np.int64],
    first: NDArray[np.int64],
    end: NDArray[np.int64],
) -> NDArray[np.float64]:
    """(N,) distance of points from the two segments that meet at their nearest vertex, of rings
    that hold the vertices from `first` to before `end`."""
    start = vertices[nearest]
    found = []
    for step in (-1, 1):
        along = vertices[first + (nearest - first + step) % (end - first)] - start
        share = np.einsum("ij,ij->i", points - start, along)
        share /= np.maximum(np.einsum("ij,ij->i", along, along), 1e-12)
        foot = start + np.clip(share, 0, 1)[:, None] * along
        found.append(np.linalg.norm(points - foot, axis=1))
    return np.asarray(np.minimum(*found))


def _outline(fragment: Fragment) -> Points:
    """(N, 2) points on the outer outline, 1 mm apart, in the fragment's own frame."""
    ring, _ = _ring(np.pad(fragment.mask, 1).view(np.uint8))
    return resample(fragment.to_mm(ring - 1), SPACING_MM)


def _ring(mask: Bytes) -> tuple[Points, NDArray[np.int64]]:
    """The outline of a mask that leaves its border free.

    Returns:
        (N, 2) points midway between inside and outside, continuous pixels, in order; and (N, 2)
        the outside pixel beside each.
    """
    borders = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)[0]
    pixels = max(borders, key=len)[:, 0].astype(np.int64)
    width = mask.shape[1]
    place = pixels[:, 1] * width + pixels[:, 0]
    outside = mask.ravel()[place[:, None] + [1, width, -1, -width]] == 0
    # Pixels at which the border turns inwards touch the outside only at a corner.
    kept = outside.any(axis=1)
    outside, pixels = outside[kept], pixels[kept]
    steps = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
    outward = outside @ steps.astype(np.float32)
    return _smoothed(pixels + 0.5 + 0.5 * outward), pixels + steps[outside.argmax(axis=1)]


def _smoothed(ring: Points, reach: int = 2) -> Points:
    """A closed ring without its staircase: the mean over a few points either way."""
    if len(ring) <= 2 * reach:
        return ring
    wrapped = np.concatenate([ring[-reach:], ring, ring[:reach]])
    sums = np.cumsum(np.vstack([np.zeros((1, 2)), wrapped]), axis=0)
    return np.asarray((sums[2 * reach + 1 :] - sums[: -2 * reach - 1]) / (2 * reach + 1))


def _runs(values: NDArray[np.int64]) -> list[tuple[int, int]]:
    """(start, end) of every stretch of one value that is not EDGE, around a ring."""
    if (values == values[0]).all():
        return [(0, len(values))] if values[0] != EDGE else []
    starts = np.flatnonzero(values != np.roll(values, 1))
    ends = np.append(starts[1:], starts[0] + len(values))
    return [(int(s), int(e)) for s, e in zip(starts, ends, strict=True) if values[s] != EDGE]


def _spaced(line: Points) -> Floats:
    """An open line as points about 1 mm apart, its ends included."""
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])
    wanted = np.linspace(0, along[-1], max(2, round(along[-1] / SPACING_MM) + 1))
    spaced = [np.interp(wanted, along, line[:, axis]) for axis in (0, 1)]
    return np.column_stack(spaced).astype(np.float32)


def _starts(parts: Sequence[NDArray[np.generic]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)


def _joined(
    parts: Sequence[NDArray[np.generic]], empty: tuple[int, ...], dtype: type[np.generic]
) -> NDArray[np.generic]:
    return np.concatenate(parts).astype(dtype) if len(parts) else np.zeros(empty, dtype)
