"""A table of a database or a lakehouse, and its task: what is alike for all tasks that load."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.sources.row_lake import RowLake
from tests.sources.table_lake import TableLake

if TYPE_CHECKING:
    from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask

SourceLake: TypeAlias = RowLake | TableLake


def wait_for_insert(lake: SourceLake) -> None:
    """Wait until the task inserts."""
    sql = (
        "SELECT count() FROM system.processes WHERE match(initial_query_id, '^chs3_.*_insert') AND is_initial_query "
        f"AND position(query, '{lake.database}') > 0"
    )
    for _ in range(600):
        if any(rows[0][0] for rows in lake.on_every_node(sql)):
            return
        time.sleep(0.1)
    raise AssertionError("the insert did not start")


def inputs_of(operator: PeriodLoadTask) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the inputs that a finished task reports to OpenLineage."""
    lineage = operator.get_openlineage_facets_on_complete(None)
    return [(each.namespace, each.name, each.inputFacets) for each in lineage.inputs]
