"""Sensors of merges, and parts for them to wait for."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import PokeReturnValue

from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from tests.support.lake import PERIOD, Lake

#: A single row to a block, and so to a part.
PART_BY_PART = {"max_block_size": 1, "min_insert_block_size_rows": 1, "max_insert_threads": 1, "max_threads": 1}


def sensor(lake: Lake, **options: Any) -> ClickHouseMergeHealthSensor:
    arguments = {"task_id": "wait", **lake.target}
    periods = {} if "periods" in options else {"period": PERIOD}
    return ClickHouseMergeHealthSensor(**(arguments | periods | options))


def look(lake: Lake, **options: Any) -> PokeReturnValue:
    return sensor(lake, **options).poke({})


def insert(lake: Lake, node: int, *, parts: int = 1, period: str = PERIOD) -> None:
    with lake.cluster.nodes[node].client() as client:
        client.execute(
            f"INSERT INTO {lake.database}.{lake.table} (trip_id, pickup_at) "
            f"SELECT number, toDateTime('{period}-05 00:00:00') FROM numbers({parts})",
            settings=PART_BY_PART,
        )


def merges(lake: Lake, node: int, verb: str) -> None:
    lake.on_node(node, f"SYSTEM {verb} MERGES {lake.database}.{lake.table}")
