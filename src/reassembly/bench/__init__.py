"""Solvers x data sets -> tables, under a protocol that cannot be fooled."""

from reassembly.bench.runner import REPAIR_NAMES, BenchRow, bench, prediction_folder, read_records

__all__ = ["REPAIR_NAMES", "BenchRow", "bench", "prediction_folder", "read_records"]
