"""Fragments, puzzles and assemblies from and to files."""

from reassembly.io.readers import PuzzleSource, cut_out, find_puzzles, load

__all__ = ["PuzzleSource", "cut_out", "find_puzzles", "load"]
