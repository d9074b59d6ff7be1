"""Tables that are due: what loads record, and what `chs3 status`, `plan` and `ledger` say of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.hooks.clickhouse import ClickHouseHook
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.operators.plan_loads import PlanLoadsOperator
from airflow_provider_chs3.table import Table
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.lake import Lake

TRIPS = Trips(rows_per_period=300, files_per_period=1)
RUNNING = Period.of(datetime.now(UTC).replace(tzinfo=None), Grain.MONTH)
LAST, EARLIER = RUNNING.shifted(-1), RUNNING.shifted(-2)
Run = Callable[..., tuple[int, Any]]


@pytest.fixture
def file(trips_lake: Lake, tmp_path: Path) -> Path:
    load = trips_lake.place
    path = tmp_path / "loads.json"
    others = [{**load, "name": "quick", "fresh_by": "1h"}, {**load, "name": "never"}]
    path.write_text(json.dumps({"loads": [{**load, "fresh_by": "00:00"}, *others]}), encoding="utf-8")
    return path


@pytest.fixture
def run(file: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(command: str, *arguments: str, output: str = "json") -> tuple[int, Any]:
        capsys.readouterr()
        code = main([command, "--loads", str(file), *arguments, "--output", output])
        out, err = capsys.readouterr()
        return code, json.loads(out) if output == "json" else out + err

    return run


def loaded(lake: Lake, *periods: Period, **options: Any) -> None:
    for period in periods:
        lake.upload(TRIPS, str(period))
        lake.load(period=str(period), **options)


def records(lake: Lake) -> list[tuple[Any, ...]]:
    sql = f"SELECT period, event, fresh_by FROM {lake.database}.chs3_loads WHERE event != 'inserting' ORDER BY sequence"
    return [row for rows in lake.on_every_node(sql) for row in rows]


def test_a_table_is_late_until_the_period_that_is_due_is_loaded(trips_lake: Lake, run: Run) -> None:
    loaded(trips_lake, EARLIER)
    code, (status, *others) = run("status")
    assert (code, status["is_fresh"], status["missing"]) == (1, False, 1)
    assert {other["load"]: other["is_fresh"] for other in others} == {"quick": False, "never": None}
    due = LAST.end.isoformat() + "+00:00"
    assert (status["complete"], status["next_period"], status["due_at"]) == (str(EARLIER), str(LAST), due)
    code, text = run("status", output="table")
    assert (code, f"{LAST} was due {LAST.end:%Y-%m-%d %H:%M} UTC" in text) == (1, True)
    assert "no fresh_by says when it is due" in text
    assert run("status", "never")[0] == 0
    assert f"{LAST} was due" in run("ledger", "trips", output="table")[1]
    _, text = run("plan", "trips", "--from", str(EARLIER), "--to", str(LAST), output="table")
    assert f"{LAST} was due {LAST.end:%Y-%m-%d} 00:00 UTC, but it has no objects yet." in text

    loaded(trips_lake, LAST)
    code, (status, *_) = run("status")
    assert (code, status["complete"], status["due_at"]) == (0, str(LAST), RUNNING.end.isoformat() + "+00:00")
    assert f"The table is fresh until {RUNNING.end:%Y-%m-%d} 00:00 UTC." in run("ledger", "trips", output="table")[1]
    # A period that somebody changed is none that is there.
    trips_lake.on_every_node(f"ALTER TABLE {trips_lake.database}.trips DROP PARTITION {str(LAST).replace('-', '')}")
    code, (status,) = run("status", "trips")
    assert (code, status["complete"], status["changed"]) == (1, str(EARLIER), 1)
    # So are partitions that are in no ledger.
    trips_lake.upload(TRIPS, str(RUNNING))
    trips_lake.insert_objects(str(RUNNING))
    _, (status,) = run("status", "trips")
    assert (status["periods"], status["changed"]) == (2, 2)


@pytest.mark.thorough
def test_a_period_that_was_loaded_before_its_end_is_complete_once_a_load_or_a_plan_looked_again(
    trips_lake: Lake, run: Run
) -> None:
    loads = f"{trips_lake.database}.chs3_loads"
    loaded(trips_lake, LAST, fresh_by="00:00")
    assert records(trips_lake) == [(str(LAST), "load", "00:00 UTC")]
    # As if it had been loaded a day before it ended.
    trips_lake.on_every_node(f"TRUNCATE TABLE {loads}")
    trips_lake.on_every_node(
        f"ALTER TABLE {trips_lake.database}.chs3_ledger UPDATE recorded_at = '{LAST.last:%Y-%m-%d} 00:00:00' WHERE 1 "
        "SETTINGS mutations_sync = 2"
    )
    # The command of a plan writes nothing, nor does a load that does not say when it is due.
    assert run("plan", "trips", "--period", str(LAST))[0] == 0
    trips_lake.load(period=str(LAST))
    assert (records(trips_lake), run("status", "trips")[0]) == ([], 1)
    for _ in range(2):
        trips_lake.load(period=str(LAST), fresh_by="00:00")
        assert records(trips_lake) == [(str(LAST), "unchanged", "00:00 UTC")]
    assert run("status", "trips")[0] == 0
    # A table's newest load says when it is due, if nobody else does.
    assert main(["status", "--table", f"{trips_lake.database}.trips", "--cluster", trips_lake.cluster.name]) == 0
    trips_lake.load(period=str(LAST), fresh_by="3h")
    assert records(trips_lake)[1:] == [(str(LAST), "unchanged", "3h UTC")]

    # The task of a plan leaves one record.
    trips_lake.on_every_node(f"TRUNCATE TABLE {loads}")
    plan = {**trips_lake.place, "fresh_by": "00:00"}
    for _ in range(2):
        assert PlanLoadsOperator(task_id="plan", **plan, periods=[str(LAST)]).execute({}) == []
        assert records(trips_lake) == [(str(LAST), "unchanged", "00:00 UTC")]
    assert run("status", "trips")[0] == 0
    # A load that is still inserting may know newer objects: the plan would record that it is due at another time.
    of_a_load = "* REPLACE ('inserting' AS event, sequence + 1 AS sequence)"
    trips_lake.on_node(0, f"INSERT INTO {loads} SELECT {of_a_load} FROM {loads}")
    PlanLoadsOperator(task_id="plan", **(plan | {"fresh_by": "3h"}), periods=[str(LAST)]).execute({})
    assert records(trips_lake) == [(str(LAST), "unchanged", "00:00 UTC")]


def test_the_running_period_is_not_due(trips_lake: Lake, run: Run) -> None:
    loaded(trips_lake, RUNNING, fresh_by="00:00")
    code, (status,) = run("status", "trips")
    assert (code, status["complete"], status["next_period"], status["missing"]) == (0, None, str(RUNNING), 0)


def test_a_plan_says_in_one_line_that_years_have_no_objects(trips_lake: Lake, run: Run) -> None:
    loaded(trips_lake, EARLIER)
    empty = [*Period.parse("2020-01").through(EARLIER.shifted(-1))]
    arguments = ("trips", "--from", "2020-01", "--to", str(LAST))
    _, text = run("plan", *arguments, output="table")
    told = [re.split(r" {2,}", line)[1] for line in text.splitlines() if line.startswith("trips ")]
    assert told == [f"2020-01 … {empty[-1]} ({len(empty)} months)", str(EARLIER), str(LAST)]
    assert len(run("plan", *arguments)[1]) == len(empty) + 2


@pytest.mark.thorough
def test_status_and_plan_forecast_the_load_of_what_is_missing(trips_lake: Lake, run: Run) -> None:
    loaded(trips_lake, *(EARLIER.shifted(-back) for back in range(5)))
    code, (status,) = run("status", "trips")
    assert (code, 0 < status["seconds"] < 60) == (1, True)
    assert "too late" in run("status", "trips", output="table")[1]
    trips_lake.upload(TRIPS, str(LAST))
    _, text = run("plan", "trips", "--period", str(LAST), output="table")
    assert f"{LAST} was due {LAST.end:%Y-%m-%d} 00:00 UTC." in text
    trips_lake.load(period=str(LAST))
    _, text = run("plan", "trips", "--period", str(LAST), output="table")
    assert f"{LAST} is loaded: the table is fresh until {RUNNING.end:%Y-%m-%d} 00:00 UTC." in text
    code, (status,) = run("status", "quick")
    assert (code, status["due_at"]) == (0, f"{RUNNING.end:%Y-%m-%d}T01:00:00+00:00")
    assert f"{RUNNING.end.replace(day=1):%Y-%m-%d} 00:59" in run("status", "quick", output="table")[1]
    trips_lake.upload(TRIPS, str(RUNNING))
    assert "is due" not in run("plan", "trips", "--period", str(RUNNING), output="table")[1]


@pytest.mark.thorough
def test_a_late_table_is_one_exit_code_for_each_command(trips_lake: Lake, run: Run) -> None:
    loaded(trips_lake, EARLIER, fresh_by="00:00")
    table = ["--table", f"{trips_lake.database}.trips", "--cluster", trips_lake.cluster.name]

    def codes() -> list[int]:
        of_all = main(["ledger", "--cluster", trips_lake.cluster.name])
        return [of_all, main(["ledger", *table]), main(["status", *table]), run("ledger", "trips")[0]]

    assert codes() == [1, 1, 1, 1]
    # A period of it is as it was published.
    assert main(["ledger", *table, "--period", str(EARLIER)]) == 0
    # What was adopted does not say when the table is due.
    trips_lake.upload(TRIPS, str(LAST))
    trips_lake.insert_objects(str(LAST))
    assert run("adopt", "never", "--period", str(LAST))[0] == 0
    assert codes() == [0, 0, 0, 0]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("column", "key", "zone"),
    [
        ("DateTime('UTC')", "toYYYYMM(at, 'America/New_York')", "America/New_York"),
        ("DateTime('Asia/Kolkata')", "toYYYYMM(at)", "Asia/Kolkata"),
        ("Date", "toYYYYMM(at)", "UTC"),
    ],
)
def test_a_load_without_a_time_zone_ends_its_periods_as_the_partition_key_does(
    lake: Lake, capsys: pytest.CaptureFixture[str], tmp_path: Path, column: str, key: str, zone: str
) -> None:
    running = Period.of(datetime.now(ZoneInfo(zone)).replace(tzinfo=None), Grain.MONTH)
    last = running.shifted(-1)
    table = f"{lake.database}.trips (at {column}) ENGINE = MergeTree PARTITION BY {key} ORDER BY at"
    lake.on_every_node(f"CREATE TABLE {table}")
    lake.put(f"trips/{last}/a.csv", f"at\n{last.begin + timedelta(days=9):%Y-%m-%d}\n".encode())
    where = {**lake.target, "bucket": lake.bucket}
    load = Load(**where, key="trips/{YYYY-MM}/*.csv", columns=["at"], fresh_by="07:00")
    Table.of(ClickHouseHook(), load).load(load, str(last))
    assert records(lake) == [(str(last), "load", f"07:00 {zone}")]
    (tmp_path / "loads.json").write_text(json.dumps({"loads": [load.arguments]}), encoding="utf-8")
    due = running.end.replace(hour=7, tzinfo=ZoneInfo(zone))
    for command, told in {
        "status": f"fresh until {due:%Y-%m-%d %H:%M %Z}",
        "ledger": f"The table is fresh until {due:%Y-%m-%d %H:%M %Z}.",
        "plan": f"{last} is loaded: the table is fresh until {due:%Y-%m-%d %H:%M %Z}.",
    }.items():
        capsys.readouterr()
        of_periods = ["--period", str(last)] if command == "plan" else []
        assert main([command, "--loads", str(tmp_path / "loads.json"), *of_periods]) == 0
        assert told in capsys.readouterr().out
