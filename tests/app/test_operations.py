from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reassembly.app.operations import (
    OPERATIONS,
    Group,
    Lock,
    Operation,
    Place,
    Placement,
    ReplaceAll,
    SetIsland,
    State,
    Unplace,
    apply,
    describe_in_words,
)
from reassembly.errors import InputError

IDS = [f"{k:012x}" for k in range(4)]
SHA = "0" * 64
numbers = st.floats(-500, 500, allow_nan=False)
ids = st.sampled_from(IDS)
shares = st.floats(0, 1)
reference = st.fixed_dictionaries(
    {"picture": st.just(SHA), "mm_per_px": st.floats(0.01, 1), "x_mm": numbers}
)
placement = st.fixed_dictionaries(
    {
        "placed": st.booleans(),
        "x_mm": numbers,
        "rotation_deg": st.floats(-720, 720),
        "locked": st.booleans(),
        "z": numbers,
        "opacity": shares,
        "island": st.integers(1, 4),
    }
)
operations = st.one_of(
    st.fixed_dictionaries(
        {
            "op": st.just("place"),
            "piece": ids,
            "x_mm": numbers,
            "y_mm": numbers,
            "rotation_deg": st.floats(-720, 720),
            "island": st.none() | st.integers(1, 4),
            "confidence": st.none() | shares,
        }
    ),
    st.fixed_dictionaries({"op": st.just("unplace"), "piece": ids}),
    st.fixed_dictionaries({"op": st.just("lock"), "piece": ids, "locked": st.booleans()}),
    st.fixed_dictionaries(
        {
            "op": st.just("group"),
            "pieces": st.lists(ids, min_size=1, unique=True),
            "group": st.none() | st.sampled_from("ab"),
        }
    ),
    st.fixed_dictionaries(
        {
            "op": st.just("island"),
            "pieces": st.lists(ids, min_size=1, unique=True),
            "island": st.integers(1, 4),
        }
    ),
    st.fixed_dictionaries({"op": st.just("order"), "piece": ids, "z": numbers}),
    st.fixed_dictionaries({"op": st.just("fade"), "piece": ids, "opacity": shares}),
    st.fixed_dictionaries(
        {
            "op": st.just("tint"),
            "piece": ids,
            "gain": st.none() | st.tuples(*[st.floats(0.1, 10)] * 3),
        }
    ),
    st.fixed_dictionaries(
        {
            "op": st.just("guide"),
            "id": st.sampled_from(["g1", "g2"]),
            "axis": st.none() | st.sampled_from("xy"),
            "position_mm": numbers,
        }
    ),
    st.fixed_dictionaries({"op": st.just("reference"), "reference": st.none() | reference}),
    st.fixed_dictionaries(
        {"op": st.just("replace_all"), "placements": st.dictionaries(ids, placement)}
    ),
)


def _parsed(raw: object) -> Operation:
    return OPERATIONS.validate_python([raw])[0]


def _do(state: State, operation: Operation) -> list[Operation]:
    """Applies an operation that may be refused; refused ones must change nothing."""
    before = state.model_copy(deep=True)
    try:
        return apply(state, operation, IDS)[1]
    except InputError:
        assert state == before
        return []


@given(st.lists(operations, max_size=12))
def test_undoing_in_reverse_restores_every_earlier_state(raw: list[object]) -> None:
    state = State()
    trail = []
    for entry in raw:
        before = state.model_copy(deep=True)
        trail.append((before, _do(state, _parsed(entry))))
    for before, inverse in reversed(trail):
        for operation in inverse:
            apply(state, operation, IDS)
        assert state == before


@given(st.lists(operations, max_size=8))
def test_completed_operations_lead_to_the_same_state_again(raw: list[object]) -> None:
    state, done = State(), []
    for entry in raw:
        try:
            done.append(apply(state, _parsed(entry), IDS)[0])
        except InputError:
            continue
    again = State()
    text = OPERATIONS.dump_json(done)
    for operation in OPERATIONS.validate_json(text):
        apply(again, operation, IDS)
    assert again == state
    assert State.model_validate_json(state.model_dump_json(exclude_defaults=True)) == state


def test_a_locked_piece_cannot_be_moved_or_taken_away() -> None:
    state = State()
    apply(state, Place(piece=IDS[0], x_mm=5.0), IDS)
    apply(state, Lock(piece=IDS[0], locked=True), IDS)
    for refused in (Place(piece=IDS[0], x_mm=6.0), Unplace(piece=IDS[0])):
        with pytest.raises(InputError, match="locked"):
            apply(state, refused, IDS)
    assert state.placements[IDS[0]].x_mm == 5.0


def test_only_a_placed_piece_can_be_locked_or_put_into_an_island() -> None:
    for refused in (Lock(piece=IDS[0], locked=True), SetIsland(pieces=[IDS[0]], island=2)):
        with pytest.raises(InputError, match="tray"):
            apply(State(), refused, IDS)


def test_an_unknown_piece_is_refused_everywhere() -> None:
    stranger = "f" * 12
    for refused in (
        Place(piece=stranger),
        Group(pieces=[IDS[0], stranger], group="a"),
        ReplaceAll(placements={stranger: Placement(placed=True)}),
    ):
        state = State()
        with pytest.raises(InputError, match="no piece"):
            apply(state, refused, IDS)
        assert state == State()


def test_a_piece_keeps_its_island_when_moved_and_begins_in_the_first() -> None:
    state = State()
    apply(state, Place(piece=IDS[0]), IDS)
    assert state.placements[IDS[0]].island == 1
    apply(state, SetIsland(pieces=[IDS[0]], island=3), IDS)
    apply(state, Place(piece=IDS[0], x_mm=9.0), IDS)
    assert state.placements[IDS[0]].island == 3


def test_words_name_few_pieces_and_count_many() -> None:
    names = {i: f"N{k}" for k, i in enumerate(IDS)}
    moved = [Place(piece=i) for i in IDS]
    assert describe_in_words(moved[:1], names) == "moved N0"
    assert describe_in_words(moved[:2], names) == "moved N0 and N1"
    assert describe_in_words([*moved, Lock(piece=IDS[0], locked=True)], names) == (
        "moved 4 pieces, locked N0"
    )
