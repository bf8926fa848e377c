"""An index is filled once, carries on after a kill, takes more, and is not taken for whole where it
is not."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest

from reassembly.depot.index import index_folder
from reassembly.depot.search import find_candidates, open_searcher
from reassembly.depot.search_file import open_search_file
from reassembly.depot.store import DATABASE, SEARCH_FILE, open_depot
from reassembly.errors import InputError, InputWarning
from reassembly.io.files import TEMPORARY
from reassembly.synthetic.dataset import generate
from tests.depot.conftest import MM_PER_PX


def content(index) -> dict[str, bytes]:
    depot = open_depot(index)
    found = {row.id: row.codes + row.frames + row.piece for row in depot.rows()}
    depot.close()
    return found


def test_every_fragment_is_there_once(index, pictures):
    assert sorted(content(index)) == sorted(p.stem for p in pictures.glob("*.png"))
    again = index_folder(pictures, index, mm_per_px=MM_PER_PX)
    assert (again.fragments, again.added) == (30, 0)


@pytest.mark.slow
def test_fragments_are_added_and_changed_ones_read_again(index, pictures, tmp_path):
    some = tmp_path / "some"
    some.mkdir()
    names = sorted(p.name for p in pictures.glob("*.png"))
    for name in names[:20]:
        shutil.copy2(pictures / name, some / name)
    out = tmp_path / "index"
    assert index_folder(some, out, mm_per_px=MM_PER_PX, wear="light").fragments == 20
    for name in names[20:]:
        shutil.copy2(pictures / name, some / name)
    shutil.copyfile(pictures / names[5], some / names[0])  # Now it shows another piece.
    done = index_folder(some, out, mm_per_px=MM_PER_PX)
    assert (done.fragments, done.added) == (30, 11)
    assert content(out) == content(index) | {"0_0": content(index)["0_5"]}
    assert len(open_searcher(out).ids) == 30


@pytest.mark.slow
def test_an_index_carries_on_after_a_kill(index, pictures, tmp_path):
    out = tmp_path / "index"
    command = [sys.executable, "-m", "reassembly.cli", "index", str(pictures), "--out", str(out)]
    command += ["--mm-per-px", str(MM_PER_PX), "--wear", "light"]
    process = subprocess.Popen(
        command, env=os.environ.copy(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 120
    there = 0
    while not there and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
        if (out / DATABASE).is_file():
            try:
                depot = open_depot(out)
                there = len(depot)
                depot.close()
            except InputError:
                continue
    process.kill()
    process.wait()
    assert there, "it was not killed at work"
    if not (out / SEARCH_FILE).exists():
        with pytest.raises(InputError, match="not complete"):
            open_searcher(out)
    (out / f"{TEMPORARY}0").write_bytes(b"half of a search file, by a kill of another moment")
    done = index_folder(pictures, out, mm_per_px=MM_PER_PX)
    assert done.fragments == 30 and done.added <= 30 - there
    assert content(out) == content(index)
    assert not list(out.glob(f"{TEMPORARY}*"))


@pytest.mark.slow
def test_ids_tell_puzzles_apart(tmp_path):
    generate(tmp_path / "made", count=2, seed=3, preset="paper", pieces=(3, 4), size_px=192)
    index_folder(tmp_path / "made", tmp_path / "index")
    ids = sorted(content(tmp_path / "index"))
    assert {i.split("/")[0] for i in ids} == {"puzzle_00000", "puzzle_00001"}
    assert "puzzle_00001/fragment_02" in ids


@pytest.mark.slow
def test_two_processes_find_the_same(index, pictures, tmp_path):
    index_folder(pictures, tmp_path / "index", mm_per_px=MM_PER_PX, wear="light", workers=2)
    assert content(tmp_path / "index") == content(index)


@pytest.mark.slow
def test_unreadable_pictures_are_left_out(pictures, tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "bad.png").write_bytes(b"no picture")
    with pytest.warns(InputWarning, match="bad"), pytest.raises(InputError, match="no fragment"):
        index_folder(folder, tmp_path / "nothing")
    shutil.copy2(pictures / "0_0.png", folder)
    assert index_folder(folder, tmp_path / "index", mm_per_px=MM_PER_PX).fragments == 1
    with pytest.raises(InputError, match="bad"):
        index_folder(folder, tmp_path / "other", mm_per_px=MM_PER_PX, strict=True)


def test_an_index_is_for_pieces_of_one_wear(index, pictures, tmp_path):
    out = tmp_path / "index"
    shutil.copytree(index, out)
    with sqlite3.connect(out / DATABASE) as database:  # As of versions that knew no other.
        assert database.execute("DELETE FROM notes WHERE key = 'wear'").rowcount == 1
    with pytest.raises(InputError, match="made for pieces of the wear light, not worn"):
        index_folder(pictures, out, mm_per_px=MM_PER_PX, wear="worn")
    assert index_folder(pictures, out, mm_per_px=MM_PER_PX, wear="light").added == 0


@pytest.mark.slow
def test_worn_pieces_are_found_by_the_network_that_has_seen_such(tmp_path):
    made = tmp_path / "made"
    generate(made, count=6, seed=5, preset="realistic", pieces=(5, 6), size_px=512)
    share = {}
    for wear in ("light", None):
        out = tmp_path / f"{wear}"
        index_folder(made, out, wear=wear)
        depot = open_depot(out)
        pieces = {row.id: row.picture for row in depot.rows()}
        assert depot.wear() == (wear or "worn")
        depot.close()
        found = [
            one.id.split("/")[0] == piece.split("/")[0]
            for piece in pieces
            for one in find_candidates(piece, out, count=4)
        ]
        share[wear] = sum(found) / len(found)
        # A picture is coded as the index is.
        first = next(iter(pieces))
        by_id, by_picture = (find_candidates(one, out) for one in (first, pieces[first]))
        assert [one.id for one in by_picture] == [one.id for one in by_id]
    assert share[None] > share["light"] + 0.2


def test_one_id_is_one_fragment(index, pictures, tmp_path):
    out, other = tmp_path / "index", tmp_path / "other"
    shutil.copytree(index, out)
    other.mkdir()
    shutil.copy2(pictures / "0_0.png", other / "0_0.png")
    with pytest.raises(InputError, match=r"another fragment '0_0' already"):
        index_folder(other, out, mm_per_px=MM_PER_PX)
    assert content(out) == content(index)


@pytest.mark.parametrize("size", [0, 5000])
def test_a_damaged_search_file_is_told_and_mended(index, pictures, tmp_path, size):
    out = tmp_path / "index"
    shutil.copytree(index, out)
    whole = (out / SEARCH_FILE).read_bytes()
    (out / SEARCH_FILE).write_bytes(whole[:size])
    with pytest.raises(InputError, match="damaged"):
        open_searcher(out)
    index_folder(pictures, out, mm_per_px=MM_PER_PX)
    assert (out / SEARCH_FILE).read_bytes() == whole


def test_a_damaged_database_is_told(index, tmp_path):
    out = tmp_path / "index"
    shutil.copytree(index, out)
    data = bytearray((out / DATABASE).read_bytes())
    (out / DATABASE).write_bytes(b"no database" + bytes(data[11:]))
    with pytest.raises(InputError, match="damaged"):
        open_depot(out)
    # One bit of a code: SQLite itself does not notice.
    depot = open_depot(index)
    codes = next(iter(depot.rows())).codes
    depot.close()
    # A row may go on anywhere in the file, so that not every stretch of it is in one piece.
    places = (bytes(data).find(codes[k : k + 64]) for k in range(0, len(codes), 64))
    data[next(at for at in places if at > 0)] ^= 1
    (out / DATABASE).write_bytes(bytes(data))
    depot = open_depot(out)
    with pytest.raises(InputError, match="not as it was written"):
        list(depot.rows())
    depot.close()


def test_what_is_no_index_is_told(tmp_path, index):
    with pytest.raises(InputError, match="there is no index here"):
        open_depot(tmp_path)
    depot = open_depot(index)
    open_search_file(depot)
    depot.close()
