from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from shapely import box, unary_union

from reassembly.app import database as db
from reassembly.app.operations import Discard, Place, Placement, Planar
from reassembly.app.pictures import keep_cut_out
from reassembly.app.puzzles import pose_of
from reassembly.app.solving import _joins, contradicted, distinct, joins_some, ranked, spread_out
from reassembly.app.store import Store
from reassembly.app.tasks import Tasks, proposal_operation
from reassembly.app.worker import REPORT_EVERY_S, UNWRITTEN, Task
from reassembly.pose import Pose
from reassembly.puzzle import Assembly
from reassembly.solvers import available_solvers
from tests.app.disks import fill, fill_under, make_room, remount
from tests.app.live import SOURCE, Listener, Live, cut_outs, live
from tests.puzzles import drawn_puzzle

SLOW_SOLVER = "genetic"
"""It goes on for long enough to be stopped."""


def _start(server: Live, pieces: int = 5, **settings: Any) -> tuple[str, str, dict[str, Any]]:
    """A project with pieces, and a solver at work on it."""
    project, hypothesis = server.project()
    server.bring_in(project, cut_outs(pieces), mm_per_px=0.5)
    job = _solve(server, project, hypothesis, **settings)
    return project, hypothesis, job


def _solve(server: Live, project: str, hypothesis: str, **settings: Any) -> dict[str, Any]:
    path = f"/projects/{project}/hypotheses/{hypothesis}/solve"
    job: dict[str, Any] = server.post(path, {"solver": "greedy", **settings})["job"]
    return job


def _until(server: Live, job: dict[str, Any], state: str, timeout_s: float = 60.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = server.get(f"/jobs/{job['id']}")
        if found["state"] == state:
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def test_a_solve_shows_its_progress_and_ends_as_an_event(server: Live) -> None:
    project, hypothesis = server.project()
    server.bring_in(project, cut_outs(5), mm_per_px=0.5)
    window = Listener(server, project)
    job = server.wait(_solve(server, project, hypothesis, author="Ada", client="w1"))
    window.until(lambda event: event[0] == "job" and event[2]["state"] == "done")
    heard = [event[2] for event in window.events if event[0] == "job"]
    fractions = [h["fraction"] for h in heard if h["state"] == "running"]
    assert fractions == sorted(fractions) and len(set(fractions)) > 3
    assert any(h["seconds_left"] for h in heard)
    previews = [h["preview"] for h in heard if h["preview"]]
    assert previews and {"x_mm", "y_mm", "rotation_deg", "island"} <= set(
        next(iter(previews[-1].values()))
    )
    result = job["result"]
    state = server.get(f"/projects/{project}/hypotheses/{hypothesis}")
    assert state["revision"] == result["applied_revision"] == 1
    assert state["placed"] == result["proposals"][0]["placed"] >= 4
    assert "not calibrated" in result["confidence_note"]
    (event,) = server.get(f"/projects/{project}/hypotheses/{hypothesis}/history")
    assert (event["kind"], event["author"]) == ("solve", "Ada")
    server.post(f"/projects/{project}/hypotheses/{hypothesis}/undo", {})
    assert server.get(f"/projects/{project}/hypotheses/{hypothesis}")["placed"] == 0
    window.close()


def test_an_attempt_is_told_as_it_would_be_placed(server: Live) -> None:
    project, hypothesis = server.project()
    server.bring_in(project, cut_outs(5), mm_per_px=0.5)
    pieces = {piece["id"] for piece in server.get(f"/projects/{project}/pieces")}
    first, *others = sorted(pieces)
    server.edit(
        project,
        hypothesis,
        {"op": "place", "piece": first, "x_mm": 40.0, "y_mm": 60.0, "island": 3},
        {"op": "lock", "piece": first, "locked": True},
        *({"op": "place", "piece": i, "x_mm": 20.0 * k} for k, i in enumerate(others)),
    )
    window = Listener(server, project)
    server.wait(_solve(server, project, hypothesis))
    window.until(lambda event: event[0] == "job" and event[2]["state"] == "done")
    previews = [e[2]["preview"] for e in window.events if e[0] == "job" and e[2]["preview"]]
    # Every piece that may move, on the board or off it: where it lay before, nothing is left.
    assert previews and all(preview.keys() == set(others) for preview in previews)
    shown = [p for preview in previews for p in preview.values() if p["placed"]]
    assert shown and not any(p["y_mm"] == 0.0 for p in shown)
    window.close()


def test_locked_pieces_stay_and_steer_and_the_unplaced_join_them(server: Live) -> None:
    project, hypothesis, job = _start(server)
    server.wait(job)
    before = server.get(f"/projects/{project}/hypotheses/{hypothesis}")["state"]["placements"]
    first, second, *rest = [i for i, p in before.items() if p["placed"] and p["island"] == 1]
    server.edit(
        project,
        hypothesis,
        *({"op": "lock", "piece": i, "locked": True} for i in (first, second)),
        *({"op": "unplace", "piece": i} for i in rest),
    )
    server.wait(_solve(server, project, hypothesis, seed=1))
    after = server.get(f"/projects/{project}/hypotheses/{hypothesis}")["state"]["placements"]
    for i in (first, second):
        assert after[i] == before[i] | {"locked": True, "confidence": after[i]["confidence"]}
    placed = [i for i, p in after.items() if p["placed"]]
    assert len(placed) > 2
    # What is placed stays with the scope "unplaced", locked or not.
    loose = next(i for i in placed if i not in (first, second, rest[-1]))
    moved = {"op": "place", "piece": loose, "x_mm": 500.0, "y_mm": 500.0, "island": 1}
    server.edit(project, hypothesis, {"op": "unplace", "piece": rest[-1]}, moved)
    solved = server.wait(_solve(server, project, hypothesis, scope="unplaced"))
    last = server.get(f"/projects/{project}/hypotheses/{hypothesis}")["state"]["placements"]
    best = solved["result"]["proposals"][0]
    assert best["left"] == [] and best["unplaced"] == [i for i in last if not last[i]["placed"]]
    assert (last[loose]["x_mm"], last[loose]["y_mm"]) == (500.0, 500.0)


def test_a_solve_with_everything_held_or_too_little_says_so(server: Live) -> None:
    project, hypothesis, job = _start(server, 2)
    server.wait(job)
    job = server.wait(_solve(server, project, hypothesis, scope="unplaced"), "failed")
    assert "held" in job["error"]["what"]
    lonely, empty = server.project()
    job = server.wait(_solve(server, lonely, empty), "failed")
    assert "two pieces" in job["error"]["what"]
    path = f"/api/projects/{project}/hypotheses/{hypothesis}/solve"
    answer = server.client.post(path, json={"solver": "nonsense"})
    assert answer.status_code == 422 and "greedy" in answer.json()["remedy"]


def test_a_cancelled_job_ends_within_two_seconds_and_changes_nothing(server: Live) -> None:
    project, hypothesis, job = _start(server, 6, solver=SLOW_SOLVER)
    waiting = _solve(server, project, hypothesis)
    _until(server, job, "running")
    time.sleep(1.0)
    assert server.client.delete(f"/api/jobs/{waiting['id']}").json()["state"] == "cancelled"
    start = time.monotonic()
    server.client.delete(f"/api/jobs/{job['id']}")
    _until(server, job, "cancelled", 10.0)
    assert time.monotonic() - start < 2.5
    assert server.get(f"/projects/{project}/hypotheses/{hypothesis}")["revision"] == 0
    # The lane goes on.
    server.wait(_solve(server, project, hypothesis))
    assert server.get(f"/jobs/{waiting['id']}")["state"] == "cancelled"


def test_an_import_does_not_wait_for_a_solver(server: Live) -> None:
    project, _, job = _start(server, 6, solver=SLOW_SOLVER)
    _until(server, job, "running")
    server.bring_in(project, cut_outs(2, seed=9), mm_per_px=0.5)
    assert server.get(f"/jobs/{job['id']}")["state"] == "running"
    server.client.delete(f"/api/jobs/{job['id']}")
    _until(server, job, "cancelled")


@pytest.mark.slow
def test_a_running_job_begins_again_after_a_crash(tmp_path: Path) -> None:
    server = Live(tmp_path / "w")
    project, hypothesis, job = _start(server, 6, solver=SLOW_SOLVER)
    waiting = _solve(server, project, hypothesis)
    _until(server, job, "running")
    workers = psutil.Process(server.process.pid).children(recursive=True)
    server.kill()
    # Nothing of it may go on alone.
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive
    with live(tmp_path / "w") as again:
        found = _until(again, job, "running")
        assert found["interrupted"] == 1
        again.client.delete(f"/api/jobs/{job['id']}")
        assert again.wait(waiting)["interrupted"] == 0
        revision = again.get(f"/projects/{project}/hypotheses/{hypothesis}")["revision"]
        assert revision == 1


@pytest.mark.slow
def test_a_worker_that_dies_fails_its_job_and_is_replaced(tmp_path: Path) -> None:
    with live(tmp_path / "w") as server:
        project, hypothesis, job = _start(server, 6, solver=SLOW_SOLVER)
        _until(server, job, "running")
        time.sleep(1.0)
        for worker in psutil.Process(server.process.pid).children(recursive=True):
            worker.kill()
        failed = server.wait(job, "failed")
        assert "ended" in failed["error"]["what"]
        server.wait(_solve(server, project, hypothesis))


Disk = Callable[[str], Path]


def _waits(server: Live, job: dict[str, Any]) -> None:
    """Waits until a job waits for room."""
    deadline = time.monotonic() + 60
    while "make room" not in (found := server.get(f"/jobs/{job['id']}"))["stage"]:
        assert found["state"] in {"queued", "running"} and time.monotonic() < deadline, found
        time.sleep(0.05)


def _import_into_little(server: Live) -> tuple[str, str, dict[str, Any]]:
    """A project, and an import that has not enough room."""
    project, hypothesis = server.project()
    upload = server.send(project, cut_outs(4))
    fill(server.workspace, leave_kb=60)
    wish = {"upload": upload["id"], "mm_per_px": 0.5, "hypothesis": hypothesis}
    job: dict[str, Any] = server.post(f"/projects/{project}/imports", wish)["job"]
    _waits(server, job)
    return project, hypothesis, job


@pytest.mark.parametrize("to_the_brim", [False, True])
def test_an_import_and_an_export_that_met_a_full_disk_go_on(disk: Disk, to_the_brim: bool) -> None:
    place = disk("8m")
    with live(place) as server:
        project, hypothesis, job = _import_into_little(server)
        if to_the_brim:
            fill_under(server)
        time.sleep(2.5)
        _waits(server, job)
        make_room(place)
        assert len(server.wait(job, timeout_s=20)["result"]["pieces"]) == 4
        assert len(server.get(f"/projects/{project}/pieces")) == 4
        path = f"/projects/{project}/hypotheses/{hypothesis}"
        assert [event["kind"] for event in server.get(f"{path}/history")] == ["import"]

        fill(place, leave_kb=60)
        wish = {"formats": ["json", "html", "csv", "zip"]}
        job = server.post(f"{path}/exports", wish)["job"]
        _waits(server, job)
        if to_the_brim:
            fill_under(server)
        make_room(place)
        files = server.wait(job, timeout_s=20)["result"]["files"]
        assert {file["name"] for file in files} >= {"project.json", "report.html"}
        for file in files:
            assert len(server.client.get(file["url"]).content) == file["bytes"]


def test_a_job_that_waits_for_room_can_be_cancelled(disk: Disk) -> None:
    place = disk("8m")
    with live(place) as server:
        project, _, job = _import_into_little(server)
        server.client.delete(f"/api/jobs/{job['id']}")
        _until(server, job, "cancelled", 10.0)
        make_room(place)
        assert server.get(f"/projects/{project}/pieces") == []

        # Where that cannot be noted either, it is once there is room.
        project, _, job = _start(server, 6, solver=SLOW_SOLVER)
        imported = server.send(project, cut_outs(4, seed=1))
        fill(place, leave_kb=60)
        wish = {"upload": imported["id"], "mm_per_px": 0.5}
        import_job = server.post(f"/projects/{project}/imports", wish)["job"]
        _waits(server, import_job)
        fill_under(server)
        for each in (job, import_job):
            answer = server.client.delete(f"/api/jobs/{each['id']}")
            assert answer.status_code == 200 and answer.json()["state"] == "running"
        time.sleep(2.5)
        make_room(place)
        for each in (job, import_job):
            server.wait(each, "cancelled", timeout_s=10)
        assert len(server.get(f"/projects/{project}/pieces")) == 6


def test_an_answer_that_waits_for_room_can_be_cancelled(disk: Disk) -> None:
    place = disk("8m")
    with live(place) as server:
        project, hypothesis, job = _start(server)
        fill_under(server)
        _waits(server, job)
        server.client.delete(f"/api/jobs/{job['id']}")
        make_room(place)
        server.wait(job, "cancelled", timeout_s=10)
        assert server.get(f"/projects/{project}/hypotheses/{hypothesis}")["placed"] == 0


def test_a_job_that_waited_for_room_tells_why_else_it_failed(disk: Disk) -> None:
    place = disk("8m")
    with live(place) as server:
        project, _, job = _import_into_little(server)
        for sent in (place / "uploads").glob("*/files/*.png"):
            sent.write_bytes(b"nothing")
        make_room(place)
        error = server.wait(job, "failed", timeout_s=20)["error"]
        assert "full" not in error["what"] and server.get(f"/projects/{project}/pieces") == []


def test_a_disk_that_may_not_be_written_is_told_as_the_workbench_knows_it(
    disk: Disk, tmp_path: Path
) -> None:
    place = disk("8m")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "exports").symlink_to(place)
    with live(tmp_path / "w") as server:
        project, hypothesis = server.project()
        server.bring_in(project, cut_outs(3), mm_per_px=0.5)
        remount(place, "ro")
        path = f"/projects/{project}/hypotheses/{hypothesis}/exports"
        job = server.post(path, {"formats": ["html", "csv"]})["job"]
        assert server.wait(job, "failed")["error"] == {
            "what": "this cannot be written: its disk may only be read",
            "remedy": UNWRITTEN,
        }


def test_a_job_that_a_full_disk_keeps_from_being_queued_again_is_found_later(disk: Disk) -> None:
    place = disk("8m")
    server = Live(place)
    project, _, job = _start(server, 6, solver=SLOW_SOLVER)
    _until(server, job, "running")
    fill_under(server)
    server.kill()
    fill(place)
    command = [sys.executable, "-m", "reassembly.cli", "serve", "--no-browser", "--port", "0"]
    ended = subprocess.run(
        [*command, "--workspace", str(place)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        timeout=60,
    )
    assert ended.returncode == 2, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert str(place) in line and "the disk is full. Make room" in line
    assert "The workbench is at" not in ended.stdout
    make_room(place)
    with live(place) as again:
        found = _until(again, job, "running")
        assert found["interrupted"] == 1
        assert len(again.get(f"/projects/{project}/pieces")) == 6
        again.client.delete(f"/api/jobs/{job['id']}")
        again.wait(job, "cancelled")


def _cut_out(folder: Path, *ids: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Pieces as an import finds them, all of one picture."""
    rgb, mask = np.full((20, 20, 3), 90, np.uint8), np.ones((20, 20), bool)
    picture = keep_cut_out(folder / "images", rgb, mask)
    columns = {"mm_per_px": 0.5, "scale_origin": "option", "picture": picture["sha256"]}
    frame = {"frame_width_px": 20, "frame_height_px": 20, "left_px": 0, "top_px": 0}
    return [{"id": i, "name": i, "warnings": [], **columns, **frame} for i in ids], picture


def test_what_a_job_found_is_kept_once(tmp_path: Path) -> None:
    """It is kept anew after a crash that came before its end was noted."""
    store = Store(tmp_path, lambda *_: None)
    project = store.add_project("Test")
    (hypothesis,) = store.hypotheses(project)
    pieces, picture = _cut_out(tmp_path, 12 * "a")
    job = db.JobRow(
        id=12 * "b", project_id=project, hypothesis_id=hypothesis.id, kind="import", settings={}
    )
    finish = Tasks(store, tmp_path).finish["import"]
    found = {"pieces": pieces, "pictures": [picture], "warnings": []}
    assert finish(job, found) == finish(job, found)
    assert len(store.pieces(project)) == 1
    assert len(store.history(project, hypothesis.id, None, 10)) == 1
    store.close()


def test_a_proposal_can_be_taken_over_into_a_new_hypothesis(server: Live) -> None:
    project, hypothesis, job = _start(server, apply=False)
    job = server.wait(job)
    assert job["result"]["applied_revision"] is None
    assert server.get(f"/projects/{project}/hypotheses/{hypothesis}")["revision"] == 0
    new = server.post(f"/jobs/{job['id']}/proposals/1/apply", {"name": "Greedy's"})
    assert new["name"] == "Greedy's" and new["parent"] == hypothesis
    assert new["placed"] == job["result"]["proposals"][0]["placed"]
    assert server.get(f"/projects/{project}/hypotheses/{hypothesis}")["placed"] == 0
    assert (
        server.client.post(f"/api/jobs/{job['id']}/proposals/9/apply", json={}).status_code == 404
    )


def test_a_project_lists_the_poses_of_the_last_answer_only(server: Live) -> None:
    project, hypothesis, first = _start(server, 3)
    server.wait(first)
    second = server.wait(_solve(server, project, hypothesis, seed=1))
    listed = {job["id"]: job for job in server.get(f"/projects/{project}")["jobs"]}
    assert listed[second["id"]]["result"]["proposals"] == second["result"]["proposals"]
    assert listed[first["id"]]["result"]["proposals"] == []
    assert server.get(f"/jobs/{first['id']}")["result"]["proposals"][0]["placements"]
    assert not list((server.workspace / "uploads").glob("*/files/fragment_2.png"))


def test_a_deleted_project_takes_its_jobs_along(server: Live) -> None:
    project, _, job = _start(server, 6, solver=SLOW_SOLVER)
    _until(server, job, "running")
    assert server.client.delete(f"/api/projects/{project}").status_code == 204
    assert server.client.get(f"/api/jobs/{job['id']}").status_code == 404
    *_, job = _start(server, 3)
    server.wait(job)


def test_a_deleted_hypothesis_ends_its_jobs_and_no_others(server: Live) -> None:
    project, first, job = _start(server, 6, solver=SLOW_SOLVER)
    waiting = _solve(server, project, first)
    _until(server, job, "running")
    path = f"/api/projects/{project}/hypotheses"
    # The last one stays, and so does what is done to it.
    assert server.client.delete(f"{path}/{first}").status_code == 409
    second = server.post(f"/projects/{project}/hypotheses", {"name": "Another"})["id"]
    other = _solve(server, project, second)
    assert server.get(f"/jobs/{job['id']}")["state"] == "running"
    assert server.client.delete(f"{path}/{first}").status_code == 204
    assert server.get(f"/jobs/{waiting['id']}")["state"] == "cancelled"
    server.wait(job, "cancelled", 10.0)
    assert server.wait(other)["result"]["applied_revision"] == 1


def _join(first: str, second: str, x_mm: float, rotation_deg: float = 0.0) -> dict[str, Any]:
    pose = {"x_mm": x_mm, "y_mm": 0.0, "rotation_deg": rotation_deg}
    return {"first": first, "second": second, "pose": pose}


def test_accepted_joins_that_cannot_hold_are_found() -> None:
    centroids = dict.fromkeys("abcd", (0.0, 0.0))
    locked = {"a": Pose(100.0, 0.0), "b": Pose(150.0, 0.0)}
    near, far = _join("a", "b", 52.0, 3.0), _join("a", "b", 90.0)
    turned, back = _join("a", "b", 50.0, 40.0), _join("b", "a", -50.0)
    assert contradicted([near, back], locked, centroids) == []
    assert contradicted([far, turned], locked, centroids) == [far, turned]
    # Around a corner: what joins accepted before carry along is held too.
    way = [_join("c", "a", 10.0), _join("c", "d", 20.0)]
    good, bad = _join("d", "b", 40.0), _join("b", "d", 0.0)
    assert contradicted([*way, good], locked, centroids) == []
    assert contradicted([*way, bad], locked, centroids) == [bad]
    # Without locks, the first that is heard holds.
    loop = [_join("a", "b", 50.0), _join("b", "c", 50.0), _join("a", "c", 30.0)]
    assert contradicted(loop, {}, centroids) == loop[2:]


@pytest.mark.slow
def test_a_solve_tells_which_accepted_joins_it_could_not_keep(tmp_path: Path) -> None:
    assert not available_solvers()["joins"].missing_weights()
    with live(tmp_path / "w") as server:
        project, hypothesis = server.project()
        server.bring_in(project, cut_outs(4), mm_per_px=0.5)
        a, b, c, d = (piece["id"] for piece in server.get(f"/projects/{project}/pieces"))
        apart = {"x_mm": 400.0, "y_mm": 0.0, "rotation_deg": 0.0}
        server.edit(
            project,
            hypothesis,
            *({"op": "place", "piece": i, "x_mm": 150.0 * k} for k, i in enumerate((a, b))),
            {"op": "place", "piece": c, "x_mm": 900.0, "island": 2},
            *({"op": "lock", "piece": i, "locked": True} for i in (a, b, c)),
            *(
                {"op": "judge", "first": i, "second": j, "pose": apart, "verdict": "accepted"}
                for i, j in ((a, b), (c, d))
            ),
        )
        job = server.wait(_solve(server, project, hypothesis, solver="joins"))
        against, left_out = job["result"]["warnings"]
        assert "fragment_0 and fragment_1" in against and "Unlock" in against
        assert "fragment_2 and fragment_3" in left_out and "no part" in left_out
        assert "calibrated on made puzzles" in job["result"]["confidence_note"]
        job = server.post(
            f"/projects/{project}/hypotheses/{hypothesis}/exports", {"formats": ["html"]}
        )
        (file,) = server.wait(job["job"])["result"]["files"]
        report = server.client.get(file["url"]).text
        assert "calibrated on made puzzles" in report and "unproven" in report


def test_a_whole_solve_by_joins_leaves_its_joins_behind(tmp_path: Path) -> None:
    with live(tmp_path / "w") as server:
        project, hypothesis = server.project()
        server.bring_in(project, cut_outs(3), mm_per_px=0.5)

        def solve(**settings: Any) -> None:
            job = _solve(server, project, hypothesis, **settings)
            server.wait(job, timeout_s=300)

        def listed() -> Any:
            return server.get(f"/projects/{project}/joins")

        assert listed() == {"joins": [], "found_at": None, "stale": False, "settled": False}
        solve(solver="greedy")
        assert listed()["found_at"] is None
        solve(solver="joins")
        first = listed()
        assert first["found_at"] and first["settled"] and not first["stale"]
        chances = [join["probability"] for join in first["joins"]]
        assert len(chances) >= 3 and chances == sorted(chances, reverse=True)

        best = first["joins"][0]
        about = {k: best[k] for k in ("first", "second", "pose")}
        server.edit(project, hypothesis, {"op": "judge", **about, "verdict": "unsure"})
        assert listed()["settled"]
        server.edit(project, hypothesis, {"op": "judge", **about, "verdict": "accepted"})
        assert not listed()["settled"] and not listed()["stale"]
        solve(solver="joins")
        again = listed()
        assert again["settled"] and again["joins"][0] == best | {
            "id": again["joins"][0]["id"],
            "probability": 1.0,
            "verdict": "accepted",
        }

        # A rejected one stays as it was found, so that the verdict can be taken back.
        wrong = next(j for j in again["joins"] if j["verdict"] is None)
        about = {k: wrong[k] for k in ("first", "second", "pose")}
        server.edit(project, hypothesis, {"op": "judge", **about, "verdict": "rejected"})
        for start in (
            lambda: _solve(server, project, hypothesis, solver="joins"),
            lambda: server.post(f"/projects/{project}/joins", {})["job"],
        ):
            server.wait(start(), timeout_s=300)
            again = listed()
            assert again["settled"]
            (kept,) = (j for j in again["joins"] if j["verdict"] == "rejected")
            assert kept == wrong | {"id": kept["id"], "verdict": "rejected"}
            chances = [join["probability"] for join in again["joins"]]
            assert chances == sorted(chances, reverse=True)
        held = [{"op": "lock", "piece": best[k], "locked": True} for k in ("first", "second")]
        server.edit(project, hypothesis, *held)
        solve(solver="joins", seed=1)
        # Locked pieces were not compared with each other: the longer list stays.
        assert listed() == again


def test_a_verdict_that_no_search_has_measured_is_measured() -> None:
    """Such as those of a project that came out of its file."""
    puzzle = drawn_puzzle(4)
    assert puzzle.truth is not None
    a, b, *_ = puzzle.ids
    lies = puzzle.truth[a].inverse() @ puzzle.truth[b]
    about = {"first": a, "second": b, "probability": 0.0}
    known = {"gap_mm": 0.1, "overlap_mm2": 0.2, "contact_mm": 0.3}
    poses = [Planar.of(pose).model_dump() for pose in (lies, Pose(500.0, 0.0))]
    near, far, told = _joins(
        [{**about, "pose": p} for p in poses] + [{**about, "pose": poses[0], **known}], puzzle
    )
    assert near.contact_mm > 20.0 > far.contact_mm and near.gap_mm < 5.0
    assert (told.gap_mm, told.overlap_mm2, told.contact_mm) == (0.1, 0.2, 0.3)


def test_answers_that_hardly_differ_are_one() -> None:
    puzzle = drawn_puzzle(4)
    assert puzzle.truth is not None
    a, b, c, d = puzzle.ids

    def answer(*islands: tuple[str, ...], **moved: Pose) -> Assembly:
        truth = {i: moved.get(i, Pose(0, 0)) @ pose for i, pose in puzzle.truth.items()}  # type: ignore[union-attr]
        return Assembly.of(puzzle, *({i: truth[i] for i in island} for island in islands))

    whole = answer((a, b, c, d))
    elsewhere = Pose(500.0, -80.0, 2.0)
    carried = answer((a, b, c, d), **dict.fromkeys(puzzle.ids, elsewhere))
    nudged = answer((a, b, c, d), **{d: Pose(4.0, 3.0)})
    shifted = answer((a, b, c, d), **{d: Pose(40.0, 0.0)})
    parted = answer((a, b), (c, d))
    swapped = answer((c, d), (a, b), **{c: elsewhere, d: elsewhere})
    fewer = answer((a, b, c))
    several = (whole, carried, nudged, shifted, parted, swapped, fewer)
    assert distinct(several, puzzle) == [whole, shifted, parted, fewer]


def test_what_joins_nothing_is_no_attempt_and_the_last_of_the_proposals() -> None:
    puzzle = drawn_puzzle(4)
    assert puzzle.truth is not None
    truth = puzzle.truth
    a, b, c, d = puzzle.ids

    def answer(*islands: str) -> Assembly:
        return Assembly.of(puzzle, *({i: truth[i] for i in island.split()} for island in islands))

    alone, apart = answer(a), answer(c, d)
    pair, three, beside = answer(f"{a} {b}"), answer(f"{b} {c} {d}"), answer(a, f"{b} {d}")
    assert [joins_some(each, {}) for each in (alone, apart, pair, beside)] == [0, 0, 1, 1]
    assert ranked([alone, pair, apart, three], puzzle, {}) == [pair, three, alone, apart]
    # What is held lies together anyway.
    held = {a: truth[a], b: truth[b]}
    assert ranked([pair, three], puzzle, held) == [three, pair]


def test_an_attempt_that_comes_too_soon_is_shown_with_the_next_report() -> None:
    sent: list[Any] = []
    task = Task({}, sent.append)
    task.report(0.1, "comparing", lambda: "old")
    task.report(0.2, "comparing", lambda: "middle")
    task.report(0.3, "comparing", lambda: "new")
    task.report(0.4, "comparing")
    time.sleep(REPORT_EVERY_S)
    task.report(0.5, "comparing")
    task.report(1.0, "done")
    assert sent == [
        ("progress", 0.1, "comparing", "old"),
        ("progress", 0.5, "comparing", "new"),
        ("progress", 1.0, "done", None),
    ]


ALL = {"pieces": None, "scope": "all"}


def _at(x: float, island: int = 1, **more: Any) -> Placement:
    return Placement.model_validate({"placed": True, "x_mm": x, "island": island, **more})


def test_an_answer_moves_what_it_saw_and_nothing_else() -> None:
    a, b, c, d = (f"{k:012x}" for k in range(4))
    now = {a: _at(1.0, locked=True), b: _at(2.0, 2, locked=True), c: _at(3.0), d: _at(4.0)}
    poses = {i: {"x_mm": 9.0, "y_mm": 0.0, "rotation_deg": 0.0, "island": 1} for i in (a, c)}
    after = proposal_operation(now, poses, {a, b, c, d}, ALL).placements
    assert after[a] == now[a]
    assert after[b] == now[b]  # Locked in another island: it took no part.
    assert after[c].x_mm == 9.0 and after[c].island == 1
    assert not after[d].placed  # Seen, and not placed.
    only = proposal_operation(now, poses, {a, b, c, d}, {"pieces": [c], "scope": "all"})
    assert only.placements[d] == now[d]
    kept = proposal_operation(now, poses, {a, b, c, d}, {"pieces": None, "scope": "unplaced"})
    assert {i: p.x_mm for i, p in kept.placements.items()} == {a: 1.0, b: 2.0, c: 3.0, d: 4.0}


def test_an_answer_tells_what_stays_unplaced_and_what_it_left_alone(tmp_path: Path) -> None:
    store = Store(tmp_path, lambda *_: None)
    project = store.add_project("Test")
    (hypothesis,) = store.hypotheses(project)
    held, moved, new, dragged, none, gone = ids = [f"{k:012x}" for k in range(6)]
    pieces, picture = _cut_out(tmp_path, *ids)
    store.add_pieces(project, pieces, [picture])
    # Before the solve, the first two were placed; while it ran, a person has moved the second,
    # placed the fourth and discarded the last.
    store.edit(
        project,
        hypothesis.id,
        [
            Place(piece=held, x_mm=1.0, rotation_deg=33.3),
            Place(piece=moved, x_mm=3.0),
            Place(piece=dragged, x_mm=4.0),
            Discard(piece=gone, discarded=True),
        ],
    )
    pose = {"y_mm": 0.0, "rotation_deg": 0.0, "island": 1, "confidence": None}
    turned = pose_of(_at(1.0, rotation_deg=33.3).model_dump()).rotation_deg
    poses = {
        held: {**pose, "x_mm": 1.0, "rotation_deg": turned},
        **{i: {**pose, "x_mm": x} for i, x in ((moved, 2.0), (new, 9.0), (dragged, 9.0))},
    }
    result = {
        "proposals": [{"confidence": None, "poses": poses}, {"confidence": None, "poses": {}}],
        "asked": [new, dragged, none, gone],
        "joins": None,
        "basis": None,
        "warnings": [],
    }
    settings = {"pieces": None, "scope": "unplaced", "solver": "greedy", "apply": True}
    job = db.JobRow(id=12 * "b", project_id=project, hypothesis_id=hypothesis.id, settings=settings)
    best, other = Tasks(store, tmp_path).finish["solve"](job, result)["proposals"]
    assert (best["unplaced"], best["left"]) == ([none], [moved, dragged])
    assert (other["unplaced"], other["left"]) == ([new, none], [])
    assert [(p["placed"], p["laid"], p["asked"]) for p in (best, other)] == [(4, 1, 3), (0, 0, 3)]
    history = store.history(project, hypothesis.id, None, 50)
    assert history[0].summary == "solved by greedy: 1 piece placed"
    # The same answer once more moves nothing, and is no step.
    assert Tasks(store, tmp_path).finish["solve"](job, result)["applied_revision"] is None
    assert store.history(project, hypothesis.id, None, 50) == history
    after = store.state(project, hypothesis.id).placements
    assert {i: p.x_mm for i, p in after.items() if p.placed} == {
        held: 1.0,
        moved: 3.0,
        new: 9.0,
        dragged: 4.0,
    }
    store.close()


def test_what_is_brought_in_meanwhile_stays_where_a_person_puts_it(server: Live) -> None:
    project, hypothesis, job = _start(server, 6, solver=SLOW_SOLVER)
    _until(server, job, "running")
    path = f"/projects/{project}/hypotheses/{hypothesis}"
    known = {piece["id"] for piece in server.get(f"/projects/{project}/pieces")}
    server.bring_in(project, cut_outs(2, seed=5), mm_per_px=0.5)
    (new, _) = (p["id"] for p in server.get(f"/projects/{project}/pieces") if p["id"] not in known)
    place = {"op": "place", "piece": new, "x_mm": 777.0, "y_mm": 5.0, "rotation_deg": 0.0}
    server.post(f"{path}/edits", {"operations": [place]})
    assert server.get(f"/jobs/{job['id']}")["state"] == "running"
    ended = server.wait(job, timeout_s=120)
    for rank in (None, *(p["rank"] for p in ended["result"]["proposals"])):
        if rank is not None:
            server.post(f"/jobs/{job['id']}/proposals/{rank}/apply", {})
        placements = server.get(path)["state"]["placements"]
        assert placements[new]["placed"] and placements[new]["x_mm"] == 777.0


@pytest.mark.parametrize("number", [1, 2])
def test_new_islands_get_numbers_that_are_free(number: int) -> None:
    a, b = (f"{k:012x}" for k in range(2))
    now = {a: _at(1.0, number, locked=True)}
    pose = {"x_mm": 9.0, "y_mm": 0.0, "rotation_deg": 0.0}
    poses = {a: {**pose, "island": 1}, b: {**pose, "island": 2}}
    after = proposal_operation(now, poses, {a, b}, ALL).placements
    assert after[a].island == number
    assert after[b].island == 3 - number


def test_islands_lie_side_by_side_clear_of_what_is_held() -> None:
    puzzle = drawn_puzzle(7, seed=1)
    held, *others = puzzle.ids
    islands = [{i: Pose(3.0 * k, 5.0)} for k, i in enumerate(others)]
    # What is held comes last, far to the right of where the others would begin.
    fixed = {held: Pose(120.0, 40.0)}
    poses = spread_out(Assembly.of(puzzle, *islands, fixed), puzzle, fixed, (60.0, -30.0))
    assert (poses[held]["x_mm"], poses[held]["y_mm"]) == (120.0, 40.0)
    boxes = [box(*puzzle[i].placed(pose_of(pose)).bounds) for i, pose in poses.items()]
    apart = [one.distance(other) for k, one in enumerate(boxes) for other in boxes[:k]]
    assert min(apart) > 20.0
    whole = unary_union(boxes).bounds
    assert whole[0] >= 60.0 and 0.4 < (whole[2] - whole[0]) / (whole[3] - whole[1]) < 4.0
