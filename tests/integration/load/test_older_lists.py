"""A load that sleeps with its list of objects while another one, which listed later, publishes more of them."""

from __future__ import annotations

import pytest

from tests.support import deferring
from tests.support.several_periods import PERIODS, Periods, periods
from tests.support.strikes import Strikes, strikes

__all__ = ["periods", "strikes"]

PERIOD = "2026-08"
#: A load has listed before these steps, and has no staging yet by which another one would end it.
MOMENTS = (
    "Look up 2026-",
    "Look at nodes and files",
    "Look for what attempts left",
    "Create staging",
)


def publish_more_before(step: str, periods: Periods, strikes: Strikes) -> list[str]:
    """Have a file come, and another load publish it, before a step; its status follows."""
    done: list[str] = []

    def later() -> None:
        strikes.reset()
        periods.put(PERIOD, "later", rows=7)
        done.append(periods.load_one(PERIOD))

    strikes.before(step, later)
    return done


def publish_and_add(periods: Periods) -> None:
    periods.load_one(PERIOD)
    periods.put(PERIOD, "c")


@pytest.mark.thorough
@pytest.mark.parametrize("is_increment", [False, True])
@pytest.mark.parametrize("step", MOMENTS)
def test_it_lists_again(periods: Periods, strikes: Strikes, step: str, is_increment: bool) -> None:
    periods.load_one(PERIODS[0])
    if is_increment:
        publish_and_add(periods)
    done = publish_more_before(step, periods, strikes)
    assert (periods.load_one(PERIOD), done) == ("unchanged", ["published"])
    assert periods.found()[PERIOD] == periods.rows[PERIOD]
    assert periods.load_one(PERIOD) == "unchanged"


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["Look up 2026-", "Create staging"])
def test_so_does_one_that_goes_on_without_its_process(periods: Periods, strikes: Strikes, step: str) -> None:
    periods.load_one(PERIODS[0])
    done = publish_more_before(step, periods, strikes)
    result = deferring.finish(periods.lake, period=PERIOD, key="n/{YYYY-MM}/")
    assert (result["status"], done) == ("unchanged", ["published"])
    assert periods.found()[PERIOD] == periods.rows[PERIOD]


@pytest.mark.thorough
@pytest.mark.parametrize("step", MOMENTS)
def test_so_does_one_of_several_periods(periods: Periods, strikes: Strikes, step: str) -> None:
    periods.load_one(PERIODS[0])
    done = publish_more_before(step, periods, strikes)
    statuses = periods.statuses()
    assert (statuses.pop(PERIOD), done) == ("unchanged", ["published"])
    assert sorted(statuses.values()) == ["published", "published", "unchanged"]
    assert periods.found() == periods.expected()


def test_a_period_that_seems_to_have_shrunk_is_listed_again(periods: Periods, strikes: Strikes) -> None:
    publish_and_add(periods)

    def later() -> None:
        strikes.reset()
        periods.put(PERIOD, "many", rows=4000)
        periods.load_one(PERIOD)

    strikes.before("Look up 2026-", later)
    assert periods.load_one(PERIOD) == "unchanged"
    assert periods.found()[PERIOD] == periods.rows[PERIOD]
    assert set(periods.statuses(*PERIODS).values()) == {"published", "unchanged"}


@pytest.mark.thorough
def test_so_does_the_first_load_of_all(periods: Periods, strikes: Strikes) -> None:
    done = publish_more_before("Look up 2026-", periods, strikes)
    assert (periods.load_one(PERIOD), done) == ("unchanged", ["published"])
    assert periods.found()[PERIOD] == periods.rows[PERIOD]
