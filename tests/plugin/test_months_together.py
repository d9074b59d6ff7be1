"""Months that one insert has loaded say that their seconds are shares of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from fastapi.testclient import TestClient

from tests.integration.several_months import MONTHS, Months
from tests.integration.several_months import months as several_months
from tests.plugin.browsing import PAGE, keep
from tests.plugin.test_months import months

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: Fixtures.
__all__ = ["several_months"]

AsUser = Callable[[str | None], TestClient]
Open = Callable[..., tuple["Page", list[str]]]

TOGETHER = f"{MONTHS[0]} … {MONTHS[-1]} (4 months)"
ALONE = MONTHS[1]


def test_months_of_one_insert_say_so_until_they_are_loaded_alone(
    as_user: AsUser, several_months: Months, open_page: Open
) -> None:
    lake = several_months.lake
    several_months.load()
    found = months(as_user, lake, lake.table)
    (of_all,) = {each["together"]["seconds"] for each in found.values()}
    assert {each["together"]["months"] for each in found.values()} == {TOGETHER}
    assert sum(each["insert_seconds"] for each in found.values()) == pytest.approx(of_all, abs=0.005)
    assert all(0 < each["insert_seconds"] < of_all for each in found.values())
    several_months.put(ALONE, "c")
    several_months.load()
    assert months(as_user, lake, lake.table)[ALONE]["together"] is None
    page, troubles = open_page(f"{PAGE}?strip=duration")
    cells = page.get_by_role("toolbar", name=f"Months of {lake.database}.{lake.table}").get_by_role("button")
    cells.first.wait_for()
    titles = dict(zip(MONTHS, cells.evaluate_all("cells => cells.map((cell) => cell.title)"), strict=True))
    assert [month for month, title in titles.items() if f" s that loaded {TOGETHER}" in title] == [
        month for month in MONTHS if month != ALONE
    ]
    assert all("its share of one insert of " in title for month, title in titles.items() if month != ALONE)
    cells.nth(0).click()
    panel = page.get_by_role("dialog")
    panel.get_by_text(f"Its share of the time that {TOGETHER} took together.").wait_for()
    now = panel.get_by_role("group", name="Now").inner_text()
    assert re.search(r"Insert\s+[\d.,]+K? rows/s; its share of one insert of ", now)
    keep(page, "loaded-together")
    assert troubles == []
