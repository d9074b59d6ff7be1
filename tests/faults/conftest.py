"""The fault matrix: loads that are struck, and what must hold after. See `outcome.py`."""

from __future__ import annotations

from tests.integration.conftest import cluster_of_test, lake, trips_lake
from tests.support.strikes import strikes

#: Fixtures: one node, unless a test or its module is marked `three_nodes`; an empty lake there, and one with a table;
#: strikes at steps of loads.
__all__ = ["cluster_of_test", "lake", "strikes", "trips_lake"]
