"""A deferrable `ClickHouseOperator` without a scheduler: tasks that are tried, deferred and resumed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_chs3.operators.clickhouse import ClickHouseOperator
from tests.support import deferring

if TYPE_CHECKING:
    from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements of more than half a second are deferred, and asked for at once."""
    deferring.hurry(monkeypatch)


@pytest.fixture
def table(hook: ClickHouseHook, chs3_database: str) -> str:
    """An empty table of numbers."""
    name = f"{chs3_database}.numbers"
    hook.query(f"CREATE TABLE {name} (n UInt64) ENGINE = MergeTree ORDER BY n")
    return name


@dataclass
class Deferred:
    """A task that has left its worker."""

    arguments: dict[str, Any]
    how: TaskDeferred
    began_at: datetime | None = None

    @property
    def trigger(self) -> Any:
        return deferring.again(self.how.trigger)

    def wait(self) -> dict[str, Any]:
        async def event() -> Any:
            return await anext(self.trigger.run())

        return asyncio.run(event()).payload

    def resume(self) -> Any:
        return stay(
            self.arguments,
            self.how.method_name,
            began_at=self.began_at,
            event=json.loads(json.dumps(self.wait())),
        )


def stay(arguments: dict[str, Any], method: str = "execute", *, began_at: datetime | None = None, **kwargs: Any) -> Any:
    """One stay of the task in a worker: its result, or its deferral. It began now, or when that is given."""
    names = {"dag_id": "dag", "run_id": "run", "task_id": "t", "map_index": -1, "try_number": 1}
    ti = SimpleNamespace(**names, start_date=began_at or datetime.now(UTC))
    task = ClickHouseOperator(task_id="t", **{"deferrable": True, "progress_interval_seconds": 0.2, **arguments})
    try:
        return getattr(task, method)({"ti": ti}, **kwargs)
    except TaskDeferred as deferred:
        return Deferred(arguments, deferred, began_at)


def run(sql: Any, **arguments: Any) -> Any:
    """The task from start to end, however often it leaves its worker."""
    result = stay({"sql": sql, **arguments})
    while isinstance(result, Deferred):
        result = result.resume()
    return result


def start(sql: Any, *, began_at: datetime | None = None, **arguments: Any) -> Deferred:
    deferred = stay({"sql": sql, **arguments}, began_at=began_at)
    assert isinstance(deferred, Deferred), deferred
    return deferred
