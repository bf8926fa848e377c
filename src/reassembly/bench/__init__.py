"""Solvers x data sets -> tables, under a protocol that cannot be fooled."""

from reassembly.bench.runner import BenchRow, bench, prediction_folder, read_records

__all__ = ["BenchRow", "bench", "prediction_folder", "read_records"]
