from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reassembly.app import schema
from reassembly.app.operations import (
    Describe,
    Discard,
    Judge,
    Lock,
    Place,
    Planar,
    Scale,
    SetPicture,
    State,
    Unplace,
)
from reassembly.app.store import Conflict, Message, Missing, Store, new_id
from reassembly.errors import InputError
from reassembly.pose import Pose

ME = schema.Who(author="Ada", client="w1")


def _picture(sha256: str, side: int = 100) -> dict[str, Any]:
    return {
        "sha256": sha256,
        "width_px": side,
        "height_px": side,
        "levels": [],
        "outline_px": [[[0, 0], [side, 0], [side, side], [0, side]]],
        "area_px": float(side * side),
        "centroid_px": [side / 2, side / 2],
        "colour": [10, 20, 30],
    }


def _piece(name: str, picture: str) -> dict[str, Any]:
    return {
        "name": name,
        "mm_per_px": 0.5,
        "scale_origin": "option",
        "picture": picture,
        "frame_width_px": 120,
        "frame_height_px": 110,
        "left_px": 10,
        "top_px": 0,
        "warnings": [],
    }


class Bench:
    """A store with a project of three pieces, and what it told its windows."""

    def __init__(self, folder: Path) -> None:
        self.heard: list[tuple[str, Message]] = []
        self.store = Store(folder, lambda project, message: self.heard.append((project, message)))
        self.project = self.store.add_project("Tray")
        self.hypothesis = self.store.hypotheses(self.project)[0].id
        shas = [f"{k}" * 64 for k in range(2)]
        self.ids = self.store.add_pieces(
            self.project, [_piece(name, shas[0]) for name in "ABC"], [_picture(s) for s in shas]
        )

    def edit(self, *operations: Any, hypothesis: str | None = None) -> schema.EditResult:
        return self.store.edit(self.project, hypothesis or self.hypothesis, operations)

    def state(self) -> State:
        state = self.store.state(self.project, self.hypothesis)
        return state.model_copy(update={"revision": 0})

    def everything(self) -> tuple[State, str, str]:
        whole = self.store.project(self.project)
        pieces = "".join(piece.model_dump_json() for piece in whole.pieces)
        verdicts = sorted(
            (v.first, v.second, v.pose.model_dump_json(), v.verdict) for v in whole.judgements
        )
        return self.state(), pieces, str(verdicts)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def _some_operation(ids: list[str]) -> st.SearchStrategy[Any]:
    piece = st.sampled_from(ids)
    number = st.integers(-50, 50).map(float)
    return st.one_of(
        st.builds(Place, piece=piece, x_mm=number, y_mm=number, rotation_deg=number),
        st.builds(Unplace, piece=piece),
        st.builds(Lock, piece=piece, locked=st.booleans()),
        st.builds(Describe, piece=piece, name=st.sampled_from("XYZ"), note=st.sampled_from("pq")),
        st.builds(Scale, piece=piece, mm_per_px=st.sampled_from([0.1, 0.2])),
        st.builds(Discard, piece=piece, discarded=st.booleans()),
        st.builds(SetPicture, piece=piece, picture=st.sampled_from(["0" * 64, "1" * 64])),
        st.builds(
            Judge,
            first=st.just(ids[0]),
            second=st.sampled_from(ids[1:]),
            pose=st.builds(Planar, x_mm=st.sampled_from([0.0, 1.0, 60.0])),
            verdict=st.sampled_from(["accepted", "rejected", None]),
        ),
    )


def test_an_edit_sent_twice_is_made_once(bench: Bench) -> None:
    """A server may die when it has made one, and before it could say so."""
    place = Place(piece=bench.ids[0], x_mm=1, y_mm=2, rotation_deg=3)

    def send(token: str) -> schema.EditResult:
        return bench.store.edit(bench.project, bench.hypothesis, [place], token=token)

    first = send("a")
    other = send("b")
    told = len(bench.heard)
    assert send("a").revision == first.revision
    assert (send("b").revision, send("b").can_undo) == (other.revision, True)
    assert len(bench.heard) == told, "nobody is told of what has not happened"
    assert [send("").revision for _ in range(2)] == [other.revision + 1, other.revision + 2]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_undo_and_redo_walk_through_every_state(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    bench = Bench(tmp_path_factory.mktemp("store"))
    seen = [bench.everything()]
    edits = st.lists(_some_operation(bench.ids), min_size=1, max_size=3)
    for _ in range(data.draw(st.integers(1, 6))):
        try:
            bench.edit(*data.draw(edits))
            seen.append(bench.everything())
        except InputError:
            assert bench.everything() == seen[-1]
    for before in reversed(seen[:-1]):
        bench.store.undo(bench.project, bench.hypothesis, ME)
        assert bench.everything() == before
    with pytest.raises(Conflict):
        bench.store.undo(bench.project, bench.hypothesis, ME)
    for after in seen[1:]:
        bench.store.redo(bench.project, bench.hypothesis, ME)
        assert bench.everything() == after
    with pytest.raises(Conflict):
        bench.store.redo(bench.project, bench.hypothesis, ME)
    bench.store.close()


def test_a_new_edit_forgets_what_could_be_redone_but_not_what_happened(bench: Bench) -> None:
    a = bench.ids[0]
    for x in (1.0, 2.0):
        bench.edit(Place(piece=a, x_mm=x))
    bench.store.undo(bench.project, bench.hypothesis, ME)
    after = bench.edit(Place(piece=a, x_mm=3.0))
    assert after.can_undo and not after.can_redo
    history = bench.store.history(bench.project, bench.hypothesis, None, 100)
    assert [(e.kind, e.undone) for e in history] == [
        ("edit", False),
        ("undo", False),
        ("edit", True),
        ("edit", False),
    ]
    bench.store.undo(bench.project, bench.hypothesis, ME)
    assert bench.store.state(bench.project, bench.hypothesis).placements[a].x_mm == 1.0


def test_undo_and_redo_alternate_without_losing_their_place(bench: Bench) -> None:
    a = bench.ids[0]
    for x in (1.0, 2.0, 3.0):
        bench.edit(Place(piece=a, x_mm=x))

    def x_mm() -> float:
        return bench.store.state(bench.project, bench.hypothesis).placements[a].x_mm

    steps = [bench.store.undo, bench.store.undo, bench.store.redo, bench.store.undo]
    seen = []
    for step in [*steps, bench.store.redo, bench.store.redo]:
        step(bench.project, bench.hypothesis, ME)
        seen.append(x_mm())
    assert seen == [2.0, 1.0, 2.0, 1.0, 2.0, 3.0]


def test_every_old_revision_can_be_seen_restored_and_branched(bench: Bench) -> None:
    a, b, _ = bench.ids
    states = [bench.state()]
    for operation in (
        Place(piece=a, x_mm=1.0),
        Describe(piece=a, name="renamed"),
        Lock(piece=a, locked=True),
        Place(piece=b, x_mm=7.0, island=2),
    ):
        bench.edit(operation)
        states.append(bench.state())
    bench.store.undo(bench.project, bench.hypothesis, ME)
    states.append(bench.state())
    for revision, expected in enumerate(states):
        old = bench.store.state_at(bench.project, bench.hypothesis, revision)
        assert old.model_copy(update={"revision": 0}) == expected
    wanted = schema.Restore(revision=1, author="Ada")
    assert bench.store.restore(bench.project, bench.hypothesis, wanted).kind == "restore"
    assert bench.state() == states[1]
    new = bench.store.add_hypothesis(
        bench.project,
        schema.NewHypothesis.model_validate(
            {"name": "Other", "from": bench.hypothesis, "revision": 4}
        ),
    )
    branched = bench.store.hypothesis(bench.project, new)
    assert branched.parent == bench.hypothesis and branched.parent_revision == 4
    assert branched.placed == 2 and not branched.can_undo
    with pytest.raises(Missing):
        bench.store.state_at(bench.project, bench.hypothesis, 99)


def test_the_history_tells_turning_from_moving(bench: Bench) -> None:
    bench.edit(Scale(piece=bench.ids[1], mm_per_px=1.0))
    pieces = {piece.id: piece for piece in bench.store.pieces(bench.project)}
    own = {i: Pose(200.0 * k, 30.0, 0.1 * k) for k, i in enumerate(bench.ids)}

    def said(motion: Pose, *ids: str) -> str:
        """What becomes of pieces that are carried along by a motion of the board."""
        for i in ids:
            own[i] = motion @ own[i]
        bench.edit(*(Place(piece=i, **Planar.of(own[i]).model_dump()) for i in ids))
        return bench.store.history(bench.project, bench.hypothesis, None, 1)[0].summary

    def about(angle: float, *ids: str) -> Pose:
        middles = [own[i].apply([pieces[i].centroid_mm])[0] for i in ids]
        x, y = np.average(middles, axis=0, weights=[pieces[i].area_mm2 for i in ids])
        return Pose(x, y) @ Pose(0.0, 0.0, angle) @ Pose(-x, -y)

    a, b, c = bench.ids
    assert said(Pose(0.0, 0.0), a, b, c) == "moved 3 pieces"  # Out of the tray.
    assert said(about(0.3, a), a) == "turned A"
    assert said(Pose(0.1, 0.0), a) == "moved A"
    assert said(Pose(0.0, 4.0) @ about(-0.2, a), a) == "moved and turned A"
    assert said(about(3.0, a, b), a, b) == "turned A and B"
    assert said(about(0.5, c), a, b, c) == "moved and turned 3 pieces"
    # A typed angle turns a piece about the origin of its frame, far from its middle.
    placement = bench.state().placements[a]
    bench.edit(Place(piece=a, x_mm=placement.x_mm, y_mm=placement.y_mm, rotation_deg=77.0))
    assert bench.store.history(bench.project, bench.hypothesis, None, 1)[0].summary == "turned A"
    bench.edit(
        *(Place(piece=i, x_mm=0.0, y_mm=0.0, rotation_deg=40.0 * k) for k, i in enumerate([a, b]))
    )
    (event,) = bench.store.history(bench.project, bench.hypothesis, None, 1)
    assert event.summary == "moved and turned A and B"


def test_a_refused_operation_takes_its_whole_edit_with_it(bench: Bench) -> None:
    before = bench.everything()
    with pytest.raises(InputError):
        bench.edit(
            Describe(piece=bench.ids[0], name="half"),
            Place(piece=bench.ids[0], x_mm=1.0),
            Place(piece="f" * 12, x_mm=1.0),
        )
    assert bench.everything() == before
    assert bench.store.hypothesis(bench.project, bench.hypothesis).revision == 0


def test_a_verdict_on_nearly_the_same_join_replaces_the_old_one_from_either_side(
    bench: Bench,
) -> None:
    a, b, _ = bench.ids
    pose = Planar(x_mm=40.0, y_mm=3.0, rotation_deg=170.0)
    bench.edit(Judge(first=a, second=b, pose=pose, verdict="accepted"))
    turned = Planar.of(Planar(x_mm=40.5, y_mm=3.0, rotation_deg=171.0).pose().inverse())
    bench.edit(Judge(first=b, second=a, pose=turned, verdict="rejected"))
    (verdict,) = bench.store.judgements(bench.project)
    assert verdict.verdict == "rejected"
    far = Planar(x_mm=-40.0, y_mm=3.0, rotation_deg=170.0)
    bench.edit(Judge(first=a, second=b, pose=far, verdict="unsure"))
    assert len(bench.store.judgements(bench.project)) == 2
    with pytest.raises(InputError, match="itself"):
        bench.edit(Judge(first=a, second=a, pose=pose, verdict="accepted"))


def test_windows_hear_of_changes_in_order_while_many_write_at_once(bench: Bench) -> None:
    def write(piece: str) -> None:
        for x in range(15):
            bench.edit(Place(piece=piece, x_mm=float(x)))

    threads = [threading.Thread(target=write, args=(piece,)) for piece in bench.ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    edits = [message for _, message in bench.heard if message[0] == "edit"]
    assert [message[2]["revision"] for message in edits] == list(range(1, 46))
    sequences = [message[1] for _, message in bench.heard]
    assert sequences == sorted(sequences) and len(set(sequences)) == len(sequences)


def test_a_window_that_missed_edits_is_told_them_or_to_begin_anew(bench: Bench) -> None:
    start = bench.store.sequence(bench.project)
    for x in range(3):
        bench.edit(Place(piece=bench.ids[0], x_mm=float(x)))
    missed = bench.store.missed(bench.project, start)
    assert missed is not None
    assert [m[2]["operations"][0]["x_mm"] for m in missed] == [0.0, 1.0, 2.0]
    assert bench.store.missed(bench.project, start + 3) == []
    bench.store.change_project(bench.project, schema.ProjectChange(name="Else"))
    assert bench.store.missed(bench.project, start) is None
    assert bench.store.missed(bench.project, start + 999) is None


def test_a_piece_is_described_in_its_own_frame(bench: Bench) -> None:
    piece = bench.store.piece(bench.project, bench.ids[0])
    # A 100 px picture in a 120 x 110 px scan, 10 px from its left; 0.5 mm a pixel.
    assert piece.origin_px == (50.0, 55.0)
    assert piece.outline_mm[0][0] == (-25.0, -27.5)
    assert piece.centroid_mm == (0.0, -2.5)
    assert piece.area_mm2 == 2500.0


def test_joins_are_stale_once_the_pieces_change_and_carry_verdicts(bench: Bench) -> None:
    a, b, c = bench.ids
    join = {
        "x_mm": 10.0,
        "y_mm": 0.0,
        "rotation_deg": 0.0,
        "probability": 0.8,
        "gap_mm": 0.2,
        "overlap_mm2": 1.0,
        "contact_mm": 30.0,
    }
    found = [{"first": a, "second": b, **join}, {"first": b, "second": c, **join}]
    bench.store.set_joins(bench.project, found, bench.store.join_basis(bench.project)[0])
    pose = Planar(x_mm=10.5)
    bench.edit(Judge(first=a, second=b, pose=pose, verdict="accepted"))
    listed = bench.store.joins(bench.project)
    assert [join.verdict for join in listed.joins] == ["accepted", None]
    assert not listed.stale
    assert [j.second for j in bench.store.joins(bench.project, c).joins] == [c]
    bench.edit(Discard(piece=a, discarded=True))
    listed = bench.store.joins(bench.project)
    assert listed.stale and len(listed.joins) == 1


def test_the_last_hypothesis_stays_and_a_deleted_project_is_gone(bench: Bench) -> None:
    with pytest.raises(Conflict):
        bench.store.delete_hypothesis(bench.project, bench.hypothesis)
    bench.edit(Place(piece=bench.ids[0]))
    bench.store.delete_project(bench.project)
    with pytest.raises(Missing):
        bench.store.project(bench.project)
    with pytest.raises(Missing):
        bench.store.hypothesis(bench.project, bench.hypothesis)
    assert bench.heard[-1][1][0] == "gone"


def test_the_list_of_projects_counts_the_pieces_that_are_not_discarded(bench: Bench) -> None:
    for gone, piece in enumerate(bench.ids, start=1):
        bench.edit(Discard(piece=piece, discarded=True))
        (listed,) = bench.store.projects()
        assert listed.pieces == len(bench.ids) - gone
    # One whose pieces were brought in and all discarded is no draft.
    draft = bench.store.add_project("Draft", draft=True)
    assert len(bench.store.projects()) == 1
    bench.store.add_pieces(draft, [{**_piece("x", "0" * 64), "discarded": True}], [])
    assert {p.id: p.pieces for p in bench.store.projects()} == {bench.project: 0, draft: 0}


def test_pictures_are_forgotten_only_when_nothing_can_bring_them_back(bench: Bench) -> None:
    a = bench.ids[0]
    bench.edit(SetPicture(piece=a, picture="1" * 64))
    bench.store.add_pictures([_picture("2" * 64), _picture("3" * 64)])
    assert bench.store.forget_pictures(lambda sha: sha != "3" * 64) == ["2" * 64]
    for piece in bench.ids:
        bench.edit(SetPicture(piece=piece, picture="1" * 64))
    # No piece shows it now, but undo would.
    assert "0" * 64 not in bench.store.forget_pictures(lambda _: True)
    bench.store.undo(bench.project, bench.hypothesis, ME)
    bench.store.delete_project(bench.project)
    assert set(bench.store.forget_pictures(lambda _: True)) == {"0" * 64, "1" * 64}


def test_bringing_the_same_job_in_twice_adds_its_pieces_once(bench: Bench) -> None:
    made = {**_piece("D", "0" * 64), "id": new_id()}
    for _ in range(2):
        bench.store.add_pieces(bench.project, [made], [_picture("0" * 64)])
    assert [p.name for p in bench.store.pieces(bench.project)] == ["A", "B", "C", "D"]
