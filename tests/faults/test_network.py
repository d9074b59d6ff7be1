"""Connections between worker and nodes that break at each step of a load."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import count

import pytest

from airflow_provider_chs3.core.steps.operations import Insert, Query, QueryNodes, Step
from airflow_provider_chs3.exceptions import ClickHouseConnectionError, TransientError
from airflow_provider_chs3.testbed.trips import Trips
from tests.support.killing import writes
from tests.support.lake import Lake
from tests.support.narrow_user import narrow_connection
from tests.support.outcome import assert_exact, assert_untouched
from tests.support.proxies import Network, NodeProxy, network
from tests.support.strikes import Strikes

pytestmark = pytest.mark.three_nodes

OLD, NEW = Trips(rows_per_period=900, files_per_period=3), Trips(seed=2, rows_per_period=1_000, files_per_period=3)


@pytest.fixture(params=[False, True], ids=["each", "one_door"])
def between(trips_lake: Lake, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Network]:
    """The worker reaches every node through a proxy alone, its own or that of all."""
    with network(trips_lake.cluster, has_one_door=request.param) as proxies:
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", proxies.airflow_connection())
        yield proxies


def speaks(step: Step) -> bool:
    return isinstance(step, Query | QueryNodes | Insert)


# The steps come from the protocol itself, so that a new one is struck without anyone remembering. Whether a step that
# reads was answered or never reached a node is the same to what comes after.
@pytest.mark.thorough
@pytest.mark.parametrize(("mode", "chosen"), [("ends", speaks), ("refuse", writes)])
def test_a_run_after_connections_broke_at_any_step_ends_in_the_objects_rows(
    trips_lake: Lake, between: Network, strikes: Strikes, mode: str, chosen: Callable[[Step], bool]
) -> None:
    before, trips = None, OLD
    trips_lake.upload(trips)
    for number in count():
        strikes.reset()
        strikes.around_one(number, chosen, lambda: between.struck(mode))
        try:
            trips_lake.load()
        except ClickHouseConnectionError:
            assert strikes.struck, strikes.steps
        if not strikes.struck:
            break
        if not any(name.startswith("Look for what attempts left") for name in strikes.steps):
            # Only looked so far: the next round loads these objects.
            assert_untouched(trips_lake, before)
            assert trips_lake.left_behind() == [], strikes.struck
            continue
        strikes.reset()
        trips_lake.load()
        assert_exact(trips_lake, trips)
        before, trips = trips, NEW if trips is OLD else OLD
        trips_lake.upload(trips)
    assert number > 6
    assert_exact(trips_lake, trips)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    "step", ["Create staging", "Insert", "Record the intent", "Publish", "Record 2026-10 as published"]
)
def test_a_run_after_a_writing_statement_broke_off_ends_in_the_objects_rows(
    trips_lake: Lake, between: Network, strikes: Strikes, step: str
) -> None:
    trips_lake.upload(OLD)
    strikes.around_one(0, lambda each: each.name.startswith(step), lambda: between.struck("begins"))
    with pytest.raises(ClickHouseConnectionError):
        trips_lake.load()
    strikes.reset()
    trips_lake.load()
    assert_exact(trips_lake, OLD)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("step", "mode"), [("Record the intent", "refuse"), ("Publish", "refuse"), ("Publish", "ends")]
)
@pytest.mark.parametrize("between", [False], indirect=True)
def test_a_run_after_one_node_broke_off_while_others_published_ends_in_the_objects_rows(
    trips_lake: Lake, between: Network, strikes: Strikes, step: str, mode: str
) -> None:
    trips_lake.upload(OLD)
    trips_lake.load()
    trips_lake.upload(NEW)
    strikes.around_one(0, lambda each: each.name.startswith(step), lambda: between.struck(mode, 1))
    with pytest.raises(ClickHouseConnectionError, match=r"check that .* is up"):
        trips_lake.load()
    strikes.reset()
    trips_lake.load()
    assert_exact(trips_lake, NEW)
    assert trips_lake.load()["status"] == "unchanged"


@pytest.mark.thorough
def test_a_network_that_stays_down_leaves_what_the_next_run_removes(
    trips_lake: Lake, between: Network, strikes: Strikes
) -> None:
    trips_lake.upload(OLD)
    strikes.before("Count what is staged", lambda: between.strike("refuse"))
    with pytest.raises(ClickHouseConnectionError):
        trips_lake.load()
    assert_untouched(trips_lake, None)
    assert trips_lake.left_behind() != []
    between.strike("pass")
    strikes.reset()
    trips_lake.load()
    assert_exact(trips_lake, OLD)


@pytest.mark.thorough
def test_a_host_that_leads_to_several_servers_is_refused_where_no_cluster_is_named(
    trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    balancer = NodeProxy(*(node.tcp_port for node in trips_lake.cluster.nodes))
    connection = narrow_connection(trips_lake.cluster)
    trips_lake.upload(OLD)
    for port, refusal in ((balancer.port, "leads to several servers"), (connection["port"], None)):
        alone = {**connection, "port": port, "extra": {**connection["extra"], "cluster": None}}
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps(alone))
        with pytest.raises(TransientError, match=refusal) if refusal else nullcontext():
            trips_lake.load(cluster=None)
        assert sum(trips_lake.rows_per_node()) == (0 if refusal else OLD.rows_per_period)
    balancer.stop()


def test_addresses_of_nodes_that_lead_to_a_balancer_or_to_one_server_are_named(
    trips_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = trips_lake.cluster.nodes
    balancer = NodeProxy(*(node.tcp_port for node in nodes))
    connection = narrow_connection(trips_lake.cluster)
    trips_lake.upload(OLD)
    for port, refusal in (
        (balancer.port, r"The address of \S+ leads to several servers \(node\d, node\d"),
        (nodes[0].tcp_port, "lists one server more than once: .* only the connection's node_addresses lead to one"),
        (None, None),
    ):
        addresses = {f"{node.host}:{node.tcp_port}": f"{node.host}:{port or node.tcp_port}" for node in nodes}
        extra = {**connection["extra"], "node_addresses": addresses}
        monkeypatch.setenv("AIRFLOW_CONN_CHS3_DEFAULT", json.dumps({**connection, "extra": extra}))
        with pytest.raises(Exception, match=refusal) if refusal else nullcontext():
            trips_lake.load()
        assert (trips_lake.left_behind(), sum(trips_lake.rows_per_node())) == (
            [],
            0 if refusal else OLD.rows_per_period,
        )
    balancer.stop()
    assert_exact(trips_lake, OLD)
