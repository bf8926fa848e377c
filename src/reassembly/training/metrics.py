"""The learning curve of a run: one CSV file, complete at any time."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from lightning_utilities.core.rank_zero import rank_zero_only
from pytorch_lightning.loggers.logger import Logger

from reassembly.io.files import atomic_write

__all__ = ["MetricsFile"]


class MetricsFile(Logger):
    """Writes `metrics.csv`: a row for each logged step, empty where a figure was not taken.

    Lightning's own CSV logger deletes the figures of the run that is resumed.

    Args:
        start: figures of an earlier run after this step are forgotten.
    """

    def __init__(self, path: Path, start: int) -> None:
        super().__init__()
        self.path = path
        self.rows: dict[int, dict[str, Any]] = {}
        if start > 0 and path.is_file():
            with path.open(encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file):
                    if row["step"].isdigit() and int(row["step"]) <= start:
                        self.rows[int(row["step"])] = {k: v for k, v in row.items() if v}

    @property
    def name(self) -> str:
        return self.path.parent.name

    @property
    def version(self) -> str:
        return ""

    @rank_zero_only
    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """The configuration is in a file of its own."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Adds figures to the row of a step, and writes the file."""
        row = self.rows.setdefault(step or 0, {"step": step or 0})
        row.update({name: f"{value:.6g}" for name, value in metrics.items()})
        names = dict.fromkeys(name for each in self.rows.values() for name in each)
        text = io.StringIO()
        writer = csv.DictWriter(text, list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows[number] for number in sorted(self.rows))
        atomic_write(self.path, text.getvalue())
