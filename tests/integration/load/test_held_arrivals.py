"""Arrivals that fail a check are held as a whole, and published or dropped as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_chs3.operators.held import ApprovePeriodsOperator, DiscardPeriodsOperator
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from tests.support.arrivals import Arrivals, arrivals, by_object, touched
from tests.support.held_arrivals import CHECKED, NOT_MANY, approve, hold
from tests.support.holds import run
from tests.support.lake import Lake
from tests.support.strikes import Strikes, strikes

__all__ = ["arrivals", "by_object", "strikes"]


def held_periods(arrivals: Arrivals) -> list[int]:
    listed = arrivals.operator(10).on_connection().list_periods()
    return [int(str(period.period)[-2:]) for period in listed if period.state.startswith("held since")]


def discard(arrivals: Arrivals, *days: int) -> list[dict[str, Any]]:
    lake, periods = arrivals.lake, [f"2026-11-{day:02}" for day in days]
    return DiscardPeriodsOperator(task_id="discard", periods=periods, **lake.target).execute({})


@pytest.fixture
def half_held(arrivals: Arrivals) -> Iterator[Arrivals]:
    """Hold an arrival of which one of two periods fails a check."""
    arrivals.put(8, "a", 0, [9])
    arrivals.load(8)
    arrivals.put(10, "b", 50, [10])
    arrivals.write(
        10, "c", [(at.replace(day=9), row) for row, (at, _) in enumerate(arrivals.objects["raw/2026-11-10/b"])]
    )
    published = arrivals.found()
    hold(arrivals, 10)
    assert arrivals.found() == published
    assert held_periods(arrivals) == [9, 10]
    yield arrivals
    discard(arrivals, 9, 10, 4)


def test_an_arrival_is_held_as_a_whole_until_it_is_discarded_or_approved(half_held: Arrivals) -> None:
    discarded = discard(half_held, 10)
    assert [(period["period"], period["was_held"]) for period in discarded] == [
        ("2026-11-09", True),
        ("2026-11-10", True),
    ]
    assert half_held.lake.left_behind() == []
    hold(half_held, 10)
    assert held_periods(half_held) == [9, 10]
    hold(half_held, 10, says="held since 20.* UTC: with arrival 2026-11-10; 2026-11-09, checks failed: no_tests")
    plan = PlanLoadsOperator(task_id="plan", periods=["2026-11-10"], load=half_held.operator(10, **CHECKED).as_load())
    (planned,) = plan.planned({})
    assert (planned.is_to_load, str(planned.reason).partition(" UTC: ")[2][:24]) == (False, "with arrival 2026-11-10;")
    (approved,) = approve(half_held, 10)
    assert (approved["status"], touched(approved)) == ("published", [9, 10])
    half_held.assert_exact()
    assert held_periods(half_held) == []
    assert half_held.load(10, **CHECKED)["status"] == approve(half_held, 10)[0]["status"] == "unchanged"


@pytest.mark.thorough
def test_other_arrivals_are_published_meanwhile(half_held: Arrivals) -> None:
    """Their rows are in what the approval, here by the conf of a run, publishes."""
    half_held.put(11, "d", 500, [11, 9])
    assert touched(half_held.load(11, **CHECKED)) == [9, 11]
    assert held_periods(half_held) == [9, 10]
    hold(half_held, 10, says="held since")
    lake = half_held.lake
    asked = {"database": lake.database, "table": lake.table, "periods": ["2026-11-10"], "approve": True}
    result = half_held.operator(10, **CHECKED).execute(run({"chs3_reload": asked}))
    assert touched(result) == [9, 10]
    half_held.assert_exact()


@pytest.mark.thorough
def test_an_approval_takes_the_load_and_the_objects_that_were_held(half_held: Arrivals) -> None:
    published = half_held.found()
    with pytest.raises(AirflowFailException, match="cannot be approved: its objects, or the load's arguments"):
        approve(half_held, 10, select={"at": "at", "number": "number + 1"})
    load = half_held.operator(10, on_other_periods="fail").as_load()
    with pytest.raises(AirflowFailException, match=r"held with all rows of arrival 2026-11-10\. Approve that arrival"):
        ApprovePeriodsOperator(task_id="approve", load=load, periods=["2026-11-09"]).execute({})
    half_held.put(9, "e", 700, [9])
    with pytest.raises(AirflowFailException, match="2026-11-09 cannot be approved: nothing of this arrival is held"):
        approve(half_held, 9)
    half_held.delete(9, "e")
    changed = "2026-11-10 cannot be approved: its objects, or the load's argum"
    half_held.put(10, "further", 900, [10, 4])
    with pytest.raises(AirflowFailException, match=changed):
        approve(half_held, 10)
    hold(half_held, 10)
    assert held_periods(half_held) == [4, 9, 10]
    half_held.put(10, "c", 300, [10, 4])
    with pytest.raises(AirflowFailException, match=changed):
        approve(half_held, 10)
    assert half_held.found() == published
    assert touched(half_held.load(10, **CHECKED)) == [4, 10]
    assert held_periods(half_held) == []
    half_held.assert_exact()


@pytest.mark.thorough
def test_what_shrank_is_held_with_all_periods_of_its_arrival(by_object: Arrivals) -> None:
    by_object.put(10, "a", 0, [10, 9], rows=20)
    by_object.load(10)
    by_object.put(10, "a", 0, [10, 7])
    shrank = {"on_shrink": "hold"}
    with pytest.raises(
        AirflowSkipException, match="arrival 2026-11-10; 2026-11-07 and 2 more, the loaded objects of 2026-11-10 shr"
    ):
        by_object.load(10, **shrank)
    assert held_periods(by_object) == [7, 9, 10]
    load = by_object.operator(10, **shrank).as_load()
    approved = ApprovePeriodsOperator(task_id="approve", load=load, periods=["2026-11-10"]).execute({})
    assert touched(approved[0]) == [7, 9, 10]
    by_object.assert_exact()


@pytest.mark.thorough
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "step", ["Take the rows of 2026-11-10 out of", "Record 2026-11-09 and 1 more as held", "Publish 2026-11-09"]
)
def test_a_worker_dies_as_an_arrival_is_held_or_approved(
    arrivals: Arrivals, strikes: Strikes, step: str, when: str
) -> None:
    arrivals.put(8, "a", 0, [9])
    arrivals.load(8)
    arrivals.put(10, "b", -900, [10, 9])

    def decide() -> None:
        hold(arrivals, 10)
        approve(arrivals, 10)

    strikes.die(when, step, decide)
    if not step.startswith("Publish"):
        hold(arrivals, 10, says="arrival 2026-11-10; 2026-11-09")
        assert held_periods(arrivals) == [9, 10]
        approve(arrivals, 10)
    else:
        assert arrivals.load(10, **CHECKED)["status"] in ("published", "unchanged")
    arrivals.assert_exact()
    assert held_periods(arrivals) == []


@pytest.fixture
def by_month(lake: Lake) -> Arrivals:
    """Hold an arrival of a table by month; all others have rows of that month, too."""
    arrivals = Arrivals(lake, key="toYYYYMM(at)")
    arrivals.create()
    arrivals.put(9, "a", 0, [9])
    arrivals.load(9)
    arrivals.put(10, "b", 100, [10, 9], rows=3)
    hold(arrivals, 10, says="held, the table is unchanged: with arrival 2026-11-10; 2026-11, checks", **NOT_MANY)
    return arrivals


@pytest.mark.thorough
def test_arrivals_of_the_same_period_leave_one_held(by_month: Arrivals) -> None:
    by_month.put(11, "c", 5000, [11])
    assert by_month.load(11, **CHECKED)["status"] == "published"
    table = by_month.operator(10).on_connection()
    (listed,) = table.list_periods()
    assert ("with arrival 2026-11-10" in listed.state, listed.is_as_published) == (True, False)
    hold(by_month, 10, says="held since 20.* UTC: with arrival 2026-11-10", **NOT_MANY)
    approve(by_month, 10, **NOT_MANY)
    by_month.assert_exact()
    assert [period.is_as_published for period in table.list_periods()] == [True]


@pytest.mark.thorough
@pytest.mark.parametrize("order", [(10, 11), (11, 10)])
def test_several_arrivals_are_held_of_one_period_and_discarded_by_it(
    by_month: Arrivals, order: tuple[int, int]
) -> None:
    by_month.put(11, "c", 5000, [11, 8, -20], rows=3)
    hold(by_month, 11, says="held, the table is unchanged: with arrival 2026-11-11", **NOT_MANY)
    lake = by_month.lake
    discarded = DiscardPeriodsOperator(task_id="discard", periods=["2026-11"], **lake.target).execute({})
    assert [(period["period"], period["was_held"]) for period in discarded] == [("2026-10", True), ("2026-11", True)]
    for arrival in (10, 11):
        with pytest.raises(AirflowFailException, match="nothing of this arrival is held"):
            approve(by_month, arrival, **NOT_MANY)
        hold(by_month, arrival, says=f"held, the table is unchanged: with arrival 2026-11-{arrival}", **NOT_MANY)
    for arrival in order:
        hold(by_month, arrival, says=f"held since 20.* UTC: with arrival 2026-11-{arrival}", **NOT_MANY)
        approve(by_month, arrival, **NOT_MANY)
    by_month.assert_exact()
    assert [by_month.load(arrival)["status"] for arrival in (9, 10, 11)] == ["unchanged"] * 3
