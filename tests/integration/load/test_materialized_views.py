"""The guide on materialized views is right, and the statements that a load logs fill them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from airflow_provider_chs3.testbed.trips import Trips
from airflow_provider_chs3.transfers.clickhouse_to_clickhouse import ClickHouseToClickHouseOperator
from tests.support.lake import PERIOD, Lake

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "materialized-views.md"
FIRST = Trips(rows_per_period=900, files_per_period=3)
SECOND = Trips(seed=2, rows_per_period=1_200, files_per_period=3)


def run(lake: Lake, statements: Iterable[str]) -> None:
    for statement in statements:
        lake.on_every_node(statement.replace("taxi.", f"{lake.database}."))


@pytest.fixture
def create() -> list[str]:
    """The guide's statements that make the view."""
    (found,) = re.findall(r"```sql\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return list(found.split(";\n")[:-1])


def zones(lake: Lake, table: str = "zones", condition: str = "1") -> list[tuple[str, int]]:
    source = f"cluster({lake.cluster.name}, {lake.database}, {table})"
    return lake.on_node(0, f"SELECT zone, sum(trips) FROM {source} WHERE {condition} GROUP BY zone ORDER BY zone")


def expected(lake: Lake, condition: str = "1") -> list[tuple[str, int]]:
    source = f"cluster({lake.cluster.name}, {lake.database}, trips)"
    return lake.on_node(0, f"SELECT zone, count() FROM {source} WHERE {condition} GROUP BY zone ORDER BY zone")


@pytest.mark.thorough
def test_the_guides_loads_fill_the_periods_exactly(trips_lake: Lake, create: list[str]) -> None:
    run(trips_lake, create)
    where = {"view": f"{trips_lake.database}.zones_view", "table": f"{trips_lake.database}.zones"}
    for period, trips in (("2026-09", FIRST), (PERIOD, FIRST), (PERIOD, SECOND)):
        trips_lake.upload(trips, period)
        trips_lake.load(period=period)
        statuses = []
        for _ in range(2):
            task = ClickHouseToClickHouseOperator(
                task_id="zones", period=period, cluster=trips_lake.cluster.name, **where
            )
            statuses.append(task.execute({})["status"])
        assert statuses == ["published", "unchanged"]
    assert zones(trips_lake) == expected(trips_lake)
    assert zones(trips_lake, condition="month = '2026-10-01'") == expected(trips_lake, "toYYYYMM(pickup_at) = 202610")


@pytest.mark.thorough
def test_what_the_load_tells_adds_the_periods_rows_to_each_view(
    trips_lake: Lake, create: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    run(trips_lake, create)
    # One whose table is its own, with a type that a view would not cast into, and columns in another order.
    run(
        trips_lake,
        [
            "CREATE TABLE taxi.wide (trips UInt64, zone String, day Date) ENGINE = SummingMergeTree ORDER BY zone",
            "CREATE MATERIALIZED VIEW taxi.wide_view TO taxi.wide AS SELECT zone, toUInt8(1) AS trips FROM taxi.trips",
            "CREATE MATERIALIZED VIEW taxi.own ENGINE = SummingMergeTree ORDER BY zone "
            "AS SELECT zone, count() AS trips FROM taxi.trips AS t GROUP BY zone SETTINGS max_threads = 1",
        ],
    )
    for period in ("2026-09", PERIOD):
        trips_lake.upload(FIRST, period)
        capfd.readouterr()
        trips_lake.load(period=period)
    statements = re.findall(
        r"^  (INSERT INTO .* SETTINGS additional_table_filters = \{.*?\})", capfd.readouterr().out, re.M
    )
    assert len(statements) == 3
    run(trips_lake, statements)
    october = expected(trips_lake, "toYYYYMM(pickup_at) = 202610")
    assert {name: zones(trips_lake, name) for name in ("zones", "wide", "own")} == dict.fromkeys(
        ("zones", "wide", "own"), october
    )
