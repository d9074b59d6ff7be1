"""Publications that keep versions, and restores, that die at any step; the next run makes it good."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_chs3.operators.ledger import ListLedgerOperator
from tests.faults.interposing import interposed
from tests.support.days import Days
from tests.support.killing import Strike, steps_of, strikes_after, strikes_amid
from tests.support.lake import Lake

#: They kill, or interpose, at each of some twenty steps.
pytestmark = pytest.mark.timeout(1800)

_NUMBERS = count()


@pytest.fixture
def days(lake: Lake) -> Days:
    found = Days(lake)
    found.create()
    return found


def two_nights(days: Days) -> tuple[list[int], list[int]]:
    """Two nights of other rows, and their rows."""
    first = 1000 * next(_NUMBERS)
    nights = [range(first, first + 30), range(first + 10, first + 60)]
    for night in nights:
        days.night(night)
    return [*nights[0]], [*nights[1]]


def strikes(days: Days, run: Callable[[], Any]) -> list[Strike]:
    steps = steps_of(run)
    return [*strikes_after(steps), *strikes_amid(steps)]


@pytest.mark.three_nodes
@pytest.mark.thorough
def test_a_restore_that_died_at_any_step_is_repeated(days: Days) -> None:
    two_nights(days)
    for strike in strikes(days, days.restore):
        print(f"Killed at {strike}")  # shown where it fails
        days.unpin()
        earlier, _ = two_nights(days)
        strike.kill_in(days.restore)
        days.restore()
        assert days.values() == earlier
        with pytest.raises(AirflowSkipException, match="pinned since"):
            days.load()
        assert days.lake.left_behind() == []


@pytest.mark.three_nodes
@pytest.mark.thorough
def test_the_night_after_a_restore_that_died_is_exact(days: Days) -> None:
    two_nights(days)
    for strike in strikes(days, days.restore):
        print(f"Killed at {strike}")  # shown where it fails
        days.unpin()
        earlier, later = two_nights(days)
        strike.kill_in(days.restore)
        try:
            days.load()
        except AirflowSkipException:
            assert days.values() == earlier
            assert days.lake.left_behind() == []
        else:
            assert days.values() == later
            days.restore()
            assert days.values() == earlier


@pytest.mark.three_nodes
@pytest.mark.thorough
def test_a_load_that_died_at_any_step_leaves_the_version_to_restore(days: Days) -> None:
    two_nights(days)
    days.put(range(70))
    for strike in strikes(days, days.load):
        print(f"Killed at {strike}")  # shown where it fails
        first = 1000 * next(_NUMBERS)
        days.night(range(first, first + 40))
        days.put(range(first + 20, first + 90))
        strike.kill_in(days.load)
        days.load()
        assert days.values() == [*range(first + 20, first + 90)]
        days.restore()
        assert days.values() == [*range(first, first + 40)]
        days.unpin()
        assert days.lake.left_behind() == []


@pytest.mark.thorough
@pytest.mark.parametrize("outer", ["load", "restore", "restores"])
def test_of_two_at_once_one_wins_and_the_ledger_says_which(days: Days, outer: str) -> None:
    for number in count():
        days.unpin()
        first = 1000 * next(_NUMBERS)
        nights = [range(first + 10 * night, first + 20 * night + 40) for night in range(3)]
        rows = {days.night(values, keep=2)["attempt"]: values for values in nights}
        days.put(loaded := range(first + 30, first + 110))
        load, *restores = (
            partial(days.load, keep=2),
            *(partial(days.restore, version=version) for version in list(rows)[:2]),
        )
        one, other = {"load": (load, restores[0]), "restore": (restores[0], load), "restores": restores}[outer]
        done = interposed(one, other, number)
        if len(done) == 1:
            break
        assert any(done)
        (listed,) = days.of(ListLedgerOperator)
        pinned = re.search("who restored version (\\w+);", listed["state"])
        assert days.values() == [*(rows[pinned[1]] if pinned else loaded)], listed["state"]
        assert listed["is_as_published"]
        assert days.lake.left_behind() == []
    assert number > 5
