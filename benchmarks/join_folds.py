"""Prints what `joins` is worth on real puzzles by folds: no puzzle judges itself.

reassembly prepare --joins --data REPAIR --other-pairs 100 --per-pair 250 --out REAL
reassembly prepare --joins --preset realistic --count 20 --seed 700 --other-pairs 100 --out MADE
python benchmarks/join_folds.py --data REPAIR --folds REPAIR/folds.json --real REAL --made MADE \\
    --verifier VERIFIER [--tuned TUNED]

For each fold the screen and the judge learn from the other folds and from made puzzles; the
verifier has seen made ones only, or was fine-tuned on real ones without the fold. Then every puzzle
of the fold is assembled. Rows: the strict figures, with all pieces placed, and how true joins rank
among the proposals of their pair.

A fine-tuned verifier knows the joins it learned from too well. So the judge of a fold hears about
each puzzle from a verifier that has seen neither it nor the fold: TUNED holds weights, or runs of
`train --stage verifier`, named by the folds that they did not see, `without-1` to `without-4` and
`without-12` to `without-34`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

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


class Verifiers:
    """What verifiers say about proposals, each asked once."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.base, self.tuned, self.kept = arguments.verifier, arguments.tuned, arguments.kept
        self.device = arguments.device
        self.said: dict[str, Tensor] = {}
        if self.kept and self.kept.is_file():
            self.said = load_file(self.kept)
        self._networks: dict[str, JoinVerifier] = {}

    def say(self, name: str, pool: JoinPool, rows: Tensor, unseen: Sequence[int]) -> Tensor:
        """Logits (K,) of proposals (K,), those of a pair one after the other, by the verifier that
        has not seen these folds, numbered from 0.

        Args:
            name: of the pool.
        """
        own = "base"
        if self.tuned:
            own = "without-" + "".join(str(k + 1) for k in sorted(set(unseen)))
        known = self.said.setdefault(f"{name} {own}", torch.full((len(pool),), torch.nan))
        fresh = rows[known[rows].isnan()]
        if len(fresh):
            known[fresh] = (
                seen_by(self._network(own), pool.to(self.device), fresh.to(self.device))[0]
                .float()
                .cpu()
            )
        return known[rows].float()

    def keep(self) -> None:
        if self.kept:
            save_file(self.said, self.kept)

    def _network(self, name: str) -> JoinVerifier:
        if name not in self._networks:
            path = self.base
            if name != "base":
                run, file = self.tuned / name, self.tuned / f"{name}.safetensors"
                path = file if file.is_file() else run
            network, _ = load_network("verifier", JoinVerifier, VerifierConfig, str(path))
            self._networks[name] = network.to(self.device).eval()
        return self._networks[name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("data", "folds", "real", "made", "verifier"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--tuned", type=Path, help="verifiers fine-tuned without some folds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tries", type=int, default=6)
    parser.add_argument("--shown", type=int, default=JudgeSettings.shown)
    parser.add_argument("--judges", type=int, default=1, help="seeds whose judges are averaged")
    parser.add_argument("--kept", type=Path, help="what verifiers said, kept between runs")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    ids = json.loads((arguments.real / "pool.json").read_text())["source"]["puzzles"]
    folds = json.loads(arguments.folds.read_text())["folds"]
    fold_of = torch.tensor([next(k for k, f in enumerate(folds) if i in f) for i in ids])
    sources = {source.id: source for source in find_puzzles(arguments.data)}
    real, made = JoinPool.load(arguments.real), JoinPool.load(arguments.made)
    of_row = fold_of[real.tensors["puzzle"].long()]
    settings = JudgeSettings(seed=arguments.seed, shown=arguments.shown)
    verifiers = Verifiers(arguments)
    rows, found, judged = [], [], []
    for fold in range(len(folds)):
        learnt = [(real, "real", (of_row == k).nonzero()[:, 0], k) for k in range(len(folds))]
        held = learnt.pop(fold)
        learnt.append((made, "made", torch.arange(len(made)), fold))
        real_part = real.taken((of_row != fold).nonzero()[:, 0])
        screen = fit_judge([real_part, made], [None, None], settings)
        shown, seen = [], []
        for pool, name, chosen, other in (*learnt, held):
            kept = chosen[screened_rows(pool.taken(chosen), screen, settings.shown)]
            seen.append(verifiers.say(name, pool, kept, (fold, other)))
            shown.append((pool, kept))
        verifiers.keep()
        # Real puzzles are one pool to the judge, whoever told about them.
        pools = [
            real.taken(torch.cat([kept for _, kept in shown[:-2]])),
            made.taken(shown[-2][1]),
        ]
        told = [torch.cat(seen[:-2]), seen[-2]]
        own, said = real.taken(shown[-1][1]), seen[-1]
        logits = torch.zeros(len(own))
        for seed in range(arguments.judges):
            judge = fit_judge(pools, told, replace(settings, seed=arguments.seed + seed))
            with torch.no_grad():
                logits += judge(own.tensors["evidence"], said) / arguments.judges
        found.append(ranks(logits, own.tensors["label"], own.tensors["pair"]))
        best, true = best_of_pairs(own, logits)
        judged.append(torch.stack([best, true.float()], 1))
        for number in (fold_of == fold).nonzero()[:, 0].tolist():
            puzzle = sources[ids[number]].load()
            answer = assembled(puzzle, own, logits, number, arguments)
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
