"""Pools of joins: what is true and false in them, and that they carry on after a kill."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from reassembly.errors import InputError
from reassembly.matching.crops import pictures_of
from reassembly.matching.evidence import NAMES
from reassembly.matching.joins import corrected
from reassembly.matching.rim import motion_of, rims_of
from reassembly.puzzle import Puzzle
from reassembly.training.joins import (
    DOUBTFUL,
    FALSE,
    RIGHT_DEG,
    RIGHT_MM,
    TRUE,
    JoinPool,
    JoinSettings,
    prepare_joins,
    propose_joins,
)
from reassembly.training.judging import join_pools
from reassembly.training.prepare import made_puzzles
from tests.joining import neighbours
from tests.puzzles import drawn_puzzle


@pytest.fixture(scope="module")
def puzzle():
    """Three pieces, and one of another picture."""
    drawn = drawn_puzzle(3, seed=5, size_px=200, gap_px=1)
    other = replace(drawn_puzzle(2, seed=9, size_px=140).fragments[0], id="stray")
    return Puzzle("four", (*drawn.fragments, other), drawn.truth, strays=frozenset({"stray"}))


@pytest.fixture(scope="module")
def proposed(puzzle):
    found = propose_joins(puzzle, JoinSettings(keep=30, others=100), ())
    assert found is not None
    return found


def test_proposals_may_be_searched_for_otherwise(puzzle, proposed):
    wide = JoinSettings(keep=30, others=100, propose={"gap_mm": 4.0})
    found, _ = propose_joins(puzzle, wide, ())
    gap, overlap = (NAMES.index(name) for name in ("gap", "log_overlap"))
    usual, other = (each.evidence[each.label == TRUE].mean(axis=0) for each in (proposed[0], found))
    assert other[gap] > usual[gap] and other[overlap] < usual[overlap]


def test_labels_say_how_far_proposals_are_from_the_truth(puzzle, proposed):
    joins, _ = proposed
    rims = rims_of(puzzle)
    met = neighbours(replace(puzzle, fragments=puzzle.fragments[:3]))
    assert (joins.label == TRUE).sum() >= len(met)
    for k in np.flatnonzero(joins.label == TRUE):
        a, b = (puzzle.ids[n[k]] for n in (joins.fixed, joins.moving))
        assert (min(a, b), max(a, b)) in met
        true = motion_of(puzzle.truth[a].inverse() @ puzzle.truth[b], rims[a], rims[b])
        turned = np.degrees(abs((joins.motion[k, 0] - true[0] + np.pi) % (2 * np.pi) - np.pi))
        assert turned < RIGHT_DEG
        assert np.hypot(*joins.correction[k, 1:]) < RIGHT_MM
        # What is to be learnt puts it right.
        row = slice(k, k + 1)
        back = corrected(
            joins.motion[row].astype(float),
            joins.correction[row].astype(float),
            joins.middle[row],
            joins.across[row],
        )[0]
        assert back[1:] == pytest.approx(true[1:], abs=0.01)
    assert (joins.label == FALSE).sum() > (joins.label == TRUE).sum()


def test_strays_join_nothing(puzzle, proposed):
    joins, pictures = proposed
    stray = puzzle.ids.index("stray")
    theirs = (joins.fixed == stray) | (joins.moving == stray)
    assert len(np.unique(joins.pair[theirs])) == 3
    assert (joins.label[theirs] == FALSE).all()
    assert len(pictures.first) == 4


def test_pairs_that_did_not_meet_are_sampled(puzzle):
    none, _ = propose_joins(puzzle, JoinSettings(keep=5, others=0), ())
    met = neighbours(replace(puzzle, fragments=puzzle.fragments[:3]))
    assert len(np.unique(none.pair)) == len(met)
    some, _ = propose_joins(puzzle, JoinSettings(keep=5, others=0.5), (), seed=1)
    assert len(np.unique(some.pair)) == len(met) + round(0.5 * len(met))


def test_a_puzzle_without_truth_has_only_false_joins(puzzle):
    found, _ = propose_joins(replace(puzzle, truth=None), JoinSettings(keep=5, others=100), ())
    assert (found.label == FALSE).all()
    assert propose_joins(replace(puzzle, truth=None), JoinSettings(keep=5, others=0), ()) is None


def test_pools_of_crops_alone_propose_the_same_and_mix_with_others(puzzle, proposed, tmp_path):
    crops_only = JoinSettings(keep=30, others=100, crops_only=True)
    bare, _ = propose_joins(puzzle, crops_only, ())
    assert bare.evidence.shape == (len(bare.label), 0)
    for name in ("fixed", "moving", "motion", "label", "correction"):
        np.testing.assert_array_equal(getattr(bare, name), getattr(proposed[0], name))
    source = made_puzzles(count=2, seed=3, preset="realistic", size_px=320, pieces=(3, 3))
    for name, settings in (("whole", JoinSettings(keep=9)), ("bare", replace(crops_only, keep=9))):
        prepare_joins(tmp_path / name, source, settings=settings, workers=1)
    whole, mixed = JoinPool.load(tmp_path / "whole"), JoinPool.load(*tmp_path.iterdir())
    assert "evidence" in whole.tensors and "evidence" not in mixed.tensors
    assert len(mixed) > len(whole)
    with pytest.raises(InputError, match="no evidence"):
        join_pools(tmp_path)
    with pytest.raises(InputError, match="no evidence"):
        join_pools(tmp_path / "bare")


def test_pools_carry_on_where_they_were_killed(join_folder, tmp_path):
    folder = tmp_path / "pool"
    shutil.copytree(join_folder, folder)
    shards = sorted(folder.glob("joins-*.safetensors"))
    assert len(shards) == 5
    whole = shards[1].read_bytes()
    shards[1].unlink()
    (folder / ".reassembly-1234").write_bytes(b"half a shard")
    source = made_puzzles(count=5, seed=5, preset="pairingnet", pieces=(3, 3), size_px=200)
    steps = []
    done = prepare_joins(
        folder,
        source,
        settings=JoinSettings(keep=24),
        workers=1,
        progress=lambda *step: steps.append(step[:2]),
    )
    assert done == {"puzzles": 1, "kept": 4}
    assert steps[0] == (4, 5) and steps[-1] == (5, 5)
    assert shards[1].read_bytes() == whole
    other = made_puzzles(count=5, seed=6, preset="pairingnet", pieces=(3, 3), size_px=200)
    for changed, settings, said in (
        (other, JoinSettings(keep=24), "another source"),
        (source, JoinSettings(keep=25), "another joins"),
    ):
        with pytest.raises(InputError, match=said):
            prepare_joins(folder, changed, settings=settings, workers=1)


def test_a_matcher_that_is_not_there_is_said_before_work_begins(tmp_path):
    source = made_puzzles(count=1, pieces=(3, 3), size_px=200)
    with pytest.raises(InputError, match="nowhere"):
        prepare_joins(tmp_path / "pool", source, settings=JoinSettings(matcher="nowhere"))
    assert not (tmp_path / "pool").exists()


def test_shards_and_folders_are_joined_with_numbers_that_count_on(join_folder, join_pool):
    tensors = join_pool.tensors
    assert tensors["evidence"].shape == (len(join_pool), len(NAMES))
    assert sorted(set(tensors["puzzle"].tolist())) == [0, 1, 2, 3, 4]
    assert int(tensors["moving"].max()) < len(join_pool.pictures.first) == 15
    twice = JoinPool.load(join_folder, join_folder)
    assert len(twice) == 2 * len(join_pool)
    half = len(join_pool)
    assert torch.equal(twice.tensors["puzzle"][half:], tensors["puzzle"] + 5)
    assert torch.equal(twice.tensors["fixed"][half:], tensors["fixed"] + 15)
    assert int(twice.tensors["pair"][half:].min()) == int(tensors["pair"].max()) + 1
    # Each pair is one piece and another of one puzzle, whose pictures are theirs.
    for number in torch.unique(tensors["pair"]):
        own = tensors["pair"] == number
        for name in ("fixed", "moving", "puzzle"):
            assert len(torch.unique(tensors[name][own])) == 1
        assert int(tensors["fixed"][own][0]) // 3 == int(tensors["puzzle"][own][0])
    last = made_puzzles(count=5, seed=5, preset="pairingnet", pieces=(3, 3), size_px=200).load(4)[0]
    alone = pictures_of(last.fragments)
    assert torch.equal(join_pool.pictures.size[-3:], alone.size)
    start = int(join_pool.pictures.first[-3])
    assert torch.equal(join_pool.pictures.pixels[start:], alone.pixels)
    part = join_pool.part(lambda puzzle: puzzle >= 3)
    assert sorted(set(part.tensors["puzzle"].tolist())) == [3, 4]


def test_what_is_no_pool_is_said(join_folder, tmp_path):
    with pytest.raises(InputError, match="holds no joins"):
        JoinPool.load(tmp_path)
    (tmp_path / "joins-00000.safetensors").write_bytes(b"broken")
    with pytest.raises(InputError, match="cannot be read"):
        JoinPool.load(tmp_path)


def test_every_proposal_is_labelled(join_pool):
    label = join_pool.tensors["label"]
    assert set(label.tolist()) <= {FALSE, TRUE, DOUBTFUL}
    assert int((label == TRUE).sum()) >= 5
    assert torch.isfinite(join_pool.tensors["evidence"]).all()
