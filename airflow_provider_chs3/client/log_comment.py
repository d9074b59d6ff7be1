"""Tell servers who sends a statement: the client, the try of the task, and whose work it continues."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from airflow_provider_chs3 import __version__

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

_CONTEXT_FIELDS = ("dag_id", "task_id", "run_id", "try_number", "map_index")
_ENVIRONMENT = {
    "dag_id": "AIRFLOW_CTX_DAG_ID",
    "task_id": "AIRFLOW_CTX_TASK_ID",
    "run_id": "AIRFLOW_CTX_DAG_RUN_ID",
    "try_number": "AIRFLOW_CTX_TRY_NUMBER",
}


def airflow_log_comment() -> str:
    """Return the running task as JSON, for the setting `log_comment`.

    Returns:
        An object with `dag_id`, `task_id`, `run_id`, `try_number` and `map_index`, as far as they are known: all of
        them in a task, all but the last in a process that a task started, none elsewhere (`{}`).
    """
    return json.dumps(_from_context() or _from_environment())


def owner_of(context: Context) -> str:
    """Return the name of the task instance, whatever its try; empty outside of a run."""
    ti = context.get("ti")
    return "" if ti is None else json.dumps([ti.dag_id, ti.run_id, ti.task_id, ti.map_index])


def client_name() -> str:
    """Return this package's version and Airflow's: `airflow-provider-chs3/0.1.0 airflow/3.1.0`."""
    import airflow

    return f"airflow-provider-chs3/{__version__} airflow/{airflow.__version__}"


def _from_context() -> dict[str, str | int]:
    from airflow.providers.common.compat.sdk import get_current_context

    try:
        task_instance = get_current_context()["ti"]
    except RuntimeError:  # Airflow's way to say: not in a task.
        return {}
    return {name: getattr(task_instance, name) for name in _CONTEXT_FIELDS}


def _from_environment() -> dict[str, str | int]:
    known = {name: os.environ[variable] for name, variable in _ENVIRONMENT.items() if variable in os.environ}
    return {name: int(value) if name == "try_number" else value for name, value in known.items()}
