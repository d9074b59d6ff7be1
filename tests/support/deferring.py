"""Deferrable loads without a scheduler: tasks that are tried, deferred and resumed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.triggers.base import BaseTrigger

from airflow_provider_chs3.client import detached_runner as detached
from airflow_provider_chs3.client.deadline import Deadline
from airflow_provider_chs3.triggers import shared_poll
from tests.support.lake import Lake
from tests.support.proxies import Answer, StorageProxy

try:
    from airflow.sdk.serde import deserialize, serialize
except ModuleNotFoundError:  # Airflow 3.1
    from airflow.serialization.serde import deserialize, serialize


@dataclass
class Deferred:
    """A task that has left its worker."""

    lake: Lake
    options: dict[str, Any]
    how: TaskDeferred
    began_at: datetime | None = None

    @property
    def trigger(self) -> Any:
        """Return what it waits for."""
        return self.how.trigger

    def wait(self) -> dict[str, Any]:
        """Return the trigger's event, after a journey through a database as JSON."""

        async def run() -> Any:
            async for event in again(self.trigger).run():
                return event.payload

        return asyncio.run(run())

    def resume(self, event: dict[str, Any] | None = None) -> Any:
        """Go on in another process; gives the result, or the next deferral."""
        arguments = {"event": event or self.wait(), **deserialize(serialize(self.how.kwargs or {}))}
        return run(self.lake, self.options, method=self.how.method_name, began_at=self.began_at, **arguments)


class Gate:
    """Holds the first insert that is sent from now on until a test opens it, however slow the machine is.

    The storage does not answer the insert's first read.
    """

    def __init__(self, proxy: StorageProxy, monkeypatch: pytest.MonkeyPatch) -> None:
        self.options: dict[str, Any] = {
            "endpoint_url": proxy.endpoint_url,
            # Servers would ask again for what is not answered in time.
            "settings": {"s3_request_timeout_ms": 600_000, "s3_use_adaptive_timeouts": 0},
        }
        self._opened = Event()
        sent, reads = count(), count()
        send = detached.DetachedQuery.send

        def send_and_hold(query: detached.DetachedQuery, *args: Any, **kwargs: Any) -> Any:
            if next(sent) == 0:
                proxy.fault = held
            return send(query, *args, **kwargs)

        def held(method: str, path: str, true: Answer) -> Answer:
            if method == "GET" and path.endswith(".parquet") and next(reads) == 0:
                self._opened.wait(600)
            return true

        monkeypatch.setattr(detached.DetachedQuery, "send", send_and_hold)

    def open(self) -> None:
        """Let the insert go on."""
        self._opened.set()


@pytest.fixture
def gate(chs3_s3: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Holds the first insert that is sent."""
    proxy = StorageProxy(chs3_s3.endpoint_url)
    gate = Gate(proxy, monkeypatch)
    yield gate
    gate.open()
    proxy.close()


def again(trigger: BaseTrigger) -> Any:
    """The trigger as a triggerer makes it."""
    _, arguments = trigger.serialize()
    return type(trigger)(**deserialize(serialize(arguments)))


def run(
    lake: Lake,
    options: dict[str, Any],
    *,
    method: str = "execute",
    task_id: str = "load",
    began_at: datetime | None = None,
    **arguments: Any,
) -> Any:
    """One stay of a task in a worker: gives the result, or the deferral. It began now, or when that is given."""
    operator = lake.operator(task_id=task_id, **{"deferrable": True, **options})
    ti = SimpleNamespace(
        dag_id="dag",
        run_id="run",
        task_id=task_id,
        map_index=-1,
        try_number=1,
        start_date=began_at or datetime.now(UTC),
        xcom_push=lambda **_: None,
    )
    try:
        return getattr(operator, method)({"ti": ti}, **arguments)
    except TaskDeferred as deferred:
        return Deferred(lake, options, deferred, began_at)


def start(lake: Lake, *, began_at: datetime | None = None, **options: Any) -> Deferred:
    """Begin a load that is deferred."""
    deferred = run(lake, options, began_at=began_at)
    assert isinstance(deferred, Deferred), deferred
    return deferred


def finish(lake: Lake, **options: Any) -> Any:
    """Run a load to its end, whether a slow machine has it deferred or not."""
    result = run(lake, options)
    while isinstance(result, Deferred):
        result = result.resume()
    return result


@contextmanager
def dying_as_it_waits() -> Iterator[None]:
    """Have a worker die as soon as it waits for what goes on without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Deadline, "sleep", lambda *_: sys.exit())
        with pytest.raises(SystemExit):
            yield


def hurry(monkeypatch: Any) -> None:
    """Defer what takes more than half a second, and poll at once, as no scheduler has to notice the deferral."""
    monkeypatch.setattr(detached, "_ATTACHED_SECONDS", 0.5)
    monkeypatch.setattr(shared_poll, "FIRST_POLL_SECONDS", 0.2)
