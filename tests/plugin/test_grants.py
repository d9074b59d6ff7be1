"""The page takes no more of ClickHouse's users than docs/privileges.md grants."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import loaded
from tests.support.lake import Lake
from tests.support.narrow_user import WATCHER

pytestmark = pytest.mark.three_nodes


@pytest.fixture
def watched(trips_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A period that a loader has loaded; the page asks as another user."""
    if not isinstance(trips_lake.cluster, ClickHouseCluster):
        pytest.skip("the users of servers that are none of this machine's are as they are")
    loaded(trips_lake)
    connection = trips_lake.cluster.airflow_connection() | {"login": WATCHER.login, "password": WATCHER.password}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    return trips_lake


def asked(as_user: AsUser, view: str) -> dict[str, Any]:
    (connection,) = as_user("viewer").get(f"/chs3/api/{view}").raise_for_status().json()["connections"]
    assert (connection["error"], [node["error"] for node in connection["nodes"] if node["error"]]) == ("", [])
    return connection


@pytest.mark.thorough
def test_periods_are_told_to_whom_the_page_may_ask_as(as_user: AsUser, watched: Lake) -> None:
    (table,) = asked(as_user, "periods")["tables"]
    assert [(table["database"], period["state"], period["rows"]) for period in table["periods"]] == [
        (watched.database, "published", 600)
    ]


@pytest.mark.thorough
def test_nodes_are_told_to_whom_the_page_may_ask_as(as_user: AsUser, watched: Lake) -> None:
    nodes = asked(as_user, "cluster")["nodes"]
    assert min(node["state"]["measured"]["memory_bytes"] for node in nodes) > 0
    assert "trips" in {each["table"] for node in nodes for each in node["state"]["fullest"]}


def test_a_connection_that_is_refused_tells_what_to_do(
    as_user: AsUser, trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = json.loads(os.environ["AIRFLOW_CONN_CHS3_DEFAULT"]) | {"password": "of somebody else"}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(given))
    (connection,) = as_user("viewer").get("/chs3/api/periods").raise_for_status().json()["connections"]
    assert "Authentication failed" in connection["error"]
    assert "no user with such name. The login or the password is wrong: correct those of" in connection["error"]
    assert "of somebody else" not in connection["error"]
