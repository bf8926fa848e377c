"""Prints what `joins` is worth on real puzzles by folds: no puzzle judges itself.

reassembly prepare --joins --data REPAIR --other-pairs 100 --per-pair 250 --out REAL
reassembly prepare --joins --preset realistic --count 20 --seed 700 --other-pairs 100 --out MADE
python benchmarks/join_folds.py --data REPAIR --folds REPAIR/folds.json --real REAL --made MADE \\
    --verifier VERIFIER [--tuned TUNED [--tuned AGAIN]]

For each fold the screen and the judge learn from the other folds and from made puzzles; the
verifier has seen made ones only, or was fine-tuned on real ones without the fold. Then every puzzle
of the fold is assembled. Rows: the strict figures, with all pieces placed, and how true joins rank
among the proposals of their pair.

A fine-tuned verifier knows the joins it learned from too well. So the judge of a fold hears about
each puzzle from a verifier that has seen neither it nor the fold: TUNED holds weights, or runs of
`train --stage verifier`, named by the folds that they did not see, `without-1` to `without-4` and
`without-12` to `without-34`; of several such folders, runs of the same verifier that differ by
their seed, the mean of the weights is taken. `--without STEP` leaves a step out, to see what it is
worth.

`--ship FILE` writes weights for the solver instead, with the verifier `without`, which has seen
all, and with a second judge that has learned from the pools of lightly worn puzzles, `--light`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from join_steps import (
    STEPS,
    Assembling,
    assembled,
    changed,
    deaf,
    said_of,
    shown_rows,
    summary,
)
from safetensors.torch import load_file, save_file
from torch import Tensor

from reassembly.config import VerifierConfig
from reassembly.io.readers import PuzzleSource, find_puzzles
from reassembly.matching.evidence import NAMES
from reassembly.matching.verifier import JoinJudge, JoinVerifier
from reassembly.metrics import score
from reassembly.metrics.reliability import reliability_text
from reassembly.training.joins import FALSE, TRUE, JoinPool, searched
from reassembly.training.judging import (
    JudgeSettings,
    best_of_pairs,
    calibrated_judge,
    contexts,
    fit_alone,
    fit_judge,
    fit_network,
    overheard,
)
from reassembly.training.verifying import ranks
from reassembly.weights import load_network, save_weights

MEETING = 0.5
"""Strokes that go on in each other count so much at least."""
SHOWN = ("q_pos", "correct")


class Verifiers:
    """What verifiers say about proposals, each asked once."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.base, self.tuned, self.kept = arguments.verifier, arguments.tuned, arguments.kept
        self.device = arguments.device
        self.silent = {"verifier", "corrections"} <= {*arguments.without}
        self.said: dict[str, Tensor] = {}
        if self.kept and self.kept.is_file():
            self.said = load_file(self.kept)
        self._networks: dict[str, JoinVerifier] = {}

    def say(
        self, name: str, pool: JoinPool, rows: Tensor, unseen: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Logits (K,) and corrections (K, 3) of proposals (K,), those of a pair one after the
        other, by the verifier that has not seen these folds, numbered from 0.

        Args:
            name: of the pool.
        """
        if self.silent:
            return torch.zeros(len(rows)), torch.zeros(len(rows), 3)
        own = "base"
        if self.tuned:
            own = "-".join(["without", "".join(str(k + 1) for k in sorted(set(unseen)))])
            own = own.removesuffix("-")
        known = self.said.setdefault(f"{name} {own}", torch.full((len(pool), 4), torch.nan))
        return said_of(known, lambda: self.network(own), pool, rows, self.device)

    def keep(self) -> None:
        if self.kept:
            save_file(self.said, self.kept)

    def network(self, name: str) -> JoinVerifier:
        """The verifier that did not see some folds, such as `without-1`; `without` has seen all."""
        if name not in self._networks:
            paths = [self.base] if name == "base" else [weights_in(f, name) for f in self.tuned]
            networks = [
                load_network("verifier", JoinVerifier, VerifierConfig, str(path))[0]
                for path in paths
            ]
            self._networks[name] = mean_of(networks).to(self.device).eval()
        return self._networks[name]


def weights_in(folder: Path, name: str) -> Path:
    """Weights of this name, or the run of this name."""
    file = folder / f"{name}.safetensors"
    return file if file.is_file() else folder / name


def mean_of(networks: Sequence[JoinVerifier]) -> JoinVerifier:
    """A network whose weights are the mean of theirs."""
    states = [network.state_dict() for network in networks]
    means = {
        name: torch.stack([state[name].double() for state in states]).mean(0).to(first)
        for name, first in states[0].items()
    }
    networks[0].load_state_dict(means)
    return networks[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("data", "folds", "real"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument(
        "--verifier", type=Path, help="needed unless others are --tuned, or none is asked"
    )
    parser.add_argument("--made", type=Path, action="append", required=True, help="repeatable")
    parser.add_argument("--light", type=Path, action="append", default=[], help="repeatable")
    parser.add_argument(
        "--tuned", type=Path, action="append", default=[], help="verifiers fine-tuned; repeatable"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tries", type=int, default=6)
    parser.add_argument("--shown", type=int, default=JudgeSettings.shown)
    parser.add_argument("--steps", type=int, default=JudgeSettings.steps, help="of each judge")
    parser.add_argument("--kept", type=Path, help="what verifiers said, kept between runs")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--without", action="append", default=[], choices=STEPS, help="repeatable")
    parser.add_argument("--set", action="append", default=[], help="of TableSettings: unknown=-1.5")
    parser.add_argument("--oracle", action="store_true", help="what better steps would be worth")
    parser.add_argument("--ship", type=Path, help="write weights that have learned from all folds")
    arguments = parser.parse_args()
    ids = json.loads((arguments.real / "pool.json").read_text())["source"]["puzzles"]
    folds = json.loads(arguments.folds.read_text())["folds"]
    fold_of = torch.tensor([next(k for k, f in enumerate(folds) if i in f) for i in ids])
    sources = {source.id: source for source in find_puzzles(arguments.data)}
    without = arguments.without
    real = deaf(JoinPool.load(arguments.real), without)
    mades = {str(path): deaf(JoinPool.load(path), without) for path in arguments.made}
    how = Assembling(without, changed(arguments.set), arguments.tries, arguments.seed)
    of_row = fold_of[real.tensors["puzzle"].long()]
    settings = JudgeSettings(steps=arguments.steps, shown=arguments.shown, seed=arguments.seed)
    verifiers = Verifiers(arguments)
    if not (verifiers.silent or verifiers.base or verifiers.tuned or arguments.oracle):
        parser.error("--verifier is missing")
    if arguments.oracle:
        oracle(real, ids, sources, how)
        return
    if arguments.ship:
        lights = [JoinPool.load(path) for path in arguments.light]
        folders = [arguments.real, *arguments.made]
        ship(arguments.ship, real, of_row, mades, lights, verifiers, settings, folders)
        return
    rows, found, judged, touching = [], [], [], 0
    for fold in range(len(folds)):
        others = real.taken((of_row != fold).nonzero()[:, 0])
        screen = fit_judge([others, *mades.values()], [None] * (1 + len(mades)), settings)

        def said(
            name: str, pool: JoinPool, chosen: Tensor, unseen: Sequence[int], screen: JoinJudge
        ) -> Told:
            kept = chosen[shown_rows(pool.taken(chosen), screen, settings.shown, without)]
            return pool.taken(kept), *verifiers.say(name, pool, kept, unseen)

        heard = [
            said("real", real, (of_row == k).nonzero()[:, 0], (fold, k), screen)
            for k in range(len(folds))
        ]
        own, own_said, off = heard.pop(fold)
        # Real puzzles are one pool to the judge, whoever told about them.
        names = real.tensors
        merged = {n: torch.cat([pool.tensors[n] for pool, _, _ in heard]) for n in names}
        whole = JoinPool(merged, real.pictures)
        learned = [(whole, *(torch.cat([each[k] for each in heard]) for k in (1, 2)))]
        for name, made in mades.items():
            learned.append(said(name, made, torch.arange(len(made)), (fold,), screen))
        verifiers.keep()
        logits, judge = judged_by(learned, (own, own_said, off), settings, without)
        found.append(ranks(logits, own.tensors["label"], own.tensors["pair"]))
        best, true = best_of_pairs(own, logits)
        judged.append(torch.stack([judge.probability(best), true.float()], 1))
        touching += len(torch.unique(own.tensors["pair"][own.tensors["label"] == TRUE]))
        for number in (fold_of == fold).nonzero()[:, 0].tolist():
            puzzle = sources[ids[number]].load()
            answer = assembled(puzzle, own, logits, off, number, how)
            rows.append({"id": puzzle.id, **score(puzzle, answer, "strict")})
            print(puzzle.id, *(f"{name} {rows[-1][name]:.3f}" for name in SHOWN), flush=True)
    print(summary(rows))
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
    said, true = table.double().numpy().T
    print(reliability_text("real puzzles, by folds", said, true > 0, touching))


Told = tuple[JoinPool, Tensor, Tensor]
"""Proposals, and the verifier's logits and corrections of them."""


def judged_by(
    learned: Sequence[Told],
    asked: Told,
    settings: JudgeSettings,
    without: Collection[str] = (),
) -> tuple[Tensor, JoinJudge]:
    """Logits (K,) of the proposals that are asked about, by judges that learned from others, and
    the last of these judges."""
    pools, said, offs = map(list, zip(*learned, strict=True))
    pool, own, off = asked
    if "verifier" in without:
        said, own = [torch.zeros_like(each) for each in said], torch.zeros_like(own)
    if "corrections" in without:
        offs, off = [torch.zeros_like(each) for each in offs], torch.zeros_like(off)
    judge, held = calibrated_judge(pools, said, settings)
    with torch.no_grad():
        logits = judge(pool.tensors["evidence"], own)
    if "context" not in without:
        judge, _ = calibrated_judge(overheard(pools, held, offs), held, settings)
        with torch.no_grad():
            logits = judge(contexts(pool, logits, off), logits)
    return logits, judge


def oracle(
    real: JoinPool,
    ids: Sequence[str],
    sources: Mapping[str, PuzzleSource],
    how: Assembling,
) -> None:
    """Prints what perfect judgement of the same proposals, and perfect corrections besides, would
    be worth, and how matches alone rank true joins."""
    own = real.tensors
    support = own["evidence"][:, NAMES.index("support_worn")]
    place = ranks(support, own["label"], own["pair"]).float()
    told = ", ".join(f"{n}: {float((place < n).float().mean()):.3f}" for n in (1, 5, 20))
    print(f"{len(place)} true joins; first of their pair by matches alone: {told}")
    true = own["label"] == TRUE
    meet = own["evidence"][:, NAMES.index("marks_meet")] > MEETING
    shares = [float(meet[own["label"] == kind].float().mean()) for kind in (TRUE, FALSE)]
    print("marks meet in {:.3f} of the true proposals and {:.3f} of the false".format(*shares))
    logits, near = true * 12.0 - 6.0, true[:, None] * own["correction"]
    for name, off in (("judgement", torch.zeros_like(near)), ("judgement and poses", near)):
        rows = []
        for number, puzzle in enumerate(sources[i].load() for i in ids):
            answer = assembled(puzzle, real, logits, off, number, how)
            rows.append({"id": puzzle.id, **score(puzzle, answer, "strict")})
        print(f"perfect {name}:")
        print(summary(rows))


def ship(
    out: Path,
    real: JoinPool,
    of_row: Tensor,
    mades: Mapping[str, JoinPool],
    lights: Sequence[JoinPool],
    verifiers: Verifiers,
    settings: JudgeSettings,
    folders: Sequence[Path],
) -> None:
    """Writes what the solver uses: the verifier that has seen all folds, and a screen and a judge
    of all puzzles. About real ones, the judge hears from verifiers that had not seen them."""

    def look(number: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        if number:
            name, pool = list(mades.items())[number - 1]
            return verifiers.say(name, pool, rows, ())
        logits, off = torch.zeros(len(rows)), torch.zeros(len(rows), 3)
        for fold in of_row.unique().tolist():
            own = of_row[rows] == fold
            logits[own], off[own] = verifiers.say("real", real, rows[own], (fold,))
        return logits, off

    whole = verifiers.network("without")
    network = fit_network(
        [real, *mades.values()], whole, settings, look=look, propose=searched(folders)
    )
    if lights:

        def look_light(number: int, rows: Tensor) -> tuple[Tensor, Tensor]:
            return verifiers.say(f"light {number}", lights[number], rows, ())

        fit_alone(network, "light", lights, settings, look=look_light)
    verifiers.keep()
    save_weights(out, network.cpu().state_dict(), "joins", asdict(network.config))


if __name__ == "__main__":
    torch.set_num_threads(2)
    main()
