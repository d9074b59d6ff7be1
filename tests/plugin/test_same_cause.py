"""Periods that need a person for one and the same cause are one row of what needs attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.exceptions import Chs3Error
from tests.plugin import runs
from tests.plugin.fixture_types import AsUser, Open
from tests.plugin.period_loads import TRIPS
from tests.plugin.runs import LOADER
from tests.support.browsing import PAGE, keep
from tests.support.lake import Lake

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


SAME = ("2026-07", "2026-08", "2026-09", "2026-10")
OTHER = "2026-11"


def fail_at(lake: Lake, task: Any, period: str, column: str) -> None:
    """A load that ends in its insert, as of a file with a value that does not fit the column."""
    lake.upload(TRIPS, period)
    failing = {"pickup_at": "pickup_at", "trip_id": "trip_id", "fare": "fare"}
    failing[column] += " + throwIf(trip_id >= 0, 'no')"
    with pytest.raises((AirflowFailException, Chs3Error)):
        lake.operator(period=period, select=failing).execute({"ti": task})


def reload_all(page: Page, several: Locator, lake: Lake) -> None:
    """Reload the periods of a row: in one run, as one run has loaded them."""
    name = f"{lake.database}.trips"
    several.get_by_role("button", name=f"Reload {name} 2026-07, 2026-08 and 2 more").click()
    question = page.get_by_role("alertdialog", name=f"Reload: {name} 2026-07, 2026-08 and 2 more")
    assert "loads only these 4 periods of this table again" in question.inner_text()
    question.get_by_role("button", name="Reload", exact=True).click()
    question.get_by_text("Started: ").wait_for()
    run = runs.runs(LOADER)[-1]
    assert run.conf["chs3_reload"] == {"database": lake.database, "table": "trips", "periods": list(SAME)}
    question.get_by_role("button", name="Close").click()


@pytest.mark.thorough
def test_periods_of_one_cause_are_one_row_that_opens_to_each_of_them(
    as_user: AsUser, trips_lake: Lake, open_page: Open
) -> None:
    runs.make_known(LOADER)
    task = runs.start(as_user("admin"))
    for period in SAME:
        fail_at(trips_lake, task, period, "trip_id")
    fail_at(trips_lake, task, OTHER, "fare")
    runs.set_state(task, "failed")
    name = f"{trips_lake.database}.trips"
    page, troubles = open_page(PAGE, role="admin")
    needs = page.get_by_role("region", name="What needs attention")
    assert needs.get_by_role("heading").inner_text() == "5 periods need attention"
    rows = needs.get_by_role("listitem")
    assert rows.count() == 2
    one, several = rows.nth(0), rows.nth(1)
    assert "2026-11" in one.inner_text()
    assert "Column 'fare' cannot be filled" in one.inner_text()
    assert one.get_by_role("button").all_inner_texts() == ["Reload…", "Open"]
    told = several.inner_text()
    assert "2026-07, 2026-08 and 2 more" in told
    # The newest trouble stands for all, and its text names its own file.
    assert "2026-10: Column 'trip_id' cannot be filled from row 1 of" in told
    assert several.get_by_role("button").all_inner_texts() == ["Reload 4…", "Show 4 periods"]
    several.get_by_role("button", name="Show 4 periods").click()
    assert several.get_by_role("group").get_by_role("button").all_inner_texts() == list(SAME)
    keep(page, "periods-of-one-cause")
    several.get_by_role("button", name=f"Open {name} 2026-08").click()
    page.get_by_role("dialog", name=f"{name} 2026-08").get_by_text("The newest load failed").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    several.get_by_role("button", name="Hide the periods").click()
    assert several.get_by_role("group").count() == 0
    reload_all(page, several, trips_lake)
    page.get_by_role("region", name="Chosen periods").get_by_role("button", name="Clear").click()
    page.get_by_role("region", name="Chosen periods").wait_for(state="detached")
    assert troubles == []


@pytest.mark.thorough
def test_periods_are_chosen_in_the_strip_and_loaded_again_by_runs_like_those_before(
    as_user: AsUser, trips_lake: Lake, open_page: Open
) -> None:
    runs.make_known(LOADER)
    tasks = [runs.start(as_user("admin"), conf={"of": number}) for number in range(2)]
    for period, task in zip(SAME, (tasks[0], tasks[0], tasks[1], tasks[1]), strict=True):
        trips_lake.upload(TRIPS, period)
        trips_lake.operator(period=period).execute({"ti": task})
    page, troubles = open_page(PAGE, role="admin")
    cell = {period: page.get_by_role("button", name=f"{period}: published") for period in SAME}
    cell[SAME[0]].click(modifiers=["ControlOrMeta"])
    page.keyboard.press("Shift+ArrowRight")
    cell[SAME[3]].click(modifiers=["Shift"])
    cell[SAME[1]].click(modifiers=["ControlOrMeta"])
    chosen = page.get_by_role("region", name="Chosen periods")
    chosen.get_by_text("3 periods, 2026-07, 2026-09 and 2026-10").wait_for()
    chosen.get_by_role("button", name="Reload…").click()
    question = page.get_by_role("alertdialog")
    question.get_by_text("Starts 2 runs, one like each run that loaded some of them").wait_for()
    question.get_by_role("button", name="Reload", exact=True).click()
    question.get_by_role("button", name="Close").click()
    asked = [(run.conf["of"], run.conf["chs3_reload"]["periods"]) for run in runs.runs(LOADER)[2:]]
    assert asked == [(0, [SAME[0]]), (1, [SAME[2], SAME[3]])]
    assert troubles == []
