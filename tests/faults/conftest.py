"""The fault matrix: loads that are struck, and what must hold after. See `outcome.py`."""

from __future__ import annotations

from tests.integration.conftest import lake, trips_lake

#: Fixtures: an empty lake, and one whose table is there.
__all__ = ["lake", "trips_lake"]
