"""The fault matrix: loads that are struck, and what must hold after. See `outcome.py`."""

from __future__ import annotations

from tests.faults.strikes import strikes
from tests.integration.conftest import lake, trips_lake

#: Fixtures: an empty lake, one whose table is there, and strikes at steps of loads.
__all__ = ["lake", "strikes", "trips_lake"]
