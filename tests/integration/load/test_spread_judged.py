"""Arrivals look at the periods that hold their rows, whatever others did to these."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import NotReadyError
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from tests.support.arrivals import BY_ARRIVAL, Arrivals, arrivals, touched
from tests.support.ledger_tasks import adopt
from tests.support.strikes import Strikes, strikes

__all__ = ["arrivals", "strikes"]


@pytest.fixture
def two(arrivals: Arrivals) -> Arrivals:
    """Load two arrivals that have rows of the same day."""
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.put(11, "b", 50, [9])
    arrivals.load(10)
    arrivals.load(11)
    return arrivals


@pytest.mark.thorough
def test_a_period_that_was_forgotten_is_read_again_whole(two: Arrivals) -> None:
    table = two.operator(10).on_connection()
    table.forget(["2026-11-09"])
    two.put(12, "c", 70, [12, 9])
    with pytest.raises(AirflowFailException, match="the partition holds rows that no load wrote"):
        two.load(12)
    assert two.load(12, replace_unknown=True)["status"] == "published"
    two.assert_exact()
    two.change("ALTER TABLE {} DROP PARTITION '2026-11-09'")
    table.forget(["2026-11-09"])
    two.put(13, "d", 90, [9])
    assert two.load(13, replace_unknown=True)["status"] == "published"
    two.assert_exact()
    assert two.load(10)["status"] == "unchanged"


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("change", ["DROP PARTITION '2026-11-09'", "DELETE WHERE number = 900"])
def test_a_period_that_somebody_changed_is_found_by_its_arrivals(two: Arrivals, change: str) -> None:
    def planned(policy: str) -> list[tuple[str, str]]:
        load = two.operator(10, on_target_changed=policy).as_load()
        plan = PlanLoadsOperator(task_id="plan", periods=["2026-11-10"], load=load).planned({})
        return [(found.to_do, str(found.reason)) for found in plan]

    two.change(f"ALTER TABLE {{}} {change}")
    ((to_do, reason),) = planned("fail")
    assert to_do == "blocked"
    assert reason.startswith("its load will stop: 2026-11-09: the partition was changed since it was published")
    assert planned("reload") == [("load", "2026-11-09 not as published")]
    with pytest.raises(AirflowFailException, match="was changed since it was published"):
        two.load(10)
    assert touched(two.load(10, on_target_changed="reload")) == [9]
    two.assert_exact()
    assert two.load(10)["status"] == two.load(11)["status"] == "unchanged"


@pytest.mark.thorough
def test_another_definition_reads_the_periods_of_the_arrival_again(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [9])
    arrivals.load(10)
    select = {"at": "at", "number": "toInt64(number) + 1000000"}
    assert touched(arrivals.load(10, select=select)) == [9]
    assert [number for _, number in arrivals.found()] == [number + 1_000_000 for _, number in arrivals.expected()]
    assert arrivals.load(10, select=select)["status"] == "unchanged"


@pytest.mark.thorough
def test_a_restored_period_takes_rows_again_once_it_is_not_pinned(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [9])
    arrivals.load(10, keep_versions=1)
    arrivals.put(11, "b", 50, [9])
    arrivals.load(11, keep_versions=1)
    table = arrivals.operator(10).on_connection()
    table.restore(["2026-11-09"], by="a test")
    assert arrivals.load(11)["status"] == "unchanged"
    arrivals.put(12, "c", 70, [9])
    with pytest.raises(AirflowFailException, match="pinned since"):
        arrivals.load(12)
    table.unpin(["2026-11-09"])
    arrivals.load(12)
    assert arrivals.found() == arrivals.expected()


@pytest.mark.thorough
def test_an_arrival_whose_objects_are_all_gone_is_no_quiet_night(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [9])
    arrivals.load(10)
    rows = arrivals.found()
    arrivals.delete(10, "a")
    with pytest.raises((AirflowFailException, NotReadyError)):
        arrivals.load(10, on_deleted_objects="remove")
    assert arrivals.found() == rows
    arrivals.load(10, on_deleted_objects="remove", on_no_objects="empty", max_shrink_fraction=1)
    arrivals.assert_exact()


@pytest.mark.thorough
def test_objects_of_a_load_by_period_are_read_again_with_all_of_their_rows(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.put(11, "b", 50, [11, 10])
    arrivals.load(10, on_other_periods="leave_out")
    arrivals.load(11, on_other_periods="leave_out")
    assert len(arrivals.found()) == 4
    arrivals.load(11)
    arrivals.load(10)
    arrivals.assert_exact()
    assert arrivals.load(10)["status"] == arrivals.load(11)["status"] == "unchanged"


@pytest.mark.thorough
def test_an_object_has_rows_of_more_periods_than_a_block_may_have(arrivals: Arrivals) -> None:
    arrivals.put(20, "a", 0, list(range(-81, 21)), rows=1)
    assert len(touched(arrivals.load(20))) == 102
    arrivals.put(21, "b", 90, list(range(-81, 21)), rows=1)
    arrivals.load(21)
    arrivals.assert_exact()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("change", ["INSERT INTO {} SELECT 1793534400, 5", "ALTER TABLE {} DELETE WHERE number = 900"])
def test_a_table_that_holds_other_rows_is_not_adopted_by_arrival(two: Arrivals, change: str) -> None:
    two.lose_records()
    two.change(change)
    with pytest.raises(AirflowFailException, match="Nothing was adopted"):
        adopt(two.lake, **BY_ARRIVAL)
    with pytest.raises(AirflowFailException, match="the partition holds rows that no load wrote"):
        two.load(10)


@pytest.mark.thorough
def test_a_refused_adoption_names_the_objects_that_it_took_as_not_loaded(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [9])
    arrivals.put(11, "b", 50, [11, 9])
    arrivals.load(10)
    arrivals.load(11)
    arrivals.lose_records()
    arrivals.change("ALTER TABLE {} DROP PARTITION '2026-11-11'")
    taken = r"2026-11-09 differs: 2 rows more .* Taken as not loaded, .*2026-11-11/b \(of 20261111\)\."
    with pytest.raises(AirflowFailException, match=taken):
        adopt(arrivals.lake, **BY_ARRIVAL)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("day", ["2026-10-01", "2026-11-09"])
def test_rows_that_came_during_an_adoption_refuse_it(two: Arrivals, strikes: Strikes, day: str) -> None:
    two.lose_records()
    strikes.before("Create ", lambda: two.change(f"INSERT INTO {{}} SELECT '{day} 12:00:00', 5"))
    with pytest.raises(AirflowFailException, match=f"Somebody wrote to {day} .* meanwhile"):
        adopt(two.lake, **BY_ARRIVAL)


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["Comparing 2026-11-10", "Create "])
def test_parts_may_merge_while_their_table_is_adopted(two: Arrivals, strikes: Strikes, step: str) -> None:
    two.lose_records()
    strikes.before(step, lambda: two.change("OPTIMIZE TABLE {} FINAL"))
    adopt(two.lake, **BY_ARRIVAL)
    assert strikes.struck
    strikes.reset()
    assert [two.load(arrival)["status"] for arrival in (10, 11)] == ["unchanged"] * 2


@pytest.mark.three_nodes
@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("table", ["chs3_objects", "chs3_ledger"])
@pytest.mark.parametrize("places", [(0,), (1, 2), (0, 1, 2)])
def test_lost_records_never_cost_the_rows_of_other_arrivals(two: Arrivals, table: str, places: tuple[int, ...]) -> None:
    for place in places:
        two.lake.on_node(place, f"DROP TABLE {two.lake.database}.{table} SYNC")
    is_lost = len(places) == 3
    before = two.expected()
    two.put(10, "late", 90, [9])
    refused = pytest.raises(AirflowFailException, match=r"holds rows of which no record|rows that no load wrote")
    with refused if is_lost else nullcontext():
        two.load(10)
    assert two.found() == (before if is_lost else two.expected())


@pytest.mark.parametrize("are_rows_gone", [True, False])
def test_a_period_whose_records_somebody_deleted_is_loaded_again_if_its_rows_are_gone(
    two: Arrivals, are_rows_gone: bool
) -> None:
    ledger = f"{two.lake.database}.chs3_ledger"
    two.lake.on_every_node(f"ALTER TABLE {ledger} DELETE WHERE period = '2026-11-09' SETTINGS mutations_sync = 1")
    before = two.found()
    if are_rows_gone:
        two.change("ALTER TABLE {} DROP PARTITION '2026-11-09'")
        two.load(10)
        two.load(11)
        two.assert_exact()
    else:
        two.put(11, "late", 90, [9])
        with pytest.raises(AirflowFailException, match="the partition holds rows that no load wrote"):
            two.load(11)
        assert two.found() == before
    plan = PlanLoadsOperator(task_id="plan", periods=["2026-11-10"], load=two.operator(10).as_load()).planned({})
    assert [found.to_do for found in plan] == ["leave" if are_rows_gone else "blocked"]


def test_a_restore_that_died_does_not_stop_the_arrivals_of_its_period(arrivals: Arrivals, strikes: Strikes) -> None:
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.load(10, keep_versions=1)
    arrivals.put(11, "b", 50, [9])
    arrivals.load(11, keep_versions=1)
    table = arrivals.operator(10).on_connection()
    strikes.die("after", "Create staging", lambda: table.restore("2026-11-09", by="a test"))
    arrivals.put(12, "c", 70, [12, 9])
    assert touched(arrivals.load(12)) == [9, 12]
    arrivals.assert_exact()
