"""A script does with a table what tasks do, without any of Airflow's tasks."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from airflow_provider_chs3.client.session import Session
from airflow_provider_chs3.core.model.period import parse_periods
from airflow_provider_chs3.exceptions import ConfigurationError, TargetChangedError
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.table import Table, clean
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import PERIOD, Lake

FIRST = Trips(rows_per_period=600, files_per_period=3)
SECOND = Trips(seed=2, rows_per_period=660, files_per_period=3)
NOTHING = {"statements": {"nothing is right": "SELECT false"}}


@pytest.fixture
def load(trips_lake: Lake) -> Load:
    return Load(
        table=trips_lake.table,
        database=trips_lake.database,
        cluster=trips_lake.cluster.name,
        bucket=trips_lake.bucket,
        key="trips/{YYYY-MM}/",
        policies={"keep_versions": 1},
    )


@pytest.fixture
def table(trips_lake: Lake, load: Load) -> Table:
    """The table on a session that knows no Airflow."""
    return Table.of(Session.of(ClickHouseHook().options), load)


def test_it_is_loaded_planned_proved_and_restored(
    trips_lake: Lake, table: Table, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    trips_lake.upload(FIRST)
    with caplog.at_level(logging.INFO, logger="airflow_provider_chs3.table"):
        assert [result.status for result in table.load(load, PERIOD)] == ["published"]
    assert caplog.messages[0].startswith(f"List s3://{trips_lake.bucket}/")
    assert trips_lake.facts() == FIRST.facts(PERIOD)
    assert [(period.is_to_load, period.reason) for period in table.plan(load)] == [(False, "as published")]
    changed = replace(load, select={"trip_id": "trip_id", "pickup_at": "pickup_at"})
    asked = parse_periods(PERIOD)
    assert [period.is_to_load for period in table.plan(changed, PERIOD)] == [True]
    assert [period.is_to_load for period in table.plan(changed, asked, compares_definition=False)] == [False]

    trips_lake.upload(SECOND)
    assert [period.is_to_load for period in table.plan(load)] == [True]
    table.load(load, [PERIOD])
    assert trips_lake.facts() == SECOND.facts(PERIOD)
    assert [(proof.status, proof.rows) for proof in table.prove(load)] == [("equal", 660)]
    assert {unit.is_current for unit in table.list_objects(PERIOD)} == {True, False}
    (version,) = table.list_versions()
    (restored,) = table.restore(PERIOD, by="a script", version=version.attempt)
    assert (restored.status, trips_lake.facts()) == ("restored", FIRST.facts(PERIOD))
    assert [result.status for result in table.load(load, PERIOD)] == ["skipped"]
    table.unpin(PERIOD)
    assert [result.status for result in table.load(load, PERIOD)] == ["published"]
    assert trips_lake.facts() == SECOND.facts(PERIOD)


@pytest.mark.thorough
def test_what_is_held_is_approved_or_discarded(trips_lake: Lake, table: Table, load: Load) -> None:
    trips_lake.upload(FIRST)
    holds = replace(load, checks=NOTHING, policies={"on_failed_check": "hold"})
    assert [result.status for result in table.load(holds, PERIOD)] == ["held"]
    assert [period.was_held for period in table.discard(PERIOD)] == [True]
    assert [result.status for result in table.load(holds, PERIOD)] == ["held"]
    assert [result.status for result in table.approve(holds, PERIOD)] == ["published"]
    assert trips_lake.facts() == FIRST.facts(PERIOD)


def test_rows_of_others_are_adopted_and_forgotten(trips_lake: Lake, table: Table, load: Load) -> None:
    trips_lake.upload(FIRST)
    trips_lake.insert_objects()
    with pytest.raises(TargetChangedError):
        table.load(load, PERIOD)
    assert [period.status for period in table.adopt(load, PERIOD, proves=True)] == ["adopted"]
    assert [(str(period.period), period.is_as_published) for period in table.list_periods()] == [(PERIOD, True)]
    assert [period.was_known for period in table.forget(PERIOD)] == [True]
    assert [period.state for period in table.list_periods()] != ["as published"]
    assert clean(table.session, database=trips_lake.database, cluster=trips_lake.cluster.name) == []


def test_a_new_one_is_suggested(trips_lake: Lake, table: Table, load: Load) -> None:
    trips_lake.upload(FIRST)
    suggested = table.suggest(load, PERIOD)
    assert [column.name for column in suggested.columns] == [*FIRST.table(PERIOD).column_names]


def test_periods_must_be_named_and_settings_given(table: Table, load: Load) -> None:
    with pytest.raises(ConfigurationError, match=r"^No periods are named: name them, such as periods=\['2026-10'\]\.$"):
        table.forget(())
    with pytest.raises(ConfigurationError, match=r"^settings='x\.json': pass a dict; only tasks read files"):
        table.load(replace(load, settings="x.json"), PERIOD)
