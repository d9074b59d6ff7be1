"""The data of the demo: a bucket of trips, and a table on every node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from airflow_provider_chs3.testbed.nodes import Cluster, RunningNode
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import PeriodFacts, Trips, create_table_sql, read_facts

# The defaults of the DAG's parameters.
BUCKET = "taxi"
DATABASE = "taxi"
TABLE = "trips"
DISTRIBUTED_TABLE = "trips_all"


@dataclass(frozen=True)
class PartsOnNode:
    """The parts of all periods on one node."""

    parts: Mapping[str, int]
    merges: Mapping[str, int]
    names: frozenset[str]
    delay_limit: int
    throw_limit: int


@dataclass(frozen=True)
class Lake:
    """Periods of trips in a bucket, and the table that they are loaded into."""

    cluster: Cluster
    s3: S3Endpoint
    trips: Trips
    periods: Sequence[str]
    late_period: str
    rewritten: dict[str, Trips] = field(default_factory=dict)

    def create_tables(self) -> None:
        """Create the table on every node, and a Distributed one over it."""
        for node in self.cluster.nodes:
            with node.client() as client:
                client.execute(f"CREATE DATABASE {DATABASE}")
                client.execute(create_table_sql(f"{DATABASE}.{TABLE}"))
                client.execute(
                    f"CREATE TABLE {DATABASE}.{DISTRIBUTED_TABLE} AS {DATABASE}.{TABLE} "
                    f"ENGINE = Distributed({self.cluster.name}, {DATABASE}, {TABLE})"
                )

    def upload(self) -> int:
        """Put all files but the late one into the bucket."""
        client, size_bytes = self.s3.client(), 0
        client.create_bucket(Bucket=BUCKET)
        for period in self.periods:
            files = list(self.trips.files(period))
            for name, content in files[:-1] if period == self.late_period else files:
                client.put_object(Bucket=BUCKET, Key=f"trips/{period}/{name}", Body=content)
                size_bytes += len(content)
        return size_bytes

    def upload_late_file(self) -> str:
        """Put the late file into the bucket."""
        *_, (name, content) = self.trips.files(self.late_period)
        key = f"trips/{self.late_period}/{name}"
        self.s3.client().put_object(Bucket=BUCKET, Key=key, Body=content)
        return key

    def rewrite(self, period: str, trips: Trips) -> None:
        """Replace all files of a period by others."""
        trips.upload(self.s3.client(), period, bucket=BUCKET, prefix=f"trips/{period}/")

    def rows(self, period: str) -> int:
        """Count the rows of a period in the table."""
        return sum(rows.get(period, 0) for rows in self.rows_by_period())

    def differences(self, *, but: str = "") -> list[str]:
        """Compare the rows, sums and checksum of every period on all nodes with the generator's."""
        found = []
        with self.cluster.nodes[0].client() as client:
            for period in sorted({*self.periods} - {but}):
                expected = _facts(self.rewritten.get(period, self.trips), period)
                loaded = read_facts(client, f"{DATABASE}.{DISTRIBUTED_TABLE}", period)
                if loaded != expected:
                    found.append(f"{period}: the files have {expected}, the table has {loaded}")
        return found

    def rows_by_period(self) -> list[dict[str, int]]:
        """Count the rows of every period on each node."""
        sql = f"SELECT formatDateTime(pickup_at, '%Y-%m') AS period, count() FROM {DATABASE}.{TABLE} GROUP BY period"
        return [dict(_ask(node, sql)) for node in self.cluster.nodes]

    def loads(self) -> list[dict[str, Any]]:
        """Return what is recorded of each load, the oldest first."""
        names = ("period", "objects", "rows", "insert_seconds", "loaded_rows", "loaded_objects", "settings")
        sql = f"SELECT {', '.join(names)} FROM {DATABASE}.chs3_loads WHERE event = 'load' ORDER BY recorded_at"
        return [dict(zip(names, row, strict=True)) for row in _ask(self.cluster.nodes[0], sql)]

    def parts(self) -> list[PartsOnNode]:
        """Return the parts and merges of each node."""
        return [_parts(node) for node in self.cluster.nodes]


def periods_from(first: str, count: int) -> list[str]:
    """Return consecutive periods."""
    start = int(first[:4]) * 12 + int(first[5:]) - 1
    return [f"{at // 12:04}-{at % 12 + 1:02}" for at in range(start, start + count)]


def _parts(node: RunningNode) -> PartsOnNode:
    of_table = f"database = '{DATABASE}' AND table = '{TABLE}'"
    active = _ask(node, f"SELECT partition, name FROM system.parts WHERE {of_table} AND active")
    merges = _ask(node, f"SELECT partition_id FROM system.merges WHERE {of_table}")
    limits = dict(
        _ask(node, "SELECT name, toUInt64(value) FROM system.merge_tree_settings WHERE name LIKE 'parts_to_%_insert'")
    )
    return PartsOnNode(
        parts=Counter(_period(partition) for partition, _ in active),
        merges=Counter(_period(partition) for (partition,) in merges),
        names=frozenset(name for _, name in active),
        delay_limit=limits["parts_to_delay_insert"],
        throw_limit=limits["parts_to_throw_insert"],
    )


def _period(partition: str) -> str:
    return f"{partition[:4]}-{partition[4:]}"


def _ask(node: RunningNode, sql: str) -> list[tuple[Any, ...]]:
    with node.client() as client:
        answer: list[tuple[Any, ...]] = client.execute(sql)
        return answer


@cache
def _facts(trips: Trips, period: str) -> PeriodFacts:
    # Each step of the demo compares every period.
    return trips.facts(period)
