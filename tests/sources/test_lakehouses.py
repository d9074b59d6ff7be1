"""The nodes of a cluster read a period of an Iceberg and of a Delta table, each row once."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.lakehouses import Lakehouse
from tests.sources.loading import Staging

pytestmark = pytest.mark.three_nodes

PERIOD = "2026-01"
TRIPS = Trips(rows_per_period=2_000)


@pytest.mark.thorough(but=1, first=1)
def test_a_cluster_reads_a_period_of_all_that_were_put(lakehouse: Lakehouse, staging: Staging) -> None:
    for period in (PERIOD, "2026-02"):
        lakehouse.put(TRIPS.table(period))
    function = lakehouse.function(cluster=staging.cluster.name)
    staging.insert(function, where="pickup_at >= '2026-01-01' AND pickup_at < '2026-02-01'")
    assert staging.facts(PERIOD) == TRIPS.facts(PERIOD)
    assert sum(staging.rows_per_node()) == TRIPS.rows_per_period


@pytest.mark.thorough(but=1)
def test_a_node_reads_rows_that_were_added(lakehouse: Lakehouse, staging: Staging) -> None:
    lakehouse.put(TRIPS.table(PERIOD).slice(0, 500))
    lakehouse.put(TRIPS.table(PERIOD).slice(500))
    staging.insert_slices(lakehouse.function())
    assert staging.facts(PERIOD) == TRIPS.facts(PERIOD)
