"""Whatever the documentation tells to type works."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

import reassembly as ra
from reassembly.synthetic.dataset import generate
from tests.docs.blocks import (
    CARDS,
    PAGES,
    ROOT,
    Block,
    blocks,
    check,
    check_mentioned,
    commands,
    expanded_commands,
    files,
    inline_commands,
    run_python,
    whole_inline_commands,
)
from tests.docs.tiny import Reader
from tests.puzzles import drawn_puzzle
from tests.test_cli import write_puzzle

ALL = [block for page in PAGES for block in blocks(page)]
NAMES_OF = {page: page.relative_to(ROOT).with_suffix("").as_posix() for page in PAGES}
WITH_CODE = {
    mode: [page for page in PAGES if mode in {block.mode for block in blocks(page)}]
    for mode in ("run", "slow")
}
LONG = [page for page in PAGES if page in WITH_CODE["slow"] or whole_inline_commands(page)]


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
    puzzle = shutil.copytree(folder / "fragments", folder / "puzzle")
    truth = (first / "data.json").read_text(encoding="utf-8")
    (puzzle / "data.json").write_text(truth.replace("fragment_00", "RPf_00194"), encoding="utf-8")
    for name in ("puzzles", "trays", "REPAIR", "real"):
        shutil.copytree(folder / "made", folder / name)
    for number, name in enumerate(("box1", "box3")):
        box = shutil.copytree(
            folder / "made" / "train" / f"puzzle_0000{number}", folder / "boxes" / name
        )
        for path in (box / "data.json", box / "labels.npz"):
            path.unlink()
        (box / "scale.json").write_text('{"mm_per_px": 0.5}')
    (box / "fragment_00.png").rename(box / "RPf_00194.png")
    shutil.copytree(folder / "boxes", folder / "DIR")
    for name in ("new.png", "piece.png"):
        shutil.copy(box / "fragment_01.png", folder / name)
    with Image.open(box / "fragment_02.png") as piece:
        ground = Image.new("RGB", (piece.width + 80, piece.height + 80), "white")
        ground.paste(piece, (40, 40), piece)
        for name in ("photo.jpg", "tray.jpg"):
            ground.save(folder / name, quality=95)
    (folder / "WEIGHTS").mkdir()
    write_release(folder / "repair", folder / "2D_SOLVED.zip")
    write_folds(folder / "scanned", folder / "made" / "train")
    for seed in (1, 2):
        write_puzzle(folder / "my-frescoes" / f"p{seed}", drawn_puzzle(3, seed=seed, size_px=140))
    for source in ra.find_puzzles(folder / "puzzles"):
        ra.solve(source.load(), "ring").save(folder / "predictions" / source.id)
    pieces = sorted(path.stem for path in (folder / "fragments").glob("*.png"))
    for name, pair in (("yes", pieces[:2]), ("no", pieces[1:])):
        text = f"first,second,x_mm,y_mm,rotation_deg\n{pair[0]},{pair[1]},40,0,0\n"
        (folder / f"{name}.csv").write_text(text)
    return folder


def write_release(folder: Path, archive: Path) -> None:
    """Puzzles as RePAIR's release has them, one of them for tests; and as it is downloaded."""
    for number in range(2):
        puzzle = replace(drawn_puzzle(2, seed=number, size_px=100), id=f"RPobj_g2_o{number:04d}")
        write_puzzle(folder / f"puzzle_{number + 1:07d}_RP_group_2", puzzle)
    with zipfile.ZipFile(archive, "w") as file:
        for part in sorted(folder.rglob("*")):
            file.write(part, f"SOLVED/{part.relative_to(folder).as_posix()}")


def write_folds(folder: Path, made: Path) -> None:
    """Puzzles as our own results have the real ones, in four folds."""
    puzzles = [source.load() for source in ra.find_puzzles(made)[:4]]
    ids = [f"RPobj_g{number}_o{number:04d}" for number in range(4)]
    for name, puzzle in zip(ids, puzzles, strict=True):
        write_puzzle(folder / "2d_fixed" / "train" / name, replace(puzzle, id=name))
    (folder / "folds.json").write_text(json.dumps({"folds": [[name] for name in ids]}))


@pytest.fixture
def here(given, tmp_path, monkeypatch) -> Path:
    """A copy of that as the working folder."""
    shutil.copytree(given, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def walk_through(page: Path, here: Path, monkeypatch, modes: set[str]) -> None:
    """Does what a page says, from its top to its end, as a reader would."""
    names: dict[str, object] = {"__name__": page.stem}
    if page.stem == "metrics":
        names["puzzle"] = ra.find_puzzles(here / "puzzles")[0].load()
        names["assembly"] = ra.solve(names["puzzle"], "ring")
    if (real := {"results": "repair", "reproduce": "REPAIR"}.get(page.parent.name)) is not None:
        shutil.rmtree(here / real)
        (here / "scanned").rename(here / real)
    for name, text in files(page).items():
        (here / name).write_text(text, encoding="utf-8")
    with Reader(monkeypatch) as reader:
        for block in blocks(page):
            if block.mode not in modes:
                continue
            monkeypatch.chdir(here)
            if block.kind == "python":
                run_python(block, names)
                continue
            for words in commands(block):
                reader.run(words)
        if "slow" in modes:
            monkeypatch.chdir(here)
            for words in whole_inline_commands(page):
                reader.run(words)


def test_there_is_something_to_test():
    assert len(ALL) > 40
    assert {block.kind for block in ALL} >= {"sh", "python"}
    assert sum(block.mode == "run" for block in ALL) > 10


@pytest.mark.parametrize("block", [b for b in ALL if b.kind != "python"], ids=lambda b: b.name)
def test_every_command_exists_with_its_options(block: Block, monkeypatch):
    monkeypatch.chdir(ROOT)
    for words in commands(block):
        check(words)


@pytest.mark.parametrize("page", PAGES, ids=NAMES_OF.get)
def test_commands_in_sentences_exist_with_their_options(page: Path):
    for words in inline_commands(page):
        check_mentioned(words)


@pytest.mark.parametrize("page", WITH_CODE["run"], ids=NAMES_OF.get)
def test_pages_do_what_they_say(page: Path, here: Path, monkeypatch):
    walk_through(page, here, monkeypatch, {"run"})


@pytest.mark.slow
@pytest.mark.timeout(1500)  # Some pages have forty commands.
@pytest.mark.parametrize("page", LONG, ids=NAMES_OF.get)
def test_pages_do_what_they_say_though_it_takes_long(page: Path, here: Path, monkeypatch):
    walk_through(page, here, monkeypatch, {"run", "slow"})


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.stem)
def test_commands_of_model_cards_exist_with_their_options(card: Path, monkeypatch):
    monkeypatch.chdir(ROOT)
    told = expanded_commands(card)
    assert told or any(block.kind == "python" for block in blocks(card))
    for words in told:
        check(words)


def test_the_selectors_card_trains_a_selector(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fragment = drawn_puzzle(2, size_px=240).fragments[0]
    contour, _ = cv2.findContours(
        fragment.mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE
    )
    outline = {"name": "one", "contour": contour[0][:, 0].tolist()}
    Path("outlines.json").write_text(json.dumps({"a": {"fragments": [outline]}}))
    (block,) = blocks(ROOT / "src/reassembly/weights/selector.md")
    text = block.text
    for long, short in {"80": "1", "1024": "256", "(3000,": "(2,", "(1200,": "(2,"}.items():
        assert long in text
        text = text.replace(long, short)
    names: dict[str, Any] = {"__name__": "card"}
    run_python(replace(block, text=text), names)
    names["train"](Path("outlines.json"))
    shipped = load_file(ROOT / "src/reassembly/weights/selector.safetensors")
    trained = load_file("selector.safetensors")
    assert {name: each.shape for name, each in trained.items()} == {
        name: each.shape for name, each in shipped.items()
    }


def test_the_workbench_page_and_its_doc_name_the_same_exports():
    dialog = (ROOT / "frontend/src/dialogs/ExportDialog.tsx").read_text(encoding="utf-8")
    offered = re.findall(r'^  \w+: \["(\w+)"', dialog, re.MULTILINE)
    doc = (ROOT / "docs/workbench.md").read_text(encoding="utf-8")
    table = doc.partition("## Take it away")[2].partition("\n\nFiles")[0]
    told = re.findall(r"^\| (\w+) \|", table, re.MULTILINE)
    assert told == ["what", *(name.lower() for name in offered)]
