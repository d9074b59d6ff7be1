"""A browser on Airflow's UI. Tests that use it skip with the reason where there is none."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_provider_chs3.plugin.constants import NAVIGATION_ROUTE
from airflow_provider_chs3.testbed.processes import free_ports
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_CHROMIUM = shutil.which("chromium") or ""
TIMEOUT_MILLISECONDS = 60_000
#: The page in the navigation of Airflow's UI.
PAGE = f"/plugin/{NAVIGATION_ROUTE}"
THEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
_SWITCHES = (
    # Chromium's own sandbox does not start as root.
    "--no-sandbox",
    # The address bar's suggestions are pages of their own, drawn for each window: a fifth of what a page takes. The
    # last of these switches counts, so it has what Playwright's has for the sake of pages, too.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,"
    "AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,PaintHolding,OptimizationHints,AimEnabled",
    # Airflow's UI is 7 MB of JavaScript, most of which runs once: compiling it well takes longer than running it.
    "--js-flags=--no-opt --no-maglev",
)
#: Where screenshots go, if anywhere.
SCREENSHOTS = os.environ.get("CHS3_SCREENSHOTS")


# Not of the session: while it is there an event loop runs, and other modules' tests could run none of their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if not _CHROMIUM:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=_CHROMIUM, args=[*_SWITCHES])
        yield browser
        browser.close()


@pytest.fixture
def url(airflow_api: FastAPI) -> Iterator[str]:
    """Airflow's UI, served by a thread of the test."""
    (port,) = free_ports(1)
    server = uvicorn.Server(uvicorn.Config(airflow_api, host="127.0.0.1", port=port, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def open_page(
    browser: Browser, url: str, as_user: Callable[[str | None], TestClient]
) -> Iterator[Callable[..., tuple[Page, list[str]]]]:
    """Opens a path as somebody with a role, by default a viewer; the page's clock is the test's if that asks for it.

    `routes` are requests, as patterns, with what answers them from the first one on.

    Gives the page, and what it complains about: errors, refused resources, dialogs.
    """
    contexts: list[Any] = []

    def open_it(path: str, *, role: str = "viewer", clock: bool = False, **options: Any) -> tuple[Page, list[str]]:
        routes = options.pop("routes", {})
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 800}} | options))
        contexts.append(context)
        context.set_default_timeout(TIMEOUT_MILLISECONDS)
        token = as_user(role).headers["Authorization"].removeprefix("Bearer ")
        # As Airflow sets it.
        context.add_cookies([{"name": "_token", "value": token, "url": url, "httpOnly": True, "sameSite": "Lax"}])
        page, troubles = context.new_page(), []
        if clock:
            page.clock.install()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        for pattern, answer in routes.items():
            page.route(pattern, answer)
        page.goto(f"{url}{path}")
        return page, troubles

    yield open_it
    for context in contexts:
        for page in context.pages:
            # A test that failed may hold requests, which would be waited for without end.
            page.unroute_all(behavior="ignoreErrors")
        context.close()


def keep(page: Page, name: str) -> None:
    """Keep screenshots in both themes where CHS3_SCREENSHOTS names a folder for them."""
    if SCREENSHOTS:
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            page.locator(f"html.{theme}").wait_for()
            page.screenshot(path=Path(SCREENSHOTS) / f"{name}-{theme}.png", animations="disabled")
