"""Deferrable loads without a scheduler: tasks that are tried, deferred and resumed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk.serde import deserialize, serialize

from airflow_provider_chs3.triggers import shared_poll
from airflow_provider_chs3.triggers.load import InsertTrigger
from tests.integration.lake import Lake


@dataclass
class Deferred:
    """A task that has left its worker.

    Attributes:
        lake: What it loads.
        options: The operator's arguments.
        trigger: What it waits for.
    """

    lake: Lake
    options: dict[str, Any]
    trigger: InsertTrigger

    def wait(self) -> dict[str, Any]:
        """What the trigger tells in the end, after a journey through a database as JSON."""

        async def run() -> Any:
            async for event in again(self.trigger).run():
                return event.payload

        return asyncio.run(run())

    def resume(self, event: dict[str, Any] | None = None) -> Any:
        """Go on in another process; gives the result, or the next deferral."""
        return run(self.lake, self.options, event=event or self.wait())


def again(trigger: InsertTrigger) -> InsertTrigger:
    """The trigger as a triggerer makes it."""
    _, arguments = trigger.serialize()
    return InsertTrigger(**deserialize(serialize(arguments)))


def run(lake: Lake, options: dict[str, Any], *, event: dict[str, Any] | None = None, task_id: str = "load") -> Any:
    """One stay of a task in a worker: gives the result, or the deferral."""
    operator = lake.operator(deferrable=True, task_id=task_id, **options)
    ti = SimpleNamespace(
        dag_id="dag", run_id="run", task_id=task_id, map_index=-1, try_number=1, start_date=datetime.now(UTC)
    )
    try:
        return operator.execute_complete({"ti": ti}, event) if event else operator.execute({"ti": ti})
    except TaskDeferred as deferred:
        return Deferred(lake, options, deferred.trigger)


def start(lake: Lake, **options: Any) -> Deferred:
    """Begin a load that is deferred."""
    deferred = run(lake, options)
    assert isinstance(deferred, Deferred), deferred
    return deferred


def hurry(monkeypatch: Any) -> None:
    """Without a scheduler nothing is to be waited for before the first poll."""
    monkeypatch.setattr(shared_poll, "FIRST_POLL_SECONDS", 0.2)
