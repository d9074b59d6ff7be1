"""The answer about the months of all connections, as bytes of JSON."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter

from airflow_provider_chs3.plugin.api.months import MonthsAnswer, dag_ids_of
from airflow_provider_chs3.plugin.api.schedules import busy_dags, failed_runs, mark_waiting, schedules_of
from airflow_provider_chs3.plugin.scope import Scope
from airflow_provider_chs3.plugin.security import ACTIONS_DAG, owners_of

_ANY: TypeAdapter[Any] = TypeAdapter(Any)


def months_answer(
    seen: Iterable[MonthsAnswer],
    *,
    scope: Scope | None,
    readable_dags: Collection[str],
    readable_logs: Container[str],
) -> bytes:
    """Return what `api.answers.Months` describes; it queries Airflow's database.

    FastAPI would make an object of each of thousands of months, only to check it: tests check them instead.

    Args:
        seen: The answer of each connection.
        scope: Only these months; None for all.
        readable_dags: DAGs whose tasks may be named.
        readable_logs: DAGs whose errors may be shown with the values that they quote.
    """
    found = [each.as_json(scope=scope, readable_dags=readable_dags, readable_logs=readable_logs) for each in seen]
    dag_ids = dag_ids_of(found)
    mark_waiting(found, schedules_of(dag_ids), datetime.now(UTC))
    # Beside one DAG, others matter only if they load its months.
    loaders = {*dag_ids, *([scope.dag_id] if scope else [])}
    busy = busy_dags({*loaders, ACTIONS_DAG}, with_loaders=scope is None)
    failed = [run for run in failed_runs(loaders, with_loaders=scope is None) if run["dag_id"] in readable_dags]
    return _ANY.dump_json(
        {
            "connections": found,
            "owners": owners_of({*dag_ids, *(run["dag_id"] for run in failed)}),
            "busy_dags": sorted(busy & set(readable_dags)),
            "failed_runs": failed,
        }
    )
