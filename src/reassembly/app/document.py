"""A project as one JSON file that comes back unchanged: pieces, pictures, hypotheses, history.

The file is described in docs/workbench.md.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import cv2
import numpy as np
from pydantic import Field, StringConstraints, ValidationError

from reassembly.app.operations import (
    Id,
    Label,
    MmPerPx,
    Operation,
    Planar,
    Sha,
    State,
    Strict,
    Text,
    Title,
)
from reassembly.app.pictures import picture_columns, write_picture
from reassembly.app.worker import Task
from reassembly.errors import InputError
from reassembly.io.images import read_image

__all__ = ["FORMAT", "PROJECT_FILE", "VERSION", "Document", "open_document", "written"]

FORMAT, VERSION = "reassembly-project", 1
PROJECT_FILE = "project.json"
MAX_PIECES, MAX_EVENTS = 10_000, 1_000_000
Time = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]
Count = Annotated[int, Field(ge=0, le=2**53)]
Side = Annotated[int, Field(ge=1, le=1_000_000)]
Offset = Annotated[int, Field(ge=-1_000_000, le=1_000_000)]
Short = Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]


class PieceEntry(Strict):
    """A piece."""

    id: Id
    name: Title
    inventory: Label
    note: Text
    provenance: Text
    filename: Label
    discarded: bool
    mm_per_px: MmPerPx
    scale_origin: Label
    picture: Sha
    frame_px: tuple[Side, Side]
    """(width, height) of the whole scan, whose centre is the piece's origin."""
    offset_px: tuple[Offset, Offset]
    """(x, y) of the picture's top-left pixel in the scan."""
    warnings: list[Text]
    created_at: Time


class EventEntry(Strict):
    """Something done to a hypothesis."""

    revision: Count
    at: Time
    author: Short
    client: Short
    kind: Label
    summary: Annotated[str, StringConstraints(max_length=1000)]
    operations: list[Operation]
    inverse: list[Operation]
    undo_next: Count
    redo_next: Count
    undone: bool


class HypothesisEntry(Strict):
    """A hypothesis with its history."""

    id: Id
    name: Title
    parent: Id | None
    parent_revision: Count | None
    state: State
    undo_top: Count
    redo_top: Count
    created_at: Time
    changed_at: Time
    events: list[EventEntry] = Field(max_length=MAX_EVENTS)


class JudgementEntry(Strict):
    """A verdict on a join."""

    first: Id
    second: Id
    pose: Planar
    verdict: Literal["accepted", "rejected", "unsure"]
    author: Short
    at: Time


class Document(Strict):
    """The whole file."""

    format: Literal["reassembly-project"]
    version: Literal[1]
    name: Title
    note: Text
    created_at: Time
    changed_at: Time
    pieces: list[PieceEntry] = Field(max_length=MAX_PIECES)
    hypotheses: list[HypothesisEntry] = Field(min_length=1, max_length=1000)
    judgements: list[JudgementEntry] = Field(max_length=1_000_000)
    pictures: dict[Sha, str]
    """PNG files, base64."""


def written(content: dict[str, Any], images: Path) -> Iterator[bytes]:
    """The file, bit by bit, so that pictures are not all in memory.

    Args:
        content: a `Document` without its pictures.
    """
    names = {piece["picture"] for piece in content["pieces"]}
    for hypothesis in content["hypotheses"]:
        reference = hypothesis["state"].get("reference")
        if reference:
            names.add(reference["picture"])
        # Undoing may bring back what is not shown now.
        for event in hypothesis["events"]:
            for operation in (*event["operations"], *event["inverse"]):
                names |= _pictures_in(operation)
    text = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)
    yield text.rstrip().removesuffix("}").rstrip().encode() + b',\n "pictures": {'
    for number, sha256 in enumerate(sorted(names)):
        data = base64.b64encode((images / sha256 / "full.png").read_bytes())
        yield (b"," if number else b"") + f'\n  "{sha256}": "'.encode() + data + b'"'
    yield b"\n }\n}\n"


def _pictures_in(operation: dict[str, Any]) -> set[str]:
    if operation["op"] == "picture":
        return {operation["picture"]}
    reference = operation.get("reference")
    return {reference["picture"]} if reference else set()


def open_document(task: Task) -> dict[str, Any]:
    """Reads a project. Payload: `path`, `images`.

    Returns:
        `document` without its pictures, and `pictures`, columns of `PictureRow`.
    """
    task.report(0.0, "reading the file")
    document = _read(Path(task.payload["path"]))
    images = Path(task.payload["images"])
    pictures = []
    for number, (sha256, text) in enumerate(sorted(document.pictures.items())):
        task.report(0.1 + 0.9 * number / len(document.pictures), "unpacking pictures")
        pictures.append(_keep(images, sha256, text))
    known = {picture["sha256"]: picture for picture in pictures}
    _check(document, known)
    content = document.model_dump(mode="json", exclude={"pictures"})
    return {"document": content, "pictures": pictures}


def _read(path: Path) -> Document:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError("this file is no JSON", "Choose a project that was exported") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError("this is no project", f'Choose a file with "format": "{FORMAT}"')
    version = content.get("version")
    if isinstance(version, int) and version > VERSION:
        raise InputError(
            f"this project is of version {version}, and this program knows {VERSION}",
            "Update reassembly (pip install --upgrade reassembly)",
        )
    try:
        return Document.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        is_odd = first["type"] == "string_pattern_mismatch"
        why = "nothing that this program writes" if is_odd else first["msg"]
        what = f"this project is damaged at {where[:200]}: {why}"
        raise InputError(what, "Export it again") from error


def _keep(images: Path, sha256: str, text: str) -> dict[str, Any]:
    """Stores a picture byte for byte as it came."""
    damaged = InputError(f"its picture {sha256[:12]} is damaged", "Export the project again")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise damaged from error
    if hashlib.sha256(data).hexdigest() != sha256 or not data.startswith(b"\x89PNG"):
        raise damaged
    picture = read_image(data, f"picture {sha256[:12]}")
    raw: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if picture.alpha is None or raw is None or raw.dtype != np.uint8:
        raise damaged
    rgba = np.dstack([picture.rgb, picture.alpha])
    write_picture(images, sha256, data, rgba)
    return picture_columns(sha256, rgba)


def _check(document: Document, pictures: dict[str, dict[str, Any]]) -> None:
    """What no type tells: that the parts of the file know each other."""

    def wrong(what: str) -> InputError:
        return InputError(f"this project is damaged: {what}", "Export it again")

    ids = {piece.id for piece in document.pieces}
    if len(ids) < len(document.pieces):
        raise wrong("a piece occurs twice")
    for piece in document.pieces:
        if piece.picture not in pictures:
            raise wrong(f"the picture of piece {piece.id} is missing")
    for verdict in document.judgements:
        if not {verdict.first, verdict.second} <= ids or verdict.first == verdict.second:
            raise wrong("a verdict is about a piece that is not there")
    if len({h.id for h in document.hypotheses}) < len(document.hypotheses):
        raise wrong("a hypothesis occurs twice")
    for hypothesis in document.hypotheses:
        if not set(hypothesis.state.placements) <= ids:
            raise wrong(f"hypothesis {hypothesis.id} places a piece that is not there")
        reference = hypothesis.state.reference
        if reference is not None and reference.picture not in pictures:
            raise wrong("a reference picture is missing")
        revisions = [event.revision for event in hypothesis.events]
        if revisions != list(range(1, hypothesis.state.revision + 1)):
            raise wrong(f"the history of hypothesis {hypothesis.id} has gaps")
        tops = (hypothesis.undo_top, hypothesis.redo_top)
        nexts = ((event.undo_next, event.redo_next) for event in hypothesis.events)
        if max(max(pair) for pair in (tops, *nexts)) > hypothesis.state.revision:
            raise wrong(f"the history of hypothesis {hypothesis.id} points ahead of itself")
