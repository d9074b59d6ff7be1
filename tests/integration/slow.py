"""Inserts that last long enough to be struck."""

from __future__ import annotations

import time

from tests.integration.lake import Lake

#: Makes an insert of a few thousand trips take a minute or so.
SLOW = {"pickup_at": "pickup_at", "trip_id": "trip_id + sleepEachRow(0.02)"}
SLOW_SETTINGS = {"function_sleep_max_microseconds_per_block": 100_000_000_000, "max_block_size": 100}


def wait_for_insert(lake: Lake) -> None:
    """Wait until a load inserts."""
    for _ in range(900):
        running = lake.on_every_node(
            "SELECT count() FROM system.processes WHERE startsWith(initial_query_id, 'chs3_') AND query_kind = 'Insert'"
        )
        if any(rows[0][0] for rows in running):
            return
        time.sleep(0.1)
    raise AssertionError("the insert did not start")
