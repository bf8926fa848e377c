"""Solvers x data sets -> tables, under a protocol that cannot be fooled."""

from reassembly.bench.runner import bench

__all__ = ["bench"]
