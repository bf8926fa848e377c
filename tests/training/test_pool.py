import json
import shutil
from dataclasses import asdict

import numpy as np
import pytest
import torch

from reassembly.config import FeatureConfig
from reassembly.diffusion.batch import Batch
from reassembly.errors import InputError
from reassembly.training.pool import Pool
from reassembly.training.prepare import PatchSettings
from reassembly.training.textures import check_textures
from reassembly.weights import load_weights


def test_a_batch_holds_the_puzzles_asked_for(small_pool):
    pool = Pool.load(small_pool)
    batch = pool.batch([7, 2])
    assert batch.pieces == (pool.pieces[7], pool.pieces[2])
    first = int(pool.pieces[:7].sum())
    expected = pool.tensors["points"][first : first + pool.pieces[7]]
    assert torch.equal(batch.points[: pool.pieces[7]], expected)


def test_anchors_are_those_the_batch_would_find(small_pool):
    drawn = Pool.load(small_pool).batch(range(10))
    fresh = Batch(
        drawn.pieces, drawn.points, drawn.edge_angle, drawn.curvature, drawn.windows, drawn.area
    )
    assert torch.equal(drawn.anchor, fresh.anchor)
    assert int(drawn.anchor.sum()) == 10


def test_parts_are_disjoint_and_complete(small_pool):
    pool = Pool.load(small_pool)
    parts = pool.part(0, 6), pool.part(6, 10)
    assert [len(part) for part in parts] == [6, 4]
    for name, value in pool.tensors.items():
        assert torch.equal(torch.cat([part.tensors[name] for part in parts]), value)
    assert torch.equal(parts[1].batch([1]).points, pool.batch([7]).points)


def test_what_a_candidate_met_lies_beside_it_in_the_true_poses(small_pool):
    """Ties points, poses and meetings together: a slip in any frame would tear pieces apart."""
    batch = Pool.load(small_pool).batch(range(10))

    def placed(points, pose):
        c, s = pose[..., 2].cos(), pose[..., 2].sin()
        x, y = points.unbind(-1)
        return torch.stack([c * x + s * y, c * y - s * x], -1) + pose[..., :2]

    first = batch.first_piece[batch.puzzle_of_piece][:, None]
    met = batch.meets_piece >= 0
    other = (batch.meets_piece + first)[met]
    here = placed(batch.points, batch.pose[:, None])[met]
    there = placed(batch.meets_point[met], batch.pose[other])
    gap_mm = (here - there).norm(dim=-1)
    assert met.float().mean() > 0.3
    assert float(gap_mm.quantile(0.95)) < 12.0


@pytest.mark.parametrize("content", [None, b"no shard"])
def test_a_folder_without_puzzles_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "shard-00000.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=str(tmp_path.name)):
        Pool.load(tmp_path)


def test_limit_takes_the_first_puzzles(small_pool):
    pool = Pool.load(small_pool, limit=3)
    assert len(pool) == 3
    assert len(pool.tensors["area"]) == int(np.sum(Pool.load(small_pool).pieces[:3]))


def test_a_folder_of_pools_is_all_of_them(tmp_path, small_pool):
    for name in "ab":
        shutil.copytree(small_pool, tmp_path / name)
    alone, both = Pool.load(small_pool), Pool.load(tmp_path)
    assert len(both) == 2 * len(alone)
    assert torch.equal(both.batch([len(alone) + 3]).points, alone.batch([3]).points)


def test_every_pool_of_a_folder_must_be_of_the_encoder_named(tmp_path, small_pool):
    for name in "ab":
        shutil.copytree(small_pool, tmp_path / name)
    check_textures(tmp_path, FeatureConfig())
    (tmp_path / "b" / "pool.json").write_text('{"texture": {"encoder": "another"}}')
    with pytest.raises(InputError, match=f"{tmp_path / 'b'}.*not made by the encoder 'texture'"):
        check_textures(tmp_path, FeatureConfig())


@pytest.mark.parametrize("later", [False, True], ids=["encoded at once", "encoded later"])
def test_patches_must_have_been_cut_as_the_network_will_see_them(tmp_path, small_pool, later):
    """Trained on others, it would be shown at solving what it never learned from."""
    shutil.copytree(small_pool, tmp_path / "pool")
    sha256 = load_weights("texture", "texture").sha256
    about = {"texture": asdict(PatchSettings()), "source": {"preset": "paper"}}
    about = {"source": about, "encoder": sha256} if later else about
    (tmp_path / "pool" / "pool.json").write_text(json.dumps(about))
    check_textures(tmp_path, FeatureConfig())
    for wish, said in (
        ({"patch_frame": "input"}, "patch_frame is input, and the pool's tangent.*--patch-frame"),
        ({"patch_mm_per_px": 0.1357}, "patch_mm_per_px is 0.1357, and the pool's 0.2714"),
        ({"patch_px": 48}, "patch_px is 48, and the pool's 32"),
    ):
        with pytest.raises(InputError, match=said):
            check_textures(tmp_path, FeatureConfig(**wish))
        check_textures(tmp_path, FeatureConfig(**wish, local=False))
