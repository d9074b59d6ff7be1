"""Tell servers which try of a task sends a statement, and whose work it continues."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import get_current_context

from airflow_provider_chs3.client.log_comment import process_log_comment

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

_CONTEXT_FIELDS = ("dag_id", "task_id", "run_id", "try_number", "map_index")


def airflow_log_comment() -> str:
    """Return the running task as JSON, for the setting `log_comment`.

    Returns:
        An object with `dag_id`, `task_id`, `run_id`, `try_number` and `map_index`, as far as they are known: all of
        them in a task, all but the last in a process that a task started, none elsewhere (`{}`).
    """
    try:
        task_instance = get_current_context()["ti"]
    except RuntimeError:  # Airflow's way to say: not in a task.
        return process_log_comment()
    return json.dumps({name: getattr(task_instance, name) for name in _CONTEXT_FIELDS})


def owner_of(context: Context) -> str:
    """Return the name of the task instance, whatever its try; empty outside of a run."""
    ti = context.get("ti")
    return "" if ti is None else json.dumps([ti.dag_id, ti.run_id, ti.task_id, ti.map_index])
