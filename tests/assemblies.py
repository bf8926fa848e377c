"""Assemblies for tests of what is written and drawn."""

from __future__ import annotations

from dataclasses import replace

from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Provenance, Puzzle
from tests.puzzles import drawn_puzzle

HOSTILE = "\"><script>alert(1)</script>&amp; ]]> 'x'"
SPACED = "Größe Nº 4, ἀρχή (north)"


def incomplete_assembly(
    size_px: int = 240, gap_px: int = 2, seed: int = 4, names: tuple[str, ...] = (HOSTILE, SPACED)
) -> Assembly:
    """Nine pieces: five in one island, three in another, one unplaced; some with confidence.

    Args:
        names: ids of the first pieces; the others have plain ones.
    """
    drawn = drawn_puzzle(pieces=9, seed=seed, size_px=size_px, gap_px=gap_px)
    ids = [*names, *drawn.ids[len(names) :]]
    fragments = [
        replace(fragment, id=i, metadata={"filename": f"{i}.png"})
        for i, fragment in zip(ids, drawn.fragments, strict=True)
    ]
    truth = dict(zip(ids, drawn.truth.values(), strict=True))
    puzzle = Puzzle("Casa & Fullonica <12>", tuple(fragments), truth, metadata={"scale": "assumed"})
    elsewhere = Pose(400.0, -300.0, 0.6)
    return Assembly.of(
        puzzle,
        {i: truth[i] for i in ids[:5]},
        {i: elsewhere @ truth[i] for i in ids[5:8]},
        confidence=dict(zip(ids[:6], (0.97, 1.0, 0.0, 0.42, 0.999, 0.3), strict=True)),
        provenance=Provenance(
            "greedy", "0.1.0", 7, {"gap_mm": 1.5, "steps": [1, 2], "note": "<b>é</b>"}
        ),
    )
