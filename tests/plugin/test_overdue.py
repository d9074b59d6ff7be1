"""The page on tables that are due: until when they are fresh, and which period is overdue."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.plugin.answers.schemas import Periods
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import TASK, TRIPS
from tests.support.browsing import PAGE, keep
from tests.support.lake import Lake

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUNNING = Period.of(datetime.now(UTC).replace(tzinfo=None), Grain.MONTH)
LAST, EARLIER = RUNNING.shifted(-1), RUNNING.shifted(-2)


def load(lake: Lake, period: Period) -> None:
    lake.upload(TRIPS, str(period))
    lake.operator(period=str(period), fresh_by="00:00").execute({"ti": TASK})


def seen(as_user: AsUser, lake: Lake) -> dict[str, Any]:
    answer = as_user("viewer").get("/chs3/api/periods").raise_for_status()
    (table,) = Periods.model_validate_json(answer.content, strict=True).model_dump(mode="json")["connections"][0][
        "tables"
    ]
    assert table["database"] == lake.database
    return table


def test_a_period_that_is_due_and_missing_is_overdue(as_user: AsUser, trips_lake: Lake) -> None:
    load(trips_lake, EARLIER)
    table = seen(as_user, trips_lake)
    assert table["freshness"] == {
        "fresh_by": "00:00 UTC",
        "due_at": LAST.end.replace(tzinfo=UTC).timestamp(),
        "next_period": str(LAST),
    }
    published, overdue = table["periods"]
    assert (published["state"], overdue["period"], overdue["state"]) == ("published", str(LAST), "overdue")
    assert overdue["why"] == f"it was due {LAST.end:%Y-%m-%d} 00:00 UTC, and no load has published it"
    assert overdue["since"] == f"{LAST.end:%Y-%m-%d} 00:00:00"
    assert overdue["task"] == published["task"]
    load(trips_lake, LAST)
    table = seen(as_user, trips_lake)
    assert [period["state"] for period in table["periods"]] == ["published", "published"]
    assert table["freshness"]["due_at"] == RUNNING.end.replace(tzinfo=UTC).timestamp()


@pytest.mark.thorough
def test_what_is_overdue_needs_attention_on_the_page(
    trips_lake: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    load(trips_lake, EARLIER)
    page, troubles = open_page(PAGE, role="admin")
    needs = page.get_by_role("region", name="What needs attention")
    needs.get_by_text("Look at the newest run of its DAG").wait_for()
    page.get_by_text("Fresh until").wait_for()
    page.get_by_text(re.compile(r"^\d+ (d|h|min|s) late$")).wait_for()
    keep(page, "overdue")
    assert troubles == []


@pytest.mark.thorough
def test_a_period_is_overdue_until_a_load_looks_again_after_its_end(as_user: AsUser, trips_lake: Lake) -> None:
    load(trips_lake, LAST)
    day_before = LAST.end - timedelta(days=1)
    trips_lake.on_every_node(
        f"ALTER TABLE {trips_lake.database}.chs3_ledger UPDATE recorded_at = '{day_before}' WHERE 1 "
        "SETTINGS mutations_sync = 2"
    )
    (period,) = seen(as_user, trips_lake)["periods"]
    assert period["state"] == "overdue"
    assert "no load has looked for further objects since it ended" in period["why"]
    # As its record is older than the period's end, but for the load's own.
    trips_lake.on_every_node(
        f"ALTER TABLE {trips_lake.database}.chs3_loads UPDATE event = 'gone' WHERE 1 SETTINGS mutations_sync = 2"
    )
    trips_lake.operator(period=str(LAST), fresh_by="00:00").execute({"ti": TASK})
    (period,) = seen(as_user, trips_lake)["periods"]
    assert period["state"] == "published"
