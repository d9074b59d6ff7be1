"""One shard of two replicas, as far as servers can be like ClickHouse Cloud.

A Replicated database behind a load balancer, and a user without what is not there (`AS_ON_CLOUD`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.testbed.balancer import LoadBalancer
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.programs import keeper
from tests.plugin.conftest import airflow_api, as_user, fresh_looks
from tests.support.lake import PERIOD, Lake, lake_on
from tests.support.narrow_user import AS_ON_CLOUD, WATCHER, narrow_connection
from tests.support.rehearsing import Rehearse, rehearse
from tests.support.replicas import OTHER, TRIPS, replicated

#: Fixtures.
__all__ = ["airflow_api", "as_user", "fresh_looks", "rehearse"]


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[ClickHouseCluster, LoadBalancer]]:
    if why := keeper.missing():
        pytest.skip(why)
    with (
        ClickHouseCluster.start(2, replicas=2, program="server", **AS_ON_CLOUD) as cluster,
        LoadBalancer.start(cluster) as door,
    ):
        yield cluster, door


@pytest.fixture
def lake(
    service: tuple[ClickHouseCluster, LoadBalancer], chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    cluster, door = service
    with lake_on(cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(narrow_connection(cluster, through=door)))
        lake.create_table(engine=replicated(lake))
        lake.upload(TRIPS)
        yield lake


def test_a_night(lake: Lake) -> None:
    assert lake.load(wait_for_merges=True)["merges"]["health"] == "healthy"
    assert lake.load()["status"] == "unchanged"
    lake.upload(OTHER)
    assert lake.load()["status"] == "published"
    assert lake.facts() == OTHER.facts(PERIOD)
    lake.on_every_node(f"SYSTEM SYNC REPLICA {lake.database}.{lake.table}")
    assert lake.rows_per_node() == [14_000] * 2


def test_the_doctor_says_what_is_missing_and_what_that_costs(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--database", lake.database, "--cluster", lake.cluster.name, "--table", lake.table])
    out, err = capsys.readouterr()
    assert (code, err) == (0, ""), out
    assert "the user lacks SELECT ON system.replication_queue: merge health then waits for all parts" in out


@pytest.mark.thorough
def test_the_page_shows_all_but_the_entries_of_queues_and_says_so(
    service: tuple[ClickHouseCluster, LoadBalancer], lake: Lake, as_user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.load()
    watcher = service[1].airflow_connection() | {"login": WATCHER.login, "password": WATCHER.password}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(watcher))
    of_period = f"conn_id=chs3_default&database={lake.database}&table={lake.table}&period={PERIOD}"

    def ask(view: str) -> Any:
        return as_user("viewer").get(f"/chs3/api/{view}").raise_for_status().json()

    lake.on_node(1, f"SYSTEM STOP FETCHES {lake.database}.{lake.table}")
    try:
        lake.on_node(
            0, f"INSERT INTO {lake.database}.{lake.table} (trip_id, pickup_at) VALUES (1, '2026-11-05 00:00:00')"
        )
        states = [node["state"] for node in ask("cluster")["connections"][0]["nodes"]]
    finally:
        lake.on_node(1, f"SYSTEM START FETCHES {lake.database}.{lake.table}")
    assert sorted((state["replication"]["queued"], state["replication"]["oldest"]) for state in states) == [
        (0, []),
        (1, []),
    ]
    assert [state["unread"] for state in states if state["replication"]["queued"]] == [
        ["system.replication_queue: the connection's user may not read it; docs/privileges.md has the GRANT"]
    ]
    (period,) = (each for each in ask("periods")["connections"][0]["tables"][0]["periods"] if each["period"] == PERIOD)
    assert (period["state"], period["rows"]) == ("published", TRIPS.rows_per_period)
    for view in ("throughput", "cluster"):
        (connection,) = ask(view)["connections"]
        assert [connection["error"], *(node["error"] for node in connection["nodes"])] == ["", "", ""]
    details = [ask(f"{view}?{of_period}") for view in ("period", "parts", "objects", "changes")]
    assert [each["error"] for each in details] == [""] * 4
    assert len(details[2]["objects"]) == TRIPS.files_per_period


@pytest.mark.thorough
def test_an_engine_that_nobody_has_tested_is_loaded_once_a_rehearsal_has_passed(
    service: tuple[ClickHouseCluster, LoadBalancer], lake: Lake, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_chs3.core.target.table_facts._UNTESTED", ("Replicated",))
    with pytest.raises(AirflowFailException, match=f"rehearse --like {lake.database}.trips"):
        lake.load()
    # Rehearsals may create tables, which the user of loads may not everywhere.
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(service[1].airflow_connection()))
    code, out, err = rehearse("--like", lake.table)
    assert (code, err) == (0, ""), out
    assert "a new connection for each statement: published" in out
    assert lake.load()["status"] == "published"
    assert lake.facts() == TRIPS.facts(PERIOD)
