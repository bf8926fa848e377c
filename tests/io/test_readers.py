"""Puzzles of every layout, and what becomes of those that are none."""

import io
import json
import math
import stat
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest
import shapely
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image

from reassembly.errors import InputError, InputWarning
from reassembly.io import cut_out, find_puzzles, load
from reassembly.pose import Pose, to_repair
from tests.puzzles import drawn_puzzle

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


def zipped(path, members, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def link(name):
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


def test_links_in_a_zip_are_refused(puzzle, tmp_path):
    members = [("a.png", png(puzzle.fragments[0])), (link("b.png"), b"/etc/passwd")]
    with pytest.raises(InputError, match=r"z\.zip: it holds a link"):
        load(zipped(tmp_path / "z.zip", members))


def test_a_zip_bomb_is_refused_before_it_is_unpacked(puzzle, tmp_path):
    path = tmp_path / "z.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", png(puzzle.fragments[0]))
        with archive.open("b.png", "w") as file:
            for _ in range(100):
                file.write(bytes(1 << 20))
    tracemalloc.start()
    with pytest.raises(InputError, match="trap"):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


def test_a_zip_entry_larger_than_announced_is_not_unpacked(puzzle, tmp_path):
    path = zipped(
        tmp_path / "z.zip",
        [("a.png", png(puzzle.fragments[0])), ("b.png", bytes(90 << 20))],
        compression=zipfile.ZIP_DEFLATED,
    )
    data = bytearray(path.read_bytes())
    at = data.rfind(b"PK\1\2")
    data[at + 24 : at + 28] = (1000).to_bytes(4, "little")
    path.write_bytes(data)
    tracemalloc.start()
    with pytest.warns(InputWarning, match=r"b\.png"):
        assert load(path, mm_per_px=1.0).ids == ("a",)
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


def test_a_zip_with_one_name_twice(puzzle, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        path = zipped(tmp_path / "z.zip", [("a.png", b"x"), ("a.png", b"y")])
    with pytest.raises(InputError, match=r"'a\.png' twice"):
        load(path)


def test_a_zip_that_is_none(tmp_path):
    (tmp_path / "z.zip").write_text("no zip")
    with pytest.raises(InputError, match=r"z\.zip: this zip file is damaged or none"):
        load(tmp_path / "z.zip")


SAFE = st.text(
    st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters='/\\:*?"<>|.'),
    min_size=1,
    max_size=12,
)


@settings(max_examples=30, deadline=None)
@given(folder=SAFE, names=st.sets(SAFE, min_size=1, max_size=3))
def test_any_other_name_in_a_zip_works(tmp_path_factory, puzzle, folder, names):
    assume(folder != "__MACOSX")
    path = tmp_path_factory.mktemp("zip") / "z.zip"
    zipped(path, [(f"{folder}/{name}.png", png(puzzle.fragments[0])) for name in names])
    assert set(load(path, mm_per_px=1.0).ids) == names


def test_several_puzzles_in_one_zip(puzzle, tmp_path):
    for name in ("a", "b"):
        write(tmp_path / "all" / name, puzzle, original_id=f"puzzle {name}")
    members = [
        (file.relative_to(tmp_path).as_posix(), file.read_bytes())
        for file in sorted((tmp_path / "all").rglob("*.*"))
    ]
    path = zipped(tmp_path / "z.zip", [*members, ("all/other_data.json", b"{}")])
    found = find_puzzles(path)
    assert [source.id for source in found] == ["puzzle a", "puzzle b"]
    same_pieces(found[1].load(), puzzle)
    with pytest.raises(InputError, match="2 puzzles"):
        load(path)


def test_another_programs_data_json_is_passed_over(puzzle, tmp_path):
    write(tmp_path / "set" / "p", puzzle)
    (tmp_path / "set" / "data.json").write_text('{"license": "free"}')
    (tmp_path / "set" / "tools").mkdir()
    (tmp_path / "set" / "tools" / "data.json").write_text("[1, 2]")
    same_pieces(load(tmp_path / "set"), puzzle)
    (tmp_path / "set" / "p" / "data.json").write_text('{"license": "free"}')
    with pytest.raises(InputError, match="no list `fragments`"):
        load(tmp_path / "set" / "p")


@pytest.mark.parametrize("name", ["../../evil", "a/b", "C:x", "..", " ", "", 7, None, "a\nb"])
def test_a_name_unfit_for_files_is_replaced_by_the_folders(puzzle, tmp_path, name):
    folder = write(tmp_path / "fine", puzzle, original_id=name)
    assert load(folder).id == "fine"
    assert [source.id for source in find_puzzles(folder)] == ["fine"]


def test_ids_differ_in_more_than_case(puzzle, tmp_path):
    write(tmp_path / "one", puzzle, original_id="Fresco")
    write(tmp_path / "two", puzzle, original_id="fresco")
    assert [source.id for source in find_puzzles(tmp_path)] == ["one", "two"]


def test_pictures_in_folders_of_their_own(puzzle, tmp_path):
    folder = write(tmp_path / "p", puzzle)
    document = json.loads((folder / "data.json").read_text())
    (folder / "images").mkdir()
    for entry in document["fragments"]:
        (folder / entry["filename"]).rename(folder / "images" / entry["filename"])
        entry["filename"] = f"images/{entry['filename']}"
    (folder / "data.json").write_text(json.dumps(document))
    same_pieces(load(folder), puzzle)
    (folder / "data.json").unlink()
    same_pieces(load(tmp_path, mm_per_px=0.5), puzzle)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "z.png").write_bytes(png(puzzle.fragments[0]))
    with pytest.raises(InputError, match=r"several of its folders \(more, p/images"):
        load(tmp_path)


def test_a_sidecar_scales_a_puzzle_with_poses(puzzle, tmp_path):
    folder = write(tmp_path / "p", puzzle, mm_per_px=None)
    assert load(folder).metadata["scale"] == "repair"
    (folder / "scale.json").write_text('{"mm_per_px": 0.5}')
    read = load(folder)
    assert read.metadata["scale"] == "sidecar"
    assert read.truth["fragment_0"].x_mm == pytest.approx(puzzle.truth["fragment_0"].x_mm)


def test_links_that_lead_back_up_end(puzzle, tmp_path):
    folder = write(tmp_path / "p", puzzle)
    try:
        (folder / "up").symlink_to(tmp_path, target_is_directory=True)
    except OSError:
        pytest.skip("no links on this system")
    assert len(find_puzzles(tmp_path)) == 1


def folder_of(tmp_path, **files):
    for name, data in files.items():
        (tmp_path / f"{name}.png").write_bytes(data)
    return tmp_path


def painted(rgba_image):
    return cv2.imencode(".png", rgba_image)[1].tobytes()


TRANSPARENT = painted(np.zeros((50, 50, 4), np.uint8))
DOTS = np.zeros((60, 60, 4), np.uint8)
DOTS[::8, ::8] = 255
NOISE = np.random.default_rng(0).integers(0, 255, (80, 80, 3), dtype=np.uint8)
BAD = {
    "empty": (b"", "empty"),
    "text": (b"some notes", "text"),
    "transparent": (TRANSPARENT, "fully transparent"),
    "specks": (painted(DOTS), "only specks"),
    "opaque": (painted(NOISE), "no plain ground"),
    "opaque with alpha": (painted(np.dstack([NOISE, np.full((80, 80), 255)])), "no plain ground"),
}


@pytest.mark.parametrize("name", BAD)
def test_one_bad_picture_is_named_and_the_rest_goes_on(puzzle, tmp_path, name):
    data, said = BAD[name]
    good = png(puzzle.fragments[0])
    folder = folder_of(tmp_path, **{name: data, "good": good, "too": good, "cut": good[:-300]})
    with pytest.warns(InputWarning) as caught:
        assert load(folder, mm_per_px=1.0).ids == ("good", "too")
    texts = [str(w.message) for w in caught]
    assert sum(f"{name}.png: " in text and said in text for text in texts) == 1
    assert sum("cut.png: " in text and "cut short" in text for text in texts) == 1
    with pytest.raises(InputError, match=r"\.png"):
        load(folder, mm_per_px=1.0, strict=True)


def test_nothing_but_bad_pictures(tmp_path):
    with pytest.raises(InputError, match=r"a\.png: this picture is fully transparent"):
        load(folder_of(tmp_path, a=TRANSPARENT))
    more = folder_of(tmp_path, a=TRANSPARENT, b=b"some text\n", c=TRANSPARENT)
    with (
        pytest.warns(InputWarning) as caught,
        pytest.raises(InputError, match=r"a\.png: this picture is fully transparent"),
    ):
        load(more)
    assert [str(w.message).partition(": ")[0][-5:] for w in caught] == ["b.png", "c.png"]


def test_no_such_path_and_nothing_in_it(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        load(tmp_path / "missing")
    with pytest.raises(InputError, match="no picture in it"):
        load(tmp_path)
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(InputError, match="no puzzle"):
        load(tmp_path / "notes.md")
    with pytest.raises(InputError, match="no picture in it"):
        load(zipped(tmp_path / "z.zip", [("notes.txt", b"x")]))


def test_the_same_name_with_two_endings(puzzle, tmp_path):
    folder = folder_of(tmp_path, a=png(puzzle.fragments[0]))
    (folder / "a.jpg").write_bytes(b"")
    with pytest.raises(InputError, match=r"same name: a\.jpg, a\.png"):
        load(folder)


def test_names_in_any_script(puzzle, tmp_path):
    names = ["Stück 1", "θραύσμα", "片 二", "a.b.c", "100%"]
    folder = tmp_path / "Größe ö"
    folder.mkdir()
    folder_of(folder, **{name: png(puzzle.fragments[0]) for name in names})
    read = load(folder, mm_per_px=1.0)
    assert set(read.ids) == set(names) and read.id == "Größe ö"
    assert {f.metadata["filename"] for f in read.fragments} == {f"{name}.png" for name in names}


def test_colours_under_the_transparency_do_not_come_along(puzzle, tmp_path):
    secret = rgba(puzzle.fragments[0])
    secret[secret[..., 3] == 0, :3] = 77
    (read,) = load(folder_of(tmp_path, a=painted(secret)), mm_per_px=1.0).fragments
    assert not read.image[~read.mask].any()


def test_a_photograph_of_two_pieces_is_doubted(tmp_path):
    photo = np.full((300, 500, 3), 235, np.uint8)
    cv2.circle(photo, (120, 150), 80, (60, 40, 140), -1, cv2.LINE_AA)
    cv2.circle(photo, (380, 150), 50, (60, 40, 140), -1, cv2.LINE_AA)
    with pytest.warns(InputWarning, match=r"a\.png: .*several separate parts.*cutout"):
        (read,) = load(folder_of(tmp_path, a=painted(photo)), mm_per_px=1.0).fragments
    assert read.area_mm2 == pytest.approx(math.pi * 80**2, rel=0.02)


def test_progress_counts_up_and_may_stop(puzzle, tmp_path):
    folder = folder_of(tmp_path, **{f"p{k}": png(puzzle.fragments[0]) for k in range(5)})
    seen = []
    load(folder, mm_per_px=1.0, progress=lambda *step: seen.append(step))
    assert seen == [(k + 1, 5, f"p{k}.png") for k in range(5)]

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(folder, mm_per_px=1.0, progress=stop)


def test_cutting_never_writes_beside_the_photograph_nor_half(tmp_path):
    photo = np.full((300, 500, 3), 235, np.uint8)
    cv2.circle(photo, (120, 150), 80, (60, 40, 140), -1, cv2.LINE_AA)
    path = tmp_path / "piece_001.png"
    path.write_bytes(painted(photo))
    with pytest.raises(InputError, match="lies in the output folder"):
        cut_out(path, tmp_path, mm_per_px=0.1, force=True)
    for bad in (-1.0, math.nan, 1e6):
        with pytest.raises(InputError, match="the scale is"):
            cut_out(path, tmp_path / "out", mm_per_px=bad)
    path.write_bytes(painted(NOISE))
    with pytest.raises(InputError, match="no plain ground"):
        cut_out(path, tmp_path / "out", mm_per_px=0.1)
    assert [p.name for p in tmp_path.iterdir()] == ["piece_001.png"]


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
