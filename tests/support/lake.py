"""A bucket of trips and a table, to load from one to the other."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.core.ledger.table import LOADS_COLUMNS
from airflow_provider_chs3.core.sql.quoting import identifier
from airflow_provider_chs3.testbed.nodes import PROGRAM_VARIABLE
from airflow_provider_chs3.testbed.trips import PeriodFacts, Trips, create_table_sql, read_facts
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.support.arguments import grouped
from tests.support.narrow_user import narrow_connection

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster
    from airflow_provider_chs3.testbed.s3 import S3Endpoint

PERIOD = "2026-10"
#: Whether the servers are of the oldest version that is supported.
IS_OLDEST = os.environ.get(PROGRAM_VARIABLE) == "server"


@dataclass
class Lake:
    """A bucket of trips, a table on every node, and loads from one to the other."""

    cluster: Cluster
    s3: Any
    bucket: str
    database: str
    table: str = "trips"

    @property
    def target(self) -> dict[str, Any]:
        """The arguments that name the table."""
        return {"table": self.table, "database": self.database, "cluster": self.cluster.name}

    @property
    def place(self) -> dict[str, Any]:
        """The arguments that name the table and its objects."""
        return {"bucket": self.bucket, "key": "trips/{YYYY-MM}/", **self.target}

    def create_table(self, **options: Any) -> None:
        self.on_every_node(create_table_sql(f"{self.database}.{self.table}", **options))

    def create_database(self) -> None:
        engine = self.cluster.database_engine
        self.on_every_node(f"CREATE DATABASE {self.database}{engine and ' ENGINE = '}{engine}")

    def on_every_node(self, sql: str) -> list[list[tuple[Any, ...]]]:
        return [self.on_node(number, sql) for number in range(len(self.cluster.nodes))]

    def on_node(self, number: int, sql: str) -> list[tuple[Any, ...]]:
        for create in ("CREATE TABLE", "CREATE MATERIALIZED VIEW") if self.cluster.database_engine else ():
            if sql.startswith(f"{create} "):
                # The first server of a shard has created it on the others.
                sql = sql.replace(create, f"{create} IF NOT EXISTS", 1)
        with self.cluster.nodes[number].client() as client:
            return client.execute(sql)

    def put(self, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)

    def upload(self, trips: Trips, period: str = PERIOD, *, file_format: str = "parquet") -> list[str]:
        return trips.upload(self.s3, period, bucket=self.bucket, prefix=f"trips/{period}/", file_format=file_format)

    def insert_objects(self, period: str = PERIOD) -> None:
        """Put the period's objects into the table by plain INSERTs, which no ledger knows: one node after another."""
        connection = json.loads(os.environ["AIRFLOW_CONN_AWS_DEFAULT"])
        url = f"{connection['extra']['endpoint_url']}/{self.bucket}"
        keys = f"'{connection['login']}', '{connection['password']}'"
        into = f"{self.database}.{identifier(self.table)}"
        columns = ", ".join(name for name, *_ in self.on_node(0, f"DESCRIBE TABLE {into}"))
        listed = self.s3.list_objects_v2(Bucket=self.bucket, Prefix=f"trips/{period}/")["Contents"]
        for number, each in enumerate(listed):
            read = f"SELECT {columns} FROM s3('{url}/{each['Key']}', {keys})"
            self.on_node(number % len(self.cluster.nodes), f"INSERT INTO {into} ({columns}) {read}")

    def operator(self, **options: Any) -> S3ToClickHouseOperator:
        return self.operator_of(S3ToClickHouseOperator, **({"period": PERIOD} | options))

    def operator_of(self, kind: type[S3ToClickHouseOperator], **options: Any) -> S3ToClickHouseOperator:
        arguments = {"task_id": "load", "progress_interval_seconds": 0.2, **self.place}
        return kind(**grouped(**(arguments | options)))

    def load(self, **options: Any) -> dict[str, Any]:
        return self.operator(**options).execute({})

    def facts(self, period: str = PERIOD) -> PeriodFacts:
        with self.cluster.nodes[0].client() as client:
            return read_facts(client, f"cluster('{self.cluster.name}', {self.database}, {self.table})", period)

    def rows_per_node(self) -> list[int]:
        return [rows[0][0] for rows in self.on_every_node(f"SELECT count() FROM {self.database}.{self.table}")]

    def staging_tables(self) -> list[str]:
        return self._names(
            f"SELECT name FROM system.tables WHERE database = '{self.database}' AND name LIKE 'chs3\\_%' "
            "AND name NOT IN ('chs3_ledger', 'chs3_loads', 'chs3_objects') AND name NOT LIKE 'chs3\\_version\\_%'"
        )

    def left_behind(self) -> list[str]:
        """Staging tables and running queries of loads, on any node."""
        sql = "SELECT query_id FROM system.processes WHERE startsWith(initial_query_id, 'chs3_')"
        queries = self._names(sql)
        if queries:  # A server lists a query for some milliseconds after its last answer.
            time.sleep(0.2)
            still_there = set(self._names(sql))
            queries = [query for query in queries if query in still_there]
        return self.staging_tables() + queries

    def _names(self, sql: str) -> list[str]:
        return [name for rows in self.on_every_node(sql) for (name,) in rows]


@contextmanager
def lake_on(
    cluster: Cluster, s3: S3Endpoint, bucket: str, monkeypatch: pytest.MonkeyPatch, *, database: str = ""
) -> Iterator[Lake]:
    """An empty lake on a cluster that was started `WITH_NARROW_USER`, in a database of any name or of this one."""
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(narrow_connection(cluster)))
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(s3.airflow_connection()))
    lake = Lake(cluster, s3.client(), bucket, database or f"test_{uuid.uuid4().hex[:12]}")
    lake.create_database()
    yield lake
    left = lake.left_behind()
    lake.on_every_node(f"DROP DATABASE IF EXISTS {lake.database} SYNC")
    assert left == []


def recorded_loads(lake: Lake) -> list[dict[str, Any]]:
    """Return the first node's records of loads that published, by column, and the reason of each setting."""
    names = [name for name in LOADS_COLUMNS if not name.startswith("error")]
    sql = f"SELECT {', '.join(names)} FROM {lake.database}.chs3_loads WHERE event = 'load' ORDER BY recorded_at"
    found = [dict(zip(names, row, strict=True)) for row in lake.on_node(0, sql)]
    for each in found:
        settings = json.loads(each["settings"])
        each["checks"] = json.loads(each["checks"] or "[]")
        each["settings"] = {setting["name"]: setting["value"] for setting in settings}
        each["reasons"] = {setting["name"]: setting["reason"] for setting in settings}
    return found
