"""The page on real loads on a real cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models import TaskInstance
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.utils.session import create_session
from sqlalchemy import update

from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import TASK, TRIPS, fail, loaded, periods
from tests.support.lake import PERIOD, Lake
from tests.support.narrow_user import NARROW, narrow_connection
from tests.support.waiting import wait_until


@pytest.mark.thorough
def test_rows_that_a_lightweight_delete_has_hidden_are_named(as_user: AsUser, trips_lake: Lake) -> None:
    loaded(trips_lake)
    trips_lake.on_every_node(f"DELETE FROM {trips_lake.database}.trips WHERE trip_id % 2 = 0")
    found = periods(as_user, trips_lake)[PERIOD]
    assert (found["state"], found["rows"]) == ("changed", 600)
    assert "its rows include those that a lightweight DELETE has hidden" in found["why"]


def without_cluster(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection names no cluster, and operators do."""
    connection = narrow_connection(lake.cluster)
    del connection["extra"]["cluster"]
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))


def test_a_published_period_is_told_with_what_its_load_did_and_its_task_to_readers_of_its_dag(
    as_user: AsUser, airflow_api: Any, trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips_lake.upload(TRIPS)
    trips_lake.operator().execute({"ti": TASK})
    period = periods(as_user, trips_lake)[PERIOD]
    assert (period["state"], period["why"]) == ("published", "as published")
    assert (period["rows"], period["objects"]) == (600, 3)
    assert period["insert_seconds"] > 0
    assert period["rows_per_second"] > 0
    assert period["published_at"].startswith("20")
    assert period["task"] is None
    monkeypatch.setattr(airflow_api.state.auth_manager, "get_authorized_dag_ids", lambda **_: {"mine", "other"})
    assert periods(as_user, trips_lake)[PERIOD]["task"]["run_id"] == "run"
    assert list(periods(as_user, trips_lake, dag_id="mine")) == [PERIOD]
    assert periods(as_user, trips_lake, dag_id="other") == {}
    # The cluster is known by what was published.
    without_cluster(trips_lake, monkeypatch)
    found = periods(as_user, trips_lake)
    assert (found[PERIOD]["state"], found[PERIOD]["rows"]) == ("published", 600)


@pytest.mark.thorough
def test_before_anything_was_published_the_server_alone_is_shown(
    as_user: AsUser, trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_cluster(trips_lake, monkeypatch)
    (connection,) = as_user("viewer").get("/chs3/api/periods").raise_for_status().json()["connections"]
    assert (connection["cluster"], len(connection["nodes"]), connection["error"]) == (None, 1, "")


@pytest.mark.thorough
def test_a_connection_that_leads_to_the_http_port_says_so(
    as_user: AsUser, trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = trips_lake.cluster.nodes[0]
    connection = narrow_connection(trips_lake.cluster) | {"port": node.http_port}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(connection))
    (found,) = as_user("viewer").get("/chs3/api/periods").raise_for_status().json()["connections"]
    assert found["error"].startswith(f"{node.host}:{node.http_port} speaks HTTP: this is ClickHouse's HTTP port.")


def test_a_period_whose_mutation_failed_is_stuck(as_user: AsUser, trips_lake: Lake) -> None:
    loaded(trips_lake)
    name = f"{trips_lake.database}.trips"
    trips_lake.on_every_node(f"ALTER TABLE {name} DELETE WHERE throwIf(trip_id >= 0, 'no') SETTINGS mutations_sync = 0")
    failed = (
        f"SELECT count() FROM system.mutations WHERE database = '{trips_lake.database}' AND latest_fail_reason != ''"
    )
    wait_until(lambda: any(rows[0][0] for rows in trips_lake.on_every_node(failed)))
    period = periods(as_user, trips_lake)[PERIOD]
    trips_lake.on_every_node(period["statement"])
    left = trips_lake.on_every_node(f"SELECT count() FROM system.mutations WHERE database = '{trips_lake.database}'")
    trips_lake.on_every_node(f"KILL MUTATION WHERE database = '{trips_lake.database}' SYNC")
    assert [rows[0][0] for rows in left] == [0] * len(left)
    assert period["state"] == "stuck"
    assert period["why"].count("KILL MUTATION") == 1
    assert period["statement"].startswith("KILL MUTATION WHERE database = ")


def test_rows_of_others_are_told(as_user: AsUser, trips_lake: Lake) -> None:
    loaded(trips_lake)
    insert = f"INSERT INTO {trips_lake.database}.trips (trip_id, pickup_at) VALUES (1, '{{}}-05 00:00:00')"
    for period in (PERIOD, "2026-12"):
        trips_lake.on_node(0, insert.format(period))
    found = periods(as_user, trips_lake)
    assert {period: each["state"] for period, each in found.items()} == {
        PERIOD: "changed",
        "2026-11": "never_loaded",
        "2026-12": "changed",
    }
    assert found["2026-12"]["why"].startswith("the partition holds rows that no load wrote")


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("is_published_before", [False, True])
def test_a_load_that_failed_is_told_with_its_error(
    as_user: AsUser, trips_lake: Lake, is_published_before: bool
) -> None:
    if is_published_before:
        loaded(trips_lake)
    fail(trips_lake, TASK)
    period = periods(as_user, trips_lake)[PERIOD]
    assert (period["state"], period["rows"]) == ("failed", 600 if is_published_before else 0)
    assert period["why"].startswith("its newest load failed: Column 'trip_id' cannot be filled from row 1 of")


@pytest.mark.thorough
def test_the_values_that_an_error_quotes_are_for_readers_of_the_logs(
    as_user: AsUser, airflow_api: Any, trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(trips_lake, TASK)
    asked = []

    def is_authorized(*, details: Any, access_entity: Any = None, **_: Any) -> bool:
        if access_entity is None:
            # Which DAGs there are, if tests before have left some in the database.
            return True
        asked.append((details.id, access_entity.value))
        return False

    monkeypatch.setattr(airflow_api.state.auth_manager, "is_authorized_dag", is_authorized)
    why = periods(as_user, trips_lake)[PERIOD]["why"]
    question = {"conn_id": "chs3_default", "database": trips_lake.database, "table": "trips", "period": PERIOD}
    failure = as_user("viewer").get("/chs3/api/period", params=question).json()["failure"]
    assert why.startswith("its newest load failed: SourceError")
    assert "row 1" not in why
    assert (failure["type"], failure["message"]) == ("SourceError", None)
    # Loads of other tests may have failed, too.
    assert ("mine", "TASK_LOGS") in asked
    assert {entity for _, entity in asked} == {"TASK_LOGS"}


@pytest.mark.thorough
def test_a_first_load_that_failed_before_it_inserted_is_told_too(as_user: AsUser, trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    with pytest.raises(AirflowFailException):
        trips_lake.operator(select={"trip_id": "no_such_column", "pickup_at": "pickup_at"}).execute({"ti": TASK})
    period = periods(as_user, trips_lake)[PERIOD]
    assert period["state"] == "failed"
    assert "no_such_column" in period["why"]


@pytest.mark.thorough
def test_what_follows_a_failure_makes_it_old(as_user: AsUser, trips_lake: Lake) -> None:
    loaded(trips_lake)
    for _ in range(2):
        fail(trips_lake, TASK)
        loaded(trips_lake)  # first anew, then unchanged
        assert periods(as_user, trips_lake)[PERIOD]["state"] == "published"


def test_an_attempt_that_died_leaves_its_period_unfinished(as_user: AsUser, trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)

    def die(runner: Runner, step: Any) -> None:
        raise KeyboardInterrupt

    operator = trips_lake.operator()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, "insert", die)
        with pytest.raises(KeyboardInterrupt):
            operator.execute({"ti": TASK})
    found = periods(as_user, trips_lake)[PERIOD]
    assert (found["state"], found["why"]) == (
        "unfinished",
        "its newest load ended without publishing; the partition was never loaded",
    )
    trips_lake.load()


@pytest.mark.thorough
def test_a_load_whose_task_goes_on_is_loading_though_no_query_of_it_runs(
    as_user: AsUser, trips_lake: Lake, run_dag: Callable[..., Any]
) -> None:
    with DAG(dag_id="goes_on", schedule=None) as dag:
        EmptyOperator(task_id=TASK.task_id)
    run = run_dag(dag)
    fail(trips_lake, SimpleNamespace(**vars(TASK) | {"dag_id": run.dag_id, "run_id": run.run_id}))
    states = {}
    for state in ("deferred", "failed"):
        with create_session() as session:
            session.execute(update(TaskInstance).where(TaskInstance.run_id == run.run_id).values(state=state))
        states[state] = periods(as_user, trips_lake)[PERIOD]["state"]
    assert states == {"deferred": "loading", "failed": "failed"}


class TestDown:
    def test_each_view_says_so_and_shows_what_is_known(
        self, own_cluster: ClickHouseCluster, own_lake: Lake, as_user: AsUser
    ) -> None:
        def seen(view: str) -> dict[str, Any]:
            (connection,) = as_user("viewer").get(f"/chs3/api/{view}").raise_for_status().json()["connections"]
            return dict(connection)

        own_lake.create_table()
        loaded(own_lake)
        own_cluster.kill(1)
        one_down = {view: seen(view) for view in ("periods", "throughput", "cluster")}
        for found in one_down.values():
            assert [bool(node["error"]) for node in found["nodes"]] == [False, True]
        nodes = one_down["periods"]["nodes"]
        # Its address is right: nobody is sent to look for another.
        assert f"check that {nodes[1]['name']} is up" in nodes[1]["error"]
        assert "node_addresses" not in nodes[1]["error"]
        assert one_down["periods"]["tables"][0]["periods"][0]["state"] == "published"
        assert [load["rows"] for load in one_down["throughput"]["loads"]] == [600]
        up, down = (node["state"] for node in one_down["cluster"]["nodes"])
        assert (up["version"].split(".")[0].isdigit(), down) == (True, None)
        own_cluster.kill(0)
        known = {"periods": ("tables",), "throughput": ("loads",), "cluster": ("nodes", "seen_at")}
        for view, names in known.items():
            all_down = seen(view)
            assert str(own_cluster.nodes[0].tcp_port) in all_down["error"]
            assert NARROW.password not in json.dumps(all_down)
            assert [all_down[name] for name in names] == [one_down[view][name] for name in names]
        own_cluster.restart(0)
        own_cluster.restart(1)

    @pytest.mark.thorough
    def test_a_node_whose_name_the_worker_does_not_know_is_told_of_its_address(
        self, own_cluster: ClickHouseCluster, own_lake: Lake, as_user: AsUser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own_lake.create_table()
        loaded(own_lake)
        given = narrow_connection(own_cluster)
        second = own_cluster.nodes[1]
        given["extra"] |= {"node_addresses": {f"{second.host}:{second.tcp_port}": "no-such-node.invalid:9000"}}
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(given))
        (found,) = as_user("viewer").get("/chs3/api/periods").json()["connections"]
        assert [bool(node["error"]) for node in found["nodes"]] == [False, True]
        assert "set that in the connection's node_addresses" in found["nodes"][1]["error"]
