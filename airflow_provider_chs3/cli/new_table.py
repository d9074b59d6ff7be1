"""`ddl`: suggest a table for the command line."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from airflow_provider_chs3.core.new_table.suggestion import NewTable, NewTableRequest, suggest_table
from airflow_provider_chs3.core.source.formats import format_named
from airflow_provider_chs3.core.values.models import TableName
from airflow_provider_chs3.core.values.period import Period
from airflow_provider_chs3.operators.period import PeriodOperator
from airflow_provider_chs3.runners.blocking import Runner

_LOG = logging.getLogger(__name__)


def suggested_table(arguments: Mapping[str, Any], *, period: str, file_format: str | None) -> NewTable:
    """Suggest a table for the files of a period.

    Args:
        arguments: The arguments of `PeriodOperator`; the table need not exist.
        period: The period, such as `2026-10`.
        file_format: ClickHouse's name of the format; None takes it from the keys' endings.

    Raises:
        ConfigurationError: If the connection, the period, the key or the format is invalid.
        SourceError: If the files do not make a table that is partitioned by period.
    """
    task = PeriodOperator(task_id="ddl", **arguments)
    hook, listing = task.hook(), task.listing()
    source = task.source(listing)
    request = NewTableRequest(
        source=source,
        table=TableName.of(arguments["table"], arguments["database"], default_database=hook.options.database),
        cluster=arguments["cluster"] or hook.options.cluster,
        file_format=format_named(file_format) if file_format else None,
    )
    return Runner(hook=hook, listing=listing, log=_LOG, progress_interval_seconds=10).run(
        suggest_table(request, Period.parse(period))
    )
