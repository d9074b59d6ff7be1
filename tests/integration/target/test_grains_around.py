"""The things around loads of tables by day and of whole ones: merges, ledger, plan, unload, new tables."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.operators.ledger import AdoptPeriodsOperator, ForgetPeriodsOperator
from airflow_provider_chs3.operators.optimize import OptimizePartitionOperator
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from tests.integration.grains import Case, Source
from tests.integration.target.table_commands import WHOLE, parts, shell, source, table
from tests.support.lake import Lake

#: Fixtures.
__all__ = ["source"]


def objects(source: Source) -> dict[str, Any]:
    key = f"lake/{source.case.template}/*.csv"
    return {"bucket": source.lake.bucket, "key": key, "file_format": "CSV", "columns": ["at", "number"]}


def periods_of(case: Case) -> list[str]:
    return [each for each in (case.first, case.second) if each]


def put_all(source: Source) -> None:
    for number, period in enumerate(periods_of(source.case)):
        source.put(period, "a", 1000 * number)


def insert_by_hand(source: Source) -> None:
    for rows in source.rows.values():
        values = ", ".join(f"({source.text(at)}, {number})" for at, number in rows)
        source.lake.on_node(0, f"INSERT INTO {source.lake.database}.{source.lake.table} VALUES {values}")


@pytest.mark.thorough
def test_periods_are_adopted_listed_planned_and_forgotten(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    put_all(source)
    insert_by_hand(source)
    periods, lake = periods_of(source.case), source.lake
    place = {name: objects(source)[name] for name in ("bucket", "key")}
    definition = {"columns": ["at", "number"], "files": {"file_format": "CSV"}}
    adopt = AdoptPeriodsOperator(**table(lake), **place, periods=periods, **definition)
    assert [each["status"] for each in adopt.execute({})] == ["adopted"] * len(periods)
    assert source.load(period=periods[0]) == ["unchanged"]
    listed = shell(source, capsys, "ledger")
    assert [each["period"] for each in listed] == periods
    assert {each["partition_id"] for each in listed} == set(parts(lake))
    key = ["--bucket", lake.bucket, "--key", f"lake/{source.case.template}/*.csv"]
    planned = shell(source, capsys, "plan", *key, "--from", periods[0], "--to", periods[-1])
    assert [(each["period"], each["is_to_load"]) for each in planned] == [(period, False) for period in periods]
    forget = ForgetPeriodsOperator(**table(lake), periods=periods)
    assert [each["was_known"] for each in forget.execute({})] == [True] * len(periods)
    source.assert_exact(*periods)
    left = shell(source, capsys, "ledger", "--period", periods[0], code=1)
    assert [(each["period"], each["is_as_published"]) for each in left] == [(periods[0], False)]


@pytest.mark.thorough
def test_merges_of_a_period_are_awaited_and_the_doctor_counts_it_and_it_is_unloaded(
    source: Source, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_all(source)
    lake, first = source.lake, source.case.first
    for period in periods_of(source.case):
        assert source.load(period=period) == ["published"]
    looked = ClickHouseMergeHealthSensor(**table(lake), periods=periods_of(source.case)).poke({})
    assert set(looked.xcom_value["periods"]) == set(periods_of(source.case))
    assert {node["parts"] > 0 for nodes in looked.xcom_value["periods"].values() for node in nodes.values()} == {True}
    checks = {each["name"]: each for each in shell(source, capsys, "doctor")["checks"]}
    count = len(periods_of(source.case))
    assert f"{count} period{'s' if count > 1 else ''}, on all nodes" in checks["merges"]["summary"]
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(lake.cluster.airflow_connection()))
    where = "exports/{YYYY-MM-DD}/" if source.case is not WHOLE else "exports/all/"
    unload = ClickHouseToS3Operator(**table(lake), bucket=lake.bucket, key=where, period=first)
    assert unload.execute({})["rows"] == len(source.moments(first))
    key = f"exports/{first}/_manifest.json"
    assert json.loads(lake.s3.get_object(Bucket=lake.bucket, Key=key)["Body"].read())["period"] == first


@pytest.mark.thorough
def test_what_has_ended_is_merged_and_a_whole_table_never_has(source: Source) -> None:
    put_all(source)
    lake, periods = source.lake, periods_of(source.case)
    lake.on_every_node(f"SYSTEM STOP MERGES {lake.database}.{lake.table}")
    for period in periods:
        assert source.load(period=period) == ["published"]
    # A new one joins the parts that are there, so the table has several.
    for period in periods:
        source.put(period, "b", 7000)
        assert source.load(period=period) == ["published"]
    lake.on_every_node(f"SYSTEM START MERGES {lake.database}.{lake.table}")
    optimize = {**table(lake), "poll_interval_seconds": 0.2, "deferrable": False}
    merged = OptimizePartitionOperator(**optimize).execute({})["periods"]
    assert "all" not in merged
    if source.case is WHOLE:
        OptimizePartitionOperator(**optimize, periods=["all"]).execute({})
    assert set(parts(lake).values()) == {1}
    source.assert_exact(*periods)


def _hours(day: str) -> list[datetime]:
    return [datetime.fromisoformat(f"{day}T{hour:02}:30:00") for hour in (0, 11, 23)]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("period", "template", "moments", "key"),
    [
        ("2026-10-05T13Z", "{YYYY-MM-DD}T{HH}", [datetime(2026, 10, 5, 13, 7)], "toStartOfHour(at)"),
        ("2026-10-05", "{YYYY-MM-DD}", _hours("2026-10-05"), "toYYYYMMDD(at)"),
        ("2026-W41", "{GGGG}-W{WW}", _hours("2026-10-05"), "toMonday(at)"),
        ("2026-10", "{YYYY-MM}", _hours("2026-10-05"), "toYYYYMM(at)"),
        ("2026-Q4", "{YYYY}-Q{Q}", _hours("2026-10-05"), "toStartOfQuarter(at)"),
        ("2026", "{YYYY}", _hours("2026-10-05"), "toYear(at)"),
        ("all", "whole", _hours("2026-10-05"), ""),
    ],
)
def test_a_new_table_is_partitioned_by_the_length_of_the_period(
    lake: Lake, period: str, template: str, moments: list[datetime], key: str
) -> None:
    folder = "whole" if period == "all" else period.removesuffix("Z")
    body = "at,number\n" + "".join(f"{at:%Y-%m-%d %H:%M:%S},{number}\n" for number, at in enumerate(moments))
    lake.put(f"new/{folder}/a.csv", body.encode())
    loaded = lake.load(key=f"new/{template}/*.csv", period=period, create_table="if_missing")
    assert (loaded["status"], loaded["rows"]) == ("published", len(moments))
    sql = f"SELECT partition_key FROM system.tables WHERE database = '{lake.database}' AND name = '{lake.table}'"
    assert lake.on_node(0, sql) == [(key,)]
    assert lake.load(key=f"new/{template}/*.csv", period=period)["status"] == "unchanged"


def test_a_range_has_one_length(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--table", lake.table, "--from", "2026-10", "--to", "2026-11-05"]
    assert main(["ledger", *arguments]) == 2
    assert "Periods of one load have one length" in capsys.readouterr().err
