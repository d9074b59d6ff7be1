"""Check whether a load is by the arrival of its objects."""

from __future__ import annotations

from collections.abc import Mapping

#: The policy for rows of other periods by which objects are loaded as they arrive.
SPREAD = "spread"


def is_by_arrival(policies: object) -> bool:
    """Check whether policies have periods mean those in which objects arrive."""
    return isinstance(policies, Mapping) and policies.get("on_other_periods") == SPREAD
