"""`chs3 ledger` and `chs3 costs` without a table: all tables of a connection."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import Lake

TRIPS = Trips(rows_per_period=300, files_per_period=3)
LAST = Period.of(datetime.now(UTC).replace(tzinfo=None), Grain.MONTH).shifted(-1)


@pytest.fixture
def lake(trips_lake: Lake) -> Lake:
    for period in (LAST.shifted(-1), LAST):
        trips_lake.upload(TRIPS, str(period))
        trips_lake.load(period=str(period), fresh_by="6h")
    trips_lake.table = "fares"
    trips_lake.create_table()
    trips_lake.load(period=str(LAST))
    trips_lake.table = "trips"
    return trips_lake


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = main([*arguments, "--output", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_without_a_table_the_ledger_is_an_overview_and_costs_add_up_the_loads_of_each(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    of_cluster = ("--cluster", lake.cluster.name)
    code, tables = run(capsys, "ledger", *of_cluster)
    fares, trips = (table for table in tables if table["database"] == lake.database)
    assert (fares["table"], fares["periods"], fares["rows"], fares["newest"]) == ("fares", 1, 300, str(LAST))
    assert (trips["table"], trips["periods"], trips["rows"], trips["states"]) == ("trips", 2, 600, {})
    assert (fares["freshness"], trips["freshness"]["fresh_by"]) == (None, "6h UTC")
    assert (code, trips["freshness"]["is_fresh"]) == (0, True)
    lake.on_node(0, f"INSERT INTO {lake.database}.fares (trip_id, pickup_at) VALUES (1, '{LAST}-05')")
    code, tables = run(capsys, "ledger", *of_cluster)
    assert (code, next(table["states"] for table in tables if table["table"] == "fares")) == (1, {"changed": 1})
    assert main(["ledger", *of_cluster]) == 1
    assert "1 changed" in capsys.readouterr().out

    values = "sum(loaded_bytes), sum(insert_seconds)"
    of_trips = f"FROM {lake.database}.chs3_loads WHERE event = 'load' AND target_table = 'trips'"
    ((read_bytes, seconds),) = lake.on_node(0, f"SELECT {values} {of_trips}")
    code, costs = run(capsys, "costs", *of_cluster)
    trips = next(cost for cost in costs if (cost["database"], cost["table"]) == (lake.database, "trips"))
    nodes = len(lake.cluster.nodes)
    assert (code, trips["loads"], trips["rows"], trips["read_bytes"]) == (0, 2, 600, read_bytes)
    assert trips["node_seconds"] == pytest.approx(seconds * nodes, abs=0.1)
    of_one = ("--table", f"{lake.database}.trips", *of_cluster)
    assert run(capsys, "costs", *of_one) == (0, [trips])
    lake.on_every_node(f"TRUNCATE TABLE IF EXISTS {lake.database}.chs3_loads")
    assert main(["costs", *of_one, "--days", "7"]) == 0
    assert "No load in the last 7 days." in capsys.readouterr().out
