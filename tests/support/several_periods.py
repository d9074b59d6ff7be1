"""A bucket of several small periods, and loads of them together."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.support.arguments import grouped
from tests.support.lake import Lake

PERIODS = ("2026-07", "2026-08", "2026-09", "2026-10")


@dataclass
class Periods:
    """A bucket of periods of days with numbers, and what each should hold."""

    lake: Lake
    file_format: str = "parquet"
    rows: dict[str, list[tuple[date, int]]] = field(default_factory=dict)

    def put(self, period: str, name: str, *, rows: int = 40) -> None:
        """Add a file; one of the same name is added to, as if it had been there before."""
        first = 1000 * sum(map(len, self.rows.values()))
        found = [(date.fromisoformat(f"{period}-{1 + n % 28:02}"), first + n) for n in range(rows)]
        self.rows.setdefault(period, []).extend(found)
        self.lake.put(f"n/{period}/{name}.{self.file_format}", self.body(found))

    def body(self, rows: list[tuple[date, int]]) -> bytes:
        if self.file_format == "csv":
            return "".join(["day,n\n", *(f"{day},{n}\n" for day, n in rows)]).encode()
        written = io.BytesIO()
        days, numbers = zip(*rows, strict=True)
        pq.write_table(pa.table({"day": pa.array(days, pa.date32()), "n": pa.array(numbers, pa.uint32())}), written)
        return written.getvalue()

    def operator(self, *periods: str, **options: Any) -> S3ToClickHouseOperator:
        lake = self.lake
        arguments = {
            "task_id": "load",
            "bucket": lake.bucket,
            "key": "n/{YYYY-MM}/",
            "database": lake.database,
            "table": lake.table,
            "periods": list(periods or PERIODS),
            "cluster": lake.cluster.name,
            "file_format": "CSVWithNames" if self.file_format == "csv" else None,
            "progress_interval_seconds": 0.2,
        }
        return S3ToClickHouseOperator(**grouped(**(arguments | options)))

    def load(self, *periods: str, **options: Any) -> dict[str, Any]:
        return {each["period"]: each for each in self.operator(*periods, **options).execute({})}

    def statuses(self, *periods: str, **options: Any) -> dict[str, str]:
        return {period: each["status"] for period, each in self.load(*periods, **options).items()}

    def load_one(self, period: str) -> str:
        return self.lake.load(period=period, key="n/{YYYY-MM}/")["status"]

    def found(self) -> dict[str, list[tuple[date, int]]]:
        source = f"cluster('{self.lake.cluster.name}', {self.lake.database}, {self.lake.table})"
        rows: dict[str, list[tuple[date, int]]] = {}
        for day, number in self.lake.on_node(0, f"SELECT day, n FROM {source} ORDER BY n"):
            rows.setdefault(f"{day:%Y-%m}", []).append((day, number))
        return rows

    def expected(self, *but: str) -> dict[str, list[tuple[date, int]]]:
        return {period: sorted(rows, key=lambda row: row[1]) for period, rows in self.rows.items() if period not in but}


@pytest.fixture
def periods(lake: Lake) -> Periods:
    lake.table = "numbers"
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.numbers (day Date, n UInt32) ENGINE MergeTree ORDER BY n "
        "PARTITION BY toYYYYMM(day)"
    )
    found = Periods(lake)
    for number, period in enumerate(PERIODS):
        found.put(period, "a", rows=40 + number)
        found.put(period, "b", rows=50)
    return found
