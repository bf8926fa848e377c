"""Prints what each step of `joins` is worth on made puzzles that its weights did not learn from.

reassembly generate --preset realistic --count 50 --seed 9000 --out PUZZLES
reassembly prepare --joins --data PUZZLES --other-pairs 100 --per-pair 200 --out POOL
reassembly prepare --joins --preset realistic --count 40 --seed 700 --other-pairs 100 --out MADE
python benchmarks/join_steps.py --data PUZZLES --pool POOL --made MADE

A row for nothing left out, and one for each step that is; all pieces are placed. What the judge
hears cannot be left out of one that has learned to rely on it: in those rows, and in one of nothing
left out beside them, screen and judges have learned from MADE alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from reassembly.assembly.refine import refine
from reassembly.assembly.search import SearchSettings, search
from reassembly.assembly.settle import followed, settle
from reassembly.assembly.table import LIGHT, Candidate, Motion, Table, TableSettings, to_array
from reassembly.config import JoinsConfig
from reassembly.io.readers import find_puzzles
from reassembly.matching import motions
from reassembly.matching.evidence import MARKS, MATCHES, NAMES, PAINT
from reassembly.matching.joins import FinderSettings, corrected
from reassembly.matching.rim import rims_of
from reassembly.matching.verifier import JoinJudge, JoinNetwork, JoinVerifier
from reassembly.metrics import score, summarise
from reassembly.puzzle import Assembly, Puzzle
from reassembly.solvers.joins import GROWN_FROM
from reassembly.training.joins import JoinPool
from reassembly.training.judging import (
    JudgeSettings,
    calibrated_judge,
    contexts,
    fit_judge,
    overheard,
    screened_rows,
)
from reassembly.training.verifying import seen_by
from reassembly.weights import load_network

HEARD: Mapping[str, Sequence[str]] = {"paint": PAINT, "matches": MATCHES, "marks": MARKS}
"""Evidence that can be left out, by the beginnings of its names."""
JUDGING = (*HEARD, "verifier")
"""What judges have learned to rely on."""
ASSEMBLING = (
    "alternatives",
    "comparing",
    "overlap",
    "tries",
    "corrections",
    "settling",
    "refining",
)
"""`alternatives`: groups are joined by the likeliest placement of each pair alone; `comparing`: by
their likeliest join, whatever else then touches; `overlap`: it costs nothing; `tries`: but one."""
STEPS = ("points", "screen", "context", *ASSEMBLING, *JUDGING)
"""`points`: placements that only matching points propose; `screen`: those that are shown are the
first that were proposed; `context`: what placements say of each other."""
SHOWN = ("q_pos", "correct", "correct_of_placed", "largest_correct_group", "neighbour_f1")


@dataclass(frozen=True)
class Assembling:
    """How assemblies are built from judged placements."""

    without: Collection[str] = ()
    table: TableSettings = field(default_factory=TableSettings)
    tries: int = SearchSettings.tries
    seed: int = 0


class Heard:
    """What the verifier says about proposals of a pool, each asked once, kept between runs."""

    def __init__(self, network: JoinNetwork, name: str, pool: JoinPool, folder: Path | None):
        self.network, self.pool = network, pool
        self.path = folder and folder / f"{name}.safetensors"
        self.known = torch.full((len(pool), 4), torch.nan)
        if self.path and self.path.is_file():
            self.known = load_file(self.path)["said"]

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (K,) and corrections (K, 3) of proposals (K,), those of a pair one after the
        other."""
        fresh = bool(self.known[rows, 0].isnan().any())
        told = said_of(self.known, lambda: self.network.verifier, self.pool, rows)
        if fresh and self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            save_file({"said": self.known}, self.path)
        return told


def said_of(
    known: Tensor,
    verifier: Callable[[], JoinVerifier],
    pool: JoinPool,
    rows: Tensor,
    device: str = "cpu",
) -> tuple[Tensor, Tensor]:
    """Logits (K,) and corrections (K, 3) of proposals (K,), those of a pair one after the other.

    Args:
        known: of each proposal of the pool, (N, 4), what was said of it before, or nan; what is
            asked now is added.
        verifier: gives the one that is asked, if there is anything to ask.
    """
    fresh = rows[known[rows, 0].isnan()]
    if len(fresh):
        logits, off = seen_by(verifier().to(device), pool.to(device), fresh.to(device))
        known[fresh] = torch.cat([logits[:, None], off], 1).to(known)
    return known[rows, 0].float(), known[rows, 1:].float()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name in ("data", "pool", "made"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--weights", default="joins")
    parser.add_argument("--kept", type=Path, help="folder of what the verifier said")
    parser.add_argument("--only", action="append", choices=STEPS, help="repeatable")
    parser.add_argument("--steps", type=int, default=JudgeSettings.steps, help="of each judge")
    parser.add_argument("--tries", type=int, default=SearchSettings.tries)
    parser.add_argument("--set", action="append", default=[], help="of TableSettings: free_mm2=15")
    arguments = parser.parse_args()
    wanted = arguments.only or STEPS
    bench = Bench(arguments)
    for step in ["nothing", *wanted]:
        if step not in JUDGING:
            bench.row(step, bench.network)
    judging = [step for step in wanted if step in JUDGING]
    for step in ["nothing", *judging] if judging else []:
        bench.row(step, bench.learned(step), "judged by what made puzzles teach: ")


class Bench:
    """The puzzles, and what is asked about them."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        network, _ = load_network("joins", JoinNetwork, JoinsConfig, arguments.weights)
        self.network, self.arguments = network.eval(), arguments
        self.settings = JudgeSettings(steps=arguments.steps)
        sources = {source.id: source for source in find_puzzles(arguments.data)}
        ids = json.loads((arguments.pool / "pool.json").read_text())["source"]["puzzles"]
        self.puzzles = [sources[i].load() for i in ids]
        self.pool, self.made = JoinPool.load(arguments.pool), JoinPool.load(arguments.made)
        kept = arguments.kept
        self.light = light_rows(self.pool)
        self.heard = Heard(network, "pool", self.pool, kept)
        self.heard_made = Heard(network, "made", self.made, kept)

    def learned(self, left_out: str) -> JoinNetwork:
        """The network with a screen and judges that have learned from the made pool, without a
        step."""
        network = JoinNetwork(self.network.config)
        pool = deaf(self.made, [left_out])
        network.screen = fit_judge([pool], [None], self.settings)
        rows = screened_rows(pool, network.screen, self.settings.shown)
        said, off = self.heard_made(rows)
        if left_out == "verifier":
            said = torch.zeros_like(said)
        shown = [pool.taken(rows)]
        network.worn, held = calibrated_judge(shown, [said], self.settings)
        network.light = network.worn
        network.context, _ = calibrated_judge(overheard(shown, held, [off]), held, self.settings)
        return network

    @torch.no_grad()
    def row(self, left_out: str, network: JoinNetwork, note: str = "") -> None:
        """Assembles all puzzles without a step, and prints what comes of it."""
        pool = deaf(self.pool, [left_out])
        rows = shown_rows(pool, network.screen, FinderSettings.shown, [left_out])
        said, off = self.heard(rows)
        own, lightly = pool.taken(rows), self.light[rows]
        if left_out == "verifier":
            said = torch.zeros_like(said)
        told = [judge(own.tensors["evidence"], said) for judge in (network.worn, network.light)]
        worn = told[0]
        if left_out != "context":
            worn = network.context(contexts(own, worn, off), worn)
        logits = torch.where(lightly, told[1], worn)
        off[lightly] = 0.0  # As the solver has it.
        how = Assembling([left_out], changed(self.arguments.set), self.arguments.tries)
        scores = []
        for number, puzzle in enumerate(self.puzzles):
            answer = assembled(puzzle, own, logits, off, number, how)
            scores.append({"id": puzzle.id, **score(puzzle, answer, "strict")})
        print(f"{note}without {left_out}: {summary(scores)}", flush=True)


def changed(words: Sequence[str]) -> TableSettings:
    """Settings by words such as `free_mm2=15`."""
    return TableSettings(
        **{name: float(value) for name, value in (each.split("=") for each in words)}
    )


def deaf(pool: JoinPool, without: Collection[str]) -> JoinPool:
    """The pool with no word of the evidence that is left out."""
    gone = tuple(name for step in without for name in HEARD.get(step, ()))
    told = pool.tensors["evidence"].clone()
    told[:, [k for k, name in enumerate(NAMES) if gone and name.startswith(gone)]] = 0.0
    return JoinPool({**pool.tensors, "evidence": told}, pool.pictures)


def shown_rows(
    pool: JoinPool, screen: JoinJudge, limit: int, without: Collection[str] = ()
) -> Tensor:
    """Of every pair the proposals that the verifier is shown: their numbers, pair by pair."""
    told = pool.tensors["evidence"]
    rows = torch.arange(len(pool))
    if "points" in without:
        # Correlation, whose placements have a score, was not asked about lightly worn pieces.
        rows = ((told[:, NAMES.index("score")] > 0) | light_rows(pool)).nonzero()[:, 0]
    if "screen" not in without:
        return rows[screened_rows(pool.taken(rows), screen, limit)]
    rank = told[rows, NAMES.index("log_rank")].expm1().round()
    return rows[rank < limit]


def light_rows(pool: JoinPool) -> Tensor:
    """Which proposals are of lightly worn puzzles, (K,): those that points alone proposed for."""
    puzzle = pool.tensors["puzzle"].long()
    scored = pool.tensors["evidence"][:, NAMES.index("score")] > 0
    worn = torch.zeros(int(puzzle.max()) + 1, dtype=torch.bool)
    worn[puzzle[scored]] = True
    return ~worn[puzzle]


def assembled(
    puzzle: Puzzle, pool: JoinPool, logits: Tensor, off: Tensor, number: int, how: Assembling
) -> Assembly:
    """The assembly that these logits and corrections of a puzzle's proposals lead to."""
    rims = rims_of(puzzle)
    rows = (pool.tensors["puzzle"] == number).nonzero()[:, 0]
    told = LIGHT if light_rows(pool)[rows].all() else how.table
    ends = torch.stack([pool.tensors[n][rows] for n in ("fixed", "moving")])
    first = int(ends.min())
    names = list(puzzle.ids)
    place = [pool.tensors[n][rows].double().numpy() for n in ("motion", "middle", "across")]
    moved = place[0]
    if "corrections" not in how.without:
        moved = corrected(place[0], off[rows].double().numpy(), *place[1:])
    candidates = [
        Candidate(names[a - first], names[b - first], as_motion(row), logit, as_motion(end))
        for (a, b), row, logit, end in zip(
            ends.T.tolist(), place[0], logits[rows].tolist(), moved, strict=True
        )
    ]
    settings = replace(told, overlap=0.0) if "overlap" in how.without else told
    offered = 1 if "alternatives" in how.without else GROWN_FROM
    table = Table(rims, candidates, settings, grown_from=offered)
    best = search(table, searching(how), seed=how.seed)[0]
    groups = []
    for group in best.groups:
        if "settling" not in how.without:
            joins = followed(table, group)
            weights = torch.tensor([c.logit for c in joins]).sigmoid().tolist()
            group = settle(group, joins, weights)
        groups.append(group if "refining" in how.without else refine(rims, group))
    groups.sort(key=lambda g: -sum(rims[i].area_mm2 for i in g))
    return Assembly.of(
        puzzle,
        *(
            {i: motions.pose_of(to_array(m), rims[i].centre_mm) for i, m in group.items()}
            for group in groups
        ),
    )


def searching(how: Assembling) -> SearchSettings:
    """Every piece is placed."""
    settings = SearchSettings(tries=how.tries, least=-float("inf"))
    if "tries" in how.without:
        settings = replace(settings, tries=1)
    if "comparing" in how.without:
        settings = replace(settings, tries=1, looked_at=1, rounds=0)
    return settings


def as_motion(row: NDArray[np.float64]) -> Motion:
    turn, x, y = row.tolist()
    return turn, complex(x, y)


def summary(rows: Sequence[Mapping[str, object]]) -> str:
    told = summarise(rows)
    low, high = told["q_pos_ci"]
    return ", ".join(f"{name} {told[name]:.3f}" for name in SHOWN) + f" [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    torch.set_num_threads(2)
    main()
