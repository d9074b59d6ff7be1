"""The page for everybody who logs in: with the keyboard alone, enlarged, in both themes, and read out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3 import plugin
from tests.integration.lake import Lake
from tests.plugin.browsing import TIMEOUT_MILLISECONDS, keep
from tests.plugin.scene import FAILED, LOADING, PUBLISHED, STUCK, scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Fixtures.
__all__ = ["scene"]

OpenPage = Callable[..., tuple["Page", list[str]]]

_HTML = (Path(plugin.__file__).parent / "static" / "page.html").read_text(encoding="utf-8")
VIEWS = re.findall(r'data-view="(\w+)"', _HTML)
THEMES = ("light", "dark")
#: What nothing may be wider than, in pixels of CSS: 1280 at 200 %, and at 400 %.
WIDTHS = (640, 320)
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

_FOCUSED = """(() => {
  const at = document.activeElement;
  return at.getAttribute("aria-label") || at.textContent;
})()"""
_IS_FOCUS_SHOWN = """(() => {
  const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
  return document.activeElement.matches(":focus-visible") && outlineStyle !== "none" && outlineWidth !== "0px";
})()"""
#: Elements that hide what they have no room for.
_CUT_OFF = """[...document.querySelectorAll("body *")].filter((each) => {
  const style = getComputedStyle(each);
  return style.overflowX === "hidden" && each.scrollWidth > each.clientWidth + 1;
}).map((each) => each.outerHTML.slice(0, 200))"""


@pytest.fixture
def log_in(browser: Browser, url: str, fresh_looks: None) -> Iterator[Callable[[str | None], Page]]:
    """Logs somebody in on Airflow's login page; None stays a stranger."""
    contexts: list[Any] = []

    def log_in(name: str | None) -> Page:
        context = browser.new_context(viewport={"width": 1200, "height": 800}, base_url=url)
        contexts.append(context)
        context.set_default_timeout(TIMEOUT_MILLISECONDS)
        page = context.new_page()
        if name:
            page.goto("/auth/login")
            page.locator("[name=username]").fill(name)
            page.locator("[name=password]").fill(f"{name}'s password")
            page.keyboard.press("Enter")
            page.wait_for_url(lambda to: "/auth/" not in to)
        return page

    yield log_in
    for context in contexts:
        context.close()


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["admin", "viewer"])
def test_who_logs_in_sees_how_all_months_are(scene: Lake, log_in: Callable[[str | None], Page], name: str) -> None:
    page = log_in(name)
    page.goto("/plugin/chs3-months")
    frame = page.frame_locator("iframe")
    for month, state in ((STUCK, "stuck"), (FAILED, "failed"), (PUBLISHED, "published"), (LOADING, "loading")):
        frame.get_by_role("button", name=f"{month}: {state}").wait_for()
    frame.get_by_role("button", name=LOADING).click()
    assert "rows/s" in frame.locator("dl").inner_text()
    keep(page, "months")
    frame.get_by_role("button", name=FAILED).click()
    frame.get_by_text("cannot be made of row").first.wait_for()
    keep(page, "month-details")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("name", "status", "says"), [("nobody", 403, "may not see"), (None, 401, "Log in to Airflow")])
def test_who_may_not_see_it_is_told_so(
    log_in: Callable[[str | None], Page], name: str | None, status: int, says: str
) -> None:
    page = log_in(name)
    answer = page.goto("/chs3/")
    assert answer is not None
    assert (answer.status, says in page.locator("body").inner_text()) == (status, True)
    assert page.request.get("/chs3/api/months").status == status


def test_who_is_logged_out_meanwhile_is_told_so(scene: Lake, open_page: OpenPage) -> None:
    page, _ = open_page("/chs3/", clock=True)
    page.get_by_role("button", name=PUBLISHED).wait_for()
    page.context.clear_cookies()
    page.clock.fast_forward("00:11")
    page.get_by_role("status").filter(has_text="log in again").wait_for()
    assert page.get_by_role("button", name=PUBLISHED).is_visible()


def test_the_keyboard_alone_leads_from_months_to_nodes_and_back(scene: Lake, open_page: OpenPage) -> None:
    page, _ = open_page("/chs3/")
    page.get_by_role("button", name=LOADING).wait_for()

    def tab_to(wanted: str) -> None:
        for _ in range(30):
            page.keyboard.press("Tab")
            if wanted in page.evaluate(_FOCUSED):
                assert page.evaluate(_IS_FOCUS_SHOWN), wanted
                return
        raise AssertionError(f"Tab does not lead to {wanted}")

    tab_to(LOADING)
    for key in ("ArrowLeft", "ArrowLeft", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    assert "KILL MUTATION" in page.locator("dl").inner_text()
    page.reload()
    tab_to("Cluster")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Running loads").wait_for()
    tab_to("Nodes")
    tab_to("Tables nearest to their limits")


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_lost_when_it_is_enlarged(scene: Lake, open_page: OpenPage, view: str, width: int) -> None:
    page, _ = open_page(
        f"/chs3/?view={view}", viewport={"width": width, "height": 512}, device_scale_factor=1280 / width
    )
    _see(page, view)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(_CUT_OFF) == []


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_violation(scene: Lake, open_page: OpenPage, view: str, theme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    page, troubles = open_page(f"/chs3/?view={view}", role="admin", color_scheme=theme)
    _see(page, view)
    assert page.locator("html").get_attribute("data-theme") == theme
    found = axe.Axe().run(page, options={"runOnly": _RULES, "resultTypes": ["violations"]})
    assert found.violations_count == 0, found.generate_report()
    keep(page, f"{view}-{theme}")
    assert troubles == []


def _see(page: Page, view: str) -> None:
    """Wait until a view is there; of the months, open one."""
    page.locator("main h2").first.wait_for()
    if view == "months":
        page.get_by_role("button", name=LOADING).click()
        page.get_by_role("heading", name="Settings: trips").wait_for()
