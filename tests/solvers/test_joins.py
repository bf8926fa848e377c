"""The solver from pictures to poses, with a finder whose judge knows the truth; what a person says
must hold whatever it finds."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import reassembly as ra
from reassembly.errors import InputError
from reassembly.matching.joins import JoinFinder, Judged, Looked, find_joins
from reassembly.matching.rim import motion_of, rims_of
from reassembly.pose import Pose, same_place, wrap_deg
from reassembly.puzzle import Puzzle
from reassembly.solvers import Cancelled, joins
from reassembly.solvers.joins import Joins
from reassembly.solvers.reassemblenet import Reassemblenet
from tests.joining import neighbours, saved, touching_motions, true_join
from tests.puzzles import drawn_puzzle

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def puzzle():
    """Four pieces, and a fifth that has no neighbour here."""
    drawn = drawn_puzzle(4, seed=5, size_px=220, gap_px=1)
    other = drawn_puzzle(3, seed=9, size_px=160).fragments[0]
    fragments = (*drawn.fragments, replace(other, id="stray"))
    return Puzzle("five", fragments, drawn.truth, strays=frozenset({"stray"}))


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("weights") / "joins.safetensors")


class Knowing(JoinFinder):
    """Proposes true joins among others, and likes them best."""

    def __init__(self, puzzle, finder, false=6, doubted=(), network=None):
        """Args:
        doubted: pieces whose joins are liked less, though better than false ones.
        """
        super().__init__(network or finder.network, finder.matchers, finder.settings)
        self.told, self.rims, self.met = puzzle, rims_of(puzzle), met_in(puzzle)
        self.false, self.doubted = false, set(doubted)

    def look(self, puzzle):
        """The pieces, which come under other names and in other frames, by their areas."""
        by_area = {round(f.area_mm2, 3): f for f in self.told.fragments}
        self.real = {f.id: by_area[round(f.area_mm2, 3)] for f in puzzle.fragments}
        rims = {
            f.id: replace(self.rims[self.real[f.id].id], centre_mm=f.centroid_mm)
            for f in puzzle.fragments
        }
        return Looked(puzzle, rims, None, None, light=False)

    def judged(self, looked, pairs):
        real, met, false = self.real, self.met, -3.0
        for a, b in pairs:
            rows = touching_motions(looked.rims[a], looked.rims[b], self.false)
            logits = np.full(self.false, false)
            names = real[a].id, real[b].id
            if tuple(sorted(names)) in met:
                join = true_join(self.told, *names)
                shifts = [real[i].anonymous("x")[1] for i in (a, b)]
                pose = shifts[0].inverse() @ join.pose @ shifts[1]
                right = motion_of(pose, looked.rims[a], looked.rims[b])
                true = 2.5 if self.doubted & set(names) else 4.0
                rows, logits = np.vstack([right, rows]), np.array([true, *logits])
            if len(rows):
                yield Judged(a, b, rows, rows, rows[:, 1:], logits, 1 / (1 + np.exp(-logits)))


@pytest.fixture(scope="module")
def solver(puzzle, weights):
    made = Joins(weights=str(weights), tries=2, refined=False)
    made.finder = Knowing(puzzle, made.finder)
    return made


def with_settings(solver, **settings):
    """The same solver told something else."""
    made = Joins.__new__(Joins)
    made.__dict__ |= {**solver.__dict__, **settings}
    return made


def met_in(puzzle):
    placed = tuple(f for f in puzzle.fragments if f.id in puzzle.truth)
    return neighbours(replace(puzzle, fragments=placed))


def off(puzzle, poses, first, second):
    """Degrees and mm by which one piece is off, seen from another."""
    got = poses[first].inverse() @ poses[second]
    wanted = puzzle.truth[first].inverse() @ puzzle.truth[second]
    centre = puzzle[second].centroid_mm[None]
    apart = np.linalg.norm(got.apply(centre) - wanted.apply(centre))
    return abs(wrap_deg(got.rotation_deg - wanted.rotation_deg)), float(apart)


def relative(poses, first, second):
    return poses[first].inverse() @ poses[second]


def same(one, other, mm=1e-6):
    drift = one.inverse() @ other
    turned = math.remainder(drift.rotation_rad, math.tau)
    return math.hypot(drift.x_mm, drift.y_mm) < mm and abs(turned) < mm


def test_joins_that_are_true_make_the_assembly(puzzle, solver):
    answer = ra.solve(puzzle, solver, seed=1)
    first, *rest = list(puzzle.truth)
    for i in rest:
        turned, mm = off(puzzle, answer.islands[0], first, i)
        assert turned < 3 and mm < 2
    assert min(answer.confidence[i] for i in puzzle.truth) > 0.5


def test_what_no_join_that_is_trusted_holds_is_left_out(puzzle, solver):
    answer = ra.solve(puzzle, with_settings(solver, trust=0.5), seed=1)
    assert answer.unplaced == ("stray",)
    assert set(answer.islands[0]) == set(puzzle.truth)


def test_no_piece_is_told_that_is_less_sure_than_asked_for(puzzle, solver):
    """Also where several joins speak for it that are doubtful each."""
    met = met_in(puzzle)
    # Of four, one that has two neighbours or more, and without which the others hold together.
    doubted = next(
        i
        for i in sorted(puzzle.truth)
        if sum(i in pair for pair in met) > 1 and sum(i not in pair for pair in met) > 1
    )
    network = copy.deepcopy(solver.finder.network)
    network.context.scale[:] = torch.tensor([1.0, -3.0])
    finder = Knowing(puzzle, solver.finder, doubted=[doubted], network=network)
    placed = ra.solve(puzzle, with_settings(solver, finder=finder, trust=0.3), seed=1)
    assert doubted in placed.islands[0] and 0.3 < placed.confidence[doubted] < 0.4
    others = set(puzzle.truth) - {doubted}
    # With the stray locked, they are an island of their own, and are told without it too.
    for locked in ([], ["stray"], [min(others)]):
        held = {i: Pose(3.0, 4.0) for i in locked}
        careful = with_settings(solver, finder=finder, trust=0.5)
        answer = ra.solve(puzzle, careful, seed=1, locked=held)
        assert others in [set(island) for island in answer.islands]
        assert doubted in answer.unplaced
        for each in (answer, *answer.alternatives):
            assert min(each.confidence.values()) >= 0.5


def test_a_large_piece_alone_gives_way_to_those_that_join(puzzle, solver):
    a, b = min(met_in(puzzle))
    large = replace(drawn_puzzle(3, seed=9, size_px=500).fragments[0], id="large")
    assert large.area_mm2 > puzzle[a].area_mm2 + puzzle[b].area_mm2
    truth = {i: puzzle.truth[i] for i in (a, b)}
    three = Puzzle("three", (puzzle[a], puzzle[b], large), truth, strays=frozenset({"large"}))
    finder = Knowing(three, solver.finder)
    answer = ra.solve(three, with_settings(solver, finder=finder, trust=0.5))
    assert [set(island) for island in answer.islands] == [{a, b}]


@pytest.mark.parametrize("count", [1, 2])
def test_locked_pieces_never_move_and_the_rest_comes_to_them(puzzle, solver, count):
    """Wherever the search joins them to others."""
    frame = Pose(300.0, -40.0, 2.0)
    for first in range(4):
        names = [list(puzzle.truth)[(first + k) % 4] for k in range(count)]
        locked = {i: frame @ puzzle.truth[i] for i in names}
        answer = ra.solve(puzzle, solver, seed=2, locked=locked)
        for i, pose in locked.items():
            assert answer.islands[0][i] == pose
        for i in puzzle.truth:
            turned, mm = off(puzzle, answer.islands[0], names[0], i)
            assert turned < 3 and mm < 2


def test_locked_pieces_stay_even_where_joins_speak_against_it(puzzle, solver):
    a, b = list(puzzle.truth)[:2]
    locked = {a: Pose(0, 0, 0.0), b: Pose(200.0, 0, 1.0)}
    answer = ra.solve(puzzle, solver, locked=locked)
    assert {i: answer.islands[0][i] for i in locked} == locked


def test_locked_pieces_that_lie_on_each_other_stay_too(puzzle, solver):
    """A slip, or a doublet: the user's to mend, at any size."""
    large = [
        replace(f, id=i, mm_per_px=4 * f.mm_per_px)
        for i, f in zip("abc", puzzle.fragments, strict=False)
    ]
    big = Puzzle("big", tuple(large), {f.id: Pose(0, 0) for f in large})
    knowing = with_settings(solver, finder=Knowing(big, solver.finder))
    locked = {"a": Pose(0, 0), "b": Pose(30.0, 0)}
    answer = ra.solve(big, knowing, locked=locked)
    assert {i: answer.islands[0][i] for i in locked} == locked


def test_accepted_joins_hold_exactly(puzzle, solver):
    """Also wrong ones, of the stray, told from either piece, and beside locked pieces."""
    a, b = list(puzzle.truth)[:2]
    told = ra.Join("stray", a, Pose(70.0, 10.0, 0.7), 0.5, 1.0, 0.0, 20.0)
    truth = true_join(puzzle, b, a)
    for accepted in ([told], [told.turned()], [told, truth]):
        answer = ra.solve(puzzle, solver, accepted=accepted)
        island = next(x for x in answer.islands if "stray" in x)
        assert same(relative(island, "stray", a), told.pose)
    assert same(relative(island, b, a), truth.pose)
    locked = {a: Pose(5.0, 6.0, -1.0)}
    for join in (told, told.turned()):
        answer = ra.solve(puzzle, solver, accepted=[join], locked=locked)
        assert answer.islands[0][a] == locked[a]
        assert same(relative(answer.islands[0], "stray", a), told.pose)


@pytest.mark.parametrize("turned", [False, True])
def test_rejected_joins_do_not_come_back(puzzle, solver, turned):
    a, b = min(met_in(puzzle))
    join = true_join(puzzle, a, b)
    alone = Puzzle("two", (puzzle[a], puzzle[b]))
    assert max(off(puzzle, ra.solve(alone, solver).islands[0], a, b)) < 3
    answer = ra.solve(alone, solver, rejected=[join.turned() if turned else join])
    for island in answer.islands:
        if a in island and b in island:
            degrees, mm = off(puzzle, island, a, b)
            assert degrees > 8 or mm > 8


@pytest.mark.parametrize("off_deg", [0, 10.5])
@pytest.mark.parametrize("refined", [False, True])
def test_rejected_joins_do_not_come_back_by_way_of_other_pieces(puzzle, solver, refined, off_deg):
    """Though all others bring the two pieces together so, and nothing else is proposed; nor what a
    person would call the same."""
    knowing = Knowing(puzzle, solver.finder, false=0)
    stubborn = with_settings(solver, finder=knowing, refined=refined)
    for pair in sorted(met_in(puzzle)):
        join, centre = true_join(puzzle, *pair), puzzle[pair[1]].centroid_mm
        there, back = Pose(*centre), Pose(*-centre)
        turned = join.pose @ there @ Pose(0.0, 0.0, math.radians(off_deg)) @ back
        answer = ra.solve(puzzle, stubborn, rejected=[replace(join, pose=turned)])
        for island in answer.islands:
            if set(pair) <= set(island):
                assert not same_place(relative(island, *pair), turned, centre)


def test_refining_leaves_locked_and_accepted_pieces_alone(puzzle, solver):
    a, b, c, _ = puzzle.truth
    refining = with_settings(solver, refined=True, tries=1)
    join, locked = true_join(puzzle, b, c), {a: Pose(5.0, 6.0, -1.0)}
    whole = replace(puzzle, fragments=puzzle.fragments[:4], strays=frozenset())
    answer = ra.solve(whole, refining, accepted=[join], locked=locked)
    assert answer.islands[0][a] == locked[a]
    assert same(relative(answer.islands[0], b, c), join.pose)
    for i in puzzle.truth:
        turned, mm = off(puzzle, answer.islands[0], a, i)
        assert turned < 3 and mm < 2


def test_a_partner_lays_the_rest_around_what_is_sure(puzzle, solver):
    """Of all assemblies the best supported one wins, and no sure piece moves in the partner's."""
    with_partner = with_settings(solver, partner=Reassemblenet(steps=2, polish=0))
    answer = ra.solve(puzzle, with_partner, seed=1)
    drawn = [a for a in (answer, *answer.alternatives) if len(a.islands[0]) == 5]
    alone = ra.solve(puzzle, solver, seed=1)
    assert len(drawn) > sum(len(a.islands[0]) == 5 for a in (alone, *alone.alternatives))
    for assembly in (answer, *drawn):
        (poses, *_) = assembly.islands
        for piece in puzzle.ids[1:4]:
            assert same(
                relative(poses, puzzle.ids[0], piece),
                relative(alone.islands[0], puzzle.ids[0], piece),
                mm=1e-3,
            )


def test_the_seed_decides_and_alternatives_differ(puzzle, solver):
    first, again = (ra.solve(puzzle, solver, seed=3) for _ in range(2))
    assert first == again
    for other in first.alternatives:
        assert set(other.poses) | set(other.unplaced) == set(puzzle.ids)


def test_what_was_found_so_far_is_shown_while_pieces_are_compared(puzzle, solver, monkeypatch):
    monkeypatch.setattr(joins, "PREVIEW_S", 0.0)
    monkeypatch.setattr(joins, "PREVIEW_SHARE", math.inf)
    steps = []
    answer = ra.solve(puzzle, solver, progress=steps.append)
    early = [s.preview for s in steps if s.stage == "comparing pieces" and s.preview is not None]
    held = [max(map(len, preview.islands)) for preview in early]
    assert held == sorted(held) and held[0] < held[-1] == len(puzzle) - 1
    assert answer.poses == ra.solve(puzzle, solver).poses


def test_progress_runs_up_and_cancels(puzzle, solver):
    steps = []
    ra.solve(puzzle, solver, progress=steps.append)
    fractions = [step.fraction for step in steps]
    assert fractions == sorted(fractions) and fractions[0] == 0 and fractions[-1] == 1
    assert steps[-1].preview is not None

    def stop(step):
        if step.stage == "assembling":
            raise Cancelled

    with pytest.raises(Cancelled):
        ra.solve(puzzle, solver, progress=stop)


def test_a_network_that_learnt_nothing_still_places_what_is_told(puzzle, weights):
    """The whole way with real proposals: a valid answer, locks kept."""
    a, b = list(puzzle.truth)[:2]
    few = Puzzle("three", puzzle.fragments[:3])
    solver = Joins(weights=str(weights), tries=1, proposals=30, refined=False)
    join = true_join(puzzle, a, b)
    answer = ra.solve(few, solver, accepted=[join])
    assert same(relative(answer.islands[0], a, b), join.pose)
    assert set(answer.poses) | set(answer.unplaced) == set(few.ids)


def test_bad_settings_are_explained(weights):
    for settings, said in (
        ({"trust": 1.0}, "trust is 1.0"),
        ({"trust": -0.1}, "trust is -0.1"),
        ({"trust": 0.5, "partner": True}, "a partner places every piece"),
        ({"tries": 0}, "tries is 0"),
        ({"device": "tpu"}, "tpu"),
        ({"weights": "nowhere"}, "nowhere"),
    ):
        with pytest.raises(InputError, match=said):
            Joins(**({"weights": str(weights)} | settings))


def test_all_pieces_locked_is_the_answer(puzzle, solver):
    locked = {i: Pose(k, 2 * k, 0.1 * k) for k, i in enumerate(puzzle.ids)}
    answer = ra.solve(puzzle, solver, locked=locked)
    assert answer.islands == (locked,)


def test_the_joins_it_finds_on_its_way_are_those_of_a_search(puzzle, solver):
    refused = find_joins(puzzle, finder=solver.finder)[0]
    told = []
    solver.solve(puzzle, rejected=[refused], tell=told.extend)
    found = find_joins(puzzle, finder=solver.finder, rejected=[refused])
    assert found and sorted(told, key=lambda j: (-j.probability, j.first, j.second)) == found


def test_the_first_attempt_is_shown_as_soon_as_two_pieces_seem_to_join(puzzle, solver, monkeypatch):
    monkeypatch.setattr(joins, "PREVIEW_S", math.inf)
    steps = []
    solver.solve(puzzle, progress=steps.append)
    compared = [step.preview for step in steps if step.stage == "comparing pieces"]
    (early,) = (preview for preview in compared if preview is not None)
    assert max(map(len, early.islands)) == 2
