"""Puzzles of every layout, and what becomes of those that are none."""

import io
import json
import math
import warnings
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.puzzles import drawn_puzzle

from reassembly.errors import InputError, InputWarning
from reassembly.io import cut_out, find_puzzles, load
from reassembly.pose import Pose, to_repair

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "repair"


@pytest.fixture(scope="module")
def puzzle():
    return drawn_puzzle(pieces=3, seed=4, size_px=160)


def rgba(fragment):
    return np.dstack([fragment.image, fragment.mask * np.uint8(255)])


def png(fragment, **options):
    file = io.BytesIO()
    Image.fromarray(rgba(fragment)).save(file, "PNG", **options)
    return file.getvalue()


def write(folder, puzzle, **extra):
    """A puzzle in RePAIR's second layout."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for fragment in puzzle.fragments:
        (folder / f"{fragment.id}.png").write_bytes(png(fragment))
        x, y, rot = to_repair(puzzle.truth[fragment.id], fragment.frame_px, 0.5)
        entries.append(
            {"filename": f"{fragment.id}.png", "pixel_position": [x, y], "rotation": rot}
        )
    document = {"original_id": puzzle.id, "mm_per_px": 0.5, "fragments": entries, **extra}
    (folder / "data.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def quietly(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        return load(path, **options)


def same_pieces(a, b):
    assert sorted(a.ids) == sorted(b.ids)
    for i in a.ids:
        assert a[i].polygon.symmetric_difference(b[i].polygon).area < 1e-6
        crop, other = a[i].cropped(), b[i].cropped()
        np.testing.assert_array_equal(crop.image[crop.mask], other.image[other.mask])


def test_a_puzzle_comes_back_as_it_was_written(puzzle, tmp_path):
    read = load(write(tmp_path / "any name", puzzle))
    same_pieces(read, puzzle)
    assert read.id == puzzle.id and read.metadata["scale"] == "data.json"
    for i, pose in puzzle.truth.items():
        drift = pose.inverse() @ read.truth[i]
        assert math.hypot(drift.x_mm, drift.y_mm) < 1e-6 and abs(drift.rotation_rad) < 1e-9


def test_the_same_from_a_file_a_folder_above_and_a_zip(puzzle, tmp_path):
    folder = write(tmp_path / "deep" / "er" / "p", puzzle)
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"inner/{file.name}")
        archive.writestr("__MACOSX/inner/._fragment_0.png", b"rubbish")
        archive.writestr("inner/.DS_Store", b"rubbish")
    for path in (folder / "data.json", tmp_path / "deep", tmp_path / "p.zip"):
        read = load(path)
        same_pieces(read, puzzle)
        assert set(read.truth) == set(puzzle.truth)


def test_fragments_hold_no_more_than_they_show(puzzle, tmp_path):
    big = np.zeros((1500, 1500, 4), np.uint8)
    big[700:760, 900:1000] = 255
    (tmp_path / "a.png").write_bytes(cv2.imencode(".png", big)[1].tobytes())
    (fragment,) = quietly(tmp_path).fragments
    assert fragment.frame_px == (1500, 1500)
    assert fragment.mask.size < 70 * 110
    assert fragment.centroid_mm == pytest.approx(np.array([200, -20]) * 0.1357, abs=1e-3)


def test_plain_cut_outs_have_no_truth_and_may_be_zipped(puzzle, tmp_path):
    with zipfile.ZipFile(tmp_path / "my pieces.zip", "w") as archive:
        for fragment in puzzle.fragments:
            archive.writestr(f"{fragment.id}.png", png(fragment))
    read = load(tmp_path / "my pieces.zip", mm_per_px=0.5)
    same_pieces(read, puzzle)
    assert read.truth is None and read.id == "my pieces"


@pytest.mark.parametrize("ext", [".png", ".tif", ".webp", ".jpg", ".heic"])
def test_every_format_cut_out_or_on_a_ground(puzzle, tmp_path, ext):
    """Formats without transparency hold a photograph on a green cloth."""
    import pillow_heif

    pillow_heif.register_heif_opener()
    fragment = max(puzzle.fragments, key=lambda f: f.area_mm2)
    picture = Image.fromarray(rgba(fragment))
    if ext in (".jpg", ".heic"):
        ground = Image.new("RGB", picture.size, (60, 120, 70))
        ground.paste(picture, mask=picture.getchannel("A"))
        picture = ground.resize((picture.width * 3, picture.height * 3), Image.Resampling.BICUBIC)
    options = {"lossless": True} if ext == ".webp" else {"quality": 95} if ext != ".png" else {}
    picture.save(tmp_path / f"piece{ext}", **options)
    (read,) = quietly(tmp_path, mm_per_px=0.5).fragments
    factor = 9 if ext in (".jpg", ".heic") else 1
    assert read.mask.sum() / factor == pytest.approx(fragment.mask.sum(), rel=0.03)
    shown, wanted = read.image[read.mask].mean(axis=0), fragment.image[fragment.mask].mean(axis=0)
    np.testing.assert_allclose(shown, wanted, atol=4)


def test_sixteen_bits(puzzle, tmp_path):
    fragment = puzzle.fragments[0]
    deep = rgba(fragment).astype(np.uint16) * 257
    bgra = cv2.cvtColor(deep, cv2.COLOR_RGBA2BGRA)
    for name in ("a.png", "b.tif"):
        (tmp_path / name).write_bytes(cv2.imencode(Path(name).suffix, bgra)[1].tobytes())
    for read in quietly(tmp_path).fragments:
        np.testing.assert_array_equal(read.cropped().mask, fragment.cropped().mask)
        crop = fragment.cropped()
        np.testing.assert_array_equal(read.image[read.mask], crop.image[crop.mask])


def test_pictures_are_turned_as_the_camera_noted(puzzle, tmp_path):
    fragment = puzzle.fragments[0]
    exif = Image.Exif()
    exif[0x0112] = 6  # The camera was held on its side: turn by a quarter to show it upright.
    sideways = Image.fromarray(rgba(fragment)).rotate(90, expand=True)
    sideways.save(tmp_path / "a.png", exif=exif.tobytes())
    (read,) = quietly(tmp_path).fragments
    np.testing.assert_array_equal(read.mask, fragment.cropped().mask)


def test_scale_in_the_promised_order(puzzle, tmp_path):
    fragment = puzzle.fragments[0]
    (tmp_path / "a.png").write_bytes(png(fragment, dpi=(254, 254)))

    def scale(**options):
        read = quietly(tmp_path, **options)
        return read.fragments[0].mm_per_px, read.metadata["scale"]

    assert scale() == (pytest.approx(0.1, rel=1e-3), "dpi")
    (tmp_path / "scale.json").write_text('{"mm_per_px": 0.2}')
    assert scale() == (0.2, "sidecar")
    (tmp_path / "scale.json").write_text('{"mm_per_px": {"a.png": 0.3}}')
    assert scale() == (0.3, "sidecar")
    (tmp_path / "a.png.json").write_text('{"mm_per_px": 0.4}')
    assert scale() == (0.4, "sidecar")
    assert scale(mm_per_px=0.5) == (0.5, "option")


@pytest.mark.parametrize("dpi", [None, 72, 96])
def test_an_unknown_scale_is_guessed_aloud(puzzle, tmp_path, dpi):
    options = {"dpi": (dpi, dpi)} if dpi else {}
    (tmp_path / "a.png").write_bytes(png(puzzle.fragments[0], **options))
    with pytest.warns(InputWarning, match="scale is unknown.*--mm-per-px"):
        read = load(tmp_path)
    assert read.metadata["scale"] == "assumed"


@pytest.mark.parametrize("bad", ["0", "-1", "NaN", '"a"', "1000", "true", "null"])
def test_impossible_scales_are_named(puzzle, tmp_path, bad):
    (tmp_path / "a.png").write_bytes(png(puzzle.fragments[0]))
    (tmp_path / "scale.json").write_text(f'{{"mm_per_px": {bad}}}')
    with pytest.raises(InputError, match=r"scale\.json: `mm_per_px` is"):
        load(tmp_path)


def test_strays_have_no_pose(puzzle, tmp_path):
    folder = write(tmp_path / "p", puzzle)
    document = json.loads((folder / "data.json").read_text())
    name = document["fragments"][1]["filename"]
    document["fragments"][1] = {"filename": name, "stray": True}
    (folder / "data.json").write_text(json.dumps(document))
    read = load(folder)
    assert read.strays == {Path(name).stem}
    assert set(read.truth) == set(read.ids) - read.strays


def test_every_puzzle_is_found_with_an_id_of_its_own(puzzle, tmp_path):
    write(tmp_path / "train" / "a", puzzle)
    write(tmp_path / "test" / "b", puzzle)
    write(tmp_path / "test" / "c", puzzle, original_id="other")
    (tmp_path / ".hidden").mkdir()
    write(tmp_path / ".hidden" / "d", puzzle)
    found = {source.id: source for source in find_puzzles(tmp_path)}
    assert set(found) == {"train/a", "test/b", "other"}
    assert found["train/a"].split == "train" and found["other"].split == "test"
    assert all(set(source.load().truth) == set(puzzle.ids) for source in found.values())
    with pytest.raises(InputError, match="3 puzzles"):
        load(tmp_path)


def test_the_first_layout_of_repair(puzzle, tmp_path):
    images = tmp_path / "2D_Images" / "assembled_objects" / "obj"
    write(images, puzzle)
    (images / "data.json").unlink()
    lines = ["rpf,x,y,rot"]
    for i, pose in puzzle.truth.items():
        x, y, rot = to_repair(pose, puzzle[i].frame_px, 0.5)
        lines.append(f"{i}.png,{x!r},{y!r},{rot!r}")
    table = tmp_path / "2D_Ground_Truth" / "obj.txt"
    table.parent.mkdir()
    table.write_text("\n".join(lines), encoding="utf-8")
    for path in (tmp_path, table, images):
        read = load(path, mm_per_px=0.5)
        same_pieces(read, puzzle)
        for i, pose in puzzle.truth.items():
            assert read.truth[i].x_mm == pytest.approx(pose.x_mm, abs=1e-6)
    assert load(tmp_path).mm_per_px == 0.1357


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fragments": None}, "no list `fragments`"),
        ({"fragments": []}, "empty"),
        (
            {"fragments": [{"pixel_position": [0, 0], "rotation": 0}]},
            "fragment 1 has no `filename`",
        ),
        ({"fragments": [{"filename": "../x.png"}]}, "leads out of the folder"),
        ({"fragments": [{"filename": "/x.png"}]}, "leads out of the folder"),
        ({"fragments": [{"filename": "C:\\x.png"}]}, "leads out of the folder"),
        ({"fragments": [{"filename": "a.png", "pixel_position": [0], "rotation": 0}]}, "no pair"),
        ({"fragments": [{"filename": "a.png", "pixel_position": [0, 0]}]}, "no usable number"),
        (
            {"fragments": [{"filename": "a.png", "pixel_position": [0, 0], "rotation": math.nan}]},
            "no usable number",
        ),
        ({"mm_per_px": -1}, "`mm_per_px` is -1"),
    ],
)
def test_a_wrong_data_json_is_named_with_its_key(puzzle, tmp_path, change, said):
    folder = write(tmp_path / "p", puzzle, **change)
    with pytest.raises(InputError, match=said) as caught:
        load(folder)
    assert "data.json" in str(caught.value)


def test_a_data_json_that_is_no_json(tmp_path):
    (tmp_path / "data.json").write_text("{")
    with pytest.raises(InputError, match=r"data\.json: this is no valid JSON"):
        load(tmp_path)


def test_a_missing_picture_is_left_out_with_its_pose(puzzle, tmp_path):
    folder = write(tmp_path / "p", puzzle)
    (folder / "fragment_1.png").unlink()
    with pytest.warns(InputWarning, match=r"fragment_1\.png: this picture is missing"):
        read = load(folder)
    assert set(read.truth) == set(read.ids) == {"fragment_0", "fragment_2"}
    with pytest.raises(InputError, match="fragment_1"):
        load(folder, strict=True)


def test_two_parts_in_one_picture_are_doubted(puzzle, tmp_path):
    both = np.zeros((100, 200, 4), np.uint8)
    both[10:90, 10:90] = 255
    both[10:60, 110:160] = 255
    (tmp_path / "a.png").write_bytes(cv2.imencode(".png", both)[1].tobytes())
    with pytest.warns(InputWarning, match="several separate parts"):
        read = load(tmp_path, mm_per_px=1.0)
    assert read.fragments[0].area_mm2 == pytest.approx(6400, rel=1e-3)


def test_files_that_are_no_pictures_are_passed_over(puzzle, tmp_path, recwarn):
    for fragment in puzzle.fragments:
        (tmp_path / f"{fragment.id}.png").write_bytes(png(fragment))
    for name in ("notes.txt", "Thumbs.db", ".DS_Store", "list.csv"):
        (tmp_path / name).write_text("x")
    assert len(load(tmp_path, mm_per_px=1.0)) == 3
    assert not [w for w in recwarn if issubclass(w.category, InputWarning)]


def test_one_picture_is_no_puzzle(puzzle, tmp_path):
    (tmp_path / "a.png").write_bytes(png(puzzle.fragments[0]))
    with pytest.raises(InputError, match="reassembly cutout"):
        load(tmp_path / "a.png")


OUTWARD = st.one_of(
    st.lists(st.sampled_from(["a", "..", "b.png"]), min_size=1, max_size=4)
    .filter(lambda parts: ".." in parts)
    .map("/".join),
    st.sampled_from(
        ["/a.png", "\\a.png", "C:/a.png", "c:\\x\\a.png", "..\\a.png", "a\\..\\..\\b.png"]
    ),
)


@given(OUTWARD)
def test_no_zip_leads_outside(tmp_path_factory, name):
    path = tmp_path_factory.mktemp("zip") / "z.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), b"x")
    with pytest.raises(InputError, match=r"z\.zip: .*leads out of it"):
        load(path)


def test_an_encrypted_or_broken_member(puzzle, tmp_path):
    path = tmp_path / "z.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.png", png(puzzle.fragments[0]))
    data = bytearray(path.read_bytes())
    at = data.find(b"PK\1\2")
    encrypted = data.copy()
    encrypted[at + 8] |= 1
    path.write_bytes(encrypted)
    with pytest.raises(InputError, match="encrypted"):
        load(path)
    broken = data.copy()
    broken[60] ^= 0xFF
    path.write_bytes(broken)
    with pytest.raises(InputError, match=r"z\.zip"):
        load(path)


def test_a_tray_is_cut_into_pieces_of_the_right_size(tmp_path):
    tray = np.full((700, 1000, 3), (230, 228, 225), np.uint8)
    cv2.ellipse(tray, (200, 200), (90, 60), 30, 0, 360, (150, 60, 50), -1, cv2.LINE_AA)
    cv2.rectangle(tray, (450, 100), (650, 250), (90, 70, 40), -1)
    cv2.rectangle(tray, (500, 150), (550, 190), (230, 228, 225), -1)
    cv2.circle(tray, (300, 500), 110, (60, 90, 120), -1, cv2.LINE_AA)
    noise = np.random.default_rng(0).normal(0, 2, tray.shape)
    photo = tmp_path / "tray.png"
    Image.fromarray(np.clip(tray + noise, 0, 255).astype(np.uint8)).save(photo, dpi=(254, 254))
    pieces = cut_out(photo, tmp_path / "out")
    areas = [fragment.area_mm2 for fragment in pieces.fragments]
    wanted = [math.pi * 90 * 60, 201 * 151 - 51 * 41, math.pi * 110**2]
    assert areas == pytest.approx([a * 0.01 for a in wanted], rel=0.02)
    assert len(pieces.fragments[1].polygon.interiors) == 1
    assert load(tmp_path / "out").metadata["scale"] == "sidecar"
    with pytest.raises(InputError, match="--force"):
        cut_out(photo, tmp_path / "out")
    Image.fromarray(tray).save(photo)
    with pytest.raises(InputError, match="--mm-per-px"):
        cut_out(photo, tmp_path / "other")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the RePAIR puzzles are not beside the project")
def test_real_puzzles_fit_together_by_their_true_poses():
    """Counter-clockwise about the centre: the true poses overlap little, the mirrored ones much."""
    sources = find_puzzles(SHARED)
    assert len(sources) == 23
    covered, mirrored, pieces = [], [], 0
    for source in sources:
        puzzle = source.load()
        pieces += len(puzzle)

        def share(poses, puzzle=puzzle):
            placed = [puzzle[i].placed(pose) for i, pose in poses.items()]
            return shapely.union_all(placed).area / sum(p.area for p in placed)

        wrong = {i: Pose(p.x_mm, p.y_mm, -p.rotation_rad) for i, p in puzzle.truth.items()}
        covered.append(share(puzzle.truth))
        mirrored.append(share(wrong))
    assert pieces == 149
    assert min(covered) > 0.97
    assert np.mean(mirrored) < np.mean(covered) - 0.03
