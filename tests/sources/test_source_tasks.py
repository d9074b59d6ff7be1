"""Tasks that load from tables of databases and lakehouses do all that those of objects do, or refuse it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk.exceptions import AirflowTaskTerminated

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.testbed.trips import Trips
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.sources.row_lake import RowLake
from tests.sources.slow_source import SLOW
from tests.sources.source_lake import SourceLake, inputs_of, wait_for_insert
from tests.sources.trips_target import PERIOD
from tests.support import deferring

TRIPS = Trips(rows_per_period=3_000)
OF_FILES: dict[str, Any] = {
    "file_format": "CSV",
    "compression": "gzip",
    "csv": {"delimiter": ";"},
    "naive_timestamps": "utc",
    "count_again": True,
    "on_new_columns": "add",
}
#: Two of four sources always run: they differ only in their loads.
pytestmark = pytest.mark.thorough(but=2)


@pytest.fixture
def lake(source_lake: SourceLake) -> SourceLake:
    """A table of a database or a lakehouse with a period of trips, and an empty one that it is loaded into."""
    source_lake.put(TRIPS.table(PERIOD))
    return source_lake


def is_of_rows(lake: SourceLake) -> bool:
    return isinstance(lake, RowLake)


@pytest.mark.thorough(but=1, first=1)
def test_a_deferred_load_goes_on_without_its_worker(lake: SourceLake, monkeypatch: pytest.MonkeyPatch) -> None:
    deferring.hurry(monkeypatch)
    assert deferring.start(lake, **SLOW).resume()["status"] == "published"
    assert lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough(but=1)
@pytest.mark.three_nodes
@pytest.mark.every_change
def test_on_kill_ends_the_queries_and_drops_staging(lake: SourceLake) -> None:
    operator = lake.operator(**SLOW)
    with ThreadPoolExecutor() as pool:
        load = pool.submit(operator.execute, {})
        wait_for_insert(lake)
        operator.on_kill()
        assert lake.left_behind() == []
        with pytest.raises(AirflowTaskTerminated):
            load.result(timeout=300)
    assert sum(rows[0][0] for rows in lake.on_every_node(f"SELECT count() FROM {lake.database}.trips")) == 0


@pytest.mark.thorough
def test_it_waits_for_merges_and_has_the_result_of_a_load(lake: SourceLake) -> None:
    result = lake.load(wait_for_merges=True, merge_health={"settled_after_seconds": 0})
    assert {"status", "rows", "seconds_by_step", "query_ids", "settings", "merges"} <= result.keys()
    assert result["rows"] == 3_000


@pytest.mark.thorough
def test_lineage_tells_the_table_whether_it_was_read_or_not(lake: SourceLake) -> None:
    for has_read in (True, False):
        operator = lake.operator()
        operator.execute({})
        ((*dataset, facets),) = inputs_of(operator)
        assert tuple(dataset) == lake.dataset
        assert ("inputStatistics" in facets) == has_read


@pytest.mark.thorough(but=1)
def test_it_is_a_load_of_its_own_without_arguments_of_s3(lake: SourceLake) -> None:
    operator = lake.operator()
    assert isinstance(operator, PeriodLoadTask)
    assert not isinstance(operator, S3ToClickHouseOperator)
    assert operator.operator_extra_links
    assert "key" not in operator.template_fields
    with pytest.raises(TypeError, match="key"):
        lake.operator(key="trips/{YYYY-MM}/")


@pytest.mark.thorough(but=1)
def test_templates_of_the_source_and_the_period_are_rendered(lake: SourceLake) -> None:
    name, value = lake.source_argument
    operator = lake.operator(**{name: "{{ params.name }}", "period": "{{ params.period }}"})
    operator.render_template_fields({"params": {"name": value, "period": PERIOD}})
    assert operator.execute({})["rows"] == 3_000


@pytest.mark.parametrize("name", OF_FILES)
def test_what_is_about_files_is_refused_of_rows(row_lake: RowLake, name: str) -> None:
    row_lake.put(TRIPS.table(PERIOD))
    with pytest.raises(AirflowFailException, match=f"{name}.*: this is about files, but .* has no files. Leave it out"):
        row_lake.load(**{name: OF_FILES[name]})
    assert sum(row_lake.rows_per_node()) == 0


@pytest.mark.thorough(but=1, first=1)
def test_a_table_is_created_from_files_alone(lake: SourceLake) -> None:
    lake.on_every_node(f"DROP TABLE {lake.database}.trips SYNC")
    if is_of_rows(lake):
        with pytest.raises(
            AirflowFailException, match=r"gets its columns from files, but .* has no files: create .* yourself"
        ):
            lake.load(create_table="if_missing")
        return
    assert lake.load(create_table="if_missing")["rows"] == 3_000


@pytest.mark.thorough
def test_new_columns_are_found(lake: SourceLake) -> None:
    drop = f"ALTER TABLE {lake.database}.trips DROP COLUMN payment_type"
    lake.on_every_node(drop)
    with pytest.raises(AirflowFailException, match=r"have columns that .* lacks: .*'payment_type'"):
        lake.load(on_new_columns="fail")
    if not is_of_rows(lake):
        lake.load(on_new_columns="add")
        assert lake.facts() == TRIPS.facts(PERIOD)


@pytest.mark.thorough(but=1, first=1)
def test_a_ready_marker_is_refused(lake: SourceLake) -> None:
    with pytest.raises(AirflowFailException, match=r"ready_key'\]='_SUCCESS' names an object, and .* has rows"):
        lake.load(ready_key="_SUCCESS")


def command(capsys: pytest.CaptureFixture[str], lake: SourceLake, name: str, *options: str) -> tuple[int, Any]:
    """The exit code of a command of the source and the table, and what it prints as JSON; else its error."""
    capsys.readouterr()
    table = ["--database", lake.database, "--table", "trips", "--cluster", lake.cluster.name]
    code = main([name, "--output=json", *lake.doctor_options, *table, *options])
    out, error = capsys.readouterr()
    return code, json.loads(out) if out else error


@pytest.mark.thorough
@pytest.mark.three_nodes
def test_the_command_line_plans_and_adopts_its_periods(lake: SourceLake, capsys: pytest.CaptureFixture[str]) -> None:
    # By the key nodes share the rows, and a period is recorded with the sum of its keys.
    key = ["--key-column", "trip_id"] if is_of_rows(lake) else []
    code, (planned,) = command(capsys, lake, "plan", "--all-periods", *key)
    assert (code, planned["period"], planned["is_to_load"]) == (1, PERIOD, True)
    lake.load()
    code, (planned,) = command(capsys, lake, "plan", "--period", PERIOD, *key)
    assert (code, planned["is_to_load"]) == (0, False)
    lake.on_every_node(f"DROP TABLE {lake.database}.chs3_ledger SYNC")
    code, (adopted,) = command(capsys, lake, "adopt", "--period", PERIOD, *key)
    assert (code, adopted["status"]) == (0, "adopted")
    assert lake.load()["status"] == "unchanged"


@pytest.mark.thorough
def test_the_command_line_suggests_a_table_for_files_alone(
    lake: SourceLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.on_every_node(f"DROP TABLE {lake.database}.trips SYNC")
    code, found = command(capsys, lake, "ddl", "--period", PERIOD)
    if is_of_rows(lake):
        assert code == 2
        assert "has no files: create" in found
        return
    lake.on_every_node(found["statements"][0])
    assert lake.load()["rows"] == 3_000
    assert lake.facts() == TRIPS.facts(PERIOD)


def storage_check(capsys: pytest.CaptureFixture[str], lake: SourceLake, *options: str) -> dict[str, Any]:
    """Return the doctor's text about the source; no other check may have a finding."""
    capsys.readouterr()
    table = ["--database", lake.database, "--table", "trips", "--cluster", lake.cluster.name]
    main(["doctor", "--output=json", *lake.doctor_options, *table, *options])
    checks = {load["name"]: load for load in json.loads(capsys.readouterr().out)["checks"]}
    found = checks.pop("storage")
    if not found["findings"]:
        assert {name: each["findings"] for name, each in checks.items() if each["findings"] and name != "disks"} == {}
    return found


@pytest.mark.thorough(but=1)
@pytest.mark.three_nodes
def test_the_doctor_finds_nothing_where_worker_and_servers_get_in(
    lake: SourceLake, capsys: pytest.CaptureFixture[str]
) -> None:
    check = storage_check(capsys, lake, "--period", PERIOD)
    assert check["findings"] == []
    assert "this machine lists in" in check["summary"]
    assert "3 of 3 nodes read" in check["summary"]
    assert storage_check(capsys, lake)["findings"] == []


@pytest.mark.thorough
def test_the_doctor_finds_a_period_that_is_not_there(lake: SourceLake, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = storage_check(capsys, lake, "--period", "2019-01")["findings"]
    lacks = "no rows of 2019-01 by" if isinstance(lake, RowLake) else "no object of 2019-01 fits"
    assert lacks in found
    assert "check --source-table and --time-column, and --period" in found


@pytest.mark.thorough(but=1)
def test_the_doctor_finds_a_database_that_neither_worker_nor_servers_get_into(
    row_lake: RowLake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    password = "wr0ng-password-of-a-test"
    row_lake.connect(monkeypatch, password=password)
    (found,) = storage_check(capsys, row_lake, "--period", PERIOD)["findings"]
    assert "refuses" in found
    assert password not in found
    row_lake.connect(monkeypatch, port=1)
    (found,) = storage_check(capsys, row_lake)["findings"]
    assert "does not answer" in found


def test_the_doctor_needs_the_table_and_its_period_column(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--storage", "postgres", "--source-table", "trips"]) == 2
    assert "pass --time-column" in capsys.readouterr().err
    assert main(["doctor", "--storage", "delta", "--key", "trips/{YYYY-MM}/"]) == 2
    assert "--key: --storage delta does not take this" in capsys.readouterr().err
