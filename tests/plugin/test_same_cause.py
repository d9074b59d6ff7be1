"""Periods that need a person for one and the same cause are one row of what needs attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from fastapi.testclient import TestClient

from airflow_provider_chs3.exceptions import Chs3Error
from tests.integration.lake import Lake
from tests.plugin import runs
from tests.plugin.browsing import PAGE, keep
from tests.plugin.runs import LOADER
from tests.plugin.test_periods import TRIPS

if TYPE_CHECKING:
    from playwright.sync_api import Page

AsUser = Callable[[str | None], TestClient]
Open = Callable[..., tuple["Page", list[str]]]

SAME = ("2026-07", "2026-08", "2026-09", "2026-10")
OTHER = "2026-11"


def fail_at(lake: Lake, task: Any, period: str, column: str) -> None:
    """A load that ends in its insert, as of a file with a value that does not fit the column."""
    lake.upload(TRIPS, period)
    failing = {"pickup_at": "pickup_at", "trip_id": "trip_id", "fare": "fare"}
    failing[column] += " + throwIf(trip_id >= 0, 'no')"
    with pytest.raises((AirflowFailException, Chs3Error)):
        lake.operator(period=period, select=failing).execute({"ti": task})


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
    assert "2026-10: its newest load failed: Column 'trip_id' cannot be filled from row 1 of" in told
    assert several.get_by_role("button").all_inner_texts() == ["Reload 2026-10…", "Show 4 periods"]
    several.get_by_role("button", name="Show 4 periods").click()
    assert several.get_by_role("group").get_by_role("button").all_inner_texts() == list(SAME)
    keep(page, "periods-of-one-cause")
    several.get_by_role("button", name=f"Open {name} 2026-08").click()
    page.get_by_role("dialog", name=f"{name} 2026-08").get_by_text("The newest load failed").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    several.get_by_role("button", name="Hide the periods").click()
    assert several.get_by_role("group").count() == 0
    several.get_by_role("button", name=f"Reload {name} 2026-10").click()
    page.get_by_role("alertdialog", name=f"Reload: {name} 2026-10").wait_for()
    assert troubles == []
