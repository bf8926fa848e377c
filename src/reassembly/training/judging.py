"""Fitting the judges of joins: explicit evidence and the verifier's word, weighed on proposals.

Pools count alike, however many proposals they hold, so that a few real puzzles are not outvoted by
many made ones. Probabilities are calibrated on puzzles that the judge did not learn from.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from reassembly.config import VerifierConfig
from reassembly.errors import InputError
from reassembly.matching.joins import FinderSettings
from reassembly.matching.verifier import FITS, HIDDEN, JoinJudge, JoinNetwork, JoinVerifier
from reassembly.training.joins import FALSE, TRUE, JoinPool, join_folders
from reassembly.training.verifying import seen_by
from reassembly.weights import load_network, load_weights, save_weights

__all__ = [
    "JudgeSettings",
    "best_of_pairs",
    "calibrated",
    "calibrated_judge",
    "fit_judge",
    "fit_light",
    "fit_network",
    "join_pools",
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
    judge = JoinJudge(settings.hidden)
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
    """The pool in a folder, or the pools in its subfolders."""
    return [JoinPool.load(place) for place in join_folders(folder)]


def fit_network(
    pools: Sequence[JoinPool],
    verifier: JoinVerifier,
    settings: JudgeSettings | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    look: Callable[[int, Tensor], Tensor] | None = None,
) -> JoinNetwork:
    """Screen, verifier and judge together, calibrated; the judge is that of all puzzles.

    Args:
        pools: of all pairs of their puzzles, or probabilities come out too high.
        look: gives the logits (K,) of proposals (K,) of a pool, by its number, where they are not
            to be the verifier's own: it knows joins that it has learned from too well.
    """
    settings = settings or JudgeSettings()
    told = _counted(len(pools) + PARTS + 2, progress)
    network = JoinNetwork(verifier.config)
    network.verifier = verifier
    network.screen = fit_judge(pools, [None] * len(pools), settings)
    told("fitting the screen")
    network.worn = _calibrated_judge(network, pools, settings, told, look)
    network.light.load_state_dict(network.worn.state_dict())
    return network.eval()


def fit_light(
    network: JoinNetwork,
    pools: Sequence[JoinPool],
    settings: JudgeSettings | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    look: Callable[[int, Tensor], Tensor] | None = None,
) -> None:
    """Gives a network a judge of its own for lightly worn pieces, which learns from such pools
    alone.

    Args:
        look: see `fit_network`.
    """
    told = _counted(len(pools) + PARTS + 1, progress)
    network.light = _calibrated_judge(network, pools, settings or JudgeSettings(), told, look)


def _calibrated_judge(
    network: JoinNetwork,
    pools: Sequence[JoinPool],
    settings: JudgeSettings,
    told: Callable[[str], None],
    look: Callable[[int, Tensor], Tensor] | None = None,
) -> JoinJudge:
    """A judge of what the network's screen lets through and its verifier says."""
    shown, seen = [], []
    for number, pool in enumerate(pools):
        rows = screened_rows(pool, network.screen, settings.shown)
        shown.append(pool.taken(rows))
        seen.append(look(number, rows) if look else seen_by(network.verifier, pool, rows)[0])
        told("looking at joins")
    return calibrated_judge(shown, seen, settings, told)


def calibrated_judge(
    shown: Sequence[JoinPool],
    seen: Sequence[Tensor],
    settings: JudgeSettings,
    told: Callable[[str], None] | None = None,
) -> JoinJudge:
    """A judge of proposals, calibrated on puzzles that others like it did not learn from.

    Args:
        seen: see `fit_judge`.
        told: is told each step.
    """
    told = told or _counted(PARTS + 1, None)
    best: list[tuple[Tensor, Tensor]] = []
    for part in range(PARTS):
        rest = [_part(pool, own, part, False) for pool, own in zip(shown, seen, strict=True)]
        judge = fit_judge([pool for pool, _ in rest], [own for _, own in rest], settings)
        for pool, own in zip(shown, seen, strict=True):
            held, logits = _part(pool, own, part, True)
            with torch.no_grad():
                best.append(best_of_pairs(held, judge(held.tensors["evidence"], logits)))
        told("calibrating")
    judge = fit_judge(shown, seen, settings)
    told("fitting the judge")
    logits, true = (torch.cat(parts) for parts in zip(*best, strict=True))
    judge.scale.copy_(torch.tensor(calibrated(logits, true)))
    return judge


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


def _part(pool: JoinPool, seen: Tensor, part: int, inside: bool) -> tuple[JoinPool, Tensor]:
    """The proposals of one part of the puzzles, or of all others, and what was seen of them."""
    chosen = (pool.tensors["puzzle"] % PARTS == part) == inside
    rows = chosen.nonzero()[:, 0]
    return pool.taken(rows), seen[rows]


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
    light: bool = False,
) -> Path:
    """Fits what `solvers.joins` uses, and writes it as `weights.safetensors` into a folder.

    Args:
        data: a pool of joins, or a folder of several.
        init: weights of the verifier, or of the kind `joins`, whose verifier is taken.
        light: only the judge of lightly worn pieces is fitted, to pools of such; all else is taken
            from `init`, which must be of the kind `joins`.
    """
    pools = join_pools(data)
    if light:
        network, _ = load_network("joins", JoinNetwork, VerifierConfig, init)
        fit_light(network.eval(), pools, settings, progress)
    else:
        network = fit_network(pools, _verifier(init), settings, progress)
    path = Path(out) / "weights.safetensors"
    save_weights(path, network.state_dict(), "joins", asdict(network.config))
    return path


def _verifier(weights: str) -> JoinVerifier:
    if load_weights(weights, "verifier", "joins").kind == "joins":
        return load_network("joins", JoinNetwork, VerifierConfig, weights)[0].verifier
    return load_network("verifier", JoinVerifier, VerifierConfig, weights)[0]
