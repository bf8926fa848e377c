from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from reassembly.app import schema
from reassembly.app.fit import compare, gap_profile, strip
from reassembly.app.operations import Placement
from reassembly.app.store import Store
from reassembly.pose import Pose
from reassembly.puzzle import Fragment
from reassembly.solvers import available_solvers
from tests.app.live import Live, cut_outs, live
from tests.puzzles import drawn_puzzle

MM = 0.25


def _half(right: bool, side: int = 200) -> Fragment:
    """A square whose picture has lines across its left or right edge."""
    y, _ = np.mgrid[:side, :side]
    stripes = ((y // 20) % 2 * 200 + 30).astype(np.uint8)
    rgb = np.dstack([stripes, np.full_like(stripes, 40 if right else 90), stripes])
    mask = np.zeros((side + 20, side + 20), bool)
    mask[10:-10, 10:-10] = True
    image = np.zeros((side + 20, side + 20, 3), np.uint8)
    image[10:-10, 10:-10] = rgb
    return Fragment("right" if right else "left", image, mask, MM)


def test_the_gap_along_a_joint_is_measured_with_its_sign() -> None:
    left, right = _half(False), _half(True)
    for gap in (1.5, 0.0, -1.0):
        along, measured = gap_profile(left, right, Pose(200 * MM + gap, 0.0))
        middle = measured[len(measured) // 4 : -len(measured) // 4]
        assert middle == pytest.approx(np.full(len(middle), gap), abs=0.15)
        assert along[-1] >= 45.0
    assert len(gap_profile(left, right, Pose(200.0, 0.0))[0]) == 0


def test_lines_that_continue_run_straight_through_the_strip() -> None:
    left, right = _half(False), _half(True)
    picture = strip(left, right, Pose(200 * MM + 0.5, 0.0))
    height, width = picture.shape[:2]
    core = picture[:, width // 4 : -width // 4]
    other, own = core[height // 4], core[3 * height // 4]
    assert (other[:, 3] == 255).all() and (own[:, 3] == 255).all()
    # Which piece is which is told by green; the stripes of both agree.
    assert abs(int(np.median(other[:, 1])) - 40) < 5 and abs(int(np.median(own[:, 1])) - 90) < 5
    agreement = np.mean((other[:, 0] > 130) == (own[:, 0] > 130))
    assert agreement > 0.9
    shifted = strip(left, right, Pose(200 * MM + 0.5, 20 * MM))[:, width // 4 : -width // 4]
    rows = shifted[height // 4], shifted[3 * height // 4]
    assert np.mean((rows[0][:, 0] > 130) == (rows[1][:, 0] > 130)) < 0.2


def _at(x: float, y: float = 0.0, turn: float = 0.0) -> Placement:
    return Placement(placed=True, x_mm=x, y_mm=y, rotation_deg=turn)


def _about(piece: str, area_mm2: float = 900.0) -> schema.Piece:
    """What a comparison asks of a piece, whose middle is not its frame's."""
    return schema.Piece.model_construct(id=piece, area_mm2=area_mm2, centroid_mm=(2.0, -1.0))


def test_hypotheses_are_compared_up_to_a_motion_of_the_whole() -> None:
    ids = [f"{k:012x}" for k in range(5)]
    first = {i: _at(20.0 * k, 5.0 * k, 10.0 * k) for k, i in enumerate(ids[:4])}
    whole = Pose.from_degrees(300.0, -40.0, 90.0)
    second = {}
    for i, placement in first.items():
        pose = whole @ placement.pose()
        second[i] = _at(pose.x_mm, pose.y_mm, pose.rotation_deg)
    second[ids[3]] = _at(0.0)
    second[ids[4]] = _at(1.0)
    del second[ids[0]]
    comparison = compare(first, second, [_about(i) for i in ids])
    assert comparison.laid_over == "all"
    found = {d.piece: d for d in comparison.pieces}
    assert [found[i].change for i in ids] == ["only_first", "same", "same", "moved", "only_second"]
    assert found[ids[1]].distance_mm == pytest.approx(0.0, abs=1e-6)


def test_no_single_piece_swings_the_other_hypothesis() -> None:
    rng = np.random.default_rng(5)
    ids = [f"{k:012x}" for k in range(25)]
    pieces = [_about(i, area_mm2=float(rng.uniform(400, 2500))) for i in ids]
    whole = Pose.from_degrees(300.0, -40.0, 90.0)
    first, second = {}, {}
    for k, i in enumerate(ids):
        first[i] = _at(60.0 * (k % 5), 60.0 * (k // 5), 10.0 * k)
        dx, dy, turn = rng.uniform(-0.2, 0.2, 3)
        pose = whole @ Pose.from_degrees(60.0 * (k % 5) + dx, 60.0 * (k // 5) + dy, 10.0 * k + turn)
        second[i] = _at(pose.x_mm, pose.y_mm, pose.rotation_deg)
    # One lies elsewhere, another is turned.
    second[ids[7]] = _at(900.0)
    second[ids[8]].rotation_deg += 5.0
    changes = {d.piece: d.change for d in compare(first, second, pieces).pieces}
    assert {i for i in ids if changes[i] == "moved"} == {ids[7], ids[8]}


def test_hypotheses_are_laid_over_each_other_by_what_is_locked_in_both() -> None:
    ids = [f"{k:012x}" for k in range(4)]
    first = {i: _at(30.0 * k) for k, i in enumerate(ids)}
    second = {i: _at(30.0 * k + 3.0) for k, i in enumerate(ids)}
    second[ids[0]] = _at(0.0)
    pieces = [_about(i) for i in ids]
    assert [d.change for d in compare(first, second, pieces).pieces] == ["moved"] + ["same"] * 3
    first[ids[0]].locked = second[ids[0]].locked = True
    comparison = compare(first, second, pieces)
    assert [d.change for d in comparison.pieces] == ["same"] + ["moved"] * 3
    assert comparison.laid_over == "nothing"
    assert compare({}, first, pieces).pieces[0].change == "only_second"


def test_overlaps_and_gaps_are_found_within_an_island(server: Live) -> None:
    project, hypothesis = server.project()
    square = np.zeros((120, 120, 4), np.uint8)
    square[10:110, 10:110] = 255
    buffer = io.BytesIO()
    Image.fromarray(square).save(buffer, "PNG")
    files = {f"{name}.png": buffer.getvalue() for name in "abcd"}
    server.bring_in(project, files, mm_per_px=0.5)
    a, b, c, d = (p["id"] for p in server.get(f"/projects/{project}/pieces"))
    places = ((a, 0.0, 1), (b, 48.0, 1), (c, 101.0, 1), (d, 0.0, 2))
    server.edit(
        project,
        hypothesis,
        *({"op": "place", "piece": i, "x_mm": x, "island": n} for i, x, n in places),
    )
    fit = server.get(f"/projects/{project}/hypotheses/{hypothesis}/fit")
    (overlap,) = fit["overlaps"]
    assert {overlap["first"], overlap["second"]} == {a, b}
    assert overlap["area_mm2"] == pytest.approx(100.0, rel=0.05)
    xs = [x for ring in overlap["rings_mm"] for x, _ in ring]
    assert (min(xs), max(xs)) == pytest.approx((23.0, 25.0), abs=0.3)
    gaps = {frozenset((gap["first"], gap["second"])): gap for gap in fit["gaps"]}
    assert gaps[frozenset((b, c))]["gap_mm"] == pytest.approx(3.0, abs=0.3)
    assert frozenset((a, d)) not in gaps


def test_a_piece_that_touches_in_a_corner_still_gapes_along_its_side(server: Live) -> None:
    project, hypothesis = server.project()
    square = np.zeros((120, 120, 4), np.uint8)
    square[10:110, 10:110] = 255
    buffer = io.BytesIO()
    Image.fromarray(square).save(buffer, "PNG")
    server.bring_in(project, {f"{n}.png": buffer.getvalue() for n in "ab"}, mm_per_px=0.5)
    a, b = (p["id"] for p in server.get(f"/projects/{project}/pieces"))
    # Turned by 10 degrees about a corner that lies a little within the other piece.
    turn = np.radians(-10)
    corner = np.array([24.5, 25.0])
    offset = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]) @ [-25, 25]
    x, y = (corner - offset).tolist()
    server.edit(
        project,
        hypothesis,
        {"op": "place", "piece": a},
        {"op": "place", "piece": b, "x_mm": x, "y_mm": y, "rotation_deg": -10.0},
    )
    fit = server.get(f"/projects/{project}/hypotheses/{hypothesis}/fit")
    assert fit["overlaps"]
    (gap,) = fit["gaps"]
    # Along the side it opens from 0 to 8.7 mm.
    assert 2.5 < gap["gap_mm"] < 6.0


def test_keypoints_lie_on_the_outline(server: Live) -> None:
    project, _ = server.project()
    server.bring_in(project, cut_outs(2), mm_per_px=0.5)
    piece = server.get(f"/projects/{project}/pieces")[0]
    points = server.get(f"/projects/{project}/pieces/{piece['id']}/keypoints")["keypoints_mm"]
    assert len(points) == 100
    from shapely.geometry import LinearRing, Point

    ring = LinearRing(piece["outline_mm"][0])
    assert max(ring.distance(Point(p)) for p in points) < 1.5


def test_a_join_is_shown_with_and_without_its_partner(tmp_path: Path) -> None:
    puzzle = drawn_puzzle(2)
    with live(tmp_path / "w") as server:
        project, _ = server.project()
        server.bring_in(project, cut_outs(2), mm_per_px=0.5)
        first, second = (p["id"] for p in server.get(f"/projects/{project}/pieces"))
        assert puzzle.truth is not None
        truth = [puzzle.truth[f.id] for f in puzzle.fragments]
        _add_join(server, project, first, second, truth[0].inverse() @ truth[1])
        listed = server.get(f"/projects/{project}/joins", piece=second)
        (join,) = listed["joins"]
        assert listed["stale"] is True and join["verdict"] is None
        base = f"/projects/{project}/joins/{join['id']}"
        shown = {
            show: _picture(server, f"{base}/picture.png?show={show}&size=300")
            for show in ("both", "first", "second")
        }
        opaque = {show: picture[..., 3] > 128 for show, picture in shown.items()}
        assert all(picture.shape == (300, 300, 4) for picture in shown.values())
        # The two halves of the drawn square fill it, and hardly cover each other.
        together = opaque["first"] | opaque["second"]
        assert np.mean(together == opaque["both"]) > 0.99
        common = (opaque["first"] & opaque["second"]).sum()
        assert common < 0.03 * opaque["both"].sum()
        profile = np.array(server.get(f"{base}/profile")["gap_mm"])
        assert np.abs(np.median(profile[:, 1])) < 1.0 and profile[-1, 0] > 50
        assert _picture(server, f"{base}/strip.png").shape[2] == 4


def _picture(server: Live, path: str) -> Any:
    answer = server.client.get(f"/api{path}")
    assert answer.status_code == 200
    return np.asarray(Image.open(io.BytesIO(answer.content)))


def _add_join(server: Live, project: str, first: str, second: str, pose: Pose) -> None:
    """As the search would leave it, from a second process on the same database."""
    store = Store(server.workspace, lambda *_: None)
    join = {"first": first, "second": second, "x_mm": pose.x_mm, "y_mm": pose.y_mm}
    join |= {"rotation_deg": pose.rotation_deg, "probability": 0.9, "gap_mm": 0.1}
    store.set_joins(project, [join | {"overlap_mm2": 0.0, "contact_mm": 90.0}], "of other pieces")
    store.close()


@pytest.mark.slow
def test_joins_are_found_judged_and_honoured_by_the_next_solve(tmp_path: Path) -> None:
    missing = available_solvers()["joins"].missing_weights()
    if missing:
        pytest.skip(f"weights are not here: {', '.join(missing)}")
    with live(tmp_path / "w") as server:
        project, hypothesis = server.project()
        server.bring_in(project, cut_outs(4), mm_per_px=0.5)
        job = server.post(f"/projects/{project}/joins", {})["job"]
        server.wait(job, timeout_s=300)
        joins = server.get(f"/projects/{project}/joins")
        assert joins["joins"] and not joins["stale"]
        chances = [join["probability"] for join in joins["joins"]]
        assert chances == sorted(chances, reverse=True)
        good = joins["joins"][0]
        bad = next(j for j in joins["joins"] if {j["first"], j["second"]} != _pair(good))
        verdicts = [(good, "accepted"), (bad, "rejected")]
        server.edit(
            project,
            hypothesis,
            *(
                {"op": "judge", **{k: j[k] for k in ("first", "second", "pose")}, "verdict": v}
                for j, v in verdicts
            ),
        )
        path = f"/projects/{project}/hypotheses/{hypothesis}/solve"
        server.wait(server.post(path, {"solver": "joins"})["job"], timeout_s=300)
        state = server.get(f"/projects/{project}/hypotheses/{hypothesis}")["state"]["placements"]
        assert _apart(state, good) < 3.0
        if all(state.get(bad[k], {}).get("placed") for k in ("first", "second")):
            assert _apart(state, bad) > 3.0
        server.wait(server.post(f"/projects/{project}/joins", {})["job"], timeout_s=300)
        again = server.get(f"/projects/{project}/joins")["joins"]
        # It is still told, so that the verdict can be taken back, and not found a second time.
        (refused,) = [j for j in again if j["verdict"] == "rejected"]
        told = ("first", "second", "pose", "probability")
        assert {k: refused[k] for k in told} == {k: bad[k] for k in told}
        assert again[0]["verdict"] == "accepted" and again[0]["probability"] == 1.0


def _pair(join: dict[str, Any]) -> set[str]:
    return {join["first"], join["second"]}


def _apart(state: dict[str, Any], join: dict[str, Any]) -> float:
    """How far, mm, the second piece lies from where the join wants it."""
    poses = [
        Pose.from_degrees(p["x_mm"], p["y_mm"], p["rotation_deg"])
        for p in (state[join["first"]], state[join["second"]], join["pose"])
    ]
    off = (poses[0] @ poses[2]).inverse() @ poses[1]
    return float(np.hypot(off.x_mm, off.y_mm))
