"""Checks of what learned solvers are told."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch

from reassembly.errors import InputError

__all__ = ["Device", "check_choice", "check_counts", "check_device_here"]

Device = Literal["cpu", "cuda"]


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raises `InputError` unless the value is one of the choices."""
    if value not in choices:
        raise InputError(f"{name} is {value!r}", f"Choose one of {', '.join(choices)}")


def check_counts(**values: Any) -> None:
    """Raises `InputError` for the first that is no whole number above 0."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"{name} is {value!r}", "Give a whole number above 0")


def check_device_here(device: Any) -> None:
    """Raises `InputError` where this machine has no such device."""
    check_choice("device", device, get_args(Device))
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("there is no CUDA GPU here", "Use --device cpu")
