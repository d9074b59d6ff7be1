"""A bucket of several small months, and loads of them together."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.arguments import grouped
from tests.integration.lake import Lake

MONTHS = ("2026-07", "2026-08", "2026-09", "2026-10")


@dataclass
class Months:
    """A bucket of months of days with numbers, and what each should hold."""

    lake: Lake
    file_format: str = "parquet"
    rows: dict[str, list[tuple[date, int]]] = field(default_factory=dict)

    def put(self, month: str, name: str, *, rows: int = 40) -> None:
        """Add a file; one of the same name is added to, as if it had been there before."""
        first = 1000 * sum(map(len, self.rows.values()))
        found = [(date.fromisoformat(f"{month}-{1 + n % 28:02}"), first + n) for n in range(rows)]
        self.rows.setdefault(month, []).extend(found)
        self.lake.put(f"n/{month}/{name}.{self.file_format}", self.body(found))

    def body(self, rows: list[tuple[date, int]]) -> bytes:
        if self.file_format == "csv":
            return "".join(["day,n\n", *(f"{day},{n}\n" for day, n in rows)]).encode()
        written = io.BytesIO()
        days, numbers = zip(*rows, strict=True)
        pq.write_table(pa.table({"day": pa.array(days, pa.date32()), "n": pa.array(numbers, pa.uint32())}), written)
        return written.getvalue()

    def operator(self, *months: str, **options: Any) -> S3ToClickHouseOperator:
        lake = self.lake
        arguments = {
            "task_id": "load",
            "bucket": lake.bucket,
            "key": "n/{YYYY-MM}/",
            "database": lake.database,
            "table": lake.table,
            "months": list(months or MONTHS),
            "cluster": lake.cluster.name,
            "file_format": "CSVWithNames" if self.file_format == "csv" else None,
            "progress_interval_seconds": 0.2,
        }
        return S3ToClickHouseOperator(**grouped(**(arguments | options)))

    def load(self, *months: str, **options: Any) -> dict[str, Any]:
        return {each["month"]: each for each in self.operator(*months, **options).execute({})}

    def statuses(self, *months: str, **options: Any) -> dict[str, str]:
        return {month: each["status"] for month, each in self.load(*months, **options).items()}

    def load_one(self, month: str) -> str:
        return self.lake.load(month=month, key="n/{YYYY-MM}/")["status"]

    def found(self) -> dict[str, list[tuple[date, int]]]:
        source = f"cluster('{self.lake.cluster.name}', {self.lake.database}, {self.lake.table})"
        rows: dict[str, list[tuple[date, int]]] = {}
        for day, number in self.lake.on_node(0, f"SELECT day, n FROM {source} ORDER BY n"):
            rows.setdefault(f"{day:%Y-%m}", []).append((day, number))
        return rows

    def expected(self, *but: str) -> dict[str, list[tuple[date, int]]]:
        return {month: sorted(rows, key=lambda row: row[1]) for month, rows in self.rows.items() if month not in but}


@pytest.fixture
def months(lake: Lake) -> Months:
    lake.table = "numbers"
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.numbers (day Date, n UInt32) ENGINE MergeTree ORDER BY n "
        "PARTITION BY toYYYYMM(day)"
    )
    found = Months(lake)
    for number, month in enumerate(MONTHS):
        found.put(month, "a", rows=40 + number)
        found.put(month, "b", rows=50)
    return found
