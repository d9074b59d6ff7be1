"""The page in Airflow's UI, as a browser shows it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from airflow_provider_chs3.plugin.observation.period_state import PeriodState
from airflow_provider_chs3.testbed.nodes import Cluster
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from tests.plugin.made_up_loads import remember_loads
from tests.plugin.period_loads import HOSTILE, TASK, TRIPS, fail, loaded
from tests.plugin.scene import taxi_lake
from tests.plugin.watching import asked_as_watcher
from tests.support.browsing import PAGE, keep
from tests.support.lake import PERIOD, Lake

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route


@pytest.fixture
def busy_lake(
    cluster_of_test: Cluster, chs3_s3: S3Endpoint, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    """Periods that are published, one that another has changed, none between, and a table named like HTML."""
    with taxi_lake(cluster_of_test, chs3_s3, chs3_bucket, monkeypatch) as lake:
        lake.create_table()
        loaded(lake)
        name = f"{lake.database}.`{HOSTILE}`"
        lake.on_every_node(f"CREATE TABLE {name} AS {lake.database}.trips")
        lake.load(table=HOSTILE)
        lake.on_node(0, f"INSERT INTO {name} (trip_id, pickup_at) VALUES (1, '2026-06-05 00:00:00')")
        yield lake


def test_periods_are_shown_texts_are_texts_and_keys_move(
    busy_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    page, troubles = open_page(PAGE, color_scheme="dark")
    name = f"{busy_lake.database}.{HOSTILE}"
    page.get_by_role("heading", name=name).wait_for()
    assert page.locator("[data-chs3] b, [data-chs3] script").count() == 0
    page.get_by_role("toolbar", name=name).get_by_role("button", name="2026-06: changed by somebody").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == f"{PERIOD}: published"
    page.keyboard.press("Enter")
    panel = page.get_by_role("dialog", name=f"{name} {PERIOD}")
    panel.get_by_role("group", name="Now").get_by_text("600").wait_for()
    assert page.locator("[role=dialog] b, [role=dialog] script").count() == 0
    page.keyboard.press("Escape")
    panel.wait_for(state="detached")
    # A closing panel is hidden a moment before the focus returns.
    page.wait_for_function(f"document.activeElement.getAttribute('aria-label') === '{PERIOD}: published'")
    assert troubles == []


@pytest.mark.thorough
def test_what_is_chosen_is_in_the_address(busy_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]]) -> None:
    page, _ = open_page(PAGE)
    tables = page.get_by_role("listitem").filter(has=page.get_by_role("toolbar"))
    page.get_by_role("searchbox", name="Search tables").fill("TRIPS")
    page.get_by_text("1 of 2 tables").wait_for()
    page.get_by_role("group", name="States").get_by_role("button", name="published").click()
    page.get_by_role("button", name=f"{PERIOD}: published").click()
    page.reload()
    page.get_by_role("dialog", name=f"{busy_lake.database}.trips {PERIOD}").wait_for()
    page.go_back()
    page.get_by_role("dialog").wait_for(state="detached")
    assert (tables.count(), page.get_by_role("searchbox", name="Search tables").input_value()) == (1, "TRIPS")
    assert page.get_by_role("button", name="published", pressed=True).count() == 1
    calm = page.get_by_text("None of these periods needs attention.")
    assert calm.count() == 1
    page.get_by_role("searchbox", name="Search tables").fill("no such table")
    page.get_by_text("No table matches these filters.").wait_for()
    assert calm.count() == 0


@pytest.mark.thorough
def test_a_table_to_which_two_connections_lead_is_listed_once(
    trips_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(trips_lake)
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_OTHER", os.environ["AIRFLOW_CONN_CHS3_DEFAULT"])
    page, troubles = open_page(PAGE)
    page.get_by_role("toolbar", name=f"Periods of {trips_lake.database}.trips").wait_for()
    assert page.get_by_role("toolbar").count() == 1
    page.get_by_role("button", name=f"{PERIOD}: published").click()
    page.get_by_role("dialog").get_by_text("connections chs3_default, chs3_other").wait_for()
    assert troubles == []


@pytest.mark.thorough
def test_the_first_click_after_a_reload_leaves_the_page_as_it_is(
    busy_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    page, _ = open_page(PAGE)
    for _ in range(2):
        page.get_by_role("button", name=f"{PERIOD}: published").first.wait_for()
        page.evaluate("window.shown = document.querySelector('[data-chs3=page]')")
        page.get_by_role("button", name=f"{PERIOD}: published").first.click()
        page.get_by_role("dialog").wait_for()
        assert page.evaluate("window.shown.isConnected")
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")
        page.reload()


def many_tables(route: Route) -> None:
    """Answer as the API does, with a hundred tables of ten years."""
    answer = route.fetch()
    found = answer.json()
    (seen,) = found["connections"]
    period = seen["tables"][0]["periods"][-1]
    periods = [period | {"period": f"{year}-{number:02d}"} for year in range(2017, 2027) for number in range(1, 13)]
    unread = seen["tables"][0]["unread"]
    seen["tables"] = [
        {"database": "d", "table": f"table_{number:03d}", "periods": periods, "unread": unread} for number in range(100)
    ]
    route.fulfill(response=answer, json=found)


@pytest.mark.thorough
def test_a_hundred_tables_of_ten_years_are_few_elements_and_the_newest_is_in_view(
    busy_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    page, _ = open_page(PAGE, routes={"**/chs3/api/periods?*": many_tables})
    for width in (1200, 500, 400):
        page.set_viewport_size({"width": width, "height": 800})
        page.reload()
        page.get_by_text("100 tables").wait_for()
        first = page.get_by_role("toolbar", name="Periods of d.table_000")
        box = first.get_by_role("button", name="2026-12").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= width
        assert page.locator("[data-chs3=page] *").count() < 4_000
    page.get_by_role("list", name="Tables").evaluate("list => list.closest('[data-chs3=page]').scrollTo(0, 1e6)")
    page.get_by_role("toolbar", name="Periods of d.table_099").wait_for()


def many_failures(route: Route) -> None:
    """Answer as the API does, with eight tables that failed, each for a cause of its own."""
    answer = route.fetch()
    # Other tests have left runs that failed.
    found = answer.json() | {"failed_runs": [], "broken_dags": []}
    (seen,) = found["connections"]
    (table,) = seen["tables"]
    period = table["periods"][-1] | {"state": "failed", "since": "2026-11-01 03:00:00"}
    seen["tables"] = [
        table | {"table": f"t{number}", "periods": [period | {"why": f"its newest load failed: {'no ' * 70}{cause}"}]}
        for number, cause in enumerate("abcdefgh")
    ]
    route.fulfill(response=answer, json=found)


@pytest.mark.thorough
@pytest.mark.parametrize(("height", "few"), [(720, 3), (900, 5)])
def test_what_needs_attention_leaves_room_for_tables_on_the_first_screen(
    trips_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]], height: int, few: int
) -> None:
    loaded(trips_lake)
    size = {"width": height * 16 // 10, "height": height}
    page, troubles = open_page(PAGE, viewport=size, routes={"**/chs3/api/periods?*": many_failures})
    needs = page.get_by_role("region", name="What needs attention")
    needs.get_by_role("button", name=f"Show {8 - few} more").wait_for()
    assert needs.get_by_role("listitem").count() == few
    box = page.get_by_role("toolbar").first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= height
    keep(page, f"eight-failures-{height}")
    needs.get_by_role("button", name=f"Show {8 - few} more").click()
    assert needs.get_by_role("listitem").count() == 8
    assert troubles == []


@pytest.mark.thorough
@pytest.mark.parametrize("number", [9, 21])
def test_the_counts_of_states_have_one_line(
    trips_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]], number: int
) -> None:
    states = list(PeriodState)[:number]

    def answer(route: Route) -> None:
        """Answer as the API does, with a period of each of these states."""
        response = route.fetch()
        found = response.json()
        (table,) = found["connections"][0]["tables"]
        (period,) = table["periods"]
        table["periods"] = [period | {"period": f"{2000 + at}-01", "state": state} for at, state in enumerate(states)]
        route.fulfill(response=response, json=found)

    loaded(trips_lake)
    size = {"width": 1280, "height": 720}
    page, troubles = open_page(PAGE, viewport=size, routes={"**/chs3/api/periods?*": answer})
    counts = page.get_by_role("group", name="States")
    counts.get_by_role("button", name="1 merges wait").wait_for()
    box = counts.bounding_box()
    assert box is not None
    assert (box["height"] < 40, counts.get_by_role("button").count()) == (True, number)
    keep(page, f"states-{number}")
    assert troubles == []


@pytest.mark.thorough
def test_throughput_is_drawn_and_told_in_figures(
    busy_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    remember_loads(busy_lake, table="trips", insert_seconds=[9, 10, 31, 8, 9, 10, 9, 8])
    with asked_as_watcher(busy_lake):
        page, troubles = open_page(f"{PAGE}?view=throughput&days=1", color_scheme="dark")
        page.get_by_role("combobox", name="Table").select_option(f"{busy_lake.database}.trips")
        slow = page.get_by_role("list", name="Slow loads").inner_text()
        assert "It took 35.0 s instead of the usual" in slow
        assert "the insert took 31.0 s instead of the usual 9.0 s" in slow
        page.wait_for_function("document.querySelectorAll('.chart canvas').length === 6")
        painted = page.evaluate(
            "[...document.querySelectorAll('.chart canvas')].map((each) => each.width > 300 && "
            "each.getContext('2d').getImageData(0, 0, each.width, each.height).data.some((value) => value > 0))"
        )
        assert painted == [True] * 6
        keep(page, "throughput")
        memory = page.get_by_role("figure").filter(has_text="Memory on the busiest node")
        memory.locator(".u-over").hover()
        # The top of the chart, what the load at the pointer was allowed, and the fifth of that which it took.
        places = (memory.locator(".u-over"), *(memory.locator(".u-cursor-pt").nth(at) for at in (1, 0)))
        heights = [place.evaluate("each => each.getBoundingClientRect().top") for place in places]
        assert heights == sorted(set(heights))
        page.mouse.move(0, 0)
        page.get_by_text("9 loads as a table").focus()
        page.keyboard.press("Enter")
        rows = page.get_by_role("region", name="9 loads as a table").get_by_role("row")
        # The text is waited for, and the count is not.
        assert (rows.nth(2).locator(".number").nth(1).inner_text(), rows.count()) == ("6,667", 10)
        page.get_by_text("30 days").click()
        page.wait_for_url("**days=30**")
    assert (page.locator("[data-chs3] b, [data-chs3] script").count(), troubles) == (0, [])


@pytest.mark.thorough
def test_a_period_that_failed_is_told_in_detail(
    trips_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    loaded(trips_lake)
    fail(trips_lake, TASK)
    page, troubles = open_page(PAGE)
    page.get_by_role("button", name=f"{PERIOD}: failed").click()
    panel = page.get_by_role("dialog")
    panel.get_by_text("settings, with reasons").click()
    assert "cannot be filled from row 1 of" in panel.get_by_role("alert").inner_text()
    texts = {
        name: panel.get_by_role("group", name=name, exact=True).first.inner_text()
        for name in ("Load that published it", "Where the time went", "Rows by node", "SQL", "Settings")
    }
    assert "at publishing" in texts["Load that published it"]
    assert "Publish" in texts["Where the time went"]
    assert "Rows at publishing" in texts["Rows by node"]
    assert "FROM system.query_log WHERE query_id IN ('chs3_" in texts["SQL"]
    assert "max_insert_threads" in texts["Settings"]
    assert "cores" in texts["Settings"]
    assert troubles == []


@pytest.mark.thorough
def test_a_deleted_object_is_named_in_the_panel_and_two_loads_are_a_table(
    trips_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    deleted, *_ = trips_lake.upload(TRIPS)
    trips_lake.load()
    trips_lake.s3.delete_object(Bucket=trips_lake.bucket, Key=deleted)
    trips_lake.load()
    page, troubles = open_page(PAGE)
    page.get_by_role("button", name=f"{PERIOD}: published").click()
    panel = page.get_by_role("dialog")
    assert "1 deleted" in panel.get_by_role("group", name="Load that published it").inner_text()
    objects = panel.get_by_role("region", name="Objects").get_by_role("row")
    objects.nth(3).wait_for()
    told = objects.nth(1).inner_text()
    assert deleted in told
    assert "gone" in told
    objects.nth(1).scroll_into_view_if_needed()
    keep(page, "deleted-object")
    page.goto(f"{page.url.split('?')[0]}?view=throughput&days=1")
    loads = page.get_by_role("region", name="Loads").get_by_role("row")
    loads.nth(2).wait_for()
    assert (loads.count(), page.get_by_role("figure").filter(has_text="Rows per second").count()) == (3, 0)
    keep(page, "two-loads")
    assert troubles == []
