"""Periods that one insert has loaded say that their seconds are shares of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.plugin.fixture_types import AsUser, Open
from tests.plugin.period_loads import periods
from tests.support.browsing import PAGE, keep
from tests.support.several_periods import PERIODS, Periods
from tests.support.several_periods import periods as several_periods

if TYPE_CHECKING:
    pass

#: Fixtures.
__all__ = ["several_periods"]


TOGETHER = f"{PERIODS[0]} … {PERIODS[-1]} (4 months)"
ALONE = PERIODS[1]


@pytest.mark.thorough
def test_periods_of_one_insert_say_so_until_they_are_loaded_alone(
    as_user: AsUser, several_periods: Periods, open_page: Open
) -> None:
    lake = several_periods.lake
    several_periods.load()
    found = periods(as_user, lake, lake.table)
    (of_all,) = {each["together"]["seconds"] for each in found.values()}
    assert {each["together"]["periods"] for each in found.values()} == {TOGETHER}
    assert sum(each["insert_seconds"] for each in found.values()) == pytest.approx(of_all, abs=0.005)
    assert all(0 < each["insert_seconds"] < of_all for each in found.values())
    several_periods.put(ALONE, "c")
    several_periods.load()
    assert periods(as_user, lake, lake.table)[ALONE]["together"] is None
    page, troubles = open_page(f"{PAGE}?strip=duration")
    cells = page.get_by_role("toolbar", name=f"Periods of {lake.database}.{lake.table}").get_by_role("button")
    cells.first.wait_for()
    titles = dict(zip(PERIODS, cells.evaluate_all("cells => cells.map((cell) => cell.title)"), strict=True))
    assert [period for period, title in titles.items() if f" s that loaded {TOGETHER}" in title] == [
        period for period in PERIODS if period != ALONE
    ]
    assert all("its share of one insert of " in title for period, title in titles.items() if period != ALONE)
    cells.nth(0).click()
    panel = page.get_by_role("dialog")
    panel.get_by_text(f"Its share of the time that {TOGETHER} took together.").wait_for()
    now = panel.get_by_role("group", name="Now").inner_text()
    assert re.search(r"Insert\s+[\d.,]+K? rows/s; its share of one insert of ", now)
    keep(page, "loaded-together")
    assert troubles == []
