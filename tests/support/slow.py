"""Inserts that last long enough to be struck."""

from __future__ import annotations

import time

from airflow_provider_chs3.core.sql.quoting import literal
from tests.support.lake import Lake

#: Makes an insert of a few thousand trips take a minute or so, and one of a few hundred some seconds.
SLOW = {"pickup_at": "pickup_at", "trip_id": "trip_id + sleepEachRow(0.02)"}
SLOW_SETTINGS = {"function_sleep_max_microseconds_per_block": 100_000_000_000, "max_block_size": 100}


def wait_for_insert(lake: Lake) -> str:
    """Wait until a load of this lake inserts; those of other tests may still be about to end."""
    for _ in range(900):
        running = lake.on_every_node(
            "SELECT initial_query_id FROM system.processes "
            "WHERE match(initial_query_id, '^chs3_.*_insert') AND is_initial_query "
            f"AND position(query, {literal(lake.database)}) > 0"
        )
        found = [query_id for rows in running for (query_id,) in rows]
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError("the insert did not start")
