"""Reassembly by extrapolated paint, our reimplementation of Derech, Tal and Shimshoni.

After 'Solving archaeological puzzles' (Pattern Recognition 2021, arXiv 1812.10553), written from
the publication's description, and unverified: we have none of its data to compare with.

Every piece is extrapolated by a band around it. Transformations of every pair are sampled, coarse
to fine, in which the pieces themselves do not overlap but their extrapolations do. Each is scored
by how well the extrapolation of one agrees with the paint of the other, and by how closely the
two touch. A match is trusted as far as it is better than its rivals, other places for the same
piece. The most trusted pair comes first; then, time and again, the piece that is the most trusted
beside the whole, which is extrapolated anew each time.

Ours are the extrapolation (`matching.extrapolate.by_exemplars`), the sampling by correlation on a
coarse grid, after which rough scores choose what is refined, the form of the score, that a few
assemblies are followed side by side, of which the one that agrees best as a whole is the answer,
and that the last two pieces are sampled anew beside the whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import median

import numpy as np
from numpy.typing import NDArray

from reassembly.errors import InputError
from reassembly.matching.extrapolate import Extrapolate, by_exemplars, extrapolator
from reassembly.matching.motions import Motions, composed, inverse, motion_of, pose_of
from reassembly.matching.paint_fit import (
    BAND_CELLS,
    Sheet,
    distinct,
    piece_of,
    refined,
    sampled,
    score,
    sheet_of,
    union,
)
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Puzzle
from reassembly.solvers.base import ProgressCallback, report

__all__ = ["Derech"]

Placed = Mapping[str, NDArray[np.float64]]
"""The motion, (3,), of every piece that has a place; see `matching.paint_fit`."""

USUAL_DIAMETERS_MM = (30.0, 200.0)
"""Where the median piece is smaller or larger, all lengths are scaled in proportion."""
FAINT = 0.05
"""Paint that varies less than this, from 0 to 1, is not stretched to vary more."""
LOOSE = 3.0
"""How many times more forgiving touch is before a sampled transformation is refined."""
TRIED = 12
"""Places of each piece beside the whole that are refined."""
FRESH = 2
"""So many last pieces are sampled anew beside the whole: where none of its neighbours alone shows
where a piece belongs, all together may."""
CERTAIN_MM = 60.0
"""Score at which a place without a rival is trusted by 1 - 1/e."""
PREPARED, SAMPLED, REFINED = 0.1, 0.4, 0.55
"""Shares of the progress after which the pieces are extrapolated, all pairs sampled, refined."""


@dataclass(frozen=True, eq=False)
class _State:
    """An assembly on its way."""

    placed: Placed
    trust: Mapping[str, float]
    score: float = 0.0
    margin: float = 0.0
    """By how much its places are better than their rivals, in all."""


@dataclass(frozen=True, eq=False)
class _Place:
    """A place for a piece beside others."""

    piece: str
    motion: NDArray[np.float64]
    score: float
    rival: float
    """Score of the best other place of the same piece."""

    @property
    def margin(self) -> float:
        return self.score - max(self.rival, 0.0)

    @property
    def trust(self) -> float:
        """From 0 to 1."""
        if self.score <= 0:
            return 0.0
        enough = 1 - math.exp(-self.score / CERTAIN_MM)
        return enough * max(self.margin, 0.0) / self.score


class Derech:
    """Puts pieces together by how well their extrapolated paint agrees, and how they touch.

    Confidence tells by how much a piece's place is better than its best other place, and how well
    it fits in itself. It is not calibrated. Every piece is placed. The seed plays no part.

    Args:
        extrapolate: a function of the type `matching.extrapolate.Extrapolate`, or its import path
            `package.module:function`; unless given, `by_exemplars`. Only a path can be saved with
            the assembly.
        band_mm: how far pieces are extrapolated. Wider forgives more wear and relies on more
            guesses; all that is compared coarsens with it.
        turn_deg: step of the sampled rotations.
        candidates: how many transformations of each pair are kept.
        beam: how many assemblies are followed side by side; 1 is the published manner.
    """

    def __init__(
        self,
        *,
        extrapolate: str | Extrapolate | None = None,
        band_mm: float = 6.0,
        turn_deg: float = 3.6,
        candidates: int = 24,
        beam: int = 3,
    ) -> None:
        for name, length in {"band_mm": band_mm, "turn_deg": turn_deg}.items():
            if not (math.isfinite(length) and length > 0):
                raise InputError(f"{name} is {length}", "Give a number above 0")
        for name, count in {"candidates": candidates, "beam": beam}.items():
            if not (isinstance(count, int) and count > 0):
                raise InputError(f"{name} is {count}", "Give a whole number above 0")
        self.extrapolate = by_exemplars if extrapolate is None else extrapolator(extrapolate)
        self.band_mm, self.turn_deg = band_mm, turn_deg
        self.candidates, self.beam = candidates, beam

    def solve(
        self,
        puzzle: Puzzle,
        *,
        seed: int = 0,
        locked: Mapping[str, Pose] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Assembly:
        """See `solvers.base.Solver`. All pieces are in one island."""
        return _Run(self, puzzle, dict(locked or {}), progress).assembly()


class _Run:
    """What one puzzle needs while it is being solved."""

    def __init__(
        self,
        solver: Derech,
        puzzle: Puzzle,
        locked: Mapping[str, Pose],
        progress: ProgressCallback | None,
    ) -> None:
        self.solver, self.puzzle, self.locked, self.progress = solver, puzzle, locked, progress
        diameter_mm = median(2 * math.sqrt(f.area_mm2 / math.pi) for f in puzzle.fragments)
        unit = diameter_mm / float(np.clip(diameter_mm, *USUAL_DIAMETERS_MM))
        self.band_mm = solver.band_mm * unit
        self.turns = np.radians(np.arange(0.0, 180.0, solver.turn_deg))
        bare = {f.id: sheet_of(f, self.band_mm) for f in puzzle.fragments}
        along = [s.inside & (s.maps[..., 3] > -self.band_mm) for s in bare.values()]
        paint = np.concatenate([s.maps[a] for s, a in zip(bare.values(), along, strict=True)])
        self.mean = paint[:, :3].mean(axis=0)
        self.contrast = max(float(np.sqrt(paint[:, :3].var(axis=0).sum())), FAINT)
        self.pieces = {}
        for done, fragment in enumerate(puzzle.fragments):
            report(progress, PREPARED * done / len(puzzle), "extrapolating paint")
            sheet = self._extrapolated(bare[fragment.id])
            self.pieces[fragment.id] = piece_of(fragment, sheet)
        self.matches: dict[tuple[str, str], Motions] = {}
        """Motions of the second piece beside the first, best first."""

    def assembly(self) -> Assembly:
        if self.locked:
            placed = {i: motion_of(p, self.puzzle[i].centroid_mm) for i, p in self.locked.items()}
            states = [_State(placed, dict.fromkeys(placed, 1.0))]
        elif len(self.pieces) == 1:
            states = [_State({i: np.zeros(3) for i in self.pieces}, dict.fromkeys(self.pieces, 0))]
        else:
            states = []
        missing = len(self.pieces) - len(states[0].placed) if states else len(self.pieces) - 2
        if not states or missing:
            firsts = self._match_pairs()
            states = states or firsts[: self.solver.beam]
        for done in range(missing):
            share = (1 - REFINED) / missing
            states = self._joined(states, REFINED + share * done, share)
        return self._assembled(max(states, key=lambda state: state.score))

    def _extrapolated(self, bare: Sheet) -> Sheet:
        """The sheet, colours from 0 to 1, with its band and colours relative to the puzzle's."""
        known = bare.inside[..., None]
        colours = np.where(known, bare.maps[..., :3], 0)
        rgba = np.rint(255 * np.clip(np.dstack([colours, known]), 0, 1)).astype(np.uint8)
        grown = self._grown(rgba)
        if grown.dtype != np.uint8 or grown.shape not in (rgba.shape, colours.shape):
            raise InputError(
                f"the extrapolator returned {grown.shape} of {grown.dtype} for {rgba.shape}",
                "It must return an image of uint8 of the same height and width, RGB or RGBA",
            )
        colours = np.where(known, colours, grown[..., :3].astype(np.float32) / 255)
        maps = np.dstack([(colours - self.mean) / self.contrast, bare.maps[..., 3]])
        return replace(bare, maps=maps.astype(np.float32))

    def _grown(self, rgba: NDArray[np.uint8]) -> NDArray[np.uint8]:
        extrapolate = self.solver.extrapolate
        try:
            return np.asarray(extrapolate(rgba, BAND_CELLS))
        except Exception as error:
            if extrapolate is by_exemplars or isinstance(error, InputError):
                raise
            raise InputError(
                f"the extrapolator failed ({type(error).__name__}: {error})",
                "Mend it, or leave it out and take ours",
            ) from error

    def _whole(self, placed: Placed) -> Sheet:
        """Pieces in their places on one sheet, extrapolated together."""
        sheet = union([self.pieces[i] for i in placed], np.array(list(placed.values())))
        sheet.maps[..., :3] = sheet.maps[..., :3] * self.contrast + self.mean
        return self._extrapolated(sheet)

    def _match_pairs(self) -> list[_State]:
        """Fills `matches`.

        Returns:
            Every pair of pieces in their best place, the most trusted first.
        """
        pairs = [p for p in combinations(self.pieces, 2) if not self.locked.keys() >= set(p)]
        sheets = {i: piece.sheet for i, piece in self.pieces.items()}

        def tell(share: float) -> None:
            report(self.progress, PREPARED + (SAMPLED - PREPARED) * share, "sampling matches")

        found = sampled(sheets, self.pieces, pairs, self.turns, tell)
        states = []
        for done, ((a, b), motions) in enumerate(found.items()):
            share = done / len(found)
            report(self.progress, SAMPLED + (REFINED - SAMPLED) * share, "refining matches")
            sheet, piece = sheets[a], self.pieces[b]
            motions = self._settled(sheet, b, motions, self.solver.candidates)
            scores = score(sheet, piece, motions)
            kept = distinct(piece, motions, scores, self.solver.candidates, self.band_mm)
            self.matches[a, b] = motions[kept]
            self.matches[b, a] = inverse(motions[kept])
            start = _State({a: np.zeros(3)}, {})
            state = _after(start, self._ranked(b, motions, scores)[0])
            states.append(replace(state, trust=dict.fromkeys((a, b), state.trust[b])))
        return sorted(states, key=lambda state: -state.margin)

    def _settled(self, sheet: Sheet, name: str, motions: Motions, count: int) -> Motions:
        """The best of sampled motions, refined."""
        motions = self._best(sheet, name, motions, 2 * count, LOOSE)
        motions = refined(sheet, self.pieces[name], motions, 4, LOOSE, roughly=True)
        motions = self._best(sheet, name, motions, count, LOOSE)
        return refined(sheet, self.pieces[name], motions, 8)

    def _best(
        self, sheet: Sheet, name: str, motions: Motions, count: int, loose: float = 1.0
    ) -> Motions:
        """A few distinct ones, as rough scores tell."""
        piece = self.pieces[name]
        scores = score(sheet, piece, motions, loose, roughly=True)
        return motions[distinct(piece, motions, scores, count, self.band_mm)]

    def _joined(self, states: Sequence[_State], before: float, share: float) -> list[_State]:
        """The best states with one more piece each.

        Args:
            before, share: of the progress.
        """
        preview = self._assembled(states[0])
        stage = "joining pieces"
        wholes: dict[tuple[int, int], tuple[Placed, Sheet]] = {}
        for k, state in enumerate(states):
            report(self.progress, before + share / 2 * k / len(states), stage, preview)
            for g, group in enumerate(self._groups(state.placed)):
                wholes[k, g] = group, self._whole(group)
        missing = [i for i in self.pieces if i not in states[0].placed]
        fresh: dict[tuple[tuple[int, int], str], Motions] = {}
        if len(missing) <= FRESH:
            fresh = sampled(
                {key: sheet for key, (_, sheet) in wholes.items()},
                self.pieces,
                [(key, i) for key in wholes for i in self.pieces if i not in states[key[0]].placed],
                self.turns,
                lambda part: report(self.progress, before + share * (1 + part) / 2, stage),
            )
        further: list[_State] = []
        for k, state in enumerate(states):
            places = []
            for name in (i for i in self.pieces if i not in state.placed):
                found = []
                for key, (group, sheet) in wholes.items():
                    if key[0] == k:
                        tried = [composed(at, self.matches[i, name]) for i, at in group.items()]
                        found.append(self._beside(sheet, name, tried, fresh.get((key, name))))
                motions, scores = (np.concatenate(part) for part in zip(*found, strict=True))
                places += self._ranked(name, motions, scores)
            places.sort(key=lambda place: -place.margin)
            further += [_after(state, place) for place in places[: self.solver.beam]]
        return self._unlike(sorted(further, key=lambda state: -(state.score + state.margin)))

    def _beside(
        self, sheet: Sheet, name: str, tried: list[Motions], fresh: Motions | None
    ) -> tuple[Motions, NDArray[np.float32]]:
        """Refined motions of a piece beside a sheet, and their scores."""
        piece = self.pieces[name]
        if fresh is not None:
            tried = [*tried, self._settled(sheet, name, fresh, TRIED)]
        motions = refined(sheet, piece, self._best(sheet, name, np.concatenate(tried), TRIED), 8)
        return motions, score(sheet, piece, motions)

    def _ranked(self, name: str, motions: Motions, scores: NDArray[np.float32]) -> list[_Place]:
        """The two best places of a piece, each with the other as its rival."""
        kept = distinct(self.pieces[name], motions, scores, 2, 2 * self.band_mm)
        values = [*scores[kept].tolist(), 0.0]
        return [
            _Place(name, motions[k], values[rank], values[1 - rank])
            for rank, k in enumerate(kept.tolist())
        ]

    def _groups(self, placed: Placed) -> list[Placed]:
        """Those that lie so close that a piece may touch two of them; locked ones may be far
        apart, and one sheet for all would then be mostly empty."""
        names = list(placed)
        centres = np.array([placed[i][1:] for i in names])
        radii = np.array([self.pieces[i].radius_mm for i in names])
        reach_mm = 2 * max(piece.radius_mm for piece in self.pieces.values()) + 2 * self.band_mm
        gaps = np.linalg.norm(centres[:, None] - centres, axis=2) - radii[:, None] - radii
        near = gaps <= reach_mm
        for _ in names:
            near = near @ near
        return [
            {names[k]: placed[names[k]] for k in np.flatnonzero(row).tolist()}
            for row in np.unique(near, axis=0)
        ]

    def _unlike(self, states: Iterable[_State]) -> list[_State]:
        """The first few states that differ; the same places found in another order are the
        same."""
        kept: list[_State] = []
        for state in states:
            if not any(self._same(state.placed, other.placed) for other in kept):
                kept.append(state)
            if len(kept) == self.solver.beam:
                break
        return kept

    def _same(self, one: Placed, other: Placed) -> bool:
        if one.keys() != other.keys():
            return False
        first, *_ = one
        mine, theirs = (
            composed(inverse(p[first][None])[0], np.array([p[i] for i in one]))
            for p in (one, other)
        )
        apart = np.hypot(*(mine - theirs)[:, 1:].T)
        turned = np.abs(np.sin((mine - theirs)[:, 0] / 2))
        return bool((apart < self.band_mm).all() and (turned < 0.05).all())

    def _assembled(self, state: _State) -> Assembly:
        island = {
            i: self.locked.get(i) or pose_of(motion, self.puzzle[i].centroid_mm)
            for i, motion in state.placed.items()
        }
        return Assembly.of(self.puzzle, island, confidence=state.trust)


def _after(state: _State, place: _Place) -> _State:
    return _State(
        {**state.placed, place.piece: place.motion},
        {**state.trust, place.piece: place.trust},
        state.score + place.score,
        state.margin + place.margin,
    )
