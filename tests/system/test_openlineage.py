"""What Airflow's OpenLineage provider emits of loads: one DAG with loads of each kind, and the events of its run."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from airflow.sdk import DAG

from airflow_provider_chs3.testbed.trips import Trips, create_table_sql
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.support import deferring
from tests.support.arguments import grouped
from tests.support.narrow_user import NARROW, narrow_connection
from tests.support.secret_texts import found_in
from tests.support.slow import SLOW_SETTINGS
from tests.system import lineage_events

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

    from airflow_provider_chs3.testbed.nodes import Cluster
    from airflow_provider_chs3.testbed.s3 import S3Endpoint

pytest.importorskip("airflow.providers.openlineage")

FEW = Trips(rows_per_period=600, files_per_period=3)
MANY = Trips(rows_per_period=600, files_per_period=30)
#: So slow that it is deferred.
SLOW = {
    "deferrable": True,
    "progress_interval_seconds": 0.2,
    "select": {"pickup_at": "pickup_at", "trip_id": "trip_id + sleepEachRow(0.006)"},
    "settings": SLOW_SETTINGS,
}
CHECKS = {
    "column_mapping": {"fare": {"null_check": {"equal_to": 0}}},
    "table_checks": {"rows": {"check_statement": "count() < 600"}},
}


class Emitted:
    """The events of a run, and what its loads were given and returned."""

    def __init__(self, events: list[dict[str, Any]], results: dict[str, Any], where: dict[str, str]) -> None:
        self.events, self.results, self.where = events, results, where

    def of(self, task_id: str, kind: str = "COMPLETE") -> dict[str, Any]:
        found = [each for each in self.events if each["job"]["name"] == f"lineage.{task_id}"]
        (event,) = (each for each in found if each["eventType"] == kind)
        return event

    def inputs(self, task_id: str, kind: str = "COMPLETE") -> list[tuple[str, str]]:
        return [(each["namespace"], each["name"]) for each in self.of(task_id, kind)["inputs"]]

    def output(self, task_id: str, kind: str = "COMPLETE") -> dict[str, Any]:
        (output,) = self.of(task_id, kind)["outputs"]
        return output


def _tasks(where: dict[str, str]) -> None:
    tasks: dict[str, dict[str, Any]] = {
        "few": {"period": "2026-01", "checks": CHECKS, "policies": {"on_failed_check": "warn"}},
        "again": {"period": "2026-01"},
        "held": {
            # Not the held period alone: older versions of Airflow's provider tell nothing of tasks that are skipped.
            "period": None,
            "periods": ["2026-01", "2026-07"],
            "checks": CHECKS,
            "policies": {"on_failed_check": "hold"},
        },
        "many": {"period": "2026-02"},
        "slow": {"period": "2026-03", **SLOW},
        "collection": {"period": "2026-04", "named_collection": "chs3_s3", "bucket": None, "aws_conn_id": None},
        "wrong": {"period": "2026-04", "select": {"pickup_at": "pickup_at", "trip_id": "-1 - toInt64(trip_id)"}},
    }
    made = {}
    for task_id, options in tasks.items():
        key = f"{where['bucket']}/trips/{{YYYY-MM}}/" if task_id == "collection" else "trips/{YYYY-MM}/"
        made[task_id] = S3ToClickHouseOperator(**grouped(task_id=task_id, **{**where, "key": key} | options))
    together = {**where, "key": "trips/{YYYY-MM}/", "periods": ["2026-05", "2026-06"]}
    S3ToClickHouseOperator(task_id="together", **together)
    made["few"] >> made["again"] >> made["held"]
    made["collection"] >> made["wrong"]


@pytest.fixture(scope="module")
def emitted(
    chs3_cluster: Cluster, chs3_s3: S3Endpoint, run_dag: Callable[..., DagRun], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Emitted]:
    name = f"test_lineage_{uuid.uuid4().hex[:8]}"
    where = {"bucket": name.replace("_", "-"), "database": name, "table": "trips", "cluster": chs3_cluster.name}
    s3 = chs3_s3.client()
    s3.create_bucket(Bucket=where["bucket"])
    periods = dict.fromkeys(("2026-01", "2026-03", "2026-04", "2026-05", "2026-07"), FEW) | dict.fromkeys(
        ("2026-02", "2026-06"), MANY
    )
    for period, trips in periods.items():
        trips.upload(s3, period, bucket=where["bucket"], prefix=f"trips/{period}/")
    _on_every_node(chs3_cluster, f"CREATE DATABASE {name}", create_table_sql(f"{name}.trips"))
    with DAG("lineage", schedule=None, start_date=datetime(2026, 1, 1)) as dag:
        _tasks(where)
    events = tmp_path_factory.mktemp("lineage") / "events.json"
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(narrow_connection(chs3_cluster)))
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(chs3_s3.airflow_connection()))
        deferring.hurry(monkeypatch)
        with lineage_events.emitting(events, monkeypatch):
            run = run_dag(dag)
    results = {instance.task_id: instance.xcom_pull(task_ids=instance.task_id) for instance in run.get_task_instances()}
    yield Emitted(lineage_events.read_events(events), results, where)
    _on_every_node(chs3_cluster, f"DROP DATABASE {name} SYNC")


def _on_every_node(cluster: Cluster, *statements: str) -> None:
    for node in cluster.nodes:
        with node.client() as client:
            for sql in statements:
                client.execute(sql)


def test_every_event_fits_the_classes_that_openlineages_client_has_of_its_spec(emitted: Emitted) -> None:
    assert len(emitted.events) >= 12
    for event in emitted.events:
        lineage_events.check(event)


def test_the_check_finds_what_does_not_fit(emitted: Emitted) -> None:
    event = json.loads(json.dumps(emitted.of("few")))
    event["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] = "600"
    with pytest.raises(jsonschema.ValidationError, match="'600' is not"):
        lineage_events.check(event)


def test_what_was_read_is_told_object_by_object(emitted: Emitted) -> None:
    bucket = f"s3://{emitted.where['bucket']}"
    names = [f"trips/2026-01/trips-2026-01-00{number}.parquet" for number in range(3)]
    assert emitted.inputs("few") == [(bucket, name) for name in names]


def test_many_objects_are_told_as_their_prefix_with_number_and_size(emitted: Emitted) -> None:
    (only,) = emitted.of("many")["inputs"]
    assert (only["namespace"], only["name"]) == (f"s3://{emitted.where['bucket']}", "trips/2026-02")
    statistics = only["inputFacets"]["inputStatistics"]
    assert (statistics["fileCount"], statistics["size"]) == (30, emitted.results["many"]["source_bytes"])


def test_objects_that_a_named_collection_leads_to_are_told_with_their_bucket(emitted: Emitted) -> None:
    assert {namespace for namespace, _ in emitted.inputs("collection")} == {f"s3://{emitted.where['bucket']}"}


def test_periods_that_were_loaded_together_are_told_as_their_prefixes_and_partitions(emitted: Emitted) -> None:
    bucket, output = f"s3://{emitted.where['bucket']}", emitted.output("together")
    assert emitted.inputs("together") == [(bucket, "trips/2026-05"), (bucket, "trips/2026-06")]
    partitions = output["outputFacets"]["subset"]["outputCondition"]["partitions"]
    assert [partition["identifier"] for partition in partitions] == ["2026-05", "2026-06"]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 1200
    (query_id,) = {query_id for result in emitted.results["together"] for query_id in result["query_ids"]}
    assert emitted.of("together")["run"]["facets"]["externalQuery"]["externalQueryId"] == query_id


def test_the_table_is_named_by_server_and_database(emitted: Emitted, chs3_cluster: Cluster) -> None:
    connection = chs3_cluster.airflow_connection()
    output = emitted.output("few")
    assert output["namespace"] == f"clickhouse://{connection['host']}:{connection['port']}"
    assert output["name"] == f"{emitted.where['database']}.trips"


@pytest.mark.parametrize("kind", ["START", "COMPLETE"])
def test_the_tables_columns_are_told(emitted: Emitted, kind: str) -> None:
    fields = emitted.output("few", kind)["facets"]["schema"]["fields"]
    assert [(field["name"], field["type"]) for field in fields][:2] == [
        ("trip_id", "UInt64"),
        ("vendor", "LowCardinality(String)"),
    ]


@pytest.mark.parametrize(("task_id", "period"), [("few", "2026-01"), ("many", "2026-02"), ("slow", "2026-03")])
def test_one_period_is_overwritten(emitted: Emitted, task_id: str, period: str) -> None:
    output = emitted.output(task_id)
    assert output["facets"]["lifecycleStateChange"]["lifecycleStateChange"] == "OVERWRITE"
    partitions = output["outputFacets"]["subset"]["outputCondition"]["partitions"]
    assert partitions == [{"identifier": period, "dimensions": {"period": period}}]


@pytest.mark.parametrize("task_id", ["few", "many", "slow"])
def test_rows_and_bytes_are_those_of_the_period_in_the_table(emitted: Emitted, task_id: str) -> None:
    statistics = emitted.output(task_id)["outputFacets"]["outputStatistics"]
    result = emitted.results[task_id]
    assert (statistics["rowCount"], statistics["size"]) == (600, result["table_bytes"])
    assert statistics["size"] > 0


def test_a_load_that_changes_nothing_overwrites_nothing(emitted: Emitted) -> None:
    output = emitted.output("again")
    assert (set(output["facets"]), output["outputFacets"]) == ({"schema"}, {})


@pytest.mark.parametrize("task_id", ["few", "held"])
def test_what_checks_found_is_told_as_assertions(emitted: Emitted, task_id: str) -> None:
    facet = emitted.output(task_id)["facets"]["dataQualityAssertions"]
    assert [(each["assertion"], each["success"]) for each in facet["assertions"]] == [
        ("null_check of fare", True),
        ("rows", False),
    ]


@pytest.mark.parametrize("task_id", ["few", "slow"])
def test_the_statement_is_told_with_its_query_id(emitted: Emitted, task_id: str) -> None:
    event = emitted.of(task_id)
    assert event["job"]["facets"]["sql"]["query"].startswith("INSERT INTO FUNCTION cluster(")
    assert [event["run"]["facets"]["externalQuery"]["externalQueryId"]] == emitted.results[task_id]["query_ids"]


def test_no_secret_is_told(emitted: Emitted, chs3_s3: S3Endpoint) -> None:
    told = json.dumps(emitted.events)
    assert "[HIDDEN]" in told
    assert found_in(told, {"S3": chs3_s3.secret_key, "ClickHouse": NARROW.password}) == []


def test_a_failed_load_tells_its_error_and_what_it_was_about_to_read(emitted: Emitted) -> None:
    event = emitted.of("wrong", "FAIL")
    assert "Column 'trip_id' is UInt64" in event["run"]["facets"]["errorMessage"]["message"]
    assert emitted.output("wrong", "FAIL")["facets"] == {}
    assert len(event["inputs"]) == 3
    assert "toInt64(assumeNotNull(" in event["job"]["facets"]["sql"]["query"]
