import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from reassembly.cli import app
from reassembly.config import FeatureConfig
from reassembly.errors import InputError, InputWarning
from reassembly.synthetic.dataset import generate
from reassembly.synthetic.make import make_puzzle, recipe
from reassembly.texture.resnet import ResNet18
from reassembly.training import prepare as preparing
from reassembly.training.pool import Pool
from reassembly.training.prepare import (
    PatchSettings,
    made_puzzles,
    prepare,
    prepare_puzzle,
    stored_puzzles,
)
from reassembly.training.textures import encode_pool, keep_patches, texture_columns
from reassembly.weights import load_texture_encoder, save_weights
from tests.puzzles import drawn_puzzle


def small(count, **more):
    return made_puzzles(count=count, seed=2, pieces=(3, 3), size_px=256, **more)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_pools_are_the_same_however_they_were_made(tmp_path, monkeypatch):
    """Alone or by workers, at once or after a shard was lost."""
    monkeypatch.setattr(preparing, "SHARD_PUZZLES", 4)
    monkeypatch.setattr(preparing, "CHUNK", 3)
    prepare(tmp_path / "a", small(6), workers=1)
    prepare(tmp_path / "b", small(6), workers=2)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    (tmp_path / "b" / "shard-00000.safetensors").unlink()
    again = prepare(tmp_path / "b", small(6), workers=1)
    assert (again["puzzles"], again["kept"]) == (4, 2)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_a_pool_of_other_puzzles_is_not_mixed_in(tmp_path):
    prepare(tmp_path / "pool", small(2), workers=1)
    with pytest.raises(InputError, match="another source"):
        prepare(tmp_path / "pool", small(2, preset="realistic"), workers=1)
    with pytest.raises(InputError, match="another count"):
        prepare(tmp_path / "pool", small(3), workers=1)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="something else"):
        prepare(tmp_path / "full", small(2), workers=1)


def test_strays_are_left_out_and_meetings_counted_anew():
    wanted = recipe("realistic", pieces=(6, 6), size_px=384)
    made = next(m for k in range(40) if (m := make_puzzle(wanted, 0, k)).puzzle.strays)
    placed = [f for f in made.puzzle.fragments if f.id not in made.puzzle.strays]
    prepared = prepare_puzzle(made.puzzle, made.labels)
    truth = prepared.description.truth
    assert len(prepared.description.area) == len(placed)
    piece, point = truth["meets_piece"], truth["meets_point"]
    assert piece.max() < len(placed)
    # In the true poses, what met lies near.
    near = []
    for number, fragment in enumerate(placed):
        met = piece[number] >= 0
        here = prepared.description.points[number][met] + fragment.centroid_mm
        here = made.puzzle.truth[fragment.id].apply(here)
        for at, other, there in zip(here, piece[number][met], point[number][met], strict=True):
            partner = placed[other]
            moved = made.puzzle.truth[partner.id].apply((there + partner.centroid_mm)[None])[0]
            near.append(np.hypot(*(moved - at)))
    assert np.median(near) < 8.0


def test_labels_may_be_in_another_order():
    wanted = recipe("paper", pieces=(4, 4), size_px=256)
    made = make_puzzle(wanted, 0, 0)
    turned = replace(made.puzzle, fragments=made.puzzle.fragments[::-1])
    there, back = prepare_puzzle(made.puzzle, made.labels), prepare_puzzle(turned, made.labels)
    old = there.description.truth["meets_piece"]
    assert np.array_equal(
        back.description.truth["meets_piece"][::-1], np.where(old < 0, -1, 3 - old)
    )


def test_puzzles_without_two_true_poses_are_left_out(tmp_path):
    puzzle = drawn_puzzle(3)
    assert prepare_puzzle(replace(puzzle, truth=None)) is None
    kept = {"fragment_0": puzzle.truth["fragment_0"]}
    lonely = replace(puzzle, truth=kept, strays=frozenset({"fragment_1", "fragment_2"}))
    assert prepare_puzzle(lonely) is None


def test_stored_puzzles_are_read_with_their_labels(tmp_path):
    generate(
        tmp_path / "set", count=5, seed=2, preset="paper", pieces=(3, 3), size_px=256, workers=1
    )
    prepare(tmp_path / "stored", stored_puzzles(tmp_path / "set", split="train"), workers=1)
    prepare(tmp_path / "made", small(4), workers=1)
    stored, made = Pool.load(tmp_path / "stored"), Pool.load(tmp_path / "made")
    assert torch.equal(stored.tensors["meets_piece"], made.tensors["meets_piece"])
    assert torch.allclose(stored.tensors["points"], made.tensors["points"], atol=1e-3)
    with pytest.raises(InputError, match="split val"):
        stored_puzzles(tmp_path / "set", split="val")
    with pytest.raises(InputError, match="no puzzle nobody"):
        stored_puzzles(tmp_path / "set", ids=["nobody"])


def test_a_set_without_poses_is_refused_and_a_partial_one_warned_of(tmp_path):
    generate(
        tmp_path / "set", count=2, seed=2, preset="paper", pieces=(3, 3), size_px=256, workers=1
    )
    for number, data in enumerate(sorted((tmp_path / "set").rglob("data.json"))):
        document = json.loads(data.read_text())
        for fragment in document["fragments"]:
            fragment.pop("pixel_position")
            fragment.pop("rotation")
            fragment["stray"] = True
        data.write_text(json.dumps(document))
        if number == 0:
            with pytest.warns(InputWarning, match="1 of 2"):
                prepare(tmp_path / "part", stored_puzzles(tmp_path / "set"), workers=1)
    with pytest.raises(InputError, match="no puzzle has two pieces"):
        prepare(tmp_path / "none", stored_puzzles(tmp_path / "set"), workers=1)


@pytest.mark.parametrize("frame", ["tangent", "input"])
def test_textures_are_those_of_the_encoder(tmp_path, frame):
    weights = tmp_path / "texture.safetensors"
    save_weights(weights, ResNet18(4), "texture", {"width": 4, "input_px": 32}, half=False)
    features = FeatureConfig(patch_frame=frame)
    cut, encoder = texture_columns(str(weights), features)
    prepare(tmp_path / "pool", small(2), patches=cut, encoder=encoder, workers=1)
    pool = Pool.load(tmp_path / "pool")
    assert pool.tensors["local"].shape == (6, 100, 32)
    assert pool.tensors["whole"].shape == (6, 32)
    made = make_puzzle(small(2).recipe, 2, 1)
    prepared = prepare_puzzle(made.puzzle, made.labels, PatchSettings(frame, whole_px=32))
    network = load_texture_encoder(weights)[0]
    expected = network.encode(prepared.patches[2, 40:43])
    assert torch.allclose(pool.tensors["local"][5, 40:43].float(), expected, rtol=0.01, atol=1e-3)
    assert torch.allclose(
        pool.tensors["whole"][5].float(),
        network.encode(prepared.wholes[2:])[0],
        rtol=0.01,
        atol=1e-3,
    )


def test_kept_patches_are_stored_as_they_were_cut(tmp_path):
    cut, encoder = keep_patches(FeatureConfig())
    prepare(tmp_path / "pool", small(1), patches=cut, encoder=encoder, workers=1)
    made = make_puzzle(small(1).recipe, 2, 0)
    patches = prepare_puzzle(made.puzzle, made.labels, PatchSettings()).patches
    stored = Pool.load(tmp_path / "pool", keep=["area", "patches"])
    assert np.array_equal(stored.tensors["patches"].numpy(), patches)


def test_kept_patches_encoded_later_give_the_same_pool(tmp_path):
    weights = tmp_path / "texture.safetensors"
    save_weights(weights, ResNet18(2), "texture", {"width": 2, "input_px": 64})
    cut, keeping = keep_patches(FeatureConfig())
    prepare(tmp_path / "kept", small(1), patches=cut, encoder=keeping, workers=1)
    cut, encoder = texture_columns(str(weights), FeatureConfig())
    prepare(tmp_path / "direct", small(1), patches=cut, encoder=encoder, workers=1)
    assert encode_pool(tmp_path / "kept", tmp_path / "later", str(weights)) == 1
    assert encode_pool(tmp_path / "kept", tmp_path / "later", str(weights)) == 0
    later, direct = Pool.load(tmp_path / "later").tensors, Pool.load(tmp_path / "direct").tensors
    assert later.keys() == direct.keys()
    for name in later:
        assert torch.allclose(later[name].float(), direct[name].float(), rtol=0.01, atol=1e-3), name
    save_weights(weights, ResNet18(2), "texture", {"width": 2, "input_px": 64})
    with pytest.raises(InputError, match="another encoder"):
        encode_pool(tmp_path / "kept", tmp_path / "later", str(weights))
    with pytest.raises(InputError, match="no patches"):
        encode_pool(tmp_path / "direct", tmp_path / "other", str(weights))


def test_the_command_prepares_and_carries_on(tmp_path):
    call = ["prepare", "--out", str(tmp_path / "pool"), "--encoder", "none", "--workers", "1"]
    call += ["--count", "2", "--pieces", "3", "--size", "256", "--seed", "2"]
    first = CliRunner().invoke(app, call)
    assert first.exit_code == 0 and "2 puzzles, 6 pieces" in first.output, first.output
    prepare(tmp_path / "same", small(2), workers=1)
    assert contents(tmp_path / "pool") == contents(tmp_path / "same")
    assert "2 puzzles were there already" in CliRunner().invoke(app, call).output


def test_a_pool_in_one_style_is_another_pool(tmp_path):
    call = ["prepare", "--out", str(tmp_path / "pool"), "--encoder", "none", "--workers", "1"]
    call += ["--count", "1", "--pieces", "2", "--size", "160"]
    first = CliRunner().invoke(app, [*call, "--style", "lattice"])
    assert first.exit_code == 0, first.output
    again = CliRunner().invoke(app, [*call, "--style", "lattice"])
    assert "1 puzzle were there already" in again.output
    refused = CliRunner().invoke(app, call)
    assert isinstance(refused.exception, InputError)
    assert "another source" in str(refused.exception)
