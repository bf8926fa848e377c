from __future__ import annotations

import io
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from tests.app.live import Live, cut_outs


def _png(array: Any) -> bytes:
    _, data = cv2.imencode(".png", array)
    return bytes(data)


def _two_discs() -> Any:
    """Two discs that touch, as an RGBA cut-out of 260 x 140 pixels."""
    mask = np.zeros((140, 260), np.uint8)
    cv2.circle(mask, (75, 70), 55, 255, -1)
    cv2.circle(mask, (180, 70), 55, 255, -1)
    rng = np.random.default_rng(0)
    return np.dstack([rng.integers(40, 220, (140, 260, 3)).astype(np.uint8), mask])


def _mask(server: Live, piece: dict[str, Any]) -> Any:
    data = server.client.get(f"/api/pictures/{piece['picture']}/mask.png").content
    return np.asarray(Image.open(io.BytesIO(data))) > 127


class Case:
    """A project with one cut-out, placed."""

    def __init__(self, server: Live, rgba: Any) -> None:
        self.server = server
        self.project, self.hypothesis = server.project()
        server.bring_in(self.project, {"a.png": _png(rgba)}, mm_per_px=0.5)
        (self.piece,) = self.pieces()
        self.base = f"/projects/{self.project}/hypotheses/{self.hypothesis}"
        where = {"x_mm": 30.0, "y_mm": -12.0, "rotation_deg": 35.0}
        server.edit(
            self.project, self.hypothesis, {"op": "place", "piece": self.piece["id"], **where}
        )

    def pieces(self) -> list[dict[str, Any]]:
        found = self.server.get(f"/projects/{self.project}/pieces")
        return [piece for piece in found if not piece["discarded"]]

    def state(self) -> Any:
        return self.server.get(self.base)["state"]["placements"]

    def send_mask(self, mask: Any, **parameters: Any) -> dict[str, Any]:
        answer = self.server.client.put(
            f"/api{self.base}/pieces/{self.piece['id']}/mask",
            content=_png(mask.astype(np.uint8) * 255),
            headers={"content-type": "image/png"},
            params=parameters,
        )
        assert answer.status_code == 202, answer.text
        job: dict[str, Any] = answer.json()["job"]
        return job


@pytest.fixture
def case(server: Live) -> Case:
    return Case(server, _two_discs())


def test_a_painted_mask_becomes_the_piece_and_undo_brings_the_old_one_back(case: Case) -> None:
    old = _mask(case.server, case.piece)
    new = old.copy()
    new[:, :60] = False
    new[10:40, 120:140] = True  # Wider than it was.
    case.server.wait(case.send_mask(new, author="Ada", client="w1"))
    (piece,) = case.pieces()
    assert piece["id"] == case.piece["id"] and piece["origin_px"] == case.piece["origin_px"]
    assert np.array_equal(_mask(case.server, piece), new)
    event = case.server.get(f"{case.base}/history")[0]
    assert (event["kind"], event["author"]) == ("repair", "Ada")
    case.server.post(f"{case.base}/undo", {})
    assert np.array_equal(_mask(case.server, case.pieces()[0]), old)


def test_a_mask_of_another_size_or_of_nothing_is_refused(case: Case) -> None:
    for wrong, word in ((np.ones((5, 5), bool), "as large"), (np.zeros((140, 260), bool), "left")):
        shaped = wrong
        if wrong.shape != (5, 5):
            shaped = np.zeros_like(_mask(case.server, case.piece))
        job = case.server.wait(case.send_mask(shaped), "failed")
        assert word in job["error"]["what"]
    assert case.pieces() == [case.piece]


def test_a_line_cuts_a_piece_and_its_parts_lie_where_it_lay(case: Case) -> None:
    split = f"{case.base}/pieces/{case.piece['id']}/split"
    x, y = case.piece["origin_px"]
    line = [[x - 2.5, y - 90], [x - 2.5, y + 90]]
    job = case.server.wait(case.server.post(split, {"line_px": line})["job"])
    parts = case.pieces()
    assert {p["id"] for p in parts} == set(job["result"]["pieces"]) and len(parts) == 2
    assert sum(p["area_mm2"] for p in parts) == pytest.approx(case.piece["area_mm2"], rel=0.01)
    state = case.state()
    for part in parts:
        assert state[part["id"]]["rotation_deg"] == 35.0
        assert state[part["id"]]["x_mm"] == 30.0
    # Their centroids on the canvas, weighed by area, are the old piece's.
    weights = np.array([p["area_mm2"] for p in parts])
    centroids = np.array([p["centroid_mm"] for p in parts])
    assert np.average(centroids, axis=0, weights=weights) == pytest.approx(
        case.piece["centroid_mm"], abs=0.2
    )
    case.server.post(f"{case.base}/undo", {})
    assert [p["id"] for p in case.pieces()] == [case.piece["id"]]


def test_touching_pieces_fall_apart_at_their_neck(case: Case) -> None:
    split = f"{case.base}/pieces/{case.piece['id']}/split"
    case.server.wait(case.server.post(split, {})["job"])
    parts = case.pieces()
    assert len(parts) == 2
    disc = np.pi * (55 * 0.5) ** 2
    for part in parts:
        assert part["area_mm2"] == pytest.approx(disc, rel=0.06)


def test_a_line_beside_the_piece_cuts_nothing(case: Case) -> None:
    split = f"{case.base}/pieces/{case.piece['id']}/split"
    job = case.server.post(split, {"line_px": [[0, 0], [5, 0]]})["job"]
    assert "does not cut" in case.server.wait(job, "failed")["error"]["what"]


def test_parts_of_a_mask_become_pieces_when_asked(case: Case) -> None:
    mask = _mask(case.server, case.piece)
    middle = round(case.piece["origin_px"][0])
    mask[:, middle - 10 : middle + 8] = False
    case.server.wait(case.send_mask(mask, split=True))
    assert len(case.pieces()) == 2


def test_what_was_cut_apart_merges_to_what_it_was(case: Case) -> None:
    split = f"{case.base}/pieces/{case.piece['id']}/split"
    parts = case.server.wait(case.server.post(split, {})["job"])["result"]["pieces"]
    job = case.server.post(f"{case.base}/merge", {"pieces": parts})["job"]
    case.server.wait(job)
    (merged,) = case.pieces()
    assert merged["area_mm2"] == pytest.approx(case.piece["area_mm2"], rel=0.01)
    assert merged["centroid_mm"] == pytest.approx(case.piece["centroid_mm"], abs=0.3)
    assert case.state()[merged["id"]]["x_mm"] == 30.0


def test_doubts_about_a_piece_stay_with_its_parts_and_their_whole(server: Live) -> None:
    crumb = np.zeros((60, 260, 4), np.uint8)
    crumb[10:50, 20:220] = 255  # It makes the picture one of several parts, which is doubtful.
    case = Case(server, np.vstack([_two_discs(), crumb]))
    (doubt,) = case.piece["warnings"]
    split = f"{case.base}/pieces/{case.piece['id']}/split"
    parts = server.wait(server.post(split, {})["job"])["result"]["pieces"]
    assert [part["warnings"] for part in case.pieces()] == [[doubt], [doubt]]
    server.wait(server.post(f"{case.base}/merge", {"pieces": parts})["job"])
    (merged,) = case.pieces()
    assert merged["warnings"] == [doubt]


def test_pieces_merge_as_they_lie_turned_and_shifted(server: Live) -> None:
    square = np.zeros((120, 120, 4), np.uint8)
    square[10:110, 10:110] = (200, 120, 60, 255)
    project, hypothesis = server.project()
    files = {"a.png": _png(square), "b.png": _png(square)}
    server.bring_in(project, files, mm_per_px=0.5)
    a, b = (p["id"] for p in server.get(f"/projects/{project}/pieces"))
    base = f"/projects/{project}/hypotheses/{hypothesis}"
    refused = server.post(f"{base}/merge", {"pieces": [a, b]})["job"]
    assert "not on the canvas" in server.wait(refused, "failed")["error"]["what"]
    # Both turned by 30 degrees, b to the right of a along that direction, with 2 mm in common.
    step = 48.0 * np.array([np.cos(np.pi / 6), -np.sin(np.pi / 6)])
    for piece, (x, y) in ((a, (0.0, 0.0)), (b, step.tolist())):
        pose = {"x_mm": x, "y_mm": y, "rotation_deg": 30.0}
        server.edit(project, hypothesis, {"op": "place", "piece": piece, **pose})
    server.wait(server.post(f"{base}/merge", {"pieces": [a, b]})["job"])
    (merged,) = [p for p in server.get(f"/projects/{project}/pieces") if not p["discarded"]]
    assert merged["area_mm2"] == pytest.approx(98.0 * 50.0, rel=0.02)
    assert merged["centroid_mm"] == pytest.approx([24.0, 0.0], abs=0.3)
    server.post(f"{base}/undo", {})
    far = {"op": "place", "piece": b, "x_mm": 300.0}
    server.edit(project, hypothesis, far)
    job = server.post(f"{base}/merge", {"pieces": [a, b]})["job"]
    assert "do not touch" in server.wait(job, "failed")["error"]["what"]


def test_a_split_piece_solves_like_any_other(case: Case) -> None:
    case.server.wait(case.server.post(f"{case.base}/pieces/{case.piece['id']}/split", {})["job"])
    ids = {p["id"] for p in case.pieces()}
    started = case.server.post(f"{case.base}/solve", {"solver": "greedy"})
    result = case.server.wait(started["job"])["result"]
    assert set(result["proposals"][0]["placements"]) <= ids | {case.piece["id"]}


def test_cut_outs_are_whole(server: Live) -> None:
    """A part that was cut off by the window would show as a straight edge along its border."""
    project, _ = server.project()
    server.bring_in(project, cut_outs(3), mm_per_px=0.5)
    for piece in server.get(f"/projects/{project}/pieces"):
        mask = _mask(server, piece)
        edges = (mask[0], mask[-1], mask[:, 0], mask[:, -1])
        assert not any(edge.any() for edge in edges)
