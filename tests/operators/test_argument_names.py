"""Arguments that name connections are templated, as in Airflow's own transfers; objects need a destination."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, BaseOperator

import airflow_provider_chs3
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.sources.azure import AzureBlobs
from airflow_provider_chs3.sources.delta import DeltaTable
from airflow_provider_chs3.sources.gcs import GcsObjects
from airflow_provider_chs3.sources.hdfs import HdfsFiles
from airflow_provider_chs3.sources.iceberg import IcebergTable
from airflow_provider_chs3.sources.mysql import MySqlRows
from airflow_provider_chs3.sources.postgres import PostgresRows
from airflow_provider_chs3.sources.s3 import S3Objects
from airflow_provider_chs3.sources.storage import Storage
from airflow_provider_chs3.transfers.kafka_to_s3 import KafkaToS3Operator
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator


def test_a_topic_needs_a_bucket() -> None:
    with pytest.raises(ConfigurationError, match="Set the objects' destination: key=… and bucket="):
        KafkaToS3Operator(task_id="t", topic="trips", key="{YYYY-MM}/")


def _tasks() -> Iterator[type[BaseOperator]]:
    for package in ("operators", "transfers", "sensors"):
        path = importlib.import_module(f"airflow_provider_chs3.{package}").__path__
        for module in pkgutil.iter_modules(path, f"airflow_provider_chs3.{package}."):
            for value in vars(importlib.import_module(module.name)).values():
                if inspect.isclass(value) and issubclass(value, BaseOperator) and value.__module__ == module.name:
                    yield value


def _conn_ids(kind: type) -> set[str]:
    """The arguments that name connections, of a class and of its bases."""
    return {
        name
        for each in kind.__mro__
        if each.__module__.startswith(airflow_provider_chs3.__name__)
        for name in inspect.signature(each.__init__).parameters
        if name.endswith("_conn_id")
    }


@pytest.mark.parametrize("kind", list(_tasks()))
def test_an_operator_templates_its_connections(kind: type[BaseOperator]) -> None:
    in_store = {name for store in _STORES for name in store.template_fields}
    fields = set(kind.template_fields)
    assert _conn_ids(kind) <= (fields | in_store if "objects" in fields else fields)


_STORES: tuple[type[Storage], ...] = (
    *(S3Objects, AzureBlobs, GcsObjects, HdfsFiles),
    *(IcebergTable, DeltaTable, PostgresRows, MySqlRows),
)


@pytest.mark.parametrize("store", _STORES)
def test_a_storage_templates_its_connections(store: type[Storage]) -> None:
    assert _conn_ids(store)
    assert _conn_ids(store) <= set(store.template_fields)


def test_connections_are_rendered() -> None:
    with DAG("d", schedule=None):
        task = S3ToClickHouseOperator(
            task_id="t",
            table="trips",
            key="{YYYY-MM}/",
            bucket="lake",
            clickhouse_conn_id="ch_{{ params.stage }}",
            aws_conn_id="s3_{{ params.stage }}",
        )
    task.render_template_fields({"params": {"stage": "test"}})  # type: ignore[typeddict-item]
    store: Any = task.store
    assert (task.hook().get_conn_id(), store.aws_conn_id) == ("ch_test", "s3_test")
