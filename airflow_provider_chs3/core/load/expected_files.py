"""Insert files as the last loads read theirs, and inspect them meanwhile: if they differ, the insert is void."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.load.end_attempts import end_queries
from airflow_provider_chs3.core.load.insert import Inserted, explain, insert
from airflow_provider_chs3.core.load.insert_plan import read_files
from airflow_provider_chs3.core.load.new_columns import settle_new_columns
from airflow_provider_chs3.core.load.planning import Planned
from airflow_provider_chs3.core.load.resume import DoneInsert
from airflow_provider_chs3.core.steps.operations import Gather, Log, Sleep, Steps
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseServerError, FilesDifferError


@dataclass
class _Running:
    """An insert that runs while its files are inspected."""

    has_ended: bool = False


def insert_as_expected(
    planned: Planned, record: Callable[[Sequence[DoneInsert], str], Steps[None]]
) -> Steps[tuple[Planned, Inserted]]:
    """Insert into staging by the expected plan, and inspect the files at the same time.

    Returns:
        The periods with the plan of their files, which the insert has followed.

    Raises:
        FilesDifferError: If the files require another plan. The insert has been ended.
        Chs3Error: As in `plan_objects` and `insert`; errors of the files come first.
    """
    load, running = planned.load, _Running()
    yield from Log(name="Expecting files like those of the last loads, and checking them during the insert.")
    both = (_read_files(planned, running), _try_insert(planned, record, running))
    reading, done = yield from Gather(name="Look at the files, and insert", workflows=both)
    planned = planned.with_reading(reading)
    if isinstance(done, Inserted):
        return planned, done
    if isinstance(done, ClickHouseServerError):
        yield from explain(load, planned.plan, done)
    raise done


def _read_files(planned: Planned, running: _Running) -> Steps[Reading]:
    load = planned.load
    try:
        reading: Reading = yield from read_files(load)
        others = reading.of_others
        if others is None or others.as_text != planned.plan.reading.as_text:
            raise FilesDifferError(
                f"The files of {load.periods} have other columns or types than those of the last loads."
            )
        yield from settle_new_columns(load, reading)
    except Chs3Error:
        yield from _end_insert(planned, running)
        raise
    return reading


def _end_insert(planned: Planned, running: _Running) -> Steps[None]:
    """End the insert, even if it has not been sent yet."""
    try:
        while not running.has_ended:
            yield from end_queries(planned.load.context, planned.load.attempt)
            yield from Sleep(name="Wait for the insert to end", seconds=1)
    except Chs3Error as error:
        yield from Log(name=f"The insert could not be ended, so it is waited for. ({error})")


def _try_insert(
    planned: Planned, record: Callable[[Sequence[DoneInsert], str], Steps[None]], running: _Running
) -> Steps[Inserted | Chs3Error]:
    """Insert, and return an error instead of raising it: it counts only if the files are as expected."""
    load = planned.load
    try:
        return (yield from insert(load, planned.plan, record=record, explains=False))
    except Chs3Error as error:
        return error
    finally:
        running.has_ended = True
