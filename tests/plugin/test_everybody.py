"""The page for everybody who logs in: with the keyboard alone, enlarged, in both themes, and read out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models import TaskInstance
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import update

from airflow_provider_chs3.plugin.constants import LOADERS
from tests.plugin import runs
from tests.plugin.fixture_types import Open
from tests.plugin.scene import DAG_ID, FAILED, LOADING, PUBLISHED, STUCK, scene
from tests.support.browsing import PAGE, THEMES, TIMEOUT_MILLISECONDS, keep
from tests.support.lake import Lake

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Fixtures.
__all__ = ["scene"]
VIEWS = ("periods", "periods&strip=rows", "throughput", "cluster")
#: The largest allowed width, in pixels of CSS: 1280 at 200%, and at 400%.
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
_CUT_OFF = """[...document.querySelectorAll("[data-chs3=page] *")].filter((each) => {
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
def test_who_logs_in_sees_how_all_periods_are(scene: Lake, log_in: Callable[[str | None], Page], name: str) -> None:
    page = log_in(name)
    page.goto(PAGE)
    periods = page.get_by_role("toolbar", name=f"Periods of {scene.database}.trips", exact=True)
    for period, state in ((STUCK, "stuck"), (FAILED, "failed"), (PUBLISHED, "published"), (LOADING, "loading")):
        periods.get_by_role("button", name=f"{period}: {state}").wait_for()
    assert "2 periods need attention" in page.get_by_role("region", name="What needs attention").inner_text()
    keep(page, "periods")
    for shows, name in (("Rows", "Rows per period"), ("Duration", "Insert time")):
        page.get_by_role("radiogroup", name="Strips show").get_by_text(shows).click()
        page.get_by_role("note", name="Legend").get_by_text(name).wait_for()
        keep(page, f"periods-{shows.lower()}")
    periods.get_by_role("button", name=LOADING).click()
    steps = page.get_by_role("dialog").get_by_role("list", name="Steps")
    steps.get_by_text("✓ Stage").wait_for()
    assert "Insert" in steps.locator("[aria-current=step]").inner_text()
    assert steps.get_by_text("last ").count() == steps.get_by_role("listitem").count()
    page.get_by_text("settings, with reasons").wait_for()
    _assert_accessible(page, "light", dialog=True)
    keep(page, "period-running")
    page.keyboard.press("Escape")
    periods.get_by_role("button", name=FAILED).click()
    page.get_by_role("alert").get_by_text("cannot be filled from row").wait_for()
    keep(page, "period-failed")
    page.keyboard.press("Escape")
    periods.get_by_role("button", name=f"{PUBLISHED}: published").click()
    page.get_by_role("img", name="Parts over time").scroll_into_view_if_needed()
    page.get_by_role("button", name="Copy the query").scroll_into_view_if_needed()
    keep(page, "period-parts")
    page.keyboard.press("Escape")
    page.get_by_role("radiogroup", name="Views").get_by_text("Cluster").click()
    page.get_by_role("region", name="Running loads").wait_for()
    keep(page, "cluster")


@pytest.mark.thorough
def test_who_is_logged_out_meanwhile_is_told_so(scene: Lake, open_page: Open) -> None:
    page, _ = open_page(PAGE, clock=True)
    page.get_by_role("button", name=PUBLISHED).wait_for()
    page.context.clear_cookies()
    page.clock.fast_forward("00:31")
    page.clock.run_for(5_000)
    page.get_by_role("status").filter(has_text="log in again").wait_for()
    assert page.get_by_role("button", name=PUBLISHED).is_visible()


@pytest.mark.thorough
def test_the_keyboard_alone_leads_from_periods_to_nodes_and_back(scene: Lake, open_page: Open) -> None:
    page, _ = open_page(PAGE)
    page.get_by_role("button", name=LOADING).wait_for()

    def tab_to(wanted: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            if wanted in page.evaluate(_FOCUSED):
                assert page.evaluate(_IS_FOCUS_SHOWN), wanted
                return
        raise AssertionError(f"Tab does not lead to {wanted}")

    tab_to(LOADING)
    for key in ("ArrowLeft", "ArrowLeft", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    page.get_by_role("dialog").get_by_text("KILL MUTATION WHERE").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.get_by_role("radio", name="Periods").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.get_by_role("heading", name="Running loads").wait_for()
    tab_to("Nodes")
    tab_to("Tables closest to their part limits")


@pytest.mark.thorough
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_lost_when_it_is_enlarged(scene: Lake, open_page: Open, view: str, width: int) -> None:
    page, _ = open_page(
        f"{PAGE}?view={view}", viewport={"width": width, "height": 512}, device_scale_factor=1280 / width
    )
    _see(page, view)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("[data-chs3=page]").evaluate("each => each.scrollWidth <= each.clientWidth")
    assert page.evaluate(_CUT_OFF) == []


@pytest.mark.thorough
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_violation(scene: Lake, open_page: Open, view: str, theme: str) -> None:
    page, troubles = open_page(f"{PAGE}?view={view}", role="admin", color_scheme=theme)
    _see(page, view)
    assert page.get_by_role("listitem", name="Run of DAG").count() == 0
    _assert_accessible(page, theme, dialog=view.startswith("periods"))
    assert troubles == []


@pytest.fixture
def dags_in_trouble(scene: Lake, as_user: Callable[[str | None], TestClient]) -> Iterator[None]:
    """A run that failed before it loaded anything, and a DAG that Airflow cannot import."""
    is_known = DagModel.dag_id == DAG_ID
    runs.make_known(runs.LOADER)
    run = runs.start(as_user("admin"))
    runs.set_state(run, "failed")
    with create_session() as session:
        session.execute(update(TaskInstance).where(TaskInstance.run_id == run.run_id).values(operator=LOADERS[0]))
        session.execute(update(DagModel).where(is_known).values(has_import_errors=True))
    runs.end(run.run_id, "failed")
    yield
    with create_session() as session:
        session.execute(update(DagModel).where(is_known).values(has_import_errors=False))
        session.execute(update(DagModel).values(is_stale=DagModel.dag_id != DAG_ID))


@pytest.mark.thorough
@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_no_violation_where_dags_are_in_trouble(dags_in_trouble: None, open_page: Open, theme: str) -> None:
    page, troubles = open_page(PAGE, role="admin", color_scheme=theme)
    page.get_by_role("listitem", name=f"Run of DAG {runs.LOADER} failed").get_by_text("Task load failed").wait_for()
    page.get_by_role("listitem", name=f"DAG {DAG_ID} cannot be imported").get_by_role("link", name=DAG_ID).wait_for()
    page.get_by_role("heading", name="2 periods and 2 DAGs need attention").wait_for()
    _assert_accessible(page, theme, dialog=False)
    assert troubles == []
    keep(page, "dags-in-trouble")


def _assert_accessible(page: Page, theme: str, *, dialog: bool) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    assert theme in str(page.locator("html").get_attribute("class"))
    # Airflow answers for its own frame around the page.
    own = {"include": [["[data-chs3=page]"], *([["[role=dialog]"]] if dialog else [])]}
    found = axe.Axe().run(page, context=own, options={"runOnly": _RULES, "resultTypes": ["violations"]})
    assert found.violations_count == 0, found.generate_report()


def _see(page: Page, view: str) -> None:
    """Wait until a view is there; of the periods, open one."""
    if view.startswith("periods"):
        page.get_by_role("button", name=LOADING).click()
        page.get_by_text("settings, with reasons").wait_for()
    else:
        page.get_by_role("region", name="Connection chs3_default").wait_for()
