"""A load that sleeps with its list of objects while another one, which listed later, publishes more of them."""

from __future__ import annotations

import pytest

from tests.faults.strikes import Strikes, strikes
from tests.integration import deferring
from tests.integration.several_months import MONTHS, Months, months

__all__ = ["months", "strikes"]

MONTH = "2026-08"
#: A load has listed before these steps, and has no staging yet by which another one would end it.
MOMENTS = (
    "Look up 2026-",
    "Look at nodes and files",
    "Look for what attempts left",
    "Create staging",
)


def publish_more_before(step: str, months: Months, strikes: Strikes) -> list[str]:
    """Have a file come, and another load publish it, before a step; its status follows."""
    done: list[str] = []

    def later() -> None:
        strikes.reset()
        months.put(MONTH, "later", rows=7)
        done.append(months.load_one(MONTH))

    strikes.before(step, later)
    return done


def publish_and_add(months: Months) -> None:
    months.load_one(MONTH)
    months.put(MONTH, "c")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("is_increment", [False, True])
@pytest.mark.parametrize("step", MOMENTS)
def test_it_lists_again(months: Months, strikes: Strikes, step: str, is_increment: bool) -> None:
    months.load_one(MONTHS[0])
    if is_increment:
        publish_and_add(months)
    done = publish_more_before(step, months, strikes)
    assert (months.load_one(MONTH), done) == ("unchanged", ["published"])
    assert months.found()[MONTH] == months.rows[MONTH]
    assert months.load_one(MONTH) == "unchanged"


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("step", ["Look up 2026-", "Create staging"])
def test_so_does_one_that_goes_on_without_its_process(months: Months, strikes: Strikes, step: str) -> None:
    months.load_one(MONTHS[0])
    done = publish_more_before(step, months, strikes)
    result = deferring.finish(months.lake, month=MONTH, key="n/{YYYY-MM}/")
    assert (result["status"], done) == ("unchanged", ["published"])
    assert months.found()[MONTH] == months.rows[MONTH]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("step", MOMENTS)
def test_so_does_one_of_several_months(months: Months, strikes: Strikes, step: str) -> None:
    months.load_one(MONTHS[0])
    done = publish_more_before(step, months, strikes)
    statuses = months.statuses()
    assert (statuses.pop(MONTH), done) == ("unchanged", ["published"])
    assert sorted(statuses.values()) == ["published", "published", "unchanged"]
    assert months.found() == months.expected()


def test_a_month_that_seems_to_have_shrunk_is_listed_again(months: Months, strikes: Strikes) -> None:
    publish_and_add(months)

    def later() -> None:
        strikes.reset()
        months.put(MONTH, "many", rows=4000)
        months.load_one(MONTH)

    strikes.before("Look up 2026-", later)
    assert months.load_one(MONTH) == "unchanged"
    assert months.found()[MONTH] == months.rows[MONTH]
    assert set(months.statuses(*MONTHS).values()) == {"published", "unchanged"}


def test_so_does_the_first_load_of_all(months: Months, strikes: Strikes) -> None:
    done = publish_more_before("Look up 2026-", months, strikes)
    assert (months.load_one(MONTH), done) == ("unchanged", ["published"])
    assert months.found()[MONTH] == months.rows[MONTH]
