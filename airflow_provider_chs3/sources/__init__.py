"""Sources of periods: a folder for each storage, with its listing, its reading and its connection."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_chs3.core.model.store_kind import StoreKind
    from airflow_provider_chs3.sources.storage import Storage

#: The storages of objects: folder → its class; the `objects` of operators and `scheduled_load` is an instance of one.
OBJECT_STORAGES = {
    "s3": "S3Objects",
    "azure": "AzureBlobs",
    "gcs": "GcsObjects",
    "hdfs": "HdfsFiles",
}
#: All storages: tables of databases and lakehouses, too.
STORAGES = {
    **OBJECT_STORAGES,
    "postgres": "PostgresRows",
    "mysql": "MySqlRows",
    "iceberg": "IcebergTable",
    "delta": "DeltaTable",
}


def storage_class(name: str) -> type[Storage]:
    """Return the class of a storage."""
    storage: type[Storage] = getattr(import_module(f"{__name__}.{name}"), STORAGES[name])
    return storage


def kinds() -> list[StoreKind]:
    """Return what ClickHouse does differently for each storage."""
    return [storage_class(name).kind() for name in STORAGES]
