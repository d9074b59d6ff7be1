"""Loads that begin to insert files as those of the last loads were read, and look at them meanwhile."""

from __future__ import annotations

import io
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.core.steps.operations import AnyStep, Gather, Insert, Step
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.killing import Worker, perform, performing, steps_of
from tests.support.lake import Lake
from tests.support.outcome import assert_exact
from tests.support.proxies import Answer, StorageProxy
from tests.support.several_periods import PERIODS, Periods, periods

#: Fixture.
__all__ = ["periods"]

FIRST, NEXT, *OTHERS = PERIODS
LOOK, INSERT, WAIT = "Read the footers", "Insert 2 objects", "Wait for the insert to end"


def began_with_the_insert(steps: list[AnyStep]) -> bool:
    return any(isinstance(step, Gather) and step.name == "Look at the files, and insert" for step in steps)


def inserts(steps: list[AnyStep]) -> list[str]:
    """The statements of inserts, but for the names of staging, and the memory that is free."""
    return [re.sub(r"chs3_\w+|= \d{8,}", "…", step.sql.text) for step in steps if isinstance(step, Insert)]


def put(periods: Periods, numbers: pa.Array, *, name: str = "a", period: str = NEXT, day: int = 5) -> None:
    """Write a file with these numbers instead."""
    days = pa.array([date.fromisoformat(f"{period}-{day:02}")] * len(numbers), pa.date32())
    body = io.BytesIO()
    pq.write_table(pa.table({"day": days, "n": numbers}), body)
    periods.lake.put(f"n/{period}/{name}.parquet", body.getvalue())


def numbers_of(periods: Periods, period: str = NEXT) -> list[int]:
    return [number for _, number in periods.found().get(period, [])]


@contextmanager
def delayed(beginning: str, seconds: float = 0.5) -> Iterator[None]:
    """Have steps wait whose name begins so."""

    def wait(runner: Runner, step: Step[Any]) -> Any:
        if step.name.startswith(beginning):
            time.sleep(seconds)
        return perform(runner, step)

    with performing(wait):
        yield


def error_of(load: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as raised:  # noqa: PT011
        load()
    return str(raised.value)


@pytest.mark.thorough
def test_the_insert_of_a_further_period_begins_first_and_is_the_same(periods: Periods) -> None:
    first = steps_of(lambda: periods.load(FIRST))
    further = steps_of(lambda: periods.load(NEXT))
    assert [began_with_the_insert(first), began_with_the_insert(further)] == [False, True]
    assert [insert.replace(NEXT, FIRST) for insert in inserts(further)] == inserts(first)
    assert periods.found() == periods.expected(*OTHERS)
    rows = "SELECT period, loaded_rows, uncompressed_bytes > 0, reading != '' FROM {}.chs3_loads WHERE event = 'load'"
    recorded = periods.lake.on_node(0, rows.format(periods.lake.database))
    assert sorted(recorded) == [(FIRST, 90, 1, 1), (NEXT, 91, 1, 1)]


@pytest.mark.thorough
def test_of_several_periods_each_has_its_rows(periods: Periods) -> None:
    periods.load(FIRST)
    steps = steps_of(lambda: periods.load(NEXT, *OTHERS))
    assert (began_with_the_insert(steps), len(inserts(steps))) == (True, 1)
    assert periods.found() == periods.expected()
    assert sorted(each["rows"] for each in periods.load().values()) == sorted(map(len, periods.rows.values()))
    # And a new file of a published period is added.
    periods.put(FIRST, "c", rows=30)
    assert began_with_the_insert(steps_of(lambda: periods.load(FIRST)))
    assert periods.found() == periods.expected()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("late", [LOOK, INSERT])
@pytest.mark.parametrize("several", [False, True])
def test_files_of_another_type_start_over(
    periods: Periods, late: str, several: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    periods.load(FIRST)
    put(periods, pa.array(["7", "8"]), name="b")
    asked = (NEXT, *OTHERS) if several else (NEXT,)
    with delayed(late):
        assert periods.statuses(*asked) == dict.fromkeys(asked, "published")
    told = capsys.readouterr().out
    assert re.search(r"have other columns or types than those of the last loads. Starting over: looking at the", told)
    assert numbers_of(periods) == sorted([7, 8, *(number for _, number in periods.rows[NEXT][:41])])
    assert periods.lake.left_behind() == []


@pytest.mark.thorough
def test_loads_of_unlike_files_do_not_start_over_each_time(
    periods: Periods, capsys: pytest.CaptureFixture[str]
) -> None:
    periods.load(FIRST)
    put(periods, pa.array(["7", "8"]), name="b")
    periods.load(NEXT)
    capsys.readouterr()
    steps = [began_with_the_insert(steps_of(lambda: periods.load(period))) for period in OTHERS]  # noqa: B023
    assert steps == [False, False]
    assert "Starting over" not in capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.parametrize("late", [LOOK, INSERT])
@pytest.mark.parametrize("lacking", ["types", "columns"])
def test_what_is_wrong_with_the_files_is_what_is_reported(periods: Periods, late: str, lacking: str) -> None:
    if lacking == "types":
        put(periods, pa.array([[1, 2], [3]]), name="b")
    else:
        body = io.BytesIO()
        pq.write_table(pa.table({"day": pa.array([date(2026, 8, 1)])}), body)
        periods.lake.put(f"n/{NEXT}/b.parquet", body.getvalue())
    without_history = error_of(lambda: periods.load(NEXT))
    periods.load(FIRST)
    with delayed(late):
        assert error_of(lambda: periods.load(NEXT)) == without_history
    assert numbers_of(periods) == []
    assert periods.lake.left_behind() == []


def test_a_value_that_does_not_fit_is_explained(periods: Periods) -> None:
    periods.lake.on_every_node(f"ALTER TABLE {periods.lake.database}.numbers MODIFY COLUMN day Date")
    body = periods.body([(date(1969, 8, 1), 5)])
    periods.lake.put(f"n/{NEXT}/b.parquet", body)
    without_history = error_of(lambda: periods.load(NEXT))
    periods.load(FIRST)
    assert error_of(lambda: periods.load(NEXT)) == without_history
    assert "'day' is Date, but row 1 of" in without_history


def strike(periods: Periods, beginning: str, *, after: bool = False) -> None:
    """Load in a worker that is killed before or after a step whose name begins so."""

    def die(runner: Runner, step: Step[Any]) -> Any:
        if not step.name.startswith(beginning):
            if beginning == WAIT and step.name.startswith(INSERT):
                time.sleep(5)  # it is still to be ended
            return perform(runner, step)
        if after:
            perform(runner, step)
        else:
            time.sleep(0.2)  # the insert is at it
        os.kill(os.getpid(), signal.SIGKILL)

    def struck() -> None:
        with performing(die):
            periods.load(NEXT)

    assert Worker(struck).wait() == -signal.SIGKILL


@pytest.mark.thorough
@pytest.mark.parametrize(("at", "after"), [(LOOK, False), (LOOK, True), ("Record that", True), (INSERT, True)])
def test_a_worker_that_dies_meanwhile_leaves_nothing_that_counts(periods: Periods, at: str, after: bool) -> None:
    periods.load(FIRST)
    strike(periods, at, after=after)
    assert numbers_of(periods) == []
    assert periods.statuses(NEXT) == {NEXT: "published"}
    assert periods.found() == periods.expected(*OTHERS)
    assert periods.lake.left_behind() == []


@pytest.mark.thorough
@pytest.mark.parametrize("at", [INSERT, WAIT])
def test_a_worker_that_dies_over_files_of_another_type(periods: Periods, at: str) -> None:
    periods.load(FIRST)
    put(periods, pa.array(["7", "8"]), name="b")
    strike(periods, at)
    assert periods.statuses(NEXT) == {NEXT: "published"}
    assert {7, 8} < set(numbers_of(periods))
    assert periods.lake.left_behind() == []


def asked_before_the_insert(lake: Lake, s3: S3Endpoint, period: str) -> list[str]:
    """Return the requests of servers to the storage before a load's insert is sent."""
    asked, before, is_sent = list[str](), list[str](), Event()
    storage = StorageProxy(s3.endpoint_url)

    def noted(method: str, path: str, true: Answer) -> Answer:
        asked.append(method)
        return true

    def sent(runner: Runner, step: Step[Any]) -> Any:
        if isinstance(step, Insert):
            before.extend(asked)
            is_sent.set()
        elif step.name.startswith((LOOK, "Read the columns")) and period != FIRST:
            assert is_sent.wait(60)
        return perform(runner, step)

    storage.fault = noted
    try:
        with performing(sent):
            lake.load(period=period, endpoint_url=storage.endpoint_url)
    finally:
        storage.close()
    return sorted(before)


@pytest.mark.thorough
def test_no_answer_of_the_storage_is_waited_for_before_the_insert(trips_lake: Lake, chs3_s3: S3Endpoint) -> None:
    trips = Trips(rows_per_period=600, files_per_period=1)
    for period in (FIRST, "2026-10"):
        trips_lake.upload(trips, period)
    found = [asked_before_the_insert(trips_lake, chs3_s3, period) for period in (FIRST, "2026-10")]
    assert found == [["GET", "GET", "HEAD", "HEAD"], []]
    assert_exact(trips_lake, trips)
