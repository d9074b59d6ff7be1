"""Several periods in one load: each holds exactly its objects' rows, whatever becomes of the others."""

from __future__ import annotations

from datetime import date
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_chs3.exceptions import Chs3Error, PeriodsNotLoadedError
from tests.support.lake import recorded_loads
from tests.support.several_periods import PERIODS, Periods, periods

__all__ = ["periods"]


def test_all_periods_take_one_insert_and_each_is_published_and_recorded(periods: Periods) -> None:
    load = periods.operator()
    results = load.execute({})
    assert [(result["period"], result["status"], result["rows"]) for result in results] == [
        (period, "published", len(periods.rows[period])) for period in PERIODS
    ]
    assert len(load.inserts) == 1
    assert {tuple(result["query_ids"]) for result in results} == {(load.inserts[0].query_id,)}
    assert periods.found() == periods.expected()
    lake = periods.lake
    both = " UNION ALL ".join(f"SELECT period, event FROM {lake.database}.chs3_{name}" for name in ("ledger", "loads"))
    ledger = lake.on_node(0, f"SELECT period, event, count() FROM ({both}) GROUP BY ALL")
    # An insert of a second records its end, too.
    ledger = [(period, event, 1 if event == "inserting" else count) for period, event, count in ledger]
    assert sorted(ledger) == sorted((m, e, 1) for m in PERIODS for e in ("inserting", "intent", "published", "load"))
    objects = lake.on_node(0, f"SELECT period, count(), sum(rows) FROM {lake.database}.chs3_objects GROUP BY period")
    assert sorted(objects) == [(period, 2, len(periods.rows[period])) for period in PERIODS]


@pytest.mark.thorough
def test_each_periods_record_has_all_of_its_result(periods: Periods) -> None:
    results = periods.load()
    lake = periods.lake
    recorded = {load["period"]: load for load in recorded_loads(lake)}
    for period, result in results.items():
        both = result.keys() & recorded[period].keys()
        assert {"period", "rows", "rows_by_node", "settings", "fingerprint", "loaded_bytes"} <= both
        assert {name: recorded[period][name] for name in both} == {name: result[name] for name in both}


@pytest.mark.thorough
def test_a_periods_share_of_a_step_is_that_of_the_insert_which_goes_by_bytes(periods: Periods) -> None:
    periods.put(PERIODS[0], "much", rows=4_000)
    results = periods.load()
    large, small = results[PERIODS[0]], results[PERIODS[1]]
    ratio = large["insert_seconds"] / small["insert_seconds"]
    assert ratio > 2
    assert large["seconds_by_step"]["insert"] / small["seconds_by_step"]["insert"] == pytest.approx(ratio, rel=0.1)


@pytest.mark.thorough
def test_a_second_run_loads_what_changed_and_of_periods_that_grew_their_new_objects(periods: Periods) -> None:
    periods.load()
    for period in ("2026-07", "2026-08"):
        periods.put(period, "c")
    load = periods.operator()
    results = {each["period"]: each for each in load.execute({})}
    assert {period: (each["status"], each["loaded_objects"]) for period, each in results.items()} == {
        "2026-07": ("published", 1),
        "2026-08": ("published", 1),
        "2026-09": ("unchanged", 0),
        "2026-10": ("unchanged", 0),
    }
    assert len(load.inserts) == 1
    assert periods.found() == periods.expected()
    assert set(periods.statuses().values()) == {"unchanged"}


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_three_nodes_share_the_rows(periods: Periods) -> None:
    periods.load()
    assert periods.found() == periods.expected()
    periods.put("2026-07", "c")
    periods.put("2026-10", "c")
    assert [each["loaded_objects"] for each in periods.load().values()] == [1, 0, 0, 1]
    assert periods.found() == periods.expected()


@pytest.mark.thorough
def test_text_is_told_apart_too(periods: Periods) -> None:
    for period in PERIODS:
        for name in "ab":
            periods.lake.s3.delete_object(Bucket=periods.lake.bucket, Key=f"n/{period}/{name}.parquet")
    text = Periods(periods.lake, "csv")
    for period in PERIODS:
        text.put(period, "a")
    load = text.operator()
    load.execute({})
    assert len(load.inserts) == 1
    assert text.found() == text.expected()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "key",
    [
        "toStartOfMonth(day)",
        "toYear(day) * 100 + toMonth(day)",
        "(toYear(day), toMonth(day))",
        "formatDateTime(day, '%Y-%m')",
    ],
)
def test_every_monthly_key_guards_its_periods(periods: Periods, key: str) -> None:
    lake = periods.lake
    lake.on_every_node(f"DROP TABLE {lake.database}.numbers SYNC")
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.numbers (day Date, n UInt32) ENGINE MergeTree ORDER BY n PARTITION BY {key}"
    )
    load = periods.operator()
    load.execute({})
    assert len(load.inserts) == 1
    assert periods.found() == periods.expected()


@pytest.mark.thorough
def test_files_with_a_row_of_each_others_period_publish_neither(periods: Periods) -> None:
    wrong = {"2026-07": date(2026, 8, 31), "2026-08": date(2026, 7, 31)}
    for number, (period, day) in enumerate(wrong.items()):
        periods.lake.put(f"n/{period}/wrong.parquet", periods.body([(day, number)]))
    with pytest.raises(AirflowFailException, match=r"2 of 4 periods failed(?s:.*)2026-07: .*rows of other periods"):
        periods.load()
    assert periods.found() == periods.expected(*wrong)


def test_periods_that_fail_leave_the_others_published_and_a_retry_loads_them_alone(periods: Periods) -> None:
    bad = {"2026-07": "x//y.parquet", "2026-08": "bad.parquet", "2026-09": "of_another.format"}
    for period, key in bad.items():
        periods.lake.put(f"n/{period}/{key}", b"no parquet")
    with pytest.raises((AirflowFailException, Chs3Error), match="3 of 4 periods failed") as caught:
        periods.load()
    told = str(caught.value)
    assert all(each in told for each in ("2026-07: ClickHouse cannot read", "2026-08: ", "bad.parquet", "2026-09: "))
    assert periods.found() == periods.expected(*bad)
    for period, key in bad.items():
        periods.lake.s3.delete_object(Bucket=periods.lake.bucket, Key=f"n/{period}/{key}")
    assert list(periods.statuses().values()) == ["published", "published", "published", "unchanged"]
    assert periods.found() == periods.expected()


@pytest.mark.thorough
def test_periods_that_somebody_changed_or_that_have_no_objects_fail_alone(periods: Periods) -> None:
    periods.load()
    lake = periods.lake
    lake.on_node(0, f"INSERT INTO {lake.database}.numbers VALUES ('2026-07-01', 1000000)")
    for period in ("2026-07", "2026-09", "2026-10"):
        periods.put(period, "c")
    with pytest.raises(PeriodsNotLoadedError, match="2 of 5 periods failed") as caught:
        periods.load(*PERIODS, "2026-11")
    assert "2026-07: " in str(caught.value)
    assert "No objects for 2026-11" in str(caught.value)
    found = periods.found()
    assert (date(2026, 7, 1), 1000000) in found.pop("2026-07")
    assert found == periods.expected("2026-07")


@pytest.mark.thorough
def test_a_table_that_is_not_partitioned_by_period_fails_once(periods: Periods) -> None:
    lake = periods.lake
    lake.on_every_node(f"DROP TABLE {lake.database}.numbers SYNC")
    lake.on_every_node(f"CREATE TABLE {lake.database}.numbers (day Date, n UInt32) ENGINE MergeTree ORDER BY n")
    with pytest.raises(AirflowFailException, match="is not partitioned by month") as caught:
        periods.load()
    assert "periods failed" not in str(caught.value)


@pytest.mark.thorough
def test_a_run_reloads_the_periods_that_it_names_with_one_insert(periods: Periods) -> None:
    periods.load()
    target = {"database": periods.lake.database, "table": periods.lake.table}
    run = SimpleNamespace(
        partition_key=None,
        data_interval_start=None,
        data_interval_end=None,
        conf={"chs3_reload": {**target, "periods": list(PERIODS[:3])}},
    )
    load = periods.operator()
    results = {each["period"]: each for each in load.execute({"dag_run": run})}
    assert {period: each["status"] for period, each in results.items()} == {
        **dict.fromkeys(PERIODS[:3], "published"),
        PERIODS[3]: "skipped",
    }
    assert {results[period]["reason"] for period in PERIODS[:3]} == {"it is as published, but a reload was requested"}
    assert [len(insert.paths) for insert in load.inserts] == [6]
    assert periods.found() == periods.expected()


@pytest.mark.thorough
def test_periods_without_objects_are_skipped_where_that_is_no_error(periods: Periods) -> None:
    assert periods.statuses("2026-10", "2026-11", on_no_objects="skip") == {
        "2026-10": "published",
        "2026-11": "skipped",
    }
    with pytest.raises(AirflowSkipException):
        periods.load("2026-11", "2026-12", on_no_objects="skip")


@pytest.mark.thorough
def test_loads_that_cannot_share_a_statement_are_made_one_by_one(periods: Periods) -> None:
    load = periods.operator(null_as_default=True)
    load.execute({})
    assert len(load.inserts) == len(PERIODS)
    assert periods.found() == periods.expected()


@pytest.mark.thorough
def test_each_period_has_the_verdict_on_its_own_merges(periods: Periods) -> None:
    results = periods.load(
        *(*PERIODS, "2026-11"), on_no_objects="skip", wait_for_merges=True, merge_health={"settled_after_seconds": 0}
    )
    assert [results[period]["status"] for period in (*PERIODS, "2026-11")] == ["published"] * len(PERIODS) + ["skipped"]
    for period in PERIODS:
        (found,) = results[period]["merges"]["periods"].items()
        assert found[0] == period
        assert sum(node["parts"] for node in found[1].values()) == results[period]["parts"]


@pytest.mark.thorough
def test_an_object_whose_key_names_two_periods_is_of_neither_in_any_load(periods: Periods) -> None:
    key = "dated/*{YYYY-MM-DD}*.parquet"
    for name in ("2026-07-01", "2026-08-01", "from-2026-07-31-to-2026-08-01"):
        periods.lake.put(f"dated/{name}.parquet", periods.body([(date.fromisoformat(name[-10:]), 1)]))
    refused = pytest.raises(AirflowFailException, match="may belong to 2026-07 or to 2026-08 by key=")
    for of in (("2026-07",), ("2026-08",), ("2026-07", "2026-08")):
        with refused:
            periods.load(*of, key=key, on_other_periods="leave_out")
    with refused:
        periods.lake.load(period="2026-07", key=key)
    with refused:
        periods.lake.load(period="2026-08", key=key, on_other_periods="leave_out")
    assert periods.found() == {}
