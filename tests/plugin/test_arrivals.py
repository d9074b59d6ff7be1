"""Tables that are loaded by arrival: an arrival is shown only while it loads, or if it failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from tests.plugin import runs
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import details, periods
from tests.plugin.runs import ACTIONS, LOADER
from tests.support.arrivals import Arrivals
from tests.support.browsing import PAGE, keep
from tests.support.held_arrivals import CHECKED, approve
from tests.support.lake import Lake

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


@pytest.mark.thorough
def test_arrivals_that_are_loaded_are_no_periods(as_user: AsUser, lake: Lake) -> None:
    arrivals = Arrivals(lake, key="toYYYYMM(at)")
    arrivals.create()
    arrivals.put(10, "a", 0, [10, -20])
    arrivals.put(11, "b", 50, [11, 9])
    arrivals.load(10)
    arrivals.load(11)
    lake.put("raw/2026-11-12/a", b"at,number\n2026-11-12 00:00:00,x\n")
    with pytest.raises(AirflowFailException):
        arrivals.load(12)
    found = periods(as_user, lake)
    assert {name: (period["state"], period["rows"]) for name, period in found.items()} == {
        "2026-10": ("published", 2),
        "2026-11": ("published", 6),
        "2026-11-12": ("failed", 0),
    }


@pytest.fixture
def held(as_user: AsUser, lake: Lake) -> Arrivals:
    """An arrival whose only period was never published, held by a check that names rows."""
    runs.make_known(LOADER, ACTIONS)
    task = runs.start(as_user("admin"), conf={"own": 1})
    arrivals = Arrivals(lake, key="toYYYYMM(at)")
    arrivals.create()
    arrivals.put(10, "a", -2000, [-20])
    checks = {"column_mapping": {"number": {"min": {"geq_to": 10}}}}
    with pytest.raises(AirflowSkipException, match="with arrival 2026-11-10; 2026-10, checks failed"):
        arrivals.operator(10, **(CHECKED | {"checks": checks})).execute({"ti": task})
    runs.set_state(task, "skipped")
    runs.end(task.run_id)
    return arrivals


def told(place: Locator) -> dict[str, str]:
    """The terms of a list, and what it says of each."""
    return dict(zip(place.locator("dt").all_inner_texts(), place.locator("dd").all_inner_texts(), strict=True))


def look_at_panel(page: Page, held: Arrivals) -> Locator:
    page.get_by_role("button", name=f"Open {held.name} 2026-10").click()
    panel = page.get_by_role("dialog", name=f"{held.name} 2026-10")
    panel.get_by_text("2026-11-10; 2026-10, checks failed: min of number is -4000, wanted at least 10.").wait_for()
    panel.get_by_text('{"number":-4000}').wait_for()
    panel.get_by_role("region", name="History").get_by_text("held", exact=True).wait_for()
    now = told(panel.get_by_role("group", name="Now"))
    assert (now["Rows"], now["Held rows"]) == ("4", "2")
    keep(page, "held-arrival")
    return panel


def ask(page: Page, panel: Locator, verb: str, held: Arrivals) -> Locator:
    """Ask for an action on what is held; gives the dialog."""
    panel.get_by_role("button", name=f"{verb}…").click()
    dialog = page.get_by_role("alertdialog", name=f"{verb}: {held.name} 2026-10")
    dialog.get_by_text("Held since").wait_for()
    return dialog


@pytest.mark.thorough
def test_a_held_arrival_is_named_by_its_periods_and_approved_on_the_page(
    as_user: AsUser, held: Arrivals, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    lake = held.lake
    (past,) = details(as_user, lake, period="2026-10")["history"]
    assert (past["event"], past["loaded_rows"], past["task"]["dag_id"]) == ("withheld", 2, LOADER)
    held.put(11, "b", 5000, [11, -20, -19])
    held.load(11)
    found = periods(as_user, lake)
    assert {name: (period["state"], period["arrival"], period["held_rows"]) for name, period in found.items()} == {
        "2026-10": ("held", "2026-11-10", 2),
        "2026-11": ("published", "", 0),
    }
    assert found["2026-10"]["ledger_database"] == lake.database
    assert found["2026-10"]["failing_rows"][0] == "min of number:"
    page, troubles = open_page(PAGE, role="admin")
    panel = look_at_panel(page, held)
    discard = ask(page, panel, "Discard", held)
    discard.get_by_role("button", name="Cancel").click()
    discard.wait_for(state="detached")
    dialog = ask(page, panel, "Approve", held)
    said = told(dialog)
    assert said.pop("Held since").endswith(" ago")
    assert "checks failed: min of number is -4000" in said.pop("Why").replace("Checks", "checks")
    place = {"Arrival": "2026-11-10", "Period": "2026-10"}
    assert said == place | {"Held by": f"DAG {LOADER}, task load", "Held rows": "2", "Rows in the table": "4"}
    keep(page, "approve-arrival")
    dialog.get_by_role("button", name="Approve", exact=True).click()
    dialog.get_by_role("button", name="Close").wait_for()
    asked = {"database": lake.database, "table": "trips", "periods": ["2026-11-10"], "approve": True}
    assert runs.runs(LOADER)[-1].conf == {"own": 1, "chs3_reload": asked}
    assert troubles == []
    approve(held, 10)
    assert {(period["state"], period["arrival"]) for period in periods(as_user, lake).values()} == {("published", "")}
