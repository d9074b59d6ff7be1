"""Faults between a load and what it talks to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import Step
from airflow_provider_chs3.exceptions import Chs3Error
from tests.support.killing import on_no_clock, perform, performing, writes
from tests.support.lake import Lake
from tests.support.narrow_user import narrow_connection
from tests.support.proxies import StorageProxy

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.s3 import S3Endpoint


def interposed(one: Callable[[], Any], other: Callable[[], Any], at: int | str) -> list[Any]:
    """Run something, and another thing before a step of it: one of those that write, by its number, or a name.

    None stands for what ended with an error.
    """
    seen, done = count(), list[Any]()

    def attempted(run: Callable[[], Any]) -> None:
        try:
            done.append(run())
        except (AirflowException, Chs3Error) as error:
            print(f"{type(error).__name__}: {error}")  # shown where it fails
            done.append(None)

    def noted(runner: Runner, step: Step) -> Any:
        if step.name.startswith(at) if isinstance(at, str) else writes(step) and next(seen) == at:
            print(f"Before {step.name}")
            with performing(perform):
                attempted(other)
            Runner.perform = noted  # type: ignore[method-assign,assignment]
        return perform(runner, step)

    with performing(noted), on_no_clock():
        attempted(one)
    return done


@pytest.fixture
def storage(trips_lake: Lake, chs3_s3: S3Endpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[StorageProxy]:
    """A proxy that servers read through; they try again once, where their default is to do so for many minutes."""
    connection = narrow_connection(trips_lake.cluster)
    connection["extra"]["settings"] = {"s3_retry_attempts": 1}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    proxy = StorageProxy(chs3_s3.endpoint_url)
    yield proxy
    proxy.close()
