"""The two ways in which things go wrong: the user's input, or our fault.

Only `InputError` is expected; commands print its one line and exit with 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike

__all__ = ["InputError", "InputWarning", "causes"]


class InputError(ValueError):
    """Something the user gave cannot be used.

    Args:
        what: what is wrong, without a full stop.
        remedy: what to do about it, without a full stop.
        path: the file or folder it is about.
    """

    def __init__(self, what: str, remedy: str, path: str | PathLike[str] | None = None) -> None:
        self.what, self.remedy, self.path = what, remedy, None if path is None else str(path)
        where = "" if path is None else f"{path}: "
        super().__init__(f"{where}{what}. {remedy}.")

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str | None]]:
        return InputError, (self.what, self.remedy, self.path)


class InputWarning(UserWarning):
    """Part of the input is doubtful or was left out; the rest is used."""


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, then what led to it, back to the first."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
