"""Insert by the plan that earlier loads give, and look at the files meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.files.file_set import Reading
from airflow_provider_chs3.core.load.end_attempts import end_queries
from airflow_provider_chs3.core.load.insert import explain, insert
from airflow_provider_chs3.core.load.period_load import PeriodLoad, Periods
from airflow_provider_chs3.core.load.planning import plan_of, read_files, settle_new_columns
from airflow_provider_chs3.core.load.resume import DoneInsert
from airflow_provider_chs3.core.steps.operations import Gather, Log, Sleep, Steps
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, FilesDifferError


@dataclass
class _Running:
    """An insert that runs while its files are inspected."""

    has_ended: bool = False


def insert_as_expected(
    load: PeriodLoad, periods: Periods, record: Callable[[Sequence[DoneInsert], str], Steps[None]]
) -> Steps[tuple[PeriodLoad, tuple[DoneInsert, ...]]]:
    """Insert into staging by the expected plan, and inspect the files at the same time; their errors come first.

    The load and the periods get the plan of their files; if that is another one, the insert is ended with an error.
    """
    running = _Running()
    yield from Log(name="Expecting files like those of the last loads, and checking them during the insert.")
    both = (_read_files(load, running), _try_insert(load, record, running))
    reading, done = yield from Gather(name="Look at the files, and insert", workflows=both)
    load = replace(load, plan=replace(load.planned, reading=reading, is_expected=False))
    periods.update(lambda item: replace(item, plan=plan_of(load, item)))
    if isinstance(done, ClickHouseServerError):
        yield from explain(load, done)
    if isinstance(done, Chs3Error):
        raise done
    return load, done


def _read_files(load: PeriodLoad, running: _Running) -> Steps[Reading]:
    try:
        reading: Reading = yield from read_files(load)
        others = reading.of_others
        if others is None or others.as_text != load.planned.reading.as_text:
            raise FilesDifferError(
                f"The files of {load.periods} have other columns or types than those of the last loads."
            )
        yield from settle_new_columns(load, reading)
    except Chs3Error:
        yield from _end_insert(load, running)
        raise
    return reading


def _end_insert(load: PeriodLoad, running: _Running) -> Steps[None]:
    """End the insert, even if it has not been sent yet."""
    try:
        while not running.has_ended:
            yield from end_queries(load.context, load.attempt)
            yield from Sleep(name="Wait for the insert to end", seconds=1)
    except Chs3Error as error:
        yield from Log(name=f"The insert could not be ended, so it is waited for. ({error})")


def _try_insert(
    load: PeriodLoad, record: Callable[[Sequence[DoneInsert], str], Steps[None]], running: _Running
) -> Steps[tuple[DoneInsert, ...] | Chs3Error]:
    """Insert, and return an error instead of raising it: it counts only if the files are as expected."""
    try:
        return (yield from insert(load, record=record, explains=False))
    except Chs3Error as error:
        return error
    finally:
        running.has_ended = True
