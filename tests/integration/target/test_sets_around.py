"""The things around loads of periods of several partitions: ledger, plan, merges, unload, adoption."""

from __future__ import annotations

import json

import pytest

from airflow_provider_chs3.operators.ledger import AdoptPeriodsOperator, ForgetPeriodsOperator
from airflow_provider_chs3.operators.optimize import OptimizePartitionOperator
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.transfers.clickhouse_to_s3 import ClickHouseToS3Operator
from tests.integration.target.table_commands import parts, shell, table
from tests.support import deferring
from tests.support.lake import Lake
from tests.support.sets import Case, Tenants
from tests.support.slow import SLOW_SETTINGS

CASE = Case("(tenant, toYYYYMM(at))", first="2025-10", second="2025-11")
BOTH = [CASE.first, CASE.second]


@pytest.fixture
def tenants(lake: Lake) -> Tenants:
    """Objects of two months of three tenants, of which nothing is loaded."""
    tenants = Tenants(lake, CASE)
    for number, period in enumerate(BOTH):
        tenants.put(period, "a", *((name, 10 * number + each) for each, name in enumerate(("eu", "us", "us", "asia"))))
    return tenants


@pytest.mark.thorough
def test_periods_are_adopted_listed_planned_and_forgotten(tenants: Tenants, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tenants.lake
    for rows in tenants.rows.values():
        values = ", ".join(f"({at}, '{tenant}', 'k', {number})" for at, (tenant, number) in rows)
        lake.on_node(0, f"INSERT INTO {tenants.name} VALUES {values}")
    place = {"bucket": lake.bucket, "key": "tenants/{YYYY-MM}/*.csv"}
    definition = {"columns": ["at", "tenant", "kind", "number"], "files": {"file_format": "CSV"}}
    adopt = AdoptPeriodsOperator(**table(lake), **place, periods=BOTH, **definition)
    assert [(each["status"], each["rows"]) for each in adopt.execute({})] == [("adopted", 4)] * 2
    assert tenants.load(periods=BOTH) == ["unchanged", "unchanged"]
    listed = shell(tenants, capsys, "ledger")
    assert [(each["period"], each["rows"], each["is_as_published"]) for each in listed] == [
        (period, 4, True) for period in BOTH
    ]
    key = ["--bucket", lake.bucket, "--key", place["key"]]
    planned = shell(tenants, capsys, "plan", *key, "--from", BOTH[0], "--to", BOTH[1])
    assert [(each["period"], each["is_to_load"]) for each in planned] == [(period, False) for period in BOTH]
    planned = shell(tenants, capsys, "plan", *key, "--all-periods")
    assert [(each["period"], each["is_to_load"]) for each in planned] == [(period, False) for period in BOTH]
    lake.on_node(0, f"INSERT INTO {tenants.name} VALUES ('2025-11-09 00:00:00', 'new', 'k', 99)")
    listed = shell(tenants, capsys, "ledger", code=1)
    assert [(each["period"], each["is_as_published"]) for each in listed] == [
        ("2025-10", True),
        ("2025-11", False),
    ]
    assert "rows that no load wrote: ('new',202511)" in listed[1]["state"]
    forget = ForgetPeriodsOperator(**table(lake), periods=BOTH)
    assert [(each["was_known"], each["rows"]) for each in forget.execute({})] == [(True, 4), (True, 5)]
    left = shell(tenants, capsys, "ledger", "--period", "2025-10", code=1)
    assert [(each["period"], each["is_as_published"]) for each in left] == [("2025-10", False)]


def test_merges_of_all_partitions_are_awaited(tenants: Tenants, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tenants.lake
    tenants.load(periods=BOTH)
    looked = ClickHouseMergeHealthSensor(**table(lake), periods=BOTH).poke({})
    assert [node["parts"] for nodes in looked.xcom_value["periods"].values() for node in nodes.values()] == [3, 3]
    checks = {each["name"]: each for each in shell(tenants, capsys, "doctor")["checks"]}
    assert "2 periods, on all nodes: 6 healthy" in checks["merges"]["summary"]


@pytest.mark.thorough
def test_partitions_of_what_has_ended_are_merged(tenants: Tenants) -> None:
    lake = tenants.lake
    lake.on_every_node(f"SYSTEM STOP MERGES {tenants.name}")
    tenants.load(periods=BOTH)
    tenants.put("2025-10", "b", ("eu", 7), ("us", 8))
    tenants.load(period="2025-10")
    lake.on_every_node(f"SYSTEM START MERGES {tenants.name}")
    optimize = OptimizePartitionOperator(**table(lake), poll_interval_seconds=0.2, deferrable=False)
    merged = optimize.execute({})["periods"]
    assert {name.split()[0] for name in merged} == {"2025-10"}
    assert len(merged) == 2
    assert set(parts(lake).values()) == {1}
    tenants.assert_exact()
    assert tenants.load(periods=BOTH) == ["unchanged", "unchanged"]


@pytest.mark.thorough
def test_a_period_is_unloaded(tenants: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tenants.lake
    tenants.load(periods=BOTH)
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(lake.cluster.airflow_connection()))
    unload = ClickHouseToS3Operator(**table(lake), bucket=lake.bucket, key="exports/{YYYY-MM}/", period="2025-10")
    assert unload.execute({})["rows"] == 4
    listed = lake.s3.list_objects_v2(Bucket=lake.bucket, Prefix="exports/2025-10/")["Contents"]
    copy = Tenants(Lake(lake.cluster, lake.s3, lake.bucket, lake.database, table="copy"), CASE)
    assert len(listed) == 2
    copy.lake.operator(key="exports/{YYYY-MM}/", period="2025-10").execute({})
    assert copy.found() == [row for row in tenants.expected() if row[2] < 10]


@pytest.mark.thorough
@pytest.mark.parametrize("periods", [BOTH[:1], BOTH], ids=["one", "two"])
def test_a_deferred_load_is_resumed(lake: Lake, monkeypatch: pytest.MonkeyPatch, periods: list[str]) -> None:
    deferring.hurry(monkeypatch)
    tenants = Tenants(lake, CASE, header="at,tenant,kind,number\n")
    columns = {name: name for name in ("at", "tenant", "kind")}
    options = {
        "key": "tenants/{YYYY-MM}/*.csv",
        "file_format": "CSVWithNames",
        "select": {**columns, "number": "toUInt64(number) + sleepEachRow(0.2)"},
        "settings": SLOW_SETTINGS,
        "period": None,
        "periods": periods,
    }
    for names in (("eu", "us", "us"), ("us", "asia")):
        for period in periods:
            tenants.put(period, "a", *((name, number) for number, name in enumerate(names * 3)))
        result = deferring.start(lake, **options)
        while isinstance(result, deferring.Deferred):
            result = result.resume()
        assert [each["status"] for each in result] == ["published"] * len(periods)
        tenants.assert_exact()
    assert {name.split(",")[0] for name in tenants.partitions()} == {"('us'", "('asia'"}
