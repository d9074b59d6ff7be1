"""Where objects are: what operators take and show, without any server."""

from __future__ import annotations

import inspect
import json
import sys
from functools import partial
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk import ObjectStoragePath

from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.sources.azure import AzureBlobs
from airflow_provider_chs3.sources.gcs import GcsObjects
from airflow_provider_chs3.sources.hdfs import HdfsFiles
from airflow_provider_chs3.sources.s3 import S3Objects
from airflow_provider_chs3.sources.storage import Storage
from airflow_provider_chs3.transfers.azure_blob_to_clickhouse import AzureBlobToClickHouseOperator
from airflow_provider_chs3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from airflow_provider_chs3.transfers.gcs_to_clickhouse import GCSToClickHouseOperator
from airflow_provider_chs3.transfers.hdfs_to_clickhouse import HdfsToClickHouseOperator
from airflow_provider_chs3.transfers.kafka_to_s3 import KafkaToS3Operator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator


def test_a_connection_without_an_endpoint_does_not_take_a_key_of_google_to_aws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"conn_type": "aws", "login": "GOOG1", "password": "none", "extra": {"region_name": "us-east-1"}}
    monkeypatch.setenv("AIRFLOW_CONN_GCS_HMAC_DEFAULT", json.dumps(given))
    store = GcsObjects(bucket="lake", object_name="{YYYY-MM}/")
    with pytest.raises(
        ConfigurationError, match=r"leads to AWS: set .endpoint_url.: .https://storage\.googleapis\.com"
    ):
        store.source(store.listing())


def test_without_azures_provider_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.microsoft.azure.hooks.wasb", None)
    store = AzureBlobs(container="lake", blob="{YYYY-MM}/")
    with pytest.raises(ConfigurationError, match="install the extra azure of airflow-provider-chs3"):
        store.source(store.listing())


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (
            {"key": "{YYYY-MM}/", "bucket": "lake", "objects": GcsObjects(object_name="{YYYY-MM}/")},
            "key, bucket: objects",
        ),
        ({}, "Nothing says where the objects are"),
    ],
)
def test_where_the_objects_are_is_said_once(given: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        S3ToClickHouseOperator(task_id="load", table="trips", **given)


@pytest.mark.parametrize(
    ("store", "found"),
    [
        (S3Objects(bucket="lake", key="{YYYY-MM}/"), ("lake", "{YYYY-MM}/", "")),
        (S3Objects(key="{YYYY-MM}/", named_collection="lake"), ("", "{YYYY-MM}/", "")),
        (S3Objects(key="s3://lake/trips/{YYYY-MM}/*"), ("lake", "trips/{YYYY-MM}/*", "")),
        (S3Objects(key="S3A://lake//{YYYY-MM}/a b?#@.csv"), ("lake", "{YYYY-MM}/a b?#@.csv", "")),
        (
            S3Objects(key=ObjectStoragePath("s3://lake_keys@lake/trips") / "{YYYY-MM}" / "*.csv"),
            ("lake", "trips/{YYYY-MM}/*.csv", "lake_keys"),
        ),
        (GcsObjects(object_name="gs://lake/{YYYY-MM}/"), ("lake", "{YYYY-MM}/", "")),
    ],
)
def test_bucket_and_key_may_be_one_url(store: Storage, found: tuple[str, str, str]) -> None:
    assert store.location == found
    assert (store.place, store.template) == found[:2]


def test_a_bucket_beside_a_url_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"bucket='lake': key='s3://lake/\{YYYY-MM\}/' names the bucket, too"):
        S3Objects(bucket="lake", key="s3://lake/{YYYY-MM}/").location  # noqa: B018


@pytest.mark.parametrize(
    "key", ["s3://lake_keys@{{ var }}/{YYYY-MM}/*", ObjectStoragePath("s3://lake_keys@lake/{YYYY-MM}/*")]
)
@pytest.mark.parametrize(
    "task",
    [S3ToClickHouseOperator, PlanLoadsOperator, ClickHouseToS3Operator, partial(KafkaToS3Operator, topic="trips")],
)
def test_operators_render_a_url(task: Any, key: Any) -> None:
    made = task(task_id="t", key=key, **({} if isinstance(task, partial) else {"table": "trips"}))
    made.render_template_fields({"var": "lake"})
    assert made.store.location == ("lake", "{YYYY-MM}/*", "lake_keys")
    assert made.store.conn_id == "lake_keys"


@pytest.mark.parametrize("operator", [AzureBlobToClickHouseOperator, GCSToClickHouseOperator, HdfsToClickHouseOperator])
def test_operators_of_other_storages_show_no_argument_of_s3(operator: type[PeriodLoadTask]) -> None:
    assert set(operator.template_fields).isdisjoint(S3Objects.template_fields)
    assert {"objects", "table", "period", "insert_sql"} <= set(operator.template_fields)
    with pytest.raises((AirflowException, TypeError), match="role_arn"):
        operator(task_id="load", table="trips", role_arn="arn:…", **dict.fromkeys(_needed(operator), "x"))


def _needed(operator: type[PeriodLoadTask]) -> list[str]:
    """The arguments that an operator of a storage cannot do without."""
    given = inspect.signature(operator.__init__).parameters.values()
    return [each.name for each in given if each.kind is each.KEYWORD_ONLY and each.default is each.empty]


@pytest.mark.parametrize(
    ("store", "namespace"),
    [
        (S3Objects(bucket="lake", key="{YYYY-MM}/"), "s3://lake"),
        (GcsObjects(bucket="lake", object_name="{YYYY-MM}/"), "gs://lake"),
        (AzureBlobs(container="lake", blob="{YYYY-MM}/"), "wasbs://lake@lakes"),
        (AzureBlobs(named_collection="lake", blob="{YYYY-MM}/"), "wasbs://lake"),
        (HdfsFiles(path="/lake/{YYYY-MM}/", hdfs_url="hdfs://user@nn:8020/"), "hdfs://nn:8020"),
    ],
)
def test_lineage_names_the_storage(store: Storage, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"conn_type": "wasb", "login": "lakes", "password": "bm9uZQ=="}
    monkeypatch.setenv("AIRFLOW_CONN_WASB_DEFAULT", json.dumps(given))
    assert store.namespace("lake") == namespace
