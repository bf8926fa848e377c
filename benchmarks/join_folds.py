"""Prints what `joins` is worth on real puzzles by folds: no puzzle judges itself.

reassembly prepare --joins --data REPAIR --other-pairs 100 --per-pair 250 --out REAL
reassembly prepare --joins --preset realistic --count 20 --seed 700 --other-pairs 100 --out MADE
python benchmarks/join_folds.py --data REPAIR --folds REPAIR/folds.json --real REAL --made MADE \
    --verifier VERIFIER

For each fold the screen and the judge learn from the other folds and from made puzzles; the
verifier has seen made ones only. Then every puzzle of the fold is assembled. Rows: the strict
figures, with all pieces placed, and how true joins rank among the proposals of their pair.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from reassembly.assembly.search import SearchSettings, search
from reassembly.assembly.table import Candidate, Table, to_array
from reassembly.config import VerifierConfig
from reassembly.io.readers import find_puzzles
from reassembly.matching import motions
from reassembly.matching.rim import rims_of
from reassembly.matching.verifier import JoinVerifier
from reassembly.metrics import score, summarise
from reassembly.puzzle import Assembly, Puzzle
from reassembly.training.joins import JoinPool
from reassembly.training.judging import JudgeSettings, best_of_pairs, fit_judge, screened_rows
from reassembly.training.verifying import ranks, seen_by
from reassembly.weights import load_network

GROWN_FROM = 8
SHOWN = ("q_pos", "correct", "correct_of_placed", "largest_correct_group", "neighbour_f1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("data", "folds", "real", "made", "verifier"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tries", type=int, default=6)
    parser.add_argument("--shown", type=int, default=JudgeSettings.shown)
    parser.add_argument("--judges", type=int, default=1, help="seeds whose judges are averaged")
    parser.add_argument("--kept", type=Path, help="what the verifier said, kept between runs")
    arguments = parser.parse_args()
    verifier, _ = load_network("verifier", JoinVerifier, VerifierConfig, str(arguments.verifier))
    ids = json.loads((arguments.real / "pool.json").read_text())["source"]["puzzles"]
    folds = json.loads(arguments.folds.read_text())["folds"]
    fold_of = torch.tensor([next(k for k, f in enumerate(folds) if i in f) for i in ids])
    sources = {source.id: source for source in find_puzzles(arguments.data)}
    real, made = JoinPool.load(arguments.real), JoinPool.load(arguments.made)
    settings = JudgeSettings(seed=arguments.seed, shown=arguments.shown)
    known = {id(pool): torch.full((len(pool),), torch.nan) for pool in (real, made)}
    if arguments.kept and arguments.kept.is_file():
        stored = load_file(arguments.kept)
        known = {id(pool): stored[name] for name, pool in (("real", real), ("made", made))}
    rows, found, judged = [], [], []
    for fold in range(len(folds)):
        held = fold_of[real.tensors["puzzle"].long()] == fold
        everything = torch.arange(len(made))
        parts = [(real, (~held).nonzero()[:, 0]), (made, everything), (real, held.nonzero()[:, 0])]
        pools = [pool.taken(chosen) for pool, chosen in parts]
        screen = fit_judge(pools[:2], [None, None], settings)
        shown, seen = [], []
        for (pool, chosen), own in zip(parts, pools, strict=True):
            kept = chosen[screened_rows(own, screen, settings.shown)]
            fresh = kept[known[id(pool)][kept].isnan()]
            if len(fresh):
                known[id(pool)][fresh] = seen_by(verifier, pool, fresh)[0]
            shown.append(pool.taken(kept))
            seen.append(known[id(pool)][kept])
        if arguments.kept:
            save_file({"real": known[id(real)], "made": known[id(made)]}, arguments.kept)
        logits = torch.zeros(len(shown[2]))
        for seed in range(arguments.judges):
            judge = fit_judge(shown[:2], seen[:2], replace(settings, seed=arguments.seed + seed))
            with torch.no_grad():
                logits += judge(shown[2].tensors["evidence"], seen[2]) / arguments.judges
        found.append(ranks(logits, shown[2].tensors["label"], shown[2].tensors["pair"]))
        best, true = best_of_pairs(shown[2], logits)
        judged.append(torch.stack([best, true.float()], 1))
        for number in (fold_of == fold).nonzero()[:, 0].tolist():
            puzzle = sources[ids[number]].load()
            answer = assembled(puzzle, shown[2], logits, number, arguments)
            rows.append({"id": puzzle.id, **score(puzzle, answer, "strict")})
            print(puzzle.id, *(f"{name} {rows[-1][name]:.3f}" for name in SHOWN[:2]), flush=True)
    summary = summarise(rows)
    low, high = summary["q_pos_ci"]
    print(", ".join(f"{name} {summary[name]:.3f}" for name in SHOWN), f"[{low:.3f}, {high:.3f}]")
    place = torch.cat(found).float()
    print(
        f"{len(place)} true joins are shown to the verifier; first of their pair: "
        + ", ".join(f"{n}: {float((place < n).float().mean()):.3f}" for n in (1, 5, 20))
    )
    table = torch.cat(judged)
    table = table[table[:, 0].argsort(descending=True)]
    print(
        "best placements of pairs that are true, among the surest: "
        + ", ".join(f"{n}: {float(table[:n, 1].mean()):.2f}" for n in (10, 20, 40, 80))
    )


def assembled(
    puzzle: Puzzle,
    pool: JoinPool,
    logits: torch.Tensor,
    number: int,
    arguments: argparse.Namespace,
) -> Assembly:
    """The assembly that these logits of a puzzle's proposals lead to."""
    rims = rims_of(puzzle)
    rows = (pool.tensors["puzzle"] == number).nonzero()[:, 0]
    ends = torch.stack([pool.tensors[n][rows] for n in ("fixed", "moving")])
    first = int(ends.min())
    names = list(puzzle.ids)
    candidates = [
        Candidate(names[a - first], names[b - first], (turn, complex(x, y)), logit)
        for (a, b), (turn, x, y), logit in zip(
            ends.T.tolist(),
            pool.tensors["motion"][rows].tolist(),
            logits[rows].tolist(),
            strict=True,
        )
    ]
    table = Table(rims, candidates, grown_from=GROWN_FROM)
    settings = SearchSettings(tries=arguments.tries, least=-float("inf"))
    best = search(table, settings, seed=arguments.seed)[0]
    groups = sorted(best.groups, key=lambda g: -sum(rims[i].area_mm2 for i in g))
    return Assembly.of(
        puzzle,
        *(
            {i: motions.pose_of(to_array(m), rims[i].centre_mm) for i, m in group.items()}
            for group in groups
        ),
    )


if __name__ == "__main__":
    torch.set_num_threads(2)
    main()
