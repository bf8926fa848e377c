"""Prints what ReassembleNet is worth on real puzzles by folds, with and without fine-tuning.

python benchmarks/folds.py --data REPAIR --folds REPAIR/folds.json --selector fps \
    --weights reassemblenet-learnable --tuned RUNS/learnable{fold}

`--tuned` names, with `{fold}`, the runs or weights that never saw that fold. Without it, one set of
weights solves all folds. Strict figures first, those of the protocol `paper` beside them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from reassembly.bench.frames import betrays_orientation, turn_back, turn_fragments
from reassembly.io.ids import read_ids
from reassembly.io.readers import find_puzzles
from reassembly.metrics import score, summarise
from reassembly.solvers import get_solver, solve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folds", type=Path, required=True)
    parser.add_argument("--solver", default="reassemblenet")
    parser.add_argument("--selector", default=None)
    parser.add_argument("--weights", default=None)
    parser.add_argument("--tuned", default=None)
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    sources = {source.id: source for source in find_puzzles(arguments.data)}
    rows: dict[str, list[dict[str, object]]] = {"strict": [], "paper": []}
    for fold in range(1, 1 + len(json.loads(arguments.folds.read_text())["folds"])):
        solver = get_solver(arguments.solver, **settings(arguments, fold))
        for puzzle_id in read_ids(f"{arguments.folds}#{fold}"):
            puzzle = sources[puzzle_id].load()
            for seed in range(arguments.seeds):
                if betrays_orientation(puzzle):
                    turned, angles = turn_fragments(puzzle, seed)
                    answer = turn_back(solve(turned, solver, seed=seed), angles, puzzle)
                else:
                    answer = solve(puzzle, solver, seed=seed)
                for protocol, found in rows.items():
                    found.append({"id": puzzle_id, **score(puzzle, answer, protocol)})
    for protocol, found in rows.items():
        mean = summarise(found)
        shown = {
            key: value if key.endswith("_ci") else round(value, 3)
            for key, value in mean.items()
            if isinstance(value, float) and "_over_" not in key and "_left_" not in key
        }
        interval = [round(x, 3) for x in mean["q_pos_ci"]]
        print(f"{protocol}: {mean['puzzles']} puzzles, q_pos interval {interval}: {shown}")


def settings(arguments: argparse.Namespace, fold: int) -> dict[str, str]:
    told = {"selector": arguments.selector, "weights": arguments.weights}
    if arguments.tuned is not None:
        path = Path(arguments.tuned.format(fold=fold))
        told["weights"] = str(path / "weights.safetensors" if path.is_dir() else path)
    return {key: value for key, value in told.items() if value is not None}


if __name__ == "__main__":
    main()
