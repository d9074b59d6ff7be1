"""A run that fails under a real scheduler before a load could record why: the page reads that from the task's log."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.airflow_services import AirflowServices
from tests.support.browsing import PAGE, TIMEOUT_MILLISECONDS, browser, keep

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: Fixtures.
__all__ = ["browser"]

TIMEOUT_SECONDS = 240
_DAG = """
from airflow.sdk import DAG

from airflow_provider_chs3.transfers.scheduled_load import scheduled_load

with DAG(dag_id="trips_nightly", schedule=None, default_args={"owner": "data-platform"}):
    scheduled_load(bucket="no-such-bucket", key="trips/{YYYY-MM}/", table="trips", periods=["2026-10"])
"""


@pytest.fixture
def services(tmp_path: Path, airflow_db: Path, chs3_airflow_connections: None) -> Iterator[AirflowServices]:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "dag.py").write_text(_DAG)
    connections = {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}
    environment = {**connections, "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True"}
    with AirflowServices(
        home=tmp_path, dags=tmp_path / "dags", database=airflow_db, environment=environment
    ) as started:
        yield started


def states(home: Path) -> list[str]:
    with closing(sqlite3.connect(home / "airflow.db")) as database:
        return [row[0] for row in database.execute("SELECT state FROM dag_run WHERE dag_id = 'trips_nightly'")]


@pytest.mark.thorough
def test_the_page_says_which_task_failed_and_why(services: AirflowServices, tmp_path: Path, browser: Browser) -> None:
    services.command("dags", "trigger", "trips_nightly")
    services.start(apps="core,execution")
    services.wait_until(lambda: states(tmp_path) == ["failed"], timeout_seconds=TIMEOUT_SECONDS)
    context = browser.new_context(viewport={"width": 1200, "height": 800}, base_url=services.url)
    context.set_default_timeout(TIMEOUT_MILLISECONDS)
    page = context.new_page()
    page.goto("/")
    page.get_by_role("link", name="Dags").first.wait_for()
    page.goto(PAGE)
    failed = page.get_by_role("listitem", name="Run of DAG trips_nightly failed")
    failed.get_by_text("Task scheduled_load.plan failed").wait_for()
    told = failed.inner_text()
    assert "Its newest run failed, and no period shows why." in told
    assert "owner data-platform" in told
    cause = "Cannot list s3://no-such-bucket/trips/2026-10/ (connection 'aws_default'): there is no such bucket."
    assert f"Task scheduled_load.plan failed: {cause}" in told
    keep(page, "a-run-that-failed")
    failed.get_by_role("link", name="Open the log").click()
    page.wait_for_url("**/dags/trips_nightly/runs/*/tasks/scheduled_load.plan**")
    context.close()
