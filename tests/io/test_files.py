"""Output is whole or absent, and nothing of the user's is ever lost."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reassembly.errors import InputError
from reassembly.io.files import (
    TEMPORARY,
    atomic_write,
    check_output_folder,
    check_whole,
    output_folder,
    sweep,
)


def tree(folder):
    """Every file below `folder` with its content, and every folder."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() if p.is_file() else None
        for p in folder.rglob("*")
    }


def test_atomic_write_replaces_and_leaves_no_litter(tmp_path):
    path = tmp_path / "ä b.txt"
    atomic_write(path, "één\n")
    atomic_write(path, "zwei\r\n")
    assert tree(tmp_path) == {"ä b.txt": b"zwei\r\n"}


def test_atomic_write_follows_a_link(tmp_path):
    (tmp_path / "real.txt").write_bytes(b"old")
    try:
        (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    except OSError:
        pytest.skip("no links on this system")
    atomic_write(tmp_path / "link.txt", b"new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_bytes() == b"new"


@pytest.mark.skipif(sys.platform == "win32", reason="permission bits are POSIX")
def test_written_files_are_as_readable_as_any_other(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    atomic_write(tmp_path / "ours", b"")
    with output_folder(tmp_path / "out") as out:
        (out / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "folder").stat().st_mode


@pytest.mark.parametrize("where", ["missing/file.txt", "file/below.txt", "folder", "nul\0.txt"])
def test_atomic_write_refuses_impossible_places(tmp_path, where):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    before = tree(tmp_path)
    with pytest.raises(InputError):
        atomic_write(tmp_path / where, b"data")
    assert tree(tmp_path) == before


def test_atomic_write_keeps_the_old_file_when_the_disk_is_full(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="disk is full"):
        atomic_write(path, b"new")
    assert tree(tmp_path) == {"file": b"old"}


def test_output_folder_appears_whole(tmp_path):
    target = tmp_path / "a" / "b" / "out put ü"
    with output_folder(target) as out:
        (out / "sub").mkdir()
        (out / "sub" / "x").write_bytes(b"1")
        assert not target.exists()
    assert tree(target) == {"sub": None, "sub/x": b"1"}
    assert tree(tmp_path).keys() == {
        "a",
        "a/b",
        "a/b/out put ü",
        "a/b/out put ü/sub",
        "a/b/out put ü/sub/x",
    }


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_a_failing_block_leaves_nothing(tmp_path, error):
    with pytest.raises(error):
        with output_folder(tmp_path / "a" / "out") as out:
            (out / "x").write_bytes(b"1")
            raise error
    assert tree(tmp_path) == {}


def test_a_failing_block_keeps_the_old_output(tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        with output_folder(tmp_path, force=True) as out:
            (out / "x").write_bytes(b"new")
            raise ZeroDivisionError
    assert tree(tmp_path) == {"x": b"old"}


def test_a_folder_that_holds_something_needs_force(tmp_path):
    (tmp_path / "mine.txt").write_bytes(b"mine")
    with pytest.raises(InputError, match="--force"):
        check_output_folder(tmp_path, force=False)
    with pytest.raises(InputError, match="--force"):
        with output_folder(tmp_path):
            raise AssertionError("the block must not run")
    assert tree(tmp_path) == {"mine.txt": b"mine"}


def test_an_empty_folder_needs_no_force(tmp_path):
    (tmp_path / ".DS_Store").write_bytes(b"finder")
    with output_folder(tmp_path) as out:
        (out / "x").write_bytes(b"1")
    assert tree(tmp_path) == {".DS_Store": b"finder", "x": b"1"}


names = st.sampled_from(["a", "b", "c", "d/a", "d/b", "e/f/a"])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=st.sets(names), new=st.sets(names))
def test_force_overwrites_same_names_and_keeps_the_rest(tmp_path_factory, old, new):
    target = tmp_path_factory.mktemp("out")

    def write(folder, files, content):
        for name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)

    write(target, old, b"old")
    with output_folder(target, force=True) as out:
        write(out, new, b"new")
    files = {name: content for name, content in tree(target).items() if content is not None}
    assert files == dict.fromkeys(old, b"old") | dict.fromkeys(new, b"new")


def test_pieces_of_an_earlier_output_go_with_it(tmp_path):
    for name in ("piece_001.png", "piece_002.png", "notes.txt"):
        (tmp_path / name).write_bytes(b"old")
    with output_folder(tmp_path, force=True, replaces=["piece_*.png"]) as out:
        (out / "piece_001.png").write_bytes(b"new")
    assert tree(tmp_path) == {"piece_001.png": b"new", "notes.txt": b"old"}


def test_a_swap_that_fails_halfway_is_undone(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "z").mkdir()
    with pytest.raises(InputError, match="z"):
        with output_folder(tmp_path, force=True) as out:
            (out / "a").write_bytes(b"new")
            (out / "z").write_bytes(b"a file where a folder is")
    assert tree(tmp_path) == {"a": b"old", "z": None}


def test_a_swap_interrupted_between_files_is_undone(tmp_path, monkeypatch):
    for name in "abc":
        (tmp_path / name).write_bytes(b"old")
    plain, moves = Path.replace, []

    def breaks(self, goal):
        moves.append(goal)
        if len(moves) == 5:
            raise OSError(errno.EIO, "Input/output error")
        return plain(self, goal)

    with pytest.raises(InputError, match="Input/output"):
        with output_folder(tmp_path, force=True) as out:
            for name in "abc":
                (out / name).write_bytes(b"new")
            monkeypatch.setattr(Path, "replace", breaks)
    assert len(moves) > 5
    assert tree(tmp_path) == dict.fromkeys("abc", b"old")


OLD = {"a": b"old", "d/b": b"old", "gone_1": b"old", "object/gone_2": b"old", "mine": b"mine"}
NEW = {"a": b"new", "c": b"new", "d/b": b"new", "mine": b"mine"}


def write_files(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def visible(folder):
    """Files that a reader sees."""
    shown = {name: content for name, content in tree(folder).items() if content is not None}
    return {name: content for name, content in shown.items() if TEMPORARY not in name}


@pytest.fixture
def killed(monkeypatch):
    """Collects what a folder looks like before each of the steps a process could be killed at."""

    def collect(folder, into, action):
        left = []

        def after_a_look(step):
            def stepping(*given, **more):
                left.append(into / f"killed-{len(left)}")
                shutil.copytree(folder, left[-1], copy_function=shutil.copyfile)
                return step(*given, **more)

            return stepping

        with monkeypatch.context() as patch:
            for name in ("replace", "unlink", "rmdir", "mkdir"):
                patch.setattr(Path, name, after_a_look(getattr(Path, name)))
            action()
        return left

    return collect


def replace_all(target):
    replaces = ["gone_*", "object/gone_*"]
    with output_folder(target, force=True, replaces=replaces) as out:
        write_files(out, {name: data for name, data in NEW.items() if data == b"new"})


def test_whoever_is_killed_leaves_old_or_new_or_what_nobody_reads(tmp_path, killed):
    target = tmp_path / "out"
    write_files(target, OLD)
    left = killed(target, tmp_path / "once", lambda: replace_all(target))
    assert visible(target) == NEW
    refused = []
    for folder in left:
        try:
            check_whole(folder)
        except InputError as error:
            refused.append(folder)
            assert "--force" in str(error) and str(folder) in str(error)
            with pytest.raises(InputError, match="--force"):
                check_whole(folder / "d" / "b")
            with pytest.raises(InputError, match="--force"):
                check_whole(tmp_path / "once", within=True)
        else:
            assert visible(folder) in (OLD, NEW)
    assert refused
    for number, folder in enumerate(refused[::4]):  # Another kill, while that is mended.
        twice = killed(folder, tmp_path / f"twice-{number}", lambda f=folder: replace_all(f))
        for again in (folder, *twice):
            sweep(again)
            check_whole(again)
            assert tree(again).keys() == {*NEW, "d"}
            assert visible(again) == NEW


@pytest.mark.parametrize("where", ["file", "file/below", "file/further/below", "nul\0"])
@pytest.mark.parametrize("force", [False, True])
def test_impossible_folders_are_refused_before_any_work(tmp_path, where, force):
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(InputError):
        check_output_folder(tmp_path / where, force)
    with pytest.raises(InputError):
        with output_folder(tmp_path / where, force=force):
            raise AssertionError("the block must not run")
    assert tree(tmp_path) == {"file": b"x"}


def test_checking_leaves_nothing_behind(tmp_path):
    check_output_folder(tmp_path / "a" / "b")
    assert tree(tmp_path) == {}


def test_a_folder_that_may_not_be_written(tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if os.access(locked, os.W_OK):
        pytest.skip("this user may write anywhere")
    for target in (locked, locked / "out"):
        with pytest.raises(InputError, match="permission"):
            check_output_folder(target)
    with pytest.raises(InputError, match="permission"):
        atomic_write(locked / "file", b"")


def test_a_full_disk_while_writing_is_the_users_matter(tmp_path):
    with pytest.raises(InputError, match="disk is full"):
        with output_folder(tmp_path / "out") as out:
            raise OSError(errno.ENOSPC, "No space left on device", str(out / "x"))
    with pytest.raises(FileNotFoundError):
        with output_folder(tmp_path / "out") as _:
            (tmp_path / "elsewhere.png").read_bytes()
    assert tree(tmp_path) == {}
