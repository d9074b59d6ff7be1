"""Several months in one load: each holds exactly its objects' rows, whatever becomes of the others."""

from __future__ import annotations

import json
from datetime import date
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_chs3.exceptions import Chs3Error, ConfigurationError, MonthsNotLoadedError
from tests.integration.several_months import MONTHS, Months, months

__all__ = ["months"]


def test_all_months_take_one_insert_and_each_is_published_and_recorded(months: Months) -> None:
    load = months.operator()
    results = load.execute({})
    assert [(each["month"], each["status"], each["rows"]) for each in results] == [
        (month, "published", len(months.rows[month])) for month in MONTHS
    ]
    assert len(load.inserts) == 1
    assert {tuple(each["query_ids"]) for each in results} == {(load.inserts[0].query_id,)}
    assert months.found() == months.expected()
    lake = months.lake
    ledger = lake.on_node(0, f"SELECT month, event, count() FROM {lake.database}.chs3_ledger GROUP BY ALL")
    # An insert of a second records its end, too.
    ledger = [(month, event, 1 if event == "inserting" else count) for month, event, count in ledger]
    assert sorted(ledger) == sorted((m, e, 1) for m in MONTHS for e in ("inserting", "intent", "published", "load"))
    objects = lake.on_node(0, f"SELECT month, count(), sum(rows) FROM {lake.database}.chs3_objects GROUP BY month")
    assert sorted(objects) == [(month, 2, len(months.rows[month])) for month in MONTHS]


def test_each_months_record_has_all_of_its_result(months: Months) -> None:
    results = months.load()
    lake = months.lake
    sql = f"SELECT month, details FROM {lake.database}.chs3_ledger WHERE event = 'load'"
    details = {month: json.loads(text) for month, text in lake.on_node(0, sql)}
    for month, result in results.items():
        both = result.keys() & details[month].keys()
        assert {"month", "rows", "settings", "fingerprint", "loaded_bytes"} <= both
        assert {name: details[month][name] for name in both} == {name: result[name] for name in both}


def test_a_months_share_of_a_step_is_that_of_the_insert_which_goes_by_bytes(months: Months) -> None:
    months.put(MONTHS[0], "much", rows=4_000)
    results = months.load()
    large, small = results[MONTHS[0]], results[MONTHS[1]]
    ratio = large["insert_seconds"] / small["insert_seconds"]
    assert ratio > 2
    assert large["seconds_by_step"]["insert"] / small["seconds_by_step"]["insert"] == pytest.approx(ratio, rel=0.1)


def test_a_second_run_loads_what_changed_and_of_months_that_grew_their_new_objects(months: Months) -> None:
    months.load()
    for month in ("2026-07", "2026-08"):
        months.put(month, "c")
    load = months.operator()
    results = {each["month"]: each for each in load.execute({})}
    assert {month: (each["status"], each["loaded_objects"]) for month, each in results.items()} == {
        "2026-07": ("published", 1),
        "2026-08": ("published", 1),
        "2026-09": ("unchanged", 0),
        "2026-10": ("unchanged", 0),
    }
    assert len(load.inserts) == 1
    assert months.found() == months.expected()
    assert set(months.statuses().values()) == {"unchanged"}


@pytest.mark.three_nodes
def test_three_nodes_share_the_rows(months: Months) -> None:
    months.load()
    assert months.found() == months.expected()
    months.put("2026-07", "c")
    months.put("2026-10", "c")
    assert [each["loaded_objects"] for each in months.load().values()] == [1, 0, 0, 1]
    assert months.found() == months.expected()


def test_text_is_told_apart_too(months: Months) -> None:
    for month in MONTHS:
        for name in "ab":
            months.lake.s3.delete_object(Bucket=months.lake.bucket, Key=f"n/{month}/{name}.parquet")
    text = Months(months.lake, "csv")
    for month in MONTHS:
        text.put(month, "a")
    load = text.operator()
    load.execute({})
    assert len(load.inserts) == 1
    assert text.found() == text.expected()


@pytest.mark.parametrize(
    "key", ["toStartOfMonth(day)", "toYear(day) * 100 + toMonth(day)", "(toYear(day), toMonth(day))"]
)
def test_every_monthly_key_guards_its_months(months: Months, key: str) -> None:
    lake = months.lake
    lake.on_every_node(f"DROP TABLE {lake.database}.numbers SYNC")
    lake.on_every_node(
        f"CREATE TABLE {lake.database}.numbers (day Date, n UInt32) ENGINE MergeTree ORDER BY n PARTITION BY {key}"
    )
    load = months.operator()
    load.execute({})
    assert len(load.inserts) == 1
    assert months.found() == months.expected()


def test_files_with_a_row_of_each_others_month_publish_neither(months: Months) -> None:
    wrong = {"2026-07": date(2026, 8, 31), "2026-08": date(2026, 7, 31)}
    for number, (month, day) in enumerate(wrong.items()):
        months.lake.put(f"n/{month}/wrong.parquet", months.body([(day, number)]))
    with pytest.raises(AirflowFailException, match=r"2 of 4 months failed(?s:.*)2026-07: .*rows of other months"):
        months.load()
    assert months.found() == months.expected(*wrong)


def test_a_month_that_fails_leaves_the_others_published_and_a_retry_loads_it_alone(months: Months) -> None:
    months.lake.put("n/2026-08/bad.parquet", b"no parquet")
    with pytest.raises((AirflowFailException, Chs3Error), match="1 of 4 months failed") as caught:
        months.load()
    assert "2026-08: " in str(caught.value)
    assert "bad.parquet" in str(caught.value)
    assert months.found() == months.expected("2026-08")
    months.lake.s3.delete_object(Bucket=months.lake.bucket, Key="n/2026-08/bad.parquet")
    assert list(months.statuses().values()) == ["unchanged", "published", "unchanged", "unchanged"]
    assert months.found() == months.expected()


def test_months_that_somebody_changed_or_that_have_no_objects_fail_alone(months: Months) -> None:
    months.load()
    lake = months.lake
    lake.on_node(0, f"INSERT INTO {lake.database}.numbers VALUES ('2026-07-01', 1000000)")
    for month in ("2026-07", "2026-09", "2026-10"):
        months.put(month, "c")
    with pytest.raises(MonthsNotLoadedError, match="2 of 5 months failed") as caught:
        months.load(*MONTHS, "2026-11")
    assert "2026-07: " in str(caught.value)
    assert "No objects for 2026-11" in str(caught.value)
    found = months.found()
    assert (date(2026, 7, 1), 1000000) in found.pop("2026-07")
    assert found == months.expected("2026-07")


def test_an_object_that_cannot_be_listed_or_read_fails_its_month_alone(months: Months) -> None:
    for month, key in {"2026-07": "x//y.parquet", "2026-09": "of_another.format"}.items():
        months.lake.put(f"n/{month}/{key}", b"x")
    with pytest.raises(AirflowFailException, match="2 of 4 months failed") as caught:
        months.load()
    assert "2026-07: ClickHouse cannot read" in str(caught.value)
    assert "2026-09: " in str(caught.value)
    assert months.found() == months.expected("2026-07", "2026-09")


def test_a_table_that_is_not_partitioned_by_month_fails_once(months: Months) -> None:
    lake = months.lake
    lake.on_every_node(f"DROP TABLE {lake.database}.numbers SYNC")
    lake.on_every_node(f"CREATE TABLE {lake.database}.numbers (day Date, n UInt32) ENGINE MergeTree ORDER BY n")
    with pytest.raises(AirflowFailException, match="is not partitioned by month") as caught:
        months.load()
    assert "months failed" not in str(caught.value)


def test_a_run_reloads_the_months_that_it_names_with_one_insert(months: Months) -> None:
    months.load()
    target = {"database": months.lake.database, "table": months.lake.table}
    run = SimpleNamespace(
        partition_key=None,
        data_interval_start=None,
        data_interval_end=None,
        conf={"chs3_reload": {**target, "months": list(MONTHS[:3])}},
    )
    load = months.operator()
    results = {each["month"]: each for each in load.execute({"dag_run": run})}
    assert {month: each["status"] for month, each in results.items()} == {
        **dict.fromkeys(MONTHS[:3], "published"),
        MONTHS[3]: "skipped",
    }
    assert {results[month]["reason"] for month in MONTHS[:3]} == {"it is as published, but a reload was requested"}
    assert [len(each.paths) for each in load.inserts] == [6]
    assert months.found() == months.expected()


def test_months_without_objects_are_skipped_where_that_is_no_error(months: Months) -> None:
    assert months.statuses("2026-10", "2026-11", on_no_objects="skip") == {"2026-10": "published", "2026-11": "skipped"}
    with pytest.raises(AirflowSkipException):
        months.load("2026-11", "2026-12", on_no_objects="skip")


def test_loads_that_cannot_share_a_statement_are_made_one_by_one(months: Months) -> None:
    load = months.operator(null_as_default=True)
    load.execute({})
    assert len(load.inserts) == len(MONTHS)
    assert months.found() == months.expected()


def test_each_month_has_the_verdict_on_its_own_merges(months: Months) -> None:
    results = months.load(
        *(*MONTHS, "2026-11"), on_no_objects="skip", wait_for_merges=True, merge_health={"settled_after_seconds": 0}
    )
    assert [results[month]["status"] for month in (*MONTHS, "2026-11")] == ["published"] * len(MONTHS) + ["skipped"]
    for month in MONTHS:
        (found,) = results[month]["merges"]["months"].items()
        assert found[0] == month
        assert sum(node["parts"] for node in found[1].values()) == results[month]["parts"]


def test_months_may_be_appended_with_one_task(months: Months) -> None:
    assert set(months.statuses(write_mode="append").values()) == {"appended"}
    assert months.found() == months.expected()


def test_a_list_without_months_skips_the_task(months: Months) -> None:
    load = months.operator()
    load.months = []
    with pytest.raises(AirflowSkipException, match="months is empty"):
        load.execute({})


def test_a_month_and_months_are_an_error(months: Months) -> None:
    with pytest.raises(ConfigurationError, match=r"month='2026-01', months=\['2026-02'\]: give one of the two\."):
        months.operator("2026-02", month="2026-01")


def test_an_object_whose_key_names_two_months_is_of_neither_in_any_load(months: Months) -> None:
    key = "dated/*{YYYY-MM-DD}*.parquet"
    for name in ("2026-07-01", "2026-08-01", "from-2026-07-31-to-2026-08-01"):
        months.lake.put(f"dated/{name}.parquet", months.body([(date.fromisoformat(name[-10:]), 1)]))
    refused = pytest.raises(AirflowFailException, match="may belong to 2026-07 or to 2026-08 by key=")
    for of in (("2026-07",), ("2026-08",), ("2026-07", "2026-08")):
        with refused:
            months.load(*of, key=key, on_other_months="leave_out")
    with refused:
        months.lake.load(month="2026-07", key=key)
    with refused:
        months.lake.load(month="2026-08", key=key, on_other_months="leave_out")
    assert months.found() == {}
