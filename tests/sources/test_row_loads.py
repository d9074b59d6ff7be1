"""Loads from tables of databases end in exactly the rows of the period, whatever happened to them meanwhile."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import Insert, InsertStats
from airflow_provider_chs3.exceptions import NotReadyError, ObjectsChangedError, TransientError
from airflow_provider_chs3.testbed.trips import Trips
from tests.sources.row_lake import RowLake
from tests.sources.trips_target import PERIOD

TRIPS = Trips(rows_per_period=3_000)
CHANGE = "UPDATE {t} SET fare = fare + 1 WHERE pickup_at >= '2026-01-01' AND pickup_at < '2026-01-03'"


@pytest.mark.three_nodes
@pytest.mark.every_change
def test_a_period_is_loaded_exactly_and_again_only_where_it_changed(row_lake: RowLake) -> None:
    row_lake.rows.put(TRIPS.table(PERIOD))
    row_lake.rows.put(TRIPS.table("2026-02"))
    result = row_lake.load()
    assert (result["status"], result["rows"]) == ("published", 3_000)
    assert row_lake.facts() == TRIPS.facts(PERIOD)
    assert row_lake.rows_per_node() == [1_000] * 3
    assert row_lake.load()["status"] == "unchanged"
    row_lake.change(CHANGE)
    assert row_lake.load()["status"] == "published"
    assert row_lake.facts() != TRIPS.facts(PERIOD)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("key", [{"key_column": None}, {"key_column": "zone"}], ids=["none", "text"])
@pytest.mark.three_nodes
def test_rows_are_read_once_with_any_key(row_lake: RowLake, key: dict[str, Any]) -> None:
    row_lake.rows.put(TRIPS.table(PERIOD))
    row_lake.load(**key)
    assert row_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_negative_and_missing_keys_are_read_once(row_lake: RowLake) -> None:
    row_lake.rows.put(TRIPS.table(PERIOD))
    kind = "SIGNED" if row_lake.is_mysql else "bigint"
    row_lake.change("ALTER TABLE {t} ADD COLUMN negative bigint")
    row_lake.change(
        f"UPDATE {{t}} SET negative = CASE WHEN mod(trip_id, 5) = 0 THEN NULL ELSE -CAST(trip_id AS {kind}) END"
    )
    row_lake.load(key_column="negative")
    assert row_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.three_nodes
def test_a_writer_to_the_period_starts_the_load_over_a_few_times(
    row_lake: RowLake, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    row_lake.rows.put(TRIPS.table(PERIOD))
    row_lake.rows.put(TRIPS.table("2026-02"))
    insert, seen = Runner.insert, []

    def insert_while_written(self: Runner, step: Insert) -> InsertStats:
        stats = insert(self, step)
        row_lake.change("UPDATE {t} SET fare = fare + 1 WHERE pickup_at >= '2026-02-01'")
        if len(seen) < times:
            row_lake.change(CHANGE)
        seen.append(step)
        return stats

    monkeypatch.setattr(Runner, "insert", insert_while_written)
    if times == 1:
        assert row_lake.load()["status"] == "published"
        assert len(seen) == 2
        assert row_lake.load()["status"] == "unchanged"
    else:
        with pytest.raises(ObjectsChangedError, match="changed while they were loaded"):
            row_lake.load()
        assert len(seen) == 4
        assert sum(row_lake.rows_per_node()) == 0


@pytest.mark.thorough(but=1)
@pytest.mark.three_nodes
def test_a_wrong_password_is_told_and_nowhere_shown(
    row_lake: RowLake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    row_lake.rows.put(TRIPS.table(PERIOD))
    # Other tests write statements with the password by hand.
    (began,) = row_lake.on_every_node("SELECT toUnixTimestamp64Micro(now64(6))")[0][0]
    row_lake.load()
    password = "wr0ng-password-of-a-test"
    row_lake.connect(monkeypatch, password=password)
    with pytest.raises(AirflowFailException, match="refuses") as caught:
        row_lake.load()
    secrets = (password, row_lake.rows.server.password)
    assert not any(secret in caplog.text + repr(caught.value) for secret in secrets)
    row_lake.on_every_node("SYSTEM FLUSH LOGS")
    logged = (
        "SELECT query, formatted_query, exception FROM system.query_log "
        f"WHERE toUnixTimestamp64Micro(event_time_microseconds) >= {began}"
    )
    for answers in row_lake.on_every_node(logged):
        assert not any(secret in json.dumps(answers) for secret in secrets)


@pytest.mark.every_change
def test_what_is_missing_is_told(row_lake: RowLake) -> None:
    with pytest.raises(NotReadyError, match="No rows for 2026-01"):
        row_lake.load()
    with pytest.raises(AirflowFailException, match="There is no table"):
        row_lake.load(source_table="no such")
    with pytest.raises(AirflowFailException, match="has no column 'at'"):
        row_lake.load(time_column="at")
    with pytest.raises(AirflowFailException, match="name the column of a date or a time"):
        row_lake.load(time_column="zone")


@pytest.mark.thorough(but=6)
@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("fingerprint", " ", "fingerprint=' ' is empty"),
        ("key_column", "", "key_column='' is empty"),
        ("schema", "", "schema='' is empty"),
        ("time_column", "", "time_column='' is empty"),
        ("time_column", None, "time_column=None is empty"),
        ("fingerprint", "\ud800", "not text that a database can hold"),
        ("source_table", "a\0b", "not text that a database can hold"),
        ("row_timezone", "Europe", "timezone='Europe' is not known"),
        ("fingerprint", "max(fare)), (1", "has several values"),
        ("fingerprint", "fare", "refuses"),
    ],
)
def test_arguments_without_sense_are_told(row_lake: RowLake, argument: str, value: Any, said: str) -> None:
    row_lake.rows.put(TRIPS.table(PERIOD))
    with pytest.raises(AirflowFailException, match=re.escape(said)):
        row_lake.load(**{argument: value})
    assert sum(row_lake.rows_per_node()) == 0


@pytest.mark.thorough(but=1, first=1)
def test_a_database_that_does_not_answer_is_worth_a_retry(row_lake: RowLake, monkeypatch: pytest.MonkeyPatch) -> None:
    row_lake.connect(monkeypatch, port=1)
    with pytest.raises(TransientError, match="does not answer"):
        row_lake.load()


@pytest.mark.thorough(but=1)
@pytest.mark.three_nodes
def test_names_mean_nothing_to_any_sql(row_lake: RowLake) -> None:
    row_lake.rows.put(TRIPS.table(PERIOD))
    name, column = 'it\'s "a`b" \\ {t}/%s;', "k'e\"y` \\ {}"
    quoted = row_lake.store().listing().dialect.quoted
    with_marks = row_lake.rows.table
    for sql in (
        f"ALTER TABLE {with_marks} RENAME COLUMN trip_id TO {quoted(column)}",
        f"ALTER TABLE {with_marks} RENAME TO {quoted(name)}",
    ):
        row_lake.run(sql)
    result = row_lake.load(
        source_table=name,
        key_column=column,
        select={"trip_id": "`k'e\"y\\` \\\\ {}`"} | {each: each for each in row_lake.other_columns},
    )
    assert result["rows"] == 3_000
    assert row_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
def test_a_digest_of_ones_own_tells_of_changes(row_lake: RowLake) -> None:
    row_lake.rows.put(TRIPS.table(PERIOD))
    row_lake.load(fingerprint="max(fare)")
    row_lake.change("UPDATE {t} SET zone = 'elsewhere' WHERE trip_id % 2 = 0")
    assert row_lake.load(fingerprint="max(fare)")["status"] == "unchanged"
    row_lake.change("UPDATE {t} SET fare = 99999")
    assert row_lake.load(fingerprint="max(fare)")["status"] == "published"


@pytest.mark.thorough
def test_the_example_dag_loads_and_then_finds_nothing_to_load(
    row_lake: RowLake, run_example: Callable[..., None]
) -> None:
    if row_lake.is_mysql:
        pytest.skip("the example reads PostgreSQL")
    for period in ("2026-01", "2026-02"):
        row_lake.rows.put(TRIPS.table(period))
    run_example("chs3_postgres", row_lake, TRIPS, ["2026-01", "2026-02"], source_table=row_lake.rows.table)
