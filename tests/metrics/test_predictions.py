from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
import warnings
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from reassembly.errors import InputError, InputWarning
from reassembly.io.poses_csv import poses_csv
from reassembly.io.writers import assembly_to_json
from reassembly.metrics import PROTOCOLS, evaluate
from reassembly.pose import Pose, to_repair
from reassembly.puzzle import Assembly, Puzzle
from tests.metrics.pieces import assembled, block, four, two

FOUR, TWO = four(), two()


@pytest.fixture(autouse=True)
def no_warning_unless_expected():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def three() -> Puzzle:
    """Fragments of names that no other puzzle has, and an id that is not plain ASCII."""
    names = ("x", "y", "z")
    fragments = tuple(block(i, 60 - 10 * k, 50, k) for k, i in enumerate(names))
    return Puzzle("Grötte 3", fragments, {i: Pose(0, 55 * k) for k, i in enumerate(names)})


def write(path, assembly: Assembly):
    """As a table or as JSON, by the file's ending."""
    assert assembly.puzzle is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    text = (
        assembly_to_json(assembly)
        if path.suffix == ".json"
        else poses_csv(assembly.islands[0], assembly.puzzle)
    )
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_an_assembly_and_its_puzzle():
    result = evaluate(assembled(FOUR, b=Pose(20, 0)), FOUR)
    assert result["protocol"] == "strict"
    (row,) = result["puzzles"]
    assert row["id"] == "four" and row["q_pos"] == pytest.approx(0.8, abs=1e-3)
    assert result["mean"]["q_pos"] == row["q_pos"]
    json.dumps(result, allow_nan=False)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_says_what_it_is_and_what_its_figures_are(protocol):
    result = evaluate(assembled(FOUR), FOUR, protocol)
    assert result["protocol"] == protocol and isinstance(result["units"], str)
    assert {"q_pos", "rmse_rotation_deg", "rmse_translation_mm"} <= result["puzzles"][0].keys()
    json.dumps(result, allow_nan=False)


@pytest.mark.parametrize("name", ["poses.csv", "assembly.json", "whatever.txt"])
def test_one_file_for_the_only_puzzle_may_have_any_name(name, tmp_path):
    path = write(tmp_path / name, assembled(FOUR, c=Pose(0, 3)))
    row = evaluate(path, FOUR)["puzzles"][0]
    assert row["rmse_translation_mm"] == pytest.approx((9 / 3) ** 0.5)


@pytest.mark.parametrize("name", ["four.csv", "four.json", "four/poses.csv", "poses.csv", "x.json"])
def test_one_file_among_several_puzzles_is_matched_by_name_or_fragments(name, tmp_path):
    """two() has the names a and b, too, but four() has c and d."""
    path = write(tmp_path / name, assembled(FOUR))
    for truth in ([TWO, FOUR, three()], [FOUR, three(), TWO]):
        result = evaluate(path, truth)
        assert [row["id"] for row in result["puzzles"]] == ["four"]
        assert result["mean"]["correct"] == 1.0


def test_an_assembly_among_several_puzzles_is_matched_too():
    for prediction in (assembled(FOUR), replace(assembled(FOUR), puzzle=None)):
        assert evaluate(prediction, [TWO, FOUR])["puzzles"][0]["id"] == "four"
    with pytest.raises(InputError, match="none of the puzzles"):
        evaluate(Assembly(islands=({"q": Pose(0, 0)},)), [TWO, FOUR])


def test_a_file_that_fits_no_puzzle_or_several_names_them(tmp_path):
    path = write(tmp_path / "p.csv", assembled(three()))
    with pytest.raises(InputError, match=r"p\.csv: .*none of the puzzles.*two, four"):
        evaluate(path, [TWO, FOUR])
    path = write(tmp_path / "q.csv", assembled(TWO))
    with pytest.raises(InputError, match=r"several.*two, four"):
        evaluate(path, [TWO, FOUR])


@pytest.mark.parametrize(
    "names", ["{}.csv", "{}.json", "{}.txt", "{}/assembly.json", "{}/poses.csv"]
)
def test_a_folder_with_a_file_or_folder_a_puzzle(names, tmp_path):
    puzzles = [FOUR, TWO, three()]
    for puzzle in puzzles:
        write(tmp_path / names.format(puzzle.id), assembled(puzzle))
    (tmp_path / "notes.md").write_text("these are mine", encoding="utf-8")
    result = evaluate(tmp_path, puzzles)
    assert [row["id"] for row in result["puzzles"]] == [puzzle.id for puzzle in puzzles]
    assert result["mean"]["correct"] == 1.0


def test_a_folder_may_hold_more_than_is_asked_for(tmp_path):
    for puzzle in (FOUR, TWO):
        write(tmp_path / f"{puzzle.id}.csv", assembled(puzzle))
    assert [row["id"] for row in evaluate(tmp_path, TWO)["puzzles"]] == ["two"]


def test_puzzles_of_the_same_name_go_by_their_paths(tmp_path):
    for part in ("left", "right"):
        save_puzzle(FOUR, tmp_path / "truth" / part / "p")
    write(tmp_path / "found" / "left" / "p.csv", assembled(FOUR))
    write(tmp_path / "found" / "right" / "p.csv", assembled(FOUR, b=Pose(500, 0)))
    result = evaluate(tmp_path / "found", tmp_path / "truth")
    correct = {row["id"]: row["correct"] for row in result["puzzles"]}
    assert correct == {"left/p": 1.0, "right/p": pytest.approx(2 / 3)}
    assert result["mean"]["puzzles"] == 2


def test_names_are_the_same_however_the_file_system_spells_accents(tmp_path):
    write(tmp_path / f"{unicodedata.normalize('NFD', three().id)}.csv", assembled(three()))
    assert evaluate(tmp_path, [three()])["mean"]["correct"] == 1.0


def test_a_puzzle_that_a_folder_does_not_have_counts_as_unplaced(tmp_path):
    write(tmp_path / "four.csv", assembled(FOUR))
    with pytest.warns(InputWarning, match=r"no prediction for two; .* unplaced"):
        result = evaluate(tmp_path, [FOUR, TWO])
    assert [row["q_pos"] for row in result["puzzles"]] == [1.0, 0.0]
    assert result["puzzles"][1]["placed"] == 0.0
    assert result["mean"]["q_pos"] == 0.5


def test_a_folder_without_any_prediction_names_the_puzzles(tmp_path):
    (tmp_path / "five.csv").write_text("rpf,x,y,rot\n", encoding="utf-8")
    with pytest.raises(InputError, match="four, two"):
        evaluate(tmp_path, [FOUR, TWO])


def test_the_folder_of_a_saved_assembly(tmp_path):
    poses = FOUR.truth
    islands = [{i: poses[i] for i in "ab"}, {i: poses[i] for i in "cd"}]
    Assembly.of(FOUR, *islands).save(tmp_path / "out", formats=["csv", "json"])
    whole = evaluate(tmp_path / "out", [three(), FOUR])
    assert whole["puzzles"][0]["neighbour_recall"] == 2 / 4
    (tmp_path / "out" / "assembly.json").unlink()
    tables = evaluate(tmp_path / "out", [three(), FOUR])
    assert tables["puzzles"][0] == pytest.approx(whole["puzzles"][0])


def test_a_piece_in_two_tables_is_an_error(tmp_path):
    write(tmp_path / "poses.csv", assembled(FOUR))
    write(tmp_path / "poses-island-2.csv", Assembly.of(FOUR, {"d": Pose(0, 0)}))
    with pytest.raises(InputError, match="several tables place d"):
        evaluate(tmp_path, FOUR)


def test_a_fragment_without_a_line_is_unplaced_and_named(tmp_path):
    path = write(tmp_path / "four.csv", Assembly.of(FOUR, {i: FOUR.truth[i] for i in "abd"}))
    with pytest.warns(InputWarning, match=r"no line for c, which counts as unplaced"):
        row = evaluate(path, FOUR)["puzzles"][0]
    assert row["placed"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("value", ["", "nan", "inf"])
def test_a_missing_or_non_finite_pose_is_an_error(value, tmp_path):
    path = tmp_path / "two.csv"
    path.write_text(f"rpf,x,y,rot\na,0,0,0\nb,{value},0,0\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"two\.csv: line 3: x"):
        evaluate(path, TWO)


def test_mistakes_with_paths(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        evaluate(tmp_path / "nowhere.csv", FOUR)
    with pytest.raises(InputError, match="no true poses"):
        evaluate(assembled(FOUR), replace(FOUR, truth=None))
    with pytest.raises(InputError, match="no protocol"):
        evaluate(assembled(FOUR), FOUR, "lenient")
    with pytest.raises(InputError, match="no puzzle"):
        evaluate(assembled(FOUR), [])


def save_puzzle(puzzle: Puzzle, folder) -> None:
    """As RePAIR v2 has it."""
    folder.mkdir(parents=True)
    entries = []
    for f in puzzle.fragments:
        alpha = np.where(f.mask, 255, 0).astype(np.uint8)
        Image.fromarray(np.dstack([f.image, alpha])).save(folder / f"{f.id}.png")
        x, y, rot = to_repair(puzzle.truth[f.id], f.frame_px, f.mm_per_px)
        entries.append({"filename": f"{f.id}.png", "pixel_position": [x, y], "rotation": rot})
    data = {"original_id": puzzle.id, "mm_per_px": 1.0, "fragments": entries}
    (folder / "data.json").write_text(json.dumps(data), encoding="utf-8")


def test_truth_and_prediction_from_disk(tmp_path):
    for puzzle in (FOUR, TWO):
        save_puzzle(puzzle, tmp_path / "truth" / puzzle.id)
        write(tmp_path / "found" / f"{puzzle.id}.csv", assembled(puzzle, b=Pose(4, 0)))
    result = evaluate(tmp_path / "found", tmp_path / "truth")
    assert {row["id"]: row["rmse_translation_mm"] for row in result["puzzles"]} == {
        "four": pytest.approx((16 / 3) ** 0.5, abs=1e-6),
        "two": pytest.approx(4.0, abs=1e-6),
    }
    one = evaluate(str(tmp_path / "found" / "two.csv"), str(tmp_path / "truth"))
    assert [row["id"] for row in one["puzzles"]] == ["two"]


def test_measuring_imports_nothing_heavy():
    modules = (
        "reassembly.metrics.predictions, reassembly.metrics.oracle, reassembly.solvers.trivial"
    )
    code = (
        f"import sys, {modules}\n"
        "heavy = {'torch', 'scipy', 'matplotlib', 'cv2'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
