"""Tasks in Airflow's UI show, while they run and afterwards, a link to the page, and the insert that they send."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG
from fastapi.testclient import TestClient

from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.exceptions import NotReadyError
from airflow_provider_chs3.operators._support.on_table import page_url
from airflow_provider_chs3.operators.optimize import OptimizePartitionOperator
from airflow_provider_chs3.sensors.merge_health import ClickHouseMergeHealthSensor
from airflow_provider_chs3.testbed.trips import Trips
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import TRIPS
from tests.support.lake import PERIOD, Lake
from tests.support.slow import SLOW, SLOW_SETTINGS, wait_for_insert

RunDag = Callable[..., DagRun]

NAME = "Place on the periods page"


def links(user: TestClient, run: DagRun, task_id: str, map_index: int = -1) -> dict[str, str | None]:
    path = f"/api/v2/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances/{task_id}/links"
    found = user.get(path, params={"map_index": map_index}).raise_for_status().json()
    return found["extra_links"]


def query_of(url: str | None) -> dict[str, list[str]]:
    assert url is not None
    parts = urlsplit(url)
    assert parts.path == "/plugin/chs3-periods"
    return parse_qs(parts.query)


def place(lake: Lake, *periods: str) -> dict[str, list[str]]:
    found = {"conn_id": ["chs3_default"], "database": [lake.database], "table": ["trips"]}
    return found | ({"period": list(periods)} if periods else {})


def test_every_task_that_is_about_periods_links_to_them_and_loads_show_their_insert_without_keys(
    as_user: AsUser, trips_lake: Lake, run_dag: RunDag
) -> None:
    for period in ("2026-10", "2026-11"):
        trips_lake.upload(TRIPS, period)
    with DAG(dag_id="links", schedule=None) as dag:
        load = S3ToClickHouseOperator.partial(task_id="load", **trips_lake.place).expand(period=["2026-10", "2026-11"])
        merges = ClickHouseMergeHealthSensor(
            task_id="merges", periods=["2026-10", "2026-11"], poke_interval=0.1, **trips_lake.target
        )
        load >> merges >> OptimizePartitionOperator(task_id="optimize", **trips_lake.target)
    run = run_dag(dag)
    user = as_user("admin")
    assert query_of(links(user, run, "load", 1)[NAME]) == place(trips_lake, "2026-11")
    assert query_of(links(user, run, "merges")[NAME]) == place(trips_lake, "2026-10", "2026-11")
    assert query_of(links(user, run, "optimize")[NAME]) == place(trips_lake)
    path = f"/api/v2/dags/links/dagRuns/{run.run_id}/taskInstances/load"
    # The second load expects files like those of the first, and looks at them beside its insert.
    for map_index in (0, 1):
        rendered = user.get(f"{path}/{map_index}").raise_for_status().json()["rendered_fields"]["insert_sql"]
        of_task = user.get(f"{path}/xcomEntries/insert_sql", params={"map_index": map_index}).raise_for_status()
        period = ("2026-10", "2026-11")[map_index]
        assert rendered == of_task.json()["value"] == of_period(user, trips_lake, period)["insert_sql"]
        assert rendered.startswith("INSERT INTO FUNCTION cluster(")
    assert "s3Cluster(" in rendered
    assert "[HIDDEN]" in rendered


@pytest.mark.three_nodes
@pytest.mark.thorough
def test_a_distributed_table_is_linked_by_the_table_under_it(
    as_user: AsUser, trips_lake: Lake, run_dag: RunDag
) -> None:
    trips_lake.upload(TRIPS)
    name, under = f"{trips_lake.database}.everywhere", f"'{trips_lake.database}', 'trips'"
    trips_lake.on_every_node(
        f"CREATE TABLE {name} AS {trips_lake.database}.trips ENGINE = Distributed('{trips_lake.cluster.name}', {under})"
    )
    with DAG(dag_id="distributed", schedule=None) as dag:
        S3ToClickHouseOperator(task_id="load", period=PERIOD, **trips_lake.place | {"table": "everywhere"})
    run = run_dag(dag)
    assert query_of(links(as_user("viewer"), run, "load")[NAME]) == place(trips_lake, PERIOD)


@pytest.mark.thorough
def test_the_page_shows_the_insert_of_the_newest_load_to_those_who_may_read_xcoms(
    as_user: AsUser, airflow_api: Any, trips_lake: Lake, run_dag: RunDag, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips_lake.upload(TRIPS)
    with DAG(dag_id="shown_again", schedule=None) as dag:
        S3ToClickHouseOperator(task_id="load", period=PERIOD, **trips_lake.place)
    run_dag(dag)
    user, manager = as_user("viewer"), airflow_api.state.auth_manager
    is_authorized = manager.is_authorized_dag
    assert of_period(user, trips_lake)["insert_sql"].startswith("INSERT INTO")
    with monkeypatch.context() as patch:
        patch.setattr(
            manager,
            "is_authorized_dag",
            lambda *, access_entity=None, **more: (
                access_entity != DagAccessEntity.XCOM and is_authorized(access_entity=access_entity, **more)
            ),
        )
        assert of_period(user, trips_lake)["insert_sql"] == ""
    # The XCom is that of a load before this one.
    trips_lake.upload(Trips(seed=2, rows_per_period=600, files_per_period=3))
    trips_lake.load()
    assert of_period(user, trips_lake)["insert_sql"] == ""


def of_period(user: TestClient, lake: Lake, period: str = PERIOD) -> dict[str, Any]:
    query = {"conn_id": "chs3_default", "database": lake.database, "table": "trips", "period": period}
    return dict(user.get("/chs3/api/period", params=query).raise_for_status().json())


@pytest.mark.thorough
def test_link_and_insert_are_there_while_the_insert_runs(as_user: AsUser, trips_lake: Lake, run_dag: RunDag) -> None:
    trips_lake.upload(TRIPS)
    with DAG(dag_id="running", schedule=None) as dag:
        S3ToClickHouseOperator(task_id="load", period=PERIOD, select=SLOW, settings=SLOW_SETTINGS, **trips_lake.place)
    user, seen = as_user("viewer"), {}

    def look() -> None:
        wait_for_insert(trips_lake)
        (run,) = user.get("/api/v2/dags/running/dagRuns").raise_for_status().json()["dag_runs"]
        path = f"/api/v2/dags/running/dagRuns/{run['dag_run_id']}/taskInstances/load"
        for what in ("", "/links", "/xcomEntries/insert_sql"):
            seen[what] = user.get(f"{path}{what}").raise_for_status().json()

    with ThreadPoolExecutor() as pool:
        looked = pool.submit(look)
        run_dag(dag)
        looked.result()
    assert seen[""]["state"] == "running"
    assert query_of(seen["/links"]["extra_links"][NAME]) == place(trips_lake, PERIOD)
    assert seen["/xcomEntries/insert_sql"]["value"].startswith("INSERT INTO")


@pytest.mark.parametrize(
    ("base_url", "begin"),
    [
        (None, "/plugin/chs3-periods?"),
        ("https://airflow.example.com", "/plugin/chs3-periods?"),
        ("https://airflow.example.com/team/a/", "/team/a/plugin/chs3-periods?"),
    ],
)
def test_a_link_has_the_path_that_airflow_is_served_under(
    monkeypatch: pytest.MonkeyPatch, base_url: str | None, begin: str
) -> None:
    if base_url:
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    url = page_url(conn_id="a&b", table=TableName("db", "<b>"), periods=[PERIOD])
    assert url == f"{begin}conn_id=a%26b&database=db&table=%3Cb%3E&period={PERIOD}"


def test_a_task_ends_with_one_paragraph_of_the_way_out_or_one_block_of_what_it_did_and_took(
    trips_lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotReadyError) as raised:
        trips_lake.load()
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert [frame.filename for frame in frames if "/core/" in frame.filename] == []
    assert raised.value.__suppress_context__
    last = "".join(traceback.format_exception(raised.value)).strip().splitlines()
    assert last[-1].startswith("airflow_provider_chs3.exceptions.NotReadyError: ")
    trips_lake.upload(TRIPS)
    trips_lake.load()
    summary = f"{trips_lake.database}.trips {PERIOD} published (never loaded): 600 rows from 3 objects"
    _, begin, told = capsys.readouterr().out.partition(summary)
    assert begin
    _, *lines = told.splitlines()
    names = [line.split(":")[0].strip() for line in lines]
    assert names[:6] == ["source", "rows", "insert", "steps", "parts", "settings"]
    assert lines[0].startswith("  source:   3 objects, ")
    assert "max_insert_threads" in lines[5]
    assert lines[-1].startswith("  look at:  system.query_log, query id chs3_")
