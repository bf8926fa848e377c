"""What is taken where nobody says otherwise, in one place; imports nothing, so that the command
line may read it."""

__all__ = ["DEFAULT_SOLVER"]

DEFAULT_SOLVER = "joins"
"""Of `solve`, of the command of that name, and of the workbench."""
