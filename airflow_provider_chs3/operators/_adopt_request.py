"""From a task's arguments to what is asked of adopting a month."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_chs3.core.columns import selection_of
from airflow_provider_chs3.core.formats import format_named
from airflow_provider_chs3.core.models import Month, TableName
from airflow_provider_chs3.core.request import LoadRequest, Policies
from airflow_provider_chs3.core.tuning import tunable
from airflow_provider_chs3.hooks.connection import check_settings

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.s3 import S3Listing
    from airflow_provider_chs3.operators.ledger import AdoptMonthsOperator


def adopt_request(task: AdoptMonthsOperator, month: Month, listing: S3Listing) -> LoadRequest:
    """The load that would have put a month there.

    Args:
        task: The task, with its templates rendered.
        month: The month.
        listing: Says how the servers get at the objects.

    Raises:
        ConfigurationError: If an argument is wrong.
    """
    options, definition = task.hook().options, dict(task.definition or {})
    file_format, compression = definition.pop("file_format", None), definition.pop("compression", None)
    settings = check_settings(definition.pop("settings", None) or {}, where="settings")
    names = ("columns", "select", "null_as_default", "lossy_columns", "naive_timestamps", "csv")
    selection = selection_of(**{name: definition.pop(name) for name in names if name in definition})
    return LoadRequest(
        month=month,
        source=task.source(listing),
        target=TableName(task.database or options.database, task.table),
        cluster=task.cluster or None,
        default_cluster=options.cluster,
        staging_database=task.staging_database,
        nonce=uuid.uuid4().hex[:16],
        now=datetime.now(UTC),
        format=format_named(file_format) if file_format else None,
        compression=compression or "auto",
        selection=selection,
        policies=Policies(**definition),
        settings={**tunable(options.settings), **settings},
    )
