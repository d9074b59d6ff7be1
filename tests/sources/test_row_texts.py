"""Texts of plans, loads, the ledger's commands and the doctor about a table of a database: rows, and no objects."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.exceptions import NotReadyError
from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.row_lake import RowLake
from tests.sources.trips_target import PERIOD

TRIPS = Trips(rows_per_period=1_000)


@pytest.fixture
def lake(row_lake: RowLake) -> RowLake:
    """A period of trips in a table of a database, and an empty table that it is loaded into."""
    row_lake.put(TRIPS.table(PERIOD))
    return row_lake


def said(capsys: pytest.CaptureFixture[str], lake: RowLake, command: str, *options: str) -> str:
    """Return a command's output about a period."""
    capsys.readouterr()
    table = ["--database", lake.database, "--table", "trips", "--cluster", lake.cluster.name]
    main([command, *lake.doctor_options, *table, *options])
    return capsys.readouterr().out


@pytest.mark.thorough
def test_a_plan_and_a_load_of_what_changed_speak_of_rows(lake: RowLake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.load()
    lake.change("DELETE FROM {t} WHERE pickup_at < '2026-01-03'")
    planned = said(capsys, lake, "plan", "--period", PERIOD, "--key-column", "trip_id")
    assert f"{PERIOD}   load    its rows changed since it was published" in planned
    result = lake.load()
    assert [result[name] for name in ("status", "objects", "loaded_objects")] == ["published", 0, 0]
    recorded = f"SELECT DISTINCT objects FROM {lake.database}.chs3_ledger WHERE event = 'published'"
    assert {row for rows in lake.on_every_node(recorded) for row in rows} == {(0,)}
    with lake.cluster.nodes[0].client() as client:
        of_loads = client.execute(f"SELECT DISTINCT objects FROM {lake.database}.chs3_loads WHERE event = 'load'")
    assert of_loads == [(0,)]
    log = capsys.readouterr().out
    assert "its rows changed since it was published" in log
    assert " object" not in planned + log
    assert "object" not in said(capsys, lake, "plan", "--period", PERIOD, "--key-column", "trip_id")


@pytest.mark.thorough
def test_a_period_without_rows_is_told_as_that(lake: RowLake, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotReadyError, match="No rows for 2019-01 under"):
        lake.load(period="2019-01")
    with pytest.raises(AirflowSkipException, match="skipped: no rows"):
        lake.load(period="2019-01", on_no_objects="skip")
    assert "it has no rows yet" in said(capsys, lake, "plan", "--period", "2019-01")
    assert "no rows of 2019-01 by 'pickup_at'" in said(capsys, lake, "doctor", "--period", "2019-01")


@pytest.mark.thorough
def test_a_period_that_shrank_and_one_that_does_not_fit_speak_of_rows(
    lake: RowLake, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = said(capsys, lake, "adopt", "--period", PERIOD)
    assert "its source has 1,000 rows" in refused
    assert " object" not in refused
    lake.load()
    lake.change("DELETE FROM {t} WHERE pickup_at < '2026-01-25'")
    with pytest.raises(AirflowFailException, match="2026-01: its rows shrank from"):
        lake.load()


@pytest.mark.thorough
def test_the_doctor_counts_rows(lake: RowLake, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, lake, "doctor", "--period", PERIOD)
    assert "1,000 rows, into partition 202601" in found
    assert "1 object" not in found


@pytest.mark.thorough
def test_rows_that_the_table_has_in_another_period_ask_for_its_zone(lake: RowLake) -> None:
    kind = "timestamp NULL" if lake.is_mysql else "timestamptz"
    lake.change(f"ALTER TABLE {{t}} ADD COLUMN since {kind}")
    lake.change("UPDATE {t} SET since = '2026-01-31 23:30:00' WHERE pickup_at < '2026-02-01'")
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.berlin (since DateTime('Europe/Berlin')) ENGINE = MergeTree "
        "PARTITION BY toYYYYMM(since) ORDER BY since"
    )
    options: dict[str, Any] = {"table": "berlin", "time_column": "since"}
    with pytest.raises(AirflowFailException, match=r"puts into other periods .*202602: 1000.* timezone="):
        lake.load(**options)
    assert lake.load(**options, row_timezone="Europe/Berlin", period="2026-02")["rows"] == 1_000


@pytest.mark.thorough(but=1, first=1)
def test_an_age_of_objects_is_refused(lake: RowLake) -> None:
    with pytest.raises(AirflowFailException, match=r"policies\['min_object_age_seconds'\]: this is about files"):
        lake.load(min_object_age_seconds=60)
