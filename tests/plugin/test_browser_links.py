"""From Airflow's own pages to the periods page, and back, as a browser does it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import pytest
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.models.dagrun import DagRun
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset

from airflow_provider_chs3.plugin.constants import HAS_PAGE
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.plugin.fixture_types import Open
from tests.plugin.period_loads import TRIPS
from tests.support.browsing import PAGE, keep
from tests.support.dag_bag import DagBag, sync_bag_to_db
from tests.support.lake import Lake

if TYPE_CHECKING:
    from playwright.sync_api import Route

pytestmark = pytest.mark.skipif(not HAS_PAGE, reason="Airflow 3.1.0 shows no page")

PERIODS = ["2026-10", "2026-11"]
HOSTILE_TASK: dict[str, Any] = {
    "dag_id": "a/../b",
    "run_id": '"><img src=x>?&#%2F',
    "task_id": "javascript:x",
    "map_index": -1,
}


@pytest.fixture
def run(trips_lake: Lake, run_dag: Callable[..., DagRun]) -> DagRun:
    """Run a task that is mapped over two periods; nobody loads a third period."""
    for period in (*PERIODS, "2026-12"):
        trips_lake.upload(TRIPS, period)
    trips_lake.load(period="2026-12")
    of_table: dict[str, Any] = {"database": trips_lake.database, "cluster": trips_lake.cluster.name}
    with DAG(dag_id="browsed", schedule=None) as dag:
        S3ToClickHouseOperator.partial(
            task_id="load", bucket=trips_lake.bucket, key="trips/{YYYY-MM}/", table="trips", **of_table
        ).expand(period=PERIODS)
    return run_dag(dag)


@pytest.mark.thorough
def test_a_tasks_link_opens_its_period_in_airflow_and_the_period_leads_back_to_the_task(
    run: DagRun, open_page: Open
) -> None:
    task = f"/dags/{run.dag_id}/runs/{quote(run.run_id)}/tasks/load/mapped/1"
    page, troubles = open_page(f"{task}/details")
    link = page.get_by_role("link", name="Place on the periods page")
    if link.get_attribute("target") == "_blank":  # as in Airflow 3.1
        with page.expect_popup() as opened:
            link.click()
        page = opened.value
    else:
        link.click()
    panel = page.get_by_role("dialog", name="2026-11")
    panel.wait_for()
    keep(page, "periods-of-a-link")
    page.evaluate("window.isTheSamePage = true")
    panel.get_by_role("link", name=f"browsed, load [1], run {run.run_id}").click()
    page.wait_for_url("**/tasks/load/mapped/1")
    assert urlsplit(page.url).path in (task, quote(f"/dags/browsed/runs/{run.run_id}/tasks/load/mapped/1", safe="/:+"))
    assert page.evaluate("window.isTheSamePage")
    page.get_by_text("INSERT INTO").or_(page.get_by_text("S3ToClickHouseOperator")).first.wait_for()
    page.go_back()
    page.get_by_role("dialog", name="2026-11").wait_for()
    assert troubles == []


@pytest.mark.thorough
def test_a_period_names_the_assets_that_start_its_load_and_those_it_has_events_for(
    trips_lake: Lake, run_dag: Callable[..., DagRun], open_page: Open
) -> None:
    trips_lake.upload(TRIPS, PERIODS[0])
    landed, loaded = Asset("landed_trips"), Asset("loaded_trips")
    where = {"bucket": trips_lake.bucket, "key": "trips/{YYYY-MM}/", "period": PERIODS[0]}
    with DAG(dag_id="landing", schedule=None) as landing:
        EmptyOperator(task_id="land", outlets=[landed])
    with DAG(dag_id="report", schedule=[loaded]) as report:
        EmptyOperator(task_id="report")
    with DAG(dag_id="between", schedule=[landed]) as between:
        S3ToClickHouseOperator(task_id="load", outlets=[loaded], **where, **trips_lake.target)
    bag = DagBag(os.devnull)
    for dag in (landing, report, between):
        bag.bag_dag(dag)
    DagBundlesManager().sync_bundles_to_db()
    sync_bag_to_db(bag, "dags-folder", None)
    run_dag(between)
    query = {"conn_id": "chs3_default", "database": trips_lake.database, "table": "trips", "period": PERIODS[0]}
    page, troubles = open_page(f"{PAGE}?{urlencode(query)}", viewport={"width": 1440, "height": 900})
    panel = page.get_by_role("dialog")
    panel.get_by_text("landed_trips, from landing").wait_for()
    panel.get_by_text("loaded_trips, which starts report").wait_for()
    keep(page, "assets-panel")
    panel.get_by_role("link", name="loaded_trips").click()
    page.wait_for_url("**/assets/*")
    assert troubles == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("place", "path", "shown", "scope"),
    [
        ("dag", "", PERIODS, "Periods that DAG browsed loaded last."),
        ("dag_run", "/runs/{run}", PERIODS, "Periods that run {id} of DAG browsed is about."),
        ("task", "/tasks/load", PERIODS, "Periods that task load of DAG browsed loaded last."),
        (
            "task_instance",
            "/runs/{run}/tasks/load/mapped/1",
            ["2026-11"],
            "Periods that task load [1] of run {id} of DAG browsed is about.",
        ),
    ],
)
def test_airflows_pages_show_their_periods(
    run: DagRun, open_page: Open, place: str, path: str, shown: list[str], scope: str
) -> None:
    where = path.format(run=quote(run.run_id))
    page, troubles = open_page(f"/dags/browsed{where}/plugin/chs3-periods-of-{place}")
    page.locator("[data-period]").first.wait_for()
    assert [each.get_attribute("data-period") for each in page.locator("[data-period]").all()] == shown
    assert page.locator("[data-chs3=scope]").inner_text() == scope.format(id=run.run_id)
    keep(page, f"periods-of-{place}")
    assert troubles == []


def as_of_a_hostile_task(route: Route) -> None:
    """Answer as the API does, with other names of the tasks that loaded the periods."""
    answer = route.fetch()
    told = answer.json()
    for period in [period for seen in told["connections"] for table in seen["tables"] for period in table["periods"]]:
        period["task"] = period["task"] and HOSTILE_TASK
    route.fulfill(response=answer, json=told)


@pytest.mark.thorough
def test_links_quote_whatever_a_run_is_called(run: DagRun, open_page: Open) -> None:
    page, troubles = open_page(PAGE)
    page.get_by_role("button", name="2026-11: published").click()
    link = page.get_by_role("link", name=f"browsed, load [1], run {run.run_id}")
    assert link.get_attribute("href") == f"/dags/browsed/runs/{quote(run.run_id, safe='')}/tasks/load/mapped/1"
    page.keyboard.press("Escape")
    page.route("**/chs3/api/periods?*", as_of_a_hostile_task)
    page.route("**/chs3/api/rights?*", lambda route: route.fulfill(json={"dag": None, "actions_dag": None}))
    page.reload()
    page.get_by_role("button", name="2026-11: published").click()
    made = page.get_by_role("link", name=HOSTILE_TASK["run_id"]).evaluate("link => link.outerHTML")
    names = [quote(HOSTILE_TASK[name], safe="") for name in ("dag_id", "run_id", "task_id")]
    assert f'href="/dags/{names[0]}/runs/{names[1]}/tasks/{names[2]}"' in made
    assert "<img" not in made
    page.unroute_all(behavior="wait")
    assert troubles == []


@pytest.mark.thorough
def test_a_place_that_is_not_there_is_told(run: DagRun, open_page: Open) -> None:
    page, _ = open_page(f"{PAGE}?conn_id=chs3_default&database=db&table=%3Cb%3E&period=2026-01")
    page.get_by_text("db.<b> 2026-01 of connection chs3_default is not here: no load has begun").wait_for()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("place", "said"), [("table=t&period=9999-99", "t 9999-99 is not here"), ("database=d&table=t", "d.t is not here")]
)
def test_a_place_that_is_named_in_part_is_told_in_part(lake: Lake, open_page: Open, place: str, said: str) -> None:
    page, _ = open_page(f"{PAGE}?{place}")
    page.get_by_text(f"{said}: no load has begun").wait_for()
