"""The page in Airflow's UI, as a browser shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.integration.lake import MONTH, Lake
from tests.plugin.test_months import HOSTILE, loaded

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def busy_lake(trips_lake: Lake) -> Lake:
    """Months that are published, one that another has changed, none between, and a table named like HTML."""
    loaded(trips_lake)
    name = f"{trips_lake.database}.`{HOSTILE}`"
    trips_lake.on_every_node(f"CREATE TABLE {name} AS {trips_lake.database}.trips")
    trips_lake.load(table=HOSTILE)
    trips_lake.on_node(0, f"INSERT INTO {name} (trip_id, pickup_at) VALUES (1, '2026-06-05 00:00:00')")
    return trips_lake


def test_months_are_shown_texts_are_texts_and_keys_move(
    busy_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    page, troubles = open_page("/chs3/", color_scheme="dark")
    page.get_by_role("heading", name=f"{busy_lake.database}.{HOSTILE}").wait_for()
    assert page.locator("main b, main script").count() == 0
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.get_by_role("button", name="2026-06: changed by somebody").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == f"{MONTH}: published"
    assert "600" in page.locator("dl").inner_text()
    assert troubles == []
