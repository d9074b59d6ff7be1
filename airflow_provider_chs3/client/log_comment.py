"""Tell servers who sends a statement: the client, and the task that started its process."""

from __future__ import annotations

import json
import os
from functools import cache
from importlib.metadata import version

from airflow_provider_chs3 import __version__

_ENVIRONMENT = {
    "dag_id": "AIRFLOW_CTX_DAG_ID",
    "task_id": "AIRFLOW_CTX_TASK_ID",
    "run_id": "AIRFLOW_CTX_DAG_RUN_ID",
    "try_number": "AIRFLOW_CTX_TRY_NUMBER",
}


def process_log_comment() -> str:
    """Return the task that started this process, as JSON; `{}` if none did."""
    known = {name: os.environ[variable] for name, variable in _ENVIRONMENT.items() if variable in os.environ}
    return json.dumps({name: int(value) if name == "try_number" else value for name, value in known.items()})


@cache
def client_name() -> str:
    """Return this package's version and Airflow's: `airflow-provider-chs3/0.1.0 airflow/3.1.0`."""
    return f"airflow-provider-chs3/{__version__} airflow/{version('apache-airflow')}"
