"""Each extra brings all that its source needs: a period is loaded with its libraries alone, and refused without them.

The extra `events` has a test of its own (`tests/scheduler/test_events.py`), in another environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.testbed.trips import Trips
from airflow_provider_chs3.transfers.azure_blob_to_clickhouse import AzureBlobToClickHouseOperator
from airflow_provider_chs3.transfers.delta_to_clickhouse import DeltaToClickHouseOperator
from airflow_provider_chs3.transfers.iceberg_to_clickhouse import IcebergToClickHouseOperator
from airflow_provider_chs3.transfers.kafka_to_s3 import KafkaToS3Operator
from airflow_provider_chs3.transfers.mysql_to_clickhouse import MySqlToClickHouseOperator
from airflow_provider_chs3.transfers.postgres_to_clickhouse import PostgresToClickHouseOperator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.sources.landing_lake import NIGHTS, LandingLake
from tests.sources.objects import AzureObjects, S3Objects
from tests.sources.row_lake import RowLake
from tests.sources.rows import MySqlRows, PostgresRows
from tests.sources.store_lake import StoreLake
from tests.sources.table_lake import TableLake
from tests.sources.trips_target import PERIOD
from tests.support.absent_libraries import run_operator
from tests.support.narrow_user import narrow_connection

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster
    from airflow_provider_chs3.testbed.s3 import S3Endpoint

ROOT = Path(__file__).parents[2]
TRIPS = Trips(rows_per_period=600, files_per_period=3)


def into(lake: RowLake | TableLake | StoreLake, **source: Any) -> dict[str, Any]:
    """The arguments of a load."""
    return {"table": "trips", "database": lake.database, "cluster": lake.cluster.name, "period": PERIOD, **source}


@pytest.fixture
def azure_lake(
    chs3_azure: Any, chs3_cluster: Cluster, chs3_database: str, monkeypatch: pytest.MonkeyPatch
) -> StoreLake:
    lake = StoreLake.create(AzureObjects.create(chs3_azure), chs3_cluster, chs3_database, monkeypatch)
    lake.objects.upload(TRIPS, PERIOD)
    return lake


@pytest.fixture
def s3_lake(
    chs3_s3: S3Endpoint, chs3_cluster: Cluster, chs3_database: str, monkeypatch: pytest.MonkeyPatch
) -> StoreLake:
    """A bucket, and a connection to ClickHouse that asks for zstd."""
    lake = StoreLake.create(S3Objects.create(chs3_s3), chs3_cluster, chs3_database, monkeypatch)
    connection = narrow_connection(chs3_cluster)
    connection["extra"] |= {"compression": "zstd"}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    lake.objects.upload(TRIPS, PERIOD)
    return lake


def refusal(operator: type[Any], arguments: dict[str, Any], **options: Any) -> str:
    """Return the error of a task that lacks a library."""
    error: str = run_operator(operator, arguments, **options)["error"]
    return error


@pytest.mark.thorough
def test_azure(azure_lake: StoreLake) -> None:
    arguments = into(azure_lake, container=azure_lake.place, blob="trips/{YYYY-MM}/**")
    assert "install the extra azure of" in refusal(AzureBlobToClickHouseOperator, arguments, extras=())
    told = run_operator(AzureBlobToClickHouseOperator, arguments, extras=["azure"])
    assert told["result"]["rows"] == 600
    assert azure_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
@pytest.mark.parametrize("extra", ["postgres", "mysql"])
def test_databases(
    extra: str,
    request: pytest.FixtureRequest,
    chs3_cluster: Cluster,
    chs3_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator, rows = {
        "postgres": (PostgresToClickHouseOperator, PostgresRows),
        "mysql": (MySqlToClickHouseOperator, MySqlRows),
    }[extra]
    source = rows.create(request.getfixturevalue(f"chs3_{extra}"))
    lake = RowLake.create(source, chs3_cluster, chs3_database, monkeypatch)
    lake.put(TRIPS.table(PERIOD))
    arguments = into(lake, source_table=source.table, time_column="pickup_at")
    assert f"install the extra {extra} of" in refusal(operator, arguments, extras=())
    assert run_operator(operator, arguments, extras=[extra])["result"]["rows"] == 600
    assert lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
@pytest.mark.parametrize("lacking", ["all of the extra", "pyarrow"])
def test_lakehouses(table_lake: TableLake, lacking: str) -> None:
    table_lake.put(TRIPS.table(PERIOD))
    name, value = table_lake.source_argument
    is_iceberg = name == "iceberg_table"
    operator = IcebergToClickHouseOperator if is_iceberg else DeltaToClickHouseOperator
    extra, column = ("iceberg", "pickup_at") if is_iceberg else ("delta", "period")
    arguments = into(table_lake, **{name: value}, time_column=column)
    installed = {"extras": [extra], "also": ["pyarrow"]} if lacking == "pyarrow" else {"extras": ()}
    assert f"install the extra {extra} of" in refusal(operator, arguments, **installed)
    if lacking != "pyarrow":
        # The catalog of this test is one of SQL, whose library Airflow brings.
        assert run_operator(operator, arguments, extras=[extra])["result"]["rows"] == 600
        assert table_lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
@pytest.mark.parametrize("lacking", ["all of the extra", "pyarrow"])
def test_kafka(lake: LandingLake, lacking: str) -> None:
    lake.topic.send(NIGHTS[0], b"one", b"two")
    points = {"start": NIGHTS[0].isoformat(), "end": NIGHTS[1].isoformat()}
    arguments = {"topic": lake.topic.name, "bucket": lake.bucket, "key": "events/{YYYY-MM}/", **points}
    installed = {"extras": ["kafka"], "also": ["pyarrow"]} if lacking == "pyarrow" else {"extras": ()}
    assert "install the extra kafka of" in refusal(KafkaToS3Operator, arguments, **installed)
    assert lake.objects() == {}
    if lacking != "pyarrow":
        assert run_operator(KafkaToS3Operator, arguments, extras=["kafka"])["result"]["messages"] == 2
        assert lake.values() == {b"one": 1, b"two": 1}


@pytest.mark.thorough
def test_zstd(s3_lake: StoreLake) -> None:
    arguments = into(s3_lake, bucket=s3_lake.place, key="trips/{YYYY-MM}/")
    assert "install the extra zstd of" in refusal(S3ToClickHouseOperator, arguments, extras=())
    assert run_operator(S3ToClickHouseOperator, arguments, extras=["zstd"])["result"]["rows"] == 600
    assert s3_lake.facts() == TRIPS.facts(PERIOD)


SERVERS = """
import sys
from tests.support.absent_libraries import hide_all_but
hide_all_but(sys.argv[1:])
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.s3 import S3Server
from airflow_provider_chs3.testbed.trips import Trips
try:
    with S3Server.start() as s3, ClickHouseCluster.start(1) as cluster:
        s3.client().create_bucket(Bucket="lake")
        keys = Trips(rows_per_period=10, files_per_period=1).upload(s3.client(), "2026-01", bucket="lake")
        with cluster.nodes[0].client() as client:
            place = f"{s3.endpoint_url}/lake/{keys[0]}', '{s3.access_key}', '{s3.secret_key}"
            print(client.execute(f"SELECT count() FROM s3('{place}')"))
except RuntimeError as error:
    print(error)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("extras", "told"), [(["testbed"], "[(10,)]"), ([], "install the extra testbed of airflow-provider-chs3")]
)
def test_testbed(extras: list[str], told: str) -> None:
    command = [sys.executable, "-c", SERVERS, *extras]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert told in done.stdout, done.stderr[-2_000:]
