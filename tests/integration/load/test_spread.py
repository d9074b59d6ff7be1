"""Objects by arrival, tables by event: each partition holds exactly the rows that the objects have for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_chs3.exceptions import NotReadyError
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.operators.prove import ProvePeriodsOperator
from tests.support.arrivals import BY_ARRIVAL, BY_OBJECT, Arrivals, arrivals, by_object, touched
from tests.support.holds import run
from tests.support.lake import Lake
from tests.support.ledger_tasks import adopt, forget
from tests.support.strikes import Strikes, strikes

__all__ = ["arrivals", "by_object", "strikes"]


def test_rows_are_added_to_the_periods_that_they_belong_to_unless_they_are_too_late(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [10, 9, 3])
    result = arrivals.load(10, max_late_days=7)
    assert (result["status"], result["rows"], result["loaded_rows"]) == ("published", 6, 6)
    assert touched(result) == [3, 9, 10]
    arrivals.assert_exact()
    assert arrivals.load(10)["status"] == "unchanged"
    arrivals.put(11, "b", 5000, [11, 10, 2])
    arrivals.put(11, "c", 9000, [11, 3])
    with pytest.raises(AirflowFailException, match=r"11/b has 2 rows of 2026-11-02, more than .*=7 before 2026-11-11"):
        arrivals.load(11, max_late_days=7)
    assert touched(arrivals.load(11)) == [2, 3, 10, 11]
    arrivals.assert_exact()
    arrivals.put(11, "late", 70, [1, 11])
    assert arrivals.load(11)["loaded_objects"] == 1
    arrivals.assert_exact()
    assert arrivals.load(10)["status"] == arrivals.load(11)["status"] == "unchanged"
    with pytest.raises(AirflowFailException, match="holds rows of objects of several arrivals"):
        arrivals.load(10, on_other_periods="leave_out")
    arrivals.assert_exact()


def test_rows_of_overwritten_objects_go_from_all_periods(by_object: Arrivals) -> None:
    by_object.put(10, "a", 0, [10, 3], rows=20)
    by_object.put(10, "b", 5000, [10, 4], rows=20)
    by_object.put(10, "c", 9000, [10, 4, 3], rows=60)
    by_object.write(10, "empty", [])
    assert by_object.load(10)["loaded_objects"] == 4
    by_object.assert_exact()
    by_object.put(10, "a", 0, [5, 3])
    result = by_object.load(10)
    assert touched(result) == [3, 5, 10]
    by_object.assert_exact()
    assert by_object.load(10)["status"] == "unchanged"
    by_object.delete(10, "b")
    with pytest.raises(AirflowFailException, match=r"1 object of 2026-11-10 .* is gone .*10/b"):
        by_object.load(10)
    with pytest.raises(AirflowFailException, match=r"shrank from .* to .* allow it for one run"):
        by_object.load(10, on_deleted_objects="remove", max_shrink_fraction=0.01)
    assert by_object.load(10, on_deleted_objects="remove")["status"] == "published"
    by_object.assert_exact()
    assert by_object.load(10)["status"] == "unchanged"
    by_object.write(11, "empty", [])
    by_object.load(11)
    by_object.assert_exact()


@pytest.fixture
def three(arrivals: Arrivals) -> Arrivals:
    """Load three arrivals that have rows of the same days."""
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.put(11, "b", 5000, [10, 9])
    arrivals.put(12, "c", 7000, [12, 9])
    arrivals.put(12, "d", 8000, [10, 8])
    for arrival in (10, 11, 12):
        arrivals.load(arrival)
    return arrivals


def test_without_a_column_of_objects_the_periods_of_all_that_changed_are_loaded_whole(three: Arrivals) -> None:
    three.put(10, "a", 0, [9, 8])
    assert touched(three.load(10)) == [8, 9, 10]
    three.assert_exact()
    three.put(10, "a", 30, [9])
    three.delete(12, "c")
    with pytest.raises(AirflowFailException, match=r"2026-11-09.* must be read again whole, but .*12/c is gone"):
        three.load(10)


@pytest.mark.thorough
def test_what_changed_in_several_arrivals_does_not_wait_for_each_other(three: Arrivals) -> None:
    three.put(10, "a", 30, [9, 8])
    three.put(11, "b", 5030, [10, 7])
    three.delete(12, "c")
    assert touched(three.load(10, on_deleted_objects="remove")) == [7, 8, 9, 10, 12]
    three.assert_exact()
    assert [three.load(arrival)["status"] for arrival in (10, 11, 12)] == ["unchanged"] * 3


STEPS = [
    "Create staging",
    "Insert 2 objects",
    "Count the rows of each object by period",
    "Attach the published rows",
    "Record the intent to publish",
    "Record 6 objects",
    "Publish",
    "Remove the replaced parts",
    "Record 2026-11-03 and 3 more as published",
]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_after_a_worker_died_the_next_run_is_exact(arrivals: Arrivals, strikes: Strikes, step: str, when: str) -> None:
    arrivals.put(10, "a", 0, [10, 9, 3])
    arrivals.load(10)
    arrivals.put(11, "b", 5000, [11, 10, 9])
    arrivals.put(11, "c", 9000, [11, 10, 3])

    strikes.die(when, step, lambda: arrivals.load(11))
    arrivals.load(11)
    arrivals.assert_exact()
    assert arrivals.load(11)["status"] == "unchanged"


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["Record the intent to publish", "Publish"])
def test_where_staging_is_lost_periods_are_loaded_whole(arrivals: Arrivals, strikes: Strikes, step: str) -> None:
    arrivals.put(10, "a", 0, [9])
    arrivals.load(10)
    arrivals.put(11, "b", 5000, [11, 9])

    strikes.die("after", step, lambda: arrivals.load(11))
    for name in arrivals.lake.staging_tables():
        arrivals.lake.on_every_node(f"DROP TABLE IF EXISTS {arrivals.lake.database}.{name} SYNC")
    # The run of another arrival finds it.
    arrivals.put(12, "d", 100, [9])
    arrivals.load(12)
    arrivals.load(11)
    arrivals.assert_exact()
    assert arrivals.load(11)["status"] == arrivals.load(12)["status"] == "unchanged"


def test_an_arrival_without_objects(arrivals: Arrivals) -> None:
    with pytest.raises(NotReadyError, match="No objects for 2026-11-10"):
        arrivals.load(10)
    with pytest.raises(AirflowSkipException):
        arrivals.load(10, on_no_objects="skip")
    assert arrivals.load(10, on_no_objects="empty")["status"] == "unchanged"


def test_rows_without_a_time_are_refused(lake: Lake) -> None:
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.{lake.table} (at Nullable(DateTime('UTC')), number Int64) ENGINE = MergeTree "
        "PARTITION BY toDate(at) ORDER BY number SETTINGS allow_nullable_key = 1"
    )
    arrivals = Arrivals(lake)
    lake.put("raw/2026-11-10/a", b"at,number\n\\N,1\n1793620800,2\n")
    lake.put("raw/2026-11-10/b", b"at,number\n1793620800,2\n")
    with pytest.raises(AirflowFailException, match="raw/2026-11-10/a has rows without a time in 'at'"):
        arrivals.load(10)
    assert arrivals.found() == []


@pytest.mark.thorough(but=1, first=1)
@pytest.mark.parametrize("key", ["toDate(at)", "(toYYYYMM(at), number % 3)"])
def test_rows_of_no_period_name_their_objects(lake: Lake, key: str) -> None:
    arrivals = Arrivals(lake, key=key)
    arrivals.create()
    for name in "abc":
        arrivals.put(10, name, 0, [10])
    for name in "bc":
        lake.put(f"raw/2026-11-10/{name}", b"at,number\n1970-06-01 12:00:00,9\n")
    named = r"raw/2026-11-10/b and 1 more object have rows of 1970-06.* in 'at', .* Nothing was "
    with pytest.raises(AirflowFailException, match=f"{named}published"):
        arrivals.load(10)
    lake.on_every_node(f"INSERT INTO {arrivals.name} VALUES ('1970-06-01 12:00:00', 9)")
    with pytest.raises(AirflowFailException, match=f"{named}recorded"):
        adopt(lake, **BY_ARRIVAL)


def test_rows_are_not_added_to_periods_whose_objects_nobody_knows(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [10])
    noon = "2026-11-10 12:00:00"
    arrivals.lake.on_every_node(f"INSERT INTO {arrivals.name} VALUES ('{noon}', 1000), ('{noon}', 1001)")
    arrivals.put(11, "b", 7, [11, 10])
    unknown = r"the partition holds rows that no load wrote\. Nothing was published\. Adopt the whole table"
    with pytest.raises(AirflowFailException, match=unknown):
        arrivals.load(11)
    adopt(arrivals.lake, key="raw/{YYYY-MM-DD}/*", periods=["2026-11-10"], file_format="CSVWithNames")
    with pytest.raises(AirflowFailException, match="rows cannot be added to it exactly"):
        arrivals.load(11)
    assert len(arrivals.found()) == 2
    forget(arrivals.lake, "2026-11-10")
    adopt(arrivals.lake, **BY_ARRIVAL)
    arrivals.load(11)
    arrivals.assert_exact()


@pytest.mark.thorough
@pytest.mark.parametrize("is_by_object", [False, True])
@pytest.mark.parametrize("key", ["toYYYYMM(at)", "(toYYYYMM(at), number % 3)", "toDate(at)"])
def test_where_records_are_lost_the_table_is_adopted_as_the_objects_have_it(
    arrivals: Arrivals, key: str, is_by_object: bool
) -> None:
    arrivals.lake.on_every_node(f"DROP TABLE {arrivals.name} SYNC")
    arrivals.is_by_object, arrivals.key = is_by_object, key
    arrivals.create()
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.put(11, "b", 50, [11, 9])
    arrivals.put(11, "empty", 0, [])
    for arrival in (10, 11):
        arrivals.load(arrival)
    arrivals.lose_records()
    # All objects that are not loaded are left to the next run, those of arrivals that are, too.
    arrivals.put(10, "late", 60, [9], rows=5)
    arrivals.put(12, "c", 90, [12, 9], rows=7)
    adopted = adopt(arrivals.lake, **(BY_ARRIVAL | (BY_OBJECT if is_by_object else {})))
    assert {period["status"] for period in adopted} == {"adopted"}
    assert sum(period["rows"] for period in adopted) == 8
    with pytest.raises(AirflowFailException, match=r"(is|are) recorded"):
        adopt(arrivals.lake, **(BY_ARRIVAL | (BY_OBJECT if is_by_object else {})))
    assert [arrivals.load(arrival)["loaded_objects"] for arrival in (11, 10, 12)] == [0, 1, 1]
    arrivals.assert_exact()
    arrivals.put(10, "a", 30, [10, 8])
    assert arrivals.load(10)["status"] == "published"
    arrivals.assert_exact()
    arrivals.delete(11, "b")
    arrivals.load(11, on_deleted_objects="remove", max_shrink_fraction=1)
    arrivals.assert_exact()


@pytest.mark.thorough
def test_a_reload_reads_all_objects_of_the_arrival_again(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [10])
    arrivals.put(10, "b", 50, [10, 3])
    arrivals.load(10)
    conf = {"database": arrivals.lake.database, "table": arrivals.lake.table, "periods": ["2026-11-10"]}
    result = arrivals.operator(10).execute(run({"chs3_reload": conf}))
    assert (result["status"], result["loaded_objects"], len(result["of_periods"])) == ("published", 2, 2)
    arrivals.assert_exact()


@pytest.mark.thorough
def test_a_plan_says_which_arrivals_changed(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [10, 9])
    arrivals.put(11, "b", 50, [11, 9])
    arrivals.load(10)
    load = arrivals.operator(10).as_load()

    def planned(**policies: str) -> list[str]:
        asked = replace(load, policies={**load.policies, **policies})
        periods = ["2026-11-10", "2026-11-11"]
        plan = PlanLoadsOperator(task_id="plan", periods=periods, load=asked).planned({})
        return [f"{found.period} {found.to_do}: {found.reason}" for found in plan]

    assert planned() == ["2026-11-10 leave: as published", "2026-11-11 load: 1 new"]
    arrivals.put(10, "a", 7, [10])
    arrivals.load(11)
    assert planned()[0].startswith("2026-11-10 load: 1 overwritten")
    arrivals.delete(10, "a")
    assert planned()[0].startswith("2026-11-10 blocked: its load will stop: 1 object of 2026-11-10")
    assert planned(on_deleted_objects="remove")[0].startswith("2026-11-10 load: 1 deleted")
    assert planned(on_deleted_objects="keep")[0].startswith("2026-11-10 leave")


def proved(arrivals: Arrivals) -> list[tuple[str, str]]:
    load = arrivals.operator(10).as_load()
    prove = ProvePeriodsOperator(task_id="prove", load=load, all_periods=True, fail_on_difference=False)
    return [(found["period"][-2:], found["status"]) for found in prove.execute({})]


def test_objects_are_listed_and_proved_by_what_is_recorded_of_each_period(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [9, 3])
    arrivals.put(11, "b", 50, [11, 9], rows=3)
    assert proved(arrivals) == [("10", "differs"), ("11", "differs")]
    arrivals.load(10)
    arrivals.load(11)
    assert proved(arrivals) == [("03", "equal"), ("09", "equal"), ("11", "equal")]
    listed = arrivals.operator(11).on_connection().list_objects()
    assert [(str(unit.period)[-2:], unit.arrival, unit.path[-1], unit.rows) for unit in listed] == [
        ("03", "2026-11-10", "a", 2),
        ("09", "2026-11-10", "a", 2),
        ("09", "2026-11-11", "b", 3),
        ("11", "2026-11-11", "b", 3),
    ]
    # Rows may be added to periods of any age: their records stay as long as those of a whole table.
    of_objects = f"database = '{arrivals.lake.database}' AND table = 'chs3_objects' AND active"
    ((kept_years,),) = arrivals.lake.on_node(
        0, f"SELECT dateDiff('year', now(), min(delete_ttl_info_min)) FROM system.parts WHERE {of_objects}"
    )
    assert kept_years > 50
    arrivals.lose_records()
    lost = [(day, "refused") for day in ("03", "09", "11")]
    assert proved(arrivals) == [*lost, ("10", "differs"), ("11", "differs")]


@pytest.mark.thorough
def test_proofs_find_what_came_since_and_what_is_lost(arrivals: Arrivals) -> None:
    arrivals.put(10, "a", 0, [9, 3])
    arrivals.put(11, "b", 50, [11, 9])
    arrivals.load(10)
    arrivals.load(11)
    arrivals.put(11, "c", 70, [3])
    assert proved(arrivals)[3:] == [("11", "differs")]
    arrivals.delete(11, "c")
    # Its rows of another day are gone, and nobody recorded that it has any.
    arrivals.lake.on_every_node(f"ALTER TABLE {arrivals.name} DROP PARTITION '2026-11-03'")
    assert ("03", "differs") in proved(arrivals)
    arrivals.lake.on_every_node(
        f"ALTER TABLE {arrivals.lake.database}.chs3_objects DELETE WHERE period = '2026-11-09' AND path LIKE '%b' "
        "SETTINGS mutations_sync = 1"
    )
    assert ("11", "refused") in proved(arrivals)


@pytest.mark.thorough
def test_arrivals_are_due_and_not_the_periods_of_their_rows(lake: Lake) -> None:
    arrivals = Arrivals(lake, key="toYYYYMM(at)")
    arrivals.create()
    arrivals.put(10, "a", 0, [10, -50])
    arrivals.put(11, "b", 50, [11, 9])
    arrivals.load(10, fresh_by="1h", timezone="UTC")
    arrivals.load(11, fresh_by="1h", timezone="UTC")
    load = arrivals.operator(11, fresh_by="1h", timezone="UTC").as_load()
    table = arrivals.operator(11).on_connection()
    for of_load in (load, None):
        freshness = table.status(of_load).freshness
        assert freshness
        assert str(freshness.complete) == "2026-11-11"
    # A quiet night is a look, too.
    arrivals.load(11, fresh_by="2h", timezone="UTC")
    freshness = table.status().freshness
    assert freshness
    assert str(freshness.fresh_by) == "2h UTC"
