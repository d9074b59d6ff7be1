"""The periods that a page shows: those of a DAG, a run, a task or one of its instances."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.plugin.xcom import NamedPeriod, named_periods


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The periods whose last load belongs to the scope; for a run, also those that its tasks are about."""

    dag_id: str
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    named: Collection[NamedPeriod] = frozenset()

    @classmethod
    def of(cls, dag_id: str, *, run_id: str | None, task_id: str | None, map_index: str | None) -> Scope:
        """Create the scope of a page's query, including the periods of a run's tasks from Airflow's database."""
        place: dict[str, Any] = {
            "dag_id": dag_id,
            "run_id": run_id,
            "task_id": task_id,
            "map_index": int(map_index) if map_index and map_index.removeprefix("-").isdecimal() else None,
        }
        return cls(**place, named=named_periods(**place) if run_id else frozenset())

    def has(self, conn_id: str, table: TableName, period: str, task: Mapping[str, Any] | None) -> bool:
        """Check whether a period belongs to it."""
        if {NamedPeriod(conn_id, table, period), NamedPeriod(conn_id, table, None)} & set(self.named):
            return True
        names = ("dag_id", "run_id", "task_id", "map_index")
        return task is not None and all(getattr(self, name) in (None, task[name]) for name in names)
