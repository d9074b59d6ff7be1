"""Tables by day, by hour and whole ones on the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import load_table, loaded, periods
from tests.support.browsing import PAGE, keep
from tests.support.lake import Lake

if TYPE_CHECKING:
    from playwright.sync_api import Page

DAYS = [str(date(2026, 9, 20) + timedelta(days=number)) for number in range(40) if number != 17]
MISSING = "2026-10-07"


@pytest.fixture
def tables(trips_lake: Lake) -> Lake:
    """One table by month, one by day with a day missing, one by hour, and a whole one."""
    loaded(trips_lake)
    by_day = {day: "".join(f"{day} {hour:02}:00:00,{hour}\n" for hour in range(int(day[-1]) + 3)) for day in DAYS}
    load_table(trips_lake, "events", "toYYYYMMDD(at)", "{YYYY-MM-DD}", by_day)
    hours = {f"2026-10-24T{hour:02}Z": f"2026-10-24 {hour:02}:30:00,1\n" for hour in range(20, 24)}
    hours |= {f"2026-10-25T{hour:02}Z": f"2026-10-25 {hour:02}:30:00,1\n" for hour in range(6)}
    load_table(trips_lake, "clicks", "toStartOfHour(at)", "{YYYY-MM-DD}T{HH}Z", hours)
    return two_nights(trips_lake)


@pytest.fixture
def customers(lake: Lake) -> Lake:
    """A whole table."""
    return two_nights(lake)


def two_nights(lake: Lake) -> Lake:
    for night in ({"x": "2026-10-05 01:00:00,1\n"}, {"y": "2024-01-01 00:00:00,2\n"}):
        load_table(lake, "customers", "", "**", night)
    return lake


@pytest.mark.thorough
def test_each_period_is_told_as_it_is_and_a_few_that_lack_between(as_user: AsUser, tables: Lake) -> None:
    days = periods(as_user, tables, "events")
    assert list(days) == sorted([*DAYS, MISSING])
    assert {day: each["state"] for day, each in days.items() if each["state"] != "published"} == {
        MISSING: "never_loaded"
    }
    assert {day: each["rows"] for day, each in days.items() if day != MISSING} == {
        day: int(day[-1]) + 3 for day in DAYS
    }
    whole = periods(as_user, tables, "customers")
    assert {name: (each["state"], each["rows"]) for name, each in whole.items()} == {"all": ("published", 2)}
    assert len(periods(as_user, tables, "clicks")) == 10


@pytest.mark.thorough
@pytest.mark.parametrize(("table", "period", "rows"), [("events", "2026-10-05", 8), ("customers", "all", 2)])
def test_the_details_are_those_of_the_period_alone(
    as_user: AsUser, tables: Lake, table: str, period: str, rows: int
) -> None:
    query = {"conn_id": "chs3_default", "database": tables.database, "table": table, "period": period}
    found = as_user("viewer").get("/chs3/api/period", params=query).raise_for_status().json()
    assert sum(each["share"]["rows"] for each in found["nodes"]) == rows


def test_a_whole_table_tells_what_each_night_has_added(as_user: AsUser, customers: Lake) -> None:
    query = {"conn_id": "chs3_default", "database": customers.database, "table": "customers", "period": "all"}
    found = as_user("viewer").get("/chs3/api/period", params=query).raise_for_status().json()
    assert [(each["loaded_objects"], each["loaded_rows"]) for each in found["history"]] == [(1, 1), (1, 1)]
    assert found["history"] == sorted(found["history"], key=lambda each: each["recorded_at"], reverse=True)


@pytest.mark.thorough
def test_rows_that_nobody_loaded_are_of_the_period_that_the_key_says(as_user: AsUser, tables: Lake) -> None:
    for table in ("events", "customers"):
        tables.on_node(0, f"INSERT INTO {tables.database}.{table} VALUES ('2026-11-01 00:00:00', 1)")
    assert periods(as_user, tables, "events")["2026-11-01"]["state"] == "changed"
    assert list(periods(as_user, tables, "customers")) == ["all"]
    # A gap of years is no years of cells.
    tables.on_node(0, f"INSERT INTO {tables.database}.clicks VALUES ('2099-01-01 00:00:00', 1)")
    assert len(periods(as_user, tables, "clicks")) == 11


@pytest.mark.thorough
def test_tables_of_each_length_have_a_list_and_an_axis_of_their_own(
    tables: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    page, troubles = open_page(PAGE)
    for title in ("Tables by hour", "Tables by day", "Tables by month", "Whole tables"):
        page.get_by_role("group", name=title).wait_for()
    strip = page.get_by_role("toolbar", name=f"Periods of {tables.database}.events")
    newest = strip.get_by_role("button", name=f"{DAYS[-1]}: published")
    newest.wait_for()
    days = page.get_by_role("group", name="Tables by day")
    days.get_by_text("Last published").wait_for()
    days.get_by_text(re.compile(r"^\d+ (s|min) ago$")).wait_for()
    keep(page, "grains")
    before = strip.get_by_role("button").count()
    days.get_by_role("button", name="Earlier periods").click()
    strip.get_by_role("button", name=f"{DAYS[0]}: published").wait_for()
    assert before < len(DAYS) + 1
    page.get_by_role("button", name="whole table: published").click()
    panel = page.get_by_role("dialog", name=f"{tables.database}.customers")
    panel.get_by_role("group", name="Now").wait_for()
    nights = panel.get_by_role("region", name="History")
    nights.wait_for()
    assert nights.get_by_role("row").count() == 3
    nights.scroll_into_view_if_needed()
    keep(page, "grains-whole")
    assert troubles == []
