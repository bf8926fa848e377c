"""Fitting the judges of joins: explicit evidence and the verifier's word, weighed on proposals.

Pools count alike, however many proposals they hold, so that a few real puzzles are not outvoted by
many made ones. Probabilities are calibrated on puzzles that the judge did not learn from.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from reassembly.config import JoinsConfig, ProposeConfig, VerifierConfig
from reassembly.errors import InputError
from reassembly.matching.context import CONTEXT, Placed, context
from reassembly.matching.joins import FinderSettings, corrected
from reassembly.matching.verifier import FITS, HIDDEN, JoinJudge, JoinNetwork, JoinVerifier
from reassembly.training.joins import FALSE, TRUE, JoinPool, alike, join_folders, searched
from reassembly.training.verifying import seen_by
from reassembly.weights import load_network, load_weights, save_weights

__all__ = [
    "JudgeSettings",
    "best_of_pairs",
    "calibrated",
    "calibrated_judge",
    "contexts",
    "fit_alone",
    "fit_judge",
    "fit_network",
    "join_pools",
    "overheard",
    "screened_rows",
    "train_judge",
]

PARTS = 4
"""Calibration: each part of the puzzles is judged by what the others taught."""


@dataclass(frozen=True)
class JudgeSettings:
    """How the judge is fitted."""

    steps: int = 800
    rate: float = 5e-3
    weight_decay: float = 0.05
    true: int = 128
    """True proposals a step, of each pool."""
    false: int = 896
    """False ones."""
    hidden: int = HIDDEN
    fits: int = FITS
    """Judges that are fitted, each with draws of its own, and averaged: few puzzles decide."""
    shown: int = FinderSettings.shown
    """Proposals of a pair that the judge learns from: those that the screen lets through."""
    seed: int = 0


def fit_judge(
    pools: Sequence[JoinPool],
    seen: Sequence[Tensor | None],
    settings: JudgeSettings | None = None,
) -> JoinJudge:
    """A judge for the proposals of these pools.

    Args:
        seen: for each pool the verifier's logits (K,) of its proposals; None for a judge that is
            told nothing by it.
    """
    settings = settings or JudgeSettings()
    figures: list[Tensor] = []
    labels: list[Tensor] = []
    groups: list[list[Tensor]] = []
    for pool, own in zip(pools, seen, strict=True):
        label, first = pool.tensors["label"], sum(len(label) for label in labels)
        heard = torch.zeros(len(pool)) if own is None else own.float()
        figures.append(torch.cat([pool.tensors["evidence"], heard[:, None]], 1))
        labels.append(label)
        kinds = [(label == kind).nonzero()[:, 0] + first for kind in (TRUE, FALSE)]
        if all(map(len, kinds)):
            groups.append(kinds)
    if not groups:
        raise InputError("too few joins to learn from", "Prepare more puzzles")
    every, true = torch.cat(figures), torch.cat(labels) == TRUE
    seeds = range(settings.fits * settings.seed, settings.fits * (settings.seed + 1))
    return JoinJudge.mean_of([_fitted(every, true, groups, settings, seed) for seed in seeds])


def _fitted(
    figures: Tensor,
    true: Tensor,
    groups: Sequence[Sequence[Tensor]],
    settings: JudgeSettings,
    seed: int,
) -> JoinJudge:
    """One judge.

    Args:
        figures: (K, F): all that judges hear of a proposal.
        true: (K,).
        groups: of each pool the true proposals and the false ones, by number.
    """
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    judge = JoinJudge(settings.hidden, heard=figures.shape[1] - 1)
    judge.mean.copy_(figures.mean(0))
    judge.spread.copy_(figures.std(0).clamp_min(1e-3))
    optimiser = torch.optim.AdamW(
        judge.parameters(), lr=settings.rate, weight_decay=settings.weight_decay
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda s: 1 - s / settings.steps)
    judge.train()
    for _ in range(settings.steps):
        rows = torch.cat(
            [
                kind[torch.randint(len(kind), (count,), generator=generator)]
                for kinds in groups
                for kind, count in zip(kinds, (settings.true, settings.false), strict=True)
            ]
        )
        logits = judge(figures[rows, :-1], figures[rows, -1])
        loss = F.binary_cross_entropy_with_logits(logits, true[rows].float())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
    return judge.eval()


def calibrated(logits: Tensor, true: Tensor) -> tuple[float, float]:
    """The factor and the summand that make logits (K,) of joins probabilities, by maximum
    likelihood on joins of which is known whether they are true (K,)."""
    scale = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    logits, wanted = logits.double(), true.double()
    optimiser = torch.optim.LBFGS([scale], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = F.binary_cross_entropy_with_logits(scale[0] * logits + scale[1], wanted)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    factor, summand = scale.detach().tolist()
    return factor, summand


def join_pools(folder: str | PathLike[str]) -> list[JoinPool]:
    """The pool in a folder, or the pools in its subfolders.

    Raises:
        InputError: where one has no evidence.
    """
    pools = {place: JoinPool.load(place) for place in join_folders(folder)}
    for place, pool in pools.items():
        if "evidence" not in pool.tensors:
            raise InputError("holds no evidence", "Prepare it without --crops-only", place)
    return list(pools.values())


Look = Callable[[int, Tensor], tuple[Tensor, Tensor]]
"""Gives logits (K,) and corrections (K, 3) of proposals (K,) of a pool, by its number, where they
are not to be the verifier's own: it knows joins that it has learned from too well."""


def fit_network(
    pools: Sequence[JoinPool],
    verifier: JoinVerifier,
    settings: JudgeSettings | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    look: Look | None = None,
    propose: ProposeConfig | None = None,
) -> JoinNetwork:
    """Screen, verifier and judges together, calibrated; the judges are those of all puzzles.

    Args:
        pools: of all pairs of their puzzles, or probabilities come out too high.
        propose: how their proposals were searched for.
    """
    settings = settings or JudgeSettings()
    told = _counted(len(pools) + 2 * (PARTS + 1) + 1, progress)
    config = JoinsConfig(**asdict(verifier.config))
    network = JoinNetwork(config if propose is None else replace(config, propose=propose))
    network.verifier = verifier
    network.screen = fit_judge(pools, [None] * len(pools), settings)
    told("fitting the screen")
    shown, seen, off = _shown(network, pools, settings, told, look)
    network.worn, held = calibrated_judge(shown, seen, settings, told)
    network.light.load_state_dict(network.worn.state_dict())
    network.context, _ = calibrated_judge(overheard(shown, held, off), held, settings, told)
    return network.eval()


def fit_alone(
    network: JoinNetwork,
    only: str,
    pools: Sequence[JoinPool],
    settings: JudgeSettings | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    look: Look | None = None,
) -> None:
    """Gives a network one judge anew: that of lightly worn pieces, or the last one, which learns
    what placements say of each other.

    Args:
        only: `light`, from pools of such pieces alone, or `context`, from pools of all pairs of
            puzzles that the network has not learned from, or it trusts what it hears too much.
    """
    settings = settings or JudgeSettings()
    told = _counted(len(pools) + PARTS + 1, progress)
    shown, seen, off = _shown(network, pools, settings, told, look)
    if only == "light":
        network.light, _ = calibrated_judge(shown, seen, settings, told)
        return
    with torch.no_grad():
        said = [
            network.worn(pool.tensors["evidence"], own)
            for pool, own in zip(shown, seen, strict=True)
        ]
    network.context, _ = calibrated_judge(overheard(shown, said, off), said, settings, told)


def _shown(
    network: JoinNetwork,
    pools: Sequence[JoinPool],
    settings: JudgeSettings,
    told: Callable[[str], None],
    look: Look | None,
) -> tuple[list[JoinPool], list[Tensor], list[Tensor]]:
    """What the network's screen lets through of each pool, and what its verifier says."""
    shown, seen, off = [], [], []
    for number, pool in enumerate(pools):
        rows = screened_rows(pool, network.screen, settings.shown)
        logits, away = look(number, rows) if look else seen_by(network.verifier, pool, rows)
        shown.append(pool.taken(rows))
        seen.append(logits)
        off.append(away)
        told("looking at joins")
    return shown, seen, off


def overheard(
    pools: Sequence[JoinPool], logits: Sequence[Tensor], off: Sequence[Tensor]
) -> list[JoinPool]:
    """The pools with what their placements say of each other instead of evidence.

    Args:
        logits: of each pool (K,).
        off: of each pool the verifier's corrections (K, 3).
    """
    heard = []
    for pool, own, away in zip(pools, logits, off, strict=True):
        told = {**pool.tensors, "evidence": contexts(pool, own, away)}
        heard.append(JoinPool(told, pool.pictures))
    return heard


def contexts(pool: JoinPool, logits: Tensor, off: Tensor) -> Tensor:
    """(K, `len(CONTEXT)`): what the proposals of each puzzle say of each other.

    Args:
        logits: (K,).
        off: (K, 3), the verifier's corrections.
    """
    motion, middle, across = (
        pool.tensors[name].cpu().double().numpy() for name in ("motion", "middle", "across")
    )
    moved = corrected(motion, off.cpu().double().numpy(), middle, across)
    fixed, moving = (pool.tensors[name].cpu().long().numpy() for name in ("fixed", "moving"))
    likely = logits.detach().cpu().double().numpy()
    told = torch.zeros(len(pool), len(CONTEXT))
    puzzle = pool.tensors["puzzle"].cpu().numpy()
    for number in np.unique(puzzle):
        own = np.flatnonzero(puzzle == number)
        placed = Placed(fixed[own], moving[own], motion[own], moved[own], middle[own], likely[own])
        told[own] = torch.from_numpy(context(placed))
    return told


def calibrated_judge(
    shown: Sequence[JoinPool],
    seen: Sequence[Tensor],
    settings: JudgeSettings,
    told: Callable[[str], None] | None = None,
) -> tuple[JoinJudge, list[Tensor]]:
    """A judge of proposals, calibrated on puzzles that others like it did not learn from, and what
    those said of each pool, (K,).

    Args:
        seen: see `fit_judge`.
        told: is told each step.
    """
    told = told or _counted(PARTS + 1, None)
    held = [torch.zeros(len(pool)) for pool in shown]
    for part in range(PARTS):
        inside = [pool.tensors["puzzle"] % PARTS == part for pool in shown]
        rest = [(~own).nonzero()[:, 0] for own in inside]
        judge = fit_judge(
            [pool.taken(rows) for pool, rows in zip(shown, rest, strict=True)],
            [own[rows] for own, rows in zip(seen, rest, strict=True)],
            settings,
        )
        with torch.no_grad():
            for pool, own, said, rows in zip(shown, seen, held, inside, strict=True):
                said[rows] = judge(pool.tensors["evidence"][rows], own[rows])
        told("calibrating")
    judge = fit_judge(shown, seen, settings)
    told("fitting the judge")
    best = [best_of_pairs(pool, said) for pool, said in zip(shown, held, strict=True)]
    logits, true = (torch.cat(parts) for parts in zip(*best, strict=True))
    judge.scale.copy_(torch.tensor(calibrated(logits, true)))
    return judge, held


def _counted(steps: int, progress: Callable[[int, int, str], None] | None) -> Callable[[str], None]:
    """Tells each step that is done, by what was done in it."""
    number = itertools.count(1)

    def told(what: str) -> None:
        if progress is not None:
            progress(next(number), steps, what)

    return told


def screened_rows(pool: JoinPool, screen: JoinJudge, limit: int) -> Tensor:
    """Of every pair the proposals that the screen likes best, which are those that the verifier is
    shown: their numbers, pair by pair, the best first."""
    with torch.no_grad():
        logits = screen(pool.tensors["evidence"], torch.zeros(len(pool)))
    pair = pool.tensors["pair"]
    # Stable sorting twice: by pair, and within pairs the best first.
    order = logits.argsort(descending=True, stable=True)
    order = order[pair[order].argsort(stable=True)]
    _, counts = torch.unique_consecutive(pair[order], return_counts=True)
    first = (counts.cumsum(0) - counts).repeat_interleave(counts)
    rows: Tensor = order[torch.arange(len(order)) - first < limit]
    return rows


def best_of_pairs(pool: JoinPool, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Of every pair the likeliest placement that is no doubtful one: its logit, and whether it is
    true."""
    pair, label = pool.tensors["pair"], pool.tensors["label"]
    sure = (label <= TRUE).nonzero()[:, 0]
    _, place = torch.unique(pair[sure], return_inverse=True)
    best = torch.full((int(place.max()) + 1 if len(place) else 0,), -torch.inf)
    best = best.scatter_reduce(0, place, logits[sure], "amax")
    true = torch.zeros(len(best), dtype=torch.bool)
    winners = logits[sure] >= best[place]
    true[place[winners & (label[sure] == TRUE)]] = True
    return best, true


def train_judge(
    out: str | PathLike[str],
    data: str | PathLike[str],
    init: str,
    settings: JudgeSettings | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    *,
    only: str | None = None,
) -> Path:
    """Fits what `solvers.joins` uses, and writes it as `weights.safetensors` into a folder.

    Args:
        data: a pool of joins, or a folder of several.
        init: weights of the verifier, or of the kind `joins`, whose verifier is taken.
        only: see `fit_alone`: only this judge is fitted; all else is taken from `init`, which must
            be of the kind `joins`.
    """
    pools, propose = join_pools(data), searched(join_folders(data))
    if only is not None:
        network, _ = load_network("joins", JoinNetwork, JoinsConfig, init)
        if only != "light" and not alike(propose, network.config.propose):
            raise InputError(
                "its proposals were searched for otherwise than the network does",
                "Prepare it with the same --proposing",
                Path(data),
            )
        fit_alone(network.eval(), only, pools, settings, progress)
    else:
        network = fit_network(pools, _verifier(init), settings, progress, propose=propose)
    path = Path(out) / "weights.safetensors"
    save_weights(path, network.state_dict(), "joins", asdict(network.config))
    return path


def _verifier(weights: str) -> JoinVerifier:
    if load_weights(weights, "verifier", "joins").kind == "joins":
        return load_network("joins", JoinNetwork, JoinsConfig, weights)[0].verifier
    return load_network("verifier", JoinVerifier, VerifierConfig, weights)[0]
