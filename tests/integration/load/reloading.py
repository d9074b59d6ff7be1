"""Runs that ask for a reload."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.support.lake import PERIOD, Lake

TASK = SimpleNamespace(
    dag_id="d", run_id="reload", task_id="load", map_index=-1, try_number=1, xcom_push=lambda **_: None
)


def conf_of(lake: Lake, *periods: str, **more: Any) -> dict[str, Any]:
    """The conf of a run that reloads periods of the lake."""
    return {"chs3_reload": {"database": lake.database, "table": "trips", "periods": list(periods or [PERIOD]), **more}}


def context_of(conf: dict[str, Any], task: SimpleNamespace = TASK) -> dict[str, Any]:
    run = SimpleNamespace(partition_key=None, data_interval_start=None, data_interval_end=None, conf=conf)
    return {"ti": task, "dag_run": run}


def reload(lake: Lake, conf: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return lake.operator(**options).execute(context_of(conf or conf_of(lake)))
