"""Commands about the loads of a DAG, and of a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.dag_bag import bundles_in
from tests.support.lake import PERIOD, Lake

TRIPS = Trips(rows_per_period=300, files_per_period=3)
DAG = """
from airflow.sdk import DAG
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

where = {where}
trips = Load(**where, key="trips/{{YYYY-MM}}/", select={{"trip_id": "trip_id", "pickup_at": "pickup_at"}})
with DAG("trips_nightly", schedule=None, params={{"lake": "{bucket}"}}):
    scheduled_load(load=trips, lookback=1)
    of_params = {{**where, "bucket": "{{{{ params.lake }}}}"}}
    S3ToClickHouseOperator(task_id="again", **of_params, key="trips/{{YYYY-MM}}/", period="{{{{ ds[:7] }}}}")
    S3ToClickHouseOperator.partial(task_id="mapped", load=trips).expand(period=["2026-10"])
    S3ToClickHouseOperator(task_id="of_a_run", **where, key="{{{{ ds }}}}/{{YYYY-MM}}/", period="2026-10")
"""
Run = Callable[..., tuple[int, Any]]


@pytest.fixture
def dag(trips_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DAG that loads the table in several ways."""
    where = {**trips_lake.target, "bucket": trips_lake.bucket}
    (tmp_path / "nightly.py").write_text(DAG.format(where=where, bucket=trips_lake.bucket), encoding="utf-8")
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", bundles_in(tmp_path))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = main([*arguments, "--output", "json"])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else err

    return run


@pytest.mark.usefixtures("dag")
class TestDag:
    def test_the_task_says_what_is_loaded_and_how(
        self, trips_lake: Lake, run: Run, capsys: pytest.CaptureFixture[str]
    ) -> None:
        trips_lake.upload(TRIPS)
        task = ("--dag", "trips_nightly", "--task")
        code, planned = run("plan", *task, "trips", "--period", PERIOD)
        assert (code, [(load["load"], load["reason"]) for load in planned]) == (
            1,
            [("trips.period.load", "never loaded")],
        )
        selected = {"trip_id": "trip_id", "pickup_at": "pickup_at"}
        trips_lake.load(select=selected)
        for name in ("trips", "mapped"):
            assert run("plan", *task, name, "--period", PERIOD)[0] == 0
        # It loads all columns.
        code, planned = run("plan", *task, "again", "--period", PERIOD)
        assert (code, planned[0]["reason"]) == (1, "its definition changed since it was published")
        code, proved = run("prove", *task, "mapped", "--period", PERIOD)
        assert (code, proved[0]["status"], proved[0]["definition"]) == (0, "equal", {"select": selected})
        code, doctor = run("doctor", *task, "trips", "--period", PERIOD)
        assert (code, [load["load"] for load in doctor]) == (0, ["trips.period.load"])
        capsys.readouterr()
        assert main(["doctor", *task, "trips", "--period", PERIOD]) == 0
        assert "No findings." in capsys.readouterr().out

    def test_a_template_that_only_a_run_knows_is_named(self, run: Run) -> None:
        code, error = run("plan", "--dag", "trips_nightly", "--task", "of_a_run", "--period", PERIOD)
        assert (code, error) == (
            2,
            "plan: key='{{ ds }}/{YYYY-MM}/' of task 'of_a_run' is known only in a run ('ds' is undefined): name the "
            "load in another way, with --table or --loads.\n",
        )

    def test_what_does_not_exist_is_named_with_what_does(self, run: Run) -> None:
        assert run("plan", "--dag", "trips", "--all-periods") == (
            2,
            "plan: There is no DAG 'trips' in Airflow's DAG bundles.\n",
        )
        assert run("plan", "--dag", "trips_nightly", "--task", "load", "--all-periods") == (
            2,
            "plan: DAG 'trips_nightly' has no load 'load': it has trips.period.load, again, mapped, of_a_run.\n",
        )


class TestFile:
    @pytest.fixture
    def loads(self, trips_lake: Lake, tmp_path: Path) -> str:
        """A file of three loads: of a table, of a missing one, and of one that cannot be reached."""
        trips_lake.upload(TRIPS)
        where = {"database": trips_lake.database, "cluster": trips_lake.cluster.name, "bucket": trips_lake.bucket}
        loads = [
            {"table": trips_lake.table, "key": "trips/{YYYY-MM}/"},
            {"name": "gone", "table": "no_such_table", "key": "gone/{YYYY-MM}/"},
            {"name": "away", "table": "trips", "key": "away/{YYYY-MM}/", "clickhouse_conn_id": "nowhere"},
        ]
        file = tmp_path / "loads.yaml"
        file.write_text(json.dumps({"defaults": where, "loads": loads}), encoding="utf-8")
        return str(file)

    def test_one_table_has_all_of_them_and_an_error_hides_no_other(
        self, loads: str, trips_lake: Lake, run: Run, capsys: pytest.CaptureFixture[str]
    ) -> None:
        trips_lake.load()
        code, planned = run("plan", "--loads", loads, "--period", PERIOD)
        assert code == 2
        assert [(load["load"], load.get("reason"), "error" in load) for load in planned] == [
            ("trips", "as published", False),
            ("gone", None, True),
            ("away", None, True),
        ]
        assert main(["plan", "--loads", loads, "--period", PERIOD]) == 2
        out, err = capsys.readouterr()
        first, *_, header, _, row = out.rstrip().splitlines()
        assert first == "trips: 0 of 1 period to load"
        assert header.split() == ["load", "period", "to", "do", "reason", "objects", "size"]
        assert row.split()[:4] == ["trips", PERIOD, "leave", "as"]
        assert "plan: gone: " in err
        assert "plan: away: The conn_id `nowhere` isn't defined" in err

    def test_without_rows_there_is_a_line_for_each_load_and_no_empty_one(
        self, loads: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        capsys.readouterr()
        assert main(["versions", "--loads", loads, "trips"]) == 0
        assert capsys.readouterr().out == "trips: 0 versions\n"

    def test_loads_are_chosen_by_name(self, loads: str, run: Run) -> None:
        code, planned = run("plan", "--loads", loads, "trips", "trips", "--period", PERIOD)
        assert (code, [(load["load"], load["reason"]) for load in planned]) == (1, [("trips", "never loaded")])
        assert run("ledger", "--loads", loads, "trips", "--period", PERIOD) == (1, [])
        (_, told) = run("plan", "--loads", f"{loads}.txt", "--period", PERIOD)
        assert "cannot be read: No such file or directory." in str(told)
        (_, told) = run("forget", "--loads", loads, "trips")
        assert "Name the periods: --period, --from and --to, or --all-periods." in str(told)
        assert run("ledger", "--loads", loads, "tripz") == (
            2,
            f"ledger: {loads} has no load tripz: it has trips, gone, away.\n",
        )

    def test_there_is_one_way_to_name_a_table(self, loads: str, run: Run) -> None:
        ways = "of --table, --loads FILE (all its loads, or those named after it) and --dag ID."
        assert run("versions") == (2, f"versions: Nothing says which table: pass one {ways}\n")
        assert run("ledger", "--loads", loads, "--dag", "d") == (
            2,
            f"ledger: --loads and --dag: pass one of them {ways}\n",
        )
        assert run("plan", "--loads", loads, "--key", "k", "--all-periods") == (
            2,
            "plan: --key: --loads says this. Leave it out.\n",
        )

    def test_its_schema_is_printed(self, loads: str, run: Run) -> None:
        code, schema = run("schema")
        assert code == 0
        jsonschema.validate(json.loads(Path(loads).read_text(encoding="utf-8")), schema)
