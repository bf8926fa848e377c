"""Fragments, puzzles and assemblies from and to files."""
