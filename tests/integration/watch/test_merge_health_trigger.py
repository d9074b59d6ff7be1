"""The deferred sensor: what it defers with, what its trigger finds, and how it ends."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred

from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.triggers import shared_poll
from airflow_provider_chs3.triggers.merge_health import MergeHealthTrigger
from tests.support.lake import PERIOD, Lake
from tests.support.merge_sensors import insert, look, merges, sensor
from tests.support.narrow_user import NARROW


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scheduler runs here that a trigger could be too quick for."""
    monkeypatch.setattr(shared_poll, "FIRST_POLL_SECONDS", 0.1)


@pytest.fixture
def settling(trips_lake: Lake) -> Lake:
    """The first node has 300 parts of the period, which nothing merges yet."""
    merges(trips_lake, 0, "STOP")
    insert(trips_lake, 0, parts=300)
    return trips_lake


def sensor_without_server() -> ClickHouseMergeHealthSensor:
    return ClickHouseMergeHealthSensor(task_id="wait", table="trips", period=PERIOD)


def deferred(lake: Lake, **options: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as raised:
        sensor(lake, **{"deferrable": True, "poke_interval": 0.1, **options}).execute({})
    return raised.value


def restored(lake: Lake, **options: Any) -> MergeHealthTrigger:
    """The trigger as another process makes it of what is stored."""
    _, arguments = deferred(lake, **options).trigger.serialize()
    return MergeHealthTrigger(**json.loads(json.dumps(arguments)))


def event_of(trigger: MergeHealthTrigger, *, meanwhile: Callable[[], object]) -> dict[str, Any]:
    """Return the trigger's event; `meanwhile` happens when it has looked once."""

    answer = shared_poll.answer

    async def first_event() -> dict[str, Any]:
        has_looked = asyncio.Event()

        async def noted(*arguments: Any, **options: Any) -> Any:
            found = await answer(*arguments, **options)
            has_looked.set()
            return found

        with patch.object(shared_poll, "answer", noted):
            event = asyncio.create_task(anext(trigger.run()))
            await has_looked.wait()
            assert not event.done()
            await asyncio.to_thread(meanwhile)
            return (await event).payload

    return asyncio.run(first_event())


def nodes_by_period(result: Mapping[str, Any]) -> dict[str, list[str]]:
    return {period: sorted(nodes) for period, nodes in result["periods"].items()}


def test_it_defers_with_names_and_numbers_what_is_not_over_at_the_first_look(settling: Lake) -> None:
    assert sensor(settling).deferrable is False
    assert sensor(settling, deferrable=True, period="2026-09").execute({})["health"] == "healthy"
    found = deferred(settling, timeout=7200)
    assert found.timeout == timedelta(hours=2)
    path, arguments = found.trigger.serialize()
    assert path == "airflow_provider_chs3.triggers.merge_health.MergeHealthTrigger"
    assert json.loads(json.dumps(arguments)) == arguments
    assert NARROW.password not in repr(arguments)
    # What a poke would fail with, it fails with.
    fails = {"settled_after_seconds": 0, "on_settled_with_too_many_parts": "fail"}
    with pytest.raises(AirflowFailException, match="OPTIMIZE TABLE"):
        sensor(settling, deferrable=True, **fails).execute({})


class TestTrigger:
    def test_it_ends_as_a_poke_does_when_merges_are_done(self, settling: Lake) -> None:
        event = event_of(restored(settling), meanwhile=lambda: merges(settling, 0, "START"))
        assert event["result"]["health"] == "healthy"
        # How many parts there are, merges go on to change.
        poked = look(settling).xcom_value
        assert nodes_by_period(event["result"]) == nodes_by_period(poked)
        assert event["result"].keys() == poked.keys()
        assert sensor_without_server().execute_complete({}, event) == event["result"]

    def test_a_person_who_must_act_is_told_why_and_no_retry_helps(self, settling: Lake) -> None:
        trigger = restored(settling, stuck_after_seconds=0)
        few = f"ALTER TABLE {settling.database}.{settling.table} MODIFY SETTING parts_to_delay_insert = 100"
        event = event_of(trigger, meanwhile=lambda: settling.on_node(0, few))
        with pytest.raises(AirflowFailException, match=r"stuck, 300 parts: .*SYSTEM START MERGES"):
            sensor_without_server().execute_complete({}, event)

    @pytest.mark.thorough
    def test_a_table_that_is_gone_ends_the_waiting(self, settling: Lake) -> None:
        drop = f"DROP TABLE {settling.database}.{settling.table} SYNC"
        event = event_of(restored(settling, poke_interval=1), meanwhile=lambda: settling.on_node(0, drop))
        assert "does not exist on" in event["error"]

    @pytest.mark.thorough
    def test_it_tells_how_it_goes(
        self, settling: Lake, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        trigger = restored(settling)
        capsys.readouterr()
        caplog.clear()
        event_of(trigger, meanwhile=lambda: merges(settling, 0, "START"))
        # Airflow's loggers are standard ones in some versions, and not in others.
        said = caplog.text or capsys.readouterr().out
        first, *_, last = [line for line in said.splitlines() if f"trips {PERIOD} on " in line]
        assert "settling, 300 parts: nothing has merged for" in first
        assert "settling" not in last


def test_sensors_on_one_table_share_their_questions(settling: Lake) -> None:
    _, arguments = deferred(settling).trigger.serialize()
    other_periods = [f"2026-{number:02}" for number in range(5, 10)]
    triggers = [MergeHealthTrigger(**arguments | {"periods": [PERIOD, other]}) for other in other_periods * 6]

    def questions() -> int:
        settling.on_node(0, "SYSTEM FLUSH LOGS")
        ((count,),) = settling.on_node(
            0,
            "SELECT count() FROM system.query_log WHERE type = 'QueryFinish' AND NOT has(databases, 'system.query_log')"
            f" AND position(query, '{settling.database}') > 0 AND position(query, 'FROM system.merges') > 0",
        )
        return int(count)

    async def all_events() -> None:
        waiting = [asyncio.create_task(anext(trigger.run())) for trigger in triggers]
        await asyncio.sleep(1)
        await asyncio.to_thread(merges, settling, 0, "START")
        await asyncio.gather(*waiting)

    before, began = questions(), time.monotonic()
    asyncio.run(all_events())
    # Looks are half of 0.1 s apart at least, however long a busy machine takes; 30 triggers would ask 30 times as much.
    assert questions() - before < 2 + (time.monotonic() - began) / 0.05
