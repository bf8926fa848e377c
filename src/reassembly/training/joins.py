"""Joins to learn from: proposals of made or real puzzles, with what speaks for each and whether it
is true.

A pool of joins is a folder of `joins-00000.safetensors`, ...: the pictures of some puzzles' pieces,
and the proposals of pairs of them. What is false in it is what the proposer likes best: against
anything easier, a network would learn to see the gap and not the join.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from numpy.typing import NDArray

from reassembly._version import __version__
from reassembly.config import ProposeConfig, config_from_dict
from reassembly.errors import InputError
from reassembly.io.files import atomic_write
from reassembly.matching.motions import Motions, brought_back, matrices
from reassembly.puzzle import Puzzle
from reassembly.training.prepare import Made, PrepareProgress, Stored, begin_pool
from reassembly.workers import worker_pool

if TYPE_CHECKING:
    import torch

    from reassembly.matching.crops import Pictures
    from reassembly.matching.matcher import Matcher

__all__ = [
    "JoinPool",
    "JoinSettings",
    "Proposed",
    "alike",
    "join_folders",
    "offsets",
    "prepare_joins",
    "propose_joins",
    "searched",
]

FORMAT = 3
SHARD = "joins-*.safetensors"
CHUNK = 1
"""Puzzles of a shard: some take much longer than others."""
RIGHT_DEG, RIGHT_MM = 10.0, 10.0
"""A proposal no further off than this is true."""
WRONG_DEG, WRONG_MM = 16.0, 16.0
"""One that is further off than this in either is false; what lies between teaches nothing."""
FALSE, TRUE, DOUBTFUL = 0, 1, 2


@dataclass(frozen=True)
class JoinSettings:
    """Which proposals are kept."""

    keep: int = 120
    """Of a pair of worn pieces, by correlation; matching points add some."""
    others: float = 0.5
    """Pairs that do not touch, for each pair that does; all of them from 100 on."""
    matcher: str | None = None
    """Weights that match points of worn pieces: a name or a path; the package's own for None."""
    unmarked: bool = False
    """Whether strokes that people drew on the pieces are painted out first."""
    crops_only: bool = False
    """Whether only what the verifier learns from is kept, which is quicker: matching points do not
    propose, and no evidence is told."""
    propose: Mapping[str, float] = field(default_factory=dict)
    """What is otherwise in `config.ProposeConfig`."""


@dataclass(frozen=True, eq=False)
class Proposed:
    """Proposals of one puzzle or of many, K in all."""

    fixed: NDArray[np.int32]
    """(K,): numbers of pieces."""
    moving: NDArray[np.int32]
    motion: NDArray[np.float32]
    """(K, 3): of the moving piece into the fixed one's centred frame."""
    middle: NDArray[np.float32]
    across: NDArray[np.float32]
    """(K, 2) both: see `matching.evidence.Contact`."""
    evidence: NDArray[np.float32]
    """(K, F): see `matching.evidence.NAMES`; of `crops_only`, (K, 0)."""
    label: NDArray[np.uint8]
    """(K,): `FALSE`, `TRUE` or `DOUBTFUL`."""
    correction: NDArray[np.float32]
    """(K, 3): turn, shift along and shift across the break that would put it right."""
    pair: NDArray[np.int32]
    """(K,): numbers of pairs."""
    puzzle: NDArray[np.int32]
    """(K,): numbers of puzzles."""


def offsets(
    motions: Motions,
    truth: NDArray[np.float64],
    middle: NDArray[np.float32],
    across: NDArray[np.float32],
) -> NDArray[np.float64]:
    """(K, 3): the turn (radians) and the shift along and across the break (mm), at its middle, from
    each motion (K, 3) to the true one (3,)."""
    turn = (truth[0] - motions[:, 0] + np.pi) % (2 * np.pi) - np.pi
    own = brought_back(middle, motions)
    shift = own @ matrices(truth[:1])[0].T + truth[1:] - middle
    along = np.column_stack([across[:, 1], -across[:, 0]])
    return np.column_stack([turn, (shift * along).sum(axis=1), (shift * across).sum(axis=1)])


def propose_joins(
    puzzle: Puzzle,
    settings: JoinSettings,
    matchers: Sequence[Matcher],
    seed: int = 0,
    device: str = "cpu",
) -> tuple[Proposed, Pictures] | None:
    """The proposals of a puzzle with true poses; strays count as pieces that join nothing.

    Returns:
        None where no pair has any.
    """
    from reassembly.matching.crops import pictures_of
    from reassembly.matching.evidence import contacts, evidence
    from reassembly.matching.marks import without_marks
    from reassembly.matching.matcher import is_light
    from reassembly.matching.proposals import proposals
    from reassembly.matching.rim import motion_of, rims_of
    from reassembly.metrics.neighbours import Outlines, shared_edges

    if settings.unmarked:
        puzzle = replace(puzzle, fragments=tuple(map(without_marks, puzzle.fragments)))
    rims = rims_of(puzzle)
    truth = {i: pose for i, pose in (puzzle.truth or {}).items() if i not in puzzle.strays}
    touching = set(shared_edges(Outlines({i: puzzle[i].polygon for i in truth}), truth))
    pairs = _pairs(puzzle.ids, touching, settings.others, np.random.default_rng(seed))
    number = {i: k for k, i in enumerate(puzzle.ids)}
    seen = [matcher.see(puzzle.fragments, rims) for matcher in matchers]
    light = bool(matchers) and is_light(matchers, seen)
    searched = ProposeConfig(keep=settings.keep, **settings.propose)
    parts: list[Proposed] = []
    for a, b, motions, scores, matches in proposals(
        rims, matchers, seen, pairs, light=light, settings=searched, device=device
    ):
        contact = contacts(rims[a], rims[b], motions)
        label = np.full(len(motions), FALSE, np.uint8)
        away = np.zeros((len(motions), 3))
        if a in truth and b in truth:
            true = motion_of(truth[a].inverse() @ truth[b], rims[a], rims[b])
            away = offsets(motions, true, contact.middle, contact.across)
            turned, shifted = np.degrees(np.abs(away[:, 0])), np.hypot(*away[:, 1:].T)
            label[(turned < WRONG_DEG) & (shifted < WRONG_MM)] = DOUBTFUL
            if (min(a, b), max(a, b)) in touching:
                label[(turned < RIGHT_DEG) & (shifted < RIGHT_MM)] = TRUE
        count = len(motions)
        parts.append(
            Proposed(
                fixed=np.full(count, number[a], np.int32),
                moving=np.full(count, number[b], np.int32),
                motion=motions.astype(np.float32),
                middle=contact.middle,
                across=contact.across,
                evidence=(
                    np.zeros((count, 0), np.float32)
                    if settings.crops_only
                    else evidence(rims[a], rims[b], motions, scores, matches)
                ),
                label=label,
                correction=away.astype(np.float32),
                pair=np.full(count, len(parts), np.int32),
                puzzle=np.zeros(count, np.int32),
            )
        )
    return (_joined(parts), pictures_of(puzzle.fragments)) if parts else None


def _pairs(
    ids: Sequence[str],
    touching: set[tuple[str, str]],
    others: float,
    generator: np.random.Generator,
) -> list[tuple[str, str]]:
    """All pairs that touch, and some of the others."""
    ordered = sorted(ids)
    rest = [
        (a, b) for k, a in enumerate(ordered) for b in ordered[k + 1 :] if (a, b) not in touching
    ]
    count = min(len(rest), round(others * len(touching)) if others < 100 else len(rest))
    chosen = generator.permutation(len(rest))[:count]
    return [*sorted(touching), *(rest[k] for k in sorted(chosen))]


def _joined(parts: Sequence[Proposed]) -> Proposed:
    names = [entry.name for entry in fields(Proposed)]
    return Proposed(*(np.concatenate([getattr(part, n) for part in parts]) for n in names))


def prepare_joins(
    out: str | PathLike[str],
    source: Made | Stored,
    *,
    settings: JoinSettings | None = None,
    device: str = "cpu",
    workers: int | None = None,
    progress: PrepareProgress | None = None,
) -> dict[str, int]:
    """Writes a pool of joins. Shards that are there from an earlier run of the same wish are kept.

    Returns:
        How many `puzzles` were worked through now, and how many were `kept`.
    """
    from reassembly.matching.matcher import WORN
    from reassembly.weights import check_weights

    settings = settings or JoinSettings()
    check_weights(settings.matcher or WORN, "pairingnet")
    folder = Path(out)
    about = {
        "format": FORMAT,
        "reassembly": __version__,
        "count": source.count,
        "source": source.about(),
        "joins": asdict(settings),
    }
    begin_pool(folder, about)
    chunks = [
        range(first, min(first + CHUNK, source.count)) for first in range(0, source.count, CHUNK)
    ]
    todo = [k for k in range(len(chunks)) if not _shard(folder, k).is_file()]
    kept = done = source.count - sum(len(chunks[k]) for k in todo)
    joins = 0
    if progress is not None:
        progress(done, source.count, "")
    count = max(1, min(workers or os.cpu_count() or 1, len(todo)))
    with worker_pool(count, partial(_begin_worker, settings, device)) as pool:
        tasks = {
            pool.submit(_prepare_chunk, source.only(list(chunks[k])), list(chunks[k])): k
            for k in todo
        }
        try:
            for task in as_completed(tasks):
                k = tasks[task]
                content, found = task.result()
                atomic_write(_shard(folder, k), content)
                done, joins = done + len(chunks[k]), joins + found
                if progress is not None:
                    progress(done, source.count, f"{joins} true joins")
        except BrokenProcessPool:
            raise InputError(
                "a worker process was killed, probably for lack of memory",
                "Repeat the command to carry on, with fewer --workers",
                folder,
            ) from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return {"puzzles": done - kept, "kept": kept}


def _shard(folder: Path, number: int) -> Path:
    return folder / f"joins-{number:05d}.safetensors"


@dataclass
class _Worker:
    """What a worker process keeps between chunks."""

    settings: JoinSettings = field(default_factory=JoinSettings)
    device: str = "cpu"
    matchers: Sequence[Matcher] = ()


_WORKER = _Worker()


def _begin_worker(settings: JoinSettings, device: str) -> None:
    import torch

    from reassembly.matching.matcher import load_matchers

    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    _WORKER.settings, _WORKER.device = settings, device
    _WORKER.matchers = [] if settings.crops_only else load_matchers(settings.matcher)


def _prepare_chunk(source: Made | Stored, numbers: Sequence[int]) -> tuple[bytes, int]:
    """A shard, and how many true joins its proposals hold."""
    from safetensors.torch import save

    from reassembly.matching.crops import Pictures

    parts, pictures = [], []
    pieces = pairs = 0
    for number in numbers:
        puzzle, _ = source.load(number)
        found = propose_joins(puzzle, _WORKER.settings, _WORKER.matchers, number, _WORKER.device)
        if found is None:
            continue
        own, shown = found
        own.fixed[:] += pieces
        own.moving[:] += pieces
        own.pair[:] += pairs
        own.puzzle[:] = number
        pieces, pairs = pieces + len(shown.first), int(own.pair.max()) + 1
        parts.append(own)
        pictures.append(shown)
    if not parts:
        return save({}), 0
    import torch

    whole, shown = _joined(parts), Pictures.joined(pictures)
    tensors = {n: torch.from_numpy(getattr(whole, n)) for n in _names(Proposed)}
    tensors |= {n: getattr(shown, n) for n in _names(Pictures)}
    found_joins = len(np.unique(whole.pair[whole.label == TRUE]))
    return save({n: t.contiguous() for n, t in tensors.items()}), found_joins


def _names(kind: type[Any]) -> list[str]:
    return [entry.name for entry in fields(kind)]


def join_folders(folder: str | PathLike[str]) -> list[Path]:
    """The folder itself, if it is a pool of joins, or those of its subfolders that are.

    Raises:
        InputError: where there is none.
    """
    from reassembly.training.pool import pool_folders

    found = pool_folders(folder, SHARD)
    if not found:
        raise InputError(
            "holds no joins", "Make some with `reassembly prepare --joins`", Path(folder)
        )
    return found


def searched(folders: Sequence[Path]) -> ProposeConfig:
    """How the proposals of these pools were searched for; of a pair, as many as in the pool that
    has most.

    Raises:
        InputError: where pools differ in more than that.
    """
    found: list[ProposeConfig] = []
    for folder in folders:
        own = _searched(folder)
        if found and not alike(own, found[0]):
            raise InputError(
                f"its proposals were searched for otherwise than those of {folders[0]}",
                "Prepare them all with the same --proposing",
                folder,
            )
        found.append(own)
    return max(found, key=lambda own: own.keep)


def alike(one: ProposeConfig, other: ProposeConfig) -> bool:
    """Whether both search in the same way, however many proposals they keep."""
    return replace(one, keep=other.keep) == other


def _searched(folder: Path) -> ProposeConfig:
    file = folder / "pool.json"
    try:
        told = json.loads(file.read_text(encoding="utf-8"))["joins"]
        wanted = {**told["propose"], "keep": told["keep"]}
    except (OSError, ValueError, TypeError, KeyError):
        raise InputError(
            "does not tell how its proposals were searched for", "Prepare the pool again", file
        ) from None
    return config_from_dict(ProposeConfig, wanted, file)


class JoinPool:
    """Proposals in memory, or on a GPU."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], pictures: Pictures) -> None:
        self.tensors, self.pictures = dict(tensors), pictures

    @classmethod
    def load(cls, *folders: str | PathLike[str]) -> JoinPool:
        """Reads the shards of one folder or several; numbers of puzzles count on. Evidence is told
        where all of them have it."""
        import torch
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        from reassembly.matching.crops import Pictures

        tensors: dict[str, list[torch.Tensor]] = {}
        pictures: list[Pictures] = []
        pieces = pairs = puzzles = 0
        for folder in folders:
            paths = sorted(Path(folder).glob(SHARD))
            if not paths:
                raise InputError(
                    "holds no joins", "Make some with `reassembly prepare --joins`", Path(folder)
                )
            most = 0
            for path in paths:
                try:
                    shard = load_file(path)
                except (SafetensorError, OSError) as error:
                    raise InputError(
                        f"cannot be read ({error})", "Remove it and prepare the pool again", path
                    ) from None
                if not shard:
                    continue
                shard["fixed"] += pieces
                shard["moving"] += pieces
                shard["pair"] += pairs
                most = max(most, int(shard["puzzle"].max()) + 1)
                shard["puzzle"] += puzzles
                pictures.append(Pictures(*(shard[n] for n in _names(Pictures))))
                pieces += len(shard["first"])
                pairs = int(shard["pair"].max()) + 1
                for name in _names(Proposed):
                    tensors.setdefault(name, []).append(shard[name])
            puzzles += most
        if not pictures:
            raise InputError("holds no joins", "Prepare more puzzles", Path(folders[0]))
        if not all(told.shape[1] for told in tensors["evidence"]):
            del tensors["evidence"]
        return cls({n: torch.cat(t) for n, t in tensors.items()}, Pictures.joined(pictures))

    def __len__(self) -> int:
        return len(self.tensors["label"])

    def to(self, device: torch.device | str) -> JoinPool:
        moved = {n: t.to(device) for n, t in self.tensors.items()}
        return JoinPool(moved, self.pictures.to(device))

    def part(self, wanted: Callable[[torch.Tensor], torch.Tensor]) -> JoinPool:
        """Proposals of those puzzles for whose numbers `wanted` holds."""
        return self.taken(wanted(self.tensors["puzzle"]).nonzero()[:, 0])

    def taken(self, rows: torch.Tensor) -> JoinPool:
        """These proposals, by number, in this order."""
        return JoinPool({n: t[rows] for n, t in self.tensors.items()}, self.pictures)
