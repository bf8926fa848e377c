"""What a person or a solver can do to a hypothesis, and what undoes it.

Operations are setters: they say what is to be, not what changes, so that applying one twice does
no harm. `apply` is pure; the store makes its result durable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, model_validator

from reassembly.errors import InputError
from reassembly.pose import Pose, wrap_deg

__all__ = [
    "OPERATIONS",
    "Angle",
    "Describe",
    "Discard",
    "Gain",
    "Group",
    "Guide",
    "Id",
    "Judge",
    "Length",
    "Opacity",
    "Operation",
    "Place",
    "Placement",
    "Planar",
    "ProjectOperation",
    "Reference",
    "ReplaceAll",
    "Scale",
    "SetPicture",
    "SetReference",
    "Sha",
    "State",
    "Strict",
    "Text",
    "Title",
    "apply",
    "describe_in_words",
]

MAX_MM = 1e6
Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
# Control characters, which XML and terminals choke on, and halves of characters stay out.
Title = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True,
        min_length=1,
        max_length=200,
        pattern=r"^[^\x00-\x1f\x7f\u2028\u2029]*$",
    ),
]
Label = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Text = Annotated[
    str, StringConstraints(max_length=10_000, pattern=r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$")
]
Length = Annotated[float, Field(ge=-MAX_MM, le=MAX_MM, allow_inf_nan=False)]
Angle = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Opacity = Share
Island = Annotated[int, Field(ge=1, le=10_000)]
MmPerPx = Annotated[float, Field(ge=1e-4, le=100.0, allow_inf_nan=False)]
Factor = Annotated[float, Field(ge=0.1, le=10.0, allow_inf_nan=False)]
Gain = tuple[Factor, Factor, Factor]
Level = Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)]


class Strict(BaseModel):
    """A model that knows every one of its fields."""

    model_config = ConfigDict(extra="forbid")


class Planar(Strict):
    """A pose at the edge of the program: mm, y down, degrees counter-clockwise as seen."""

    x_mm: Length = 0.0
    y_mm: Length = 0.0
    rotation_deg: Angle = 0.0

    @classmethod
    def of(cls, pose: Pose) -> Planar:
        return cls(x_mm=pose.x_mm, y_mm=pose.y_mm, rotation_deg=pose.rotation_deg)

    def pose(self) -> Pose:
        return Pose.from_degrees(self.x_mm, self.y_mm, self.rotation_deg)


class Placement(Planar):
    """Where and how a piece is shown in one hypothesis."""

    placed: bool = False
    locked: bool = False
    group: Label | None = None
    z: Level = 0.0
    opacity: Opacity = 1.0
    island: Island | None = None
    gain: Gain | None = None
    """Factors of red, green and blue, for display only."""
    confidence: Share | None = None

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> Self:
        """The tray has no place, island or lock; so that equal states are equal texts."""
        if not self.placed:
            self.x_mm = self.y_mm = self.rotation_deg = 0.0
            self.island = self.confidence = None
            self.locked = False
        else:
            self.rotation_deg = wrap_deg(self.rotation_deg)
            self.island = self.island or 1
        return self


class Guide(Strict):
    """A straight line to align pieces with, across the canvas."""

    id: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z_-]{1,40}$")]
    axis: Literal["x", "y"]
    position_mm: Length


class Reference(Planar):
    """A picture that lies under the pieces, its centre at (x_mm, y_mm)."""

    picture: Sha
    mm_per_px: MmPerPx
    opacity: Opacity = 0.5


class State(Strict):
    """All that a hypothesis says."""

    revision: int = Field(default=0, ge=0)
    placements: dict[Id, Placement] = Field(default_factory=dict)
    guides: list[Guide] = Field(default_factory=list)
    reference: Reference | None = None


class Place(Planar):
    """Puts a piece on the canvas."""

    op: Literal["place"] = "place"
    piece: Id
    island: Island | None = None
    confidence: Share | None = None


class Unplace(Strict):
    """Puts a piece back into the tray."""

    op: Literal["unplace"] = "unplace"
    piece: Id


class Lock(Strict):
    """Holds a placed piece where it is, against hands and solvers."""

    op: Literal["lock"] = "lock"
    piece: Id
    locked: bool


class Group(Strict):
    """Pieces that move as one."""

    op: Literal["group"] = "group"
    pieces: list[Id] = Field(min_length=1, max_length=5000)
    group: Label | None


class SetIsland(Strict):
    """Pieces that lie in one frame; islands claim nothing about each other."""

    op: Literal["island"] = "island"
    pieces: list[Id] = Field(min_length=1, max_length=5000)
    island: Island


class Order(Strict):
    """Which piece covers which: the higher z."""

    op: Literal["order"] = "order"
    piece: Id
    z: Level


class Fade(Strict):
    """How opaque a piece is shown."""

    op: Literal["fade"] = "fade"
    piece: Id
    opacity: Opacity


class Tint(Strict):
    """Colour factors, to match pieces that were photographed apart."""

    op: Literal["tint"] = "tint"
    piece: Id
    gain: Gain | None


class SetGuide(Strict):
    """Draws, moves or (without an axis) removes a guide."""

    op: Literal["guide"] = "guide"
    id: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z_-]{1,40}$")]
    axis: Literal["x", "y"] | None = None
    position_mm: Length | None = None


class SetReference(Strict):
    """Lays a picture under the pieces, or takes it away."""

    op: Literal["reference"] = "reference"
    reference: Reference | None


class ReplaceAll(Strict):
    """Replaces every placement at once; what a solver's answer or a restored revision does."""

    op: Literal["replace_all"] = "replace_all"
    placements: dict[Id, Placement] = Field(max_length=5000)
    guides: list[Guide] | None = Field(default=None, max_length=1000)
    """None keeps them."""
    reference: Reference | None = None
    keep_reference: bool = True
    solver: Label | None = None
    """Whose answer it is."""


class Judge(Strict):
    """A verdict on a join, for the whole project. None takes it back."""

    op: Literal["judge"] = "judge"
    first: Id
    second: Id
    pose: Planar
    """Carries the second piece into the first one's frame."""
    verdict: Literal["accepted", "rejected", "unsure"] | None


class Describe(Strict):
    """What is known of a piece. Fields left out stay."""

    op: Literal["describe"] = "describe"
    piece: Id
    name: Title | None = None
    inventory: Label | None = None
    note: Text | None = None
    provenance: Text | None = None


class Scale(Strict):
    """The scale of a piece's picture."""

    op: Literal["scale"] = "scale"
    piece: Id
    mm_per_px: MmPerPx
    origin: Literal[
        "option", "ruler", "dpi", "sidecar", "data.json", "repair", "assumed", "edited", "made"
    ] = "edited"


class Discard(Strict):
    """Leaves a piece out of everything, or takes it in again."""

    op: Literal["discard"] = "discard"
    piece: Id
    discarded: bool


class SetPicture(Strict):
    """Another cut-out of the same photograph, in the same frame."""

    op: Literal["picture"] = "picture"
    piece: Id
    picture: Sha


HypothesisOperation = (
    Place
    | Unplace
    | Lock
    | Group
    | SetIsland
    | Order
    | Fade
    | Tint
    | SetGuide
    | SetReference
    | ReplaceAll
)
ProjectOperation = Judge | Describe | Scale | Discard | SetPicture
Operation = Annotated[HypothesisOperation | ProjectOperation, Field(discriminator="op")]
OPERATIONS: TypeAdapter[list[Operation]] = TypeAdapter(list[Operation])


def apply(
    state: State, operation: HypothesisOperation, pieces: Collection[str]
) -> tuple[HypothesisOperation, list[HypothesisOperation]]:
    """Changes `state` in place.

    Args:
        pieces: the ids that the project knows.

    Returns:
        The operation with every default filled in, and what undoes it, in order.
    """
    places = state.placements
    if isinstance(operation, SetGuide):
        return operation, [_set_guide(state, operation)]
    if isinstance(operation, SetReference):
        before = SetReference(reference=state.reference)
        state.reference = operation.reference
        return operation, [before]
    if isinstance(operation, ReplaceAll):
        for piece in operation.placements:
            _check_known(piece, pieces)
        whole = ReplaceAll(
            placements=dict(places),
            guides=list(state.guides),
            reference=state.reference,
            keep_reference=False,
        )
        usual = Placement()
        state.placements = {i: p for i, p in operation.placements.items() if p != usual}
        if operation.guides is not None:
            state.guides = sorted(operation.guides, key=lambda guide: guide.id)
        if not operation.keep_reference:
            state.reference = operation.reference
        return operation, [whole]
    if isinstance(operation, Group | SetIsland):
        for piece in operation.pieces:
            _check_known(piece, pieces)
        return operation, _set_many(places, operation)
    _check_known(operation.piece, pieces)
    old = places.get(operation.piece, Placement())
    undo, changed = _SETTERS[type(operation)](operation, old)
    if isinstance(operation, Place):
        operation = operation.model_copy(update={"island": changed.island})
    _put(places, operation.piece, changed)
    return operation, [undo]


def _put(places: dict[str, Placement], piece: str, placement: Placement) -> None:
    """What is as usual has no entry, so that undoing leaves nothing behind."""
    if placement == Placement():
        places.pop(piece, None)
    else:
        places[piece] = placement


def _check_known(piece: str, pieces: Collection[str]) -> None:
    if piece not in pieces:
        raise InputError(f"there is no piece {piece} in this project", "Reload the page")


def _check_free(old: Placement) -> None:
    if old.locked:
        raise InputError("this piece is locked", "Unlock it first")


def _put_back(piece: str, old: Placement) -> HypothesisOperation:
    if not old.placed:
        return Unplace(piece=piece)
    return Place(
        piece=piece,
        x_mm=old.x_mm,
        y_mm=old.y_mm,
        rotation_deg=old.rotation_deg,
        island=old.island,
        confidence=old.confidence,
    )


def _place(operation: Place, old: Placement) -> tuple[HypothesisOperation, Placement]:
    _check_free(old)
    undo = _put_back(operation.piece, old)
    update = {
        "placed": True,
        "x_mm": operation.x_mm,
        "y_mm": operation.y_mm,
        "rotation_deg": wrap_deg(operation.rotation_deg),
        "island": operation.island or (old.island if old.placed else None) or 1,
        "confidence": operation.confidence,
    }
    return undo, old.model_copy(update=update)


def _unplace(operation: Unplace, old: Placement) -> tuple[HypothesisOperation, Placement]:
    _check_free(old)
    undo = _put_back(operation.piece, old)
    cleared = {"placed": False, "x_mm": 0.0, "y_mm": 0.0, "rotation_deg": 0.0}
    return undo, old.model_copy(update={**cleared, "island": None, "confidence": None})


def _lock(operation: Lock, old: Placement) -> tuple[HypothesisOperation, Placement]:
    if operation.locked and not old.placed:
        raise InputError("a piece in the tray cannot be locked", "Place it first")
    undo = operation.model_copy(update={"locked": old.locked})
    return undo, old.model_copy(update={"locked": operation.locked})


def _order(operation: Order, old: Placement) -> tuple[HypothesisOperation, Placement]:
    undo = operation.model_copy(update={"z": old.z})
    return undo, old.model_copy(update={"z": operation.z})


def _fade(operation: Fade, old: Placement) -> tuple[HypothesisOperation, Placement]:
    undo = operation.model_copy(update={"opacity": old.opacity})
    return undo, old.model_copy(update={"opacity": operation.opacity})


def _tint(operation: Tint, old: Placement) -> tuple[HypothesisOperation, Placement]:
    undo = operation.model_copy(update={"gain": old.gain})
    return undo, old.model_copy(update={"gain": operation.gain})


_SETTERS: dict[type, Callable[..., tuple[HypothesisOperation, Placement]]] = {
    Place: _place,
    Unplace: _unplace,
    Lock: _lock,
    Order: _order,
    Fade: _fade,
    Tint: _tint,
}


def _set_many(
    places: dict[str, Placement], operation: Group | SetIsland
) -> list[HypothesisOperation]:
    """Sets one field of several pieces; what undoes it has an operation for each old value."""
    field = "group" if isinstance(operation, Group) else "island"
    value = getattr(operation, field)
    olds = {piece: places.get(piece, Placement()) for piece in operation.pieces}
    if field == "island" and not all(old.placed for old in olds.values()):
        raise InputError("a piece in the tray is in no island", "Place it first")
    before: dict[str | int | None, list[str]] = {}
    for piece, old in olds.items():
        before.setdefault(getattr(old, field), []).append(piece)
        _put(places, piece, old.model_copy(update={field: value}))
    return [
        operation.model_copy(update={"pieces": pieces, field: old})
        for old, pieces in before.items()
    ]


def _set_guide(state: State, operation: SetGuide) -> SetGuide:
    old = next((guide for guide in state.guides if guide.id == operation.id), None)
    undo = SetGuide(id=operation.id)
    if old is not None:
        undo = SetGuide(id=old.id, axis=old.axis, position_mm=old.position_mm)
    rest = [guide for guide in state.guides if guide.id != operation.id]
    if operation.axis is not None:
        if operation.position_mm is None:
            raise InputError("this guide has no position", "Give position_mm")
        if old is None and len(rest) >= 1000:
            raise InputError("there are 1000 guides already", "Remove some")
        new = Guide(id=operation.id, axis=operation.axis, position_mm=operation.position_mm)
        rest.append(new)
    state.guides = sorted(rest, key=lambda guide: guide.id)
    return undo


WORDS = {
    "place": "moved",
    "unplace": "returned to the tray",
    "order": "reordered",
    "fade": "faded",
    "tint": "coloured",
    "describe": "described",
    "scale": "rescaled",
    "picture": "cut out anew",
}


def describe_in_words(
    operations: Sequence[Operation], names: dict[str, str], placed: str = WORDS["place"]
) -> str:
    """What was done, for people: `moved A12`, `locked 3 pieces`.

    Args:
        names: by id, the pieces' names.
        placed: the word for what became of pieces that were placed.
    """
    parts: dict[str, list[str]] = {}
    for operation in operations:
        word, pieces = _word_and_pieces(operation)
        word = placed if isinstance(operation, Place) else word
        parts.setdefault(word, []).extend(pieces)
    said = []
    for word, pieces in list(parts.items())[:3]:
        unique = list(dict.fromkeys(pieces))
        if not unique:
            said.append(word)
        elif len(unique) <= 2:
            said.append(f"{word} {' and '.join(names.get(i, i) for i in unique)}")
        else:
            said.append(f"{word} {len(unique)} pieces")
    return ", ".join(said) + (", and more" if len(parts) > 3 else "")


def _word_and_pieces(operation: Operation) -> tuple[str, list[str]]:
    if isinstance(operation, Lock):
        return "locked" if operation.locked else "unlocked", [operation.piece]
    if isinstance(operation, Group):
        return "ungrouped" if operation.group is None else "grouped", operation.pieces
    if isinstance(operation, SetIsland):
        return f"put into island {operation.island}:", operation.pieces
    if isinstance(operation, SetGuide):
        return "removed a guide" if operation.axis is None else "set a guide", []
    if isinstance(operation, SetReference):
        taken = operation.reference is None
        return "removed the reference picture" if taken else "set the reference picture", []
    if isinstance(operation, ReplaceAll):
        return "replaced every placement", []
    if isinstance(operation, Judge):
        verdict = "took back the verdict on the join of"
        if operation.verdict == "unsure":
            verdict = "is unsure about the join of"
        elif operation.verdict is not None:
            verdict = f"{operation.verdict} the join of"
        return verdict, [operation.first, operation.second]
    if isinstance(operation, Discard):
        return "discarded" if operation.discarded else "took in again", [operation.piece]
    return WORDS[operation.op], [operation.piece]
