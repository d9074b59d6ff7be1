"""The same from a triggerer: it may die, and be told to stop, and another one goes on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from airflow.triggers.base import TriggerEvent

from airflow_provider_chs3.exceptions import TransientError
from airflow_provider_chs3.triggers import optimize as module
from airflow_provider_chs3.triggers.optimize import OptimizeTrigger
from tests.integration.slow_merges import address, create, insert, merging, parts, running
from tests.integration.watch.optimizing import JUNE, operator
from tests.support.lake import Lake

pytestmark = pytest.mark.three_nodes


@pytest.fixture
def table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    create(lake)
    monkeypatch.setattr(module, "FIRST_POLL_SECONDS", 0)
    return lake


def deferred(lake: Lake, **options: Any) -> OptimizeTrigger:
    """The trigger that the task defers with, as another process gets it."""
    with pytest.raises(TaskDeferred) as raised:
        operator(lake, deferrable=True, **options).execute({})
    return again(raised.value.trigger)


def again(trigger: OptimizeTrigger) -> OptimizeTrigger:
    _, arguments = trigger.serialize()
    return OptimizeTrigger(**json.loads(json.dumps(arguments)))


async def event_of(trigger: OptimizeTrigger) -> TriggerEvent:
    return await anext(trigger.run())


def run(trigger: OptimizeTrigger) -> dict[str, Any]:
    return asyncio.run(event_of(trigger)).payload


def run_until_it_merges(table: Lake, trigger: OptimizeTrigger, *, is_killed: bool = False) -> None:
    """Its triggerer dies then, or a person ends the task."""

    async def dies() -> None:
        task = asyncio.create_task(event_of(trigger))
        while not (await asyncio.to_thread(merging, table))[0]:
            assert not task.done()
            await asyncio.sleep(0.1)
        if is_killed:
            await trigger.on_kill()
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(dies())


def test_nothing_to_merge_is_not_deferred(table: Lake) -> None:
    assert operator(table, deferrable=True).execute({}) == {"merged": 0, "periods": {}}


def test_what_the_trigger_merged_is_what_the_task_returns(table: Lake) -> None:
    insert(table, 1, JUNE)
    event = run(deferred(table))
    told = operator(table).execute_complete({}, event)["periods"][JUNE][address(table.cluster.nodes[1])]
    assert (told["status"], told["parts_before"], parts(table, JUNE)[1]) == ("merged", 4, 1)


@pytest.mark.thorough
def test_another_triggerer_goes_on_with_what_runs(table: Lake) -> None:
    insert(table, 0, JUNE, seconds=10)
    trigger = deferred(table)
    run_until_it_merges(table, trigger)
    assert running(table)[0]
    told = run(again(trigger))["result"]["periods"][JUNE][address(table.cluster.nodes[0])]
    assert (told["status"], told["parts_before"], told["parts_after"]) == ("merged", 4, 1)
    assert told["seconds"] >= 4


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("cancel_on_kill", "left"), [(True, 0), (False, 1)])
def test_a_person_ends_the_task(table: Lake, cancel_on_kill: bool, left: int) -> None:
    insert(table, 0, JUNE, seconds=20)
    run_until_it_merges(table, deferred(table, cancel_on_kill=cancel_on_kill, poll_interval_seconds=5), is_killed=True)
    assert len(running(table)[0]) == left
    table.on_every_node(f"DROP TABLE {table.database}.{table.table} SYNC")


def test_an_error_fails_the_task_without_retries_where_a_person_must_act(table: Lake) -> None:
    insert(table, 0, JUNE)
    trigger = deferred(table)
    table.on_every_node(f"DROP TABLE {table.database}.{table.table} SYNC")
    with pytest.raises(AirflowFailException, match="does not exist on"):
        operator(table).execute_complete({}, run(trigger))


def test_an_error_that_may_pass_is_for_a_retry(table: Lake) -> None:
    with pytest.raises(TransientError, match="no room"):
        operator(table).execute_complete({}, {"error": "no room", "is_terminal": False})
