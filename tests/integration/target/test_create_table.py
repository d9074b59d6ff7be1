"""`create_table='if_missing'`: the table is created from the files, alike on every node, whatever else begins then."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.exceptions import NotReadyError
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.arguments import grouped
from tests.support.lake import PERIOD, Lake
from tests.support.refusal import parquet, refused
from tests.support.several_periods import PERIODS, Periods

TRIPS = Trips(rows_per_period=600, files_per_period=3)


def definitions(lake: Lake, table: str) -> list[str]:
    where = f"database = '{lake.database}' AND name = '{table}'"
    answers = lake.on_every_node(f"SELECT create_table_query FROM system.tables WHERE {where}")
    return [row[0] for rows in answers for row in rows]


@pytest.mark.three_nodes
def test_the_first_load_creates_it_alike_on_every_node_and_the_next_finds_it(lake: Lake) -> None:
    lake.upload(TRIPS)
    assert lake.load(create_table="if_missing")["status"] == "published"
    before = definitions(lake, "trips")
    assert len(before) == len(lake.cluster.nodes)
    assert len({*before}) == 1
    assert lake.facts() == TRIPS.facts(PERIOD)
    for number in range(len(lake.cluster.nodes)):
        assert lake.on_node(number, f"SELECT count() FROM {lake.database}.trips_all") == [(600,)]
    assert lake.load(create_table="if_missing")["status"] == "unchanged"
    assert definitions(lake, "trips") == before


@pytest.mark.thorough
@pytest.mark.three_nodes
@pytest.mark.parametrize("nodes_with_it", [{0}, {1}, {0, 2}])
def test_a_creation_that_was_broken_off_is_completed(lake: Lake, nodes_with_it: set[int]) -> None:
    lake.upload(TRIPS)
    lake.load(create_table="if_missing")
    before = definitions(lake, "trips")
    for number in {0, 1, 2} - nodes_with_it:
        lake.on_node(number, f"DROP TABLE {lake.database}.trips SYNC")
    lake.load(create_table="if_missing", on_target_changed="reload")
    assert definitions(lake, "trips") == before
    assert lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_loads_of_unlike_periods_that_begin_together_make_one_table(lake: Lake) -> None:
    lake.table = "numbers"
    for number in range(1, 7):
        day = pa.array([f"2026-{number:02}-05"]).cast(pa.date32())
        values = pa.array([number], [pa.int8(), pa.int16(), pa.int32()][number % 3])
        lake.put(f"n/2026-{number:02}/a.parquet", parquet(pa.table({"day": day, "n": values})))
    failed: list[BaseException] = []

    def load(number: int) -> None:
        try:
            operator = lake.operator(key="n/{YYYY-MM}/", period=f"2026-{number:02}", create_table="if_missing")
            operator.execute({})
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=load, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len({*definitions(lake, "numbers")}) == 1
    source = f"cluster('{lake.cluster.name}', {lake.database}, numbers)"
    rows = lake.on_node(0, f"SELECT toInt32(n) FROM {source} ORDER BY n")
    assert rows == [(number,) for number in range(1, 7)]


@pytest.mark.thorough
def test_a_load_of_several_periods_creates_it(lake: Lake) -> None:
    lake.table = "numbers"
    periods = Periods(lake)
    for period in PERIODS:
        periods.put(period, "a")
    assert set(periods.statuses(create_table="if_missing").values()) == {"published"}
    assert periods.found() == periods.expected()


def plan(lake: Lake, **options: Any) -> list[str]:
    arguments = {"task_id": "plan", "create_table": "if_missing", **lake.place}
    return PlanLoadsOperator(**grouped(**(arguments | options))).execute({})  # type: ignore[return-value]  # no groups


@pytest.mark.thorough
def test_a_plan_creates_it_from_the_newest_period_that_has_files(lake: Lake) -> None:
    lake.upload(TRIPS, "2026-08")
    day = pa.array(["2026-09-05"]).cast(pa.date32())
    lake.put("trips/2026-09/a.parquet", parquet(pa.table({"day": day, "n": pa.array([1])})))
    periods = ["2026-08", "2026-09", "2026-10"]
    assert plan(lake, last_period="2026-10", lookback=2) == periods[:2]
    (found,) = definitions(lake, "trips")
    assert "PARTITION BY toYYYYMM(day)" in found
    assert plan(lake, last_period="2026-10", lookback=2) == periods[:2]


def test_the_commands_that_only_look_leave_its_creation_to_the_load(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.upload(TRIPS)
    load = {**lake.place, "create_table": "if_missing"}
    path = tmp_path / "loads.json"
    path.write_text(json.dumps({"loads": [load]}), encoding="utf-8")
    assert main(["plan", "--loads", str(path), "--all-periods"]) == 1
    assert "trips: 1 of 1 period to load" in capsys.readouterr().out
    assert main(["doctor", "--loads", str(path), "--output", "json"]) == 0
    (diagnosis,) = json.loads(capsys.readouterr().out)
    table = next(check for check in diagnosis["checks"] if check["name"] == "table")
    assert (table["findings"], table["skipped"]) == (
        [],
        f"{lake.database}.trips does not exist on all nodes: its load creates it",
    )
    assert definitions(lake, "trips") == []
    lake.load(create_table="if_missing")
    assert main(["plan", "--loads", str(path), "--all-periods"]) == 0


def test_without_files_there_is_nothing_to_create_it_from(lake: Lake) -> None:
    assert plan(lake, last_period="2026-10", lookback=1) == []
    assert plan(lake, periods=["2026-10"]) == ["2026-10"]
    assert definitions(lake, "trips") == []
    with pytest.raises(AirflowSkipException):
        lake.load(create_table="if_missing", on_no_objects="skip")
    with pytest.raises(NotReadyError, match="No objects for 2026-10"):
        lake.load(create_table="if_missing")
    with pytest.raises(AirflowFailException, match="does not exist"):
        lake.load(create_table="if_missing", on_no_objects="empty")


def test_what_it_cannot_create_it_refuses(lake: Lake) -> None:
    lake.put(f"trips/{PERIOD}/a.parquet", parquet(pa.table({"n": pa.array([1])})))
    refused(lake, f"No column has dates in {PERIOD}", create_table="if_missing")
    refused(lake, "columns or select name those to load", create_table="if_missing", columns=["n"])
    refused(lake, "create_table='always' is not allowed: use one of never", create_table="always")
    refused(lake, "does not exist")


def test_a_table_with_a_dot_in_its_name_is_not_created(lake: Lake) -> None:
    lake.upload(TRIPS)
    with pytest.raises(AirflowFailException, match="creates no table with a dot in its name"):
        lake.load(table="other.trips", create_table="if_missing")
    with pytest.raises(
        AirflowFailException, match=r"\(all of 'other.trips' is its name, as database is set\) does not"
    ):
        lake.load(table="other.trips")
    assert definitions(lake, "other.trips") == []
