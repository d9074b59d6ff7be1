"""Tables of lakehouses are loaded by hour, day, week, quarter or year, or whole, however they are partitioned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.sources.delta import DeltaTable
from airflow_provider_chs3.sources.iceberg import IcebergTable
from tests.sources import lakehouses
from tests.sources.table_lake import TableLake

if TYPE_CHECKING:
    import pyarrow as pa

HOURS = {"2026-10-25T00Z": ("2026-10-25 00:00", "2026-10-25 00:59"), "2026-10-25T01Z": ("2026-10-25 01:00",)}
DAYS = {"2026-10-31": ("2026-10-31 00:00", "2026-10-31 23:59"), "2026-11-01": ("2026-11-01 00:00",)}
WEEKS = {"2026-W53": ("2026-12-28 00:00", "2027-01-03 23:59"), "2027-W01": ("2027-01-04 00:00",)}
QUARTERS = {"2026-Q3": ("2026-07-01 00:00", "2026-09-30 23:59"), "2026-Q4": ("2026-10-01 00:00", "2026-12-31 23:59")}
YEARS = {"2026": ("2026-01-01 00:00", "2026-12-31 23:59"), "2027": ("2027-01-01 00:00",)}


@dataclass
class Hits:
    """A table of a lakehouse, and one that it is loaded into."""

    lake: TableLake
    key: str
    by: tuple[tuple[str, str], ...] | str
    column: str = "DateTime('UTC')"
    timezone: str = "America/New_York"
    rows: list[tuple[str | None, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        by = f"PARTITION BY {self.key}" if self.key else ""
        self.lake.on_every_node(
            f"CREATE TABLE {self.lake.database}.hits (at Nullable({self.column}), id Int64, tenant String) "
            f"ENGINE = MergeTree {by} ORDER BY id SETTINGS allow_nullable_key = 1"
        )

    def put(self, moments: Sequence[str | None]) -> None:
        """Append a row for each moment, in one commit; None has no time."""
        import pyarrow as pa

        added = [(each, number) for number, each in enumerate(moments, start=len(self.rows))]
        self.rows += added
        at = [None if each is None else datetime.fromisoformat(each).replace(tzinfo=UTC) for each, _ in added]
        rows = pa.table(
            {
                "at": pa.array(at, pa.timestamp("us", tz="UTC")),
                "id": pa.array([number for _, number in added], pa.int64()),
                "tenant": pa.array([f"tenant {number % 2}" for _, number in added], pa.string()),
            }
        )
        if isinstance(self.by, str):
            self._append_to_delta(rows, at)
        else:
            self._append_to_iceberg(rows)

    def _append_to_delta(self, rows: pa.Table, at: list[datetime | None]) -> None:
        import pyarrow as pa
        from deltalake import write_deltalake

        options: dict[str, Any] = {"mode": "append", "storage_options": self.lake.table.storage_options}
        if self.by == "date":
            rows = rows.append_column("by", pa.array([each and each.date() for each in at], pa.date32()))
        elif self.by == "time":
            rows = rows.append_column("by", rows["at"])
        elif self.by:
            rows = rows.append_column("by", pa.array([self._text(each) for each in at], pa.string()))
        write_deltalake(self.uri, rows, **options | ({"partition_by": ["by"]} if self.by else {}))

    def _text(self, at: datetime | None) -> str | None:
        return at and at.strftime(self.by).replace("%q", str((at.month + 2) // 3))

    def _append_to_iceberg(self, rows: pa.Table) -> None:
        catalog = self.lake.table.catalog()
        if not catalog.table_exists("lake.hits"):
            catalog.create_namespace_if_not_exists("lake")
            made = catalog.create_table("lake.hits", rows.schema, location=f"s3://{self.lake.table.bucket}/hits")
            with made.update_spec() as spec:
                for number, (column, transform) in enumerate(self.by):
                    spec.add_field(column, transform, f"by_{number}")
        catalog.load_table("lake.hits").append(rows)

    @property
    def uri(self) -> str:
        return f"s3://{self.lake.table.bucket}/hits"

    @property
    def where(self) -> dict[str, Any]:
        """The arguments that say what is loaded."""
        zone = {"timezone": "UTC" if "UTC" in self.column else self.timezone}
        objects = (
            DeltaTable(uri=self.uri, time_column="by" if self.by else "at", **zone)
            if isinstance(self.by, str)
            else IcebergTable(table="lake.hits", time_column="at", **zone)
        )
        return {**self.lake.where, "objects": objects, "table": "hits"}

    def plan(self, **options: Any) -> list[str]:
        return PlanLoadsOperator(task_id="plan", **self.where, **options).execute({})

    def load(self, period: str, **options: Any) -> dict[str, Any]:
        return self.lake.operator(period, **self.where, **options).execute({})

    def assert_exact(self, *moments: str | None) -> None:
        """Compare the rows of ClickHouse with those of these moments."""
        sql = f"SELECT formatDateTime(at, '%F %R', 'UTC'), id, tenant FROM {self.lake.database}.hits"
        found = [row for rows in self.lake.on_every_node(sql) for row in rows]
        expected = [(at, number, f"tenant {number % 2}") for at, number in self.rows if at in moments]
        assert sorted(found, key=lambda row: row[1]) == expected


ICEBERG = [
    (HOURS, "toStartOfHour(at)", (("at", "hour"),)),
    (DAYS, "toDate(at)", (("at", "hour"),)),
    (DAYS, "toYYYYMMDD(at)", (("at", "identity"),)),
    (WEEKS, "toMonday(at)", (("at", "day"), ("id", "bucket[2]"))),
    (YEARS, "toYear(at)", (("tenant", "truncate[3]"), ("at", "month"))),
    (YEARS, "toYear(at)", (("at", "year"),)),
]
DELTA = [
    (HOURS, "toStartOfHour(at)", "%Y-%m-%dT%HZ"),
    (HOURS, "toStartOfHour(at)", "time"),
    (DAYS, "toDate(at)", "date"),
    (WEEKS, "toMonday(at)", "date"),
    (WEEKS, "toMonday(at)", "%G-W%V"),
    (QUARTERS, "toStartOfQuarter(at)", "%Y-Q%q"),
    (YEARS, "toYear(at)", "%Y-%m"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("table_lake", "periods", "key", "by"),
    [*(("iceberg", *each) for each in ICEBERG), *(("delta", *each) for each in DELTA)],
    indirect=["table_lake"],
    ids=[f"{name}-{key}-{by}" for name, cases in (("iceberg", ICEBERG), ("delta", DELTA)) for _, key, by in cases],
)
def test_a_period_holds_the_rows_of_its_partitions(
    table_lake: TableLake, periods: dict[str, tuple[str, ...]], key: str, by: Any
) -> None:
    hits, (first, second) = Hits(table_lake, key, by), periods
    hits.put([*periods[first], *periods[second]])
    assert hits.plan(all_periods=True) == [first, second]
    assert hits.load(second)["status"] == "published"
    hits.assert_exact(*periods[second])
    hits.put([*periods[first]])
    assert hits.plan(periods=[first, second]) == [first]
    assert hits.load(first)["status"] == "published"
    hits.assert_exact(*periods[first], *periods[second])
    hits.put([*periods[second]])
    assert hits.load(second)["loaded_objects"] < hits.load(second)["objects"]
    hits.assert_exact(*periods[first], *periods[second])


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("table_lake", "key", "by", "holds"),
    [
        ("iceberg", "toDate(at)", (("at", "month"),), "2026-10-30 to 2026-10-31"),
        ("iceberg", "toStartOfHour(at)", (("at", "day"),), "2026-10-30T00Z to 2026-10-30T23Z"),
        ("delta", "toDate(at)", "%Y-%m", "2026-10-01 to 2026-10-31"),
        ("delta", "toDate(at)", "", "2026-10-30 to 2026-10-31"),
    ],
    indirect=["table_lake"],
)
def test_files_that_are_coarser_than_a_period_are_refused_unless_their_statistics_show_one(
    table_lake: TableLake, key: str, by: Any, holds: str
) -> None:
    hits, (first, last) = Hits(table_lake, key, by), holds.split(" to ")
    hits.put(["2026-10-30 00:00", "2026-10-30 23:30", "2026-10-31 01:00"])
    for period in (first, last):
        with pytest.raises(AirflowFailException, match=f"holds rows of {holds}, and files are loaded whole"):
            hits.load(period)
    hits.assert_exact()
    if by == "%Y-%m":
        return
    hits.put(["2026-11-01 02:10", "2026-11-01 02:20"])
    alone = "2026-11-01T02Z" if "Hour" in key else "2026-11-01"
    assert alone in hits.plan(all_periods=True)
    hits.load(alone)
    hits.assert_exact("2026-11-01 02:10", "2026-11-01 02:20")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("table_lake", "by"), [("iceberg", (("at", "month"),)), ("delta", ""), ("delta", "%Y-%m")], indirect=["table_lake"]
)
def test_periods_take_their_rows_of_files_that_they_share(table_lake: TableLake, by: Any) -> None:
    # Each day is another one in UTC, in part.
    hits = Hits(table_lake, "toDate(at)", by, column="DateTime('America/New_York')")
    moments = {
        "2026-10-30": ("2026-10-30 04:00", "2026-10-31 03:59"),
        "2026-10-31": ("2026-10-31 04:00", "2026-11-01 03:59"),
        "2026-11-01": ("2026-11-01 04:00", "2026-11-02 04:59"),
    }
    hits.put([at for moment in moments.values() for at in moment])
    share = {"policies": {"on_other_periods": "leave_out"}}
    planned = hits.plan(all_periods=True, **share)
    assert set(moments) <= set(planned)
    for period in moments:
        assert hits.load(period, **share)["status"] == "published"
    hits.assert_exact(*(at for moment in moments.values() for at in moment))
    hits.put([moments["2026-10-31"][1]])
    assert hits.load("2026-10-31", **share)["status"] == "published"
    hits.assert_exact(*(at for moment in moments.values() for at in moment))
    assert {hits.load(period, **share)["status"] for period in moments} <= {"published", "unchanged"}
    hits.assert_exact(*(at for moment in moments.values() for at in moment))


@pytest.mark.thorough(but=1)
def test_files_of_another_zone_are_refused_with_the_way_out(table_lake: TableLake) -> None:
    by: Any = (("at", "day"),) if isinstance(table_lake.table, lakehouses.IcebergTable) else "date"
    hits = Hits(table_lake, "toDate(at)", by, column="DateTime('America/New_York')", timezone="UTC")
    hits.put(["2026-10-31 03:59", "2026-10-31 04:00"])
    with pytest.raises(AirflowFailException, match="Set the time zone of the table's partition key"):
        hits.load("2026-10-31")
    hits.assert_exact()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("table_lake", "by"), [("iceberg", (("at", "month"),)), ("delta", ""), ("delta", "date")], indirect=["table_lake"]
)
def test_a_whole_table_holds_all_rows_of_the_snapshot(table_lake: TableLake, by: Any) -> None:
    hits = Hits(table_lake, "", by)
    moments = ["1999-12-31 23:59", "2026-10-05 12:00", None]
    hits.put(moments)
    hits.put([None])
    assert hits.plan(all_periods=True) == ["all"]
    assert hits.load("all")["status"] == "published"
    hits.assert_exact(*moments)
    assert hits.load("all")["status"] == "unchanged"
    hits.put(["2026-10-06 12:00"])
    result = hits.load("all")
    assert (result["status"], result["loaded_objects"]) == ("published", 1)
    hits.assert_exact(*moments, "2026-10-06 12:00")
