"""The page in Airflow's UI, as a browser shows it."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_provider_chs3.testbed.ports import free_ports
from tests.integration.lake import MONTH, Lake
from tests.plugin.test_months import HOSTILE, TRIPS, loaded, loading

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")

_CHROMIUM = shutil.which("chromium") or ""
pytestmark = pytest.mark.skipif(not _CHROMIUM, reason="needs Chromium: apt-get install chromium")

_TIMEOUT_MILLISECONDS = 60_000
#: Where screenshots go, if anywhere.
_SCREENSHOTS = os.environ.get("CHS3_SCREENSHOTS")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with playwright.sync_playwright() as started:
        # Chromium's own sandbox does not start as root.
        browser = started.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def url(airflow_api: FastAPI) -> Iterator[str]:
    """Airflow's UI, served by a thread of the test."""
    (port,) = free_ports(1)
    server = uvicorn.Server(uvicorn.Config(airflow_api, host="127.0.0.1", port=port, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def open_page(
    browser: Browser, url: str, as_user: Callable[[str | None], TestClient]
) -> Iterator[Callable[..., tuple[Page, list[str]]]]:
    """Opens a path as a viewer; gives the page, and what it complains about: errors, refused resources, dialogs."""
    contexts: list[Any] = []

    def open_it(path: str, **options: Any) -> tuple[Page, list[str]]:
        context = browser.new_context(viewport={"width": 1200, "height": 800}, **options)
        contexts.append(context)
        context.set_default_timeout(_TIMEOUT_MILLISECONDS)
        token = as_user("viewer").headers["Authorization"].removeprefix("Bearer ")
        context.add_cookies([{"name": "_token", "value": token, "url": url}])
        page, troubles = context.new_page(), []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        page.goto(f"{url}{path}")
        return page, troubles

    yield open_it
    for context in contexts:
        context.close()


def _keep(page: Page, name: str) -> None:
    if _SCREENSHOTS:
        page.screenshot(path=Path(_SCREENSHOTS) / f"{name}.png")


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
    _keep(page, "months-dark")
    assert troubles == []


def test_airflows_navigation_leads_to_it_while_a_month_loads(
    busy_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    busy_lake.upload(TRIPS, "2026-11")
    with loading(busy_lake, month="2026-11"):
        page, _ = open_page("/plugin/chs3-months")
        frame = page.frame_locator("iframe")
        button = frame.get_by_role("button", name="2026-11: loading")
        button.click()
        assert "rows/s" in frame.locator("dl").inner_text()
        _keep(page, "months-in-airflow")
