"""The periods of a table that a load changed, as its result has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def changed_periods(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the results of the table's periods: an arrival changes other periods than its own.

    Args:
        result: A load's result.
    """
    of_periods: Sequence[Mapping[str, Any]] | None = result.get("of_periods")
    return [result] if of_periods is None else of_periods
