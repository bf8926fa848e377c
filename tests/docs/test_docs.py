"""Whatever the documentation tells to type works."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import reassembly as ra
from reassembly.synthetic.dataset import generate
from tests.docs.blocks import (
    PAGES,
    ROOT,
    Block,
    blocks,
    check,
    check_mentioned,
    commands,
    files,
    inline_commands,
    run,
    run_python,
)

ALL = [block for page in PAGES for block in blocks(page)]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
WITH_CODE = {
    mode: [page for page in PAGES if mode in {block.mode for block in blocks(page)}]
    for mode in ("run", "slow")
}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="session")
def given(tmp_path_factory) -> Path:
    """What the pages take for granted: pieces, puzzles, predictions, decisions about joins."""
    folder = tmp_path_factory.mktemp("docs") / "given"
    generate(
        folder / "made", count=5, seed=4, preset="paper", pieces=(3, 3), size_px=256, workers=1
    )
    first = folder / "made" / "train" / "puzzle_00000"
    shutil.copytree(first, folder / "fragments")
    for name in ("data.json", "labels.npz"):
        (folder / "fragments" / name).unlink()
    (folder / "fragments" / "scale.json").write_text('{"mm_per_px": 0.5}')
    (folder / "fragments" / "fragment_00.png").rename(folder / "fragments" / "RPf_00194.png")
    for name in ("puzzles", "trays", "REPAIR"):
        shutil.copytree(folder / "made", folder / name)
    for source in ra.find_puzzles(folder / "puzzles"):
        ra.solve(source.load(), "ring").save(folder / "predictions" / source.id)
    pieces = sorted(path.stem for path in (folder / "fragments").glob("*.png"))
    for name, pair in (("yes", pieces[:2]), ("no", pieces[1:])):
        text = f"first,second,x_mm,y_mm,rotation_deg\n{pair[0]},{pair[1]},40,0,0\n"
        (folder / f"{name}.csv").write_text(text)
    return folder


@pytest.fixture
def here(given, tmp_path, monkeypatch) -> Path:
    """A copy of that as the working folder."""
    shutil.copytree(given, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def walk_through(page: Path, here: Path, modes: set[str]) -> None:
    """Does what a page says, from its top to its end, as a reader would."""
    names: dict[str, object] = {"__name__": page.stem}
    if page.stem == "metrics":
        names["puzzle"] = ra.find_puzzles(here / "puzzles")[0].load()
        names["assembly"] = ra.solve(names["puzzle"], "ring")
    for name, text in files(page).items():
        (here / name).write_text(text, encoding="utf-8")
    for block in blocks(page):
        if block.mode not in modes:
            continue
        if block.kind == "python":
            run_python(block, names)
            continue
        for words in commands(block):
            clear(words)
            run(words)


def clear(words: list[str]) -> None:
    """Removes what an earlier block of the page left where a command writes."""
    if "--out" in words and words[1] in {"solve", "joins"}:
        out = Path(words[words.index("--out") + 1])
        if out.is_dir():
            shutil.rmtree(out)


def test_there_is_something_to_test():
    assert len(ALL) > 40
    assert {block.kind for block in ALL} >= {"sh", "python"}
    assert sum(block.mode == "run" for block in ALL) > 10


@pytest.mark.parametrize("block", [b for b in ALL if b.kind != "python"], ids=lambda b: b.name)
def test_every_command_exists_with_its_options(block: Block, monkeypatch):
    monkeypatch.chdir(ROOT)
    for words in commands(block):
        check(words)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_in_sentences_exist_with_their_options(page: Path):
    for words in inline_commands(page):
        check_mentioned(words)


@pytest.mark.parametrize("page", WITH_CODE["run"], ids=lambda p: p.stem)
def test_pages_do_what_they_say(page: Path, here: Path):
    walk_through(page, here, {"run"})


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE["slow"], ids=lambda p: p.stem)
def test_pages_do_what_they_say_though_it_takes_long(page: Path, here: Path):
    walk_through(page, here, {"run", "slow"})


def test_python_that_is_not_run_is_at_least_python():
    for block in ALL:
        if block.kind == "python":
            compile(block.text, block.name, "exec")
