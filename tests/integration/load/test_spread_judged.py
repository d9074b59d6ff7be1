"""Arrivals look at the periods that hold their rows, whatever others did to these."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import NotReadyError
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.operators.prove import ProvePeriodsOperator
from tests.faults.strikes import Strikes, strikes
from tests.integration.lake import Lake
from tests.integration.ledger.test_ledger_admin import adopt
from tests.integration.load.test_spread import BY_ARRIVAL, BY_OBJECT, Arrivals, arrivals, touched

__all__ = ["arrivals", "strikes"]


@pytest.mark.parametrize("is_dropped", [True, False])
def test_a_period_that_was_forgotten_is_read_again_whole(arrivals: Arrivals, is_dropped: bool) -> None:
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.put(11, "b", 50, [11, 9])
    arrivals.load(10)
    arrivals.load(11)
    if is_dropped:
        arrivals.lake.on_every_node(f"ALTER TABLE {arrivals.name} DROP PARTITION '2026-11-09'")
    arrivals.operator(10).on_connection().forget(["2026-11-09"])
    arrivals.put(12, "c", 70, [12, 9])
    if not is_dropped:
        with pytest.raises(AirflowFailException, match="the partition holds rows that no load wrote"):
            arrivals.load(12)
    assert arrivals.load(12, replace_unknown=True)["status"] == "published"
    arrivals.assert_exact()
    assert arrivals.load(10)["status"] == "unchanged"


@pytest.mark.parametrize("change", ["DROP PARTITION '2026-11-09'", "DELETE WHERE number = 900"])
def test_a_period_that_somebody_changed_is_found_by_its_arrivals(arrivals: Arrivals, change: str) -> None:
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.put(11, "b", 50, [11, 9])
    arrivals.load(10)
    arrivals.load(11)
    arrivals.lake.on_every_node(f"ALTER TABLE {arrivals.name} {change} SETTINGS mutations_sync = 1")
    plan = PlanLoadsOperator(task_id="plan", periods=["2026-11-10"], load=arrivals.operator(10).as_load())
    assert [str(found.reason) for found in plan.planned({})] == ["2026-11-09 not as published"]
    with pytest.raises(AirflowFailException, match="was changed since it was published"):
        arrivals.load(10)
    result = arrivals.load(10, on_target_changed="reload")
    assert touched(result) == [9]
    arrivals.assert_exact()
    assert arrivals.load(10)["status"] == arrivals.load(11)["status"] == "unchanged"


def test_another_definition_reads_the_periods_of_the_arrival_again(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.load(10)
    select = {"at": "at", "number": "toInt64(number) + 1000000"}
    assert touched(arrivals.load(10, select=select)) == [9, 10]
    assert [number for _, number in arrivals.found()] == [number + 1_000_000 for _, number in arrivals.expected()]
    assert arrivals.load(10, select=select)["status"] == "unchanged"


def test_a_restored_period_takes_rows_again_once_it_is_not_pinned(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.load(10, keep_versions=1)
    arrivals.put(11, "b", 50, [11, 9])
    arrivals.load(11, keep_versions=1)
    table = arrivals.operator(10).on_connection()
    table.restore(["2026-11-09"], by="a test")
    assert arrivals.load(11)["status"] == "unchanged"
    arrivals.put(12, "c", 70, [12, 9])
    with pytest.raises(AirflowFailException, match="pinned since"):
        arrivals.load(12)
    table.unpin(["2026-11-09"])
    arrivals.load(12)
    assert arrivals.found() == arrivals.expected()


def test_an_arrival_whose_objects_are_all_gone_is_no_quiet_night(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.load(10)
    rows = arrivals.found()
    arrivals.delete(10, "a")
    with pytest.raises((AirflowFailException, NotReadyError)):
        arrivals.load(10, on_deleted_objects="remove")
    assert arrivals.found() == rows
    arrivals.load(10, on_deleted_objects="remove", on_no_objects="empty", max_shrink_fraction=1)
    arrivals.assert_exact()


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


def test_an_object_has_rows_of_many_periods(arrivals: Arrivals) -> None:
    arrivals.put(20, "a", 0, list(range(-130, 21)), rows=1)
    assert len(touched(arrivals.load(20))) == 151
    arrivals.put(21, "b", 90, list(range(-125, 22)), rows=1)
    arrivals.load(21)
    arrivals.assert_exact()


def lose_records(arrivals: Arrivals) -> None:
    for table in ("chs3_ledger", "chs3_objects", "chs3_loads"):
        arrivals.lake.on_every_node(f"DROP TABLE {arrivals.lake.database}.{table} SYNC")


@pytest.mark.parametrize("is_by_object", [False, True])
def test_all_objects_that_are_not_loaded_are_left_to_the_next_run(lake: Lake, is_by_object: bool) -> None:
    arrivals = Arrivals(lake, key="toYYYYMM(at)", is_by_object=is_by_object)
    arrivals.create()
    arrivals.put(10, "a", 0, [10, 9, -20])
    arrivals.put(10, "b", 0, [10], rows=3)
    arrivals.load(10)
    lose_records(arrivals)
    arrivals.put(10, "late", 50, [9])
    arrivals.put(11, "c", 70, [11, 9, -20], rows=5)
    arrivals.put(12, "d", 80, [12, 9], rows=7)
    adopted = adopt(lake, **(BY_ARRIVAL | (BY_OBJECT if is_by_object else {})))
    assert [period["rows"] for period in adopted] == [2, 7]
    assert [arrivals.load(arrival)["loaded_objects"] for arrival in (10, 11, 12)] == [1, 1, 1]
    arrivals.assert_exact()


def test_a_refused_adoption_names_the_objects_that_it_took_as_not_loaded(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.put(11, "b", 50, [11, 9])
    arrivals.load(10)
    arrivals.load(11)
    lose_records(arrivals)
    arrivals.lake.on_every_node(f"ALTER TABLE {arrivals.name} DROP PARTITION '2026-11-11'")
    taken = r"2026-11-09 differs: 2 rows more .* Taken as not loaded, .*2026-11-11/b \(of 20261111\)\."
    with pytest.raises(AirflowFailException, match=taken):
        adopt(arrivals.lake, **BY_ARRIVAL)


@pytest.mark.parametrize("step", ["Comparing 2026-11-10", "Create "])
def test_parts_may_merge_while_their_table_is_adopted(arrivals: Arrivals, strikes: Strikes, step: str) -> None:
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.put(11, "b", 50, [11, 9])
    arrivals.load(10)
    arrivals.load(11)
    lose_records(arrivals)
    strikes.before(step, lambda: arrivals.lake.on_every_node(f"OPTIMIZE TABLE {arrivals.name} FINAL"))
    adopt(arrivals.lake, **BY_ARRIVAL)
    assert strikes.struck
    strikes.reset()
    assert [arrivals.load(arrival)["status"] for arrival in (10, 11)] == ["unchanged"] * 2


@pytest.mark.parametrize("day", ["2026-11-09", "2026-10-01"])
def test_rows_that_came_during_an_adoption_refuse_it(arrivals: Arrivals, strikes: Strikes, day: str) -> None:
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.load(10)
    lose_records(arrivals)
    rows = f"INSERT INTO {arrivals.name} VALUES ('{day} 12:00:00', 5)"
    strikes.before("Create ", lambda: arrivals.lake.on_every_node(rows))
    with pytest.raises(AirflowFailException, match=f"Somebody wrote to {day} .* meanwhile"):
        adopt(arrivals.lake, **BY_ARRIVAL)


def test_a_proof_of_a_table_without_records_says_that_nothing_is_loaded(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [10, 9])
    load = arrivals.operator(10).as_load()
    prove = ProvePeriodsOperator(task_id="prove", load=load, all_periods=True, fail_on_difference=False)
    assert [(found["period"], found["status"]) for found in prove.execute({})] == [("2026-11-10", "differs")]
    arrivals.load(10)
    lose_records(arrivals)
    assert [(found["period"][-2:], found["status"]) for found in prove.execute({})] == [
        ("09", "refused"),
        ("10", "refused"),
        ("10", "differs"),
    ]
