"""The page on rows that no load wrote: how many, where, since when, by which statement of whom."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import HOSTILE, loaded
from tests.plugin.watching import asked_as_watcher
from tests.support.browsing import PAGE, keep
from tests.support.lake import PERIOD, Lake

if TYPE_CHECKING:
    from playwright.sync_api import Page


LATER, NEVER_LOADED = "2026-11", "2026-12"


def changes(as_user: AsUser, lake: Lake, period: str) -> list[dict[str, Any]]:
    """Return the changes to a period on each node that has any, without times, which must be those of the test."""
    query = {"conn_id": "chs3_default", "database": lake.database, "table": lake.table, "period": period}
    found = as_user("viewer").get("/chs3/api/changes", params=query).raise_for_status().json()
    assert found["error"] == ""
    changed = [node["change"] for node in found["nodes"]]
    times = [each["since"] for each in changed] + [each["at"] for one in changed for each in one["statements"]]
    assert all(time.time() - 3600 < at <= time.time() + 60 for at in times if at is not None)
    return [
        each | {"since": each["since"] is not None, "statements": [one | {"at": 0} for one in each["statements"]]}
        for each in changed
    ]


def insert(lake: Lake, period: str, rows: int) -> None:
    name = lake.table.replace("`", "\\`")
    lake.on_node(
        0,
        f"INSERT INTO {lake.database}.`{name}` (trip_id, pickup_at) "
        f"SELECT number, '{period}-05 00:00:00' FROM numbers({rows})",
    )


@pytest.fixture
def changed(trips_lake: Lake) -> Lake:
    """A period with ten rows more, one with fewer, one that no load has seen."""
    for period in (PERIOD, LATER):
        loaded(trips_lake, period)
    insert(trips_lake, PERIOD, 10)
    insert(trips_lake, NEVER_LOADED, 7)
    delete = f"DELETE IN PARTITION ID '{LATER.replace('-', '')}' WHERE trip_id % 2 = 0"
    trips_lake.on_every_node(f"ALTER TABLE {trips_lake.database}.trips {delete} SETTINGS mutations_sync = 2")
    return trips_lake


@pytest.mark.thorough
def test_what_was_done_is_told_with_rows_node_time_and_user(as_user: AsUser, changed: Lake) -> None:
    user = changed.cluster.nodes[0].credentials.login
    with asked_as_watcher(changed):
        found = {period: changes(as_user, changed, period) for period in (PERIOD, LATER, NEVER_LOADED)}
    more, fewer, unknown = (one for of_period in found.values() for one in of_period)
    inserted = {"what": "INSERT", "user": user, "at": 0}
    assert more == {
        "rows": 610,
        "published_rows": 600,
        "since": True,
        "statements": [inserted | {"rows": 10}],
        "silent": [],
    }
    assert (unknown["rows"], unknown["published_rows"]) == (7, None)
    assert unknown["statements"] == [inserted | {"rows": 7}]
    assert fewer["rows"] < fewer["published_rows"] == 600
    (deleted,) = fewer["statements"]
    # An erasure names what is erased.
    assert deleted["what"] == "ALTER TABLE … DELETE IN PARTITION ID '…' WHERE …"
    assert (deleted["user"], deleted["rows"]) == (user, None)


@pytest.mark.thorough
def test_without_the_rights_on_logs_less_is_told_and_why(as_user: AsUser, changed: Lake) -> None:
    changed.on_every_node("SYSTEM FLUSH LOGS")
    (more,) = changes(as_user, changed, PERIOD)
    assert (more["rows"], more["published_rows"], more["since"], more["statements"]) == (610, 600, True, [])
    assert [each.partition(":")[0] for each in more["silent"]] == ["system.part_log"]
    assert "may not read it; docs/privileges.md has the GRANT" in more["silent"][0]
    (fewer,) = changes(as_user, changed, LATER)
    # Whoever may read the log of queries alone still learns who sent the mutation.
    assert [each["what"] for each in fewer["statements"]] == ["ALTER TABLE … DELETE IN PARTITION ID '…' WHERE …"]


@pytest.mark.thorough
def test_nothing_is_told_of_what_is_as_published_and_names_are_quoted(as_user: AsUser, lake: Lake) -> None:
    lake.table = f"`{HOSTILE}`"
    lake.create_table()
    lake.table = HOSTILE
    loaded(lake)
    with asked_as_watcher(lake):
        assert changes(as_user, lake, PERIOD) == []
    insert(lake, PERIOD, 3)
    with asked_as_watcher(lake):
        (more,) = changes(as_user, lake, PERIOD)
    assert [(each["what"], each["rows"]) for each in more["statements"]] == [("INSERT", 3)]


@pytest.mark.thorough
def test_the_row_says_it_and_the_panel_has_the_line_that_adopts(
    changed: Lake, open_page: Callable[..., tuple[Page, list[str]]]
) -> None:
    user = changed.cluster.nodes[0].credentials.login
    with asked_as_watcher(changed):
        page, troubles = open_page(PAGE, role="admin")
        row = page.get_by_role("region", name="What needs attention").get_by_role("listitem").filter(has_text=PERIOD)
        row.get_by_text(f"INSERT by user {user} since ").wait_for()
        assert "10 rows more on node " in row.inner_text()
        keep(page, "what-somebody-changed")
        page.get_by_role("button", name=f"{PERIOD}: changed by somebody").click()
        panel = page.get_by_role("dialog")
        panel.get_by_text(f"INSERT by user {user} since ").wait_for()
        command = panel.get_by_text("chs3 adopt --conn-id").inner_text()
    table = f"--database {changed.database} --table {changed.table}"
    assert command.startswith(f"chs3 adopt --conn-id chs3_default {table}")
    assert command.endswith(f"--period {PERIOD} --bucket BUCKET --key KEY")
    assert troubles == []
