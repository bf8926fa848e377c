"""Figures as SVG and PNG, drawn from the tables and records that are there."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reassembly.bench import read_records
from reassembly.io.files import atomic_write
from reassembly.metrics.reliability import reliability
from reassembly.reproduce.paper import SCALABILITY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["calibration", "draw_all"]

FOLDER = "figures"
LINES = ("#9a3b26", "#2f5d8a", "#6b8e23", "#8a5a9e", "#c28a1a", "#3b7f7a", "#7a7a7a", "#b0487a",
         "#4b4b9b", "#8c6239", "#557a46", "#222222")  # fmt: skip
MARKERS = "osD^vP*Xh<>d"
"""Of confidence."""
FEWEST = 5
"""Fragments in a bin that is drawn: fewer say nothing."""


def draw_all(results: Path, bench: Path, state: Mapping[str, Any]) -> list[str]:
    """Draws what there are figures for.

    Returns:
        The SVG files, as paths from `results`.
    """
    drawn = []
    (results / FOLDER).mkdir(exist_ok=True)

    def draw(name: str, make: Callable[[], Figure | None]) -> None:
        if (figure := make()) is not None:
            _save(figure, results / FOLDER / name)
            drawn.append(f"{FOLDER}/{name}.svg")

    costs = _rows(results / "scalability.json")
    draw("memory", lambda: _cost(costs, "memory_mb", "memory (GB)", 2**-10))
    draw("time", lambda: _cost(costs, "seconds", "time (s)", 1.0))
    for file in sorted(results.glob("keypoints-*.json")):
        draw(file.stem, lambda file=file: _keypoints(_rows(file), file.stem))  # type: ignore[misc]
    for data, entry in state.items():
        errors = {
            label: found
            for key, label in entry["rows"].items()
            if (found := _errors(bench, data, key, entry)) and key not in ("truth",)
        }
        slug = data.lower()
        draw(f"errors-{slug}", lambda errors=errors, data=data: _histograms(errors, data))  # type: ignore[misc]
        draw(f"calibration-{slug}", lambda errors=errors, data=data: _calibrations(errors, data))  # type: ignore[misc]
    return drawn


def _rows(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return found


def _errors(bench: Path, data: str, key: str, entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What became of every fragment that is scored, in all puzzles and seeds of a row."""
    return [
        fragment
        for record in read_records(bench, data, key)
        if record["seed"] < entry["seeds"]
        and (entry["ids"] is None or record["puzzle"] in entry["ids"])
        for fragment in record.get("errors", {}).values()
        if fragment["state"] in ("placed", "elsewhere", "unplaced")
    ]


def _axes(columns: int = 1) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4 * columns, 4.2), layout="constrained")
    axes = figure.subplots(1, columns)
    for axis in np.atleast_1d(axes):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(True, color="#e4e4e4", linewidth=0.6)
        axis.set_axisbelow(True)
    return figure, axes


def _save(figure: Figure, path: Path) -> None:
    """As SVG and PNG; the same figures give the same bytes."""
    import matplotlib

    for ending, metadata in ((".svg", {"Date": None}), (".png", {"Software": None})):
        content = io.BytesIO()
        with matplotlib.rc_context({"svg.hashsalt": path.name, "svg.fonttype": "none"}):
            figure.savefig(content, format=ending[1:], dpi=130, metadata=metadata)
        atomic_write(path.with_suffix(ending), content.getvalue())


def _cost(rows: Sequence[Mapping[str, Any]], key: str, label: str, unit: float) -> Figure | None:
    """Cost against the number of pieces, both on logarithmic scales."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        if row.get("error") is None and row.get(key):
            lines.setdefault(row["label"], []).append((row["pieces"], row[key] * unit))
    gpu = {
        r["pieces"]: r["gpu_memory_mb"] / 1024
        for r in rows
        if r.get("gpu_memory_mb") and r.get("published_gb")
    }
    if not lines:
        return None
    figure, axis = _axes()
    for k, (name, points) in enumerate(lines.items()):
        style = {"color": LINES[k % len(LINES)], "marker": MARKERS[k % len(MARKERS)]}
        axis.plot(*zip(*points, strict=True), label=name, markersize=4, linewidth=1.4, **style)
    if key == "memory_mb":
        axis.plot(*zip(*SCALABILITY.items(), strict=True), "k--s", markersize=3, linewidth=1,
                  label="published: ReassembleNet, GPU")  # fmt: skip
        if gpu:
            axis.plot(*zip(*gpu.items(), strict=True), "k:o", markersize=3, linewidth=1,
                      label="ours: ReassembleNet, GPU")  # fmt: skip
    axis.set(yscale="log", xlabel="pieces", ylabel=label)
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.legend(fontsize=7, frameon=False)
    return figure


def _keypoints(rows: Sequence[Mapping[str, Any]], name: str) -> Figure | None:
    """Accuracy against the number of keypoints, with the published figures of Q_pos."""
    ours = [row for row in rows if row.get("keypoints") and row.get("q_pos") is not None]
    if not ours:
        return None
    figure, axis = _axes()
    for key, color, marker in (("q_pos", LINES[0], "o"), ("correct", LINES[1], "s")):
        known = [row for row in ours if row.get(key) is not None]
        k, values = [row["keypoints"] for row in known], [row[key] for row in known]
        low, high = zip(*(row[f"{key}_ci"] for row in known), strict=True)
        axis.plot(k, values, color=color, marker=marker, label=f"{key}, strict")
        axis.fill_between(k, low, high, color=color, alpha=0.15, linewidth=0)
    printed = [
        (row["keypoints"], row["published_q_pos"])
        for row in rows
        if row.get("published_q_pos") is not None
    ]
    if printed:
        axis.plot(*zip(*printed, strict=True), "k--^", linewidth=1, markersize=4,
                  label="published Q_pos: anchor counted, other puzzles")  # fmt: skip
    stacked = next((row for row in rows if row.get("label") == "stack"), None)
    if stacked is not None and stacked.get("paper_q_pos") is not None:
        axis.axhline(stacked["paper_q_pos"], color="#777777", linestyle=":", linewidth=1,
                     label="all pieces on one point, anchor counted")  # fmt: skip
    axis.set(xlabel="keypoints a piece", ylabel="share", ylim=(0, 1), title=name)
    axis.legend(fontsize=7, frameon=False)
    return figure


def _histograms(errors: Mapping[str, Sequence[Mapping[str, Any]]], data: str) -> Figure | None:
    """Shares of fragments by their error, row over row; unplaced ones count in no bin."""
    known = {
        name: [f for f in found if f["rotation_deg"] is not None] for name, found in errors.items()
    }
    known = {name: found for name, found in known.items() if found}
    if not known:
        return None
    from matplotlib.figure import Figure

    bins = {"rotation_deg": np.linspace(0, 180, 37), "distance_mm": np.linspace(0, 400, 41)}
    labels = {"rotation_deg": "rotation error (degrees)", "distance_mm": "distance (mm)"}
    figure = Figure(figsize=(9.0, 1.0 + 0.75 * len(known)), layout="constrained")
    grid = figure.subplots(len(known), 2, sharex="col", squeeze=False)
    for k, (axes, (name, found)) in enumerate(zip(grid, known.items(), strict=True)):
        for axis, (key, edges) in zip(axes, bins.items(), strict=True):
            values = np.clip([abs(f[key]) for f in found], 0, edges[-1])
            shares = np.histogram(values, edges)[0] / len(errors[name])
            axis.stairs(shares, edges, color=LINES[k % len(LINES)], fill=True)
            axis.set(ylim=(0, max(0.3, shares.max() * 1.1)))
            axis.spines[["top", "right"]].set_visible(False)
            axis.tick_params(labelsize=7)
            if k == len(known) - 1:
                axis.set_xlabel(labels[key], fontsize=8)
        axes[0].set_title(name, fontsize=8, loc="left")
    figure.suptitle(
        f"{data}: share of fragments by their error beside the anchor; the last bin holds all "
        "larger ones",
        fontsize=8,
    )
    return figure


def calibration(
    errors: Sequence[Mapping[str, Any]],
) -> tuple[list[tuple[float, float, int]], float | None]:
    """Whether confidence means what it says.

    Returns:
        For each bin of confidence with fragments in it: its mean, the share of them that is
        correct, and how many they are; and the mean absolute difference of the two, weighted by
        fragments, None where no confidence was given.
    """
    known = [
        (f["confidence"], bool(f["correct"])) for f in errors if f.get("confidence") is not None
    ]
    sure, right = (np.array([pair[k] for pair in known]) for k in (0, 1))
    bins, gap = reliability(sure, right)
    return [(b.said, b.true, b.count) for b in bins], gap


def _calibrations(errors: Mapping[str, Sequence[Mapping[str, Any]]], data: str) -> Figure | None:
    found = {name: calibration(of) for name, of in errors.items()}
    found = {
        name: ([each for each in bins if each[2] >= FEWEST], gap)
        for name, (bins, gap) in found.items()
        if gap is not None
    }
    if not any(bins for bins, _ in found.values()):
        return None
    figure, axis = _axes()
    axis.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle="--")
    for k, (name, (bins, gap)) in enumerate(found.items()):
        if bins:
            means, shares, _ = zip(*bins, strict=True)
            axis.plot(means, shares, color=LINES[k % len(LINES)], linewidth=1.2,
                      marker=MARKERS[k % len(MARKERS)], markersize=4,
                      label=f"{name}: off by {gap:.2f} on average")  # fmt: skip
    axis.set(
        xlabel="confidence given", ylabel="share correct", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02)
    )
    axis.set_title(f"{data}: bins of {FEWEST} fragments and more", fontsize=9)
    axis.legend(fontsize=7, frameon=False)
    return figure
