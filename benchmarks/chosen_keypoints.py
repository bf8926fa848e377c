"""Prints what selectors choose: whether their keypoints face each other, and hold every join.

python benchmarks/chosen_keypoints.py --data POOL [--spacing-mm 0] [--weights RUN_OR_FILE ...]

POOL is a folder of `reassembly prepare`; weights are those of trained ReassembleNets. Farthest
point sampling and the shipped selector are always shown.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import torch

from reassembly.config import Config
from reassembly.diffusion.batch import Batch
from reassembly.diffusion.reassemblenet import ReassembleNet
from reassembly.training.pool import Pool
from reassembly.weights import load_module, load_reassemblenet, load_weights

NEAR_MM = 8.0
APART_MM = 15.0
LEAST_CANDIDATES = 4
"""Joins on which a piece has fewer candidates do not count."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--puzzles", type=int, default=64)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--spacing-mm", type=float, default=15.0)
    parser.add_argument("--weights", nargs="*", default=[])
    arguments = parser.parse_args()
    pool = Pool.load(arguments.data, limit=arguments.puzzles)
    batch = pool.batch(range(len(pool)))
    print(f"{len(pool)} puzzles, {len(batch.area)} pieces, k = {arguments.k}")
    print("| selector | on a break | partner chosen | joins held | at two places | nearest (mm) |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    frozen = network("frozen", arguments.k)
    assert frozen.selector is not None
    load_module(frozen.selector, load_weights("selector", "selector"))
    shown = {"fps": network("fps", arguments.k), "frozen": frozen}
    shown |= {name: load_reassemblenet(name)[0] for name in arguments.weights}
    for name, net in shown.items():
        keypoints = replace(net.config.keypoints, spacing_mm=arguments.spacing_mm)
        net.config = replace(net.config, keypoints=keypoints)
        print(f"| {name} | {' | '.join(figures(net, batch))} |")


def network(selector: str, k: int) -> ReassembleNet:
    model = Config().model
    return ReassembleNet(
        replace(model, keypoints=replace(model.keypoints, selector=selector, k=k))  # type: ignore[arg-type]
    )


@torch.no_grad()
def figures(net: ReassembleNet, batch: Batch) -> list[str]:
    """Share of keypoints on a break; of those with a chosen one within 8 mm across; of joins with
    such a keypoint, and with two that are 15 mm apart; and mm to the nearest keypoint."""
    assert batch.meets_piece is not None and batch.meets_point is not None
    chosen = net.choose(batch).candidate.view(len(batch.area), -1)
    kept = torch.zeros(batch.points.shape[:2], dtype=torch.bool).scatter_(1, chosen, True)
    on_break = batch.meets_piece >= 0
    first = batch.first_piece[batch.puzzle_of_piece][:, None]
    other = (batch.meets_piece + first).masked_fill(~on_break, 0)
    apart = (batch.points[other] - batch.meets_point[:, :, None]).norm(dim=-1)
    nearest = apart.masked_fill(~kept[other], torch.inf).min(dim=-1).values
    met = (nearest < NEAR_MM) & on_break & kept
    joins, held, twice = 0, 0, 0
    for piece, across in enumerate(batch.meets_piece):
        for neighbour in set(across.tolist()) - {-1}:
            if (across == neighbour).sum() < LEAST_CANDIDATES:
                continue
            points = batch.points[piece][met[piece] & (across == neighbour)]
            joins += 1
            held += len(points) > 0
            twice += len(points) > 1 and bool(torch.cdist(points, points).max() > APART_MM)
    places = batch.points.gather(1, chosen[..., None].expand(-1, -1, 2))
    gaps = torch.cdist(places, places) + torch.eye(chosen.shape[1]) * 1e9
    shares = (on_break[kept].float().mean(), met[kept].float().mean(), held / joins, twice / joins)
    return [
        *(f"{float(share):.3f}" for share in shares),
        f"{float(gaps.min(-1).values.mean()):.1f}",
    ]


if __name__ == "__main__":
    main()
