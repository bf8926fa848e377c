"""How real are our made puzzles? Two sets of puzzles side by side, one distance a statistic.

The distance of a row is the 1-Wasserstein distance between its two distributions, divided by the
reference's range from the 10th to the 90th percentile: 0 is no difference, and 1 is a set that
would have to be shifted by the whole width of the reference.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reassembly._version import __version__
from reassembly.errors import InputError
from reassembly.io.files import check_output_folder, output_folder
from reassembly.synthetic.measures import (
    RESOLUTION_MM,
    ROWS,
    Row,
    Statistics,
    gather,
    measure,
    measure_puzzle,
)

__all__ = ["Comparison", "compare", "distances", "markdown", "measure", "side_by_side"]

Array = NDArray[np.float64]
CompareProgress = Callable[[int, int, str], None]
"""(puzzles done, puzzles in all, what is being measured)"""

RESAMPLES = 200
INTERVAL = (5.0, 95.0)
"""Percentiles of the bootstrap interval."""
COLOURS = ("#0072B2", "#D55E00")
"""Of the reference and of the other set, told apart by every reader."""
GROUPS = {"pieces": "Pieces", "breaks": "Breaks", "paint": "Paint"}


@dataclass(frozen=True)
class Comparison:
    """One row of the table. A figure that cannot be measured is None."""

    name: str
    group: str
    title: str
    unit: str
    about: str
    median_a: float | None
    low_a: float | None
    """10th percentile."""
    high_a: float | None
    """90th percentile."""
    samples_a: int
    median_b: float | None
    low_b: float | None
    high_b: float | None
    samples_b: int
    distance: float | None
    distance_low: float | None
    """Lower end of the bootstrap interval over puzzles, from 5 to 95 %."""
    distance_high: float | None
    chance: float | None
    """The distance between two sets of these sizes drawn from the reference's puzzles."""


def compare(
    data_a: str | PathLike[str],
    data_b: str | PathLike[str],
    out: str | PathLike[str],
    *,
    force: bool = False,
    only_a: Collection[str] | None = None,
    only_b: Collection[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    progress: CompareProgress | None = None,
) -> dict[str, Any]:
    """Measures two sets of puzzles with true poses and writes how far they are apart.

    Args:
        data_a: the reference, usually real puzzles: anything `find_puzzles` reads.
        data_b: the set in question.
        out: folder for report.html, table.json, table.csv, table.md and the plots.
        only_a: take only puzzles with these ids.
        only_b: the same for `data_b`.
        limit: take at most so many puzzles of each set, drawn by `seed`.
        seed: of that draw and of the bootstrap.

    Returns:
        What table.json holds: `a`, `b` (name, puzzles, pieces), `resolution_mm`, `seed`, and
        `rows`, each as in `Comparison`.
    """
    check_output_folder(out, force)
    if limit is not None and limit < 1:
        raise InputError(f"a limit of {limit} puzzles leaves nothing to compare", "Give 1 or more")
    sources = [_sources(data_a, only_a, limit, seed), _sources(data_b, only_b, limit, seed)]
    # Detail that one set's scans cannot show must not count as a difference.
    first = [pixel for of in sources for pixel in [of[0].load().mm_per_px]]
    resolution_mm = max(RESOLUTION_MM, *first)
    measured: list[Statistics] = []
    done, total = 0, sum(map(len, sources))
    for of in sources:
        found = {}
        for source in of:
            if progress is not None:
                progress(done, total, source.id)
            found[source.id] = measure_puzzle(source.load(), resolution_mm=resolution_mm)
            done += 1
        measured.append(gather(found, resolution_mm))
    if progress is not None:
        progress(done, total, "report")
    a, b = measured
    rows = distances(a, b, seed=seed)
    left_out = [row.title for row in ROWS if row.name not in a.samples]
    result = {
        "a": _about(data_a, a),
        "b": _about(data_b, b),
        "resolution_mm": resolution_mm,
        "left_out": left_out,
        "seed": seed,
        "version": __version__,
        "rows": [asdict(row) for row in rows],
    }
    with output_folder(out, force=force) as folder:
        _write(folder, result, rows, a, b)
    return result


def _sources(
    path: str | PathLike[str], only: Collection[str] | None, limit: int | None, seed: int
) -> list[Any]:
    from reassembly.io import find_puzzles

    found = {source.id: source for source in find_puzzles(path)}
    if only is not None:
        if missing := sorted(set(only) - set(found)):
            raise InputError(
                f"there is no puzzle {', '.join(missing)}",
                f"Choose among its {len(found)} puzzles, such as {', '.join(sorted(found)[:3])}",
                path,
            )
        found = {i: found[i] for i in only}
    if not found:
        raise InputError("no puzzle was chosen", "Name at least one", path)
    ids = sorted(found)
    if limit is not None and limit < len(ids):
        ids = sorted(np.random.default_rng(seed).choice(ids, limit, replace=False).tolist())
    return [found[i] for i in ids]


def _about(path: str | PathLike[str], of: Statistics) -> dict[str, Any]:
    pieces = int(sum(float(values.sum()) for values in of.samples["pieces"]))
    return {"name": Path(path).resolve().name, "puzzles": len(of.puzzles), "pieces": pieces}


# --- distances ----------------------------------------------------------------------------------


def distances(a: Statistics, b: Statistics, *, seed: int = 0) -> list[Comparison]:
    """One `Comparison` for each row that both sets have; `a` is the reference.

    The interval is that of `RESAMPLES` bootstrap draws of whole puzzles from both sets, since
    pieces of one fresco resemble each other. With few puzzles even two draws from one set
    differ: `chance` says by how much.
    """
    rows = [row for row in ROWS if row.name in a.samples and row.name in b.samples]
    return [_comparison(row, a, b, np.random.default_rng(seed)) for row in rows]


@dataclass(frozen=True, eq=False)
class _Pool:
    """All samples of a row in one set."""

    values: Array
    weights: Array
    """How many measured samples each value stands for."""
    puzzle: NDArray[np.intp]
    puzzles: int

    def of_draw(self, counts: Array | None = None) -> Array:
        """Weights when puzzle k occurs `counts[k]` times, adding up to 1, or all 0."""
        weights = self.weights if counts is None else self.weights * counts[self.puzzle]
        return weights / max(float(weights.sum()), 1e-300)


def _pool(of: Statistics, name: str) -> _Pool:
    samples, counts = of.samples[name], of.counts[name]
    return _Pool(
        np.concatenate(samples),
        np.concatenate(
            [np.full(len(s), n / max(len(s), 1)) for s, n in zip(samples, counts, strict=True)]
        ),
        np.repeat(np.arange(len(samples)), [len(s) for s in samples]),
        len(samples),
    )


def _comparison(row: Row, a: Statistics, b: Statistics, rng: np.random.Generator) -> Comparison:
    pools = _pool(a, row.name), _pool(b, row.name)
    figures = [_quantiles(pool.values, pool.weights) for pool in pools]
    told: tuple[float | None, ...] = (None, None, None, None)
    if len(pools[0].values) and len(pools[1].values):
        low, _, high = (float(q or 0.0) for q in figures[0])
        told = _distance(pools[0], pools[1], high - low, rng)
    (low_a, median_a, high_a), (low_b, median_b, high_b) = figures
    distance, distance_low, distance_high, chance = told
    return Comparison(
        **{key: getattr(row, key) for key in ("name", "group", "title", "unit", "about")},
        median_a=median_a,
        low_a=low_a,
        high_a=high_a,
        samples_a=sum(a.counts[row.name]),
        median_b=median_b,
        low_b=low_b,
        high_b=high_b,
        samples_b=sum(b.counts[row.name]),
        distance=distance,
        distance_low=distance_low,
        distance_high=distance_high,
        chance=chance,
    )


def _quantiles(values: Array, weights: Array) -> tuple[float | None, float | None, float | None]:
    """10th, 50th and 90th percentile."""
    if not len(values):
        return None, None, None
    order = np.argsort(values, kind="stable")
    share = (np.cumsum(weights[order]) - 0.5 * weights[order]) / weights.sum()
    low, middle, high = np.interp([0.1, 0.5, 0.9], share, values[order])
    return float(low), float(middle), float(high)


def _distance(a: _Pool, b: _Pool, width: float, rng: np.random.Generator) -> tuple[float, ...]:
    """(distance, lower and upper end of its interval, distance by chance)."""
    both = np.concatenate([a.values, b.values])
    if width <= 0:
        # A reference without any spread: the spread of both together is the next best ruler.
        width = float(np.subtract(*np.quantile(both, [0.9, 0.1]))) or float(np.ptp(both)) or 1.0
    order = np.argsort(both, kind="stable")
    steps = np.diff(both[order]) / width
    of_a = np.argsort(a.values, kind="stable")
    steps_a = np.diff(a.values[of_a]) / width

    def apart(weights_a: Array, weights_b: Array) -> float:
        difference = np.concatenate([weights_a, -weights_b])[order]
        return float(np.abs(np.cumsum(difference)[:-1]) @ steps)

    def apart_within_a(one: Array, other: Array) -> float:
        return float(np.abs(np.cumsum((one - other)[of_a])[:-1]) @ steps_a)

    def draw(pool: _Pool, size: int) -> Array:
        while True:
            counts = rng.multinomial(size, np.full(pool.puzzles, 1 / pool.puzzles))
            if (weights := pool.of_draw(counts.astype(np.float64))).any():
                return weights

    drawn = [apart(draw(a, a.puzzles), draw(b, b.puzzles)) for _ in range(RESAMPLES)]
    chance = [apart_within_a(draw(a, a.puzzles), draw(a, b.puzzles)) for _ in range(RESAMPLES)]
    distance = apart(a.of_draw(), b.of_draw())
    # Drawing anew can only push two like distributions apart: the draws tell how much the distance
    # varies, but about too large a mean.
    low, high = np.maximum(distance + np.percentile(drawn, INTERVAL) - np.mean(drawn), 0)
    return distance, float(low), float(high), float(np.median(chance))


# --- tables and plots ---------------------------------------------------------------------------


def _write(
    folder: Path,
    result: Mapping[str, Any],
    rows: Sequence[Comparison],
    a: Statistics,
    b: Statistics,
) -> None:
    text = json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    (folder / "table.json").write_text(text, encoding="utf-8", newline="\n")
    with io.StringIO(newline="") as lines:
        writer = csv.DictWriter(lines, list(asdict(rows[0])), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
        (folder / "table.csv").write_text(lines.getvalue(), encoding="utf-8", newline="\n")
    (folder / "table.md").write_text(markdown(result), encoding="utf-8", newline="\n")
    names = result["a"]["name"], result["b"]["name"]
    for group in GROUPS:
        _plot(folder / group, [row for row in rows if row.group == group], a, b, names)
    (folder / "report.html").write_text(_report(result), encoding="utf-8", newline="\n")


def markdown(result: Mapping[str, Any]) -> str:
    """The table of one comparison."""
    return side_by_side({result["b"]["name"]: result})


def side_by_side(results: Mapping[str, Mapping[str, Any]]) -> str:
    """One Markdown table of several sets, each compared with the same reference.

    Args:
        results: by heading, what `compare` returned or table.json holds.
    """
    every = list(results.values())
    if any(other["a"] != every[0]["a"] for other in every):
        raise ValueError("the comparisons must have the same reference")
    reference = every[0]["a"]
    headings = ["", f"{reference['name']} ({reference['puzzles']} puzzles)"]
    for name, result in results.items():
        headings += [f"{name} ({result['b']['puzzles']} puzzles)", f"distance of {name}"]
    headings.append("by chance")
    lines = [_line(headings), "| --- |" + " ---: |" * (len(headings) - 1)]
    for group, title in GROUPS.items():
        lines.append(_line([f"**{title}**", *[""] * (len(headings) - 1)]))
        for rows in zip(*(_of_group(result, group) for result in every), strict=True):
            unit = f" ({rows[0]['unit']})" if rows[0]["unit"] else ""
            cells = [rows[0]["title"] + unit, _range(rows[0], "a")]
            for row in rows:
                cells += [_range(row, "b"), _with_interval(row)]
            lines.append(_line([*cells, _figure(rows[0]["chance"], 2)]))
    return "\n".join(lines) + "\n"


def _of_group(result: Mapping[str, Any], group: str) -> list[dict[str, Any]]:
    return [row for row in result["rows"] if row["group"] == group]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _range(row: Mapping[str, Any], side: str) -> str:
    low, median, high = (row[f"{key}_{side}"] for key in ("low", "median", "high"))
    if median is None:
        return "–"
    size = max(abs(low), abs(high))
    digits = 3 if size < 1 else 2 if size < 10 else 1
    return f"{median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def _with_interval(row: Mapping[str, Any]) -> str:
    if row["distance"] is None:
        return "–"
    return f"**{row['distance']:.2f}** ({row['distance_low']:.2f} to {row['distance_high']:.2f})"


def _figure(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _plot(
    path: Path, rows: Sequence[Comparison], a: Statistics, b: Statistics, names: tuple[str, str]
) -> None:
    """Both distributions of every row, as `path`.png and `path`.svg."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = 4
    down = -(-len(rows) // across)
    # A fixed salt and no date: the same data give the same bytes.
    with mpl.rc_context({"svg.hashsalt": "reassembly", "font.size": 8, "svg.fonttype": "none"}):
        width, height = 3.1 * across, 2.3 * down + 0.5
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        # Margins in inches: matplotlib's own layout takes as long as the rest of the plot.
        edges = {"left": 0.6 / width, "bottom": 0.35 / height, "right": 1 - 0.15 / width}
        room = {"top": 1 - 0.8 / height, "wspace": 0.22, "hspace": 0.5}
        axes = figure.subplots(down, across, squeeze=False, gridspec_kw=edges | room).ravel()
        for axis, row in zip(axes, rows, strict=False):
            pools = _pool(a, row.name), _pool(b, row.name)
            values = np.concatenate([pool.values for pool in pools])
            if len(values):
                low, high = np.quantile(values, [0.005, 0.995])
                bins = np.linspace(low, high if high > low else low + 1, 31)
                medians = row.median_a, row.median_b
                for pool, colour, style, median in zip(
                    pools, COLOURS, ("-", "--"), medians, strict=True
                ):
                    if median is None:
                        continue
                    inside = np.clip(pool.values, bins[0], bins[-1])
                    share, _ = np.histogram(inside, bins, weights=pool.of_draw() * 100)
                    axis.stairs(share, bins, color=colour, fill=True, alpha=0.2)
                    axis.stairs(share, bins, color=colour, linestyle=style)
                    axis.axvline(median, color=colour, linestyle=style, linewidth=0.8)
            unit = f" ({row.unit})" if row.unit else ""
            axis.set_title(f"{row.title}{unit}\ndistance {_figure(row.distance, 2)}", fontsize=8)
            axis.spines[["top", "right"]].set_visible(False)
            axis.locator_params(nbins=4)
        for axis in axes[len(rows) :]:
            axis.set_axis_off()
        figure.supylabel("% of samples", x=0.1 / width)
        for name, colour, style in zip(names, COLOURS, ("-", "--"), strict=True):
            axes[0].plot([], [], color=colour, linestyle=style, label=name)
        figure.legend(loc="upper left", ncols=2, frameon=False)
        figure.savefig(path.with_suffix(".png"), dpi=110, metadata={"Software": None})
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


REPORT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ b.name }} against {{ a.name }}</title>
<style>
 body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
   color: #222; background: #fff }
 table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
 th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #ddd }
 th:first-child, td:first-child { text-align: left }
 small { color: #555; display: block } img { max-width: 100% } .wide { overflow-x: auto }
 i { display: inline-block; width: 1em; height: .7em }
</style></head><body>
<h1>{{ b.name }} against {{ a.name }}</h1>
<p><i style="background: {{ colours[0] }}"></i> {{ a.name }}, the reference: {{ a.puzzles }}
puzzles, {{ a.pieces }} pieces. <i style="background: {{ colours[1] }}"></i>
{{ b.name }}: {{ b.puzzles }} puzzles, {{ b.pieces }} pieces.
All scans were brought to {{ "%g" % resolution_mm }} mm a pixel.</p>
<p>Each cell gives the median and, in brackets, the 10th and 90th percentile. The distance is the
1-Wasserstein distance divided by the reference's range from the 10th to the 90th percentile, with
the 5 to 95 % bootstrap interval over puzzles. "By chance" is the distance between two sets of
these sizes drawn from the reference itself: no smaller distance means anything.</p>
{% if left_out %}<p>Left out, since the scans are too coarse: {{ left_out | join(", ") }}.</p>
{% endif %}
{% for key, title in groups.items() %}<h2>{{ title }}</h2>
<p><img src="{{ key }}.svg" alt="Distributions of the rows of the table below in both sets"></p>
<div class="wide"><table><tr><th>statistic</th><th>{{ a.name }}</th><th>{{ b.name }}</th>
<th>distance</th><th>by chance</th><th>samples</th></tr>
{% for row in rows if row.group == key %}<tr><td>{{ row.title }}{% if row.unit %} ({{ row.unit }})
{% endif %}<small>{{ row.about }}</small></td><td>{{ span(row, "a") }}</td>
<td>{{ span(row, "b") }}</td><td>{{ told(row) }}</td><td>{{ figure(row.chance, 2) }}</td>
<td>{{ row.samples_a }}, {{ row.samples_b }}</td></tr>
{% endfor %}</table></div>
{% endfor %}</body></html>
"""


def _report(result: Mapping[str, Any]) -> str:
    from jinja2 import Environment

    template = Environment(autoescape=True).from_string(REPORT)
    return template.render(
        **result,
        groups=GROUPS,
        colours=COLOURS,
        span=_range,
        told=lambda row: _with_interval(row).replace("**", ""),
        figure=_figure,
    )
