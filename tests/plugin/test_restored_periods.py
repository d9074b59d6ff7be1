"""The page on checks, on held periods, and on periods of which an earlier version was restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_chs3.operators.held import DiscardPeriodsOperator
from airflow_provider_chs3.operators.versions import RestorePeriodsOperator, UnpinPeriodsOperator
from airflow_provider_chs3.testbed.trips import Trips
from tests.plugin import runs
from tests.plugin.actions import act
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import TASK, TRIPS, periods
from tests.plugin.runs import ACTIONS, LOADER
from tests.support.browsing import PAGE, keep
from tests.support.lake import PERIOD, Lake

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHECKS = {"column_mapping": {"trip_id": {"null_check": {"equal_to": 0}, "max": {"leq_to": 10}}}}


def restored(lake: Lake) -> Lake:
    """A period that held the rows of other objects before somebody restored its earlier version."""
    for trips in (TRIPS, Trips(seed=2, rows_per_period=300, files_per_period=3)):
        lake.upload(trips)
        lake.operator(keep_versions=1).execute({"ti": TASK})
    RestorePeriodsOperator(task_id="restore", periods=[PERIOD], **lake.target).execute({})
    return lake


def test_a_restored_period_is_pinned_until_somebody_unpins_it(as_user: AsUser, trips_lake: Lake) -> None:
    period = periods(as_user, restored(trips_lake))[PERIOD]
    assert (period["state"], period["rows"], period["since"]) == ("pinned", 600, period["published_at"])
    assert period["why"].startswith("pinned since 20")
    assert "by restore, who restored version" in period["why"]
    trips_lake.on_node(0, f"INSERT INTO {trips_lake.database}.trips (trip_id, pickup_at) VALUES (1, '{PERIOD}-05')")
    assert "but the partition was changed" in periods(as_user, trips_lake)[PERIOD]["why"]
    (unpinned,) = UnpinPeriodsOperator(task_id="unpin", periods=[PERIOD], **trips_lake.target).execute({})
    assert unpinned["reason"].startswith(
        "the partition was changed since it was published: loads stop until you adopt it"
    )
    assert periods(as_user, trips_lake)[PERIOD]["state"] == "changed"


@pytest.mark.thorough
def test_a_pinned_period_is_unpinned_by_a_run_of_the_dag_for_that(
    trips_lake: Lake, as_user: AsUser, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    runs.make_known(LOADER, ACTIONS)
    restored(trips_lake)
    page, troubles = open_page(PAGE, role="admin")
    needs = page.get_by_role("region", name="What needs attention")
    needs.get_by_text("Once its objects are right, unpin it").wait_for()
    keep(page, "pinned")
    needs.get_by_role("button", name=f"Unpin {trips_lake.database}.trips {PERIOD}").click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_role("button", name="Unpin", exact=True).click()
    dialog.get_by_role("button", name="Close").wait_for()
    (run,) = runs.runs(ACTIONS)
    assert (run.conf["action"], run.conf["period"], run.conf["staging_database"]) == (
        "unpin",
        PERIOD,
        trips_lake.database,
    )
    assert troubles == []


@pytest.mark.thorough
def test_a_held_period_is_discarded_by_a_run(
    trips_lake: Lake, as_user: AsUser, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    runs.make_known(LOADER, ACTIONS)
    trips_lake.upload(TRIPS)
    task = runs.start(as_user("admin"))
    with pytest.raises(AirflowSkipException):
        trips_lake.operator(checks=CHECKS, policies={"on_failed_check": "hold"}).execute({"ti": task})
    runs.set_state(task, "skipped")
    runs.end(task.run_id)
    period = periods(as_user, trips_lake)[PERIOD]
    assert (period["state"], period["published_at"], period["ledger_database"]) == ("held", "", trips_lake.database)
    assert period["why"].startswith("checks failed: max of trip_id is ")
    assert period["failing_rows"][0] == "max of trip_id:"
    page, troubles = open_page(PAGE, role="admin", viewport={"width": 1440, "height": 900})
    page.get_by_role("button", name=f"{PERIOD}: held").click()
    page.get_by_text("max of trip_id is").first.wait_for()
    keep(page, "held")
    page.get_by_role("button", name="Discard…").click()
    dialog = page.get_by_role("alertdialog", name=f"Discard: {trips_lake.database}.trips {PERIOD}")
    dialog.get_by_text("Held since").wait_for()
    told = dict(zip(dialog.locator("dt").all_inner_texts(), dialog.locator("dd").all_inner_texts(), strict=True))
    assert told.pop("Held since").endswith(" ago")
    assert told.pop("Why").startswith("Checks failed: max of trip_id is ")
    assert told == {"Held by": f"DAG {LOADER}, task load", "Held rows": "600", "Rows in the table": "0"}
    keep(page, "discard")
    dialog.get_by_role("button", name="Cancel").click()
    dialog.wait_for(state="detached")
    act(page, "Discard…", "Discard")
    (run,) = runs.runs(ACTIONS)
    named = [run.conf[name] for name in ("action", "period", "database", "table", "staging_database")]
    assert named == ["discard", PERIOD, trips_lake.database, "trips", trips_lake.database]
    assert troubles == []
    DiscardPeriodsOperator(task_id="discard", periods=[PERIOD], **trips_lake.target).execute({})


@pytest.mark.thorough
def test_checks_are_shown_with_what_they_found(
    as_user: AsUser, trips_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    runs.make_known(LOADER, ACTIONS)
    trips_lake.upload(TRIPS)
    task = runs.start(as_user("admin"))
    trips_lake.operator(checks=CHECKS, on_failed_check="warn").execute({"ti": task})
    runs.set_state(task, "success")
    runs.end(task.run_id)
    page, troubles = open_page(PAGE, role="admin")
    page.get_by_role("button", name=f"{PERIOD}: published").click()
    checks = page.get_by_role("region", name="Checks of its rows")
    checks.get_by_text("✕ ").wait_for()
    texts = checks.get_by_role("row").all_inner_texts()[1:]
    assert [[part.strip() for part in text.split("\t")[:2]] for text in texts] == [
        ["✓ null_check of trip_id", "equal to 0"],
        ["✕ max of trip_id", "at most 10"],
    ]
    checks.scroll_into_view_if_needed()
    keep(page, "checks")
    page.keyboard.press("Escape")
    act_on = page.get_by_role("button", name=f"{PERIOD}: published")
    act_on.click()
    act(page, "Restore…", "Restore")
    assert [run.conf["action"] for run in runs.runs(ACTIONS)] == ["restore"]
    assert troubles == []
