"""A replicated table, and what is loaded into it."""

from __future__ import annotations

from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import Lake

#: As many files as give each shard some, however fast a node is.
TRIPS = Trips(rows_per_period=12_000, files_per_period=24)
OTHER = Trips(seed=2, rows_per_period=14_000, files_per_period=24)


def replicated(lake: Lake, kind: str = "") -> str:
    """The engine of a table of the lake, with the same path in Keeper for the replicas of a shard."""
    if lake.cluster.database_engine:
        return f"Replicated{kind}MergeTree"
    return f"Replicated{kind}MergeTree('/tables/{lake.database}/{{shard}}/{lake.table}', '{{replica}}')"


def is_writable(lake: Lake, place: int) -> bool:
    """Check whether a server takes rows of the lake's table: it answers before it opens the table."""
    of_table = f"database = '{lake.database}' AND table = '{lake.table}'"
    sql = f"SELECT count() = 1 AND NOT max(is_readonly) FROM system.replicas WHERE {of_table}"
    return lake.on_node(place, sql) == [(True,)]
