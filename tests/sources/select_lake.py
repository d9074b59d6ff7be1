"""A table on every node, and one that is loaded from it by a SELECT."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.transfers.clickhouse_to_clickhouse import ClickHouseToClickHouseOperator
from tests.sources.trips_target import TripsTarget
from tests.support.following_views import MERGED
from tests.support.narrow_user import narrow_connection

if TYPE_CHECKING:
    import pytest

    from airflow_provider_chs3.testbed.nodes import Cluster

#: The columns of a view by zone and month: sums, and states.
BY_ZONE = "SELECT toStartOfMonth(at) AS month, zone, count() AS trips, sum(fare) AS fares, uniqState(id) AS ids"
ZONES = (
    "month Date, zone LowCardinality(String), trips SimpleAggregateFunction(sum, UInt64), "
    "fares SimpleAggregateFunction(sum, UInt64), ids AggregateFunction(uniq, UInt64)"
)


@dataclass
class SelectLake(TripsTarget):
    """The tables `base` and `zones` on every node, and loads from one to the other."""

    cluster: Cluster
    database: str

    @classmethod
    def create(
        cls,
        cluster: Cluster,
        database: str,
        monkeypatch: pytest.MonkeyPatch,
        *,
        base_key: str = "toYYYYMM(at)",
        key: str = "toYYYYMM(month)",
        columns: str = ZONES,
        engine: str = "AggregatingMergeTree",
        replicated: bool = False,
    ) -> SelectLake:
        lake = cls(cluster, database)
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(narrow_connection(cluster)))
        prefix = "Replicated" if replicated else ""
        for name, of, kind, by, order in (
            ("base", "id UInt64, at DateTime('UTC'), zone String, fare UInt32", "MergeTree", base_key, "id"),
            ("zones", columns, engine, key, "(month, zone)"),
        ):
            is_placed = replicated and not cluster.database_engine
            path = f"('/chs3/{database}/{{shard}}/{name}', '{{replica}}')" if is_placed else ""
            partitions = f"PARTITION BY {by}" if by else ""
            table = f"{database}.{name} ({of}) ENGINE = {prefix}{kind}{path} {partitions} ORDER BY {order}"
            # The first server of a shard has created it on the others, in a Replicated database.
            lake.on_every_node(f"CREATE TABLE IF NOT EXISTS {table}")
        return lake

    @property
    def sql(self) -> str:
        return f"{BY_ZONE} FROM {self.database}.base GROUP BY month, zone"

    @property
    def where(self) -> dict[str, Any]:
        return {
            **{"task_id": "load", "table": "zones", "database": self.database, "cluster": self.cluster.name},
            **{"sql": self.sql, "from_table": f"{self.database}.base", "progress_interval_seconds": 0.2},
        }

    def load(self, *periods: str, **options: Any) -> list[str]:
        """Load periods, and return their statuses."""
        given = {"periods": list(periods)} | self.where | options
        return [each["status"] for each in ClickHouseToClickHouseOperator(**given).execute({})]

    def put(self, day: str, *, rows: int = 100, first: int = 0, node: int | None = None) -> None:
        """Insert rows of a day into the base: other ones on each node."""
        for number, each in enumerate(self.cluster.nodes):
            if node in (None, number):
                with each.client() as client:
                    client.execute(
                        f"INSERT INTO {self.database}.base SELECT {first + 1_000_000 * number} + number, "
                        f"toDateTime('{day} 00:00:00', 'UTC') + number, concat('zone ', toString(number % 3)), number "
                        f"FROM numbers({rows})"
                    )

    def made(self, sql: str, merged: str = MERGED) -> list[list[tuple[Any, ...]]]:
        """Return the rows that a SELECT makes on each node, merged as people read them."""
        keys = "month, zone" if merged == MERGED else merged
        return self.on_every_node(f"SELECT {merged} FROM ({sql}) GROUP BY {keys} ORDER BY ALL")

    def assert_exact(self, *periods: int) -> None:
        """Compare with what the SELECT makes of the periods: on each node of its own rows."""
        of = ", ".join(map(str, periods)) or "0"
        expected = f"{BY_ZONE} FROM {self.database}.base WHERE toYYYYMM(at) IN ({of}) GROUP BY month, zone"
        assert self.made(f"SELECT * FROM {self.database}.zones") == self.made(expected)
