"""What a solver sees, and how its answer comes back."""

from dataclasses import dataclass, field, fields, replace

import numpy as np
import pytest

from reassembly.errors import InputError
from reassembly.matching.joins import Join
from reassembly.pose import Pose
from reassembly.puzzle import Assembly, Fragment, Puzzle
from reassembly.solvers import Cancelled, Progress, get_solver, solve
from tests.puzzles import drawn_puzzle


@pytest.fixture(scope="module")
def puzzle():
    drawn = drawn_puzzle(pieces=5, seed=1)
    named = [
        replace(f, metadata={"filename": f"{f.id}.png", "secret": drawn.truth[f.id]})
        for f in drawn.fragments
    ]
    return replace(drawn, fragments=tuple(named), metadata={"path": "somewhere"})


@dataclass
class Spy:
    """Keeps what it was shown; places every piece by a rule that uses only pixels."""

    seen: list[Puzzle] = field(default_factory=list)
    locked: dict[str, Pose] | None = None

    def solve(self, puzzle, *, seed=0, locked=None, progress=None):
        self.seen.append(puzzle)
        self.locked = dict(locked)
        poses = {f.id: locked.get(f.id, Pose(f.area_mm2, 0.0, 0.3)) for f in puzzle.fragments}
        if progress:
            progress(Progress(0.5, "half", Assembly.of(puzzle, poses)))
        return Assembly.of(puzzle, poses)


def test_a_solver_sees_pixels_under_opaque_names_and_nothing_else(puzzle):
    spy = Spy()
    solve(puzzle, spy, seed=4)
    (seen,) = spy.seen
    assert seen.id != puzzle.id
    assert seen.truth is None and not seen.strays and not seen.metadata
    shown = "".join(repr(getattr(seen, f.name)) for f in fields(Puzzle) if f.name != "fragments")
    for fragment in seen.fragments:
        assert not fragment.metadata
        assert fragment.id.startswith("piece-")
        assert fragment.offset_px == (0, 0)
        height, width = fragment.mask.shape
        assert fragment.frame_px == (width, height)
        shown += fragment.id + repr(fragment.metadata)
    for name in (*puzzle.ids, puzzle.id, "somewhere", "secret"):
        assert name not in shown
    assert set(vars(seen.fragments[0])) <= {f.name for f in fields(Fragment)} | {
        "polygon",
        "area_mm2",
        "centroid_mm",
    }


def test_the_order_is_shuffled_by_the_seed(puzzle):
    def order(seed):
        spy = Spy()
        solve(puzzle, spy, seed=seed)
        return [round(f.area_mm2) for f in spy.seen[0].fragments]

    assert order(1) == order(1)
    assert len({tuple(order(s)) for s in range(6)}) > 1
    assert sorted(order(1)) == sorted(order(2))


def test_names_do_not_change_the_answer(puzzle):
    names = {i: f"other {k}" for k, i in enumerate(puzzle.ids)}
    renamed = Puzzle(
        "renamed", tuple(replace(f, id=names[f.id], metadata={}) for f in puzzle.fragments)
    )
    for name in ("greedy", "ring"):
        first = solve(puzzle, name, seed=2).poses
        second = solve(renamed, name, seed=2).poses
        assert {names[i]: p for i, p in first.items()} == second


def test_the_answer_is_in_the_users_frame(puzzle):
    """A solver that answers with the truth, told in its own cropped frames, comes back as the
    truth in the user's, up to the shift to the corner."""
    mask = np.zeros((200, 300), bool)
    mask[120:180, 30:90] = True
    mask[120:140, 30:50] = False
    image = np.zeros((200, 300, 3), np.uint8)
    pieces = tuple(Fragment(n, image, mask, 0.5) for n in "ab")
    answer = solve(Puzzle("p", pieces), Spy(), seed=0)
    for piece in pieces:
        crop = replace(piece.cropped(), frame_px=(0, 0), offset_px=(0, 0))
        wanted = crop.placed(Pose(crop.area_mm2, 0.0, 0.3))
        got = piece.placed(answer.poses[piece.id])
        assert got.area == pytest.approx(wanted.area)
        assert got.bounds[2] - got.bounds[0] == pytest.approx(wanted.bounds[2] - wanted.bounds[0])
        assert got.bounds[:2] == pytest.approx((0, 0), abs=1e-9)


def test_locked_poses_reach_the_solver_in_its_frames_and_come_back_exactly(puzzle):
    locked = {"fragment_1": Pose(12.5, -3.25, 1.234), "fragment_4": Pose(-100, 7, -0.5)}
    spy = Spy()
    answer = solve(puzzle, spy, locked=locked, seed=3)
    for i, pose in locked.items():
        assert answer.islands[0][i] == pose
    placed = {round(f.area_mm2, 3): f for f in spy.seen[0].fragments}
    for i, pose in locked.items():
        blinded = placed[round(puzzle[i].area_mm2, 3)]
        there = blinded.placed(spy.locked[blinded.id])
        assert there.symmetric_difference(puzzle[i].placed(pose)).area < 1e-3 * there.area


def test_a_solver_that_moves_a_locked_piece_is_found_out(puzzle):
    class Mover:
        def solve(self, puzzle, *, seed=0, locked=None, progress=None):
            return Assembly.of(puzzle, {f.id: Pose(0, 0) for f in puzzle.fragments})

    with pytest.raises(RuntimeError, match="moved a locked fragment"):
        solve(puzzle, Mover(), locked={"fragment_0": Pose(1, 2, 3)})


def test_provenance_tells_how_it_was_made(puzzle):
    answer = solve(puzzle, "stack", seed=11)
    assert (answer.provenance.solver, answer.provenance.seed) == ("stack", 11)
    assert answer.provenance.version


def test_previews_are_in_the_users_names_and_cancel_passes_through(puzzle):
    steps = []
    solve(puzzle, Spy(), progress=steps.append)
    assert set(steps[0].preview.poses) == set(puzzle.ids)

    def stop(step):
        raise Cancelled

    with pytest.raises(Cancelled):
        solve(puzzle, Spy(), progress=stop)


def test_bad_requests_are_explained(puzzle):
    with pytest.raises(InputError, match=r"there is no solver 'gredy'.*greedy, genetic"):
        get_solver("gredy")
    with pytest.raises(InputError, match="has 1 fragment, and a puzzle needs two"):
        solve(Puzzle("p", puzzle.fragments[:1]))
    with pytest.raises(InputError, match="does not have: fragment_9"):
        solve(puzzle, "stack", locked={"fragment_9": Pose(0, 0)})


@dataclass
class Listener(Spy):
    """Also keeps what it is told about joins."""

    takes_judgements = True
    told: dict[str, list[Join]] = field(default_factory=dict)

    def solve(self, puzzle, *, seed=0, locked=None, progress=None, accepted=(), rejected=()):
        self.told = {"accepted": list(accepted), "rejected": list(rejected)}
        return super().solve(puzzle, seed=seed, locked=locked, progress=progress)


def test_judged_joins_reach_the_solver_under_its_names_and_in_its_frames(puzzle):
    """The two pieces lie to each other as the user said, though both have other frames."""
    wide = [
        replace(f, frame_px=(900 + 40 * k, 700), offset_px=(300, 35 * k))
        for k, f in enumerate(puzzle.fragments)
    ]
    shifted = Puzzle("shifted", tuple(wide))
    yes = Join("fragment_1", "fragment_3", Pose(12.5, -3.25, 1.234), 0.8, 1.0, 2.0, 3.0)
    no = Join("fragment_0", "fragment_1", Pose(-7.0, 60.0, -2.5), 0.4, 1.5, 2.5, 3.5)
    spy = Listener()
    solve(shifted, spy, accepted=[yes], rejected=[no], seed=3)
    (blinded,) = spy.seen
    for said, heard in ((yes, spy.told["accepted"]), (no, spy.told["rejected"])):
        (join,) = heard
        assert join.first.startswith("piece-") and join.second.startswith("piece-")
        assert join.probability == said.probability and join.gap_mm == said.gap_mm
        first, second = blinded[join.first], blinded[join.second]
        assert first.area_mm2 == pytest.approx(shifted[said.first].area_mm2)
        # One rigid motion carries both pieces as told to both as heard.
        there, here = shifted[said.first].polygon.centroid, first.polygon.centroid
        carry = Pose(here.x - there.x, here.y - there.y)
        wanted = shifted[said.second].placed(carry @ said.pose)
        got = second.placed(join.pose)
        assert got.symmetric_difference(wanted).area < 1e-3 * got.area


@dataclass
class Echo(Listener):
    """Tells what it is told, as if it had found it."""

    tells_joins = True

    def solve(self, puzzle, *, tell=None, **more):
        tell(more["accepted"])
        return super().solve(puzzle, **more)


def test_joins_that_a_solver_finds_are_told_under_the_users_names_and_in_his_frames(puzzle):
    wide = [replace(f, frame_px=(900, 700), offset_px=(300, 0)) for f in puzzle.fragments]
    yes = Join("fragment_1", "fragment_3", Pose(12.5, -3.25, 1.234), 0.8, 1.0, 2.0, 3.0)
    heard: list[Join] = []
    solve(Puzzle("wide", tuple(wide)), Echo(), accepted=[yes], tell=heard.extend)
    (join,) = heard
    assert replace(join, pose=yes.pose) == yes
    assert join.pose.translation == pytest.approx(yes.pose.translation)
    assert join.pose.rotation_rad == pytest.approx(yes.pose.rotation_rad)
    solve(puzzle, Spy(), tell=heard.extend)  # Who finds none tells none.
    assert heard == [join]


def test_solvers_that_hear_nothing_of_joins_say_so(puzzle):
    join = Join("fragment_1", "fragment_3", Pose(0, 0), 0.5, 1.0, 2.0, 3.0)
    for judged in ({"accepted": [join]}, {"rejected": [join]}):
        with pytest.raises(InputError, match="greedy cannot be told which joins hold"):
            solve(puzzle, "greedy", **judged)
    with pytest.raises(InputError, match="names fragment_9"):
        solve(puzzle, Listener(), rejected=[replace(join, second="fragment_9")])
    spy = Listener()
    solve(puzzle, spy)
    assert spy.told == {"accepted": [], "rejected": []}
