"""Trains what joins are verified with, on one machine, by the clock: the recipe of `joins`.

python tools/train_joins.py --real REAL --folds REPAIR/folds.json --out OUT [--device cuda]

REAL is the pool of real puzzles that `benchmarks/join_folds.py` asks for. Puzzles are made for
`--prepare` minutes, the verifier learns from them for the first of the minutes of `--train`, while
more are made, and for each further number from all that are there by then. Then it is fine-tuned on
real joins, once for each set of folds that is left out and for each seed, side by side.

OUT/weights has `verifier.safetensors` and, in `tuned-0`, `tuned-1`, ..., `without.safetensors`,
which has seen all, and the others, in half precision. What is finished is not done again.
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
"""Made puzzles that fine-tuning sees besides."""
START_S = 20.0
"""What a run takes besides its training."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--real", type=Path, required=True)
    parser.add_argument("--folds", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--prepare", type=float, default=4, help="minutes")
    parser.add_argument("--train", type=float, nargs="+", default=[7, 8], help="minutes")
    parser.add_argument("--tune", type=float, default=3, help="minutes at most of each seed")
    parser.add_argument("--steps", type=int, default=800, help="of fine-tuning")
    parser.add_argument("--batch", type=int, default=128, help="true joins; half of it to tune")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--per-pair", type=int, default=240)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    Recipe(parser.parse_args()).follow()


class Recipe:
    """The runs, in their order."""

    def __init__(self, wanted: argparse.Namespace) -> None:
        self.wanted, self.out = wanted, wanted.out.resolve()
        self.real, self.begun = wanted.real.resolve(), time.monotonic()
        self.out.mkdir(parents=True, exist_ok=True)

    def follow(self) -> None:
        last = len(self.wanted.train) - 1
        _end(self._made(0), self.wanted.prepare)
        for number, minutes in enumerate(self.wanted.train):
            more = None if number == last else self._made(number + 1)
            _end(self._verifier(number, minutes), minutes + 2)
            _end(more, 0)
            learnt = len(list(self.out.glob(f"data-{number}/*/{SHARD}")))
            self._tell(f"verifier {number} has learned from {learnt} puzzles")
        shutil.copytree(self.out / f"verifier-{last}", self.out / "verifier", dirs_exist_ok=True)
        self._keep([self.out / "verifier"], self.out / "weights")
        for seed in range(self.wanted.seeds):
            runs = [self._tuned(own, seed) for own in LEFT_OUT]
            until = time.monotonic() + 60 * self.wanted.tune + START_S
            for run in runs:
                _end(run, (until - time.monotonic()) / 60)
            found = self.out / f"tuned-{seed}"
            self._keep(sorted(found.iterdir()), self.out / "weights" / found.name)
            self._tell(f"fine-tuned with seed {seed}")

    def _made(self, number: int) -> subprocess.Popen[bytes] | None:
        """Puzzles are made until somebody ends it."""
        if self._learnt(number):
            return None
        options = ("--preset", "realistic", "--count", 100_000, "--seed", 500 + 20_000 * number)
        kind = ("--crops-only", "--per-pair", self.wanted.per_pair)
        return self._begin(
            f"made-{number}",
            ("prepare", "--joins", *options, *kind, "--workers", self.wanted.workers),
            f"pools/{number}",
        )

    def _verifier(self, number: int, minutes: float) -> subprocess.Popen[bytes] | None:
        if self._learnt(number):
            return None
        data = self.out / f"data-{number}"
        shutil.rmtree(data, ignore_errors=True)
        for pool in range(number + 1):
            _link(self.out / f"pools/{pool}", data / str(pool))
        held_out = ("--set", f"data.validation={min(32, self._count() // 4)}")
        init = ("--init", self.out / f"verifier-{number - 1}") if number else ()
        return self._begin(
            f"verifier-{number}",
            ("train", "--stage", "verifier", "--data", data, *init, *held_out),
            f"verifier-{number}",
            validate_every=2000,
            minutes=minutes - START_S / 60,
            warmup=100,
            batch=self.wanted.batch,
            steps=10**6,
        )

    def _tuned(self, own: str, seed: int) -> subprocess.Popen[bytes] | None:
        name = f"without{own}"
        if (self.out / f"tuned-{seed}/{name}/weights.safetensors").is_file():
            return None
        data = self.out / f"mix/{name}"
        if not data.is_dir():
            numbers = ",".join(own[1:])
            unseen = read_ids(f"{self.wanted.folds}#{numbers}") if numbers else []
            ids = json.loads((self.real / "pool.json").read_text())["source"]["puzzles"]
            _link(self.real, data / "real", [k for k, i in enumerate(ids) if i not in unseen])
            _link(self.out / "pools/0", data / "made", range(MADE_BESIDE))
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
        if training:
            shutil.rmtree(self.out / out, ignore_errors=True)  # It ended before its weights.
            precision = "bf16-mixed" if self.wanted.device == "cuda" else "32-true"
            settings.append(f"--set=training.precision={precision}")
        words = [*command, *settings, "--device", self.wanted.device, "--out", self.out / out]
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

    def _count(self) -> int:
        return len(list(self.out.glob(f"pools/*/{SHARD}")))

    def _tell(self, what: str) -> None:
        print(f"{(time.monotonic() - self.begun) / 60:.1f} min: {what}", flush=True)


def _end(run: subprocess.Popen[bytes] | None, minutes: float) -> None:
    """Waits for a run, and ends it with all that it began when the time is up."""
    if run is None:
        return
    try:
        run.wait(max(0.0, 60 * minutes))
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGINT)
        try:
            run.wait(START_S)
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
