"""Functions of a library with other names in reach, for this package alone."""

from __future__ import annotations

from types import FunctionType
from typing import Any


def rebound(function: Any, **names: Any) -> Any:
    """Return a function that finds other things under some names of its module.

    The library's own function stays as it is, for everybody else in this process.
    """
    known = {**function.__globals__, **names}
    return FunctionType(function.__code__, known, function.__name__, function.__defaults__, function.__closure__)
