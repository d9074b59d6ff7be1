"""From a task's arguments to the table that is created if it is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_chs3.core.new_table.suggestion import NewTableRequest
from airflow_provider_chs3.core.source.csv_dialect import Dialect
from airflow_provider_chs3.core.source.formats import format_named
from airflow_provider_chs3.core.source.source import Source
from airflow_provider_chs3.core.values.models import TableName
from airflow_provider_chs3.exceptions import ConfigurationError

#: What of a load's definition says how its files are read.
OF_NEW_TABLE = ("file_format", "compression", "csv")


def new_table_of(
    create_table: str,
    source: Source,
    table: TableName,
    *,
    cluster: str | None,
    file_format: str | None = None,
    compression: str | None = None,
    csv: Mapping[str, Any] | None = None,
) -> NewTableRequest | None:
    """Return the table that is created if it is missing; None if none is.

    Args:
        create_table: `never` or `if_missing`.
        source: Where its files are.
        table: Its name.
        cluster: The cluster of its nodes; None for a single server.
        file_format: ClickHouse's name of the files' format. Default: by their keys.
        compression: ClickHouse's name of their compression. Default: by their keys.
        csv: The fields of `Dialect` that differ from their defaults. Default: none.

    Raises:
        ConfigurationError: If the value is unknown, or the source has no files.
    """
    if create_table not in ("never", "if_missing"):
        raise ConfigurationError(f"create_table={create_table!r} is not known: use one of never, if_missing.")
    if create_table == "never":
        return None
    return NewTableRequest(
        source=source,
        table=table,
        cluster=cluster,
        file_format=format_named(file_format) if file_format else None,
        compression=compression or "auto",
        settings=Dialect.of(csv or {}).settings,
    )
