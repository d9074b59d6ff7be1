"""The page on the nodes of a real cluster."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_provider_chs3.testbed.trips import Trips
from tests.plugin.fixture_types import AsUser
from tests.plugin.period_loads import TASK, TRIPS, loaded, loading, periods
from tests.support.deferring import Gate, gate
from tests.support.lake import PERIOD, Lake
from tests.support.narrow_user import narrow_connection

pytestmark = pytest.mark.three_nodes

#: Fixtures.
__all__ = ["gate"]


def cluster(as_user: AsUser) -> dict[str, Any]:
    """The cluster as the page gets it."""
    (connection,) = as_user("viewer").get("/chs3/api/cluster").raise_for_status().json()["connections"]
    return connection


def states(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what each node has and does."""
    return [node["state"] for node in found["nodes"]]


def test_every_node_tells_version_size_and_disks(as_user: AsUser, trips_lake: Lake) -> None:
    found = cluster(as_user)
    assert (found["error"], found["cluster"]) == ("", trips_lake.cluster.name)
    assert len(found["nodes"]) == len(trips_lake.cluster.nodes)
    assert [node["error"] for node in found["nodes"]] == [""] * len(found["nodes"])
    for state in states(found):
        assert state["version"].split(".")[0].isdigit()
        assert state["size"]["source"] == "measured"
        assert state["size"]["spec"] == state["measured"]
        (disk,) = state["disks"]
        assert 0 < disk["free_bytes"] < disk["total_bytes"]
        assert state["pool_size"] > 0


@pytest.mark.thorough
def test_what_the_connection_declares_is_told(
    as_user: AsUser, trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = narrow_connection(trips_lake.cluster)
    declared["extra"] |= {"node_specs": {"default": {"cores": 1, "memory": "1GiB"}}}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(declared))
    sizes = [state["size"] for state in states(cluster(as_user))]
    assert sizes == [
        {"spec": {"cores": 1, "memory_bytes": 1024**3}, "source": "connection's node_specs", "note": ""}
    ] * len(trips_lake.cluster.nodes)


@pytest.mark.thorough
def test_the_table_nearest_to_its_own_limits_comes_first(as_user: AsUser, trips_lake: Lake) -> None:
    loaded(trips_lake)
    small = f"{trips_lake.database}.small"
    trips_lake.on_node(
        0, f"CREATE TABLE {small} (id Int8) ENGINE = MergeTree ORDER BY id SETTINGS parts_to_delay_insert = 1"
    )
    trips_lake.on_node(0, f"INSERT INTO {small} VALUES (1)")
    fullest = [each for state in states(cluster(as_user)) for each in state["fullest"]]
    nearest = next(each for each in fullest if each["table"] == "small")
    assert (nearest["partition_parts"], nearest["parts_to_delay_insert"], nearest["inserts"]) == (1, 1, "delayed")
    first = {state["fullest"][0]["table"] for state in states(cluster(as_user)) if nearest in state["fullest"]}
    assert first == {"small"}
    assert "trips" in {each["table"] for each in fullest}


def loads_into(lake: Lake, told: Any) -> list[Any]:
    """Those of other tests may still be about to end."""
    return [each for each in told["loads"] if each["table"] == f"{lake.database}.{lake.table}"]


def test_a_load_at_work_is_told_with_its_progress_and_its_task_to_those_who_may_read_its_dag(
    as_user: AsUser, airflow_api: Any, trips_lake: Lake, monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    trips_lake.upload(TRIPS)
    with loading(trips_lake, gate):
        period = periods(as_user, trips_lake)[PERIOD]
        (load,) = loads_into(trips_lake, cluster(as_user))
        monkeypatch.setattr(airflow_api.state.auth_manager, "get_authorized_dag_ids", lambda **_: {TASK.dag_id})
        (to_its_reader,) = loads_into(trips_lake, cluster(as_user))
    assert (load["table"], load["period"], load["total_rows"]) == (f"{trips_lake.database}.trips", PERIOD, 600)
    assert load["insert"]["query_id"].startswith("chs3_")
    assert load["insert"]["peak_memory_bytes"] > 0
    assert (load["task"], to_its_reader["task"]["run_id"]) == (None, TASK.run_id)
    assert (period["state"], period["insert"]["total_rows"]) == ("loading", 600)
    # It reads ahead of what it writes.
    assert 0 <= period["insert"]["read_rows"] <= 600
    assert period["insert"]["query_id"].startswith("chs3_")
    assert periods(as_user, trips_lake)[PERIOD]["state"] == "published"


@pytest.mark.thorough
def test_an_insert_is_told_though_no_ledger_names_it(as_user: AsUser, trips_lake: Lake) -> None:
    query_id = "chs3_of_no_ledger_insert1"
    sql = "INSERT INTO FUNCTION null('x UInt8') SELECT sleepEachRow(0.1) FROM numbers(600) SETTINGS max_block_size = 1"
    with trips_lake.cluster.nodes[0].client() as client, ThreadPoolExecutor() as pool:
        asleep = pool.submit(client.execute, sql, query_id=query_id)
        found: list[Any] = []
        while not found and not asleep.done():
            found = [each for each in cluster(as_user)["loads"] if each["insert"]["query_id"] == query_id]
        trips_lake.on_node(0, f"KILL QUERY WHERE query_id = '{query_id}' SYNC")
        assert asleep.exception()
    (load,) = found
    assert (load["table"], load["period"], load["task"]) == (None, None, None)


@pytest.mark.thorough
def test_merges_are_told_with_their_progress(as_user: AsUser, trips_lake: Lake) -> None:
    name = f"{trips_lake.database}.slow"
    # Its mutation sleeps for 2 s, in which the page's first answer, which imports, might not come.
    cluster(as_user)
    # An expression without columns is computed once on 25.8.
    trips_lake.on_node(0, f"CREATE TABLE {name} (id UInt32) ENGINE = MergeTree ORDER BY id")
    trips_lake.on_node(0, f"INSERT INTO {name} SELECT number FROM numbers(100)")
    trips_lake.on_node(0, f"ALTER TABLE {name} DELETE WHERE sleepEachRow(0.02) + id > 1000 SETTINGS mutations_sync = 0")
    found: list[Any] = []
    for _ in range(50):
        found = [each for state in states(cluster(as_user)) for each in state["merges"] if each["table"] == "slow"]
        if found:
            break
    trips_lake.on_node(0, f"KILL MUTATION WHERE database = '{trips_lake.database}' SYNC")
    assert (found[0]["database"], found[0]["is_mutation"], found[0]["parts"]) == (trips_lake.database, True, 1)
    assert 0 <= found[0]["progress"] <= 1


@pytest.mark.thorough
@pytest.mark.parametrize("view", ["cluster", "throughput"])
def test_a_cluster_to_which_two_connections_lead_is_told_once(
    as_user: AsUser, trips_lake: Lake, monkeypatch: pytest.MonkeyPatch, view: str
) -> None:
    def connections() -> list[dict[str, Any]]:
        return as_user("viewer").get(f"/chs3/api/{view}").raise_for_status().json()["connections"]

    loaded(trips_lake)
    (alone,) = connections()
    wrong = json.loads(os.environ["AIRFLOW_CONN_CHS3_DEFAULT"]) | {"password": "wrong"}
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_OTHER", os.environ["AIRFLOW_CONN_CHS3_DEFAULT"])
    monkeypatch.setenv("AIRFLOW_CONN_CHS3_WRONG", json.dumps(wrong))
    found, with_error = connections()
    assert (found["conn_ids"], with_error["conn_ids"]) == (["chs3_default", "chs3_other"], ["chs3_wrong"])
    assert (found["error"], bool(with_error["error"])) == ("", True)
    for name in ("cluster", "loads"):
        assert found[name] == alone[name]
    assert [node["name"] for node in found["nodes"]] == [node["name"] for node in alone["nodes"]]


@pytest.mark.thorough
def test_progress_is_the_same_on_both_views_where_nodes_are_done_at_different_times(
    as_user: AsUser, trips_lake: Lake
) -> None:
    trips_lake.upload(Trips(rows_per_period=1_000, files_per_period=5))
    large = Trips(seed=2, rows_per_period=2_000, files_per_period=1)
    large.upload(trips_lake.s3, PERIOD, bucket=trips_lake.bucket, prefix=f"trips/{PERIOD}/large-")
    compared = []
    with loading(trips_lake):
        while insert := periods(as_user, trips_lake)[PERIOD]["insert"]:
            loads = [each for each in cluster(as_user)["loads"] if each["period"] == PERIOD and each["insert"]]
            after = periods(as_user, trips_lake)[PERIOD]["insert"]
            # The views can only be compared if nothing was read in between.
            if loads and after and after["read_rows"] == insert["read_rows"]:
                (load,) = loads
                told = (load["insert"]["read_rows"], load["insert"]["read_bytes"], load["total_rows"])
                assert told == (insert["read_rows"], insert["read_bytes"], 3_000)
                compared.append((insert["read_rows"], len(insert["nodes"])))
    assert compared == sorted(compared, key=lambda each: each[0])
    # Also where the other nodes were done, whose rows count on.
    assert min(nodes for _, nodes in compared) < 3, compared
    assert max(rows for rows, nodes in compared if nodes < 3) > 1_000, compared
