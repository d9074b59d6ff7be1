"""Periods of trips in S3, a table, and two ways from one to the other: this package, and a plain INSERT SELECT."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import COLUMNS, Trips, create_table_sql
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.support.arguments import grouped

BUCKET = "bench"
TABLE = "trips"
#: The tables of records beside it.
RECORDS = ("chs3_ledger", "chs3_loads", "chs3_objects")
#: The condition for tables of staging.
STAGING = f"startsWith(table, 'chs3_') AND table NOT IN {RECORDS}"


def months(first_year: int, count: int) -> list[str]:
    """Return the names of months in a row."""
    return [f"{first_year + number // 12}-{number % 12 + 1:02}" for number in range(count)]


@dataclass(frozen=True, kw_only=True)
class Periods:
    """Periods of trips in the bucket."""

    prefix: str
    names: Sequence[str]
    rows: int
    files: int
    copies: int = 1

    @property
    def total_rows(self) -> int:
        return self.rows // self.files * self.files * len(self.names)

    def upload(self, s3: S3Endpoint) -> None:
        """Make the files, some at a time: a large period at once would take gigabytes."""
        client = s3.client()
        with ThreadPoolExecutor(max_workers=2) as pool:
            numbers = range(0, self.files, self.copies)
            list(pool.map(lambda at: self._upload_file(client, *at), product(self.names, numbers)))

    def _upload_file(self, client: Any, period: str, number: int) -> None:
        trips = Trips(seed=number, rows_per_period=self.rows // self.files, files_per_period=1)
        ((_, content),) = trips.files(period)
        for copy in range(number, min(number + self.copies, self.files)):
            key = f"{self.prefix}/{period}/{copy:03}.parquet"
            client.put_object(Bucket=BUCKET, Key=key, Body=content)


@dataclass(frozen=True)
class Lake:
    """A cluster and a bucket, and Airflow's connections to them."""

    cluster: ClickHouseCluster
    s3: S3Endpoint
    clickhouse_conn_id: str
    node_specs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.connect()

    def connect(self) -> None:
        """Make Airflow's connections those of this lake; `aws_default` is that of all."""
        connection = self.cluster.airflow_connection()
        connection["extra"] |= {"node_specs": self.node_specs} if self.node_specs else {}
        os.environ[f"AIRFLOW_CONN_{self.clickhouse_conn_id.upper()}"] = json.dumps(connection)
        os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = json.dumps(self.s3.airflow_connection())

    def start_afresh(self, create_sql: str | None = None) -> None:
        """An empty table on every node, no ledger, and no count of parts."""
        for node in self.cluster.nodes:
            with node.client() as client:
                for table in (TABLE, *RECORDS):
                    client.execute(f"DROP TABLE IF EXISTS {table} SYNC")
                client.execute(create_sql or create_table_sql(f"default.{TABLE}"))
                client.execute("SYSTEM FLUSH LOGS")
                client.execute("TRUNCATE TABLE IF EXISTS system.part_log")

    def forget(self) -> None:
        """Empty the table and the records of what it holds, and count no part so far; those of past loads stay."""
        self.ask_every_node("SYSTEM FLUSH LOGS")
        for table in (TABLE, "chs3_ledger", "chs3_objects", "system.part_log"):
            self.ask_every_node(f"TRUNCATE TABLE IF EXISTS {table}")

    def insert(self, periods: Periods, period: str, settings: Mapping[str, Any], *, into: str | None = None) -> None:
        """The plain statement, straight into the table."""
        self.insert_files(f"{periods.prefix}/{period}/*.parquet", "Parquet", settings, into=into)

    def insert_files(
        self, glob: str, file_format: str, settings: Mapping[str, Any], *, into: str | None = None
    ) -> None:
        """The same for files of any format."""
        columns = ", ".join(COLUMNS)
        url = f"{self.s3.endpoint_url}/{BUCKET}/{glob}"
        source = f"'{url}', '{self.s3.access_key}', '{self.s3.secret_key}', '{file_format}'"
        reader = f"s3({source})" if into == TABLE else f"s3Cluster('{self.cluster.name}', {source})"
        target = into or f"FUNCTION cluster('{self.cluster.name}', default, {TABLE})"
        with self.cluster.nodes[0].client() as client:
            client.execute(f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {reader}", settings=dict(settings))

    def load(self, periods: Periods, period: str, **arguments: Any) -> dict[str, Any]:
        """The operator's load of one period, from the listing to the ledger; give what it returns."""
        key = arguments.pop("key", f"{periods.prefix}/{{YYYY-MM}}/*.parquet")
        return self.load_files(key, period, **arguments)

    def load_files(self, key: str, period: str, **arguments: Any) -> dict[str, Any]:
        """The same for files of any format."""
        return S3ToClickHouseOperator(**grouped(task_id="load", **self.where(key, period), **arguments)).execute({})

    def where(self, key: str, period: str) -> dict[str, Any]:
        """The arguments of operators that say where table and files are."""
        return {
            "table": TABLE,
            "bucket": BUCKET,
            "key": key,
            "period": period,
            "cluster": self.cluster.name,
            "clickhouse_conn_id": self.clickhouse_conn_id,
        }

    def load_side_by_side(self, periods: Periods, parallel_loads: int, **arguments: Any) -> None:
        """All periods by the operator, so many at the same time."""

        def load(period: str) -> None:
            self.load(periods, period, parallel_loads=parallel_loads, **arguments)

        with ThreadPoolExecutor(max_workers=parallel_loads) as pool:
            list(pool.map(load, periods.names))

    def written_parts(self, *, staging: bool) -> int:
        """Parts that inserts have written since `start_afresh`; those of merges and of REPLACE are not counted."""
        condition = STAGING if staging else f"table = '{TABLE}'"
        sql = f"SELECT count() FROM system.part_log WHERE event_type = 'NewPart' AND {condition}"
        self.ask_every_node("SYSTEM FLUSH LOGS")
        return sum(self.ask_every_node(sql))

    def ask_every_node(self, sql: str) -> list[Any]:
        """The first value that each node answers, if any."""
        answers = []
        for node in self.cluster.nodes:
            with node.client() as client:
                answers += [row[0] for row in client.execute(sql)[:1]]
        return answers

    def rows(self) -> int:
        with self.cluster.nodes[0].client() as client:
            ((rows,),) = client.execute(f"SELECT count() FROM cluster('{self.cluster.name}', default, {TABLE})")
            return int(rows)
