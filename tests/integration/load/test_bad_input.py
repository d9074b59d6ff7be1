"""Bad input gets one clear error, and the target is as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException

from airflow_provider_chs3.testbed.trips import COLUMNS, Trips
from tests.support.lake import PERIOD, Lake
from tests.support.refusal import refused

TRIPS = Trips(rows_per_period=900, files_per_period=3)
PREFIX = f"trips/{PERIOD}/"


#: Arguments, and what the error says of them.
REFUSED: list[tuple[dict[str, Any], str]] = [
    *(({"period": period}, "is not a period") for period in ("2026-13", "October", "2026-10-1", "202610")),
    ({"period": "2026"}, "is not partitioned by year .* 2026 falls into 12 partitions"),
    ({"period": "2026-10-01"}, r"has no day in it, so it cannot distinguish one day .* another: use \{YYYY-MM-DD\}"),
    (
        {"period": "all"},
        r"is not one period \(.*toYYYYMM\(pickup_at\).*\): name one of its own periods, such as 2026-01",
    ),
    ({"key": "trips/*.parquet"}, r"'trips/\*.parquet' has no month in it, .*use \{YYYY-MM\}"),
    ({"bucket": "chs3-not-there"}, "no such bucket"),
    *(({"bucket": bucket}, "not the name of a bucket") for bucket in ("s3://trips", "a/b", "x'; DROP TABLE y")),
    ({"database": "test_nowhere"}, "Database 'test_nowhere' does not exist"),
    ({"database": "test_a.b"}, "'test_a.b' has a dot in its name"),
    ({"cluster": "nowhere"}, "Cluster 'nowhere' is not known .*Known clusters: .*chs3"),
    ({"columns": ["zon"]}, "'zon'.*It takes trip_id, vendor"),
    ({"settings": {"max_insert_treads": 2}}, "not known to every node of the cluster: max_insert_treads"),
    ({"settings": {"max_threads": "many"}}, "settings: .* does not accept max_threads = 'many'"),
    ({"settings": {"max_memory_usage": ""}}, "settings: .* does not accept max_memory_usage = ''"),
    (
        {"settings": {"input_format_null_as_default": "maybe"}},
        "settings: .* does not accept input_format_null_as_default = 'maybe'",
    ),
    (
        {"settings": {"parallel_distributed_insert_select": 0}},
        "parallel_distributed_insert_select cannot be changed",  # it would make loads inexact
    ),
]


def test_arguments_that_name_nothing_are_told(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    for options, message in REFUSED:
        refused(trips_lake, message, **options)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("value", "is_native"), [("", False), (None, False), ("", True), (None, True)])
def test_a_period_whose_template_renders_to_nothing(trips_lake: Lake, value: str | None, is_native: bool) -> None:
    with DAG("nothing", render_template_as_native_obj=is_native):
        task = trips_lake.operator(period="{{ params.period }}")
    task.render_template_fields({"params": {"period": value}})
    with pytest.raises(AirflowFailException, match=r"period=.*: its template rendered to nothing"):
        task.execute({})


def test_wrong_keys(trips_lake: Lake, chs3_s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = chs3_s3.airflow_connection() | {"password": "wrong-secret-key"}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_WRONG", json.dumps(connection))
    refused(trips_lake, "secret key is wrong", aws_conn_id="aws_wrong")


@pytest.mark.three_nodes
def test_a_table_that_differs_on_one_node(trips_lake: Lake) -> None:
    changes = "ADD INDEX i fare TYPE minmax GRANULARITY 1, ADD PROJECTION p (SELECT zone, count() GROUP BY zone)"
    trips_lake.on_node(2, f"ALTER TABLE {trips_lake.database}.trips ADD COLUMN extra String, {changes}")
    trips_lake.upload(TRIPS)
    difference = (
        r"columns are extra String there and missing elsewhere\.(?s:.*) its indices are (?s:.*) its projections are "
    )
    refused(trips_lake, f"differs on 127.0.0.1:{trips_lake.cluster.nodes[2].tcp_port}: its {difference}")


@pytest.mark.thorough
def test_a_cluster_that_is_not_the_distributed_tables(trips_lake: Lake) -> None:
    database, single = trips_lake.database, trips_lake.cluster.single_node_name
    trips_lake.on_node(
        0, f"CREATE TABLE {database}.d AS {database}.trips ENGINE = Distributed(chs3, {database}, trips)"
    )
    trips_lake.upload(TRIPS)
    refused(
        trips_lake, f"Distributed over cluster 'chs3', but the load names cluster='{single}'", table="d", cluster=single
    )


@pytest.mark.thorough
def test_an_engine_whose_partitions_cannot_be_staged(lake: Lake) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.trips ({columns}, sign Int8, version UInt8) "
        "ENGINE = VersionedCollapsingMergeTree(sign, version) PARTITION BY toYYYYMM(pickup_at) ORDER BY trip_id"
    )
    lake.upload(TRIPS)
    refused(lake, "is a VersionedCollapsingMergeTree, .*use CollapsingMergeTree")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["x; DROP TABLE y", "a`b", "a'b", "a\\b", "a b", "ü{}%"])
def test_hostile_names_are_just_names_that_do_not_exist(trips_lake: Lake, name: str) -> None:
    trips_lake.upload(TRIPS)
    refused(trips_lake, "does not exist", table=name)
    # The user of tests may do nothing in databases of other names.
    refused(trips_lake, "does not exist", database=f"test_{name}")
    refused(trips_lake, r"is not known|has a macro \{\} that the server of the connection does not have", cluster=name)
    refused(trips_lake, "does not exist", staging_database=f"test_{name}")
    refused(trips_lake, "No such column", columns=[name])


def test_a_server_below_the_lowest_version(trips_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    # No such server runs here, so the bar is raised instead.
    monkeypatch.setattr("airflow_provider_chs3.core.target.topology.LOWEST_VERSION", (99, 1))
    trips_lake.upload(TRIPS)
    refused(trips_lake, r"runs ClickHouse 2\d\.\d+.*below 99.1, the lowest supported: upgrade it")
