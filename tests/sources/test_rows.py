"""The nodes of a cluster read the rows of PostgreSQL and MySQL, each row once."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.loading import Staging
from tests.sources.rows import Rows

pytestmark = pytest.mark.three_nodes

PERIOD = "2026-01"
TRIPS = Trips(rows_per_period=3_000)


@pytest.mark.thorough(but=1)
def test_each_node_reads_its_slice_of_a_period(rows: Rows, staging: Staging) -> None:
    rows.put(TRIPS.table(PERIOD))
    rows.put(TRIPS.table("2026-02"))
    staging.insert_slices(rows.function(), where="pickup_at >= '2026-01-01' AND pickup_at < '2026-02-01'")
    assert staging.facts(PERIOD) == TRIPS.facts(PERIOD)
    assert staging.rows_per_node() == [1_000] * 3
