"""The protocol `paper`: figures to stand beside those printed for ReassembleNet, and for nothing
else. Print them only beside `strict`.

What is computed, from the paper's formulas and as its authors' published code reads:

- `q_pos`: the paper's formula, with the anchor, which is always right, among the scored. It is
  `q_pos_with_anchor` of `strict`. The code takes the polygon through the 20 keypoints in the order
  of their scores, which crosses itself, and fits all points instead of the anchor; keypoints are
  no part of an assembly, so that cannot be repeated.
- `rmse_translation_mm`: **not millimetres**, in spite of its name. Positions in units of the
  canvas, times 100: x divided by the height of the canvas and y by its width (a slip in the code,
  kept), where the canvas is the bounding box of the scans, unturned, at their true places. The
  square root of the mean of the squared differences over both coordinates of all tokens. The
  code's position of a piece is the mean of its keypoints; here it is the centroid.
- `rmse_rotation_deg`: the square root of the mean of the squared differences of angles in
  (-180, 180], not wrapped: 179 and -179 degrees are 358 apart.
- Padding: a puzzle is filled up to 660 tokens, 20 a piece, that is to 33 pieces, and those that
  stand for no piece count as answered rightly. A puzzle of more pieces has no padding.
- Nothing is aligned for the two RMSE: the answer must be in the frame of the truth. For a solver
  that chooses a frame of its own they say nothing.

The printed figures are over the whole data set, without puzzles of fewer than three or more than
about 33 pieces, and the one for translation over batches of four puzzles; these are per puzzle.
Pieces that were left unplaced (the code cannot do that) count in no RMSE, not even as padding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reassembly.metrics.reference import reference_of
from reassembly.metrics.strict import compare
from reassembly.puzzle import Assembly, Puzzle

__all__ = ["PADDED_PIECES", "UNITS", "score_paper"]

PADDED_PIECES = 33
UNITS = (
    "q_pos: share, the anchor counted; rotation: degrees, neither wrapped nor aligned; "
    "translation: hundredths of the canvas, not mm, not aligned; padding counts as right in both"
)


def score_paper(
    puzzle: Puzzle, prediction: Assembly | None, *, padded_pieces: int = PADDED_PIECES
) -> dict[str, float | None]:
    """The figures for one puzzle.

    Args:
        padded_pieces: up to how many pieces a puzzle is filled up; 0 for no padding.
    """
    measured, islands = compare(puzzle, prediction)
    reference = measured.reference
    served = measured.serving(reference.anchor)
    island = {} if served is None else islands[measured.island[served]]
    placed = [k for k, i in enumerate(reference.ids) if i in island]
    figures: dict[str, float | None] = {
        "fragments": len(reference.ids),
        "q_pos": measured.q_pos(reference.anchor, with_anchor=True),
        "placed": len(placed) / len(reference.ids),
        "rmse_rotation_deg": None,
        "rmse_translation_mm": None,
    }
    if placed:
        unplaced = len(reference.ids) - len(placed)
        pieces = max(padded_pieces - unplaced, len(placed))
        poses = [(island[reference.ids[k]], reference.truth[k], k) for k in placed]
        turns = np.array([p.rotation_deg - t.rotation_deg for p, t, _ in poses])
        own = reference.centroids[:, None]
        shifts = np.array([p.apply(own[k])[0] - t.apply(own[k])[0] for p, t, k in poses])
        shifts /= _canvas_mm(puzzle)[::-1]
        figures["rmse_rotation_deg"] = float(np.sqrt((turns**2).sum() / pieces))
        figures["rmse_translation_mm"] = float(100 * np.sqrt((shifts**2).sum() / (2 * pieces)))
    return figures


def _canvas_mm(puzzle: Puzzle) -> NDArray[np.float64]:
    """(width, height) of the bounding box of the unturned scans at their true places."""
    reference = reference_of(puzzle)
    centres = np.array([true.translation for true in reference.truth])
    pieces = [puzzle[i] for i in reference.ids]
    halves = np.array([np.array(piece.frame_px) * piece.mm_per_px / 2 for piece in pieces])
    size: NDArray[np.float64] = (centres + halves).max(axis=0) - (centres - halves).min(axis=0)
    return size
