"""The page as a person sees it on a quiet night, on the first day, while waiting, and by choosing what is shown."""

from __future__ import annotations

import json
import re
import shlex
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import airflow
import pytest
from airflow.cli.cli_parser import get_parser

from airflow_provider_chs3.testbed.trips import Trips
from tests.plugin.fixture_types import AsUser, Open
from tests.plugin.made_up_loads import remember_loads
from tests.plugin.period_loads import loaded, periods
from tests.support.browsing import PAGE, keep
from tests.support.dag_bag import DagBag
from tests.support.lake import PERIOD, Lake

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route


#: Each view, and what of it is there once it has its answer.
VIEWS = {"periods": "Tables", "throughput": "Table", "cluster": "Nodes"}
EARLIER = "2026-09"
#: Where no summer time changes the offset.
HERE, THERE = "America/Bogota", "Asia/Tokyo"


def duration(seconds: float) -> str:
    """As the page writes it."""
    return "< 0.01 s" if seconds < 0.005 else f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"


@pytest.mark.thorough
def test_a_quiet_night_is_one_line_and_odd_periods_stand_out_on_a_scale(
    trips_lake: Lake, as_user: AsUser, open_page: Open
) -> None:
    loaded(trips_lake)
    trips_lake.upload(Trips(rows_per_period=1_200, files_per_period=3), EARLIER)
    trips_lake.load(period=EARLIER)
    page, troubles = open_page(PAGE)
    strip = page.get_by_role("toolbar", name=f"Periods of {trips_lake.database}.trips")
    strip.wait_for()
    calm = page.get_by_text("No period needs attention.").locator("xpath=..").inner_text()
    assert re.search(r"No period needs attention\.\s+Checked \d+ s ago\.", calm)
    assert page.get_by_role("region", name="What needs attention").count() == 0
    legend = page.get_by_role("note", name="Legend")
    assert legend.count() == 0

    def choose(shows: str) -> list[list[str]]:
        page.get_by_role("radiogroup", name="Strips show").get_by_text(shows).click()
        legend.wait_for()
        return strip.get_by_role("button").evaluate_all(
            "cells => cells.map((cell) => [cell.title, cell.style.getPropertyValue('--share')])"
        )

    assert choose("Rows") == [[f"{EARLIER}: published, 1,200 rows", "100%"], [f"{PERIOD}: published, 600 rows", "50%"]]
    assert "Least 600 rows, most 1,200 rows" in legend.inner_text()
    assert page.get_by_role("list", name="Tables").get_by_text("600 – 1.2K").is_visible()
    keep(page, "rows-of-periods")
    took = {period: each["insert_seconds"] for period, each in periods(as_user, trips_lake).items()}
    choose("Duration")
    assert [title for title, _ in choose("Duration")] == [
        f"{period}: published, {duration(took[period])}" for period in (EARLIER, PERIOD)
    ]
    least, most = sorted(took.values())
    assert f"Least {duration(least)}, most {duration(most)}" in legend.inner_text()
    assert troubles == []


def copied(page: Page) -> str:
    """Return what the page's only button to copy brings to the clipboard."""
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    return str(page.evaluate("navigator.clipboard.readText()"))


CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}


@pytest.mark.thorough
def test_without_a_connection_every_view_has_the_command_that_adds_one(
    airflow_db: Path, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_CHS3_DEFAULT", raising=False)
    page, _ = open_page(PAGE, **CLIPBOARD)
    for view in ("Cluster", "Throughput", "Periods"):
        page.get_by_role("radiogroup", name="Views").get_by_text(view).click()
        page.get_by_role("heading", name="Connect Airflow to ClickHouse first").wait_for()
    keep(page, "no-connection")
    program, *words = shlex.split(copied(page).replace("\\\n", " "))
    arguments = get_parser().parse_args(words)
    assert (program, arguments.conn_id, arguments.conn_type) == ("airflow", "chs3_default", "chs3")
    assert "cluster" in json.loads(arguments.conn_extra)


@pytest.mark.thorough
def test_without_a_period_the_page_has_a_dag_that_loads_some(lake: Lake, open_page: Open, tmp_path: Path) -> None:
    page, _ = open_page(PAGE, **CLIPBOARD)
    page.get_by_role("heading", name="No period has been loaded yet").wait_for()
    keep(page, "no-period")
    file = tmp_path / "dag.py"
    file.write_text(copied(page))
    (dag,) = DagBag(file).dags.values()
    assert (dag.dag_id, bool(dag.task_ids)) == ("trips_nightly", True)


def test_each_view_shows_where_its_answer_will_be_and_asks_no_other_host(trips_lake: Lake, open_page: Open) -> None:
    loaded(trips_lake)
    held: list[Route] = []
    hosts, answered = set[str](), set[str]()

    def see(route: Route) -> None:
        hosts.add(urlsplit(route.request.url).netloc)
        # A view shows that it waits before it asks.
        if "/chs3/api/" in route.request.url and not any(f"/api/{view}" in route.request.url for view in answered):
            held.append(route)
        else:
            route.continue_()

    page, troubles = open_page(PAGE, routes={"**/*": see})
    for view, name in VIEWS.items():
        page.get_by_role("radiogroup", name="Views").get_by_text(view.capitalize()).click()
        waiting = page.get_by_role("status", name="Loading")
        waiting.wait_for()
        there = page.locator(f"[aria-label='{name}']")
        assert (waiting.locator("> *").count() > 2, there.count()) == (True, 0)
        answered.add(view)
        for route in [route for route in held if f"/api/{view}" in route.request.url]:
            held.remove(route)
            route.continue_()
        there.first.wait_for()
        assert waiting.count() == 0
    # Pictures that are part of a style sheet have no host.
    assert hosts - {""} == {urlsplit(page.url).netloc}
    assert troubles == []


@pytest.mark.thorough
@pytest.mark.skipif(
    airflow.__version__.startswith(("3.1.", "3.2.")), reason="before Airflow 3.3 a zone is chosen elsewhere in its UI"
)
def test_times_are_in_the_zone_that_is_chosen_in_airflow(trips_lake: Lake, as_user: AsUser, open_page: Open) -> None:
    loaded(trips_lake)
    text = periods(as_user, trips_lake)[PERIOD]["published_at"]
    at = datetime.fromisoformat(f"{text}+00:00")
    page, _ = open_page(PAGE, timezone_id=HERE)

    def shown() -> list[str | None]:
        page.get_by_role("button", name=f"{PERIOD}: published").click()
        found = page.get_by_role("dialog").get_by_role("group", name="Now").locator("time")
        told = [found.inner_text(), found.get_attribute("title")]
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")
        return told

    def expected(zone: str) -> list[str]:
        return [f"{at.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S}", f"{text} UTC"]

    assert shown() == expected(HERE)
    page.get_by_role("button", name="-05:00").click()
    page.get_by_role("dialog").get_by_role("combobox").fill(THERE)
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    assert shown() == expected(THERE)


@pytest.mark.thorough
def test_a_chart_is_zoomed_by_dragging_and_shows_all_again(trips_lake: Lake, open_page: Open) -> None:
    loaded(trips_lake)
    remember_loads(trips_lake, table="trips", insert_seconds=[9, 10, 8, 9])
    page, troubles = open_page(f"{PAGE}?view=throughput&days=1")
    chart = page.get_by_role("figure").filter(has_text="Rows per second")
    chart.locator("canvas").wait_for()
    picture = "canvas => canvas.toDataURL()"
    show_all = page.get_by_role("button", name="Show all")
    # Which waits until it moves no more.
    chart.locator(".u-over").hover()
    box = chart.locator(".u-over").bounding_box()
    assert box is not None
    assert show_all.count() == 0
    before = chart.locator("canvas").evaluate(picture)
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.5 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.9 * box["width"], y, steps=5)
    page.mouse.up()
    show_all.wait_for()
    assert chart.locator("canvas").evaluate(picture) != before
    assert chart.get_by_role("button", name="Show all").count() == show_all.count() == 1
    show_all.click()
    show_all.wait_for(state="detached")
    assert troubles == []


def three_tables(route: Route) -> None:
    """Answer as the API does, with tables of two clusters, two databases and two DAGs."""
    answer = route.fetch()
    found: dict[str, Any] = answer.json()
    (seen,) = found["connections"]
    period, unread = seen["tables"][0]["periods"][-1], seen["tables"][0]["unread"]

    def table(database: str, name: str, dag_id: str, **facts: Any) -> dict[str, Any]:
        task = {"dag_id": dag_id, "run_id": "run", "task_id": "load", "map_index": -1}
        return {"database": database, "table": name, "periods": [period | {"task": task} | facts], "unread": unread}

    elsewhere = seen | {"conn_id": "chs3_other", "nodes": [{"name": "elsewhere", "error": "", "is_missed": False}]}
    seen["tables"] = [
        table("one", "alpha", "first", rows=10, period="2026-10"),
        table("one", "beta", "second", rows=300, period="2026-11"),
    ]
    elsewhere["tables"] = [table("two", "gamma", "second", rows=20, period="2026-09", state="failed")]
    found["connections"] = [seen, elsewhere]
    route.fulfill(response=answer, json=found)


@pytest.mark.thorough
def test_tables_are_sorted_and_filtered_by_connection_database_and_dag(trips_lake: Lake, open_page: Open) -> None:
    loaded(trips_lake)
    expect = pytest.importorskip("playwright.sync_api").expect
    page, troubles = open_page(PAGE, routes={"**/chs3/api/periods?*": three_tables})
    tables = page.get_by_role("list", name="Tables").get_by_role("heading")

    def choose(name: str, label: str, left: list[str]) -> None:
        page.get_by_role("combobox", name=name, exact=True).select_option(label=label)
        expect(tables).to_have_text(left)

    alpha, beta, gamma = "one.alpha", "one.beta", "two.gamma"
    choose("Sort", "By rows", [beta, gamma, alpha])
    choose("Sort", "By newest period", [beta, alpha, gamma])
    choose("Sort", "By urgency", [gamma, alpha, beta])
    choose("Sort", "By name", [alpha, beta, gamma])
    choose("Connection", "chs3_other", [gamma])
    choose("Connection", "All connections", [alpha, beta, gamma])
    choose("Database", "one", [alpha, beta])
    choose("DAG", "second", [beta])
    assert page.get_by_text("1 of 3 tables").is_visible()
    choose("Database", "All databases", [beta, gamma])
    page.reload()
    expect(tables).to_have_text([beta, gamma])
    assert troubles == []
