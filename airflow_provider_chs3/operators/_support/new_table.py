"""From a task's arguments to the table that is created if it is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_chs3.core.new_table.suggestion import NewTableRequest
from airflow_provider_chs3.core.values.load_arguments import CREATE_TABLE


def new_table_of(create_table: str, loaded: Mapping[str, Any], *, cluster: str | None) -> NewTableRequest | None:
    """Return the table that is created if it is missing; None if none is.

    Args:
        create_table: `never` or `if_missing`.
        loaded: What is read, where it goes, and how: source, target, format, compression and selection.
        cluster: The cluster of its nodes; None for a single server.

    Raises:
        ConfigurationError: If the value is unknown, or the source has no files.
    """
    if CREATE_TABLE.checked(create_table) == "never":
        return None
    return NewTableRequest(
        source=loaded["source"],
        table=loaded["target"],
        cluster=cluster,
        file_format=loaded["format"],
        compression=loaded["compression"],
        settings=loaded["selection"].csv.settings,
    )
