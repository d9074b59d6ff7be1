"""Several periods in one load, while others load one of them, and killed at any step."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk.exceptions import AirflowTaskTerminated

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.steps.operations import AnyStep, Insert
from airflow_provider_chs3.exceptions import ClickHouseServerError
from airflow_provider_chs3.hooks.clickhouse import PooledClickHouseHook
from tests.support.several_periods import PERIODS, Periods, periods
from tests.support.strikes import Strikes, strikes

__all__ = ["periods", "strikes"]

#: A later load of one period comes after these steps of a load of several.
MOMENTS = (
    "Record that",
    "Insert ",
    "Count what is staged",
    "Create staging",
    "Take the rows",
    "Record the intent",
    "Publish ",
    "Record 2026-07",
)


def error_of(periods: Periods) -> str:
    try:
        periods.load()
    except AirflowFailException as error:
        return str(error)
    return ""


@pytest.mark.thorough
@pytest.mark.parametrize("step", MOMENTS)
def test_a_later_load_of_one_period_is_not_ended_and_the_others_are_published(
    periods: Periods, strikes: Strikes, step: str
) -> None:
    done: list[str] = []

    def later() -> None:
        strikes.reset()
        periods.put("2026-08", "c")
        done.append(periods.load_one("2026-08"))

    strikes.after(step, later)
    told = error_of(periods)
    assert not told or ("1 of 4 periods failed" in told and "2026-08: Another load" in told)
    assert done == ["published"]
    assert periods.found() == periods.expected()


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["Take the rows", "Record the intent"])
def test_periods_that_lost_their_table_are_published_from_another_one(
    periods: Periods, strikes: Strikes, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    inserts: list[Insert] = []
    insert = Runner.insert
    monkeypatch.setattr(Runner, "insert", lambda runner, each: inserts.append(each) or insert(runner, each))

    def later() -> None:
        strikes.reset()
        periods.put("2026-08", "c")
        periods.load_one("2026-08")

    strikes.after(step, later)
    assert not error_of(periods)
    assert periods.found() == periods.expected()
    assert len(inserts) == 2, "one of all periods, and one of the later load"
    assert periods.lake.on_node(0, "SELECT name FROM system.tables WHERE name LIKE 'chs3\\_%\\_%'") == []


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["Create staging", "Look for other attempts", "Take the rows"])
def test_of_two_groups_that_publish_at_once_one_publishes_their_common_period(periods: Periods, step: str) -> None:
    """Each comes to the step before either goes on; only their second tables are in each other's way."""
    meeting = threading.Barrier(2, timeout=120)
    perform = Runner.__dict__["perform"]
    met = threading.local()

    def meet(runner: Runner, each: AnyStep) -> Any:
        done = perform.__get__(runner, Runner)(each)
        is_second = step != "Create staging" or getattr(met, "created", False)
        if each.name.startswith("Create staging"):
            met.created = True
        if each.name.startswith(step) and is_second and not getattr(met, "is_over", False):
            met.is_over = True
            with suppress(threading.BrokenBarrierError):
                meeting.wait()
        return done

    def load(*names: str) -> dict[str, str]:
        try:
            return periods.statuses(*names)
        except AirflowFailException as error:
            return {"error": str(error)}

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor() as pool:
        patch.setattr(Runner, "perform", meet)
        first, second = pool.submit(load, *PERIODS[:2]), pool.submit(load, *PERIODS[1:3])
        outcomes = [first.result(), second.result()]
    told = [outcome["error"] for outcome in outcomes if "error" in outcome]
    assert len(told) <= 1
    assert all(f"1 of 2 periods failed; the others are loaded.\n  {PERIODS[1]}: Another load" in each for each in told)
    assert periods.found() == periods.expected(*PERIODS[3:])
    assert left_of(periods) == []


@pytest.mark.thorough
def test_an_earlier_load_of_one_period_is_ended(periods: Periods, strikes: Strikes) -> None:
    statuses: dict[str, str] = {}

    def later() -> None:
        strikes.reset()
        statuses.update(periods.statuses())

    strikes.before("Publish ", later)
    with pytest.raises(AirflowFailException, match="Another load"):
        periods.load_one("2026-08")
    assert set(statuses.values()) == {"published"}
    assert periods.found() == periods.expected()


@pytest.mark.thorough
def test_an_insert_that_somebody_kills_fails_all_periods(periods: Periods, strikes: Strikes) -> None:
    def kill() -> None:
        raise ClickHouseServerError(394, "QUERY_WAS_CANCELLED", "Query was cancelled", "h:1")

    strikes.before("Insert ", kill)
    with pytest.raises(AirflowFailException, match="Somebody ended the query"):
        periods.load()
    strikes.reset()
    assert periods.found() == {}
    assert set(periods.statuses().values()) == {"published"}


class KilledError(BaseException):
    """The worker is gone: nothing is cleaned up."""


@contextmanager
def dying() -> Iterator[None]:
    raise KilledError
    yield


LEFT = "SELECT name FROM system.tables WHERE match(name, '^chs3_[0-9a-f]{16}_')"


def left_of(periods: Periods) -> list[tuple[str]]:
    return periods.lake.on_node(0, LEFT)


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["Count what is staged", "Record the intent"])
def test_what_a_dead_group_left_is_dropped_once_others_have_published_its_periods(
    periods: Periods, strikes: Strikes, step: str
) -> None:
    strikes.die("before", step, lambda: periods.load(*PERIODS[:3]))
    # Tables tell the second in which they were created: what is published within it may have been published before.
    time.sleep(1.1)
    for period in PERIODS[:2]:
        periods.load_one(period)
    periods.load(*PERIODS[1:])
    # One of its periods was not published when that load began.
    assert left_of(periods)
    periods.load()
    assert periods.found() == periods.expected()
    assert left_of(periods) == []


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["Drop staging", "Record the load"])
def test_the_next_run_drops_what_a_group_left_that_died_when_it_had_published_all(
    periods: Periods, strikes: Strikes, step: str
) -> None:
    strikes.die("before", step, periods.load)
    assert left_of(periods)
    assert set(periods.statuses().values()) == {"unchanged"}
    assert left_of(periods) == []


@pytest.mark.thorough
def test_a_task_that_is_ended_before_any_statement_leaves_nothing(
    periods: Periods, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = PooledClickHouseHook.query
    for number in count(1, 5):
        for period in PERIODS:
            periods.put(period, f"more{number}", rows=3)
        operator, asked = periods.operator(), count(1)

        def ended_before(hook: Any, *args: Any, at: int = number, **kwargs: Any) -> Any:
            if next(asked) == at:  # noqa: B023  # of this round
                operator.on_kill()  # noqa: B023
            return query(hook, *args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(PooledClickHouseHook, "query", ended_before)
            try:
                operator.execute({})
                break
            except AirflowTaskTerminated:
                assert periods.lake.left_behind() == [], f"ended before statement {number}"
        assert set(periods.statuses().values()) <= {"published", "unchanged"}
        assert periods.found() == periods.expected()
    assert number > 20
    assert periods.found() == periods.expected()


@pytest.mark.thorough
def test_a_target_may_have_the_comment_of_staging(periods: Periods, strikes: Strikes) -> None:
    comments: list[str] = []

    def look() -> None:
        found = periods.lake.on_node(
            0, """SELECT comment FROM system.tables WHERE comment LIKE '%"role": "published"%\'"""
        )
        comments.extend(comment for (comment,) in found)

    strikes.before("Publish ", look)
    periods.load()
    strikes.reset()
    assert comments
    periods.lake.on_every_node(f"ALTER TABLE {periods.lake.database}.numbers MODIFY COMMENT '{comments[0]}'")
    for period in PERIODS:
        periods.put(period, "c")
    assert set(periods.statuses().values()) == {"published"}
    assert periods.load_one("2026-08") == "unchanged"
    assert periods.found() == periods.expected()


@pytest.mark.thorough
def test_tables_that_only_look_like_staging_of_these_periods_stay(periods: Periods) -> None:
    """A comment that is no such JSON, one of another table, and a load of days that are none of these periods."""
    own = {"role": "inserted", "attempt": "f" * 16, "database": periods.lake.database, "table": "numbers"}
    comments = [
        f"2 periods that are inserted together: {PERIODS[0]} {PERIODS[1]}",
        json.dumps(own | {"periods": PERIODS[:1]})[:-1],
        json.dumps(own | {"periods": PERIODS[:1], "table": "others"}),
        json.dumps(own | {"periods": [f"{period}-05" for period in PERIODS]}),
        json.dumps([*own.values(), *PERIODS]),
        json.dumps(own | {"periods": PERIODS}),
    ]
    names = [f"chs3_{number:016x}_{'f' * 16}" for number in range(len(comments))]
    for name, comment in zip(names, comments, strict=True):
        sql = f"CREATE TABLE {periods.lake.database}.{name} (x UInt8) ENGINE = MergeTree ORDER BY x"
        periods.lake.on_every_node(f"{sql} COMMENT {literal(comment)}")
    # The table into which they were inserted would be dropped once they are published after it was made.
    time.sleep(1.1)
    periods.load()
    periods.load()
    assert {name for (name,) in left_of(periods)} == set(names[:-1])
    for name in names[:-1]:
        periods.lake.on_every_node(f"DROP TABLE {periods.lake.database}.{name}")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("step", ["Count what is staged", "Record the load"])
def test_the_next_try_of_a_task_drops_what_one_that_was_killed_has_left(
    periods: Periods, strikes: Strikes, step: str
) -> None:
    def load() -> None:
        names = {"dag_id": "dag", "run_id": "run", "task_id": "load", "map_index": -1, "try_number": 1}
        ti = SimpleNamespace(**names, xcom_push=lambda **_: None)
        periods.operator().execute({"ti": ti})

    strikes.die("before", step, load)
    assert left_of(periods)
    # The next try groups other periods.
    periods.load_one("2026-08")
    load()
    assert periods.found() == periods.expected()
    assert left_of(periods) == []


@pytest.mark.thorough
@pytest.mark.parametrize("share", range(4))
def test_killed_before_any_step_the_next_run_mends_all_periods(periods: Periods, strikes: Strikes, share: int) -> None:
    periods.load()
    for number in count(share, 4):
        for period in PERIODS[number % 2 :: 2]:
            periods.put(period, f"more{number}", rows=3)
        strikes.reset()
        strikes.around_one(number, lambda _: True, dying)
        try:
            periods.load()
        except KilledError:
            strikes.reset()
            assert set(periods.statuses().values()) <= {"published", "unchanged"}
            assert periods.found() == periods.expected()
        else:
            break
    assert number > 60
    assert periods.found() == periods.expected()


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_what_a_dead_group_left_on_a_node_that_was_away_is_dropped(periods: Periods, strikes: Strikes) -> None:
    strikes.die("before", "Record the intent", lambda: periods.load(*PERIODS[:3]))
    time.sleep(1.1)
    # As if these nodes alone had seen that others dropped it.
    for number in (0, 1):
        for (name,) in periods.lake.on_node(number, LEFT):
            periods.lake.on_node(number, f"DROP TABLE {periods.lake.database}.{name} SYNC")
    for period in PERIODS[:3]:
        periods.load_one(period)
    assert periods.lake.on_node(2, LEFT)
    periods.put(PERIODS[0], "later")
    periods.put(PERIODS[1], "later")
    periods.load(*PERIODS[:2])
    assert periods.found() == periods.expected(PERIODS[3])
    assert periods.lake.on_every_node(LEFT) == [[], [], []]
