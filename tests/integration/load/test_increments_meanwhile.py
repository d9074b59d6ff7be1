"""Changes while objects are added, and values that expressions look up: old and new rows must fit together."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.integration import slow_merges
from tests.support.added_files import FIRST_FILES, alter, events, load, numbers, put
from tests.support.lake import PERIOD, Lake
from tests.support.strikes import Strikes, strikes
from tests.support.waiting import wait_until

__all__ = ["events", "strikes"]


#: Another definition than that of the first load.
WHOLE = {"ts": "ts", "n": "toInt64(n) + 0"}


class Died(BaseException):
    """The worker dies."""


class TestChangesMeanwhile:
    """Others change the published rows while new ones are added: never may such a change be undone in silence."""

    @pytest.mark.thorough
    def test_before_it_is_attached(self, events: Lake, strikes: Strikes) -> None:
        put(events, 6)
        delete = f"DELETE FROM {events.database}.events WHERE n = 5"
        strikes.before(f"Attach the published rows of {PERIOD}", lambda: events.on_every_node(delete))
        with pytest.raises(AirflowFailException, match=r"policies={'on_target_changed': 'reload'}"):
            load(events)
        assert numbers(events) == [each for each in range(60) if each != 5]

    @pytest.mark.thorough
    def test_after_it_was_attached(self, events: Lake, strikes: Strikes) -> None:
        put(events, 6)
        delete = "DELETE WHERE n = 5 SETTINGS mutations_sync = 1"
        strikes.after(f"Attach the published rows of {PERIOD}", lambda: alter(events, delete))
        with pytest.raises(AirflowFailException, match=r"policies={'on_target_changed': 'reload'}"):
            load(events)
        assert numbers(events) == [each for each in range(60) if each != 5]

    def test_after_the_last_look(self, events: Lake, strikes: Strikes) -> None:
        put(events, 6)
        delete = "DELETE WHERE n = 5 SETTINGS mutations_sync = 1"
        strikes.before(f"Publish {PERIOD}", lambda: alter(events, delete))
        with pytest.raises(AirflowFailException, match=r"that change was undone: .*DELETE WHERE n = 5"):
            load(events)
        strikes.reset()
        with pytest.raises(AirflowFailException, match=r"DELETE WHERE n = 5\) ran just as a load replaced"):
            load(events)
        assert load(events, on_target_changed="reload")["loaded_objects"] == 7
        assert numbers(events) == list(range(70))

    @pytest.mark.thorough
    @pytest.mark.parametrize("arguments", [{}, {"select": WHOLE}], ids=["increment", "whole"])
    def test_after_the_last_look_of_a_load_that_dies(
        self, events: Lake, strikes: Strikes, arguments: dict[str, Any]
    ) -> None:
        @contextmanager
        def dying() -> Iterator[None]:
            alter(events, "DELETE WHERE n = 5 SETTINGS mutations_sync = 1")
            yield
            raise Died

        put(events, 6)
        strikes.around(f"Publish {PERIOD}", dying)
        with pytest.raises(Died):
            load(events, **arguments)
        strikes.reset()
        with pytest.raises(AirflowFailException, match=r"DELETE WHERE n = 5\) ran just as a load replaced"):
            load(events, **arguments)
        assert load(events, on_target_changed="reload", **arguments)["loaded_objects"] == 7
        assert load(events, **arguments)["status"] == "unchanged"

    @pytest.mark.thorough
    def test_earlier_mutations_and_those_of_other_periods_stop_no_load_after_one_that_died(
        self, events: Lake, strikes: Strikes
    ) -> None:
        alter(events, "DELETE WHERE n = -5 SETTINGS mutations_sync = 1")

        @contextmanager
        def dying() -> Iterator[None]:
            alter(events, "DELETE IN PARTITION 202601 WHERE n = 5 SETTINGS mutations_sync = 1")
            yield
            raise Died

        put(events, 6)
        strikes.around(f"Publish {PERIOD}", dying)
        with pytest.raises(Died):
            load(events)
        strikes.reset()
        assert load(events)["status"] == "published"
        assert numbers(events) == list(range(70))

    @pytest.mark.thorough
    def test_merges_change_nothing(self, events: Lake, strikes: Strikes) -> None:
        put(events, 6)
        merge = f"OPTIMIZE TABLE {events.database}.events FINAL"
        strikes.before(f"Insert 1 object of {PERIOD}", lambda: events.on_every_node(merge))
        assert load(events)["loaded_objects"] == 1
        assert numbers(events) == list(range(70))

    @pytest.mark.thorough
    def test_a_merge_right_before_it_is_attached(self, events: Lake, strikes: Strikes) -> None:
        put(events, 6)
        load(events)
        put(events, 7)
        merge = f"OPTIMIZE TABLE {events.database}.events FINAL"
        strikes.before(f"Attach the published rows of {PERIOD}", lambda: events.on_every_node(merge))
        assert load(events)["loaded_objects"] == 1
        assert numbers(events) == list(range(80))

    @pytest.mark.thorough
    @pytest.mark.parametrize("step", ["Look at the new parts", "Remove the replaced parts", "Look for replaced parts"])
    def test_a_merge_right_after_it_is_published(self, events: Lake, strikes: Strikes, step: str) -> None:
        # To remove replaced parts removes the new ones, too, that merges have joined.
        put(events, 6)
        strikes.before(step, lambda: events.on_every_node(f"OPTIMIZE TABLE {events.database}.events FINAL"))
        assert load(events)["loaded_objects"] == 1
        assert strikes.struck
        assert load(events)["status"] == "unchanged"
        assert numbers(events) == list(range(70))

    @pytest.mark.thorough
    def test_a_merge_that_runs_is_waited_for_and_ends(
        self, events: Lake, strikes: Strikes, capfd: pytest.CaptureFixture[str]
    ) -> None:
        # A part is one granule, for which merges compute the index: a second in all.
        seconds_a_row = 1 / 35
        alter(events, f"ADD INDEX slow sleepEachRow({seconds_a_row}) TYPE minmax")
        alter(events, "MODIFY SETTING min_parts_to_merge_at_once = 1000")
        put(events, 6)
        load(events)
        put(events, 7)
        with ThreadPoolExecutor(max_workers=1) as pool:
            merges = list[Future[object]]()

            def merge() -> None:
                optimize = f"OPTIMIZE TABLE {events.database}.events FINAL"
                merges.append(pool.submit(events.on_every_node, optimize))
                wait_until(lambda: any(slow_merges.merging(events)))

            strikes.before("Look for merges of the period", merge)
            assert load(events)["loaded_objects"] == 1
            # A cancelled merge fails with code 236.
            merges[0].result()
        assert f"Waiting for merges of {PERIOD} on" in capfd.readouterr().out
        assert numbers(events) == list(range(80))


@pytest.fixture
def function(events: Lake) -> Iterator[str]:
    """The name of a function of this test."""
    name = f"rate_of_{events.database}"
    yield name
    events.on_every_node(f"DROP FUNCTION IF EXISTS {name}")


class TestLookups:
    """A value that an expression looks up may have changed since: old and new rows must show one state of it."""

    @pytest.mark.thorough
    @pytest.mark.parametrize("expression", ["`dictGet`({})", "dictGet /* why */ ({})", "{function}(n)"])
    def test_of_dictionaries(
        self, events: Lake, function: str, expression: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        rates = f"{events.database}.rates"
        self._set(events, rates, 1)
        arguments = f"'{rates}', 'rate', toUInt64(0 * toUInt64(n))"
        events.on_every_node(f"CREATE FUNCTION {function} AS n -> dictGet({arguments})")
        select = self._select(expression.format(arguments, function=function))
        assert load(events, select=select)["loaded_objects"] == FIRST_FILES
        self._set(events, rates, 2)
        put(events, 6)
        assert load(events, select=select)["loaded_objects"] == FIRST_FILES + 1
        called = function if "function" in expression else "dictGet"
        assert f"Loading all objects: select calls {called}, whose value may" in capfd.readouterr().out
        assert self._values(events) == [2]

    @pytest.mark.thorough
    def test_of_functions_that_are_redefined(self, events: Lake, function: str) -> None:
        select = self._select(f"{function}(n)")
        for number, rate in ((6, 1), (7, 2)):
            events.on_every_node(f"CREATE OR REPLACE FUNCTION {function} AS n -> {rate}")
            put(events, number)
            load(events, select=select)
            assert self._values(events) == [rate]

    @staticmethod
    def _select(expression: str) -> dict[str, str]:
        return {"ts": "toDateTime(ts, 'UTC')", "n": "toInt64(n)", "s": f"toInt64({expression})"}

    @staticmethod
    def _set(lake: Lake, rates: str, rate: int) -> None:
        lake.on_every_node(
            f"CREATE OR REPLACE DICTIONARY {rates} (id UInt64, rate UInt64) PRIMARY KEY id "
            f"SOURCE(CLICKHOUSE(QUERY 'SELECT 0 AS id, {rate} AS rate')) LAYOUT(FLAT()) LIFETIME(0)"
        )

    @staticmethod
    def _values(lake: Lake) -> list[int]:
        sql = f"SELECT DISTINCT s FROM cluster('{lake.cluster.name}', {lake.database}, events)"
        return sorted(value for (value,) in lake.on_node(0, sql))
