from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from reassembly.app.imports import safe_relative_path
from reassembly.app.work_routes import _as_it_was
from tests.app.live import Live, cut_outs
from tests.puzzles import drawn_puzzle

GROUND = (60, 110, 70)
PAPER = (235, 235, 230)


def _photograph(pieces: int = 1, seed: int = 0, ground: tuple[int, int, int] = GROUND) -> Any:
    """Pieces of a drawn puzzle side by side on a plain ground, (H, W, 3), and their masks."""
    puzzle = drawn_puzzle(max(pieces, 2), seed=seed)
    shown = puzzle.fragments[:pieces]
    height = max(f.mask.shape[0] for f in shown) + 80
    width = sum(f.mask.shape[1] + 60 for f in shown) + 60
    rng = np.random.default_rng(seed)
    picture = np.full((height, width, 3), ground, np.uint8)
    masks, x = [], 60
    for fragment in shown:
        rows, columns = fragment.mask.shape
        picture[40 : 40 + rows, x : x + columns][fragment.mask] = fragment.image[fragment.mask]
        mask = np.zeros((height, width), bool)
        mask[40 : 40 + rows, x : x + columns] = fragment.mask
        masks.append(mask)
        x += columns + 60
    noisy = np.clip(picture + rng.normal(0, 1.5, picture.shape), 0, 255).astype(np.uint8)
    return noisy, masks


def _encoded(rgb: Any, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(rgb).save(buffer, kind, **options)
    return buffer.getvalue()


def _pieces(server: Live, project: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.get(f"/projects/{project}/pieces")
    return found


def _shown(server: Live, piece: dict[str, Any], name: str) -> Any:
    data = server.client.get(f"/api/pictures/{piece['picture']}/{name}").content
    return np.asarray(Image.open(io.BytesIO(data)))


def test_only_what_a_browser_encodes_in_a_files_name_is_decoded() -> None:
    assert _as_it_was("piece %222%22 & co, 50%25 %41.png") == 'piece "2" & co, 50%25 %41.png'
    assert _as_it_was("a%0D%0Ab") == "a\r\nb"


def test_cut_outs_come_in_with_their_shape_scale_and_names(server: Live) -> None:
    project, hypothesis = server.project()
    puzzle = drawn_puzzle(4, seed=1)
    job = server.bring_in(
        project, cut_outs(4, seed=1), mm_per_px=0.5, hypothesis=hypothesis, author="Ada"
    )
    pieces = _pieces(server, project)
    assert [p["id"] for p in pieces] == job["result"]["pieces"]
    assert [p["name"] for p in pieces] == [f.id for f in puzzle.fragments]
    for piece, fragment in zip(pieces, puzzle.fragments, strict=True):
        assert piece["scale_origin"] == "option" and piece["mm_per_px"] == 0.5
        assert piece["area_mm2"] == pytest.approx(fragment.area_mm2, rel=0.01)
        assert piece["centroid_mm"] == pytest.approx(fragment.centroid_mm.tolist(), abs=0.3)
        # Its own frame is that of the file, whatever was cropped.
        height, width = fragment.mask.shape
        left, top = width / 2 - piece["origin_px"][0], height / 2 - piece["origin_px"][1]
        mask = _shown(server, piece, "mask.png") > 127
        whole = np.zeros((height, width), bool)
        whole[int(top) :, int(left) :][: mask.shape[0], : mask.shape[1]] = mask
        assert np.array_equal(whole, fragment.mask)


def test_an_import_into_a_hypothesis_is_an_event_that_can_be_undone(server: Live) -> None:
    project, hypothesis = server.project()
    server.bring_in(project, cut_outs(2), mm_per_px=0.5, hypothesis=hypothesis, author="Ada")
    (event,) = server.get(f"/projects/{project}/hypotheses/{hypothesis}/history")
    assert (event["kind"], event["summary"], event["author"]) == (
        "import",
        "brought in 2 pieces",
        "Ada",
    )
    server.post(f"/projects/{project}/hypotheses/{hypothesis}/undo", {})
    assert all(piece["discarded"] for piece in _pieces(server, project))
    server.post(f"/projects/{project}/hypotheses/{hypothesis}/redo", {})
    assert not any(piece["discarded"] for piece in _pieces(server, project))


def test_the_scale_is_taken_from_dpi_sidecar_or_guessed_aloud(server: Live) -> None:
    project, _ = server.project()
    names = list(cut_outs(4))
    files = cut_outs(4)
    scan = Image.open(io.BytesIO(files[names[0]]))
    buffer = io.BytesIO()
    scan.save(buffer, "PNG", dpi=(300, 300))
    files[names[0]] = buffer.getvalue()
    files["scale.json"] = json.dumps({"mm_per_px": {names[1]: 0.25}}).encode()
    job = server.bring_in(project, files)
    by_name = {p["filename"]: p for p in _pieces(server, project)}
    assert by_name[names[0]]["mm_per_px"] == pytest.approx(25.4 / 300, rel=1e-3)
    assert by_name[names[0]]["scale_origin"] == "dpi"
    assert by_name[names[1]]["mm_per_px"] == 0.25
    assert by_name[names[1]]["scale_origin"] == "sidecar"
    assert by_name[names[2]]["scale_origin"] == "assumed"
    (warning,) = job["result"]["warnings"]
    assert "2 pieces is unknown" in warning and "0.1357 mm a pixel is assumed" in warning


def test_the_scale_of_a_repair_puzzle_says_where_it_comes_from(server: Live) -> None:
    project, hypothesis = server.project()
    files = cut_outs(2)
    table = {"fragments": [{"filename": name} for name in files]}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        for name, data in {**files, "data.json": json.dumps(table).encode()}.items():
            zipped.writestr(name, data)
    job = server.bring_in(project, {"wall.zip": archive.getvalue()})
    assert {p["scale_origin"] for p in _pieces(server, project)} == {"repair"}
    (warning,) = job["result"]["warnings"]
    assert warning.startswith(
        "The scale of 2 pieces is told by no file. 0.1357 mm a pixel is taken"
    )
    assert "RePAIR" in warning and "set the scale" in warning
    path = f"/projects/{project}/hypotheses/{hypothesis}/exports"
    done = server.wait(server.post(path, {"formats": ["html"]})["job"])
    report = server.client.get(done["result"]["files"][0]["url"]).text
    assert "mm per pixel, that of the RePAIR project" in report


@pytest.mark.parametrize("kind", ["JPEG", "HEIF", "WEBP"])
def test_a_photograph_keeps_what_is_around_its_piece_for_repair(server: Live, kind: str) -> None:
    if kind == "HEIF":
        import pillow_heif

        pillow_heif.register_heif_opener()
    picture, (mask,) = _photograph()
    project, _ = server.project()
    suffix = {"JPEG": "jpg", "HEIF": "heic", "WEBP": "webp"}[kind]
    data = _encoded(picture, kind, quality=95)
    upload = server.send(project, {f"IMG_1.{suffix}": data})
    (seen,) = upload["files"]
    assert (seen["kind"], seen["several"]) == ("photograph", 1)
    assert (seen["width_px"], seen["height_px"]) == (picture.shape[1], picture.shape[0])
    preview = server.client.get(seen["preview"])
    assert Image.open(io.BytesIO(preview.content)).size == (picture.shape[1], picture.shape[0])
    started = server.post(
        f"/projects/{project}/imports", {"upload": upload["id"], "mm_per_px": 0.5}
    )
    server.wait(started["job"])
    (piece,) = _pieces(server, project)
    assert piece["area_mm2"] == pytest.approx(mask.sum() * 0.25, rel=0.03)
    # The origin is the photograph's centre, and the ground is there to paint back in.
    rows, columns = np.nonzero(mask)
    centre = [(columns.mean() + 0.5) - picture.shape[1] / 2, (rows.mean() + 0.5)]
    centre[1] -= picture.shape[0] / 2
    assert piece["centroid_mm"] == pytest.approx([c * 0.5 for c in centre], abs=1.0)
    photo = _shown(server, piece, "photo.png")[..., :3]
    assert np.abs(photo[0, 0].astype(int) - GROUND).max() < 25
    assert _shown(server, piece, "full.png")[0, 0, 3] == 0


def test_a_tray_is_cut_apart_at_the_scale_of_two_clicks(server: Live) -> None:
    picture, masks = _photograph(3, seed=2)
    project, _ = server.project()
    upload = server.send(project, {"tray.png": _encoded(picture, "PNG")})
    assert upload["files"][0]["several"] == 3
    ruler = {"x1_px": 10, "y1_px": 10, "x2_px": 10, "y2_px": 210, "length_mm": 50.0}
    request = {"upload": upload["id"], "mode": "auto", "rulers": [ruler]}
    job = server.wait(server.post(f"/projects/{project}/imports", request)["job"])
    pieces = _pieces(server, project)
    assert len(pieces) == 3 and job["result"]["warnings"] == []
    for piece, mask in zip(pieces, masks, strict=True):
        assert piece["mm_per_px"] == pytest.approx(0.25)
        assert piece["scale_origin"] == "ruler"
        assert piece["area_mm2"] == pytest.approx(mask.sum() * 0.0625, rel=0.03)
        assert "tray.png" in piece["provenance"]
    assert [p["name"] for p in pieces] == ["tray-001", "tray-002", "tray-003"]


def test_the_ruler_in_a_tray_is_no_piece(server: Live) -> None:
    picture, masks = _photograph(2, seed=2)
    below = np.full((90, picture.shape[1], 3), GROUND, np.uint8)
    cv2.rectangle(below, (60, 20), (360, 60), (230, 225, 200), -1)
    tray = _encoded(np.vstack([picture, below]), "PNG")
    height = picture.shape[0]
    ruler = {"x1_px": 70, "y1_px": height + 40, "x2_px": 350, "y2_px": height + 42}
    project, _ = server.project()
    job = server.bring_in(
        project, {"t.png": tray}, mode="tray", rulers=[{**ruler, "length_mm": 140.0}]
    )
    pieces = _pieces(server, project)
    assert len(pieces) == 2 and "left out" in job["result"]["warnings"][0]
    for piece, mask in zip(pieces, masks, strict=True):
        assert piece["area_mm2"] == pytest.approx(mask.sum() * 0.25, rel=0.03)
    # A length measured on a piece itself takes no piece away.
    rows, columns = np.nonzero(masks[0])
    across = {"x1_px": float(columns.min() + 4), "x2_px": float(columns.max() - 4)}
    across |= {"y1_px": float(rows.mean()), "y2_px": float(rows.mean()), "length_mm": 80.0}
    other, _ = server.project()
    server.bring_in(other, {"t.png": tray}, mode="tray", rulers=[across], refused=[])
    assert len(_pieces(server, other)) == 3


def test_what_looks_like_a_ruler_is_told_and_left_out_unless_wanted(server: Live) -> None:
    picture, masks = _photograph(1, seed=2)
    below = np.full((160, picture.shape[1] + 900, 3), GROUND, np.uint8)
    cv2.rectangle(below, (20, 20), (below.shape[1] - 30, 130), (230, 225, 200), -1)
    beside = np.full((picture.shape[0], 900, 3), GROUND, np.uint8)
    tray = _encoded(np.vstack([np.hstack([picture, beside]), below]), "PNG")
    project, _ = server.project()
    upload = server.send(project, {"t.png": tray})
    (seen,) = upload["files"]
    piece, ruler = seen["things"]
    assert piece["doubt"] is None and "ruler" in ruler["doubt"]
    assert seen["several"] == 1 and seen["tray"]
    assert masks[0][int(piece["y_px"]), int(piece["x_px"])]

    def taken(**settings: Any) -> list[dict[str, Any]]:
        into, _ = server.project()
        server.bring_in(into, {"t.png": tray}, mm_per_px=0.5, **settings)
        return _pieces(server, into)

    (only,) = taken()
    assert only["area_mm2"] == pytest.approx(masks[0].sum() * 0.25, rel=0.03)
    assert len(taken(refused=[])) == 2
    spot = {"file": 0, "x_px": piece["x_px"], "y_px": piece["y_px"]}
    (other,) = taken(refused=[spot])
    assert other["width_px"] > 3 * other["height_px"]


def test_pieces_of_a_zip_come_in_natural_order(server: Live) -> None:
    wanted = ["piece 1", "piece 2", "piece 10"]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in zip(reversed(wanted), cut_outs(3, seed=5).values(), strict=True):
            archive.writestr(f"{name}.png", data)
    project, _ = server.project()
    server.bring_in(project, {"box.zip": buffer.getvalue()}, mm_per_px=0.5)
    assert [piece["name"] for piece in _pieces(server, project)] == wanted


def test_a_tray_without_a_scale_asks_for_one(server: Live) -> None:
    picture, _ = _photograph(3, seed=2)
    project, _ = server.project()
    upload = server.send(project, {"tray.png": _encoded(picture, "PNG")})
    request = {"upload": upload["id"], "mode": "tray"}
    job = server.wait(server.post(f"/projects/{project}/imports", request)["job"], "failed")
    assert "scale is unknown" in job["error"]["what"]
    assert "ruler" in job["error"]["remedy"]


def test_rulers_that_disagree_tell_of_perspective(server: Live) -> None:
    picture, _ = _photograph(2, seed=3)
    project, _ = server.project()
    upload = server.send(project, {"tray.png": _encoded(picture, "PNG")})
    rulers = [
        {"x1_px": 0, "y1_px": 0, "x2_px": length, "y2_px": 0, "length_mm": 50.0}
        for length in (200, 210)
    ]
    request = {"upload": upload["id"], "rulers": rulers}
    job = server.wait(server.post(f"/projects/{project}/imports", request)["job"])
    assert any("at an angle" in warning for warning in job["result"]["warnings"])
    for piece in _pieces(server, project):
        (doubt,) = piece["warnings"]
        assert doubt.startswith("the rulers disagree by 5.0%")
    same = [{**rulers[0], "x2_px": 3, "x1_px": 2}]
    upload = server.send(project, {"tray.png": _encoded(picture, "PNG")})
    request = {"upload": upload["id"], "rulers": same}
    job = server.wait(server.post(f"/projects/{project}/imports", request)["job"], "failed")
    assert "too near" in job["error"]["what"]


def _on_sheet(pieces: int, tilted: bool, table: tuple[int, int, int]) -> Any:
    """Pieces on a sheet with a visible edge, on a table, (H, W, 3), and their masks."""
    seen, masks = _photograph(pieces, seed=4, ground=PAPER)
    height, width = seen.shape[:2]
    shift = 35.0 if tilted else 0.0
    corners = [(40 + shift, 40), (width + 200 - shift, 40), (width + 200, height + 200)]
    sheet = np.array([*corners, (40, height + 200)], np.int32)
    picture = np.full((height + 240, width + 240, 3), table, np.uint8)
    cv2.fillConvexPoly(picture, sheet, PAPER, cv2.LINE_AA)
    cv2.polylines(picture, [sheet.reshape(-1, 1, 2)], True, (150, 150, 150), 3, cv2.LINE_AA)
    picture[120 : 120 + height, 120 : 120 + width] = seen
    return picture, masks


@pytest.mark.parametrize("table", [PAPER, (70, 58, 48)], ids=["same", "dark"])
@pytest.mark.parametrize("tilted", [False, True])
@pytest.mark.parametrize("mode", ["tray", "pieces"])
def test_a_sheet_seen_at_an_angle_is_noticed(
    server: Live, mode: str, tilted: bool, table: tuple[int, int, int]
) -> None:
    picture, masks = _on_sheet(2 if mode == "tray" else 1, tilted, table)
    project, _ = server.project()
    files = {"tray.png": _encoded(picture, "PNG")}
    job = server.bring_in(project, files, mode=mode, mm_per_px=0.5)
    pieces = _pieces(server, project)
    assert len(pieces) == len(masks)
    for piece, mask in zip(pieces, masks, strict=True):
        assert piece["area_mm2"] == pytest.approx(mask.sum() * 0.25, rel=0.03)
        assert any("at an angle" in doubt for doubt in piece["warnings"]) == tilted
    if mode == "tray":
        assert any("at an angle" in words for words in job["result"]["warnings"]) == tilted


def test_pieces_on_a_sheet_on_a_table_are_counted_and_a_bare_sheet_is_doubted(server: Live) -> None:
    picture, _ = _on_sheet(3, False, (70, 58, 48))
    project, _ = server.project()
    (seen,) = server.send(project, {"tray.png": _encoded(picture, "PNG")})["files"]
    assert seen["several"] == 3 and seen["tray"]
    bare = np.full((500, 700, 3), (70, 58, 48), np.uint8)
    # Its sides run together, but are its own: they tell nothing of the camera.
    corners = np.array([(90, 60), (610, 60), (640, 440), (60, 440)], np.int32)
    cv2.fillConvexPoly(bare, corners, PAPER, cv2.LINE_AA)
    server.bring_in(project, {"bare.png": _encoded(bare, "PNG")}, mode="pieces", mm_per_px=0.5)
    (piece,) = _pieces(server, project)
    (doubt,) = piece["warnings"]
    assert "four straight sides" in doubt


def test_a_zip_and_a_folder_of_folders_come_in_whole(server: Live) -> None:
    project, _ = server.project()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in cut_outs(3, seed=5).items():
            archive.writestr(f"tray A/{name}", data)
    files = {"trays.zip": buffer.getvalue()}
    for name, data in cut_outs(2, seed=6).items():
        files[f"box/drawer 1/{name}"] = data
        files[f"box/drawer 2/{name}"] = data
    server.bring_in(project, files, mm_per_px=0.5)
    (unknown,) = server.bring_in(project, {"t.zip": files["trays.zip"]})["result"]["warnings"]
    assert "3 pieces is unknown" in unknown and "--" not in unknown
    names = sorted(piece["name"] for piece in _pieces(server, project)[:7])
    assert names == sorted(
        ["fragment_0", "fragment_1", "fragment_2"] + 2 * ["fragment_0", "fragment_1"]
    )


def test_what_cannot_be_read_is_named_and_the_rest_comes_in(server: Live) -> None:
    project, _ = server.project()
    files = cut_outs(2) | {"broken.png": b"\x89PNG\r\n\x1a\nnothing", "notes.txt": b"hello"}
    files |= {".DS_Store": b"x"}
    upload = server.send(project, files)
    errors = {f["name"]: f["error"] for f in upload["files"]}
    assert errors["broken.png"] and errors["notes.txt"] and ".DS_Store" not in errors
    started = server.post(
        f"/projects/{project}/imports", {"upload": upload["id"], "mm_per_px": 0.5}
    )
    assert len(server.wait(started["job"])["result"]["pieces"]) == 2
    only = server.send(project, {"broken.png": files["broken.png"]})
    started = server.post(f"/projects/{project}/imports", {"upload": only["id"]})
    job = server.wait(started["job"], "failed")
    assert job["error"]["remedy"]


def _refusal(server: Live, files: dict[str, bytes]) -> dict[str, str]:
    """What is said of files in which there is no piece."""
    project, _ = server.project()
    upload = server.send(project, files)
    assert not any(file["error"] for file in upload["files"])
    request = {"upload": upload["id"], "mm_per_px": 0.5}
    job = server.wait(server.post(f"/projects/{project}/imports", request)["job"], "failed")
    error: dict[str, str] = job["error"]
    return error


def test_where_nothing_can_be_read_the_reason_of_each_file_is_told(server: Live) -> None:
    clear = _encoded(np.zeros((60, 60, 4), np.uint8), "PNG")
    dot = _encoded(np.zeros((1, 1, 3), np.uint8), "PNG")
    grey = _encoded(np.full((200, 200, 3), 128, np.uint8), "JPEG")
    begin, plain = "no piece could be read: ", "no piece stands out from its ground"
    told = _refusal(server, {"clear.png": clear})
    assert told["what"] == f"{begin}clear.png: this picture is fully transparent"
    assert told["remedy"] == "Export the fragment with its colours"
    assert "dot.png: there is no plain ground" in _refusal(server, {"dot.png": dot})["what"]
    assert _refusal(server, {"No. 1.jpg": grey})["what"] == f"{begin}No. 1.jpg: {plain}"
    told = _refusal(server, {"a.png": clear, "No. 1.jpg": grey})
    assert "a.png: this picture is fully transparent" in told["what"]
    assert f"No. 1.jpg: {plain}" in told["what"] and told["remedy"] not in told["what"]
    told = _refusal(server, {f"{k}.png": clear for k in range(14)})
    assert told["what"].count("fully transparent") == 3 and "; and 11 more" in told["what"]
    assert told["remedy"] == "Export the fragment with its colours"


def test_a_piece_with_a_second_part_says_so_in_the_pages_words(server: Live) -> None:
    rgba = np.zeros((200, 300, 4), np.uint8)
    cv2.circle(rgba, (90, 100), 70, (90, 120, 200, 255), -1)
    cv2.circle(rgba, (240, 100), 40, (90, 120, 200, 255), -1)
    project, _ = server.project()
    server.bring_in(project, {"two.png": _encoded(rgba, "PNG")}, mm_per_px=0.5)
    (piece,) = _pieces(server, project)
    assert "as a tray" in piece["warnings"][0] and "reassembly" not in piece["warnings"][0]


def test_files_can_be_chosen_and_an_upload_belongs_to_its_project(server: Live) -> None:
    project, _ = server.project()
    other, _ = server.project()
    upload = server.send(project, cut_outs(3))
    request = {"upload": upload["id"], "mm_per_px": 0.5, "files": [1]}
    assert server.client.post(f"/api/projects/{other}/imports", json=request).status_code == 404
    server.wait(server.post(f"/projects/{project}/imports", request)["job"])
    assert [p["name"] for p in _pieces(server, project)] == ["fragment_1"]


def test_a_reference_picture_can_lie_underneath(server: Live) -> None:
    project, hypothesis = server.project()
    picture, _ = _photograph(1)
    response = server.client.post(
        f"/api/projects/{project}/references",
        files={"file": ("plan.png", _encoded(picture, "PNG", dpi=(254, 254)))},
    )
    result = server.wait(response.json()["job"])["result"]
    assert result["mm_per_px"] == pytest.approx(0.1, rel=1e-3)
    under = {"picture": result["picture"], "mm_per_px": 0.1, "x_mm": 5, "opacity": 0.4}
    server.edit(project, hypothesis, {"op": "reference", "reference": under})
    state = server.get(f"/projects/{project}/hypotheses/{hypothesis}")["state"]
    assert state["reference"]["picture"] == result["picture"]
    unknown = {**under, "picture": "0" * 64}
    body = {"operations": [{"op": "reference", "reference": unknown}]}
    answer = server.client.post(f"/api/projects/{project}/hypotheses/{hypothesis}/edits", json=body)
    assert answer.status_code == 422


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/b/c.png", "a/b/c.png"),
        ("../../c.png", "c.png"),
        ("C:\\x\\c.png", "C_/x/c.png"),
        ("nul.png", "_nul.png"),
        ("a:b?.png", "a_b_.png"),
        (f"{'long' * 20}/{'name' * 15}/{'x' * 300}.png", f"{'name' * 15}/{'x' * 20}.png"),
        (".hidden/c.png", None),
        ("", None),
        ("..", None),
    ],
)
def test_names_are_made_safe(name: str, expected: str | None) -> None:
    found = safe_relative_path(name)
    assert (None if found is None else found.as_posix()) == expected
    assert found is None or (not found.is_absolute() and ".." not in found.parts)
    assert found is None or isinstance(found, Path)
