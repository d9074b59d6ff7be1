"""From a task's arguments to what is asked of adopting a month."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.files.loaded_columns import selection_of
from airflow_provider_chs3.core.request.load_request import LoadRequest, Policies
from airflow_provider_chs3.core.source.formats import format_named
from airflow_provider_chs3.core.tuning.insert_settings import tunable
from airflow_provider_chs3.core.values.models import Month, TableName
from airflow_provider_chs3.hooks.connection import check_settings

if TYPE_CHECKING:
    from airflow_provider_chs3.operators._support.month_task import MonthTask
    from airflow_provider_chs3.sources.listing import Listing


def adopt_request(task: MonthTask, month: Month, listing: Listing, *, definition: Mapping[str, Any]) -> LoadRequest:
    """Return the load that would have put a month there.

    Args:
        task: The task, with its templates rendered.
        month: The month.
        listing: Says how the servers get at the objects.
        definition: Arguments of the load, by which its rows are told.

    Raises:
        ConfigurationError: If an argument is wrong.
    """
    options, definition, source = task.hook().options, dict(definition), task.source(listing)
    file_format, compression = definition.pop("file_format", None), definition.pop("compression", None)
    settings = check_settings(definition.pop("settings", None) or {}, where="settings")
    names = ("columns", "select", "null_as_default", "lossy_columns", "naive_timestamps", "csv")
    selection = selection_of(**{name: definition.pop(name) for name in names if name in definition})
    return LoadRequest(
        month=month,
        source=source,
        target=TableName.of(task.table, task.database, default_database=options.database),
        cluster=task.cluster or None,
        default_cluster=options.cluster,
        staging_database=task.staging_database,
        nonce=uuid.uuid4().hex[:16],
        now=datetime.now(UTC),
        format=format_named(file_format) if file_format else None,
        compression=compression or "auto",
        selection=selection,
        policies=Policies(**definition),
        settings={**tunable(options.settings, source.kind), **settings},
    )
