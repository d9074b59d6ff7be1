"""One state for each period: which of several is shown."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.core.ledger.period_comparison import Comparison, ComparisonStatus
from airflow_provider_chs3.core.watch.health import Health
from airflow_provider_chs3.plugin.observation.period_state import LastLoad, PeriodState, state_of

NOTHING = (LastLoad.NONE, Health.HEALTHY)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (ComparisonStatus.UNCHANGED, PeriodState.PUBLISHED),
        (ComparisonStatus.NEW, PeriodState.NEVER_LOADED),
        (ComparisonStatus.UNFINISHED, PeriodState.UNFINISHED),
        (ComparisonStatus.MORE_NODES, PeriodState.UNFINISHED),
        (ComparisonStatus.FEWER_NODES, PeriodState.CHANGED),
        (ComparisonStatus.LEDGER_LOST, PeriodState.UNFINISHED),
        (ComparisonStatus.ROWS_UNKNOWN, PeriodState.CHANGED),
        (ComparisonStatus.TARGET_CHANGED, PeriodState.CHANGED),
    ],
)
def test_a_period_of_which_nothing_runs_stands_as_its_ledger_tells(found: ComparisonStatus, state: PeriodState) -> None:
    assert state_of(Comparison(found, (), ""), *NOTHING) is state


@pytest.mark.parametrize(
    ("health", "state"),
    [
        (Health.HEALTHY, PeriodState.PUBLISHED),
        (Health.SETTLING, PeriodState.MERGING),
        (Health.SETTLED_WITH_TOO_MANY_PARTS, PeriodState.TOO_MANY_PARTS),
        (Health.STUCK, PeriodState.STUCK),
    ],
)
def test_a_published_period_stands_as_its_merges_do(health: Health, state: PeriodState) -> None:
    assert state_of(Comparison(ComparisonStatus.UNCHANGED, (), ""), LastLoad.NONE, health) is state


@pytest.mark.parametrize("found", ComparisonStatus)
@pytest.mark.parametrize("health", Health)
def test_a_load_that_runs_comes_before_all(found: ComparisonStatus, health: Health) -> None:
    assert state_of(Comparison(found, (), ""), LastLoad.RUNNING, health) is PeriodState.LOADING


@pytest.mark.parametrize("load", [LastLoad.NONE, LastLoad.FAILED, LastLoad.GONE])
@pytest.mark.parametrize("found", ComparisonStatus)
def test_stuck_comes_before_what_a_load_mends(found: ComparisonStatus, load: LastLoad) -> None:
    assert state_of(Comparison(found, (), ""), load, Health.STUCK) is PeriodState.STUCK


@pytest.mark.parametrize("found", [ComparisonStatus.NEW, ComparisonStatus.UNCHANGED])
def test_a_load_that_is_gone_leaves_a_period_unfinished(found: ComparisonStatus) -> None:
    assert state_of(Comparison(found, (), ""), LastLoad.GONE, Health.SETTLING) is PeriodState.UNFINISHED


@pytest.mark.parametrize("found", [ComparisonStatus.NEW, ComparisonStatus.UNCHANGED, ComparisonStatus.UNFINISHED])
def test_a_load_that_failed_is_told_as_that(found: ComparisonStatus) -> None:
    assert state_of(Comparison(found, (), ""), LastLoad.FAILED, Health.SETTLING) is PeriodState.FAILED


@pytest.mark.parametrize("load", [LastLoad.FAILED, LastLoad.GONE])
def test_rows_of_others_come_before_a_load_that_is_gone(load: LastLoad) -> None:
    assert state_of(Comparison(ComparisonStatus.ROWS_UNKNOWN, (), ""), load, Health.HEALTHY) is PeriodState.CHANGED
