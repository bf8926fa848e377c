"""Kills commands at random moments, looks at what they leave, and lets them carry on.

python benchmarks/soak.py [--kills 100] [--seed 0] [--only bench] [--out soak.md]

After every kill, each file that a reader would open has to open. A command that was killed is
given again until it ends; what it has made then has to equal what an undisturbed run makes. Edits
that the workbench has acknowledged have to be there after it was killed, in order, none of them
twice. Half of the kills take the process alone, as a system short of memory does, and its workers
have to end by themselves; the others take all of its processes, as a power cut does. Half of the
kills wait for a file to be half written, since that takes moments.

The report is written anew after every kill, so that it is there when the soak itself is stopped.
Exits with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import platform
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import yaml

from reassembly._version import __version__
from reassembly.errors import InputError
from reassembly.io.files import TEMPORARY, atomic_write
from reassembly.io.images import read_image
from reassembly.io.readers import find_puzzles

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-m", "reassembly.cli"]
MADE = ["--preset", "paper", "--pieces", "3", "--size", "256"]
KILLS_A_ROUND = 6
"""At most, before a command may end undisturbed."""
PATIENCE_S = 300.0
ORPHANS_S = 10.0
"""How long workers may outlive the process that started them."""


@dataclass
class Tally:
    """What became of one command."""

    name: str
    kills: int = 0
    rounds: int = 0
    """How often it came to its end and was compared."""
    caught: int = 0
    """Kills that left something half written, under a temporary name."""
    faults: list[str] = field(default_factory=list)
    tell: Callable[[], None] = field(default=lambda: None, repr=False)
    """Called after each kill and each comparison."""

    def killed(self) -> None:
        self.kills += 1
        self.tell()

    def compared(self, faults: Iterable[str] = ()) -> None:
        self.rounds += 1
        self.faults += faults
        self.tell()


@dataclass(frozen=True)
class Target:
    """A command that makes a folder.

    Attributes:
        begin: its arguments, given the folder.
        again: its arguments after a kill.
        differences: between an undisturbed folder and another one.
    """

    begin: Callable[[Path], list[str]]
    again: Callable[[Path], list[str]]
    differences: Callable[[Path, Path], list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="in all, shared among commands")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--only", action="append", choices=[*TARGETS], help="repeatable")
    parser.add_argument("--out", type=Path, help="also write the report here, Markdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        started = time.monotonic()

        def text(tallies: list[Tally]) -> str:
            return report(tallies, options.kills, options.seed, time.monotonic() - started)

        def save(tallies: list[Tally]) -> None:
            if options.out is not None:
                atomic_write(options.out, text(tallies))

        tallies = soak(Path(folder), options.kills, options.seed, options.only, save)
        print(text(tallies))
    sys.exit(any(tally.faults for tally in tallies))


def soak(
    work: Path,
    kills: int,
    seed: int,
    only: list[str] | None = None,
    save: Callable[[list[Tally]], None] | None = None,
) -> list[Tally]:
    """Kills every target its share of times, in folders under `work`.

    Args:
        save: given the tallies whenever they change.
    """
    names = only or [*TARGETS]
    tallies: list[Tally] = []
    weights = [TARGETS[name].weight for name in names]
    ends = [round(kills * sum(weights[:k]) / sum(weights)) for k in range(len(names) + 1)]
    for name, (before, after) in zip(names, pairwise(ends), strict=True):
        rng = random.Random(f"{seed} {name}")
        folder = work / name
        folder.mkdir()
        begun = time.monotonic()
        tally = Tally(name, tell=lambda: save and save(tallies))
        tallies.append(tally)
        TARGETS[name].soak(folder, after - before, rng, tally)
        took_s = time.monotonic() - begun
        print(f"{name}: {took_s:.0f} s, {tally}", file=sys.stderr, flush=True)
    return tallies


def report(tallies: list[Tally], kills: int, seed: int, seconds: float) -> str:
    done = sum(tally.kills for tally in tallies)
    lines = [
        f"reassembly {__version__}, Python {platform.python_version()}, {platform.system()} "
        f"{platform.machine()}; seed {seed}, {done} of {kills} kills in {seconds / 60:.0f} "
        "minutes.",
        "",
        "| command | kills | in the middle of writing a file | carried on to the end, and compared "
        "| faults |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for t in tallies:
        lines.append(f"| {t.name} | {t.kills} | {t.caught} | {t.rounds} | {len(t.faults)} |")
    total = Tally("in all")
    for t in tallies:
        total.kills, total.rounds = total.kills + t.kills, total.rounds + t.rounds
        total.caught, total.faults = total.caught + t.caught, total.faults + t.faults
    lines.append(
        f"| {total.name} | {total.kills} | {total.caught} | {total.rounds} | {len(total.faults)} |"
    )
    lines += ["", *(f"- {t.name}: {fault}" for t in tallies for fault in t.faults)]
    return "\n".join(lines).rstrip() + "\n"


# Commands that make a folder


def generate(work: Path, kills: int, rng: random.Random, tally: Tally) -> None:
    command = ["generate", "--count", "6", "--seed", "3", *MADE, "--workers", "2", "--out"]
    target = Target(
        lambda out: [*command, str(out)],
        lambda out: [*command, str(out), "--resume"],
        partial(different_files, but=()),
    )
    kill_often(target, work, kills, rng, tally)


def bench(work: Path, kills: int, rng: random.Random, tally: Tally) -> None:
    data = work / "data"
    finish(["generate", "--count", "4", "--seed", "5", *MADE, "--workers", "1", "--out", str(data)])
    command = ["bench", "--data", str(data), "--solver", "greedy", "--workers", "2", "--out"]

    def arguments(out: Path) -> list[str]:
        return [*command, str(out)]

    kill_often(Target(arguments, arguments, different_records), work, kills, rng, tally)


def train(work: Path, kills: int, rng: random.Random, tally: Tally) -> None:
    pool = work / "pool"
    made = ["prepare", "--count", "12", *MADE, "--encoder", "none", "--workers", "1", "--out"]
    finish([*made, str(pool)])
    more = {"stage": "pretrain", "config": str(ROOT / "configs" / "tiny.yaml"), "data": str(pool)}

    def code(out: Path, **arguments: Any) -> list[str]:
        # The command's own checkpoints are minutes apart.
        call = {"device": "cpu", "checkpoint_minutes": 0.01, **arguments}
        return [f"from reassembly.training.run import train; train({str(out)!r}, **{call!r})"]

    changes = ["training.batch=2", "training.steps=20", "training.validate_every=8"]

    def again(out: Path) -> list[str]:
        begun = (out / "run.json").is_file()
        return code(out, resume=True) if begun else code(out, changes=changes, **more)

    target = Target(lambda out: code(out, changes=changes, **more), again, different_weights)
    kill_often(target, work, kills, rng, tally, program=[sys.executable, "-c"])


def index(work: Path, kills: int, rng: random.Random, tally: Tally) -> None:
    data = work / "data"
    finish(["generate", "--count", "8", "--seed", "5", *MADE, "--workers", "1", "--out", str(data)])

    def arguments(out: Path) -> list[str]:
        return ["index", str(data), "--out", str(out)]

    target = Target(arguments, arguments, partial(different_files, but=(), bytes_too=False))
    kill_often(target, work, kills, rng, tally)


def kill_often(
    target: Target,
    work: Path,
    kills: int,
    rng: random.Random,
    tally: Tally,
    program: list[str] | None = None,
) -> None:
    """Rounds of some kills and an end, until all kills are done."""
    program = program or COMMAND
    whole = work / "whole"
    first_s, usual_s = undisturbed([*program, *target.begin(whole)], whole)
    while tally.kills < kills:
        out = work / f"round-{tally.rounds}"
        left = min(rng.randint(1, KILLS_A_ROUND), kills - tally.kills)
        arguments = target.begin(out)
        while left:
            process = start([*program, *arguments])
            # Imports are not worth being killed.
            moment_s, lurk = rng.uniform(0.9 * first_s, usual_s), rng.random() < 0.5
            if not ended(process, moment_s) and (not lurk or caught_writing(process, out)):
                kill(process, rng.random() < 0.5, tally)
                look_at(out, tally)
                tally.killed()
                left -= 1
            elif process.returncode != 0:
                tally.faults.append(f"it did not carry on: {said(process)}")
                break
            else:
                break
            arguments = target.again(out)
        try:
            finish(target.again(out), program)
        except RuntimeError as error:
            tally.compared([f"it did not carry on: {error}"])
        else:
            tally.compared([*left_over(out), *target.differences(whole, out)])
        shutil.rmtree(out, ignore_errors=True)


def undisturbed(command: list[str], out: Path) -> tuple[float, float]:
    """Seconds until the folder shows, and until the end."""
    begun = time.monotonic()
    process = start(command)
    first = None
    while process.poll() is None:
        if first is None and out.exists():
            first = time.monotonic() - begun
        time.sleep(0.01)
    usual = time.monotonic() - begun
    if process.returncode != 0:
        raise RuntimeError(said(process))
    return first or usual, usual


def start(command: list[str]) -> subprocess.Popen[bytes]:
    # One thread, so that sums are added up in one order.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    log = tempfile.TemporaryFile()  # noqa: SIM115
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    process.log = log  # type: ignore[attr-defined]
    return process


def said(process: subprocess.Popen[bytes]) -> str:
    log = process.log  # type: ignore[attr-defined]
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    return f"exit code {process.returncode}, {' / '.join(lines[-3:])}"


def ended(process: subprocess.Popen[bytes], within_s: float) -> bool:
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def caught_writing(process: subprocess.Popen[bytes], out: Path) -> bool:
    """Waits until something is half written; False if the process ends before that."""
    while process.poll() is None:
        # `os.walk`, unlike `rglob`, takes no offence at folders that are renamed under its eyes.
        for folder, folders, files in os.walk(out):
            inside = Path(folder).relative_to(out)
            if any(half_written(inside / name) for name in (*folders, *files)):
                return True
        time.sleep(0.0005)
    return False


def finish(arguments: list[str], program: list[str] | None = None) -> None:
    process = start([*(program or COMMAND), *arguments])
    if not ended(process, PATIENCE_S):
        kill(process, True, Tally(""))
        raise RuntimeError(f"it hangs: {arguments}")
    if process.returncode != 0:
        raise RuntimeError(said(process))


def kill(process: subprocess.Popen[bytes], everyone: bool, tally: Tally) -> None:
    """Ends the process without asking, and its workers with it or, at once, by themselves."""
    try:
        helpers = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        helpers = []
    process.kill()
    if everyone:
        for helper in helpers:
            with suppress(psutil.NoSuchProcess):
                helper.kill()
    process.wait()
    _, alive = psutil.wait_procs(helpers, ORPHANS_S)
    for helper in alive:
        tally.faults.append(f"a worker ran on for {ORPHANS_S:.0f} s after its command was killed")
        helper.kill()


# What may be found afterwards


def look_at(out: Path, tally: Tally) -> None:
    """Opens every file that a reader would open."""
    files = [path for path in sorted(out.rglob("*")) if path.is_file()]
    half = [path for path in files if half_written(path.relative_to(out))]
    tally.caught += bool(half)
    for path in files:
        if path in half:
            continue
        try:
            opens(path)
        except Exception as error:
            where = path.relative_to(out).as_posix()
            tally.faults.append(f"{where} was half written: {type(error).__name__}: {error}")
    if any(path.name == "data.json" for path in files if path not in half):
        try:
            for source in find_puzzles(out):
                source.load(strict=True)
        except InputError as error:
            tally.faults.append(f"a puzzle was half written: {error}")


def half_written(path: Path) -> bool:
    return any(part.startswith(TEMPORARY) for part in path.parts) or path.suffix == ".part"


def left_over(out: Path) -> Iterator[str]:
    for path in sorted(out.rglob("*")):
        if path.is_file() and half_written(path.relative_to(out)):
            yield f"{path.relative_to(out).as_posix()} stays for good"


def opens(path: Path) -> None:
    data = path.read_bytes()
    match path.suffix:
        case ".json":
            json.loads(data)
        case ".yaml":
            yaml.safe_load(data)
        case ".csv":
            rows = list(csv.reader(io.StringIO(data.decode("utf-8"))))
            if not rows or len({len(row) for row in rows}) != 1:
                raise ValueError("its rows are not equally long")
        case ".md":
            if not data.decode("utf-8").endswith("\n"):
                raise ValueError("its last line is not whole")
        case ".png":
            read_image(data)
        case ".npz":
            with np.load(io.BytesIO(data)) as arrays:
                for name in arrays.files:
                    arrays[name]
        case ".safetensors":
            from safetensors.numpy import load

            load(data)
        case ".ckpt":
            import torch

            torch.load(io.BytesIO(data), weights_only=True)
        case ".sqlite" | ".db":
            with sqlite3.connect(path) as connection:
                (answer,) = connection.execute("PRAGMA integrity_check").fetchone()
            if answer != "ok":
                raise ValueError(answer)


def contents(folder: Path) -> dict[str, Path]:
    """Files that are in their places, by name."""
    files = {p.relative_to(folder): p for p in folder.rglob("*") if p.is_file()}
    return {name.as_posix(): p for name, p in files.items() if not half_written(name)}


def different_files(
    whole: Path, other: Path, but: tuple[str, ...], bytes_too: bool = True
) -> list[str]:
    """Names of files that one of the two lacks, or that differ."""
    one, two = contents(whole), contents(other)
    found = [f"{name} is there once only" for name in sorted(one.keys() ^ two.keys())]
    same = sorted(one.keys() & two.keys() - set(but)) if bytes_too else []
    found += [f"{n} differs" for n in same if one[n].read_bytes() != two[n].read_bytes()]
    return found


def different_records(whole: Path, other: Path) -> list[str]:
    """Of a bench: all but times and memory has to be the same."""
    one, two = contents(whole), contents(other)
    found = [f"{name} is there once only" for name in sorted(one.keys() ^ two.keys())]
    measured = {"seconds", "peak_memory_mb"}
    for name in sorted(one.keys() & two.keys()):
        if name.startswith("predictions/") and one[name].read_bytes() != two[name].read_bytes():
            found.append(f"{name} differs")
        if name.startswith("records/"):
            first, second = (
                {k: v for k, v in json.loads(files[name].read_bytes()).items() if k not in measured}
                for files in (one, two)
            )
            if first != second:
                keys = [k for k in first if first[k] != second.get(k)]
                found.append(f"{name} differs in {', '.join(keys)}")
    return found


def different_weights(whole: Path, other: Path) -> list[str]:
    """Of a training run: the weights, bit by bit, and the learning curve but for its speed."""
    found = []
    if (whole / "weights.safetensors").read_bytes() != (other / "weights.safetensors").read_bytes():
        found.append("the weights differ")

    def curve(folder: Path) -> list[dict[str, str]]:
        with (folder / "metrics.csv").open(encoding="utf-8", newline="") as file:
            return [
                {key: value for key, value in row.items() if key != "steps_a_second"}
                for row in csv.DictReader(file)
            ]

    if [row["step"] for row in curve(whole)] != [row["step"] for row in curve(other)]:
        found.append("the learning curve has other steps")
    return found


# The workbench


def serve(work: Path, kills: int, rng: random.Random, tally: Tally) -> None:
    """A workbench that is killed while one window edits and another brings pictures in."""
    workspace = work / "workspace"
    data = work / "data"
    finish(["generate", "--count", "1", "--seed", "5", *MADE, "--workers", "1", "--out", str(data)])
    pictures = [path.read_bytes() for path in sorted(data.rglob("fragment_*.png"))]
    acknowledged = 0
    project = hypothesis = piece = ""
    while True:
        server, client = open_workbench(workspace)
        try:
            if not project:
                made = ask(client.post("/api/projects", json={"name": "Soak"}))
                project, hypothesis = made["id"], made["hypotheses"][0]["id"]
                bring_in(client, project, "first.png", pictures[0])
                while not (found := ask(client.get(f"/api/projects/{project}/pieces"))):
                    time.sleep(0.05)
                piece = found[0]["id"]
            place = f"/api/projects/{project}/hypotheses/{hypothesis}"
            acknowledged = compare_edits(client, place, piece, acknowledged, tally)
            tally.compared(broken_pictures(client, project))
            if tally.kills == kills:
                return
            edits = Edits(str(client.base_url), place, piece, acknowledged)
            edits.start()
            name = f"piece-{tally.kills}.png"
            sending = threading.Thread(
                target=bring_in,
                args=(client, project, name, pictures[tally.kills % len(pictures)]),
            )
            sending.start()
            time.sleep(rng.uniform(0.02, 1.5))
            kill(server, rng.random() < 0.5, tally)
            edits.join()
            sending.join()
            acknowledged = edits.number
            look_at(workspace, tally)
            tally.killed()
        finally:
            client.close()
            if server.poll() is None:
                kill(server, True, tally)


class Edits(threading.Thread):
    """Puts a piece at 1 mm, 2 mm, ... and counts what was acknowledged, until nobody answers."""

    def __init__(self, url: str, place: str, piece: str, number: int) -> None:
        super().__init__()
        self.url, self.place, self.piece, self.number = url, place, piece, number

    def run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=60) as client, suppress(httpx.HTTPError):
            while True:
                operation = {"op": "place", "piece": self.piece, "x_mm": float(self.number + 1)}
                body = {"operations": [operation], "author": "Ada", "client": "w1"}
                client.post(f"{self.place}/edits", json=body).raise_for_status()
                self.number += 1


def open_workbench(workspace: Path) -> tuple[subprocess.Popen[bytes], httpx.Client]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    arguments = ["serve", "--no-browser", "--workspace", str(workspace), "--port", str(port)]
    server = start([*COMMAND, *arguments])
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and server.poll() is None:
        with suppress(httpx.TransportError):
            client.get("/api/projects")
            return server, client
        time.sleep(0.05)
    raise RuntimeError(f"the workbench does not start: {said(server)}")


def ask(response: httpx.Response) -> Any:
    response.raise_for_status()
    return response.json()


def bring_in(client: httpx.Client, project: str, name: str, picture: bytes) -> None:
    """Uploads and imports a picture, as far as the server lives."""
    with suppress(httpx.HTTPError):
        place = f"/api/projects/{project}"
        upload = ask(client.post(f"{place}/uploads", files=[("files", (name, picture))]))
        while ask(client.get(f"/api/jobs/{upload['job']['id']}"))["state"] in {"queued", "running"}:
            time.sleep(0.02)
        wanted = {"upload": upload["id"], "mm_per_px": 0.5}
        client.post(f"{place}/imports", json=wanted).raise_for_status()


def compare_edits(
    client: httpx.Client, place: str, piece: str, acknowledged: int, tally: Tally
) -> int:
    """Returns the number of the last edit that is there: one more may be than was acknowledged."""
    history: list[dict[str, Any]] = []
    while not history or history[-1]["revision"] > 1:
        before = {"before": history[-1]["revision"]} if history else {}
        page = ask(client.get(f"{place}/history", params={"limit": 1000, **before}))
        if not page:
            break
        history += page
    revisions = [event["revision"] for event in history]
    newest = len(history)
    if revisions != list(range(newest, 0, -1)):
        tally.faults.append("a revision is there twice, or not at all")
    if newest - acknowledged not in {0, 1}:
        tally.faults.append(f"{newest} edits are there, and {acknowledged} were acknowledged")
    if newest:
        state = ask(client.get(place))["state"]
        at = state["placements"][piece]["x_mm"]
        if at != newest:
            tally.faults.append(f"the piece lies at {at} mm after {newest} edits")
    return newest


def broken_pictures(client: httpx.Client, project: str) -> Iterator[str]:
    for piece in ask(client.get(f"/api/projects/{project}/pieces")):
        response = client.get(f"/api/pictures/{piece['picture']}/full.png")
        try:
            response.raise_for_status()
            read_image(response.content)
        except (httpx.HTTPError, InputError) as error:
            yield f"the picture of {piece['name']} is not there: {error}"


@dataclass(frozen=True)
class Share:
    """How a command is killed, and how often for each kill of the others: some take long."""

    soak: Callable[[Path, int, random.Random, Tally], None]
    weight: int


TARGETS = {
    "generate": Share(generate, 3),
    "train": Share(train, 1),
    "bench": Share(bench, 2),
    "serve": Share(serve, 4),
    "index": Share(index, 2),
}


if __name__ == "__main__":
    main()
