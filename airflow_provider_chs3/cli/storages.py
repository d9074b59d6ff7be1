"""The source of months, as the command line names it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.exceptions import ConfigurationError

# The rest needs Airflow, and help is to come without it.
if TYPE_CHECKING:
    from airflow_provider_chs3.objects import ObjectStore

#: Values of `--storage`.
STORAGES = ("s3", "azure", "gcs", "hdfs")
#: Its further values: tables, which have no keys.
TABLES = ("postgres", "mysql", "iceberg", "delta")
_LAKEHOUSES = ("iceberg", "delta")
#: The command that does without a source, and then skips its checks.
_DOCTOR = "doctor"
#: As the arguments of rows are called, too.
_OF_ROWS = ("key_column", "fingerprint", "timezone")
_OF_DATABASES = ("named_collection", *_OF_ROWS)
_OF_TABLES = ("source_table", "month_column", *_OF_ROWS)
_OF_OBJECTS = ("key", "bucket", "role_arn", "hdfs_url")
_OF_S3 = ("role_arn", "endpoint_url")
#: What each storage of objects does not take.
_OF_OTHERS = {
    "s3": ("storage_conn_id", "hdfs_url"),
    "azure": (*_OF_S3, "hdfs_url"),
    "gcs": (*_OF_S3, "hdfs_url"),
    "hdfs": ("bucket", "named_collection", *_OF_S3),
}


def source_arguments(given: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of operators that say where the objects are.

    Args:
        given: The options of a command that reads objects.

    Raises:
        ConfigurationError: If an option is of another storage, or one is missing.
    """
    if given.storage in TABLES:
        _refuse(given, *_OF_OBJECTS, *(_OF_DATABASES if given.storage in _LAKEHOUSES else ("endpoint_url",)))
        if not given.source_table or not given.month_column:
            raise ConfigurationError(
                f"--storage {given.storage} needs a table: give --source-table and --month-column."
            )
        return {"objects": _table(given)}
    _refuse(given, *_OF_TABLES)
    if given.command != _DOCTOR and not given.key:
        raise ConfigurationError(f"--storage {given.storage} needs the template of the keys: give --key.")
    _check_storage(given)
    if given.storage == "s3":
        return {"key": given.key, **_access_arguments(given)}
    return {"objects": object_store(given, given.key) if given.key else None}


def object_store(given: argparse.Namespace, key: str) -> ObjectStore:
    """Return the place of objects.

    Args:
        given: The options of a command.
        key: Template of the objects' keys.

    Raises:
        ConfigurationError: If an option is of another storage.
    """
    from airflow_provider_chs3.objects import AzureBlobs, GcsObjects, HdfsFiles, S3Objects

    _check_storage(given)
    if given.storage == "s3":
        return S3Objects(key=key, **_access_arguments(given))
    conn_id = given.storage_conn_id
    if given.storage == "hdfs":
        return HdfsFiles(path=key, hdfs_url=given.hdfs_url, **({"webhdfs_conn_id": conn_id} if conn_id else {}))
    collection = given.named_collection
    if given.storage == "azure":
        connection = {"wasb_conn_id": conn_id} if conn_id else {}
        return AzureBlobs(blob=key, container=given.bucket, named_collection=collection, **connection)
    connection = {"hmac_conn_id": conn_id} if conn_id else {}
    return GcsObjects(object_name=key, bucket=given.bucket, named_collection=collection, **connection)


def _access_arguments(given: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of operators that say how to get at a bucket of S3."""
    return {
        "bucket": given.bucket,
        "aws_conn_id": given.aws_conn_id or None,
        "named_collection": given.named_collection,
        "role_arn": given.role_arn,
        "endpoint_url": given.endpoint_url,
    }


def _check_storage(given: argparse.Namespace) -> None:
    """Check that no option is of another storage of objects."""
    _refuse(given, *_OF_OTHERS[given.storage])
    if given.storage == "hdfs" and not given.hdfs_url:
        raise ConfigurationError("--storage hdfs needs the URL of the name node: give --hdfs-url.")


def _refuse(given: argparse.Namespace, *names: str) -> None:
    if found := [f"--{name.replace('_', '-')}" for name in names if getattr(given, name)]:
        raise ConfigurationError(f"{', '.join(found)}: --storage {given.storage} does not take this.")


def _table(given: argparse.Namespace) -> ObjectStore:
    from airflow_provider_chs3.lakehouse import DeltaTable, IcebergTable
    from airflow_provider_chs3.rows import MySqlRows, PostgresRows

    name, column, conn_id = given.source_table, given.month_column, given.storage_conn_id
    of_s3 = {"aws_conn_id": given.aws_conn_id or None, "endpoint_url": given.endpoint_url}
    if given.storage == "delta":
        return DeltaTable(uri=name, month_column=column, **of_s3)
    if given.storage == "iceberg":
        connection = {"iceberg_conn_id": conn_id} if conn_id else {}
        return IcebergTable(table=name, month_column=column, **of_s3, **connection)
    schema, _, table = name.rpartition(".")
    shared = {"table": table, "month_column": column, "named_collection": given.named_collection}
    shared |= {"schema": schema} if schema else {}
    shared |= {each: value for each in _OF_ROWS if (value := getattr(given, each))}
    connection = {f"{given.storage}_conn_id": conn_id} if conn_id else {}
    kind = PostgresRows if given.storage == "postgres" else MySqlRows
    return kind(**shared, **connection)
