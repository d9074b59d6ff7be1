"""Several months in one load, while others load one of them, and killed at any step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import ClickHouseServerError
from tests.faults.strikes import Strikes, strikes
from tests.integration.several_months import MONTHS, Months, months

__all__ = ["months", "strikes"]

#: A later load of one month comes after these steps of a load of several.
MOMENTS = (
    "Record that",
    "Insert ",
    "Count what is staged",
    "Create staging",
    "Take the rows",
    "Record the intent",
    "Publish ",
    "Record 2026-07 as published",
)


def error_of(months: Months) -> str:
    try:
        months.load()
    except AirflowFailException as error:
        return str(error)
    return ""


@pytest.mark.parametrize("step", MOMENTS)
def test_a_later_load_of_one_month_is_not_ended_and_the_others_are_published(
    months: Months, strikes: Strikes, step: str
) -> None:
    done: list[str] = []

    def later() -> None:
        strikes.reset()
        months.put("2026-08", "c")
        done.append(months.load_one("2026-08"))

    strikes.after(step, later)
    told = error_of(months)
    assert not told or ("1 of 4 months failed" in told and "2026-08: Another load" in told)
    assert done == ["published"]
    assert months.found() == months.expected()


def test_an_earlier_load_of_one_month_is_ended(months: Months, strikes: Strikes) -> None:
    statuses: dict[str, str] = {}

    def later() -> None:
        strikes.reset()
        statuses.update(months.statuses())

    strikes.before("Publish ", later)
    with pytest.raises(AirflowFailException, match="Another load"):
        months.load_one("2026-08")
    assert set(statuses.values()) == {"published"}
    assert months.found() == months.expected()


def test_an_insert_that_somebody_kills_fails_all_months(months: Months, strikes: Strikes) -> None:
    def kill() -> None:
        raise ClickHouseServerError(394, "QUERY_WAS_CANCELLED", "Query was cancelled", "h:1")

    strikes.before("Insert ", kill)
    with pytest.raises(AirflowFailException, match="Somebody ended the query"):
        months.load()
    strikes.reset()
    assert months.found() == {}
    assert set(months.statuses().values()) == {"published"}


class KilledError(BaseException):
    """The worker is gone: nothing is cleaned up."""


@contextmanager
def dying() -> Iterator[None]:
    raise KilledError
    yield


@pytest.mark.thorough
@pytest.mark.parametrize("share", range(4))
def test_killed_before_any_step_the_next_run_mends_all_months(months: Months, strikes: Strikes, share: int) -> None:
    months.load()
    for number in count(share, 4):
        for month in MONTHS[number % 2 :: 2]:
            months.put(month, f"more{number}", rows=3)
        strikes.reset()
        strikes.around_one(number, lambda _: True, dying)
        try:
            months.load()
        except KilledError:
            strikes.reset()
            assert set(months.statuses().values()) <= {"published", "unchanged"}
            assert months.found() == months.expected()
        else:
            break
    assert number > 80
    assert months.found() == months.expected()
