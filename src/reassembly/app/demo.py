"""A painted puzzle to play with, for those who come without pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reassembly.app.operations import Place
from reassembly.app.pictures import keep_cut_out
from reassembly.app.schema import NewHypothesis
from reassembly.app.store import Store
from reassembly.pose import Pose
from reassembly.puzzle import Fragment

__all__ = ["DEMO_NAME", "add_demo"]

DEMO_NAME = "Demo: a painted wall"
DEMO_PIECES, DEMO_PRESET, DEMO_SEED = 12, "paper", 3


def add_demo(store: Store, images: Path) -> str:
    """Paints and breaks a wall, unless the workspace has it already. Returns the project's id."""
    for project in store.projects():
        if project.name == DEMO_NAME:
            return project.id
    from reassembly.synthetic.make import make_puzzle, recipe

    made = make_puzzle(recipe(DEMO_PRESET, pieces=(DEMO_PIECES, DEMO_PIECES)), DEMO_SEED, 0)
    pictures, pieces = [], []
    for number, fragment in enumerate(made.puzzle.fragments, start=1):
        picture, piece = fragment_columns(images, fragment)
        pictures.append(picture)
        pieces.append(
            piece | {"name": f"Fragment {number}", "provenance": "painted and broken by reassembly"}
        )
    project_id = store.add_project(DEMO_NAME, "Painted, broken and worn by this program.")
    ids = store.add_pieces(project_id, pieces, pictures)
    assert made.puzzle.truth is not None
    truth = {
        new: made.puzzle.truth[fragment.id]
        for new, fragment in zip(ids, made.puzzle.fragments, strict=True)
        if fragment.id in made.puzzle.truth
    }
    painted = store.add_hypothesis(project_id, NewHypothesis(name="As it was painted"))
    store.edit(
        project_id,
        painted,
        [_placed(i, pose) for i, pose in truth.items()],
        author="reassembly",
        summary="placed every piece as it was painted",
    )
    return project_id


def _placed(piece: str, pose: Pose) -> Place:
    return Place(piece=piece, x_mm=pose.x_mm, y_mm=pose.y_mm, rotation_deg=pose.rotation_deg)


def fragment_columns(images: Path, fragment: Fragment) -> tuple[dict[str, Any], dict[str, Any]]:
    """Stores a fragment's picture; columns of `PictureRow` and `PieceRow`."""
    picture = keep_cut_out(images, fragment.image, fragment.mask)
    piece = {
        "name": fragment.id,
        "filename": str(fragment.metadata.get("filename", "")),
        "mm_per_px": fragment.mm_per_px,
        "scale_origin": str(fragment.metadata.get("scale", "made")),
        "picture": picture["sha256"],
        "frame_width_px": fragment.frame_px[0],
        "frame_height_px": fragment.frame_px[1],
        "left_px": fragment.offset_px[0],
        "top_px": fragment.offset_px[1],
        "warnings": [],
    }
    return picture, piece
