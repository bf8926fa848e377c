"""Which fragments of a depot may join a piece, and where.

First, the index tells for every segment of the piece which segments of the depot are likest what
it lacks. Each such pair says how the two pieces would lie; where several say the same, they speak
for each other (a Hough vote). Together with how alike the pieces are as wholes, that gives a short
list. Then all segments of the short list are compared with all of the piece, from both sides, and
vote again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reassembly.depot.coding import SEGMENTS, Coded, as_floats
from reassembly.depot.index import code_picture
from reassembly.depot.search_file import SearchFile, open_search_file
from reassembly.depot.store import Depot, Summary, open_depot
from reassembly.errors import InputError
from reassembly.io.images import is_image_name
from reassembly.pose import Pose

__all__ = [
    "Candidate",
    "Searcher",
    "coded_piece",
    "find_candidates",
    "open_searcher",
    "with_pictures",
]

Floats = NDArray[np.float64]

NEAREST = 50
"""Segments of the depot that are looked at for each segment of the piece."""
SHORT_LIST = 200
"""Fragments that are compared in full."""
TURN_DEG, SHIFT_MM = 15.0, 10.0
"""Votes for poses that differ by less count together."""
GRIDS = [(turn, x, y) for turn in (0.0, 0.5) for x in (0.0, 0.5) for y in (0.0, 0.5)]
"""By how much of a cell the grids of poses are shifted, lest a grid's lines part what agrees."""
SHARPNESS, NOTHING = 24.0, 11.3
"""How steeply a match's weight grows with similarity, and the logarithm of the weight of none, as
the network learned them."""
FAINT = 0.02
"""Matches that are less sure do not vote."""
MEANT = 3
"""Ids that are proposed for one that is unknown."""
ENOUGH = 5.0
"""Votes, in sure matches, that count in full even where no other candidate has as many."""


@dataclass(frozen=True)
class Candidate:
    """A fragment that may join the piece."""

    id: str
    score: float
    """From 0 to 1, half of it for the votes, half for the likeness of the pieces. It ranks; it is
    no probability."""
    pose: Pose
    """Roughly how it would lie, in the piece's own frame."""
    contact_mm: float
    """Roughly how much of the piece's outline matches."""
    at_mm: tuple[float, float]
    """The middle of the match, in the piece's own frame."""
    other_at_mm: tuple[float, float]
    """The same in the candidate's own frame."""
    picture: str = ""
    """Where its picture is."""


class Searcher:
    """An index, opened for many questions."""

    def __init__(self, depot: Depot, summary: Summary, file: SearchFile) -> None:
        self.depot, self.file = depot, file
        self.ids, self.numbers = summary.ids, summary.numbers
        self.frames = summary.frames.astype(np.float64)
        self.piece_has, self.piece_lacks = (
            as_floats(x) for x in (summary.piece_has, summary.piece_lacks)
        )
        self._place = np.full(int(summary.numbers[-1]) + 1, -1)
        self._place[summary.numbers] = np.arange(len(summary.numbers))

    def candidates(
        self, piece: Coded, count: int = 50, *, short_list: int = SHORT_LIST
    ) -> list[Candidate]:
        """The likeliest neighbours of a piece, the best first; never the piece itself.

        Args:
            piece: of any origin; a fragment with its id is passed over.
            count: how many are wanted at most.
            short_list: how many are compared in full, at least `count`.
        """
        likeness = self._likeness(piece)
        own = np.array([i == piece.id for i in self.ids])
        votes = self._first_votes(piece)
        rank = np.where(own, -np.inf, likeness + votes / max(votes.max(), 1e-9))
        chosen = np.argsort(-rank, kind="stable")[: max(count, short_list)]
        chosen = np.sort(chosen[~own[chosen]])
        compared = self._compare(piece, chosen)
        votes = compared.votes / max(compared.votes.max(initial=0.0), ENOUGH)
        score = (votes + likeness[chosen].clip(0.0, 1.0)) / 2
        step_mm = float(np.hypot(*(np.roll(piece.frames, -1, 0) - piece.frames)[:, :2].T).mean())
        best = np.argsort(-score, kind="stable")[:count]
        return [
            Candidate(
                self.ids[chosen[k]],
                float(score[k]),
                Pose(float(x), float(y), -float(compared.turn[k])),
                float(compared.segments[k]) * step_mm,
                (float(compared.at[k, 0]), float(compared.at[k, 1])),
                (float(compared.other_at[k, 0]), float(compared.other_at[k, 1])),
            )
            for k, (x, y) in zip(best, compared.shift[best], strict=True)
        ]

    def _likeness(self, piece: Coded) -> NDArray[np.float32]:
        """(N,), from -1 to 1."""
        one = self.piece_has @ as_floats(piece.piece_lacks)
        other = self.piece_lacks @ as_floats(piece.piece_has)
        return np.asarray((one + other) / 2)

    def _first_votes(self, piece: Coded) -> Floats:
        """(N,): by the nearest segments alone."""
        similar, numbers, segments = self.file.nearest(piece.lacks, NEAREST)
        real = (numbers >= 0) & (numbers < len(self._place))
        place = np.where(real, self._place[np.where(real, numbers, 0)], -1)
        # The farthest of a segment's nearest is what any depot of this size offers by chance.
        weight = np.where(place < 0, 0.0, similar - similar.min(axis=1, keepdims=True))
        of, k = np.nonzero(weight > 0)
        there = place[of, k]
        voted = _vote(
            piece.frames[of].astype(np.float64),
            self.frames[there, segments[of, k]],
            there,
            weight[of, k],
            len(self.ids),
        )
        return voted.votes

    def _compare(self, piece: Coded, chosen: NDArray[np.intp]) -> _Voted:
        """The vote of all segments, for the chosen fragments alone."""
        codes = self.depot.codes(self.numbers[chosen])
        both = [np.concatenate(codes[int(n)], axis=1) for n in self.numbers[chosen]]
        theirs = as_floats(np.concatenate(both)) if both else np.empty((0, 1), np.float32)
        ours = as_floats(np.concatenate([piece.lacks, piece.has], axis=1))
        similar = (ours @ theirs.T).reshape(SEGMENTS, len(chosen), SEGMENTS) / 2
        likely = np.exp(SHARPNESS * similar)
        none = np.exp(np.float32(NOTHING))
        forth = likely / (likely.sum(axis=2, keepdims=True) + none)
        back = likely / (likely.sum(axis=0, keepdims=True) + none)
        sure = np.sqrt(forth * back)
        of, which, segment = np.nonzero(sure > FAINT)
        return _vote(
            piece.frames[of].astype(np.float64),
            self.frames[chosen[which], segment],
            which,
            sure[of, which, segment].astype(np.float64),
            len(chosen),
        )


def open_searcher(path: str | PathLike[str]) -> Searcher:
    """Opens an index for searching."""
    depot = open_depot(path)
    file = open_search_file(depot)
    return Searcher(depot, depot.summary(), file)


def find_candidates(
    fragment: str | PathLike[str],
    index: str | PathLike[str],
    *,
    count: int = 50,
    mm_per_px: float | None = None,
) -> list[Candidate]:
    """The fragments of an index that may join one piece, the likeliest first.

    Args:
        fragment: an id in the index, or a picture.
        mm_per_px: scale of the picture, as of `reassembly.load`.
    """
    searcher = open_searcher(index)
    try:
        piece = coded_piece(searcher.depot, fragment, mm_per_px)
        return with_pictures(searcher.depot, searcher.candidates(piece, count))
    finally:
        searcher.depot.close()


def coded_piece(
    depot: Depot, fragment: str | PathLike[str], mm_per_px: float | None = None
) -> Coded:
    """The codes of a fragment of the index, or of a picture."""
    row = depot.find(str(fragment))
    if row is not None:
        return depot.coded(row)
    if not is_image_name(str(fragment)):
        near = _near(str(fragment), list(depot.pictures()))
        raise InputError(
            f"the index has no fragment {str(fragment)!r}, and it is no picture",
            f"Did you mean {' or '.join(near)}? Otherwise give a picture"
            if near
            else "Give a picture, or an id such as puzzle/piece",
            depot.folder,
        )
    digest, coded = code_picture(fragment, depot.wear() or "worn", mm_per_px)
    # Under the id that it has in the index, so that it is no candidate for itself.
    coded = replace(coded, id=depot.id_of(Path(fragment).resolve()) or "")
    depot.check_coder(digest)
    return coded


def _near(wanted: str, ids: Sequence[str]) -> list[str]:
    """Ids that may be meant: the same piece of whatever puzzle, then those that are spelt alike."""
    own = wanted.rpartition("/")[2].casefold()
    same = [one for one in ids if one.rpartition("/")[2].casefold() == own]
    return list(dict.fromkeys([*same, *get_close_matches(wanted, ids, MEANT)]))[:MEANT]


def with_pictures(depot: Depot, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same, with the paths of their pictures."""
    pictures = depot.pictures()
    return [replace(one, picture=pictures[one.id]) for one in candidates]


@dataclass(frozen=True, eq=False)
class _Voted:
    """What became of a vote, for each of K fragments."""

    votes: Floats
    """(K,): of the pose that most spoke for."""
    turn: Floats
    """(K,): radians, as angles of outlines count."""
    shift: Floats
    """(K, 2), mm."""
    segments: Floats
    """(K,): how many of the piece's segments spoke for it."""
    at: Floats
    """(K, 2): where they are, in the piece's own frame."""
    other_at: Floats
    """(K, 2): in the fragment's own."""


def _vote(
    ours: Floats, theirs: Floats, fragment: NDArray[np.intp], weight: Floats, count: int
) -> _Voted:
    """Which relative pose most pairs of segments agree on, for each fragment.

    Args:
        ours, theirs: (V, 3), frames of segments that are taken to lie across from each other.
        fragment: (V,), whose segment `theirs` is, from 0 to `count`.
        weight: (V,).
    """
    turn = ours[:, 2] + np.pi - theirs[:, 2]
    c, s = np.cos(turn), np.sin(turn)
    x = ours[:, 0] - (c * theirs[:, 0] - s * theirs[:, 1])
    y = ours[:, 1] - (s * theirs[:, 0] + c * theirs[:, 1])
    turns = round(360 / TURN_DEG)
    most = np.zeros(count)
    winners = np.zeros(len(weight), bool)
    for shift_turn, shift_x, shift_y in GRIDS:
        cell = np.column_stack(
            [
                fragment,
                np.floor(turn / (2 * np.pi) * turns + shift_turn).astype(np.int64) % turns,
                np.floor(x / SHIFT_MM + shift_x).astype(np.int64),
                np.floor(y / SHIFT_MM + shift_y).astype(np.int64),
            ]
        )
        cells, of = _distinct(cell)
        votes = np.bincount(of, weight, minlength=len(cells))
        owner = cells[:, 0]
        before = most.copy()
        np.maximum.at(most, owner, votes)
        best = (votes == most[owner]) & (most[owner] > before[owner])
        winners = np.where(most[fragment] > before[fragment], best[of], winners)
    chosen = np.flatnonzero(winners)
    of, w = fragment[chosen], weight[chosen]

    def mean(values: Floats) -> Floats:
        total = np.bincount(of, w, minlength=count)
        return np.bincount(of, w * values, minlength=count) / np.maximum(total, 1e-12)

    # Votes turn about the middle of the match, not about the piece's own origin far from it.
    at = np.column_stack([mean(ours[chosen, 0]), mean(ours[chosen, 1])])
    other_at = np.column_stack([mean(theirs[chosen, 0]), mean(theirs[chosen, 1])])
    turned = np.arctan2(mean(np.sin(turn[chosen])), mean(np.cos(turn[chosen])))
    c, s = np.cos(turned), np.sin(turned)
    carried = np.column_stack(
        [c * other_at[:, 0] - s * other_at[:, 1], s * other_at[:, 0] + c * other_at[:, 1]]
    )
    seen = np.unique(np.column_stack([of, *np.rint(ours[chosen, :2] * 100).T]), axis=0)
    segments = np.bincount(seen[:, 0].astype(np.intp), minlength=count).astype(np.float64)
    return _Voted(most, turned, at - carried, segments, at, other_at)


def _distinct(cells: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Distinct rows, and which of them each row is."""
    low = cells.min(axis=0, initial=0)
    spans = cells.max(axis=0, initial=0) - low + 1
    key = np.ravel_multi_index(tuple((cells - low).T), tuple(spans.tolist()))
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    return cells[first], of
