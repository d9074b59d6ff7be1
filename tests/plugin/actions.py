"""A period that a run of a DAG has loaded, and actions about it on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plugin import runs
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import TRIPS
from tests.plugin.runs import ACTIONS, LOADER
from tests.support.lake import Lake

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

CONF = {"bucket": "another", "chs3_reload": {"database": "d", "table": "t", "periods": ["2026-01"]}}


@pytest.fixture
def loaded(as_user: AsUser, trips_lake: Lake) -> Lake:
    """A period that a run of a DAG has loaded."""
    runs.make_known(LOADER, ACTIONS)
    trips_lake.upload(TRIPS)
    interval = {"data_interval_start": "2026-10-05T03:00:00Z", "data_interval_end": "2026-10-06T03:00:00Z"}
    task = runs.start(as_user("admin"), logical_date="2026-10-06T03:00:00Z", conf=CONF, **interval)
    trips_lake.operator().execute({"ti": task})
    return trips_lake


def act(page: Page, label: str, verb: str) -> Locator:
    """Go through with an action; gives the dialog, once Airflow has answered."""
    page.get_by_role("button", name=label).click()
    dialog = page.get_by_role("alertdialog")
    dialog.get_by_role("button", name=verb, exact=True).click()
    dialog.get_by_role("button", name="Close").wait_for()
    return dialog
