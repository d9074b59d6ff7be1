"""The page says so while Airflow's API server cannot be reached, and recovers."""

from __future__ import annotations

import re

import pytest

from tests.plugin import runs
from tests.plugin.actions import loaded
from tests.plugin.fixture_types import AsUser, Open
from tests.plugin.runs import LOADER
from tests.support.browsing import PAGE
from tests.support.lake import PERIOD, Lake

#: A fixture.
__all__ = ["loaded"]


@pytest.mark.thorough
def test_it_says_how_old_what_it_shows_is_and_offers_actions_as_soon_as_it_can(
    as_user: AsUser, loaded: Lake, open_page: Open
) -> None:
    page, _ = open_page(PAGE, role="admin")
    cell = page.get_by_role("button", name=f"{PERIOD}: published")
    cell.wait_for()
    page.route("**/chs3/api/**", lambda route: route.abort())
    cell.click()
    panel = page.get_by_role("dialog")
    panel.get_by_text("Airflow's API server cannot be reached.").first.wait_for()
    assert panel.get_by_role("button", name="Reload…").count() == 0
    failed = page.locator("[data-chs3=page] [role=status]").get_by_text("Airflow's API server cannot be reached.")
    failed.wait_for()
    assert re.search(r"What is below is from \d+ s ago\.$", failed.inner_text())
    page.unroute("**/chs3/api/**")
    panel.get_by_role("button", name="Reload…").wait_for()


@pytest.mark.thorough
def test_an_action_whose_answer_is_lost_does_not_claim_that_nothing_was_done(loaded: Lake, open_page: Open) -> None:
    page, _ = open_page(PAGE, role="admin")
    page.get_by_role("button", name=f"{PERIOD}: published").click()
    page.get_by_role("button", name="Reload…").click()
    # Airflow starts the run, and the answer gets lost.
    page.route("**/dagRuns", lambda route: (route.fetch(), route.abort()))
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_role("button", name="Reload", exact=True).click()
    dialog.get_by_text("Airflow may have done it: look at the runs of the DAG before you try again.").wait_for()
    assert len(runs.runs(LOADER)) == 2
