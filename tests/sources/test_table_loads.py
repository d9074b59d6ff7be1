"""Loads of Iceberg and Delta tables end in exactly the rows of a snapshot, whatever happens to the table."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import Insert, InsertStats
from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.table_lake import TableLake
from tests.sources.trips_target import PERIOD

TRIPS = Trips(rows_per_period=2_000)
OTHER = Trips(seed=2, rows_per_period=2_500)


@pytest.mark.every_change
def test_a_period_is_loaded_exactly_and_again_only_where_it_changed(
    table_lake: TableLake, caplog: pytest.LogCaptureFixture
) -> None:
    table_lake.table.put(TRIPS.table(PERIOD).slice(0, 1_500))
    table_lake.table.put(TRIPS.table("2026-02"))
    caplog.set_level(logging.DEBUG)
    caplog.clear()
    operator = table_lake.operator()
    result = operator.execute({})
    assert (result["status"], result["counted_by"], result["rows"]) == ("published", "footers", 1_500)
    shown: Any = (
        f"{caplog.text}{operator.insert_sql}{vars(operator)}{operator.store.source(operator.store.listing())!r}"
    )
    assert table_lake.table.s3.secret_key not in shown
    assert "[HIDDEN]" in operator.insert_sql
    # Files that were appended are loaded alone.
    table_lake.table.put(TRIPS.table(PERIOD).slice(1_500))
    result = table_lake.load()
    assert (result["objects"], result["loaded_objects"]) == (2, 1)
    assert table_lake.facts() == TRIPS.facts(PERIOD)
    table_lake.table.put(TRIPS.table("2026-03"))
    assert table_lake.load()["status"] == "unchanged"
    table_lake.table.overwrite(OTHER.table(PERIOD), PERIOD)
    assert table_lake.load()["status"] == "published"
    assert table_lake.facts() == OTHER.facts(PERIOD)
    assert table_lake.rows() == OTHER.rows_per_period


@pytest.mark.thorough
def test_rows_that_the_table_deletes_are_gone_after_the_next_load(table_lake: TableLake) -> None:
    table_lake.table.put(TRIPS.table(PERIOD))
    table_lake.load()
    table_lake.table.delete("trip_distance > 3")
    left = table_lake.load(max_shrink_fraction=0.9)["rows"]
    assert 0 < left < TRIPS.rows_per_period
    assert table_lake.rows() == left
    assert min(table_lake.distances()) <= 3 >= max(table_lake.distances())


@pytest.mark.thorough(but=1, first=1)
def test_a_commit_under_the_load_is_the_next_loads(table_lake: TableLake, monkeypatch: pytest.MonkeyPatch) -> None:
    table_lake.table.put(TRIPS.table(PERIOD))
    insert = Runner.insert

    def committing(runner: Runner, step: Insert) -> InsertStats:
        table_lake.table.overwrite(OTHER.table(PERIOD), PERIOD)
        return insert(runner, step)

    with monkeypatch.context() as during:
        during.setattr(Runner, "insert", committing)
        assert table_lake.load()["status"] == "published"
    assert table_lake.facts() == TRIPS.facts(PERIOD)
    assert table_lake.load()["status"] == "published"
    assert table_lake.facts() == OTHER.facts(PERIOD)


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_a_table_that_is_vacuumed_under_the_load_is_loaded_as_it_is_then(
    table_lake: TableLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_lake.table.put(TRIPS.table(PERIOD))
    inserts: list[Insert] = []
    insert = Runner.insert

    def vacuuming(runner: Runner, step: Insert) -> InsertStats:
        if not inserts:
            table_lake.table.overwrite(OTHER.table(PERIOD), PERIOD)
            table_lake.table.remove(step.paths)
        inserts.append(step)
        return insert(runner, step)

    monkeypatch.setattr(Runner, "insert", vacuuming)
    table_lake.load()
    assert len(inserts) == 2
    assert table_lake.facts() == OTHER.facts(PERIOD)


@pytest.mark.thorough
def test_a_file_of_two_periods_is_refused_for_both(table_lake: TableLake) -> None:
    import pyarrow as pa

    table_lake.table.put_in_one_file(pa.concat_tables([TRIPS.table(PERIOD), TRIPS.table("2026-02")]))
    table_lake.table.put_in_one_file(TRIPS.table("2026-03"))
    for period in (PERIOD, "2026-02"):
        with pytest.raises(AirflowFailException, match="holds rows of 2026-01 to 2026-02, and files are loaded whole"):
            table_lake.load(period, objects=table_lake.by_statistics)
    assert table_lake.rows() == 0
    table_lake.load("2026-03", objects=table_lake.by_statistics)
    assert table_lake.facts("2026-03") == TRIPS.facts("2026-03")


@pytest.mark.thorough(but=1)
@pytest.mark.every_change
def test_a_column_that_does_not_exist_is_told(table_lake: TableLake) -> None:
    table_lake.table.put(TRIPS.table(PERIOD))
    wrong = table_lake.by_statistics
    wrong.time_column = "picked_up"
    with pytest.raises(AirflowFailException, match="time_column='picked_up' is not a column of"):
        table_lake.load(objects=wrong)


@pytest.mark.thorough
def test_the_example_dag_loads_and_then_finds_nothing_to_load(
    table_lake: TableLake, run_example: Callable[..., None]
) -> None:
    for period in ("2026-01", "2026-02"):
        table_lake.table.put(TRIPS.table(period))
    run_example(table_lake.dag_id, table_lake, TRIPS, ["2026-01", "2026-02"], **table_lake.dag_conf)
