"""What is said, or refused, of a target before a load writes anything."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.lake import MONTH, Lake

TRIPS = Trips(rows_per_month=900, files_per_month=3)


def test_materialized_views_are_told_that_will_not_see_the_month(
    trips_lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    database = trips_lake.database
    trips_lake.on_every_node(
        f"CREATE MATERIALIZED VIEW {database}.by_zone ENGINE = SummingMergeTree ORDER BY zone "
        f"AS SELECT zone, count() AS trips FROM {database}.trips GROUP BY zone"
    )
    trips_lake.upload(TRIPS)
    trips_lake.load()
    assert f"{database}.by_zone read from {database}.trips, but see no rows of {MONTH}" in capfd.readouterr().out


def test_a_ttl_is_told(trips_lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    trips_lake.on_every_node(f"ALTER TABLE {trips_lake.database}.trips MODIFY TTL pickup_at + INTERVAL 50 YEAR")
    trips_lake.upload(TRIPS)
    trips_lake.load()
    assert "expire (TTL)" in capfd.readouterr().out
    assert trips_lake.facts() == TRIPS.facts(MONTH)


def test_an_ordinary_target_is_no_word_worth(trips_lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.load()
    shown = capfd.readouterr().out
    assert not any(word in shown for word in ("materialized", "TTL", "local disk"))
