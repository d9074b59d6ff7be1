"""The page on ledgers that another version of the package made, or somebody dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.plugin.fixture_types import AsUser, Open
from tests.plugin.period_loads import loaded, periods
from tests.support.browsing import PAGE
from tests.support.lake import PERIOD, Lake

SAID = "not created by this version of the package"


@pytest.fixture
def half_read(trips_lake: Lake) -> Iterator[Lake]:
    """A table with periods in two ledgers, one of which has another schema."""
    elsewhere = f"{trips_lake.database}_elsewhere"
    trips_lake.on_every_node(f"CREATE DATABASE {elsewhere}")
    loaded(trips_lake, "2026-11")
    loaded(trips_lake)
    trips_lake.load(staging_database=elsewhere, replace_unknown=True)
    trips_lake.on_every_node(f"ALTER TABLE {trips_lake.database}.chs3_ledger MODIFY COMMENT 'schema 0'")
    trips_lake.on_node(0, f"ALTER TABLE {trips_lake.database}.chs3_loads MODIFY COMMENT 'schema 0'")
    yield trips_lake
    # The page of other tests would show its ledger.
    trips_lake.on_every_node(f"DROP DATABASE {elsewhere}")


def answer(as_user: AsUser, lake: Lake, what: str, **query: Any) -> dict[str, Any]:
    found = as_user("viewer").get(f"/chs3/api/{what}", params=query).raise_for_status().json()
    (connection,) = found["connections"]
    assert f"{lake.database}.chs3_ledger on " in connection["unread"]
    assert SAID in connection["unread"]
    return connection


@pytest.mark.thorough
def test_it_is_named_beside_what_the_others_hold(as_user: AsUser, half_read: Lake) -> None:
    (table,) = answer(as_user, half_read, "periods")["tables"]
    assert {each["period"]: each["ledger_database"] for each in table["periods"]}[
        PERIOD
    ] == f"{half_read.database}_elsewhere"
    assert [load["period"] for load in answer(as_user, half_read, "throughput", days=30)["loads"]] == [PERIOD]


@pytest.mark.thorough
def test_a_person_sees_what_to_do(half_read: Lake, open_page: Open) -> None:
    page, troubles = open_page(PAGE)
    page.get_by_text(SAID).first.wait_for()
    page.get_by_role("button", name=f"{PERIOD}: published").wait_for()
    assert troubles == []


@pytest.mark.thorough
def test_a_ledger_that_was_dropped_is_named(as_user: AsUser, trips_lake: Lake) -> None:
    loaded(trips_lake)
    trips_lake.on_every_node(f"DROP TABLE {trips_lake.database}.chs3_ledger SYNC")
    period = periods(as_user, trips_lake)[PERIOD]
    assert period["state"] == "changed"
    assert period["why"].startswith("loads published it, but the ledger that recorded that was dropped or emptied")


@pytest.mark.thorough
def test_periods_of_a_dropped_ledger_are_told_whichever_node_has_their_rows(as_user: AsUser, own_lake: Lake) -> None:
    own_lake.create_table()
    names = [f"2026-{month:02}" for month in range(1, 7)]
    for name in names:
        loaded(own_lake, name)
    # Only one of the nodes that have rows has records of loads.
    loads = f"SELECT count() FROM system.tables WHERE database = '{own_lake.database}' AND name = 'chs3_loads'"
    assert sorted(rows[0][0] for rows in own_lake.on_every_node(loads)) == [0, 1]
    assert all(own_lake.rows_per_node())
    own_lake.on_every_node(f"DROP TABLE {own_lake.database}.chs3_ledger SYNC")
    assert {name: each["state"] for name, each in periods(as_user, own_lake).items()} == dict.fromkeys(names, "changed")
