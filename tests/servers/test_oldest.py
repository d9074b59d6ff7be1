"""The oldest supported ClickHouse: a real server of it understands each kind of statement that this package sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.operators.optimize import OptimizePartitionOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.programs import server
from airflow_provider_chs3.testbed.pytest_plugin import S3_NAMED_COLLECTION
from airflow_provider_chs3.testbed.trips import Trips
from tests.support import deferring
from tests.support.deferred_task import hurry, start
from tests.support.lake import PERIOD, Lake, lake_on
from tests.support.narrow_user import WITH_NARROW_USER
from tests.support.outcome import assert_exact

__all__ = ["hurry"]

OLD, NEW = Trips(rows_per_period=600, files_per_period=3), Trips(seed=2, rows_per_period=700, files_per_period=3)


@pytest.fixture(scope="module")
def oldest(chs3_s3: Any) -> Iterator[ClickHouseCluster]:
    """Two real servers of it, which a test may kill and start again."""
    collections = {S3_NAMED_COLLECTION: chs3_s3.named_collection()}
    profiles = {"profiles": {}, "clusters": {}}
    with ClickHouseCluster.start(
        2, program="server", named_collections=collections, **(WITH_NARROW_USER | profiles)
    ) as cluster:
        yield cluster


@pytest.fixture
def old_lake(
    oldest: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    with lake_on(oldest, chs3_s3, chs3_bucket, monkeypatch) as lake:
        lake.create_table()
        yield lake


def test_it_is_the_version_that_the_test_bed_names(old_lake: Lake) -> None:
    assert old_lake.on_node(0, "SELECT version()") == [(server.VERSION,)]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("file_format", ["parquet", "csv.gz", "jsonl"])
def test_a_period_is_loaded_once_and_again_when_it_changes(old_lake: Lake, file_format: str) -> None:
    keys = old_lake.upload(OLD, file_format=file_format)
    assert old_lake.load(key=f"trips/{{YYYY-MM}}/*.{file_format}")["status"] == "published"
    assert_exact(old_lake, OLD)
    assert old_lake.load(key=f"trips/{{YYYY-MM}}/*.{file_format}")["status"] == "unchanged"
    for key in keys:
        old_lake.s3.delete_object(Bucket=old_lake.bucket, Key=key)
    old_lake.upload(NEW, file_format=file_format)
    assert old_lake.load(key=f"trips/{{YYYY-MM}}/*.{file_format}")["status"] == "published"
    assert_exact(old_lake, NEW)


@pytest.mark.thorough
def test_an_obsolete_type_is_refused_and_loads_as_json(old_lake: Lake) -> None:
    old_lake.table = "objects"
    sql = (
        f"CREATE TABLE {old_lake.database}.objects (at DateTime('UTC'), o Object('json')) "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY at"
    )
    for node in old_lake.cluster.nodes:
        with node.client(settings={"allow_experimental_object_type": 1}) as client:
            client.execute(sql)
    old_lake.put(f"trips/{PERIOD}/a.jsonl", f'{{"at": "{PERIOD}-05 12:00:00", "o": {{"a": {{"b": [1]}}}}}}'.encode())
    with pytest.raises(AirflowFailException, match=r"'o' of .* is Object.*, an obsolete type") as refused:
        old_lake.load()
    assert old_lake.on_node(0, f"SHOW TABLES FROM {old_lake.database}") == [("objects",), ("trips",)]
    old_lake.on_every_node(str(refused.value).partition("as in ")[2].rstrip("."))
    old_lake.load()
    rows = old_lake.on_every_node(f"SELECT toString(o) FROM {old_lake.database}.objects")
    assert [json.loads(text) for of_node in rows for (text,) in of_node] == [{"a": {"b": [1]}}]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("file_format", "line"), [("csv", "{at},{number}"), ("jsonl", '{{"at": "{at}", "x": {number}}}')]
)
def test_doubles_are_exact_to_the_last_bit(old_lake: Lake, file_format: str, line: str) -> None:
    """Its readers of text are not; its cast of a text is, if asked."""
    numbers = [1.485, 7.233473763748346e-158, 0.1, 6.94, 1e23]
    old_lake.on_every_node(
        f"CREATE TABLE {old_lake.database}.doubles (at DateTime('UTC'), x Float64) "
        "ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY at"
    )
    lines = [line.format(at=f"{PERIOD}-05 00:00:00", number=number) for number in numbers]
    old_lake.put(f"trips/{PERIOD}/a.{file_format}", "\n".join(lines).encode())
    old_lake.load(table="doubles", file_format="CSV" if file_format == "csv" else "JSONEachRow")
    found = [x for rows in old_lake.on_every_node(f"SELECT x FROM {old_lake.database}.doubles") for (x,) in rows]
    assert sorted(found) == sorted(numbers)


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["ORDER BY trip_id", "PRIMARY KEY trip_id ORDER BY (trip_id, vendor)"])
def test_tables_name_their_primary_key_or_not(old_lake: Lake, key: str) -> None:
    name = f"{old_lake.database}.trips"
    columns = old_lake.on_node(0, "SELECT create_table_query FROM system.tables WHERE table = 'trips'")[0][0]
    old_lake.on_every_node(f"DROP TABLE {name} SYNC")
    head = columns.split(" ENGINE ")[0]
    old_lake.on_every_node(f"{head} ENGINE = MergeTree PARTITION BY toYYYYMM(pickup_at) {key}")
    old_lake.upload(OLD)
    old_lake.load()
    assert_exact(old_lake, OLD)


def test_periods_are_planned_merged_and_told(old_lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    old_lake.upload(OLD)
    where = {"table": "trips", "database": old_lake.database}
    load = Load(bucket=old_lake.bucket, key="trips/{YYYY-MM}/", **where)
    plan = PlanLoadsOperator(task_id="plan", load=load, periods=[PERIOD])
    assert plan.execute({}) == [PERIOD]
    assert old_lake.load(wait_for_merges=True)["merges"]["health"] == "healthy"
    assert ClickHouseMergeHealthSensor(task_id="merges", periods=[PERIOD], **where).poke({})
    assert plan.execute({}) == []
    for command in ("doctor", "ledger"):
        capsys.readouterr()
        code = main([command, "--database", old_lake.database, "--cluster", old_lake.cluster.name, "--table", "trips"])
        out, err = capsys.readouterr()
        assert (code, err) == (0, ""), out


def test_closed_periods_are_merged(old_lake: Lake) -> None:
    name = f"{old_lake.database}.trips"
    for number in range(2):
        old_lake.on_node(0, f"INSERT INTO {name} (trip_id, pickup_at) VALUES ({number}, '2025-06-05 00:00:00')")
    operator = OptimizePartitionOperator(task_id="optimize", table="trips", database=old_lake.database)
    assert operator.execute({})["merged"] == 1


@pytest.mark.thorough
def test_a_load_goes_on_without_its_process(old_lake: Lake) -> None:
    old_lake.upload(OLD)
    result = deferring.run(old_lake, {})
    while isinstance(result, deferring.Deferred):
        result = result.resume()
    assert result["status"] == "published"
    assert_exact(old_lake, OLD)


@pytest.mark.thorough
@pytest.mark.usefixtures("hurry")
def test_a_backup_goes_on_without_its_process(
    old_lake: Lake, oldest: ClickHouseCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row finds nobody any more, which other statements with rows count as an error there."""
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(oldest.airflow_connection()))
    table = f"{old_lake.database}.numbers"
    old_lake.on_node(0, f"CREATE TABLE {table} (n UInt64) ENGINE = MergeTree ORDER BY n")
    old_lake.on_node(0, f"INSERT INTO {table} SELECT rand64() FROM numbers(2_000_000)")
    deferred = start(f"BACKUP TABLE {table} TO Memory('numbers')", settings={"max_backup_bandwidth": 5_000_000})
    assert deferred.resume() == []
    ended = f"SELECT status FROM system.backups WHERE query_id = '{deferred.trigger.query_id}'"
    assert old_lake.on_node(0, ended) == [("BACKUP_CREATED",)]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("expression", ["sum(trip_id) OVER ()", "count()", "(SELECT 1)"])
def test_expressions_that_are_not_row_wise_are_refused(old_lake: Lake, expression: str) -> None:
    old_lake.upload(OLD)
    with pytest.raises(AirflowFailException, match="select"):
        old_lake.load(select={"pickup_at": "pickup_at", "trip_id": expression})


def test_it_does_not_know_external_ids(old_lake: Lake) -> None:
    with pytest.raises(AirflowFailException, match="Invalid credential argument found: external_id"):
        old_lake.load(role_arn="arn:aws:iam::123456789012:role/reader", external_id="ours")


@pytest.mark.thorough
def test_a_server_that_is_killed_right_after_it_published_shows_no_row_twice(
    old_lake: Lake, oldest: ClickHouseCluster
) -> None:
    """Replaced parts that are on the disk come back there."""
    for trips in (OLD, NEW):
        old_lake.upload(trips)
        old_lake.load()
    for number in range(2):
        oldest.restart(number)
    assert_exact(old_lake, NEW)
    assert old_lake.load()["status"] == "unchanged"
