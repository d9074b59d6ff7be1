"""One state for each month: which of several is shown."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.ledger.comparison import Standing
from airflow_provider_chs3.core.merges.health import Health
from airflow_provider_chs3.plugin.observation.month_state import Load, MonthState, state_of

NOTHING = (Load.NONE, Health.HEALTHY)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (Standing.UNCHANGED, MonthState.PUBLISHED),
        (Standing.NEW, MonthState.NEVER_LOADED),
        (Standing.UNFINISHED, MonthState.UNFINISHED),
        (Standing.MORE_NODES, MonthState.UNFINISHED),
        (Standing.FEWER_NODES, MonthState.CHANGED),
        (Standing.LEDGER_LOST, MonthState.UNFINISHED),
        (Standing.ROWS_UNKNOWN, MonthState.CHANGED),
        (Standing.TARGET_CHANGED, MonthState.CHANGED),
    ],
)
def test_a_month_of_which_nothing_runs_stands_as_its_ledger_tells(found: Standing, state: MonthState) -> None:
    assert state_of(found, *NOTHING) is state


@pytest.mark.parametrize(
    ("health", "state"),
    [
        (Health.HEALTHY, MonthState.PUBLISHED),
        (Health.SETTLING, MonthState.MERGING),
        (Health.SETTLED_WITH_TOO_MANY_PARTS, MonthState.TOO_MANY_PARTS),
        (Health.STUCK, MonthState.STUCK),
    ],
)
def test_a_published_month_stands_as_its_merges_do(health: Health, state: MonthState) -> None:
    assert state_of(Standing.UNCHANGED, Load.NONE, health) is state


@pytest.mark.parametrize("found", Standing)
@pytest.mark.parametrize("health", Health)
def test_a_load_that_runs_comes_before_all(found: Standing, health: Health) -> None:
    assert state_of(found, Load.RUNNING, health) is MonthState.LOADING


@pytest.mark.parametrize("load", [Load.NONE, Load.FAILED, Load.GONE])
@pytest.mark.parametrize("found", Standing)
def test_stuck_comes_before_what_a_load_mends(found: Standing, load: Load) -> None:
    assert state_of(found, load, Health.STUCK) is MonthState.STUCK


@pytest.mark.parametrize("found", [Standing.NEW, Standing.UNCHANGED])
def test_a_load_that_is_gone_leaves_a_month_unfinished(found: Standing) -> None:
    assert state_of(found, Load.GONE, Health.SETTLING) is MonthState.UNFINISHED


@pytest.mark.parametrize("found", [Standing.NEW, Standing.UNCHANGED, Standing.UNFINISHED])
def test_a_load_that_failed_is_told_as_that(found: Standing) -> None:
    assert state_of(found, Load.FAILED, Health.SETTLING) is MonthState.FAILED


@pytest.mark.parametrize("load", [Load.FAILED, Load.GONE])
def test_rows_of_others_come_before_a_load_that_is_gone(load: Load) -> None:
    assert state_of(Standing.ROWS_UNKNOWN, load, Health.HEALTHY) is MonthState.CHANGED
