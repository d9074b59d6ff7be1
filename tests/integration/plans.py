"""Plans of a lake."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any

from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from tests.support.arguments import grouped
from tests.support.lake import Lake


def plan(lake: Lake, *, start: datetime | None = None, end: datetime | None = None, **options: Any) -> list[str]:
    arguments = {"task_id": "plan", "timezone": "UTC", **lake.place}
    run = SimpleNamespace(partition_key=options.pop("partition_key", None), data_interval_start=start)
    run.data_interval_end = end
    return PlanLoadsOperator(**grouped(**(arguments | options))).execute({"dag_run": run})
