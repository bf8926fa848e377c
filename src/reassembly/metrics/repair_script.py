"""The protocol `repair-script`: as the evaluation script of the RePAIR data set computes, to stand
beside figures printed with it. Print them only beside `strict`.

- `q_pos`: without the anchor, as in `strict`. The script counts pixels, with whole pixels and
  whole degrees for the true poses, and turns the whole about the middle of the anchor's bounding
  box and not of its scan; here the polygons are exact and the anchor lies where it belongs.
- `rmse_translation_mm`: no root of a mean square: the mean distance between the corners of the
  scans in pixels, / 7.369 (pixels a millimetre in RePAIR, whatever the puzzle), / sqrt(2). The
  prediction is shifted so that the anchor's corner is right (in the script by whole pixels), but
  not turned with the anchor.
- `rmse_rotation_deg`: the mean absolute difference of angles in [0, 360), not wrapped (1 and 359
  degrees are 358 apart), / sqrt(2), after the anchor's difference was added to all.

Pieces that were left unplaced count in no RMSE. Where the anchor was, the script fails; here the
largest placed piece serves as in `strict`.
"""

from __future__ import annotations

import math

import numpy as np

from reassembly.metrics.strict import compare
from reassembly.pose import Pose, to_repair
from reassembly.puzzle import Assembly, Puzzle

__all__ = ["PX_PER_MM", "UNITS", "score_repair_script"]

PX_PER_MM = 7.369
UNITS = (
    "q_pos: share, the anchor not counted; rotation: mean absolute difference in degrees / "
    "sqrt(2), not wrapped; translation: mean distance in mm of RePAIR's scale / sqrt(2), shifted "
    "but not turned with the anchor"
)


def score_repair_script(puzzle: Puzzle, prediction: Assembly | None) -> dict[str, float | None]:
    """The figures for one puzzle."""
    measured, islands = compare(puzzle, prediction)
    reference, anchor = measured.reference, measured.reference.anchor
    served = measured.serving(anchor)
    island = {} if served is None else islands[measured.island[served]]
    scored = [i for k, i in enumerate(reference.ids) if k != anchor]
    placed = [i for i in scored if i in island]
    figures: dict[str, float | None] = {
        "fragments": len(scored),
        "q_pos": measured.q_pos(anchor),
        "placed": len(placed) / len(scored) if scored else None,
        "rmse_rotation_deg": None,
        "rmse_translation_mm": None,
    }
    if served is not None and set(placed) - {reference.ids[served]}:
        ids = [reference.ids[served], *(i for i in placed if i != reference.ids[served])]
        truth = dict(zip(reference.ids, reference.truth, strict=True))
        found = np.array([_as_in_table(puzzle, i, island[i]) for i in ids])
        true = np.array([_as_in_table(puzzle, i, truth[i]) for i in ids])
        found += true[0] - found[0]
        distances = np.hypot(*(found - true)[1:, :2].T)
        angles = np.abs(found[1:, 2] % 360 - true[1:, 2] % 360)
        figures["rmse_translation_mm"] = float(distances.mean() / PX_PER_MM / math.sqrt(2))
        figures["rmse_rotation_deg"] = float(angles.mean() / math.sqrt(2))
    return figures


def _as_in_table(puzzle: Puzzle, fragment_id: str, pose: Pose) -> tuple[float, float, float]:
    """x, y and rot as a poses.csv has them: pixels of the puzzle, degrees."""
    fragment = puzzle[fragment_id]
    x, y, rot = to_repair(pose, fragment.frame_px, fragment.mm_per_px)
    scale = fragment.mm_per_px / puzzle.mm_per_px
    return x * scale, y * scale, rot
