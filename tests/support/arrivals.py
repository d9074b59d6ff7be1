"""Objects that have rows of many periods, loaded by arrival."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.support.lake import Lake

#: The load reads the path of each row's object, too.
BY_OBJECT = {
    "select": {"at": "at", "number": "number", "path": "_path"},
    "object_column": "path",
}
#: How a table is adopted that was loaded by arrival.
BY_ARRIVAL = {
    "key": "raw/{YYYY-MM-DD}/*",
    "periods": None,
    "all_periods": True,
    "file_format": "CSVWithNames",
    "on_other_periods": "spread",
}


@dataclass
class Arrivals:
    """A table by day, and objects by the day on which they arrive."""

    lake: Lake
    key: str = "toDate(at)"
    engine: str = "MergeTree"
    is_by_object: bool = False
    objects: dict[str, list[tuple[datetime, int]]] = field(default_factory=dict)

    def create(self) -> None:
        path = ", path String" if self.is_by_object else ""
        self.lake.on_every_node(
            f"CREATE TABLE {self.name} (at DateTime('UTC'), number Int64{path}) ENGINE = {self.engine} "
            f"PARTITION BY {self.key} ORDER BY number"
        )

    @property
    def name(self) -> str:
        return f"{self.lake.database}.{self.lake.table}"

    def put(self, arrival: int, name: str, first: int, days: list[int], *, rows: int = 2) -> None:
        """Write an object that arrives on a day of November, with rows of other days."""
        noon = datetime(2026, 11, 1, 12)
        pairs = [(noon + timedelta(days=day - 1), first + 100 * day + row) for day in days for row in range(rows)]
        self.write(arrival, name, pairs)

    def write(self, arrival: int, name: str, pairs: list[tuple[datetime, int]]) -> None:
        key = f"raw/2026-11-{arrival:02}/{name}"
        seconds = [(int(at.replace(tzinfo=UTC).timestamp()), number) for at, number in pairs]
        self.lake.put(key, "".join(f"{left},{right}\n" for left, right in [("at", "number"), *seconds]).encode())
        self.objects[key] = pairs

    def delete(self, arrival: int, name: str) -> None:
        key = f"raw/2026-11-{arrival:02}/{name}"
        self.lake.s3.delete_object(Bucket=self.lake.bucket, Key=key)
        del self.objects[key]

    def lose_records(self) -> None:
        for table in ("chs3_ledger", "chs3_objects", "chs3_loads"):
            self.lake.on_every_node(f"DROP TABLE IF EXISTS {self.lake.database}.{table} SYNC")

    def change(self, sql: str) -> None:
        """Run a statement about the table, and wait for what it does."""
        self.lake.on_every_node(f"{sql.format(self.name)} SETTINGS mutations_sync = 1")

    def operator(self, arrival: int, **options: Any) -> S3ToClickHouseOperator:
        arguments = {
            "key": "raw/{YYYY-MM-DD}/*",
            "period": f"2026-11-{arrival:02}",
            "file_format": "CSVWithNames",
            "on_other_periods": "spread",
            **(BY_OBJECT if self.is_by_object else {}),
        }
        return self.lake.operator(**(arguments | options))

    def load(self, arrival: int, **options: Any) -> dict[str, Any]:
        return self.operator(arrival, **options).execute({})

    def expected(self) -> list[tuple[datetime, int]]:
        return sorted(pair for pairs in self.objects.values() for pair in pairs)

    def found(self) -> list[tuple[datetime, int]]:
        table = f"cluster('{self.lake.cluster.name}', {self.lake.database}, {self.lake.table})"
        rows = self.lake.on_node(0, f"SELECT at, number FROM {table}")
        return sorted((at.replace(tzinfo=None), number) for at, number in rows)

    def assert_exact(self) -> None:
        assert self.found() == self.expected()
        assert self.lake.left_behind() == []


@pytest.fixture
def arrivals(lake: Lake) -> Arrivals:
    arrivals = Arrivals(lake)
    arrivals.create()
    return arrivals


@pytest.fixture
def by_object(lake: Lake) -> Arrivals:
    arrivals = Arrivals(lake, is_by_object=True)
    arrivals.create()
    return arrivals


def touched(result: dict[str, Any]) -> list[int]:
    """Return the days that a load changed."""
    return [int(of_period["period"][-2:]) for of_period in result["of_periods"]]
