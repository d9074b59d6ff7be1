"""Tables that are partitioned by hour, day, week, month, quarter or year, or not at all."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from tests.integration.grains import CASES, Case, Source, source
from tests.support.lake import Lake

__all__ = ["source"]


@pytest.fixture(params=[case for case in CASES if case.second], ids=str)
def two_periods(lake: Lake, request: pytest.FixtureRequest) -> Source:
    source = Source(lake, request.param)
    for number, period in enumerate((source.case.first, source.case.second)):
        source.put(period, "a", 1000 * number)
    return source


def plan(source: Source, *, start: datetime | None = None, end: datetime | None = None, **options: Any) -> list[str]:
    """Return the periods that a plan finds."""
    lake = source.lake
    operator = PlanLoadsOperator(
        **{"task_id": "plan", "bucket": lake.bucket, "key": source.pattern, "timezone": "UTC"},
        **(lake.target | options),
    )
    run = SimpleNamespace(partition_key=None, data_interval_start=start, data_interval_end=end)
    return operator.execute({"dag_run": run})


@pytest.mark.thorough(but=1)
def test_a_period_holds_the_rows_of_its_objects(source: Source) -> None:
    first, second = source.case.first, source.case.second
    periods = [each for each in (first, second) if each]
    for number, period in enumerate(periods):
        source.put(period, "a", 1000 * number)
    assert source.load(period=first) == ["published"]
    source.assert_exact(first)
    assert source.load(period=first) == ["unchanged"]
    if second:
        assert source.load(period=second) == ["published"]
        source.assert_exact(first, second)
    source.put(first, "a", 5000)  # overwritten
    allowed = {} if second else {"reload_whole_table": True}
    assert source.load(period=first, **allowed) == ["published"]
    source.assert_exact(*periods)
    source.put(first, "b", 7000)  # added
    assert source.load(period=first) == ["published"]
    source.assert_exact(*periods)
    assert source.lake.left_behind() == []


@pytest.mark.thorough
def test_a_row_of_another_period_is_refused(two_periods: Source) -> None:
    source, case = two_periods, two_periods.case
    source.load(periods=[case.first, case.second])
    source.put_stray(case.first, case.second)
    with pytest.raises(AirflowFailException, match="rows of other periods"):
        source.load(period=case.first)
    with pytest.raises(AirflowFailException, match="rows of other periods"):
        source.load(periods=[case.first, case.second])
    source.assert_exact(case.first, case.second)


@pytest.mark.thorough
def test_a_plan_finds_the_periods(two_periods: Source) -> None:
    source, both = two_periods, [two_periods.case.first, two_periods.case.second]
    second = Period.parse(both[1])
    assert plan(source, all_periods=True) == both
    assert plan(source, lookback=2, last_period=both[1]) == both
    assert plan(source, start=second.begin.replace(tzinfo=UTC), end=second.end.replace(tzinfo=UTC)) == both[1:]
    source.load(periods=plan(source, lookback=1, last_period=both[1]))
    source.assert_exact(*both)
    assert plan(source, all_periods=True) == []
    source.put(both[0], "a", 7000)  # overwritten
    assert (
        plan(source, lookback=2, start=second.begin.replace(tzinfo=UTC), end=second.end.replace(tzinfo=UTC)) == both[:1]
    )


@pytest.mark.thorough
def test_a_plan_of_a_whole_table_is_one_period(lake: Lake) -> None:
    source = Source(lake, CASES[-1])
    source.put("all", "a", 1)
    at = datetime(2026, 10, 5, tzinfo=UTC)
    assert plan(source, all_periods=True) == ["all"]
    assert plan(source, lookback=2, start=at, end=at) == ["all"]
    source.load(periods=["all"])
    source.assert_exact("all")
    assert plan(source, all_periods=True) == []


def test_periods_of_several_lengths_are_refused(lake: Lake) -> None:
    source = Source(lake, Case("toDate(at)", "{YYYY-MM-DD}", "2026-10-31"))
    source.put("2026-10-31", "a", 1)
    for options in ({"periods": ["2026-10-31", "2026-10"]}, {"periods": ["all", "2026-10-31"]}):
        with pytest.raises(AirflowFailException, match="Periods of one load have one length, and these are by"):
            source.load(**options)
        with pytest.raises(AirflowFailException, match="Periods of one load have one length, and these are by"):
            plan(source, **options)
    source.assert_exact()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("key", "grain", "why"),
    [
        ("toMonth(at)", "month", "shares a partition with other months"),
        ("toISOWeek(at)", "week", "shares a partition with other weeks"),
        ("toQuarter(at)", "quarter", "shares a partition with other quarters"),
        ("toHour(at)", "hour", "shares a partition with other hours"),
        ("zone", "month", "a part of it must depend on a Date or DateTime column alone"),
        ("(toYYYYMM(at), toDate(until))", "month", "and the others on no such column"),
    ],
)
def test_a_key_that_comes_back_or_has_other_columns_is_refused(lake: Lake, key: str, grain: str, why: str) -> None:
    source = Source(lake, Case(key, "{YYYY-MM}", "2026-10"), columns="zone String, until DateTime")
    source.put("2026-10", "a", 1)
    with pytest.raises(AirflowFailException, match=rf"is not partitioned by {grain} \(its key is .* {why}"):
        plan(source, all_periods=True)
    with pytest.raises(AirflowFailException, match=r"is not partitioned by month \(its key is "):
        source.load(period="2026-10")
    with pytest.raises(AirflowFailException, match=r"is not partitioned by month \(its key is "):
        source.load(periods=["2026-09", "2026-10"])
    if key == "zone":
        with pytest.raises(AirflowFailException, match=r"create it .* with PARTITION BY \(zone, toYYYYMM\(`?at`?\)\)"):
            source.load(period="all")
    source.assert_exact()
