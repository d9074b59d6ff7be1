"""A task's worker: loads the month once, to its end unless it is killed. `python -m tests.comparison.worker <how>`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from airflow_provider_chs3.core.sql import identifier, literal
from airflow_provider_chs3.testbed.trips import COLUMNS

MONTH = "2026-10"
PREFIX = f"trips/{MONTH}/"


def insert_sql(given: dict[str, Any]) -> str:
    """The usual statement: every node reads and writes its share."""
    columns = ", ".join(map(identifier, COLUMNS))
    place = f"cluster({literal(given['cluster'])}, {identifier(given['database'])}, trips)"
    url = f"{given['endpoint_url']}/{given['bucket']}/{PREFIX}*.parquet"
    source = ", ".join(map(literal, (given["cluster"], url, given["access_key"], given["secret_key"], "Parquet")))
    return f"INSERT INTO FUNCTION {place} ({columns}) SELECT {columns} FROM s3Cluster({source})"


def plain(given: dict[str, Any]) -> None:
    """The operator of airflow-clickhouse-plugin."""
    from airflow_clickhouse_plugin.operators.clickhouse import ClickHouseOperator

    ClickHouseOperator(task_id="load", sql=insert_sql(given)).execute({})


def plain_after_drop(given: dict[str, Any]) -> None:
    """The same, after the month's partition was dropped on every node."""
    from airflow_clickhouse_plugin.operators.clickhouse import ClickHouseOperator

    drop = f"ALTER TABLE {identifier(given['database'])}.trips DROP PARTITION {MONTH.replace('-', '')}"
    for number in range(given["nodes"]):
        ClickHouseOperator(task_id="drop", sql=drop, clickhouse_conn_id=f"clickhouse_{number}").execute({})
    plain(given)


def package(given: dict[str, Any]) -> None:
    """This package's operator."""
    from airflow_provider_chs3.operators.s3_to_clickhouse import S3ToClickHouseOperator

    S3ToClickHouseOperator(
        task_id="load",
        bucket=given["bucket"],
        key="trips/{YYYY-MM}/*.parquet",
        database=given["database"],
        table="trips",
        month=MONTH,
        memory_share=1,
    ).execute({})


WAYS: dict[str, Callable[[dict[str, Any]], None]] = {
    "plain": plain,
    "plain_after_drop": plain_after_drop,
    "package": package,
}

if __name__ == "__main__":
    WAYS[sys.argv[1]](json.loads(os.environ["CHS3_COMPARISON"]))
