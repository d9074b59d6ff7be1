"""The page in Airflow's UI, as a browser shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from airflow_provider_chs3.core.sql.quoting import literal
from tests.integration.lake import MONTH, Lake
from tests.plugin.browsing import keep
from tests.plugin.test_months import HOSTILE, TASK, fail, loaded
from tests.plugin.test_throughput import asked_as_watcher

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


def remember_loads(lake: Lake, *, table: str, insert_seconds: list[int]) -> None:
    """Records of so many earlier loads of a table, an hour apart, as copies of its own."""
    ledger = f"{lake.database}.chs3_ledger"
    steps = 'concat(\'{"list": 1.5, "insert": \', toString(took), \', "verify": 2, "publish": 0.5}\')'
    details = (
        'concat(\'{"rows": 60000, "parts": 3, "peak_memory_bytes": 700000000, "memory_bytes": 900000000, '
        f"\"insert_seconds\": ', toString(took), ', \"seconds_by_step\": ', {steps}, '}}')"
    )
    lake.on_node(
        0,
        f"INSERT INTO {ledger} SELECT * EXCEPT (number, took) REPLACE ("
        f"recorded_at - toIntervalHour(number) AS recorded_at, toString(number) AS attempt, {details} AS details) "
        f"FROM (SELECT * FROM {ledger} WHERE event = 'load' AND target_table = {literal(table)}) AS one "
        f"CROSS JOIN (SELECT number, {insert_seconds}[number] AS took "
        f"FROM numbers(1, {len(insert_seconds)})) AS earlier",
    )


@pytest.mark.thorough
def test_throughput_is_drawn_and_told_in_figures(
    busy_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    remember_loads(busy_lake, table="trips", insert_seconds=[9, 10, 31, 8, 9, 10, 9, 8])
    with asked_as_watcher(busy_lake):
        page, troubles = open_page("/chs3/?view=throughput&days=1", color_scheme="dark")
        page.get_by_role("combobox", name="Table").select_option(f"{busy_lake.database}.trips")
        slow = page.get_by_role("list", name="Slow loads").inner_text()
        assert "It took 35.0 s where" in slow
        assert "the insert took 31.0 s instead of the usual 9.0 s" in slow
        page.wait_for_function("document.querySelectorAll('.chart canvas').length === 6")
        painted = page.evaluate(
            "[...document.querySelectorAll('.chart canvas')].map((each) => each.width > 300 && "
            "each.getContext('2d').getImageData(0, 0, each.width, each.height).data.some((value) => value > 0))"
        )
        assert painted == [True] * 6
        keep(page, "throughput-dark")
        page.get_by_text("Figures of 9 loads").focus()
        page.keyboard.press("Enter")
        rows = page.get_by_role("region", name="Figures of 9 loads").get_by_role("row")
        assert (rows.count(), rows.nth(2).locator(".number").nth(1).inner_text()) == (10, "6,667")
        page.get_by_role("link", name="30 days").click()
        page.get_by_role("link", name="30 days").and_(page.locator("[aria-current]")).wait_for()
    assert (page.locator("main b, main script").count(), troubles) == (0, [])


@pytest.mark.thorough
def test_a_month_that_failed_is_told_in_detail(
    trips_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    loaded(trips_lake)
    fail(trips_lake, TASK)
    page, troubles = open_page("/chs3/")
    page.get_by_role("button", name=f"{MONTH}: failed").click()
    page.get_by_role("heading", name=f"Settings: trips {MONTH}").wait_for()
    assert "cannot be made of row 1 of" in page.locator("main .trouble").inner_text()
    tables = {
        name: page.get_by_role("region", name=name).inner_text()
        for name in ("Load that published it", "Where its time went", "Nodes", "Settings")
    }
    assert "at publishing" in tables["Load that published it"]
    assert "publish" in tables["Where its time went"]
    assert "Rows at publishing" in tables["Nodes"]
    assert "max_insert_threads" in tables["Settings"]
    assert "cores" in tables["Settings"]
    assert troubles == []
