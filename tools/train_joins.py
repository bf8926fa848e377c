"""Trains all that joins are found with, on one machine, by the clock: the recipe of `joins`.

python tools/train_joins.py --data REPAIR --folds REPAIR/folds.json --out OUT \\
    [--pictures ARTWORKS] [--device cuda]

For `--prepare` minutes puzzles are made: painted ones in all styles, painted lattices, and ones cut
from pictures. The verifier learns from them for the first of the minutes of `--train`, while more
are made, and for each further number from all that are there by then. Meanwhile the solved real
puzzles of each fold are cut anew. Then the verifier is fine-tuned on real joins and on such cuts,
once for each set of folds that is left out and for each seed, side by side. Last, judges learn from
all pairs of real puzzles and of others that are made meanwhile.

OUT/weights has `joins.safetensors`, for the solver; `verifier.safetensors`; and, in `tuned-0`,
`tuned-1`, ..., `without.safetensors`, which has seen all, and the others, in half precision. With
these and with OUT/pools/real and OUT/pools/made, `benchmarks/join_folds.py` tells what they are
worth on real puzzles. What is finished is not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from reassembly.io.ids import read_ids
from reassembly.training.joins import SHARD

LEFT_OUT = ["", "-1", "-2", "-3", "-4", "-12", "-13", "-14", "-23", "-24", "-34"]
"""Folds that a verifier does not see: of two, one is judged and one teaches the judge."""
MADE_BESIDE = 24
"""Made puzzles of each kind that fine-tuning sees besides."""
REAL_COUNTS = 8
"""How often real joins count: they are few."""
SHARPER = ("spread_mm=1.2", "overlap=0.4", "turn_deg=4")
"""How proposals are searched for."""
LIGHT = ("paper", "pairingnet")
"""Presets of the puzzles that the judge of lightly worn pieces learns from."""
START_S = 20.0
"""What a run takes besides its training."""
PATIENCE = 60.0
"""Minutes that are waited for what has an end of its own."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="real puzzles")
    parser.add_argument("--folds", type=Path, required=True)
    parser.add_argument("--pictures", type=Path, help="to be cut besides what is painted")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--prepare", type=float, default=4, help="minutes")
    parser.add_argument("--train", type=float, nargs="+", default=[4, 5], help="minutes")
    parser.add_argument("--tune", type=float, default=7, help="minutes at most of each seed")
    parser.add_argument("--steps", type=int, default=2000, help="of fine-tuning")
    parser.add_argument("--batch", type=int, default=128, help="true joins; half of it to tune")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--per-pair", type=int, default=240)
    parser.add_argument("--real-per-pair", type=int, default=1000)
    parser.add_argument("--judged", type=int, default=40, help="made puzzles of each judge")
    parser.add_argument("--cuts", type=int, default=60, help="puzzles cut from those of each fold")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    Recipe(parser.parse_args()).follow()


class Recipe:
    """The runs, in their order."""

    def __init__(self, wanted: argparse.Namespace) -> None:
        self.wanted, self.out = wanted, wanted.out.resolve()
        self.begun = time.monotonic()
        self.out.mkdir(parents=True, exist_ok=True)
        self.kinds = {"painted": (), "lattice": ("--style", "lattice")}
        if wanted.pictures is not None:
            self.kinds["cut"] = ("--pictures", wanted.pictures.resolve())
        folds = json.loads(wanted.folds.read_text())["folds"]
        self.folds = [str(1 + k) for k in range(len(folds))]

    def follow(self) -> None:
        last = len(self.wanted.train) - 1
        judged: list[Run] = []
        _end_all(self._made(0), self.wanted.prepare)
        for number, minutes in enumerate(self.wanted.train):
            if number < last:
                more = self._made(number + 1)
            else:
                more, judged = self._real(), self._judged()
            _end_all(self._verifier(number, minutes), minutes + 2)
            _end_all(more, 0 if number < last else PATIENCE)
            learnt = len(list(self.out.glob(f"data-{number}/*/{SHARD}")))
            self._tell(f"verifier {number} has learned from {learnt} puzzles")
        shutil.copytree(self.out / f"verifier-{last}", self.out / "verifier", dirs_exist_ok=True)
        self._keep([self.out / "verifier"], self.out / "weights")
        for seed in range(self.wanted.seeds):
            _end_all([self._tuned(own, seed) for own in LEFT_OUT], self.wanted.tune + START_S / 60)
            found = self.out / f"tuned-{seed}"
            runs = [found / f"without{own}" for own in LEFT_OUT]
            self._keep(runs, self.out / "weights" / found.name)
            self._tell(f"fine-tuned with seed {seed}")
        _end_all(judged, PATIENCE)
        self._judges()
        self._tell("judges have learned")

    def _made(self, number: int) -> list[Run]:
        """Puzzles are made until somebody ends it."""
        if self._learnt(number):
            return []
        share = max(1, self.wanted.workers // len(self.kinds))
        # While a verifier learns, the GPU is left to it.
        device = "cpu" if number else self.wanted.device
        return [
            self._prepare(
                f"{kind}-{number}",
                *("--device", device),
                *("--preset", "realistic", "--count", 100_000, "--seed", 500 + 20_000 * number),
                *("--crops-only", "--per-pair", self.wanted.per_pair),
                *("--workers", share, *options),
            )
            for kind, options in self.kinds.items()
        ]

    def _real(self) -> list[Run]:
        """The real puzzles, and others that are cut from those of each fold."""
        share = max(1, self.wanted.workers // (1 + len(self.folds)))
        runs = []
        for own in self.folds:
            ids = f"{self.wanted.folds.resolve()}#{own}"
            common = ("--crops-only", "--per-pair", self.wanted.per_pair, "--workers", share)
            pictures = ("--pictures", self.wanted.data.resolve(), "--picture-ids", ids)
            made = ("--preset", "realistic", "--count", self.wanted.cuts, "--seed", 500)
            runs.append(self._prepare(f"recut-{own}", *made, *pictures, *common))
        return [
            *runs,
            self._prepare(
                "real",
                *("--data", self.wanted.data.resolve(), "--other-pairs", 100),
                *("--per-pair", self.wanted.real_per_pair, "--workers", share),
            ),
        ]

    def _judged(self) -> list[Run]:
        """All pairs of made puzzles, for the judges: of worn pieces, for the last one, of light."""
        share = max(1, self.wanted.workers // 4)
        common = ("--other-pairs", 100, "--workers", share)
        worn = ("--preset", "realistic", "--per-pair", self.wanted.real_per_pair, *common)
        light = ("--seed", 700, "--per-pair", 200, "--count", self.wanted.judged, *common)
        return [
            self._prepare("made", *worn, "--seed", 700, "--count", self.wanted.judged),
            self._prepare("context", *worn, "--seed", 1200, "--count", self.wanted.judged),
            *(self._prepare(f"light/{name}", "--preset", name, *light) for name in LIGHT),
        ]

    def _judges(self) -> None:
        """Screen, judges and calibration, with the verifier that has seen all."""
        final = self.out / "joins"
        if (final / "weights.safetensors").is_file():
            return
        pools, worn = self.out / "pools", self.out / "worn.safetensors"
        tuned = (self.out / f"weights/tuned-{seed}" for seed in range(self.wanted.seeds))
        folds = Path(__file__).parents[1] / "benchmarks/join_folds.py"
        real = ("--data", self.wanted.data, "--folds", self.wanted.folds, "--real", pools / "real")
        made = ("--made", pools / "made", *(word for own in tuned for word in ("--tuned", own)))
        asked = ("--device", self.wanted.device, "--ship", worn)
        self._finish("worn", (folds, *real, *made, *asked))
        before = worn
        for stage, data, out in (
            ("light-judge", "light", self.out / "light"),
            ("context-judge", "context", final),
        ):
            shutil.rmtree(out, ignore_errors=True)
            words = ("--stage", stage, "--data", pools / data, "--init", before, "--out", out)
            self._finish(stage, ("-m", "reassembly.cli", "train", *words))
            before = out
        self._keep([final], self.out / "weights")

    def _finish(self, name: str, words: Sequence[object]) -> None:
        """Runs Python to the end."""
        with (self.out / f"{name}.log").open("ab") as log:
            done = subprocess.run([sys.executable, *map(str, words)], stdout=log, stderr=log)
        if done.returncode:
            sys.exit(f"it failed: see the end of {self.out / name}.log")

    def _prepare(self, name: str, *options: object) -> Run:
        sharper = (word for each in SHARPER for word in ("--proposing", each))
        command = ("prepare", "--joins", *sharper, *options)
        return self._begin(f"pool-{name.replace('/', '-')}", command, f"pools/{name}")

    def _verifier(self, number: int, minutes: float) -> list[Run]:
        if self._learnt(number):
            return []
        data = self.out / f"data-{number}"
        shutil.rmtree(data, ignore_errors=True)
        for kind in self.kinds:
            for pool in range(number + 1):
                _link(self.out / f"pools/{kind}-{pool}", data / f"{kind}-{pool}")
        count = len(list(data.glob(f"*/{SHARD}")))
        held_out = ("--set", f"data.validation={min(32, count // 4)}")
        init = ("--init", self.out / f"verifier-{number - 1}") if number else ()
        return [
            self._begin(
                f"verifier-{number}",
                ("train", "--stage", "verifier", "--data", data, *init, *held_out),
                f"verifier-{number}",
                validate_every=2000,
                minutes=minutes - START_S / 60,
                warmup=100,
                batch=self.wanted.batch,
                steps=10**6,
            )
        ]

    def _tuned(self, own: str, seed: int) -> Run:
        name = f"without{own}"
        if (self.out / f"tuned-{seed}/{name}/weights.safetensors").is_file():
            return None
        data = self.out / f"mix/{name}"
        if not data.is_dir():
            real = self.out / "pools/real"
            ids = json.loads((real / "pool.json").read_text())["source"]["puzzles"]
            unseen = read_ids(f"{self.wanted.folds}#{','.join(own[1:])}") if own else []
            seen = [k for k, i in enumerate(ids) if i not in unseen]
            for again in range(REAL_COUNTS):
                _link(real, data / f"real-{again}", seen)
            for fold in self.folds:
                if fold not in own:
                    _link(self.out / f"pools/recut-{fold}", data / f"recut-{fold}")
            for kind in self.kinds:
                _link(self.out / f"pools/{kind}-0", data / kind, range(MADE_BESIDE))
        init = ("--init", self.out / "verifier")
        return self._begin(
            f"tuned-{seed}-{name}",
            ("train", "--stage", "verifier", "--data", data, *init, "--set", "data.validation=0"),
            f"tuned-{seed}/{name}",
            validate_every=0,
            minutes=self.wanted.tune,
            warmup=30,
            batch=self.wanted.batch // 2,
            steps=self.wanted.steps,
            learning_rate=0.0004,
            weight_decay=0.05,
            ema=0.98,
            seed=seed,
        )

    def _begin(
        self, name: str, command: Sequence[object], out: str, **training: float
    ) -> subprocess.Popen[bytes]:
        settings = [f"--set=training.{key}={value}" for key, value in training.items()]
        device: tuple[object, ...] = ()
        if training:
            shutil.rmtree(self.out / out, ignore_errors=True)  # It ended before its weights.
            precision = "bf16-mixed" if self.wanted.device == "cuda" else "32-true"
            settings.append(f"--set=training.precision={precision}")
            device = ("--device", self.wanted.device)
        words = [*command, *settings, *device, "--out", self.out / out]
        with (self.out / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "reassembly.cli", *map(str, words)],
                stdout=log,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )

    def _keep(self, runs: Iterable[Path], folder: Path) -> None:
        """Weights in half precision, which a solver reads as well."""
        from safetensors import safe_open
        from safetensors.torch import load_file, save_file

        folder.mkdir(parents=True, exist_ok=True)
        for run in runs:
            if not (path := run / "weights.safetensors").is_file():
                sys.exit(f"{run} has no weights: see the end of the logs in {self.out}")
            with safe_open(path, "pt") as file:
                about = file.metadata()
            full = load_file(path).items()
            half = {name: t.half() if t.is_floating_point() else t for name, t in full}
            save_file(half, folder / f"{run.name}.safetensors", metadata=about)

    def _learnt(self, number: int) -> bool:
        path: Path = self.out / f"verifier-{number}/weights.safetensors"
        return path.is_file()

    def _tell(self, what: str) -> None:
        print(f"{(time.monotonic() - self.begun) / 60:.1f} min: {what}", flush=True)


Run = subprocess.Popen[bytes] | None
"""None for one that ended earlier."""


def _end_all(runs: Iterable[Run], minutes: float) -> None:
    """Waits for runs, and ends them with all that they began when the time is up."""
    until = time.monotonic() + 60 * minutes
    going = [run for run in runs if run is not None]
    late = []
    for run in going:
        try:
            run.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGINT)
            late.append(run)
    until = time.monotonic() + START_S
    for run in late:
        try:
            run.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()


def _link(pool: Path, folder: Path, numbers: Iterable[int] | None = None) -> None:
    """The same pool in another place, or some shards of it."""
    folder.mkdir(parents=True)
    os.link(pool / "pool.json", folder / "pool.json")
    wanted = None if numbers is None else {f"joins-{k:05d}.safetensors" for k in numbers}
    for path in pool.glob(SHARD):
        if wanted is None or path.name in wanted:
            os.link(path, folder / path.name)


if __name__ == "__main__":
    main()
