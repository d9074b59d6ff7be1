"""The connections of type `chs3` that Airflow can list, and the tasks of loads that are running."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from airflow.models import Connection, TaskInstance
from airflow.secrets.environment_variables import EnvironmentVariablesBackend
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select, tuple_

from airflow_provider_chs3.client.connection import ConnectionOptions
from airflow_provider_chs3.core.ledger.table import cluster_of_ledgers
from airflow_provider_chs3.defaults import PAGE_QUERY_TIMEOUT_SECONDS
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.plugin.cache import carry_out
from airflow_provider_chs3.plugin.observation.merge_reasons import utc_text
from airflow_provider_chs3.plugin.observation.running_inserts import TaskAtWork, TasksOfLoads

_ENVIRONMENT_PREFIX = "AIRFLOW_CONN_"
_CONNECT_SECONDS = 3.0
#: States of a task that has not ended and is not up for retry.
_AT_WORK = ("scheduled", "queued", "running", "restarting", "deferred")
#: Workers give a sign of life every few seconds; Airflow takes a task for dead after five minutes without.
_SILENCE = timedelta(minutes=1)


def connection_ids() -> list[str]:
    """Return the ids of all connections of type `chs3` in Airflow's database and the environment.

    Secrets backends cannot list theirs.
    """
    with create_session() as session:
        stored = session.scalars(select(Connection.conn_id).where(Connection.conn_type == ClickHouseHook.conn_type))
        conn_ids = set(stored)
    names = (name for name in os.environ if name.startswith(_ENVIRONMENT_PREFIX))
    given = {name.removeprefix(_ENVIRONMENT_PREFIX).lower() for name in names}
    return sorted(conn_ids | {conn_id for conn_id in given if _is_ours(conn_id)})


def _is_ours(conn_id: str) -> bool:
    try:
        connection = EnvironmentVariablesBackend().get_connection(conn_id)
    except Exception:  # The variable may be wrong in any way, and not be ours.
        return False
    return connection is not None and connection.conn_type == ClickHouseHook.conn_type


def hook_of(conn_id: str) -> ClickHouseHook:
    """Return a hook with short timeouts, as a user is waiting.

    If the connection names no cluster, use the one that the ledgers of its server name: operators can name one, too.
    """
    options = ConnectionOptions.from_airflow(Connection.get_connection_from_secrets(conn_id))
    hurried = replace(
        options,
        connect_timeout_seconds=min(options.connect_timeout_seconds, _CONNECT_SECONDS),
        send_receive_timeout_seconds=min(options.send_receive_timeout_seconds, PAGE_QUERY_TIMEOUT_SECONDS),
        settings={**options.settings, "max_execution_time": PAGE_QUERY_TIMEOUT_SECONDS},
    )
    hook = ClickHouseHook.with_options(hurried, clickhouse_conn_id=conn_id)
    if options.cluster:
        return hook
    cluster = carry_out(cluster_of_ledgers(), hook)
    return ClickHouseHook.with_options(replace(hurried, cluster=cluster), clickhouse_conn_id=conn_id)


def tasks_of(owners: Collection[str]) -> TasksOfLoads:
    """Return what Airflow knows of the tasks of loads."""
    if not owners:
        return TasksOfLoads(at_work={}, failed=())
    key = (TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, TaskInstance.map_index)
    tasks = [tuple(json.loads(owner)) for owner in owners]
    with create_session() as session:
        rows = session.execute(
            select(*key, TaskInstance.state, TaskInstance.start_date, TaskInstance.last_heartbeat_at).where(
                tuple_(*key).in_(tasks), TaskInstance.state.in_((*_AT_WORK, TaskInstanceState.FAILED))
            )
        ).all()
    return TasksOfLoads(
        at_work={
            json.dumps(owner): TaskAtWork(
                str(state), started_at.timestamp() if started_at else None, _silent_since(state, heard_at)
            )
            for *owner, state, started_at, heard_at in rows
            if state in _AT_WORK
        },
        failed={json.dumps(owner) for *owner, state, _, _ in rows if state == TaskInstanceState.FAILED},
    )


def _silent_since(state: str, heard_at: datetime | None) -> str:
    """Return when the worker of a running task has last been heard of, if that is too long ago; else nothing."""
    if state != TaskInstanceState.RUNNING or heard_at is None or heard_at + _SILENCE >= datetime.now(UTC):
        return ""
    return utc_text(heard_at.timestamp())
